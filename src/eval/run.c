/* run.c - see run.h. One arena a context, grown to its largest plan, idle between runs. */
#include "eval/run.h"

#include <string.h>

#include "base/interrupt.h"
#include "eval/arena.h"
#include "eval/finish.h"
#include "eval/tiles.h"

static uint64_t state_need(const neap_plan *p, neap_state *const *states)
{
    uint64_t need = 0;
    for (uint32_t i = 0; i < p->n_states; i++)
        if (!states[i]->buffer->data)
            need += np_pages(neap_state_bytes(states[i]));
    return need;
}

uint64_t np_run_room(const neap_plan *p, neap_state *const *states)
{
    np_ledger *l = &p->ctx->ledger;
    if (l->limit == UINT64_MAX)
        return UINT64_MAX;
    /* The arena that is there is held already, and serves. */
    uint64_t arena = p->info.peak_bytes - p->info.output_bytes;
    uint64_t held = np_ledger_held(l) + state_need(p, states);
    held -= arena - np_arena_growth(p->ctx, p->info.arena_bytes);
    return l->limit > held ? l->limit - held : 0;
}

neap_status np_run_reserve(neap_plan *p, neap_state *const *states)
{
    neap_context *ctx = p->ctx;
    uint64_t need = state_need(p, states), limit = ctx->ledger.limit;
    uint64_t grown = np_arena_growth(ctx, p->info.arena_bytes);
    uint64_t held = np_ledger_held(&ctx->ledger);
    if (limit != UINT64_MAX && held + need + grown > limit) {
        for (uint64_t before = UINT64_MAX; held < before && held + need + grown > limit;) {
            before = held;
            neap_context_trim(ctx); /* the arena too: a larger one replaces it */
            grown = np_arena_growth(ctx, p->info.arena_bytes);
            held = np_ledger_held(&ctx->ledger);
        }
        if (held + need + grown > limit)
            return np_fail(ctx, NEAP_ENOMEM,
                           "needs at least %llu bytes, the limit is %llu: held %llu, states %llu, "
                           "activations %llu, scratch %llu",
                           (unsigned long long)(held + need + grown), (unsigned long long)limit,
                           (unsigned long long)held, (unsigned long long)need,
                           (unsigned long long)(p->info.arena_bytes - p->info.scratch_bytes),
                           (unsigned long long)p->info.scratch_bytes);
    }
    for (uint32_t i = 0; i < p->n_states; i++)
        if (np_state_materialise(states[i]) != NEAP_OK)
            return ctx->status;
    return np_arena_grow(ctx, p->info.arena_bytes, p->info.scratch_bytes);
}

static uint8_t *storage_of(const neap_plan *p, const np_plan_operand *o, const np_binding *with,
                           uint8_t *arena)
{
    switch ((np_place_kind)o->kind) {
    case NP_IN_VALUE:
        return with->values[o->source]->buffer->data;
    case NP_IN_STATE:
        return with->states[o->source]->buffer->data;
    case NP_IN_TILE:
        return NULL; /* each lane has its own */
    case NP_IN_ARENA:
        return arena ? arena + p->blocks[o->source].offset : NULL;
    default:
        return with->outputs[o->source] ? with->outputs[o->source]->data : NULL;
    }
}

static bool has_elements(const np_operand *o)
{
    for (int d = 0; d < o->rank; d++)
        if (o->shape[d] == 0)
            return false;
    return true;
}

/* An operand without elements has no storage, maybe no arena. Kernels step from row to row all the
 * same: from an address, by nothing. */
static void bind_empty(np_operand *o)
{
    static _Alignas(64) uint8_t nothing[64];
    o->data = nothing;
    memset(o->strides, 0, sizeof o->strides);
}

void np_run_bind(neap_plan *p, const np_binding *with)
{
    np_run_bind_at(p, with, np_arena_base(p->ctx));
}

void np_run_bind_at(neap_plan *p, const np_binding *with, uint8_t *arena)
{
    for (uint32_t i = 0; i < p->n_operands; i++) {
        np_plan_operand *o = &p->operands[i];
        uint8_t *s = storage_of(p, o, with, arena);
        o->operand.data = s ? s + o->offset : NULL;
        if (!s && o->kind != NP_IN_TILE && !has_elements(&o->operand))
            bind_empty(&o->operand);
    }
    for (uint32_t i = 0; i < p->n_moving; i++) /* their storage; the run adds the rest */
        p->moving[i].base = storage_of(p, &p->operands[p->moving[i].operand], with, arena);
    p->arena_base = arena;
}

/* First and one-past-last byte that an operand can touch stay inside its storage. */
static bool inside(const np_plan_operand *o, int64_t start)
{
    const np_operand *v = &o->operand;
    int64_t low = start, high = start, size = np_element_bytes((neap_dtype)v->dtype);
    for (int d = 0; d < v->rank; d++) {
        if (v->shape[d] == 0)
            return true;
        int64_t reach = (v->shape[d] - 1) * v->strides[d] * size;
        *(reach < 0 ? &low : &high) += reach;
    }
    return low >= 0 && (uint64_t)(high + size) <= o->storage_bytes;
}

static neap_status set_moving(neap_plan *p)
{
    for (uint32_t i = 0; i < p->n_moving; i++) {
        const np_moving *m = &p->moving[i];
        np_plan_operand *o = &p->operands[m->operand];
        if (m->extent) {
            if (m->extent->value > m->capacity)
                return np_fail(p->ctx, NEAP_ELIMIT, "parameter %s: %lld, the capacity is %lld",
                               m->extent->name, (long long)m->extent->value,
                               (long long)m->capacity);
            o->operand.shape[m->dim] = m->extent->value;
        }
        if (m->shift) {
            int64_t start;
            if (__builtin_mul_overflow(m->shift->value, m->shift_bytes, &start) ||
                __builtin_add_overflow(start, o->offset, &start) || !inside(o, start))
                return np_fail(p->ctx, NEAP_ELIMIT, "parameter %s: %lld reaches past its array",
                               m->shift->name, (long long)m->shift->value);
            o->operand.data = m->base + start;
        }
    }
    return NEAP_OK;
}

/* What the first `begun` steps may have half-written. */
static void poison(const neap_plan *p, neap_state *const *states, uint32_t begun)
{
    for (uint32_t i = 0; i < begun; i++) {
        const np_step *s = &p->steps[i];
        if (!(s->op->flags & NP_OP_EFFECT) || (s->op->flags & NP_OP_APPENDS))
            continue;
        for (uint32_t k = 0; k < p->n_states; k++) {
            const np_buffer *b = states[k]->buffer;
            const uint8_t *at = s->in[1]->data;
            if (at >= (uint8_t *)b->data && at < (uint8_t *)b->data + b->bytes)
                states[k]->poisoned = true;
        }
    }
}

neap_status np_run_steps_at(neap_plan *p, neap_state *const *states, uint8_t *arena,
                            np_progress *progress)
{
    neap_context *ctx = p->ctx;
    neap_status status = set_moving(p);
    const neap_context *before = np_work_begin(ctx);
    uint32_t begun = 0;
    if (status == NEAP_OK)
        status = np_check(ctx);
    while (status == NEAP_OK && begun < p->n_steps) {
        if (progress)
            np_progress_at(progress, begun);
        const np_step *s = &p->steps[begun++];
        uint8_t *scratch = s->scratch == NP_NONE ? NULL : arena + p->blocks[s->scratch].offset;
        np_call call = {.ctx = ctx, .pool = ctx->pool, .op = s->op, .attr = s->attr,
                        .n_in = s->n_in, .in = s->in, .out = s->out, .scratch = scratch};
        const np_group *g = s->group == NP_NONE ? NULL : &p->groups[s->group];
        status = !g            ? s->op->run(&call)
                 : g->epilogue ? np_epilogue_run(p, g, scratch)
                               : np_group_run(p, g, scratch);
        if (np_interrupted(ctx)) { /* it may have stopped early, and taken what it left for an error */
            ctx->status = NEAP_OK;
            status = np_check(ctx);
        }
        if (status != NEAP_OK)
            np_fail_prefix(ctx, "%s", s->name);
    }
    np_work_end(before);
    if (status != NEAP_OK)
        poison(p, states, begun);
    return status;
}

neap_status np_run_steps(neap_plan *p, neap_state *const *states)
{
    uint8_t *arena = np_arena_begin(p->ctx, p->info.scratch_bytes);
    np_progress progress;
    np_progress_begin(&progress, p->ctx, "run", p->n_steps, true);
    neap_status status = np_run_steps_at(p, states, arena, &progress);
    np_progress_end(&progress, status);
    np_arena_end(p->ctx, p->info.scratch_bytes);
    return status;
}
