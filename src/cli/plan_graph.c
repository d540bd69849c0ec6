/* plan_graph.c - see plan_graph.h. The file: {"nodes": [{"id", "bytes", "input", "output",
 * "deps"}]} in program order, ids are positions; or {"problems": [{"name", "blocks": [[first step,
 * one past the last step, bytes]]}]}. What else an object has is passed over. */
#include "cli/plan_graph.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan_graph_view.h"
#include "cli/plan_report.h"
#include "cli/progress_bar.h"

typedef struct graph_task {
    const char *path;
    const cli_settings *settings;
    neap_context *ctx;
    neap_bare_graph graph;
    uint64_t *bytes, *offsets;
    uint8_t *flags;
    uint32_t *dep_first, *deps, *order;
    neap_bare_plan plan;
} graph_task;

/* ---- reading a graph ---------------------------------------------------------------------- */

/* A non-negative whole number under `end`. */
static bool number(const json_t *value, uint64_t end, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) >= end)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* The value as the message shows it. */
typedef struct shown {
    char text[48];
} shown;

static shown show(const json_t *value)
{
    shown s = {"missing"};
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    int n = 40;
    while (text && strlen(text) > (size_t)n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--; /* whole characters */
    if (text)
        snprintf(s.text, sizeof s.text, "%.*s", n, text);
    free(text);
    return s;
}

static int wrong(const graph_task *t, size_t node, const char *key, const json_t *value,
                 const char *wanted)
{
    return cli_failed("%s: node %zu: \"%s\" is %s, not %s", t->path, node, key, show(value).text,
                      wanted);
}

static int read_node(graph_task *t, size_t i, const json_t *node, size_t *n_deps)
{
    uint64_t number_read;
    const json_t *id = json_object_get(node, "id"), *bytes = json_object_get(node, "bytes");
    const json_t *input = json_object_get(node, "input"), *output = json_object_get(node, "output");
    const json_t *deps = json_object_get(node, "deps");
    if (!json_is_object(node))
        return cli_failed("%s: node %zu is %s, not an object", t->path, i, show(node).text);
    if (!number(id, UINT32_MAX, &number_read) || number_read != i)
        return wrong(t, i, "id", id, "its position");
    if (!number(bytes, INT64_MAX, &t->bytes[i]))
        return wrong(t, i, "bytes", bytes, "a number of bytes");
    if (!json_is_boolean(input))
        return wrong(t, i, "input", input, "true or false");
    if (!json_is_boolean(output))
        return wrong(t, i, "output", output, "true or false");
    if (!json_is_array(deps))
        return wrong(t, i, "deps", deps, "a list of ids");
    t->flags[i] = (uint8_t)((json_is_true(input) ? NEAP_BARE_INPUT : 0) |
                            (json_is_true(output) ? NEAP_BARE_OUTPUT : 0));
    for (size_t j = 0; j < json_array_size(deps); j++) {
        const json_t *dep = json_array_get(deps, j);
        if (!number(dep, i, &number_read)) /* of itself or a later one: no program order */
            return cli_failed("%s: node %zu: depends on %s, not on the id of an earlier node",
                              t->path, i, show(dep).text);
        t->deps[(*n_deps)++] = (uint32_t)number_read;
    }
    t->dep_first[i + 1] = (uint32_t)*n_deps;
    return CLI_DONE;
}

static int read_graph(graph_task *t, const json_t *nodes)
{
    const size_t n = json_array_size(nodes);
    size_t edges = 0, n_deps = 0;
    if (!json_is_array(nodes))
        return cli_failed("%s: \"nodes\" is %s, not a list", t->path, show(nodes).text);
    for (size_t i = 0; i < n; i++)
        edges += json_array_size(json_object_get(json_array_get(nodes, i), "deps"));
    if (n >= UINT32_MAX || edges >= UINT32_MAX)
        return cli_failed("%s: %zu nodes and %zu dependencies are too many", t->path, n, edges);
    t->bytes = calloc(n + 1, sizeof *t->bytes);
    t->offsets = calloc(n + 1, sizeof *t->offsets);
    t->flags = calloc(n + 1, sizeof *t->flags);
    t->dep_first = calloc(n + 1, sizeof *t->dep_first);
    t->deps = calloc(edges + 1, sizeof *t->deps);
    t->order = calloc(n + 1, sizeof *t->order);
    if (!t->bytes || !t->offsets || !t->flags || !t->dep_first || !t->deps || !t->order)
        return cli_failed("out of memory");
    for (size_t i = 0; i < n; i++) {
        const int status = read_node(t, i, json_array_get(nodes, i), &n_deps);
        if (status != CLI_DONE)
            return status;
    }
    t->graph.n = (uint32_t)n;
    t->graph.bytes = t->bytes;
    t->graph.flags = t->flags;
    t->graph.dep_first = t->dep_first;
    t->graph.dep = t->deps;
    return CLI_DONE;
}

/* ---- telling its plan ---------------------------------------------------------------------- */

static void add_alive(const graph_task *t, json_t *list, uint32_t node)
{
    char name[32];
    snprintf(name, sizeof name, "node %" PRIu32, node);
    json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:[], s:s}", "name", name, "bytes",
                                          (json_int_t)t->bytes[node], "op",
                                          cli_plan_graph_op(t->flags[node]), "shape", "dtype", ""));
}

/* Is the value alive while the node at the peak runs, in a place of its own? */
static bool holds_bytes(const graph_task *t, uint32_t value, uint32_t at_peak, bool made,
                        uint32_t last)
{
    const bool output = t->flags[value] & NEAP_BARE_OUTPUT;
    if (!made || !t->bytes[value] || (!output && last < t->plan.peak_step))
        return false;
    const bool taken = t->graph.in_place && value != at_peak && !output &&
                       last == t->plan.peak_step && t->offsets[value] == t->offsets[at_peak] &&
                       t->bytes[value] == t->bytes[at_peak];
    return !taken;
}

static json_t *alive_at_peak(const graph_task *t)
{
    const uint32_t n = t->graph.n, inputs = n - t->plan.steps;
    json_t *list = json_array();
    uint32_t *first = calloc((size_t)n + 1, sizeof *first);
    uint32_t *last = calloc((size_t)n + 1, sizeof *last);
    if (!list || !first || !last || !t->plan.steps) {
        free(first);
        free(last);
        return list;
    }
    const uint32_t at_peak = t->order[inputs + t->plan.peak_step];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t node = t->order[i], step = i < inputs ? 0 : i - inputs;
        first[node] = last[node] = step;
        for (uint32_t j = t->dep_first[node]; j < t->dep_first[node + 1]; j++)
            last[t->deps[j]] = step + 1; /* so that 0 is an input that is never used */
    }
    for (uint32_t i = 0; i < n; i++) {
        const bool input = t->flags[i] & NEAP_BARE_INPUT;
        const bool made = input ? last[i] || t->flags[i] & NEAP_BARE_OUTPUT
                                : first[i] <= t->plan.peak_step;
        const bool used = last[i] > first[i] || input;
        if (holds_bytes(t, i, at_peak, made, used && last[i] ? last[i] - 1 : first[i]))
            add_alive(t, list, i);
    }
    free(first);
    free(last);
    return list;
}

static json_t *numbers_json(const graph_task *t, bool offsets)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->graph.n; i++)
        json_array_append_new(
            list, json_integer(offsets ? (json_int_t)t->offsets[i] : (json_int_t)t->order[i]));
    return list;
}

static json_t *plan_json(const graph_task *t)
{
    const neap_bare_plan *p = &t->plan;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:f, s:o, s:o, s:o}",
                     "planned_peak_bytes", (json_int_t)p->peak_bytes,             /* */
                     "program_order_peak_bytes", (json_int_t)p->program_order_bytes, /* */
                     "arena_bytes", (json_int_t)p->arena_bytes,                   /* */
                     "largest_live_bytes", (json_int_t)p->peak_bytes,             /* */
                     "nodes", (json_int_t)t->graph.n,                             /* */
                     "steps", (json_int_t)p->steps,                               /* */
                     "peak_step", (json_int_t)p->peak_step,                       /* */
                     "exact", p->exact,                                           /* */
                     "in_place", t->graph.in_place,                               /* */
                     "plan_seconds", p->seconds,                                  /* */
                     "alive_at_peak", alive_at_peak(t),                           /* */
                     "order", numbers_json(t, false),                             /* */
                     "offsets", numbers_json(t, true));
}

static void print_bytes(const char *what, uint64_t bytes, const char *note)
{
    printf("%-15s %12s  %12" PRIu64 " bytes%s\n", what, cli_mib(bytes).text, bytes, note);
}

/* Also the page and the trace; `full`: with all that they are made of. */
static int draw(const graph_task *t, const cli_plan_data *data, json_t *object, json_t **full)
{
    const cli_settings *s = t->settings;
    cli_alive alive = {.list = json_incref(json_object_get(object, "alive_at_peak"))};
    const cli_plan_report r = {
        .settings = s,
        .command = "--graph",
        .title = cli_plan_title(t->path),
        .facts = {.by_category = {[NEAP_MEM_ACTIVATIONS] = t->plan.peak_bytes}},
        .alive = &alive,
        .data = data};
    *full = cli_plan_json(&r, true);
    cli_alive_clear(&alive);
    if (!*full || json_object_update(*full, object) != 0)
        return cli_failed("out of memory");
    return cli_plan_files(&r, *full);
}

static int tell_json(const graph_task *t)
{
    const cli_settings *s = t->settings;
    cli_plan_data data = CLI_PLAN_DATA_INIT;
    json_t *object = plan_json(t), *full = NULL;
    int status = CLI_DONE;
    if (s->html || s->trace || s->verbose)
        status = object && cli_plan_graph_view(&data, &t->graph, t->order, t->offsets, &t->plan)
                     ? draw(t, &data, object, &full)
                     : cli_failed("out of memory");
    if (status == CLI_DONE && s->json)
        status = cli_json_print(stdout, "standard output",
                                json_incref(s->verbose && full ? full : object));
    json_decref(full);
    json_decref(object);
    cli_plan_data_free(&data);
    return status;
}

static int tell_plan(const graph_task *t)
{
    const neap_bare_plan *p = &t->plan;
    const int status = tell_json(t);
    if (status != CLI_DONE || t->settings->json)
        return status;
    printf("%" PRIu32 " nodes, %" PRIu32 " of them inputs; planned in %.1f ms\n\n", t->graph.n,
           t->graph.n - p->steps, 1e3 * p->seconds);
    print_bytes("planned peak", p->peak_bytes, p->exact ? "  no order has less" : "");
    print_bytes("program order", p->program_order_bytes, "");
    print_bytes("arena", p->arena_bytes, "  with every value placed");
    json_t *alive = alive_at_peak(t), *value;
    if (p->steps)
        printf("\nStep %" PRIu32 " of %" PRIu32 " holds the most; alive there:\n", p->peak_step,
               p->steps);
    size_t i, most = 20;
    json_array_foreach(alive, i, value) {
        const json_int_t bytes = json_integer_value(json_object_get(value, "bytes"));
        if (i < most)
            printf("  %10s  %s\n", cli_mib((uint64_t)bytes).text,
                   json_string_value(json_object_get(value, "name")));
    }
    if (json_array_size(alive) > most)
        printf("  and %zu more\n", json_array_size(alive) - most);
    json_decref(alive);
    return cli_flush_output();
}

/* ---- problems of placement ------------------------------------------------------------------ */

typedef struct lifetimes {
    uint32_t *first, *end;
    uint64_t *bytes, *offsets;
} lifetimes;

static int read_blocks(const graph_task *t, size_t problem, const json_t *blocks, lifetimes *l)
{
    const size_t n = json_array_size(blocks);
    if (!json_is_array(blocks))
        return cli_failed("%s: problem %zu: \"blocks\" is %s, not a list", t->path, problem,
                          show(blocks).text);
    if (n >= UINT32_MAX)
        return cli_failed("%s: problem %zu: %zu blocks are too many", t->path, problem, n);
    l->first = calloc(n + 1, sizeof *l->first);
    l->end = calloc(n + 1, sizeof *l->end);
    l->bytes = calloc(n + 1, sizeof *l->bytes);
    l->offsets = calloc(n + 1, sizeof *l->offsets);
    if (!l->first || !l->end || !l->bytes || !l->offsets)
        return cli_failed("out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *block = json_array_get(blocks, i);
        uint64_t first = 0, end = 0;
        if (json_array_size(block) != 3 ||
            !number(json_array_get(block, 0), UINT32_MAX, &first) ||
            !number(json_array_get(block, 1), UINT32_MAX, &end) ||
            !number(json_array_get(block, 2), INT64_MAX, &l->bytes[i]))
            return cli_failed("%s: problem %zu: block %zu is %s, not [first step, one past the last "
                              "step, bytes]",
                              t->path, problem, i, show(block).text);
        l->first[i] = (uint32_t)first;
        l->end[i] = (uint32_t)end;
    }
    return CLI_DONE;
}

static json_t *problem_json(const json_t *problem, const lifetimes *l, size_t n, uint64_t arena,
                            double seconds)
{
    json_t *offsets = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(offsets, json_integer((json_int_t)l->offsets[i]));
    json_t *object = json_pack("{s:I, s:f, s:o}", "arena_bytes", (json_int_t)arena, "plan_seconds",
                               seconds, "offsets", offsets);
    json_t *name = json_object_get(problem, "name");
    if (json_is_string(name))
        json_object_set(object, "name", name);
    return object;
}

static int place_problem(const graph_task *t, size_t i, const json_t *problem, json_t *told)
{
    const json_t *blocks = json_object_get(problem, "blocks");
    const size_t n = json_array_size(blocks);
    lifetimes l = {0};
    uint64_t arena = 0;
    int status = read_blocks(t, i, blocks, &l);
    const double start = cli_seconds();
    if (status == CLI_DONE && neap_place_blocks(t->ctx, (uint32_t)n, l.first, l.end, l.bytes,
                                                l.offsets, &arena) != NEAP_OK)
        status = cli_failed("%s: problem %zu: %s", t->path, i, neap_context_error(t->ctx));
    if (status == CLI_DONE) {
        json_array_append_new(told, problem_json(problem, &l, n, arena, cli_seconds() - start));
        if (!t->settings->json) {
            const char *name = json_string_value(json_object_get(problem, "name"));
            cli_print_clean(stdout, name ? name : "", name ? strlen(name) : 0);
            printf("%s%zu blocks, arena %" PRIu64 " bytes\n", name ? ": " : "", n, arena);
        }
    }
    free(l.first);
    free(l.end);
    free(l.bytes);
    free(l.offsets);
    return status;
}

static int place_problems(const graph_task *t, const json_t *problems)
{
    if (!json_is_array(problems))
        return cli_failed("%s: \"problems\" is %s, not a list", t->path, show(problems).text);
    json_t *told = json_array();
    int status = CLI_DONE;
    for (size_t i = 0; i < json_array_size(problems) && status == CLI_DONE; i++)
        status = place_problem(t, i, json_array_get(problems, i), told);
    if (status != CLI_DONE)
        json_decref(told);
    else if (t->settings->json)
        status = cli_json_print(stdout, "standard output", json_pack("{s:o}", "problems", told));
    else {
        json_decref(told);
        status = cli_flush_output();
    }
    return status;
}

/* ---- the command -------------------------------------------------------------------------- */

static int plan_file(graph_task *t)
{
    json_error_t error;
    FILE *file = fopen(t->path, "rb");
    if (!file)
        return cli_failed("%s: %s", t->path, strerror(errno));
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (!root)
        return cli_failed("%s: line %d: %s", t->path, error.line, error.text);
    const json_t *nodes = json_object_get(root, "nodes");
    const json_t *problems = json_object_get(root, "problems");
    int status;
    if (problems && !nodes) {
        const char *unknown = t->graph.in_place    ? "--in-place"
                              : t->settings->html  ? "--html"
                              : t->settings->trace ? "--trace"
                                                   : NULL;
        status = unknown ? cli_usage("%s: problems of placement know no %s", t->path, unknown)
                         : place_problems(t, problems);
    } else if (!nodes) {
        status = cli_failed("%s: no \"nodes\" (and no \"problems\"): not a graph", t->path);
    } else {
        status = read_graph(t, nodes);
        if (status == CLI_DONE &&
            neap_plan_bare(t->ctx, &t->graph, t->order, t->offsets, &t->plan) != NEAP_OK)
            status = cli_failed("%s: %s", t->path, neap_context_error(t->ctx));
        if (status == CLI_DONE)
            status = tell_plan(t);
    }
    json_decref(root);
    return status;
}

int cli_plan_graph(int argc, char **argv)
{
    cli_settings settings = CLI_SETTINGS_INIT, *s = &settings;
    const bool plan = true;
    cli_plan_data checked = CLI_PLAN_DATA_INIT;
    graph_task t = {.settings = s, .graph = NEAP_BARE_GRAPH_INIT, .plan = NEAP_BARE_PLAN_INIT};
    const cli_option table[] = {
        {"graph", 0, CLI_TEXT, &s->file, 0, 0, "FILE.json", "the graph, or problems of placement"},
        {"in-place", 0, CLI_FLAG, &t.graph.in_place, 0, 0, NULL,
         "a node may write over a value of equal size that dies there"},
        {"json", 0, CLI_FLAG, &s->json, 0, 0, NULL, "one JSON object"},
        {"help", 'h', CLI_FLAG, &s->help, 0, 0, NULL, "this list"},
#include "cli/plan_options.def"
        {.name = NULL},
    };
    int status = cli_parse(table, s, argc, argv, "[OPTION...]", NULL);
    t.path = s->file;
    if (status == CLI_PARSED && (status = cli_plan_prepare(&checked, s)) == CLI_DONE)
        status = cli_context_new(1, &t.ctx);
    if (t.ctx)
        cli_progress_begin(t.ctx, false);
    if (t.ctx)
        status = status == CLI_DONE ? plan_file(&t) : status;
    cli_plan_data_free(&checked);
    neap_context_free(t.ctx);
    free(t.bytes);
    free(t.offsets);
    free(t.flags);
    free(t.dep_first);
    free(t.deps);
    free(t.order);
    cli_settings_free(&settings);
    return status;
}
