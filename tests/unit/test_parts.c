/* test_parts.c - the promise of np_op.part: a result has the same bits however it is cut. Every op
 * of ops.def that can be cut has a case here, with dtypes, shapes and layouts of its inputs. */
#include "parts_check.h"

/* ---- inputs --------------------------------------------------------------------------------- */

enum { LAYOUTS = 4 };

static int layout; /* of the case that is built: row-major, transposed, stepped back, broadcast */

static neap_array *numbers(neap_dtype dtype, int rank, const int64_t *shape, double low,
                           double high)
{
    static _Alignas(64) uint8_t data[MAX_ELEMENTS * 8];
    static uint32_t state = 1;
    int64_t n = np_size(rank, shape);
    bool is_unsigned = neap_dtype_describe(dtype)->class_ == NEAP_CLASS_UINT;
    assert_true(n <= MAX_ELEMENTS);
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        double v = low + (high - low) * (double)(state >> 8) / 16777216.0;
        store(dtype, data, i, dtype == NEAP_BOOL ? state >> 31 : is_unsigned ? fabs(v) : v);
    }
    return neap_array_from(dtype, rank, shape, data);
}

/* In the layout of the case, as far as the rank has it. */
static neap_array *laid(neap_dtype dtype, int rank, const int64_t *shape)
{
    int64_t s[NEAP_MAX_RANK], open[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
    memcpy(s, shape, (size_t)rank * sizeof *s);
    if (layout == 1 && rank >= 2) {
        s[rank - 1] = shape[rank - 2];
        s[rank - 2] = shape[rank - 1];
        return neap_swap_axes(numbers(dtype, rank, s, -4, 4), -1, -2);
    }
    if (layout == 2 && rank >= 1) {
        for (int d = 0; d < rank; d++) {
            open[d] = NEAP_END;
            step[d] = d == rank - 1 ? -2 : 1;
        }
        s[rank - 1] *= 2;
        return neap_slice(numbers(dtype, rank, s, -4, 4), open, open, step);
    }
    if (layout == 3 && rank >= 2) {
        s[rank == 2 ? 0 : 1] = 1;
        return neap_broadcast_to(numbers(dtype, rank, s, -4, 4), rank, shape);
    }
    return numbers(dtype, rank, shape, -4, 4);
}

#define SHAPE(...)                                                         \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) \
    {                                                                      \
        __VA_ARGS__                                                        \
    }

#define SHAPED(...) ((const int64_t[]){__VA_ARGS__})

/* Small, of four dimensions, of long rows, large enough for the lanes. */
static neap_array *array_of(neap_dtype dtype, int which)
{
    switch (which) {
    case 0:
        return laid(dtype, SHAPE(7, 5, 19));
    case 1:
        return laid(dtype, SHAPE(2, 3, 4, 17));
    case 2:
        return laid(dtype, SHAPE(4, 2100));
    default:
        return dtype == NEAP_F32 ? laid(dtype, SHAPE(2, 120, 140)) : laid(dtype, SHAPE(3, 12, 35));
    }
}
enum { ARRAYS = 4 };

/* ---- cases: the variants of an op, NULL behind the last ----------------------------------------
 */

static neap_array *build_softmax(neap_dtype dtype, int v)
{
    return v < ARRAYS    ? neap_softmax(array_of(dtype, v), -1)
           : v == ARRAYS ? neap_softmax(array_of(dtype, 0), 0)
                         : NULL;
}

static neap_array *build_rms_norm(neap_dtype dtype, int v)
{
    if (v >= 2 * ARRAYS)
        return NULL;
    neap_array *x = array_of(dtype, v / 2),
               *weight = numbers(dtype, 1, x->shape + x->rank - 1, -1, 1);
    return neap_rms_norm(x, v % 2 ? weight : NULL, 1e-5f);
}

static neap_array *build_layer_norm(neap_dtype dtype, int v)
{
    if (v >= 3 * ARRAYS)
        return NULL;
    neap_array *x = array_of(dtype, v / 3);
    neap_array *weight = numbers(dtype, 1, x->shape + x->rank - 1, -1, 1);
    neap_array *bias = numbers(dtype, 1, x->shape + x->rank - 1, -1, 1);
    return neap_layer_norm(x, v % 3 ? weight : NULL, v % 3 == 2 ? bias : NULL, 1e-5f);
}

/* Every axis of every array, with and without it in the result. */
static neap_array *reduced(neap_dtype dtype, int v, neap_array *(*op)(neap_array *, int, unsigned))
{
    for (int which = 0; which < ARRAYS; which++) {
        neap_array *x = array_of(dtype, which);
        if (v < 2 * x->rank)
            return op(x, v / 2, v % 2);
        v -= 2 * x->rank;
    }
    return NULL;
}

#define REDUCTION(name)                                      \
    static neap_array *build_##name(neap_dtype dtype, int v) \
    {                                                        \
        return reduced(dtype, v, neap_##name);               \
    }
#define OVER_AXES(name, ...)                                               \
    static neap_array *one_##name(neap_array *x, int axis, unsigned flags) \
    {                                                                      \
        return neap_##name##_axes(x, 1, &axis, __VA_ARGS__);               \
    }                                                                      \
    static neap_array *build_##name(neap_dtype dtype, int v)               \
    {                                                                      \
        return reduced(dtype, v, one_##name);                              \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(max)
REDUCTION(min)
REDUCTION(argmax)
REDUCTION(argmin)
OVER_AXES(prod, flags)
OVER_AXES(logsumexp, flags)
OVER_AXES(var, 1, flags)
OVER_AXES(std, 0, flags)

/* Rows, one row, leading dimensions of both, of one only. */
static bool factors(neap_dtype dtype, int v, neap_array *out[2])
{
    switch (v) {
    case 0:
        out[0] = laid(dtype, SHAPE(37, 65)), out[1] = laid(dtype, SHAPE(65, 40));
        return true;
    case 1:
        out[0] = laid(dtype, SHAPE(1, 300)), out[1] = laid(dtype, SHAPE(300, 33));
        return true;
    case 2:
        out[0] = laid(dtype, SHAPE(5, 4, 9)), out[1] = laid(dtype, SHAPE(5, 9, 35));
        return true;
    case 3:
        out[0] = laid(dtype, SHAPE(3, 7, 520)), out[1] = laid(dtype, SHAPE(520, 17));
        return true;
    case 4:
        out[0] = laid(dtype, SHAPE(6, 20)), out[1] = laid(dtype, SHAPE(4, 20, 10));
        return true;
    case 5:
        out[0] = laid(dtype, SHAPE(5, 1, 9)), out[1] = laid(dtype, SHAPE(5, 9, 35));
        return true;
    case 6:
        out[0] = laid(dtype, SHAPE(9)), out[1] = laid(dtype, SHAPE(5, 9, 3));
        return true;
    default:
        return false;
    }
}

static neap_array *build_matmul(neap_dtype dtype, int v)
{
    neap_array *in[2];
    return factors(dtype, v, in) ? neap_matmul(in[0], in[1]) : NULL;
}

static neap_array *build_addmm(neap_dtype dtype, int v)
{
    neap_array *in[2];
    if (!factors(dtype, v / 2, in))
        return NULL;
    neap_array *product = neap_matmul(in[0], in[1]);
    int one = product->rank - 1;
    neap_array *add =
        v % 2 ? laid(dtype, product->rank, product->shape) : laid(dtype, 1, product->shape + one);
    return neap_addmm(add, in[0], in[1], 0.5f, -1.5f);
}

static neap_array *build_contiguous(neap_dtype dtype, int v)
{
    return v < ARRAYS ? np_node(&np_op_contiguous, 1, (neap_array *[]){array_of(dtype, v)}, NULL, 0)
                      : NULL;
}

/* ---- ops that know where they are ---------------------------------------------------------------
 */

static neap_array *build_rope(neap_dtype dtype, int v)
{
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    o.interleaved = v % 2;
    switch (v) {
    case 0:
        return neap_rope(laid(dtype, SHAPE(11, 18)), &o);
    case 1:
        o.offset = 7;
        return neap_rope(laid(dtype, SHAPE(3, 11, 18)), &o);
    case 2:
        o.offset = 7;
        o.rotary = 10;
        return neap_rope(laid(dtype, SHAPE(2, 3, 130, 18)), &o);
    case 3:
        o.positions = numbers(NEAP_I32, SHAPE(2, 9), 0, 500);
        o.freqs = numbers(NEAP_F32, SHAPE(8), 1, 1000);
        return neap_rope(laid(dtype, SHAPE(2, 3, 9, 16)), &o);
    case 4:
        o.positions = numbers(NEAP_I64, SHAPE(1, 9), 0, 500);
        return neap_rope(laid(dtype, SHAPE(5, 9, 16)), &o);
    case 5:
        o.positions = numbers(NEAP_I32, SHAPE(5, 9), 0, 500);
        return neap_rope(laid(dtype, SHAPE(5, 9, 16)), &o);
    case 6:
        o.positions = numbers(NEAP_I32, SHAPE(9), 0, 500);
        return neap_rope(laid(dtype, SHAPE(4, 9, 16)), &o);
    default:
        return NULL;
    }
}

static neap_array *attend(neap_dtype dtype, const int64_t *q, const int64_t *k, int64_t values,
                          const neap_attention_options *o)
{
    int64_t v[4] = {k[0], k[1], k[2], values};
    return neap_attention(laid(dtype, 4, q), laid(dtype, 4, k), laid(dtype, 4, v), o);
}

static neap_array *build_attention(neap_dtype dtype, int v)
{
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    switch (v) {
    case 0:
        return attend(dtype, SHAPED(2, 3, 70, 16), SHAPED(2, 3, 90, 16), 16, &o);
    case 1:
        o.causal = false; /* fall through */
    case 2:
        return attend(dtype, SHAPED(1, 2, 5, 16), SHAPED(1, 2, 300, 16), 8, &o);
    case 3:
        o.positions_first = true;
        return attend(dtype, SHAPED(3, 4, 37, 16), SHAPED(3, 2, 37, 16), 32, &o);
    case 4:
        o.window = 9;
        o.mask = numbers(NEAP_BOOL, SHAPE(20, 33), 0, 1);
        o.sinks = numbers(NEAP_F32, SHAPE(3), -1, 1);
        return attend(dtype, SHAPED(2, 3, 20, 16), SHAPED(2, 3, 33, 16), 16, &o);
    case 5:
        return attend(dtype, SHAPED(2, 1, 40, 16), SHAPED(2, 1, 13, 16), 16, &o);
    case 6:
        o.causal = false;
        o.window = 9; /* only batches and heads */
        return attend(dtype, SHAPED(2, 3, 20, 16), SHAPED(2, 3, 33, 16), 16, &o);
    case 7:
        o.causal = false;
        o.mask = laid(dtype, SHAPE(2, 1, 7, 70));
        return neap_attention(laid(dtype, SHAPE(2, 3, 7, 16)), laid(dtype, SHAPE(2, 3, 5, 16, 16)),
                              laid(dtype, SHAPE(2, 3, 70, 16)), &o);
    case 8:
        return neap_attention(laid(dtype, SHAPE(4, 140, 8)), laid(dtype, SHAPE(4, 140, 8)),
                              laid(dtype, SHAPE(4, 140, 8)), &o);
    default:
        return NULL;
    }
}

static neap_array *triangle(neap_dtype dtype, int v, neap_array *(*op)(neap_array *, int64_t))
{
    static const int64_t k[] = {0, -3, 2};
    return v < 3 * (ARRAYS - 1) ? op(array_of(dtype, v / 3), k[v % 3]) : NULL;
}

static neap_array *build_tril(neap_dtype dtype, int v)
{
    return triangle(dtype, v, neap_tril);
}
static neap_array *build_triu(neap_dtype dtype, int v)
{
    return triangle(dtype, v, neap_triu);
}

static neap_array *build_arange(neap_dtype dtype, int v)
{
    return v == 0   ? neap_arange(-3, 90, 1, dtype)
           : v == 1 ? neap_arange(0.1, 97.3, 0.7, dtype)
                    : NULL;
}

/* ---- ops along an axis, at indices --------------------------------------------------------------
 */

static neap_array *along(neap_dtype dtype, int v, neap_array *(*op)(neap_array *, int, int))
{
    for (int which = 0; which < 2; which++) {
        neap_array *x = array_of(dtype, which);
        if (v < 2 * x->rank)
            return op(x, v / 2, v % 2);
        v -= 2 * x->rank;
    }
    return v == 0 ? op(array_of(dtype, 3), 1, 0) : NULL;
}

#define ALONG(name, call)                                             \
    static neap_array *along_##name(neap_array *x, int axis, int way) \
    {                                                                 \
        (void)way;                                                    \
        return call;                                                  \
    }                                                                 \
    static neap_array *build_##name(neap_dtype dtype, int v)          \
    {                                                                 \
        return along(dtype, v, along_##name);                         \
    }
ALONG(cumsum, neap_cumsum(x, axis, way, !way))
ALONG(cumprod, neap_cumprod(x, axis, way, true))
ALONG(cummax, neap_cummax(x, axis, way, !way))
ALONG(cummin, neap_cummin(x, axis, !way, way))
ALONG(sort, neap_sort(x, axis))
ALONG(argsort, neap_argsort(x, axis))
ALONG(roll, neap_roll(x, 1, (int64_t[]){way ? 5 : -1}, &axis))
ALONG(concat, neap_concat(3, (neap_array *[]){x, neap_narrow(x, axis, 1, 2), x}, axis))

/* Integers from -n to n - 1. */
static neap_array *places(neap_dtype dtype, int rank, const int64_t *shape, int64_t n)
{
    return neap_cast(neap_floor(numbers(NEAP_F32, rank, shape, (double)-n, (double)n)), dtype);
}

static neap_array *along_take(neap_array *x, int axis, int way)
{
    int64_t n = x->shape[axis];
    return x->rank == 4 && way ? neap_take(x, places(NEAP_I32, SHAPE(4), n), axis)
                               : neap_take(x, places(NEAP_I64, SHAPE(3, 5), n), axis);
}

static neap_array *build_take(neap_dtype dtype, int v)
{
    neap_array *y = along(dtype, v, along_take);
    if (y || dtype != NEAP_F32 || layout > 0 || v != 15)
        return y;
    neap_array *blocks = numbers(NEAP_U8, SHAPE(20 * 36), 0, 59); /* q4_0: finite scales */
    static uint8_t bytes[20 * 36];
    assert_int_equal(neap_array_read(blocks, bytes, sizeof bytes), NEAP_OK);
    return neap_take(neap_array_from(NEAP_Q4_0, SHAPE(20, 64), bytes),
                     places(NEAP_I32, SHAPE(7, 5), 20), 0);
}

static neap_array *along_take_along_axis(neap_array *x, int axis, int way)
{
    int64_t shape[NEAP_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = way ? 3 : 40;
    if (way) /* the same for all */
        for (int d = 0; d < x->rank; d++)
            shape[d] = d == axis ? 3 : 1;
    return neap_take_along_axis(x, places(NEAP_I32, x->rank, shape, x->shape[axis]), axis);
}

static neap_array *build_take_along_axis(neap_dtype dtype, int v)
{
    return along(dtype, v < 14 ? v : 99, along_take_along_axis);
}

static neap_array *along_index_copy(neap_array *x, int axis, int way)
{
    neap_array *rows = neap_narrow(x, axis, 0, 2);
    return neap_index_copy(x, way ? neap_mul(rows, rows) : rows,
                           places(NEAP_I32, SHAPE(2), x->shape[axis]), axis);
}

static neap_array *build_index_copy(neap_dtype dtype, int v)
{
    return along(dtype, v, along_index_copy);
}

static neap_array *build_gather(neap_dtype dtype, int v)
{
    if (v > 1)
        return NULL;
    neap_array *x = array_of(dtype, 0); /* 7 x 5 x 19 */
    neap_array *at[2] = {places(NEAP_I32, SHAPE(6, 4), 3),
                         places(NEAP_I64, SHAPE(v ? 1 : 6, 4), 2)};
    for (int i = 0; i < 2; i++)
        at[i] = neap_abs(at[i]);
    return neap_gather(x, 2, at, (int[]){0, 2}, (int64_t[]){2, 4, 17});
}

/* ---- encoded weights ------------------------------------------------------------------------- */

static neap_quantised weights(int way, int rank, const int64_t *shape)
{
    neap_quantised q = NEAP_QUANTISED_INIT;
    int64_t s[NEAP_MAX_RANK], k = shape[rank - 1];
    memcpy(s, shape, (size_t)rank * sizeof *s);
    q.group_size = 32;
    q.mode = way ? NEAP_QUANT_MXFP4 : NEAP_QUANT_AFFINE;
    s[rank - 1] = k / 8;
    q.w = numbers(NEAP_U32, rank, s, 0, 4294967295.0);
    s[rank - 1] = k / 32;
    q.scales = way ? numbers(NEAP_U8, rank, s, 120, 130) : numbers(NEAP_F32, rank, s, -1, 1);
    q.biases = way ? NULL : numbers(NEAP_F32, rank, s, -1, 1);
    return q;
}

static neap_array *build_decoded_matmul(neap_dtype dtype, int v)
{
    neap_quantised q = weights(v % 2, SHAPE(40, 64)), each = weights(v % 2, SHAPE(3, 40, 64));
    switch (v / 2) {
    case 0:
        return neap_quantized_matmul(laid(dtype, SHAPE(7, 64)), &q, true);
    case 1:
        return neap_quantized_matmul(laid(dtype, SHAPE(3, 5, 64)), &q, true);
    case 2:
        return neap_quantized_matmul(laid(dtype, SHAPE(3, 5, 40)), &each, false);
    case 3:
        return neap_quantized_matmul(laid(dtype, SHAPE(3, 1, 64)), &each, true);
    case 4:
        return neap_quantized_matmul(laid(dtype, SHAPE(1, 64)), &q, true);
    default:
        return NULL;
    }
}

static neap_array *build_dequantize(neap_dtype dtype, int v)
{
    if (v > 3)
        return NULL;
    neap_quantised q = v / 2 ? weights(v % 2, SHAPE(3, 5, 64)) : weights(v % 2, SHAPE(20, 64));
    return neap_dequantize(&q, dtype);
}

static neap_array *build_decoded_rows(neap_dtype dtype, int v)
{
    neap_array *at = neap_abs(places(NEAP_I32, SHAPE(4, 5), 19));
    return v > 0 ? NULL
                 : neap_embedding_decoded(at, numbers(NEAP_U8, SHAPE(20, 36), 0, 59), NEAP_Q4_0,
                                          dtype);
}

static neap_array *build_gather_matmul(neap_dtype dtype, int v)
{
    neap_quantised q = weights(v % 2, SHAPE(4, 40, 64));
    neap_array *which = neap_abs(places(NEAP_I32, SHAPE(6, 2), 3));
    switch (v) {
    case 0: /* fall through */
    case 1:
        return neap_gather_qmm(laid(dtype, SHAPE(6, 1, 1, 64)), &q, NULL, which, true);
    case 2:
        return neap_gather_qmm(laid(dtype, SHAPE(6, 1, 5, 64)), &q, NULL, which, true);
    case 3:
        return neap_gather_mm(laid(dtype, SHAPE(6, 1, 5, 9)), laid(dtype, SHAPE(4, 9, 20)), NULL,
                              which);
    default:
        return NULL;
    }
}

static neap_array *build_conv(neap_dtype dtype, int v)
{
    neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
    switch (v) {
    case 0:
        o.padding[0] = 1;
        return neap_conv(laid(dtype, SHAPE(5, 20, 6)), laid(dtype, SHAPE(7, 3, 6)), &o);
    case 1:
        o.spatial = 2;
        o.groups = 2;
        return neap_conv(laid(dtype, SHAPE(3, 9, 8, 6)), laid(dtype, SHAPE(8, 3, 2, 3)), &o);
    case 2:
        o.groups = 6;
        return neap_conv(laid(dtype, SHAPE(5, 20, 6)), laid(dtype, SHAPE(6, 3, 1)), &o);
    case 3:
        o.transposed = true;
        o.stride[0] = 2;
        return neap_conv(laid(dtype, SHAPE(5, 20, 6)), laid(dtype, SHAPE(7, 3, 6)), &o);
    default:
        return NULL;
    }
}

/* Elementwise ops need no `part`. */
static neap_array *build_where(neap_dtype dtype, int v)
{
    neap_array *x = v < ARRAYS ? array_of(dtype, v) : NULL;
    return x ? neap_where(neap_less(x, neap_scalar(dtype, 1)), neap_mul(x, x),
                          neap_cast(x, NEAP_F32))
             : NULL;
}

/* ---- every op ------------------------------------------------------------------------------- */

enum { EVERY, NUMBERS, FLOATS, WIDE };
static const neap_dtype dtypes_of[][NEAP_DTYPE_SPAN] = {
    [EVERY] = {NEAP_F32,  NEAP_F16,   NEAP_BF16,  NEAP_I8, NEAP_U8, NEAP_I16, NEAP_I32, NEAP_U32,
               NEAP_I64, NEAP_BOOL},
    [NUMBERS] = {NEAP_F32,  NEAP_F16,    NEAP_BF16,      NEAP_I8, NEAP_U8, NEAP_I16, NEAP_I32, NEAP_U32,
               NEAP_I64},
    [FLOATS] = {NEAP_F32,  NEAP_F16,   NEAP_BF16            },
    [WIDE] = {NEAP_F32,NEAP_BF16,NEAP_I32},
};
static const int counts_of[] = {[EVERY] = 10, [NUMBERS] = 9, [FLOATS] = 3, [WIDE] = 3};

typedef struct part_case {
    const np_op *op;
    int dtypes;
    neap_array *(*build)(neap_dtype dtype, int v);
} part_case;

#define CASE(op, dtypes)                \
    {                                   \
        &np_op_##op, dtypes, build_##op \
    }
static const part_case cases[] = {
    CASE(softmax, FLOATS),
    CASE(rms_norm, FLOATS),
    CASE(layer_norm, FLOATS),
    CASE(sum, EVERY),
    CASE(mean, FLOATS),
    CASE(max, EVERY),
    CASE(min, EVERY),
    CASE(argmax, EVERY),
    CASE(argmin, EVERY),
    CASE(prod, WIDE),
    CASE(logsumexp, FLOATS),
    CASE(var, FLOATS),
    CASE(std, FLOATS),
    CASE(matmul, FLOATS),
    CASE(addmm, FLOATS),
    CASE(contiguous, EVERY),
    CASE(concat, WIDE),
    CASE(rope, FLOATS),
    CASE(attention, FLOATS),
    CASE(tril, WIDE),
    CASE(triu, WIDE),
    CASE(arange, NUMBERS),
    CASE(cumsum, WIDE),
    CASE(cumprod, WIDE),
    CASE(cummax, WIDE),
    CASE(cummin, WIDE),
    CASE(sort, EVERY),
    CASE(argsort, EVERY),
    CASE(roll, WIDE),
    CASE(take, WIDE),
    CASE(take_along_axis, WIDE),
    CASE(index_copy, WIDE),
    CASE(gather, WIDE),
    CASE(decoded_matmul, FLOATS),
    CASE(dequantize, FLOATS),
    CASE(decoded_rows, FLOATS),
    CASE(gather_matmul, FLOATS),
    CASE(conv, FLOATS),
    CASE(where, WIDE),
};
enum { CASES = sizeof cases / sizeof cases[0] };

static int cuts_of[CASES];

/* Every node of the graph that can be cut; most are few. */
static void check_graph(neap_array *root)
{
    neap_array *list[64] = {root};
    int n = 1;
    for (int i = 0; i < n; i++) {
        neap_array *a = list[i];
        for (uint32_t k = 0; k < a->n_in + (a->base != NULL); k++) {
            neap_array *next = k < a->n_in ? a->in[k] : a->base;
            for (int j = 0; j < n && next; j++)
                next = list[j] == next ? NULL : next;
            assert_true(n < 64);
            if (next)
                list[n++] = next;
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        if (!list[i]->op || !(list[i]->op->part || list[i]->op->flags & NP_OP_ELEMENTWISE))
            continue;
        int cuts = check_parts(list[i]);
        for (int c = 0; c < CASES; c++)
            cuts_of[c] += cases[c].op == list[i]->op ? cuts : 0;
    }
}

static void run_case(const part_case *c, neap_dtype dtype)
{
    for (int v = 0;; v++) {
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        neap_array *y = c->build(dtype, v);
        if (!y && neap_context_status(ctx) != NEAP_OK)
            fail_msg("%s: %s", c->op->name, neap_context_error(ctx));
        if (y)
            check_graph(y);
        neap_scope_pop(ctx);
        if (!y)
            return;
    }
}

static void test_same_bits_however_cut(void **state)
{
    (void)state;
    int isa = 0;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++, isa++) {
        ctx = open_context((*k)->isa, 2);
        for (int c = 0; c < CASES; c++)
            for (int d = 0; d < counts_of[cases[c].dtypes]; d++)
                for (layout = 0; layout < LAYOUTS; layout++) /* f32 in each, the others in turn */
                    if (d == 0 || (c + d + isa + layout) % LAYOUTS == 0)
                        run_case(&cases[c], dtypes_of[cases[c].dtypes][d]);
        neap_context_free(ctx);
    }
}

/* The text names the index by its place in the whole result. */
static void test_errors_know_the_whole(void **state)
{
    (void)state;
    ctx = open_context((*np_kernels_available())->isa, 2);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    int32_t at[6] = {0, 1, 2, 0, 9, 1};
    float x[3] = {1, 2, 3}, y[2];
    neap_array *take = neap_take(neap_array_from(NEAP_F32, SHAPE(3), x),
                                 neap_array_from(NEAP_I32, SHAPE(3, 2), at), 0);
    np_operand in[2], out = {
                          .dtype = NEAP_F32, .rank = 2, .shape = {1, 2},
                                  .strides = {2, 1}
    };
    const np_operand *operands[2] = {&in[0], &in[1]};
    for (int i = 0; i < 2; i++)
        take_input(&in[i], take->in[i]);
    narrow(&in[1], 0, 2, 1);
    out.data = (uint8_t *)y;
    const int64_t first[2] = {2, 0}, whole_shape[2] = {3, 2};
    np_call call = {.ctx = ctx,
                    .op = take->op,
                    .attr = take->attr,
                    .n_in = 2,
                    .in = operands,
                    .out = &out,
                    .first = first,
                    .whole = whole_shape};
    assert_int_equal(take->op->run(&call), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "take: index 9 (number 4), the axis has 3"));
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

static void test_every_op_has_a_case(void **state)
{
    (void)state;
    for (const np_op *const *op = np_op_table(); *op; op++) {
        int at = 0;
        while (at < CASES && cases[at].op != *op)
            at++;
        if ((*op)->part && (at == CASES || cuts_of[at] == 0))
            fail_msg("%s can be made in parts, but none is tried here", (*op)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_however_cut),
        cmocka_unit_test(test_every_op_has_a_case),
        cmocka_unit_test(test_errors_know_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
