/* test_program_cases.c - the programs of tests/golden/pte: what cases.txt says comes out of them, with
 * every way of running them; what bad.txt says is refused, and how. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/program_cases.h"

typedef struct way {
    int threads;
    int64_t threshold;
    bool least; /* under the limit that the plan says will do */
} way;

static neap_context *new_context(int threads)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = threads;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    return ctx;
}

static void limit_to_plan(neap_handle *h, neap_context *ctx, const case_call *call)
{
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    if (neap_context_set_limit(ctx, 0) != NEAP_OK ||
        neap_handle_plan(h, call->n_in, call->in, &plan, NULL, NULL) != NEAP_OK)
        fail_msg("plan: %s", neap_context_error(neap_handle_context(h)));
    if (neap_context_set_limit(ctx, plan.least_bytes) != NEAP_OK)
        fail_msg("limit: %s", neap_context_error(ctx));
}

/* Twice on one handle: what the first round planned is replayed in the second. */
static void run_case(const program_case *c, const way *w)
{
    neap_context *ctx = new_context(w->threads);
    neap_program *p;
    neap_handle *h;
    neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
    neap_option option = {"eval_threshold_bytes", NEAP_OPTION_INT, w->threshold, NULL};
    o.n_options = w->threshold >= 0;
    o.options = &option;
    uint64_t before = active_bytes(ctx);
    assert_int_equal(open_program(ctx, c->name, &p), NEAP_OK);
    int method = neap_program_find_method(p, c->method);
    assert_true(method >= 0);
    if (neap_handle_open(p, method, &o, &h) != NEAP_OK)
        fail_msg("%s: %s", c->name, neap_context_error(ctx));
    for (int round = 0; round < 2; round++) {
        for (int k = 0; k < c->n_calls; k++) {
            if (w->least && !*c->calls[k].status)
                limit_to_plan(h, ctx, &c->calls[k]);
            run_call(h, c, k);
        }
        assert_int_equal(neap_handle_reset(h), NEAP_OK);
    }
    neap_handle_close(h);
    neap_program_close(p);
    if (active_bytes(ctx) != before)
        fail_msg("%s: %llu bytes are held afterwards, %llu before", c->name,
                 (unsigned long long)active_bytes(ctx), (unsigned long long)before);
    neap_context_free(ctx);
}

static void run_all(int threads, int64_t threshold, bool least)
{
    const way w = {threads, threshold, least};
    for (int i = 0; i < n_cases; i++)
        run_case(&cases[i], &w);
}

static void test_plain(void **state)
{
    (void)state;
    run_all(1, -1, false);
}

static void test_threads(void **state)
{
    (void)state;
    run_all(3, -1, false);
}

static void test_thresholds(void **state)
{
    (void)state;
    run_all(1, 1, false);
    run_all(1, 100, false);
    run_all(1, INT64_MAX, false);
}

static void test_least(void **state)
{
    (void)state;
    run_all(1, -1, true);
    run_all(1, 1, true);
}

/* ---- refused ------------------------------------------------------------------------------------- */

static neap_status open_everything(neap_context *ctx, const char *name, char *text, size_t size)
{
    neap_program *p = NULL;
    neap_handle *h = NULL;
    neap_status status = open_program(ctx, name, &p);
    for (int m = 0; status == NEAP_OK && m < neap_program_methods(p); m++) {
        status = neap_handle_open(p, m, NULL, &h);
        assert_true((status == NEAP_OK) == (h != NULL));
        neap_handle_close(h);
    }
    snprintf(text, size, "%s", neap_context_error(ctx));
    neap_program_close(p);
    return status;
}

static void test_bad(void **state)
{
    (void)state;
    FILE *f = fopen(PROGRAMS "bad.txt", "r");
    assert_non_null(f);
    char line[300], name[64], stage[16], wanted[24], words[100], text[800];
    int n = 0;
    while (fgets(line, sizeof line, f)) {
        assert_int_equal(sscanf(line, "%63s %15s %23s %99[^\n]", name, stage, wanted, words), 4);
        neap_context *ctx = new_context(1);
        uint64_t before = active_bytes(ctx);
        neap_status status = open_everything(ctx, name, text, sizeof text);
        if (strcmp(neap_status_name(status) + 5, wanted) || !strstr(text, words))
            fail_msg("%s: %s \"%s\", expected %s \"%s\"", name, neap_status_name(status), text,
                     wanted, words);
        if (active_bytes(ctx) != before)
            fail_msg("%s: %llu bytes are held afterwards", name,
                     (unsigned long long)(active_bytes(ctx) - before));
        neap_context_free(ctx);
        n++;
    }
    fclose(f);
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
