/* blocks.h - many small pieces that live and die together: what a reader copies out of a file.
 *
 * Pieces keep their place; all of it goes at once. Not for tensors: it never gives a piece back. */
#ifndef NP_BLOCKS_H
#define NP_BLOCKS_H

#include "base/context.h"
#include "base/reader.h"

typedef struct np_block np_block;

typedef struct np_blocks {
    neap_context *ctx;
    np_block *last;
    uint64_t bytes; /* taken from the ledger, for all blocks */
} np_blocks;

/* Zeroed, 16-byte aligned; a size of 0 gives a valid address. NULL: NEAP_ENOMEM is stored. */
void *np_blocks_take(np_blocks *blocks, uint64_t bytes);
/* The same for `n` elements; n * element that overflows is NEAP_ENOMEM too. */
void *np_blocks_array(np_blocks *blocks, uint64_t n, size_t element);
/* A terminated copy. */
const char *np_blocks_string(np_blocks *blocks, np_bytes text);
void np_blocks_free(np_blocks *blocks);

#endif
