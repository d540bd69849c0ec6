/* fuzz_tokenizer.c - a vocabulary and a text from the input: nothing crashes, and what must come
 * back does. Input: flags, pre-tokenizer, ids, tokens (type, length, bytes), merges (length,
 * bytes), text. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 600, WITH_BYTES = 4, WITH_TYPES = 8, WITH_SCORES = 128 };

typedef struct input {
    np_vocab vocab;
    np_bytes pieces[MOST], merges[256];
    int32_t types[MOST];
    float scores[MOST];
    uint8_t letters[256][4]; /* the byte-level alphabet */
    bool round_trips;        /* every byte has a token, and no token is text of its own */
    np_bytes text;
} input;

static uint8_t take(np_reader *r)
{
    uint8_t byte = 0;
    np_read_u8(r, &byte);
    return byte;
}

static np_bytes take_bytes(np_reader *r)
{
    np_bytes b = {r->p, 0};
    uint64_t n = take(r), left = np_reader_left(r);
    np_read_bytes(r, n < left ? n : left, &b);
    return b;
}

/* The letters are copied behind the input's own bytes, so that all pieces lie in one block. */
static void read_vocab(input *in, np_reader *r, uint8_t flags)
{
    static const char *const pres[] = {"",       "gpt-2",          "smollm",      "llama-bpe",
                                       "qwen2",  "qwen35",         "tekken",      "gpt-4o",
                                       "falcon", "deepseek-coder", "deepseek-v3", "x"};
    np_vocab *v = &in->vocab;
    *v = (np_vocab)NP_VOCAB_INIT;
    v->model = (np_bytes){(const uint8_t *)"gpt2", 4};
    const char *pre = pres[take(r) % (sizeof pres / sizeof pres[0])];
    v->pre = (np_bytes){(const uint8_t *)pre, strlen(pre)};
    v->bos = (int64_t)take(r) - 1;
    v->eos = (int64_t)take(r) - 1;
    v->unk = (int64_t)take(r) - 1;
    v->add_bos = (flags >> 4 & 3) - 1;
    in->round_trips = (flags & WITH_BYTES) && !v->add_bos;
    for (int byte = 0; byte < 256 && (flags & WITH_BYTES); byte++) {
        size_t n = np_utf8_encode(np_byte_to_alphabet((uint8_t)byte), in->letters[byte]);
        in->types[v->n_tokens] = NP_TOKEN_NORMAL;
        in->pieces[v->n_tokens++] = (np_bytes){in->letters[byte], n};
    }
    for (int left = take(r); left > 0; left--) {
        uint8_t type = take(r);
        in->round_trips = in->round_trips && type == NP_TOKEN_NORMAL;
        in->types[v->n_tokens] = type & 128 ? type : type % 7;
        in->pieces[v->n_tokens++] = take_bytes(r);
    }
    for (int left = take(r); left > 0; left--)
        in->merges[v->n_merges++] = take_bytes(r);
    if (flags & WITH_SCORES) { /* of any order, some equal */
        v->model = (np_bytes){(const uint8_t *)"llama", 5};
        v->add_space = (flags & 3) - 1;
        v->n_scores = v->n_tokens;
        for (uint64_t i = 0; i < v->n_tokens; i++)
            in->scores[i] = (float)(i * 7 % 31) - (float)in->pieces[i].n;
        in->round_trips = false;
    }
    v->n_types = flags & WITH_TYPES ? v->n_tokens : 0;
    in->round_trips = in->round_trips && v->n_types;
    v->pieces = in->pieces;
    v->merges = in->merges;
    v->types = in->types;
    v->scores = in->scores;
    in->text = (np_bytes){r->p, np_reader_left(r)};
}

static void check(bool right)
{
    if (!right)
        abort();
}

static void use(neap_context *ctx, const neap_tokenizer *t, const input *in, unsigned flags)
{
    neap_ids ids = {0};
    neap_text raw = {0}, whole = {0}, deltas = {0};
    const char *text = (const char *)in->text.p;
    if (neap_tokenizer_encode(ctx, t, text, in->text.n, flags & 3, &ids) == NEAP_OK) {
        neap_text_stream s;
        neap_text_stream_init(&s, t, flags >> 6 & 1);
        for (size_t i = 0; i < ids.count; i++) {
            check(neap_tokenizer_token_bytes(ctx, t, ids.data[i], &raw) == NEAP_OK);
            check(neap_text_stream_push(ctx, &s, ids.data[i], &deltas) == NEAP_OK);
        }
        check(neap_text_stream_finish(ctx, &s, &deltas) == NEAP_OK);
        check(neap_tokenizer_decode(ctx, t, ids.data, ids.count, flags >> 6 & 1, &whole) ==
              NEAP_OK);
        check(whole.length == deltas.length &&
              (whole.length == 0 || memcmp(whole.data, deltas.data, whole.length) == 0));
        if (in->round_trips)
            check(raw.length == in->text.n &&
                  (raw.length == 0 || memcmp(raw.data, text, raw.length) == 0));
    }
    const neap_chat_message hi = {"user", text, in->text.n};
    neap_chat_render(ctx, t, text, in->text.n, &hi, 1, true, &whole);
    neap_chat_render(ctx, t, NULL, 0, &hi, 1, true, &whole);
    neap_ids_free(ctx, &ids);
    neap_text_free(ctx, &raw);
    neap_text_free(ctx, &whole);
    neap_text_free(ctx, &deltas);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 64 << 20;
    input *in = calloc(1, sizeof *in + size + 1);
    if (!in || neap_context_new(&o, &ctx) != NEAP_OK)
        abort();
    uint8_t *copy = (uint8_t *)(in + 1);
    if (size)
        memcpy(copy, data, size);
    np_reader r = np_reader_over(copy, size);
    uint8_t flags = take(&r);
    read_vocab(in, &r, flags);
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &before);
    neap_tokenizer *t;
    if (np_tokenizer_new(ctx, &in->vocab, &t) == NEAP_OK)
        use(ctx, t, in, flags);
    neap_tokenizer_free(t);
    neap_context_memory(ctx, &after);
    check(after.active == before.active);
    neap_context_free(ctx);
    free(in);
    return 0;
}
