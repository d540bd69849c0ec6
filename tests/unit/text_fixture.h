/* text_fixture.h - a vocabulary with expected ids, from JSON written by tools/make_text_goldens.py.
 *
 * The pieces are copied into one block, as they lie in a model file. */
#ifndef TEXT_FIXTURE_H
#define TEXT_FIXTURE_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

typedef struct text_fixture {
    json_t *root;
    char *block;
    np_bytes *pieces, *merges;
    int32_t *types;
    np_vocab vocab;
} text_fixture;

static inline np_bytes text_fixture_copy(char **to, const json_t *string)
{
    np_bytes b = {(const uint8_t *)*to, json_string_length(string)};
    memcpy(*to, json_string_value(string), b.n);
    *to += b.n;
    return b;
}

static inline int64_t text_fixture_int(const json_t *root, const char *key)
{
    json_t *v = json_object_get(root, key);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

static inline bool text_fixture_load(text_fixture *f, const char *path)
{
    memset(f, 0, sizeof *f);
    f->root = json_load_file(path, JSON_ALLOW_NUL, NULL);
    if (!f->root)
        return false;
    json_t *tokens = json_object_get(f->root, "tokens"),
           *merges = json_object_get(f->root, "merges");
    json_t *types = json_object_get(f->root, "types"), *s;
    size_t bytes = 256, i;
    json_array_foreach(tokens, i, s) bytes += json_string_length(s);
    json_array_foreach(merges, i, s) bytes += json_string_length(s);
    char *to = f->block = malloc(bytes);
    f->vocab = (np_vocab)NP_VOCAB_INIT;
    f->vocab.n_tokens = json_array_size(tokens);
    f->vocab.n_merges = json_array_size(merges);
    f->vocab.n_types = json_array_size(types);
    f->vocab.pieces = f->pieces = malloc((f->vocab.n_tokens + 1) * sizeof *f->pieces);
    f->vocab.merges = f->merges = malloc((f->vocab.n_merges + 1) * sizeof *f->merges);
    f->vocab.types = f->types = malloc((f->vocab.n_types + 1) * sizeof *f->types);
    json_array_foreach(tokens, i, s) f->pieces[i] = text_fixture_copy(&to, s);
    json_array_foreach(merges, i, s) f->merges[i] = text_fixture_copy(&to, s);
    json_array_foreach(types, i, s) f->types[i] = (int32_t)json_integer_value(s);
    f->vocab.model = (np_bytes){(const uint8_t *)"gpt2", 4};
    f->vocab.pre = text_fixture_copy(&to, json_object_get(f->root, "pre"));
    f->vocab.bos = text_fixture_int(f->root, "bos");
    f->vocab.eos = text_fixture_int(f->root, "eos");
    f->vocab.unk = text_fixture_int(f->root, "unk");
    f->vocab.add_bos = (int)text_fixture_int(f->root, "add_bos");
    return true;
}

static inline void text_fixture_free(text_fixture *f)
{
    json_decref(f->root);
    free(f->block);
    free(f->pieces);
    free(f->merges);
    free(f->types);
}

#endif
