/* builder.h - workspace between a graph and a plan: growing tables that np_plan_build packs into
 * one block (pack.c). */
#ifndef NP_BUILDER_H
#define NP_BUILDER_H

#include "plan/plan.h"

enum { NP_MAX_SCRATCH_INPUTS = 16 };

/* A copy before a later write of a state, a node's own step, a copy for a root. */
typedef enum np_phase { NP_BEFORE, NP_RUN, NP_AFTER } np_phase;

typedef struct np_todo {
    uint32_t entry, root; /* root: of a copy for it, else NP_NONE */
    np_phase phase;
    uint64_t key; /* program order */
} np_todo;

typedef struct np_edge {
    uint32_t from, to; /* tasks */
    bool reads;        /* else it only comes after */
} np_edge;

/* Where a task's value lies in the array that another one joins; into NP_NONE: by itself. */
typedef struct np_join {
    uint32_t into;
    uint64_t offset; /* bytes */
} np_join;

typedef struct np_raw_step {
    const np_op *op; /* of the last member, where there are several */
    neap_array *array;
    bool copy;
    uint32_t first_input, n_in, out, block, scratch;
    uint32_t group; /* of the plan's groups, or NP_NONE */
    float seconds;  /* predicted, when the plan is packed */
} np_raw_step;

/* Tasks that are made one step, and the order of steps. */
typedef struct np_fusion {
    uint32_t n_groups, n_tasks;
    uint32_t *group;        /* by task */
    uint32_t *first, *task; /* by group (CSR): its tasks in the order in which they run */
    uint32_t *order;        /* of groups */
    uint8_t *axes;          /* by group: how many, 0 of several tasks: a product and its epilogue; heavy:
                               see np_group_shape */
    bool *heavy;
    uint8_t *lacks; /* by task: bit j: axis j of its group is none of its result's */
    int64_t block_rows, block_bytes; /* of groups that stream rows; see np_way */
} np_fusion;

typedef struct np_builder {
    neap_context *ctx;
    np_graph *g;
    np_todo *tasks;
    np_edge *edges;
    uint32_t *out_first, *in_first, *out, *in; /* edges by task (CSR), in one block */
    size_t edge_bytes;
    np_join *join; /* by task */
    size_t join_bytes;
    const np_fusion *fusion; /* that is being emitted */
    uint32_t *writes; /* entries of effects, in program order */
    np_plan_operand *operands;
    np_moving *moving;
    neap_array **values;
    neap_state **states;
    uint32_t *value_entry, *state_entry;
    np_block *blocks;
    uint32_t *inputs; /* operand indices of all steps */
    np_raw_step *steps;
    np_group *groups;
    np_member *members;
    np_member_rows *rows; /* of those that have some */
    neap_array **member_array; /* whose attributes they are */
    np_cut *slots;
    np_slot_window *windows;
    np_chain_op *chain_ops;
    np_chain_source *chain_places;
    size_t n_tasks, tasks_capacity, n_edges, edges_capacity, n_writes, writes_capacity,
        operands_capacity, moving_capacity, values_capacity, states_capacity, value_entry_capacity,
        state_entry_capacity, blocks_capacity, inputs_capacity, steps_capacity, groups_capacity,
        members_capacity, rows_capacity, member_array_capacity, slots_capacity, chain_ops_capacity,
        chain_places_capacity, windows_capacity;
    uint32_t n_operands, n_moving, n_values, n_states, n_blocks, n_inputs, n_steps, n_outputs, n_groups,
        n_members, n_rows, n_slots, n_chain_ops, n_chain_places, n_windows;
    int64_t copies;
    np_work place_work, step_work, tile_work; /* of placing; of tables by step; of one group */
    /* by entry */
    bool *copied;           /* a state read that is copied before a later write */
    uint32_t *copy_operand; /* that copy */
    uint32_t *direct;       /* root that the step writes itself, or NP_NONE */
    uint32_t *source;       /* index of a value */
    uint32_t *made_by, *copied_by; /* tasks */
    /* by root, by output */
    uint32_t *output_of_root, *output_root, *output_made; /* made: the first step that writes it */
    uint64_t *output_bytes;
} np_builder;

static inline bool np_builder_grow(np_builder *b, void *table, size_t *capacity, size_t n, size_t size)
{
    return np_workspace_grow(b->ctx, table, capacity, n, size);
}

/* ---- tasks.c ------------------------------------------------------------------------------------ */

bool np_tasks_find(np_builder *b);
neap_array *const *np_task_inputs(const np_builder *b, const np_todo *t, uint32_t *n);
const np_op *np_task_op(const np_builder *b, const np_todo *t);
/* Does the task read a copy of what `in` sees of a state? */
bool np_task_reads_copy(const np_builder *b, const np_todo *t, uint32_t i, const neap_array *in);
/* The task that makes what input i of t lies in; NP_NONE: a value or a state. */
uint32_t np_task_maker(const np_builder *b, const np_todo *t, uint32_t i, const neap_array *in);

/* ---- build.c ------------------------------------------------------------------------------------ */

bool np_builder_start(np_builder *b);
/* Steps for the groups, in their order; what an earlier call made is dropped. */
bool np_builder_emit(np_builder *b, const np_fusion *fusion);
/* Gives back what steps take: another builder works now. The next emission takes it anew. */
void np_builder_forget_steps(np_builder *b);
void np_builder_free(np_builder *b);
/* Takes blocks out of the arena that can lie in a result's own. */
bool np_host(np_builder *b);

/* ---- pack.c ------------------------------------------------------------------------------------- */

/* Bytes of the arena alive at each step (n_steps + 1 numbers). */
void np_find_live(const np_builder *b, int64_t *live);
/* The largest of them, where, and the scratch there. */
bool np_find_peak(np_builder *b, neap_plan_info *info);
/* The tables as a plan in one block; NULL: no memory. */
neap_plan *np_pack(np_builder *b, bool object, int64_t merged);

#endif
