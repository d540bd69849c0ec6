/* jinja_express.c - the value of an expression. */
#include "base/shown.h"
#include "text/jinja/jinja_eval.h"

typedef np_jinja_value value;
typedef np_jinja_node node;

/* ---- access ------------------------------------------------------------------------------------ */

bool np_jinja_undefined_fails(np_jinja *j, value v)
{
    if (v.text.n == 0)
        return NP_JINJA_RAISE(j, "an undefined value is used");
    return NP_JINJA_RAISE(j, "\"%s\" is undefined", np_show(v.text).text);
}

static bool loop_attribute(np_jinja *j, value v, np_bytes name, value *out)
{
    const np_jinja_loop *l = v.loop;
    const int64_t at = (int64_t)l->index, n = (int64_t)l->items.n;
    const struct {
        const char *name;
        value value;
    } rows[] = {
        {"index",     np_jinja_whole(at + 1)      },
        {"index0",    np_jinja_whole(at)          },
        {"revindex",  np_jinja_whole(n - at)      },
        {"revindex0", np_jinja_whole(n - at - 1)  },
        {"first",     np_jinja_yes(at == 0)       },
        {"last",      np_jinja_yes(at == n - 1)   },
        {"length",    np_jinja_whole(n)           },
        {"depth",     np_jinja_whole(1)},
        {"depth0",    np_jinja_whole(0)},
        {"previtem",  at > 0 ? l->items.at[at - 1] : np_jinja_undefined(name)},
        {"nextitem",  at + 1 < n ? l->items.at[at + 1] : np_jinja_undefined(name)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (np_jinja_is(name, rows[i].name)) {
            *out = rows[i].value;
            return true;
        }
    return np_jinja_method(j, v, name, out);
}

bool np_jinja_attribute(np_jinja *j, value of, np_bytes name, value *out)
{
    const value *item = NULL;
    if (of.kind == NP_JINJA_UNDEFINED)
        return np_jinja_undefined_fails(j, of);
    *out = np_jinja_undefined(name);
    if (of.kind == NP_JINJA_NAMESPACE) {
        if ((item = np_jinja_find_name(of.dict, name)) != NULL)
            *out = *item;
        return np_jinja_find_step(j, of.dict, np_jinja_text(name));
    }
    if (of.kind == NP_JINJA_LOOP)
        return loop_attribute(j, of, name, out);
    if (of.kind == NP_JINJA_MACRO && np_jinja_is(name, "name")) {
        *out = np_jinja_text(of.macro->definition->text);
        return true;
    }
    if (!np_jinja_method(j, of, name, out))
        return false;
    if (out->kind == NP_JINJA_UNDEFINED && of.kind == NP_JINJA_DICT &&
        (item = np_jinja_find_name(of.dict, name)) != NULL)
        *out = *item;
    return of.kind != NP_JINJA_DICT || np_jinja_find_step(j, of.dict, np_jinja_text(name));
}

/* The character of a string, counted from its start or (negative) its end. */
static bool character(np_bytes text, int64_t index, np_bytes *out)
{
    uint32_t code;
    if (index < 0)
        index += (int64_t)np_jinja_char_count(text);
    for (size_t at = 0, n; index >= 0 && at < text.n; at += n, index--) {
        n = np_jinja_char(text.p + at, text.n - at, &code);
        if (index == 0) {
            *out = (np_bytes){text.p + at, n};
            return true;
        }
    }
    return false;
}

bool np_jinja_subscript(np_jinja *j, value of, value key, value *out)
{
    int64_t index;
    if (of.kind == NP_JINJA_UNDEFINED)
        return np_jinja_undefined_fails(j, of);
    *out = np_jinja_undefined(np_jinja_is_string(key) ? key.text : (np_bytes){0});
    if (of.kind == NP_JINJA_DICT) {
        const value *item = np_jinja_find(of.dict, key);
        if (!np_jinja_find_step(j, of.dict, key))
            return false;
        if (item) {
            *out = *item;
            return true;
        }
    }
    if (np_jinja_as_whole(key, &index)) {
        if (np_jinja_is_string(of)) {
            np_bytes c;
            if (character(of.text, index, &c)) {
                *out = np_jinja_text(c);
                out->form = of.form;
            }
            return np_jinja_step(j, of.text.n / 64);
        }
        if (of.kind == NP_JINJA_LIST && of.form != NP_JINJA_VIEW && of.form != NP_JINJA_GENERATOR) {
            const int64_t n = (int64_t)of.list->n, at = index < 0 ? index + n : index;
            if (at >= 0 && at < n)
                *out = of.list->at[at];
        }
        return true;
    }
    return !np_jinja_is_string(key) || np_jinja_attribute(j, of, key.text, out);
}

/* ---- slices ------------------------------------------------------------------------------------ */

static int64_t clamped(int64_t at, int64_t n, int64_t low, int64_t high)
{
    if (at < 0)
        at = at < -n ? low : at + n;
    return at < low ? low : at > high ? high : at;
}

static bool slice_string(np_jinja *j, value of, int64_t start, int64_t count, int64_t step, value *out)
{
    np_jinja_list characters;
    if (step == 1) { /* no need to take it apart */
        np_bytes text = of.text;
        size_t at = 0;
        uint32_t code;
        for (; start > 0; start--)
            at += np_jinja_char(text.p + at, text.n - at, &code);
        size_t end = at;
        for (; count > 0; count--)
            end += np_jinja_char(text.p + end, text.n - end, &code);
        *out = np_jinja_text((np_bytes){text.p + at, end - at});
        out->form = of.form;
        return np_jinja_step(j, text.n / 64);
    }
    const size_t before = j->out->length;
    if (!np_jinja_items(j, of, &characters))
        return false;
    for (; count > 0; count--, start += step)
        if (!np_jinja_write(j, characters.at[start].text.p, characters.at[start].text.n))
            return false;
    if (!np_jinja_taken(j, before, out))
        return false;
    out->form = of.form;
    return true;
}

static bool slice_bound(value v, int64_t *out, bool *given)
{
    *given = v.kind != NP_JINJA_ABSENT && v.kind != NP_JINJA_NONE;
    return !*given || np_jinja_as_whole(v, out);
}

bool np_jinja_slice(np_jinja *j, value of, const value bounds[3], value *out)
{
    int64_t start = 0, stop = 0, step = 1, n = 0;
    bool has_start, has_stop, has_step;
    if (of.kind == NP_JINJA_UNDEFINED)
        return np_jinja_undefined_fails(j, of);
    const bool sliced = np_jinja_is_string(of) || (of.kind == NP_JINJA_LIST && of.form != NP_JINJA_VIEW &&
                                                   of.form != NP_JINJA_GENERATOR);
    if (!sliced || !slice_bound(bounds[0], &start, &has_start) || !slice_bound(bounds[1], &stop, &has_stop) ||
        !slice_bound(bounds[2], &step, &has_step))
        return NP_JINJA_RAISE(j, "a slice of a %s, or with a bound that is no number", np_jinja_type(of));
    if (step == 0)
        return NP_JINJA_RAISE(j, "a slice with step 0");
    if (step < -INT32_MAX)
        step = -INT32_MAX;
    if (step > INT32_MAX)
        step = INT32_MAX;
    if (!np_jinja_length(j, of, &n))
        return false;
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    start = has_start ? clamped(start, n, low, high) : step > 0 ? 0 : n - 1;
    stop = has_stop ? clamped(stop, n, low, high) : step > 0 ? n : -1;
    int64_t count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
    if (step > 0 ? stop <= start : start <= stop)
        count = 0;
    if (np_jinja_is_string(of))
        return slice_string(j, of, start, count, step, out);
    if (!np_jinja_new_list(j, (size_t)count, of.form, out))
        return false;
    for (int64_t i = 0; i < count; i++)
        out->list->at[i] = of.list->at[start + i * step];
    return true;
}

/* ---- calls ------------------------------------------------------------------------------------- */

static bool spread(np_jinja *j, const node *n, np_jinja_list *items, np_jinja_dict *named)
{
    value v;
    *items = (np_jinja_list){0};
    *named = (np_jinja_dict){0};
    if (!np_jinja_eval(j, n->a, &v))
        return false;
    if (n->op == '*')
        return np_jinja_items(j, v, items);
    if (v.kind != NP_JINJA_DICT)
        return NP_JINJA_RAISE(j, "** of a %s", np_jinja_type(v));
    *named = *v.dict;
    return true;
}

static bool add_spread(np_jinja *j, const node *n, np_jinja_call *call)
{
    np_jinja_list items;
    np_jinja_dict named;
    if (!spread(j, n, &items, &named))
        return false;
    value *at = np_jinja_take(j, call->n + items.n, sizeof *at);
    np_jinja_pair *pairs = np_jinja_take(j, call->n_named + named.n, sizeof *pairs);
    if (!at || !pairs)
        return false;
    if (call->n)
        memcpy(at, call->at, call->n * sizeof *at);
    if (items.n)
        memcpy(at + call->n, items.at, items.n * sizeof *at);
    if (call->n_named)
        memcpy(pairs, call->named, call->n_named * sizeof *pairs);
    for (size_t i = 0; i < named.n; i++) {
        if (!np_jinja_is_string(named.at[i].key))
            return NP_JINJA_RAISE(j, "** with a key that is no string");
        pairs[call->n_named + i] = named.at[i];
    }
    *call = (np_jinja_call){at, call->n + items.n, pairs, call->n_named + named.n};
    return true;
}

bool np_jinja_arguments(np_jinja *j, const node *list, np_jinja_call *out)
{
    size_t n = 0, named = 0;
    *out = (np_jinja_call){0};
    for (const node *a = list; a; a = a->next)
        a->op ? 0 : a->text.n ? named++ : n++;
    if ((n && !(out->at = np_jinja_take(j, n, sizeof *out->at))) ||
        (named && !(out->named = np_jinja_take(j, named, sizeof *out->named))))
        return false;
    const node *spreads[2] = {NULL, NULL};
    for (const node *a = list; a; a = a->next) {
        value v;
        if (a->op) {
            spreads[a->op != '*'] = a;
            continue;
        }
        if (!np_jinja_eval(j, a->a, &v))
            return false;
        if (a->text.n)
            out->named[out->n_named++] = (np_jinja_pair){np_jinja_text(a->text), v};
        else
            out->at[out->n++] = v;
    }
    return (!spreads[0] || add_spread(j, spreads[0], out)) && (!spreads[1] || add_spread(j, spreads[1], out));
}

bool np_jinja_call_value(np_jinja *j, value callee, const np_jinja_call *call, value *out)
{
    switch (callee.kind) {
    case NP_JINJA_MACRO:
        return np_jinja_call_macro(j, callee.macro, call, out);
    case NP_JINJA_FUNCTION:
        return callee.function->run(j, call, out);
    case NP_JINJA_METHOD:
        return np_jinja_run_row(j, callee.bound->row, callee.bound->self, call, out);
    case NP_JINJA_UNDEFINED:
        return np_jinja_undefined_fails(j, callee);
    default:
        return NP_JINJA_RAISE(j, "a %s cannot be called", np_jinja_type(callee));
    }
}

static bool eval_call(np_jinja *j, const node *n, value *out)
{
    value callee;
    np_jinja_call call;
    if (!np_jinja_eval(j, n->a, &callee) || !np_jinja_arguments(j, n->b, &call))
        return false;
    j->line = n->line;
    return np_jinja_call_value(j, callee, &call, out);
}

static bool eval_filter(np_jinja *j, const node *n, value *out)
{
    value self;
    np_jinja_call call;
    if (!np_jinja_eval(j, n->a, &self) || !np_jinja_arguments(j, n->b, &call))
        return false;
    j->line = n->line;
    return np_jinja_filter(j, n->text, self, &call, out);
}

static bool eval_test(np_jinja *j, const node *n, value *out)
{
    value self;
    np_jinja_call call;
    bool yes;
    if (!np_jinja_eval(j, n->a, &self) || !np_jinja_arguments(j, n->b, &call))
        return false;
    j->line = n->line;
    if (!np_jinja_test(j, n->text, self, &call, &yes))
        return false;
    *out = np_jinja_yes(yes != (n->op == 1));
    return true;
}

/* ---- operators --------------------------------------------------------------------------------- */

enum { MOST_PARTS = 24 };

/* a + b + c of strings is made in one piece. */
static bool eval_chain(np_jinja *j, const node *n, value *out)
{
    np_bytes parts[MOST_PARTS];
    size_t n_parts = 0;
    value v, other;
    if (!np_jinja_eval(j, n->a, &v))
        return false;
    for (const node *o = n->b; o; o = o->next) {
        if (!np_jinja_eval(j, o->a, &other))
            return false;
        j->line = o->line;
        const bool strings = o->op == '+' && np_jinja_is_string(v) && np_jinja_is_string(other) &&
                             v.form == NP_JINJA_PLAIN && other.form == NP_JINJA_PLAIN;
        if (n_parts == MOST_PARTS || (n_parts && !strings)) {
            if (!np_jinja_concat(j, parts, n_parts, &v))
                return false;
            n_parts = 0;
        }
        if (strings) {
            if (n_parts == 0)
                parts[n_parts++] = v.text;
            parts[n_parts++] = other.text;
        } else if (!np_jinja_operate(j, o->op, v, other, &v)) {
            return false;
        }
    }
    *out = v;
    return n_parts == 0 || np_jinja_concat(j, parts, n_parts, out);
}

static bool compare(np_jinja *j, int op, value a, value b, bool *out)
{
    int order;
    if (op == NP_JINJA_IN || op == NP_JINJA_NOT_IN) {
        if (!np_jinja_contains(j, b, a, out))
            return false;
        *out = *out == (op == NP_JINJA_IN);
        return true;
    }
    if (op == NP_JINJA_EQ || op == NP_JINJA_NE) {
        if (!np_jinja_equal(j, a, b, out))
            return false;
        *out = *out == (op == NP_JINJA_EQ);
        return true;
    }
    if (a.kind == NP_JINJA_UNDEFINED || b.kind == NP_JINJA_UNDEFINED)
        return np_jinja_undefined_fails(j, a.kind == NP_JINJA_UNDEFINED ? a : b);
    if (!np_jinja_order(j, a, b, &order))
        return false;
    *out = order != 2 && (op == '<' ? order < 0 : op == '>' ? order > 0 : op == NP_JINJA_LE ? order <= 0 : order >= 0);
    return true;
}

static bool eval_compare(np_jinja *j, const node *n, value *out)
{
    value v, other;
    bool yes = true;
    if (!np_jinja_eval(j, n->a, &v))
        return false;
    for (const node *o = n->b; o && yes; o = o->next) {
        if (!np_jinja_eval(j, o->a, &other))
            return false;
        j->line = o->line;
        if (!compare(j, o->op, v, other, &yes))
            return false;
        v = other;
    }
    *out = np_jinja_yes(yes);
    return true;
}

static bool eval_joined(np_jinja *j, const node *n, value *out)
{
    value v, text;
    size_t count = 1;
    for (const node *o = n->b; o; o = o->next)
        count++;
    np_bytes *parts = np_jinja_take(j, count, sizeof *parts);
    if (!parts || !np_jinja_eval(j, n->a, &v) || !np_jinja_to_string(j, v, &text))
        return false;
    parts[0] = text.text;
    count = 1;
    for (const node *o = n->b; o; o = o->next) {
        if (!np_jinja_eval(j, o->a, &v) || !np_jinja_to_string(j, v, &text))
            return false;
        parts[count++] = text.text;
    }
    return np_jinja_concat(j, parts, count, out);
}

static bool eval_logic(np_jinja *j, const node *n, value *out)
{
    if (!np_jinja_eval(j, n->a, out))
        return false;
    for (const node *o = n->b; o && np_jinja_truth(*out) == (n->kind == NP_JINJA_AND); o = o->next)
        if (!np_jinja_eval(j, o->a, out))
            return false;
    return true;
}

static bool eval_negate(np_jinja *j, const node *n, value *out)
{
    value v;
    int64_t whole;
    if (!np_jinja_eval(j, n->a, &v))
        return false;
    if (v.kind == NP_JINJA_UNDEFINED)
        return np_jinja_undefined_fails(j, v);
    if (v.kind == NP_JINJA_FLOAT) {
        *out = np_jinja_real(n->op == '-' ? -v.real : v.real);
        return true;
    }
    if (!np_jinja_as_whole(v, &whole))
        return NP_JINJA_RAISE(j, "%c of a %s", n->op, np_jinja_type(v));
    if (n->op == '-' && whole == INT64_MIN)
        return np_jinja_fail(j, NEAP_ELIMIT, "a number over 64 bits");
    *out = np_jinja_whole(n->op == '-' ? -whole : whole);
    return true;
}

/* ---- literals ---------------------------------------------------------------------------------- */

static bool eval_list(np_jinja *j, const node *n, value *out)
{
    size_t count = 0;
    for (const node *o = n->a; o; o = o->next)
        count++;
    if (!np_jinja_new_list(j, count, n->op ? NP_JINJA_TUPLE : NP_JINJA_PLAIN, out))
        return false;
    count = 0;
    for (const node *o = n->a; o; o = o->next)
        if (!np_jinja_eval(j, o->a, &out->list->at[count++]))
            return false;
    return true;
}

static bool eval_dict(np_jinja *j, const node *n, value *out)
{
    np_jinja_dict *dict = np_jinja_take(j, 1, sizeof *dict);
    if (!dict)
        return false;
    for (const node *o = n->a; o; o = o->next->next) {
        value key, item;
        if (!np_jinja_eval(j, o->a, &key) || !np_jinja_eval(j, o->next->a, &item) ||
            !np_jinja_put(j, dict, key, item))
            return false;
    }
    *out = (value){.kind = NP_JINJA_DICT, .dict = dict};
    return true;
}

static bool eval_index(np_jinja *j, const node *n, value *out)
{
    value of, key;
    if (!np_jinja_eval(j, n->a, &of))
        return false;
    if (n->kind == NP_JINJA_ATTRIBUTE) {
        j->line = n->line;
        return np_jinja_attribute(j, of, n->text, out);
    }
    if (n->kind == NP_JINJA_INDEX) {
        if (!np_jinja_eval(j, n->b, &key))
            return false;
        j->line = n->line;
        return np_jinja_subscript(j, of, key, out);
    }
    value bounds[3];
    int part = 0;
    for (const node *o = n->b->a; o; o = o->next)
        if (!np_jinja_eval(j, o->a, &bounds[part++]))
            return false;
    j->line = n->line;
    return np_jinja_slice(j, of, bounds, out);
}

static bool eval_if_else(np_jinja *j, const node *n, value *out)
{
    value condition;
    if (!np_jinja_eval(j, n->b, &condition))
        return false;
    if (np_jinja_truth(condition))
        return np_jinja_eval(j, n->a, out);
    *out = np_jinja_undefined((np_bytes){0});
    return !n->c || np_jinja_eval(j, n->c, out);
}

static bool eval_inner(np_jinja *j, const node *n, value *out)
{
    switch (n->kind) {
    case NP_JINJA_CONSTANT:
        *out = n->constant;
        return true;
    case NP_JINJA_NAME:
        return np_jinja_look_up(j, n->text, out);
    case NP_JINJA_LIST_OF:
        return eval_list(j, n, out);
    case NP_JINJA_DICT_OF:
        return eval_dict(j, n, out);
    case NP_JINJA_ATTRIBUTE:
    case NP_JINJA_INDEX:
    case NP_JINJA_SLICE:
        return eval_index(j, n, out);
    case NP_JINJA_CALL:
        return eval_call(j, n, out);
    case NP_JINJA_FILTER:
        return eval_filter(j, n, out);
    case NP_JINJA_TEST:
        return eval_test(j, n, out);
    case NP_JINJA_NEGATE:
        return eval_negate(j, n, out);
    case NP_JINJA_NOT:
        if (!np_jinja_eval(j, n->a, out))
            return false;
        *out = np_jinja_yes(!np_jinja_truth(*out));
        return true;
    case NP_JINJA_CHAIN:
        return eval_chain(j, n, out);
    case NP_JINJA_COMPARE:
        return eval_compare(j, n, out);
    case NP_JINJA_JOINED:
        return eval_joined(j, n, out);
    case NP_JINJA_AND:
    case NP_JINJA_OR:
        return eval_logic(j, n, out);
    default: /* NP_JINJA_IF_ELSE: the parser makes no other */
        return eval_if_else(j, n, out);
    }
}

bool np_jinja_deeper(np_jinja *j)
{
    if (j->depth >= NP_JINJA_DEPTH)
        return np_jinja_fail(j, NEAP_ELIMIT, "macros and expressions nested over %d deep", NP_JINJA_DEPTH);
    j->depth++;
    return true;
}

bool np_jinja_eval(np_jinja *j, const node *n, value *out)
{
    if (!np_jinja_step(j, 1) || !np_jinja_deeper(j))
        return false;
    j->line = n->line;
    const bool good = eval_inner(j, n, out);
    j->depth--;
    return good;
}
