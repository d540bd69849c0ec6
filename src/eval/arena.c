/* arena.c - see arena.h. */
#include "eval/arena.h"

#include <string.h>

#include "plan/plan.h"

static void let_go(neap_context *ctx, np_engine *e)
{
    if (!e->base)
        return;
    np_ledger_set_active(ctx, NEAP_MEM_ACTIVATIONS, e->bytes);
    np_free_pages(ctx, NEAP_MEM_ACTIVATIONS, e->base, e->bytes);
    e->base = NULL;
    e->bytes = 0;
}

void np_arena_trim(neap_context *ctx)
{
    np_engine *e = ctx->slot[NP_SLOT_ARENA];
    if (e && e->base && !e->in_use)
        let_go(ctx, e);
    else
        np_plan_cache_shrink(ctx, 0);
}

static void free_engine(neap_context *ctx, void *p)
{
    let_go(ctx, p);
    np_free(ctx, NEAP_MEM_GRAPH, p, sizeof(np_engine));
}

np_engine *np_engine_of(neap_context *ctx)
{
    if (!ctx->slot[NP_SLOT_ARENA]) {
        np_engine *e = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *e);
        if (!e)
            return NULL;
        e->stats.size = sizeof e->stats;
        ctx->slot[NP_SLOT_ARENA] = e;
        ctx->slot_free[NP_SLOT_ARENA] = free_engine;
        ctx->slot_trim = np_arena_trim;
    }
    return ctx->slot[NP_SLOT_ARENA];
}

uint8_t *np_arena_base(neap_context *ctx)
{
    np_engine *e = ctx->slot[NP_SLOT_ARENA];
    return e ? e->base : NULL;
}

uint64_t np_arena_growth(neap_context *ctx, uint64_t bytes)
{
    np_engine *e = ctx->slot[NP_SLOT_ARENA];
    uint64_t have = e ? e->bytes : 0, want = bytes ? np_pages(bytes) : 0;
    return want > have ? want - have : 0;
}

neap_status np_arena_grow(neap_context *ctx, uint64_t bytes, uint64_t scratch)
{
    np_engine *e = np_engine_of(ctx);
    if (!e)
        return NEAP_ENOMEM;
    uint64_t want = bytes ? np_pages(bytes) : 0;
    if (want <= e->bytes)
        return NEAP_OK;
    let_go(ctx, e);
    e->base = np_alloc_pages(ctx, NEAP_MEM_ACTIVATIONS, want);
    if (!e->base)
        return NEAP_ENOMEM;
    e->bytes = want;
    np_ledger_note_peak(ctx, NEAP_MEM_ACTIVATIONS, NEAP_MEM_SCRATCH, scratch);
    np_ledger_set_idle(ctx, NEAP_MEM_ACTIVATIONS, want);
    return NEAP_OK;
}

uint8_t *np_arena_begin(neap_context *ctx, uint64_t scratch)
{
    np_engine *e = np_engine_of(ctx);
    if (!e || !e->base)
        return NULL;
    np_ledger_set_active(ctx, NEAP_MEM_ACTIVATIONS, e->bytes);
    np_ledger_recategorise(ctx, NEAP_MEM_ACTIVATIONS, NEAP_MEM_SCRATCH, scratch);
    e->in_use = true;
    return e->base;
}

void np_arena_end(neap_context *ctx, uint64_t scratch)
{
    np_engine *e = np_engine_of(ctx);
    if (!e || !e->base)
        return;
    e->in_use = false;
    np_ledger_recategorise(ctx, NEAP_MEM_SCRATCH, NEAP_MEM_ACTIVATIONS, scratch);
    np_ledger_set_idle(ctx, NEAP_MEM_ACTIVATIONS, e->bytes);
}
