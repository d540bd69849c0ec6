/* cmd_plan.c - `neap plan COMMAND …`: what the command would need; runs nothing. It takes the way
 * of the command itself up to the plan, so what it tells is what the command will do. */
#include <inttypes.h>
#include <string.h>

#include "cli/task.h"

/* ---- what is alive at the peak ------------------------------------------------------------ */

static json_t *shape_json(const neap_plan_alive *alive)
{
    json_t *shape = json_array();
    for (int i = 0; i < alive->rank; i++)
        json_array_append_new(shape, json_integer(alive->shape[i]));
    return shape;
}

static bool add_alive(void *user, const neap_plan_alive *alive)
{
    const char *name = alive->name ? alive->name : "", *op = alive->op ? alive->op : "";
    const char *dtype = neap_dtype_describe(alive->dtype)->name;
    json_t *object = json_object();
    json_object_set_new(object, "name", cli_json_text(name, strlen(name)));
    json_object_set_new(object, "bytes", json_integer((json_int_t)alive->bytes));
    json_object_set_new(object, "op", json_string(op));
    json_object_set_new(object, "shape", shape_json(alive));
    json_object_set_new(object, "dtype", json_string(dtype ? dtype : ""));
    return json_array_append_new(user, object) == 0;
}

/* For a reader, values of the same op and size are one line: the 60 caches of 30 layers. */
typedef struct alive_group {
    char name[64];
    neap_plan_alive first;
    int64_t count;
} alive_group;

enum { MAX_GROUPS = 64 };

typedef struct alive_groups {
    alive_group group[MAX_GROUPS];
    int count;
} alive_groups;

static uint64_t group_bytes(const alive_group *g)
{
    return (uint64_t)g->count * g->first.bytes;
}

static bool add_to_group(void *user, const neap_plan_alive *alive)
{
    alive_groups *all = user;
    const char *op = alive->op ? alive->op : "";
    int i = 0;
    while (i < all->count &&
           (all->group[i].first.bytes != alive->bytes || strcmp(all->group[i].first.op, op) != 0))
        i++;
    if (i == MAX_GROUPS)
        return false;
    alive_group *g = &all->group[i];
    if (i == all->count) {
        *g = (alive_group){.first = *alive};
        g->first.op = op;
        snprintf(g->name, sizeof g->name, "%s", alive->name ? alive->name : "");
        all->count++;
    }
    g->count++;
    return true;
}

static void print_group(const alive_group *g)
{
    const char *dtype = neap_dtype_describe(g->first.dtype)->name;
    printf("  %10s  ", cli_mib(group_bytes(g)).text);
    if (g->count > 1)
        printf("%" PRId64 " x %s: ", g->count, g->first.op);
    cli_print_clean(stdout, g->name, strlen(g->name));
    if (g->count == 1 && strcmp(g->name, g->first.op) != 0)
        printf(" (%s)", g->first.op);
    if (g->first.rank > 0)
        printf("  %s[", dtype ? dtype : "");
    for (int i = 0; i < g->first.rank; i++)
        printf("%s%" PRId64, i ? ", " : "", g->first.shape[i]);
    puts(g->first.rank > 0 ? "]" : "");
}

/* Largest first. */
static void print_alive(const neap_session *session)
{
    alive_groups all = {.count = 0};
    neap_session_at_peak(session, add_to_group, &all);
    for (int n = 0; n < all.count; n++) {
        int largest = n;
        for (int i = n + 1; i < all.count; i++)
            if (group_bytes(&all.group[i]) > group_bytes(&all.group[largest]))
                largest = i;
        const alive_group g = all.group[largest];
        memmove(&all.group[n + 1], &all.group[n], (size_t)(largest - n) * sizeof g);
        all.group[n] = g;
        print_group(&g);
    }
}

/* ---- reports ------------------------------------------------------------------------------ */

static json_t *plan_json(const cli_task *t)
{
    const neap_session_info *i = &t->plan;
    neap_eval_stats eval = NEAP_EVAL_STATS_INIT;
    neap_context_eval_stats(t->ctx, &eval);
    json_t *alive = json_array(), *object = json_object();
    neap_session_at_peak(t->session, add_alive, alive);
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"planned_peak_bytes", (int64_t)i->planned_peak_bytes},
        {"least_bytes", (int64_t)i->least_bytes},
        {"mapped_bytes", (int64_t)i->mapped_bytes},
        {"memory_limit", (int64_t)t->settings->memory},
        {"peak_step", i->peak_plan.peak_step},
        {"arena_bytes", (int64_t)i->peak_plan.arena_bytes},
        {"largest_live_bytes", (int64_t)i->peak_plan.largest_live_bytes},
        {"kv_bytes", (int64_t)i->kv_bytes},
        {"steps", i->peak_plan.steps},
        {"recomputed_steps", 0}, /* no such steps are planned yet */
        {"row_streamed_steps", 0},
        {"fused_groups", 0},
        {"prompt_tokens", (int64_t)t->ids.count},
        {"context", i->context},
        {"chunk", i->chunk},
        {"threads", neap_context_threads(t->ctx)},
    };
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
        json_object_set_new(object, numbers[n].key, json_integer(numbers[n].value));
    json_object_set_new(object, "peak_by_category", cli_categories_json(i->planned_by_category));
    json_object_set_new(object, "alive_at_peak", alive);
    json_object_set_new(object, "repacked", json_boolean(i->repacked));
    json_object_set_new(object, "plan_seconds", json_real(eval.plan_seconds));
    return object;
}

static void print_bytes(const char *what, uint64_t bytes, const char *note)
{
    printf("%-15s %12s  %12" PRIu64 " bytes%s\n", what, cli_mib(bytes).text, bytes, note);
}

static void print_plan(const cli_task *t)
{
    const neap_session_info *i = &t->plan;
    cli_print_clean(stdout, t->info.name, strlen(t->info.name));
    printf("%s%zu prompt tokens, context %" PRId64 ", KV cache %s, steps of %" PRId64
           " tokens, weights %s, %d threads\n\n",
           *t->info.name ? ": " : "", t->ids.count, i->context,
           t->settings->kv_type ? "f32" : "f16", i->chunk, i->repacked ? "repacked" : "mapped",
           neap_context_threads(t->ctx));
    print_bytes("planned peak", i->planned_peak_bytes, "");
    for (int c = 0; c < NEAP_MEM_CATEGORIES; c++)
        if (i->planned_by_category[c]) {
            char name[32];
            snprintf(name, sizeof name, "  %s", neap_memory_category_name((neap_memory_category)c));
            print_bytes(name, i->planned_by_category[c], "");
        }
    print_bytes("least budget", i->least_bytes, "  the smallest --memory");
    print_bytes("mapped", i->mapped_bytes, "  of the file; not counted, the system can drop it");
    if (t->settings->memory)
        print_bytes("limit", t->settings->memory, "  --memory");
    printf("\nStep %" PRId64 " of %" PRId64 " holds the most; alive there:\n",
           i->peak_plan.peak_step, i->peak_plan.steps);
    print_alive(t->session);
}

static int report(cli_task *t)
{
    if (t->settings->json)
        return cli_json_print(stdout, "standard output", plan_json(t));
    print_plan(t);
    return cli_flush_output();
}

/* ---- commands that can be planned --------------------------------------------------------- */

static int plan_generate(int argc, char **argv)
{
    return cli_generate(true, report, argc, argv);
}

static const struct {
    const char *name;
    int (*plan)(int argc, char **argv);
} commands[] = {
    {"generate", plan_generate}
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int print_help(FILE *file)
{
    fputs("Usage: neap plan COMMAND [OPTION...]\n"
          "Tells what the command would need: the peak, the least budget, what holds the peak.\n"
          "Takes the options of the command, and --json. Nothing is run; files that the command "
          "would\n"
          "write are not written, but for --stats.\n\nCommands:",
          file);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(file, " %s", commands[i].name);
    fputs("\n", file);
    return file == stdout ? cli_flush_output() : CLI_USAGE;
}

int cmd_plan(int argc, char **argv)
{
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
