/* gather_products.c - products of matrices picked by index, one for each pair of indices: floats, or
 * floats with encoded weights. A layer of experts is rows of x, each with the weights of its own.
 *
 * Where the picked matrices of x are single rows, those that meet the same weights are taken
 * together, so that weights are read once; a row's bits do not depend on that. */
#include <string.h>

#include "ops/encoded.h"

enum { LHS, RHS, X, W, MAX_INPUTS = W + 3 };

typedef struct np_gather_matmul_attr {
    np_encoded w;
    int32_t dtype, matrix, along_n, unused;
} np_gather_matmul_attr;

static void gather_extents(const np_gather_matmul_attr *attr, int rank, const int64_t *shape,
                           int64_t *k, int64_t *n)
{
    int64_t columns = attr->w.coding == NP_CODING_FLOAT
                          ? shape[rank - 1]
                          : np_encoded_columns(&attr->w, shape[rank - 1]);
    *k = attr->along_n ? shape[rank - 2] : columns;
    *n = attr->along_n ? columns : shape[rank - 2];
}

static bool gather_matmul_infer(neap_array *out)
{
    const np_gather_matmul_attr *attr = (const void *)out->attr;
    const neap_array *index = out->in[LHS], *x = out->in[X], *w = out->in[W];
    int64_t k, n;
    gather_extents(attr, w->rank, w->shape, &k, &n);
    if (x->shape[x->rank - 1] != k)
        return np_op_fail(out, NEAP_ESHAPE, "%lld columns times %lld rows",
                          (long long)x->shape[x->rank - 1], (long long)k);
    if (index->rank + 2 > NEAP_MAX_RANK)
        return np_op_fail(out, NEAP_ESHAPE, "a result of %d dimensions, the limit is %d",
                          index->rank + 2, NEAP_MAX_RANK);
    out->dtype = (uint8_t)attr->dtype;
    out->rank = (uint8_t)(index->rank + 2);
    memcpy(out->shape, index->shape, index->rank * sizeof out->shape[0]);
    out->shape[out->rank - 2] = x->shape[x->rank - 2];
    out->shape[out->rank - 1] = n;
    return true;
}

/* What the products share; pointers are those of the first of them. */
static np_decoded_vectors gather_arguments(const np_call *c)
{
    const np_gather_matmul_attr *attr = c->attr;
    const np_operand *x = c->in[X], *w = c->in[W], *out = c->out;
    np_decoded_vectors a = {.w = np_encoded_matrix(&attr->w, c->in + W, 0),
                            .along_n = attr->along_n, .rows = x->shape[x->rank - 2], .x = x->data,
                            .x_row = x->strides[x->rank - 2], .y = out->data,
                            .x_dtype = (neap_dtype)x->dtype, .y_dtype = (neap_dtype)out->dtype};
    gather_extents(attr, w->rank, w->shape, &a.k, &a.n);
    a.y_row = a.n;
    return a;
}

static int64_t gather_matrices(const np_operand *x)
{
    return np_size(x->rank - 2, x->shape);
}

/* ---- single rows ------------------------------------------------------------------------------- */

typedef struct np_gather_job {
    const np_call *c;
    np_decoded_vectors all;
    int64_t *first;          /* [matrices of w + 1]: where its rows begin in the two below */
    int64_t *x_rows, *y_rows; /* elements of x; rows of the result */
} np_gather_job;

static size_t gather_matmul_scratch(const np_call *shapes)
{
    const np_gather_matmul_attr *attr = shapes->attr;
    const int64_t pairs = np_size(shapes->in[LHS]->rank, shapes->in[LHS]->shape);
    const int lanes = np_pool_lanes(shapes->pool);
    np_decoded_vectors a = gather_arguments(shapes);
    if (!attr->matrix)
        return (size_t)(gather_matrices(shapes->in[W]) + 2 + 2 * pairs) * sizeof(int64_t);
    return shapes->ctx->kernels->decoded->product_scratch(&a, true, lanes);
}

/* Pairs in the order of the weights they meet; those of one keep their own order. */
static void group_pairs(np_gather_job *job, const int64_t *lhs, const int64_t *rhs, int64_t pairs)
{
    const np_operand *x = job->c->in[X];
    const int64_t matrices = gather_matrices(job->c->in[W]);
    int64_t *next = job->first + 1; /* one ahead: afterwards next[e] is where e + 1 begins */
    memset(job->first, 0, (size_t)(matrices + 2) * sizeof *job->first);
    for (int64_t p = 0; p < pairs; p++)
        next[rhs[p] + 1]++;
    for (int64_t e = 0; e < matrices; e++)
        next[e + 1] += next[e];
    for (int64_t p = 0; p < pairs; p++) {
        const int64_t to = next[rhs[p]]++;
        job->x_rows[to] = np_leading_offset(x, x->rank - 2, lhs[p]);
        job->y_rows[to] = p;
    }
}

static void gather_lane(void *arg, int lane, int lanes)
{
    const np_gather_job *job = arg;
    const np_gather_matmul_attr *attr = job->c->attr;
    const int64_t matrices = gather_matrices(job->c->in[W]);
    np_decoded_vectors a = job->all;
    int64_t begin, end;
    np_share(a.n, NP_DECODE_SHARE, lane, lanes, &begin, &end);
    a.x_row = 1;
    for (int64_t e = 0; e < matrices && begin < end; e++) {
        a.rows = job->first[e + 1] - job->first[e];
        if (a.rows == 0)
            continue;
        a.w = np_encoded_matrix(&attr->w, job->c->in + W, e);
        a.x_rows = job->x_rows + job->first[e];
        a.y_rows = job->y_rows + job->first[e];
        job->c->ctx->kernels->decoded->vectors(&a, begin, end);
    }
}

static void gather_rows(const np_call *c, const int64_t *lhs, const int64_t *rhs, int64_t pairs)
{
    np_gather_job job = {.c = c, .all = gather_arguments(c), .first = c->scratch};
    job.x_rows = job.first + gather_matrices(c->in[W]) + 2;
    job.y_rows = job.x_rows + pairs;
    group_pairs(&job, lhs, rhs, pairs);
    if ((double)pairs * (double)job.all.n * (double)job.all.k < 2.0 * NP_PARALLEL_ELEMENTS)
        gather_lane(&job, 0, 1);
    else
        np_pool_run(c->pool, gather_lane, &job);
}

/* ---- matrices ---------------------------------------------------------------------------------- */

static void gather_matrix(const np_call *c, int64_t x_at, int64_t w_at, int64_t to)
{
    const np_gather_matmul_attr *attr = c->attr;
    const np_operand *x = c->in[X];
    np_decoded_vectors a = gather_arguments(c);
    const int64_t from = np_leading_offset(x, x->rank - 2, x_at);
    a.x = x->data + from * np_element_bytes(a.x_dtype);
    a.y = c->out->data + to * a.rows * a.n * np_element_bytes(a.y_dtype);
    a.w = np_encoded_matrix(&attr->w, c->in + W, w_at);
    if (attr->w.coding != NP_CODING_FLOAT) {
        c->ctx->kernels->decoded->product(&a, true, c->scratch, c->pool);
        return;
    }
    const int64_t row = a.w.row / np_element_bytes(a.w.dtype);
    np_gemm_args g = {.m = a.rows, .n = a.n, .k = a.k, .a = a.x, .b = a.w.w, .c = a.y,
                      .a_row = a.x_row, .a_col = 1, .b_row = a.along_n ? row : 1,
                      .b_col = a.along_n ? 1 : row, .c_row = a.n, .a_dtype = a.x_dtype,
                      .b_dtype = a.w.dtype, .c_dtype = a.y_dtype, .matrix = true};
    c->ctx->kernels->product->gemm(&g, c->scratch, c->pool);
}

static neap_status check_range(const np_call *c, const char *side, const int64_t *index,
                               int64_t pairs, int64_t matrices)
{
    for (int64_t p = 0; p < pairs; p++)
        if (index[p] < 0 || index[p] >= matrices)
            return np_fail(c->ctx, NEAP_EINVAL,
                           "gather_matmul: %s index %lld (number %lld), there are %lld matrices",
                           side, (long long)index[p],
                           (long long)np_part_number(c, 0, c->in[LHS]->rank, p),
                           (long long)matrices);
    return NEAP_OK;
}

static neap_status gather_matmul_run(const np_call *c)
{
    const np_gather_matmul_attr *attr = c->attr;
    const int64_t *lhs = (const int64_t *)(const void *)c->in[LHS]->data;
    const int64_t *rhs = (const int64_t *)(const void *)c->in[RHS]->data;
    const int64_t pairs = np_size(c->in[LHS]->rank, c->in[LHS]->shape);
    neap_status status = check_range(c, "lhs", lhs, pairs, gather_matrices(c->in[X]));
    if (status == NEAP_OK)
        status = check_range(c, "rhs", rhs, pairs, gather_matrices(c->in[W]));
    if (status != NEAP_OK || np_size(c->out->rank, c->out->shape) == 0)
        return status;
    if (!attr->matrix)
        gather_rows(c, lhs, rhs, pairs);
    else
        for (int64_t p = 0; p < pairs && !np_stop(); p++)
            gather_matrix(c, lhs[p], rhs[p], p);
    return NEAP_OK;
}

/* Pairs, as long as a part of them and of their products lies in one piece. */
static int gather_matmul_part(const np_call *shapes, int dim, uint32_t input)
{
    const np_operand *pairs = shapes->in[LHS];
    if (dim >= pairs->rank || np_size(dim, pairs->shape) != 1)
        return NP_PART_NONE;
    return input == LHS || input == RHS ? dim : NP_PART_WHOLE;
}

static double gather_matmul_flops(const np_call *shapes)
{
    const np_operand *x = shapes->in[X];
    return np_flops_result(shapes, 2 * (double)x->shape[x->rank - 1]);
}

const np_op np_op_gather_matmul = {.name = "gather_matmul", .arity = -1,
                                   .infer = gather_matmul_infer, .scratch = gather_matmul_scratch,
                                   .run = gather_matmul_run, .part = gather_matmul_part,
                                   .flops = gather_matmul_flops};

/* ---- building ---------------------------------------------------------------------------------- */

/* The given indices, or 0, 1, .. in the shape of x's leading dimensions. */
static neap_array *indices_or_default(neap_array *given, const neap_array *x)
{
    if (given)
        return neap_cast(given, NEAP_I64);
    const int lead = x->rank - 2;
    return neap_reshape(neap_arange(0, (double)np_size(lead, x->shape), 1, NEAP_I64), lead,
                        x->shape);
}

static neap_array *gather_matmul(const char *op, neap_array *lhs, neap_array *rhs, neap_array **in,
                                 const np_gather_matmul_attr *attr)
{
    neap_array *given[2] = {lhs, rhs};
    np_extents shape;
    for (int i = 0; i < 2; i++)
        if (given[i] && (!np_ready(1, &given[i]) || !np_is_integer(given[i]->dtype)))
            return np_ready(1, &given[i]) ? np_refuse(op, 1, &given[i], NEAP_EDTYPE,
                                                      "indices must be integers")
                                          : NULL;
    in[LHS] = indices_or_default(lhs, in[X]);
    in[RHS] = indices_or_default(rhs, in[W]);
    if (!np_ready(2, in) || !np_broadcast(op, 2, in, &shape))
        return NULL;
    for (int i = 0; i < 2; i++)
        in[i] = np_dense(np_broadcast_view(op, in[i], &shape));
    in[X] = np_adjacent(in[X]);
    uint32_t n = W + (uint32_t)attr->w.n_in;
    if (!np_ready(n, in))
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        if (in[i]->dynamic_dim >= 0)
            return np_refuse(op, n, in, NEAP_EUNSUPPORTED, "extent %s is set at run time",
                             in[i]->extent->name);
    return np_node(&np_op_gather_matmul, n, in, attr, sizeof *attr);
}

neap_array *neap_gather_qmm(neap_array *x, const neap_quantised *w, neap_array *lhs_indices,
                            neap_array *rhs_indices, bool transpose)
{
    np_gather_matmul_attr attr;
    neap_array *in[MAX_INPUTS];
    memset(&attr, 0, sizeof attr);
    if (!np_ready(1, &x) || !np_encoded_from("gather_qmm", w, &attr.w, in + W))
        return NULL;
    if (!lhs_indices && !rhs_indices)
        return neap_quantized_matmul(x, w, transpose);
    in[X] = x;
    if (!np_is_float(x->dtype))
        return np_refuse("gather_qmm", 2, in + X, NEAP_EDTYPE, "for floats only");
    if (x->rank < 2 || in[W]->rank < 2)
        return np_refuse("gather_qmm", 2, in + X, NEAP_ESHAPE,
                         "expected x [.., M, K] and weights of two dimensions or more");
    attr.dtype = x->dtype;
    attr.along_n = !transpose;
    attr.matrix = x->shape[x->rank - 2] > 1;
    return gather_matmul("gather_qmm", lhs_indices, rhs_indices, in, &attr);
}

/* b [.., K, N] as rows of adjacent elements, along k if they lie so, else along n. */
static neap_array *rows_of(neap_array *b, np_gather_matmul_attr *attr)
{
    const int k = b->rank - 2, n = b->rank - 1;
    attr->along_n = b->strides[k] != 1 || b->strides[n] == 1;
    return attr->along_n ? np_adjacent(b) : neap_swap_axes(b, k, n);
}

neap_array *neap_gather_mm(neap_array *a, neap_array *b, neap_array *lhs_indices,
                           neap_array *rhs_indices)
{
    np_gather_matmul_attr attr;
    neap_array *in[MAX_INPUTS];
    neap_dtype dtype;
    in[X] = a;
    in[W] = b;
    memset(&attr, 0, sizeof attr);
    if (!np_ready(2, in + X) || !np_promote_all("gather_mm", 2, in + X, &dtype))
        return NULL;
    if (!lhs_indices && !rhs_indices)
        return neap_matmul(a, b);
    if (!np_is_float(a->dtype) || !np_is_float(b->dtype))
        return np_refuse("gather_mm", 2, in + X, NEAP_EDTYPE, "for floats only");
    if (a->rank < 2 || b->rank < 2)
        return np_refuse("gather_mm", 2, in + X, NEAP_ESHAPE,
                         "expected a [.., M, K] and b [.., K, N]");
    attr.w = (np_encoded){.coding = NP_CODING_FLOAT, .dtype = b->dtype, .n_in = 1};
    attr.dtype = (int32_t)dtype;
    attr.matrix = a->shape[a->rank - 2] > 1;
    in[W] = rows_of(b, &attr);
    return in[W] ? gather_matmul("gather_mm", lhs_indices, rhs_indices, in, &attr) : NULL;
}
