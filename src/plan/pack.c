/* pack.c - a builder's tables become a plan: blocks placed, peak known, everything in one block of
 * memory whose pointers stay valid. */
#include <string.h>

#include "plan/emit.h"

static const uint8_t no_attr[NP_ATTR_BYTES];

/* memcpy that takes an empty table, whose pointer may be NULL. */
static void copy_table(void *to, const void *from, size_t n, size_t element)
{
    if (n)
        memcpy(to, from, n * element);
}

/* Hands out parts of the plan's one block; first pass only counts. */
typedef struct cursor {
    uint8_t *base;
    size_t used;
} cursor;

static void *take(cursor *c, size_t n, size_t element)
{
    c->used = (c->used + 15) & ~(size_t)15;
    void *p = c->base ? c->base + c->used : NULL;
    c->used += n * element;
    return p;
}

/* An array's attributes and name in the plan's own memory. */
static void take_words(cursor *c, const neap_array *a, bool copy, const np_op *op, const void **attr,
                       const char **name)
{
    bool some = !copy && memcmp(a->attr, no_attr, a->attr_bytes) != 0;
    void *to = some ? take(c, 1, a->attr_bytes) : NULL;
    size_t name_bytes = a->name ? strlen(a->name) + 1 : 0;
    char *text = name_bytes ? take(c, 1, name_bytes) : NULL;
    if (!c->base)
        return;
    if (some)
        memcpy(to, a->attr, a->attr_bytes);
    if (text)
        memcpy(text, a->name, name_bytes);
    *attr = some ? to : no_attr;
    *name = text ? text : op->name;
}

static void lay_out_members(const np_builder *b, neap_plan *p, cursor *c)
{
    for (uint32_t i = 0; i < b->n_members; i++) {
        np_member *m = c->base ? &p->members[i] : NULL;
        const void *attr;
        const char *name;
        take_words(c, b->member_array[i], false, b->members[i].op, &attr, &name);
        if (!m)
            continue;
        *m = b->members[i];
        m->attr = attr;
        m->name = name;
    }
}

static void lay_out(const np_builder *b, neap_plan *p, cursor *c)
{
    p->steps = take(c, b->n_steps, sizeof *p->steps);
    p->operands = take(c, b->n_operands, sizeof *p->operands);
    p->blocks = take(c, b->n_blocks, sizeof *p->blocks);
    p->moving = take(c, b->n_moving, sizeof *p->moving);
    p->values = take(c, b->n_values, sizeof *p->values);
    p->states = take(c, b->n_states, sizeof *p->states);
    p->state_writes = take(c, b->n_states, sizeof *p->state_writes);
    p->outputs = take(c, b->n_outputs, sizeof *p->outputs);
    p->buffers = take(c, b->n_outputs, sizeof *p->buffers);
    p->output_bytes = take(c, b->n_outputs, sizeof *p->output_bytes);
    p->output_root = take(c, b->n_outputs, sizeof *p->output_root);
    p->groups = take(c, b->n_groups, sizeof *p->groups);
    p->members = take(c, b->n_members, sizeof *p->members);
    p->rows = take(c, b->n_rows, sizeof *p->rows);
    p->slots = take(c, b->n_slots, sizeof *p->slots);
    p->windows = take(c, b->n_windows, sizeof *p->windows);
    p->chain_ops = take(c, b->n_chain_ops, sizeof *p->chain_ops);
    p->chain_places = take(c, b->n_chain_places, sizeof *p->chain_places);
    p->value_entry = take(c, b->n_values, sizeof *p->value_entry);
    p->state_entry = take(c, b->n_states, sizeof *p->state_entry);
    const np_operand **inputs = take(c, b->n_inputs, sizeof *inputs);
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const np_raw_step *s = &b->steps[i];
        np_step step = {.op = s->op, .n_in = s->n_in, .block = s->block, .scratch = s->scratch,
                        .group = s->group, .seconds = s->seconds};
        take_words(c, s->array, s->copy || s->group != NP_NONE, s->op, &step.attr, &step.name);
        if (!c->base)
            continue;
        step.in = inputs + s->first_input;
        step.out = &p->operands[s->out].operand;
        p->steps[i] = step;
    }
    lay_out_members(b, p, c);
    if (!c->base)
        return;
    copy_table(p->operands, b->operands, b->n_operands, sizeof *p->operands);
    copy_table(p->moving, b->moving, b->n_moving, sizeof *p->moving);
    copy_table(p->blocks, b->blocks, b->n_blocks, sizeof *p->blocks);
    copy_table(p->groups, b->groups, b->n_groups, sizeof *p->groups);
    copy_table(p->rows, b->rows, b->n_rows, sizeof *p->rows);
    copy_table(p->slots, b->slots, b->n_slots, sizeof *p->slots);
    copy_table(p->windows, b->windows, b->n_windows, sizeof *p->windows);
    copy_table(p->chain_ops, b->chain_ops, b->n_chain_ops, sizeof *p->chain_ops);
    copy_table(p->chain_places, b->chain_places, b->n_chain_places, sizeof *p->chain_places);
    for (uint32_t i = 0; i < b->n_inputs; i++)
        inputs[i] = &p->operands[b->inputs[i]].operand;
}

static void fill_lists(const np_builder *b, neap_plan *p)
{
    copy_table(p->values, b->values, b->n_values, sizeof *p->values);
    copy_table(p->value_entry, b->value_entry, b->n_values, sizeof *p->value_entry);
    copy_table(p->states, b->states, b->n_states, sizeof *p->states);
    copy_table(p->state_entry, b->state_entry, b->n_states, sizeof *p->state_entry);
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const neap_array *a = b->steps[i].array;
        if (b->steps[i].op->flags & NP_OP_EFFECT)
            for (uint32_t s = 0; s < b->n_states; s++)
                p->state_writes[s] += b->states[s] == a->state;
    }
    copy_table(p->output_bytes, b->output_bytes, b->n_outputs, sizeof *p->output_bytes);
    copy_table(p->output_root, b->output_root, b->n_outputs, sizeof *p->output_root);
}

void np_find_live(const np_builder *b, int64_t *live)
{
    memset(live, 0, ((size_t)b->n_steps + 1) * sizeof *live);
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        const np_block *k = &b->blocks[i];
        if (k->owner == i && !k->hosted) {
            live[k->first] += (int64_t)k->bytes;
            live[k->last + 1] -= (int64_t)k->bytes;
        }
    }
    for (uint32_t s = 1; s < b->n_steps; s++)
        live[s] += live[s - 1];
}

bool np_find_peak(np_builder *b, neap_plan_info *info)
{
    int64_t *live = np_work_take(&b->step_work, ((size_t)b->n_steps + 1) * sizeof(int64_t));
    if (!live)
        return false;
    np_find_live(b, live);
    info->peak_step = 0;
    for (uint32_t s = 0; s < b->n_steps; s++)
        if ((uint64_t)live[s] > info->largest_live_bytes) {
            info->largest_live_bytes = (uint64_t)live[s];
            info->peak_step = s;
        }
    if (b->n_steps && b->steps[info->peak_step].scratch != NP_NONE)
        info->scratch_bytes = b->blocks[b->steps[info->peak_step].scratch].bytes;
    return true;
}

/* ---- operands that a run looks at ---------------------------------------------------------------- */

/* A chain finds its tiles by where they lie. */
static void mark_slots(const np_builder *b, const np_member *m, bool chained, uint32_t *to)
{
    for (uint32_t k = m->first_slot; k <= m->first_slot + m->n_in; k++)
        if (!chained || !b->slots[k].in_tile)
            to[b->slots[k].operand] = 0;
}

static void mark_operands(const np_builder *b, uint32_t *to)
{
    for (uint32_t i = 0; i < b->n_inputs; i++)
        to[b->inputs[i]] = 0;
    for (uint32_t i = 0; i < b->n_steps; i++)
        to[b->steps[i].out] = 0;
    for (uint32_t g = 0; g < b->n_groups; g++) {
        const np_member *m = &b->members[b->groups[g].first_member];
        uint32_t chained = 0;
        to[b->groups[g].extents_of] = 0;
        for (uint32_t i = 0; i < b->groups[g].n_members; i++) {
            chained = m[i].n_chain ? m[i].n_chain : chained;
            mark_slots(b, &m[i], chained > 0, to);
            chained -= chained > 0;
        }
    }
}

static void renumber(np_builder *b, const uint32_t *to, uint32_t rest)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_inputs; i++)
        b->inputs[i] = to[b->inputs[i]];
    for (uint32_t i = 0; i < b->n_steps; i++)
        b->steps[i].out = to[b->steps[i].out];
    for (uint32_t g = 0; g < b->n_groups; g++)
        b->groups[g].extents_of = to[b->groups[g].extents_of];
    for (uint32_t k = 0; k < b->n_slots; k++)
        b->slots[k].operand = to[b->slots[k].operand];
    for (uint32_t i = 0; i < b->n_moving; i++) {
        b->moving[n] = b->moving[i];
        b->moving[n].operand = to[b->moving[i].operand];
        n += b->moving[n].operand != rest;
    }
    b->n_moving = n;
}

/* Of those that no run looks at one is left, a tile, for all of them. */
static bool drop_operands(np_builder *b)
{
    uint32_t *to = np_work_take(&b->step_work, b->n_operands * sizeof *to + 1), n = 0;
    if (!to)
        return false;
    memset(to, 0xff, b->n_operands * sizeof *to);
    mark_operands(b, to);
    for (uint32_t i = 0; i < b->n_operands; i++)
        if (to[i] != NP_NONE) {
            b->operands[n] = b->operands[i];
            to[i] = n++;
        }
    if (n < b->n_operands)
        b->operands[n] = (np_plan_operand){.kind = NP_IN_TILE};
    for (uint32_t i = 0; i < b->n_operands; i++)
        to[i] = to[i] == NP_NONE ? n : to[i];
    renumber(b, to, n);
    b->n_operands = n < b->n_operands ? n + 1 : n;
    return true;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static void retain_all(neap_plan *p)
{
    p->owns = true;
    for (uint32_t i = 0; i < p->n_values; i++)
        neap_retain(p->values[i]);
    for (uint32_t i = 0; i < p->n_states; i++)
        atomic_fetch_add(&p->states[i]->refs, 1);
}

neap_plan *np_pack(np_builder *b, bool object, int64_t merged)
{
    neap_plan counted, *p;
    cursor c = {NULL, sizeof counted};
    for (uint32_t i = 0; i < b->n_steps; i++) /* it looks at what is dropped */
        b->steps[i].seconds = (float)np_step_seconds(b, &b->steps[i]);
    if (!drop_operands(b))
        return NULL;
    lay_out(b, &counted, &c);
    p = np_calloc(b->ctx, NEAP_MEM_GRAPH, c.used);
    if (!p)
        return NULL;
    p->ctx = b->ctx;
    p->bytes = c.used;
    c = (cursor){(uint8_t *)p, sizeof *p};
    lay_out(b, p, &c);
    p->n_groups = b->n_groups;
    p->n_members = b->n_members;
    p->n_steps = b->n_steps;
    p->n_operands = b->n_operands;
    p->n_moving = b->n_moving;
    p->n_blocks = b->n_blocks;
    p->n_values = b->n_values;
    p->n_states = b->n_states;
    p->n_outputs = b->n_outputs;
    fill_lists(b, p);
    p->info = (neap_plan_info){
        .size = sizeof p->info, .steps = b->n_steps, .copies = b->copies, .merged = merged};
    p->info.plan_bytes = np_ledger_rounded(p->bytes);
    for (uint32_t i = 0; i < p->n_outputs; i++)
        p->info.output_bytes += np_pages(p->output_bytes[i]);
    if (object)
        retain_all(p);
    return p;
}

void np_plan_destroy(neap_plan *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        neap_release(p->outputs[i]);
    if (p->owns) {
        for (uint32_t i = 0; i < p->n_values; i++)
            neap_release(p->values[i]);
        for (uint32_t i = 0; i < p->n_states; i++)
            np_state_release(p->states[i]);
    }
    np_free(p->ctx, NEAP_MEM_GRAPH, p, p->bytes);
}
