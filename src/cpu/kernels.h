/* kernels.h - the tables of kernels, one const table per family and instruction set.
 *
 * Kernels see raw pointers, counts and strides (in elements unless said), never arrays. They
 * allocate nothing: what they need comes as `scratch`, whose size a pure function tells. A result
 * never depends on the number of lanes, on how rows are cut into calls, or on scratch.
 * Only `static` functions in files built per instruction set; a table is the one exported name. */
#ifndef NP_KERNELS_H
#define NP_KERNELS_H

#include "base/interrupt.h"
#include "base/threads.h"
#include "neap/dtype.h"

/* ---- spans: n adjacent elements; 16-bit floats compute in f32 and round once -------------------- */
typedef void (*np_unary_fn)(void *out, const void *x, int64_t n);
/* sa, sb: 1 = adjacent elements, 0 = one element for all. out may equal a or b. */
typedef void (*np_binary_fn)(void *out, const void *a, const void *b, int64_t n, int sa, int sb);
/* out: bool bytes. */
typedef void (*np_compare_fn)(void *out, const void *a, const void *b, int64_t n, int sa, int sb);
/* cond: bool bytes; by size of element in bytes. */
typedef void (*np_where_fn)(void *out, const void *cond, const void *a, const void *b, int64_t n,
                            int sc, int sa, int sb);
/* Float to integer truncates towards zero and saturates, NaN gives 0; integers wrap. */
typedef void (*np_cast_fn)(void *out, const void *x, int64_t n);

/* ---- rows: `rows` rows of n elements; strides between rows in elements --------------------------- */

/* x[outer][n][inner] -> out[outer][inner]; strides of x in elements (0 and negative ones too), out is dense.
 * The tree of a sum is fixed by the index along n alone, whatever the strides. */
typedef struct np_reduce_args {
    void *out;
    const void *x;
    int64_t outer, n, inner;
    int64_t outer_stride, stride, inner_stride;
} np_reduce_args;
typedef void (*np_reduce_fn)(const np_reduce_args *args);
/* Squared distances from the mean, summed, over n - ddof (0 if that is negative); its root if wanted. */
typedef void (*np_var_fn)(const np_reduce_args *args, int64_t ddof, bool root);

typedef struct np_rows_args {
    void *out;
    const void *x;
    int64_t rows, n;
    int64_t out_stride, x_stride; /* between rows; elements of a row are adjacent */
    const void *weight, *bias;    /* [n], dtype of x; NULL: none */
    float eps;
} np_rows_args;
typedef void (*np_rows_fn)(const np_rows_args *args);

/* Rotary embedding of x[batch][heads][positions][dim] into out (may be x when strides agree). */
typedef struct np_rope_args {
    void *out;
    const void *x;
    int64_t batch, heads, positions, dim;
    int64_t out_strides[3], x_strides[3]; /* batch, head, position; dim is adjacent */
    int64_t rotary;                       /* leading elements that turn, even, <= dim; the rest is copied */
    bool interleaved;                     /* pairs (2i, 2i+1); else (i, i + rotary/2) */
    int64_t offset;                       /* position of row 0, when `at` is NULL */
    const int32_t *at;                    /* [batch or 1][positions] positions, or NULL */
    int64_t at_batch_stride;              /* 0: the same positions for the whole batch */
    float base, scale;                    /* angle = position * scale * base^(-2i/rotary) */
    const float *freqs;                   /* [rotary/2] divisors that replace base^(2i/rotary), or NULL */
} np_rope_args;
typedef void (*np_rope_fn)(const np_rope_args *args);

/* ---- encoded weights --------------------------------------------------------------------------- */

typedef enum np_coding {
    NP_CODING_FLOAT,  /* adjacent elements of `dtype` */
    NP_CODING_BLOCKS, /* GGUF blocks of type `dtype` */
    NP_CODING_AFFINE, /* codes of 2 3 4 5 6 8 bits, one little-endian stream a row: code * scale + bias */
    NP_CODING_NVFP4,  /* e2m1 times an e4m3 scale every 16 */
    NP_CODING_MXFP4,  /* e2m1 times a power of two (e8m0) every 32 */
    NP_CODING_MXFP8   /* e4m3 times an e8m0 scale every 32 */
} np_coding;

/* Rows of weights at any alignment. Groups are multiples of 16 elements, rows whole groups. */
typedef struct np_decoded {
    np_coding coding;
    neap_dtype dtype; /* affine: of scales and biases */
    int bits;
    int64_t group;
    const void *w, *scales, *biases;
    int64_t row, scale_row; /* bytes from row to row; scales from row to row */
} np_decoded;

enum {
    NP_DECODE_UNIT = 16, /* elements that a decoder gives at once */
    NP_DECODE_SHARE = 16 /* grain of columns shared among lanes */
};
/* Elements begin .. begin + n of a row; both multiples of the unit, or up to the row's end. */
typedef void (*np_piece_fn)(float *out, const np_decoded *w, int64_t row, int64_t begin, int64_t n);

/* Rows of x, each times the same weights. */
typedef struct np_decoded_vectors {
    np_decoded w;
    bool along_n;    /* w is [k][n]; else [n][k] */
    int64_t rows, n, k;
    const void *x;   /* elements of a row are adjacent */
    int64_t x_row;
    void *y;
    int64_t y_row;
    const int64_t *x_rows, *y_rows; /* which rows; NULL: 0, 1, .. */
    neap_dtype x_dtype, y_dtype;
} np_decoded_vectors;

/* ---- products ---------------------------------------------------------------------------------- */

/* Rows of A that are patches of an image, for convolutions. Row r is (batch, d, h, w) of `rows`; its
 * column is (tap d, h, w, channel) of `taps` and `channels`. Along each dimension a patch's element
 * stands at position first + row * stride + tap * dilation; outside 0 <= position < extent it is 0.
 * The memory of A never holds the patches. */
typedef struct np_gemm_image {
    int64_t rows[4], taps[3], channels;
    int64_t first[3], stride[3], dilation[3], extent[3];
    int64_t batch_step, step[3], channel_step; /* elements of A to the next */
    bool taps_apart; /* rows of B of a tap lie at b_tap[d] * tap (+ b_row * channel), else at b_row * k */
    int64_t b_tap[3];
    bool rows_apart; /* rows of C lie at c_rows (batch, d, h, w), else c_row apart */
    int64_t c_rows[4];
} np_gemm_image;

/* C[m][n] = A[m][k] B[k][n], f32 accumulators over k in order: element (i, j) is one chain of fma
 * from 0, so bits do not depend on blocking. `matrix` false with m == 1 takes the vector kernel
 * (whose order of additions differs); true always takes the matrix kernel. */
typedef struct np_gemm_args {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t a_row, a_col, b_row, b_col; /* strides; c's columns are adjacent */
    int64_t c_row;
    neap_dtype a_dtype, b_dtype, c_dtype; /* f32 f16 bf16, any mixture */
    bool matrix;
    const np_gemm_image *image; /* A is an image: a_row and a_col are unused, `matrix` is true; or NULL */
    const void *add;            /* C = alpha A B + beta add, in f32 before the one rounding; or NULL */
    neap_dtype add_dtype;
    int64_t add_row, add_col; /* strides; 0 broadcasts */
    float alpha, beta;
    np_piece_fn piece;      /* B's panels are decoded from `rows` while packed (matrix only); or NULL */
    const np_decoded *rows; /* b_row == 1: a row of them is a column of B; b_col == 1: a row of B */
    /* Called for each block of C that is made and stored, on the lane that made it, at its first element;
     * blocks cover C once. Not of images. NULL: nothing. */
    void (*finished)(void *arg, void *c, int64_t rows, int64_t columns);
    void *finished_arg;
    /* Not 0: bytes from an element of C to one that `finished` reads, fetched while C's is made: rows of a
     * block lie apart, and what the machine fetches of its own accord begins anew with each. */
    int64_t also;
} np_gemm_args;

/* Activations of a quantised product: int8 rows with, every 32 elements, an f32 scale d = max|x|/127
 * and d * sum(q). Private layout: by groups of rows for the matrix kernel, plain for the vector one.
 * The place of a row depends on k only, so fewer rows than planned may be filled. */
typedef struct np_quant_rows_args {
    void *out;
    const void *x;
    neap_dtype x_dtype; /* f32 f16 bf16 */
    int64_t m, k, x_row;
    bool matrix;
} np_quant_rows_args;

/* y[m][n] = x[m][k] w[n][k]^T. Per block of weights an exact int32 dot, then one f32 fma (two where
 * the type has a minimum) in block order: vector, matrix, mapped and packed give the same bits. */
typedef struct np_qmm_args {
    int64_t m, n, k;
    const void *x; /* from quant_rows with the same `matrix` */
    const void *w; /* GGUF blocks, or what qmm_pack made */
    neap_dtype w_dtype;
    bool packed, matrix; /* matrix false: m must be 1 */
    void *y;
    int64_t y_row;
    neap_dtype y_dtype; /* f32 f16 bf16 */
} np_qmm_args;

/* out[b][h][i] = softmax(scale q[b][h][i] . k + mask) v over the visible keys, by blocks of 64 keys
 * cut at absolute positions (multiples of 64): one row's bits depend on its own query and keys only,
 * not on the other rows of the call. Query i stands at position kv_len - q_len + i. A row that sees
 * no key gives zeros. No score matrix: scratch is a few blocks a lane. */
enum { NP_KEY_GROUP = 16 };
typedef struct np_attention_args {
    int64_t batch, q_heads, kv_heads, q_len, kv_len, dim, v_dim; /* q_heads a multiple of kv_heads */
    const void *q, *k, *v;
    void *out;
    int64_t q_strides[3], k_strides[3], v_strides[3], out_strides[3]; /* batch, head, position */
    neap_dtype q_dtype, k_dtype, v_dtype, out_dtype;
    bool k_grouped; /* k[b][h][position / 16][dim][16]; k_strides[2] is then between groups of 16 */
    const void *mask; /* bool (true: visible) or float (added), or NULL */
    neap_dtype mask_dtype;
    int64_t mask_strides[4]; /* batch, head, query, key; 0 broadcasts */
    const float *sinks;      /* [q_heads]: a logit that only joins the denominator, or NULL */
    float scale;
    bool causal;    /* query at position p sees keys <= p */
    int64_t window; /* > 0: and only keys > p - window */
} np_attention_args;

/* Steps of the gated delta rule for one head of one batch; all f32, elements of a row adjacent. */
typedef struct np_delta_args {
    int64_t steps, dk;
    const float *q, *k, *v, *g, *beta; /* of the first step: [dk], [dk], [dv], one, one */
    float *y;                          /* [dv] */
    int64_t q_step, k_step, v_step, g_step, beta_step, y_step; /* elements to the next step */
    float *state;                      /* [dv][dk], rewritten */
} np_delta_args;

/* ---- chains ------------------------------------------------------------------------------------ */

/* Several ops over one tile, each result in a place of the tile's own or of an array: on elements, with
 * the bits of the span kernels one after the other, and reductions of rows, with those of the row
 * kernels. A tile is rows of `cols` elements. A result may lie on an input of equal layout. */
typedef struct np_chain_place {
    uint8_t *data;
    int64_t row;  /* bytes from row to row */
    int32_t size; /* bytes of an element; the elements of a row are adjacent */
    bool one;     /* one element serves a whole row: an input, or the result of a reduction */
    bool fresh;   /* comes from memory: no other chain of the tile has read or written it */
} np_chain_place;

typedef enum np_chain_code {
    NP_CHAIN_UNARY,
    NP_CHAIN_BINARY, /* comparisons, too */
    NP_CHAIN_WHERE,
    NP_CHAIN_CAST,
    NP_CHAIN_ROW_SUM, /* f32, adjacent elements; the result is `one` */
    NP_CHAIN_ROW_MEAN,
    NP_CHAIN_ROW_MAX,
    NP_CHAIN_ROW_MIN,
    /* f32 in, f32 out: the op by its name, as the cheap ones are done in registers. */
    NP_CHAIN_F32,
    NP_CHAIN_BEFORE_NAMES = NP_CHAIN_F32 - 1,
#define NP_UNARY(name, class) NP_CHAIN_##name,
#define NP_BINARY(name, class) NP_CHAIN_##name,
#define NP_COMPARE(name, class)
#include "cpu/elementwise.def"
#undef NP_UNARY
#undef NP_BINARY
#undef NP_COMPARE
} np_chain_code;

typedef struct np_chain_op {
    int16_t code;
    uint16_t out, in[3]; /* places */
    bool far;            /* the result goes to memory that is not read again soon */
    bool passed;         /* only the next op of the chain reads the result */
    int16_t form;        /* set by `prepare` */
    uint8_t after;       /* set by `prepare` */
    union {
        np_unary_fn unary;
        np_binary_fn binary;
        np_where_fn where;
        np_cast_fn cast;
    } fn; /* the span kernel, whatever the code is; none of a reduction's */
} np_chain_op;

static inline bool np_chain_reduces(const np_chain_op *op)
{
    return op->code >= NP_CHAIN_ROW_SUM && op->code <= NP_CHAIN_ROW_MIN;
}

/* One table a family, each built in its own unit (kernels_<family>.c): what is wanted again after a
 * change of one kernel is that family only. */
typedef struct np_span_kernels {
#define NP_UNARY(name, class) np_unary_fn name[NEAP_DTYPE_SPAN];
#define NP_BINARY(name, class) np_binary_fn name[NEAP_DTYPE_SPAN];
#define NP_COMPARE(name, class) np_compare_fn name[NEAP_DTYPE_SPAN];
#include "cpu/elementwise.def"
#undef NP_UNARY
#undef NP_BINARY
#undef NP_COMPARE
    np_where_fn where[9]; /* by element size: 1 2 4 8 */
    np_cast_fn cast[NEAP_DTYPE_SPAN][NEAP_DTYPE_SPAN]; /* [from][to]; unquantised types */
} np_span_kernels;

typedef struct np_row_kernels {
    np_reduce_fn sum[NEAP_DTYPE_SPAN];    /* floats -> same dtype with f32 inside; ints, bool -> i64 */
    np_reduce_fn mean[NEAP_DTYPE_SPAN];   /* floats only */
    np_reduce_fn prod[NEAP_DTYPE_SPAN];   /* as sum */
    np_reduce_fn max[NEAP_DTYPE_SPAN];    /* NaN wins */
    np_reduce_fn min[NEAP_DTYPE_SPAN];
    np_reduce_fn argmax[NEAP_DTYPE_SPAN]; /* -> i32, the first of equals; NaN counts as the largest */
    np_reduce_fn argmin[NEAP_DTYPE_SPAN]; /* NaN counts as the smallest */
    np_var_fn var[NEAP_DTYPE_SPAN];       /* floats only; two passes: the exact mean first */
    np_reduce_fn logsumexp[NEAP_DTYPE_SPAN]; /* floats only; -inf for no elements */
    np_rows_fn softmax[NEAP_DTYPE_SPAN];  /* a row of only -inf gives zeros */
    np_rows_fn rms_norm[NEAP_DTYPE_SPAN];
    np_rows_fn layer_norm[NEAP_DTYPE_SPAN]; /* two passes: exact mean, then squared distances */
    np_rope_fn rope[NEAP_DTYPE_SPAN];
} np_row_kernels;

typedef struct np_product_kernels {
    size_t (*gemm_scratch)(const np_gemm_args *shape, int lanes); /* pointers and strides unused */
    void (*gemm)(const np_gemm_args *args, void *scratch, np_pool *pool);
    /* A depthwise convolution: output channel j of n takes channel j / (n / channels of A) of the image,
     * where image->channels is the number of channels of A and k the number of taps; b_col apart are the
     * weights of output channels, b_row (or b_tap) those of taps. */
    size_t (*depthwise_scratch)(const np_gemm_args *shape, int lanes);
    void (*depthwise)(const np_gemm_args *args, void *scratch, np_pool *pool);
    size_t (*attention_scratch)(const np_attention_args *shape, int lanes);
    void (*attention)(const np_attention_args *args, void *scratch, np_pool *pool);
} np_product_kernels;

typedef struct np_quant_kernels {
    size_t (*quant_rows_bytes)(int64_t m, int64_t k, bool matrix);
    void (*quant_rows)(const np_quant_rows_args *args, np_pool *pool);
    size_t (*qmm_scratch)(const np_qmm_args *shape, int lanes);
    void (*qmm)(const np_qmm_args *args, void *scratch, np_pool *pool);
    uint64_t (*qmm_pack_bytes)(neap_dtype w_dtype, int64_t n, int64_t k); /* 0: this type stays as it is */
    void (*qmm_pack)(void *out, const void *w, neap_dtype w_dtype, int64_t n, int64_t k, np_pool *pool);
    /* One row of w[n][k], mapped or packed, to f32: d * q (+ m) in f32, as the format defines. */
    void (*dequant_row)(float *out, const void *w, neap_dtype w_dtype, bool packed, int64_t n, int64_t k,
                        int64_t row);
} np_quant_kernels;

typedef struct np_decoded_kernels {
    np_piece_fn piece;
    /* n elements of a row as f32, f16 or bf16. */
    void (*row)(void *out, neap_dtype dtype, const np_decoded *w, int64_t row, int64_t n);
    /* Columns begin .. end (multiples of NP_DECODE_SHARE, or n) by the vector kernel, on this lane. The
     * bits of a row do not depend on the other rows. */
    void (*vectors)(const np_decoded_vectors *args, int64_t begin, int64_t end);
    /* All of it, by the vector kernel or the matrix kernel (which knows no x_rows, y_rows). */
    size_t (*product_scratch)(const np_decoded_vectors *shape, bool matrix, int lanes);
    void (*product)(const np_decoded_vectors *args, bool matrix, void *scratch, np_pool *pool);
} np_decoded_kernels;

typedef struct np_recurrent_kernels {
    /* Rows begin .. end of the state; a row's bits depend on itself only. */
    void (*delta_steps)(const np_delta_args *args, int64_t begin, int64_t end);
} np_recurrent_kernels;

typedef struct np_chain_kernels {
    /* Once before any run, and again when an op, or `one` of a place, has changed; of the places it reads
     * `one` and `fresh` only. A result that is `passed` may, but need not, be stored. */
    void (*prepare)(np_chain_op *ops, int n_ops, const np_chain_place *places);
    /* One tile, on the calling lane. */
    void (*run)(const np_chain_op *ops, int n_ops, const np_chain_place *places, int64_t rows,
                int64_t cols);
    /* On each lane after its last tile, if any result is `far`: other lanes may then read them. */
    void (*fence)(void);
} np_chain_kernels;

typedef struct np_kernels {
    const char *isa;
#define NP_FAMILY(family) const np_##family##_kernels *family;
#include "cpu/families.def"
#undef NP_FAMILY
} np_kernels;

/* The best table this machine can run, or the one named by NEAP_ISA; NEAP_EINVAL for an unknown or
 * impossible name. */
neap_status np_kernels_choose(neap_context *ctx, const np_kernels **out);
/* Every table that this machine can run, best first; NULL-terminated. For tests. */
const np_kernels *const *np_kernels_available(void);

#endif
