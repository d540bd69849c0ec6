/* bench_chain.c - chains of ops over tiles beside memcpy and beside the same ops one pass each.
 *
 * (a) Eight cheap ops from one large array to another: GB/s read and written, and the share of
 * memcpy's own. (b) A sum of 64 relu(x a_i + c_i) as one chain of 255 ops: seconds, and ns an op
 * and element. "called" is the same chain with nothing kept in registers. Every figure is the best
 * of several, in time on the processor.
 *
 *     bench_chain [MiB of (a), default 64]      NEAP_ISA=avx2 bench_chain */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/threads.h"
#include "cpu/kernels.h"
#include "measure.h"

enum { LANES = 2, ROUNDS = 15, TERMS = 64, MOST_OPS = 256, MOST_PLACES = 256, MOST_TILE = 16384 };
enum { X, Y, T, S, SCALARS }; /* places: input, result, two of the tile */

typedef struct bench {
    const np_kernels *kernels;
    np_pool *pool[LANES + 1];
    float *x, *y;
    _Alignas(64) float tiles[LANES][2][MOST_TILE];
    float scalars[MOST_PLACES];
    np_chain_place places[MOST_PLACES];
    np_chain_op ops[MOST_OPS];
    int n_ops, n_scalars;
    int64_t n, tile;
} bench;

/* ---- programs -------------------------------------------------------------------------------- */

static void start(bench *b, int64_t n)
{
    b->n = n;
    b->n_ops = b->n_scalars = 0;
    for (int i = 0; i < SCALARS; i++)
        b->places[i] = (np_chain_place){.size = 4};
}

static uint16_t scalar(bench *b, float value)
{
    int i = b->n_scalars++;
    b->scalars[i] = value;
    b->places[SCALARS + i] =
        (np_chain_place){.data = (uint8_t *)&b->scalars[i], .size = 4, .one = true};
    return (uint16_t)(SCALARS + i);
}

static void unary(bench *b, int code, np_unary_fn fn, int out, int in)
{
    b->ops[b->n_ops++] = (np_chain_op){
        .code = (int16_t)code, .out = (uint16_t)out, .in = {(uint16_t)in}, .fn.unary = fn};
}

static void binary(bench *b, int code, np_binary_fn fn, int out, int in, int other)
{
    b->ops[b->n_ops++] = (np_chain_op){
        .code = (int16_t)code,
        .out = (uint16_t)out,
        .in = {(uint16_t)in, (uint16_t)other},
        .fn.binary = fn
    };
}

#define UNARY(name, out, in) unary(b, NP_CHAIN_##name, b->kernels->span->name[NEAP_F32], out, in)
#define BINARY(name, out, in, other) \
    binary(b, NP_CHAIN_##name, b->kernels->span->name[NEAP_F32], out, in, other)

static void finish(bench *b)
{
    b->ops[b->n_ops - 1].out = Y;
    b->ops[b->n_ops - 1].far = true;
    for (int i = 0; i + 1 < b->n_ops; i++)
        b->ops[i].passed = b->ops[i].out == T;
    b->kernels->chain->prepare(b->ops, b->n_ops, b->places);
}

static void eight_ops(bench *b, int64_t n)
{
    start(b, n);
    BINARY(mul, T, X, scalar(b, 1.25f));
    BINARY(add, T, T, scalar(b, -0.5f));
    UNARY(relu, T, T);
    BINARY(sub, T, T, scalar(b, 0.25f));
    UNARY(abs, T, T);
    BINARY(minimum, T, T, scalar(b, 3.0f));
    BINARY(mul, T, T, scalar(b, 0.75f));
    UNARY(neg, T, T);
    finish(b);
}

static void diamond(bench *b, int64_t n)
{
    start(b, n);
    for (int i = 0; i < TERMS; i++) {
        BINARY(mul, T, X, scalar(b, 1.0f + (float)i / 64));
        BINARY(add, T, T, scalar(b, (float)i / 128 - 0.25f));
        UNARY(relu, i ? T : S, T);
        if (i)
            BINARY(add, S, S, T);
    }
    finish(b);
}

/* Nothing in registers. */
static void only_calls(bench *b)
{
    for (int i = 0; i < b->n_ops; i++)
        b->ops[i].code = b->ops[i].in[1] ? NP_CHAIN_BINARY : NP_CHAIN_UNARY;
    b->kernels->chain->prepare(b->ops, b->n_ops, b->places);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void chain_task(void *arg, int lane, int lanes)
{
    bench *b = arg;
    np_chain_place places[MOST_PLACES];
    int64_t begin, end;
    memcpy(places, b->places, sizeof places);
    places[T].data = (uint8_t *)b->tiles[lane][0];
    places[S].data = (uint8_t *)b->tiles[lane][1];
    np_share(b->n, b->tile, lane, lanes, &begin, &end);
    for (int64_t i = begin; i < end; i += b->tile) {
        places[X].data = (uint8_t *)(b->x + i);
        places[Y].data = (uint8_t *)(b->y + i);
        b->kernels->chain->run(b->ops, b->n_ops, places, 1, end - i < b->tile ? end - i : b->tile);
    }
    b->kernels->chain->fence();
}

/* Each op over all of the lane's share; what lies in the tile lies in the result instead, and S in
 * a second half of the arrays. */
static void passes_task(void *arg, int lane, int lanes)
{
    bench *b = arg;
    int64_t begin, end;
    np_share(b->n, 4096, lane, lanes, &begin, &end);
    float *at[SCALARS] = {b->x + begin, b->y + begin, b->y + begin, b->y + b->n + begin};
    for (int i = 0; i < b->n_ops; i++) {
        const np_chain_op *op = &b->ops[i];
        const float *in[2];
        for (int k = 0; k < 2; k++)
            in[k] = op->in[k] < SCALARS ? at[op->in[k]] : &b->scalars[op->in[k] - SCALARS];
        if (op->in[1])
            op->fn.binary(at[op->out], in[0], in[1], end - begin, 1, op->in[1] < SCALARS);
        else
            op->fn.unary(at[op->out], in[0], end - begin);
    }
}

static void copy_task(void *arg, int lane, int lanes)
{
    bench *b = arg;
    int64_t begin, end;
    np_share(b->n, 4096, lane, lanes, &begin, &end);
    memcpy(b->y + begin, b->x + begin, (size_t)(end - begin) * sizeof *b->x);
}

/* A lane's own time on its processor: a busy machine disturbs it little. */
typedef struct timed {
    np_task task;
    bench *b;
    double t[LANES];
} timed;

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void timed_task(void *arg, int lane, int lanes)
{
    timed *a = arg;
    double from = processor_seconds();
    a->task(a->b, lane, lanes);
    a->t[lane] = processor_seconds() - from;
}

/* The slower lane's, at best. */
static double best_time(bench *b, np_task task, int lanes, int rounds)
{
    double best = 1e9;
    for (int i = 0; i < rounds; i++) {
        timed a = {task, b, {0}};
        np_pool_run(b->pool[lanes], timed_task, &a);
        double t = a.t[0] > a.t[lanes - 1] ? a.t[0] : a.t[lanes - 1];
        best = t < best ? t : best;
    }
    return best;
}

/* ---- figures --------------------------------------------------------------------------------- */

static void bench_eight(bench *b, int64_t n, int lanes)
{
    eight_ops(b, n);
    double bytes = 8e-9 * (double)n;
    double copy = best_time(b, copy_task, lanes, ROUNDS);
    double passes = best_time(b, passes_task, lanes, ROUNDS / 3);
    printf("8 ops %dt: memcpy %5.1f GB/s, passes %4.1f GB/s\n", lanes, bytes / copy,
           bytes / passes);
    for (b->tile = 1024; b->tile <= 8192; b->tile *= 2) {
        double t = best_time(b, chain_task, lanes, ROUNDS);
        copy = best_time(b, copy_task, lanes, ROUNDS);
        printf("  tile %4d: %5.1f GB/s, %3.0f%% of memcpy, %4.1f x passes\n", (int)b->tile,
               bytes / t, 100 * copy / t, passes / t);
    }
}

static void bench_diamond(bench *b, int lanes)
{
    const int64_t n = 4096 * 1024;
    diamond(b, n);
    double each = 1e9 / ((double)n * b->n_ops);
    double passes = best_time(b, passes_task, lanes, 2);
    printf("%d ops %dt: passes %.4f s\n", b->n_ops, lanes, passes);
    for (b->tile = 1024; b->tile <= 8192; b->tile *= 2) {
        diamond(b, n);
        double t = best_time(b, chain_task, lanes, ROUNDS);
        only_calls(b);
        double called = best_time(b, chain_task, lanes, ROUNDS / 3);
        printf("  tile %4d: %.4f s, %.4f ns an op; called %.4f s, %.4f ns\n", (int)b->tile, t,
               t * each, called, called * each);
    }
}

int main(int argc, char **argv)
{
    static bench b;
    const int64_t n = (int64_t)(argc > 1 ? atoi(argv[1]) : 64) << 18,
                  most = n > 8 << 20 ? n : 8 << 20;
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        return 1;
    b.kernels = ctx->kernels;
    for (int i = 1; i <= LANES; i++)
        if (np_pool_new(ctx, i, &b.pool[i]) != NEAP_OK)
            return 1;
    b.x = pages((size_t)most * sizeof *b.x);
    b.y = pages((size_t)most * sizeof *b.y);
    for (int64_t i = 0; i < most; i++) {
        b.x[i] = (float)(i % 4001 - 2000) / 500;
        b.y[i] = 0;
    }
    printf("%s\n", b.kernels->isa);
    for (int lanes = 1; lanes <= LANES; lanes++)
        bench_eight(&b, n, lanes);
    for (int lanes = 1; lanes <= LANES; lanes++)
        bench_diamond(&b, lanes);
    for (int i = 1; i <= LANES; i++)
        np_pool_free(b.pool[i]);
    neap_context_free(ctx);
    return 0;
}
