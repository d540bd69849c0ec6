/* jinja_value.h - what a template computes with: Python's values, as far as chat templates use them.
 *
 * Values live in the run's blocks and go with them; nothing is freed before. Strings are bytes of
 * UTF-8 that may lie in the template or the conversation; where Python counts characters, so does
 * this. Every function that can fail returns false and has stored the error, with the line. */
#ifndef NP_JINJA_VALUE_H
#define NP_JINJA_VALUE_H

#include "base/blocks.h"
#include "neap/tokenizer.h"

typedef enum np_jinja_kind {
    NP_JINJA_ABSENT, /* an argument that is not given */
    NP_JINJA_UNDEFINED,
    NP_JINJA_NONE,
    NP_JINJA_BOOL,
    NP_JINJA_INT,
    NP_JINJA_FLOAT,
    NP_JINJA_STRING,
    NP_JINJA_LIST,
    NP_JINJA_DICT,
    NP_JINJA_NAMESPACE,
    NP_JINJA_MACRO,
    NP_JINJA_FUNCTION,
    NP_JINJA_METHOD,
    NP_JINJA_LOOP
} np_jinja_kind;

typedef enum np_jinja_form {
    NP_JINJA_PLAIN,
    NP_JINJA_MARKUP, /* a string that the filter `safe` made: + escapes the other side */
    NP_JINJA_TUPLE,  /* lists: */
    NP_JINJA_RANGE,
    NP_JINJA_VIEW,     /* what dict.items() gives: no index */
    NP_JINJA_GENERATOR /* what map and select give: no index, no length, one use */
} np_jinja_form;

typedef struct np_jinja_value np_jinja_value;
typedef struct np_jinja_pair np_jinja_pair;

typedef struct np_jinja_list {
    np_jinja_value *at;
    size_t n;
    bool used; /* a generator that was run through */
} np_jinja_list;

typedef struct np_jinja_dict {
    np_jinja_pair *at; /* in the order they came */
    size_t n, capacity;
} np_jinja_dict;

struct np_jinja_value {
    uint8_t kind, form; /* np_jinja_kind, np_jinja_form */
    union {
        np_bytes text; /* of a string; of UNDEFINED: its name */
        bool yes;
        int64_t whole;
        double real;
        np_jinja_list *list;
        np_jinja_dict *dict; /* of a namespace, too */
        const struct np_jinja_macro *macro;
        const struct np_jinja_function *function;
        const struct np_jinja_bound *bound;
        struct np_jinja_loop *loop;
    };
};

struct np_jinja_pair {
    np_jinja_value key, value;
};

/* One rendering. */
typedef struct np_jinja {
    neap_context *ctx;
    np_blocks memory;
    neap_text *out; /* macros and set blocks write behind what is there and take it off again */
    uint64_t steps, most_steps, most_bytes;
    uint32_t line; /* of the template, for messages */
    int depth;
    struct np_jinja_scope *scope;
} np_jinja;

/* A call's arguments as they were written. */
typedef struct np_jinja_call {
    np_jinja_value *at;
    size_t n;
    np_jinja_pair *named; /* keys are strings */
    size_t n_named;
} np_jinja_call;

enum { NP_JINJA_DEPTH = 400, NP_JINJA_NESTING = 64, NP_JINJA_PARAMETERS = 5 };

/* ---- making and failing ------------------------------------------------------------------------ */

/* Stores "chat template, line N: ..." and returns false. */
bool np_jinja_fail(np_jinja *j, neap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What Python or Jinja would raise for these values: NEAP_EFORMAT. */
#define NP_JINJA_RAISE(j, ...) np_jinja_fail(j, NEAP_EFORMAT, __VA_ARGS__)

/* Counts work; false over the limit. */
bool np_jinja_step(np_jinja *j, uint64_t steps);
enum { NP_JINJA_STEP_BYTES = 16 }; /* of a text that is gone through in one step */
/* Counts going through a text, and looking for a key. */
bool np_jinja_text_step(np_jinja *j, np_bytes text);
bool np_jinja_find_step(np_jinja *j, const np_jinja_dict *dict, np_jinja_value key);
/* Zeroed memory within the run's limit, or NULL. */
void *np_jinja_take(np_jinja *j, uint64_t n, size_t element);

np_jinja_value np_jinja_text(np_bytes text);
np_jinja_value np_jinja_string(const char *text);
np_jinja_value np_jinja_undefined(np_bytes name);
np_jinja_value np_jinja_whole(int64_t whole);
np_jinja_value np_jinja_real(double real);
np_jinja_value np_jinja_yes(bool yes);
#define NP_JINJA_NOTHING ((np_jinja_value){.kind = NP_JINJA_NONE})

bool np_jinja_new_list(np_jinja *j, size_t n, np_jinja_form form, np_jinja_value *out);
bool np_jinja_copy_text(np_jinja *j, np_bytes text, np_jinja_value *out);
bool np_jinja_concat(np_jinja *j, const np_bytes *parts, size_t n, np_jinja_value *out);
/* Takes what was written to the output since `start` off it. */
bool np_jinja_taken(np_jinja *j, size_t start, np_jinja_value *out);
bool np_jinja_write(np_jinja *j, const void *bytes, size_t n);
bool np_jinja_write_string(np_jinja *j, const char *text);

/* ---- looking ----------------------------------------------------------------------------------- */

/* "str", "dict", ... as Python calls it. */
const char *np_jinja_type(np_jinja_value v);
bool np_jinja_truth(np_jinja_value v);
bool np_jinja_same_bytes(np_bytes a, np_bytes b);
bool np_jinja_is(np_bytes text, const char *word);
static inline bool np_jinja_is_string(np_jinja_value v)
{
    return v.kind == NP_JINJA_STRING;
}
/* BOOL and INT are whole numbers. */
bool np_jinja_as_whole(np_jinja_value v, int64_t *out);
bool np_jinja_as_real(np_jinja_value v, double *out); /* of FLOAT, too */

bool np_jinja_equal(np_jinja *j, np_jinja_value a, np_jinja_value b, bool *out);
/* a < b: -1, 0, 1; fails for what Python cannot order. */
bool np_jinja_order(np_jinja *j, np_jinja_value a, np_jinja_value b, int *out);
bool np_jinja_contains(np_jinja *j, np_jinja_value in, np_jinja_value what, bool *out);

/* What a loop over it goes through, a generator for once. */
bool np_jinja_items(np_jinja *j, np_jinja_value v, np_jinja_list *out);
bool np_jinja_length(np_jinja *j, np_jinja_value v, int64_t *out);

/* NULL: it has no such key. Keys are compared as Python does (1 == 1.0 == True). */
np_jinja_value *np_jinja_find(const np_jinja_dict *dict, np_jinja_value key);
np_jinja_value *np_jinja_find_name(const np_jinja_dict *dict, np_bytes name);
bool np_jinja_put(np_jinja *j, np_jinja_dict *dict, np_jinja_value key, np_jinja_value value);

/* Appends str(v), repr(v), json.dumps(v) to the output. */
bool np_jinja_print(np_jinja *j, np_jinja_value v);
bool np_jinja_repr(np_jinja *j, np_jinja_value v, int depth);
bool np_jinja_to_string(np_jinja *j, np_jinja_value v, np_jinja_value *out);
/* A float as Python writes it, terminated. */
void np_jinja_float_text(double real, char out[40]);

/* ---- characters -------------------------------------------------------------------------------- */

/* The bytes of the character at p; a byte that is none counts as one. */
size_t np_jinja_char(const uint8_t *p, size_t left, uint32_t *code);
size_t np_jinja_char_count(np_bytes text);
bool np_jinja_space(uint32_t code); /* Python's str.isspace */
/* White space, or any of `which` if that is not NULL, off the ends. */
np_bytes np_jinja_strip(np_bytes text, const np_bytes *which, bool left, bool right);
/* The same, with its work counted. */
bool np_jinja_stripped(np_jinja *j, np_bytes text, const np_bytes *which, bool left, bool right, np_bytes *out);
typedef enum np_jinja_case {
    NP_JINJA_UPPER,
    NP_JINJA_LOWER,
    NP_JINJA_TITLE,      /* str.title */
    NP_JINJA_CAPITALIZE, /* str.capitalize */
    NP_JINJA_TITLE_WORDS /* the filter `title` */
} np_jinja_case;
bool np_jinja_change_case(np_jinja *j, np_bytes text, np_jinja_case how, np_jinja_value *out);
bool np_jinja_is_case(np_bytes text, bool upper); /* str.isupper, str.islower */
bool np_jinja_printable(uint32_t code);           /* what repr() does not escape */
/* Where `what` begins in `text` at or behind `from`, or SIZE_MAX. */
size_t np_jinja_search(np_bytes text, np_bytes what, size_t from);

#endif
