/* task.h - what generate, plan, bench, tokenize and info do before they differ: a context, the
 * model, the prompt's ids, the session.
 *
 * Everything that grows with the prompt lies on the context's ledger before the session is planned,
 * and nothing is put there while it runs: so the planned peak is the measured one. Functions print
 * what went wrong and return an exit status. */
#ifndef CLI_TASK_H
#define CLI_TASK_H

#include <neap/model.h>

#include "cli/options.h"
#include "cli/stats.h"

/* Room that is taken for ids at once: prompts up to it have the same peak. */
enum { CLI_PROMPT_ROOM = 8192 };

typedef struct cli_task {
    const cli_settings *settings;
    neap_context *ctx;
    neap_model *model;         /* NULL: only a tokenizer was opened, or a program */
    neap_tokenizer *tokenizer; /* opened for itself, or NULL */
    neap_model_info info;
    neap_ids ids; /* the prompt */
    neap_sampler *sampler;
    neap_session *session;
    neap_session_info plan;
    cli_stats stats;
    struct cli_plan_data *picture; /* of plan; NULL: the work is done */
} cli_task;

/* A context without a limit (the session sets it) and the model. `threads` 0: every processor. */
int cli_task_open(cli_task *task, const cli_settings *settings, const char *path, int64_t threads);
/* The same with any GGUF file, only to be looked at. */
int cli_task_inspect(cli_task *task, const cli_settings *settings, const char *path);
/* A context and the tokenizer of a tokenizer.json or a GGUF file, without the model. */
int cli_task_open_tokenizer(cli_task *task, const cli_settings *settings, const char *path);
/* The one opened for itself, else the model's. */
const neap_tokenizer *cli_task_tokenizer(const cli_task *task);
/* For commands without a session: what was taken until now fits --memory, or is refused. */
int cli_within_budget(neap_context *ctx, uint64_t limit, const char *what);
int cli_task_within_budget(cli_task *task);
/* Do the options of chat_options.def go together? CLI_PARSED, or the exit status. */
int cli_chat_check(const cli_settings *settings);
/* Appends `length` bytes of the user's, put into the chat template; *flags: how to encode that. */
int cli_chat_render(cli_task *task, const char *text, size_t length, neap_text *out, unsigned *flags);
/* The text of -p (rendered with the chat template for --chat) or --ids becomes task->ids; as a
 * prompt, no ids are an error. */
int cli_task_tokens(cli_task *task);
int cli_task_prompt(cli_task *task);
/* Sampler and session for task->ids and `new_tokens`; the budget is decided here. `decode_steps`:
 * how many of the new tokens are fed back. */
int cli_task_plan(cli_task *task, int64_t new_tokens, int64_t decode_steps);
/* The same session again, its plans explained to task->picture. That weighs more plans and takes bytes to
 * do so: what was planned, and a run plans, is task->plan. */
int cli_task_explain(cli_task *task);
/* Frees everything but the context. */
void cli_task_close(cli_task *task);
/* That and the context, after --stats is written if `status` is done or interrupted. Returns it, or
 * that of writing. */
int cli_task_finish(cli_task *task, int status);
/* Positions: -c, or as many as the prompt and new tokens take; 0: as many as will do. */
int64_t cli_task_context(const cli_task *task, int64_t new_tokens);
/* The prompt leaves no position free: says so. */
int cli_task_no_room(const cli_task *task, int64_t context);
/* task->sampler for the vocabulary, from the settings. */
int cli_task_sampler(cli_task *task);
/* The way of `generate` and `plan generate`: arguments, model, prompt, budget, then `work`. A
 * program has a way of its own. */
int cli_generate(bool plan, int argc, char **argv);
/* Tells what was planned: cmd_plan.c. */
int cli_plan_session(cli_task *task);

/* What makes the text: neap_generate, or the like, with `user`. */
typedef neap_status (*cli_generator)(void *user, const neap_generate_options *options,
                                     neap_generate_result *result);
/* Runs it and prints what comes; errors are taken from `ctx`. */
int cli_print_text(cli_task *task, neap_context *ctx, cli_generator generate, void *user);
/* `generate` of a program; with a picture, `plan generate`. */
int cli_generate_program(const cli_settings *settings, struct cli_plan_data *picture);

#endif
