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
    neap_text *patterns;
    size_t offset[NP_PRETOKENIZER_PATTERNS]; /* `patterns` moves while it grows */
    bool byte_level;
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

/* A section that is a Sequence is its list, any other is a list of one: the first of it. */
static const node *first_of(rules *r, const node *section, const char *list, bool *is_list)
{
    *is_list = np_json_is(np_json_get(r->tree, section, "type"), "Sequence");
    return *is_list ? np_json_child(r->tree, np_json_get(r->tree, section, list)) : section;
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

/* ---- normalizer ----------------------------------------------------------------------------- */

static neap_status read_normalizer(rules *r, const node *section)
{
    static const struct {
        const char *name;
        np_normal_form form;
    } forms[] = {
        {"NFC",  NP_FORM_NFC },
        {"NFD",  NP_FORM_NFD },
        {"NFKC", NP_FORM_NFKC},
        {"NFKD", NP_FORM_NFKD}
    };
    bool is_list;
    for (const node *n = first_of(r, section, "normalizers", &is_list); n;
         n = is_list ? np_json_next(r->tree, n) : NULL) {
        const node *type = np_json_get(r->tree, n, "type");
        np_normal_form form = NP_FORM_NONE;
        if (np_json_is(type, "Prepend") && is_text(r, n, "prepend", MARK)) {
            r->out->lead = NP_LEAD_ALWAYS;
            continue;
        }
        if (np_json_is(type, "Replace") && replaces(r, n, " ", MARK)) {
            r->out->characters = true;
            continue;
        }
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
            if (np_json_is(type, forms[i].name))
                form = forms[i].form;
        if (form == NP_FORM_NONE)
            return unsupported(r, "normalizer", n);
        if (r->out->form != NP_FORM_NONE && r->out->form != form)
            return refuse(r, "more than one normal form");
        r->out->form = form;
    }
    return r->out->lead == NP_LEAD_NONE || r->out->characters
               ? NEAP_OK
               : refuse(r, "normalizer: Prepend without Replace");
}

/* ---- pre-tokenizer -------------------------------------------------------------------------- */

static neap_status add_cut(rules *r, np_bytes pattern, bool literal, np_cut_keep keep)
{
    np_text_rules *o = r->out;
    if (o->n_cuts == NP_PRETOKENIZER_PATTERNS)
        return np_fail(r->ctx, NEAP_ELIMIT, "pre_tokenizer: more than %d steps",
                       NP_PRETOKENIZER_PATTERNS);
    size_t start = r->patterns->length;
    neap_status status = NEAP_OK;
    if (!literal)
        status = np_split_pattern(r->ctx, pattern, r->patterns);
    else if (!np_text_append(r->ctx, r->patterns, pattern.p, pattern.n))
        status = NEAP_ENOMEM;
    r->offset[o->n_cuts] = start;
    o->cuts[o->n_cuts++] = (np_cut){
        .pattern = {NULL, r->patterns->length - start}, .keep = keep, .literal = literal};
    return status;
}

static neap_status add_expression(rules *r, const char *pattern, np_cut_keep keep)
{
    return add_cut(r, (np_bytes){(const uint8_t *)pattern, strlen(pattern)}, false, keep);
}

/* Isolated and, of an expression's own runs, Contiguous; Removed; MergedWithPrevious. */
static neap_status read_split(rules *r, const node *n)
{
    const node *pattern = np_json_get(r->tree, n, "pattern");
    const node *behavior = np_json_get(r->tree, n, "behavior");
    const node *regex = np_json_get(r->tree, pattern, "Regex");
    const node *text = regex ? regex : np_json_get(r->tree, pattern, "String");
    bool invert = flag(r, n, "invert", false);
    np_cut_keep keep;
    if (!text || text->kind != NP_JSON_STRING || text->text.n == 0)
        return np_fail(r->ctx, NEAP_EFORMAT, "pre_tokenizer Split: no pattern");
    if (np_json_is(behavior, "Isolated"))
        keep = NP_CUT_BOTH;
    else if (np_json_is(behavior, "Removed"))
        keep = invert ? NP_CUT_MATCHES : NP_CUT_GAPS;
    else if (np_json_is(behavior, "MergedWithPrevious") && !invert)
        keep = NP_CUT_MATCH_WITH_GAP;
    else
        return unsupported(r, invert ? "pre_tokenizer Split: inverted behavior"
                                     : "pre_tokenizer Split: behavior",
                           behavior);
    return add_cut(r, text->text, !regex, keep);
}

static neap_status read_punctuation(rules *r, const node *n)
{
    const node *behavior = np_json_get(r->tree, n, "behavior");
    static const char one[] = "[\\p{P}$+<=>^`|~]", many[] = "[\\p{P}$+<=>^`|~]+";
    if (!behavior || np_json_is(behavior, "Isolated"))
        return add_expression(r, one, NP_CUT_BOTH);
    if (np_json_is(behavior, "Contiguous"))
        return add_expression(r, many, NP_CUT_BOTH);
    if (np_json_is(behavior, "Removed"))
        return add_expression(r, one, NP_CUT_GAPS);
    return unsupported(r, "pre_tokenizer Punctuation: behavior", behavior);
}

static neap_status read_byte_level(rules *r, const node *n)
{
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    if (r->byte_level)
        return refuse(r, "pre_tokenizer: ByteLevel twice");
    r->byte_level = true;
    if (flag(r, n, "add_prefix_space", true)) {
        if (r->out->n_cuts)
            return refuse(r, "pre_tokenizer ByteLevel: add_prefix_space behind another step");
        r->out->lead = NP_LEAD_MISSING;
    }
    return flag(r, n, "use_regex", true) ? add_expression(r, gpt2, NP_CUT_BOTH) : NEAP_OK;
}

/* Spaces become marks, and a text gets one in front; `split` cuts before each. */
static neap_status read_metaspace(rules *r, const node *n)
{
    const node *scheme = np_json_get(r->tree, n, "prepend_scheme");
    if (!is_text(r, n, "replacement", MARK) || r->out->lead != NP_LEAD_NONE || r->out->n_cuts)
        return refuse(r, "pre_tokenizer Metaspace with another mark or another step");
    r->out->characters = true;
    if (np_json_is(scheme, "first"))
        r->out->lead = NP_LEAD_FIRST;
    else if (scheme ? np_json_is(scheme, "always") : flag(r, n, "add_prefix_space", true))
        r->out->lead = NP_LEAD_MISSING;
    return flag(r, n, "split", true) ? add_expression(r, MARK "[^" MARK "]*", NP_CUT_BOTH)
                                     : NEAP_OK;
}

static neap_status read_pre_tokenizer(rules *r, const node *section)
{
    bool is_list;
    neap_status status = NEAP_OK;
    for (const node *n = first_of(r, section, "pretokenizers", &is_list);
         n && status == NEAP_OK; n = is_list ? np_json_next(r->tree, n) : NULL) {
        const node *type = np_json_get(r->tree, n, "type");
        if (r->byte_level) /* it maps bytes to letters, and what follows would see those */
            return refuse(r, "pre_tokenizer: a step behind ByteLevel");
        if (np_json_is(type, "ByteLevel"))
            status = read_byte_level(r, n);
        else if (np_json_is(type, "Metaspace"))
            status = read_metaspace(r, n);
        else if (np_json_is(type, "Split"))
            status = read_split(r, n);
        else if (np_json_is(type, "Digits"))
            status = add_expression(
                r, flag(r, n, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", NP_CUT_BOTH);
        else if (np_json_is(type, "Punctuation"))
            status = read_punctuation(r, n);
        else if (np_json_is(type, "Whitespace"))
            status = add_expression(r, "\\w+|[^\\w\\s]+", NP_CUT_MATCHES);
        else if (np_json_is(type, "WhitespaceSplit"))
            status = add_expression(r, "\\s", NP_CUT_GAPS);
        else
            return unsupported(r, "pre_tokenizer", n);
    }
    if (status == NEAP_OK && r->byte_level == r->out->characters)
        return refuse(r, r->byte_level ? "ByteLevel with a mark for spaces"
                                       : "a pre_tokenizer without ByteLevel or Metaspace");
    return status;
}

static bool number_is(rules *r, const node *n, const char *key, int64_t want)
{
    const node *v = np_json_get(r->tree, n, key);
    int64_t value;
    return v && v->kind == NP_JSON_NUMBER && np_json_integer(v->text, &value) && value == want;
}

/* What decode.c does for characters anyway; a space at the start goes if the file says so. */
static bool is_character_decoder(rules *r, const node *n)
{
    const node *type = np_json_get(r->tree, n, "type");
    if (np_json_is(type, "Metaspace") && is_text(r, n, "replacement", MARK)) {
        r->out->strip_first = !is_text(r, n, "prepend_scheme", "never");
        return true;
    }
    if (np_json_is(type, "Strip") && is_text(r, n, "content", " ") && number_is(r, n, "stop", 0) &&
        (number_is(r, n, "start", 0) || number_is(r, n, "start", 1))) {
        r->out->strip_first = number_is(r, n, "start", 1);
        return true;
    }
    return np_json_is(type, "ByteFallback") || np_json_is(type, "Fuse") ||
           (np_json_is(type, "Replace") && replaces(r, n, MARK, " "));
}

static neap_status check_decoder(rules *r, const node *section)
{
    bool is_list;
    for (const node *n = first_of(r, section, "decoders", &is_list); n;
         n = is_list ? np_json_next(r->tree, n) : NULL)
        if (r->out->characters ? !is_character_decoder(r, n)
                               : !np_json_is(np_json_get(r->tree, n, "type"), "ByteLevel"))
            return unsupported(r, "decoder", n);
    return NEAP_OK;
}

/* ---- post-processor ------------------------------------------------------------------------- */

static neap_status add_id(rules *r, const node *id, bool behind)
{
    np_text_rules *o = r->out;
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
static neap_status add_special(rules *r, const node *processor, const node *special, bool behind)
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
        status = add_id(r, id, behind);
    return status;
}

static neap_status read_template(rules *r, const node *processor)
{
    const node *part = np_json_child(r->tree, np_json_get(r->tree, processor, "single"));
    neap_status status = NEAP_OK;
    bool behind = false;
    for (; part && status == NEAP_OK; part = np_json_next(r->tree, part)) {
        const node *special = np_json_get(r->tree, part, "SpecialToken");
        const node *sequence = np_json_get(r->tree, part, "Sequence");
        if (special)
            status = add_special(r, processor, special, behind);
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
static neap_status add_pair(rules *r, const node *processor, const char *key, bool behind)
{
    const node *text = np_json_child(r->tree, np_json_get(r->tree, processor, key));
    return add_id(r, text ? np_json_next(r->tree, text) : NULL, behind);
}

static neap_status read_post_processor(rules *r, const node *section)
{
    bool is_list;
    neap_status status = NEAP_OK;
    for (const node *n = first_of(r, section, "processors", &is_list); n && status == NEAP_OK;
         n = is_list ? np_json_next(r->tree, n) : NULL) {
        const node *type = np_json_get(r->tree, n, "type");
        if (np_json_is(type, "TemplateProcessing")) {
            status = read_template(r, n);
        } else if (np_json_is(type, "RobertaProcessing") || np_json_is(type, "BertProcessing")) {
            status = add_pair(r, n, "cls", false);
            if (status == NEAP_OK)
                status = add_pair(r, n, "sep", true);
        } else if (!np_json_is(type, "ByteLevel")) {
            return unsupported(r, "post_processor", n);
        }
    }
    return status;
}

neap_status np_tokenizer_json_rules(const np_json_tree *tree, neap_text *patterns,
                                    np_text_rules *out)
{
    rules r = {.ctx = tree->ctx, .tree = tree, .out = out, .patterns = patterns};
    const node *root = tree->nodes;
    neap_status status = read_normalizer(&r, np_json_get(tree, root, "normalizer"));
    if (status == NEAP_OK)
        status = read_pre_tokenizer(&r, np_json_get(tree, root, "pre_tokenizer"));
    if (status == NEAP_OK)
        status = check_decoder(&r, np_json_get(tree, root, "decoder"));
    if (status == NEAP_OK)
        status = read_post_processor(&r, np_json_get(tree, root, "post_processor"));
    for (int i = 0; i < out->n_cuts && status == NEAP_OK; i++)
        out->cuts[i].pattern.p = (const uint8_t *)patterns->data + r.offset[i];
    return status;
}
