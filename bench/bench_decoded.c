/* bench_decoded.c - products of floats with encoded weights beside the machine's own limits.
 *
 * One row: GB/s of codes and scales, over more bytes than caches hold, and the share of the bandwidth
 * of a plain read; weights a nanosecond beside, since taking codes apart may cost more than reading
 * them. Many rows: GFLOP/s (2 m n k), and the share of our own f32 product of the same shape. Every
 * call is timed by itself and the fastest tenth counts, so that a busy machine disturbs little.
 *
 *     bench_decoded [name] [MiB of weights, default 256]      NEAP_ISA=avx2 bench_decoded affine4 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/threads.h"
#include "cpu/kernels.h"
#include "measure.h"

enum { LANES = 2, PIECE = 1 << 20, ROUNDS = 20 };

static const struct coding {
    const char *name;
    np_coding coding;
    neap_dtype dtype;
    int bits, group;
} codings[] = {
    {"affine2", NP_CODING_AFFINE, NEAP_BF16, 2, 64}, {"affine3", NP_CODING_AFFINE, NEAP_BF16, 3, 64},
    {"affine4", NP_CODING_AFFINE, NEAP_BF16, 4, 64}, {"affine4g32", NP_CODING_AFFINE, NEAP_BF16, 4, 32},
    {"affine5", NP_CODING_AFFINE, NEAP_BF16, 5, 64}, {"affine6", NP_CODING_AFFINE, NEAP_BF16, 6, 64},
    {"affine8", NP_CODING_AFFINE, NEAP_BF16, 8, 64}, {"nvfp4", NP_CODING_NVFP4, NEAP_U8, 4, 16},
    {"mxfp4", NP_CODING_MXFP4, NEAP_U8, 4, 32},      {"mxfp8", NP_CODING_MXFP8, NEAP_U8, 8, 32},
    {"q4_k", NP_CODING_BLOCKS, NEAP_Q4_K, 0, 0},     {"q5_k", NP_CODING_BLOCKS, NEAP_Q5_K, 0, 0},
    {"q6_k", NP_CODING_BLOCKS, NEAP_Q6_K, 0, 0},     {"q8_0", NP_CODING_BLOCKS, NEAP_Q8_0, 0, 0},
    {"bf16", NP_CODING_FLOAT, NEAP_BF16, 0, 0},      {"f32", NP_CODING_FLOAT, NEAP_F32, 0, 0},
};

typedef struct bench {
    const np_kernels *kernels;
    np_pool *pool[LANES + 1];
    double bandwidth[LANES + 1];
    uint8_t *data;
    size_t bytes;
    float *x, *y;
    void *scratch;
} bench;

/* ---- the limit ------------------------------------------------------------------------------- */

static void measure_bandwidth(bench *b)
{
    static samples all;
    for (int lanes = 1; lanes <= LANES; lanes++) {
        all.n = 0;
        for (size_t at = 0; at + PIECE <= b->bytes && all.n < SAMPLES; at += PIECE) {
            area a = {b->data + at, PIECE, 0};
            double start = seconds();
            np_pool_run(b->pool[lanes], read_task, &a);
            sample(&all, seconds() - start);
        }
        b->bandwidth[lanes] = PIECE / fastest_tenth(&all) * 1e-9;
        printf("%s: read %d thread(s): %.1f GB/s\n", b->kernels->isa, lanes, b->bandwidth[lanes]);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* The i-th matrix; *each is its bytes, scales with it. */
static np_decoded matrix_at(const bench *b, const struct coding *c, int64_t n, int64_t k, size_t i,
                            size_t *each)
{
    const neap_dtype_info *info = neap_dtype_describe(c->dtype);
    np_decoded w = {.coding = c->coding, .dtype = c->dtype, .bits = c->bits, .group = c->group};
    size_t groups = 0, size = c->coding == NP_CODING_AFFINE ? 2 : 1;
    if (c->bits) {
        w.row = k * c->bits / 8;
        groups = (size_t)(n * k / c->group);
        w.scale_row = k / c->group;
    } else {
        w.row = k / info->block_elements * info->block_bytes;
    }
    *each = (size_t)(n * w.row) + groups * size * (c->coding == NP_CODING_AFFINE ? 2 : 1);
    w.w = b->data + i * *each;
    w.scales = (const uint8_t *)w.w + n * w.row;
    w.biases = (const uint8_t *)w.scales + groups * size;
    return w;
}

static double vector_time(bench *b, const struct coding *c, int64_t n, int64_t k, int lanes)
{
    static samples all;
    size_t each;
    matrix_at(b, c, n, k, 0, &each);
    all.n = 0;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < b->bytes / each && all.n < SAMPLES; i++) {
            np_decoded_vectors a = {.w = matrix_at(b, c, n, k, i, &each), .rows = 1, .n = n,
                                    .k = k, .x = b->x, .x_row = k, .y = b->y, .y_row = n,
                                    .x_dtype = NEAP_F32, .y_dtype = NEAP_F32};
            double start = seconds();
            b->kernels->decoded->product(&a, false, NULL, b->pool[lanes]);
            sample(&all, seconds() - start);
        }
    return fastest_tenth(&all);
}

static double matrix_time(bench *b, const struct coding *c, int64_t m, int64_t n, int64_t k)
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        size_t each;
        np_decoded_vectors a = {.rows = m, .n = n, .k = k, .x = b->x, .x_row = k, .y = b->y,
                                .y_row = n, .x_dtype = NEAP_F32, .y_dtype = NEAP_F32};
        np_gemm_args g = {.m = m, .n = n, .k = k, .a = b->x, .b = b->data, .c = b->y, .a_row = k,
                          .a_col = 1, .b_row = 1, .b_col = k, .c_row = n, .a_dtype = NEAP_F32,
                          .b_dtype = NEAP_F32, .c_dtype = NEAP_F32, .matrix = true};
        double start = seconds();
        if (c) {
            a.w = matrix_at(b, c, n, k, 0, &each);
            b->kernels->decoded->product(&a, true, b->scratch, b->pool[1]);
        } else {
            b->kernels->product->gemm(&g, b->scratch, b->pool[1]);
        }
        double s = seconds() - start;
        best = s < best ? s : best;
    }
    return best;
}

static void bench_coding(bench *b, const struct coding *c)
{
    const int64_t n = 1024, k = 2048;
    size_t each;
    matrix_at(b, c, n, k, 0, &each);
    printf("%-10s", c->name);
    for (int lanes = 1; lanes <= LANES; lanes++) {
        double t = vector_time(b, c, n, k, lanes), rate = 1e-9 * (double)each / t;
        printf("  %dt %5.1f GB/s %3.0f%% %5.1f w/ns", lanes, rate,
               100 * rate / b->bandwidth[lanes], 1e-9 * (double)(n * k) / t);
    }
    for (int64_t m = 8; m <= 128; m *= 16) {
        double t = matrix_time(b, c, m, n, k);
        printf("  m=%lld %4.0f GFLOP/s %3.0f%%", (long long)m, 2e-9 * (double)(m * n * k) / t,
               100 * matrix_time(b, NULL, m, n, k) / t);
    }
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    bench b = {.bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 256) << 20};
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        return 1;
    b.kernels = ctx->kernels;
    for (int lanes = 1; lanes <= LANES; lanes++)
        if (np_pool_new(ctx, lanes, &b.pool[lanes]) != NEAP_OK)
            return 1;
    b.data = pages(b.bytes + (16 << 20));
    b.x = pages(8 << 20);
    b.y = pages(8 << 20);
    b.scratch = pages(8 << 20);
    for (size_t i = 0; i < b.bytes + (16 << 20); i += 2) { /* small numbers wherever a scale may lie */
        b.data[i] = (uint8_t)(i * 2654435761u >> 13);
        b.data[i + 1] = 0x1d;
    }
    for (int i = 0; i < 1 << 18; i++)
        b.x[i] = (float)(i * 37 % 255 - 127) / 128.0f;
    measure_bandwidth(&b);
    for (size_t i = 0; i < sizeof codings / sizeof codings[0]; i++)
        if (argc < 2 || strcmp(argv[1], "all") == 0 || strcmp(argv[1], codings[i].name) == 0)
            bench_coding(&b, &codings[i]);
    for (int lanes = 1; lanes <= LANES; lanes++)
        np_pool_free(b.pool[lanes]);
    neap_context_free(ctx);
    return 0;
}
