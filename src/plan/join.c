/* join.c - parts that are made where the joined array will be: a concatenation along what leads copies
 * nothing of a part that only it reads. */
#include <string.h>

#include "plan/emit.h"

/* The only reader of task p's value, and through which input; NP_NONE: several, or none. */
static uint32_t only_reader(const np_builder *b, uint32_t p)
{
    if (b->out_first[p] + 1 != b->out_first[p + 1])
        return NP_NONE;
    const np_edge *e = &b->edges[b->out[b->out_first[p]]];
    return e->reads ? e->to : NP_NONE;
}

/* Is x all of its storage, element after element? */
static bool whole_storage(const neap_array *x)
{
    const neap_array *s = np_storage_const(x);
    return !x->shift && x->dynamic_dim < 0 && s->dynamic_dim < 0 && (!x->base || x->offset == 0) &&
           np_is_row_major(x->rank, x->shape, x->strides) &&
           neap_array_size(x) == neap_array_size(s);
}

static void place_parts(np_builder *b, uint32_t t)
{
    const np_todo *task = &b->tasks[t];
    const neap_array *a = b->g->entries[task->entry].array;
    if (task->phase != NP_RUN || !a->op->joins || !a->op->joins(a))
        return;
    int64_t at = 0;
    for (uint32_t i = 0; i < a->n_in; i++) {
        const neap_array *x = a->in[i];
        const uint32_t p = np_task_maker(b, task, i, x);
        const np_todo *maker = p == NP_NONE ? NULL : &b->tasks[p];
        if (maker && maker->phase == NP_RUN && !np_task_op(b, maker)->joins &&
            only_reader(b, p) == t && b->direct[maker->entry] == NP_NONE &&
            whole_storage(x))
            b->join[p] = (np_join){t, (uint64_t)(at * np_element_bytes((neap_dtype)a->dtype))};
        at += neap_array_size(x);
    }
}

bool np_find_joins(np_builder *b)
{
    b->join_bytes = b->n_tasks * sizeof *b->join;
    b->join = np_workspace_take(b->ctx, b->join_bytes);
    if (!b->join)
        return false;
    memset(b->join, 0xff, b->join_bytes);
    for (uint32_t t = 0; t < b->n_tasks; t++)
        place_parts(b, t);
    return true;
}

bool np_joins(const np_builder *b, const np_todo *t)
{
    uint32_t into = b->join[t - b->tasks].into;
    if (into == NP_NONE)
        return false;
    uint32_t g = b->fusion->group[into];
    return b->fusion->first[g] + 1 == b->fusion->first[g + 1]; /* a step of its own */
}

bool np_emit_part(np_builder *b, const np_todo *t, uint32_t *operand)
{
    const np_join *j = &b->join[t - b->tasks];
    const np_todo *whole = &b->tasks[j->into];
    np_entry *entry = &b->g->entries[whole->entry];
    uint32_t block;
    if (entry->operand == NP_NONE &&
        !np_emit_result(b, entry->array, b->direct[whole->entry], &entry->operand, &block))
        return false;
    const np_plan_operand made = b->operands[entry->operand];
    if (!np_emit_operand(b, b->g->entries[t->entry].array, (np_place_kind)made.kind, made.source,
                         made.storage_bytes, operand))
        return false;
    b->operands[*operand].offset = (int64_t)j->offset;
    return true;
}
