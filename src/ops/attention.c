/* attention.c - softmax(q k^T scale + mask) v without a score matrix.
 *
 * q [B, H, Tq, D], k [B, Hkv, Tk, D] or in groups of 16 positions, v [B, Hkv, Tk, Dv]; all without
 * B too. The number of keys of a run is v's extent, so a cache in groups may be larger. */
#include <math.h>
#include <string.h>

#include "ops/support.h"

typedef struct np_attention_attr {
    int64_t window;
    float scale;
    int32_t causal, has_mask, has_sinks, positions_first, grouped;
} np_attention_attr;

/* ---- shapes --------------------------------------------------------------------------------- */

static bool attention_infer(neap_array *out)
{
    const np_attention_attr *attr = (const void *)out->attr;
    const neap_array *q = out->in[0], *v = out->in[2];
    int r = q->rank, lead = r - 3;
    int64_t heads = q->shape[lead], rows = q->shape[r - 2], dim = v->shape[r - 1];
    out->dtype = q->dtype;
    np_infer_like(out, q);
    if (!attr->positions_first) {
        out->shape[r - 1] = dim;
        return true;
    }
    if (out->dynamic_dim == lead)
        return np_op_fail(out, NEAP_EUNSUPPORTED, "the number of heads is set at run time");
    out->rank = (uint8_t)(r - 1);
    out->shape[lead] = rows;
    if (__builtin_mul_overflow(heads, dim, &out->shape[lead + 1]))
        return np_op_fail(out, NEAP_ELIMIT, "more than 2^62 elements");
    if (out->dynamic_dim == r - 2)
        out->dynamic_dim = (int8_t)lead;
    return true;
}

/* Strides of batch, head, position; `rank` without a batch is 3. */
static void strides_of(const int64_t *strides, int rank, int64_t out[3])
{
    out[0] = rank == 4 ? strides[0] : 0;
    out[1] = strides[rank - 3];
    out[2] = strides[rank - 2];
}

static int positions_dim(const np_attention_attr *attr, int rank)
{
    return attr->positions_first ? rank - 3 : rank - 2;
}

/* The kernel lets its queries stand at the end of the keys: of a part, the keys behind its last
 * query, which none of them sees, do not exist. */
static int64_t keys_of(const np_call *c, int rank, int64_t keys)
{
    const np_attention_attr *attr = c->attr;
    int d = positions_dim(attr, rank);
    if (!c->first || !attr->causal)
        return keys;
    keys -= c->whole[d] - c->first[d] - c->out->shape[d];
    return keys > 0 ? keys : 0;
}

static np_attention_args arguments(const np_call *c)
{
    const np_attention_attr *attr = c->attr;
    const np_operand *q = c->in[0], *k = c->in[1], *v = c->in[2];
    int r = q->rank;
    np_attention_args a = {
        .batch = r == 4 ? q->shape[0] : 1, .q_heads = q->shape[r - 3], .kv_heads = v->shape[r - 3],
        .q_len = q->shape[r - 2], .kv_len = keys_of(c, r, v->shape[r - 2]), .dim = q->shape[r - 1],
        .v_dim = v->shape[r - 1], .q = q->data, .k = k->data, .v = v->data, .out = c->out->data,
        .q_dtype = q->dtype, .k_dtype = k->dtype, .v_dtype = v->dtype, .out_dtype = c->out->dtype,
        .k_grouped = attr->grouped, .scale = attr->scale, .causal = attr->causal,
        .window = attr->window};
    strides_of(q->strides, r, a.q_strides);
    strides_of(k->strides, r, a.k_strides); /* in groups: batch, head, group */
    strides_of(v->strides, r, a.v_strides);
    const int64_t *o = c->out->strides;
    if (attr->positions_first) {
        a.out_strides[0] = r == 4 ? o[0] : 0;
        a.out_strides[1] = a.v_dim;
        a.out_strides[2] = o[r - 3];
    } else {
        strides_of(o, r, a.out_strides);
    }
    if (attr->has_mask) {
        const np_operand *m = c->in[3];
        a.mask = m->data;
        a.mask_dtype = m->dtype;
        memcpy(a.mask_strides + 4 - r, m->strides, (size_t)r * sizeof m->strides[0]);
    }
    if (attr->has_sinks)
        a.sinks = (const float *)(const void *)c->in[3 + attr->has_mask]->data;
    return a;
}

static size_t attention_scratch(const np_call *shapes)
{
    np_attention_args a = arguments(shapes);
    return shapes->ctx->kernels->product->attention_scratch(&a, np_pool_lanes(shapes->pool));
}

static neap_status attention_run(const np_call *c)
{
    np_attention_args a = arguments(c);
    if (np_size(c->out->rank, c->out->shape) > 0)
        c->ctx->kernels->product->attention(&a, c->scratch, c->pool);
    return NEAP_OK;
}

/* Batches; heads, where each has keys of its own; queries, unless they see a window of keys on both
 * sides, which the kernel knows only by the end of the keys. */
static int attention_part(const np_call *shapes, int dim, uint32_t input)
{
    const np_attention_attr *attr = shapes->attr;
    const int r = shapes->in[0]->rank, heads = r - 3;
    const bool sinks = attr->has_sinks && input == 3 + (uint32_t)attr->has_mask;
    const bool keys = input == 1 || input == 2;
    if (dim == positions_dim(attr, r)) {
        if (attr->window > 0 && !attr->causal)
            return NP_PART_NONE;
        return keys || sinks ? NP_PART_WHOLE : r - 2;
    }
    if (r == 4 && dim == 0)
        return sinks ? NP_PART_WHOLE : 0;
    if (attr->positions_first || dim != heads ||
        shapes->in[0]->shape[heads] != shapes->in[2]->shape[heads])
        return NP_PART_NONE;
    return sinks ? 0 : heads;
}

static double attention_flops(const np_call *shapes)
{
    const np_attention_attr *attr = shapes->attr;
    const np_operand *q = shapes->in[0], *v = shapes->in[2];
    const int r = q->rank;
    double keys = (double)v->shape[r - 2], rows = (double)np_size(r - 1, q->shape);
    if (attr->causal && q->shape[r - 2] <= v->shape[r - 2])
        keys -= 0.5 * (double)(q->shape[r - 2] - 1); /* on average */
    if (attr->window > 0 && keys > (double)attr->window)
        keys = (double)attr->window;
    return rows * keys * (2 * (double)(q->shape[r - 1] + v->shape[r - 1]) + 10);
}

const np_op np_op_attention = {.name = "attention", .arity = -1, .infer = attention_infer,
                               .scratch = attention_scratch, .run = attention_run,
                               .part = attention_part, .flops = attention_flops,
                               .absorbs_extent = true};

/* ---- building ------------------------------------------------------------------------------- */

static bool refuse(neap_array *const *in, neap_status status, const char *text)
{
    np_refuse("attention", 3, in, status, "%s", text);
    return false;
}

static bool check_keys(neap_array *const *in, bool grouped)
{
    const neap_array *q = in[0], *k = in[1], *v = in[2];
    int r = q->rank;
    int64_t keys = v->shape[r - 2];
    if (k->shape[r - 3] != v->shape[r - 3] || (r == 4 && k->shape[0] != q->shape[0]))
        return refuse(in, NEAP_ESHAPE, "batch and heads of k and v differ");
    if (grouped) {
        if (k->shape[r] != NP_KEY_GROUP || k->shape[r - 1] != q->shape[r - 1] ||
            k->shape[r - 2] < (keys + NP_KEY_GROUP - 1) / NP_KEY_GROUP)
            return refuse(in, NEAP_ESHAPE, "k in groups must be [.., Tk / 16, D, 16]");
        return k->dynamic_dim < 0 ||
               refuse(in, NEAP_EUNSUPPORTED, "the extent of k in groups is v's: limit only v");
    }
    if (k->shape[r - 1] != q->shape[r - 1] || k->shape[r - 2] != keys)
        return refuse(in, NEAP_ESHAPE, "k must be [.., Tk, D] with q's D and v's Tk");
    if (k->dynamic_dim != v->dynamic_dim || (k->dynamic_dim >= 0 && k->extent != v->extent))
        return refuse(in, NEAP_ESHAPE, "k and v have different extents set at run time");
    return true;
}

static bool check(neap_array *const *in, const neap_attention_options *o)
{
    const neap_array *q = in[0], *k = in[1], *v = in[2];
    int r = q->rank;
    for (int i = 0; i < 3; i++)
        if (!np_is_float(in[i]->dtype))
            return refuse(in, NEAP_EDTYPE, "q, k and v must be floats");
    if ((r != 3 && r != 4) || v->rank != r || (k->rank != r && k->rank != r + 1))
        return refuse(in, NEAP_ESHAPE, "expected q [B, H, Tq, D], k and v [B, Hkv, Tk, D], or all "
                                       "without B");
    if (r == 4 && v->shape[0] != q->shape[0])
        return refuse(in, NEAP_ESHAPE, "batches of q and v differ");
    if (v->shape[r - 3] == 0 || q->shape[r - 3] % v->shape[r - 3] != 0)
        return refuse(in, NEAP_ESHAPE, "the heads of q are no multiple of v's");
    for (int i = 0; i < 3; i++)
        if (in[i]->dynamic_dim >= 0 && in[i]->dynamic_dim != r - 2)
            return refuse(in, NEAP_EUNSUPPORTED, "only positions may be set at run time");
    if (o->window < 0 || !isfinite(o->scale))
        return refuse(in, NEAP_EINVAL, "window and scale must be finite and not negative");
    return check_keys(in, k->rank == r + 1);
}

/* The mask as a view of [B, H, Tq, Tk]. */
static neap_array *mask_view(neap_array *const *in, neap_array *mask)
{
    const neap_array *q = in[0], *v = in[2];
    int r = q->rank, lead = r - mask->rank;
    int64_t shape[4], strides[4] = {0};
    if (mask->dtype != NEAP_BOOL && !np_is_float(mask->dtype))
        return np_refuse("attention", 1, &mask, NEAP_EDTYPE, "the mask must be bool or a float");
    memcpy(shape, q->shape, (size_t)r * sizeof *shape);
    shape[r - 1] = v->shape[r - 2];
    bool fits = lead >= 0;
    for (int d = 0; d < mask->rank && fits; d++) {
        bool one = mask->shape[d] == 1 && mask->dynamic_dim != d;
        fits = one || mask->shape[d] == shape[lead + d];
        strides[lead + d] = one ? 0 : mask->strides[d];
    }
    const neap_param *extent = lead + mask->dynamic_dim == r - 2 ? q->extent : v->extent;
    fits &= mask->dynamic_dim < 0 || (lead + mask->dynamic_dim >= r - 2 && mask->extent == extent);
    if (!fits)
        return np_refuse("attention", 3, (neap_array *[]){in[0], in[2], mask}, NEAP_ESHAPE,
                         "the mask does not broadcast to [.., %lld, %lld]", (long long)shape[r - 2],
                         (long long)shape[r - 1]);
    return np_view(mask, r, shape, strides, 0);
}

static neap_array *sinks_view(neap_array *const *in, neap_array *sinks)
{
    int64_t heads = in[0]->shape[in[0]->rank - 3];
    if (!np_is_float(sinks->dtype) || sinks->rank != 1 || sinks->shape[0] != heads ||
        sinks->dynamic_dim >= 0)
        return np_refuse("attention", 2, (neap_array *[]){in[0], sinks}, NEAP_ESHAPE,
                         "sinks must be floats [%lld]", (long long)heads);
    return np_adjacent(neap_cast(sinks, NEAP_F32));
}

neap_array *neap_attention(neap_array *q, neap_array *k, neap_array *v,
                           const neap_attention_options *options)
{
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    neap_array *in[5] = {q, k, v};
    uint32_t n = 3;
    if (!np_ready(3, in) || !np_options("attention", options, &o, sizeof o) || !check(in, &o))
        return NULL;
    np_attention_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.grouped = k->rank == q->rank + 1;
    attr.window = o.window;
    attr.causal = o.causal;
    attr.positions_first = o.positions_first;
    int64_t dim = q->shape[q->rank - 1];
    attr.scale = o.scale != 0 ? o.scale : dim ? 1.0f / sqrtf((float)dim) : 1.0f;
    in[0] = np_adjacent(q);
    in[1] = attr.grouped && k->strides[k->rank - 2] != NP_KEY_GROUP ? np_copied(k) : np_adjacent(k);
    in[2] = np_adjacent(v);
    if (o.mask) {
        attr.has_mask = 1;
        in[n++] = mask_view(in, o.mask);
    }
    if (o.sinks) {
        attr.has_sinks = 1;
        in[n++] = sinks_view(in, o.sinks);
    }
    return np_node(&np_op_attention, n, in, &attr, sizeof attr);
}
