/* expert_products.c - rows of x, each times the weights of some of E experts: y[t][u] =
 * w[index[t][u]] x[t].
 *
 * The rows that meet one expert are taken together, a slice at a time, so that its weights are read
 * once a slice. A row's bits are those of neap_linear with that expert's weights: they depend
 * neither on the other rows nor on the slices. Weights are floats or GGUF blocks as they lie in a
 * file. */
#include <string.h>

#include "ops/support.h"

enum { SLICE = 64 }; /* rows; whole groups of the quantised kernel */

typedef struct np_expert_attr {
    int32_t matrix; /* the kernel, by the planned number of tokens */
} np_expert_attr;

static bool expert_infer(neap_array *out)
{
    const neap_array *x = out->in[0], *w = out->in[1], *index = out->in[2];
    np_infer_like(out, index);
    out->dtype = x->dtype;
    out->rank = 3;
    out->shape[2] = w->shape[1];
    return true;
}

typedef struct np_expert_sizes {
    int64_t experts, n, k, pairs, slice;
} np_expert_sizes;

static np_expert_sizes sizes_of(const np_call *c)
{
    const np_operand *w = c->in[1], *out = c->out;
    np_expert_sizes s = {w->shape[0], w->shape[1], w->shape[2], out->shape[0] * out->shape[1],
                         SLICE};
    if (s.slice > s.pairs)
        s.slice = s.pairs;
    return s;
}

/* What one slice needs beside the order of the pairs: rows of x, their quantised form, results, and
 * the kernel's own. */
typedef struct np_expert_room {
    size_t order, x, rows, y, kernel, total;
} np_expert_room;

static size_t padded(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static np_qmm_args quant_product(const np_call *c, const np_expert_sizes *s, int64_t m)
{
    return (np_qmm_args){.m = m,
                         .n = s->n,
                         .k = s->k,
                         .w_dtype = c->in[1]->dtype,
                         .matrix = m > 1,
                         .y_row = s->n,
                         .y_dtype = NEAP_F32};
}

static np_gemm_args float_product(const np_call *c, const np_expert_sizes *s, int64_t m)
{
    const np_expert_attr *attr = c->attr;
    return (np_gemm_args){.m = m,
                          .n = s->n,
                          .k = s->k,
                          .a_row = s->k,
                          .a_col = 1,
                          .b_row = 1,
                          .b_col = s->k,
                          .c_row = s->n,
                          .a_dtype = NEAP_F32,
                          .b_dtype = c->in[1]->dtype,
                          .c_dtype = NEAP_F32,
                          .matrix = attr->matrix};
}

static np_expert_room room_of(const np_call *c, const np_expert_sizes *s)
{
    const np_kernels *kernels = c->ctx->kernels;
    const int lanes = np_pool_lanes(c->pool);
    const bool quantised = np_is_quantised(c->in[1]->dtype);
    np_qmm_args q = quant_product(c, s, s->slice);
    np_gemm_args g = float_product(c, s, s->slice);
    np_expert_room r = {
        .order = padded((size_t)(s->experts + 2 + s->pairs) * sizeof(int64_t)),
        .x = padded((size_t)(s->slice * s->k) * sizeof(float)),
        .y = padded((size_t)(s->slice * s->n) * sizeof(float)),
        .kernel = quantised ? kernels->quant->qmm_scratch(&q, lanes)
                            : kernels->product->gemm_scratch(&g, lanes),
    };
    if (quantised) {
        const size_t one = kernels->quant->quant_rows_bytes(1, s->k, false),
                     many = kernels->quant->quant_rows_bytes(s->slice, s->k, true);
        r.rows = padded(one > many ? one : many);
    }
    r.total = r.order + r.x + r.rows + r.y + r.kernel;
    return r;
}

static size_t expert_scratch(const np_call *shapes)
{
    const np_expert_sizes s = sizes_of(shapes);
    return s.pairs ? room_of(shapes, &s).total : 0;
}

/* `first[e]` .. `first[e + 1]`: where the pairs of expert e stand in `order`; in each they keep
 * theirs. */
static neap_status order_pairs(const np_call *c, const np_expert_sizes *s, int64_t *first,
                               int64_t *order)
{
    const np_operand *index = c->in[2];
    const int32_t *at = (const int32_t *)(const void *)index->data;
    int64_t *next = first + 1;
    memset(first, 0, (size_t)(s->experts + 2) * sizeof *first);
    for (int64_t p = 0; p < s->pairs; p++) {
        if (at[p] < 0 || at[p] >= s->experts)
            return np_fail(c->ctx, NEAP_EINVAL, "expert_matmul: index %d, there are %lld experts",
                           at[p], (long long)s->experts);
        next[at[p] + 1]++;
    }
    for (int64_t e = 0; e < s->experts; e++)
        next[e + 1] += next[e];
    for (int64_t p = 0; p < s->pairs; p++)
        order[next[at[p]]++] = p;
    return NEAP_OK;
}

/* Products of the `m` rows of `x` with one expert's weights. */
static void multiply(const np_call *c, const np_expert_sizes *s, const uint8_t *w, int64_t m,
                     const float *x, float *y, uint8_t *rows, void *scratch)
{
    const np_kernels *kernels = c->ctx->kernels;
    if (!np_is_quantised(c->in[1]->dtype)) {
        np_gemm_args g = float_product(c, s, m);
        g.a = x;
        g.b = w;
        g.c = y;
        kernels->product->gemm(&g, scratch, c->pool);
        return;
    }
    np_qmm_args q = quant_product(c, s, m);
    np_quant_rows_args r = {.out = rows,
                            .x = x,
                            .x_dtype = NEAP_F32,
                            .m = m,
                            .k = s->k,
                            .x_row = s->k,
                            .matrix = q.matrix};
    kernels->quant->quant_rows(&r, c->pool);
    q.x = rows;
    q.w = w;
    q.y = y;
    kernels->quant->qmm(&q, scratch, c->pool);
}

static neap_status expert_run(const np_call *c)
{
    const np_expert_sizes s = sizes_of(c);
    if (s.pairs == 0 || s.n == 0)
        return NEAP_OK;
    const np_expert_room room = room_of(c, &s);
    const np_operand *x = c->in[0], *w = c->in[1];
    uint8_t *at = c->scratch;
    int64_t *first = (int64_t *)(void *)at, *order = first + s.experts + 2;
    float *in = (float *)(void *)(at + room.order),
          *y = (float *)(void *)(at + room.order + room.x);
    uint8_t *rows = at + room.order + room.x + room.y;
    const int64_t used = c->out->shape[1], each = x->rank == 3 ? 1 : used;
    const int64_t bytes =
        s.n * s.k / neap_dtype_describe(w->dtype)->block_elements * np_element_bytes(w->dtype);
    neap_status status = order_pairs(c, &s, first, order);
    for (int64_t e = 0; status == NEAP_OK && e < s.experts; e++) {
        for (int64_t p = first[e], m; p < first[e + 1]; p += m) {
            m = first[e + 1] - p < s.slice ? first[e + 1] - p : s.slice;
            for (int64_t i = 0; i < m; i++)
                memcpy(in + i * s.k,
                       (const float *)(const void *)x->data + order[p + i] / each * s.k,
                       (size_t)s.k * sizeof *in);
            multiply(c, &s, w->data + e * bytes, m, in, y, rows, rows + room.rows);
            for (int64_t i = 0; i < m; i++)
                memcpy((float *)(void *)c->out->data + order[p + i] * s.n, y + i * s.n,
                       (size_t)s.n * sizeof *y);
        }
    }
    return status;
}

static double expert_flops(const np_call *shapes)
{
    return np_flops_result(shapes, 2 * (double)shapes->in[1]->shape[2]);
}

const np_op np_op_expert_matmul = {.name = "expert_matmul",
                                   .arity = 3,
                                   .infer = expert_infer,
                                   .scratch = expert_scratch,
                                   .run = expert_run,
                                   .flops = expert_flops};

neap_array *neap_expert_linear(neap_array *x, neap_array *w, neap_array *index)
{
    neap_array *in[3] = {x, w, index};
    np_expert_attr attr = {0};
    if (!np_ready(3, in))
        return NULL;
    if (x->dtype != NEAP_F32 || !(np_is_float(w->dtype) || np_is_quantised(w->dtype)) ||
        !np_is_integer(index->dtype))
        return np_refuse("expert_linear", 3, in, NEAP_EDTYPE,
                         "expected f32, weights of floats or quantised, integers");
    if (w->rank != 3 || index->rank != 2 || (x->rank != 2 && x->rank != 3) ||
        x->shape[x->rank - 1] != w->shape[2] || x->shape[0] != index->shape[0] ||
        (x->rank == 3 && x->shape[1] != index->shape[1]))
        return np_refuse("expert_linear", 3, in, NEAP_ESHAPE,
                         "expected x [T, K] or [T, U, K], w [E, N, K] and index [T, U]");
    const bool moving = x->dynamic_dim >= 0 || index->dynamic_dim >= 0;
    if (w->dynamic_dim >= 0 ||
        (moving && (x->dynamic_dim != 0 || index->dynamic_dim != 0 || x->extent != index->extent)))
        return np_refuse("expert_linear", 3, in, NEAP_EUNSUPPORTED,
                         "only T may be set at run time, and is one for both");
    attr.matrix = index->shape[0] > 1;
    in[0] = np_dense(x);
    in[1] = np_dense(w);
    in[2] = np_dense(neap_cast(index, NEAP_I32));
    return np_ready(3, in) ? np_node(&np_op_expert_matmul, 3, in, &attr, sizeof attr) : NULL;
}
