/* test_plan_view.c - what neap_plan_values and neap_plan_steps tell: of graphs small enough to follow
 * by hand, and for larger ones what must hold of any plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "neap/ops.h"
#include "neap/plan.h"

enum { SIDE = 16, MATRIX = SIDE * SIDE * 4, MOST = 4000 };

typedef struct seen {
    neap_plan_value value[MOST];
    size_t n;
    uint64_t live[MOST];
    const char *name[MOST], *op[MOST];
    int64_t ops[MOST];
    double seconds; /* of all steps */
    int64_t rows, block_rows; /* of the last streamed one */
    size_t steps;
} seen;

static seen all; /* of the plan looked at last */

static bool take_value(void *user, const neap_plan_value *v)
{
    seen *s = user;
    assert_true(s->n < MOST);
    s->value[s->n++] = *v;
    return true;
}

static bool take_step(void *user, const neap_plan_step *step)
{
    seen *s = user;
    assert_true(s->steps < MOST);
    s->live[s->steps] = step->live_bytes;
    s->name[s->steps] = step->name;
    s->ops[s->steps] = step->ops;
    s->seconds += step->predicted_seconds;
    s->rows = step->block_rows ? step->rows : s->rows;
    s->block_rows = step->block_rows ? step->block_rows : s->block_rows;
    s->op[s->steps++] = step->op;
    return true;
}

static bool in_arena(const neap_plan_value *v)
{
    return v->kind == NEAP_PLAN_ACTIVATION || v->kind == NEAP_PLAN_SCRATCH;
}

/* What holds of every plan: values come by first steps and end within the plan, add up to the live
 * bytes, lie apart inside the arena, and the peak is the largest of the live bytes. */
static void check_consistent(const neap_plan_info *info)
{
    uint64_t most = 0;
    assert_int_equal(all.steps, info->steps);
    for (size_t i = 0; i < all.n; i++) {
        const neap_plan_value *v = &all.value[i];
        assert_true(v->first <= v->last && v->last < info->steps && v->bytes > 0);
        assert_true(i == 0 || all.value[i - 1].first <= v->first);
        assert_true(!in_arena(v) || v->offset + v->bytes <= info->arena_bytes);
        for (size_t j = 0; j < i; j++) {
            const neap_plan_value *w = &all.value[j];
            if (in_arena(v) && in_arena(w) && w->last >= v->first && v->last >= w->first)
                assert_true(v->offset + v->bytes <= w->offset || w->offset + w->bytes <= v->offset);
        }
    }
    for (size_t s = 0; s < all.steps; s++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < all.n; i++)
            if (in_arena(&all.value[i]) && all.value[i].first <= (int64_t)s &&
                all.value[i].last >= (int64_t)s)
                sum += all.value[i].bytes;
        assert_int_equal(sum, all.live[s]);
        most = sum > most ? sum : most;
    }
    assert_int_equal(most, info->largest_live_bytes);
    if (all.steps)
        assert_int_equal(all.live[info->peak_step], most);
    assert_true(fabs(all.seconds - info->predicted_seconds) <= 1e-5 * info->predicted_seconds);
}

static neap_plan *look(neap_context *ctx, int n, neap_array *const *roots)
{
    neap_plan *plan;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    all.n = all.steps = 0;
    all.seconds = 0;
    assert_int_equal(neap_plan_make(ctx, n, roots, 0, NULL, &plan), NEAP_OK);
    neap_plan_describe(plan, &info);
    assert_int_equal(neap_plan_values(plan, take_value, &all), NEAP_OK);
    assert_int_equal(neap_plan_steps(plan, take_step, &all), NEAP_OK);
    check_consistent(&info);
    return plan;
}

/* Each op a step, in program order: lifetimes can be told by hand. */
static neap_context *new_context(bool plain)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_plan_options p = NEAP_PLAN_OPTIONS_INIT;
    o.threads = 1;
    p.without = NEAP_PLAN_NO_FUSION | NEAP_PLAN_NO_SIDEWAYS | NEAP_PLAN_NO_ORDER |
                NEAP_PLAN_NO_STREAMING | NEAP_PLAN_NO_RECOMPUTE;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    if (plain)
        assert_int_equal(neap_context_plan_options(ctx, &p), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    return ctx;
}

static neap_array *matrix(const char *name)
{
    const int64_t shape[2] = {SIDE, SIDE};
    neap_array *a = neap_array_zeros(NEAP_F32, 2, shape);
    neap_array_set_name(a, name);
    return a;
}

static void finish(neap_context *ctx, neap_plan *plan)
{
    neap_plan_free(plan);
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

/* The i-th value that is no scratch. */
static const neap_plan_value *value(size_t i)
{
    for (size_t k = 0; k < all.n; k++)
        if (all.value[k].kind != NEAP_PLAN_SCRATCH && i-- == 0)
            return &all.value[k];
    fail_msg("too few values");
    return NULL;
}

static void expect(size_t i, const char *name, neap_plan_kind kind, int64_t first, int64_t last,
                   uint64_t bytes)
{
    const neap_plan_value *v = value(i);
    assert_string_equal(v->name, name);
    assert_int_equal(v->kind, kind);
    assert_int_equal(v->first, first);
    assert_int_equal(v->last, last);
    assert_int_equal(v->bytes, bytes);
}

/* step 0: a = x y, needed to the end; 1: b = a y, gone before the result is made, so it lies in the
 * result's block; 2: c = b y; 3: the result = c a. */
static void test_lifetimes(void **state)
{
    (void)state;
    neap_context *ctx = new_context(true);
    neap_array *x = matrix("x"), *y = matrix("weight");
    neap_array *a = neap_matmul(x, y), *b = neap_matmul(a, y), *c = neap_matmul(b, y);
    neap_array *root = neap_matmul(c, a);
    neap_array_set_name(root, "root");
    neap_plan *plan = look(ctx, 1, &root);
    assert_int_equal(all.steps, 4);
    expect(0, "x", NEAP_PLAN_ACTIVATION, 0, 3, MATRIX);
    expect(1, "weight", NEAP_PLAN_HOSTED, 1, 2, MATRIX);
    expect(2, "weight", NEAP_PLAN_ACTIVATION, 2, 3, MATRIX);
    expect(3, "root", NEAP_PLAN_RESULT, 3, 3, MATRIX);
    assert_int_equal(value(1)->offset, 0);
    assert_int_equal(value(2)->rank, 2);
    assert_int_equal(value(2)->shape[1], SIDE);
    assert_int_equal(value(2)->dtype, NEAP_F32);
    assert_string_equal(all.name[3], "root");
    assert_string_equal(all.op[3], "matmul");
    finish(ctx, plan);
}

/* What is joined is one result, not its parts. */
static void test_joined(void **state)
{
    (void)state;
    neap_context *ctx = new_context(true);
    neap_array *x = matrix("x"), *y = matrix("weight");
    neap_array *parts[2] = {neap_matmul(x, y), neap_matmul(y, x)};
    neap_array *root = neap_concat(2, parts, 0);
    neap_array_set_name(root, "root");
    neap_plan *plan = look(ctx, 1, &root);
    size_t results = 0;
    for (size_t i = 0; i < all.n; i++)
        results += all.value[i].kind == NEAP_PLAN_RESULT;
    assert_int_equal(all.steps, 3);
    assert_int_equal(results, 1);
    expect(0, "root", NEAP_PLAN_RESULT, 2, 2, 2 * MATRIX);
    finish(ctx, plan);
}

/* exp overwrites its input: three values follow each other in one place. */
static void test_in_place(void **state)
{
    (void)state;
    neap_context *ctx = new_context(true);
    neap_array *a = neap_matmul(matrix("x"), matrix("y")), *b = neap_exp(a), *c = neap_exp(b);
    neap_array *root = neap_sum(neap_sum(c, 1, 0), 0, 0);
    neap_plan *plan = look(ctx, 1, &root);
    assert_int_equal(all.steps, 5);
    expect(0, "x", NEAP_PLAN_ACTIVATION, 0, 0, MATRIX);
    expect(1, "exp", NEAP_PLAN_ACTIVATION, 1, 1, MATRIX);
    expect(2, "exp", NEAP_PLAN_ACTIVATION, 2, 3, MATRIX);
    expect(3, "sum", NEAP_PLAN_ACTIVATION, 3, 4, 64); /* 16 floats */
    expect(4, "sum", NEAP_PLAN_RESULT, 4, 4, 4);
    assert_int_equal(value(0)->offset, value(1)->offset);
    assert_int_equal(value(1)->offset, value(2)->offset);
    assert_int_equal(all.live[1], MATRIX);
    finish(ctx, plan);
}

/* The same whatever the planner does, on a graph with views, in-place ops, reductions and several
 * results. */
static void test_consistent(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        neap_context *ctx = new_context(plain);
        neap_array *h = matrix("h"), *w = matrix("w"), *roots[3];
        for (int i = 0; i < 40; i++) {
            neap_array *n = neap_softmax(neap_matmul(h, i % 3 ? w : neap_transpose(w, NULL)), 1);
            neap_array *g = neap_mul(neap_silu(n), neap_exp(neap_sub(h, neap_max(n, 1, NEAP_KEEPDIMS))));
            roots[i % 3] = h = neap_add(h, i % 2 ? g : neap_transpose(g, NULL));
        }
        finish(ctx, look(ctx, 3, roots));
    }
}

/* exp and tanh become one step, whose two results the product reads: both are values of that step. */
static void test_group(void **state)
{
    (void)state;
    neap_context *ctx = new_context(false);
    enum { LONG = 1 << 20 }; /* so that tiles are worth their scratch */
    const int64_t shape[2] = {1, LONG / 4}, turned[2] = {LONG / 4, 1};
    neap_array *x = neap_array_zeros(NEAP_F32, 2, shape), *a = neap_exp(x), *b = neap_tanh(a);
    neap_array *root = neap_matmul(a, neap_reshape(b, 2, turned));
    neap_array_set_name(x, "x");
    neap_array_set_name(b, "b");
    neap_plan *plan = look(ctx, 1, &root);
    assert_int_equal(all.steps, 2);
    assert_int_equal(all.ops[0], 2);
    assert_string_equal(all.name[0], "b");
    assert_string_equal(all.op[0], "tanh");
    assert_int_equal(all.ops[1], 1);
    expect(0, "x", NEAP_PLAN_ACTIVATION, 0, 1, LONG);
    expect(1, "b", NEAP_PLAN_ACTIVATION, 0, 1, LONG);
    expect(2, "matmul", NEAP_PLAN_RESULT, 1, 1, 4);
    assert_string_equal(value(0)->op, "exp");
    assert_true(all.seconds > 0);
    finish(ctx, plan);
}

/* Two products after each other, of rows that do not need each other: the least memory is that of a
 * few rows at a time. */
static void test_streamed(void **state)
{
    (void)state;
    enum { ROWS = 2048, NARROW = 256, WIDE = 1024 }; /* weights too large to be read for a tile */
    neap_context *ctx = new_context(false);
    neap_plan_options low = NEAP_PLAN_OPTIONS_INIT;
    low.without = NEAP_PLAN_LOW_MEMORY;
    assert_int_equal(neap_context_plan_options(ctx, &low), NEAP_OK);
    const int64_t tall[2] = {ROWS, NARROW}, up[2] = {NARROW, WIDE}, down[2] = {WIDE, NARROW};
    neap_array *x = neap_array_zeros(NEAP_F32, 2, tall), *u = neap_array_zeros(NEAP_F32, 2, up);
    neap_array *d = neap_array_zeros(NEAP_F32, 2, down);
    neap_array *root = neap_matmul(neap_silu(neap_matmul(x, u)), d);
    neap_plan *plan = look(ctx, 1, &root);
    assert_int_equal(all.steps, 1);
    assert_int_equal(all.ops[0], 3);
    assert_int_equal(all.rows, ROWS);
    assert_true(all.block_rows > 0 && all.block_rows < ROWS);
    expect(0, "matmul", NEAP_PLAN_RESULT, 0, 0, ROWS * NARROW * 4);
    finish(ctx, plan);
}

static void test_empty(void **state)
{
    (void)state;
    neap_context *ctx = new_context(false);
    neap_plan *plan = look(ctx, 0, NULL);
    assert_int_equal(all.n, 0);
    assert_int_equal(all.steps, 0);
    neap_plan_free(plan);
    const int64_t none[2] = {0, SIDE};
    neap_array *root = neap_exp(neap_exp(neap_array_zeros(NEAP_F32, 2, none)));
    plan = look(ctx, 1, &root);
    assert_int_equal(all.n, 0);
    finish(ctx, plan);
}

static bool stop(void *user, const neap_plan_value *v)
{
    (void)v;
    return ++*(int *)user < 2;
}

static void test_stops_and_faults(void **state)
{
    (void)state;
    neap_context *ctx = new_context(true);
    neap_array *root = neap_exp(neap_matmul(neap_matmul(matrix("x"), matrix("y")), matrix("z")));
    neap_plan *plan = look(ctx, 1, &root);
    int count = 0;
    assert_int_equal(neap_plan_values(plan, stop, &count), NEAP_OK);
    assert_int_equal(count, 2);
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &before);
    for (int n = 1; n <= 2; n++) {
        ctx->ledger.fail_countdown = n;
        assert_int_equal(neap_plan_values(plan, take_value, &all), NEAP_ENOMEM);
    }
    ctx->ledger.fail_countdown = 1;
    assert_int_equal(neap_plan_steps(plan, take_step, &all), NEAP_ENOMEM);
    neap_context_memory(ctx, &after);
    assert_int_equal(after.active, before.active);
    finish(ctx, plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lifetimes),        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_consistent),       cmocka_unit_test(test_group),
        cmocka_unit_test(test_streamed),         cmocka_unit_test(test_empty),
        cmocka_unit_test(test_stops_and_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
