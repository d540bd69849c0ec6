/* place.c - lifetimes to offsets in one arena.
 *
 * No single rule wins everywhere (measured: size first 1.021 of the largest live set on one graph,
 * lifetime first 1.0007, and the other way round on the next), so small graphs try four rules and
 * keep the smallest arena. Long graphs are placed in time order, which needs only what is alive. */
#include <string.h>

#include "base/heap_sort.h"
#include "plan/plan.h"

enum { RULES = 4, TRY_ALL = 2000 };

static uint64_t key_of(const np_block *b, int rule)
{
    uint64_t length = (uint64_t)(b->last - b->first) + 1;
    switch (rule) {
    case 0:
        return b->bytes;
    case 1:
        return length;
    case 2:
        return b->bytes / 64 * length;
    default:
        return UINT32_MAX - b->first; /* time order */
    }
}

typedef struct placer {
    np_block *blocks;
    uint32_t *order;  /* blocks to place */
    uint64_t *offset; /* by block */
    uint32_t *placed; /* sorted by offset */
    uint32_t n, n_placed;
} placer;

typedef struct placing_order {
    const np_block *blocks;
    int rule;
} placing_order;

static bool placed_before(placing_order o, const uint32_t *a, const uint32_t *b)
{
    return key_of(&o.blocks[*a], o.rule) > key_of(&o.blocks[*b], o.rule);
}

NP_HEAP_SORT(sort_descending, uint32_t, placing_order, placed_before)

static bool overlap(const np_block *a, const np_block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The smallest gap between blocks alive at the same time that takes it, or the end of them. */
static uint64_t best_gap(const placer *p, const np_block *b)
{
    uint64_t end = 0, best = UINT64_MAX, best_size = UINT64_MAX;
    for (uint32_t i = 0; i < p->n_placed; i++) {
        const np_block *q = &p->blocks[p->placed[i]];
        if (!overlap(b, q))
            continue;
        uint64_t at = p->offset[p->placed[i]];
        if (at > end && at - end >= b->bytes && at - end < best_size) {
            best = end;
            best_size = at - end;
        }
        if (at + q->bytes > end)
            end = at + q->bytes;
    }
    return best != UINT64_MAX ? best : end;
}

static void insert_placed(placer *p, uint32_t block)
{
    uint32_t lo = 0, hi = p->n_placed;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (p->offset[p->placed[mid]] < p->offset[block])
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(p->placed + lo + 1, p->placed + lo, (p->n_placed - lo) * sizeof *p->placed);
    p->placed[lo] = block;
    p->n_placed++;
}

/* In time order a block that has ended overlaps nothing to come: it is forgotten. */
static void forget_ended(placer *p, uint32_t now)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_placed; i++)
        if (p->blocks[p->placed[i]].last >= now)
            p->placed[n++] = p->placed[i];
    p->n_placed = n;
}

static uint64_t place_by(placer *p, int rule)
{
    uint64_t arena = 0;
    sort_descending((placing_order){p->blocks, rule}, p->order, p->n);
    p->n_placed = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        np_block *b = &p->blocks[p->order[i]];
        if (rule == 3)
            forget_ended(p, b->first);
        uint64_t at = best_gap(p, b);
        p->offset[p->order[i]] = at;
        insert_placed(p, p->order[i]);
        if (at + b->bytes > arena)
            arena = at + b->bytes;
    }
    return arena;
}

uint64_t np_place(neap_context *ctx, np_block *blocks, uint32_t n)
{
    placer p = {.blocks = blocks};
    size_t slots = n ? n : 1, bytes = slots * (2 * sizeof(uint32_t) + sizeof(uint64_t));
    uint8_t *memory = np_alloc(ctx, NEAP_MEM_GRAPH, bytes);
    if (!memory)
        return UINT64_MAX;
    p.offset = (uint64_t *)memory;
    p.order = (uint32_t *)(p.offset + slots);
    p.placed = p.order + slots;
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].owner == i && blocks[i].bytes && !blocks[i].hosted)
            p.order[p.n++] = i;
    uint64_t best = UINT64_MAX;
    for (int rule = RULES - 1; rule >= 0; rule--) {
        uint64_t arena = place_by(&p, rule);
        if (arena < best) {
            best = arena;
            for (uint32_t i = 0; i < p.n; i++)
                blocks[p.order[i]].offset = p.offset[p.order[i]];
        }
        if (p.n > TRY_ALL)
            break;
    }
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].owner != i)
            blocks[i].offset = blocks[blocks[i].owner].offset;
    np_free(ctx, NEAP_MEM_GRAPH, memory, bytes);
    return best;
}
