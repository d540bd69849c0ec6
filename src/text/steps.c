/* steps.c - a list of steps, its patterns compiled, and the walk over parts: one step after the
 * other, without recursion. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/steps.h"

#include <pcre2.h>

#include "base/utf8.h"

/* Patterns for words have no nested repeats, so a text needs few steps a byte and little heap. A
 * file's own may be hostile: the limit grows with what is left to match, not with its square. */
enum { STEPS_AT_LEAST = 100000, STEPS_A_BYTE = 100, HEAP_LIMIT_KIB = 1024 };
static const uint64_t STEPS_AT_MOST = 100000000;

struct np_steps {
    neap_context *ctx;
    int count;
    np_step step[NP_STEPS_LIMIT];
    pcre2_code *code[NP_STEPS_LIMIT];
    uint8_t *texts; /* of all steps */
    size_t text_bytes;
};

struct np_matcher {
    neap_context *ctx;
    pcre2_general_context *general;
    pcre2_match_context *context;
    pcre2_match_data *data;
};

/* A part of what a cut finds: a match or a gap. */
typedef struct item {
    uint64_t from, to;
    bool is_match;
} item;

/* A text that a step is working on. */
typedef struct level {
    np_search search;
    uint64_t done;  /* items were given as far as here */
    bool first;     /* the whole text starts with it */
    bool ended;     /* no further match */
    int n_waiting;
    item waiting[2];  /* found, and not given yet */
    neap_text changed; /* what the step made of it, if it does not cut */
} level;

struct np_parts {
    neap_context *ctx;
    const np_steps *steps;
    np_matcher matcher;
    np_bytes rest;  /* of the text, behind level[0] */
    bool rest_first;
    int depth; /* of `level` in use; -1: none */
    level level[NP_STEPS_LIMIT];
};

/* ---- the list ------------------------------------------------------------------------------- */

static void *pcre2_alloc(size_t bytes, void *ctx)
{
    return np_alloc_sized(ctx, NEAP_MEM_HOST, bytes);
}

static void pcre2_give_back(void *p, void *ctx)
{
    np_free_sized(ctx, NEAP_MEM_HOST, p);
}

/* `^` and `$` are at every line in the language of tokenizer.json; others do not use them. */
static pcre2_code *compile(neap_context *ctx, const np_step *step, pcre2_compile_context *how)
{
    uint32_t options = PCRE2_UTF | (step->literal ? PCRE2_LITERAL
                                                  : PCRE2_UCP | PCRE2_MULTILINE |
                                                        PCRE2_NEVER_BACKSLASH_C);
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code =
        pcre2_compile(step->pattern.p, step->pattern.n, options, &error, &offset, how);
    if (!code)
        np_fail(ctx, NEAP_EUNSUPPORTED, "PCRE2 refuses the pattern \"%.*s\": error %d at %zu",
                step->pattern.n < 256 ? (int)step->pattern.n : 256, (const char *)step->pattern.p,
                error, offset);
    return code;
}

static bool has_pattern(const np_step *step)
{
    return step->kind == NP_STEP_CUT || step->kind == NP_STEP_REPLACE;
}

static bool keep_texts(np_steps *s, const np_step *steps, int count)
{
    for (int i = 0; i < count; i++)
        s->text_bytes += steps[i].text.n;
    s->texts = np_alloc(s->ctx, NEAP_MEM_HOST, s->text_bytes);
    if (!s->texts)
        return false;
    uint8_t *to = s->texts;
    for (int i = 0; i < count; i++) {
        s->step[i] = steps[i];
        s->step[i].pattern = (np_bytes){NULL, 0};
        if (steps[i].text.n)
            memcpy(to, steps[i].text.p, steps[i].text.n);
        s->step[i].text.p = to;
        to += steps[i].text.n;
    }
    return true;
}

neap_status np_steps_new(neap_context *ctx, const np_step *steps, int count, np_steps **out)
{
    *out = NULL;
    np_steps *s = np_calloc(ctx, NEAP_MEM_HOST, sizeof *s);
    if (!s)
        return NEAP_ENOMEM;
    s->ctx = ctx;
    pcre2_general_context *general =
        pcre2_general_context_create(pcre2_alloc, pcre2_give_back, ctx);
    pcre2_compile_context *how = general ? pcre2_compile_context_create(general) : NULL;
    bool good = how && pcre2_set_newline(how, PCRE2_NEWLINE_LF) == 0 && keep_texts(s, steps, count);
    for (int i = 0; i < count && good; i++) {
        s->count = i + 1;
        if (has_pattern(&steps[i])) {
            s->code[i] = compile(ctx, &steps[i], how);
            good = s->code[i] != NULL;
        }
    }
    pcre2_compile_context_free(how);
    pcre2_general_context_free(general);
    if (!good) {
        np_steps_free(s);
        neap_status status = neap_context_status(ctx);
        return status != NEAP_OK ? status : NEAP_ENOMEM;
    }
    *out = s;
    return NEAP_OK;
}

void np_steps_free(np_steps *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->count; i++)
        pcre2_code_free(s->code[i]);
    np_free(s->ctx, NEAP_MEM_HOST, s->texts, s->text_bytes);
    np_free(s->ctx, NEAP_MEM_HOST, s, sizeof *s);
}

const np_step *np_steps_at(const np_steps *s, int step)
{
    return &s->step[step];
}

/* ---- matches -------------------------------------------------------------------------------- */

static bool matcher_init(np_matcher *m, neap_context *ctx)
{
    m->ctx = ctx;
    m->general = pcre2_general_context_create(pcre2_alloc, pcre2_give_back, ctx);
    m->context = m->general ? pcre2_match_context_create(m->general) : NULL;
    m->data = m->context ? pcre2_match_data_create(1, m->general) : NULL;
    return m->data && pcre2_set_heap_limit(m->context, HEAP_LIMIT_KIB) == 0;
}

static void matcher_close(np_matcher *m)
{
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_general_context_free(m->general);
}

neap_context *np_matcher_context(const np_matcher *m)
{
    return m->ctx;
}

static neap_status match_failed(const np_matcher *m, int code)
{
    if (code == PCRE2_ERROR_NOMEMORY && neap_context_status(m->ctx) != NEAP_OK)
        return neap_context_status(m->ctx);
    return np_fail(m->ctx, NEAP_ELIMIT, "the text cannot be cut into words: PCRE2 error %d%s", code,
                   code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_HEAPLIMIT
                       ? " (its step or memory limit)"
                       : "");
}

/* An empty match where the last match ended is passed over, by one character. */
neap_status np_search_next(np_matcher *m, const np_steps *steps, int step, np_search *s,
                           uint64_t *from, uint64_t *to, bool *found)
{
    *found = false;
    while (s->at <= s->text.n) {
        uint64_t budget = STEPS_AT_LEAST + (s->text.n - s->at) * STEPS_A_BYTE;
        pcre2_set_match_limit(m->context,
                              (uint32_t)(budget < STEPS_AT_MOST ? budget : STEPS_AT_MOST));
        int n = pcre2_match(steps->code[step], s->text.p, s->text.n, s->at, PCRE2_NO_UTF_CHECK,
                            m->data, m->context);
        if (n == PCRE2_ERROR_NOMATCH)
            return NEAP_OK;
        if (n < 0)
            return match_failed(m, n);
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(m->data);
        /* \K or a look behind may place a match before where it was looked for, or turn it round. */
        if (at[0] < s->at || at[1] < at[0])
            return np_fail(m->ctx, NEAP_EUNSUPPORTED, "a pattern's match starts before its place");
        *from = at[0];
        *to = at[1];
        if (*from == *to && s->matched && s->last_end == *to) {
            size_t length = 1;
            if (s->at < s->text.n)
                np_utf8_next(s->text.p + s->at, s->text.n - s->at, &length);
            s->at += length;
            continue;
        }
        s->at = s->last_end = *to;
        s->matched = *found = true;
        return NEAP_OK;
    }
    return NEAP_OK;
}

/* ---- the walk ------------------------------------------------------------------------------- */

neap_status np_parts_new(neap_context *ctx, const np_steps *steps, np_parts **out)
{
    *out = NULL;
    np_parts *w = np_calloc(ctx, NEAP_MEM_HOST, sizeof *w);
    if (!w)
        return NEAP_ENOMEM;
    w->ctx = ctx;
    w->steps = steps;
    w->depth = -1;
    if (!matcher_init(&w->matcher, ctx)) {
        np_parts_free(w);
        return NEAP_ENOMEM;
    }
    *out = w;
    return NEAP_OK;
}

void np_parts_free(np_parts *w)
{
    if (!w)
        return;
    for (int i = 0; i < NP_STEPS_LIMIT; i++)
        neap_text_free(w->ctx, &w->level[i].changed);
    matcher_close(&w->matcher);
    np_free(w->ctx, NEAP_MEM_HOST, w, sizeof *w);
}

void np_parts_start(np_parts *w, np_bytes text, bool first)
{
    w->rest = text;
    w->rest_first = first;
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

static void add_item(const np_step *step, level *l, uint64_t from, uint64_t to, bool is_match)
{
    l->waiting[l->n_waiting++] = (item){from, to, is_match != step->invert};
    l->done = to;
}

/* The first of the items still to be given, if there is one. A search puts at most two there. */
static neap_status peek(np_parts *w, int k, const item **out)
{
    level *l = &w->level[k];
    const np_step *step = &w->steps->step[k];
    *out = l->n_waiting ? &l->waiting[0] : NULL;
    if (*out || l->ended)
        return NEAP_OK;
    uint64_t from, to;
    bool found;
    neap_status status = np_search_next(&w->matcher, w->steps, k, &l->search, &from, &to, &found);
    if (status != NEAP_OK)
        return status;
    if (found) {
        if (from > l->done)
            add_item(step, l, l->done, from, false);
        add_item(step, l, from, to, true);
    } else {
        l->ended = true;
        if (l->done < l->search.text.n)
            add_item(step, l, l->done, l->search.text.n, false);
    }
    *out = l->n_waiting ? &l->waiting[0] : NULL;
    return NEAP_OK;
}

static item take(level *l)
{
    item taken = l->waiting[0];
    l->waiting[0] = l->waiting[1];
    l->n_waiting--;
    return taken;
}

/* Does `next` belong to the same part as `last`? */
static bool joins(np_cut_keep keep, const item *last, const item *next, int n_items)
{
    switch (keep) {
    case NP_CUT_CONTIGUOUS: return last->is_match == next->is_match;
    case NP_CUT_WITH_PREVIOUS: return !last->is_match && next->is_match;
    case NP_CUT_WITH_NEXT: return n_items == 1 && last->is_match && !next->is_match;
    default: return false;
    }
}

/* The next part of level k, empty for what is dropped. false: there is none. */
static neap_status cut(np_parts *w, int k, np_bytes *part, bool *any)
{
    level *l = &w->level[k];
    np_cut_keep keep = w->steps->step[k].keep;
    const item *next;
    neap_status status = peek(w, k, &next);
    *any = next != NULL;
    if (status != NEAP_OK || !next)
        return status;
    item last = take(l);
    uint64_t from = last.from;
    bool dropped = keep == NP_CUT_REMOVED && last.is_match;
    for (int n = 1;; n++) {
        status = keep == NP_CUT_ISOLATED || keep == NP_CUT_REMOVED ? NEAP_OK : peek(w, k, &next);
        if (status != NEAP_OK)
            return status;
        if (keep == NP_CUT_ISOLATED || keep == NP_CUT_REMOVED || !next ||
            !joins(keep, &last, next, n))
            break;
        last = take(l);
    }
    *part = (np_bytes){l->search.text.p + from, dropped ? 0 : last.to - from};
    return NEAP_OK;
}

static void run_of(np_parts *w, int k, np_bytes *part, bool *any)
{
    level *l = &w->level[k];
    uint64_t from = l->done;
    *any = from < l->search.text.n;
    for (uint32_t i = 0; i < w->steps->step[k].count && l->done < l->search.text.n; i++) {
        size_t length;
        np_utf8_next(l->search.text.p + l->done, l->search.text.n - l->done, &length);
        l->done += length;
    }
    *part = (np_bytes){l->search.text.p + from, l->done - from};
}

/* The next part that level k makes. */
static neap_status part_of(np_parts *w, int k, np_bytes *part, bool *first, bool *any)
{
    level *l = &w->level[k];
    np_step_kind kind = w->steps->step[k].kind;
    if (kind == NP_STEP_CUT || kind == NP_STEP_RUNS) {
        neap_status status = NEAP_OK;
        if (kind == NP_STEP_CUT)
            status = cut(w, k, part, any);
        else
            run_of(w, k, part, any);
        *first = l->first && *any && part->p == l->search.text.p;
        return status;
    }
    *any = !l->ended;
    *first = l->first;
    if (l->ended)
        return NEAP_OK;
    l->ended = true;
    l->changed.length = 0;
    neap_status status = np_step_apply(&w->matcher, w->steps, k, l->search.text, &l->changed, first);
    *part = (np_bytes){(const uint8_t *)l->changed.data, l->changed.length};
    return status;
}

static void enter(np_parts *w, np_bytes part, bool first)
{
    level *l = &w->level[++w->depth];
    neap_text kept = l->changed;
    *l = (level){.search = {.text = part}, .first = first, .changed = kept};
}

neap_status np_parts_next(np_parts *w, np_bytes *out, bool *first)
{
    *out = (np_bytes){NULL, 0};
    for (;;) {
        np_bytes part = {NULL, 0};
        bool part_first = w->rest_first, any = true;
        if (w->depth < 0) {
            if (w->rest.n == 0)
                return NEAP_OK;
            bool valid;
            part = (np_bytes){w->rest.p, uniform_run(w->rest, &valid)};
            w->rest.p += part.n;
            w->rest.n -= part.n;
            w->rest_first = false;
            if (!valid) {
                *out = part;
                *first = part_first;
                return NEAP_OK;
            }
        } else {
            neap_status status = part_of(w, w->depth, &part, &part_first, &any);
            if (status != NEAP_OK)
                return status;
            if (!any)
                w->depth--;
            if (part.n == 0)
                continue;
        }
        if (w->depth + 1 == w->steps->count) {
            *out = part;
            *first = part_first;
            return NEAP_OK;
        }
        enter(w, part, part_first);
    }
}
