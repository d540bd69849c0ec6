/* jinja_chars.c - characters as Python's str has them: white space, case, what repr() shows. */
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/jinja_value.h"

typedef np_jinja_value value;

size_t np_jinja_char(const uint8_t *p, size_t left, uint32_t *code)
{
    size_t n;
    if (np_utf8_next(p, left, &n) == NP_UTF8_CHAR) {
        *code = np_utf8_decode(p, n);
        return n;
    }
    *code = 0xFFFD;
    return 1;
}

size_t np_jinja_char_count(np_bytes text)
{
    size_t count = 0;
    uint32_t code;
    for (size_t at = 0; at < text.n; count++)
        at += np_jinja_char(text.p + at, text.n - at, &code);
    return count;
}

bool np_jinja_space(uint32_t code)
{
    return np_is_white_space(code) || (code >= 28 && code <= 31);
}

static bool is_one_of(np_bytes which, const uint8_t *p, size_t n)
{
    uint32_t code;
    for (size_t at = 0, k; at < which.n; at += k) {
        k = np_jinja_char(which.p + at, which.n - at, &code);
        if (k == n && memcmp(which.p + at, p, n) == 0)
            return true;
    }
    return false;
}

static size_t last_char(np_bytes text, uint32_t *code)
{
    for (size_t back = 4; back > 1; back--)
        if (back <= text.n && np_jinja_char(text.p + text.n - back, back, code) == back)
            return back;
    return np_jinja_char(text.p + text.n - 1, 1, code);
}

np_bytes np_jinja_strip(np_bytes text, const np_bytes *which, bool left, bool right)
{
    uint32_t code;
    while (left && text.n) {
        const size_t n = np_jinja_char(text.p, text.n, &code);
        if (which ? !is_one_of(*which, text.p, n) : !np_jinja_space(code))
            break;
        text.p += n;
        text.n -= n;
    }
    while (right && text.n) {
        const size_t n = last_char(text, &code);
        if (which ? !is_one_of(*which, text.p + text.n - n, n) : !np_jinja_space(code))
            break;
        text.n -= n;
    }
    return text;
}

bool np_jinja_stripped(np_jinja *j, np_bytes text, const np_bytes *which, bool left, bool right, np_bytes *out)
{
    const uint64_t each = 1 + (which ? which->n / 16 : 0);
    if (!np_jinja_step(j, text.n / NP_JINJA_STEP_BYTES * each))
        return false;
    *out = np_jinja_strip(text, which, left, right);
    return true;
}

/* ---- case -------------------------------------------------------------------------------------- */

static const struct special_case {
    uint32_t code;
    const char *upper, *title;
} special_cases[] = {
#define NP_CASE(code, upper, title) {code, upper, title},
#include "text/jinja/jinja_cases.def"
#undef NP_CASE
};

static bool is_cased(uint32_t code)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
           code == 0xAA || code == 0xBA || utf8proc_islower((utf8proc_int32_t)code) ||
           utf8proc_isupper((utf8proc_int32_t)code);
}

/* Characters that a final sigma looks through. */
static bool is_case_ignorable(uint32_t code)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK || code == '\'' || code == '.' ||
           code == ':' || code == 0xB7 || code == 0x2018 || code == 0x2019 || code == 0x2024 ||
           code == 0x2027;
}

/* Is the capital sigma at `at` the last letter of its word? */
static bool is_final_sigma(np_bytes text, size_t at)
{
    uint32_t code = 0;
    np_bytes before = {text.p, at};
    do {
        if (before.n == 0)
            return false;
        before.n -= last_char(before, &code);
    } while (is_case_ignorable(code));
    if (!is_cased(code))
        return false;
    for (size_t next = at + 2; next < text.n;) {
        next += np_jinja_char(text.p + next, text.n - next, &code);
        if (!is_case_ignorable(code))
            return !is_cased(code);
    }
    return true;
}

static bool write_code(np_jinja *j, uint32_t code)
{
    uint8_t bytes[4];
    return np_jinja_write(j, bytes, np_utf8_encode(code, bytes));
}

static bool write_upper(np_jinja *j, uint32_t code, bool title)
{
    for (size_t i = 0; code >= 0xDF && i < sizeof special_cases / sizeof special_cases[0]; i++)
        if (special_cases[i].code == code)
            return np_jinja_write_string(j, title ? special_cases[i].title : special_cases[i].upper);
    const utf8proc_int32_t c = (utf8proc_int32_t)code;
    return write_code(j, (uint32_t)(title ? utf8proc_totitle(c) : utf8proc_toupper(c)));
}

static bool write_lower(np_jinja *j, np_bytes text, size_t at, uint32_t code)
{
    if (code == 0x130)
        return np_jinja_write_string(j, "i\xCC\x87");
    if (code == 0x3A3)
        return write_code(j, is_final_sigma(text, at) ? 0x3C2 : 0x3C3);
    return write_code(j, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
}

static bool begins_word(uint32_t before)
{
    return np_jinja_space(before) || (before < 0x80 && before && strchr("-({[<", (int)before));
}

bool np_jinja_change_case(np_jinja *j, np_bytes text, np_jinja_case how, value *out)
{
    const size_t start = j->out->length;
    uint32_t code, before = 0;
    size_t word = 0; /* of the filter `title`: each word is lowered by itself */
    for (size_t at = 0, n; at < text.n; at += n, before = code) {
        n = np_jinja_char(text.p + at, text.n - at, &code);
        const bool first = at == 0 || (how == NP_JINJA_TITLE && !is_cased(before)) ||
                           (how == NP_JINJA_TITLE_WORDS && begins_word(before));
        if (first && how == NP_JINJA_TITLE_WORDS)
            word = at + n;
        bool good;
        if (code == 0xFFFD && n == 1)
            good = np_jinja_write(j, text.p + at, 1);
        else if (how == NP_JINJA_UPPER || (how == NP_JINJA_TITLE_WORDS && first))
            good = write_upper(j, code, false);
        else if (how != NP_JINJA_LOWER && first)
            good = write_upper(j, code, true);
        else
            good = write_lower(j, (np_bytes){text.p + word, text.n - word}, at - word, code);
        if (!good)
            return false;
    }
    return np_jinja_taken(j, start, out);
}

bool np_jinja_is_case(np_bytes text, bool upper)
{
    bool any = false;
    uint32_t code;
    for (size_t at = 0; at < text.n;) {
        at += np_jinja_char(text.p + at, text.n - at, &code);
        const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
        if (!is_cased(code))
            continue;
        if (upper ? c != UTF8PROC_CATEGORY_LU : c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LT)
            return false;
        any = true;
    }
    return any;
}

bool np_jinja_printable(uint32_t code)
{
    if (code < 0x80)
        return code >= 32 && code < 127;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

size_t np_jinja_search(np_bytes text, np_bytes what, size_t from)
{
    if (what.n == 0)
        return from;
    if (text.n - from < what.n)
        return SIZE_MAX;
    const uint8_t *p = memmem(text.p + from, text.n - from, what.p, what.n);
    return p ? (size_t)(p - text.p) : SIZE_MAX;
}
