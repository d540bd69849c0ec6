/* reduce.c - reductions over one axis; sum over all. Over several axes: reduce_axes.c.
 *
 * The kernel's tree of additions follows the index along the axis alone, so lanes share out the
 * other dimensions only, and neither strides nor lanes change a bit. */
#include <string.h>

#include "ops/reduce.h"
#include "ops/row_op.h"

typedef struct np_reduce_attr {
    int32_t axis, keepdims;
    int64_t ddof; /* of var and std */
} np_reduce_attr;

/* ---- shapes --------------------------------------------------------------------------------- */

static bool reduced_shape(neap_array *out)
{
    const np_reduce_attr *attr = (const void *)out->attr;
    const neap_array *x = out->in[0];
    np_infer_like(out, x);
    if (out->dynamic_dim == attr->axis) {
        out->dynamic_dim = -1;
        out->extent = NULL;
    }
    if (attr->keepdims) {
        out->shape[attr->axis] = 1;
        return true;
    }
    out->rank--;
    for (int d = attr->axis; d < out->rank; d++)
        out->shape[d] = x->shape[d + 1];
    if (out->dynamic_dim > attr->axis)
        out->dynamic_dim--;
    return true;
}

static bool sum_infer(neap_array *out)
{
    out->dtype = np_is_float(out->in[0]->dtype) ? out->in[0]->dtype : NEAP_I64;
    return reduced_shape(out);
}

static bool mean_infer(neap_array *out)
{
    out->dtype = out->in[0]->dtype;
    return reduced_shape(out);
}

/* An axis of extent 0 has no largest element, which matters unless the result is empty anyway. */
static bool extreme_shape(neap_array *out)
{
    int a = ((const np_reduce_attr *)(const void *)out->attr)->axis;
    if (!reduced_shape(out))
        return false;
    if (out->in[0]->shape[a] == 0 && np_size(out->rank, out->shape) > 0)
        return np_op_fail(out, NEAP_ESHAPE, "axis %d has extent 0", a);
    return true;
}

static bool max_infer(neap_array *out)
{
    out->dtype = out->in[0]->dtype;
    return extreme_shape(out);
}

static bool argmax_infer(neap_array *out)
{
    int a = ((const np_reduce_attr *)(const void *)out->attr)->axis;
    out->dtype = NEAP_I32;
    if (out->in[0]->shape[a] > INT32_MAX)
        return np_op_fail(out, NEAP_ELIMIT, "axis %d has more than 2^31 - 1 elements", a);
    return extreme_shape(out);
}

/* ---- running -------------------------------------------------------------------------------- */

typedef struct np_reduce_job {
    np_reduce_fn fn;
    np_var_fn var; /* instead of fn */
    int64_t ddof;
    bool root;
    np_reduce_args args; /* outer and inner are the last dimensions that make one dense block */
    int rest;            /* dimensions before them */
    int64_t shape[NEAP_MAX_RANK];
    int64_t strides[2][NEAP_MAX_RANK]; /* result, x */
    int64_t out_size, x_size;
} np_reduce_job;

/* One lane's share of the largest of rest, outer and inner; the others whole. */
static void reduce_lane(void *arg, int lane, int lanes)
{
    const np_reduce_job *job = arg;
    np_reduce_args a = job->args;
    int64_t index[NEAP_MAX_RANK], at[2], strides[2][NEAP_MAX_RANK];
    int64_t begin = 0, end, first = 0, blocks = np_size(job->rest, job->shape), last = blocks;
    int64_t to = 0, from = 0;
    memcpy(strides, job->strides, sizeof strides);
    if (blocks >= a.outer && blocks >= a.inner) {
        np_share(blocks, 1, lane, lanes, &first, &last);
    } else if (a.outer >= a.inner) {
        np_share(a.outer, 1, lane, lanes, &begin, &end);
        a.outer = end - begin;
        to = begin * a.inner;
        from = begin * a.outer_stride;
    } else { /* outer is 1 */
        np_share(a.inner, 64, lane, lanes, &begin, &end);
        a.inner = end - begin;
        to = begin;
        from = begin * a.inner_stride;
    }
    if (first >= last || a.outer == 0 || a.inner == 0)
        return;
    np_index_seek(job->rest, job->shape, first, index, 2, at, strides);
    for (; first < last; first++) {
        a.out = (uint8_t *)job->args.out + (at[0] + to) * job->out_size;
        a.x = (const uint8_t *)job->args.x + (at[1] + from) * job->x_size;
        if (job->var)
            job->var(&a, job->ddof, job->root);
        else
            job->fn(&a);
        np_index_next(job->rest, job->shape, index, 2, at, strides);
    }
}

/* Takes the last of the job's dimensions as the kernel's inner or outer one. */
static void take_last(np_reduce_job *job, int64_t *extent, int64_t *x_stride)
{
    job->rest--;
    *extent = job->shape[job->rest];
    *x_stride = job->strides[1][job->rest];
}

/* Fills job with the dimensions that stay. Where x repeats along one of them (stride 0), one result
 * serves all: the job computes only the first, and `spread` copies it. True if there is one. */
static bool kept_dimensions(const np_call *c, np_reduce_job *job, np_copy *spread)
{
    const np_reduce_attr *attr = c->attr;
    const np_operand *x = c->in[0], *out = c->out;
    int64_t shape[NEAP_MAX_RANK], to[NEAP_MAX_RANK], from[NEAP_MAX_RANK];
    int kept = 0;
    bool repeats = false, inner = false;
    for (int d = 0; d < x->rank; d++) {
        int od = d < attr->axis || attr->keepdims ? d : d - 1;
        if (d == attr->axis)
            continue;
        bool repeated = x->strides[d] == 0 && out->shape[od] > 1;
        shape[kept] = out->shape[od];
        to[kept] = out->strides[od];
        from[kept] = repeated ? 0 : to[kept];
        job->shape[kept] = repeated ? 1 : shape[kept];
        job->strides[0][kept] = to[kept];
        job->strides[1][kept++] = x->strides[d];
        repeats |= repeated;
        inner |= d > attr->axis && out->shape[od] > 1 && !repeated;
    }
    *spread = np_copy_make(job->out_size, kept, shape, to, from);
    if (spread->empty)
        return false;
    job->rest = np_collapse(kept, job->shape, 2, job->strides);
    if (job->rest > 0 && inner && job->strides[0][job->rest - 1] == 1)
        take_last(job, &job->args.inner, &job->args.inner_stride);
    if (job->rest > 0 && job->strides[0][job->rest - 1] == job->args.inner &&
        job->shape[job->rest - 1] >= job->args.inner)
        take_last(job, &job->args.outer, &job->args.outer_stride);
    if (job->args.inner == 1 && job->args.outer_stride == 1) { /* adjacent columns, not far rows */
        job->args.inner = job->args.outer;
        job->args.inner_stride = 1;
        job->args.outer = 1;
    }
    return repeats;
}

/* job: its kernel. extreme: there is no result without elements, and equal ones count once. */
static neap_status run_job(const np_call *c, np_reduce_job job, bool extreme)
{
    const np_reduce_attr *attr = c->attr;
    const np_operand *x = c->in[0], *out = c->out;
    job.out_size = np_element_bytes(out->dtype);
    job.x_size = np_element_bytes(x->dtype);
    job.args = (np_reduce_args){.out = out->data, .x = x->data, .outer = 1, .inner = 1,
                                .n = x->shape[attr->axis], .stride = x->strides[attr->axis]};
    np_copy spread;
    bool repeats = kept_dimensions(c, &job, &spread);
    if (spread.empty)
        return NEAP_OK;
    if (extreme && job.args.n == 0)
        return np_fail(c->ctx, NEAP_ESHAPE, "%s: axis %d has extent 0 in this run", c->op->name,
                       attr->axis);
    if (extreme && job.args.stride == 0)
        job.args.n = 1; /* the same element over and over */
    int64_t work = job.args.outer * job.args.inner * np_size(job.rest, job.shape);
    if (work * job.args.n >= NP_PARALLEL_ELEMENTS)
        np_pool_run(c->pool, reduce_lane, &job);
    else
        reduce_lane(&job, 0, 1);
    if (repeats)
        np_copy_one(&spread, out->data, out->data);
    return NEAP_OK;
}

static neap_status run_reduce(const np_call *c, const np_reduce_fn *table, bool extreme)
{
    return run_job(c, (np_reduce_job){.fn = table[c->in[0]->dtype]}, extreme);
}

static neap_status run_var(const np_call *c, bool root)
{
    const np_reduce_attr *attr = c->attr;
    np_reduce_job job = {.var = c->ctx->kernels->row->var[c->in[0]->dtype], .ddof = attr->ddof,
                         .root = root};
    return run_job(c, job, false);
}

/* Dimensions that stay are cut as x's; the tree of additions goes along the axis, so whole. */
static int reduce_part(const np_call *shapes, int dim, uint32_t input)
{
    const np_reduce_attr *attr = shapes->attr;
    (void)input;
    if (attr->keepdims)
        return dim == attr->axis ? NP_PART_NONE : dim;
    return dim < attr->axis ? dim : dim + 1;
}

static double reduce_flops(const np_call *shapes)
{
    return np_flops_input(shapes, 1);
}

static double moments_flops(const np_call *shapes)
{
    return np_flops_input(shapes, 4);
}

static double logsumexp_flops(const np_call *shapes)
{
    return np_flops_input(shapes, 10);
}

/* ---- the ops -------------------------------------------------------------------------------- */

static bool last_axis(const np_call *shapes, np_reduce_fn fn, np_row_op *out)
{
    const np_reduce_attr *attr = shapes->attr;
    const np_operand *x = shapes->in[0];
    *out = (np_row_op){.reduce = fn};
    return fn && attr->axis == x->rank - 1 && x->shape[attr->axis] > 0;
}

#define ROW(op)                                                                                    \
    static bool op##_row(const np_call *shapes, np_row_op *out)                                    \
    {                                                                                              \
        return last_axis(shapes, shapes->ctx->kernels->row->op[shapes->in[0]->dtype], out);        \
    }

/* A reduction that may close a chain, `code`. */
static bool close_chain(const np_call *shapes, np_chain_code code, np_chain_op *out)
{
    np_row_op row;
    *out = (np_chain_op){.code = (int16_t)code};
    return shapes->in[0]->dtype == NEAP_F32 && last_axis(shapes, shapes->ctx->kernels->row->sum[NEAP_F32], &row);
}

#define CLOSING(op, code)                                                                          \
    static bool op##_chain(const np_call *shapes, np_chain_op *out)                                \
    {                                                                                              \
        return close_chain(shapes, code, out);                                                     \
    }

#define REDUCTION(op, shape_rule, extreme, in_chains, reason)                                      \
    ROW(op)                                                                                        \
    static neap_status op##_run(const np_call *c)                                                  \
    {                                                                                              \
        return run_reduce(c, c->ctx->kernels->row->op, extreme);                                   \
    }                                                                                              \
    const np_op np_op_##op = {.name = #op, .arity = 1, .infer = shape_rule, .run = op##_run,       \
                              .part = reduce_part, .flops = reduce_flops, .row = op##_row,         \
                              .chain = in_chains,                                                  \
                              .absorbs_extent = true, .no_grad = reason};                          \
    neap_array *neap_##op(neap_array *x, int axis, unsigned flags)                                 \
    {                                                                                              \
        return np_reduce_axis(&np_op_##op, x, axis, 0, flags);                                     \
    }

neap_array *np_reduce_axis(const np_op *op, neap_array *x, int axis, int64_t ddof, unsigned flags)
{
    np_reduce_attr attr;
    int a;
    memset(&attr, 0, sizeof attr);
    if (!np_ready(1, &x) || !np_plain_dtype(op->name, x) || !np_axis(op->name, x, axis, &a))
        return NULL;
    if (flags & ~(unsigned)NEAP_KEEPDIMS)
        return np_refuse(op->name, 1, &x, NEAP_EINVAL, "flags %u", flags);
    attr.axis = a;
    attr.ddof = ddof;
    attr.keepdims = (flags & NEAP_KEEPDIMS) != 0;
    return np_node(op, 1, &x, &attr, sizeof attr);
}

CLOSING(sum, NP_CHAIN_ROW_SUM)
CLOSING(mean, NP_CHAIN_ROW_MEAN)
CLOSING(max, NP_CHAIN_ROW_MAX)
CLOSING(min, NP_CHAIN_ROW_MIN)
REDUCTION(sum, sum_infer, false, sum_chain, NULL)
REDUCTION(max, max_infer, true, max_chain, NULL)
REDUCTION(min, max_infer, true, min_chain, NULL)
REDUCTION(argmax, argmax_infer, true, NULL, "integer result")
REDUCTION(argmin, argmax_infer, true, NULL, "integer result")

/* The rest is built by reduce_axes.c alone. */
#define NODE(op, shape_rule, cost, by_row, in_chains, call)                                                              \
    static neap_status op##_run(const np_call *c)                                                  \
    {                                                                                              \
        return call;                                                                               \
    }                                                                                              \
    const np_op np_op_##op = {.name = #op, .arity = 1, .infer = shape_rule, .run = op##_run,       \
                              .part = reduce_part, .flops = cost, .row = by_row,                  \
                              .chain = in_chains,                                                  \
                              .absorbs_extent = true};
ROW(prod)
ROW(logsumexp)
ROW(mean)
NODE(prod, sum_infer, reduce_flops, prod_row, NULL, run_reduce(c, c->ctx->kernels->row->prod, false))
NODE(logsumexp, mean_infer, logsumexp_flops, logsumexp_row, NULL,
     run_reduce(c, c->ctx->kernels->row->logsumexp, false))
NODE(var, mean_infer, moments_flops, NULL, NULL, run_var(c, false))
NODE(std, mean_infer, moments_flops, NULL, NULL, run_var(c, true))
NODE(mean, mean_infer, reduce_flops, mean_row, mean_chain, run_reduce(c, c->ctx->kernels->row->mean, false))

neap_array *neap_mean(neap_array *x, int axis, unsigned flags)
{
    if (np_ready(1, &x) && np_plain_dtype("mean", x) && !np_is_float(x->dtype))
        x = neap_cast(x, NEAP_F32);
    return np_reduce_axis(&np_op_mean, x, axis, 0, flags);
}

neap_array *neap_sum_all(neap_array *x)
{
    if (!np_ready(1, &x) || !np_plain_dtype("sum_all", x))
        return NULL;
    /* Sums of integers are exact in any order: axis by axis never copies a broadcast array. Sums of
     * floats run along the elements as they would lie in memory, whatever the strides are. */
    bool by_axis = !np_is_float(x->dtype) || x->dynamic_dim >= 0;
    neap_dtype dtype = (neap_dtype)x->dtype;
    if (!by_axis && x->rank != 1)
        x = neap_reshape(x, 1, (int64_t[]){neap_array_size(x)});
    else if (by_axis && np_is_float(dtype))
        x = neap_cast(x, NEAP_F32);
    if (x && x->rank == 0)
        x = neap_cast(x, NEAP_I64);
    while (x && x->rank > 0)
        x = neap_sum(x, 0, 0);
    return x && np_is_float(dtype) ? neap_cast(x, dtype) : x;
}
