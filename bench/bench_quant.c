/* bench_quant.c - the quantised kernels beside the machine's own limits.
 *
 * Vector kernels: GB/s of weights and the share of the bandwidth of a plain read, over more bytes
 * than caches hold, mapped and packed. Matrix kernels: GOP/s (2 m n k) and the share of a bare loop
 * of int8 multiply-adds. Shapes of SmolLM2: 576 and 1536. Every call is timed by itself (about 50
 * us for a vector kernel) and the fastest tenth counts, so that a busy machine disturbs little.
 *
 *     bench_quant [type] [MiB of weights, default 448]      NEAP_ISA=avx2 bench_quant q4_1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/context.h"
#include "base/random.h"
#include "base/threads.h"
#include "cpu/kernels.h"
#include "measure.h"

enum { ROUNDS = 15, TOKENS = 256, LANES = 2, PIECE = 1 << 20 };

/* ---- the limits ------------------------------------------------------------------------------ */

enum { PEAK_STEPS = 100000 };
#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) static double peak_vnni(void)
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = seconds();
        for (int i = 0; i < PEAK_STEPS; i++)
            __asm__ volatile(
                "vpdpbusd %%zmm30, %%zmm31, %%zmm0\n vpdpbusd %%zmm30, %%zmm31, %%zmm1\n"
                "vpdpbusd %%zmm30, %%zmm31, %%zmm2\n vpdpbusd %%zmm30, %%zmm31, %%zmm3\n"
                "vpdpbusd %%zmm30, %%zmm31, %%zmm4\n vpdpbusd %%zmm30, %%zmm31, %%zmm5\n"
                "vpdpbusd %%zmm30, %%zmm31, %%zmm6\n vpdpbusd %%zmm30, %%zmm31, %%zmm7\n"
                "vpdpbusd %%zmm30, %%zmm31, %%zmm8\n vpdpbusd %%zmm30, %%zmm31, %%zmm9\n"
                "vpdpbusd %%zmm30, %%zmm31, %%zmm10\n vpdpbusd %%zmm30, %%zmm31, %%zmm11\n" ::
                    : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                      "xmm9", "xmm10", "xmm11");
        double t = seconds() - start;
        best = t < best ? t : best;
    }
    return 12.0 * 128 * PEAK_STEPS / best * 1e-9;
}

__attribute__((target("avx2"))) static double peak_maddubs(void)
{
    double best = 1e9;
#define STEP(r, t) \
    "vpmaddubsw %%ymm15, %%ymm14, %%ymm" #t "\n vpaddw %%ymm" #t ", %%ymm" #r ", %%ymm" #r "\n"
    for (int round = 0; round < ROUNDS; round++) {
        double start = seconds();
        for (int i = 0; i < PEAK_STEPS; i++)
            __asm__ volatile(STEP(0, 8) STEP(1, 9) STEP(2, 10) STEP(3, 11) STEP(4, 8) STEP(5, 9)
                             STEP(6, 10) STEP(7, 11)
                             ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                                 "xmm8", "xmm9", "xmm10", "xmm11");
        double t = seconds() - start;
        best = t < best ? t : best;
    }
    return 8.0 * 64 * PEAK_STEPS / best * 1e-9;
}
#endif

static double peak_int8(const np_kernels *kernels) /* GOP/s of one thread; 0: not known */
{
#if defined(__x86_64__)
    if (strcmp(kernels->isa, "avx512") == 0)
        return peak_vnni();
    if (strcmp(kernels->isa, "avx2") == 0)
        return peak_maddubs();
#endif
    (void)kernels;
    return 0.0;
}

/* ---- the kernels ----------------------------------------------------------------------------- */

typedef struct bench {
    const np_kernels *kernels;
    np_pool *pool[LANES + 1]; /* by lanes */
    double bandwidth[LANES + 1], peak;
    uint8_t *mapped, *packed;
    size_t bytes; /* of `mapped` */
    void *x, *scratch;
    float *y;
} bench;

static size_t weight_bytes(neap_dtype t, int64_t n, int64_t k)
{
    const neap_dtype_info *d = neap_dtype_describe(t);
    return (size_t)(n * k / d->block_elements * d->block_bytes);
}

static void prepare_rows(bench *b, int64_t m, int64_t k, bool matrix)
{
    for (int64_t i = 0; i < m * k; i++)
        b->y[i] = (float)((i * 37) % 255 - 127);
    np_quant_rows_args r = {b->x, b->y, NEAP_F32, m, k, k, matrix};
    b->kernels->quant->quant_rows(&r, b->pool[1]);
}

/* Bytes a second while one row meets matrices that lie one after another. */
static double run_vectors(bench *b, neap_dtype t, const uint8_t *w, bool packed, int64_t n,
                          int64_t k, int lanes)
{
    static samples all;
    size_t each = packed ? b->kernels->quant->qmm_pack_bytes(t, n, k) : weight_bytes(t, n, k);
    size_t count = b->bytes / weight_bytes(t, n, k);
    all.n = 0;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < count; i++) {
            double start = seconds();
            np_qmm_args a = {1, n, k, b->x, w + i * each, t, packed, false, b->y, n, NEAP_F32};
            b->kernels->quant->qmm(&a, b->scratch, b->pool[lanes]);
            sample(&all, seconds() - start);
        }
    return (double)each / fastest_tenth(&all);
}

static double run_matrix(bench *b, neap_dtype t, const uint8_t *w, bool packed, int64_t n,
                         int64_t k, int lanes)
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = seconds();
        np_qmm_args a = {TOKENS, n, k, b->x, w, t, packed, true, b->y, n, NEAP_F32};
        b->kernels->quant->qmm(&a, b->scratch, b->pool[lanes]);
        double s = seconds() - start;
        best = s < best ? s : best;
    }
    return 2.0 * TOKENS * (double)(n * k) / best * 1e-9;
}

static void bench_shape(bench *b, neap_dtype t, int64_t n, int64_t k)
{
    const char *name = neap_dtype_describe(t)->name;
    size_t each = b->kernels->quant->qmm_pack_bytes(t, n, k), from = weight_bytes(t, n, k);
    for (size_t i = 0; each && i < b->bytes / from; i++)
        b->kernels->quant->qmm_pack(b->packed + i * each, b->mapped + i * from, t, n, k, b->pool[LANES]);
    for (int packed = 0; packed < (each ? 2 : 1); packed++) {
        const uint8_t *w = packed ? b->packed : b->mapped;
        printf("%-5s %5lld x %-5lld %-6s", name, (long long)n, (long long)k,
               packed ? "packed" : "mapped");
        prepare_rows(b, 1, k, false);
        for (int lanes = 1; lanes <= LANES; lanes++) {
            double rate = 1e-9 * run_vectors(b, t, w, packed, n, k, lanes);
            printf("  %dt %5.1f GB/s %3.0f%%", lanes, rate, 100 * rate / b->bandwidth[lanes]);
        }
        prepare_rows(b, TOKENS, k, true);
        for (int lanes = 1; lanes <= LANES; lanes++) {
            double rate = run_matrix(b, t, w, packed, n, k, lanes);
            printf("  %dt %6.0f GOP/s", lanes, rate);
            if (b->peak > 0)
                printf(" %3.0f%%", 100 * rate / b->peak / lanes);
        }
        printf("\n");
        fflush(stdout);
    }
}

static void measure_limits(bench *b)
{
    b->peak = peak_int8(b->kernels);
    for (int lanes = 1; lanes <= LANES; lanes++) {
        static samples all;
        all.n = 0;
        for (size_t at = 0; at + PIECE <= b->bytes; at += PIECE) {
            area a = {b->mapped + at, PIECE, 0};
            double start = seconds();
            np_pool_run(b->pool[lanes], read_task, &a);
            sample(&all, seconds() - start);
        }
        b->bandwidth[lanes] = PIECE / fastest_tenth(&all) * 1e-9;
        printf("read %d thread(s): %.1f GB/s\n", lanes, b->bandwidth[lanes]);
    }
    printf("%s, bare int8 multiply-add, 1 thread: %.0f GOP/s\n", b->kernels->isa, b->peak);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    bench b = {.bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 448) << 20};
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        return 1;
    b.kernels = ctx->kernels;
    for (int lanes = 1; lanes <= LANES; lanes++)
        if (np_pool_new(ctx, lanes, &b.pool[lanes]) != NEAP_OK)
            return 1;
    b.mapped = pages(b.bytes);
    b.packed = pages(b.bytes + (16 << 20));
    b.x = pages(8 << 20);
    b.scratch = pages(8 << 20);
    b.y = pages(8 << 20);
    for (size_t i = 0; i < b.bytes; i += 2) { /* f16 0.005 .. 0.01 wherever a scale may lie */
        b.mapped[i] = (uint8_t)(i * 2654435761u >> 13);
        b.mapped[i + 1] = 0x1d;
    }
    measure_limits(&b);
    for (int t = NEAP_Q4_0; t < NEAP_DTYPE_SPAN; t++) {
        const char *name = neap_dtype_describe((neap_dtype)t)->name;
        if (*only && strcasecmp(only, name) != 0)
            continue;
        if (neap_dtype_describe((neap_dtype)t)->block_elements == 32)
            bench_shape(&b, (neap_dtype)t, 1536, 576);
        bench_shape(&b, (neap_dtype)t, 576, 1536);
    }
    for (int lanes = 1; lanes <= LANES; lanes++)
        np_pool_free(b.pool[lanes]);
    neap_context_free(ctx);
    return 0;
}
