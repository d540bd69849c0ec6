/* test_decoder.c - text from programs: tests/golden/pte/next_token*.pte, whose tokens follow a rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "neap/decoder.h"

enum { CONTEXT = 24, VOCABULARY = 16 };

/* tools/make_pte_cases.py, next_token. */
static int32_t next_token(int32_t id, int64_t position)
{
    return (int32_t)(position % 3 == 0 ? position % VOCABULARY : (5 * id + 3) % VOCABULARY);
}

typedef struct fixture {
    neap_context *ctx;
    neap_program *program;
    neap_handle *handle;
} fixture;

static neap_status open_file(fixture *f, const char *name, int64_t fail_allocation)
{
    char path[512];
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.fail_allocation = fail_allocation;
    *f = (fixture){0};
    snprintf(path, sizeof path, "%s/golden/pte/%s.pte", NEAP_TEST_DIR, name);
    neap_status status = neap_context_new(&o, &f->ctx);
    if (status == NEAP_OK)
        status = neap_program_open(f->ctx, path, &f->program);
    if (status == NEAP_OK)
        status = neap_handle_open(f->program, neap_program_find_method(f->program, "forward"), NULL,
                                  &f->handle);
    return status;
}

static void close_file(fixture *f)
{
    neap_handle_close(f->handle);
    neap_program_close(f->program);
    neap_context_free(f->ctx);
}

typedef struct told {
    int32_t ids[64];
    int count, stop_at;
} told;

static bool on_token(void *user, int32_t id, const char *text, size_t length, const float *logits)
{
    told *t = user;
    assert_true(id >= 0 && id < VOCABULARY && length == 0 && (text || !text));
    assert_true(logits[id] >= 8);
    t->ids[t->count++] = id;
    return t->count != t->stop_at;
}

static neap_status generate(neap_decoder *d, int64_t n, int64_t new_tokens, told *t,
                            neap_generate_result *r)
{
    static const int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    o.max_tokens = new_tokens;
    o.on_token = on_token;
    o.user = t;
    neap_status status = neap_decoder_generate(d, prompt, n, &o, r);
    int32_t id = prompt[n - 1];
    for (int i = 0; status == NEAP_OK && i < t->count; i++) {
        id = next_token(id, n - 1 + i);
        assert_int_equal(t->ids[i], id);
    }
    return status;
}

static void test_rule(void **state)
{
    (void)state;
    static const char *const names[] = {"next_token", "next_token_single"};
    for (int k = 0; k < 2; k++)
        for (int64_t chunk = 0; chunk <= 9; chunk++) {
            fixture f;
            neap_decoder *d;
            neap_decoder_options o = NEAP_DECODER_OPTIONS_INIT;
            neap_decoder_info i = NEAP_DECODER_INFO_INIT;
            o.chunk = chunk;
            assert_int_equal(open_file(&f, names[k], 0), NEAP_OK);
            assert_int_equal(neap_decoder_new(f.handle, &o, &d), NEAP_OK);
            neap_decoder_describe(d, &i);
            assert_int_equal(i.context, CONTEXT);
            assert_int_equal(i.vocabulary, VOCABULARY);
            assert_int_equal(i.longest_call, k ? 1 : 8);
            assert_int_equal(i.chunk, k ? 1 : chunk && chunk < 8 ? chunk : 8);
            for (int round = 0; round < 2; round++) {
                told t = {.count = 0};
                neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
                assert_int_equal(generate(d, 10, 100, &t, &r), NEAP_OK);
                assert_int_equal(t.count, CONTEXT - 10 + 1);
                assert_int_equal(r.finish, NEAP_FINISH_LENGTH);
                assert_int_equal(r.decode_steps, CONTEXT - 10);
                assert_int_equal(neap_decoder_position(d), CONTEXT);
                assert_int_equal(neap_decoder_reset(d), NEAP_OK);
            }
            told t = {.stop_at = 3};
            neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
            assert_int_equal(generate(d, 12, 8, &t, &r), NEAP_OK);
            assert_int_equal(r.finish, NEAP_FINISH_CALLER);
            neap_decoder_free(d);
            close_file(&f);
        }
}

static void fails(fixture *f, neap_status got, neap_status status, const char *text)
{
    neap_context *ctx = f->handle ? neap_handle_context(f->handle) : f->ctx;
    if (got != status || !strstr(neap_context_error(ctx), text))
        fail_msg("%s: %s, expected %s: %s", neap_status_name(got), neap_context_error(ctx),
                 neap_status_name(status), text);
}

static void test_limits(void **state)
{
    (void)state;
    fixture f;
    neap_decoder *d = NULL;
    neap_decoder_options o = NEAP_DECODER_OPTIONS_INIT;
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    const int32_t ids[CONTEXT + 1] = {0}, wrong[2] = {1, VOCABULARY};
    assert_int_equal(open_file(&f, "next_token", 0), NEAP_OK);
    o.context = CONTEXT + 1;
    fails(&f, neap_decoder_new(f.handle, &o, &d), NEAP_EINVAL, "context: 25, the program allows 1 to 24");
    assert_null(d);
    o.context = -1;
    fails(&f, neap_decoder_new(f.handle, &o, &d), NEAP_EINVAL, "context: -1");
    o.context = 0;
    o.chunk = -1;
    fails(&f, neap_decoder_new(f.handle, &o, &d), NEAP_EINVAL, "chunk: -1, expected 0 or more");
    assert_int_equal(neap_decoder_new(f.handle, NULL, &d), NEAP_OK);
    fails(&f, neap_decoder_feed(d, ids, 0), NEAP_EINVAL, "0 tokens, expected 1 or more");
    fails(&f, neap_decoder_feed(d, ids, CONTEXT + 1), NEAP_ELIMIT,
          "25 tokens more do not fit: the context holds 0 of 24");
    fails(&f, neap_decoder_feed(d, wrong, 2), NEAP_EINVAL, "token 1 is 16, the vocabulary has 16");
    fails(&f, neap_decoder_plan(d, ids, 9, 0, &plan, NULL, NULL), NEAP_EINVAL,
          "9 tokens, a call takes at most 8");
    assert_int_equal(neap_decoder_plan(d, ids, 8, CONTEXT - 8, &plan, NULL, NULL), NEAP_OK);
    assert_true(plan.planned_peak_bytes > 0);
    assert_int_equal(neap_decoder_feed(d, ids, CONTEXT), NEAP_OK);
    fails(&f, neap_decoder_feed(d, ids, 1), NEAP_ELIMIT,
          "1 tokens more do not fit: the context holds 24 of 24");
    neap_decoder_free(d);
    close_file(&f);
}

static void test_other_programs(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"th01_flat8",  "method forward takes 1 inputs, text needs two"         },
        {"two_inputs",  "its inputs are not ids [1, T] and positions [T]"       },
        {"length_bound", "its inputs are not ids [1, T] and positions [T]"      },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f;
        neap_decoder *d;
        neap_decoder_info info = NEAP_DECODER_INFO_INIT;
        assert_int_equal(open_file(&f, rows[i].name, 0), NEAP_OK);
        fails(&f, neap_decoder_new(f.handle, NULL, &d), NEAP_EUNSUPPORTED, rows[i].text);
        assert_null(d);
        assert_int_equal(neap_decoder_inspect(f.program, 0, &info), NEAP_EUNSUPPORTED);
        assert_int_equal(neap_decoder_inspect(f.program, 7, &info), NEAP_EINVAL);
        close_file(&f);
    }
}

static void test_failing_allocations(void **state)
{
    (void)state;
    int failures = 0;
    for (int64_t n = 1;; n++) {
        fixture f;
        neap_decoder *d = NULL;
        told t = {.count = 0};
        neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
        neap_status status = open_file(&f, "next_token", n);
        if (status == NEAP_OK)
            status = neap_decoder_new(f.handle, NULL, &d);
        if (status == NEAP_OK)
            status = generate(d, 10, 4, &t, &r);
        assert_true(status == NEAP_OK || status == NEAP_ENOMEM);
        failures += status == NEAP_ENOMEM;
        neap_decoder_free(d);
        if (f.ctx)
            close_file(&f);
        if (status == NEAP_OK)
            break;
    }
    assert_true(failures > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_other_programs),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
