/* test_mel.c - log-mel spectrograms against the definition in float64 (tools/make_mel_goldens.py),
 * and against the features that the reference of whisper-base was given. */
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

static neap_context *ctx;
static uint64_t held_before; /* the context's own */
static float samples[NEAP_MEL_SAMPLES];
static float out[128 * NEAP_MEL_FRAMES];

static uint64_t held_host(void)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active_by_category[NEAP_MEM_HOST];
}

static int open_context(void **state)
{
    (void)state;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        return -1;
    held_before = held_host();
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    assert_int_equal(held_host(), held_before);
    neap_context_free(ctx);
    return 0;
}

/* The sounds of the tool. */
static void make_sound(uint32_t kind, uint32_t count)
{
    uint32_t state = 12345;
    for (uint32_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        samples[i] = kind == 0 ? (float)((((double)(state >> 16)) / 32768 - 1) * i / NEAP_MEL_SAMPLES)
                               : (float)((abs((int)(i % 36) - 18) / 9.0 - 1) * 0.25);
    }
}

/* Float FFT and sums beside float64: 1e-5 of a quarter of log10 is 1e-4 of a power. Bands 60 dB or
 * more below the window's loudest (1.5 here) hold the rounding of the loud ones of their frame. */
static void test_goldens(void **state)
{
    (void)state;
    FILE *file = fopen(NEAP_TEST_DIR "/golden/mel.bin", "rb");
    assert_non_null(file);
    uint32_t head[4];
    int rows = 0;
    double worst = 0;
    while (fread(head, 4, 4, file) == 4) {
        float want[128];
        assert_int_equal(fread(want, 4, head[0], file), head[0]);
        make_sound(head[1], head[2]);
        neap_mel *mel;
        assert_int_equal(neap_mel_new(ctx, (int)head[0], &mel), NEAP_OK);
        assert_int_equal(neap_mel_window(mel, samples, head[2], out), NEAP_OK);
        float loudest = -2;
        for (uint32_t k = 0; k < head[0] * NEAP_MEL_FRAMES; k++)
            loudest = fmaxf(loudest, out[k]);
        for (uint32_t b = 0; b < head[0]; b++) {
            const float got = out[b * NEAP_MEL_FRAMES + head[3]];
            const double off = fabs((double)got - want[b]);
            worst = fmax(worst, off);
            assert_true(off <= (want[b] > loudest - 1.5f ? 1e-5 : 1e-4));
        }
        neap_mel_free(mel);
        rows++;
    }
    fclose(file);
    print_message("%d frames, at most %g off\n", rows, worst);
    assert_int_equal(rows, 22);
}

/* Silence has the floor everywhere, clamped by a largest value that is the floor too. */
static void test_silence(void **state)
{
    (void)state;
    neap_mel *mel;
    assert_int_equal(neap_mel_new(ctx, 80, &mel), NEAP_OK);
    memset(samples, 0, sizeof samples);
    static const int64_t counts[] = {0, 1, NEAP_MEL_SAMPLES};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(neap_mel_window(mel, i ? samples : NULL, counts[i], out), NEAP_OK);
        for (int k = 0; k < 80 * NEAP_MEL_FRAMES; k++)
            assert_true(out[k] == -1.5f);
    }
    neap_mel_free(mel);
}

static void test_what_is_given(void **state)
{
    (void)state;
    neap_mel *mel;
    static const int wrong[] = {0, -1, 79, 81, 129, 1 << 30};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(neap_mel_new(ctx, wrong[i], &mel), NEAP_EINVAL);
        assert_null(mel);
    }
    assert_int_equal(neap_mel_new(ctx, 80, &mel), NEAP_OK);
    memset(samples, 0, sizeof samples);
    assert_int_equal(neap_mel_window(mel, samples, -1, out), NEAP_EINVAL);
    assert_int_equal(neap_mel_window(mel, samples, NEAP_MEL_SAMPLES + 1, out), NEAP_EINVAL);
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1.1e6f, -3e38f};
    for (int i = 0; i < 5; i++) {
        samples[1234] = bad[i];
        assert_int_equal(neap_mel_window(mel, samples, 2000, out), NEAP_EINVAL);
        assert_non_null(strstr(neap_context_error(ctx), "sample 1234 is "));
    }
    for (int i = 0; i < NEAP_MEL_SAMPLES; i++)
        samples[i] = i % 2 ? 1e6f : -1e6f; /* the loudest that is accepted: still numbers */
    assert_int_equal(neap_mel_window(mel, samples, NEAP_MEL_SAMPLES, out), NEAP_OK);
    for (int k = 0; k < 80 * NEAP_MEL_FRAMES; k++)
        assert_true(isfinite(out[k]));
    neap_mel_free(mel);
    neap_context *small;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.fail_allocation = 1;
    o.threads = 1;
    if (neap_context_new(&o, &small) == NEAP_OK) {
        assert_int_equal(neap_mel_new(small, 80, &mel), NEAP_ENOMEM);
        neap_context_free(small);
    }
}

/* The reference's features are bf16: half a unit in the last place is 2^-9 of the value. */
static void test_reference(void **state)
{
    (void)state;
    const char *shared = getenv("NEAP_SHARED");
    char path[512];
    shared = shared ? shared : "../shared";
    snprintf(path, sizeof path, "%s/models/whisper-base/speech.wav", shared);
    FILE *file = fopen(path, "rb");
    if (!file)
        skip();
    static int16_t pcm[NEAP_MEL_SAMPLES];
    fseek(file, 44, SEEK_SET);
    const size_t count = fread(pcm, 2, NEAP_MEL_SAMPLES, file);
    fclose(file);
    for (size_t i = 0; i < count; i++)
        samples[i] = (float)pcm[i] / 32768;
    static uint16_t want[80 * NEAP_MEL_FRAMES];
    snprintf(path, sizeof path, "%s/models/whisper-base/refs/input_features.bin", shared);
    file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 24, SEEK_SET);
    assert_int_equal(fread(want, 2, 80 * NEAP_MEL_FRAMES, file), 80 * NEAP_MEL_FRAMES);
    fclose(file);
    neap_mel *mel;
    assert_int_equal(neap_mel_new(ctx, 80, &mel), NEAP_OK);
    assert_int_equal(neap_mel_window(mel, samples, (int64_t)count, out), NEAP_OK);
    neap_mel_free(mel);
    for (int k = 0; k < 80 * NEAP_MEL_FRAMES; k++) {
        const uint32_t bits = (uint32_t)want[k] << 16;
        float w;
        memcpy(&w, &bits, 4);
        assert_true(fabsf(out[k] - w) <= fabsf(w) / 256 + 1e-5f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_what_is_given),
        cmocka_unit_test(test_reference),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
