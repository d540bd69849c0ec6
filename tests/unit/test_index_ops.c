/* test_index_ops.c - ops that lay out, index and order, beyond single rows of tests/ops_cases.def:
 * large results against plain loops and with any number of lanes, extents set at run time, inputs
 * and allocations that fail. */
#include "ops_fixture.h"

#include "ops/support.h"

enum { ROWS = 300, COLUMNS = 257 };

static neap_array *numbers(int64_t rows, int64_t columns, uint64_t seed, float low, float high)
{
    const int64_t shape[2] = {rows, columns};
    return neap_random_uniform(neap_random_key(seed), 2, shape, low, high);
}

static neap_array *whole_numbers(int64_t rows, int64_t columns, uint64_t seed, float low,
                                 float high)
{
    neap_array *a = neap_cast(neap_floor(numbers(rows, columns, seed, low, high)), NEAP_I32);
    ready(a);
    return a;
}

/* A row-major copy in memory that stays; for one call at a time each. */
static const void *read_into(void *to, neap_array *a)
{
    ready(a);
    assert_int_equal(neap_array_read(a, to, neap_array_bytes(a)), NEAP_OK);
    return to;
}

static int32_t x_data[ROWS * COLUMNS], i_data[2 * ROWS * COLUMNS], u_data[2 * ROWS * COLUMNS];
static int32_t got[2 * ROWS * COLUMNS];

/* ---- large, against plain loops -----------------------------------------------------------------
 */

static void test_take_along_either_axis(void **state)
{
    (void)state;
    neap_array *x = whole_numbers(ROWS, COLUMNS, 1, -1000, 1000);
    const int32_t *v = read_into(x_data, x);
    for (int axis = 0; axis < 2; axis++) {
        int64_t n = axis ? COLUMNS : ROWS, rows = axis ? ROWS : 2 * ROWS,
                columns = axis ? 500 : COLUMNS;
        neap_array *at = whole_numbers(rows, columns, 2, (float)-n, (float)n);
        const int32_t *index = read_into(i_data, at);
        read_into(got, neap_take_along_axis(x, at, axis));
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < columns; j++) {
                int64_t k = (index[i * columns + j] + n) % n;
                assert_int_equal(got[i * columns + j],
                                 axis ? v[i * COLUMNS + k] : v[k * COLUMNS + j]);
            }
        }
    }
}

static void test_additions_follow_the_indices(void **state)
{
    (void)state;
    for (int axis = 0; axis < 2; axis++) {
        neap_array *x = whole_numbers(ROWS, COLUMNS, 1, -1000, 1000);
        int32_t *v = x_data;
        read_into(x_data, x);
        int64_t n = axis ? COLUMNS : ROWS, rows = axis ? ROWS : 2 * ROWS,
                columns = axis ? 500 : COLUMNS;
        neap_array *at = whole_numbers(rows, columns, 3, (float)-n, (float)n);
        neap_array *updates = whole_numbers(rows, columns, 4, -1000, 1000);
        read_into(i_data, at);
        read_into(u_data, updates);
        for (int64_t i = 0; i < rows * columns; i++) {
            int64_t k = (i_data[i] + n) % n;
            v[axis ? i / columns * COLUMNS + k : k * COLUMNS + i % columns] += u_data[i];
        }
        read_into(got, neap_scatter_add(x, at, updates, axis));
        assert_memory_equal(got, v, sizeof x_data);
    }
}

/* Sums of floats depend on their order: the same as one after the other. */
static void test_sums_of_floats_in_order(void **state)
{
    (void)state;
    static float sums[3], f[2 * ROWS * COLUMNS];
    neap_array *updates = numbers(1, 2 * ROWS * COLUMNS, 5, -1, 1);
    neap_array *at = whole_numbers(1, 2 * ROWS * COLUMNS, 6, 0, 3);
    read_into(f, updates);
    read_into(i_data, at);
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < 2 * ROWS * COLUMNS; i++)
        sums[i_data[i]] += f[i];
    neap_array *y =
        neap_scatter_add(neap_array_zeros(NEAP_F32, 2, (int64_t[]){1, 3}), at, updates, 1);
    float have[3];
    read_into(have, y);
    assert_memory_equal(have, sums, sizeof sums);
    neap_array *running = neap_cumsum(updates, 1, false, true);
    static float total[2 * ROWS * COLUMNS];
    read_into(total, running);
    float sum = 0;
    for (int64_t i = 0; i < 2 * ROWS * COLUMNS; i++) {
        sum += f[i];
        assert_true(total[i] == sum);
    }
}

static void test_long_rows_are_sorted(void **state)
{
    (void)state;
    const int64_t n = 60001;
    neap_array *x = whole_numbers(1, n, 7, -500, 500), *order = neap_argsort(x, 1);
    static uint32_t place[60001];
    static uint8_t seen[60001];
    read_into(x_data, x);
    read_into(place, order);
    for (int64_t i = 0; i < n; i++) {
        assert_true(place[i] < n && !seen[place[i]]);
        seen[place[i]] = 1;
        if (i > 0) {
            int32_t before = x_data[place[i - 1]], here = x_data[place[i]];
            assert_true(before < here || (before == here && place[i - 1] < place[i]));
        }
    }
    assert_same_bits(neap_sort(x, 1), neap_take_along_axis(x, order, 1));
    assert_same_bits(neap_sort(neap_cast(x, NEAP_I64), 1), neap_cast(neap_sort(x, 1), NEAP_I64));
    assert_same_bits(neap_sort(neap_cast(x, NEAP_F32), 1), neap_cast(neap_sort(x, 1), NEAP_F32));
    assert_same_bits(neap_argsort(neap_cast(x, NEAP_I64), 1), order);
}

/* ---- lanes --------------------------------------------------------------------------------------
 */

enum { LANE_CASES = 15 };

static neap_array *lane_case(int i)
{
    neap_array *x = numbers(ROWS, COLUMNS, 5, -2, 2);
    neap_array *at = neap_cast(numbers(ROWS, COLUMNS, 6, -250, 250), NEAP_I32);
    neap_array *row = neap_squeeze(neap_narrow(at, 0, 0, 1), 0);
    switch (i) {
    case 0:
        return neap_take_along_axis(x, at, 0);
    case 1:
        return neap_take_along_axis(neap_transpose(x, NULL), neap_transpose(at, NULL), 0);
    case 2:
        return neap_scatter_add(x, at, neap_neg(x), 1);
    case 3:
        return neap_scatter_add(neap_cast(x, NEAP_BF16), at, x, 0);
    case 4:
        return neap_gather(x, 2, (neap_array *[]){at, row}, (int[]){1, 0}, (int64_t[]){2, 3});
    case 5:
        return neap_index_copy(x, neap_narrow(x, 0, 3, 260), row, 0);
    case 6:
        return neap_roll(x, 2, (int64_t[]){100, -7}, (int[]){0, 1});
    case 7:
        return neap_triu(x, -3);
    case 8:
        return neap_sort(x, 0);
    case 9:
        return neap_argsort(neap_cast(at, NEAP_I64), 1);
    case 10:
        return neap_cumsum(x, 0, true, true);
    case 11:
        return neap_cumprod(neap_transpose(x, NULL), 0, false, false);
    case 12:
        return neap_random_bits(neap_random_key(9), 1, (int64_t[]){100001}, 1);
    default:
        return neap_median(x, 1, (int[]){0}, NEAP_KEEPDIMS);
    }
}

static void test_lanes_change_no_bit(void **state)
{
    (void)state;
    static uint8_t want[1 << 20], have[1 << 20];
    for (int i = 0; i < LANE_CASES; i++) {
        for (int threads = 1; threads <= 5; threads += 2) {
            neap_context *c = open_context((*np_kernels_available())->isa, threads);
            assert_int_equal(neap_scope_push(c), NEAP_OK);
            neap_array *y = lane_case(i);
            if (i == 4) { /* some blocks are not inside: the same one is told of */
                neap_status status = y ? neap_eval(y) : neap_context_status(c);
                assert_int_equal(status, NEAP_EINVAL);
                uint64_t n = strlen(neap_context_error(c)) + 1;
                memcpy(threads == 1 ? want : have, neap_context_error(c), n);
                if (threads > 1)
                    assert_string_equal((char *)have, (char *)want);
            } else {
                if (!y || neap_eval(y) != NEAP_OK)
                    fail_msg("case %d: %s", i, neap_context_error(c));
                uint64_t n = neap_array_bytes(y);
                assert_true(n <= sizeof want);
                assert_int_equal(neap_array_read(y, threads == 1 ? want : have, n), NEAP_OK);
                if (threads > 1 && memcmp(want, have, n) != 0)
                    fail_msg("case %d: other bits with %d threads", i, threads);
            }
            neap_scope_pop(c);
            neap_context_free(c);
        }
    }
}

/* ---- extents set at run time
 * --------------------------------------------------------------------- */

enum { CAPACITY = 9, WIDTH = 6 };

typedef neap_array *(*body)(neap_array *x);

static neap_array *rolled(neap_array *x)
{
    return neap_roll(x, 2, (int64_t[]){2, -1}, (int[]){0, 1});
}

static neap_array *triangles(neap_array *x)
{
    return neap_tril(neap_triu(x, -2), 1);
}

static neap_array *sorted(neap_array *x)
{
    return neap_add(neap_sort(x, 0), neap_cast(neap_argsort(x, 1), NEAP_F32));
}

static neap_array *summed(neap_array *x)
{
    return neap_cummax(neap_cumsum(x, 0, true, false), 1, false, true);
}

static neap_array *repeated(neap_array *x)
{
    return neap_tile(neap_repeat(neap_flip(x, 1, (int[]){1}), 2, 1), 2, (int64_t[]){1, 3});
}

static neap_array *joined(neap_array *x)
{
    neap_array *y = neap_stack(2, (neap_array *[]){x, neap_neg(x)}, 1);
    return neap_pad_edge(y, (int64_t[]){0, 1, 0}, (int64_t[]){0, 0, 2});
}

static neap_array *middles(neap_array *x)
{
    return neap_concat(
        2, (neap_array *[]){neap_median(x, 1, (int[]){1}, NEAP_KEEPDIMS), neap_topk(x, 2, 1)}, 1);
}

static void test_fewer_rows_than_planned(void **state)
{
    (void)state;
    static const body bodies[] = {rolled, triangles, sorted, summed, repeated, joined, middles};
    static float whole[CAPACITY * 36], part[CAPACITY * 36];
    neap_param *rows;
    assert_int_equal(neap_param_new(ctx, "rows", CAPACITY, &rows), NEAP_OK);
    neap_array *x = numbers(CAPACITY, WIDTH, 1, -1, 1);
    ready(x);
    for (size_t b = 0; b < sizeof bodies / sizeof bodies[0]; b++) {
        neap_array *y = bodies[b](neap_limit(x, 0, rows));
        neap_plan *plan;
        if (!y || neap_plan_make(ctx, 1, &y, 1, &rows, &plan) != NEAP_OK)
            fail_msg("body %zu: %s", b, neap_context_error(ctx));
        for (int64_t t = 0; t <= CAPACITY; t += 3) {
            assert_int_equal(neap_plan_run(plan, &t), NEAP_OK);
            neap_array *want = bodies[b](neap_narrow(x, 0, 0, t));
            const neap_array *have = neap_plan_output(plan, 0);
            ready(want);
            uint64_t n = neap_array_bytes(want);
            assert_true(n <= sizeof part);
            assert_int_equal(neap_array_read(have, whole, neap_array_bytes(have)), NEAP_OK);
            assert_int_equal(neap_array_read(want, part, n), NEAP_OK);
            if (memcmp(whole, part, n) != 0) /* rows are the first dimension: a prefix */
                fail_msg("body %zu: other bits with %d rows", b, (int)t);
        }
        neap_plan_free(plan);
    }
    neap_param_free(rows);
}

static void test_refusals_of_run_time_extents(void **state)
{
    (void)state;
    const char *text = "set at run time";
    const int64_t one[2] = {1, 1}, none[2] = {0, 0};
    neap_param *rows;
    assert_int_equal(neap_param_new(ctx, "rows", CAPACITY, &rows), NEAP_OK);
    neap_array *x = neap_limit(numbers(CAPACITY, WIDTH, 1, -1, 1), 0, rows), *parts[2];
    neap_array *index = neap_array_zeros(NEAP_I32, 1, one);
    assert_refused(neap_flip(x, 1, (int[]){0}), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_tile(x, 2, (int64_t[]){2, 1}), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_repeat(x, 2, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_pad_edge(x, one, none), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_as_strided(x, 2, one, none, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_topk(x, 2, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_median(x, 0, NULL, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_gather(x, 1, &index, (int[]){1}, one), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_index_copy(x, x, index, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_take_along_axis(x, neap_cast(x, NEAP_I32), 1), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_scatter_add(x, neap_cast(x, NEAP_I32), x, 1), NEAP_EUNSUPPORTED, text);
    assert_int_equal(neap_split_sizes(x, 2, (int64_t[]){4, 5}, 0, parts), NEAP_EUNSUPPORTED);
    assert_null(parts[0]);
    neap_context_clear_error(ctx);
    neap_param_free(rows);
}

/* ---- inputs that are not there, arguments out of range, allocations that fail
 * ---------------------- */

static void test_null_passes_through(void **state)
{
    (void)state;
    neap_array *x = neap_scalar(NEAP_F32, 1), *parts[2];
    const int64_t one[1] = {1};
    const int zero[1] = {0};
    assert_null(neap_tile(NULL, 1, one));
    assert_null(neap_repeat(NULL, 1, 0));
    assert_null(neap_roll(NULL, 1, one, zero));
    assert_null(neap_flip(NULL, 1, zero));
    assert_null(neap_stack(2, (neap_array *[]){x, NULL}, 0));
    assert_null(neap_as_strided(NULL, 1, one, one, 0));
    assert_null(neap_pad_edge(NULL, one, one));
    assert_null(neap_tril(NULL, 0));
    assert_null(neap_take_along_axis(NULL, x, 0));
    assert_null(neap_gather(x, 0, NULL, NULL, NULL) ? NULL : x);
    assert_null(neap_gather(NULL, 1, &x, zero, one));
    assert_null(neap_scatter_add(x, x, NULL, 0));
    assert_null(neap_index_copy(x, NULL, x, 0));
    assert_null(neap_sort(NULL, 0));
    assert_null(neap_partition(NULL, 0, 0));
    assert_null(neap_topk(NULL, 0, 0));
    assert_null(neap_median(NULL, 0, NULL, 0));
    assert_null(neap_cumsum(NULL, 0, false, true));
    assert_null(neap_random_bits(NULL, 1, one, 4));
    assert_int_equal(neap_split_sizes(NULL, 2, (int64_t[]){1, 1}, 0, parts), NEAP_EINVAL);
    assert_null(parts[1]);
    assert_int_equal(neap_context_status(ctx), NEAP_OK); /* nothing of this is an error by itself */
}

static void test_arguments_out_of_range(void **state)
{
    (void)state;
    const int64_t shape[2] = {2, 3}, big[2] = {INT64_MAX, 1}, low[1] = {INT64_MIN};
    const int64_t huge[2] = {0, (int64_t)1 << 40};
    neap_array *x = neap_array_zeros(NEAP_F32, 2, shape);
    neap_array *nothing = neap_array_zeros(NEAP_F32, 2, huge);
    assert_refused(neap_tile(x, 2, big), NEAP_ESHAPE, "times along axis 0");
    assert_refused(neap_repeat(x, INT64_MIN, 0), NEAP_ESHAPE, "times along axis 0");
    assert_refused(neap_roll(x, 2, (int64_t[]){INT64_MAX, 1}, (int[]){0, 0}), NEAP_EINVAL,
                   "axis 0");
    assert_non_null(neap_roll(x, 1, low, (int[]){0}));
    assert_refused(neap_pad_edge(x, big, big), NEAP_ESHAPE, "");
    assert_refused(neap_as_strided(x, 2, shape, (int64_t[]){INT64_MIN, 1}, 0), NEAP_EINVAL, "of 6");
    assert_refused(neap_as_strided(x, 1, shape, shape, INT64_MAX), NEAP_EINVAL, "of 6");
    assert_refused(neap_sort(nothing, 1), NEAP_ELIMIT, "2^32 - 1");
    assert_refused(neap_stack(0, NULL, 0), NEAP_EINVAL, "0 parts");
    assert_refused(neap_topk(x, INT64_MAX, 1), NEAP_ESHAPE, "9223372036854775807 elements");
    assert_refused(neap_gather(x, 3, NULL, NULL, shape), NEAP_EINVAL, "3 indices of 2 axes");
}

static neap_status split_status; /* told by that call: nothing is stored */

static neap_array *a_bit_of_everything(void)
{
    neap_array *x = numbers(8, 6, 1, -3, 3), *parts[2] = {NULL, NULL};
    neap_array *at = neap_cast(neap_narrow(x, 1, 0, 2), NEAP_I32);
    x = neap_tile(neap_repeat(x, 2, 0), 2, (int64_t[]){1, 2});
    x = neap_roll(neap_pad_edge(x, (int64_t[]){1, 0}, (int64_t[]){0, 1}), 1, (int64_t[]){1},
                  (int[]){1});
    split_status = neap_split_sizes(x, 2, (int64_t[]){3, 14}, 0, parts);
    x = neap_stack(2, (neap_array *[]){parts[0], neap_narrow(parts[1], 0, 0, 3)}, 0);
    x = neap_tril(neap_median(neap_flip(x, 1, (int[]){0}), 1, (int[]){0}, 0), 1);
    x = neap_scatter_add(x, neap_narrow(at, 0, 0, 3), neap_narrow(x, 1, 0, 2), 1);
    x = neap_take_along_axis(neap_cumsum(x, 0, false, true), neap_narrow(at, 0, 3, 6), 1);
    x = neap_index_copy(x, neap_sort(x, 0), neap_array_zeros(NEAP_I32, 1, (int64_t[]){3}), 0);
    return neap_as_strided(neap_topk(x, 1, 0), 2, (int64_t[]){2, 2}, (int64_t[]){0, 1}, 0);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    bool done = false;
    for (int64_t n = 1; !done && n < 4000; n++) {
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        neap_context *c;
        o.threads = 1;
        o.fail_allocation = n;
        if (neap_context_new(&o, &c) != NEAP_OK)
            continue;
        neap_status status = neap_scope_push(c);
        if (status == NEAP_OK) {
            neap_array *root = a_bit_of_everything();
            status = split_status == NEAP_OK ? neap_eval(root) : split_status;
            neap_scope_pop(c);
        }
        if (status != NEAP_OK && status != NEAP_ENOMEM)
            fail_msg("allocation %d: %s", (int)n, neap_context_error(c));
        done = status == NEAP_OK;
        neap_context_trim(c);
        neap_memory_info m = NEAP_MEMORY_INFO_INIT;
        neap_context_memory(c, &m);
        assert_int_equal(m.active_by_category[NEAP_MEM_ACTIVATIONS], 0);
        neap_context_free(c);
    }
    assert_true(done);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_take_along_either_axis),
                                       TEST(test_additions_follow_the_indices),
                                       TEST(test_sums_of_floats_in_order),
                                       TEST(test_long_rows_are_sorted),
                                       cmocka_unit_test(test_lanes_change_no_bit),
                                       TEST(test_fewer_rows_than_planned),
                                       TEST(test_refusals_of_run_time_extents),
                                       TEST(test_null_passes_through),
                                       TEST(test_arguments_out_of_range),
                                       cmocka_unit_test(test_every_allocation_may_fail)};
    return cmocka_run_group_tests_name("index_ops", tests, NULL, NULL);
}
