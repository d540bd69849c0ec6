/* test_ops.c - every row of tests/ops_cases.def, for each dtype and instruction set. Faults that
 * need more than a row, extents set at run time among them, are in test_ops_faults.c
 * and test_ops_dynamic.c. */
#include "ops_case_reader.h"
#include "ops_encoded.h"

#include "ops/support.h"

/* ---- builders: from inputs and parameters to the array that a row is about --------------------
 */

typedef struct row_input {
    neap_context *ctx;
    neap_array *in[MAX_INPUTS];
    int n;
    const char *params;
    neap_dtype dtype;
    neap_state *state; /* freed after the row */
    neap_param *param;
} row_input;

typedef neap_array *(*builder)(row_input *r);

#define NP_UNARY(op, operands)                        \
    static neap_array *build_##op(row_input *r)       \
    {                                                 \
        return neap_##op(r->in[0]);                   \
    }
#define NP_BINARY(op, operands)                       \
    static neap_array *build_##op(row_input *r)       \
    {                                                 \
        return neap_##op(r->in[0], r->in[1]);         \
    }
#define NP_COMPARE(op, operands) NP_BINARY(op, operands)
#include "cpu/elementwise.def"
#undef NP_UNARY
#undef NP_BINARY
#undef NP_COMPARE

#define REDUCTION(op)                                                                        \
    static neap_array *build_##op(row_input *r)                                              \
    {                                                                                        \
        return neap_##op(r->in[0], whole(r->params, "axis"), (unsigned)whole(r->params, "keep")); \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(max)
REDUCTION(min)
REDUCTION(argmax)
REDUCTION(argmin)

/* axes: none named = all. */
static int axes_of(const row_input *r, int *axes)
{
    int64_t given[10];
    int n = list(r->params, "axes", given);
    for (int i = 0; i < n; i++)
        axes[i] = (int)given[i];
    return n;
}

#define OVER_AXES(op)                                                                   \
    static neap_array *build_##op##_axes(row_input *r)                                  \
    {                                                                                   \
        int axes[10], n = axes_of(r, axes);                                             \
        return neap_##op##_axes(r->in[0], n, axes, (unsigned)whole(r->params, "keep")); \
    }
OVER_AXES(sum)
OVER_AXES(prod)
OVER_AXES(mean)
OVER_AXES(max)
OVER_AXES(min)
OVER_AXES(any)
OVER_AXES(all)
OVER_AXES(logsumexp)

static neap_array *build_var_axes(row_input *r)
{
    int axes[10], n = axes_of(r, axes);
    return neap_var_axes(r->in[0], n, axes, whole(r->params, "ddof"),
                         (unsigned)whole(r->params, "keep"));
}

static neap_array *build_std_axes(row_input *r)
{
    int axes[10], n = axes_of(r, axes);
    return neap_std_axes(r->in[0], n, axes, whole(r->params, "ddof"),
                         (unsigned)whole(r->params, "keep"));
}

static neap_array *build_argmax_all(row_input *r)
{
    return neap_argmax_all(r->in[0], (unsigned)whole(r->params, "keep"));
}

static neap_array *build_argmin_all(row_input *r)
{
    return neap_argmin_all(r->in[0], (unsigned)whole(r->params, "keep"));
}

#define UNARY(op)                               \
    static neap_array *build_##op(row_input *r) \
    {                                           \
        return neap_##op(r->in[0]);             \
    }
UNARY(isnan)
UNARY(isinf)
UNARY(isfinite)

static neap_array *build_round_decimals(row_input *r)
{
    return neap_round_decimals(r->in[0], whole(r->params, "d"));
}

static neap_array *build_sum_all(row_input *r) { return neap_sum_all(r->in[0]); }
static neap_array *build_where(row_input *r) { return neap_where(r->in[0], r->in[1], r->in[2]); }
static neap_array *build_clip(row_input *r) { return neap_clip(r->in[0], r->in[1], r->in[2]); }
static neap_array *build_clip_low(row_input *r) { return neap_clip(r->in[0], r->in[1], NULL); }

static neap_dtype target_dtype(const row_input *r)
{
    const char *to = parameter(r->params, "to");
    return to ? dtype_named(to, strcspn(to, " ")) : (neap_dtype)r->in[0]->dtype;
}

static neap_array *build_cast(row_input *r) { return neap_cast(r->in[0], target_dtype(r)); }

static neap_array *build_softmax(row_input *r)
{
    return neap_softmax(r->in[0], whole(r->params, "axis"));
}

static neap_array *build_rms_norm(row_input *r)
{
    return neap_rms_norm(r->in[0], whole(r->params, "weight") ? r->in[1] : NULL,
                         (float)number(r->params, "eps", 0));
}

static neap_array *build_layer_norm(row_input *r)
{
    int weight = whole(r->params, "weight");
    return neap_layer_norm(r->in[0], weight ? r->in[1] : NULL,
                           whole(r->params, "bias") ? r->in[1 + weight] : NULL,
                           (float)number(r->params, "eps", 0));
}

static neap_array *build_rope(row_input *r)
{
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    int positions = whole(r->params, "positions");
    o.rotary = whole(r->params, "rotary");
    o.interleaved = whole(r->params, "interleaved");
    o.base = (float)number(r->params, "base", 10000);
    o.scale = (float)number(r->params, "scale", 1);
    o.offset = whole(r->params, "offset");
    o.positions = positions ? r->in[1] : NULL;
    o.freqs = whole(r->params, "freqs") ? r->in[1 + positions] : NULL;
    return neap_rope(whole(r->params, "heads_first") ? neap_swap_axes(r->in[0], 0, 1) : r->in[0],
                     &o);
}

/* [.., T, D] -> [.., T / 16, D, 16], zeros behind the last key. */
static neap_array *grouped(neap_array *k)
{
    int r = k->rank;
    int64_t t = k->shape[r - 2], groups = (t + 15) / 16, zero[8] = {0}, after[8] = {0}, shape[8];
    after[r - 2] = groups * 16 - t;
    memcpy(shape, k->shape, sizeof shape);
    shape[r - 2] = groups;
    shape[r - 1] = 16;
    shape[r] = k->shape[r - 1];
    return neap_contiguous(
        neap_swap_axes(neap_reshape(neap_pad(k, zero, after, 0), r + 1, shape), -1, -2));
}

static neap_array *build_attention(row_input *r)
{
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    int at = 3;
    o.scale = (float)number(r->params, "scale", 0);
    o.causal = whole(r->params, "causal");
    o.window = whole(r->params, "window");
    o.positions_first = whole(r->params, "first");
    o.mask = whole(r->params, "mask") ? r->in[at++] : NULL;
    o.sinks = whole(r->params, "sinks") ? r->in[at] : NULL;
    for (int i = 0; i < 3 && whole(r->params, "swap"); i++)
        r->in[i] = neap_swap_axes(r->in[i], -1, -2);
    return neap_attention(r->in[0], whole(r->params, "grouped") ? grouped(r->in[1]) : r->in[1],
                          r->in[2], &o);
}

static void spatial_list(const row_input *r, const char *key, int64_t out[3])
{
    int64_t given[10];
    int n = list(r->params, key, given);
    for (int i = 0; i < n; i++)
        out[i] = given[i];
}

static neap_array *build_conv(row_input *r)
{
    neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
    o.spatial = r->in[0]->rank - 2;
    spatial_list(r, "stride", o.stride);
    spatial_list(r, "padding", o.padding);
    spatial_list(r, "dilation", o.dilation);
    spatial_list(r, "output_padding", o.output_padding);
    o.spatial = (int)number(r->params, "spatial", o.spatial);
    o.groups = (int64_t)number(r->params, "groups", 1);
    o.transposed = whole(r->params, "transposed");
    neap_array *x = r->in[0];
    if (whole(r->params, "first")) { /* x is [N, C, spatial..], w [O, C, kernel..] */
        for (int i = 0; i < 2; i++)
            for (int d = 1; d < x->rank - 1; d++)
                r->in[i] = neap_swap_axes(r->in[i], d, d + 1);
    }
    return neap_conv(r->in[0], r->in[1], &o);
}

static neap_array *build_matmul(row_input *r) { return neap_matmul(r->in[0], r->in[1]); }
static neap_array *build_addmm(row_input *r)
{
    return neap_addmm(r->in[2], r->in[0], r->in[1], (float)number(r->params, "alpha", 1),
                      (float)number(r->params, "beta", 1));
}
static neap_array *build_linear(row_input *r) { return neap_linear(r->in[0], r->in[1]); }

static neap_array *weights(const row_input *r)
{
    char name[40];
    const char *w = parameter(r->params, "w");
    snprintf(name, sizeof name, "weights/%.4s", w);
    return neap_array_from(dtype_named(w, 4), 2, (int64_t[]){5, 256}, find_golden(name).data);
}

static neap_array *build_linear_q(row_input *r) { return neap_linear(r->in[0], weights(r)); }
static neap_array *build_expert_linear(row_input *r)
{
    char name[40];
    const char *w = parameter(r->params, "w");
    if (!w)
        return neap_expert_linear(r->in[0], r->in[1], r->in[2]);
    snprintf(name, sizeof name, "weights/%.4s", w); /* five experts of one row */
    neap_array *five =
        neap_array_from(dtype_named(w, 4), 3, (int64_t[]){5, 1, 256}, find_golden(name).data);
    return neap_expert_linear(r->in[0], five, r->in[1]);
}
static neap_array *build_take_q(row_input *r) { return neap_take(weights(r), r->in[0], 0); }

static neap_array *build_quantized_matmul(row_input *r)
{
    neap_quantised q = encoded_weights(r->params);
    spoil(r->params, &q);
    return neap_quantized_matmul(r->in[0], &q, !whole(r->params, "along"));
}

static neap_array *build_dequantize(row_input *r)
{
    neap_quantised q = encoded_weights(r->params);
    spoil(r->params, &q);
    return neap_dequantize(&q, r->dtype);
}

static neap_array *build_linear_decoded(row_input *r)
{
    return neap_linear_decoded(r->in[0], block_bytes(r->params), block_type(r->params), r->dtype);
}

static neap_array *build_embedding_decoded(row_input *r)
{
    return neap_embedding_decoded(r->in[0], block_bytes(r->params), block_type(r->params),
                                  r->dtype);
}

/* Inputs: x, perhaps b, then the indices that lhs=1 and rhs=1 announce. */
static neap_array *build_gather_mm(row_input *r)
{
    const int lhs = whole(r->params, "lhs"), rhs = whole(r->params, "rhs");
    return neap_gather_mm(r->in[0], r->in[1], lhs ? r->in[2] : NULL, rhs ? r->in[2 + lhs] : NULL);
}

static neap_array *build_gather_qmm(row_input *r)
{
    const int lhs = whole(r->params, "lhs"), rhs = whole(r->params, "rhs");
    neap_quantised q = encoded_weights(r->params);
    return neap_gather_qmm(r->in[0], &q, lhs ? r->in[1] : NULL, rhs ? r->in[1 + lhs] : NULL,
                           !whole(r->params, "along"));
}

static neap_array *build_tq_norm(row_input *r) { return neap_tq_norm(r->in[0], r->dtype); }

static neap_array *build_tq4_compress(row_input *r)
{
    return neap_tq4_compress(r->in[0], r->in[1]);
}

static neap_array *build_tq_dequant(row_input *r)
{
    return neap_tq_dequant(r->in[0], r->in[1], r->in[2], r->dtype);
}

/* y, or with state=1 what the state is then. */
static neap_array *build_gated_delta(row_input *r)
{
    neap_array *y, *state;
    neap_gated_delta_step(r->in[0], r->in[1], r->in[2], r->in[3], r->in[4], r->in[5], &y, &state);
    return whole(r->params, "state") ? state : y;
}

static neap_array *build_contiguous(row_input *r) { return neap_contiguous(r->in[0]); }
static neap_array *build_depends(row_input *r)
{
    return neap_depends(r->in[0], neap_exp(r->in[1]));
}

static neap_array *build_reshape(row_input *r)
{
    int64_t shape[10];
    return neap_reshape(r->in[0], list(r->params, "shape", shape), shape);
}

static neap_array *build_broadcast_to(row_input *r)
{
    int64_t shape[10];
    return neap_broadcast_to(r->in[0], list(r->params, "shape", shape), shape);
}

static neap_array *build_transpose(row_input *r)
{
    int64_t given[10];
    int axes[10], n = list(r->params, "axes", given);
    for (int i = 0; i < n; i++)
        axes[i] = (int)given[i];
    return neap_transpose(r->in[0], n ? axes : NULL);
}

static neap_array *build_swap_axes(row_input *r)
{
    return neap_swap_axes(r->in[0], whole(r->params, "a"), whole(r->params, "b"));
}

static neap_array *build_expand_dims(row_input *r)
{
    return neap_expand_dims(r->in[0], whole(r->params, "axis"));
}

static neap_array *build_squeeze(row_input *r)
{
    return neap_squeeze(r->in[0], whole(r->params, "axis"));
}

typedef struct span_lists {
    int64_t start[10], stop[10], step[10];
    bool any;
} span_lists;

static span_lists spans_of(const row_input *r)
{
    span_lists s;
    s.any = list(r->params, "start", s.start) > 0;
    list(r->params, "stop", s.stop);
    list(r->params, "step", s.step);
    return s;
}

static neap_array *build_slice(row_input *r)
{
    span_lists s = spans_of(r);
    return neap_slice(r->in[0], s.start, s.stop, s.step);
}

static neap_array *build_slice_update(row_input *r)
{
    span_lists s = spans_of(r);
    return neap_slice_update(r->in[0], r->in[1], s.start, s.stop, s.step);
}

static neap_array *build_narrow(row_input *r)
{
    return neap_narrow(r->in[0], whole(r->params, "axis"), whole(r->params, "a"),
                       whole(r->params, "b"));
}

static neap_array *build_split(row_input *r)
{
    neap_array *parts[8];
    int n = whole(r->params, "n");
    return neap_split(r->in[0], n, whole(r->params, "axis"), parts) == NEAP_OK
               ? parts[whole(r->params, "part")]
               : NULL;
}

static neap_array *build_concat(row_input *r)
{
    return neap_concat(r->n, r->in, whole(r->params, "axis"));
}

static neap_array *build_pad(row_input *r)
{
    int64_t before[10], after[10];
    list(r->params, "before", before);
    list(r->params, "after", after);
    return neap_pad(r->in[0], before, after, number(r->params, "value", 0));
}

static neap_array *build_take(row_input *r)
{
    return neap_take(r->in[0], r->in[1], whole(r->params, "axis"));
}

static neap_array *build_arange(row_input *r)
{
    return neap_arange(number(r->params, "start", 0), number(r->params, "stop", 0),
                       number(r->params, "step", 0), r->dtype);
}

static neap_array *build_param_scalar(row_input *r)
{
    assert_int_equal(neap_param_new(r->ctx, "p", 1000, &r->param), NEAP_OK);
    assert_int_equal(neap_param_set(r->param, whole(r->params, "at")), NEAP_OK);
    return neap_param_scalar(r->param, whole(r->params, "add"), r->dtype);
}

static neap_array *build_full(row_input *r)
{
    int64_t shape[10];
    return neap_full(list(r->params, "shape", shape), shape, number(r->params, "value", 0),
                     r->dtype);
}

static neap_array *key_of(const row_input *r)
{
    return neap_random_key(strtoull(parameter(r->params, "seed"), NULL, 10));
}

static neap_array *build_random_uniform(row_input *r)
{
    int64_t shape[10];
    int rank = list(r->params, "shape", shape);
    return neap_random_uniform(key_of(r), rank, shape, (float)number(r->params, "low", 0),
                               (float)number(r->params, "high", 1));
}

static neap_array *build_random_categorical(row_input *r)
{
    return neap_random_categorical(key_of(r), r->in[0]);
}

/* What the state holds after the write. */
static neap_array *build_state_write(row_input *r)
{
    int64_t shape[10];
    int rank = list(r->params, "state", shape);
    assert_int_equal(neap_state_new(r->ctx, "s", target_dtype(r), rank, shape, &r->state), NEAP_OK);
    neap_array *target = neap_state_read(r->state);
    span_lists s = spans_of(r);
    if (parameter(r->params, "at")) {
        int axis = whole(r->params, "axis");
        assert_int_equal(neap_param_new(r->ctx, "p", shape[axis] - 1, &r->param), NEAP_OK);
        assert_int_equal(neap_param_set(r->param, whole(r->params, "at")), NEAP_OK);
        target = neap_narrow_at(target, axis, r->param, 0, r->in[0]->shape[axis]);
    } else if (s.any) {
        target = neap_slice(target, s.start, s.stop, s.step);
    }
    if (whole(r->params, "t"))
        target = neap_transpose(target, NULL);
    return neap_state_write(target, r->in[0]) ? neap_state_read(r->state) : NULL;
}

static neap_array *build_key_cache_write(row_input *r)
{
    neap_array *rows = whole(r->params, "swap") ? neap_swap_axes(r->in[0], 0, 1) : r->in[0];
    int64_t shape[4] = {rows->shape[0], whole(r->params, "groups"), rows->shape[rows->rank - 1],
                        16};
    assert_int_equal(neap_state_new(r->ctx, "s", target_dtype(r), 4, shape, &r->state), NEAP_OK);
    assert_int_equal(neap_param_new(r->ctx, "p", shape[1] * 16, &r->param), NEAP_OK);
    assert_int_equal(neap_param_set(r->param, whole(r->params, "at")), NEAP_OK);
    return neap_key_cache_write(neap_state_read(r->state), rows, r->param)
               ? neap_state_read(r->state)
               : NULL;
}

#include "ops_build_index.h"

static const struct {
    const char *name;
    builder build;
} builders[] = {
#define NP_UNARY(op, operands) {#op, build_##op},
#define NP_BINARY(op, operands) {#op, build_##op},
#define NP_COMPARE(op, operands) {#op, build_##op},
#include "cpu/elementwise.def"
#undef NP_UNARY
#undef NP_BINARY
#undef NP_COMPARE
#define ROW(name) {#name, build_##name}
    ROW(sum), ROW(mean), ROW(max), ROW(min), ROW(argmax), ROW(sum_all), ROW(argmin),
    ROW(argmax_all), ROW(argmin_all), ROW(sum_axes), ROW(prod_axes), ROW(mean_axes), ROW(max_axes),
    ROW(min_axes), ROW(any_axes), ROW(all_axes), ROW(var_axes), ROW(std_axes), ROW(logsumexp_axes),
    ROW(isnan),
    ROW(isinf), ROW(isfinite), ROW(round_decimals), ROW(where), ROW(clip),
    ROW(clip_low), ROW(cast), ROW(softmax), ROW(rms_norm), ROW(layer_norm), ROW(rope),
    ROW(attention), ROW(conv), ROW(matmul), ROW(addmm), ROW(linear), ROW(linear_q),
    ROW(take_q), ROW(quantized_matmul), ROW(dequantize), ROW(linear_decoded), ROW(embedding_decoded),
    ROW(gather_mm), ROW(expert_linear), ROW(gather_qmm), ROW(tq_norm), ROW(tq4_compress), ROW(tq_dequant), ROW(gated_delta),
    ROW(contiguous),
    ROW(depends), ROW(reshape), ROW(broadcast_to), ROW(transpose), ROW(swap_axes),
    ROW(expand_dims), ROW(squeeze), ROW(slice), ROW(slice_update), ROW(narrow), ROW(split),
    ROW(concat), ROW(pad), ROW(take), ROW(arange), ROW(param_scalar), ROW(full), ROW(random_uniform),
    ROW(random_categorical), ROW(state_write), ROW(key_cache_write),
    INDEX_ROWS
#undef ROW
};

static builder find_builder(const char *name)
{
    for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++)
        if (strcmp(builders[i].name, name) == 0)
            return builders[i].build;
    fail_msg("no builder %s", name);
    return NULL;
}

/* ---- the rows -----------------------------------------------------------------------------------
 */

typedef struct op_case {
    const char *op, *function, *label, *dtypes, *inputs, *params;
    double tolerance;
} op_case;

static const op_case cases[] = {
#define CASE(op, function, label, dtypes, inputs, params, tolerance) \
    {#op, #function, label, dtypes, inputs, params, tolerance},
#define ERROR(function, label, dtypes, inputs, params, status, fragment)
#include "ops_cases.def"
#undef CASE
#undef ERROR
};

typedef struct op_error {
    const char *function, *label, *dtypes, *inputs, *params;
    neap_status status;
    const char *fragment;
} op_error;

static const op_error errors[] = {
#define CASE(op, function, label, dtypes, inputs, params, tolerance)
#define ERROR(function, label, dtypes, inputs, params, status, fragment) \
    {#function, label, dtypes, inputs, params, NEAP_##status, fragment},
#include "ops_cases.def"
#undef CASE
#undef ERROR
};

/* The next dtype of "f32 f16"; false at the end. */
static bool next_dtype(const char **text, neap_dtype *out)
{
    size_t n = strcspn(*text, " ");
    if (n == 0)
        return false;
    *out = dtype_named(*text, n);
    *text += n + ((*text)[n] == ' ');
    return true;
}

static void free_row(row_input *r)
{
    neap_state_free(r->state);
    neap_param_free(r->param);
}

/* as_results: inputs come out of steps, so that the op may write over them. */
static neap_array *run_case(const op_case *c, neap_dtype dtype, bool as_results, row_input *r)
{
    *r = (row_input){.ctx = ctx, .params = c->params, .dtype = dtype};
    r->n = parse_inputs(c->inputs, dtype, r->in);
    for (int i = 0; i < r->n && as_results; i++)
        r->in[i] = np_copied(r->in[i]);
    neap_array *y = find_builder(c->function)(r);
    return y && !neap_array_is_value(y) && neap_eval(y) != NEAP_OK ? NULL : y;
}

static void test_cases(void **state)
{
    const np_kernels *kernels = *state;
    ctx = open_context(kernels->isa, 2);
    static uint8_t first[MAX_ELEMENTS * 8];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *dtypes = cases[i].dtypes;
        neap_dtype dtype;
        while (next_dtype(&dtypes, &dtype)) {
            char name[160];
            snprintf(name, sizeof name, "%s/%s/%s", cases[i].function, cases[i].label,
                     neap_dtype_describe(dtype)->name);
            golden want = find_golden(name);
            for (int as_results = 0; as_results < 2; as_results++) {
                row_input r;
                assert_int_equal(neap_scope_push(ctx), NEAP_OK);
                neap_array *y = run_case(&cases[i], dtype, as_results, &r);
                if (!y)
                    fail_msg("%s: %s", name, neap_context_error(ctx));
                compare(name, y, &want, cases[i].tolerance);
                uint64_t bytes = neap_array_bytes(y);
                static uint8_t again[MAX_ELEMENTS * 8];
                assert_int_equal(neap_array_read(y, as_results ? again : first, bytes), NEAP_OK);
                if (as_results && memcmp(first, again, bytes) != 0)
                    fail_msg("%s: other bits when its inputs are results", name);
                neap_scope_pop(ctx);
                free_row(&r);
            }
        }
    }
    neap_context_free(ctx);
}

static void test_errors(void **state)
{
    const np_kernels *kernels = *state;
    ctx = open_context(kernels->isa, 1);
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const op_error *e = &errors[i];
        const char *dtypes = e->dtypes;
        neap_dtype dtype;
        op_case c = {e->function, e->function, e->label, dtypes, e->inputs, e->params, 0};
        while (next_dtype(&dtypes, &dtype)) {
            row_input r;
            assert_int_equal(neap_scope_push(ctx), NEAP_OK);
            neap_array *y = run_case(&c, dtype, false, &r);
            neap_status status = neap_context_status(ctx) ? neap_context_status(ctx) : e->status;
            if (y || status != e->status || !strstr(neap_context_error(ctx), e->fragment))
                fail_msg("%s/%s: %s, \"%s\"; expected %s, \"%s\"", e->function, e->label,
                         neap_status_name(neap_context_status(ctx)), neap_context_error(ctx),
                         neap_status_name(e->status), e->fragment);
            assert_null(neap_exp(neap_scalar(NEAP_F32, 1)) && neap_context_status(ctx));
            neap_context_clear_error(ctx);
            neap_scope_pop(ctx);
            free_row(&r);
        }
        neap_context_memory(ctx, i ? &after : &before);
    }
    assert_true(after.active <= before.active + (256 << 10)); /* the plan cache may have grown */
    neap_context_free(ctx);
}

/* ---- the table of ops
 * ---------------------------------------------------------------------------- */

static void test_every_op_has_a_row(void **state)
{
    (void)state;
    for (const np_op *const *op = np_op_table(); *op; op++) {
        size_t i = 0;
        while (i < sizeof cases / sizeof cases[0] && strcmp(cases[i].op, (*op)->name) != 0)
            i++;
        if (i == sizeof cases / sizeof cases[0])
            fail_msg("%s: no row in tests/ops_cases.def", (*op)->name);
        assert_non_null((*op)->infer);
        assert_true((*op)->run || (*op)->flags & NP_OP_STATE_READ);
    }
}

int main(void)
{
    struct CMUnitTest tests[20] = {cmocka_unit_test(test_every_op_has_a_row)};
    size_t n = 1;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        void *state = (void *)(uintptr_t)*k;
        tests[n++] = (struct CMUnitTest){(*k)->isa, test_cases, NULL, NULL, state};
        tests[n++] = (struct CMUnitTest){(*k)->isa, test_errors, NULL, NULL, state};
    }
    return _cmocka_run_group_tests("ops", tests, n, open_goldens, close_goldens);
}
