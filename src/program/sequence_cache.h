/* sequence_cache.h - keys and values of one sequence, outside the graph: UpdateAndAttendNode.
 *
 * Per layer one pool of keys and one of values [1, kv_heads, slots, head_dim]. Flat pools double up
 * to the capacity; a ring's have window + max_write - 1 slots, logical positions modulo slots. */
#ifndef NP_SEQUENCE_CACHE_H
#define NP_SEQUENCE_CACHE_H

#include "array/array.h"
#include "neap/program.h"

typedef struct np_cache_layer {
    neap_state *keys, *values;
    int64_t slots;
} np_cache_layer;

struct neap_sequence_cache {
    neap_sequence_cache *next;
    neap_context *ctx;
    char key[64];
    neap_sequence_cache_options o;
    np_cache_layer *layers;
};

typedef struct np_cache_registry {
    neap_context *ctx;
    neap_sequence_cache *first;
} np_cache_registry;

neap_sequence_cache *np_cache_find(const np_cache_registry *r, const char *key);
void np_cache_registry_free(np_cache_registry *r);

/* Makes room for positions up to `end` in a layer; what is there stays. NEAP_ELIMIT beyond the
 * capacity, or for a step longer than a ring takes. */
neap_status np_cache_reserve(neap_sequence_cache *c, neap_context *ctx, int64_t layer, int64_t start,
                             int64_t end);
void np_cache_reset(neap_sequence_cache *c);
/* Takes back writes that were recorded and did not run. c may be NULL. */
void np_cache_forget(neap_sequence_cache *c);

#endif
