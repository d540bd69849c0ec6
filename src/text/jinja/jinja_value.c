/* jinja_value.c - making values, comparing them, going through them. */
#include "text/jinja/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/tokenizer.h"

typedef np_jinja_value value;

/* ---- making and failing ------------------------------------------------------------------------ */

bool np_jinja_fail(np_jinja *j, neap_status status, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    np_fail(j->ctx, status, "chat template, line %u: %s", (unsigned)j->line, text);
    return false;
}

bool np_jinja_step(np_jinja *j, uint64_t steps)
{
    j->steps += steps;
    return j->steps <= j->most_steps ||
           np_jinja_fail(j, NEAP_ELIMIT, "the template does not end within %llu steps",
                         (unsigned long long)j->most_steps);
}

static bool too_large(np_jinja *j)
{
    return np_jinja_fail(j, NEAP_ELIMIT, "the template makes over %llu bytes",
                         (unsigned long long)j->most_bytes);
}

void *np_jinja_take(np_jinja *j, uint64_t n, size_t element)
{
    uint64_t bytes;
    if (!np_mul_size(n, element, &bytes) || bytes > j->most_bytes ||
        j->memory.bytes > j->most_bytes - bytes) {
        too_large(j);
        return NULL;
    }
    return np_jinja_step(j, bytes / 64) ? np_blocks_take(&j->memory, bytes) : NULL;
}

value np_jinja_text(np_bytes text)
{
    return (value){.kind = NP_JINJA_STRING, .text = text};
}

value np_jinja_string(const char *text)
{
    return np_jinja_text((np_bytes){(const uint8_t *)text, strlen(text)});
}

value np_jinja_undefined(np_bytes name)
{
    return (value){.kind = NP_JINJA_UNDEFINED, .text = name};
}

value np_jinja_whole(int64_t whole)
{
    return (value){.kind = NP_JINJA_INT, .whole = whole};
}

value np_jinja_real(double real)
{
    return (value){.kind = NP_JINJA_FLOAT, .real = real};
}

value np_jinja_yes(bool yes)
{
    return (value){.kind = NP_JINJA_BOOL, .yes = yes};
}

bool np_jinja_text_step(np_jinja *j, np_bytes text)
{
    return np_jinja_step(j, text.n / NP_JINJA_STEP_BYTES);
}

bool np_jinja_find_step(np_jinja *j, const np_jinja_dict *dict, value key)
{
    const uint64_t each = np_jinja_is_string(key)    ? key.text.n / NP_JINJA_STEP_BYTES
                          : key.kind == NP_JINJA_LIST ? key.list->n
                                                      : 0;
    return np_jinja_step(j, dict->n / 8 + dict->n * each);
}

bool np_jinja_new_list(np_jinja *j, size_t n, np_jinja_form form, value *out)
{
    np_jinja_list *list = np_jinja_take(j, 1, sizeof *list);
    if (!list || !(list->at = np_jinja_take(j, n, sizeof *list->at)))
        return false;
    list->n = n;
    *out = (value){.kind = NP_JINJA_LIST, .form = (uint8_t)form, .list = list};
    return true;
}

bool np_jinja_concat(np_jinja *j, const np_bytes *parts, size_t n, value *out)
{
    uint64_t bytes = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        bytes += parts[i].n;
    uint8_t *text = np_jinja_take(j, bytes, 1);
    if (!text)
        return false;
    for (size_t i = 0; i < n; at += parts[i].n, i++)
        if (parts[i].n)
            memcpy(text + at, parts[i].p, parts[i].n);
    *out = np_jinja_text((np_bytes){text, bytes});
    return true;
}

bool np_jinja_copy_text(np_jinja *j, np_bytes text, value *out)
{
    return np_jinja_concat(j, &text, 1, out);
}

bool np_jinja_taken(np_jinja *j, size_t start, value *out)
{
    const size_t n = j->out->length - start;
    if (n == 0) /* nothing may ever have been written */
        *out = np_jinja_string("");
    else if (!np_jinja_copy_text(j, (np_bytes){(const uint8_t *)j->out->data + start, n}, out))
        return false;
    j->out->length = start;
    return true;
}

bool np_jinja_write(np_jinja *j, const void *bytes, size_t n)
{
    if (n > j->most_bytes || j->out->length > j->most_bytes - n)
        return too_large(j);
    return np_jinja_step(j, n / 64) && np_text_append(j->ctx, j->out, bytes, n);
}

bool np_jinja_write_string(np_jinja *j, const char *text)
{
    return np_jinja_write(j, text, strlen(text));
}

/* ---- looking ----------------------------------------------------------------------------------- */

const char *np_jinja_type(value v)
{
    static const char *const names[] = {
        [NP_JINJA_UNDEFINED] = "Undefined",     [NP_JINJA_NONE] = "NoneType",
        [NP_JINJA_BOOL] = "bool",               [NP_JINJA_INT] = "int",
        [NP_JINJA_FLOAT] = "float",             [NP_JINJA_STRING] = "str",
        [NP_JINJA_LIST] = "list",               [NP_JINJA_DICT] = "dict",
        [NP_JINJA_NAMESPACE] = "Namespace",     [NP_JINJA_MACRO] = "Macro",
        [NP_JINJA_FUNCTION] = "function",       [NP_JINJA_METHOD] = "method",
        [NP_JINJA_LOOP] = "LoopContext",        [NP_JINJA_ABSENT] = "nothing",
    };
    static const char *const lists[] = {"list", "list", "tuple", "range", "view", "generator"};
    return v.kind == NP_JINJA_LIST ? lists[v.form] : names[v.kind];
}

bool np_jinja_truth(value v)
{
    switch (v.kind) {
    case NP_JINJA_UNDEFINED:
    case NP_JINJA_NONE:
    case NP_JINJA_ABSENT:
        return false;
    case NP_JINJA_BOOL:
        return v.yes;
    case NP_JINJA_INT:
        return v.whole != 0;
    case NP_JINJA_FLOAT:
        return v.real != 0;
    case NP_JINJA_STRING:
        return v.text.n != 0;
    case NP_JINJA_LIST:
        return v.form == NP_JINJA_GENERATOR || v.list->n != 0;
    case NP_JINJA_DICT:
        return v.dict->n != 0;
    default:
        return true;
    }
}

bool np_jinja_same_bytes(np_bytes a, np_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool np_jinja_is(np_bytes text, const char *word)
{
    return text.n == strlen(word) && (text.n == 0 || memcmp(text.p, word, text.n) == 0);
}

bool np_jinja_as_whole(value v, int64_t *out)
{
    *out = v.kind == NP_JINJA_BOOL ? v.yes : v.kind == NP_JINJA_INT ? v.whole : 0;
    return v.kind == NP_JINJA_BOOL || v.kind == NP_JINJA_INT;
}

bool np_jinja_as_real(value v, double *out)
{
    int64_t whole;
    const bool is_whole = np_jinja_as_whole(v, &whole);
    *out = is_whole ? (double)whole : v.kind == NP_JINJA_FLOAT ? v.real : 0;
    return is_whole || v.kind == NP_JINJA_FLOAT;
}

/* ---- comparing --------------------------------------------------------------------------------- */

static bool equal(np_jinja *j, value a, value b, int depth, bool *out);

static bool deep(np_jinja *j, int depth)
{
    return depth <= NP_JINJA_NESTING ||
           np_jinja_fail(j, NEAP_ELIMIT, "lists nested over %d deep", NP_JINJA_NESTING);
}

/* Steps of comparing two strings, beside the first. */
static uint64_t compared(value a, value b)
{
    if (!np_jinja_is_string(a) || !np_jinja_is_string(b))
        return 0;
    return (a.text.n < b.text.n ? a.text.n : b.text.n) / NP_JINJA_STEP_BYTES;
}

static bool equal_lists(np_jinja *j, value a, value b, int depth, bool *out)
{
    const bool ordered = a.form == NP_JINJA_PLAIN || a.form == NP_JINJA_TUPLE || a.form == NP_JINJA_RANGE;
    *out = a.list == b.list;
    if (*out || a.form != b.form || !ordered || a.list->n != b.list->n)
        return true;
    *out = true;
    for (size_t i = 0; *out && i < a.list->n; i++)
        if (!equal(j, a.list->at[i], b.list->at[i], depth + 1, out))
            return false;
    return true;
}

static bool equal_dicts(np_jinja *j, const np_jinja_dict *a, const np_jinja_dict *b, int depth,
                        bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        const value *other = np_jinja_find(b, a->at[i].key);
        *out = other != NULL;
        if (!np_jinja_find_step(j, b, a->at[i].key) ||
            (other && !equal(j, a->at[i].value, *other, depth + 1, out)))
            return false;
    }
    return true;
}

static bool equal_scalars(value a, value b)
{
    int64_t i, k;
    double x, y;
    if (np_jinja_as_whole(a, &i) && np_jinja_as_whole(b, &k))
        return i == k;
    if (np_jinja_as_real(a, &x) && np_jinja_as_real(b, &y))
        return x == y;
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case NP_JINJA_STRING:
        return np_jinja_same_bytes(a.text, b.text);
    case NP_JINJA_MACRO:
    case NP_JINJA_FUNCTION:
    case NP_JINJA_NAMESPACE:
    case NP_JINJA_LOOP:
        return a.macro == b.macro;
    case NP_JINJA_METHOD:
        return false;
    default:
        return true;
    }
}

static bool equal(np_jinja *j, value a, value b, int depth, bool *out)
{
    if (!deep(j, depth) || !np_jinja_step(j, 1 + compared(a, b)))
        return false;
    if (a.kind == NP_JINJA_LIST && b.kind == NP_JINJA_LIST)
        return equal_lists(j, a, b, depth, out);
    if (a.kind == NP_JINJA_DICT && b.kind == NP_JINJA_DICT)
        return equal_dicts(j, a.dict, b.dict, depth, out);
    *out = equal_scalars(a, b);
    return true;
}

bool np_jinja_equal(np_jinja *j, value a, value b, bool *out)
{
    return equal(j, a, b, 0, out);
}

static int sign(bool less, bool more)
{
    return less ? -1 : more;
}

static bool order(np_jinja *j, value a, value b, int depth, int *out);

static bool order_lists(np_jinja *j, const np_jinja_list *a, const np_jinja_list *b, int depth,
                        int *out)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        if (!equal(j, a->at[i], b->at[i], depth + 1, &same))
            return false;
        if (!same)
            return order(j, a->at[i], b->at[i], depth + 1, out);
    }
    *out = sign(a->n < b->n, a->n > b->n);
    return true;
}

static bool order(np_jinja *j, value a, value b, int depth, int *out)
{
    int64_t i, k;
    double x, y;
    if (!deep(j, depth) || !np_jinja_step(j, 1 + compared(a, b)))
        return false;
    if (np_jinja_as_whole(a, &i) && np_jinja_as_whole(b, &k)) {
        *out = sign(i < k, i > k);
    } else if (np_jinja_as_real(a, &x) && np_jinja_as_real(b, &y)) {
        *out = x != x || y != y ? 2 : sign(x < y, x > y);
    } else if (np_jinja_is_string(a) && np_jinja_is_string(b)) {
        const size_t n = a.text.n < b.text.n ? a.text.n : b.text.n;
        const int c = n ? memcmp(a.text.p, b.text.p, n) : 0;
        *out = c ? sign(c < 0, c > 0) : sign(a.text.n < b.text.n, a.text.n > b.text.n);
    } else if (a.kind == NP_JINJA_LIST && b.kind == NP_JINJA_LIST && a.form == b.form &&
               (a.form == NP_JINJA_PLAIN || a.form == NP_JINJA_TUPLE)) {
        return order_lists(j, a.list, b.list, depth, out);
    } else {
        return NP_JINJA_RAISE(j, "%s and %s have no order", np_jinja_type(a), np_jinja_type(b));
    }
    return true;
}

bool np_jinja_order(np_jinja *j, value a, value b, int *out)
{
    return order(j, a, b, 0, out);
}

bool np_jinja_contains(np_jinja *j, value in, value what, bool *out)
{
    *out = false;
    if (np_jinja_is_string(in)) {
        if (!np_jinja_is_string(what))
            return NP_JINJA_RAISE(j, "'in' a string: expected a string, not %s",
                                  np_jinja_type(what));
        *out = np_jinja_search(in.text, what.text, 0) != SIZE_MAX;
        return np_jinja_step(j, in.text.n / 16);
    }
    if (in.kind == NP_JINJA_DICT) {
        if (what.kind == NP_JINJA_DICT || (what.kind == NP_JINJA_LIST && what.form == NP_JINJA_PLAIN))
            return NP_JINJA_RAISE(j, "a %s is no key", np_jinja_type(what));
        *out = np_jinja_find(in.dict, what) != NULL;
        return np_jinja_find_step(j, in.dict, what);
    }
    np_jinja_list items;
    if (!np_jinja_items(j, in, &items))
        return false;
    for (size_t i = 0; !*out && i < items.n; i++)
        if (!np_jinja_equal(j, items.at[i], what, out))
            return false;
    return true;
}

/* ---- going through ----------------------------------------------------------------------------- */

static bool characters(np_jinja *j, np_bytes text, np_jinja_list *out)
{
    out->n = np_jinja_char_count(text);
    if (!(out->at = np_jinja_take(j, out->n, sizeof *out->at)))
        return false;
    uint32_t code;
    for (size_t i = 0, at = 0; i < out->n; i++) {
        const size_t n = np_jinja_char(text.p + at, text.n - at, &code);
        out->at[i] = np_jinja_text((np_bytes){text.p + at, n});
        at += n;
    }
    return true;
}

bool np_jinja_items(np_jinja *j, value v, np_jinja_list *out)
{
    *out = (np_jinja_list){0};
    if (v.kind == NP_JINJA_UNDEFINED)
        return true;
    if (np_jinja_is_string(v))
        return characters(j, v.text, out);
    if (v.kind == NP_JINJA_LIST) {
        if (v.form != NP_JINJA_GENERATOR || !v.list->used)
            *out = *v.list;
        v.list->used = true;
        return true;
    }
    if (v.kind != NP_JINJA_DICT)
        return NP_JINJA_RAISE(j, "%s is nothing to go through", np_jinja_type(v));
    out->n = v.dict->n;
    if (!(out->at = np_jinja_take(j, out->n, sizeof *out->at)))
        return false;
    for (size_t i = 0; i < out->n; i++)
        out->at[i] = v.dict->at[i].key;
    return true;
}

bool np_jinja_length(np_jinja *j, value v, int64_t *out)
{
    if (np_jinja_is_string(v) && !np_jinja_text_step(j, v.text))
        return false;
    if (np_jinja_is_string(v))
        *out = (int64_t)np_jinja_char_count(v.text);
    else if (v.kind == NP_JINJA_LIST && v.form != NP_JINJA_GENERATOR)
        *out = (int64_t)v.list->n;
    else if (v.kind == NP_JINJA_DICT)
        *out = (int64_t)v.dict->n;
    else if (v.kind == NP_JINJA_UNDEFINED)
        *out = 0;
    else
        return NP_JINJA_RAISE(j, "%s has no length", np_jinja_type(v));
    return true;
}

static bool same_key(value a, value b)
{
    if (a.kind != NP_JINJA_LIST || b.kind != NP_JINJA_LIST || a.form != b.form || a.list->n != b.list->n)
        return equal_scalars(a, b) && a.kind != NP_JINJA_LIST && a.kind != NP_JINJA_DICT;
    for (size_t i = 0; i < a.list->n; i++) /* tuples of scalars; deeper ones are never equal */
        if (a.list->at[i].kind == NP_JINJA_LIST || !equal_scalars(a.list->at[i], b.list->at[i]))
            return false;
    return true;
}

value *np_jinja_find(const np_jinja_dict *dict, value key)
{
    for (size_t i = 0; i < dict->n; i++)
        if (same_key(dict->at[i].key, key))
            return &dict->at[i].value;
    return NULL;
}

value *np_jinja_find_name(const np_jinja_dict *dict, np_bytes name)
{
    return np_jinja_find(dict, np_jinja_text(name));
}

bool np_jinja_put(np_jinja *j, np_jinja_dict *dict, value key, value item)
{
    if (key.kind == NP_JINJA_DICT || (key.kind == NP_JINJA_LIST && key.form == NP_JINJA_PLAIN))
        return NP_JINJA_RAISE(j, "a %s is no key", np_jinja_type(key));
    if (key.kind == NP_JINJA_LIST)
        for (size_t i = 0; i < key.list->n; i++)
            if (key.list->at[i].kind == NP_JINJA_LIST || key.list->at[i].kind == NP_JINJA_DICT)
                return np_jinja_fail(j, NEAP_EUNSUPPORTED, "a key of lists in a tuple");
    value *old = np_jinja_find(dict, key);
    if (old) {
        *old = item;
        return np_jinja_find_step(j, dict, key);
    }
    if (!np_jinja_step(j, 1) || !np_jinja_find_step(j, dict, key))
        return false;
    if (dict->n == dict->capacity) {
        const size_t more = dict->capacity ? dict->capacity * 2 : 4;
        np_jinja_pair *wider = np_jinja_take(j, more, sizeof *wider);
        if (!wider)
            return false;
        if (dict->n)
            memcpy(wider, dict->at, dict->n * sizeof *wider);
        dict->at = wider;
        dict->capacity = more;
    }
    dict->at[dict->n++] = (np_jinja_pair){key, item};
    return true;
}

/* ---- printing ---------------------------------------------------------------------------------- */

/* The shortest that reads back as the same, as Python lays it out. */
void np_jinja_float_text(double real, char out[40])
{
    if (isnan(real) || isinf(real)) {
        strcpy(out, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    char digits[40];
    int precision = 0;
    do
        snprintf(digits, sizeof digits, "%.*e", precision, real);
    while (precision++ < 16 && strtod(digits, NULL) != real);
    const int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        const int places = precision - 1 - exponent;
        snprintf(out, 40, "%.*f", places < 1 ? 1 : places, real);
    } else {
        snprintf(out, 40, "%s", digits);
    }
}

static bool repr_string(np_jinja *j, np_bytes text)
{
    const bool one = np_jinja_search(text, (np_bytes){(const uint8_t *)"'", 1}, 0) != SIZE_MAX;
    const bool two = np_jinja_search(text, (np_bytes){(const uint8_t *)"\"", 1}, 0) != SIZE_MAX;
    const char *quote = one && !two ? "\"" : "'";
    bool good = np_jinja_write_string(j, quote);
    uint32_t code;
    for (size_t at = 0, n; good && at < text.n; at += n) {
        n = np_jinja_char(text.p + at, text.n - at, &code);
        char escape[12] = "";
        if (code == (uint32_t)*quote || code == '\\')
            snprintf(escape, sizeof escape, "\\%c", (char)code);
        else if (code == '\n' || code == '\r' || code == '\t')
            snprintf(escape, sizeof escape, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        else if (!np_jinja_printable(code))
            snprintf(escape, sizeof escape, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x",
                     (unsigned)code);
        good = *escape ? np_jinja_write_string(j, escape) : np_jinja_write(j, text.p + at, n);
    }
    return good && np_jinja_write_string(j, quote);
}

static bool repr_list(np_jinja *j, value v, int depth)
{
    const bool tuple = v.form == NP_JINJA_TUPLE;
    bool good = np_jinja_write_string(j, tuple ? "(" : "[");
    for (size_t i = 0; good && i < v.list->n; i++)
        good = (i == 0 || np_jinja_write_string(j, ", ")) && np_jinja_repr(j, v.list->at[i], depth + 1);
    return good && np_jinja_write_string(j, !tuple ? "]" : v.list->n == 1 ? ",)" : ")");
}

static bool repr_dict(np_jinja *j, const np_jinja_dict *d, int depth)
{
    bool good = np_jinja_write_string(j, "{");
    for (size_t i = 0; good && i < d->n; i++)
        good = (i == 0 || np_jinja_write_string(j, ", ")) && np_jinja_repr(j, d->at[i].key, depth + 1) &&
               np_jinja_write_string(j, ": ") && np_jinja_repr(j, d->at[i].value, depth + 1);
    return good && np_jinja_write_string(j, "}");
}

bool np_jinja_repr(np_jinja *j, value v, int depth)
{
    char text[40];
    if (!deep(j, depth))
        return false;
    switch (v.kind) {
    case NP_JINJA_UNDEFINED:
        return np_jinja_write_string(j, "Undefined");
    case NP_JINJA_NONE:
        return np_jinja_write_string(j, "None");
    case NP_JINJA_BOOL:
        return np_jinja_write_string(j, v.yes ? "True" : "False");
    case NP_JINJA_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.whole);
        return np_jinja_write_string(j, text);
    case NP_JINJA_FLOAT:
        np_jinja_float_text(v.real, text);
        return np_jinja_write_string(j, text);
    case NP_JINJA_STRING:
        if (v.form == NP_JINJA_PLAIN)
            return repr_string(j, v.text);
        return np_jinja_write_string(j, "Markup(") && repr_string(j, v.text) &&
               np_jinja_write_string(j, ")");
    case NP_JINJA_LIST:
        if (v.form == NP_JINJA_PLAIN || v.form == NP_JINJA_TUPLE)
            return repr_list(j, v, depth);
        break;
    case NP_JINJA_DICT:
        return repr_dict(j, v.dict, depth);
    default:
        break;
    }
    return np_jinja_fail(j, NEAP_EUNSUPPORTED, "printing a %s", np_jinja_type(v));
}

bool np_jinja_print(np_jinja *j, value v)
{
    if (np_jinja_is_string(v))
        return np_jinja_write(j, v.text.p, v.text.n);
    return v.kind == NP_JINJA_UNDEFINED || np_jinja_repr(j, v, 0);
}

bool np_jinja_to_string(np_jinja *j, value v, value *out)
{
    if (np_jinja_is_string(v)) {
        *out = v;
        return true;
    }
    const size_t start = j->out->length;
    return np_jinja_print(j, v) && np_jinja_taken(j, start, out);
}
