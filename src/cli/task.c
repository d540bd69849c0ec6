/* task.c - see task.h. */
#include "cli/task.h"

#include <inttypes.h>
#include <string.h>

#include "cli/ctrl_c.h"
#include "cli/planner.h"
#include "cli/progress_bar.h"

static int check_outputs(const cli_settings *s, const char *model)
{
    const cli_file files[] = {
        {"-m", model, false},
        {"--tokenizer", s->tokenizer, false},
        {"--ids", s->ids, false},
        {"--logits", s->logits, true},
        {"--stats", s->stats, true},
    };
    return cli_check_files(files, sizeof files / sizeof files[0]);
}

static int open_context(cli_task *task, const cli_settings *settings, const char *path,
                        int64_t threads)
{
    *task = (cli_task){
        .settings = settings, .info = NEAP_MODEL_INFO_INIT, .plan = NEAP_SESSION_INFO_INIT};
    cli_stats_begin(&task->stats);
    const int outputs = check_outputs(settings, path);
    if (outputs != CLI_DONE)
        return outputs;
    if (settings->stats && cli_check_writable("--stats", settings->stats) != CLI_DONE)
        return CLI_FAILED;
    const int status = cli_context_new(threads, &task->ctx);
    if (status == CLI_DONE)
        cli_progress_begin(task->ctx, settings->quiet);
    return status == CLI_DONE ? cli_planner_use(settings, NULL, task->ctx) : status;
}

static int open_model(cli_task *task, const cli_settings *settings, const char *path, int64_t threads,
                      neap_status (*open)(neap_context *, const char *, neap_model **))
{
    const int status = open_context(task, settings, path, threads);
    if (status != CLI_DONE)
        return status;
    if (open(task->ctx, path, &task->model) != NEAP_OK) {
        task->model = NULL;
        return cli_context_failed(task->ctx);
    }
    neap_model_describe(task->model, &task->info);
    return CLI_DONE;
}

int cli_task_open(cli_task *task, const cli_settings *settings, const char *path, int64_t threads)
{
    return open_model(task, settings, path, threads, neap_model_open);
}

int cli_task_inspect(cli_task *task, const cli_settings *settings, const char *path)
{
    return open_model(task, settings, path, 1, neap_model_inspect);
}

int cli_within_budget(neap_context *ctx, uint64_t limit, const char *what)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    if (limit && m.peak > limit)
        return cli_failed("needs at least %.1f MiB (%" PRIu64 " bytes), the limit is %.1f MiB: %s",
                          (double)m.peak / 1048576.0, m.peak, (double)limit / 1048576.0, what);
    if (limit && neap_context_set_limit(ctx, limit) != NEAP_OK)
        return cli_context_failed(ctx);
    return CLI_DONE;
}

int cli_task_open_tokenizer(cli_task *task, const cli_settings *settings, const char *path)
{
    const int status = open_context(task, settings, path, 1);
    if (status != CLI_DONE)
        return status;
    if (neap_tokenizer_open(task->ctx, path, &task->tokenizer) != NEAP_OK)
        return cli_context_failed(task->ctx);
    task->info.vocabulary = neap_tokenizer_size(task->tokenizer);
    return CLI_DONE;
}

const neap_tokenizer *cli_task_tokenizer(const cli_task *task)
{
    return task->tokenizer ? task->tokenizer : neap_model_tokenizer(task->model);
}

int cli_task_within_budget(cli_task *task)
{
    return cli_within_budget(task->ctx, task->settings->memory, "header, tokenizer and text");
}

/* ---- session ------------------------------------------------------------------------------ */

int cli_task_sampler(cli_task *task)
{
    const cli_settings *s = task->settings;
    neap_sampler_options options = NEAP_SAMPLER_OPTIONS_INIT;
    options.temperature = (float)s->temperature;
    options.top_k = (int)s->top_k;
    options.top_p = (float)s->top_p;
    options.min_p = (float)s->min_p;
    options.seed = s->seed;
    options.repeat_penalty = (float)s->repeat_penalty;
    options.repeat_last = (int)s->repeat_last;
    if (neap_sampler_new(task->ctx, &options, (int32_t)task->info.vocabulary, &task->sampler) ==
        NEAP_OK)
        return CLI_DONE;
    task->sampler = NULL;
    return cli_context_failed(task->ctx);
}

static int64_t default_context(const cli_task *task, int64_t new_tokens)
{
    const int64_t most = task->info.context_length, prompt = (int64_t)task->ids.count;
    if (prompt >= most || new_tokens >= most - prompt)
        return most;
    const int64_t rounded = (prompt + new_tokens + 255) / 256 * 256;
    return rounded < most ? rounded : most;
}

int cli_task_no_room(const cli_task *task, int64_t context)
{
    if (context >= task->info.context_length)
        return cli_failed("the prompt has %zu tokens, the model has room for %" PRId64
                          " positions and needs one more than the prompt: a shorter prompt would do",
                          task->ids.count, context);
    return cli_failed(
        "the prompt has %zu tokens, the context has room for %" PRId64
        " positions and needs one more than the prompt: a larger -c (the model allows "
        "%" PRId64 ") or a shorter prompt would do",
        task->ids.count, context, task->info.context_length);
}

int64_t cli_task_context(const cli_task *task, int64_t new_tokens)
{
    const int64_t given = task->settings->context;
    return given < 0 ? default_context(task, new_tokens) : given;
}

static neap_session_options session_options(const cli_task *task, int64_t new_tokens,
                                            int64_t decode_steps)
{
    static const neap_dtype kv_types[] = {NEAP_F16, NEAP_F32};
    static const neap_weights_mode weights[] = {NEAP_WEIGHTS_AUTO, NEAP_WEIGHTS_MAPPED,
                                                NEAP_WEIGHTS_REPACKED};
    const cli_settings *s = task->settings;
    neap_session_options o = NEAP_SESSION_OPTIONS_INIT;
    o.prompt = (int64_t)task->ids.count;
    o.context = cli_task_context(task, new_tokens);
    o.chunk = s->chunk;
    o.decode = decode_steps > 0;
    o.kv_type = kv_types[s->kv_type];
    o.weights = weights[s->weights];
    o.memory = s->memory;
    return o;
}

int cli_task_explain(cli_task *task)
{
    const cli_settings *s = task->settings;
    neap_session_options o = session_options(task, s->new_tokens, s->new_tokens - 1);
    o.context = task->plan.context;
    o.chunk = task->plan.chunk;
    o.weights = task->plan.repacked ? NEAP_WEIGHTS_REPACKED : NEAP_WEIGHTS_MAPPED;
    o.memory = 0;
    neap_session_free(task->session);
    task->session = NULL;
    const int status = cli_planner_use(s, task->picture, task->ctx);
    if (status != CLI_DONE)
        return status;
    if (neap_context_set_limit(task->ctx, 0) == NEAP_OK &&
        neap_session_new(task->model, &o, &task->session) == NEAP_OK)
        return CLI_DONE;
    task->session = NULL;
    return cli_context_failed(task->ctx);
}

int cli_task_plan(cli_task *task, int64_t new_tokens, int64_t decode_steps)
{
    neap_session_options o = session_options(task, new_tokens, decode_steps);
    const int64_t room = o.context ? o.context : task->info.context_length;
    if (o.prompt >= room && new_tokens > 0)
        return cli_task_no_room(task, room);
    if (cli_task_sampler(task) != CLI_DONE)
        return CLI_FAILED;
    neap_context_trim(task->ctx);
    if (neap_session_new(task->model, &o, &task->session) != NEAP_OK) {
        task->session = NULL;
        return cli_context_failed(task->ctx);
    }
    neap_session_describe(task->session, &task->plan);
    const char *whose;
    if (o.memory == 0 &&
        (o.memory = cli_machine_budget(task->plan.planned_peak_bytes, task->settings->quiet, &whose))) {
        neap_session_free(task->session);
        neap_context_trim(task->ctx);
        if (neap_session_new(task->model, &o, &task->session) != NEAP_OK) {
            task->session = NULL;
            return cli_failed("%s; it is %s of this machine", neap_context_error(task->ctx), whose);
        }
        neap_session_describe(task->session, &task->plan);
    }
    if (o.prompt >= task->plan.context && new_tokens > 0)
        return cli_task_no_room(task, task->plan.context);
    return CLI_DONE;
}

/* ---- end ---------------------------------------------------------------------------------- */

void cli_task_close(cli_task *task)
{
    if (!task->ctx)
        return;
    cli_stats_read(&task->stats, task->ctx, task->session);
    neap_session_free(task->session);
    neap_sampler_free(task->sampler);
    neap_ids_free(task->ctx, &task->ids);
    neap_tokenizer_free(task->tokenizer);
    neap_model_free(task->model);
    task->session = NULL;
    task->sampler = NULL;
    task->tokenizer = NULL;
    task->model = NULL;
    cli_stats_end(&task->stats, task->ctx);
}

int cli_task_finish(cli_task *task, int status)
{
    cli_task_close(task);
    if (status == CLI_INTERRUPTED)
        task->stats.interrupted = task->stats.generated = true;
    if (task->settings->stats && (status == CLI_DONE || status == CLI_INTERRUPTED)) {
        const int written = cli_stats_write(&task->stats, task->settings->stats);
        if (written != CLI_DONE)
            status = written;
    }
    cli_watch_interrupt(NULL);
    neap_context_free(task->ctx);
    task->ctx = NULL;
    return status;
}
