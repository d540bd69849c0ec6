/* pretokenize.c - words by PCRE2 patterns, one pattern after the other, without recursion. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenize.h"

#include <pcre2.h>

#include "base/utf8.h"

/* Patterns for words have no nested repeats, so a text needs few steps a byte and little heap. A
 * file's own may be hostile: the limit grows with what is left to match, not with its square. */
enum { STEPS_AT_LEAST = 100000, STEPS_A_BYTE = 100, HEAP_LIMIT_KIB = 1024 };
static const uint64_t STEPS_AT_MOST = 100000000;

struct np_pretokenizer {
    neap_context *ctx;
    int count;
    pcre2_code *code[NP_PRETOKENIZER_PATTERNS];
    np_cut_keep keep[NP_PRETOKENIZER_PATTERNS];
};

/* A piece that a pattern is cutting: [begin, end), done up to `at`. A match that was found behind
 * a gap waits until the gap is served. */
typedef struct piece {
    const uint8_t *begin, *at, *end;
    const uint8_t *match_end; /* NULL: no match waits */
} piece;

struct np_words {
    neap_context *ctx;
    const np_pretokenizer *pretokenizer;
    pcre2_general_context *general;
    pcre2_match_context *match_context;
    pcre2_match_data *match_data;
    np_bytes rest;                             /* of the text, behind level[0] */
    int depth;                                 /* of `level` in use; -1: none */
    piece level[NP_PRETOKENIZER_PATTERNS + 1]; /* level[k] is cut by cut k */
};

static const np_pretokenizer_kind kinds[] = {
#define NP_PRETOKENIZER(names_, ignore, bos, ...) \
    {.names = names_, .patterns = {__VA_ARGS__}, .ignore_merges = ignore, .add_bos = bos},
#include "text/pretokenizers.def"
#undef NP_PRETOKENIZER
};

static bool has_name(const char *names, np_bytes name)
{
    for (const char *p = names; (p = strchr(p, ' ')) != NULL; p++) {
        const char *end = strchr(p + 1, ' ');
        if (end && (uint64_t)(end - p - 1) == name.n && memcmp(p + 1, name.p, name.n) == 0)
            return true;
    }
    return false;
}

neap_status np_pretokenizer_find(neap_context *ctx, np_bytes name, const np_pretokenizer_kind **out)
{
    static const uint8_t fallback[] = "default";
    if (name.n == 0)
        name = (np_bytes){fallback, sizeof fallback - 1};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (has_name(kinds[i].names, name)) {
            *out = &kinds[i];
            return NEAP_OK;
        }
    }
    int shown = name.n < 64 ? (int)name.n : 64;
    return np_fail(ctx, NEAP_EUNSUPPORTED,
                   "pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not one of those known", shown,
                   (const char *)name.p);
}

static void *pcre2_alloc(size_t bytes, void *ctx)
{
    return np_alloc_sized(ctx, NEAP_MEM_HOST, bytes);
}

static void pcre2_give_back(void *p, void *ctx)
{
    np_free_sized(ctx, NEAP_MEM_HOST, p);
}

int np_pretokenizer_cuts(const np_pretokenizer_kind *kind, np_cut out[NP_PRETOKENIZER_PATTERNS])
{
    int n = 0;
    for (; n < NP_PRETOKENIZER_PATTERNS && kind->patterns[n]; n++) {
        const char *pattern = kind->patterns[n];
        out[n] = (np_cut){.pattern = {(const uint8_t *)pattern, strlen(pattern)}};
    }
    return n;
}

/* `^` and `$` are at every line in the language of tokenizer.json; others do not use them. */
static pcre2_code *compile(neap_context *ctx, const np_cut *cut, pcre2_compile_context *how)
{
    uint32_t options = PCRE2_UTF | (cut->literal ? PCRE2_LITERAL
                                                 : PCRE2_UCP | PCRE2_MULTILINE |
                                                       PCRE2_NEVER_BACKSLASH_C);
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code = pcre2_compile(cut->pattern.p, cut->pattern.n, options, &error, &offset, how);
    if (!code)
        np_fail(ctx, NEAP_EUNSUPPORTED, "PCRE2 refuses the pre-tokenizer's \"%.*s\": error %d at %zu",
                cut->pattern.n < 256 ? (int)cut->pattern.n : 256, (const char *)cut->pattern.p,
                error, offset);
    return code;
}

neap_status np_pretokenizer_new(neap_context *ctx, const np_cut *cuts, int count,
                                np_pretokenizer **out)
{
    *out = NULL;
    np_pretokenizer *t = np_calloc(ctx, NEAP_MEM_HOST, sizeof *t);
    if (!t)
        return NEAP_ENOMEM;
    t->ctx = ctx;
    pcre2_general_context *general =
        pcre2_general_context_create(pcre2_alloc, pcre2_give_back, ctx);
    pcre2_compile_context *how = general ? pcre2_compile_context_create(general) : NULL;
    bool good = how && pcre2_set_newline(how, PCRE2_NEWLINE_LF) == 0;
    for (int i = 0; i < count && good; i++) {
        t->code[i] = compile(ctx, &cuts[i], how);
        t->keep[i] = cuts[i].keep;
        t->count = i + 1;
        good = t->code[i] != NULL;
    }
    pcre2_compile_context_free(how);
    pcre2_general_context_free(general);
    if (!good) {
        np_pretokenizer_free(t);
        return neap_context_status(ctx);
    }
    *out = t;
    return NEAP_OK;
}

void np_pretokenizer_free(np_pretokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->count; i++)
        pcre2_code_free(t->code[i]);
    np_free(t->ctx, NEAP_MEM_HOST, t, sizeof *t);
}

/* ---- the walk ------------------------------------------------------------------------------- */

neap_status np_words_new(neap_context *ctx, const np_pretokenizer *pretokenizer, np_words **out)
{
    *out = NULL;
    np_words *w = np_calloc(ctx, NEAP_MEM_HOST, sizeof *w);
    if (!w)
        return NEAP_ENOMEM;
    w->ctx = ctx;
    w->pretokenizer = pretokenizer;
    w->depth = -1;
    w->general = pcre2_general_context_create(pcre2_alloc, pcre2_give_back, ctx);
    w->match_context = w->general ? pcre2_match_context_create(w->general) : NULL;
    w->match_data = w->match_context ? pcre2_match_data_create(1, w->general) : NULL;
    if (!w->match_data) {
        np_words_free(w);
        return NEAP_ENOMEM;
    }
    pcre2_set_heap_limit(w->match_context, HEAP_LIMIT_KIB);
    *out = w;
    return NEAP_OK;
}

void np_words_free(np_words *w)
{
    if (!w)
        return;
    pcre2_match_data_free(w->match_data);
    pcre2_match_context_free(w->match_context);
    pcre2_general_context_free(w->general);
    np_free(w->ctx, NEAP_MEM_HOST, w, sizeof *w);
}

void np_words_start(np_words *w, np_bytes text)
{
    w->rest = text;
    w->depth = -1;
}

/* The longest start of `text` that is UTF-8, or that is not. */
static uint64_t uniform_run(np_bytes text, bool *valid)
{
    uint64_t n = 0;
    while (n < text.n) {
        size_t length;
        bool good = np_utf8_next(text.p + n, text.n - n, &length) == NP_UTF8_CHAR;
        if (n == 0)
            *valid = good;
        else if (good != *valid)
            break;
        n += length;
    }
    return n;
}

static neap_status match_failed(np_words *w, int code)
{
    if (code == PCRE2_ERROR_NOMEMORY && neap_context_status(w->ctx) != NEAP_OK)
        return neap_context_status(w->ctx);
    return np_fail(w->ctx, NEAP_ELIMIT, "the text cannot be cut into words: PCRE2 error %d%s", code,
                   code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_HEAPLIMIT
                       ? " (its step or memory limit)"
                       : "");
}

/* Where level k's next match is; its end if there is none. */
static neap_status find_match(np_words *w, int k, const uint8_t **from, const uint8_t **to)
{
    const piece *l = &w->level[k];
    uint64_t steps = STEPS_AT_LEAST + (uint64_t)(l->end - l->at) * STEPS_A_BYTE;
    pcre2_set_match_limit(w->match_context,
                          (uint32_t)(steps < STEPS_AT_MOST ? steps : STEPS_AT_MOST));
    int n = pcre2_match(w->pretokenizer->code[k], l->begin, (PCRE2_SIZE)(l->end - l->begin),
                        (PCRE2_SIZE)(l->at - l->begin), PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                        w->match_data, w->match_context);
    *from = *to = l->end;
    if (n < 0)
        return n == PCRE2_ERROR_NOMATCH ? NEAP_OK : match_failed(w, n);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(w->match_data);
    /* \K or a look behind may place a match before where it was looked for, or turn it round. */
    if (l->begin + at[0] < l->at || at[1] <= at[0])
        return np_fail(w->ctx, NEAP_EUNSUPPORTED, "a pre-tokenizer's match starts before its place");
    *from = l->begin + at[0];
    *to = l->begin + at[1];
    return NEAP_OK;
}

/* The next part of level k: the waiting match, or the gap before a match, or a match. Empty for
 * what is dropped. */
static neap_status cut(np_words *w, int k, np_bytes *part)
{
    piece *l = &w->level[k];
    np_cut_keep keep = w->pretokenizer->keep[k];
    const uint8_t *from = l->at, *to = l->match_end;
    bool is_match = to != NULL;
    l->match_end = NULL;
    if (!is_match) {
        const uint8_t *match;
        neap_status status = find_match(w, k, &match, &to);
        if (status != NEAP_OK)
            return status;
        is_match = match == from;
        if (!is_match && keep != NP_CUT_MATCH_WITH_GAP) {
            l->match_end = to > match ? to : NULL;
            to = match;
        }
    }
    l->at = to;
    bool dropped = is_match ? keep == NP_CUT_GAPS : keep == NP_CUT_MATCHES;
    *part = (np_bytes){from, dropped ? 0 : (uint64_t)(to - from)};
    return NEAP_OK;
}

neap_status np_words_next(np_words *w, np_bytes *word)
{
    int count = w->pretokenizer->count;
    *word = (np_bytes){NULL, 0};
    for (;;) {
        np_bytes part = {NULL, 0};
        if (w->depth < 0) {
            if (w->rest.n == 0)
                return NEAP_OK;
            bool valid;
            part = (np_bytes){w->rest.p, uniform_run(w->rest, &valid)};
            w->rest.p += part.n;
            w->rest.n -= part.n;
            if (!valid) {
                *word = part;
                return NEAP_OK;
            }
        } else if (w->level[w->depth].at == w->level[w->depth].end) {
            w->depth--;
            continue;
        } else {
            neap_status status = cut(w, w->depth, &part);
            if (status != NEAP_OK)
                return status;
            if (part.n == 0)
                continue;
        }
        if (w->depth + 1 == count) {
            *word = part;
            return NEAP_OK;
        }
        w->level[++w->depth] = (piece){part.p, part.p, part.p + part.n, NULL};
    }
}
