/* test_row_kernels.c - reductions, softmax, norms and rope for each dtype and instruction set:
 * values from NumPy's tables, exact sums or double arithmetic; the same bits for every layout and
 * cut. */
#include "kernel_fixture.h"

static const neap_dtype integer_types[] = {NEAP_BOOL, NEAP_U8,  NEAP_I8, NEAP_I16,
                                           NEAP_I32,  NEAP_U32, NEAP_I64};
enum { INTEGERS = sizeof integer_types / sizeof *integer_types };

#define EACH_ISA(k) for (const np_kernels *const *k = np_kernels_available(); *k; k++)

static const char *text(neap_dtype t) { return neap_dtype_describe(t)->name; }

static void *space(size_t bytes)
{
    void *p = malloc(bytes + 64);
    assert_non_null(p);
    return p;
}

/* x[i] = f(i), rounded to the type. */
static void put(const np_kernels *k, neap_dtype t, void *x, int64_t i, float value)
{
    k->span->cast[NEAP_F32][t]((uint8_t *)x + (size_t)i * size_of(t), &value, 1);
}

static void fill_noise(const np_kernels *k, neap_dtype t, void *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        put(k, t, x, i, ldexpf((float)noise((uint64_t)i + seed * 1000003), -29) - 4.0f);
}

static void test_every_row_is_there(void **state)
{
    (void)state;
    EACH_ISA(k)
    {
        for (int t = 0; t < NEAP_DTYPE_SPAN; t++) {
            const neap_dtype_info *info = neap_dtype_describe((neap_dtype)t);
            bool any = info->name && info->class_ != NEAP_CLASS_QUANT;
            bool real = any && info->class_ == NEAP_CLASS_FLOAT;
            assert_true((*k)->row->sum[t] ? any : !any);
            assert_true((*k)->row->max[t] && (*k)->row->min[t] && (*k)->row->argmax[t] ? any : !any);
            assert_true((*k)->row->prod[t] && (*k)->row->argmin[t] ? any : !any);
            assert_true((*k)->row->var[t] && (*k)->row->logsumexp[t] ? real : !real);
            assert_true((*k)->row->mean[t] && (*k)->row->softmax[t] && (*k)->row->rms_norm[t] ? real : !real);
            assert_true((*k)->row->layer_norm[t] && (*k)->row->rope[t] ? real : !real);
        }
        printf("%s\n", (*k)->isa);
    }
}

/* ---- layouts --------------------------------------------------------------------------- */

/* How x[outer][n][inner] lies in memory. */
typedef struct layout {
    int64_t outer_stride, stride, inner_stride, first;
} layout;

enum { LAYOUTS = 7 };

static layout layout_of(int which, int64_t outer, int64_t n, int64_t inner)
{
    const layout all[LAYOUTS] = {
        {n * inner, inner, 1, 0},                                         /* columns */
        {n * inner, 1, n, 0},                                             /* rows */
        {1, outer * inner, outer, 0},                                     /* outer innermost */
        {2 * n * inner + 3, 2 * inner, 2, 1},                             /* every second */
        {n * inner, -inner, 1, (n - 1) * inner},                          /* upwards */
        {n * inner, -1, n, n - 1},                                        /* backwards */
        {-n * inner, inner, -1, outer * n * inner - inner * (n - 1) - 1}, /* mirrored */
    };
    return all[which];
}

static size_t layout_span(int64_t outer, int64_t n, int64_t inner)
{
    return (size_t)(2 * outer * n * inner + 8 * outer + 8) * 8;
}

/* Lays dense values x[outer][n][inner] out. */
static void lay_out(void *to, const void *x, size_t bytes, layout l, int64_t outer, int64_t n,
                    int64_t inner)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < inner; c++)
                memcpy((uint8_t *)to + (size_t)(l.first + o * l.outer_stride + i * l.stride +
                                                c * l.inner_stride) *
                                           bytes,
                       (const uint8_t *)x + (size_t)((o * n + i) * inner + c) * bytes, bytes);
}

static const int64_t shapes[][3] = {{1, 1, 1},    {2, 3, 1},     {3, 5, 7},    {1, 31, 16},
                                    {2, 32, 17},  {1, 33, 65},   {1, 100, 64}, {2, 2047, 3},
                                    {1, 2048, 5}, {1, 2049, 20}, {1, 5000, 2}, {3, 2, 100}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

enum { SUM, MEAN, MAX, MIN, ARGMAX, ARGMIN, PROD, VAR, STD, LOGSUMEXP, REDUCTIONS };
static const char *const reduction_names[] = {"sum",    "mean", "max", "min", "argmax",
                                              "argmin", "prod", "var", "std", "logsumexp"};

static bool floats_only(int which)
{
    return which == MEAN || which >= VAR;
}

static void reduce(const np_kernels *k, int which, neap_dtype t, const np_reduce_args *args)
{
    const np_row_kernels *r = k->row;
    np_reduce_fn all[] = {[SUM] = r->sum[t], [MEAN] = r->mean[t], [MAX] = r->max[t],
                          [MIN] = r->min[t], [ARGMAX] = r->argmax[t], [ARGMIN] = r->argmin[t],
                          [PROD] = r->prod[t], [LOGSUMEXP] = r->logsumexp[t]};
    if (which == VAR || which == STD)
        r->var[t](args, 1, which == STD);
    else
        all[which](args);
}

/* The exact result in long double. */
static long double reduce_right(int which, neap_dtype t, const void *x, int64_t n, int64_t inner)
{
    long double sum = 0, best = 0, product = 1, spread = 0, powers = 0;
    int64_t at = 0;
    bool least = which == MIN || which == ARGMIN;
    for (int64_t i = 0; i < n; i++) {
        long double v = element(t, x, i * inner);
        sum += v;
        product *= v;
        bool better = least ? v < best : v > best;
        if (i == 0 || better || (isnan(v) && !isnan(best)))
            best = v, at = i;
    }
    for (int64_t i = 0; i < n; i++) {
        long double v = element(t, x, i * inner);
        spread += (v - sum / n) * (v - sum / n);
        powers += expl(v - best);
    }
    spread = n > 1 ? spread / (n - 1) : (long double)NAN;
    const long double all[] = {sum, sum / n, best,   best,          at,
                               at,  product, spread, sqrtl(spread), best + logl(powers)};
    return all[which];
}

static neap_dtype result_type(int which, neap_dtype t)
{
    bool real = neap_dtype_describe(t)->class_ == NEAP_CLASS_FLOAT;
    if (which == ARGMAX || which == ARGMIN)
        return NEAP_I32;
    return (which == SUM || which == PROD) && !real ? NEAP_I64 : t;
}

/* A sum in f32: a chain of 64 additions, 5 folds, then double: at most 70 roundings of partial sums
 * that |x| n bounds; var has three more in each square, and exp's of logsumexp are right to 2^-21
 * with their argument's. The rest is exact. */
static void check_values(const np_kernels *k, int which, neap_dtype t, const void *x,
                         const void *out, const int64_t *s)
{
    int64_t n = s[1], inner = s[2];
    for (int64_t o = 0; o < s[0] * inner; o++) {
        const uint8_t *p =
            (const uint8_t *)x + (size_t)((o / inner) * n * inner + o % inner) * size_of(t);
        neap_dtype to = result_type(which, t);
        long double want = reduce_right(which, t, p, n, inner), got = element(to, out, o), most = 0;
        for (int64_t i = 0; i < n; i++)
            most += fabsl(element(t, p, i * inner));
        long double slack = to == t && which <= MEAN ? most * 70 * 0x1p-24L / (which ? n : 1) : 0;
        if (which >= VAR)
            slack = which == LOGSUMEXP ? 80 * 0x1p-24L : isnan(want) ? 0 : want * 75 * 0x1p-24L;
        if (!(fabsl(got - want) <= slack) && units_off(to, got, want) > (slack > 0 ? 1 : 0))
            fail_msg("%s %s.%s[%lld][%lld][%lld] at %lld: %La, not %La", k->isa,
                     reduction_names[which], text(t), (long long)s[0], (long long)n,
                     (long long)inner, (long long)o, got, want);
    }
}

static void check_reduction(const np_kernels *k, int which, neap_dtype t, const int64_t *s)
{
    size_t bytes = size_of(t), count = (size_t)(s[0] * s[1] * s[2]), outs = (size_t)(s[0] * s[2]);
    size_t out_bytes = size_of(result_type(which, t));
    void *x = space(count * bytes), *laid = space(layout_span(s[0], s[1], s[2]));
    uint8_t *first = space(outs * out_bytes), *out = space(outs * out_bytes);
    fill_noise(k, t, x, (int64_t)count, (uint64_t)which);
    for (size_t i = 0; which == PROD && i < count; i++) /* whose products are exact */
        put(k, t, x, (int64_t)i,
            i % 97 == 5 ? 2.0f : i % 1009 == 7 ? 3.0f : t == NEAP_F32 && i % 89 == 1 ? 0.5f : 1.0f);
    for (int l = 0; l < LAYOUTS; l++) {
        layout at = layout_of(l, s[0], s[1], s[2]);
        lay_out(laid, x, bytes, at, s[0], s[1], s[2]);
        np_reduce_args args = {out,       (uint8_t *)laid + (size_t)at.first * bytes,
                               s[0],      s[1],
                               s[2],      at.outer_stride,
                               at.stride, at.inner_stride};
        memset(out, 0xa5, outs * out_bytes + 8);
        reduce(k, which, t, &args);
        assert_int_equal(out[outs * out_bytes], 0xa5);
        if (l == 0) {
            check_values(k, which, t, x, out, s);
            memcpy(first, out, outs * out_bytes);
        }
        if (memcmp(first, out, outs * out_bytes) != 0)
            fail_msg("%s %s.%s: layout %d gives other bits", k->isa, reduction_names[which],
                     text(t), l);
    }
    free(x), free(laid), free(first), free(out);
}

static void test_reductions_in_every_layout(void **state)
{
    (void)state;
    EACH_ISA(k)
    {
        for (int which = 0; which < REDUCTIONS; which++) {
            for (int s = 0; s < SHAPES; s++) {
                for (int t = 0; t < 3; t++)
                    check_reduction(*k, which, float_types[t], shapes[s]);
                for (int t = 0; !floats_only(which) && t < INTEGERS; t++)
                    check_reduction(*k, which, integer_types[t], shapes[s]);
            }
        }
    }
}

/* NaN wins max, min, argmax and argmin wherever it stands, in rows and in columns; the first of
 * equals. */
static void test_nan_and_ties(void **state)
{
    (void)state;
    enum { N = 45, COLUMNS = 40 };
    static uint8_t x[N * COLUMNS * 4], out[COLUMNS * 4];
    EACH_ISA(k)
    {
        for (int t = 0; t < 3; t++) {
            neap_dtype type = float_types[t];
            for (int at = 0; at < N; at++) {
                for (int i = 0; i < N * COLUMNS; i++)
                    put(*k, type, x, i,
                        i / COLUMNS == at || i / COLUMNS == N - 1 ? NAN : (float)(i % 7));
                for (int which = MAX; which <= ARGMIN; which++) {
                    np_reduce_args args = {out, x, 1, N, COLUMNS, 0, COLUMNS, 1};
                    reduce(*k, which, type, &args); /* columns */
                    long double last = element(result_type(which, type), out, COLUMNS - 1);
                    assert_true(which >= ARGMAX ? last == at : isnan(last));
                    args.inner = 1;
                    reduce(*k, which, type, &args); /* one, strided */
                    last = element(result_type(which, type), out, 0);
                    assert_true(which >= ARGMAX ? last == at : isnan(last));
                }
            }
            for (int i = 0; i < N; i++) /* adjacent; two equal peaks, then none */
                put(*k, type, x, i, i == 20 || i == 33 ? 9.0f : (float)(i % 5));
            np_reduce_args row = {out, x, 1, N, 1, 0, 1, 0};
            (*k)->row->argmax[type](&row);
            assert_true(element(NEAP_I32, out, 0) == 20);
            (*k)->row->argmin[type](&row);
            assert_true(element(NEAP_I32, out, 0) == 0);
            for (int i = 0; i < N; i++)
                put(*k, type, x, i, -INFINITY);
            (*k)->row->argmax[type](&row);
            assert_true(element(NEAP_I32, out, 0) == 0);
            (*k)->row->max[type](&row);
            assert_true(element(type, out, 0) == -(long double)INFINITY);
        }
    }
}

/* ---- sums that have gone wrong elsewhere ----------------------------------------------- */

static long double reduce_ones(const np_kernels *k, np_reduce_fn fn, neap_dtype t, int64_t n,
                               int form)
{
    static uint8_t ones[4 * 70000 * 2], out[16];
    int64_t stride = form == 0 ? 1 : form == 1 ? 2 : 0, inner = form == 1 ? 2 : 1;
    for (int64_t i = 0; i < n * inner; i++)
        put(k, t, ones, i, 1.0f);
    np_reduce_args args = {out, ones, 1, n, inner, 0, stride, 1};
    fn(&args);
    return element(t, out, inner - 1);
}

/* D1 of the cases of faults: sums in half precision. */
static void test_long_sums_of_half_floats(void **state)
{
    (void)state;
    EACH_ISA(k)
    {
        for (int form = 0; form < 3; form++) {
            assert_true(reduce_ones(*k, (*k)->row->sum[NEAP_F16], NEAP_F16, 20000, form) == 20000);
            assert_true(reduce_ones(*k, (*k)->row->sum[NEAP_BF16], NEAP_BF16, 70000, form) == 70144);
            assert_true(isinf(reduce_ones(*k, (*k)->row->sum[NEAP_F16], NEAP_F16, 70000, form)));
            assert_true(reduce_ones(*k, (*k)->row->mean[NEAP_F16], NEAP_F16, 70000, form) == 1);
            assert_true(reduce_ones(*k, (*k)->row->mean[NEAP_BF16], NEAP_BF16, 70000, form) == 1);
            assert_true(reduce_ones(*k, (*k)->row->sum[NEAP_F32], NEAP_F32, 70000, form) == 70000);
        }
    }
}

/* Ten million times 0.1f: its 24 digits summed by hand. One unit, as the total is rounded once. */
static void test_ten_million(void **state)
{
    (void)state;
    const float tenth = 0.1f;
    float sum, *x = space(10000000 * sizeof *x);
    for (int64_t i = 0; i < 10000000; i++)
        x[i] = tenth;
    EACH_ISA(k)
    {
        np_reduce_args args = {&sum, x, 1, 10000000, 1, 0, 1, 0};
        (*k)->row->sum[NEAP_F32](&args);
        /* within a block the chain of 64 additions rounds at most 2^-24 of the partial sum each */
        assert_true(fabs((double)sum - 1e7 * (double)tenth) < 1e7 * 0.1 * 70 * 0x1p-24);
        (*k)->row->mean[NEAP_F32](&args);
        assert_true(fabsf(sum - tenth) < 70 * 0x1p-24f * tenth);
    }
    free(x);
}

/* D5: more than 2^31 elements that take no memory. */
static void test_more_than_two_to_the_31(void **state)
{
    (void)state;
    const uint8_t one = 1;
    int64_t *out = space(65537 * sizeof *out);
    uint8_t top;
    EACH_ISA(k)
    {
        np_reduce_args all = {out, &one, 1, 65536LL * 65537, 1, 0, 0, 0};
        (*k)->row->sum[NEAP_U8](&all);
        assert_true(out[0] == 4295032832);
        all.out = &top;
        (*k)->row->max[NEAP_U8](&all);
        assert_int_equal(top, 1);
        np_reduce_args rows = {out, &one, 65536, 65537, 1, 0, 0, 0};
        (*k)->row->sum[NEAP_U8](&rows);
        assert_true(out[0] == 65537 && out[65535] == 65537);
        np_reduce_args columns = {out, &one, 1, 65536, 65537, 0, 0, 0};
        (*k)->row->sum[NEAP_U8](&columns);
        assert_true(out[0] == 65536 && out[65536] == 65536);
        np_reduce_args again = {out, out, 1, 65537, 1, 0, 1, 0};
        (*k)->row->sum[NEAP_I64](&again);
        assert_true(out[0] == 4295032832);
    }
    free(out);
}

static void test_nothing_to_sum(void **state)
{
    (void)state;
    EACH_ISA(k)
    {
        float f[3] = {7, 7, 7};
        int64_t l = 7;
        np_reduce_args args = {f, f, 1, 0, 3, 0, 3, 1};
        (*k)->row->sum[NEAP_F32](&args);
        assert_true(f[0] == 0 && f[1] == 0 && f[2] == 0);
        (*k)->row->mean[NEAP_F32](&args);
        assert_true(isnan(f[0]) && isnan(f[2]));
        (*k)->row->prod[NEAP_F32](&args);
        assert_true(f[0] == 1 && f[2] == 1);
        (*k)->row->logsumexp[NEAP_F32](&args);
        assert_true(f[0] == -INFINITY && f[2] == -INFINITY);
        (*k)->row->var[NEAP_F32](&args, 0, false);
        assert_true(isnan(f[0]) && isnan(f[2]));
        args.out = &l, args.inner = 1;
        (*k)->row->sum[NEAP_I32](&args);
        assert_true(l == 0);
        (*k)->row->prod[NEAP_I32](&args);
        assert_true(l == 1);
    }
}

/* ---- rows ------------------------------------------------------------------------------ */

enum { ROW = 77 };

/* f32: the sums' and exp's few roundings. 16-bit: one unit, as the f32 result is rounded once more.
 */
static void check_table(const np_kernels *k, const char *op, neap_dtype t, const void *out,
                        double units)
{
    golden want = golden_find(op, t);
    for (uint32_t i = 0; i < want.count; i++) {
        long double got = element(t, out, i), right = element(t, want.data, i);
        /* a layer norm near 0 is the difference of values up to 5: one unit of those, then */
        long double slack = strcmp(op, "layer_norm") == 0 ? 0x1p-21L : 0;
        double off = units_off(t, got, right);
        if (off > (t == NEAP_F32 ? units : 1) && fabsl(got - right) > slack)
            fail_msg("%s %s.%s at %u: %La, NumPy has %La: %g units", k->isa, op, text(t), i, got,
                     right, off);
    }
}

static void *table_copy(const char *op, neap_dtype t, size_t *bytes)
{
    golden g = golden_find(op, t);
    *bytes = (size_t)g.count * g.bytes;
    void *p = space(*bytes);
    memcpy(p, g.data, *bytes);
    return p;
}

static void test_rows_against_numpy(void **state)
{
    (void)state;
    EACH_ISA(k)
    {
        for (int i = 0; i < 3; i++) {
            neap_dtype t = float_types[i];
            size_t bytes, small;
            void *x = table_copy("rows", t, &bytes), *w = table_copy("weight", t, &small);
            void *b = table_copy("bias", t, &small), *out = space(bytes);
            np_rows_args plain = {out, x, 2, ROW, ROW, ROW, NULL, NULL, 1e-5f};
            np_rows_args weighted = {out, x, 2, ROW, ROW, ROW, w, NULL, 1e-5f};
            np_rows_args both = {out, x, 2, ROW, ROW, ROW, w, b, 1e-5f};
            (*k)->row->softmax[t](&plain);
            check_table(*k, "softmax", t, out, 37); /* x - max, to 64, rounds: 32 units in exp */
            (*k)->row->rms_norm[t](&weighted);
            check_table(*k, "rms_norm", t, out, 4);
            (*k)->row->layer_norm[t](&both);
            check_table(*k, "layer_norm", t, out, 6);
            free(x), free(w), free(b), free(out);
        }
    }
}

static np_rows_fn row_kernel(const np_kernels *k, int which, neap_dtype t)
{
    return which == 0 ? k->row->softmax[t] : which == 1 ? k->row->rms_norm[t] : k->row->layer_norm[t];
}

/* A row alone, elsewhere, among others, in place, with other strides: the same bits; nothing
 * beyond. */
static void test_a_row_depends_on_itself(void **state)
{
    (void)state;
    enum { ROWS = 3, MOST = 2100, STRIDE = MOST + 5 };
    static const int64_t lengths[] = {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 2048, 2100};
    uint8_t *x = space(ROWS * STRIDE * 4), *out = space(ROWS * STRIDE * 4),
            *one = space(STRIDE * 4 + 8);
    uint8_t *w = space(MOST * 4);
    EACH_ISA(k)
    {
        for (int i = 0; i < 9; i++) {
            neap_dtype t = float_types[i % 3];
            size_t b = size_of(t);
            np_rows_fn fn = row_kernel(*k, i / 3, t);
            fill_noise(*k, t, x, ROWS * STRIDE, 3);
            fill_noise(*k, t, w, MOST, 4);
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                int64_t n = lengths[l];
                np_rows_args all = {out, x, ROWS, n, STRIDE, STRIDE, w, i % 2 ? w : NULL, 1e-5f};
                memset(out, 0xa5, ROWS * STRIDE * b);
                fn(&all);
                for (int r = 0; r < ROWS; r++) {
                    const uint8_t *want = out + (size_t)r * STRIDE * b;
                    for (size_t at = (size_t)n * b; at < STRIDE * b; at++)
                        assert_int_equal(want[at], 0xa5);
                    np_rows_args lone = {one + b, one + b, 1, n, 0, 0, w, all.bias, 1e-5f};
                    memcpy(one + b, x + (size_t)r * STRIDE * b, (size_t)n * b);
                    fn(&lone); /* in place, shifted */
                    assert_memory_equal(one + b, want, (size_t)n * b);
                }
            }
        }
    }
    free(x), free(out), free(one), free(w);
}

static void test_softmax_of_infinities(void **state)
{
    (void)state;
    EACH_ISA(k)
    {
        for (int i = 0; i < 3; i++) {
            neap_dtype t = float_types[i];
            uint8_t x[1025 * 4], out[1025 * 4];
            for (int64_t n = 1; n <= 1025; n += n < 140 ? 1 : 111) { /* D3: zeros at every length */
                for (int64_t j = 0; j < n; j++)
                    put(*k, t, x, j, -INFINITY);
                np_rows_args args = {out, x, 1, n, n, n, NULL, NULL, 0};
                memset(out, 0xa5, sizeof out);
                (*k)->row->softmax[t](&args);
                for (int64_t j = 0; j < n; j++)
                    assert_true(element(t, out, j) == 0);
                put(*k, t, x, n / 2, 3.0f); /* one finite entry takes all */
                (*k)->row->softmax[t](&args);
                for (int64_t j = 0; j < n; j++)
                    assert_true(element(t, out, j) == (j == n / 2));
                put(*k, t, x, n / 2, INFINITY);
                (*k)->row->softmax[t](&args);
                assert_true(isnan(element(t, out, n / 2)));
            }
        }
    }
}

/* D2: 10000 values alternating 1e6, 1e6 + 20: mean 1000010, variance 100, so the outcome is -+1. */
static void test_layer_norm_of_offset_data(void **state)
{
    (void)state;
    enum { N = 10000 };
    float *x = space(N * sizeof *x), *out = space(N * sizeof *out);
    for (int i = 0; i < N; i++)
        x[i] = i % 2 ? 1000020.0f : 1000000.0f;
    EACH_ISA(k)
    {
        np_rows_args args = {out, x, 1, N, N, N, NULL, NULL, 0};
        (*k)->row->layer_norm[NEAP_F32](&args);
        for (int i = 0; i < N; i++) /* 10 / sqrt(100), within half of 1e-3 */
            assert_true(fabsf(out[i] - (i % 2 ? 1.0f : -1.0f)) < 5e-4f);
        float mean;
        np_reduce_args sum = {&mean, x, 1, N, 1, 0, 1, 0};
        (*k)->row->mean[NEAP_F32](&sum);
        assert_true(fabsf(mean - 1000010.0f) <= 0.0625f); /* one unit of a float there */
    }
    free(x), free(out);
}

/* ---- rope ------------------------------------------------------------------------------ */

enum { HEADS = 3, DIM = 64, POSITIONS = 6 };
static const int32_t positions[POSITIONS] = {0, 1, 6, 511, 4095, 100000};

/* Per coordinate: sums of two products of values to 4, each with a sine right to 2^-23. */
static void check_rope(const np_kernels *k, const char *op, neap_dtype t, const void *out)
{
    golden want = golden_find(op, t);
    for (uint32_t i = 0; i < want.count; i++) {
        long double got = element(t, out, i), right = element(t, want.data, i);
        double units = t == NEAP_F32 ? 2 : 1;
        if (units_off(t, got, right) > units && fabsl(got - right) > 8 * 0x1p-24L * 4)
            fail_msg("%s %s.%s at %u: %La, NumPy has %La", k->isa, op, text(t), i, got, right);
    }
}

static void test_rope_against_numpy(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int rotary;
        bool interleaved, freqs;
        float base, scale;
    } cases[] = {{"rope_half", 64, false, false, 1e4f, 1},
                 {"rope_pairs", 64, true, false, 1e4f, 1},
                 {"rope_part", 20, false, false, 5e5f, 0.25f},
                 {"rope_freqs", 38, true, true, 1e4f, 1}};
    size_t bytes, small;
    float *freqs = table_copy("freqs", NEAP_F32, &small);
    EACH_ISA(k)
    {
        for (int i = 0; i < 12; i++) {
            neap_dtype t = float_types[i % 3];
            void *x = table_copy("turn", t, &bytes), *out = space(bytes);
            np_rope_args args = {out,
                                 x,
                                 1,
                                 HEADS,
                                 POSITIONS,
                                 DIM,
                                 {0, DIM, HEADS * DIM},
                                 {0, DIM, HEADS * DIM},
                                 cases[i / 3].rotary,
                                 cases[i / 3].interleaved,
                                 0,
                                 positions,
                                 0,
                                 cases[i / 3].base,
                                 cases[i / 3].scale,
                                 cases[i / 3].freqs ? freqs : NULL};
            (*k)->row->rope[t](&args);
            check_rope(*k, cases[i / 3].name, t, out);
            uint8_t *apart = space(bytes); /* a position alone, by offset, and in place */
            memcpy(apart, x, bytes);
            for (int p = 0; p < POSITIONS; p++) {
                np_rope_args lone = args;
                lone.x = lone.out = apart + (size_t)p * HEADS * DIM * size_of(t);
                lone.positions = 1, lone.at = NULL, lone.offset = positions[p];
                (*k)->row->rope[t](&lone);
            }
            assert_memory_equal(apart, out, bytes);
            free(apart), free(x), free(out);
        }
    }
    free(freqs);
}

/* D9: two batch rows, one position. And positions of each batch row's own. */
static void test_rope_of_batches(void **state)
{
    (void)state;
    static const float want[4] = {1.2395858f, .9382365f, .6807548f, 1.0581645f}; /* NumPy */
    const int32_t at[2] = {6, 6}, own[2] = {0, 6};
    EACH_ISA(k)
    {
        float x[8], out[8];
        for (int i = 0; i < 8; i++)
            x[i] = 1.0f;
        np_rope_args args = {out, x,     2, 1,    1, 4,    {4, 4, 4}, {4, 4, 4},
                             4,   false, 6, NULL, 0, 1e4f, 1,         NULL};
        for (int form = 0; form < 4; form++) {
            args.at = form == 1 ? at : form == 2 ? at : form == 3 ? own : NULL;
            args.at_batch_stride = form >= 2;
            memset(out, 0, sizeof out);
            (*k)->row->rope[NEAP_F32](&args);
            for (int i = 0; i < 8; i++) /* to the 8 digits given */
                assert_true(fabsf(out[i] - (form == 3 && i < 4 ? 1.0f : want[i % 4])) < 2e-7f);
        }
        args.out = x, args.at = NULL; /* in place */
        (*k)->row->rope[NEAP_F32](&args);
        for (int i = 0; i < 8; i++)
            assert_true(fabsf(x[i] - want[i % 4]) < 2e-7f);
    }
}

/* More pairs than one table holds, and none: chunks join without a seam; the rest is copied. */
static void test_rope_widths(void **state)
{
    (void)state;
    enum { WIDE = 600 };
    float x[WIDE], out[WIDE + 1];
    EACH_ISA(k)
    {
        fill_noise(*k, NEAP_F32, x, WIDE, 8);
        for (int64_t rotary = 0; rotary <= WIDE; rotary += rotary < 40 ? 2 : 70) {
            for (int interleaved = 0; interleaved < 2; interleaved++) {
                np_rope_args args = {out,    x,           1,   1,    1, WIDE, {0}, {0},
                                     rotary, interleaved, 777, NULL, 0, 1e4f, 1,   NULL};
                out[WIDE] = 5.0f;
                (*k)->row->rope[NEAP_F32](&args);
                assert_true(out[WIDE] == 5.0f);
                for (int64_t i = 0; i < rotary / 2; i++) {
                    int64_t a = interleaved ? 2 * i : i,
                            b = interleaved ? 2 * i + 1 : i + rotary / 2;
                    double angle = 777 * pow(1e4, -2.0 * (double)i / (double)rotary);
                    /* two products of values to 4 with sines right to 2^-23 */
                    assert_true(fabs(out[a] - (x[a] * cos(angle) - x[b] * sin(angle))) < 2e-6);
                    assert_true(fabs(out[b] - (x[b] * cos(angle) + x[a] * sin(angle))) < 2e-6);
                }
                assert_memory_equal(out + rotary, x + rotary, (size_t)(WIDE - rotary) * 4);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_there),
        cmocka_unit_test(test_reductions_in_every_layout),
        cmocka_unit_test(test_nan_and_ties),
        cmocka_unit_test(test_long_sums_of_half_floats),
        cmocka_unit_test(test_ten_million),
        cmocka_unit_test(test_more_than_two_to_the_31),
        cmocka_unit_test(test_nothing_to_sum),
        cmocka_unit_test(test_rows_against_numpy),
        cmocka_unit_test(test_a_row_depends_on_itself),
        cmocka_unit_test(test_softmax_of_infinities),
        cmocka_unit_test(test_layer_norm_of_offset_data),
        cmocka_unit_test(test_rope_against_numpy),
        cmocka_unit_test(test_rope_of_batches),
        cmocka_unit_test(test_rope_widths),
    };
    return cmocka_run_group_tests_name("row_kernels", tests, golden_open, golden_close);
}
