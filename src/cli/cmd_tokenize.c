/* cmd_tokenize.c - `neap tokenize`: the ids that a text becomes, one JSON array. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/task.h"

static int parse(cli_settings *s, int argc, char **argv)
{
    const cli_option table[] = {
#include "cli/model_options.def"
        {"tokenizer", 0, CLI_TEXT, &s->tokenizer, 0, 0, "FILE",
         "a tokenizer.json, or a GGUF file, in the place of -m"},
#include "cli/chat_options.def"
#include "cli/common_options.def"
        {.name = NULL},
    };
    const int status = cli_parse(table, s, argc, argv, "-m FILE -p TEXT [OPTION...]", NULL);
    if (status != CLI_PARSED)
        return status;
    if (!s->model && !s->tokenizer)
        return cli_usage("-m FILE is missing: the model");
    if (s->model && s->tokenizer)
        return cli_usage("-m and --tokenizer exclude each other");
    if (!s->prompt)
        return cli_usage("-p TEXT is missing: the text");
    return cli_chat_check(s);
}

static int print_ids(const neap_ids *ids)
{
    putchar('[');
    for (size_t i = 0; i < ids->count; i++)
        printf("%s%" PRId32, i ? "," : "", ids->data[i]);
    puts("]");
    return cli_flush_output();
}

/* -m takes a tokenizer.json too: JSON begins with a brace, whatever the file is called. */
static bool is_json(const char *path)
{
    struct stat kind;
    char first = 0;
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe is not waited for */
    const bool brace = file >= 0 && fstat(file, &kind) == 0 && S_ISREG(kind.st_mode) &&
                       read(file, &first, 1) == 1 && first == '{';
    if (file >= 0)
        close(file);
    return brace;
}

static int open_task(cli_task *task, const cli_settings *s)
{
    if (s->tokenizer)
        return cli_task_open_tokenizer(task, s, s->tokenizer);
    if (is_json(s->model))
        return cli_task_open_tokenizer(task, s, s->model);
    const int status = cli_task_inspect(task, s, s->model); /* the vocabulary of any GGUF file */
    if (status == CLI_DONE && !neap_model_tokenizer(task->model) &&
        neap_tokenizer_open(task->ctx, s->model, &task->tokenizer) != NEAP_OK)
        return cli_context_failed(task->ctx);
    return status;
}

int cmd_tokenize(int argc, char **argv)
{
    cli_settings settings = CLI_SETTINGS_INIT;
    int status = parse(&settings, argc, argv);
    if (status == CLI_PARSED) {
        cli_task task;
        status = open_task(&task, &settings);
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
