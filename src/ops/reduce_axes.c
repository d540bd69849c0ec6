/* reduce_axes.c - reductions over any set of axes, made of those over one axis.
 *
 * Neighbouring axes become one dimension: a view where strides allow. Axes apart are reduced one
 * group after the other where that gives the same result (or, for f32, one rounding more), else
 * brought together by a copy. Which of these it is follows from axes, shape and dtype alone, and so
 * do the bits. */
#include <string.h>

#include "ops/reduce.h"

typedef struct np_axes {
    bool reduced[NEAP_MAX_RANK];
    bool keepdims;
} np_axes;

/* Reduces one axis; `ddof` where it has a meaning. */
typedef neap_array *(*np_step)(neap_array *x, int axis, int64_t ddof);

/* No axes: all of them. */
static bool axes_of(const char *op, neap_array *x, int n, const int *axes, unsigned flags,
                    np_axes *out)
{
    memset(out, 0, sizeof *out);
    if (!np_ready(1, &x) || !np_plain_dtype(op, x))
        return false;
    if (n < 0 || (n > 0 && !axes) || flags & ~(unsigned)NEAP_KEEPDIMS)
        return np_refuse(op, 1, &x, NEAP_EINVAL, "%d axes, flags %u", n, flags) != NULL;
    for (int d = 0; d < x->rank; d++)
        out->reduced[d] = n == 0;
    for (int i = 0; i < n; i++) {
        int a;
        if (!np_axis(op, x, axes[i], &a))
            return false;
        if (out->reduced[a])
            return np_refuse(op, 1, &x, NEAP_ESHAPE, "axis %d is named twice", a) != NULL;
        out->reduced[a] = true;
    }
    out->keepdims = (flags & NEAP_KEEPDIMS) != 0;
    return true;
}

/* Dimensions first .. last - 1 as one; one of extent 1 where there is none. */
static neap_array *merged(neap_array *x, int first, int last)
{
    int64_t shape[NEAP_MAX_RANK];
    int rank = 0;
    if (!x || last == first + 1)
        return x;
    for (int d = 0; d < first; d++)
        shape[rank++] = x->shape[d];
    shape[rank++] = np_size(last - first, x->shape + first);
    for (int d = last; d < x->rank; d++)
        shape[rank++] = x->shape[d];
    return neap_reshape(x, rank, shape);
}

/* The last group of neighbours among the reduced dimensions below `end`; false if there is none. */
static bool last_group(const np_axes *axes, int end, int *first, int *last)
{
    for (*last = end; *last > 0 && !axes->reduced[*last - 1];)
        --*last;
    for (*first = *last; *first > 0 && axes->reduced[*first - 1];)
        --*first;
    return *first < *last;
}

/* x with the reduced dimensions last, in their order. */
static neap_array *reduced_last(neap_array *x, const np_axes *axes)
{
    int order[NEAP_MAX_RANK], kept = 0;
    for (int d = 0; d < x->rank; d++)
        if (!axes->reduced[d])
            order[kept++] = d;
    for (int d = 0; d < x->rank; d++)
        if (axes->reduced[d])
            order[kept++] = d;
    return neap_transpose(x, order);
}

/* y, which lacks the reduced dimensions, in the shape that was asked for. */
static neap_array *finished(neap_array *y, const neap_array *x, const np_axes *axes)
{
    int64_t shape[NEAP_MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        shape[d] = axes->reduced[d] ? 1 : x->shape[d];
    return y && axes->keepdims ? neap_reshape(y, x->rank, shape) : y;
}

/* May one group of axes be reduced after the other? IN_F32: where nothing is rounded to 16 bits in
 * between. */
typedef enum np_grouping { NEVER, IN_F32, ALWAYS } np_grouping;

/* An extent that is set at run time stays a dimension of its own: then it is axis after axis, where
 * that may be. */
static neap_array *reduce(neap_array *x, const np_axes *axes, np_step step, int64_t ddof,
                          np_grouping grouping)
{
    int first, last, next, end, count = 0;
    bool half = x->dtype == NEAP_F16 || x->dtype == NEAP_BF16;
    for (int d = 0; d < x->rank; d++)
        count += axes->reduced[d];
    bool open = count > 1 && x->dynamic_dim >= 0 && axes->reduced[x->dynamic_dim];
    bool widened = open && half && grouping == IN_F32;
    neap_array *y = widened ? neap_cast(x, NEAP_F32) : x;
    if (!last_group(axes, x->rank, &first, &last)) {
        y = merged(y, x->rank, x->rank);
        return finished(step(y, x->rank, ddof), x, axes);
    }
    if (!widened && grouping != ALWAYS && (half || grouping == NEVER) &&
        last_group(axes, first, &next, &end)) {
        y = merged(reduced_last(x, axes), x->rank - count, x->rank);
        return finished(y ? step(y, x->rank - count, ddof) : NULL, x, axes);
    }
    do {
        first = open && grouping != NEVER ? last - 1 : first;
        y = merged(y, first, last);
        y = y ? step(y, first, ddof) : NULL;
    } while (y && last_group(axes, first, &first, &last));
    y = finished(y, x, axes);
    return y && widened ? neap_cast(y, (neap_dtype)x->dtype) : y;
}

/* ---- the steps ------------------------------------------------------------------------------ */

/* Sums and products of up to 32 bits stay there: their low bits are those of the 64-bit ones. */
static neap_array *narrowed(neap_array *y, neap_dtype from)
{
    bool is_unsigned = neap_dtype_describe(from)->class_ == NEAP_CLASS_UINT;
    if (!y || np_is_float(from) || from == NEAP_I64)
        return y;
    return neap_cast(y, is_unsigned ? NEAP_U32 : NEAP_I32);
}

static neap_array *sum_step(neap_array *x, int axis, int64_t ddof)
{
    (void)ddof;
    return neap_sum(x, axis, 0);
}

static neap_array *prod_step(neap_array *x, int axis, int64_t ddof)
{
    return np_reduce_axis(&np_op_prod, x, axis, ddof, 0);
}

static neap_array *mean_step(neap_array *x, int axis, int64_t ddof)
{
    return np_reduce_axis(&np_op_mean, x, axis, ddof, 0);
}

static neap_array *max_step(neap_array *x, int axis, int64_t ddof)
{
    (void)ddof;
    return neap_max(x, axis, 0);
}

static neap_array *min_step(neap_array *x, int axis, int64_t ddof)
{
    (void)ddof;
    return neap_min(x, axis, 0);
}

static neap_array *var_step(neap_array *x, int axis, int64_t ddof)
{
    return np_reduce_axis(&np_op_var, x, axis, ddof, 0);
}

static neap_array *std_step(neap_array *x, int axis, int64_t ddof)
{
    return np_reduce_axis(&np_op_std, x, axis, ddof, 0);
}

static neap_array *logsumexp_step(neap_array *x, int axis, int64_t ddof)
{
    return np_reduce_axis(&np_op_logsumexp, x, axis, ddof, 0);
}

/* ---- the functions -------------------------------------------------------------------------- */

neap_array *neap_sum_axes(neap_array *x, int n, const int *axes, unsigned flags)
{
    np_axes a;
    if (!axes_of("sum_axes", x, n, axes, flags, &a))
        return NULL;
    neap_dtype d = (neap_dtype)x->dtype;
    return narrowed(reduce(x, &a, sum_step, 0, IN_F32), d);
}

neap_array *neap_prod_axes(neap_array *x, int n, const int *axes, unsigned flags)
{
    np_axes a;
    if (!axes_of("prod_axes", x, n, axes, flags, &a))
        return NULL;
    neap_dtype d = (neap_dtype)x->dtype;
    return narrowed(reduce(x, &a, prod_step, 0, IN_F32), d);
}

/* Over floats, or integers as f32. */
static neap_array *reduce_floats(const char *op, neap_array *x, int n, const int *axes,
                                 int64_t ddof, unsigned flags, np_step step)
{
    np_axes a;
    if (!axes_of(op, x, n, axes, flags, &a))
        return NULL;
    if (!np_is_float(x->dtype))
        x = neap_cast(x, NEAP_F32);
    bool spread = step == var_step || step == std_step;
    return x ? reduce(x, &a, step, ddof, spread ? NEVER : IN_F32) : NULL;
}

neap_array *neap_mean_axes(neap_array *x, int n, const int *axes, unsigned flags)
{
    return reduce_floats("mean_axes", x, n, axes, 0, flags, mean_step);
}

neap_array *neap_var_axes(neap_array *x, int n, const int *axes, int ddof, unsigned flags)
{
    return reduce_floats("var_axes", x, n, axes, ddof, flags, var_step);
}

neap_array *neap_std_axes(neap_array *x, int n, const int *axes, int ddof, unsigned flags)
{
    return reduce_floats("std_axes", x, n, axes, ddof, flags, std_step);
}

neap_array *neap_logsumexp_axes(neap_array *x, int n, const int *axes, unsigned flags)
{
    return reduce_floats("logsumexp_axes", x, n, axes, 0, flags, logsumexp_step);
}

neap_array *neap_max_axes(neap_array *x, int n, const int *axes, unsigned flags)
{
    np_axes a;
    return axes_of("max_axes", x, n, axes, flags, &a) ? reduce(x, &a, max_step, 0, ALWAYS) : NULL;
}

neap_array *neap_min_axes(neap_array *x, int n, const int *axes, unsigned flags)
{
    np_axes a;
    return axes_of("min_axes", x, n, axes, flags, &a) ? reduce(x, &a, min_step, 0, ALWAYS) : NULL;
}

/* Is their number not 0? Right for no elements, too. */
neap_array *neap_any_axes(neap_array *x, int n, const int *axes, unsigned flags)
{
    np_axes a;
    if (!axes_of("any_axes", x, n, axes, flags, &a))
        return NULL;
    neap_array *truth = neap_cast(x, NEAP_BOOL);
    return truth ? neap_cast(reduce(truth, &a, sum_step, 0, ALWAYS), NEAP_BOOL) : NULL;
}

neap_array *neap_all_axes(neap_array *x, int n, const int *axes, unsigned flags)
{
    np_axes a;
    if (!axes_of("all_axes", x, n, axes, flags, &a))
        return NULL;
    neap_array *lies = neap_logical_not(x);
    return lies ? neap_logical_not(reduce(lies, &a, sum_step, 0, ALWAYS)) : NULL;
}

/* ---- places --------------------------------------------------------------------------------- */

static neap_array *place_of_all(const char *op, neap_array *x, unsigned flags,
                                neap_array *(*find)(neap_array *x, int axis, unsigned flags))
{
    np_axes a;
    if (!axes_of(op, x, 0, NULL, flags, &a))
        return NULL;
    neap_array *flat = merged(x, 0, x->rank);
    return flat ? finished(find(flat, 0, 0), x, &a) : NULL;
}

neap_array *neap_argmax_all(neap_array *x, unsigned flags)
{
    return place_of_all("argmax_all", x, flags, neap_argmax);
}

neap_array *neap_argmin_all(neap_array *x, unsigned flags)
{
    return place_of_all("argmin_all", x, flags, neap_argmin);
}
