/* test_program.c - handles of programs from outside: what inputs are refused and how, results in the
 * caller's memory, reset, sessions, several methods and handles, replayed plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/program_cases.h"

static neap_context *ctx;
static neap_program *program;
static neap_handle *handle;

static neap_handle *open_method(int method)
{
    neap_handle *h = NULL;
    if (neap_handle_open(program, method, NULL, &h) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    return h;
}

static const program_case *use(const char *name)
{
    const program_case *c = find_case(name);
    assert_int_equal(open_program(ctx, name, &program), NEAP_OK);
    handle = open_method(neap_program_find_method(program, c->method));
    return c;
}

static int set_up(void **state)
{
    (void)state;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    return neap_context_new(&o, &ctx) == NEAP_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    neap_handle_close(handle);
    neap_program_close(program);
    neap_context_free(ctx);
    handle = NULL;
    program = NULL;
    return 0;
}

static neap_handle_stats tell(neap_handle *h)
{
    neap_handle_stats s = NEAP_HANDLE_STATS_INIT;
    neap_handle_tell(h, &s);
    return s;
}

/* ---- inputs -------------------------------------------------------------------------------------- */

static void refused(const neap_value *in, int n, const char *words)
{
    neap_value out[MOST_VALUES] = {{0}};
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    assert_int_equal(neap_handle_execute(handle, n, in, 1, out), NEAP_EINVAL);
    const char *text = neap_context_error(neap_handle_context(handle));
    if (!strstr(text, words))
        fail_msg("\"%s\", expected \"%s\"", text, words);
    neap_context_clear_error(neap_handle_context(handle));
    if (in[0].data && in[1].data) { /* planning refuses the same */
        assert_int_equal(neap_handle_plan(handle, n, in, &plan, NULL, NULL), NEAP_EINVAL);
        assert_non_null(strstr(neap_context_error(neap_handle_context(handle)), words));
    }
}

static void test_wrong_inputs(void **state)
{
    (void)state;
    const program_case *c = use("two_inputs"); /* f32 [2, 3], i64 [3] */
    neap_value in[2], good[2];
    memcpy(good, c->calls[0].in, sizeof good);
#define WITH(i, change) (memcpy(in, good, sizeof in), in[i].change)
    WITH(0, bytes = 20), refused(in, 2, "input 0: 20 bytes given, its shape needs 24");
    WITH(1, bytes = 23), refused(in, 2, "input 1: 23 bytes given, its shape needs 24");
    WITH(1, data = NULL), refused(in, 2, "input 1: 0 bytes given, its shape needs 24");
    WITH(0, dtype = NEAP_F16), refused(in, 2, "input 0: dtype f16, expected f32");
    WITH(0, dtype = (neap_dtype)99), refused(in, 2, "input 0: dtype (unknown), expected f32");
    WITH(0, rank = 1), refused(in, 2, "input 0: 1 dimensions, expected 2");
    WITH(0, rank = 77), refused(in, 2, "input 0: 77 dimensions, expected 2");
    WITH(0, rank = -1), refused(in, 2, "input 0: -1 dimensions, expected 2");
    WITH(0, shape[1] = 4), refused(in, 2, "input 0: dimension 1 has 4, expected 3");
    WITH(0, shape[0] = -2), refused(in, 2, "input 0: dimension 0 has -2, expected 2");
    WITH(1, kind = NEAP_VALUE_INT), refused(in, 2, "input 1: an integer, expected a tensor");
    WITH(1, kind = (neap_value_kind)50), refused(in, 2, "input 1: (unknown), expected a tensor");
    WITH(0, data = (const char *)good[0].data + 1);
    in[0].bytes = 0;
    refused(in, 2, "input 0: its address is no multiple of 4");
    WITH(0, strided = true), refused(in, 2, "input 0: not contiguous"); /* strides of 0 */
    in[0].strides[0] = 1, in[0].strides[1] = 2;
    refused(in, 2, "input 0: not contiguous");
    refused(good, 1, "1 inputs, method forward takes 2");
    refused(good, 0, "0 inputs, method forward takes 2");
    refused(good, -1, "-1 inputs, method forward takes 2");
    in[0].strides[0] = 3, in[0].strides[1] = 1; /* said, but row-major */
    neap_value out[1] = {{0}};
    assert_int_equal(neap_handle_execute(handle, 2, in, 1, out), NEAP_OK);
    assert_null(difference(out, c->calls[0].out));
    in[0].bytes = 0; /* not said */
    assert_int_equal(neap_handle_execute(handle, 2, in, 1, out), NEAP_OK);
    assert_int_equal(tell(handle).executes, 2);
}

/* Up to the bound, the bound included. */
static void test_longest_input(void **state)
{
    (void)state;
    use("length_bound");
    neap_value want;
    int64_t at = 0;
    float rows[9 * 2];
    assert_int_equal(neap_program_input(program, 0, 0, &want), NEAP_OK);
    assert_true(want.bounded && want.shape[0] == 8);
    for (int64_t n = 1; n <= 9; n++) {
        neap_value in[2] = {{.kind = NEAP_VALUE_TENSOR, .dtype = NEAP_F32, .rank = 2,
                             .shape = {n, 2}, .data = rows},
                            {.kind = NEAP_VALUE_TENSOR, .dtype = NEAP_I64, .rank = 1, .shape = {1},
                             .data = &at}};
        neap_value out[2] = {{0}};
        for (int i = 0; i < 18; i++)
            rows[i] = (float)n;
        assert_int_equal(neap_handle_reset(handle), NEAP_OK);
        neap_status status = neap_handle_execute(handle, 2, in, 2, out);
        assert_int_equal(status, n <= 8 ? NEAP_OK : NEAP_EINVAL);
        if (n <= 8)
            assert_true(((const float *)out[0].data)[1] == (float)(n * n));
        else
            assert_non_null(strstr(neap_context_error(neap_handle_context(handle)),
                                   "dimension 0 has 9, expected at most 8"));
    }
}

/* Positions that no integer of a program can hold: refused with the value, the handle goes on. */
static void test_wrong_positions(void **state)
{
    (void)state;
    const program_case *c = use("decode");
    static const int64_t rows[] = {INT32_MAX + 1LL, INT32_MIN - 1LL, 1LL << 40, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        neap_value in[2], out[1] = {{0}};
        char words[60];
        assert_int_equal(neap_handle_reset(handle), NEAP_OK);
        for (int k = 0; k < 3; k++)
            run_call(handle, c, k);
        memcpy(in, c->calls[0].in, sizeof in);
        in[1].data = &rows[i];
        assert_int_equal(neap_handle_execute(handle, 2, in, 1, out), NEAP_EINVAL);
        const char *text = neap_context_error(neap_handle_context(handle));
        snprintf(words, sizeof words, "%lld does not fit 32 bits", (long long)rows[i]);
        if (!strstr(text, words))
            fail_msg("%lld: %s", (long long)rows[i], text);
        run_call(handle, c, 2); /* what is there was not touched */
    }
    neap_value in[2], out[1] = {{0}};
    int64_t last = INT32_MAX; /* + 1 */
    memcpy(in, c->calls[0].in, sizeof in);
    in[1].data = &last;
    assert_int_equal(neap_handle_execute(handle, 2, in, 1, out), NEAP_EINVAL);
}

/* ---- outputs ------------------------------------------------------------------------------------- */

static void test_outputs_in_place(void **state)
{
    (void)state;
    const program_case *c = use("two_inputs");
    const case_call *call = &c->calls[0];
    float room[8] = {0};
    neap_value out = {.data = room, .bytes = 24};
    assert_int_equal(neap_handle_execute(handle, 2, call->in, 1, &out), NEAP_OK);
    assert_ptr_equal(out.data, room);
    assert_null(difference(&out, call->out));
    assert_true(room[6] == 0 && room[7] == 0);
    memset(room, 0, sizeof room);
    out = (neap_value){.data = room, .bytes = 32}; /* more than enough */
    assert_int_equal(neap_handle_execute(handle, 2, call->in, 1, &out), NEAP_OK);
    assert_int_equal(out.bytes, 24);
    assert_true(room[5] == 36 && room[6] == 0);
    out = (neap_value){.data = room, .bytes = 23};
    assert_int_equal(neap_handle_execute(handle, 2, call->in, 1, &out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(neap_handle_context(handle)),
                           "output 0: 23 bytes of room, it has 24"));
    memset(&out, 0, sizeof out);
    assert_int_equal(neap_handle_execute(handle, 2, call->in, 2, &out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(neap_handle_context(handle)),
                           "2 outputs, method forward gives 1"));
    assert_int_equal(neap_handle_execute(handle, 2, call->in, 1, &out), NEAP_OK);
    assert_ptr_not_equal(out.data, room);
    assert_null(difference(&out, call->out));
}

/* ---- states -------------------------------------------------------------------------------------- */

static void token(neap_handle *h, int64_t at, float x, float want)
{
    float row[2] = {x, -x};
    neap_value in[2] = {{.kind = NEAP_VALUE_TENSOR, .dtype = NEAP_F32, .rank = 2, .shape = {1, 2},
                         .data = row},
                        {.kind = NEAP_VALUE_TENSOR, .dtype = NEAP_I64, .rank = 1, .shape = {1},
                         .data = &at}};
    neap_value out[1] = {{0}};
    if (neap_handle_execute(h, 2, in, 1, out) != NEAP_OK)
        fail_msg("at %lld: %s", (long long)at, neap_context_error(neap_handle_context(h)));
    const float *y = out[0].data;
    if (y[0] != want || y[1] != -want)
        fail_msg("at %lld: %g, expected %g", (long long)at, (double)y[0], (double)want);
}

/* A second prompt must not see the first one's keys. */
static void test_reset(void **state)
{
    (void)state;
    use("decode");
    for (int prompt = 0; prompt < 3; prompt++) {
        for (int i = 0; i < 5; i++)
            token(handle, i, 10, 10.0f * (float)(i + 1));
        assert_int_equal(neap_handle_reset(handle), NEAP_OK);
        token(handle, 4, 1, 1); /* nothing before it */
        assert_int_equal(neap_handle_reset(handle), NEAP_OK);
    }
}

/* Few plans for many positions. */
static void test_replay(void **state)
{
    (void)state;
    use("decode");
    float total = 0;
    for (int64_t i = 0; i < 64; i++)
        token(handle, i, (float)(i % 7), total += (float)(i % 7));
    neap_handle_stats s = tell(handle);
    assert_int_equal(s.executes, 64);
    assert_in_range(s.plans, 1, 3);
    assert_int_equal(s.plans + s.plan_hits, 64);
    const uint64_t plans = s.plans;
    assert_int_equal(neap_handle_reset(handle), NEAP_OK);
    token(handle, 63, 2, 2);
    assert_int_equal(tell(handle).plans, plans);
}

/* A plan that was made for a guess at what is not known yet is not replayed. */
static void test_replay_of_a_guess(void **state)
{
    (void)state;
    const program_case *c = use("flags");
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    neap_value in[3];
    memcpy(in, c->calls[0].in, sizeof in);
    in[1].data = in[2].data = NULL;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(neap_handle_plan(handle, 3, in, &plan, NULL, NULL), NEAP_OK);
        for (int k = 0; k < c->n_calls; k++)
            run_call(handle, c, k);
    }
}

/* Same shapes: no new plan; new shapes: one more, and the old one is still there. */
static void test_plans_by_shape(void **state)
{
    (void)state;
    const program_case *c = use("th11_scan_t0"); /* 4, 1, 0, 2 steps */
    for (int round = 0; round < 3; round++)
        for (int k = 0; k < c->n_calls; k++)
            run_call(handle, c, k);
    assert_int_equal(tell(handle).plans, (uint64_t)c->n_calls);
    assert_int_equal(tell(handle).plan_hits, 2 * (uint64_t)c->n_calls);
}

/* ---- sessions ------------------------------------------------------------------------------------- */

static void test_sessions(void **state)
{
    (void)state;
    use("decode");
    int second, third;
    assert_int_equal(neap_handle_session_bytes(handle), 4096); /* 512, in pages */
    uint64_t before = active_bytes(neap_handle_context(handle));
    assert_int_equal(neap_handle_session_new(handle, &second), NEAP_OK);
    assert_int_equal(neap_handle_session_new(handle, &third), NEAP_OK);
    assert_true(second != third && second > 0 && third > 0);
    assert_int_equal(active_bytes(neap_handle_context(handle)), before); /* not before they run */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(neap_handle_session_use(handle, 0), NEAP_OK);
        token(handle, i, 1, (float)(i + 1));
        assert_int_equal(neap_handle_session_use(handle, second), NEAP_OK);
        token(handle, i, 10, 10 * (float)(i + 1));
    }
    assert_int_equal(neap_handle_reset(handle), NEAP_OK); /* of the second only */
    token(handle, 9, 3, 3);
    assert_int_equal(neap_handle_session_use(handle, 0), NEAP_OK);
    token(handle, 4, 1, 5);
    assert_int_equal(neap_handle_session_free(handle, second), NEAP_OK);
    assert_int_equal(neap_handle_session_use(handle, second), NEAP_EINVAL);
    assert_int_equal(neap_handle_session_free(handle, second), NEAP_EINVAL);
    assert_int_equal(neap_handle_session_use(handle, 77), NEAP_EINVAL);
    assert_int_equal(neap_handle_session_use(handle, -1), NEAP_EINVAL);
    token(handle, 5, 1, 6);
    assert_int_equal(neap_handle_session_use(handle, third), NEAP_OK);
    token(handle, 0, 8, 8);
    assert_int_equal(neap_handle_session_free(handle, third), NEAP_OK);
    neap_value none[1] = {{0}};
    const case_call *call = &find_case("decode")->calls[0];
    assert_int_equal(neap_handle_execute(handle, 2, call->in, 1, none), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(neap_handle_context(handle)), "no session is in use"));
    assert_int_equal(neap_handle_session_use(handle, 0), NEAP_OK);
    token(handle, 6, 1, 7);
}

static void test_without_first_session(void **state)
{
    (void)state;
    const program_case *c = find_case("decode");
    assert_int_equal(open_program(ctx, "decode", &program), NEAP_OK);
    neap_option option = {"skip_mutable_buffer_init", NEAP_OPTION_BOOL, 1, NULL};
    neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
    o.n_options = 1;
    o.options = &option;
    assert_int_equal(neap_handle_open(program, 0, &o, &handle), NEAP_OK);
    neap_value out[1] = {{0}};
    int session;
    assert_int_equal(neap_handle_execute(handle, 2, c->calls[0].in, 1, out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(neap_handle_context(handle)),
                           "skip_mutable_buffer_init"));
    assert_int_equal(neap_handle_reset(handle), NEAP_OK);
    assert_int_equal(neap_handle_session_new(handle, &session), NEAP_OK);
    assert_int_equal(neap_handle_session_use(handle, session), NEAP_OK);
    for (int k = 0; k < c->n_calls; k++)
        run_call(handle, c, k);
}

/* What aten::copy_ writes belongs to a session as well. */
static void test_sessions_of_method_state(void **state)
{
    (void)state;
    const program_case *c = use("copy_");
    int second;
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    assert_int_equal(neap_handle_session_new(handle, &second), NEAP_OK);
    for (int k = 0; k < c->n_calls; k++) {
        assert_int_equal(neap_handle_session_use(handle, 0), NEAP_OK);
        run_call(handle, c, k);
        assert_int_equal(neap_handle_plan(handle, 1, c->calls[0].in, &plan, NULL, NULL), NEAP_OK);
        assert_int_equal(neap_handle_session_use(handle, second), NEAP_OK);
        run_call(handle, c, k);
    }
    assert_int_equal(neap_handle_reset(handle), NEAP_OK);
    run_call(handle, c, 0);
    assert_int_equal(neap_handle_session_free(handle, second), NEAP_OK);
    assert_int_equal(neap_handle_session_use(handle, 0), NEAP_OK);
    assert_int_equal(neap_handle_reset(handle), NEAP_OK);
    run_call(handle, c, 0);
    run_call(handle, c, 1);
}

/* ---- methods and handles --------------------------------------------------------------------------- */

static uint64_t weight_bytes(neap_handle *h)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(neap_handle_context(h), &m);
    return m.active_by_category[NEAP_MEM_WEIGHTS];
}

static void test_methods_share_constants(void **state)
{
    (void)state;
    assert_int_equal(open_program(ctx, "two_methods", &program), NEAP_OK);
    int scale = neap_program_find_method(program, "scale");
    int shift = neap_program_find_method(program, "shift");
    assert_true(scale >= 0 && shift >= 0 && scale != shift);
    assert_int_equal(neap_program_find_method(program, "forward"), -1);
    assert_non_null(strstr(neap_context_error(ctx), "scale"));
    neap_context_clear_error(ctx);
    neap_handle *h[3] = {open_method(scale), open_method(shift), open_method(scale)};
    for (int i = 0; i < 3; i++) {
        run_call(h[0], &cases[find_case("two_methods") - cases], 0);
        run_call(h[1], &cases[find_case("two_methods") - cases + 1], 0); /* its own, rewritten copy */
        run_call(h[2], &cases[find_case("two_methods") - cases], 0);
    }
    assert_int_equal(weight_bytes(h[0]), 0);
    assert_true(weight_bytes(h[1]) > 0);
    for (int i = 0; i < 3; i++)
        neap_handle_close(h[i]);
    assert_int_equal(neap_handle_open(program, 2, NULL, &handle), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "no method 2, the program has 2"));
    assert_int_equal(neap_handle_open(program, -1, NULL, &handle), NEAP_EINVAL);
    assert_null(handle);
}

static void test_two_handles(void **state)
{
    (void)state;
    use("decode");
    neap_handle *other = open_method(0);
    for (int i = 0; i < 6; i++) {
        token(handle, i, 1, (float)(i + 1));
        token(other, i, 100, 100 * (float)(i + 1));
    }
    neap_handle_close(other);
    token(handle, 6, 1, 7);
}

static void test_descriptions(void **state)
{
    (void)state;
    use("values");
    neap_value v;
    assert_int_equal(neap_program_inputs(program, 0), 2);
    assert_int_equal(neap_program_outputs(program, 0), 6);
    assert_int_equal(neap_program_input(program, 0, 0, &v), NEAP_OK);
    assert_int_equal(v.kind, NEAP_VALUE_INT);
    assert_int_equal(neap_program_output(program, 0, 0, &v), NEAP_OK);
    assert_int_equal(v.kind, NEAP_VALUE_TENSOR);
    assert_int_equal(v.dtype, NEAP_F32);
    assert_true(v.bounded && v.rank == 1 && v.shape[0] == 64);
    assert_int_equal(neap_program_input(program, 0, 2, &v), NEAP_EINVAL);
    assert_int_equal(neap_program_input(program, 0, -1, &v), NEAP_EINVAL);
    assert_int_equal(neap_program_output(program, 0, 6, &v), NEAP_EINVAL);
    assert_int_equal(neap_program_input(program, 1, 0, &v), NEAP_EINVAL);
    assert_null(neap_program_method_name(program, 1));
    assert_string_equal(neap_program_method_name(program, 0), "forward");
}

static void test_options(void **state)
{
    (void)state;
    static const struct {
        neap_option option;
        const char *words;
    } rows[] = {
        {{"eval_threshold", NEAP_OPTION_INT, 1, NULL}, "option eval_threshold: unknown; there are"},
        {{"", NEAP_OPTION_INT, 1, NULL}, "unknown"},
        {{NULL, NEAP_OPTION_INT, 1, NULL}, "unknown"},
        {{"clear_cache_interval", NEAP_OPTION_INT, -3, NULL}, "clear_cache_interval: -3, expected"},
        {{"clear_cache_interval", NEAP_OPTION_STRING, 0, "5"}, "\"5\" is a string"},
        {{"skip_mutable_buffer_init", NEAP_OPTION_INT, 1, NULL}, "1 is an integer, expected true"},
        {{"cache_key", NEAP_OPTION_STRING, 0, "nobody"}, "no cache is installed as \"nobody\""},
        {{"cache_key", NEAP_OPTION_STRING, 0, ""}, "cache_key"},
        {{"cache_key", NEAP_OPTION_STRING, 0, NULL}, "cache_key"},
    };
    assert_int_equal(open_program(ctx, "decode", &program), NEAP_OK);
    uint64_t before = active_bytes(ctx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
        o.n_options = 1;
        o.options = &rows[i].option;
        assert_int_equal(neap_handle_open(program, 0, &o, &handle), NEAP_EINVAL);
        if (!strstr(neap_context_error(ctx), rows[i].words))
            fail_msg("\"%s\", expected \"%s\"", neap_context_error(ctx), rows[i].words);
        assert_null(handle);
        assert_int_equal(active_bytes(ctx), before);
    }
    neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
    o.n_options = 1; /* but none are there */
    assert_int_equal(neap_handle_open(program, 0, &o, &handle), NEAP_EINVAL);
    o = (neap_handle_options)NEAP_HANDLE_OPTIONS_INIT;
    o.threads = -1;
    assert_int_equal(neap_handle_open(program, 0, &o, &handle), NEAP_EINVAL);
    assert_int_equal(active_bytes(ctx), before);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_wrong_inputs),
        TEST(test_longest_input),
        TEST(test_wrong_positions),
        TEST(test_outputs_in_place),
        TEST(test_reset),
        TEST(test_replay),
        TEST(test_replay_of_a_guess),
        TEST(test_plans_by_shape),
        TEST(test_sessions),
        TEST(test_without_first_session),
        TEST(test_sessions_of_method_state),
        TEST(test_methods_share_constants),
        TEST(test_two_handles),
        TEST(test_descriptions),
        TEST(test_options),
    };
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
