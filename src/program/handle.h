/* handle.h - a loaded method: options, delegates, the values between them, counters. */
#ifndef NP_HANDLE_H
#define NP_HANDLE_H

#include "formats/pte.h"
#include "program/delegate.h"
#include "program/sequence_cache.h"

struct neap_program {
    neap_context *ctx;
    np_pte *pte;
    np_cache_registry caches;
};

typedef struct np_run_options {
    uint64_t threshold; /* eval_threshold_bytes; 0: off */
    int64_t clear_interval;
    bool skip_buffers;
    neap_sequence_cache *cache; /* cache_key; NULL: none */
} np_run_options;

/* A value of the method while it runs. */
typedef struct np_method_value {
    neap_value_kind kind;
    neap_array *array; /* tensors: retained; of an input: NULL, see `at` */
    bool open;         /* the array is what an operator will give, not evaluated yet */
    np_argument at;
    double real;      /* DOUBLE */
    const char *text; /* STRING that is an input */
} np_method_value;

struct neap_handle {
    neap_program *program;
    const np_pte_method *method;
    neap_context *ctx;
    np_run_options options;
    uint64_t seed, draws; /* of the draws that the program does not seed */
    np_delegate **delegates; /* as many as the method has */
    np_method_value *values; /* as many as the method has */
    bool *is_state;          /* [values]: see method_state.c */
    uint32_t *last_use;      /* [values]: the instruction after which nobody reads it */
    uint32_t n_open;         /* values that are open */
    neap_array ***kept;      /* [session][values]: what states hold between calls; retained */
    size_t n_kept, kept_capacity;
    int session; /* in use; -1: none */
    int n_sessions;
    bool *session_made; /* [n_sessions]: not freed */
    size_t sessions_capacity;
    neap_handle_stats stats;
    uint64_t plan_budget; /* of each plan; 0: none */
    uint64_t fitted;      /* the limit that the plans were last fitted into; 0: none */
    uint64_t least;       /* bytes that would have done then, if they were too many; 0 */
    bool budget_is_set;   /* by the caller: execute fits no more */
};

void np_describe_value(const np_pte_value *v, neap_value *out);

/* Key of the i-th unseeded draw from now; a run then adds its draws to h->draws. */
void np_draw_key(const neap_handle *h, uint32_t i, uint32_t key[2]);

/* ---- running a method's instructions -------------------------------------------------------------- */

/* A dry run when `report` is set. */
neap_status np_method_run(neap_handle *h, np_dry_run *report);
/* A dry run from these inputs, once for each way that jumps on unknown data may take. */
typedef neap_status np_method_start(void *user);
neap_status np_method_dry_run(neap_handle *h, np_dry_run *report, np_method_start *start, void *user);
/* Operators outside the delegates, see portable.h; NULL: unknown. */
typedef struct np_portable np_portable;
const np_portable *np_portable_find(const np_pte_operator *op);
/* Why it does not run; NULL: it does. */
const char *np_portable_refusal(const np_portable *p);
/* At load: the call fits the operator. */
neap_status np_portable_check(const np_portable *p, const neap_handle *h,
                              const np_pte_instruction *in);
/* Its results are open. */
neap_status np_portable_run(const np_portable *p, neap_handle *h, const np_pte_instruction *call,
                            np_dry_run *report);
/* Does it write its first argument, which is the method's own state? NULL: false. */
bool np_portable_writes_first(const np_portable *p);

/* Evaluates what is open. */
neap_status np_method_settle(neap_handle *h, np_dry_run *report);
/* When values may be let go; after what instruction of the method's. */
neap_status np_method_lives(neap_handle *h);
void np_method_let_go(neap_handle *h, const np_pte_instruction *in, uint32_t at);

/* ---- plans within a limit ----------------------------------------------------------------------------- */

/* At the first execution under a limit: plans it, and within the limit if it would not fit. */
neap_status np_handle_fit_first(neap_handle *h, int n_inputs, const neap_value *inputs);
/* Tries parts of the way from the least plans, which fit, to free ones, which do not: the largest that
 * fits is tried last. A larger limit never leads to a smaller part. */
enum { NP_FIT_PARTS = 64, NP_FIT_LEAST = 1 }; /* no plan fits into a byte: all are the least there are */
typedef neap_status np_fit_try(void *user, int part, bool *fits);
neap_status np_fit_search(np_fit_try *attempt, void *user);
/* The budget of each plan, where the fullest takes `least` or `most`. */
uint64_t np_fit_budget(uint64_t least, uint64_t most, int part);
/* NEAP_ENOMEM with a text that names what would do, the limit and what takes the bytes. */
neap_status np_refuse_limit(neap_context *ctx, uint64_t least, uint64_t limit,
                            const uint64_t by_category[NEAP_MEM_CATEGORIES]);

/* ---- the method's own state ------------------------------------------------------------------------- */

neap_status np_method_state_find(neap_handle *h);
/* Sets the value to what the session's state holds. */
bool np_method_state_set(neap_handle *h, uint32_t value);
/* The value, which was `before`, is what it holds from now on. */
neap_status np_method_state_take(neap_handle *h, uint32_t value, const neap_array *before,
                                 np_dry_run *report);
void np_method_state_drop(neap_handle *h, int session);
void np_method_state_free(neap_handle *h);
/* Bytes that the program, or data beside it, has for a tensor of the method; false: none. */
bool np_method_data(const neap_handle *h, uint32_t value, np_bytes *out);
/* The value becomes this array. */
void np_method_value_set(np_method_value *v, neap_array *a);

/* Reads the caller's options; NEAP_EINVAL names key, value and range. */
neap_status np_options_read(neap_program *p, neap_context *ctx, const neap_handle_options *o,
                            np_run_options *out);

#endif
