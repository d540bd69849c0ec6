/* work.c - a planner's workspace: for a table, for one that grows, or for one user after the other.
 *
 * Large tables are whole pages. Small ones share regions, in runs of units that a bitmap tells of: a
 * mapping for each would be most of the time that a small graph takes. A region goes with the last of
 * its tables. */
#include <assert.h>
#include <string.h>

#include "plan/plan.h"

enum { REGION = 32 << 10, UNIT = REGION / 64, SMALL = 8 << 10 };

/* In its own first unit. */
struct np_region {
    struct np_region *next;
    uint64_t used; /* bit i: unit i */
};
_Static_assert(sizeof(struct np_region) <= UNIT, "a region describes itself");

static uint32_t units(size_t bytes)
{
    return bytes ? (uint32_t)((bytes + UNIT - 1) / UNIT) : 1;
}

static size_t rounded(size_t bytes)
{
    return bytes <= SMALL ? units(bytes) * (size_t)UNIT : np_pages(bytes);
}

/* The first n units next to each other that are free; 64: there are none. */
static uint32_t find_units(uint64_t used, uint32_t n)
{
    uint64_t starts = ~used; /* bit i: units i to i + width - 1 are free */
    for (uint32_t width = 1; width < n;) {
        const uint32_t more = width < n - width ? width : n - width;
        starts &= starts >> more;
        width += more;
    }
    return starts ? (uint32_t)__builtin_ctzll(starts) : 64;
}

static void *take_units(np_region *r, uint32_t n)
{
    const uint32_t first = find_units(r->used, n);
    if (first == 64)
        return NULL;
    r->used |= (((uint64_t)1 << n) - 1) << first;
    return memset((uint8_t *)r + first * (size_t)UNIT, 0, n * (size_t)UNIT);
}

static void *take_small(neap_context *ctx, uint32_t n)
{
    np_region **regions = np_plan_regions(ctx);
    void *p = NULL;
    for (np_region *r = regions ? *regions : NULL; r && !p; r = r->next)
        p = take_units(r, n);
    if (p || !regions)
        return p;
    np_region *r = np_alloc_pages(ctx, NEAP_MEM_GRAPH, REGION);
    if (!r)
        return NULL;
    *r = (np_region){.next = *regions, .used = 1};
    *regions = r;
    return take_units(r, n);
}

void *np_workspace_take(neap_context *ctx, size_t bytes)
{
    return bytes <= SMALL ? take_small(ctx, units(bytes)) : np_alloc_pages(ctx, NEAP_MEM_GRAPH, bytes);
}

static void free_small(neap_context *ctx, const uint8_t *p, uint32_t n)
{
    np_region **at = np_plan_regions(ctx), *r = *at;
    while (p < (uint8_t *)r || p >= (uint8_t *)r + REGION) {
        at = &r->next;
        r = *at;
    }
    r->used &= ~((((uint64_t)1 << n) - 1) << (p - (uint8_t *)r) / UNIT);
    if (r->used != 1)
        return;
    *at = r->next;
    np_free_pages(ctx, NEAP_MEM_GRAPH, r, REGION);
}

void np_workspace_free(neap_context *ctx, void *p, size_t bytes)
{
    if (p && bytes <= SMALL)
        free_small(ctx, p, units(bytes));
    else
        np_free_pages(ctx, NEAP_MEM_GRAPH, p, bytes);
}

bool np_workspace_resize(neap_context *ctx, void *table, size_t from, size_t to)
{
    void *old, *new = np_workspace_take(ctx, to);
    if (!new)
        return false;
    memcpy(&old, table, sizeof old);
    if (from)
        memcpy(new, old, from);
    np_workspace_free(ctx, old, from);
    memcpy(table, &new, sizeof new);
    return true;
}

/* Small tables double; large ones grow by half, as old and new are held together. */
static size_t grown(size_t bytes)
{
    enum { LARGE = 32 << 10 };
    return bytes + (bytes < LARGE ? bytes : bytes / 2);
}

bool np_workspace_grow(neap_context *ctx, void *table, size_t *capacity, size_t n, size_t size)
{
    assert(size <= UNIT); /* or as many bytes as whole elements take would be fewer units */
    if (n <= *capacity)
        return true;
    const size_t old = *capacity * size, least = grown(rounded(old));
    if (n > SIZE_MAX / 8 / size) {
        np_fail(ctx, NEAP_ENOMEM, "%zu elements are more than can be addressed", n);
        return false;
    }
    const size_t bytes = rounded(old && least > n * size ? least : n * size);
    if (!np_workspace_resize(ctx, table, old, bytes))
        return false;
    *capacity = bytes / size;
    return true;
}

void *np_work_take(np_work *w, size_t bytes)
{
    if (bytes <= w->bytes)
        return w->memory;
    const size_t least = w->memory ? grown(w->bytes) : 0;
    bytes = rounded(least > bytes ? least : bytes);
    np_work_free(w);
    w->memory = np_workspace_take(w->ctx, bytes);
    w->bytes = w->memory ? bytes : 0;
    return w->memory;
}

void np_work_free(np_work *w)
{
    np_workspace_free(w->ctx, w->memory, w->bytes);
    w->memory = NULL;
    w->bytes = 0;
}
