/* llama.c - the llama architecture as GGUF files hold it (Llama 1-3, SmolLM, Mistral and kin):
 * RMS norms, grouped-query attention with rotary embedding over adjacent pairs (the file's q and k
 * rows are permuted for that), a gated SiLU feed-forward. Tensor and key names are llama.cpp's.
 * What a file may say is read in llama_open.c. */
#include "models/llama.h"

#include "models/model.h"
#include "neap/ops.h"

/* ---- the graph --------------------------------------------------------------------------------
 */

static neap_array *weight(const neap_model *m, int64_t l, const char *name)
{
    return np_model_weight(m, "blk.%lld.%s.weight", (long long)l, name);
}

static neap_array *biased(const neap_model *m, int64_t l, const char *name, neap_array *y)
{
    neap_array *bias = np_model_weight(m, "blk.%lld.%s.bias", (long long)l, name);
    return bias ? neap_add(y, bias) : y;
}

static neap_array *project(const neap_model *m, int64_t l, const char *name, neap_array *x)
{
    return biased(m, l, name, neap_linear(x, weight(m, l, name)));
}

typedef struct qkv {
    neap_array *q, *k, *v;
} qkv;

/* Three products, or one whose columns are all three; the biases likewise. */
static qkv projections(const neap_model *m, int64_t l, neap_array *h)
{
    if (!weight(m, l, "attn_qkv"))
        return (qkv){project(m, l, "attn_q", h), project(m, l, "attn_k", h),
                     project(m, l, "attn_v", h)};
    const np_sizes *s = &m->sizes;
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    neap_array *all = project(m, l, "attn_qkv", h);
    return (qkv){biased(m, l, "attn_q", neap_narrow(all, -1, 0, q)),
                 biased(m, l, "attn_k", neap_narrow(all, -1, q, q + kv)),
                 biased(m, l, "attn_v", neap_narrow(all, -1, q + kv, q + 2 * kv))};
}

/* [T, heads * dim] seen as [heads, T, dim]. */
static neap_array *by_heads(neap_array *x, int64_t heads, int64_t dim)
{
    const int64_t shape[3] = {-1, heads, dim};
    return neap_swap_axes(neap_reshape(x, 3, shape), 0, 1);
}

static neap_array *turn(const np_forward *f, neap_array *x)
{
    const np_sizes *s = &f->model->sizes;
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    o.rotary = (int)s->rotary;
    o.interleaved = true;
    o.base = s->rope_base;
    o.scale = s->rope_scale;
    o.offset_param = f->position;
    o.freqs = f->model->rope_divisors;
    return neap_rope(x, &o);
}

/* Writes this pass's keys and values, then attends to everything up to here. */
static neap_array *attend(const np_forward *f, int64_t l, neap_array *h)
{
    const neap_model *m = f->model;
    const np_sizes *s = &m->sizes;
    neap_state *ks = f->cache->keys[l], *vs = f->cache->values[l];
    const qkv p = projections(m, l, h);
    neap_array *q = turn(f, by_heads(p.q, s->heads, s->head_dim));
    neap_array *k = turn(f, by_heads(p.k, s->kv_heads, s->head_dim));
    neap_array *v = by_heads(p.v, s->kv_heads, s->head_dim);
    neap_key_cache_write(neap_state_read(ks), k, f->position);
    neap_array *room =
        neap_narrow_at(neap_state_read(vs), 1, f->position, 0, neap_array_shape(f->ids)[0]);
    if (f->rows)
        room = neap_limit(room, 1, f->rows);
    neap_state_append(room, v);
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    o.scale = s->attention_scale;
    o.causal = s->causal;
    o.positions_first = true;
    neap_array *past = neap_limit(neap_state_read(vs), 1, f->length);
    neap_array *y = neap_attention(q, neap_state_read(ks), past, &o);
    return project(m, l, "attn_output", y);
}

/* The best experts by the softmax over all; their weights among themselves sum to 1. */
static neap_array *mixture(const neap_model *m, int64_t l, neap_array *h)
{
    const int64_t used = m->sizes.experts_used;
    const float least = 6.103515625e-5f; /* as llama.cpp: no division by a sum of nothing */
    neap_array *others = neap_neg(neap_softmax(neap_linear(h, weight(m, l, "ffn_gate_inp")), -1));
    neap_array *index = neap_narrow(neap_argsort(others, -1), -1, 0, used);
    neap_array *share = neap_neg(neap_narrow(neap_sort(others, -1), -1, 0, used));
    neap_array *sum = neap_sum(share, -1, NEAP_KEEPDIMS);
    share = neap_div(share, neap_maximum(sum, neap_scalar(NEAP_F32, least)));
    neap_array *gate = neap_silu(neap_expert_linear(h, weight(m, l, "ffn_gate_exps"), index));
    neap_array *up = neap_expert_linear(h, weight(m, l, "ffn_up_exps"), index);
    neap_array *down = neap_expert_linear(neap_mul(gate, up), weight(m, l, "ffn_down_exps"), index);
    return neap_sum(neap_mul(down, neap_expand_dims(share, -1)), 1, 0);
}

static neap_array *feed_forward(const neap_model *m, int64_t l, neap_array *h)
{
    if (m->sizes.experts)
        return mixture(m, l, h);
    neap_array *gate = neap_silu(project(m, l, "ffn_gate", h));
    return project(m, l, "ffn_down", neap_mul(gate, project(m, l, "ffn_up", h)));
}

static neap_array *llama_forward(const np_forward *f)
{
    const neap_model *m = f->model;
    const float eps = m->sizes.norm_eps;
    neap_array *ids = f->rows ? neap_limit(f->ids, 0, f->rows) : f->ids;
    neap_array *x = neap_take(np_model_weight(m, "token_embd.weight"), ids, 0);
    x = neap_cast(x, NEAP_F32);
    for (int64_t l = 0; l < m->sizes.layers; l++) {
        x = neap_add(x, attend(f, l, neap_rms_norm(x, weight(m, l, "attn_norm"), eps)));
        x = neap_add(x, feed_forward(m, l, neap_rms_norm(x, weight(m, l, "ffn_norm"), eps)));
    }
    return f->rows ? neap_narrow_at(x, 0, f->rows, -1, 1) : x;
}

static neap_array *llama_head(const neap_model *m, neap_array *hidden)
{
    neap_array *output = np_model_weight(m, "output.weight");
    if (!output)
        output = np_model_weight(m, "token_embd.weight");
    neap_array *h =
        neap_rms_norm(hidden, np_model_weight(m, "output_norm.weight"), m->sizes.norm_eps);
    return neap_linear(h, output);
}

const np_arch np_arch_llama = {.name = "llama",
                               .known = &np_llama_known,
                               .open = np_llama_open,
                               .forward = llama_forward,
                               .head = llama_head};
