/* portable_reduce.c - reductions, norms, running sums and order of operators outside delegates. */
#include <math.h>

#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

typedef neap_array *reduction(neap_array *x, int n, const int *axes, unsigned flags);

static unsigned keeps(const np_portable_call *c, int i)
{
    return i && np_portable_int(c, i) ? NEAP_KEEPDIMS : 0;
}

/* Over the axes of argument `at` (0: all); `keep` is the place of keepdim, 0: none. */
static neap_array *reduced(np_portable_call *c, neap_array *x, int at, int keep, reduction *op)
{
    int n = 0, axes[NEAP_MAX_RANK] = {0};
    if (!x || (at && !np_portable_axes(c, at, x, &n, axes)))
        return NULL;
    if (!at)
        for (n = 0; n < x->rank; n++)
            axes[n] = n;
    return op(x, n, axes, keeps(c, keep));
}

/* One axis, which a number has too: x then gets it. */
static neap_array *with_axis(np_portable_call *c, neap_array *x, int64_t axis, int *out)
{
    const int64_t one = 1;
    if (!x || !np_portable_axis(c, axis, x->rank, out))
        return NULL;
    return x->rank ? x : neap_reshape(x, 1, &one);
}

static neap_array *reduced_one(np_portable_call *c, neap_array *x, reduction *op)
{
    const bool number = x && x->rank == 0;
    int axis;
    x = with_axis(c, x, np_portable_int(c, 1), &axis);
    return x ? op(x, 1, &axis, number ? 0 : keeps(c, 2)) : NULL;
}

/* As the result's dtype, 16-bit floats as f32: so wide it is added up. */
static neap_array *as_result(np_portable_call *c)
{
    return np_portable_wide(neap_cast(np_portable_tensor(c, 0), np_portable_dtype(c, 0)));
}

BUILD(sum)
{
    return np_portable_give(c, reduced(c, as_result(c), 1, 2, neap_sum_axes));
}

BUILD(sum_all)
{
    return np_portable_give(c, reduced(c, as_result(c), 0, 0, neap_sum_axes));
}

BUILD(mean)
{
    return np_portable_give(c, reduced(c, as_result(c), 1, 2, neap_mean_axes));
}

BUILD(mean_all)
{
    return np_portable_give(c, reduced(c, as_result(c), 0, 0, neap_mean_axes));
}

BUILD(prod)
{
    return np_portable_give(c, reduced_one(c, as_result(c), neap_prod_axes));
}

BUILD(prod_all)
{
    return np_portable_give(c, reduced(c, as_result(c), 0, 0, neap_prod_axes));
}

BUILD(amax)
{
    return np_portable_give(c, reduced(c, np_portable_tensor(c, 0), 1, 2, neap_max_axes));
}

BUILD(amin)
{
    return np_portable_give(c, reduced(c, np_portable_tensor(c, 0), 1, 2, neap_min_axes));
}

BUILD(max_all)
{
    return np_portable_give(c, reduced(c, np_portable_tensor(c, 0), 0, 0, neap_max_axes));
}

BUILD(min_all)
{
    return np_portable_give(c, reduced(c, np_portable_tensor(c, 0), 0, 0, neap_min_axes));
}

BUILD(any)
{
    return np_portable_give(c, reduced_one(c, np_portable_tensor(c, 0), neap_any_axes));
}

BUILD(any_all)
{
    return np_portable_give(c, reduced(c, np_portable_tensor(c, 0), 0, 0, neap_any_axes));
}

BUILD(any_axes)
{
    return np_portable_give(c, reduced(c, np_portable_tensor(c, 0), 1, 2, neap_any_axes));
}

BUILD(all)
{
    return np_portable_give(c, reduced_one(c, np_portable_tensor(c, 0), neap_all_axes));
}

BUILD(all_all)
{
    return np_portable_give(c, reduced(c, np_portable_tensor(c, 0), 0, 0, neap_all_axes));
}

BUILD(all_axes)
{
    return np_portable_give(c, reduced(c, np_portable_tensor(c, 0), 1, 2, neap_all_axes));
}

BUILD(logsumexp)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    return np_portable_give(c, reduced(c, x, 1, 2, neap_logsumexp_axes));
}

/* ---- where the largest is ---------------------------------------------------------------------------- */

static bool extreme(np_portable_call *c, reduction *value,
                    neap_array *(*place)(neap_array *x, int axis, unsigned flags))
{
    neap_array *x = np_portable_tensor(c, 0);
    const bool number = x && x->rank == 0;
    int axis;
    x = with_axis(c, x, np_portable_int(c, 1), &axis);
    if (!x)
        return false;
    const unsigned flags = number ? 0 : keeps(c, 2);
    c->results[1] = place(x, axis, flags);
    return np_portable_give(c, value(x, 1, &axis, flags)) && c->results[1];
}

BUILD(max_axis)
{
    return extreme(c, neap_max_axes, neap_argmax);
}

BUILD(min_axis)
{
    return extreme(c, neap_min_axes, neap_argmin);
}

static bool place(np_portable_call *c, neap_array *(*one)(neap_array *x, int axis, unsigned flags),
                  neap_array *(*all)(neap_array *x, unsigned flags))
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    if (!np_portable_has(c, 1))
        return np_portable_give(c, all(x, keeps(c, 2)));
    const bool number = x && x->rank == 0;
    x = with_axis(c, x, np_portable_int(c, 1), &axis);
    return x && np_portable_give(c, one(x, axis, number ? 0 : keeps(c, 2)));
}

BUILD(argmax)
{
    return place(c, neap_argmax, neap_argmax_all);
}

BUILD(argmin)
{
    return place(c, neap_argmin, neap_argmin_all);
}

/* ---- spread ------------------------------------------------------------------------------------------- */

/* What is taken from the count: of a bool, or of a number that may be absent. */
static bool find_ddof(np_portable_call *c, int *out)
{
    const double ddof = np_portable_has(c, 2) ? np_portable_real(c, 2) : 1;
    if (ddof != floor(ddof) || fabs(ddof) > 1e6)
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "a correction of %g, it must be whole", ddof);
    *out = (int)ddof;
    return true;
}

static neap_array *spread(np_portable_call *c, bool root)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    int n, axes[NEAP_MAX_RANK], ddof = 1;
    if (!np_portable_axes(c, 1, x, &n, axes) || !find_ddof(c, &ddof))
        return NULL;
    return (root ? neap_std_axes : neap_var_axes)(x, n, axes, ddof, keeps(c, 3));
}

BUILD(var)
{
    return np_portable_give(c, spread(c, false));
}

BUILD(std)
{
    return np_portable_give(c, spread(c, true));
}

BUILD(var_mean)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    c->results[1] = reduced(c, x, 1, 3, neap_mean_axes);
    return c->results[1] && np_portable_give(c, spread(c, false));
}

/* (sum |x|^p)^(1/p) along one or more axes; `at` as of reduced. */
static neap_array *p_norm(np_portable_call *c, neap_array *x, double p, int at, int keep)
{
    x = neap_abs(x);
    if (isinf(p))
        return reduced(c, x, at, keep, p > 0 ? neap_max_axes : neap_min_axes);
    if (p == 0)
        return reduced(c, neap_cast(neap_cast(x, NEAP_BOOL), NEAP_F32), at, keep, neap_sum_axes);
    if (p == 1)
        return reduced(c, x, at, keep, neap_sum_axes);
    if (p == 2)
        return neap_sqrt(reduced(c, neap_square(x), at, keep, neap_sum_axes));
    neap_array *sum = reduced(c, neap_pow(x, neap_scalar(NEAP_F32, p)), at, keep, neap_sum_axes);
    return neap_pow(sum, neap_scalar(NEAP_F32, 1 / p));
}

BUILD(vector_norm)
{
    neap_array *x = neap_cast(np_portable_tensor(c, 0), NEAP_F32);
    const double p = np_portable_has(c, 1) ? np_portable_real(c, 1) : 2;
    return np_portable_give(c, p_norm(c, x, p, 2, 3));
}

/* Distances of every row of one from every row of the other. */
BUILD(cdist)
{
    neap_array *a = np_portable_tensor(c, 0), *b = np_portable_tensor(c, 1);
    if (!a || !b || a->rank < 2 || b->rank < 2)
        return a && b && np_portable_fail(c, NEAP_ESHAPE, "matrices of %d and %d dimensions", a->rank,
                                          b->rank);
    const double p = np_portable_real(c, 2);
    neap_array *x = neap_abs(neap_sub(neap_expand_dims(np_portable_wide(a), -2),
                                      neap_expand_dims(np_portable_wide(b), -3)));
    const int last = x ? x->rank - 1 : 0;
    if (isinf(p))
        return np_portable_give(c, neap_max_axes(x, 1, &last, 0));
    if (p == 0)
        return np_portable_give(c, neap_sum_axes(neap_cast(x, NEAP_BOOL), 1, &last, 0));
    if (p == 1)
        return np_portable_give(c, neap_sum_axes(x, 1, &last, 0));
    if (p == 2)
        return np_portable_give(c, neap_sqrt(neap_sum_axes(neap_square(x), 1, &last, 0)));
    neap_array *sum = neap_sum_axes(neap_pow(x, neap_scalar(NEAP_F32, p)), 1, &last, 0);
    return np_portable_give(c, neap_pow(sum, neap_scalar(NEAP_F32, 1 / p)));
}

/* ---- along an axis ---------------------------------------------------------------------------------- */

static bool running(np_portable_call *c,
                    neap_array *(*op)(neap_array *x, int axis, bool reverse, bool inclusive))
{
    neap_array *x = as_result(c);
    const bool number = x && x->rank == 0;
    int axis;
    x = with_axis(c, x, np_portable_int(c, 1), &axis);
    if (!x)
        return false;
    x = op(x, axis, false, true);
    return np_portable_give(c, number ? neap_squeeze(x, 0) : x);
}

BUILD(cumsum)
{
    return running(c, neap_cumsum);
}

BUILD(cumprod)
{
    return running(c, neap_cumprod);
}

BUILD(softmax)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    if (x && x->rank == 0)
        return np_portable_give(c, neap_full(0, NULL, 1, NEAP_F32));
    return x && np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis) &&
           np_portable_give(c, neap_softmax(x, axis));
}

BUILD(log_softmax)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    const bool number = x && x->rank == 0;
    int axis;
    x = with_axis(c, x, np_portable_int(c, 1), &axis);
    if (!x)
        return false;
    x = neap_sub(x, neap_max_axes(x, 1, &axis, NEAP_KEEPDIMS));
    x = neap_sub(x, neap_log(neap_sum_axes(neap_exp(x), 1, &axis, NEAP_KEEPDIMS)));
    return np_portable_give(c, number ? neap_squeeze(x, 0) : x);
}

/* ---- order -------------------------------------------------------------------------------------------- */

/* Places in order, i64; of equals the first first, whichever way. NaN is the largest. */
static neap_array *places(neap_array *x, int axis, bool descending)
{
    if (!descending)
        return neap_cast(neap_argsort(x, axis), NEAP_I64);
    neap_array *back = neap_cast(neap_argsort(neap_flip(x, 1, &axis), axis), NEAP_I64);
    if (!back)
        return NULL;
    const int64_t last = back->shape[axis] - 1;
    return neap_sub(neap_array_from(NEAP_I64, 0, NULL, &last), neap_flip(back, 1, &axis));
}

/* The first k in order: values, then places. */
static bool ordered(np_portable_call *c, int64_t dim, bool descending, int64_t k)
{
    neap_array *x = np_portable_tensor(c, 0);
    const bool number = x && x->rank == 0;
    int axis;
    x = with_axis(c, x, dim, &axis);
    if (!x)
        return false;
    if (k > x->shape[axis])
        return np_portable_fail(c, NEAP_EINVAL, "the first %lld of %lld", (long long)k,
                                (long long)x->shape[axis]);
    neap_array *at = places(x, axis, descending);
    if (k >= 0)
        at = neap_narrow(at, axis, 0, k);
    neap_array *values = neap_take_along_axis(x, at, axis);
    c->results[1] = number ? neap_squeeze(at, 0) : at;
    return c->results[1] && np_portable_give(c, number ? neap_squeeze(values, 0) : values);
}

BUILD(sort)
{
    return ordered(c, np_portable_int(c, 1), np_portable_int(c, 2) != 0, -1);
}

BUILD(sort_stable)
{
    return ordered(c, np_portable_int(c, 2), np_portable_int(c, 3) != 0, -1);
}

BUILD(topk)
{
    const int64_t k = np_portable_int(c, 1);
    if (k < 0)
        return np_portable_fail(c, NEAP_EINVAL, "the first %lld", (long long)k);
    return ordered(c, np_portable_int(c, 2), np_portable_int(c, 3) != 0, k);
}

BUILD(argsort_stable)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    return x && np_portable_axis(c, np_portable_int(c, 2), x->rank, &axis) &&
           np_portable_give(c, places(x, axis, np_portable_int(c, 3) != 0));
}

/* Of an even number the lower of the middle two; NaN, and where the first is, if there is one. */
static neap_array *middle(neap_array *x, int axis)
{
    const int64_t at = (x->shape[axis] - 1) / 2;
    neap_array *place = neap_narrow(places(x, axis, false), axis, at, at + 1);
    if (!np_portable_is_float(x))
        return place;
    neap_array *nan = neap_isnan(x);
    neap_array *first = neap_argmax(nan, axis, NEAP_KEEPDIMS);
    return neap_where(neap_any_axes(nan, 1, &axis, NEAP_KEEPDIMS), first, place);
}

BUILD(median)
{
    neap_array *x = np_portable_tensor(c, 0);
    const bool number = x && x->rank == 0;
    int axis;
    x = with_axis(c, x, np_portable_int(c, 1), &axis);
    if (!x)
        return false;
    if (x->shape[axis] == 0)
        return np_portable_fail(c, NEAP_ESHAPE, "of no elements");
    neap_array *place = middle(x, axis), *value = neap_take_along_axis(x, place, axis);
    const bool keep = !number && keeps(c, 2);
    c->results[1] = keep ? place : neap_squeeze(place, axis);
    return c->results[1] && np_portable_give(c, keep ? value : neap_squeeze(value, axis));
}

BUILD(median_all)
{
    const int64_t flat = -1;
    neap_array *x = neap_reshape(np_portable_tensor(c, 0), 1, &flat);
    if (!x)
        return false;
    if (x->shape[0] == 0)
        return np_portable_fail(c, NEAP_ESHAPE, "of no elements");
    return np_portable_give(c, neap_squeeze(neap_take_along_axis(x, middle(x, 0), 0), 0));
}
