/* split_pattern.c - one walk over the expression; see split_pattern.h. */
#include "text/split_pattern.h"

#include <stdio.h>

#include "text/tokenizer.h"

/* \w outside a class: there Oniguruma's table for Latin-1 counts numbers that are no digits. */
#define LATIN_NUMBERS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"
#define IN_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define OUT_WORD "[" IN_WORD LATIN_NUMBERS "]"

enum { GROUPS_LIMIT = 64, EXCEPT_BYTES = 512 };

/* A class: its members, and sets of which everything but the members is in it. */
typedef struct members {
    bool negated;
    size_t start;               /* in `out`, behind the bracket */
    char except[EXCEPT_BYTES];  /* "[^..]" for each such set, one behind the other */
    int n_except;
} members;

typedef struct walk {
    neap_context *ctx;
    np_bytes pattern;
    uint64_t at;
    neap_text *out;
    uint8_t more[GROUPS_LIMIT]; /* how many groups an option opened in each group that is open */
    int depth;
    bool any_case;  /* somewhere */
    bool has_names, has_numbers; /* named groups, references by number */
} walk;

static neap_status refuse(walk *w, const char *what)
{
    return np_fail(w->ctx, NEAP_EUNSUPPORTED, "pattern \"%.*s\", byte %llu: %s is not supported",
                   w->pattern.n < 256 ? (int)w->pattern.n : 256, (const char *)w->pattern.p,
                   (unsigned long long)w->at, what);
}

static neap_status put(walk *w, const char *text, size_t n)
{
    return np_text_append(w->ctx, w->out, text, n) ? NEAP_OK : NEAP_ENOMEM;
}

static neap_status put_text(walk *w, const char *text)
{
    return put(w, text, strlen(text));
}

/* Are these the next bytes? */
static bool here(const walk *w, const char *text)
{
    size_t n = strlen(text);
    return w->pattern.n - w->at >= n && memcmp(w->pattern.p + w->at, text, n) == 0;
}

static uint8_t byte_at(const walk *w, uint64_t at)
{
    return at < w->pattern.n ? w->pattern.p[at] : 0;
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(uint8_t c)
{
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* ---- escapes -------------------------------------------------------------------------------- */

/* \x41 \x{e9} \u00e9 \101 \n: one character, by its number. Bytes over 0x7F are parts of one. */
static neap_status number(walk *w, bool *is)
{
    uint8_t letter = byte_at(w, w->at + 1);
    uint64_t from = w->at + 2, to;
    unsigned base = 16, most = 2;
    *is = letter == 'x' || letter == 'u' || letter == '0';
    if (!*is)
        return NEAP_OK;
    bool braced = letter == 'x' && byte_at(w, from) == '{';
    if (letter == '0') {
        base = 8;
    } else if (letter == 'u' || braced) {
        most = letter == 'u' ? 4 : 8;
        from += braced;
    }
    unsigned long code = 0;
    for (to = from; to < from + most && is_hex(byte_at(w, to)) &&
                    (base == 16 || byte_at(w, to) < '8'); to++) {
        uint8_t c = w->pattern.p[to];
        code = code * base + (is_digit(c) ? c - (unsigned)'0' : (c | 32u) - (unsigned)'a' + 10u);
    }
    bool whole = letter == 'u' ? to == from + 4 : to > from || letter == '0';
    if (!whole || (braced && byte_at(w, to) != '}') || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000) || (!braced && letter != 'u' && code > 0x7F))
        return refuse(w, "this number of a character");
    char text[16];
    snprintf(text, sizeof text, "\\x{%lX}", code);
    w->at = to + braced;
    return put_text(w, text);
}

/* \p{..} \P{..}, with the name as it stands there. */
static neap_status property(walk *w, np_split_set *out, bool *negated)
{
    const uint8_t *start = w->pattern.p + w->at + 3;
    const uint8_t *end = memchr(start, '}', w->pattern.n - w->at - 3);
    if (!end)
        return refuse(w, "an open brace");
    np_bytes name = {start, (uint64_t)(end - start)};
    *negated = byte_at(w, w->at + 1) == 'P';
    if (name.n && *name.p == '^') {
        *negated = !*negated;
        name.p++;
        name.n--;
    }
    if (!np_split_property(name, false, out))
        return refuse(w, "this property");
    w->at += (uint64_t)(end - start) + 4;
    return NEAP_OK;
}

/* A set that a letter or a property stands for. false: it is another escape. */
static neap_status set_escape(walk *w, bool inside, np_split_set *out, bool *negated, bool *is)
{
    static const struct {
        char letter;
        const char *set, *others;
    } letters[] = {
        {'s', "\\p{WSpace}", "\\P{WSpace}"},
        {'d', "\\p{Nd}",     "\\P{Nd}"    },
        {'h', "0-9a-fA-F",   ""           },
        {'w', IN_WORD,       ""           },
    };
    uint8_t letter = byte_at(w, w->at + 1);
    *is = true;
    if ((letter == 'p' || letter == 'P') && byte_at(w, w->at + 2) == '{') {
        neap_status status = property(w, out, negated);
        if (status == NEAP_OK && !inside && strcmp(out->set, IN_WORD) == 0)
            strcat(out->set, LATIN_NUMBERS);
        return status;
    }
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if ((letter | 32) != letters[i].letter)
            continue;
        *negated = letter < 'a';
        snprintf(out->set, sizeof out->set, "%s%s", letters[i].set,
                 letter == 'w' || letter == 'W' ? (inside ? "" : LATIN_NUMBERS) : "");
        snprintf(out->others, sizeof out->others, "%s", letters[i].others);
        w->at += 2;
        return NEAP_OK;
    }
    *is = false;
    return NEAP_OK;
}

/* A set by itself, outside a class: what is wanted, or all but what is not. */
static neap_status put_set(walk *w, const np_split_set *set, bool negated)
{
    const char *wanted = negated ? set->others : set->set, *other = negated ? set->set : set->others;
    char text[NP_SPLIT_SET + 4];
    snprintf(text, sizeof text, wanted[0] ? "[%s]" : "[^%s]", wanted[0] ? wanted : other);
    return put_text(w, text);
}

/* Escapes that mean the same, and those that have to be said otherwise. */
static neap_status other_escape(walk *w, bool inside)
{
    static const struct {
        char letter;
        const char *text;
    } outside[] = {
        {'b', "(?:(?<=" OUT_WORD ")(?!" OUT_WORD ")|(?<!" OUT_WORD ")(?=" OUT_WORD "))"},
        {'B', "(?:(?<=" OUT_WORD ")(?=" OUT_WORD ")|(?<!" OUT_WORD ")(?!" OUT_WORD "))"},
        {'O', "(?s:.)"},
        {'R', "\\R"   },
        {'N', "\\N"   },
        {'A', "\\A"   },
        {'z', "\\z"   },
        {'Z', "\\Z"   },
        {'G', "\\G"   },
    };
    uint8_t letter = byte_at(w, w->at + 1);
    for (size_t i = 0; i < sizeof outside / sizeof *outside && !inside; i++) {
        if (outside[i].letter == letter) {
            w->at += 2;
            return put_text(w, outside[i].text);
        }
    }
    bool same = letter < 0x80 && letter != 0 &&
                (strchr("tnrfae", letter) || (inside && letter == 'b') ||
                 !((letter | 32) >= 'a' && (letter | 32) <= 'z') );
    if (is_digit(letter)) {
        same = !inside && letter != '0' && !is_digit(byte_at(w, w->at + 2));
        w->has_numbers = true;
    }
    const char *text = letter == 'v' ? "\\x{B}" : letter == 'Q' ? "Q" : letter == 'V' ? "V" : NULL;
    if ((letter == 'p' || letter == 'P') && !text)
        text = letter == 'p' ? "p" : "P"; /* without a brace it is a letter */
    if (!same && !text)
        return refuse(w, letter ? "this escape" : "a backslash at the end");
    neap_status status =
        text ? put_text(w, text) : put(w, (const char *)w->pattern.p + w->at, 2);
    w->at += 2;
    return status;
}

static neap_status escape(walk *w)
{
    np_split_set set;
    bool negated = false, is;
    neap_status status = set_escape(w, false, &set, &negated, &is);
    if (status != NEAP_OK || is)
        return status == NEAP_OK ? put_set(w, &set, negated) : status;
    status = number(w, &is);
    return status != NEAP_OK || is ? status : other_escape(w, false);
}

/* ---- classes -------------------------------------------------------------------------------- */

static neap_status add_set(walk *w, members *m, const char *set, bool all_but)
{
    if (!all_but)
        return put_text(w, set);
    size_t used = strlen(m->except);
    if (used + strlen(set) + 4 > EXCEPT_BYTES)
        return refuse(w, "a class of so many sets");
    snprintf(m->except + used, EXCEPT_BYTES - used, "%c%s", m->n_except ? '\n' : ' ', set);
    m->n_except++;
    return NEAP_OK;
}

static neap_status add_members(walk *w, members *m, const np_split_set *set, bool negated)
{
    const char *direct = negated ? set->others : set->set, *flipped = negated ? set->set : set->others;
    return direct[0] ? add_set(w, m, direct, false) : add_set(w, m, flipped, true);
}

/* [:alpha:] or [:^alpha:] */
static neap_status posix(walk *w, members *m, bool *is)
{
    uint64_t from = w->at + 2, to = from;
    np_split_set set;
    bool negated = byte_at(w, from) == '^';
    from += negated;
    for (to = from; to < w->pattern.n && w->pattern.p[to] >= 'a' && w->pattern.p[to] <= 'z'; to++) {
    }
    *is = byte_at(w, to) == ':' && byte_at(w, to + 1) == ']';
    if (!*is)
        return NEAP_OK;
    if (!np_split_property((np_bytes){w->pattern.p + from, to - from}, true, &set))
        return refuse(w, "this class");
    w->at = to + 2;
    return add_members(w, m, &set, negated);
}

/* A set in a set: [a[bc]] is their union; a negated one may have plain members only. */
static neap_status nested(walk *w, members *m)
{
    bool is = false;
    neap_status status = here(w, "[:") ? posix(w, m, &is) : NEAP_OK;
    if (status != NEAP_OK || is)
        return status;
    uint64_t from = w->at + 1;
    bool negated = byte_at(w, from) == '^';
    from += negated;
    uint64_t to = from;
    while (to < w->pattern.n && !strchr("[]\\&^", w->pattern.p[to]))
        to++;
    if (byte_at(w, to) != ']' || to == from || to - from >= NP_SPLIT_SET)
        return refuse(w, "a set inside a class");
    char text[NP_SPLIT_SET];
    memcpy(text, w->pattern.p + from, to - from);
    text[to - from] = 0;
    w->at = to + 1;
    return add_set(w, m, text, negated);
}

/* What `except` holds makes the class one of several, or one that looks ahead. */
static neap_status close_class(walk *w, members *m)
{
    w->at++;
    neap_status status = NEAP_OK;
    if (m->n_except == 0)
        return put_text(w, "]");
    char positive[EXCEPT_BYTES];
    size_t n = w->out->length - m->start;
    if (n >= sizeof positive)
        return refuse(w, "a class of so many sets");
    memcpy(positive, w->out->data + m->start, n);
    positive[n] = 0;
    w->out->length = m->start - (m->negated ? 2 : 1);
    status = put_text(w, "(?:");
    char *next = m->except;
    for (int i = 0; i < m->n_except && status == NEAP_OK; i++) {
        char *set = next + 1, *end = strchr(set, '\n');
        if (end)
            *end = 0;
        next = end;
        char text[EXCEPT_BYTES + 8];
        snprintf(text, sizeof text, m->negated ? "(?=[%s])" : i ? "|[^%s]" : "[^%s]", set);
        if (end)
            *end = '\n';
        status = put_text(w, text);
    }
    char text[EXCEPT_BYTES + 8] = "";
    if (m->negated)
        snprintf(text, sizeof text, n ? "[^%s]" : "(?s:.)%s", positive);
    else if (n)
        snprintf(text, sizeof text, "|[%s]", positive);
    if (status == NEAP_OK)
        status = put_text(w, text);
    return status == NEAP_OK ? put_text(w, ")") : status;
}

static neap_status member(walk *w, members *m)
{
    np_split_set set;
    bool negated = false, is;
    uint8_t c = byte_at(w, w->at);
    if (c == '[')
        return nested(w, m);
    if (here(w, "&&"))
        return refuse(w, "an intersection of classes");
    if (c != '\\') {
        if (w->any_case && c >= 0x80)
            return refuse(w, "a letter outside ASCII in any case");
        w->at++;
        return put(w, (const char *)&c, 1);
    }
    neap_status status = set_escape(w, true, &set, &negated, &is);
    if (status != NEAP_OK || is)
        return status == NEAP_OK ? add_members(w, m, &set, negated) : status;
    status = number(w, &is);
    return status != NEAP_OK || is ? status : other_escape(w, true);
}

static neap_status class(walk *w)
{
    members m = {0};
    w->at++;
    m.negated = byte_at(w, w->at) == '^';
    w->at += m.negated;
    if (byte_at(w, w->at) == ']')
        return refuse(w, "an empty class");
    neap_status status = put_text(w, m.negated ? "[^" : "[");
    m.start = w->out->length;
    while (status == NEAP_OK && w->at < w->pattern.n) {
        if (w->pattern.p[w->at] == ']')
            return close_class(w, &m);
        status = member(w, &m);
    }
    return status == NEAP_OK ? refuse(w, "an open class") : status;
}

/* ---- repeats and groups --------------------------------------------------------------------- */

/* {n} {n,} {n,m} {,m}. Anything else is a plain brace. */
static neap_status interval(walk *w)
{
    uint64_t i = w->at + 1, digits = 0, commas = 0;
    for (; byte_at(w, i) == ',' || is_digit(byte_at(w, i)); i++) {
        digits += w->pattern.p[i] != ',';
        commas += w->pattern.p[i] == ',';
    }
    if (byte_at(w, i) != '}' || digits == 0 || commas > 1) {
        w->at++;
        return put_text(w, "\\{");
    }
    if (byte_at(w, i + 1) == '+')
        return refuse(w, "an interval with a plus");
    if (byte_at(w, i + 1) == '?' && commas == 0)
        return refuse(w, "an exact interval with a question mark");
    neap_status status = put_text(w, byte_at(w, w->at + 1) == ',' ? "{0" : "{");
    if (status == NEAP_OK)
        status = put(w, (const char *)w->pattern.p + w->at + 1, i - w->at);
    w->at = i + 1;
    return status;
}

static neap_status open_group(walk *w, const char *text, size_t from_pattern)
{
    if (w->depth + 1 == GROUPS_LIMIT)
        return refuse(w, "a group so deep");
    w->more[++w->depth] = 0;
    w->at += from_pattern;
    return put_text(w, text);
}

/* (?i:..) is a group; (?i) one that ends where the group round it does. m is PCRE2's s. */
static neap_status options(walk *w)
{
    char text[16] = "(?";
    size_t n = 2;
    uint64_t i = w->at + 2;
    for (; n < 10 && byte_at(w, i) && strchr("im-", byte_at(w, i)); i++) {
        w->any_case = w->any_case || w->pattern.p[i] == 'i';
        text[n++] = w->pattern.p[i] == 'm' ? 's' : (char)w->pattern.p[i];
    }
    uint8_t end = byte_at(w, i);
    if (end != ':' && end != ')')
        return refuse(w, "this group");
    text[n] = ':';
    if (end == ':')
        return open_group(w, text, i + 1 - w->at);
    if (w->more[w->depth] == UINT8_MAX)
        return refuse(w, "so many options");
    w->more[w->depth]++;
    w->at = i + 1;
    return put_text(w, text);
}

static neap_status group(walk *w)
{
    static const char *const same[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    if (here(w, "(*"))
        return refuse(w, "this group");
    if (here(w, "(?#")) {
        while (w->at < w->pattern.n && w->pattern.p[w->at] != ')')
            w->at++;
        w->at += w->at < w->pattern.n;
        return NEAP_OK;
    }
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (here(w, same[i]))
            return open_group(w, same[i], strlen(same[i]));
    if (here(w, "(?<")) {
        w->has_names = true;
        return open_group(w, "(?<", 3);
    }
    if (here(w, "(?"))
        return options(w);
    return open_group(w, "(", 1);
}

static neap_status close_groups(walk *w, int count)
{
    neap_status status = NEAP_OK;
    for (int i = 0; i < count && status == NEAP_OK; i++)
        status = put_text(w, ")");
    return status;
}

/* In any case, some pairs of letters are one: "ss" is a sharp s, "fi" a ligature. */
static bool may_fold(const walk *w)
{
    static const char *const pairs[] = {"ss", "st", "ff", "fi", "fl"};
    uint8_t c = byte_at(w, w->at), d = byte_at(w, w->at + 1);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if ((c | 32) == pairs[i][0] && (d | 32) == pairs[i][1])
            return true;
    return c >= 0x80;
}

static neap_status step(walk *w)
{
    char c = (char)w->pattern.p[w->at];
    switch (c) {
    case '\\': return escape(w);
    case '[': return class(w);
    case '{': return interval(w);
    case '(': return group(w);
    case ')':
        w->at++;
        if (w->depth == 0)
            return refuse(w, "a closing bracket alone");
        return close_groups(w, w->more[w->depth--] + 1);
    default: break;
    }
    if (w->any_case && may_fold(w))
        return refuse(w, "letters in any case that may be one");
    w->at++;
    return put(w, &c, 1);
}

neap_status np_split_pattern(neap_context *ctx, np_bytes pattern, neap_text *out)
{
    walk w = {.ctx = ctx, .pattern = pattern, .out = out};
    neap_status status = NEAP_OK;
    while (status == NEAP_OK && w.at < pattern.n)
        status = step(&w);
    if (status == NEAP_OK && w.has_names && w.has_numbers)
        return refuse(&w, "a reference by number beside groups with names");
    return status == NEAP_OK ? close_groups(&w, w.more[0]) : status;
}
