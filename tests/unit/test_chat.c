/* test_chat.c - conversations as Jinja renders them with templates of every kind; what is not there,
 * or does not end, is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include <stdlib.h>

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

/* One conversation with one template: the text, or that it is refused as Jinja refuses it. */
static void check_case(neap_context *ctx, const neap_tokenizer *t, const char *name, const json_t *text,
                       const json_t *row)
{
    neap_chat_message messages[MOST];
    const size_t n = read_messages(json_object_get(row, "messages"), messages);
    const json_t *want = json_object_get(row, "text");
    neap_text out = {0};
    neap_text_append(ctx, &out, "before", 6);
    const neap_status status =
        neap_chat_render(ctx, t, json_string_value(text), json_string_length(text), messages, n,
                         json_is_true(json_object_get(row, "ask")), &out);
    if (want && status != NEAP_OK)
        fail_msg("%s: %s", name, neap_context_error(ctx));
    if (!want && status != NEAP_EFORMAT && status != NEAP_EINVAL && status != NEAP_ELIMIT)
        fail_msg("%s: status %d, and Jinja raises %s", name, status,
                 json_string_value(json_object_get(row, "raises")));
    neap_context_clear_error(ctx);
    assert_memory_equal(out.data, "before", 6);
    out.length -= 6;
    memmove(out.data, out.data + 6, out.length);
    if (want)
        check_text(&out, want, name);
    else
        assert_int_equal(out.length, 0);
    neap_text_free(ctx, &out);
}

static int check_rows(neap_context *ctx, const neap_tokenizer *t, const char *key, bool by_name)
{
    json_t *row, *item;
    size_t i, k, length;
    int rendered = 0;
    json_array_foreach(json_object_get(goldens, key), i, row)
    {
        const json_t *text = json_object_get(row, "template");
        const char *name = json_string_value(json_object_get(row, "name"));
        if (by_name) { /* the library's own text */
            const char *own = neap_chat_template_named(name, &length);
            assert_non_null(own);
            assert_string_equal(own, json_string_value(text));
            assert_int_equal(length, strlen(own));
        }
        json_array_foreach(json_object_get(row, "cases"), k, item)
        {
            check_case(ctx, t, name, text, item);
            rendered++;
        }
    }
    return rendered;
}

static void test_as_jinja_renders(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    neap_context_memory(ctx, &before);
    assert_true(check_rows(ctx, t, "templates", false) > 800);
    assert_true(check_rows(ctx, t, "named", true) > 700);
    neap_context_memory(ctx, &after);
    assert_int_equal(after.active, before.active);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

static void test_names(void **state)
{
    (void)state;
    size_t n = 0, length = 1;
    for (const char *name; (name = neap_chat_template_name(n)) != NULL; n++) {
        assert_non_null(neap_chat_template_named(name, &length));
        assert_true(length > 0);
    }
    assert_int_equal(n, json_array_size(json_object_get(goldens, "named")));
    assert_null(neap_chat_template_named("nope", &length));
    assert_int_equal(length, 0);
    assert_null(neap_chat_template_named(NULL, &length));
}

#define LONG_TEXT "{% set s = ' ' * 2000000 %}{% set t = ' ' * 2000000 %}"

typedef struct refused_row {
    const char *text;
    neap_status status;
    const char *message;
} refused_row;

static void check_refused(const refused_row *rows, size_t n)
{
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    const neap_chat_message hi = {"user", "Hi", 2};
    for (size_t i = 0; i < n; i++) {
        neap_text out = {0};
        const neap_status status =
            neap_chat_render(ctx, t, rows[i].text, strlen(rows[i].text), &hi, 1, true, &out);
        if (status != rows[i].status || !strstr(neap_context_error(ctx), rows[i].message) ||
            !strstr(neap_context_error(ctx), "chat template, line "))
            fail_msg("%s: status %d: %s", rows[i].text, status, neap_context_error(ctx));
        assert_int_equal(out.length, 0);
        neap_text_free(ctx, &out);
        neap_context_clear_error(ctx);
    }
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* The status and a word of the message for templates that are refused, or that never end. */
static void test_refused(void **state)
{
    (void)state;
    static const refused_row rows[] = {
        {"a\n{% include 'x' %}", NEAP_EUNSUPPORTED, "line 2: the statement {% include %}"},
        {"{% call f() %}{% endcall %}", NEAP_EUNSUPPORTED, "{% call %}"},
        {"{% import 'x' as y %}", NEAP_EUNSUPPORTED, "{% import %}"},
        {"{% block x %}{% endblock %}", NEAP_EUNSUPPORTED, "{% block %}"},
        {"\n\n{{ 'a' | wordwrap }}", NEAP_EUNSUPPORTED, "line 3: the filter \"wordwrap\""},
        {"{{ 'a' | groupby('x') }}", NEAP_EUNSUPPORTED, "groupby"},
        {"{{ 'a' | format }}", NEAP_EUNSUPPORTED, "format"},
        {"{{ '%s' % 'a' }}", NEAP_EUNSUPPORTED, "% behind a string"},
        {"{{ 'a'.zfill(3) }}", NEAP_EUNSUPPORTED, "zfill"},
        {"{{ 'a'.encode() }}", NEAP_EUNSUPPORTED, "encode"},
        {"{{ cycler('a') }}", NEAP_EUNSUPPORTED, "cycler"},
        {"{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", NEAP_EUNSUPPORTED, "caller"},
        {"{% for x in [1] recursive %}{% endfor %}", NEAP_EUNSUPPORTED, "recursive"},
        {"{{ {}.items() }}", NEAP_EUNSUPPORTED, "view"},
        {"{{ \xC3\xA9 }}", NEAP_EUNSUPPORTED, "ASCII"},
        {"{{ raise_exception('Only user messages') }}", NEAP_EINVAL, "line 1: Only user messages"},
        {"{{ 99999999999999999999 }}", NEAP_ELIMIT, "64 bits"},
        {"{{ 2 ** 64 }}", NEAP_ELIMIT, "64 bits"},
        {"{{ 'abcdefgh' * 100000000 }}", NEAP_ELIMIT, "bytes"},
        {"{{ [1] * 1000000000 }}", NEAP_ELIMIT, "bytes"},
        {"{{ [1, 2, 3, 4] * 4611686018427387904 }}", NEAP_ELIMIT, "64 bits"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", NEAP_ELIMIT, "deep"},
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", NEAP_ELIMIT, ""},
        {"{% set n = namespace(x='a') %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
         NEAP_ELIMIT, "bytes"},
        {"{% set n = namespace(x=[]) %}{% for a in range(99) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
         NEAP_ELIMIT, "nested"},
        {"{% set n = namespace(x=[]) %}{% for a in range(99) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x | tojson }}",
         NEAP_ELIMIT, "nested"},
    };
    check_refused(rows, sizeof rows / sizeof rows[0]);
}

/* Work that makes nothing counts as well. */
static void test_work_is_counted(void **state)
{
    (void)state;
    static const refused_row rows[] = {
        {LONG_TEXT "{% for i in range(99999) %}{{ s | length }}{% endfor %}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{% for i in range(99999) %}{{ s | trim }}{% endfor %}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{% for i in range(99999) %}{{ s.strip('x ') }}{% endfor %}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{% for i in range(99999) %}{{ s == t }}{% endfor %}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{% for i in range(99999) %}{{ s < t }}{% endfor %}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{% for i in range(99999) %}{{ s.isspace() }}{{ s is lower }}{% endfor %}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{% for i in range(99999) %}{{ {t: 1}[s] }}{% endfor %}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{{ s.rfind('x' + s[:500000]) }}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{{ s.strip('x' * 1000000 + ' ') }}", NEAP_ELIMIT, "steps"},
        {LONG_TEXT "{{ s.find(s[:500000] + 'x') }}{{ none.x.y }}", NEAP_EFORMAT, "undefined"},
    };
    check_refused(rows, sizeof rows / sizeof rows[0]);
}

static char *repeated(const char *before, const char *part, size_t times, const char *after)
{
    const size_t n = strlen(part);
    char *text = malloc(strlen(before) + n * times + strlen(after) + 1);
    char *at = text + sprintf(text, "%s", before);
    for (size_t i = 0; i < times; i++, at += n)
        memcpy(at, part, n);
    strcpy(at, after);
    return text;
}

/* What goes on and on in the template goes through or is refused, and never as deep as it is long. */
static void test_deep_templates(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"{{ ",       "(",                   "" },
        {"{{ ",       "[",                   "" },
        {"{{ ",       "{1:",                 "" },
        {"{{ ",       "not ",                "1 }}"},
        {"{{ ",       "- ",                  "1 }}"},
        {"{{ 1",      " + 1",                " }}"},
        {"{{ 'a'",    " ~ 'a'",              " }}"},
        {"{{ 1",      " and 1",              " }}"},
        {"{{ 'a'",    "|upper",              " }}"},
        {"{{ x",      ".x",                  " }}"},
        {"{{ 1",      " if 1 else 1",        " }}"},
        {"{{ 'a'",    " 'a'",                " }}"},
        {"",          "{% if 1 %}",          "" },
        {"",          "{% for a in [1] %}",  "" },
        {"{% if 0 %}", "{% elif 0 %}",       "{% endif %}"},
        {"",          "{# #}",               "" },
        {"",          "{{ 1 }}",             "" },
        {"",          "{",                   "" },
        {"{% set a %}", "{% set a %}",       "" },
    };
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    const neap_chat_message hi = {"user", "Hi", 2};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = repeated(rows[i][0], rows[i][1], 50000, rows[i][2]);
        neap_text out = {0};
        const neap_status status = neap_chat_render(ctx, t, text, strlen(text), &hi, 1, true, &out);
        if (status != NEAP_OK && status != NEAP_ELIMIT && status != NEAP_EFORMAT)
            fail_msg("%.30s: status %d: %s", text, status, neap_context_error(ctx));
        neap_text_free(ctx, &out);
        neap_context_clear_error(ctx);
        free(text);
    }
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* Every start of a template, and every template with a byte changed, is read without harm. */
static void test_damaged_templates(void **state)
{
    (void)state;
    json_t *row;
    size_t i;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    const neap_chat_message hi = {"user", "Hi", 2};
    json_array_foreach(json_object_get(goldens, "templates"), i, row)
    {
        const json_t *text = json_object_get(row, "template");
        const size_t n = json_string_length(text);
        for (size_t at = 0; at < n; at += 1 + n / 100) {
            for (int kind = 0; kind < 2; kind++) {
                const size_t length = kind ? n : at + 1;
                char *copy = malloc(length); /* exactly sized: reading behind it is seen */
                memcpy(copy, json_string_value(text), length);
                copy[at] = kind ? '~' : copy[at];
                neap_text out = {0};
                if (neap_chat_render(ctx, t, copy, length, &hi, 1, true, &out) != NEAP_OK)
                    assert_int_equal(out.length, 0);
                neap_text_free(ctx, &out);
                neap_context_clear_error(ctx);
                free(copy);
            }
        }
    }
    neap_tokenizer_free(t);
    neap_context_free(ctx);
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
    const neap_chat_message tool = {"tool", "x", 1}, nobody = {NULL, "x", 1}, nothing = {"user", NULL, 1};
    neap_text out = {0};
    assert_int_equal(neap_chat_render(ctx, t, NULL, 0, &tool, 0, true, &out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "no messages"));
    neap_context_clear_error(ctx);
    assert_int_equal(neap_chat_render(ctx, t, NULL, 0, &nobody, 1, true, &out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "no role"));
    neap_context_clear_error(ctx);
    assert_int_equal(neap_chat_render(ctx, t, NULL, 0, &nothing, 1, true, &out), NEAP_EINVAL);
    assert_int_equal(out.length, 0);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

static const json_t *template_called(const char *name)
{
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(goldens, "templates"), i, row)
    {
        if (!strcmp(json_string_value(json_object_get(row, "name")), name))
            return json_object_get(row, "template");
    }
    fail_msg("no template %s", name);
    return NULL;
}

static void fail_every_allocation(const char *text, size_t length)
{
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
            status = neap_chat_render(ctx, t, text, length, messages, 2, true, &out);
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

static void test_every_failing_allocation(void **state)
{
    (void)state;
    static const char *const names[] = {"statements", "filters", "methods", "expressions"};
    fail_every_allocation(NULL, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *text = template_called(names[i]);
        fail_every_allocation(json_string_value(text), json_string_length(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_jinja_renders),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused),           cmocka_unit_test(test_deep_templates),
        cmocka_unit_test(test_work_is_counted),
        cmocka_unit_test(test_damaged_templates), cmocka_unit_test(test_without_a_template),
        cmocka_unit_test(test_bad_conversations), cmocka_unit_test(test_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, load_goldens, free_goldens);
}
