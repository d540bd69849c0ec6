/* interrupt.h - ending a call from outside: who asks, who looks, who answers.
 *
 * A request is one more on a counter; a context remembers the count that it answered last, so each
 * context ends one call for a request, its own or one of a context above. Looking costs a few loads: each
 * block of a kernel may do it, through the thread's np_working. What looked and stops early leaves
 * garbage behind: the step that runs is over, and np_check says so behind it. Between two barriers of a
 * task lanes may see a request or not; so they leave out work, never a barrier. */
#ifndef NP_INTERRUPT_H
#define NP_INTERRUPT_H

#include "base/context.h"

/* The context that this thread works for: a lane's pool's, or the one whose call runs here. */
extern _Thread_local const neap_context *np_working
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Requests to the contexts above. */
static inline uint32_t np_asked_above(const neap_context *ctx)
{
    uint32_t n = 0;
    for (const neap_context *c = ctx->parent; c; c = c->parent)
        n += atomic_load_explicit(&c->asked, memory_order_relaxed);
    return n;
}

static inline bool np_interrupted(const neap_context *ctx)
{
    return atomic_load_explicit(&ctx->asked, memory_order_relaxed) !=
               atomic_load_explicit(&ctx->answered, memory_order_relaxed) ||
           (ctx->parent &&
            np_asked_above(ctx) != atomic_load_explicit(&ctx->answered_above, memory_order_relaxed));
}

/* For kernels and other work on this thread: is the rest not wanted any more? */
static inline bool np_stop(void)
{
    return np_working && np_interrupted(np_working);
}

/* The same for a loop of short rounds: looks at each eighth one only. */
static inline bool np_stop_at(int64_t round)
{
    return (round & 7) == 0 && np_stop();
}

/* The same for element `at` of a long row, where blocks of at most 2^19 elements begin. */
static inline bool np_stop_in_row(int64_t at)
{
    return at && (at & ((1 << 19) - 1)) == 0 && np_stop();
}

/* for (int64_t i = 0; i < n; i++), left early where a piece of 2^19 begins. */
#define NP_EACH_UNTIL_STOP(i, n)                                                                    \
    for (int64_t i##_at = 0, i##_end; i##_at < (n) && !np_stop_in_row(i##_at); i##_at = i##_end)    \
        for (int64_t i = (i##_end = i##_at + (1 << 19) < (n) ? i##_at + (1 << 19) : (n), i##_at);   \
             i < i##_end; i++)

/* NEAP_ECANCELLED, stored as the context's error, if a request waits. */
neap_status np_check(neap_context *ctx);

/* The request is answered: by the call that returns NEAP_ECANCELLED. */
void np_interrupt_answer(neap_context *ctx);
/* A call begins in a context: requests to contexts above that are answered there are none of its. */
void np_interrupt_enter(neap_context *ctx);
/* A child has the requests that wait in its parent. */
void np_interrupt_inherit(neap_context *child);

/* This thread works for ctx; the one it worked for before, to be set again. */
static inline const neap_context *np_work_begin(const neap_context *ctx)
{
    const neap_context *before = np_working;
    np_working = ctx;
    return before;
}
static inline void np_work_end(const neap_context *before)
{
    np_working = before;
}

#endif
