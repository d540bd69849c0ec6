/* take_over.c - a result that may lie where an input ends: the step writes over what it reads. */
#include "plan/emit.h"

/* A part will not do even where the sizes agree: half of 16-bit floats takes as many bytes in 32 bits
 * as the whole. */
static bool whole_block(const np_builder *b, const np_plan_operand *o, uint64_t bytes)
{
    return o->kind == NP_IN_ARENA && o->offset == 0 && !o->shifted && o->storage_bytes == bytes &&
           !np_is_part(o) &&
           np_is_row_major(o->operand.rank, o->operand.shape, o->operand.strides) &&
           b->blocks[o->source].bytes >= bytes;
}

/* Does block `owner` end at this step, begun before it, and is no larger or smaller than `block`? */
static bool ends_here(const np_builder *b, uint32_t owner, uint32_t block, uint32_t step)
{
    return b->blocks[owner].last == step && b->blocks[owner].first < step &&
           b->blocks[owner].bytes == b->blocks[block].bytes;
}

static void share_place(np_builder *b, uint32_t block, uint32_t owner)
{
    b->blocks[block].owner = owner;
    if (b->blocks[owner].last < b->blocks[block].last)
        b->blocks[owner].last = b->blocks[block].last;
}

/* ---- steps of one op ---------------------------------------------------------------------------- */

/* May the step write its result over block `owner`, which input i sees whole and nothing else sees? */
static bool input_gives_way(const np_builder *b, const np_raw_step *s, uint32_t i, uint32_t *owner)
{
    const uint64_t bytes = b->operands[s->out].storage_bytes;
    const np_plan_operand *o = &b->operands[b->inputs[s->first_input + i]];
    if (i >= 32 || !(s->op->overwrites >> i & 1) || bytes == 0 || np_is_part(&b->operands[s->out]) ||
        !whole_block(b, o, bytes))
        return false;
    *owner = b->blocks[o->source].owner;
    for (uint32_t j = 0; j < s->n_in; j++) {
        const np_plan_operand *q = &b->operands[b->inputs[s->first_input + j]];
        if (q != o && q->kind == NP_IN_ARENA && b->blocks[q->source].owner == *owner)
            return false;
    }
    return true;
}

static void take_over(np_builder *b, uint32_t index)
{
    const np_raw_step *s = &b->steps[index];
    uint32_t owner;
    for (uint32_t i = 0; s->block != NP_NONE && i < s->n_in; i++)
        if (input_gives_way(b, s, i, &owner) && ends_here(b, owner, s->block, index)) {
            share_place(b, s->block, owner);
            return;
        }
}

/* ---- groups -------------------------------------------------------------------------------------
 *
 * Not those of a product and its epilogue, whose result is written before all is read; nor those with
 * windows, whose rows are read again for the next block. */

/* Is every tile of what the slot sees the same bytes as the result's tile? Both are whole arrays of
 * equal size; then that is so if the slot follows every axis. */
static bool same_tiles(const np_builder *b, const np_group *g, const np_cut *s, uint64_t bytes)
{
    const np_plan_operand *o = &b->operands[s->operand];
    for (int j = 0; j < g->n_axes; j++)
        if (s->cut[j] < 0)
            return false;
    int64_t lead = 1, axes = 1;
    for (int j = 0; j < g->n_axes; j++)
        axes *= o->operand.shape[s->cut[j]];
    for (int d = 0; d <= s->cut[g->n_axes - 1]; d++)
        lead *= o->operand.shape[d];
    return lead == axes && whole_block(b, o, bytes);
}

/* May member m's result lie on `owner`? All that reads it in the group has done so, tile by tile. */
static bool may_overwrite(const np_builder *b, const np_group *g, uint32_t m, uint32_t owner,
                          uint64_t bytes)
{
    for (uint32_t k = 0; k < g->n_members; k++) {
        const np_member *member = &b->members[g->first_member + k];
        for (uint32_t i = 0; i < member->n_in; i++) {
            const np_cut *s = &b->slots[member->first_slot + 1 + i];
            const np_plan_operand *o = &b->operands[s->operand];
            if (o->kind != NP_IN_ARENA || b->blocks[o->source].owner != owner)
                continue;
            if (k > m || (k == m && !(member->op->overwrites >> i & 1)) ||
                !same_tiles(b, g, s, bytes))
                return false;
        }
    }
    return true;
}

static void take_over_in_group(np_builder *b, uint32_t index)
{
    const np_group *g = &b->groups[b->steps[index].group];
    for (uint32_t m = 0; m < g->n_members && !g->epilogue && g->windows == NP_NONE; m++) {
        const np_member *member = &b->members[g->first_member + m];
        const np_plan_operand *out = &b->operands[b->slots[member->first_slot].operand];
        if (out->kind != NP_IN_ARENA || out->storage_bytes == 0 || np_is_part(out))
            continue;
        bool done = false;
        for (uint32_t k = 0; k <= m && !done; k++) {
            const np_member *reader = &b->members[g->first_member + k];
            for (uint32_t i = 0; i < reader->n_in && !done; i++) {
                const np_cut *s = &b->slots[reader->first_slot + 1 + i];
                const np_plan_operand *o = &b->operands[s->operand];
                if (o->kind != NP_IN_ARENA)
                    continue;
                uint32_t owner = b->blocks[o->source].owner;
                done = ends_here(b, owner, out->source, index) &&
                       may_overwrite(b, g, m, owner, out->storage_bytes);
                if (done)
                    share_place(b, out->source, owner);
            }
        }
    }
}

bool np_may_end_in(const np_builder *b, uint32_t step, uint32_t owner, uint32_t output)
{
    const np_raw_step *s = &b->steps[step];
    const uint64_t bytes = b->output_bytes[output];
    if (b->blocks[owner].bytes != ((bytes + 63) & ~(uint64_t)63) || b->blocks[owner].first >= step)
        return false;
    if (s->group == NP_NONE) {
        const np_plan_operand *out = &b->operands[s->out];
        uint32_t other;
        for (uint32_t i = 0; i < s->n_in && out->kind == NP_IN_OUTPUT && out->source == output; i++)
            if (input_gives_way(b, s, i, &other) && other == owner)
                return true;
        return false;
    }
    const np_group *g = &b->groups[s->group];
    for (uint32_t m = 0; m < g->n_members && !g->epilogue && g->windows == NP_NONE; m++) {
        const np_cut *c = &b->slots[b->members[g->first_member + m].first_slot];
        const np_plan_operand *out = &b->operands[c->operand];
        if (out->kind == NP_IN_OUTPUT && out->source == output)
            return !np_is_part(out) && may_overwrite(b, g, m, owner, bytes);
    }
    return false;
}

void np_take_over(np_builder *b)
{
    for (uint32_t i = 0; i < b->n_steps; i++) {
        if (b->steps[i].group == NP_NONE)
            take_over(b, i);
        else
            take_over_in_group(b, i);
    }
}

