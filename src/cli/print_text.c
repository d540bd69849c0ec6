/* print_text.c - text, ids or scores to where they were asked for, as they are made; Ctrl-C. For models
 * and programs alike. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/ctrl_c.h"
#include "cli/npy_rows.h"
#include "cli/progress_bar.h"
#include "cli/task.h"

/* What --json tells at the end; not on the ledger, which is full with what was planned. */
typedef struct collected {
    bool on;
    char *text;
    size_t length, capacity;
    json_t *ids;
} collected;

typedef struct output {
    bool tokens;
    int64_t count;
    collected all;
    char last; /* last byte of the text */
    int error; /* errno of standard output's first failure */
    cli_npy_rows logits;
} output;

static bool collect(collected *c, int32_t id, const char *text, size_t length)
{
    if (c->length + length > c->capacity) {
        const size_t capacity = 2 * (c->length + length) + 4096;
        char *larger = realloc(c->text, capacity);
        if (!larger)
            return false;
        c->text = larger;
        c->capacity = capacity;
    }
    if (length)
        memcpy(c->text + c->length, text, length);
    c->length += length;
    return id < 0 || json_array_append_new(c->ids, json_integer(id)) == 0;
}

static bool on_token(void *user, int32_t id, const char *text, size_t length, const float *logits)
{
    output *out = user;
    if (logits && out->logits.file >= 0 && !cli_npy_rows_add(&out->logits, logits))
        return false;
    if (out->all.on) {
        if (!collect(&out->all, id, text, length) && !out->error)
            out->error = ENOMEM;
        return !out->error && !cli_interrupted();
    }
    if (!out->tokens && length > 0) {
        fwrite(text, 1, length, stdout);
        out->last = text[length - 1];
    }
    if (out->tokens && id >= 0)
        printf("%s%" PRId32, out->count++ ? "," : "[", id);
    if ((fflush(stdout) != 0 || ferror(stdout)) && !out->error)
        out->error = errno;
    return !out->error && !cli_interrupted();
}

static void print_json(const cli_task *t, output *out)
{
    const neap_generate_result *r = &t->stats.result;
    json_t *object = json_object();
    json_object_set_new(object, "text", cli_json_text(out->all.text ? out->all.text : "",
                                                      out->all.length));
    json_object_set(object, "ids", out->all.ids);
    json_object_set_new(object, "finish_reason", json_string(cli_finish_reason(&t->stats)));
    if (r->stop >= 0)
        json_object_set_new(object, "stop", json_string(t->settings->stops.at[r->stop].text));
    json_object_set_new(object, "prompt_tokens", json_integer(r->prompt_tokens));
    json_object_set_new(object, "generated_tokens", json_integer(r->generated_tokens));
    if (cli_json_print(stdout, "standard output", object) != CLI_DONE)
        out->error = EIO;
}

/* The object of --stats - stands on a line of its own. */
static bool stats_follow(const cli_settings *s)
{
    return s->stats && !strcmp(s->stats, "-");
}

static void end_text(const cli_task *t, output *out)
{
    if (out->all.on)
        print_json(t, out);
    else if (out->tokens)
        puts(out->count ? "]" : "[]");
    else if (out->last != '\n' && (isatty(STDOUT_FILENO) || stats_follow(t->settings)))
        putchar('\n');
}

static double rate(int64_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : 0;
}

static void summarise(const cli_task *t)
{
    const neap_generate_result *r = &t->stats.result;
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(t->ctx, &m);
    fprintf(stderr,
            "neap: measured peak %s (%" PRIu64 " bytes), %s of the file mapped; prompt %" PRId64
            " tokens, %.1f a second; new %" PRId64 " tokens, %.1f a second\n",
            cli_mib(m.peak).text, m.peak, cli_mib(m.mapped).text, r->prompt_tokens,
            rate(r->prompt_tokens, r->prompt_seconds), r->generated_tokens,
            rate(r->decode_steps, r->generation_seconds));
}

static int finish_output(cli_task *t, neap_context *ctx, output *out, neap_status status)
{
    int exit;
    const bool cancelled = status == NEAP_ECANCELLED && cli_interrupted();
    t->stats.interrupted =
        cancelled || (cli_interrupted() && t->stats.result.finish == NEAP_FINISH_CALLER);
    cli_progress_clear();
    if (out->error) {
        exit = cli_failed("standard output: %s", strerror(out->error));
    } else {
        end_text(t, out);
        exit = cli_flush_output();
    }
    if (cli_npy_rows_close(&out->logits) != CLI_DONE)
        exit = CLI_FAILED;
    if (status != NEAP_OK && !cancelled)
        return cli_context_failed(ctx);
    neap_context_clear_error(ctx);
    if (exit != CLI_DONE)
        return exit;
    t->stats.generated = true;
    if (!t->settings->quiet)
        summarise(t);
    return t->stats.interrupted ? CLI_INTERRUPTED : CLI_DONE;
}

/* The texts of --stop; NULL: none, or no memory. */
static const char **stops_of(const cli_settings *s)
{
    const char **stops = s->stops.count ? calloc((size_t)s->stops.count, sizeof *stops) : NULL;
    for (int i = 0; stops && i < s->stops.count; i++)
        stops[i] = s->stops.at[i].text;
    return stops;
}

static int print_text(cli_task *t, neap_context *ctx, cli_generator generate, void *user, output *out)
{
    const cli_settings *s = t->settings;
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    const char **stops = stops_of(s);
    if (!stops && s->stops.count)
        return cli_failed("out of memory");
    o.max_tokens = s->new_tokens;
    o.ignore_eos = s->ignore_eos;
    o.sampler = t->sampler;
    o.on_token = on_token;
    o.user = out;
    o.stop = stops;
    o.n_stop = s->stops.count;
    cli_watch_interrupt(t->ctx);
    const int status = finish_output(t, ctx, out, generate(user, &o, &t->stats.result));
    free(stops);
    return status;
}

int cli_print_text(cli_task *t, neap_context *ctx, cli_generator generate, void *user)
{
    const cli_settings *s = t->settings;
    output out = {.tokens = s->tokens, .last = '\n', .logits = CLI_NPY_ROWS_INIT};
    out.all.on = s->json;
    if (s->json && !(out.all.ids = json_array()))
        return cli_failed("out of memory");
    const int opened =
        s->logits ? cli_npy_rows_open(&out.logits, s->logits, t->info.vocabulary) : CLI_DONE;
    const int status = opened == CLI_DONE ? print_text(t, ctx, generate, user, &out) : CLI_FAILED;
    free(out.all.text);
    json_decref(out.all.ids);
    return status;
}
