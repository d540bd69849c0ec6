/* test_base.c - ledger, pool, errors, random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/context.h"
#include "base/random.h"
#include "base/threads.h"

static void test_ledger_counts_and_returns(void **state)
{
    (void)state;
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    neap_memory_info m0 = NEAP_MEMORY_INFO_INIT, m1 = NEAP_MEMORY_INFO_INIT;
    neap_context_trim(ctx);
    neap_context_memory(ctx, &m0);
    void *p[2000];
    for (int i = 0; i < 2000; i++) {
        p[i] = np_alloc(ctx, NEAP_MEM_GRAPH, (size_t)i * 17);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        memset(p[i], i, (size_t)i * 17);
    }
    neap_context_memory(ctx, &m1);
    assert_true(m1.active_by_category[NEAP_MEM_GRAPH] >= 2000u * 1999 / 2 * 17);
    for (int i = 0; i < 2000; i++)
        np_free(ctx, NEAP_MEM_GRAPH, p[i], (size_t)i * 17);
    neap_context_trim(ctx);
    neap_context_memory(ctx, &m1);
    assert_int_equal(m1.active, m0.active);
    assert_int_equal(m1.cached, m0.cached);
    neap_context_free(ctx);
}

/* cases/planner.md A10: allocate until refused, free, go on; held bytes return to the start. */
static void test_limit_is_an_error_and_recoverable(void **state)
{
    (void)state;
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 64 << 20;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    for (int round = 0; round < 2; round++) {
        void *p[64];
        int n = 0;
        while ((p[n] = np_alloc(ctx, NEAP_MEM_STATE, 4 << 20)))
            n++;
        assert_int_equal(n, 15);
        assert_int_equal(neap_context_status(ctx), NEAP_ENOMEM);
        assert_non_null(strstr(neap_context_error(ctx), "4194304"));
        assert_non_null(strstr(neap_context_error(ctx), "67108864"));
        neap_context_clear_error(ctx);
        while (n)
            np_free(ctx, NEAP_MEM_STATE, p[--n], 4 << 20);
    }
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    assert_int_equal(m.active_by_category[NEAP_MEM_STATE], 0);
    assert_true(m.peak <= m.limit);
    neap_context_free(ctx);
}

/* Names are cut anywhere, and need not be text. */
static void test_errors_are_lines_of_utf8(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"gr\xc3\xb6\xc3\x9f" "e", "gr\xc3\xb6?..."}, /* groesse, cut in its sixth byte */
        {"\xe2\x82\xac\xe2\x82\xac", "\xe2\x82\xac?..."}, /* one for a part of a character, as Unicode has it */
        {"a\xc2\x9b" "3m", "a?3m..."},                      /* U+009B: CSI */
        {"\xe2\x80\xae" "ab", "?ab..."},                    /* U+202E: right to left */
        {"\xe2\x80\xa8" "ab", "?ab..."},                    /* U+2028: a line ends */
        {"\xef\xbb\xbf" "ab", "?ab..."},                    /* U+FEFF */
        {"a\nb\x7f\xff" "c", "a?b??..."},
        {"\xf0\x9f\x8c\x8a!", "\xf0\x9f\x8c\x8a!..."},
        {"\x80\xc0\xafz", "???z..."}};
    neap_context *ctx;
    assert_int_equal(neap_context_new(NULL, &ctx), NEAP_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        np_fail(ctx, NEAP_EINVAL, "%.5s...", names[i][0]);
        assert_string_equal(neap_context_error(ctx), names[i][1]);
        neap_context_clear_error(ctx);
    }
    neap_context_free(ctx);
}

static void test_child_charges_parent(void **state)
{
    (void)state;
    neap_context *root, *child;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 8 << 20;
    assert_int_equal(neap_context_new(&o, &root), NEAP_OK);
    o.memory_limit = 0;
    neap_memory_info start = NEAP_MEMORY_INFO_INIT, a = NEAP_MEMORY_INFO_INIT,
                     b = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(root, &start);
    assert_int_equal(neap_context_new_child(root, &o, &child), NEAP_OK);
    neap_context_memory(root, &a);
    void *p = np_alloc(child, NEAP_MEM_STATE, 4 << 20);
    assert_non_null(p);
    neap_context_memory(root, &b);
    assert_int_equal(b.active - a.active, 4 << 20);
    assert_null(np_alloc(child, NEAP_MEM_STATE, 8 << 20)); /* the parent's limit holds */
    assert_int_equal(neap_context_status(child), NEAP_ENOMEM);
    np_free(child, NEAP_MEM_STATE, p, 4 << 20);
    neap_context_free(child);
    neap_context_trim(root);
    neap_context_memory(root, &b);
    assert_int_equal(b.active, start.active);
    neap_context_free(root);
}

typedef struct work {
    int64_t data[64];
    int lanes;
} work;

static void add_lanes(void *arg, int lane, int lanes)
{
    work *w = arg;
    int64_t b, e;
    np_share(64, 1, lane, lanes, &b, &e);
    for (int64_t i = b; i < e; i++)
        w->data[i] += i;
    np_pool_barrier(*(np_pool **)(w + 1));
    if (lane == 0)
        w->lanes = lanes;
}

static void test_pool_runs_every_share(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        neap_context *ctx;
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = threads;
        assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
        struct {
            work w;
            np_pool *pool;
        } job = {.pool = ctx->pool};
        for (int i = 0; i < 1000; i++)
            np_pool_run(ctx->pool, add_lanes, &job);
        for (int i = 0; i < 64; i++)
            assert_int_equal(job.w.data[i], 1000 * i);
        assert_int_equal(job.w.lanes, threads);
        neap_context_free(ctx);
    }
}

/* Shares without a barrier may be done by the caller, each once all the same; a late thread must not
 * take the share of a job that is over, whose argument is gone. */
static void count_lanes(void *arg, int lane, int lanes)
{
    int *count = arg;
    for (int i = 0; i < 20 * lane; i++)
        __asm__ volatile("" ::: "memory");
    count[lane] += lanes;
}

static void test_pool_shares_without_barrier(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 5; threads++) {
        neap_context *ctx;
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = threads;
        assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
        for (int i = 0; i < 20000; i++) {
            int count[5] = {0};
            np_pool_run(ctx->pool, count_lanes, count);
            for (int lane = 0; lane < 5; lane++)
                assert_int_equal(count[lane], lane < threads ? threads : 0);
        }
        neap_context_free(ctx);
    }
}

/* Known answers of Threefry-2x32-20 from the Random123 distribution (kat_vectors). */
static void test_threefry_known_answers(void **state)
{
    (void)state;
    uint32_t out[2];
    np_threefry(
        (np_random_key){
            {0, 0}
    },
        0, 0, out);
    assert_int_equal(out[0], 0x6b200159);
    assert_int_equal(out[1], 0x99ba4efe);
    np_threefry(
        (np_random_key){
            {0xffffffff, 0xffffffff}
    },
        0xffffffff, 0xffffffff, out);
    assert_int_equal(out[0], 0x1cb996fc);
    assert_int_equal(out[1], 0xbb002be7);
    np_threefry(
        (np_random_key){
            {0x13198a2e, 0x03707344}
    },
        0x243f6a88, 0x85a308d3, out);
    assert_int_equal(out[0], 0xc4923a9c);
    assert_int_equal(out[1], 0x483df7a0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger_counts_and_returns),
        cmocka_unit_test(test_limit_is_an_error_and_recoverable),
        cmocka_unit_test(test_errors_are_lines_of_utf8),
        cmocka_unit_test(test_child_charges_parent),
        cmocka_unit_test(test_pool_runs_every_share),
        cmocka_unit_test(test_pool_shares_without_barrier),
        cmocka_unit_test(test_threefry_known_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
