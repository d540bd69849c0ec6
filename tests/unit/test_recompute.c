/* test_recompute.c - values that are made a second time: plans whose arenas are counted by hand, with
 * and without; what must not be made again; the same bits, the planned bytes, and no leak when an
 * allocation fails.
 *
 * All values are B bytes but for sums (64). A bump joins four of them: at that step they take 5 B. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "neap/ops.h"
#include "neap/plan.h"

enum { SIDE = 128, B = SIDE * SIDE * 4, PAGE = 4096, MANY = 20, GRAPHS = 150, NODES = 40 };

static const int64_t square_shape[2] = {SIDE, SIDE}, flat_shape[1] = {SIDE * SIDE};
static float input[SIDE * SIDE];
static neap_state *kept; /* of the graphs that have one */
static neap_array *effect; /* its write, if the graph has one: a root, too */

typedef neap_array *builder(neap_array *x);

static neap_context *open_context(void)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    for (int i = 0; i < SIDE * SIDE; i++)
        input[i] = (float)(i * 37 % 101) / 32 - 1.5f;
    return ctx;
}

/* ---- graphs -------------------------------------------------------------------------------- */

/* A sum over 4 B that needs a sum of `first`; the step that joins takes 5 B beside what waits. */
static neap_array *bump(neap_array *x, neap_array *first)
{
    neap_array *after = neap_add(x, neap_sum_all(first));
    neap_array *parts[4] = {after, after, after, after};
    return neap_sum_all(neap_concat(4, parts, 0));
}

/* y is idle while the bump runs. */
static neap_array *build_idle(neap_array *x)
{
    neap_array *y = neap_square(x);
    return neap_sum_all(neap_add(y, bump(x, y)));
}

static neap_array *build_cast(neap_array *x)
{
    neap_array *y = neap_cast(neap_cast(x, NEAP_I32), NEAP_F32);
    return neap_sum_all(neap_add(y, bump(x, y)));
}

/* What y is made of is dead by then, and dear. */
static neap_array *build_dead(neap_array *x)
{
    neap_array *y = neap_square(neap_sort(x, 1));
    return neap_sum_all(neap_add(y, bump(x, y)));
}

/* The same, but it is used once more later. */
static neap_array *build_alive(neap_array *x)
{
    neap_array *p = neap_sort(x, 1), *y = neap_square(p);
    return neap_sum_all(neap_sub(neap_add(y, bump(x, y)), p));
}

/* y and the two values that it comes from: all are made again. */
static neap_array *build_chain(neap_array *x)
{
    neap_array *y = neap_sub(neap_square(neap_relu(x)), x);
    return neap_sum_all(neap_add(y, bump(x, y)));
}

/* The later user sees y through a view. */
static neap_array *build_view(neap_array *x)
{
    neap_array *y = neap_square(x), *t = neap_transpose(y, NULL);
    return neap_sum_all(neap_mul(neap_add(t, bump(x, y)), t));
}

static neap_array *build_random(neap_array *x)
{
    neap_array *y = neap_random_uniform(neap_random_key(7), 2, square_shape, 0, 1);
    return neap_sum_all(neap_add(y, bump(x, y)));
}

static neap_array *build_arange(neap_array *x)
{
    neap_array *y = neap_reshape(neap_arange(0, SIDE * SIDE, 1, NEAP_F32), 2, square_shape);
    return neap_sum_all(neap_add(y, bump(x, y)));
}

/* Two bumps as high as each other, each with a value that is idle: one alone lowers nothing. */
static neap_array *build_twice(neap_array *x)
{
    neap_array *y = neap_square(x);
    neap_array *t = neap_sum_all(neap_add(y, bump(x, y)));
    y = neap_mul(x, t);
    return neap_sum_all(neap_add(y, bump(x, y)));
}

/* MANY values are idle, each summed before the bump and after it. */
static neap_array *build_many(neap_array *x)
{
    neap_array *y[MANY], *before = neap_scalar(NEAP_F32, 0), *root = before;
    for (int i = 0; i < MANY; i++) {
        y[i] = neap_mul(x, neap_scalar(NEAP_F32, i + 1));
        before = neap_add(before, neap_sum_all(y[i]));
    }
    neap_array *s = bump(x, before);
    for (int i = 0; i < MANY; i++)
        root = neap_add(root, neap_sum_all(neap_mul(y[i], s)));
    return root;
}

/* y is a square of the state; it is written before, or after, y is used for the last time. */
static neap_array *with_state(neap_array *x, bool before)
{
    neap_array *y = neap_square(neap_state_read(kept)), *s = bump(x, y);
    if (before)
        effect = neap_state_write(neap_state_read(kept), neap_add(x, s));
    neap_array *root = neap_sum_all(neap_add(y, s));
    if (!before)
        effect = neap_state_write(neap_state_read(kept), neap_add(x, s));
    assert_non_null(effect);
    return root;
}

static neap_array *build_written(neap_array *x)
{
    return with_state(x, true);
}

static neap_array *build_written_later(neap_array *x)
{
    return with_state(x, false);
}

/* ---- plans --------------------------------------------------------------------------------- */

typedef struct result {
    neap_plan_info info;
    float value;
} result;

static char chosen[120]; /* text of the candidate that was taken */

static void listen(void *user, const neap_plan_event *e)
{
    (void)user;
    if (e->kind == NEAP_PLAN_EVENT_CANDIDATE && e->chosen)
        snprintf(chosen, sizeof chosen, "%s", e->text);
}

static void start_state(neap_context *ctx, neap_array *x)
{
    assert_int_equal(neap_state_new(ctx, "kept", NEAP_F32, 2, square_shape, &kept), NEAP_OK);
    assert_non_null(neap_state_write(neap_state_read(kept), x));
    assert_int_equal(neap_state_flush(kept), NEAP_OK);
}

/* Plans and runs it; what is held rises by just the planned bytes. */
static result run(neap_context *ctx, builder *build, const neap_plan_options *o)
{
    result r = {.info = NEAP_PLAN_INFO_INIT};
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    neap_plan *plan;
    assert_int_equal(neap_context_plan_options(ctx, o), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    neap_array *x = neap_array_over(NEAP_F32, 2, square_shape, input, NULL, NULL);
    start_state(ctx, x);
    effect = NULL;
    neap_array *roots[2] = {build(x)};
    roots[1] = effect;
    assert_int_equal(neap_plan_make(ctx, effect ? 2 : 1, roots, 0, NULL, &plan), NEAP_OK);
    neap_plan_describe(plan, &r.info);
    neap_context_trim(ctx);
    neap_context_memory(ctx, &before);
    assert_int_equal(neap_plan_run(plan, NULL), NEAP_OK);
    neap_context_memory(ctx, &after);
    assert_int_equal(after.active + after.cached,
                     before.active + before.cached + r.info.peak_bytes);
    assert_int_equal(neap_array_read(neap_plan_output(plan, 0), &r.value, sizeof r.value), NEAP_OK);
    neap_plan_free(plan);
    neap_state_free(kept);
    neap_scope_pop(ctx);
    return r;
}

/* Of single ops: the arena without and with values made again, and how many are. */
static void expect(builder *build, uint64_t without, uint64_t with, int64_t again)
{
    neap_context *ctx = open_context();
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    o.without = NEAP_PLAN_LOW_MEMORY | NEAP_PLAN_NO_FUSION | NEAP_PLAN_NO_RECOMPUTE;
    result plain = run(ctx, build, &o);
    assert_int_equal(plain.info.arena_bytes, without);
    assert_int_equal(plain.info.recomputed_steps, 0);
    o.without &= ~(unsigned)NEAP_PLAN_NO_RECOMPUTE;
    result r = run(ctx, build, &o);
    assert_int_equal(r.info.arena_bytes, with);
    assert_int_equal(r.info.recomputed_steps, again);
    assert_int_equal(r.info.steps, plain.info.steps + again);
    assert_int_equal(r.info.least_bytes, with + PAGE);
    assert_memory_equal(&r.value, &plain.value, sizeof r.value);
    if (again)
        assert_true(r.info.predicted_seconds > plain.info.predicted_seconds);
    neap_context_free(ctx);
}

static void test_idle(void **state)
{
    (void)state;
    expect(build_idle, 6 * B, 5 * B, 1);
    expect(build_arange, 6 * B, 5 * B, 1);
    expect(build_random, 6 * B, 5 * B, 1);
    expect(build_view, 6 * B, 5 * B, 1);
}

static void test_inputs(void **state)
{
    (void)state;
    expect(build_dead, 6 * B, 6 * B, 0);
    expect(build_alive, 7 * B, 6 * B, 1);
    expect(build_chain, 6 * B, 5 * B, 3);
    expect(build_cast, 6 * B, 5 * B, 2);
}

/* The sum that y comes from at the second time waits in the result's block. */
static void test_two_peaks(void **state)
{
    (void)state;
    expect(build_twice, 6 * B, 5 * B, 2);
}

static void test_many(void **state)
{
    (void)state;
    expect(build_many, (MANY + 5) * B, 5 * B, MANY);
}

static void test_states(void **state)
{
    (void)state;
    expect(build_written, 6 * B, 6 * B, 0);
    expect(build_written_later, 6 * B, 5 * B, 1);
}

/* y is a result itself: its bytes are there anyway. */
static void test_root(void **state)
{
    (void)state;
    neap_context *ctx = open_context();
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    neap_plan *plan;
    o.without = NEAP_PLAN_LOW_MEMORY | NEAP_PLAN_NO_FUSION;
    assert_int_equal(neap_context_plan_options(ctx, &o), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    neap_array *x = neap_array_over(NEAP_F32, 2, square_shape, input, NULL, NULL);
    neap_array *y = neap_square(x), *roots[2] = {neap_sum_all(neap_add(y, bump(x, y))), y};
    assert_int_equal(neap_plan_make(ctx, 2, roots, 0, NULL, &plan), NEAP_OK);
    neap_plan_describe(plan, &info);
    assert_int_equal(info.arena_bytes, 5 * B);
    assert_int_equal(info.recomputed_steps, 0);
    neap_plan_free(plan);
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

/* Only under a budget that is not met without it; what is told. */
static void test_budget(void **state)
{
    (void)state;
    neap_context *ctx = open_context();
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    o.without = NEAP_PLAN_NO_FUSION;
    o.explain = listen;
    result r = run(ctx, build_idle, &o);
    assert_int_equal(r.info.arena_bytes, 6 * B);
    assert_int_equal(r.info.recomputed_steps, 0);
    assert_int_equal(r.info.least_bytes, 5 * B + PAGE);
    assert_string_equal(chosen, "each op a step, in program order");
    o.budget = 6 * B + PAGE;
    r = run(ctx, build_idle, &o);
    assert_int_equal(r.info.recomputed_steps, 0);
    o.budget = 6 * B;
    r = run(ctx, build_idle, &o);
    assert_int_equal(r.info.recomputed_steps, 1);
    assert_int_equal(r.info.arena_bytes, 5 * B);
    assert_string_equal(chosen, "1 value made again, each op a step, in program order");
    neap_context_free(ctx);
}

/* With fusion, second makings are tiles of the step that reads the last of them. */
static void test_fused(void **state)
{
    (void)state;
    neap_context *ctx = open_context();
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    o.without = NEAP_PLAN_LOW_MEMORY | NEAP_PLAN_NO_RECOMPUTE;
    result plain = run(ctx, build_chain, &o);
    o.without = NEAP_PLAN_LOW_MEMORY;
    result r = run(ctx, build_chain, &o);
    assert_int_equal(plain.info.arena_bytes, 6 * B);
    assert_int_equal(r.info.arena_bytes, 5 * B);
    assert_int_equal(r.info.recomputed_steps, 3);
    assert_int_equal(r.info.steps, plain.info.steps);
    assert_memory_equal(&r.value, &plain.value, sizeof r.value);
    neap_context_free(ctx);
}

/* A cached plan with values made again finds the values and states of the next graph. */
static void test_cached(void **state)
{
    (void)state;
    neap_context *ctx = open_context();
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    neap_eval_stats stats = NEAP_EVAL_STATS_INIT;
    float got[3];
    o.without = NEAP_PLAN_LOW_MEMORY | NEAP_PLAN_NO_FUSION;
    assert_int_equal(neap_context_plan_options(ctx, &o), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    neap_array *x = neap_array_over(NEAP_F32, 2, square_shape, input, NULL, NULL);
    for (int i = 0; i < 3; i++) { /* of 2 x at the second time: the plan of the first one */
        neap_array *own = i == 1 ? neap_add(x, x) : neap_contiguous(x);
        assert_int_equal(neap_eval(own), NEAP_OK);
        start_state(ctx, own);
        neap_context_eval_stats(ctx, &stats);
        const uint64_t hits = stats.plan_cache_hits;
        neap_array *root = with_state(own, false), *roots[2] = {root, effect};
        assert_int_equal(neap_eval_all(2, roots), NEAP_OK);
        neap_context_eval_stats(ctx, &stats);
        assert_int_equal(stats.plan_cache_hits, hits + (i > 0));
        assert_int_equal(neap_array_read(root, &got[i], sizeof got[i]), NEAP_OK);
        neap_state_free(kept);
    }
    assert_memory_equal(&got[0], &got[2], sizeof got[0]);
    assert_memory_not_equal(&got[0], &got[1], sizeof got[0]);
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

static void fail_each(unsigned without)
{
    neap_context *ctx = open_context();
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    neap_plan *plan;
    o.without = without;
    assert_int_equal(neap_context_plan_options(ctx, &o), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    neap_array *x = neap_array_over(NEAP_F32, 2, square_shape, input, NULL, NULL);
    neap_array *root = build_chain(x);
    assert_int_equal(neap_plan_make(ctx, 1, &root, 0, NULL, &plan), NEAP_OK);
    neap_plan_free(plan);
    neap_context_memory(ctx, &before);
    bool failed = true;
    for (int n = 1; failed; n++) {
        ctx->ledger.fail_countdown = n;
        neap_status status = neap_plan_make(ctx, 1, &root, 0, NULL, &plan);
        failed = ctx->ledger.fail_countdown == 0;
        ctx->ledger.fail_countdown = 0;
        assert_int_equal(status, failed ? NEAP_ENOMEM : NEAP_OK);
        neap_context_clear_error(ctx);
        if (!failed)
            neap_plan_free(plan);
        neap_context_memory(ctx, &after);
        assert_int_equal(after.active, before.active);
    }
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    fail_each(NEAP_PLAN_LOW_MEMORY | NEAP_PLAN_NO_FUSION);
    fail_each(NEAP_PLAN_LOW_MEMORY);
}

/* ---- random graphs ------------------------------------------------------------------------- */

static uint32_t random_state;

static uint32_t draw(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

/* Mostly large cheap values; some joined and summed again, some that are dear. */
static neap_array *draw_node(neap_array **a, int n)
{
    neap_array *x = a[draw((uint32_t)n)], *y = a[n - 1 - (int)draw(n < 4 ? (uint32_t)n : 4)];
    neap_array *parts[3] = {y, x, y};
    switch (draw(9)) {
    case 0:
        return neap_add(x, y);
    case 1:
        return neap_sub(y, x);
    case 2:
        return neap_relu(y);
    case 3:
        return neap_mul(neap_transpose(x, NULL), y);
    case 4:
        return neap_add(x, neap_sum_all(neap_concat(3, parts, (int)draw(2))));
    case 5:
        return neap_sort(y, 1);
    case 6:
        return neap_reshape(neap_neg(neap_reshape(x, 1, flat_shape)), 2, square_shape);
    case 7:
        return neap_maximum(x, neap_cast(neap_arange(0, SIDE, 1, NEAP_I32), NEAP_F32));
    default:
        return neap_mul(y, neap_mean(x, 1, NEAP_KEEPDIMS));
    }
}

static neap_array *build_drawn(neap_array *x)
{
    const uint32_t seed = random_state;
    neap_array *a[NODES];
    int n = 12 + (int)draw(NODES - 12);
    a[0] = x;
    for (int i = 1; i < n; i++)
        a[i] = draw_node(a, i);
    random_state = seed; /* the same graph again next time */
    return neap_sum_all(neap_add(a[n - 1], neap_add(a[n / 2], a[n - 2])));
}

static void test_random_graphs(void **state)
{
    (void)state;
    int single = 0, fused = 0;
    for (uint32_t seed = 1; seed <= GRAPHS; seed++) {
        neap_context *ctx = open_context();
        neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
        random_state = seed * 7919;
        result r[4];
        for (int i = 0; i < 4; i++) {
            o.without = NEAP_PLAN_LOW_MEMORY | (i & 1 ? 0 : NEAP_PLAN_NO_RECOMPUTE) |
                        (i & 2 ? 0 : NEAP_PLAN_NO_FUSION);
            r[i] = run(ctx, build_drawn, &o);
            if (memcmp(&r[i].value, &r[0].value, sizeof r[i].value) != 0)
                fail_msg("seed %u: %g is %g with setting %d", seed, r[0].value, r[i].value, i);
        }
        assert_true(r[1].info.peak_bytes <= r[0].info.peak_bytes);
        assert_true(r[3].info.peak_bytes <= r[2].info.peak_bytes);
        assert_true(r[3].info.peak_bytes <= r[1].info.peak_bytes);
        assert_int_equal(r[1].info.recomputed_steps > 0,
                         r[1].info.peak_bytes < r[0].info.peak_bytes);
        single += r[1].info.recomputed_steps > 0;
        fused += r[3].info.recomputed_steps > 0;
        neap_context_free(ctx);
    }
    assert_true(single >= GRAPHS / 5);
    assert_true(fused >= GRAPHS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),      cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_two_peaks), cmocka_unit_test(test_states),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_root),      cmocka_unit_test(test_budget),
        cmocka_unit_test(test_fused),     cmocka_unit_test(test_cached),
        cmocka_unit_test(test_failing_allocations), cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
