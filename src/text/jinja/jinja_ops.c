/* jinja_ops.c - operators on values, and text that is escaped. */
#include <math.h>

#include "text/jinja/jinja_eval.h"

typedef np_jinja_value value;

static bool too_wide(np_jinja *j)
{
    return np_jinja_fail(j, NEAP_ELIMIT, "a number over 64 bits");
}

/* ---- escaping ---------------------------------------------------------------------------------- */

bool np_jinja_escape(np_jinja *j, value v, value *out)
{
    static const struct {
        char from;
        const char *to;
    } rows[] = {
        {'&',  "&amp;"},
        {'<',  "&lt;" },
        {'>',  "&gt;" },
        {'\'', "&#39;"},
        {'"',  "&#34;"}
    };
    if (!np_jinja_to_string(j, v, out))
        return false;
    if (out->form == NP_JINJA_MARKUP)
        return true;
    const size_t start = j->out->length;
    const np_bytes text = out->text;
    for (size_t i = 0; i < text.n; i++) {
        const char *to = NULL;
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            to = text.p[i] == (uint8_t)rows[k].from ? rows[k].to : to;
        if (!(to ? np_jinja_write_string(j, to) : np_jinja_write(j, text.p + i, 1)))
            return false;
    }
    if (!np_jinja_taken(j, start, out))
        return false;
    out->form = NP_JINJA_MARKUP;
    return true;
}

/* ---- strings and lists ------------------------------------------------------------------------- */

static bool add_strings(np_jinja *j, value a, value b, value *out)
{
    const bool markup = a.form == NP_JINJA_MARKUP || b.form == NP_JINJA_MARKUP;
    if (markup && (!np_jinja_escape(j, a, &a) || !np_jinja_escape(j, b, &b)))
        return false;
    const np_bytes parts[2] = {a.text, b.text};
    if (!np_jinja_concat(j, parts, 2, out))
        return false;
    out->form = markup ? NP_JINJA_MARKUP : NP_JINJA_PLAIN;
    return true;
}

static bool add_lists(np_jinja *j, value a, value b, value *out)
{
    const np_jinja_list x = *a.list, y = *b.list;
    if (!np_jinja_new_list(j, x.n + y.n, a.form, out))
        return false;
    if (x.n)
        memcpy(out->list->at, x.at, x.n * sizeof *x.at);
    if (y.n)
        memcpy(out->list->at + x.n, y.at, y.n * sizeof *y.at);
    return true;
}

static bool is_sequence(value v)
{
    return v.kind == NP_JINJA_LIST && (v.form == NP_JINJA_PLAIN || v.form == NP_JINJA_TUPLE);
}

static bool repeat(np_jinja *j, value v, int64_t times, value *out)
{
    uint64_t n;
    if (times < 0)
        times = 0;
    if (is_sequence(v)) {
        const np_jinja_list list = *v.list;
        if (!np_mul_size(list.n, (uint64_t)times, &n))
            return too_wide(j);
        if (!np_jinja_new_list(j, n, v.form, out))
            return false;
        for (size_t i = 0; i < n; i++)
            out->list->at[i] = list.at[i % list.n];
        return true;
    }
    const np_bytes text = v.text;
    const uint8_t form = v.form;
    if (!np_mul_size(text.n, (uint64_t)times, &n))
        return too_wide(j);
    uint8_t *bytes = np_jinja_take(j, n, 1);
    if (!bytes)
        return false;
    for (uint64_t at = 0; at < n; at += text.n)
        memcpy(bytes + at, text.p, text.n);
    *out = np_jinja_text((np_bytes){bytes, n});
    out->form = form;
    return true;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

static int64_t floor_divide(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static bool power(np_jinja *j, int64_t base, int64_t exponent, value *out)
{
    if (exponent < 0) {
        if (base == 0)
            return NP_JINJA_RAISE(j, "0 to a negative power");
        *out = np_jinja_real(pow((double)base, (double)exponent));
        return true;
    }
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return too_wide(j);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return too_wide(j);
    }
    *out = np_jinja_whole(result);
    return true;
}

static bool operate_whole(np_jinja *j, int op, int64_t a, int64_t b, value *out)
{
    int64_t r = 0;
    bool over = false;
    if ((op == '/' || op == '%' || op == NP_JINJA_FLOOR) && b == 0)
        return NP_JINJA_RAISE(j, "a division by zero");
    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &r);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case '/':
        *out = np_jinja_real((double)a / (double)b);
        return true;
    case '%':
        r = b == -1 ? 0 : a - floor_divide(a, b) * b;
        break;
    case NP_JINJA_POWER:
        return power(j, a, b, out);
    default:
        over = a == INT64_MIN && b == -1;
        r = over ? 0 : floor_divide(a, b);
    }
    *out = np_jinja_whole(r);
    return !over || too_wide(j);
}

static bool operate_real(np_jinja *j, int op, double a, double b, value *out)
{
    double r;
    if ((op == '/' || op == '%' || op == NP_JINJA_FLOOR) && b == 0)
        return NP_JINJA_RAISE(j, "a division by zero");
    switch (op) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = a / b;
        break;
    default: /* Python's rules for signs are fine print; no chat template needs them */
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "%% // and ** of numbers with a point");
    }
    *out = np_jinja_real(r);
    return true;
}

static const char *sign_name(int op)
{
    static const char *const names[] = {"+", "-", "*", "/", "%", "//", "**"};
    const int signs[] = {'+', '-', '*', '/', '%', NP_JINJA_FLOOR, NP_JINJA_POWER};
    for (int i = 0; i < 7; i++)
        if (signs[i] == op)
            return names[i];
    return "an operator";
}

bool np_jinja_operate(np_jinja *j, int op, value a, value b, value *out)
{
    int64_t i = 0, k = 0;
    double x, y;
    if (a.kind == NP_JINJA_UNDEFINED || b.kind == NP_JINJA_UNDEFINED)
        return np_jinja_undefined_fails(j, a.kind == NP_JINJA_UNDEFINED ? a : b);
    const bool a_whole = np_jinja_as_whole(a, &i), b_whole = np_jinja_as_whole(b, &k);
    if (a_whole && b_whole)
        return operate_whole(j, op, i, k, out);
    if (np_jinja_as_real(a, &x) && np_jinja_as_real(b, &y))
        return operate_real(j, op, x, y, out);
    if (op == '+' && np_jinja_is_string(a) && np_jinja_is_string(b))
        return add_strings(j, a, b, out);
    if (op == '+' && is_sequence(a) && is_sequence(b) && a.form == b.form)
        return add_lists(j, a, b, out);
    if (op == '*' && (np_jinja_is_string(a) || is_sequence(a)) && b_whole)
        return repeat(j, a, k, out);
    if (op == '*' && (np_jinja_is_string(b) || is_sequence(b)) && a_whole)
        return repeat(j, b, i, out);
    if (op == '%' && np_jinja_is_string(a))
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "%% behind a string");
    return NP_JINJA_RAISE(j, "%s %s %s", np_jinja_type(a), sign_name(op), np_jinja_type(b));
}
