/* vocabulary.c - the tokenizer from the metadata of a GGUF file. */
#include "models/model.h"
#include "text/tokenizer.h"

/* Arrays of the file as the tokenizer wants them; they may go once it is made. */
typedef struct tables {
    np_bytes *pieces, *merges;
    int32_t *types;
    uint64_t n_pieces, n_merges, n_types;
} tables;

static neap_status read_strings(neap_model *m, const char *key, np_gguf_need need, np_bytes **out,
                                uint64_t *count)
{
    const np_gguf_value *a = NULL;
    neap_status status = np_gguf_array(m->gguf, key, NP_GGUF_STRING, need, &a);
    if (status != NEAP_OK || !a)
        return status;
    *out = np_alloc(m->ctx, NEAP_MEM_HOST, a->count * sizeof **out);
    if (!*out)
        return NEAP_ENOMEM;
    *count = a->count;
    np_gguf_strings it = np_gguf_strings_of(a);
    for (uint64_t i = 0; i < a->count && np_gguf_strings_next(&it, &(*out)[i]); i++) {
    }
    return NEAP_OK;
}

static neap_status read_types(neap_model *m, tables *t)
{
    const np_gguf_value *a = NULL;
    neap_status status =
        np_gguf_array(m->gguf, "tokenizer.ggml.token_type", NP_GGUF_I32, NP_GGUF_OPTIONAL, &a);
    if (status != NEAP_OK || !a)
        return status;
    t->types = np_alloc(m->ctx, NEAP_MEM_HOST, a->count * sizeof *t->types);
    if (!t->types)
        return NEAP_ENOMEM;
    t->n_types = a->count;
    for (uint64_t i = 0; i < a->count; i++)
        t->types[i] = (int32_t)np_gguf_element_i64(a, i);
    return NEAP_OK;
}

static neap_status read_id(neap_model *m, const char *key, int64_t *out)
{
    uint32_t v = UINT32_MAX;
    neap_status status = np_gguf_u32(m->gguf, key, NP_GGUF_OPTIONAL, &v);
    *out = v == UINT32_MAX ? -1 : (int64_t)v;
    return status;
}

static neap_status read_flag(neap_model *m, const char *key, int *out)
{
    bool v = false;
    *out = -1;
    if (!np_gguf_find(m->gguf, key))
        return NEAP_OK;
    neap_status status = np_gguf_bool(m->gguf, key, NP_GGUF_OPTIONAL, &v);
    *out = v;
    return status;
}

static neap_status make(neap_model *m, tables *t)
{
    np_vocab v = NP_VOCAB_INIT;
    v.pieces = t->pieces;
    v.n_tokens = t->n_pieces;
    v.types = t->types;
    v.n_types = t->n_types;
    v.merges = t->merges;
    v.n_merges = t->n_merges;
    neap_status s = np_gguf_string(m->gguf, "tokenizer.ggml.model", NP_GGUF_REQUIRED, &v.model);
    if (s == NEAP_OK)
        s = np_gguf_string(m->gguf, "tokenizer.ggml.pre", NP_GGUF_OPTIONAL, &v.pre);
    if (s == NEAP_OK)
        s = read_id(m, "tokenizer.ggml.bos_token_id", &v.bos);
    if (s == NEAP_OK)
        s = read_id(m, "tokenizer.ggml.eos_token_id", &v.eos);
    if (s == NEAP_OK)
        s = read_id(m, "tokenizer.ggml.eot_token_id", &v.eot);
    if (s == NEAP_OK)
        s = read_id(m, "tokenizer.ggml.unknown_token_id", &v.unk);
    if (s == NEAP_OK)
        s = read_flag(m, "tokenizer.ggml.add_bos_token", &v.add_bos);
    if (s == NEAP_OK)
        s = read_flag(m, "tokenizer.ggml.add_eos_token", &v.add_eos);
    if (s == NEAP_OK && (int64_t)v.n_tokens != m->sizes.vocabulary)
        s = np_fail(m->ctx, NEAP_EFORMAT, "the tokenizer has %llu tokens, the embedding %lld rows",
                    (unsigned long long)v.n_tokens, (long long)m->sizes.vocabulary);
    return s == NEAP_OK ? np_tokenizer_new(m->ctx, &v, &m->tokenizer) : s;
}

neap_status np_model_read_tokenizer(neap_model *m)
{
    tables t = {0};
    neap_status s =
        read_strings(m, "tokenizer.ggml.tokens", NP_GGUF_REQUIRED, &t.pieces, &t.n_pieces);
    if (s == NEAP_OK)
        s = read_strings(m, "tokenizer.ggml.merges", NP_GGUF_OPTIONAL, &t.merges, &t.n_merges);
    if (s == NEAP_OK)
        s = read_types(m, &t);
    if (s == NEAP_OK)
        s = make(m, &t);
    np_free(m->ctx, NEAP_MEM_HOST, t.pieces, t.n_pieces * sizeof *t.pieces);
    np_free(m->ctx, NEAP_MEM_HOST, t.merges, t.n_merges * sizeof *t.merges);
    np_free(m->ctx, NEAP_MEM_HOST, t.types, t.n_types * sizeof *t.types);
    if (s != NEAP_OK)
        np_fail_prefix(m->ctx, "%s", m->gguf->name);
    return s;
}
