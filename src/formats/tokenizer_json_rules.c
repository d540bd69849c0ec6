/* tokenizer_json_rules.c - normalizer, pre_tokenizer, decoder and post_processor of a tokenizer.json
 * as np_text_rules. What is not known is refused by its name: a text that is cut otherwise than the
 * model was taught would go unnoticed. */
#include "formats/tokenizer_json.h"
#include "text/split_pattern.h"

#define MARK "\xE2\x96\x81" /* U+2581, which stands for a space */

typedef np_json_node node;

typedef struct rules {
    neap_context *ctx;
    const np_json_tree *tree;
    np_text_rules *out;
    neap_text *patterns; /* and the texts of steps; it moves while it grows */
    bool byte_level;     /* the last step maps bytes to letters; that is still to be done */
    bool letters;        /* some step does */
    bool marked;         /* spaces become marks */
    bool grows;          /* the normalizer may make several characters of one */
    bool pre;            /* the steps being read are the pre-tokenizer's */
} rules;

static neap_status unsupported(rules *r, const char *section, const node *n)
{
    const node *type = n && n->kind == NP_JSON_OBJECT ? np_json_get(r->tree, n, "type") : n;
    np_bytes name = type && type->kind == NP_JSON_STRING ? type->text
                                                         : (np_bytes){(const uint8_t *)"?", 1};
    return np_fail(r->ctx, NEAP_EUNSUPPORTED, "%s \"%.*s\" is not supported", section,
                   name.n < 64 ? (int)name.n : 64, (const char *)name.p);
}

static neap_status refuse(rules *r, const char *what)
{
    return np_fail(r->ctx, NEAP_EUNSUPPORTED, "%s is not supported", what);
}

/* The steps of a section: a Sequence is its list, and may hold others. */
enum { SEQUENCE_DEPTH = 8 };

typedef struct walk {
    rules *r;
    const char *list;
    const node *next[SEQUENCE_DEPTH];
    int depth;
    bool begun; /* what the section itself is was given; it has no next one */
} walk;

static walk walk_over(rules *r, const node *section, const char *list)
{
    return (walk){.r = r, .list = list, .next = {section}, .depth = section ? 1 : 0};
}

/* The next step, or NULL: at the end, and where Sequences are too deep. */
static const node *next_step(walk *w, bool *deep)
{
    *deep = false;
    while (w->depth) {
        const node *n = w->next[w->depth - 1];
        const node *behind = w->begun ? np_json_next(w->r->tree, n) : NULL;
        w->begun = true;
        w->next[w->depth - 1] = behind;
        if (!behind)
            w->depth--;
        if (!np_json_is(np_json_get(w->r->tree, n, "type"), "Sequence"))
            return n;
        if (w->depth == SEQUENCE_DEPTH) {
            *deep = true;
            return NULL;
        }
        const node *child = np_json_child(w->r->tree, np_json_get(w->r->tree, n, w->list));
        if (child)
            w->next[w->depth++] = child;
    }
    return NULL;
}

typedef neap_status (*step_reader)(rules *r, const node *n);

static neap_status each_step(rules *r, const node *section, const char *list, step_reader read)
{
    walk w = walk_over(r, section, list);
    bool deep;
    const node *n;
    while ((n = next_step(&w, &deep)) != NULL) {
        neap_status status = read(r, n);
        if (status != NEAP_OK)
            return status;
    }
    return deep ? np_fail(r->ctx, NEAP_ELIMIT, "%s: Sequences in Sequences, more than %d deep",
                          list, SEQUENCE_DEPTH)
                : NEAP_OK;
}

static bool flag(rules *r, const node *n, const char *key, bool absent)
{
    const node *v = np_json_get(r->tree, n, key);
    return v && v->kind == NP_JSON_BOOL ? v->truth : absent;
}

static bool is_text(rules *r, const node *n, const char *key, const char *text)
{
    return np_json_is(np_json_get(r->tree, n, key), text);
}

/* A Replace of one text by another. */
static bool replaces(rules *r, const node *n, const char *from, const char *to)
{
    return is_text(r, np_json_get(r->tree, n, "pattern"), "String", from) &&
           is_text(r, n, "content", to);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static neap_status add_step(rules *r, np_step step)
{
    np_text_rules *o = r->out;
    int *n = r->pre ? &o->n_cuts : &o->n_normal;
    if (*n == NP_STEPS_LIMIT)
        return np_fail(r->ctx, NEAP_ELIMIT, "%s: more than %d steps",
                       r->pre ? "pre_tokenizer" : "normalizer", NP_STEPS_LIMIT);
    (r->pre ? o->cuts : o->normal)[(*n)++] = step;
    return NEAP_OK;
}

static neap_status add_kind(rules *r, np_step_kind kind)
{
    return add_step(r, (np_step){.kind = kind});
}

/* Texts are kept by their place in `patterns`, in the pointer's stead, until all are there. */
static neap_status keep_text(rules *r, np_bytes text, np_bytes *out)
{
    *out = (np_bytes){(const uint8_t *)(uintptr_t)r->patterns->length, text.n};
    return np_text_append(r->ctx, r->patterns, text.p, text.n) ? NEAP_OK : NEAP_ENOMEM;
}

static neap_status add_pattern(rules *r, np_step step, np_bytes pattern)
{
    size_t start = r->patterns->length;
    neap_status status = step.literal ? keep_text(r, pattern, &step.pattern)
                                      : np_split_pattern(r->ctx, pattern, r->patterns);
    step.pattern = (np_bytes){(const uint8_t *)(uintptr_t)start, r->patterns->length - start};
    return status == NEAP_OK ? add_step(r, step) : status;
}

/* An expression in PCRE2's own language. */
static neap_status add_cut(rules *r, const char *pattern, np_cut_keep keep, bool invert)
{
    np_step step = {.kind = NP_STEP_CUT, .keep = keep, .invert = invert};
    neap_status status =
        keep_text(r, (np_bytes){(const uint8_t *)pattern, strlen(pattern)}, &step.pattern);
    return status == NEAP_OK ? add_step(r, step) : status;
}

/* "pattern": {"String": ..} or {"Regex": ..} */
static neap_status add_section_pattern(rules *r, const node *n, np_step step)
{
    const node *pattern = np_json_get(r->tree, n, "pattern");
    const node *regex = np_json_get(r->tree, pattern, "Regex");
    const node *text = regex ? regex : np_json_get(r->tree, pattern, "String");
    if (!text || text->kind != NP_JSON_STRING)
        return np_fail(r->ctx, NEAP_EFORMAT, "%s: no pattern",
                       r->pre ? "pre_tokenizer Split" : "normalizer Replace");
    step.literal = !regex;
    return add_pattern(r, step, text->text);
}

/* ---- normalizer ----------------------------------------------------------------------------- */

static neap_status read_text(rules *r, const node *n, const char *key, np_bytes *out)
{
    const node *text = np_json_get(r->tree, n, key);
    if (!text || text->kind != NP_JSON_STRING)
        return np_fail(r->ctx, NEAP_EFORMAT, "normalizer: no %s", key);
    return keep_text(r, text->text, out);
}

static neap_status read_bert(rules *r, const node *n)
{
    const node *accents = np_json_get(r->tree, n, "strip_accents");
    bool lowercase = flag(r, n, "lowercase", true);
    bool strip = accents && accents->kind == NP_JSON_BOOL ? accents->truth : lowercase;
    const struct {
        bool wanted;
        np_step_kind kind;
    } steps[] = {
        {flag(r, n, "clean_text", true),           NP_STEP_CLEAN           },
        {flag(r, n, "handle_chinese_chars", true), NP_STEP_SPACE_CHINESE   },
        {strip,                                    NP_STEP_NFD             },
        {strip,                                    NP_STEP_STRIP_NONSPACING},
        {lowercase,                                NP_STEP_LOWERCASE       }
    };
    r->grows = true;
    neap_status status = NEAP_OK;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == NEAP_OK; i++)
        if (steps[i].wanted)
            status = add_kind(r, steps[i].kind);
    return status;
}

static neap_status read_replace(rules *r, const node *n)
{
    np_step step = {.kind = NP_STEP_REPLACE};
    r->grows = true;
    r->marked = r->marked || replaces(r, n, " ", MARK);
    neap_status status = read_text(r, n, "content", &step.text);
    return status == NEAP_OK ? add_section_pattern(r, n, step) : status;
}

static neap_status read_prepend(rules *r, const node *n)
{
    np_step step = {.kind = NP_STEP_PREPEND};
    r->grows = true;
    neap_status status = read_text(r, n, "prepend", &step.text);
    return status == NEAP_OK ? add_step(r, step) : status;
}

static neap_status read_normalizer(rules *r, const node *n)
{
    static const struct {
        const char *name;
        np_step_kind kind;
    } plain[] = {
        {"NFC",          NP_STEP_NFC        },
        {"NFD",          NP_STEP_NFD        },
        {"NFKC",         NP_STEP_NFKC       },
        {"NFKD",         NP_STEP_NFKD       },
        {"Lowercase",    NP_STEP_LOWERCASE  },
        {"StripAccents", NP_STEP_STRIP_MARKS},
        {"Nmt",          NP_STEP_NMT        },
        {"ByteLevel",    NP_STEP_LETTERS    }
    };
    const node *type = np_json_get(r->tree, n, "type");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (np_json_is(type, plain[i].name)) {
            r->grows = r->grows || plain[i].kind != NP_STEP_NFC;
            r->letters = r->letters || plain[i].kind == NP_STEP_LETTERS;
            return add_kind(r, plain[i].kind);
        }
    }
    if (np_json_is(type, "Strip"))
        return add_step(r, (np_step){.kind = NP_STEP_STRIP,
                                     .left = flag(r, n, "strip_left", true),
                                     .right = flag(r, n, "strip_right", true)});
    if (np_json_is(type, "Replace"))
        return read_replace(r, n);
    if (np_json_is(type, "Prepend"))
        return read_prepend(r, n);
    if (np_json_is(type, "BertNormalizer"))
        return read_bert(r, n);
    return unsupported(r, "normalizer", n);
}

/* ---- pre-tokenizer -------------------------------------------------------------------------- */

static bool read_behavior(const node *behavior, np_cut_keep *keep)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    static const np_cut_keep keeps[] = {NP_CUT_ISOLATED, NP_CUT_REMOVED, NP_CUT_WITH_PREVIOUS,
                                        NP_CUT_WITH_NEXT, NP_CUT_CONTIGUOUS};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (np_json_is(behavior, names[i])) {
            *keep = keeps[i];
            return true;
        }
    }
    return false;
}

static neap_status read_split(rules *r, const node *n)
{
    const node *behavior = np_json_get(r->tree, n, "behavior");
    np_step step = {.kind = NP_STEP_CUT, .invert = flag(r, n, "invert", false)};
    if (!read_behavior(behavior, &step.keep))
        return unsupported(r, "pre_tokenizer Split: behavior", behavior);
    return add_section_pattern(r, n, step);
}

#define PUNCTUATION "[\\p{P}$+<=>^`|~]"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}" /* as Rust has it */

static neap_status read_punctuation(rules *r, const node *n)
{
    const node *behavior = np_json_get(r->tree, n, "behavior");
    np_cut_keep keep = NP_CUT_ISOLATED;
    if (behavior && !read_behavior(behavior, &keep))
        return unsupported(r, "pre_tokenizer Punctuation: behavior", behavior);
    return add_cut(r, PUNCTUATION, keep, false);
}

static neap_status read_lead(rules *r, np_bytes text, bool first)
{
    np_step step = {.kind = NP_STEP_LEAD, .first = first};
    neap_status status = keep_text(r, text, &step.text);
    return status == NEAP_OK ? add_step(r, step) : status;
}

static neap_status read_byte_level(rules *r, const node *n)
{
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    neap_status status = NEAP_OK;
    r->byte_level = true;
    if (flag(r, n, "add_prefix_space", true))
        status = read_lead(r, (np_bytes){(const uint8_t *)" ", 1}, false);
    if (status == NEAP_OK && flag(r, n, "use_regex", true))
        status = add_pattern(r, (np_step){.kind = NP_STEP_CUT},
                             (np_bytes){(const uint8_t *)gpt2, sizeof gpt2 - 1});
    return status;
}

/* Spaces become marks, and a text gets one in front; `split` cuts before each. */
static neap_status read_metaspace(rules *r, const node *n)
{
    const node *scheme = np_json_get(r->tree, n, "prepend_scheme");
    const node *mark = np_json_get(r->tree, n, "replacement");
    if (!mark || mark->kind != NP_JSON_STRING || mark->text.n == 0 || mark->text.n > NP_MARK_LIMIT)
        return np_fail(r->ctx, NEAP_EFORMAT, "pre_tokenizer Metaspace: no replacement");
    bool first = np_json_is(scheme, "first");
    bool always = scheme ? np_json_is(scheme, "always") : flag(r, n, "add_prefix_space", true);
    if (first && r->grows && r->out->n_cuts)
        return refuse(r, "pre_tokenizer Metaspace: prepend_scheme \"first\" behind a normalizer and "
                         "another step");
    np_step step = {.kind = NP_STEP_REPLACE};
    neap_status status = keep_text(r, mark->text, &step.text);
    step.literal = true;
    r->marked = true;
    if (status == NEAP_OK)
        status = add_pattern(r, step, (np_bytes){(const uint8_t *)" ", 1});
    if (status == NEAP_OK && (first || always))
        status = read_lead(r, mark->text, first);
    if (status == NEAP_OK && flag(r, n, "split", true))
        status = add_pattern(
            r, (np_step){.kind = NP_STEP_CUT, .keep = NP_CUT_WITH_NEXT, .literal = true},
            mark->text);
    return status;
}

static neap_status read_delimiter(rules *r, const node *n)
{
    const node *delimiter = np_json_get(r->tree, n, "delimiter");
    if (!delimiter || delimiter->kind != NP_JSON_STRING || delimiter->text.n == 0)
        return np_fail(r->ctx, NEAP_EFORMAT, "pre_tokenizer CharDelimiterSplit: no delimiter");
    return add_pattern(r, (np_step){.kind = NP_STEP_CUT, .keep = NP_CUT_REMOVED, .literal = true},
                       delimiter->text);
}

static bool integer(rules *r, const node *n, const char *key, int64_t *out)
{
    const node *v = np_json_get(r->tree, n, key);
    return v && v->kind == NP_JSON_NUMBER && np_json_integer(v->text, out);
}

static neap_status read_runs(rules *r, const node *n)
{
    int64_t length;
    if (!integer(r, n, "length", &length) || length < 1 || length > INT32_MAX)
        return np_fail(r->ctx, NEAP_EFORMAT, "pre_tokenizer FixedLength: no length over 0");
    return add_step(r, (np_step){.kind = NP_STEP_RUNS, .count = (uint32_t)length});
}

/* Letters that a ByteLevel made are what the steps behind it see. */
static neap_status write_letters(rules *r)
{
    r->byte_level = false;
    r->letters = true;
    return add_kind(r, NP_STEP_LETTERS);
}

static neap_status read_bert_cuts(rules *r, const node *n)
{
    (void)n;
    neap_status status = add_cut(r, "\\p{WSpace}", NP_CUT_REMOVED, false);
    return status == NEAP_OK ? add_cut(r, PUNCTUATION, NP_CUT_ISOLATED, false) : status;
}

static neap_status read_digits(rules *r, const node *n)
{
    bool each = flag(r, n, "individual_digits", false);
    return add_cut(r, "\\p{N}", each ? NP_CUT_ISOLATED : NP_CUT_CONTIGUOUS, false);
}

static neap_status read_whitespace(rules *r, const node *n)
{
    (void)n;
    return add_cut(r, "[" WORD "]+|[^" WORD "\\p{WSpace}]+", NP_CUT_REMOVED, true);
}

static neap_status read_whitespace_split(rules *r, const node *n)
{
    (void)n;
    return add_cut(r, "\\p{WSpace}", NP_CUT_REMOVED, false);
}

static neap_status read_pre_tokenizer(rules *r, const node *n)
{
    static const struct {
        const char *name;
        step_reader read;
    } kinds[] = {
        {"ByteLevel",          read_byte_level      },
        {"Metaspace",          read_metaspace       },
        {"Split",              read_split           },
        {"Digits",             read_digits          },
        {"Punctuation",        read_punctuation     },
        {"Whitespace",         read_whitespace      },
        {"WhitespaceSplit",    read_whitespace_split},
        {"CharDelimiterSplit", read_delimiter       },
        {"BertPreTokenizer",   read_bert_cuts       },
        {"FixedLength",        read_runs            }
    };
    neap_status status = r->byte_level ? write_letters(r) : NEAP_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && status == NEAP_OK; i++)
        if (np_json_is(np_json_get(r->tree, n, "type"), kinds[i].name))
            return kinds[i].read(r, n);
    return status == NEAP_OK ? unsupported(r, "pre_tokenizer", n) : status;
}

static neap_status read_subword(rules *r, const node *model, const char *key, np_subword *out)
{
    const node *text = np_json_get(r->tree, model, key);
    if (!text || text->kind != NP_JSON_STRING || text->text.n == 0)
        return NEAP_OK;
    if (text->text.n > NP_SUBWORD_LIMIT)
        return np_fail(r->ctx, NEAP_ELIMIT, "model: %s has more than %d bytes", key,
                       NP_SUBWORD_LIMIT);
    memcpy(out->bytes, text->text.p, text->text.n);
    out->n = (uint8_t)text->text.n;
    return NEAP_OK;
}

/* Bytes are looked up as they are where that is the same: a ByteLevel at the end, and no characters
 * that the model handles otherwise. */
static neap_status read_model(rules *r, const node *model)
{
    np_text_rules *o = r->out;
    neap_status status = read_subword(r, model, "continuing_subword_prefix", &o->prefix);
    if (status == NEAP_OK)
        status = read_subword(r, model, "end_of_word_suffix", &o->suffix);
    o->merging = NP_MERGE_MODEL;
    o->skip_found = true;
    o->ignore_merges = flag(r, model, "ignore_merges", false);
    o->byte_tokens = flag(r, model, "byte_fallback", false);
    o->fuse_unknown = flag(r, model, "fuse_unk", false);
    o->alphabet = r->byte_level || r->letters;
    o->byte_text = o->byte_tokens && !o->alphabet;
    bool plain = r->byte_level && !r->letters && !o->byte_tokens && !o->prefix.n && !o->suffix.n;
    o->characters = !plain;
    return status == NEAP_OK && r->byte_level && !plain ? write_letters(r) : status;
}

/* ---- decoder -------------------------------------------------------------------------------- */

static bool number_is(rules *r, const node *n, const char *key, int64_t want)
{
    const node *v = np_json_get(r->tree, n, key);
    int64_t value;
    return v && v->kind == NP_JSON_NUMBER && np_json_integer(v->text, &value) && value == want;
}

static void set_mark(rules *r, np_bytes mark)
{
    memcpy(r->out->mark, mark.p, mark.n);
    r->out->n_mark = (uint8_t)mark.n;
}

/* What decode.c does for characters; a space at the start goes if the file says so. */
static neap_status read_decoder(rules *r, const node *n)
{
    np_text_rules *o = r->out;
    const node *type = np_json_get(r->tree, n, "type");
    const node *mark = np_json_get(r->tree, n, "replacement");
    if (np_json_is(type, "ByteLevel")) {
        o->alphabet = true;
    } else if (np_json_is(type, "Metaspace") && mark && mark->kind == NP_JSON_STRING &&
               mark->text.n > 0 && mark->text.n <= NP_MARK_LIMIT && !o->n_mark) {
        set_mark(r, mark->text);
        o->strip_first = !is_text(r, n, "prepend_scheme", "never");
    } else if (np_json_is(type, "Replace") && replaces(r, n, MARK, " ") && !o->n_mark) {
        set_mark(r, (np_bytes){(const uint8_t *)MARK, sizeof MARK - 1});
    } else if (np_json_is(type, "Strip") && is_text(r, n, "content", " ") &&
               number_is(r, n, "stop", 0) &&
               (number_is(r, n, "start", 0) || number_is(r, n, "start", 1))) {
        o->strip_first = number_is(r, n, "start", 1);
    } else if (np_json_is(type, "ByteFallback")) {
        o->byte_text = true;
    } else if (!np_json_is(type, "Fuse")) {
        return unsupported(r, "decoder", n);
    }
    if (o->alphabet && (o->n_mark || o->byte_text || o->strip_first))
        return refuse(r, "decoder: ByteLevel with others");
    return NEAP_OK;
}

/* A file without a decoder is decoded as it is encoded. */
static neap_status read_decoders(rules *r, const node *section)
{
    if (!section) {
        if (r->marked && !r->out->alphabet)
            set_mark(r, (np_bytes){(const uint8_t *)MARK, sizeof MARK - 1});
        return NEAP_OK;
    }
    r->out->alphabet = r->out->byte_text = false;
    return each_step(r, section, "decoders", read_decoder);
}

/* ---- post-processor ------------------------------------------------------------------------- */

/* What one processor puts round a text. */
typedef struct affixes {
    int n_before, n_after;
    int32_t before[NP_AFFIX_LIMIT], after[NP_AFFIX_LIMIT];
} affixes;

static neap_status add_id(rules *r, affixes *o, const node *id, bool behind)
{
    int *n = behind ? &o->n_after : &o->n_before;
    int64_t value;
    if (!id || id->kind != NP_JSON_NUMBER || !np_json_integer(id->text, &value) || value < 0 ||
        value > INT32_MAX)
        return np_fail(r->ctx, NEAP_EFORMAT, "post_processor: an id that is none");
    if (*n == NP_AFFIX_LIMIT)
        return np_fail(r->ctx, NEAP_ELIMIT, "post_processor: more than %d tokens at one end",
                       NP_AFFIX_LIMIT);
    (behind ? o->after : o->before)[(*n)++] = (int32_t)value;
    return NEAP_OK;
}

/* The ids of a template's special token: special_tokens[name].ids. */
static neap_status add_special(rules *r, affixes *o, const node *processor, const node *special,
                               bool behind)
{
    const node *name = np_json_get(r->tree, special, "id");
    const node *tokens = np_json_get(r->tree, processor, "special_tokens");
    const node *found = NULL;
    for (const node *m = np_json_child(r->tree, tokens); m && name; m = np_json_next(r->tree, m))
        if (m->key.n == name->text.n && memcmp(m->key.p, name->text.p, m->key.n) == 0)
            found = m;
    if (!found)
        return np_fail(r->ctx, NEAP_EFORMAT, "post_processor: a special token without its ids");
    neap_status status = NEAP_OK;
    for (const node *id = np_json_child(r->tree, np_json_get(r->tree, found, "ids"));
         id && status == NEAP_OK; id = np_json_next(r->tree, id))
        status = add_id(r, o, id, behind);
    return status;
}

static neap_status read_template(rules *r, affixes *o, const node *processor)
{
    const node *part = np_json_child(r->tree, np_json_get(r->tree, processor, "single"));
    neap_status status = NEAP_OK;
    bool behind = false;
    for (; part && status == NEAP_OK; part = np_json_next(r->tree, part)) {
        const node *special = np_json_get(r->tree, part, "SpecialToken");
        const node *sequence = np_json_get(r->tree, part, "Sequence");
        if (special)
            status = add_special(r, o, processor, special, behind);
        else if (!sequence || behind || !np_json_is(np_json_get(r->tree, sequence, "id"), "A"))
            return np_fail(r->ctx, NEAP_EFORMAT, "post_processor: a template without its text");
        else
            behind = true;
    }
    return status == NEAP_OK && !behind
               ? np_fail(r->ctx, NEAP_EFORMAT, "post_processor: a template without its text")
               : status;
}

/* ["<s>", 0] of Bert's and Roberta's */
static neap_status add_pair(rules *r, affixes *o, const node *processor, const char *key,
                            bool behind)
{
    const node *text = np_json_child(r->tree, np_json_get(r->tree, processor, key));
    return add_id(r, o, text ? np_json_next(r->tree, text) : NULL, behind);
}

/* What comes behind a processor that adds tokens would treat them as a text of their own. */
static neap_status put_round(rules *r, const affixes *a)
{
    np_text_rules *o = r->out;
    if (o->n_before || o->n_after)
        return refuse(r, "post_processor: a second one that adds tokens");
    memcpy(o->before, a->before, sizeof o->before);
    memcpy(o->after, a->after, sizeof o->after);
    o->n_before = a->n_before;
    o->n_after = a->n_after;
    return NEAP_OK;
}

static neap_status read_post_processor(rules *r, const node *n)
{
    const node *type = np_json_get(r->tree, n, "type");
    affixes a = {0};
    neap_status status = NEAP_OK;
    if (np_json_is(type, "TemplateProcessing")) {
        status = read_template(r, &a, n);
    } else if (np_json_is(type, "RobertaProcessing") || np_json_is(type, "BertProcessing")) {
        status = add_pair(r, &a, n, "cls", false);
        if (status == NEAP_OK)
            status = add_pair(r, &a, n, "sep", true);
    } else if (!np_json_is(type, "ByteLevel")) { /* which changes offsets only */
        return unsupported(r, "post_processor", n);
    }
    return status == NEAP_OK && (a.n_before || a.n_after) ? put_round(r, &a) : status;
}

/* ---- length --------------------------------------------------------------------------------- */

static neap_status read_truncation(rules *r, const node *section)
{
    np_cutoff *c = &r->out->truncation;
    int64_t length, stride = 0, added = r->out->n_before + r->out->n_after;
    if (!section)
        return NEAP_OK;
    if (!integer(r, section, "max_length", &length) || length < 0 || length > INT32_MAX)
        return np_fail(r->ctx, NEAP_EFORMAT, "truncation: no max_length");
    if (is_text(r, section, "strategy", "OnlySecond"))
        return refuse(r, "truncation: strategy \"OnlySecond\"");
    if (integer(r, section, "stride", &stride) && stride && stride >= length - added)
        return refuse(r, "truncation: a stride as long as max_length");
    if (length < added)
        return refuse(r, "truncation: max_length below the tokens round a text");
    *c = (np_cutoff){.set = true,
                     .left = is_text(r, section, "direction", "Left"),
                     .length = (uint32_t)length};
    return NEAP_OK;
}

static neap_status read_padding(rules *r, const node *section)
{
    np_cutoff *c = &r->out->padding;
    int64_t length = 0, multiple = 0, id = 0;
    if (!section)
        return NEAP_OK;
    const node *strategy = np_json_get(r->tree, section, "strategy");
    bool fixed = strategy && strategy->kind == NP_JSON_OBJECT;
    if (fixed ? !integer(r, strategy, "Fixed", &length) : !np_json_is(strategy, "BatchLongest"))
        return unsupported(r, "padding: strategy", strategy);
    integer(r, section, "pad_to_multiple_of", &multiple);
    integer(r, section, "pad_id", &id);
    if (length < 0 || length > 1 << 20 || multiple < 0 || multiple > 1 << 20 || id < 0 ||
        id > INT32_MAX)
        return np_fail(r->ctx, NEAP_ELIMIT, "padding: a length over %d, or an id that is none",
                       1 << 20);
    *c = (np_cutoff){.set = true,
                     .left = is_text(r, section, "direction", "Left"),
                     .length = (uint32_t)length,
                     .multiple = (uint32_t)multiple,
                     .pad_id = (int32_t)id};
    return NEAP_OK;
}

static void point(np_step *steps, int count, const neap_text *patterns)
{
    for (int i = 0; i < count; i++) {
        np_step *s = &steps[i];
        s->pattern.p = (const uint8_t *)patterns->data + (uintptr_t)s->pattern.p;
        s->text.p = (const uint8_t *)patterns->data + (uintptr_t)s->text.p;
    }
}

neap_status np_tokenizer_json_rules(const np_json_tree *tree, neap_text *patterns,
                                    np_text_rules *out)
{
    rules r = {.ctx = tree->ctx, .tree = tree, .out = out, .patterns = patterns};
    const node *root = tree->nodes;
    /* no step's place in an empty text is NULL plus something */
    if (!np_text_append(r.ctx, patterns, "", 1))
        return NEAP_ENOMEM;
    neap_status status =
        each_step(&r, np_json_get(tree, root, "normalizer"), "normalizers", read_normalizer);
    r.pre = true;
    if (status == NEAP_OK)
        status = each_step(&r, np_json_get(tree, root, "pre_tokenizer"), "pretokenizers",
                           read_pre_tokenizer);
    if (status == NEAP_OK)
        status = read_model(&r, np_json_get(tree, root, "model"));
    if (status == NEAP_OK)
        status = read_decoders(&r, np_json_get(tree, root, "decoder"));
    if (status == NEAP_OK)
        status = each_step(&r, np_json_get(tree, root, "post_processor"), "processors",
                           read_post_processor);
    if (status == NEAP_OK)
        status = read_truncation(&r, np_json_get(tree, root, "truncation"));
    if (status == NEAP_OK)
        status = read_padding(&r, np_json_get(tree, root, "padding"));
    point(out->normal, out->n_normal, patterns);
    point(out->cuts, out->n_cuts, patterns);
    return status;
}
