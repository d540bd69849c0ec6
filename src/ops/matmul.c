/* matmul.c - products: matmul and addmm of floats, linear with float or quantised weights.
 *
 * Which kernel a product takes, vector or matrix, follows from its planned number of rows and is
 * part of the node, so that it is the same however many rows a run has. A quantised product is two
 * nodes, so that products of the same activations share their quantised form. */
#include <string.h>

#include "ops/support.h"

/* ---- matmul --------------------------------------------------------------------------------- */

typedef struct np_matmul_attr {
    int32_t dtype, matrix;
    int32_t shared;    /* one b for all: the leading dimensions of a are rows */
    float alpha, beta; /* of addmm, whose third input is what is added */
} np_matmul_attr;

static bool matmul_extent(neap_array *out, const neap_array *x, int xd, int d)
{
    if (x->dynamic_dim != xd)
        return true;
    if (out->dynamic_dim >= 0 && (out->dynamic_dim != d || out->extent != x->extent))
        return np_op_fail(out, NEAP_EUNSUPPORTED, "two extents of the result are set at run time");
    out->dynamic_dim = (int8_t)d;
    out->extent = x->extent;
    return true;
}

/* Both inputs have the same rank, at least 2, and leading dimensions that agree. */
static bool matmul_infer(neap_array *out)
{
    const neap_array *a = out->in[0], *b = out->in[1];
    int r = a->rank, m = r - 2, n = r - 1;
    bool da = a->dynamic_dim == n, db = b->dynamic_dim == m;
    if (a->shape[n] != b->shape[m] || da != db || (da && a->extent != b->extent))
        return np_op_fail(out, NEAP_ESHAPE, "%lld columns times %lld rows", (long long)a->shape[n],
                          (long long)b->shape[m]);
    out->dtype = (uint8_t)((const np_matmul_attr *)(const void *)out->attr)->dtype;
    out->rank = a->rank;
    memcpy(out->shape, a->shape, sizeof out->shape);
    out->shape[n] = b->shape[n];
    for (int d = 0; d < m; d++)
        if (!matmul_extent(out, a, d, d) || !matmul_extent(out, b, d, d))
            return false;
    return matmul_extent(out, a, m, m) && matmul_extent(out, b, n, n);
}

/* Leading dimensions of a (and of the result and what is added) that can be walked as rows are moved
 * into m. */
static void fold_rows(np_gemm_args *g, int *lead, int n, const np_operand *const *operand,
                      int64_t *const *row)
{
    int64_t next[3];
    for (int i = 0; i < n; i++)
        next[i] = g->m * *row[i];
    for (int d = *lead - 1; d >= 0; d--) {
        int64_t extent = operand[0]->shape[d];
        for (int i = 0; i < n && extent != 1; i++)
            if (g->m != 1 && operand[i]->strides[d] != next[i])
                return;
        for (int i = 0; i < n && extent != 1; i++) {
            if (g->m == 1)
                *row[i] = operand[i]->strides[d];
            next[i] = extent * operand[i]->strides[d];
        }
        g->m *= extent;
        *lead = d;
    }
}

void np_fold_rows(np_gemm_args *g, int *lead, const np_operand *a, const np_operand *out)
{
    fold_rows(g, lead, 2, (const np_operand *[]){out, a}, (int64_t *[]){&g->c_row, &g->a_row});
}

/* What gemm is called with for the first of the products; `lead` dimensions of them are left. */
static np_gemm_args gemm_arguments(const np_call *c, int *lead)
{
    const np_matmul_attr *attr = c->attr;
    const np_operand *a = c->in[0], *b = c->in[1], *out = c->out;
    int m = out->rank - 2, n = out->rank - 1;
    np_gemm_args g = {.m = out->shape[m], .n = out->shape[n], .k = a->shape[n],
                      .a = a->data, .b = b->data, .c = out->data, .a_row = a->strides[m],
                      .a_col = a->strides[n], .b_row = b->strides[m], .b_col = b->strides[n],
                      .c_row = out->strides[m], .a_dtype = a->dtype, .b_dtype = b->dtype,
                      .c_dtype = out->dtype, .matrix = attr->matrix,
                      .finished = c->finished, .finished_arg = c->finished_arg,
                      .also = c->also};
    if (c->n_in == 3) {
        g.add = c->in[2]->data;
        g.add_dtype = c->in[2]->dtype;
        g.add_row = c->in[2]->strides[m];
        g.add_col = c->in[2]->strides[n];
        g.alpha = attr->alpha;
        g.beta = attr->beta;
    }
    *lead = m;
    if (attr->shared)
        fold_rows(&g, lead, (int)c->n_in, (const np_operand *[]){out, a, c->in[c->n_in - 1]},
                  (int64_t *[]){&g.c_row, &g.a_row, &g.add_row});
    return g;
}

static size_t matmul_scratch(const np_call *shapes)
{
    int lead;
    np_gemm_args g = gemm_arguments(shapes, &lead);
    if (((const np_matmul_attr *)shapes->attr)->shared) /* rows that fold only where a tile is dense */
        g.m = np_size(shapes->out->rank - 1, shapes->out->shape);
    return shapes->ctx->kernels->product->gemm_scratch(&g, np_pool_lanes(shapes->pool));
}

static neap_status matmul_run(const np_call *c)
{
    int lead;
    np_gemm_args g = gemm_arguments(c, &lead);
    if (np_size(c->out->rank, c->out->shape) == 0)
        return NEAP_OK;
    int64_t index[NEAP_MAX_RANK] = {0}, at[4] = {0}, strides[4][NEAP_MAX_RANK];
    const np_operand *operand[4] = {c->in[0], c->in[1], c->out, c->in[c->n_in - 1]};
    for (int i = 0; i < 4; i++)
        memcpy(strides[i], operand[i]->strides, sizeof strides[i]);
    int64_t products = np_size(lead, c->out->shape);
    for (int64_t p = 0; p < products && !np_stop_at(p); p++) {
        g.a = c->in[0]->data + at[0] * np_element_bytes(c->in[0]->dtype);
        g.b = c->in[1]->data + at[1] * np_element_bytes(c->in[1]->dtype);
        g.c = c->out->data + at[2] * np_element_bytes(c->out->dtype);
        if (c->n_in == 3)
            g.add = c->in[2]->data + at[3] * np_element_bytes(g.add_dtype);
        c->ctx->kernels->product->gemm(&g, c->scratch, c->pool);
        np_index_next(lead, c->out->shape, index, 4, at, strides);
    }
    return NEAP_OK;
}

/* Rows and leading dimensions. Which kernel it is stays the node's choice, so a part of one row has
 * the bits of the whole. */
static int matmul_part(const np_call *shapes, int dim, uint32_t input)
{
    const np_matmul_attr *attr = shapes->attr;
    int m = shapes->out->rank - 2;
    if (dim > m)
        return NP_PART_NONE;
    return input == 1 && (dim == m || attr->shared) ? NP_PART_WHOLE : dim;
}

static double matmul_flops(const np_call *shapes)
{
    const np_operand *a = shapes->in[0];
    return np_flops_result(shapes, 2 * (double)a->shape[a->rank - 1] + (shapes->n_in == 3 ? 3 : 0));
}

const np_op np_op_matmul = {.name = "matmul", .arity = 2, .flags = NP_OP_FINISHES, .infer = matmul_infer,
                            .scratch = matmul_scratch, .run = matmul_run, .part = matmul_part,
                            .flops = matmul_flops, .absorbs_extent = true};
const np_op np_op_addmm = {.name = "addmm", .arity = 3, .flags = NP_OP_FINISHES, .infer = matmul_infer,
                           .scratch = matmul_scratch, .run = matmul_run, .part = matmul_part,
                           .flops = matmul_flops, .absorbs_extent = true};

/* Broadcasts the leading dimensions of both, leaves the last two. */
static bool broadcast_leading(const char *op, neap_array *in[2])
{
    np_extents lead = {.dynamic_dim = -1}, e[2];
    int rank = in[0]->rank > in[1]->rank ? in[0]->rank : in[1]->rank;
    for (int i = 0; i < 2; i++) {
        e[i] = np_extents_of(in[i]);
        e[i].rank = rank;
        memmove(e[i].shape + rank - 2, in[i]->shape + in[i]->rank - 2, 2 * sizeof e[i].shape[0]);
    }
    for (int d = 0; d < rank - 2; d++) {
        lead.shape[d] = 1;
        for (int i = 0; i < 2; i++) {
            int xd = d - (rank - in[i]->rank);
            if (xd < 0 || (in[i]->shape[xd] == 1 && in[i]->dynamic_dim != xd))
                continue;
            if (lead.shape[d] != 1 && lead.shape[d] != in[i]->shape[xd]) {
                np_refuse(op, 2, in, NEAP_ESHAPE, "extents %lld and %lld do not broadcast",
                          (long long)lead.shape[d], (long long)in[i]->shape[xd]);
                return false;
            }
            lead.shape[d] = in[i]->shape[xd];
            if (in[i]->dynamic_dim == xd) {
                lead.dynamic_dim = d;
                lead.extent = in[i]->extent;
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        int xd = in[i]->dynamic_dim;
        memcpy(e[i].shape, lead.shape, (size_t)(rank - 2) * sizeof lead.shape[0]);
        if (xd >= 0)
            e[i].dynamic_dim = xd + rank - in[i]->rank;
        else if (lead.dynamic_dim >= 0) {
            e[i].dynamic_dim = lead.dynamic_dim;
            e[i].extent = lead.extent;
        }
        in[i] = np_broadcast_view(op, in[i], &e[i]);
        if (!in[i])
            return false;
    }
    return true;
}

/* Makes both operands matrices of one rank, and what is needed to multiply them. */
static bool prepare(const char *op, neap_array *in[2], np_matmul_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    if (!np_is_float(in[0]->dtype) || !np_is_float(in[1]->dtype))
        return np_refuse(op, 2, in, NEAP_EDTYPE, "for floats only") != NULL;
    if (in[0]->rank == 0 || in[1]->rank == 0)
        return np_refuse(op, 2, in, NEAP_ESHAPE, "an operand has no dimension") != NULL;
    for (int i = 0; i < 2; i++)
        if (in[i]->rank == 1)
            in[i] = neap_expand_dims(in[i], i);
    if (!np_ready(2, in))
        return false;
    attr->shared = np_size(in[1]->rank - 2, in[1]->shape) == 1;
    attr->matrix = np_size(attr->shared ? in[0]->rank - 1 : 1,
                           attr->shared ? in[0]->shape : in[0]->shape + in[0]->rank - 2) > 1;
    return broadcast_leading(op, in);
}

/* Takes away the dimensions that `prepare` gave. */
static neap_array *unprepare(neap_array *out, const neap_array *a, const neap_array *b)
{
    if (out && b->rank == 1)
        out = neap_squeeze(out, -1);
    if (out && a->rank == 1)
        out = neap_squeeze(out, b->rank == 1 ? -1 : -2);
    return out;
}

neap_array *neap_matmul(neap_array *a, neap_array *b)
{
    neap_array *in[2] = {a, b};
    neap_dtype dtype;
    np_matmul_attr attr;
    if (!np_ready(2, in) || !np_promote_all("matmul", 2, in, &dtype) ||
        !prepare("matmul", in, &attr))
        return NULL;
    attr.dtype = dtype;
    return unprepare(np_node(&np_op_matmul, 2, in, &attr, sizeof attr), a, b);
}

/* What is added, as a view of the product of in[0] and in[1]. */
static neap_array *added(neap_array *const in[2], neap_array *c, const neap_array *a,
                         const neap_array *b)
{
    np_extents e = np_extents_of(in[0]), columns = np_extents_of(in[1]);
    int n = e.rank - 1;
    e.shape[n] = columns.shape[n];
    if (e.dynamic_dim == n)
        e.dynamic_dim = -1;
    if (columns.dynamic_dim == n) {
        e.dynamic_dim = n;
        e.extent = columns.extent;
    }
    if (b->rank == 1 && c->rank > 0)
        c = neap_expand_dims(c, -1);
    if (a->rank == 1 && c && c->rank > 1)
        c = neap_expand_dims(c, -2);
    return np_broadcast_view("addmm", c, &e);
}

neap_array *neap_addmm(neap_array *c, neap_array *a, neap_array *b, float alpha, float beta)
{
    neap_array *in[3] = {a, b, c};
    neap_dtype dtype;
    np_matmul_attr attr;
    if (!np_ready(3, in) || !np_promote_all("addmm", 3, in, &dtype) || !prepare("addmm", in, &attr))
        return NULL;
    attr.dtype = dtype;
    attr.alpha = alpha;
    attr.beta = beta;
    in[2] = added(in, np_is_float(c->dtype) ? c : neap_cast(c, dtype), a, b);
    return unprepare(np_node(&np_op_addmm, 3, in, &attr, sizeof attr), a, b);
}

/* ---- activations of a quantised product ------------------------------------------------------ */

typedef struct np_quant_rows_attr {
    int64_t rows, k; /* planned */
    int32_t matrix;
} np_quant_rows_attr;

static bool quant_rows_infer(neap_array *out)
{
    const np_quant_rows_attr *attr = (const void *)out->attr;
    out->dtype = NEAP_U8;
    out->rank = 1;
    out->shape[0] = (int64_t)out->ctx->kernels->quant->quant_rows_bytes(attr->rows, attr->k, attr->matrix);
    return true;
}

static neap_status quant_rows_run(const np_call *c)
{
    const np_quant_rows_attr *attr = c->attr;
    const np_operand *x = c->in[0];
    np_quant_rows_args a = {.out = c->out->data, .x = x->data, .x_dtype = x->dtype, .k = attr->k,
                            .m = np_size(x->rank - 1, x->shape), .matrix = attr->matrix};
    for (int d = 0; d < x->rank - 1; d++)
        if (x->shape[d] > 1)
            a.x_row = x->strides[d]; /* the last of them: they fold, or there is one row */
    if (a.m > 0 && a.k > 0)
        c->ctx->kernels->quant->quant_rows(&a, c->pool);
    return NEAP_OK;
}

static double quant_rows_flops(const np_call *shapes)
{
    return np_flops_input(shapes, 4);
}

const np_op np_op_quant_rows = {.name = "quant_rows", .arity = 1, .infer = quant_rows_infer,
                                .run = quant_rows_run, .flops = quant_rows_flops,
                                .absorbs_extent = true,
                                .no_grad = "its product with quantised weights has the gradient"};

/* ---- the product itself --------------------------------------------------------------------- */

typedef struct np_quant_matmul_attr {
    int64_t lead[NEAP_MAX_RANK - 1]; /* shape of x but its last dimension */
    neap_param *extent;
    int8_t rank, dynamic_dim;
    uint8_t dtype, matrix;
} np_quant_matmul_attr;

static bool quant_matmul_infer(neap_array *out)
{
    const np_quant_matmul_attr *attr = (const void *)out->attr;
    out->dtype = attr->dtype;
    out->rank = (uint8_t)attr->rank;
    memcpy(out->shape, attr->lead, (size_t)(attr->rank - 1) * sizeof attr->lead[0]);
    out->shape[out->rank - 1] = out->in[1]->shape[0];
    out->dynamic_dim = attr->dynamic_dim;
    out->extent = attr->extent;
    return true;
}

static np_qmm_args quant_arguments(const np_call *c)
{
    const np_quant_matmul_attr *attr = c->attr;
    const np_operand *w = c->in[1], *out = c->out;
    return (np_qmm_args){.m = np_size(out->rank - 1, out->shape), .n = w->shape[0],
                         .k = w->shape[1], .x = c->in[0]->data, .w = w->data, .w_dtype = w->dtype,
                         .packed = w->packed, .matrix = attr->matrix, .y = out->data,
                         .y_row = w->shape[0], .y_dtype = out->dtype};
}

static size_t quant_matmul_scratch(const np_call *shapes)
{
    np_qmm_args a = quant_arguments(shapes);
    return shapes->ctx->kernels->quant->qmm_scratch(&a, np_pool_lanes(shapes->pool));
}

static neap_status quant_matmul_run(const np_call *c)
{
    np_qmm_args a = quant_arguments(c);
    if (a.m > 0 && a.n > 0 && a.k > 0)
        c->ctx->kernels->quant->qmm(&a, c->scratch, c->pool);
    else if (a.m > 0 && a.n > 0)
        memset(c->out->data, 0, (size_t)(a.m * a.n * np_element_bytes(a.y_dtype)));
    return NEAP_OK;
}

static double quant_matmul_flops(const np_call *shapes)
{
    return np_flops_result(shapes, 2 * (double)shapes->in[1]->shape[1]);
}

const np_op np_op_quant_matmul = {.name = "quant_matmul", .arity = 2, .infer = quant_matmul_infer,
                                  .scratch = quant_matmul_scratch, .run = quant_matmul_run,
                                  .flops = quant_matmul_flops};

/* Do the leading dimensions of x make rows at equal distances, also with fewer at run time? */
static bool rows_fold(const neap_array *x)
{
    int64_t next = 0;
    bool any = false;
    for (int d = x->rank - 2; d >= 0; d--) {
        if (x->shape[d] == 1 && x->dynamic_dim != d)
            continue;
        if (any && x->strides[d] != next)
            return false;
        next = x->strides[d] * x->shape[d];
        any = true;
    }
    return true;
}

static neap_array *quantised_linear(neap_array *x, neap_array *w)
{
    neap_array *in[2] = {x, w};
    np_quant_rows_attr rows;
    np_quant_matmul_attr attr;
    memset(&rows, 0, sizeof rows);
    memset(&attr, 0, sizeof attr);
    if (x->dynamic_dim == x->rank - 1)
        return np_refuse("linear", 2, in, NEAP_EUNSUPPORTED, "the last extent is set at run time");
    if (x->dynamic_dim > 0 && np_size(x->dynamic_dim, x->shape) != 1)
        return np_refuse("linear", 2, in, NEAP_EUNSUPPORTED,
                         "dimension %d has an extent set at run time and is not the first",
                         x->dynamic_dim);
    if (w->shape[1] != x->shape[x->rank - 1])
        return np_refuse("linear", 2, in, NEAP_ESHAPE, "%lld columns times %lld",
                         (long long)x->shape[x->rank - 1], (long long)w->shape[1]);
    rows.rows = np_size(x->rank - 1, x->shape);
    rows.k = w->shape[1];
    rows.matrix = rows.rows > 1;
    memcpy(attr.lead, x->shape, (size_t)(x->rank - 1) * sizeof attr.lead[0]);
    attr.extent = x->dynamic_dim >= 0 ? x->extent : NULL;
    attr.dynamic_dim = x->dynamic_dim;
    attr.rank = (int8_t)x->rank;
    attr.dtype = x->dtype;
    attr.matrix = (uint8_t)rows.matrix;
    x = rows_fold(x) ? np_adjacent(x) : np_copied(x);
    in[0] = np_node(&np_op_quant_rows, 1, &x, &rows, sizeof rows);
    return np_node(&np_op_quant_matmul, 2, in, &attr, sizeof attr);
}

neap_array *neap_linear(neap_array *x, neap_array *w)
{
    neap_array *in[2] = {x, w};
    if (!np_ready(2, in) || !np_plain_dtype("linear", x))
        return NULL;
    if (!np_is_float(x->dtype) || !(np_is_float(w->dtype) || np_is_quantised(w->dtype)))
        return np_refuse("linear", 2, in, NEAP_EDTYPE, "for floats and quantised weights only");
    if (x->rank == 0 || w->rank != 2)
        return np_refuse("linear", 2, in, NEAP_ESHAPE, "expected x [.., K] and w [N, K]");
    return np_is_quantised(w->dtype) ? quantised_linear(x, w)
                                     : neap_matmul(x, neap_transpose(w, NULL));
}
