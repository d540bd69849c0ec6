/* test_plan.c - properties of plans on random graphs: one evaluation of everything (merged, in
 * place, placed in one arena) gives the bits of node-by-node evaluation, and the peak is what was
 * planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "neap/ops.h"
#include "neap/plan.h"

enum { ROWS = 6, COLUMNS = 10, NODES = 40, GRAPHS = 300 };

static uint32_t random_state;

static uint32_t next(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static neap_array *any(neap_array **a, int n)
{
    return a[next((uint32_t)n)];
}

/* Every result is [ROWS, COLUMNS], so that any two nodes can be combined. */
static neap_array *random_node(neap_array **a, int n)
{
    const int64_t whole[2] = {ROWS, COLUMNS}, flat[1] = {ROWS * COLUMNS},
                  flipped[2] = {COLUMNS, ROWS};
    neap_array *x = any(a, n), *y = any(a, n);
    switch (next(12)) {
    case 0:
        return neap_add(x, y);
    case 1:
        return neap_mul(x, y);
    case 2:
        return neap_tanh(x);
    case 3:
        return neap_sub(x, neap_mean(y, 1, NEAP_KEEPDIMS));
    case 4:
        return neap_maximum(neap_max(x, 0, NEAP_KEEPDIMS), y);
    case 5:
        return neap_reshape(neap_transpose(x, NULL), 2, whole);
    case 6: { /* every second column reversed: negative steps */
        const int64_t start[2] = {0, NEAP_END}, stop[2] = {NEAP_END, NEAP_END}, step[2] = {1, -1};
        return neap_slice(x, start, stop, step);
    }
    case 7:
        return neap_add(x, neap_transpose(neap_reshape(x, 2, flipped), NULL));
    case 8:
        return neap_softmax(x, 1);
    case 9: {
        const int64_t start[2] = {1, 2}, stop[2] = {3, 9}, step[2] = {1, 3};
        neap_array *part = neap_slice(y, start, stop, step);
        return neap_slice_update(x, part, start, stop, step);
    }
    case 10:
        return neap_reshape(neap_reshape(x, 1, flat), 2, whole);
    default: {
        neap_array *parts[2];
        if (neap_split(x, 2, 0, parts) != NEAP_OK)
            return NULL;
        neap_array *swapped[2] = {parts[1], parts[0]};
        return neap_concat(2, swapped, 0);
    }
    }
}

static int random_graph(uint32_t seed, neap_array **a)
{
    const int64_t shape[2] = {ROWS, COLUMNS};
    random_state = seed;
    for (int i = 0; i < 2; i++) {
        float v[ROWS * COLUMNS];
        for (int k = 0; k < ROWS * COLUMNS; k++)
            v[k] = (float)next(2001) / 1000.0f - 1.0f;
        a[i] = neap_array_from(NEAP_F32, 2, shape, v);
    }
    int n = 2 + (int)next(NODES - 2);
    for (int i = 2; i < n; i++) {
        a[i] = random_node(a, i);
        assert_non_null(a[i]);
    }
    return n;
}

static void compare(uint32_t seed, neap_context *ctx)
{
    neap_array *together[NODES], *apart[NODES];
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    int n = random_graph(seed, together);
    assert_int_equal(random_graph(seed, apart), n);
    for (int i = 2; i < n; i++)
        assert_int_equal(neap_eval(apart[i]), NEAP_OK);
    neap_array *roots[3] = {together[n - 1], together[n / 2], together[n - 1 - (int)(seed % 2)]};
    neap_array *twins[3] = {apart[n - 1], apart[n / 2], apart[n - 1 - (int)(seed % 2)]};

    neap_plan *plan;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    assert_int_equal(neap_plan_make(ctx, 3, roots, 0, NULL, &plan), NEAP_OK);
    neap_plan_describe(plan, &info);
    assert_true(info.arena_bytes >= info.largest_live_bytes);
    neap_context_trim(ctx);
    neap_context_memory(ctx, &before);
    assert_int_equal(neap_plan_run(plan, NULL), NEAP_OK);
    neap_context_memory(ctx, &after);
    assert_int_equal(after.active + after.cached, before.active + before.cached + info.peak_bytes);
    for (int r = 0; r < 3; r++) {
        float got[ROWS * COLUMNS], want[ROWS * COLUMNS];
        assert_int_equal(neap_array_read(neap_plan_output(plan, r), got, sizeof got), NEAP_OK);
        assert_int_equal(neap_array_read(twins[r], want, sizeof want), NEAP_OK);
        if (memcmp(got, want, sizeof got) != 0)
            fail_msg("seed %u, root %d of %d nodes differs", seed, r, n);
    }
    neap_plan_free(plan);
    assert_int_equal(neap_eval_all(3, roots), NEAP_OK);
    neap_scope_pop(ctx);
}

static void test_random_graphs(void **state)
{
    (void)state;
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    for (uint32_t seed = 1; seed <= GRAPHS; seed++)
        compare(seed, ctx);
    neap_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
