/* test_sampler.c - which tokens can be drawn and how often; expected sets are worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "neap/sampler.h"

static neap_context *ctx;

static int open_context(void **state)
{
    (void)state;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    return neap_context_new(&o, &ctx);
}

static int close_context(void **state)
{
    (void)state;
    neap_context_free(ctx);
    return 0;
}

static neap_sampler *new_sampler(float temperature, int top_k, float top_p, float min_p, int n)
{
    neap_sampler_options o = NEAP_SAMPLER_OPTIONS_INIT;
    o.temperature = temperature;
    o.top_k = top_k;
    o.top_p = top_p;
    o.min_p = min_p;
    o.seed = 42;
    neap_sampler *s;
    assert_int_equal(neap_sampler_new(ctx, &o, n, &s), NEAP_OK);
    return s;
}

/* cases/server.md I1: p = [.5 .3 .15 .05], here in another order, id 2 being the most probable. The
 * cut points are away from the sums, so rounding decides nothing. */
static void test_the_right_tokens_stay(void **state)
{
    (void)state;
    const float p[4] = {0.15f, 0.05f, 0.5f, 0.3f};
    static const struct {
        int top_k;
        float top_p, min_p;
        const char *stay;
    } rows[] = {
        {0,  1,      0,     "yyyy"},
        {1,  0.4f,   0,     "nnyn"},
        {1,  0.8f,   0,     "nnyn"},
        {0,  0.4f,   0,     "nnyn"},
        {0,  0.7f,   0,     "nnyy"},
        {0,  0.9f,   0,     "ynyy"},
        {0,  0.99f,  0,     "yyyy"},
        {0,  0,      0,     "nnyn"},
        {0,  1e-30f, 0,     "nnyn"},
        {0,  1,      1,     "nnyn"},
        {0,  1,      0.5f,  "nnyy"},
        {0,  1,      0.2f,  "ynyy"},
        {0,  1,      0.05f, "yyyy"},
        {2,  1,      0,     "nnyy"},
        {3,  1,      0,     "ynyy"},
        {4,  1,      0,     "yyyy"},
        {99, 1,      0,     "yyyy"},
        {2,  0.7f,   0,     "nnyy"},
        {2,  0.6f,   0,     "nnyn"}, /* .5 of .8 is .625 */
        {3,  0.95f,  0.4f,  "nnyy"},
        {1,  0,      1,     "nnyn"},
        {3,  0.8f,   0,     "nnyy"}, /* .8 of .95 is .842 */
    };
    float logits[4];
    for (int i = 0; i < 4; i++)
        logits[i] = logf(p[i]) + 3;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        neap_sampler *s = new_sampler(1, rows[r].top_k, rows[r].top_p, rows[r].min_p, 4);
        char seen[] = "nnnn";
        for (uint64_t step = 0; step < 400; step++) {
            int32_t id;
            assert_int_equal(neap_sampler_pick(s, logits, step, &id), NEAP_OK);
            assert_in_range(id, 0, 3);
            seen[id] = 'y';
        }
        if (strcmp(seen, rows[r].stay) != 0)
            fail_msg("row %zu: %s, expected %s", r, seen, rows[r].stay);
        neap_sampler_free(s);
    }
}

/* Frequencies over 20,000 draws are within 5 standard deviations, sqrt(p (1 - p) / 20000) < 0.0036,
 * of the probabilities; at temperature 2 these are sqrt(p) renormalised. */
static void test_frequencies(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    const double p[4] = {0.15, 0.05, 0.5, 0.3};
    float logits[4];
    for (int i = 0; i < 4; i++)
        logits[i] = (float)log(p[i]);
    for (int temperature = 1; temperature <= 2; temperature++) {
        double total = 0;
        for (int i = 0; i < 4; i++)
            total += pow(p[i], 1.0 / temperature);
        for (int top_k = 0; top_k < 2; top_k++) { /* by id, and sorted */
            neap_sampler *s = new_sampler((float)temperature, top_k * 4, top_k ? 0.999f : 1, 0, 4);
            int count[4] = {0};
            for (uint64_t step = 0; step < DRAWS; step++) {
                int32_t id;
                assert_int_equal(neap_sampler_pick(s, logits, step, &id), NEAP_OK);
                count[id]++;
            }
            for (int i = 0; i < 4; i++)
                assert_true(fabs((double)count[i] / DRAWS - pow(p[i], 1.0 / temperature) / total) <
                            5 * 0.0036);
            neap_sampler_free(s);
        }
    }
}

/* Against a sort: the same kept sets on a large vocabulary with ties. */
static void test_selection_equals_sorting(void **state)
{
    (void)state;
    enum { N = 1000 };
    float logits[N];
    uint32_t seed = 9;
    for (int i = 0; i < N; i++) {
        seed = seed * 1664525 + 1013904223;
        logits[i] = (float)(seed >> 25) * 0.1f; /* 128 values: many ties */
    }
    for (int k = 1; k < N; k += 83) {
        neap_sampler *s = new_sampler(100, k, 1, 0, N);
        bool seen[N] = {false};
        for (uint64_t step = 0; step < 3000; step++) {
            int32_t id;
            assert_int_equal(neap_sampler_pick(s, logits, step, &id), NEAP_OK);
            seen[id] = true;
        }
        for (int i = 0; i < N; i++) {
            int better = 0;
            for (int j = 0; j < N; j++)
                better += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
            if (seen[i])
                assert_true(better < k);
        }
        neap_sampler_free(s);
    }
}

/* Half of the mass is one token's, half is spread over 30,000 that are unlikely each: top-p 0.4 is the
 * one token, top-p 0.75 needs half of the others, the first ones as they are equal. */
static void test_top_p_reaches_into_unlikely_tokens(void **state)
{
    (void)state;
    enum { N = 30001 };
    static float logits[N];
    for (int i = 1; i < N; i++)
        logits[i] = -logf(N - 1);
    const float top_p[] = {0.4f, 0.75f};
    for (int k = 0; k < 2; k++) {
        neap_sampler *s = new_sampler(1, 0, top_p[k], 0, N);
        int first = 0, largest = 0;
        for (uint64_t step = 0; step < 300; step++) {
            int32_t id;
            assert_int_equal(neap_sampler_pick(s, logits, step, &id), NEAP_OK);
            first += id == 0;
            largest = id > largest ? id : largest;
        }
        if (k == 0)
            assert_int_equal(first, 300);
        else /* 200 expected, the deviation is 8; 15,000 give or take the rounding of the sums */
            assert_true(first > 150 && first < 250 && largest > 12000 && largest < 15100);
        neap_sampler_free(s);
    }
}

static void test_greedy_takes_the_first_largest(void **state)
{
    (void)state;
    const float logits[6] = {-1, 2, -INFINITY, 7, 7, 0};
    neap_sampler *s;
    assert_int_equal(neap_sampler_new(ctx, NULL, 6, &s), NEAP_OK);
    int32_t id;
    for (uint64_t step = 0; step < 3; step++) {
        assert_int_equal(neap_sampler_pick(s, logits, step, &id), NEAP_OK);
        assert_int_equal(id, 3);
    }
    neap_sampler_free(s);
    s = new_sampler(1e-30f, 0, 1, 0, 6); /* nearly greedy: only the two largest */
    for (uint64_t step = 0; step < 50; step++) {
        assert_int_equal(neap_sampler_pick(s, logits, step, &id), NEAP_OK);
        assert_in_range(id, 3, 4);
    }
    neap_sampler_free(s);
}

/* A token at -inf is never drawn; one token is always the answer when it is the only one. */
static void test_masked_tokens(void **state)
{
    (void)state;
    const float logits[4] = {-INFINITY, 0, -INFINITY, 0.5f},
                one[4] = {-INFINITY, -INFINITY, -3e38f, -INFINITY};
    const float top_p[] = {1, 0.9f, 0.999f};
    for (int k = 0; k < 4; k++) {
        for (int j = 0; j < 3; j++) {
            neap_sampler *s = new_sampler(5, k, top_p[j], 0, 4);
            for (uint64_t step = 0; step < 100; step++) {
                int32_t id;
                assert_int_equal(neap_sampler_pick(s, logits, step, &id), NEAP_OK);
                assert_true(id == 1 || id == 3);
                assert_int_equal(neap_sampler_pick(s, one, step, &id), NEAP_OK);
                assert_int_equal(id, 2);
            }
            neap_sampler_free(s);
        }
    }
}

static void test_steps_repeat_and_seeds_differ(void **state)
{
    (void)state;
    enum { N = 50 };
    float logits[N] = {0};
    neap_sampler *a = new_sampler(1, 0, 1, 0, N), *b = new_sampler(1, 0, 1, 0, N);
    int32_t forward[64], id;
    int moved = 0;
    for (int step = 0; step < 64; step++)
        assert_int_equal(neap_sampler_pick(a, logits, (uint64_t)step, &forward[step]), NEAP_OK);
    for (int step = 64; step-- > 0;) { /* from any step, in any order */
        assert_int_equal(neap_sampler_pick(b, logits, (uint64_t)step, &id), NEAP_OK);
        assert_int_equal(id, forward[step]);
        assert_int_equal(neap_sampler_pick(b, logits, (uint64_t)step + (1ull << 32), &id), NEAP_OK);
        moved += id != forward[step];
    }
    assert_true(moved > 32); /* the high half of the step counts */
    neap_sampler_free(a);
    neap_sampler_free(b);
}

static void test_bad_logits(void **state)
{
    (void)state;
    const float nan[3] = {1, NAN, 2}, none[3] = {-INFINITY, -INFINITY, -INFINITY},
                inf[3] = {0, 1, INFINITY};
    const struct {
        const float *logits;
        const char *says;
    } rows[] = {
        {nan,  "token 1 is NaN"     },
        {none, "all 3 logits"       },
        {inf,  "token 2 is infinite"}
    };
    for (int temperature = 0; temperature < 2; temperature++) {
        neap_sampler *s = new_sampler((float)temperature, 2, 0.9f, 0, 3);
        for (int i = 0; i < 3; i++) {
            int32_t id;
            assert_int_equal(neap_sampler_pick(s, rows[i].logits, 0, &id), NEAP_EINVAL);
            assert_non_null(strstr(neap_context_error(ctx), rows[i].says));
            neap_context_clear_error(ctx);
        }
        neap_sampler_free(s);
    }
}

static void test_bad_options(void **state)
{
    (void)state;
    static const struct {
        neap_sampler_options o;
        int32_t vocabulary;
        const char *says;
    } rows[] = {
        {{sizeof(neap_sampler_options), -1, 0, 1, 0, 0, 1, 64},       4, "temperature: -1"             },
        {{sizeof(neap_sampler_options), NAN, 0, 1, 0, 0, 1, 64},      4, "temperature: "               },
        {{sizeof(neap_sampler_options), INFINITY, 0, 1, 0, 0, 1, 64}, 4, "temperature: inf"            },
        {{sizeof(neap_sampler_options), 1, -5, 1, 0, 0, 1, 64},       4, "top_k: -5"                   },
        {{sizeof(neap_sampler_options), 1, 0, 1.5f, 0, 0, 1, 64},     4, "top_p: 1.5, expected 0 to 1" },
        {{sizeof(neap_sampler_options), 1, 0, NAN, 0, 0, 1, 64},      4, "top_p: "                     },
        {{sizeof(neap_sampler_options), 1, 0, 1, -0.5f, 0, 1, 64},    4, "min_p: -0.5, expected 0 to 1"},
        {{sizeof(neap_sampler_options), 1, 0, 1, 0, 0, 1, 64},        0, "vocabulary: 0"               },
        {{sizeof(neap_sampler_options) + 1, 1, 0, 1, 0, 0, 1, 64},    4, "size"                        },
        {{sizeof(neap_sampler_options), 1, 0, 1, 0, 0, 0, 64}, 4, "repeat_penalty: 0, expected"},
        {{sizeof(neap_sampler_options), 1, 0, 1, 0, 0, NAN, 64}, 4, "repeat_penalty: "},
        {{sizeof(neap_sampler_options), 1, 0, 1, 0, 0, 2, -1}, 4, "repeat_last: -1, expected 0 to 65536"},
        {{sizeof(neap_sampler_options), 1, 0, 1, 0, 0, 2, 65537}, 4, "repeat_last: 65537"},
        {{0, 1, 0, 1, 0, 0, 1, 64},                                   4, "size 0"                      },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        neap_sampler *s;
        assert_int_equal(neap_sampler_new(ctx, &rows[i].o, rows[i].vocabulary, &s), NEAP_EINVAL);
        assert_null(s);
        assert_non_null(strstr(neap_context_error(ctx), rows[i].says));
        neap_context_clear_error(ctx);
    }
}

static void test_every_failing_allocation(void **state)
{
    (void)state;
    int failures = 0;
    for (int64_t n = 1;; n++) {
        neap_context *small;
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        o.fail_allocation = n;
        if (neap_context_new(&o, &small) != NEAP_OK)
            continue;
        neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
        neap_context_memory(small, &before);
        neap_sampler_options so = NEAP_SAMPLER_OPTIONS_INIT;
        so.temperature = 1;
        so.repeat_penalty = 1.1f;
        neap_sampler *s;
        neap_status status = neap_sampler_new(small, &so, 10000, &s);
        neap_sampler_free(s);
        neap_context_memory(small, &after);
        assert_int_equal(after.active, before.active);
        neap_context_free(small);
        if (status == NEAP_OK)
            break;
        assert_int_equal(status, NEAP_ENOMEM);
        failures++;
    }
    assert_int_equal(failures, 4);
}

/* Keskar et al. 2019, section 4.1, with a negative logit multiplied: by hand for a penalty of 2. */
static void test_penalty(void **state)
{
    (void)state;
    const float logits[4] = {2, 1.9f, -1, -1.1f}, negative[3] = {-1, -1.5f, -3};
    neap_sampler_options o = NEAP_SAMPLER_OPTIONS_INIT;
    o.repeat_penalty = 2;
    o.repeat_last = 2;
    neap_sampler *s;
    int32_t id;
    assert_int_equal(neap_sampler_new(ctx, &o, 4, &s), NEAP_OK);
    assert_int_equal(neap_sampler_pick(s, logits, 0, &id), NEAP_OK);
    assert_int_equal(id, 0); /* nothing was accepted */
    const int32_t prompt[] = {1, 1, 3, 0, -1, 9};
    neap_sampler_accept(s, prompt, 4); /* 3 and 0 are the last: 1, 1.9, -1, -2.2 */
    assert_int_equal(neap_sampler_pick(s, logits, 0, &id), NEAP_OK);
    assert_int_equal(id, 1);
    neap_sampler_accept(s, prompt, 1); /* 0 and 1: 1, 0.95 */
    assert_int_equal(neap_sampler_pick(s, logits, 0, &id), NEAP_OK);
    assert_int_equal(id, 0);
    neap_sampler_accept(s, prompt + 4, 2); /* ids that are none: no penalty */
    assert_int_equal(neap_sampler_pick(s, logits, 0, &id), NEAP_OK);
    assert_int_equal(id, 0);
    neap_sampler_accept(s, prompt + 3, 1); /* the same token twice is penalised once: 1 */
    neap_sampler_accept(s, prompt + 3, 1);
    assert_int_equal(neap_sampler_pick(s, logits, 0, &id), NEAP_OK);
    assert_int_equal(id, 1);
    neap_sampler_reset(s);
    assert_int_equal(neap_sampler_pick(s, logits, 0, &id), NEAP_OK);
    assert_int_equal(id, 0);
    neap_sampler_free(s);
    assert_int_equal(neap_sampler_new(ctx, &o, 3, &s), NEAP_OK);
    neap_sampler_accept(s, prompt + 3, 1); /* -2, -1.5, -3 */
    assert_int_equal(neap_sampler_pick(s, negative, 0, &id), NEAP_OK);
    assert_int_equal(id, 1);
    neap_sampler_free(s);
}

/* Draws see the same scores: with top-k 1, top-p or a low temperature it is the greedy choice. */
static void test_penalty_of_draws(void **state)
{
    (void)state;
    const float logits[4] = {2, 1.9f, -1, -1.1f};
    const int32_t first = 0;
    for (int way = 0; way < 3; way++) {
        neap_sampler_options o = NEAP_SAMPLER_OPTIONS_INIT;
        o.repeat_penalty = 8;
        o.temperature = way == 2 ? 0.01f : 1;
        o.top_k = way == 0 ? 1 : 0;
        o.top_p = way == 1 ? 0.1f : 1;
        neap_sampler *s;
        int32_t id;
        assert_int_equal(neap_sampler_new(ctx, &o, 4, &s), NEAP_OK);
        neap_sampler_accept(s, &first, 1);
        for (uint64_t step = 0; step < 20; step++) {
            assert_int_equal(neap_sampler_pick(s, logits, step, &id), NEAP_OK);
            assert_int_equal(id, 1);
        }
        neap_sampler_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_right_tokens_stay),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_selection_equals_sorting),
        cmocka_unit_test(test_top_p_reaches_into_unlikely_tokens),
        cmocka_unit_test(test_greedy_takes_the_first_largest),
        cmocka_unit_test(test_masked_tokens),
        cmocka_unit_test(test_steps_repeat_and_seeds_differ),
        cmocka_unit_test(test_bad_logits),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_penalty_of_draws),
        cmocka_unit_test(test_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
