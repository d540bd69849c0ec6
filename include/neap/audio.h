/* neap/audio.h - what speech models hear: the log-mel spectrogram of a window of sound.
 *
 * Sound is mono, f32, 16000 samples a second, normally within -1 .. 1. Files are read and resampled
 * by who calls (the command uses libsndfile and libsamplerate): their memory cannot be counted. */
#ifndef NEAP_AUDIO_H
#define NEAP_AUDIO_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    NEAP_AUDIO_RATE = 16000,   /* samples a second */
    NEAP_MEL_SAMPLES = 480000, /* of a window: 30 s */
    NEAP_MEL_HOP = 160,        /* samples from frame to frame: 10 ms */
    NEAP_MEL_FRAMES = 3000     /* of a window */
};

/* ---- log-mel spectrogram ------------------------------------------------------------------ */

typedef struct neap_mel neap_mel;

/* Tables and work space for `bins` mel bands, 80 or 128 (Whisper's), between 0 and 8 kHz: some
 * 20 KB of host memory; nothing is taken later. NEAP_EINVAL, NEAP_ENOMEM. */
NEAP_API neap_status neap_mel_new(neap_context *ctx, int bins, neap_mel **out);
NEAP_API void neap_mel_free(neap_mel *mel);

/* f32 [bins, 3000] of one window: Hann windows of 400 samples centred every 160 (reflected at the
 * ends), power, Slaney's mel bands, log10 not below 1e-10 nor 8 below the window's largest,
 * (x + 4) / 4. `count` of 0 to 480000 samples; silence follows. NEAP_EINVAL: a count out of range,
 * or a sample that is no number within ±1e6. */
NEAP_API neap_status neap_mel_window(neap_mel *mel, const float *samples, int64_t count,
                                     float *out);

#ifdef __cplusplus
}
#endif
#endif
