/* portable_resize.c - pictures resized and sampled, of operators outside delegates. Resizing goes one axis
 * after the other: rows by index, times weights that hang on the place alone. */
#include <math.h>
#include <string.h>

#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

enum { MOST_TAPS = 4 };

typedef enum resize_kind { NEAREST, NEAREST_EXACT, LINEAR, CUBIC } resize_kind;

typedef struct axis_plan {
    int64_t in, out;
    double scale; /* given; 0: by the sizes */
    bool corners;
} axis_plan;

/* ---- one axis ---------------------------------------------------------------------------------------- */

static float step_of(const axis_plan *p)
{
    if (p->corners)
        return p->out > 1 ? (float)(p->in - 1) / (float)(p->out - 1) : 0;
    return p->scale > 0 ? (float)(1.0 / p->scale) : (float)p->in / (float)p->out;
}

static void cubic(float t, float *weights)
{
    const float a = -0.75f, u = 1 - t;
    const float far0 = t + 1, far1 = u + 1;
    weights[0] = ((a * far0 - 5 * a) * far0 + 8 * a) * far0 - 4 * a;
    weights[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    weights[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
    weights[3] = ((a * far1 - 5 * a) * far1 + 8 * a) * far1 - 4 * a;
}

static int32_t inside(int64_t i, int64_t n)
{
    return (int32_t)(i < 0 ? 0 : i >= n ? n - 1 : i);
}

/* Which elements, times which weights, make element o of the result. Returns how many. */
static int taps(const axis_plan *p, resize_kind kind, int64_t o, int32_t *at, float *weights)
{
    const float step = step_of(p);
    if (kind == NEAREST || kind == NEAREST_EXACT) {
        const float place = kind == NEAREST ? (float)o * step : ((float)o + 0.5f) * step;
        at[0] = inside((int64_t)floorf(place), p->in);
        weights[0] = 1;
        return 1;
    }
    float place = p->corners ? (float)o * step : step * ((float)o + 0.5f) - 0.5f;
    if (kind == LINEAR) {
        place = place < 0 ? 0 : place;
        at[0] = inside((int64_t)place, p->in);
        at[1] = inside(at[0] + 1, p->in);
        weights[1] = place - (float)at[0];
        weights[1] = weights[1] < 0 ? 0 : weights[1] > 1 ? 1 : weights[1];
        weights[0] = 1 - weights[1];
        return 2;
    }
    const float low = floorf(place);
    cubic(place - low, weights);
    for (int k = 0; k < 4; k++)
        at[k] = inside((int64_t)low - 1 + k, p->in);
    return 4;
}

static neap_array *resized_axis(np_portable_call *c, neap_array *x, int axis, const axis_plan *p,
                                resize_kind kind)
{
    const int n = kind == LINEAR ? 2 : kind == CUBIC ? 4 : 1;
    const size_t bytes = (size_t)p->out * (size_t)n * (sizeof(int32_t) + sizeof(float));
    int64_t shape[NEAP_MAX_RANK];
    if (p->in == p->out && (kind == NEAREST || kind == NEAREST_EXACT) && p->scale <= 0)
        return x;
    int32_t *at = np_alloc(c->h->ctx, NEAP_MEM_GRAPH, bytes), one_at[MOST_TAPS];
    if (!at)
        return NULL;
    float *weights = (float *)(at + p->out * n), one_weight[MOST_TAPS];
    for (int64_t o = 0; o < p->out; o++) {
        taps(p, kind, o, one_at, one_weight);
        for (int k = 0; k < n; k++) {
            at[k * p->out + o] = one_at[k];
            weights[k * p->out + o] = one_weight[k];
        }
    }
    for (int d = 0; d < x->rank; d++)
        shape[d] = d == axis ? p->out : 1;
    neap_array *sum = NULL;
    for (int k = 0; k < n; k++) {
        neap_array *rows = neap_take(x, neap_array_from(NEAP_I32, 1, &p->out, at + k * p->out), axis);
        if (n > 1)
            rows = neap_mul(rows, neap_array_from(NEAP_F32, x->rank, shape, weights + k * p->out));
        sum = sum ? neap_add(sum, rows) : rows;
    }
    np_free(c->h->ctx, NEAP_MEM_GRAPH, at, bytes);
    return sum;
}

/* A scale whose places stay whole numbers of 64 bits; 0 or less: there is none. */
static bool scale_fits(np_portable_call *c, double scale)
{
    return scale <= 0 || (scale > 0x1p-31 && scale < 0x1p31) ||
           np_portable_fail(c, NEAP_EINVAL, "a scale of %g", scale);
}

/* ---- all axes ---------------------------------------------------------------------------------------- */

static bool resize(np_portable_call *c, int spatial, resize_kind kind, axis_plan *p)
{
    neap_array *x = np_portable_tensor(c, 0);
    if (!x)
        return false;
    if (x->rank != spatial + 2)
        return np_portable_fail(c, NEAP_ESHAPE, "%d dimensions, expected %d", x->rank, spatial + 2);
    x = kind == LINEAR || kind == CUBIC ? np_portable_wide(neap_cast(x, np_portable_dtype(c, 0))) : x;
    for (int d = 0; x && d < spatial; d++) {
        p[d].in = x->shape[2 + d];
        if (p[d].out < 1 || p[d].in < 1 || p[d].out > INT32_MAX || p[d].in > INT32_MAX)
            return np_portable_fail(c, NEAP_ESHAPE, "from %lld to %lld", (long long)p[d].in,
                                    (long long)p[d].out);
        if (!scale_fits(c, p[d].scale))
            return false;
        x = resized_axis(c, x, 2 + d, &p[d], kind);
    }
    return np_portable_give(c, x);
}

/* Arguments size, [corners], scale of each axis. */
static bool resize_to(np_portable_call *c, int spatial, resize_kind kind)
{
    const bool corners = kind == LINEAR || kind == CUBIC;
    axis_plan p[3] = {{0}};
    if (np_portable_count(c, 1) != spatial)
        return np_portable_fail(c, NEAP_ESHAPE, "%d sizes", np_portable_count(c, 1));
    for (int d = 0; d < spatial; d++) {
        const int scale = 2 + corners + d;
        p[d].out = np_portable_int_at(c, 1, d);
        p[d].scale = np_portable_has(c, scale) ? np_portable_real(c, scale) : 0;
        p[d].corners = corners && np_portable_int(c, 2);
    }
    return resize(c, spatial, kind, p);
}

/* Arguments size or absent, [corners], a list of scales or absent. */
static bool resize_by(np_portable_call *c, int spatial, resize_kind kind)
{
    const neap_array *x = np_portable_tensor(c, 0);
    const bool corners = kind == LINEAR || kind == CUBIC;
    const int sizes = np_portable_count(c, 1), scales = np_portable_count(c, 2 + corners);
    axis_plan p[3] = {{0}};
    if (!x)
        return false;
    if (x->rank != spatial + 2 || (sizes != spatial && scales != spatial))
        return np_portable_fail(c, NEAP_ESHAPE, "%d sizes and %d scales for %d dimensions", sizes,
                                scales, x->rank);
    for (int d = 0; d < spatial; d++) {
        p[d].scale = scales == spatial ? np_portable_real_at(c, 2 + corners, d) : 0;
        if (scales == spatial && !(p[d].scale > 0 && p[d].scale < 0x1p31))
            return np_portable_fail(c, NEAP_EINVAL, "a scale of %g", p[d].scale);
        if (x->shape[2 + d] > INT32_MAX) /* refused in full by resize */
            p[d].out = 0;
        else
            p[d].out = sizes == spatial ? np_portable_int_at(c, 1, d)
                                        : (int64_t)((double)x->shape[2 + d] * p[d].scale);
        p[d].corners = corners && np_portable_int(c, 2);
    }
    return resize(c, spatial, kind, p);
}

#define RESIZE(name, spatial, kind)                                                                \
    BUILD(name)                                                                                    \
    {                                                                                              \
        return resize_to(c, spatial, kind);                                                        \
    }                                                                                              \
    BUILD(name##_vec)                                                                              \
    {                                                                                              \
        return resize_by(c, spatial, kind);                                                        \
    }

RESIZE(nearest1d, 1, NEAREST)
RESIZE(nearest2d, 2, NEAREST)
RESIZE(nearest3d, 3, NEAREST)
RESIZE(nearest_exact1d, 1, NEAREST_EXACT)
RESIZE(nearest_exact2d, 2, NEAREST_EXACT)
RESIZE(nearest_exact3d, 3, NEAREST_EXACT)
RESIZE(linear1d, 1, LINEAR)
RESIZE(bilinear2d, 2, LINEAR)
RESIZE(trilinear3d, 3, LINEAR)
RESIZE(bicubic2d, 2, CUBIC)

/* ---- smaller without aliases --------------------------------------------------------------------------- */

/* Weights of all elements for each of the result: a triangle as wide as the step, where that is more than 1. */
static void triangles(const axis_plan *p, float *matrix)
{
    const float step = step_of(p), wide = step > 1 ? step : 1;
    memset(matrix, 0, (size_t)p->in * (size_t)p->out * sizeof *matrix);
    for (int64_t o = 0; o < p->out; o++) {
        const float centre = step * ((float)o + 0.5f);
        const int64_t low = (int64_t)(centre - wide + 0.5f), high = (int64_t)(centre + wide + 0.5f);
        const int64_t from = low > 0 ? low : 0, to = high < p->in ? high : p->in;
        float sum = 0;
        for (int64_t i = from; i < to; i++) {
            const float away = fabsf(((float)i - centre + 0.5f) / wide), weight = away < 1 ? 1 - away : 0;
            matrix[i * p->out + o] = weight;
            sum += weight;
        }
        for (int64_t i = from; sum != 0 && i < to; i++)
            matrix[i * p->out + o] /= sum;
    }
}

static neap_array *smoothed_axis(np_portable_call *c, neap_array *x, int axis, const axis_plan *p)
{
    const int64_t shape[2] = {p->in, p->out};
    int64_t elements;
    uint64_t bytes;
    if (!x || !scale_fits(c, p->scale))
        return NULL;
    if (!np_shape_bytes(NEAP_F32, 2, shape, &elements, &bytes))
        return np_portable_fail(c, NEAP_ESHAPE, "from %lld to %lld", (long long)p->in, (long long)p->out),
               NULL;
    float *matrix = np_alloc(c->h->ctx, NEAP_MEM_GRAPH, bytes);
    if (!matrix)
        return NULL;
    triangles(p, matrix);
    neap_array *weights = neap_array_from(NEAP_F32, 2, shape, matrix);
    np_free(c->h->ctx, NEAP_MEM_GRAPH, matrix, bytes);
    x = neap_matmul(neap_swap_axes(x, axis, -1), weights);
    return neap_swap_axes(x, axis, -1);
}

BUILD(bilinear2d_aa)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    if (!x)
        return false;
    if (x->rank != 4 || np_portable_count(c, 1) != 2)
        return np_portable_fail(c, NEAP_ESHAPE, "%d dimensions, %d sizes", x->rank,
                                np_portable_count(c, 1));
    for (int d = 0; x && d < 2; d++) {
        const axis_plan p = {.in = x->shape[2 + d],
                             .out = np_portable_int_at(c, 1, d),
                             .scale = np_portable_has(c, 3 + d) ? np_portable_real(c, 3 + d) : 0,
                             .corners = np_portable_int(c, 2) != 0};
        if (p.in < 1 || p.out < 1)
            return np_portable_fail(c, NEAP_ESHAPE, "from %lld to %lld", (long long)p.in,
                                    (long long)p.out);
        x = smoothed_axis(c, x, 2 + d, &p);
    }
    return np_portable_give(c, x);
}

/* ---- sampling at places ------------------------------------------------------------------------------ */

enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };
enum { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC };

typedef struct sampling {
    neap_array *flat; /* [N, C, H W] */
    int64_t h, w, places;
    int padding;
    bool corners;
} sampling;

static neap_array *real(double value)
{
    return neap_scalar(NEAP_F32, value);
}

static neap_array *clipped(neap_array *v, int64_t n)
{
    return neap_clip(v, real(0), real((double)(n - 1)));
}

/* Back into the picture at its borders, as often as it takes: borders are elements or their edges. */
static neap_array *reflected(const sampling *s, neap_array *v, int64_t n)
{
    const double low = s->corners ? 0 : -0.5, span = s->corners ? (double)(n - 1) : (double)n;
    if (span == 0)
        return neap_mul(v, real(0));
    neap_array *away = neap_remainder(neap_sub(v, real(low)), real(2 * span));
    neap_array *back = neap_where(neap_greater(away, real(span)), neap_sub(real(2 * span), away), away);
    return neap_add(back, real(low));
}

/* -1 .. 1 in elements; into the picture, where what is outside is not zero. */
static neap_array *unnormalised(const sampling *s, neap_array *v, int64_t n, bool pads)
{
    v = neap_add(v, real(1));
    v = s->corners ? neap_mul(v, real((double)(n - 1) / 2))
                   : neap_mul(neap_sub(neap_mul(v, real((double)n)), real(1)), real(0.5));
    if (pads && s->padding == PAD_REFLECTION)
        v = reflected(s, v, n);
    return pads && s->padding != PAD_ZEROS ? clipped(v, n) : v;
}

static neap_array *is_inside(neap_array *v, int64_t n)
{
    return neap_logical_and(neap_greater_equal(v, real(0)), neap_less_equal(v, real((double)(n - 1))));
}

/* The elements at whole places, [N, C, places]; x, y: [N, 1, places]. */
static neap_array *elements(const sampling *s, neap_array *x, neap_array *y)
{
    neap_array *ok = neap_logical_and(is_inside(x, s->w), is_inside(y, s->h));
    neap_array *column = neap_cast(clipped(x, s->w), NEAP_I32);
    neap_array *row = neap_cast(clipped(y, s->h), NEAP_I32);
    neap_array *at = neap_add(neap_mul(row, neap_scalar(NEAP_I32, (double)s->w)), column);
    neap_array *v = neap_take_along_axis(s->flat, at, 2);
    return neap_where(ok, v, real(0));
}

static neap_array *sampled_linear(const sampling *s, neap_array *x, neap_array *y)
{
    neap_array *x0 = neap_floor(x), *y0 = neap_floor(y), *one = real(1), *sum = NULL;
    neap_array *fx = neap_sub(x, x0), *fy = neap_sub(y, y0);
    for (int k = 0; k < 4; k++) {
        neap_array *wx = k & 1 ? fx : neap_sub(one, fx), *wy = k & 2 ? fy : neap_sub(one, fy);
        neap_array *v = elements(s, k & 1 ? neap_add(x0, one) : x0, k & 2 ? neap_add(y0, one) : y0);
        v = neap_mul(v, neap_mul(wx, wy));
        sum = sum ? neap_add(sum, v) : v;
    }
    return sum;
}

/* a t^3 + b t^2 + c t + d */
static neap_array *cubed(neap_array *t, double a, double b, double c, double d)
{
    neap_array *r = neap_add(neap_mul(t, real(a)), real(b));
    r = neap_add(neap_mul(r, t), real(c));
    return neap_add(neap_mul(r, t), real(d));
}

static void cubic_weights(neap_array *t, neap_array **w)
{
    const double a = -0.75;
    neap_array *u = neap_sub(real(1), t), *far0 = neap_add(t, real(1)), *far1 = neap_add(u, real(1));
    w[0] = cubed(far0, a, -5 * a, 8 * a, -4 * a);
    w[1] = cubed(t, a + 2, -(a + 3), 0, 1);
    w[2] = cubed(u, a + 2, -(a + 3), 0, 1);
    w[3] = cubed(far1, a, -5 * a, 8 * a, -4 * a);
}

static neap_array *moved(const sampling *s, neap_array *v, int64_t n)
{
    if (s->padding == PAD_REFLECTION)
        v = reflected(s, v, n);
    return s->padding == PAD_ZEROS ? v : clipped(v, n);
}

static neap_array *sampled_cubic(const sampling *s, neap_array *x, neap_array *y)
{
    neap_array *x0 = neap_floor(x), *y0 = neap_floor(y), *wx[4], *wy[4], *sum = NULL;
    cubic_weights(neap_sub(x, x0), wx);
    cubic_weights(neap_sub(y, y0), wy);
    for (int k = 0; k < 16; k++) {
        neap_array *px = moved(s, neap_add(x0, real(k % 4 - 1)), s->w);
        neap_array *py = moved(s, neap_add(y0, real(k / 4 - 1)), s->h);
        neap_array *v = neap_mul(elements(s, px, py), neap_mul(wx[k % 4], wy[k / 4]));
        sum = sum ? neap_add(sum, v) : v;
    }
    return sum;
}

BUILD(grid_sampler_2d)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    neap_array *grid = np_portable_wide(np_portable_tensor(c, 1));
    const int64_t mode = np_portable_int(c, 2), padding = np_portable_int(c, 3);
    if (!x || !grid)
        return false;
    if (x->rank != 4 || grid->rank != 4 || grid->shape[3] != 2 || grid->shape[0] != x->shape[0] ||
        x->shape[2] < 1 || x->shape[3] < 1)
        return np_portable_fail(c, NEAP_ESHAPE, "a picture and a grid that do not fit together");
    if (mode < 0 || mode > SAMPLE_CUBIC || padding < 0 || padding > PAD_REFLECTION)
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "mode %lld, padding %lld", (long long)mode,
                                (long long)padding);
    sampling s = {.h = x->shape[2], .w = x->shape[3], .places = grid->shape[1] * grid->shape[2],
                  .padding = (int)padding, .corners = np_portable_int(c, 4) != 0};
    const int64_t planes[3] = {x->shape[0], x->shape[1], s.h * s.w};
    const int64_t line[3] = {x->shape[0], 1, s.places};
    const int64_t shape[4] = {x->shape[0], x->shape[1], grid->shape[1], grid->shape[2]};
    s.flat = neap_reshape(x, 3, planes);
    neap_array *px = neap_reshape(neap_narrow(grid, 3, 0, 1), 3, line);
    neap_array *py = neap_reshape(neap_narrow(grid, 3, 1, 2), 3, line);
    px = unnormalised(&s, px, s.w, mode != SAMPLE_CUBIC);
    py = unnormalised(&s, py, s.h, mode != SAMPLE_CUBIC);
    neap_array *r = mode == SAMPLE_LINEAR    ? sampled_linear(&s, px, py)
                    : mode == SAMPLE_NEAREST ? elements(&s, neap_round(px), neap_round(py))
                                             : sampled_cubic(&s, px, py);
    return np_portable_give(c, neap_reshape(r, 4, shape));
}
