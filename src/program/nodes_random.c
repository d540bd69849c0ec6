/* nodes_random.c - random bits: a pure function of the seed, or of the handle's own sequence. */
#include "program/handle.h"
#include "program/walk.h"
#include "neap/ops.h"

/* The key of a draw without a seed: another one at each execution, filled in when the plan runs. */
static neap_array *own_key(np_walk *w)
{
    np_trace *t = w->trace;
    int64_t two = 2;
    if (w->frame) { /* each step draws anew */
        w->wants_unroll = true;
        np_node_fail(w, NEAP_EUNSUPPORTED, "each step of a scan draws its own bits");
        return NULL;
    }
    uint32_t words[2];
    np_draw_key(w->h, t->n_draws, words);
    neap_array *key = neap_array_from(NEAP_U32, 1, &two, words);
    if (!key || !np_grow(w->ctx, NEAP_MEM_GRAPH, &t->draws, &t->draws_capacity, t->n_draws + 1,
                         sizeof *t->draws))
        return NULL;
    t->draws[t->n_draws++] = neap_retain(key);
    return key;
}

static neap_array *seeded_key(np_walk *w, uint32_t vid)
{
    np_number seed;
    int64_t two = 2;
    if (!np_get_vid(w, vid, &seed))
        return NULL;
    np_pin(w, &seed);
    uint32_t words[2] = {(uint32_t)((uint64_t)seed.value >> 32), (uint32_t)seed.value};
    return neap_array_from(NEAP_U32, 1, &two, words);
}

NP_BUILD(random_bits)
{
    int64_t shape[NEAP_MAX_RANK];
    if (!np_get_ints(w, &n->shape, shape, NEAP_MAX_RANK))
        return false;
    neap_array *key = n->seed >= 0 ? seeded_key(w, (uint32_t)n->seed) : own_key(w);
    return np_put(w, n->out, neap_random_bits(key, (int)n->shape.n, shape, n->width));
}
