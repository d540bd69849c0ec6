/* tokenizer_json.c - the two walks over a tokenizer.json, and the vocabulary between them. */
#include "formats/tokenizer_json.h"

typedef np_json_node node;

/* Ids may leave out this many, so that one huge id takes no memory. */
enum { HOLES_LIMIT = 1 << 16 };

typedef struct entry {
    uint32_t offset, length; /* of its text: in the file, or in `unescaped` */
    int32_t id;
    uint8_t type;
    bool in_file;
    uint16_t flags;
} entry;

typedef enum part { OTHER, SETTINGS, ADDED, MODEL, VOCAB, MERGES } part;

typedef struct reader {
    neap_context *ctx;
    np_bytes text;
    part section, part; /* where the walk is: at depth 1, and inside the model */
    np_json_tree tree;  /* the file without vocab, merges and added tokens */
    np_json_tree token; /* the added token being read */
    neap_text unescaped;
    entry *entries;
    size_t n_entries, entry_capacity;
    uint64_t text_bytes; /* of all entries */
    entry named;         /* the text of the next vocab entry */
    bool vocab_is_list;
    uint64_t n_merges, merges_at; /* the array's place; 0: there is none */
    neap_tokenizer *tokenizer;    /* in the second walk */
    neap_text left;               /* of a merge that is a pair */
    int n_pair;
} reader;

/* ---- entries -------------------------------------------------------------------------------- */

static bool note_text(reader *r, np_bytes text, bool lasting, entry *out)
{
    *out = (entry){.length = (uint32_t)text.n, .in_file = lasting, .type = NP_TOKEN_NORMAL};
    if (lasting) {
        out->offset = (uint32_t)(text.p - r->text.p);
        return true;
    }
    out->offset = (uint32_t)r->unescaped.length;
    return np_text_append(r->ctx, &r->unescaped, text.p, text.n);
}

static np_bytes entry_text(const reader *r, const entry *e)
{
    const uint8_t *from = e->in_file ? r->text.p : (const uint8_t *)r->unescaped.data;
    return (np_bytes){e->length ? from + e->offset : (const uint8_t *)"", e->length};
}

static int shown(np_bytes text)
{
    return text.n < 64 ? (int)text.n : 64;
}

static neap_status add_entry(reader *r, entry e, const np_bytes *number)
{
    int64_t id;
    if (!number || !np_json_integer(*number, &id))
        id = -1;
    np_bytes text = entry_text(r, &e);
    if (id < 0 || id >= NP_SLOTS_LIMIT)
        return np_fail(r->ctx, NEAP_EFORMAT, "token \"%.*s\": its id is no integer from 0 to %d",
                       shown(text), (const char *)text.p, NP_SLOTS_LIMIT - 1);
    if (!np_grow(r->ctx, NEAP_MEM_HOST, &r->entries, &r->entry_capacity, r->n_entries + 1,
                 sizeof *r->entries))
        return NEAP_ENOMEM;
    e.id = (int32_t)id;
    r->text_bytes += e.length;
    r->entries[r->n_entries++] = e;
    return NEAP_OK;
}

static bool is_set(const reader *r, const char *key, bool absent)
{
    const node *v = np_json_get(&r->token, r->token.nodes, key);
    return v && v->kind == NP_JSON_BOOL ? v->truth : absent;
}

static neap_status take_added(reader *r)
{
    const node *id = np_json_get(&r->token, r->token.nodes, "id");
    const node *content = np_json_get(&r->token, r->token.nodes, "content");
    if (!content || content->kind != NP_JSON_STRING || content->text.n == 0)
        return np_fail(r->ctx, NEAP_EFORMAT, "added_tokens: a token without content");
    entry e;
    if (!note_text(r, content->text, !content->own_text, &e))
        return NEAP_ENOMEM;
    bool special = is_set(r, "special", false);
    e.type = special ? NP_TOKEN_CONTROL : NP_TOKEN_USER_DEFINED;
    e.flags = (uint16_t)((is_set(r, "normalized", !special) ? NP_TOKEN_LATE : 0) |
                         (is_set(r, "lstrip", false) ? NP_TOKEN_LSTRIP : 0) |
                         (is_set(r, "rstrip", false) ? NP_TOKEN_RSTRIP : 0) |
                         (is_set(r, "single_word", false) ? NP_TOKEN_WORD : 0));
    return add_entry(r, e, id && id->kind == NP_JSON_NUMBER ? &id->text : NULL);
}

static void free_entries(reader *r)
{
    np_free(r->ctx, NEAP_MEM_HOST, r->entries, r->entry_capacity * sizeof *r->entries);
    r->entries = NULL;
    r->n_entries = r->entry_capacity = 0;
}

/* ---- the first walk ------------------------------------------------------------------------- */

static neap_status expected(reader *r, const char *where, const char *what)
{
    return np_fail(r->ctx, NEAP_EFORMAT, "%s: expected %s", where, what);
}

static neap_status visit_added(reader *r, const np_json_event *e)
{
    if (e->depth == 1)
        return e->kind == NP_JSON_ARRAY || e->kind == NP_JSON_END || e->kind == NP_JSON_NULL
                   ? NEAP_OK
                   : expected(r, "added_tokens", "an array");
    if (e->depth == 2 && e->kind != NP_JSON_OBJECT && e->kind != NP_JSON_END)
        return expected(r, "added_tokens", "objects");
    neap_status status = np_json_tree_add(&r->token, e);
    if (status == NEAP_OK && e->depth == 2 && e->kind == NP_JSON_END) {
        status = take_added(r);
        np_json_tree_clear(&r->token);
    }
    return status;
}

static neap_status visit_vocab(reader *r, const np_json_event *e)
{
    if (e->depth == 2) {
        r->vocab_is_list = r->vocab_is_list || e->kind == NP_JSON_ARRAY;
        return e->kind == NP_JSON_OBJECT || e->kind == NP_JSON_ARRAY || e->kind == NP_JSON_END
                   ? NEAP_OK
                   : expected(r, "vocab", "an object");
    }
    if (r->vocab_is_list) /* refused by the model's type, when that is known */
        return NEAP_OK;
    if (e->kind == NP_JSON_KEY)
        return note_text(r, e->text, e->lasting, &r->named) ? NEAP_OK : NEAP_ENOMEM;
    return add_entry(r, r->named, e->kind == NP_JSON_NUMBER ? &e->text : NULL);
}

static neap_status visit_merges(reader *r, const np_json_event *e)
{
    if (e->depth == 2 && e->kind == NP_JSON_ARRAY) {
        r->merges_at = e->end - 1;
        r->n_merges = 0;
        return NEAP_OK;
    }
    if (e->depth == 2)
        return e->kind == NP_JSON_END ? NEAP_OK : expected(r, "merges", "an array");
    r->n_merges += e->depth == 3 && e->kind != NP_JSON_END;
    return NEAP_OK;
}

static neap_status visit_model(reader *r, const np_json_event *e)
{
    if (e->depth == 1 && e->kind != NP_JSON_OBJECT && e->kind != NP_JSON_END)
        return expected(r, "model", "an object");
    if (e->depth == 2 && e->kind == NP_JSON_KEY) {
        const node key = {.kind = NP_JSON_STRING, .text = e->text};
        r->part = np_json_is(&key, "vocab") ? VOCAB : np_json_is(&key, "merges") ? MERGES : MODEL;
    }
    if (e->depth == 1 || r->part == MODEL)
        return np_json_tree_add(&r->tree, e);
    if (e->depth == 2 && e->kind == NP_JSON_KEY)
        return NEAP_OK;
    return r->part == VOCAB ? visit_vocab(r, e) : visit_merges(r, e);
}

static part section_of(np_bytes key)
{
    static const char *const settings[] = {"normalizer",     "pre_tokenizer", "decoder",
                                           "post_processor", "truncation",    "padding"};
    const node name = {.kind = NP_JSON_STRING, .text = key};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (np_json_is(&name, settings[i]))
            return SETTINGS;
    return np_json_is(&name, "added_tokens") ? ADDED : np_json_is(&name, "model") ? MODEL : OTHER;
}

static neap_status visit(void *user, const np_json_event *e)
{
    reader *r = user;
    if (e->depth == 0) {
        if (e->kind != NP_JSON_OBJECT && e->kind != NP_JSON_END)
            return expected(r, "tokenizer", "an object");
        return np_json_tree_add(&r->tree, e);
    }
    if (e->depth == 1 && e->kind == NP_JSON_KEY) {
        r->section = section_of(e->text);
        r->part = MODEL;
        bool kept = r->section == SETTINGS || r->section == MODEL;
        return kept ? np_json_tree_add(&r->tree, e) : NEAP_OK;
    }
    switch (r->section) {
    case SETTINGS: return np_json_tree_add(&r->tree, e);
    case ADDED: return visit_added(r, e);
    case MODEL: return visit_model(r, e);
    default: return NEAP_OK;
    }
}

/* ---- the second walk ------------------------------------------------------------------------ */

static neap_status merge_from_text(reader *r, np_bytes text)
{
    const uint8_t *space = text.n ? memchr(text.p, ' ', text.n) : NULL;
    uint64_t n = space ? (uint64_t)(space - text.p) : 0;
    if (!space || n == 0 || n + 1 == text.n || memchr(space + 1, ' ', text.n - n - 1))
        return np_fail(r->ctx, NEAP_EFORMAT,
                       "merge \"%.*s\": expected two pieces and a space between them", shown(text),
                       (const char *)text.p);
    return np_tokenizer_merge(r->tokenizer, (np_bytes){text.p, n},
                              (np_bytes){space + 1, text.n - n - 1});
}

static neap_status merge_from_pair(reader *r, np_bytes text)
{
    if (r->n_pair++ == 0) {
        r->left.length = 0;
        return np_text_append(r->ctx, &r->left, text.p, text.n) ? NEAP_OK : NEAP_ENOMEM;
    }
    if (r->n_pair > 2)
        return NEAP_OK; /* counted at the end */
    return np_tokenizer_merge(
        r->tokenizer, (np_bytes){(const uint8_t *)r->left.data, r->left.length}, text);
}

static neap_status visit_merge(void *user, const np_json_event *e)
{
    reader *r = user;
    if (e->depth == 0)
        return NEAP_OK;
    if (e->depth == 1 && e->kind == NP_JSON_STRING)
        return merge_from_text(r, e->text);
    if (e->depth == 1 && e->kind == NP_JSON_ARRAY) {
        r->n_pair = 0;
        return NEAP_OK;
    }
    if (e->depth == 2 && e->kind == NP_JSON_STRING)
        return merge_from_pair(r, e->text);
    if (e->depth == 1 && e->kind == NP_JSON_END && r->n_pair == 2)
        return NEAP_OK;
    return np_fail(r->ctx, NEAP_EFORMAT, "merges: expected \"a b\" or [\"a\", \"b\"]");
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

typedef struct tables {
    uint8_t *block; /* the texts */
    np_bytes *pieces;
    int32_t *types;
    uint16_t *flags;
    size_t n_tokens;
} tables;

static void free_tables(reader *r, tables *t)
{
    np_free(r->ctx, NEAP_MEM_HOST, t->block, r->text_bytes);
    np_free(r->ctx, NEAP_MEM_HOST, t->pieces, t->n_tokens * sizeof *t->pieces);
    np_free(r->ctx, NEAP_MEM_HOST, t->types, t->n_tokens * sizeof *t->types);
    np_free(r->ctx, NEAP_MEM_HOST, t->flags, t->n_tokens * sizeof *t->flags);
    *t = (tables){0};
}

static neap_status new_tables(reader *r, tables *t)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        n = (size_t)r->entries[i].id >= n ? (size_t)r->entries[i].id + 1 : n;
    if (n > r->n_entries + HOLES_LIMIT)
        return np_fail(r->ctx, NEAP_EFORMAT, "token id %zu in a vocabulary of %zu tokens", n - 1,
                       r->n_entries);
    t->n_tokens = n;
    t->block = np_alloc(r->ctx, NEAP_MEM_HOST, r->text_bytes);
    t->pieces = np_calloc(r->ctx, NEAP_MEM_HOST, n * sizeof *t->pieces);
    t->types = np_calloc(r->ctx, NEAP_MEM_HOST, n * sizeof *t->types);
    t->flags = np_calloc(r->ctx, NEAP_MEM_HOST, n * sizeof *t->flags);
    return t->block && t->pieces && t->types && t->flags ? NEAP_OK : NEAP_ENOMEM;
}

/* An added token may stand in the vocabulary too, with the same id. */
static neap_status fill_tables(reader *r, tables *t)
{
    uint64_t used = 0;
    for (int added = 0; added < 2; added++) {
        for (size_t i = 0; i < r->n_entries; i++) {
            const entry *e = &r->entries[i];
            if ((e->type != NP_TOKEN_NORMAL) != added)
                continue;
            np_bytes text = entry_text(r, e), *piece = &t->pieces[e->id];
            bool same = piece->n == text.n && text.n && memcmp(piece->p, text.p, text.n) == 0;
            if (t->types[e->id] && !(added && same))
                return np_fail(r->ctx, NEAP_EFORMAT, "token id %d is \"%.*s\" and \"%.*s\"", e->id,
                               shown(*piece), (const char *)piece->p, shown(text),
                               (const char *)text.p);
            memcpy(t->block + used, text.p, text.n);
            *piece = (np_bytes){t->block + used, text.n};
            used += text.n;
            t->types[e->id] = e->type;
            t->flags[e->id] = (uint16_t)(e->flags | (added && !same ? NP_TOKEN_OUTSIDE : 0));
        }
    }
    for (size_t id = 0; id < t->n_tokens; id++)
        if (!t->types[id])
            t->types[id] = NP_TOKEN_UNUSED;
    return NEAP_OK;
}

static int64_t find_piece(const tables *t, const node *name)
{
    if (!name || name->kind != NP_JSON_STRING || name->text.n == 0)
        return -1;
    for (size_t id = 0; id < t->n_tokens; id++)
        if (t->pieces[id].n == name->text.n &&
            memcmp(t->pieces[id].p, name->text.p, name->text.n) == 0)
            return (int64_t)id;
    return -1;
}

/* ---- settings of the model ------------------------------------------------------------------ */

static neap_status check_model(reader *r, const node *model)
{
    const node *type = np_json_get(&r->tree, model, "type");
    if (!model)
        return np_fail(r->ctx, NEAP_EFORMAT, "there is no model");
    if ((type && !np_json_is(type, "BPE")) || r->vocab_is_list)
        return np_fail(r->ctx, NEAP_EUNSUPPORTED, "model \"%.*s\": only BPE is supported",
                       type ? shown(type->text) : 1, type ? (const char *)type->text.p : "?");
    const node *dropout = np_json_get(&r->tree, model, "dropout");
    for (uint64_t i = 0; dropout && i < dropout->text.n; i++)
        if (dropout->text.p[i] >= '1' && dropout->text.p[i] <= '9')
            return np_fail(r->ctx, NEAP_EUNSUPPORTED, "model: dropout %.*s is not supported",
                           shown(dropout->text), (const char *)dropout->text.p);
    return r->n_entries ? NEAP_OK : np_fail(r->ctx, NEAP_EFORMAT, "the vocabulary has no tokens");
}

/* It has to be one of the model's own. */
static neap_status find_unknown(reader *r, const node *name, const tables *t, int64_t *out)
{
    *out = find_piece(t, name);
    if (!name || name->kind != NP_JSON_STRING)
        return NEAP_OK;
    return *out >= 0 && !(t->flags[*out] & NP_TOKEN_OUTSIDE)
               ? NEAP_OK
               : np_fail(r->ctx, NEAP_EUNSUPPORTED, "model: unk_token \"%.*s\" is not in the vocabulary",
                         shown(name->text), (const char *)name->text.p);
}

/* The token that tokenizer_config.json names: a string, or an object with its content. */
static int64_t configured(const np_json_tree *config, const tables *t, const char *key)
{
    const node *v = config->count ? np_json_get(config, config->nodes, key) : NULL;
    const node *content = v ? np_json_get(config, v, "content") : NULL;
    return find_piece(t, content ? content : v);
}

static void find_ends(const np_json_tree *config, const tables *t, np_vocab *v)
{
    const np_text_rules *rules = v->rules;
    v->bos = configured(config, t, "bos_token");
    v->eos = configured(config, t, "eos_token");
    if (v->bos < 0 && rules->n_before)
        v->bos = rules->before[0];
    for (int i = 0; i < rules->n_after && v->eos < 0; i++)
        if (np_is_end_name(t->pieces[rules->after[i]]))
            v->eos = rules->after[i];
    for (size_t id = 0; id < t->n_tokens && v->eos < 0; id++)
        if (t->types[id] == NP_TOKEN_CONTROL && np_is_end_name(t->pieces[id]))
            v->eos = (int64_t)id;
}

/* ---- putting it together -------------------------------------------------------------------- */

static neap_status check_affixes(reader *r, const np_text_rules *rules, size_t n_tokens)
{
    if (rules->padding.set && (size_t)rules->padding.pad_id >= n_tokens)
        return np_fail(r->ctx, NEAP_EFORMAT, "padding: token id %d, the vocabulary has %zu tokens",
                       rules->padding.pad_id, n_tokens);
    for (int i = 0; i < rules->n_before + rules->n_after; i++) {
        int32_t id = i < rules->n_before ? rules->before[i] : rules->after[i - rules->n_before];
        if ((size_t)id >= n_tokens)
            return np_fail(r->ctx, NEAP_EFORMAT,
                           "post_processor: token id %d, the vocabulary has %zu tokens", id,
                           n_tokens);
    }
    return NEAP_OK;
}

/* Everything but the merges. */
static neap_status begin(reader *r, const np_json_tree *config, np_text_rules *rules, tables *t)
{
    const node *model = np_json_get(&r->tree, r->tree.nodes, "model");
    neap_status status = new_tables(r, t);
    if (status == NEAP_OK)
        status = fill_tables(r, t);
    if (status == NEAP_OK)
        status = check_affixes(r, rules, t->n_tokens);
    if (status != NEAP_OK)
        return status;
    free_entries(r);
    np_vocab v = NP_VOCAB_INIT;
    v.model = (np_bytes){(const uint8_t *)"gpt2", 4};
    v.n_tokens = v.n_types = t->n_tokens;
    v.pieces = t->pieces;
    v.types = t->types;
    v.flags = t->flags;
    v.n_merges = r->n_merges;
    v.rules = rules;
    status = find_unknown(r, np_json_get(&r->tree, model, "unk_token"), t, &v.unk);
    if (status != NEAP_OK)
        return status;
    find_ends(config, t, &v);
    status = np_tokenizer_begin(r->ctx, &v, &r->tokenizer);
    if (status != NEAP_OK)
        return status;
    np_tokenizer_own(r->tokenizer, t->block, r->text_bytes);
    t->block = NULL;
    return NEAP_OK;
}

static void free_reader(reader *r)
{
    np_json_tree_free(&r->tree);
    np_json_tree_free(&r->token);
    neap_text_free(r->ctx, &r->unescaped);
    free_entries(r);
}

static neap_status first_walk(reader *r, const np_json_tree *config)
{
    np_text_rules rules = {0};
    neap_text patterns = {0};
    tables t = {0};
    neap_status status = np_json_read(r->ctx, r->text, 0, visit, r);
    if (status == NEAP_OK)
        status = check_model(r, np_json_get(&r->tree, r->tree.nodes, "model"));
    if (status == NEAP_OK)
        status = np_tokenizer_json_rules(&r->tree, &patterns, &rules);
    if (status == NEAP_OK)
        status = begin(r, config, &rules, &t);
    free_tables(r, &t);
    neap_text_free(r->ctx, &patterns);
    free_reader(r); /* the merges need nothing of it */
    return status;
}

neap_status np_tokenizer_json(neap_context *ctx, np_bytes text, const np_json_tree *config,
                              neap_tokenizer **out)
{
    reader r = {.ctx = ctx, .text = text, .tree = {.ctx = ctx}, .token = {.ctx = ctx}};
    *out = NULL;
    neap_status status = first_walk(&r, config);
    if (status == NEAP_OK && r.n_merges)
        status = np_json_read(ctx, text, r.merges_at, visit_merge, &r);
    if (status == NEAP_OK)
        status = np_tokenizer_finish(r.tokenizer);
    neap_text_free(ctx, &r.left);
    if (status != NEAP_OK) {
        neap_tokenizer_free(r.tokenizer);
        return status;
    }
    *out = r.tokenizer;
    return NEAP_OK;
}

/* ---- tokenizer_config.json ------------------------------------------------------------------ */

typedef struct config_reader {
    np_json_tree *tree;
    bool kept; /* the member of the file that is being read */
} config_reader;

static neap_status visit_config(void *user, const np_json_event *e)
{
    config_reader *r = user;
    if (e->depth == 1 && e->kind == NP_JSON_KEY) {
        const node key = {.kind = NP_JSON_STRING, .text = e->text};
        r->kept = np_json_is(&key, "bos_token") || np_json_is(&key, "eos_token") ||
                  np_json_is(&key, "chat_template");
    }
    np_json_event copied = *e; /* the file is closed before the tree is used */
    copied.lasting = false;
    return e->depth == 0 || r->kept ? np_json_tree_add(r->tree, &copied) : NEAP_OK;
}

neap_status np_tokenizer_config(np_bytes text, np_json_tree *out)
{
    config_reader r = {.tree = out};
    return np_json_read(out->ctx, text, 0, visit_config, &r);
}
