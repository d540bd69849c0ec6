/* test_offset_data.c - spreads and norms of data that lies far from 0. Values alternate between a and a + 2h,
 * so by hand the variance is h * h, the deviation h and the layer norm -1 and 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "neap/neap.h"

enum { LANES_MOST = 40 };

typedef struct row {
    float a, h;
    int64_t n;
    neap_dtype dtype;
    double within; /* of the variance: 3e7 + 8 has no room for more than 2^-22 of itself; else rounding */
} row;

static const row rows[] = {
    {3e7f,    8,    4096,   NEAP_F32,  1e-6},
    {-3e7f,   8,    4096,   NEAP_F32,  1e-6},
    {3e7f,    8,    100000, NEAP_F32,  1e-6},
    {3e7f,    8,    33,     NEAP_F32,  1e-6},
    {1e6f,    0.5f, 65536,  NEAP_F32,  1e-6},
    {16384,   0.5f, 4096,   NEAP_F32,  1e-6},
    {2048,    1,    4096,   NEAP_F16,  2e-3},
    {256,     1,    4096,   NEAP_BF16, 1e-2},
    {0,       1,    4096,   NEAP_F32,  1e-6},
};

static neap_context *ctx;

static int open_context(void **state)
{
    (void)state;
    return neap_context_new(NULL, &ctx) != NEAP_OK;
}

static int close_context(void **state)
{
    (void)state;
    neap_context_free(ctx);
    return 0;
}

/* [n, w] or [w, n], each of the w series the same; `strided`: every second element of twice as many. */
static neap_array *data_of(const row *r, int64_t w, bool columns, bool strided)
{
    const int64_t n = strided ? 2 * r->n : r->n, shape[2] = {columns ? n : w, columns ? w : n};
    float *v = malloc((size_t)(n * w) * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n * w; i++) {
        const int64_t k = columns ? i / w : i % n, at = strided ? k / 2 : k;
        v[i] = strided && k % 2 ? 7 : r->a + (at % 2 ? 2 * r->h : 0);
    }
    neap_array *x = neap_cast(neap_array_from(NEAP_F32, 2, shape, v), r->dtype);
    free(v);
    if (strided) {
        const int64_t start[2] = {0, 0}, step[2] = {columns ? 2 : 1, columns ? 1 : 2};
        x = neap_slice(x, start, shape, step);
    }
    return x;
}

static void is_near(neap_array *y, double want, double within)
{
    y = neap_cast(y, NEAP_F32);
    assert_int_equal(neap_eval(y), NEAP_OK);
    const float *got = neap_array_data(y);
    for (int64_t i = 0; i < neap_array_size(y); i++)
        if (!(fabs((double)got[i] - want) <= within * want))
            fail_msg("element %lld: %g, expected %g", (long long)i, (double)got[i], want);
}

static void test_spread(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        for (int way = 0; way < 4; way++) {
            const row *r = &rows[k];
            const bool columns = way & 1, strided = way & 2;
            const int axis = columns ? 0 : 1;
            const double bias = (double)r->n / (double)(r->n - 1), odd = r->n % 2 ? 1 - 1.0 / ((double)r->n * (double)r->n) : 1;
            assert_int_equal(neap_scope_push(ctx), NEAP_OK);
            neap_array *x = data_of(r, columns ? LANES_MOST : 3, columns, strided);
            const double var = (double)r->h * (double)r->h * odd;
            is_near(neap_var_axes(x, 1, &axis, 0, 0), var, r->within);
            is_near(neap_var_axes(x, 1, &axis, 1, 0), var * bias, r->within);
            is_near(neap_std_axes(x, 1, &axis, 0, 0), sqrt(var), r->within);
            neap_scope_pop(ctx);
        }
}

static void test_layer_norm(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        const row *r = &rows[k];
        if (r->n % 2)
            continue;
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        neap_array *y = neap_cast(neap_layer_norm(data_of(r, 3, false, false), NULL, NULL, 0), NEAP_F32);
        assert_int_equal(neap_eval(y), NEAP_OK);
        const float *got = neap_array_data(y);
        for (int64_t i = 0; i < neap_array_size(y); i++)
            if (fabs((double)got[i] - (i % 2 ? 1 : -1)) > r->within)
                fail_msg("row %zu, element %lld: %g", k, (long long)i, (double)got[i]);
        neap_scope_pop(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_layer_norm),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
