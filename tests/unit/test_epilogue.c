/* test_epilogue.c - large products whose results go through bias, activation and residual as they are made:
 * one step, the bits of one op after the other on every instruction set and number of threads, values
 * near those of sums in double, nothing planned that is not measured. What must stay apart does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <neap/neap.h>

enum { MOST = 700000, MOST_WEIGHTS = 2300000 };

/* ---- what is multiplied, added and chosen ------------------------------------------------------- */

/* a [.., M, K]; b [.., K, N] or, shared, [K, N] or, transposed, [N, K]. */
typedef struct problem {
    int64_t batch, m, k, n; /* batch 0: matrices */
    neap_dtype dtype;
    bool shared, transposed;
} problem;

/* Each element is a multiple of 1/128 under 1: exact in every float type. */
static double element(int which, int64_t i)
{
    uint32_t h = ((uint32_t)i * 2654435761u) ^ ((uint32_t)which * 40503u << 16);
    h = (h ^ h >> 15) * 2246822519u;
    return ((int)(h >> 9 & 255) - 128) / 128.0;
}

static uint16_t half_of(double x)
{
    int e;
    const double f = frexp(fabs(x), &e); /* 1/2 <= f < 1 */
    return x == 0 ? 0 : (uint16_t)((x < 0) << 15 | (e + 14) << 10 | ((int)(f * 2048) & 1023));
}

static void put(neap_dtype t, void *p, int64_t i, double x)
{
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (t == NEAP_F32)
        ((float *)p)[i] = f;
    else
        ((uint16_t *)p)[i] = t == NEAP_BF16 ? (uint16_t)(u >> 16) : half_of(x);
}

static double get(neap_dtype t, const void *p, int64_t i)
{
    if (t == NEAP_F32)
        return ((const float *)p)[i];
    const uint16_t h = ((const uint16_t *)p)[i];
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    if (t == NEAP_BF16)
        return f;
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

enum { A, B, BIAS, RESIDUAL, COLUMN, MASK, KINDS };

/* An array over elements of that kind, made once a type. */
static neap_array *leaf(int which, neap_dtype t, int rank, const int64_t *shape)
{
    static void *made[KINDS][NEAP_DTYPE_SPAN];
    if (!made[which][t]) {
        const int64_t most = which == B ? MOST_WEIGHTS : MOST;
        made[which][t] = malloc((size_t)most * sizeof(float));
        assert_non_null(made[which][t]);
        for (int64_t i = 0; i < most; i++) {
            if (which == MASK)
                ((uint8_t *)made[which][t])[i] = element(which, i) > 0;
            else
                put(t, made[which][t], i, element(which, i));
        }
    }
    return neap_array_over(t, rank, shape, made[which][t], NULL, NULL);
}

typedef struct inputs {
    neap_array *a, *b, *bias, *residual, *column, *mask;
    const problem *p;
} inputs;

static inputs make_inputs(const problem *p)
{
    const int first = p->batch ? 0 : 1, rank = 3 - first;
    const int64_t a[3] = {p->batch, p->m, p->k}, c[3] = {p->batch, p->m, p->n},
                  column[3] = {p->batch, p->m, 1},
                  b[3] = {p->batch, p->transposed ? p->n : p->k, p->transposed ? p->k : p->n};
    const int b_first = p->shared || !p->batch;
    inputs in = {.p = p};
    in.a = leaf(A, p->dtype, rank, a + first);
    in.b = leaf(B, p->dtype, 3 - b_first, b + b_first);
    in.bias = leaf(BIAS, p->dtype, 1, &p->n);
    in.residual = leaf(RESIDUAL, p->dtype, rank, c + first);
    in.column = leaf(COLUMN, p->dtype, rank, column + first);
    in.mask = leaf(MASK, NEAP_BOOL, rank, c + first);
    if (p->transposed)
        in.b = neap_swap_axes(in.b, -1, -2);
    return in;
}

static neap_array *product(const inputs *in) { return neap_matmul(in->a, in->b); }

/* ---- epilogues ---------------------------------------------------------------------------------- */

/* What an element is made from, in double. */
typedef struct at_element {
    double x, bias, residual, column;
    bool mask;
} at_element;

typedef struct epilogue {
    const char *name;
    neap_array *(*build)(const inputs *in);
    double (*value)(const at_element *e);
    int ops;
} epilogue;

#define EPILOGUES(X)                                                                                    \
    X(biased_relu, neap_relu(neap_add(product(in), in->bias)), fmax(e->x + e->bias, 0), 3)              \
    X(gelu_addmm, neap_gelu(neap_addmm(in->bias, in->a, in->b, 1, 1)),                                  \
      (e->x + e->bias) / 2 * (1 + erf((e->x + e->bias) / sqrt(2))), 2)                                  \
    X(silu, neap_silu(product(in)), e->x / (1 + exp(-e->x)), 2)                                         \
    X(residual_after, neap_add(product(in), in->residual), e->x + e->residual, 2)                       \
    X(residual_before, neap_sub(in->residual, product(in)), e->residual - e->x, 2)                      \
    X(scaled, neap_mul(neap_add(product(in), in->residual), neap_scalar(in->p->dtype, 0.5)),            \
      (e->x + e->residual) / 2, 3)                                                                      \
    X(block, neap_relu(neap_add(neap_add(product(in), in->bias), in->residual)),                        \
      fmax(e->x + e->bias + e->residual, 0), 4)                                                         \
    X(by_row, neap_maximum(neap_sub(product(in), in->column), neap_scalar(in->p->dtype, -0.5)),         \
      fmax(e->x - e->column, -0.5), 3)                                                                  \
    X(chosen, neap_where(in->mask, product(in), in->residual), e->mask ? e->x : e->residual, 2)         \
    X(gated, neap_mul(in->residual, neap_silu(product(in))), e->residual * e->x / (1 + exp(-e->x)), 3)

#define DEFINE(name, graph, result, ops)                                                        \
    static neap_array *name##_build(const inputs *in) { return graph; }                         \
    static double name##_value(const at_element *e) { return result; }
EPILOGUES(DEFINE)
#define ROW(name, graph, result, ops) {#name, name##_build, name##_value, ops},
static const epilogue epilogues[] = {EPILOGUES(ROW)};
enum { N_EPILOGUES = sizeof epilogues / sizeof *epilogues };

static neap_array *square_build(const inputs *in)
{
    neap_array *x = product(in);
    return neap_mul(x, x);
}

/* ---- plans -------------------------------------------------------------------------------------- */

typedef struct planned {
    neap_context *ctx;
    neap_plan *plan;
    neap_plan_info info;
} planned;

static uint64_t held(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active + m.cached;
}

static planned run(neap_array *(*build)(const inputs *in), const problem *p, unsigned without, int threads)
{
    planned r = {.info = NEAP_PLAN_INFO_INIT};
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    neap_plan_options po = NEAP_PLAN_OPTIONS_INIT;
    co.threads = threads;
    po.without = without;
    assert_int_equal(neap_context_new(&co, &r.ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(r.ctx), NEAP_OK);
    const inputs in = make_inputs(p);
    neap_array *root = build(&in);
    if (!root)
        fail_msg("%s", neap_context_error(r.ctx));
    assert_int_equal(neap_context_plan_options(r.ctx, &po), NEAP_OK);
    assert_int_equal(neap_plan_make(r.ctx, 1, &root, 0, NULL, &r.plan), NEAP_OK);
    neap_scope_pop(r.ctx);
    neap_plan_describe(r.plan, &r.info);
    neap_context_trim(r.ctx);
    const uint64_t planned_bytes = held(r.ctx) + r.info.peak_bytes;
    assert_int_equal(neap_context_set_limit(r.ctx, planned_bytes), NEAP_OK);
    assert_int_equal(neap_plan_run(r.plan, NULL), NEAP_OK);
    assert_int_equal(held(r.ctx), planned_bytes);
    return r;
}

static void done(planned *r)
{
    neap_plan_free(r->plan);
    neap_context_free(r->ctx);
}

static const char *const sets[] = {"base", "avx2", "avx512"};

static bool use_set(const char *isa)
{
    neap_context *ctx;
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    co.threads = 1;
    setenv("NEAP_ISA", isa, 1);
    const neap_status status = neap_context_new(&co, &ctx);
    if (status == NEAP_OK)
        neap_context_free(ctx);
    return status == NEAP_OK;
}

/* On each set of instructions: fused by 1, 2 and 3 threads as unfused. The last fused one is returned. */
static planned same_bits(const char *name, neap_array *(*build)(const inputs *in), const problem *p,
                         int64_t steps)
{
    planned last = {.ctx = NULL};
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        if (!use_set(sets[s]))
            continue;
        planned apart = run(build, p, NEAP_PLAN_NO_FUSION, 2);
        const neap_array *want = neap_plan_output(apart.plan, 0);
        for (int threads = 1; threads <= 3; threads++) {
            if (last.ctx)
                done(&last);
            last = run(build, p, 0, threads);
            const neap_array *y = neap_plan_output(last.plan, 0);
            if (memcmp(neap_array_data(y), neap_array_data(want), neap_array_bytes(y)))
                fail_msg("%s, %s, %d threads: other bits", name, sets[s], threads);
            if (steps && last.info.steps != steps)
                fail_msg("%s, %s: %d steps", name, sets[s], (int)last.info.steps);
            assert_true(threads != 2 || last.info.peak_bytes <= apart.info.peak_bytes);
        }
        done(&apart);
    }
    unsetenv("NEAP_ISA");
    return last;
}

/* ---- values ------------------------------------------------------------------------------------- */

typedef struct sums {
    double *x, *size; /* of products, of their sizes */
} sums;

static sums multiply(const problem *p)
{
    const int64_t batch = p->batch ? p->batch : 1, n = batch * p->m * p->n;
    sums s = {malloc((size_t)n * sizeof *s.x), malloc((size_t)n * sizeof *s.size)};
    assert_true(s.x && s.size);
    for (int64_t g = 0; g < batch; g++)
        for (int64_t i = 0; i < p->m; i++) {
            double *x = s.x + (g * p->m + i) * p->n, *size = s.size + (g * p->m + i) * p->n;
            memset(x, 0, (size_t)p->n * sizeof *x);
            memset(size, 0, (size_t)p->n * sizeof *size);
            for (int64_t k = 0; k < p->k; k++) {
                const double a = element(A, (g * p->m + i) * p->k + k);
                const int64_t from = p->shared ? 0 : g * p->k * p->n;
                for (int64_t j = 0; j < p->n; j++) {
                    const double t = a * element(B, from + (p->transposed ? j * p->k + k : k * p->n + j));
                    x[j] += t;
                    size[j] += fabs(t);
                }
            }
        }
    return s;
}

/* A sum of k products in f32 errs by at most 2 k 2^-24 of their sizes, an op of 16 bits by 2^-11 or 2^-8
 * (of what it makes, and what came before grows by no more than a tenth: gelu, silu). */
static void check_values(const problem *p, const epilogue *e, const sums *s, const neap_array *y)
{
    const int64_t n = (p->batch ? p->batch : 1) * p->m * p->n;
    const double u = p->dtype == NEAP_F32 ? 0x1p-23 : p->dtype == NEAP_F16 ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < n; i++) {
        const at_element at = {.x = s->x[i], .bias = element(BIAS, i % p->n),
                               .residual = element(RESIDUAL, i), .column = element(COLUMN, i / p->n),
                               .mask = element(MASK, i) > 0};
        const double want = e->value(&at), got = get(p->dtype, neap_array_data(y), i);
        const double bound = 1.2 * (2 * (double)p->k * 0x1p-24 * s->size[i] +
                                    e->ops * u * (fabs(at.x) + 2)) + 1e-6;
        if (!(fabs(got - want) <= bound))
            fail_msg("%s [%d]: %.9g, expected %.9g", e->name, (int)i, got, want);
    }
}

static void check(problem p, int first, int last)
{
    const sums s = multiply(&p);
    for (int i = first; i < last; i++) {
        planned r = same_bits(epilogues[i].name, epilogues[i].build, &p, 1);
        check_values(&p, &epilogues[i], &s, neap_plan_output(r.plan, 0));
        assert_int_equal(r.info.fused_groups, 1);
        done(&r);
    }
    free(s.x);
    free(s.size);
}

/* ---- tests -------------------------------------------------------------------------------------- */

/* Several blocks of rows, columns and k for each lane, no multiple of a vector. */
static void test_every_epilogue(void **state)
{
    (void)state;
    check((problem){.m = 150, .k = 290, .n = 603, .dtype = NEAP_F32}, 0, N_EPILOGUES);
}

static void test_sixteen_bits(void **state)
{
    (void)state;
    check((problem){.m = 37, .k = 290, .n = 333, .dtype = NEAP_F16}, 0, N_EPILOGUES);
    check((problem){.m = 37, .k = 290, .n = 333, .dtype = NEAP_BF16}, 0, N_EPILOGUES);
    check((problem){.m = 530, .k = 300, .n = 231, .dtype = NEAP_BF16}, 6, 8); /* partial sums, rows cut */
}

static void test_shapes(void **state)
{
    (void)state;
    const neap_dtype types[] = {NEAP_F32, NEAP_BF16};
    for (int t = 0; t < 2; t++) {
        check((problem){.m = 1, .k = 130, .n = 1031, .dtype = types[t]}, 0, N_EPILOGUES);
        check((problem){.m = 1, .k = 1031, .n = 130, .dtype = types[t], .transposed = true}, 5, 8);
        check((problem){.m = 33, .k = 256, .n = 300, .dtype = types[t], .transposed = true}, 4, 8);
        check((problem){.batch = 3, .m = 17, .k = 256, .n = 301, .dtype = types[t], .shared = true}, 0,
              N_EPILOGUES);
        check((problem){.batch = 2, .m = 9, .k = 1100, .n = 1001, .dtype = types[t]}, 3, N_EPILOGUES);
        check((problem){.batch = 4, .m = 1, .k = 256, .n = 301, .dtype = types[t], .shared = true}, 5, 8);
        check((problem){.batch = 1, .m = 1, .k = 256, .n = 301, .dtype = types[t], .shared = true}, 5, 8);
        check((problem){.m = 1, .k = 0, .n = 9001, .dtype = types[t]}, 5, 8);
        check((problem){.m = 8, .k = 70000, .n = 1, .dtype = types[t]}, 3, 8);
    }
    const problem few[] = {{.m = 0, .k = 300, .n = 300, .dtype = NEAP_F32},
                           {.batch = 4, .m = 1, .k = 256, .n = 301, .dtype = NEAP_F32},
                           {.batch = 3, .m = 29, .k = 256, .n = 301, .dtype = NEAP_BF16}};
    for (int i = 0; i < 3; i++) {
        planned r = same_bits("few", epilogues[6].build, &few[i], 0);
        done(&r);
    }
}

static void test_square(void **state)
{
    (void)state;
    const problem p = {.m = 65, .k = 260, .n = 303, .dtype = NEAP_F32};
    const sums s = multiply(&p);
    planned r = same_bits("square", square_build, &p, 1);
    const float *y = neap_array_data(neap_plan_output(r.plan, 0));
    for (int64_t i = 0; i < p.m * p.n; i++) {
        const double error = 2 * 260 * 0x1p-24 * s.size[i];
        assert_float_equal(y[i], s.x[i] * s.x[i], (2 * fabs(s.x[i]) + error) * error + 1e-6);
    }
    done(&r);
    free(s.x);
    free(s.size);
}

/* Products flush what is subnormal; what follows them does not. */
static float tiny[70 * 303];

static neap_array *subnormal_build(const inputs *in)
{
    const int64_t shape[2] = {70, 303};
    neap_array *zero = neap_mul(product(in), neap_scalar(NEAP_F32, 0));
    return neap_add(neap_array_over(NEAP_F32, 2, shape, tiny, NULL, NULL), zero);
}

static void test_subnormals(void **state)
{
    (void)state;
    const problem p = {.m = 70, .k = 260, .n = 303, .dtype = NEAP_F32};
    for (int64_t i = 0; i < p.m * p.n; i++)
        tiny[i] = (float)(i + 1) * 1e-43f;
    planned r = same_bits("subnormal", subnormal_build, &p, 1);
    const float *y = neap_array_data(neap_plan_output(r.plan, 0));
    for (int64_t i = 0; i < p.m * p.n; i++)
        assert_true(y[i] == tiny[i] && y[i] != 0);
    done(&r);
}

/* ---- what stays apart, or goes another way ------------------------------------------------------ */

static neap_array *used_twice(const inputs *in)
{
    neap_array *x = product(in);
    return neap_add(neap_relu(x), neap_mul(x, in->residual));
}

static neap_array *through_cast(const inputs *in)
{
    return neap_add(neap_cast(neap_relu(product(in)), NEAP_BF16), neap_cast(in->residual, NEAP_BF16));
}

static neap_array *turned(const inputs *in) /* the residual's rows are columns */
{
    const int64_t shape[2] = {in->p->n, in->p->m};
    neap_array *r = leaf(RESIDUAL, in->p->dtype, 2, shape);
    return neap_relu(neap_add(product(in), neap_transpose(r, NULL)));
}

static neap_array *turned_itself(const inputs *in) /* square only */
{
    neap_array *x = product(in);
    return neap_add(x, neap_transpose(x, NULL));
}

static neap_array *of_another(const inputs *in) /* what is added is made from another product */
{
    neap_array *x = product(in), *y = neap_silu(product(&(inputs){.a = in->a, .b = neap_neg(in->b)}));
    return neap_mul(neap_silu(x), y);
}

static neap_array *reshaped(const inputs *in)
{
    const int64_t shape[3] = {in->p->m / 5, 5, in->p->n};
    return neap_relu(neap_add(neap_reshape(product(in), 3, shape), in->bias));
}

static neap_array *rows_between(const inputs *in) /* rows of the residual with others between */
{
    const int64_t shape[3] = {in->p->m, 2, in->p->n};
    neap_array *r = leaf(RESIDUAL, in->p->dtype, 3, shape), *half[2];
    neap_split(r, 2, 1, half);
    return neap_relu(neap_add(product(in), neap_squeeze(half[1], 1)));
}

static neap_array *joined(const inputs *in) /* each is made where the whole will be */
{
    neap_array *x = neap_relu(neap_add(product(in), in->bias));
    neap_array *y = neap_silu(neap_matmul(in->a, neap_neg(in->b)));
    return neap_concat(2, (neap_array *[]){x, y}, 0);
}

static neap_array *two_layers(const inputs *in) /* square only */
{
    neap_array *x = neap_relu(neap_add(product(in), in->bias));
    return neap_add(neap_gelu(neap_add(neap_matmul(x, in->b), in->bias)), in->residual);
}

static void test_others(void **state)
{
    (void)state;
    const problem p = {.m = 55, .k = 290, .n = 303, .dtype = NEAP_F32},
                  q = {.m = 280, .k = 280, .n = 280, .dtype = NEAP_F32};
    static const struct {
        const char *name;
        neap_array *(*build)(const inputs *in);
        bool square;
        int64_t steps; /* 0: whatever */
    } rows[] = {{"used twice", used_twice, false, 2},   {"through a cast", through_cast, false, 2},
                {"turned", turned, false, 0},           {"turned itself", turned_itself, true, 2},
                {"of another", of_another, false, 3},   {"reshaped", reshaped, false, 1},
                {"rows between", rows_between, false, 1}, {"joined", joined, false, 0},
                {"two layers", two_layers, true, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        planned r = same_bits(rows[i].name, rows[i].build, rows[i].square ? &q : &p, rows[i].steps);
        done(&r);
    }
}

/* A product that is a result itself keeps its own bytes. */
static void test_product_is_a_root(void **state)
{
    (void)state;
    const problem p = {.m = 55, .k = 290, .n = 303, .dtype = NEAP_F32};
    const sums s = multiply(&p);
    neap_context *ctx;
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    assert_int_equal(neap_context_new(&co, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    const inputs in = make_inputs(&p);
    neap_array *x = product(&in), *roots[2] = {neap_neg(x), x};
    assert_int_equal(neap_eval_all(2, roots), NEAP_OK);
    const float *minus = neap_array_data(roots[0]), *plus = neap_array_data(roots[1]);
    for (int64_t i = 0; i < p.m * p.n; i++) {
        assert_float_equal(plus[i], s.x[i], 2 * 290 * 0x1p-24 * s.size[i] + 1e-6);
        assert_true(minus[i] == -plus[i]);
    }
    neap_scope_pop(ctx);
    neap_context_free(ctx);
    free(s.x);
    free(s.size);
}

/* ---- fewer rows than planned -------------------------------------------------------------------- */

static void test_rows_set_later(void **state)
{
    (void)state;
    enum { CAPACITY = 40, K = 260, N = 270 };
    static float want[CAPACITY * N];
    for (int way = 0; way < 2; way++)
        for (int64_t rows = 0; rows <= CAPACITY; rows += rows ? 13 : 1) {
            neap_context *ctx;
            neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
            neap_plan_options po = NEAP_PLAN_OPTIONS_INIT;
            neap_plan_info info = NEAP_PLAN_INFO_INIT;
            neap_param *param;
            neap_plan *plan;
            po.without = way ? 0 : NEAP_PLAN_NO_FUSION;
            assert_int_equal(neap_context_new(&co, &ctx), NEAP_OK);
            assert_int_equal(neap_context_plan_options(ctx, &po), NEAP_OK);
            assert_int_equal(neap_scope_push(ctx), NEAP_OK);
            assert_int_equal(neap_param_new(ctx, "rows", CAPACITY, &param), NEAP_OK);
            neap_array *a = leaf(A, NEAP_F32, 2, (int64_t[]){CAPACITY, K});
            neap_array *r = leaf(RESIDUAL, NEAP_F32, 2, (int64_t[]){CAPACITY, N});
            neap_array *b = leaf(B, NEAP_F32, 2, (int64_t[]){K, N}), *bias = leaf(BIAS, NEAP_F32, 1, (int64_t[]){N});
            a = neap_limit(a, 0, param);
            r = neap_limit(r, 0, param);
            neap_array *root = neap_relu(neap_add(neap_add(neap_matmul(a, b), bias), r));
            assert_int_equal(neap_plan_make(ctx, 1, &root, 1, &param, &plan), NEAP_OK);
            neap_scope_pop(ctx);
            neap_plan_describe(plan, &info);
            assert_int_equal(info.steps, way ? 1 : 4);
            assert_int_equal(neap_plan_run(plan, &rows), NEAP_OK);
            const float *y = neap_array_data(neap_plan_output(plan, 0));
            if (way)
                assert_memory_equal(y, want, (size_t)(rows * N) * sizeof *y);
            else if (rows > 0)
                memcpy(want, y, (size_t)(rows * N) * sizeof *y);
            neap_plan_free(plan);
            neap_param_free(param);
            neap_context_free(ctx);
        }
}

/* ---- failing allocations ------------------------------------------------------------------------ */

static neap_status make_and_run(neap_context *ctx)
{
    const problem p = {.m = 5, .k = 290, .n = 303, .dtype = NEAP_F32};
    neap_plan *plan;
    neap_context_clear_error(ctx);
    neap_status status = neap_scope_push(ctx);
    if (status != NEAP_OK)
        return status;
    const inputs in = make_inputs(&p);
    neap_array *root = block_build(&in);
    status = root ? neap_plan_make(ctx, 1, &root, 0, NULL, &plan) : neap_context_status(ctx);
    neap_scope_pop(ctx);
    if (status == NEAP_OK) {
        status = neap_plan_run(plan, NULL);
        neap_plan_free(plan);
    }
    return status;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    for (int n = 1;; n++) {
        neap_context *ctx;
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        o.fail_allocation = n;
        if (neap_context_new(&o, &ctx) != NEAP_OK)
            continue;
        const neap_status status = make_and_run(ctx);
        assert_true(status == NEAP_OK || status == NEAP_ENOMEM);
        if (status == NEAP_ENOMEM)
            assert_int_equal(make_and_run(ctx), NEAP_OK);
        neap_context_free(ctx);
        if (status == NEAP_OK)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_epilogue),    cmocka_unit_test(test_sixteen_bits),
        cmocka_unit_test(test_shapes),            cmocka_unit_test(test_square),
        cmocka_unit_test(test_subnormals),        cmocka_unit_test(test_others),
        cmocka_unit_test(test_product_is_a_root), cmocka_unit_test(test_rows_set_later),
        cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
