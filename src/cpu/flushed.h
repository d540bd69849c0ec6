/* flushed.h - lanes that take subnormal floats for 0, as products and attention do.
 *
 * An operation on a subnormal number takes a hundred times as long on x86, and activations have them
 * (the tail of a GELU): Whisper's encoder ran a quarter slower for values below 1e-38. Every lane,
 * the caller's too, is set alike, so bits do not depend on lanes. Elsewhere than on x86: as it is. */
#ifndef NP_FLUSHED_H
#define NP_FLUSHED_H

#include "base/threads.h"

#if defined(__SSE__)
#include <xmmintrin.h>
enum { NP_FLUSH_BITS = 0x8040 }; /* flush to zero, denormals are zero */
static inline unsigned np_flush_begin(void)
{
    unsigned was = _mm_getcsr();
    _mm_setcsr(was | NP_FLUSH_BITS);
    return was;
}
static inline void np_flush_end(unsigned was)
{
    _mm_setcsr(was);
}
/* The mode of this thread; takes that mode instead of the flushed one, which it returns, until its end. */
static inline unsigned np_flush_mode(void)
{
    return _mm_getcsr();
}
static inline unsigned np_flush_pause(unsigned mode)
{
    unsigned was = _mm_getcsr();
    _mm_setcsr(mode);
    return was;
}
#else
static inline unsigned np_flush_begin(void)
{
    return 0;
}
static inline void np_flush_end(unsigned was)
{
    (void)was;
}
static inline unsigned np_flush_mode(void)
{
    return 0;
}
static inline unsigned np_flush_pause(unsigned mode)
{
    return mode;
}
#endif

typedef struct np_flushed {
    np_task task;
    void *arg;
} np_flushed;

static void np_flushed_lane(void *arg, int lane, int lanes)
{
    const np_flushed *f = arg;
    unsigned was = np_flush_begin();
    f->task(f->arg, lane, lanes);
    np_flush_end(was);
}

/* np_pool_run with such lanes; a NULL pool: the caller alone. */
static inline void np_run_flushed(np_pool *pool, np_task task, void *arg)
{
    np_flushed f = {task, arg};
    np_pool_run(pool, np_flushed_lane, &f);
}

#endif
