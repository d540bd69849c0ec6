/* portable.h - operators of a method outside its delegates.
 *
 * portable.def has a row for each: its name, the kinds of its arguments, its builder. A builder makes
 * nodes; nothing runs until a delegate, a jump, the method's own state or its end needs a value
 * (method_piece.c), so that neighbours are planned together.
 *
 * Kinds of arguments: T tensor, S number (integer, bool or double), I integer, B bool, D double,
 * X string, J integers, F doubles, L tensors, M tensors of which some may be absent. In lower case:
 * it may be absent. _ : of any kind, says nothing that the result does not (its dtype, its layout, where it
 * lies). */
#ifndef NP_PORTABLE_H
#define NP_PORTABLE_H

#include "program/handle.h"
#include "array/array.h"
#include "neap/ops.h"

enum { NP_PORTABLE_RESULTS = 4 };

typedef struct np_portable_call {
    neap_handle *h;
    const np_portable *row;
    const np_pte_instruction *in;
    np_dry_run *report; /* NULL: it really runs */
    neap_array *results[NP_PORTABLE_RESULTS];
    np_method_value number; /* the result of a NUMBER row */
} np_portable_call;

/* Sets results (or number); false after storing an error. A result that is NULL without an error is
 * one that nobody may read. */
typedef bool np_portable_build(np_portable_call *c);

struct np_portable {
    const char *name, *overload, *arguments;
    np_portable_build *build;
    uint32_t results; /* tensors; 0: a number, or a list of tensors that the call brings */
    bool list, number, into_first, direct;
    union {
        neap_array *(*unary)(neap_array *x);
        neap_array *(*binary)(neap_array *a, neap_array *b);
        const char *why; /* of one that is refused */
    };
};

/* ---- arguments, by their place; their kinds are checked before a builder is called --------------- */

bool np_portable_has(const np_portable_call *c, int i);
/* A tensor; a number as a 0-d one of its kind's dtype. NULL: it is absent, or an error is stored. */
neap_array *np_portable_tensor(np_portable_call *c, int i);
int64_t np_portable_int(const np_portable_call *c, int i); /* of a bool too */
double np_portable_real(const np_portable_call *c, int i); /* of any number */
bool np_portable_says(const np_portable_call *c, int i, const char *text); /* is it this string? */
/* Absent lists have no elements. */
int np_portable_count(const np_portable_call *c, int i);
int64_t np_portable_int_at(const np_portable_call *c, int i, int k);
double np_portable_real_at(const np_portable_call *c, int i, int k);
neap_array *np_portable_tensor_at(np_portable_call *c, int i, int k); /* NULL: absent */
/* Into `out`, at most NEAP_MAX_RANK; false: there are more. */
bool np_portable_ints(np_portable_call *c, int i, int *n, int64_t *out);
/* Axes of x, resolved and each named once; of an absent or empty list all. */
bool np_portable_axes(np_portable_call *c, int i, const neap_array *x, int *n, int *axes);
/* An axis of `rank` dimensions, resolved; a number has one. */
bool np_portable_axis(np_portable_call *c, int64_t axis, int rank, int *out);

/* The dtype that the method declares for a result, and its shape (upper bounds unless static). */
neap_dtype np_portable_dtype(const np_portable_call *c, int result);
const np_pte_value *np_portable_declared(const np_portable_call *c, int result);

/* Sets the first result; NULL returns false. */
bool np_portable_give(np_portable_call *c, neap_array *a);
/* Of a LIST row: how many results the call has; sets one of them. */
int np_portable_results(const np_portable_call *c);
bool np_portable_give_at(np_portable_call *c, int k, neap_array *a);
/* Stores an error; returns false. */
bool np_portable_fail(np_portable_call *c, neap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- what builders share ------------------------------------------------------------------------- */

static inline bool np_portable_is_float(const neap_array *x)
{
    return x && neap_dtype_describe((neap_dtype)x->dtype)->class_ == NEAP_CLASS_FLOAT;
}
/* 16-bit floats as f32: what has several steps is rounded once. */
neap_array *np_portable_wide(neap_array *x);
/* value as a 0-d array that goes with x: of x's dtype if that holds it, else f32. */
neap_array *np_portable_scalar(const neap_array *x, double value);

#define OP(name, overload, arguments, results, builder) np_portable_build np_portable_##builder;
#define LIST(name, overload, arguments, builder) np_portable_build np_portable_##builder;
#define INTO(name, overload, arguments, builder) np_portable_build np_portable_##builder;
#define NUMBER(name, overload, arguments, builder) np_portable_build np_portable_##builder;
#define DIRECT(name, overload, arguments, builder) np_portable_build np_portable_##builder;
#define UNARY(name, overload, op)
#define BINARY(name, overload, arguments, op)
#define REFUSED(name, overload, reason)
#include "program/portable.def"
#include "program/portable_undef.h"

#endif
