/* test_sequence_cache.c - keys and values outside the graph (UpdateAndAttend): flat and ring caches
 * against attention written as loops in double, growth, wrapping, limits, reset. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>

#include "unit/program_cases.h"

/* attend.pte: four heads of queries over two of keys and values. */
enum { HEADS = 4, KV = 2, WIDTH = 4, MOST = 800 };

static neap_context *ctx;
static neap_program *program;
static neap_handle *handle;
static float all_k[MOST][KV][WIDTH], all_v[MOST][KV][WIDTH]; /* what was written, by position */

static int set_up(void **state)
{
    (void)state;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        return -1;
    return open_program(ctx, "attend", &program) == NEAP_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    neap_handle_close(handle);
    neap_program_close(program);
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    neap_context_free(ctx);
    handle = NULL;
    return m.active_by_category[NEAP_MEM_STATE] == 0 ? 0 : -1;
}

static neap_sequence_cache_options cache_options(int64_t capacity)
{
    neap_sequence_cache_options o = NEAP_SEQUENCE_CACHE_OPTIONS_INIT;
    o.capacity = capacity;
    o.layers = 1;
    o.kv_heads = KV;
    o.head_dim = WIDTH;
    return o;
}

static void open_with(const neap_sequence_cache_options *o)
{
    neap_option option = {"cache_key", NEAP_OPTION_STRING, 0, "kv"};
    neap_handle_options h = NEAP_HANDLE_OPTIONS_INIT;
    h.n_options = 1;
    h.options = &option;
    if (neap_program_install_cache(program, "kv", o) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    assert_int_equal(neap_handle_open(program, 0, &h, &handle), NEAP_OK);
}

static float number(int64_t position, int i)
{
    uint32_t x = (uint32_t)position * 2654435761u + (uint32_t)i * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    return (float)(x >> 16) / 32768.0f - 1.0f;
}

typedef struct step_data {
    float q[HEADS * MOST * WIDTH], k[KV * MOST * WIDTH], v[KV * MOST * WIDTH];
} step_data;
static step_data data;

static void fill(int64_t at, int64_t n)
{
    for (int64_t t = 0; t < n; t++)
        for (int d = 0; d < WIDTH; d++) {
            for (int h = 0; h < HEADS; h++)
                data.q[(h * n + t) * WIDTH + d] = 2 * number(at + t, h * WIDTH + d);
            for (int h = 0; h < KV; h++) {
                float k = number(at + t, 100 + h * WIDTH + d), v = number(at + t, 200 + h * WIDTH + d);
                data.k[(h * n + t) * WIDTH + d] = k;
                data.v[(h * n + t) * WIDTH + d] = v;
                if (at + t >= 0 && at + t < MOST) {
                    all_k[at + t][h][d] = k;
                    all_v[at + t][h][d] = v;
                }
            }
        }
}

static neap_value tensor(const float *at, int heads, int64_t n)
{
    return (neap_value){.kind = NEAP_VALUE_TENSOR, .dtype = NEAP_F32, .rank = 4,
                        .shape = {1, heads, n, WIDTH}, .data = at};
}

static neap_status execute(int64_t at, int64_t n, neap_value *out)
{
    fill(at, n);
    neap_value in[4] = {tensor(data.q, HEADS, n), tensor(data.k, KV, n), tensor(data.v, KV, n),
                        {.kind = NEAP_VALUE_TENSOR, .dtype = NEAP_I64, .rank = 1, .shape = {1},
                         .data = &at}};
    memset(out, 0, sizeof *out);
    return neap_handle_execute(handle, 4, in, 1, out);
}

/* Query head h at position p over positions first..p. */
static void attention(int64_t p, int64_t first, int h, const float *q, double *out)
{
    static double weight[MOST];
    double most = -INFINITY, sum = 0;
    int kv = h / (HEADS / KV);
    for (int64_t j = first; j <= p; j++) {
        weight[j] = 0;
        for (int d = 0; d < WIDTH; d++)
            weight[j] += 0.5 * (double)q[d] * (double)all_k[j][kv][d];
        most = weight[j] > most ? weight[j] : most;
    }
    for (int64_t j = first; j <= p; j++)
        sum += weight[j] = exp(weight[j] - most);
    for (int d = 0; d < WIDTH; d++) {
        out[d] = 0;
        for (int64_t j = first; j <= p; j++)
            out[d] += weight[j] / sum * (double)all_v[j][kv][d];
    }
}

/* 2e-6: sums of up to 700 products of numbers below 2, in f32. */
static void step(int64_t at, int64_t n, int64_t window, double tolerance)
{
    neap_value out;
    if (execute(at, n, &out) != NEAP_OK)
        fail_msg("%lld positions at %lld: %s", (long long)n, (long long)at,
                 neap_context_error(neap_handle_context(handle)));
    assert_int_equal(out.shape[2], n);
    const float *y = out.data;
    for (int64_t t = 0; t < n; t++)
        for (int h = 0; h < HEADS; h++) {
            double want[WIDTH];
            int64_t first = window && at + t - window + 1 > 0 ? at + t - window + 1 : 0;
            attention(at + t, first, h, data.q + (h * n + t) * WIDTH, want);
            for (int d = 0; d < WIDTH; d++) {
                double got = (double)y[(h * n + t) * WIDTH + d];
                if (!(fabs(got - want[d]) <= tolerance))
                    fail_msg("position %lld, head %d, [%d]: %.9g, expected %.9g",
                             (long long)(at + t), h, d, got, want[d]);
            }
        }
}

static void refused(int64_t at, int64_t n, neap_status status, const char *words)
{
    neap_value out;
    assert_int_equal(execute(at, n, &out), status);
    if (!strstr(neap_context_error(neap_handle_context(handle)), words))
        fail_msg("\"%s\", expected \"%s\"", neap_context_error(neap_handle_context(handle)), words);
}

/* ---- flat ---------------------------------------------------------------------------------------- */

static uint64_t state_bytes(void)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active_by_category[NEAP_MEM_STATE];
}

static void test_flat(void **state)
{
    (void)state;
    neap_sequence_cache_options o = cache_options(700);
    open_with(&o);
    step(0, 5, 0, 2e-6);
    uint64_t before = state_bytes();
    for (int64_t at = 5; at < 12; at++)
        step(at, 1, 0, 2e-6);
    step(12, 497, 0, 2e-6); /* to 509 */
    assert_int_equal(state_bytes(), before);
    for (int64_t at = 509; at < 516; at++) /* room for 512 grows to the capacity */
        step(at, 1, 0, 2e-6);
    assert_true(state_bytes() > before);
    step(516, 184, 0, 2e-6); /* to the last one */
    refused(700, 1, NEAP_ELIMIT, "the capacity is 700");
    refused(698, 3, NEAP_ELIMIT, "the capacity is 700");
    refused(-1, 1, NEAP_ELIMIT, "position -1");
    refused(INT64_MAX, 1, NEAP_ELIMIT, "9223372036854775807");
    refused(INT64_MIN, 2, NEAP_ELIMIT, "-9223372036854775808");
    fill(698, 2);
    step(699, 1, 0, 2e-6); /* what is there is whole */
    step(20, 3, 0, 2e-6);  /* back: later positions are not looked at */
}

static void test_flat_growth_at_once(void **state)
{
    (void)state;
    neap_sequence_cache_options o = cache_options(100);
    o.initial = 4;
    open_with(&o);
    step(0, 3, 0, 2e-6);
    step(3, 90, 0, 2e-6);
    step(93, 7, 0, 2e-6);
    assert_int_equal(neap_handle_reset(handle), NEAP_OK);
    step(0, 2, 0, 2e-6);
}

/* Stored as bf16: keys and values lose bits, no more than 2^-8 of a number below 1. */
static void test_bf16(void **state)
{
    (void)state;
    neap_sequence_cache_options o = cache_options(64);
    o.dtype = NEAP_BF16;
    open_with(&o);
    step(0, 16, 0, 0.02);
    for (int64_t at = 16; at < 20; at++)
        step(at, 1, 0, 0.02);
}

/* ---- ring ---------------------------------------------------------------------------------------- */

static void test_ring(void **state)
{
    (void)state;
    static const int64_t steps[] = {3, 1, 1, 4, 2, 4, 4, 1, 1, 1, 1, 3, 4, 4, 4, 1, 2, 4, 4, 4, 1, 1};
    neap_sequence_cache_options o = cache_options(700);
    o.window = 8;
    o.max_write = 4;
    open_with(&o);
    int64_t at = 0;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            step(at, steps[i], 8, 2e-6);
            at += steps[i];
        }
    assert_true(at > 10 * 11); /* ten times around */
    refused(at, 5, NEAP_ELIMIT, "a step of 5 positions, the ring takes 4");
    step(at, 4, 8, 2e-6);
    assert_int_equal(neap_handle_reset(handle), NEAP_OK);
    step(0, 1, 8, 2e-6);
}

static void test_ring_of_one(void **state)
{
    (void)state;
    neap_sequence_cache_options o = cache_options(50);
    o.window = 1;
    open_with(&o); /* max_write: the window */
    for (int64_t at = 0; at < 20; at++)
        step(at, 1, 1, 2e-6);
    refused(20, 2, NEAP_ELIMIT, "the ring takes 1");
}

/* ---- options ------------------------------------------------------------------------------------- */

static void test_options(void **state)
{
    (void)state;
    neap_sequence_cache_options o;
#define REFUSED(change, words)                                                                     \
    do {                                                                                           \
        o = cache_options(64);                                                                     \
        o.change;                                                                                  \
        assert_int_equal(neap_program_install_cache(program, "kv", &o), NEAP_EINVAL);              \
        if (!strstr(neap_context_error(ctx), words))                                               \
            fail_msg("\"%s\", expected \"%s\"", neap_context_error(ctx), words);                   \
    } while (0)
    REFUSED(capacity = 0, "capacity 0, the range is 1 to");
    REFUSED(layers = -1, "layers -1");
    REFUSED(kv_heads = 1 << 20, "kv_heads 1048576");
    REFUSED(head_dim = 0, "head_dim 0");
    REFUSED(initial = 0, "initial 0");
    REFUSED(window = -2, "window -2");
    REFUSED(dtype = NEAP_I32, "dtype i32");
    o = cache_options(64);
    assert_int_equal(neap_program_install_cache(program, "", &o), NEAP_EINVAL);
    assert_int_equal(neap_program_install_cache(program, NULL, &o), NEAP_EINVAL);
    open_with(&o);
    assert_int_equal(neap_program_install_cache(program, "kv", &o), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "installed already"));
    neap_handle_close(handle);
    handle = NULL;
    neap_value out;
    assert_int_equal(neap_handle_open(program, 0, NULL, &handle), NEAP_OK);
    assert_int_equal(execute(0, 1, &out), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(neap_handle_context(handle)), "cache_key"));
}

static void test_other_shape(void **state)
{
    (void)state;
    neap_sequence_cache_options o = cache_options(64);
    o.head_dim = 8;
    open_with(&o);
    refused(0, 1, NEAP_ESHAPE, "k must be [1, 2, T, 8]");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_flat),        TEST(test_flat_growth_at_once),
        TEST(test_bf16),        TEST(test_ring),
        TEST(test_ring_of_one), TEST(test_options),
        TEST(test_other_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
