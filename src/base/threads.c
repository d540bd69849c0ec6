/* threads.c - see threads.h. */
#include "base/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The thread sanitizer keeps 900 KiB of its own at the top of every stack. */
#if defined(__SANITIZE_THREAD__)
enum { STACK_BYTES = 2 << 20 };
#else
enum { STACK_BYTES = 256 << 10 };
#endif
enum { SPINS = 4000, MAX_THREADS = 256 };

/* A counter that can be waited on. */
typedef struct np_gate {
    _Alignas(64) atomic_int value;
    atomic_int sleepers;
} np_gate;

typedef struct np_lane {
    pthread_t thread;
    void *stack;
    struct np_pool *pool;
    int index;
} np_lane;

struct np_pool {
    neap_context *ctx;
    int lanes;
    size_t bytes; /* of this block: lanes may be fewer than it has room for */
    np_task task;
    void *arg;
    bool stop;
    np_gate start;      /* one up for each job */
    np_gate generation; /* one up for each barrier passed */
    _Alignas(64) atomic_int arrived;
    np_lane lane[];
};

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void gate_wait(np_gate *g, int seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&g->value, memory_order_acquire) != seen)
            return;
        pause_cpu();
    }
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->value) == seen)
        syscall(SYS_futex, &g->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_open(np_gate *g)
{
    atomic_fetch_add(&g->value, 1);
    if (atomic_load(&g->sleepers) > 0)
        syscall(SYS_futex, &g->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void np_pool_barrier(np_pool *p)
{
    if (!p || p->lanes == 1)
        return;
    int seen = atomic_load_explicit(&p->generation.value, memory_order_acquire);
    if (atomic_fetch_add(&p->arrived, 1) == p->lanes - 1) {
        atomic_store(&p->arrived, 0);
        gate_open(&p->generation);
    } else {
        gate_wait(&p->generation, seen);
    }
}

static void *lane_main(void *arg)
{
    np_lane *l = arg;
    np_pool *p = l->pool;
    int seen = 0;
    for (;;) {
        gate_wait(&p->start, seen);
        seen = (int)((unsigned)seen + 1); /* wraps as the atomic counter does */
        if (p->stop)
            return NULL;
        p->task(p->arg, l->index, p->lanes);
        np_pool_barrier(p);
    }
}

void np_pool_run(np_pool *p, np_task task, void *arg)
{
    if (!p || p->lanes == 1) {
        task(arg, 0, 1);
        return;
    }
    p->task = task;
    p->arg = arg;
    gate_open(&p->start);
    task(arg, 0, p->lanes);
    np_pool_barrier(p);
}

int np_pool_lanes(const np_pool *p)
{
    return p ? p->lanes : 1;
}

void np_pool_free(np_pool *p)
{
    if (!p)
        return;
    p->stop = true;
    gate_open(&p->start);
    for (int i = 1; i < p->lanes; i++) {
        pthread_join(p->lane[i].thread, NULL);
        np_free(p->ctx, NEAP_MEM_HOST, p->lane[i].stack, STACK_BYTES);
    }
    np_free(p->ctx, NEAP_MEM_HOST, p, p->bytes);
}

static neap_status start_lane(np_pool *p, int i)
{
    np_lane *l = &p->lane[i];
    l->pool = p;
    l->index = i;
    l->stack = np_alloc(p->ctx, NEAP_MEM_HOST, STACK_BYTES);
    if (!l->stack)
        return NEAP_ENOMEM;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, l->stack, STACK_BYTES);
    int error = pthread_create(&l->thread, &attr, lane_main, l);
    pthread_attr_destroy(&attr);
    if (error) {
        np_free(p->ctx, NEAP_MEM_HOST, l->stack, STACK_BYTES);
        return np_fail(p->ctx, NEAP_ELIMIT, "thread %d could not be started (error %d)", i, error);
    }
    return NEAP_OK;
}

neap_status np_pool_new(neap_context *ctx, int threads, np_pool **out)
{
    *out = NULL;
    if (threads <= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        threads = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        if (threads > MAX_THREADS)
            threads = MAX_THREADS;
    }
    if (threads > MAX_THREADS)
        return np_fail(ctx, NEAP_ELIMIT, "threads: %d, the limit is %d", threads, MAX_THREADS);
    const size_t bytes = sizeof(np_pool) + (size_t)threads * sizeof(np_lane);
    np_pool *p = np_calloc(ctx, NEAP_MEM_HOST, bytes);
    if (!p)
        return NEAP_ENOMEM;
    p->ctx = ctx;
    p->bytes = bytes;
    p->lanes = 1;
    for (int i = 1; i < threads; i++) {
        neap_status s = start_lane(p, i);
        if (s != NEAP_OK) {
            /* Started lanes wait on `start` and read `lanes` only after it opens. */
            p->lanes = i;
            np_pool_free(p);
            return s;
        }
    }
    p->lanes = threads;
    *out = p;
    return NEAP_OK;
}
