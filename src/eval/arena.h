/* arena.h - the context's one arena of activations and scratch, idle (cached) between runs; and the
 * counters of evaluations, which live beside it. */
#ifndef NP_EVAL_ARENA_H
#define NP_EVAL_ARENA_H

#include "base/context.h"
#include "neap/plan.h"

typedef struct np_engine {
    uint8_t *base;
    uint64_t bytes; /* rounded, as held */
    bool in_use;    /* a plan runs: it cannot be let go */
    neap_eval_stats stats;
} np_engine;

/* What is cheapest to make again goes first: the arena while no plan runs; if there is none, the
 * cached plans. */
void np_arena_trim(neap_context *ctx);

np_engine *np_engine_of(neap_context *ctx); /* made at first use; NULL: no memory */
uint8_t *np_arena_base(neap_context *ctx);
/* Held bytes that growing to `bytes` adds. */
uint64_t np_arena_growth(neap_context *ctx, uint64_t bytes);
neap_status np_arena_grow(neap_context *ctx, uint64_t bytes, uint64_t scratch);
/* Between begin and end the arena is active, `scratch` of it as scratch. */
uint8_t *np_arena_begin(neap_context *ctx, uint64_t scratch);
void np_arena_end(neap_context *ctx, uint64_t scratch);

#endif
