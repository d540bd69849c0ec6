/* scan_ops.c - running sums, products, maxima and minima along an axis.
 *
 * One element after the other from the first (reverse: the last), so lanes share out the other
 * dimensions only. 16-bit floats add up in f32 and are rounded once. */
#include <math.h>
#include <string.h>

#include "ops/support.h"

typedef struct np_scan_attr {
    int32_t axis, reverse, exclusive, unused;
} np_scan_attr;

/* ---- loops ---------------------------------------------------------------------------------- */

enum { COLUMNS = 256 };

/* n elements along the axis of up to COLUMNS columns side by side. */
typedef struct np_scan_args {
    void *out;
    const void *x;
    int64_t n, columns;
    int64_t out_step, x_step;     /* along the axis */
    int64_t out_column, x_column; /* from column to column */
    bool exclusive;               /* each element without itself */
} np_scan_args;

typedef void (*np_scan_fn)(const np_scan_args *a);

#define SCAN(name, type, first, next)                                \
    static void name(const np_scan_args *s)                          \
    {                                                                \
        type sums[COLUMNS];                                          \
        for (int64_t j = 0; j < s->columns; j++)                     \
            sums[j] = (first);                                       \
        for (int64_t i = 0; i < s->n && !np_stop_in_row(i << 8); i++) { \
            const type *x = (const type *)s->x + i * s->x_step;      \
            type *out = (type *)s->out + i * s->out_step;            \
            for (int64_t j = 0; j < s->columns; j++) {               \
                const type a = sums[j], v = x[j * s->x_column];      \
                sums[j] = (type)(next);                              \
                out[j * s->out_column] = s->exclusive ? a : sums[j]; \
            }                                                        \
        }                                                            \
    }

/* Sums and products of integers wrap, whatever their sign: 1u keeps narrow ones out of int. */
SCAN(sum_8, uint8_t, 0, a + v)
SCAN(sum_16, uint16_t, 0, a + v)
SCAN(sum_32, uint32_t, 0, a + v)
SCAN(sum_64, uint64_t, 0, a + v)
SCAN(sum_f32, float, 0, a + v)
SCAN(prod_8, uint8_t, 1, 1u * a * v)
SCAN(prod_16, uint16_t, 1, 1u * a * v)
SCAN(prod_32, uint32_t, 1, a *v)
SCAN(prod_64, uint64_t, 1, a *v)
SCAN(prod_f32, float, 1, a *v)

#define EXTREMES(name, type, low, high)        \
    SCAN(max_##name, type, low, v > a ? v : a) \
    SCAN(min_##name, type, high, v < a ? v : a)
EXTREMES(bool, uint8_t, 0, 1)
EXTREMES(u8, uint8_t, 0, UINT8_MAX)
EXTREMES(i8, int8_t, INT8_MIN, INT8_MAX)
EXTREMES(i16, int16_t, INT16_MIN, INT16_MAX)
EXTREMES(i32, int32_t, INT32_MIN, INT32_MAX)
EXTREMES(u32, uint32_t, 0, UINT32_MAX)
EXTREMES(i64, int64_t, INT64_MIN, INT64_MAX)
/* A NaN stays: nothing is larger or smaller. */
SCAN(max_f32, float, -INFINITY, v > a || v != v ? v : a)
SCAN(min_f32, float, INFINITY, v < a || v != v ? v : a)

/* ---- running -------------------------------------------------------------------------------- */

typedef struct np_scan_job {
    np_scan_fn fn;
    np_scan_args args; /* of the first tile; columns: of all tiles of one place */
    int rank;          /* dimensions but the axis and the columns */
    int64_t shape[NEAP_MAX_RANK], strides[2][NEAP_MAX_RANK]; /* result, x */
    int64_t size, tiles;
} np_scan_job;

static void scan_lane(void *arg, int lane, int lanes)
{
    const np_scan_job *job = arg;
    np_scan_args a = job->args;
    int64_t begin, end, index[NEAP_MAX_RANK], at[2], strides[2][NEAP_MAX_RANK];
    np_share(np_size(job->rank, job->shape) * job->tiles, 1, lane, lanes, &begin, &end);
    if (begin == end)
        return;
    memcpy(strides, job->strides, sizeof strides);
    np_index_seek(job->rank, job->shape, begin / job->tiles, index, 2, at, strides);
    for (; begin < end && !np_stop(); begin++) {
        int64_t first = begin % job->tiles * COLUMNS, left = job->args.columns - first;
        a.columns = left < COLUMNS ? left : COLUMNS;
        a.out = (uint8_t *)job->args.out + (at[0] + first * a.out_column) * job->size;
        a.x = (const uint8_t *)job->args.x + (at[1] + first * a.x_column) * job->size;
        job->fn(&a);
        if (left <= COLUMNS)
            np_index_next(job->rank, job->shape, index, 2, at, strides);
    }
}

static neap_status run_scan(const np_call *c, const np_scan_fn *table)
{
    const np_scan_attr *attr = c->attr;
    const np_operand *x = c->in[0], *out = c->out;
    int64_t n = out->shape[attr->axis], count = np_size(out->rank, out->shape);
    int64_t out_step = out->strides[attr->axis], x_step = x->strides[attr->axis];
    np_scan_job job = {.fn = table[out->dtype], .size = np_element_bytes((neap_dtype)out->dtype)};
    if (count == 0)
        return NEAP_OK;
    for (int d = 0; d < out->rank; d++) {
        if (d == attr->axis)
            continue;
        job.shape[job.rank] = out->shape[d];
        job.strides[0][job.rank] = out->strides[d];
        job.strides[1][job.rank++] = x->strides[d];
    }
    int64_t back = attr->reverse ? n - 1 : 0;
    job.args = (np_scan_args){.out = out->data + back * out_step * job.size,
                              .x = x->data + back * x_step * job.size,
                              .n = n,
                              .columns = 1,
                              .out_step = attr->reverse ? -out_step : out_step,
                              .x_step = attr->reverse ? -x_step : x_step,
                              .exclusive = attr->exclusive};
    job.rank = np_collapse(job.rank, job.shape, 2, job.strides);
    if (job.rank > 0 && job.strides[0][job.rank - 1] == 1) { /* the axis is not the last */
        job.rank--;
        job.args.columns = job.shape[job.rank];
        job.args.out_column = 1;
        job.args.x_column = job.strides[1][job.rank];
    }
    job.tiles = (job.args.columns + COLUMNS - 1) / COLUMNS;
    if (count >= NP_PARALLEL_ELEMENTS && count > n)
        np_pool_run(c->pool, scan_lane, &job);
    else
        scan_lane(&job, 0, 1);
    return NEAP_OK;
}

/* ---- the ops -------------------------------------------------------------------------------- */

static neap_array *build(const np_op *op, neap_array *x, int axis, bool reverse, bool inclusive)
{
    np_scan_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!np_ready(1, &x) || !np_plain_dtype(op->name, x) || !np_axis(op->name, x, axis, &attr.axis))
        return NULL;
    attr.reverse = reverse;
    attr.exclusive = !inclusive;
    neap_dtype dtype = (neap_dtype)x->dtype;
    if (np_is_float(dtype))
        x = neap_cast(x, NEAP_F32);
    return neap_cast(np_node(op, 1, &x, &attr, sizeof attr), dtype);
}

static int scan_part(const np_call *shapes, int dim, uint32_t input)
{
    (void)input;
    return dim == ((const np_scan_attr *)shapes->attr)->axis ? NP_PART_NONE : dim;
}

/* Element n of the result is written after element n of x is read, and no other reads it later. */
#define SCAN_OP(op, prefix)                                                                \
    static neap_status op##_run(const np_call *c)                                          \
    {                                                                                      \
        return run_scan(c, prefix##_of);                                                   \
    }                                                                                      \
    const np_op np_op_##op = {                                                             \
        .name = #op, .arity = 1, .overwrites = 1, .infer = np_infer_same, .run = op##_run, \
        .part = scan_part};

#define EXTREMES_OF(prefix)                                                                \
    static const np_scan_fn prefix##_of[NEAP_DTYPE_SPAN] = {                               \
        [NEAP_BOOL] = prefix##_bool, [NEAP_U8] = prefix##_u8,   [NEAP_I8] = prefix##_i8,   \
        [NEAP_I16] = prefix##_i16,   [NEAP_I32] = prefix##_i32, [NEAP_U32] = prefix##_u32, \
        [NEAP_I64] = prefix##_i64,   [NEAP_F32] = prefix##_f32};

#define WRAPPING_OF(prefix)                                                           \
    static const np_scan_fn prefix##_of[NEAP_DTYPE_SPAN] = {                          \
        [NEAP_BOOL] = prefix##_8, [NEAP_U8] = prefix##_8,   [NEAP_I8] = prefix##_8,   \
        [NEAP_I16] = prefix##_16, [NEAP_I32] = prefix##_32, [NEAP_U32] = prefix##_32, \
        [NEAP_I64] = prefix##_64, [NEAP_F32] = prefix##_f32};

WRAPPING_OF(sum)
WRAPPING_OF(prod)
EXTREMES_OF(max)
EXTREMES_OF(min)
SCAN_OP(cumsum, sum)
SCAN_OP(cumprod, prod)
SCAN_OP(cummax, max)
SCAN_OP(cummin, min)

neap_array *neap_cumsum(neap_array *x, int axis, bool reverse, bool inclusive)
{
    if (np_ready(1, &x) && x->dtype == NEAP_BOOL)
        x = neap_cast(x, NEAP_I32);
    return build(&np_op_cumsum, x, axis, reverse, inclusive);
}

neap_array *neap_cumprod(neap_array *x, int axis, bool reverse, bool inclusive)
{
    return build(&np_op_cumprod, x, axis, reverse, inclusive);
}

neap_array *neap_cummax(neap_array *x, int axis, bool reverse, bool inclusive)
{
    return build(&np_op_cummax, x, axis, reverse, inclusive);
}

neap_array *neap_cummin(neap_array *x, int axis, bool reverse, bool inclusive)
{
    return build(&np_op_cummin, x, axis, reverse, inclusive);
}
