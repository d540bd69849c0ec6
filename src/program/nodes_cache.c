/* nodes_cache.c - UpdateAndAttendNode: new keys and values go into the host's cache, then attention
 * over what is in it. The position is needed on the host, so it cuts the walk. */
#include "program/handle.h"
#include "program/walk.h"
#include "neap/ops.h"

/* The first element of the position tensor. */
static bool position_of(np_walk *w, neap_array *x, int64_t *out)
{
    if (!x)
        return false;
    if (neap_array_size(x) < 1 || (x->dtype != NEAP_I64 && x->dtype != NEAP_I32))
        return np_node_fail(w, NEAP_EDTYPE, "the position is an i32 or i64 tensor of one element");
    bool first = w->symbolic || !neap_array_is_value(x);
    x = neap_reshape(x, 1, (int64_t[]){neap_array_size(x)});
    x = neap_narrow(x, 0, 0, 1);
    if (!x || (first && !np_walk_evaluate(w, x)))
        return false;
    w->cut = true; /* the cache may move: no plan that writes it is kept */
    w->h->stats.internal_evaluations++;
    const void *p = neap_array_data(x);
    *out = !p ? 0 : x->dtype == NEAP_I64 ? *(const int64_t *)p : *(const int32_t *)p;
    return true;
}

typedef struct step {
    const neap_sequence_cache *cache;
    int64_t position, count, slots;
} step;

/* Logical positions [first, first + n) of a pool, in order: one run, or two where a ring wraps. */
static neap_array *run_of(neap_array *pool, const step *s, int64_t first, int64_t n)
{
    int64_t at = first % s->slots, head = s->slots - at;
    if (n <= head)
        return neap_narrow(pool, 2, at, at + n);
    neap_array *parts[2] = {neap_narrow(pool, 2, at, s->slots), neap_narrow(pool, 2, 0, n - head)};
    return neap_concat(2, parts, 2);
}

static bool write(neap_state *pool, const step *s, neap_array *rows)
{
    int64_t at = s->position % s->slots, head = s->slots - at, n = s->count;
    neap_array *read = neap_state_read(pool);
    if (n <= head)
        return neap_state_append(neap_narrow(read, 2, at, at + n), rows) != NULL;
    return neap_state_append(neap_narrow(read, 2, at, s->slots), neap_narrow(rows, 2, 0, head)) &&
           neap_state_append(neap_narrow(neap_state_read(pool), 2, 0, n - head),
                             neap_narrow(rows, 2, head, n));
}

static bool check_rows(np_walk *w, const neap_array *k, const neap_array *v)
{
    const neap_sequence_cache_options *o = &w->h->options.cache->o;
    const neap_array *both[2] = {k, v};
    for (int i = 0; i < 2; i++) {
        const neap_array *a = both[i];
        if (a->rank != 4 || a->shape[0] != 1 || a->shape[1] != o->kv_heads ||
            a->shape[3] != o->head_dim || a->shape[2] != k->shape[2] || a->dynamic_dim >= 0)
            return np_node_fail(w, NEAP_ESHAPE, "%s must be [1, %lld, T, %lld], as the cache is",
                                i ? "v" : "k", (long long)o->kv_heads, (long long)o->head_dim);
    }
    return true;
}

static neap_array *attend(const np_node_update_and_attend *n, neap_array *q,
                          const np_cache_layer *l, const step *s)
{
    const neap_sequence_cache_options *c = &s->cache->o;
    int64_t end = s->position + s->count, first = 0;
    if (c->window && s->position - c->window + 1 > 0)
        first = s->position - c->window + 1;
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    o.scale = n->scale.value;
    o.causal = s->count > 1;
    o.window = c->window && s->count > 1 ? c->window : 0;
    neap_dtype dtype = neap_array_dtype(q);
    neap_array *k = run_of(neap_state_read(l->keys), s, first, end - first);
    neap_array *v = run_of(neap_state_read(l->values), s, first, end - first);
    neap_array *out = np_attention_by_heads(q, neap_cast(k, dtype), neap_cast(v, dtype), &o);
    return n->out_dtype.present ? neap_cast(out, n->out_dtype.value) : out;
}

NP_BUILD(update_and_attend)
{
    neap_array *q = np_get(w, n->q), *k = np_get(w, n->k), *v = np_get(w, n->v);
    neap_sequence_cache *c = w->h->options.cache;
    step s = {.cache = c};
    if (!q || !k || !v)
        return false;
    if (!n->layer_id.present || !n->scale.present)
        return np_node_fail(w, NEAP_EFORMAT, "layer_id and scale must be there");
    if (!c)
        return np_node_fail(w, NEAP_EINVAL, "no cache: name an installed one by cache_key");
    if (!check_rows(w, k, v) || !position_of(w, np_get(w, n->position), &s.position))
        return false;
    k = np_get(w, n->k); /* what was evaluated may have taken another array's place */
    v = np_get(w, n->v);
    if (!k || !v)
        return false;
    s.count = k->shape[2];
    if (s.position < 0 || s.position > c->o.capacity) /* before anything is added to it */
        return np_node_fail(w, NEAP_ELIMIT, "position %lld, the cache's capacity is %lld",
                            (long long)s.position, (long long)c->o.capacity);
    if (np_cache_reserve(c, w->ctx, n->layer_id.value, s.position, s.position + s.count) != NEAP_OK)
        return false;
    np_cache_layer *l = &c->layers[n->layer_id.value];
    s.slots = l->slots;
    return write(l->keys, &s, k) && write(l->values, &s, v) &&
           np_put(w, n->out, attend(n, np_get(w, n->q), l, &s));
}
