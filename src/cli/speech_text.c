/* speech_text.c - see speech_text.h. */
#include "cli/speech_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void cli_speech_begin(cli_speech_text *s, cli_speech_form form)
{
    *s = (cli_speech_text){.form = form};
    if (form != CLI_SPEECH_JSON)
        return;
    s->segments = json_array();
    s->windows = json_array();
    s->text = json_string("");
}

void cli_speech_free(cli_speech_text *s)
{
    json_decref(s->segments);
    json_decref(s->windows);
    json_decref(s->text);
    s->segments = s->windows = s->text = NULL;
}

/* ---- lines -------------------------------------------------------------------------------- */

/* A segment's text begins with a space and may end with one. */
static void trim(const neap_speech_segment *segment, const char **text, size_t *length)
{
    *text = segment->text;
    *length = segment->length;
    while (*length > 0 && **text == ' ') {
        ++*text;
        --*length;
    }
    while (*length > 0 && (*text)[*length - 1] == ' ')
        --*length;
}

static void print_time(double seconds, bool hours, char point)
{
    const int64_t ms = (int64_t)llround(seconds * 1000);
    if (hours || ms >= 3600000)
        printf("%02" PRId64 ":", ms / 3600000);
    printf("%02" PRId64 ":%02" PRId64 "%c%03" PRId64, ms / 60000 % 60, ms / 1000 % 60, point,
           ms % 1000);
}

static void print_segment(cli_speech_text *s, const neap_speech_segment *segment)
{
    const char *text;
    size_t length;
    const bool srt = s->form == CLI_SPEECH_SRT;
    trim(segment, &text, &length);
    s->count++;
    if (srt)
        printf("%" PRId64 "\n", s->count);
    if (s->form != CLI_SPEECH_TEXT) {
        fputs(srt ? "" : "[", stdout);
        print_time(segment->start, srt, srt ? ',' : '.');
        fputs(" --> ", stdout);
        print_time(segment->end, srt, srt ? ',' : '.');
        fputs(srt ? "\n" : "] ", stdout);
    }
    fwrite(text, 1, length, stdout);
    fputs(srt ? "\n\n" : "\n", stdout);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *segment_json(const neap_speech_segment *segment, const neap_speech_window *w)
{
    json_t *object = json_object(), *ids = json_array();
    for (int64_t i = 0; i < segment->n_ids; i++)
        json_array_append_new(ids, json_integer(segment->ids[i]));
    json_object_set_new(object, "start", json_real(segment->start));
    json_object_set_new(object, "end", json_real(segment->end));
    json_object_set_new(object, "text", cli_json_text(segment->text, segment->length));
    json_object_set_new(object, "tokens", ids);
    json_object_set_new(object, "temperature", json_real(w->temperature));
    json_object_set_new(object, "avg_logprob", json_real(w->logprob));
    json_object_set_new(object, "compression_ratio", json_real(w->compression));
    json_object_set_new(object, "no_speech_prob", json_real(w->no_speech));
    return object;
}

static json_t *window_json(const neap_speech_window *w)
{
    json_t *object = json_object();
    json_object_set_new(object, "start", json_real(w->start));
    json_object_set_new(object, "end", json_real(w->end));
    json_object_set_new(object, "silent", json_boolean(w->silent));
    json_object_set_new(object, "temperature", json_real(w->temperature));
    json_object_set_new(object, "avg_logprob", json_real(w->logprob));
    json_object_set_new(object, "compression_ratio", json_real(w->compression));
    json_object_set_new(object, "no_speech_prob", json_real(w->no_speech));
    return object;
}

static void add_text(cli_speech_text *s, const neap_speech_segment *segment)
{
    json_t *more = cli_json_text(segment->text, segment->length);
    json_t *both = more && s->text ? json_sprintf("%s%s", json_string_value(s->text),
                                                  json_string_value(more))
                                   : NULL;
    json_decref(more);
    json_decref(s->text);
    s->text = both;
}

static void add_json(cli_speech_text *s, const neap_speech_window *w)
{
    json_array_append_new(s->windows, window_json(w));
    for (int64_t i = 0; i < w->n_segments; i++) {
        json_array_append_new(s->segments, segment_json(&w->segments[i], w));
        add_text(s, &w->segments[i]);
    }
}

/* ---- both --------------------------------------------------------------------------------- */

bool cli_speech_add(cli_speech_text *s, const neap_speech_window *w)
{
    s->no_speech = w->no_speech > s->no_speech ? w->no_speech : s->no_speech;
    if (*w->language)
        snprintf(s->language, sizeof s->language, "%s", w->language);
    if (s->form == CLI_SPEECH_JSON) {
        add_json(s, w);
        return true;
    }
    if (s->form == CLI_SPEECH_TOKENS)
        for (int64_t i = 0; i < w->n_ids; i++)
            printf("%s%" PRId32, s->count++ ? "," : "[", w->ids[i]);
    else
        for (int64_t i = 0; i < w->n_segments; i++)
            print_segment(s, &w->segments[i]);
    if ((fflush(stdout) != 0 || ferror(stdout)) && !s->error)
        s->error = errno;
    return !s->error;
}

static json_t *whole_json(cli_speech_text *s, double seconds)
{
    json_t *object = json_object();
    json_object_set(object, "text", s->text);
    json_object_set_new(object, "language", json_string(s->language));
    json_object_set_new(object, "duration", json_real(seconds));
    json_object_set_new(object, "no_speech_prob", json_real(s->no_speech));
    json_object_set(object, "segments", s->segments);
    json_object_set(object, "windows", s->windows);
    return object;
}

int cli_speech_end(cli_speech_text *s, double seconds)
{
    if (s->error)
        return cli_failed("standard output: %s", strerror(s->error));
    if (s->form == CLI_SPEECH_JSON)
        return cli_json_print(stdout, "standard output", whole_json(s, seconds));
    if (s->form == CLI_SPEECH_TOKENS)
        puts(s->count ? "]" : "[]");
    return cli_flush_output();
}
