/* index.c - blocks and rows at indices: gather reads a block of x at each, index_copy writes a row
 * of the update at each. */
#include <stdatomic.h>
#include <string.h>

#include "ops/support.h"

static bool fixed_integers(const char *op, uint32_t n, neap_array *const *in, uint32_t first,
                           uint32_t end)
{
    for (uint32_t i = 0; i < n; i++) {
        if (in[i]->dynamic_dim >= 0) {
            np_refuse(op, n, in, NEAP_EUNSUPPORTED, "extent %s is set at run time",
                      in[i]->extent->name);
            return false;
        }
        if (i >= first && i < end && !np_is_integer(in[i]->dtype)) {
            np_refuse(op, n, in, NEAP_EDTYPE, "indices must be integers");
            return false;
        }
    }
    return true;
}

/* ---- gather --------------------------------------------------------------------------------- */

typedef struct np_gather_attr {
    int64_t size[NEAP_MAX_RANK]; /* of the block */
    int8_t axis[NEAP_MAX_RANK];  /* of x, that input 1 + i indexes */
    int32_t n, unused;
} np_gather_attr;

static bool gather_infer(neap_array *out)
{
    const np_gather_attr *attr = (const void *)out->attr;
    const neap_array *x = out->in[0], *indices = attr->n ? out->in[1] : NULL;
    int lead = indices ? indices->rank : 0;
    if (lead + x->rank > NEAP_MAX_RANK)
        return np_op_fail(out, NEAP_ESHAPE, "a result of %d dimensions, the limit is %d",
                          lead + x->rank, NEAP_MAX_RANK);
    out->dtype = x->dtype;
    out->rank = (uint8_t)(lead + x->rank);
    for (int d = 0; d < lead; d++)
        out->shape[d] = indices->shape[d];
    for (int d = 0; d < x->rank; d++)
        out->shape[lead + d] = attr->size[d];
    return true;
}

typedef struct np_gather_job {
    const np_call *c;
    np_copy copy;  /* one block */
    np_pool *pool; /* for a single block; else blocks are shared out */
    int lead;
    int64_t shape[NEAP_MAX_RANK], strides[1 + NEAP_MAX_RANK][NEAP_MAX_RANK];
    atomic_llong bad; /* number of the first block that is not inside x */
} np_gather_job;

/* Where x's block begins, in elements; the index that is out of range in *bad, or -1. */
static int64_t block_offset(const np_call *c, const int64_t *at, int *bad)
{
    const np_gather_attr *attr = c->attr;
    const np_operand *x = c->in[0];
    int64_t offset = 0;
    *bad = -1;
    for (int i = 0; i < attr->n; i++) {
        int a = attr->axis[i];
        int64_t start = np_load_index(c->in[1 + i], at[1 + i]);
        start += start < 0 ? x->shape[a] : 0;
        if (start < 0 || start > x->shape[a] - attr->size[a]) {
            *bad = i;
            return 0;
        }
        offset += start * x->strides[a];
    }
    return offset;
}

static void gather_lane(void *arg, int lane, int lanes)
{
    np_gather_job *job = arg;
    const np_call *c = job->c;
    int n = 1 + ((const np_gather_attr *)c->attr)->n, bad;
    int64_t begin, end, index[NEAP_MAX_RANK], at[1 + NEAP_MAX_RANK];
    int64_t strides[1 + NEAP_MAX_RANK][NEAP_MAX_RANK], size = np_element_bytes(c->out->dtype);
    np_share(np_size(job->lead, job->shape), 1, lane, lanes, &begin, &end);
    if (begin == end)
        return;
    memcpy(strides, job->strides, sizeof strides);
    np_index_seek(job->lead, job->shape, begin, index, n, at, strides);
    for (; begin < end && !np_stop_at(begin); begin++) {
        int64_t offset = block_offset(c, at, &bad);
        if (bad >= 0) {
            long long seen = atomic_load(&job->bad);
            while (begin < seen && !atomic_compare_exchange_weak(&job->bad, &seen, begin))
                continue;
            return;
        }
        np_copy_all(&job->copy, job->pool, c->out->data + at[0] * size,
                    c->in[0]->data + offset * size);
        np_index_next(job->lead, job->shape, index, n, at, strides);
    }
}

static neap_status outside(const np_gather_job *job, int64_t number)
{
    const np_call *c = job->c;
    const np_gather_attr *attr = c->attr;
    int64_t index[NEAP_MAX_RANK], at[1 + NEAP_MAX_RANK];
    int64_t strides[1 + NEAP_MAX_RANK][NEAP_MAX_RANK];
    int bad;
    memcpy(strides, job->strides, sizeof strides);
    np_index_seek(job->lead, job->shape, number, index, 1 + attr->n, at, strides);
    block_offset(c, at, &bad);
    int a = attr->axis[bad];
    return np_fail(c->ctx, NEAP_EINVAL,
                   "gather: %lld at index %lld (number %lld), axis %d has %lld",
                   (long long)attr->size[a], (long long)np_load_index(c->in[1 + bad], at[1 + bad]),
                   (long long)np_part_number(c, 0, job->lead, number), a,
                   (long long)c->in[0]->shape[a]);
}

static neap_status gather_run(const np_call *c)
{
    const np_gather_attr *attr = c->attr;
    const np_operand *x = c->in[0], *out = c->out;
    np_gather_job job = {.c = c, .lead = out->rank - x->rank};
    memcpy(job.shape, out->shape, sizeof job.shape);
    memcpy(job.strides[0], out->strides, sizeof job.strides[0]);
    for (int i = 0; i < attr->n; i++)
        memcpy(job.strides[1 + i], c->in[1 + i]->strides, sizeof job.strides[0]);
    atomic_init(&job.bad, INT64_MAX);
    job.copy = np_copy_make(np_element_bytes(out->dtype), x->rank, attr->size,
                            out->strides + job.lead, x->strides);
    int64_t count = np_size(job.lead, job.shape);
    if (count > 1 && count * np_size(x->rank, attr->size) >= NP_PARALLEL_ELEMENTS) {
        np_pool_run(c->pool, gather_lane, &job);
    } else {
        job.pool = count == 1 ? c->pool : NULL;
        gather_lane(&job, 0, 1);
    }
    int64_t bad = atomic_load(&job.bad);
    return bad == INT64_MAX ? NEAP_OK : outside(&job, bad);
}

/* By whole blocks. */
static int gather_part(const np_call *shapes, int dim, uint32_t input)
{
    if (dim >= shapes->out->rank - shapes->in[0]->rank)
        return NP_PART_NONE;
    return input == 0 ? NP_PART_WHOLE : dim;
}

const np_op np_op_gather = {.name = "gather", .arity = -1, .infer = gather_infer,
                            .run = gather_run, .part = gather_part};

static bool gather_arguments(neap_array *x, int n, const int *axes, const int64_t *sizes,
                             np_gather_attr *attr)
{
    unsigned seen = 0;
    for (int i = 0; i < n; i++) {
        int a;
        if (!np_axis("gather", x, axes[i], &a))
            return false;
        if (seen & 1u << a) {
            np_refuse("gather", 1, &x, NEAP_ESHAPE, "axis %d is named twice", a);
            return false;
        }
        seen |= 1u << a;
        attr->axis[i] = (int8_t)a;
    }
    for (int d = 0; d < x->rank; d++) {
        attr->size[d] = sizes[d];
        if (sizes[d] < 0 || sizes[d] > x->shape[d]) {
            np_refuse("gather", 1, &x, NEAP_ESHAPE, "blocks of %lld along axis %d, which has %lld",
                      (long long)sizes[d], d, (long long)x->shape[d]);
            return false;
        }
    }
    attr->n = n;
    return true;
}

neap_array *neap_gather(neap_array *x, int n, neap_array *const *indices, const int *axes,
                        const int64_t *slice_sizes)
{
    neap_array *in[1 + NEAP_MAX_RANK] = {x};
    np_gather_attr attr;
    np_extents e;
    memset(&attr, 0, sizeof attr);
    if (!np_ready(1, &x) || !np_plain_dtype("gather", x))
        return NULL;
    if (n < 0 || n > x->rank || (n > 0 && (!indices || !axes)) || (x->rank > 0 && !slice_sizes))
        return np_refuse("gather", 1, &x, NEAP_EINVAL, "%d indices of %d axes", n, x->rank);
    for (int i = 0; i < n; i++)
        in[1 + i] = indices[i];
    if (!np_ready((uint32_t)(1 + n), in) ||
        !fixed_integers("gather", (uint32_t)(1 + n), in, 1, (uint32_t)(1 + n)) ||
        !gather_arguments(x, n, axes, slice_sizes, &attr) ||
        !np_broadcast("gather", (uint32_t)n, in + 1, &e))
        return NULL;
    for (int i = 0; i < n; i++)
        in[1 + i] = np_broadcast_view("gather", in[1 + i], &e);
    return np_node(&np_op_gather, (uint32_t)(1 + n), in, &attr, sizeof attr);
}

/* ---- index_copy ------------------------------------------------------------------------------ */

typedef struct np_index_copy_attr {
    int32_t axis;
} np_index_copy_attr;

/* Row after row, so that of two updates of one row the later one stays. */
static neap_status index_copy_run(const np_call *c)
{
    const np_operand *x = c->in[0], *update = c->in[1], *indices = c->in[2], *out = c->out;
    int a = ((const np_index_copy_attr *)c->attr)->axis;
    int64_t size = np_element_bytes(out->dtype), extent = out->shape[a], shape[NEAP_MAX_RANK];
    for (int64_t i = 0; i < indices->shape[0]; i++) {
        int64_t row = np_load_index(indices, i * indices->strides[0]);
        if (row < -extent || row >= extent)
            return np_fail(c->ctx, NEAP_EINVAL,
                           "index_copy: index %lld (number %lld), the axis has %lld",
                           (long long)row, (long long)i, (long long)extent);
    }
    np_copy copy = np_copy_make(size, out->rank, out->shape, out->strides, x->strides);
    np_copy_all(&copy, c->pool, out->data, x->data);
    memcpy(shape, out->shape, sizeof shape);
    shape[a] = 1;
    copy = np_copy_make(size, out->rank, shape, out->strides, update->strides);
    for (int64_t i = 0; i < indices->shape[0] && !np_stop_at(i); i++) {
        int64_t row = np_load_index(indices, i * indices->strides[0]);
        row += row < 0 ? extent : 0;
        np_copy_all(&copy, c->pool, out->data + row * out->strides[a] * size,
                    update->data + i * update->strides[a] * size);
    }
    return NEAP_OK;
}

static int index_copy_part(const np_call *shapes, int dim, uint32_t input)
{
    if (dim == ((const np_index_copy_attr *)shapes->attr)->axis)
        return NP_PART_NONE;
    return input == 2 ? NP_PART_WHOLE : dim;
}

const np_op np_op_index_copy = {.name = "index_copy",
                                .arity = 3,
                                .overwrites = 1,
                                .infer = np_infer_same,
                                .run = index_copy_run,
                                .part = index_copy_part};

neap_array *neap_index_copy(neap_array *x, neap_array *update, neap_array *indices, int axis)
{
    neap_array *in[3] = {x, update, indices};
    np_index_copy_attr attr;
    if (!np_ready(3, in) || !np_plain_dtype("index_copy", x) ||
        !np_plain_dtype("index_copy", update) || !np_axis("index_copy", x, axis, &attr.axis) ||
        !fixed_integers("index_copy", 3, in, 2, 3))
        return NULL;
    if (indices->rank != 1)
        return np_refuse("index_copy", 3, in, NEAP_ESHAPE, "the indices must have one dimension");
    np_extents e = np_extents_of(x);
    e.shape[attr.axis] = indices->shape[0];
    in[1] = np_broadcast_view("index_copy", neap_cast(update, (neap_dtype)x->dtype), &e);
    return np_node(&np_op_index_copy, 3, in, &attr, sizeof attr);
}
