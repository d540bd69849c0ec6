/* dry_run.c - see dry_run.h. */
#include "program/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "eval/arena.h"

/* What the dry run itself keeps lies in pages of its own, which are taken off what is counted: a run
 * has none of it. In slabs it would decide where other small blocks lie. */
static void *own_pages(np_dry_run *r, neap_context *ctx, uint64_t bytes)
{
    void *p = np_alloc_pages(ctx, NEAP_MEM_GRAPH, bytes);
    if (p) {
        r->own += np_pages(bytes);
        np_ledger_imagine_without(&ctx->ledger, (int64_t)np_pages(bytes));
    }
    return p;
}

static void free_own(np_dry_run *r, neap_context *ctx, void *p, uint64_t bytes)
{
    if (!p)
        return;
    np_free_pages(ctx, NEAP_MEM_GRAPH, p, bytes);
    r->own -= np_pages(bytes);
    np_ledger_imagine_without(&ctx->ledger, -(int64_t)np_pages(bytes));
}

static bool grow_alive(np_dry_run *r, neap_context *ctx)
{
    if (r->n_alive < r->alive_capacity)
        return true;
    const size_t n = r->alive_capacity ? 2 * r->alive_capacity : 4096 / sizeof *r->alive;
    np_dry_alive *more = own_pages(r, ctx, n * sizeof *more);
    if (!more)
        return false;
    if (r->n_alive)
        memcpy(more, r->alive, r->n_alive * sizeof *more);
    free_own(r, ctx, r->alive, r->alive_capacity * sizeof *r->alive);
    r->alive = more;
    r->alive_capacity = n;
    return true;
}

static bool remember(np_dry_run *r, neap_context *ctx, const neap_plan_alive *a)
{
    if (!grow_alive(r, ctx))
        return false;
    np_dry_alive *to = &r->alive[r->n_alive++];
    to->what = *a;
    snprintf(to->name, sizeof to->name, "%s", a->name);
    return true;
}

typedef struct visitor {
    np_dry_run *r;
    neap_context *ctx;
    bool ok;
} visitor;

static bool see(void *user, const neap_plan_alive *a)
{
    visitor *v = user;
    v->ok = remember(v->r, v->ctx, a);
    return v->ok;
}

/* Counted on the ledger as long as it lives, so that what planning takes meanwhile comes on top. */
typedef struct np_dry_value {
    struct np_dry_value *next, **at;
    np_dry_run *r;
    np_buffer *buffer;
} np_dry_value;

enum { VALUES = (4096 - sizeof(void *)) / sizeof(np_dry_value) };

struct np_dry_page {
    struct np_dry_page *next;
    np_dry_value values[VALUES];
};

static void link_value(np_dry_value **list, np_dry_value *v)
{
    v->next = *list;
    v->at = list;
    if (v->next)
        v->next->at = &v->next;
    *list = v;
}

static np_dry_value *new_value(np_dry_run *r, neap_context *ctx)
{
    if (!r->unused) {
        struct np_dry_page *page = own_pages(r, ctx, sizeof *page);
        if (!page)
            return NULL;
        page->next = r->pages;
        r->pages = page;
        for (int i = 0; i < VALUES; i++)
            link_value(&r->unused, &page->values[i]);
    }
    np_dry_value *v = r->unused;
    r->unused = v->next;
    if (v->next)
        v->next->at = &r->unused;
    return v;
}

static void forget(np_dry_value *v)
{
    neap_context *ctx = v->buffer->ctx;
    np_ledger_imagine(&ctx->ledger, -(int64_t)np_pages(v->buffer->bytes), 0);
    v->buffer->release = NULL;
    *v->at = v->next;
    if (v->next)
        v->next->at = v->at;
    link_value(&v->r->unused, v);
}

static void let_go(void *user)
{
    forget(user);
}

bool np_dry_keep(np_dry_run *r, neap_context *ctx, np_buffer *b)
{
    if (b->release)
        return true; /* it is counted */
    np_dry_value *v = new_value(r, ctx);
    if (!v)
        return false;
    v->r = r;
    v->buffer = b;
    link_value(&r->values, v);
    b->release = let_go;
    b->user = v;
    np_ledger_imagine(&ctx->ledger, (int64_t)np_pages(b->bytes), 0);
    return true;
}

void np_dry_drop(np_dry_run *r, neap_context *ctx, const np_buffer *b)
{
    uint64_t pages = np_pages(b->bytes);
    r->gone += pages;
    np_ledger_imagine(&ctx->ledger, -(int64_t)pages, 0);
}

void np_dry_trim(np_dry_run *r, neap_context *ctx)
{
    np_arena_trim(ctx);
    np_ledger_imagine(&ctx->ledger, 0, -(int64_t)r->idle);
    r->arena = r->idle = 0;
}

static uint64_t output_pages(const neap_plan *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        if (!p->buffers[i]->data) /* else it is held already */
            bytes += np_pages(p->output_bytes[i]);
    return bytes;
}

static void show(np_dry_run *r, const neap_plan *plan, bool fullest)
{
    char name[32];
    snprintf(name, sizeof name, "evaluation %lld", (long long)r->evaluations);
    if (r->visit && !r->stopped)
        r->stopped = !r->visit(r->user, name, plan, fullest);
}

bool np_dry_note(np_dry_run *r, neap_context *ctx, neap_plan *plan)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    neap_context_memory(r->root, &m);
    neap_plan_describe(plan, &info);
    r->steps += info.steps;
    r->evaluations++;
    r->plan_seconds += info.plan_seconds;
    uint64_t arena = info.arena_bytes ? np_pages(info.arena_bytes) : 0;
    r->arena = arena > r->arena ? arena : r->arena;
    uint64_t kept = ctx->ledger.imagined.active, outputs = output_pages(plan);
    uint64_t grown = np_arena_growth(ctx, r->arena); /* what the context has of it is held already */
    uint64_t held = m.active + m.cached + kept + outputs + grown + info.state_bytes - r->own;
    np_ledger_imagine(&ctx->ledger, 0, (int64_t)(grown - r->idle));
    r->idle = grown;
    const bool fullest = held > r->peak;
    show(r, plan, fullest);
    if (!fullest)
        return true;
    r->peak = held;
    r->info = info;
    r->outputs = outputs;
    memcpy(r->by_category, m.active_by_category, sizeof r->by_category);
    r->by_category[NEAP_MEM_GRAPH] -= r->own;
    r->by_category[NEAP_MEM_STATE] += info.state_bytes;
    r->by_category[NEAP_MEM_SCRATCH] += info.scratch_bytes;
    uint64_t idle = r->arena - grown; /* of the arena; the rest of what is cached is slabs */
    r->by_category[NEAP_MEM_HOST] += m.cached > idle ? m.cached - idle : 0;
    uint64_t rest = held;
    for (int c = 0; c < NEAP_MEM_CATEGORIES; c++)
        rest -= c == NEAP_MEM_ACTIVATIONS ? 0 : r->by_category[c];
    r->by_category[NEAP_MEM_ACTIVATIONS] = rest;
    r->n_alive = 0;
    visitor v = {r, ctx, true};
    neap_plan_at_peak(plan, see, &v);
    return v.ok;
}

void np_dry_next(np_dry_run *r, neap_context *ctx)
{
    np_dry_trim(r, ctx);
    np_ledger_imagine(&ctx->ledger, (int64_t)r->gone, 0);
    r->gone = 0;
}

void np_dry_free(np_dry_run *r, neap_context *ctx)
{
    while (r->values)
        forget(r->values);
    np_ledger_imagine(&ctx->ledger, (int64_t)r->gone, -(int64_t)r->idle);
    free_own(r, ctx, r->alive, r->alive_capacity * sizeof *r->alive);
    for (struct np_dry_page *p = r->pages, *next; p; p = next) {
        next = p->next;
        free_own(r, ctx, p, sizeof *p);
    }
    memset(r, 0, sizeof *r);
}
