/* bench_gemm.c - the matrix product beside OpenBLAS, and attention, in GFLOP/s.
 *
 *     bench_gemm [threads [rounds]]            NEAP_ISA chooses the kernels
 *
 * The two programs take turns; figures are medians over the rounds, the ratio too. OpenBLAS chooses
 * its own kernels: compare NEAP_ISA=avx2 with OPENBLAS_CORETYPE=Haswell. "peak" is the share of a
 * bare loop of fused multiply-adds on the same threads. Without OpenBLAS its columns are empty. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/context.h"
#include "cpu/kernels.h"
#ifdef NEAP_HAVE_OPENBLAS
#include <cblas.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MAX_ROUNDS = 101 };

static neap_context *ctx;
static int rounds = 9;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *x, int n)
{
    double s[MAX_ROUNDS];
    memcpy(s, x, (size_t)n * sizeof *s);
    qsort(s, (size_t)n, sizeof *s, ascending);
    return s[n / 2];
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) {
        fputs("bench_gemm: out of memory\n", stderr);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

/* Values of about 1 in any float dtype. */
static void *values(neap_dtype t, int64_t n)
{
    void *p = room((size_t)n * (t == NEAP_F32 ? 4 : 2));
    uint32_t x = 1;
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        if (t == NEAP_F32)
            ((float *)p)[i] = (float)(x >> 8) / 8388608 - 1;
        else if (t == NEAP_F16)
            ((uint16_t *)p)[i] = (uint16_t)((x >> 16 & 0x83ff) | 0x3800);
        else
            ((uint16_t *)p)[i] = (uint16_t)((x >> 16 & 0x807f) | 0x3f00);
    }
    return p;
}

/* ---- the limit: multiply-adds in registers ----------------------------------------------- */

enum { PEAK_STEPS = 400000 };

#if defined(__x86_64__)
#define TEN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
__attribute__((target("avx512f"))) static float peak_512(void)
{
    __m512 x = _mm512_set1_ps(0.999f);
#define D(i) __m512 a##i = _mm512_set1_ps(1.0f + i);
    TEN(D)
#undef D
    for (int n = 0; n < PEAK_STEPS; n++) {
#define S(i) __asm__("vfmadd213ps %1, %1, %0" : "+v"(a##i) : "v"(x));
        TEN(S)
#undef S
    }
    float sum = 0;
#define E(i) sum += _mm512_cvtss_f32(a##i);
    TEN(E)
#undef E
    return sum;
}
__attribute__((target("avx2,fma"))) static float peak_256(void)
{
    __m256 x = _mm256_set1_ps(0.999f);
#define D(i) __m256 a##i = _mm256_set1_ps(1.0f + i);
    TEN(D)
#undef D
    for (int n = 0; n < PEAK_STEPS; n++) {
#define S(i) __asm__("vfmadd213ps %1, %1, %0" : "+v"(a##i) : "v"(x));
        TEN(S)
#undef S
    }
    float sum = 0;
#define E(i) sum += _mm256_cvtss_f32(a##i);
    TEN(E)
#undef E
    return sum;
}
#endif

static void peak_lane(void *arg, int lane, int lanes)
{
    (void)lanes;
    float *sums = arg;
#if defined(__x86_64__)
    if (!strcmp(ctx->kernels->isa, "avx512"))
        sums[lane * 16] = peak_512();
    else if (!strcmp(ctx->kernels->isa, "avx2"))
        sums[lane * 16] = peak_256();
#else
    (void)sums, (void)lane;
#endif
}

/* GFLOP/s; 0 where there is no such loop for the instruction set. */
static double peak(void)
{
    double width = !strcmp(ctx->kernels->isa, "avx512") ? 16
                   : !strcmp(ctx->kernels->isa, "avx2") ? 8
                                                        : 0;
    double best = 1e9;
    float sums[256 * 16];
    for (int i = 0; i < 15; i++) {
        double t = now();
        np_pool_run(ctx->pool, peak_lane, sums);
        t = now() - t;
        best = t < best ? t : best;
    }
    return width * 10 * PEAK_STEPS * 2 * np_pool_lanes(ctx->pool) / best * 1e-9;
}

/* ---- products ---------------------------------------------------------------------------- */

typedef struct shape {
    int64_t m, n, k;
    neap_dtype b, c;
    bool transposed; /* B is [n][k] */
} shape;

static void openblas(const shape *s, const void *a, const void *b, float *c)
{
#ifdef NEAP_HAVE_OPENBLAS
    cblas_sgemm(CblasRowMajor, CblasNoTrans, s->transposed ? CblasTrans : CblasNoTrans, (int)s->m,
                (int)s->n, (int)s->k, 1, a, (int)s->k, b, (int)(s->transposed ? s->k : s->n), 0, c,
                (int)s->n);
#else
    (void)s, (void)a, (void)b, (void)c;
#endif
}

/* Threads of a pool go on waiting actively after their work, OpenBLAS's for tens of milliseconds: until
 * they sleep they take a processor from whoever is measured next. */
static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

static void measure(const shape *s, double limit)
{
    np_gemm_args g = {.m = s->m,
                      .n = s->n,
                      .k = s->k,
                      .a_row = s->k,
                      .a_col = 1,
                      .c_row = s->n,
                      .b_row = s->transposed ? 1 : s->n,
                      .b_col = s->transposed ? s->k : 1,
                      .a_dtype = NEAP_F32,
                      .b_dtype = s->b,
                      .c_dtype = s->c};
    void *a = values(NEAP_F32, s->m * s->k), *b = values(s->b, s->n * s->k);
    void *b32 = s->b == NEAP_F32 ? b : values(NEAP_F32, s->n * s->k);
    void *c = room((size_t)(s->m * s->n) * 4);
    void *scratch = room(ctx->kernels->product->gemm_scratch(&g, np_pool_lanes(ctx->pool)));
    g.a = a, g.b = b, g.c = c;
    double flops = 2e-9 * (double)s->m * (double)s->n * (double)s->k;
    int times = 1 + (int)(0.2 / flops);
    double ours[MAX_ROUNDS], theirs[MAX_ROUNDS], ratios[MAX_ROUNDS];
    for (int r = -1; r < rounds; r++) { /* the first is not counted */
        rest();
        double t0 = now();
        for (int i = 0; i < times; i++)
            ctx->kernels->product->gemm(&g, scratch, ctx->pool);
        double t1 = now();
        rest();
        double t2 = now();
        for (int i = 0; i < times; i++)
            openblas(s, a, b32, c);
        double t3 = now();
        if (r >= 0) {
            ours[r] = flops * times / (t1 - t0);
            theirs[r] = flops * times / (t3 - t2);
            ratios[r] = ours[r] / theirs[r];
        }
    }
    double mine = median(ours, rounds);
    printf("%6d x %5d x %5d  B %-4s %s C %-4s %8.1f", (int)s->m, (int)s->n, (int)s->k,
           neap_dtype_describe(s->b)->name, s->transposed ? "[n][k]" : "[k][n]",
           neap_dtype_describe(s->c)->name, mine);
#ifdef NEAP_HAVE_OPENBLAS
    printf("  OpenBLAS f32 %8.1f  ratio %5.2f", median(theirs, rounds), median(ratios, rounds));
#endif
    printf("  peak %3.0f %%\n", limit > 0 ? 100 * mine / limit : 0.0);
    free(scratch);
    free(c);
    if (b32 != b)
        free(b32);
    free(b);
    free(a);
}

/* ---- attention: 9 query heads on 3, dim 64, f16 keys by groups and f16 values ------------ */

static void measure_attention(int64_t q_len, int64_t kv_len, double limit)
{
    enum { HEADS = 9, KV = 3, DIM = 64 };
    int64_t capacity = (kv_len + 15) / 16 * 16;
    np_attention_args a = {.batch = 1,
                           .q_heads = HEADS,
                           .kv_heads = KV,
                           .q_len = q_len,
                           .kv_len = kv_len,
                           .dim = DIM,
                           .v_dim = DIM,
                           .q_dtype = NEAP_F32,
                           .k_dtype = NEAP_F16,
                           .v_dtype = NEAP_F16,
                           .out_dtype = NEAP_F32,
                           .k_grouped = true,
                           .scale = 0.125f,
                           .causal = true};
    a.q_strides[1] = a.out_strides[1] = DIM, a.q_strides[2] = a.out_strides[2] = HEADS * DIM;
    a.k_strides[1] = a.v_strides[1] = capacity * DIM, a.k_strides[2] = 16 * DIM,
    a.v_strides[2] = DIM;
    a.q = values(NEAP_F32, q_len * HEADS * DIM);
    a.k = values(NEAP_F16, KV * capacity * DIM);
    a.v = values(NEAP_F16, KV * capacity * DIM);
    a.out = room((size_t)(q_len * HEADS * DIM) * 4);
    void *scratch = room(ctx->kernels->product->attention_scratch(&a, np_pool_lanes(ctx->pool)));
    double seen = 0, figures[MAX_ROUNDS], seconds[MAX_ROUNDS];
    for (int64_t i = 0; i < q_len; i++)
        seen += (double)(kv_len - q_len + i + 1);
    double flops = 4e-9 * HEADS * DIM * seen;
    int times = 1 + (int)(0.05 / flops);
    for (int r = -1; r < rounds; r++) {
        double t = now();
        for (int i = 0; i < times; i++)
            ctx->kernels->product->attention(&a, scratch, ctx->pool);
        t = now() - t;
        if (r >= 0) {
            seconds[r] = t / times;
            figures[r] = flops * times / t;
        }
    }
    double mine = median(figures, rounds), bytes = 2.0 * 2 * KV * DIM * (double)kv_len;
    printf("attention q %4d kv %5d %8.1f  peak %3.0f %%  %8.2f us  keys and values %6.2f GB/s\n",
           (int)q_len, (int)kv_len, mine, limit > 0 ? 100 * mine / limit : 0.0,
           1e6 * median(seconds, rounds), 1e-9 * bytes / median(seconds, rounds));
    free(scratch);
    free(a.out);
    free((void *)(uintptr_t)a.q);
    free((void *)(uintptr_t)a.k);
    free((void *)(uintptr_t)a.v);
}

int main(int argc, char **argv)
{
    static const shape shapes[] = {
        {1024, 1024,  1024, NEAP_F32,  NEAP_F32,  false},
        {1024, 1024,  1024, NEAP_F32,  NEAP_F32,  true },
        {512,  1536,  576,  NEAP_F32,  NEAP_F32,  true },
        {512,  576,   1536, NEAP_F32,  NEAP_F32,  true },
        {512,  576,   576,  NEAP_BF16, NEAP_F32,  true },
        {512,  1536,  576,  NEAP_F16,  NEAP_F32,  true },
        {512,  576,   1536, NEAP_BF16, NEAP_BF16, true },
        {64,   1536,  576,  NEAP_F32,  NEAP_F32,  true },
        {8,    1536,  576,  NEAP_F32,  NEAP_F32,  true },
        {8,    1536,  576,  NEAP_BF16, NEAP_F32,  true },
        {4096, 64,    64,   NEAP_F32,  NEAP_F32,  false},
        {128,  128,   128,  NEAP_F32,  NEAP_F32,  false},
        {1,    1536,  576,  NEAP_F32,  NEAP_F32,  true },
        {1,    1536,  576,  NEAP_F32,  NEAP_F32,  false},
        {1,    49152, 576,  NEAP_F16,  NEAP_F32,  true },
        {1,    8192,  2048, NEAP_F32,  NEAP_F32,  false}
    };
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 2)
        rounds = atoi(argv[2]) < 1 ? 1 : atoi(argv[2]) > MAX_ROUNDS ? MAX_ROUNDS : atoi(argv[2]);
    if (neap_context_new(&o, &ctx) != NEAP_OK) {
        fputs("bench_gemm: no context (NEAP_ISA, threads?)\n", stderr);
        return 1;
    }
#ifdef NEAP_HAVE_OPENBLAS
    openblas_set_num_threads(neap_context_threads(ctx));
    printf("OpenBLAS runs %s\n", openblas_get_corename());
#endif
    double limit = peak();
    printf("%s, %d threads, bare multiply-adds %.1f GFLOP/s\n", neap_context_isa(ctx),
           neap_context_threads(ctx), limit);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        measure(&shapes[i], limit);
    measure_attention(512, 512, limit);
    measure_attention(64, 2048, limit);
    measure_attention(1, 544, limit);
    measure_attention(1, 4096, limit);
    neap_context_free(ctx);
    return 0;
}
