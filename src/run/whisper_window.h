/* whisper_window.h - one window of sound to token ids: attempts at rising temperatures.
 *
 * The model is a function that is fed an id at a position and leaves scores; so the loop is tested
 * with one that is made up. What a window needs is here: it allocates nothing while it runs. */
#ifndef NP_WHISPER_WINDOW_H
#define NP_WHISPER_WINDOW_H

#include "run/whisper_decode.h"

/* A decoder that has heard the window. */
typedef struct np_whisper_decoder {
    void *model;
    int32_t positions; /* room for prompt and new ids */
    float *scores;     /* [vocabulary], of the id after the last one fed; may be overwritten */
    /* What was fed at earlier positions stays; what was at this one and later is forgotten. */
    neap_status (*feed)(void *model, int32_t id, int32_t position);
} np_whisper_decoder;

/* An attempt and what came out of it: with timestamps, without the end. */
typedef struct np_whisper_made {
    int32_t count, ids[NP_WHISPER_NEW_TOKENS];
    float temperature;
    np_whisper_attempt attempt;
} np_whisper_made;

typedef struct np_whisper_window {
    /* given */
    neap_context *ctx;
    const neap_tokenizer *tokenizer;
    const np_whisper_tokens *tokens;
    const np_whisper_decoder *decoder;
    np_whisper_task task;
    float temperature; /* of the first attempt; later ones take the next of the list */
    bool fallback;     /* there are later ones */
    uint64_t seed, number; /* draws differ from window to window */
    const int32_t *previous; /* text before, as a prompt */
    int32_t previous_count;
    neap_text *text; /* work space */
    /* found */
    np_whisper_made made; /* the attempt that is taken */
    np_whisper_made best; /* work space: of those before */
    bool silent;          /* nobody speaks: made is empty */
    int64_t prompt_steps, new_steps; /* of the decoder, in all attempts */
    double prompt_seconds, new_seconds;
} np_whisper_window;

/* NEAP_EINVAL: the decoder's scores are no numbers; else the decoder's own. */
neap_status np_whisper_hear(np_whisper_window *window);

#endif
