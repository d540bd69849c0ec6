/* vocabulary.c - the tokenizer from the metadata of a GGUF file, or from a file by its kind. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/shown.h"
#include "formats/tokenizer_json.h"
#include "models/known.h"
#include "models/model.h"
#include "text/tokenizer.h"

/* Arrays of the file as the tokenizer wants them; they may go once it is made. */
typedef struct tables {
    np_bytes *pieces, *merges;
    int32_t *types;
    float *scores;
    uint64_t n_pieces, n_merges, n_types, n_scores;
} tables;

#define APPLIED  NP_KEY_APPLIED
#define HARMLESS NP_KEY_HARMLESS
#define REFUSED  NP_KEY_REFUSED
static const np_key_row keys[] = {
#define NP_KEY(name, rule, a, b, why) {name, rule, a, b, why},
#include "models/vocabulary_names.def"
#undef NP_KEY
};

/* Further templates have keys of their own, by their names. */
static neap_status check_keys(const np_gguf *g)
{
    static const char prefix[] = "tokenizer.", named[] = "tokenizer.chat_template.";
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; status == NEAP_OK && i < g->n_values; i++) {
        const np_gguf_value *v = g->values + i;
        if (v->key.n >= sizeof prefix - 1 && memcmp(v->key.p, prefix, sizeof prefix - 1) == 0 &&
            (v->key.n < sizeof named - 1 || memcmp(v->key.p, named, sizeof named - 1) != 0))
            status = np_known_check_key(
                g, np_known_row(keys, sizeof keys / sizeof *keys, v->key), v);
    }
    return status;
}

static neap_status read_strings(const np_gguf *g, const char *key, np_gguf_need need, np_bytes **out,
                                uint64_t *count)
{
    const np_gguf_value *a = NULL;
    neap_status status = np_gguf_array(g, key, NP_GGUF_STRING, need, &a);
    if (status != NEAP_OK || !a)
        return status;
    *out = np_alloc(g->ctx, NEAP_MEM_HOST, a->count * sizeof **out);
    if (!*out)
        return NEAP_ENOMEM;
    *count = a->count;
    np_gguf_strings it = np_gguf_strings_of(a);
    for (uint64_t i = 0; i < a->count && np_gguf_strings_next(&it, &(*out)[i]); i++) {
    }
    return NEAP_OK;
}

static neap_status read_types(const np_gguf *g, tables *t)
{
    const np_gguf_value *a = NULL;
    neap_status status =
        np_gguf_array(g, "tokenizer.ggml.token_type", NP_GGUF_I32, NP_GGUF_OPTIONAL, &a);
    if (status != NEAP_OK || !a)
        return status;
    t->types = np_alloc(g->ctx, NEAP_MEM_HOST, a->count * sizeof *t->types);
    if (!t->types)
        return NEAP_ENOMEM;
    t->n_types = a->count;
    for (uint64_t i = 0; i < a->count; i++)
        t->types[i] = (int32_t)np_gguf_element_i64(a, i);
    return NEAP_OK;
}

/* Floats, or integers. */
static neap_status read_scores(const np_gguf *g, tables *t)
{
    static const char key[] = "tokenizer.ggml.scores";
    const np_gguf_value *a = np_gguf_find(g, key);
    bool integers = a && a->is_array && a->type == NP_GGUF_I32;
    neap_status status =
        np_gguf_array(g, key, integers ? NP_GGUF_I32 : NP_GGUF_F32, NP_GGUF_OPTIONAL, &a);
    if (status != NEAP_OK || !a)
        return status;
    t->scores = np_alloc(g->ctx, NEAP_MEM_HOST, a->count * sizeof *t->scores);
    if (!t->scores)
        return NEAP_ENOMEM;
    t->n_scores = a->count;
    for (uint64_t i = 0; i < a->count; i++)
        t->scores[i] = integers ? (float)np_gguf_element_i64(a, i) : np_gguf_element_f32(a, i);
    return NEAP_OK;
}

static neap_status read_id(const np_gguf *g, const char *key, int64_t *out)
{
    uint32_t v = UINT32_MAX;
    neap_status status = np_gguf_u32(g, key, NP_GGUF_OPTIONAL, &v);
    *out = v == UINT32_MAX ? -1 : (int64_t)v;
    return status;
}

static neap_status read_flag(const np_gguf *g, const char *key, int *out)
{
    bool v = false;
    *out = -1;
    if (!np_gguf_find(g, key))
        return NEAP_OK;
    neap_status status = np_gguf_bool(g, key, NP_GGUF_OPTIONAL, &v);
    *out = v;
    return status;
}

/* Those of sentencepiece, where the file does not say: converters leave them out. */
static void default_ids(const np_gguf *g, np_vocab *v)
{
    if (v->model.n != 5 || memcmp(v->model.p, "llama", 5) != 0)
        return;
    if (!np_gguf_find(g, "tokenizer.ggml.bos_token_id") && v->n_tokens > 1)
        v->bos = 1;
    if (!np_gguf_find(g, "tokenizer.ggml.eos_token_id") && v->n_tokens > 2)
        v->eos = 2;
    if (!np_gguf_find(g, "tokenizer.ggml.unknown_token_id"))
        v->unk = 0;
}

static neap_status make(const np_gguf *g, tables *t, neap_tokenizer **out)
{
    np_vocab v = NP_VOCAB_INIT;
    v.pieces = t->pieces;
    v.n_tokens = t->n_pieces;
    v.types = t->types;
    v.n_types = t->n_types;
    v.merges = t->merges;
    v.n_merges = t->n_merges;
    v.scores = t->scores;
    v.n_scores = t->n_scores;
    neap_status s = np_gguf_string(g, "tokenizer.ggml.model", NP_GGUF_REQUIRED, &v.model);
    if (s == NEAP_OK)
        s = np_gguf_string(g, "tokenizer.ggml.pre", NP_GGUF_OPTIONAL, &v.pre);
    const struct {
        const char *key;
        int64_t *out;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id",     &v.bos    },
        {"tokenizer.ggml.eos_token_id",     &v.eos    },
        {"tokenizer.ggml.eot_token_id",     &v.eot    },
        {"tokenizer.ggml.eom_token_id",     &v.eom    },
        {"tokenizer.ggml.unknown_token_id", &v.unk    },
        {"tokenizer.ggml.fim_pad_token_id", &v.fim_pad},
        {"tokenizer.ggml.fim_rep_token_id", &v.fim_rep},
        {"tokenizer.ggml.fim_sep_token_id", &v.fim_sep}
    };
    const struct {
        const char *key;
        int *out;
    } flags[] = {
        {"tokenizer.ggml.add_bos_token",    &v.add_bos  },
        {"tokenizer.ggml.add_eos_token",    &v.add_eos  },
        {"tokenizer.ggml.add_space_prefix", &v.add_space}
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids && s == NEAP_OK; i++)
        s = read_id(g, ids[i].key, ids[i].out);
    for (size_t i = 0; i < sizeof flags / sizeof *flags && s == NEAP_OK; i++)
        s = read_flag(g, flags[i].key, flags[i].out);
    if (s == NEAP_OK)
        default_ids(g, &v);
    return s == NEAP_OK ? np_tokenizer_new(g->ctx, &v, out) : s;
}

/* tokenizer.chat_template, and tokenizer.chat_template.NAME. */
static neap_status read_templates(const np_gguf *g, neap_tokenizer *t)
{
    static const char key[] = "tokenizer.chat_template";
    const size_t n = sizeof key - 1;
    neap_status s = NEAP_OK;
    for (uint32_t i = 0; i < g->n_values && s == NEAP_OK; i++) {
        const np_gguf_value *v = &g->values[i];
        np_bytes name = v->key;
        if (name.n < n || memcmp(name.p, key, n) != 0 || (name.n > n && name.p[n] != '.'))
            continue;
        if (v->type != NP_GGUF_STRING || v->is_array)
            return np_fail(g->ctx, NEAP_EFORMAT, "%s: expected one string", np_show(name).text);
        name.n -= name.n > n ? n + 1 : n;
        name.p += v->key.n > n ? n + 1 : n;
        if (v->data.n > 0)
            s = np_tokenizer_add_template(t, name, v->data, false);
    }
    return s;
}

static neap_status read_gguf(const np_gguf *g, neap_tokenizer **out)
{
    tables t = {0};
    neap_status s = check_keys(g);
    if (s != NEAP_OK)
        return s;
    s = read_strings(g, "tokenizer.ggml.tokens", NP_GGUF_REQUIRED, &t.pieces, &t.n_pieces);
    if (s == NEAP_OK)
        s = read_strings(g, "tokenizer.ggml.merges", NP_GGUF_OPTIONAL, &t.merges, &t.n_merges);
    if (s == NEAP_OK)
        s = read_types(g, &t);
    if (s == NEAP_OK)
        s = read_scores(g, &t);
    if (s == NEAP_OK)
        s = make(g, &t, out);
    if (s == NEAP_OK && (s = read_templates(g, *out)) != NEAP_OK) {
        neap_tokenizer_free(*out);
        *out = NULL;
    }
    np_free(g->ctx, NEAP_MEM_HOST, t.pieces, t.n_pieces * sizeof *t.pieces);
    np_free(g->ctx, NEAP_MEM_HOST, t.merges, t.n_merges * sizeof *t.merges);
    np_free(g->ctx, NEAP_MEM_HOST, t.types, t.n_types * sizeof *t.types);
    np_free(g->ctx, NEAP_MEM_HOST, t.scores, t.n_scores * sizeof *t.scores);
    if (s != NEAP_OK)
        np_fail_prefix(g->ctx, "%s", g->name);
    return s;
}

neap_status np_model_read_tokenizer(neap_model *m)
{
    neap_status status = read_gguf(m->gguf, &m->tokenizer);
    if (status == NEAP_OK && neap_tokenizer_size(m->tokenizer) != m->sizes.vocabulary)
        status = np_fail(m->ctx, NEAP_EFORMAT, "%s: the tokenizer has %d tokens, the embedding %lld "
                         "rows", m->gguf->name, neap_tokenizer_size(m->tokenizer),
                         (long long)m->sizes.vocabulary);
    return status;
}

/* ---- from a file ---------------------------------------------------------------------------- */

enum { PATH_BYTES = 4096 };

/* The pieces lie in the map, which goes with the tokenizer. */
static neap_status open_gguf(neap_context *ctx, const char *path, np_file_map *map,
                             neap_tokenizer **out)
{
    np_gguf *g = NULL;
    neap_status status = np_gguf_parse(ctx, map->data, map->bytes, path, &g);
    if (status == NEAP_OK)
        status = read_gguf(g, out);
    np_gguf_free(g);
    if (status == NEAP_OK) {
        np_tokenizer_own_map(*out, *map);
        *map = (np_file_map){0};
    }
    return status;
}

/* The path of a file in the folder of `path`; false: there is none. */
static bool path_beside(const char *path, const char *name, char out[PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) + 1 : 0;
    if ((size_t)folder + strlen(name) >= PATH_BYTES)
        return false;
    snprintf(out, PATH_BYTES, "%.*s%s", folder, path, name);
    return access(out, F_OK) == 0;
}

/* tokenizer_config.json in the folder of `path`, if there is one. */
static neap_status read_config(neap_context *ctx, const char *path, np_json_tree *out)
{
    char config[PATH_BYTES];
    if (!path_beside(path, "tokenizer_config.json", config))
        return NEAP_OK;
    np_file_map map;
    neap_status status = np_file_map_open(ctx, config, &map);
    if (status != NEAP_OK)
        return status;
    status = np_tokenizer_config((np_bytes){map.data, map.bytes}, out);
    np_file_map_close(&map);
    if (status != NEAP_OK && status != NEAP_ENOMEM)
        np_fail_prefix(ctx, "%s", config);
    return status;
}

/* A string, or an array of objects with a name ("default": the file's own) and a template. */
static neap_status add_templates(neap_context *ctx, const np_json_tree *config, neap_tokenizer *t)
{
    const np_json_node *v = config->count ? np_json_get(config, config->nodes, "chat_template") : NULL;
    if (!v)
        return NEAP_OK;
    if (v->kind == NP_JSON_STRING)
        return np_tokenizer_add_template(t, (np_bytes){0}, v->text, true);
    neap_status status = NEAP_OK;
    const np_json_node *row = v->kind == NP_JSON_ARRAY ? np_json_child(config, v) : NULL;
    for (; row && status == NEAP_OK; row = np_json_next(config, row)) {
        const np_json_node *name = np_json_get(config, row, "name"), *text = np_json_get(config, row, "template");
        if (!name || name->kind != NP_JSON_STRING || !text || text->kind != NP_JSON_STRING)
            return np_fail(ctx, NEAP_EFORMAT, "chat_template: expected names with templates");
        status = np_tokenizer_add_template(t, np_json_is(name, "default") ? (np_bytes){0} : name->text,
                                           text->text, true);
    }
    return v->kind == NP_JSON_ARRAY ? status
                                    : np_fail(ctx, NEAP_EFORMAT, "chat_template: expected a string or an array");
}

/* chat_template.jinja in the folder of `path` goes before what tokenizer_config.json has. */
static neap_status add_template_file(neap_context *ctx, const char *path, neap_tokenizer *t)
{
    char beside[PATH_BYTES];
    np_file_map map;
    if (!path_beside(path, "chat_template.jinja", beside))
        return NEAP_OK;
    neap_status status = np_file_map_open(ctx, beside, &map);
    if (status != NEAP_OK)
        return status;
    status = np_tokenizer_add_template(t, (np_bytes){0}, (np_bytes){map.data, map.bytes}, true);
    np_file_map_close(&map);
    return status;
}

static neap_status open_json(neap_context *ctx, const char *path, const np_file_map *map,
                             neap_tokenizer **out)
{
    np_json_tree config = {.ctx = ctx};
    neap_status status = read_config(ctx, path, &config);
    if (status == NEAP_OK) {
        status = np_tokenizer_json(ctx, (np_bytes){map->data, map->bytes}, &config, out);
        if (status == NEAP_OK) {
            status = add_templates(ctx, &config, *out);
            status = status == NEAP_OK ? add_template_file(ctx, path, *out) : status;
            if (status != NEAP_OK) {
                neap_tokenizer_free(*out);
                *out = NULL;
            }
        }
        if (status != NEAP_OK && status != NEAP_ENOMEM)
            np_fail_prefix(ctx, "%s", path);
    }
    np_json_tree_free(&config);
    return status;
}

static neap_status tokenizer_open(neap_context *ctx, const char *path, neap_tokenizer **out)
{
    *out = NULL;
    if (!path)
        return np_fail(ctx, NEAP_EINVAL, "tokenizer: no path");
    np_file_map map;
    neap_status status = np_file_map_open(ctx, path, &map);
    if (status != NEAP_OK)
        return status;
    if (map.bytes >= 4 && memcmp(map.data, "GGUF", 4) == 0)
        status = open_gguf(ctx, path, &map, out);
    else
        status = open_json(ctx, path, &map, out);
    np_file_map_close(&map);
    return status;
}

neap_status neap_tokenizer_open(neap_context *ctx, const char *path, neap_tokenizer **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, path && out, tokenizer_open(ctx, path, out));
}
