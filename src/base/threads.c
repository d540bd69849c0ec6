/* threads.c - see threads.h. */
#include "base/threads.h"

#include "base/interrupt.h"

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
enum { SPINS = 2000, MAX_THREADS = 256 };

/* A counter that can be waited on. */
typedef struct np_gate {
    atomic_int value;
    atomic_int sleepers;
} np_gate;

typedef struct np_lane {
    pthread_t thread;
    void *stack;
    struct np_pool *pool;
    int index;
    _Alignas(64) atomic_int taken; /* the last job whose share of this lane somebody took */
} np_lane;

struct np_pool {
    neap_context *ctx;
    int lanes;
    size_t bytes; /* of this block: lanes may be fewer than it has room for */
    atomic_bool stop;
    _Alignas(64) np_gate start; /* the number of the job; what it is lies on the same line */
    _Atomic(np_task) task;
    _Atomic(void *) arg;
    _Alignas(64) np_gate unfinished; /* shares of the job that are not the caller's; falls to 0 */
    _Alignas(64) np_gate generation; /* one up for each barrier passed */
    atomic_int arrived;
    np_lane lane[];
};

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Until the value is no longer `seen`; the value then. */
static int gate_wait(np_gate *g, int seen)
{
    int value;
    for (int i = 0; i < SPINS; i++) {
        value = atomic_load_explicit(&g->value, memory_order_acquire);
        if (value != seen)
            return value;
        pause_cpu();
    }
    atomic_fetch_add(&g->sleepers, 1);
    while ((value = atomic_load(&g->value)) == seen)
        syscall(SYS_futex, &g->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
    return value;
}

static void gate_wake(np_gate *g)
{
    if (atomic_load(&g->sleepers) > 0)
        syscall(SYS_futex, &g->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void gate_open(np_gate *g)
{
    atomic_fetch_add(&g->value, 1);
    gate_wake(g);
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

/* Takes a lane's share of a job, once. Whoever gets it may use the job's task: the job is not over. */
static bool take_share(np_lane *l, int job)
{
    int before = (int)((unsigned)job - 1);
    return atomic_load_explicit(&l->taken, memory_order_relaxed) == before &&
           atomic_compare_exchange_strong(&l->taken, &before, job);
}

static void *lane_main(void *arg)
{
    np_lane *l = arg;
    np_pool *p = l->pool;
    int job = 0;
    np_working = p->ctx;
    for (;;) {
        job = gate_wait(&p->start, job); /* some may have been missed */
        if (atomic_load(&p->stop))
            return NULL;
        np_task task = atomic_load_explicit(&p->task, memory_order_relaxed);
        void *task_arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
        if (!take_share(l, job))
            continue;
        task(task_arg, l->index, p->lanes);
        if (atomic_fetch_sub(&p->unfinished.value, 1) == 1)
            gate_wake(&p->unfinished);
    }
}

/* On a busy machine a lane may not run for a while, and a sleeping one takes time to wake: the caller
 * does what nobody has begun when its own share is done. A task with a barrier is safe: no share of it
 * ends before all have begun. */
void np_pool_run(np_pool *p, np_task task, void *arg)
{
    if (!p || p->lanes == 1) {
        task(arg, 0, 1);
        return;
    }
    atomic_store_explicit(&p->task, task, memory_order_relaxed);
    atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&p->unfinished.value, p->lanes - 1, memory_order_relaxed);
    int job = (int)((unsigned)atomic_load_explicit(&p->start.value, memory_order_relaxed) + 1);
    gate_open(&p->start);
    task(arg, 0, p->lanes);
    for (int i = 1; i < p->lanes; i++)
        if (take_share(&p->lane[i], job)) {
            task(arg, i, p->lanes);
            atomic_fetch_sub(&p->unfinished.value, 1);
        }
    int left = atomic_load_explicit(&p->unfinished.value, memory_order_acquire);
    while (left > 0)
        left = gate_wait(&p->unfinished, left);
}

int np_pool_lanes(const np_pool *p)
{
    return p ? p->lanes : 1;
}

void np_pool_free(np_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
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
