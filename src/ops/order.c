/* order.c - what sorting gives: sort and argsort along an axis, and on them partition,
 * argpartition, topk and median.
 *
 * A row becomes pairs of a key, an unsigned number in the order of the elements, and the place
 * where it stood. Keys of up to 32 bits share a word with it, so that no two words are equal and
 * the smaller element or, of equals, the earlier one comes first. NaN is the largest of all; -0
 * equals 0. */
#include <string.h>

#include "base/radix_sort.h"
#include "ops/support.h"

typedef struct np_order_attr {
    int32_t axis;
} np_order_attr;

typedef struct np_wide_pair {
    uint64_t key, place;
} np_wide_pair;

static inline uint64_t word_key(const uint64_t *word)
{
    return *word;
}

static inline uint64_t pair_key(const np_wide_pair *pair)
{
    return pair->key;
}

NP_RADIX_SORT(sort_words, uint64_t, word_key, 4, 4)
NP_RADIX_SORT(sort_pairs, np_wide_pair, pair_key, 0, 8)

/* ---- keys ----------------------------------------------------------------------------------- */

/* Bits of a float of `bits` bits, sign first; `infinity` as bits. */
static inline uint32_t float_key(uint32_t v, int bits, uint32_t infinity)
{
    uint32_t sign = 1u << (bits - 1), magnitude = v & (sign - 1);
    if (magnitude > infinity)
        return sign | (sign - 1);
    return v & sign ? sign - magnitude : sign + magnitude;
}

#define KEYS(name, type, key)                                                        \
    static void keys_##name(const void *x, int64_t step, int64_t n, uint64_t *words) \
    {                                                                                \
        NP_EACH_UNTIL_STOP(i, n) {                                                   \
            type v = ((const type *)x)[i * step];                                    \
            words[i] = (uint64_t)(uint32_t)(key) << 32 | (uint64_t)i;                \
        }                                                                            \
    }
KEYS(u8, uint8_t, v)
KEYS(i8, int8_t, v ^ INT32_MIN)
KEYS(i16, int16_t, v ^ INT32_MIN)
KEYS(i32, int32_t, v ^ INT32_MIN)
KEYS(u32, uint32_t, v)
KEYS(f16, uint16_t, float_key(v, 16, 0x7c00))
KEYS(bf16, uint16_t, float_key(v, 16, 0x7f80))
KEYS(f32, uint32_t, float_key(v, 32, 0x7f800000))

typedef void (*np_keys_fn)(const void *x, int64_t step, int64_t n, uint64_t *words);

static const np_keys_fn keys_of[NEAP_DTYPE_SPAN] = {
    [NEAP_BOOL] = keys_u8, [NEAP_U8] = keys_u8,     [NEAP_I8] = keys_i8,
    [NEAP_I16] = keys_i16, [NEAP_I32] = keys_i32,   [NEAP_U32] = keys_u32,
    [NEAP_F16] = keys_f16, [NEAP_BF16] = keys_bf16, [NEAP_F32] = keys_f32};

/* ---- running -------------------------------------------------------------------------------- */

/* Two places for the pairs of a row. */
static size_t row_bytes(const np_operand *x, int axis)
{
    size_t pair = x->dtype == NEAP_I64 ? sizeof(np_wide_pair) : sizeof(uint64_t);
    return 2 * pair * (size_t)x->shape[axis];
}

/* For each lane, or for each row where these are fewer. */
static size_t order_scratch(const np_call *shapes)
{
    int axis = ((const np_order_attr *)shapes->attr)->axis;
    const np_operand *x = shapes->in[0];
    int64_t count = np_size(x->rank, x->shape), lanes = np_pool_lanes(shapes->pool);
    int64_t rows = count ? count / x->shape[axis] : 0;
    return (size_t)(rows < lanes ? rows : lanes) * row_bytes(x, axis);
}

typedef struct np_order_job {
    const np_call *c;
    int rank;                                                /* dimensions but the axis */
    int64_t shape[NEAP_MAX_RANK], strides[2][NEAP_MAX_RANK]; /* result, x */
    int64_t n, step[2];                                      /* of the axis */
    bool places;                                             /* argsort */
} np_order_job;

#define PUT(type, element)                                                     \
    NP_EACH_UNTIL_STOP(i, job->n) {                                            \
        int64_t at = (int64_t)(wide ? pairs[i].place : words[i] & UINT32_MAX); \
        ((type *)(void *)out)[i * job->step[0]] = (element);                   \
    }

/* The sorted row: x's elements, or the places where they stand. */
static void put_row(const np_order_job *job, uint8_t *out, const uint8_t *x, const void *sorted)
{
    const np_operand *in = job->c->in[0];
    const uint64_t *words = sorted;
    const np_wide_pair *pairs = sorted;
    int64_t step = job->step[1];
    bool wide = in->dtype == NEAP_I64;
    if (job->places) {
        PUT(uint32_t, (uint32_t)at)
        return;
    }
    switch (np_element_bytes((neap_dtype)in->dtype)) {
    case 1:
        PUT(uint8_t, x[at * step]) break;
    case 2:
        PUT(uint16_t, ((const uint16_t *)(const void *)x)[at * step]) break;
    case 4:
        PUT(uint32_t, ((const uint32_t *)(const void *)x)[at * step]) break;
    default:
        PUT(uint64_t, ((const uint64_t *)(const void *)x)[at * step]) break;
    }
}

static void sort_row(const np_order_job *job, uint8_t *out, const uint8_t *x, void *scratch)
{
    int64_t n = job->n;
    if (job->c->in[0]->dtype != NEAP_I64) {
        uint64_t *words = scratch;
        keys_of[job->c->in[0]->dtype](x, job->step[1], n, words);
        sort_words(words, words + n, n);
    } else {
        np_wide_pair *pairs = scratch;
        NP_EACH_UNTIL_STOP(i, n) {
            uint64_t v = ((const uint64_t *)(const void *)x)[i * job->step[1]];
            pairs[i] = (np_wide_pair){v ^ (uint64_t)1 << 63, (uint64_t)i};
        }
        sort_pairs(pairs, pairs + n, n);
    }
    if (!np_stop()) /* places that the sort did not settle may be none */
        put_row(job, out, x, scratch);
}

static void order_lane(void *arg, int lane, int lanes)
{
    const np_order_job *job = arg;
    const np_call *c = job->c;
    int axis = ((const np_order_attr *)c->attr)->axis;
    int64_t begin, end, index[NEAP_MAX_RANK], at[2], strides[2][NEAP_MAX_RANK];
    int64_t out_size = np_element_bytes((neap_dtype)c->out->dtype);
    int64_t x_size = np_element_bytes((neap_dtype)c->in[0]->dtype);
    int64_t rows = np_size(job->rank, job->shape);
    np_share(rows, 1, lane, lanes, &begin, &end);
    if (begin == end)
        return;
    int64_t place = rows < lanes ? begin : lane;
    uint8_t *scratch = (uint8_t *)c->scratch + (size_t)place * row_bytes(c->in[0], axis);
    memcpy(strides, job->strides, sizeof strides);
    np_index_seek(job->rank, job->shape, begin, index, 2, at, strides);
    for (; begin < end && !np_stop_at(begin); begin++) {
        sort_row(job, c->out->data + at[0] * out_size, c->in[0]->data + at[1] * x_size, scratch);
        np_index_next(job->rank, job->shape, index, 2, at, strides);
    }
}

static neap_status run_order(const np_call *c, bool places)
{
    const np_operand *x = c->in[0], *out = c->out;
    int axis = ((const np_order_attr *)c->attr)->axis;
    np_order_job job = {
        .c = c,
        .places = places,
        .n = out->shape[axis],
        .step = {out->strides[axis], x->strides[axis]}
    };
    int64_t count = np_size(out->rank, out->shape);
    if (count == 0)
        return NEAP_OK;
    for (int d = 0; d < out->rank; d++) {
        if (d == axis)
            continue;
        job.shape[job.rank] = out->shape[d];
        job.strides[0][job.rank] = out->strides[d];
        job.strides[1][job.rank++] = x->strides[d];
    }
    if (count >= NP_PARALLEL_ELEMENTS / 8 && count > job.n)
        np_pool_run(c->pool, order_lane, &job);
    else
        order_lane(&job, 0, 1);
    return NEAP_OK;
}

/* ---- sort and argsort ------------------------------------------------------------------------ */

static bool sort_infer(neap_array *out)
{
    int axis = ((const np_order_attr *)(const void *)out->attr)->axis;
    np_infer_like(out, out->in[0]);
    out->dtype = out->in[0]->dtype;
    return out->shape[axis] <= UINT32_MAX ||
           np_op_fail(out, NEAP_ELIMIT, "axis %d has more than 2^32 - 1 elements", axis);
}

static bool argsort_infer(neap_array *out)
{
    if (!sort_infer(out))
        return false;
    out->dtype = NEAP_U32;
    return true;
}

static int order_part(const np_call *shapes, int dim, uint32_t input)
{
    (void)input;
    return dim == ((const np_order_attr *)shapes->attr)->axis ? NP_PART_NONE : dim;
}

/* Of words by digits of eight bits: counted, read and put. */
static double order_flops(const np_call *shapes)
{
    return np_flops_input(shapes, 3.0 * (double)np_element_bytes((neap_dtype)shapes->in[0]->dtype));
}

static neap_status sort_run(const np_call *c)
{
    return run_order(c, false);
}

static neap_status argsort_run(const np_call *c)
{
    return run_order(c, true);
}

const np_op np_op_sort = {.name = "sort",
                          .arity = 1,
                          .infer = sort_infer,
                          .scratch = order_scratch,
                          .run = sort_run,
                          .part = order_part,
                          .flops = order_flops};
const np_op np_op_argsort = {.name = "argsort",
                             .arity = 1,
                             .infer = argsort_infer,
                             .scratch = order_scratch,
                             .run = argsort_run,
                             .part = order_part,
                             .flops = order_flops,
                             .no_grad = "integer result"};

static neap_array *ordered(const np_op *op, neap_array *x, int axis)
{
    np_order_attr attr;
    if (!np_ready(1, &x) || !np_plain_dtype(op->name, x) || !np_axis(op->name, x, axis, &attr.axis))
        return NULL;
    return np_node(op, 1, &x, &attr, sizeof attr);
}

neap_array *neap_sort(neap_array *x, int axis)
{
    return ordered(&np_op_sort, x, axis);
}

neap_array *neap_argsort(neap_array *x, int axis)
{
    return ordered(&np_op_argsort, x, axis);
}

/* ---- partition, topk ------------------------------------------------------------------------- */

/* The whole order is one of those that a partition may give, and the same on every machine. */
static neap_array *parted(const char *name, const np_op *op, neap_array *x, int64_t kth, int axis)
{
    int a;
    if (!np_ready(1, &x) || !np_axis(name, x, axis, &a))
        return NULL;
    if (kth < -x->shape[a] || kth >= x->shape[a])
        return np_refuse(name, 1, &x, NEAP_EINVAL, "element %lld of axis %d, which has %lld",
                         (long long)kth, a, (long long)x->shape[a]);
    return ordered(op, x, a);
}

neap_array *neap_partition(neap_array *x, int64_t kth, int axis)
{
    return parted("partition", &np_op_sort, x, kth, axis);
}

neap_array *neap_argpartition(neap_array *x, int64_t kth, int axis)
{
    return parted("argpartition", &np_op_argsort, x, kth, axis);
}

neap_array *neap_topk(neap_array *x, int64_t k, int axis)
{
    int a;
    if (!np_ready(1, &x) || !np_axis("topk", x, axis, &a))
        return NULL;
    int64_t n = x->shape[a];
    if (k < 0 || k > n)
        return np_refuse("topk", 1, &x, NEAP_ESHAPE, "%lld elements of axis %d, which has %lld",
                         (long long)k, a, (long long)n);
    return neap_flip(neap_narrow(neap_sort(x, a), a, n - k, n), 1, &a);
}

/* ---- median ---------------------------------------------------------------------------------- */

/* The axes that stay, then those that go; *kept of the former. With no axes all go. */
static bool axes_last(neap_array *x, int n, const int *axes, int *order, int *kept)
{
    unsigned gone = n == 0 ? (1u << x->rank) - 1 : 0;
    for (int i = 0; i < n; i++) {
        int a;
        if (!np_axis("median", x, axes[i], &a))
            return false;
        if (gone & 1u << a) {
            np_refuse("median", 1, &x, NEAP_ESHAPE, "axis %d is named twice", a);
            return false;
        }
        gone |= 1u << a;
    }
    int at = 0;
    for (int d = 0; d < x->rank; d++)
        if (!(gone >> d & 1))
            order[at++] = d;
    *kept = at;
    for (int d = 0; d < x->rank; d++)
        if (gone >> d & 1)
            order[at++] = d;
    return true;
}

/* Of sorted rows along the last axis, n each: the mean of the middle two, NaN if the last is NaN.
 */
static neap_array *middle_of(neap_array *sorted, int64_t n)
{
    neap_dtype dtype = (neap_dtype)neap_array_dtype(sorted);
    neap_array *mid = neap_narrow(sorted, -1, n / 2, n / 2 + 1);
    neap_array *last = neap_narrow(sorted, -1, n - 1, n);
    if (n % 2 == 0) { /* halves first: their sum does not overflow */
        neap_array *half = neap_scalar(NEAP_F32, 0.5);
        neap_array *low = neap_narrow(sorted, -1, n / 2 - 1, n / 2);
        mid = neap_add(neap_mul(neap_cast(low, NEAP_F32), half),
                       neap_mul(neap_cast(mid, NEAP_F32), half));
    }
    return neap_where(neap_not_equal(last, last), last, neap_cast(mid, dtype));
}

neap_array *neap_median(neap_array *x, int n_axes, const int *axes, unsigned flags)
{
    int order[NEAP_MAX_RANK], kept;
    int64_t shape[NEAP_MAX_RANK], n = 1;
    if (!np_ready(1, &x) || !np_plain_dtype("median", x))
        return NULL;
    if (n_axes < 0 || (n_axes > 0 && !axes) || flags & ~(unsigned)NEAP_KEEPDIMS)
        return np_refuse("median", 1, &x, NEAP_EINVAL, "%d axes, flags %u", n_axes, flags);
    if (!axes_last(x, n_axes, axes, order, &kept))
        return NULL;
    bool keep = flags & NEAP_KEEPDIMS;
    int rank = keep ? x->rank : kept;
    int64_t result[NEAP_MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        result[d] = 1;
    for (int i = 0; i < x->rank; i++) {
        if (i >= kept) {
            n *= x->shape[order[i]];
            continue;
        }
        shape[i] = x->shape[order[i]];
        result[keep ? order[i] : i] = shape[i];
    }
    neap_dtype dtype = np_is_float(x->dtype) ? (neap_dtype)x->dtype : NEAP_F32;
    if (n == 0 && np_size(kept, shape) > 0)
        return np_refuse("median", 1, &x, NEAP_ESHAPE, "no elements");
    if (n == 0)
        return neap_full(rank, result, 0, dtype);
    shape[kept] = n;
    neap_array *rows = neap_reshape(neap_transpose(neap_cast(x, dtype), order), kept + 1, shape);
    neap_array *sorted = neap_sort(rows, -1);
    return sorted ? neap_reshape(middle_of(sorted, n), rank, result) : NULL;
}
