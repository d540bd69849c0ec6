/* recompute.c - which values are made a second time rather than kept across the peak.
 *
 * Greedy: at the fullest step of the plan at hand, the value alive there and not used there with the
 * most bytes x idle steps per second of making it again; before its next use, with those of its
 * inputs that are dead by then. The whole graph is planned anew, and the plan is kept if less is in
 * the arena, or the peak is reached at fewer steps; else that value is let alone. Where many are made
 * again already, a few more are tried at once. */
#include <string.h>

#include "ops/op_table.h"
#include "plan/again.h"
#include "plan/emit.h"

enum {
    MOST_ROUNDS = 64,
    MOST_FAILURES = 8, /* one after the other */
    MOST_TASKS = 100000, /* planned in all rounds together */
    MOST_ANCESTORS = 8,  /* made again for one value */
    MOST_AT_ONCE = 32,
    AT_ONCE = 8, /* one more for each so many that are made again already */
    SMALL = 16           /* an input this many times smaller may live longer */
};

/* A plan of the graph with some values made again. */
typedef struct attempt {
    np_again_set set;
    np_again_graph graph;
    np_builder b; /* holds the fusion's steps */
    np_fusion fusion;
    uint64_t arena, fullest;
    uint32_t peaks; /* steps that are as full as the fullest */
} attempt;

typedef struct search {
    const np_recompute *r;
    neap_plan_options options; /* the user's, without listener */
    attempt slots[2], *best, *next;
    uint8_t *barred; /* by entry of the graph: not tried again */
    size_t tasks;
    int failures; /* since the last better plan; then one value at a time is tried */
} search;

/* ---- planning anew ------------------------------------------------------------------------------- */

static void drop(attempt *a)
{
    if (a->fusion.group)
        np_fusion_free(&a->b, &a->fusion);
    if (a->b.ctx)
        np_builder_free(&a->b);
    np_again_graph_free(&a->graph);
    memset(a, 0, sizeof *a);
}

/* The steps in an order in which less is alive, if that helps. */
static bool reorder(search *s, attempt *a)
{
    np_fusion other;
    bool changed;
    if (s->options.without & NEAP_PLAN_NO_ORDER)
        return true;
    if (!np_fusion_copy(&a->b, &a->fusion, &other))
        return false;
    bool ok = np_reorder(&a->b, &other, &changed);
    uint64_t arena = ok && changed ? np_fusion_arena(&a->b, &other) : a->arena;
    ok = ok && arena != UINT64_MAX;
    if (ok && arena < a->arena) {
        np_fusion old = a->fusion;
        a->fusion = other;
        a->arena = arena;
        other = old;
    } else if (ok && changed) {
        ok = np_fusion_arena(&a->b, &a->fusion) != UINT64_MAX;
    }
    np_fusion_free(&a->b, &other);
    return ok;
}

static bool weigh(attempt *a)
{
    const np_builder *b = &a->b;
    int64_t *live = np_work_take(&a->b.step_work, ((size_t)b->n_steps + 1) * sizeof *live);
    if (!live)
        return false;
    np_find_live(b, live);
    a->fullest = 0;
    a->peaks = 0;
    for (uint32_t i = 0; i < b->n_steps; i++) {
        if ((uint64_t)live[i] > a->fullest) {
            a->fullest = (uint64_t)live[i];
            a->peaks = 0;
        }
        a->peaks += (uint64_t)live[i] == a->fullest;
    }
    return true;
}

/* Plans the graph with the attempt's set. */
static bool plan(search *s, attempt *a, uint64_t limit)
{
    np_fuser f;
    if (!np_again_graph_make(s->r->g, &a->set, &a->graph))
        return false;
    a->b = (np_builder){.ctx = a->graph.g.ctx, .g = &a->graph.g};
    if (!np_builder_start(&a->b))
        return false;
    bool ok = np_fuser_start(&f, &a->b, &s->options);
    int rounds = 0;
    ok = ok && np_fuse_way(&f, &s->r->way, limit, &a->fusion, &a->arena, &rounds);
    s->tasks += (size_t)rounds * a->b.n_tasks;
    np_fuser_free(&f);
    return ok && reorder(s, a) && weigh(a);
}

static bool is_better(const attempt *a, const attempt *than)
{
    if (a->arena != than->arena)
        return a->arena < than->arena;
    return a->fullest < than->fullest || (a->fullest == than->fullest && a->peaks < than->peaks);
}

/* ---- what to make again -------------------------------------------------------------------------- */

/* The plan at hand, seen from its fullest step. */
typedef struct view {
    const search *s;
    const attempt *a;
    const np_builder *b;
    uint32_t *position; /* by group: its step */
    uint32_t peak;
} view;

/* A value's idle time: its last use up to the peak, or its making, and the next after it. */
typedef struct idle {
    uint32_t from, to;
    uint32_t before; /* entry: the first one in program order that uses it after the peak */
} idle;

/* A proposal: values, each with its dead inputs, before one entry. */
typedef struct proposal {
    uint32_t task[MOST_ANCESTORS], n, before;
    double score;
} proposal;

static const neap_array *array_of(const view *v, uint32_t task)
{
    return v->b->g->entries[v->b->tasks[task].entry].array;
}

static uint32_t step_of(const view *v, uint32_t task)
{
    return v->position[v->a->fusion.group[task]];
}

static bool is_cheap(const view *v, uint32_t task)
{
    const np_op *op = np_task_op(v->b, &v->b->tasks[task]);
    return op->flags & (NP_OP_CHEAP | NP_OP_ELEMENTWISE) || op == &np_op_take ||
           op == &np_op_random_bits || op == &np_op_random_uniform;
}

/* A value of the arena that could be made again. */
static bool may_go(const view *v, uint32_t task)
{
    const np_builder *b = v->b;
    const np_todo *t = &b->tasks[task];
    if (t->phase != NP_RUN || b->direct[t->entry] != NP_NONE || !is_cheap(v, task))
        return false;
    const np_plan_operand *o = &b->operands[b->g->entries[t->entry].operand];
    return o->kind == NP_IN_ARENA && o->storage_bytes > 0;
}

/* Does something before that entry read it? Else it would better be made later, once. */
static bool read_before(const view *v, uint32_t task, uint32_t before)
{
    const np_builder *b = v->b;
    bool some = false;
    for (uint32_t k = b->out_first[task]; k < b->out_first[task + 1]; k++) {
        const np_edge *e = &b->edges[b->out[k]];
        some |= e->reads && v->a->graph.place[b->tasks[e->to].entry] < before;
    }
    return some;
}

static bool find_idle(const view *v, uint32_t task, idle *out)
{
    const np_builder *b = v->b;
    *out = (idle){step_of(v, task), NP_NONE, NP_NONE};
    if (out->from >= v->peak)
        return false;
    for (uint32_t k = b->out_first[task]; k < b->out_first[task + 1]; k++) {
        const np_edge *e = &b->edges[b->out[k]];
        const np_todo *to = &b->tasks[e->to];
        uint32_t at = step_of(v, e->to), place = v->a->graph.place[to->entry];
        if (!e->reads)
            continue;
        if (at == v->peak || (at > v->peak && to->phase != NP_RUN))
            return false;
        if (at < v->peak) {
            out->from = at > out->from ? at : out->from;
            continue;
        }
        out->to = at < out->to ? at : out->to;
        out->before = place < out->before ? place : out->before;
    }
    return out->to != NP_NONE && read_before(v, task, out->before);
}

static uint32_t last_use(const view *v, uint32_t task)
{
    const np_builder *b = v->b;
    uint32_t last = step_of(v, task);
    for (uint32_t k = b->out_first[task]; k < b->out_first[task + 1]; k++) {
        const np_edge *e = &b->edges[b->out[k]];
        if (e->reads && step_of(v, e->to) > last)
            last = step_of(v, e->to);
    }
    return last;
}

/* Is the state between the read and that entry as it was? */
static bool unwritten(const view *v, const neap_array *read, uint32_t before)
{
    const np_builder *b = v->b;
    for (size_t i = 0; i < b->n_writes; i++) {
        const neap_array *w = b->g->entries[b->writes[i]].array;
        if (w->state == read->state && w->version > read->version &&
            v->a->graph.place[b->writes[i]] < before)
            return false;
    }
    return true;
}

/* Adds the makers of inputs that are dead at the step `at`; false: one can not be made again. */
static bool add_dead_inputs(const view *v, proposal *p, uint32_t task, uint32_t at)
{
    const np_builder *b = v->b;
    const np_todo *t = &b->tasks[task];
    uint32_t n;
    neap_array *const *in = np_task_inputs(b, t, &n);
    for (uint32_t i = 0; i < n; i++) {
        const neap_array *s = np_storage_const(in[i]);
        if (s->op && (s->op->flags & NP_OP_STATE_READ) && !unwritten(v, s, p->before))
            return false;
        uint32_t maker = np_task_maker(b, t, i, in[i]);
        if (maker == NP_NONE || b->direct[b->tasks[maker].entry] != NP_NONE ||
            last_use(v, maker) >= at)
            continue;
        const np_plan_operand *o = &b->operands[b->g->entries[b->tasks[maker].entry].operand];
        if (o->kind != NP_IN_TILE &&
            neap_array_bytes(array_of(v, maker)) * SMALL <= neap_array_bytes(array_of(v, task)))
            continue;
        bool known = false;
        for (uint32_t k = 0; k < p->n; k++)
            known |= p->task[k] == maker;
        if (known)
            continue;
        if (p->n == MOST_ANCESTORS || b->tasks[maker].phase != NP_RUN || !is_cheap(v, maker))
            return false;
        p->task[p->n++] = maker;
    }
    return true;
}

static bool propose(const view *v, uint32_t task, proposal *p)
{
    idle i;
    double seconds = 0;
    if (!may_go(v, task) || v->s->barred[v->a->graph.origin[v->b->tasks[task].entry]] ||
        !find_idle(v, task, &i))
        return false;
    *p = (proposal){.task = {task}, .n = 1, .before = i.before};
    for (uint32_t k = 0; k < p->n; k++) {
        double own = np_task_seconds(v->b, p->task[k]);
        seconds += own;
        if (own == 0 || !add_dead_inputs(v, p, p->task[k], i.to))
            return false;
    }
    p->score = (double)neap_array_bytes(array_of(v, task)) * (double)(i.to - i.from) / seconds;
    return true;
}

/* The best ones come first; the last of `most` falls out. */
static void keep_best(proposal *best, uint32_t *n, uint32_t most, const proposal *p)
{
    uint32_t k = *n < most ? (*n)++ : most;
    for (; k > 0 && p->score > best[k - 1].score; k--)
        if (k < most)
            best[k] = best[k - 1];
    if (k < most)
        best[k] = *p;
}

/* The entries of a proposal are added to a set. Is one of them new? */
static bool add_proposal(const attempt *a, const proposal *p, np_again_set *set)
{
    bool some = false;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t entry = a->graph.origin[a->b.tasks[p->task[k]].entry];
        some |= np_again_add(set, (np_again){entry, p->before});
    }
    return some;
}

/* The best values to make again, added to the next attempt's set; `value`: the only one, or NP_NONE.
 * false: no memory. */
static bool find_best(search *s, uint32_t *value, bool *found)
{
    attempt *a = s->best;
    const size_t steps = (size_t)a->b.n_steps + 1;
    int64_t *live = np_work_take(&a->b.step_work, steps * (sizeof *live + sizeof(uint32_t)));
    *found = false;
    if (!live)
        return false;
    view v = {.s = s, .a = a, .b = &a->b, .position = (uint32_t *)(void *)(live + steps)};
    np_find_live(&a->b, live);
    for (uint32_t i = 0; i < a->b.n_steps; i++) {
        v.position[a->fusion.order[i]] = i;
        if (live[i] > live[v.peak])
            v.peak = i;
    }
    proposal best[MOST_AT_ONCE], p;
    uint32_t n = 0, most = s->failures ? 1 : 1 + a->set.n / AT_ONCE;
    for (uint32_t t = 0; t < a->b.n_tasks; t++)
        if (propose(&v, t, &p))
            keep_best(best, &n, most < MOST_AT_ONCE ? most : MOST_AT_ONCE, &p);
    if (n == 0)
        return true;
    s->next->set = a->set;
    *value = n == 1 ? a->graph.origin[a->b.tasks[best[0].task[0]].entry] : NP_NONE;
    for (uint32_t i = 0; i < n; i++)
        *found |= add_proposal(a, &best[i], &s->next->set);
    return true;
}

/* ---- the search ---------------------------------------------------------------------------------- */

static bool tell(search *s)
{
    np_fusion fusion;
    attempt *a = s->best;
    if (!np_fusion_copy(&a->b, &a->fusion, &fusion))
        return false;
    return s->r->found(s->r->user, &a->b, &fusion, a->arena, &a->set);
}

static bool round_of(search *s, bool *more)
{
    uint32_t value;
    if (np_check(s->r->g->ctx) != NEAP_OK || !find_best(s, &value, more) || !*more)
        return !*more;
    if (!plan(s, s->next, s->best->arena))
        return false;
    if (!is_better(s->next, s->best)) {
        if (value != NP_NONE)
            s->barred[value] = true;
        s->failures++;
        drop(s->next);
        return true;
    }
    bool less = s->next->arena < s->best->arena;
    attempt *old = s->best;
    s->best = s->next;
    s->next = old;
    s->failures = 0;
    drop(old);
    return !less || tell(s);
}

bool np_recompute_search(const np_recompute *r)
{
    neap_context *ctx = r->g->ctx;
    search *s = np_workspace_take(ctx, sizeof *s);
    if (!s)
        return false;
    s->r = r;
    s->options = *r->options;
    s->options.explain = NULL;
    s->best = &s->slots[0];
    s->next = &s->slots[1];
    s->barred = np_workspace_take(ctx, r->g->n);
    bool more = true, ok = s->barred && plan(s, s->best, r->way.limit);
    for (int i = 0; ok && more && i < MOST_ROUNDS; i++) {
        ok = round_of(s, &more);
        more &= s->failures < MOST_FAILURES && s->tasks < MOST_TASKS;
    }
    drop(s->best);
    drop(s->next);
    np_workspace_free(ctx, s->barred, r->g->n);
    np_workspace_free(ctx, s, sizeof *s);
    return ok;
}
