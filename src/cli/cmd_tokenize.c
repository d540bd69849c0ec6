/* cmd_tokenize.c - `neap tokenize`: the ids that a text becomes, one JSON array. */
#include <inttypes.h>

#include "cli/task.h"

static int parse(cli_settings *s, int argc, char **argv)
{
    const cli_option table[] = {
#include "cli/model_options.def"
        {"chat", 0, CLI_FLAG, &s->chat, 0, 0, NULL, "put the text into the chat template"},
        {"system", 0, CLI_TEXT, &s->system, 0, 0, "TEXT", "with --chat: the system message"},
        {"raw", 0, CLI_FLAG, &s->raw, 0, 0, NULL, "no template (default)"},
#include "cli/common_options.def"
        {.name = NULL},
    };
    const int status = cli_parse(table, s, argc, argv, "-m FILE -p TEXT [OPTION...]", NULL);
    if (status != CLI_PARSED)
        return status;
    if (!s->model)
        return cli_usage("-m FILE is missing: the model");
    if (!s->prompt)
        return cli_usage("-p TEXT is missing: the text");
    if (s->chat && s->raw)
        return cli_usage("--chat and --raw exclude each other");
    return s->system && !s->chat ? cli_usage("--system needs --chat") : CLI_PARSED;
}

static int print_ids(const neap_ids *ids)
{
    putchar('[');
    for (size_t i = 0; i < ids->count; i++)
        printf("%s%" PRId32, i ? "," : "", ids->data[i]);
    puts("]");
    return cli_flush_output();
}

int cmd_tokenize(int argc, char **argv)
{
    cli_settings settings = CLI_SETTINGS_INIT;
    int status = parse(&settings, argc, argv);
    if (status == CLI_PARSED) {
        cli_task task;
        status = cli_task_open(&task, &settings, settings.model, 1);
        if (status == CLI_DONE)
            status = cli_task_tokens(&task);
        if (status == CLI_DONE)
            status = cli_task_within_budget(&task);
        if (status == CLI_DONE)
            status = print_ids(&task.ids);
        status = cli_task_finish(&task, status);
    }
    cli_settings_free(&settings);
    return status;
}
