/* portable_shape.c - parts, joins, layouts and pads of operators outside delegates. */
#include <string.h>

#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

/* ---- layouts ---------------------------------------------------------------------------------------- */

BUILD(permute)
{
    neap_array *x = np_portable_tensor(c, 0);
    int n, axes[NEAP_MAX_RANK];
    if (!np_portable_axes(c, 1, x, &n, axes))
        return false;
    if (n != x->rank)
        return np_portable_fail(c, NEAP_ESHAPE, "%d axes for %d dimensions", n, x->rank);
    return np_portable_give(c, neap_transpose(x, axes));
}

BUILD(transpose)
{
    neap_array *x = np_portable_tensor(c, 0);
    int a, b;
    if (!x || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &a) ||
        !np_portable_axis(c, np_portable_int(c, 2), x->rank, &b))
        return false;
    return np_portable_give(c, x->rank ? neap_swap_axes(x, a, b) : x);
}

BUILD(t)
{
    neap_array *x = np_portable_tensor(c, 0);
    if (x && x->rank > 2)
        return np_portable_fail(c, NEAP_ESHAPE, "%d dimensions, at most 2", x->rank);
    return np_portable_give(c, x && x->rank == 2 ? neap_swap_axes(x, 0, 1) : x);
}

BUILD(view)
{
    int64_t shape[NEAP_MAX_RANK];
    int n;
    return np_portable_ints(c, 1, &n, shape) &&
           np_portable_give(c, neap_reshape(np_portable_tensor(c, 0), n, shape));
}

/* -1 keeps an extent; dimensions are aligned at the right. */
BUILD(expand)
{
    neap_array *x = np_portable_tensor(c, 0);
    int64_t shape[NEAP_MAX_RANK];
    int n;
    if (!x || !np_portable_ints(c, 1, &n, shape))
        return false;
    for (int d = 0; d < n; d++) {
        const int own = d - (n - x->rank);
        if (shape[d] == -1 && own >= 0)
            shape[d] = x->shape[own];
    }
    return np_portable_give(c, neap_broadcast_to(x, n, shape));
}

BUILD(unsqueeze)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    if (!x || !np_portable_axis(c, np_portable_int(c, 1), x->rank + 1, &axis))
        return false;
    return np_portable_give(c, neap_expand_dims(x, axis));
}

static bool squeezed(np_portable_call *c, neap_array *x, unsigned axes)
{
    for (int d = x->rank - 1; x && d >= 0; d--)
        if (axes & 1u << d && x->shape[d] == 1)
            x = neap_squeeze(x, d);
    return np_portable_give(c, x);
}

BUILD(squeeze)
{
    neap_array *x = np_portable_tensor(c, 0);
    return x && squeezed(c, x, ~0u);
}

BUILD(squeeze_axis)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    return x && np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis) &&
           squeezed(c, x, 1u << axis);
}

BUILD(squeeze_axes)
{
    neap_array *x = np_portable_tensor(c, 0);
    unsigned axes = 0;
    for (int k = 0, axis; x && k < np_portable_count(c, 1); k++) {
        if (!np_portable_axis(c, np_portable_int_at(c, 1, k), x->rank, &axis))
            return false;
        axes |= 1u << axis;
    }
    return x && squeezed(c, x, axes);
}

/* Of the elements as they lie row-major. */
BUILD(as_strided)
{
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    int n, m;
    if (!np_portable_ints(c, 1, &n, shape) || !np_portable_ints(c, 2, &m, strides))
        return false;
    if (n != m)
        return np_portable_fail(c, NEAP_ESHAPE, "%d extents, %d strides", n, m);
    const int64_t offset = np_portable_has(c, 3) ? np_portable_int(c, 3) : 0;
    return np_portable_give(c, neap_as_strided(np_portable_tensor(c, 0), n, shape, strides, offset));
}

static void row_major(const neap_array *x, int64_t *strides)
{
    int64_t stride = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= x->shape[d];
    }
}

/* Every `step` elements along an axis the next `size`, as a new last dimension. */
BUILD(unfold)
{
    neap_array *x = np_portable_tensor(c, 0);
    const int64_t size = np_portable_int(c, 2), step = np_portable_int(c, 3);
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    int axis;
    if (!x || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    if (x->rank == 0 || x->rank == NEAP_MAX_RANK || size < 0 || step < 1 || size > x->shape[axis])
        return np_portable_fail(c, NEAP_ESHAPE, "parts of %lld, each %lld, of %lld", (long long)size,
                                (long long)step, (long long)(x->rank ? x->shape[axis] : 1));
    row_major(x, strides);
    memcpy(shape, x->shape, sizeof shape);
    shape[x->rank] = size;
    strides[x->rank] = strides[axis];
    shape[axis] = (x->shape[axis] - size) / step + 1;
    strides[axis] *= shape[axis] > 1 ? step : 1; /* of one part the step may be any number */
    return np_portable_give(c, neap_as_strided(x, x->rank + 1, shape, strides, 0));
}

/* The elements where both axes have one place, one of them moved by the offset: a new last dimension. */
BUILD(diagonal)
{
    neap_array *x = np_portable_tensor(c, 0);
    const int64_t move = np_portable_int(c, 1);
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    int a, b, n = 0;
    if (!x || !np_portable_axis(c, np_portable_int(c, 2), x->rank, &a) ||
        !np_portable_axis(c, np_portable_int(c, 3), x->rank, &b))
        return false;
    if (a == b || x->rank < 2)
        return np_portable_fail(c, NEAP_ESHAPE, "one axis twice");
    row_major(x, strides);
    const int64_t along = strides[a] + strides[b];
    const int64_t height = move < 0 ? x->shape[a] + move : x->shape[a];
    const int64_t width = move > 0 ? x->shape[b] - move : x->shape[b];
    const int64_t most = height < width ? height : width;
    for (int d = 0; d < x->rank; d++)
        if (d != a && d != b) {
            shape[n] = x->shape[d];
            strides[n++] = strides[d];
        }
    shape[n] = most > 0 ? most : 0;
    strides[n++] = along;
    const int64_t offset = most <= 0 ? 0 : move < 0 ? -move * strides[a] : move * strides[b];
    return np_portable_give(c, neap_as_strided(x, n, shape, strides, offset));
}

/* Whether a factor and its products stay in range: of empty dimensions it may be anything. */
static bool factor_fits(const int64_t *shape, int64_t r, bool out)
{
    int64_t square, product;
    if (r < 1 || __builtin_mul_overflow(r, r, &square))
        return false;
    if (out)
        return shape[0] % square == 0 && !__builtin_mul_overflow(shape[1], r, &product) &&
               !__builtin_mul_overflow(shape[2], r, &product);
    return shape[1] % r == 0 && shape[2] % r == 0 && !__builtin_mul_overflow(shape[0], square, &product);
}

/* [.., C r r, H, W] to [.., C, H r, W r], or back. */
static bool shuffle(np_portable_call *c, bool out)
{
    neap_array *x = np_portable_tensor(c, 0);
    const int64_t r = np_portable_int(c, 1);
    int64_t shape[3] = {1, 1, 1}, all = 1;
    if (!x)
        return false;
    for (int d = 0; d < x->rank; d++)
        if (d < x->rank - 3)
            all *= x->shape[d];
        else
            shape[d - (x->rank - 3)] = x->shape[d];
    if (x->rank < 3 || !factor_fits(shape, r, out))
        return np_portable_fail(c, NEAP_ESHAPE, "a factor of %lld does not fit", (long long)r);
    const int64_t ch = shape[0], h = shape[1], w = shape[2];
    const int64_t apart[6] = {all, out ? ch / (r * r) : ch, out ? r : h / r, r, out ? h : w / r,
                              out ? w : r};
    const int up[6] = {0, 1, 4, 2, 5, 3}, down[6] = {0, 1, 3, 5, 2, 4};
    int64_t to[NEAP_MAX_RANK];
    memcpy(to, x->shape, sizeof to);
    to[x->rank - 3] = out ? ch / (r * r) : ch * r * r;
    to[x->rank - 2] = out ? h * r : h / r;
    to[x->rank - 1] = out ? w * r : w / r;
    neap_array *y = neap_transpose(neap_reshape(x, 6, apart), out ? up : down);
    return np_portable_give(c, neap_reshape(y, x->rank, to));
}

BUILD(pixel_shuffle)
{
    return shuffle(c, true);
}

BUILD(pixel_unshuffle)
{
    return shuffle(c, false);
}

BUILD(channel_shuffle)
{
    neap_array *x = np_portable_tensor(c, 0);
    const int64_t groups = np_portable_int(c, 1);
    if (!x)
        return false;
    if (x->rank < 2 || groups < 1 || x->shape[1] % groups)
        return np_portable_fail(c, NEAP_ESHAPE, "%lld groups do not fit", (long long)groups);
    const int64_t apart[4] = {x->shape[0], groups, x->shape[1] / groups, -1};
    return np_portable_give(
        c, neap_reshape(neap_swap_axes(neap_reshape(x, 4, apart), 1, 2), x->rank, x->shape));
}

/* ---- parts ------------------------------------------------------------------------------------------- */

static int64_t clamp(int64_t v, int64_t extent)
{
    v = v < 0 ? v + extent : v;
    return v < 0 ? 0 : v > extent ? extent : v;
}

typedef struct span {
    int axis;
    int64_t start, stop, step;
} span;

/* Arguments axis, start, end (which may be absent), step, from `at` on. */
static bool find_span(np_portable_call *c, const neap_array *x, int at, span *s)
{
    if (!x || !np_portable_axis(c, np_portable_int(c, at), x->rank, &s->axis))
        return false;
    if (x->rank == 0)
        return np_portable_fail(c, NEAP_ESHAPE, "a part of a number");
    const int64_t extent = x->shape[s->axis];
    s->step = np_portable_int(c, at + 3);
    s->start = np_portable_has(c, at + 1) ? clamp(np_portable_int(c, at + 1), extent) : 0;
    s->stop = np_portable_has(c, at + 2) ? clamp(np_portable_int(c, at + 2), extent) : extent;
    s->stop = s->stop < s->start ? s->start : s->stop;
    if (s->step < 1)
        return np_portable_fail(c, NEAP_EINVAL, "a step of %lld", (long long)s->step);
    return true;
}

static void region(const neap_array *x, const span *s, int64_t *start, int64_t *stop, int64_t *step)
{
    for (int d = 0; d < x->rank; d++) {
        start[d] = d == s->axis ? s->start : 0;
        stop[d] = d == s->axis ? s->stop : NEAP_END;
        step[d] = d == s->axis ? s->step : 1;
    }
}

BUILD(slice)
{
    neap_array *x = np_portable_tensor(c, 0);
    int64_t start[NEAP_MAX_RANK], stop[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
    span s;
    if (!find_span(c, x, 1, &s))
        return false;
    if (s.step == 1)
        return np_portable_give(c, neap_narrow(x, s.axis, s.start, s.stop));
    region(x, &s, start, stop, step);
    return np_portable_give(c, neap_slice(x, start, stop, step));
}

BUILD(slice_scatter)
{
    neap_array *x = np_portable_tensor(c, 0), *part = np_portable_tensor(c, 1);
    int64_t start[NEAP_MAX_RANK], stop[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
    span s;
    if (!part || !find_span(c, x, 2, &s))
        return false;
    if (s.start == s.stop)
        return np_portable_give(c, x);
    region(x, &s, start, stop, step);
    part = neap_cast(part, (neap_dtype)x->dtype);
    return np_portable_give(c, neap_slice_update(x, part, start, stop, step));
}

BUILD(narrow)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    if (!x || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    if (x->rank == 0)
        return np_portable_fail(c, NEAP_ESHAPE, "a part of a number");
    const int64_t length = np_portable_int(c, 3), extent = x->shape[axis];
    int64_t start = np_portable_int(c, 2);
    start = start < 0 ? start + extent : start;
    if (start < 0 || length < 0 || start > extent || length > extent - start)
        return np_portable_fail(c, NEAP_EINVAL, "%lld from %lld on, of %lld", (long long)length,
                                (long long)start, (long long)extent);
    return np_portable_give(c, neap_narrow(x, axis, start, start + length));
}

/* Arguments axis, index from `at` on. */
static bool find_one(np_portable_call *c, const neap_array *x, int at, int *axis, int64_t *index)
{
    if (!x || !np_portable_axis(c, np_portable_int(c, at), x->rank, axis))
        return false;
    const int64_t extent = x->rank ? x->shape[*axis] : 0;
    *index = np_portable_int(c, at + 1);
    if (*index < -extent || *index >= extent)
        return np_portable_fail(c, NEAP_EINVAL, "index %lld, the dimension has %lld",
                                (long long)*index, (long long)extent);
    *index += *index < 0 ? extent : 0;
    return true;
}

BUILD(select)
{
    neap_array *x = np_portable_tensor(c, 0);
    int64_t at;
    int axis;
    if (!find_one(c, x, 1, &axis, &at))
        return false;
    return np_portable_give(c, neap_squeeze(neap_narrow(x, axis, at, at + 1), axis));
}

BUILD(select_scatter)
{
    neap_array *x = np_portable_tensor(c, 0), *part = np_portable_tensor(c, 1);
    int64_t start[NEAP_MAX_RANK], stop[NEAP_MAX_RANK], step[NEAP_MAX_RANK], at;
    span s = {.step = 1};
    if (!part || !find_one(c, x, 2, &s.axis, &at))
        return false;
    s.start = at;
    s.stop = at + 1;
    region(x, &s, start, stop, step);
    part = neap_expand_dims(neap_cast(part, (neap_dtype)x->dtype), s.axis);
    return np_portable_give(c, neap_slice_update(x, part, start, stop, step));
}

/* The results of a LIST row, one after the other along an axis; one = true: without that axis. */
typedef int64_t size_of(np_portable_call *c, int k);

static bool split(np_portable_call *c, int64_t dim, size_of *size, bool one)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    int64_t at = 0;
    if (!x || !np_portable_axis(c, dim, x->rank, &axis))
        return false;
    const int64_t extent = x->rank ? x->shape[axis] : 0;
    const int n = np_portable_results(c);
    for (int k = 0; k < n; k++) {
        int64_t end;
        if (__builtin_add_overflow(at, size(c, k), &end))
            end = -1;
        end = end > extent && k == n - 1 && !one ? extent : end; /* the last of equal parts is shorter */
        if (end < at || end > extent)
            return np_portable_fail(c, NEAP_ESHAPE, "parts do not add up to %lld", (long long)extent);
        neap_array *part = neap_narrow(x, axis, at, end);
        if (!np_portable_give_at(c, k, one ? neap_squeeze(part, axis) : part))
            return false;
        at = end;
    }
    if (at != extent)
        return np_portable_fail(c, NEAP_ESHAPE, "parts add up to %lld of %lld", (long long)at,
                                (long long)extent);
    return true;
}

static int64_t equal_size(np_portable_call *c, int k)
{
    (void)k;
    return np_portable_int(c, 1);
}

static int64_t listed_size(np_portable_call *c, int k)
{
    return k < np_portable_count(c, 1) ? np_portable_int_at(c, 1, k) : -1;
}

static int64_t size_one(np_portable_call *c, int k)
{
    (void)c;
    (void)k;
    return 1;
}

BUILD(split)
{
    return split(c, np_portable_int(c, 2), equal_size, false);
}

BUILD(split_sizes)
{
    return split(c, np_portable_int(c, 2), listed_size, false);
}

BUILD(unbind)
{
    return split(c, np_portable_int(c, 1), size_one, true);
}

/* ---- joins ------------------------------------------------------------------------------------------- */

static bool join(np_portable_call *c, bool legacy,
                 neap_array *(*joined)(int n, neap_array *const *parts, int axis))
{
    const int n = np_portable_count(c, 0);
    const size_t bytes = (size_t)n * sizeof(neap_array *);
    neap_array **parts = np_alloc(c->h->ctx, NEAP_MEM_GRAPH, bytes);
    int m = 0, axis = 0;
    bool ok = parts != NULL;
    for (int k = 0; ok && k < n; k++) {
        neap_array *x = neap_cast(np_portable_tensor_at(c, 0, k), np_portable_dtype(c, 0));
        ok = x != NULL;
        if (ok && !(legacy && x->rank == 1 && x->shape[0] == 0)) /* an empty list goes with any shape */
            parts[m++] = x;
    }
    if (ok && m == 0 && n > 0)
        ok = np_portable_give(c, np_portable_tensor_at(c, 0, 0));
    else if (ok && m == 0)
        ok = np_portable_fail(c, NEAP_EINVAL, "of no tensors");
    else if (ok)
        ok = np_portable_axis(c, np_portable_int(c, 1), parts[0]->rank + !legacy, &axis) &&
             np_portable_give(c, joined(m, parts, axis));
    np_free(c->h->ctx, NEAP_MEM_GRAPH, parts, bytes);
    return ok;
}

BUILD(cat)
{
    return join(c, true, neap_concat);
}

BUILD(stack)
{
    return join(c, false, neap_stack);
}

BUILD(repeat)
{
    neap_array *x = np_portable_tensor(c, 0);
    int64_t reps[NEAP_MAX_RANK];
    int n;
    if (!x || !np_portable_ints(c, 1, &n, reps))
        return false;
    if (n < x->rank)
        return np_portable_fail(c, NEAP_ESHAPE, "%d numbers for %d dimensions", n, x->rank);
    return np_portable_give(c, neap_tile(x, n, reps));
}

BUILD(flip)
{
    neap_array *x = np_portable_tensor(c, 0);
    int n, axes[NEAP_MAX_RANK];
    if (np_portable_count(c, 1) == 0)
        return np_portable_give(c, x);
    return np_portable_axes(c, 1, x, &n, axes) && np_portable_give(c, x->rank ? neap_flip(x, n, axes) : x);
}

/* Without axes as if flat. */
BUILD(roll)
{
    neap_array *x = np_portable_tensor(c, 0);
    int64_t shifts[NEAP_MAX_RANK], flat = -1;
    int n, axes[NEAP_MAX_RANK], zero = 0;
    if (!x || !np_portable_ints(c, 1, &n, shifts))
        return false;
    const int m = np_portable_count(c, 2);
    if (n != (m ? m : 1) || m > NEAP_MAX_RANK)
        return np_portable_fail(c, NEAP_ESHAPE, "%d shifts for %d axes", n, m);
    for (int k = 0; k < m; k++)
        if (!np_portable_axis(c, np_portable_int_at(c, 2, k), x->rank, &axes[k]))
            return false;
    if (x->rank == 0)
        return np_portable_give(c, x);
    if (m)
        return np_portable_give(c, neap_roll(x, n, shifts, axes));
    neap_array *line = neap_roll(neap_reshape(x, 1, &flat), 1, shifts, &zero);
    return np_portable_give(c, neap_reshape(line, x->rank, x->shape));
}

BUILD(tril)
{
    return np_portable_give(c, neap_tril(np_portable_tensor(c, 0), np_portable_int(c, 1)));
}

BUILD(triu)
{
    return np_portable_give(c, neap_triu(np_portable_tensor(c, 0), np_portable_int(c, 1)));
}

/* ---- pads -------------------------------------------------------------------------------------------- */

/* Widths of the last dimensions, the last one first: before, after. */
static bool widths(np_portable_call *c, const neap_array *x, int64_t *before, int64_t *after)
{
    const int n = np_portable_count(c, 1);
    if (!x)
        return false;
    if (n % 2 || n / 2 > x->rank)
        return np_portable_fail(c, NEAP_ESHAPE, "%d widths for %d dimensions", n, x->rank);
    for (int d = 0; d < x->rank; d++) {
        const int k = x->rank - 1 - d;
        before[d] = k < n / 2 ? np_portable_int_at(c, 1, 2 * k) : 0;
        after[d] = k < n / 2 ? np_portable_int_at(c, 1, 2 * k + 1) : 0;
    }
    return true;
}

BUILD(constant_pad)
{
    neap_array *x = np_portable_tensor(c, 0);
    int64_t before[NEAP_MAX_RANK], after[NEAP_MAX_RANK];
    return widths(c, x, before, after) &&
           np_portable_give(c, neap_pad(x, before, after, np_portable_real(c, 2)));
}

BUILD(replication_pad)
{
    neap_array *x = np_portable_tensor(c, 0);
    int64_t before[NEAP_MAX_RANK], after[NEAP_MAX_RANK];
    return widths(c, x, before, after) && np_portable_give(c, neap_pad_edge(x, before, after));
}

/* The neighbours of the first and the last element come back, the nearest first. */
BUILD(reflection_pad)
{
    neap_array *x = np_portable_tensor(c, 0), *parts[3];
    int64_t before[NEAP_MAX_RANK], after[NEAP_MAX_RANK];
    if (!widths(c, x, before, after))
        return false;
    x = np_cropped("reflection_pad", x, before, after, before, after);
    for (int d = 0; x && d < x->rank; d++) {
        const int64_t n = x->shape[d];
        int m = 0;
        if (!before[d] && !after[d])
            continue;
        if (before[d] >= n || after[d] >= n)
            return np_portable_fail(c, NEAP_ESHAPE, "%lld and %lld around %lld", (long long)before[d],
                                    (long long)after[d], (long long)n);
        if (before[d])
            parts[m++] = neap_flip(neap_narrow(x, d, 1, 1 + before[d]), 1, &d);
        parts[m++] = x;
        if (after[d])
            parts[m++] = neap_flip(neap_narrow(x, d, n - 1 - after[d], n - 1), 1, &d);
        x = neap_concat(m, parts, d);
    }
    return np_portable_give(c, x);
}

/* ---- numbers ----------------------------------------------------------------------------------------- */

BUILD(sym_size)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    if (!x || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    c->number = (np_method_value){.kind = NEAP_VALUE_INT,
                                  .at = {.is_value = true, .integer = x->shape[axis]}};
    return true;
}
