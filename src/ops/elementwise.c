/* elementwise.c - the ops that work on one element at a time, built from the rows of
 * cpu/elementwise.def; where, cast and what is made of others.
 *
 * A builder brings its inputs to one dtype with casts and to one shape with views, so that a run
 * sees operands of the result's shape. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/support.h"

typedef enum np_operands { FLOAT, NUMBER, ALL, BOOL, INTEGER, WHOLE, FRACTION } np_operands;

/* ---- building ------------------------------------------------------------------------------- */

/* The dtype in which inputs of dtype `d` are computed. */
static bool computed(const char *op, neap_array *const *in, uint32_t n, np_operands operands,
                     neap_dtype *d)
{
    if (operands == BOOL)
        *d = NEAP_BOOL;
    else if (operands == FLOAT && !np_is_float(*d))
        *d = NEAP_F32;
    else if (operands == WHOLE && *d == NEAP_BOOL)
        *d = NEAP_U8;
    else if (operands == NUMBER && *d == NEAP_BOOL)
        return np_refuse(op, n, in, NEAP_EDTYPE, "not for bool") != NULL;
    else if ((operands == INTEGER || operands == WHOLE) && np_is_float(*d))
        return np_refuse(op, n, in, NEAP_EDTYPE, "integers only") != NULL;
    return true;
}

/* Are x's elements all of its storage, in another order of dimensions? Then `shape` is of that order. */
static bool permuted(const neap_array *x, int64_t *shape, int *order)
{
    if (!x->base || x->offset || x->shift || x->dynamic_dim >= 0 ||
        neap_array_size(x) != neap_array_size(x->base) || neap_array_size(x) == 0 ||
        np_is_row_major(x->rank, x->shape, x->strides))
        return false;
    for (int d = 0; d < x->rank; d++) {
        int at = d;
        for (; at > 0 && x->strides[order[at - 1]] < x->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t next = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        shape[d] = x->shape[order[d]];
        if (shape[d] != 1 && x->strides[order[d]] != next)
            return false;
        next *= shape[d];
    }
    return true;
}

/* As the elements of all inputs lie that are not broadcast, if they lie alike: what comes next may then go on
 * in that order, and a convolution's result is not turned. */
static neap_array *lying_node(const np_op *op, uint32_t n, neap_array **in)
{
    int order[NEAP_MAX_RANK], other[NEAP_MAX_RANK], found = 0;
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK], back[NEAP_MAX_RANK];
    for (uint32_t i = 0; i < n; i++) {
        if (!in[i])
            return NULL;
        if (in[i]->dynamic_dim < 0 && neap_array_size(in[i]) > neap_array_size(np_storage(in[i])))
            continue; /* broadcast */
        if (!permuted(in[i], shape, found ? other : order) ||
            (found++ && memcmp(order, other, (size_t)in[i]->rank * sizeof *order)))
            return np_node(op, n, in, NULL, 0);
    }
    if (!found)
        return np_node(op, n, in, NULL, 0);
    neap_array *turned[3];
    const int rank = in[0]->rank;
    for (uint32_t i = 0; i < n; i++)
        turned[i] = neap_transpose(in[i], order);
    neap_array *y = np_node(op, n, turned, NULL, 0);
    np_row_major(rank, shape, strides);
    for (int d = 0; d < rank; d++)
        back[order[d]] = strides[d];
    return y ? np_view(y, rank, in[0]->shape, back, 0) : NULL;
}

/* Brings inputs first .. n-1 to dtype d and all of them to one shape. */
static neap_array *node(const np_op *op, uint32_t n, neap_array *const *given, uint32_t first,
                        neap_dtype d)
{
    neap_array *in[3];
    np_extents e;
    if (!np_broadcast(op->name, n, given, &e))
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        in[i] = np_broadcast_view(op->name, i < first ? given[i] : neap_cast(given[i], d), &e);
    return lying_node(op, n, in);
}

/* Of one input, in the order in which its elements lie: the result may then take their place. */
static neap_array *unary_node(const np_op *op, neap_array *x, const void *attr, size_t attr_bytes)
{
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    int order[NEAP_MAX_RANK];
    if (!permuted(x, shape, order))
        return np_node(op, 1, &x, attr, attr_bytes);
    np_row_major(x->rank, shape, strides);
    neap_array *as_it_lies = np_view(x, x->rank, shape, strides, 0);
    neap_array *y = as_it_lies ? np_node(op, 1, &as_it_lies, attr, attr_bytes) : NULL;
    return y ? np_view(y, x->rank, x->shape, x->strides, 0) : NULL;
}

static neap_array *build(const np_op *op, uint32_t n, neap_array *const *in, np_operands operands)
{
    neap_dtype d;
    if (!np_ready(n, in) || !np_promote_all(op->name, n, in, &d) ||
        !computed(op->name, in, n, operands, &d))
        return NULL;
    if (operands == FRACTION && !np_is_float(d))
        return in[0];
    if (n == 1) {
        neap_array *x = neap_cast(in[0], d);
        return x ? unary_node(op, x, NULL, 0) : NULL;
    }
    return node(op, n, in, 0, d);
}

static bool like_first(neap_array *out)
{
    np_infer_like(out, out->in[0]);
    out->dtype = out->in[0]->dtype;
    return true;
}

static bool bool_like_first(neap_array *out)
{
    np_infer_like(out, out->in[0]);
    out->dtype = NEAP_BOOL;
    return true;
}

/* ---- running -------------------------------------------------------------------------------- */

typedef struct np_span_user {
    np_unary_fn unary;
    np_binary_fn binary; /* comparisons too */
    np_where_fn where;
} np_span_user;

static void unary_span(const void *user, void *const *at, const int *step, int64_t n)
{
    (void)step;
    ((const np_span_user *)user)->unary(at[0], at[1], n);
}

static void binary_span(const void *user, void *const *at, const int *step, int64_t n)
{
    ((const np_span_user *)user)->binary(at[0], at[1], at[2], n, step[1], step[2]);
}

static void where_span(const void *user, void *const *at, const int *step, int64_t n)
{
    ((const np_span_user *)user)->where(at[0], at[1], at[2], at[3], n, step[1], step[2], step[3]);
}

static neap_status run_unary(const np_call *c, const np_unary_fn *table)
{
    np_span_user user = {.unary = table[c->in[0]->dtype]};
    np_spans_call(c, true, unary_span, &user);
    return NEAP_OK;
}

static neap_status run_binary(const np_call *c, const np_binary_fn *table)
{
    np_span_user user = {.binary = table[c->in[0]->dtype]};
    np_spans_call(c, false, binary_span, &user);
    return NEAP_OK;
}

/* ---- in chains ------------------------------------------------------------------------------ */

static bool unary_chain(const np_call *c, np_chain_op *out, np_chain_code code,
                        const np_unary_fn *table)
{
    out->code = c->in[0]->dtype == NEAP_F32 ? code : NP_CHAIN_UNARY;
    out->fn.unary = table[c->in[0]->dtype];
    return out->fn.unary != NULL;
}

static bool binary_chain(const np_call *c, np_chain_op *out, np_chain_code code,
                         const np_binary_fn *table)
{
    out->code = c->in[0]->dtype == NEAP_F32 ? code : NP_CHAIN_BINARY;
    out->fn.binary = table[c->in[0]->dtype];
    return out->fn.binary != NULL;
}

/* ---- the rows ------------------------------------------------------------------------------- */

/* What costs hardly more than a load and a store: functions of floats do, and what divides. */
#define CHEAP_FLOAT 0
#define CHEAP_NUMBER NP_OP_CHEAP
#define CHEAP_ALL NP_OP_CHEAP
#define CHEAP_BOOL NP_OP_CHEAP
#define CHEAP_INTEGER NP_OP_CHEAP
#define CHEAP_WHOLE NP_OP_CHEAP
#define CHEAP_FRACTION NP_OP_CHEAP
#define FLAGS(operands, code)                                                               \
    (NP_OP_ELEMENTWISE | ((code) == NP_CHAIN_pow || (code) == NP_CHAIN_floor_divide ||      \
                                  (code) == NP_CHAIN_remainder                              \
                              ? 0                                                           \
                              : CHEAP_##operands))

#define NP_UNARY(op, operands)                                                \
    static neap_status op##_run(const np_call *c)                             \
    {                                                                         \
        return run_unary(c, c->ctx->kernels->span->op);                       \
    }                                                                         \
    static bool op##_chain(const np_call *c, np_chain_op *out)                \
    {                                                                         \
        return unary_chain(c, out, NP_CHAIN_##op, c->ctx->kernels->span->op); \
    }                                                                         \
    const np_op np_op_##op = {.name = #op,                                    \
                              .arity = 1,                                     \
                              .flags = FLAGS(operands, NP_CHAIN_##op),        \
                              .overwrites = 1,                                \
                              .infer = like_first,                            \
                              .run = op##_run,                                \
                              .chain = op##_chain};                           \
    neap_array *neap_##op(neap_array *x)                                      \
    {                                                                         \
        return build(&np_op_##op, 1, &x, operands);                           \
    }

#define BINARY(op, operands, result, code)                              \
    static neap_status op##_run(const np_call *c)                       \
    {                                                                   \
        return run_binary(c, c->ctx->kernels->span->op);                \
    }                                                                   \
    static bool op##_chain(const np_call *c, np_chain_op *out)          \
    {                                                                   \
        return binary_chain(c, out, code, c->ctx->kernels->span->op);   \
    }                                                                   \
    const np_op np_op_##op = {.name = #op,                              \
                              .arity = 2,                               \
                              .flags = FLAGS(operands, code),           \
                              .overwrites = 3,                          \
                              .infer = result,                          \
                              .run = op##_run,                          \
                              .chain = op##_chain};                     \
    neap_array *neap_##op(neap_array *a, neap_array *b)                 \
    {                                                                   \
        return build(&np_op_##op, 2, (neap_array *[]){a, b}, operands); \
    }
#define NP_BINARY(op, operands) BINARY(op, operands, like_first, NP_CHAIN_##op)
#define NP_COMPARE(op, operands) BINARY(op, operands, bool_like_first, NP_CHAIN_BINARY)

#include "cpu/elementwise.def"
#undef NP_UNARY
#undef NP_BINARY
#undef NP_COMPARE
#undef FLAGS
#undef CHEAP_FLOAT
#undef CHEAP_NUMBER
#undef CHEAP_ALL
#undef CHEAP_BOOL
#undef CHEAP_INTEGER
#undef CHEAP_WHOLE
#undef CHEAP_FRACTION

/* ---- where, cast ---------------------------------------------------------------------------- */

static bool where_infer(neap_array *out)
{
    np_infer_like(out, out->in[1]);
    out->dtype = out->in[1]->dtype;
    return true;
}

static neap_status where_run(const np_call *c)
{
    np_span_user user = {.where = c->ctx->kernels->span->where[np_element_bytes(c->out->dtype)]};
    np_spans_call(c, false, where_span, &user);
    return NEAP_OK;
}

static bool where_chain(const np_call *c, np_chain_op *out)
{
    out->code = NP_CHAIN_WHERE;
    out->fn.where = c->ctx->kernels->span->where[np_element_bytes(c->out->dtype)];
    return true;
}

const np_op np_op_where = {.name = "where", .arity = 3,
                           .flags = NP_OP_ELEMENTWISE | NP_OP_CHEAP, .overwrites = 6,
                           .infer = where_infer, .run = where_run, .chain = where_chain};

neap_array *neap_where(neap_array *condition, neap_array *a, neap_array *b)
{
    neap_array *in[3] = {condition, a, b};
    neap_dtype d;
    if (!np_ready(3, in) || !np_plain_dtype("where", condition) ||
        !np_promote_all("where", 2, in + 1, &d))
        return NULL;
    in[0] = neap_cast(condition, NEAP_BOOL);
    return in[0] ? node(&np_op_where, 3, in, 1, d) : NULL;
}

typedef struct np_cast_attr {
    int32_t dtype;
} np_cast_attr;

static bool cast_infer(neap_array *out)
{
    np_infer_like(out, out->in[0]);
    out->dtype = (uint8_t)((const np_cast_attr *)out->attr)->dtype;
    return true;
}

static neap_status cast_run(const np_call *c)
{
    np_convert(c->ctx->kernels, c->pool, c->out->rank, c->out->shape, c->out->dtype, c->out->data, c->out->strides,
               c->in[0]->dtype, c->in[0]->data, c->in[0]->strides);
    return NEAP_OK;
}

static bool cast_chain(const np_call *c, np_chain_op *out)
{
    out->code = NP_CHAIN_CAST;
    out->fn.cast = c->ctx->kernels->span->cast[c->in[0]->dtype][c->out->dtype];
    return out->fn.cast != NULL;
}

const np_op np_op_cast = {.name = "cast", .arity = 1, .flags = NP_OP_ELEMENTWISE | NP_OP_CHEAP,
                          .overwrites = 1, .infer = cast_infer, .run = cast_run, .chain = cast_chain};

neap_array *neap_cast(neap_array *x, neap_dtype dtype)
{
    if (!np_ready(1, &x) || !np_plain_dtype("cast", x))
        return NULL;
    if (x->dtype == dtype)
        return x;
    const neap_dtype_info *info = neap_dtype_describe(dtype);
    if (!info->name || np_is_quantised(dtype))
        return np_refuse("cast", 1, &x, NEAP_EDTYPE, "to %s (%d)", info->name ? info->name : "?",
                         (int)dtype);
    np_cast_attr attr = {dtype};
    return unary_node(&np_op_cast, x, &attr, sizeof attr);
}

/* ---- made of others ------------------------------------------------------------------------- */

neap_array *neap_clip(neap_array *x, neap_array *low, neap_array *high)
{
    if (!np_ready(1, &x))
        return NULL;
    if (low)
        x = neap_maximum(x, low);
    return high ? neap_minimum(x, high) : x;
}

/* In f32 throughout, so that a 16-bit x is rounded to its dtype once. */
neap_array *neap_round_decimals(neap_array *x, int decimals)
{
    if (!np_ready(1, &x) || !np_plain_dtype("round_decimals", x))
        return NULL;
    if (decimals < -38 || decimals > 38)
        return np_refuse("round_decimals", 1, &x, NEAP_EINVAL, "%d decimals, the limit is 38",
                         decimals);
    if (decimals == 0 || x->dtype == NEAP_BOOL || (decimals > 0 && !np_is_float(x->dtype)))
        return neap_round(x);
    double scale = 1;
    for (int i = abs(decimals); i > 0; i--)
        scale *= 10;
    scale = decimals > 0 ? scale : 1 / scale;
    neap_array *y = neap_mul(neap_cast(x, NEAP_F32), neap_scalar(NEAP_F32, scale));
    y = neap_mul(neap_round(y), neap_scalar(NEAP_F32, 1 / scale));
    return neap_cast(y, (neap_dtype)x->dtype);
}

neap_array *neap_isnan(neap_array *x)
{
    return neap_not_equal(x, x);
}

/* |x| compared with infinity, which only floats have. */
static neap_array *against_infinity(const char *op, neap_array *x,
                                    neap_array *(*compare)(neap_array *a, neap_array *b))
{
    if (!np_ready(1, &x) || !np_plain_dtype(op, x))
        return NULL;
    neap_dtype d = (neap_dtype)x->dtype;
    if (!np_is_float(d))
        return compare == neap_equal ? neap_not_equal(x, x) : neap_equal(x, x);
    return compare(neap_abs(x), neap_scalar(d, INFINITY));
}

neap_array *neap_isinf(neap_array *x)
{
    return against_infinity("isinf", x, neap_equal);
}

neap_array *neap_isfinite(neap_array *x)
{
    return against_infinity("isfinite", x, neap_less);
}
