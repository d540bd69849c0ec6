/* test_tokenizer.c - ids and texts against Hugging Face's tokenizers, bad vocabularies, hostile
 * texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/utf8.h"
#include "unit/text_fixture.h"

static text_fixture fixture;

static int load_fixture(void **state)
{
    (void)state;
    return text_fixture_load(&fixture, NEAP_TEST_DIR "/golden/text/bpe.json") ? 0 : -1;
}

static int free_fixture(void **state)
{
    (void)state;
    text_fixture_free(&fixture);
    return 0;
}

static neap_context *new_context(int64_t fail_allocation)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.fail_allocation = fail_allocation;
    neap_context_new(&o, &ctx);
    return ctx;
}

static uint64_t active_bytes(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active;
}

static np_bytes text_bytes(const char *text)
{
    return (np_bytes){(const uint8_t *)text, strlen(text)};
}

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

static void test_ids_equal_hugging_face(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    json_t *group, *item;
    size_t i, k;
    json_array_foreach(json_object_get(fixture.root, "groups"), i, group)
    {
        np_vocab vocab = fixture.vocab;
        vocab.pre = text_bytes(json_string_value(json_object_get(group, "pre")));
        neap_tokenizer *t;
        assert_int_equal(np_tokenizer_new(ctx, &vocab, &t), NEAP_OK);
        json_array_foreach(json_object_get(group, "cases"), k, item)
        {
            const json_t *text = json_object_get(item, "text");
            bool plain = json_is_true(json_object_get(item, "plain"));
            neap_ids ids = {0};
            assert_int_equal(neap_tokenizer_encode(ctx, t, json_string_value(text),
                                                   json_string_length(text),
                                                   plain ? NEAP_ENCODE_PLAIN : 0, &ids),
                             NEAP_OK);
            check_ids(&ids, json_object_get(item, "ids"), json_string_value(text));
            neap_ids_free(ctx, &ids);
        }
        neap_tokenizer_free(t);
    }
    neap_context_free(ctx);
}

static void assert_whole_characters(const char *text, size_t n)
{
    size_t length;
    for (size_t at = 0; at < n; at += length)
        assert_int_equal(np_utf8_next((const uint8_t *)text + at, n - at, &length), NP_UTF8_CHAR);
}

/* Text of ids, whole and as a stream, with and without the special tokens. */
static void check_decode(neap_context *ctx, const neap_tokenizer *t, const int32_t *ids, size_t n,
                         unsigned flags, const char *want, size_t want_length)
{
    neap_text whole = {0}, deltas = {0};
    assert_int_equal(neap_tokenizer_decode(ctx, t, ids, n, flags, &whole), NEAP_OK);
    assert_int_equal(whole.length, want_length);
    assert_memory_equal(whole.data, want, want_length);
    neap_text_stream s;
    neap_text_stream_init(&s, t, flags);
    for (size_t i = 0; i < n; i++) {
        size_t before = deltas.length;
        assert_int_equal(neap_text_stream_push(ctx, &s, ids[i], &deltas), NEAP_OK);
        assert_whole_characters(deltas.data + before, deltas.length - before);
    }
    assert_int_equal(neap_text_stream_finish(ctx, &s, &deltas), NEAP_OK);
    assert_int_equal(neap_text_stream_finish(ctx, &s, &deltas), NEAP_OK); /* flushes once */
    assert_int_equal(deltas.length, want_length);
    assert_memory_equal(deltas.data, want, want_length);
    neap_text_free(ctx, &whole);
    neap_text_free(ctx, &deltas);
}

static void test_text_equals_hugging_face(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &fixture.vocab, &t), NEAP_OK);
    json_t *item, *id;
    size_t i, k;
    json_array_foreach(json_object_get(fixture.root, "decode"), i, item)
    {
        int32_t ids[64];
        size_t n = json_array_size(json_object_get(item, "ids"));
        assert_in_range(n, 1, 64);
        json_array_foreach(json_object_get(item, "ids"), k, id) ids[k] =
            (int32_t)json_integer_value(id);
        const json_t *text = json_object_get(item, "text"), *all = json_object_get(item, "all");
        check_decode(ctx, t, ids, n, 0, json_string_value(text), json_string_length(text));
        check_decode(ctx, t, ids, n, NEAP_DECODE_SPECIAL, json_string_value(all),
                     json_string_length(all));
    }
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* A vocabulary of the 256 bytes, then what the caller adds; no merges. */
typedef struct small_vocab {
    char text[2048];
    np_bytes pieces[400];
    int32_t types[400];
    np_bytes merges[16];
    size_t used;
    np_vocab vocab;
} small_vocab;

static int32_t add_token(small_vocab *v, const void *piece, size_t n, int32_t type)
{
    char *to = v->text + v->used;
    assert_true(v->used + n <= sizeof v->text);
    memcpy(to, piece, n);
    v->used += n;
    v->pieces[v->vocab.n_tokens] = (np_bytes){(const uint8_t *)to, n};
    v->types[v->vocab.n_tokens] = type;
    v->vocab.n_types++;
    return (int32_t)v->vocab.n_tokens++;
}

static int32_t add_bytes(small_vocab *v, const char *bytes, size_t n)
{
    uint8_t piece[64];
    size_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += np_utf8_encode(np_byte_to_alphabet((uint8_t)bytes[i]), piece + length);
    return add_token(v, piece, length, NP_TOKEN_NORMAL);
}

static void small_vocab_init(small_vocab *v)
{
    memset(v, 0, sizeof *v);
    v->vocab = (np_vocab)NP_VOCAB_INIT;
    v->vocab.model = text_bytes("gpt2");
    v->vocab.pre = text_bytes("gpt-2");
    v->vocab.pieces = v->pieces;
    v->vocab.types = v->types;
    v->vocab.merges = v->merges;
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        add_bytes(v, &c, 1);
    }
}

/* cases/files.md G4: characters split over tokens. */
static void test_stream_never_splits_a_character(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    static small_vocab v;
    small_vocab_init(&v);
    int32_t a = add_bytes(&v, "\xF0\x9F", 2), b = add_bytes(&v, "\xA6\x99", 2);
    int32_t c = add_bytes(&v, "\x20\x61", 2), d = add_bytes(&v, "\x20\x78", 2);
    int32_t end = add_token(&v, "<end>", 5, NP_TOKEN_CONTROL);
    int32_t c4 = 0xC4, c8f = 0x8F;
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &v.vocab, &t), NEAP_OK);
#define DECODES(want, ...)                               \
    check_decode(ctx, t, (const int32_t[]){__VA_ARGS__}, \
                 sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), 0, want, strlen(want))
    DECODES("🦙 a", a, b, c);
    DECODES("ď", c4, c8f);
    DECODES("\xEF\xBF\xBD x", a, d);
    DECODES("\xEF\xBF\xBD", a);
    DECODES("\xEF\xBF\xBD\xEF\xBF\xBD a", a, a, c);
    DECODES("\xEF\xBF\xBD\xEF\xBF\xBD", 0x80, 0xFF);
    DECODES("🦙", a, end, b); /* a control token prints nothing and ends no character */
#undef DECODES
    neap_text_stream s;
    neap_text out = {0};
    neap_text_stream_init(&s, t, 0);
    assert_int_equal(neap_text_stream_push(ctx, &s, a, &out), NEAP_OK);
    assert_int_equal(out.length, 0);
    assert_int_equal(neap_text_stream_push(ctx, &s, b, &out), NEAP_OK);
    assert_int_equal(out.length, 4);
    assert_int_equal(neap_text_stream_push(ctx, &s, end + 1, &out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "261"));
    neap_context_clear_error(ctx);
    assert_int_equal(neap_text_stream_push(ctx, &s, -1, &out), NEAP_EINVAL);
    neap_text_free(ctx, &out);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

static void check_round_trip(neap_context *ctx, const neap_tokenizer *t, const char *text, size_t n,
                             unsigned flags)
{
    neap_ids ids = {0};
    neap_text back = {0};
    assert_int_equal(neap_tokenizer_encode(ctx, t, text, n, flags, &ids), NEAP_OK);
    for (size_t i = 0; i < ids.count; i++)
        assert_int_equal(neap_tokenizer_token_bytes(ctx, t, ids.data[i], &back), NEAP_OK);
    assert_int_equal(back.length, n);
    if (n)
        assert_memory_equal(back.data, text, n);
    neap_ids_free(ctx, &ids);
    neap_text_free(ctx, &back);
}

/* Any bytes are encoded and come back; long words of 100,000 bytes too, in every pre-tokenizer. */
static void test_any_bytes_come_back(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    neap_context *ctx = new_context(0);
    char *text = malloc(LONG);
    uint32_t seed = 1;
    json_t *group;
    size_t i;
    json_array_foreach(json_object_get(fixture.root, "groups"), i, group)
    {
        np_vocab vocab = fixture.vocab;
        vocab.pre = text_bytes(json_string_value(json_object_get(group, "pre")));
        neap_tokenizer *t;
        assert_int_equal(np_tokenizer_new(ctx, &vocab, &t), NEAP_OK);
        check_round_trip(ctx, t, NULL, 0, 0);
        for (int round = 0; round < 200; round++) {
            size_t n = (seed >> 8) % 200;
            for (size_t k = 0; k < n; k++) {
                seed = seed * 1664525 + 1013904223;
                text[k] = (char)(seed >> 24);
            }
            check_round_trip(ctx, t, text, n, round % 2 ? NEAP_ENCODE_PLAIN : 0);
        }
        static const char *const units[] = {"a",  " ", "the", "\xFF", "A",
                                            "\n", "1", " \n", "<",    "é"};
        for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
            for (size_t k = 0; k < LONG; k++)
                text[k] = units[u][k % strlen(units[u])];
            check_round_trip(ctx, t, text, LONG, 0);
        }
        neap_tokenizer_free(t);
    }
    free(text);
    neap_context_free(ctx);
}

static void test_special_tokens_and_ends(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    static small_vocab v;
    small_vocab_init(&v);
    int32_t bos = add_token(&v, "<s>", 3, NP_TOKEN_CONTROL);
    int32_t eos = add_token(&v, "<stop>", 6, NP_TOKEN_CONTROL);
    int32_t eot = add_token(&v, "<|im_end|>", 10, NP_TOKEN_CONTROL);
    int32_t user = add_token(&v, "[tool use]", 10, NP_TOKEN_USER_DEFINED);
    int32_t unknown = add_token(&v, "<unk>", 5, NP_TOKEN_UNKNOWN);
    add_token(&v, "", 0, NP_TOKEN_NORMAL); /* documented: never used */
    v.vocab.bos = bos;
    v.vocab.eos = eos;
    v.vocab.unk = unknown;
    v.vocab.add_bos = v.vocab.add_eos = 1;
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &v.vocab, &t), NEAP_OK);
    assert_int_equal(neap_tokenizer_size(t), 262);
    assert_int_equal(neap_tokenizer_bos(t), bos);
    assert_int_equal(neap_tokenizer_eos(t), eos);
    assert_true(neap_tokenizer_is_end(t, eos) && neap_tokenizer_is_end(t, eot));
    assert_false(neap_tokenizer_is_end(t, bos) || neap_tokenizer_is_end(t, 'a') ||
                 neap_tokenizer_is_end(t, -1) || neap_tokenizer_is_end(t, 1 << 30));
    assert_true(neap_tokenizer_is_special(t, bos) && neap_tokenizer_is_special(t, unknown));
    assert_false(neap_tokenizer_is_special(t, user) || neap_tokenizer_is_special(t, 262));
    assert_int_equal(neap_tokenizer_special(t, "<s>", 3), bos);
    assert_int_equal(neap_tokenizer_special(t, "[tool use]", 10), user);
    assert_int_equal(neap_tokenizer_special(t, "<s", 2), -1);
    assert_int_equal(neap_tokenizer_special(t, "", 0), -1);
    assert_int_equal(neap_tokenizer_special(t, "a", 1), -1);
    const char *text = "a<s>[tool use]<s";
    const int32_t with[] = {bos, 'a', bos, user, '<', 's', eos};
    const int32_t plain[] = {'a', '<', 's', '>', user, '<', 's'};
    neap_ids ids = {0};
    assert_int_equal(neap_tokenizer_encode(ctx, t, text, strlen(text), 0, &ids), NEAP_OK);
    assert_int_equal(ids.count, 7);
    assert_memory_equal(ids.data, with, sizeof with);
    assert_int_equal(neap_tokenizer_encode(ctx, t, text, strlen(text),
                                           NEAP_ENCODE_PLAIN | NEAP_ENCODE_NO_BOS, &ids),
                     NEAP_OK);
    assert_int_equal(ids.count, 14); /* appended */
    assert_memory_equal(ids.data + 7, plain, sizeof plain);
    assert_int_equal(neap_tokenizer_encode(ctx, t, text, strlen(text), 8, &ids), NEAP_EINVAL);
    assert_int_equal(ids.count, 14);
    neap_ids_free(ctx, &ids);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* A byte without a token is the unknown token, or nothing. Letters outside the alphabet are text.
 */
static void test_missing_bytes_and_foreign_letters(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    static const char text[] = "abé<unk>";
    np_bytes pieces[] = {
        {(const uint8_t *)text,     1},
        {(const uint8_t *)text + 1, 3},
        {(const uint8_t *)text + 4, 5},
        {(const uint8_t *)text + 2, 2}
    };
    np_vocab v = NP_VOCAB_INIT;
    v.model = text_bytes("gpt2");
    v.n_tokens = 4;
    v.pieces = pieces;
    for (int known = 0; known < 2; known++) {
        v.unk = known ? 2 : -1;
        neap_tokenizer *t;
        assert_int_equal(np_tokenizer_new(ctx, &v, &t), NEAP_OK);
        neap_ids ids = {0};
        assert_int_equal(neap_tokenizer_encode(ctx, t, "aza", 3, 0, &ids), NEAP_OK);
        assert_int_equal(ids.count, known ? 3 : 2);
        if (known)
            assert_int_equal(ids.data[1], 2);
        neap_ids_free(ctx, &ids);
        neap_tokenizer_free(t);
    }
    static const char dots[] = "a…";
    np_bytes foreign[] = {
        {(const uint8_t *)dots, 4}
    };
    v.n_tokens = 1;
    v.pieces = foreign;
    v.unk = -1;
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &v, &t), NEAP_OK);
    check_decode(ctx, t, (const int32_t[]){0}, 1, 0, dots, 4);
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

/* Rank decides, then the place: "aaa" with merge "a a" is "aa" "a"; a lower rank wins over the
 * left. */
static void test_merge_order(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    static small_vocab v;
    small_vocab_init(&v);
    int32_t aa = add_bytes(&v, "aa", 2), ab = add_bytes(&v, "ab", 2), bc = add_bytes(&v, "bc", 2);
    int32_t aaaa = add_bytes(&v, "aaaa", 4);
    const char *const merges[] = {"b c", "a a", "a b", "aa aa", "b c"};
    for (int i = 0; i < 5; i++)
        v.merges[v.vocab.n_merges++] = text_bytes(merges[i]);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &v.vocab, &t), NEAP_OK);
    const struct {
        const char *text;
        size_t n;
        int32_t ids[4];
    } rows[] = {
        {"aaa",    2, {aa, 'a'}  },
        {"aaaaa",  2, {aaaa, 'a'}},
        {"abc",    2, {'a', bc}  },
        {"aab",    2, {aa, 'b'}  },
        {"xab",    2, {'x', ab}  },
        {"aaaaaa", 2, {aaaa, aa} },
        {"aabc",   2, {aa, bc}   }
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        neap_ids ids = {0};
        assert_int_equal(neap_tokenizer_encode(ctx, t, rows[i].text, strlen(rows[i].text), 0, &ids),
                         NEAP_OK);
        assert_int_equal(ids.count, rows[i].n);
        assert_memory_equal(ids.data, rows[i].ids, rows[i].n * sizeof(int32_t));
        neap_ids_free(ctx, &ids);
    }
    neap_tokenizer_free(t);
    neap_context_free(ctx);
}

static small_vocab broken;

static void break_twin(void)
{
    add_token(&broken, "a", 1, NP_TOKEN_NORMAL);
}
static void break_type(void)
{
    broken.types[3] = 7;
}
static void break_type_count(void)
{
    broken.vocab.n_types--;
}
static void break_bos(void)
{
    broken.vocab.bos = 256;
}
static void break_eos(void)
{
    broken.vocab.eos = -2;
}
static void break_add_bos(void)
{
    broken.vocab.add_bos = 1;
}
static void break_model(void)
{
    broken.vocab.model = text_bytes("bert");
}
static void break_no_model(void)
{
    broken.vocab.model = (np_bytes){NULL, 0};
}
static void break_pre(void)
{
    broken.vocab.pre = text_bytes("martian");
}
static void break_pre_space(void)
{
    broken.vocab.pre = text_bytes("gpt-2 phi-2");
}
static void break_no_tokens(void)
{
    broken.vocab.n_tokens = broken.vocab.n_types = 0;
}
static void break_huge(void)
{
    broken.vocab.n_tokens = broken.vocab.n_types = 1ull << 40;
}
static void break_many_merges(void)
{
    broken.vocab.n_merges = 1ull << 24;
}
static void break_piece(void)
{
    broken.pieces[9].n = 1ull << 32;
}
static void add_merge(const char *text)
{
    broken.merges[0] = text_bytes(text);
    broken.vocab.n_merges = 1;
}
static void break_merge_space(void)
{
    add_merge("ab");
}
static void break_merge_empty(void)
{
    add_merge("");
}
static void break_merge_tail(void)
{
    add_merge("a ");
}
static void break_merge_head(void)
{
    add_merge(" a");
}
static void break_merge_part(void)
{
    add_merge("a bc");
}
static void break_merge_result(void)
{
    add_merge("a b");
}

static void test_bad_vocabularies(void **state)
{
    (void)state;
    static const struct {
        void (*break_it)(void);
        neap_status want;
        const char *says;
    } rows[] = {
        {break_twin,         NEAP_EFORMAT,      "tokens 97 and 256"             },
        {break_type,         NEAP_EFORMAT,      "token 3 has type 7"            },
        {break_type_count,   NEAP_EFORMAT,      "255 token types for 256 tokens"},
        {break_bos,          NEAP_EFORMAT,      "bos token id 256"              },
        {break_eos,          NEAP_EFORMAT,      "eos token id -2"               },
        {break_add_bos,      NEAP_EFORMAT,      "BOS"                           },
        {break_model,        NEAP_EUNSUPPORTED, "\"bert\""                      },
        {break_no_model,     NEAP_EUNSUPPORTED, "\"\""                          },
        {break_pre,          NEAP_EUNSUPPORTED, "\"martian\""                   },
        {break_pre_space,    NEAP_EUNSUPPORTED, "\"gpt-2 phi-2\""               },
        {break_no_tokens,    NEAP_EFORMAT,      "no tokens"                     },
        {break_huge,         NEAP_ELIMIT,       "1099511627776"                 },
        {break_many_merges,  NEAP_ELIMIT,       "16777216"                      },
        {break_piece,        NEAP_EFORMAT,      "token 9 has 4294967296 bytes"  },
        {break_merge_space,  NEAP_EFORMAT,      "merge 0, \"ab\""               },
        {break_merge_empty,  NEAP_EFORMAT,      "merge 0, \"\""                 },
        {break_merge_tail,   NEAP_EFORMAT,      "merge 0, \"a \""               },
        {break_merge_head,   NEAP_EFORMAT,      "merge 0, \" a\""               },
        {break_merge_part,   NEAP_EFORMAT,      "a part of it is no token"      },
        {break_merge_result, NEAP_EFORMAT,      "its result is no token"        },
    };
    neap_context *ctx = new_context(0);
    uint64_t before = active_bytes(ctx);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        small_vocab_init(&broken);
        rows[i].break_it();
        neap_tokenizer *t;
        assert_int_equal(np_tokenizer_new(ctx, &broken.vocab, &t), rows[i].want);
        assert_null(t);
        if (!strstr(neap_context_error(ctx), rows[i].says))
            fail_msg("row %zu says \"%s\"", i, neap_context_error(ctx));
        neap_context_clear_error(ctx);
        assert_int_equal(active_bytes(ctx), before);
    }
    neap_context_free(ctx);
}

/* The size of SmolLM2's vocabulary: 49152 tokens, 48896 merges. The bound is a promise to users. */
static void test_tables_are_small(void **state)
{
    (void)state;
    enum { TOKENS = 49152, MERGES = TOKENS - 256 };
    char *text = malloc(TOKENS * 9);
    np_bytes *pieces = malloc(TOKENS * sizeof *pieces), *merges = malloc(MERGES * sizeof *merges);
    char *to = text;
    for (int i = 0; i < TOKENS; i++) {
        uint8_t left[4], right[4];
        int a = i < 256 ? i : (i - 256) / 256, b = (i - 256) & 255;
        size_t n = np_utf8_encode(np_byte_to_alphabet((uint8_t)a), left);
        size_t m = i < 256 ? 0 : np_utf8_encode(np_byte_to_alphabet((uint8_t)b), right);
        pieces[i] = (np_bytes){(const uint8_t *)to, n + m};
        to = (char *)memcpy(to, left, n) + n;
        to = (char *)memcpy(to, right, m) + m;
        if (i >= 256) {
            merges[i - 256] = (np_bytes){(const uint8_t *)to, n + m + 1};
            to = (char *)memcpy(to, left, n) + n;
            *to++ = ' ';
            to = (char *)memcpy(to, right, m) + m;
        }
    }
    np_vocab v = NP_VOCAB_INIT;
    v.model = text_bytes("gpt2");
    v.pre = text_bytes("smollm");
    v.n_tokens = TOKENS;
    v.n_merges = MERGES;
    v.pieces = pieces;
    v.merges = merges;
    neap_context *ctx = new_context(0);
    uint64_t before = active_bytes(ctx);
    neap_tokenizer *t;
    assert_int_equal(np_tokenizer_new(ctx, &v, &t), NEAP_OK);
    free(pieces); /* the arrays may go, the text stays */
    free(merges);
    assert_in_range(active_bytes(ctx) - before, 1, 5 << 18); /* 1.25 MiB */
    check_round_trip(ctx, t, "abcabc \x01\x02", 9, 0);
    neap_tokenizer_free(t);
    assert_int_equal(active_bytes(ctx), before);
    neap_context_free(ctx);
    free(text);
}

/* Makes, encodes, decodes with the n-th allocation failing; true when nothing failed. */
static bool survive(int64_t n)
{
    static const char text[] = "Hello 1234 wörld <|im_start|>the thing\xFF  the end";
    neap_context *ctx = new_context(n);
    if (!ctx)
        return false;
    uint64_t before = active_bytes(ctx);
    neap_tokenizer *t = NULL;
    neap_ids ids = {0};
    neap_text out = {0};
    neap_status status = np_tokenizer_new(ctx, &fixture.vocab, &t);
    if (status == NEAP_OK)
        status = neap_tokenizer_encode(ctx, t, text, sizeof text - 1, 0, &ids);
    if (status == NEAP_OK)
        status = neap_tokenizer_decode(ctx, t, ids.data, ids.count, 0, &out);
    assert_int_equal(neap_context_status(ctx), t ? NEAP_OK : status); /* public calls tell */
    if (status != NEAP_OK)
        assert_int_equal(status, NEAP_ENOMEM);
    if (status != NEAP_OK)
        assert_int_equal(out.length, 0);
    neap_ids_free(ctx, &ids);
    neap_text_free(ctx, &out);
    neap_tokenizer_free(t);
    assert_int_equal(active_bytes(ctx), before);
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
        cmocka_unit_test(test_ids_equal_hugging_face),
        cmocka_unit_test(test_text_equals_hugging_face),
        cmocka_unit_test(test_stream_never_splits_a_character),
        cmocka_unit_test(test_any_bytes_come_back),
        cmocka_unit_test(test_special_tokens_and_ends),
        cmocka_unit_test(test_missing_bytes_and_foreign_letters),
        cmocka_unit_test(test_merge_order),
        cmocka_unit_test(test_bad_vocabularies),
        cmocka_unit_test(test_tables_are_small),
        cmocka_unit_test(test_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, load_fixture, free_fixture);
}
