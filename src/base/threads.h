/* threads.h - the thread pool: fork, static shares, barrier, join. Tasks must not call np_pool_run.
 *
 * np_pool_run calls task(arg, lane, lanes) once for every lane and returns when all have returned. The
 * caller is lane 0, and does what no other thread has begun when it is done. Within a task, np_pool_barrier
 * waits for all lanes: all must call it, or none. Waiting spins a little, then sleeps in a futex: a
 * language model needs 200 joins a token. Stacks come from the ledger (host), 256 KiB each. */
#ifndef NP_THREADS_H
#define NP_THREADS_H

#include "base/context.h"

typedef void (*np_task)(void *arg, int lane, int lanes);

/* threads <= 0: every processor this process may use. Creating fails as a whole or not at all. */
neap_status np_pool_new(neap_context *ctx, int threads, np_pool **out);
void np_pool_free(np_pool *pool);
int np_pool_lanes(const np_pool *pool); /* 1 for a NULL pool */
/* A NULL pool, or one lane, runs the task on the caller. */
void np_pool_run(np_pool *pool, np_task task, void *arg);
void np_pool_barrier(np_pool *pool);

/* [begin, end) of `n` units for one lane; units in whole multiples of `grain`. */
static inline void np_share(int64_t n, int64_t grain, int lane, int lanes, int64_t *begin,
                            int64_t *end)
{
    int64_t blocks = (n + grain - 1) / grain;
    int64_t b = blocks * lane / lanes * grain, e = blocks * (lane + 1) / lanes * grain;
    *begin = b < n ? b : n;
    *end = e < n ? e : n;
}

#endif
