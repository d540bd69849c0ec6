/* graph.h - the delegate's program (MLXGraph) as the loader leaves it: chains of checked nodes, slots
 * and what is known of their tensors.
 *
 * One tensor number space: constants | inputs | outputs | mutable buffers | temporaries. Values
 * (integers) have their own. */
#ifndef NP_PROGRAM_GRAPH_H
#define NP_PROGRAM_GRAPH_H

#include "base/context.h"
#include "base/reader.h"
#include "neap/array.h"
#include "program/node.h"

typedef struct np_chain {
    uint32_t n;
    const np_instruction *nodes; /* null instructions are left out */
} np_chain;

/* An input or output of the delegate: a tensor's number, or that of an integer value. */
typedef struct np_port {
    uint32_t number;
    bool is_value;
} np_port;

typedef struct np_tensor_meta {
    neap_dtype dtype;
    int rank;
    int64_t shape[NEAP_MAX_RANK]; /* -1: set at run time */
    const char *name; /* of a constant: its key in the named data; else the slot's name or NULL */
} np_tensor_meta;

typedef struct np_mlx_graph {
    neap_context *ctx;
    uint32_t n_constants, n_inputs, n_outputs, n_buffers, n_temps; /* in this order */
    uint32_t n_tensors, n_values;
    uint32_t n_chains, main_chain;
    int64_t init_chain; /* -1: none */
    const np_chain *chains;
    uint32_t n_input_slots, n_output_slots;
    const np_port *input_slots, *output_slots; /* input_map, output_map */
    const np_tensor_meta *meta;                /* of every tensor but temporaries */
    void *blocks;                              /* the loader's memory */
} np_mlx_graph;

/* Fixed limits of a program: of tensors and of values, of chains within chains, and of instructions
 * when every branch is counted once for every place that leads there. */
enum { NP_MOST_SLOTS = 1000000, NP_MOST_CHAIN_DEPTH = 64, NP_MOST_STEPS = 1000000 };
/* Of instructions in one run, where scans go step by step: their number comes with the inputs. */
enum { NP_MOST_WALKED = 16 * NP_MOST_STEPS };

/* Reads the delegate's payload (with its "MLX0" header). Everything is copied: the bytes may go.
 * Refuses, naming the thing, its place and the limit: a newer schema (NEAP_EUNSUPPORTED), an unknown
 * node type or dtype (NEAP_EUNSUPPORTED), an offset, count or number out of range, a chain that
 * reaches itself, a constant without a name or written outside the init chain (NEAP_EFORMAT), more
 * than the limits above (NEAP_EUNSUPPORTED). */
neap_status np_mlx_graph_load(neap_context *ctx, np_bytes payload, np_mlx_graph **out);
void np_mlx_graph_free(np_mlx_graph *graph);

/* The chains that a node may run: 0, 1 or 2. */
uint32_t np_node_chains(const np_instruction *node, uint32_t out[2]);

static inline uint32_t np_first_input(const np_mlx_graph *g)
{
    return g->n_constants;
}
static inline uint32_t np_first_output(const np_mlx_graph *g)
{
    return g->n_constants + g->n_inputs;
}
static inline uint32_t np_first_buffer(const np_mlx_graph *g)
{
    return np_first_output(g) + g->n_outputs;
}
static inline uint32_t np_first_temp(const np_mlx_graph *g)
{
    return np_first_buffer(g) + g->n_buffers;
}

#endif
