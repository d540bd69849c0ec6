/* handle.c - loading a method, executing it on the caller's memory, sessions, counters. */
#include <stdio.h>
#include <string.h>

#include "base/versioned.h"
#include "program/handle.h"
#include "program/uses.h"

/* ---- open ----------------------------------------------------------------------------------------------- */

/* The delegate's ports and the call's values agree in number and kind. */
static neap_status check_call(neap_handle *h, const np_pte_instruction *in, const np_delegate *d)
{
    const np_mlx_graph *g = d->graph;
    if (in->n_args != g->n_input_slots + g->n_output_slots)
        return np_fail(h->ctx, NEAP_EFORMAT, "delegate %u: called with %u values, it has %u inputs "
                       "and %u outputs", in->index, in->n_args, g->n_input_slots, g->n_output_slots);
    for (uint32_t i = 0; i < in->n_args; i++) {
        bool result = i >= g->n_input_slots;
        const np_port *port = result ? &g->output_slots[i - g->n_input_slots] : &g->input_slots[i];
        const np_pte_value *v = &h->method->values[in->args[i]];
        if (v->kind != (port->is_value ? NP_PTE_INT : NP_PTE_TENSOR))
            return np_fail(h->ctx, NEAP_EFORMAT, "delegate %u: value %d is no %s", in->index,
                           in->args[i], port->is_value ? "integer" : "tensor");
        if (result && !port->is_value) {
            if (!v->tensor.known)
                return np_fail(h->ctx, NEAP_EUNSUPPORTED, "value %d: scalar type %d", in->args[i],
                               v->tensor.scalar_type);
            d->result_dtypes[i - g->n_input_slots] = v->tensor.dtype;
        }
    }
    return NEAP_OK;
}

/* All operators that do not run, in one text. */
static neap_status check_operators(const neap_handle *h)
{
    const np_pte_method *m = h->method;
    char text[640] = "";
    size_t n = 0, more = 0;
    for (uint32_t i = 0; i < m->n_operators; i++) {
        const np_pte_operator *op = &m->operators[i];
        const char *why = np_portable_refusal(np_portable_find(op));
        if (!why)
            continue;
        if (n + strlen(op->name) + strlen(op->overload) + strlen(why) + 32 < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s%s (%s)", n ? ", " : "", op->name,
                                  *op->overload ? "." : "", op->overload, why);
        else
            more++;
    }
    if (more && n)
        snprintf(text + n, sizeof text - n, " and %zu more", more);
    return n || more ? np_fail(h->ctx, NEAP_EUNSUPPORTED, "operators outside the delegates that do "
                               "not run here: %s", n ? text : "their names are too long")
                     : NEAP_OK;
}

static neap_status check_instructions(neap_handle *h)
{
    const np_pte_method *m = h->method;
    neap_status status = NEAP_OK;
    for (uint32_t c = 0; c < m->n_chains; c++) {
        for (uint32_t i = 0; status == NEAP_OK && i < m->chains[c].n; i++) {
            const np_pte_instruction *in = &m->chains[c].instructions[i];
            if (in->kind == NP_PTE_DELEGATE_CALL)
                status = check_call(h, in, h->delegates[in->index]);
            if (in->kind != NP_PTE_KERNEL_CALL)
                continue;
            status = np_portable_check(np_portable_find(&m->operators[in->index]), h, in);
        }
    }
    return status;
}

/* Does the init chain name a mutable buffer? */
static bool inits_buffers(neap_context *ctx, const np_mlx_graph *g)
{
    np_bits tids;
    bool any = false;
    if (!np_bits_make(ctx, g->n_tensors, &tids))
        return false;
    np_chain_tids(g, (uint32_t)g->init_chain, false, &tids);
    np_chain_tids(g, (uint32_t)g->init_chain, true, &tids);
    for (uint32_t t = np_first_buffer(g); t < np_first_temp(g); t++)
        any |= np_bit(&tids, t);
    np_bits_free(ctx, &tids);
    return any;
}

static neap_status load_delegates(neap_handle *h)
{
    const np_pte_method *m = h->method;
    h->delegates = np_calloc(h->ctx, NEAP_MEM_GRAPH, m->n_delegates * sizeof *h->delegates);
    h->values = np_calloc(h->ctx, NEAP_MEM_GRAPH, m->n_values * sizeof *h->values);
    if (!h->delegates || !h->values)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < m->n_delegates; i++) {
        neap_status status = np_delegate_open(h, &m->delegates[i], &h->delegates[i]);
        if (status != NEAP_OK) {
            np_fail_prefix(h->ctx, "delegate %u", i);
            return status;
        }
        if (h->options.skip_buffers && h->delegates[i]->graph->init_chain >= 0 &&
            inits_buffers(h->ctx, h->delegates[i]->graph))
            return np_fail(h->ctx, NEAP_EINVAL, "option skip_mutable_buffer_init: true, but the init "
                           "chain of delegate %u uses mutable buffers", i);
    }
    neap_status status = check_operators(h);
    if (status == NEAP_OK)
        status = check_instructions(h);
    if (status == NEAP_OK)
        status = np_method_state_find(h);
    return status == NEAP_OK ? np_method_lives(h) : status;
}

static neap_status load(neap_handle *h, const neap_handle_options *o)
{
    neap_status status = np_options_read(h->program, h->ctx, o, &h->options);
    if (status == NEAP_OK && !h->options.skip_buffers) {
        status = neap_handle_session_new(h, &h->session);
    }
    if (status == NEAP_OK)
        status = load_delegates(h);
    for (uint32_t i = 0; status == NEAP_OK && i < h->method->n_delegates; i++) {
        neap_state **buffers;
        if (!h->options.skip_buffers && h->delegates[i]->graph->n_buffers)
            status = np_delegate_buffers(h->delegates[i], &buffers);
        if (status == NEAP_OK)
            status = np_delegate_init(h->delegates[i]);
        if (status != NEAP_OK)
            np_fail_prefix(h->ctx, "delegate %u", i);
    }
    return status;
}

static neap_status handle_open(neap_program *p, int method, const neap_handle_options *given,
                             neap_handle **out)
{
    neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
    neap_context_options c = NEAP_CONTEXT_OPTIONS_INIT;
    neap_context *ctx = NULL;
    *out = NULL;
    neap_status status = np_take_options(p->ctx, "handle", given, &o, sizeof o);
    if (status == NEAP_OK && (method < 0 || method >= neap_program_methods(p)))
        status = np_fail(p->ctx, NEAP_EINVAL, "no method %d, the program has %d", method,
                         neap_program_methods(p));
    c.threads = o.threads ? o.threads : neap_context_threads(p->ctx);
    c.memory_limit = o.memory_limit;
    if (status == NEAP_OK)
        status = neap_context_new_child(p->ctx, &c, &ctx);
    if (status != NEAP_OK)
        return status;
    neap_handle *h = np_calloc(ctx, NEAP_MEM_HOST, sizeof *h);
    if (h) {
        *h = (neap_handle){.program = p, .ctx = ctx, .method = &p->pte->methods[method],
                           .seed = o.seed, .session = -1};
        status = load(h, &o);
    }
    if (!h || status != NEAP_OK) {
        status = np_fail(p->ctx, h ? status : NEAP_ENOMEM, "method %s: %s",
                         p->pte->methods[method].name, ctx->error);
        if (h)
            neap_handle_close(h);
        else
            neap_context_free(ctx);
        return status;
    }
    np_ledger_trim(&ctx->ledger); /* of reading the program */
    *out = h;
    return NEAP_OK;
}

neap_status neap_handle_open(neap_program *p, int method, const neap_handle_options *given,
                             neap_handle **out)
{
    if (out)
        *out = NULL;
    return NP_CALL_ON(p, out, handle_open(p, method, given, out));
}

void np_method_value_set(np_method_value *v, neap_array *a)
{
    neap_retain(a);
    neap_release(v->array);
    *v = (np_method_value){.kind = NEAP_VALUE_TENSOR, .array = a};
    v->at = (np_argument){.dtype = neap_array_dtype(a), .rank = a->rank, .data = neap_array_data(a)};
    memcpy(v->at.shape, a->shape, sizeof v->at.shape);
}

static void release_values(neap_handle *h)
{
    for (uint32_t i = 0; h->values && i < h->method->n_values; i++) {
        neap_release(h->values[i].array);
        h->values[i] = (np_method_value){0};
    }
    h->n_open = 0;
}

void neap_handle_close(neap_handle *h)
{
    if (!h)
        return;
    neap_context *c = h->ctx;
    release_values(h);
    np_method_state_free(h);
    for (uint32_t i = 0; h->delegates && i < h->method->n_delegates; i++)
        np_delegate_close(h->delegates[i]);
    np_free(c, NEAP_MEM_GRAPH, h->delegates, h->method->n_delegates * sizeof *h->delegates);
    np_free(c, NEAP_MEM_GRAPH, h->values, h->method->n_values * sizeof *h->values);
    np_free(c, NEAP_MEM_HOST, h->session_made, h->sessions_capacity);
    np_free(c, NEAP_MEM_HOST, h, sizeof *h);
    neap_context_free(c);
}

neap_context *neap_handle_context(neap_handle *h)
{
    return h->ctx;
}

/* ---- inputs --------------------------------------------------------------------------------------------- */

static neap_status check_shape(neap_handle *h, int i, const neap_value *in, const neap_value *want)
{
    for (int d = 0; d < in->rank; d++) {
        bool wrong = want->bounded ? in->shape[d] > want->shape[d] : in->shape[d] != want->shape[d];
        if (in->shape[d] < 0 || wrong)
            return np_fail(h->ctx, NEAP_EINVAL, "input %d: dimension %d has %lld, expected %s%lld", i,
                           d, (long long)in->shape[d], want->bounded ? "at most " : "",
                           (long long)want->shape[d]);
    }
    return NEAP_OK;
}

static bool is_contiguous(const neap_value *in)
{
    int64_t dense = 1;
    bool ok = true;
    for (int d = in->rank - 1; d >= 0; d--) {
        ok &= in->shape[d] == 1 || in->strides[d] == dense;
        dense *= in->shape[d];
    }
    return ok || dense == 0;
}

static const char *kind_name(neap_value_kind k)
{
    static const char *const names[] = {"nothing", "a tensor", "an integer", "a bool", "a double",
                                        "a string"};
    return k <= NEAP_VALUE_STRING ? names[k] : "(unknown)";
}

static neap_status check_tensor(neap_handle *h, int i, const neap_value *in, const neap_value *want,
                                bool dry)
{
    const neap_dtype_info *have = neap_dtype_describe(in->dtype);
    if (in->dtype != want->dtype)
        return np_fail(h->ctx, NEAP_EINVAL, "input %d: dtype %s, expected %s", i,
                       have->name ? have->name : "(unknown)", neap_dtype_describe(want->dtype)->name);
    if (in->rank != want->rank)
        return np_fail(h->ctx, NEAP_EINVAL, "input %d: %d dimensions, expected %d", i, in->rank,
                       want->rank);
    neap_status status = check_shape(h, i, in, want);
    if (status != NEAP_OK)
        return status;
    if (in->strided && !is_contiguous(in))
        return np_fail(h->ctx, NEAP_EINVAL, "input %d: not contiguous", i);
    int64_t elements;
    uint64_t bytes;
    if (!np_shape_bytes(in->dtype, in->rank, in->shape, &elements, &bytes))
        return np_fail(h->ctx, NEAP_EINVAL, "input %d: too large", i);
    if (in->data ? in->bytes && in->bytes < bytes : !dry && bytes)
        return np_fail(h->ctx, NEAP_EINVAL, "input %d: %llu bytes given, its shape needs %llu", i,
                       (unsigned long long)(in->data ? in->bytes : 0), (unsigned long long)bytes);
    if ((uintptr_t)in->data % (uintptr_t)np_element_bytes(in->dtype))
        return np_fail(h->ctx, NEAP_EINVAL, "input %d: its address is no multiple of %d, the size of "
                       "an element", i, (int)np_element_bytes(in->dtype));
    return NEAP_OK;
}

static neap_status set_input(neap_handle *h, int i, const neap_value *in, bool dry)
{
    np_method_value *v = &h->values[h->method->inputs[i]];
    neap_value want;
    np_describe_value(&h->method->values[h->method->inputs[i]], &want);
    if (in->kind != want.kind)
        return np_fail(h->ctx, NEAP_EINVAL, "input %d: %s, expected %s", i, kind_name(in->kind),
                       kind_name(want.kind));
    neap_release(v->array); /* of a state that is an input too */
    *v = (np_method_value){.kind = in->kind};
    v->at.is_value = in->kind != NEAP_VALUE_TENSOR;
    v->at.integer = in->integer;
    v->real = in->real;
    v->text = in->text;
    if (in->kind != NEAP_VALUE_TENSOR)
        return NEAP_OK;
    neap_status status = check_tensor(h, i, in, &want, dry);
    v->at.dtype = in->dtype;
    v->at.rank = in->rank;
    v->at.data = in->data;
    memcpy(v->at.shape, in->shape, sizeof v->at.shape);
    return status;
}

/* Numbers that the plan holds, its constants, and states. */
static neap_status set_own(neap_handle *h, uint32_t i)
{
    neap_value d;
    np_bytes bytes;
    int64_t elements;
    uint64_t need;
    np_describe_value(&h->method->values[i], &d);
    if (d.kind == NEAP_VALUE_INT || d.kind == NEAP_VALUE_BOOL || d.kind == NEAP_VALUE_DOUBLE)
        h->values[i] = (np_method_value){
            .kind = d.kind, .at = {.is_value = true, .integer = d.integer}, .real = d.real};
    if (h->is_state[i])
        return np_method_state_set(h, i) ? NEAP_OK : h->ctx->status;
    if (d.kind != NEAP_VALUE_TENSOR || !h->method->values[i].tensor.known ||
        !np_method_data(h, i, &bytes))
        return NEAP_OK;
    if (!np_shape_bytes(d.dtype, d.rank, d.shape, &elements, &need) || need > bytes.n)
        return np_fail(h->ctx, NEAP_EFORMAT, "value %u: %llu bytes are too few", i,
                       (unsigned long long)bytes.n);
    if ((uintptr_t)bytes.p % (uintptr_t)np_element_bytes(d.dtype))
        return np_fail(h->ctx, NEAP_EUNSUPPORTED, "value %u: its bytes are not aligned to elements", i);
    h->values[i].kind = NEAP_VALUE_TENSOR;
    h->values[i].at = (np_argument){.dtype = d.dtype, .rank = d.rank, .data = bytes.p};
    memcpy(h->values[i].at.shape, d.shape, sizeof d.shape);
    return NEAP_OK;
}

static neap_status set_values(neap_handle *h, int n, const neap_value *in, bool dry)
{
    const np_pte_method *m = h->method;
    neap_status status = NEAP_OK;
    release_values(h);
    if (n != (int)m->n_inputs)
        return np_fail(h->ctx, NEAP_EINVAL, "%d inputs, method %s takes %u", n, m->name, m->n_inputs);
    for (uint32_t i = 0; status == NEAP_OK && i < m->n_values; i++)
        status = set_own(h, i);
    for (int i = 0; status == NEAP_OK && i < n; i++)
        status = set_input(h, i, &in[i], dry);
    return status;
}

/* ---- results ---------------------------------------------------------------------------------------------- */

static neap_status give_output(neap_handle *h, int i, neap_value *out)
{
    uint32_t number = h->method->outputs[i];
    const np_method_value *v = &h->values[number];
    void *room = (void *)(uintptr_t)out->data;
    uint64_t size = out->bytes;
    if (v->kind == NEAP_VALUE_NONE && h->method->values[number].kind != NP_PTE_NULL &&
        h->method->values[number].kind != NP_PTE_INT) {
        np_describe_value(&h->method->values[number], out); /* a constant of the plan */
        return out->kind == NEAP_VALUE_TENSOR
                   ? np_fail(h->ctx, NEAP_EFORMAT, "output %d is never written", i)
                   : NEAP_OK;
    }
    memset(out, 0, sizeof *out);
    out->kind = v->kind;
    out->integer = v->at.integer;
    out->real = v->real;
    out->text = v->text;
    if (v->kind != NEAP_VALUE_TENSOR)
        return NEAP_OK;
    int64_t elements;
    out->dtype = v->at.dtype;
    out->rank = v->at.rank;
    memcpy(out->shape, v->at.shape, sizeof out->shape);
    np_shape_bytes(out->dtype, out->rank, out->shape, &elements, &out->bytes);
    out->data = v->at.data;
    if (!room)
        return NEAP_OK;
    if (size < out->bytes)
        return np_fail(h->ctx, NEAP_EINVAL, "output %d: %llu bytes of room, it has %llu", i,
                       (unsigned long long)size, (unsigned long long)out->bytes);
    if (out->bytes)
        memcpy(room, out->data, out->bytes);
    out->data = room;
    return NEAP_OK;
}

static void clear_cache(neap_handle *h)
{
    if (h->options.clear_interval && h->stats.executes % (uint64_t)h->options.clear_interval == 0)
        neap_context_trim(h->ctx);
}

/* A pointer that the last call gave is no room: what is there goes with this call. */
static void take_back(const neap_handle *h, int n, neap_value *outputs)
{
    for (int i = 0; i < n && i < (int)h->method->n_outputs; i++)
        if (outputs[i].data && outputs[i].data == h->values[h->method->outputs[i]].at.data)
            outputs[i].data = NULL;
}

static neap_status handle_execute(neap_handle *h, int n_inputs, const neap_value *inputs,
                                int n_outputs, neap_value *outputs)
{
    take_back(h, n_outputs, outputs);
    neap_status status = np_handle_fit_first(h, n_inputs, inputs);
    if (status == NEAP_OK)
        status = set_values(h, n_inputs, inputs, false);
    if (status == NEAP_OK && n_outputs != (int)h->method->n_outputs)
        status = np_fail(h->ctx, NEAP_EINVAL, "%d outputs, method %s gives %u", n_outputs,
                         h->method->name, h->method->n_outputs);
    if (status == NEAP_OK)
        status = np_method_run(h, NULL);
    if (status == NEAP_ENOMEM && h->least)
        np_fail_prefix(h->ctx, "needs at least %llu bytes", (unsigned long long)h->least);
    for (int i = 0; status == NEAP_OK && i < n_outputs; i++)
        status = give_output(h, i, &outputs[i]);
    if (status == NEAP_OK) {
        h->stats.executes++;
        clear_cache(h);
    }
    return status;
}

neap_status neap_handle_execute(neap_handle *h, int n_inputs, const neap_value *inputs,
                                int n_outputs, neap_value *outputs)
{
    return NP_CALL_ON(h, (inputs || n_inputs == 0) && (outputs || n_outputs == 0), handle_execute(h, n_inputs, inputs, n_outputs, outputs));
}

/* Loading and planning hold bytes too. */
static void tell_plan(const neap_handle *h, const np_dry_run *r, neap_execution_plan *plan)
{
    neap_execution_plan full = NEAP_EXECUTION_PLAN_INIT;
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(r->root, &m);
    full.held_bytes = m.active + m.cached;
    const np_ledger *l = &r->root->ledger;
    full.planned_peak_bytes = r->peak;
    memcpy(full.by_category, r->by_category, sizeof full.by_category);
    if (l->imagined.peak > r->peak) { /* while a piece was planned beside what others left */
        full.planned_peak_bytes = l->imagined.peak;
        memcpy(full.by_category, l->imagined.by_category, sizeof full.by_category);
    }
    full.plan_budget = h->plan_budget;
    full.run_bytes = full.planned_peak_bytes;
    if (m.peak > full.planned_peak_bytes) {
        full.planned_peak_bytes = m.peak;
        memcpy(full.by_category, m.peak_by_category, sizeof full.by_category);
    }
    full.least_bytes = full.planned_peak_bytes;
    full.plan_bytes = r->info.peak_bytes;
    full.arena_bytes = r->info.arena_bytes;
    full.scratch_bytes = r->info.scratch_bytes;
    full.largest_live_bytes = r->info.largest_live_bytes;
    full.output_bytes = r->outputs;
    full.steps = r->steps;
    full.peak_step = r->info.peak_step;
    full.evaluations = r->evaluations;
    full.plan_seconds = r->plan_seconds;
    np_tell(plan, &full, sizeof full);
}

typedef struct given {
    neap_handle *h;
    int n;
    const neap_value *inputs;
} given;

static neap_status start_dry(void *user)
{
    const given *g = user;
    return set_values(g->h, g->n, g->inputs, true);
}

static neap_status dry_run(neap_handle *h, int n_inputs, const neap_value *inputs, np_dry_run *r)
{
    given g = {h, n_inputs, inputs};
    memset(&h->program->ctx->ledger.imagined, 0, sizeof h->program->ctx->ledger.imagined);
    return np_method_dry_run(h, r, start_dry, &g);
}

static neap_status handle_visit_plans(neap_handle *h, int n_inputs, const neap_value *inputs,
                                    neap_plan_visit *visit, void *user)
{
    np_dry_run r = {.root = h->program->ctx, .visit = visit, .user = user};
    const neap_status status = dry_run(h, n_inputs, inputs, &r);
    release_values(h);
    np_dry_free(&r, h->ctx);
    return status;
}

neap_status neap_handle_visit_plans(neap_handle *h, int n_inputs, const neap_value *inputs,
                                    neap_plan_visit *visit, void *user)
{
    return NP_CALL_ON(h, visit && (inputs || n_inputs == 0), handle_visit_plans(h, n_inputs, inputs, visit, user));
}

/* Twice if plans were made: making one gives slabs back that a run will hold from delegate to delegate. */
static neap_status handle_plan(neap_handle *h, int n_inputs, const neap_value *inputs,
                             neap_execution_plan *plan,
                             bool (*visit)(void *user, const neap_plan_alive *alive),
                             void *user)
{
    np_dry_run r = {.root = h->program->ctx};
    const uint64_t plans = h->stats.plans;
    neap_status status = dry_run(h, n_inputs, inputs, &r);
    if (status == NEAP_OK && h->stats.plans != plans) {
        np_dry_free(&r, h->ctx);
        r = (np_dry_run){.root = h->program->ctx};
        status = dry_run(h, n_inputs, inputs, &r);
    }
    for (size_t i = 0; status == NEAP_OK && visit && i < r.n_alive; i++) {
        neap_plan_alive a = r.alive[i].what;
        a.name = r.alive[i].name;
        if (!visit(user, &a))
            break;
    }
    const np_dry_run found = r;
    release_values(h);
    np_dry_free(&r, h->ctx);
    if (status == NEAP_OK)
        tell_plan(h, &found, plan);
    return status;
}

neap_status neap_handle_plan(neap_handle *h, int n_inputs, const neap_value *inputs,
                             neap_execution_plan *plan,
                             bool (*visit)(void *user, const neap_plan_alive *alive),
                             void *user)
{
    return NP_CALL_ON(h, plan && (inputs || n_inputs == 0), handle_plan(h, n_inputs, inputs, plan, visit, user));
}

/* ---- sessions, reset, counters ------------------------------------------------------------------------------ */

static neap_status check_session(neap_handle *h, int session)
{
    if (session >= 0 && session < h->n_sessions && h->session_made[session])
        return NEAP_OK;
    return np_fail(h->ctx, NEAP_EINVAL, "no session %d", session);
}

static neap_status handle_session_new(neap_handle *h, int *session)
{
    size_t n = (size_t)h->n_sessions;
    if (!np_grow(h->ctx, NEAP_MEM_HOST, &h->session_made, &h->sessions_capacity, n + 1,
                 sizeof *h->session_made))
        return NEAP_ENOMEM;
    h->session_made[n] = true;
    *session = h->n_sessions++;
    return NEAP_OK;
}

neap_status neap_handle_session_new(neap_handle *h, int *session)
{
    return NP_CALL_ON(h, session, handle_session_new(h, session));
}

static neap_status handle_session_use(neap_handle *h, int session)
{
    neap_status status = check_session(h, session);
    if (status == NEAP_OK)
        h->session = session;
    return status;
}

neap_status neap_handle_session_use(neap_handle *h, int session)
{
    return NP_CALL_ON(h, true, handle_session_use(h, session));
}

static neap_status handle_session_free(neap_handle *h, int session)
{
    neap_status status = check_session(h, session);
    if (status != NEAP_OK)
        return status;
    for (uint32_t i = 0; i < h->method->n_delegates; i++)
        np_delegate_drop_session(h->delegates[i], session);
    np_method_state_drop(h, session);
    h->session_made[session] = false;
    h->session = h->session == session ? -1 : h->session;
    return NEAP_OK;
}

neap_status neap_handle_session_free(neap_handle *h, int session)
{
    return NP_CALL_ON(h, true, handle_session_free(h, session));
}

uint64_t neap_handle_session_bytes(const neap_handle *h)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < h->method->n_delegates; i++) {
        const np_mlx_graph *g = h->delegates[i]->graph;
        for (uint32_t t = np_first_buffer(g); t < np_first_temp(g); t++) {
            int64_t elements;
            uint64_t bytes;
            np_shape_bytes(g->meta[t].dtype, g->meta[t].rank, g->meta[t].shape, &elements, &bytes);
            total += np_pages(bytes);
        }
    }
    return total;
}

static neap_status handle_reset(neap_handle *h)
{
    for (uint32_t i = 0; h->session >= 0 && i < h->method->n_delegates; i++)
        np_delegate_reset(h->delegates[i], h->session);
    if (h->options.cache)
        np_cache_reset(h->options.cache);
    np_method_state_drop(h, h->session < 0 ? 0 : h->session);
    h->draws = 0;
    return NEAP_OK;
}

neap_status neap_handle_reset(neap_handle *h)
{
    return NP_CALL_ON(h, true, handle_reset(h));
}

void neap_handle_tell(const neap_handle *h, neap_handle_stats *stats)
{
    neap_handle_stats s = h->stats;
    np_tell(stats, &s, sizeof s);
}
