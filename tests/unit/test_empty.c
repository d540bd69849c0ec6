/* test_empty.c - values without elements that are made within a graph: views of them, flipped and
 * strided, reach kernels that step from row to row. Nothing may be read, and no address moved from
 * NULL, which the undefined behaviour sanitizer sees; results are those of NumPy. */
#include "ops_fixture.h"

#include <math.h>

/* [17, 0], made by the graph: it has no bytes, and there may be no arena. */
static neap_array *nothing(void)
{
    static const float none[1];
    return neap_silu(neap_array_from(NEAP_F32, 2, (int64_t[]){17, 0}, none));
}

static neap_array *flipped(neap_array *x, int axis)
{
    return neap_flip(x, 1, (int[]){axis});
}

static neap_array *backwards(neap_array *x)
{
    return neap_slice(x, (int64_t[]){16, -1}, (int64_t[]){-18, -1}, (int64_t[]){-2, 1});
}

static neap_array *no_rows(void)
{
    static const float none[1];
    return neap_exp(neap_array_from(NEAP_F32, 2, (int64_t[]){0, 5}, none));
}

static neap_array *no_indices(void)
{
    static const int32_t none[1];
    return neap_array_from(NEAP_I32, 1, (int64_t[]){0}, none);
}

/* As many elements as expected, each equal; NaN equals NaN. */
static void expect(neap_array *a, int64_t n, float value)
{
    static float got[1024];
    assert_non_null(a);
    assert_int_equal(neap_eval(a), NEAP_OK);
    assert_int_equal(neap_array_bytes(a), (uint64_t)n * sizeof *got);
    assert_int_equal(neap_array_read(a, got, (uint64_t)n * sizeof *got), NEAP_OK);
    for (int64_t i = 0; i < n; i++)
        assert_true(isnan(value) ? isnan(got[i]) : got[i] == value);
}

static void test_reductions_of_flipped_nothing(void **state)
{
    (void)state;
    expect(neap_mean(flipped(nothing(), 0), 1, NEAP_KEEPDIMS), 17, NAN);
    expect(neap_sum(flipped(nothing(), 0), 1, 0), 17, 0);
    expect(neap_prod_axes(flipped(nothing(), 1), 1, (int[]){1}, 0), 17, 1);
    expect(neap_sum(backwards(nothing()), 1, 0), 9, 0);
    expect(neap_sum(flipped(no_rows(), 0), 0, 0), 5, 0);
    expect(neap_logsumexp_axes(flipped(nothing(), 0), 1, (int[]){1}, 0), 17, -INFINITY);
}

static void test_rows_of_flipped_nothing(void **state)
{
    (void)state;
    expect(neap_softmax(flipped(nothing(), 0), 1), 0, 0);
    expect(neap_cumsum(flipped(nothing(), 0), 1, true, true), 0, 0);
    expect(neap_sort(flipped(nothing(), 1), 1), 0, 0);
    expect(neap_contiguous(neap_transpose(flipped(nothing(), 0), NULL)), 0, 0);
    expect(neap_add(flipped(nothing(), 0), flipped(nothing(), 1)), 0, 0);
    expect(neap_concat(2, (neap_array *[]){flipped(nothing(), 0), backwards(nothing())}, 0), 0, 0);
}

static void test_strided_nothing(void **state)
{
    (void)state;
    const float one[1] = {1};
    neap_array *x = neap_exp(neap_array_from(NEAP_F32, 1, (int64_t[]){1}, one));
    neap_array *v = neap_as_strided(x, 2, (int64_t[]){9, 0}, (int64_t[]){0, 3}, 0);
    expect(neap_sum(v, 1, 0), 9, 0);
    expect(neap_mul(neap_as_strided(nothing(), 2, (int64_t[]){4, 0}, (int64_t[]){7, 1}, 0),
                    neap_scalar(NEAP_F32, 2)),
           0, 0);
}

static void test_gathers_of_no_rows(void **state)
{
    (void)state;
    expect(neap_take(no_rows(), no_indices(), 0), 0, 0);
    expect(neap_sum(flipped(neap_take(neap_exp(no_rows()), no_indices(), 0), 0), 0, 0), 5, 0);
    expect(neap_sum(neap_take(flipped(nothing(), 0), neap_scalar(NEAP_I32, 3), 0), 0, 0), 1, 0);
    neap_array *products = neap_matmul(flipped(nothing(), 0), flipped(no_rows(), 0));
    expect(products, 17 * 5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reductions_of_flipped_nothing, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_rows_of_flipped_nothing, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_strided_nothing, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_gathers_of_no_rows, open_scope, close_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
