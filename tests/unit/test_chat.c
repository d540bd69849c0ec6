/* test_chat.c - conversations as Jinja renders them with the models' templates; unknown ones
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include "text/chat_template.h"
#include "unit/text_fixture.h"

static text_fixture fixture;
static json_t *goldens;

static neap_context *new_context(int64_t fail_allocation)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.fail_allocation = fail_allocation;
    neap_context_new(&o, &ctx);
    return ctx;
}

static int load_goldens(void **state)
{
    (void)state;
    goldens = json_load_file(NEAP_TEST_DIR "/golden/text/chat.json", JSON_ALLOW_NUL, NULL);
    return goldens && text_fixture_load(&fixture, NEAP_TEST_DIR "/golden/text/bpe.json") ? 0 : -1;
}

static int free_goldens(void **state)
{
    (void)state;
    json_decref(goldens);
    text_fixture_free(&fixture);
    return 0;
}

enum { MOST = 8 };

static size_t read_messages(const json_t *array, neap_chat_message *messages)
{
    json_t *item;
    size_t i;
    assert_in_range(json_array_size(array), 1, MOST);
    json_array_foreach(array, i, item)
    {
        const json_t *content = json_object_get(item, "content");
        messages[i] = (neap_chat_message){json_string_value(json_object_get(item, "role")),
                                          json_string_value(content), json_string_length(content)};
    }
    return json_array_size(array);
}

static void check_text(const neap_text *got, const json_t *want, const char *name)
{
    size_t n = json_string_length(want);
    if (got->length == n && (n == 0 || memcmp(got->data, json_string_value(want), n) == 0))
        return;
    fail_msg("%s:\n%.*s\nexpected:\n%s", name, (int)got->length, got->data ? got->data : "",
             json_string_value(want));
}

static void test_known_templates(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    json_t *row, *item;
    size_t i, k;
    int rendered = 0;
    json_array_foreach(json_object_get(goldens, "known"), i, row)
    {
        const json_t *text = json_object_get(row, "template");
        const char *name = json_string_value(json_object_get(row, "name"));
        json_array_foreach(json_object_get(row, "cases"), k, item)
        {
            neap_chat_message messages[MOST];
            size_t n = read_messages(json_object_get(item, "messages"), messages);
            bool ask = json_is_true(json_object_get(item, "ask"));
            neap_text out = {0};
            if (text) {
                neap_status status =
                    neap_chat_render(ctx, t, json_string_value(text), json_string_length(text),
                                     messages, n, ask, &out);
                if (status != NEAP_OK)
                    fail_msg("%s: %s", name, neap_context_error(ctx));
            } else {
                const np_chat_style *style = np_chat_style_named(name);
                assert_non_null(style);
                assert_int_equal(np_chat_render_style(ctx, t, style, messages, n, ask, &out),
                                 NEAP_OK);
            }
            check_text(&out, json_object_get(item, "text"), name);
            neap_text_free(ctx, &out);
            rendered++;
        }
    }
    assert_true(rendered > 200);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

static void test_near_misses_are_refused(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    const neap_chat_message hi = {"user", "Hi", 2};
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(goldens, "refused"), i, row)
    {
        const json_t *text = json_object_get(row, "template");
        neap_text out = {0};
        neap_status status = neap_chat_render(ctx, t, json_string_value(text),
                                              json_string_length(text), &hi, 1, true, &out);
        if (status != NEAP_EUNSUPPORTED)
            fail_msg("%s: status %d", json_string_value(json_object_get(row, "name")), status);
        assert_int_equal(out.length, 0);
        assert_non_null(strstr(neap_context_error(ctx), "--raw"));
        neap_context_clear_error(ctx);
    }
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* Every start of a template, and every template with a byte changed, is read without harm and,
 * where it is longer than white space, refused. */
static void test_damaged_templates(void **state)
{
    (void)state;
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(goldens, "known"), i, row)
    {
        const json_t *text = json_object_get(row, "template");
        if (!text)
            continue;
        size_t n = json_string_length(text);
        for (size_t cut = 0; cut < n; cut++) {
            char *copy = malloc(cut + 1); /* exactly sized: reading behind it is seen */
            memcpy(copy, json_string_value(text), cut);
            np_chat_fingerprint(copy, cut);
            free(copy);
        }
        char *copy = malloc(n);
        memcpy(copy, json_string_value(text), n);
        for (size_t at = 0; at < n; at++) {
            char old = copy[at];
            copy[at] = '~';
            if (!strchr(" \n", old) && np_chat_style_of(np_chat_fingerprint(copy, n)) &&
                !strstr(json_string_value(text), "a comment"))
                fail_msg("%s: byte %zu does not count",
                         json_string_value(json_object_get(row, "name")), at);
            copy[at] = old;
        }
        free(copy);
    }
}

static void test_without_a_template(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    const neap_chat_message hi = {"user", "Hi", 2};
    neap_text out = {0};
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    assert_int_equal(neap_chat_render(ctx, t, NULL, 0, &hi, 1, true, &out), NEAP_OK);
    static const char want[] = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    assert_int_equal(out.length, sizeof want - 1);
    assert_memory_equal(out.data, want, sizeof want - 1);
    neap_tokenizer_free(t);
    np_vocab vocab = fixture.vocab;
    vocab.n_tokens = vocab.n_types = 2; /* <|im_end|> is token 2 */
    vocab.n_merges = 0;
    vocab.eos = -1;
    assert_int_equal(np_tokenizer_new(ctx, &vocab, &t), NEAP_OK);
    assert_int_equal(neap_chat_render(ctx, t, NULL, 0, &hi, 1, true, &out), NEAP_EUNSUPPORTED);
    assert_int_equal(out.length, sizeof want - 1);
    assert_non_null(strstr(neap_context_error(ctx), "--raw"));
    neap_text_free(ctx, &out);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

static void test_bad_conversations(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    const neap_chat_message tool = {"tool", "x", 1};
    neap_text out = {0};
    assert_int_equal(neap_chat_render(ctx, t, NULL, 0, &tool, 0, true, &out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "no messages"));
    neap_context_clear_error(ctx);
    assert_int_equal(neap_chat_render(ctx, t, NULL, 0, &tool, 1, true, &out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "\"tool\""));
    assert_int_equal(out.length, 0);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

static void test_every_failing_allocation(void **state)
{
    (void)state;
    char *content = malloc(20000); /* the text grows several times */
    memset(content, 'x', 20000);
    const neap_chat_message messages[] = {
        {"system", content, 3000 },
        {"user",   content, 20000}
    };
    int64_t failures = 0;
    for (int64_t n = 1;; n++) {
        neap_context *ctx = new_context(n);
        if (!ctx)
            continue;
        neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
        neap_context_memory(ctx, &before);
        neap_tokenizer *t = NULL;
        neap_text out = {0};
        neap_status status = np_tokenizer_new(ctx, &fixture.vocab, &t);
        if (status == NEAP_OK)
            status = neap_chat_render(ctx, t, NULL, 0, messages, 2, true, &out);
        if (status != NEAP_OK)
            assert_int_equal(out.length, 0);
        neap_text_free(ctx, &out);
        neap_tokenizer_free(t);
        neap_context_memory(ctx, &after);
        assert_int_equal(after.active, before.active);
        neap_context_free(ctx);
        if (status == NEAP_OK)
            break;
        assert_int_equal(status, NEAP_ENOMEM);
        failures++;
    }
    assert_in_range(failures, 10, 1000);
    free(content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_templates),   cmocka_unit_test(test_near_misses_are_refused),
        cmocka_unit_test(test_damaged_templates), cmocka_unit_test(test_without_a_template),
        cmocka_unit_test(test_bad_conversations), cmocka_unit_test(test_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, load_goldens, free_goldens);
}
