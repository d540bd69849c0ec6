/* prompt.c - the prompt's token ids: from text, standard input or a JSON file. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/task.h"

/* ---- text --------------------------------------------------------------------------------- */

/* The tokenizer refuses what is longer. */
static const size_t TEXT_LIMIT = (size_t)1 << 30;

static int read_input(cli_task *task, neap_text *out)
{
    char part[16384];
    while (out->length <= TEXT_LIMIT) {
        const ssize_t n = read(STDIN_FILENO, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cli_failed("standard input: %s", strerror(errno));
        if (n == 0)
            return CLI_DONE;
        if (neap_text_append(task->ctx, out, part, (size_t)n) != NEAP_OK)
            return cli_failed("standard input: %s", neap_context_error(task->ctx));
    }
    return CLI_DONE;
}

static int encode(cli_task *task, const char *text, size_t length, unsigned flags)
{
    const neap_tokenizer *tokenizer = cli_task_tokenizer(task);
    if (neap_tokenizer_encode(task->ctx, tokenizer, text, length, flags, &task->ids) != NEAP_OK)
        return cli_context_failed(task->ctx);
    return CLI_DONE;
}

static int prompt_from_text(cli_task *task)
{
    const char *given = task->settings->prompt;
    neap_text input = {0}, chat = {0};
    const bool from_input = !strcmp(given, "-");
    int status = from_input ? read_input(task, &input) : CLI_DONE;
    const char *text = from_input ? input.data : given;
    const size_t length = from_input ? input.length : strlen(given);
    if (status == CLI_DONE && task->settings->chat) {
        unsigned flags;
        status = cli_chat_render(task, text, length, &chat, &flags);
        if (status == CLI_DONE)
            status = encode(task, chat.data, chat.length, flags);
    } else if (status == CLI_DONE) {
        status = encode(task, text, length, 0);
    }
    neap_text_free(task->ctx, &input);
    neap_text_free(task->ctx, &chat);
    return status;
}

/* ---- ids ---------------------------------------------------------------------------------- */

static int take_ids(cli_task *task, const json_t *array, const char *path)
{
    if (!json_is_array(array))
        return cli_failed("--ids %s: expected one JSON array of token ids", path);
    const size_t count = json_array_size(array);
    for (size_t i = 0; i < count; i++) {
        const json_t *member = json_array_get(array, i);
        const json_int_t value = json_is_integer(member) ? json_integer_value(member) : -1;
        if (value < 0 || value >= task->info.vocabulary)
            return cli_failed("--ids %s: member %zu is no token id (0 to %" PRId64 ")", path, i,
                              task->info.vocabulary - 1);
        const int32_t id = (int32_t)value;
        if (neap_ids_append(task->ctx, &task->ids, &id, 1) != NEAP_OK)
            return cli_context_failed(task->ctx);
    }
    return CLI_DONE;
}

static int prompt_from_ids(cli_task *task)
{
    const char *path = task->settings->ids;
    FILE *file = fopen(path, "r");
    if (!file)
        return cli_failed("--ids %s: %s", path, strerror(errno));
    json_error_t error;
    json_t *array = json_loadf(file, 0, &error);
    const bool unreadable = ferror(file);
    const int reason = errno;
    fclose(file);
    int status;
    if (unreadable)
        status = cli_failed("--ids %s: %s", path, strerror(reason));
    else if (!array)
        status = cli_failed("--ids %s: line %d, column %d: %s", path, error.line, error.column,
                            error.text);
    else
        status = take_ids(task, array, path);
    json_decref(array);
    return status;
}

/* The session, which knows the least that would do, judges the budget; until then a prompt may take as
 * much beside the model, 64 MiB at least, and input without an end is refused. */
static void limit_prompt(cli_task *task)
{
    neap_memory_info memory = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(task->ctx, &memory);
    const uint64_t held = memory.active + memory.cached, least = (uint64_t)64 << 20;
    const uint64_t more = task->settings->memory < least ? least : task->settings->memory;
    if (task->settings->memory)
        neap_context_set_limit(task->ctx, held + more);
}

int cli_task_tokens(cli_task *task)
{
    if (neap_ids_reserve(task->ctx, &task->ids, CLI_PROMPT_ROOM) != NEAP_OK)
        return cli_context_failed(task->ctx);
    limit_prompt(task);
    const int status = task->settings->ids ? prompt_from_ids(task) : prompt_from_text(task);
    neap_context_set_limit(task->ctx, 0);
    return status;
}

int cli_task_prompt(cli_task *task)
{
    const int status = cli_task_tokens(task);
    if (status == CLI_DONE && task->ids.count == 0)
        return cli_failed(
            "the prompt is empty, and the model begins a text with no token of its own");
    return status;
}
