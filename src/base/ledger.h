/* ledger.h - every byte that Neap allocates goes through here.
 *
 * Blocks over 4 KiB are whole pages from the system; smaller ones are slots of 16 KiB slab chunks,
 * one size class a chunk. Sizes are rounded to 64 bytes at least, the rounding is counted, and
 * every pointer is 64-byte aligned. A block is freed with the size it was asked with.
 *
 *   held = active + cached = what was taken from the system
 *
 * A child's held, active and idle bytes are charged to its parents too. One lock is held at a time.
 */
#ifndef NP_LEDGER_H
#define NP_LEDGER_H

#include <pthread.h>

#include "neap/base.h"

typedef neap_memory_category np_category;

enum { NP_SLAB_CLASSES = 32, NP_SLAB_MAX = 4096 };

typedef struct np_counters {
    uint64_t held;   /* from the system */
    uint64_t mapped; /* file-backed, beside held */
    uint64_t active[NEAP_MEM_CATEGORIES];
    uint64_t idle[NEAP_MEM_CATEGORIES]; /* held, not in use, by the category it served */
} np_counters;

typedef struct np_ledger {
    pthread_mutex_t lock;
    struct np_ledger *parent;
    uint64_t limit; /* UINT64_MAX: none */
    uint64_t peak;
    uint64_t peak_by_category[NEAP_MEM_CATEGORIES];
    struct { /* what a dry run would hold beside what is held, and the peak of both */
        uint64_t active, idle; /* activations */
        uint64_t own;          /* graph bytes that the dry run takes for itself: not counted */
        uint64_t peak;
        uint64_t by_category[NEAP_MEM_CATEGORIES];
    } imagined;
    np_counters now;
    int64_t fail_countdown;                 /* testing: allocation number that fails; 0 = off */
    struct np_chunk *open[NP_SLAB_CLASSES]; /* chunks with a free slot */
    struct np_chunk *full[NP_SLAB_CLASSES];
} np_ledger;

void np_ledger_init(np_ledger *ledger, np_ledger *parent, uint64_t limit);
void np_ledger_destroy(np_ledger *ledger); /* gives everything back, slabs included */
void np_ledger_trim(np_ledger *ledger);
/* Books file-backed bytes; negative to take them off. */
void np_ledger_map(np_ledger *ledger, int64_t bytes);
/* The bytes that a request of `bytes` really takes when it gets its own block (not a new slab). */
uint64_t np_ledger_rounded(uint64_t bytes);
uint64_t np_ledger_held(np_ledger *ledger);
/* Books activations that a dry run would hold: no bytes, and no part of the measured peak. */
void np_ledger_imagine(np_ledger *ledger, int64_t active, int64_t idle);
/* Held bytes of the graph that a run would not have. */
void np_ledger_imagine_without(np_ledger *ledger, int64_t own);

/* Allocation for a context: NULL on failure, with NEAP_ENOMEM stored in ctx (needed, held, limit).
 * A size of 0 gives a valid 64-byte block. */
void *np_alloc(neap_context *ctx, np_category category, size_t bytes);
void *np_calloc(neap_context *ctx, np_category category, size_t bytes);
void np_free(neap_context *ctx, np_category category, void *p, size_t bytes); /* p may be NULL */
/* Whole pages whatever the size: what it takes is known beforehand (np_pages), slab chunks are not.
 */
void *np_alloc_pages(neap_context *ctx, np_category category, uint64_t bytes); /* zero */
void np_free_pages(neap_context *ctx, np_category category, void *p, uint64_t bytes);
static inline uint64_t np_pages(uint64_t bytes)
{
    return bytes ? (bytes + 4095) / 4096 * 4096 : 4096;
}
/* Grows an array of `*capacity` elements to at least `need`; keeps contents. false: ENOMEM. */
bool np_grow(neap_context *ctx, np_category category, void *array_pointer, size_t *capacity,
             size_t need, size_t element);

/* For third parties that free without a size (PCRE2): the size sits in front of the block. */
void *np_alloc_sized(neap_context *ctx, np_category category, size_t bytes);
void np_free_sized(neap_context *ctx, np_category category, void *p);

/* Pages that are held between uses: moves bytes between active and idle. */
void np_ledger_set_idle(neap_context *ctx, np_category category,
                        uint64_t bytes); /* active -> idle */
void np_ledger_set_active(neap_context *ctx, np_category category,
                          uint64_t bytes); /* idle -> active */
/* If what is held now is the peak, its record counts `bytes` of `from` as `to`: an arena is taken
 * whole and split into activations and scratch by the plan. */
void np_ledger_note_peak(neap_context *ctx, np_category from, np_category to, uint64_t bytes);
/* Moves active bytes from one category to another. */
void np_ledger_recategorise(neap_context *ctx, np_category from, np_category to, uint64_t bytes);

#endif
