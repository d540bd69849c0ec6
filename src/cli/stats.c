/* stats.c - see stats.h. */
#include "cli/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t start_rss_bytes;

/* A "Name:   123 kB" line of /proc/self/status, in bytes; 0 if there is none. */
static uint64_t process_bytes(const char *name)
{
    char text[4096];
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

void cli_stats_note_start(void)
{
    start_rss_bytes = process_bytes("VmRSS:");
}

void cli_stats_begin(cli_stats *stats)
{
    *stats = (cli_stats){.start_seconds = cli_seconds(),
                         .memory = NEAP_MEMORY_INFO_INIT,
                         .eval = NEAP_EVAL_STATS_INIT,
                         .session = NEAP_SESSION_INFO_INIT,
                         .handle = NEAP_HANDLE_STATS_INIT,
                         .result = NEAP_GENERATE_RESULT_INIT};
}

void cli_stats_read(cli_stats *stats, const neap_context *ctx, const neap_session *session)
{
    neap_context_memory(ctx, &stats->memory);
    neap_context_eval_stats(ctx, &stats->eval);
    stats->threads = neap_context_threads(ctx);
    stats->isa = neap_context_isa(ctx);
    stats->memory_limit = stats->memory.limit;
    if (session) {
        neap_session_describe(session, &stats->session);
        stats->planned_peak_bytes = stats->session.planned_peak_bytes;
    }
}

void cli_stats_read_program(cli_stats *stats, const neap_context *ctx, neap_handle *handle)
{
    cli_stats_read(stats, ctx, NULL);
    stats->program = true;
    neap_handle_tell(handle, &stats->handle);
    stats->eval.plans = stats->handle.plans;
    stats->eval.plan_cache_hits = stats->handle.plan_hits;
    stats->eval.steps = stats->handle.steps;
    stats->eval.plan_seconds = stats->handle.plan_seconds;
    stats->threads = neap_context_threads(neap_handle_context(handle));
}

void cli_stats_end(cli_stats *stats, const neap_context *ctx)
{
    neap_memory_info now = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &now);
    stats->held_bytes_at_end = now.active + now.cached;
    stats->wall_seconds = cli_seconds() - stats->start_seconds;
}

/* ---- JSON --------------------------------------------------------------------------------- */

json_t *cli_categories_json(const uint64_t bytes[NEAP_MEM_CATEGORIES])
{
    json_t *object = json_object();
    for (int i = 0; i < NEAP_MEM_CATEGORIES; i++)
        json_object_set_new(object, neap_memory_category_name((neap_memory_category)i),
                            json_integer((json_int_t)bytes[i]));
    return object;
}

static void add_integer(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void add_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(value));
}

static void add_rate(json_t *object, const char *key, int64_t tokens, double seconds)
{
    if (tokens > 0 && seconds > 0)
        add_real(object, key, (double)tokens / seconds);
}

static void add_handle(json_t *object, const neap_handle_stats *h)
{
    add_integer(object, "executes", h->executes);
    add_integer(object, "evaluations", h->evaluations);
    add_integer(object, "init_barriers", h->init_barriers);
    add_integer(object, "internal_evaluations", h->internal_evaluations);
    add_integer(object, "accounting_calls", h->accounting_calls);
    add_integer(object, "pending_bytes", h->pending_bytes);
}

const char *cli_finish_reason(const cli_stats *s)
{
    return s->interrupted                         ? "interrupted"
           : s->result.finish == NEAP_FINISH_STOP ? "stop"
                                                  : "length";
}

static void add_generation(json_t *object, const cli_stats *s)
{
    const neap_generate_result *r = &s->result;
    add_integer(object, "prompt_tokens", (uint64_t)r->prompt_tokens);
    add_integer(object, "generated_tokens", (uint64_t)r->generated_tokens);
    add_real(object, "prompt_seconds", r->prompt_seconds);
    add_real(object, "generation_seconds", r->generation_seconds);
    add_rate(object, "prompt_tokens_per_second", r->prompt_tokens, r->prompt_seconds);
    add_rate(object, "generation_tokens_per_second", r->decode_steps, r->generation_seconds);
    json_object_set_new(object, "finish_reason", json_string(cli_finish_reason(s)));
}

json_t *cli_stats_json(const cli_stats *s)
{
    json_t *object = json_object();
    add_integer(object, "planned_peak_bytes",
                s->planned_peak_bytes ? s->planned_peak_bytes : s->memory.peak);
    add_integer(object, "measured_peak_bytes", s->memory.peak);
    add_integer(object, "mapped_bytes", s->memory.mapped);
    json_object_set_new(object, "peak_by_category",
                        cli_categories_json(s->memory.peak_by_category));
    add_integer(object, "held_bytes_at_end", s->held_bytes_at_end);
    add_integer(object, "memory_limit", s->memory_limit);
    add_integer(object, "process_peak_rss_bytes", process_bytes("VmHWM:"));
    add_integer(object, "process_start_rss_bytes", start_rss_bytes);
    add_real(object, "wall_seconds", s->wall_seconds);
    add_integer(object, "barriers", s->handle.barriers);
    add_integer(object, "plans", s->eval.plans);
    add_integer(object, "plan_cache_hits", s->eval.plan_cache_hits);
    add_real(object, "plan_seconds", s->eval.plan_seconds);
    add_integer(object, "steps", s->eval.steps);
    add_integer(object, "threads", (uint64_t)s->threads);
    json_object_set_new(object, "isa", json_string(s->isa));
    if (s->program)
        add_handle(object, &s->handle);
    if (s->audio_seconds > 0) {
        add_real(object, "audio_seconds", s->audio_seconds);
        add_real(object, "encode_seconds", s->encode_seconds);
    }
    if (s->generated)
        add_generation(object, s);
    else if (s->interrupted)
        json_object_set_new(object, "finish_reason", json_string(cli_finish_reason(s)));
    return object;
}

int cli_stats_write(const cli_stats *stats, const char *path)
{
    if (!strcmp(path, "-"))
        return cli_json_print(stdout, "standard output", cli_stats_json(stats));
    FILE *file = fopen(path, "w");
    if (!file)
        return cli_failed("--stats %s: %s", path, strerror(errno));
    int status = cli_json_print(file, path, cli_stats_json(stats));
    if (fclose(file) != 0 && status == CLI_DONE)
        status = cli_failed("--stats %s: %s", path, strerror(errno));
    return status;
}

/* The folder that the file would be made in. */
static int check_folder(const char *option, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder)
        return cli_failed("out of memory");
    const bool writable = access(folder, W_OK | X_OK) == 0;
    const int error = errno;
    free(folder);
    return writable ? CLI_DONE : cli_failed("%s %s: %s", option, path, strerror(error));
}

int cli_check_writable(const char *option, const char *path)
{
    if (!strcmp(path, "-"))
        return CLI_DONE;
    const int file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENOENT && *path)
        return check_folder(option, path);
    if (file < 0 && errno != ENXIO) /* a pipe that nobody reads yet */
        return cli_failed("%s %s: %s", option, path, strerror(errno));
    if (file >= 0)
        close(file);
    return CLI_DONE;
}
