/* nodes_shape.c - views, joins, tiles and pads. */
#include <string.h>

#include "program/walk.h"
#include "neap/ops.h"

NP_BUILD(expand_dims)
{
    return np_put(w, n->out, neap_expand_dims(np_get(w, n->x), n->axis));
}

NP_BUILD(transpose)
{
    neap_array *x = np_get(w, n->x);
    if (!x)
        return false;
    if (n->perm.n != x->rank)
        return np_node_fail(w, NEAP_ESHAPE, "%u axes for %d dimensions", n->perm.n, x->rank);
    return np_put(w, n->out, neap_transpose(x, n->perm.at));
}

NP_BUILD(reshape)
{
    int64_t shape[NEAP_MAX_RANK];
    neap_array *x = np_get(w, n->x);
    return np_get_ints(w, &n->shape, shape, NEAP_MAX_RANK) &&
           np_put(w, n->out, neap_reshape(x, (int)n->shape.n, shape));
}

/* Listed dimensions that are not 1 stay; no list means every 1. */
NP_BUILD(squeeze)
{
    neap_array *x = np_get(w, n->x);
    bool drop[NEAP_MAX_RANK] = {false};
    if (!x)
        return false;
    for (int d = 0; d < x->rank; d++)
        drop[d] = n->dims.n == 0;
    for (uint32_t i = 0; i < n->dims.n; i++) {
        int axis;
        if (!np_node_axis(w, x, n->dims.at[i], &axis))
            return false;
        drop[axis] = true;
    }
    for (int d = x->rank - 1; d >= 0 && x; d--)
        if (drop[d] && x->shape[d] == 1 && x->dynamic_dim != d)
            x = neap_squeeze(x, d);
    return np_put(w, n->out, x);
}

/* -1 keeps the dimension of x, aligned at the right. */
NP_BUILD(broadcast_to)
{
    int64_t shape[NEAP_MAX_RANK];
    neap_array *x = np_get(w, n->x);
    int rank = (int)n->shape.n;
    if (!x || !np_get_ints(w, &n->shape, shape, NEAP_MAX_RANK))
        return false;
    for (int d = 0; d < rank; d++) {
        int own = d - (rank - x->rank);
        if (shape[d] == -1 && own >= 0)
            shape[d] = x->shape[own];
    }
    return np_put(w, n->out, neap_broadcast_to(x, rank, shape));
}

static bool join(np_walk *w, const np_tids *tensors, int32_t out, int axis,
                 neap_array *(*joined)(int n, neap_array *const *parts, int axis))
{
    neap_array *few[8], **parts = few;
    size_t bytes = tensors->n * sizeof *parts;
    if (tensors->n > 8 && !(parts = np_alloc(w->ctx, NEAP_MEM_GRAPH, bytes)))
        return false;
    for (uint32_t i = 0; i < tensors->n; i++)
        parts[i] = np_get(w, tensors->at[i]);
    bool ok = np_put(w, out, joined((int)tensors->n, parts, axis));
    if (parts != few)
        np_free(w->ctx, NEAP_MEM_GRAPH, parts, bytes);
    return ok;
}

NP_BUILD(concatenate)
{
    return join(w, &n->tensors, n->out, n->axis, neap_concat);
}

NP_BUILD(stack)
{
    return join(w, &n->tensors, n->out, n->axis, neap_stack);
}

/* One size: chunks of it, the last one shorter. Several: the sizes. */
NP_BUILD(split)
{
    neap_array *x = np_get(w, n->x);
    int axis;
    int64_t at = 0, size = 0;
    if (!x || !np_node_axis(w, x, n->axis, &axis))
        return false;
    bool chunks = n->sizes.n == 1;
    if (!chunks && n->sizes.n != n->outs.n)
        return np_node_fail(w, NEAP_ESHAPE, "%u sizes for %u results", n->sizes.n, n->outs.n);
    int64_t whole = x->shape[axis];
    neap_retain(x); /* a result may have x's number */
    bool ok = true;
    for (uint32_t i = 0; ok && i < n->outs.n; i++) {
        ok = np_get_int(w, n->sizes.at[chunks ? 0 : i], &size);
        int64_t end = at + size;
        if (ok && (size < 0 || (!chunks && end > whole) || (chunks && at >= whole && i > 0)))
            ok = np_node_fail(w, NEAP_ESHAPE, "results do not add up to %lld", (long long)whole);
        end = end < whole ? end : whole;
        ok = ok && np_put(w, n->outs.at[i], neap_narrow(x, axis, at, end));
        at = end;
    }
    neap_release(x);
    if (ok && at != whole)
        ok = np_node_fail(w, NEAP_ESHAPE, "results add up to %lld of %lld", (long long)at,
                          (long long)whole);
    return ok;
}

NP_BUILD(tile)
{
    int64_t reps[NEAP_MAX_RANK];
    neap_array *x = np_get(w, n->x);
    return np_get_ints(w, &n->reps, reps, NEAP_MAX_RANK) &&
           np_put(w, n->out, neap_tile(x, (int)n->reps.n, reps));
}

NP_BUILD(repeat)
{
    int64_t repeats;
    neap_array *x = np_get(w, n->x);
    return np_get_int(w, n->repeats, &repeats) &&
           np_put(w, n->out, neap_repeat(x, repeats, n->axis));
}

NP_BUILD(flip)
{
    int all[NEAP_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    neap_array *x = np_get(w, n->x);
    if (!x)
        return false;
    bool every = n->axes.n == 0;
    return np_put(w, n->out,
                  neap_flip(x, every ? x->rank : (int)n->axes.n, every ? all : n->axes.at));
}

/* Without axes the tensor is rolled as if flat. One shift serves every axis. */
NP_BUILD(roll)
{
    int64_t shifts[NEAP_MAX_RANK], flat = -1;
    int zero = 0;
    neap_array *x = np_get(w, n->x);
    if (!x || !np_get_ints(w, &n->shift, shifts, NEAP_MAX_RANK))
        return false;
    if (n->axes.n > NEAP_MAX_RANK || n->shift.n == 0 ||
        (n->axes.n && n->shift.n != 1 && n->shift.n != n->axes.n) || (!n->axes.n && n->shift.n != 1))
        return np_node_fail(w, NEAP_ESHAPE, "%u shifts for %u axes", n->shift.n, n->axes.n);
    for (uint32_t i = n->shift.n; i < n->axes.n; i++)
        shifts[i] = shifts[0];
    if (n->axes.n)
        return np_put(w, n->out, neap_roll(x, (int)n->axes.n, shifts, n->axes.at));
    neap_array *line = neap_roll(neap_reshape(neap_contiguous(x), 1, &flat), 1, shifts, &zero);
    return np_put(w, n->out, neap_reshape(line, x->rank, x->shape));
}

NP_BUILD(pad)
{
    int64_t width[2 * NEAP_MAX_RANK], before[NEAP_MAX_RANK], after[NEAP_MAX_RANK];
    neap_array *x = np_get(w, n->x);
    if (!x || !np_get_ints(w, &n->pad_width, width, 2 * NEAP_MAX_RANK))
        return false;
    if (n->pad_width.n != 2u * x->rank)
        return np_node_fail(w, NEAP_ESHAPE, "%u widths for %d dimensions", n->pad_width.n, x->rank);
    for (int d = 0; d < x->rank; d++) {
        before[d] = width[2 * d];
        after[d] = width[2 * d + 1];
    }
    if (strcmp(n->mode, "constant") == 0)
        return np_put(w, n->out, neap_pad(x, before, after, (double)n->constant_value));
    if (strcmp(n->mode, "edge") == 0)
        return np_put(w, n->out, neap_pad_edge(x, before, after));
    return np_node_fail(w, NEAP_EUNSUPPORTED, "mode %.40s, there are constant and edge", n->mode);
}

NP_BUILD(as_strided)
{
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    neap_array *x = np_get(w, n->x);
    if (!np_get_ints(w, &n->shape, shape, NEAP_MAX_RANK) ||
        !np_get_ints(w, &n->strides, strides, NEAP_MAX_RANK))
        return false;
    if (n->shape.n != n->strides.n || n->offset > INT64_MAX)
        return np_node_fail(w, NEAP_ESHAPE, "%u extents, %u strides, offset %llu", n->shape.n,
                            n->strides.n, (unsigned long long)n->offset);
    return np_put(w, n->out,
                  neap_as_strided(x, (int)n->shape.n, shape, strides, (int64_t)n->offset));
}

NP_BUILD(tril)
{
    return np_put(w, n->out, neap_tril(np_get(w, n->x), n->k));
}

NP_BUILD(triu)
{
    return np_put(w, n->out, neap_triu(np_get(w, n->x), n->k));
}
