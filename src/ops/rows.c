/* rows.c - ops over the elements of a row, the last dimension: softmax, rms_norm, layer_norm.
 *
 * A row's elements must be adjacent; rows may lie anywhere. Whole rows are shared out to the lanes.
 */
#include <string.h>

#include "ops/row_op.h"
#include "ops/support.h"

typedef struct np_rows_attr {
    float eps;
    int32_t has_weight, has_bias;
} np_rows_attr;

/* ---- running -------------------------------------------------------------------------------- */

typedef struct np_rows_job {
    np_rows_fn fn;
    np_rows_args args; /* of the first group of rows */
    int outer;         /* dimensions before the group's */
    int64_t shape[NEAP_MAX_RANK];
    int64_t strides[2][NEAP_MAX_RANK]; /* result, x; in elements */
    int64_t size, n_rows;              /* bytes an element; rows in all */
} np_rows_job;

static void rows_lane(void *arg, int lane, int lanes)
{
    const np_rows_job *job = arg;
    int64_t begin, end, index[NEAP_MAX_RANK], offset[2], strides[2][NEAP_MAX_RANK];
    np_share(job->n_rows, 1, lane, lanes, &begin, &end);
    memcpy(strides, job->strides, sizeof strides);
    np_rows_args args = job->args;
    while (begin < end) {
        int64_t group = begin / job->args.rows, first = begin % job->args.rows;
        args.rows = job->args.rows - first < end - begin ? job->args.rows - first : end - begin;
        np_index_seek(job->outer, job->shape, group, index, 2, offset, strides);
        int64_t to = offset[0] + first * args.out_stride, from = offset[1] + first * args.x_stride;
        args.out = (uint8_t *)job->args.out + to * job->size;
        args.x = (const uint8_t *)job->args.x + from * job->size;
        job->fn(&args);
        begin += args.rows;
    }
}

static neap_status run_rows(const np_call *c, const np_rows_fn *table)
{
    const np_rows_attr *attr = c->attr;
    const np_operand *x = c->in[0], *out = c->out;
    np_rows_job job = {.fn = table[x->dtype], .size = np_element_bytes(x->dtype)};
    int last = out->rank - 1;
    if (np_size(out->rank, out->shape) == 0)
        return NEAP_OK;
    memcpy(job.shape, out->shape, sizeof job.shape);
    memcpy(job.strides[0], out->strides, sizeof out->strides);
    memcpy(job.strides[1], x->strides, sizeof x->strides);
    int groups = np_collapse(last, job.shape, 2, job.strides);
    job.outer = groups > 0 ? groups - 1 : 0;
    job.args = (np_rows_args){.out = out->data, .x = x->data, .n = out->shape[last],
                              .rows = groups ? job.shape[job.outer] : 1, .eps = attr->eps};
    job.args.out_stride = groups ? job.strides[0][job.outer] : 0;
    job.args.x_stride = groups ? job.strides[1][job.outer] : 0;
    if (attr->has_weight)
        job.args.weight = c->in[1]->data;
    if (attr->has_bias)
        job.args.bias = c->in[1 + attr->has_weight]->data;
    job.n_rows = np_size(last, out->shape);
    if (np_size(out->rank, out->shape) >= NP_PARALLEL_ELEMENTS)
        np_pool_run(c->pool, rows_lane, &job);
    else
        rows_lane(&job, 0, 1);
    return NEAP_OK;
}

/* A part is whole rows. */
static int rows_part(const np_call *shapes, int dim, uint32_t input)
{
    if (dim == shapes->out->rank - 1)
        return NP_PART_NONE;
    return input == 0 ? dim : NP_PART_WHOLE;
}

static double softmax_flops(const np_call *shapes)
{
    return np_flops_result(shapes, 10);
}

static double norm_flops(const np_call *shapes)
{
    return np_flops_result(shapes, 5);
}

static bool fill_row(const np_call *shapes, const np_rows_fn *table, np_row_op *out)
{
    const np_rows_attr *attr = shapes->attr;
    *out = (np_row_op){.rows = table[shapes->in[0]->dtype], .eps = attr->eps,
                       .weight = attr->has_weight, .bias = attr->has_bias};
    return out->rows != NULL;
}

#define ROW(op)                                                                                    \
    static bool op##_row(const np_call *shapes, np_row_op *out)                                    \
    {                                                                                              \
        return fill_row(shapes, shapes->ctx->kernels->row->op, out);                               \
    }
ROW(softmax)
ROW(rms_norm)
ROW(layer_norm)

/* ---- softmax -------------------------------------------------------------------------------- */

static neap_status softmax_run(const np_call *c)
{
    return run_rows(c, c->ctx->kernels->row->softmax);
}

const np_op np_op_softmax = {.name = "softmax", .arity = 1, .overwrites = 1, .infer = np_infer_same,
                             .run = softmax_run, .part = rows_part, .flops = softmax_flops,
                             .row = softmax_row};

static neap_array *as_float(const char *op, neap_array *x)
{
    if (!np_ready(1, &x) || !np_plain_dtype(op, x))
        return NULL;
    return np_is_float(x->dtype) ? x : neap_cast(x, NEAP_F32);
}

neap_array *neap_softmax(neap_array *x, int axis)
{
    int a;
    np_rows_attr attr;
    memset(&attr, 0, sizeof attr);
    x = as_float("softmax", x);
    if (!x || !np_axis("softmax", x, axis, &a))
        return NULL;
    neap_array *rows = np_adjacent(a == x->rank - 1 ? x : neap_swap_axes(x, a, -1));
    if (!rows)
        return NULL;
    if (rows->dynamic_dim == rows->rank - 1)
        return np_refuse("softmax", 1, &x, NEAP_EUNSUPPORTED,
                         "the extent of axis %d is set at run time", a);
    neap_array *y = np_node(&np_op_softmax, 1, &rows, &attr, sizeof attr);
    return a == x->rank - 1 ? y : neap_swap_axes(y, a, -1);
}

/* ---- norms ---------------------------------------------------------------------------------- */

static neap_status rms_norm_run(const np_call *c)
{
    return run_rows(c, c->ctx->kernels->row->rms_norm);
}

static neap_status layer_norm_run(const np_call *c)
{
    return run_rows(c, c->ctx->kernels->row->layer_norm);
}

const np_op np_op_rms_norm = {.name = "rms_norm", .arity = -1, .overwrites = 1, .infer = np_infer_same,
                              .run = rms_norm_run, .part = rows_part, .flops = norm_flops,
                              .row = rms_norm_row};
const np_op np_op_layer_norm = {.name = "layer_norm", .arity = -1, .overwrites = 1,
                                .infer = np_infer_same, .run = layer_norm_run, .part = rows_part,
                                .flops = norm_flops, .row = layer_norm_row};

static neap_array *norm(const np_op *op, neap_array *x, neap_array *weight, neap_array *bias,
                        float eps)
{
    neap_array *in[3];
    uint32_t n = 1;
    np_rows_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.eps = eps;
    x = as_float(op->name, x);
    if (!x)
        return NULL;
    if (x->rank == 0 || x->dynamic_dim == x->rank - 1)
        return np_refuse(op->name, 1, &x, x->rank ? NEAP_EUNSUPPORTED : NEAP_ESHAPE,
                         x->rank ? "the last extent is set at run time"
                                 : "no dimension to norm over");
    in[0] = np_adjacent(x);
    for (int i = 0; i < 2; i++) {
        neap_array *w = i ? bias : weight;
        if (!w)
            continue;
        if (w->rank != 1 || w->shape[0] != x->shape[x->rank - 1] || w->dynamic_dim >= 0)
            return np_refuse(op->name, 2, (neap_array *[]){x, w}, NEAP_ESHAPE,
                             "the %s must have one dimension of %lld", i ? "bias" : "weight",
                             (long long)x->shape[x->rank - 1]);
        in[n++] = np_adjacent(neap_cast(w, (neap_dtype)x->dtype));
    }
    attr.has_weight = weight != NULL;
    attr.has_bias = bias != NULL;
    return np_node(op, n, in, &attr, sizeof attr);
}

neap_array *neap_rms_norm(neap_array *x, neap_array *weight, float eps)
{
    return norm(&np_op_rms_norm, x, weight, NULL, eps);
}

neap_array *neap_layer_norm(neap_array *x, neap_array *weight, neap_array *bias, float eps)
{
    return norm(&np_op_layer_norm, x, weight, bias, eps);
}
