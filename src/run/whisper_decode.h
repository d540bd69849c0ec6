/* whisper_decode.h - the decisions in turning speech to text: which token may come next, which one
 * comes, whether an attempt was good, how a window is cut into segments, where the next one starts.
 *
 * Pure functions of ids and scores: nothing here knows models, audio or files, so all of it is
 * tested with scores made by hand. The rules are those of Whisper's own decoder; where they differ
 * it says so. Times are ticks of 20 ms, the model's own unit, from the window's start. */
#ifndef NP_WHISPER_DECODE_H
#define NP_WHISPER_DECODE_H

#include "base/context.h"
#include "neap/tokenizer.h"

enum {
    NP_WHISPER_TICKS = 1500,         /* of a window */
    NP_WHISPER_TICK_SAMPLES = 320,   /* at 16 kHz */
    NP_WHISPER_FIRST_TICKS = 50,     /* the first timestamp is no later than 1 s */
    NP_WHISPER_NEW_TOKENS = 224,     /* of a window at most */
    NP_WHISPER_PREVIOUS_TOKENS = 223,
    NP_WHISPER_PROMPT_TOKENS = NP_WHISPER_PREVIOUS_TOKENS + 5,
    NP_WHISPER_SUPPRESSED = 96,
    NP_WHISPER_TEMPERATURES = 6
};

/* ---- tokens --------------------------------------------------------------------------------- */

/* Ids of the special tokens; -1: the vocabulary has none. */
typedef struct np_whisper_tokens {
    int32_t vocabulary; /* scores of a step */
    int32_t end, start, previous, translate, transcribe, start_lm, no_speech, no_timestamps;
    int32_t timestamp, timestamps; /* the first, 0 s, and how many; 0 if the model has none */
    int32_t language, languages;   /* the first and how many; 0: the model knows English only */
    int32_t blank;                 /* a space alone */
    int32_t suppressed_count;
    int32_t suppressed[NP_WHISPER_SUPPRESSED]; /* symbols that are no speech: brackets, notes ... */
} np_whisper_tokens;

/* Looks the tokens up by their text. Timestamps that the file does not list lie behind the last
 * special token. NEAP_EUNSUPPORTED: not a vocabulary of Whisper. NEAP_ENOMEM. */
neap_status np_whisper_find_tokens(neap_context *ctx, const neap_tokenizer *tokenizer,
                                   int32_t vocabulary, np_whisper_tokens *out);
/* "en" -> its id, or -1. */
int32_t np_whisper_find_language(const np_whisper_tokens *tokens, const neap_tokenizer *tokenizer,
                                 const char *code, size_t length);
/* The likeliest language, from the scores after the start token; -1 if the model has only one. */
int32_t np_whisper_hear_language(const np_whisper_tokens *tokens, const float *scores);

/* ---- a window ------------------------------------------------------------------------------- */

typedef struct np_whisper_task {
    int32_t language; /* id; not used if the model knows English only */
    bool translate;   /* to English */
    bool timestamps;
    int32_t last_tick;  /* where the sound ends: no timestamp is later (Whisper has no such rule) */
} np_whisper_task;

/* What the decoder is fed before it is asked: [previous text,] start, language, task, [no
 * timestamps]. Of `previous` the last `room` ids at most. `start_at`: the index of the start token.
 * Returns the count, NP_WHISPER_PROMPT_TOKENS at most. */
int32_t np_whisper_prompt(const np_whisper_tokens *tokens, const np_whisper_task *task,
                          const int32_t *previous, int32_t count, int32_t room, int32_t *out,
                          int32_t *start_at);

/* Sets the scores of tokens that may not come after the `count` ids made so far to -inf. */
void np_whisper_filter(const np_whisper_tokens *tokens, const np_whisper_task *task,
                       const int32_t *made, int32_t count, float *scores);

typedef struct np_whisper_choice {
    int32_t id;     /* -1: there is a NaN among the scores, an infinity, or nothing else */
    double logprob; /* at temperature 1, of the filtered scores */
} np_whisper_choice;
/* The first of the largest (temperature 0), or drawn: a pure function of seed and step. */
np_whisper_choice np_whisper_next(const np_whisper_tokens *tokens, const float *scores,
                                  float temperature, uint64_t seed, uint64_t step);

/* Softmax of the unfiltered scores at `id`: in [0, 1], also for scores that are no numbers (0). */
double np_whisper_probability(const np_whisper_tokens *tokens, const float *scores, int32_t id);

/* ---- an attempt ----------------------------------------------------------------------------- */

extern const float np_whisper_temperatures[NP_WHISPER_TEMPERATURES];

typedef struct np_whisper_attempt {
    double logprob; /* mean over the new tokens and the end */
    double compression;
    double no_speech; /* probability */
} np_whisper_attempt;

/* Nobody speaks: no text is better than what was found. */
bool np_whisper_is_silent(const np_whisper_attempt *attempt);
/* The next temperature should be tried: repetition, or the model is unsure; not if it is silent. */
bool np_whisper_is_poor(const np_whisper_attempt *attempt);
/* Of two: the one that is less beyond the thresholds, -1 - logprob and ln(compression / 2.4) added;
 * then the likelier. (Whisper takes the last one, however poor. But where the sure text repeats
 * itself and a drawn one is nonsense, it is the sound that repeats itself.) */
bool np_whisper_is_better(const np_whisper_attempt *attempt, const np_whisper_attempt *than);

/* How much text repeats itself: its bytes by those that deflate would need for the first 8 KiB of
 * it, as reckoned from its matches; 0 for no text. Near zlib's figure (tests hold both beside each
 * other), for which the limit of 2.4 was made. */
double np_whisper_compression(const char *text, size_t length);

/* ---- segments ------------------------------------------------------------------------------- */

typedef struct np_whisper_segment {
    int32_t first, count;        /* of the window's new ids: text only, no timestamps around it */
    int32_t start_tick, end_tick; /* start < the window's end, start <= end */
} np_whisper_segment;

enum { NP_WHISPER_SEGMENTS = NP_WHISPER_NEW_TOKENS / 2 + 1 };

typedef struct np_whisper_cut {
    int32_t count;
    np_whisper_segment segments[NP_WHISPER_SEGMENTS];
    int64_t advance; /* samples to the next window's start: 1 .. samples */
} np_whisper_cut;

/* Cuts the new ids of a window with `samples` (above 0) samples of sound at pairs of timestamps. A
 * segment without text is left out. */
void np_whisper_segments(const np_whisper_tokens *tokens, const int32_t *made, int32_t count,
                         int64_t samples, np_whisper_cut *out);

#endif
