/* method_piece.c - what operators outside the delegates left open is planned and run as one, and what
 * nobody reads any more is let go. */
#include <string.h>

#include "eval/arena.h"
#include "eval/run.h"
#include "ops/support.h"
#include "program/handle.h"

typedef struct piece {
    neap_handle *h;
    neap_array **roots;
    size_t n, capacity;
    neap_plan *plan;
} piece;

/* ---- evaluating ----------------------------------------------------------------------------------- */

static bool add_root(piece *p, neap_array *a)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->roots[i] == a)
            return true;
    if (!np_grow(p->h->ctx, NEAP_MEM_GRAPH, &p->roots, &p->capacity, p->n + 1, sizeof *p->roots))
        return false;
    p->roots[p->n++] = a;
    return true;
}

static bool is_open(const np_method_value *v)
{
    return v->kind == NEAP_VALUE_TENSOR && v->open;
}

/* Row-major, and not over memory that is not the handle's own: it may change before this is read. */
static bool collect(piece *p)
{
    for (uint32_t i = 0; i < p->h->method->n_values; i++) {
        np_method_value *v = &p->h->values[i];
        if (!is_open(v))
            continue;
        neap_array *a = neap_contiguous(v->array);
        if (a && neap_array_is_value(a) && np_storage(a)->buffer->borrowed)
            a = np_copied(a);
        if (!a || (!neap_array_is_value(a) && !add_root(p, a)))
            return false;
        neap_retain(a);
        neap_release(v->array);
        v->array = a;
    }
    return true;
}

static bool run(piece *p, np_dry_run *report)
{
    neap_handle *h = p->h;
    if (report) /* not held beside what planning takes, in no call and in no turn of a loop */
        np_dry_trim(report, h->ctx);
    else
        np_arena_trim(h->ctx);
    np_ledger_trim(&h->ctx->ledger);
    if (np_plan_make(h->ctx, (int)p->n, p->roots, 0, NULL, &p->plan) != NEAP_OK)
        return false;
    h->stats.plans++;
    h->stats.plan_seconds += p->plan->info.plan_seconds;
    if (report)
        return np_dry_note(report, h->ctx, p->plan);
    neap_status status = np_plan_run(p->plan, NULL);
    h->stats.evaluations++;
    h->stats.steps += p->plan->n_steps;
    if (status != NEAP_OK)
        h->ctx->status = status;
    return status == NEAP_OK;
}

static bool settle(piece *p, np_dry_run *report)
{
    for (uint32_t i = 0; p->plan && i < p->plan->n_outputs; i++) {
        np_buffer *b = p->plan->buffers[i];
        atomic_fetch_add(&b->refs, 1);
        np_array_become_value(p->roots[p->plan->output_root[i]], b);
        if (report && !np_dry_keep(report, p->h->ctx, b))
            return false;
    }
    for (uint32_t i = 0; i < p->h->method->n_values; i++)
        if (is_open(&p->h->values[i]))
            np_method_value_set(&p->h->values[i], p->h->values[i].array);
    return true;
}

neap_status np_method_settle(neap_handle *h, np_dry_run *report)
{
    piece p = {.h = h};
    if (!h->n_open)
        return NEAP_OK;
    neap_status status = np_scope_push(h->ctx);
    if (status != NEAP_OK)
        return status;
    bool ok = collect(&p) && (p.n == 0 || run(&p, report)) && settle(&p, report);
    neap_plan_free(p.plan);
    np_free(h->ctx, NEAP_MEM_GRAPH, p.roots, p.capacity * sizeof *p.roots);
    neap_scope_pop(h->ctx);
    h->n_open = 0;
    return ok ? NEAP_OK : h->ctx->status;
}

/* ---- lives ------------------------------------------------------------------------------------------ */

enum { FOREVER = UINT32_MAX };

typedef void visit(neap_handle *h, int64_t value, uint32_t at);

/* Every value that an instruction mentions, those in lists of tensors too. */
static void visit_values(neap_handle *h, const np_pte_instruction *in, uint32_t at, visit *each)
{
    const np_pte_method *m = h->method;
    const bool call = in->kind == NP_PTE_DELEGATE_CALL || in->kind == NP_PTE_KERNEL_CALL;
    for (uint32_t i = 0; call && i < in->n_args; i++) {
        const np_pte_value *v = &m->values[in->args[i]];
        each(h, in->args[i], at);
        if (v->kind == NP_PTE_TENSOR_LIST || v->kind == NP_PTE_OPTIONAL_TENSOR_LIST)
            for (uint32_t k = 0; k < v->list.n; k++)
                each(h, v->list.at[k], at);
    }
    if (in->kind == NP_PTE_MOVE)
        each(h, in->to, at);
    if (!call)
        each(h, in->index, at);
}

static void mention(neap_handle *h, int64_t value, uint32_t at)
{
    if (value >= 0 && h->last_use[value] != FOREVER)
        h->last_use[value] = at;
}

/* What is mentioned within a jump back is kept: the next turn may read it. */
static void keep_in_loops(neap_handle *h, const np_pte_chain *chain)
{
    uint32_t lowest = UINT32_MAX;
    for (uint32_t i = chain->n; i-- > 0;) {
        const np_pte_instruction *in = &chain->instructions[i];
        if (in->kind == NP_PTE_JUMP_FALSE && in->to <= i && in->to < lowest)
            lowest = in->to;
        if (lowest <= i)
            visit_values(h, in, FOREVER, mention);
    }
}

neap_status np_method_lives(neap_handle *h)
{
    const np_pte_method *m = h->method;
    uint32_t at = 0;
    h->last_use = np_calloc(h->ctx, NEAP_MEM_GRAPH, m->n_values * sizeof *h->last_use);
    if (!h->last_use)
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < m->n_values; i++)
        h->last_use[i] = h->is_state[i] ? FOREVER : 0;
    for (uint32_t i = 0; i < m->n_outputs; i++)
        h->last_use[m->outputs[i]] = FOREVER;
    for (uint32_t c = 0; c < m->n_chains; c++) {
        const np_pte_chain *chain = &m->chains[c];
        for (uint32_t i = 0; i < chain->n; i++)
            visit_values(h, &chain->instructions[i], at++, mention);
        keep_in_loops(h, chain);
    }
    return NEAP_OK;
}

static void let_go(neap_handle *h, int64_t value, uint32_t at)
{
    if (value < 0 || h->last_use[value] != at || !h->values[value].array)
        return;
    h->n_open -= h->values[value].open;
    neap_release(h->values[value].array);
    h->values[value] = (np_method_value){0};
}

void np_method_let_go(neap_handle *h, const np_pte_instruction *in, uint32_t at)
{
    visit_values(h, in, at, let_go);
}
