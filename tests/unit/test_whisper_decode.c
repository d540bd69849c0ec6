/* test_whisper_decode.c - the decisions of speech decoding, with scores made by hand.
 *
 * The vocabulary here: text 0-9, 10 end, 11 start, 12-13 languages, 14 translate, 15 transcribe,
 * 16 start of lm, 17 previous, 18 no speech, 19 no timestamps, from 20 on timestamps (0 s to 30 s).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "run/whisper_decode.h"

enum { END = 10, START, EN, DE, TRANSLATE, TRANSCRIBE, LM, PREVIOUS, NO_SPEECH, NO_TIMES, T0 };
enum { VOCABULARY = T0 + 1501 };

static const np_whisper_tokens tokens = {
    .vocabulary = VOCABULARY, .end = END, .start = START, .previous = PREVIOUS,
    .translate = TRANSLATE, .transcribe = TRANSCRIBE, .start_lm = LM, .no_speech = NO_SPEECH,
    .no_timestamps = NO_TIMES, .timestamp = T0, .timestamps = 1501, .language = EN, .languages = 2,
    .blank = 3, .suppressed_count = 2, .suppressed = {4, 5}};
static const np_whisper_task plain = {.language = EN, .last_tick = 1500};
static const np_whisper_task timed = {.language = EN, .timestamps = true, .last_tick = 1500};
static float scores[VOCABULARY];

static uint32_t next_random(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static bool allowed(int32_t id)
{
    return scores[id] > -INFINITY;
}

/* Flat scores; text is `text` higher than timestamps. */
static void filter(const np_whisper_task *task, float text, const int32_t *made, int32_t count)
{
    for (int i = 0; i < VOCABULARY; i++)
        scores[i] = i < T0 ? text : 0;
    np_whisper_filter(&tokens, task, made, count, scores);
}

/* Exactly these timestamps may come: T0 + from … T0 + to. */
static void check_times(int from, int to)
{
    for (int i = 0; i <= 1500; i++)
        if (allowed(T0 + i) != (i >= from && i <= to))
            fail_msg("timestamp %d: %d, expected %d to %d", i, allowed(T0 + i), from, to);
}

/* Exactly these of text and end: one letter an id, 'y' or 'n'. Specials never. */
static void check_text(const char *want)
{
    for (int i = 0; i <= END; i++)
        if (allowed(i) != (want[i] == 'y'))
            fail_msg("id %d: %d, expected %s", i, allowed(i), want);
    for (int i = START; i < T0; i++)
        assert_false(allowed(i));
}

/* ---- prompt --------------------------------------------------------------------------------- */

static void check_prompt(const np_whisper_task *task, const int32_t *previous, int count, int room,
                         const int32_t *want, int n, int want_start)
{
    int32_t out[NP_WHISPER_PROMPT_TOKENS], start = -1;
    assert_int_equal(np_whisper_prompt(&tokens, task, previous, count, room, out, &start), n);
    assert_memory_equal(out, want, (size_t)n * sizeof *out);
    assert_int_equal(start, want_start);
}

static void test_prompt(void **state)
{
    (void)state;
    static const int32_t before[300] = {1, 2, 6};
    const np_whisper_task other = {.language = DE, .translate = true, .timestamps = true};
    check_prompt(&plain, NULL, 0, 223, (int32_t[]){START, EN, TRANSCRIBE, NO_TIMES}, 4, 0);
    check_prompt(&other, NULL, 0, 223, (int32_t[]){START, DE, TRANSLATE}, 3, 0);
    check_prompt(&other, before, 3, 223, (int32_t[]){PREVIOUS, 1, 2, 6, START, DE, TRANSLATE}, 7, 4);
    check_prompt(&plain, before, 3, 2,
                 (int32_t[]){PREVIOUS, 2, 6, START, EN, TRANSCRIBE, NO_TIMES}, 7, 3);
    check_prompt(&other, before, 3, 0, (int32_t[]){START, DE, TRANSLATE}, 3, 0);
    int32_t out[NP_WHISPER_PROMPT_TOKENS], start;
    assert_int_equal(np_whisper_prompt(&tokens, &plain, before, 300, 1000, out, &start),
                     NP_WHISPER_PROMPT_TOKENS);
    assert_int_equal(start, 224);
    np_whisper_tokens english = tokens;
    english.languages = 0;
    assert_int_equal(np_whisper_prompt(&english, &plain, NULL, 0, 0, out, &start), 2);
    assert_int_equal(out[1], NO_TIMES);
}

/* ---- filters -------------------------------------------------------------------------------- */

static void test_filter_without_timestamps(void **state)
{
    (void)state;
    filter(&plain, 0, NULL, 0);
    check_text("yyynnnyyyyn"); /* no blank, no symbols, no end */
    check_times(1, 0);
    filter(&plain, 0, (int32_t[]){7}, 1);
    check_text("yyyynnyyyyy");
    check_times(1, 0);
}

static void test_filter_order_of_timestamps(void **state)
{
    (void)state;
    const float high = 20; /* e^20 is more than 1501 times e^0: nothing is forced */
    filter(&timed, high, NULL, 0);
    check_text("nnnnnnnnnnn"); /* first of all a timestamp, 1 s at most */
    check_times(0, 50);
    filter(&timed, high, (int32_t[]){T0 + 7}, 1);
    check_text("yyyynnyyyyy"); /* then text */
    check_times(1, 0);
    filter(&timed, high, (int32_t[]){T0 + 7, 1, 2}, 3);
    check_text("yyyynnyyyyy");
    check_times(8, 1500); /* a segment is not empty */
    filter(&timed, high, (int32_t[]){T0 + 7, 1, T0 + 90}, 3);
    check_text("nnnnnnnnnny"); /* one alone: its pair, or the end */
    check_times(90, 1500);
    filter(&timed, high, (int32_t[]){T0 + 7, 1, T0 + 90, T0 + 95}, 4);
    check_text("yyyynnyyyyy");
    check_times(1, 0);
    filter(&timed, high, (int32_t[]){T0 + 7, 1, T0 + 90, T0 + 95, 6}, 5);
    check_times(96, 1500);
    filter(&timed, high, (int32_t[]){T0, 1, T0 + 1500, T0 + 1500, 6}, 5);
    check_text("yyyynnyyyyy"); /* no later one is left */
    check_times(1, 0);
}

static void test_filter_ends_with_the_sound(void **state)
{
    (void)state;
    np_whisper_task task = timed;
    task.last_tick = 148;
    filter(&task, 20, (int32_t[]){T0, 1}, 2);
    check_times(1, 148);
    task.last_tick = 12;
    filter(&task, 20, NULL, 0);
    check_times(0, 12);
    task.last_tick = 0;
    filter(&task, 20, NULL, 0);
    check_times(0, 0);
}

static void test_filter_forces_a_timestamp(void **state)
{
    (void)state;
    static const int32_t made[] = {T0, 1};
    filter(&timed, 7.2f, made, 2); /* ln 1500 = 7.313 */
    check_text("nnnnnnnnnnn");
    check_times(1, 1500);
    filter(&timed, 7.4f, made, 2);
    check_text("yyyynnyyyyy");
    check_times(1, 1500);
}

/* Whatever was made, something may come, and what it is can be drawn. */
static void test_filter_leaves_something(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        int32_t made[8];
        const int count = round % 9;
        for (int i = 0; i < VOCABULARY; i++)
            scores[i] = (float)next_random() * 1e-6f;
        for (int i = 0; i < count; i++)
            made[i] = (int32_t)(next_random() % (next_random() % 2 ? VOCABULARY : 30));
        np_whisper_task task = round % 2 ? timed : plain;
        task.last_tick = round % 7 ? 1500 : 3;
        np_whisper_filter(&tokens, &task, made, count, scores);
        const np_whisper_choice c =
            np_whisper_next(&tokens, scores, (float)(round % 3) / 2, 5, (uint64_t)round);
        assert_true(c.id >= 0 && c.id < VOCABULARY && allowed(c.id) && c.logprob <= 0);
    }
}

/* ---- choice --------------------------------------------------------------------------------- */

static void flat(float value)
{
    for (int i = 0; i < VOCABULARY; i++)
        scores[i] = value;
}

static void test_choice(void **state)
{
    (void)state;
    flat(-INFINITY);
    scores[3] = scores[8] = 2;
    scores[6] = 1;
    np_whisper_choice c = np_whisper_next(&tokens, scores, 0, 0, 0);
    assert_int_equal(c.id, 3); /* the first of equals */
    const double sum = 2 * exp(2) + exp(1);
    assert_true(fabs(c.logprob - log(exp(2) / sum)) < 1e-12);
    assert_true(fabs(np_whisper_probability(&tokens, scores, 6) - exp(1) / sum) < 1e-12);
    assert_true(np_whisper_probability(&tokens, scores, 7) == 0);
    assert_true(np_whisper_probability(&tokens, scores, -1) == 0);
    assert_true(np_whisper_probability(&tokens, scores, VOCABULARY) == 0);
    /* 4000 draws at temperature 2: three standard deviations are 0.024 */
    int count[VOCABULARY] = {0};
    for (int step = 0; step < 4000; step++) {
        c = np_whisper_next(&tokens, scores, 2, 99, (uint64_t)step);
        assert_true(fabs(c.logprob - log(exp((double)scores[c.id]) / sum)) < 1e-12);
        assert_int_equal(np_whisper_next(&tokens, scores, 2, 99, (uint64_t)step).id, c.id);
        count[c.id]++;
    }
    const double warm = 2 * exp(1) + exp(0.5);
    assert_int_equal(count[3] + count[8] + count[6], 4000);
    assert_true(fabs(count[3] / 4000.0 - exp(1) / warm) < 0.024);
    assert_true(fabs(count[6] / 4000.0 - exp(0.5) / warm) < 0.024);
}

static void test_scores_that_are_no_numbers(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        flat(i < 2 ? 0 : -INFINITY);
        if (i < 2)
            scores[700] = bad[i];
        assert_int_equal(np_whisper_next(&tokens, scores, 0, 0, 0).id, -1);
        assert_int_equal(np_whisper_next(&tokens, scores, 1, 0, 0).id, -1);
        assert_true(np_whisper_probability(&tokens, scores, 18) == 0);
    }
    flat(3.3e38f); /* large ones are fine */
    assert_true(fabs(np_whisper_probability(&tokens, scores, 18) - 1.0 / VOCABULARY) < 1e-9);
}

static void test_language(void **state)
{
    (void)state;
    flat(1);
    scores[DE] = 2;
    scores[TRANSLATE] = 9;
    assert_int_equal(np_whisper_hear_language(&tokens, scores), DE);
    np_whisper_tokens english = tokens;
    english.languages = 0;
    assert_int_equal(np_whisper_hear_language(&english, scores), -1);
}

/* ---- attempts ------------------------------------------------------------------------------- */

static void test_attempts(void **state)
{
    (void)state;
    static const struct {
        np_whisper_attempt attempt;
        bool silent, poor;
    } rows[] = {
        {{-0.3, 1.2, 0.01}, false, false},
        {{-0.3, 1.2, 0.99}, false, false}, /* a sure text stays */
        {{-1.1, 1.2, 0.61}, true,  false},
        {{-1.1, 1.2, 0.60}, false, true },
        {{-1.0, 1.2, 0.61}, true,  false},
        {{-1.0, 2.4, 0.10}, false, false},
        {{-0.3, 2.5, 0.10}, false, true },
        {{-1.1, 9.0, 0.90}, true,  false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(np_whisper_is_silent(&rows[i].attempt), rows[i].silent);
        assert_int_equal(np_whisper_is_poor(&rows[i].attempt), rows[i].poor);
    }
}

static void test_better_attempts(void **state)
{
    (void)state;
    const np_whisper_attempt loop = {-0.1, 9, 0}, sure = {-1.1, 1.5, 0}, unsure = {-2, 1.5, 0},
                             longer_loop = {-0.2, 20, 0};
    assert_true(np_whisper_is_better(&sure, &loop));
    assert_false(np_whisper_is_better(&loop, &unsure));
    assert_true(np_whisper_is_better(&sure, &unsure));
    assert_true(np_whisper_is_better(&loop, &longer_loop));
    assert_false(np_whisper_is_better(&sure, &sure));
    /* one sentence twelve times: ln(9 / 2.4) = 1.3 beyond repetition; nonsense: 4.57 - 1 = 3.6 nats */
    const np_whisper_attempt said = {-0.13, 9, 0}, nonsense = {-4.57, 1.2, 0},
                             both = {-4.57, 2.5, 0}, never = {-INFINITY, 1, 0}, none = {NAN, 1, 0},
                             good = {-0.9, 2.4, 0}, better = {-0.5, 2.3, 0};
    assert_true(np_whisper_is_better(&said, &nonsense));
    assert_false(np_whisper_is_better(&nonsense, &said));
    assert_true(np_whisper_is_better(&nonsense, &both));
    assert_true(np_whisper_is_better(&both, &never));
    assert_true(np_whisper_is_better(&longer_loop, &none));
    assert_false(np_whisper_is_better(&none, &longer_loop));
    assert_true(np_whisper_is_better(&good, &said));
    assert_true(np_whisper_is_better(&better, &good)); /* neither is poor: the likelier */
}

/* zlib's figures are from Python: len(text) / len(zlib.compress(text)). Ours does not look for the
 * best of overlapping matches and guesses what a code table takes: a byte and 5 %. */
static void test_compression(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int times;
        double zlib;
    } rows[] = {
        {" The quick brown fox jumps over the lazy dog.", 1, 0.865},
        {" Thank you.", 10, 5.0},
        {" you", 1, 0.333},
        {" It was the best of times, it was the worst of times, it was the age of wisdom, it was the "
         "age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was "
         "the season of Light, it was the season of Darkness, it was the spring of hope, it was the "
         "winter of despair.", 1, 2.26},
        {" So, what I want to do today is to talk about a few of the things that we have learned "
         "over the last year, and then I will hand over to my colleague, who knows a great deal "
         "more about the details than I do. Please ask questions whenever you like; we have plenty "
         "of time.", 1, 1.517},
        {" okay", 56, 16.471},
        {" I'm going to go to the next one.", 12, 9.209},
        {"ha", 200, 26.667},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        const size_t n = strlen(rows[i].text);
        for (int k = 0; k < rows[i].times; k++)
            memcpy(text + (size_t)k * n, rows[i].text, n);
        const double bytes = (double)n * rows[i].times;
        const double got = np_whisper_compression(text, n * (size_t)rows[i].times);
        print_message("compression %.3f, zlib %.3f\n", got, rows[i].zlib);
        assert_true((got > 2.4) == (rows[i].zlib > 2.4));
        assert_true(fabs(bytes / got - bytes / rows[i].zlib) < 1.1 + 0.05 * bytes / rows[i].zlib);
    }
    assert_true(np_whisper_compression("", 0) == 0);
}

/* ---- segments ------------------------------------------------------------------------------- */

typedef struct expected {
    int32_t first, count, start, end;
} expected;

static void check_cut(const int32_t *made, int count, int64_t samples, int64_t advance,
                      const expected *want, int segments)
{
    np_whisper_cut cut;
    np_whisper_segments(&tokens, made, count, samples, &cut);
    assert_int_equal(cut.count, segments);
    assert_int_equal(cut.advance, advance);
    for (int i = 0; i < segments; i++) {
        const np_whisper_segment *s = &cut.segments[i];
        assert_int_equal(s->first, want[i].first);
        assert_int_equal(s->count, want[i].count);
        assert_int_equal(s->start_tick, want[i].start);
        assert_int_equal(s->end_tick, want[i].end);
    }
}
#define CUT(samples, advance, want, ...)                                                         \
    check_cut((const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), \
              samples, advance, want, sizeof want / sizeof *want)

static void test_segments(void **state)
{
    (void)state;
    /* without timestamps: the whole window, to the end of the sound */
    CUT(480000, 480000, ((expected[]){{0, 3, 0, 1500}}), 1, 2, 6);
    CUT(61600, 61600, ((expected[]){{0, 1, 0, 193}}), 1);
    CUT(1, 1, ((expected[]){{0, 1, 0, 1}}), 1);
    /* one segment with its timestamps */
    CUT(480000, 480000, ((expected[]){{1, 2, 5, 90}}), T0 + 5, 1, 2, T0 + 90);
    CUT(480000, 480000, ((expected[]){{1, 2, 5, 1500}}), T0 + 5, 1, 2);
    /* two, and a third that the window's end cut: it is heard again */
    CUT(480000, 300 * 320, ((expected[]){{1, 1, 0, 100}, {4, 1, 110, 300}}), T0, 1, T0 + 100,
        T0 + 110, 2, T0 + 300, T0 + 310, 6, 7);
    /* a pair at the end */
    CUT(480000, 100 * 320, ((expected[]){{1, 1, 0, 100}}), T0, 1, T0 + 100, T0 + 100);
    /* a timestamp alone at the end: silence follows */
    CUT(480000, 480000, ((expected[]){{1, 1, 0, 100}, {4, 2, 110, 300}}), T0, 1, T0 + 100, T0 + 110,
        2, 6, T0 + 300);
    /* nothing starts behind the end of the sound, nothing ends there */
    CUT(61600, 61600, ((expected[]){{1, 1, 0, 193}}), T0, 1, T0 + 500, T0 + 500, 2, T0 + 900);
    CUT(61600, 61600, ((expected[]){{1, 1, 0, 193}}), T0, 1, T0 + 200, T0 + 200);
    /* a pair at 0 s must not stop the recording from going on */
    CUT(480000, 480000, ((expected[]){{2, 1, 0, 0}}), T0, T0, 1, T0, T0);
    np_whisper_cut cut;
    np_whisper_segments(&tokens, NULL, 0, 480000, &cut);
    assert_int_equal(cut.count, 0);
    assert_int_equal(cut.advance, 480000);
    np_whisper_segments(&tokens, (int32_t[]){T0 + 4}, 1, 99, &cut);
    assert_int_equal(cut.count, 0);
    assert_int_equal(cut.advance, 99);
}

/* Any ids: segments inside the ids and the sound, in one piece, and the next window moves on. */
static void test_segments_of_anything(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        int32_t made[NP_WHISPER_NEW_TOKENS];
        const int count = round % (NP_WHISPER_NEW_TOKENS + 1);
        const int64_t samples = 1 + next_random() % 480000;
        for (int i = 0; i < count; i++)
            made[i] = (int32_t)(next_random() % (next_random() % 2 ? VOCABULARY : 10));
        np_whisper_cut cut;
        np_whisper_segments(&tokens, made, count, samples, &cut);
        assert_true(cut.advance > 0 && cut.advance <= samples);
        for (int i = 0, at = 0; i < cut.count; i++) {
            const np_whisper_segment *s = &cut.segments[i];
            assert_true(s->first >= at && s->count > 0 && s->first + s->count <= count);
            assert_true(s->start_tick >= 0 && (int64_t)s->start_tick * 320 < samples);
            assert_true(s->end_tick >= s->start_tick && (s->end_tick - 1) * 320 < samples);
            at = s->first + s->count;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt),
        cmocka_unit_test(test_filter_without_timestamps),
        cmocka_unit_test(test_filter_order_of_timestamps),
        cmocka_unit_test(test_filter_ends_with_the_sound),
        cmocka_unit_test(test_filter_forces_a_timestamp),
        cmocka_unit_test(test_filter_leaves_something),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_scores_that_are_no_numbers),
        cmocka_unit_test(test_language),
        cmocka_unit_test(test_attempts),
        cmocka_unit_test(test_better_attempts),
        cmocka_unit_test(test_compression),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_segments_of_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
