/* jinja_eval.h - running a template's tree; the parts of the evaluator to each other. */
#ifndef NP_JINJA_EVAL_H
#define NP_JINJA_EVAL_H

#include "text/jinja/jinja_parse.h"

/* ---- names ------------------------------------------------------------------------------------- */

typedef struct np_jinja_scope {
    struct np_jinja_scope *outer;
    np_jinja_dict names;
} np_jinja_scope;

np_jinja_scope *np_jinja_new_scope(np_jinja *j, np_jinja_scope *outer);
bool np_jinja_set(np_jinja *j, np_jinja_scope *scope, np_bytes name, np_jinja_value value);
bool np_jinja_set_word(np_jinja *j, np_jinja_scope *scope, const char *name, np_jinja_value value);
/* The value of a name, or an undefined one. */
bool np_jinja_look_up(np_jinja *j, np_bytes name, np_jinja_value *out);
/* range, namespace, raise_exception ... */
bool np_jinja_set_functions(np_jinja *j, np_jinja_scope *scope);

/* ---- running ----------------------------------------------------------------------------------- */

typedef enum np_jinja_flow { NP_JINJA_ON, NP_JINJA_LEAVE, NP_JINJA_AGAIN } np_jinja_flow;

bool np_jinja_run(np_jinja *j, const np_jinja_node *body, np_jinja_flow *flow);
bool np_jinja_eval(np_jinja *j, const np_jinja_node *node, np_jinja_value *out);
bool np_jinja_deeper(np_jinja *j); /* j->depth++, within its limit */

typedef struct np_jinja_macro {
    const np_jinja_node *definition;
    np_jinja_scope *home;
} np_jinja_macro;

typedef struct np_jinja_loop {
    np_jinja_list items;
    size_t index;
    bool has_changed;
    np_jinja_value changed;
} np_jinja_loop;

typedef struct np_jinja_function {
    const char *name;
    bool (*run)(np_jinja *j, const np_jinja_call *call, np_jinja_value *out);
} np_jinja_function;

bool np_jinja_call_macro(np_jinja *j, const np_jinja_macro *macro, const np_jinja_call *call,
                         np_jinja_value *out);
bool np_jinja_call_value(np_jinja *j, np_jinja_value callee, const np_jinja_call *call,
                         np_jinja_value *out);
bool np_jinja_arguments(np_jinja *j, const np_jinja_node *list, np_jinja_call *out);

/* ---- filters, tests, methods ------------------------------------------------------------------- */

/* `names`: its parameters, of which the first `least` must be given. `raw`: takes the call as it is. */
typedef struct np_jinja_row {
    const char *name;
    bool (*run)(np_jinja *j, np_jinja_value self, const np_jinja_value *at, np_jinja_value *out);
    int least;
    const char *names[NP_JINJA_PARAMETERS];
    bool (*raw)(np_jinja *j, np_jinja_value self, const np_jinja_call *call, np_jinja_value *out);
} np_jinja_row;

typedef struct np_jinja_bound {
    np_jinja_value self;
    const np_jinja_row *row;
} np_jinja_bound;

bool np_jinja_run_row(np_jinja *j, const np_jinja_row *row, np_jinja_value self, const np_jinja_call *call,
                      np_jinja_value *out);
bool np_jinja_filter(np_jinja *j, np_bytes name, np_jinja_value self, const np_jinja_call *call,
                     np_jinja_value *out);
bool np_jinja_test(np_jinja *j, np_bytes name, np_jinja_value self, const np_jinja_call *call, bool *out);

/* The method of this name, UNDEFINED if values of this kind have none. */
bool np_jinja_method(np_jinja *j, np_jinja_value self, np_bytes name, np_jinja_value *out);

bool np_jinja_attribute(np_jinja *j, np_jinja_value of, np_bytes name, np_jinja_value *out);
bool np_jinja_subscript(np_jinja *j, np_jinja_value of, np_jinja_value key, np_jinja_value *out);
/* `bounds`: start, stop, step; ABSENT or NONE where there is none. */
bool np_jinja_slice(np_jinja *j, np_jinja_value of, const np_jinja_value bounds[3], np_jinja_value *out);
bool np_jinja_operate(np_jinja *j, int op, np_jinja_value a, np_jinja_value b, np_jinja_value *out);
bool np_jinja_undefined_fails(np_jinja *j, np_jinja_value v);
bool np_jinja_escape(np_jinja *j, np_jinja_value v, np_jinja_value *out);

bool np_jinja_to_json(np_jinja *j, np_jinja_value v, const np_jinja_value *at, np_jinja_value *out);
/* Fewer arguments, one after the other: "first" is ABSENT where it is not given. */
bool np_jinja_whole_or(np_jinja *j, np_jinja_value v, int64_t otherwise, int64_t *out);

#endif
