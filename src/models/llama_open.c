/* llama_open.c - reads a GGUF file of the llama architecture: its sizes, how positions turn, its
 * tensors. What llama_names.def does not let pass never comes here. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/shown.h"
#include "models/llama.h"
#include "models/model.h"
#include "neap/ops.h"

/* ---- sizes ------------------------------------------------------------------------------------
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
    if (e == NEAP_OK)
        e = read_u32(m, "llama.expert_count", NP_GGUF_OPTIONAL, &s->experts);
    if (e == NEAP_OK)
        e = read_u32(m, "llama.expert_used_count", NP_GGUF_OPTIONAL, &s->experts_used);
    if (e == NEAP_OK)
        e = check_range(m, "llama.expert_count", s->experts, 0, 512);
    if (e == NEAP_OK)
        e = check_range(m, "llama.expert_used_count", s->experts_used, s->experts > 0, s->experts);
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
    if (e == NEAP_OK && s->head_dim % 2)
        e = np_fail(m->ctx, NEAP_EFORMAT, "%s: heads of dimension %lld, expected even",
                    m->gguf->name, (long long)s->head_dim);
    if (e == NEAP_OK)
        e = check_range(m, "llama.rope.dimension_count", s->rotary, s->head_dim, s->head_dim);
    s->rope_base = 10000.0f;
    s->rope_scale = 1.0f;
    if (e == NEAP_OK)
        e = np_gguf_f32(m->gguf, "llama.rope.freq_base", NP_GGUF_OPTIONAL, &s->rope_base);
    if (e == NEAP_OK && !(s->rope_base > 1.0f))
        e = np_fail(m->ctx, NEAP_EFORMAT, "%s: llama.rope.freq_base is %g, expected over 1",
                    m->gguf->name, (double)s->rope_base);
    return e;
}

/* ---- rope scaling -----------------------------------------------------------------------------
 *
 * A pair i turns by position * base^(-2i/rotary) / factor_i, where factor_i is the file's
 * rope_freqs (Llama 3.1). Type linear divides all angles, none divides none, and yarn divides those
 * of slow pairs, leaves those of fast ones, goes from one to the other in a ramp over the pairs,
 * and scales what was turned (arXiv:2309.00071). Without a type a factor is linear's. */

typedef enum scaling_kind { SCALE_NONE, SCALE_LINEAR, SCALE_YARN } scaling_kind;

typedef struct scaling {
    scaling_kind kind;
    float factor, attention;                   /* of all types */
    float blend, turned, beta_fast, beta_slow; /* yarn's; turned 0: by the factor */
    uint32_t original;                         /* context length */
} scaling;

static const float LEAST_FACTOR = 1e-6f; /* positions over it are numbers still */

static neap_status read_kind(const neap_model *m, scaling *r)
{
    static const char *const names[] = {
        [SCALE_NONE] = "none", [SCALE_LINEAR] = "linear", [SCALE_YARN] = "yarn"};
    np_bytes kind = {(const uint8_t *)"linear", 6};
    neap_status e = np_gguf_string(m->gguf, "llama.rope.scaling.type", NP_GGUF_OPTIONAL, &kind);
    if (e != NEAP_OK)
        return e;
    for (int i = 0; i < 3; i++)
        if (np_bytes_equal(kind, names[i])) {
            r->kind = (scaling_kind)i;
            return NEAP_OK;
        }
    return np_fail(m->ctx, NEAP_EUNSUPPORTED,
                   "%s: key 'llama.rope.scaling.type' is \"%s\"; known: none, linear, yarn",
                   m->gguf->name, np_show(kind).text);
}

/* Keys that only yarn has a use for. */
static neap_status read_yarn(const neap_model *m, scaling *r)
{
    const struct {
        const char *key;
        float *to;
        float least, most;
    } keys[] = {
        {"llama.rope.scaling.yarn_ext_factor",  &r->blend,     0,     1   },
        {"llama.rope.scaling.yarn_attn_factor", &r->turned,    1e-6f, 1e6f},
        {"llama.rope.scaling.yarn_beta_fast",   &r->beta_fast, 1e-6f, 1e6f},
        {"llama.rope.scaling.yarn_beta_slow",   &r->beta_slow, 1e-6f, 1e6f},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!np_gguf_find(m->gguf, keys[i].key))
            continue;
        if (r->kind != SCALE_YARN)
            return np_fail(
                m->ctx, NEAP_EUNSUPPORTED,
                "%s: key '%s' is for rope scaling \"yarn\", which the file does not have",
                m->gguf->name, keys[i].key);
        neap_status e = np_gguf_f32(m->gguf, keys[i].key, NP_GGUF_OPTIONAL, keys[i].to);
        if (e != NEAP_OK)
            return e;
        if (!(*keys[i].to >= keys[i].least && *keys[i].to <= keys[i].most))
            return np_fail(m->ctx, NEAP_EFORMAT, "%s: %s is %g, expected %g to %g", m->gguf->name,
                           keys[i].key, (double)*keys[i].to, (double)keys[i].least,
                           (double)keys[i].most);
    }
    return NEAP_OK;
}

static neap_status read_scaling(const neap_model *m, scaling *r)
{
    const char *key = "llama.rope.scaling.factor";
    *r = (scaling){.factor = 1,
                   .attention = 1,
                   .blend = 1,
                   .beta_fast = 32,
                   .beta_slow = 1,
                   .original = (uint32_t)m->sizes.context_length};
    if (!np_gguf_find(m->gguf, key))
        key = "llama.rope.scale_linear";
    neap_status e = read_kind(m, r);
    if (e == NEAP_OK)
        e = np_gguf_f32(m->gguf, key, NP_GGUF_OPTIONAL, &r->factor);
    if (e == NEAP_OK && r->factor != 0 && !(r->factor >= LEAST_FACTOR))
        return np_fail(m->ctx, NEAP_EFORMAT, "%s: %s is %g, expected 0 or %g and more",
                       m->gguf->name, key, (double)r->factor, (double)LEAST_FACTOR);
    if (r->factor == 0 || r->kind == SCALE_NONE)
        r->factor = 1;
    if (e == NEAP_OK)
        e = np_gguf_f32(m->gguf, "llama.rope.scaling.attn_factor", NP_GGUF_OPTIONAL, &r->attention);
    if (e == NEAP_OK && !(r->attention > 0 && r->attention < 1e6f))
        return np_fail(m->ctx, NEAP_EFORMAT,
                       "%s: llama.rope.scaling.attn_factor is %g, expected over 0 and under 1e6",
                       m->gguf->name, (double)r->attention);
    if (e == NEAP_OK)
        e = np_gguf_u32(m->gguf, "llama.rope.scaling.original_context_length", NP_GGUF_OPTIONAL,
                        &r->original);
    if (e == NEAP_OK && r->original == 0)
        r->original = (uint32_t)m->sizes.context_length;
    return e == NEAP_OK ? read_yarn(m, r) : e;
}

/* The pair that turns `beta` times within the original context. */
static double pair_of(const neap_model *m, const scaling *r, double beta)
{
    const double turns = (double)r->original / (beta * 2 * 3.14159265358979323846);
    return (double)m->sizes.rotary * log(turns) / (2 * log((double)m->sizes.rope_base));
}

/* The share of the angle that stays as it is without scaling. */
static double unscaled_share(const neap_model *m, const scaling *r, int64_t pair)
{
    const double low = fmax(0, floor(pair_of(m, r, r->beta_fast))),
                 high = fmin((double)m->sizes.rotary - 1, ceil(pair_of(m, r, r->beta_slow))),
                 ramp = ((double)pair - low) / fmax(0.001, high - low);
    return r->blend * (1 - fmin(1, fmax(0, ramp)));
}

/* Divisors of the angles, where base and one scale for all are not enough. */
static neap_status make_divisors(neap_model *m, const scaling *r)
{
    np_sizes *s = &m->sizes;
    const int64_t pairs = s->rotary / 2;
    neap_status e = NEAP_OK;
    const bool factors = np_model_has(m, "rope_freqs.weight");
    if (factors)
        e = np_model_expect(m, pairs, 0, "rope_freqs.weight");
    if (e != NEAP_OK || (!factors && r->kind != SCALE_YARN))
        return e;
    neap_array *divisors = neap_retain(neap_array_zeros(NEAP_F32, 1, &pairs));
    if (!divisors)
        return m->ctx->status;
    m->rope_divisors = divisors;
    const float *f = factors ? neap_array_data(np_model_weight(m, "rope_freqs.weight")) : NULL;
    float *to = neap_array_mutable(divisors);
    for (int64_t i = 0; i < pairs; i++) {
        double scale = 1;
        if (r->kind == SCALE_YARN) {
            const double share = unscaled_share(m, r, i);
            scale = (1 - share) / (double)r->factor + share;
        }
        to[i] = (float)(pow((double)s->rope_base, 2.0 * (double)i / (double)s->rotary) *
                        (f ? (double)f[i] : 1) / scale);
        if (!(fabsf(to[i]) <= FLT_MAX && to[i] != 0))
            return np_fail(m->ctx, NEAP_EFORMAT, "%s: the angle of rotary pair %lld is not finite",
                           m->gguf->name, (long long)i);
    }
    return NEAP_OK;
}

static neap_status open_scaling(neap_model *m)
{
    np_sizes *s = &m->sizes;
    scaling r;
    neap_status e = read_scaling(m, &r);
    if (e == NEAP_OK)
        e = make_divisors(m, &r);
    if (e != NEAP_OK)
        return e;
    s->rope_scale = r.kind == SCALE_LINEAR ? 1.0f / r.factor : 1.0f;
    float turned = r.attention;
    if (r.kind == SCALE_YARN && r.turned > 0)
        turned *= r.turned;
    else if (r.kind == SCALE_YARN && r.blend > 0 && r.factor > 1)
        turned *= 1 + 0.1f * logf(r.factor);
    /* Queries and keys turn as a whole, so that scaling both scales the scores. */
    if (turned != 1)
        s->attention_scale = turned * turned / sqrtf((float)s->head_dim);
    return NEAP_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------
 */

typedef struct wanted {
    const char *name;
    int64_t rows, columns;
} wanted;

static neap_status expect_all(neap_model *m, int64_t l, const wanted *want, size_t n)
{
    neap_status e = NEAP_OK;
    for (size_t i = 0; e == NEAP_OK && i < n; i++)
        e = np_model_expect(m, want[i].rows, want[i].columns, "blk.%lld.%s.weight", (long long)l,
                            want[i].name);
    return e;
}

static neap_status expect_biases(neap_model *m, int64_t l, const wanted *want, size_t n)
{
    neap_status e = NEAP_OK;
    for (size_t i = 0; e == NEAP_OK && i < n; i++)
        if (np_model_has(m, "blk.%lld.%s.bias", (long long)l, want[i].name))
            e = np_model_expect(m, want[i].rows, 0, "blk.%lld.%s.bias", (long long)l, want[i].name);
    return e;
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

static neap_status expect_attention(neap_model *m, int64_t l)
{
    const np_sizes *s = &m->sizes;
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const wanted one[] =
        {
            {"attn_qkv", q + 2 * kv, s->hidden}
    },
                 three[] = {{"attn_q", q, s->hidden},
                            {"attn_k", kv, s->hidden},
                            {"attn_v", kv, s->hidden}},
                 output[] = {{"attn_output", s->hidden, q}};
    const bool fused = np_model_has(m, "blk.%lld.attn_qkv.weight", (long long)l),
               fused_bias = fused && np_model_has(m, "blk.%lld.attn_qkv.bias", (long long)l);
    neap_status e =
        fused ? expect_all(m, l, one, COUNT(one)) : expect_all(m, l, three, COUNT(three));
    if (e == NEAP_OK)
        e = fused_bias ? expect_biases(m, l, one, COUNT(one))
                       : expect_biases(m, l, three, COUNT(three));
    if (e == NEAP_OK)
        e = expect_all(m, l, output, COUNT(output));
    return e == NEAP_OK ? expect_biases(m, l, output, COUNT(output)) : e;
}

static neap_status expect_experts(neap_model *m, int64_t l)
{
    const np_sizes *s = &m->sizes;
    const wanted router[] =
        {
            {"ffn_gate_inp", s->experts, s->hidden}
    },
                 stacks[] = {{"ffn_gate_exps", s->ffn, s->hidden},
                             {"ffn_up_exps", s->ffn, s->hidden},
                             {"ffn_down_exps", s->hidden, s->ffn}};
    neap_status e = expect_all(m, l, router, COUNT(router));
    for (size_t i = 0; e == NEAP_OK && i < COUNT(stacks); i++)
        e = np_model_expect_stack(m, s->experts, stacks[i].rows, stacks[i].columns,
                                  "blk.%lld.%s.weight", (long long)l, stacks[i].name);
    return e;
}

static neap_status expect_layer(neap_model *m, int64_t l)
{
    const np_sizes *s = &m->sizes;
    const wanted norms[] =
        {
            {"attn_norm", s->hidden, 0},
            {"ffn_norm",  s->hidden, 0}
    },
                 ffn[] = {{"ffn_gate", s->ffn, s->hidden},
                          {"ffn_up", s->ffn, s->hidden},
                          {"ffn_down", s->hidden, s->ffn}};
    neap_status e = expect_all(m, l, norms, COUNT(norms));
    if (e == NEAP_OK)
        e = expect_attention(m, l);
    if (e != NEAP_OK || s->experts)
        return e == NEAP_OK ? expect_experts(m, l) : e;
    e = expect_all(m, l, ffn, COUNT(ffn));
    return e == NEAP_OK ? expect_biases(m, l, ffn, COUNT(ffn)) : e;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

#define APPLIED  NP_KEY_APPLIED
#define HARMLESS NP_KEY_HARMLESS
#define ONLY     NP_KEY_ONLY
#define REFUSED  NP_KEY_REFUSED
static const np_key_row keys[] = {
#define NP_KEY(name, rule, a, b, why) {name, rule, a, b, why},
#include "models/llama_names.def"
#undef NP_KEY
};
static const np_tensor_row tensors[] = {
#define NP_TENSOR(name, why) {name, why},
#include "models/llama_names.def"
#undef NP_TENSOR
};
const np_known np_llama_known = {keys, COUNT(keys), tensors, COUNT(tensors)};

/* Keys that may be there as long as they say what would be so without them. */
static neap_status check_agreement(const neap_model *m)
{
    np_bytes layout = {0};
    int64_t window = 0, width = m->sizes.hidden;
    neap_status e = np_gguf_string(m->gguf, "llama.tensor_data_layout", NP_GGUF_OPTIONAL, &layout);
    if (e == NEAP_OK && layout.n && !np_bytes_equal(layout, "Meta AI original pth"))
        return np_fail(m->ctx, NEAP_EUNSUPPORTED,
                       "%s: key 'llama.tensor_data_layout' is \"%s\", which Neap does not know",
                       m->gguf->name, np_show(layout).text);
    if (e == NEAP_OK)
        e = read_u32(m, "llama.attention.sliding_window", NP_GGUF_OPTIONAL, &window);
    if (e == NEAP_OK && window > 0 && window < m->sizes.context_length)
        return np_fail(m->ctx, NEAP_EUNSUPPORTED,
                       "%s: key 'llama.attention.sliding_window' is %lld: attention to a window of "
                       "a context of %lld, which Neap does not do",
                       m->gguf->name, (long long)window, (long long)m->sizes.context_length);
    if (e == NEAP_OK)
        e = read_u32(m, "llama.embedding_length_out", NP_GGUF_OPTIONAL, &width);
    return e == NEAP_OK ? check_range(m, "llama.embedding_length_out", width, m->sizes.hidden,
                                      m->sizes.hidden)
                        : e;
}

neap_status np_llama_open(neap_model *m)
{
    np_sizes *s = &m->sizes;
    s->causal = true;
    neap_status e = read_counts(m);
    if (e == NEAP_OK)
        e = np_gguf_bool(m->gguf, "llama.attention.causal", NP_GGUF_OPTIONAL, &s->causal);
    if (e == NEAP_OK)
        e = read_rope(m);
    if (e == NEAP_OK)
        e = check_agreement(m);
    if (e == NEAP_OK)
        e = np_gguf_f32(m->gguf, "llama.attention.layer_norm_rms_epsilon", NP_GGUF_REQUIRED,
                        &s->norm_eps);
    if (e == NEAP_OK && s->norm_eps < 0.0f)
        e = np_fail(m->ctx, NEAP_EFORMAT,
                    "%s: llama.attention.layer_norm_rms_epsilon is %g, expected 0 or more",
                    m->gguf->name, (double)s->norm_eps);
    const np_gguf_tensor *embedding = np_gguf_find_tensor(m->gguf, "token_embd.weight");
    s->vocabulary = embedding ? embedding->shape[0] : 0;
    if (e == NEAP_OK)
        e = np_model_expect(m, s->vocabulary, s->hidden, "token_embd.weight");
    if (e == NEAP_OK)
        e = np_model_expect(m, s->hidden, 0, "output_norm.weight");
    if (e == NEAP_OK && np_model_has(m, "output.weight"))
        e = np_model_expect(m, s->vocabulary, s->hidden, "output.weight");
    if (e == NEAP_OK)
        e = open_scaling(m);
    for (int64_t l = 0; e == NEAP_OK && l < s->layers; l++)
        e = expect_layer(m, l);
    return e;
}
