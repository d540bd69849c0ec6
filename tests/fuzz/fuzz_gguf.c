/* fuzz_gguf.c - any bytes as a GGUF file: an error or an index whose every byte can be read. */
#include <stdlib.h>

#include "formats/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum(const void *p, uint64_t n)
{
    uint64_t s = 0;
    for (uint64_t i = 0; i < n; i++)
        s += ((const uint8_t *)p)[i];
    return s;
}

static uint64_t read_value(const np_gguf_value *v)
{
    uint64_t s = sum(v->key.p, v->key.n) + sum(v->data.p, v->data.n);
    if (v->type == NP_GGUF_STRING && v->is_array) {
        uint64_t n = 0;
        np_gguf_strings it = np_gguf_strings_of(v);
        for (np_bytes e; np_gguf_strings_next(&it, &e); n++)
            s += sum(e.p, e.n);
        if (n != v->count)
            abort();
    } else if (v->type == NP_GGUF_F32 || v->type == NP_GGUF_F64) {
        for (uint64_t i = 0; i < v->count; i++)
            s += np_gguf_element_f32(v, i) > 0;
    } else if (v->type != NP_GGUF_STRING) {
        for (uint64_t i = 0; i < v->count; i++)
            s += (uint64_t)np_gguf_element_i64(v, i);
    }
    return s;
}

/* The typed look-ups of one key; whatever they say, they say it without harm. */
static void look_up(neap_context *ctx, const np_gguf *g, const char *key)
{
    uint32_t u;
    float f;
    bool b;
    np_bytes s;
    const np_gguf_value *a;
    np_gguf_u32(g, key, NP_GGUF_OPTIONAL, &u);
    neap_context_clear_error(ctx);
    np_gguf_f32(g, key, NP_GGUF_OPTIONAL, &f);
    np_gguf_bool(g, key, NP_GGUF_REQUIRED, &b);
    neap_context_clear_error(ctx);
    np_gguf_string(g, key, NP_GGUF_OPTIONAL, &s);
    np_gguf_array(g, key, NP_GGUF_STRING, NP_GGUF_OPTIONAL, &a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 64 << 20;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        abort();
    np_gguf *g;
    volatile uint64_t s = 0;
    if (np_gguf_parse(ctx, data, size, "fuzz", &g) == NEAP_OK) {
        for (uint32_t i = 0; i < g->n_values; i++)
            s += read_value(g->values + i);
        for (uint32_t i = 0; i < g->n_tensors; i++)
            s += sum(g->tensors[i].data, g->tensors[i].bytes);
        look_up(ctx, g, "general.alignment");
        look_up(ctx, g, "a");
        np_gguf_free(g);
    }
    neap_context_free(ctx);
    return 0;
}
