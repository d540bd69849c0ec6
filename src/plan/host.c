/* host.c - values that live in a result's own block until the result is written.
 *
 * A result has bytes outside the arena for the whole run. What is needed only before it is made, and
 * is no larger, can lie there: first of all what is alive where the arena is fullest. */
#include <string.h>

#include "plan/emit.h"

enum { MOST_ROUNDS = 64 };

typedef struct hosts {
    np_builder *b;
    uint32_t *output; /* by block: where it lies, or NP_NONE */
    int64_t *live;   /* by step */
} hosts;

/* The step at which most of the arena is alive. */
static uint32_t fullest_step(const hosts *h)
{
    const np_builder *b = h->b;
    memset(h->live, 0, ((size_t)b->n_steps + 1) * sizeof *h->live);
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        const np_block *k = &b->blocks[i];
        if (k->owner == i && h->output[i] == NP_NONE) {
            h->live[k->first] += (int64_t)k->bytes;
            h->live[k->last + 1] -= (int64_t)k->bytes;
        }
    }
    int64_t now = 0, most = 0;
    uint32_t at = 0;
    for (uint32_t s = 0; s < b->n_steps; s++) {
        now += h->live[s];
        if (now > most) {
            most = now;
            at = s;
        }
    }
    return at;
}

/* Nothing else lies in the output's block at that time, and the block ends before the result,
 * or where the step that makes it may write over it. */
static bool fits(const hosts *h, uint32_t block, uint32_t output)
{
    const np_builder *b = h->b;
    const np_block *k = &b->blocks[block];
    const uint32_t made = b->output_made[output];
    uint64_t room = (b->output_bytes[output] + 63) & ~(uint64_t)63;
    if (k->bytes > room || k->last > made ||
        (k->last == made && !np_may_end_in(b, made, block, output)))
        return false;
    for (uint32_t i = 0; i < b->n_blocks; i++)
        if (h->output[i] == output && b->blocks[i].first <= k->last && k->first <= b->blocks[i].last)
            return false;
    return true;
}

/* Moves the largest block that is alive at the step and fits somewhere. */
static bool move_one(hosts *h, uint32_t step)
{
    const np_builder *b = h->b;
    uint32_t best = NP_NONE, place = NP_NONE;
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        const np_block *k = &b->blocks[i];
        if (k->owner != i || k->scratch || k->bytes == 0 || h->output[i] != NP_NONE ||
            k->first > step || k->last < step || (best != NP_NONE && k->bytes <= b->blocks[best].bytes))
            continue;
        for (uint32_t o = 0; o < b->n_outputs; o++) {
            if (fits(h, i, o)) {
                best = i;
                place = o;
                break;
            }
        }
    }
    if (best == NP_NONE)
        return false;
    h->output[best] = place;
    return true;
}

/* Operands look at the result's bytes; the blocks leave the arena. */
static void rewire(hosts *h)
{
    np_builder *b = h->b;
    for (uint32_t i = 0; i < b->n_operands; i++) {
        np_plan_operand *o = &b->operands[i];
        uint32_t to = o->kind == NP_IN_ARENA ? h->output[b->blocks[o->source].owner] : NP_NONE;
        if (to == NP_NONE)
            continue;
        o->kind = NP_IN_OUTPUT;
        o->source = to;
    }
    for (uint32_t i = 0; i < b->n_blocks; i++)
        b->blocks[i].hosted = h->output[b->blocks[i].owner] != NP_NONE;
}

bool np_host(np_builder *b)
{
    if (b->n_outputs == 0 || b->n_blocks == 0)
        return true;
    const size_t steps = (size_t)b->n_steps + 1, output = b->n_blocks * sizeof(uint32_t);
    int64_t *live = np_work_take(&b->step_work, steps * sizeof *live + output);
    if (!live)
        return false;
    hosts h = {.b = b, .live = live, .output = (uint32_t *)(void *)(live + steps)};
    memset(h.output, 0xff, output);
    for (int i = 0; i < MOST_ROUNDS && move_one(&h, fullest_step(&h)); i++) {
    }
    rewire(&h);
    return true;
}
