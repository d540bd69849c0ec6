/* place.c - lifetimes to offsets in one arena.
 *
 * No single rule wins everywhere, so several are tried, the quick ones first, until an arena is as
 * small as what is alive at once. Sweeps go through time, forwards, backwards or both ways from the
 * peak, with a list of gaps: long-lived blocks from the bottom, short-lived ones from the top, and
 * what is short differs. Where that leaves a rest, not too many blocks are placed by size, lifetime or both, then again with those
 * first that ended up highest, and few are searched exhaustively (place_exact.c). */
#include "plan/place.h"

#include <string.h>

#include "base/heap_sort.h"

enum {
    MANY = 2000,           /* blocks: more are only swept */
    FEW = 250,             /* fewer are placed as well as can be */
    CLOSE_MANY = 500,      /* of many an arena within 1/500 will do, */
    CLOSE = 5000,          /* of others within 1/5000, unless they are few */
    ROUNDS = 64,           /* that put the highest blocks first, for each rule */
    GAPS_WEIGHED = 1000000, /* in all of them */
    GAPS_SWEPT = 20000000  /* after which no other sweep is tried */
};

typedef struct gap {
    uint64_t start, end;
} gap;

typedef struct placed {
    uint64_t offset, end;
    uint32_t first, last;
} placed;

/* Blocks by the beginning of life, as time runs or backwards. */
typedef struct timeline {
    np_placing *sorted;
    uint32_t *ends; /* sorted's, by the end of life */
} timeline;

typedef struct placer {
    const neap_context *ctx;
    np_placing *items; /* by slot */
    timeline times[2]; /* forwards, backwards */
    np_placing *sorted; /* in another order */
    uint64_t *offset, *best; /* by slot */
    union {
        gap *gaps;
        placed *placed; /* sorted by offset */
    };
    uint32_t n;
    uint32_t peak;         /* the step at which most is alive */
    uint64_t least, arena; /* the bytes alive there; the best arena so far */
    uint64_t weighed, swept; /* gaps looked at */
} placer;

/* ---- sweeps ----------------------------------------------------------------------------------- */

static bool begins_before(const void *user, const np_placing *a, const np_placing *b)
{
    (void)user;
    if (a->first != b->first)
        return a->first < b->first;
    return a->last != b->last ? a->last > b->last : a->slot < b->slot;
}

static bool ends_before(const np_placing *items, const uint32_t *a, const uint32_t *b)
{
    return items[*a].last != items[*b].last ? items[*a].last < items[*b].last : *a < *b;
}

NP_HEAP_SORT(sort_by_begin, np_placing, const void *, begins_before)
NP_HEAP_SORT(sort_by_end, uint32_t, const np_placing *, ends_before)

static void sort_by_time(placer *p, bool backwards)
{
    timeline *t = &p->times[backwards];
    for (uint32_t i = 0; i < p->n; i++) {
        t->sorted[i] = p->items[i];
        if (backwards) {
            t->sorted[i].first = UINT32_MAX - p->items[i].last;
            t->sorted[i].last = UINT32_MAX - p->items[i].first;
        }
    }
    sort_by_begin(NULL, t->sorted, p->n);
    for (uint32_t i = 0; i < p->n; i++)
        t->ends[i] = i;
    sort_by_end(t->sorted, t->ends, p->n);
}

static void find_peak(placer *p)
{
    const timeline *t = &p->times[false];
    uint64_t live = 0;
    for (uint32_t i = 0, ended = 0; i < p->n; i++) {
        while (t->sorted[t->ends[ended]].last < t->sorted[i].first)
            live -= t->sorted[t->ends[ended++]].bytes;
        live += t->sorted[i].bytes;
        if (live > p->least) {
            p->least = live;
            p->peak = t->sorted[i].first;
        }
    }
}

/* Gives [start, end) back: one gap with those that it touches. */
static uint32_t add_gap(gap *gaps, uint32_t n, uint64_t start, uint64_t end)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (gaps[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    const bool joins_next = low < n && gaps[low].start == end;
    const bool joins_last = low > 0 && gaps[low - 1].end == start;
    if (joins_last && joins_next) {
        gaps[low - 1].end = gaps[low].end;
        memmove(gaps + low, gaps + low + 1, (n - low - 1) * sizeof *gaps);
        return n - 1;
    }
    if (joins_last)
        gaps[low - 1].end = end;
    else if (joins_next)
        gaps[low].start = start;
    if (joins_last || joins_next)
        return n;
    memmove(gaps + low + 1, gaps + low, (n - low) * sizeof *gaps);
    gaps[low] = (gap){start, end};
    return n + 1;
}

/* The smallest gap that takes it; the last one, which has no end, counts up to `roof`, and is taken
 * if nothing else will do. */
static uint32_t find_gap(const gap *gaps, uint32_t n, uint64_t bytes, uint64_t roof)
{
    uint32_t best = n - 1;
    const uint64_t last = gaps[best].start;
    uint64_t best_size = roof > last && roof - last >= bytes ? roof - last : UINT64_MAX;
    for (uint32_t i = 0; i < n - 1; i++) {
        const uint64_t size = gaps[i].end - gaps[i].start;
        if (size >= bytes && size < best_size) {
            best = i;
            best_size = size;
        }
    }
    return best;
}

/* Takes its bytes from gap i, from the low end or, if it can, from the high one. */
static uint32_t take_from(gap *gaps, uint32_t n, uint32_t i, uint64_t bytes, bool high,
                          uint64_t roof, uint64_t *offset)
{
    const gap whole = gaps[i];
    const uint64_t end = whole.end < roof ? whole.end : roof;
    *offset = high && end >= whole.start + bytes ? end - bytes : whole.start;
    const gap below = {whole.start, *offset}, above = {*offset + bytes, whole.end};
    const bool has_below = below.start < below.end, has_above = above.start < above.end;
    if (has_below && has_above) {
        memmove(gaps + i + 1, gaps + i, (n - i) * sizeof *gaps);
        gaps[i] = below;
        gaps[i + 1] = above;
        return n + 1;
    }
    if (has_below || has_above) {
        gaps[i] = has_below ? below : above;
        return n;
    }
    memmove(gaps + i, gaps + i + 1, (n - i - 1) * sizeof *gaps);
    return n - 1;
}

/* Goes through time from `start`; what is alive there lies in [0, bottom) already. Blocks that live
 * fewer than `brief` steps come from the top. Returns the end of the highest. */
static uint64_t sweep(placer *p, bool backwards, uint32_t start, uint64_t bottom, uint32_t brief)
{
    const timeline *t = &p->times[backwards];
    uint64_t arena = bottom;
    uint32_t n_gaps = 1, ended = 0;
    p->gaps[0] = (gap){bottom, UINT64_MAX};
    while (ended < p->n && t->sorted[t->ends[ended]].last < start)
        ended++;
    for (uint32_t i = 0; i < p->n; i++) {
        const np_placing *b = &t->sorted[i];
        if (b->first <= start && bottom)
            continue;
        for (; t->sorted[t->ends[ended]].last < b->first; ended++) {
            const np_placing *e = &t->sorted[t->ends[ended]];
            const uint64_t at = p->offset[e->slot];
            n_gaps = add_gap(p->gaps, n_gaps, at, at + e->bytes);
        }
        p->swept += n_gaps;
        const uint32_t into = find_gap(p->gaps, n_gaps, b->bytes, p->least);
        n_gaps = take_from(p->gaps, n_gaps, into, b->bytes, b->last - b->first < brief, p->least,
                           &p->offset[b->slot]);
        const uint64_t end = p->offset[b->slot] + b->bytes;
        arena = end > arena ? end : arena;
    }
    return arena;
}

/* Stacks what is alive at the peak, without gaps, then goes both ways from there. */
static uint64_t sweep_from_peak(placer *p, bool backwards, uint32_t brief)
{
    const uint32_t there = p->peak, mirrored = UINT32_MAX - p->peak;
    const timeline *t = &p->times[!backwards];
    const uint32_t start = backwards ? there : mirrored;
    uint64_t top = 0;
    for (uint32_t i = 0; i < p->n; i++) { /* what lives longest in one direction is lowest */
        const np_placing *b = &t->sorted[i];
        if (b->first > start || b->last < start)
            continue;
        p->offset[b->slot] = top;
        top += b->bytes;
    }
    const uint64_t a = sweep(p, false, there, top, brief), b = sweep(p, true, mirrored, top, brief);
    return a > b ? a : b;
}

/* ---- one after the other, anywhere -------------------------------------------------------------- */

enum { BY_LIFETIME, BY_BOTH, BY_SIZE, ORDERS };

static uint64_t key_of(const np_placing *b, int order)
{
    const uint64_t length = (uint64_t)(b->last - b->first) + 1;
    uint64_t both;
    if (order != BY_BOTH)
        return order == BY_SIZE ? b->bytes : length;
    return __builtin_mul_overflow(b->bytes, length, &both) ? UINT64_MAX : both;
}

static bool key_is_larger(int order, const np_placing *a, const np_placing *b)
{
    const uint64_t x = key_of(a, order), y = key_of(b, order);
    if (x != y)
        return x > y;
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->slot < b->slot;
}

NP_HEAP_SORT(sort_descending, np_placing, int, key_is_larger)

/* The smallest gap between blocks alive at the same time that takes it, or the end of them. */
static uint64_t best_gap(const placed *all, uint32_t n, const np_placing *b)
{
    uint64_t end = 0, best = UINT64_MAX, best_size = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].first > b->last || all[i].last < b->first)
            continue;
        const uint64_t at = all[i].offset;
        if (at > end && at - end >= b->bytes && at - end < best_size) {
            best = end;
            best_size = at - end;
        }
        end = all[i].end > end ? all[i].end : end;
    }
    return best != UINT64_MAX ? best : end;
}

static void insert_placed(placed *all, uint32_t n, const placed *one)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (all[middle].offset < one->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(all + low + 1, all + low, (n - low) * sizeof *all);
    all[low] = *one;
}

/* In the order of `sorted`. */
static uint64_t place_in_order(placer *p)
{
    uint64_t arena = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const np_placing *b = &p->sorted[i];
        const uint64_t at = best_gap(p->placed, i, b);
        const placed one = {at, at + b->bytes, b->first, b->last};
        insert_placed(p->placed, i, &one);
        p->offset[b->slot] = at;
        arena = one.end > arena ? one.end : arena;
    }
    p->weighed += (uint64_t)p->n * p->n / 2 + p->n;
    return arena;
}

/* The blocks at the very top go before all others, in their order. */
static void highest_first(placer *p, uint64_t arena)
{
    for (uint32_t i = 0, moved = 0; i < p->n; i++) {
        const np_placing b = p->sorted[i];
        if (p->offset[b.slot] + b.bytes < arena)
            continue;
        memmove(p->sorted + moved + 1, p->sorted + moved, (i - moved) * sizeof b);
        p->sorted[moved++] = b;
    }
}

/* ---- all of it ---------------------------------------------------------------------------------- */

/* Keeps what was found if it is better; is it good enough? */
static bool settled(placer *p, uint64_t arena)
{
    if (arena < p->arena) {
        p->arena = arena;
        memcpy(p->best, p->offset, p->n * sizeof *p->best);
    }
    const uint64_t slack = p->n > MANY ? p->least / CLOSE_MANY : p->n > FEW ? p->least / CLOSE : 0;
    return p->arena - p->least <= slack;
}

static bool settled_by_sweeps(placer *p)
{
    static const uint32_t brief[] = {2, 128, 0, 8, 32};
    sort_by_time(p, true);
    for (size_t i = 0; i < sizeof brief / sizeof brief[0]; i++)
        for (int way = 0; way < 4; way++) {
            if (np_interrupted(p->ctx))
                return true;
            if (p->swept > GAPS_SWEPT)
                return false;
            const bool backwards = way & 1;
            if (settled(p, way < 2 ? sweep(p, backwards, 0, 0, brief[i])
                                   : sweep_from_peak(p, backwards, brief[i])))
                return true;
        }
    return false;
}

static bool settled_in_order(placer *p)
{
    for (int order = 0; order < ORDERS; order++) {
        memcpy(p->sorted, p->items, p->n * sizeof *p->items);
        sort_descending(order, p->sorted, p->n);
        uint64_t arena = place_in_order(p);
        const uint64_t most = GAPS_WEIGHED * ((uint64_t)order + 1) / ORDERS;
        for (int i = 0; !np_interrupted(p->ctx) && !settled(p, arena) && i < ROUNDS && p->weighed < most; i++) {
            highest_first(p, arena);
            arena = place_in_order(p);
        }
        if (np_interrupted(p->ctx) || settled(p, arena))
            return true;
    }
    return false;
}

static void place(placer *p)
{
    sort_by_time(p, false);
    find_peak(p);
    p->arena = UINT64_MAX;
    if (settled_by_sweeps(p) || p->n > MANY || settled_in_order(p) || p->n > NP_PLACE_EXACT)
        return;
    memcpy(p->sorted, p->items, p->n * sizeof *p->items);
    sort_descending(BY_BOTH, p->sorted, p->n);
    p->arena = np_place_search(p->sorted, p->n, p->arena, p->best);
}

uint64_t np_place(np_work *work, np_block *blocks, uint32_t n)
{
    const size_t slots = (size_t)n + 1;
    uint8_t *memory = np_work_take(work, slots * (4 * sizeof(np_placing) + 2 * sizeof(uint64_t) +
                                               sizeof(placed) + 2 * sizeof(uint32_t)));
    if (!memory)
        return UINT64_MAX;
    placer p = {.ctx = work->ctx, .items = (np_placing *)memory};
    p.sorted = p.items + slots;
    p.times[0].sorted = p.sorted + slots;
    p.times[1].sorted = p.times[0].sorted + slots;
    p.offset = (uint64_t *)(p.times[1].sorted + slots);
    p.best = p.offset + slots;
    p.placed = (placed *)(p.best + slots);
    p.times[0].ends = (uint32_t *)(p.placed + slots);
    p.times[1].ends = p.times[0].ends + slots;
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].owner == i && blocks[i].bytes && !blocks[i].hosted)
            p.items[p.n] = (np_placing){blocks[i].bytes, blocks[i].first, blocks[i].last, p.n}, p.n++;
    if (p.n)
        place(&p);
    if (np_check(work->ctx) != NEAP_OK)
        return UINT64_MAX;
    for (uint32_t i = 0, slot = 0; i < n; i++)
        if (blocks[i].owner == i && blocks[i].bytes && !blocks[i].hosted)
            blocks[i].offset = p.best[slot++];
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].owner != i)
            blocks[i].offset = blocks[blocks[i].owner].offset;
    return p.n ? p.arena : 0;
}
