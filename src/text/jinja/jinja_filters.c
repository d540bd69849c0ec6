/* jinja_filters.c - value | filter(arguments). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/shown.h"
#include "text/jinja/jinja_eval.h"

typedef np_jinja_value value;

/* ---- arguments --------------------------------------------------------------------------------- */

static bool bind(np_jinja *j, const np_jinja_row *row, const np_jinja_call *call, value *at)
{
    int most = 0;
    while (most < NP_JINJA_PARAMETERS && row->names[most])
        most++;
    if (call->n > (size_t)most)
        return NP_JINJA_RAISE(j, "%s takes no more than %d arguments", row->name, most);
    for (int i = 0; i < most; i++)
        at[i] = (size_t)i < call->n ? call->at[i] : (value){.kind = NP_JINJA_ABSENT};
    for (size_t k = 0; k < call->n_named; k++) {
        int i = 0;
        while (i < most && !np_jinja_is(call->named[k].key.text, row->names[i]))
            i++;
        if (i == most || at[i].kind != NP_JINJA_ABSENT)
            return NP_JINJA_RAISE(j, "%s does not take \"%s\"", row->name,
                                  np_show(call->named[k].key.text).text);
        at[i] = call->named[k].value;
    }
    for (int i = 0; i < row->least; i++)
        if (at[i].kind == NP_JINJA_ABSENT)
            return NP_JINJA_RAISE(j, "%s needs \"%s\"", row->name, row->names[i]);
    return true;
}

bool np_jinja_run_row(np_jinja *j, const np_jinja_row *row, value self, const np_jinja_call *call, value *out)
{
    value at[NP_JINJA_PARAMETERS];
    if (row->raw)
        return row->raw(j, self, call, out);
    return bind(j, row, call, at) && row->run(j, self, at, out);
}

bool np_jinja_whole_or(np_jinja *j, value v, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    return v.kind == NP_JINJA_ABSENT || v.kind == NP_JINJA_NONE || np_jinja_as_whole(v, out) ||
           NP_JINJA_RAISE(j, "expected a whole number, not %s", np_jinja_type(v));
}

static bool given(value v)
{
    return v.kind != NP_JINJA_ABSENT;
}

/* ---- text -------------------------------------------------------------------------------------- */

static bool change_case(np_jinja *j, value self, np_jinja_case how, value *out)
{
    if (!np_jinja_to_string(j, self, &self) || !np_jinja_change_case(j, self.text, how, out))
        return false;
    out->form = how == NP_JINJA_TITLE_WORDS ? NP_JINJA_PLAIN : self.form;
    return true;
}

static bool filter_upper(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return change_case(j, self, NP_JINJA_UPPER, out);
}

static bool filter_lower(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return change_case(j, self, NP_JINJA_LOWER, out);
}

static bool filter_title(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return change_case(j, self, NP_JINJA_TITLE_WORDS, out);
}

static bool filter_capitalize(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return change_case(j, self, NP_JINJA_CAPITALIZE, out);
}

static bool filter_trim(np_jinja *j, value self, const value *at, value *out)
{
    const bool some = given(at[0]) && at[0].kind != NP_JINJA_NONE;
    if (!np_jinja_to_string(j, self, out))
        return false;
    if (some && !np_jinja_is_string(at[0]))
        return NP_JINJA_RAISE(j, "trim of a %s", np_jinja_type(at[0]));
    return np_jinja_stripped(j, out->text, some ? &at[0].text : NULL, true, true, &out->text);
}

static bool filter_string(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return np_jinja_to_string(j, self, out);
}

static bool filter_safe(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    if (!np_jinja_to_string(j, self, out))
        return false;
    out->form = NP_JINJA_MARKUP;
    return true;
}

static bool filter_escape(np_jinja *j, value self, const value *at, value *out)
{
    (void)at;
    return np_jinja_escape(j, self, out);
}

static bool filter_replace(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_value method, arguments[3];
    if (!np_jinja_to_string(j, self, &self) || !np_jinja_to_string(j, at[0], &arguments[0]) ||
        !np_jinja_to_string(j, at[1], &arguments[1]))
        return false;
    self.form = NP_JINJA_PLAIN;
    arguments[2] = at[2];
    const size_t n = given(at[2]) && at[2].kind != NP_JINJA_NONE ? 3 : 2;
    const np_jinja_call call = {.at = arguments, .n = n};
    return np_jinja_method(j, self, (np_bytes){(const uint8_t *)"replace", 7}, &method) &&
           np_jinja_call_value(j, method, &call, out);
}

/* Where the line at `at` ends; *next: behind its end. */
static size_t line_end(np_bytes text, size_t at, size_t *next)
{
    uint32_t code;
    for (size_t n; at < text.n; at += n) {
        n = np_jinja_char(text.p + at, text.n - at, &code);
        *next = at + n;
        if (code == '\r' && at + 1 < text.n && text.p[at + 1] == '\n')
            ++*next;
        if ((code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 || code == 0x2028 ||
            code == 0x2029)
            return at;
    }
    *next = text.n;
    return text.n;
}

static bool filter_indent(np_jinja *j, value self, const value *at, value *out)
{
    static const char spaces[] = "                                                                ";
    np_bytes indent = {(const uint8_t *)spaces, 4};
    int64_t width = 4;
    const bool first = given(at[1]) && np_jinja_truth(at[1]), blank = given(at[2]) && np_jinja_truth(at[2]);
    if (given(at[0]) && np_jinja_is_string(at[0]))
        indent = at[0].text;
    else if (!np_jinja_whole_or(j, at[0], 4, &width))
        return false;
    else if (width > (int64_t)sizeof spaces - 1)
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "indent by more than %zu", sizeof spaces - 1);
    else
        indent.n = (uint64_t)(width < 0 ? 0 : width);
    if (!np_jinja_is_string(self))
        return NP_JINJA_RAISE(j, "indent of a %s", np_jinja_type(self));
    const size_t start = j->out->length;
    const np_bytes text = self.text;
    size_t from = 0, next = 0;
    bool good = true, more = true;
    for (size_t line = 0; good && more; line++, from = next) {
        const size_t end = line_end(text, from, &next);
        more = end < text.n;
        if (line > 0)
            good = np_jinja_write_string(j, "\n");
        if (line > 0 ? blank || end > from : first)
            good = good && np_jinja_write(j, indent.p, indent.n);
        good = good && np_jinja_write(j, text.p + from, end - from);
    }
    return good && np_jinja_taken(j, start, out);
}

/* ---- numbers ----------------------------------------------------------------------------------- */

/* A number as Python's int() and float() read it from text. */
static bool read_number(np_bytes text, bool whole, char out[64])
{
    text = np_jinja_strip(text, NULL, true, true);
    size_t n = 0;
    bool digit = false, point = false;
    for (size_t i = 0; i < text.n; i++) {
        const char c = (char)text.p[i];
        const bool is_digit = c >= '0' && c <= '9';
        if (c == '_' && digit && i + 1 < text.n && text.p[i + 1] >= '0' && text.p[i + 1] <= '9')
            continue;
        const bool exponent = i && (out[n - 1] == 'e' || out[n - 1] == 'E');
        const bool sign = (c == '+' || c == '-') && (i == 0 || (exponent && !whole));
        const bool other = !whole && ((c == '.' && !point) || ((c == 'e' || c == 'E') && n && !exponent));
        if (n == 63 || !(is_digit || sign || other))
            return false;
        point = point || c == '.';
        digit = is_digit;
        out[n++] = c;
    }
    out[n] = 0;
    char *end;
    if (n == 0)
        return false;
    strtod(out, &end);
    return *end == 0;
}

static bool from_real(np_jinja *j, double real, value otherwise, value *out)
{
    if (real != real || isinf(real)) {
        *out = otherwise;
        return true;
    }
    if (fabs(real) >= 9e18)
        return np_jinja_fail(j, NEAP_ELIMIT, "a number over 64 bits");
    *out = np_jinja_whole((int64_t)real);
    return true;
}

static bool filter_int(np_jinja *j, value self, const value *at, value *out)
{
    char text[64];
    int64_t whole, base;
    const value otherwise = given(at[0]) ? at[0] : np_jinja_whole(0);
    if (self.kind == NP_JINJA_UNDEFINED)
        return np_jinja_undefined_fails(j, self);
    if (!np_jinja_whole_or(j, at[1], 10, &base))
        return false;
    if (base != 10)
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "int with base %lld", (long long)base);
    if (np_jinja_as_whole(self, &whole)) {
        *out = np_jinja_whole(whole);
        return true;
    }
    if (self.kind == NP_JINJA_FLOAT)
        return from_real(j, self.real, otherwise, out);
    *out = otherwise;
    if (!np_jinja_is_string(self))
        return true;
    if (!np_jinja_text_step(j, self.text))
        return false;
    if (read_number(self.text, true, text) && strlen(text) < 19)
        *out = np_jinja_whole(strtoll(text, NULL, 10));
    else if (read_number(self.text, false, text))
        return from_real(j, strtod(text, NULL), otherwise, out);
    return true;
}

static bool filter_float(np_jinja *j, value self, const value *at, value *out)
{
    char text[64];
    double real;
    if (self.kind == NP_JINJA_UNDEFINED)
        return np_jinja_undefined_fails(j, self);
    *out = given(at[0]) ? at[0] : np_jinja_real(0);
    if (np_jinja_is_string(self) && !np_jinja_text_step(j, self.text))
        return false;
    if (np_jinja_as_real(self, &real))
        *out = np_jinja_real(real);
    else if (np_jinja_is_string(self) && read_number(self.text, false, text))
        *out = np_jinja_real(strtod(text, NULL));
    return true;
}

static bool filter_abs(np_jinja *j, value self, const value *at, value *out)
{
    int64_t whole;
    (void)at;
    if (self.kind == NP_JINJA_FLOAT)
        *out = np_jinja_real(fabs(self.real));
    else if (!np_jinja_as_whole(self, &whole) || whole == INT64_MIN)
        return NP_JINJA_RAISE(j, "abs of a %s", np_jinja_type(self));
    else
        *out = np_jinja_whole(whole < 0 ? -whole : whole);
    return true;
}

static bool filter_round(np_jinja *j, value self, const value *at, value *out)
{
    char text[400];
    int64_t places, whole;
    if (!np_jinja_whole_or(j, at[0], 0, &places))
        return false;
    if (given(at[1]) && !(np_jinja_is_string(at[1]) && np_jinja_is(at[1].text, "common")))
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "round with a method");
    if (places < 0 || places > 20)
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "round to %lld places", (long long)places);
    if (np_jinja_as_whole(self, &whole)) {
        *out = np_jinja_whole(whole);
        return true;
    }
    if (self.kind != NP_JINJA_FLOAT)
        return NP_JINJA_RAISE(j, "round of a %s", np_jinja_type(self));
    snprintf(text, sizeof text, "%.*f", (int)places, self.real);
    *out = np_jinja_real(strtod(text, NULL));
    return true;
}

/* ---- several ----------------------------------------------------------------------------------- */

static bool filter_length(np_jinja *j, value self, const value *at, value *out)
{
    int64_t n;
    (void)at;
    if (!np_jinja_length(j, self, &n))
        return false;
    *out = np_jinja_whole(n);
    return true;
}

static bool filter_first(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    (void)at;
    if (!np_jinja_items(j, self, &items))
        return false;
    *out = items.n ? items.at[0] : np_jinja_undefined((np_bytes){0});
    return true;
}

static bool filter_last(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    (void)at;
    if (self.kind == NP_JINJA_LIST && self.form == NP_JINJA_GENERATOR)
        return NP_JINJA_RAISE(j, "last of a generator");
    if (!np_jinja_items(j, self, &items))
        return false;
    *out = items.n ? items.at[items.n - 1] : np_jinja_undefined((np_bytes){0});
    return true;
}

static bool copy_list(np_jinja *j, np_jinja_list items, np_jinja_form form, value *out)
{
    if (!np_jinja_new_list(j, items.n, form, out))
        return false;
    if (items.n)
        memcpy(out->list->at, items.at, items.n * sizeof *items.at);
    return true;
}

static bool filter_list(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    (void)at;
    return np_jinja_items(j, self, &items) && copy_list(j, items, NP_JINJA_PLAIN, out);
}

static bool filter_reverse(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    (void)at;
    if (np_jinja_is_string(self)) {
        const value bounds[3] = {{.kind = NP_JINJA_NONE}, {.kind = NP_JINJA_NONE}, np_jinja_whole(-1)};
        return np_jinja_slice(j, self, bounds, out);
    }
    if (!np_jinja_items(j, self, &items) || !np_jinja_new_list(j, items.n, NP_JINJA_GENERATOR, out))
        return false;
    for (size_t i = 0; i < items.n; i++)
        out->list->at[i] = items.at[items.n - 1 - i];
    return true;
}

/* item.a.b.0 as map and sort name it */
static bool reach(np_jinja *j, value item, value path, value *out)
{
    if (!np_jinja_is_string(path))
        return np_jinja_subscript(j, item, path, out);
    np_bytes left = path.text;
    *out = item;
    for (bool more = true; more;) {
        const uint8_t *dot = left.n ? memchr(left.p, '.', left.n) : NULL;
        const np_bytes part = {left.p, dot ? (uint64_t)(dot - left.p) : left.n};
        more = dot != NULL;
        left = more ? (np_bytes){dot + 1, left.n - part.n - 1} : (np_bytes){0};
        value key = np_jinja_text(part);
        bool digits = part.n > 0 && part.n < 10;
        int64_t number = 0;
        for (size_t i = 0; digits && i < part.n; i++) {
            digits = part.p[i] >= '0' && part.p[i] <= '9';
            number = number * 10 + part.p[i] - '0';
        }
        if (digits)
            key = np_jinja_whole(number);
        if (!np_jinja_subscript(j, *out, key, out))
            return false;
    }
    return true;
}

static bool filter_join(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    value by = np_jinja_string(""), text;
    if ((given(at[0]) && !np_jinja_to_string(j, at[0], &by)) || !np_jinja_items(j, self, &items))
        return false;
    np_bytes *parts = np_jinja_take(j, items.n * 2 + 1, sizeof *parts);
    if (!parts)
        return false;
    for (size_t i = 0; i < items.n; i++) {
        value item = items.at[i];
        if (given(at[1]) && at[1].kind != NP_JINJA_NONE && !reach(j, item, at[1], &item))
            return false;
        if (!np_jinja_to_string(j, item, &text))
            return false;
        parts[2 * i] = text.text;
        parts[2 * i + 1] = by.text;
    }
    return np_jinja_concat(j, parts, items.n ? items.n * 2 - 1 : 0, out);
}

static bool filter_default(np_jinja *j, value self, const value *at, value *out)
{
    (void)j;
    const bool use = self.kind == NP_JINJA_UNDEFINED || (given(at[1]) && np_jinja_truth(at[1]) && !np_jinja_truth(self));
    *out = !use ? self : given(at[0]) ? at[0] : np_jinja_string("");
    return true;
}

static bool pairs_of(np_jinja *j, const np_jinja_dict *dict, np_jinja_form form, value *out)
{
    if (!np_jinja_new_list(j, dict->n, form, out))
        return false;
    for (size_t i = 0; i < dict->n; i++) {
        value pair;
        if (!np_jinja_new_list(j, 2, NP_JINJA_TUPLE, &pair))
            return false;
        pair.list->at[0] = dict->at[i].key;
        pair.list->at[1] = dict->at[i].value;
        out->list->at[i] = pair;
    }
    return true;
}

static bool filter_items(np_jinja *j, value self, const value *at, value *out)
{
    static const np_jinja_dict nothing;
    (void)at;
    if (self.kind != NP_JINJA_DICT && self.kind != NP_JINJA_UNDEFINED)
        return NP_JINJA_RAISE(j, "items of a %s", np_jinja_type(self));
    return pairs_of(j, self.kind == NP_JINJA_DICT ? self.dict : &nothing, NP_JINJA_GENERATOR, out);
}

/* ---- order ------------------------------------------------------------------------------------- */

static bool fold(np_jinja *j, value v, bool case_sensitive, value *out)
{
    *out = v;
    return case_sensitive || !np_jinja_is_string(v) || np_jinja_change_case(j, v.text, NP_JINJA_LOWER, out);
}

/* The keys to compare by, one an item. */
static bool keys_of(np_jinja *j, np_jinja_list items, value path, bool case_sensitive, value **out)
{
    if (!(*out = np_jinja_take(j, items.n, sizeof **out)))
        return false;
    if (np_jinja_is_string(path) && path.text.n && memchr(path.text.p, ',', path.text.n))
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "several attributes at once");
    const bool direct = !given(path) || path.kind == NP_JINJA_NONE;
    for (size_t i = 0; i < items.n; i++) {
        value key = items.at[i];
        if ((!direct && !reach(j, key, path, &key)) || !fold(j, key, case_sensitive, &(*out)[i]))
            return false;
    }
    return true;
}

/* The filter `sort` asks for the order of keys that are not equal only; `dictsort` of all. */
static bool order_keys(np_jinja *j, value a, value b, bool unequal_only, int *out)
{
    bool same = false;
    if (unequal_only && !np_jinja_equal(j, a, b, &same))
        return false;
    *out = 0;
    return same || np_jinja_order(j, a, b, out);
}

/* Stable; `items` in the order of `keys`. Both are overwritten. */
static bool sort_by(np_jinja *j, np_jinja_list *items, value *keys, bool descending, bool unequal_only)
{
    value *other = np_jinja_take(j, items->n, 2 * sizeof *other), *at = items->at;
    if (!other)
        return false;
    value *other_keys = other + items->n;
    for (size_t width = 1; width < items->n; width *= 2) {
        for (size_t from = 0; from < items->n; from += 2 * width) {
            const size_t middle = from + width < items->n ? from + width : items->n;
            const size_t end = middle + width < items->n ? middle + width : items->n;
            for (size_t a = from, b = middle, to = from; to < end; to++) {
                int order = 0;
                if (a < middle && b < end && !order_keys(j, keys[b], keys[a], unequal_only, &order))
                    return false;
                const bool second = a == middle || (b < end && (descending ? order == 1 : order == -1));
                const size_t take = second ? b++ : a++;
                other[to] = at[take];
                other_keys[to] = keys[take];
            }
        }
        memcpy(at, other, items->n * sizeof *at);
        memcpy(keys, other_keys, items->n * sizeof *keys);
    }
    return true;
}

/* reverse, case_sensitive, attribute */
static bool filter_sort(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    value *keys;
    return np_jinja_items(j, self, &items) && copy_list(j, items, NP_JINJA_PLAIN, out) &&
           keys_of(j, *out->list, at[2], np_jinja_truth(at[1]), &keys) &&
           sort_by(j, out->list, keys, np_jinja_truth(at[0]), true);
}

/* case_sensitive, by, reverse */
static bool filter_dictsort(np_jinja *j, value self, const value *at, value *out)
{
    value *keys;
    if (self.kind != NP_JINJA_DICT)
        return NP_JINJA_RAISE(j, "dictsort of a %s", np_jinja_type(self));
    const bool by_value = given(at[1]) && np_jinja_is_string(at[1]) && np_jinja_is(at[1].text, "value");
    if (given(at[1]) && !by_value && !(np_jinja_is_string(at[1]) && np_jinja_is(at[1].text, "key")))
        return NP_JINJA_RAISE(j, "dictsort by something that is neither key nor value");
    return pairs_of(j, self.dict, NP_JINJA_PLAIN, out) &&
           keys_of(j, *out->list, np_jinja_whole(by_value), np_jinja_truth(at[0]), &keys) &&
           sort_by(j, out->list, keys, np_jinja_truth(at[2]), false);
}

/* case_sensitive, attribute */
static bool filter_unique(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    value *keys;
    np_jinja_dict seen = {0};
    if (!np_jinja_items(j, self, &items) || !keys_of(j, items, at[1], np_jinja_truth(at[0]), &keys) ||
        !np_jinja_new_list(j, items.n, NP_JINJA_GENERATOR, out))
        return false;
    size_t n = 0;
    for (size_t i = 0; i < items.n; i++) {
        const size_t before = seen.n;
        if (!np_jinja_put(j, &seen, keys[i], NP_JINJA_NOTHING))
            return false;
        if (seen.n > before)
            out->list->at[n++] = items.at[i];
    }
    out->list->n = n;
    return true;
}

/* case_sensitive, attribute */
static bool extreme(np_jinja *j, value self, const value *at, int sign, value *out)
{
    np_jinja_list items;
    value *keys;
    size_t best = 0;
    int order;
    if (!np_jinja_items(j, self, &items) || !keys_of(j, items, at[1], np_jinja_truth(at[0]), &keys))
        return false;
    for (size_t i = 1; i < items.n; i++) {
        if (!np_jinja_order(j, keys[i], keys[best], &order))
            return false;
        best = order == sign ? i : best;
    }
    *out = items.n ? items.at[best] : np_jinja_undefined((np_bytes){0});
    return true;
}

static bool filter_min(np_jinja *j, value self, const value *at, value *out)
{
    return extreme(j, self, at, -1, out);
}

static bool filter_max(np_jinja *j, value self, const value *at, value *out)
{
    return extreme(j, self, at, 1, out);
}

static bool filter_sum(np_jinja *j, value self, const value *at, value *out)
{
    np_jinja_list items;
    value sum = given(at[1]) ? at[1] : np_jinja_whole(0);
    if (!np_jinja_items(j, self, &items))
        return false;
    for (size_t i = 0; i < items.n; i++) {
        value item = items.at[i];
        if (given(at[0]) && at[0].kind != NP_JINJA_NONE && !reach(j, item, at[0], &item))
            return false;
        if (!np_jinja_operate(j, '+', sum, item, &sum))
            return false;
    }
    *out = sum;
    return true;
}

/* ---- one for each ------------------------------------------------------------------------------ */

/* What map and select go through: nothing for anything that is false. */
static bool items_if_any(np_jinja *j, value self, np_jinja_list *out)
{
    *out = (np_jinja_list){0};
    return !np_jinja_truth(self) || np_jinja_items(j, self, out);
}

static bool map_attribute(np_jinja *j, np_jinja_list items, const np_jinja_call *call, value *out)
{
    value path = {.kind = NP_JINJA_ABSENT}, otherwise = {.kind = NP_JINJA_ABSENT};
    for (size_t i = 0; i < call->n_named; i++) {
        if (np_jinja_is(call->named[i].key.text, "attribute"))
            path = call->named[i].value;
        else if (np_jinja_is(call->named[i].key.text, "default"))
            otherwise = call->named[i].value;
        else
            return NP_JINJA_RAISE(j, "map does not take \"%s\"", np_show(call->named[i].key.text).text);
    }
    if (!given(path))
        return NP_JINJA_RAISE(j, "map needs a filter or an attribute");
    for (size_t i = 0; i < items.n; i++) {
        if (!reach(j, items.at[i], path, &out->list->at[i]))
            return false;
        if (out->list->at[i].kind == NP_JINJA_UNDEFINED && given(otherwise))
            out->list->at[i] = otherwise;
    }
    return true;
}

static bool filter_map(np_jinja *j, value self, const np_jinja_call *call, value *out)
{
    np_jinja_list items;
    if (!items_if_any(j, self, &items) || !np_jinja_new_list(j, items.n, NP_JINJA_GENERATOR, out))
        return false;
    if (call->n == 0)
        return map_attribute(j, items, call, out);
    if (!np_jinja_is_string(call->at[0]))
        return NP_JINJA_RAISE(j, "map needs the name of a filter");
    const np_jinja_call rest = {call->at + 1, call->n - 1, call->named, call->n_named};
    if (!np_jinja_deeper(j))
        return false;
    for (size_t i = 0; i < items.n; i++)
        if (!np_jinja_filter(j, call->at[0].text, items.at[i], &rest, &out->list->at[i]))
            return false;
    j->depth--;
    return true;
}

/* select and its kin: the first `skip` arguments name the attribute. */
static bool choose(np_jinja *j, value self, const np_jinja_call *call, size_t skip, bool wanted, value *out)
{
    np_jinja_list items;
    size_t n = 0;
    if (!items_if_any(j, self, &items) || !np_jinja_new_list(j, items.n, NP_JINJA_GENERATOR, out))
        return false;
    if (call->n < skip)
        return NP_JINJA_RAISE(j, "selectattr and rejectattr need an attribute");
    const bool named = call->n > skip;
    if (named && !np_jinja_is_string(call->at[skip]))
        return NP_JINJA_RAISE(j, "select and reject need the name of a test");
    const np_jinja_call rest = {named ? call->at + skip + 1 : NULL, named ? call->n - skip - 1 : 0, call->named,
                                call->n_named};
    if (!np_jinja_deeper(j))
        return false;
    for (size_t i = 0; i < items.n; i++) {
        value item = items.at[i];
        bool yes;
        if (skip && !reach(j, item, call->at[0], &item))
            return false;
        yes = np_jinja_truth(item);
        if (named && !np_jinja_test(j, call->at[skip].text, item, &rest, &yes))
            return false;
        if (yes == wanted)
            out->list->at[n++] = items.at[i];
    }
    j->depth--;
    out->list->n = n;
    return true;
}

static bool filter_select(np_jinja *j, value self, const np_jinja_call *call, value *out)
{
    return choose(j, self, call, 0, true, out);
}
static bool filter_reject(np_jinja *j, value self, const np_jinja_call *call, value *out)
{
    return choose(j, self, call, 0, false, out);
}
static bool filter_selectattr(np_jinja *j, value self, const np_jinja_call *call, value *out)
{
    return choose(j, self, call, 1, true, out);
}
static bool filter_rejectattr(np_jinja *j, value self, const np_jinja_call *call, value *out)
{
    return choose(j, self, call, 1, false, out);
}

static bool filter_attr(np_jinja *j, value self, const value *at, value *out)
{
    if (!np_jinja_is_string(at[0]))
        return NP_JINJA_RAISE(j, "attr needs a name");
    if (self.kind == NP_JINJA_DICT)
        return np_jinja_method(j, self, at[0].text, out);
    return np_jinja_attribute(j, self, at[0].text, out);
}

/* ---- the table --------------------------------------------------------------------------------- */

static const np_jinja_row rows[] = {
    {"abs",        filter_abs,        0, {0},                                                    NULL             },
    {"attr",       filter_attr,       1, {"name"},                                               NULL             },
    {"capitalize", filter_capitalize, 0, {0},                                                    NULL             },
    {"count",      filter_length,     0, {0},                                                    NULL             },
    {"d",          filter_default,    0, {"default_value", "boolean"},                           NULL             },
    {"default",    filter_default,    0, {"default_value", "boolean"},                           NULL             },
    {"dictsort",   filter_dictsort,   0, {"case_sensitive", "by", "reverse"},                    NULL             },
    {"e",          filter_escape,     0, {0},                                                    NULL             },
    {"escape",     filter_escape,     0, {0},                                                    NULL             },
    {"first",      filter_first,      0, {0},                                                    NULL             },
    {"float",      filter_float,      0, {"default"},                                            NULL             },
    {"indent",     filter_indent,     0, {"width", "first", "blank"},                            NULL             },
    {"int",        filter_int,        0, {"default", "base"},                                    NULL             },
    {"items",      filter_items,      0, {0},                                                    NULL             },
    {"join",       filter_join,       0, {"d", "attribute"},                                     NULL             },
    {"last",       filter_last,       0, {0},                                                    NULL             },
    {"length",     filter_length,     0, {0},                                                    NULL             },
    {"list",       filter_list,       0, {0},                                                    NULL             },
    {"lower",      filter_lower,      0, {0},                                                    NULL             },
    {"map",        NULL,              0, {0},                                                    filter_map       },
    {"max",        filter_max,        0, {"case_sensitive", "attribute"},                        NULL             },
    {"min",        filter_min,        0, {"case_sensitive", "attribute"},                        NULL             },
    {"reject",     NULL,              0, {0},                                                    filter_reject    },
    {"rejectattr", NULL,              0, {0},                                                    filter_rejectattr},
    {"replace",    filter_replace,    2, {"old", "new", "count"},                                NULL             },
    {"reverse",    filter_reverse,    0, {0},                                                    NULL             },
    {"round",      filter_round,      0, {"precision", "method"},                                NULL             },
    {"safe",       filter_safe,       0, {0},                                                    NULL             },
    {"select",     NULL,              0, {0},                                                    filter_select    },
    {"selectattr", NULL,              0, {0},                                                    filter_selectattr},
    {"sort",       filter_sort,       0, {"reverse", "case_sensitive", "attribute"},             NULL             },
    {"string",     filter_string,     0, {0},                                                    NULL             },
    {"sum",        filter_sum,        0, {"attribute", "start"},                                 NULL             },
    {"title",      filter_title,      0, {0},                                                    NULL             },
    {"tojson",     np_jinja_to_json,  0, {"ensure_ascii", "indent", "separators", "sort_keys"}, NULL             },
    {"trim",       filter_trim,       0, {"chars"},                                              NULL             },
    {"unique",     filter_unique,     0, {"case_sensitive", "attribute"},                        NULL             },
    {"upper",      filter_upper,      0, {0},                                                    NULL             },
};

static const char *const refused[] = {
    "batch",  "center",    "filesizeformat", "forceescape", "format",   "groupby", "pprint",    "random",
    "slice",  "striptags", "truncate",       "urlencode",   "urlize",   "wordcount", "wordwrap", "xmlattr",
};

np_jinja_known np_jinja_knows_filter(np_bytes name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (np_jinja_is(name, rows[i].name))
            return NP_JINJA_DONE;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (np_jinja_is(name, refused[i]))
            return NP_JINJA_REFUSED;
    return NP_JINJA_UNKNOWN;
}

bool np_jinja_filter(np_jinja *j, np_bytes name, value self, const np_jinja_call *call, value *out)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (np_jinja_is(name, rows[i].name))
            return np_jinja_run_row(j, &rows[i], self, call, out);
    if (np_jinja_knows_filter(name) == NP_JINJA_REFUSED)
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "the filter \"%s\"", np_show(name).text);
    return NP_JINJA_RAISE(j, "there is no filter \"%s\"", np_show(name).text);
}
