/* layout.c - ops that lay the elements of their inputs out anew: tile, repeat, roll, flip, stack,
 * split in given sizes, padding with the edge, and elements at given strides. Views where views can
 * say it; only roll is a step of its own, the others are views and the copies of reshape and
 * concat. */
#include <string.h>

#include "ops/support.h"

static bool usable(const char *op, neap_array *x)
{
    return np_ready(1, &x) && np_plain_dtype(op, x);
}

/* ---- tile and repeat ------------------------------------------------------------------------ */

/* x `times` over along an axis: the axis as a whole, or (each) every element of it. A new dimension
 * before or behind the axis is broadcast and becomes one with it. */
static neap_array *repeated(const char *op, neap_array *x, int axis, int64_t times, bool each)
{
    int64_t shape[NEAP_MAX_RANK], wide[NEAP_MAX_RANK];
    int rank = x->rank;
    memcpy(shape, x->shape, sizeof shape);
    if (times < 0 || __builtin_mul_overflow(shape[axis], times, &shape[axis]))
        return np_refuse(op, 1, &x, NEAP_ESHAPE, "%lld times along axis %d", (long long)times,
                         axis);
    if (times == 1)
        return x;
    if (rank == NEAP_MAX_RANK) { /* no dimension is left for the new one */
        x = neap_reshape(x, 3,
                         (int64_t[]){np_size(axis, x->shape), x->shape[axis],
                                     np_size(rank - 1 - axis, x->shape + axis + 1)});
        axis = 1;
    }
    neap_array *v = x ? neap_expand_dims(x, axis + each) : NULL;
    if (!v)
        return NULL;
    memcpy(wide, v->shape, sizeof wide);
    wide[axis + each] = times;
    return neap_reshape(neap_broadcast_to(v, v->rank, wide), rank, shape);
}

neap_array *neap_tile(neap_array *x, int n, const int64_t *reps)
{
    int64_t shape[NEAP_MAX_RANK];
    if (!usable("tile", x))
        return NULL;
    int rank = n > x->rank ? n : x->rank;
    if (n < 0 || rank > NEAP_MAX_RANK || (n > 0 && !reps))
        return np_refuse("tile", 1, &x, NEAP_ESHAPE, "%d repetitions, the limit is %d", n,
                         NEAP_MAX_RANK);
    for (int d = 0; d < rank; d++)
        shape[d] = d < rank - x->rank ? 1 : x->shape[d - (rank - x->rank)];
    x = neap_reshape(x, rank, shape);
    for (int d = rank - 1; x && d >= rank - n; d--)
        x = repeated("tile", x, d, reps[d - (rank - n)], false);
    return x;
}

neap_array *neap_repeat(neap_array *x, int64_t repeats, int axis)
{
    int a;
    if (!usable("repeat", x) || !np_axis("repeat", x, axis, &a))
        return NULL;
    return repeated("repeat", x, a, repeats, true);
}

/* ---- roll ----------------------------------------------------------------------------------- */

typedef struct np_roll_attr {
    int64_t shift[NEAP_MAX_RANK];
} np_roll_attr;

/* Every axis that turns is cut in two, so the array in 2^axes blocks, each of which is one copy. */
static neap_status roll_run(const np_call *c)
{
    const np_roll_attr *attr = c->attr;
    const np_operand *x = c->in[0], *out = c->out;
    int64_t size = np_element_bytes(out->dtype), shift[NEAP_MAX_RANK], shape[NEAP_MAX_RANK];
    int turned[NEAP_MAX_RANK], n = 0;
    for (int d = 0; d < out->rank; d++) {
        int64_t extent = shape[d] = out->shape[d], s = extent ? attr->shift[d] % extent : 0;
        shift[d] = s < 0 ? s + extent : s;
        if (shift[d])
            turned[n++] = d;
    }
    for (unsigned block = 0; block < 1u << n; block++) {
        int64_t to = 0, from = 0;
        for (int i = 0; i < n; i++) {
            int d = turned[i];
            int64_t stays = out->shape[d] - shift[d];
            bool wraps = block >> i & 1;
            shape[d] = wraps ? shift[d] : stays;
            to += wraps ? 0 : shift[d] * out->strides[d];
            from += wraps ? stays * x->strides[d] : 0;
        }
        np_copy copy = np_copy_make(size, out->rank, shape, out->strides, x->strides);
        np_copy_all(&copy, c->pool, out->data + to * size, x->data + from * size);
    }
    return NEAP_OK;
}

/* Dimensions that do not turn. */
static int roll_part(const np_call *shapes, int dim, uint32_t input)
{
    (void)input;
    return ((const np_roll_attr *)shapes->attr)->shift[dim] == 0 ? dim : NP_PART_NONE;
}

const np_op np_op_roll = {
    .name = "roll", .arity = 1, .infer = np_infer_same, .run = roll_run, .part = roll_part};

neap_array *neap_roll(neap_array *x, int n, const int64_t *shifts, const int *axes)
{
    np_roll_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!usable("roll", x))
        return NULL;
    if (n < 0 || (n > 0 && (!shifts || !axes)))
        return np_refuse("roll", 1, &x, NEAP_EINVAL, "%d axes", n);
    for (int i = 0; i < n; i++) {
        int a;
        if (!np_axis("roll", x, axes[i], &a))
            return NULL;
        if (__builtin_add_overflow(attr.shift[a], shifts[i], &attr.shift[a]))
            return np_refuse("roll", 1, &x, NEAP_EINVAL, "by %lld along axis %d",
                             (long long)shifts[i], a);
    }
    return n == 0 ? x : np_node(&np_op_roll, 1, &x, &attr, sizeof attr);
}

/* ---- views ---------------------------------------------------------------------------------- */

neap_array *neap_flip(neap_array *x, int n, const int *axes)
{
    int64_t open[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
    if (!usable("flip", x))
        return NULL;
    if (n < 0 || (n > 0 && !axes))
        return np_refuse("flip", 1, &x, NEAP_EINVAL, "%d axes", n);
    for (int d = 0; d < x->rank; d++) {
        open[d] = NEAP_END;
        step[d] = 1;
    }
    for (int i = 0; i < n; i++) {
        int a;
        if (!np_axis("flip", x, axes[i], &a))
            return NULL;
        if (step[a] < 0)
            return np_refuse("flip", 1, &x, NEAP_ESHAPE, "axis %d is named twice", a);
        step[a] = -1;
    }
    return n == 0 ? x : neap_slice(x, open, open, step);
}

/* The lowest and highest element that the view reads; false if they are no 64-bit numbers. */
static bool reach(int rank, const int64_t *shape, const int64_t *strides, int64_t *low,
                  int64_t *high)
{
    for (int d = 0; d < rank; d++) {
        int64_t *end = strides[d] < 0 ? low : high, last;
        if (__builtin_mul_overflow(shape[d] - 1, strides[d], &last) ||
            __builtin_add_overflow(*end, last, end))
            return false;
    }
    return true;
}

neap_array *neap_as_strided(neap_array *x, int rank, const int64_t *shape, const int64_t *strides,
                            int64_t offset)
{
    int64_t elements, low = offset, high = offset;
    uint64_t bytes;
    if (!usable("as_strided", x))
        return NULL;
    if (x->dynamic_dim >= 0)
        return np_refuse("as_strided", 1, &x, NEAP_EUNSUPPORTED, "extent %s is set at run time",
                         x->extent->name);
    if (rank < 0 || rank > NEAP_MAX_RANK || (rank > 0 && (!shape || !strides)) ||
        !np_shape_bytes((neap_dtype)x->dtype, rank, shape, &elements, &bytes))
        return np_refuse("as_strided", 1, &x, NEAP_ESHAPE,
                         "%d dimensions, at most %d; extents must be 0 or more, at most 2^62 in "
                         "all",
                         rank, NEAP_MAX_RANK);
    int64_t size = neap_array_size(x);
    if (elements == 0)
        offset = 0; /* reads nothing, wherever that lies */
    else if (!reach(rank, shape, strides, &low, &high) || low < 0 || high >= size)
        return np_refuse("as_strided", 1, &x, NEAP_EINVAL,
                         "elements %lld to %lld of %lld (offset %lld)", (long long)low,
                         (long long)high, (long long)size, (long long)offset);
    if (!np_is_row_major(x->rank, x->shape, x->strides))
        x = np_copied(x);
    return x ? np_view(x, rank, shape, strides, offset) : NULL;
}

/* ---- stack and split ------------------------------------------------------------------------- */

neap_array *neap_stack(int n, neap_array *const *parts, int axis)
{
    if (n <= 0 || !parts)
        return np_refuse("stack", 0, NULL, NEAP_EINVAL, "%d parts, expected 1 or more", n);
    if (!np_ready((uint32_t)n, parts))
        return NULL;
    neap_context *ctx = np_scope_context();
    size_t bytes = (size_t)n * sizeof(neap_array *);
    neap_array **in = np_alloc(ctx, NEAP_MEM_GRAPH, bytes);
    if (!in)
        return NULL;
    for (int i = 0; i < n; i++)
        in[i] = neap_expand_dims(parts[i], axis);
    neap_array *out = neap_concat(n, in, axis);
    np_free(ctx, NEAP_MEM_GRAPH, in, bytes);
    return out;
}

static neap_status split_sizes(neap_array *x, int n, const int64_t *sizes, int axis,
                               neap_array **parts)
{
    int a;
    if (!usable("split_sizes", x) || !np_axis("split_sizes", x, axis, &a))
        return np_refused();
    int64_t left = x->shape[a];
    bool fits = n > 0 && sizes;
    for (int i = 0; fits && i < n; i++) {
        fits = sizes[i] >= 0 && sizes[i] <= left;
        left -= fits ? sizes[i] : 0;
    }
    if (!fits || left != 0) {
        np_refuse("split_sizes", 1, &x, NEAP_ESHAPE,
                  "%d sizes, 0 or more, must add up to the %lld along axis %d", n,
                  (long long)x->shape[a], a);
        return np_refused();
    }
    for (int64_t i = 0, at = 0; i < n; at += sizes[i++]) {
        parts[i] = neap_narrow(x, a, at, at + sizes[i]);
        if (!parts[i])
            return np_refused();
    }
    return NEAP_OK;
}

neap_status neap_split_sizes(neap_array *x, int n, const int64_t *sizes, int axis,
                             neap_array **parts)
{
    for (int i = 0; parts && i < n; i++)
        parts[i] = NULL;
    return NP_CALL(np_scope_context(), (parts && sizes) || n <= 0,
                   split_sizes(x, n, sizes, axis, parts));
}

/* ---- padding with the edge ------------------------------------------------------------------- */

/* `times` copies of the row of x at `at` along an axis. */
static neap_array *edge(neap_array *x, int axis, int64_t at, int64_t times)
{
    int64_t shape[NEAP_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = times;
    return neap_broadcast_to(neap_narrow(x, axis, at, at + 1), x->rank, shape);
}

neap_array *neap_pad_edge(neap_array *x, const int64_t *before, const int64_t *after)
{
    if (!usable("pad_edge", x))
        return NULL;
    if (x->rank > 0 && (!before || !after))
        return np_refuse("pad_edge", 1, &x, NEAP_EINVAL, "no widths");
    int64_t first[NEAP_MAX_RANK], last[NEAP_MAX_RANK];
    x = np_cropped("pad_edge", x, before, after, first, last);
    for (int d = 0; x && d < x->rank; d++) {
        neap_array *parts[3];
        int64_t n = x->shape[d];
        int count = 0;
        if (n == 0 && (first[d] > 0 || last[d] > 0))
            return np_refuse("pad_edge", 1, &x, NEAP_ESHAPE,
                             "dimension %d is empty: it has no edge", d);
        if (first[d] > 0)
            parts[count++] = edge(x, d, 0, first[d]);
        parts[count++] = x;
        if (last[d] > 0)
            parts[count++] = edge(x, d, n - 1, last[d]);
        x = neap_concat(count, parts, d);
    }
    return x;
}
