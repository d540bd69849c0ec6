/* build.c - steps, operands and blocks of a gathered graph, in program order.
 *
 * Program order keeps effects right by itself but for one hazard: a read of a state whose user
 * comes after a later write of it. Such a read is copied before that write. A root that is a view,
 * a state or a twin of another root is copied to its own block. */
#include <string.h>

#include "base/heap_sort.h"
#include "ops/op_table.h"
#include "plan/builder.h"

/* ---- the order of things to do ------------------------------------------------------------------
 */

enum { BEFORE, RUN, AFTER };

static bool add_item(np_builder *b, uint32_t entry, uint32_t at, int phase, uint32_t root)
{
    if (!np_grow(b->ctx, NEAP_MEM_GRAPH, &b->items, &b->items_capacity, b->n_items + 1,
                 sizeof *b->items))
        return false;
    b->items[b->n_items++] = (np_item){entry, root, (uint64_t)at * 4 + (uint64_t)phase};
    return true;
}

/* The first write, in program order, that makes the state newer than what `read` saw; NP_NONE. */
static uint32_t first_later_write(const np_builder *b, const neap_array *read)
{
    for (size_t i = 0; i < b->n_writes; i++) {
        const neap_array *w = b->g->entries[b->writes[i]].array;
        if (w->state == read->state && w->version > read->version)
            return b->writes[i];
    }
    return NP_NONE;
}

static bool collect_writes(np_builder *b)
{
    for (uint32_t e = 0; e < b->g->n; e++) {
        const neap_array *a = b->g->entries[e].array;
        if (!np_graph_runs(a) || !(a->op->flags & NP_OP_EFFECT))
            continue;
        if (!np_grow(b->ctx, NEAP_MEM_GRAPH, &b->writes, &b->writes_capacity, b->n_writes + 1,
                     sizeof *b->writes))
            return false;
        b->writes[b->n_writes++] = e;
    }
    return true;
}

/* Copies what `user` (entry index) reads of a state through input `a` if a later write comes first.
 */
static bool guard_read(np_builder *b, uint32_t user, const neap_array *a)
{
    const neap_array *s = np_storage_const(a);
    if (!b->n_writes || !s->op || !(s->op->flags & NP_OP_STATE_READ))
        return true;
    uint32_t w = first_later_write(b, s), e = np_canonical(b->g, a);
    if (w == NP_NONE || w >= user || b->copied[e])
        return true;
    b->copied[e] = true;
    return add_item(b, e, w, BEFORE, NP_NONE);
}

static bool add_run(np_builder *b, uint32_t e)
{
    const neap_array *a = b->g->entries[e].array;
    bool effect = a->op->flags & NP_OP_EFFECT;
    for (uint32_t i = 0; i < a->n_in; i++)
        if (!(effect && i == 1) && !guard_read(b, e, a->in[i]))
            return false;
    return add_item(b, e, e, RUN, NP_NONE);
}

/* Which root a step writes directly, or a copy for the root. */
static bool add_root(np_builder *b, int r)
{
    neap_array *a = b->g->roots[r];
    uint32_t own = np_graph_find(b->g, a), e = b->g->entries[own].canonical;
    if (a->op && (a->op->flags & NP_OP_EFFECT))
        return true;
    if (np_graph_runs(b->g->entries[e].array) && b->direct[e] == NP_NONE) {
        b->direct[e] = (uint32_t)r;
        return true;
    }
    const neap_array *s = np_storage_const(a);
    uint32_t w = s->op && (s->op->flags & NP_OP_STATE_READ) ? first_later_write(b, s) : NP_NONE;
    bool before = w != NP_NONE && w < own;
    return add_item(b, e, before ? w : own, before ? BEFORE : AFTER, (uint32_t)r);
}

static bool item_before(const void *user, const np_item *a, const np_item *b)
{
    (void)user;
    return a->key < b->key;
}

NP_HEAP_SORT(sort_items, np_item, const void *, item_before)

static bool order_items(np_builder *b)
{
    np_graph *g = b->g;
    if (!collect_writes(b))
        return false;
    for (int r = 0; r < g->n_roots; r++)
        if (!add_root(b, r))
            return false;
    for (uint32_t e = 0; e < g->n; e++)
        if (g->entries[e].canonical == e && np_graph_runs(g->entries[e].array) && !add_run(b, e))
            return false;
    sort_items(NULL, b->items, b->n_items);
    return true;
}

/* ---- operands
 * ------------------------------------------------------------------------------------ */

static bool add_operand(np_builder *b, const neap_array *a, np_place_kind kind, uint32_t source,
                        uint64_t storage_bytes, uint32_t *out)
{
    if (!np_grow(b->ctx, NEAP_MEM_GRAPH, &b->operands, &b->operands_capacity, b->n_operands + 1,
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
    o->kind = kind;
    o->source = source;
    o->storage_bytes = storage_bytes;
    o->extent = a->extent;
    o->dynamic_dim = a->dynamic_dim;
    o->capacity = a->dynamic_dim >= 0 ? a->shape[a->dynamic_dim] : 0;
    return true;
}

static bool value_source(np_builder *b, uint32_t entry, uint32_t *out)
{
    if (b->source[entry] == NP_NONE) {
        if (!np_grow(b->ctx, NEAP_MEM_GRAPH, &b->values, &b->values_capacity, b->n_values + 1,
                     sizeof *b->values) ||
            !np_grow(b->ctx, NEAP_MEM_GRAPH, &b->value_entry, &b->value_entry_capacity,
                     b->n_values + 1, sizeof *b->value_entry))
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
    if (!np_grow(b->ctx, NEAP_MEM_GRAPH, &b->states, &b->states_capacity, b->n_states + 1,
                 sizeof *b->states) ||
        !np_grow(b->ctx, NEAP_MEM_GRAPH, &b->state_entry, &b->state_entry_capacity, b->n_states + 1,
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
        kind = made->kind;
        source = made->source;
        bytes = made->storage_bytes;
    }
    if (!add_operand(b, a, kind, source, bytes, &entry->operand))
        return false;
    np_plan_operand *o = &b->operands[entry->operand];
    int64_t size =
        np_is_quantised((neap_dtype)a->dtype) ? 0 : np_element_bytes((neap_dtype)a->dtype);
    o->offset = a->offset * size;
    o->shift = a->shift;
    o->shift_bytes = a->shift_scale * size;
    *out = entry->operand;
    return true;
}

/* ---- steps
 * --------------------------------------------------------------------------------------- */

static bool add_block(np_builder *b, uint64_t bytes, bool scratch, uint32_t *out)
{
    if (!np_grow(b->ctx, NEAP_MEM_GRAPH, &b->blocks, &b->blocks_capacity, b->n_blocks + 1,
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

/* The place of a step's result: a root's own block, or the arena. Effects have none (0 bytes). */
static bool output_operand(np_builder *b, const neap_array *a, uint32_t root, uint32_t *operand,
                           uint32_t *block)
{
    uint64_t bytes = neap_array_bytes(a);
    *block = NP_NONE;
    if (root != NP_NONE) {
        b->output_of_root[root] = b->n_outputs;
        b->output_bytes[b->n_outputs] = bytes;
        b->output_root[b->n_outputs] = root;
        return add_operand(b, a, NP_IN_OUTPUT, b->n_outputs++, bytes, operand);
    }
    if (!add_block(b, bytes, false, block))
        return false;
    if (!add_operand(b, a, NP_IN_ARENA, *block, bytes, operand))
        return false;
    /* A copy of a view starts a storage of its own, row-major. */
    np_row_major(a->rank, a->shape, b->operands[*operand].operand.strides);
    return true;
}

static bool add_inputs(np_builder *b, np_raw_step *s, uint32_t n, neap_array *const *in,
                       uint32_t user)
{
    s->first_input = b->n_inputs;
    s->n_in = n;
    if (!np_grow(b->ctx, NEAP_MEM_GRAPH, &b->inputs, &b->inputs_capacity, b->n_inputs + n,
                 sizeof *b->inputs))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = np_canonical(b->g, in[i]), operand;
        const neap_array *st = np_storage_const(in[i]);
        bool late = false;
        if (b->copied[e] && !((s->op->flags & NP_OP_EFFECT) && i == 1)) {
            uint32_t w = first_later_write(b, st);
            late = w != NP_NONE && w < user;
        }
        if (late)
            operand = b->copy_operand[e];
        else if (!input_operand(b, e, &operand))
            return false;
        b->inputs[b->n_inputs++] = operand;
        np_plan_operand *o = &b->operands[operand];
        if (o->kind == NP_IN_ARENA)
            b->blocks[o->source].last = b->n_steps;
    }
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
    return bytes == 0 || add_block(b, bytes, true, &s->scratch);
}

static bool push_step(np_builder *b, const np_raw_step *s)
{
    if (!np_grow(b->ctx, NEAP_MEM_GRAPH, &b->steps, &b->steps_capacity, b->n_steps + 1,
                 sizeof *b->steps))
        return false;
    b->steps[b->n_steps++] = *s;
    return true;
}

static bool build_run(np_builder *b, uint32_t e)
{
    np_entry *entry = &b->g->entries[e];
    neap_array *a = entry->array;
    np_raw_step s = {.op = a->op, .array = a};
    if (!add_inputs(b, &s, a->n_in, a->in, e) ||
        !output_operand(b, a, b->direct[e], &s.out, &s.block))
        return false;
    entry->operand = s.out;
    if (a->op->flags & NP_OP_EFFECT) {
        uint32_t i;
        if (!state_source(b, e, &i))
            return false;
    }
    return add_scratch(b, &s) && push_step(b, &s);
}

static bool build_copy(np_builder *b, const np_item *item)
{
    neap_array *a = b->g->entries[item->entry].array;
    np_raw_step s = {.op = &np_op_contiguous, .array = a, .copy = true};
    if (!add_inputs(b, &s, 1, &a, 0) || !output_operand(b, a, item->root, &s.out, &s.block))
        return false;
    if (item->root == NP_NONE)
        b->copy_operand[item->entry] = s.out;
    else
        np_row_major(a->rank, a->shape, b->operands[s.out].operand.strides);
    b->copies++;
    return add_scratch(b, &s) && push_step(b, &s);
}

/* ---- taking over an input's bytes
 * ------------------------------------------------------------------ */

static bool whole_block(const np_builder *b, const np_plan_operand *o, uint64_t bytes)
{
    return o->kind == NP_IN_ARENA && o->offset == 0 && !o->shift && o->storage_bytes == bytes &&
           np_is_row_major(o->operand.rank, o->operand.shape, o->operand.strides) &&
           b->blocks[o->source].bytes >= bytes;
}

static void take_over(np_builder *b, uint32_t index)
{
    np_raw_step *s = &b->steps[index];
    if (s->block == NP_NONE || !s->op->overwrites)
        return;
    uint64_t bytes = b->operands[s->out].storage_bytes;
    for (uint32_t i = 0; i < s->n_in && i < 32; i++) {
        const np_plan_operand *o = &b->operands[b->inputs[s->first_input + i]];
        if (!(s->op->overwrites >> i & 1) || !whole_block(b, o, bytes) || bytes == 0)
            continue;
        uint32_t owner = b->blocks[o->source].owner;
        if (b->blocks[owner].last != index || b->blocks[owner].bytes != b->blocks[s->block].bytes)
            continue;
        bool alone = true; /* no other input looks at the same bytes in another way */
        for (uint32_t j = 0; j < s->n_in; j++) {
            const np_plan_operand *q = &b->operands[b->inputs[s->first_input + j]];
            if (q != o && q->kind == NP_IN_ARENA && b->blocks[q->source].owner == owner)
                alone = false;
        }
        if (!alone)
            continue;
        b->blocks[s->block].owner = owner;
        if (b->blocks[owner].last < b->blocks[s->block].last)
            b->blocks[owner].last = b->blocks[s->block].last;
        return;
    }
}

/* ---- all of it
 * -------------------------------------------------------------------------------------- */

static bool start(np_builder *b)
{
    size_t n = b->g->n ? b->g->n : 1, r = b->g->n_roots ? (size_t)b->g->n_roots : 1;
    neap_context *c = b->ctx;
    b->copied = np_calloc(c, NEAP_MEM_GRAPH, n * sizeof *b->copied);
    b->copy_operand = np_alloc(c, NEAP_MEM_GRAPH, n * sizeof *b->copy_operand);
    b->direct = np_alloc(c, NEAP_MEM_GRAPH, n * sizeof *b->direct);
    b->source = np_alloc(c, NEAP_MEM_GRAPH, n * sizeof *b->source);
    b->output_of_root = np_alloc(c, NEAP_MEM_GRAPH, r * sizeof *b->output_of_root);
    b->output_root = np_alloc(c, NEAP_MEM_GRAPH, r * sizeof *b->output_root);
    b->output_bytes = np_alloc(c, NEAP_MEM_GRAPH, r * sizeof *b->output_bytes);
    if (!b->copied || !b->copy_operand || !b->direct || !b->source || !b->output_of_root ||
        !b->output_root || !b->output_bytes)
        return false;
    memset(b->direct, 0xff, n * sizeof *b->direct);
    memset(b->source, 0xff, n * sizeof *b->source);
    memset(b->copy_operand, 0xff, n * sizeof *b->copy_operand);
    memset(b->output_of_root, 0xff, r * sizeof *b->output_of_root);
    return true;
}

bool np_builder_run(np_builder *b)
{
    if (!start(b) || !order_items(b))
        return false;
    for (size_t i = 0; i < b->n_items; i++) {
        const np_item *item = &b->items[i];
        bool run = item->key % 4 == RUN;
        if (!(run ? build_run(b, item->entry) : build_copy(b, item)))
            return false;
    }
    for (uint32_t i = 0; i < b->n_steps; i++)
        take_over(b, i);
    return true;
}

void np_builder_free(np_builder *b)
{
    size_t n = b->g->n ? b->g->n : 1, r = b->g->n_roots ? (size_t)b->g->n_roots : 1;
    neap_context *c = b->ctx;
#define FREE(field, count) np_free(c, NEAP_MEM_GRAPH, b->field, (count) * sizeof *b->field)
    FREE(items, b->items_capacity);
    FREE(writes, b->writes_capacity);
    FREE(operands, b->operands_capacity);
    FREE(values, b->values_capacity);
    FREE(states, b->states_capacity);
    FREE(value_entry, b->value_entry_capacity);
    FREE(state_entry, b->state_entry_capacity);
    FREE(blocks, b->blocks_capacity);
    FREE(inputs, b->inputs_capacity);
    FREE(steps, b->steps_capacity);
    FREE(copied, n);
    FREE(copy_operand, n);
    FREE(direct, n);
    FREE(source, n);
    FREE(output_of_root, r);
    FREE(output_root, r);
    FREE(output_bytes, r);
#undef FREE
}
