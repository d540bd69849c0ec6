/* test_hostile.c - what a caller should not do but may: names that break lines, numbers at the ends of
 * their types, empty arrays with huge extents. Each is an error or right, and harms nothing after it. */
#include "ops_fixture.h"

#include "neap/io.h"
#include "neap/model.h"

static const int64_t HUGE_EXTENT = (int64_t)1 << 61;

static void test_a_message_is_one_line(void **state)
{
    (void)state;
    neap_param *p;
    assert_int_equal(neap_param_new(ctx, "two\nlines\x1b[31m", -1, &p), NEAP_EINVAL);
    assert_string_equal(neap_context_error(ctx),
                        "parameter two?lines?[31m: maximum -1, expected 0 or more");
    neap_context_clear_error(ctx);
}

static void test_a_message_names_a_thing_once(void **state)
{
    (void)state;
    const int64_t shape[1] = {4};
    neap_array *y = neap_take(ramp(1, shape, 0, 1), neap_scalar(NEAP_I32, 9), 0);
    assert_int_equal(neap_eval(y), NEAP_EINVAL);
    assert_string_equal(neap_context_error(ctx), "take: index 9 (number 0), the axis has 4");
    neap_context_clear_error(ctx);
}

static void test_files_without_a_path(void **state)
{
    (void)state;
    const float one = 1;
    neap_model *model;
    assert_int_equal(neap_npy_write_f32(ctx, NULL, &one, 1, 1), NEAP_EINVAL);
    neap_context_clear_error(ctx);
    assert_int_equal(neap_model_open(ctx, NULL, &model), NEAP_EINVAL);
    assert_null(model);
    neap_context_clear_error(ctx);
}

/* Numbers that are no dtype are told as such, never as "(null)". */
static void test_dtypes_without_a_name(void **state)
{
    (void)state;
    static const int none[] = {10, 15, 26, 255};
    const int64_t two = 2;
    const float data[2] = {1, 2};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[32];
        snprintf(text, sizeof text, "dtype %d is not known", none[i]);
        const neap_dtype dtype = (neap_dtype)none[i];
        assert_refused(neap_array_zeros(dtype, 1, &two), NEAP_EDTYPE, text);
        assert_refused(neap_array_from(dtype, 1, &two, data), NEAP_EDTYPE, text);
        assert_refused(neap_array_over(dtype, 1, &two, data, NULL, NULL), NEAP_EDTYPE, text);
    }
}

static void test_rope_at_the_ends_of_its_offsets(void **state)
{
    (void)state;
    const int64_t shape[2] = {4, 4}, far[] = {INT64_MAX, INT64_MIN, HUGE_EXTENT + 1, -HUGE_EXTENT - 1};
    neap_array *x = ramp(2, shape, 0, 1);
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        o.offset = far[i];
        assert_refused(neap_rope(x, &o), NEAP_EINVAL, "offset");
    }
    neap_param *p;
    o.offset = HUGE_EXTENT;
    assert_int_equal(neap_param_new(ctx, "far", INT64_MAX, &p), NEAP_OK);
    o.offset_param = p;
    assert_refused(neap_rope(x, &o), NEAP_EINVAL, "offset");
    neap_param_free(p);
    assert_int_equal(neap_param_new(ctx, "near", HUGE_EXTENT, &p), NEAP_OK);
    assert_int_equal(neap_param_set(p, HUGE_EXTENT), NEAP_OK);
    o.offset_param = p;
    ready(neap_rope(x, &o));
    neap_param_free(p);
}

static void test_empty_arrays_of_huge_extents(void **state)
{
    (void)state;
    const int64_t most[2] = {0, HUGE_EXTENT - 1}, over[2] = {0, HUGE_EXTENT}, start[2] = {0, HUGE_EXTENT / 2};
    neap_array *x = neap_array_zeros(NEAP_F32, 2, most), *y = neap_array_zeros(NEAP_U8, 2, over);
    assert_refused(neap_array_zeros(NEAP_F32, 2, over), NEAP_ESHAPE, "extents");
    assert_refused(neap_cast(y, NEAP_F32), NEAP_ELIMIT, "");
    assert_refused(neap_concat(2, (neap_array *[]){x, x}, 1), NEAP_ELIMIT, "");
    ready(neap_concat(2, (neap_array *[]){x, x}, 0));
    ready(neap_slice_update(x, neap_scalar(NEAP_F32, 1), start, most, NULL));
    ready(neap_exp(neap_narrow(x, 1, HUGE_EXTENT / 2, HUGE_EXTENT / 2 + 3)));
    ready(neap_contiguous(neap_transpose(x, NULL)));
    neap_array *none = neap_max(neap_transpose(x, NULL), 0, NEAP_KEEPDIMS);
    ready(none);
    assert_int_equal(neap_array_size(none), 0);
}

static void test_counts_below_zero(void **state)
{
    (void)state;
    neap_context *other;
    neap_plan *plan;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.fail_allocation = INT64_MIN;
    assert_int_equal(neap_context_new(&o, &other), NEAP_EINVAL);
    o.fail_allocation = 0;
    assert_int_equal(neap_context_new(&o, &other), NEAP_OK);
    assert_int_equal(neap_eval_all(-1, NULL), NEAP_EINVAL);
    assert_int_equal(neap_plan_make(other, -1, NULL, 0, NULL, &plan), NEAP_EINVAL);
    neap_context_free(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_message_is_one_line),
        TEST(test_a_message_names_a_thing_once),
        TEST(test_files_without_a_path),
        TEST(test_rope_at_the_ends_of_its_offsets),
        TEST(test_empty_arrays_of_huge_extents),
        TEST(test_dtypes_without_a_name),
        cmocka_unit_test(test_counts_below_zero),
    };
    return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
