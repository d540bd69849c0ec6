/* test_attention_kernel.c - attention on raw pointers: every instruction set, dtype and mask.
 *
 * Expected values are computed in double over the values that the operands really hold. A score
 * errs by at most 2 dim u (sum of |q k|), u = 2^-24, below 1e-5 for the sizes here; it enters a
 * weight as a factor, so results in (-1, 1) are right within 3e-5, rounded once more when 16-bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/random.h"
#include "cpu/kernels.h"

static neap_context *ctx[4]; /* by number of lanes */
static uint32_t draws;

static float draw(void)
{
    return 2 * np_random_uniform(np_random_word(np_random_seed(11), draws++, 1u << 30)) - 1;
}

static int64_t draw_below(int64_t n)
{
    return (int64_t)(np_random_word(np_random_seed(11), draws++, 1u << 30) % (uint64_t)n);
}

/* ---- values of any float dtype, independent of the kernels' own conversions -------------- */

static double get(neap_dtype t, const void *p, int64_t i)
{
    if (t == NEAP_F32)
        return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    if (t == NEAP_BF16) {
        uint32_t u = (uint32_t)h << 16;
        float f;
        memcpy(&f, &u, sizeof f);
        return f;
    }
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static size_t width_of(neap_dtype t)
{
    return t == NEAP_F32 ? 4 : 2;
}

/* A value in (-1, 1) that every float dtype holds exactly. */
static void put(neap_dtype t, void *p, int64_t i, int eighths_of_64)
{
    float f = (float)eighths_of_64 / 64;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (t == NEAP_F32)
        ((float *)p)[i] = f;
    else if (t == NEAP_BF16)
        ((uint16_t *)p)[i] = (uint16_t)(u >> 16);
    else
        ((uint16_t *)p)[i] = f == 0
                                 ? 0
                                 : (uint16_t)((u >> 16 & 0x8000) | (((u >> 23 & 255) - 112) << 10) |
                                              (u >> 13 & 1023));
}

static void put_nan(neap_dtype t, void *p, int64_t i)
{
    if (t == NEAP_F32)
        ((float *)p)[i] = NAN;
    else
        ((uint16_t *)p)[i] = 0x7fff;
}

/* ---- a problem: row-major and grouped keys with the same values -------------------------- */

typedef struct problem {
    np_attention_args a; /* row-major keys */
    void *grouped;       /* the same keys by groups of 16, NaN past kv_len */
    int64_t grouped_strides[3];
    size_t out_bytes;
} problem;

static void *filled(neap_dtype t, int64_t n)
{
    void *p = malloc((size_t)n * width_of(t) + 1); /* exact, so that reading past the end is seen */
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        put(t, p, i, (int)draw_below(127) - 63);
    return p;
}

static void problem_make(problem *p, np_attention_args a)
{
    a.q = filled(a.q_dtype, a.batch * a.q_heads * a.q_len * a.dim);
    a.k = filled(a.k_dtype, a.batch * a.kv_heads * a.kv_len * a.dim);
    a.v = filled(a.v_dtype, a.batch * a.kv_heads * a.kv_len * a.v_dim);
    /* queries and results by position, then head, as a model has them */
    a.q_strides[0] = a.q_len * a.q_heads * a.dim, a.q_strides[1] = a.dim,
    a.q_strides[2] = a.q_heads * a.dim;
    a.k_strides[0] = a.kv_heads * a.kv_len * a.dim, a.k_strides[1] = a.kv_len * a.dim,
    a.k_strides[2] = a.dim;
    a.v_strides[0] = a.kv_heads * a.kv_len * a.v_dim, a.v_strides[1] = a.kv_len * a.v_dim,
    a.v_strides[2] = a.v_dim;
    a.out_strides[0] = a.q_len * a.q_heads * a.v_dim, a.out_strides[1] = a.v_dim;
    a.out_strides[2] = a.q_heads * a.v_dim;
    p->out_bytes = (size_t)(a.batch * a.out_strides[0]) * width_of(a.out_dtype) + 1;
    a.out = malloc(p->out_bytes);
    assert_non_null(a.out);
    p->a = a;
    int64_t groups = (a.kv_len + 15) / 16, n = a.batch * a.kv_heads * groups * 16 * a.dim;
    p->grouped = malloc((size_t)n * width_of(a.k_dtype) + 1);
    assert_non_null(p->grouped);
    for (int64_t i = 0; i < n; i++)
        put_nan(a.k_dtype, p->grouped, i);
    size_t w = width_of(a.k_dtype);
    for (int64_t h = 0; h < a.batch * a.kv_heads; h++)
        for (int64_t i = 0; i < a.kv_len; i++)
            for (int64_t d = 0; d < a.dim; d++)
                memcpy((char *)p->grouped +
                           (((h * groups + i / 16) * a.dim + d) * 16 + i % 16) * (int64_t)w,
                       (const char *)a.k + ((h * a.kv_len + i) * a.dim + d) * (int64_t)w, w);
    p->grouped_strides[0] = a.kv_heads * groups * 16 * a.dim;
    p->grouped_strides[1] = groups * 16 * a.dim;
    p->grouped_strides[2] = 16 * a.dim;
}

static void problem_free(problem *p)
{
    free((void *)(uintptr_t)p->a.q);
    free((void *)(uintptr_t)p->a.k);
    free((void *)(uintptr_t)p->a.v);
    free(p->a.out);
    free(p->grouped);
}

static np_attention_args grouped(const problem *p)
{
    np_attention_args a = p->a;
    a.k_grouped = true;
    a.k = p->grouped;
    memcpy(a.k_strides, p->grouped_strides, sizeof a.k_strides);
    return a;
}

/* Runs with scratch of exactly the promised size, filled with NaN. */
static void run(const np_kernels *kernels, const np_attention_args *a, int lanes)
{
    size_t bytes = kernels->product->attention_scratch(a, lanes);
    char *scratch = malloc(bytes + 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, bytes + 64);
    kernels->product->attention(a, scratch + (64 - (uintptr_t)scratch % 64) % 64, ctx[lanes]->pool);
    free(scratch);
}

/* ---- the reference ----------------------------------------------------------------------- */

static bool sees(const np_attention_args *a, int64_t b, int64_t h, int64_t i, int64_t j,
                 double *add)
{
    int64_t position = a->kv_len - a->q_len + i;
    *add = 0;
    if ((a->causal && j > position) || (a->window > 0 && j <= position - a->window))
        return false;
    if (!a->mask)
        return true;
    int64_t at = b * a->mask_strides[0] + h * a->mask_strides[1] + i * a->mask_strides[2] +
                 j * a->mask_strides[3];
    if (a->mask_dtype == NEAP_BOOL)
        return ((const uint8_t *)a->mask)[at];
    *add = get(a->mask_dtype, a->mask, at);
    return *add != -INFINITY;
}

static void reference_row(const np_attention_args *a, int64_t b, int64_t h, int64_t i, double *out)
{
    int64_t kv = h / (a->q_heads / a->kv_heads);
    double *s = malloc((size_t)(a->kv_len + 1) * sizeof *s), top = -INFINITY, sum = 0, add;
    assert_non_null(s);
    for (int64_t j = 0; j < a->kv_len; j++) {
        s[j] = -INFINITY;
        if (!sees(a, b, h, i, j, &add))
            continue;
        double dot = 0;
        for (int64_t d = 0; d < a->dim; d++)
            dot += get(a->q_dtype, a->q,
                       b * a->q_strides[0] + h * a->q_strides[1] + i * a->q_strides[2] + d) *
                   get(a->k_dtype, a->k,
                       b * a->k_strides[0] + kv * a->k_strides[1] + j * a->k_strides[2] + d);
        s[j] = a->scale * dot + add;
        top = fmax(top, s[j]);
    }
    if (a->sinks)
        top = fmax(top, a->sinks[h]);
    for (int64_t d = 0; d < a->v_dim; d++)
        out[d] = 0;
    for (int64_t j = 0; j < a->kv_len; j++) {
        if (s[j] == -INFINITY)
            continue;
        double p = exp(s[j] - top);
        sum += p;
        for (int64_t d = 0; d < a->v_dim; d++)
            out[d] += p * get(a->v_dtype, a->v,
                              b * a->v_strides[0] + kv * a->v_strides[1] + j * a->v_strides[2] + d);
    }
    if (a->sinks)
        sum += exp(a->sinks[h] - top);
    for (int64_t d = 0; d < a->v_dim; d++)
        out[d] = sum > 0 ? out[d] / sum : 0;
    free(s);
}

static void check_values(const np_attention_args *a, const char *isa)
{
    double *want = malloc((size_t)(a->v_dim + 1) * sizeof *want);
    assert_non_null(want);
    double last = a->out_dtype == NEAP_F32 ? 0x1p-24 : a->out_dtype == NEAP_F16 ? 0x1p-11 : 0x1p-8;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->q_heads; h++)
            for (int64_t i = 0; i < a->q_len; i++) {
                reference_row(a, b, h, i, want);
                for (int64_t d = 0; d < a->v_dim; d++) {
                    double got = get(a->out_dtype, a->out,
                                     b * a->out_strides[0] + h * a->out_strides[1] +
                                         i * a->out_strides[2] + d);
                    if (!(fabs(got - want[d]) <= 3e-5 + last * fabs(want[d])))
                        fail_msg("%s q %d kv %d dim %d,%d [%d][%d][%d][%d]: %.9g, expected %.9g",
                                 isa, (int)a->q_len, (int)a->kv_len, (int)a->dim, (int)a->v_dim,
                                 (int)b, (int)h, (int)i, (int)d, got, want[d]);
                }
            }
    free(want);
}

/* Each set: right values; the same bits on 1 to 3 lanes, with grouped keys, and query by query
 * (each alone over the keys that it could see, as decoding does). */
static void check(np_attention_args shape)
{
    problem p;
    problem_make(&p, shape);
    char *whole = malloc(p.out_bytes);
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        memset(p.a.out, 0x5a, p.out_bytes);
        run(*k, &p.a, 1);
        check_values(&p.a, (*k)->isa);
        memcpy(whole, p.a.out, p.out_bytes);
        for (int lanes = 1; lanes <= 3; lanes++) {
            np_attention_args g = grouped(&p);
            memset(p.a.out, 0x5a, p.out_bytes);
            run(*k, &g, lanes);
            assert_memory_equal(p.a.out, whole, p.out_bytes);
            memset(p.a.out, 0x5a, p.out_bytes);
            run(*k, &p.a, lanes);
            assert_memory_equal(p.a.out, whole, p.out_bytes);
        }
        memset(p.a.out, 0x5a, p.out_bytes);
        int64_t step = shape.q_len > 40 ? 13 : 1;
        for (int64_t i = 0, n; i < shape.q_len; i += n) {
            np_attention_args g = grouped(&p);
            n = i + step < shape.q_len ? step : shape.q_len - i;
            if (shape.causal)
                g.kv_len =
                    shape.kv_len - shape.q_len + i + n > 0 ? shape.kv_len - shape.q_len + i + n : 0;
            else if (shape.window) /* positions count from the last query, which must stay */
                n = shape.q_len - i;
            g.q = (const char *)p.a.q + i * p.a.q_strides[2] * (int64_t)width_of(p.a.q_dtype);
            g.out = (char *)p.a.out + i * p.a.out_strides[2] * (int64_t)width_of(p.a.out_dtype);
            if (shape.mask)
                g.mask = (const char *)p.a.mask +
                         i * p.a.mask_strides[2] *
                             (p.a.mask_dtype == NEAP_BOOL ? 1 : (int64_t)width_of(p.a.mask_dtype));
            g.q_len = n;
            run(*k, &g, 1 + (int)(i % 3));
        }
        assert_memory_equal(p.a.out, whole, p.out_bytes);
    }
    free(whole);
    problem_free(&p);
}

static np_attention_args plain(int64_t q_len, int64_t kv_len, int64_t dim, neap_dtype t)
{
    return (np_attention_args){.batch = 1,
                               .q_heads = 3,
                               .kv_heads = 1,
                               .q_len = q_len,
                               .kv_len = kv_len,
                               .dim = dim,
                               .v_dim = dim,
                               .q_dtype = NEAP_F32,
                               .k_dtype = t,
                               .v_dtype = t,
                               .out_dtype = NEAP_F32,
                               .scale = 0.25f,
                               .causal = true};
}

static void test_lengths(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200};
    static const neap_dtype types[] = {NEAP_F32, NEAP_F16, NEAP_BF16};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t n = lengths[i];
        np_attention_args a = plain(n, n, 16, types[i % 3]);
        check(a);
        a = plain(1, n, 40, types[(i + 1) % 3]);
        a.causal = i & 1;
        check(a);
        a = plain((n + 2) / 3, n, 32, types[(i + 2) % 3]);
        a.kv_heads = 3, a.q_heads = 9;
        check(a);
    }
}

static void test_dims_dtypes_heads(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 3, 8, 15, 31, 64, 65, 80, 128, 256, 300};
    static const neap_dtype types[] = {NEAP_F32, NEAP_F16, NEAP_BF16};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        np_attention_args a = plain(5, 70, dims[i], NEAP_F16);
        a.v_dim = dims[(i * 5) % 11];
        a.q_dtype = types[i % 3], a.k_dtype = types[(i + 1) % 3], a.v_dtype = types[i / 3 % 3];
        a.out_dtype = types[(i + i / 3) % 3];
        a.batch = 1 + (int64_t)i % 2, a.kv_heads = 1 + draw_below(5);
        a.q_heads = a.kv_heads * (1 + draw_below(7));
        check(a);
    }
}

static void test_windows_and_sinks(void **state)
{
    (void)state;
    static const float sinks[9] = {0.5f, -3, 2, 0, -INFINITY, 10, 1, 1, -1};
    static const int64_t windows[] = {1, 5, 64, 100, 129, 400};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        np_attention_args a = plain(i & 1 ? 150 : 3, 220, 24, NEAP_F16);
        a.window = windows[i];
        a.kv_heads = 3, a.q_heads = 9;
        check(a);
        a.sinks = sinks;
        a.q_len = 7;
        check(a);
        a.causal = false;
        check(a);
    }
}

static void test_masks(void **state)
{
    (void)state;
    enum { B = 2, H = 4, Q = 9, K = 150 };
    static uint8_t bits[B * H * Q * K];
    static float add[B * H * Q * K];
    static uint16_t add16[B * H * Q * K];
    for (int i = 0; i < B * H * Q * K; i++) {
        bits[i] = draw_below(3) == 0;
        add[i] = draw_below(4) == 0 ? -INFINITY : (float)(draw_below(64) - 32) / 8;
        uint32_t u;
        memcpy(&u, &add[i], sizeof u);
        add16[i] = (uint16_t)(u >> 16);
    }
    memset(bits + 2 * K, 0, K); /* one row of nothing, and one block of nothing */
    memset(bits + 3 * K + 64, 0, 64);
    for (int i = 0; i < 12; i++) {
        np_attention_args a = plain(Q, K, 20, i & 1 ? NEAP_F32 : NEAP_F16);
        a.batch = B, a.q_heads = H, a.kv_heads = 2;
        a.mask = i % 3 == 0   ? (const void *)bits
                 : i % 3 == 1 ? (const void *)add
                              : (const void *)add16;
        a.mask_dtype = i % 3 == 0 ? NEAP_BOOL : i % 3 == 1 ? NEAP_F32 : NEAP_BF16;
        a.mask_strides[0] = i & 2 ? H * Q * K : 0;
        a.mask_strides[1] = i & 4 ? Q * K : 0;
        a.mask_strides[2] = i == 8 ? 0 : K;
        a.mask_strides[3] = i == 11 ? 0 : 1;
        a.causal = i % 4 != 3;
        a.window = i == 6 ? 70 : 0;
        check(a);
    }
}

/* More blocks than lanes share between two barriers: by number, and by size. */
static void test_many_blocks(void **state)
{
    (void)state;
    np_attention_args a = plain(1, 4200, 16, NEAP_F16);
    a.kv_heads = 3, a.q_heads = 9;
    check(a);
    a.window = 4000;
    check(a);
    a = plain(2, 700, 200, NEAP_F16);
    a.batch = 2, a.kv_heads = 5, a.q_heads = 10;
    check(a);
}

/* The lowest finite mask hides keys beside others; where it is all there is, they weigh the same.
 */
static void test_lowest_mask(void **state)
{
    (void)state;
    enum { K = 100, D = 3 };
    static float q[2 * D], k[K * D], v[K * D], out[2 * D], mask[2 * K];
    for (int i = 0; i < K * D; i++)
        k[i] = draw(), v[i] = (float)(i / D);
    for (int i = 0; i < 2 * D; i++)
        q[i] = draw();
    for (int i = 0; i < 2 * K; i++)
        mask[i] = i == K + 77 ? 0 : -FLT_MAX;
    for (const np_kernels *const *s = np_kernels_available(); *s; s++) {
        np_attention_args a = plain(2, K, D, NEAP_F32);
        a.q_heads = 1, a.causal = false;
        a.q = q, a.k = k, a.v = v, a.out = out, a.mask = mask, a.mask_dtype = NEAP_F32;
        a.q_strides[2] = a.k_strides[2] = a.v_strides[2] = a.out_strides[2] = D;
        a.mask_strides[2] = K, a.mask_strides[3] = 1;
        run(*s, &a, 2);
        for (int d = 0; d < D; d++) {
            assert_true(fabsf(out[d] - 49.5f) < 1e-4f); /* 100 additions of numbers below 100 */
            assert_true(out[D + d] == 77.0f);
        }
    }
}

/* cases/numerics.md D3: a fully masked row gives zeros, at every length. */
static void test_fully_masked(void **state)
{
    (void)state;
    enum { MOST = 1025, D = 8 };
    static float q[2 * D], k[MOST * D], v[MOST * D], out[2 * D];
    static uint8_t nothing[MOST];
    static float low[MOST];
    for (int i = 0; i < MOST * D; i++)
        k[i] = v[i] = draw();
    for (int i = 0; i < MOST; i++)
        low[i] = -INFINITY;
    for (const np_kernels *const *s = np_kernels_available(); *s; s++)
        for (int64_t n = 1; n <= MOST; n++) {
            np_attention_args a = plain(2, n, D, NEAP_F32);
            a.q_heads = 1;
            a.q = q, a.k = k, a.v = v, a.out = out;
            a.q_strides[2] = a.k_strides[2] = a.v_strides[2] = a.out_strides[2] = D;
            a.mask = n & 1 ? (const void *)nothing : (const void *)low;
            a.mask_dtype = n & 1 ? NEAP_BOOL : NEAP_F32;
            a.mask_strides[3] = 1;
            memset(out, 0x5a, sizeof out);
            run(*s, &a, 1);
            for (int i = 0; i < 2 * D; i++)
                assert_true(out[i] == 0 && !signbit(out[i]));
        }
}

/* cases/numerics.md D11, and more queries than keys. */
static void test_causal_is_lower_right(void **state)
{
    (void)state;
    float q[6] = {0}, k[4] = {0}, v[4] = {0, 1, 2, 3}, out[6];
    for (const np_kernels *const *s = np_kernels_available(); *s; s++) {
        np_attention_args a = plain(2, 4, 1, NEAP_F32);
        a.q_heads = 1;
        a.q = q, a.k = k, a.v = v, a.out = out;
        a.q_strides[2] = a.k_strides[2] = a.v_strides[2] = a.out_strides[2] = 1;
        run(*s, &a, 1);
        assert_true(fabsf(out[0] - 1.0f) < 1e-6f); /* 3 additions and a division */
        assert_true(fabsf(out[1] - 1.5f) < 1e-6f);
        a.q_len = 6;
        run(*s, &a, 2);
        assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0); /* before the first key */
        assert_true(fabsf(out[3] - 0.5f) < 1e-6f);
        assert_true(fabsf(out[5] - 1.5f) < 1e-6f);
        a.kv_len = 0;
        run(*s, &a, 1);
        for (int i = 0; i < 6; i++)
            assert_true(out[i] == 0);
    }
}

/* Keys and values that a row does not see are not in its result, whatever they hold. */
static void test_unseen_is_not_read_into(void **state)
{
    (void)state;
    static uint8_t hide[100];
    np_attention_args shape = plain(30, 100, 24, NEAP_F32);
    for (int i = 0; i < 100; i++)
        hide[i] = i % 7 != 3;
    for (int masked = 0; masked < 2; masked++) {
        problem p;
        problem_make(&p, shape);
        if (masked) {
            p.a.mask = hide, p.a.mask_dtype = NEAP_BOOL;
            p.a.mask_strides[3] = 1;
        }
        char *clean = malloc(p.out_bytes);
        for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
            run(*k, &p.a, 1);
            memcpy(clean, p.a.out, p.out_bytes);
            float *v = (float *)(uintptr_t)p.a.v, *key = (float *)(uintptr_t)p.a.k, kept[2][24];
            int64_t at = masked ? 3 + 7 * 9 : 90; /* hidden from all, or seen from position 90 on */
            memcpy(kept[0], v + at * 24, sizeof kept[0]);
            memcpy(kept[1], key + at * 24, sizeof kept[1]);
            for (int d = 0; d < 24; d++)
                v[at * 24 + d] = d & 1 ? NAN : INFINITY, key[at * 24 + d] = NAN;
            run(*k, &p.a, 2);
            size_t row = 3 * 24 * sizeof(float), rows = masked ? 30 : 20;
            assert_memory_equal(p.a.out, clean, rows * row);
            if (!masked)
                assert_true(isnan(((float *)p.a.out)[20 * 3 * 24]));
            memcpy(v + at * 24, kept[0], sizeof kept[0]);
            memcpy(key + at * 24, kept[1], sizeof kept[1]);
        }
        free(clean);
        problem_free(&p);
    }
}

/* Scores far apart, in both orders of blocks; a NaN in a seen score is not lost. */
static void test_extreme_scores(void **state)
{
    (void)state;
    enum { K = 130 };
    static float q[1], k[K], v[K], out[1];
    for (const np_kernels *const *s = np_kernels_available(); *s; s++)
        for (int turn = 0; turn < 2; turn++) {
            np_attention_args a = plain(1, K, 1, NEAP_F32);
            a.q_heads = 1, a.scale = 1;
            a.q = q, a.k = k, a.v = v, a.out = out;
            a.k_strides[2] = a.v_strides[2] = 1;
            q[0] = 1;
            for (int i = 0; i < K; i++)
                k[i] = turn ? -1e4f * (float)i : 1e4f * (float)i, v[i] = (float)i;
            run(*s, &a, 2);
            assert_true(out[0] ==
                        (turn ? 0.0f : K - 1.0f)); /* one weight of 1, the rest underflow */
            for (int i = 0; i < K; i++)
                k[i] = -INFINITY;
            run(*s, &a, 1); /* nothing is seen */
            assert_true(out[0] == 0);
            k[turn ? 100 : 7] = NAN;
            run(*s, &a, 1);
            assert_true(isnan(out[0]));
            k[3] = 1;
            run(*s, &a, 2);
            assert_true(isnan(out[0]));
        }
}

/* Planned for a capacity, run with fewer rows and keys: scratch may not grow. */
static void test_scratch_covers_smaller(void **state)
{
    (void)state;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int i = 0; i < 2000; i++) {
            np_attention_args a = plain(1 + draw_below(600), 1 + draw_below(3000), 64, NEAP_F16);
            a.kv_heads = 1 + draw_below(10);
            a.q_heads = a.kv_heads * (1 + draw_below(8));
            int lanes = 1 + (int)draw_below(4);
            size_t whole = (*k)->product->attention_scratch(&a, lanes);
            a.q_len = 1 + draw_below(a.q_len), a.kv_len = draw_below(a.kv_len);
            assert_true((*k)->product->attention_scratch(&a, lanes) <= whole);
        }
}

static int make_contexts(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= 3; lanes++) {
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = lanes;
        if (neap_context_new(&o, &ctx[lanes]) != NEAP_OK)
            return -1;
    }
    return 0;
}

static int free_contexts(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= 3; lanes++)
        neap_context_free(ctx[lanes]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_dims_dtypes_heads),
        cmocka_unit_test(test_windows_and_sinks),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_many_blocks),
        cmocka_unit_test(test_lowest_mask),
        cmocka_unit_test(test_fully_masked),
        cmocka_unit_test(test_causal_is_lower_right),
        cmocka_unit_test(test_unseen_is_not_read_into),
        cmocka_unit_test(test_extreme_scores),
        cmocka_unit_test(test_scratch_covers_smaller),
    };
    return cmocka_run_group_tests(tests, make_contexts, free_contexts);
}
