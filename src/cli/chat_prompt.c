/* chat_prompt.c - a text in the chat template: the file's, a known one, or the user's own. */
#include <errno.h>
#include <string.h>

#include "cli/task.h"

/* Real ones have up to 20 KB. */
static const size_t TEMPLATE_LIMIT = (size_t)16 << 20;

typedef struct chosen {
    const char *text;
    size_t length;
    neap_text read; /* of a file; then it is `text` */
    unsigned flags;
} chosen;

int cli_chat_check(const cli_settings *s)
{
    if (s->chat && s->raw)
        return cli_usage("--chat and --raw exclude each other");
    if (s->system && !s->chat)
        return cli_usage("--system needs --chat");
    if (s->chat_template && !s->chat)
        return cli_usage("--chat-template needs --chat");
    return CLI_PARSED;
}

/* Neither a name nor a file: says which names there are. */
static int unknown(const char *given)
{
    char names[1024] = "";
    size_t length = 0;
    const char *name;
    for (size_t i = 0; (name = neap_chat_template_name(i)) != NULL; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i ? " " : "", name);
    return cli_failed("--chat-template %s: no such file, and no template is called that; there are: %s", given,
                      names);
}

static int read_file(cli_task *task, FILE *file, const char *path, neap_text *out)
{
    char part[16384];
    size_t n;
    while ((n = fread(part, 1, sizeof part, file)) > 0) {
        if (out->length > TEMPLATE_LIMIT)
            return cli_failed("--chat-template %s: over %zu bytes", path, TEMPLATE_LIMIT);
        if (neap_text_append(task->ctx, out, part, n) != NEAP_OK)
            return cli_context_failed(task->ctx);
    }
    if (ferror(file))
        return cli_failed("--chat-template %s: %s", path, strerror(errno));
    return out->length ? CLI_DONE : cli_failed("--chat-template %s: the file is empty", path);
}

static int choose(cli_task *task, const char *given, chosen *c)
{
    const neap_tokenizer *tokenizer = cli_task_tokenizer(task);
    c->flags = NEAP_ENCODE_NO_BOS; /* a file's template writes it where it belongs */
    if ((c->text = neap_tokenizer_chat_template(tokenizer, given, &c->length)) != NULL || !given)
        return CLI_DONE;
    if ((c->text = neap_chat_template_named(given, &c->length)) != NULL) {
        c->flags = 0; /* these have none, so that they fit any file */
        return CLI_DONE;
    }
    FILE *file = fopen(given, "r");
    if (!file)
        return errno == ENOENT ? unknown(given) : cli_failed("--chat-template %s: %s", given, strerror(errno));
    const int status = read_file(task, file, given, &c->read);
    fclose(file);
    c->text = c->read.data;
    c->length = c->read.length;
    return status;
}

int cli_chat_render(cli_task *task, const char *text, size_t length, neap_text *out, unsigned *flags)
{
    neap_chat_message messages[2];
    size_t count = 0;
    chosen c = {0};
    const char *system = task->settings->system;
    if (system)
        messages[count++] = (neap_chat_message){"system", system, strlen(system)};
    messages[count++] = (neap_chat_message){"user", text, length};
    int status = choose(task, task->settings->chat_template, &c);
    if (status == CLI_DONE && neap_chat_render(task->ctx, cli_task_tokenizer(task), c.text, c.length, messages,
                                               count, true, out) != NEAP_OK)
        status = cli_context_failed(task->ctx);
    *flags = c.flags;
    neap_text_free(task->ctx, &c.read);
    return status;
}
