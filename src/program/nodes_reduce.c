/* nodes_reduce.c - reductions, cumulative sums, order. */
#include "program/walk.h"
#include "neap/ops.h"

enum { MAX_AXES = NEAP_MAX_RANK };

static bool axes_fit(np_walk *w, const np_i32s *axes)
{
    return axes->n <= MAX_AXES ||
           np_node_fail(w, NEAP_ESHAPE, "%u axes, the limit is %d", axes->n, MAX_AXES);
}

static unsigned flags(bool keepdims)
{
    return keepdims ? NEAP_KEEPDIMS : 0;
}

/* No axes: all of them. */
#define REDUCE(node, op)                                                                           \
    NP_BUILD(node)                                                                                 \
    {                                                                                              \
        neap_array *x = np_get(w, n->x);                                                           \
        return axes_fit(w, &n->axes) &&                                                            \
               np_put(w, n->out, neap_##op(x, (int)n->axes.n, n->axes.at, flags(n->keepdims)));    \
    }
#define SPREAD(node, op)                                                                           \
    NP_BUILD(node)                                                                                 \
    {                                                                                              \
        neap_array *x = np_get(w, n->x);                                                           \
        return axes_fit(w, &n->axes) &&                                                            \
               np_put(w, n->out,                                                                   \
                      neap_##op(x, (int)n->axes.n, n->axes.at, n->ddof, flags(n->keepdims)));      \
    }

REDUCE(sum, sum_axes)
REDUCE(mean, mean_axes)
REDUCE(prod, prod_axes)
REDUCE(max, max_axes)
REDUCE(min, min_axes)
REDUCE(any, any_axes)
REDUCE(all, all_axes)
REDUCE(median, median)
SPREAD(var, var_axes)
SPREAD(std, std_axes)

/* Here an empty list reduces nothing: log(exp(x)). */
NP_BUILD(log_sum_exp)
{
    neap_array *x = np_get(w, n->x);
    if (!x || !axes_fit(w, &n->axes))
        return false;
    if (n->axes.n == 0)
        return np_put(w, n->out, np_is_float((neap_dtype)x->dtype) ? x : neap_cast(x, NEAP_F32));
    return np_put(w, n->out,
                  neap_logsumexp_axes(x, (int)n->axes.n, n->axes.at, flags(n->keepdims)));
}

/* Indices are u32, as MLX has them. */
NP_BUILD(argmax)
{
    neap_array *at = neap_argmax(np_get(w, n->x), n->axis, flags(n->keepdims));
    return np_put(w, n->out, neap_cast(at, NEAP_U32));
}

NP_BUILD(argmin)
{
    neap_array *at = neap_argmin(np_get(w, n->x), n->axis, flags(n->keepdims));
    return np_put(w, n->out, neap_cast(at, NEAP_U32));
}

NP_BUILD(softmax)
{
    return np_put(w, n->out, neap_softmax(np_get(w, n->x), n->axis));
}

NP_BUILD(cumsum)
{
    return np_put(w, n->out, neap_cumsum(np_get(w, n->x), n->axis, n->reverse, n->inclusive));
}

NP_BUILD(sort)
{
    return np_put(w, n->out, neap_sort(np_get(w, n->x), n->axis));
}

NP_BUILD(argsort)
{
    return np_put(w, n->out, neap_argsort(np_get(w, n->x), n->axis));
}

NP_BUILD(partition)
{
    int64_t kth;
    neap_array *x = np_get(w, n->x);
    return np_get_int(w, n->kth, &kth) && np_put(w, n->out, neap_partition(x, kth, n->axis));
}

NP_BUILD(arg_partition)
{
    int64_t kth;
    neap_array *x = np_get(w, n->x);
    return np_get_int(w, n->kth, &kth) && np_put(w, n->out, neap_argpartition(x, kth, n->axis));
}
