/* cmd_bench.c - `neap bench`: prompt and generation speed, and memory.
 *
 * Each cell of the matrix --pp x --tg has its own context, so its figures are those of a run alone.
 * A repeat forgets what it holds, takes the prompt of pp tokens, then feeds back tg tokens with the
 * prompt in the cache; end tokens do not end it. Speeds are medians of the repeats; there is no
 * round before the first. */
#include <inttypes.h>
#include <string.h>

#include "cli/npy_rows.h"
#include "cli/task.h"

enum { MAX_REPEATS = 1000 };

static const char SENTENCE[] = "The quick brown fox jumps over the lazy dog. ";

static int parse(cli_settings *s, int argc, char **argv)
{
    const cli_option table[] = {
#include "cli/model_options.def"
        {"pp", 0, CLI_LIST, &s->prompt_sizes, 1, 1 << 30, "N,N..", "prompt tokens (default: 512, "
         "or the prompt's own)"},
        {"tg", 'n', CLI_LIST, &s->token_counts, 0, 1 << 30, "N,N..", "new tokens (default: 64)"},
        {"repeat", 0, CLI_INT, &s->repeat, 1, MAX_REPEATS, "N", "repeats (default: 5)"},
        {"json", 0, CLI_FLAG, &s->json, 0, 0, NULL, "one JSON object on one line"},
#include "cli/session_options.def"
#include "cli/planner_options.def"
#include "cli/common_options.def"
        {.name = NULL},
    };
    const int status = cli_parse(table, s, argc, argv, "-m FILE [OPTION...]", NULL);
    if (status != CLI_PARSED)
        return status;
    if (!s->model)
        return cli_usage("-m FILE is missing: the model");
    if (s->prompt && s->ids)
        return cli_usage("-p and --ids: one prompt is enough");
    if (s->chunk % 64)
        return cli_usage("--chunk %" PRId64 ": expected a multiple of 64", s->chunk);
    const bool matrix = s->prompt_sizes.count > 1 || s->token_counts.count > 1;
    if (matrix && (s->logits || s->stats))
        return cli_usage("--logits and --stats are files of one run: give one --pp and one --tg");
    return CLI_PARSED;
}

/* ---- one cell ----------------------------------------------------------------------------- */

/* -p or --ids, else a sentence, over and over, cut to `count` tokens (0: as it is). */
static int make_prompt(cli_task *t, int64_t count)
{
    const neap_tokenizer *tokenizer = neap_model_tokenizer(t->model);
    if (count > t->info.context_length)
        return cli_failed("--pp %" PRId64 ": the model's context has %" PRId64 " positions", count,
                          t->info.context_length);
    if (neap_ids_reserve(t->ctx, &t->ids, CLI_PROMPT_ROOM) != NEAP_OK)
        return cli_context_failed(t->ctx);
    if (t->settings->prompt || t->settings->ids) {
        if (cli_task_prompt(t) != CLI_DONE)
            return CLI_FAILED;
    } else if (neap_tokenizer_encode(t->ctx, tokenizer, SENTENCE, strlen(SENTENCE),
                                     NEAP_ENCODE_NO_BOS, &t->ids) != NEAP_OK) {
        return cli_context_failed(t->ctx);
    }
    const size_t once = t->ids.count, want = count ? (size_t)count : once;
    if (once == 0)
        return cli_failed("the prompt is empty");
    while (t->ids.count < want) {
        const int32_t id = t->ids.data[t->ids.count % once];
        if (neap_ids_append(t->ctx, &t->ids, &id, 1) != NEAP_OK)
            return cli_context_failed(t->ctx);
    }
    t->ids.count = want;
    return CLI_DONE;
}

/* One repeat; `logits` may be NULL. */
static neap_status run_once(cli_task *t, int64_t new_tokens, double *prompt, double *generation,
                            cli_npy_rows *logits)
{
    neap_status status = neap_session_rewind(t->session, 0);
    double start = cli_seconds();
    if (status == NEAP_OK)
        status = neap_session_prefill(t->session, t->ids.data, (int64_t)t->ids.count);
    *prompt = cli_seconds() - start;
    start = cli_seconds();
    for (int64_t i = 0; status == NEAP_OK && i < new_tokens; i++) {
        const float *scores = neap_session_logits(t->session);
        int32_t id;
        if (logits && !cli_npy_rows_add(logits, scores))
            return NEAP_OK; /* closing the file tells */
        status = neap_sampler_pick(t->sampler, scores, (uint64_t)i, &id);
        if (status == NEAP_OK)
            status = neap_session_step(t->session, id);
    }
    *generation = cli_seconds() - start;
    return status;
}

/* Sorts in place. */
static double median(double *values, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const double value = values[i];
        int64_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static int write_logits(cli_task *t, int64_t new_tokens)
{
    cli_npy_rows rows = CLI_NPY_ROWS_INIT;
    double unused[2];
    if (cli_npy_rows_open(&rows, t->settings->logits, t->info.vocabulary) != CLI_DONE)
        return CLI_FAILED;
    const neap_status status = run_once(t, new_tokens, &unused[0], &unused[1], &rows);
    const int closed = cli_npy_rows_close(&rows);
    return status == NEAP_OK ? closed : cli_context_failed(t->ctx);
}

static int measure(cli_task *t, int64_t new_tokens)
{
    double prompt[MAX_REPEATS], generation[MAX_REPEATS];
    const int64_t repeats = t->settings->repeat;
    for (int64_t i = 0; i < repeats; i++)
        if (run_once(t, new_tokens, &prompt[i], &generation[i], NULL) != NEAP_OK)
            return cli_context_failed(t->ctx);
    neap_generate_result *r = &t->stats.result;
    r->prompt_tokens = (int64_t)t->ids.count;
    r->generated_tokens = r->decode_steps = new_tokens;
    r->prompt_seconds = median(prompt, repeats);
    r->generation_seconds = new_tokens ? median(generation, repeats) : 0;
    r->finish = NEAP_FINISH_LENGTH;
    t->stats.generated = true;
    return t->settings->logits ? write_logits(t, new_tokens) : CLI_DONE;
}

static int run_cell(const cli_settings *s, int64_t prompt_size, int64_t new_tokens,
                    cli_stats *stats, double *load_seconds)
{
    cli_task task;
    const double start = cli_seconds();
    int status = cli_task_open(&task, s, s->model, s->threads);
    if (status == CLI_DONE)
        status = make_prompt(&task, prompt_size);
    if (status == CLI_DONE)
        status = cli_task_plan(&task, new_tokens, new_tokens);
    if (status == CLI_DONE && (int64_t)task.ids.count + new_tokens > task.plan.context)
        status = cli_failed("%zu prompt tokens and %" PRId64
                            " new ones do not fit the context of %" PRId64 " positions",
                            task.ids.count, new_tokens, task.plan.context);
    if (status == CLI_DONE && neap_session_start(task.session) != NEAP_OK)
        status = cli_context_failed(task.ctx);
    *load_seconds = cli_seconds() - start;
    if (status == CLI_DONE)
        status = measure(&task, new_tokens);
    status = cli_task_finish(&task, status);
    *stats = task.stats;
    return status;
}

/* ---- report ------------------------------------------------------------------------------- */

static json_t *cell_json(const cli_settings *s, const cli_stats *stats, double load_seconds)
{
    json_t *object = json_object();
    json_object_set_new(object, "pp", json_integer(stats->result.prompt_tokens));
    json_object_set_new(object, "tg", json_integer(stats->result.generated_tokens));
    json_object_set_new(object, "repeat", json_integer(s->repeat));
    json_object_set_new(object, "load_seconds", json_real(load_seconds));
    json_object_set_new(object, "context", json_integer(stats->session.context));
    json_object_set_new(object, "chunk", json_integer(stats->session.chunk));
    json_object_set_new(object, "repacked", json_boolean(stats->session.repacked));
    json_t *rest = cli_stats_json(stats);
    json_object_update(object, rest);
    json_decref(rest);
    return object;
}

static void print_cell(const cli_stats *stats, double load_seconds)
{
    const neap_generate_result *r = &stats->result;
    const double tokens = (double)r->decode_steps;
    printf("%8" PRId64 " %8" PRId64 " %12.1f %12.1f %14.1f %14.1f %8.3f  %s\n", r->prompt_tokens,
           r->generated_tokens, (double)r->prompt_tokens / r->prompt_seconds,
           tokens > 0 ? tokens / r->generation_seconds : 0,
           (double)stats->session.planned_peak_bytes / 1048576,
           (double)stats->memory.peak / 1048576, load_seconds,
           stats->session.repacked ? "repacked" : "mapped");
    fflush(stdout);
}

static int run_matrix(const cli_settings *s, const cli_list *prompts, const cli_list *counts)
{
    const bool matrix = prompts->count > 1 || counts->count > 1;
    json_t *rows = json_array(), *object = NULL;
    int status = CLI_DONE;
    if (!s->json)
        printf("%8s %8s %12s %12s %14s %14s %8s  weights\n", "prompt", "new", "prompt t/s",
               "new t/s", "planned MiB", "measured MiB", "load s");
    for (int i = 0; status == CLI_DONE && i < prompts->count * counts->count; i++) {
        cli_stats stats;
        double load_seconds;
        status = run_cell(s, prompts->value[i / counts->count], counts->value[i % counts->count],
                          &stats, &load_seconds);
        if (status == CLI_DONE && s->json)
            json_array_append_new(rows, cell_json(s, &stats, load_seconds));
        else if (status == CLI_DONE)
            print_cell(&stats, load_seconds);
    }
    if (status == CLI_DONE && s->json) {
        object = matrix ? json_pack("{s:O}", "rows", rows) : json_incref(json_array_get(rows, 0));
        status = cli_json_print(stdout, "standard output", object);
    }
    json_decref(rows);
    return status == CLI_DONE ? cli_flush_output() : status;
}

int cmd_bench(int argc, char **argv)
{
    cli_settings settings = CLI_SETTINGS_INIT;
    int status = parse(&settings, argc, argv);
    if (status == CLI_PARSED) {
        const cli_list prompt = {1, {settings.prompt || settings.ids ? 0 : 512}}, count = {1, {64}};
        status =
            run_matrix(&settings, settings.prompt_sizes.count ? &settings.prompt_sizes : &prompt,
                       settings.token_counts.count ? &settings.token_counts : &count);
    }
    cli_settings_free(&settings);
    return status;
}
