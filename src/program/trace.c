/* trace.c - running a delegate: a plan that was made for such inputs is replayed, else the chains are
 * walked and planned. */
#include <string.h>

#include "base/random.h"
#include "eval/arena.h"
#include "eval/run.h"
#include "eval/scan.h"
#include "ops/support.h"
#include "program/handle.h"
#include "program/walk.h"
#include "neap/ops.h"

enum { MAX_TRACES = 16 };

/* ---- traces --------------------------------------------------------------------------------------- */

static np_trace *trace_new(np_delegate *d)
{
    const np_mlx_graph *g = d->graph;
    np_trace *t = np_calloc(d->ctx, NEAP_MEM_GRAPH, sizeof *t);
    if (!t)
        return NULL;
    t->session = d->h->session;
    t->inputs = np_calloc(d->ctx, NEAP_MEM_GRAPH, g->n_input_slots * sizeof *t->inputs);
    t->integers = np_calloc(d->ctx, NEAP_MEM_GRAPH, g->n_input_slots * sizeof *t->integers);
    t->results = np_calloc(d->ctx, NEAP_MEM_GRAPH, g->n_output_slots * sizeof *t->results);
    if (t->inputs && t->integers && t->results)
        return t;
    np_trace_free(d, t);
    return NULL;
}

void np_trace_free(np_delegate *d, np_trace *t)
{
    if (!t)
        return;
    const np_mlx_graph *g = d->graph;
    neap_context *c = d->ctx;
    neap_plan_free(t->plan);
    while (t->bodies) {
        np_scan_body *b = t->bodies;
        t->bodies = b->next;
        np_scan_body_free(b);
    }
    for (uint32_t i = 0; t->inputs && i < g->n_input_slots; i++)
        neap_release(t->inputs[i]);
    for (uint32_t i = 0; i < t->n_draws; i++)
        neap_release(t->draws[i]);
    for (uint32_t i = 0; i < t->n_reads; i++)
        neap_param_free(t->reads[i].param);
    np_free(c, NEAP_MEM_GRAPH, t->inputs, g->n_input_slots * sizeof *t->inputs);
    np_free(c, NEAP_MEM_GRAPH, t->integers, g->n_input_slots * sizeof *t->integers);
    np_free(c, NEAP_MEM_GRAPH, t->results, g->n_output_slots * sizeof *t->results);
    np_free(c, NEAP_MEM_GRAPH, t->draws, t->draws_capacity * sizeof *t->draws);
    np_free(c, NEAP_MEM_GRAPH, t->reads, t->reads_capacity * sizeof *t->reads);
    np_free(c, NEAP_MEM_GRAPH, t, sizeof *t);
}

bool np_integer_at(const void *p, neap_dtype dtype, int64_t *out)
{
    int16_t i16;
    int32_t i32;
    uint32_t u32;
    switch (dtype) {
    case NEAP_I64:
        memcpy(out, p, sizeof *out);
        return true;
    case NEAP_I32:
        memcpy(&i32, p, sizeof i32);
        *out = i32;
        return true;
    case NEAP_U32:
        memcpy(&u32, p, sizeof u32);
        *out = u32;
        return true;
    case NEAP_I16:
        memcpy(&i16, p, sizeof i16);
        *out = i16;
        return true;
    case NEAP_I8:
        *out = *(const int8_t *)p;
        return true;
    case NEAP_U8:
    case NEAP_BOOL:
        *out = *(const uint8_t *)p;
        return true;
    default:
        return false;
    }
}

/* What an execution with these inputs reads; they have data. */
static int64_t element(const np_read *r, const np_argument *in)
{
    int64_t value = 0;
    np_integer_at((const uint8_t *)in[r->input].data + r->offset, r->dtype, &value);
    return value;
}

static bool same_input(const neap_array *leaf, const np_argument *in)
{
    return leaf->dtype == in->dtype && leaf->rank == in->rank &&
           memcmp(leaf->shape, in->shape, (size_t)in->rank * sizeof *in->shape) == 0;
}

static bool matches(const np_delegate *d, const np_trace *t, const np_argument *in, bool dry)
{
    if (t->session != d->h->session)
        return false;
    for (uint32_t i = 0; i < d->graph->n_input_slots; i++)
        if (d->graph->input_slots[i].is_value ? t->integers[i] != in[i].integer
                                              : !same_input(t->inputs[i], &in[i]))
            return false;
    for (uint32_t i = 0; i < t->n_reads; i++) {
        const np_read *r = &t->reads[i];
        if (dry && !in[r->input].data)
            continue;
        int64_t value = element(r, in);
        if (r->pinned ? value != r->value
                      : r->param && (value + r->add < r->low || value + r->add > r->high))
            return false;
    }
    return true;
}

static np_trace *find_trace(np_delegate *d, const np_argument *in, bool dry)
{
    for (np_trace **at = &d->traces, *t; (t = *at); at = &t->next) {
        if (!matches(d, t, in, dry))
            continue;
        *at = t->next;
        t->next = d->traces;
        d->traces = t;
        return t;
    }
    return NULL;
}

static void add_trace(np_delegate *d, np_trace *t)
{
    t->next = d->traces;
    d->traces = t;
    int n = 0;
    for (np_trace **at = &d->traces; *at; n++) {
        if (n < MAX_TRACES) {
            at = &(*at)->next;
            continue;
        }
        np_trace *old = *at;
        *at = old->next;
        np_trace_free(d, old);
    }
}

/* ---- replaying -------------------------------------------------------------------------------------- */

static void describe(np_argument *r, const neap_array *a)
{
    r->is_value = false;
    r->dtype = (neap_dtype)a->dtype;
    r->rank = a->rank;
    memcpy(r->shape, a->shape, sizeof r->shape);
    r->data = neap_array_data(a);
}

static void give_results(np_delegate *d, const np_trace *t)
{
    for (uint32_t i = 0; i < d->graph->n_output_slots; i++) {
        np_argument *r = &d->results[i];
        const np_number_result *from = &t->results[i];
        if (from->is_value) {
            r->is_value = true;
            r->integer = from->value;
            if (from->read >= 0)
                r->integer += t->reads[from->read].value + t->reads[from->read].add;
            continue;
        }
        neap_array *a = (neap_array *)(uintptr_t)neap_plan_output(t->plan, (int)i);
        r->array = neap_retain(a);
        describe(r, a);
    }
}

void np_draw_key(const neap_handle *h, uint32_t i, uint32_t key[2])
{
    uint64_t n = h->draws + i;
    np_threefry(np_random_seed(h->seed), (uint32_t)(n >> 32), (uint32_t)n, key);
}

static void refill_draws(np_delegate *d, np_trace *t)
{
    for (uint32_t i = 0; i < t->n_draws; i++)
        np_draw_key(d->h, i, neap_array_mutable(t->draws[i]));
    d->h->draws += t->n_draws;
}

static void set_reads(np_trace *t, const np_argument *in)
{
    for (uint32_t i = 0; i < t->n_reads; i++) {
        np_read *r = &t->reads[i];
        if (in[r->input].data)
            r->value = element(r, in);
        if (r->param)
            r->param->value = r->value + r->add;
    }
}

/* Results of other plans are not needed any more: one set is held at a time, and what the method has
 * of earlier calls. */
static neap_status let_others_go(np_delegate *d, const np_trace *t)
{
    for (np_trace *o = d->traces; o; o = o->next) {
        if (np_plan_renew(o->plan) != NEAP_OK)
            return NEAP_ENOMEM;
        if (o != t)
            np_plan_let_go(o->plan);
    }
    return NEAP_OK;
}

neap_status np_delegate_let_go(np_delegate *d)
{
    np_delegate_release_results(d);
    return let_others_go(d, NULL);
}

static neap_status replay(np_delegate *d, np_trace *t, const np_argument *in)
{
    neap_handle *h = d->h;
    for (uint32_t i = 0; i < d->graph->n_input_slots; i++)
        if (!d->graph->input_slots[i].is_value)
            t->inputs[i]->buffer->data = (void *)(uintptr_t)in[i].data;
    refill_draws(d, t);
    set_reads(t, in);
    t->plan->bound = false; /* inputs may have moved */
    neap_status status = np_plan_run(t->plan, NULL);
    h->stats.evaluations++;
    h->stats.steps += t->plan->n_steps;
    h->stats.accounting_calls += t->calls;
    h->stats.pending_bytes = t->pending;
    if (status == NEAP_OK)
        give_results(d, t);
    return status;
}

/* ---- walking ---------------------------------------------------------------------------------------- */

static bool set_input(np_walk *w, uint32_t i, const np_argument *in)
{
    const np_port *port = &w->g->input_slots[i];
    if (port->is_value) {
        w->trace->integers[i] = in->integer;
        return np_put_number(w, port->number, in->integer);
    }
    neap_array *leaf = neap_array_over(in->dtype, in->rank, in->shape, in->data, NULL, NULL);
    w->trace->inputs[i] = neap_retain(leaf);
    return np_put(w, (int32_t)port->number, leaf);
}

static bool set_slots(np_walk *w, const np_argument *in)
{
    const np_mlx_graph *g = w->g;
    for (uint32_t i = 0; i < g->n_constants; i++)
        w->tensors[i].array = neap_retain(w->d->constants[i]);
    for (uint32_t i = 0; in && i < g->n_input_slots; i++)
        if (!set_input(w, i, &in[i]))
            return false;
    neap_state **buffers = NULL;
    if (g->n_buffers && np_delegate_buffers(w->d, &buffers) != NEAP_OK)
        return false;
    for (uint32_t i = 0; i < g->n_buffers; i++) {
        neap_array *read = neap_state_read(buffers[i]);
        if (!read)
            return false;
        w->tensors[np_first_buffer(g) + i].array = neap_retain(read);
    }
    return true;
}

static bool walk_start(np_walk *w, const np_argument *in)
{
    const np_mlx_graph *g = w->g;
    w->scan_scale = 1;
    if (np_scope_push(w->ctx) != NEAP_OK)
        return false;
    w->scoped = true;
    w->tensors = np_calloc(w->ctx, NEAP_MEM_GRAPH, g->n_tensors * sizeof *w->tensors);
    w->numbers = np_calloc(w->ctx, NEAP_MEM_GRAPH, g->n_values * sizeof *w->numbers);
    w->trace = trace_new(w->d);
    return w->tensors && w->numbers && w->trace && set_slots(w, in);
}

static void walk_end(np_walk *w)
{
    const np_mlx_graph *g = w->g;
    for (uint32_t i = 0; w->tensors && i < g->n_tensors; i++)
        neap_release(w->tensors[i].array);
    np_free(w->ctx, NEAP_MEM_GRAPH, w->tensors, g->n_tensors * sizeof *w->tensors);
    np_free(w->ctx, NEAP_MEM_GRAPH, w->numbers, g->n_values * sizeof *w->numbers);
    while (w->n_held > 0)
        neap_release(w->held[--w->n_held]);
    np_free(w->ctx, NEAP_MEM_GRAPH, w->held, w->held_capacity * sizeof *w->held);
    if (w->scoped)
        neap_scope_pop(w->ctx);
    np_trace_free(w->d, w->trace);
    const int session = w->h->session;
    if (session >= 0 && (size_t)session < w->d->n_sessions && w->d->sessions[session])
        for (uint32_t i = 0; i < g->n_buffers; i++)
            np_state_forget(w->d->sessions[session][i]);
    np_cache_forget(w->h->options.cache);
}

/* Row-major, of the declared dtype, and not the caller's own memory. */
static neap_array *result_form(np_walk *w, neap_array *a, neap_dtype dtype)
{
    a = neap_contiguous(neap_cast(a, dtype));
    if (!a)
        return NULL;
    if (a->dynamic_dim >= 0) {
        np_node_fail(w, NEAP_EUNSUPPORTED, "a result whose extent is set at run time");
        return NULL;
    }
    return neap_array_is_value(a) && np_storage(a)->buffer->borrowed ? np_copied(a) : a;
}

static bool collect_results(np_walk *w, neap_array **roots)
{
    const np_mlx_graph *g = w->g;
    for (uint32_t i = 0; i < g->n_output_slots; i++) {
        const np_port *port = &g->output_slots[i];
        np_number_result *r = &w->trace->results[i];
        if (!port->is_value) {
            neap_array *a = np_get(w, (int32_t)port->number);
            roots[i] = a ? result_form(w, a, w->d->result_dtypes[i]) : NULL;
            if (!roots[i]) {
                np_fail_prefix(w->ctx, "output %u of the delegate", i);
                return false;
            }
            continue;
        }
        np_number n;
        if (!np_get_vid(w, port->number, &n))
            return false;
        *r = (np_number_result){true, n.read, n.read >= 0 ? n.add : n.value};
        roots[i] = NULL;
    }
    return true;
}

/* Everything in one plan: results first, then writes that no result waits for. */
static bool plan_whole(np_walk *w, neap_array **roots)
{
    const np_mlx_graph *g = w->g;
    uint32_t n = g->n_output_slots;
    neap_state **buffers = NULL;
    if (g->n_buffers && np_delegate_buffers(w->d, &buffers) != NEAP_OK)
        return false;
    for (uint32_t i = 0; i < g->n_output_slots; i++)
        if (!roots[i]) /* an integer: any value serves as a root */
            roots[i] = neap_scalar(NEAP_I32, 0);
    for (uint32_t i = 0; i < g->n_buffers; i++)
        if (buffers[i]->last)
            roots[n++] = buffers[i]->last;
    for (uint32_t i = 0; i < n; i++)
        if (!roots[i])
            return false;
    np_trace *t = w->trace;
    if (np_plan_make(w->ctx, (int)n, roots, 0, NULL, &t->plan) != NEAP_OK)
        return false;
    w->h->stats.plans++;
    w->h->stats.plan_seconds += t->plan->info.plan_seconds;
    t->calls = w->calls;
    t->pending = w->pending;
    return true;
}

/* Nobody reads these tensors and those after them any more. */
static void empty_slots(np_walk *w, uint32_t first)
{
    for (uint32_t t = first; t < w->g->n_tensors; t++) {
        neap_release(w->tensors[t].array);
        w->tensors[t].array = NULL;
    }
}

/* The last piece of a walk that was cut. */
static bool finish_pieces(np_walk *w, neap_array **roots)
{
    const np_mlx_graph *g = w->g;
    for (uint32_t i = 0; i < g->n_output_slots; i++)
        if (roots[i] && !np_walk_hold(w, roots[i]))
            return false;
    empty_slots(w, np_first_input(g));
    if (!np_walk_evaluate(w, NULL))
        return false;
    for (uint32_t i = 0; i < g->n_output_slots; i++) {
        np_argument *r = &w->d->results[i];
        r->is_value = g->output_slots[i].is_value;
        r->integer = w->trace->results[i].value;
        if (r->is_value)
            continue;
        r->array = neap_retain(roots[i]);
        describe(r, roots[i]);
    }
    if (w->dry)
        return true;
    w->h->draws += w->trace->n_draws;
    w->h->stats.accounting_calls += w->calls;
    w->h->stats.pending_bytes = w->pending;
    return true;
}

static bool walk_finish(np_walk *w)
{
    size_t most = w->g->n_output_slots + w->g->n_buffers + 1;
    neap_array **roots = np_calloc(w->ctx, NEAP_MEM_GRAPH, most * sizeof *roots);
    bool ok = roots && collect_results(w, roots);
    if (ok)
        ok = w->cut ? finish_pieces(w, roots) : plan_whole(w, roots);
    np_free(w->ctx, NEAP_MEM_GRAPH, roots, most * sizeof *roots);
    return ok;
}

/* One attempt. What is in place afterwards: a trace at the front of the list, or results. */
static bool attempt(np_walk *w, const np_argument *in)
{
    bool ok = walk_start(w, in) && np_walk_chain(w, w->g->main_chain) && walk_finish(w);
    if (ok && !w->cut) {
        add_trace(w->d, w->trace);
        w->trace = NULL;
    }
    if (ok && !w->dry)
        w->h->stats.barriers += w->barriers;
    bool open = w->trace && w->trace->n_reads > 0;
    walk_end(w);
    if (ok && !w->cut) /* the graph is gone: its memory need not be held beside the plan's */
        np_ledger_trim(&w->ctx->ledger);
    if (!ok && w->ctx->status != NEAP_ENOMEM && w->symbolic && !w->cut &&
        (open || w->wants_pinned)) {
        w->ctx->status = NEAP_OK; /* once more, with every integer as it is */
        w->d->never_open |= w->wants_pinned;
        *w = (np_walk){.d = w->d, .h = w->h, .ctx = w->ctx, .g = w->g, .dry = w->dry,
                       .report = w->report, .guess = w->guess};
        return attempt(w, in);
    }
    return ok;
}

static np_walk walk_of(np_delegate *d, np_dry_run *report)
{
    return (np_walk){.d = d,
                     .h = d->h,
                     .ctx = d->ctx,
                     .g = d->graph,
                     .symbolic = !d->never_open,
                     .dry = report != NULL,
                     .report = report};
}

/* ---- the delegate's entries ------------------------------------------------------------------------- */

neap_status np_delegate_run(np_delegate *d, const np_argument *in)
{
    np_delegate_release_results(d);
    np_trace *t = find_trace(d, in, false);
    if (let_others_go(d, t) != NEAP_OK)
        return d->ctx->status;
    if (t) {
        d->h->stats.plan_hits++;
        return replay(d, t, in);
    }
    np_arena_trim(d->ctx); /* not held beside what planning takes, in no call */
    np_walk w = walk_of(d, NULL);
    if (!attempt(&w, in))
        return d->ctx->status;
    return w.cut ? NEAP_OK : replay(d, d->traces, in);
}

static neap_status note_whole(np_delegate *d, np_dry_run *report)
{
    np_trace *t = d->traces;
    if (!np_dry_note(report, d->ctx, t->plan))
        return d->ctx->status;
    for (uint32_t i = 0; i < t->plan->n_outputs; i++)
        if (!t->plan->buffers[i]->data && !np_dry_keep(report, d->ctx, t->plan->buffers[i]))
            return d->ctx->status;
    give_results(d, t);
    return NEAP_OK;
}

/* A plan that a guess led to counts, but is not kept: it may be wrong for the numbers it was made for. */
static neap_status plan_one_way(np_delegate *d, const np_argument *in, np_dry_run *report, bool guess,
                                bool *met_unknown)
{
    np_dry_trim(report, d->ctx);
    np_walk w = walk_of(d, report);
    w.guess = guess;
    if (!attempt(&w, in))
        return d->ctx->status;
    *met_unknown = w.met_unknown;
    neap_status status = w.cut ? NEAP_OK : note_whole(d, report);
    if (!w.cut && w.met_unknown) {
        np_trace *t = d->traces;
        d->traces = t->next;
        np_trace_free(d, t);
    }
    return status;
}

neap_status np_delegate_plan(np_delegate *d, const np_argument *in, np_dry_run *report)
{
    bool met_unknown = false;
    np_delegate_release_results(d);
    np_trace *t = find_trace(d, in, true);
    if (let_others_go(d, t) != NEAP_OK)
        return d->ctx->status;
    if (t) {
        set_reads(t, in);
        return note_whole(d, report);
    }
    neap_status status = plan_one_way(d, in, report, false, &met_unknown);
    if (status != NEAP_OK || !met_unknown)
        return status;
    np_delegate_release_results(d); /* the other branch: the larger one counts */
    return plan_one_way(d, in, report, true, &met_unknown);
}

/* Constants that the chain wrote, which are values by now. */
static void keep_constants(np_walk *w)
{
    const np_mlx_graph *g = w->g;
    for (uint32_t i = 0; i < g->n_constants; i++) {
        neap_array *a = w->tensors[i].array, *old = w->d->constants[i];
        if (a == old)
            continue;
        w->d->constants[i] = neap_retain(a);
        neap_release(old);
        neap_array *s = np_storage(a);
        if (s->buffer && s->buffer->category == NEAP_MEM_ACTIVATIONS && !s->buffer->borrowed) {
            s->buffer->category = NEAP_MEM_WEIGHTS;
            np_ledger_recategorise(w->ctx, NEAP_MEM_ACTIVATIONS, NEAP_MEM_WEIGHTS,
                                   np_pages(s->buffer->bytes));
        }
    }
}

static bool evaluate_constants(np_walk *w)
{
    for (uint32_t i = 0; i < w->g->n_constants; i++) {
        neap_array *a = w->tensors[i].array;
        if (a == w->d->constants[i])
            continue;
        a = neap_contiguous(a);
        if (!np_put(w, (int32_t)i, a) || !np_walk_hold(w, a))
            return false;
    }
    empty_slots(w, np_first_temp(w->g));
    if (!np_walk_evaluate(w, NULL))
        return false;
    keep_constants(w);
    return true;
}

neap_status np_delegate_init(np_delegate *d)
{
    if (d->graph->init_chain < 0)
        return NEAP_OK;
    np_walk w = walk_of(d, NULL);
    w.init = true;
    w.symbolic = false;
    bool ok = walk_start(&w, NULL) && np_walk_chain(&w, (uint32_t)d->graph->init_chain) &&
              evaluate_constants(&w);
    d->h->stats.init_barriers += w.barriers;
    d->h->stats.accounting_calls += w.calls;
    d->h->stats.pending_bytes = w.pending;
    walk_end(&w);
    if (!ok)
        np_fail_prefix(d->ctx, "init chain");
    return d->ctx->status;
}
