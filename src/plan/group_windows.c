/* group_windows.c - groups of which a member needs rows about those of its block, as a convolution does: what each
 * slot sees beyond the block. What a member needs of another one's tile that one makes, too, so a few rows
 * are made for two blocks. */
#include "plan/emit.h"
#include "plan/fuse.h"

np_slot_window *np_window_of(const np_builder *b, const np_group *g, uint32_t slot)
{
    return &b->windows[g->windows + slot - b->members[g->first_member].first_slot];
}

np_window np_member_window(const np_builder *b, const np_group *g, uint32_t m)
{
    return g->windows == NP_NONE ? (np_window){.step = 1}
                                 : np_window_of(b, g, b->members[g->first_member + m].first_slot)->w;
}

/* Does a member need other rows of what it reads than of what it makes? */
static bool has_windows(const np_builder *b, const np_group *g, const uint32_t *task)
{
    np_task_call c;
    np_window w;
    for (uint32_t m = 0; m < g->n_members && g->n_axes; m++) {
        const np_cut *s = &b->slots[b->members[g->first_member + m].first_slot];
        np_task_call_init(&c, b, task[m]);
        for (uint32_t i = 0; i < c.call.n_in; i++)
            if (s->cut[g->n_axes - 1] >= 0 &&
                np_op_window(&c.call, s->cut[g->n_axes - 1], i, &w) >= 0 && np_is_window(&w))
                return true;
    }
    return false;
}

/* The member of the group that makes what a slot reads; NP_NONE: none does. */
static uint32_t maker_of(const np_builder *b, const np_group *g, const np_cut *s, uint32_t reader)
{
    const np_plan_operand *read = &b->operands[s->operand];
    for (uint32_t m = 0; m < reader; m++) {
        const uint32_t slot = b->members[g->first_member + m].first_slot;
        const np_plan_operand *made = &b->operands[b->slots[slot].operand];
        if (read->kind == NP_IN_TILE ? read->source == m
                                     : made->kind == read->kind && made->source == read->source &&
                                           (made->kind == NP_IN_ARENA || made->kind == NP_IN_OUTPUT))
            return m;
    }
    return NP_NONE;
}

/* From the last member on: what it makes beyond the block is what those need that read it. */
bool np_find_windows(np_builder *b, np_group *g, const uint32_t *task)
{
    const uint32_t first = b->members[g->first_member].first_slot, n = b->n_slots - first;
    np_task_call c;
    g->windows = NP_NONE;
    if (!g->streamed || !has_windows(b, g, task))
        return true;
    if (!np_builder_grow(b, &b->windows, &b->windows_capacity, b->n_windows + n, sizeof *b->windows))
        return false;
    g->windows = b->n_windows;
    b->n_windows += n;
    for (uint32_t k = first; k < b->n_slots; k++)
        *np_window_of(b, g, k) = (np_slot_window){.w.step = 1};
    for (uint32_t m = g->n_members; m-- > 0;) {
        const np_member *member = &b->members[g->first_member + m];
        const np_slot_window own = *np_window_of(b, g, member->first_slot);
        const int8_t d = b->slots[member->first_slot].cut[g->n_axes - 1];
        np_window_of(b, g, member->first_slot)->made = own.w.before;
        np_task_call_init(&c, b, task[m]);
        for (uint32_t i = 0; i < member->n_in; i++) {
            np_slot_window *in = np_window_of(b, g, member->first_slot + 1 + i);
            const np_cut *s = &b->slots[member->first_slot + 1 + i];
            if (d < 0 || s->cut[g->n_axes - 1] < 0)
                continue;
            np_op_window(&c.call, d, i, &in->w);
            in->w.before += own.w.before * in->w.step;
            in->w.after += own.w.after * in->w.step;
            const uint32_t from = maker_of(b, g, s, m);
            if (from == NP_NONE)
                continue;
            np_window *made = &np_window_of(b, g, b->members[g->first_member + from].first_slot)->w;
            made->before = in->w.before > made->before ? in->w.before : made->before;
            made->after = in->w.after > made->after ? in->w.after : made->after;
        }
    }
    for (uint32_t m = 0; m < g->n_members; m++) { /* where the tiles begin that are read */
        const np_member *member = &b->members[g->first_member + m];
        for (uint32_t k = member->first_slot + 1; k <= member->first_slot + member->n_in; k++)
            if (b->slots[k].in_tile)
                np_window_of(b, g, k)->made =
                    np_window_of(b, g, b->members[g->first_member + b->operands[b->slots[k].operand].source].first_slot)
                        ->w.before;
    }
    return true;
}
