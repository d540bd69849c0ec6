/* jinja_functions.c - the functions that a chat template can call. */
#include <stdio.h>
#include <time.h>

#include "base/shown.h"
#include "text/jinja/jinja_eval.h"

typedef np_jinja_value value;

enum { MOST_RANGE = 100000 };

static bool call_raise(np_jinja *j, const np_jinja_call *call, value *out)
{
    const value *message = call->n ? call->at : call->n_named ? &call->named[0].value : NULL;
    value text;
    (void)out;
    if (!message || call->n + call->n_named != 1)
        return NP_JINJA_RAISE(j, "raise_exception takes one message");
    if (!np_jinja_to_string(j, *message, &text))
        return false;
    const int n = text.text.n < 500 ? (int)text.text.n : 500;
    return np_jinja_fail(j, NEAP_EINVAL, "%.*s", n, (const char *)text.text.p);
}

static bool call_range(np_jinja *j, const np_jinja_call *call, value *out)
{
    int64_t bounds[3] = {0, 0, 1};
    if (call->n < 1 || call->n > 3 || call->n_named)
        return NP_JINJA_RAISE(j, "range takes one to three numbers");
    for (size_t i = 0; i < call->n; i++)
        if (!np_jinja_as_whole(call->at[i], &bounds[call->n == 1 ? 1 : i]))
            return NP_JINJA_RAISE(j, "range of a %s", np_jinja_type(call->at[i]));
    const int64_t start = bounds[0], stop = bounds[1], step = bounds[2];
    if (step == 0)
        return NP_JINJA_RAISE(j, "range with step 0");
    uint64_t n = 0;
    if (step > 0 && stop > start)
        n = ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1;
    if (step < 0 && stop < start)
        n = ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1;
    if (n > MOST_RANGE)
        return NP_JINJA_RAISE(j, "range over %d numbers", MOST_RANGE);
    if (!np_jinja_new_list(j, n, NP_JINJA_RANGE, out))
        return false;
    for (uint64_t i = 0; i < n; i++)
        out->list->at[i] = np_jinja_whole((int64_t)((uint64_t)start + i * (uint64_t)step));
    return true;
}

static bool fill(np_jinja *j, np_jinja_kind kind, const np_jinja_call *call, value *out)
{
    np_jinja_dict *dict = np_jinja_take(j, 1, sizeof *dict);
    if (!dict)
        return false;
    if (call->n > 1)
        return NP_JINJA_RAISE(j, "dict and namespace take one dict at most");
    if (call->n && call->at[0].kind != NP_JINJA_DICT)
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "dict or namespace of a %s", np_jinja_type(call->at[0]));
    const np_jinja_dict *from = call->n ? call->at[0].dict : NULL;
    const size_t n = from ? from->n : 0;
    for (size_t i = 0; i < n + call->n_named; i++) {
        const np_jinja_pair *p = i < n ? &from->at[i] : &call->named[i - n];
        if (kind == NP_JINJA_NAMESPACE && np_jinja_is_string(p->key) && p->key.text.n && p->key.text.p[0] == '_')
            return NP_JINJA_RAISE(j, "a namespace takes no name with _ before it");
        if (!np_jinja_put(j, dict, p->key, p->value))
            return false;
    }
    *out = (value){.kind = (uint8_t)kind, .dict = dict};
    return true;
}

static bool call_namespace(np_jinja *j, const np_jinja_call *call, value *out)
{
    return fill(j, NP_JINJA_NAMESPACE, call, out);
}

static bool call_dict(np_jinja *j, const np_jinja_call *call, value *out)
{
    return fill(j, NP_JINJA_DICT, call, out);
}

static bool call_strftime(np_jinja *j, const np_jinja_call *call, value *out)
{
    char format[128], text[512];
    if (call->n != 1 || call->n_named || !np_jinja_is_string(call->at[0]))
        return NP_JINJA_RAISE(j, "strftime_now takes one format");
    const np_bytes given = call->at[0].text;
    if (given.n >= sizeof format - 1 || (given.n && memchr(given.p, 0, given.n)))
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "strftime_now with a format of %llu bytes",
                             (unsigned long long)given.n);
    snprintf(format, sizeof format, "%.*s", (int)given.n, (const char *)given.p);
    const time_t now = time(NULL);
    struct tm local;
    if (!localtime_r(&now, &local))
        return NP_JINJA_RAISE(j, "there is no local time");
    const size_t n = strftime(text, sizeof text, format, &local);
    if (n == 0 && given.n)
        return np_jinja_fail(j, NEAP_EUNSUPPORTED, "strftime_now with \"%s\"", np_show(given).text);
    return np_jinja_copy_text(j, (np_bytes){(const uint8_t *)text, n}, out);
}

bool np_jinja_set_functions(np_jinja *j, np_jinja_scope *scope)
{
    static const np_jinja_function rows[] = {
        {"raise_exception", call_raise    },
        {"range",           call_range    },
        {"namespace",       call_namespace},
        {"dict",            call_dict     },
        {"strftime_now",    call_strftime },
    };
    bool good = true;
    for (size_t i = 0; good && i < sizeof rows / sizeof rows[0]; i++)
        good = np_jinja_set_word(j, scope, rows[i].name,
                                 (value){.kind = NP_JINJA_FUNCTION, .function = &rows[i]});
    return good;
}
