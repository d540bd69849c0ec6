/* nodes_model.c - norms, rotary embedding, attention. */
#include "program/walk.h"
#include "neap/ops.h"

/* ---- norms ------------------------------------------------------------------------------------------- */

/* x and its weights in their common dtype, as the result has it. */
static bool bring_together(np_walk *w, neap_array **x, neap_array **weight, neap_array **bias)
{
    neap_array *one = neap_scalar(neap_array_dtype(*x), 0);
    if (*weight)
        one = neap_add(one, neap_scalar(neap_array_dtype(*weight), 0));
    if (*bias)
        one = neap_add(one, neap_scalar(neap_array_dtype(*bias), 0));
    if (!*x || !one)
        return false;
    neap_dtype dtype = neap_array_dtype(one);
    *x = neap_cast(*x, dtype);
    *weight = *weight ? neap_cast(*weight, dtype) : NULL;
    *bias = *bias ? neap_cast(*bias, dtype) : NULL;
    return w->ctx->status == NEAP_OK;
}

NP_BUILD(rms_norm)
{
    neap_array *x = np_get(w, n->x), *weight = np_get_optional(w, n->weight), *none = NULL;
    if (!x || (n->weight >= 0 && !weight) || !bring_together(w, &x, &weight, &none))
        return false;
    return np_put(w, n->out, neap_rms_norm(x, weight, n->eps));
}

NP_BUILD(layer_norm)
{
    neap_array *x = np_get(w, n->x), *weight = np_get_optional(w, n->weight);
    neap_array *bias = np_get_optional(w, n->bias);
    if (!x || w->ctx->status != NEAP_OK || !bring_together(w, &x, &weight, &bias))
        return false;
    return np_put(w, n->out, neap_layer_norm(x, weight, bias, n->eps));
}

/* ---- rotary embedding ---------------------------------------------------------------------------------- */

/* Positions [T], or [B, T] of an offset for each batch. */
static neap_array *positions(np_walk *w, const neap_array *x, neap_array *offset)
{
    int64_t rows = x->shape[x->rank - 2], batch[2] = {neap_array_size(offset), 1}, one = 1;
    if (!np_node_fixed(w, x))
        return NULL;
    neap_array *steps = neap_arange(0, (double)rows, 1, NEAP_I32);
    bool single = batch[0] == 1;
    offset = neap_reshape(neap_cast(offset, NEAP_I32), single ? 1 : 2, single ? &one : batch);
    return neap_add(offset, steps);
}

static bool set_offset(np_walk *w, const np_node_rope *n, const neap_array *x,
                       neap_rope_options *o)
{
    np_number at;
    if (!n->offset.is_vid) {
        neap_array *offset = np_get(w, (int32_t)n->offset.number);
        o->positions = offset ? positions(w, x, offset) : NULL;
        return o->positions != NULL;
    }
    if (!np_get_vid(w, n->offset.number, &at))
        return false;
    if (at.read >= 0 && at.value >= 0) {
        o->offset_param = np_open_param(w, &at, 0, INT32_MAX - x->shape[x->rank - 2]);
        return o->offset_param != NULL;
    }
    np_pin(w, &at);
    o->offset = at.value;
    return true;
}

NP_BUILD(rope)
{
    neap_array *x = np_get(w, n->x), *freqs = np_get_optional(w, n->freqs);
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    if (!x || (n->freqs >= 0 && !freqs))
        return false;
    if (x->rank < 2)
        return np_node_fail(w, NEAP_ESHAPE, "%d dimensions, expected 2 or more", x->rank);
    o.rotary = n->dims;
    o.interleaved = n->traditional;
    o.base = n->base;
    o.scale = n->scale;
    o.freqs = freqs ? neap_cast(freqs, NEAP_F32) : NULL;
    if (!set_offset(w, n, x, &o))
        return false;
    if (x->rank <= 4)
        return np_put(w, n->out, neap_rope(x, &o));
    int64_t shape[4] = {x->shape[0], -1, x->shape[x->rank - 2], x->shape[x->rank - 1]};
    if (!np_node_fixed(w, x))
        return false;
    neap_array *turned = neap_rope(neap_reshape(x, 4, shape), &o);
    return np_put(w, n->out, neap_reshape(turned, x->rank, x->shape));
}

/* ---- attention ------------------------------------------------------------------------------------------ */

/* [B, H, T, D], but written as [B, T, H, D]: what comes next is nearly always the transposition back,
 * which then is no copy. */
neap_array *np_attention_by_heads(neap_array *q, neap_array *k, neap_array *v,
                                  neap_attention_options *o)
{
    if (!q || !v || q->rank != 4 || v->rank != 4 || q->dynamic_dim >= 0)
        return neap_attention(q, k, v, o);
    o->positions_first = true;
    const int64_t shape[4] = {q->shape[0], q->shape[2], q->shape[1], v->shape[3]};
    return neap_swap_axes(neap_reshape(neap_attention(q, k, v, o), 4, shape), 1, 2);
}

NP_BUILD(sdpa)
{
    neap_array *q = np_get(w, n->q), *k = np_get(w, n->k), *v = np_get(w, n->v);
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    o.scale = n->scale;
    o.causal = n->causal;
    o.mask = np_get_optional(w, n->mask);
    if (n->mask >= 0 && !o.mask)
        return false;
    return np_put(w, n->out, np_attention_by_heads(q, k, v, &o));
}
