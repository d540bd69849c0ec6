/* test_vocabulary.c - vocabularies of GGUF files against llama.cpp (tools/make_vocabulary_goldens.py):
 * ids by scores, which tokens end a text whatever their type, keys, failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "places.h"
#include "text/tokenizer.h"

#define FOLDER NEAP_TEST_DIR "/golden/vocabularies/"

static neap_context *new_context(int64_t fail_allocation)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.fail_allocation = fail_allocation;
    neap_context_new(&o, &ctx);
    return ctx;
}

static uint64_t active(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active;
}

static json_t *goldens(void)
{
    json_t *all = json_load_file(FOLDER "cases.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(all);
    return all;
}

/* ---- scores --------------------------------------------------------------------------------- */

static void check_ids(neap_context *ctx, const neap_tokenizer *t, const json_t *text, unsigned flags,
                      const json_t *want, neap_ids *ids)
{
    ids->count = 0;
    assert_int_equal(neap_tokenizer_encode(ctx, t, json_string_value(text),
                                           json_string_length(text), flags, ids),
                     NEAP_OK);
    bool same = ids->count == json_array_size(want);
    for (size_t i = 0; same && i < ids->count; i++)
        same = ids->data[i] == json_integer_value(json_array_get(want, i));
    if (!same)
        fail_msg("\"%s\" with flags %u: other ids", json_string_value(text), flags);
}

/* What llama.cpp shows of each token, one behind the other: no space is left out. */
static void check_pieces(neap_context *ctx, const neap_tokenizer *t, const neap_ids *ids,
                         const json_t *want)
{
    neap_text out = {0};
    for (size_t i = 0; i < ids->count; i++)
        if (!neap_tokenizer_is_special(t, ids->data[i]))
            assert_int_equal(neap_tokenizer_token_bytes(ctx, t, ids->data[i], &out), NEAP_OK);
    assert_int_equal(out.length, json_string_length(want));
    if (out.length)
        assert_memory_equal(out.data, json_string_value(want), out.length);
    neap_text_free(ctx, &out);
}

static void test_scores(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    json_t *all = goldens(), *files = json_object_get(all, "cases");
    assert_int_equal(json_array_size(files), 3);
    for (size_t f = 0; f < json_array_size(files); f++) {
        const json_t *file = json_array_get(files, f), *rows = json_object_get(file, "rows");
        char path[512];
        neap_tokenizer *t;
        neap_ids ids = {0};
        snprintf(path, sizeof path, FOLDER "%s.gguf",
                 json_string_value(json_object_get(file, "file")));
        assert_int_equal(neap_tokenizer_open(ctx, path, &t), NEAP_OK);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i), *text = json_object_get(row, "text");
            check_ids(ctx, t, text, NEAP_ENCODE_PLAIN, json_object_get(row, "plain"), &ids);
            check_ids(ctx, t, text, 0, json_object_get(row, "ids"), &ids);
            check_pieces(ctx, t, &ids, json_object_get(row, "pieces"));
        }
        neap_ids_free(ctx, &ids);
        neap_tokenizer_free(t);
    }
    json_decref(all);
    neap_context_free(ctx);
}

/* A text comes back without the space that was put in front; a text that goes on keeps it. */
static void test_text_comes_back(void **state)
{
    (void)state;
    static const char text[] = "two  words, \xC3\xA9 \xF0\x9F\x98\x80\n";
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    neap_ids ids = {0};
    neap_text out = {0};
    assert_int_equal(neap_tokenizer_open(ctx, FOLDER "plain.gguf", &t), NEAP_OK);
    assert_int_equal(neap_tokenizer_encode(ctx, t, text, sizeof text - 1, 0, &ids), NEAP_OK);
    assert_int_equal(neap_tokenizer_decode(ctx, t, ids.data, ids.count, 0, &out), NEAP_OK);
    assert_int_equal(out.length, sizeof text - 1);
    assert_memory_equal(out.data, text, out.length);
    neap_text_free(ctx, &out);
    neap_ids_free(ctx, &ids);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* ---- tokens that end a text ----------------------------------------------------------------- */

enum { LETTERS = 256, NAMES_AT_MOST = 4 };

typedef struct vocabulary {
    uint8_t block[4096];
    size_t used;
    np_bytes pieces[LETTERS + 1 + NAMES_AT_MOST];
    int32_t types[LETTERS + 1 + NAMES_AT_MOST];
    np_vocab v;
} vocabulary;

static void add_piece(vocabulary *in, const void *text, size_t n, int32_t type)
{
    assert_true(in->used + n <= sizeof in->block);
    memcpy(in->block + in->used, text, n);
    in->types[in->v.n_tokens] = type;
    in->pieces[in->v.n_tokens++] = (np_bytes){in->block + in->used, n};
    in->used += n;
}

static void letters(vocabulary *in)
{
    *in = (vocabulary){.v = NP_VOCAB_INIT};
    for (int byte = 0; byte < LETTERS; byte++) {
        uint8_t letter[4];
        size_t n = np_utf8_encode(np_byte_to_alphabet((uint8_t)byte), letter);
        add_piece(in, letter, n, NP_TOKEN_NORMAL);
    }
    add_piece(in, "ab", 2, NP_TOKEN_NORMAL);
    in->v.model = (np_bytes){(const uint8_t *)"gpt2", 4};
    in->v.pieces = in->pieces;
    in->v.types = in->types;
    in->v.bos = in->v.eos = 1;
}

static bool listed(const json_t *row, const char *key, size_t i)
{
    return json_is_true(json_array_get(json_object_get(row, key), i));
}

static void check_ends(neap_context *ctx, const json_t *row)
{
    static vocabulary in;
    const json_t *names = json_object_get(row, "names");
    letters(&in);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *name = json_array_get(names, i);
        add_piece(&in, json_string_value(name), json_string_length(name),
                  (int32_t)json_integer_value(json_object_get(row, "type")));
    }
    in.v.n_types = in.v.n_tokens;
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &in.v, &t), NEAP_OK);
    for (size_t i = 0; i < json_array_size(names); i++) {
        int32_t id = LETTERS + 1 + (int32_t)i;
        const char *name = json_string_value(json_array_get(names, i));
        neap_ids ids = {0};
        assert_int_equal(neap_tokenizer_encode(ctx, t, name, strlen(name), 0, &ids), NEAP_OK);
        bool found = ids.count == 1 && ids.data[0] == id;
        if (neap_tokenizer_is_end(t, id) != listed(row, "ends", i) ||
            neap_tokenizer_is_special(t, id) == listed(row, "shown", i) ||
            found != listed(row, "found", i))
            fail_msg("%s of type %d: end %d, special %d, found %d", name, in.types[id],
                     neap_tokenizer_is_end(t, id), neap_tokenizer_is_special(t, id), found);
        neap_ids_free(ctx, &ids);
    }
    neap_tokenizer_free(t);
}

static void test_ends(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    json_t *all = goldens();
    const json_t *rows = json_object_get(all, "ends");
    assert_true(json_array_size(rows) > 100);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_ends(ctx, json_array_get(rows, i));
    json_decref(all);
    neap_context_free(ctx);
}

/* ---- keys ----------------------------------------------------------------------------------- */

typedef struct file {
    uint8_t bytes[512];
    size_t n;
} file;

static void put(file *f, const void *bytes, size_t n)
{
    assert_true(f->n + n <= sizeof f->bytes);
    memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}

static void put_u32(file *f, uint32_t v)
{
    put(f, &v, sizeof v);
}

static void put_u64(file *f, uint64_t v)
{
    put(f, &v, sizeof v);
}

static void put_text(file *f, const char *text)
{
    put_u64(f, strlen(text));
    put(f, text, strlen(text));
}

enum { GGUF_BOOL = 7, GGUF_STRING = 8, GGUF_ARRAY = 9, GGUF_FLOAT = 6, GGUF_INT = 5 };

static void put_tokens(file *f)
{
    put_text(f, "tokenizer.ggml.tokens");
    put_u32(f, GGUF_ARRAY);
    put_u32(f, GGUF_STRING);
    put_u64(f, 3);
    put_text(f, "<unk>");
    put_text(f, "a");
    put_text(f, "\xE2\x96\x81");
}

static void put_scores(file *f, uint32_t type, uint64_t count)
{
    put_text(f, "tokenizer.ggml.scores");
    put_u32(f, GGUF_ARRAY);
    put_u32(f, type);
    put_u64(f, count);
    for (uint64_t i = 0; i < count; i++)
        put_u32(f, 0);
}

/* A file of a model, three tokens, their scores, and one key more, a bool. */
static neap_status open_with(neap_context *ctx, const char *model, const char *key, bool value,
                             uint32_t score_type, uint64_t scores, neap_tokenizer **t)
{
    file f = {.n = 0};
    put(&f, "GGUF", 4);
    put_u32(&f, 3);
    put_u64(&f, 0);
    put_u64(&f, 4);
    put_text(&f, "tokenizer.ggml.model");
    put_u32(&f, GGUF_STRING);
    put_text(&f, model);
    put_tokens(&f);
    put_scores(&f, score_type, scores);
    put_text(&f, key);
    put_u32(&f, GGUF_BOOL);
    put(&f, &value, 1);
    char path[] = "/tmp/neap-vocabulary-XXXXXX";
    int to = mkstemp(path);
    assert_true(to >= 0 && write(to, f.bytes, f.n) == (ssize_t)f.n);
    close(to);
    neap_status status = neap_tokenizer_open(ctx, path, t);
    remove(path);
    return status;
}

static void test_keys(void **state)
{
    (void)state;
    static const struct {
        const char *model, *key;
        uint32_t score_type;
        uint64_t scores;
        neap_status want;
        const char *named;
    } rows[] = {
        {"llama", "tokenizer.ggml.add_bos_token", GGUF_FLOAT, 3, NEAP_OK, ""},
        {"llama", "tokenizer.ggml.add_space_prefix", GGUF_INT, 3, NEAP_OK, ""},
        {"llama", "tokenizer.ggml.remove_extra_whitespaces", GGUF_FLOAT, 3, NEAP_OK, ""},
        {"llama", "tokenizer.chat_template.tool", GGUF_FLOAT, 3, NEAP_EFORMAT, "expected one string"},
        {"gpt2", "tokenizer.ggml.add_space_prefix", GGUF_FLOAT, 3, NEAP_EUNSUPPORTED,
         "add_space_prefix"},
        {"llama", "tokenizer.ggml.suppress_tokens", GGUF_FLOAT, 3, NEAP_EUNSUPPORTED,
         "'tokenizer.ggml.suppress_tokens'"},
        {"llama", "tokenizer.ggml.reverse_text", GGUF_FLOAT, 3, NEAP_EUNSUPPORTED,
         "'tokenizer.ggml.reverse_text' is not known"},
        {"llama", "tokenizer.ggml.add_bos_token", GGUF_FLOAT, 2, NEAP_EFORMAT, "2 scores for 3"},
        {"t5", "tokenizer.ggml.add_bos_token", GGUF_FLOAT, 3, NEAP_EUNSUPPORTED, "\"t5\""},
        {"bert", "tokenizer.ggml.add_bos_token", GGUF_FLOAT, 3, NEAP_EUNSUPPORTED, "\"bert\""},
        {"rwkv", "tokenizer.ggml.add_bos_token", GGUF_FLOAT, 3, NEAP_EUNSUPPORTED, "\"rwkv\""},
    };
    neap_context *ctx = new_context(0);
    uint64_t before = active(ctx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        neap_tokenizer *t = NULL;
        neap_status status = open_with(ctx, rows[i].model, rows[i].key, true, rows[i].score_type,
                                       rows[i].scores, &t);
        if (status != rows[i].want || !strstr(neap_context_error(ctx), rows[i].named))
            fail_msg("row %zu: %d, %s", i, status, neap_context_error(ctx));
        neap_tokenizer_free(t);
        neap_context_clear_error(ctx);
        assert_int_equal(active(ctx), before);
    }
    neap_context_free(ctx);
}

/* ---- failing allocations -------------------------------------------------------------------- */

static bool survive(int64_t n)
{
    static const char text[] = "a  <s2> [tool]\xC3\xA9\xFF";
    neap_context *ctx = new_context(n);
    if (!ctx)
        return false;
    uint64_t before = active(ctx);
    neap_tokenizer *t = NULL;
    neap_ids ids = {0};
    neap_status status = neap_tokenizer_open(ctx, FOLDER "more.gguf", &t);
    if (status == NEAP_OK)
        status = neap_tokenizer_encode(ctx, t, text, sizeof text - 1, 0, &ids);
    assert_true(status == NEAP_OK || status == NEAP_ENOMEM);
    neap_ids_free(ctx, &ids);
    neap_tokenizer_free(t);
    assert_int_equal(active(ctx), before);
    neap_context_free(ctx);
    return status == NEAP_OK;
}

static void test_every_failing_allocation(void **state)
{
    (void)state;
    int64_t n = 1;
    while (!survive(n))
        n++;
    assert_in_range(n, 20, 1000); /* it did fail in many places */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_text_comes_back),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
