/* test_eval.c - evaluation, states, effects, plans as objects, the cache, budgets, deep graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "array/array.h"
#include "neap/ops.h"
#include "neap/plan.h"

static neap_context *open_context(uint64_t limit, int threads)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.memory_limit = limit;
    o.threads = threads;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    return ctx;
}

static void close_context(neap_context *ctx)
{
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

static neap_array *vec(int64_t n, const float *v)
{
    return neap_array_from(NEAP_F32, 1, &n, v);
}

static void assert_values(neap_array *a, int n, const float *want)
{
    float got[64];
    assert_non_null(a);
    assert_int_equal(neap_array_read(a, got, (uint64_t)n * sizeof *got), NEAP_OK);
    for (int i = 0; i < n; i++)
        assert_float_equal(got[i], want[i], 0);
}

static void test_roots_become_values_others_stay_nodes(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 2);
    const float x[3] = {1, 2, 3};
    neap_array *a = vec(3, x), *b = neap_add(a, a), *c = neap_mul(b, b);
    assert_int_equal(neap_eval(c), NEAP_OK);
    assert_true(neap_array_is_value(c));
    assert_false(neap_array_is_value(b));
    assert_values(c, 3, (const float[]){4, 16, 36});
    assert_int_equal(neap_eval(b), NEAP_OK); /* runs again */
    assert_values(b, 3, (const float[]){2, 4, 6});
    close_context(ctx);
}

/* A root that is a view, a root named twice, and two roots that compute the same. */
static void test_roots_that_share(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    const float x[4] = {1, 2, 3, 4};
    const int64_t shape[2] = {2, 2};
    neap_array *a = vec(4, x), *s = neap_square(a), *t = neap_square(a);
    neap_array *v = neap_transpose(neap_reshape(s, 2, shape), NULL);
    neap_array *roots[4] = {v, s, s, t};
    assert_int_equal(neap_eval_all(4, roots), NEAP_OK);
    assert_values(v, 4, (const float[]){1, 9, 4, 16});
    assert_values(s, 4, (const float[]){1, 4, 9, 16});
    assert_values(t, 4, (const float[]){1, 4, 9, 16});
    close_context(ctx);
}

static void test_null_passes_through_to_the_one_check(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    const float x[3] = {1, 2, 3};
    const int64_t bad[1] = {5};
    neap_array *y = neap_exp(neap_add(neap_reshape(vec(3, x), 1, bad), vec(3, x)));
    assert_null(y);
    assert_int_equal(neap_eval(y), NEAP_ESHAPE);
    assert_non_null(strstr(neap_context_error(ctx), "reshape"));
    assert_int_equal(neap_context_status(ctx), NEAP_OK); /* and the context goes on */
    y = neap_add(vec(3, x), vec(3, x));
    assert_int_equal(neap_eval(y), NEAP_OK);
    close_context(ctx);
    assert_int_equal(neap_eval(neap_exp(NULL)), NEAP_ENOCONTEXT);
}

/* ---- states -----------------------------------------------------------------------------------
 */

static neap_state *new_state(neap_context *ctx, int64_t n)
{
    neap_state *s;
    assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 1, &n, &s), NEAP_OK);
    return s;
}

static void test_writes_run_in_program_order(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    neap_state *s = new_state(ctx, 4);
    const float one[4] = {1, 1, 1, 1}, two[2] = {7, 8};
    neap_array *before = neap_state_read(s);
    neap_state_write(neap_state_read(s), vec(4, one));
    neap_array *between = neap_state_read(s);
    neap_state_write(neap_narrow(neap_state_read(s), 0, 1, 3), vec(2, two));
    neap_array *after = neap_state_read(s);
    neap_array *sum = neap_add(neap_add(before, before), neap_add(between, after));
    assert_int_equal(neap_eval(sum), NEAP_OK);
    assert_values(sum, 4, (const float[]){2, 8, 9, 2});
    neap_array *again = neap_state_read(s);
    assert_int_equal(neap_eval(again), NEAP_OK);
    assert_values(again, 4, (const float[]){1, 7, 8, 1});
    neap_state_free(s);
    close_context(ctx);
}

/* A root read before a later write of the same evaluation keeps the old contents. */
static void test_root_reads_outlive_writes(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    neap_state *s = new_state(ctx, 2);
    neap_array *old = neap_state_read(s);
    neap_array *write = neap_state_write(neap_state_read(s), vec(2, (const float[]){5, 6}));
    neap_array *both[2] = {write, old};
    assert_int_equal(neap_eval_all(2, both), NEAP_OK);
    assert_values(old, 2, (const float[]){0, 0});
    neap_state_free(s);
    close_context(ctx);
}

static void test_stale_reads_are_refused(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    neap_state *s = new_state(ctx, 2);
    neap_array *old = neap_exp(neap_state_read(s));
    neap_state_write(neap_state_read(s), vec(2, (const float[]){5, 6}));
    assert_int_equal(neap_state_flush(s), NEAP_OK);
    assert_int_equal(neap_eval(old), NEAP_ESTALE);
    assert_non_null(strstr(neap_context_error(ctx), "state s"));
    neap_array *now = neap_state_read(s);
    assert_int_equal(neap_eval(now), NEAP_OK);
    assert_values(now, 2, (const float[]){5, 6});
    neap_state_free(s);
    close_context(ctx);
}

/* cases/numerics.md B2: a step that fails leaves other roots nodes; the context and they can go on.
 */
static void test_failed_evaluation(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    const float x[3] = {1, 2, 3};
    const int32_t bad[1] = {9}, good[1] = {2};
    const int64_t one = 1;
    neap_array *a = vec(3, x), *plus = neap_add(a, a), *times = neap_mul(a, a);
    neap_array *fails = neap_take(a, neap_array_from(NEAP_I32, 1, &one, bad), 0);
    neap_array *roots[3] = {plus, fails, times};
    assert_int_equal(neap_eval_all(3, roots), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "9"));
    assert_false(neap_array_is_value(plus));
    neap_array *rest[2] = {plus, times};
    assert_int_equal(neap_eval_all(2, rest), NEAP_OK);
    assert_values(plus, 3, (const float[]){2, 4, 6});
    assert_values(times, 3, (const float[]){1, 4, 9});

    neap_state *s = new_state(ctx, 3);
    neap_array *w = neap_state_write(neap_state_read(s), a);
    neap_array *late =
        neap_add(neap_state_read(s), neap_take(a, neap_array_from(NEAP_I32, 1, &one, bad), 0));
    (void)w;
    assert_int_equal(neap_eval(late), NEAP_EINVAL);
    neap_array *read =
        neap_add(neap_state_read(s), neap_take(a, neap_array_from(NEAP_I32, 1, &one, good), 0));
    assert_int_equal(neap_eval(read), NEAP_EPOISONED);
    assert_int_equal(neap_state_reset(s), NEAP_OK);
    read = neap_state_read(s);
    assert_int_equal(neap_eval(read), NEAP_OK);
    assert_values(read, 3, (const float[]){0, 0, 0});
    neap_state_free(s);
    close_context(ctx);
}

/* ---- plans ------------------------------------------------------------------------------------
 */

/* y = state[from : from + rows] * 2, then state[at : at + rows] = x, with all three set at run
 * time. Only a write may name rows that can lie behind the end. */
static void test_plan_with_parameters(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 2);
    neap_state *s = new_state(ctx, 8);
    neap_param *at, *rows, *from;
    assert_int_equal(neap_param_new(ctx, "at", 8, &at), NEAP_OK);
    assert_int_equal(neap_param_new(ctx, "from", 4, &from), NEAP_OK);
    assert_int_equal(neap_param_new(ctx, "rows", 4, &rows), NEAP_OK);
    const int64_t four = 4;
    neap_array *x = neap_retain(neap_array_zeros(NEAP_F32, 1, &four));
    neap_array *room = neap_limit(neap_narrow_at(neap_state_read(s), 0, at, 0, 4), 0, rows);
    neap_array *seen = neap_limit(neap_narrow_at(neap_state_read(s), 0, from, 0, 4), 0, rows);
    neap_array *twice = neap_add(seen, seen);
    neap_array *write = neap_state_write(room, neap_limit(x, 0, rows));
    neap_array *roots[2] = {twice, write};
    neap_param *params[3] = {at, rows, from};
    neap_plan *plan;
    assert_int_equal(neap_plan_make(ctx, 2, roots, 3, params, &plan), NEAP_OK);

    float *px = neap_array_mutable(x);
    for (int i = 0; i < 4; i++)
        px[i] = (float)i + 1;
    assert_int_equal(neap_plan_run(plan, (const int64_t[]){2, 3, 2}),
                     NEAP_OK); /* s = 0 0 1 2 3 0 0 0 */
    px[0] = 50;
    assert_int_equal(neap_plan_run(plan, (const int64_t[]){4, 4, 4}),
                     NEAP_OK); /* s = 0 0 1 2 50 2 3 4 */
    const float *y = neap_array_data(neap_plan_output(plan, 0));
    assert_float_equal(y[0], 6, 0);
    assert_float_equal(y[1], 0, 0);
    assert_int_equal(neap_plan_run(plan, (const int64_t[]){7, 1, 0}), NEAP_OK); /* the last place */
    assert_int_equal(neap_plan_run(plan, (const int64_t[]){7, 2, 0}), NEAP_ELIMIT);
    neap_context_clear_error(ctx);
    assert_int_equal(neap_plan_run(plan, (const int64_t[]){0, 5, 0}), NEAP_EINVAL); /* over max */
    neap_context_clear_error(ctx);
    neap_array *now = neap_state_read(s);
    assert_int_equal(neap_eval(now), NEAP_OK);
    assert_values(now, 8, (const float[]){0, 0, 1, 2, 50, 2, 3, 50});
    neap_plan_free(plan);
    neap_release(x);
    neap_state_free(s);
    neap_param_free(at);
    neap_param_free(from);
    neap_param_free(rows);
    close_context(ctx);
}

/* Writes that nothing evaluates: at most one more is refused, and those there are can be run. */
typedef struct endless {
    int states;
    int64_t size; /* elements of a state and of each value */
    bool append, child;
} endless;

/* 5,000 writes of 1, 2, 3 ... to the states in turn; what is refused is written again after a flush. */
static void write_without_end(const endless *e)
{
    neap_context *parent = open_context(8 << 20, 1), *ctx = parent;
    if (e->child) {
        assert_int_equal(neap_context_new_child(parent, NULL, &ctx), NEAP_OK);
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    }
    neap_state *s[4];
    int refused = 0;
    for (int i = 0; i < e->states; i++)
        s[i] = new_state(ctx, e->size);
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        neap_state *at = s[i % e->states];
        for (int attempt = 0;; attempt++) {
            neap_array *target = neap_state_read(at);
            neap_array *value = neap_add(neap_array_zeros(NEAP_F32, 1, &e->size),
                                         neap_scalar(NEAP_F32, i + 1));
            if (e->append ? neap_state_append(target, value) : neap_state_write(target, value))
                break;
            assert_int_equal(attempt, 0);
            refused++;
            assert_int_equal(neap_context_status(ctx), NEAP_ENOMEM);
            neap_context_clear_error(ctx);
            neap_scope_pop(ctx);
            for (int k = 0; k < e->states; k++)
                if (neap_state_flush(s[k]) != NEAP_OK)
                    fail_msg("write %d: %s", i, neap_context_error(ctx));
            assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        }
        neap_scope_pop(ctx);
    }
    assert_true(refused > 0); /* or the limit is no limit */
    for (int i = 0; i < e->states; i++) {
        assert_int_equal(neap_state_flush(s[i]), NEAP_OK);
        neap_array *now = neap_state_read(s[i]);
        assert_int_equal(neap_eval(now), NEAP_OK);
        const float *v = neap_array_data(now);
        assert_float_equal(v[0], 5000 - e->states + i + 1, 0);
        assert_float_equal(v[e->size - 1], v[0], 0);
        neap_state_free(s[i]);
    }
    if (e->child)
        close_context(ctx);
    close_context(parent);
}

static void test_writes_without_end(void **state)
{
    (void)state;
    static const endless all[] = {{.states = 1, .size = 4},
                                  {.states = 1, .size = 4, .append = true},
                                  {.states = 4, .size = 16},
                                  {.states = 1, .size = 4096},
                                  {.states = 2, .size = 64, .child = true}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        write_without_end(&all[i]);
}

/* The extents of outputs are those of the run. */
static void test_outputs_have_the_shape_of_the_run(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    neap_param *rows, *columns;
    const int64_t shape[2] = {3, 4};
    assert_int_equal(neap_param_new(ctx, "rows", 3, &rows), NEAP_OK);
    assert_int_equal(neap_param_new(ctx, "columns", 4, &columns), NEAP_OK);
    neap_array *x = neap_reshape(neap_arange(0, 12, 1, NEAP_F32), 2, shape);
    neap_array *roots[3] = {neap_add(neap_limit(x, 0, rows), neap_scalar(NEAP_F32, 1)),
                            neap_add(neap_limit(x, 1, columns), neap_scalar(NEAP_F32, 1)), neap_exp(x)};
    neap_param *params[2] = {rows, columns};
    neap_plan *plan;
    assert_int_equal(neap_plan_make(ctx, 3, roots, 2, params, &plan), NEAP_OK);
    for (int64_t n = 3; n >= 0; n--) {
        float got[12];
        assert_int_equal(neap_plan_run(plan, (const int64_t[]){n, n}), NEAP_OK);
        const neap_array *a = neap_plan_output(plan, 0), *b = neap_plan_output(plan, 1);
        assert_int_equal(neap_array_shape(a)[0], n);
        assert_int_equal(neap_array_shape(a)[1], 4);
        assert_int_equal(neap_array_shape(b)[0], 3);
        assert_int_equal(neap_array_shape(b)[1], n);
        assert_int_equal(neap_array_size(neap_plan_output(plan, 2)), 12);
        assert_int_equal(neap_array_bytes(a), 16 * n);
        assert_int_equal(neap_array_read(a, got, (uint64_t)(16 * n)), NEAP_OK);
        for (int i = 0; i < 4 * n; i++)
            assert_float_equal(got[i], i + 1, 0);
        assert_int_equal(neap_array_read(b, got, (uint64_t)(12 * n)), NEAP_OK);
        for (int i = 0; i < 3 * n; i++)
            assert_float_equal(got[i], (float)(i / n * 4 + i % n + 1), 0);
    }
    assert_int_equal(neap_plan_run(plan, (const int64_t[]){2, 3}), NEAP_OK); /* and larger again */
    assert_int_equal(neap_array_size(neap_plan_output(plan, 0)), 8);
    neap_plan_free(plan);
    neap_param_free(rows);
    neap_param_free(columns);
    close_context(ctx);
}

static neap_eval_stats stats_of(const neap_context *ctx)
{
    neap_eval_stats st = NEAP_EVAL_STATS_INIT;
    neap_context_eval_stats(ctx, &st);
    return st;
}

/* x[p] + x[q] (views that two parameters move), over the first rows of x (an extent). */
static neap_array *indexed(neap_array *x, neap_param *p, neap_param *q, neap_param *rows)
{
    neap_array *sum = neap_add(neap_narrow_at(x, 0, p, 0, 1), neap_narrow_at(x, 0, q, 0, 1));
    return rows ? neap_add(sum, neap_sum(neap_limit(x, 0, rows), 0, NEAP_KEEPDIMS)) : sum;
}

static void test_cache_serves_graphs_with_parameters(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    neap_param *p[3], *wide;
    for (int i = 0; i < 3; i++)
        assert_int_equal(neap_param_new(ctx, "p", 7, &p[i]), NEAP_OK);
    assert_int_equal(neap_param_new(ctx, "wide", 6, &wide), NEAP_OK);
    const int64_t eight = 8;
    neap_array *x = neap_retain(neap_array_zeros(NEAP_F32, 1, &eight));
    float *v = neap_array_mutable(x);
    for (int i = 0; i < 8; i++)
        v[i] = (float)(1 << i);
    for (int i = 0; i < 200; i++) { /* two parameters, which change places */
        neap_scope_push(ctx);
        neap_param *a = p[i % 3], *b = p[(i + 1) % 3];
        neap_param_set(a, i % 8);
        neap_param_set(b, i % 5);
        neap_array *y = indexed(x, a, b, NULL);
        assert_int_equal(neap_eval(y), NEAP_OK);
        assert_float_equal(*(const float *)neap_array_data(y), (1 << i % 8) + (1 << i % 5), 0);
        neap_scope_pop(ctx);
    }
    assert_int_equal(stats_of(ctx).plans, 1);
    assert_int_equal(stats_of(ctx).plan_cache_hits, 199);
    assert_int_equal(stats_of(ctx).runs, 200);
    assert_true(stats_of(ctx).steps >= 200);
    for (int i = 0; i < 8; i++) { /* an extent */
        neap_scope_push(ctx);
        neap_param_set(p[0], 1);
        neap_param_set(p[1], 2);
        neap_param_set(p[2], i);
        neap_array *y = indexed(x, p[0], p[1], p[2]);
        assert_int_equal(neap_eval(y), NEAP_OK);
        assert_float_equal(*(const float *)neap_array_data(y), 6 + (1 << i) - 1, 0);
        neap_scope_pop(ctx);
    }
    assert_int_equal(stats_of(ctx).plans, 2);
    /* one parameter twice, and one of another range, are other structures */
    neap_param_set(p[0], 3);
    neap_param_set(wide, 5);
    neap_array *twice = indexed(x, p[0], p[0], NULL), *other = indexed(x, p[0], wide, NULL);
    assert_int_equal(neap_eval(twice), NEAP_OK);
    assert_float_equal(*(const float *)neap_array_data(twice), 16, 0);
    assert_int_equal(neap_eval(other), NEAP_OK);
    assert_float_equal(*(const float *)neap_array_data(other), 40, 0);
    assert_int_equal(stats_of(ctx).plans, 4);
    neap_release(x);
    for (int i = 0; i < 3; i++)
        neap_param_free(p[i]);
    neap_param_free(wide);
    close_context(ctx);
}

static void test_cache_serves_large_graphs(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    for (int i = 0; i < 3; i++) {
        neap_scope_push(ctx);
        const float one[1] = {(float)i};
        neap_array *y = vec(1, one), *step = vec(1, (const float[]){1});
        for (int k = 0; k < 6000; k++)
            y = neap_add(y, step);
        assert_int_equal(neap_eval(y), NEAP_OK);
        assert_values(y, 1, (const float[]){(float)(6000 + i)});
        neap_scope_pop(ctx);
    }
    assert_int_equal(stats_of(ctx).plans, 1);
    assert_int_equal(stats_of(ctx).plan_cache_hits, 2);
    close_context(ctx);
}

static void test_cache_serves_equal_graphs(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    for (int i = 0; i < 5; i++) {
        neap_scope_push(ctx);
        const float x[3] = {(float)i, 2, 3}, y[3] = {1, (float)i, 1};
        neap_array *r = neap_add(neap_mul(vec(3, x), vec(3, y)), vec(3, x));
        assert_int_equal(neap_eval(r), NEAP_OK);
        assert_values(r, 3, (const float[]){(float)(2 * i), (float)(2 * i + 2), 6});
        neap_scope_pop(ctx);
    }
    neap_eval_stats st = NEAP_EVAL_STATS_INIT;
    neap_context_eval_stats(ctx, &st);
    assert_int_equal(st.plans, 1);
    assert_int_equal(st.plan_cache_hits, 4);
    close_context(ctx);
}

/* A child plans as its parent says from then on, also what it has planned before. */
static void test_cache_after_other_options(void **state)
{
    (void)state;
    neap_context *parent = open_context(0, 1), *child;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    assert_int_equal(neap_context_new_child(parent, &o, &child), NEAP_OK);
    for (uint64_t plans = 1; plans <= 3; plans++) {
        neap_plan_options how = NEAP_PLAN_OPTIONS_INIT;
        how.without = plans == 2 ? NEAP_PLAN_NO_FUSION : 0;
        how.max_fusion_size = plans == 3 ? 2 : 64;
        assert_int_equal(neap_context_plan_options(parent, &how), NEAP_OK);
        for (int i = 0; i < 2; i++) {
            neap_scope_push(child);
            assert_int_equal(neap_eval(neap_square(vec(2, (const float[]){2, 3}))), NEAP_OK);
            neap_scope_pop(child);
        }
        neap_eval_stats st = NEAP_EVAL_STATS_INIT;
        neap_context_eval_stats(child, &st);
        assert_int_equal(st.plans, plans);
        assert_int_equal(st.plan_cache_hits, plans);
    }
    neap_context_free(child);
    close_context(parent);
}

/* x*x*…: every step may overwrite its input, so the arena holds one array however long the chain.
 */
static void test_chain_runs_in_place(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    const int64_t n = 1 << 20;
    neap_array *x = neap_array_zeros(NEAP_F32, 1, &n), *y = neap_exp(x);
    for (int i = 0; i < 20; i++)
        y = neap_silu(y);
    neap_array *r = neap_sum(y, 0, 0);
    neap_plan *p;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    assert_int_equal(neap_plan_make(ctx, 1, &r, 0, NULL, &p), NEAP_OK);
    neap_plan_describe(p, &info);
    assert_true(info.arena_bytes <= (4u << 20) + 4096);
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    neap_context_trim(ctx);
    neap_context_memory(ctx, &before);
    assert_int_equal(neap_plan_run(p, NULL), NEAP_OK);
    neap_context_memory(ctx, &after);
    assert_int_equal(after.peak, before.active + before.cached + info.peak_bytes);
    neap_plan_free(p);
    close_context(ctx);
}

/* cases/planner.md A1: a long chain in a small budget, flat in the number of steps. */
static void test_long_chain_in_a_budget(void **state)
{
    (void)state;
    uint64_t peak[2];
    for (int k = 0; k < 2; k++) {
        neap_context *ctx = open_context(24u << 20, 1);
        const int64_t shape[2] = {256, 1024};
        neap_array *y = neap_array_zeros(NEAP_F32, 2, shape);
        neap_array *w = neap_array_zeros(NEAP_F32, 2, (const int64_t[]){1024, 1024});
        for (int64_t i = 0; i < 1024; i++)
            ((float *)neap_array_mutable(w))[i * 1024 + i] = 2;
        for (int64_t i = 0; i < 256 * 1024; i++)
            ((float *)neap_array_mutable(y))[i] = 1;
        for (int i = 0; i < (k ? 50 : 5); i++)
            y = neap_rms_norm(neap_relu(neap_matmul(y, w)), NULL, 1e-6f);
        assert_int_equal(neap_eval(y), NEAP_OK);
        assert_float_equal(((const float *)neap_array_data(y))[12345], 1, 1e-5);
        neap_memory_info m = NEAP_MEMORY_INFO_INIT;
        neap_context_memory(ctx, &m);
        peak[k] = m.peak;
        assert_true(m.peak <= 24u << 20);
        close_context(ctx);
    }
    assert_true(peak[1] <= peak[0] + (1u << 20)); /* nodes and plan grow, arrays do not */
}

static void test_refusal_names_the_least(void **state)
{
    (void)state;
    neap_context *ctx = open_context(4u << 20, 1);
    const int64_t n = 1 << 20;
    neap_array *r = neap_broadcast_to(neap_array_zeros(NEAP_F32, 0, NULL), 1, &n);
    neap_array *y = neap_sum(neap_exp(r), 0, 0);
    assert_int_equal(neap_eval(y), NEAP_ENOMEM);
    assert_non_null(strstr(neap_context_error(ctx), "needs at least"));
    assert_non_null(strstr(neap_context_error(ctx), "4194304"));
    const float x[2] = {1, 2};
    neap_array *z = neap_add(vec(2, x), vec(2, x)); /* the context can be used */
    assert_int_equal(neap_eval(z), NEAP_OK);
    close_context(ctx);
}

/* ---- deep graphs: cases/numerics.md B1 ----------------------------------------------------------
 */

enum { DEEP = 100000 };

static void *deep_graphs(void *arg)
{
    neap_context *ctx = open_context(0, 1);
    const float one[2] = {1, 1};
    for (int run = 0; run < 2; run++) {
        neap_scope_push(ctx);
        neap_array *x = vec(2, one), *inc = vec(2, one);
        for (int i = 0; i < DEEP; i++)
            x = neap_add(x, inc);
        if (run) {
            assert_int_equal(neap_eval(x), NEAP_OK);
            assert_values(x, 2, (const float[]){DEEP + 1, DEEP + 1});
        }
        neap_scope_pop(ctx);
        neap_scope_push(ctx);
        x = vec(2, (const float[]){3, 4});
        for (int i = 0; i < DEEP; i++) {
            neap_array *part[2];
            assert_int_equal(neap_split(x, 2, 0, part), NEAP_OK);
            neap_array *swapped[2] = {part[1], part[0]};
            x = neap_concat(2, swapped, 0);
        }
        if (run) {
            assert_int_equal(neap_eval(x), NEAP_OK);
            assert_values(x, 2, (const float[]){3, 4});
        }
        neap_scope_pop(ctx);
    }
    close_context(ctx);
    return arg;
}

static void test_deep_graphs_on_a_small_stack(void **state)
{
    (void)state;
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512 * 1024);
    assert_int_equal(pthread_create(&thread, &attr, deep_graphs, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}

/* ---- failing allocations
 * -------------------------------------------------------------------------- */

static neap_status small_program(neap_context *ctx)
{
    neap_context_clear_error(ctx);
    neap_status status = neap_scope_push(ctx);
    if (status != NEAP_OK)
        return status;
    const float x[3] = {1, 2, 3};
    const int64_t n = 3;
    neap_state *s;
    status = neap_state_new(ctx, "s", NEAP_F32, 1, &n, &s);
    if (status == NEAP_OK) {
        neap_array *a = vec(3, x);
        neap_state_write(neap_state_read(s), neap_mul(a, a));
        neap_array *r = neap_add(neap_state_read(s), neap_exp(a));
        status = r ? neap_eval(r) : neap_context_status(ctx);
        neap_state_free(s);
    }
    neap_scope_pop(ctx);
    return status;
}

static void test_every_failing_allocation(void **state)
{
    (void)state;
    int n = 1;
    for (;; n++) {
        neap_context *ctx;
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        o.fail_allocation = n;
        if (neap_context_new(&o, &ctx) != NEAP_OK)
            continue;
        neap_status status = small_program(ctx);
        assert_true(status == NEAP_OK || status == NEAP_ENOMEM);
        if (status == NEAP_ENOMEM) /* and it can be tried again */
            assert_int_equal(small_program(ctx), NEAP_OK);
        neap_context_free(ctx);
        if (status == NEAP_OK)
            break;
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roots_become_values_others_stay_nodes),
        cmocka_unit_test(test_roots_that_share),
        cmocka_unit_test(test_null_passes_through_to_the_one_check),
        cmocka_unit_test(test_writes_run_in_program_order),
        cmocka_unit_test(test_root_reads_outlive_writes),
        cmocka_unit_test(test_stale_reads_are_refused),
        cmocka_unit_test(test_failed_evaluation),
        cmocka_unit_test(test_plan_with_parameters),
        cmocka_unit_test(test_writes_without_end),
        cmocka_unit_test(test_outputs_have_the_shape_of_the_run),
        cmocka_unit_test(test_cache_serves_graphs_with_parameters),
        cmocka_unit_test(test_cache_serves_large_graphs),
        cmocka_unit_test(test_cache_serves_equal_graphs),
        cmocka_unit_test(test_cache_after_other_options),
        cmocka_unit_test(test_chain_runs_in_place),
        cmocka_unit_test(test_long_chain_in_a_budget),
        cmocka_unit_test(test_refusal_names_the_least),
        cmocka_unit_test(test_deep_graphs_on_a_small_stack),
        cmocka_unit_test(test_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
