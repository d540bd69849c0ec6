/* eval.c - free-form evaluation: roots to values, through the cache of plans. */
#include <string.h>

#include "base/clock.h"
#include "base/versioned.h"
#include "eval/arena.h"
#include "eval/run.h"

enum { PLAN_SLACK = 32768 }; /* by which a plan of more steps may be larger */

/* What one evaluation holds on to. */
typedef struct evaluation {
    neap_context *ctx;
    np_graph graph;
    np_plan_key key;
    neap_plan *plan;
    bool cached;
    neap_array **roots;
    int n_roots;
    neap_array **values;
    neap_state **states;
    np_buffer **outputs;
} evaluation;

/* ---- binding a plan to this graph -------------------------------------------------------------
 */

/* A plan found in the cache was made from another graph of the same structure: its values and
 * states are the ones at the same entries of this one. Both tables were filled in order of first
 * use. */
static bool bind_tables(evaluation *v)
{
    const neap_plan *p = v->plan;
    v->values = np_calloc(v->ctx, NEAP_MEM_GRAPH, (p->n_values + 1) * sizeof *v->values);
    v->states = np_calloc(v->ctx, NEAP_MEM_GRAPH, (p->n_states + 1) * sizeof *v->states);
    v->outputs = np_calloc(v->ctx, NEAP_MEM_GRAPH, (p->n_outputs + 1) * sizeof *v->outputs);
    if (!v->values || !v->states || !v->outputs)
        return false;
    for (uint32_t i = 0; i < p->n_values; i++)
        v->values[i] = v->graph.entries[p->value_entry[i]].array;
    for (uint32_t i = 0; i < p->n_states; i++)
        v->states[i] = v->graph.entries[p->state_entry[i]].array->state;
    return true;
}

static neap_status take_outputs(evaluation *v)
{
    const neap_plan *p = v->plan;
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        v->outputs[i] = np_buffer_new(v->ctx, NEAP_MEM_ACTIVATIONS, p->output_bytes[i], false);
        if (!v->outputs[i]) {
            neap_context *c = v->ctx;
            np_fail_prefix(c, "needs at least %llu bytes for results and %llu for the arena",
                           (unsigned long long)p->info.output_bytes,
                           (unsigned long long)p->info.arena_bytes);
            return c->status;
        }
    }
    return NEAP_OK;
}

/* ---- afterwards ---------------------------------------------------------------------------------
 */

static bool covers(const neap_array *target, const neap_state *s)
{
    return target->dynamic_dim < 0 && neap_array_size(target) == np_size(s->rank, s->shape);
}

static void effect_done(neap_array *a)
{
    neap_state *s = a->state;
    s->done = a->version;
    if (covers(a->in[1], s))
        s->poisoned = false;
    np_array_finish_effect(a);
    if (s->last == a) {
        s->last = NULL;
        neap_release(a);
    }
}

/* Roots get their buffers, effects are finished; twins of a root copy nothing: they have own
 * outputs. */
static void finish(evaluation *v)
{
    const neap_plan *p = v->plan;
    for (size_t i = 0; i < v->graph.n; i++) {
        neap_array *a = v->graph.entries[i].array;
        if (np_graph_runs(a) && (a->op->flags & NP_OP_EFFECT))
            effect_done(a);
    }
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        np_array_become_value(v->roots[p->output_root[i]], v->outputs[i]);
        v->outputs[i] = NULL;
    }
}

static void let_go_of_plan(evaluation *v)
{
    neap_context *c = v->ctx;
    const neap_plan *p = v->plan;
    if (p) {
        for (uint32_t i = 0; v->outputs && i < p->n_outputs; i++)
            np_buffer_release(v->outputs[i]);
        np_free(c, NEAP_MEM_GRAPH, v->values, (p->n_values + 1) * sizeof *v->values);
        np_free(c, NEAP_MEM_GRAPH, v->states, (p->n_states + 1) * sizeof *v->states);
        np_free(c, NEAP_MEM_GRAPH, v->outputs, (p->n_outputs + 1) * sizeof *v->outputs);
        v->plan->users--;
        if (!v->cached)
            np_plan_destroy(v->plan);
    }
    v->plan = NULL;
    v->cached = false;
    v->values = NULL;
    v->states = NULL;
    v->outputs = NULL;
}

static void let_go(evaluation *v)
{
    let_go_of_plan(v);
    np_plan_key_free(v->ctx, &v->key);
    np_graph_free(&v->graph);
}

/* ---- one evaluation
 * -------------------------------------------------------------------------------- */

static neap_status find_or_build(evaluation *v)
{
    np_engine *e = np_engine_of(v->ctx);
    if (!e)
        return NEAP_ENOMEM;
    double t0 = np_seconds();
    neap_status status = np_plan_key_make(&v->graph, &v->key);
    if (status != NEAP_OK)
        return status;
    v->plan = np_plan_cache_find(v->ctx, &v->key);
    if (v->plan) {
        v->plan->users++;
        v->cached = true;
        e->stats.plan_cache_hits++;
    } else {
        status = np_plan_build(&v->graph, false, 0, &v->plan);
        if (v->plan)
            v->plan->users++; /* stays when memory is short */
        if (status == NEAP_OK)
            v->cached = np_plan_cache_add(v->ctx, &v->key, v->plan);
        e->stats.plans++;
    }
    e->stats.plan_seconds += np_seconds() - t0;
    return status;
}

/* A plan that the limit has no room for gives way to one that is planned for what there is. It is not
 * cached: with more room the first one is the better. */
static neap_status fit_to_limit(evaluation *v)
{
    neap_context *ctx = v->ctx;
    np_engine *e = np_engine_of(ctx);
    uint64_t room = np_run_room(v->plan, v->states);
    if (room >= v->plan->info.peak_bytes)
        return NEAP_OK;
    neap_context_trim(ctx);
    room = np_run_room(v->plan, v->states);
    const uint64_t plan_bytes = v->plan->info.plan_bytes + PLAN_SLACK;
    if (room >= v->plan->info.peak_bytes || room <= plan_bytes)
        return NEAP_OK;
    neap_plan *smaller;
    double t0 = np_seconds();
    neap_status status = np_plan_build(&v->graph, false, room - plan_bytes, &smaller);
    e->stats.plans++;
    e->stats.plan_seconds += np_seconds() - t0;
    if (status != NEAP_OK)
        return status;
    if (smaller->info.peak_bytes >= v->plan->info.peak_bytes) {
        np_plan_destroy(smaller);
        return NEAP_OK;
    }
    let_go_of_plan(v);
    v->plan = smaller;
    v->plan->users++;
    return bind_tables(v) ? NEAP_OK : ctx->status;
}

static neap_status evaluate(evaluation *v)
{
    neap_status status = np_graph_gather(v->ctx, v->n_roots, v->roots, &v->graph);
    if (status == NEAP_OK)
        status = find_or_build(v);
    if (status == NEAP_OK && !bind_tables(v))
        status = v->ctx->status;
    if (status == NEAP_OK)
        status = fit_to_limit(v);
    if (status == NEAP_OK)
        status = take_outputs(v);
    if (status == NEAP_OK)
        status = np_run_reserve(v->plan, v->states);
    if (status == NEAP_OK) {
        np_binding with = {v->values, v->states, v->outputs};
        np_run_bind(v->plan, &with);
        status = np_run_steps(v->plan, v->states);
        np_engine *e = np_engine_of(v->ctx);
        e->stats.runs++;
        e->stats.steps += v->plan->n_steps;
    }
    if (status == NEAP_OK)
        finish(v);
    let_go(v);
    return status;
}

/* Roots that are values already, or named twice, need nothing. */
static int pending(int n, neap_array *const *roots, neap_array **out)
{
    int m = 0;
    for (int i = 0; i < n; i++) {
        bool seen = neap_array_is_value(roots[i]) || roots[i]->done;
        for (int j = 0; j < m && !seen; j++)
            seen = out[j] == roots[i];
        if (!seen)
            out[m++] = roots[i];
    }
    return m;
}

/* A building call that returns its status has told its error already. */
static neap_status refuse_null(neap_context *ctx, int root)
{
    char before[sizeof ctx->error];
    memcpy(before, ctx->error, sizeof before);
    return np_fail(ctx, NEAP_EINVAL, "eval: root %d is NULL%s%s", root,
                   before[0] ? "; the last error was: " : "", before);
}

static neap_status eval_all(neap_context *ctx, int n, neap_array *const *roots)
{
    if (np_take_built(ctx) != NEAP_OK)
        return ctx->status;
    if (n < 0 || (n > 0 && !roots))
        return np_fail(ctx, NEAP_EINVAL, "eval: %d roots, expected 0 or more", n);
    for (int i = 0; i < n; i++)
        if (!roots[i])
            return refuse_null(ctx, i);
    const size_t bytes = (size_t)n * sizeof(neap_array *);
    evaluation v = {.ctx = ctx};
    v.roots = np_alloc(ctx, NEAP_MEM_GRAPH, bytes);
    if (!v.roots)
        return NEAP_ENOMEM;
    v.n_roots = pending(n, roots, v.roots);
    const neap_status status = v.n_roots ? evaluate(&v) : NEAP_OK;
    np_free(ctx, NEAP_MEM_GRAPH, v.roots, bytes);
    return status;
}

/* The context of what is to be evaluated: where a root is NULL, the one that building stored its error
 * in. *there: all roots are values already. */
static neap_context *context_of(int n, neap_array *const *roots, bool *there)
{
    neap_context *ctx = NULL;
    *there = n == 0 || (n > 0 && roots);
    for (int i = 0; i < n && roots; i++) {
        if (!roots[i]) {
            *there = false;
            return np_scope_context();
        }
        if (neap_array_is_value(roots[i]))
            continue;
        *there = false;
        ctx = ctx ? ctx : roots[i]->ctx;
    }
    return ctx ? ctx : np_scope_context();
}

neap_status neap_eval_all(int n, neap_array *const *roots)
{
    bool there;
    neap_context *ctx = context_of(n, roots, &there);
    if (!ctx && (n < 0 || (n > 0 && !roots)))
        return NEAP_EINVAL;
    return there ? NEAP_OK : NP_CALL(ctx, true, eval_all(ctx, n, roots));
}

neap_status neap_eval(neap_array *root)
{
    return neap_eval_all(1, &root);
}

enum { PORTION = 64 }; /* writes that are planned at once */

/* The last write of the next portion: the chain goes from the last recorded one back. */
static neap_array *portion_end(const neap_state *s)
{
    neap_array *at = s->last;
    while (at && at->version > s->done + PORTION && at->after)
        at = at->after;
    return at;
}

/* In portions: what that takes does not grow with their number. */
static neap_status run_writes(neap_state *s)
{
    neap_status status = NEAP_OK;
    while (status == NEAP_OK && s->last) {
        neap_array *end = neap_retain(portion_end(s));
        status = eval_all(s->ctx, 1, &end);
        neap_release(end);
    }
    return status;
}

static neap_status flush(neap_state *s)
{
    const neap_status status = np_take_built(s->ctx);
    return status == NEAP_OK ? run_writes(s) : status;
}

neap_status neap_state_flush(neap_state *s)
{
    return NP_CALL_ON(s, true, flush(s));
}

void neap_context_eval_stats(const neap_context *ctx, neap_eval_stats *out)
{
    neap_eval_stats none = {.size = sizeof none};
    const np_engine *e = ctx->slot[NP_SLOT_ARENA];
    neap_eval_stats stats = e ? e->stats : none;
    np_tell(out, &stats, sizeof stats);
}
