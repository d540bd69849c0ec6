/* nodes_elementwise.c - nodes that are one elementwise op, and those that need a rule of their own. */
#include <string.h>

#include "program/walk.h"
#include "neap/ops.h"

#define UNARY(node, op)                                                                            \
    NP_BUILD(node)                                                                                 \
    {                                                                                              \
        return np_put(w, n->out, neap_##op(np_get(w, n->x)));                                      \
    }
#define BINARY(node, op)                                                                           \
    NP_BUILD(node)                                                                                 \
    {                                                                                              \
        return np_put(w, n->out, neap_##op(np_get(w, n->a), np_get(w, n->b)));                     \
    }

NP_BUILD(noop)
{
    (void)w;
    (void)n;
    return true;
}

/* A re-binding: tensors are values, so nothing is copied. */
NP_BUILD(id_copy)
{
    return np_put(w, n->out, np_get(w, n->x));
}

UNARY(silu, silu)
UNARY(sigmoid, sigmoid)
UNARY(tanh, tanh)
UNARY(rsqrt, rsqrt)
UNARY(log, log)
UNARY(floor, floor)
UNARY(ceil, ceil)
UNARY(square, square)
UNARY(exp, exp)
UNARY(sin, sin)
UNARY(cos, cos)
UNARY(tan, tan)
UNARY(arcsin, arcsin)
UNARY(arccos, arccos)
UNARY(arctan, arctan)
UNARY(sinh, sinh)
UNARY(cosh, cosh)
UNARY(arcsinh, arcsinh)
UNARY(arccosh, arccosh)
UNARY(arctanh, arctanh)
UNARY(log2, log2)
UNARY(log10, log10)
UNARY(log1p, log1p)
UNARY(erf, erf)
UNARY(expm1, expm1)
UNARY(reciprocal, reciprocal)
UNARY(sqrt, sqrt)
UNARY(abs, abs)
UNARY(neg, neg)
UNARY(sign, sign)
UNARY(trunc, trunc)
UNARY(logical_not, logical_not)
UNARY(bitwise_invert, bitwise_invert)

BINARY(add, add)
BINARY(subtract, sub)
BINARY(multiply, mul)
BINARY(divide, div)
BINARY(maximum, maximum)
BINARY(minimum, minimum)
BINARY(less, less)
BINARY(less_equal, less_equal)
BINARY(greater, greater)
BINARY(greater_equal, greater_equal)
BINARY(equal, equal)
BINARY(not_equal, not_equal)
BINARY(logical_and, logical_and)
BINARY(logical_or, logical_or)
BINARY(atan2, arctan2)
BINARY(log_add_exp, logaddexp)
BINARY(floor_divide, floor_divide)
BINARY(power, pow)
BINARY(remainder, remainder)
BINARY(bitwise_and, bitwise_and)
BINARY(bitwise_or, bitwise_or)
BINARY(bitwise_xor, bitwise_xor)

NP_BUILD(round)
{
    neap_array *x = np_get(w, n->x);
    return np_put(w, n->out, n->decimals ? neap_round_decimals(x, n->decimals) : neap_round(x));
}

NP_BUILD(gelu)
{
    neap_array *x = np_get(w, n->x);
    const bool tanh_form = strcmp(n->approximate, "tanh") == 0;
    if (!tanh_form && strcmp(n->approximate, "none") != 0)
        return np_node_fail(w, NEAP_EUNSUPPORTED, "approximation %.40s, there are none, tanh",
                            n->approximate);
    return np_put(w, n->out, tanh_form ? neap_gelu_tanh(x) : neap_gelu(x));
}

NP_BUILD(where)
{
    return np_put(w, n->out, neap_where(np_get(w, n->condition), np_get(w, n->x), np_get(w, n->y)));
}

NP_BUILD(clip)
{
    neap_array *x = np_get(w, n->x);
    if (n->a_min >= 0)
        x = neap_maximum(x, np_get(w, n->a_min));
    if (n->a_max >= 0)
        x = neap_minimum(x, np_get(w, n->a_max));
    return np_put(w, n->out, x);
}

NP_BUILD(as_type)
{
    return np_put(w, n->out, neap_cast(np_get(w, n->x), n->scalar_type));
}

NP_BUILD(contiguous)
{
    return np_put(w, n->out, neap_contiguous(np_get(w, n->x)));
}
