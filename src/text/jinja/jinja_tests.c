/* jinja_tests.c - value is test(arguments). */
#include "base/shown.h"
#include "text/jinja/jinja_eval.h"

typedef np_jinja_value value;

typedef enum test {
    IS_BOOLEAN,
    IS_CALLABLE,
    IS_DEFINED,
    IS_ESCAPED,
    IS_FALSE,
    IS_FLOAT,
    IS_INTEGER,
    IS_ITERABLE,
    IS_LOWER,
    IS_MAPPING,
    IS_NONE,
    IS_NUMBER,
    IS_SEQUENCE,
    IS_STRING,
    IS_TRUE,
    IS_UNDEFINED,
    IS_UPPER,
    IS_ODD,
    IS_EVEN,
    IS_FILTER,
    IS_TEST,
    WITH_ARGUMENT, /* from here on there is one argument */
    IS_DIVISIBLE = WITH_ARGUMENT,
    IS_EQUAL,
    IS_UNEQUAL,
    IS_LESS,
    IS_LESS_EQUAL,
    IS_GREATER,
    IS_GREATER_EQUAL,
    IS_IN,
    IS_SAME
} test;

static const struct {
    const char *name;
    test which;
} rows[] = {
    {"boolean",     IS_BOOLEAN   },
    {"callable",    IS_CALLABLE  },
    {"defined",     IS_DEFINED   },
    {"divisibleby", IS_DIVISIBLE },
    {"eq",          IS_EQUAL     },
    {"equalto",     IS_EQUAL     },
    {"==",          IS_EQUAL     },
    {"escaped",     IS_ESCAPED   },
    {"even",        IS_EVEN      },
    {"false",       IS_FALSE     },
    {"filter",      IS_FILTER    },
    {"float",       IS_FLOAT     },
    {"ge",          IS_GREATER_EQUAL},
    {">=",          IS_GREATER_EQUAL},
    {"greaterthan", IS_GREATER   },
    {"gt",          IS_GREATER   },
    {">",           IS_GREATER   },
    {"in",          IS_IN        },
    {"integer",     IS_INTEGER   },
    {"iterable",    IS_ITERABLE  },
    {"le",          IS_LESS_EQUAL},
    {"<=",          IS_LESS_EQUAL},
    {"lessthan",    IS_LESS      },
    {"lower",       IS_LOWER     },
    {"lt",          IS_LESS      },
    {"<",           IS_LESS      },
    {"mapping",     IS_MAPPING   },
    {"ne",          IS_UNEQUAL   },
    {"!=",          IS_UNEQUAL   },
    {"none",        IS_NONE      },
    {"number",      IS_NUMBER    },
    {"odd",         IS_ODD       },
    {"sameas",      IS_SAME      },
    {"sequence",    IS_SEQUENCE  },
    {"string",      IS_STRING    },
    {"test",        IS_TEST      },
    {"true",        IS_TRUE      },
    {"undefined",   IS_UNDEFINED },
    {"upper",       IS_UPPER     },
};

np_jinja_known np_jinja_knows_test(np_bytes name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (np_jinja_is(name, rows[i].name))
            return NP_JINJA_DONE;
    return NP_JINJA_UNKNOWN;
}

static bool is_kind(value v, test which)
{
    const bool generator = v.kind == NP_JINJA_LIST && v.form == NP_JINJA_GENERATOR;
    const bool view = v.kind == NP_JINJA_LIST && v.form == NP_JINJA_VIEW;
    const bool several = v.kind == NP_JINJA_LIST || v.kind == NP_JINJA_STRING || v.kind == NP_JINJA_DICT ||
                         v.kind == NP_JINJA_UNDEFINED;
    switch (which) {
    case IS_BOOLEAN:
        return v.kind == NP_JINJA_BOOL;
    case IS_CALLABLE:
        return v.kind == NP_JINJA_MACRO || v.kind == NP_JINJA_FUNCTION || v.kind == NP_JINJA_METHOD ||
               v.kind == NP_JINJA_UNDEFINED || v.kind == NP_JINJA_LOOP;
    case IS_DEFINED:
        return v.kind != NP_JINJA_UNDEFINED;
    case IS_ESCAPED:
        return v.kind == NP_JINJA_STRING && v.form == NP_JINJA_MARKUP;
    case IS_FALSE:
        return v.kind == NP_JINJA_BOOL && !v.yes;
    case IS_FLOAT:
        return v.kind == NP_JINJA_FLOAT;
    case IS_INTEGER:
        return v.kind == NP_JINJA_INT;
    case IS_ITERABLE:
        return several || v.kind == NP_JINJA_LOOP;
    case IS_MAPPING:
        return v.kind == NP_JINJA_DICT;
    case IS_NONE:
        return v.kind == NP_JINJA_NONE;
    case IS_NUMBER:
        return v.kind == NP_JINJA_BOOL || v.kind == NP_JINJA_INT || v.kind == NP_JINJA_FLOAT;
    case IS_SEQUENCE:
        return several && !generator && !view;
    case IS_STRING:
        return v.kind == NP_JINJA_STRING;
    case IS_TRUE:
        return v.kind == NP_JINJA_BOOL && v.yes;
    default:
        return v.kind == NP_JINJA_UNDEFINED;
    }
}

static bool remainder_is(np_jinja *j, value v, value by, int64_t want, bool *out)
{
    return np_jinja_operate(j, '%', v, by, &v) && np_jinja_equal(j, v, np_jinja_whole(want), out);
}

static bool run_plain(np_jinja *j, test which, value v, bool *out)
{
    value text;
    switch (which) {
    case IS_ODD:
    case IS_EVEN:
        return remainder_is(j, v, np_jinja_whole(2), which == IS_ODD, out);
    case IS_UPPER:
    case IS_LOWER:
        if (!np_jinja_to_string(j, v, &text))
            return false;
        *out = np_jinja_is_case(text.text, which == IS_UPPER);
        return np_jinja_text_step(j, text.text);
    case IS_FILTER:
    case IS_TEST:
        if (!np_jinja_is_string(v))
            return np_jinja_fail(j, NEAP_EUNSUPPORTED, "a filter or test by a name that is no string");
        *out = (which == IS_FILTER ? np_jinja_knows_filter(v.text) : np_jinja_knows_test(v.text)) !=
               NP_JINJA_UNKNOWN;
        return true;
    default:
        *out = is_kind(v, which);
        return true;
    }
}

static bool run_with(np_jinja *j, test which, value v, value other, bool *out)
{
    int order;
    switch (which) {
    case IS_DIVISIBLE:
        return remainder_is(j, v, other, 0, out);
    case IS_EQUAL:
    case IS_UNEQUAL:
        if (!np_jinja_equal(j, v, other, out))
            return false;
        *out = *out == (which == IS_EQUAL);
        return true;
    case IS_IN:
        return np_jinja_contains(j, other, v, out);
    case IS_SAME:
        if (v.kind != other.kind || (v.kind != NP_JINJA_NONE && v.kind != NP_JINJA_BOOL))
            return np_jinja_fail(j, NEAP_EUNSUPPORTED, "\"sameas\" but for true, false and none");
        *out = v.kind == NP_JINJA_NONE || v.yes == other.yes;
        return true;
    default:
        if (v.kind == NP_JINJA_UNDEFINED || other.kind == NP_JINJA_UNDEFINED)
            return np_jinja_undefined_fails(j, v.kind == NP_JINJA_UNDEFINED ? v : other);
        if (!np_jinja_order(j, v, other, &order))
            return false;
        *out = order != 2 && (which == IS_LESS            ? order < 0
                              : which == IS_LESS_EQUAL    ? order <= 0
                              : which == IS_GREATER       ? order > 0
                                                          : order >= 0);
        return true;
    }
}

bool np_jinja_test(np_jinja *j, np_bytes name, value self, const np_jinja_call *call, bool *out)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!np_jinja_is(name, rows[i].name))
            continue;
        const test which = rows[i].which;
        if (call->n != (which >= WITH_ARGUMENT) || call->n_named)
            return NP_JINJA_RAISE(j, "the test \"%s\" with %zu arguments", rows[i].name, call->n);
        return which >= WITH_ARGUMENT ? run_with(j, which, self, call->at[0], out)
                                      : run_plain(j, which, self, out);
    }
    return NP_JINJA_RAISE(j, "there is no test \"%s\"", np_show(name).text);
}
