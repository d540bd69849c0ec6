/* test_program_memory.c - what a program holds: the plan's least bytes are enough and a byte less is
 * not, planned is measured, and any allocation may fail at any time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/context.h"
#include "unit/program_cases.h"

typedef struct opened {
    neap_context *ctx;
    neap_program *program;
    neap_handle *handle;
} opened;

static opened open_case(const program_case *c, int64_t threshold)
{
    opened t = {0};
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    assert_int_equal(neap_context_new(&o, &t.ctx), NEAP_OK);
    assert_int_equal(open_program(t.ctx, c->name, &t.program), NEAP_OK);
    neap_handle_options h = NEAP_HANDLE_OPTIONS_INIT;
    neap_option option = {"eval_threshold_bytes", NEAP_OPTION_INT, threshold, NULL};
    h.n_options = threshold > 0;
    h.options = &option;
    int method = neap_program_find_method(t.program, c->method);
    assert_int_equal(neap_handle_open(t.program, method, &h, &t.handle), NEAP_OK);
    return t;
}

static void close_case(opened *t)
{
    neap_handle_close(t->handle);
    neap_program_close(t->program);
    neap_context_free(t->ctx);
}

static uint64_t peak(const neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.peak;
}

static neap_execution_plan plan_of(const opened *t, const case_call *call)
{
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    if (neap_handle_plan(t->handle, call->n_in, call->in, &plan, NULL, NULL) != NEAP_OK)
        fail_msg("plan: %s", neap_context_error(neap_handle_context(t->handle)));
    return plan;
}

typedef struct planned_call {
    neap_handle *handle;
    const case_call *call;
} planned_call;

/* For neap_handle_fit. */
static neap_status plan_call(void *user, neap_execution_plan *plan)
{
    const planned_call *p = user;
    return neap_handle_plan(p->handle, p->call->n_in, p->call->in, plan, NULL, NULL);
}

/* ---- planned and measured ------------------------------------------------------------------------- */

static void check_measured(const program_case *c, int64_t threshold)
{
    opened t = open_case(c, threshold);
    for (int k = 0; k < c->n_calls; k++) {
        const case_call *call = &c->calls[k];
        if (*call->status) {
            run_call(t.handle, c, k);
            continue;
        }
        neap_execution_plan plan = plan_of(&t, call);
        run_call(t.handle, c, k);
        if (peak(t.ctx) != plan.planned_peak_bytes)
            fail_msg("%s, call %d, threshold %lld: planned %llu, measured %llu", c->name, k + 1,
                     (long long)threshold, (unsigned long long)plan.planned_peak_bytes,
                     (unsigned long long)peak(t.ctx));
        uint64_t sum = 0;
        for (int i = 0; i < NEAP_MEM_CATEGORIES; i++)
            sum += plan.by_category[i];
        assert_int_equal(sum, plan.planned_peak_bytes);
    }
    close_case(&t);
}

static void test_planned_is_measured(void **state)
{
    (void)state;
    for (int i = 0; i < n_cases; i++)
        check_measured(&cases[i], 0);
}

static void test_planned_is_measured_with_threshold(void **state)
{
    (void)state;
    for (int i = 0; i < n_cases; i++) {
        check_measured(&cases[i], 1);
        check_measured(&cases[i], 2048);
    }
}

/* 1 if something less was refused. */
static int check_least(const program_case *c)
{
    int refused = 0;
    opened t = open_case(c, 0);
    const case_call *call = &c->calls[0];
    neap_value out[MOST_VALUES] = {{0}};
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_execution_plan plan = plan_of(&t, call);
    neap_context_memory(t.ctx, &m);
    assert_int_equal(plan.least_bytes, plan.planned_peak_bytes);
    /* What is cached is given back before anything is refused: so the least is the plan's arena and
     * results on top of what is held without that. */
    neap_context_trim(neap_handle_context(t.handle));
    neap_context_memory(t.ctx, &m);
    uint64_t pages = plan.output_bytes + (plan.arena_bytes + 4095) / 4096 * 4096;
    uint64_t limit = m.active + m.cached + pages - 1;
    if (pages > 0 && plan.evaluations == 1) {
        assert_int_equal(neap_context_set_limit(t.ctx, limit), NEAP_OK);
        neap_status status =
            neap_handle_execute(t.handle, call->n_in, call->in, call->n_out, out);
        char number[32];
        snprintf(number, sizeof number, "%llu", (unsigned long long)limit);
        if (status != NEAP_ENOMEM)
            fail_msg("%s: %s under %s bytes", c->name, neap_status_name(status), number);
        if (!strstr(neap_context_error(neap_handle_context(t.handle)), number))
            fail_msg("%s: the limit %s is not in \"%s\"", c->name, number,
                     neap_context_error(neap_handle_context(t.handle)));
        refused++;
    }
    assert_int_equal(neap_context_set_limit(t.ctx, plan.least_bytes), NEAP_OK);
    assert_int_equal(neap_handle_reset(t.handle), NEAP_OK);
    run_call(t.handle, c, 0);
    close_case(&t);
    return refused;
}

static void test_least_bytes(void **state)
{
    (void)state;
    int refused = 0;
    for (int i = 0; i < n_cases; i++)
        if (!*cases[i].calls[0].status)
            refused += check_least(&cases[i]);
    assert_true(refused > 20);
}

/* The first call within a limit, fitted before it or by execute; 0 asks for the least limit. */
static uint64_t fit_and_run(const program_case *c, uint64_t limit, bool by_execute)
{
    opened t = open_case(c, 0);
    planned_call what = {t.handle, &c->calls[0]};
    neap_execution_plan plan = {.size = 0};
    if (!by_execute) {
        plan = plan_of(&t, &c->calls[0]);
        const bool fits = limit && plan.planned_peak_bytes <= limit;
        if (!fits && neap_handle_fit(t.handle, limit, plan_call, &what, &plan) != NEAP_OK)
            fail_msg("%s: within %llu bytes: %s", c->name, (unsigned long long)limit,
                     neap_context_error(neap_handle_context(t.handle)));
    }
    if (limit)
        assert_int_equal(neap_context_set_limit(t.ctx, limit), NEAP_OK);
    run_call(t.handle, c, 0);
    if (limit && !by_execute && peak(t.ctx) != plan.planned_peak_bytes)
        fail_msg("%s: within %llu bytes planned %llu, measured %llu", c->name,
                 (unsigned long long)limit, (unsigned long long)plan.planned_peak_bytes,
                 (unsigned long long)peak(t.ctx));
    assert_true(!limit || peak(t.ctx) <= limit);
    close_case(&t);
    return plan.least_bytes;
}

static void check_too_little(const program_case *c, uint64_t least)
{
    opened t = open_case(c, 0);
    planned_call what = {t.handle, &c->calls[0]};
    neap_execution_plan plan = plan_of(&t, &c->calls[0]);
    char number[40];
    snprintf(number, sizeof number, "(%llu bytes)", (unsigned long long)least);
    assert_int_equal(neap_handle_fit(t.handle, least - 1, plan_call, &what, &plan), NEAP_ENOMEM);
    if (!strstr(neap_context_error(neap_handle_context(t.handle)), number))
        fail_msg("%s: the least %s is not in \"%s\"", c->name, number,
                 neap_context_error(neap_handle_context(t.handle)));
    run_call(t.handle, c, 0); /* no limit was set */
    close_case(&t);
}

static void test_fit(void **state)
{
    (void)state;
    for (int i = 0; i < n_cases; i++) {
        if (*cases[i].calls[0].status)
            continue;
        const uint64_t least = fit_and_run(&cases[i], 0, false);
        for (int part = 0; part < 4; part++)
            fit_and_run(&cases[i], least + (uint64_t)part * 4096, false);
        fit_and_run(&cases[i], least, true);
        check_too_little(&cases[i], least);
    }
}

/* ---- failing allocations --------------------------------------------------------------------------- */

enum { MOST_ALLOCATIONS = 20000 };

/* Everything from opening on, the n-th allocation failing. false: none failed. Fitting is in some. */
static bool everything(const program_case *c, int64_t n, int64_t threshold)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_program *p = NULL;
    neap_handle *h = NULL;
    o.threads = 1;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    const bool fitted = !strcmp(c->name, "two_inputs") || !strcmp(c->name, "state_updates") ||
                        !strcmp(c->name, "scan_carry_before");
    uint64_t before = active_bytes(ctx);
    ctx->ledger.fail_countdown = n;
    neap_status status = open_program(ctx, c->name, &p);
    neap_handle_options ho = NEAP_HANDLE_OPTIONS_INIT;
    neap_option option = {"eval_threshold_bytes", NEAP_OPTION_INT, threshold, NULL};
    ho.n_options = threshold > 0;
    ho.options = &option;
    if (status == NEAP_OK)
        status = neap_handle_open(p, neap_program_find_method(p, c->method), &ho, &h);
    bool opened_ = status == NEAP_OK;
    for (int k = 0; status == NEAP_OK && k < c->n_calls && k < 2; k++) {
        const case_call *call = &c->calls[k];
        neap_value out[MOST_VALUES] = {{0}};
        neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
        if (*call->status)
            continue;
        status = neap_handle_plan(h, call->n_in, call->in, &plan, NULL, NULL);
        planned_call what = {h, call};
        if (status == NEAP_OK && k == 0 && fitted)
            status = neap_handle_fit(h, 0, plan_call, &what, &plan);
        if (status == NEAP_OK)
            status = neap_handle_execute(h, call->n_in, call->in, call->n_out, out);
    }
    bool failed = ctx->ledger.fail_countdown == 0;
    if (status != (failed ? NEAP_ENOMEM : NEAP_OK))
        fail_msg("%s: allocation %lld: %s: %s", c->name, (long long)n, neap_status_name(status),
                 neap_context_error(h ? neap_handle_context(h) : ctx));
    ctx->ledger.fail_countdown = 0;
    if (opened_) { /* it goes on as if nothing had been */
        neap_context_clear_error(neap_handle_context(h));
        assert_int_equal(neap_handle_reset(h), NEAP_OK);
        for (int k = 0; k < c->n_calls && k < 2; k++)
            run_call(h, c, k);
    }
    neap_handle_close(h);
    neap_program_close(p);
    if (active_bytes(ctx) != before)
        fail_msg("%s: allocation %lld: %llu bytes leaked", c->name, (long long)n,
                 (unsigned long long)(active_bytes(ctx) - before));
    neap_context_free(ctx);
    return failed;
}

static void fail_each(const char *name, int64_t threshold)
{
    const program_case *c = find_case(name);
    int64_t n = 1;
    while (everything(c, n, threshold))
        assert_true(++n < MOST_ALLOCATIONS);
    assert_true(n > 20);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    static const char *const names[] = {"two_inputs",       "state_updates", "decode",
                                        "scan_carry_before", "two_delegates", "copy_",
                                        "th15_init9",        "external",      "values",
                                        "th14_item",         "th11_scan_t0",  "nested_scan_if_scan"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fail_each(names[i], 0);
    fail_each("th03_flat9", 2048);
    fail_each("th13_update_at_barrier", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planned_is_measured),
        cmocka_unit_test(test_planned_is_measured_with_threshold),
        cmocka_unit_test(test_least_bytes),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
