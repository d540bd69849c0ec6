/* program.c - opening a program and telling what its methods take, give and hold. */
#include "neap/program.h"

#include <stdio.h>
#include <string.h>

#include "base/versioned.h"
#include "program/handle.h"

/* ---- open and close ---------------------------------------------------------------------------------- */

static neap_status wrap(neap_context *ctx, np_pte *pte, neap_program **out)
{
    neap_program *p = np_calloc(ctx, NEAP_MEM_HOST, sizeof *p);
    if (!p) {
        np_pte_close(pte);
        return NEAP_ENOMEM;
    }
    p->ctx = ctx;
    p->pte = pte;
    p->caches.ctx = ctx;
    *out = p;
    return NEAP_OK;
}

static neap_status program_open(neap_context *ctx, const char *path, neap_program **out)
{
    np_pte *pte;
    *out = NULL;
    neap_status status = np_pte_open(ctx, path, &pte);
    if (status == NEAP_OK)
        status = wrap(ctx, pte, out);
    if (status != NEAP_OK)
        np_fail_prefix(ctx, "%s", path);
    return status;
}

neap_status neap_program_open(neap_context *ctx, const char *path, neap_program **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, path && out, program_open(ctx, path, out));
}

static neap_status program_open_memory(neap_context *ctx, const void *bytes, uint64_t size,
                                     neap_program **out)
{
    np_pte *pte;
    *out = NULL;
    neap_status status = np_pte_open_memory(ctx, bytes, size, &pte);
    if (status == NEAP_OK)
        status = wrap(ctx, pte, out);
    return status;
}

neap_status neap_program_open_memory(neap_context *ctx, const void *bytes, uint64_t size,
                                     neap_program **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, (bytes || size == 0) && out, program_open_memory(ctx, bytes, size, out));
}

static neap_status program_attach(neap_program *p, const char *path)
{
    neap_status status = np_pte_attach(p->pte, path);
    if (status != NEAP_OK)
        np_fail_prefix(p->ctx, "%s", path);
    return status;
}

neap_status neap_program_attach(neap_program *p, const char *path)
{
    return NP_CALL_ON(p, path, program_attach(p, path));
}

void neap_program_close(neap_program *p)
{
    if (!p)
        return;
    np_cache_registry_free(&p->caches);
    np_pte_close(p->pte);
    np_free(p->ctx, NEAP_MEM_HOST, p, sizeof *p);
}

/* ---- methods ------------------------------------------------------------------------------------------ */

int neap_program_methods(const neap_program *p)
{
    return (int)p->pte->n_methods;
}

static const np_pte_method *method_at(const neap_program *p, int m)
{
    return m >= 0 && (uint32_t)m < p->pte->n_methods ? &p->pte->methods[m] : NULL;
}

const char *neap_program_method_name(const neap_program *p, int m)
{
    const np_pte_method *x = method_at(p, m);
    return x ? x->name : NULL;
}

int neap_program_find_method(const neap_program *p, const char *name)
{
    char list[256] = "";
    for (uint32_t m = 0; m < p->pte->n_methods; m++) {
        if (strcmp(p->pte->methods[m].name, name) == 0)
            return (int)m;
        size_t used = strlen(list);
        if (used + strlen(p->pte->methods[m].name) + 3 < sizeof list) {
            if (used)
                memcpy(list + used, ", ", 3), used += 2;
            memcpy(list + used, p->pte->methods[m].name, strlen(p->pte->methods[m].name) + 1);
        }
    }
    (void)NP_CALL_ON(p, name, np_fail(p->ctx, NEAP_EINVAL, "no method %.80s; there are %s", name, list));
    return -1;
}

int neap_program_inputs(const neap_program *p, int m)
{
    const np_pte_method *x = method_at(p, m);
    return x ? (int)x->n_inputs : 0;
}

int neap_program_outputs(const neap_program *p, int m)
{
    const np_pte_method *x = method_at(p, m);
    return x ? (int)x->n_outputs : 0;
}

void np_describe_value(const np_pte_value *v, neap_value *out)
{
    memset(out, 0, sizeof *out);
    switch (v->kind) {
    case NP_PTE_TENSOR:
        out->kind = NEAP_VALUE_TENSOR;
        out->dtype = v->tensor.dtype;
        out->rank = v->tensor.rank;
        memcpy(out->shape, v->tensor.shape, sizeof out->shape);
        out->bounded = v->tensor.dynamism != NP_PTE_STATIC;
        break;
    case NP_PTE_INT:
    case NP_PTE_BOOL:
        out->kind = v->kind == NP_PTE_INT ? NEAP_VALUE_INT : NEAP_VALUE_BOOL;
        out->integer = v->integer;
        break;
    case NP_PTE_DOUBLE:
        out->kind = NEAP_VALUE_DOUBLE;
        out->real = v->real;
        break;
    case NP_PTE_STRING:
        out->kind = NEAP_VALUE_STRING;
        out->text = (const char *)v->string.p;
        out->bytes = v->string.n;
        break;
    default:
        out->kind = NEAP_VALUE_NONE;
    }
}

static neap_status describe(const neap_program *p, int m, int i, bool output, neap_value *out)
{
    const np_pte_method *x = method_at(p, m);
    uint32_t n = !x ? 0 : output ? x->n_outputs : x->n_inputs;
    if (i < 0 || (uint32_t)i >= n)
        return np_fail(p->ctx, NEAP_EINVAL, "method %d has no %s %d", m,
                       output ? "output" : "input", i);
    np_describe_value(&x->values[(output ? x->outputs : x->inputs)[i]], out);
    return NEAP_OK;
}

static neap_status program_input(const neap_program *p, int m, int i, neap_value *out)
{
    return describe(p, m, i, false, out);
}

neap_status neap_program_input(const neap_program *p, int m, int i, neap_value *out)
{
    return NP_CALL_ON(p, out, program_input(p, m, i, out));
}

static neap_status program_output(const neap_program *p, int m, int i, neap_value *out)
{
    return describe(p, m, i, true, out);
}

neap_status neap_program_output(const neap_program *p, int m, int i, neap_value *out)
{
    return NP_CALL_ON(p, out, program_output(p, m, i, out));
}

/* ---- what is in a method -------------------------------------------------------------------------------- */

typedef struct census {
    int64_t nodes[NP_NODE_COUNT];
    neap_method_info info;
} census;

static neap_status count_delegate(const neap_program *p, const np_pte_delegate *d, census *c)
{
    np_mlx_graph *g;
    neap_status status = np_mlx_graph_load(p->ctx, d->payload, &g);
    if (status != NEAP_OK)
        return status;
    c->info.delegates++;
    c->info.chains += g->n_chains;
    c->info.constants += g->n_constants;
    c->info.buffers += g->n_buffers;
    for (uint32_t t = 0; t < np_first_temp(g); t++) {
        int64_t elements;
        uint64_t bytes;
        const np_tensor_meta *m = &g->meta[t];
        if (t >= np_first_input(g) && t < np_first_buffer(g))
            continue;
        np_shape_bytes(m->dtype, m->rank, m->shape, &elements, &bytes);
        *(t < np_first_input(g) ? &c->info.constant_bytes : &c->info.buffer_bytes) += bytes;
    }
    for (uint32_t k = 0; k < g->n_chains; k++) {
        c->info.nodes += g->chains[k].n;
        for (uint32_t i = 0; i < g->chains[k].n; i++)
            c->nodes[g->chains[k].nodes[i].number]++;
    }
    np_mlx_graph_free(g);
    return NEAP_OK;
}

static neap_status count_method(const neap_program *p, int m, census *c)
{
    const np_pte_method *x = method_at(p, m);
    if (!x)
        return np_fail(p->ctx, NEAP_EINVAL, "no method %d, the program has %u", m, p->pte->n_methods);
    for (uint32_t i = 0; i < x->n_delegates; i++) {
        if (strcmp(x->delegates[i].id, "MLXBackend") != 0)
            continue;
        neap_status status = count_delegate(p, &x->delegates[i], c);
        if (status != NEAP_OK)
            return status;
    }
    return NEAP_OK;
}

static int64_t count_operator(const np_pte_method *x, uint32_t op)
{
    int64_t n = 0;
    for (uint32_t c = 0; c < x->n_chains; c++)
        for (uint32_t i = 0; i < x->chains[c].n; i++)
            n += x->chains[c].instructions[i].kind == NP_PTE_KERNEL_CALL &&
                 x->chains[c].instructions[i].index == op;
    return n;
}

static neap_status program_node_types(const neap_program *p, int m,
                                    bool (*visit)(void *user, const neap_program_count *c),
                                    void *user)
{
    census c = {.info = NEAP_METHOD_INFO_INIT};
    neap_status status = count_method(p, m, &c);
    if (status != NEAP_OK)
        return status;
    for (uint32_t n = 1; n < NP_NODE_COUNT; n++) {
        neap_program_count row = {np_node_type_of(n)->name, c.nodes[n], NULL};
        if (row.count > 0 && !visit(user, &row))
            return NEAP_OK;
    }
    const np_pte_method *x = method_at(p, m);
    for (uint32_t i = 0; i < x->n_operators; i++) {
        const np_pte_operator *op = &x->operators[i];
        char name[160];
        snprintf(name, sizeof name, "%s%s%s", op->name, *op->overload ? "." : "", op->overload);
        neap_program_count row = {name, count_operator(x, i),
                                  np_portable_refusal(np_portable_find(op))};
        if (!visit(user, &row))
            return NEAP_OK;
    }
    return NEAP_OK;
}

neap_status neap_program_node_types(const neap_program *p, int m,
                                    bool (*visit)(void *user, const neap_program_count *c),
                                    void *user)
{
    return NP_CALL_ON(p, visit, program_node_types(p, m, visit, user));
}

static neap_status program_method_info(const neap_program *p, int m, neap_method_info *info)
{
    census c = {.info = NEAP_METHOD_INFO_INIT};
    neap_status status = count_method(p, m, &c);
    if (status == NEAP_OK)
        np_tell(info, &c.info, sizeof c.info);
    return status;
}

neap_status neap_program_method_info(const neap_program *p, int m, neap_method_info *info)
{
    return NP_CALL_ON(p, info, program_method_info(p, m, info));
}
