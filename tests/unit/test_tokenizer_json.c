/* test_tokenizer_json.c - tokenizer.json files against Hugging Face's tokenizers
 * (tools/make_tokenizer_goldens.py), broken files, hostile ones, failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/tokenizer_json.h"
#include "places.h"

#define FOLDER NEAP_TEST_DIR "/golden/tokenizers/"

static neap_context *new_context(int64_t fail_allocation)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.fail_allocation = fail_allocation;
    neap_context_new(&o, &ctx);
    return ctx;
}

static neap_memory_info memory(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m;
}

static np_bytes text_bytes(const char *text)
{
    return (np_bytes){(const uint8_t *)text, strlen(text)};
}

static neap_status open_text(neap_context *ctx, np_bytes text, neap_tokenizer **out)
{
    np_json_tree none = {.ctx = ctx};
    return np_tokenizer_json(ctx, text, &none, out);
}

static char *read_whole(const char *path, size_t *size)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    FILE *f = fopen(path, "rb");
    char *bytes = malloc((size_t)st.st_size + 1);
    assert_true(f && bytes);
    *size = fread(bytes, 1, (size_t)st.st_size, f);
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

/* ---- goldens -------------------------------------------------------------------------------- */

static void check_ids(const neap_ids *got, const json_t *want, const char *text)
{
    bool same = got->count == json_array_size(want);
    for (size_t i = 0; same && i < got->count; i++)
        same = got->data[i] == json_integer_value(json_array_get(want, i));
    if (same)
        return;
    print_error("\"%s\" gives", text);
    for (size_t i = 0; i < got->count; i++)
        print_error(" %d", got->data[i]);
    print_error("\n");
    fail();
}

static void check_text(neap_context *ctx, const neap_tokenizer *t, const neap_ids *ids,
                       unsigned flags, const json_t *want)
{
    neap_text out = {0};
    assert_int_equal(neap_tokenizer_decode(ctx, t, ids->data, ids->count, flags, &out), NEAP_OK);
    if (out.length != json_string_length(want) ||
        (out.length && memcmp(out.data, json_string_value(want), out.length) != 0))
        fail_msg("\"%.*s\", expected \"%s\"", (int)out.length, out.data, json_string_value(want));
    neap_text_free(ctx, &out);
}

static void check_case(neap_context *ctx, const neap_tokenizer *t, const json_t *row)
{
    const json_t *text = json_object_get(row, "text"), *all = json_object_get(row, "all");
    unsigned plain = json_is_true(json_object_get(row, "plain")) ? NEAP_ENCODE_PLAIN : 0;
    neap_ids ids = {0};
    assert_int_equal(neap_tokenizer_encode(ctx, t, json_string_value(text),
                                           json_string_length(text), plain | NEAP_ENCODE_NO_BOS,
                                           &ids),
                     NEAP_OK);
    check_ids(&ids, json_object_get(row, "ids"), json_string_value(text));
    check_text(ctx, t, &ids, 0, json_object_get(row, "decoded"));
    if (all)
        check_text(ctx, t, &ids, NEAP_DECODE_SPECIAL, all);
    neap_ids_free(ctx, &ids);
}

static void check_goldens(const char *tokenizer, const char *cases)
{
    neap_context *ctx = new_context(0);
    uint64_t before = memory(ctx).active;
    neap_tokenizer *t = NULL;
    if (neap_tokenizer_open(ctx, tokenizer, &t) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    json_t *root = json_load_file(cases, JSON_ALLOW_NUL, NULL), *row;
    json_t *rows = json_object_get(root, "cases");
    size_t i;
    assert_in_range(json_array_size(rows), 100, 2000);
    json_array_foreach(rows, i, row) check_case(ctx, t, row);
    neap_ids round = {0};
    assert_int_equal(neap_tokenizer_encode(ctx, t, "", 0, 0, &round), NEAP_OK);
    check_ids(&round, json_object_get(root, "round"), "");
    neap_ids_free(ctx, &round);
    json_decref(root);
    neap_tokenizer_free(t);
    assert_int_equal(memory(ctx).active, before);
    assert_int_equal(memory(ctx).mapped, 0);
    neap_context_free(ctx);
}

static void test_ids_and_texts_equal_hugging_face(void **state)
{
    (void)state;
    static const char *const names[] = {"digits", "llama3", "roberta",  "qwen",     "cuts",
                                        "llama2", "gemma",  "mistral", "metaspace"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char tokenizer[256], cases[256];
        snprintf(tokenizer, sizeof tokenizer, FOLDER "%s.json", names[i]);
        snprintf(cases, sizeof cases, FOLDER "%s.cases.json", names[i]);
        check_goldens(tokenizer, cases);
    }
}

/* ---- files drawn over all fields, and patterns (tools/compare_tokenizers.py) ------------------ */

static json_t *load(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", FOLDER, name);
    json_t *value = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    return value;
}

/* The ids of all texts; false, and the error is the context's, if the file is refused. */
static bool check_file(neap_context *ctx, const json_t *file, const json_t *texts, const json_t *want)
{
    char *text = json_dumps(file, JSON_COMPACT);
    neap_tokenizer *t = NULL;
    neap_status status = open_text(ctx, (np_bytes){(const uint8_t *)text, strlen(text)}, &t);
    for (size_t i = 0; i < json_array_size(texts) && status == NEAP_OK; i++) {
        const json_t *line = json_array_get(texts, i);
        neap_ids ids = {0};
        assert_int_equal(neap_tokenizer_encode(ctx, t, json_string_value(line),
                                               json_string_length(line), 0, &ids),
                         NEAP_OK);
        check_ids(&ids, json_array_get(want, i), json_string_value(line));
        neap_ids_free(ctx, &ids);
    }
    neap_tokenizer_free(t);
    free(text);
    return status == NEAP_OK;
}

static void test_drawn_files(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    json_t *rows = load("drawn.json");
    assert_true(json_array_size(rows) >= 60);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!check_file(ctx, json_object_get(row, "file"), json_object_get(row, "texts"),
                        json_object_get(row, "ids")))
            fail_msg("draw %d: %s", (int)json_integer_value(json_object_get(row, "draw")),
                     neap_context_error(ctx));
    }
    json_decref(rows);
    neap_context_free(ctx);
}

/* Each is as Oniguruma has it, or refused: these, and no others. */
static bool is_refused_pattern(const char *regex)
{
    static const char *const refused[] = {"\\X", "a{1,2}+", "[a-c&&b-d]", "(?x: a b )",
                                          "(?i)strasse"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(refused[i], regex) == 0)
            return true;
    return false;
}

static void test_patterns(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    json_t *all = load("patterns.json"), *file = json_object_get(all, "file");
    const json_t *rows = json_object_get(all, "rows"), *texts = json_object_get(all, "texts");
    assert_true(json_array_size(rows) >= 150);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_t *step = json_object_get(row, "step");
        const char *regex =
            json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
        json_object_set(file, "pre_tokenizer", step);
        bool applied = check_file(ctx, file, texts, json_object_get(row, "ids"));
        if (applied == is_refused_pattern(regex))
            fail_msg("\"%s\": %s", regex, neap_context_error(ctx));
        neap_context_clear_error(ctx);
    }
    json_decref(all);
    neap_context_free(ctx);
}

/* Added tokens in normalised text; merges that name special tokens. */
static void test_added_tokens_and_merges(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    json_t *all = load("patterns.json");
    const json_t *rows = json_object_get(all, "kinds");
    assert_true(json_array_size(rows) >= 10);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!check_file(ctx, json_object_get(row, "file"), json_object_get(row, "texts"),
                        json_object_get(row, "ids")))
            fail_msg("kind %zu: %s", i, neap_context_error(ctx));
    }
    json_decref(all);
    neap_context_free(ctx);
}

/* Files that were once read wrongly. */
static void test_found_files(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        int32_t want[5];
        size_t n;
    } rows[] = {
        {"zero_digits",              "1234567", {1, 27, 4, 57, 7}, 5},
        {"empty-match",              "th",      {83, 71},          2},
        {"added_rstrip_normalized",  "ab c",    {10, 8, 3},        3},
        {"added_marks_normalized",   "x   y",   {4, 11, 12},       3},
        {"special_in_merges",        "ab",      {5},               1},
        {"word-class",               "m\xC2\xB2", {256, 110},      2},
    };
    neap_context *ctx = new_context(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[512];
        neap_tokenizer *t;
        neap_ids ids = {0};
        snprintf(path, sizeof path, "%sfound/%s.json", FOLDER, rows[i].name);
        assert_int_equal(neap_tokenizer_open(ctx, path, &t), NEAP_OK);
        assert_int_equal(
            neap_tokenizer_encode(ctx, t, rows[i].text, strlen(rows[i].text), 0, &ids), NEAP_OK);
        assert_int_equal(ids.count, rows[i].n);
        assert_memory_equal(ids.data, rows[i].want, rows[i].n * sizeof *rows[i].want);
        neap_ids_free(ctx, &ids);
        neap_tokenizer_free(t);
    }
    neap_context_free(ctx);
}

static void test_whisper(void **state)
{
    (void)state;
    test_path path;
    if (!test_shared_path("models/whisper-base/tokenizer.json", &path))
        skip();
    check_goldens(path.text, FOLDER "whisper.cases.json");
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    assert_int_equal(neap_tokenizer_open(ctx, path.text, &t), NEAP_OK);
    assert_int_equal(neap_tokenizer_size(t), 50364);
    assert_int_equal(neap_tokenizer_eos(t), 50257);
    assert_true(neap_tokenizer_is_end(t, 50257) && !neap_tokenizer_is_end(t, 50258));
    assert_int_equal(neap_tokenizer_special(t, "<|transcribe|>", 14), 50359);
    print_message("whisper: %.2f MiB held, peak %.2f MiB\n",
                  (double)memory(ctx).active / 1048576.0, (double)memory(ctx).peak / 1048576.0);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* Any bytes come back, where every byte has a token and nothing is normalised. */
static void test_any_bytes_come_back(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    uint32_t seed = 1;
    assert_int_equal(neap_tokenizer_open(ctx, FOLDER "digits.json", &t), NEAP_OK);
    for (int round = 0; round < 400; round++) {
        char text[200];
        size_t n = (seed >> 8) % sizeof text;
        for (size_t k = 0; k < n; k++) {
            seed = seed * 1664525 + 1013904223;
            text[k] = (char)(seed >> 24);
        }
        neap_ids ids = {0};
        neap_text back = {0};
        assert_int_equal(neap_tokenizer_encode(ctx, t, text, n, 0, &ids), NEAP_OK);
        for (size_t i = 0; i < ids.count; i++)
            assert_int_equal(neap_tokenizer_token_bytes(ctx, t, ids.data[i], &back), NEAP_OK);
        assert_int_equal(back.length, n);
        assert_true(n == 0 || memcmp(back.data, text, n) == 0);
        neap_ids_free(ctx, &ids);
        neap_text_free(ctx, &back);
    }
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* ---- broken files --------------------------------------------------------------------------- */

#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define MODEL(rest) "{" BYTE_LEVEL ",\"model\":{\"type\":\"BPE\"," rest "}}"
#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}"
#define SECTION(rest) "{" rest ",\"model\":{" VOCAB ",\"merges\":[]}}"
#define PRE(rest) SECTION("\"pre_tokenizer\":" rest)
#define SPLIT(regex) \
    PRE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex \
        "\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}")
#define ADDED(rest) SECTION("\"added_tokens\":[{" rest "}]," BYTE_LEVEL)
#define TO_MARKS \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}"
#define POST(rest) SECTION(BYTE_LEVEL ",\"post_processor\":" rest)

static const struct {
    const char *text;
    neap_status want;
    const char *named; /* in the message */
} broken[] = {
    {"", NEAP_EFORMAT, "empty"},
    {"[]", NEAP_EFORMAT, "expected an object"},
    {"{}", NEAP_EFORMAT, "no model"},
    {"{\n\n\"model\": nil}", NEAP_EFORMAT, "line 3, byte 13"},
    {"{\"model\":{}} x", NEAP_EFORMAT, "garbage"},
    {"{\"model\":[]}", NEAP_EFORMAT, "model: expected an object"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1.5]]}}", NEAP_EUNSUPPORTED, "Unigram"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", NEAP_EUNSUPPORTED, "WordPiece"},
    {"{\"model\":{\"type\":7,\"vocab\":{\"a\":0}}}", NEAP_EUNSUPPORTED, "7"},
    {"{\"model\":{\"vocab\":[]}}", NEAP_EUNSUPPORTED, "BPE"},
    {MODEL("\"vocab\":{}"), NEAP_EFORMAT, "no tokens"},
    {MODEL("\"vocab\":3"), NEAP_EFORMAT, "vocab: expected an object"},
    {MODEL("\"vocab\":{\"a\":\"0\"}"), NEAP_EFORMAT, "token \"a\": its id"},
    {MODEL("\"vocab\":{\"a\":{}}"), NEAP_EFORMAT, "token \"a\": its id"},
    {MODEL("\"vocab\":{\"a\":1.0}"), NEAP_EFORMAT, "its id"},
    {MODEL("\"vocab\":{\"a\":-1}"), NEAP_EFORMAT, "its id"},
    {MODEL("\"vocab\":{\"a\":2147483648}"), NEAP_EFORMAT, "its id"},
    {MODEL("\"vocab\":{\"a\":99999999999999999999999}"), NEAP_EFORMAT, "its id"},
    {MODEL("\"vocab\":{\"a\":16000000}"), NEAP_EFORMAT, "token id 16000000"},
    {MODEL("\"vocab\":{\"a\":0,\"b\":0}"), NEAP_EFORMAT, "token id 0 is \"a\" and \"b\""},
    {MODEL("\"vocab\":{\"a\":0,\"a\":1}"), NEAP_EFORMAT, "same text"},
    {MODEL("\"vocab\":{\"\\udc00\":0}"), NEAP_EFORMAT, "not Unicode"},
    {MODEL("\"vocab\":{\"\xC0\x80\":0}"), NEAP_EFORMAT, "byte"},
    {MODEL("\"vocab\":{\"\xED\xA0\x80\":0}"), NEAP_EFORMAT, "not Unicode"},
    {MODEL(VOCAB ",\"merges\":{}"), NEAP_EFORMAT, "merges: expected an array"},
    {MODEL(VOCAB ",\"merges\":[3]"), NEAP_EFORMAT, "merges: expected"},
    {MODEL(VOCAB ",\"merges\":[\"a b\",\"a c\"]"), NEAP_EFORMAT, "merge 1, \"a c\": a part"},
    {MODEL(VOCAB ",\"merges\":[\"b a\"]"), NEAP_EFORMAT, "its result is no token"},
    {MODEL(VOCAB ",\"merges\":[\"ab\"]"), NEAP_EFORMAT, "merge \"ab\""},
    {MODEL(VOCAB ",\"merges\":[\"a b \"]"), NEAP_EFORMAT, "merge \"a b \""},
    {MODEL(VOCAB ",\"merges\":[\"a  b\"]"), NEAP_EFORMAT, "merge \"a  b\""},
    {MODEL(VOCAB ",\"merges\":[\" b\"]"), NEAP_EFORMAT, "merge \" b\""},
    {MODEL(VOCAB ",\"merges\":[\"\"]"), NEAP_EFORMAT, "merge \"\""},
    {MODEL(VOCAB ",\"merges\":[[\"a\"]]"), NEAP_EFORMAT, "merges: expected"},
    {MODEL(VOCAB ",\"merges\":[[\"a\",\"b\",\"a\"]]"), NEAP_EFORMAT, "merges: expected"},
    {MODEL(VOCAB ",\"merges\":[[\"a\",[\"b\"]]]"), NEAP_EFORMAT, "merges: expected"},
    {MODEL(VOCAB ",\"dropout\":0.1"), NEAP_EUNSUPPORTED, "dropout 0.1"},
    {SECTION("\"normalizer\":5," BYTE_LEVEL), NEAP_EUNSUPPORTED, "normalizer"},
    {SECTION("\"normalizer\":{\"type\":\"Precompiled\"}," BYTE_LEVEL), NEAP_EUNSUPPORTED,
     "normalizer \"Precompiled\""},
    {SECTION("\"normalizer\":{\"type\":\"Replace\",\"content\":\"\"}"), NEAP_EFORMAT, "no pattern"},
    {SECTION("\"normalizer\":{\"type\":\"Prepend\"}"), NEAP_EFORMAT, "no prepend"},
    {PRE("{\"type\":\"UnicodeScripts\"}"), NEAP_EUNSUPPORTED, "pre_tokenizer \"UnicodeScripts\""},
    {PRE("{\"type\":\"Metaspace\"}"), NEAP_EFORMAT, "Metaspace: no replacement"},
    {PRE("{\"type\":\"FixedLength\",\"length\":0}"), NEAP_EFORMAT, "FixedLength"},
    {PRE("{\"type\":\"CharDelimiterSplit\"}"), NEAP_EFORMAT, "no delimiter"},
    {PRE("{\"type\":\"Punctuation\",\"behavior\":\"Mixed\"}"), NEAP_EUNSUPPORTED, "\"Mixed\""},
    {SECTION("\"truncation\":{\"max_length\":4,\"strategy\":\"OnlySecond\"}"), NEAP_EUNSUPPORTED,
     "OnlySecond"},
    {SECTION("\"truncation\":{\"max_length\":4,\"stride\":4}"), NEAP_EUNSUPPORTED, "a stride"},
    {SECTION("\"truncation\":{\"max_length\":-1}"), NEAP_EFORMAT, "max_length"},
    {SECTION("\"padding\":{\"strategy\":\"Longest\"}"), NEAP_EUNSUPPORTED, "\"Longest\""},
    {SECTION("\"padding\":{\"strategy\":{\"Fixed\":4},\"pad_id\":9}"), NEAP_EFORMAT, "token id 9"},
    {MODEL(VOCAB ",\"unk_token\":\"<unk>\""), NEAP_EUNSUPPORTED, "unk_token \"<unk>\""},
    {MODEL(VOCAB ",\"merges\":[\"a b\"],\"continuing_subword_prefix\":\"##\""), NEAP_EFORMAT,
     "continuing_subword_prefix"},
    {SECTION("\"normalizer\":{\"type\":\"Strip\"},\"added_tokens\":[{\"id\":3,\"content\":\" \"}]"),
     NEAP_EUNSUPPORTED, "the normalizer leaves nothing of it"},
    {SECTION("\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":3,\"content\":\"X\"}"
             ",{\"id\":4,\"content\":\"x\"}]"),
     NEAP_EUNSUPPORTED, "the same to the normalizer"},
    {SECTION(BYTE_LEVEL ",\"decoder\":{\"type\":\"WordPiece\"}"), NEAP_EUNSUPPORTED,
     "decoder \"WordPiece\""},
    {SPLIT("("), NEAP_EUNSUPPORTED, "PCRE2 refuses"},
    {SPLIT("[a[b[c]]]"), NEAP_EUNSUPPORTED, "a set inside a class"},
    {SPLIT("[a[:what:]]"), NEAP_EUNSUPPORTED, "this class"},
    {SPLIT("\\\\p{Nothing}"), NEAP_EUNSUPPORTED, "PCRE2 refuses"},
    {SPLIT("(?i)stone"), NEAP_EUNSUPPORTED, "letters in any case"},
    {SPLIT("a{2}?"), NEAP_EUNSUPPORTED, "an exact interval"},
    {SPLIT("\\\\xC3\\\\xA9"), NEAP_EUNSUPPORTED, "this number"},
    {SPLIT("(?<n>a)\\\\1"), NEAP_EUNSUPPORTED, "a reference by number"},
    {SPLIT("a)"), NEAP_EUNSUPPORTED, "a closing bracket"},
    {SPLIT("[a"), NEAP_EUNSUPPORTED, "an open class"},
    {SPLIT("[a-z&&[^b]]"), NEAP_EUNSUPPORTED, "an intersection"},
    {SPLIT("\\\\d{1,3}+"), NEAP_EUNSUPPORTED, "an interval with a plus"},
    {SPLIT("(*LIMIT_MATCH=9)a"), NEAP_EUNSUPPORTED, "this group"},
    {SPLIT("(?x:.)"), NEAP_EUNSUPPORTED, "this group"},
    {SPLIT("\\\\Xx"), NEAP_EUNSUPPORTED, "this escape"},
    {SPLIT("x\\\\"), NEAP_EUNSUPPORTED, "a backslash at the end"},
    {ADDED("\"id\":3"), NEAP_EFORMAT, "without content"},
    {ADDED("\"content\":\"x\""), NEAP_EFORMAT, "token \"x\": its id"},
    {ADDED("\"id\":2147483648,\"content\":\"x\""), NEAP_EFORMAT, "token \"x\": its id"},
    {ADDED("\"id\":1,\"content\":\"x\""), NEAP_EFORMAT, "token id 1 is \"b\" and \"x\""},
    {ADDED("\"id\":3,\"content\":\"a\""), NEAP_EFORMAT, "same text"},
    {SECTION("\"added_tokens\":[4]," BYTE_LEVEL), NEAP_EFORMAT, "added_tokens: expected objects"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[]}"), NEAP_EFORMAT, "without its text"},
    {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}}]}"),
     NEAP_EFORMAT, "without its ids"},
    {POST("{\"type\":\"BertProcessing\",\"cls\":[\"a\",77],\"sep\":[\"b\",1]}"), NEAP_EFORMAT,
     "token id 77"},
    {POST("{\"type\":\"BertProcessing\"}"), NEAP_EFORMAT, "an id that is none"},
    {POST("{\"type\":\"X\"}"), NEAP_EUNSUPPORTED, "post_processor \"X\""},
};

static void test_broken_files(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    uint64_t before = memory(ctx).active;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        neap_tokenizer *t = (neap_tokenizer *)ctx;
        neap_status status = open_text(ctx, text_bytes(broken[i].text), &t);
        if (status != broken[i].want || !strstr(neap_context_error(ctx), broken[i].named))
            fail_msg("%s: %d, %s", broken[i].text, status, neap_context_error(ctx));
        assert_null(t);
        neap_context_clear_error(ctx);
        assert_int_equal(memory(ctx).active, before);
    }
    neap_context_free(ctx);
}

/* What may be left out, and keys in another order than the library writes. */
static void test_odd_but_sound(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    static const char *const files[] = {
        MODEL(VOCAB),
        MODEL(VOCAB ",\"merges\":[],\"dropout\":0.0,\"unk_token\":null"),
        "{\"model\":{\"merges\":[[\"a\",\"b\"]]," VOCAB "}," BYTE_LEVEL ",\"added_tokens\":null}",
        SPLIT("\\\\h{,3}[\\\\w\\\\h\\\\]\\\\[&]|(?i:x)(?<=a)(?!b)\\\\S\\\\p{L}\\\\x{41}"),
        SECTION("\"normalizer\":" TO_MARKS ",\"pre_tokenizer\":null"),
        MODEL("\"vocab\":{\"\\u0000\":7,\"\\\"\":0,\"\":3,\"a\":1}"),
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        neap_tokenizer *t = NULL;
        neap_ids ids = {0};
        if (open_text(ctx, text_bytes(files[i]), &t) != NEAP_OK)
            fail_msg("%s: %s", files[i], neap_context_error(ctx));
        assert_int_equal(neap_tokenizer_encode(ctx, t, "abc", 3, 0, &ids), NEAP_OK);
        assert_int_equal(ids.count, i == 2 || i == 5 ? 1 : 2);
        assert_int_equal(neap_tokenizer_bos(t), -1);
        assert_int_equal(neap_tokenizer_eos(t), -1);
        neap_ids_free(ctx, &ids);
        neap_tokenizer_free(t);
    }
    neap_context_free(ctx);
}

/* A file cut anywhere is an error, and says where; a byte changed anywhere never crashes. */
static void test_cut_and_changed_files(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    uint64_t before = memory(ctx).active;
    size_t size;
    char *bytes = read_whole(FOLDER "llama3.json", &size);
    neap_tokenizer *t;
    for (size_t n = 0; n + 2 < size; n += n < 600 || size - n < 300 ? 1 : 97) {
        char *copy = malloc(n ? n : 1);
        memcpy(copy, bytes, n);
        assert_int_equal(open_text(ctx, (np_bytes){(uint8_t *)copy, n}, &t), NEAP_EFORMAT);
        neap_context_clear_error(ctx);
        free(copy);
    }
    for (size_t at = 0; at < size; at += at < 2500 ? 3 : 211) {
        char kept = bytes[at];
        bytes[at] = (char)(kept ^ (1 << at % 7));
        if (open_text(ctx, (np_bytes){(uint8_t *)bytes, size}, &t) == NEAP_OK)
            neap_tokenizer_free(t);
        neap_context_clear_error(ctx);
        bytes[at] = kept;
    }
    assert_int_equal(memory(ctx).active, before);
    free(bytes);
    neap_context_free(ctx);
}

static char *repeated(const char *head, const char *unit, size_t times, const char *tail)
{
    size_t h = strlen(head), u = strlen(unit);
    char *text = malloc(h + u * times + strlen(tail) + 1);
    memcpy(text, head, h);
    for (size_t i = 0; i < times; i++)
        memcpy(text + h + i * u, unit, u);
    strcpy(text + h + u * times, tail);
    return text;
}

static void test_large_nonsense(void **state)
{
    (void)state;
    const struct {
        const char *head, *unit, *tail;
        neap_status want;
    } rows[] = {
        {"", "[", "", NEAP_EFORMAT},
        {"{\"a\":", "{\"a\":", "", NEAP_ELIMIT},
        {"{\"model\":{\"x\":", "[", "", NEAP_ELIMIT},
        {"{\"model\":{\"merges\":[", "\"\",", "\"\"]," VOCAB "}}", NEAP_EFORMAT},
        {"{" BYTE_LEVEL ",\"model\":{\"merges\":[", "[],", "[]]," VOCAB "}}", NEAP_EFORMAT},
        {"{" BYTE_LEVEL ",\"model\":{\"merges\":[", "\"\",", "\"\"]," VOCAB "}}", NEAP_EFORMAT},
        {"{\"decoder\":[", "0,", "0]}", NEAP_ELIMIT},
        {"{\"decoder\":\"", "x", "", NEAP_EFORMAT},
        {"{\"decoder\":\"", "\\u0041", "\"}", NEAP_EFORMAT},
        {"{" BYTE_LEVEL ",\"model\":{\"vocab\":{\"", "x", "\":0}}}", NEAP_EFORMAT},
    };
    neap_context *ctx = new_context(0);
    uint64_t before = memory(ctx).active;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        neap_tokenizer *t;
        char *text = repeated(rows[i].head, rows[i].unit, 100000, rows[i].tail);
        neap_status status = open_text(ctx, text_bytes(text), &t);
        if (status != rows[i].want)
            fail_msg("row %zu: %d, %s", i, status, neap_context_error(ctx));
        neap_context_clear_error(ctx);
        assert_int_equal(memory(ctx).active, before);
        free(text);
    }
    neap_context_free(ctx);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* bos and eos from the file beside it; errors name the file at fault. */
static void test_config_beside_it(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    char folder[] = "/tmp/neap-tokenizer-XXXXXX", path[64], config[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    snprintf(config, sizeof config, "%s/tokenizer_config.json", folder);
    assert_int_equal(neap_tokenizer_open(ctx, path, &t), NEAP_EIO);
    assert_non_null(strstr(neap_context_error(ctx), path));
    neap_context_clear_error(ctx);
    write_file(path, ADDED("\"id\":3,\"special\":true,\"content\":\"<s>\"},{\"id\":4,"
                           "\"special\":true,\"content\":\"</s>\"},{\"id\":5,\"special\":true,"
                           "\"content\":\"<\\u2192stop>\""));
    assert_int_equal(neap_tokenizer_open(ctx, path, &t), NEAP_OK);
    assert_int_equal(neap_tokenizer_bos(t), -1);
    assert_int_equal(neap_tokenizer_eos(t), 4);
    neap_tokenizer_free(t);
    write_file(config, "{\"bos_token\":{\"content\":\"<s>\"},\"x\":[[1]],\"eos_token\":"
                       "\"<\\u2192stop>\",\"added_tokens_decoder\":{\"1\":{}}}");
    assert_int_equal(neap_tokenizer_open(ctx, path, &t), NEAP_OK);
    assert_int_equal(neap_tokenizer_bos(t), 3);
    assert_int_equal(neap_tokenizer_eos(t), 5);
    assert_true(neap_tokenizer_is_end(t, 4) && neap_tokenizer_is_end(t, 5));
    neap_tokenizer_free(t);
    write_file(config, "{\"bos_token\"");
    assert_int_equal(neap_tokenizer_open(ctx, path, &t), NEAP_EFORMAT);
    assert_non_null(strstr(neap_context_error(ctx), config));
    neap_context_clear_error(ctx);
    remove(config);
    write_file(path, "{\"model\":\n{\"vocab\":{\"a\":-1}}}");
    assert_int_equal(neap_tokenizer_open(ctx, path, &t), NEAP_EFORMAT);
    assert_non_null(strstr(neap_context_error(ctx), "tokenizer.json: line 2, byte 26: token \"a\""));
    remove(path);
    remove(folder);
    neap_context_free(ctx);
}

static void test_vocabulary_of_a_gguf(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    uint64_t before = memory(ctx).active;
    assert_int_equal(neap_tokenizer_open(ctx, NEAP_TEST_DIR "/golden/tiny-llama-f16.gguf", &t),
                     NEAP_OK);
    assert_true(memory(ctx).mapped > 0);
    neap_ids ids = {0};
    neap_text text = {0};
    assert_int_equal(neap_tokenizer_encode(ctx, t, "the", 3, NEAP_ENCODE_NO_BOS, &ids), NEAP_OK);
    assert_int_equal(neap_tokenizer_decode(ctx, t, ids.data, ids.count, 0, &text), NEAP_OK);
    assert_int_equal(text.length, 3);
    assert_memory_equal(text.data, "the", 3);
    neap_ids_free(ctx, &ids);
    neap_text_free(ctx, &text);
    neap_tokenizer_free(t);
    assert_int_equal(memory(ctx).active, before);
    assert_int_equal(memory(ctx).mapped, 0);
    assert_int_equal(neap_tokenizer_open(ctx, NEAP_TEST_DIR "/golden/bad/cut-head.gguf", &t),
                     NEAP_EFORMAT);
    neap_context_free(ctx);
}

/* ---- failing allocations -------------------------------------------------------------------- */

static bool survive(np_bytes file, int64_t n)
{
    static const char text[] = "e\xCC\x81 late <mask> 12 the \xFF";
    neap_context *ctx = new_context(n);
    if (!ctx)
        return false;
    uint64_t before = memory(ctx).active;
    neap_tokenizer *t = NULL;
    neap_ids ids = {0};
    neap_status status = open_text(ctx, file, &t);
    if (status == NEAP_OK)
        status = neap_tokenizer_encode(ctx, t, text, sizeof text - 1, 0, &ids);
    assert_int_equal(neap_context_status(ctx), t ? NEAP_OK : status); /* public calls tell */
    if (status != NEAP_OK)
        assert_int_equal(status, NEAP_ENOMEM);
    neap_ids_free(ctx, &ids);
    neap_tokenizer_free(t);
    assert_int_equal(memory(ctx).active, before);
    neap_context_free(ctx);
    return status == NEAP_OK;
}

static void test_every_failing_allocation(void **state)
{
    (void)state;
    static const char *const files[] = {FOLDER "roberta.json", FOLDER "qwen.json",
                                        FOLDER "digits.json", FOLDER "llama2.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t size;
        int64_t n = 1;
        char *bytes = read_whole(files[i], &size);
        while (!survive((np_bytes){(uint8_t *)bytes, size}, n))
            n++;
        assert_in_range(n, 40, 3000); /* it did fail in many places */
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_and_texts_equal_hugging_face),
        cmocka_unit_test(test_drawn_files),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_added_tokens_and_merges),
        cmocka_unit_test(test_found_files),
        cmocka_unit_test(test_whisper),
        cmocka_unit_test(test_any_bytes_come_back),
        cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_odd_but_sound),
        cmocka_unit_test(test_cut_and_changed_files),
        cmocka_unit_test(test_large_nonsense),
        cmocka_unit_test(test_config_beside_it),
        cmocka_unit_test(test_vocabulary_of_a_gguf),
        cmocka_unit_test(test_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
