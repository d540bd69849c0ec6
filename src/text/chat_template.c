/* chat_template.c - the canonical form of a Jinja template, as a fingerprint.
 *
 * White space follows the rules under which these templates are run everywhere: a newline after a
 * block tag and blanks before one on its line go (trim_blocks, lstrip_blocks), and so does one
 * newline at the end. */
#include "text/chat_template.h"

#include <string.h>

typedef struct token {
    const char *p;
    size_t n;
    enum { END, NAME, STRING, SIGN } kind; /* NAME: a number too; STRING: without its quotes */
} token;

typedef struct canon {
    uint64_t hash;
    bool in_text;
} canon;

/* Marks in the canonical form; a template's own bytes are never read as one, for each kind of part
 * is opened and closed by its mark. */
enum { TEXT_BEGIN = 1, TEXT_END, OUTPUT_BEGIN, STATEMENT_BEGIN, CODE_END, TOKEN_END, STRING_BEGIN };

static void add_byte(canon *c, uint8_t byte)
{
    c->hash = (c->hash ^ byte) * 0x100000001B3u;
}

static void add_bytes(canon *c, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_byte(c, (uint8_t)p[i]);
}

static void add_mark(canon *c, uint8_t mark)
{
    if (c->in_text)
        add_byte(c, TEXT_END);
    c->in_text = false;
    add_byte(c, mark);
}

static void add_text_byte(canon *c, char byte)
{
    if (!c->in_text)
        add_byte(c, TEXT_BEGIN);
    c->in_text = true;
    add_byte(c, (uint8_t)byte);
}

/* ---- inside a tag --------------------------------------------------------------------------- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static token next_token(const char **at, const char *end)
{
    const char *p = *at;
    while (p < end && is_blank(*p))
        p++;
    token t = {p, 0, END};
    if (p == end) {
        *at = p;
        return t;
    }
    if (*p == '\'' || *p == '"') {
        const char *q = p + 1;
        while (q < end && *q != *p)
            q += *q == '\\' && q + 1 < end ? 2 : 1;
        *at = q < end ? q + 1 : end;
        return (token){p + 1, (size_t)(q - p - 1), STRING};
    }
    t.kind = is_name(*p) ? NAME : SIGN;
    do
        p++;
    while (t.kind == NAME && p < end && is_name(*p));
    t.n = (size_t)(p - t.p);
    *at = p;
    return t;
}

static bool is_sign(token t, char sign)
{
    return t.kind == SIGN && *t.p == sign;
}

/* Calls for every byte of a string's value. An escape that is not known stays as it is written. */
static void add_string(canon *c, token t, void (*add)(canon *, char))
{
    for (size_t i = 0; i < t.n; i++) {
        char byte = t.p[i];
        if (byte == '\\' && i + 1 < t.n) {
            static const char letters[] = "ntr\\'\"", values[] = "\n\t\r\\'\"";
            const char *which = strchr(letters, t.p[i + 1]);
            if (which && *which) {
                byte = values[which - letters];
                i++;
            }
        }
        add(c, byte);
    }
}

static void add_code_byte(canon *c, char byte)
{
    add_byte(c, (uint8_t)byte);
}

/* Adds the tokens of [p, end); name['key'] as name.key. */
static void add_code(canon *c, const char *p, const char *end)
{
    bool after_value = false;
    for (token t = next_token(&p, end); t.kind != END; t = next_token(&p, end)) {
        if (after_value && is_sign(t, '[')) {
            const char *ahead = p;
            token key = next_token(&ahead, end), close = next_token(&ahead, end);
            bool plain = key.kind == STRING && key.n > 0 && is_sign(close, ']');
            for (size_t i = 0; plain && i < key.n; i++)
                plain = is_name(key.p[i]);
            if (plain) {
                add_byte(c, '.');
                add_byte(c, TOKEN_END);
                t = key;
                t.kind = NAME;
                p = ahead;
            }
        }
        if (t.kind == STRING) {
            add_byte(c, STRING_BEGIN);
            add_string(c, t, add_code_byte);
        } else {
            add_bytes(c, t.p, t.n);
        }
        add_byte(c, TOKEN_END);
        after_value = t.kind == NAME || is_sign(t, ']') || is_sign(t, ')');
    }
}

static bool is_operator_name(token t)
{
    static const char *const words[] = {"if", "else", "and", "or", "not", "in", "is"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (t.n == strlen(words[i]) && memcmp(t.p, words[i], t.n) == 0)
            return true;
    return false;
}

/* Is it a + b + c of strings, variables and filters, so that printing it is printing a, b, c? */
static bool is_sum(const char *p, const char *end)
{
    int depth = 0;
    for (token t = next_token(&p, end); t.kind != END; t = next_token(&p, end)) {
        if (t.kind == NAME && is_operator_name(t))
            return false;
        if (t.kind != SIGN)
            continue;
        if (!strchr("+.|[]()", *t.p))
            return false;
        depth += is_sign(t, '[') || is_sign(t, '(') ? 1 : 0;
        depth -= is_sign(t, ']') || is_sign(t, ')') ? 1 : 0;
    }
    return depth == 0;
}

static void add_term(canon *c, const char *p, const char *end)
{
    const char *at = p;
    token first = next_token(&at, end), second = next_token(&at, end);
    if (first.kind == STRING && second.kind == END) {
        add_string(c, first, add_text_byte);
        return;
    }
    add_mark(c, OUTPUT_BEGIN);
    add_code(c, p, end);
    add_byte(c, CODE_END);
}

static void add_output(canon *c, const char *p, const char *end)
{
    if (!is_sum(p, end)) {
        add_mark(c, OUTPUT_BEGIN);
        add_code(c, p, end);
        add_byte(c, CODE_END);
        return;
    }
    int depth = 0;
    const char *term = p, *at = p;
    for (;;) {
        token t = next_token(&at, end);
        if (t.kind == END || (depth == 0 && is_sign(t, '+'))) {
            add_term(c, term, t.p);
            if (t.kind == END)
                return;
            term = at;
        }
        depth += is_sign(t, '[') || is_sign(t, '(') ? 1 : 0;
        depth -= is_sign(t, ']') || is_sign(t, ')') ? 1 : 0;
    }
}

/* ---- text and tags -------------------------------------------------------------------------- */

/* The end of a tag's inside: where "%}" (or its kind) begins, outside of strings. */
static const char *find_close(const char *p, const char *end, char kind)
{
    char quote = 0;
    for (; p + 1 < end; p++) {
        if (quote) {
            if (*p == '\\')
                p++;
            else if (*p == quote)
                quote = 0;
        } else if (kind != '#' && (*p == '\'' || *p == '"')) {
            quote = *p;
        } else if (p[0] == (kind == '{' ? '}' : kind) && p[1] == '}') {
            return p;
        }
    }
    return end;
}

static void add_text(canon *c, const char *p, const char *end, bool line_start, char next_kind,
                     bool strip)
{
    if (strip) {
        while (end > p && is_blank(end[-1]))
            end--;
    } else if (next_kind == '%' || next_kind == '#') {
        const char *q = end;
        while (q > p && (q[-1] == ' ' || q[-1] == '\t'))
            q--;
        if (q > p ? q[-1] == '\n' : line_start)
            end = q;
    }
    for (; p < end; p++)
        add_text_byte(c, *p);
}

static const char *find_open(const char *p, const char *end)
{
    for (; p + 1 < end; p++)
        if (p[0] == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return p;
    return end;
}

uint64_t np_chat_fingerprint(const char *text, size_t length)
{
    canon c = {0xCBF29CE484222325u, false};
    const char *p = text, *end = text + length;
    if (length && end[-1] == '\n')
        end--;
    bool line_start = true;
    while (p < end) {
        const char *open = find_open(p, end);
        bool tag = open < end;
        char kind = tag ? open[1] : '\0';
        bool strip = tag && open + 2 < end && open[2] == '-';
        add_text(&c, p, open, line_start, kind, strip);
        if (!tag)
            break;
        const char *inside = open + 2 + strip, *close = find_close(inside, end, kind);
        bool strip_after = close > inside && close < end && close[-1] == '-';
        const char *code_end = close - strip_after;
        if (kind == '{')
            add_output(&c, inside, code_end);
        if (kind == '%') {
            add_mark(&c, STATEMENT_BEGIN);
            add_code(&c, inside, code_end);
            add_byte(&c, CODE_END);
        }
        p = close < end ? close + 2 : end;
        if (strip_after) {
            while (p < end && is_blank(*p))
                p++;
        } else if (kind != '{' && p < end && *p == '\n') {
            p++;
        }
        line_start = p > text && p[-1] == '\n';
    }
    add_mark(&c, 0);
    return c.hash;
}
