/* jinja_lex.c - a template's text as tokens. */
#include "text/jinja/jinja_parse.h"

typedef np_jinja_lexer lexer;
typedef np_jinja_token token;

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Python's \s at `at`: its bytes, or 0. */
static size_t space_at(np_bytes s, size_t at)
{
    uint32_t code;
    if (at >= s.n)
        return 0;
    const size_t n = np_jinja_char(s.p + at, s.n - at, &code);
    return np_jinja_space(code) ? n : 0;
}

static bool lex_fails(lexer *l, neap_status status, const char *what)
{
    l->j->line = l->line;
    return np_jinja_fail(l->j, status, "%s", what);
}

static uint8_t byte_at(const lexer *l, size_t at)
{
    return at < l->source.n ? l->source.p[at] : 0;
}

static bool has(const lexer *l, size_t at, const char *text)
{
    const size_t n = strlen(text);
    return at + n <= l->source.n && memcmp(l->source.p + at, text, n) == 0;
}

static void move_to(lexer *l, size_t at)
{
    for (size_t i = l->at; i < at; i++)
        l->line += l->source.p[i] == '\n';
    l->at = at;
}

static size_t skip_spaces(const lexer *l, size_t at)
{
    for (size_t n; (n = space_at(l->source, at)) != 0;)
        at += n;
    return at;
}

bool np_jinja_lex_begin(np_jinja *j, np_bytes text, lexer *out)
{
    uint8_t *copy = np_jinja_take(j, text.n, 1);
    if (!copy)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] != '\r')
            copy[n++] = text.p[i];
        else if (i + 1 == text.n || text.p[i + 1] != '\n')
            copy[n++] = '\n';
    }
    if (n && copy[n - 1] == '\n')
        n--;
    *out = (lexer){.j = j, .source = {copy, n}, .line = 1};
    return true;
}

/* ---- text between tags ------------------------------------------------------------------------- */

/* The end of a closing tag at `at` ("%}" with what may stand before and goes with it), or 0. */
static size_t tag_end(const lexer *l, size_t at, char kind)
{
    const char close[3] = {kind, '}', 0};
    if (byte_at(l, at) == '-' && has(l, at + 1, close))
        return skip_spaces(l, at + 3);
    if (kind == '}')
        return has(l, at, close) ? at + 2 : 0;
    if (byte_at(l, at) == '+' && has(l, at + 1, close))
        return at + 3;
    if (!has(l, at, close))
        return 0;
    return byte_at(l, at + 2) == '\n' ? at + 3 : at + 2;
}

/* What is left of the text [l->at, end) before a tag with this sign. */
static np_bytes data_before(const lexer *l, size_t end, char kind, uint8_t sign)
{
    const np_bytes text = {l->source.p + l->at, end - l->at};
    if (sign == '-')
        return np_jinja_strip(text, NULL, false, true);
    if (sign == '+' || kind == '{')
        return text;
    size_t line = text.n;
    while (line > 0 && text.p[line - 1] != '\n')
        line--;
    if (line == 0 && l->at > 0 && l->source.p[l->at - 1] != '\n')
        return text;
    const np_bytes last = {text.p + line, text.n - line};
    return np_jinja_strip(last, NULL, true, false).n ? text : (np_bytes){text.p, line};
}

/* {% raw %} at `at`: where its contents begin, or 0. */
static size_t raw_begin(const lexer *l, size_t at)
{
    at += 2;
    if (byte_at(l, at) == '-' || byte_at(l, at) == '+')
        at++;
    at = skip_spaces(l, at);
    if (!has(l, at, "raw"))
        return 0;
    at = skip_spaces(l, at + 3);
    if (has(l, at, "-%}"))
        return skip_spaces(l, at + 3);
    return has(l, at, "%}") ? at + 2 : 0;
}

/* The contents of {% raw %} as data; what follows it is next. */
static bool raw_data(lexer *l, token *out)
{
    for (size_t at = l->at; at + 1 < l->source.n; at++) {
        if (!has(l, at, "{%"))
            continue;
        const uint8_t sign = byte_at(l, at + 2);
        size_t word = skip_spaces(l, at + 2 + (sign == '-' || sign == '+'));
        if (!has(l, word, "endraw"))
            continue;
        const size_t end = tag_end(l, skip_spaces(l, word + 6), '%');
        if (end == 0)
            continue;
        out->text = data_before(l, at, '%', sign);
        move_to(l, end);
        return true;
    }
    return lex_fails(l, NEAP_EFORMAT, "{% raw %} has no {% endraw %}");
}

static bool skip_comment(lexer *l)
{
    for (size_t at = l->at; at < l->source.n; at++) {
        const size_t end = tag_end(l, at, '#');
        if (end) {
            move_to(l, end);
            return true;
        }
    }
    return lex_fails(l, NEAP_EFORMAT, "{# has no #}");
}

static size_t find_tag(const lexer *l)
{
    size_t at = l->at;
    while (at + 1 < l->source.n &&
           !(l->source.p[at] == '{' && strchr("{%#", l->source.p[at + 1]) && l->source.p[at + 1]))
        at++;
    return at + 1 < l->source.n ? at : l->source.n;
}

static void begin_tag(lexer *l, char kind, token *out)
{
    const uint8_t sign = byte_at(l, l->at + 2);
    out->kind = kind == '{' ? NP_JINJA_T_VARIABLE_BEGIN : NP_JINJA_T_BLOCK_BEGIN;
    out->line = l->line;
    l->mode = kind == '{' ? NP_JINJA_IN_VARIABLE : NP_JINJA_IN_BLOCK;
    move_to(l, l->at + 2 + (sign == '-' || sign == '+'));
}

/* The next text, or the tag behind it. */
static bool lex_data(lexer *l, token *out)
{
    for (;;) {
        *out = (token){.kind = NP_JINJA_T_DATA, .line = l->line};
        if (l->at >= l->source.n) {
            out->kind = NP_JINJA_T_END;
            return true;
        }
        const size_t at = find_tag(l);
        if (at == l->source.n) {
            out->text = (np_bytes){l->source.p + l->at, at - l->at};
            move_to(l, at);
            return true;
        }
        const char kind = (char)l->source.p[at + 1];
        const uint8_t sign = byte_at(l, at + 2);
        if (!l->tag_waits) {
            out->text = data_before(l, at, kind, sign);
            move_to(l, at);
            l->tag_waits = true;
            if (out->text.n)
                return true;
        }
        l->tag_waits = false;
        const size_t raw = kind == '%' ? raw_begin(l, at) : 0;
        if (raw) {
            move_to(l, raw);
            if (!raw_data(l, out))
                return false;
            if (out->text.n)
                return true;
        } else if (kind == '#') {
            move_to(l, at + 2 + (sign == '-' || sign == '+'));
            if (!skip_comment(l))
                return false;
        } else {
            begin_tag(l, kind, out);
            return true;
        }
    }
}

/* ---- inside tags ------------------------------------------------------------------------------- */

static size_t digits(const lexer *l, size_t at)
{
    while (is_digit(byte_at(l, at)) ||
           (byte_at(l, at) == '_' && is_digit(byte_at(l, at + 1)) && at && is_digit(byte_at(l, at - 1))))
        at++;
    return at;
}

static size_t exponent(const lexer *l, size_t at)
{
    if (byte_at(l, at) != 'e' && byte_at(l, at) != 'E')
        return at;
    const size_t number = at + 1 + (byte_at(l, at + 1) == '-' || byte_at(l, at + 1) == '+');
    return is_digit(byte_at(l, number)) ? digits(l, number) : at;
}

static bool lex_number(lexer *l, token *out)
{
    const size_t start = l->at;
    size_t at = digits(l, start), whole = at;
    out->kind = NP_JINJA_T_INT;
    if (start == 0 || l->source.p[start - 1] != '.') {
        if (byte_at(l, at) == '.' && is_digit(byte_at(l, at + 1)))
            at = digits(l, at + 1);
        at = exponent(l, at);
        if (at != whole)
            out->kind = NP_JINJA_T_FLOAT;
    }
    const uint8_t second = byte_at(l, start + 1);
    if (at == whole && l->source.p[start] == '0' &&
        (whole - start > 1 || (second && strchr("xXbBoO", second))))
        return lex_fails(l, NEAP_EUNSUPPORTED, "a number that begins with 0");
    out->text = (np_bytes){l->source.p + start, at - start};
    l->at = at;
    return true;
}

static bool lex_string(lexer *l, token *out)
{
    const uint8_t quote = l->source.p[l->at];
    size_t at = l->at + 1;
    while (at < l->source.n && l->source.p[at] != quote)
        at += l->source.p[at] == '\\' ? 2 : 1;
    if (at >= l->source.n)
        return lex_fails(l, NEAP_EFORMAT, "a string is not closed");
    out->kind = NP_JINJA_T_TEXT;
    out->text = (np_bytes){l->source.p + l->at + 1, at - l->at - 1};
    move_to(l, at + 1);
    return true;
}

static bool balance(lexer *l, char sign)
{
    if (strchr("([{", sign)) {
        if (l->n_open == NP_JINJA_NESTING)
            return lex_fails(l, NEAP_ELIMIT, "brackets nested too deep");
        l->open[l->n_open++] = sign == '(' ? ')' : sign == '[' ? ']' : '}';
    } else if (strchr(")]}", sign)) {
        if (l->n_open == 0 || l->open[l->n_open - 1] != sign)
            return lex_fails(l, NEAP_EFORMAT, "a bracket that closes nothing");
        l->n_open--;
    }
    return true;
}

static bool lex_sign(lexer *l, token *out)
{
    const uint8_t c = l->source.p[l->at], second = byte_at(l, l->at + 1);
    out->kind = NP_JINJA_T_SIGN;
    out->sign = c;
    const bool twice = (second == '=' && (c == '=' || c == '!' || c == '<' || c == '>')) ||
                       (second == c && (c == '/' || c == '*'));
    if (twice)
        out->sign |= 0x80;
    else if (c >= 0x80)
        return lex_fails(l, NEAP_EUNSUPPORTED, "a name with letters outside of ASCII");
    else if (!strchr("+-/*%~[](){}<>=.:|,;", c) || c == 0)
        return lex_fails(l, NEAP_EFORMAT, "a character that does not belong into a tag");
    l->at += twice ? 2 : 1;
    return twice || balance(l, (char)c);
}

static bool lex_code(lexer *l, token *out)
{
    const bool block = l->mode == NP_JINJA_IN_BLOCK;
    for (;;) {
        *out = (token){.line = l->line};
        const size_t end = l->n_open == 0 && l->at < l->source.n ? tag_end(l, l->at, block ? '%' : '}') : 0;
        if (end) {
            out->kind = block ? NP_JINJA_T_BLOCK_END : NP_JINJA_T_VARIABLE_END;
            move_to(l, end);
            l->mode = NP_JINJA_IN_DATA;
            return true;
        }
        const size_t space = space_at(l->source, l->at);
        if (space == 0)
            break;
        move_to(l, l->at + space);
    }
    if (l->at >= l->source.n)
        return true;
    const uint8_t c = l->source.p[l->at];
    if (is_digit(c))
        return lex_number(l, out);
    if (c == '\'' || c == '"')
        return lex_string(l, out);
    if (!is_name(c))
        return lex_sign(l, out);
    size_t at = l->at;
    while (is_name(byte_at(l, at)))
        at++;
    if (byte_at(l, at) >= 0x80 && !space_at(l->source, at))
        return lex_fails(l, NEAP_EUNSUPPORTED, "a name with letters outside of ASCII");
    out->kind = NP_JINJA_T_NAME;
    out->text = (np_bytes){l->source.p + l->at, at - l->at};
    l->at = at;
    return true;
}

bool np_jinja_lex(lexer *l, token *out)
{
    return l->mode == NP_JINJA_IN_DATA ? lex_data(l, out) : lex_code(l, out);
}
