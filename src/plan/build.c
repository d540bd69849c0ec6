/* build.c - steps, operands and blocks, in the order of a fusion. */
#include <string.h>

#include "ops/op_table.h"
#include "plan/emit.h"

/* ---- operands
 * ------------------------------------------------------------------------------------ */

/* What parameters set of the operand made last. NULL: no memory. */
static np_moving *moving(np_builder *b)
{
    const uint32_t operand = b->n_operands - 1;
    if (b->n_moving && b->moving[b->n_moving - 1].operand == operand)
        return &b->moving[b->n_moving - 1];
    if (!np_builder_grow(b, &b->moving, &b->moving_capacity, b->n_moving + 1, sizeof *b->moving))
        return NULL;
    b->moving[b->n_moving] = (np_moving){.operand = operand};
    return &b->moving[b->n_moving++];
}

bool np_emit_operand(np_builder *b, const neap_array *a, np_place_kind kind, uint32_t source,
                     uint64_t storage_bytes, uint32_t *out)
{
    if (!np_builder_grow(b, &b->operands, &b->operands_capacity, b->n_operands + 1,
                 sizeof *b->operands))
        return false;
    np_plan_operand *o = &b->operands[b->n_operands];
    *out = b->n_operands++;
    memset(o, 0, sizeof *o);
    o->operand.dtype = a->dtype;
    o->operand.rank = a->rank;
    o->operand.packed = a->packed;
    memcpy(o->operand.shape, a->shape, sizeof a->shape);
    memcpy(o->operand.strides, a->strides, sizeof a->strides);
    o->kind = (uint8_t)kind;
    o->source = source;
    o->storage_bytes = storage_bytes;
    if (!a->extent)
        return true;
    np_moving *m = moving(b);
    if (!m)
        return false;
    m->extent = a->extent;
    m->dim = a->dynamic_dim;
    m->capacity = a->shape[a->dynamic_dim];
    return true;
}

static bool value_source(np_builder *b, uint32_t entry, uint32_t *out)
{
    if (b->source[entry] == NP_NONE) {
        if (!np_builder_grow(b, &b->values, &b->values_capacity, b->n_values + 1,
                     sizeof *b->values) ||
            !np_builder_grow(b, &b->value_entry, &b->value_entry_capacity, b->n_values + 1, sizeof *b->value_entry))
            return false;
        b->values[b->n_values] = b->g->entries[entry].array;
        b->value_entry[b->n_values] = entry;
        b->source[entry] = b->n_values++;
    }
    *out = b->source[entry];
    return true;
}

static bool state_source(np_builder *b, uint32_t entry, uint32_t *out)
{
    neap_state *s = b->g->entries[entry].array->state;
    for (uint32_t i = 0; i < b->n_states; i++) {
        if (b->states[i] == s) {
            *out = i;
            return true;
        }
    }
    if (!np_builder_grow(b, &b->states, &b->states_capacity, b->n_states + 1,
                 sizeof *b->states) ||
        !np_builder_grow(b, &b->state_entry, &b->state_entry_capacity, b->n_states + 1,
                 sizeof *b->state_entry))
        return false;
    *out = b->n_states;
    b->state_entry[b->n_states] = entry;
    b->states[b->n_states++] = s;
    return true;
}

/* The operand for canonical entry e as an input; made at its first use. */
static bool input_operand(np_builder *b, uint32_t e, uint32_t *out)
{
    np_entry *entry = &b->g->entries[e];
    if (entry->operand != NP_NONE) {
        *out = entry->operand;
        return true;
    }
    neap_array *a = entry->array, *s = np_storage(a);
    uint32_t se = np_canonical(b->g, s), source;
    np_place_kind kind;
    uint64_t bytes;
    int64_t start = 0; /* of what the node made: a part of what is joined begins later */
    if (s->buffer) {
        kind = NP_IN_VALUE;
        bytes = s->buffer->bytes;
        if (!value_source(b, se, &source))
            return false;
    } else if (s->op->flags & NP_OP_STATE_READ) {
        kind = NP_IN_STATE;
        bytes = neap_state_bytes(s->state);
        if (!state_source(b, se, &source))
            return false;
    } else { /* a node's result: its step came before */
        const np_plan_operand *made = &b->operands[b->g->entries[se].operand];
        kind = (np_place_kind)made->kind;
        source = made->source;
        bytes = made->storage_bytes;
        start = made->offset;
    }
    if (!np_emit_operand(b, a, kind, source, bytes, &entry->operand))
        return false;
    np_plan_operand *o = &b->operands[entry->operand];
    int64_t size =
        np_is_quantised((neap_dtype)a->dtype) ? 0 : np_element_bytes((neap_dtype)a->dtype);
    o->offset = start + a->offset * size;
    *out = entry->operand;
    if (!a->shift)
        return true;
    np_moving *m = moving(b);
    if (!m)
        return false;
    o->shifted = true;
    m->shift = a->shift;
    m->shift_bytes = a->shift_scale * size;
    return true;
}

/* ---- steps
 * --------------------------------------------------------------------------------------- */

bool np_emit_block(np_builder *b, uint64_t bytes, bool scratch, uint32_t *out)
{
    if (!np_builder_grow(b, &b->blocks, &b->blocks_capacity, b->n_blocks + 1,
                 sizeof *b->blocks))
        return false;
    uint32_t i = b->n_blocks++;
    b->blocks[i] = (np_block){.bytes = (bytes + 63) & ~(uint64_t)63,
                              .first = b->n_steps,
                              .last = b->n_steps,
                              .owner = i,
                              .scratch = scratch};
    *out = i;
    return true;
}

bool np_emit_result(np_builder *b, const neap_array *a, uint32_t root, uint32_t *operand,
                    uint32_t *block)
{
    uint64_t bytes = neap_array_bytes(a);
    *block = NP_NONE;
    if (root != NP_NONE) {
        b->output_of_root[root] = b->n_outputs;
        b->output_bytes[b->n_outputs] = bytes;
        b->output_root[b->n_outputs] = root;
        b->output_made[b->n_outputs] = b->n_steps;
        return np_emit_operand(b, a, NP_IN_OUTPUT, b->n_outputs++, bytes, operand);
    }
    if (!np_emit_block(b, bytes, false, block))
        return false;
    if (!np_emit_operand(b, a, NP_IN_ARENA, *block, bytes, operand))
        return false;
    /* A copy of a view starts a storage of its own, row-major. */
    np_row_major(a->rank, a->shape, b->operands[*operand].operand.strides);
    return true;
}

bool np_emit_input(np_builder *b, const np_todo *t, uint32_t i, const neap_array *in, uint32_t *operand)
{
    uint32_t e = np_canonical(b->g, in);
    if (np_task_reads_copy(b, t, i, in))
        *operand = b->copy_operand[e];
    else if (!input_operand(b, e, operand))
        return false;
    const np_plan_operand *o = &b->operands[*operand];
    if (o->kind == NP_IN_ARENA)
        b->blocks[o->source].last = b->n_steps;
    return true;
}

static bool add_inputs(np_builder *b, np_raw_step *s, const np_todo *t)
{
    neap_array *const *in = np_task_inputs(b, t, &s->n_in);
    s->first_input = b->n_inputs;
    if (!np_builder_grow(b, &b->inputs, &b->inputs_capacity, b->n_inputs + s->n_in,
                 sizeof *b->inputs))
        return false;
    for (uint32_t i = 0; i < s->n_in; i++)
        if (!np_emit_input(b, t, i, in[i], &b->inputs[b->n_inputs++]))
            return false;
    return true;
}

static bool add_scratch(np_builder *b, np_raw_step *s)
{
    s->scratch = NP_NONE;
    if (!s->op->scratch)
        return true;
    const np_operand *in[NP_MAX_SCRATCH_INPUTS];
    for (uint32_t i = 0; i < s->n_in && i < NP_MAX_SCRATCH_INPUTS; i++)
        in[i] = &b->operands[b->inputs[s->first_input + i]].operand;
    np_call call = {.ctx = b->ctx, .pool = b->ctx->pool,
                    .op = s->op,
                    .attr = s->array->attr,
                    .n_in = s->n_in,
                    .in = in,
                    .out = &b->operands[s->out].operand};
    size_t bytes = s->op->scratch(&call);
    return bytes == 0 || np_emit_block(b, bytes, true, &s->scratch);
}

bool np_emit_step(np_builder *b, const np_raw_step *s)
{
    if (!np_builder_grow(b, &b->steps, &b->steps_capacity, b->n_steps + 1,
                 sizeof *b->steps))
        return false;
    b->steps[b->n_steps++] = *s;
    return true;
}

/* The result of a node's own step: in what it is joined to, begun by a part of it, or by itself. */
static bool emit_own_result(np_builder *b, const np_todo *t, uint32_t *operand, uint32_t *block)
{
    np_entry *entry = &b->g->entries[t->entry];
    *block = NP_NONE;
    if (np_joins(b, t))
        return np_emit_part(b, t, operand);
    if (entry->operand == NP_NONE)
        return np_emit_result(b, entry->array, b->direct[t->entry], operand, block);
    *operand = entry->operand;
    const np_plan_operand *o = &b->operands[*operand];
    if (o->kind == NP_IN_ARENA) {
        *block = o->source;
        b->blocks[o->source].last = b->n_steps;
    }
    return true;
}

static bool build_run(np_builder *b, const np_todo *t)
{
    np_entry *entry = &b->g->entries[t->entry];
    neap_array *a = entry->array;
    np_raw_step s = {.op = a->op, .array = a, .group = NP_NONE};
    if (!add_inputs(b, &s, t) || !emit_own_result(b, t, &s.out, &s.block))
        return false;
    entry->operand = s.out;
    if (a->op->flags & NP_OP_EFFECT) {
        uint32_t i;
        if (!state_source(b, t->entry, &i))
            return false;
    }
    return add_scratch(b, &s) && np_emit_step(b, &s);
}

static bool build_copy(np_builder *b, const np_todo *t)
{
    neap_array *a = b->g->entries[t->entry].array;
    np_raw_step s = {.op = &np_op_contiguous, .array = a, .copy = true, .group = NP_NONE};
    if (!add_inputs(b, &s, t) || !np_emit_result(b, a, t->root, &s.out, &s.block))
        return false;
    if (t->root == NP_NONE)
        b->copy_operand[t->entry] = s.out;
    else
        np_row_major(a->rank, a->shape, b->operands[s.out].operand.strides);
    b->copies++;
    return add_scratch(b, &s) && np_emit_step(b, &s);
}

/* ---- all of it --------------------------------------------------------------------------------- */

/* Tables by entry and by root, in one block each. */
static bool take_tables(np_builder *b)
{
    size_t n = b->g->n ? b->g->n : 1, r = b->g->n_roots ? (size_t)b->g->n_roots : 1;
    neap_context *c = b->ctx;
    b->direct = np_workspace_take(c, n * (5 * sizeof(uint32_t) + sizeof(bool)));
    b->output_bytes = np_workspace_take(c, r * (sizeof(uint64_t) + 3 * sizeof(uint32_t)));
    if (!b->direct || !b->output_bytes)
        return false;
    b->source = b->direct + n;
    b->copy_operand = b->source + n;
    b->made_by = b->copy_operand + n;
    b->copied_by = b->made_by + n;
    b->copied = (bool *)(b->copied_by + n);
    b->output_of_root = (uint32_t *)(b->output_bytes + r);
    b->output_root = b->output_of_root + r;
    b->output_made = b->output_root + r;
    memset(b->direct, 0xff, n * 5 * sizeof(uint32_t));
    memset(b->copied, 0, n * sizeof *b->copied);
    return true;
}

bool np_builder_start(np_builder *b)
{
    b->place_work.ctx = b->step_work.ctx = b->tile_work.ctx = b->ctx;
    return take_tables(b) && np_tasks_find(b) && np_find_joins(b);
}

static void drop_steps(np_builder *b)
{
    size_t n = b->g->n, r = (size_t)b->g->n_roots;
    b->n_operands = b->n_moving = b->n_values = b->n_states = b->n_blocks = b->n_inputs = b->n_steps = 0;
    b->n_outputs = b->n_groups = b->n_members = b->n_rows = b->n_slots = b->n_chain_ops = b->n_chain_places = 0;
    b->n_windows = 0;
    b->copies = 0;
    for (size_t e = 0; e < n; e++)
        b->g->entries[e].operand = NP_NONE;
    memset(b->source, 0xff, 2 * n * sizeof *b->source); /* and copy_operand */
    memset(b->output_of_root, 0xff, r * sizeof *b->output_of_root);
}

bool np_builder_emit(np_builder *b, const np_fusion *fusion)
{
    drop_steps(b);
    b->fusion = fusion;
    for (uint32_t i = 0; i < fusion->n_groups; i++) {
        uint32_t g = fusion->order[i];
        const np_todo *t = &b->tasks[fusion->task[fusion->first[g]]];
        bool several = fusion->first[g + 1] - fusion->first[g] > 1;
        bool ok = several && fusion->axes[g] == 0             ? np_emit_epilogue(b, fusion, g)
                  : several                                   ? np_emit_group(b, fusion, g)
                  : t->phase == NP_RUN                        ? build_run(b, t)
                                                              : build_copy(b, t);
        if (!ok)
            return false;
    }
    np_take_over(b);
    b->fusion = NULL;
    return true;
}

#define FREE(field) \
    (np_workspace_free(b->ctx, b->field, b->field##_capacity * sizeof *b->field), \
     b->field = NULL, b->field##_capacity = 0)

void np_builder_forget_steps(np_builder *b)
{
    np_work_free(&b->place_work);
    np_work_free(&b->step_work);
    np_work_free(&b->tile_work);
    FREE(operands);
    FREE(moving);
    FREE(values);
    FREE(states);
    FREE(value_entry);
    FREE(state_entry);
    FREE(blocks);
    FREE(inputs);
    FREE(steps);
    FREE(groups);
    FREE(members);
    FREE(rows);
    FREE(member_array);
    FREE(slots);
    FREE(windows);
    FREE(chain_ops);
    FREE(chain_places);
}

void np_builder_free(np_builder *b)
{
    size_t n = b->g->n ? b->g->n : 1, r = b->g->n_roots ? (size_t)b->g->n_roots : 1;
    neap_context *c = b->ctx;
    np_builder_forget_steps(b);
    FREE(tasks);
    FREE(edges);
    FREE(writes);
    np_workspace_free(c, b->out_first, b->edge_bytes);
    np_workspace_free(c, b->join, b->join_bytes);
    np_workspace_free(c, b->direct, n * (5 * sizeof(uint32_t) + sizeof(bool)));
    np_workspace_free(c, b->output_bytes, r * (sizeof(uint64_t) + 3 * sizeof(uint32_t)));
}
#undef FREE
