/* fuzz_jinja.c - a chat template and a conversation from the input: nothing crashes, it ends, and every
 * byte is given back. Input: flags, number of messages, contents (length, bytes), the template. */
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4 };

static uint8_t take(np_reader *r)
{
    uint8_t byte = 0;
    np_read_u8(r, &byte);
    return byte;
}

static np_bytes take_bytes(np_reader *r, uint64_t n)
{
    np_bytes b = {r->p, 0};
    const uint64_t left = np_reader_left(r);
    np_read_bytes(r, n < left ? n : left, &b);
    return b;
}

static void check(bool right)
{
    if (!right)
        abort();
}

static void render(neap_context *ctx, np_reader *r)
{
    static const char *const roles[] = {"user", "assistant", "system", "tool"};
    const np_bytes bos = {(const uint8_t *)"<s>", 3};
    neap_chat_message messages[MOST];
    const uint8_t flags = take(r);
    np_chat_input input = {.messages = messages, .count = 1 + take(r) % MOST};
    input.add_generation_prompt = flags & 1;
    input.bos = flags & 2 ? &bos : NULL;
    for (size_t i = 0; i < input.count; i++) {
        const np_bytes content = take_bytes(r, take(r));
        messages[i] = (neap_chat_message){roles[(i + (flags >> 2)) % MOST], (const char *)content.p, content.n};
    }
    neap_text out = {0};
    check(neap_text_append(ctx, &out, "kept", 4) == NEAP_OK);
    const np_bytes text = take_bytes(r, UINT64_MAX);
    const neap_status status = np_jinja_render(ctx, text, &input, &out);
    check(out.length >= 4 && memcmp(out.data, "kept", 4) == 0);
    check((status == NEAP_OK) == (neap_context_status(ctx) == NEAP_OK));
    check(status == NEAP_OK || out.length == 4);
    neap_text_free(ctx, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 32 << 20;
    uint8_t *copy = malloc(size + 1);
    if (!copy || neap_context_new(&o, &ctx) != NEAP_OK)
        abort();
    if (size)
        memcpy(copy, data, size);
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &before);
    np_reader r = np_reader_over(copy, size);
    render(ctx, &r);
    neap_context_memory(ctx, &after);
    check(after.active == before.active);
    neap_context_free(ctx);
    free(copy);
    return 0;
}
