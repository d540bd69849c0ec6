/* test_quant.c - quantised products: values from tests/golden/quant.bin (gguf + NumPy, see
 * tools/make_quant_goldens.py), and the same bits from every kernel, layout and cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/context.h"
#include "base/random.h"
#include "cpu/kernels.h"

#ifndef NEAP_TEST_DIR
#define NEAP_TEST_DIR "tests"
#endif

static const neap_dtype types[] = {NEAP_Q4_0, NEAP_Q4_1, NEAP_Q5_0, NEAP_Q5_1,
                                   NEAP_Q8_0, NEAP_Q4_K, NEAP_Q5_K, NEAP_Q6_K, NEAP_Q2_K,
                                   NEAP_Q3_K};
enum { TYPES = sizeof types / sizeof *types };

static void *aligned(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
    assert_non_null(p);
    return p;
}

/* Bytes that end at a page that must not be touched, as a mapped file may. */
typedef struct guarded {
    uint8_t *map, *data;
    size_t bytes;
} guarded;

static guarded guard(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page - 1) / page * page;
    guarded g = {
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), NULL,
        body + page};
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + body, page, PROT_NONE), 0);
    g.data = g.map + body - bytes;
    return g;
}

static void unguard(guarded g) { munmap(g.map, g.bytes); }

static uint32_t word(uint32_t i)
{
    uint32_t out[2];
    np_threefry(np_random_seed(5), i, 0, out);
    return out[0];
}

static size_t weight_bytes(neap_dtype t, int64_t n, int64_t k)
{
    const neap_dtype_info *info = neap_dtype_describe(t);
    return (size_t)(n * k / info->block_elements * info->block_bytes);
}

/* Random blocks; the f16 scales are 0.015625 .. 0.03125, of either sign. */
static void random_weights(neap_dtype t, uint8_t *w, size_t bytes)
{
    size_t block = (size_t)neap_dtype_describe(t)->block_bytes;
    size_t at = t == NEAP_Q6_K ? 208 : t == NEAP_Q2_K ? 80 : t == NEAP_Q3_K ? 108 : 0;
    bool two = t == NEAP_Q4_1 || t == NEAP_Q5_1 || t == NEAP_Q4_K || t == NEAP_Q5_K ||
               t == NEAP_Q2_K;
    for (size_t i = 0; i < bytes; i++)
        w[i] = (uint8_t)word((uint32_t)i);
    for (size_t i = 0; i < bytes; i += block)
        for (size_t j = 0; j <= (two ? 2u : 0u); j += 2)
            w[i + at + j + 1] = (uint8_t)(0x24 | (w[i + at + j + 1] & 0x83));
}

typedef struct product {
    const np_kernels *kernels;
    neap_dtype w_dtype;
    const void *w;
    bool packed;
    int64_t m, n, k;
} product;

/* y[m][n] by one call of qmm; rows one by one when `matrix` is false. */
static void multiply(const product *p, const float *x, bool matrix, void *y, neap_dtype y_dtype,
                     np_pool *pool)
{
    const np_kernels *kr = p->kernels;
    size_t y_size = (size_t)neap_dtype_describe(y_dtype)->block_bytes;
    for (int64_t i = 0; i < (matrix ? 1 : p->m); i++) {
        int64_t m = matrix ? p->m : 1;
        void *q = aligned(kr->quant->quant_rows_bytes(m, p->k, matrix));
        np_quant_rows_args r = {q, x + i * p->k, NEAP_F32, m, p->k, p->k, matrix};
        kr->quant->quant_rows(&r, pool);
        np_qmm_args a = {m, p->n, p->k, q, p->w, p->w_dtype, p->packed, matrix,
                         (uint8_t *)y + (size_t)(i * p->n) * y_size, p->n, y_dtype};
        void *scratch = aligned(kr->quant->qmm_scratch(&a, np_pool_lanes(pool)));
        kr->quant->qmm(&a, scratch, pool);
        free(scratch);
        free(q);
    }
}

static void *pack(const np_kernels *kr, neap_dtype t, const void *w, int64_t n, int64_t k,
                  np_pool *pool)
{
    uint64_t bytes = kr->quant->qmm_pack_bytes(t, n, k);
    if (!bytes)
        return NULL;
    void *out = aligned(bytes);
    kr->quant->qmm_pack(out, w, t, n, k, pool);
    return out;
}

static uint32_t get32(const uint8_t **p)
{
    uint32_t v;
    memcpy(&v, *p, sizeof v);
    *p += sizeof v;
    return v;
}

static void check_golden_rows(const product *p, const uint8_t *real)
{
    const int64_t rows[3] = {0, 1, p->n - 1};
    float *out = aligned((size_t)p->k * sizeof(float));
    for (int r = 0; r < 3; r++) {
        p->kernels->quant->dequant_row(out, p->w, p->w_dtype, p->packed, p->n, p->k, rows[r]);
        assert_memory_equal(out, real + (size_t)(r * p->k) * sizeof(float),
                            (size_t)p->k * sizeof(float));
    }
    free(out);
}

static void check_golden(product p, const float *x, const uint8_t *real, const uint8_t *y)
{
    size_t bytes = (size_t)(p.m * p.n) * sizeof(float);
    float *out = aligned(bytes);
    void *packed = pack(p.kernels, p.w_dtype, p.w, p.n, p.k, NULL);
    for (int form = 0; form < (packed ? 2 : 1); form++) {
        p.packed = form == 1;
        p.w = p.packed ? packed : p.w;
        check_golden_rows(&p, real);
        for (int matrix = 0; matrix < 2; matrix++) {
            memset(out, 0xff, bytes);
            multiply(&p, x, matrix, out, NEAP_F32, NULL);
            assert_memory_equal(out, y, bytes);
        }
    }
    free(packed);
    free(out);
}

static void test_goldens(void **state)
{
    (void)state;
    static uint8_t file[1 << 19];
    FILE *f = fopen(NEAP_TEST_DIR "/golden/quant.bin", "rb");
    assert_non_null(f);
    size_t got = fread(file, 1, sizeof file, f);
    fclose(f);
    const uint8_t *p = file + 4, *end = file + got;
    assert_memory_equal(file, "NQGT", 4);
    uint32_t count = get32(&p);
    assert_int_equal(count, TYPES);
    for (uint32_t i = 0; i < count; i++) {
        neap_dtype t = (neap_dtype)get32(&p);
        int64_t n = get32(&p), k = get32(&p), m = get32(&p);
        const uint8_t *w = p, *x = w + weight_bytes(t, n, k), *real = x + m * k * 4;
        const uint8_t *fused = real + 3 * k * 4, *unfused = fused + m * n * 4;
        p = unfused + m * n * 4;
        assert_true(p <= end);
        guarded gw = guard(weight_bytes(t, n, k));
        memcpy(gw.data, w, weight_bytes(t, n, k));
        float *gx = aligned((size_t)(m * k) * 4);
        memcpy(gx, x, (size_t)(m * k) * 4);
        for (const np_kernels *const *kr = np_kernels_available(); *kr; kr++)
            check_golden((product){*kr, t, gw.data, false, m, n, k}, gx, real,
                         strcmp((*kr)->isa, "base") == 0 ? unfused : fused);
        free(gx);
        unguard(gw);
    }
    assert_true(p == end);
}

/* One shape: mapped and packed, vector and matrix, one lane and two, and m cut in two all agree. */
static void check_agreement(product p, np_pool *pool)
{
    const int64_t cells = p.m * p.n;
    size_t bytes = (size_t)cells * sizeof(float);
    float *x = aligned((size_t)(p.m * p.k) * sizeof(float)), *want = aligned(bytes),
          *y = aligned(bytes);
    for (int64_t i = 0; i < p.m * p.k; i++)
        x[i] = (float)(int32_t)word((uint32_t)i) * 0x1p-30f;
    guarded w = guard(weight_bytes(p.w_dtype, p.n, p.k));
    random_weights(p.w_dtype, w.data, weight_bytes(p.w_dtype, p.n, p.k));
    p.w = w.data;
    void *packed = pack(p.kernels, p.w_dtype, p.w, p.n, p.k, pool);
    multiply(&p, x, false, want, NEAP_F32, NULL);
    for (int way = 1; way < (packed ? 8 : 4); way++) {
        p.packed = way >> 2;
        p.w = p.packed ? packed : w.data;
        memset(y, 0xff, bytes);
        multiply(&p, x, way & 1, y, NEAP_F32, way & 2 ? pool : NULL);
        assert_memory_equal(y, want, bytes);
    }
    if (p.m > 1) {
        product head = p, tail = p;
        head.m = p.m / 2;
        tail.m = p.m - head.m;
        multiply(&head, x, true, y, NEAP_F32, pool);
        multiply(&tail, x + head.m * p.k, true, y + head.m * p.n, NEAP_F32, NULL);
        assert_memory_equal(y, want, bytes);
    }
    free(packed);
    unguard(w);
    free(x);
    free(want);
    free(y);
}

static void test_all_kernels_agree(void **state)
{
    static const int64_t ns[] = {1, 4, 31, 33, 63, 65, 96, 200}, ms[] = {1, 2, 3, 5, 7, 13};
    for (const np_kernels *const *kr = np_kernels_available(); *kr; kr++)
        for (int t = 0; t < TYPES; t++)
            for (int i = 0; i < 8; i++) {
                int64_t block = neap_dtype_describe(types[t])->block_elements;
                int64_t k = block == 32 ? 32 * (1 + (i * 5) % 19) : 256 * (1 + i % 3);
                check_agreement((product){*kr, types[t], NULL, false, ms[i % 6], ns[i], k}, *state);
            }
}

/* Every output column counts, whatever the tile: weights of 15 * 0.0999755859375 times ones. */
static void test_ragged_columns(void **state)
{
    static const int64_t ns[] = {1, 4, 32, 33, 63, 65, 96};
    enum { K = 1024 };
    uint8_t block[20] = {0x66, 0x2e, 0, 0}; /* d = 0.0999755859375, m = 0 */
    memset(block + 4, 0xff, 16);
    float x[3 * K];
    for (int i = 0; i < 3 * K; i++)
        x[i] = 1.0f;
    for (const np_kernels *const *kr = np_kernels_available(); *kr; kr++)
        for (int i = 0; i < 7; i++) {
            uint8_t *w = aligned(sizeof block * K / 32 * (size_t)ns[i]);
            for (int64_t b = 0; b < ns[i] * K / 32; b++)
                memcpy(w + b * (int64_t)sizeof block, block, sizeof block);
            void *packed = pack(*kr, NEAP_Q4_1, w, ns[i], K, *state);
            for (int way = 0; way < (packed ? 4 : 2); way++) {
                float y[3 * 96];
                product p = {*kr, NEAP_Q4_1, way & 2 ? packed : w, way & 2, 3, ns[i], K};
                multiply(&p, x, way & 1, y, NEAP_F32, *state);
                for (int64_t j = 0; j < 3 * ns[i]; j++) /* 32 f32 additions, each within 2^-24 */
                    assert_float_equal(y[j], 1535.625f, 0.01f);
            }
            free(packed);
            free(w);
        }
}

static float half_to_float(uint16_t h) /* normal numbers only */
{
    uint32_t u = (uint32_t)(h & 0x8000) << 16 | (((uint32_t)(h & 0x7fff) << 13) + (112u << 23));
    float f;
    memcpy(&f, &u, sizeof f);
    return h & 0x7fff ? f : 0.0f;
}

/* 16-bit results are the f32 results rounded once; 16-bit inputs are their exact f32 values. */
static void test_half_types(void **state)
{
    enum { M = 5, N = 35, K = 512 };
    for (const np_kernels *const *kr = np_kernels_available(); *kr; kr++) {
        uint8_t *w = aligned(weight_bytes(NEAP_Q8_0, N, K));
        random_weights(NEAP_Q8_0, w, weight_bytes(NEAP_Q8_0, N, K));
        uint16_t hx[M * K], y16[M * N];
        float x[M * K], y[M * N], z[M * N];
        for (int i = 0; i < M * K; i++) {
            hx[i] = (uint16_t)(0x3800 | (word((uint32_t)i) & 0x87ff));
            x[i] = half_to_float(hx[i]);
        }
        product p = {*kr, NEAP_Q8_0, w, false, M, N, K};
        for (int matrix = 0; matrix < 2; matrix++) {
            multiply(&p, x, matrix, y, NEAP_F32, NULL);
            multiply(&p, x, matrix, y16, NEAP_F16, *state);
            for (int i = 0; i < M * N; i++)
                assert_true(fabsf(half_to_float(y16[i]) - y[i]) <= fabsf(y[i]) * 0x1p-11f);
            multiply(&p, x, matrix, y16, NEAP_BF16, *state);
            for (int i = 0; i < M * N; i++) {
                uint32_t u = (uint32_t)y16[i] << 16;
                float f;
                memcpy(&f, &u, sizeof f);
                assert_true(fabsf(f - y[i]) <= fabsf(y[i]) * 0x1p-8f);
            }
        }
        void *q = aligned((*kr)->quant->quant_rows_bytes(M, K, true));
        np_quant_rows_args r = {q, hx, NEAP_F16, M, K, K, true};
        (*kr)->quant->quant_rows(&r, *state);
        np_qmm_args a = {M, N, K, q, w, NEAP_Q8_0, false, true, z, N, NEAP_F32};
        void *scratch = aligned((*kr)->quant->qmm_scratch(&a, np_pool_lanes(*state)));
        (*kr)->quant->qmm(&a, scratch, *state);
        assert_memory_equal(z, y, sizeof y);
        free(scratch);
        free(q);
        free(w);
    }
}

/* Zero, subnormal and nearly subnormal rows (127/max overflows below 2^-121) give zeros; infinities
 * and NaN give NaN. */
static void test_odd_activations(void **state)
{
    enum { M = 4, N = 33, K = 256 };
    float x[M * K], y[M * N];
    for (const np_kernels *const *kr = np_kernels_available(); *kr; kr++)
        for (int t = 0; t < TYPES; t++) {
            uint8_t *w = aligned(weight_bytes(types[t], N, K));
            random_weights(types[t], w, weight_bytes(types[t], N, K));
            for (int i = 0; i < K; i++) {
                x[i] = 0.0f;
                x[K + i] = i % 64 < 32 ? 1e-40f : 1.5e-37f;
                x[2 * K + i] = i == 70 ? INFINITY : 1.0f;
                x[3 * K + i] = i == 200 ? NAN : -1.0f;
            }
            product p = {*kr, types[t], w, false, M, N, K};
            for (int matrix = 0; matrix < 2; matrix++) {
                multiply(&p, x, matrix, y, NEAP_F32, *state);
                for (int i = 0; i < 2 * N; i++)
                    assert_true(y[i] == 0.0f);
                for (int i = 2 * N; i < 4 * N; i++)
                    assert_true(isnan(y[i]));
            }
            free(w);
        }
}

static int start(void **state)
{
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    static neap_context *ctx;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        return 1;
    np_pool *pool;
    if (np_pool_new(ctx, 3, &pool) != NEAP_OK)
        return 1;
    *state = pool;
    return 0;
}

static int stop(void **state)
{
    np_pool_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_all_kernels_agree),
        cmocka_unit_test(test_ragged_columns),
        cmocka_unit_test(test_half_types),
        cmocka_unit_test(test_odd_activations),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
