/* mel.c - the log-mel spectrogram of Whisper, see neap/audio.h.
 *
 * kissfft works in memory that it is given, so all bytes are on the ledger: one block holds tables,
 * work space and the FFT's own state. n = 400 has the factors 4, 2 and 5 only, for which kissfft
 * allocates nothing while it runs. */
#include "audio/mel.h"

#include <assert.h>
#include <inttypes.h>
#include <kiss_fftr.h>
#include <math.h>
#include <string.h>

#include "base/interrupt.h"

enum { N_FFT = 400, N_FREQUENCIES = N_FFT / 2 + 1, PAD = N_FFT / 2 };
static const double PI = 3.14159265358979323846;
static const float FLOOR = 1e-10f;
static const float LOUDEST = 1e6f; /* a sample; its power times 400 squared is far below FLT_MAX */

typedef struct band { /* a triangle over some frequencies */
    int first, count;
    const float *weights;
} band;

struct neap_mel {
    neap_context *ctx;
    size_t bytes; /* of this block, the FFT's state included */
    int bins;
    kiss_fftr_cfg fft;
    const float *samples; /* of the present window */
    int64_t count;
    float lowest; /* log10 of the largest power, minus 8 */
    float hann[N_FFT], frame[N_FFT], power[N_FREQUENCIES];
    kiss_fft_cpx spectrum[N_FREQUENCIES];
    band bands[NP_MEL_BINS_MAX];
    float weights[2 * N_FREQUENCIES]; /* a frequency lies under two triangles at most */
};

/* ---- tables ------------------------------------------------------------------------------- */

/* Slaney's scale: linear up to 1 kHz (15 mel), then logarithmic: 27 mel for a factor of 6.4. */
static double mel_to_hertz(double mel)
{
    return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

static void make_bands(neap_mel *m)
{
    const double top = 15 + 27 * log(8.0) / log(6.4); /* 8 kHz */
    float *weight = m->weights;
    for (int b = 0; b < m->bins; b++) {
        const double low = mel_to_hertz(top * b / (m->bins + 1));
        const double mid = mel_to_hertz(top * (b + 1) / (m->bins + 1));
        const double high = mel_to_hertz(top * (b + 2) / (m->bins + 1));
        band *t = &m->bands[b];
        t->weights = weight;
        for (int k = 0; k < N_FREQUENCIES; k++) {
            const double f = (double)k * NEAP_AUDIO_RATE / N_FFT;
            const double up = (f - low) / (mid - low), down = (high - f) / (high - mid);
            const double height = fmin(up, down);
            if (height <= 0)
                continue;
            if (t->count++ == 0)
                t->first = k;
            assert(weight < m->weights + sizeof m->weights / sizeof *m->weights);
            *weight++ = (float)(height * 2 / (high - low)); /* equal areas */
        }
    }
}

static neap_status mel_new(neap_context *ctx, int bins, neap_mel **out)
{
    *out = NULL;
    if (bins != 80 && bins != 128)
        return np_fail(ctx, NEAP_EINVAL, "mel: %d bins, expected 80 or 128", bins);
    const size_t head = (sizeof(neap_mel) + 63) / 64 * 64;
    size_t fft_bytes = 0;
    kiss_fftr_alloc(N_FFT, 0, NULL, &fft_bytes);
    neap_mel *m = np_calloc(ctx, NEAP_MEM_HOST, head + fft_bytes);
    if (!m)
        return NEAP_ENOMEM;
    m->ctx = ctx;
    m->bytes = head + fft_bytes;
    m->bins = bins;
    m->fft = kiss_fftr_alloc(N_FFT, 0, (char *)m + head, &fft_bytes);
    assert(m->fft);
    for (int i = 0; i < N_FFT; i++)
        m->hann[i] = (float)(0.5 - 0.5 * cos(2 * PI * i / N_FFT));
    make_bands(m);
    *out = m;
    return NEAP_OK;
}

neap_status neap_mel_new(neap_context *ctx, int bins, neap_mel **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, out, mel_new(ctx, bins, out));
}

void neap_mel_free(neap_mel *m)
{
    if (m)
        np_free(m->ctx, NEAP_MEM_HOST, m, m->bytes);
}

int np_mel_bins(const neap_mel *m)
{
    return m->bins;
}

/* ---- frames ------------------------------------------------------------------------------- */

/* The window's sample `i`, reflected at its ends; behind what was given it is silent. */
static float sample(const neap_mel *m, int64_t i)
{
    if (i < 0)
        i = -i;
    if (i >= NEAP_MEL_SAMPLES)
        i = 2 * (NEAP_MEL_SAMPLES - 1) - i;
    return i < m->count ? m->samples[i] : 0;
}

/* Sets m->power. false: nothing but silence. */
static bool frame_power(neap_mel *m, int64_t t)
{
    const int64_t first = t * NEAP_MEL_HOP - PAD;
    if (first >= m->count && first + N_FFT <= NEAP_MEL_SAMPLES)
        return false;
    for (int i = 0; i < N_FFT; i++)
        m->frame[i] = m->hann[i] * sample(m, first + i);
    kiss_fftr(m->fft, m->frame, m->spectrum);
    for (int k = 0; k < N_FREQUENCIES; k++)
        m->power[k] = m->spectrum[k].r * m->spectrum[k].r + m->spectrum[k].i * m->spectrum[k].i;
    return true;
}

static float band_power(const neap_mel *m, int b)
{
    const band *t = &m->bands[b];
    float sum = 0;
    for (int k = 0; k < t->count; k++)
        sum += t->weights[k] * m->power[t->first + k];
    return sum > FLOOR ? sum : FLOOR;
}

neap_status np_mel_begin(neap_mel *m, const float *samples, int64_t count)
{
    if (count < 0 || count > NEAP_MEL_SAMPLES)
        return np_fail(m->ctx, NEAP_EINVAL, "mel: %" PRId64 " samples, a window has 0 to %d", count,
                       NEAP_MEL_SAMPLES);
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(samples[i]) <= LOUDEST))
            return np_fail(m->ctx, NEAP_EINVAL,
                           "mel: sample %" PRId64 " is %g, expected a number within %g", i,
                           (double)samples[i], (double)LOUDEST);
    m->samples = samples;
    m->count = count;
    float largest = FLOOR;
    for (int64_t t = 0; t < NEAP_MEL_FRAMES; t++) {
        if (t % 64 == 0 && np_check(m->ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        if (!frame_power(m, t))
            continue;
        for (int b = 0; b < m->bins; b++) {
            const float p = band_power(m, b);
            largest = p > largest ? p : largest;
        }
    }
    m->lowest = (float)log10((double)largest) - 8;
    return NEAP_OK;
}

void np_mel_frame(neap_mel *m, int64_t t, float *out)
{
    const bool sound = frame_power(m, t);
    for (int b = 0; b < m->bins; b++) {
        float x = (float)log10((double)(sound ? band_power(m, b) : FLOOR));
        x = x > m->lowest ? x : m->lowest;
        out[b] = (x + 4) / 4;
    }
}

static neap_status mel_window(neap_mel *m, const float *samples, int64_t count, float *out)
{
    float column[NP_MEL_BINS_MAX];
    const neap_status status = np_mel_begin(m, samples, count);
    if (status != NEAP_OK)
        return status;
    for (int64_t t = 0; t < NEAP_MEL_FRAMES; t++) {
        if (t % 64 == 0 && np_check(m->ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        np_mel_frame(m, t, column);
        for (int b = 0; b < m->bins; b++)
            out[b * NEAP_MEL_FRAMES + t] = column[b];
    }
    return NEAP_OK;
}

neap_status neap_mel_window(neap_mel *m, const float *samples, int64_t count, float *out)
{
    return NP_CALL_ON(m, out && (samples || count == 0), mel_window(m, samples, count, out));
}
