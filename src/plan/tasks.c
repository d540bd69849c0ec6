/* tasks.c - what there is to do, in program order, and what each task needs of the others.
 *
 * Program order keeps effects right by itself but for one hazard: a read of a state whose user
 * comes after a later write of it. Such a read is copied before that write. A root that is a view,
 * a state or a twin of another root is copied to its own block. For any other order than the
 * program's the same is told as edges: values that a task reads, and tasks that it waits for. */
#include <string.h>

#include "base/heap_sort.h"
#include "ops/op_table.h"
#include "plan/builder.h"

/* ---- the list ---------------------------------------------------------------------------------- */

static bool add_task(np_builder *b, uint32_t entry, uint32_t at, np_phase phase, uint32_t root)
{
    if (!np_builder_grow(b, &b->tasks, &b->tasks_capacity, b->n_tasks + 1,
                 sizeof *b->tasks))
        return false;
    b->tasks[b->n_tasks++] =
        (np_todo){.entry = entry, .root = root, .phase = phase, .key = (uint64_t)at * 4 + phase};
    return true;
}

/* The first write, in program order, that makes the state newer than what `read` saw; NP_NONE. */
static uint32_t first_later_write(const np_builder *b, const neap_array *read)
{
    for (size_t i = 0; i < b->n_writes; i++) {
        const neap_array *w = b->g->entries[b->writes[i]].array;
        if (w->state == read->state && w->version > read->version)
            return b->writes[i];
    }
    return NP_NONE;
}

static bool collect_writes(np_builder *b)
{
    for (uint32_t e = 0; e < b->g->n; e++) {
        const neap_array *a = b->g->entries[e].array;
        if (b->g->entries[e].canonical != e || !np_graph_runs(a) || !(a->op->flags & NP_OP_EFFECT))
            continue;
        if (!np_builder_grow(b, &b->writes, &b->writes_capacity, b->n_writes + 1,
                     sizeof *b->writes))
            return false;
        b->writes[b->n_writes++] = e;
    }
    return true;
}

/* Copies what `user` (entry index) reads of a state through input `a` if a later write comes first.
 */
static bool guard_read(np_builder *b, uint32_t user, const neap_array *a)
{
    const neap_array *s = np_storage_const(a);
    if (!b->n_writes || !s->op || !(s->op->flags & NP_OP_STATE_READ))
        return true;
    uint32_t w = first_later_write(b, s), e = np_canonical(b->g, a);
    if (w == NP_NONE || w >= user || b->copied[e])
        return true;
    b->copied[e] = true;
    return add_task(b, e, w, NP_BEFORE, NP_NONE);
}

static bool add_run(np_builder *b, uint32_t e)
{
    const neap_array *a = b->g->entries[e].array;
    bool effect = a->op->flags & NP_OP_EFFECT;
    for (uint32_t i = 0; i < a->n_in; i++)
        if (!(effect && i == 1) && !guard_read(b, e, a->in[i]))
            return false;
    return add_task(b, e, e, NP_RUN, NP_NONE);
}

/* Which root a step writes directly, or a copy for the root. */
static bool add_root(np_builder *b, int r)
{
    neap_array *a = b->g->roots[r];
    uint32_t own = np_graph_find(b->g, a), e = b->g->entries[own].canonical;
    if (a->op && (a->op->flags & NP_OP_EFFECT))
        return true;
    if (np_graph_runs(b->g->entries[e].array) && b->direct[e] == NP_NONE) {
        b->direct[e] = (uint32_t)r;
        return true;
    }
    const neap_array *s = np_storage_const(a);
    uint32_t w = s->op && (s->op->flags & NP_OP_STATE_READ) ? first_later_write(b, s) : NP_NONE;
    bool before = w != NP_NONE && w < own;
    return add_task(b, e, before ? w : own, before ? NP_BEFORE : NP_AFTER, (uint32_t)r);
}

static bool task_before(const void *user, const np_todo *a, const np_todo *b)
{
    (void)user;
    return a->key < b->key;
}

NP_HEAP_SORT(sort_tasks, np_todo, const void *, task_before)

/* Tasks in program order, and which one makes each entry's value or its guarding copy. */
static bool list_tasks(np_builder *b)
{
    np_graph *g = b->g;
    if (!collect_writes(b))
        return false;
    for (int r = 0; r < g->n_roots; r++)
        if (!add_root(b, r))
            return false;
    for (uint32_t e = 0; e < g->n; e++)
        if (g->entries[e].canonical == e && np_graph_runs(g->entries[e].array) && !add_run(b, e))
            return false;
    sort_tasks(NULL, b->tasks, b->n_tasks);
    for (uint32_t t = 0; t < b->n_tasks; t++) {
        const np_todo *task = &b->tasks[t];
        if (task->phase == NP_RUN)
            b->made_by[task->entry] = t;
        else if (task->root == NP_NONE)
            b->copied_by[task->entry] = t;
    }
    return true;
}

/* ---- what a task reads ------------------------------------------------------------------------- */

neap_array *const *np_task_inputs(const np_builder *b, const np_todo *t, uint32_t *n)
{
    neap_array *const *own = &b->g->entries[t->entry].array;
    *n = t->phase == NP_RUN ? (*own)->n_in : 1;
    return t->phase == NP_RUN ? (*own)->in : own;
}

const np_op *np_task_op(const np_builder *b, const np_todo *t)
{
    return t->phase == NP_RUN ? b->g->entries[t->entry].array->op : &np_op_contiguous;
}

/* An effect's second input says where it writes: it is no read. */
static bool is_target(const np_builder *b, const np_todo *t, uint32_t i)
{
    return i == 1 && (np_task_op(b, t)->flags & NP_OP_EFFECT);
}

bool np_task_reads_copy(const np_builder *b, const np_todo *t, uint32_t i, const neap_array *in)
{
    uint32_t e = np_canonical(b->g, in);
    if (t->phase != NP_RUN || !b->copied[e] || is_target(b, t, i))
        return false;
    uint32_t w = first_later_write(b, np_storage_const(in));
    return w != NP_NONE && w < t->entry;
}

uint32_t np_task_maker(const np_builder *b, const np_todo *t, uint32_t i, const neap_array *in)
{
    if (np_task_reads_copy(b, t, i, in))
        return b->copied_by[np_canonical(b->g, in)];
    const neap_array *s = np_storage_const(in);
    return np_graph_runs(s) ? b->made_by[np_canonical(b->g, s)] : NP_NONE;
}

/* ---- edges ------------------------------------------------------------------------------------- */

static bool add_edge(np_builder *b, uint32_t from, uint32_t to, bool reads)
{
    if (from == NP_NONE || from == to)
        return true;
    if (!np_builder_grow(b, &b->edges, &b->edges_capacity, b->n_edges + 1,
                 sizeof *b->edges))
        return false;
    b->edges[b->n_edges++] = (np_edge){from, to, reads};
    return true;
}

/* The last effect so far, and for each state its last write and the reads since. What views wait for. */
typedef struct np_effects {
    uint32_t last;
    uint32_t *first, *wait; /* by entry (CSR): tasks that a view waits for; NULL: no view waits */
    size_t first_bytes, n_waits, wait_capacity;
    uint32_t *readers, *reader_state; /* pairs (task, state) not yet waited for by a write */
    size_t n_readers, readers_capacity, reader_state_capacity;
} np_effects;

static bool note_reader(np_builder *b, np_effects *f, uint32_t task, uint32_t state_entry)
{
    if (!np_builder_grow(b, &f->readers, &f->readers_capacity, f->n_readers + 1,
                 sizeof *f->readers) ||
        !np_builder_grow(b, &f->reader_state, &f->reader_state_capacity, f->n_readers + 1, sizeof *f->reader_state))
        return false;
    f->readers[f->n_readers] = task;
    f->reader_state[f->n_readers++] = state_entry;
    return true;
}

/* A write waits for what has read the state; effects keep their order. */
static bool add_effect(np_builder *b, np_effects *f, uint32_t t)
{
    const neap_state *state = b->g->entries[b->tasks[t].entry].array->state;
    size_t left = 0;
    if (!add_edge(b, f->last, t, false))
        return false;
    for (size_t i = 0; i < f->n_readers; i++) {
        if (b->g->entries[f->reader_state[i]].array->state == state) {
            if (!add_edge(b, f->readers[i], t, false))
                return false;
            continue;
        }
        f->readers[left] = f->readers[i];
        f->reader_state[left++] = f->reader_state[i];
    }
    f->n_readers = left;
    f->last = t;
    return true;
}

/* The task of the last write that a read has seen. */
static uint32_t write_seen(const np_builder *b, const neap_array *read)
{
    uint32_t seen = NP_NONE;
    for (size_t i = 0; i < b->n_writes; i++) {
        const neap_array *w = b->g->entries[b->writes[i]].array;
        if (w->state == read->state && w->version <= read->version)
            seen = b->made_by[b->writes[i]];
    }
    return seen;
}

/* ---- what views wait for (neap_depends) ---- */

enum { MOST_WAITS = 16 }; /* of one view: many nested ones would have tasks wait for as many each */

static bool waits(const neap_array *a)
{
    return a->base && (a->after || a->n_in);
}

static bool add_wait(np_builder *b, np_effects *f, uint32_t e, uint32_t task)
{
    for (size_t i = f->first[e]; i < f->n_waits; i++)
        if (f->wait[i] == task)
            return true;
    if (task == NP_NONE)
        return true;
    if (!np_builder_grow(b, &f->wait, &f->wait_capacity, f->n_waits + 1, sizeof *f->wait))
        return false;
    f->wait[f->n_waits++] = task;
    return true;
}

/* Entry e waits for what view `of` waits for. */
static bool add_waits_of(np_builder *b, np_effects *f, uint32_t e, const neap_array *of)
{
    const uint32_t v = np_canonical(b->g, of);
    for (uint32_t i = f->first[v]; i < f->first[v + 1]; i++)
        if (!add_wait(b, f, e, f->wait[i]))
            return false;
    return true;
}

/* ... and for an array of any kind. */
static bool add_wait_for(np_builder *b, np_effects *f, uint32_t e, const neap_array *a)
{
    const neap_array *s = np_storage_const(a);
    uint32_t task = NP_NONE;
    if (np_graph_runs(s))
        task = b->made_by[np_canonical(b->g, s)];
    else if (s->op && (s->op->flags & NP_OP_STATE_READ))
        task = write_seen(b, s);
    return add_wait(b, f, e, task) && (!waits(a) || add_waits_of(b, f, e, a));
}

/* Too many: the last one in program order waits for the others, the view for that one. */
static bool chain_waits(np_builder *b, np_effects *f, uint32_t e)
{
    uint32_t last = 0;
    if (f->n_waits - f->first[e] <= MOST_WAITS)
        return true;
    for (size_t i = f->first[e]; i < f->n_waits; i++)
        last = f->wait[i] > last ? f->wait[i] : last;
    for (size_t i = f->first[e]; i < f->n_waits; i++)
        if (!add_edge(b, f->wait[i], last, false))
            return false;
    f->n_waits = f->first[e];
    return add_wait(b, f, e, last);
}

/* Entries are in program order: what a view waits for comes before it. */
static bool find_waits(np_builder *b, np_effects *f)
{
    const np_graph *g = b->g;
    size_t n = 0;
    for (size_t e = 0; e < g->n; e++)
        n += waits(g->entries[e].array);
    if (n == 0)
        return true;
    f->first_bytes = (g->n + 1) * sizeof *f->first;
    f->first = np_workspace_take(b->ctx, f->first_bytes);
    if (!f->first)
        return false;
    for (uint32_t e = 0; e < g->n; e++) {
        const neap_array *a = g->entries[e].array;
        f->first[e] = (uint32_t)f->n_waits;
        if (waits(a) && g->entries[e].canonical == e &&
            !((!a->after || add_wait_for(b, f, e, a->after)) &&
              (!a->n_in || add_waits_of(b, f, e, a->in[0])) && chain_waits(b, f, e)))
            return false;
        f->first[e + 1] = (uint32_t)f->n_waits;
    }
    return true;
}

/* Task t waits for what an array that it reads, or its own, waits for. */
static bool wait_for(np_builder *b, np_effects *f, const neap_array *a, uint32_t t)
{
    if (!a->base)
        return !a->after || !np_graph_runs(a->after) ||
               add_edge(b, b->made_by[np_canonical(b->g, a->after)], t, false);
    if (!waits(a) || b->tasks[t].phase == NP_BEFORE) /* a copy's readers wait */
        return true;
    const uint32_t e = np_canonical(b->g, a);
    for (uint32_t i = f->first[e]; i < f->first[e + 1]; i++)
        if (!add_edge(b, f->wait[i], t, false))
            return false;
    return true;
}

static bool add_reads(np_builder *b, np_effects *f, uint32_t t)
{
    const np_todo *task = &b->tasks[t];
    const neap_array *own = b->g->entries[task->entry].array;
    uint32_t n;
    neap_array *const *in = np_task_inputs(b, task, &n);
    if (!wait_for(b, f, own, t))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const neap_array *s = np_storage_const(in[i]);
        if (!add_edge(b, np_task_maker(b, task, i, in[i]), t, true) || !wait_for(b, f, in[i], t))
            return false;
        if (!s->op || !(s->op->flags & NP_OP_STATE_READ) || is_target(b, task, i) ||
            np_task_reads_copy(b, task, i, in[i]))
            continue;
        if (!add_edge(b, write_seen(b, s), t, false) ||
            !note_reader(b, f, t, np_graph_find(b->g, s)))
            return false;
    }
    return true;
}

static bool find_edges(np_builder *b)
{
    np_effects f = {.last = NP_NONE};
    bool ok = find_waits(b, &f);
    for (uint32_t t = 0; ok && t < b->n_tasks; t++) {
        ok = add_reads(b, &f, t);
        if (ok && (np_task_op(b, &b->tasks[t])->flags & NP_OP_EFFECT))
            ok = add_effect(b, &f, t);
    }
    np_workspace_free(b->ctx, f.first, f.first_bytes);
    np_workspace_free(b->ctx, f.wait, f.wait_capacity * sizeof *f.wait);
    np_workspace_free(b->ctx, f.readers, f.readers_capacity * sizeof *f.readers);
    np_workspace_free(b->ctx, f.reader_state, f.reader_state_capacity * sizeof *f.reader_state);
    return ok;
}

/* Edges by the task that they come from, and by the one that they lead to. */
static bool sort_edges(np_builder *b)
{
    const size_t t = (size_t)b->n_tasks + 2, e = b->n_edges;
    b->edge_bytes = 2 * (t + e) * sizeof(uint32_t);
    b->out_first = np_workspace_take(b->ctx, b->edge_bytes);
    if (!b->out_first)
        return false;
    b->in_first = b->out_first + t;
    b->out = b->in_first + t;
    b->in = b->out + e;
    for (size_t k = 0; k < e; k++) { /* two places on: filling moves each start up by one */
        b->out_first[b->edges[k].from + 2]++;
        b->in_first[b->edges[k].to + 2]++;
    }
    for (uint32_t i = 2; i < t; i++) {
        b->out_first[i] += b->out_first[i - 1];
        b->in_first[i] += b->in_first[i - 1];
    }
    for (size_t k = 0; k < e; k++) {
        b->out[b->out_first[b->edges[k].from + 1]++] = (uint32_t)k;
        b->in[b->in_first[b->edges[k].to + 1]++] = (uint32_t)k;
    }
    return true;
}

bool np_tasks_find(np_builder *b)
{
    return list_tasks(b) && find_edges(b) && sort_edges(b);
}
