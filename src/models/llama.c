/* llama.c - the llama architecture as GGUF files hold it (Llama 1-3, SmolLM, Mistral and kin):
 * RMS norms, grouped-query attention with rotary embedding over adjacent pairs (the file's q and k
 * rows are permuted for that), a gated SiLU feed-forward. Tensor and key names are llama.cpp's. */
#include <stdio.h>
#include <string.h>

#include "models/model.h"
#include "neap/ops.h"

/* ---- opening ----------------------------------------------------------------------------------
 */

static neap_status read_u32(const neap_model *m, const char *key, np_gguf_need need, int64_t *out)
{
    uint32_t v = (uint32_t)*out;
    neap_status s = np_gguf_u32(m->gguf, key, need, &v);
    *out = v;
    return s;
}

static neap_status check_range(const neap_model *m, const char *key, int64_t v, int64_t low,
                               int64_t high)
{
    if (v >= low && v <= high)
        return NEAP_OK;
    return np_fail(m->ctx, NEAP_EFORMAT, "%s: %s is %lld, expected %lld to %lld", m->gguf->name,
                   key, (long long)v, (long long)low, (long long)high);
}

static neap_status read_counts(neap_model *m)
{
    np_sizes *s = &m->sizes;
    neap_status e = read_u32(m, "llama.block_count", NP_GGUF_REQUIRED, &s->layers);
    if (e == NEAP_OK)
        e = read_u32(m, "llama.embedding_length", NP_GGUF_REQUIRED, &s->hidden);
    if (e == NEAP_OK)
        e = read_u32(m, "llama.feed_forward_length", NP_GGUF_REQUIRED, &s->ffn);
    if (e == NEAP_OK)
        e = read_u32(m, "llama.context_length", NP_GGUF_REQUIRED, &s->context_length);
    if (e == NEAP_OK)
        e = read_u32(m, "llama.attention.head_count", NP_GGUF_REQUIRED, &s->heads);
    s->kv_heads = s->heads;
    if (e == NEAP_OK)
        e = read_u32(m, "llama.attention.head_count_kv", NP_GGUF_OPTIONAL, &s->kv_heads);
    if (e == NEAP_OK)
        e = check_range(m, "llama.block_count", s->layers, 1, 1024);
    if (e == NEAP_OK)
        e = check_range(m, "llama.embedding_length", s->hidden, 1, 1 << 20);
    if (e == NEAP_OK)
        e = check_range(m, "llama.feed_forward_length", s->ffn, 1, 1 << 24);
    if (e == NEAP_OK)
        e = check_range(m, "llama.context_length", s->context_length, 1, 1 << 30);
    if (e == NEAP_OK)
        e = check_range(m, "llama.attention.head_count", s->heads, 1, 4096);
    if (e == NEAP_OK)
        e = check_range(m, "llama.attention.head_count_kv", s->kv_heads, 1, s->heads);
    if (e == NEAP_OK && s->heads % s->kv_heads)
        e = np_fail(m->ctx, NEAP_EFORMAT, "%s: %lld heads are no multiple of %lld kv heads",
                    m->gguf->name, (long long)s->heads, (long long)s->kv_heads);
    return e;
}

static neap_status read_rope(neap_model *m)
{
    np_sizes *s = &m->sizes;
    s->head_dim = s->hidden / s->heads;
    neap_status e = read_u32(m, "llama.attention.key_length", NP_GGUF_OPTIONAL, &s->head_dim);
    int64_t value_dim = s->head_dim;
    if (e == NEAP_OK)
        e = read_u32(m, "llama.attention.value_length", NP_GGUF_OPTIONAL, &value_dim);
    if (e == NEAP_OK)
        e = check_range(m, "llama.attention.key_length", s->head_dim, 1, 1024);
    if (e == NEAP_OK)
        e = check_range(m, "llama.attention.value_length", value_dim, s->head_dim, s->head_dim);
    s->rotary = s->head_dim;
    if (e == NEAP_OK)
        e = read_u32(m, "llama.rope.dimension_count", NP_GGUF_OPTIONAL, &s->rotary);
    if (e == NEAP_OK)
        e = check_range(m, "llama.rope.dimension_count", s->rotary, 2, s->head_dim);
    if (e == NEAP_OK && s->rotary % 2)
        e = np_fail(m->ctx, NEAP_EFORMAT, "%s: llama.rope.dimension_count is %lld, expected even",
                    m->gguf->name, (long long)s->rotary);
    s->rope_base = 10000.0f;
    s->rope_scale = 1.0f;
    if (e == NEAP_OK)
        e = np_gguf_f32(m->gguf, "llama.rope.freq_base", NP_GGUF_OPTIONAL, &s->rope_base);
    if (e == NEAP_OK && !(s->rope_base > 1.0f))
        e = np_fail(m->ctx, NEAP_EFORMAT, "%s: llama.rope.freq_base is %g, expected over 1",
                    m->gguf->name, (double)s->rope_base);
    return e;
}

static const float LEAST_FACTOR = 1e-6f; /* positions over it are numbers still */

/* Linear scaling divides positions; other kinds need factors that this architecture reads from the
 * file's rope_freqs.weight, or are refused rather than run wrongly. */
static neap_status read_scaling(neap_model *m)
{
    np_bytes kind = {(const uint8_t *)"none", 4};
    float factor = 1.0f;
    neap_status e = np_gguf_string(m->gguf, "llama.rope.scaling.type", NP_GGUF_OPTIONAL, &kind);
    if (e == NEAP_OK)
        e = np_gguf_f32(m->gguf, "llama.rope.scaling.factor", NP_GGUF_OPTIONAL, &factor);
    if (e == NEAP_OK && !np_gguf_find(m->gguf, "llama.rope.scaling.factor"))
        e = np_gguf_f32(m->gguf, "llama.rope.scale_linear", NP_GGUF_OPTIONAL, &factor);
    if (e != NEAP_OK)
        return e;
    bool none = kind.n == 4 && !memcmp(kind.p, "none", 4);
    bool linear = kind.n == 6 && !memcmp(kind.p, "linear", 6);
    if (!none && !linear)
        return np_fail(m->ctx, NEAP_EUNSUPPORTED, "%s: rope scaling \"%.*s\" is not known",
                       m->gguf->name, (int)(kind.n < 32 ? kind.n : 32), (const char *)kind.p);
    if (!(factor >= LEAST_FACTOR))
        return np_fail(m->ctx, NEAP_EFORMAT, "%s: rope scaling factor %g, expected %g or more",
                       m->gguf->name, (double)factor, (double)LEAST_FACTOR);
    m->sizes.rope_scale = 1.0f / factor;
    return NEAP_OK;
}

static neap_status expect_optional(neap_model *m, int64_t rows, const char *name, int64_t layer)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%lld.%s", (long long)layer, name);
    return np_model_has(m, "%s", full) ? np_model_expect(m, rows, 0, "%s", full) : NEAP_OK;
}

static neap_status expect_layer(neap_model *m, int64_t l)
{
    const np_sizes *s = &m->sizes;
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const struct {
        const char *name;
        int64_t rows, columns;
    } want[] = {
        {"attn_norm",   s->hidden, 0        },
        {"attn_q",      q,         s->hidden},
        {"attn_k",      kv,        s->hidden},
        {"attn_v",      kv,        s->hidden},
        {"attn_output", s->hidden, q        },
        {"ffn_norm",    s->hidden, 0        },
        {"ffn_gate",    s->ffn,    s->hidden},
        {"ffn_up",      s->ffn,    s->hidden},
        {"ffn_down",    s->hidden, s->ffn   },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        neap_status e = np_model_expect(m, want[i].rows, want[i].columns, "blk.%lld.%s.weight",
                                        (long long)l, want[i].name);
        if (e != NEAP_OK)
            return e;
    }
    neap_status e = expect_optional(m, q, "attn_q.bias", l);
    if (e == NEAP_OK)
        e = expect_optional(m, kv, "attn_k.bias", l);
    if (e == NEAP_OK)
        e = expect_optional(m, kv, "attn_v.bias", l);
    if (e == NEAP_OK)
        e = expect_optional(m, s->hidden, "attn_output.bias", l);
    return e;
}

static neap_status llama_open(neap_model *m)
{
    np_sizes *s = &m->sizes;
    neap_status e = read_counts(m);
    if (e == NEAP_OK)
        e = read_rope(m);
    if (e == NEAP_OK)
        e = read_scaling(m);
    if (e == NEAP_OK)
        e = np_gguf_f32(m->gguf, "llama.attention.layer_norm_rms_epsilon", NP_GGUF_REQUIRED,
                        &s->norm_eps);
    if (e == NEAP_OK && s->norm_eps < 0.0f)
        e = np_fail(m->ctx, NEAP_EFORMAT,
                    "%s: llama.attention.layer_norm_rms_epsilon is %g, expected 0 or more",
                    m->gguf->name, (double)s->norm_eps);
    int64_t experts = 0;
    if (e == NEAP_OK)
        e = read_u32(m, "llama.expert_count", NP_GGUF_OPTIONAL, &experts);
    if (e == NEAP_OK && experts > 0)
        return np_fail(m->ctx, NEAP_EUNSUPPORTED, "%s: a mixture of %lld experts is not known",
                       m->gguf->name, (long long)experts);
    const np_gguf_tensor *embedding = np_gguf_find_tensor(m->gguf, "token_embd.weight");
    s->vocabulary = embedding ? embedding->shape[0] : 0;
    if (e == NEAP_OK)
        e = np_model_expect(m, s->vocabulary, s->hidden, "token_embd.weight");
    if (e == NEAP_OK)
        e = np_model_expect(m, s->hidden, 0, "output_norm.weight");
    if (e == NEAP_OK && np_model_has(m, "output.weight"))
        e = np_model_expect(m, s->vocabulary, s->hidden, "output.weight");
    if (e == NEAP_OK && np_model_has(m, "rope_freqs.weight"))
        e = np_model_expect(m, s->rotary / 2, 0, "rope_freqs.weight");
    for (int64_t l = 0; e == NEAP_OK && l < s->layers; l++)
        e = expect_layer(m, l);
    return e;
}

/* ---- the graph --------------------------------------------------------------------------------
 */

static neap_array *weight(const neap_model *m, int64_t l, const char *name)
{
    return np_model_weight(m, "blk.%lld.%s.weight", (long long)l, name);
}

static neap_array *project(const neap_model *m, int64_t l, const char *name, neap_array *x)
{
    neap_array *y = neap_linear(x, weight(m, l, name));
    neap_array *bias = np_model_weight(m, "blk.%lld.%s.bias", (long long)l, name);
    return bias ? neap_add(y, bias) : y;
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
    o.freqs = np_model_weight(f->model, "rope_freqs.weight");
    /* The file's factors divide the usual frequencies: divisors = factor * base^(2i/rotary). */
    if (o.freqs) {
        neap_array *i = neap_arange(0, (double)s->rotary, 2, NEAP_F32);
        neap_array *power = neap_div(i, neap_scalar(NEAP_F32, (double)s->rotary));
        o.freqs = neap_mul(o.freqs, neap_pow(neap_scalar(NEAP_F32, s->rope_base), power));
    }
    return neap_rope(x, &o);
}

/* Writes this pass's keys and values, then attends to everything up to here. */
static neap_array *attend(const np_forward *f, int64_t l, neap_array *h)
{
    const neap_model *m = f->model;
    const np_sizes *s = &m->sizes;
    neap_state *ks = f->cache->keys[l], *vs = f->cache->values[l];
    neap_array *q = turn(f, by_heads(project(m, l, "attn_q", h), s->heads, s->head_dim));
    neap_array *k = turn(f, by_heads(project(m, l, "attn_k", h), s->kv_heads, s->head_dim));
    neap_array *v = by_heads(project(m, l, "attn_v", h), s->kv_heads, s->head_dim);
    neap_key_cache_write(neap_state_read(ks), k, f->position);
    neap_array *room =
        neap_narrow_at(neap_state_read(vs), 1, f->position, 0, neap_array_shape(f->ids)[0]);
    if (f->rows)
        room = neap_limit(room, 1, f->rows);
    neap_state_append(room, v);
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    o.positions_first = true;
    neap_array *past = neap_limit(neap_state_read(vs), 1, f->length);
    neap_array *y = neap_attention(q, neap_state_read(ks), past, &o);
    return project(m, l, "attn_output", y);
}

static neap_array *feed_forward(const neap_model *m, int64_t l, neap_array *h)
{
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

const np_arch np_arch_llama = {
    .name = "llama", .open = llama_open, .forward = llama_forward, .head = llama_head};
