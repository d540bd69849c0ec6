/* test_ops_dynamic.c - extents and places set at run time: a plan made at capacity and run with
 * fewer rows gives the bits of a graph built for just those rows, writes only them, and refuses
 * what does not fit. (That graphs of fixed shapes are right is test_ops.c's part.) */
#include "ops_fixture.h"

#include "ops/support.h"

enum { CAPACITY = 8, WIDTH = 64, HEADS = 4 };

static neap_param *rows, *position;

static int open_params(void **state)
{
    return open_scope(state) || neap_param_new(ctx, "rows", CAPACITY, &rows) ||
           neap_param_new(ctx, "position", 40, &position);
}

static int close_params(void **state)
{
    neap_param_free(rows);
    neap_param_free(position);
    return close_scope(state);
}

static neap_array *numbers(int rank, const int64_t *shape, uint64_t seed)
{
    neap_array *x = neap_random_uniform(neap_random_key(seed), rank, shape, -1, 1);
    ready(x);
    return x;
}

static neap_array *quantised(void)
{
    static uint8_t blocks[WIDTH * WIDTH / 32 * 34]; /* q8_0 */
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = i % 34 == 0 ? (uint8_t)(i * 7) : i % 34 == 1 ? 0x1c : (uint8_t)(i * 37 % 251);
    return neap_array_from(NEAP_Q8_0, 2, (int64_t[]){WIDTH, WIDTH}, blocks);
}

/* ---- the same graph at capacity and at T rows
 * --------------------------------------------------------- */

typedef neap_array *(*body)(neap_array *x, neap_array *weight);

static neap_array *elementwise_body(neap_array *x, neap_array *w)
{
    neap_array *row = neap_narrow(w, 0, 0, 1);
    return neap_mul(neap_silu(neap_add(x, row)), neap_where(neap_less(x, row), x, neap_exp(x)));
}

static neap_array *norm_body(neap_array *x, neap_array *w)
{
    return neap_softmax(neap_rms_norm(x, neap_squeeze(neap_narrow(w, 0, 1, 2), 0), 1e-5f), -1);
}

static neap_array *linear_body(neap_array *x, neap_array *w)
{
    return neap_add(neap_linear(x, quantised()), neap_linear(neap_cast(x, NEAP_BF16), w));
}

/* [T, H D] -> [H, T, D], turned, -> [T, H D] */
static neap_array *heads_body(neap_array *x, neap_array *w)
{
    (void)w;
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    o.offset = 3;
    o.offset_param = position;
    const int64_t split[3] = {x->shape[0], HEADS, WIDTH / HEADS}, joined[2] = {x->shape[0], WIDTH};
    neap_array *h = neap_rope(neap_swap_axes(neap_reshape(x, 3, split), 0, 1), &o);
    return neap_reshape(neap_contiguous(neap_swap_axes(h, 0, 1)), 2, joined);
}

static neap_array *attention_body(neap_array *x, neap_array *w)
{
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    const int64_t split[3] = {x->shape[0], HEADS, WIDTH / HEADS};
    neap_array *h = neap_swap_axes(neap_reshape(x, 3, split), 0, 1);
    neap_array *keys =
        neap_swap_axes(neap_reshape(w, 3, (int64_t[]){WIDTH, HEADS, WIDTH / HEADS}), 0, 1);
    o.causal = o.positions_first = true;
    return neap_attention(h, neap_narrow(keys, 0, 0, 2), neap_narrow(keys, 0, 2, 4), &o);
}

static neap_array *shapes_body(neap_array *x, neap_array *w)
{
    neap_array *y = neap_reshape(neap_expand_dims(x, 1), 3, (int64_t[]){x->shape[0], 8, WIDTH / 8});
    y = neap_concat(2, (neap_array *[]){y, neap_neg(y)}, 2);
    y = neap_slice_update(y, neap_scalar(NEAP_F32, 5), NULL, (int64_t[]){NEAP_END, 2, 3}, NULL);
    (void)w;
    return neap_slice(neap_transpose(y, (int[]){1, 0, 2}), (int64_t[]){7, NEAP_END, 1},
                      (int64_t[]){NEAP_END, NEAP_END, NEAP_END}, (int64_t[]){-2, 1, 3});
}

static neap_array *reduce_body(neap_array *x, neap_array *w)
{
    neap_array *y = neap_sum(neap_reshape(x, 3, (int64_t[]){x->shape[0], 8, WIDTH / 8}), 1, 0);
    y = neap_div(y, neap_max(x, 1, NEAP_KEEPDIMS));
    neap_array *folded = neap_reshape(x, 3, (int64_t[]){x->shape[0], 8, WIDTH / 8});
    y = neap_sub(y, neap_expand_dims(neap_var_axes(folded, 2, (int[]){1, 2}, 1, 0), 1));
    neap_array *index = neap_argmax(x, 1, 0);
    return neap_concat(2, (neap_array *[]){y, neap_take(w, index, 0)}, 1);
}

static const body bodies[] = {elementwise_body, norm_body,   linear_body, heads_body,
                              attention_body,   shapes_body, reduce_body};

/* The first T rows of `whole`, along the dimension that is `capacity` long there and T in `part`.
 */
static void assert_rows(const neap_array *whole, const neap_array *part)
{
    int64_t index[NEAP_MAX_RANK] = {0}, size = np_element_bytes((neap_dtype)part->dtype);
    const uint8_t *w = neap_array_data(whole), *p = neap_array_data(part);
    for (int64_t i = 0; i < np_size(part->rank, part->shape); i++, p += size) {
        int64_t offset = 0;
        for (int d = 0; d < part->rank; d++)
            offset += index[d] * whole->strides[d];
        assert_memory_equal(w + offset * size, p, (size_t)size);
        for (int d = part->rank - 1; d >= 0 && ++index[d] == part->shape[d]; d--)
            index[d] = 0;
    }
}

static void test_fewer_rows_than_planned(void **state)
{
    (void)state;
    neap_array *x = numbers(2, (int64_t[]){CAPACITY, WIDTH}, 1);
    neap_array *w = numbers(2, (int64_t[]){WIDTH, WIDTH}, 2);
    for (size_t b = 0; b < sizeof bodies / sizeof bodies[0]; b++) {
        neap_array *y = bodies[b](neap_limit(x, 0, rows), w);
        neap_plan *plan;
        if (!y || neap_plan_make(ctx, 1, &y, 2, (neap_param *[]){rows, position}, &plan) != NEAP_OK)
            fail_msg("body %zu: %s", b, neap_context_error(ctx));
        for (int64_t t = 2; t <= CAPACITY;
             t += 3) { /* one planned row would take the vector kernel */
            assert_int_equal(neap_plan_run(plan, (int64_t[]){t, 5}), NEAP_OK);
            neap_array *want = bodies[b](neap_narrow(x, 0, 0, t), w);
            ready(want);
            assert_rows(neap_plan_output(plan, 0), want);
        }
        assert_int_equal(neap_plan_run(plan, (int64_t[]){0, 5}), NEAP_OK);
        neap_plan_free(plan);
    }
}

static void test_the_last_row(void **state)
{
    (void)state;
    neap_array *x = numbers(2, (int64_t[]){CAPACITY, WIDTH}, 1);
    neap_array *y = neap_exp(neap_narrow_at(neap_neg(neap_limit(x, 0, rows)), 0, rows, -1, 1));
    neap_plan *plan;
    assert_non_null(y);
    assert_int_equal(neap_plan_make(ctx, 1, &y, 1, &rows, &plan), NEAP_OK);
    for (int64_t t = 1; t <= CAPACITY; t++) {
        assert_int_equal(neap_plan_run(plan, &t), NEAP_OK);
        assert_same_bits((neap_array *)(uintptr_t)neap_plan_output(plan, 0),
                         neap_exp(neap_neg(neap_narrow(x, 0, t - 1, t))));
    }
    int64_t none = 0;
    assert_int_not_equal(neap_plan_run(plan, &none), NEAP_OK); /* no row is the last */
    neap_context_clear_error(ctx);
    neap_plan_free(plan);
}

static void test_ids_and_rows_of_a_table(void **state)
{
    (void)state;
    int32_t ids[CAPACITY] = {3, 63, -1, 0, 9, 700, -700, 64};
    neap_array *table = numbers(2, (int64_t[]){WIDTH, 5}, 3);
    neap_array *list = neap_array_from(NEAP_I32, 1, (int64_t[]){CAPACITY}, ids);
    neap_array *y = neap_take(table, neap_limit(list, 0, rows), 0);
    neap_plan *plan;
    assert_int_equal(neap_plan_make(ctx, 1, &y, 1, &rows, &plan), NEAP_OK);
    int64_t t = 5;
    assert_int_equal(neap_plan_run(plan, &t), NEAP_OK); /* ids behind the fifth are not looked at */
    neap_array *want = neap_take(table, neap_narrow(list, 0, 0, 5), 0);
    ready(want);
    assert_rows(neap_plan_output(plan, 0), want);
    t = 6;
    assert_int_equal(neap_plan_run(plan, &t), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "index 700"));
    neap_context_clear_error(ctx);
    neap_plan_free(plan);
}

/* ---- states
 * -----------------------------------------------------------------------------------------------
 */

/* A cache of keys in groups and of values, as a model writes and reads it. */
static void test_a_cache_grows(void **state)
{
    (void)state;
    enum { HKV = 2, D = 8, ROOM = 48, T = 5 };
    neap_state *ks, *vs;
    neap_param *length;
    assert_int_equal(neap_param_new(ctx, "length", ROOM, &length), NEAP_OK);
    assert_int_equal(neap_state_new(ctx, "k", NEAP_F16, 4, (int64_t[]){HKV, ROOM / 16, D, 16}, &ks),
                     NEAP_OK);
    assert_int_equal(neap_state_new(ctx, "v", NEAP_F16, 3, (int64_t[]){HKV, ROOM, D}, &vs),
                     NEAP_OK);
    neap_array *kv = numbers(3, (int64_t[]){CAPACITY, HKV, D}, 4);
    neap_array *q = numbers(3, (int64_t[]){CAPACITY, 2 * HKV, D}, 5);
    neap_array *new_rows = neap_swap_axes(neap_limit(kv, 0, rows), 0, 1);
    neap_key_cache_write(neap_state_read(ks), new_rows, position);
    neap_array *room = neap_narrow_at(neap_state_read(vs), 1, position, 0, CAPACITY);
    neap_state_write(room, neap_neg(new_rows));
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    neap_array *y =
        neap_attention(neap_swap_axes(neap_limit(q, 0, rows), 0, 1), neap_state_read(ks),
                       neap_limit(neap_state_read(vs), 1, length), &o);
    neap_array *roots[2] = {y, neap_state_read(vs)};
    neap_plan *plan;
    if (neap_plan_make(ctx, 2, roots, 3, (neap_param *[]){rows, position, length}, &plan) !=
        NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    neap_array *all = NULL; /* [Hkv, positions, D] so far */
    for (int64_t at0 = 0; at0 < 40; at0 += T) {
        if (neap_plan_run(plan, (int64_t[]){T, at0, at0 + T}) != NEAP_OK)
            fail_msg("%s", neap_context_error(ctx));
        neap_array *part = neap_swap_axes(neap_narrow(kv, 0, 0, T), 0, 1);
        all = all ? neap_concat(2, (neap_array *[]){all, part}, 1) : part;
        neap_array *k = neap_cast(all, NEAP_F16);
        neap_array *want =
            neap_attention(neap_swap_axes(neap_narrow(q, 0, 0, T), 0, 1), k, neap_neg(k), &o);
        ready(want);
        assert_rows(neap_plan_output(plan, 0), want);
        const uint16_t *v = neap_array_data(neap_plan_output(plan, 1));
        for (int64_t p = at0 + T; p < ROOM; p++) /* what was not given is not written */
            assert_int_equal(v[p * D] | v[ROOM * D + p * D], 0);
    }
    assert_int_equal(neap_plan_run(plan, (int64_t[]){CAPACITY, 40, 48}), NEAP_OK); /* to the brim */
    neap_plan_free(plan);
    neap_param_free(length);
    neap_state_free(ks);
    neap_state_free(vs);
}

static void test_writes_past_the_end_are_refused(void **state)
{
    (void)state;
    neap_state *s;
    assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 3, (int64_t[]){2, 10, 3}, &s), NEAP_OK);
    neap_array *x = numbers(3, (int64_t[]){2, CAPACITY, 3}, 4);
    neap_array *room = neap_narrow_at(neap_state_read(s), 1, position, 0, CAPACITY);
    neap_array *write = neap_state_write(room, neap_limit(x, 1, rows));
    assert_non_null(write);
    neap_plan *plan;
    assert_int_equal(neap_plan_make(ctx, 1, &write, 2, (neap_param *[]){rows, position}, &plan),
                     NEAP_OK);
    assert_int_equal(neap_plan_run(plan, (int64_t[]){2, 8}), NEAP_OK);
    assert_int_equal(neap_plan_run(plan, (int64_t[]){0, 10}), NEAP_OK);
    assert_int_equal(neap_plan_run(plan, (int64_t[]){3, 8}), NEAP_ELIMIT);
    neap_context_clear_error(ctx);
    neap_plan_free(plan);
    assert_int_equal(neap_state_reset(s), NEAP_OK);
    /* The first head alone: behind its end lies the second one. */
    neap_array *head = neap_narrow(neap_state_read(s), 0, 0, 1);
    room = neap_narrow_at(head, 1, position, 0, CAPACITY);
    assert_refused(neap_exp(room), NEAP_EINVAL, "can only be written");
    assert_non_null(neap_exp(neap_narrow_at(neap_limit(head, 1, rows), 1, rows, -1, 1)));
    write = neap_state_write(room, neap_limit(neap_narrow(x, 0, 0, 1), 1, rows));
    assert_int_equal(neap_plan_make(ctx, 1, &write, 2, (neap_param *[]){rows, position}, &plan),
                     NEAP_OK);
    assert_int_equal(neap_plan_run(plan, (int64_t[]){2, 8}), NEAP_OK);
    assert_int_equal(neap_plan_run(plan, (int64_t[]){3, 8}), NEAP_ELIMIT);
    assert_non_null(
        strstr(neap_context_error(ctx), "rows 8 to 10 (position = 8), the state has 10"));
    neap_context_clear_error(ctx);
    neap_plan_free(plan);
    assert_int_equal(neap_state_reset(s), NEAP_OK);
    neap_state_free(s);
}

/* ---- what cannot be
 * ------------------------------------------------------------------------------------------ */

static void test_refusals(void **state)
{
    (void)state;
    const int64_t shape[2] = {CAPACITY, WIDTH};
    neap_param *other;
    assert_int_equal(neap_param_new(ctx, "other", CAPACITY, &other), NEAP_OK);
    neap_array *x = neap_limit(neap_full(2, shape, 1, NEAP_F32), 0, rows),
               *y = neap_full(2, shape, 1, NEAP_F32);
    const char *text = "set at run time";
    assert_refused(neap_limit(y, 0, position), NEAP_ESHAPE, "axis 0 has 8, position can be 40");
    assert_refused(neap_limit(y, 0, NULL), NEAP_ESHAPE, "no parameter");
    assert_refused(neap_limit(x, 1, rows), NEAP_EUNSUPPORTED, "can have one");
    assert_ptr_equal(neap_limit(x, 0, rows), x);
    assert_refused(neap_add(x, y), NEAP_ESHAPE, text);
    assert_refused(neap_add(x, neap_limit(y, 0, other)), NEAP_ESHAPE, text);
    assert_refused(neap_reshape(x, 1, (int64_t[]){-1}), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_narrow(x, 0, 0, 4), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_slice(x, (int64_t[]){1, 0}, NULL, NULL), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_broadcast_to(x, 2, (int64_t[]){4, WIDTH}), NEAP_ESHAPE,
                   "does not broadcast");
    assert_refused(neap_softmax(x, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_rms_norm(neap_transpose(x, NULL), NULL, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_concat(2, (neap_array *[]){x, x}, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_pad(x, (int64_t[]){0, 1}, (int64_t[]){0, 0}, 0), NEAP_EUNSUPPORTED, text);
    assert_refused(neap_take(x, neap_full(1, (int64_t[]){2}, 0, NEAP_I32), 0), NEAP_EUNSUPPORTED,
                   text);
    assert_refused(neap_matmul(x, neap_transpose(neap_limit(y, 0, other), NULL)), NEAP_EUNSUPPORTED,
                   text);
    assert_refused(
        neap_linear(neap_limit(neap_full(3, (int64_t[]){2, 8, 64}, 1, NEAP_F32), 1, rows),
                    quantised()),
        NEAP_EUNSUPPORTED, text);
    assert_refused(neap_narrow_at(y, 0, position, 0, 1), NEAP_ESHAPE,
                   "1 elements at position (at most 40)");
    assert_refused(neap_narrow_at(y, 0, rows, -1, 1), NEAP_ESHAPE, "-1 of axis 0");
    assert_refused(neap_narrow_at(y, 0, NULL, 0, 1), NEAP_EINVAL, "no parameter");
    assert_refused(neap_narrow_at(neap_narrow_at(x, 0, rows, -1, 1), 1, rows, 0, 1),
                   NEAP_EUNSUPPORTED, "stands at parameter rows already");
    assert_refused(neap_random_categorical(neap_random_key(1), x), NEAP_EUNSUPPORTED, text);
    neap_param_free(other);
}

/* Sums over the extent itself count the rows that there are. */
static void test_reductions_over_the_extent(void **state)
{
    (void)state;
    neap_array *x = neap_limit(neap_full(2, (int64_t[]){CAPACITY, 3}, 2, NEAP_F32), 0, rows);
    neap_array *product = neap_matmul(neap_transpose(x, NULL), x);
    neap_array *roots[4] = {neap_sum(x, 0, 0), neap_sum_all(x), neap_max(x, 0, 0), product};
    neap_plan *plan;
    assert_int_equal(neap_plan_make(ctx, 4, roots, 1, &rows, &plan), NEAP_OK);
    int64_t t = 3;
    assert_int_equal(neap_plan_run(plan, &t), NEAP_OK);
    assert_true(((const float *)neap_array_data(neap_plan_output(plan, 0)))[2] == 6);
    assert_true(((const float *)neap_array_data(neap_plan_output(plan, 1)))[0] == 18);
    assert_true(((const float *)neap_array_data(neap_plan_output(plan, 3)))[8] == 12);
    t = 0;
    assert_int_equal(neap_plan_run(plan, &t), NEAP_ESHAPE);
    assert_non_null(strstr(neap_context_error(ctx), "axis 0 has extent 0 in this run"));
    neap_context_clear_error(ctx);
    neap_plan_free(plan);
}

/* Over all axes, of which one has the extent: axis after axis, halves in f32. */
static void test_all_axes_with_the_extent(void **state)
{
    (void)state;
    static float ones[CAPACITY * 3000];
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        ones[i] = 1;
    neap_array *x = neap_array_from(NEAP_F32, 3, (int64_t[]){3, CAPACITY, 1000}, ones);
    x = neap_limit(neap_cast(x, NEAP_BF16), 1, rows);
    neap_array *roots[4] = {neap_sum_axes(x, 0, NULL, 0), neap_mean_axes(x, 0, NULL, NEAP_KEEPDIMS),
                            neap_all_axes(x, 0, NULL, 0), neap_max_axes(x, 2, (int[]){0, 1}, 0)};
    neap_plan *plan;
    assert_int_equal(neap_plan_make(ctx, 4, roots, 1, &rows, &plan), NEAP_OK);
    assert_int_equal(roots[0]->dtype, NEAP_BF16);
    assert_int_equal(roots[1]->rank, 3);
    int64_t t = 3;
    assert_int_equal(neap_plan_run(plan, &t), NEAP_OK);
    /* 9000 in bf16; steps of 64 there */
    assert_int_equal(*(const uint16_t *)neap_array_data(neap_plan_output(plan, 0)), 0x460d);
    assert_int_equal(*(const uint16_t *)neap_array_data(neap_plan_output(plan, 1)), 0x3f80);
    assert_int_equal(*(const uint8_t *)neap_array_data(neap_plan_output(plan, 2)), 1);
    neap_plan_free(plan);
    assert_null(neap_var_axes(x, 0, NULL, 0, 0)); /* needs them as one dimension */
    assert_int_equal(neap_context_status(ctx), NEAP_EUNSUPPORTED);
    neap_context_clear_error(ctx);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_params, close_params)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fewer_rows_than_planned),
        TEST(test_the_last_row),
        TEST(test_ids_and_rows_of_a_table),
        TEST(test_a_cache_grows),
        TEST(test_writes_past_the_end_are_refused),
        TEST(test_refusals),
        TEST(test_reductions_over_the_extent),
        TEST(test_all_axes_with_the_extent),
    };
    return cmocka_run_group_tests_name("ops_dynamic", tests, NULL, NULL);
}
