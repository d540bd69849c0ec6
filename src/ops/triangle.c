/* triangle.c - the lower and the upper triangle of matrices, the last two dimensions: a copy, then
 * zeros over the rest of each row. A triangle of ones is that of a matrix of ones. */
#include <string.h>

#include "ops/support.h"

typedef struct np_triangle_attr {
    int64_t k; /* the diagonal: row i keeps columns up to, or from, i + k */
} np_triangle_attr;

static bool triangle_infer(neap_array *out)
{
    np_infer_like(out, out->in[0]);
    out->dtype = out->in[0]->dtype;
    return out->rank >= 2 || np_op_fail(out, NEAP_ESHAPE, "expected at least 2 dimensions");
}

static neap_status run_triangle(const np_call *c, bool upper)
{
    const np_operand *x = c->in[0], *out = c->out;
    int64_t k = ((const np_triangle_attr *)c->attr)->k, size = np_element_bytes(out->dtype);
    int64_t columns = out->shape[out->rank - 1], count = np_size(out->rank - 1, out->shape);
    int64_t index[NEAP_MAX_RANK] = {0}, at[1] = {0}, strides[1][NEAP_MAX_RANK];
    np_copy copy = np_copy_make(size, out->rank, out->shape, out->strides, x->strides);
    np_copy_all(&copy, c->pool, out->data, x->data);
    if (copy.empty)
        return NEAP_OK;
    memcpy(strides[0], out->strides, sizeof strides[0]);
    for (; count > 0 && !np_stop_at(count); count--) {
        int64_t edge = np_part_first(c, out->rank - 2) + index[out->rank - 2] + k + !upper -
                       np_part_first(c, out->rank - 1);
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        int64_t begin = upper ? 0 : edge, end = upper ? edge : columns;
        memset(out->data + (at[0] + begin) * size, 0, (size_t)((end - begin) * size));
        np_index_next(out->rank - 1, out->shape, index, 1, at, strides);
    }
    return NEAP_OK;
}

static neap_status tril_run(const np_call *c)
{
    return run_triangle(c, false);
}

static neap_status triu_run(const np_call *c)
{
    return run_triangle(c, true);
}

const np_op np_op_tril = {.name = "tril", .arity = 1, .flags = NP_OP_CHEAP, .overwrites = 1,
                          .infer = triangle_infer, .run = tril_run, .part = np_part_every};
const np_op np_op_triu = {.name = "triu", .arity = 1, .flags = NP_OP_CHEAP, .overwrites = 1,
                          .infer = triangle_infer, .run = triu_run, .part = np_part_every};

static neap_array *build(const np_op *op, neap_array *x, int64_t k)
{
    const int64_t far = (int64_t)1 << 62; /* beyond any column, and i + k stays a number */
    np_triangle_attr attr = {k > far ? far : k < -far ? -far : k};
    if (!np_ready(1, &x) || !np_plain_dtype(op->name, x))
        return NULL;
    return np_node(op, 1, &x, &attr, sizeof attr);
}

neap_array *neap_tril(neap_array *x, int64_t k)
{
    return build(&np_op_tril, x, k);
}

neap_array *neap_triu(neap_array *x, int64_t k)
{
    return build(&np_op_triu, x, k);
}

neap_array *neap_tri(int64_t n, int64_t m, int64_t k, neap_dtype dtype)
{
    return neap_tril(neap_full(2, (int64_t[]){n, m}, 1, dtype), k);
}
