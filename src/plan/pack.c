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
    p->dynamic = take(c, p->n_dynamic, sizeof *p->dynamic);
    p->values = take(c, b->n_values, sizeof *p->values);
    p->states = take(c, b->n_states, sizeof *p->states);
    p->state_writes = take(c, b->n_states, sizeof *p->state_writes);
    p->outputs = take(c, b->n_outputs, sizeof *p->outputs);
    p->buffers = take(c, b->n_outputs, sizeof *p->buffers);
    p->output_bytes = take(c, b->n_outputs, sizeof *p->output_bytes);
    p->output_root = take(c, b->n_outputs, sizeof *p->output_root);
    p->groups = take(c, b->n_groups, sizeof *p->groups);
    p->members = take(c, b->n_members, sizeof *p->members);
    p->slots = take(c, b->n_slots, sizeof *p->slots);
    p->chain_ops = take(c, b->n_chain_ops, sizeof *p->chain_ops);
    p->chain_places = take(c, b->n_chain_places, sizeof *p->chain_places);
    p->value_entry = take(c, b->n_values, sizeof *p->value_entry);
    p->state_entry = take(c, b->n_states, sizeof *p->state_entry);
    const np_operand **inputs = take(c, b->n_inputs, sizeof *inputs);
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const np_raw_step *s = &b->steps[i];
        np_step step = {.op = s->op, .n_in = s->n_in, .block = s->block, .scratch = s->scratch,
                        .group = s->group, .seconds = (float)np_step_seconds(b, s)};
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
    copy_table(p->blocks, b->blocks, b->n_blocks, sizeof *p->blocks);
    copy_table(p->groups, b->groups, b->n_groups, sizeof *p->groups);
    copy_table(p->slots, b->slots, b->n_slots, sizeof *p->slots);
    copy_table(p->chain_ops, b->chain_ops, b->n_chain_ops, sizeof *p->chain_ops);
    copy_table(p->chain_places, b->chain_places, b->n_chain_places, sizeof *p->chain_places);
    for (uint32_t i = 0; i < b->n_inputs; i++)
        inputs[i] = &p->operands[b->inputs[i]].operand;
}

static uint32_t count_dynamic(const np_builder *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_operands; i++)
        n += b->operands[i].shift || b->operands[i].extent;
    return n;
}

static void fill_lists(const np_builder *b, neap_plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_operands; i++)
        if (b->operands[i].shift || b->operands[i].extent)
            p->dynamic[n++] = i;
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
    neap_plan *p = np_calloc(b->ctx, NEAP_MEM_GRAPH, sizeof *p);
    if (!p)
        return NULL;
    p->ctx = b->ctx;
    p->n_dynamic = count_dynamic(b);
    cursor c = {0};
    lay_out(b, p, &c);
    p->memory_bytes = c.used;
    p->memory = np_calloc(b->ctx, NEAP_MEM_GRAPH, c.used);
    if (!p->memory) {
        np_free(b->ctx, NEAP_MEM_GRAPH, p, sizeof *p);
        return NULL;
    }
    c = (cursor){p->memory, 0};
    lay_out(b, p, &c);
    p->n_groups = b->n_groups;
    p->n_members = b->n_members;
    p->n_steps = b->n_steps;
    p->n_operands = b->n_operands;
    p->n_blocks = b->n_blocks;
    p->n_values = b->n_values;
    p->n_states = b->n_states;
    p->n_outputs = b->n_outputs;
    fill_lists(b, p);
    p->info = (neap_plan_info){
        .size = sizeof p->info, .steps = b->n_steps, .copies = b->copies, .merged = merged};
    p->info.plan_bytes = np_ledger_rounded(sizeof *p) + np_ledger_rounded(p->memory_bytes);
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
    neap_context *ctx = p->ctx;
    np_free(ctx, NEAP_MEM_GRAPH, p->memory, p->memory_bytes);
    np_free(ctx, NEAP_MEM_GRAPH, p, sizeof *p);
}
