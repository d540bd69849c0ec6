/* simplify.c - equal computations become one (common subexpressions).
 *
 * Entries are in program order, so inputs have their canonical entry before the node that uses
 * them. Effects are never merged; random ops are pure functions of their keys and may be. */
#include <string.h>

#include "plan/plan.h"

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t mix_bytes(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (; n >= 8; n -= 8, b += 8) {
        uint64_t x;
        memcpy(&x, b, 8);
        h = mix(h, x);
    }
    for (; n; n--)
        h = mix(h, *b++);
    return h;
}

/* The canonical entry of an array that there may not be. */
static uint32_t entry_of(const np_graph *g, const neap_array *a)
{
    return a ? np_canonical(g, a) : NP_NONE;
}

/* Of a view: the one whose waiting it shares. */
static const neap_array *gate_of(const neap_array *a)
{
    return a->n_in ? a->in[0] : NULL;
}

static uint64_t hash_entry(const np_graph *g, const neap_array *a)
{
    uint64_t h = mix(mix(a->dtype, a->rank), entry_of(g, a->after));
    h = mix_bytes(h, a->shape, a->rank * sizeof a->shape[0]);
    if (a->base) {
        h = mix(mix(h, np_canonical(g, a->base)), entry_of(g, gate_of(a)));
        h = mix_bytes(h, a->strides, a->rank * sizeof a->strides[0]);
        return mix(h, (uint64_t)a->offset);
    }
    h = mix(h, (uint64_t)(uintptr_t)a->op);
    if (a->state)
        return mix(mix(h, (uint64_t)(uintptr_t)a->state), a->version);
    h = mix_bytes(h, a->attr, a->attr_bytes);
    for (uint32_t i = 0; i < a->n_in; i++)
        h = mix(h, np_canonical(g, a->in[i]));
    return h;
}

/* What waits for something else is no twin, or a second making after that would not be one. */
static bool same_frame(const np_graph *g, const neap_array *a, const neap_array *b)
{
    return a->dtype == b->dtype && np_same_shape(a, b) && a->extent == b->extent &&
           a->dynamic_dim == b->dynamic_dim && a->shift == b->shift &&
           a->shift_scale == b->shift_scale && a->packed == b->packed &&
           entry_of(g, a->after) == entry_of(g, b->after);
}

static bool same_entry(const np_graph *g, const neap_array *a, const neap_array *b)
{
    if (!same_frame(g, a, b) || !a->base != !b->base)
        return false;
    if (a->base)
        return np_canonical(g, a->base) == np_canonical(g, b->base) && a->offset == b->offset &&
               entry_of(g, gate_of(a)) == entry_of(g, gate_of(b)) &&
               memcmp(a->strides, b->strides, a->rank * sizeof a->strides[0]) == 0;
    if (a->op != b->op || a->n_in != b->n_in || a->state != b->state || a->version != b->version ||
        a->attr_bytes != b->attr_bytes || memcmp(a->attr, b->attr, a->attr_bytes) != 0)
        return false;
    for (uint32_t i = 0; i < a->n_in; i++)
        if (np_canonical(g, a->in[i]) != np_canonical(g, b->in[i]))
            return false;
    return true;
}

neap_status np_graph_simplify(np_graph *g, int64_t *merged)
{
    size_t size = 1024; /* a page */
    while (size < 2 * g->n)
        size *= 2;
    uint32_t *table = np_workspace_take(g->ctx, size * sizeof *table);
    if (!table)
        return NEAP_ENOMEM;
    memset(table, 0xff, size * sizeof *table);
    *merged = 0;
    for (size_t e = 0; e < g->n; e++) {
        const neap_array *a = g->entries[e].array;
        if ((!a->op && !a->base) || (a->op && (a->op->flags & NP_OP_EFFECT)))
            continue;
        size_t i = (size_t)(hash_entry(g, a) >> 16) & (size - 1);
        while (table[i] != NP_NONE && !same_entry(g, g->entries[table[i]].array, a))
            i = (i + 1) & (size - 1);
        if (table[i] == NP_NONE) {
            table[i] = (uint32_t)e;
        } else {
            g->entries[e].canonical = table[i];
            *merged += np_graph_runs(a);
        }
    }
    np_workspace_free(g->ctx, table, size * sizeof *table);
    return NEAP_OK;
}
