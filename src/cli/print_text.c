/* print_text.c - text, ids or scores to where they were asked for, as they are made; Ctrl-C. For models
 * and programs alike. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/npy_rows.h"
#include "cli/task.h"

typedef struct output {
    bool tokens;
    int64_t count;
    char last; /* last byte of the text */
    int error; /* errno of standard output's first failure */
    cli_npy_rows logits;
} output;

static bool on_token(void *user, int32_t id, const char *text, size_t length, const float *logits)
{
    output *out = user;
    if (logits && out->logits.file >= 0 && !cli_npy_rows_add(&out->logits, logits))
        return false;
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

static void end_text(output *out)
{
    if (out->tokens)
        puts(out->count ? "]" : "[]");
    else if (out->last != '\n' && isatty(STDOUT_FILENO))
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
    if (out->error) {
        exit = cli_failed("standard output: %s", strerror(out->error));
    } else {
        end_text(out);
        exit = cli_flush_output();
    }
    if (cli_npy_rows_close(&out->logits) != CLI_DONE)
        exit = CLI_FAILED;
    if (status != NEAP_OK)
        return cli_context_failed(ctx);
    if (exit != CLI_DONE)
        return exit;
    t->stats.generated = true;
    t->stats.interrupted = cli_interrupted() && t->stats.result.finish == NEAP_FINISH_CALLER;
    if (!t->settings->quiet)
        summarise(t);
    return t->stats.interrupted ? CLI_INTERRUPTED : CLI_DONE;
}

int cli_print_text(cli_task *t, neap_context *ctx, cli_generator generate, void *user)
{
    const cli_settings *s = t->settings;
    output out = {.tokens = s->tokens, .last = '\n', .logits = CLI_NPY_ROWS_INIT};
    if (s->logits && cli_npy_rows_open(&out.logits, s->logits, t->info.vocabulary) != CLI_DONE)
        return CLI_FAILED;
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    o.max_tokens = s->new_tokens;
    o.ignore_eos = s->ignore_eos;
    o.sampler = t->sampler;
    o.on_token = on_token;
    o.user = &out;
    cli_watch_interrupt();
    return finish_output(t, ctx, &out, generate(user, &o, &t->stats.result));
}
