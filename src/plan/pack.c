/* pack.c - a builder's tables become a plan: blocks placed, peak known, everything in one block of
 * memory whose pointers stay valid. */
#include <string.h>

#include "base/clock.h"
#include "plan/builder.h"

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

static bool has_attr(const np_raw_step *s)
{
    return !s->copy && memcmp(s->array->attr, no_attr, NP_ATTR_BYTES) != 0;
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
    p->value_entry = take(c, b->n_values, sizeof *p->value_entry);
    p->state_entry = take(c, b->n_states, sizeof *p->state_entry);
    const np_operand **inputs = take(c, b->n_inputs, sizeof *inputs);
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const np_raw_step *s = &b->steps[i];
        void *attr = has_attr(s) ? take(c, 1, NP_ATTR_BYTES) : NULL;
        size_t name_bytes = s->array->name ? strlen(s->array->name) + 1 : 0;
        char *name = name_bytes ? take(c, 1, name_bytes) : NULL;
        if (!c->base)
            continue;
        if (attr)
            memcpy(attr, s->array->attr, NP_ATTR_BYTES);
        if (name)
            memcpy(name, s->array->name, name_bytes);
        p->steps[i] = (np_step){.op = s->op,
                                .attr = attr ? attr : no_attr,
                                .in = inputs + s->first_input,
                                .out = &p->operands[s->out].operand,
                                .n_in = s->n_in,
                                .block = s->block,
                                .scratch = s->scratch,
                                .name = name ? name : s->op->name};
    }
    if (!c->base)
        return;
    copy_table(p->operands, b->operands, b->n_operands, sizeof *p->operands);
    copy_table(p->blocks, b->blocks, b->n_blocks, sizeof *p->blocks);
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

/* Bytes alive at each step: the largest, where, and the scratch there. */
static bool find_peak(np_builder *b, neap_plan_info *info)
{
    size_t bytes = ((size_t)b->n_steps + 1) * sizeof(int64_t);
    int64_t *live = np_calloc(b->ctx, NEAP_MEM_GRAPH, bytes);
    if (!live)
        return false;
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        const np_block *k = &b->blocks[i];
        if (k->owner == i && !k->hosted) {
            live[k->first] += (int64_t)k->bytes;
            live[k->last + 1] -= (int64_t)k->bytes;
        }
    }
    int64_t now = 0;
    info->peak_step = 0;
    for (uint32_t s = 0; s < b->n_steps; s++) {
        now += live[s];
        if ((uint64_t)now > info->largest_live_bytes) {
            info->largest_live_bytes = (uint64_t)now;
            info->peak_step = s;
        }
    }
    np_free(b->ctx, NEAP_MEM_GRAPH, live, bytes);
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

static neap_plan *pack(np_builder *b, bool object, int64_t merged)
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

/* Blocks that no machine can hold would overflow offsets. */
static bool addressable(np_builder *b)
{
    const uint64_t most = (uint64_t)1 << 62;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        if (b->blocks[i].bytes > most - sum) {
            np_fail(b->ctx, NEAP_ENOMEM, "intermediate values of more than 2^62 bytes");
            return false;
        }
        sum += b->blocks[i].bytes;
    }
    return true;
}

neap_status np_plan_build(np_graph *g, bool object, neap_plan **out)
{
    double t0 = np_seconds();
    np_builder b = {.ctx = g->ctx, .g = g};
    neap_plan *p = NULL;
    int64_t merged = 0;
    bool ok = np_graph_simplify(g, &merged) == NEAP_OK && np_builder_run(&b) && addressable(&b) &&
              np_host(&b);
    uint64_t arena = ok ? np_place(g->ctx, b.blocks, b.n_blocks) : UINT64_MAX;
    neap_plan_info peak = {0};
    if (arena != UINT64_MAX && find_peak(&b, &peak))
        p = pack(&b, object, merged);
    np_builder_free(&b);
    if (!p)
        return g->ctx->status != NEAP_OK ? g->ctx->status : NEAP_ENOMEM;
    p->info.arena_bytes = arena;
    p->info.largest_live_bytes = peak.largest_live_bytes;
    p->info.peak_step = peak.peak_step;
    p->info.scratch_bytes = peak.scratch_bytes;
    p->info.peak_bytes = (arena ? np_pages(arena) : 0) + p->info.output_bytes;
    p->info.plan_seconds = np_seconds() - t0;
    *out = p;
    return NEAP_OK;
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
