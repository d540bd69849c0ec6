/* portable_pool.c - pooling of operators outside delegates, one axis after the other: a window is a view
 * with one dimension more, which is reduced. What lies between has the extent of one axis pooled. */
#include <math.h>
#include <string.h>

#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

typedef struct window {
    int64_t kernel, stride, padding, dilation, in, out;
} window;

/* ---- sizes ------------------------------------------------------------------------------------------ */

static int64_t listed(const np_portable_call *c, int i, int d, int64_t otherwise)
{
    const int n = np_portable_count(c, i); /* 0, 1 or one each: see lists_fit */
    return n == 0 ? otherwise : np_portable_int_at(c, i, n == 1 ? 0 : d);
}

static bool lists_fit(np_portable_call *c, int last, int spatial)
{
    for (int i = 1; i <= last; i++) {
        const int n = np_portable_count(c, i);
        if (n > 1 && n != spatial)
            return np_portable_fail(c, NEAP_ESHAPE, "argument %d: %d numbers for %d dimensions", i, n,
                                    spatial);
    }
    return true;
}

/* With `up` the last window may reach over the end, but must begin before it and its padding. */
static bool find_out(np_portable_call *c, window *w, bool up)
{
    const int64_t most = INT32_MAX;
    if (w->kernel < 1 || w->stride < 1 || w->dilation < 1 || w->padding < 0 || w->kernel > most ||
        w->stride > most || w->dilation > most || w->padding > w->kernel / 2)
        return np_portable_fail(c, NEAP_EINVAL, "a window of %lld, step %lld, padding %lld, dilation "
                                "%lld", (long long)w->kernel, (long long)w->stride,
                                (long long)w->padding, (long long)w->dilation);
    const int64_t room = w->in + 2 * w->padding - w->dilation * (w->kernel - 1) - 1;
    if (room < 0)
        return np_portable_fail(c, NEAP_ESHAPE, "a window of %lld over %lld", (long long)w->kernel,
                                (long long)w->in);
    w->out = (room + (up ? w->stride - 1 : 0)) / w->stride + 1;
    if (up && (w->out - 1) * w->stride >= w->in + w->padding)
        w->out--;
    return true;
}

/* Of the last `spatial` axes; arguments kernel, stride, padding from 1 on, dilation at `dilation` (0: none). */
static bool find_windows(np_portable_call *c, const neap_array *x, int spatial, int dilation, int up,
                         window *w)
{
    if (!x)
        return false;
    if (x->rank < spatial + 1 || x->rank > spatial + 2)
        return np_portable_fail(c, NEAP_ESHAPE, "%d dimensions, expected %d or %d", x->rank,
                                spatial + 1, spatial + 2);
    if (!lists_fit(c, dilation ? dilation : 3, spatial))
        return false;
    for (int d = 0; d < spatial; d++) {
        w[d].in = x->shape[x->rank - spatial + d];
        w[d].kernel = listed(c, 1, d, 1);
        w[d].stride = listed(c, 2, d, w[d].kernel);
        w[d].padding = listed(c, 3, d, 0);
        w[d].dilation = dilation ? listed(c, dilation, d, 1) : 1;
        if (!find_out(c, &w[d], np_portable_int(c, up) != 0))
            return false;
    }
    return true;
}

/* x padded along an axis as far as its windows reach, and cut there; then [.., out, kernel, ..]. */
static neap_array *windows(neap_array *x, int axis, const window *w, double fill)
{
    int64_t before[NEAP_MAX_RANK] = {0}, after[NEAP_MAX_RANK] = {0};
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK], stride = 1;
    const int64_t end = (w->out - 1) * w->stride + w->dilation * (w->kernel - 1) + 1;
    before[axis] = w->padding;
    after[axis] = end > w->padding + w->in ? end - w->padding - w->in : 0;
    x = neap_pad(x, before, after, fill);
    if (!x)
        return NULL;
    for (int d = x->rank - 1; d >= 0; d--) {
        const int to = d > axis ? d + 1 : d;
        shape[to] = x->shape[d];
        strides[to] = stride;
        stride *= x->shape[d];
    }
    shape[axis] = w->out;
    shape[axis + 1] = w->kernel;
    strides[axis + 1] = strides[axis] * w->dilation;
    strides[axis] *= w->stride;
    return neap_as_strided(x, x->rank + 1, shape, strides, 0);
}

/* ---- means ------------------------------------------------------------------------------------------ */

/* How many elements each window along an axis has, along that axis: of x, and of its padding. */
static neap_array *counts(np_portable_call *c, const window *w, bool padding, int rank, int axis)
{
    int64_t shape[NEAP_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = d == axis ? w->out : 1;
    const size_t bytes = (size_t)w->out * sizeof(float);
    float *n = np_alloc(c->h->ctx, NEAP_MEM_GRAPH, bytes);
    if (!n)
        return NULL;
    for (int64_t o = 0; o < w->out; o++) {
        int64_t from = o * w->stride - w->padding, to = from + w->kernel;
        const int64_t end = w->in + (padding ? w->padding : 0);
        to = to < end ? to : end;
        from = from > 0 || padding ? from : 0;
        n[o] = (float)(to - from);
    }
    neap_array *a = neap_array_from(NEAP_F32, rank, shape, n);
    np_free(c->h->ctx, NEAP_MEM_GRAPH, n, bytes);
    return a;
}

static bool avg_pool(np_portable_call *c, int spatial)
{
    neap_array *x = np_portable_tensor(c, 0);
    window w[3];
    if (!find_windows(c, x, spatial, 0, 4, w))
        return false;
    const int first = x->rank - spatial;
    const bool padding = np_portable_int(c, 5) != 0, given = c->row->arguments[6] && np_portable_has(c, 6);
    neap_array *divisor = NULL, *y = neap_cast(x, NEAP_F32);
    for (int d = spatial - 1; y && d >= 0; d--) {
        const int axis = first + d, along = axis + 1;
        y = neap_sum_axes(windows(y, axis, &w[d], 0), 1, &along, 0);
        neap_array *n = given ? NULL : counts(c, &w[d], padding, x->rank, axis);
        if (!given && !n)
            return false;
        divisor = divisor ? neap_mul(divisor, n) : n;
    }
    if (given && np_portable_int(c, 6) == 0)
        return np_portable_fail(c, NEAP_EINVAL, "a divisor of 0");
    if (given)
        divisor = neap_scalar(NEAP_F32, (double)np_portable_int(c, 6));
    return np_portable_give(c, neap_div(y, divisor));
}

BUILD(avg_pool1d)
{
    return avg_pool(c, 1);
}

BUILD(avg_pool2d)
{
    return avg_pool(c, 2);
}

BUILD(avg_pool3d)
{
    return avg_pool(c, 3);
}

/* ---- largest ---------------------------------------------------------------------------------------- */

static double lowest(const neap_array *x)
{
    switch ((neap_dtype)x->dtype) {
    case NEAP_I8: return -0x1p7;
    case NEAP_I16: return -0x1p15;
    case NEAP_I32: return -0x1p31;
    case NEAP_I64: return -0x1p63;
    case NEAP_U8:
    case NEAP_U32:
    case NEAP_BOOL: return 0;
    default: return -INFINITY;
    }
}

/* 0, step, 2 step, .. along an axis. */
static neap_array *ramp(int64_t n, int64_t start, int64_t step, int rank, int axis)
{
    int64_t shape[NEAP_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = d == axis ? n : 1;
    const double end = (double)start + (double)n * (double)step;
    return neap_reshape(neap_arange((double)start, end, (double)step, NEAP_I64), rank, shape);
}

/* Of each window the first of its largest, and where in x's planes that stands: along the last axis first,
 * then of what that left, so that the first in row-major order wins. */
static bool max_pool(np_portable_call *c, int spatial)
{
    neap_array *x = np_portable_tensor(c, 0), *at = NULL;
    window w[3];
    if (!find_windows(c, x, spatial, 4, 5, w))
        return false;
    const int first = x->rank - spatial;
    int64_t plane = 1;
    neap_array *y = x;
    for (int d = spatial - 1; y && d >= 0; d--) {
        const int axis = first + d, along = axis + 1;
        neap_array *view = windows(y, axis, &w[d], lowest(x));
        neap_array *pick = neap_cast(neap_argmax(view, along, NEAP_KEEPDIMS), NEAP_I64);
        neap_array *place = neap_mul(neap_squeeze(pick, along), neap_scalar(NEAP_I64, (double)w[d].dilation));
        place = neap_add(place, ramp(w[d].out, -w[d].padding, w[d].stride, x->rank, axis));
        place = neap_mul(place, neap_scalar(NEAP_I64, (double)plane));
        if (at) {
            neap_array *before = windows(at, axis, &w[d], 0);
            at = neap_add(place, neap_squeeze(neap_take_along_axis(before, pick, along), along));
        } else {
            at = place;
        }
        y = neap_max_axes(view, 1, &along, 0);
        plane *= w[d].in;
    }
    c->results[1] = at;
    return np_portable_give(c, y) && at;
}

BUILD(max_pool1d)
{
    return max_pool(c, 1);
}

BUILD(max_pool2d)
{
    return max_pool(c, 2);
}

BUILD(max_pool3d)
{
    return max_pool(c, 3);
}

/* ---- to a given size ---------------------------------------------------------------------------------- */

enum { MOST_PARTS = 4096 };

static bool find_sizes(np_portable_call *c, const neap_array *x, int spatial, int64_t *out)
{
    if (!x)
        return false;
    if (x->rank < spatial + 1 || x->rank > spatial + 2 || np_portable_count(c, 1) != spatial)
        return np_portable_fail(c, NEAP_ESHAPE, "%d dimensions, %d sizes", x->rank,
                                np_portable_count(c, 1));
    for (int d = 0; d < spatial; d++) {
        const int64_t in = x->shape[x->rank - spatial + d];
        out[d] = np_portable_int_at(c, 1, d);
        if (out[d] < 1 || out[d] > MOST_PARTS || in < 1 || in > INT64_MAX / (2 * MOST_PARTS))
            return np_portable_fail(c, NEAP_EUNSUPPORTED, "from %lld to %lld, at most %d", (long long)in,
                                    (long long)out[d], MOST_PARTS);
    }
    return true;
}

typedef neap_array *part_of(neap_array *part, int axis, int64_t start);

/* Part i of an axis is [floor(i in / out), ceil((i + 1) in / out)); the parts' values side by side. */
static neap_array *by_parts(np_portable_call *c, neap_array *x, int axis, int64_t out, part_of *value)
{
    const size_t bytes = (size_t)out * sizeof(neap_array *);
    neap_array **parts = np_alloc(c->h->ctx, NEAP_MEM_GRAPH, bytes), *all = NULL;
    bool ok = parts != NULL;
    for (int64_t i = 0; ok && i < out; i++) {
        const int64_t in = x->shape[axis], from = i * in / out, to = ((i + 1) * in + out - 1) / out;
        parts[i] = value(neap_narrow(x, axis, from, to), axis, from);
        ok = parts[i] != NULL;
    }
    if (ok)
        all = neap_concat((int)out, parts, axis);
    np_free(c->h->ctx, NEAP_MEM_GRAPH, parts, bytes);
    return all;
}

static neap_array *mean_of(neap_array *part, int axis, int64_t start)
{
    (void)start;
    return neap_mean_axes(part, 1, &axis, NEAP_KEEPDIMS);
}

static neap_array *max_of(neap_array *part, int axis, int64_t start)
{
    (void)start;
    return neap_max_axes(part, 1, &axis, NEAP_KEEPDIMS);
}

static neap_array *place_of(neap_array *part, int axis, int64_t start)
{
    neap_array *place = neap_cast(neap_argmax(part, axis, NEAP_KEEPDIMS), NEAP_I64);
    return neap_add(place, neap_array_from(NEAP_I64, 0, NULL, &start));
}

/* Equal parts are a dimension of their own. */
static neap_array *equal_means(neap_array *x, int axis, int64_t out)
{
    int64_t shape[NEAP_MAX_RANK];
    const int along = axis + 1;
    for (int d = 0; d < x->rank; d++)
        shape[d > axis ? d + 1 : d] = x->shape[d];
    shape[axis] = out;
    shape[along] = x->shape[axis] / out;
    return neap_mean_axes(neap_reshape(x, x->rank + 1, shape), 1, &along, 0);
}

static bool adaptive_avg(np_portable_call *c, int spatial)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    int64_t out[3];
    if (!find_sizes(c, x, spatial, out))
        return false;
    const int first = x->rank - spatial;
    for (int d = spatial - 1; x && d >= 0; d--)
        x = x->shape[first + d] % out[d] == 0 ? equal_means(x, first + d, out[d])
                                              : by_parts(c, x, first + d, out[d], mean_of);
    return np_portable_give(c, x);
}

BUILD(adaptive_avg_pool1d)
{
    return adaptive_avg(c, 1);
}

BUILD(adaptive_avg_pool2d)
{
    return adaptive_avg(c, 2);
}

BUILD(adaptive_avg_pool3d)
{
    return adaptive_avg(c, 3);
}

BUILD(adaptive_max_pool2d)
{
    neap_array *x = np_portable_tensor(c, 0);
    int64_t out[3];
    if (!find_sizes(c, x, 2, out))
        return false;
    const int column = x->rank - 1, row = x->rank - 2;
    const int64_t width = x->shape[column];
    neap_array *columns = by_parts(c, x, column, out[1], place_of);
    neap_array *y = by_parts(c, x, column, out[1], max_of);
    neap_array *rows = y ? by_parts(c, y, row, out[0], place_of) : NULL;
    neap_array *at = neap_mul(rows, neap_array_from(NEAP_I64, 0, NULL, &width));
    c->results[1] = neap_add(at, neap_take_along_axis(columns, rows, row));
    return c->results[1] && np_portable_give(c, by_parts(c, y, row, out[0], max_of));
}
