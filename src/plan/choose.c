/* choose.c - of several whole plans the one to run.
 *
 * Each candidate is emitted, hosted and placed, so what is compared is the arena that a run takes.
 * The plan that is chosen never needs more than the unfused program order. */
#include <string.h>

#include "base/clock.h"
#include "plan/emit.h"
#include "plan/fuse.h"

typedef struct chooser {
    np_builder *b;
    neap_plan_options options;
    np_fusion best, last; /* last: what the builder holds */
    uint64_t best_arena;
    bool have_best;
} chooser;

/* Blocks that no machine can hold would overflow offsets. */
static bool addressable(np_builder *b)
{
    const uint64_t most = (uint64_t)1 << 62;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        if (b->blocks[i].bytes > most - sum) {
            np_fail(b->ctx, NEAP_ENOMEM, "intermediate values of more than 2^62 bytes");
            return false;
        }
        sum += b->blocks[i].bytes;
    }
    return true;
}

/* The arena of a fusion's plan; UINT64_MAX: no memory, or not addressable. */
static uint64_t arena_of(np_builder *b, const np_fusion *fusion)
{
    if (!np_builder_emit(b, fusion) || !addressable(b) || !np_host(b))
        return UINT64_MAX;
    return np_place(b->ctx, b->blocks, b->n_blocks);
}

/* Takes the fuser's state as a candidate; keeps it if it is better than the best so far. */
static bool consider(chooser *c, np_fuser *f)
{
    np_fusion fusion;
    if (!np_fusion_take(f, &fusion))
        return false;
    uint64_t arena = arena_of(c->b, &fusion);
    bool ok = arena != UINT64_MAX;
    if (ok && (!c->have_best || np_pages(arena) <= np_pages(c->best_arena))) {
        if (c->have_best)
            np_fusion_free(c->b, &c->best);
        c->best = fusion;
        c->best_arena = arena;
        c->have_best = true;
    } else {
        np_fusion_free(c->b, &fusion);
    }
    return ok;
}

static bool choose(chooser *c)
{
    np_fuser f;
    bool ok = np_fuser_start(&f, c->b, &c->options) && consider(c, &f);
    if (ok) {
        np_fuse(&f, false);
        ok = consider(c, &f);
    }
    np_fuser_free(&f);
    return ok;
}

neap_status np_plan_build(np_graph *g, bool object, neap_plan **out)
{
    double t0 = np_seconds();
    np_builder b = {.ctx = g->ctx, .g = g};
    chooser c = {.b = &b, .options = np_plan_options_of(g->ctx)};
    neap_plan *p = NULL;
    int64_t merged = 0;
    bool ok = np_graph_simplify(g, &merged) == NEAP_OK && np_builder_start(&b) && choose(&c);
    uint64_t arena = ok ? arena_of(&b, &c.best) : UINT64_MAX;
    neap_plan_info peak = {0};
    if (arena != UINT64_MAX && np_find_peak(&b, &peak))
        p = np_pack(&b, object, merged);
    if (c.have_best)
        np_fusion_free(&b, &c.best);
    np_builder_free(&b);
    if (!p)
        return g->ctx->status != NEAP_OK ? g->ctx->status : NEAP_ENOMEM;
    p->info.arena_bytes = arena;
    p->info.largest_live_bytes = peak.largest_live_bytes;
    p->info.peak_step = peak.peak_step;
    p->info.scratch_bytes = peak.scratch_bytes;
    p->info.peak_bytes = (arena ? np_pages(arena) : 0) + p->info.output_bytes;
    p->info.fused_groups = p->n_groups;
    p->info.plan_seconds = np_seconds() - t0;
    *out = p;
    return NEAP_OK;
}
