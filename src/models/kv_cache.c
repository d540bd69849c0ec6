/* kv_cache.c - the states of a session's keys and values. */
#include <stdio.h>

#include "cpu/kernels.h"
#include "models/model.h"

neap_status np_kv_cache_new(neap_context *ctx, const np_sizes *s, int64_t context, neap_dtype dtype,
                            np_kv_cache *out)
{
    size_t bytes = (size_t)s->layers * sizeof *out->keys;
    *out = (np_kv_cache){.layers = s->layers};
    out->keys = np_calloc(ctx, NEAP_MEM_GRAPH, bytes);
    out->values = np_calloc(ctx, NEAP_MEM_GRAPH, bytes);
    if (!out->keys || !out->values)
        return NEAP_ENOMEM;
    const int64_t groups = (context + NP_KEY_GROUP - 1) / NP_KEY_GROUP;
    const int64_t keys[4] = {s->kv_heads, groups, s->head_dim, NP_KEY_GROUP};
    const int64_t values[3] = {s->kv_heads, context, s->head_dim};
    for (int64_t l = 0; l < s->layers; l++) {
        char name[48];
        snprintf(name, sizeof name, "layer %lld keys", (long long)l);
        neap_status status = np_state_new(ctx, name, dtype, 4, keys, &out->keys[l]);
        snprintf(name, sizeof name, "layer %lld values", (long long)l);
        if (status == NEAP_OK)
            status = np_state_new(ctx, name, dtype, 3, values, &out->values[l]);
        if (status != NEAP_OK)
            return status;
    }
    return NEAP_OK;
}

void np_kv_cache_free(neap_context *ctx, np_kv_cache *c)
{
    size_t bytes = (size_t)c->layers * sizeof *c->keys;
    for (int64_t l = 0; l < c->layers; l++) {
        neap_state_free(c->keys ? c->keys[l] : NULL);
        neap_state_free(c->values ? c->values[l] : NULL);
    }
    np_free(ctx, NEAP_MEM_GRAPH, c->keys, bytes);
    np_free(ctx, NEAP_MEM_GRAPH, c->values, bytes);
    *c = (np_kv_cache){0};
}
