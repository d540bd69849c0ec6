/* context.h - the inside of a neap_context and the two error rules.
 *
 * Level 0 knows ledger, error and pool. Higher levels keep what they own in `slots`, each with a
 * destructor, so this folder needs no knowledge of arrays, plans or kernels. */
#ifndef NP_CONTEXT_H
#define NP_CONTEXT_H

#include <stdarg.h>
#include <stdatomic.h>

#include "base/ledger.h"
#include "neap/base.h"

typedef struct np_pool np_pool;
typedef struct np_kernels np_kernels;

typedef enum np_slot {
    NP_SLOT_SCOPE, /* array/: the open scopes */
    NP_SLOT_PLANS, /* plan/: the plan cache */
    NP_SLOT_ARENA, /* eval/: the arena of activations and scratch */
    NP_SLOTS
} np_slot;

struct neap_context {
    np_ledger ledger;
    neap_context *parent;
    np_pool *pool;
    const np_kernels *kernels;
    uint64_t plan_cache_bytes;
    void *slot[NP_SLOTS];
    void (*slot_free[NP_SLOTS])(neap_context *ctx, void *p);
    void (*slot_trim)(neap_context *ctx); /* eval/: lets go of the idle arena */
    neap_status status;                   /* first error of the call that runs, or of building */
    char error[768];
    unsigned calls;           /* public calls that return their status and run, one in another */
    uint64_t failed_before;   /* a bit for each inner one: the status was set when it began */
    neap_status built;        /* the error of building that waits while other calls come and go */
    char built_error[768];
    atomic_uint asked; /* interrupts: requests so far; see base/interrupt.h */
    atomic_uint answered, answered_above;
    neap_progress_fn *progress;
    void *progress_user;
};

/* Stores the first error (a later one does not replace it) and returns `status`. ctx may be NULL.
 */
neap_status np_fail(neap_context *ctx, neap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The rule of errors (neap/base.h): a public call that returns its status is NP_CALL(ctx, given, work),
 * or NP_CALL_ON(object, given, work) where the object's context keeps the error. `given`: what of its
 * pointers must be there. Whatever `work` stores is told by the returned status and gone afterwards (its
 * text stays readable); what building stored before waits for the call that runs it. Inside the library a
 * call within a call leaves the status as it found it; who needs it stored calls the np_ function. */
#define NP_CALL(ctx, given, work)                                                                  \
    (np_call_begin(ctx) ? np_call_end((ctx), (given) ? (work) : np_call_refuse((ctx), __func__, #given)) \
                        : NEAP_ENOCONTEXT)
#define NP_CALL_ON(object, given, work) \
    (!(object) ? NEAP_EINVAL : NP_CALL((object)->ctx, given, work))
bool np_call_begin(neap_context *ctx); /* false: NULL */
neap_status np_call_end(neap_context *ctx, neap_status status);
neap_status np_call_refuse(neap_context *ctx, const char *function, const char *needed);

/* For the calls that run what was built: the error that building stored, if any, which this call now
 * reports. */
neap_status np_take_built(neap_context *ctx);

/* Puts "what: " before the stored error's text, so the message names the file or op at fault. */
void np_fail_prefix(neap_context *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
