/* interrupt_moments.h - a call interrupted at moments drawn from a seed, by another thread.
 *
 * A moment is a part of the processor time that the call takes when nobody interrupts it: so moments lie
 * all over the call however busy the machine is. */
#ifndef INTERRUPT_MOMENTS_H
#define INTERRUPT_MOMENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "neap/base.h"

static inline double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double processor_seconds(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* 0 .. 1 */
static inline double draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

typedef struct interrupter {
    pthread_t thread;
    neap_context *ctx;
    double at; /* processor seconds of the process */
    atomic_bool done;
    double asked, asked_wall; /* when it did; 0: the call was over before */
} interrupter;

static void *interrupter_main(void *arg)
{
    interrupter *i = arg;
    const struct timespec nap = {0, 100000};
    while (processor_seconds() < i->at)
        if (atomic_load(&i->done))
            return NULL;
        else
            nanosleep(&nap, NULL);
    i->asked = processor_seconds();
    i->asked_wall = seconds_of(CLOCK_MONOTONIC);
    neap_context_interrupt(i->ctx);
    return NULL;
}

static inline void interrupter_start(interrupter *i, neap_context *ctx, double in_seconds)
{
    *i = (interrupter){.ctx = ctx, .at = processor_seconds() + in_seconds};
    pthread_create(&i->thread, NULL, interrupter_main, i);
}

/* Call it when the call has returned. */
static inline void interrupter_stop(interrupter *i)
{
    atomic_store(&i->done, true);
    pthread_join(i->thread, NULL);
}

#endif
