/* neap/ops.h - the operations. Each builds a node (or a view) and returns it, or NULL after storing
 * the error; see array.h. Axes may be negative (from the end). Elementwise ops broadcast as NumPy
 * does and promote: bool < integers < floats; f16 with bf16 gives f32; u8 with i8 gives i16, u32
 * with a signed type gives i64. 16-bit floats compute in f32 and round once. */
#ifndef NEAP_OPS_H
#define NEAP_OPS_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise ---------------------------------------------------------------------------- */
NEAP_API neap_array *neap_neg(neap_array *x);
NEAP_API neap_array *neap_abs(neap_array *x); /* not for bool */
NEAP_API neap_array *neap_square(neap_array *x);
/* Float results; integers and bool are taken as f32. */
NEAP_API neap_array *neap_exp(neap_array *x);
NEAP_API neap_array *neap_log(neap_array *x);
NEAP_API neap_array *neap_sqrt(neap_array *x);
NEAP_API neap_array *neap_rsqrt(neap_array *x);
NEAP_API neap_array *neap_tanh(neap_array *x);
NEAP_API neap_array *neap_erf(neap_array *x);
NEAP_API neap_array *neap_sigmoid(neap_array *x);
NEAP_API neap_array *neap_silu(neap_array *x);
NEAP_API neap_array *neap_gelu(neap_array *x);      /* exact, with erf */
NEAP_API neap_array *neap_gelu_tanh(neap_array *x); /* the tanh approximation */
NEAP_API neap_array *neap_reciprocal(neap_array *x);
NEAP_API neap_array *neap_expm1(neap_array *x); /* e^x - 1 */
NEAP_API neap_array *neap_log1p(neap_array *x); /* log(1 + x) */
NEAP_API neap_array *neap_log2(neap_array *x);
NEAP_API neap_array *neap_log10(neap_array *x);
NEAP_API neap_array *neap_sin(neap_array *x); /* radians, of any size */
NEAP_API neap_array *neap_cos(neap_array *x);
NEAP_API neap_array *neap_tan(neap_array *x);
NEAP_API neap_array *neap_arcsin(neap_array *x);
NEAP_API neap_array *neap_arccos(neap_array *x);
NEAP_API neap_array *neap_arctan(neap_array *x);
NEAP_API neap_array *neap_sinh(neap_array *x);
NEAP_API neap_array *neap_cosh(neap_array *x);
NEAP_API neap_array *neap_arcsinh(neap_array *x);
NEAP_API neap_array *neap_arccosh(neap_array *x);
NEAP_API neap_array *neap_arctanh(neap_array *x);
NEAP_API neap_array *neap_relu(neap_array *x); /* x's own dtype, not bool */
/* Integers and bool stay as they are. */
NEAP_API neap_array *neap_floor(neap_array *x);
NEAP_API neap_array *neap_ceil(neap_array *x);
NEAP_API neap_array *neap_round(neap_array *x); /* halves to even */
NEAP_API neap_array *neap_trunc(neap_array *x);
/* round(x 10^d) (1 / 10^d) in f32; d in -38 .. 38. Integers change only where d < 0. */
NEAP_API neap_array *neap_round_decimals(neap_array *x, int decimals);
NEAP_API neap_array *neap_sign(neap_array *x); /* -1, 0 or 1 of x's dtype; NaN stays */
/* bool results */
NEAP_API neap_array *neap_isnan(neap_array *x);
NEAP_API neap_array *neap_isinf(neap_array *x);
NEAP_API neap_array *neap_isfinite(neap_array *x);
NEAP_API neap_array *neap_add(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_sub(neap_array *a, neap_array *b); /* not for bool */
NEAP_API neap_array *neap_mul(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_div(neap_array *a, neap_array *b);     /* true division: floats */
/* Integers: exact, wraps, 0 for a negative exponent. */
NEAP_API neap_array *neap_pow(neap_array *a, neap_array *b);
/* Integers: floor(a / b) as in Python, but x // 0 = 0. Floats: the floor of the quotient after it was rounded
 * to the dtype, as MLX has it: 1.0f // 0.1f = 10, where NumPy, which takes the exact quotient, has 9. */
NEAP_API neap_array *neap_floor_divide(neap_array *a, neap_array *b);
/* a - b q with the exact q = floor(a / b), so not that of neap_floor_divide where a quotient rounds up to a
 * whole number: it has b's sign. Floats as numpy.mod; integers mod 0 = 0. */
NEAP_API neap_array *neap_remainder(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_arctan2(neap_array *a, neap_array *b);   /* the angle of (b, a) */
NEAP_API neap_array *neap_logaddexp(neap_array *a, neap_array *b); /* log(e^a + e^b) */
NEAP_API neap_array *neap_maximum(neap_array *a, neap_array *b); /* NaN wins */
NEAP_API neap_array *neap_minimum(neap_array *a, neap_array *b);
/* Comparisons and logic give bool. */
NEAP_API neap_array *neap_equal(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_not_equal(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_less(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_less_equal(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_greater(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_greater_equal(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_logical_and(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_logical_or(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_logical_not(neap_array *x);
/* Integers and bool only. Shifts take bool as u8; by the width or more, or by a negative number,
 * every bit is shifted out. */
NEAP_API neap_array *neap_bitwise_and(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_bitwise_or(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_bitwise_xor(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_bitwise_invert(neap_array *x); /* bool: not */
NEAP_API neap_array *neap_left_shift(neap_array *a, neap_array *b);
NEAP_API neap_array *neap_right_shift(neap_array *a, neap_array *b); /* the sign comes in */
/* condition ? a : b; the condition is taken as bool. */
NEAP_API neap_array *neap_where(neap_array *condition, neap_array *a, neap_array *b);
/* min(max(x, low), high); either bound may be NULL. */
NEAP_API neap_array *neap_clip(neap_array *x, neap_array *low, neap_array *high);
/* Float to integer truncates and saturates, NaN gives 0; integers wrap; to bool is "not 0". */
NEAP_API neap_array *neap_cast(neap_array *x, neap_dtype dtype);

/* ---- reductions ----------------------------------------------------------------------------- */
enum { NEAP_KEEPDIMS = 1 };
/* Over one axis. Sums of integers and bool are i64; of 16-bit floats f32 inside. */
NEAP_API neap_array *neap_sum(neap_array *x, int axis, unsigned flags);
NEAP_API neap_array *neap_mean(neap_array *x, int axis, unsigned flags); /* integers are cast to f32
                                      first, and summed in f32 */
/* NEAP_ESHAPE over an axis of extent 0, unless the result is empty. */
NEAP_API neap_array *neap_max(neap_array *x, int axis, unsigned flags);
NEAP_API neap_array *neap_min(neap_array *x, int axis, unsigned flags);
NEAP_API neap_array *neap_argmax(neap_array *x, int axis,
                                 unsigned flags); /* i32; first of equals */
NEAP_API neap_array *neap_argmin(neap_array *x, int axis, unsigned flags); /* NaN is the smallest */
/* Over every axis: a 0-d array. */
NEAP_API neap_array *neap_sum_all(neap_array *x);
/* The place in row-major order. */
NEAP_API neap_array *neap_argmax_all(neap_array *x, unsigned flags);
NEAP_API neap_array *neap_argmin_all(neap_array *x, unsigned flags);
/* Over n axes, each named once (NEAP_ESHAPE); n = 0: over all. Sums and products of integers of up
 * to 32 bits and of bool are i32 or u32 (they wrap), as in MLX; any and all give bool. Of no
 * elements: 0, 1, false, true, NaN (mean, var, std), -inf (logsumexp); NEAP_ESHAPE for max and min.
 */
NEAP_API neap_array *neap_sum_axes(neap_array *x, int n, const int *axes, unsigned flags);
NEAP_API neap_array *neap_prod_axes(neap_array *x, int n, const int *axes, unsigned flags);
NEAP_API neap_array *neap_mean_axes(neap_array *x, int n, const int *axes, unsigned flags);
NEAP_API neap_array *neap_max_axes(neap_array *x, int n, const int *axes, unsigned flags);
NEAP_API neap_array *neap_min_axes(neap_array *x, int n, const int *axes, unsigned flags);
NEAP_API neap_array *neap_any_axes(neap_array *x, int n, const int *axes, unsigned flags);
NEAP_API neap_array *neap_all_axes(neap_array *x, int n, const int *axes, unsigned flags);
/* Squared distances from the mean, summed, over count - ddof; and its root. Integers as f32. */
NEAP_API neap_array *neap_var_axes(neap_array *x, int n, const int *axes, int ddof, unsigned flags);
NEAP_API neap_array *neap_std_axes(neap_array *x, int n, const int *axes, int ddof, unsigned flags);
/* log(sum(e^x)), without overflow. */
NEAP_API neap_array *neap_logsumexp_axes(neap_array *x, int n, const int *axes, unsigned flags);

/* ---- rows ----------------------------------------------------------------------------------- */
/* A row of only -inf gives zeros. */
NEAP_API neap_array *neap_softmax(neap_array *x, int axis);
/* Over the last axis; weight [n] (and bias [n]) of x's dtype, or NULL. */
NEAP_API neap_array *neap_rms_norm(neap_array *x, neap_array *weight, float eps);
NEAP_API neap_array *neap_layer_norm(neap_array *x, neap_array *weight, neap_array *bias,
                                     float eps);

typedef struct neap_rope_options {
    size_t size;
    int rotary;               /* leading elements that turn; 0 = all */
    bool interleaved;         /* pairs (2i, 2i+1); else halves (i, i + rotary/2) */
    float base, scale;        /* angle = position * scale * base^(-2i/rotary) */
    int64_t offset;           /* position of the first row */
    neap_param *offset_param; /* added to offset when the plan runs; or NULL */
    neap_array *positions;    /* i32 [T] or [B, T] instead of an offset; or NULL */
    neap_array *freqs;        /* f32 [rotary/2] divisors instead of base; or NULL */
} neap_rope_options;
#define NEAP_ROPE_OPTIONS_INIT \
    NEAP_INIT_WITH(neap_rope_options, NEAP_SET(base, 10000.0f), NEAP_SET(scale, 1.0f))
/* x [.., T, D]: up to two leading dimensions (batch, heads). */
NEAP_API neap_array *neap_rope(neap_array *x, const neap_rope_options *options);

typedef struct neap_attention_options {
    size_t size;
    float scale;          /* of the scores; 0 = 1 / sqrt(D) */
    bool causal;          /* lower right: query i stands at Tk - Tq + i and sees keys up to there */
    int64_t window;       /* > 0: only the last `window` of those */
    neap_array *mask;     /* bool (true: visible) or float (added), broadcast to [B, H, Tq, Tk] */
    neap_array *sinks;    /* f32 [H]: logits that only join the denominators; or NULL */
    bool positions_first; /* result [B, Tq, H * Dv] instead of [B, H, Tq, Dv] */
} neap_attention_options;
#define NEAP_ATTENTION_OPTIONS_INIT NEAP_INIT(neap_attention_options)
/* softmax(q k^T scale + mask) v without a score matrix. q [B, H, Tq, D], k [B, Hkv, Tk, D],
 * v [B, Hkv, Tk, Dv], H a multiple of Hkv; k may also be a cache in groups of 16 positions
 * [B, Hkv, Tk/16, D, 16] (neap_key_cache_write). A row that sees no key gives zeros. */
NEAP_API neap_array *neap_attention(neap_array *q, neap_array *k, neap_array *v,
                                    const neap_attention_options *options);

/* ---- products ------------------------------------------------------------------------------- */
/* a [.., M, K] b [.., K, N] -> [.., M, N]; leading dimensions broadcast; 1-d operands as in NumPy.
 * Floats; the result has the promoted dtype. */
NEAP_API neap_array *neap_matmul(neap_array *a, neap_array *b);
/* beta c + alpha (a b), in f32 before one rounding; c broadcasts to the product (a bias: [N]). */
NEAP_API neap_array *neap_addmm(neap_array *c, neap_array *a, neap_array *b, float alpha,
                                float beta);
/* x [.., K] times w [N, K] transposed -> [.., N]; w quantised, or a float type (then as matmul). */
NEAP_API neap_array *neap_linear(neap_array *x, neap_array *w);

typedef struct neap_conv_options {
    size_t size;
    int spatial; /* 1..3 dimensions; the lists below have one value for each, outermost first */
    int64_t stride[3], padding[3], dilation[3];
    int64_t output_padding[3]; /* of a transposed one: more elements at the end */
    int64_t groups;
    bool transposed;
} neap_conv_options;
#define NEAP_CONV_OPTIONS_INIT                                                               \
    NEAP_INIT_WITH(neap_conv_options, NEAP_SET(spatial, 1), NEAP_SET(stride[0], 1),          \
                   NEAP_SET(stride[1], 1), NEAP_SET(stride[2], 1), NEAP_SET(dilation[0], 1), \
                   NEAP_SET(dilation[1], 1), NEAP_SET(dilation[2], 1), NEAP_SET(groups, 1))
/* x [N, spatial.., C] with w [O, kernel.., C / groups] -> [N, spatial'.., O], the promoted dtype of
 * two floats. spatial' = (spatial + 2 padding - dilation (kernel - 1) - 1) / stride + 1, transposed
 * (spatial - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1; NEAP_ESHAPE where
 * that is not positive. Patches are read from x as it lies and never stored. */
NEAP_API neap_array *neap_conv(neap_array *x, neap_array *w, const neap_conv_options *options);
/* Weights in a code that MLX knows. Rows are one little-endian bit stream in u32 along the last axis;
 * a scale (and bias) for every group_size elements of it: scales [.., K / group_size]. */
enum neap_quant_mode {
    NEAP_QUANT_AFFINE, /* 2, 3, 4, 5, 6 or 8 bits: code * scale + bias, of one float type */
    NEAP_QUANT_NVFP4,  /* e2m1, scales e4m3 in u8, 16 a group */
    NEAP_QUANT_MXFP8,  /* e4m3, scales e8m0 in u8, 32 a group */
    NEAP_QUANT_MXFP4   /* e2m1, scales e8m0 in u8, 32 a group */
};
typedef struct neap_quantised {
    size_t size;
    neap_array *w, *scales, *biases; /* biases: affine only, else NULL */
    int bits, group_size;            /* a group is a multiple of 16 */
    enum neap_quant_mode mode;
} neap_quantised;
#define NEAP_QUANTISED_INIT \
    NEAP_INIT_WITH(neap_quantised, NEAP_SET(bits, 4), NEAP_SET(group_size, 64))
/* x times the weights, decoded to f32, f32 sums; x's dtype. x [.., K] times w [N, K] transposed, or
 * without `transpose` w [K, N] -> [.., N]; or x [.., M, K] with w of the same leading dimensions. */
NEAP_API neap_array *neap_quantized_matmul(neap_array *x, const neap_quantised *w, bool transpose);
/* w as floats, in every dimension. */
NEAP_API neap_array *neap_dequantize(const neap_quantised *w, neap_dtype dtype);
/* The same of GGUF blocks of type `type` in a u8 array [N, bytes of a row]: x [.., K] -> [.., N] of
 * type `dtype`. Activations stay floats, where neap_linear makes int8 of them. */
NEAP_API neap_array *neap_linear_decoded(neap_array *x, neap_array *w, neap_dtype type,
                                         neap_dtype dtype);
/* Rows of such an array at integer indices [..] -> [.., K]. Out of range is NEAP_EINVAL when it
 * runs. */
NEAP_API neap_array *neap_embedding_decoded(neap_array *indices, neap_array *w, neap_dtype type,
                                            neap_dtype dtype);

/* Each row of x times the weights of some experts: x f32 [T, K], or [T, U, K] with a row for each, w
 * [E, N, K] (floats or a GGUF type), index [T, U] integers below E (NEAP_EINVAL when it runs) ->
 * f32 [T, U, N]: the bits that neap_linear gives with w[index]. T may be set at run time. */
NEAP_API neap_array *neap_expert_linear(neap_array *x, neap_array *w, neap_array *index);
/* As mlx.core.gather_mm: for each pair of indices (broadcast) the product of a matrix of a
 * [.., M, K] and one of b [.., K, N], counted through the leading dimensions -> [index shape, M, N].
 * Without indices of one side: 0, 1, .. in the shape of its leading dimensions; without any:
 * matmul. Out of range is NEAP_EINVAL when it runs. */
NEAP_API neap_array *neap_gather_mm(neap_array *a, neap_array *b, neap_array *lhs_indices,
                                    neap_array *rhs_indices);
/* The same with encoded weights; w [.., N, K], or [.., K, N] without `transpose`. */
NEAP_API neap_array *neap_gather_qmm(neap_array *x, const neap_quantised *w,
                                     neap_array *lhs_indices, neap_array *rhs_indices,
                                     bool transpose);

/* ---- kernels that exported programs name ------------------------------------------------------ */
/* The length of each vector along the last axis [.., D] -> [.., 1], summed in f32. */
NEAP_API neap_array *neap_tq_norm(neap_array *x, neap_dtype dtype);
/* Codes of values [.., D]: how many of the 15 boundaries lie strictly below; two a byte, the first in
 * the high half: u8 [.., D / 2]. */
NEAP_API neap_array *neap_tq4_compress(neap_array *values, neap_array *boundaries);
/* centroids[code] * norm: codes u8 [.., D / 2], a norm for each vector, 16 centroids -> [.., D]. */
NEAP_API neap_array *neap_tq_dequant(neap_array *codes, neap_array *norms, neap_array *centroids,
                                     neap_dtype dtype);
/* T steps of the gated delta rule, in f32: S *= g; d = beta (v - S k); S += d k^T; y = S q.
 * q, k [B, T, Hk, Dk], v [B, T, Hv, Dv], g, beta [B, T, Hv], state [B, Hv, Dv, Dk]; head h of v
 * meets head h / (Hv / Hk) of k. y [B, T, Hv, Dv] of v's dtype, the state after it of state's. */
NEAP_API neap_status neap_gated_delta_step(neap_array *q, neap_array *k, neap_array *v,
                                           neap_array *g, neap_array *beta, neap_array *state,
                                           neap_array **out_y, neap_array **out_state);

/* ---- shape ---------------------------------------------------------------------------------- */
/* Views where strides allow; neap_contiguous copies where they do not. -1 stands for the rest. */
NEAP_API neap_array *neap_reshape(neap_array *x, int rank, const int64_t *shape);
NEAP_API neap_array *neap_transpose(neap_array *x, const int *axes); /* NULL: reversed */
NEAP_API neap_array *neap_swap_axes(neap_array *x, int a, int b);
NEAP_API neap_array *neap_broadcast_to(neap_array *x, int rank, const int64_t *shape);
NEAP_API neap_array *neap_expand_dims(neap_array *x, int axis);
NEAP_API neap_array *neap_squeeze(neap_array *x, int axis);
/* Python's start:stop:step for every axis; step negative too; NEAP_END = open end. */
#define NEAP_END INT64_MIN
NEAP_API neap_array *neap_slice(neap_array *x, const int64_t *start, const int64_t *stop,
                                const int64_t *step);
/* One axis: [start, stop). */
NEAP_API neap_array *neap_narrow(neap_array *x, int axis, int64_t start, int64_t stop);
/* One element of an axis whose extent is set at run time, or at a parameter: index param + add. */
NEAP_API neap_array *neap_narrow_at(neap_array *x, int axis, neap_param *start, int64_t add,
                                    int64_t length);
/* x whose extent along axis is param's value when the plan runs; x's own extent is the capacity. */
NEAP_API neap_array *neap_limit(neap_array *x, int axis, neap_param *extent);
/* x with x[start:stop:step] replaced by update. A new array: x is unchanged. */
NEAP_API neap_array *neap_slice_update(neap_array *x, neap_array *update, const int64_t *start,
                                       const int64_t *stop, const int64_t *step);
NEAP_API neap_array *neap_concat(int n, neap_array *const *parts, int axis);
/* parts[i] = the i-th of n equal parts. */
NEAP_API neap_status neap_split(neap_array *x, int n, int axis, neap_array **parts);
/* Widths on both sides of each axis; negative ones cut off, here and below. */
NEAP_API neap_array *neap_pad(neap_array *x, const int64_t *before, const int64_t *after,
                              double value);
/* As NumPy's mode "edge": the first and last element of each axis repeated. */
NEAP_API neap_array *neap_pad_edge(neap_array *x, const int64_t *before, const int64_t *after);
NEAP_API neap_array *neap_contiguous(neap_array *x);
/* x reps[d] times over along each axis; fewer reps than axes: of the last ones; more: new axes. */
NEAP_API neap_array *neap_tile(neap_array *x, int n, const int64_t *reps);
/* Every row along axis `repeats` times, one after the other. */
NEAP_API neap_array *neap_repeat(neap_array *x, int64_t repeats, int axis);
/* What is shifted out at one end of axes[i] comes in at the other; shifts of one axis add up. */
NEAP_API neap_array *neap_roll(neap_array *x, int n, const int64_t *shifts, const int *axes);
NEAP_API neap_array *neap_flip(neap_array *x, int n, const int *axes); /* a view */
/* Along a new axis of the result. */
NEAP_API neap_array *neap_stack(int n, neap_array *const *parts, int axis);
/* parts[i] = the next sizes[i] along axis; the sizes add up to its extent. */
NEAP_API neap_status neap_split_sizes(neap_array *x, int n, const int64_t *sizes, int axis,
                                      neap_array **parts);
/* A view of x's elements in row-major order (a copy first where they lie otherwise): offset and
 * strides count elements, strides may be 0 or negative. NEAP_EINVAL if one lies outside x. */
NEAP_API neap_array *neap_as_strided(neap_array *x, int rank, const int64_t *shape,
                                     const int64_t *strides, int64_t offset);
/* Matrices (the last two axes) with zeros above (tril) or below (triu) the k-th diagonal; tri:
 * tril of n x m ones. */
NEAP_API neap_array *neap_tril(neap_array *x, int64_t k);
NEAP_API neap_array *neap_triu(neap_array *x, int64_t k);
NEAP_API neap_array *neap_tri(int64_t n, int64_t m, int64_t k, neap_dtype dtype);

/* ---- indices: integers, negative ones count from the end ------------------------------------- */
/* Out of range is NEAP_EINVAL when it runs, here and below. */
/* Rows (along axis) at indices. Rows of quantised weights come out as f32. */
NEAP_API neap_array *neap_take(neap_array *x, neap_array *indices, int axis);
/* One index an element: out[.., j, ..] = x[.., indices[.., j, ..], ..]; other axes broadcast. */
NEAP_API neap_array *neap_take_along_axis(neap_array *x, neap_array *indices, int axis);
/* Blocks of x, slice_sizes[d] along each axis d, that begin at indices[i] along axes[i] (at 0 along
 * the others). The indices broadcast together; result: their shape, then slice_sizes. */
NEAP_API neap_array *neap_gather(neap_array *x, int n, neap_array *const *indices, const int *axes,
                                 const int64_t *slice_sizes);
/* x plus updates, each added at its index along axis; indices and updates broadcast together, and
 * with x along the other axes. In the order of the indices; 16-bit floats add up in f32. */
NEAP_API neap_array *neap_scatter_add(neap_array *x, neap_array *indices, neap_array *updates,
                                      int axis);
/* x with its rows (along axis) at indices [n] replaced by update's, in order. */
NEAP_API neap_array *neap_index_copy(neap_array *x, neap_array *update, neap_array *indices,
                                     int axis);
/* Writes rows [Hkv, T, D] at positions param + 0.. of a key cache state [Hkv, C/16, D, 16]. Effect.
 */
NEAP_API neap_array *neap_key_cache_write(neap_array *cache, neap_array *rows,
                                          neap_param *position);

/* ---- in order: NaN is the largest ------------------------------------------------------------ */
NEAP_API neap_array *neap_sort(neap_array *x, int axis); /* ascending, stable */
/* u32: where in x the sorted elements stand, the first of equals first. */
NEAP_API neap_array *neap_argsort(neap_array *x, int axis);
/* No element before the kth (negative: from the end) is larger than it, none behind it smaller.
 * NEAP_EINVAL if there is no such element. argpartition: u32. */
NEAP_API neap_array *neap_partition(neap_array *x, int64_t kth, int axis);
NEAP_API neap_array *neap_argpartition(neap_array *x, int64_t kth, int axis);
/* The k largest along axis, the largest first. */
NEAP_API neap_array *neap_topk(neap_array *x, int64_t k, int axis);
/* Over n_axes axes, 0: all. The mean of the middle two where the number is even; NaN if there is
 * one. Integers as f32. */
NEAP_API neap_array *neap_median(neap_array *x, int n_axes, const int *axes, unsigned flags);

/* ---- running along an axis -------------------------------------------------------------------- */
/* Of the elements up to each one, or from it to the end (reverse), with it (inclusive) or without.
 * x's dtype (integers wrap), but the sums of bool are i32. */
NEAP_API neap_array *neap_cumsum(neap_array *x, int axis, bool reverse, bool inclusive);
NEAP_API neap_array *neap_cumprod(neap_array *x, int axis, bool reverse, bool inclusive);
/* Without elements: the smallest (largest) number of the dtype, -inf (inf) of floats. */
NEAP_API neap_array *neap_cummax(neap_array *x, int axis, bool reverse, bool inclusive);
NEAP_API neap_array *neap_cummin(neap_array *x, int axis, bool reverse, bool inclusive);

/* ---- making --------------------------------------------------------------------------------- */
NEAP_API neap_array *neap_arange(double start, double stop, double step, neap_dtype dtype);
/* 0-d: the parameter's value when the plan runs, plus `add`. The parameter must outlive it. */
NEAP_API neap_array *neap_param_scalar(neap_param *param, int64_t add, neap_dtype dtype);
NEAP_API neap_array *neap_full(int rank, const int64_t *shape, double value, neap_dtype dtype);
/* Keys are u32 [2]; a random op is a pure function of its key. */
NEAP_API neap_array *neap_random_key(uint64_t seed);
/* Random words of `width` bytes: u8, i16 (16 bits without a meaning) or u32. */
NEAP_API neap_array *neap_random_bits(neap_array *key, int rank, const int64_t *shape, int width);
/* f32 from low to high, which are finite; any two, also in falling order. */
NEAP_API neap_array *neap_random_uniform(neap_array *key, int rank, const int64_t *shape, float low,
                                         float high);
/* i32 indices drawn by softmax(logits) along the last axis. Evaluation is NEAP_EINVAL, naming the row, where
 * a logit is NaN or all of a row are -inf. */
NEAP_API neap_array *neap_random_categorical(neap_array *key, neap_array *logits);

/* ---- order ---------------------------------------------------------------------------------- */
/* x, evaluated only after `before`: whatever reads the result, or a view of it, runs when `before` and all that
 * this waits for have run; in no one step with it. Both may be arrays of any kind: values, views, other results of
 * this function, writes of a state; of a state read, the writes that it sees count. x itself, which others may
 * read, too, may be made earlier. What waits is no value until it is evaluated, even if x is one. */
NEAP_API neap_array *neap_depends(neap_array *x, neap_array *before);

#ifdef __cplusplus
}
#endif
#endif
