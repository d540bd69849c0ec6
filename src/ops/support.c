/* support.c - building: refusing, axes, dtypes, broadcasting, dimensions in groups. */
#include "ops/support.h"

#include <stdio.h>
#include <string.h>

neap_array *np_refuse(const char *op, uint32_t n, neap_array *const *in, neap_status status,
                      const char *format, ...)
{
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    neap_context *ctx = np_scope_context();
    if (!ctx)
        return NULL;
    np_op named = {.name = op};
    neap_array *named_in[NP_INLINE_INPUTS], out = {.ctx = ctx, .op = &named, .in = named_in};
    for (uint32_t i = 0; i < n && out.n_in < NP_INLINE_INPUTS; i++)
        if (in[i])
            out.in[out.n_in++] = in[i];
    np_op_fail(&out, status, "%s", text);
    return NULL;
}

neap_status np_refused(void)
{
    const neap_context *ctx = np_scope_context();
    if (!ctx)
        return NEAP_ENOCONTEXT;
    const neap_status status = ctx->status != NEAP_OK ? ctx->status : ctx->built;
    return status != NEAP_OK ? status : NEAP_EINVAL;
}

bool np_attached(uint32_t n, neap_array *const *in)
{
    for (uint32_t i = 0; i < n; i++)
        if (!in[i])
            return false;
    neap_context *ctx = np_scope_context();
    if (!ctx || ctx->status != NEAP_OK)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const np_op *op = np_storage(in[i])->op;
        if (op && op->flags & NP_OP_EFFECT) {
            np_fail(ctx, NEAP_EINVAL, "%s gives no value that an op can use", op->name);
            return false;
        }
    }
    return true;
}

bool np_ready(uint32_t n, neap_array *const *in)
{
    if (!np_attached(n, in))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (in[i]->shift && np_hangs_over(in[i])) {
            np_fail(
                np_scope_context(), NEAP_EINVAL,
                "rows at parameter %s may lie behind the end of state %s: they can only be written",
                in[i]->shift->name, np_storage(in[i])->state->name);
            return false;
        }
    }
    return true;
}

bool np_axis(const char *op, neap_array *x, int axis, int *out)
{
    int a = axis < 0 ? axis + x->rank : axis;
    if (a < 0 || a >= x->rank) {
        np_refuse(op, 1, &x, NEAP_ESHAPE, "axis %d, the array has %d dimensions", axis, x->rank);
        return false;
    }
    *out = a;
    return true;
}

bool np_options(const char *op, const void *given, void *options, size_t size)
{
    if (!given)
        return true;
    size_t given_size;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < sizeof given_size || given_size > size) {
        np_refuse(op, 0, NULL, NEAP_EINVAL, "options of size %zu, expected at most %zu", given_size,
                  size);
        return false;
    }
    memcpy(options, given, given_size);
    return true;
}

bool np_plain_dtype(const char *op, neap_array *x)
{
    if (!np_is_quantised(x->dtype))
        return true;
    np_refuse(op, 1, &x, NEAP_EDTYPE, "quantised weights go into linear and take only");
    return false;
}

/* ---- dtypes --------------------------------------------------------------------------------- */

static neap_dtype promote_integers(neap_dtype a, neap_dtype b)
{
    neap_dtype_class ca = neap_dtype_describe(a)->class_, cb = neap_dtype_describe(b)->class_;
    int64_t sa = np_element_bytes(a), sb = np_element_bytes(b);
    if (ca == cb)
        return sa >= sb ? a : b;
    neap_dtype u = ca == NEAP_CLASS_UINT ? a : b, s = ca == NEAP_CLASS_UINT ? b : a;
    if (np_element_bytes(s) > np_element_bytes(u))
        return s;
    return u == NEAP_U8 ? NEAP_I16 : NEAP_I64;
}

bool np_promote(neap_dtype a, neap_dtype b, neap_dtype *out)
{
    if (np_is_quantised(a) || np_is_quantised(b))
        return false;
    if (a == b || b == NEAP_BOOL)
        *out = a;
    else if (a == NEAP_BOOL)
        *out = b;
    else if (np_is_float(a) && np_is_float(b))
        *out = NEAP_F32; /* f16 and bf16 hold neither the other's range nor its precision */
    else if (np_is_float(a) || np_is_float(b))
        *out = np_is_float(a) ? a : b;
    else
        *out = promote_integers(a, b);
    return true;
}

bool np_promote_all(const char *op, uint32_t n, neap_array *const *in, neap_dtype *out)
{
    neap_dtype d = NEAP_BOOL;
    for (uint32_t i = 0; i < n; i++) {
        if (!np_promote(d, (neap_dtype)in[i]->dtype, &d)) {
            np_refuse(op, n, in, NEAP_EDTYPE, "quantised weights go into linear and take only");
            return false;
        }
    }
    *out = d;
    return true;
}

/* ---- broadcasting --------------------------------------------------------------------------- */

np_extents np_extents_of(const neap_array *x)
{
    np_extents e = {.rank = x->rank, .dynamic_dim = x->dynamic_dim, .extent = x->extent};
    memcpy(e.shape, x->shape, x->rank * sizeof x->shape[0]);
    if (e.dynamic_dim < 0)
        e.extent = NULL;
    return e;
}

/* One input's dimension `xd` joins the result's dimension `d`. */
static bool join(const char *op, uint32_t n, neap_array *const *in, np_extents *e, int d,
                 const neap_array *x, int xd)
{
    bool x_dynamic = x->dynamic_dim == xd, e_dynamic = e->dynamic_dim == d;
    if (x->shape[xd] == 1 && !x_dynamic)
        return true;
    if (e->shape[d] == 1 && !e_dynamic) {
        if (x_dynamic && e->dynamic_dim >= 0) {
            np_refuse(op, n, in, NEAP_EUNSUPPORTED,
                      "two dimensions with an extent set at run time");
            return false;
        }
        e->shape[d] = x->shape[xd];
        if (x_dynamic) {
            e->dynamic_dim = d;
            e->extent = x->extent;
        }
        return true;
    }
    if (e->shape[d] != x->shape[xd]) {
        np_refuse(op, n, in, NEAP_ESHAPE, "extents %lld and %lld do not broadcast",
                  (long long)e->shape[d], (long long)x->shape[xd]);
        return false;
    }
    if (x_dynamic != e_dynamic || (x_dynamic && x->extent != e->extent)) {
        np_refuse(op, n, in, NEAP_ESHAPE, "an extent set at run time (%s) meets another one",
                  x_dynamic ? x->extent->name : e->extent->name);
        return false;
    }
    return true;
}

bool np_broadcast(const char *op, uint32_t n, neap_array *const *in, np_extents *out)
{
    np_extents e = {.dynamic_dim = -1};
    for (uint32_t i = 0; i < n; i++)
        e.rank = in[i]->rank > e.rank ? in[i]->rank : e.rank;
    for (int d = 0; d < e.rank; d++)
        e.shape[d] = 1;
    for (uint32_t i = 0; i < n; i++)
        for (int xd = 0; xd < in[i]->rank; xd++)
            if (!join(op, n, in, &e, e.rank - in[i]->rank + xd, in[i], xd))
                return false;
    int64_t elements;
    uint64_t bytes;
    if (!np_shape_bytes(NEAP_U8, e.rank, e.shape, &elements, &bytes))
        return np_refuse(op, n, in, NEAP_ELIMIT, "the result has more than 2^62 elements"), false;
    *out = e;
    return true;
}

static bool same_extents(const neap_array *x, const np_extents *e)
{
    return x->rank == e->rank && memcmp(x->shape, e->shape, x->rank * sizeof x->shape[0]) == 0 &&
           x->dynamic_dim == e->dynamic_dim;
}

neap_array *np_broadcast_view(const char *op, neap_array *x, const np_extents *to)
{
    if (!x || same_extents(x, to))
        return x;
    int64_t strides[NEAP_MAX_RANK] = {0};
    int lead = to->rank - x->rank;
    if (lead < 0)
        return np_refuse(op, 1, &x, NEAP_ESHAPE, "%d dimensions do not broadcast to %d", x->rank,
                         to->rank);
    for (int d = lead; d < to->rank; d++) {
        int xd = d - lead;
        bool dynamic = x->dynamic_dim == xd;
        if (x->shape[xd] == 1 && !dynamic)
            continue;
        if (x->shape[xd] != to->shape[d] || dynamic != (to->dynamic_dim == d))
            return np_refuse(op, 1, &x, NEAP_ESHAPE, "extent %lld does not broadcast to %lld",
                             (long long)x->shape[xd], (long long)to->shape[d]);
        strides[d] = x->strides[xd];
    }
    neap_array *v = np_view(x, to->rank, to->shape, strides, 0);
    if (v && to->dynamic_dim >= 0)
        np_set_extent(v, to->dynamic_dim, to->extent);
    return v;
}

neap_array *np_view_carry(neap_array *x, int rank, const int64_t *shape, const int64_t *strides,
                          int64_t offset, int dynamic_dim)
{
    neap_array *v = np_view(x, rank, shape, strides, offset);
    if (v && dynamic_dim >= 0 && x->dynamic_dim >= 0)
        np_set_extent(v, dynamic_dim, x->extent);
    return v;
}

void np_infer_like(neap_array *out, const neap_array *x)
{
    out->rank = x->rank;
    memcpy(out->shape, x->shape, sizeof out->shape);
    out->dynamic_dim = x->dynamic_dim;
    out->extent = x->dynamic_dim >= 0 ? x->extent : NULL;
}

bool np_infer_same(neap_array *out)
{
    np_infer_like(out, out->in[0]);
    out->dtype = out->in[0]->dtype;
    return true;
}

neap_array *np_adjacent(neap_array *x)
{
    if (!x || x->rank == 0 || x->shape[x->rank - 1] <= 1 || x->strides[x->rank - 1] == 1)
        return x;
    return np_copied(x);
}

neap_array *np_dense(neap_array *x)
{
    return !x || np_is_row_major(x->rank, x->shape, x->strides) ? x : np_copied(x);
}

/* ---- groups of dimensions ------------------------------------------------------------------- */

int np_collapse(int rank, int64_t *shape, int n, int64_t (*strides)[NEAP_MAX_RANK])
{
    int kept = 0;
    for (int d = 0; d < rank; d++) {
        if (shape[d] == 1)
            continue;
        bool merge = kept > 0;
        for (int i = 0; i < n && merge; i++)
            merge = strides[i][kept - 1] == strides[i][d] * shape[d];
        int to = merge ? kept - 1 : kept++;
        shape[to] = merge ? shape[to] * shape[d] : shape[d];
        for (int i = 0; i < n; i++)
            strides[i][to] = strides[i][d];
    }
    return kept;
}

void np_index_next(int rank, const int64_t *shape, int64_t *index, int n, int64_t *offsets,
                   int64_t (*strides)[NEAP_MAX_RANK])
{
    for (int d = rank - 1; d >= 0; d--) {
        bool wraps = ++index[d] == shape[d];
        for (int i = 0; i < n; i++)
            offsets[i] += wraps ? -(shape[d] - 1) * strides[i][d] : strides[i][d];
        if (!wraps)
            return;
        index[d] = 0;
    }
}

void np_index_seek(int rank, const int64_t *shape, int64_t at, int64_t *index, int n,
                   int64_t *offsets, int64_t (*strides)[NEAP_MAX_RANK])
{
    for (int i = 0; i < n; i++)
        offsets[i] = 0;
    for (int d = rank - 1; d >= 0; d--) {
        index[d] = at % shape[d];
        at /= shape[d];
        for (int i = 0; i < n; i++)
            offsets[i] += index[d] * strides[i][d];
    }
}

/* ---- parts ---------------------------------------------------------------------------------- */

int np_part_every(const np_call *shapes, int dim, uint32_t input)
{
    (void)shapes;
    (void)input;
    return dim;
}

int64_t np_part_number(const np_call *c, int dim, int rank, int64_t number)
{
    int64_t inside[NEAP_MAX_RANK], at = 0;
    if (!c->first)
        return number;
    for (int d = dim + rank - 1; d >= dim; d--) {
        inside[d] = number % c->out->shape[d];
        number /= c->out->shape[d];
    }
    for (int d = dim; d < dim + rank; d++)
        at = at * c->whole[d] + c->first[d] + inside[d];
    return at;
}

double np_flops_result(const np_call *shapes, double each)
{
    return each * (double)np_size(shapes->out->rank, shapes->out->shape);
}

double np_flops_input(const np_call *shapes, double each)
{
    return each * (double)np_size(shapes->in[0]->rank, shapes->in[0]->shape);
}
