/* cache.c - plans of free-form evaluations by the structure of their graphs: ops, attributes, shapes,
 * wiring; and by how they were planned, which an ancestor of the context may change. Least recently
 * used first out, under a cap of bytes. And how a context plans. */
#include <string.h>

#include "base/versioned.h"
#include "plan/plan.h"

enum { MAX_CACHED_NODES = 65536 };

/* All bits of neap_plan_options.without. */
#define KNOWN_BITS (2u * NEAP_PLAN_BEST_EFFORT - 1)

typedef struct np_cached {
    struct np_cached *next; /* most recently used first */
    np_plan_key key;
    neap_plan *plan;
    uint64_t bytes;
} np_cached; /* the key's params: those that the plan is bound to */

typedef struct np_plan_cache {
    np_cached *first;
    uint64_t bytes;
    neap_plan_options options; /* size 0: the parent's */
    uint64_t budget;           /* beside them, for each plan; 0: none */
    np_region *regions;        /* of workspace */
} np_plan_cache;

static void free_cache(neap_context *ctx, void *p);

static np_plan_cache *cache_of(neap_context *ctx)
{
    if (!ctx->slot[NP_SLOT_PLANS]) {
        ctx->slot[NP_SLOT_PLANS] = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof(np_plan_cache));
        ctx->slot_free[NP_SLOT_PLANS] = free_cache;
    }
    return ctx->slot[NP_SLOT_PLANS];
}

np_region **np_plan_regions(neap_context *ctx)
{
    np_plan_cache *cache = cache_of(ctx);
    return cache ? &cache->regions : NULL;
}

/* ---- options ------------------------------------------------------------------------------------ */

neap_plan_options np_plan_options_of(const neap_context *ctx)
{
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    uint64_t budget = 0;
    bool found = false;
    for (; ctx && !found; ctx = ctx->parent) {
        const np_plan_cache *cache = ctx->slot[NP_SLOT_PLANS];
        if (cache && !budget)
            budget = cache->budget;
        found = cache && cache->options.size;
        if (found)
            o = cache->options;
    }
    if (budget) {
        o.budget = o.budget && o.budget < budget ? o.budget : budget;
        o.without |= NEAP_PLAN_BEST_EFFORT;
    }
    return o;
}

neap_status np_plan_set_budget(neap_context *ctx, uint64_t bytes)
{
    np_plan_cache *cache = bytes ? cache_of(ctx) : ctx->slot[NP_SLOT_PLANS];
    if (!cache)
        return bytes ? NEAP_ENOMEM : NEAP_OK;
    np_plan_cache_shrink(ctx, 0);
    cache->budget = bytes;
    return NEAP_OK;
}

static neap_status context_plan_options(neap_context *ctx, const neap_plan_options *options)
{
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    neap_status status = np_take_options(ctx, "plan", options, &o, sizeof o);
    if (status != NEAP_OK)
        return status;
    if (o.without & ~KNOWN_BITS)
        return np_fail(ctx, NEAP_EINVAL, "without: %#x, expected bits of %#x", o.without,
                       KNOWN_BITS);
    if (o.max_fusion_size < 1)
        return np_fail(ctx, NEAP_EINVAL, "max_fusion_size: %d, expected 1 or more", o.max_fusion_size);
    np_plan_cache *cache = cache_of(ctx);
    if (!cache)
        return NEAP_ENOMEM;
    np_plan_cache_shrink(ctx, 0);
    o.size = sizeof o;
    cache->options = o;
    return NEAP_OK;
}

neap_status neap_context_plan_options(neap_context *ctx, const neap_plan_options *options)
{
    return NP_CALL(ctx, true, context_plan_options(ctx, options));
}

/* ---- keys --------------------------------------------------------------------------------------- */

static bool put(const np_graph *g, np_plan_key *k, const void *p, size_t n)
{
    if (!np_workspace_grow(g->ctx, &k->bytes, &k->capacity, k->n + n, 1))
        return false;
    memcpy(k->bytes + k->n, p, n);
    k->n += n;
    return true;
}

static bool put_index(const np_graph *g, np_plan_key *k, const neap_array *a)
{
    uint32_t e = a ? np_graph_find(g, a) : NP_NONE;
    return put(g, k, &e, sizeof e);
}

/* States are told apart by the order in which they appear, not by name or address. */
static bool put_state(const np_graph *g, np_plan_key *k, const neap_array *a, uint32_t e)
{
    size_t i = 0;
    while (i < k->n_states && g->entries[k->states[i]].array->state != a->state)
        i++;
    if (i == k->n_states) {
        if (!np_workspace_grow(g->ctx, &k->states, &k->state_capacity, i + 1, sizeof *k->states))
            return false;
        k->states[k->n_states++] = e;
    }
    const uint64_t id[2] = {k->states[i], a->version - a->state->done};
    return put(g, k, id, sizeof id);
}

/* So are parameters; a plan is bound to others of the same range. */
static bool put_param(const np_graph *g, np_plan_key *k, neap_param *param, int64_t how)
{
    int64_t id[3] = {-1, 0, how};
    if (param) {
        uint32_t i = 0;
        while (i < k->n_params && i < NP_KEY_PARAMS && k->params[i] != param)
            i++;
        if (i == k->n_params && i < NP_KEY_PARAMS)
            k->params[k->n_params] = param;
        k->n_params += i == k->n_params;
        id[0] = i;
        id[1] = param->max;
    }
    return put(g, k, id, sizeof id);
}

static bool put_entry(const np_graph *g, np_plan_key *k, uint32_t e)
{
    const neap_array *a = g->entries[e].array;
    uint8_t head[4] = {a->dtype, a->rank, (uint8_t)((a->base ? 1 : 0) | (a->done ? 2 : 0) |
                                                          (a->shift || a->extent ? 4 : 0)),
                       a->packed};
    bool ok = put(g, k, head, sizeof head) && put(g, k, a->shape, a->rank * sizeof a->shape[0]) &&
              put(g, k, &a->op, sizeof a->op) && put_index(g, k, a->after);
    if (a->shift || a->extent)
        ok = ok && put_param(g, k, a->shift, a->shift_scale) && put_param(g, k, a->extent, a->dynamic_dim);
    if (a->base)
        return ok && put_index(g, k, a->base) && put_index(g, k, a->n_in ? a->in[0] : NULL) &&
               put(g, k, &a->offset, sizeof a->offset) &&
               put(g, k, a->strides, a->rank * sizeof a->strides[0]);
    if (!a->op || a->done)
        return ok;
    if (a->state && !put_state(g, k, a, e))
        return false;
    ok = ok && put(g, k, a->attr, a->attr_bytes) && put(g, k, &a->n_in, sizeof a->n_in);
    for (uint32_t i = 0; ok && i < a->n_in; i++)
        ok = put_index(g, k, a->in[i]);
    return ok;
}

neap_status np_plan_key_make(const np_graph *g, np_plan_key *k)
{
    *k = (np_plan_key){0};
    if (g->n > MAX_CACHED_NODES)
        return NEAP_OK;
    const neap_plan_options o = np_plan_options_of(g->ctx);
    const uint64_t how[] = {o.without, (uint64_t)o.max_fusion_size, o.budget};
    bool ok = put(g, k, how, sizeof how);
    for (uint32_t e = 0; ok && e < g->n; e++)
        ok = put_entry(g, k, e);
    for (int r = 0; ok && r < g->n_roots; r++)
        ok = put_index(g, k, g->roots[r]);
    if (!ok) {
        np_plan_key_free(g->ctx, k);
        return NEAP_ENOMEM;
    }
    np_workspace_free(g->ctx, k->states, k->state_capacity * sizeof *k->states);
    k->states = NULL;
    k->state_capacity = 0;
    if (k->n_params > NP_KEY_PARAMS) {
        np_plan_key_free(g->ctx, k);
        return NEAP_OK;
    }
    k->hash = 14695981039346656037u;
    for (size_t i = 0; i < k->n; i++)
        k->hash = (k->hash ^ k->bytes[i]) * 1099511628211u;
    return NEAP_OK;
}

/* ---- plans -------------------------------------------------------------------------------------- */

void np_plan_key_free(neap_context *ctx, np_plan_key *k)
{
    np_workspace_free(ctx, k->bytes, k->capacity);
    np_workspace_free(ctx, k->states, k->state_capacity * sizeof *k->states);
    *k = (np_plan_key){0};
}

static void drop(neap_context *ctx, np_cached *c)
{
    np_free(ctx, NEAP_MEM_GRAPH, c->key.bytes, c->key.n);
    np_plan_destroy(c->plan);
    np_free(ctx, NEAP_MEM_GRAPH, c, sizeof *c);
}

void np_plan_cache_shrink(neap_context *ctx, uint64_t bytes)
{
    np_plan_cache *cache = ctx->slot[NP_SLOT_PLANS];
    while (cache && cache->bytes > bytes) {
        np_cached **last = NULL;
        for (np_cached **at = &cache->first; *at; at = &(*at)->next)
            if (!(*at)->plan->users)
                last = at;
        if (!last)
            return;
        np_cached *c = *last;
        *last = c->next;
        cache->bytes -= c->bytes;
        drop(ctx, c);
    }
}

static void free_cache(neap_context *ctx, void *p)
{
    np_plan_cache_shrink(ctx, 0);
    np_free(ctx, NEAP_MEM_GRAPH, p, sizeof(np_plan_cache));
}

/* The plan reads these parameters from now on instead of those that it was bound to. */
static void bind_params(np_cached *c, const np_plan_key *k)
{
    if (!memcmp(c->key.params, k->params, k->n_params * sizeof *k->params))
        return;
    for (uint32_t i = 0; i < c->plan->n_moving; i++) {
        neap_param **both[2] = {&c->plan->moving[i].extent, &c->plan->moving[i].shift};
        for (int b = 0; b < 2; b++) {
            uint32_t n = 0;
            while (n < k->n_params && c->key.params[n] != *both[b])
                n++;
            if (n < k->n_params)
                *both[b] = k->params[n];
        }
    }
    memcpy(c->key.params, k->params, sizeof k->params);
}

neap_plan *np_plan_cache_find(neap_context *ctx, const np_plan_key *k)
{
    np_plan_cache *cache = ctx->slot[NP_SLOT_PLANS];
    if (!cache || !k->n)
        return NULL;
    for (np_cached **at = &cache->first, *c; (c = *at); at = &c->next) {
        if (c->key.hash == k->hash && c->key.n == k->n && !memcmp(c->key.bytes, k->bytes, k->n)) {
            *at = c->next;
            c->next = cache->first;
            cache->first = c;
            bind_params(c, k);
            return c->plan;
        }
    }
    return NULL;
}

bool np_plan_cache_add(neap_context *ctx, np_plan_key *k, neap_plan *p)
{
    uint64_t bytes = p->info.plan_bytes + k->n + sizeof(np_cached);
    if (!k->n || bytes > ctx->plan_cache_bytes / 4)
        return false;
    np_plan_cache *cache = cache_of(ctx);
    if (!cache)
        return false;
    np_plan_cache_shrink(ctx, ctx->plan_cache_bytes - bytes);
    const neap_status before = ctx->status;
    np_cached *c = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *c);
    uint8_t *own = c ? np_alloc(ctx, NEAP_MEM_GRAPH, k->n) : NULL; /* the key is in workspace */
    if (!own) {
        np_free(ctx, NEAP_MEM_GRAPH, c, sizeof *c);
        ctx->status = before; /* the plan runs without */
        return false;
    }
    memcpy(own, k->bytes, k->n);
    *c = (np_cached){cache->first, {.bytes = own, .n = k->n, .hash = k->hash, .n_params = k->n_params}, p, bytes};
    memcpy(c->key.params, k->params, sizeof k->params);
    cache->first = c;
    cache->bytes += bytes;
    np_plan_key_free(ctx, k);
    return true;
}
