/* plan_view.c - looking at a plan: its values with lifetimes and places, its steps with what is alive
 * at them, what is alive at the peak. Nothing here changes a plan. */
#include <string.h>

#include "base/heap_sort.h"
#include "plan/plan.h"

/* ---- names -------------------------------------------------------------------------------------- */

static const np_plan_operand *placed(const np_operand *o)
{
    return (const np_plan_operand *)(const void *)o; /* its first member */
}

/* What nobody named is called after the weight or the state that it is made from. */
static const char *name_of(const neap_plan *p, const np_step *s)
{
    if (strcmp(s->name, s->op->name) != 0)
        return s->name;
    for (uint32_t i = 0; i < s->n_in; i++) {
        const np_plan_operand *o = placed(s->in[i]);
        const char *name = o->kind == NP_IN_VALUE   ? p->values[o->source]->name
                           : o->kind == NP_IN_STATE ? p->states[o->source]->name
                                                    : NULL;
        if (name && *name)
            return name;
    }
    return s->name;
}

/* ---- values ------------------------------------------------------------------------------------- */

/* A block, or a result's own (block NP_NONE). */
typedef struct shown {
    uint32_t first, last, step, block;
    bool lives; /* has bytes of its own for a step at least */
} shown;

static bool shown_before(const neap_plan *p, const shown *a, const shown *b)
{
    (void)p;
    if (a->first != b->first)
        return a->first < b->first;
    return a->step != b->step ? a->step < b->step : a->block < b->block;
}

NP_HEAP_SORT(sort_shown, shown, const neap_plan *, shown_before)

static bool is_result(const neap_plan *p, uint32_t step)
{
    const np_step *s = &p->steps[step];
    const np_plan_operand *o = placed(s->out);
    return s->block == NP_NONE && o->kind == NP_IN_OUTPUT && o->storage_bytes > 0;
}

static size_t collect(const neap_plan *p, shown *to)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const uint32_t blocks[2] = {p->steps[i].block, p->steps[i].scratch};
        for (int part = 0; part < 2; part++) {
            const np_block *b = blocks[part] == NP_NONE ? NULL : &p->blocks[blocks[part]];
            if (b && b->bytes)
                to[n++] = (shown){b->first, p->blocks[b->owner].last, i, blocks[part], true};
        }
        if (is_result(p, i))
            to[n++] = (shown){i, p->n_steps - 1, i, NP_NONE, true};
    }
    sort_shown(p, to, n);
    return n;
}

/* Of blocks that share a place the one that is alive is the last begun. `next`: by owner, the first
 * step of the block that follows there. */
static void end_taken_over(const neap_plan *p, shown *all, size_t n, uint32_t *next)
{
    memset(next, 0xff, ((size_t)p->n_blocks + 1) * sizeof *next);
    for (size_t i = n; i-- > 0;) {
        shown *s = &all[i];
        if (s->block == NP_NONE)
            continue;
        uint32_t *follows = &next[p->blocks[s->block].owner];
        if (*follows != NP_NONE) {
            s->lives = *follows > s->first;
            s->last = s->lives ? *follows - 1 : s->first;
        }
        *follows = s->first;
    }
}

static neap_plan_value describe(const neap_plan *p, const shown *s)
{
    const np_step *step = &p->steps[s->step];
    const np_block *b = s->block == NP_NONE ? NULL : &p->blocks[s->block];
    const bool scratch = b && b->scratch;
    neap_plan_value v = {.name = scratch ? "scratch" : name_of(p, step),
                         .op = step->op->name,
                         .first = s->first,
                         .last = s->last};
    const np_plan_operand *o = placed(step->out);
    v.bytes = b ? b->bytes : o->storage_bytes;
    v.offset = b && !b->hosted ? b->offset : 0; /* a guest lies at its host's first byte */
    v.kind = !b           ? NEAP_PLAN_RESULT
             : scratch    ? NEAP_PLAN_SCRATCH
             : b->hosted  ? NEAP_PLAN_HOSTED
                          : NEAP_PLAN_ACTIVATION;
    if (!scratch) {
        v.rank = step->out->rank;
        v.dtype = (neap_dtype)step->out->dtype;
        memcpy(v.shape, step->out->shape, sizeof v.shape);
    }
    return v;
}

neap_status neap_plan_values(const neap_plan *p,
                             bool (*visit)(void *user, const neap_plan_value *value), void *user)
{
    const size_t most = 3 * (size_t)p->n_steps + 1, shown_bytes = most * sizeof(shown);
    const size_t next_bytes = ((size_t)p->n_blocks + 1) * sizeof(uint32_t);
    shown *all = np_alloc(p->ctx, NEAP_MEM_GRAPH, shown_bytes);
    uint32_t *next = np_alloc(p->ctx, NEAP_MEM_GRAPH, next_bytes);
    const bool room = all && next;
    const size_t n = room ? collect(p, all) : 0;
    if (room)
        end_taken_over(p, all, n, next);
    for (size_t i = 0; i < n; i++) {
        if (!all[i].lives)
            continue;
        const neap_plan_value v = describe(p, &all[i]);
        if (!visit(user, &v))
            break;
    }
    np_free(p->ctx, NEAP_MEM_GRAPH, all, shown_bytes);
    np_free(p->ctx, NEAP_MEM_GRAPH, next, next_bytes);
    return room ? NEAP_OK : np_report(p->ctx, NEAP_ENOMEM);
}

/* ---- steps -------------------------------------------------------------------------------------- */

neap_status neap_plan_steps(const neap_plan *p,
                            bool (*visit)(void *user, const neap_plan_step *step), void *user)
{
    const size_t bytes = ((size_t)p->n_steps + 1) * sizeof(int64_t);
    int64_t *change = np_calloc(p->ctx, NEAP_MEM_GRAPH, bytes), live = 0;
    if (!change)
        return np_report(p->ctx, NEAP_ENOMEM);
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const np_block *b = &p->blocks[i];
        if (b->owner != i || b->hosted)
            continue;
        change[b->first] += (int64_t)b->bytes;
        change[b->last + 1] -= (int64_t)b->bytes;
    }
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const np_step *s = &p->steps[i];
        live += change[i];
        const neap_plan_step step = {
            .name = name_of(p, s), .op = s->op->name, .ops = 1, .live_bytes = (uint64_t)live};
        if (!visit(user, &step))
            break;
    }
    np_free(p->ctx, NEAP_MEM_GRAPH, change, bytes);
    return NEAP_OK;
}

/* ---- the peak ----------------------------------------------------------------------------------- */

/* As above, for one step and without memory: also asked while planning. */
static bool alive_at(const neap_plan *p, uint32_t block, uint32_t at)
{
    const np_block *b = &p->blocks[block], *owner = &p->blocks[b->owner];
    if (b->bytes == 0 || b->first > at || owner->last < at)
        return false;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const np_block *other = &p->blocks[i];
        if (other->owner == b->owner && other->first <= at &&
            (other->first > b->first || (other->first == b->first && i > block)))
            return false;
    }
    return true;
}

void neap_plan_at_peak(const neap_plan *p, bool (*visit)(void *user, const neap_plan_alive *alive),
                       void *user)
{
    uint32_t at = (uint32_t)p->info.peak_step;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const np_step *s = &p->steps[i];
        for (int part = 0; part < 2; part++) { /* the result, then its scratch */
            uint32_t b = part ? s->scratch : s->block;
            if (b == NP_NONE || !alive_at(p, b, at))
                continue;
            neap_plan_alive a = {.name = part ? "scratch" : name_of(p, s),
                                 .op = s->op->name,
                                 .bytes = p->blocks[b].bytes};
            if (!part) {
                a.rank = s->out->rank;
                a.dtype = (neap_dtype)s->out->dtype;
                memcpy(a.shape, s->out->shape, sizeof a.shape);
            }
            if (!visit(user, &a))
                return;
        }
    }
}
