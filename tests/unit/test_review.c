/* test_review.c - misuse and corners of the public interface that once went wrong: a context that
 * fails to start, states reset under recorded work, views of a value that waits, sizes that
 * overflow, options of an unknown size, two sessions of one model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "neap/neap.h"

static neap_context *open_context(uint64_t limit)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.memory_limit = limit;
    o.threads = 1;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    return ctx;
}

static void close_context(neap_context *ctx)
{
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

static neap_state *new_state(neap_context *ctx)
{
    neap_state *s;
    assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 1, (const int64_t[]){3}, &s), NEAP_OK);
    return s;
}

static neap_array *three(float a, float b, float c)
{
    return neap_array_from(NEAP_F32, 1, (const int64_t[]){3}, (const float[]){a, b, c});
}

static void assert_three(neap_array *x, float a, float b, float c)
{
    float got[3];
    assert_int_equal(neap_array_read(x, got, sizeof got), NEAP_OK);
    assert_memory_equal(got, ((const float[]){a, b, c}), sizeof got);
}

/* ---- contexts -----------------------------------------------------------------------------------
 */

/* A child of five lanes whose n-th allocation fails leaves nothing booked on its parent. */
static void test_a_child_that_fails_leaves_its_parent_as_it_was(void **state)
{
    (void)state;
    neap_context *parent = open_context(0), *child = NULL;
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(parent, &before);
    for (int64_t n = 1; !child && n < 100; n++) {
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = 5;
        o.fail_allocation = n;
        if (neap_context_new_child(parent, &o, &child) == NEAP_OK)
            neap_context_free(child);
        neap_context_clear_error(parent);
        neap_context_memory(parent, &after);
        assert_int_equal(after.cached, before.cached);
        for (int c = 0; c < NEAP_MEM_CATEGORIES; c++)
            assert_int_equal(after.active_by_category[c], before.active_by_category[c]);
    }
    assert_non_null(child);
    close_context(parent);
}

static void test_null_is_answered(void **state)
{
    (void)state;
    assert_int_equal(neap_scope_push(NULL), NEAP_ENOCONTEXT);
    neap_scope_pop(NULL);
    assert_int_equal(neap_array_rank(NULL), 0);
    assert_null(neap_array_shape(NULL));
    assert_int_equal(neap_array_size(NULL), 0);
    assert_int_equal(neap_array_bytes(NULL), 0);
    assert_false(neap_array_is_value(NULL));
    neap_context *ctx = open_context(0);
    neap_array *parts[2];
    assert_int_equal(neap_split(NULL, 2, 0, parts), NEAP_EINVAL);
    assert_null(neap_array_from(NEAP_F32, 1, (const int64_t[]){3}, NULL));
    assert_int_equal(neap_context_status(ctx), NEAP_EINVAL);
    close_context(ctx);
}

/* Popped in the order of pushing, the second pop names a context without a scope. */
static void test_scopes_popped_in_the_wrong_order(void **state)
{
    (void)state;
    neap_context *a = open_context(0), *b = open_context(0);
    neap_scope_pop(a);
    neap_scope_pop(b);
    assert_null(neap_scalar(NEAP_F32, 1));
    neap_context_free(a);
    neap_context_free(b);
}

/* ---- memory
 * --------------------------------------------------------------------------------------- */

/* The idle arena of an evaluation gives way to a value that would not fit beside it. */
static void test_the_idle_arena_gives_way(void **state)
{
    (void)state;
    neap_context *ctx = open_context(12u << 20);
    const int64_t n = 1 << 20;
    neap_array *small = neap_sum(neap_exp(neap_full(1, &n, 0, NEAP_F32)), 0, 0);
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    assert_int_equal(neap_eval(small), NEAP_OK);
    neap_context_memory(ctx, &m);
    assert_true(m.cached >= 4u << 20);
    const int64_t more = (10 << 20) / 4;
    assert_non_null(neap_array_zeros(NEAP_F32, 1, &more));
    close_context(ctx);
}

/* Four values of 2^62 bytes alive at once: their sum is 2^64. */
static void test_sizes_that_overflow_together(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0);
    const int64_t n = (int64_t)1 << 60;
    neap_array *x = neap_full(1, &n, 1, NEAP_F32), *sum = NULL;
    neap_array *a = neap_exp(x), *b = neap_sqrt(x), *c = neap_neg(x), *d = neap_tanh(x);
    sum = neap_sum(neap_add(neap_add(a, b), neap_add(c, d)), 0, 0);
    assert_non_null(sum);
    assert_int_equal(neap_eval(sum), NEAP_ENOMEM);
    close_context(ctx);
}

/* A parameter so large that position times stride, in bytes, is 2^64. */
static void test_a_position_that_overflows(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0);
    neap_state *s;
    neap_param *at;
    const int64_t shape[2] = {4, 16};
    assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 2, shape, &s), NEAP_OK);
    assert_int_equal(neap_param_new(ctx, "at", (int64_t)1 << 60, &at), NEAP_OK);
    neap_array *row = neap_full(2, (const int64_t[]){1, 16}, 1, NEAP_F32);
    assert_non_null(neap_state_write(neap_narrow_at(neap_state_read(s), 0, at, 0, 1), row));
    assert_int_equal(neap_param_set(at, (int64_t)1 << 58), NEAP_OK);
    assert_int_equal(neap_state_flush(s), NEAP_ELIMIT);
    neap_state_free(s);
    neap_scope_pop(ctx);
    neap_param_free(at);
    neap_context_free(ctx);
}

/* ---- states and order
 * ------------------------------------------------------------------------------ */

static void test_reset_outdates_what_was_recorded(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0);
    neap_state *s = new_state(ctx);
    neap_array *first = neap_state_write(neap_state_read(s), three(1, 2, 3));
    neap_array *read = neap_exp(neap_state_read(s));
    assert_int_equal(neap_state_reset(s), NEAP_OK);
    assert_int_equal(neap_eval(read), NEAP_ESTALE);
    assert_int_equal(neap_eval(first), NEAP_ESTALE);
    neap_array *now = neap_state_read(s);
    assert_int_equal(neap_eval(now), NEAP_OK);
    assert_three(now, 0, 0, 0);
    neap_state_write(neap_state_read(s), three(4, 5, 6));
    assert_int_equal(neap_state_flush(s), NEAP_OK);
    now = neap_state_read(s);
    assert_int_equal(neap_eval(now), NEAP_OK);
    assert_three(now, 4, 5, 6);
    neap_state_free(s);
    close_context(ctx);
}

/* Views of a value that waits for writes wait too, however many there are. */
static void test_views_keep_what_a_value_waits_for(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0);
    neap_state *s = new_state(ctx), *t = new_state(ctx);
    neap_array *w = neap_state_write(neap_state_read(s), three(1, 2, 3));
    neap_array *v = neap_state_write(neap_state_read(t), three(4, 5, 6));
    neap_array *x = neap_depends(neap_depends(three(7, 8, 9), w), v);
    neap_array *y = neap_reshape(neap_expand_dims(x, 0), 1, (const int64_t[]){3});
    neap_array *sum = neap_add(y, neap_scalar(NEAP_F32, 1));
    neap_plan *p;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    assert_int_equal(neap_plan_make(ctx, 1, &sum, 0, NULL, &p), NEAP_OK);
    neap_plan_describe(p, &info);
    assert_int_equal(info.steps, 3); /* both writes and the sum */
    assert_int_equal(neap_plan_run(p, NULL), NEAP_OK);
    neap_array *rs = neap_state_read(s), *rt = neap_state_read(t);
    assert_int_equal(neap_eval(rs), NEAP_OK);
    assert_int_equal(neap_eval(rt), NEAP_OK);
    assert_three(rs, 1, 2, 3);
    assert_three(rt, 4, 5, 6);
    neap_plan_free(p);
    neap_state_free(s);
    neap_state_free(t);
    close_context(ctx);
}

/* ---- models
 * ---------------------------------------------------------------------------------------- */

/* Opening a pipe that nobody writes to is refused, not waited for. */
static void test_a_pipe_is_no_model(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0);
    neap_model *m;
    char path[64];
    snprintf(path, sizeof path, "/tmp/neap-test-review-%d.pipe", (int)getpid());
    assert_int_equal(mkfifo(path, 0600), 0);
    neap_status status = neap_model_open(ctx, path, &m);
    unlink(path);
    assert_int_equal(status, NEAP_EIO);
    close_context(ctx);
}

static void test_options_of_an_unknown_size(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0);
    neap_model *m;
    neap_session *s;
    assert_int_equal(neap_model_open(ctx, NEAP_TEST_DIR "/golden/tiny-llama-q8_0.gguf", &m),
                     NEAP_OK);
    neap_session_options o = NEAP_SESSION_OPTIONS_INIT;
    const size_t sizes[2] = {0, sizeof o + 8};
    for (int i = 0; i < 2; i++) {
        o.size = sizes[i];
        assert_int_equal(neap_session_new(m, &o, &s), NEAP_EINVAL);
        assert_null(s);
        neap_context_clear_error(ctx);
    }
    neap_model_free(m);
    close_context(ctx);
}

/* The layout that the first session planned with stays, whatever the second asks for. */
static void test_two_sessions_of_one_model(void **state)
{
    (void)state;
    static const neap_weights_mode modes[2] = {NEAP_WEIGHTS_REPACKED, NEAP_WEIGHTS_MAPPED};
    const int32_t ids[5] = {5, 80, 9, 200, 41};
    float want[300] = {0};
    for (int first = 0; first < 2; first++) {
        neap_context *ctx = open_context(0);
        neap_model *m;
        neap_session *s[2];
        assert_int_equal(neap_model_open(ctx, NEAP_TEST_DIR "/golden/tiny-llama-q8_0.gguf", &m),
                         NEAP_OK);
        for (int i = 0; i < 2; i++) {
            neap_session_options o = NEAP_SESSION_OPTIONS_INIT;
            o.context = 64;
            o.weights = modes[first ^ i];
            assert_int_equal(neap_session_new(m, &o, &s[i]), NEAP_OK);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(neap_session_prefill(s[i], ids, 5), NEAP_OK);
            const float *got = neap_session_logits(s[i]);
            if (first == 0 && i == 0)
                memcpy(want, got, sizeof want);
            assert_memory_equal(got, want, sizeof want); /* the same bits in either layout */
        }
        neap_session_free(s[0]);
        neap_session_free(s[1]);
        neap_model_free(m);
        close_context(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_that_fails_leaves_its_parent_as_it_was),
        cmocka_unit_test(test_null_is_answered),
        cmocka_unit_test(test_scopes_popped_in_the_wrong_order),
        cmocka_unit_test(test_the_idle_arena_gives_way),
        cmocka_unit_test(test_sizes_that_overflow_together),
        cmocka_unit_test(test_a_position_that_overflows),
        cmocka_unit_test(test_reset_outdates_what_was_recorded),
        cmocka_unit_test(test_views_keep_what_a_value_waits_for),
        cmocka_unit_test(test_a_pipe_is_no_model),
        cmocka_unit_test(test_options_of_an_unknown_size),
        cmocka_unit_test(test_two_sessions_of_one_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
