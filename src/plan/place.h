/* place.h - between place.c, which tries rules, and place_exact.c, which searches. */
#ifndef NP_PLACE_H
#define NP_PLACE_H

#include "plan/plan.h"

typedef struct np_placing {
    uint64_t bytes;
    uint32_t first, last; /* steps, inclusive */
    uint32_t slot;        /* where its offset is kept */
} np_placing;

enum { NP_PLACE_EXACT = 64 }; /* the most that is searched exhaustively */

/* Offsets with an arena under `most`, if there are some and they are found in a number of steps;
 * offsets by slot. Returns the arena, or `most`. */
uint64_t np_place_search(const np_placing *items, uint32_t n, uint64_t most, uint64_t *offset);

#endif
