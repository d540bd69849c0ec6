/* test_plan_blocks.c - streaming by bytes: of what is made of few large rows, as images of a batch are, the peak
 * falls with the budget. At every budget: planned is measured, the bits are those of the plan without one, a
 * smaller budget takes no more, one byte less than the least is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "neap/ops.h"
#include "neap/plan.h"

enum { BUDGETS = 20 };

static neap_array *values(int rank, const int64_t *shape, unsigned seed)
{
    neap_array *x = neap_array_zeros(NEAP_F32, rank, shape);
    float *p = neap_array_mutable(x);
    const int64_t n = neap_array_size(x);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
    return x;
}

/* ---- networks ---------------------------------------------------------------------------------- */

typedef struct net_case {
    const char *name;
    neap_array *(*build)(void);
    double falls; /* the least over the peak without a budget is below that */
} net_case;

typedef struct conv_case {
    int spatial;
    int64_t in, out, kernel, stride, groups;
    bool transposed;
} conv_case;

static neap_array *conv(neap_array *x, const conv_case *c, unsigned seed)
{
    neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
    int64_t shape[NEAP_MAX_RANK] = {c->out, 0, 0, 0, 0};
    o.spatial = c->spatial;
    o.groups = c->groups;
    o.transposed = c->transposed;
    for (int d = 0; d < c->spatial; d++) {
        shape[1 + d] = c->kernel;
        o.stride[d] = c->stride;
        o.dilation[d] = 1;
        o.padding[d] = c->kernel / 2;
        o.output_padding[d] = c->transposed ? c->stride - 1 : 0;
    }
    shape[1 + c->spatial] = c->in / c->groups;
    neap_array *y = neap_conv(x, values(2 + c->spatial, shape, seed), &o);
    return neap_relu(neap_add(y, values(1, &c->out, seed + 1)));
}

/* Wide in the middle. */
static neap_array *chain(int spatial, const int64_t *shape, bool depthwise, bool transposed)
{
    const int64_t in = shape[spatial + 1], wide = 4 * in;
    neap_array *x = values(2 + spatial, shape, 1);
    x = conv(x, &(conv_case){spatial, in, wide, depthwise ? 1 : 3, 1, 1, transposed}, 2);
    x = conv(x, &(conv_case){spatial, wide, wide, 3, 1, depthwise ? wide : 1, false}, 4);
    x = conv(x, &(conv_case){spatial, wide, in, 1, 1, 1, false}, 6);
    return neap_mean_axes(x, spatial, (const int[]){1, 2, 3}, 0);
}

static neap_array *images(void) { return chain(2, (const int64_t[]){8, 40, 40, 8}, false, false); }
static neap_array *sounds(void) { return chain(1, (const int64_t[]){8, 1600, 8}, false, false); }
static neap_array *volumes(void) { return chain(3, (const int64_t[]){8, 10, 12, 12, 8}, false, false); }
static neap_array *depthwise(void) { return chain(2, (const int64_t[]){8, 40, 40, 8}, true, false); }
static neap_array *transposed(void) { return chain(2, (const int64_t[]){8, 40, 40, 8}, false, true); }

/* One image: blocks of its rows, with those about them. */
static neap_array *picture(void) { return chain(2, (const int64_t[]){1, 120, 100, 8}, false, false); }
static neap_array *sound(void) { return chain(1, (const int64_t[]){1, 12000, 8}, false, false); }
static neap_array *volume(void) { return chain(3, (const int64_t[]){1, 40, 16, 16, 8}, false, false); }
static neap_array *narrow_middle(void) { return chain(2, (const int64_t[]){1, 120, 100, 8}, true, false); }

/* Kernels, strides, dilations and paddings of other sizes, the last rows no whole block. */
static neap_array *odd_windows(void)
{
    static const int64_t kernels[] = {5, 1, 7, 3, 2}, strides[] = {2, 1, 1, 1, 3},
                         dilations[] = {1, 1, 2, 3, 1}, paddings[] = {1, 0, 6, 3, 4};
    neap_array *x = values(4, (const int64_t[]){1, 211, 90, 8}, 1);
    for (int i = 0; i < 5; i++) {
        const int64_t out = i == 4 ? 4 : 24, shape[] = {out, kernels[i], kernels[i], i ? 24 : 8};
        neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
        o.spatial = 2;
        for (int d = 0; d < 2; d++) {
            o.stride[d] = strides[i];
            o.dilation[d] = dilations[i];
            o.padding[d] = paddings[i];
        }
        x = neap_tanh(neap_conv(x, values(4, shape, 3 + (unsigned)i), &o));
    }
    return x;
}

/* What two convolutions read, and a sum over both: tiles of several heights. */
static neap_array *branches(void)
{
    neap_array *x = values(4, (const int64_t[]){1, 100, 90, 8}, 1);
    x = conv(x, &(conv_case){2, 8, 32, 1, 1, 1, false}, 2);
    neap_array *wide = conv(x, &(conv_case){2, 32, 32, 5, 1, 32, false}, 4);
    neap_array *thin = conv(x, &(conv_case){2, 32, 32, 3, 1, 32, false}, 6);
    x = neap_add(neap_mul(wide, thin), x);
    return neap_sum(conv(x, &(conv_case){2, 32, 8, 3, 1, 1, false}, 8), 3, 0);
}

/* Channels first, as exported programs have them: turned for each convolution, and back. */
static neap_array *turned(void)
{
    static const int last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2};
    neap_array *x = values(4, (const int64_t[]){8, 8, 40, 40}, 1);
    for (int i = 0; i < 3; i++) {
        const int64_t in = i == 0 ? 8 : 32, out = i == 2 ? 8 : 32, one[] = {1, 1, 1, out};
        neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
        o.spatial = 2;
        o.padding[0] = o.padding[1] = 1;
        neap_array *w = values(4, (const int64_t[]){out, 3, 3, in}, 7 + (unsigned)i);
        neap_array *y = neap_conv(neap_transpose(x, last), w, &o);
        x = neap_relu(neap_transpose(neap_add(y, neap_reshape(values(1, &out, 3), 4, one)), first));
    }
    return neap_mean_axes(x, 2, (const int[]){2, 3}, 0);
}

/* One image, channels first, with a batch norm written out and a hard swish: all of it as the elements lie. */
static neap_array *turned_picture(void)
{
    static const int last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2};
    const int64_t wide = 24, each[] = {1, wide, 1, 1};
    neap_array *x = values(4, (const int64_t[]){1, 8, 110, 96}, 1);
    for (unsigned i = 0; i < 3; i++) {
        const int64_t shape[] = {wide, 3, 3, i ? wide : 8};
        neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
        o.spatial = 2;
        o.padding[0] = o.padding[1] = 1;
        neap_array *y = neap_transpose(neap_conv(neap_transpose(x, last), values(4, shape, 7 + i), &o), first);
        y = neap_mul(neap_sub(y, values(4, each, 20 + i)), values(4, each, 30 + i));
        neap_array *gate = neap_minimum(neap_relu(neap_add(y, neap_scalar(NEAP_F32, 3))), neap_scalar(NEAP_F32, 6));
        x = neap_mul(y, neap_div(gate, neap_scalar(NEAP_F32, 6)));
    }
    return neap_mean_axes(x, 2, (const int[]){2, 3}, 0);
}

/* Normalised over the batch's statistics, given, then pooled. */
static neap_array *normalised(void)
{
    neap_array *x = values(4, (const int64_t[]){8, 48, 48, 4}, 1);
    for (unsigned i = 0; i < 2; i++) {
        const int64_t wide = 32;
        x = conv(x, &(conv_case){2, i ? wide : 4, wide, 3, 1, 1, false}, 10 * i);
        x = neap_mul(neap_sub(x, values(1, &wide, 20 + i)), values(1, &wide, 30 + i));
        x = neap_relu(neap_add(x, values(1, &wide, 40 + i)));
    }
    neap_array *pooled = neap_reshape(x, 6, (const int64_t[]){8, 24, 2, 24, 2, 32});
    return neap_max_axes(pooled, 2, (const int[]){2, 4}, 0);
}

/* Few rows, each large: a projection, a wide hidden layer. */
static neap_array *few_rows(void)
{
    const int64_t rows = 16, wide = 40000;
    neap_array *x = values(2, (const int64_t[]){rows, 8}, 1);
    neap_array *h = neap_gelu(neap_matmul(x, values(2, (const int64_t[]){8, wide}, 2)));
    h = neap_silu(neap_mul(h, values(1, &wide, 3)));
    return neap_matmul(h, values(2, (const int64_t[]){wide, 8}, 4));
}

static const net_case nets[] = {
    {"images", images, 0.6},         {"sounds", sounds, 0.6},         {"volumes", volumes, 0.6},
    {"depthwise", depthwise, 0.6},   {"transposed", transposed, 0.6}, {"turned", turned, 0.6},
    {"picture", picture, 0.6},       {"sound", sound, 0.6},           {"volume", volume, 0.6},
    {"turned picture", turned_picture, 0.7}, {"narrow", narrow_middle, 0.6},  {"odd windows", odd_windows, 0.9}, {"branches", branches, 0.6},
    {"normalised", normalised, 0.8}, {"few rows", few_rows, 0.6},
};

/* ---- one plan ---------------------------------------------------------------------------------- */

typedef struct seen {
    uint64_t peak[256];
    double seconds[256];
    int n, chosen;
} seen;

static void take_event(void *user, const neap_plan_event *e)
{
    seen *s = user;
    if (e->kind != NEAP_PLAN_EVENT_CANDIDATE || s->n == 256)
        return;
    if (e->chosen)
        s->chosen = s->n;
    s->peak[s->n] = e->peak_bytes;
    s->seconds[s->n++] = e->seconds;
}

/* The result's bytes, of that many; the plan's figures. Measured is planned. */
static neap_status run(const net_case *net, uint64_t budget, seen *told, uint8_t *out, size_t bytes,
                       neap_plan_info *info)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_plan_options how = NEAP_PLAN_OPTIONS_INIT;
    neap_plan *p;
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    o.threads = 2;
    how.budget = budget;
    how.explain = told ? take_event : NULL;
    how.user = told;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    assert_int_equal(neap_context_plan_options(ctx, &how), NEAP_OK);
    neap_array *root = net->build();
    assert_non_null(root);
    neap_status status = neap_plan_make(ctx, 1, &root, 0, NULL, &p);
    if (status == NEAP_OK) {
        neap_plan_describe(p, info);
        neap_context_trim(ctx);
        neap_context_memory(ctx, &before);
        assert_int_equal(neap_plan_run(p, NULL), NEAP_OK);
        neap_context_memory(ctx, &after);
        assert_int_equal(after.active + after.cached - before.active - before.cached, info->peak_bytes);
        assert_true(neap_array_bytes(neap_plan_output(p, 0)) <= bytes);
        memcpy(out, neap_array_data(neap_plan_output(p, 0)), neap_array_bytes(neap_plan_output(p, 0)));
        neap_plan_free(p);
    }
    neap_scope_pop(ctx);
    neap_context_free(ctx);
    return status;
}

static void check(const net_case *net)
{
    enum { MOST = 1 << 20 };
    uint8_t *want = calloc(1, MOST), *got = calloc(1, MOST);
    neap_plan_info free_ = NEAP_PLAN_INFO_INIT, info = NEAP_PLAN_INFO_INIT;
    seen told = {0};
    assert_int_equal(run(net, 0, &told, want, MOST, &free_), NEAP_OK);
    const uint64_t peak = free_.peak_bytes, least = free_.least_bytes;
    assert_int_equal(run(net, 0, NULL, got, MOST, &info), NEAP_OK);
    assert_int_equal(info.peak_bytes, peak); /* who looks on changes nothing */
    if ((double)least >= net->falls * (double)peak)
        fail_msg("%s: %llu, least %llu", net->name, (unsigned long long)peak, (unsigned long long)least);

    uint64_t last = UINT64_MAX, different = 0;
    for (int i = 0; i < BUDGETS; i++) {
        const uint64_t budget = peak - (peak - least) * (uint64_t)i / (BUDGETS - 1);
        memset(&told, 0, sizeof told);
        memset(got, 0, MOST);
        assert_int_equal(run(net, budget, &told, got, MOST, &info), NEAP_OK);
        assert_memory_equal(got, want, MOST);
        assert_true(info.peak_bytes <= budget && info.peak_bytes <= last);
        for (int k = 0; k < told.n; k++)
            assert_false(told.peak[k] == info.peak_bytes && told.seconds[k] < told.seconds[told.chosen]);
        different += info.peak_bytes != last;
        last = info.peak_bytes;
    }
    assert_true(different >= 2); /* how many there are hangs on scratch, so on the instruction set */
    assert_int_equal(run(net, least - 1, NULL, got, MOST, &info), NEAP_ENOMEM);
    free(want);
    free(got);
}

static void test_few_large_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        check(&nets[i]);
}

/* ---- elements as they lie ------------------------------------------------------------------------ */

enum { A = 3, B = 5, C = 7 };

static float at(const float *x, int a, int b, int c) { return x[(a * B + b) * C + c]; }

/* Ops of two and three inputs that lie in one other order give what they give in row-major order, and the result
 * lies as they do; what lies otherwise leaves it row-major. Expected values by hand. */
static void test_as_they_lie(void **state)
{
    (void)state;
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    static const int turn[] = {2, 0, 1}; /* [A, B, C] turned_shape as [C, A, B] */
    const int64_t shape[] = {A, B, C}, turned_shape[] = {C, A, B}, row[] = {C, 1, 1}, column[] = {1, A, B};
    neap_array *x = values(3, shape, 1), *y = values(3, shape, 2), *r = values(3, row, 3);
    neap_array *f = values(3, turned_shape, 4), *k = values(3, column, 5);
    const float *px = neap_array_data(x), *py = neap_array_data(y), *pr = neap_array_data(r);
    const float *pf = neap_array_data(f), *pk = neap_array_data(k);
    neap_array *tx = neap_transpose(x, turn), *ty = neap_transpose(y, turn);
    neap_array *got[] = {neap_add(tx, ty), neap_mul(tx, r), neap_sub(k, tx), neap_add(tx, neap_scalar(NEAP_F32, 2)),
                         neap_where(neap_greater(tx, ty), tx, r), neap_add(tx, f), neap_maximum(f, tx)};
    enum { N = sizeof got / sizeof *got, LYING = 5 };
    for (int i = 0; i < N; i++) {
        assert_non_null(got[i]);
        assert_memory_equal(neap_array_shape(got[i]), turned_shape, sizeof turned_shape);
        const bool lies = memcmp(neap_array_strides(got[i]), neap_array_strides(tx), sizeof turned_shape) == 0;
        assert_true(lies == (i < LYING));
    }
    assert_int_equal(neap_eval_all(N, got), NEAP_OK);
    for (int c = 0; c < C; c++)
        for (int a = 0; a < A; a++)
            for (int b = 0; b < B; b++) {
                const float u = at(px, a, b, c), v = at(py, a, b, c), w = pf[(c * A + a) * B + b];
                const float want[] = {u + v, u * pr[c], pk[a * B + b] - u, u + 2, u > v ? u : pr[c], u + w,
                                      u > w ? u : w};
                for (int i = 0; i < N; i++)
                    assert_true(((const float *)neap_array_data(got[i]))[(c * A + a) * B + b] == want[i]);
            }
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

/* ---- scratch that is hardly anything ------------------------------------------------------------ */

/* Large values first, then what is made of each in place: in another order far less is alive, and the tiles of
 * what is fused are a hundredth of that. `norm`: 0 softmax, 1 layer norm, 2 rms norm. */
static neap_plan_info plan_rows(unsigned without, uint64_t budget, int norm)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_plan_options how = NEAP_PLAN_OPTIONS_INIT;
    neap_plan *p;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    enum { VALUES = 4 };
    const int64_t shape[] = {8192, 256};
    neap_array *x[VALUES];
    o.threads = 1;
    how.without = without | NEAP_PLAN_NO_STREAMING | NEAP_PLAN_NO_RECOMPUTE;
    how.budget = budget;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    assert_int_equal(neap_context_plan_options(ctx, &how), NEAP_OK);
    neap_array *in = values(2, shape, 1), *one = neap_scalar(NEAP_F32, 1);
    for (int i = 0; i < VALUES; i++)
        x[i] = neap_cumsum(neap_add(in, neap_scalar(NEAP_F32, i)), 0, false, true);
    for (int i = 0; i < VALUES; i++) {
        neap_array *y = neap_mul(neap_exp(neap_neg(x[i])), one);
        y = norm == 0   ? neap_softmax(y, -1)
            : norm == 1 ? neap_layer_norm(y, NULL, NULL, 1e-5f)
                        : neap_rms_norm(y, NULL, 1e-5f);
        x[i] = neap_sum(neap_cumsum(neap_tanh(neap_sqrt(y)), 0, false, true), 0, 0);
    }
    assert_int_equal(neap_plan_make(ctx, VALUES, x, 0, NULL, &p), NEAP_OK);
    neap_plan_describe(p, &info);
    neap_plan_free(p);
    neap_scope_pop(ctx);
    neap_context_free(ctx);
    return info;
}

static void test_fused_for_hardly_more(void **state)
{
    (void)state;
    for (int norm = 0; norm < 3; norm++) {
        const unsigned unfused = NEAP_PLAN_NO_FUSION, program = unfused | NEAP_PLAN_NO_ORDER;
        const neap_plan_info order = plan_rows(unfused, 0, norm), first = plan_rows(program, 0, norm);
        const neap_plan_info all = plan_rows(0, 0, norm), low = plan_rows(NEAP_PLAN_LOW_MEMORY, 0, norm);
        assert_true(order.peak_bytes < first.peak_bytes / 2);
        assert_true(all.fused_groups >= 3 && all.predicted_seconds < 0.9 * order.predicted_seconds);
        assert_true(all.peak_bytes > order.peak_bytes); /* or this shows nothing */
        assert_true(all.peak_bytes <= order.peak_bytes + order.peak_bytes / 64);
        assert_true(low.peak_bytes <= order.peak_bytes);
        const neap_plan_info tight = plan_rows(0, all.peak_bytes - 1, norm);
        assert_true(tight.peak_bytes < all.peak_bytes && tight.least_bytes == low.peak_bytes);
        assert_int_equal(plan_rows(0, all.peak_bytes, norm).peak_bytes, all.peak_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few_large_rows),
                                       cmocka_unit_test(test_as_they_lie),
                                       cmocka_unit_test(test_fused_for_hardly_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
