/* test_gemm.c - matrix products on raw pointers: every instruction set, dtype and layout.
 *
 * Expected values are sums in double over the values that the operands really hold. One chain of k
 * fused or two-rounding steps in f32 errs by at most 2 k u (sum of |a b|), u = 2^-24; a 16-bit
 * result is rounded once more, 2^-11 or 2^-8 of its size (2^-24 absolute for f16 denormals). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/random.h"
#include "cpu/kernels.h"

static neap_context *ctx[4]; /* by number of lanes */
static uint32_t draws;

static float draw(void)
{
    return 2 * np_random_uniform(np_random_word(np_random_seed(7), draws++, 1u << 30)) - 1;
}

static int64_t draw_below(int64_t n)
{
    return (int64_t)(np_random_word(np_random_seed(7), draws++, 1u << 30) % (uint64_t)n);
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

/* A random value in (-1, 1) that the dtype holds exactly. */
static void put_random(neap_dtype t, void *p, int64_t i)
{
    float f = draw();
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (t == NEAP_F32)
        ((float *)p)[i] = f;
    else if (t == NEAP_BF16)
        ((uint16_t *)p)[i] = (uint16_t)(u >> 16);
    else /* exponent 0..14, ten bits of fraction */
        ((uint16_t *)p)[i] = (uint16_t)((u >> 16 & 0x83ff) | (uint32_t)(10 + draw_below(5)) << 10);
}

static size_t width_of(neap_dtype t)
{
    return t == NEAP_F32 ? 4 : 2;
}

typedef struct problem {
    np_gemm_args g;
    char *a_block, *b_block, *c;
    size_t c_bytes;
} problem;

/* The element [0][0] of a matrix of r x c whose strides may be negative or 0. */
static void *matrix(char **block, neap_dtype t, int64_t r, int64_t c, int64_t row, int64_t col)
{
    int64_t low = 0, high = 0;
    if (r > 0 && c > 0) {
        low = (row < 0 ? row * (r - 1) : 0) + (col < 0 ? col * (c - 1) : 0);
        high = (row > 0 ? row * (r - 1) : 0) + (col > 0 ? col * (c - 1) : 0) + 1;
    }
    size_t n = (size_t)(high - low);
    *block = malloc(n * width_of(t) + 1); /* exact, so that reading past the end is seen */
    assert_non_null(*block);
    for (size_t i = 0; i < n; i++)
        put_random(t, *block, (int64_t)i);
    return *block - low * (int64_t)width_of(t);
}

static void problem_make(problem *p, np_gemm_args g)
{
    p->g = g;
    p->g.a = matrix(&p->a_block, g.a_dtype, g.m, g.k, g.a_row, g.a_col);
    p->g.b = matrix(&p->b_block, g.b_dtype, g.k, g.n, g.b_row, g.b_col);
    p->c_bytes = (size_t)(g.m * g.c_row) * width_of(g.c_dtype) + 1;
    p->g.c = p->c = malloc(p->c_bytes);
    assert_non_null(p->c);
    memset(p->c, 0x5a, p->c_bytes);
}

static void problem_free(problem *p)
{
    free(p->a_block);
    free(p->b_block);
    free(p->c);
}

/* Runs with scratch of exactly the promised size. */
static void run(const np_kernels *kernels, const np_gemm_args *g, int lanes)
{
    size_t bytes = kernels->product->gemm_scratch(g, lanes);
    void *scratch = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, bytes); /* NaN wherever nothing was written */
    kernels->product->gemm(g, scratch, ctx[lanes]->pool);
    free(scratch);
}

static void check_values(const problem *p, const char *isa)
{
    const np_gemm_args *g = &p->g;
    double last = g->c_dtype == NEAP_F32 ? 0x1p-24 : g->c_dtype == NEAP_F16 ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < g->k; k++) {
                double x = get(g->a_dtype, g->a, i * g->a_row + k * g->a_col) *
                           get(g->b_dtype, g->b, k * g->b_row + j * g->b_col);
                sum += x;
                size += fabs(x);
            }
            double c = get(g->c_dtype, g->c, i * g->c_row + j);
            double bound = 2 * (double)g->k * 0x1p-24 * size;
            bound += last * (fabs(sum) + bound) + 0x1p-25;
            if (!(fabs(c - sum) <= bound))
                fail_msg("%s m %d n %d k %d [%d][%d]: %.9g, expected %.9g", isa, (int)g->m,
                         (int)g->n, (int)g->k, (int)i, (int)j, c, sum);
        }
        for (int64_t j = g->n; j < g->c_row; j++) /* between rows nothing may change */
            for (size_t x = 0; x < width_of(g->c_dtype); x++)
                assert_int_equal(p->c[(size_t)(i * g->c_row + j) * width_of(g->c_dtype) + x], 0x5a);
    }
}

/* Every instruction set, 1 to 3 lanes: right values, equal bits. */
static void check(np_gemm_args shape)
{
    problem p;
    problem_make(&p, shape);
    char *one = malloc(p.c_bytes);
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int lanes = 1; lanes <= 3; lanes++) {
            memset(p.c, 0x5a, p.c_bytes);
            run(*k, &p.g, lanes);
            if (lanes > 1) {
                assert_memory_equal(p.c, one, p.c_bytes);
                continue;
            }
            check_values(&p, (*k)->isa);
            memcpy(one, p.c, p.c_bytes);
        }
    free(one);
    problem_free(&p);
}

static np_gemm_args plain(int64_t m, int64_t n, int64_t k, neap_dtype t)
{
    return (np_gemm_args){.m = m,
                          .n = n,
                          .k = k,
                          .a_row = k,
                          .a_col = 1,
                          .b_row = n,
                          .b_col = 1,
                          .c_row = n,
                          .a_dtype = t,
                          .b_dtype = t,
                          .c_dtype = t,
                          .matrix = true};
}

/* A layout by number: how one operand of r x c lies in memory. */
static void layout(int kind, int64_t r, int64_t c, int64_t *row, int64_t *col)
{
    static const int64_t sign_row[] = {1, 1, 1, 1, -1, 1, -1};
    switch (kind) {
    case 0:
        *row = c, *col = 1;
        break; /* rows adjacent */
    case 1:
        *row = 1, *col = r;
        break; /* columns adjacent */
    case 2:
        *row = c + 3, *col = 1;
        break; /* with gaps */
    case 3:
        *row = 2 * c + 1, *col = 2;
        break; /* every second element */
    case 4:
        *row = c, *col = -1;
        break; /* mirrored and upside down */
    case 5:
        *row = 0, *col = 1;
        break; /* one row for all */
    default:
        *row = 1, *col = -r;
        break;
    }
    *row *= sign_row[kind];
}

static void test_odd_sizes(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= 70; n++) {
        np_gemm_args g = plain(n, 70 - n, (n * 13) % 71, NEAP_F32);
        g.c_row = g.n + 1;
        check(g);
        g = plain((n * 7) % 71, n, 71 - n, NEAP_F32);
        g.b_row = 1, g.b_col = g.k; /* weights [n][k] */
        check(g);
    }
    check(plain(1, 1, 0, NEAP_F32));
    check(plain(70, 70, 0, NEAP_BF16));
    check(plain(0, 5, 5, NEAP_F16));
}

static void test_layouts_and_dtypes(void **state)
{
    (void)state;
    static const neap_dtype types[] = {NEAP_F32, NEAP_F16, NEAP_BF16};
    for (int la = 0; la < 7; la++)
        for (int lb = 0; lb < 7; lb++) {
            int64_t m = 1 + draw_below(40), n = 1 + draw_below(70), k = 1 + draw_below(90);
            np_gemm_args g = plain(m, n, k, NEAP_F32);
            layout(la, m, k, &g.a_row, &g.a_col);
            layout(lb, k, n, &g.b_row, &g.b_col);
            g.a_dtype = types[draw_below(3)];
            g.b_dtype = types[draw_below(3)];
            g.c_dtype = types[draw_below(3)];
            check(g);
        }
    for (int i = 0; i < 27; i++) {
        np_gemm_args g = plain(9, 37, 41, NEAP_F32);
        g.a_dtype = types[i % 3], g.b_dtype = types[i / 3 % 3], g.c_dtype = types[i / 9];
        g.b_row = i & 1 ? 1 : g.n, g.b_col = i & 1 ? g.k : 1;
        check(g);
    }
}

/* Sizes past each blocking: k cut several times, columns cut, 16-bit results with partial sums. */
static void test_blocked_sizes(void **state)
{
    (void)state;
    np_gemm_args g = plain(19, 33, 1111, NEAP_F32);
    check(g);
    g.c_dtype = NEAP_F16;
    check(g);
    g = plain(300, 35, 530, NEAP_BF16);
    check(g);
    g = plain(5, 2100, 65, NEAP_F32);
    check(g);
    g = plain(3, 1100, 270, NEAP_BF16);
    g.b_row = 1, g.b_col = g.k;
    check(g);
}

static void test_vector(void **state)
{
    (void)state;
    static const neap_dtype types[] = {NEAP_F32, NEAP_F16, NEAP_BF16};
    for (int i = 0; i < 60; i++) {
        np_gemm_args g = plain(1, 1 + draw_below(i < 50 ? 90 : 700), draw_below(300), NEAP_F32);
        layout(i % 7, g.k, g.n, &g.b_row, &g.b_col);
        g.a_col = i % 5 == 0 ? -2 : i % 5 == 1 ? 0 : 1;
        g.a_dtype = types[i % 3], g.b_dtype = types[i / 3 % 3], g.c_dtype = types[i / 9 % 3];
        g.matrix = false;
        check(g);
    }
}

/* The vector kernel adds in one order, however B lies in memory. */
static void test_vector_order_is_one(void **state)
{
    (void)state;
    enum { N = 77, K = 333 };
    static float x[K], rows[K * N], columns[N * K], apart[K * N * 2], y[3][N];
    for (int k = 0; k < K; k++) {
        x[k] = draw();
        for (int n = 0; n < N; n++)
            rows[k * N + n] = columns[n * K + k] = apart[(k * N + n) * 2] = draw();
    }
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        np_gemm_args g = plain(1, N, K, NEAP_F32);
        g.matrix = false;
        g.a = x;
        g.b = rows, g.c = y[0];
        run(*k, &g, 2);
        g.b = columns, g.b_row = 1, g.b_col = K, g.c = y[1];
        run(*k, &g, 1);
        g.b = apart, g.b_row = 2 * N, g.b_col = 2, g.c = y[2];
        run(*k, &g, 3);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        assert_memory_equal(y[0], y[2], sizeof y[0]);
    }
}

/* An element is one chain of steps over k from 0: the same bits whatever rows, columns and layout
 * surround it, and on sets with fma, fmaf in a loop gives them. */
static void test_one_chain(void **state)
{
    (void)state;
    enum { M = 31, N = 45, K = 700 };
    static float a[M * K], b[K * N], bt[N * K], c[M * N], part[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = draw();
    for (int k = 0; k < K; k++)
        for (int n = 0; n < N; n++)
            b[k * N + n] = bt[n * K + k] = draw();
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        np_gemm_args g = plain(M, N, K, NEAP_F32);
        g.a = a, g.b = b, g.c = c;
        run(*k, &g, 1);
        bool fused = strcmp((*k)->isa, "base") != 0;
        for (int i = 0; i < M * N; i++) {
            float sum = 0;
            for (int p = 0; p < K; p++)
                sum = fused ? fmaf(a[i / N * K + p], b[p * N + i % N], sum)
                            : sum + a[i / N * K + p] * b[p * N + i % N];
            assert_memory_equal(&sum, &c[i], sizeof sum);
        }
        g.b = bt, g.b_row = 1, g.b_col = K, g.c = part;
        run(*k, &g, 2);
        assert_memory_equal(c, part, sizeof c);
        for (int i = 0; i < M; i++) { /* each row alone */
            g.a = a + i * K, g.m = 1, g.c = part + i * N;
            run(*k, &g, 1);
        }
        assert_memory_equal(c, part, sizeof c);
    }
}

/* Few columns take a kernel of their own, with the bits that they have among many. */
static void test_few_columns(void **state)
{
    (void)state;
    enum { M = 150, N = 70, K = 300, FEW = 18 };
    static float a[M * K], b[K * N], bt[N * K], add[M * N], c[M * N], part[M * FEW];
    for (int i = 0; i < M * K; i++)
        a[i] = draw();
    for (int i = 0; i < M * N; i++)
        add[i] = draw();
    for (int k = 0; k < K; k++)
        for (int n = 0; n < N; n++)
            b[k * N + n] = bt[n * K + k] = draw();
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int i = 0; i < 4; i++) {
            np_gemm_args g = plain(M, N, K, NEAP_F32);
            g.a = a, g.b = b, g.c = c, g.alpha = 0.75f, g.beta = -1.5f, g.add_row = N, g.add_col = 1;
            g.add = i & 1 ? add : NULL;
            run(*k, &g, 1);
            if (i & 2)
                g.b = bt, g.b_row = 1, g.b_col = K;
            g.c = part;
            for (g.n = 1; g.n <= FEW; g.n++) {
                g.c_row = g.n;
                g.m = M - 7 * g.n;
                run(*k, &g, 1 + (int)g.n % 3);
                for (int r = 0; r < g.m; r++)
                    assert_memory_equal(part + r * g.n, c + r * N, (size_t)g.n * sizeof *c);
            }
        }
}

/* Subnormal f16 are ordinary numbers in f32 and count as such, however they lie. */
static void test_small_f16(void **state)
{
    (void)state;
    enum { M = 37, K = 23 };
    static uint16_t a[M * K];
    static float b[K * 40], c[M * 40];
    for (int i = 0; i < M * K; i++)
        a[i] = (uint16_t)((unsigned)draw_below(1024) | (i & 1 ? 0x8000u : 0));
    for (int i = 0; i < K * 40; i++)
        b[i] = 1;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int i = 0; i < 4; i++) {
            np_gemm_args g = plain(M, i & 1 ? 3 : 40, K, NEAP_F32);
            g.a = a, g.a_dtype = NEAP_F16, g.b = b, g.c = c;
            if (i & 2)
                g.a_row = 1, g.a_col = M;
            run(*k, &g, 1);
            for (int r = 0; r < M; r++) {
                double sum = 0; /* exact, as every partial sum is in f32 */
                for (int p = 0; p < K; p++)
                    sum += get(NEAP_F16, a, r * g.a_row + p * g.a_col);
                assert_true(c[r * g.n] == sum);
            }
        }
}

/* A 16-bit result is the f32 sum rounded once, also when k is cut. */
static void test_rounded_once(void **state)
{
    (void)state;
    enum { M = 7, N = 35, K = 900 };
    static float a[M * K], b[K * N], c[M * N];
    static uint16_t h[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = draw();
    for (int i = 0; i < K * N; i++)
        b[i] = draw();
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        np_gemm_args g = plain(M, N, K, NEAP_F32);
        g.a = a, g.b = b, g.c = c;
        run(*k, &g, 1);
        g.c_dtype = NEAP_BF16, g.c = h;
        run(*k, &g, 2);
        for (int i = 0; i < M * N; i++) {
            uint32_t u;
            memcpy(&u, &c[i], sizeof u);
            assert_int_equal(h[i], (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16));
        }
    }
}

/* Planned for a capacity, run with fewer rows: scratch may not grow as the shape shrinks. */
static void test_scratch_covers_smaller(void **state)
{
    (void)state;
    static const neap_dtype types[] = {NEAP_F32, NEAP_BF16};
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int i = 0; i < 2000; i++) {
            np_gemm_args g =
                plain(1 + draw_below(600), 1 + draw_below(3000), 1 + draw_below(3000), NEAP_F32);
            g.c_dtype = types[i & 1];
            int lanes = 1 + (int)draw_below(4);
            size_t whole = (*k)->product->gemm_scratch(&g, lanes);
            g.matrix = draw_below(2);
            g.m = 1 + draw_below(g.m), g.n = 1 + draw_below(g.n), g.k = 1 + draw_below(g.k);
            assert_true((*k)->product->gemm_scratch(&g, 1 + (int)draw_below(lanes)) <= whole);
        }
}

/* What the hook has seen: how often each element of C, and what it held then. */
typedef struct seen_blocks {
    const problem *p;
    unsigned char *times;
    char *held;
    atomic_int flushed;
} seen_blocks;

static void see_block(void *arg, void *c, int64_t rows, int64_t columns)
{
    seen_blocks *s = arg;
    const np_gemm_args *g = &s->p->g;
    const int64_t size = (int64_t)width_of(g->c_dtype), at = ((char *)c - s->p->c) / size;
    volatile float subnormal = 1e-39f;
    subnormal *= 0.5f;
    if (subnormal == 0)
        atomic_fetch_add(&s->flushed, 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            s->times[at + i * g->c_row + j]++;
            memcpy(s->held + (at + i * g->c_row + j) * size, (char *)c + (i * g->c_row + j) * size,
                   (size_t)size);
        }
}

/* Each element of C once, when it is stored, in the caller's floating-point mode. */
static void check_finished(np_gemm_args shape)
{
    problem p;
    problem_make(&p, shape);
    seen_blocks s = {.p = &p, .times = malloc(p.c_bytes), .held = malloc(p.c_bytes)};
    p.g.finished = see_block;
    p.g.finished_arg = &s;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int lanes = 1; lanes <= 3; lanes++) {
            memset(p.c, 0x5a, p.c_bytes);
            memset(s.held, 0x5a, p.c_bytes);
            memset(s.times, 0, p.c_bytes);
            run(*k, &p.g, lanes);
            assert_memory_equal(s.held, p.c, p.c_bytes);
            assert_int_equal(atomic_load(&s.flushed), 0);
            for (int64_t i = 0; i < shape.m; i++)
                for (int64_t j = 0; j < shape.c_row; j++)
                    assert_int_equal(s.times[i * shape.c_row + j], j < shape.n);
        }
    free(s.times);
    free(s.held);
    problem_free(&p);
}

static void test_finished(void **state)
{
    (void)state;
    static const neap_dtype types[] = {NEAP_F32, NEAP_F16, NEAP_BF16};
    for (int i = 0; i < 60; i++) {
        np_gemm_args g = plain(1 + draw_below(90), 1 + draw_below(90), draw_below(70), NEAP_F32);
        g.c_row += draw_below(3);
        g.c_dtype = types[i % 3];
        g.matrix = i & 1;
        g.m = i % 6 < 2 ? 1 : g.m;
        check_finished(g);
    }
    check_finished(plain(0, 5, 5, NEAP_F32));
    check_finished(plain(5, 0, 5, NEAP_F32));
    check_finished(plain(150, 1100, 600, NEAP_F32)); /* past each blocking */
    check_finished(plain(530, 37, 600, NEAP_BF16));  /* partial sums, rows cut */
    np_gemm_args g = plain(1, 3000, 40, NEAP_F16);
    g.matrix = false;
    check_finished(g);
}

/* Weights that are decoded while they are packed. */
static void sixteenths(float *out, const np_decoded *w, int64_t row, int64_t begin, int64_t n)
{
    (void)w;
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)((row * 31 + begin + i) % 17 - 8) / 16;
}

static void test_finished_decoded(void **state)
{
    (void)state;
    np_decoded rows = {.coding = NP_CODING_FLOAT, .dtype = NEAP_F32};
    np_gemm_args g = plain(50, 160, 320, NEAP_F32);
    g.piece = sixteenths;
    g.rows = &rows;
    check_finished(g);
    g.b_row = 1, g.b_col = g.k;
    check_finished(g);
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
        cmocka_unit_test(test_odd_sizes),           cmocka_unit_test(test_layouts_and_dtypes),
        cmocka_unit_test(test_blocked_sizes),       cmocka_unit_test(test_vector),
        cmocka_unit_test(test_vector_order_is_one), cmocka_unit_test(test_one_chain),
        cmocka_unit_test(test_few_columns),         cmocka_unit_test(test_small_f16),
        cmocka_unit_test(test_rounded_once),        cmocka_unit_test(test_scratch_covers_smaller),
        cmocka_unit_test(test_finished),            cmocka_unit_test(test_finished_decoded),
    };
    return cmocka_run_group_tests(tests, make_contexts, free_contexts);
}
