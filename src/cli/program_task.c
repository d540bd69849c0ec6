/* program_task.c - see program_task.h. */
#include "cli/program_task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <neap/array.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/ctrl_c.h"
#include "cli/planner.h"
#include "cli/progress_bar.h"

static const char own_key[] = "neap"; /* of the cache that --kv-cache makes */

bool cli_is_program(const char *path)
{
    char head[8];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t n = pread(file, head, sizeof head, 0);
    close(file);
    return n == (ssize_t)sizeof head && !memcmp(head + 4, "ET12", 4);
}

/* ---- open --------------------------------------------------------------------------------- */

int cli_program_open(cli_program *p, const cli_settings *settings, const char *path,
                     cli_plan_data *picture)
{
    *p = (cli_program){.settings = settings, .path = path, .picture = picture};
    cli_stats_begin(&p->stats);
    if (settings->stats && cli_check_writable("--stats", settings->stats) != CLI_DONE)
        return CLI_FAILED;
    if (cli_context_new(1, &p->ctx) != CLI_DONE)
        return CLI_FAILED;
    cli_progress_begin(p->ctx, settings->quiet);
    const int planned = cli_planner_use(settings, NULL, p->ctx);
    if (planned != CLI_DONE)
        return planned;
    p->scope = neap_scope_push(p->ctx) == NEAP_OK;
    if (!p->scope)
        return cli_context_failed(p->ctx);
    if (neap_program_open(p->ctx, path, &p->program) != NEAP_OK) {
        p->program = NULL;
        return cli_context_failed(p->ctx);
    }
    if (settings->data && neap_program_attach(p->program, settings->data) != NEAP_OK)
        return cli_context_failed(p->ctx);
    return CLI_DONE;
}

int cli_program_choose(cli_program *p)
{
    const char *name = p->settings->method ? p->settings->method : "forward";
    p->method = neap_program_find_method(p->program, name);
    return p->method < 0 ? cli_context_failed(p->ctx) : CLI_DONE;
}

/* ---- the cache outside the graph ------------------------------------------------------------ */

static bool take_number(const char **text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(*text, &end, 10);
    const bool good = **text >= '0' && **text <= '9' && errno == 0 && (*end == ',' || !*end);
    *text = *end ? end + 1 : end;
    return good;
}

/* By its name, or by ExecuTorch's number. */
static bool take_dtype(const char *text, neap_dtype *out)
{
    static const struct {
        const char *name, *number;
        neap_dtype dtype;
    } rows[] = {{"f32", "6", NEAP_F32}, {"f16", "5", NEAP_F16}, {"bf16", "15", NEAP_BF16}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(text, rows[i].name) || !strcmp(text, rows[i].number)) {
            *out = rows[i].dtype;
            return true;
        }
    return false;
}

static int install_cache(cli_program *p, const char *text, const char *key)
{
    neap_sequence_cache_options o = NEAP_SEQUENCE_CACHE_OPTIONS_INIT;
    int64_t *const numbers[] = {&o.capacity, &o.layers, &o.kv_heads, &o.head_dim};
    const char *at = text;
    bool good = true;
    for (int i = 0; good && i < 4; i++)
        good = take_number(&at, numbers[i]);
    if (!good || (*at && !take_dtype(at, &o.dtype)))
        return cli_usage("--kv-cache %s: expected CAPACITY,LAYERS,KV_HEADS,HEAD_DIM[,DTYPE], whole "
                         "numbers and f32, f16 or bf16",
                         text);
    if (neap_program_install_cache(p->program, key, &o) != NEAP_OK)
        return cli_context_failed(p->ctx);
    return CLI_DONE;
}

/* ---- options of the handle ------------------------------------------------------------------ */

static bool read_whole(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-');
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *digits >= '0' && *digits <= '9' && *end == '\0' && errno == 0;
}

/* A value that is not of the option's kind stays a text: the library says what it expected. */
static void read_option(char *key, char *text, neap_option *out)
{
    *out = (neap_option){.key = key, .kind = NEAP_OPTION_STRING, .text = text};
    neap_option_kind kind;
    int64_t number;
    if (!neap_option_kind_of(key, &kind))
        return;
    if (kind == NEAP_OPTION_INT && read_whole(text, &number))
        *out = (neap_option){.key = key, .kind = kind, .integer = number};
    else if (kind == NEAP_OPTION_BOOL && (!strcmp(text, "true") || !strcmp(text, "false")))
        *out = (neap_option){.key = key, .kind = kind, .integer = *text == 't'};
}

/* Splits the texts in place. */
static int read_options(const cli_settings *s, neap_option *out, const char **cache_key)
{
    for (int i = 0; i < s->options.count; i++) {
        char *key = s->options.at[i].text, *equals = strchr(key, '=');
        if (!equals || equals == key)
            return cli_usage("--option %s: expected KEY=VALUE", key);
        *equals = '\0';
        read_option(key, equals + 1, &out[i]);
        if (!strcmp(key, "cache_key"))
            *cache_key = equals + 1;
    }
    return CLI_DONE;
}

static int open_handle(cli_program *p, neap_option *options)
{
    const cli_settings *s = p->settings;
    const char *cache_key = NULL;
    neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
    o.threads = s->threads ? (int)s->threads : cli_processors();
    o.seed = s->seed;
    o.options = options;
    o.n_options = s->options.count;
    int status = read_options(s, options, &cache_key);
    if (status == CLI_DONE && s->kv_cache) {
        status = install_cache(p, s->kv_cache, cache_key ? cache_key : own_key);
        if (!cache_key)
            options[o.n_options++] = (neap_option){
                .key = "cache_key", .kind = NEAP_OPTION_STRING, .text = own_key};
    }
    if (status == CLI_DONE && neap_handle_open(p->program, p->method, &o, &p->handle) != NEAP_OK) {
        p->handle = NULL;
        status = cli_failed("%s: %s", p->path, neap_context_error(p->ctx));
        neap_context_clear_error(p->ctx);
    }
    if (status == CLI_DONE) /* cli_program_limit chooses, not the first execution */
        neap_handle_set_plan_budget(p->handle, 0);
    return status;
}

int cli_program_load(cli_program *p)
{
    neap_option *options = calloc((size_t)p->settings->options.count + 1, sizeof *options);
    const int status = options ? open_handle(p, options) : cli_failed("out of memory");
    free(options);
    return status;
}

/* ---- the budget ----------------------------------------------------------------------------- */

static void take_plan(cli_program *p, int call, const neap_execution_plan *plan, cli_alive *alive)
{
    cli_plan_facts *f = &p->plan;
    f->plan_seconds += plan->plan_seconds;
    p->evaluations += plan->evaluations;
    if (plan->least_bytes > f->least_bytes)
        f->least_bytes = plan->least_bytes;
    if (plan->planned_peak_bytes <= f->planned_peak_bytes)
        return;
    p->fullest_call = call;
    f->planned_peak_bytes = plan->planned_peak_bytes;
    f->arena_bytes = plan->arena_bytes;
    f->largest_live_bytes = plan->largest_live_bytes;
    f->steps = plan->steps;
    f->peak_step = plan->peak_step;
    p->plan_bytes = plan->plan_bytes;
    memcpy(f->by_category, plan->by_category, sizeof f->by_category);
    const cli_alive other = p->alive;
    p->alive = *alive;
    *alive = other;
}

static int plan_all(cli_program *p, int calls, cli_plan_call plan, void *user)
{
    cli_alive alive = {.count = 0};
    int status = CLI_DONE;
    p->plan = (cli_plan_facts){.memory_limit = p->settings->memory};
    p->evaluations = 0;
    cli_alive_clear(&p->alive);
    for (int i = 0; status == CLI_DONE && i < calls; i++) {
        neap_execution_plan one = NEAP_EXECUTION_PLAN_INIT;
        cli_alive_clear(&alive);
        if (plan(user, i, &one, &alive) != NEAP_OK)
            status = cli_context_failed(neap_handle_context(p->handle));
        else
            take_plan(p, i, &one, &alive);
    }
    cli_alive_clear(&alive);
    return status;
}

/* A plan is told without those made after it, so they are told again until nothing changes. */
int cli_program_plan(cli_program *p, int calls, cli_plan_call plan, void *user)
{
    enum { ROUNDS = 4 };
    uint64_t before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const int status = plan_all(p, calls, plan, user);
        if (status != CLI_DONE)
            return status;
        if (round > 0 && p->plan.planned_peak_bytes == before)
            break;
        before = p->plan.planned_peak_bytes;
        if (round == 0) { /* what planning took for a time */
            neap_context_trim(neap_handle_context(p->handle));
            neap_context_trim(p->ctx);
        }
    }
    neap_memory_info memory = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(p->ctx, &memory);
    p->plan.mapped_bytes = memory.mapped;
    p->plan.threads = neap_context_threads(neap_handle_context(p->handle));
    p->stats.planned_peak_bytes = p->plan.planned_peak_bytes;
    return CLI_DONE;
}

/* ---- within the budget ---------------------------------------------------------------------- */

typedef struct everything {
    cli_program *p;
    int calls;
    cli_plan_call plan;
    void *user;
    int status; /* not done: it has been said what went wrong */
} everything;

static neap_status plan_everything(void *user, neap_execution_plan *plan)
{
    everything *e = user;
    e->status = cli_program_plan(e->p, e->calls, e->plan, e->user);
    plan->planned_peak_bytes = e->p->plan.planned_peak_bytes;
    plan->plan_bytes = e->p->plan_bytes;
    memcpy(plan->by_category, e->p->plan.by_category, sizeof plan->by_category);
    return e->status == CLI_DONE ? NEAP_OK : NEAP_ENOMEM;
}

/* `whose` NULL: the limit is of --memory. */
static int fit(cli_program *p, uint64_t limit, const char *whose, int calls, cli_plan_call plan,
               void *user)
{
    everything e = {p, calls, plan, user, CLI_DONE};
    neap_execution_plan all = NEAP_EXECUTION_PLAN_INIT;
    all.planned_peak_bytes = p->plan.planned_peak_bytes;
    all.plan_bytes = p->plan_bytes;
    const neap_status status = neap_handle_fit(p->handle, limit, plan_everything, &e, &all);
    p->plan.least_bytes = all.least_bytes;
    p->plan_budget = all.plan_budget;
    if (e.status != CLI_DONE || status == NEAP_OK)
        return e.status;
    if (!whose)
        return cli_context_failed(neap_handle_context(p->handle));
    return cli_failed("%s; it is %s of this machine",
                      neap_context_error(neap_handle_context(p->handle)), whose);
}

static bool over_limit(const cli_program *p)
{
    return p->plan.memory_limit && p->plan.planned_peak_bytes > p->plan.memory_limit;
}

int cli_program_least(cli_program *p, int calls, cli_plan_call plan, void *user)
{
    if (over_limit(p))
        return CLI_DONE;
    cli_plan_facts facts = p->plan; /* as they are where nobody asks for the least */
    const int status = fit(p, 0, NULL, calls, plan, user);
    facts.least_bytes = p->plan.least_bytes;
    p->plan = facts;
    p->stats.planned_peak_bytes = facts.planned_peak_bytes;
    return status;
}

int cli_program_limit(cli_program *p, int calls, cli_plan_call plan, void *user)
{
    const char *whose = NULL;
    if (!p->plan.memory_limit)
        p->plan.memory_limit =
            cli_machine_budget(p->plan.planned_peak_bytes, p->settings->quiet, &whose);
    if (!p->plan.memory_limit)
        return CLI_DONE;
    if (over_limit(p)) {
        const int status = fit(p, p->plan.memory_limit, whose, calls, plan, user);
        if (status != CLI_DONE)
            return status;
    }
    if (neap_context_set_limit(p->ctx, p->plan.memory_limit) != NEAP_OK)
        return cli_context_failed(p->ctx);
    return CLI_DONE;
}

/* Only plans that are shown are explained: an explanation weighs more of them, which takes bytes, and
 * what was planned is what a run plans. */
int cli_program_tell(cli_program *p, const char *command, cli_show_call show, void *user,
                     json_t *more)
{
    const cli_plan_report r = {.settings = p->settings,
                               .command = command,
                               .title = cli_plan_title(p->path),
                               .facts = p->plan,
                               .alive = &p->alive,
                               .data = p->picture};
    const int status = cli_planner_use(p->settings, p->picture, p->ctx);
    if (status == CLI_DONE && neap_context_set_limit(p->ctx, 0) == NEAP_OK &&
        neap_handle_set_plan_budget(p->handle, p->plan_budget) == NEAP_OK &&
        show(user, p->fullest_call, cli_plan_data_add, p->picture) == NEAP_OK)
        return cli_plan_tell(&r, more);
    json_decref(more);
    return status == CLI_DONE ? cli_context_failed(neap_handle_context(p->handle)) : status;
}

/* ---- end ------------------------------------------------------------------------------------ */

static void close_all(cli_program *p)
{
    if (!p->ctx)
        return;
    if (p->handle)
        cli_stats_read_program(&p->stats, p->ctx, p->handle);
    else
        cli_stats_read(&p->stats, p->ctx, NULL);
    neap_handle_close(p->handle);
    neap_program_close(p->program);
    if (p->scope)
        neap_scope_pop(p->ctx);
    p->handle = NULL;
    p->program = NULL;
    p->scope = false;
    cli_stats_end(&p->stats, p->ctx);
}

int cli_program_finish(cli_program *p, int status)
{
    close_all(p);
    if (status == CLI_INTERRUPTED)
        p->stats.interrupted = true;
    cli_alive_clear(&p->alive);
    if (p->settings->stats && p->ctx && (status == CLI_DONE || status == CLI_INTERRUPTED)) {
        const int written = cli_stats_write(&p->stats, p->settings->stats);
        if (written != CLI_DONE)
            status = written;
    }
    cli_watch_interrupt(NULL);
    neap_context_free(p->ctx);
    p->ctx = NULL;
    return status;
}
