/* plan_object.c - plans that the user holds: made once, run many times with new parameter values.
 */
#include <stdio.h>
#include <string.h>

#include "base/versioned.h"
#include "eval/arena.h"
#include "eval/run.h"

/* Recorded writes that the plan takes run with the plan only: they are pending no longer. */
static void adopt_effects(const np_graph *g)
{
    for (size_t i = 0; i < g->n; i++) {
        neap_array *a = g->entries[i].array;
        if (!np_graph_runs(a) || !(a->op->flags & NP_OP_EFFECT))
            continue;
        neap_state *s = a->state;
        if (s->last == a) {
            s->last = NULL;
            neap_release(a);
        }
        s->written = s->done;
    }
}

/* An array for an output, of the form of another one and without bytes yet; in an open scope. */
static neap_status make_output(neap_plan *p, uint32_t i, const neap_array *form)
{
    neap_array *a = np_array_new(p->ctx);
    np_buffer *b = a ? np_buffer_reserve(p->ctx, NEAP_MEM_ACTIVATIONS, p->output_bytes[i]) : NULL;
    if (!b)
        return NEAP_ENOMEM;
    a->dtype = form->dtype;
    a->rank = form->rank;
    memcpy(a->shape, form->shape, sizeof a->shape);
    if (p->output_extents && p->output_extents[i].param) /* it lies as in the capacity */
        a->shape[p->output_extents[i].dim] = p->output_extents[i].capacity;
    np_row_major(a->rank, a->shape, a->strides);
    a->buffer = p->buffers[i] = b;
    neap_release(p->outputs[i]);
    p->outputs[i] = neap_retain(a);
    return NEAP_OK;
}

/* Notes which outputs have an extent that a parameter sets. */
static neap_status note_extents(neap_plan *p, const np_graph *g)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        any |= g->roots[p->output_root[i]]->extent != NULL;
    if (!any)
        return NEAP_OK;
    p->output_extents = np_calloc(p->ctx, NEAP_MEM_GRAPH, p->n_outputs * sizeof *p->output_extents);
    if (!p->output_extents)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        const neap_array *root = g->roots[p->output_root[i]];
        if (root->extent)
            p->output_extents[i] =
                (np_output_extent){root->extent, root->dynamic_dim, root->shape[root->dynamic_dim]};
    }
    return NEAP_OK;
}

/* The shapes that this run gave; rows beyond are of earlier runs. */
static void set_extents(neap_plan *p)
{
    for (uint32_t i = 0; p->output_extents && i < p->n_outputs; i++) {
        const np_output_extent *e = &p->output_extents[i];
        if (e->param)
            p->outputs[i]->shape[e->dim] = e->param->value;
    }
}

static neap_status make_outputs(neap_plan *p, const np_graph *g)
{
    neap_status status = note_extents(p, g);
    if (status == NEAP_OK)
        status = np_scope_push(p->ctx);
    if (status != NEAP_OK)
        return status;
    for (uint32_t i = 0; status == NEAP_OK && i < p->n_outputs; i++)
        status = make_output(p, i, g->roots[p->output_root[i]]);
    neap_scope_pop(p->ctx);
    return status;
}

neap_status np_plan_renew(neap_plan *p)
{
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; status == NEAP_OK && i < p->n_outputs; i++) {
        if (atomic_load(&p->outputs[i]->refs) == 1)
            continue;
        p->bound = false;
        if ((status = np_scope_push(p->ctx)) != NEAP_OK)
            break;
        status = make_output(p, i, p->outputs[i]);
        neap_scope_pop(p->ctx);
    }
    return status;
}

static neap_status set_params(neap_plan *p, int n, neap_param *const *params)
{
    p->n_params = (uint32_t)n;
    if (n == 0)
        return NEAP_OK;
    size_t bytes = (size_t)n * sizeof *params;
    p->params = np_alloc(p->ctx, NEAP_MEM_GRAPH, bytes);
    if (!p->params)
        return NEAP_ENOMEM;
    memcpy(p->params, params, bytes);
    return NEAP_OK;
}

/* "matmul, silu, matmul in blocks of 256 rows" */
static void tell_group(const neap_plan *p, const np_group *g, const neap_plan_options *o)
{
    char text[256] = "";
    size_t n = 0;
    const np_member *m = &p->members[g->first_member];
    for (uint32_t i = 0; i < g->n_members && n < sizeof text - 80; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.40s", i ? ", " : "", m[i].op->name);
    if (n >= sizeof text - 80)
        n += (size_t)snprintf(text + n, sizeof text - n, " ...");
    if (g->streamed)
        snprintf(text + n, sizeof text - n, " in blocks of %lld rows", (long long)g->block);
    const neap_plan_event fused = {.kind = NEAP_PLAN_EVENT_FUSED,
                                   .text = text,
                                   .a = m[0].name,
                                   .b = m[g->n_members - 1].name,
                                   .chosen = true};
    o->explain(o->user, &fused);
}

static void tell_made(const neap_plan *p)
{
    const neap_plan_options o = np_plan_options_of(p->ctx);
    for (uint32_t g = 0; o.explain && g < p->n_groups; g++)
        tell_group(p, &p->groups[g], &o);
    const neap_plan_event made = {.kind = NEAP_PLAN_EVENT_MADE,
                                  .text = "",
                                  .a = "",
                                  .b = "",
                                  .peak_bytes = p->info.peak_bytes,
                                  .seconds = p->info.predicted_seconds,
                                  .chosen = true,
                                  .plan = p};
    if (o.explain)
        o.explain(o.user, &made);
}

neap_status np_plan_make(neap_context *ctx, int n_roots, neap_array *const *roots, int n_params,
                         neap_param *const *params, neap_plan **out)
{
    *out = NULL;
    if (ctx->status != NEAP_OK)
        return ctx->status;
    if (n_roots < 0 || n_params < 0)
        return np_fail(ctx, NEAP_EINVAL, "plan: %d roots, %d parameters; expected 0 or more", n_roots,
                       n_params);
    for (int i = 0; i < n_roots; i++)
        if (!roots[i])
            return np_fail(ctx, NEAP_EINVAL, "plan: root %d is NULL", i);
    for (int i = 0; i < n_params; i++)
        if (!params[i])
            return np_fail(ctx, NEAP_EINVAL, "plan: parameter %d is NULL", i);
    np_engine *e = np_engine_of(ctx);
    np_graph g;
    neap_plan *p = NULL;
    neap_status status = e ? np_graph_gather(ctx, n_roots, roots, &g) : NEAP_ENOMEM;
    if (status != NEAP_OK)
        return status;
    status = np_plan_build(&g, true, 0, &p);
    if (status == NEAP_OK)
        status = set_params(p, n_params, params);
    if (status == NEAP_OK)
        status = make_outputs(p, &g);
    if (status == NEAP_OK) {
        adopt_effects(&g);
        e->stats.plans++;
        e->stats.plan_seconds += p->info.plan_seconds;
        tell_made(p);
        *out = p;
    } else {
        neap_plan_free(p);
    }
    np_graph_free(&g);
    return status;
}

neap_status neap_plan_make(neap_context *ctx, int n_roots, neap_array *const *roots, int n_params,
                           neap_param *const *params, neap_plan **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, out && (roots || n_roots <= 0) && (params || n_params <= 0),
                   np_take_built(ctx) == NEAP_OK
                       ? np_plan_make(ctx, n_roots, roots, n_params, params, out)
                       : ctx->status);
}

void neap_plan_free(neap_plan *p)
{
    if (!p)
        return;
    if (p->params)
        np_free(p->ctx, NEAP_MEM_GRAPH, p->params, p->n_params * sizeof *p->params);
    if (p->output_extents)
        np_free(p->ctx, NEAP_MEM_GRAPH, p->output_extents, p->n_outputs * sizeof *p->output_extents);
    np_plan_destroy(p);
}

void np_plan_let_go(neap_plan *p)
{
    p->bound = false;
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        np_buffer *b = p->buffers[i];
        if (!b->borrowed && b->data) {
            np_free_pages(b->ctx, b->category, b->data, b->bytes);
            b->data = NULL;
        }
    }
}

/* What is refused leaves no more held than before. */
neap_status np_plan_reserve(neap_plan *p)
{
    bool had = false;
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        had |= !p->buffers[i]->borrowed && p->buffers[i]->data;
    for (uint32_t i = 0; i < p->n_outputs && status == NEAP_OK; i++)
        status = np_buffer_fill(p->buffers[i]);
    if (status == NEAP_OK)
        status = np_run_reserve(p, p->states);
    if (status != NEAP_OK && !had)
        np_plan_let_go(p);
    return status;
}

neap_status neap_plan_reserve(neap_plan *p)
{
    return NP_CALL_ON(p, true, np_plan_reserve(p));
}

static void bind(neap_plan *p)
{
    np_binding with = {p->values, p->states, p->buffers};
    np_run_bind(p, &with);
    p->bound = true;
}

/* The arena may have been let go since, and a smaller one may now stand at its address. */
static bool is_bound(const neap_plan *p)
{
    return p->bound && p->arena_base == np_arena_base(p->ctx) &&
           np_arena_growth(p->ctx, p->info.arena_bytes) == 0;
}

static neap_status check_states(const neap_plan *p)
{
    for (uint32_t i = 0; i < p->n_states; i++) {
        const neap_state *s = p->states[i];
        if (s->last)
            return np_fail(p->ctx, NEAP_EINVAL,
                           "state %s has recorded writes that have not run: flush it first",
                           s->name);
        if (s->poisoned)
            return np_fail(p->ctx, NEAP_EPOISONED,
                           "state %s was left half-written by a failed evaluation", s->name);
    }
    return NEAP_OK;
}

static neap_status prepare(neap_plan *p, const int64_t *values)
{
    neap_context *ctx = p->ctx;
    neap_status status = ctx->status;
    if (status == NEAP_OK && p->n_params && !values)
        status = np_fail(ctx, NEAP_EINVAL, "plan: no values for its %u parameters", p->n_params);
    for (uint32_t i = 0; status == NEAP_OK && i < p->n_params; i++)
        status = np_param_set(p->params[i], values[i]);
    if (status == NEAP_OK)
        status = check_states(p);
    if (status == NEAP_OK && !is_bound(p)) {
        status = np_plan_reserve(p);
        if (status == NEAP_OK)
            bind(p);
    }
    return status;
}

static neap_status run_plan(neap_plan *p, const int64_t *values)
{
    neap_context *ctx = p->ctx;
    neap_status status = prepare(p, values);
    if (status != NEAP_OK)
        return status;
    status = np_run_steps(p, p->states);
    for (uint32_t i = 0; i < p->n_states; i++)
        p->states[i]->written = p->states[i]->done += p->state_writes[i];
    np_engine *e = np_engine_of(ctx);
    e->stats.runs++;
    e->stats.steps += p->n_steps;
    if (status == NEAP_OK)
        set_extents(p);
    return status;
}

neap_status np_plan_run(neap_plan *p, const int64_t *values)
{
    return NP_CALL_ON(p, true, run_plan(p, values));
}

/* Slabs that the graph's nodes have left make room for what a run takes, if it takes anything. */
static void give_back(neap_plan *p)
{
    bool takes = np_arena_growth(p->ctx, p->info.arena_bytes) > 0;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        takes |= !p->buffers[i]->data;
    if (takes)
        np_ledger_trim(&p->ctx->ledger);
}

static neap_status plan_run(neap_plan *p, const int64_t *values)
{
    give_back(p);
    return run_plan(p, values);
}

neap_status neap_plan_run(neap_plan *p, const int64_t *values)
{
    return NP_CALL_ON(p, true, plan_run(p, values));
}

const neap_array *neap_plan_output(const neap_plan *p, int i)
{
    for (uint32_t k = 0; k < p->n_outputs; k++)
        if (p->output_root[k] == (uint32_t)i)
            return p->outputs[k];
    return NULL;
}

void neap_plan_describe(const neap_plan *p, neap_plan_info *info)
{
    neap_plan_info i = p->info;
    for (uint32_t s = 0; s < p->n_states; s++)
        if (!p->states[s]->buffer->data)
            i.state_bytes += np_pages(neap_state_bytes(p->states[s]));
    np_tell(info, &i, sizeof i);
}
