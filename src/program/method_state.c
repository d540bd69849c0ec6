/* method_state.c - tensors of a method, outside its delegates, that live on from call to call: those
 * that aten::copy_ writes. Each session has its own; they start with the file's bytes, else zeros. */
#include <string.h>

#include "program/handle.h"

neap_status np_method_state_find(neap_handle *h)
{
    const np_pte_method *m = h->method;
    h->is_state = np_calloc(h->ctx, NEAP_MEM_GRAPH, m->n_values * sizeof *h->is_state);
    if (!h->is_state)
        return NEAP_ENOMEM;
    for (uint32_t c = 0; c < m->n_chains; c++) {
        for (uint32_t i = 0; i < m->chains[c].n; i++) {
            const np_pte_instruction *in = &m->chains[c].instructions[i];
            if (in->kind != NP_PTE_KERNEL_CALL || !in->n_args ||
                !np_portable_writes_first(np_portable_find(&m->operators[in->index])))
                continue;
            const np_pte_value *v = &m->values[in->args[0]];
            h->is_state[in->args[0]] = v->kind == NP_PTE_TENSOR && v->tensor.known;
        }
    }
    return NEAP_OK;
}

bool np_method_data(const neap_handle *h, uint32_t value, np_bytes *out)
{
    const np_pte_value *v = &h->method->values[value];
    *out = v->tensor.start;
    if (v->tensor.external)
        return np_pte_named_data(h->program->pte, v->tensor.external, out);
    if (v->tensor.data)
        return np_pte_constant(h->program->pte, v->tensor.data, out);
    return out->p != NULL;
}

static neap_array **states(neap_handle *h)
{
    size_t session = h->session < 0 ? 0 : (size_t)h->session;
    if (session >= h->kept_capacity &&
        !np_grow(h->ctx, NEAP_MEM_GRAPH, &h->kept, &h->kept_capacity, session + 1, sizeof *h->kept))
        return NULL;
    for (; h->n_kept < h->kept_capacity; h->n_kept++)
        h->kept[h->n_kept] = NULL;
    if (!h->kept[session])
        h->kept[session] =
            np_calloc(h->ctx, NEAP_MEM_GRAPH, h->method->n_values * sizeof **h->kept);
    return h->kept[session];
}

static neap_array *start(neap_handle *h, uint32_t value)
{
    neap_value d;
    np_bytes bytes;
    np_describe_value(&h->method->values[value], &d);
    if (!np_method_data(h, value, &bytes))
        return neap_array_zeros(d.dtype, d.rank, d.shape);
    int64_t elements;
    uint64_t need;
    if (np_shape_bytes(d.dtype, d.rank, d.shape, &elements, &need) && need <= bytes.n)
        return neap_array_from(d.dtype, d.rank, d.shape, bytes.p);
    np_fail(h->ctx, NEAP_EFORMAT, "value %u: %llu bytes are too few", value,
            (unsigned long long)bytes.n);
    return NULL;
}

/* Whole pages from the first call on, as the results that come after it have. */
static neap_array *paged(neap_array *a)
{
    if (!a)
        return NULL;
    np_buffer *from = a->buffer;
    np_buffer *b = np_buffer_reserve(a->ctx, NEAP_MEM_ACTIVATIONS, from->bytes);
    if (!b)
        return NULL;
    if (np_buffer_fill(b) != NEAP_OK) {
        np_buffer_release(b);
        return NULL;
    }
    memcpy(b->data, from->data, from->bytes);
    a->buffer = b;
    np_buffer_release(from);
    return a;
}

bool np_method_state_set(neap_handle *h, uint32_t value)
{
    neap_array **kept = states(h);
    if (!kept)
        return false;
    if (!kept[value] && np_scope_push(h->ctx) == NEAP_OK) {
        kept[value] = neap_retain(paged(start(h, value)));
        neap_scope_pop(h->ctx);
    }
    if (!kept[value])
        return false;
    np_method_value_set(&h->values[value], kept[value]);
    return true;
}

/* In a dry run the old one stays, and is counted as gone. */
neap_status np_method_state_take(neap_handle *h, uint32_t value, const neap_array *before,
                                 np_dry_run *report)
{
    neap_status status = np_method_settle(h, report);
    neap_array **kept = status == NEAP_OK ? states(h) : NULL, *old = kept ? kept[value] : NULL;
    if (!kept)
        return h->ctx->status;
    if (report) {
        if (old && old == before)
            np_dry_drop(report, h->ctx, old->buffer);
        return NEAP_OK;
    }
    kept[value] = neap_retain(h->values[value].array);
    neap_release(old);
    return NEAP_OK;
}

void np_method_state_drop(neap_handle *h, int session)
{
    neap_array **kept = (size_t)session < h->n_kept ? h->kept[session] : NULL;
    if (!kept)
        return;
    for (uint32_t i = 0; i < h->method->n_values; i++)
        neap_release(kept[i]);
    np_free(h->ctx, NEAP_MEM_GRAPH, kept, h->method->n_values * sizeof *kept);
    h->kept[session] = NULL;
}

void np_method_state_free(neap_handle *h)
{
    for (size_t s = 0; s < h->n_kept; s++)
        np_method_state_drop(h, (int)s);
    np_free(h->ctx, NEAP_MEM_GRAPH, h->kept, h->kept_capacity * sizeof *h->kept);
    np_free(h->ctx, NEAP_MEM_GRAPH, h->is_state, h->method->n_values * sizeof *h->is_state);
    np_free(h->ctx, NEAP_MEM_GRAPH, h->last_use, h->method->n_values * sizeof *h->last_use);
}
