/* split_pattern.c - one walk over the expression; see split_pattern.h. */
#include "text/split_pattern.h"

#include "text/tokenizer.h"

/* What Oniguruma counts: numbers that are no decimal digits only in Latin-1. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

typedef struct walk {
    neap_context *ctx;
    np_bytes pattern;
    uint64_t at;
    bool in_class;
    uint64_t class_start; /* its first member */
    neap_text *out;
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

/* Are these the next bytes, behind the present one? */
static bool follows(const walk *w, const char *text)
{
    size_t n = strlen(text);
    return w->pattern.n - w->at - 1 >= n && memcmp(w->pattern.p + w->at + 1, text, n) == 0;
}

/* A backslash and the letter behind it. */
static neap_status escape(walk *w)
{
    static const struct {
        char letter;
        const char *inside, *outside;
    } classes[] = {
        {'s', "\\p{WSpace}",               "\\p{WSpace}"                },
        {'S', "\\P{WSpace}",               "\\P{WSpace}"                },
        {'w', WORD,                        "[" WORD "]"                 },
        {'W', NULL,                        "[^" WORD "]"                },
        {'h', "0-9a-fA-F",                 "[0-9a-fA-F]"                },
        {'H', NULL,                        "[^0-9a-fA-F]"               },
    };
    if (w->at + 1 == w->pattern.n)
        return refuse(w, "a backslash at the end");
    char letter = (char)w->pattern.p[w->at + 1];
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].letter != letter)
            continue;
        const char *text = w->in_class ? classes[i].inside : classes[i].outside;
        if (!text)
            return refuse(w, "a negated class inside a class");
        w->at += 2;
        return put(w, text, strlen(text));
    }
    /* \b\B go by \w, \K, \G, \g and \k, \y\Y and the like differ or are of no use here. */
    if (letter != 0 && strchr("bBKGgkyYOCMQEzZ", letter) && !w->in_class)
        return refuse(w, "this escape");
    w->at += 2;
    return put(w, (const char *)w->pattern.p + w->at - 2, 2);
}

/* An interval as far as its brace: {n} {n,} {n,m} {,m}. Anything else is a plain brace. */
static neap_status interval(walk *w)
{
    uint64_t i = w->at + 1, digits = 0, commas = 0;
    for (; i < w->pattern.n && (w->pattern.p[i] == ',' || (w->pattern.p[i] >= '0' &&
                                                           w->pattern.p[i] <= '9')); i++) {
        digits += w->pattern.p[i] != ',';
        commas += w->pattern.p[i] == ',';
    }
    if (i == w->pattern.n || w->pattern.p[i] != '}' || digits == 0 || commas > 1)
        return refuse(w, "a brace that is no interval");
    if (i + 1 < w->pattern.n && w->pattern.p[i + 1] == '+')
        return refuse(w, "an interval with a plus");
    neap_status status = put(w, follows(w, ",") ? "{0" : "{", follows(w, ",") ? 2 : 1);
    if (status == NEAP_OK)
        status = put(w, (const char *)w->pattern.p + w->at + 1, i - w->at);
    w->at = i + 1;
    return status;
}

/* The property of \p{..} was begun by escape(): its braces are no interval. */
static neap_status property(walk *w)
{
    const uint8_t *start = w->pattern.p + w->at;
    const uint8_t *end = memchr(start, '}', w->pattern.n - w->at);
    if (!end)
        return refuse(w, "an open brace");
    size_t n = (size_t)(end - start) + 1;
    w->at += n;
    return put(w, (const char *)start, n);
}

/* (?i: and the groups that look round or have a name agree; m and x mean something else. */
static bool is_strange_group(const walk *w)
{
    if (!follows(w, "?"))
        return false;
    uint64_t i = w->at + 2;
    while (i < w->pattern.n && (w->pattern.p[i] == 'i' || w->pattern.p[i] == '-'))
        i++;
    return i == w->pattern.n || !strchr(":=!><)", w->pattern.p[i]) || w->pattern.p[i] == 0;
}

static neap_status step(walk *w)
{
    char c = (char)w->pattern.p[w->at];
    if (c == '\\') {
        bool braced = follows(w, "p{") || follows(w, "P{") || follows(w, "x{");
        neap_status status = escape(w);
        return status == NEAP_OK && braced ? property(w) : status;
    }
    if (w->in_class && c == '[')
        return refuse(w, "a set inside a class");
    if (w->in_class && c == '&' && follows(w, "&"))
        return refuse(w, "an intersection of classes");
    if (!w->in_class && c == '{')
        return interval(w);
    if (!w->in_class && c == '(' && (follows(w, "*") || is_strange_group(w)))
        return refuse(w, "this group");
    if (w->in_class && c == ']' && w->at == w->class_start)
        return refuse(w, "an empty class");
    w->at++;
    neap_status status = put(w, &c, 1);
    if (status == NEAP_OK && !w->in_class && c == '[') {
        w->in_class = true;
        w->class_start = w->at;
        if (w->at < w->pattern.n && w->pattern.p[w->at] == '^') {
            w->class_start = ++w->at;
            return put(w, "^", 1);
        }
    } else if (c == ']') {
        w->in_class = false;
    }
    return status;
}

neap_status np_split_pattern(neap_context *ctx, np_bytes pattern, neap_text *out)
{
    walk w = {.ctx = ctx, .pattern = pattern, .out = out};
    neap_status status = NEAP_OK;
    while (status == NEAP_OK && w.at < pattern.n)
        status = step(&w);
    return status;
}
