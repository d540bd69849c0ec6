/* cmd_run.c - `neap run` and `neap plan run`: one method of a program, on tensors from files. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ctrl_c.h"
#include "cli/plan_misfit.h"
#include "cli/program_task.h"
#include "cli/tensor_file.h"

/* One execution, or several with the same inputs. */
typedef struct call {
    cli_values own;       /* read for it */
    const cli_values *in; /* that, or those of the call before */
    int first, last;      /* its events */
    int outputs;          /* how many -o */
    int64_t times;
} call;

typedef struct run {
    cli_program p;
    const cli_settings *settings;
    call *calls;
    int n_calls;
    int n_outputs;
    neap_value *outputs;
} run;

/* ---- the command line --------------------------------------------------------------------- */

static int parse(cli_settings *s, bool plan, int argc, char **argv)
{
    const cli_option table[] = {
        {"input", 'i', CLI_EVENTS, &s->calls, 0, 0, "FILE", "an input, in order: .npy, or a .bin "
         "list of several"},
        {"output", 'o', CLI_EVENTS, &s->calls, 0, 0, "FILE", "where an output goes, in order: .npy, "
         "or one .bin list of all (default: a line of text)"},
        {"call", 0, CLI_EVENTS, &s->calls, 0, 0, NULL, "starts the next call: its own -i (default: "
         "those before) and -o; buffers are kept"},
        {"calls", 0, CLI_INT, &s->repeat_call, 1, 1 << 30, "N", "repeats the last call"},
        {"method", 0, CLI_TEXT, &s->method, 0, 0, "NAME", "default: forward"},
        {"option", 0, CLI_EVENTS, &s->options, 0, 0, "KEY=VALUE", "a runtime option: "
         "eval_threshold_bytes, clear_cache_interval, skip_mutable_buffer_init, cache_key"},
        {"kv-cache", 0, CLI_TEXT, &s->kv_cache, 0, 0, "CAPACITY,LAYERS,KV_HEADS,HEAD_DIM[,DTYPE]",
         "makes the cache that is no part of the program"},
        {"data", 0, CLI_TEXT, &s->data, 0, 0, "FILE.ptd", "constants beside the program"},
#include "cli/planner_options.def"
#include "cli/common_options.def"
        {plan ? "json" : NULL, 0, CLI_FLAG, &s->json, 0, 0, NULL, "one JSON object on one line"},
        {"shape", 0, CLI_EVENTS, &s->shapes, 0, 0, "I=N,N...", "the shape of input I, if it has no "
         "file (default: the largest that the program takes)"},
#include "cli/plan_options.def"
        {.name = NULL},
    };
    const int status = cli_parse(table, s, argc, argv, "PROGRAM.pte [OPTION...]", &s->file);
    if (status != CLI_PARSED)
        return status;
    return s->file ? CLI_PARSED : cli_usage("PROGRAM.pte is missing");
}

/* Inputs and outputs of all calls are different files. */
static int check_files(const cli_settings *s)
{
    const cli_events *e = &s->calls;
    cli_file *files = calloc((size_t)e->count + 5, sizeof *files);
    if (!files)
        return cli_failed("out of memory");
    size_t n = 0;
    files[n++] = (cli_file){"PROGRAM", s->file, false};
    files[n++] = (cli_file){"--data", s->data, false};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < e->count; i++) {
            const bool output = *e->at[i].option == 'o';
            if (e->at[i].text && output == (pass == 1))
                files[n++] = (cli_file){output ? "-o" : "-i", e->at[i].text, output};
        }
    files[n++] = (cli_file){"--stats", s->stats, true};
    files[n++] = (cli_file){"--html", s->html, true};
    files[n++] = (cli_file){"--trace", s->trace, true};
    const int status = cli_check_files(files, n);
    free(files);
    return status;
}

/* ---- calls -------------------------------------------------------------------------------- */

/* A --call before anything else starts the first call. */
static int split_calls(run *r)
{
    const cli_events *e = &r->settings->calls;
    r->calls = calloc((size_t)e->count + 1, sizeof *r->calls);
    if (!r->calls)
        return cli_failed("out of memory");
    r->n_calls = 1;
    for (int i = 0; i < e->count; i++) {
        if (!e->at[i].text && i > 0)
            r->n_calls++;
        call *c = &r->calls[r->n_calls - 1];
        if (!e->at[i].text)
            c->first = i + 1;
        c->last = i + 1;
        c->outputs += e->at[i].text && *e->at[i].option == 'o';
    }
    for (int i = 0; i < r->n_calls; i++)
        r->calls[i].times = i + 1 < r->n_calls ? 1 : r->settings->repeat_call;
    return CLI_DONE;
}

static int read_inputs(run *r, call *c)
{
    const cli_events *e = &r->settings->calls;
    for (int i = c->first; i < c->last; i++) {
        if (*e->at[i].option != 'i')
            continue;
        const int status = cli_values_read(&c->own, r->p.ctx, e->at[i].text);
        if (status != CLI_DONE)
            return status;
    }
    cli_values_fit(&c->own, r->p.program, r->p.method);
    return CLI_DONE;
}

static int check_outputs(const run *r, const call *c)
{
    const cli_events *e = &r->settings->calls;
    if (c->outputs > r->n_outputs)
        return cli_failed("%d times -o, method %s has %d outputs", c->outputs,
                          neap_program_method_name(r->p.program, r->p.method), r->n_outputs);
    for (int i = c->first; i < c->last; i++)
        if (*e->at[i].option == 'o' && cli_is_list(e->at[i].text) && c->outputs > 1)
            return cli_usage("-o %s: a list takes all outputs, so it is the only -o of a call",
                             e->at[i].text);
    return CLI_DONE;
}

/* ---- shapes of inputs without a file -------------------------------------------------------- */

static const char *shape_of(const cli_settings *s, int input)
{
    for (int i = s->shapes.count - 1; i >= 0; i--) {
        char *end;
        if (strtol(s->shapes.at[i].text, &end, 10) == input && *end == '=')
            return end + 1;
    }
    return NULL;
}

static bool read_shape(const char *text, neap_value *out)
{
    out->rank = 0;
    while (*text) {
        char *end;
        if (out->rank == NEAP_MAX_RANK || *text < '0' || *text > '9')
            return false;
        errno = 0;
        out->shape[out->rank++] = strtoll(text, &end, 10);
        if (errno || (*end && (*end != ',' || !end[1])))
            return false;
        text = *end ? end + 1 : end;
    }
    return true;
}

static int check_shapes(const cli_settings *s)
{
    for (int i = 0; i < s->shapes.count; i++) {
        const char *text = s->shapes.at[i].text, *equals = strchr(text, '=');
        neap_value value;
        if (!equals || equals == text ||
            strspn(text, "0123456789") != (size_t)(equals - text) ||
            !read_shape(equals + 1, &value))
            return cli_usage("--shape %s: expected INPUT=N,N... with whole numbers, at most %d",
                             text, NEAP_MAX_RANK);
    }
    return CLI_PARSED;
}

/* For a plan: what has no file has a shape at least. */
static int add_missing(run *r, call *c)
{
    const int inputs = neap_program_inputs(r->p.program, r->p.method);
    for (int i = 0; i < r->settings->shapes.count; i++)
        if (strtol(r->settings->shapes.at[i].text, NULL, 10) >= inputs)
            return cli_usage("--shape %s: the method has %d inputs, counted from 0",
                             r->settings->shapes.at[i].text, inputs);
    for (int i = c->own.count; i < inputs; i++) {
        neap_value value;
        if (neap_program_input(r->p.program, r->p.method, i, &value) != NEAP_OK)
            return cli_context_failed(r->p.ctx);
        const char *shape = shape_of(r->settings, i);
        if (shape)
            read_shape(shape, &value);
        value.data = NULL;
        value.bytes = 0;
        const int status = cli_values_add(&c->own, &value);
        if (status != CLI_DONE)
            return status;
    }
    return CLI_DONE;
}

static int prepare_calls(run *r, bool plan)
{
    int status = split_calls(r);
    for (int i = 0; status == CLI_DONE && i < r->n_calls; i++) {
        call *c = &r->calls[i];
        status = check_outputs(r, c);
        if (status == CLI_DONE)
            status = read_inputs(r, c);
        c->in = c->own.count || i == 0 ? &c->own : r->calls[i - 1].in;
        if (status == CLI_DONE && plan && c->in == &c->own)
            status = add_missing(r, c);
    }
    return status;
}

/* ---- the work ------------------------------------------------------------------------------- */

static neap_status plan_call(void *user, int i, neap_execution_plan *plan, cli_alive *alive)
{
    run *r = user;
    const cli_values *in = r->calls[i].in;
    return neap_handle_plan(r->p.handle, in->count, in->at, plan, cli_alive_add, alive);
}

static int write_outputs(run *r, const call *c)
{
    const cli_events *e = &r->settings->calls;
    int written = 0, status = CLI_DONE;
    for (int i = c->first; status == CLI_DONE && i < c->last; i++) {
        if (*e->at[i].option != 'o')
            continue;
        if (cli_is_list(e->at[i].text)) {
            status = cli_write_list(e->at[i].text, r->n_outputs, r->outputs);
            written = r->n_outputs;
        } else {
            status = cli_write_npy(r->p.ctx, e->at[i].text, &r->outputs[written++]);
        }
    }
    for (int i = written; status == CLI_DONE && i < r->n_outputs; i++)
        cli_print_value(i, &r->outputs[i]);
    return status == CLI_DONE ? cli_flush_output() : status;
}

static int execute_call(run *r, const call *c)
{
    for (int64_t n = 0; n < c->times; n++) {
        memset(r->outputs, 0, (size_t)r->n_outputs * sizeof *r->outputs);
        if (neap_handle_execute(r->p.handle, c->in->count, c->in->at, r->n_outputs, r->outputs) !=
            NEAP_OK)
            return cli_context_failed(neap_handle_context(r->p.handle));
    }
    return write_outputs(r, c);
}

static int execute(run *r)
{
    int status = CLI_DONE;
    r->outputs = calloc((size_t)r->n_outputs + 1, sizeof *r->outputs);
    if (!r->outputs)
        return cli_failed("out of memory");
    if (!r->settings->quiet)
        fprintf(stderr, "neap: planned peak %s (%" PRIu64 " bytes), %" PRId64 " steps, %d threads\n",
                cli_mib(r->p.plan.planned_peak_bytes).text, r->p.plan.planned_peak_bytes,
                r->p.plan.steps, r->p.plan.threads);
    for (int i = 0; status == CLI_DONE && i < r->n_calls; i++)
        status = execute_call(r, &r->calls[i]);
    return status;
}

static neap_status show_call(void *user, int i, neap_plan_visit *visit, void *visitor)
{
    run *r = user;
    const cli_values *in = r->calls[i].in;
    return neap_handle_visit_plans(r->p.handle, in->count, in->at, visit, visitor);
}

static int report(run *r)
{
    const char *method = neap_program_method_name(r->p.program, r->p.method);
    json_t *more = json_object();
    json_object_set_new(more, "method", cli_json_text(method, strlen(method)));
    json_object_set_new(more, "calls", json_integer(r->n_calls));
    json_object_set_new(more, "evaluations", json_integer(r->p.evaluations));
    if (!r->settings->json && !r->settings->misfit) {
        fputs("method ", stdout);
        cli_print_clean(stdout, method, strlen(method));
        printf(": %d call%s, %" PRId64 " evaluation%s, %d threads\n\n", r->n_calls,
               r->n_calls == 1 ? "" : "s", r->p.evaluations, r->p.evaluations == 1 ? "" : "s",
               r->p.plan.threads);
    }
    return cli_program_tell(&r->p, "run", show_call, r, more);
}

static int go(run *r, cli_plan_data *picture)
{
    const bool plan = picture != NULL;
    int status = cli_program_open(&r->p, r->settings, r->settings->file, picture);
    if (status == CLI_DONE && !plan)
        cli_watch_interrupt(r->p.ctx);
    if (status == CLI_DONE)
        status = cli_program_choose(&r->p);
    if (status == CLI_DONE) {
        r->n_outputs = neap_program_outputs(r->p.program, r->p.method);
        status = prepare_calls(r, plan);
    }
    if (status == CLI_DONE)
        status = cli_program_load(&r->p);
    if (status == CLI_DONE)
        status = cli_program_plan(&r->p, r->n_calls, plan_call, r);
    if (status == CLI_DONE)
        status = plan ? cli_program_least(&r->p, r->n_calls, plan_call, r) : CLI_DONE;
    if (status == CLI_DONE)
        status = cli_program_limit(&r->p, r->n_calls, plan_call, r);
    if (status == CLI_DONE)
        status = plan ? report(r) : execute(r);
    status = cli_program_finish(&r->p, status);
    for (int i = 0; i < r->n_calls; i++)
        cli_values_free(&r->calls[i].own);
    free(r->calls);
    free(r->outputs);
    return status;
}

static int whole(const cli_settings *settings, cli_plan_data *picture)
{
    run r = {.settings = settings};
    return go(&r, picture);
}

int cli_run(bool plan, int argc, char **argv)
{
    cli_settings settings = CLI_SETTINGS_INIT;
    cli_plan_data picture = CLI_PLAN_DATA_INIT;
    int status = parse(&settings, plan, argc, argv);
    if (status == CLI_PARSED)
        status = check_shapes(&settings);
    if (status == CLI_PARSED && (status = check_files(&settings)) == CLI_DONE) {
        if (plan)
            status = cli_plan_prepare(&picture, &settings);
        if (status == CLI_DONE)
            status = plan ? cli_plan_or_misfit(&settings, "run", whole, &picture)
                          : whole(&settings, NULL);
    }
    cli_plan_data_free(&picture);
    cli_settings_free(&settings);
    return status;
}

int cmd_run(int argc, char **argv)
{
    return cli_run(false, argc, argv);
}
