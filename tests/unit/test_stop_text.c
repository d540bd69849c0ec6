/* test_stop_text.c - texts that end a generation: what is shown of a stream, piece by piece. Expected
 * pieces are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "run/stop_text.h"
#include "text/tokenizer.h"

enum { PIECES = 8 };

/* The stream comes in `in`, up to the first NULL; each piece shows `shown`, and the last ones end with
 * text `found`, or `rest` is what waited. */
typedef struct stream {
    const char *stop[3];
    const char *in[PIECES], *shown[PIECES];
    int found;
    const char *rest;
} stream;

static const stream streams[] = {
    {{"END"}, {"ab", "END"}, {"ab", ""}, 0, NULL},
    {{"END"}, {"aE", "N", "D tail"}, {"a", "", ""}, 0, NULL},
    {{"END"}, {"aE", "N", "d"}, {"a", "", "ENd"}, -1, ""},
    {{"END"}, {"aEN"}, {"a"}, -1, "EN"},
    {{"aab"}, {"a", "a", "a", "b"}, {"", "", "a", ""}, 0, NULL},
    {{"abab", "bac"}, {"aba", "c"}, {"", "a"}, 1, NULL},
    {{"xyz", "y"}, {"x", "y", "z"}, {"", "x"}, 1, NULL},
    {{"xyz", "q", "xy"}, {"axyz"}, {"a"}, 0, NULL},
    {{"\xC3\xA9t"}, {"\xC3\xA9", "\xC3\xA9", "t"}, {"", "\xC3\xA9", ""}, 0, NULL},
    {{"\n\n"}, {"a\n", "b\n", "\nc"}, {"a", "\nb", ""}, 0, NULL},
    {{NULL}, {"a", "b"}, {"a", "b"}, -1, ""},
};

static neap_context *new_context(int64_t fail)
{
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_context *ctx;
    o.threads = 1;
    o.fail_allocation = fail;
    return neap_context_new(&o, &ctx) == NEAP_OK ? ctx : NULL;
}

static int count(const char *const *stop)
{
    int n = 0;
    while (n < 3 && stop[n])
        n++;
    return n;
}

static void is_text(const neap_text *text, const char *want)
{
    assert_int_equal(text->length, strlen(want));
    assert_memory_equal(text->data ? text->data : "", want, text->length);
}

static void test_streams(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        const stream *x = &streams[i];
        np_stop_text s;
        neap_text text = {0};
        int found = -1;
        assert_int_equal(np_stop_init(ctx, &s, x->stop, count(x->stop)), NEAP_OK);
        for (int k = 0; k < PIECES && x->in[k] && found < 0; k++) {
            text.length = 0;
            assert_int_equal(neap_text_append(ctx, &text, x->in[k], strlen(x->in[k])), NEAP_OK);
            assert_int_equal(np_stop_push(ctx, &s, &text, &found), NEAP_OK);
            is_text(&text, x->shown[k]);
        }
        assert_int_equal(found, x->found);
        text.length = 0;
        if (x->rest) {
            assert_int_equal(np_stop_finish(ctx, &s, &text), NEAP_OK);
            is_text(&text, x->rest);
        }
        neap_text_free(ctx, &text);
    }
    neap_context_free(ctx);
}

static void test_refused(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    char longest[NEAP_STOP_MOST + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *bad[] = {"", NULL, "\xFF", "a\xC3", longest};
    np_stop_text s;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *stop[] = {"fine", bad[i]};
        assert_int_equal(np_stop_init(ctx, &s, stop, 2), NEAP_EINVAL);
        assert_non_null(strstr(neap_context_error(ctx), "stop text 1"));
        neap_context_clear_error(ctx);
    }
    assert_int_equal(np_stop_init(ctx, &s, NULL, 1), NEAP_EINVAL);
    neap_context_clear_error(ctx);
    const char *stop[] = {longest + 1};
    assert_int_equal(np_stop_init(ctx, &s, stop, 1), NEAP_OK);
    neap_context_free(ctx);
}

/* What waits is not lost when there is no memory to put it back. */
static void test_no_memory(void **state)
{
    (void)state;
    const char *stop[] = {"abcdefghijklmnopqrstuvwxyz"};
    int failed = 0;
    for (int64_t n = 1; n < 20; n++) {
        neap_context *ctx = new_context(n);
        if (!ctx)
            continue;
        np_stop_text s;
        neap_text text = {0};
        int found;
        assert_int_equal(np_stop_init(ctx, &s, stop, 1), NEAP_OK);
        if (neap_text_append(ctx, &text, "abc", 3) == NEAP_OK) {
            assert_int_equal(np_stop_push(ctx, &s, &text, &found), NEAP_OK);
            is_text(&text, "");
            neap_text_free(ctx, &text);
            const neap_status status = np_stop_finish(ctx, &s, &text);
            failed += status == NEAP_ENOMEM;
            if (status == NEAP_ENOMEM) {
                neap_context_clear_error(ctx);
                assert_int_equal(np_stop_finish(ctx, &s, &text), NEAP_OK);
            }
            is_text(&text, "abc");
        }
        neap_text_free(ctx, &text);
        neap_context_free(ctx);
    }
    assert_true(failed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
