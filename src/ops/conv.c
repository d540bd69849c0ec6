/* conv.c - convolutions and transposed convolutions over one to three dimensions, channels last.
 *
 * Both are matrix products whose rows of A are patches of the image (np_gemm_image); nothing of the
 * size of all patches is ever made, and views are read as they lie. A transposed convolution with a
 * stride is one convolution of stride 1 for every phase of the output's positions, by the taps that
 * reach it. */
#include <string.h>

#include "ops/support.h"

typedef struct np_conv_attr {
    int32_t stride[3], padding[3], dilation[3], output_padding[3]; /* d, h, w: unused ones come first */
    int32_t groups, dtype, transposed;
} np_conv_attr;

enum { LONGEST_REACH = 1024 }; /* of what is cut in rows: those of a group add up */

/* ---- shapes --------------------------------------------------------------------------------- */

/* The extent of dimension d (0..2) of the result; false if it does not fit 63 bits. */
static bool conv_extent(const np_conv_attr *a, int d, int64_t in, int64_t taps, int64_t *out)
{
    int64_t reach, padding = 2 * (int64_t)a->padding[d], extent;
    if (__builtin_mul_overflow(taps - 1, (int64_t)a->dilation[d], &reach) || reach >> 62)
        return false;
    if (!a->transposed) {
        if (__builtin_add_overflow(in, padding, &extent))
            return false;
        extent -= reach + 1;
        *out = extent < 0 ? 0 : extent / a->stride[d] + 1;
        return true;
    }
    return !__builtin_mul_overflow(in - 1, (int64_t)a->stride[d], &extent) &&
           !__builtin_add_overflow(extent, reach, &extent) &&
           !__builtin_add_overflow(extent, (int64_t)a->output_padding[d] + 1 - padding,
                                   out);
}

static bool conv_infer(neap_array *out)
{
    const np_conv_attr *attr = (const void *)out->attr;
    const neap_array *x = out->in[0], *w = out->in[1];
    int spatial = x->rank - 2;
    np_infer_like(out, x);
    out->dtype = (uint8_t)attr->dtype;
    out->shape[x->rank - 1] = w->shape[0];
    for (int i = 0; i < spatial; i++) {
        int d = 3 - spatial + i;
        if (!conv_extent(attr, d, x->shape[1 + i], w->shape[1 + i], &out->shape[1 + i]))
            return np_op_fail(out, NEAP_ELIMIT, "extent %d of the result is over 2^63", 1 + i);
        if (out->shape[1 + i] <= 0)
            return np_op_fail(out, NEAP_ESHAPE,
                              "nothing is left of extent %lld: kernel %lld, stride %d, padding %d, "
                              "dilation %d",
                              (long long)x->shape[1 + i], (long long)w->shape[1 + i],
                              attr->stride[d], attr->padding[d], attr->dilation[d]);
    }
    return true;
}

/* ---- as products ---------------------------------------------------------------------------- */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Extents and strides with all three spatial dimensions. */
typedef struct np_conv_sides {
    int64_t x[5], x_step[5], w[5], w_step[5], out[5], out_step[5];
} np_conv_sides;

static void widen(const np_operand *o, int64_t shape[5], int64_t step[5])
{
    int missing = 5 - o->rank;
    for (int d = 0; d < 5; d++) {
        int from = d == 0 ? 0 : d - missing;
        bool there = d == 0 || from > 0;
        shape[d] = there ? o->shape[from] : 1;
        step[d] = there ? o->strides[from] : 0;
    }
}

/* Group 0 of a convolution, or of phase 0 of a transposed one, without its spatial part. */
static np_gemm_args conv_arguments(const np_call *c, np_conv_sides *s, np_gemm_image *m)
{
    const np_conv_attr *attr = c->attr;
    widen(c->in[0], s->x, s->x_step);
    widen(c->in[1], s->w, s->w_step);
    widen(c->out, s->out, s->out_step);
    *m = (np_gemm_image){.rows = {s->out[0], s->out[1], s->out[2], s->out[3]},
                         .taps = {s->w[1], s->w[2], s->w[3]}, .channels = s->w[4],
                         .batch_step = s->x_step[0], .channel_step = s->x_step[4]};
    for (int d = 0; d < 3; d++) {
        m->extent[d] = s->x[1 + d];
        m->step[d] = s->x[1 + d] > 1 ? s->x_step[1 + d] : 0;
    }
    return (np_gemm_args){.m = np_size(4, s->out), .n = s->out[4] / attr->groups,
                          .k = np_size(4, s->w + 1), .a = c->in[0]->data, .b = c->in[1]->data,
                          .c = c->out->data, .b_row = s->w_step[4], .b_col = s->w_step[0],
                          .c_row = s->out_step[3], .a_dtype = c->in[0]->dtype,
                          .b_dtype = c->in[1]->dtype, .c_dtype = c->out->dtype, .matrix = true,
                          .image = m};
}

/* One dimension of a convolution. */
static void straight(const np_conv_attr *attr, np_gemm_image *m, int d)
{
    m->first[d] = -(int64_t)attr->padding[d];
    m->stride[d] = attr->stride[d];
    m->dilation[d] = attr->dilation[d];
}

/* One dimension of a phase: outputs at phase + i * stride. Tap t meets input position
 * (phase + padding - t * dilation) / stride + i where that is whole: every `every`-th tap from the
 * first on. Returns that first tap. */
static int64_t phase_of(const np_conv_attr *attr, const np_conv_sides *s, np_gemm_image *m, int d,
                        int64_t phase)
{
    int64_t stride = attr->stride[d], dilation = attr->dilation[d], taps = s->w[1 + d];
    int64_t every = stride / gcd(stride, dilation), start = phase + attr->padding[d], tap = 0;
    int64_t most = every < taps ? every : taps;
    while (tap < most && (start - tap * dilation) % stride != 0)
        tap++;
    m->rows[1 + d] = phase < s->out[1 + d] ? (s->out[1 + d] - 1 - phase) / stride + 1 : 0;
    m->taps[d] = tap < most ? (taps - 1 - tap) / every + 1 : 0;
    m->first[d] = tap < most ? (start - tap * dilation) / stride : 0;
    m->stride[d] = 1;
    m->dilation[d] = -(every * dilation / stride);
    m->b_tap[d] = every * s->w_step[1 + d];
    m->c_rows[1 + d] = stride * s->out_step[1 + d];
    return tap;
}

static bool is_depthwise(const np_conv_attr *attr, const np_conv_sides *s)
{
    return attr->groups > 1 && s->w[4] == 1;
}

/* Weights of a tap follow one another as elements of one row do. */
static bool taps_follow(const np_conv_sides *s)
{
    int64_t next = s->w[4] * s->w_step[4];
    for (int d = 3; d > 0; d--) {
        if (s->w[d] > 1 && s->w_step[d] != next)
            return false;
        next *= s->w[d];
    }
    return true;
}

/* The product of one phase (or of all) in every group. */
static void run_groups(const np_call *c, const np_conv_sides *s, np_gemm_args g, np_gemm_image *m)
{
    const np_conv_attr *attr = c->attr;
    const np_product_kernels *kernels = c->ctx->kernels->product;
    const uint8_t *a = g.a, *b = g.b;
    uint8_t *to = g.c;
    if (is_depthwise(attr, s)) {
        m->channels = s->x[4];
        g.n = s->out[4];
        kernels->depthwise(&g, c->scratch, c->pool);
        return;
    }
    for (int64_t group = 0; group < attr->groups && !np_stop(); group++) {
        g.a = a + group * s->w[4] * s->x_step[4] * np_element_bytes(g.a_dtype);
        g.b = b + group * g.n * g.b_col * np_element_bytes(g.b_dtype);
        g.c = to + group * g.n * np_element_bytes(g.c_dtype);
        kernels->gemm(&g, c->scratch, c->pool);
    }
}

static void run_transposed(const np_call *c, const np_conv_sides *s, np_gemm_args g,
                           np_gemm_image *m)
{
    const np_conv_attr *attr = c->attr;
    const uint8_t *b = g.b;
    uint8_t *to = g.c;
    int64_t phase[3] = {0}, step[1][NEAP_MAX_RANK] = {{0}}, unused = 0, phases[3];
    for (int d = 0; d < 3; d++)
        phases[d] = attr->stride[d] < s->out[1 + d] ? attr->stride[d] : s->out[1 + d];
    m->taps_apart = m->rows_apart = true;
    m->c_rows[0] = s->out_step[0];
    for (int64_t p = np_size(3, phases); p > 0; p--) {
        int64_t b_at = 0, c_at = 0;
        for (int d = 0; d < 3; d++) {
            b_at += phase_of(attr, s, m, d, phase[d]) * s->w_step[1 + d];
            c_at += phase[d] * s->out_step[1 + d];
        }
        g.m = np_size(4, m->rows);
        g.k = np_size(3, m->taps) * s->w[4];
        g.b = g.k > 0 ? b + b_at * np_element_bytes(g.b_dtype) : b;
        g.c = to + c_at * np_element_bytes(g.c_dtype);
        run_groups(c, s, g, m);
        np_index_next(3, phases, phase, 1, &unused, step);
    }
}

static size_t conv_scratch(const np_call *shapes)
{
    np_conv_sides s;
    np_gemm_image m;
    np_gemm_args g = conv_arguments(shapes, &s, &m);
    const np_product_kernels *kernels = shapes->ctx->kernels->product;
    int lanes = np_pool_lanes(shapes->pool);
    return is_depthwise(shapes->attr, &s) ? kernels->depthwise_scratch(&g, lanes)
                                          : kernels->gemm_scratch(&g, lanes);
}

/* Rows of the image from the one where the first patch of a part would begin, were it not cut off there, to
 * the part's own first one. */
static int64_t rows_before(const np_call *c)
{
    const np_conv_attr *attr = c->attr;
    const int d = 5 - c->in[0]->rank;
    const int64_t at = c->first[1] * attr->stride[d];
    return at < attr->padding[d] ? at : attr->padding[d];
}

static neap_status conv_run(const np_call *c)
{
    const np_conv_attr *attr = c->attr;
    np_conv_sides s;
    np_gemm_image m;
    np_gemm_args g = conv_arguments(c, &s, &m);
    if (np_size(c->out->rank, c->out->shape) == 0)
        return NEAP_OK;
    if (attr->transposed) {
        run_transposed(c, &s, g, &m);
        return NEAP_OK;
    }
    for (int d = 0; d < 3; d++) {
        straight(attr, &m, d);
        m.b_tap[d] = s.w_step[1 + d];
    }
    if (c->first) /* a part begins at a row of the image */
        m.first[5 - c->in[0]->rank] += rows_before(c);
    m.rows_apart = s.out[0] > 1 && s.out_step[0] != np_size(3, s.out + 1) * s.out_step[3];
    memcpy(m.c_rows, s.out_step, sizeof m.c_rows);
    m.taps_apart = !taps_follow(&s);
    run_groups(c, &s, g, &m);
    return NEAP_OK;
}

/* Batches: patches of neighbouring positions overlap. */
static int conv_part(const np_call *shapes, int dim, uint32_t input)
{
    (void)shapes;
    if (dim > 0)
        return NP_PART_NONE;
    return input == 0 ? 0 : NP_PART_WHOLE;
}

/* Rows: those of the image that their patches reach. */
static int conv_window(const np_call *shapes, int dim, uint32_t input, np_window *w)
{
    const np_conv_attr *attr = shapes->attr;
    const np_operand *image = shapes->in[0];
    const int d = 5 - image->rank; /* of the attributes */
    const int64_t reach = (shapes->in[1]->shape[1] - 1) * (int64_t)attr->dilation[d] - attr->padding[d];
    if (dim != 1 || attr->transposed || reach > LONGEST_REACH || reach < -LONGEST_REACH ||
        attr->padding[d] > LONGEST_REACH || attr->stride[d] > LONGEST_REACH)
        return NP_PART_NONE;
    if (input > 0)
        return NP_PART_WHOLE;
    *w = (np_window){.step = attr->stride[d], .before = attr->padding[d], .after = (int32_t)reach};
    return 1;
}

/* Each element of the image (transposed) or of the result meets every tap of its group. */
static double conv_flops(const np_call *shapes)
{
    const np_conv_attr *attr = shapes->attr;
    const np_operand *w = shapes->in[1];
    double taps = (double)np_size(w->rank - 1, w->shape + 1);
    if (!attr->transposed)
        return np_flops_result(shapes, 2 * taps);
    double channels = (double)w->shape[w->rank - 1];
    return channels == 0 ? 0
                         : np_flops_input(shapes, 2 * taps / channels * (double)w->shape[0] /
                                                      attr->groups);
}

const np_op np_op_conv = {.name = "conv", .arity = 2, .infer = conv_infer, .scratch = conv_scratch,
                          .run = conv_run, .part = conv_part,
                          .window = conv_window, .flops = conv_flops};

/* ---- building ------------------------------------------------------------------------------- */

static bool refuse(neap_array *const *in, neap_status status, const char *text)
{
    np_refuse("conv", 2, in, status, "%s", text);
    return false;
}

static bool check_shapes(neap_array *const *in, const neap_conv_options *o)
{
    const neap_array *x = in[0], *w = in[1];
    int last = o->spatial + 1;
    if (!np_is_float(x->dtype) || !np_is_float(w->dtype))
        return refuse(in, NEAP_EDTYPE, "for floats only");
    if (o->spatial < 1 || o->spatial > 3)
        return refuse(in, NEAP_EINVAL, "spatial must be 1, 2 or 3");
    if (x->rank != o->spatial + 2 || w->rank != o->spatial + 2)
        return refuse(in, NEAP_ESHAPE, "expected x [N, spatial.., C] and w [O, kernel.., C / groups]");
    if (x->dynamic_dim > 0 || w->dynamic_dim >= 0)
        return refuse(in, NEAP_EUNSUPPORTED, "only the batch may be set at run time");
    for (int d = 1; d <= o->spatial; d++)
        if (w->shape[d] == 0)
            return refuse(in, NEAP_ESHAPE, "the kernel has no taps");
    if (o->groups < 1 || o->groups > INT32_MAX || w->shape[0] % o->groups != 0 ||
        x->shape[last] % o->groups != 0 || x->shape[last] / o->groups != w->shape[last]) {
        np_refuse("conv", 2, in, NEAP_ESHAPE,
                  "%lld channels to %lld in %lld groups do not fit weights of %lld",
                  (long long)x->shape[last], (long long)w->shape[0], (long long)o->groups,
                  (long long)w->shape[last]);
        return false;
    }
    return true;
}

/* Options within 31 bits, as attributes of all three dimensions. */
static bool check_options(neap_array *const *in, const neap_conv_options *o, np_conv_attr *attr)
{
    for (int d = 0; d < 3; d++) {
        attr->stride[d] = attr->dilation[d] = 1;
        attr->padding[d] = attr->output_padding[d] = 0;
    }
    for (int i = 0; i < o->spatial; i++) {
        int d = 3 - o->spatial + i;
        int64_t extra = o->transposed ? o->output_padding[i] : 0;
        if (o->stride[i] < 1 || o->stride[i] > INT32_MAX || o->dilation[i] < 1 ||
            o->dilation[i] > INT32_MAX || o->padding[i] < 0 || o->padding[i] > INT32_MAX ||
            extra < 0 || extra > INT32_MAX) {
            np_refuse("conv", 2, in, NEAP_EINVAL,
                      "stride %lld, padding %lld, dilation %lld, output padding %lld",
                      (long long)o->stride[i], (long long)o->padding[i], (long long)o->dilation[i],
                      (long long)extra);
            return false;
        }
        attr->stride[d] = (int32_t)o->stride[i];
        attr->padding[d] = (int32_t)o->padding[i];
        attr->dilation[d] = (int32_t)o->dilation[i];
        attr->output_padding[d] = (int32_t)extra;
    }
    return true;
}

neap_array *neap_conv(neap_array *x, neap_array *w, const neap_conv_options *options)
{
    neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
    neap_array *in[2] = {x, w};
    neap_dtype dtype;
    np_conv_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!np_ready(2, in) || !np_options("conv", options, &o, sizeof o) ||
        !np_promote_all("conv", 2, in, &dtype) || !check_shapes(in, &o) ||
        !check_options(in, &o, &attr))
        return NULL;
    attr.groups = (int32_t)o.groups;
    attr.dtype = dtype;
    attr.transposed = o.transposed;
    return np_node(&np_op_conv, 2, in, &attr, sizeof attr);
}
