/* builder.h - workspace between a graph and a plan: growing tables that np_plan_build packs into
 * one block (pack.c). */
#ifndef NP_BUILDER_H
#define NP_BUILDER_H

#include "plan/plan.h"

enum { NP_MAX_SCRATCH_INPUTS = 16 };

typedef struct np_item { /* something to do: a node's step, or a copy */
    uint32_t entry, root;
    uint64_t key;
} np_item;

typedef struct np_raw_step {
    const np_op *op;
    neap_array *array;
    bool copy;
    uint32_t first_input, n_in, out, block, scratch;
} np_raw_step;

typedef struct np_builder {
    neap_context *ctx;
    np_graph *g;
    np_item *items;
    uint32_t *writes; /* entries of effects, in program order */
    np_plan_operand *operands;
    neap_array **values;
    neap_state **states;
    uint32_t *value_entry, *state_entry;
    np_block *blocks;
    uint32_t *inputs; /* operand indices of all steps */
    np_raw_step *steps;
    size_t n_items, items_capacity, n_writes, writes_capacity, operands_capacity, values_capacity,
        states_capacity, value_entry_capacity, state_entry_capacity, blocks_capacity,
        inputs_capacity, steps_capacity;
    uint32_t n_operands, n_values, n_states, n_blocks, n_inputs, n_steps, n_outputs;
    int64_t copies;
    /* by entry */
    bool *copied;           /* a state read that is copied before a later write */
    uint32_t *copy_operand; /* that copy */
    uint32_t *direct;       /* root that the step writes itself, or NP_NONE */
    uint32_t *source;       /* index of a value */
    /* by root, by output */
    uint32_t *output_of_root, *output_root;
    uint64_t *output_bytes;
} np_builder;

bool np_builder_run(np_builder *b);
void np_builder_free(np_builder *b);
/* Takes blocks out of the arena that can lie in a result's own. */
bool np_host(np_builder *b);

#endif
