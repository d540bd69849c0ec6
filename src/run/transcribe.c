/* transcribe.c - a recording window by window: sound in, text out. See transcribe.h. */
#include "run/transcribe.h"

#include <math.h>
#include <string.h>

#include "audio/mel.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/versioned.h"
#include "cpu/kernels.h"

/* Below -80 dB of full scale is nothing to hear: 16-bit sound has three steps there. */
static const float AUDIBLE = 1e-4f;
/* A rest of a recording that is shorter was heard at the end of the window before. */
enum { REST_LEAST = NEAP_AUDIO_RATE };

typedef struct hearing {
    neap_transcriber *t;
    const neap_transcribe_options *options;
    neap_transcribe_result *result;
    int64_t filled; /* samples in the window */
    int64_t start;  /* of the window, in samples from the recording's start */
    bool ended;     /* the recording ends in this window */
    bool has_ahead; /* the sample behind the first window is here already */
    float ahead;
    bool timestamps;
    int32_t language; /* -1: not known yet */
    char code[8];     /* of the language */
    np_progress progress;
} hearing;

/* ---- programs ------------------------------------------------------------------------------- */

static neap_status execute(neap_transcriber *t, np_part part, const neap_value *inputs,
                           int n_outputs, neap_value *outputs)
{
    const int n = part == NP_SAY ? 2 + t->n_cross : 1;
    const neap_status status =
        neap_handle_execute(t->parts[part].handle, n, inputs, n_outputs, outputs);
    return status == NEAP_OK ? NEAP_OK : np_part_failed(t, part, status);
}

/* The window's spectrogram to `out` [bins, 3000] in the dtype that the encoder takes. */
static neap_status make_features(neap_transcriber *t, int64_t samples, uint8_t *out)
{
    float column[NP_MEL_BINS_MAX];
    uint8_t cast[4 * NP_MEL_BINS_MAX];
    const neap_dtype dtype = t->features.dtype;
    const size_t size = dtype == NEAP_F32 ? 4 : 2;
    const int bins = np_mel_bins(t->mel);
    neap_status status = np_mel_begin(t->mel, t->samples, samples);
    for (int64_t frame = 0; status == NEAP_OK && frame < NEAP_MEL_FRAMES; frame++) {
        if (frame % 64 == 0 && (status = np_check(t->ctx)) != NEAP_OK)
            return status;
        np_mel_frame(t->mel, frame, column);
        t->ctx->kernels->span->cast[NEAP_F32][dtype](cast, column, bins);
        for (int b = 0; b < bins; b++)
            memcpy(out + ((size_t)b * NEAP_MEL_FRAMES + (size_t)frame) * size,
                   cast + (size_t)b * size, size);
    }
    return status;
}

static neap_status encode(neap_transcriber *t, int64_t samples, uint8_t *features, void *hidden)
{
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    neap_value in = t->features, out = {.data = hidden, .bytes = np_value_bytes(&t->hidden)};
    neap_status status = make_features(t, samples, features);
    in.data = features;
    in.bytes = np_value_bytes(&in);
    if (status == NEAP_OK)
        status = np_part_open(t, NP_HEAR, &plan);
    if (status == NEAP_OK)
        status = execute(t, NP_HEAR, &in, 1, &out);
    np_part_close(t, NP_HEAR);
    return status;
}

/* Keys and values stay in the handle's memory and become the decoder's inputs. */
static neap_status prepare(neap_transcriber *t, const void *hidden)
{
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    neap_value in = t->hidden, out[NP_CROSS_MOST];
    memset(out, 0, (size_t)t->n_cross * sizeof *out);
    in.data = hidden;
    in.bytes = np_value_bytes(&in);
    neap_status status = np_part_open(t, NP_PREPARE, &plan);
    if (status == NEAP_OK)
        status = execute(t, NP_PREPARE, &in, t->n_cross, out);
    if (status != NEAP_OK)
        return status;
    for (int i = 0; i < t->n_cross; i++) {
        t->decoder_inputs[2 + i].data = out[i].data;
        t->decoder_inputs[2 + i].bytes = out[i].bytes;
    }
    neap_context_trim(neap_handle_context(t->parts[NP_PREPARE].handle));
    return NEAP_OK;
}

/* Sound to keys and values: what the encoder needed is given back before the decoder is opened. */
static neap_status listen(neap_transcriber *t, int64_t samples)
{
    neap_context *ctx = t->ctx;
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    const uint64_t n_features = np_value_bytes(&t->features), n_hidden = np_value_bytes(&t->hidden);
    uint8_t *features = np_alloc_pages(ctx, NEAP_MEM_ACTIVATIONS, n_features);
    void *hidden = np_alloc_pages(ctx, NEAP_MEM_ACTIVATIONS, n_hidden);
    neap_status status = features && hidden ? NEAP_OK : NEAP_ENOMEM;
    if (status == NEAP_OK)
        status = encode(t, samples, features, hidden);
    if (features)
        np_free_pages(ctx, NEAP_MEM_ACTIVATIONS, features, n_features);
    if (status == NEAP_OK)
        status = prepare(t, hidden);
    if (hidden)
        np_free_pages(ctx, NEAP_MEM_ACTIVATIONS, hidden, n_hidden);
    return status == NEAP_OK ? np_part_open(t, NP_SAY, &plan) : status;
}

static neap_status feed(void *model, int32_t id, int32_t position)
{
    neap_transcriber *t = model;
    neap_value out = {0};
    t->id = t->id32 = id;
    t->position = t->position32 = position;
    const neap_status status = execute(t, NP_SAY, t->decoder_inputs, 1, &out);
    if (status == NEAP_OK)
        t->ctx->kernels->span->cast[out.dtype][NEAP_F32](t->scores, out.data, t->tokens.vocabulary);
    return status;
}

/* ---- a window ------------------------------------------------------------------------------- */

static bool is_audible(const neap_transcriber *t, int64_t samples)
{
    for (int64_t i = 0; i < samples; i++)
        if (!(fabsf(t->samples[i]) < AUDIBLE)) /* what is no number is refused by the spectrogram */
            return true;
    return false;
}

static void name_language(hearing *h)
{
    neap_text *text = &h->t->measured; /* "<|en|>" */
    text->length = 0;
    h->code[0] = '\0';
    if (h->t->tokens.languages == 0)
        memcpy(h->code, "en", 3);
    else if (neap_tokenizer_token_bytes(h->t->ctx, h->t->tokenizer, h->language, text) == NEAP_OK &&
             text->length > 4 && text->length - 4 < sizeof h->code) {
        memcpy(h->code, text->data + 2, text->length - 4);
        h->code[text->length - 4] = '\0';
    }
}

static neap_status hear_language(hearing *h)
{
    neap_transcriber *t = h->t;
    if (h->language >= 0 || t->tokens.languages == 0)
        return NEAP_OK;
    const neap_status status = feed(t, t->tokens.start, 0);
    h->result->prompt_steps++;
    if (status == NEAP_OK) {
        h->language = np_whisper_hear_language(&t->tokens, t->scores);
        name_language(h);
    }
    return status;
}

static void keep_previous(neap_transcriber *t)
{
    const np_whisper_window *w = &t->window;
    const int32_t room = NP_WHISPER_PREVIOUS_TOKENS;
    const int32_t added = w->made.count < room ? w->made.count : room;
    if (w->made.temperature > 0.5f) { /* perhaps a loop: it must not go on in the next window */
        t->previous_count = 0;
        return;
    }
    const int32_t kept = t->previous_count < room - added ? t->previous_count : room - added;
    memmove(t->previous, t->previous + (t->previous_count - kept), (size_t)kept * sizeof(int32_t));
    memcpy(t->previous + kept, w->made.ids + (w->made.count - added),
           (size_t)added * sizeof(int32_t));
    t->previous_count = kept + added;
}

static neap_status hear(hearing *h)
{
    neap_transcriber *t = h->t;
    const double t0 = np_seconds();
    neap_status status = listen(t, h->filled);
    const double t1 = np_seconds();
    h->result->encode_seconds += t1 - t0;
    if (status == NEAP_OK)
        status = hear_language(h);
    t->decoder = (np_whisper_decoder){t, t->positions, t->scores, feed};
    const uint64_t ticks =
        (uint64_t)(h->filled + NP_WHISPER_TICK_SAMPLES - 1) / NP_WHISPER_TICK_SAMPLES;
    t->window = (np_whisper_window){
        .ctx = t->ctx,
        .tokenizer = t->tokenizer,
        .tokens = &t->tokens,
        .decoder = &t->decoder,
        .task = {h->language, h->options->translate, h->timestamps, (int32_t)ticks},
        .temperature = h->options->temperature,
        .fallback = h->options->fallback,
        .seed = h->options->seed,
        .number = (uint64_t)h->result->windows,
        .previous = t->previous,
        .previous_count = t->previous_count,
        .text = &t->measured
    };
    if (status == NEAP_OK)
        status = np_whisper_hear(&t->window);
    np_part_close(t, NP_SAY);
    np_part_close(t, NP_PREPARE);
    h->result->prompt_steps += t->window.prompt_steps;
    h->result->generation_steps += t->window.new_steps;
    h->result->prompt_seconds += t->window.prompt_seconds;
    h->result->generation_seconds += t->window.new_seconds;
    if (status == NEAP_OK)
        keep_previous(t);
    return status;
}

/* ---- what is told --------------------------------------------------------------------------- */

/* Text and times of the segments. Texts are appended first: the buffer may move. */
static neap_status make_segments(hearing *h)
{
    neap_transcriber *t = h->t;
    size_t from[NP_WHISPER_SEGMENTS + 1] = {0};
    t->heard.length = 0;
    for (int32_t i = 0; i < t->cut.count; i++) {
        const np_whisper_segment *s = &t->cut.segments[i];
        const neap_status status = neap_tokenizer_decode(
            t->ctx, t->tokenizer, t->window.made.ids + s->first, (size_t)s->count, 0, &t->heard);
        if (status != NEAP_OK)
            return status;
        from[i + 1] = t->heard.length;
    }
    for (int32_t i = 0; i < t->cut.count; i++) {
        const np_whisper_segment *s = &t->cut.segments[i];
        const int64_t end = (int64_t)s->end_tick * NP_WHISPER_TICK_SAMPLES;
        t->segments[i] = (neap_speech_segment){
            .start = (double)(h->start + (int64_t)s->start_tick * NP_WHISPER_TICK_SAMPLES) /
                     NEAP_AUDIO_RATE,
            .end = (double)(h->start + (end < h->filled ? end : h->filled)) / NEAP_AUDIO_RATE,
            .text = t->heard.data + from[i],
            .length = from[i + 1] - from[i],
            .ids = t->window.made.ids + s->first,
            .n_ids = s->count};
    }
    return NEAP_OK;
}

/* Sets *go_on to what the caller says. */
static void tell(const hearing *h, bool ran, int64_t advance, bool *go_on)
{
    const neap_transcriber *t = h->t;
    const np_whisper_window *w = &t->window;
    neap_speech_window v = {.start = (double)h->start / NEAP_AUDIO_RATE,
                            .end = (double)(h->start + advance) / NEAP_AUDIO_RATE,
                            .silent = true,
                            .no_speech = 1,
                            .language = h->code};
    if (ran) {
        v.silent = w->silent;
        v.no_speech = w->made.attempt.no_speech;
        v.logprob = w->made.attempt.logprob;
        v.compression = w->made.attempt.compression;
        v.temperature = (double)w->made.temperature;
        v.ids = w->made.ids;
        v.n_ids = w->made.count;
        v.segments = t->segments;
        v.n_segments = t->cut.count;
    }
    if (h->options->on_window)
        *go_on = h->options->on_window(h->options->user, &v);
}

/* One window; *advance: how far the next one starts behind it. */
static neap_status window(hearing *h, int64_t *advance, bool *go_on)
{
    neap_transcriber *t = h->t;
    const bool ran = is_audible(t, h->filled);
    *advance = h->filled;
    *go_on = true;
    if (ran) {
        neap_status status = hear(h);
        if (status != NEAP_OK)
            return status;
        np_whisper_segments(&t->tokens, t->window.made.ids, t->window.made.count, h->filled,
                            &t->cut);
        status = make_segments(h);
        if (status != NEAP_OK)
            return status;
        *advance = t->cut.advance;
        h->result->generated_tokens += t->window.made.count;
    }
    h->result->windows++;
    h->result->silent_windows += !ran || t->window.silent;
    tell(h, ran, *advance, go_on);
    return NEAP_OK;
}

/* ---- the recording -------------------------------------------------------------------------- */

/* Fills the window. false: the caller stops. */
static bool fill(hearing *h)
{
    if (h->has_ahead && h->filled < NEAP_MEL_SAMPLES) {
        h->t->samples[h->filled++] = h->ahead;
        h->has_ahead = false;
    }
    while (!h->ended && h->filled < NEAP_MEL_SAMPLES) {
        const int64_t want = NEAP_MEL_SAMPLES - h->filled;
        const int64_t n = h->options->read(h->options->user, h->t->samples + h->filled, want);
        if (n < 0 || n > want)
            return false;
        h->ended = n < want;
        h->filled += n;
    }
    return true;
}

/* A full window may be all there is: whether it is, one sample more tells. false: the caller stops.
 */
static bool look_ahead(hearing *h)
{
    if (h->ended)
        return true;
    const int64_t n = h->options->read(h->options->user, &h->ahead, 1);
    h->has_ahead = n == 1;
    h->ended = n == 0;
    return n == 0 || n == 1;
}

static neap_status run(hearing *h)
{
    const bool asked = h->options->timestamps != NEAP_TIMESTAMPS_AUTO;
    bool first = true, go_on = true;
    for (;;) {
        int64_t advance;
        if (np_check(h->t->ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        if (!go_on || !fill(h) || (first && !asked && !look_ahead(h))) {
            h->result->stopped = true;
            return NEAP_OK;
        }
        h->result->seconds = (double)(h->start + h->filled) / NEAP_AUDIO_RATE;
        if (first && !asked)
            h->timestamps = !h->ended && h->t->tokens.timestamps > 0;
        if (h->filled == 0 || (!first && h->ended && h->filled < REST_LEAST))
            return NEAP_OK;
        first = false;
        const neap_status status = window(h, &advance, &go_on);
        if (status != NEAP_OK)
            return status;
        h->filled -= advance;
        h->start += advance;
        np_progress_at(&h->progress, (uint64_t)h->start);
        memmove(h->t->samples, h->t->samples + advance, (size_t)h->filled * sizeof(float));
    }
}

static neap_status check_options(hearing *h)
{
    const neap_transcribe_options *o = h->options;
    neap_transcriber *t = h->t;
    if (!o->read)
        return np_fail(t->ctx, NEAP_EINVAL, "transcribe: nothing to read sound with");
    if (!(o->temperature >= 0 && o->temperature <= 1000))
        return np_fail(t->ctx, NEAP_EINVAL, "temperature: %g, expected 0 to 1000",
                       (double)o->temperature);
    if ((unsigned)o->timestamps > NEAP_TIMESTAMPS_ON)
        return np_fail(t->ctx, NEAP_EINVAL, "timestamps: mode %d is not known", (int)o->timestamps);
    if (o->timestamps == NEAP_TIMESTAMPS_ON && t->tokens.timestamps == 0)
        return np_fail(t->ctx, NEAP_EINVAL, "timestamps: the model has none");
    if (t->tokens.languages == 0 && (o->translate || (o->language && strcmp(o->language, "en"))))
        return np_fail(t->ctx, NEAP_EINVAL, "the model knows English only: it cannot %s",
                       o->translate ? "translate" : "hear another language");
    h->timestamps = o->timestamps == NEAP_TIMESTAMPS_ON;
    if (o->language && t->tokens.languages > 0) {
        h->language =
            np_whisper_find_language(&t->tokens, t->tokenizer, o->language, strlen(o->language));
        if (h->language < 0)
            return np_fail(t->ctx, NEAP_EINVAL, "language \"%.16s\": not one that the model knows",
                           o->language);
    }
    if (o->language || t->tokens.languages == 0)
        name_language(h);
    return NEAP_OK;
}

static neap_status transcribe(neap_transcriber *t, const neap_transcribe_options *given,
                              neap_transcribe_result *result)
{
    neap_transcribe_options o = NEAP_TRANSCRIBE_OPTIONS_INIT;
    neap_transcribe_result r = NEAP_TRANSCRIBE_RESULT_INIT;
    hearing h = {.t = t, .options = &o, .result = &r, .language = -1};
    neap_status status = np_take_options(t->ctx, "transcribe", given, &o, sizeof o);
    t->previous_count = 0;
    t->stats = (neap_handle_stats){0};
    if (status == NEAP_OK)
        status = check_options(&h);
    np_progress_begin(&h.progress, t->ctx, "transcribe", o.length > 0 ? (uint64_t)o.length : 0,
                      false);
    if (status == NEAP_OK)
        status = run(&h);
    np_progress_end(&h.progress, status);
    for (int part = NP_PARTS; part-- > 0;)
        np_part_close(t, (np_part)part);
    r.plans = t->stats.plans;
    r.plan_hits = t->stats.plan_hits;
    r.steps = t->stats.steps;
    r.barriers = t->stats.barriers;
    r.plan_seconds = t->stats.plan_seconds;
    if (result)
        np_tell(result, &r, sizeof r);
    return status;
}

neap_status neap_transcribe(neap_transcriber *t, const neap_transcribe_options *given,
                            neap_transcribe_result *result)
{
    return NP_CALL_ON(t, true, transcribe(t, given, result));
}
