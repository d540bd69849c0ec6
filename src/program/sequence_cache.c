/* sequence_cache.c - see sequence_cache.h. */
#include "program/sequence_cache.h"

#include <string.h>

#include "base/versioned.h"
#include "program/handle.h"

neap_sequence_cache *np_cache_find(const np_cache_registry *r, const char *key)
{
    for (neap_sequence_cache *c = r->first; c; c = c->next)
        if (strcmp(c->key, key) == 0)
            return c;
    return NULL;
}

static void cache_free(neap_sequence_cache *c)
{
    for (int64_t l = 0; c->layers && l < c->o.layers; l++) {
        neap_state_free(c->layers[l].keys);
        neap_state_free(c->layers[l].values);
    }
    np_free(c->ctx, NEAP_MEM_STATE, c->layers, (size_t)c->o.layers * sizeof *c->layers);
    np_free(c->ctx, NEAP_MEM_STATE, c, sizeof *c);
}

void np_cache_registry_free(np_cache_registry *r)
{
    while (r->first) {
        neap_sequence_cache *c = r->first;
        r->first = c->next;
        cache_free(c);
    }
}

/* ---- configuration ---------------------------------------------------------------------------------- */

static neap_status check(neap_context *ctx, const neap_sequence_cache_options *o)
{
    const struct {
        const char *name;
        int64_t value, low, high;
    } rows[] = {
        {"capacity", o->capacity, 1, INT32_MAX},
        {"layers",   o->layers,   1, 65536    },
        {"kv_heads", o->kv_heads, 1, 65536    },
        {"head_dim", o->head_dim, 1, 65536    },
        {"initial",  o->initial,  1, INT32_MAX},
        {"window",   o->window,   0, INT32_MAX},
        {"max_write", o->max_write, 0, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value < rows[i].low || rows[i].value > rows[i].high)
            return np_fail(ctx, NEAP_EINVAL, "cache: %s %lld, the range is %lld to %lld",
                           rows[i].name, (long long)rows[i].value, (long long)rows[i].low,
                           (long long)rows[i].high);
    if (!np_is_float(o->dtype))
        return np_fail(ctx, NEAP_EINVAL, "cache: dtype %s, expected f32, f16 or bf16",
                       neap_dtype_describe(o->dtype)->name ? neap_dtype_describe(o->dtype)->name
                                                           : "(unknown)");
    return NEAP_OK;
}

static neap_status program_install_cache(neap_program *program, const char *key,
                                       const neap_sequence_cache_options *options)
{
    neap_sequence_cache_options o = NEAP_SEQUENCE_CACHE_OPTIONS_INIT;
    neap_context *ctx = program->ctx;
    neap_status status = np_take_options(ctx, "cache", options, &o, sizeof o);
    if (status == NEAP_OK)
        status = check(ctx, &o);
    if (status != NEAP_OK)
        return status;
    if (!key || !*key || strlen(key) > 63)
        return np_fail(ctx, NEAP_EINVAL, "cache: a key of 1 to 63 bytes is needed");
    if (np_cache_find(&program->caches, key))
        return np_fail(ctx, NEAP_EINVAL, "cache: \"%s\" is installed already", key);
    neap_sequence_cache *c = np_calloc(ctx, NEAP_MEM_STATE, sizeof *c);
    if (!c)
        return NEAP_ENOMEM;
    c->ctx = ctx;
    c->o = o;
    memcpy(c->key, key, strlen(key) + 1);
    if (o.window && !o.max_write)
        c->o.max_write = o.window;
    c->layers = np_calloc(ctx, NEAP_MEM_STATE, (size_t)o.layers * sizeof *c->layers);
    if (!c->layers) {
        cache_free(c);
        return NEAP_ENOMEM;
    }
    c->next = program->caches.first;
    program->caches.first = c;
    return NEAP_OK;
}

neap_status neap_program_install_cache(neap_program *program, const char *key,
                                       const neap_sequence_cache_options *options)
{
    return NP_CALL_ON(program, key && options, program_install_cache(program, key, options));
}

/* ---- room ------------------------------------------------------------------------------------------- */

/* Rows of each head move to the larger pool's strides. */
static void carry_over(const neap_sequence_cache *c, const neap_state *from, const neap_state *to)
{
    uint64_t row = (uint64_t)from->shape[2] * (uint64_t)from->shape[3] *
                   (uint64_t)np_element_bytes(c->o.dtype);
    uint64_t wide = row / (uint64_t)from->shape[2] * (uint64_t)to->shape[2];
    for (int64_t h = 0; h < c->o.kv_heads; h++)
        memcpy((uint8_t *)to->buffer->data + (uint64_t)h * wide,
               (const uint8_t *)from->buffer->data + (uint64_t)h * row, row);
}

static neap_status grow(neap_sequence_cache *c, neap_state **state, int64_t slots, const char *name)
{
    int64_t shape[4] = {1, c->o.kv_heads, slots, c->o.head_dim};
    neap_state *larger;
    neap_status status = neap_state_new(c->ctx, name, c->o.dtype, 4, shape, &larger);
    if (status == NEAP_OK)
        status = np_state_materialise(larger);
    if (status != NEAP_OK) {
        neap_state_free(larger);
        return status;
    }
    if (*state)
        carry_over(c, *state, larger);
    neap_state_free(*state);
    *state = larger;
    return NEAP_OK;
}

neap_status np_cache_reserve(neap_sequence_cache *c, neap_context *ctx, int64_t layer, int64_t start,
                             int64_t end)
{
    const neap_sequence_cache_options *o = &c->o;
    if (layer < 0 || layer >= o->layers)
        return np_fail(ctx, NEAP_ELIMIT, "cache layer %lld, the cache has %lld", (long long)layer,
                       (long long)o->layers);
    if (start < 0 || end > o->capacity)
        return np_fail(ctx, NEAP_ELIMIT, "cache positions %lld to %lld, the capacity is %lld",
                       (long long)start, (long long)end, (long long)o->capacity);
    if (o->window && end - start > o->max_write)
        return np_fail(ctx, NEAP_ELIMIT, "a step of %lld positions, the ring takes %lld",
                       (long long)(end - start), (long long)o->max_write);
    np_cache_layer *l = &c->layers[layer];
    int64_t slots = l->slots ? l->slots : o->initial < o->capacity ? o->initial : o->capacity;
    while (!o->window && slots < end)
        slots = slots * 2 < o->capacity ? slots * 2 : o->capacity;
    if (o->window)
        slots = o->window + o->max_write - 1;
    if (slots == l->slots)
        return NEAP_OK;
    neap_status status = grow(c, &l->keys, slots, "cache keys");
    if (status == NEAP_OK)
        status = grow(c, &l->values, slots, "cache values");
    if (status != NEAP_OK) {
        np_fail(ctx, status, "%s", c->ctx->error);
        if (ctx != c->ctx)
            c->ctx->status = NEAP_OK; /* told by the handle's */
        return status;
    }
    l->slots = slots;
    return NEAP_OK;
}

void np_cache_reset(neap_sequence_cache *c)
{
    for (int64_t l = 0; l < c->o.layers; l++) {
        if (c->layers[l].keys)
            neap_state_reset(c->layers[l].keys);
        if (c->layers[l].values)
            neap_state_reset(c->layers[l].values);
    }
}

void np_cache_forget(neap_sequence_cache *c)
{
    for (int64_t l = 0; c && l < c->o.layers; l++) {
        if (c->layers[l].keys)
            np_state_forget(c->layers[l].keys);
        if (c->layers[l].values)
            np_state_forget(c->layers[l].values);
    }
}
