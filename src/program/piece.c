/* piece.c - cutting a walk: what is alive is planned, run and becomes values.
 *
 * In a dry walk nothing runs: the values get buffers without bytes, and the report says what would
 * be held while the plan ran. */
#include <string.h>

#include "eval/run.h"
#include "program/handle.h"
#include "program/loop.h"

typedef struct piece {
    np_walk *w;
    neap_array **roots;
    size_t n, capacity;
    uint8_t *newest; /* per tensor slot: it looks at the newest contents of a buffer */
    neap_plan *plan;
} piece;

static bool add_root(piece *p, neap_array *a)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->roots[i] == a)
            return true;
    if (!np_grow(p->w->ctx, NEAP_MEM_GRAPH, &p->roots, &p->capacity, p->n + 1, sizeof *p->roots))
        return false;
    p->roots[p->n++] = a;
    return true;
}

/* A view is kept through its storage, unless that is larger: then a copy of the part will do. */
static bool keep(piece *p, neap_array *a)
{
    if (!a || neap_array_is_value(a))
        return true;
    neap_array *s = np_storage(a);
    bool whole = np_graph_runs(s) && !a->shift && neap_array_bytes(s) <= neap_array_bytes(a);
    return add_root(p, whole ? s : a);
}

static bool collect(piece *p)
{
    np_walk *w = p->w;
    const np_mlx_graph *g = w->g;
    for (uint32_t t = np_first_input(g); t < g->n_tensors; t++) {
        neap_array *a = w->tensors[t].array;
        p->newest[t] = a && np_newest_state(a) != NULL;
        if (!p->newest[t] && !keep(p, a))
            return false;
    }
    for (size_t i = 0; i < w->n_held; i++)
        if (!keep(p, w->held[i]))
            return false;
    neap_state **buffers = NULL;
    if (g->n_buffers && np_delegate_buffers(w->d, &buffers) != NEAP_OK)
        return false;
    for (uint32_t i = 0; i < g->n_buffers; i++)
        if (buffers[i]->last && !add_root(p, buffers[i]->last))
            return false;
    return true;
}

/* The plan's blocks become the roots' own. */
static bool settle(piece *p)
{
    np_walk *w = p->w;
    for (uint32_t i = 0; i < p->plan->n_outputs; i++) {
        np_buffer *b = p->plan->buffers[i];
        neap_array *root = p->roots[p->plan->output_root[i]];
        atomic_fetch_add(&b->refs, 1);
        np_array_become_value(root, b);
        if (w->dry && !np_dry_keep(w->report, w->ctx, b))
            return false;
    }
    for (uint32_t t = 0; t < w->g->n_tensors; t++) {
        np_tensor_slot *s = &w->tensors[t];
        if (!p->newest[t])
            continue;
        neap_array *old = s->array;
        s->array = neap_retain(neap_state_read(old->state));
        neap_release(old);
        if (!s->array)
            return false;
    }
    return true;
}

/* The states' writes have happened, as far as a dry walk is concerned. */
static void pretend(const neap_plan *p)
{
    for (uint32_t i = 0; i < p->n_states; i++)
        p->states[i]->written = p->states[i]->done += p->state_writes[i];
}

static bool run(piece *p)
{
    np_walk *w = p->w;
    if (np_plan_make(w->ctx, (int)p->n, p->roots, 0, NULL, &p->plan) != NEAP_OK)
        return false;
    w->h->stats.plans++;
    w->h->stats.plan_seconds += p->plan->info.plan_seconds;
    if (w->dry) {
        pretend(p->plan);
        return np_dry_note(w->report, w->ctx, p->plan);
    }
    neap_status status = np_plan_run(p->plan, NULL);
    w->h->stats.evaluations++;
    w->h->stats.steps += p->plan->n_steps;
    if (status != NEAP_OK)
        w->ctx->status = status; /* a walk's error is stored until its caller reports it */
    return status == NEAP_OK;
}

bool np_walk_evaluate(np_walk *w, neap_array *also)
{
    if (w->frame) {
        w->wants_unroll = true;
        return np_node_fail(w, NEAP_EUNSUPPORTED, "a step of the scan needs a computed number");
    }
    if (w->symbolic) { /* nothing has run yet: once more, without open integers */
        w->wants_pinned = true;
        return np_node_fail(w, NEAP_EUNSUPPORTED, "the walk is cut");
    }
    w->cut = true;
    piece p = {.w = w};
    p.newest = np_calloc(w->ctx, NEAP_MEM_GRAPH, w->g->n_tensors + 1);
    bool ok = p.newest && collect(&p) && (!also || keep(&p, also));
    if (ok && p.n > 0)
        ok = run(&p) && settle(&p);
    neap_plan_free(p.plan);
    np_free(w->ctx, NEAP_MEM_GRAPH, p.newest, w->g->n_tensors + 1);
    np_free(w->ctx, NEAP_MEM_GRAPH, p.roots, p.capacity * sizeof *p.roots);
    return ok;
}

bool np_walk_hold(np_walk *w, neap_array *a)
{
    if (!a || !np_grow(w->ctx, NEAP_MEM_GRAPH, &w->held, &w->held_capacity, w->n_held + 1,
                       sizeof *w->held))
        return false;
    w->held[w->n_held++] = neap_retain(a);
    return true;
}

bool np_walk_sweep(np_walk *w)
{
    neap_scope_pop(w->ctx);
    w->scoped = np_scope_push(w->ctx) == NEAP_OK;
    return w->scoped;
}
