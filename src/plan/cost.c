/* cost.c - predicted seconds of the steps that a builder holds: for comparing plans, not clocks.
 *
 * A step takes as long as its bytes take to move or its arithmetic to be done, whichever is more. What
 * a product of a group reads whole it reads, and packs, once for each tile (an op without scratch takes of
 * it what it needs, as rows of a table); inner values cost no memory traffic, and those that lack an axis
 * are made for each of its indices. */
#include "plan/emit.h"
#include "plan/fuse.h"

#define BYTES_PER_SECOND 12e9
#define FLOPS_PER_SECOND 40e9 /* of one lane */
#define PACKED_AGAIN 2.0      /* a byte read whole by each tile, beside one that is read once */
#define STEP_SECONDS 2e-6     /* waking the lanes */
#define CHEAP_FLOPS 4         /* an element that is made again in a tile takes as long as so many ... */
#define DEAR_FLOPS 32         /* ... or, of a function, so many */

double np_operand_bytes(const np_operand *o)
{
    if (np_is_quantised((neap_dtype)o->dtype))
        return (double)np_size(o->rank, o->shape) * 0.6;
    return (double)np_size(o->rank, o->shape) * (double)np_element_bytes((neap_dtype)o->dtype);
}

double np_call_flops(const np_call *shapes, bool again)
{
    const np_op *op = shapes->op;
    const double each = !again ? 1 : op->flags & NP_OP_CHEAP ? CHEAP_FLOPS : DEAR_FLOPS;
    if (op->flops && !again)
        return op->flops(shapes);
    return each * (double)np_size(shapes->out->rank, shapes->out->shape);
}

static double flops_of(const np_builder *b, const np_op *op, const void *attr, uint32_t n_in,
                       const np_operand *const *in, np_operand *out, bool again)
{
    np_call call = {.ctx = b->ctx, .op = op, .attr = attr, .n_in = n_in, .in = in, .out = out};
    return np_call_flops(&call, again);
}

double np_work_seconds(const np_builder *b, double bytes, double flops)
{
    double move = bytes / BYTES_PER_SECOND;
    double work = flops / (FLOPS_PER_SECOND * np_pool_lanes(b->ctx->pool));
    return move > work ? move : work;
}

static double seconds(const np_builder *b, double bytes, double flops, double steps)
{
    return np_work_seconds(b, bytes, flops) + steps * STEP_SECONDS;
}

static double op_seconds(const np_builder *b, const np_raw_step *s)
{
    const np_operand *in[NP_GROUP_INPUTS];
    np_operand *out = (np_operand *)&b->operands[s->out].operand;
    double bytes = np_operand_bytes(out);
    for (uint32_t i = 0; i < s->n_in; i++) {
        const np_operand *o = &b->operands[b->inputs[s->first_input + i]].operand;
        if (i < NP_GROUP_INPUTS)
            in[i] = o;
        bytes += np_operand_bytes(o);
    }
    double flops = s->n_in > NP_GROUP_INPUTS || s->copy
                       ? 0
                       : flops_of(b, s->op, s->array->attr, s->n_in, in, out, false);
    return seconds(b, bytes, flops, 1);
}

/* How often a group makes a member's value: once for each index of the axes that it lacks. */
static double times_of(const np_builder *b, const np_group *g, const np_cut *made)
{
    const np_operand *o = &b->operands[g->extents_of].operand;
    double n = 1;
    for (int j = 0; j < g->n_axes; j++)
        n *= made->cut[j] < 0 ? (double)o->shape[g->extent_dim[j]] : 1;
    return n;
}

static double tiles_of(const np_builder *b, const np_group *g)
{
    const np_operand *o = &b->operands[g->extents_of].operand;
    double n = 1;
    for (int j = 0; j < g->n_axes; j++) {
        int64_t extent = o->shape[g->extent_dim[j]];
        n *= (double)(j + 1 < g->n_axes ? extent : (extent + g->block - 1) / g->block);
    }
    return n;
}

/* Rows that a slot sees for each of its block. */
static double rows_about(const np_builder *b, const np_group *g, uint32_t slot)
{
    if (g->windows == NP_NONE)
        return 1;
    const np_window *w = &np_window_of(b, g, slot)->w;
    return 1 + (double)(w->before + w->after > 0 ? w->before + w->after : 0) / (double)g->block;
}

static double group_seconds(const np_builder *b, const np_group *g)
{
    double bytes = 0, flops = 0, again = 0, tiles = tiles_of(b, g);
    for (uint32_t m = 0; m < g->n_members; m++) {
        const np_member *member = &b->members[g->first_member + m];
        const np_operand *in[NP_GROUP_INPUTS];
        const np_cut *s = &b->slots[member->first_slot];
        np_operand *out = (np_operand *)&b->operands[s->operand].operand;
        bytes += s->in_tile ? 0 : np_operand_bytes(out);
        for (uint32_t i = 0; i < member->n_in; i++) {
            const np_cut *c = &s[1 + i];
            in[i] = &b->operands[c->operand].operand;
            if (c->in_tile)
                continue;
            if (member->op->scratch && g->n_axes && c->cut[g->n_axes - 1] < 0)
                again += np_operand_bytes(in[i]);
            else
                bytes += rows_about(b, g, member->first_slot + 1 + i) * np_operand_bytes(in[i]);
        }
        const double times = times_of(b, g, s);
        flops += rows_about(b, g, member->first_slot) * times *
                 flops_of(b, member->op, b->member_array[g->first_member + m]->attr,
                                  member->n_in, in, out, times > 1);
    }
    double steps = g->streamed ? tiles * g->n_members : 1;
    return seconds(b, bytes + again, flops, steps) +
           (tiles - 1) * again * PACKED_AGAIN / BYTES_PER_SECOND;
}

double np_step_seconds(const np_builder *b, const np_raw_step *s)
{
    return s->group == NP_NONE ? op_seconds(b, s) : group_seconds(b, &b->groups[s->group]);
}

double np_task_seconds(const np_builder *b, uint32_t task)
{
    np_task_call c;
    uint32_t n;
    np_task_inputs(b, &b->tasks[task], &n);
    if (n > NP_GROUP_INPUTS)
        return 0;
    np_task_call_init(&c, b, task);
    double bytes = np_operand_bytes(&c.out);
    for (uint32_t i = 0; i < n; i++)
        bytes += np_operand_bytes(&c.in[i]);
    return seconds(b, bytes, np_call_flops(&c.call, false), 1);
}

double np_plan_seconds(const np_builder *b)
{
    double sum = 0;
    for (uint32_t i = 0; i < b->n_steps; i++)
        sum += np_step_seconds(b, &b->steps[i]);
    return sum;
}
