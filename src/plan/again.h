/* again.h - values that are made a second time rather than kept. See again.c, recompute.c. */
#ifndef NP_AGAIN_H
#define NP_AGAIN_H

#include "plan/builder.h"
#include "plan/fuse.h"

enum { NP_MOST_AGAIN = 512 };

/* Value (an entry that runs) is made again right before entry `before`: for that and all later ones. */
typedef struct np_again {
    uint32_t value, before;
} np_again;

typedef struct np_again_set {
    uint32_t n;
    np_again at[NP_MOST_AGAIN]; /* by `before`, then by value; each once */
} np_again_set;

/* false: it is there already, or there is no room. */
bool np_again_add(np_again_set *set, np_again one);

/* ---- again.c: a graph with them ------------------------------------------------------------------ */

typedef struct np_again_graph {
    np_graph g;
    uint32_t *origin; /* by entry: the one that it comes from ... */
    uint32_t *place;  /* ... and the one before which it is made: its origin, if it is not made again */
    size_t origin_capacity, place_capacity;
    struct np_array_chunk *copies;
} np_again_graph;

/* `from` is simplified and outlives it. */
bool np_again_graph_make(const np_graph *from, const np_again_set *set, np_again_graph *out);
/* The entries that the builder's tables name become those of the graph that it was made from. */
void np_again_settle(const np_again_graph *a, np_builder *b);
void np_again_graph_free(np_again_graph *a);

/* ---- recompute.c: which -------------------------------------------------------------------------- */

/* How tasks become steps. */
typedef struct np_way {
    bool fused, sideways, repeats; /* repeats: what lacks axes of a group joins it */
    bool windows;   /* rows of a convolution, with those about them, are blocks */
    bool large;     /* blocks of rows for the sake of large values only */
    int64_t rows;   /* of blocks; 0: none are streamed */
    int64_t bytes;  /* of what a block holds, at most, if one row does not hold more; 0: any */
    uint64_t limit; /* groups that run where more is alive are split */
} np_way;

typedef struct np_recompute {
    const np_graph *g;
    const neap_plan_options *options;
    np_way way;
    /* A plan with less in the arena than those before: the builder holds its steps; takes the fusion
     * over. false: no memory. */
    bool (*found)(void *user, np_builder *b, np_fusion *fusion, uint64_t arena,
                  const np_again_set *set);
    void *user;
} np_recompute;

/* Makes values again, one after the other, as long as that lowers the arena. false: no memory. */
bool np_recompute_search(const np_recompute *r);

/* ---- choose.c ------------------------------------------------------------------------------------ */

/* The arena of a fusion's plan, unrounded; the builder then holds its steps. UINT64_MAX: no memory, or
 * not addressable. */
uint64_t np_fusion_arena(np_builder *b, const np_fusion *fusion);
/* Fuses as the way says, in program order; groups that raise the arena above `limit` are split again and
 * the rest tried once more, `rounds` in all. The builder holds the steps. false: no memory. */
bool np_fuse_way(np_fuser *f, const np_way *way, uint64_t limit, np_fusion *out, uint64_t *arena,
                 int *rounds);

#endif
