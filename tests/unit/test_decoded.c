/* test_decoded.c - products with encoded weights on raw pointers: nothing past the last byte is read,
 * any alignment, the same bits for any number of lanes, with or without other rows, and on every
 * instruction set the same numbers but for rounding. Values come from tests/ops_cases.def. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/random.h"
#include "cpu/kernels.h"
#include "neap/base.h"

enum { N = 37, ROWS = 11, MAX_K = 1024, MAX_LANES = 3 };

static const struct coding {
    np_coding coding;
    neap_dtype dtype;
    int bits, group, k;
} codings[] = {
    {NP_CODING_AFFINE, NEAP_F32, 2, 16, 16},     {NP_CODING_AFFINE, NEAP_F16, 2, 64, 320},
    {NP_CODING_AFFINE, NEAP_BF16, 3, 32, 288},   {NP_CODING_AFFINE, NEAP_F32, 4, 48, 336},
    {NP_CODING_AFFINE, NEAP_BF16, 4, 64, 1024},  {NP_CODING_AFFINE, NEAP_F32, 5, 32, 544},
    {NP_CODING_AFFINE, NEAP_F16, 6, 16, 48},     {NP_CODING_AFFINE, NEAP_F32, 8, 128, 384},
    {NP_CODING_NVFP4, NEAP_U8, 4, 16, 336},      {NP_CODING_MXFP4, NEAP_U8, 4, 32, 96},
    {NP_CODING_MXFP8, NEAP_U8, 8, 32, 352},      {NP_CODING_FLOAT, NEAP_F32, 0, 0, 77},
    {NP_CODING_FLOAT, NEAP_F16, 0, 0, 300},      {NP_CODING_FLOAT, NEAP_BF16, 0, 0, 3},
    {NP_CODING_BLOCKS, NEAP_Q4_0, 0, 0, 96},     {NP_CODING_BLOCKS, NEAP_Q4_1, 0, 0, 288},
    {NP_CODING_BLOCKS, NEAP_Q5_0, 0, 0, 96},     {NP_CODING_BLOCKS, NEAP_Q5_1, 0, 0, 32},
    {NP_CODING_BLOCKS, NEAP_Q8_0, 0, 0, 544},    {NP_CODING_BLOCKS, NEAP_Q4_K, 0, 0, 512},
    {NP_CODING_BLOCKS, NEAP_Q5_K, 0, 0, 256},    {NP_CODING_BLOCKS, NEAP_Q6_K, 0, 0, 768},
    {NP_CODING_BLOCKS, NEAP_Q2_K, 0, 0, 512},    {NP_CODING_BLOCKS, NEAP_Q3_K, 0, 0, 256},
};
enum { CODINGS = sizeof codings / sizeof codings[0] };

/* ---- weights that end where no page follows ---------------------------------------------------- */

typedef struct guarded {
    uint8_t *map, *data;
    size_t bytes;
} guarded;

static guarded guard(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page - 1) / page * page;
    guarded g = {mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                 NULL, body + page};
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + body, page, PROT_NONE), 0);
    g.data = g.map + body - bytes;
    return g;
}

static uint32_t word(uint32_t seed, uint32_t i)
{
    uint32_t out[2];
    np_threefry(np_random_seed(seed), i, 0, out);
    return out[0];
}

static uint16_t half_of(neap_dtype dtype, float v) /* a few leading bits: exact in both */
{
    uint32_t u;
    memcpy(&u, &v, 4);
    u &= 0xffff0000u;
    return dtype == NEAP_BF16 ? (uint16_t)(u >> 16)
                              : (uint16_t)((u >> 16 & 0x8000) | ((u - 0x38000000u) >> 13 & 0x7fff));
}

static void put_float(neap_dtype dtype, uint8_t *p, int64_t i, float v)
{
    uint16_t h = half_of(dtype, v);
    if (dtype == NEAP_F32)
        memcpy(p + 4 * i, &v, 4);
    else
        memcpy(p + 2 * i, &h, 2);
}

static float small(uint32_t seed, uint32_t i)
{
    float v = (float)(1 + word(seed, i) % 31) / 256.0f;
    return word(seed, i) & 0x100 ? -v : v;
}

typedef struct weights {
    np_decoded d;
    guarded w, scales, biases;
} weights;

static void fill_blocks(const struct coding *c, uint8_t *w, size_t bytes)
{
    size_t block = (size_t)neap_dtype_describe(c->dtype)->block_bytes;
    size_t at = c->dtype == NEAP_Q6_K   ? 208
                : c->dtype == NEAP_Q2_K ? 80
                : c->dtype == NEAP_Q3_K ? 108
                                        : 0;
    bool two = c->dtype == NEAP_Q4_1 || c->dtype == NEAP_Q5_1 || c->dtype == NEAP_Q4_K ||
               c->dtype == NEAP_Q5_K || c->dtype == NEAP_Q2_K;
    for (size_t i = 0; i < bytes; i += block)
        for (size_t j = 0; j <= (two ? 2u : 0u); j += 2)
            w[i + at + j + 1] = (uint8_t)(0x24 | (w[i + at + j + 1] & 0x83));
}

static weights make_weights(const struct coding *c, uint32_t seed)
{
    weights r = {.d = {.coding = c->coding, .dtype = c->dtype, .bits = c->bits, .group = c->group}};
    const neap_dtype_info *info = neap_dtype_describe(c->dtype);
    bool plain = c->coding == NP_CODING_BLOCKS || c->coding == NP_CODING_FLOAT;
    r.d.row = plain ? c->k / info->block_elements * info->block_bytes : c->k * c->bits / 8;
    r.w = guard((size_t)(N * r.d.row));
    for (size_t i = 0; i < (size_t)(N * r.d.row); i++)
        r.w.data[i] = (uint8_t)word(seed, (uint32_t)i);
    if (c->coding == NP_CODING_BLOCKS)
        fill_blocks(c, r.w.data, (size_t)(N * r.d.row));
    for (int64_t i = 0; i < N * c->k && c->coding == NP_CODING_FLOAT; i++)
        put_float(c->dtype, r.w.data, i, small(seed, (uint32_t)i));
    for (size_t i = 0; i < (size_t)(N * r.d.row) && c->coding == NP_CODING_MXFP8; i++)
        r.w.data[i] &= 0xbf; /* no NaN */
    r.d.w = r.w.data;
    if (plain)
        return r;
    bool affine = c->coding == NP_CODING_AFFINE;
    size_t size = affine ? (size_t)info->block_bytes : 1, groups = (size_t)(N * c->k / c->group);
    r.d.scale_row = c->k / c->group;
    r.scales = guard(groups * size);
    r.biases = guard(groups * size);
    for (size_t i = 0; i < groups; i++) {
        if (affine) {
            put_float(c->dtype, r.scales.data, (int64_t)i, small(seed + 1, (uint32_t)i));
            put_float(c->dtype, r.biases.data, (int64_t)i, small(seed + 2, (uint32_t)i));
        } else {
            uint32_t u = word(seed + 1, (uint32_t)i);
            r.scales.data[i] = (uint8_t)(c->coding == NP_CODING_NVFP4 ? u % 0x30 : 120 + u % 8);
        }
    }
    r.d.scales = r.scales.data;
    r.d.biases = r.biases.data;
    return r;
}

static void free_weights(weights *w)
{
    guarded all[3] = {w->w, w->scales, w->biases};
    for (int i = 0; i < 3; i++)
        if (all[i].map)
            munmap(all[i].map, all[i].bytes);
}

/* ---- products ------------------------------------------------------------------------------------ */

typedef struct fixture {
    const np_kernels *kernels;
    np_pool *pool[MAX_LANES];
    neap_context *ctx;
} fixture;

static fixture f;

/* y of `rows` rows of x; x ends at a page that must not be touched. */
static void product(const struct coding *c, const np_decoded *w, bool along, neap_dtype x_dtype,
                    int rows, bool matrix, int lanes, float *y)
{
    const int64_t k = along ? N : c->k, n = along ? c->k : N;
    const size_t size = x_dtype == NEAP_F32 ? 4 : 2;
    guarded x = guard((size_t)rows * (size_t)k * size);
    for (int64_t i = 0; i < rows * k; i++)
        put_float(x_dtype, x.data, i, small(9, (uint32_t)i));
    np_decoded_vectors a = {.w = *w, .along_n = along, .rows = rows, .n = n, .k = k, .x = x.data,
                            .x_row = k, .y = y, .y_row = n, .x_dtype = x_dtype,
                            .y_dtype = NEAP_F32};
    size_t bytes = f.kernels->decoded->product_scratch(&a, matrix, lanes);
    void *scratch = aligned_alloc(64, (bytes + 128) & ~(size_t)63);
    f.kernels->decoded->product(&a, matrix, scratch, f.pool[lanes - 1]);
    free(scratch);
    munmap(x.map, x.bytes);
}

/* Against doubles, from the rows that the decoder gives. */
static void check_values(const struct coding *c, const np_decoded *w, bool along, int rows,
                         const float *y)
{
    static float row[N][MAX_K];
    const int64_t k = along ? N : c->k, n = along ? c->k : N;
    for (int64_t i = 0; i < N; i++)
        f.kernels->decoded->row(row[i], NEAP_F32, w, i, c->k);
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, most = 0;
            for (int64_t p = 0; p < k; p++) {
                double t = (double)small(9, (uint32_t)(r * k + p)) *
                           (double)(along ? row[p][j] : row[j][p]);
                sum += t;
                most += fabs(t);
            }
            /* half an ulp of the partial sum at each step, at most */
            assert_true(fabs(sum - (double)y[r * n + j]) <= most * (double)k * 6e-8);
        }
}

static void test_products(void **state)
{
    (void)state;
    static float first[ROWS * MAX_K], y[ROWS * MAX_K];
    for (int i = 0; i < CODINGS; i++)
        for (int variant = 0; variant < 6; variant++) {
            const struct coding *c = &codings[i];
            const bool along = variant & 1;
            const int rows = variant / 2 == 0 ? 1 : variant / 2 == 1 ? 3 : ROWS;
            weights w = make_weights(c, 100 + (uint32_t)i);
            const size_t bytes = (size_t)rows * (size_t)(along ? c->k : N) * sizeof *y;
            for (int matrix = 0; matrix < 2; matrix++)
                for (int lanes = 1; lanes <= MAX_LANES; lanes++) {
                    product(c, &w.d, along, NEAP_F32, rows, matrix, lanes, lanes > 1 ? y : first);
                    if (lanes == 1)
                        check_values(c, &w.d, along, rows, first);
                    else
                        assert_memory_equal(first, y, bytes);
                }
            for (neap_dtype t = NEAP_F16; t <= NEAP_BF16; t++) { /* the same numbers of x */
                product(c, &w.d, along, t, rows, true, 2, y);
                assert_memory_equal(first, y, bytes);
            }
            free_weights(&w);
        }
}

/* A row's result is the same alone and among others, in any order. */
static void test_rows_together(void **state)
{
    (void)state;
    static float x[ROWS * MAX_K], one[MAX_K], all[ROWS * MAX_K];
    const int64_t order[ROWS] = {3, 0, 10, 7, 1, 1, 9, 4, 2, 8, 6};
    const int64_t to[ROWS] = {5, 1, 0, 2, 9, 10, 8, 7, 6, 3, 4};
    for (int i = 0; i < ROWS * MAX_K; i++)
        x[i] = small(3, (uint32_t)i);
    for (int i = 0; i < CODINGS; i++)
        for (int along = 0; along < 2; along++) {
            const struct coding *c = &codings[i];
            weights w = make_weights(c, 7);
            const int64_t k = along ? N : c->k, n = along ? c->k : N;
            np_decoded_vectors a = {.w = w.d, .along_n = along, .rows = ROWS, .n = n, .k = k,
                                    .x = x, .x_row = k, .y = all, .y_row = n, .x_rows = order,
                                    .y_rows = to, .x_dtype = NEAP_F32, .y_dtype = NEAP_F32};
            int64_t cut = n / 2 / NP_DECODE_SHARE * NP_DECODE_SHARE;
            f.kernels->decoded->vectors(&a, 0, cut);
            f.kernels->decoded->vectors(&a, cut, n);
            for (int r = 0; r < ROWS; r++) {
                np_decoded_vectors b = a;
                b.rows = 1;
                b.x = x + order[r] * k;
                b.x_rows = b.y_rows = NULL;
                b.y = one;
                f.kernels->decoded->product(&b, false, NULL, NULL);
                assert_memory_equal(one, all + to[r] * n, (size_t)n * sizeof *one);
            }
            free_weights(&w);
        }
}

/* Pieces are the row, however it is cut, and rounding to 16 bits is of the same numbers. */
static void test_rows(void **state)
{
    (void)state;
    float row[MAX_K], piece[MAX_K], best[MAX_K];
    uint16_t half[MAX_K];
    for (int i = 0; i < CODINGS; i++) {
        const struct coding *c = &codings[i];
        weights w = make_weights(c, 21);
        for (int64_t r = 0; r < N; r += N - 1) {
            f.kernels->decoded->row(row, NEAP_F32, &w.d, r, c->k);
            for (int64_t at = 0; at < c->k; at += NP_DECODE_UNIT)
                for (int64_t n = NP_DECODE_UNIT; at + n <= c->k && n <= 80; n += NP_DECODE_UNIT) {
                    f.kernels->decoded->piece(piece, &w.d, r, at, n);
                    assert_memory_equal(piece, row + at, (size_t)n * sizeof *row);
                }
            f.kernels->decoded->row(half, NEAP_BF16, &w.d, r, c->k);
            (*np_kernels_available())->decoded->row(best, NEAP_F32, &w.d, r, c->k);
            for (int64_t j = 0; j < c->k; j++) {
                uint32_t u = (uint32_t)half[j] << 16;
                float v;
                memcpy(&v, &u, 4);
                assert_true(fabsf(v - row[j]) <= fabsf(row[j]) * 0x1p-8f);
                /* base rounds code * scale first: an ulp of it, which is below 32 */
                assert_true(fabsf(best[j] - row[j]) <= 2e-6f);
            }
        }
        free_weights(&w);
    }
}

static int open_kernels(void **state)
{
    f.kernels = *state;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    if (neap_context_new(&o, &f.ctx) != NEAP_OK)
        return -1;
    for (int i = 0; i < MAX_LANES; i++)
        if (np_pool_new(f.ctx, i + 1, &f.pool[i]) != NEAP_OK)
            return -1;
    return 0;
}

static int close_kernels(void **state)
{
    (void)state;
    for (int i = 0; i < MAX_LANES; i++)
        np_pool_free(f.pool[i]);
    neap_context_free(f.ctx);
    return 0;
}

int main(void)
{
    int failed = 0;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        void *state = (void *)(uintptr_t)*k;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate_setup_teardown(test_products, open_kernels, close_kernels,
                                                     state),
            cmocka_unit_test_prestate_setup_teardown(test_rows_together, open_kernels,
                                                     close_kernels, state),
            cmocka_unit_test_prestate_setup_teardown(test_rows, open_kernels, close_kernels, state),
        };
        failed += _cmocka_run_group_tests((*k)->isa, tests, 3, NULL, NULL);
    }
    return failed;
}
