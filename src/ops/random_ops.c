/* random_ops.c - random numbers as pure functions of a key: bits, uniform, and categorical by the
 * largest of logits + Gumbel noise. Words, their order and the arithmetic are MLX's, so the same
 * key draws the same numbers. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "ops/support.h"

neap_array *neap_random_key(uint64_t seed)
{
    np_random_key key = np_random_seed(seed);
    return neap_array_from(NEAP_U32, 1, (int64_t[]){2}, key.k);
}

static np_random_key load_key(const np_operand *o)
{
    const uint32_t *p = (const uint32_t *)(const void *)o->data;
    return (np_random_key){
        {p[0], p[o->strides[0]]}
    };
}

static bool is_key(const char *op, neap_array *key)
{
    if (key->dtype == NEAP_U32 && key->rank == 1 && key->shape[0] == 2)
        return true;
    np_refuse(op, 1, &key, NEAP_ESHAPE, "a key is u32 [2]");
    return false;
}

/* ---- bits ----------------------------------------------------------------------------------- */

typedef struct np_bits_attr {
    int64_t shape[NEAP_MAX_RANK];
    int32_t rank, dtype;
} np_bits_attr;

static bool bits_infer(neap_array *out)
{
    const np_bits_attr *attr = (const void *)out->attr;
    out->dtype = (uint8_t)attr->dtype;
    out->rank = (uint8_t)attr->rank;
    memcpy(out->shape, attr->shape, sizeof out->shape);
    return true;
}

/* Twenty rounds of three operations make two words. */
static double word_flops(const np_call *shapes)
{
    return np_flops_result(shapes, 30);
}

typedef struct np_bits_job {
    np_random_key key;
    uint8_t *out;
    int64_t bytes;
} np_bits_job;

/* Word i of the stream; of the last one as many bytes as are wanted. */
static void put_word(const np_bits_job *job, int64_t i, uint32_t word)
{
    int64_t left = job->bytes - 4 * i;
    memcpy(job->out + 4 * i, &word, left < 4 ? (size_t)left : 4);
}

/* Both words of a counter at once: word i and the one half a stream on (np_random_word). */
static void bits_lane(void *arg, int lane, int lanes)
{
    const np_bits_job *job = arg;
    int64_t begin, end, words = job->bytes / 4 + (job->bytes % 4 > 0), first = (words + 1) / 2;
    np_share(first, 16, lane, lanes, &begin, &end);
    for (; begin < end && !np_stop_at(begin); begin++) {
        uint32_t out[2];
        bool alone = first + begin >= words;
        np_threefry(job->key, (uint32_t)begin, alone ? 0 : (uint32_t)(first + begin), out);
        put_word(job, begin, out[0]);
        if (!alone)
            put_word(job, first + begin, out[1]);
    }
}

static neap_status bits_run(const np_call *c)
{
    np_bits_job job = {load_key(c->in[0]), c->out->data,
                       np_size(c->out->rank, c->out->shape) *
                           np_element_bytes((neap_dtype)c->out->dtype)};
    if (job.bytes >= NP_PARALLEL_ELEMENTS / 2)
        np_pool_run(c->pool, bits_lane, &job);
    else
        bits_lane(&job, 0, 1);
    return NEAP_OK;
}

const np_op np_op_random_bits = {.name = "random_bits",
                                 .arity = 1,
                                 .infer = bits_infer,
                                 .run = bits_run,
                                 .flops = word_flops,
                                 .no_grad = "integer result"};

neap_array *neap_random_bits(neap_array *key, int rank, const int64_t *shape, int width)
{
    np_bits_attr attr;
    int64_t elements;
    uint64_t bytes;
    memset(&attr, 0, sizeof attr);
    if (!np_ready(1, &key) || !is_key("random_bits", key))
        return NULL;
    if (width != 1 && width != 2 && width != 4)
        return np_refuse("random_bits", 1, &key, NEAP_EINVAL, "%d bytes each, expected 1, 2 or 4",
                         width);
    attr.dtype = width == 1 ? NEAP_U8 : width == 2 ? NEAP_I16 : NEAP_U32;
    if (rank < 0 || rank > NEAP_MAX_RANK || (rank > 0 && !shape) ||
        !np_shape_bytes((neap_dtype)attr.dtype, rank, shape, &elements, &bytes))
        return np_refuse(
            "random_bits", 1, &key, NEAP_ESHAPE,
            "%d dimensions, at most %d; extents must be 0 or more, at most 2^62 in all", rank,
            NEAP_MAX_RANK);
    for (int d = 0; d < rank; d++)
        attr.shape[d] = shape[d];
    attr.rank = rank;
    return np_node(&np_op_random_bits, 1, &key, &attr, sizeof attr);
}

/* ---- uniform -------------------------------------------------------------------------------- */

typedef struct np_uniform_attr {
    int64_t shape[NEAP_MAX_RANK];
    float low, high;
    int32_t rank, unused;
} np_uniform_attr;

static bool uniform_infer(neap_array *out)
{
    const np_uniform_attr *attr = (const void *)out->attr;
    out->dtype = NEAP_F32;
    out->rank = (uint8_t)attr->rank;
    memcpy(out->shape, attr->shape, sizeof out->shape);
    return true;
}

typedef struct np_uniform_job {
    np_random_key key;
    float *out;
    int64_t n;
    float low, range;
    float scale; /* 1, or 2 where the range itself has no float: then it and `low` are halves */
} np_uniform_job;

static void uniform_lane(void *arg, int lane, int lanes)
{
    const np_uniform_job *job = arg;
    int64_t begin, end;
    np_share(job->n, 64, lane, lanes, &begin, &end);
    for (; begin < end && !np_stop_at(begin); begin++) {
        float u = np_random_uniform(np_random_word(job->key, (uint64_t)begin, (uint64_t)job->n));
        job->out[begin] = (job->range * u + job->low) * job->scale;
    }
}

static neap_status uniform_run(const np_call *c)
{
    const np_uniform_attr *attr = c->attr;
    np_uniform_job job = {load_key(c->in[0]), (float *)(void *)c->out->data,
                          np_size(c->out->rank, c->out->shape), attr->low, attr->high - attr->low, 1};
    if (isinf(job.range)) {
        job.low = attr->low / 2;
        job.range = attr->high / 2 - attr->low / 2;
        job.scale = 2;
    }
    if (job.n >= NP_PARALLEL_ELEMENTS / 8)
        np_pool_run(c->pool, uniform_lane, &job);
    else
        uniform_lane(&job, 0, 1);
    return NEAP_OK;
}

const np_op np_op_random_uniform = {.name = "random_uniform",
                                    .arity = 1,
                                    .infer = uniform_infer,
                                    .run = uniform_run,
                                    .flops = word_flops,
                                    .no_grad = "a constant of its key"};

neap_array *neap_random_uniform(neap_array *key, int rank, const int64_t *shape, float low,
                                float high)
{
    np_uniform_attr attr;
    int64_t elements;
    uint64_t bytes;
    memset(&attr, 0, sizeof attr);
    if (!np_ready(1, &key) || !is_key("random_uniform", key))
        return NULL;
    if (rank < 0 || rank > NEAP_MAX_RANK || (rank > 0 && !shape) ||
        !np_shape_bytes(NEAP_F32, rank, shape, &elements, &bytes))
        return np_refuse(
            "random_uniform", 1, &key, NEAP_ESHAPE,
            "%d dimensions, at most %d; extents must be 0 or more, at most 2^62 in all", rank,
            NEAP_MAX_RANK);
    if (!isfinite(low) || !isfinite(high))
        return np_refuse("random_uniform", 1, &key, NEAP_EINVAL, "from %g to %g, expected finite bounds",
                         (double)low, (double)high);
    for (int d = 0; d < rank; d++)
        attr.shape[d] = shape[d];
    attr.rank = rank;
    attr.low = low;
    attr.high = high;
    return np_node(&np_op_random_uniform, 1, &key, &attr, sizeof attr);
}

/* ---- categorical ---------------------------------------------------------------------------- */

static bool categorical_infer(neap_array *out)
{
    const neap_array *logits = out->in[1];
    out->dtype = NEAP_I32;
    out->rank = (uint8_t)(logits->rank - 1);
    memcpy(out->shape, logits->shape, out->rank * sizeof out->shape[0]);
    return true;
}

typedef struct np_categorical_job {
    const np_call *c;
    np_random_key key;
    int64_t rows, n;
} np_categorical_job;

enum { GUMBEL_TILE = 512 };

/* The first largest of logits + noise; -1 where a logit is NaN or all are -inf: nothing can be drawn. */
static int32_t draw(const np_categorical_job *job, int64_t row, const float *logits)
{
    const np_kernels *k = job->c->ctx->kernels;
    _Alignas(64) float noise[GUMBEL_TILE];
    float best = 0;
    int64_t at = -1;
    for (int64_t i = 0; i < job->n; i += GUMBEL_TILE) {
        int64_t n = job->n - i < GUMBEL_TILE ? job->n - i : GUMBEL_TILE;
        for (int64_t j = 0; j < n; j++)
            noise[j] = np_random_uniform(np_random_word(job->key, (uint64_t)(row * job->n + i + j),
                                                        (uint64_t)(job->rows * job->n)));
        k->span->log[NEAP_F32](noise, noise, n);
        k->span->neg[NEAP_F32](noise, noise, n);
        k->span->log[NEAP_F32](noise, noise, n);
        for (int64_t j = 0; j < n; j++) {
            float v = logits[i + j] - noise[j];
            if (at < 0 || v > best || (isnan(v) && !isnan(best))) {
                best = v;
                at = i + j;
            }
        }
    }
    return isnan(best) || best == -INFINITY ? -1 : (int32_t)at;
}

static void categorical_lane(void *arg, int lane, int lanes)
{
    const np_categorical_job *job = arg;
    const np_operand *logits = job->c->in[1];
    int64_t begin, end, index[NEAP_MAX_RANK], at[1], strides[1][NEAP_MAX_RANK];
    np_share(job->rows, 1, lane, lanes, &begin, &end);
    if (begin == end)
        return;
    memcpy(strides[0], logits->strides, sizeof strides[0]);
    np_index_seek(logits->rank - 1, logits->shape, begin, index, 1, at, strides);
    for (; begin < end && !np_stop(); begin++) {
        ((int32_t *)(void *)job->c->out->data)[begin] =
            draw(job, begin, (const float *)(const void *)logits->data + at[0]);
        np_index_next(logits->rank - 1, logits->shape, index, 1, at, strides);
    }
}

static neap_status categorical_run(const np_call *c)
{
    const np_operand *logits = c->in[1];
    np_categorical_job job = {c, load_key(c->in[0]), np_size(logits->rank - 1, logits->shape),
                              logits->shape[logits->rank - 1]};
    if (job.rows * job.n >= NP_PARALLEL_ELEMENTS / 8 && job.rows > 1)
        np_pool_run(c->pool, categorical_lane, &job);
    else
        categorical_lane(&job, 0, 1);
    const int32_t *out = (const int32_t *)(const void *)c->out->data;
    for (int64_t r = 0; r < job.rows && !np_stop(); r++)
        if (out[r] < 0)
            return np_fail(c->ctx, NEAP_EINVAL,
                           "row %lld of the logits has a NaN or nothing above -inf: no index can be drawn",
                           (long long)r);
    return NEAP_OK;
}

/* A word and two logarithms for every logit. */
static double categorical_flops(const np_call *shapes)
{
    const np_operand *logits = shapes->in[1];
    return 60 * (double)np_size(logits->rank, logits->shape);
}

const np_op np_op_random_categorical = {.name = "random_categorical",
                                        .arity = 2,
                                        .infer = categorical_infer,
                                        .run = categorical_run,
                                        .flops = categorical_flops,
                                        .no_grad = "integer result"};

neap_array *neap_random_categorical(neap_array *key, neap_array *logits)
{
    neap_array *in[2] = {key, logits};
    if (!np_ready(2, in) || !is_key("random_categorical", key) ||
        !np_plain_dtype("random_categorical", logits))
        return NULL;
    int64_t n = logits->rank ? logits->shape[logits->rank - 1] : 0;
    if (n < 1 || n > INT32_MAX)
        return np_refuse("random_categorical", 2, in, NEAP_ESHAPE,
                         "%lld choices, expected 1 to 2^31 - 1", (long long)n);
    in[1] = np_adjacent(neap_cast(logits, NEAP_F32));
    return np_node(&np_op_random_categorical, 2, in, NULL, 0);
}
