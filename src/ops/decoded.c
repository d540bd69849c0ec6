/* decoded.c - floats times encoded weights, and encoded weights as floats.
 *
 * Activations stay floats and weights are decoded to f32 a panel at a time (matmul.c has the other
 * kind: int8 activations times GGUF blocks). One planned row takes the vector kernel, more take the
 * matrix kernel. */
#include <string.h>

#include "ops/encoded.h"

/* ---- the product ------------------------------------------------------------------------------ */

typedef struct np_decoded_matmul_attr {
    np_encoded w;
    int32_t dtype, matrix, along_n;
    int32_t shared; /* one w for all: the leading dimensions of x are rows */
} np_decoded_matmul_attr;

/* Columns of x (k) and of the result (n), given w. */
static void decoded_extents(const np_decoded_matmul_attr *attr, int w_rank, const int64_t *w_shape,
                            int64_t *k, int64_t *n)
{
    int64_t columns = np_encoded_columns(&attr->w, w_shape[w_rank - 1]);
    *k = attr->along_n ? w_shape[w_rank - 2] : columns;
    *n = attr->along_n ? columns : w_shape[w_rank - 2];
}

static bool decoded_matmul_infer(neap_array *out)
{
    const np_decoded_matmul_attr *attr = (const void *)out->attr;
    const neap_array *x = out->in[0], *w = out->in[1];
    int64_t k, n;
    decoded_extents(attr, w->rank, w->shape, &k, &n);
    if (x->shape[x->rank - 1] != k)
        return np_op_fail(out, NEAP_ESHAPE, "%lld columns times %lld weights",
                          (long long)x->shape[x->rank - 1], (long long)k);
    if (x->dynamic_dim == x->rank - 1)
        return np_op_fail(out, NEAP_EUNSUPPORTED, "the last extent is set at run time");
    np_infer_like(out, x);
    out->dtype = (uint8_t)attr->dtype;
    out->shape[out->rank - 1] = n;
    return true;
}

/* The first of the products; `lead` dimensions of them are left. */
static np_decoded_vectors decoded_arguments(const np_call *c, int *lead)
{
    const np_decoded_matmul_attr *attr = c->attr;
    const np_operand *x = c->in[0], *w = c->in[1], *out = c->out;
    const int m = out->rank - 2;
    int64_t k, n;
    decoded_extents(attr, w->rank, w->shape, &k, &n);
    np_gemm_args g = {.m = m < 0 ? 1 : out->shape[m], .n = n, .k = k,
                      .a_row = m < 0 ? 0 : x->strides[m], .c_row = m < 0 ? 0 : out->strides[m]};
    *lead = m < 0 ? 0 : m;
    if (attr->shared)
        np_fold_rows(&g, lead, x, out);
    return (np_decoded_vectors){.w = np_encoded_matrix(&attr->w, c->in + 1, 0),
                                .along_n = attr->along_n, .rows = g.m, .n = n, .k = k,
                                .x = x->data, .x_row = g.a_row, .y = out->data, .y_row = g.c_row,
                                .x_dtype = (neap_dtype)x->dtype, .y_dtype = (neap_dtype)out->dtype};
}

static size_t decoded_matmul_scratch(const np_call *shapes)
{
    const np_decoded_matmul_attr *attr = shapes->attr;
    int lead;
    np_decoded_vectors a = decoded_arguments(shapes, &lead);
    if (attr->shared) /* rows that fold only where a tile is dense */
        a.rows = np_size(shapes->out->rank - 1, shapes->out->shape);
    return shapes->ctx->kernels->decoded->product_scratch(&a, attr->matrix,
                                                          np_pool_lanes(shapes->pool));
}

static neap_status decoded_matmul_run(const np_call *c)
{
    const np_decoded_matmul_attr *attr = c->attr;
    int lead;
    np_decoded_vectors a = decoded_arguments(c, &lead);
    if (np_size(c->out->rank, c->out->shape) == 0)
        return NEAP_OK;
    int64_t index[NEAP_MAX_RANK] = {0}, at[2] = {0, 0}, strides[2][NEAP_MAX_RANK];
    memcpy(strides[0], c->in[0]->strides, sizeof strides[0]);
    memcpy(strides[1], c->out->strides, sizeof strides[1]);
    int64_t products = np_size(lead, c->out->shape);
    for (int64_t p = 0; p < products; p++) {
        if (!attr->shared)
            a.w = np_encoded_matrix(&attr->w, c->in + 1, p);
        a.x = c->in[0]->data + at[0] * np_element_bytes(a.x_dtype);
        a.y = c->out->data + at[1] * np_element_bytes(a.y_dtype);
        c->ctx->kernels->decoded->product(&a, attr->matrix, c->scratch, c->pool);
        np_index_next(lead, c->out->shape, index, 2, at, strides);
    }
    return NEAP_OK;
}

/* As matmul: rows and leading dimensions; the kernel is the node's choice. */
static int decoded_matmul_part(const np_call *shapes, int dim, uint32_t input)
{
    const np_decoded_matmul_attr *attr = shapes->attr;
    int m = shapes->out->rank - 2;
    if (dim > m)
        return NP_PART_NONE;
    return input > 0 && (dim == m || attr->shared) ? NP_PART_WHOLE : dim;
}

static double decoded_matmul_flops(const np_call *shapes)
{
    const np_operand *x = shapes->in[0];
    return np_flops_result(shapes, 2 * (double)x->shape[x->rank - 1]);
}

const np_op np_op_decoded_matmul = {.name = "decoded_matmul", .arity = -1,
                                    .infer = decoded_matmul_infer,
                                    .scratch = decoded_matmul_scratch, .run = decoded_matmul_run,
                                    .part = decoded_matmul_part, .flops = decoded_matmul_flops};

static neap_array *decoded_matmul(const char *op, neap_array *x, neap_array *const *w,
                                  const np_encoded *e, bool transpose, neap_dtype dtype)
{
    neap_array *in[4] = {x, w[0], e->n_in > 1 ? w[1] : NULL, e->n_in > 2 ? w[2] : NULL};
    np_decoded_matmul_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.w = *e;
    attr.dtype = (int32_t)dtype;
    attr.along_n = !transpose;
    attr.shared = w[0]->rank == 2;
    if (!np_is_float(x->dtype) || !np_is_float(dtype))
        return np_refuse(op, 2, in, NEAP_EDTYPE, "for floats only");
    if (x->rank == 0 || w[0]->rank < 2)
        return np_refuse(op, 2, in, NEAP_ESHAPE, "expected x [.., K] and weights of two dimensions");
    int64_t rows = 1;
    if (attr.shared) {
        rows = np_size(x->rank - 1, x->shape);
    } else {
        if (x->rank != w[0]->rank || x->dynamic_dim >= 0 ||
            memcmp(x->shape, w[0]->shape, (size_t)(x->rank - 2) * sizeof x->shape[0]) != 0)
            return np_refuse(op, 2, in, NEAP_ESHAPE,
                             "x and the weights differ in their leading dimensions");
        rows = x->shape[x->rank - 2];
    }
    attr.matrix = rows > 1;
    in[0] = np_adjacent(x);
    return np_node(&np_op_decoded_matmul, 1 + (uint32_t)e->n_in, in, &attr, sizeof attr);
}

neap_array *neap_quantized_matmul(neap_array *x, const neap_quantised *w, bool transpose)
{
    np_encoded e;
    neap_array *in[3];
    if (!np_ready(1, &x) || !np_encoded_from("quantized_matmul", w, &e, in))
        return NULL;
    return decoded_matmul("quantized_matmul", x, in, &e, transpose, (neap_dtype)x->dtype);
}

neap_array *neap_linear_decoded(neap_array *x, neap_array *w, neap_dtype type, neap_dtype dtype)
{
    np_encoded e;
    neap_array *in[3];
    if (!np_ready(1, &x) || !np_encoded_blocks("linear_decoded", w, type, &e, in))
        return NULL;
    return decoded_matmul("linear_decoded", x, in, &e, true, dtype);
}

/* ---- rows as floats --------------------------------------------------------------------------- */

typedef struct np_decoded_rows_attr {
    np_encoded w;
    int32_t dtype, unused;
} np_decoded_rows_attr;

typedef struct np_decoded_rows_job {
    const np_call *c;
    int64_t rows, columns;
} np_decoded_rows_job;

static bool dequantize_infer(neap_array *out)
{
    const np_decoded_rows_attr *attr = (const void *)out->attr;
    np_infer_like(out, out->in[0]);
    out->dtype = (uint8_t)attr->dtype;
    out->shape[out->rank - 1] = np_encoded_columns(&attr->w, out->shape[out->rank - 1]);
    return true;
}

static void dequantize_lane(void *arg, int lane, int lanes)
{
    const np_decoded_rows_job *job = arg;
    const np_decoded_rows_attr *attr = job->c->attr;
    const np_operand *out = job->c->out;
    const int64_t size = np_element_bytes((neap_dtype)out->dtype);
    const int64_t each = out->rank >= 2 ? out->shape[out->rank - 2] : 1; /* rows of a matrix */
    int64_t begin, end;
    np_share(job->rows, 1, lane, lanes, &begin, &end);
    for (; begin < end && !np_stop_at(begin); begin++) {
        np_decoded w = np_encoded_matrix(&attr->w, job->c->in, begin / each);
        uint8_t *to = out->data + np_leading_offset(out, out->rank - 1, begin) * size;
        job->c->ctx->kernels->decoded->row(to, (neap_dtype)out->dtype, &w, begin % each,
                                           job->columns);
    }
}

static neap_status dequantize_run(const np_call *c)
{
    np_decoded_rows_job job = {c, np_size(c->out->rank - 1, c->out->shape),
                               c->out->shape[c->out->rank - 1]};
    if (job.rows * job.columns >= NP_PARALLEL_ELEMENTS)
        np_pool_run(c->pool, dequantize_lane, &job);
    else
        dequantize_lane(&job, 0, 1);
    return NEAP_OK;
}

static int dequantize_part(const np_call *shapes, int dim, uint32_t input)
{
    (void)input;
    return dim == shapes->out->rank - 1 ? NP_PART_NONE : dim;
}

const np_op np_op_dequantize = {.name = "dequantize", .arity = -1, .infer = dequantize_infer,
                                .run = dequantize_run, .part = dequantize_part};

neap_array *neap_dequantize(const neap_quantised *w, neap_dtype dtype)
{
    np_decoded_rows_attr attr;
    neap_array *in[3];
    memset(&attr, 0, sizeof attr);
    if (!np_encoded_from("dequantize", w, &attr.w, in))
        return NULL;
    if (!np_is_float(dtype))
        return np_refuse("dequantize", 1, in, NEAP_EDTYPE, "the result must be a float type");
    attr.dtype = (int32_t)dtype;
    return np_node(&np_op_dequantize, (uint32_t)attr.w.n_in, in, &attr, sizeof attr);
}

/* ---- rows of blocks at indices ------------------------------------------------------------------ */

static bool decoded_rows_infer(neap_array *out)
{
    const np_decoded_rows_attr *attr = (const void *)out->attr;
    const neap_array *indices = out->in[1];
    if (indices->rank == NEAP_MAX_RANK)
        return np_op_fail(out, NEAP_ESHAPE, "a result of %d dimensions, the limit is %d",
                          NEAP_MAX_RANK + 1, NEAP_MAX_RANK);
    np_infer_like(out, indices);
    out->dtype = (uint8_t)attr->dtype;
    out->shape[out->rank++] = np_encoded_columns(&attr->w, out->in[0]->shape[1]);
    return true;
}

static void decoded_rows_lane(void *arg, int lane, int lanes)
{
    const np_decoded_rows_job *job = arg;
    const np_decoded_rows_attr *attr = job->c->attr;
    const np_operand *indices = job->c->in[1], *out = job->c->out;
    const int64_t size = np_element_bytes((neap_dtype)out->dtype);
    np_decoded w = np_encoded_matrix(&attr->w, job->c->in, 0);
    int64_t begin, end;
    np_share(job->rows, 1, lane, lanes, &begin, &end);
    for (; begin < end && !np_stop_at(begin); begin++) {
        uint8_t *to = out->data + np_leading_offset(out, indices->rank, begin) * size;
        int64_t row = np_load_index(indices, np_leading_offset(indices, indices->rank, begin));
        job->c->ctx->kernels->decoded->row(to, (neap_dtype)out->dtype, &w, row, job->columns);
    }
}

static neap_status decoded_rows_run(const np_call *c)
{
    const np_operand *indices = c->in[1];
    const int64_t rows = c->in[0]->shape[0];
    np_decoded_rows_job job = {c, np_size(c->out->rank - 1, c->out->shape),
                               c->out->shape[c->out->rank - 1]};
    for (int64_t i = 0; i < job.rows; i++) {
        int64_t row = np_load_index(indices, np_leading_offset(indices, indices->rank, i));
        if (row < 0 || row >= rows)
            return np_fail(c->ctx, NEAP_EINVAL,
                           "embedding_decoded: index %lld (number %lld), the weights have %lld rows",
                           (long long)row, (long long)np_part_number(c, 0, indices->rank, i),
                           (long long)rows);
    }
    if (job.rows * job.columns >= NP_PARALLEL_ELEMENTS)
        np_pool_run(c->pool, decoded_rows_lane, &job);
    else
        decoded_rows_lane(&job, 0, 1);
    return NEAP_OK;
}

static int decoded_rows_part(const np_call *shapes, int dim, uint32_t input)
{
    if (dim == shapes->out->rank - 1)
        return NP_PART_NONE;
    return input == 1 ? dim : NP_PART_WHOLE;
}

const np_op np_op_decoded_rows = {.name = "decoded_rows", .arity = 2, .infer = decoded_rows_infer,
                                  .run = decoded_rows_run, .part = decoded_rows_part};

neap_array *neap_embedding_decoded(neap_array *indices, neap_array *w, neap_dtype type,
                                   neap_dtype dtype)
{
    np_decoded_rows_attr attr;
    neap_array *in[3];
    memset(&attr, 0, sizeof attr);
    if (!np_ready(1, &indices) || !np_encoded_blocks("embedding_decoded", w, type, &attr.w, in))
        return NULL;
    in[1] = indices;
    if (!np_is_integer(indices->dtype) || !np_is_float(dtype))
        return np_refuse("embedding_decoded", 2, in, NEAP_EDTYPE,
                         "expected integer indices and a float result");
    if (indices->dynamic_dim > 0 && np_size(indices->dynamic_dim, indices->shape) != 1)
        return np_refuse("embedding_decoded", 2, in, NEAP_EUNSUPPORTED,
                         "dimension %d has an extent set at run time and is not the first",
                         indices->dynamic_dim);
    attr.dtype = (int32_t)dtype;
    in[1] = np_dense(neap_cast(indices, NEAP_I64));
    return np_node(&np_op_decoded_rows, 2, in, &attr, sizeof attr);
}
