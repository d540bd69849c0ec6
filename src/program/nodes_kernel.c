/* nodes_kernel.c - MetalKernelNode: the kernel's name decides; its source text is not looked at. */
#include <stdio.h>
#include <string.h>

#include "formats/pte.h"
#include "ops/support.h"
#include "program/walk.h"
#include "neap/ops.h"

typedef const np_node_metal_kernel kernel_node;

/* ---- inputs, outputs ----------------------------------------------------------------------------------- */

/* By its name in the source, else by position. NULL without an error: there is none. */
static neap_array *input(np_walk *w, kernel_node *n, const char *name, uint32_t position)
{
    for (uint32_t i = 0; i < n->input_names.n && i < n->inputs.n; i++)
        if (strcmp(n->input_names.at[i], name) == 0)
            return np_get(w, n->inputs.at[i]);
    return position < n->inputs.n ? np_get(w, n->inputs.at[position]) : NULL;
}

static bool counts(np_walk *w, kernel_node *n, uint32_t least, uint32_t most, uint32_t outputs)
{
    if (n->inputs.n >= least && n->inputs.n <= most && n->outputs.n == outputs)
        return true;
    return np_node_fail(w, NEAP_EFORMAT, "%s: %u inputs and %u outputs, expected %u to %u and %u",
                        n->name, n->inputs.n, n->outputs.n, least, most, outputs);
}

static bool output_dtype(np_walk *w, kernel_node *n, uint32_t i, neap_dtype *out)
{
    if (i < n->output_dtypes.n && np_pte_dtype(n->output_dtypes.at[i], out))
        return true;
    return np_node_fail(w, NEAP_EFORMAT, "%s: output %u has no known dtype", n->name, i);
}

/* The i-th output in the shape and dtype that the node declares. */
static bool put(np_walk *w, kernel_node *n, uint32_t i, neap_array *a)
{
    int64_t shape[NEAP_MAX_RANK];
    uint32_t first = 0;
    neap_dtype dtype;
    if (!a || !output_dtype(w, n, i, &dtype))
        return false;
    for (uint32_t k = 0; k < i && k < n->output_shape_lengths.n; k++)
        first += n->output_shape_lengths.at[k] > 0 ? (uint32_t)n->output_shape_lengths.at[k] : 0;
    int rank = i < n->output_shape_lengths.n ? n->output_shape_lengths.at[i] : -1;
    if (rank < 0 || rank > NEAP_MAX_RANK || first + (uint32_t)rank > n->output_shapes_flat.n)
        return np_node_fail(w, NEAP_EFORMAT, "%s: output %u has no shape", n->name, i);
    np_ints dims = {(uint32_t)rank, n->output_shapes_flat.at + first};
    return np_get_ints(w, &dims, shape, rank) &&
           np_put(w, n->outputs.at[i], neap_cast(neap_reshape(a, rank, shape), dtype));
}

/* ---- kernels ---------------------------------------------------------------------------------------------- */

static bool vadd(np_walk *w, kernel_node *n)
{
    return counts(w, n, 2, 2, 1) &&
           put(w, n, 0, neap_add(np_get(w, n->inputs.at[0]), np_get(w, n->inputs.at[1])));
}

static bool tq_norm(np_walk *w, kernel_node *n)
{
    neap_dtype dtype;
    return counts(w, n, 1, 2, 1) && output_dtype(w, n, 0, &dtype) &&
           put(w, n, 0, neap_tq_norm(np_get(w, n->inputs.at[0]), dtype));
}

static bool tq4_compress(np_walk *w, kernel_node *n)
{
    if (!counts(w, n, 2, 3, 1))
        return false;
    neap_array *values = np_get(w, n->inputs.at[0]);
    return put(w, n, 0, neap_tq4_compress(values, np_get(w, n->inputs.at[1])));
}

static bool tq_dequant(np_walk *w, kernel_node *n)
{
    neap_dtype dtype;
    if (!counts(w, n, 3, 4, 1) || !output_dtype(w, n, 0, &dtype))
        return false;
    neap_array *packed = input(w, n, "packed", 0), *norms = input(w, n, "norms", 1);
    return put(w, n, 0, neap_tq_dequant(packed, norms, input(w, n, "centroids", 2), dtype));
}

static bool gated_delta_step(np_walk *w, kernel_node *n)
{
    neap_array *y = NULL, *state = NULL;
    if (!counts(w, n, 6, 7, 2))
        return false;
    neap_array *q = input(w, n, "q", 0), *k = input(w, n, "k", 1), *v = input(w, n, "v", 2);
    neap_array *g = input(w, n, "g", 3), *beta = input(w, n, "beta", 4);
    (void)np_gated_delta_step(q, k, v, g, beta, input(w, n, "state_in", 5), &y, &state);
    return put(w, n, 0, y) && put(w, n, 1, state);
}

/* gguf_<type>_<use>: q4k, q6k, q8_0 …; matvec, matmul, embedding. */
static bool gguf_type(const char *name, neap_dtype *type, const char **use)
{
    static const struct {
        const char *name;
        neap_dtype type;
    } types[] = {
        {"q2k_",  NEAP_Q2_K}, {"q3k_",  NEAP_Q3_K}, {"q4k_",  NEAP_Q4_K}, {"q5k_",  NEAP_Q5_K},
        {"q6k_",  NEAP_Q6_K}, {"q4_0_", NEAP_Q4_0}, {"q4_1_", NEAP_Q4_1}, {"q5_0_", NEAP_Q5_0},
        {"q5_1_", NEAP_Q5_1}, {"q8_0_", NEAP_Q8_0},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t length = strlen(types[i].name);
        if (strncmp(name, types[i].name, length) == 0) {
            *type = types[i].type;
            *use = name + length;
            return true;
        }
    }
    return false;
}

static bool gguf(np_walk *w, kernel_node *n)
{
    neap_dtype type, dtype;
    const char *use;
    if (!gguf_type(n->name + strlen("gguf_"), &type, &use))
        return np_node_fail(w, NEAP_EUNSUPPORTED, "kernel %.60s: no such GGUF type", n->name);
    bool embedding = strcmp(use, "embedding") == 0;
    if (!embedding && strcmp(use, "matvec") != 0 && strcmp(use, "matmul") != 0)
        return np_node_fail(w, NEAP_EUNSUPPORTED, "kernel %.60s: there are matvec, matmul, embedding",
                            n->name);
    if (!counts(w, n, 2, embedding ? 2 : 3, 1) || !output_dtype(w, n, 0, &dtype))
        return false;
    if (embedding) {
        neap_array *indices = input(w, n, "indices", 0);
        return put(w, n, 0, neap_embedding_decoded(indices, input(w, n, "weight", 1), type, dtype));
    }
    neap_array *x = input(w, n, "x", 0), *weight = input(w, n, "weight", 1);
    if (n->inputs.n == 2)
        return put(w, n, 0, neap_linear_decoded(x, weight, type, dtype));
    neap_array *y = neap_linear_decoded(x, weight, type, NEAP_F32); /* one rounding, after the bias */
    return put(w, n, 0, neap_add(y, neap_cast(input(w, n, "bias", 2), NEAP_F32)));
}

static const struct {
    const char *name;
    bool (*build)(np_walk *w, kernel_node *n);
} kernels[] = {
    {"vadd", vadd},
    {"tq_norm", tq_norm},
    {"tq4_compress", tq4_compress},
    {"tq_dequant", tq_dequant},
    {"gated_delta_step", gated_delta_step},
};

/* NULL: there is no such kernel. */
static bool (*builder_of(const char *name))(np_walk *w, kernel_node *n)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(name, kernels[i].name) == 0)
            return kernels[i].build;
    return strncmp(name, "gguf_", 5) == 0 ? gguf : NULL;
}

neap_status np_kernels_check(neap_context *ctx, const np_mlx_graph *g)
{
    for (uint32_t c = 0; c < g->n_chains; c++) {
        for (uint32_t i = 0; i < g->chains[c].n; i++) {
            const np_instruction *node = &g->chains[c].nodes[i];
            const kernel_node *n = node->fields;
            if (node->number == NP_NODE_metal_kernel && !builder_of(n->name))
                return np_fail(ctx, NEAP_EUNSUPPORTED, "chain %u, instruction %u: kernel %.80s; "
                               "there are vadd, tq_norm, tq4_compress, tq_dequant, "
                               "gated_delta_step and gguf_*", c, i, n->name);
        }
    }
    return NEAP_OK;
}

NP_BUILD(metal_kernel)
{
    return builder_of(n->name)(w, n);
}
