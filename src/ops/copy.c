/* copy.c - ops that move elements: contiguous, concat, slice_update; split, pad on them. */
#include <string.h>

#include "ops/support.h"

/* ---- contiguous ----------------------------------------------------------------------------- */

static void copy_operand(const np_call *c, const np_operand *from, void *to,
                         const int64_t *to_strides)
{
    np_copy copy = np_copy_make(np_element_bytes(c->out->dtype), from->rank, from->shape,
                                to_strides, from->strides);
    np_copy_all(&copy, c->pool, to, from->data);
}

static neap_status contiguous_run(const np_call *c)
{
    np_copy copy = np_copy_make(np_element_bytes(c->out->dtype), c->out->rank, c->out->shape,
                                c->out->strides, c->in[0]->strides);
    np_copy_all(&copy, c->pool, c->out->data, c->in[0]->data);
    return NEAP_OK;
}

const np_op np_op_contiguous = {.name = "contiguous", .arity = 1, .flags = NP_OP_CHEAP,
                                .infer = np_infer_same, .run = contiguous_run,
                                .part = np_part_every};

neap_array *np_copied(neap_array *x)
{
    return np_node(&np_op_contiguous, 1, &x, NULL, 0);
}

neap_array *neap_contiguous(neap_array *x)
{
    if (!np_ready(1, &x))
        return NULL;
    const neap_array *s = np_storage(x);
    if (np_is_row_major(x->rank, x->shape, x->strides) && x->offset == 0 && !x->shift &&
        neap_array_size(x) == neap_array_size(s))
        return x;
    return np_plain_dtype("contiguous", x) ? np_copied(x) : NULL;
}

/* ---- concat --------------------------------------------------------------------------------- */

typedef struct np_concat_attr {
    int32_t axis;
} np_concat_attr;

static bool concat_infer(neap_array *out)
{
    int a = ((const np_concat_attr *)out->attr)->axis;
    const neap_array *first = out->in[0];
    np_infer_like(out, first);
    out->dtype = first->dtype;
    for (uint32_t i = 0; i < out->n_in; i++) {
        const neap_array *x = out->in[i];
        if (x->rank != first->rank)
            return np_op_fail(out, NEAP_ESHAPE, "part %u has %d dimensions, part 0 has %d", i,
                              x->rank, first->rank);
        for (int d = 0; d < x->rank; d++)
            if (d != a && x->shape[d] != first->shape[d])
                return np_op_fail(out, NEAP_ESHAPE,
                                  "part %u has %lld along dimension %d, part 0 has %lld", i,
                                  (long long)x->shape[d], d, (long long)first->shape[d]);
        if (x->dynamic_dim == a || x->dynamic_dim != first->dynamic_dim ||
            (x->dynamic_dim >= 0 && x->extent != first->extent))
            return np_op_fail(out, NEAP_EUNSUPPORTED, "part %u has an extent set at run time", i);
        if (i > 0 && __builtin_add_overflow(out->shape[a], x->shape[a], &out->shape[a]))
            return np_op_fail(out, NEAP_ELIMIT, "more than 2^62 elements");
    }
    return true;
}

static neap_status concat_run(const np_call *c)
{
    int a = ((const np_concat_attr *)c->attr)->axis;
    uint8_t *to = c->out->data;
    for (uint32_t i = 0; i < c->n_in; i++) {
        if (c->in[i]->data != to) /* else it was made there */
            copy_operand(c, c->in[i], to, c->out->strides);
        to += c->in[i]->shape[a] * c->out->strides[a] * np_element_bytes(c->out->dtype);
    }
    return NEAP_OK;
}

static int concat_part(const np_call *shapes, int dim, uint32_t input)
{
    (void)input;
    return dim == ((const np_concat_attr *)shapes->attr)->axis ? NP_PART_NONE : dim;
}

/* Along the first dimension that has more than one index. */
static bool concat_joins(const neap_array *out)
{
    const int axis = ((const np_concat_attr *)(const void *)out->attr)->axis;
    for (int d = 0; d < axis; d++)
        if (out->shape[d] != 1)
            return false;
    return out->dynamic_dim < 0;
}

const np_op np_op_concat = {.name = "concat", .arity = -1, .infer = concat_infer,
                            .run = concat_run, .part = concat_part, .joins = concat_joins};

neap_array *neap_concat(int n, neap_array *const *parts, int axis)
{
    neap_dtype dtype;
    if (n <= 0 || !parts)
        return np_refuse("concat", 0, NULL, NEAP_EINVAL, "%d parts, expected 1 or more", n);
    np_concat_attr attr;
    if (!np_ready((uint32_t)n, parts) || !np_axis("concat", parts[0], axis, &attr.axis) ||
        !np_promote_all("concat", (uint32_t)n, parts, &dtype))
        return NULL;
    if (n == 1)
        return parts[0];
    neap_context *ctx = np_scope_context();
    size_t bytes = (size_t)n * sizeof(neap_array *);
    neap_array **in = np_alloc(ctx, NEAP_MEM_GRAPH, bytes);
    if (!in)
        return NULL;
    for (int i = 0; i < n; i++)
        in[i] = neap_cast(parts[i], dtype);
    neap_array *out = np_node(&np_op_concat, (uint32_t)n, in, &attr, sizeof attr);
    np_free(ctx, NEAP_MEM_GRAPH, in, bytes);
    return out;
}

static neap_status split(neap_array *x, int n, int axis, neap_array **parts)
{
    int a;
    if (!np_ready(1, &x) || !np_axis("split", x, axis, &a))
        return np_refused();
    if (n <= 0 || x->shape[a] % n != 0) {
        np_refuse("split", 1, &x, NEAP_ESHAPE, "%lld along axis %d in %d equal parts",
                  (long long)x->shape[a], a, n);
        return np_refused();
    }
    int64_t each = x->shape[a] / n;
    for (int i = 0; i < n; i++) {
        parts[i] = neap_narrow(x, a, i * each, (i + 1) * each);
        if (!parts[i])
            return np_refused();
    }
    return NEAP_OK;
}

neap_status neap_split(neap_array *x, int n, int axis, neap_array **parts)
{
    for (int i = 0; parts && i < n; i++)
        parts[i] = NULL;
    return NP_CALL(np_scope_context(), parts || n <= 0, split(x, n, axis, parts));
}

/* ---- slice_update --------------------------------------------------------------------------- */

typedef struct np_slice_update_attr {
    int64_t offset; /* elements of the row-major result */
    int64_t strides[NEAP_MAX_RANK];
} np_slice_update_attr;

static neap_status slice_update_run(const np_call *c)
{
    const np_slice_update_attr *attr = c->attr;
    if (c->in[0]->data != c->out->data)
        copy_operand(c, c->in[0], c->out->data, c->out->strides);
    uint8_t *to = c->out->data + attr->offset * np_element_bytes(c->out->dtype);
    copy_operand(c, c->in[1], to, attr->strides);
    return NEAP_OK;
}

const np_op np_op_slice_update = {.name = "slice_update", .arity = 2, .overwrites = 1,
                                  .infer = np_infer_same, .run = slice_update_run};

neap_array *neap_slice_update(neap_array *x, neap_array *update, const int64_t *start,
                              const int64_t *stop, const int64_t *step)
{
    neap_array *in[2] = {x, update};
    np_region r;
    np_extents e;
    int64_t strides[NEAP_MAX_RANK];
    if (!np_ready(2, in) || !np_plain_dtype("slice_update", x) ||
        !np_plain_dtype("slice_update", update) ||
        !np_slice_region("slice_update", x, start, stop, step, &r))
        return NULL;
    np_slice_update_attr attr;
    memset(&attr, 0, sizeof attr);
    np_row_major(x->rank, x->shape, strides);
    e = np_extents_of(x);
    for (int d = 0; d < x->rank; d++) {
        attr.offset += r.first[d] * strides[d];
        attr.strides[d] = strides[d] * r.step[d];
        e.shape[d] = r.shape[d];
    }
    if (update->dynamic_dim >= 0 && (x->dynamic_dim < 0 || update->extent != x->extent))
        return np_refuse("slice_update", 2, in, NEAP_EUNSUPPORTED,
                         "the update's extent %s is set at run time", update->extent->name);
    update = np_broadcast_view("slice_update", neap_cast(update, (neap_dtype)x->dtype), &e);
    return np_node(&np_op_slice_update, 2, (neap_array *[]){x, update}, &attr, sizeof attr);
}

/* ---- pad ------------------------------------------------------------------------------------ */

neap_array *np_cropped(const char *op, neap_array *x, const int64_t *before, const int64_t *after,
                       int64_t *add_before, int64_t *add_after)
{
    for (int d = 0; x && d < x->rank; d++) {
        const int64_t n = x->shape[d];
        const int64_t low = before[d] < 0 ? before[d] : 0, high = after[d] < 0 ? after[d] : 0;
        add_before[d] = before[d] > 0 ? before[d] : 0;
        add_after[d] = after[d] > 0 ? after[d] : 0;
        if (low < -n || high < -n || low + high < -n)
            return np_refuse(op, 1, &x, NEAP_ESHAPE, "%lld before and %lld after dimension %d",
                             (long long)before[d], (long long)after[d], d);
        if (low || high)
            x = neap_narrow(x, d, -low, n + high);
    }
    return x;
}

neap_array *neap_pad(neap_array *x, const int64_t *before, const int64_t *after, double value)
{
    int64_t shape[NEAP_MAX_RANK], stop[NEAP_MAX_RANK], start[NEAP_MAX_RANK], more[NEAP_MAX_RANK];
    bool any = false;
    if (!np_ready(1, &x) || !np_plain_dtype("pad", x))
        return NULL;
    if (x->rank == 0)
        return x;
    if (!before || !after)
        return np_refuse("pad", 1, &x, NEAP_EINVAL, "no widths");
    if (!(x = np_cropped("pad", x, before, after, start, more)))
        return NULL;
    for (int d = 0; d < x->rank; d++) {
        if (__builtin_add_overflow(x->shape[d], start[d], &stop[d]) ||
            __builtin_add_overflow(stop[d], more[d], &shape[d]))
            return np_refuse("pad", 1, &x, NEAP_ESHAPE, "%lld before and %lld after dimension %d",
                             (long long)before[d], (long long)after[d], d);
        any |= start[d] > 0 || more[d] > 0;
    }
    if (!any)
        return x;
    if (x->dynamic_dim >= 0)
        return np_refuse("pad", 1, &x, NEAP_EUNSUPPORTED, "extent %s is set at run time",
                         x->extent->name);
    neap_array *all = neap_full(x->rank, shape, value, (neap_dtype)x->dtype);
    return all ? neap_slice_update(all, x, start, stop, NULL) : NULL;
}
