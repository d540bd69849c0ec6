/* test_span_kernels.c - every row of elementwise.def, where and cast, for each dtype and
 * instruction set: values from NumPy's tables or exact arithmetic, and bits that depend neither on
 * place, length, alignment, broadcast form nor on working in place. */
#include "kernel_fixture.h"

#include "cpu/vec_math.h"

enum row_kind { UNARY, BINARY, COMPARE };

typedef struct row {
    const char *name;
    enum row_kind kind;
    const char *class_;
    size_t offset;
} row;

static const row table[] = {
#define NP_UNARY(name, class) {#name, UNARY, #class, offsetof(np_span_kernels, name)},
#define NP_BINARY(name, class) {#name, BINARY, #class, offsetof(np_span_kernels, name)},
#define NP_COMPARE(name, class) {#name, COMPARE, #class, offsetof(np_span_kernels, name)},
#include "cpu/elementwise.def"
#undef NP_UNARY
#undef NP_BINARY
#undef NP_COMPARE
};
enum { ROWS = sizeof table / sizeof *table };

static const neap_dtype types[] = {NEAP_BOOL, NEAP_U8,  NEAP_I8,  NEAP_I16,  NEAP_I32,
                                   NEAP_U32,  NEAP_I64, NEAP_F16, NEAP_BF16, NEAP_F32};
enum { TYPES = sizeof types / sizeof *types };

static bool is_float(neap_dtype t) { return neap_dtype_describe(t)->class_ == NEAP_CLASS_FLOAT; }

static bool belongs(const row *r, neap_dtype t)
{
    if (strcmp(r->class_, "FLOAT") == 0 || strcmp(r->class_, "FRACTION") == 0)
        return is_float(t);
    if (strcmp(r->class_, "INTEGER") == 0 || strcmp(r->class_, "WHOLE") == 0)
        return !is_float(t) && (t != NEAP_BOOL || r->class_[0] == 'I');
    if (strcmp(r->class_, "NUMBER") == 0)
        return t != NEAP_BOOL;
    return strcmp(r->class_, "ALL") == 0 || t == NEAP_BOOL;
}

/* Runs a row's kernel, or says that there is none. */
static bool run(const np_kernels *k, const row *r, neap_dtype t, void *out, const void *a,
                const void *b, int64_t n, int sa, int sb)
{
    const char *at = (const char *)k->span + r->offset + (size_t)t * sizeof(np_unary_fn);
    np_unary_fn unary;
    np_binary_fn binary;
    memcpy(&unary, at, sizeof unary);
    memcpy(&binary, at, sizeof binary);
    if (!unary)
        return false;
    if (r->kind == UNARY)
        unary(out, a, n);
    else
        binary(out, a, b, n, sa, sb);
    return true;
}

static size_t out_size(const row *r, neap_dtype t) { return r->kind == COMPARE ? 1 : size_of(t); }

static void test_every_row_is_there(void **state)
{
    (void)state;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        for (int i = 0; i < ROWS; i++) {
            for (int t = 0; t < NEAP_DTYPE_SPAN; t++) {
                const neap_dtype_info *info = neap_dtype_describe((neap_dtype)t);
                bool want = info->name && info->class_ != NEAP_CLASS_QUANT &&
                            belongs(&table[i], (neap_dtype)t);
                uint8_t out[64], x[64] = {0};
                if (run(*k, &table[i], (neap_dtype)t, out, x, x, 0, 1, 1) != want)
                    fail_msg("%s: %s %d", (*k)->isa, table[i].name, t);
            }
        }
        for (int i = 0; i < TYPES; i++)
            for (int j = 0; j < TYPES; j++)
                assert_non_null((*k)->span->cast[types[i]][types[j]]);
        for (int bytes = 0; bytes < 9; bytes++)
            assert_int_equal((*k)->span->where[bytes] != NULL, bytes && (bytes & (bytes - 1)) == 0);
        printf("%s\n", (*k)->isa);
    }
}

/* Units of the last place of f32. Exact ops: 0. One rounding more than the exact result: 2. The
 * others: polynomial and roundings, found by a sweep of 2 million values against libm and a margin.
 * remainder: f32 is exact but for the one addition, 16-bit types round twice.
 * gelu_tanh: its argument, up to 90, is itself rounded two or three times, and exp turns that into
 * 90 times as much; without fma gelu's square loses the same way. */
static double tolerance(const char *name, const char *isa)
{
    bool base = strcmp(isa, "base") == 0;
    const struct {
        const char *name;
        double units;
    } rows[] = {{"exp", 1.5},
                {"log", 1.5},
                {"rsqrt", 2},
                {"tanh", 2},
                {"erf", 3},
                {"sigmoid", 3},
                {"silu", 4},
                {"gelu", base ? 90 : 9},
                {"gelu_tanh", base ? 260 : 180},
                {"expm1", 2},
                {"log1p", 2},
                {"log2", 2.5},
                {"log10", 2.5},
                {"sin", 2},
                {"cos", 2},
                {"tan", 4},
                {"arcsin", 3},
                {"arccos", 2},
                {"arctan", 2},
                {"sinh", 2},
                {"cosh", 2},
                {"arcsinh", 2},
                {"arccosh", 2.5},
                {"arctanh", 2},
                {"arctan2", 2},
                {"logaddexp", 3},
                {"remainder", 0.5},
                {"pow", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(name, rows[i].name) == 0)
            return rows[i].units;
    return 0;
}

/* x e^-|u|: where the exponential is denormal, its last place is 2^-149, times |x|. */
static long double denormal_loss(const char *name, long double x)
{
    bool product = strcmp(name, "silu") == 0 || strncmp(name, "gelu", 4) == 0;
    return product && x < 0 && x > -200 ? -x * 0x1p-149L : 0;
}

/* Where operands of opposite signs meet, a result near 0 keeps the last place of the larger. */
static long double cancelled(const char *name, long double u, long double v)
{
    long double most = fmaxl(fabsl(u), fabsl(v));
    return strcmp(name, "logaddexp") == 0 && isfinite(most) ? most * 0x1p-23L : 0;
}

static void check_golden(const np_kernels *k, const row *r, neap_dtype t)
{
    golden x = golden_find(r->kind == UNARY ? "x" : "a", t), want = golden_find(r->name, t);
    golden b = golden_find("b", t);
    size_t bytes = size_of(t);
    assert_int_equal(x.count, want.count);
    uint8_t *out = malloc(x.count * bytes), *u = malloc(x.count * bytes),
            *v = malloc(x.count * bytes);
    memcpy(u, x.data, x.count * bytes);
    memcpy(v, r->kind == UNARY ? x.data : b.data, x.count * bytes);
    assert_true(run(k, r, t, out, u, v, x.count, 1, 1));
    /* 16-bit results: within one unit where f32 is inexact, as a tie may fall to either side */
    double limit = tolerance(r->name, k->isa);
    limit = t == NEAP_F32 ? limit : limit > 0 ? 1 : 0;
    neap_dtype to = r->kind == COMPARE ? NEAP_BOOL : t;
    for (uint32_t i = 0; i < x.count; i++) {
        long double got = element(to, out, i), right = element(to, want.data, i);
        double off = to == NEAP_BOOL ? (got != right) : units_off(t, got, right);
        bool sign = got == 0 && right == 0 && signbit(got) != signbit(right) &&
                    (r->kind == UNARY && strcmp(r->name, "relu") != 0);
        long double loss = denormal_loss(r->name, element(t, u, i)) +
                           cancelled(r->name, element(t, u, i), element(t, v, i));
        if ((off > limit && !(fabsl(got - right) <= loss)) || sign)
            fail_msg("%s %s.%s(%Lg, %Lg) = %La, NumPy has %La: %g units", k->isa, r->name,
                     neap_dtype_describe(t)->name, element(t, u, i), element(t, v, i), got, right,
                     off);
    }
    free(out), free(u), free(v);
}

static void test_floats_against_numpy(void **state)
{
    (void)state;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int i = 0; i < ROWS; i++)
            for (int t = 0; t < 3; t++)
                if (belongs(&table[i], float_types[t]))
                    check_golden(*k, &table[i], float_types[t]);
}

/* ---- accuracy over the whole range of f32 ---------------------------------------------- */

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double silu(double x) { return x * sigmoid(x); }
static double gelu(double x) { return x / 2 * erfc(-x / sqrt(2.0)); }
static double gelu_tanh(double x)
{
    return x * sigmoid(2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x));
}

/* Every 20011th bit pattern of f32 (NaN aside), and as many in -16..16. */
static void test_accuracy_over_the_range(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double (*right)(double);
    } cases[] = {{"exp", exp},   {"log", log},   {"tanh", tanh},          {"erf", erf},
                 {"sigmoid", sigmoid},
                 {"silu", silu}, {"gelu", gelu}, {"gelu_tanh", gelu_tanh},
                {"expm1", expm1}, {"log1p", log1p}, {"log2", log2}, {"log10", log10},
                {"sin", sin}, {"cos", cos}, {"tan", tan}, {"arcsin", asin}, {"arccos", acos},
                {"arctan", atan}, {"sinh", sinh}, {"cosh", cosh}, {"arcsinh", asinh},
                {"arccosh", acosh}, {"arctanh", atanh}};
    enum { N = 0xff000000u / 20011 * 2 };
    float *x = malloc(N * sizeof *x), *out = malloc(N * sizeof *out);
    int64_t n = 0;
    for (uint64_t u = 0; u < 0x100000000u && n < N / 2; u += 20011) {
        uint32_t bits = (uint32_t)u;
        float f;
        memcpy(&f, &bits, 4);
        if (isfinite(f))
            x[n++] = f;
    }
    for (; n < N; n++)
        x[n] = ldexpf((float)noise((uint64_t)n), -27) - 16.0f;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            for (int i = 0; i < ROWS; i++)
                if (strcmp(table[i].name, cases[c].name) == 0)
                    run(*k, &table[i], NEAP_F32, out, x, x, n, 1, 1);
            double worst = 0, at = 0;
            for (int64_t i = 0; i < n; i++) {
                double off = units_off(NEAP_F32, out[i], cases[c].right(x[i]));
                long double far = fabsl((long double)out[i] - (long double)cases[c].right(x[i]));
                if (off > worst && !(far <= denormal_loss(cases[c].name, x[i])))
                    worst = off, at = x[i];
            }
            if (worst > tolerance(cases[c].name, (*k)->isa))
                fail_msg("%s %s: %g units at %a", (*k)->isa, cases[c].name, worst, at);
        }
    }
    free(x), free(out);
}

/* ---- integers and bool ----------------------------------------------------------------- */

static int64_t wrap(neap_dtype t, uint64_t v)
{
    switch (t) {
    case NEAP_BOOL: return v != 0;
    case NEAP_U8: return (uint8_t)v;
    case NEAP_I8: return (int8_t)v;
    case NEAP_I16: return (int16_t)v;
    case NEAP_I32: return (int32_t)v;
    case NEAP_U32: return (uint32_t)v;
    default: return (int64_t)v;
    }
}

#define IS(name) (strcmp(op, name) == 0)

static int64_t bits_or_division(const char *op, neap_dtype t, int64_t a, int64_t b)
{
    uint64_t u = (uint64_t)a, v = (uint64_t)b;
    if (IS("sign"))
        return (a > 0) - (a < 0);
    if (IS("bitwise_invert"))
        return t == NEAP_BOOL ? !a : wrap(t, ~u);
    if (IS("bitwise_and"))
        return a & b;
    if (IS("bitwise_or"))
        return a | b;
    if (IS("bitwise_xor"))
        return a ^ b;
    if (IS("left_shift"))
        return v < 8 * size_of(t) ? wrap(t, u << v) : 0;
    if (IS("right_shift"))
        return v < 8 * size_of(t) ? a >> b : a < 0 ? -1 : 0;
    if (IS("floor_divide"))
        return b == 0 ? 0 : b == -1 ? wrap(t, 0 - u) : a / b - (a % b != 0 && (a < 0) != (b < 0));
    if (IS("remainder")) {
        int64_t m = b == 0 || b == -1 ? 0 : a % b;
        return m && (m < 0) != (b < 0) ? m + b : m;
    }
    if (IS("pow")) {
        uint64_t r = b < 0 ? 0 : 1;
        for (int bit = 62; bit >= 0 && b >= 0; bit--) /* from the top; the kernel from below */
            r = r * r * (v >> bit & 1 ? u : 1);
        return wrap(t, r);
    }
    fail_msg("no reference for %s", op);
    return 0;
}

static int64_t integer_result(const char *op, neap_dtype t, int64_t a, int64_t b)
{
    uint64_t u = (uint64_t)a, v = (uint64_t)b;
    bool truth = t == NEAP_BOOL;
    if (IS("neg"))
        return wrap(t, 0 - u);
    if (IS("abs"))
        return wrap(t, a < 0 ? 0 - u : u);
    if (IS("square"))
        return wrap(t, u * u);
    if (IS("relu"))
        return a < 0 ? 0 : a;
    if (IS("logical_not"))
        return !a;
    if (IS("logical_and"))
        return a && b;
    if (IS("logical_or"))
        return a || b;
    if (IS("add"))
        return truth ? a || b : wrap(t, u + v);
    if (IS("sub"))
        return wrap(t, u - v);
    if (IS("mul"))
        return truth ? a && b : wrap(t, u * v);
    if (IS("maximum"))
        return a > b ? a : b;
    if (IS("minimum"))
        return a < b ? a : b;
    if (IS("equal"))
        return a == b;
    if (IS("not_equal"))
        return a != b;
    if (IS("less"))
        return a < b;
    if (IS("less_equal"))
        return a <= b;
    if (IS("greater"))
        return a > b;
    if (IS("greater_equal"))
        return a >= b;
    return bits_or_division(op, t, a, b);
}

#undef IS

/* Edges in the first places, then noise. */
static void fill_integers(neap_dtype t, uint8_t *p, int64_t n, uint64_t seed)
{
    const uint64_t edges[] = {0,      1,           UINT64_MAX, 0x80,       0x7f,      0x8000,
                              0x7fff, 0x80000000u, 0x7fffffff, 1ull << 63, INT64_MAX, 2};
    for (int64_t i = 0; i < n; i++) {
        uint64_t j = (uint64_t)i * (seed + 1);
        uint64_t v = i < 144 ? edges[seed ? i % 12 : i / 12]
                             : (uint64_t)noise(j) << 32 | noise(j + seed + 7);
        v = t == NEAP_BOOL ? v & 1 : v;
        memcpy(p + (size_t)i * size_of(t), &v, size_of(t));
    }
}

static void test_integers(void **state)
{
    (void)state;
    enum { N = 333 };
    static uint8_t a[N * 8], b[N * 8], out[N * 8];
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        for (int j = 0; j < TYPES && !is_float(types[j]); j++) {
            neap_dtype t = types[j];
            fill_integers(t, a, N, 0);
            fill_integers(t, b, N, 1);
            for (int r = 0; r < ROWS; r++) {
                if (!belongs(&table[r], t))
                    continue;
                assert_true(run(*k, &table[r], t, out, a, b, N, 1, 1));
                for (int64_t i = 0; i < N; i++) {
                    int64_t u = (int64_t)element(t, a, i), v = (int64_t)element(t, b, i);
                    int64_t want = integer_result(table[r].name, t, u, v);
                    int64_t got =
                        (int64_t)element(table[r].kind == COMPARE ? NEAP_BOOL : t, out, i);
                    if (got != want)
                        fail_msg("%s %s.%s(%lld, %lld) = %lld, not %lld", (*k)->isa, table[r].name,
                                 neap_dtype_describe(t)->name, (long long)u, (long long)v,
                                 (long long)got, (long long)want);
                }
            }
        }
    }
}

/* ---- place, length, broadcast, in place ------------------------------------------------ */

enum { LONGEST = 100, MARGIN = 96 };
static const int64_t lengths[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,  15, 16,
                                  17, 31, 32, 33, 47, 63, 64, 65, 99, 100};

static void fill(neap_dtype t, uint8_t *p, int64_t n, uint64_t seed)
{
    if (!is_float(t)) {
        fill_integers(t, p, n, seed);
        return;
    }
    golden x = golden_find(seed ? "b" : "a", t);
    for (int64_t i = 0; i < n; i++) /* 37 walks through specials and ordinary values alike */
        memcpy(p + (size_t)i * x.bytes,
               (const uint8_t *)x.data + (size_t)(i * 37 % x.count) * x.bytes, x.bytes);
}

/* Runs into a guarded buffer, `first` elements on, and compares with `want`. */
static void check_run(const np_kernels *k, const row *r, neap_dtype t, const uint8_t *a,
                      const uint8_t *b, int64_t first, int64_t n, int sa, int sb,
                      const uint8_t *want)
{
    static uint8_t space[MARGIN + 8 * (LONGEST + 8) + MARGIN];
    size_t bytes = out_size(r, t), total = (size_t)n * bytes;
    for (int64_t shift = 0; shift < 3; shift++) {
        uint8_t *out = space + MARGIN + (size_t)shift * bytes;
        memset(space, 0xa5, sizeof space);
        run(k, r, t, out, a, b, n, sa, sb);
        if (total && memcmp(out, want, total) != 0)
            fail_msg("%s %s.%s: %lld elements from %lld, flags %d %d, differ", k->isa, r->name,
                     neap_dtype_describe(t)->name, (long long)n, (long long)first, sa, sb);
        for (uint8_t *p = space; p < space + sizeof space; p++)
            if ((p < out || p >= out + total) && *p != 0xa5)
                fail_msg("%s %s: wrote outside", k->isa, r->name);
    }
}

static void check_places(const np_kernels *k, const row *r, neap_dtype t)
{
    static uint8_t a[8 * LONGEST], b[8 * LONGEST], spread[8 * LONGEST], whole[8 * LONGEST],
        one[8 * LONGEST];
    size_t bytes = size_of(t), to = out_size(r, t);
    fill(t, a, LONGEST, 0);
    fill(t, b, LONGEST, 1);
    run(k, r, t, whole, a, b, LONGEST, 1, 1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int64_t first = 0; first < 18 && first + lengths[i] <= LONGEST; first++)
            check_run(k, r, t, a + (size_t)first * bytes, b + (size_t)first * bytes, first,
                      lengths[i], 1, 1, whole + (size_t)first * to);
    for (int64_t at = 0; r->kind != UNARY && at < 12; at++) { /* one element against many */
        for (int64_t i = 0; i < LONGEST; i++)
            memcpy(spread + (size_t)i * bytes, a + (size_t)at * bytes, bytes);
        run(k, r, t, one, spread, b, LONGEST, 1, 1);
        check_run(k, r, t, a + (size_t)at * bytes, b, 0, 77, 0, 1, one);
        check_run(k, r, t, a + (size_t)at * bytes, b, 0, 5, 0, 1, one);
        run(k, r, t, one, b, spread, LONGEST, 1, 1);
        check_run(k, r, t, b, a + (size_t)at * bytes, 0, 77, 1, 0, one);
        run(k, r, t, one, spread, spread, LONGEST, 1, 1);
        check_run(k, r, t, a + (size_t)at * bytes, spread, 0, 41, 0, 0, one);
    }
    for (int64_t n = 93; to == bytes && n <= LONGEST; n += 7) { /* in place of either operand */
        memcpy(one, a, sizeof a);
        run(k, r, t, one, one, b, n, 1, 1);
        assert_memory_equal(one, whole, (size_t)n * to);
        memcpy(one, b, sizeof b);
        if (r->kind == BINARY) {
            run(k, r, t, one, a, one, n, 1, 1);
            assert_memory_equal(one, whole, (size_t)n * to);
        }
    }
}

static void test_bits_do_not_depend_on_the_place(void **state)
{
    (void)state;
    for (const np_kernels *const *k = np_kernels_available(); *k; k++)
        for (int r = 0; r < ROWS; r++)
            for (int t = 0; t < TYPES; t++)
                if (belongs(&table[r], types[t]))
                    check_places(*k, &table[r], types[t]);
}

/* ---- where ----------------------------------------------------------------------------- */

static void test_where(void **state)
{
    (void)state;
    uint8_t c[LONGEST], a[8 * LONGEST], b[8 * LONGEST], out[8 * LONGEST + 1];
    for (int i = 0; i < LONGEST; i++)
        c[i] = noise((uint64_t)i) & 1;
    fill_integers(NEAP_I64, a, LONGEST, 0);
    fill_integers(NEAP_I64, b, LONGEST, 5);
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
            for (int flags = 0; flags < 8; flags++) {
                int sc = flags & 1, sa = flags >> 1 & 1, sb = flags >> 2;
                for (int at = 0; at < 3; at++) {
                    int64_t n = 97 - at;
                    (*k)->span->where[bytes](out, c + at, a, b + bytes, n, sc, sa, sb);
                    for (int64_t i = 0; i < n; i++) {
                        const uint8_t *want = c[at + (sc ? i : 0)]
                                                  ? a + (sa ? (size_t)i * bytes : 0)
                                                  : b + bytes * (sb ? (size_t)i + 1 : 1);
                        assert_memory_equal(out + (size_t)i * bytes, want, bytes);
                    }
                }
            }
            memcpy(out, b, sizeof b); /* in place */
            (*k)->span->where[bytes](out, c, a, out, LONGEST, 1, 1, 1);
            for (size_t i = 0; i < LONGEST; i++)
                assert_memory_equal(out + i * bytes, (c[i] ? a : b) + i * bytes, bytes);
        }
    }
}

/* ---- cast ------------------------------------------------------------------------------ */

/* By definition: truncate, saturate, NaN to 0; wrap; != 0; or round once. */
static long double cast_result(neap_dtype from, neap_dtype to, long double v)
{
    if (to == NEAP_BOOL)
        return v != 0;
    if (is_float(to))
        return rounded(to, v);
    if (!is_float(from))
        return (long double)wrap(to, (uint64_t)(int64_t)v);
    int bits = 8 * (int)size_of(to);
    bool is_signed = neap_dtype_describe(to)->class_ == NEAP_CLASS_INT;
    long double low = is_signed ? -ldexpl(1, bits - 1) : 0, high = ldexpl(1, bits - is_signed) - 1;
    v = isnan(v) ? 0 : truncl(v);
    return v < low ? low : v > high ? high : v;
}

static void fill_cast(neap_dtype t, uint8_t *p, int64_t n)
{
    static const float edges[] = {
        0.0f,          -0.0f,          NAN,           INFINITY,       -INFINITY,      0.9f,
        -0.9f,         1.5f,           127.9f,        128.0f,         -128.9f,        -129.0f,
        255.5f,        256.0f,         32767.5f,      32768.0f,       -32769.0f,      65519.0f,
        65520.0f,      2147483520.0f,  2147483648.0f, -2147483648.0f, -2147483904.0f, 4294967040.0f,
        4294967296.0f, 0x1.fffffep62f, 0x1p63f,       -0x1p63f,       1e20f,          3e38f,
        1e-8f,         3e-8f,          6e-8f,         1e-40f,         2049.0f,        2051.0f,
        0x1.008p0f,    0x1.018p0f};
    enum { EDGES = sizeof edges / sizeof *edges };
    if (!is_float(t)) {
        fill_integers(t, p, n, 0);
        for (int64_t i = 0; t == NEAP_I64 && i < 64; i++) { /* close to ties of bf16 and f32 */
            int64_t v = ((int64_t)0x181 << (i % 50)) + (i & 1 ? 1 : -1);
            memcpy(p + 8 * (n - 1 - i), &v, 8);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float f =
            i < EDGES ? edges[i] : ldexpf((float)(int32_t)noise((uint64_t)i), (int)(i % 70) - 45);
        uint16_t h = (uint16_t)noise((uint64_t)i + 99); /* 16-bit types: any bits at all */
        uint32_t u;
        memcpy(&u, &f, 4);
        if (t == NEAP_BF16 && i < EDGES)
            h = (uint16_t)(u >> 16);
        memcpy(p + (size_t)i * size_of(t), t == NEAP_F32 ? (const void *)&f : &h, size_of(t));
    }
}

static void test_casts(void **state)
{
    (void)state;
    enum { N = 3000 };
    static uint8_t x[8 * N], out[8 * N + 8];
    for (const np_kernels *const *k = np_kernels_available(); *k; k++) {
        for (int f = 0; f < TYPES; f++) {
            for (int t = 0; t < TYPES; t++) {
                neap_dtype from = types[f], to = types[t];
                fill_cast(from, x, N);
                for (int64_t n = N; n > 1; n = n > 40 ? 37 : n / 2) {
                    memset(out, 0xa5, sizeof out);
                    (*k)->span->cast[from][to](out, x, n);
                    assert_int_equal(out[(size_t)n * size_of(to)], 0xa5);
                    for (int64_t i = 0; i < n; i++) {
                        long double v = element(from, x, i), got = element(to, out, i);
                        long double want = cast_result(from, to, v);
                        bool sign = is_float(to) && signbit(got) != signbit(want);
                        if ((got != want || sign) && !(isnan(got) && isnan(want)))
                            fail_msg("%s cast %s -> %s: %La gives %La, not %La", (*k)->isa,
                                     neap_dtype_describe(from)->name, neap_dtype_describe(to)->name,
                                     v, got, want);
                    }
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_there),
        cmocka_unit_test(test_floats_against_numpy),
        cmocka_unit_test(test_accuracy_over_the_range),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_bits_do_not_depend_on_the_place),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_casts),
    };
    return cmocka_run_group_tests_name("span_kernels", tests, golden_open, golden_close);
}
