/* test_real_transcribe.c - whisper-base through the library: every option that is checked, callbacks
 * that stop, allocations that fail; the vocabulary's symbols that are not spoken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "neap/audio.h"
#include "run/whisper_decode.h"

static char folder[400];
static float sound[NEAP_MEL_SAMPLES];
static int64_t sound_count, sound_at;

static bool find_model(void)
{
    const char *shared = getenv("NEAP_SHARED");
    char path[512];
    int16_t pcm[4096];
    snprintf(folder, sizeof folder, "%s/models/whisper-base", shared ? shared : "../shared");
    snprintf(path, sizeof path, "%s/speech.wav", folder);
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    fseek(f, 44, SEEK_SET);
    for (size_t n; (n = fread(pcm, 2, 4096, f)) > 0;)
        for (size_t i = 0; i < n; i++)
            sound[sound_count++] = (float)pcm[i] / 32768;
    fclose(f);
    return true;
}

static int64_t read_sound(void *user, float *out, int64_t count)
{
    (void)user;
    const int64_t left = sound_count - sound_at, n = count < left ? count : left;
    memcpy(out, sound + sound_at, (size_t)n * sizeof *out);
    sound_at += n;
    return n;
}

static int64_t read_nothing(void *user, float *out, int64_t count)
{
    (void)user, (void)out, (void)count;
    return -1;
}

static char heard[256];

static bool on_window(void *user, const neap_speech_window *w)
{
    assert_true(w->no_speech >= 0 && w->no_speech <= 1 && w->start == 0);
    assert_string_equal(w->language, "en");
    heard[0] = '\0';
    for (int64_t i = 0; i < w->n_segments; i++)
        strncat(heard, w->segments[i].text, w->segments[i].length);
    return user == NULL;
}

static neap_context *new_context(int64_t fail)
{
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_context *ctx;
    o.threads = 1;
    o.fail_allocation = fail;
    return neap_context_new(&o, &ctx) == NEAP_OK ? ctx : NULL;
}

static neap_transcribe_options options_of(void)
{
    neap_transcribe_options o = NEAP_TRANSCRIBE_OPTIONS_INIT;
    o.language = "en";
    o.read = read_sound;
    o.on_window = on_window;
    sound_at = 0;
    return o;
}

/* A recording of `left` samples, `piece` of them at most in a call: the speech, then nothing. */
typedef struct recording {
    int64_t at, left;
    int windows;
    bool timed; /* the first window has timestamps */
} recording;

static int64_t read_recording(void *user, float *out, int64_t count)
{
    recording *r = user;
    const int64_t n = count < r->left ? count : r->left;
    for (int64_t i = 0; i < n; i++, r->at++)
        out[i] = r->at < sound_count ? sound[r->at] : 0;
    r->left -= n;
    return n;
}

static bool on_recording(void *user, const neap_speech_window *w)
{
    recording *r = user;
    for (int64_t i = 0; r->windows == 0 && i < w->n_ids; i++)
        r->timed |= w->ids[i] >= 50364;
    r->windows++;
    return true;
}

/* Up to 30 s, 480,000 samples, no timestamps are needed; every sample is heard once. */
static void test_exactly_one_window(void **state)
{
    (void)state;
    static const struct {
        int64_t samples, length;
        neap_timestamps timestamps;
        bool timed;
    } rows[] = {{479999, 0, NEAP_TIMESTAMPS_AUTO, false},
                {480000, 0, NEAP_TIMESTAMPS_AUTO, false},
                {480000, 480000, NEAP_TIMESTAMPS_AUTO, false},
                {480001, 0, NEAP_TIMESTAMPS_AUTO, true},
                {480000, 0, NEAP_TIMESTAMPS_ON, true},
                {480001, 0, NEAP_TIMESTAMPS_OFF, false},
                {960000, 960000, NEAP_TIMESTAMPS_AUTO, true}};
    neap_context *ctx = new_context(0);
    neap_transcriber *t;
    assert_int_equal(neap_transcriber_open(ctx, folder, NULL, &t), NEAP_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        recording r = {.left = rows[i].samples};
        neap_transcribe_result result = NEAP_TRANSCRIBE_RESULT_INIT;
        neap_transcribe_options o = options_of();
        o.read = read_recording;
        o.on_window = on_recording;
        o.user = &r;
        o.timestamps = rows[i].timestamps;
        o.length = rows[i].length;
        assert_int_equal(neap_transcribe(t, &o, &result), NEAP_OK);
        assert_int_equal(r.timed, rows[i].timed);
        assert_false(result.stopped);
        assert_int_equal(r.left, 0);
        assert_true(result.seconds == (double)rows[i].samples / NEAP_AUDIO_RATE);
        assert_int_equal(r.windows > 1, rows[i].samples > 960000 - 1);
    }
    neap_transcriber_close(t);
    neap_context_free(ctx);
}

static void test_options(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    neap_transcriber *t;
    neap_transcribe_result r = NEAP_TRANSCRIBE_RESULT_INIT;
    assert_int_equal(neap_transcriber_open(ctx, folder, NULL, &t), NEAP_OK);
    neap_transcribe_options o = options_of();
    o.read = NULL;
    assert_int_equal(neap_transcribe(t, &o, &r), NEAP_EINVAL);
    o = options_of();
    o.language = "english";
    assert_int_equal(neap_transcribe(t, &o, &r), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "\"english\""));
    o = options_of();
    o.temperature = NAN;
    assert_int_equal(neap_transcribe(t, &o, &r), NEAP_EINVAL);
    o = options_of();
    o.timestamps = (neap_timestamps)3;
    assert_int_equal(neap_transcribe(t, &o, &r), NEAP_EINVAL);
    o = options_of();
    o.size = 4;
    assert_int_equal(neap_transcribe(t, &o, &r), NEAP_EINVAL);
    o = options_of();
    o.read = read_nothing;
    assert_int_equal(neap_transcribe(t, &o, &r), NEAP_OK);
    assert_true(r.stopped && r.windows == 0);
    /* a bad sample is named; the transcriber can be used again */
    const float kept = sound[1000];
    sound[1000] = NAN;
    o = options_of();
    assert_int_equal(neap_transcribe(t, &o, &r), NEAP_EINVAL);
    assert_non_null(strstr(neap_context_error(ctx), "sample 1000 is nan"));
    sound[1000] = kept;
    for (int round = 0; round < 2; round++) { /* told to stop after the window: it is whole */
        o = options_of();
        o.user = round ? NULL : &o;
        assert_int_equal(neap_transcribe(t, &o, &r), NEAP_OK);
        assert_string_equal(heard, " The quick brown fox jumps over the lazy dog.");
        assert_int_equal(r.windows, 1);
        assert_int_equal(r.generated_tokens, 10);
    }
    neap_transcriber_close(t);
    neap_context_free(ctx);
}

/* With the n-th allocation failing: an error that says so, and nothing stays. 0: opening failed, 1:
 * hearing failed, 2: neither. */
static int fail_at(int64_t n)
{
    neap_context *ctx = new_context(n);
    neap_transcriber *t;
    if (!ctx)
        return 0;
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = before;
    neap_context_memory(ctx, &before);
    neap_status status = neap_transcriber_open(ctx, folder, NULL, &t);
    const bool opened = status == NEAP_OK;
    neap_transcribe_options o = options_of();
    if (opened)
        status = neap_transcribe(t, &o, NULL);
    if (status != NEAP_OK) {
        assert_int_equal(status, NEAP_ENOMEM);
        assert_true(*neap_context_error(ctx) != '\0');
    }
    if (opened)
        neap_transcriber_close(t);
    neap_context_memory(ctx, &after);
    assert_int_equal(after.active, before.active);
    assert_int_equal(after.mapped, before.mapped);
    neap_context_free(ctx);
    return opened + (status == NEAP_OK);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    int64_t low = 1, high = 1;
    while (fail_at(high) == 0) {
        low = high;
        high += 1 + high / 4;
    }
    while (high - low > 1) { /* the first number that lets it open */
        const int64_t middle = low + (high - low) / 2;
        *(fail_at(middle) == 0 ? &low : &high) = middle;
    }
    int failed = 0; /* ever further apart: each hears the sound up to there */
    for (int64_t n = high; fail_at(n) == 1; n += 1 + (int64_t)failed * failed * failed / 8)
        failed++;
    print_message("opening takes %d allocations, hearing failed at %d of its own\n", (int)low, failed);
    assert_true(low > 10 && failed > 0);
}

/* Whisper's own list for this vocabulary, as its generation_config.json has it. */
static void test_suppressed(void **state)
{
    (void)state;
    static const int32_t want[] = {
        1, 2, 7, 8, 9, 10, 14, 25, 26, 27, 28, 29, 31, 58, 59, 60, 61, 62, 63, 90, 91, 92, 93, 359,
        503, 522, 542, 873, 893, 902, 918, 922, 931, 1350, 1853, 1982, 2460, 2627, 3246, 3253, 3268,
        3536, 3846, 3961, 4183, 4667, 6585, 6647, 7273, 9061, 9383, 10428, 10929, 11938, 12033,
        12331, 12562, 13793, 14157, 14635, 15265, 15618, 16553, 16604, 18362, 18956, 20075, 21675,
        22520, 26130, 26161, 26435, 28279, 29464, 31650, 32302, 32470, 36865, 42863, 47425, 49870,
        50254};
    enum { COUNT = sizeof want / sizeof *want };
    neap_context *ctx = new_context(0);
    neap_tokenizer *tokenizer;
    np_whisper_tokens k;
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(neap_tokenizer_open(ctx, path, &tokenizer), NEAP_OK);
    assert_int_equal(np_whisper_find_tokens(ctx, tokenizer, 51865, &k), NEAP_OK);
    assert_int_equal(k.suppressed_count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        int at = 0;
        while (at < COUNT && k.suppressed[at] != want[i])
            at++;
        assert_true(at < COUNT);
    }
    assert_int_equal(k.blank, 220);
    assert_int_equal(k.end, 50257);
    assert_int_equal(k.start, 50258);
    assert_int_equal(k.translate, 50358);
    assert_int_equal(k.transcribe, 50359);
    assert_int_equal(k.previous, 50361);
    assert_int_equal(k.no_speech, 50362);
    assert_int_equal(k.no_timestamps, 50363);
    assert_int_equal(k.timestamp, 50364);
    assert_int_equal(k.timestamps, 1501);
    assert_int_equal(k.languages, 99);
    assert_int_equal(np_whisper_find_language(&k, tokenizer, "de", 2), 50261);
    neap_tokenizer_free(tokenizer);
    neap_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_exactly_one_window),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_suppressed),
    };
    if (!find_model()) {
        puts("skipped: no whisper-base in ../shared/models; NEAP_SHARED names another place");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
