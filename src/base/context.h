/* context.h - the inside of a neap_context and the two error rules.
 *
 * Level 0 knows ledger, error and pool. Higher levels keep what they own in `slots`, each with a
 * destructor, so this folder needs no knowledge of arrays, plans or kernels. */
#ifndef NP_CONTEXT_H
#define NP_CONTEXT_H

#include <stdarg.h>

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
    neap_status status;                   /* first error since the last clear */
    char error[768];
};

/* Stores the first error (a later one does not replace it) and returns `status`. ctx may be NULL.
 */
neap_status np_fail(neap_context *ctx, neap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For a public call that returns its status: the error is reported, so the context can be used
 * again; its text stays readable until the next error or clear. */
neap_status np_report(neap_context *ctx, neap_status status);

/* Puts "what: " before the stored error's text, so the message names the file or op at fault. */
void np_fail_prefix(neap_context *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
