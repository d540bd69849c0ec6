/* fuse_task.c - one task as a member of a group: along which axes it can be cut, and whether a tile of what it
 * makes is what another one reads. */
#include "plan/fuse.h"

#include <string.h>

#include "ops/op_table.h"

enum {
    WHOLE_ELEMENTS = 65536, /* of what is read whole again for each tile, where all tiles read the same */
    WHOLE_OF_BATCH = 1 << 20 /* where each index of a leading axis has its own: attention's keys, values;
                                blocks of all lanes take less, if there are to be any */
};

static np_operand operand_of(const neap_array *a)
{
    np_operand o = {.dtype = a->dtype, .rank = a->rank, .packed = a->packed};
    memcpy(o.shape, a->shape, sizeof o.shape);
    memcpy(o.strides, a->strides, sizeof o.strides);
    return o;
}

void np_task_call_init(np_task_call *c, const np_builder *b, uint32_t task)
{
    const np_todo *t = &b->tasks[task];
    neap_array *a = b->g->entries[t->entry].array;
    uint32_t n;
    neap_array *const *in = np_task_inputs(b, t, &n);
    c->out = operand_of(a);
    if (t->phase != NP_RUN)
        np_row_major(a->rank, a->shape, c->out.strides);
    for (uint32_t i = 0; i < n; i++) {
        c->in[i] = operand_of(in[i]);
        c->at[i] = &c->in[i];
    }
    c->call = (np_call){.ctx = b->ctx, .op = np_task_op(b, t), .attr = a->attr, .n_in = n,
                        .in = c->at, .out = &c->out};
}

/* Weights that a product packs again for each part of its rows. */
static int64_t whole_elements(const np_call *c, int dim)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < c->n_in; i++) {
        const np_operand *o = c->in[i];
        if (np_op_part(c, dim, i) != NP_PART_WHOLE)
            continue;
        int64_t n = o->shape[o->rank - 1] * o->shape[o->rank - 2];
        most = n > most ? n : most;
    }
    return most;
}

/* Can all inputs be cut with this dimension of the result, or be read whole? */
static bool cuttable(const np_call *c, int dim, bool windows, bool *windowed)
{
    np_window w;
    *windowed = false;
    if (c->n_in == 0)
        return np_op_part(c, dim, 0) != NP_PART_NONE;
    for (uint32_t i = 0; i < c->n_in; i++) {
        const int part = windows ? np_op_window(c, dim, i, &w) : np_op_part(c, dim, i);
        if (part == NP_PART_NONE)
            return false;
        *windowed |= np_op_part(c, dim, i) == NP_PART_NONE;
    }
    return true;
}

/* Which dimension of an array is axis j: the j-th one of an extent other than 1. */
static int axis_dim(const neap_array *a, int j)
{
    for (int d = 0; d < a->rank; d++)
        if ((a->shape[d] != 1 || a->dynamic_dim == d) && j-- == 0)
            return d;
    return -1;
}

np_group_shape np_task_shape(const np_builder *b, uint32_t task, int n_axes, bool heavy)
{
    const neap_array *a = b->g->entries[b->tasks[task].entry].array;
    np_group_shape s = {.n_axes = (uint8_t)n_axes, .heavy = heavy};
    for (int j = 0; j < n_axes; j++) {
        int d = axis_dim(a, j);
        s.extent[j] = a->shape[d];
        s.param[j] = a->dynamic_dim == d ? a->extent : NULL;
    }
    return s;
}

void np_fuser_find_axes(np_fuser *f, uint32_t task)
{
    const np_builder *b = f->b;
    const np_todo *t = &b->tasks[task];
    const neap_array *a = b->g->entries[t->entry].array;
    uint32_t n;
    np_task_inputs(b, t, &n);
    f->axes[task] = 0;
    f->heavy[task] = f->windowed[task] = false;
    const np_op *op = np_task_op(b, t);
    if (f->barred[task] || t->phase != NP_RUN || n > NP_GROUP_INPUTS ||
        (op->flags & NP_OP_EFFECT) || (!op->part && !(op->flags & NP_OP_ELEMENTWISE)) ||
        np_size(a->rank, a->shape) == 0)
        return;
    np_task_call c;
    np_task_call_init(&c, b, task);
    bool moving = a->dynamic_dim >= 0, product = op == &np_op_matmul || op == &np_op_addmm;
    int64_t most = WHOLE_ELEMENTS;
    int axes = 0;
    for (int d = 0; d < a->rank && axes < NP_AXES; d++) {
        bool set_later = a->dynamic_dim == d;
        if (a->shape[d] == 1 && !set_later)
            continue;
        bool windowed;
        if (!cuttable(&c.call, d, f->windows && !set_later, &windowed))
            break;
        const int64_t whole = product ? whole_elements(&c.call, d) : 0;
        f->heavy[task] |= op->scratch && (!product || whole > most);
        most = whole == 0 && !f->streams ? WHOLE_OF_BATCH : most;
        axes++;
        moving &= !set_later;
        f->windowed[task] = windowed;
        if (windowed) /* the last one */
            break;
    }
    if (!moving) /* an extent that is set at run time must be one of the axes */
        f->axes[task] = (uint8_t)axes;
}

int np_task_axis(const np_builder *b, uint32_t task, uint8_t lacks, int axis)
{
    int j = axis;
    for (int k = 0; k < axis; k++)
        j -= lacks >> k & 1;
    return lacks >> axis & 1 ? -1 : axis_dim(b->g->entries[b->tasks[task].entry].array, j);
}

bool np_tile_serves(const np_fuser *f, uint32_t from, uint8_t lacks, uint32_t to, uint32_t i, int n_axes)
{
    const np_builder *b = f->b;
    const neap_array *made = b->g->entries[b->tasks[from].entry].array;
    uint32_t n;
    const neap_array *v = np_task_inputs(b, &b->tasks[to], &n)[i];
    np_task_call c;
    np_task_call_init(&c, b, to);
    if (v->shift || v->offset < 0 || v->extent != made->extent)
        return false;
    bool axis[NEAP_MAX_RANK] = {false};
    for (int j = 0; j < n_axes; j++) {
        int d = np_task_axis(b, from, lacks, j), r = np_task_axis(b, to, f->lacks[to], j);
        if (r < 0 && lacks >> j & 1)
            continue;
        np_window w = {.step = 1};
        int e = r < 0 ? -1 : f->windows ? np_op_window(&c.call, r, i, &w) : np_op_part(&c.call, r, i);
        if (np_is_window(&w) && (w.step != 1 || j + 1 < n_axes || v->dynamic_dim == e))
            return false;
        bool same = lacks >> j & 1
                        ? e >= 0 && v->strides[e] == 0
                        : d >= 0 && e >= 0 && v->shape[e] == made->shape[d] &&
                              v->strides[e] == made->strides[d] &&
                              (v->dynamic_dim < 0 || (v->dynamic_dim == e) == (made->dynamic_dim == d));
        if (!same)
            return false;
        axis[e] = true;
    }
    int64_t reach = v->base ? v->offset : 0;
    for (int d = 0; d < v->rank; d++) {
        if (axis[d])
            continue;
        if (v->strides[d] < 0 || v->dynamic_dim == d)
            return false;
        reach += (v->shape[d] - 1) * v->strides[d];
    }
    return reach < made->strides[np_task_axis(b, from, lacks, n_axes - 1)];
}
