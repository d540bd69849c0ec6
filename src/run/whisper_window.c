/* whisper_window.c - see whisper_window.h. */
#include "run/whisper_window.h"

#include "base/clock.h"

/* ---- one attempt -------------------------------------------------------------------------- */

static neap_status feed(np_whisper_window *w, int32_t id, int32_t position)
{
    return w->decoder->feed(w->decoder->model, id, position);
}

/* From the second attempt on the prompt is in the decoder's memory; its last id gives the scores. */
static neap_status feed_prompt(np_whisper_window *w, const int32_t *prompt, int32_t count,
                               int32_t start_at, bool again)
{
    for (int32_t i = again ? count - 1 : 0; i < count; i++) {
        const neap_status status = feed(w, prompt[i], i);
        if (status != NEAP_OK)
            return status;
        w->prompt_steps++;
        if (i == start_at && !again)
            w->made.attempt.no_speech =
                np_whisper_probability(w->tokens, w->decoder->scores, w->tokens->no_speech);
    }
    return NEAP_OK;
}

/* Ids until the end token or until there is no room. `first` is the position of the first one. */
static neap_status choose_ids(np_whisper_window *w, int32_t first, float temperature, int attempt)
{
    const int32_t room = w->decoder->positions - first;
    const int32_t most = room < NP_WHISPER_NEW_TOKENS ? room : NP_WHISPER_NEW_TOKENS;
    double sum = 0;
    w->made.count = 0;
    for (;;) {
        np_whisper_filter(w->tokens, &w->task, w->made.ids, w->made.count, w->decoder->scores);
        const uint64_t step = (w->number * NP_WHISPER_TEMPERATURES + (uint64_t)attempt) *
                                  (NP_WHISPER_NEW_TOKENS + 1) +
                              (uint64_t)w->made.count;
        const np_whisper_choice c =
            np_whisper_next(w->tokens, w->decoder->scores, temperature, w->seed, step);
        if (c.id < 0)
            return np_fail(w->ctx, NEAP_EINVAL,
                           "the decoder's scores at position %d are no numbers",
                           first + w->made.count - 1);
        sum += c.logprob;
        if (c.id == w->tokens->end)
            break;
        w->made.ids[w->made.count++] = c.id;
        if (w->made.count >= most)
            break;
        const neap_status status = feed(w, c.id, first + w->made.count - 1);
        if (status != NEAP_OK)
            return status;
        w->new_steps++;
    }
    w->made.attempt.logprob = sum / (w->made.count + 1);
    return NEAP_OK;
}

static neap_status measure_text(np_whisper_window *w)
{
    w->text->length = 0;
    for (int32_t i = 0; i < w->made.count; i++) {
        if (w->made.ids[i] >= w->tokens->end)
            continue;
        const neap_status status =
            neap_tokenizer_token_bytes(w->ctx, w->tokenizer, w->made.ids[i], w->text);
        if (status != NEAP_OK)
            return status;
    }
    w->made.attempt.compression = np_whisper_compression(w->text->data, w->text->length);
    return NEAP_OK;
}

/* ---- attempts ----------------------------------------------------------------------------- */

static float temperature_of(const np_whisper_window *w, int attempt)
{
    int above = 0;
    if (attempt == 0)
        return w->temperature;
    while (above < NP_WHISPER_TEMPERATURES && np_whisper_temperatures[above] <= w->temperature)
        above++;
    above += attempt - 1;
    return w->fallback && above < NP_WHISPER_TEMPERATURES ? np_whisper_temperatures[above] : -1;
}

static neap_status try_once(np_whisper_window *w, const int32_t *prompt, int32_t count,
                            int32_t start_at, float temperature, int attempt)
{
    w->made.temperature = temperature;
    const double t0 = np_seconds();
    neap_status status = feed_prompt(w, prompt, count, start_at, attempt > 0);
    const double t1 = np_seconds();
    if (status == NEAP_OK)
        status = choose_ids(w, count, temperature, attempt);
    w->prompt_seconds += t1 - t0;
    w->new_seconds += np_seconds() - t1;
    return status == NEAP_OK ? measure_text(w) : status;
}

neap_status np_whisper_hear(np_whisper_window *w)
{
    int32_t prompt[NP_WHISPER_PROMPT_TOKENS], start_at;
    const int32_t count =
        np_whisper_prompt(w->tokens, &w->task, w->previous, w->previous_count,
                          w->decoder->positions / 2 - 1, prompt, &start_at);
    w->made.attempt = (np_whisper_attempt){0};
    w->prompt_steps = w->new_steps = 0;
    w->prompt_seconds = w->new_seconds = 0;
    if (count >= w->decoder->positions)
        return np_fail(w->ctx, NEAP_ELIMIT, "the decoder has %d positions, its prompt takes %d",
                       w->decoder->positions, count);
    for (int attempt = 0; attempt == 0 || np_whisper_is_poor(&w->made.attempt); attempt++) {
        const float temperature = temperature_of(w, attempt);
        if (temperature < 0) { /* none of them was good */
            w->made = w->best;
            break;
        }
        const neap_status status = try_once(w, prompt, count, start_at, temperature, attempt);
        if (status != NEAP_OK)
            return status;
        if (attempt == 0 || np_whisper_is_better(&w->made.attempt, &w->best.attempt))
            w->best = w->made;
    }
    w->silent = np_whisper_is_silent(&w->made.attempt);
    if (w->silent)
        w->made.count = 0;
    return NEAP_OK;
}
