/* cmd_generate.c - `neap generate`: text from a language model, as it is made. */
#include <inttypes.h>
#include <string.h>

#include "cli/ctrl_c.h"
#include "cli/plan_misfit.h"
#include "cli/program_task.h"
#include "cli/task.h"

/* ---- options ------------------------------------------------------------------------------ */

static int check_together(const cli_settings *s)
{
    if (!s->model)
        return cli_usage("-m FILE is missing: the model");
    if (!s->prompt && !s->ids)
        return cli_usage("-p TEXT or --ids FILE.json is missing: the prompt");
    if (s->prompt && s->ids)
        return cli_usage("-p and --ids: one prompt is enough");
    if (s->ids && s->chat)
        return cli_usage("--chat and --ids exclude each other: ids are not put into a template");
    if (s->chunk % 64)
        return cli_usage("--chunk %" PRId64 ": expected a multiple of 64", s->chunk);
    return cli_chat_check(s);
}

/* `plan` has a --json of its own. */
static int check_output(const cli_settings *s, bool plan)
{
    if (s->json && s->tokens && !plan)
        return cli_usage("--json and --tokens exclude each other: the object has both text and ids");
    for (int i = 0; i < s->stops.count; i++) {
        const size_t n = strlen(s->stops.at[i].text);
        if (n == 0 || n > NEAP_STOP_MOST)
            return cli_usage("--stop: a text of %zu bytes, expected 1 to %d", n, NEAP_STOP_MOST);
    }
    return CLI_PARSED;
}

/* With `plan` also the table of `plan generate`. Checks what belongs together. */
static int parse(cli_settings *s, bool plan, int argc, char **argv)
{
    const cli_option table[] = {
#include "cli/model_options.def"
        {"max-tokens", 'n', CLI_INT, &s->new_tokens, 1, 1 << 30, "N", "new tokens (default: 128)"},
#include "cli/chat_options.def"
        {"tokens", 0, CLI_FLAG, &s->tokens, 0, 0, NULL, "one JSON array of the new ids, not text"},
        {"stop", 0, CLI_EVENTS, &s->stops, 0, 0, "TEXT", "a text that ends the generation and is not shown; may "
         "be given again"},
        {"tokenizer", 0, CLI_TEXT, &s->tokenizer, 0, 0, "FILE", "of a program: a tokenizer.json"},
        {"option", 0, CLI_EVENTS, &s->options, 0, 0, "KEY=VALUE", "of a program: a runtime option"},
        {"data", 0, CLI_TEXT, &s->data, 0, 0, "FILE.ptd", "of a program: constants beside it"},
#include "cli/session_options.def"
#include "cli/planner_options.def"
#include "cli/common_options.def"
        {"json", 0, CLI_FLAG, &s->json, 0, 0, NULL, "one JSON object on one line"},
#include "cli/plan_options.def"
        {.name = NULL},
    };
    const int status = cli_parse(table, s, argc, argv, "-m FILE -p TEXT [OPTION...]", NULL);
    const int checked = status == CLI_PARSED ? check_together(s) : status;
    return checked == CLI_PARSED ? check_output(s, plan) : checked;
}

/* ---- the run ------------------------------------------------------------------------------ */

static void announce(const cli_task *t)
{
    char limit[64] = "";
    if (t->settings->memory)
        snprintf(limit, sizeof limit, " of %s", cli_mib(t->settings->memory).text);
    fprintf(stderr,
            "neap: planned peak %s (%" PRIu64 " bytes)%s, context %" PRId64 ", steps of %" PRId64
            " tokens, weights %s, %d threads\n",
            cli_mib(t->plan.planned_peak_bytes).text, t->plan.planned_peak_bytes, limit,
            t->plan.context, t->plan.chunk, t->plan.repacked ? "repacked" : "mapped",
            neap_context_threads(t->ctx));
}

static neap_status generate(void *user, const neap_generate_options *o, neap_generate_result *result)
{
    const cli_task *t = user;
    if (!t->settings->quiet)
        announce(t);
    const neap_status status = neap_session_start(t->session);
    if (status != NEAP_OK)
        return status;
    return neap_generate(t->session, t->ids.data, (int64_t)t->ids.count, o, result);
}

static int run(cli_task *t)
{
    return cli_print_text(t, t->ctx, generate, t);
}

static int go(const cli_settings *settings, cli_plan_data *picture, int (*work)(cli_task *task))
{
    cli_task task;
    int status = cli_task_open(&task, settings, settings->model, settings->threads);
    task.picture = picture;
    if (status == CLI_DONE && !picture)
        cli_watch_interrupt(task.ctx);
    if (status == CLI_DONE)
        status = cli_task_prompt(&task);
    if (status == CLI_DONE)
        status = cli_task_plan(&task, settings->new_tokens, settings->new_tokens - 1);
    if (status == CLI_DONE)
        status = work(&task);
    return cli_task_finish(&task, status);
}

static int whole(const cli_settings *settings, cli_plan_data *picture)
{
    return go(settings, picture, cli_plan_session);
}

int cli_generate(bool plan, int argc, char **argv)
{
    cli_settings settings = CLI_SETTINGS_INIT;
    cli_plan_data data = CLI_PLAN_DATA_INIT, *picture = plan ? &data : NULL;
    int status = parse(&settings, plan, argc, argv);
    if (status == CLI_PARSED && plan) {
        const int prepared = cli_plan_prepare(picture, &settings);
        status = prepared == CLI_DONE ? CLI_PARSED : prepared;
    }
    const bool program = status == CLI_PARSED && cli_is_program(settings.model);
    if (program && plan) {
        status = cli_plan_or_misfit(&settings, "generate", cli_generate_program, picture);
    } else if (program) {
        status = cli_generate_program(&settings, NULL);
    } else if (status == CLI_PARSED &&
               (settings.tokenizer || settings.data || settings.options.count)) {
        status = cli_usage("--tokenizer, --option and --data are for programs, %s is none",
                           settings.model);
    } else if (status == CLI_PARSED && plan) {
        status = cli_plan_or_misfit(&settings, "generate", whole, picture);
    } else if (status == CLI_PARSED) {
        status = go(&settings, NULL, run);
    }
    cli_plan_data_free(&data);
    cli_settings_free(&settings);
    return status;
}

int cmd_generate(int argc, char **argv)
{
    return cli_generate(false, argc, argv);
}
