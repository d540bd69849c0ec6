/* method_run.c - a method's own instructions: calls of delegates, the few operators outside them,
 * moves and jumps. */
#include <string.h>

#include "base/interrupt.h"
#include "program/handle.h"

/* Jumps may go backwards: what one execution may do, a call of a delegate counting for many. */
enum { MOST_WORK = 1 << 22, CALL_WORK = 64 };

static neap_status missing(neap_handle *h, const np_pte_instruction *in, int32_t value)
{
    return np_fail(h->ctx, NEAP_EFORMAT, "call of delegate %u: value %d is read before it is set",
                   in->index, value);
}

static neap_status call_delegate(neap_handle *h, const np_pte_instruction *in, np_dry_run *report)
{
    np_delegate *d = h->delegates[in->index];
    const np_mlx_graph *g = d->graph;
    neap_status status = np_method_settle(h, report);
    for (uint32_t i = 0; status == NEAP_OK && i < g->n_input_slots; i++) {
        const np_method_value *v = &h->values[in->args[i]];
        const bool integer = v->kind == NEAP_VALUE_INT || v->kind == NEAP_VALUE_BOOL;
        if (v->kind == NEAP_VALUE_NONE)
            status = missing(h, in, in->args[i]);
        else if (g->input_slots[i].is_value ? !integer : v->kind != NEAP_VALUE_TENSOR) /* moved */
            status = np_fail(h->ctx, NEAP_EFORMAT, "call of delegate %u: value %d is no %s by now",
                             in->index, in->args[i], integer ? "tensor" : "integer");
        d->args[i] = v->at;
    }
    if (status == NEAP_OK)
        status = report ? np_delegate_plan(d, d->args, report) : np_delegate_run(d, d->args);
    for (uint32_t i = 0; status == NEAP_OK && i < g->n_output_slots; i++) {
        np_method_value *v = &h->values[in->args[g->n_input_slots + i]];
        neap_release(v->array);
        *v = (np_method_value){.at = d->results[i]};
        v->kind = v->at.is_value ? NEAP_VALUE_INT : NEAP_VALUE_TENSOR;
        v->array = neap_retain(v->at.array);
    }
    return status;
}

/* ---- jumps ---------------------------------------------------------------------------------------- */

/* Whether data decides a jump, a dry run cannot know. It goes through the method once with all such
 * jumps as if their condition were true; then, for each of them met, once with it and those in front
 * of it the other way, until every instruction behind one has been planned. In a loop what one way
 * leaves is there while the other is gone: two more runs take the ways in turn. */
typedef struct np_dry_jumps {
    uint8_t *seen;  /* [instructions]: which ways were taken or are to be taken: bits TRUE, FALSE */
    uint8_t *go;    /* [instructions]: the way of this run */
    uint8_t *met;   /* [instructions]: how often in this run, the last bit; 2: at all */
    bool looped;    /* one was met twice in a run */
    bool alternate; /* this run takes the ways in turn */
    uint32_t *next; /* those whose other way is to be taken */
    uint32_t n, n_next;
} np_dry_jumps;

enum { WAY_TRUE = 1, WAY_FALSE = 2 };

static bool guess(np_dry_jumps *j, uint32_t at)
{
    if (!(j->seen[at] & WAY_FALSE)) { /* met for the first time */
        j->seen[at] = WAY_TRUE | WAY_FALSE;
        j->next[j->n_next++] = at;
    }
    const bool odd = j->met[at] & 1;
    j->looped |= j->met[at] & 2;
    j->met[at] = (uint8_t)(2 | !odd);
    return (j->go[at] != WAY_FALSE) != (j->alternate && odd);
}

/* A number, or a tensor of bools that must all be true. */
static neap_status is_true(neap_handle *h, uint32_t value, bool *out, bool *known)
{
    const np_method_value *v = &h->values[value];
    int64_t elements = 0;
    uint64_t bytes;
    *out = *known = true;
    if (v->kind == NEAP_VALUE_INT || v->kind == NEAP_VALUE_BOOL)
        *out = v->at.integer != 0;
    else if (v->kind != NEAP_VALUE_TENSOR || v->at.dtype != NEAP_BOOL)
        return np_fail(h->ctx, NEAP_EFORMAT, "a jump hangs on value %u, which is no bool", value);
    else if (np_shape_bytes(v->at.dtype, v->at.rank, v->at.shape, &elements, &bytes))
        *known = v->at.data || elements == 0;
    elements = *known ? elements : 0;
    for (int64_t i = 0; i < elements; i++)
        *out &= ((const uint8_t *)v->at.data)[i] != 0;
    return NEAP_OK;
}

/* `at`: among the instructions of all chains. */
static neap_status jump(neap_handle *h, const np_pte_instruction *in, uint32_t at, uint32_t *next,
                        np_dry_run *report)
{
    bool on = true, known = true;
    neap_status status = np_method_settle(h, report);
    if (status == NEAP_OK)
        status = is_true(h, in->index, &on, &known);
    if (status == NEAP_OK && !known && report && report->jumps)
        on = guess(report->jumps, at);
    if (status == NEAP_OK && !on)
        *next = in->to;
    return status;
}

static neap_status run_instruction(neap_handle *h, const np_pte_instruction *in, uint32_t at,
                                   uint32_t *next, np_dry_run *report)
{
    np_method_value *to, *from;
    switch (in->kind) {
    case NP_PTE_DELEGATE_CALL:
        return call_delegate(h, in, report);
    case NP_PTE_KERNEL_CALL:
        return np_portable_run(np_portable_find(&h->method->operators[in->index]), h, in, report);
    case NP_PTE_MOVE:
        from = &h->values[in->index];
        to = &h->values[in->to];
        neap_retain(from->array);
        neap_release(to->array);
        h->n_open += from->open - to->open;
        *to = *from;
        return NEAP_OK;
    case NP_PTE_JUMP_FALSE:
        return jump(h, in, at, next, report);
    default: /* FREE */
        neap_release(h->values[in->index].array);
        h->n_open -= h->values[in->index].open;
        h->values[in->index] = (np_method_value){0};
        return NEAP_OK;
    }
}

/* An execution begins without results of an earlier one and the slabs that are free then: what it
 * holds does not depend on what ran, or was planned, before. Where there is one delegate and nothing
 * else, its results' memory stays: nothing runs beside it. */
static bool begin(neap_handle *h)
{
    const bool alone = h->method->n_delegates == 1 && h->method->n_operators == 0;
    bool ok = true;
    for (uint32_t i = 0; i < h->method->n_delegates; i++) {
        np_delegate_release_results(h->delegates[i]);
        ok &= alone || np_delegate_let_go(h->delegates[i]) == NEAP_OK;
    }
    np_ledger_trim(&h->ctx->ledger);
    return ok;
}

neap_status np_method_run(neap_handle *h, np_dry_run *report)
{
    int64_t left = MOST_WORK;
    uint32_t first = 0; /* of the chain's instructions */
    if (!begin(h))
        return NEAP_ENOMEM;
    for (uint32_t c = 0; c < h->method->n_chains; c++) {
        const np_pte_chain *chain = &h->method->chains[c];
        for (uint32_t i = 0; i < chain->n;) {
            uint32_t next = i + 1;
            const np_pte_instruction *in = &chain->instructions[i];
            bool call = in->kind == NP_PTE_DELEGATE_CALL || in->kind == NP_PTE_KERNEL_CALL;
            left -= call ? CALL_WORK : 1;
            if (call && np_check(h->ctx) != NEAP_OK)
                return NEAP_ECANCELLED;
            if (left < 0)
                return np_fail(h->ctx, NEAP_ELIMIT, "method %s: more than %d calls or %d other "
                               "instructions were run", h->method->name, MOST_WORK / CALL_WORK,
                               MOST_WORK);
            neap_status status = run_instruction(h, in, first + i, &next, report);
            if (status != NEAP_OK)
                return status;
            np_method_let_go(h, in, first + i);
            i = next;
        }
        first += chain->n;
    }
    return np_method_settle(h, report);
}

/* ---- dry runs ------------------------------------------------------------------------------------- */

static void free_jumps(neap_context *ctx, np_dry_jumps *j)
{
    np_free(ctx, NEAP_MEM_GRAPH, j->seen, j->n);
    np_free(ctx, NEAP_MEM_GRAPH, j->go, j->n);
    np_free(ctx, NEAP_MEM_GRAPH, j->met, j->n);
    np_free(ctx, NEAP_MEM_GRAPH, j->next, j->n * sizeof *j->next);
}

static bool make_jumps(neap_handle *h, np_dry_jumps *j)
{
    *j = (np_dry_jumps){.n = 0};
    for (uint32_t c = 0; c < h->method->n_chains; c++)
        j->n += h->method->chains[c].n;
    j->seen = np_calloc(h->ctx, NEAP_MEM_GRAPH, j->n);
    j->go = np_calloc(h->ctx, NEAP_MEM_GRAPH, j->n);
    j->met = np_calloc(h->ctx, NEAP_MEM_GRAPH, j->n);
    j->next = np_calloc(h->ctx, NEAP_MEM_GRAPH, j->n * sizeof *j->next);
    return j->seen && j->go && j->met && j->next;
}

static bool jumps(const np_pte_method *m)
{
    for (uint32_t c = 0; c < m->n_chains; c++)
        for (uint32_t i = 0; i < m->chains[c].n; i++)
            if (m->chains[c].instructions[i].kind == NP_PTE_JUMP_FALSE)
                return true;
    return false;
}

/* What is in a method's counts once, whichever way it goes: the most. */
static neap_status go_one_way(neap_handle *h, np_dry_run *r, np_method_start *start, void *user)
{
    const int64_t steps = r->steps, evaluations = r->evaluations;
    if (r->jumps)
        memset(r->jumps->met, 0, r->jumps->n);
    r->steps = r->evaluations = 0;
    neap_status status = start(user);
    if (status == NEAP_OK)
        status = np_method_run(h, r);
    r->steps = r->steps > steps ? r->steps : steps;
    r->evaluations = r->evaluations > evaluations ? r->evaluations : evaluations;
    return status;
}

neap_status np_method_dry_run(neap_handle *h, np_dry_run *r, np_method_start *start, void *user)
{
    np_dry_jumps j;
    if (!jumps(h->method))
        return go_one_way(h, r, start, user);
    neap_status status = make_jumps(h, &j) ? NEAP_OK : NEAP_ENOMEM;
    r->jumps = &j;
    if (status == NEAP_OK)
        status = go_one_way(h, r, start, user);
    while (status == NEAP_OK && j.n_next > 0) { /* the last one met first: it lies behind the others */
        j.go[j.next[--j.n_next]] = WAY_FALSE;
        np_dry_next(r, h->ctx);
        status = go_one_way(h, r, start, user);
    }
    j.alternate = true;
    for (int way = WAY_TRUE; status == NEAP_OK && j.looped && way <= WAY_FALSE; way++) {
        memset(j.go, way, j.n);
        np_dry_next(r, h->ctx);
        status = go_one_way(h, r, start, user);
    }
    r->jumps = NULL;
    free_jumps(h->ctx, &j);
    return status;
}
