/* uses.h - what is known of a program before it runs: which tensors and numbers a node reads and
 * writes, after which instruction of main a temporary is dead, and which updates of a mutable buffer
 * may be done in place. */
#ifndef NP_USES_H
#define NP_USES_H

#include "program/graph.h"

/* Calls visit for every tensor number that the node itself names; `written`: its outputs, else what
 * it reads. */
void np_node_tids(const np_instruction *node, bool written, void (*visit)(void *user, int32_t tid),
                  void *user);
/* The same for numbers of values. */
void np_node_vids(const np_instruction *node, bool written, void (*visit)(void *user, uint32_t vid),
                  void *user);

/* One bit a tensor or value. */
typedef struct np_bits {
    uint8_t *at;
    uint32_t n;
} np_bits;
bool np_bits_make(neap_context *ctx, uint32_t n, np_bits *out);
void np_bits_free(neap_context *ctx, np_bits *b);
static inline bool np_bit(const np_bits *b, uint32_t i)
{
    return b->at[i / 8] >> (i % 8) & 1;
}
static inline void np_bit_set(np_bits *b, uint32_t i)
{
    b->at[i / 8] |= (uint8_t)(1 << (i % 8));
}

/* What a chain, with all that it may run, writes (or reads). */
void np_chain_tids(const np_mlx_graph *g, uint32_t chain, bool written, np_bits *out);
void np_chain_vids(const np_mlx_graph *g, uint32_t chain, bool written, np_bits *out);

typedef struct np_uses {
    const np_mlx_graph *g;
    /* Tensors that nobody reads after instruction i of main: drops[drop_start[i + 1]] up to, and
     * without, drops[drop_start[i]]. */
    uint32_t *drop_start; /* [instructions of main + 1] */
    int32_t *drops;
    size_t n_drops, drops_capacity;
    /* [chain][instruction]: the mutable buffer (its tensor number) that an update's result ends in,
     * so that it may be done there; below 0: none, or not at every time the chain runs. */
    int32_t **in_place;
} np_uses;

neap_status np_uses_make(const np_mlx_graph *g, np_uses **out);
void np_uses_free(np_uses *u);

#endif
