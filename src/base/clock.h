/* clock.h - seconds of a clock that only goes forward. */
#ifndef NP_CLOCK_H
#define NP_CLOCK_H

#include <time.h>

static inline double np_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
