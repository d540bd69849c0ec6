/* plan_view.c - looking at a plan: its values with lifetimes and places, its steps with what is alive
 * at them, what is alive at the peak. Nothing here changes a plan. */
#include <string.h>

#include "base/heap_sort.h"
#include "plan/plan.h"

/* ---- what steps make ---------------------------------------------------------------------------- */

/* A result of a step: its only one, or that of a group's member. */
typedef struct made {
    const np_op *op;
    const char *name;
    const np_plan_operand *out;
    uint32_t block; /* NP_NONE: a root's own bytes, a tile, or none */
    const np_step *step;
    const np_member *member; /* NULL: a step of one op */
} made;

static uint32_t count_made(const neap_plan *p, const np_step *s)
{
    return s->group == NP_NONE ? 1 : p->groups[s->group].n_members;
}

static const np_plan_operand *placed(const np_operand *o)
{
    return (const np_plan_operand *)(const void *)o; /* its first member */
}

static const np_plan_operand *in_slot(const neap_plan *p, uint32_t slot)
{
    return &p->operands[p->slots[slot].operand];
}

static made made_by(const neap_plan *p, const np_step *s, uint32_t i)
{
    if (s->group == NP_NONE)
        return (made){s->op, s->name, placed(s->out), s->block, s, NULL};
    const np_member *m = &p->members[p->groups[s->group].first_member + i];
    return (made){m->op, m->name, in_slot(p, m->first_slot), m->block, s, m};
}

/* What nobody named is called after the first weight or state that it is made from. */
static const char *name_of(const neap_plan *p, const made *m)
{
    if (strcmp(m->name, m->op->name) != 0)
        return m->name;
    const uint32_t n = m->member ? m->member->n_in : m->step->n_in;
    for (uint32_t i = 0; i < n; i++) {
        const np_plan_operand *o = m->member ? in_slot(p, m->member->first_slot + 1 + i)
                                             : placed(m->step->in[i]);
        const char *name = o->kind == NP_IN_VALUE   ? p->values[o->source]->name
                           : o->kind == NP_IN_STATE ? p->states[o->source]->name
                                                    : NULL;
        if (name && *name)
            return name;
    }
    return m->name;
}

/* ---- values ------------------------------------------------------------------------------------- */

/* A block, or a result's own (block NP_NONE). */
typedef struct shown {
    uint32_t first, last, step, index, block; /* index: of the step's results */
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

static size_t collect_block(const neap_plan *p, uint32_t step, uint32_t index, uint32_t block,
                            shown *to)
{
    if (block == NP_NONE || p->blocks[block].bytes == 0)
        return 0;
    const np_block *b = &p->blocks[block];
    *to = (shown){b->first, p->blocks[b->owner].last, step, index, block, true};
    return 1;
}

static size_t collect(const neap_plan *p, shown *to)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const np_step *s = &p->steps[i];
        for (uint32_t k = 0; k < count_made(p, s); k++) {
            const made m = made_by(p, s, k);
            n += collect_block(p, i, k, m.block, to + n);
            if (m.block == NP_NONE && m.out->kind == NP_IN_OUTPUT && m.out->storage_bytes > 0 &&
                !np_is_part(m.out)) /* what is joined is shown as a whole */
                to[n++] = (shown){i, p->n_steps - 1, i, k, NP_NONE, true};
        }
        n += collect_block(p, i, 0, s->scratch, to + n);
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
    const made m = made_by(p, &p->steps[s->step], s->index);
    const np_operand *out = &m.out->operand;
    const np_block *b = s->block == NP_NONE ? NULL : &p->blocks[s->block];
    const bool scratch = b && b->scratch;
    neap_plan_value v = {.name = scratch ? "scratch" : name_of(p, &m),
                         .op = scratch ? p->steps[s->step].op->name : m.op->name,
                         .first = s->first,
                         .last = s->last};
    v.bytes = b ? b->bytes : m.out->storage_bytes;
    v.offset = b && !b->hosted ? b->offset : 0; /* a guest lies at its host's first byte */
    v.kind = !b           ? NEAP_PLAN_RESULT
             : scratch    ? NEAP_PLAN_SCRATCH
             : b->hosted  ? NEAP_PLAN_HOSTED
                          : NEAP_PLAN_ACTIVATION;
    v.result = !b || b->hosted ? (int)m.out->source : -1;
    if (!scratch) {
        v.rank = out->rank;
        v.dtype = (neap_dtype)out->dtype;
        memcpy(v.shape, out->shape, sizeof v.shape);
    }
    return v;
}

static neap_status plan_values(const neap_plan *p,
                             bool (*visit)(void *user, const neap_plan_value *value), void *user)
{
    const size_t most = 2 * (size_t)p->n_steps + p->n_members + 1, shown_bytes = most * sizeof(shown);
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
    return room ? NEAP_OK : NEAP_ENOMEM;
}

neap_status neap_plan_values(const neap_plan *p,
                             bool (*visit)(void *user, const neap_plan_value *value), void *user)
{
    return NP_CALL_ON(p, visit, plan_values(p, visit, user));
}

/* ---- steps -------------------------------------------------------------------------------------- */

/* A group is called after its last op. */
static neap_plan_step describe_step(const neap_plan *p, const np_step *s, int64_t live)
{
    const uint32_t n = count_made(p, s);
    const made m = made_by(p, s, n - 1);
    neap_plan_step step = {.name = name_of(p, &m),
                           .op = m.op->name,
                           .ops = n,
                           .live_bytes = (uint64_t)live,
                           .predicted_seconds = s->seconds};
    const np_group *g = s->group == NP_NONE ? NULL : &p->groups[s->group];
    if (g && g->streamed && g->n_axes) {
        step.rows = p->operands[g->extents_of].operand.shape[g->extent_dim[g->n_axes - 1]];
        step.block_rows = g->block < step.rows ? g->block : step.rows;
    }
    return step;
}

static neap_status plan_steps(const neap_plan *p,
                            bool (*visit)(void *user, const neap_plan_step *step), void *user)
{
    const size_t bytes = ((size_t)p->n_steps + 1) * sizeof(int64_t);
    int64_t *change = np_calloc(p->ctx, NEAP_MEM_GRAPH, bytes), live = 0;
    if (!change)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const np_block *b = &p->blocks[i];
        if (b->owner != i || b->hosted)
            continue;
        change[b->first] += (int64_t)b->bytes;
        change[b->last + 1] -= (int64_t)b->bytes;
    }
    for (uint32_t i = 0; i < p->n_steps; i++) {
        live += change[i];
        const neap_plan_step step = describe_step(p, &p->steps[i], live);
        if (!visit(user, &step))
            break;
    }
    np_free(p->ctx, NEAP_MEM_GRAPH, change, bytes);
    return NEAP_OK;
}

neap_status neap_plan_steps(const neap_plan *p,
                            bool (*visit)(void *user, const neap_plan_step *step), void *user)
{
    return NP_CALL_ON(p, visit, plan_steps(p, visit, user));
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

static neap_plan_alive describe_alive(const neap_plan *p, const made *m, uint32_t block)
{
    const bool scratch = p->blocks[block].scratch;
    const np_operand *out = &m->out->operand;
    neap_plan_alive a = {.name = scratch ? "scratch" : name_of(p, m),
                         .op = scratch ? m->step->op->name : m->op->name,
                         .bytes = p->blocks[block].bytes};
    if (!scratch) {
        a.rank = out->rank;
        a.dtype = (neap_dtype)out->dtype;
        memcpy(a.shape, out->shape, sizeof a.shape);
    }
    return a;
}

/* A result takes its bytes for the whole run; who makes it last tells of it. */
static bool visit_result(const neap_plan *p, uint32_t output,
                         bool (*visit)(void *user, const neap_plan_alive *alive), void *user)
{
    for (uint32_t i = p->n_steps; i-- > 0;) {
        const np_step *s = &p->steps[i];
        for (uint32_t k = count_made(p, s); k-- > 0;) {
            const made m = made_by(p, s, k);
            if (m.block != NP_NONE || m.out->kind != NP_IN_OUTPUT || m.out->source != output)
                continue;
            neap_plan_alive a = {.name = name_of(p, &m), .op = m.op->name,
                                 .bytes = p->output_bytes[output], .rank = m.out->operand.rank,
                                 .dtype = (neap_dtype)m.out->operand.dtype};
            memcpy(a.shape, m.out->operand.shape, sizeof a.shape);
            return visit(user, &a);
        }
    }
    return true;
}

void neap_plan_at_peak(const neap_plan *p, bool (*visit)(void *user, const neap_plan_alive *alive),
                       void *user)
{
    const uint32_t at = (uint32_t)p->info.peak_step;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const np_step *s = &p->steps[i];
        const uint32_t n = count_made(p, s);
        for (uint32_t k = 0; k <= n; k++) { /* the results, then the step's scratch */
            const made m = made_by(p, s, k < n ? k : 0);
            const uint32_t block = k < n ? m.block : s->scratch;
            if (block == NP_NONE || p->blocks[block].hosted || !alive_at(p, block, at))
                continue;
            const neap_plan_alive a = describe_alive(p, &m, block);
            if (!visit(user, &a))
                return;
        }
    }
    for (uint32_t o = 0; o < p->n_outputs; o++)
        if (!visit_result(p, o, visit, user))
            return;
}
