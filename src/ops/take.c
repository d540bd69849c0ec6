/* take.c - rows along an axis at integer indices; rows of quantised weights come out as f32. */
#include <string.h>

#include "ops/support.h"

typedef struct np_take_attr {
    int32_t axis;
} np_take_attr;

static bool take_infer(neap_array *out)
{
    int a = ((const np_take_attr *)(const void *)out->attr)->axis;
    const neap_array *x = out->in[0], *indices = out->in[1];
    int rank = x->rank - 1 + indices->rank;
    if (rank > NEAP_MAX_RANK)
        return np_op_fail(out, NEAP_ESHAPE, "a result of %d dimensions, the limit is %d", rank,
                          NEAP_MAX_RANK);
    out->dtype = np_is_quantised(x->dtype) ? NEAP_F32 : x->dtype;
    out->rank = (uint8_t)rank;
    for (int d = 0; d < a; d++)
        out->shape[d] = x->shape[d];
    for (int d = 0; d < indices->rank; d++)
        out->shape[a + d] = indices->shape[d];
    for (int d = a + 1; d < x->rank; d++)
        out->shape[d - 1 + indices->rank] = x->shape[d];
    if (x->dynamic_dim == a || (x->dynamic_dim >= 0 && indices->dynamic_dim >= 0))
        return np_op_fail(out, NEAP_EUNSUPPORTED, "extent %s is set at run time", x->extent->name);
    if (x->dynamic_dim >= 0) {
        out->dynamic_dim = (int8_t)(x->dynamic_dim < a ? x->dynamic_dim
                                                       : x->dynamic_dim - 1 + indices->rank);
        out->extent = x->extent;
    } else if (indices->dynamic_dim >= 0) {
        out->dynamic_dim = (int8_t)(a + indices->dynamic_dim);
        out->extent = indices->extent;
    }
    return true;
}

/* ---- running -------------------------------------------------------------------------------- */

typedef struct np_take_job {
    const np_call *c;
    int axis;
    np_copy copy;   /* one row; unused for quantised weights */
    int64_t count;
    int64_t shape[NEAP_MAX_RANK];      /* the indices' */
    int64_t strides[2][NEAP_MAX_RANK]; /* of the indices, and of their dimensions in the result */
} np_take_job;

static void take_lane(void *arg, int lane, int lanes)
{
    const np_take_job *job = arg;
    const np_operand *x = job->c->in[0], *indices = job->c->in[1], *out = job->c->out;
    int64_t begin, end, index[NEAP_MAX_RANK], at[2], strides[2][NEAP_MAX_RANK];
    int64_t n = x->shape[job->axis], size = np_element_bytes(out->dtype);
    np_share(job->count, 1, lane, lanes, &begin, &end);
    if (begin == end)
        return;
    memcpy(strides, job->strides, sizeof strides);
    np_index_seek(indices->rank, job->shape, begin, index, 2, at, strides);
    for (; begin < end && !np_stop_at(begin); begin++) {
        int64_t row = np_load_index(indices, at[0]);
        row += row < 0 ? n : 0;
        uint8_t *to = out->data + at[1] * size;
        if (np_is_quantised(x->dtype))
            job->c->ctx->kernels->quant->dequant_row((float *)(void *)to, x->data, x->dtype, x->packed, n,
                                              x->shape[1], row);
        else
            np_copy_one(&job->copy, to, x->data + row * x->strides[job->axis] * size);
        np_index_next(indices->rank, job->shape, index, 2, at, strides);
    }
}

static neap_status check_indices(const np_take_job *job)
{
    const np_operand *indices = job->c->in[1];
    int64_t index[NEAP_MAX_RANK] = {0}, at[2] = {0, 0}, strides[2][NEAP_MAX_RANK];
    int64_t n = job->c->in[0]->shape[job->axis];
    memcpy(strides, job->strides, sizeof strides);
    for (int64_t i = 0; i < job->count; i++) {
        int64_t row = np_load_index(indices, at[0]);
        if (row < -n || row >= n)
            return np_fail(job->c->ctx, NEAP_EINVAL,
                           "take: index %lld (number %lld), the axis has %lld", (long long)row,
                           (long long)np_part_number(job->c, job->axis, indices->rank, i),
                           (long long)n);
        np_index_next(indices->rank, job->shape, index, 1, at, strides);
    }
    return NEAP_OK;
}

static neap_status take_run(const np_call *c)
{
    const np_operand *x = c->in[0], *indices = c->in[1], *out = c->out;
    int a = ((const np_take_attr *)c->attr)->axis, rest = 0;
    np_take_job job = {.c = c, .axis = a};
    for (int d = 0; d < indices->rank; d++) {
        job.shape[d] = out->shape[a + d];
        job.strides[0][d] = indices->strides[d];
        job.strides[1][d] = out->strides[a + d];
    }
    job.count = np_size(indices->rank, job.shape);
    neap_status status = check_indices(&job);
    if (status != NEAP_OK || np_size(out->rank, out->shape) == 0)
        return status;
    int64_t shape[NEAP_MAX_RANK], to[NEAP_MAX_RANK], from[NEAP_MAX_RANK];
    for (int d = 0; d < x->rank; d++) {
        if (d == a)
            continue;
        int od = d < a ? d : d - 1 + indices->rank;
        shape[rest] = out->shape[od];
        to[rest] = out->strides[od];
        from[rest++] = x->strides[d];
    }
    if (!np_is_quantised(x->dtype))
        job.copy = np_copy_make(np_element_bytes(x->dtype), rest, shape, to, from);
    if (np_size(out->rank, out->shape) >= NP_PARALLEL_ELEMENTS)
        np_pool_run(c->pool, take_lane, &job);
    else
        take_lane(&job, 0, 1);
    return NEAP_OK;
}

static int take_part(const np_call *shapes, int dim, uint32_t input)
{
    int a = ((const np_take_attr *)shapes->attr)->axis, behind = dim - a - shapes->in[1]->rank;
    if (dim >= a && behind < 0)
        return input == 1 ? dim - a : NP_PART_WHOLE;
    if (np_is_quantised(shapes->in[0]->dtype)) /* decoded by whole rows */
        return NP_PART_NONE;
    return input == 1 ? NP_PART_WHOLE : dim < a ? dim : a + 1 + behind;
}

const np_op np_op_take = {
    .name = "take", .arity = 2, .infer = take_infer, .run = take_run, .part = take_part};

neap_array *neap_take(neap_array *x, neap_array *indices, int axis)
{
    neap_array *in[2] = {x, indices};
    np_take_attr attr = {0};
    int a;
    if (!np_ready(2, in) || !np_axis("take", x, axis, &a))
        return NULL;
    attr.axis = a;
    if (!np_is_integer(indices->dtype))
        return np_refuse("take", 2, in, NEAP_EDTYPE, "indices must be integers");
    if (np_is_quantised(x->dtype) && (a != 0 || x->rank != 2))
        return np_refuse("take", 2, in, NEAP_EUNSUPPORTED,
                         "rows of quantised weights [N, K] can be taken, along axis 0");
    return np_node(&np_op_take, 2, in, &attr, sizeof attr);
}
