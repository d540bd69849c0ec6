/* test_ops_faults.c - faults of ops that users of such software have met, each as its kind: halves
 * summed in halves, rows of -inf, 2^31 elements, empty shapes, aliased updates, extents set at run
 * time, many lanes, and allocations that fail. Expected values are by hand or plain loops. */
#include "ops_fixture.h"

#include "ops/support.h"

/* ---- accumulators
 * --------------------------------------------------------------------------------- */

static void test_sums_of_halves_accumulate_in_floats(void **state)
{
    (void)state;
    int64_t n[1] = {20000}, m[1] = {70000}, columns[2] = {70000, 3}, rows[2] = {3, 70000};
    assert_all(neap_sum(neap_full(1, n, 1, NEAP_F16), 0, 0), 20000);
    assert_all(neap_sum(np_copied(neap_full(1, n, 1, NEAP_F16)), 0, 0), 20000);
    assert_all(neap_sum(np_copied(neap_full(1, m, 1, NEAP_BF16)), 0, 0), 70144); /* nearest bf16 */
    assert_all(neap_sum_all(np_copied(neap_full(1, m, 1, NEAP_BF16))), 70144);
    for (int i = 0; i < 2; i++) {
        neap_dtype dtype = i ? NEAP_F16 : NEAP_BF16;
        assert_all(neap_mean(np_copied(neap_full(1, m, 1, dtype)), 0, 0), 1);
        assert_all(neap_mean(np_copied(neap_full(2, columns, 1, dtype)), 0, 0), 1);
        assert_all(neap_mean(np_copied(neap_full(2, rows, 1, dtype)), 1, 0), 1);
        assert_all(neap_mean(neap_transpose(np_copied(neap_full(2, rows, 1, dtype)), NULL), 0, 0),
                   1);
    }
    assert_all(neap_sum(np_copied(neap_full(1, m, 1, NEAP_F16)), 0, 0), INFINITY);
}

static void test_variance_of_offset_data(void **state)
{
    (void)state;
    float x[10000];
    for (int i = 0; i < 10000; i++)
        x[i] = i % 2 ? 1000020.0f : 1000000.0f;
    neap_array *y = neap_layer_norm(vector(10000, x), NULL, NULL, 0);
    ready(y);
    for (int i = 0; i < 10000; i += 999)
        assert_float_equal(at(y, i), (i % 2 ? 1 : -1), 1e-3); /* (x - mean) / sqrt(100) */
}

/* ---- infinities
 * ------------------------------------------------------------------------------------ */

static void test_rows_of_minus_infinity_are_zero_at_every_length(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 1025; n += n < 140 ? 1 : 59) {
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        int64_t shape[2] = {2, n}, kv[3] = {1, n, 4}, q[3] = {1, 1, 4}, mask[2] = {1, n};
        assert_all(neap_softmax(np_copied(neap_full(2, shape, -INFINITY, NEAP_F32)), 1), 0);
        neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
        o.mask = neap_full(2, mask, 0, NEAP_BOOL);
        neap_array *v = ramp(3, kv, 1, 0.25);
        assert_all(neap_attention(ramp(3, q, 1, 1), v, v, &o), 0);
        o.mask = neap_full(2, mask, -INFINITY, NEAP_F32);
        assert_all(neap_attention(ramp(3, q, 1, 1), v, v, &o), 0);
        neap_scope_pop(ctx);
    }
}

/* ---- more than 2^31 elements
 * ------------------------------------------------------------------------- */

static void test_indices_are_64_bit(void **state)
{
    (void)state;
    int64_t huge[2] = {65536, 65537}, tall[2] = {(int64_t)1 << 30, 2}, flat[1] = {-1};
    neap_array *one = neap_full(0, NULL, 1, NEAP_U8);
    neap_array *sum = neap_sum_all(neap_broadcast_to(one, 2, huge));
    ready(sum);
    int64_t total;
    assert_int_equal(neap_array_read(sum, &total, 8), NEAP_OK);
    assert_int_equal(total, 4295032832);
    neap_array *long_one = neap_reshape(neap_broadcast_to(one, 2, tall), 1, flat);
    assert_non_null(long_one);
    assert_int_equal(neap_array_size(long_one), 2147483648);
    int64_t rows = 32775, wide[2] = {rows, 65536}, column[2] = {rows, 1};
    uint8_t *r = malloc((size_t)rows);
    for (int64_t i = 0; i < rows; i++)
        r[i] = (uint8_t)(i % 251);
    neap_array *x = neap_broadcast_to(neap_array_from(NEAP_U8, 2, column, r), 2, wide);
    free(r);
    neap_array *largest = neap_max(neap_narrow(x, 1, 7, NEAP_END), 1, 0);
    ready(largest);
    for (int64_t i = 0; i < rows; i += 97)
        assert_int_equal(at(largest, i), i % 251);
    int64_t over[3] = {(int64_t)1 << 31, (int64_t)1 << 31, 2};
    assert_refused(neap_broadcast_to(one, 3, over), NEAP_ESHAPE, "at most 2^62");
    int64_t side[2] = {(int64_t)1 << 40, 1}, other[2] = {1, (int64_t)1 << 40};
    assert_refused(neap_add(neap_broadcast_to(one, 2, side), neap_broadcast_to(one, 2, other)),
                   NEAP_ELIMIT, "more than 2^62");
}

/* ---- rope and attention conventions
 * --------------------------------------------------------------- */

static void test_rope_turns_every_row_of_a_batch(void **state)
{
    (void)state;
    const float want[8] = {1.2395858f, .9382365f, .6807548f, 1.0581645f,
                           1.2395858f, .9382365f, .6807548f, 1.0581645f};
    const int64_t shape[4] = {2, 1, 1, 4}, flat[3] = {2, 1, 4}, turned[4] = {4, 1, 1, 2};
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    o.offset = 6;
    neap_array *ones = neap_full(4, shape, 1, NEAP_F32);
    assert_floats(neap_rope(np_copied(ones), &o), 8, want, 2e-7);
    assert_floats(neap_rope(neap_exp(neap_sub(ones, ones)), &o), 8, want, 2e-7); /* in place */
    assert_floats(neap_rope(ones, &o), 8, want, 2e-7);                          /* broadcast */
    assert_floats(neap_rope(neap_transpose(np_copied(neap_full(4, turned, 1, NEAP_F32)), NULL), &o),
                  8, want, 2e-7);
    assert_floats(neap_rope(neap_reshape(ones, 3, flat), &o), 8, want, 2e-7);
    o.offset = 0;
    o.positions = neap_array_from(NEAP_I32, 2, (int64_t[]){2, 1}, (int32_t[]){6, 6});
    assert_floats(neap_rope(ones, &o), 8, want, 2e-7);
    o.positions = NULL;
    neap_param *p;
    assert_int_equal(neap_param_new(ctx, "offset", 100, &p), NEAP_OK);
    neap_param_set(p, 4);
    o.offset = 2;
    o.offset_param = p;
    assert_floats(neap_rope(ones, &o), 8, want, 2e-7);
    neap_param_free(p);
}

static void test_causal_is_lower_right(void **state)
{
    (void)state;
    const int64_t q[3] = {1, 2, 1}, k[3] = {1, 4, 1};
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    neap_array *v = ramp(3, k, 0, 1), *zero = neap_full(3, k, 0, NEAP_F32);
    assert_floats(neap_attention(neap_full(3, q, 0, NEAP_F32), zero, v, &o), 2, (float[]){1, 1.5f},
                  1e-6);
}

/* ---- aliases
 * ------------------------------------------------------------------------------------------ */

static void test_updates_through_reversed_views(void **state)
{
    (void)state;
    const float x[6] = {0, 1, 2, 3, 4, 5};
    const int64_t n[1] = {6}, open[1] = {NEAP_END}, back[1] = {-1}, back2[1] = {-2}, two[1] = {2};
    neap_array *r = neap_slice(vector(6, x), NULL, NULL, back),
               *base = neap_full(1, n, 0, NEAP_F32);
    neap_array *twice = neap_add(r, r);
    assert_floats(neap_slice_update(base, twice, open, open, back), 6, (float[]){0, 2, 4, 6, 8, 10},
                  0);
    neap_array *half = neap_full(0, NULL, 7, NEAP_F32);
    assert_floats(neap_slice_update(np_copied(base), half, open, open, back2), 6,
                  (float[]){0, 7, 0, 7, 0, 7}, 0);
    assert_floats(neap_slice_update(np_copied(base), half, open, open, two), 6,
                  (float[]){7, 0, 7, 0, 7, 0}, 0);
    neap_array *y = np_copied(vector(6, x)); /* the update looks at what is overwritten */
    assert_floats(neap_slice_update(y, neap_slice(y, NULL, NULL, back), open, open, NULL), 6,
                  (float[]){5, 4, 3, 2, 1, 0}, 0);
}

static void test_sums_with_an_own_transpose(void **state)
{
    (void)state;
    const int64_t shape[2] = {40, 40};
    neap_array *x = neap_mul(ramp(2, shape, 0, 1), neap_scalar(NEAP_F32, 1));
    neap_array *y = neap_add(x, neap_transpose(x, NULL));
    ready(y);
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < 40; j += 7)
            assert_true(at(y, i * 40 + j) == 41 * (i + j));
}

static void test_a_state_written_with_its_own_view(void **state)
{
    (void)state;
    const int64_t shape[2] = {3, 3};
    neap_state *s;
    assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 2, shape, &s), NEAP_OK);
    neap_state_write(neap_state_read(s), ramp(2, shape, 0, 1));
    neap_state_write(neap_state_read(s), neap_transpose(neap_state_read(s), NULL));
    assert_floats(neap_contiguous(neap_state_read(s)), 9, (float[]){0, 3, 6, 1, 4, 7, 2, 5, 8}, 0);
    neap_array *write = neap_state_write(neap_state_read(s), neap_full(2, shape, 1, NEAP_F32));
    assert_non_null(write);
    assert_refused(neap_add(write, write), NEAP_EINVAL, "gives no value");
    assert_refused(neap_state_write(ramp(2, shape, 0, 1), ramp(2, shape, 0, 1)), NEAP_EINVAL,
                   "no state, nor a view of one");
    assert_refused(neap_state_write(neap_broadcast_to(neap_narrow(neap_state_read(s), 0, 0, 1), 2,
                                                      shape), ramp(2, shape, 0, 1)),
                   NEAP_EINVAL, "broadcast along dimension 0");
    neap_state_free(s);
}

/* ---- NULL, no scope, options
 * ---------------------------------------------------------------------------- */

static void test_null_passes_through(void **state)
{
    (void)state;
    neap_array *x = neap_scalar(NEAP_F32, 1), *out[2];
    const int64_t one[1] = {1};
    neap_param *p;
    assert_int_equal(neap_param_new(ctx, "p", 1, &p), NEAP_OK);
    assert_null(neap_neg(NULL));
    assert_null(neap_add(NULL, x));
    assert_null(neap_add(x, NULL));
    assert_null(neap_where(x, NULL, x));
    assert_null(neap_clip(NULL, x, x));
    assert_null(neap_cast(NULL, NEAP_F32));
    assert_null(neap_sum(NULL, 0, 0));
    assert_null(neap_mean(NULL, 0, 0));
    assert_null(neap_sum_all(NULL));
    assert_null(neap_softmax(NULL, 0));
    assert_null(neap_rms_norm(NULL, x, 0));
    assert_null(neap_layer_norm(NULL, x, x, 0));
    assert_null(neap_rope(NULL, NULL));
    assert_null(neap_attention(NULL, x, x, NULL));
    assert_null(neap_matmul(x, NULL));
    assert_null(neap_linear(NULL, x));
    assert_null(neap_reshape(NULL, 1, one));
    assert_null(neap_transpose(NULL, NULL));
    assert_null(neap_swap_axes(NULL, 0, 0));
    assert_null(neap_broadcast_to(NULL, 1, one));
    assert_null(neap_expand_dims(NULL, 0));
    assert_null(neap_squeeze(NULL, 0));
    assert_null(neap_slice(NULL, one, one, one));
    assert_null(neap_narrow(NULL, 0, 0, 0));
    assert_null(neap_narrow_at(NULL, 0, p, 0, 1));
    assert_null(neap_limit(NULL, 0, p));
    assert_null(neap_slice_update(NULL, x, one, one, one));
    assert_null(neap_concat(2, (neap_array *[]){x, NULL}, 0));
    assert_null(neap_pad(NULL, one, one, 0));
    assert_null(neap_contiguous(NULL));
    assert_null(neap_take(NULL, x, 0));
    assert_null(neap_key_cache_write(NULL, x, p));
    assert_null(neap_state_write(NULL, x));
    assert_null(neap_random_uniform(NULL, 1, one, 0, 1));
    assert_null(neap_random_categorical(NULL, x));
    assert_null(neap_depends(x, NULL));
    assert_null(neap_depends(NULL, x));
    assert_int_not_equal(neap_split(NULL, 2, 0, out), 12345);
    assert_null(out[0]);
    assert_int_equal(neap_context_status(ctx), NEAP_OK); /* nothing of this is an error by itself */
    neap_param_free(p);
}

static void test_an_error_stays_the_first_one(void **state)
{
    (void)state;
    const int64_t shape[1] = {3}, other[1] = {4};
    neap_array *bad = neap_add(neap_full(1, shape, 0, NEAP_F32), neap_full(1, other, 0, NEAP_F32));
    neap_array *after = neap_matmul(neap_silu(bad), neap_exp(neap_full(1, shape, 0, NEAP_F32)));
    assert_null(after);
    assert_int_equal(neap_eval(after), NEAP_ESHAPE);
    assert_non_null(strstr(neap_context_error(ctx), "add(f32 [3], f32 [4]): extents 3 and 4"));
    neap_context_clear_error(ctx);
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    o.size = 1000;
    assert_refused(neap_rope(neap_full(2, (int64_t[]){2, 4}, 0, NEAP_F32), &o), NEAP_EINVAL,
                   "options of size 1000");
}

static void test_without_a_scope_ops_give_null(void **state)
{
    (void)state;
    neap_array *x = neap_retain(neap_scalar(NEAP_F32, 1));
    neap_scope_pop(ctx);
    assert_null(neap_exp(x));
    assert_null(neap_add(x, x));
    assert_null(neap_reshape(x, 0, NULL));
    assert_null(neap_reshape(x, 9, NULL));
    assert_null(neap_arange(0, 1, 0, NEAP_F32));
    assert_null(neap_scalar(NEAP_F32, 1));
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    neap_release(x);
}

static void test_scalars(void **state)
{
    (void)state;
    assert_all(neap_scalar(NEAP_U8, 300), 255);
    assert_all(neap_scalar(NEAP_I8, -1e30), -128);
    assert_all(neap_scalar(NEAP_U32, NAN), 0);
    assert_all(neap_scalar(NEAP_I64, 9007199254740991.0), 9007199254740991.0);
    assert_all(neap_scalar(NEAP_BOOL, 1e-300), 1);
    assert_all(neap_scalar(NEAP_BF16, 1.00390625), 1); /* half way to the next: even */
    assert_refused(neap_scalar(NEAP_Q4_0, 1), NEAP_EDTYPE, "scalar()");
}

/* Quantised weights are for linear and take only. */
static void test_quantised_weights_are_no_operands(void **state)
{
    (void)state;
    uint8_t blocks[2 * 18] = {0};
    neap_array *w = neap_array_from(NEAP_Q4_0, 2, (int64_t[]){2, 32}, blocks), *parts[2];
    const char *text = "quantised weights";
    assert_refused(neap_neg(w), NEAP_EDTYPE, text);
    assert_refused(neap_cast(w, NEAP_F32), NEAP_EDTYPE, text);
    assert_refused(neap_sum(w, 0, 0), NEAP_EDTYPE, text);
    assert_refused(neap_softmax(w, 0), NEAP_EDTYPE, text);
    assert_refused(neap_matmul(w, w), NEAP_EDTYPE, text);
    assert_refused(neap_linear(w, w), NEAP_EDTYPE, text);
    assert_refused(neap_reshape(w, 1, (int64_t[]){64}), NEAP_EDTYPE, text);
    assert_refused(neap_narrow(w, 0, 0, 1), NEAP_EDTYPE, text);
    assert_refused(neap_concat(2, (neap_array *[]){w, w}, 0), NEAP_EDTYPE, text);
    assert_int_equal(neap_split(w, 2, 0, parts), NEAP_EDTYPE);
    neap_context_clear_error(ctx);
    assert_ptr_equal(neap_contiguous(w), w);
}

/* ---- allocations that fail
 * ------------------------------------------------------------------------------ */

static neap_status split_status; /* told by that call: nothing is stored */

static neap_array *a_bit_of_everything(neap_context *c, neap_state *s)
{
    const int64_t shape[3] = {2, 4, 8}, start[3] = {0, 1, 0}, stop[3] = {2, 3, 8};
    (void)c;
    neap_array *x = neap_arange(0, 64, 1, NEAP_F32), *parts[2] = {NULL, NULL};
    x = neap_softmax(neap_reshape(x, 3, shape), 1);
    split_status = neap_split(x, 2, 1, parts);
    x = neap_concat(2, parts, 2);
    x = neap_matmul(x, neap_swap_axes(neap_rms_norm(x, NULL, 1e-5f), 1, 2));
    x = neap_pad(neap_cast(x, NEAP_F16), (int64_t[]){0, 1, 1}, (int64_t[]){0, 1, 5}, 1);
    x = neap_slice_update(x, neap_scalar(NEAP_F32, 2), start, stop, NULL);
    x = neap_attention(x, x, neap_exp(x), NULL);
    neap_state_write(neap_state_read(s), x);
    return neap_sum_all(neap_add(x, neap_state_read(s)));
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    bool done = false;
    for (int64_t n = 1; !done && n < 2000; n++) {
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        neap_context *c;
        neap_state *s = NULL;
        o.threads = 1;
        o.fail_allocation = n;
        if (neap_context_new(&o, &c) != NEAP_OK)
            continue;
        neap_status status = neap_scope_push(c);
        if (status == NEAP_OK) {
            status = neap_state_new(c, "s", NEAP_F16, 3, (int64_t[]){2, 4, 8}, &s);
            neap_array *root = status == NEAP_OK ? a_bit_of_everything(c, s) : NULL;
            if (status == NEAP_OK)
                status = split_status == NEAP_OK ? neap_eval(root) : split_status;
            neap_scope_pop(c);
        }
        assert_true(status == NEAP_OK || status == NEAP_ENOMEM);
        done = status == NEAP_OK;
        neap_state_free(s);
        neap_context_trim(c);
        neap_memory_info m = NEAP_MEMORY_INFO_INIT;
        neap_context_memory(c, &m);
        assert_int_equal(m.active_by_category[NEAP_MEM_STATE], 0);
        assert_int_equal(m.active_by_category[NEAP_MEM_ACTIVATIONS], 0);
        neap_context_free(c);
    }
    assert_true(done);
}

/* ---- lanes
 * ------------------------------------------------------------------------------------------------
 */

static neap_array *many(int64_t rows, int64_t columns)
{
    const int64_t shape[2] = {rows, columns};
    return neap_random_uniform(neap_random_key(5), 2, shape, -2, 2);
}

/* By groups, or (0) with other channels out than in; over lines of 30 by 10. */
static neap_array *lane_conv(int groups, bool transposed)
{
    neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
    int64_t channels = groups ? 64 / groups : 64, shape[4] = {40, 3, 3, channels};
    shape[0] = groups ? 64 : shape[0];
    o.spatial = 2;
    o.stride[0] = o.padding[0] = 2;
    o.padding[1] = 1;
    o.groups = groups ? groups : 1;
    o.transposed = transposed;
    neap_array *x = neap_reshape(many(300, 64), 4, (int64_t[]){1, 30, 10, 64});
    neap_array *w = neap_reshape(many(shape[0], 9 * channels), 4, shape);
    return neap_conv(neap_cast(x, NEAP_BF16), neap_cast(w, NEAP_BF16), &o);
}

enum { LANE_CASES = 19 };

/* Results large enough to be shared out. */
static neap_array *lane_case(int i)
{
    neap_array *x = many(300, 257);
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    switch (i) {
    case 0: return neap_gelu(x);
    case 1: return neap_add(neap_transpose(many(257, 300), NULL), x);
    case 2: return neap_mul(neap_narrow(x, 1, 0, 3), neap_narrow(x, 1, 5, 8));
    case 3: return neap_sum(x, 0, 0);
    case 4: return neap_sum(x, 1, 0);
    case 5: return neap_argmax(neap_reshape(many(300, 256), 3, (int64_t[]){4, 300, 64}), 1, 0);
    case 6: return neap_softmax(x, 0);
    case 7: return neap_rms_norm(x, NULL, 1e-5f);
    case 8: return np_copied(neap_transpose(x, NULL));
    case 9:
        return neap_take(
            x, neap_cast(neap_mul(neap_narrow(x, 1, 0, 1), neap_scalar(NEAP_F32, 140)), NEAP_I32),
            0);
    case 10: return neap_rope(neap_reshape(many(300, 256), 3, (int64_t[]){4, 300, 64}), &o);
    case 11: return neap_matmul(x, neap_transpose(x, NULL));
    case 12: return neap_random_categorical(neap_random_key(8), x);
    case 13: return lane_conv(0, false);
    case 14: return lane_conv(0, true);
    case 15: return lane_conv(2, true);
    case 16: return lane_conv(64, false);
    case 17: return neap_addmm(x, x, many(257, 257), 0.5f, 2);
    default: return neap_concat(3, (neap_array *[]){x, neap_cast(x, NEAP_F16), x}, 1);
    }
}

static void test_lanes_change_no_bit(void **state)
{
    (void)state;
    static uint8_t want[1 << 20], got[1 << 20];
    for (int i = 0; i < LANE_CASES; i++) {
        for (int threads = 1; threads <= 5; threads += 2) {
            neap_context *c = open_context((*np_kernels_available())->isa, threads);
            assert_int_equal(neap_scope_push(c), NEAP_OK);
            neap_array *y = lane_case(i);
            if (!y || neap_eval(y) != NEAP_OK)
                fail_msg("case %d: %s", i, neap_context_error(c));
            uint64_t n = neap_array_bytes(y);
            assert_true(n <= sizeof want);
            assert_int_equal(neap_array_read(y, threads == 1 ? want : got, n), NEAP_OK);
            if (threads > 1 && memcmp(want, got, n) != 0)
                fail_msg("case %d: other bits with %d threads", i, threads);
            neap_scope_pop(c);
            neap_context_free(c);
        }
    }
}

/* ---- memory of convolutions
 * ---------------------------------------------------------------------------------------------- */

/* All patches would be 18 MB here, and x comes as a transposed view. */
static void test_convolutions_hold_no_patches(void **state)
{
    (void)state;
    const int64_t x[3] = {4, 512, 3000}, w[3] = {512, 3, 512};
    neap_array *in = neap_swap_axes(neap_array_zeros(NEAP_BF16, 3, x), 1, 2);
    neap_array *weights = neap_array_zeros(NEAP_BF16, 3, w);
    for (int transposed = 0; transposed < 2; transposed++) {
        neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
        o.stride[0] = 2;
        o.padding[0] = 1;
        o.transposed = transposed;
        neap_array *y = neap_conv(in, weights, &o);
        neap_plan *plan;
        neap_plan_info info = NEAP_PLAN_INFO_INIT;
        assert_int_equal(neap_plan_make(ctx, 1, &y, 0, NULL, &plan), NEAP_OK);
        neap_plan_describe(plan, &info);
        assert_int_equal(info.steps, 1);
        assert_true(info.arena_bytes <= 2 << 20);
        neap_plan_free(plan);
    }
}

/* ---- large strided copies against plain loops
 * --------------------------------------------------------------- */

static void test_copies_of_every_order(void **state)
{
    (void)state;
    enum { A = 17, B = 35, C = 70 };
    static const int orders[6][3] = {
        {0, 1, 2},
        {0, 2, 1},
        {1, 0, 2},
        {1, 2, 0},
        {2, 0, 1},
        {2, 1, 0}
    };
    static const int64_t shape[3] = {A, B, C}, strides[3] = {B * C, C, 1};
    for (int o = 0; o < 6; o++) {
        neap_array *y = np_copied(neap_transpose(ramp(3, shape, 0, 1), orders[o]));
        ready(y);
        const float *got = neap_array_data(y);
        const int64_t *n = neap_array_shape(y);
        for (int64_t i = 0; i < n[0]; i++)
            for (int64_t j = 0; j < n[1]; j++)
                for (int64_t k = 0; k < n[2]; k++, got++)
                    if (*got != (float)(i * strides[orders[o][0]] + j * strides[orders[o][1]] +
                                        k * strides[orders[o][2]]))
                        fail_msg("order %d at %d %d %d", o, (int)i, (int)j, (int)k);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sums_of_halves_accumulate_in_floats),
        TEST(test_variance_of_offset_data),
        TEST(test_rows_of_minus_infinity_are_zero_at_every_length),
        TEST(test_indices_are_64_bit),
        TEST(test_rope_turns_every_row_of_a_batch),
        TEST(test_causal_is_lower_right),
        TEST(test_updates_through_reversed_views),
        TEST(test_sums_with_an_own_transpose),
        TEST(test_a_state_written_with_its_own_view),
        TEST(test_null_passes_through),
        TEST(test_an_error_stays_the_first_one),
        TEST(test_without_a_scope_ops_give_null),
        TEST(test_scalars),
        TEST(test_quantised_weights_are_no_operands),
        TEST(test_every_allocation_may_fail),
        TEST(test_lanes_change_no_bit),
        TEST(test_convolutions_hold_no_patches),
        TEST(test_copies_of_every_order),
    };
    return cmocka_run_group_tests_name("ops_faults", tests, NULL, NULL);
}
