/* neap/array.h - arrays, scopes, states and runtime parameters.
 *
 * An array is a value (it has bytes) or a node: the promise of an op's result. Building a graph
 * never computes; neap_eval (plan.h) does. Functions that build return an array owned by the
 * innermost open scope of the calling thread, or NULL after storing the first error in that scope's
 * context. NULL inputs pass through, so a whole model can be built before the one check. */
#ifndef NEAP_ARRAY_H
#define NEAP_ARRAY_H

#include "base.h"
#include "dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NEAP_MAX_RANK = 8 };

typedef struct neap_array neap_array;
typedef struct neap_state neap_state;
typedef struct neap_param neap_param;

/* ---- scopes ------------------------------------------------------------------------------- */

/* Makes ctx the current context of this thread; arrays built from now on belong to this scope.
 * Scopes are popped in the opposite order. NEAP_ENOMEM, NEAP_ELIMIT (64 scopes deep),
 * NEAP_ENOCONTEXT (NULL). */
NEAP_API neap_status neap_scope_push(neap_context *ctx);
/* Releases the scope's arrays; the context that was current before is current again. */
NEAP_API void neap_scope_pop(neap_context *ctx);

/* One more reference, which survives the scope. NULL passes through. */
NEAP_API neap_array *neap_retain(neap_array *array);
NEAP_API void neap_release(neap_array *array);

/* ---- values ------------------------------------------------------------------------------- */

/* A value with a copy of `data` (row-major, whole). Needs an open scope. */
NEAP_API neap_array *neap_array_from(neap_dtype dtype, int rank, const int64_t *shape,
                                     const void *data);
/* A value over memory of the caller, row-major; nothing is copied. `release(user)` is called when
 * the last array that looks into it goes; it may be NULL. If this returns NULL, it is not called.
 * Quantised dtypes: whole blocks a row. */
NEAP_API neap_array *neap_array_over(neap_dtype dtype, int rank, const int64_t *shape,
                                     const void *data, void (*release)(void *user), void *user);
/* A value of zeros that the caller may write through neap_array_mutable between evaluations. */
NEAP_API neap_array *neap_array_zeros(neap_dtype dtype, int rank, const int64_t *shape);
/* A 0-d value. Integers are taken exactly up to 2^53. */
NEAP_API neap_array *neap_scalar(neap_dtype dtype, double value);

/* Of NULL: NEAP_BOOL, 0, false or NULL. */
NEAP_API neap_dtype neap_array_dtype(const neap_array *array);
NEAP_API int neap_array_rank(const neap_array *array);
NEAP_API const int64_t *neap_array_shape(const neap_array *array);
/* In elements; meaningful for values. */
NEAP_API const int64_t *neap_array_strides(const neap_array *array);
NEAP_API int64_t neap_array_size(const neap_array *array);   /* elements */
NEAP_API uint64_t neap_array_bytes(const neap_array *array); /* as if row-major */
NEAP_API bool neap_array_is_value(const neap_array *array);
/* First element of a value (strides apply); NULL for a node. */
NEAP_API const void *neap_array_data(const neap_array *array);
/* The same, to write through: a value made by _zeros or _from, between evaluations. Views of it and
 * plans that use it see what is written. */
NEAP_API void *neap_array_mutable(neap_array *array);
/* Copies a value, row-major, to `out`. NEAP_EINVAL for a node or if `bytes` is not its size. */
NEAP_API neap_status neap_array_read(const neap_array *array, void *out, uint64_t bytes);
/* A name that reports show; a copy is kept on the ledger. */
NEAP_API void neap_array_set_name(neap_array *array, const char *name);

/* ---- states ------------------------------------------------------------------------------- */

/* A named mutable buffer, zero at first; bytes are taken at its first use. One reference is yours:
 * free it; what uses the state keeps it alive. NEAP_ESHAPE, NEAP_ENOMEM. */
NEAP_API neap_status neap_state_new(neap_context *ctx, const char *name, neap_dtype dtype, int rank,
                                    const int64_t *shape, neap_state **out);
NEAP_API void neap_state_free(neap_state *state);
/* The state's contents after every write recorded so far. Evaluating it (or what uses it) after a
 * later write has run is NEAP_ESTALE. */
NEAP_API neap_array *neap_state_read(neap_state *state);
/* Records a write of `value` into target: neap_state_read(state) or a view (slice, transpose …) of
 * it. In place; shapes must agree; cast to the state's dtype. Runs with the next evaluation that
 * touches the state, or neap_state_flush. Returns the effect node. */
NEAP_API neap_array *neap_state_write(neap_array *target, neap_array *value);
/* The same for rows beyond those in use (a cache that grows): if the evaluation fails they do not
 * exist, so the state is not poisoned and the step can be repeated. */
NEAP_API neap_array *neap_state_append(neap_array *target, neap_array *value);
/* Runs the writes recorded so far, in portions: what it takes does not grow with their number. Where a
 * limit leaves too little for that, a write beyond the first 64 that wait is refused (NEAP_ENOMEM). */
NEAP_API neap_status neap_state_flush(neap_state *state);
/* Forgets recorded writes, zeroes the contents, lifts the poison. Reads and writes recorded before
 * are NEAP_ESTALE from then on. */
NEAP_API neap_status neap_state_reset(neap_state *state);
NEAP_API uint64_t neap_state_bytes(const neap_state *state);

/* ---- runtime parameters ------------------------------------------------------------------- */

/* An integer in [0, max] that a plan reads each time it runs: positions, lengths, row counts. 0 at
 * first. It must outlive the arrays and plans that use it. NEAP_EINVAL, NEAP_ENOMEM. */
NEAP_API neap_status neap_param_new(neap_context *ctx, const char *name, int64_t max,
                                    neap_param **out);
NEAP_API void neap_param_free(neap_param *param);
/* NEAP_EINVAL names the range. */
NEAP_API neap_status neap_param_set(neap_param *param, int64_t value);
NEAP_API int64_t neap_param_value(const neap_param *param);

#ifdef __cplusplus
}
#endif
#endif
