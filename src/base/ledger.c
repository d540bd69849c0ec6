/* ledger.c - the one allocator: slabs for small blocks, whole pages for large ones, one limit. */
#include "base/ledger.h"

#include <string.h>
#include <sys/mman.h>

#include "base/interrupt.h"
#include "base/versioned.h"

enum { PAGE = 4096, LARGE = 4 << 20, CHUNK = 16384, CHUNK_HEADER = 64, SIZED_HEADER = 64,
       POPULATED = 32 << 20 };

typedef struct np_chunk {
    struct np_chunk *next, *prev;
    void *free_list;
    uint32_t used, capacity, fresh; /* fresh: slots never handed out yet */
    uint32_t slot;                  /* bytes a slot */
} np_chunk;
_Static_assert(sizeof(np_chunk) <= CHUNK_HEADER, "chunk header must fit before the first slot");

/* 64..1024 in steps of 64 (16 classes), then four steps a doubling up to 16 KiB (16 classes). */
static int class_of(size_t bytes, uint32_t *slot)
{
    if (bytes <= 1024) {
        size_t n = bytes ? (bytes + 63) / 64 : 1;
        *slot = (uint32_t)(n * 64);
        return (int)n - 1;
    }
    size_t base = 1024;
    int c = 16;
    while (bytes > base * 2) {
        base *= 2;
        c += 4;
    }
    size_t step = base / 4, n = (bytes - base + step - 1) / step;
    *slot = (uint32_t)(base + n * step);
    return c + (int)n - 1;
}

uint64_t np_ledger_rounded(uint64_t bytes)
{
    if (bytes > NP_SLAB_MAX)
        return (bytes + PAGE - 1) / PAGE * PAGE;
    uint32_t slot;
    class_of((size_t)bytes, &slot);
    return slot;
}

void np_ledger_init(np_ledger *l, np_ledger *parent, uint64_t limit)
{
    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    l->parent = parent;
    l->limit = limit ? limit : UINT64_MAX;
}

/* ---- counters: every change goes up the chain of parents ------------------------------------ */

static void by_category(const np_ledger *l, uint64_t out[NEAP_MEM_CATEGORIES])
{
    for (int i = 0; i < NEAP_MEM_CATEGORIES; i++)
        out[i] = l->now.active[i] + l->now.idle[i];
}

static void note_peak(np_ledger *l)
{
    const uint64_t own = l->imagined.own;
    uint64_t imagined = l->imagined.active + l->imagined.idle;
    if (l->now.held > l->peak) {
        l->peak = l->now.held;
        by_category(l, l->peak_by_category);
    }
    if (imagined && l->now.held - own + imagined > l->imagined.peak) {
        l->imagined.peak = l->now.held - own + imagined;
        by_category(l, l->imagined.by_category);
        l->imagined.by_category[NEAP_MEM_ACTIVATIONS] += imagined;
        l->imagined.by_category[NEAP_MEM_GRAPH] -= own;
    }
}

static void add(np_ledger *l, int64_t held, np_category c, int64_t active, int64_t idle)
{
    for (; l; l = l->parent) {
        pthread_mutex_lock(&l->lock);
        l->now.held += (uint64_t)held;
        l->now.active[c] += (uint64_t)active;
        l->now.idle[c] += (uint64_t)idle;
        note_peak(l);
        pthread_mutex_unlock(&l->lock);
    }
}

/* The ledger of the chain that `bytes` more would take over its limit, or NULL after booking them.
 */
static np_ledger *hold(np_ledger *l, uint64_t bytes, np_category c, bool idle)
{
    for (np_ledger *p = l; p; p = p->parent) {
        pthread_mutex_lock(&p->lock);
        bool over = bytes > p->limit || p->now.held > p->limit - bytes;
        if (!over) { /* taken back below if a parent refuses */
            p->now.held += bytes;
            *(idle ? &p->now.idle[c] : &p->now.active[c]) += bytes;
        }
        pthread_mutex_unlock(&p->lock);
        if (over) {
            for (np_ledger *q = l; q != p; q = q->parent) {
                pthread_mutex_lock(&q->lock);
                q->now.held -= bytes;
                *(idle ? &q->now.idle[c] : &q->now.active[c]) -= bytes;
                pthread_mutex_unlock(&q->lock);
            }
            return p;
        }
    }
    for (np_ledger *p = l; p; p = p->parent) { /* only what was granted can be a peak */
        pthread_mutex_lock(&p->lock);
        note_peak(p);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

void np_ledger_imagine(np_ledger *l, int64_t active, int64_t idle)
{
    for (; l; l = l->parent) {
        pthread_mutex_lock(&l->lock);
        l->imagined.active += (uint64_t)active;
        l->imagined.idle += (uint64_t)idle;
        pthread_mutex_unlock(&l->lock);
    }
}

void np_ledger_imagine_without(np_ledger *l, int64_t own)
{
    for (; l; l = l->parent) {
        pthread_mutex_lock(&l->lock);
        l->imagined.own += (uint64_t)own;
        pthread_mutex_unlock(&l->lock);
    }
}

void np_ledger_map(np_ledger *l, int64_t bytes)
{
    for (; l; l = l->parent) {
        pthread_mutex_lock(&l->lock);
        l->now.mapped += (uint64_t)bytes;
        pthread_mutex_unlock(&l->lock);
    }
}

uint64_t np_ledger_held(np_ledger *l)
{
    pthread_mutex_lock(&l->lock);
    uint64_t n = l->now.held;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Large blocks ask for large pages: streaming weights through 4 KiB ones costs page walks. */
static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (bytes >= LARGE)
        madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

/* A chunk starts at a multiple of its size, so a slot finds its chunk by masking. */
static np_chunk *map_chunk(void)
{
    char *p = map_pages(2 * CHUNK);
    if (!p)
        return NULL;
    char *q = (char *)(((uintptr_t)p + CHUNK - 1) & ~(uintptr_t)(CHUNK - 1));
    if (q > p)
        munmap(p, (size_t)(q - p));
    munmap(q + CHUNK, (size_t)(p + CHUNK - q));
    return (np_chunk *)q;
}

static void unlink_chunk(np_chunk **list, np_chunk *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        *list = c->next;
    if (c->next)
        c->next->prev = c->prev;
}

static void link_chunk(np_chunk **list, np_chunk *c)
{
    c->prev = NULL;
    c->next = *list;
    if (c->next)
        c->next->prev = c;
    *list = c;
}

/* Slots that are free count as idle host bytes: they serve no category yet. */
static void drop_chunk(np_ledger *l, np_chunk *c)
{
    munmap(c, CHUNK);
    add(l, -CHUNK, NEAP_MEM_HOST, 0, -CHUNK);
}

void np_ledger_trim(np_ledger *l)
{
    for (int i = 0; i < NP_SLAB_CLASSES; i++) {
        np_chunk *free_chunks = NULL;
        pthread_mutex_lock(&l->lock);
        for (np_chunk *c = l->open[i], *next; c; c = next) {
            next = c->next;
            if (c->used == 0) {
                unlink_chunk(&l->open[i], c);
                link_chunk(&free_chunks, c);
            }
        }
        pthread_mutex_unlock(&l->lock);
        for (np_chunk *c = free_chunks, *next; c; c = next) {
            next = c->next;
            drop_chunk(l, c);
        }
    }
}

void np_ledger_destroy(np_ledger *l)
{
    np_ledger_trim(l);
    pthread_mutex_destroy(&l->lock);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static neap_status refuse(neap_context *ctx, np_category c, uint64_t bytes, np_ledger *at)
{
    if (!at)
        return np_fail(ctx, NEAP_ENOMEM, "the system refused %llu bytes for %s",
                       (unsigned long long)bytes, neap_memory_category_name(c));
    return np_fail(ctx, NEAP_ENOMEM, "%llu bytes for %s do not fit: held %llu, the limit is %llu",
                   (unsigned long long)bytes, neap_memory_category_name(c),
                   (unsigned long long)np_ledger_held(at), (unsigned long long)at->limit);
}

/* What is cached goes before anything is refused: free slabs, the arena while no plan runs, then
 * plans, for as long as that gives bytes back. */
static np_ledger *hold_or_trim(neap_context *ctx, uint64_t bytes, np_category c, bool idle)
{
    np_ledger *l = &ctx->ledger;
    np_ledger *over = hold(l, bytes, c, idle);
    uint64_t held = np_ledger_held(l), before = UINT64_MAX;
    while (over && held < before) {
        before = held;
        neap_context_trim(ctx);
        held = np_ledger_held(l);
        over = hold(l, bytes, c, idle);
    }
    return over;
}

static bool fails_on_request(neap_context *ctx, np_category c, uint64_t bytes)
{
    bool fails = false;
    for (np_ledger *l = &ctx->ledger; l; l = l->parent) /* a parent counts its children's too */
        fails |= l->fail_countdown && --l->fail_countdown == 0;
    if (!fails)
        return false;
    np_fail(ctx, NEAP_ENOMEM, "allocation of %llu bytes for %s failed on request",
            (unsigned long long)bytes, neap_memory_category_name(c));
    return true;
}

static void *alloc_whole(neap_context *ctx, np_category c, uint64_t bytes)
{
    np_ledger *over = hold_or_trim(ctx, bytes, c, false);
    if (over) {
        refuse(ctx, c, bytes, over);
        return NULL;
    }
    void *p = map_pages(bytes);
    if (!p) {
        add(&ctx->ledger, -(int64_t)bytes, c, -(int64_t)bytes, 0);
        refuse(ctx, c, bytes, NULL);
    }
    return p;
}

static void *alloc_slot(neap_context *ctx, np_category c, size_t bytes)
{
    np_ledger *l = &ctx->ledger;
    uint32_t slot;
    int i = class_of(bytes, &slot);
    pthread_mutex_lock(&l->lock);
    np_chunk *k = l->open[i];
    pthread_mutex_unlock(&l->lock);
    if (!k) {
        np_ledger *over = hold_or_trim(ctx, CHUNK, NEAP_MEM_HOST, true);
        if (!over)
            k = map_chunk();
        if (!k) {
            if (!over)
                add(l, -CHUNK, NEAP_MEM_HOST, 0, -CHUNK);
            refuse(ctx, c, CHUNK, over);
            return NULL;
        }
        k->slot = slot;
        k->capacity = k->fresh = (CHUNK - CHUNK_HEADER) / slot;
        pthread_mutex_lock(&l->lock);
        link_chunk(&l->open[i], k);
        pthread_mutex_unlock(&l->lock);
    }
    pthread_mutex_lock(&l->lock);
    void *p = k->free_list;
    if (p)
        memcpy(&k->free_list, p, sizeof(void *));
    else
        p = (char *)k + CHUNK_HEADER + (size_t)slot * (k->capacity - k->fresh--);
    if (++k->used == k->capacity) {
        unlink_chunk(&l->open[i], k);
        link_chunk(&l->full[i], k);
    }
    pthread_mutex_unlock(&l->lock);
    add(l, 0, NEAP_MEM_HOST, 0, -(int64_t)slot);
    add(l, 0, c, slot, 0);
    return p;
}

static void free_slot(np_ledger *l, np_category c, void *p, size_t bytes)
{
    uint32_t slot;
    int i = class_of(bytes, &slot);
    np_chunk *k = (np_chunk *)((uintptr_t)p & ~(uintptr_t)(CHUNK - 1));
    pthread_mutex_lock(&l->lock);
    if (k->used-- == k->capacity) {
        unlink_chunk(&l->full[i], k);
        link_chunk(&l->open[i], k);
    }
    memcpy(p, &k->free_list, sizeof(void *));
    k->free_list = p;
    pthread_mutex_unlock(&l->lock);
    add(l, 0, c, -(int64_t)slot, 0);
    add(l, 0, NEAP_MEM_HOST, 0, slot);
}

void *np_alloc(neap_context *ctx, np_category c, size_t bytes)
{
    if (fails_on_request(ctx, c, bytes))
        return NULL;
    if (bytes > SIZE_MAX / 4) {
        np_fail(ctx, NEAP_ENOMEM, "%zu bytes for %s are more than can be addressed", bytes,
                neap_memory_category_name(c));
        return NULL;
    }
    return bytes > NP_SLAB_MAX ? alloc_whole(ctx, c, np_ledger_rounded(bytes))
                               : alloc_slot(ctx, c, bytes);
}

void *np_alloc_pages(neap_context *ctx, np_category c, uint64_t bytes)
{
    if (fails_on_request(ctx, c, bytes))
        return NULL;
    if (bytes > SIZE_MAX / 4) {
        np_fail(ctx, NEAP_ENOMEM, "%llu bytes for %s are more than can be addressed",
                (unsigned long long)bytes, neap_memory_category_name(c));
        return NULL;
    }
    void *p = alloc_whole(ctx, c, np_pages(bytes));
#ifdef MADV_POPULATE_WRITE
    /* An arena or a result is written at once: its pages together cost less than one by one. */
    for (uint64_t at = 0, n; p && c == NEAP_MEM_ACTIVATIONS && at < np_pages(bytes) && !np_interrupted(ctx);
         at += n) {
        n = np_pages(bytes) - at < POPULATED ? np_pages(bytes) - at : POPULATED;
        madvise((char *)p + at, n, MADV_POPULATE_WRITE);
    }
#endif
    return p;
}

void np_free_pages(neap_context *ctx, np_category c, void *p, uint64_t bytes)
{
    if (!p)
        return;
    int64_t n = (int64_t)np_pages(bytes);
    munmap(p, (size_t)n);
    add(&ctx->ledger, -n, c, -n, 0);
}

void *np_calloc(neap_context *ctx, np_category c, size_t bytes)
{
    void *p = np_alloc(ctx, c, bytes);
    if (p && bytes <= NP_SLAB_MAX) /* fresh pages are zero already */
        memset(p, 0, bytes);
    return p;
}

void np_free(neap_context *ctx, np_category c, void *p, size_t bytes)
{
    if (!p)
        return;
    if (bytes <= NP_SLAB_MAX) {
        free_slot(&ctx->ledger, c, p, bytes);
        return;
    }
    np_free_pages(ctx, c, p, bytes);
}

bool np_grow(neap_context *ctx, np_category c, void *array_pointer, size_t *capacity, size_t need,
             size_t element)
{
    if (need <= *capacity)
        return true;
    size_t n = *capacity ? *capacity : 8;
    while (n < need) {
        if (n > SIZE_MAX / 2 / element) {
            np_fail(ctx, NEAP_ENOMEM, "%zu elements are more than can be addressed", need);
            return false;
        }
        n *= 2;
    }
    void *old;
    memcpy(&old, array_pointer, sizeof old);
    void *p = np_alloc(ctx, c, n * element);
    if (!p)
        return false;
    if (old)
        memcpy(p, old, *capacity * element);
    np_free(ctx, c, old, *capacity * element);
    memcpy(array_pointer, &p, sizeof p);
    *capacity = n;
    return true;
}

/* ---- blocks that remember their size ------------------------------------------------------- */

void *np_alloc_sized(neap_context *ctx, np_category c, size_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    size_t n = bytes + SIZED_HEADER;
    char *p = np_alloc(ctx, c, n);
    if (!p)
        return NULL;
    memcpy(p, &n, sizeof n);
    return p + SIZED_HEADER;
}

void np_free_sized(neap_context *ctx, np_category c, void *p)
{
    if (!p)
        return;
    char *block = (char *)p - SIZED_HEADER;
    size_t n;
    memcpy(&n, block, sizeof n);
    np_free(ctx, c, block, n);
}

/* ---- held between uses ------------------------------------------------------------------------
 */

void np_ledger_set_idle(neap_context *ctx, np_category c, uint64_t bytes)
{
    add(&ctx->ledger, 0, c, -(int64_t)bytes, (int64_t)bytes);
}

void np_ledger_set_active(neap_context *ctx, np_category c, uint64_t bytes)
{
    add(&ctx->ledger, 0, c, (int64_t)bytes, -(int64_t)bytes);
}

void np_ledger_note_peak(neap_context *ctx, np_category from, np_category to, uint64_t bytes)
{
    for (np_ledger *l = &ctx->ledger; l; l = l->parent) {
        pthread_mutex_lock(&l->lock);
        if (l->now.held == l->peak && l->peak_by_category[from] >= bytes) {
            l->peak_by_category[from] -= bytes;
            l->peak_by_category[to] += bytes;
        }
        pthread_mutex_unlock(&l->lock);
    }
}

void np_ledger_recategorise(neap_context *ctx, np_category from, np_category to, uint64_t bytes)
{
    add(&ctx->ledger, 0, from, -(int64_t)bytes, 0);
    add(&ctx->ledger, 0, to, (int64_t)bytes, 0);
}

/* ---- public face ------------------------------------------------------------------------------
 */

void neap_context_memory(const neap_context *ctx, neap_memory_info *info)
{
    np_ledger *l = (np_ledger *)&ctx->ledger;
    neap_memory_info m = {.size = sizeof m};
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < NEAP_MEM_CATEGORIES; i++) {
        m.active += l->now.active[i];
        m.active_by_category[i] = l->now.active[i];
        m.peak_by_category[i] = l->peak_by_category[i];
    }
    m.cached = l->now.held - m.active;
    m.peak = l->peak;
    m.mapped = l->now.mapped;
    m.limit = l->limit == UINT64_MAX ? 0 : l->limit;
    pthread_mutex_unlock(&l->lock);
    np_tell(info, &m, sizeof m);
}

void neap_context_trim(neap_context *ctx)
{
    if (ctx->slot_trim)
        ctx->slot_trim(ctx);
    np_ledger_trim(&ctx->ledger);
}

static neap_status context_set_limit(neap_context *ctx, uint64_t bytes)
{
    np_ledger *l = &ctx->ledger;
    uint64_t limit = bytes ? bytes : UINT64_MAX;
    if (np_ledger_held(l) > limit)
        neap_context_trim(ctx);
    pthread_mutex_lock(&l->lock);
    uint64_t held = l->now.held;
    if (held <= limit)
        l->limit = limit;
    pthread_mutex_unlock(&l->lock);
    if (held > limit)
        return np_fail(ctx, NEAP_ENOMEM, "limit of %llu bytes: %llu are held already",
                       (unsigned long long)bytes, (unsigned long long)held);
    return NEAP_OK;
}

neap_status neap_context_set_limit(neap_context *ctx, uint64_t bytes)
{
    return NP_CALL(ctx, true, context_set_limit(ctx, bytes));
}
