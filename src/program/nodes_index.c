/* nodes_index.c - parts of tensors, read and replaced. An update of a mutable buffer that will be
 * written back is done in the buffer itself. */
#include <string.h>

#include "program/handle.h"
#include "program/uses.h"
#include "program/walk.h"
#include "neap/ops.h"

/* ---- slices ---------------------------------------------------------------------------------------- */

/* [start, stop) by `step` along an axis of `extent`, as Python resolves it. */
typedef struct span {
    int axis;
    int64_t extent, start, stop, step, length;
    neap_param *param; /* start is read from it; or NULL */
} span;

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* A negative index counts from the end, once. */
static void resolve(span *s)
{
    int64_t n = s->extent, down = s->step < 0 ? 1 : 0;
    s->start = clamp(s->start < 0 ? s->start + n : s->start, -down, n - down);
    s->stop = clamp(s->stop < 0 ? s->stop + n : s->stop, -down, n - down);
    int64_t way = s->step > 0 ? s->stop - s->start : s->start - s->stop;
    int64_t step = s->step > 0 ? s->step : -s->step;
    s->length = way > 0 ? (way + step - 1) / step : 0;
}

static bool find_axis(np_walk *w, const neap_array *x, np_int at, span *s)
{
    int64_t axis;
    if (!x || !np_get_int(w, at, &axis) || !np_node_axis(w, x, axis, &s->axis))
        return false;
    s->extent = x->shape[s->axis];
    return true;
}

/* Both ends move with one open number: the length is fixed. */
static bool moves(const span *s, const np_number *start, const np_number *stop)
{
    return s->step == 1 && start->read >= 0 && start->read == stop->read && start->value >= 0 &&
           stop->value >= start->value && stop->value <= s->extent;
}

static bool find_span(np_walk *w, const neap_array *x, np_int start, np_int stop, int32_t step,
                      bool may_move, span *s)
{
    np_number from, to;
    s->step = step;
    if (!np_get_number(w, start, &from) || !np_get_number(w, stop, &to))
        return false;
    if (step == 0)
        return np_node_fail(w, NEAP_EINVAL, "a step of 0");
    if (may_move && x->dynamic_dim < 0 && moves(s, &from, &to)) {
        s->length = to.value - from.value;
        s->param = np_open_param(w, &from, 0, s->extent - s->length);
        return s->param != NULL;
    }
    np_pin(w, &from);
    np_pin(w, &to);
    s->start = from.value;
    s->stop = to.value;
    resolve(s);
    return true;
}

static neap_array *part(neap_array *x, const span *s)
{
    if (s->param)
        return neap_narrow_at(x, s->axis, s->param, 0, s->length);
    if (s->length == 0)
        return neap_narrow(x, s->axis, 0, 0);
    if (s->step == 1)
        return neap_narrow(x, s->axis, s->start, s->stop);
    int64_t start[NEAP_MAX_RANK], stop[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
    for (int d = 0; d < x->rank; d++) {
        start[d] = d == s->axis ? s->start : 0;
        stop[d] = d == s->axis && s->stop >= 0 ? s->stop : NEAP_END;
        step[d] = d == s->axis ? s->step : 1;
    }
    return neap_slice(x, start, stop, step);
}

/* From the start to an open end: the extent is set at run time. */
static bool grows(np_walk *w, const neap_array *x, const span *s, const np_node_slice *n,
                  np_number *stop)
{
    np_number start;
    return n->step == 1 && x->dynamic_dim < 0 && !n->start.is_vid && n->start.value == 0 &&
           np_get_number(w, n->stop, stop) && np_get_number(w, n->start, &start) &&
           stop->read >= 0 && stop->value >= 0 && stop->value <= s->extent;
}

NP_BUILD(slice)
{
    neap_array *x = np_get(w, n->x);
    span s = {0};
    np_number stop;
    if (!find_axis(w, x, n->axis, &s))
        return false;
    if (grows(w, x, &s, n, &stop)) {
        neap_param *end = np_open_param(w, &stop, 0, s.extent);
        return end && np_put(w, n->out, neap_limit(x, s.axis, end));
    }
    if (x->dynamic_dim == s.axis && !np_node_fixed(w, x))
        return false;
    return find_span(w, x, n->start, n->stop, n->step, true, &s) && np_put(w, n->out, part(x, &s));
}

/* ---- updates ----------------------------------------------------------------------------------------- */

/* The buffer that dst is, if the result goes back into it and it may change at once. */
static neap_state *in_place(np_walk *w, const neap_array *dst)
{
    uint32_t i = (uint32_t)(w->node - w->g->chains[w->chain].nodes);
    int32_t to = w->d->uses->in_place[w->chain][i];
    neap_state **buffers, *s = np_newest_state(dst);
    if (w->frame || w->init || to < 0 || !s || np_delegate_buffers(w->d, &buffers) != NEAP_OK)
        return NULL;
    return s == buffers[(uint32_t)to - np_first_buffer(w->g)] ? s : NULL;
}

static neap_array *as_part(neap_array *update, const neap_array *dst, const span *s)
{
    int64_t shape[NEAP_MAX_RANK];
    if (!update)
        return NULL;
    memcpy(shape, dst->shape, sizeof shape);
    shape[s->axis] = s->length;
    if (update->dynamic_dim < 0)
        update = neap_broadcast_to(update, dst->rank, shape);
    return neap_cast(update, (neap_dtype)dst->dtype);
}

static neap_array *updated(neap_array *dst, neap_array *update, const span *s)
{
    int64_t start[NEAP_MAX_RANK], stop[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
    for (int d = 0; d < dst->rank; d++) {
        start[d] = d == s->axis ? s->start : 0;
        stop[d] = d == s->axis ? s->start + (s->length - 1) * s->step + 1 : NEAP_END;
        step[d] = d == s->axis ? s->step : 1;
    }
    return neap_slice_update(dst, update, start, stop, step);
}

NP_BUILD(slice_update)
{
    neap_array *dst = np_get(w, n->dst), *update = np_get(w, n->update);
    span s = {0};
    if (!update || !find_axis(w, dst, n->axis, &s))
        return false;
    if (n->step < 1)
        return np_node_fail(w, NEAP_EINVAL, "a step of %d, expected 1 or more", n->step);
    neap_state *state = in_place(w, dst);
    if (!find_span(w, dst, n->start, n->stop, n->step, state != NULL, &s))
        return false;
    if (s.length == 0)
        return np_put(w, n->out, dst);
    update = as_part(update, dst, &s);
    if (!state)
        return np_put(w, n->out, updated(dst, update, &s));
    return neap_state_write(part(dst, &s), update) && np_put(w, n->out, neap_state_read(state));
}

NP_BUILD(index_copy)
{
    neap_array *dst = np_get(w, n->dst), *update = np_get(w, n->update);
    neap_array *indices = np_get(w, n->indices);
    return np_put(w, n->out, neap_index_copy(dst, update, indices, n->axis));
}

/* ---- elements and rows -------------------------------------------------------------------------------- */

static bool take_one(np_walk *w, const np_node_take *n, neap_array *x)
{
    int axis;
    np_number at = {.set = true, .read = -1, .value = n->index.value};
    if (!np_node_axis(w, x, n->axis, &axis) ||
        (n->index.kind == NP_INDEX_VID && !np_get_vid(w, (uint32_t)n->index.value, &at)))
        return false;
    int64_t extent = x->shape[axis], i = at.value < 0 ? at.value + extent : at.value;
    if (i < 0 || i >= extent)
        return np_node_fail(w, NEAP_EINVAL, "index %lld, the dimension has %lld",
                            (long long)at.value, (long long)extent);
    if (at.read >= 0 && at.value >= 0 && x->dynamic_dim < 0) {
        neap_param *p = np_open_param(w, &at, 0, extent - 1);
        return p && np_put(w, n->out, neap_squeeze(neap_narrow_at(x, axis, p, 0, 1), axis));
    }
    np_pin(w, &at);
    return np_put(w, n->out, neap_squeeze(neap_narrow(x, axis, i, i + 1), axis));
}

NP_BUILD(take)
{
    neap_array *x = np_get(w, n->x);
    if (!x)
        return false;
    if (n->index.kind == NP_INDEX_TID)
        return np_put(w, n->out, neap_take(x, np_get(w, n->index.value), n->axis));
    return take_one(w, n, x);
}

NP_BUILD(take_along_axis)
{
    neap_array *x = np_get(w, n->x);
    return np_put(w, n->out, neap_take_along_axis(x, np_get(w, n->indices), n->axis));
}

NP_BUILD(gather)
{
    neap_array *x = np_get(w, n->x), *indices[NEAP_MAX_RANK];
    int64_t sizes[NEAP_MAX_RANK];
    if (!x)
        return false;
    if (n->indices.n > NEAP_MAX_RANK || n->indices.n != n->axes.n || n->slice_sizes.n != x->rank)
        return np_node_fail(w, NEAP_ESHAPE, "%u indices, %u axes, %u slice sizes for %d dimensions",
                            n->indices.n, n->axes.n, n->slice_sizes.n, x->rank);
    for (uint32_t i = 0; i < n->indices.n; i++)
        indices[i] = np_get(w, n->indices.at[i]);
    for (uint32_t i = 0; i < n->slice_sizes.n; i++)
        sizes[i] = n->slice_sizes.at[i];
    return np_put(w, n->out, neap_gather(x, (int)n->indices.n, indices, n->axes.at, sizes));
}

NP_BUILD(scatter_add)
{
    neap_array *x = np_get(w, n->x), *indices = np_get(w, n->indices);
    return np_put(w, n->out, neap_scatter_add(x, indices, np_get(w, n->updates), n->axis));
}
