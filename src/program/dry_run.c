/* dry_run.c - see dry_run.h. */
#include "program/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "eval/arena.h"

static bool remember(np_dry_run *r, neap_context *ctx, const neap_plan_alive *a)
{
    if (!np_grow(ctx, NEAP_MEM_GRAPH, &r->alive, &r->alive_capacity, r->n_alive + 1,
                 sizeof *r->alive))
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
    np_buffer *buffer;
} np_dry_value;

static void forget(np_dry_value *v)
{
    neap_context *ctx = v->buffer->ctx;
    np_ledger_imagine(&ctx->ledger, -(int64_t)np_pages(v->buffer->bytes), 0);
    v->buffer->release = NULL;
    *v->at = v->next;
    if (v->next)
        v->next->at = v->at;
    np_free(ctx, NEAP_MEM_GRAPH, v, sizeof *v);
}

static void let_go(void *user)
{
    forget(user);
}

bool np_dry_keep(np_dry_run *r, neap_context *ctx, np_buffer *b)
{
    if (b->release)
        return true; /* it is counted */
    np_dry_value *v = np_alloc(ctx, NEAP_MEM_GRAPH, sizeof *v);
    if (!v)
        return false;
    *v = (np_dry_value){.next = r->values, .at = &r->values, .buffer = b};
    if (v->next)
        v->next->at = &v->next;
    r->values = v;
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

uint64_t np_dry_slabs(const np_dry_run *r)
{
    return np_ledger_slabs((np_ledger *)(uintptr_t)&r->root->ledger);
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
    uint64_t held = m.active + m.cached + kept + outputs + grown + info.state_bytes;
    np_ledger_imagine(&ctx->ledger, 0, (int64_t)(grown - r->idle));
    r->idle = grown;
    uint64_t slabs = np_dry_slabs(r);
    const bool fullest = held - slabs > r->peak - r->slabs;
    show(r, plan, fullest);
    if (!fullest)
        return true;
    r->peak = held;
    r->slabs = slabs;
    r->info = info;
    r->outputs = outputs;
    memcpy(r->by_category, m.active_by_category, sizeof r->by_category);
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

void np_dry_free(np_dry_run *r, neap_context *ctx)
{
    while (r->values)
        forget(r->values);
    np_ledger_imagine(&ctx->ledger, (int64_t)r->gone, -(int64_t)r->idle);
    np_free(ctx, NEAP_MEM_GRAPH, r->alive, r->alive_capacity * sizeof *r->alive);
    memset(r, 0, sizeof *r);
}
