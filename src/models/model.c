/* model.c - opening and describing models. */
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/versioned.h"
#include "text/tokenizer.h"

#define NP_ARCH(name) extern const np_arch np_arch_##name;
#include "models/archs.def"
#undef NP_ARCH

static const np_arch *const archs[] = {
#define NP_ARCH(name) &np_arch_##name,
#include "models/archs.def"
#undef NP_ARCH
};

#define NP_ARCH(name) " " #name
static const char known_archs[] =
#include "models/archs.def"
    ;
#undef NP_ARCH

static neap_status find_arch(neap_model *m)
{
    np_bytes name;
    neap_status status = np_gguf_string(m->gguf, "general.architecture", NP_GGUF_REQUIRED, &name);
    if (status != NEAP_OK)
        return status;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        if (np_bytes_equal(name, archs[i]->name)) {
            m->arch = archs[i];
            return NEAP_OK;
        }
    }
    return np_fail(m->ctx, NEAP_EUNSUPPORTED, "%s: architecture \"%.*s\" is not known; known:%s",
                   m->gguf->name, (int)(name.n < 64 ? name.n : 64), (const char *)name.p,
                   known_archs);
}

/* What a run needs, and `info` does not. */
static neap_status prepare(neap_model *m)
{
    neap_status status = np_model_check_kind(m);
    if (status == NEAP_OK)
        status = find_arch(m);
    if (status == NEAP_OK)
        status = np_gguf_check_types(m->gguf);
    if (status == NEAP_OK)
        status = np_model_check_keys(m);
    if (status == NEAP_OK)
        status = np_scope_push(m->ctx);
    if (status == NEAP_OK) {
        status = m->arch->open(m);
        neap_scope_pop(m->ctx);
    }
    if (status == NEAP_OK)
        status = np_model_check_tensors(m);
    return status == NEAP_OK ? np_model_read_tokenizer(m) : status;
}

static neap_status open_file(neap_context *ctx, const char *path, neap_model **out)
{
    *out = NULL;
    if (!path)
        return np_fail(ctx, NEAP_EINVAL, "model: no path");
    neap_model *m = np_calloc(ctx, NEAP_MEM_HOST, sizeof *m);
    if (!m)
        return NEAP_ENOMEM;
    m->ctx = ctx;
    neap_status status = np_file_map_open(ctx, path, &m->map);
    if (status == NEAP_OK)
        status = np_gguf_parse(ctx, m->map.data, m->map.bytes, path, &m->gguf);
    if (status == NEAP_OK) {
        size_t bytes = m->gguf->n_tensors * sizeof *m->weights;
        m->weights = np_calloc(ctx, NEAP_MEM_HOST, bytes);
        status = m->weights ? NEAP_OK : NEAP_ENOMEM;
    }
    if (status != NEAP_OK)
        neap_model_free(m);
    else
        *out = m;
    return status;
}

static neap_status model_open(neap_context *ctx, const char *path, neap_model **out)
{
    neap_status status = open_file(ctx, path, out);
    if (status == NEAP_OK)
        status = prepare(*out);
    if (status != NEAP_OK) {
        neap_model_free(*out);
        *out = NULL;
    }
    return status;
}

neap_status neap_model_open(neap_context *ctx, const char *path, neap_model **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, path && out, model_open(ctx, path, out));
}

static neap_status model_inspect(neap_context *ctx, const char *path, neap_model **out)
{
    neap_status status = open_file(ctx, path, out);
    if (status == NEAP_OK)
        status = prepare(*out);
    if (*out && (status == NEAP_EUNSUPPORTED || status == NEAP_EFORMAT)) {
        neap_model *m = *out;
        const char *text = neap_context_error(ctx);
        const size_t name = strlen(m->gguf->name); /* which the text begins with */
        const bool named = strncmp(text, m->gguf->name, name) == 0 && !strncmp(text + name, ": ", 2);
        snprintf(m->refusal, sizeof m->refusal, "%s", text + (named ? name + 2 : 0));
        neap_context_clear_error(ctx);
        status = m->tokenizer ? NEAP_OK : np_model_read_tokenizer(m);
        if (status == NEAP_EUNSUPPORTED || status == NEAP_EFORMAT) {
            neap_context_clear_error(ctx);
            status = NEAP_OK;
        }
    }
    if (status != NEAP_OK) {
        neap_model_free(*out);
        *out = NULL;
    }
    return status;
}

neap_status neap_model_inspect(neap_context *ctx, const char *path, neap_model **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, path && out, model_inspect(ctx, path, out));
}

void neap_model_free(neap_model *m)
{
    if (!m)
        return;
    if (m->weights) {
        for (uint32_t i = 0; i < m->gguf->n_tensors; i++)
            neap_release(m->weights[i]);
        np_free(m->ctx, NEAP_MEM_HOST, m->weights, m->gguf->n_tensors * sizeof *m->weights);
    }
    neap_release(m->rope_divisors);
    np_free_pages(m->ctx, NEAP_MEM_WEIGHTS, m->pack, m->pack_bytes);
    neap_tokenizer_free(m->tokenizer);
    np_gguf_free(m->gguf);
    np_file_map_close(&m->map);
    np_free(m->ctx, NEAP_MEM_HOST, m, sizeof *m);
}

static void copy_text(const np_gguf *g, const char *key, char *out, size_t room)
{
    const np_gguf_value *v = np_gguf_find(g, key);
    if (v && v->type == NP_GGUF_STRING && !v->is_array)
        snprintf(out, room, "%.*s", (int)(v->data.n < room - 1 ? v->data.n : room - 1),
                 (const char *)v->data.p);
}

/* A number that a file of any architecture may have; 0 if it has none, or not as one number. */
static double of_architecture(const neap_model *m, const neap_model_info *i, const char *name)
{
    char key[96];
    double number = 0;
    snprintf(key, sizeof key, "%s.%s", i->architecture, name);
    const np_gguf_value *v = np_gguf_find(m->gguf, key);
    return v && np_gguf_number(v, &number) && fabs(number) < 1e15 ? number : 0;
}

/* The sizes as the file's keys say them, when no architecture has read them. */
static void describe_unread(const neap_model *m, neap_model_info *i)
{
    const np_gguf_value *tokens = np_gguf_find(m->gguf, "tokenizer.ggml.tokens");
    i->context_length = (int64_t)of_architecture(m, i, "context_length");
    i->layers = (int64_t)of_architecture(m, i, "block_count");
    i->hidden = (int64_t)of_architecture(m, i, "embedding_length");
    i->ffn = (int64_t)of_architecture(m, i, "feed_forward_length");
    i->heads = (int64_t)of_architecture(m, i, "attention.head_count");
    i->kv_heads = (int64_t)of_architecture(m, i, "attention.head_count_kv");
    i->head_dim = (int64_t)of_architecture(m, i, "attention.key_length");
    if (!i->kv_heads)
        i->kv_heads = i->heads;
    if (!i->head_dim && i->heads > 0)
        i->head_dim = i->hidden / i->heads;
    i->rope_base = (float)of_architecture(m, i, "rope.freq_base");
    i->norm_eps = (float)of_architecture(m, i, "attention.layer_norm_rms_epsilon");
    i->vocabulary = tokens && tokens->is_array ? (int64_t)tokens->count : 0;
    i->tied_output = i->tied_output && np_model_has(m, "token_embd.weight");
}

void neap_model_describe(const neap_model *m, neap_model_info *info)
{
    const np_sizes *s = &m->sizes;
    neap_model_info i = {.context_length = s->context_length,
                         .layers = s->layers,
                         .hidden = s->hidden,
                         .ffn = s->ffn,
                         .heads = s->heads,
                         .kv_heads = s->kv_heads,
                         .head_dim = s->head_dim,
                         .vocabulary = s->vocabulary,
                         .rope_base = s->rope_base,
                         .norm_eps = s->norm_eps,
                         .file_bytes = m->map.bytes,
                         .tensors = m->gguf->n_tensors,
                         .tied_output = !np_model_has(m, "output.weight")};
    copy_text(m->gguf, "general.architecture", i.architecture, sizeof i.architecture);
    copy_text(m->gguf, "general.name", i.name, sizeof i.name);
    snprintf(i.refusal, sizeof i.refusal, "%s", m->refusal);
    if (m->refusal[0])
        describe_unread(m, &i);
    for (uint32_t t = 0; t < m->gguf->n_tensors; t++) {
        const np_gguf_tensor *g = &m->gguf->tensors[t];
        i.parameters += (uint64_t)np_size(g->n_dims, g->shape);
        i.tensor_bytes += g->bytes;
    }
    np_tell(info, &i, sizeof i);
}

static neap_status model_tensor(const neap_model *m, int64_t index, neap_tensor_info *info)
{
    if (index < 0 || index >= m->gguf->n_tensors)
        return np_fail(m->ctx, NEAP_EINVAL, "tensor %lld, the file has %u", (long long)index,
                       m->gguf->n_tensors);
    const np_gguf_tensor *g = &m->gguf->tensors[index];
    neap_tensor_info i = {.name = (const char *)g->name.p,
                          .name_length = g->name.n,
                          .dtype = g->dtype,
                          .rank = g->n_dims,
                          .bytes = g->bytes};
    memcpy(i.shape, g->shape, sizeof i.shape);
    const char *type = neap_dtype_describe(g->dtype)->name;
    if (!type)
        type = np_gguf_tensor_type(g->type);
    if (type)
        snprintf(i.type, sizeof i.type, "%s", type);
    else
        snprintf(i.type, sizeof i.type, "type %u", g->type);
    for (char *c = i.type; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 'a' - 'A' : *c);
    np_tell(info, &i, sizeof i);
    return NEAP_OK;
}

neap_status neap_model_tensor(const neap_model *m, int64_t index, neap_tensor_info *info)
{
    return NP_CALL_ON(m, info, model_tensor(m, index, info));
}

const neap_tokenizer *neap_model_tokenizer(const neap_model *m)
{
    return m->tokenizer;
}

const char *neap_model_chat_template(const neap_model *m, size_t *length)
{
    const np_gguf_value *v = np_gguf_find(m->gguf, "tokenizer.chat_template");
    bool text = v && v->type == NP_GGUF_STRING && !v->is_array;
    *length = text ? v->data.n : 0;
    return text ? (const char *)v->data.p : NULL;
}
