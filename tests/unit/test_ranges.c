/* test_ranges.c - draws at the ends of what a float holds, and from what has nothing to draw from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "neap/neap.h"

static neap_context *ctx;

static int open_context(void **state)
{
    (void)state;
    return neap_context_new(NULL, &ctx) != NEAP_OK || neap_scope_push(ctx) != NEAP_OK;
}

static int close_context(void **state)
{
    (void)state;
    neap_scope_pop(ctx);
    neap_context_free(ctx);
    return 0;
}

static void test_uniform(void **state)
{
    (void)state;
    static const float bounds[][2] = {{-3e38f, 3e38f},  {3e38f, -3e38f}, {-3.4028235e38f, 3.4028235e38f},
                                      {0, 3.4028235e38f}, {-1, 1},       {5, 5},
                                      {1e-30f, 2e-30f}};
    const int64_t n = 100000;
    for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
        const float low = fminf(bounds[k][0], bounds[k][1]), high = fmaxf(bounds[k][0], bounds[k][1]);
        neap_array *x = neap_random_uniform(neap_random_key(k), 1, &n, bounds[k][0], bounds[k][1]);
        assert_int_equal(neap_eval(x), NEAP_OK);
        const float *v = neap_array_data(x);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            if (!(v[i] >= low && v[i] <= high))
                fail_msg("%g is not from %g to %g", (double)v[i], (double)low, (double)high);
            sum += (double)v[i] / (double)n;
        }
        /* the mean of n draws is off by (high - low) / sqrt(12 n): eight times that is never met */
        assert_true(fabs(sum - ((double)low + (double)high) / 2) <=
                    8 * ((double)high - (double)low) / sqrt(12.0 * (double)n) +
                        1e-10 * fabs((double)high)); /* of adding them up */
    }
    static const float bad[][2] = {{-INFINITY, 0}, {0, INFINITY}, {NAN, 1}, {0, NAN}};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        assert_null(neap_random_uniform(neap_random_key(k), 1, &n, bad[k][0], bad[k][1]));
        assert_int_equal(neap_eval(NULL), NEAP_EINVAL);
        assert_non_null(strstr(neap_context_error(ctx), "expected finite bounds"));
    }
}

static neap_status draw(int64_t rows, int64_t n, const float *logits, neap_dtype dtype, const int32_t **out)
{
    const int64_t shape[2] = {rows, n};
    neap_array *x = neap_cast(neap_array_from(NEAP_F32, 2, shape, logits), dtype);
    neap_array *y = neap_random_categorical(neap_random_key(7), x);
    const neap_status status = neap_eval(y);
    *out = status == NEAP_OK ? neap_array_data(y) : NULL;
    return status;
}

static void test_categorical(void **state)
{
    (void)state;
    const int32_t *out;
    const float inf = INFINITY;
    const float good[6] = {-inf, -inf, 3, -inf, 1e30f, -1e30f}, nan[6] = {1, 2, 3, 1, NAN, 2},
                none[6] = {0, 0, 0, -inf, -inf, -inf}, first[6] = {NAN, NAN, NAN, 0, 0, 0};
    static const neap_dtype floats[] = {NEAP_F32, NEAP_F16, NEAP_BF16};
    for (size_t k = 0; k < 3; k++) {
        if (floats[k] != NEAP_F16) { /* 1e30 is infinite there */
            assert_int_equal(draw(2, 3, good, floats[k], &out), NEAP_OK);
            assert_int_equal(out[0], 2);
            assert_int_equal(out[1], 1);
        }
        assert_int_equal(draw(2, 3, nan, floats[k], &out), NEAP_EINVAL);
        assert_non_null(strstr(neap_context_error(ctx), "row 1 of the logits"));
        assert_int_equal(draw(2, 3, none, floats[k], &out), NEAP_EINVAL);
        assert_non_null(strstr(neap_context_error(ctx), "row 1 of the logits"));
        assert_int_equal(draw(2, 3, first, floats[k], &out), NEAP_EINVAL);
        assert_non_null(strstr(neap_context_error(ctx), "row 0 of the logits"));
        assert_int_equal(neap_context_status(ctx), NEAP_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_categorical),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
