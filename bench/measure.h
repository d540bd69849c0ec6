/* measure.h - what the benchmarks share: a clock, pages, samples of times, and reading memory as fast as
 * it can be read, the limit that kernels are set against. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/threads.h"

enum { SAMPLES = 8192 };

static inline double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

typedef struct samples {
    double t[SAMPLES];
    int n;
} samples;

static inline void sample(samples *s, double t)
{
    if (s->n < SAMPLES)
        s->t[s->n++] = t;
}

static inline int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double fastest_tenth(samples *s)
{
    qsort(s->t, (size_t)s->n, sizeof *s->t, by_time);
    return s->t[s->n / 10];
}

typedef struct area {
    const uint8_t *data;
    size_t bytes;
    volatile uint64_t sink;
} area;

typedef uint64_t words __attribute__((vector_size(16)));

/* np_task: reads the area, each lane a share. */
static inline void read_task(void *arg, int lane, int lanes)
{
    area *a = arg;
    int64_t begin, end;
    np_share((int64_t)a->bytes / 64, 64, lane, lanes, &begin, &end);
    words s[4] = {{0}};
    const words *p = (const words *)(const void *)a->data;
    for (int64_t i = begin; i < end; i++) {
        __builtin_prefetch((const char *)(p + 4 * i) + 4096);
        for (int j = 0; j < 4; j++)
            s[j] ^= p[4 * i + j];
    }
    s[0] ^= s[1] ^ s[2] ^ s[3];
    a->sink += s[0][0];
}

#endif
