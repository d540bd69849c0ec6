/* jinja_parse.c - expressions of a template as a tree. */
#include "text/jinja/jinja_parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/shown.h"
#include "base/utf8.h"

typedef np_jinja_parser parser;
typedef np_jinja_node node;

/* ---- tokens ------------------------------------------------------------------------------------ */

bool np_jinja_advance(parser *p)
{
    p->now = p->then;
    p->j->line = p->now.line;
    return p->then.kind == NP_JINJA_T_END ? np_jinja_step(p->j, 1)
                                          : np_jinja_step(p->j, 1) && np_jinja_lex(&p->lexer, &p->then);
}

bool np_jinja_syntax(parser *p, const char *expected)
{
    static const char *const kinds[] = {"the end of the template", "text", "{{", "}}", "{%", "%}"};
    const np_jinja_token *t = &p->now;
    p->j->line = t->line;
    char sign[4] = {(char)(t->sign & 0x7f), 0};
    if (t->sign & 0x80)
        sign[1] = strchr("/*", sign[0]) ? sign[0] : '=';
    if (t->kind == NP_JINJA_T_SIGN)
        return NP_JINJA_RAISE(p->j, "expected %s, found %s", expected, sign);
    if (t->kind < NP_JINJA_T_NAME)
        return NP_JINJA_RAISE(p->j, "expected %s, found %s", expected, kinds[t->kind]);
    return NP_JINJA_RAISE(p->j, "expected %s, found \"%s\"", expected, np_show(t->text).text);
}

bool np_jinja_sign_is(const parser *p, int sign)
{
    return p->now.kind == NP_JINJA_T_SIGN && p->now.sign == sign;
}

bool np_jinja_word_is(const parser *p, const char *word)
{
    return p->now.kind == NP_JINJA_T_NAME && np_jinja_is(p->now.text, word);
}

bool np_jinja_expect_sign(parser *p, int sign)
{
    const char name[2] = {(char)sign, 0};
    return np_jinja_sign_is(p, sign) ? np_jinja_advance(p) : np_jinja_syntax(p, name);
}

bool np_jinja_expect_name(parser *p, np_bytes *out)
{
    if (p->now.kind != NP_JINJA_T_NAME)
        return np_jinja_syntax(p, "a name");
    *out = p->now.text;
    return np_jinja_advance(p);
}

node *np_jinja_new_node(parser *p, np_jinja_node_kind kind)
{
    node *n = np_jinja_take(p->j, 1, sizeof *n);
    if (n) {
        n->kind = (uint8_t)kind;
        n->line = p->now.line;
    }
    return n;
}

bool np_jinja_enter(parser *p)
{
    if (p->depth >= NP_JINJA_NESTING)
        return np_jinja_fail(p->j, NEAP_ELIMIT, "nested over %d deep", NP_JINJA_NESTING);
    p->depth++;
    return true;
}

/* ---- literals ---------------------------------------------------------------------------------- */

static bool escaped_number(parser *p, const uint8_t **at, const uint8_t *end, int base, int most, bool exact,
                           uint32_t *out)
{
    static const char letters[] = "0123456789abcdef";
    int n = 0;
    *out = 0;
    for (; n < most && *at < end && **at; n++, ++*at) {
        const char *digit = strchr(letters, **at >= 'A' && **at <= 'F' ? **at + 32 : **at);
        if (!digit || digit - letters >= base)
            break;
        *out = *out * (uint32_t)base + (uint32_t)(digit - letters);
    }
    if (exact && n < most)
        return NP_JINJA_RAISE(p->j, "a string with half an escape");
    if (*out > 0x10FFFF || (*out >= 0xD800 && *out < 0xE000))
        return np_jinja_fail(p->j, NEAP_EUNSUPPORTED, "a string with an escape that is no character");
    return true;
}

/* What is behind a backslash at *at. */
static bool escape(parser *p, const uint8_t **at, const uint8_t *end)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = (char)**at;
    const char *simple = c ? strchr(from, c) : NULL;
    uint32_t code = 0;
    bool good = true;
    if (c == '\n' || simple) {
        ++*at;
        return c == '\n' || np_jinja_write(p->j, &to[simple - from], 1);
    }
    if (c == 'N')
        return np_jinja_fail(p->j, NEAP_EUNSUPPORTED, "a string with the escape \\N");
    if (c >= '0' && c <= '7') {
        good = escaped_number(p, at, end, 8, 3, false, &code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        ++*at;
        good = escaped_number(p, at, end, 16, c == 'x' ? 2 : c == 'u' ? 4 : 8, true, &code);
    } else if (c & 0x80) { /* Python writes the character as an escape first, then reads the pair */
        char text[16];
        *at += np_jinja_char(*at, (size_t)(end - *at), &code);
        snprintf(text, sizeof text, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x",
                 (unsigned)code);
        return np_jinja_write_string(p->j, text);
    } else { /* not known: it stays as it is */
        const uint8_t both[2] = {'\\', (uint8_t)c};
        ++*at;
        return np_jinja_write(p->j, both, 2);
    }
    uint8_t bytes[4];
    return good && np_jinja_write(p->j, bytes, np_utf8_encode(code, bytes));
}

static bool unescape(parser *p, np_bytes text)
{
    const uint8_t *at = text.p, *end = text.p + text.n;
    while (at < end) {
        const uint8_t *stop = memchr(at, '\\', (size_t)(end - at));
        if (!stop)
            return np_jinja_write(p->j, at, (size_t)(end - at));
        if (!np_jinja_write(p->j, at, (size_t)(stop - at)))
            return false;
        at = stop + 1;
        if (!escape(p, &at, end))
            return false;
    }
    return true;
}

static bool parse_string(parser *p, node *n)
{
    n->kind = NP_JINJA_CONSTANT;
    n->constant = np_jinja_text(p->now.text);
    const bool plain = !p->now.text.n || !memchr(p->now.text.p, '\\', p->now.text.n);
    const bool alone = p->then.kind != NP_JINJA_T_TEXT;
    if (plain && alone)
        return np_jinja_advance(p);
    const size_t start = p->j->out->length;
    while (p->now.kind == NP_JINJA_T_TEXT)
        if (!unescape(p, p->now.text) || !np_jinja_advance(p))
            return false;
    return np_jinja_taken(p->j, start, &n->constant);
}

static bool parse_number(parser *p, node *n)
{
    char digits[64];
    size_t count = 0;
    for (size_t i = 0; i < p->now.text.n; i++)
        if (p->now.text.p[i] != '_' && count < sizeof digits - 1)
            digits[count++] = (char)p->now.text.p[i];
    digits[count] = 0;
    errno = 0;
    n->kind = NP_JINJA_CONSTANT;
    if (p->now.kind == NP_JINJA_T_FLOAT)
        n->constant = np_jinja_real(strtod(digits, NULL));
    else
        n->constant = np_jinja_whole(strtoll(digits, NULL, 10));
    if (count == sizeof digits - 1 || (errno && p->now.kind == NP_JINJA_T_INT))
        return np_jinja_fail(p->j, NEAP_ELIMIT, "a number over 64 bits");
    return np_jinja_advance(p);
}

static bool parse_word(parser *p, node *n)
{
    const np_bytes word = p->now.text;
    n->kind = NP_JINJA_CONSTANT;
    if (np_jinja_is(word, "true") || np_jinja_is(word, "True")) {
        n->constant = np_jinja_yes(true);
    } else if (np_jinja_is(word, "false") || np_jinja_is(word, "False")) {
        n->constant = np_jinja_yes(false);
    } else if (np_jinja_is(word, "none") || np_jinja_is(word, "None")) {
        n->constant = NP_JINJA_NOTHING;
    } else {
        n->kind = NP_JINJA_NAME;
        n->text = word;
    }
    return np_jinja_advance(p);
}

/* Expressions between commas until `close`; a dict's are pairs. */
static bool parse_items(parser *p, int close, bool pairs, node *into)
{
    const node **end = &into->a;
    node *last = NULL;
    if (!np_jinja_advance(p))
        return false;
    while (!np_jinja_sign_is(p, close)) {
        if (last && !np_jinja_expect_sign(p, ','))
            return false;
        if (last && np_jinja_sign_is(p, close))
            break;
        for (int part = 0; part < (pairs ? 2 : 1); part++) {
            const node *item;
            if (part == 1 && !np_jinja_expect_sign(p, ':'))
                return false;
            if (!np_jinja_parse_expression(p, false, &item))
                return false;
            node *holder = np_jinja_new_node(p, NP_JINJA_OPERAND);
            if (!holder)
                return false;
            holder->a = item;
            *(last ? (const node **)&last->next : end) = holder;
            last = holder;
        }
    }
    return np_jinja_advance(p);
}

bool np_jinja_parse_primary(parser *p, const node **out)
{
    node *n = np_jinja_new_node(p, NP_JINJA_LIST_OF);
    if (!n || !np_jinja_enter(p))
        return false;
    bool good;
    *out = n;
    if (p->now.kind == NP_JINJA_T_NAME) {
        good = parse_word(p, n);
    } else if (p->now.kind == NP_JINJA_T_TEXT) {
        good = parse_string(p, n);
    } else if (p->now.kind == NP_JINJA_T_INT || p->now.kind == NP_JINJA_T_FLOAT) {
        good = parse_number(p, n);
    } else if (np_jinja_sign_is(p, '[')) {
        good = parse_items(p, ']', false, n);
    } else if (np_jinja_sign_is(p, '{')) {
        n->kind = NP_JINJA_DICT_OF;
        good = parse_items(p, '}', true, n);
    } else if (np_jinja_sign_is(p, '(')) {
        n->op = 1;
        good = np_jinja_advance(p);
        if (good && !np_jinja_sign_is(p, ')'))
            good = np_jinja_parse_expression(p, true, out);
        good = good && np_jinja_expect_sign(p, ')');
    } else {
        good = np_jinja_syntax(p, "a value");
    }
    p->depth--;
    return good;
}

/* ---- what follows a value ---------------------------------------------------------------------- */

static bool parse_argument(parser *p, node *n)
{
    if (np_jinja_sign_is(p, '*') || np_jinja_sign_is(p, NP_JINJA_POWER)) {
        n->op = p->now.sign;
        return np_jinja_advance(p) && np_jinja_parse_expression(p, false, &n->a);
    }
    if (p->now.kind == NP_JINJA_T_NAME && p->then.kind == NP_JINJA_T_SIGN && p->then.sign == '=') {
        n->text = p->now.text;
        return np_jinja_advance(p) && np_jinja_advance(p) && np_jinja_parse_expression(p, false, &n->a);
    }
    return np_jinja_parse_expression(p, false, &n->a);
}

/* "(a, b, c=d)"; the order that Python asks for is checked. */
static bool parse_arguments(parser *p, const node **out)
{
    node *last = NULL;
    int stage = 0; /* plain, named, *spread, **spread */
    if (!np_jinja_advance(p))
        return false;
    while (!np_jinja_sign_is(p, ')')) {
        if (last && !np_jinja_expect_sign(p, ','))
            return false;
        if (last && np_jinja_sign_is(p, ')'))
            break;
        node *n = np_jinja_new_node(p, NP_JINJA_ARGUMENT);
        if (!n || !parse_argument(p, n))
            return false;
        const int now = n->op == NP_JINJA_POWER ? 3 : n->op ? 2 : n->text.n ? 1 : 0;
        if (now < stage && !(now == 1 && stage == 2))
            return NP_JINJA_RAISE(p->j, "arguments in a wrong order");
        stage = now > stage ? now : stage;
        if (last)
            last->next = n;
        else
            *out = n;
        last = n;
    }
    return np_jinja_advance(p);
}

static bool parse_slice(parser *p, const node *first, const node **out)
{
    node *whole = np_jinja_new_node(p, NP_JINJA_LIST_OF), *last = NULL;
    for (int part = 0; whole && part < 3; part++) {
        node *n = np_jinja_new_node(p, NP_JINJA_OPERAND);
        node *absent = np_jinja_new_node(p, NP_JINJA_CONSTANT);
        if (!n || !absent)
            return false;
        n->a = part == 0 && first ? first : absent;
        if (part > 0 && np_jinja_sign_is(p, ':')) {
            if (!np_jinja_advance(p))
                return false;
            if (!np_jinja_sign_is(p, ':') && !np_jinja_sign_is(p, ']') && !np_jinja_sign_is(p, ',') &&
                !np_jinja_parse_expression(p, false, &n->a))
                return false;
        }
        if (last)
            last->next = n;
        else
            whole->a = n;
        last = n;
    }
    *out = whole;
    return whole != NULL;
}

static bool parse_subscript(parser *p, const node **value)
{
    node *n = np_jinja_new_node(p, NP_JINJA_INDEX);
    if (!n)
        return false;
    n->a = *value;
    *value = n;
    if (np_jinja_sign_is(p, '.')) {
        if (!np_jinja_advance(p))
            return false;
        if (p->now.kind == NP_JINJA_T_INT)
            return np_jinja_parse_primary(p, &n->b);
        n->kind = NP_JINJA_ATTRIBUTE;
        return np_jinja_expect_name(p, &n->text);
    }
    if (!np_jinja_advance(p))
        return false;
    const node *first = NULL;
    if (!np_jinja_sign_is(p, ':') && !np_jinja_parse_expression(p, false, &first))
        return false;
    n->b = first;
    if (np_jinja_sign_is(p, ':')) {
        n->kind = NP_JINJA_SLICE;
        if (!parse_slice(p, first, &n->b))
            return false;
    }
    if (np_jinja_sign_is(p, ','))
        return np_jinja_fail(p->j, NEAP_EUNSUPPORTED, "an index of several parts");
    return np_jinja_expect_sign(p, ']');
}

static bool parse_call(parser *p, const node **value)
{
    node *n = np_jinja_new_node(p, NP_JINJA_CALL);
    if (!n)
        return false;
    n->a = *value;
    *value = n;
    return parse_arguments(p, &n->b);
}

static bool parse_postfix(parser *p, const node **value)
{
    while (np_jinja_sign_is(p, '.') || np_jinja_sign_is(p, '[') || np_jinja_sign_is(p, '('))
        if (!(np_jinja_sign_is(p, '(') ? parse_call(p, value) : parse_subscript(p, value)))
            return false;
    return true;
}

static void note_unknown(parser *p, node *n, np_jinja_known known)
{
    n->used = known == NP_JINJA_REFUSED;
    if (known == NP_JINJA_UNKNOWN && !p->soft && p->unknown.n == 0) {
        p->unknown = n->text;
        p->unknown_line = n->line;
    }
}

bool np_jinja_check_unknown(parser *p)
{
    if (p->unknown.n == 0)
        return true;
    p->j->line = p->unknown_line;
    return NP_JINJA_RAISE(p->j, "there is no filter or test \"%s\"", np_show(p->unknown).text);
}

static bool parse_dotted(parser *p, node *n)
{
    if (!np_jinja_expect_name(p, &n->text))
        return false;
    return !np_jinja_sign_is(p, '.') ||
           np_jinja_fail(p->j, NEAP_EUNSUPPORTED, "a filter or test with a dot in its name");
}

static bool parse_filter(parser *p, const node **value)
{
    node *n = np_jinja_new_node(p, NP_JINJA_FILTER);
    if (!n || !parse_dotted(p, n))
        return false;
    n->a = *value;
    *value = n;
    note_unknown(p, n, np_jinja_knows_filter(n->text));
    return !np_jinja_sign_is(p, '(') || parse_arguments(p, &n->b);
}

static bool begins_argument(const parser *p)
{
    return (p->now.kind >= NP_JINJA_T_NAME && p->now.kind <= NP_JINJA_T_FLOAT &&
            !np_jinja_word_is(p, "else") && !np_jinja_word_is(p, "or") && !np_jinja_word_is(p, "and")) ||
           np_jinja_sign_is(p, '(') || np_jinja_sign_is(p, '[') || np_jinja_sign_is(p, '{');
}

static bool parse_test(parser *p, const node **value)
{
    node *n = np_jinja_new_node(p, NP_JINJA_TEST);
    if (!n || !np_jinja_advance(p))
        return false;
    if (np_jinja_word_is(p, "not")) {
        n->op = 1;
        if (!np_jinja_advance(p))
            return false;
    }
    if (!parse_dotted(p, n))
        return false;
    n->a = *value;
    *value = n;
    note_unknown(p, n, np_jinja_knows_test(n->text));
    if (np_jinja_sign_is(p, '('))
        return parse_arguments(p, &n->b);
    if (!begins_argument(p))
        return true;
    if (np_jinja_word_is(p, "is"))
        return np_jinja_syntax(p, "one test");
    node *argument = np_jinja_new_node(p, NP_JINJA_ARGUMENT);
    n->b = argument;
    return argument && np_jinja_parse_primary(p, &argument->a) && parse_postfix(p, &argument->a);
}

bool np_jinja_parse_filters(parser *p, const node **value)
{
    for (;;) {
        bool good = true;
        if (np_jinja_sign_is(p, '|'))
            good = np_jinja_advance(p) && parse_filter(p, value);
        else if (np_jinja_word_is(p, "is"))
            good = parse_test(p, value);
        else if (np_jinja_sign_is(p, '('))
            good = parse_call(p, value);
        else
            return true;
        if (!good)
            return false;
    }
}

bool np_jinja_parse_block_filter(parser *p, const node **out)
{
    *out = NULL;
    if (!parse_filter(p, out))
        return false;
    while (np_jinja_sign_is(p, '|'))
        if (!np_jinja_advance(p) || !parse_filter(p, out))
            return false;
    return true;
}

/* ---- operators --------------------------------------------------------------------------------- */

static bool parse_unary(parser *p, bool with_filter, const node **out)
{
    if (!np_jinja_enter(p))
        return false;
    bool good;
    if (np_jinja_sign_is(p, '-') || np_jinja_sign_is(p, '+')) {
        node *n = np_jinja_new_node(p, NP_JINJA_NEGATE);
        if (!n)
            return false;
        n->op = p->now.sign;
        *out = n;
        good = np_jinja_advance(p) && parse_unary(p, false, &n->a);
    } else {
        good = np_jinja_parse_primary(p, out);
    }
    p->depth--;
    return good && parse_postfix(p, out) && (!with_filter || np_jinja_parse_filters(p, out));
}

typedef bool parse_part(parser *p, const node **out);

/* The operator of this level that comes now: its sign, or 0. */
typedef int operator_now(const parser *p);

/* One level of operators that are worked off from the left. */
static bool parse_chain(parser *p, np_jinja_node_kind kind, parse_part *part, operator_now *now,
                        const node **out)
{
    if (!part(p, out))
        return false;
    node *chain = NULL, *last = NULL;
    for (int op; (op = now(p)) != 0;) {
        node *n = np_jinja_new_node(p, NP_JINJA_OPERAND);
        if (!n || (!chain && !(chain = np_jinja_new_node(p, kind))))
            return false;
        n->op = (uint8_t)op;
        if ((op == NP_JINJA_NOT_IN && !np_jinja_advance(p)) || !np_jinja_advance(p) || !part(p, &n->a))
            return false;
        if (last) {
            last->next = n;
        } else {
            chain->a = *out;
            chain->b = n;
            *out = chain;
        }
        last = n;
    }
    return true;
}

static int sign_of(const parser *p, const char *which)
{
    const bool sign = p->now.kind == NP_JINJA_T_SIGN;
    return sign && strchr(which, (char)p->now.sign) ? p->now.sign : 0;
}

static int power_now(const parser *p)
{
    return np_jinja_sign_is(p, NP_JINJA_POWER) ? NP_JINJA_POWER : 0;
}
static int product_now(const parser *p)
{
    return np_jinja_sign_is(p, NP_JINJA_FLOOR) ? NP_JINJA_FLOOR : sign_of(p, "*/%");
}
static int tilde_now(const parser *p)
{
    return sign_of(p, "~");
}
static int sum_now(const parser *p)
{
    return sign_of(p, "+-");
}
static int and_now(const parser *p)
{
    return np_jinja_word_is(p, "and");
}
static int or_now(const parser *p)
{
    return np_jinja_word_is(p, "or");
}

static int compare_now(const parser *p)
{
    static const uint8_t signs[] = {NP_JINJA_EQ, NP_JINJA_NE, NP_JINJA_LE, NP_JINJA_GE, '<', '>'};
    for (size_t i = 0; i < sizeof signs; i++)
        if (np_jinja_sign_is(p, signs[i]))
            return signs[i];
    if (np_jinja_word_is(p, "in"))
        return NP_JINJA_IN;
    const bool follows = p->then.kind == NP_JINJA_T_NAME && np_jinja_is(p->then.text, "in");
    return np_jinja_word_is(p, "not") && follows ? NP_JINJA_NOT_IN : 0;
}

static bool parse_operand(parser *p, const node **out)
{
    return parse_unary(p, true, out);
}
static bool parse_power(parser *p, const node **out)
{
    return parse_chain(p, NP_JINJA_CHAIN, parse_operand, power_now, out);
}
static bool parse_product(parser *p, const node **out)
{
    return parse_chain(p, NP_JINJA_CHAIN, parse_power, product_now, out);
}
static bool parse_joined(parser *p, const node **out)
{
    return parse_chain(p, NP_JINJA_JOINED, parse_product, tilde_now, out);
}
static bool parse_sum(parser *p, const node **out)
{
    return parse_chain(p, NP_JINJA_CHAIN, parse_joined, sum_now, out);
}

static bool parse_not(parser *p, const node **out)
{
    bool negated = false, any = false;
    const uint32_t line = p->now.line;
    for (; np_jinja_word_is(p, "not"); negated = !negated, any = true)
        if (!np_jinja_advance(p))
            return false;
    if (!parse_chain(p, NP_JINJA_COMPARE, parse_sum, compare_now, out))
        return false;
    for (int i = 0; any && i < (negated ? 1 : 2); i++) {
        node *n = np_jinja_new_node(p, NP_JINJA_NOT);
        if (!n)
            return false;
        n->line = line;
        n->a = *out;
        *out = n;
    }
    return true;
}

static bool parse_and(parser *p, const node **out)
{
    return parse_chain(p, NP_JINJA_AND, parse_not, and_now, out);
}

bool np_jinja_parse_or(parser *p, const node **out)
{
    return parse_chain(p, NP_JINJA_OR, parse_and, or_now, out);
}

/* a if b else c */
static bool parse_condition(parser *p, const node **out)
{
    const np_bytes unknown = p->unknown;
    const uint32_t line = p->unknown_line;
    if (!np_jinja_enter(p) || !np_jinja_parse_or(p, out))
        return false;
    while (np_jinja_word_is(p, "if")) {
        node *n = np_jinja_new_node(p, NP_JINJA_IF_ELSE);
        if (!n || !np_jinja_advance(p) || !np_jinja_parse_or(p, &n->b))
            return false;
        n->a = *out;
        *out = n;
        if (np_jinja_word_is(p, "else") && (!np_jinja_advance(p) || !parse_condition(p, &n->c)))
            return false;
        p->unknown = unknown; /* its parts may not be reached */
        p->unknown_line = line;
    }
    p->depth--;
    return true;
}

static bool ends_tuple(const parser *p)
{
    return p->now.kind == NP_JINJA_T_VARIABLE_END || p->now.kind == NP_JINJA_T_BLOCK_END ||
           np_jinja_sign_is(p, ')');
}

bool np_jinja_parse_expression(parser *p, bool tuple, const node **out)
{
    if (!parse_condition(p, out))
        return false;
    if (!tuple || !np_jinja_sign_is(p, ','))
        return true;
    node *whole = np_jinja_new_node(p, NP_JINJA_LIST_OF), *last = np_jinja_new_node(p, NP_JINJA_OPERAND);
    if (!whole || !last)
        return false;
    last->a = *out;
    whole->a = last;
    whole->op = 1;
    *out = whole;
    while (np_jinja_sign_is(p, ',')) {
        if (!np_jinja_advance(p))
            return false;
        if (ends_tuple(p))
            break;
        node *n = np_jinja_new_node(p, NP_JINJA_OPERAND);
        if (!n || !parse_condition(p, &n->a))
            return false;
        last = last->next = n;
    }
    return true;
}
