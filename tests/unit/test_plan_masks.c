/* test_plan_masks.c - a mask of positions, spelled out in ordinary ops, in a transformer block: nothing
 * of T x T is ever whole, neither scores nor mask, under default options, whichever way the mask is
 * spelled. Bits are those of node-by-node plans; what a run holds is what was planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "neap/neap.h"

enum { PADDED = 20 };

/* batch 0: no such dimension. Products of heads of 16 are always made tile by tile, of heads of 192 under low
 * memory in blocks of rows, which costs time. */
typedef struct size {
    int64_t time, batch, model, heads;
} size;

/* ---- the mask, in its spellings ---------------------------------------------------------------- */

static neap_array *minus_infinity(void)
{
    return neap_scalar(NEAP_F32, -INFINITY);
}

static int64_t time_of(const neap_array *scores)
{
    return neap_array_shape(scores)[neap_array_rank(scores) - 1];
}

/* Row i against column j: may i see j? */
static neap_array *is_seen(int64_t time)
{
    neap_array *at = neap_arange(0, (double)time, 1, NEAP_I32);
    return neap_greater_equal(neap_reshape(at, 2, (int64_t[]){time, 1}),
                              neap_reshape(at, 2, (int64_t[]){1, time}));
}

static neap_array *by_where(neap_array *scores)
{
    return neap_where(is_seen(time_of(scores)), scores, minus_infinity());
}

static neap_array *by_sum(neap_array *scores)
{
    return neap_add(scores,
                    neap_where(is_seen(time_of(scores)), neap_scalar(NEAP_F32, 0), minus_infinity()));
}

static neap_array *by_triangle(neap_array *scores)
{
    return neap_where(neap_tri(time_of(scores), time_of(scores), 0, NEAP_BOOL), scores, minus_infinity());
}

static neap_array *by_upper_triangle(neap_array *scores)
{
    neap_array *all = neap_full(2, (int64_t[]){time_of(scores), time_of(scores)}, -INFINITY, NEAP_F32);
    return neap_add(scores, neap_triu(all, 1));
}

static neap_array *by_ones_and_fill(neap_array *scores)
{
    neap_array *ones = neap_tril(neap_full(2, (int64_t[]){time_of(scores), time_of(scores)}, 1, NEAP_F32), 0);
    neap_array *hidden = neap_equal(neap_expand_dims(neap_expand_dims(ones, 0), 0),
                                    neap_scalar(NEAP_F32, 0));
    if (neap_array_rank(scores) == 3)
        hidden = neap_squeeze(hidden, 0);
    return neap_where(hidden, minus_infinity(), scores);
}

static neap_array *by_large_numbers(neap_array *scores)
{
    neap_array *hidden = neap_sub(neap_scalar(NEAP_F32, 1), neap_cast(is_seen(time_of(scores)), NEAP_F32));
    return neap_add(scores, neap_mul(hidden, neap_scalar(NEAP_F32, -1e9)));
}

/* Expanded to all heads before it is used. */
static neap_array *by_broadcast(neap_array *scores)
{
    neap_array *seen = neap_broadcast_to(is_seen(time_of(scores)), neap_array_rank(scores), neap_array_shape(scores));
    return neap_where(seen, scores, minus_infinity());
}

/* A window of positions, and what is padded in each sequence, which no head tells apart. */
static neap_array *by_window_and_padding(neap_array *scores)
{
    static const int32_t padded[2] = {PADDED, 0};
    const int64_t time = time_of(scores);
    neap_array *at = neap_arange(0, (double)time, 1, NEAP_I32);
    neap_array *near = neap_less(
        neap_sub(neap_reshape(at, 2, (int64_t[]){time, 1}), at), neap_scalar(NEAP_I32, 40));
    neap_array *seen = neap_logical_and(is_seen(time_of(scores)), near);
    if (neap_array_rank(scores) == 4) {
        const int64_t apart[4] = {neap_array_shape(scores)[0], 1, 1, 1};
        neap_array *end = neap_sub(neap_scalar(NEAP_I32, (double)time),
                                   neap_array_over(NEAP_I32, 4, apart, padded, NULL, NULL));
        seen = neap_logical_and(seen, neap_logical_or(neap_less(at, end), neap_equal(at, neap_scalar(NEAP_I32, 0))));
    }
    return neap_where(seen, scores, minus_infinity());
}

typedef neap_array *mask_fn(neap_array *scores);

static const struct spelling {
    const char *name;
    mask_fn *mask;
} spellings[] = {
    {"where", by_where},
    {"sum", by_sum},
    {"triangle", by_triangle},
    {"upper triangle", by_upper_triangle},
    {"ones and fill", by_ones_and_fill},
    {"large numbers", by_large_numbers},
    {"broadcast", by_broadcast},
    {"window and padding", by_window_and_padding}
};
enum { SPELLINGS = sizeof spellings / sizeof *spellings };

/* ---- the block --------------------------------------------------------------------------------- */

/* Of f32 in [-1/2, 1/2), times scale. */
static neap_array *numbers(uint32_t seed, int rank, const int64_t *shape, float scale)
{
    neap_array *a = neap_array_zeros(NEAP_F32, rank, shape);
    assert_non_null(a);
    float *v = neap_array_mutable(a);
    for (int64_t i = 0; i < neap_array_size(a); i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = ((float)(seed >> 8) / 16777216.0f - 0.5f) * scale;
    }
    return a;
}

static neap_array *project(neap_array *x, uint32_t seed, int64_t n)
{
    const int64_t w[2] = {neap_array_shape(x)[neap_array_rank(x) - 1], n};
    return neap_add(neap_matmul(x, numbers(seed, 2, w, 0.25f)), numbers(seed + 1, 1, &n, 0.25f));
}

/* [B, T, M] -> [B, H, T, D]; without a batch [T, M] -> [H, T, D]. */
static neap_array *heads_of(neap_array *x, const size *z)
{
    const int64_t split[4] = {z->batch, z->time, z->heads, z->model / z->heads};
    static const int axes[4] = {0, 2, 1, 3}, one[3] = {1, 0, 2};
    return z->batch ? neap_transpose(neap_reshape(x, 4, split), axes)
                    : neap_transpose(neap_reshape(x, 3, split + 1), one);
}

static neap_array *attend(neap_array *x, const size *z, mask_fn *mask)
{
    static const int axes[4] = {0, 2, 1, 3}, one[3] = {1, 0, 2}, turn[4] = {0, 1, 3, 2},
                     turn_one[3] = {0, 2, 1};
    neap_array *q = heads_of(project(x, 2, z->model), z), *k = heads_of(project(x, 4, z->model), z),
               *v = heads_of(project(x, 6, z->model), z);
    neap_array *scores = neap_matmul(q, neap_transpose(k, z->batch ? turn : turn_one));
    scores = mask(neap_mul(scores, neap_scalar(NEAP_F32, 0.25)));
    neap_array *y = neap_matmul(neap_softmax(scores, -1), v);
    y = neap_contiguous(neap_transpose(y, z->batch ? axes : one));
    return project(neap_reshape(y, neap_array_rank(x), neap_array_shape(x)), 8, z->model);
}

static neap_array *block(const size *z, mask_fn *mask)
{
    const int64_t shape[3] = {z->batch, z->time, z->model};
    neap_array *x = numbers(1, z->batch ? 3 : 2, shape + !z->batch, 4);
    x = neap_add(x, attend(neap_layer_norm(x, NULL, NULL, 1e-5f), z, mask));
    neap_array *h = neap_gelu(project(neap_layer_norm(x, NULL, NULL, 1e-5f), 10, 2 * z->model));
    return neap_add(x, project(h, 12, z->model));
}

/* ---- what is checked --------------------------------------------------------------------------- */

typedef struct squares {
    int64_t time;
    int whole; /* values of T x T and more */
    const char *op;
    uint64_t scratch; /* the most of a step */
} squares;

static bool note(void *user, const neap_plan_value *v)
{
    squares *s = user;
    if (v->kind == NEAP_PLAN_SCRATCH) {
        s->scratch = v->bytes > s->scratch ? v->bytes : s->scratch;
    } else if (v->rank >= 2 && v->shape[v->rank - 1] == s->time &&
               v->shape[v->rank - 2] == s->time) {
        s->whole++;
        s->op = v->op;
    }
    return true;
}

static uint64_t held(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active + m.cached;
}

/* The block's numbers, by a plan of those options, which takes what it says. */
static float *run(const size *z, mask_fn *mask, unsigned without, squares *s, neap_plan_info *info)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_plan_options p = NEAP_PLAN_OPTIONS_INIT;
    neap_plan *plan;
    o.threads = 2;
    p.without = without;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    assert_int_equal(neap_context_plan_options(ctx, &p), NEAP_OK);
    neap_array *y = block(z, mask);
    if (neap_plan_make(ctx, 1, &y, 0, NULL, &plan) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    neap_plan_describe(plan, info);
    neap_plan_values(plan, note, s);
    neap_context_trim(ctx); /* slabs that nodes have left */
    const uint64_t planned = held(ctx) + info->peak_bytes;
    assert_int_equal(neap_context_set_limit(ctx, planned), NEAP_OK);
    if (neap_plan_run(plan, NULL) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    assert_int_equal(held(ctx), planned);
    const neap_array *out = neap_plan_output(plan, 0);
    const size_t bytes = (size_t)neap_array_size(out) * sizeof(float);
    float *got = malloc(bytes);
    assert_non_null(got);
    assert_int_equal(neap_array_read(out, got, bytes), NEAP_OK);
    neap_plan_free(plan);
    neap_scope_pop(ctx);
    neap_context_free(ctx);
    return got;
}

/* Products run over 64 rows and more: scratch holds tiles of as many for each lane. */
static void check(const size *z, const struct spelling *spelling, unsigned how)
{
    const unsigned off = NEAP_PLAN_NO_FUSION | NEAP_PLAN_NO_SIDEWAYS | NEAP_PLAN_NO_ORDER |
                         NEAP_PLAN_NO_STREAMING | NEAP_PLAN_NO_RECOMPUTE;
    const size_t n = (size_t)(z->time * z->model * (z->batch ? z->batch : 1));
    neap_plan_info info = NEAP_PLAN_INFO_INIT, plain = NEAP_PLAN_INFO_INIT;
    squares some = {.time = z->time}, none = some;
    float *want = run(z, spelling->mask, off, &some, &plain);
    float *got = run(z, spelling->mask, how, &none, &info);
    assert_true(some.whole >= 4);
    if (none.whole)
        fail_msg("%s, batch %d: T x T made by %s", spelling->name, (int)z->batch, none.op);
    assert_true(info.peak_bytes <= plain.peak_bytes);
    if (z->time == 512) {
        assert_true(none.scratch < 512 * 512 * sizeof(float) * (how ? 2 : 1));
        assert_true(info.peak_bytes < plain.peak_bytes);
    }
    for (size_t i = 0; i < n; i++)
        assert_true(isfinite(want[i]));
    assert_memory_equal(got, want, n * sizeof *got);
    free(got);
    free(want);
}

static void test_masks(void **state)
{
    (void)state;
    for (int i = 0; i < SPELLINGS; i++)
        check(&(size){512, 0, 64, 4}, &spellings[i], 0);
}

static void test_masks_of_batches(void **state)
{
    (void)state;
    for (int i = 0; i < SPELLINGS; i++)
        check(&(size){512, 2, 64, 4}, &spellings[i], 0);
}

/* Tiles of 64 rows for two lanes are hardly less than the whole: of the last one, which is made of integers,
 * they would be more. */
static void test_short_masks(void **state)
{
    (void)state;
    for (int i = 0; i + 1 < SPELLINGS; i++)
        check(&(size){192, i % 3, 48, 4}, &spellings[i], 0);
}

/* Keys of 128 Ki numbers, which each tile of rows reads whole. */
static void test_long_masks(void **state)
{
    (void)state;
    for (int i = 0; i < SPELLINGS; i += 4)
        check(&(size){2048, 0, 128, 2}, &spellings[i], 0);
}

/* Where memory is wanted, large products run in blocks of rows. */
static void test_masks_of_streams(void **state)
{
    (void)state;
    for (int i = 0; i < SPELLINGS; i += 3)
        for (int batch = 0; batch < 3; batch += 2)
            check(&(size){512, batch, 384, 2}, &spellings[i], NEAP_PLAN_LOW_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks),
                                       cmocka_unit_test(test_masks_of_batches),
                                       cmocka_unit_test(test_short_masks),
                                       cmocka_unit_test(test_long_masks),
                                       cmocka_unit_test(test_masks_of_streams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
