/* portable_index.c - elements and rows by index of operators outside delegates.
 *
 * What writes single elements does so in the flat array, at i64 places. An index out of range becomes a place
 * out of range, which is an error when it runs. */
#include <string.h>

#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

static neap_array *number(int64_t value)
{
    return neap_array_from(NEAP_I64, 0, NULL, &value);
}

static neap_array *flat(neap_array *x)
{
    const int64_t all = -1;
    return neap_reshape(x, 1, &all);
}

/* One dimension at least. */
static neap_array *lifted(neap_array *x)
{
    return x && x->rank == 0 ? flat(x) : x;
}

/* ---- rows -------------------------------------------------------------------------------------------- */

BUILD(index_select)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    if (!x || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    if (x->rank == 0)
        return np_portable_give(c, x);
    return np_portable_give(c, neap_take(x, lifted(np_portable_tensor(c, 2)), axis));
}

BUILD(embedding)
{
    neap_array *weight = np_portable_tensor(c, 0);
    return np_portable_give(c, neap_take(weight, np_portable_tensor(c, 1), 0));
}

BUILD(take)
{
    neap_array *x = flat(np_portable_tensor(c, 0));
    return np_portable_give(c, neap_take(x, np_portable_tensor(c, 1), 0));
}

/* x as far as the index reaches along the other axes. */
static neap_array *within(neap_array *x, const neap_array *index, int axis)
{
    for (int d = 0; x && d < x->rank; d++)
        if (d != axis && index->shape[d] < x->shape[d])
            x = neap_narrow(x, d, 0, index->shape[d]);
    return x;
}

BUILD(gather)
{
    neap_array *x = np_portable_tensor(c, 0), *index = np_portable_tensor(c, 2);
    int axis;
    if (!x || !index || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    const bool single = index->rank == 0;
    x = lifted(x);
    index = lifted(index);
    if (x->rank != index->rank)
        return np_portable_fail(c, NEAP_ESHAPE, "an index of %d dimensions into %d", index->rank,
                                x->rank);
    neap_array *r = neap_take_along_axis(within(x, index, axis), index, axis);
    return np_portable_give(c, single ? neap_squeeze(r, 0) : r);
}

BUILD(index_add)
{
    neap_array *x = lifted(np_portable_tensor(c, 0)), *index = lifted(np_portable_tensor(c, 2));
    neap_array *source = lifted(np_portable_tensor(c, 3));
    const double alpha = np_portable_real(c, 4);
    int64_t shape[NEAP_MAX_RANK];
    int axis;
    if (!x || !index || !source || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    for (int d = 0; d < x->rank; d++)
        shape[d] = d == axis ? index->shape[0] : 1;
    index = neap_reshape(index, x->rank, shape);
    source = alpha == 1 ? source : neap_mul(source, np_portable_scalar(source, alpha));
    source = neap_cast(source, (neap_dtype)x->dtype);
    return np_portable_give(c, neap_scatter_add(x, index, source, axis));
}

BUILD(index_copy)
{
    neap_array *x = lifted(np_portable_tensor(c, 0)), *index = lifted(np_portable_tensor(c, 2));
    neap_array *source = neap_cast(lifted(np_portable_tensor(c, 3)), neap_array_dtype(x));
    int axis;
    return x && np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis) &&
           np_portable_give(c, neap_index_copy(x, source, index, axis));
}

BUILD(index_fill)
{
    neap_array *x = lifted(np_portable_tensor(c, 0)), *index = lifted(np_portable_tensor(c, 2));
    int64_t shape[NEAP_MAX_RANK];
    int axis;
    if (!x || !index || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = index->shape[0];
    neap_array *rows = neap_full(x->rank, shape, np_portable_real(c, 3), (neap_dtype)x->dtype);
    return np_portable_give(c, neap_index_copy(x, rows, index, axis));
}

/* ---- single elements ---------------------------------------------------------------------------------- */

/* The index from the start of its axis; NOWHERE if it is out of range. */
static neap_array *from_start(neap_array *index, int64_t extent)
{
    index = neap_cast(index, NEAP_I64);
    neap_array *zero = number(0), *n = number(extent);
    neap_array *up = neap_where(neap_less(index, zero), neap_add(index, n), index);
    neap_array *inside = neap_logical_and(neap_greater_equal(up, zero), neap_less(up, n));
    return neap_where(inside, up, number(INT64_MAX / 256));
}

/* Places of an index's elements in x flat: row-major, one dimension. */
static neap_array *flat_places(neap_array *x, neap_array *index, int axis)
{
    int64_t stride = 1;
    neap_array *at = NULL;
    for (int d = x->rank - 1; d >= 0; d--) {
        int64_t shape[NEAP_MAX_RANK];
        for (int e = 0; e < x->rank; e++)
            shape[e] = e == d ? index->shape[d] : 1;
        neap_array *own = d == axis ? from_start(index, x->shape[d])
                                    : neap_reshape(neap_arange(0, (double)index->shape[d], 1, NEAP_I64),
                                                   x->rank, shape);
        if (stride != 1 && d != axis)
            own = neap_mul(own, number(stride));
        if (stride != 1 && d == axis) { /* what is out of range stays so */
            neap_array *out = neap_greater_equal(own, number(x->shape[d]));
            own = neap_where(out, own, neap_mul(own, number(stride)));
        }
        at = at ? neap_add(at, own) : own;
        stride *= x->shape[d];
    }
    return flat(neap_broadcast_to(at, index->rank, index->shape));
}

typedef struct scattering {
    neap_array *x, *places, *updates; /* flat; updates of x's dtype */
} scattering;

/* Arguments self, dim, index, source (a tensor or a number). */
static bool find_scatter(np_portable_call *c, scattering *s)
{
    neap_array *x = lifted(np_portable_tensor(c, 0)), *index = lifted(np_portable_tensor(c, 2));
    neap_array *source = neap_cast(np_portable_tensor(c, 3), neap_array_dtype(x));
    int axis;
    if (!x || !index || !source || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    const bool one = c->row->arguments[3] == 'S';
    source = one ? source : lifted(source);
    bool fit = index->rank == x->rank && (one || source->rank == x->rank);
    for (int d = 0; fit && d < x->rank; d++) {
        fit = (d == axis || index->shape[d] <= x->shape[d]) &&
              (one || index->shape[d] <= source->shape[d]);
        if (fit && !one && index->shape[d] < source->shape[d])
            source = neap_narrow(source, d, 0, index->shape[d]);
    }
    if (!fit)
        return np_portable_fail(c, NEAP_ESHAPE, "index, source and self do not fit together");
    s->x = flat(x);
    s->places = flat_places(x, index, axis);
    s->updates = flat(neap_broadcast_to(source, index->rank, index->shape));
    return s->places && s->updates && s->x;
}

static bool give_scattered(np_portable_call *c, neap_array *r)
{
    const neap_array *x = np_portable_tensor(c, 0);
    return np_portable_give(c, neap_reshape(r, x->rank, x->shape));
}

BUILD(scatter)
{
    scattering s;
    return find_scatter(c, &s) &&
           give_scattered(c, neap_index_copy(s.x, s.updates, s.places, 0));
}

BUILD(scatter_add)
{
    scattering s;
    return find_scatter(c, &s) &&
           give_scattered(c, neap_scatter_add(s.x, s.places, s.updates, 0));
}

BUILD(scatter_reduce)
{
    if (np_portable_says(c, 4, "add"))
        return np_portable_scatter_add(c);
    return np_portable_fail(c, NEAP_EUNSUPPORTED, "a reduction other than add");
}

/* The mean of self's element and the updates; where there are none, it stays. */
static neap_array *scattered_mean(const scattering *s, neap_array *start, bool with_self)
{
    neap_array *one = neap_scalar(NEAP_F32, 1);
    neap_array *ones = neap_broadcast_to(one, 1, s->places->shape);
    neap_array *none = neap_full(1, s->x->shape, with_self ? 1 : 0, NEAP_F32);
    neap_array *count = neap_scatter_add(none, s->places, ones, 0);
    neap_array *sum = neap_scatter_add(neap_cast(start, NEAP_F32), s->places,
                                       neap_cast(s->updates, NEAP_F32), 0);
    return neap_div(sum, neap_maximum(count, one));
}

BUILD(scatter_reduce_two)
{
    scattering s;
    const bool with_self = np_portable_int(c, 5) != 0;
    const bool mean = np_portable_says(c, 4, "mean");
    if (!mean && !np_portable_says(c, 4, "sum"))
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "a reduction other than sum and mean");
    if (!find_scatter(c, &s))
        return false;
    if (mean && !np_portable_is_float(s.x))
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "the mean of integers");
    neap_array *start = s.x;
    if (!with_self) /* what is written to begins at 0 */
        start = neap_index_copy(s.x, neap_full(1, s.places->shape, 0, (neap_dtype)s.x->dtype),
                                s.places, 0);
    return give_scattered(c, mean ? scattered_mean(&s, start, with_self)
                                  : neap_scatter_add(start, s.places, s.updates, 0));
}

/* The true places of the mask take the source's elements in order. */
BUILD(masked_scatter)
{
    neap_array *x = np_portable_tensor(c, 0), *mask = np_portable_tensor(c, 1);
    neap_array *source = flat(np_portable_tensor(c, 2));
    if (!x || !mask || !source)
        return false;
    mask = neap_cast(neap_broadcast_to(mask, x->rank, x->shape), NEAP_BOOL);
    neap_array *before = neap_cumsum(neap_cast(flat(mask), NEAP_I64), 0, false, true);
    neap_array *at = neap_maximum(neap_sub(before, number(1)), number(0));
    if (source->shape[0] == 0)
        return np_portable_give(c, x);
    at = neap_where(flat(mask), at, number(0));
    neap_array *values = neap_reshape(neap_take(source, at, 0), x->rank, x->shape);
    return np_portable_give(c, neap_where(mask, values, x));
}

/* ---- several indices at once ------------------------------------------------------------------------- */

/* Indices of some axes of x, which broadcast together; where their dimensions stand in the result. */
typedef struct indexing {
    int n, axes[NEAP_MAX_RANK], rank, place; /* rank: of the indices together */
    int64_t shape[NEAP_MAX_RANK];
    neap_array *at[NEAP_MAX_RANK];
} indexing;

static bool is_mask(const neap_array *a)
{
    return a->dtype == NEAP_BOOL;
}

static bool broadcast_indices(np_portable_call *c, indexing *o)
{
    np_extents e;
    if (!np_broadcast("index", (uint32_t)o->n, o->at, &e))
        return false;
    if (e.dynamic_dim >= 0)
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "indices whose number is set at run time");
    o->rank = e.rank;
    memcpy(o->shape, e.shape, sizeof o->shape);
    bool together = true;
    for (int k = 1; k < o->n; k++)
        together &= o->axes[k] == o->axes[k - 1] + 1;
    o->place = together ? o->axes[0] : 0;
    return true;
}

/* Argument 1 of x. */
static bool find_indices(np_portable_call *c, const neap_array *x, indexing *o)
{
    const int n = np_portable_count(c, 1);
    *o = (indexing){0};
    if (n > x->rank)
        return np_portable_fail(c, NEAP_ESHAPE, "%d indices for %d dimensions", n, x->rank);
    for (int k = 0; k < n; k++) {
        neap_array *a = np_portable_tensor_at(c, 1, k);
        if (c->h->ctx->status != NEAP_OK)
            return false;
        if (!a)
            continue;
        if (is_mask(a))
            return np_portable_fail(c, NEAP_EUNSUPPORTED,
                                    "a mask as index: how much it gives hangs on the data");
        o->axes[o->n] = k;
        o->at[o->n++] = a;
    }
    if (o->n == 0)
        return np_portable_fail(c, NEAP_EINVAL, "no index");
    return broadcast_indices(c, o);
}

/* Dimensions that stand in front are moved to their place in the result. */
static neap_array *to_place(neap_array *x, const indexing *o)
{
    int axes[NEAP_MAX_RANK];
    if (!x || o->place == 0)
        return x;
    for (int d = 0; d < x->rank; d++)
        axes[d] = d < o->place             ? o->rank + d
                  : d < o->place + o->rank ? d - o->place
                                           : d;
    return neap_transpose(x, axes);
}

BUILD(index)
{
    neap_array *x = np_portable_tensor(c, 0);
    indexing o;
    int64_t sizes[NEAP_MAX_RANK], shape[NEAP_MAX_RANK];
    if (!x || !find_indices(c, x, &o))
        return false;
    if (o.n == 1)
        return np_portable_give(c, neap_take(x, o.at[0], o.axes[0]));
    if (x->rank - o.n + o.rank > NEAP_MAX_RANK || x->rank + o.rank > NEAP_MAX_RANK)
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "more than %d dimensions", NEAP_MAX_RANK);
    memcpy(sizes, x->shape, sizeof sizes);
    for (int k = 0; k < o.n; k++)
        sizes[o.axes[k]] = 1;
    neap_array *r = neap_gather(x, o.n, o.at, o.axes, sizes);
    int rank = o.rank;
    memcpy(shape, o.shape, sizeof shape);
    for (int d = 0, k = 0; d < x->rank; d++) {
        if (k < o.n && o.axes[k] == d)
            k++;
        else
            shape[rank++] = x->shape[d];
    }
    return np_portable_give(c, to_place(neap_reshape(r, rank, shape), &o));
}

/* x with the indexed axes in front: their order in `axes`. */
static void axes_in_front(const neap_array *x, const indexing *o, int *axes)
{
    int n = 0;
    for (int k = 0; k < o->n; k++)
        axes[n++] = o->axes[k];
    for (int d = 0, k = 0; d < x->rank; d++) {
        if (k < o->n && o->axes[k] == d)
            k++;
        else
            axes[n++] = d;
    }
}

/* Which rows of x, with its indexed axes in front and joined, are meant; one dimension. */
static neap_array *row_numbers(const neap_array *x, const indexing *o)
{
    int64_t stride = 1;
    neap_array *at = NULL, *bad = NULL;
    for (int k = o->n - 1; k >= 0; k--) {
        const int64_t extent = x->shape[o->axes[k]];
        neap_array *own = from_start(o->at[k], extent);
        neap_array *out = neap_greater_equal(own, number(extent));
        own = neap_mul(neap_where(out, number(0), own), number(stride));
        at = at ? neap_add(at, own) : own;
        bad = bad ? neap_logical_or(bad, out) : out;
        stride *= extent;
    }
    return flat(neap_broadcast_to(neap_where(bad, number(stride), at), o->rank, o->shape));
}

/* Values as rows: broadcast to what the indices select, their dimensions in front. */
static neap_array *rows_of(neap_array *values, const neap_array *x, const indexing *o, int64_t rows)
{
    int64_t shape[NEAP_MAX_RANK];
    int axes[NEAP_MAX_RANK], rank = 0, n = 0;
    for (int d = 0, k = 0; d <= x->rank; d++) {
        if (d == o->place)
            for (int e = 0; e < o->rank; e++)
                shape[rank++] = o->shape[e];
        if (d == x->rank)
            break;
        if (k < o->n && o->axes[k] == d)
            k++;
        else
            shape[rank++] = x->shape[d];
    }
    values = neap_broadcast_to(values, rank, shape);
    for (int e = 0; e < o->rank; e++)
        axes[n++] = o->place + e;
    for (int d = 0; d < rank; d++)
        if (d < o->place || d >= o->place + o->rank)
            axes[n++] = d;
    int64_t row = 1;
    for (int e = o->rank; e < rank; e++)
        row *= shape[axes[e]];
    const int64_t matrix[2] = {rows, row};
    return neap_reshape(neap_transpose(values, axes), 2, matrix);
}

static neap_array *put(np_portable_call *c, neap_array *x, neap_array *values, bool add)
{
    indexing o;
    int axes[NEAP_MAX_RANK], back[NEAP_MAX_RANK];
    int64_t shape[NEAP_MAX_RANK], matrix[2] = {1, 1}, rows = 1;
    if (!find_indices(c, x, &o))
        return NULL;
    if (x->rank - o.n + o.rank > NEAP_MAX_RANK)
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "more than %d dimensions", NEAP_MAX_RANK), NULL;
    axes_in_front(x, &o, axes);
    for (int d = 0; d < x->rank; d++) {
        shape[d] = x->shape[axes[d]];
        back[axes[d]] = d;
        matrix[d >= o.n] *= shape[d];
    }
    for (int e = 0; e < o.rank; e++)
        rows *= o.shape[e];
    neap_array *to = neap_reshape(neap_transpose(x, axes), 2, matrix);
    neap_array *at = row_numbers(x, &o), *from = rows_of(values, x, &o, rows);
    if (add) {
        const int64_t column[2] = {rows, 1};
        to = neap_scatter_add(to, neap_reshape(at, 2, column), from, 0);
    } else {
        to = neap_index_copy(to, from, at, 0);
    }
    return neap_transpose(neap_reshape(to, x->rank, shape), back);
}

/* One mask, and one value for all of its places; NULL: it is not that. */
static neap_array *put_masked(np_portable_call *c, neap_array *x, neap_array *values)
{
    const int n = np_portable_count(c, 1);
    neap_array *mask = NULL;
    int at = 0;
    for (int k = 0; k < n; k++) {
        neap_array *a = np_portable_tensor_at(c, 1, k);
        if (a && mask)
            return NULL;
        if (a) {
            mask = a;
            at = k;
        }
    }
    if (!mask || !is_mask(mask) || at + mask->rank > x->rank || neap_array_size(values) != 1)
        return NULL;
    int64_t shape[NEAP_MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        shape[d] = d >= at && d < at + mask->rank ? mask->shape[d - at] : 1;
    return neap_where(neap_reshape(mask, x->rank, shape), neap_reshape(values, 0, NULL), x);
}

static neap_array *put_any(np_portable_call *c)
{
    neap_array *x = np_portable_tensor(c, 0);
    neap_array *values = neap_cast(np_portable_tensor(c, 2), neap_array_dtype(x));
    const bool add = np_portable_int(c, 3) != 0;
    if (!x || !values)
        return NULL;
    neap_array *masked = add ? NULL : put_masked(c, x, values);
    return masked || c->h->ctx->status != NEAP_OK ? masked : put(c, x, values, add);
}

BUILD(index_put)
{
    return np_portable_give(c, put_any(c));
}

BUILD(index_put_into)
{
    return np_portable_give(c, np_copied(put_any(c)));
}

/* ---- bags ------------------------------------------------------------------------------------------- */

enum { BAG_SUM, BAG_MEAN };

/* The bag of each index: how many offsets are not beyond its place, less one. */
static neap_array *bags(neap_array *offsets, int64_t n)
{
    const int last = 1;
    neap_array *places = neap_expand_dims(neap_arange(0, (double)n, 1, NEAP_I64), 1);
    neap_array *begun = neap_less_equal(neap_cast(offsets, NEAP_I64), places);
    neap_array *count = neap_sum_axes(neap_cast(begun, NEAP_I64), 1, &last, 0);
    return neap_sub(count, number(1));
}

/* Sums or means of rows; the other results are for the gradient. */
BUILD(embedding_bag)
{
    neap_array *weight = np_portable_tensor(c, 0), *indices = np_portable_tensor(c, 1);
    neap_array *offsets = np_portable_tensor(c, 2);
    const int64_t mode = np_portable_int(c, 4), padding = np_portable_int(c, 8);
    if (!weight || !indices || !offsets)
        return false;
    if (mode != BAG_SUM && mode != BAG_MEAN)
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "mode max");
    if (weight->rank != 2 || indices->rank != 1 || offsets->rank != 1)
        return np_portable_fail(c, NEAP_ESHAPE, "weights, indices or offsets");
    const int64_t n = indices->shape[0], rows = offsets->shape[0] - (np_portable_int(c, 7) != 0);
    const int64_t shape[2] = {rows, weight->shape[1]}, ones[2] = {rows, 1};
    if (rows <= 0 || n == 0)
        return np_portable_give(c, neap_full(2, (int64_t[]){rows > 0 ? rows : 0, shape[1]}, 0, NEAP_F32));
    if (np_portable_int(c, 7))
        offsets = neap_narrow(offsets, 0, 0, rows);
    neap_array *bag = neap_expand_dims(bags(offsets, n), 1);
    neap_array *row = np_portable_wide(neap_take(weight, indices, 0));
    neap_array *use = neap_not_equal(neap_cast(indices, NEAP_I64), number(padding));
    use = neap_expand_dims(neap_cast(use, NEAP_F32), 1);
    if (np_portable_has(c, 6))
        row = neap_mul(row, neap_expand_dims(np_portable_wide(np_portable_tensor(c, 6)), 1));
    if (padding >= 0)
        row = neap_mul(row, use);
    neap_array *sum = neap_scatter_add(neap_full(2, shape, 0, NEAP_F32), bag, row, 0);
    if (mode == BAG_SUM)
        return np_portable_give(c, sum);
    if (padding < 0)
        use = neap_full(2, (int64_t[]){n, 1}, 1, NEAP_F32);
    neap_array *count = neap_scatter_add(neap_full(2, ones, 0, NEAP_F32), bag, use, 0);
    return np_portable_give(c, neap_div(sum, neap_maximum(count, neap_scalar(NEAP_F32, 1))));
}
