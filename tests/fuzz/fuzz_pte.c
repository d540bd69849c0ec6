/* fuzz_pte.c - any bytes as a .pte file, with themselves as its .ptd: an error, or a program whose
 * every byte, value and node can be read. */
#include <stdlib.h>

#include "formats/pte.h"
#include "program/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void touch(np_bytes b)
{
    for (uint64_t i = 0; i < b.n; i++)
        sink += b.p[i];
}

static void touch_graph(const np_pte *pte, const np_mlx_graph *g)
{
    for (uint32_t i = 0; i < np_first_temp(g); i++) {
        np_bytes b;
        if (g->meta[i].name && np_pte_named_data(pte, g->meta[i].name, &b))
            touch(b);
        if (g->meta[i].rank > NEAP_MAX_RANK || !neap_dtype_describe(g->meta[i].dtype)->name)
            abort();
    }
    for (uint32_t c = 0; c < g->n_chains; c++)
        for (uint32_t i = 0; i < g->chains[c].n; i++)
            touch((np_bytes){g->chains[c].nodes[i].fields,
                             np_node_type_of(g->chains[c].nodes[i].number)->bytes});
}

static void touch_method(neap_context *ctx, const np_pte *pte, const np_pte_method *m)
{
    for (uint32_t i = 0; i < m->n_values; i++) {
        np_bytes b;
        if (m->values[i].kind != NP_PTE_TENSOR)
            continue;
        touch(m->values[i].tensor.start);
        if (m->values[i].tensor.data && np_pte_constant(pte, m->values[i].tensor.data, &b))
            touch(b);
    }
    for (uint32_t d = 0; d < m->n_delegates; d++) {
        np_mlx_graph *g;
        if (np_mlx_graph_load(ctx, m->delegates[d].payload, &g) == NEAP_OK)
            touch_graph(pte, g);
        np_mlx_graph_free(g);
        neap_context_clear_error(ctx);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 64 << 20;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        abort();
    np_pte *pte;
    if (np_pte_open_memory(ctx, data, size, &pte) == NEAP_OK) {
        np_pte_attach_memory(pte, data, size);
        neap_context_clear_error(ctx);
        for (uint32_t m = 0; m < pte->n_methods; m++)
            touch_method(ctx, pte, pte->methods + m);
        np_pte_close(pte);
    } else if (size >= 8 && data[4] == 'F') { /* a .ptd on its own: to a program that is sound */
        static const uint8_t program[] = {16, 0, 0, 0, 'E', 'T', '1', '2', 0, 0,
                                          0,  0, 4, 0, 4,   0,   4,   0,   0, 0};
        neap_context_clear_error(ctx);
        if (np_pte_open_memory(ctx, program, sizeof program, &pte) != NEAP_OK)
            abort();
        np_pte_attach_memory(pte, data, size);
        np_pte_close(pte);
    }
    neap_context_free(ctx);
    return 0;
}
