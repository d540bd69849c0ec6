/* epilogue.c - what follows a large product and is done to its result block by block, as blocks are made.
 *
 * A product that cannot run in tiles hands each block that it has made to a chain of elementwise ops (bias,
 * activation, residual), which works in place: C is written once and never read again. The chain is
 * linear, each op reads the one before and nobody else does, and what else it reads lies in rows like C.
 * C is the last op's result and is written before the rest is read: it takes over nobody's place.
 * Running it: eval/finish.c. */
#include <string.h>

#include "plan/emit.h"
#include "plan/fuse.h"

enum {
    LEAST_ELEMENTS = 8192,   /* of the result or, */
    LEAST_WEIGHTS = 1 << 16, /* more, of the weights: below, a step of its own costs nothing */
    MOST_CHAIN = 16
};

/* ---- how operands lie -------------------------------------------------------------------------- */

/* Rows of x as those of the op's result, one after the other: adjacent elements, or one for a row. */
static bool flat_rows(const np_operand *x, np_chain_source *out)
{
    const int32_t size = (int32_t)np_element_bytes((neap_dtype)x->dtype);
    const int n = x->rank - 1;
    int64_t row = 0, unit = 1; /* rows that an index of dimension d moves over */
    if (x->shape[n] != 1 && x->strides[n] != 1 && x->strides[n] != 0)
        return false;
    for (int d = n - 1; d >= 0; d--) {
        if (x->shape[d] == 1)
            continue;
        if (unit == 1)
            row = x->strides[d];
        else if (x->strides[d] != row * unit)
            return false;
        unit *= x->shape[d];
    }
    *out = (np_chain_source){.size = size, .row = row * size, .one = x->shape[n] != 1 && x->strides[n] == 0};
    return true;
}

/* Does v see all of what the task made, row by row? */
static bool same_rows(const neap_array *made, const neap_array *v)
{
    if (v->shift || (v->base && v->offset) || v->rank == 0 || v->dtype != made->dtype ||
        v->dynamic_dim != made->dynamic_dim || v->extent != made->extent ||
        !np_is_row_major(v->rank, v->shape, v->strides) ||
        v->shape[v->rank - 1] != made->shape[made->rank - 1])
        return false;
    if (v->dynamic_dim >= 0)
        return np_same_shape(v, made);
    return np_size(v->rank, v->shape) == np_size(made->rank, made->shape);
}

/* ---- which ------------------------------------------------------------------------------------- */

/* The only task that reads the value; NP_NONE: none, several, or it is a result. */
static uint32_t only_reader(const np_builder *b, uint32_t task)
{
    uint32_t reader = NP_NONE;
    if (b->direct[b->tasks[task].entry] != NP_NONE)
        return NP_NONE;
    for (uint32_t k = b->out_first[task]; k < b->out_first[task + 1]; k++) {
        const np_edge *e = &b->edges[b->out[k]];
        if (!e->reads)
            continue;
        if (reader != NP_NONE && reader != e->to)
            return NP_NONE;
        reader = e->to;
    }
    return reader;
}

/* Can the task go on in place with what `before` made? */
static bool goes_on(np_fuser *f, uint32_t before, uint32_t task)
{
    const np_builder *b = f->b;
    const np_todo *t = &b->tasks[task];
    const neap_array *made = b->g->entries[b->tasks[before].entry].array,
                     *a = b->g->entries[t->entry].array;
    np_chain_source source;
    np_chain_op op = {0};
    np_task_call c;
    if (f->barred[task] || t->phase != NP_RUN || np_fuser_group(f, task) != task || f->size[task] != 1 ||
        !(a->op->flags & NP_OP_ELEMENTWISE) || !a->op->chain || a->n_in > 3 || !same_rows(made, a))
        return false;
    np_task_call_init(&c, b, task);
    for (uint32_t i = 0; i < a->n_in; i++)
        if (np_task_maker(b, t, i, a->in[i]) != before) {
            if (!flat_rows(&c.in[i], &source))
                return false;
        } else if (!(a->op->overwrites >> i & 1) || !same_rows(made, a->in[i])) {
            return false;
        }
    return a->op->chain(&c.call, &op);
}

/* A product that stays alone, and is large. */
static bool can_begin(np_fuser *f, uint32_t task)
{
    const np_builder *b = f->b;
    const np_todo *t = &b->tasks[task];
    const neap_array *a = b->g->entries[t->entry].array;
    if (f->barred[task] || t->phase != NP_RUN || !(a->op->flags & NP_OP_FINISHES) ||
        np_fuser_group(f, task) != task || f->size[task] != 1)
        return false;
    const neap_array *w = a->in[1];
    if (np_size(a->rank, a->shape) == 0)
        return false;
    return f->heavy[task] || (f->axes[task] == 0 &&
                              (np_size(a->rank, a->shape) >= LEAST_ELEMENTS ||
                               w->shape[w->rank - 2] * w->shape[w->rank - 1] > LEAST_WEIGHTS));
}

void np_fuse_epilogues(np_fuser *f)
{
    for (uint32_t t = 0; t < f->b->n_tasks; t++) {
        if (!can_begin(f, t))
            continue;
        uint32_t last = t, next;
        for (int n = 0; n < MOST_CHAIN; n++, last = next) {
            next = only_reader(f->b, last);
            if (next == NP_NONE || !goes_on(f, last, next) || !np_fuser_attach(f, t, next))
                break;
        }
    }
}

/* ---- its step ---------------------------------------------------------------------------------- */

typedef struct epilogue_layout {
    np_builder *b;
    const uint32_t *task;
    uint32_t n, first_member;
} epilogue_layout;

static np_member *member_at(const epilogue_layout *l, uint32_t m)
{
    return &l->b->members[l->first_member + m];
}

/* Where the last op's result lies, all lie: what is made on the way has no bytes. */
static bool add_result(const epilogue_layout *l, uint32_t m)
{
    np_builder *b = l->b;
    const np_todo *t = &b->tasks[l->task[m]];
    np_entry *entry = &b->g->entries[t->entry];
    np_member *member = member_at(l, m);
    uint32_t operand;
    const bool inner = m + 1 < l->n;
    if (inner && !np_emit_operand(b, entry->array, NP_IN_TILE, m, neap_array_bytes(entry->array), &operand))
        return false;
    if (!inner && np_joins(b, t) && !np_emit_part(b, t, &operand))
        return false;
    if (!inner && !np_joins(b, t) &&
        !np_emit_result(b, entry->array, b->direct[t->entry], &operand, &member->block))
        return false;
    entry->operand = operand;
    b->slots[member->first_slot].operand = operand;
    b->slots[member->first_slot].in_tile = inner;
    return true;
}

static bool add_member(const epilogue_layout *l, uint32_t m)
{
    np_builder *b = l->b;
    const np_todo *t = &b->tasks[l->task[m]];
    neap_array *a = b->g->entries[t->entry].array;
    uint32_t operand;
    if (!np_emit_member(b, a) || !np_emit_slot(b, 0))
        return false;
    for (uint32_t i = 0; i < a->n_in; i++)
        if (!np_emit_input(b, t, i, a->in[i], &operand) || !np_emit_slot(b, operand))
            return false;
    return add_result(l, m);
}

static bool add_place(const epilogue_layout *l, const np_operand *x, uint32_t slot, uint16_t *place)
{
    np_builder *b = l->b;
    np_member *head = member_at(l, 1);
    np_chain_source source;
    flat_rows(x, &source); /* which `goes_on` has seen */
    source.slot = slot;
    if (!np_builder_grow(b, &b->chain_places, &b->chain_places_capacity, b->n_chain_places + 1,
                 sizeof *b->chain_places))
        return false;
    b->chain_places[b->n_chain_places++] = source;
    *place = (uint16_t)head->n_places++;
    return true;
}

static bool add_chain_op(const epilogue_layout *l, uint32_t m)
{
    np_builder *b = l->b;
    const np_operand *in[NP_GROUP_INPUTS];
    const np_call call = np_member_call(b, l->first_member + m, in);
    const uint32_t slot = member_at(l, m)->first_slot;
    np_chain_op op = {.out = 0, .passed = m + 1 < l->n};
    call.op->chain(&call, &op);
    for (uint32_t i = 0; i < call.n_in; i++)
        if (!b->slots[slot + 1 + i].in_tile && !add_place(l, in[i], slot + 1 + i, &op.in[i]))
            return false;
    if (!np_builder_grow(b, &b->chain_ops, &b->chain_ops_capacity, b->n_chain_ops + 1, sizeof *b->chain_ops))
        return false;
    b->chain_ops[b->n_chain_ops++] = op;
    member_at(l, 1)->n_chain++;
    return true;
}

/* The chain, whose first place is C. */
static bool add_chain(const epilogue_layout *l)
{
    np_builder *b = l->b;
    np_member *head = member_at(l, 1);
    const uint32_t slot = member_at(l, l->n - 1)->first_slot;
    uint16_t c;
    head->first_op = b->n_chain_ops;
    head->first_place = b->n_chain_places;
    if (!add_place(l, &b->operands[b->slots[slot].operand].operand, slot, &c))
        return false;
    for (uint32_t m = 1; m < l->n; m++)
        if (!add_chain_op(l, m))
            return false;
    np_chain_place places[NP_EPILOGUE_PLACES] = {0};
    for (uint32_t i = 0; i < head->n_places; i++)
        places[i].one = b->chain_places[head->first_place + i].one;
    b->ctx->kernels->chain->prepare(b->chain_ops + head->first_op, (int)head->n_chain, places);
    return true;
}

_Static_assert(1 + 2 * MOST_CHAIN <= NP_EPILOGUE_PLACES, "each op reads two other operands at most");

bool np_emit_epilogue(np_builder *b, const np_fusion *fusion, uint32_t g)
{
    const epilogue_layout l = {.b = b, .task = fusion->task + fusion->first[g],
                               .n = fusion->first[g + 1] - fusion->first[g], .first_member = b->n_members};
    for (uint32_t m = 0; m < l.n; m++)
        if (!add_member(&l, m))
            return false;
    if (!add_chain(&l))
        return false;
    const np_group group = {.first_member = l.first_member, .n_members = l.n, .epilogue = true, .windows = NP_NONE,
                            .extents_of = b->slots[member_at(&l, l.n - 1)->first_slot].operand};
    const np_operand *in[NP_GROUP_INPUTS];
    np_call product = np_member_call(b, l.first_member, in);
    product.pool = b->ctx->pool;
    return np_emit_group_step(b, &group, product.op->scratch ? product.op->scratch(&product) : 0);
}
