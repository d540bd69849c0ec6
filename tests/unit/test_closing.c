/* test_closing.c - chains that close with a sum, mean or extreme of their rows: the bits are those of
 * one op after the other, the values those of sums in double, and what is only summed is never stored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <neap/neap.h>

enum { ROWS = 300, SIBLINGS = 16, MOST_COLUMNS = 5000, SUMS = 8192, SUMMED = 512, INPUTS = SUMS * SUMMED };

static const float *inputs(void)
{
    static float x[INPUTS];
    static uint32_t state = 1;
    for (int64_t i = 0; i < INPUTS && x[INPUTS - 1] == 0; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 8388608.0f - 0.75f;
    }
    return x;
}

typedef neap_array *(*graph)(neap_array *x);

typedef struct planned {
    neap_context *ctx;
    neap_plan *plan;
    neap_plan_info info;
} planned;

static planned run(graph build, int64_t columns, unsigned without, int threads)
{
    planned p = {.info = NEAP_PLAN_INFO_INIT};
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    neap_plan_options po = NEAP_PLAN_OPTIONS_INIT;
    co.threads = threads;
    po.without = without;
    assert_int_equal(neap_context_new(&co, &p.ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(p.ctx), NEAP_OK);
    neap_array *x = neap_array_over(NEAP_F32, 2, (int64_t[]){ROWS, columns}, inputs(), NULL, NULL);
    neap_array *root = build(x);
    assert_non_null(root);
    assert_int_equal(neap_context_plan_options(p.ctx, &po), NEAP_OK);
    assert_int_equal(neap_plan_make(p.ctx, 1, &root, 0, NULL, &p.plan), NEAP_OK);
    neap_scope_pop(p.ctx);
    neap_plan_describe(p.plan, &p.info);
    assert_int_equal(neap_plan_run(p.plan, NULL), NEAP_OK);
    return p;
}

static void done(planned *p)
{
    neap_plan_free(p->plan);
    neap_context_free(p->ctx);
}

/* Whatever the plan and the threads; the fused one is returned. */
static planned same_bits(graph build, int64_t columns)
{
    planned fused = run(build, columns, 0, 2);
    const neap_array *y = neap_plan_output(fused.plan, 0);
    for (int way = 0; way < 2; way++) {
        planned other = run(build, columns, way ? 0 : NEAP_PLAN_NO_FUSION, 1);
        assert_memory_equal(neap_array_data(y), neap_array_data(neap_plan_output(other.plan, 0)),
                            neap_array_bytes(y));
        done(&other);
    }
    return fused;
}

static float affine(float x, int i) { return x * (1 + (float)i / 16) + (float)i / 32 - 0.25f; }

static neap_array *chain(neap_array *x, int i)
{
    neap_array *by = neap_scalar(NEAP_F32, 1 + i / 16.0), *plus = neap_scalar(NEAP_F32, i / 32.0 - 0.25);
    return neap_relu(neap_add(neap_mul(x, by), plus));
}

static neap_array *sibling_sums(neap_array *x)
{
    neap_array *ys[SIBLINGS];
    for (int i = 0; i < SIBLINGS; i++)
        ys[i] = neap_sum(chain(x, i), 1, 0);
    return neap_stack(SIBLINGS, ys, 0);
}

/* Nothing but the sums: one step for all of them and the stacking, no byte beside the result. */
static void test_sibling_sums(void **state)
{
    (void)state;
    static const int64_t widths[] = {1, 17, 256, 1000, 2048, MOST_COLUMNS};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int64_t n = widths[w];
        planned p = same_bits(sibling_sums, n);
        const float *y = neap_array_data(neap_plan_output(p.plan, 0));
        for (int64_t at = 0; at < SIBLINGS * ROWS; at++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += fmaxf(affine(inputs()[at % ROWS * n + k], (int)(at / ROWS)), 0);
            /* of each term the product, under 2, and the sum are rounded, to 2^-24; then each level of the tree:
             * under 2^-19 of sums of what is not negative */
            assert_float_equal(y[at], sum, (double)n / 4194304 + sum / 524288);
        }
        if (n >= 256) {
            assert_int_equal(p.info.scratch_bytes, 0);
            assert_true(p.info.steps <= 2);
        }
        done(&p);
    }
}

/* A reduction in the middle of a chain, read again by what follows on the same row, four in a row. */
static neap_array *scaled_distances(neap_array *x)
{
    neap_array *y = neap_mul(x, neap_scalar(NEAP_F32, 3.0));
    neap_array *low = neap_min(y, 1, NEAP_KEEPDIMS), *high = neap_max(y, 1, NEAP_KEEPDIMS);
    neap_array *unit = neap_div(neap_sub(y, low), neap_sub(high, low));
    neap_array *d = neap_sub(unit, neap_mean(unit, 1, NEAP_KEEPDIMS));
    return neap_sum(neap_square(d), 1, 0);
}

static double scaled_distance(const float *x, int64_t n)
{
    double low = INFINITY, high = -INFINITY, mean = 0, sum = 0;
    for (int64_t k = 0; k < n; k++) {
        low = fmin(low, 3.0 * x[k]);
        high = fmax(high, 3.0 * x[k]);
    }
    for (int64_t k = 0; k < n; k++)
        mean += (3.0 * x[k] - low) / (high - low) / (double)n;
    for (int64_t k = 0; k < n; k++)
        sum += pow((3.0 * x[k] - low) / (high - low) - mean, 2);
    return sum;
}

static void test_reductions_inside_a_chain(void **state)
{
    (void)state;
    static const int64_t widths[] = {17, 256, 1000, MOST_COLUMNS};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int64_t n = widths[w];
        planned p = same_bits(scaled_distances, n);
        const float *y = neap_array_data(neap_plan_output(p.plan, 0));
        for (int64_t r = 0; r < ROWS; r++) {
            double want = scaled_distance(inputs() + r * n, n);
            assert_float_equal(y[r], want, want / 65536 + 1e-6); /* rounding of y, low, high and mean */
        }
        done(&p);
    }
}

static neap_array *halves(neap_array *x) { return neap_sum(chain(neap_cast(x, NEAP_F16), 1), 1, 0); }
static neap_array *columns(neap_array *x) { return neap_sum(chain(x, 1), 0, 0); }
static neap_array *largest(neap_array *x) { return neap_max(chain(x, 3), 1, 0); }

static neap_array *of_parts(neap_array *x) /* rows of half the width */
{
    const int64_t *shape = neap_array_shape(x);
    neap_array *cube = neap_reshape(x, 3, (int64_t[]){shape[0], 2, shape[1] / 2});
    return neap_add(neap_mean(chain(cube, 2), 2, 0), neap_sum(chain(cube, 5), 2, 0));
}

static neap_array *with_nan(neap_array *x)
{
    neap_array *y = chain(x, 1), *top = neap_max(y, 1, NEAP_KEEPDIMS);
    y = neap_div(neap_sub(y, top), neap_sub(top, top)); /* 0 / 0 and -a / 0 */
    return neap_add(neap_sum(y, 1, 0), neap_min(y, 1, 0));
}

static void test_other_rows(void **state)
{
    (void)state;
    static const graph graphs[] = {halves, columns, largest, of_parts, with_nan};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        for (int64_t n = 2; n <= 1024; n *= 8) {
            planned p = same_bits(graphs[i], n);
            done(&p);
        }
}

/* ---- what a row's ops read of each other ------------------------------------------------------- */

static int64_t picked; /* of each row */

static neap_array *less_one_of_its_own(neap_array *x)
{
    neap_array *t = neap_mul(x, x), *one = neap_narrow(t, 1, picked, picked + 1);
    return neap_abs(neap_sub(t, one));
}

static neap_array *less_one_and_summed(neap_array *x)
{
    neap_array *t = neap_mul(x, x), *one = neap_narrow(t, 1, picked, picked + 1);
    return neap_sum(neap_square(neap_sub(t, one)), 1, 0);
}

/* Of the same size as the row that the element stands in, and stored where that was. */
static neap_array *less_one_and_more(neap_array *x)
{
    neap_array *t = neap_exp(x), *one = neap_narrow(t, 1, picked, picked + 1);
    neap_array *a = neap_square(neap_sub(t, one)), *b = neap_add(a, a), *d = neap_mul(b, a);
    return neap_add(neap_mul(d, b), neap_sub(d, neap_mul(b, d)));
}

/* An element of a row is there before the others need it, wherever in the row it stands, and stays while
 * they do. */
static void test_one_element_of_a_row(void **state)
{
    (void)state;
    static const int64_t columns = 1000, places[] = {0, 90, 300, 640, 999};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        picked = places[i];
        planned p = same_bits(less_one_of_its_own, columns);
        const float *y = neap_array_data(neap_plan_output(p.plan, 0));
        for (int64_t at = 0; at < ROWS * columns; at++) {
            const float *row = inputs() + at / columns * columns, x = row[at % columns];
            const float t = x * x, one = row[picked] * row[picked];
            assert_true(y[at] == fabsf(t - one));
        }
        done(&p);
        p = same_bits(less_one_and_summed, columns);
        done(&p);
        p = same_bits(less_one_and_more, columns);
        done(&p);
    }
}

/* Sums of rows of sums: what is one for a row here is an element there, and tiles of both are rounded to
 * as many bytes. */
static int64_t few; /* sums in a row */

static neap_array *sums_of_sums(neap_array *x)
{
    (void)x;
    neap_array *cube = neap_array_over(NEAP_F32, 3, (int64_t[]){SUMS / few, few, SUMMED}, inputs(), NULL, NULL);
    neap_array *m = neap_sum(neap_square(cube), 2, 0), *t = neap_add(m, m);
    neap_array *d = neap_sub(t, neap_sum(t, 1, NEAP_KEEPDIMS)), *u = neap_mul(d, d);
    return neap_add(neap_sub(u, neap_sum(u, 1, NEAP_KEEPDIMS)), t);
}

static void test_sums_of_sums(void **state)
{
    (void)state;
    for (few = 2; few <= 16; few *= 2) {
        planned p = same_bits(sums_of_sums, 1);
        const float *y = neap_array_data(neap_plan_output(p.plan, 0));
        for (int64_t r = 0; r < SUMS / few; r++) {
            double t[16], q = 0, v = 0;
            for (int64_t k = 0; k < few; k++) {
                t[k] = 0;
                for (int64_t i = 0; i < SUMMED; i++)
                    t[k] += 2 * pow(inputs()[(r * few + k) * SUMMED + i], 2);
                q += t[k];
            }
            for (int64_t k = 0; k < few; k++)
                v += (t[k] - q) * (t[k] - q);
            for (int64_t k = 0; k < few; k++) /* eight roundings of what is no larger than v */
                assert_float_equal(y[r * few + k], (t[k] - q) * (t[k] - q) - v + t[k], v / 65536);
        }
        done(&p);
    }
}

/* A reduction over as much of a dimension as a parameter says, beside what has nothing to do with it. */
static neap_array *less_sum_of_some(neap_array *x, neap_param *length, int64_t now)
{
    neap_array *some = length ? neap_limit(x, 1, length) : neap_narrow(x, 1, 0, now);
    neap_array *y = neap_array_over(NEAP_F32, 2, neap_array_shape(x), inputs() + 1, NULL, NULL);
    return neap_abs(neap_sub(y, neap_sum(some, 1, NEAP_KEEPDIMS)));
}

static void test_some_of_a_row(void **state)
{
    (void)state;
    enum { COLUMNS = 600 };
    static const int64_t lengths[] = {COLUMNS, 17, 333};
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_param *length;
    neap_plan *plan;
    o.threads = 2;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    assert_int_equal(neap_param_new(ctx, "length", COLUMNS, &length), NEAP_OK);
    neap_array *x = neap_array_over(NEAP_F32, 2, (int64_t[]){ROWS, COLUMNS}, inputs(), NULL, NULL);
    neap_array *root = less_sum_of_some(x, length, 0);
    assert_int_equal(neap_plan_make(ctx, 1, &root, 1, &length, &plan), NEAP_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(neap_plan_run(plan, &lengths[i]), NEAP_OK);
        neap_array *want = less_sum_of_some(x, NULL, lengths[i]);
        assert_int_equal(neap_eval(want), NEAP_OK);
        const neap_array *y = neap_plan_output(plan, 0);
        assert_memory_equal(neap_array_data(y), neap_array_data(want), neap_array_bytes(want));
        double sum = 0;
        for (int64_t k = 0; k < lengths[i]; k++)
            sum += inputs()[k];
        assert_float_equal(*(const float *)neap_array_data(y), fabs(inputs()[1] - sum), 1e-4);
    }
    neap_plan_free(plan);
    neap_scope_pop(ctx);
    neap_param_free(length);
    neap_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sibling_sums),
                                       cmocka_unit_test(test_reductions_inside_a_chain),
                                       cmocka_unit_test(test_other_rows),
                                       cmocka_unit_test(test_one_element_of_a_row),
                                       cmocka_unit_test(test_sums_of_sums),
                                       cmocka_unit_test(test_some_of_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
