/* fuzz_tokenizer_json.c - a tokenizer.json, then 0xFF, then a text: nothing crashes, nothing leaks,
 * and decoding ids gives the same whole and as a stream. */
#include <stdlib.h>
#include <string.h>

#include "formats/tokenizer_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Patterns may be hostile and take all of their step limit: texts are short. */
enum { TEXT_BYTES = 64 };

static void check(bool right)
{
    if (!right)
        abort();
}

static void use(neap_context *ctx, const neap_tokenizer *t, const char *text, size_t n)
{
    neap_ids ids = {0};
    neap_text whole = {0}, deltas = {0};
    for (unsigned flags = 0; flags < 4; flags++)
        if (neap_tokenizer_encode(ctx, t, text, n, flags, &ids) != NEAP_OK)
            neap_context_clear_error(ctx);
    neap_text_stream s;
    neap_text_stream_init(&s, t, NEAP_DECODE_SPECIAL);
    for (size_t i = 0; i < ids.count; i++)
        check(neap_text_stream_push(ctx, &s, ids.data[i], &deltas) == NEAP_OK);
    check(neap_text_stream_finish(ctx, &s, &deltas) == NEAP_OK);
    check(neap_tokenizer_decode(ctx, t, ids.data, ids.count, NEAP_DECODE_SPECIAL, &whole) ==
          NEAP_OK);
    check(whole.length == deltas.length &&
          (whole.length == 0 || memcmp(whole.data, deltas.data, whole.length) == 0));
    neap_ids_free(ctx, &ids);
    neap_text_free(ctx, &whole);
    neap_text_free(ctx, &deltas);
}

static uint64_t active_bytes(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 64 << 20;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        abort();
    const uint8_t *end = size ? memchr(data, 0xFF, size) : NULL;
    np_bytes file = {data, end ? (uint64_t)(end - data) : size};
    size_t text = end ? size - file.n - 1 : 0;
    text = text < TEXT_BYTES ? text : TEXT_BYTES;
    uint64_t before = active_bytes(ctx);
    neap_tokenizer *t;
    np_json_tree config = {.ctx = ctx};
    if (np_tokenizer_json(ctx, file, &config, &t) == NEAP_OK)
        use(ctx, t, end ? (const char *)end + 1 : "", text);
    neap_tokenizer_free(t);
    neap_context_clear_error(ctx);
    if (np_tokenizer_config(file, &config) == NEAP_OK)
        check(config.count > 0);
    np_json_tree_free(&config);
    check(active_bytes(ctx) == before);
    neap_context_free(ctx);
    return 0;
}
