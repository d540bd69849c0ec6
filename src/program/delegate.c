/* delegate.c - a delegate's graph, constants and mutable buffers. */
#include "program/delegate.h"

#include <string.h>

#include "program/handle.h"
#include "program/uses.h"
#include "program/walk.h"

/* ---- constants ------------------------------------------------------------------------------------ */

/* Over the bytes in the file's map; copied only if they lie where elements cannot be read. */
static neap_array *constant(np_delegate *d, uint32_t i)
{
    const np_tensor_meta *m = &d->graph->meta[i];
    np_bytes bytes;
    int64_t elements;
    uint64_t need;
    np_shape_bytes(m->dtype, m->rank, m->shape, &elements, &need); /* the loader checked it */
    if (!np_pte_named_data(d->h->program->pte, m->name, &bytes)) {
        np_fail(d->ctx, NEAP_EFORMAT, "constant %s: no data of that name in the program", m->name);
        return NULL;
    }
    if (bytes.n != need) {
        np_fail(d->ctx, NEAP_EFORMAT, "constant %s: %llu bytes, its shape needs %llu", m->name,
                (unsigned long long)bytes.n, (unsigned long long)need);
        return NULL;
    }
    bool aligned = (uintptr_t)bytes.p % (uintptr_t)np_element_bytes(m->dtype) == 0;
    neap_array *a = aligned ? neap_array_over(m->dtype, m->rank, m->shape, bytes.p, NULL, NULL)
                            : neap_array_from(m->dtype, m->rank, m->shape, bytes.p);
    if (a)
        neap_array_set_name(a, m->name);
    return a;
}

static neap_status load_constants(np_delegate *d)
{
    uint32_t n = d->graph->n_constants;
    d->constants = np_calloc(d->ctx, NEAP_MEM_GRAPH, n * sizeof *d->constants);
    if (!d->constants)
        return NEAP_ENOMEM;
    neap_status status = np_scope_push(d->ctx);
    for (uint32_t i = 0; status == NEAP_OK && i < n; i++) {
        d->constants[i] = neap_retain(constant(d, i));
        status = d->ctx->status;
    }
    neap_scope_pop(d->ctx);
    return status;
}

/* ---- mutable buffers --------------------------------------------------------------------------------- */

static neap_status make_session(np_delegate *d, int session)
{
    const np_mlx_graph *g = d->graph;
    neap_state **s = np_calloc(d->ctx, NEAP_MEM_GRAPH, g->n_buffers * sizeof *s);
    if (!s)
        return NEAP_ENOMEM;
    d->sessions[session] = s;
    for (uint32_t i = 0; i < g->n_buffers; i++) {
        const np_tensor_meta *m = &g->meta[np_first_buffer(g) + i];
        neap_status status = np_state_new(d->ctx, m->name ? m->name : "buffer", m->dtype, m->rank,
                                            m->shape, &s[i]);
        if (status == NEAP_OK)
            status = np_state_materialise(s[i]);
        if (status != NEAP_OK)
            return status;
    }
    return NEAP_OK;
}

neap_status np_delegate_buffers(np_delegate *d, neap_state ***out)
{
    int session = d->h->session;
    if (session < 0)
        return np_fail(d->ctx, NEAP_EINVAL,
                       "no session is in use, and skip_mutable_buffer_init left out the first one");
    size_t n = d->n_sessions;
    if (!np_grow(d->ctx, NEAP_MEM_GRAPH, &d->sessions, &d->sessions_capacity, (size_t)session + 1,
                 sizeof *d->sessions))
        return NEAP_ENOMEM;
    for (; n < (size_t)session + 1; n++)
        d->sessions[d->n_sessions++] = NULL;
    if (!d->sessions[session]) {
        neap_status status = make_session(d, session);
        if (status != NEAP_OK) {
            np_delegate_drop_session(d, session);
            return status;
        }
    }
    *out = d->sessions[session];
    return NEAP_OK;
}

void np_delegate_drop_session(np_delegate *d, int session)
{
    if ((size_t)session >= d->n_sessions || !d->sessions[session])
        return;
    for (np_trace **at = &d->traces, *t; (t = *at);) { /* plans hold the states */
        if (t->session != session) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        np_trace_free(d, t);
    }
    neap_state **s = d->sessions[session];
    for (uint32_t i = 0; i < d->graph->n_buffers; i++)
        neap_state_free(s[i]);
    np_free(d->ctx, NEAP_MEM_GRAPH, s, d->graph->n_buffers * sizeof *s);
    d->sessions[session] = NULL;
}

void np_delegate_reset(np_delegate *d, int session)
{
    if ((size_t)session >= d->n_sessions || !d->sessions[session])
        return;
    for (uint32_t i = 0; i < d->graph->n_buffers; i++)
        neap_state_reset(d->sessions[session][i]);
}

/* ---- open and close ------------------------------------------------------------------------------------ */

static neap_status load(np_delegate *d, const np_pte_delegate *from)
{
    if (strcmp(from->id, "MLXBackend") != 0)
        return np_fail(d->ctx, NEAP_EUNSUPPORTED, "delegate for the backend %s; Neap runs MLXBackend",
                       from->id);
    neap_status status = np_mlx_graph_load(d->ctx, from->payload, &d->graph);
    if (status == NEAP_OK)
        status = np_kernels_check(d->ctx, d->graph);
    if (status == NEAP_OK)
        status = np_uses_make(d->graph, &d->uses);
    if (status == NEAP_OK)
        status = load_constants(d);
    if (status != NEAP_OK)
        return status;
    size_t n = d->graph->n_output_slots;
    d->result_dtypes = np_alloc(d->ctx, NEAP_MEM_GRAPH, n * sizeof *d->result_dtypes);
    d->results = np_calloc(d->ctx, NEAP_MEM_GRAPH, n * sizeof *d->results);
    d->args = np_calloc(d->ctx, NEAP_MEM_GRAPH, d->graph->n_input_slots * sizeof *d->args);
    if (!d->result_dtypes || !d->results || !d->args)
        return NEAP_ENOMEM;
    for (size_t i = 0; i < n; i++) { /* until the method says otherwise */
        const np_port *port = &d->graph->output_slots[i];
        d->result_dtypes[i] = port->is_value ? NEAP_I64 : NEAP_F32;
    }
    return NEAP_OK;
}

neap_status np_delegate_open(neap_handle *h, const np_pte_delegate *from, np_delegate **out)
{
    *out = NULL;
    np_delegate *d = np_calloc(h->ctx, NEAP_MEM_GRAPH, sizeof *d);
    if (!d)
        return NEAP_ENOMEM;
    d->h = h;
    d->ctx = h->ctx;
    neap_status status = load(d, from);
    if (status != NEAP_OK) {
        np_delegate_close(d);
        return status;
    }
    *out = d;
    return NEAP_OK;
}

void np_delegate_release_results(np_delegate *d)
{
    for (uint32_t i = 0; d->results && i < d->graph->n_output_slots; i++) {
        neap_release(d->results[i].array);
        d->results[i].array = NULL;
    }
}

void np_delegate_forget(np_delegate *d)
{
    np_delegate_release_results(d);
    while (d->traces) {
        np_trace *t = d->traces;
        d->traces = t->next;
        np_trace_free(d, t);
    }
}

void np_delegate_close(np_delegate *d)
{
    if (!d)
        return;
    neap_context *c = d->ctx;
    if (d->graph) {
        np_delegate_forget(d);
        for (size_t s = 0; s < d->n_sessions; s++)
            np_delegate_drop_session(d, (int)s);
        for (uint32_t i = 0; d->constants && i < d->graph->n_constants; i++)
            neap_release(d->constants[i]);
        np_free(c, NEAP_MEM_GRAPH, d->constants, d->graph->n_constants * sizeof *d->constants);
        size_t n = d->graph->n_output_slots;
        np_free(c, NEAP_MEM_GRAPH, d->result_dtypes, n * sizeof *d->result_dtypes);
        np_free(c, NEAP_MEM_GRAPH, d->results, n * sizeof *d->results);
        np_free(c, NEAP_MEM_GRAPH, d->args, d->graph->n_input_slots * sizeof *d->args);
    }
    np_free(c, NEAP_MEM_GRAPH, d->sessions, d->sessions_capacity * sizeof *d->sessions);
    np_uses_free(d->uses);
    np_mlx_graph_free(d->graph);
    np_free(c, NEAP_MEM_GRAPH, d, sizeof *d);
}
