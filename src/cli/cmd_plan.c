/* cmd_plan.c - `neap plan COMMAND …`: what the command would need; runs nothing. It takes the way
 * of the command itself up to the plan, so what it tells is what the command will do. */
#include <inttypes.h>
#include <string.h>

#include "cli/cmd_plan.h"
#include "cli/plan_graph.h"
#include "cli/plan_report.h"
#include "cli/program_task.h"
#include "cli/speech_text.h"
#include "cli/task.h"

/* ---- a model's session -------------------------------------------------------------------- */

static cli_plan_facts session_facts(const cli_task *t)
{
    const neap_session_info *i = &t->plan;
    neap_eval_stats eval = NEAP_EVAL_STATS_INIT;
    neap_context_eval_stats(t->ctx, &eval);
    cli_plan_facts f = {.planned_peak_bytes = i->planned_peak_bytes,
                        .least_bytes = i->least_bytes,
                        .mapped_bytes = i->mapped_bytes,
                        .memory_limit = t->settings->memory,
                        .arena_bytes = i->peak_plan.arena_bytes,
                        .largest_live_bytes = i->peak_plan.largest_live_bytes,
                        .steps = i->peak_plan.steps,
                        .peak_step = i->peak_plan.peak_step,
                        .plan_seconds = eval.plan_seconds,
                        .threads = neap_context_threads(t->ctx)};
    memcpy(f.by_category, i->planned_by_category, sizeof f.by_category);
    return f;
}

static json_t *session_json(const cli_task *t)
{
    json_t *object = json_object();
    json_object_set_new(object, "kv_bytes", json_integer((json_int_t)t->plan.kv_bytes));
    json_object_set_new(object, "prompt_tokens", json_integer((json_int_t)t->ids.count));
    json_object_set_new(object, "context", json_integer(t->plan.context));
    json_object_set_new(object, "chunk", json_integer(t->plan.chunk));
    json_object_set_new(object, "repacked", json_boolean(t->plan.repacked));
    return object;
}

static void print_session(const cli_task *t)
{
    const neap_session_info *i = &t->plan;
    cli_print_clean(stdout, t->info.name, strlen(t->info.name));
    printf("%s%zu prompt tokens, context %" PRId64 ", KV cache %s, steps of %" PRId64
           " tokens, weights %s, %d threads\n\n",
           *t->info.name ? ": " : "", t->ids.count, i->context,
           t->settings->kv_type ? "f32" : "f16", i->chunk, i->repacked ? "repacked" : "mapped",
           neap_context_threads(t->ctx));
}

int cli_plan_session(cli_task *t)
{
    cli_alive alive = {.count = 0};
    const cli_plan_report r = {.settings = t->settings,
                               .command = "generate",
                               .title = *t->info.name ? t->info.name
                                                       : cli_plan_title(t->settings->model),
                               .facts = session_facts(t),
                               .alive = &alive,
                               .data = t->picture};
    const int explained = cli_task_explain(t);
    if (explained != CLI_DONE)
        return explained;
    neap_session_at_peak(t->session, cli_alive_add, &alive);
    neap_session_visit_plans(t->session, cli_plan_data_add, t->picture);
    if (!t->settings->json && !t->settings->misfit)
        print_session(t);
    const int status = cli_plan_tell(&r, session_json(t));
    cli_alive_clear(&alive);
    return status;
}

/* ---- commands that can be planned --------------------------------------------------------- */

static int plan_generate(int argc, char **argv)
{
    return cli_generate(true, argc, argv);
}

static int plan_run(int argc, char **argv)
{
    return cli_run(true, argc, argv);
}

static int plan_transcribe(int argc, char **argv)
{
    return cli_transcribe(true, argc, argv);
}

static const struct {
    const char *name;
    int (*plan)(int argc, char **argv);
} commands[] = {
    {"generate",   plan_generate  },
    {"run",        plan_run       },
    {"transcribe", plan_transcribe},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

const char *cli_plan_word(int i)
{
    return i < N_COMMANDS ? commands[i].name : i == N_COMMANDS ? "--graph" : NULL;
}

static int print_help(FILE *file)
{
    fputs("Usage: neap plan COMMAND [OPTION...]\n"
          "       neap plan --graph FILE.json [OPTION...]\n"
          "Tells what the command would need: the peak, the least budget, what holds the peak.\n"
          "Takes the options of the command, and --json, --html FILE, --trace FILE, --measured "
          "FILE.json\n"
          "and --verbose. Nothing is run; files that the command would write are not written, but "
          "for\n"
          "--stats.\n\nCommands:",
          file);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(file, " %s", commands[i].name);
    fputs("\n", file);
    return file == stdout ? cli_flush_output() : CLI_USAGE;
}

/* Options only, --graph among them? */
static bool is_graph(int argc, char **argv)
{
    for (int i = 1; i < argc && argv[1][0] == '-'; i++)
        if (!strcmp(argv[i], "--graph") || !strncmp(argv[i], "--graph=", strlen("--graph=")))
            return true;
    return false;
}

int cmd_plan(int argc, char **argv)
{
    if (is_graph(argc, argv)) {
        char title[] = "plan --graph FILE.json"; /* what the help calls it */
        argv[0] = title;
        return cli_plan_graph(argc, argv);
    }
    int word = 1; /* --json may stand before the command */
    while (word < argc && !strcmp(argv[word], "--json"))
        word++;
    if (word == argc)
        return print_help(stderr);
    if (!strcmp(argv[word], "--help") || !strcmp(argv[word], "-h"))
        return print_help(stdout);
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[word], commands[i].name)) {
            char title[32]; /* what the help calls it */
            snprintf(title, sizeof title, "plan %s", commands[i].name);
            memmove(argv + 2, argv + 1, (size_t)(word - 1) * sizeof *argv);
            argv[1] = title;
            return commands[i].plan(argc - 1, argv + 1);
        }
    return cli_usage("plan %s: no such command; `neap plan --help` lists them", argv[word]);
}
