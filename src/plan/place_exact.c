/* place_exact.c - all placements of few blocks (the search of MiniMalloc, ASPLOS 2024).
 *
 * Any placement can be let down until each block rests on the floor or on another, and then be built
 * from the bottom: by rising offset, each block on top of what is alive with it. So it is enough to
 * choose which block comes next. A branch is left when at some step what is built and what is still
 * to come is too high. The number of branches is capped: the same blocks have the same places on any
 * machine. */
#include <string.h>

#include "plan/place.h"

enum { BRANCHES = 10000, N = NP_PLACE_EXACT };

typedef struct builder {
    const np_placing *items;
    uint32_t n, n_times;
    uint32_t from[N], to[N];  /* by item: times at which it is alive, [from, to) */
    uint64_t height[2 * N];   /* by time: top of what is placed */
    uint64_t to_come[2 * N];  /* by time: bytes that are not */
    uint64_t saved[N][2 * N]; /* height before level k */
    uint64_t at[N];           /* offset, by item */
    uint32_t chosen[N];       /* item, by level */
    uint64_t placed;          /* set of items */
} builder;

/* The steps at which something begins; between two of them nothing is born. */
static void find_times(builder *b)
{
    uint32_t times[N];
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t t = b->items[i].first;
        uint32_t k = 0;
        while (k < b->n_times && times[k] < t)
            k++;
        if (k < b->n_times && times[k] == t)
            continue;
        memmove(times + k + 1, times + k, (b->n_times - k) * sizeof *times);
        times[k] = t;
        b->n_times++;
    }
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t k = 0;
        while (times[k] < b->items[i].first)
            k++;
        b->from[i] = k;
        while (k < b->n_times && times[k] <= b->items[i].last)
            b->to_come[k++] += b->items[i].bytes;
        b->to[i] = k;
    }
}

static uint64_t rest(const builder *b, uint32_t item)
{
    uint64_t top = 0;
    for (uint32_t t = b->from[item]; t < b->to[item]; t++)
        top = b->height[t] > top ? b->height[t] : top;
    return top;
}

/* Can all that is to come lie at `floor` or higher, and end at `limit`? */
static bool hopeful(const builder *b, uint64_t floor, uint64_t limit)
{
    for (uint32_t t = 0; t < b->n_times; t++) {
        const uint64_t low = b->height[t] > floor ? b->height[t] : floor;
        if (b->to_come[t] && low + b->to_come[t] > limit)
            return false;
    }
    return true;
}

/* Of equal blocks only the first is tried. */
static bool has_earlier_twin(const builder *b, uint32_t item)
{
    const np_placing *x = &b->items[item];
    for (uint32_t i = 0; i < item; i++) {
        const np_placing *y = &b->items[i];
        if (!(b->placed >> i & 1) && x->first == y->first && x->last == y->last &&
            x->bytes == y->bytes)
            return true;
    }
    return false;
}

static bool put(builder *b, uint32_t level, uint32_t item, uint64_t limit)
{
    const uint64_t floor = level ? b->at[b->chosen[level - 1]] : 0, at = rest(b, item);
    if (at < floor || at + b->items[item].bytes > limit || has_earlier_twin(b, item))
        return false;
    memcpy(b->saved[level], b->height, b->n_times * sizeof *b->height);
    b->chosen[level] = item;
    b->at[item] = at;
    b->placed |= (uint64_t)1 << item;
    for (uint32_t t = b->from[item]; t < b->to[item]; t++) {
        b->height[t] = at + b->items[item].bytes;
        b->to_come[t] -= b->items[item].bytes;
    }
    return true;
}

static void undo(builder *b, uint32_t level)
{
    const uint32_t item = b->chosen[level];
    memcpy(b->height, b->saved[level], b->n_times * sizeof *b->height);
    b->placed &= ~((uint64_t)1 << item);
    for (uint32_t t = b->from[item]; t < b->to[item]; t++)
        b->to_come[t] += b->items[item].bytes;
}

/* The first placement that ends at `limit` or below, all items in b->at; items are tried in their
 * own order at each level. */
static bool build(builder *b, uint64_t limit, uint32_t *branches)
{
    uint32_t next[N + 1] = {0}, level = 0;
    while (level < b->n) {
        uint32_t item = next[level];
        while (item < b->n && (b->placed >> item & 1))
            item++;
        if (item == b->n) {
            if (level == 0)
                return false;
            undo(b, --level);
            continue;
        }
        next[level] = item + 1;
        if (!put(b, level, item, limit))
            continue;
        if (++*branches > BRANCHES)
            return false;
        if (hopeful(b, b->at[item], limit))
            next[++level] = 0;
        else
            undo(b, level);
    }
    return true;
}

uint64_t np_place_search(const np_placing *items, uint32_t n, uint64_t most, uint64_t *offset)
{
    uint32_t branches = 0;
    while (n && n <= N && most) {
        builder b = {.items = items, .n = n};
        find_times(&b);
        if (!build(&b, most - 1, &branches))
            break;
        most = 0;
        for (uint32_t i = 0; i < n; i++) {
            offset[items[i].slot] = b.at[i];
            most = b.at[i] + items[i].bytes > most ? b.at[i] + items[i].bytes : most;
        }
    }
    return most;
}
