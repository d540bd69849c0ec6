/* test_thresholds.c - eval_threshold_bytes: the fifteen cases of its semantics, with exact counts.
 *
 * B is the size of one tensor of the case's program. A threshold never changes a result: each call's
 * outputs are compared as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "program/handle.h"
#include "program/walk.h"
#include "unit/program_cases.h"

enum { B = 1024 };

typedef struct opened {
    neap_context *ctx;
    neap_program *program;
    neap_handle *handle;
    const program_case *c;
} opened;

static neap_handle *open_handle(neap_program *p, int64_t threshold)
{
    neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
    neap_option option = {"eval_threshold_bytes", NEAP_OPTION_INT, threshold, NULL};
    neap_handle *h;
    o.n_options = threshold >= 0;
    o.options = &option;
    assert_int_equal(neap_handle_open(p, 0, &o, &h), NEAP_OK);
    return h;
}

/* threshold -1: unset */
static opened open_case(const char *name, int64_t threshold)
{
    opened t = {.c = find_case(name)};
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    assert_int_equal(neap_context_new(&o, &t.ctx), NEAP_OK);
    assert_int_equal(open_program(t.ctx, name, &t.program), NEAP_OK);
    t.handle = open_handle(t.program, threshold);
    return t;
}

static void close_case(opened *t)
{
    neap_handle_close(t->handle);
    neap_program_close(t->program);
    neap_context_free(t->ctx);
}

static neap_handle_stats tell(neap_handle *h)
{
    neap_handle_stats s = NEAP_HANDLE_STATS_INIT;
    neap_handle_tell(h, &s);
    return s;
}

typedef struct counts {
    uint64_t barriers, calls, pending;
    bool copied; /* a scan's result goes out as it is: it is copied at the end */
} counts;

static counts counted(uint64_t barriers, uint64_t calls, uint64_t pending)
{
    return (counts){barriers, calls, pending, false};
}

/* The call twice: the second may replay a plan and counts the same. */
static void expect_call(neap_handle *h, const program_case *c, int call, counts want)
{
    for (int round = 0; round < 2; round++) {
        neap_handle_stats before = tell(h), after;
        run_call(h, c, call);
        after = tell(h);
        /* What is computed: at each barrier, and at the end what is left. */
        uint64_t end = want.pending > 0 || want.calls == 0 || want.copied;
        assert_int_equal(after.evaluations - before.evaluations, want.barriers + end);
        assert_int_equal(after.barriers - before.barriers, want.barriers);
        assert_int_equal(after.accounting_calls - before.accounting_calls, want.calls);
        assert_int_equal(after.pending_bytes, want.pending);
        assert_int_equal(after.internal_evaluations, before.internal_evaluations);
    }
}

static void expect(const char *name, int64_t threshold, counts want)
{
    opened t = open_case(name, threshold);
    expect_call(t.handle, t.c, 0, want);
    close_case(&t);
}

static void test_1_off(void **state)
{
    (void)state;
    expect("th01_flat8", 0, counted(0, 0, 0));
    expect("th01_flat8", -1, counted(0, 0, 0));
}

static void test_2_never_reached(void **state)
{
    (void)state;
    expect("th01_flat8", INT64_MAX, counted(0, 8, 8 * B));
}

static void test_3_every_second(void **state)
{
    (void)state;
    expect("th03_flat9", 2 * B, counted(4, 9, B));
}

static void test_4_inclusive(void **state)
{
    (void)state;
    expect("th03_flat9", 3 * B, counted(3, 9, 0)); /* the last op may reach it */
    expect("th03_flat9", 3 * B - 1, counted(3, 9, 0));
    expect("th03_flat9", 3 * B + 1, counted(2, 9, B));
}

static void test_5_one_byte(void **state)
{
    (void)state;
    expect("th01_flat8", 1, counted(8, 8, 0));
}

static void test_6_only_if(void **state)
{
    (void)state;
    expect("th06_only_if", 2 * B, counted(1, 6, 0));
}

static void test_7_around_if(void **state)
{
    (void)state;
    expect("th07_then", 4 * B, counted(1, 10, 2 * B));
    expect("th07_else", 4 * B, counted(1, 5, B));
    opened t = open_case("th07_if", 4 * B); /* the same, as an input says */
    expect_call(t.handle, t.c, 0, counted(1, 10, 2 * B));
    expect_call(t.handle, t.c, 1, counted(1, 5, B));
    expect_call(t.handle, t.c, 0, counted(1, 10, 2 * B));
    close_case(&t);
}

static void test_8_scan(void **state)
{
    (void)state;
    expect("th08_scan", 5 * B, counted(2, 10, 0)); /* 8 B + 4 B, then 4 B + 4 B */
}

static void test_9_scan_not_reached(void **state)
{
    (void)state;
    expect("th08_scan", 13 * B, counted(1, 10, 4 * B));
}

static void test_10_nested(void **state)
{
    (void)state;
    expect("th10a_scan_if", 5 * B, (counts){1, 8, 0, true});
    expect("th10b_if_if", 3 * B, counted(1, 4, B));
}

static void test_11_scan_values(void **state)
{
    (void)state;
    opened t = open_case("th11_scan_used", 1), o = open_case("th11_scan_used", 0);
    neap_value a[MOST_VALUES] = {{0}}, b[MOST_VALUES] = {{0}};
    const case_call *call = &t.c->calls[0];
    run_call(t.handle, t.c, 0);
    assert_int_equal(neap_handle_execute(t.handle, call->n_in, call->in, call->n_out, a), NEAP_OK);
    assert_int_equal(neap_handle_execute(o.handle, call->n_in, call->in, call->n_out, b), NEAP_OK);
    for (int i = 0; i < call->n_out; i++) {
        assert_int_equal(a[i].bytes, b[i].bytes);
        assert_memory_equal(a[i].data, b[i].data, a[i].bytes);
    }
    assert_int_equal(tell(o.handle).accounting_calls, 0);
    close_case(&t);
    close_case(&o);
    t = open_case("th11_scan_t0", 1); /* 4, 1, 0 and 2 steps */
    for (int k = 0; k < t.c->n_calls; k++)
        run_call(t.handle, t.c, k);
    close_case(&t);
}

/* Operands are charged, as the reference does: charging results only would give 0 evaluations. */
static void test_12_wide_operands(void **state)
{
    (void)state;
    expect("th12_wide", 10 * B, counted(4, 4, 0));
}

/* Constants and buffers are not charged; at a barrier a buffer's update is done too. */
static void test_13_constants_and_buffers(void **state)
{
    (void)state;
    enum { SMALL = 64 };
    opened t = open_case("th13_const_mutable", 4 * SMALL);
    for (int k = 0; k < t.c->n_calls; k++) {
        neap_handle_stats before = tell(t.handle), after;
        run_call(t.handle, t.c, k);
        after = tell(t.handle);
        assert_int_equal(after.barriers - before.barriers, 1);
        assert_int_equal(after.accounting_calls - before.accounting_calls, 5);
        assert_int_equal(after.evaluations - before.evaluations, 2); /* the last update at the end */
        assert_int_equal(after.pending_bytes, 0);
    }
    close_case(&t);
}

/* A call that fails after the barrier has updated the buffer; without a threshold it has not. */
static float after_failure(int64_t threshold)
{
    opened t = open_case("th13_update_at_barrier", threshold);
    neap_value in[2], out[1] = {{0}};
    memcpy(in, t.c->calls[0].in, sizeof in);
    run_call(t.handle, t.c, 0);
    in[0].integer = 9;
    assert_int_not_equal(neap_handle_execute(t.handle, 2, in, 1, out), NEAP_OK);
    assert_non_null(strstr(neap_context_error(neap_handle_context(t.handle)), "9"));
    in[0].integer = 1;
    assert_int_equal(neap_handle_execute(t.handle, 2, in, 1, out), NEAP_OK);
    float updates = ((const float *)out[0].data)[0];
    close_case(&t);
    return updates;
}

static void test_13_updates_at_barriers(void **state)
{
    (void)state;
    assert_true(after_failure(0) == 2);
    assert_true(after_failure(2 * B) == 3);
    assert_true(after_failure(INT64_MAX) == 2);
}

/* Planning counts nothing. */
static void test_13_plan_counts_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < n_cases; i++) {
        opened t = open_case(cases[i].name, 1);
        neap_handle_stats before = tell(t.handle), after;
        neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
        const case_call *call = &t.c->calls[0];
        if (!strcmp(t.c->method, "forward") && !*call->status)
            assert_int_equal(neap_handle_plan(t.handle, call->n_in, call->in, &plan, NULL, NULL),
                             NEAP_OK);
        after = tell(t.handle);
        assert_int_equal(after.barriers, before.barriers);
        assert_int_equal(after.accounting_calls, before.accounting_calls);
        assert_int_equal(after.pending_bytes, before.pending_bytes);
        assert_int_equal(after.evaluations, before.evaluations);
        assert_int_equal(after.internal_evaluations, before.internal_evaluations);
        assert_int_equal(after.executes, 0);
        close_case(&t);
    }
}

static void test_14_internal(void **state)
{
    (void)state;
    opened t = open_case("th14_item", 16);
    for (int round = 0; round < 2; round++) {
        neap_handle_stats before = tell(t.handle), after;
        run_call(t.handle, t.c, 0);
        after = tell(t.handle);
        assert_int_equal(after.internal_evaluations - before.internal_evaluations, 1);
        assert_int_equal(after.barriers - before.barriers, 1);
        assert_int_equal(after.accounting_calls - before.accounting_calls, 6);
        assert_int_equal(after.pending_bytes, 8);
    }
    close_case(&t);
}

static void test_15_refused(void **state)
{
    (void)state;
    static const struct {
        neap_option option;
        const char *value;
    } rows[] = {
        {{"eval_threshold_bytes", NEAP_OPTION_INT, -1, NULL}, " -1,"},
        {{"eval_threshold_bytes", NEAP_OPTION_INT, INT32_MIN, NULL}, " -2147483648,"},
        {{"eval_threshold_bytes", NEAP_OPTION_INT, INT64_MIN, NULL}, " -9223372036854775808,"},
        {{"eval_threshold_bytes", NEAP_OPTION_BOOL, 1, NULL}, " true "},
        {{"eval_threshold_bytes", NEAP_OPTION_STRING, 0, "512M"}, " \"512M\" "},
    };
    opened t = open_case("th01_flat8", 512 << 20);
    run_call(t.handle, t.c, 0);
    uint64_t before = active_bytes(t.ctx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
        neap_handle *h = (neap_handle *)1;
        o.n_options = 1;
        o.options = &rows[i].option;
        assert_int_equal(neap_handle_open(t.program, 0, &o, &h), NEAP_EINVAL);
        assert_null(h);
        const char *text = neap_context_error(t.ctx);
        if (!strstr(text, "eval_threshold_bytes") || !strstr(text, rows[i].value) ||
            !strstr(text, "0 to 2^63-1"))
            fail_msg("%s", text);
        assert_int_equal(active_bytes(t.ctx), before);
    }
    close_case(&t);
}

static void test_15_two_handles(void **state)
{
    (void)state;
    opened t = open_case("th03_flat9", 2 * B);
    neap_handle *off = open_handle(t.program, 0);
    for (int i = 0; i < 3; i++) {
        expect_call(t.handle, t.c, 0, counted(4, 9, B));
        expect_call(off, t.c, 0, counted(0, 0, 0));
    }
    neap_handle_close(off);
    close_case(&t);
}

static void test_15_init_chain(void **state)
{
    (void)state;
    opened t = open_case("th15_init9", 0);
    neap_handle *h = open_handle(t.program, 2 * B);
    assert_int_equal(tell(t.handle).init_barriers, 0);
    assert_int_equal(tell(t.handle).accounting_calls, 0);
    assert_int_equal(tell(h).init_barriers, 4);
    assert_int_equal(tell(h).accounting_calls, 9);
    expect_call(h, t.c, 0, counted(0, 1, B)); /* from 0 again */
    neap_handle_close(h);
    close_case(&t);
}

static void test_15_saturates(void **state)
{
    (void)state;
    np_walk w = {.scan_scale = 1};
    np_walk_charge(&w, UINT64_MAX - 1);
    assert_true(w.pending == UINT64_MAX - 1);
    np_walk_charge(&w, UINT64_MAX - 1);
    assert_true(w.pending == UINT64_MAX);
    np_walk_charge(&w, 1);
    assert_true(w.pending == UINT64_MAX);
    w = (np_walk){.scan_scale = 3}; /* a body that stands for three steps */
    np_walk_charge(&w, UINT64_MAX / 2);
    assert_true(w.pending == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1_off),
        cmocka_unit_test(test_2_never_reached),
        cmocka_unit_test(test_3_every_second),
        cmocka_unit_test(test_4_inclusive),
        cmocka_unit_test(test_5_one_byte),
        cmocka_unit_test(test_6_only_if),
        cmocka_unit_test(test_7_around_if),
        cmocka_unit_test(test_8_scan),
        cmocka_unit_test(test_9_scan_not_reached),
        cmocka_unit_test(test_10_nested),
        cmocka_unit_test(test_11_scan_values),
        cmocka_unit_test(test_12_wide_operands),
        cmocka_unit_test(test_13_constants_and_buffers),
        cmocka_unit_test(test_13_updates_at_barriers),
        cmocka_unit_test(test_13_plan_counts_nothing),
        cmocka_unit_test(test_14_internal),
        cmocka_unit_test(test_15_refused),
        cmocka_unit_test(test_15_two_handles),
        cmocka_unit_test(test_15_init_chain),
        cmocka_unit_test(test_15_saturates),
    };
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
