/* views.c - ops that only describe elements of their input: reshape, transpose, slices,
 * broadcasting, extents and places set at run time. They never run; reshape copies where no view
 * exists.
 *
 * A dimension whose extent is set at run time stays one as long as the view keeps it whole. */
#include <string.h>

#include "ops/support.h"

static bool usable(const char *op, neap_array *x)
{
    return np_attached(1, &x) && np_plain_dtype(op, x);
}

static neap_array *refuse_dynamic(const char *op, neap_array *x, const char *why)
{
    return np_refuse(op, 1, &x, NEAP_EUNSUPPORTED,
                     "dimension %d has an extent set at run time (%s): %s", x->dynamic_dim,
                     x->extent->name, why);
}

/* ---- reshape -------------------------------------------------------------------------------- */

/* Strides of x's elements under another shape of the same size; false if there are none. Both
 * shapes are cut into the shortest groups of equal size; a group of x must lie in one piece. */
static bool reshaped_strides(const neap_array *x, int rank, const int64_t *shape, int64_t *strides)
{
    int64_t old[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
    int n = 0, o = 0, d = 0;
    if (np_size(x->rank, x->shape) == 0) {
        np_row_major(rank, shape, strides);
        return true;
    }
    for (int i = 0; i < x->rank; i++) {
        if (x->shape[i] != 1) {
            old[n] = x->shape[i];
            step[n++] = x->strides[i];
        }
    }
    while (o < n && d < rank) {
        int o_end = o + 1, d_end = d + 1;
        int64_t o_size = old[o], d_size = shape[d];
        while (o_size != d_size) {
            if (d_size < o_size)
                d_size *= shape[d_end++];
            else
                o_size *= old[o_end++];
        }
        for (int i = o; i < o_end - 1; i++)
            if (step[i] != old[i + 1] * step[i + 1])
                return false;
        strides[d_end - 1] = step[o_end - 1];
        for (int i = d_end - 1; i > d; i--)
            strides[i - 1] = strides[i] * shape[i];
        o = o_end;
        d = d_end;
    }
    for (; d < rank; d++)
        strides[d] = 1; /* extent 1 */
    return true;
}

/* Puts the extent for -1 and checks the size. */
static bool resolve_shape(neap_array *x, int rank, const int64_t *given, int64_t *shape)
{
    int open = -1;
    if (rank < 0 || rank > NEAP_MAX_RANK || (rank > 0 && !given)) {
        np_refuse("reshape", 1, &x, NEAP_ESHAPE, "to %d dimensions, the limit is %d", rank,
                  NEAP_MAX_RANK);
        return false;
    }
    for (int d = 0; d < rank; d++) {
        shape[d] = given[d];
        if (given[d] == -1 && open < 0) {
            open = d;
            shape[d] = 1;
        } else if (given[d] < 0) {
            np_refuse("reshape", 1, &x, NEAP_ESHAPE, "extent %lld of dimension %d",
                      (long long)given[d], d);
            return false;
        }
    }
    int64_t size = np_size(x->rank, x->shape), known;
    uint64_t bytes;
    bool fits = np_shape_bytes((neap_dtype)x->dtype, rank, shape, &known, &bytes);
    if (fits && open >= 0 && known > 0 && size % known == 0)
        shape[open] = size / known;
    else if (!fits || open >= 0 || known != size) {
        neap_array t = {.dtype = x->dtype, .rank = (uint8_t)rank};
        for (int d = 0; d < rank; d++)
            t.shape[d] = given[d];
        char text[NP_SHAPE_TEXT];
        np_refuse("reshape", 1, &x, NEAP_ESHAPE, "%lld elements do not make %s", (long long)size,
                  np_shape_text(&t, text));
        return false;
    }
    return true;
}

/* The dimension of the new shape that x's dynamic one becomes: as large, with as much before it. */
static int surviving_dim(const neap_array *x, int rank, const int64_t *shape)
{
    int64_t before = np_size(x->dynamic_dim, x->shape), product = 1;
    for (int d = 0; d < rank; product *= shape[d++])
        if (product == before && shape[d] == x->shape[x->dynamic_dim])
            return d;
    return -1;
}

neap_array *neap_reshape(neap_array *x, int rank, const int64_t *shape)
{
    int64_t to[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    int dynamic_dim = -1;
    if (!usable("reshape", x) || !resolve_shape(x, rank, shape, to))
        return NULL;
    if (x->rank == rank && memcmp(x->shape, to, (size_t)rank * sizeof *to) == 0)
        return x;
    if (x->dynamic_dim >= 0) {
        dynamic_dim = surviving_dim(x, rank, to);
        if (dynamic_dim < 0)
            return refuse_dynamic("reshape", x, "it must stay a dimension of its own");
    }
    if (!reshaped_strides(x, rank, to, strides)) {
        x = np_copied(x);
        np_row_major(rank, to, strides);
    }
    return x ? np_view_carry(x, rank, to, strides, 0, dynamic_dim) : NULL;
}

/* ---- order of dimensions -------------------------------------------------------------------- */

static neap_array *permuted(neap_array *x, const int *order)
{
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    int dynamic_dim = -1;
    for (int d = 0; d < x->rank; d++) {
        shape[d] = x->shape[order[d]];
        strides[d] = x->strides[order[d]];
        if (order[d] == x->dynamic_dim)
            dynamic_dim = d;
    }
    return np_view_carry(x, x->rank, shape, strides, 0, dynamic_dim);
}

neap_array *neap_transpose(neap_array *x, const int *axes)
{
    int order[NEAP_MAX_RANK];
    unsigned seen = 0;
    if (!usable("transpose", x))
        return NULL;
    for (int d = 0; d < x->rank; d++) {
        order[d] = x->rank - 1 - d;
        if (axes && !np_axis("transpose", x, axes[d], &order[d]))
            return NULL;
        if (seen & 1u << order[d])
            return np_refuse("transpose", 1, &x, NEAP_ESHAPE, "axis %d is named twice", order[d]);
        seen |= 1u << order[d];
    }
    return permuted(x, order);
}

neap_array *neap_swap_axes(neap_array *x, int a, int b)
{
    int order[NEAP_MAX_RANK];
    if (!usable("swap_axes", x) || !np_axis("swap_axes", x, a, &a) ||
        !np_axis("swap_axes", x, b, &b))
        return NULL;
    for (int d = 0; d < x->rank; d++)
        order[d] = d == a ? b : d == b ? a : d;
    return permuted(x, order);
}

/* ---- extents of 1 --------------------------------------------------------------------------- */

neap_array *neap_broadcast_to(neap_array *x, int rank, const int64_t *shape)
{
    np_extents e = {.rank = rank, .dynamic_dim = -1};
    int64_t elements;
    uint64_t bytes;
    if (!usable("broadcast_to", x))
        return NULL;
    if (rank < 0 || rank > NEAP_MAX_RANK || (rank > 0 && !shape) ||
        !np_shape_bytes((neap_dtype)x->dtype, rank, shape, &elements, &bytes))
        return np_refuse(
            "broadcast_to", 1, &x, NEAP_ESHAPE,
            "%d dimensions, the limit is %d; extents must be 0 or more, at most 2^62 in "
            "all",
            rank, NEAP_MAX_RANK);
    for (int d = 0; d < rank; d++)
        e.shape[d] = shape[d];
    if (x->dynamic_dim >= 0) {
        e.dynamic_dim = x->dynamic_dim + rank - x->rank;
        e.extent = x->extent;
    }
    return np_broadcast_view("broadcast_to", x, &e);
}

neap_array *neap_expand_dims(neap_array *x, int axis)
{
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    if (!usable("expand_dims", x))
        return NULL;
    int rank = x->rank + 1, a = axis < 0 ? axis + rank : axis;
    if (rank > NEAP_MAX_RANK || a < 0 || a >= rank)
        return np_refuse("expand_dims", 1, &x, NEAP_ESHAPE,
                         "axis %d of a result of %d dimensions, the limit is %d", axis, rank,
                         NEAP_MAX_RANK);
    for (int d = 0, from = 0; d < rank; d++) {
        shape[d] = d == a ? 1 : x->shape[from];
        strides[d] = d == a ? 1 : x->strides[from++];
    }
    return np_view_carry(x, rank, shape, strides, 0, x->dynamic_dim + (x->dynamic_dim >= a));
}

neap_array *neap_squeeze(neap_array *x, int axis)
{
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    int a, rank = 0;
    if (!usable("squeeze", x) || !np_axis("squeeze", x, axis, &a))
        return NULL;
    if (x->dynamic_dim == a)
        return refuse_dynamic("squeeze", x, "it is not 1");
    if (x->shape[a] != 1)
        return np_refuse("squeeze", 1, &x, NEAP_ESHAPE, "axis %d has extent %lld, not 1", axis,
                         (long long)x->shape[a]);
    for (int d = 0; d < x->rank; d++) {
        if (d != a) {
            shape[rank] = x->shape[d];
            strides[rank++] = x->strides[d];
        }
    }
    return np_view_carry(x, rank, shape, strides, 0, x->dynamic_dim - (x->dynamic_dim > a));
}

/* ---- slices --------------------------------------------------------------------------------- */

/* Python's start:stop:step on an axis of n elements: the first element and how many. */
static int64_t slice_axis(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *first)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    int64_t from = start == NEAP_END ? (step > 0 ? low : high) : start < 0 ? start + n : start;
    int64_t to = stop == NEAP_END ? (step > 0 ? high : low) : stop < 0 ? stop + n : stop;
    from = from < low ? low : from > high ? high : from;
    to = to < low ? low : to > high ? high : to;
    *first = from;
    if (step > 0)
        return to > from ? (to - from - 1) / step + 1 : 0;
    return from > to ? (from - to - 1) / -step + 1 : 0;
}

bool np_slice_region(const char *op, neap_array *x, const int64_t *start, const int64_t *stop,
                     const int64_t *step, np_region *out)
{
    for (int d = 0; d < x->rank; d++) {
        int64_t first, by = step ? step[d] : 1;
        if (by == 0 || by == INT64_MIN) {
            np_refuse(op, 1, &x, NEAP_EINVAL, "step %lld along axis %d", (long long)by, d);
            return false;
        }
        int64_t n = slice_axis(x->shape[d], start ? start[d] : NEAP_END, stop ? stop[d] : NEAP_END,
                               by, &first);
        if (d == x->dynamic_dim && (n != x->shape[d] || first != 0 || by != 1)) {
            refuse_dynamic(op, x, "it can only be taken whole");
            return false;
        }
        out->shape[d] = n;
        out->first[d] = n ? first : 0;
        out->step[d] = n > 1 ? by : 1; /* one element: no step to overflow */
    }
    return true;
}

neap_array *neap_slice(neap_array *x, const int64_t *start, const int64_t *stop,
                       const int64_t *step)
{
    np_region r;
    int64_t strides[NEAP_MAX_RANK], offset = 0;
    if (!usable("slice", x) || !np_slice_region("slice", x, start, stop, step, &r))
        return NULL;
    for (int d = 0; d < x->rank; d++) {
        offset += r.first[d] * x->strides[d];
        strides[d] = x->strides[d] * r.step[d];
    }
    return np_view_carry(x, x->rank, r.shape, strides, offset, x->dynamic_dim);
}

/* One axis of x to `length` elements, `offset` elements of storage on. */
static neap_array *narrowed(neap_array *x, int a, int64_t length, int64_t offset, bool whole)
{
    int64_t shape[NEAP_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[a] = length;
    return np_view_carry(x, x->rank, shape, x->strides, offset,
                         x->dynamic_dim == a && !whole ? -1 : x->dynamic_dim);
}

neap_array *neap_narrow(neap_array *x, int axis, int64_t start, int64_t stop)
{
    int a;
    if (!usable("narrow", x) || !np_axis("narrow", x, axis, &a))
        return NULL;
    int64_t n = x->shape[a], end = stop == NEAP_END ? n : stop;
    if (start < 0 || start > end || end > n)
        return np_refuse("narrow", 1, &x, NEAP_ESHAPE, "[%lld, %lld) of axis %d, which has %lld",
                         (long long)start, (long long)end, a, (long long)n);
    bool whole = start == 0 && end == n;
    if (x->dynamic_dim == a && !whole)
        return refuse_dynamic("narrow", x, "it can only be taken whole, or at a parameter");
    return narrowed(x, a, end - start, start < n ? start * x->strides[a] : 0, whole);
}

/* ---- extents and places set at run time ------------------------------------------------------ */

neap_array *neap_narrow_at(neap_array *x, int axis, neap_param *start, int64_t add, int64_t length)
{
    int a;
    if (!usable("narrow_at", x) || !np_axis("narrow_at", x, axis, &a))
        return NULL;
    if (!start)
        return np_refuse("narrow_at", 1, &x, NEAP_EINVAL, "no parameter");
    if (x->shift)
        return np_refuse("narrow_at", 1, &x, NEAP_EUNSUPPORTED, "it stands at parameter %s already",
                         x->shift->name);
    /* A write target may hang over the state's end by rows that are not written: its run checks. */
    bool state = np_storage(x)->op && np_storage(x)->op->flags & NP_OP_STATE_READ;
    int64_t n = x->shape[a], last = 0;
    bool overflow = __builtin_add_overflow(add, length, &last) ||
                    __builtin_add_overflow(last, start->max, &last);
    if (length < 0 || length > n || overflow || (last > n && !state) ||
        (add < 0 && x->dynamic_dim != a))
        return np_refuse("narrow_at", 1, &x, NEAP_ESHAPE,
                         "%lld elements at %s (at most %lld) + %lld of axis %d, which has %lld",
                         (long long)length, start->name, (long long)start->max, (long long)add, a,
                         (long long)n);
    neap_array *v = narrowed(x, a, length, add * x->strides[a], false);
    if (!v)
        return NULL;
    atomic_fetch_add(&start->refs, 1);
    v->shift = start;
    v->shift_scale = x->strides[a];
    return v;
}

neap_array *neap_limit(neap_array *x, int axis, neap_param *extent)
{
    int a;
    if (!usable("limit", x) || !np_axis("limit", x, axis, &a))
        return NULL;
    if (!extent || extent->max > x->shape[a])
        return np_refuse("limit", 1, &x, NEAP_ESHAPE, "axis %d has %lld, %s can be %lld", a,
                         (long long)x->shape[a], extent ? extent->name : "no parameter",
                         extent ? (long long)extent->max : 0);
    if (x->dynamic_dim == a && x->extent == extent)
        return x;
    if (x->dynamic_dim >= 0)
        return refuse_dynamic("limit", x, "an array can have one of these");
    neap_array *v = np_view(x, x->rank, x->shape, x->strides, 0);
    if (v)
        np_set_extent(v, a, extent);
    return v;
}

/* ---- order ---------------------------------------------------------------------------------- */

neap_array *neap_depends(neap_array *x, neap_array *before)
{
    if (!before || !np_ready(1, &x))
        return NULL;
    neap_array *v = np_view_carry(x, x->rank, x->shape, x->strides, 0, x->dynamic_dim);
    if (v)
        v->after = neap_retain(before);
    return v;
}
