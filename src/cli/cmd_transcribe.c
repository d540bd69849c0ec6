/* cmd_transcribe.c - `neap transcribe` and `neap plan transcribe`: the text of a recording. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <neap/audio.h>

#include "cli/plan_misfit.h"
#include "cli/audio_file.h"
#include "cli/ctrl_c.h"
#include "cli/progress_bar.h"
#include "cli/options.h"
#include "cli/plan_report.h"
#include "cli/planner.h"
#include "cli/speech_text.h"
#include "cli/stats.h"

typedef struct transcription {
    const cli_settings *settings;
    neap_context *ctx;
    neap_transcriber *transcriber;
    neap_transcriber_info info;
    neap_transcribe_result result;
    cli_audio *audio;
    bool audio_failed;
    cli_speech_text text;
    cli_stats stats;
    cli_plan_data *picture; /* of plan */
} transcription;

static int parse(cli_settings *s, bool plan, int argc, char **argv)
{
    const cli_option table[] = {
        {"model", 'm', CLI_TEXT, &s->model, 0, 0, "DIR", "the model: a folder with encoder.pte, "
         "cross_kv.pte, decoder.pte and tokenizer.json"},
        {"language", 0, CLI_TEXT, &s->language, 0, 0, "CODE", "what is spoken: en, de ..., or auto "
         "(default: en)"},
        {"task", 0, CLI_CHOICE, &s->speech_task, 0, 0, "transcribe|translate", "translate: to "
         "English (default: transcribe)"},
        {"timestamps", 0, CLI_FLAG, &s->timestamps, 0, 0, NULL, "a line for each segment, with its "
         "times (default: text; recordings over 30 s are heard with timestamps all the same)"},
        {"srt", 0, CLI_FLAG, &s->srt, 0, 0, NULL, "subtitles"},
        {"json", 0, CLI_FLAG, &s->json, 0, 0, NULL, plan ? "one JSON object on one line"
         : "text, segments and windows as one JSON object on one line"},
        {"tokens", 0, CLI_FLAG, &s->tokens, 0, 0, NULL, "one JSON array of the new ids, not text"},
        {"temp", 0, CLI_REAL, &s->temperature, 0, 1000, "T", "temperature of the first attempt at a "
         "window; 0 = the likeliest (default)"},
        {"no-fallback", 0, CLI_FLAG, &s->no_fallback, 0, 0, NULL, "no further attempts, at higher "
         "temperatures, where text repeats itself or is unlikely"},
#include "cli/planner_options.def"
#include "cli/common_options.def"
#include "cli/plan_options.def"
        {.name = NULL},
    };
    const int status = cli_parse(table, s, argc, argv, "-m DIR AUDIO [OPTION...]", &s->file);
    if (status != CLI_PARSED)
        return status;
    if (!s->model)
        return cli_usage("-m DIR is missing: the model");
    if (!s->file && !plan)
        return cli_usage("AUDIO is missing: a WAV, FLAC, Ogg or MP3 file, or - for standard input");
    if (s->srt + s->tokens + (s->json && !plan) > 1)
        return cli_usage("--srt, --json and --tokens exclude each other");
    return CLI_PARSED;
}

/* The programs' threads; the context around them has one. */
static int threads_of(const cli_settings *s)
{
    return s->threads ? (int)s->threads : cli_processors();
}

/* ---- the run ------------------------------------------------------------------------------ */

static int64_t read_sound(void *user, float *samples, int64_t count)
{
    transcription *t = user;
    if (cli_interrupted())
        return -1;
    const int64_t n = cli_audio_read(t->audio, samples, count);
    t->audio_failed |= n < 0;
    return n;
}

static bool show(void *user, const neap_speech_window *window)
{
    transcription *t = user;
    cli_progress_clear();
    return cli_speech_add(&t->text, window) && !cli_interrupted();
}

static void summarise(const transcription *t)
{
    const neap_transcribe_result *r = &t->result;
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(t->ctx, &m);
    fprintf(stderr,
            "neap: measured peak %s (%" PRIu64 " bytes), %s of the files mapped; %.1f s of sound in "
            "%" PRId64 " windows, %" PRId64 " without speech; heard in %.1f s, %" PRId64
            " steps of text in %.1f s\n",
            cli_mib(m.peak).text, m.peak, cli_mib(m.mapped).text, r->seconds, r->windows,
            r->silent_windows, r->encode_seconds, r->prompt_steps + r->generation_steps,
            r->prompt_seconds + r->generation_seconds);
}

static int finish_run(transcription *t, neap_status status)
{
    const bool cancelled = status == NEAP_ECANCELLED && cli_interrupted();
    cli_progress_clear();
    if (status != NEAP_OK && !cancelled)
        return cli_context_failed(t->ctx);
    if (t->audio_failed)
        return CLI_FAILED;
    t->stats.interrupted = cancelled || (cli_interrupted() && t->result.stopped);
    const int exit = cli_speech_end(&t->text, t->result.seconds);
    if (exit != CLI_DONE)
        return exit;
    t->stats.generated = true;
    if (!t->settings->quiet)
        summarise(t);
    return t->stats.interrupted ? CLI_INTERRUPTED : CLI_DONE;
}

static int run(transcription *t)
{
    const cli_settings *s = t->settings;
    neap_transcribe_options o = NEAP_TRANSCRIBE_OPTIONS_INIT;
    const bool any = s->language && !strcmp(s->language, "auto");
    o.language = any ? NULL : s->language ? s->language : "en";
    o.translate = s->speech_task == 1;
    o.timestamps = s->timestamps || s->srt ? NEAP_TIMESTAMPS_ON : NEAP_TIMESTAMPS_AUTO;
    o.temperature = (float)s->temperature;
    o.fallback = !s->no_fallback;
    o.seed = s->seed;
    o.read = read_sound;
    o.on_window = show;
    o.user = t;
    if (!s->quiet)
        fprintf(stderr, "neap: planned peak %s (%" PRIu64 " bytes), held while %s runs, %d threads\n",
                cli_mib(t->info.planned_peak_bytes).text, t->info.planned_peak_bytes,
                t->info.peak_program, threads_of(t->settings));
    return finish_run(t, neap_transcribe(t->transcriber, &o, &t->result));
}

/* ---- the plan ----------------------------------------------------------------------------- */

static cli_plan_facts facts_of(const transcription *t)
{
    const neap_transcriber_info *i = &t->info;
    cli_plan_facts f = {.planned_peak_bytes = i->planned_peak_bytes,
                        .least_bytes = i->least_bytes,
                        .mapped_bytes = i->mapped_bytes,
                        .memory_limit = t->settings->memory,
                        .arena_bytes = i->arena_bytes,
                        .largest_live_bytes = i->largest_live_bytes,
                        .steps = i->steps,
                        .peak_step = i->peak_step,
                        .plan_seconds = i->plan_seconds,
                        .threads = threads_of(t->settings)};
    memcpy(f.by_category, i->planned_by_category, sizeof f.by_category);
    return f;
}

static int report(transcription *t)
{
    cli_alive alive = {.count = 0};
    const cli_plan_report r = {.settings = t->settings,
                               .command = "transcribe",
                               .title = cli_plan_title(t->settings->model),
                               .facts = facts_of(t),
                               .alive = &alive,
                               .data = t->picture};
    int status = cli_planner_use(t->settings, t->picture, t->ctx);
    if (status != CLI_DONE)
        return status;
    if (neap_context_set_limit(t->ctx, 0) != NEAP_OK || /* explaining takes more than a run */
        neap_transcriber_at_peak(t->transcriber, cli_alive_add, &alive) != NEAP_OK ||
        neap_transcriber_visit_plans(t->transcriber, cli_plan_data_add, t->picture) != NEAP_OK) {
        status = cli_context_failed(t->ctx);
    } else {
        json_t *more = json_object();
        json_object_set_new(more, "peak_program", json_string(t->info.peak_program));
        json_object_set_new(more, "positions", json_integer(t->info.positions));
        if (!t->settings->json && !t->settings->misfit)
            printf("%" PRId64 " tokens, %d mel bands, %" PRId64
                   " positions of text; the most is held while %s runs, %d threads\n\n",
                   t->info.vocabulary, t->info.bins, t->info.positions, t->info.peak_program,
                   r.facts.threads);
        status = cli_plan_tell(&r, more);
    }
    cli_alive_clear(&alive);
    return status;
}

/* ---- both --------------------------------------------------------------------------------- */

static int open_all(transcription *t, bool plan)
{
    const cli_settings *s = t->settings;
    const cli_file files[] = {
        {"-m", s->model, false}, {"AUDIO", s->file, false}, {"--stats", s->stats, true}};
    int status = cli_check_files(files, sizeof files / sizeof files[0]);
    if (status == CLI_DONE && plan)
        status = cli_plan_prepare(t->picture, s);
    if (status != CLI_DONE)
        return status;
    if (s->stats && cli_check_writable("--stats", s->stats) != CLI_DONE)
        return CLI_FAILED;
    if (!plan && !(t->audio = cli_audio_open(s->file)))
        return CLI_FAILED;
    if (cli_context_new(1, &t->ctx) != CLI_DONE)
        return CLI_FAILED;
    cli_progress_begin(t->ctx, s->quiet);
    if (!plan)
        cli_watch_interrupt(t->ctx);
    status = cli_planner_use(s, NULL, t->ctx);
    if (status != CLI_DONE)
        return status;
    neap_transcriber_options o = NEAP_TRANSCRIBER_OPTIONS_INIT;
    o.memory = s->memory;
    o.threads = threads_of(s);
    o.find_least = plan;
    if (neap_transcriber_open(t->ctx, s->model, &o, &t->transcriber) != NEAP_OK) {
        t->transcriber = NULL;
        return cli_context_failed(t->ctx);
    }
    neap_transcriber_describe(t->transcriber, &t->info);
    return CLI_DONE;
}

/* Counts and seconds of --stats: the prompt is what the decoder was told before it was asked. */
static void fill_stats(transcription *t)
{
    const neap_transcribe_result *r = &t->result;
    cli_stats_read(&t->stats, t->ctx, NULL);
    t->stats.threads = threads_of(t->settings);
    t->stats.planned_peak_bytes = t->info.planned_peak_bytes;
    t->stats.eval.plans = r->plans;
    t->stats.eval.plan_cache_hits = r->plan_hits;
    t->stats.eval.steps = r->steps;
    t->stats.eval.plan_seconds = r->plan_seconds;
    t->stats.handle.barriers = r->barriers;
    t->stats.audio_seconds = r->seconds;
    t->stats.encode_seconds = r->encode_seconds;
    t->stats.result.prompt_tokens = r->prompt_steps;
    t->stats.result.generated_tokens = r->generated_tokens;
    t->stats.result.decode_steps = r->generation_steps;
    t->stats.result.prompt_seconds = r->prompt_seconds;
    t->stats.result.generation_seconds = r->generation_seconds;
    t->stats.result.finish = r->stopped ? NEAP_FINISH_CALLER : NEAP_FINISH_STOP;
}

static int finish(transcription *t, int status)
{
    cli_audio_close(t->audio);
    cli_speech_free(&t->text);
    if (!t->ctx)
        return status;
    fill_stats(t);
    neap_transcriber_close(t->transcriber);
    cli_stats_end(&t->stats, t->ctx);
    if (t->settings->stats && (status == CLI_DONE || status == CLI_INTERRUPTED)) {
        const int written = cli_stats_write(&t->stats, t->settings->stats);
        status = written != CLI_DONE ? written : status;
    }
    cli_watch_interrupt(NULL);
    neap_context_free(t->ctx);
    return status;
}

/* With a picture: the plan. */
static int whole(const cli_settings *s, cli_plan_data *picture)
{
    transcription t = {.settings = s,
                       .picture = picture,
                       .info = NEAP_TRANSCRIBER_INFO_INIT,
                       .result = NEAP_TRANSCRIBE_RESULT_INIT};
    cli_stats_begin(&t.stats);
    cli_speech_begin(&t.text, s->json         ? CLI_SPEECH_JSON
                              : s->tokens     ? CLI_SPEECH_TOKENS
                              : s->srt        ? CLI_SPEECH_SRT
                              : s->timestamps ? CLI_SPEECH_TIMES
                                              : CLI_SPEECH_TEXT);
    int status = open_all(&t, picture != NULL);
    if (status == CLI_DONE)
        status = picture ? report(&t) : run(&t);
    return finish(&t, status);
}

int cli_transcribe(bool plan, int argc, char **argv)
{
    cli_settings settings = CLI_SETTINGS_INIT;
    cli_plan_data picture = CLI_PLAN_DATA_INIT;
    int status = parse(&settings, plan, argc, argv);
    if (status == CLI_PARSED && !plan)
        status = whole(&settings, NULL);
    else if (status == CLI_PARSED)
        status = cli_plan_or_misfit(&settings, "transcribe", whole, &picture);
    cli_plan_data_free(&picture);
    cli_settings_free(&settings);
    return status;
}

int cmd_transcribe(int argc, char **argv)
{
    return cli_transcribe(false, argc, argv);
}
