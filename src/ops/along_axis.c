/* along_axis.c - one index for each element: take_along_axis reads x there, scatter_add adds there.
 *
 * The indices have the rank of x; the other axes broadcast. Lanes share out one dimension; never
 * that of the axis where elements are added, so every sum runs in the order of the indices. */
#include <stdatomic.h>
#include <string.h>

#include "ops/support.h"

typedef struct np_along_attr {
    int32_t axis;
} np_along_attr;

/* ---- building ------------------------------------------------------------------------------- */

/* Makes in[i] of one shape but along the axis: x, indices, and updates that fit the indices. */
static bool broadcast_others(const char *op, uint32_t n, neap_array **in, int axis)
{
    np_extents e = {.rank = in[0]->rank, .dynamic_dim = -1};
    for (uint32_t i = 0; i < n; i++) {
        if (in[i]->rank != e.rank) {
            np_refuse(op, n, in, NEAP_ESHAPE, "%d dimensions, x has %d", in[i]->rank, e.rank);
            return false;
        }
        if (in[i]->dynamic_dim >= 0) {
            np_refuse(op, n, in, NEAP_EUNSUPPORTED, "extent %s is set at run time",
                      in[i]->extent->name);
            return false;
        }
    }
    int64_t length = n > 2 && in[1]->shape[axis] == 1 ? in[2]->shape[axis] : in[1]->shape[axis];
    for (int d = 0; d < e.rank; d++) {
        e.shape[d] = 1;
        for (uint32_t i = 0; i < n && d != axis; i++)
            e.shape[d] = e.shape[d] == 1 ? in[i]->shape[d] : e.shape[d];
    }
    for (uint32_t i = 0; i < n; i++) {
        e.shape[axis] = i == 0 ? in[0]->shape[axis] : length;
        in[i] = np_broadcast_view(op, in[i], &e);
        if (!in[i])
            return false;
    }
    return true;
}

/* ---- running -------------------------------------------------------------------------------- */

enum { TILE = 256 };

typedef void (*np_along_fn)(void *to, int64_t to_step, const void *from, int64_t from_step,
                            const int64_t *at, int64_t n);

/* Operands: what is written, the indices, what is read. The axis' stride in the one that the
 * indices are of is 0 here and `step` instead. */
typedef struct np_along_job {
    np_along_fn fn;
    const np_operand *indices;
    uint8_t *to;
    const uint8_t *from;
    int64_t size, extent, step; /* bytes an element; of the axis */
    int rank, split;
    int64_t shape[NEAP_MAX_RANK], strides[3][NEAP_MAX_RANK];
    atomic_llong bad; /* number of the first index that is out of range */
} np_along_job;

static void report(np_along_job *job, int64_t number)
{
    long long seen = atomic_load(&job->bad);
    while (number < seen && !atomic_compare_exchange_weak(&job->bad, &seen, number))
        continue;
}

/* Offsets along the axis of n indices; how many are right. */
static int64_t load_tile(const np_along_job *job, int64_t offset, int64_t step, int64_t n,
                         int64_t *at)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t row = np_load_index(job->indices, offset + i * step);
        if (row < -job->extent || row >= job->extent)
            return i;
        at[i] = (row + (row < 0 ? job->extent : 0)) * job->step;
    }
    return n;
}

/* The number of element (index, column) of the whole, of which this lane begins at `begin`. */
static int64_t number_of(const np_along_job *job, const int64_t *index, int64_t column,
                         int64_t begin)
{
    int64_t number = 0;
    for (int d = 0; d < job->rank; d++)
        number = number * job->shape[d] + (d == job->rank - 1 ? column : index[d]) +
                 (d == job->split ? begin : 0);
    return number;
}

static void along_lane(void *arg, int lane, int lanes)
{
    np_along_job *job = arg;
    int last = job->rank - 1;
    int64_t begin, end, shape[NEAP_MAX_RANK], index[NEAP_MAX_RANK] = {0}, offset[3];
    int64_t strides[3][NEAP_MAX_RANK], at[TILE];
    np_share(job->shape[job->split], 1, lane, lanes, &begin, &end);
    memcpy(shape, job->shape, sizeof shape);
    memcpy(strides, job->strides, sizeof strides);
    shape[job->split] = end - begin;
    for (int i = 0; i < 3; i++)
        offset[i] = begin * strides[i][job->split];
    for (int64_t rows = np_size(last, shape); rows > 0 && !np_stop_at(rows); rows--) {
        for (int64_t j = 0; j < shape[last] && !np_stop_in_row(j); j += TILE) {
            int64_t n = shape[last] - j < TILE ? shape[last] - j : TILE;
            int64_t right =
                load_tile(job, offset[1] + j * strides[1][last], strides[1][last], n, at);
            if (right < n) {
                report(job, number_of(job, index, j + right, begin));
                return;
            }
            job->fn(job->to + (offset[0] + j * strides[0][last]) * job->size, strides[0][last],
                    job->from + (offset[2] + j * strides[2][last]) * job->size, strides[2][last],
                    at, n);
        }
        np_index_next(last, shape, index, 3, offset, strides);
    }
}

/* `moving`: the operand that the indices are of, 0 or 2; its own axis must not be split if it is
 * written. */
static neap_status run_along(const np_call *c, np_along_job *job, int axis, int moving)
{
    memcpy(job->shape, job->indices->shape, sizeof job->shape);
    memcpy(job->strides[1], job->indices->strides, sizeof job->strides[1]);
    job->step = job->strides[moving][axis];
    job->strides[moving][axis] = 0;
    atomic_init(&job->bad, INT64_MAX);
    int64_t count = np_size(job->indices->rank, job->shape);
    if (count == 0)
        return NEAP_OK;
    job->rank = np_collapse(job->indices->rank, job->shape, 3, job->strides);
    if (job->rank == 0) {
        job->rank = 1;
        job->shape[0] = 1;
    }
    job->split = -1;
    for (int d = 0; d < job->rank; d++) /* the axis is the one dimension without a stride there */
        if ((moving == 2 || job->strides[0][d] != 0) &&
            (job->split < 0 || job->shape[d] > job->shape[job->split]))
            job->split = d;
    bool alone = job->split < 0 || count < NP_PARALLEL_ELEMENTS;
    job->split = job->split < 0 ? 0 : job->split;
    if (alone)
        along_lane(job, 0, 1);
    else
        np_pool_run(c->pool, along_lane, job);
    int64_t bad = atomic_load(&job->bad);
    if (bad == INT64_MAX)
        return NEAP_OK;
    int64_t index[NEAP_MAX_RANK], offset[3];
    np_index_seek(job->rank, job->shape, bad, index, 3, offset, job->strides);
    return np_fail(c->ctx, NEAP_EINVAL, "%s: index %lld (number %lld), the axis has %lld",
                   c->op->name, (long long)np_load_index(job->indices, offset[1]),
                   (long long)np_part_number(c, 0, c->out->rank, bad), (long long)job->extent);
}

/* ---- take_along_axis ------------------------------------------------------------------------- */

static bool take_along_axis_infer(neap_array *out)
{
    np_infer_like(out, out->in[1]);
    out->dtype = out->in[0]->dtype;
    return true;
}

#define TAKE(size, type)                                                                    \
    static void take_##size(void *to, int64_t to_step, const void *from, int64_t from_step, \
                            const int64_t *at, int64_t n)                                   \
    {                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                     \
            ((type *)to)[i * to_step] = ((const type *)from)[i * from_step + at[i]];        \
    }
TAKE(1, uint8_t)
TAKE(2, uint16_t)
TAKE(4, uint32_t)
TAKE(8, uint64_t)

static neap_status take_along_axis_run(const np_call *c)
{
    static const np_along_fn fns[9] = {[1] = take_1, [2] = take_2, [4] = take_4, [8] = take_8};
    const np_operand *x = c->in[0], *out = c->out;
    int axis = ((const np_along_attr *)c->attr)->axis;
    np_along_job job = {.indices = c->in[1],
                        .to = out->data,
                        .from = x->data,
                        .size = np_element_bytes(out->dtype),
                        .extent = x->shape[axis]};
    job.fn = fns[job.size];
    memcpy(job.strides[0], out->strides, sizeof job.strides[0]);
    memcpy(job.strides[2], x->strides, sizeof job.strides[2]);
    return run_along(c, &job, axis, 2);
}

static int take_along_axis_part(const np_call *shapes, int dim, uint32_t input)
{
    bool along = dim == ((const np_along_attr *)shapes->attr)->axis;
    return input == 0 && along ? NP_PART_WHOLE : dim;
}

const np_op np_op_take_along_axis = {.name = "take_along_axis",
                                     .arity = 2,
                                     .infer = take_along_axis_infer,
                                     .run = take_along_axis_run,
                                     .part = take_along_axis_part};

neap_array *neap_take_along_axis(neap_array *x, neap_array *indices, int axis)
{
    neap_array *in[2] = {x, indices};
    np_along_attr attr;
    if (!np_ready(2, in) || !np_plain_dtype("take_along_axis", x) ||
        !np_axis("take_along_axis", x, axis, &attr.axis))
        return NULL;
    if (!np_is_integer(indices->dtype))
        return np_refuse("take_along_axis", 2, in, NEAP_EDTYPE, "indices must be integers");
    if (!broadcast_others("take_along_axis", 2, in, attr.axis))
        return NULL;
    return np_node(&np_op_take_along_axis, 2, in, &attr, sizeof attr);
}

/* ---- scatter_add ----------------------------------------------------------------------------- */

#define ADD(name, type, operator)                                                          \
    static void add_##name(void *to, int64_t to_step, const void *from, int64_t from_step, \
                           const int64_t *at, int64_t n)                                   \
    {                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                  \
            type *t = (type *)to + i * to_step + at[i];                                    \
            *t = (type)(*t operator((const type *)from)[i * from_step]);                   \
        }                                                                                  \
    }
ADD(bool, uint8_t, |)
ADD(8, uint8_t, +)
ADD(16, uint16_t, +)
ADD(32, uint32_t, +)
ADD(64, uint64_t, +)
ADD(f32, float, +)

static neap_status scatter_add_run(const np_call *c)
{
    static const np_along_fn fns[NEAP_DTYPE_SPAN] = {
        [NEAP_BOOL] = add_bool, [NEAP_U8] = add_8,   [NEAP_I8] = add_8,   [NEAP_I16] = add_16,
        [NEAP_I32] = add_32,    [NEAP_U32] = add_32, [NEAP_I64] = add_64, [NEAP_F32] = add_f32};
    const np_operand *x = c->in[0], *updates = c->in[2], *out = c->out;
    int axis = ((const np_along_attr *)c->attr)->axis;
    np_along_job job = {.fn = fns[out->dtype],
                        .indices = c->in[1],
                        .to = out->data,
                        .from = updates->data,
                        .size = np_element_bytes(out->dtype),
                        .extent = out->shape[axis]};
    np_copy copy = np_copy_make(job.size, out->rank, out->shape, out->strides, x->strides);
    np_copy_all(&copy, c->pool, out->data, x->data);
    memcpy(job.strides[0], out->strides, sizeof job.strides[0]);
    memcpy(job.strides[2], updates->strides, sizeof job.strides[2]);
    return run_along(c, &job, axis, 0);
}

const np_op np_op_scatter_add = {.name = "scatter_add",
                                 .arity = 3,
                                 .overwrites = 1,
                                 .infer = np_infer_same,
                                 .run = scatter_add_run};

/* 16-bit floats add up in f32: what falls on one element is rounded once. */
neap_array *neap_scatter_add(neap_array *x, neap_array *indices, neap_array *updates, int axis)
{
    neap_array *in[3] = {x, indices, updates};
    np_along_attr attr;
    if (!np_ready(3, in) || !np_plain_dtype("scatter_add", x) ||
        !np_plain_dtype("scatter_add", updates) || !np_axis("scatter_add", x, axis, &attr.axis))
        return NULL;
    if (!np_is_integer(indices->dtype))
        return np_refuse("scatter_add", 3, in, NEAP_EDTYPE, "indices must be integers");
    if (!broadcast_others("scatter_add", 3, in, attr.axis))
        return NULL;
    neap_dtype dtype = (neap_dtype)x->dtype, wide = np_is_float(dtype) ? NEAP_F32 : dtype;
    in[0] = neap_cast(in[0], wide);
    in[2] = neap_cast(neap_cast(in[2], dtype), wide);
    return neap_cast(np_node(&np_op_scatter_add, 3, in, &attr, sizeof attr), dtype);
}
