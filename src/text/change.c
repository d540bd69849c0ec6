/* change.c - the steps that change a text as a whole: normal forms by utf8proc, with the memory on
 * the ledger, and what Hugging Face's normalizers do character by character. */
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/steps.h"
#include "text/tokenizer.h"

typedef struct change {
    np_matcher *matcher;
    const np_steps *steps;
    int at;
    neap_context *ctx;
    const np_step *step;
    neap_text *out;
} change;

static neap_status append(change *c, const void *bytes, size_t n)
{
    return np_text_append(c->ctx, c->out, bytes, n) ? NEAP_OK : NEAP_ENOMEM;
}

/* ---- normal forms --------------------------------------------------------------------------- */

/* How many bytes from the start are in every form already and cannot join what follows: ASCII, but
 * for the last character. */
static uint64_t plain_run(np_bytes text)
{
    uint64_t n = 0;
    while (n < text.n && text.p[n] < 0x80)
        n++;
    return n == text.n || n == 0 ? n : n - 1;
}

static utf8proc_option_t options_of(np_step_kind kind)
{
    utf8proc_option_t o = UTF8PROC_STABLE;
    o |= kind == NP_STEP_NFC || kind == NP_STEP_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    return o | (kind == NP_STEP_NFKC || kind == NP_STEP_NFKD ? UTF8PROC_COMPAT : 0);
}

/* utf8proc works on 4 bytes a character and makes them UTF-8 in place, with a NUL behind. */
static neap_status append_form(change *c, np_step_kind kind, np_bytes text)
{
    utf8proc_option_t options = options_of(kind);
    utf8proc_ssize_t n = utf8proc_decompose(text.p, (utf8proc_ssize_t)text.n, NULL, 0, options);
    if (n < 0)
        return np_fail(c->ctx, NEAP_ELIMIT, "a text of %llu bytes cannot be normalised: %s",
                       (unsigned long long)text.n, utf8proc_errmsg(n));
    size_t bytes = ((size_t)n + 1) * sizeof(utf8proc_int32_t);
    utf8proc_int32_t *codes = np_alloc(c->ctx, NEAP_MEM_HOST, bytes);
    if (!codes)
        return NEAP_ENOMEM;
    n = utf8proc_decompose(text.p, (utf8proc_ssize_t)text.n, codes, n, options);
    n = n < 0 ? n : utf8proc_reencode(codes, n, options);
    neap_status status = n < 0 ? NEAP_OK : append(c, codes, (size_t)n);
    np_free(c->ctx, NEAP_MEM_HOST, codes, bytes);
    return n < 0 ? np_fail(c->ctx, NEAP_ELIMIT, "a text cannot be normalised: %s",
                           utf8proc_errmsg(n))
                 : status;
}

static neap_status normal_form(change *c, np_step_kind kind, np_bytes text)
{
    uint64_t plain = plain_run(text);
    neap_status status = append(c, text.p, plain);
    text = (np_bytes){text.p + plain, text.n - plain};
    return status == NEAP_OK && text.n ? append_form(c, kind, text) : status;
}

/* ---- character by character ----------------------------------------------------------------- */

enum { GONE = -1, AS_IT_IS = -2 };

static bool is_nonspacing(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_MN;
}

static bool is_mark(uint32_t code)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)code);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
}

/* As sentencepiece's nmt_nfkc counts them. */
static int32_t nmt(uint32_t code)
{
    if ((code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
        code == 0x8F || code == 0x9F)
        return GONE;
    bool space = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                 (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 ||
                 code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    return space ? ' ' : AS_IT_IS;
}

static int32_t clean(uint32_t code)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)code);
    if (code == '\t' || code == '\n' || code == '\r')
        return ' ';
    if (code == 0 || code == 0xFFFD || k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF ||
        k == UTF8PROC_CATEGORY_CN || k == UTF8PROC_CATEGORY_CO || k == UTF8PROC_CATEGORY_CS)
        return GONE;
    return np_is_white_space(code) ? ' ' : AS_IT_IS;
}

static int32_t changed_code(np_step_kind kind, uint32_t code)
{
    switch (kind) {
    case NP_STEP_LOWERCASE: return utf8proc_tolower((utf8proc_int32_t)code);
    case NP_STEP_STRIP_MARKS: return is_mark(code) ? GONE : AS_IT_IS;
    case NP_STEP_STRIP_NONSPACING: return is_nonspacing(code) ? GONE : AS_IT_IS;
    case NP_STEP_NMT: return nmt(code);
    case NP_STEP_CLEAN: return clean(code);
    default: return AS_IT_IS;
    }
}

static neap_status each_character(change *c, np_bytes text, bool *first)
{
    static const uint8_t dotted[] = "i\xCC\x87"; /* of U+0130: the one that becomes two */
    size_t n;
    neap_status status = NEAP_OK;
    for (uint64_t at = 0; at < text.n && status == NEAP_OK; at += n) {
        uint8_t encoded[4];
        np_utf8_next(text.p + at, text.n - at, &n);
        uint32_t code = np_utf8_decode(text.p + at, n);
        int32_t to = changed_code(c->step->kind, code);
        if (to == GONE)
            *first = *first && at > 0;
        else if (c->step->kind == NP_STEP_LOWERCASE && code == 0x130)
            status = append(c, dotted, 3);
        else if (to == AS_IT_IS)
            status = append(c, text.p + at, n);
        else
            status = append(c, encoded, np_utf8_encode((uint32_t)to, encoded));
    }
    return status;
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static neap_status space_chinese(change *c, np_bytes text)
{
    size_t n;
    neap_status status = NEAP_OK;
    for (uint64_t at = 0; at < text.n && status == NEAP_OK; at += n) {
        np_utf8_next(text.p + at, text.n - at, &n);
        bool apart = is_chinese(np_utf8_decode(text.p + at, n));
        if (apart)
            status = append(c, " ", 1);
        if (status == NEAP_OK)
            status = append(c, text.p + at, n);
        if (apart && status == NEAP_OK)
            status = append(c, " ", 1);
    }
    return status;
}

static neap_status letters(change *c, np_bytes text)
{
    neap_status status = NEAP_OK;
    for (uint64_t at = 0; at < text.n && status == NEAP_OK; at++) {
        uint8_t letter[4];
        status = append(c, letter, np_utf8_encode(np_byte_to_alphabet(text.p[at]), letter));
    }
    return status;
}

/* ---- whole texts ---------------------------------------------------------------------------- */

/* The length of the white space character there, or 0. */
static size_t space_at(np_bytes text, uint64_t at)
{
    size_t n;
    if (np_utf8_next(text.p + at, text.n - at, &n) != NP_UTF8_CHAR)
        return 0;
    return np_is_white_space(np_utf8_decode(text.p + at, n)) ? n : 0;
}

uint64_t np_before_spaces(np_bytes text, uint64_t low, uint64_t end)
{
    for (;;) {
        uint64_t at = end;
        while (at > low && (at == end || (text.p[at] & 0xC0) == 0x80))
            at--;
        if (at == end || space_at((np_bytes){text.p, end}, at) != end - at)
            return end;
        end = at;
    }
}

uint64_t np_behind_spaces(np_bytes text, uint64_t at)
{
    size_t n;
    while (at < text.n && (n = space_at(text, at)) > 0)
        at += n;
    return at;
}

static neap_status strip(change *c, np_bytes text, bool *first)
{
    uint64_t from = c->step->left ? np_behind_spaces(text, 0) : 0;
    uint64_t to = c->step->right ? np_before_spaces(text, from, text.n) : text.n;
    *first = *first && from == 0;
    return append(c, text.p + from, to - from);
}

static uint64_t characters_of(np_bytes text)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < text.n; i++)
        n += (text.p[i] & 0xC0) != 0x80;
    return n;
}

static neap_status replace(change *c, np_bytes text, bool *first)
{
    np_search search = {.text = text};
    uint64_t done = 0, from, to;
    for (;;) {
        bool found;
        neap_status status =
            np_search_next(c->matcher, c->steps, c->at, &search, &from, &to, &found);
        if (status == NEAP_OK)
            status = append(c, text.p + done, (found ? from : text.n) - done);
        if (status != NEAP_OK || !found)
            return status;
        /* What replaces several characters counts as the last of them. */
        if (from == 0 && to > 0 &&
            (c->step->text.n == 0 || characters_of((np_bytes){text.p, to}) > 1))
            *first = false;
        status = append(c, c->step->text.p, c->step->text.n);
        if (status != NEAP_OK)
            return status;
        done = to;
    }
}

static bool starts_with(np_bytes text, np_bytes what)
{
    return text.n >= what.n && (what.n == 0 || memcmp(text.p, what.p, what.n) == 0);
}

static neap_status prepend(change *c, np_bytes text, bool first)
{
    const np_step *s = c->step;
    bool lead = s->kind == NP_STEP_PREPEND || (!starts_with(text, s->text) && (!s->first || first));
    neap_status status = lead ? append(c, s->text.p, s->text.n) : NEAP_OK;
    return status == NEAP_OK ? append(c, text.p, text.n) : status;
}

neap_status np_step_apply(np_matcher *matcher, const np_steps *steps, int step, np_bytes text,
                          neap_text *out, bool *first)
{
    change c = {.matcher = matcher,
                .steps = steps,
                .at = step,
                .ctx = np_matcher_context(matcher),
                .step = np_steps_at(steps, step),
                .out = out};
    switch (c.step->kind) {
    case NP_STEP_NFC:
    case NP_STEP_NFD:
    case NP_STEP_NFKC:
    case NP_STEP_NFKD: return normal_form(&c, c.step->kind, text);
    case NP_STEP_STRIP: return strip(&c, text, first);
    case NP_STEP_REPLACE: return replace(&c, text, first);
    case NP_STEP_PREPEND:
    case NP_STEP_LEAD: return prepend(&c, text, *first);
    case NP_STEP_SPACE_CHINESE: return space_chinese(&c, text);
    case NP_STEP_LETTERS: return letters(&c, text);
    default: return each_character(&c, text, first);
    }
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Alphabetic, marks, decimal digits, connectors and joiners. */
static bool is_word(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) ||
           k == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D ||
           (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool np_starts_in_word(np_bytes text)
{
    size_t n;
    return text.n && np_utf8_next(text.p, text.n, &n) == NP_UTF8_CHAR &&
           is_word(np_utf8_decode(text.p, n));
}

bool np_ends_in_word(np_bytes text)
{
    uint64_t at = text.n;
    while (at > 0 && at + 4 > text.n) {
        at--;
        size_t n;
        if ((text.p[at] & 0xC0) != 0x80)
            return np_utf8_next(text.p + at, text.n - at, &n) == NP_UTF8_CHAR &&
                   n == text.n - at && is_word(np_utf8_decode(text.p + at, n));
    }
    return false;
}
