/* neap/audio.h - speech: the log-mel spectrogram that models hear, and transcription with Whisper.
 *
 * Sound is mono, f32, 16000 samples a second, normally within -1 .. 1. Files are read and resampled
 * by who calls (the command uses libsndfile and libsamplerate): their memory cannot be counted. */
#ifndef NEAP_AUDIO_H
#define NEAP_AUDIO_H

#include "plan.h"

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

/* ---- transcription ------------------------------------------------------------------------ */

/* A Whisper model as ExecuTorch exports it: a folder with
 *   encoder.pte     features [1, bins, 3000] -> hidden [1, n, d]
 *   cross_kv.pte    hidden -> keys and values of each decoder layer
 *   decoder.pte     id [1, 1], position [1], those -> scores [1, 1, vocabulary]; its mutable buffers
 *                   are the keys and values of the text
 *   tokenizer.json
 * A window runs one program after the other and each is let go of when its results are used up, so
 * the peak is that of the largest and not of all. */
typedef struct neap_transcriber neap_transcriber;

typedef struct neap_transcriber_options {
    size_t size;
    uint64_t memory; /* bytes: becomes the context's limit if the run fits; 0 = as it is */
    int threads;     /* of the programs; 0 = as the context, which itself needs one only */
    bool find_least; /* plans more than once to know least_bytes where the run fits as it is */
} neap_transcriber_options;
#define NEAP_TRANSCRIBER_OPTIONS_INIT NEAP_INIT(neap_transcriber_options)

/* Opens and plans; nothing large is taken. `options` may be NULL. A limit that cannot hold the run is
 * NEAP_ENOMEM; the text names the least that would do and what takes it. NEAP_EIO, NEAP_EFORMAT,
 * NEAP_EUNSUPPORTED (names the file and what it has), NEAP_EINVAL. */
NEAP_API neap_status neap_transcriber_open(neap_context *ctx, const char *folder,
                                           const neap_transcriber_options *options,
                                           neap_transcriber **out);
NEAP_API void neap_transcriber_close(neap_transcriber *transcriber);

typedef struct neap_transcriber_info {
    size_t size;
    int bins; /* mel bands */
    int64_t vocabulary;
    int64_t positions; /* of the decoder: prompt and text of a window */
    int64_t languages; /* 0: English only */
    uint64_t planned_peak_bytes; /* of the whole context (ledger) */
    uint64_t least_bytes;        /* smallest limit that is accepted, if it was looked for */
    uint64_t mapped_bytes;
    uint64_t planned_by_category[NEAP_MEM_CATEGORIES]; /* at the peak; sums to it */
    const char *peak_program; /* "encoder.pte": what runs then; a static string */
    uint64_t arena_bytes, largest_live_bytes; /* of that program */
    int64_t steps, peak_step;
    double plan_seconds; /* of all three */
} neap_transcriber_info;
#define NEAP_TRANSCRIBER_INFO_INIT NEAP_INIT(neap_transcriber_info)
NEAP_API void neap_transcriber_describe(const neap_transcriber *transcriber,
                                        neap_transcriber_info *info);
/* What is alive at the peak. Opens the program that holds it once more: NEAP_ENOMEM and the like. */
NEAP_API neap_status neap_transcriber_at_peak(neap_transcriber *transcriber,
                                              bool (*visit)(void *user,
                                                            const neap_plan_alive *alive),
                                              void *user);
/* The plans of a window; each is named by its program, "encoder.pte", which is opened once more. */
NEAP_API neap_status neap_transcriber_visit_plans(neap_transcriber *transcriber,
                                                  neap_plan_visit *visit, void *user);

typedef struct neap_speech_segment {
    double start, end; /* seconds from the recording's start */
    const char *text;  /* not terminated; normally begins with a space */
    size_t length;
    const int32_t *ids; /* of the text: no timestamps, no end */
    int64_t n_ids;
} neap_speech_segment;

/* A part of the recording, up to 30 s, that was heard at once. Everything is valid in the call. */
typedef struct neap_speech_window {
    double start, end;    /* seconds; the next window starts at `end` */
    bool silent;          /* nobody speaks: no segments */
    double no_speech;     /* probability, 0 to 1; 1 if there was nothing to hear and nothing ran */
    double logprob;       /* mean of the ids */
    double compression;   /* how much the text repeats itself */
    double temperature;   /* of the attempt that was taken */
    const char *language; /* "en"; terminated */
    const int32_t *ids;   /* with timestamps */
    int64_t n_ids;
    const neap_speech_segment *segments;
    int64_t n_segments;
} neap_speech_window;

typedef enum neap_timestamps {
    NEAP_TIMESTAMPS_AUTO, /* if the recording is longer than a window: they say where to go on */
    NEAP_TIMESTAMPS_OFF,  /* a segment a window */
    NEAP_TIMESTAMPS_ON
} neap_timestamps;

typedef struct neap_transcribe_options {
    size_t size;
    const char *language; /* "en"; NULL: as the first window sounds */
    bool translate;       /* to English */
    neap_timestamps timestamps;
    float temperature; /* of the first attempt; 0: the likeliest tokens */
    bool fallback;     /* poor attempts are repeated at .2, .4 … 1, as far as above `temperature` */
    uint64_t seed;     /* of temperatures above 0 */
    /* Mono sound at 16 kHz: up to `count` samples, fewer only at the end; -1 stops. Required. */
    int64_t (*read)(void *user, float *samples, int64_t count);
    /* Each window when it is done; false stops. May be NULL. */
    bool (*on_window)(void *user, const neap_speech_window *window);
    void *user;
    int64_t length; /* samples of the recording, for the progress that is told; 0: not known */
} neap_transcribe_options;
#define NEAP_TRANSCRIBE_OPTIONS_INIT \
    NEAP_INIT_WITH(neap_transcribe_options, NEAP_SET(fallback, true))

typedef struct neap_transcribe_result {
    size_t size;
    bool stopped;    /* by read or on_window */
    double seconds;  /* of sound */
    int64_t windows, silent_windows;
    int64_t prompt_steps, generation_steps; /* of the decoder, in all attempts */
    int64_t generated_tokens;               /* that were kept */
    double encode_seconds, prompt_seconds, generation_seconds;
    uint64_t plans, plan_hits, steps, barriers; /* of all programs */
    double plan_seconds;
} neap_transcribe_result;
#define NEAP_TRANSCRIBE_RESULT_INIT NEAP_INIT(neap_transcribe_result)

/* Hears a recording from its start to its end. `result` (may be NULL) is filled as far as it
 * came, also on an error. NEAP_EINVAL: an option, a sample that is no number, scores that are none; NEAP_ENOMEM. */
NEAP_API neap_status neap_transcribe(neap_transcriber *transcriber,
                                     const neap_transcribe_options *options,
                                     neap_transcribe_result *result);

#ifdef __cplusplus
}
#endif
#endif
