/* plan_misfit.c - see plan_misfit.h. */
#include "cli/plan_misfit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    const cli_settings *asked;
    cli_plan_whole *whole;
    json_t *remedies;
} search;

/* ---- one plan ----------------------------------------------------------------------------------- */

/* Plans other settings without a word; what it needs is in *found. */
static bool fits(const search *x, cli_settings other, struct cli_misfit *found)
{
    char unsaid[1024] = "";
    cli_plan_data picture = CLI_PLAN_DATA_INIT;
    *found = (struct cli_misfit){.probing = true};
    other.misfit = found;
    other.quiet = true;
    other.stats = other.html = other.trace = NULL;
    cli_hold_failures(unsaid, sizeof unsaid);
    const bool done = x->whole(&other, &picture) == CLI_DONE;
    cli_hold_failures(NULL, 0);
    cli_plan_data_free(&picture);
    return done;
}

static void add(const search *x, const char *option, const struct cli_misfit *found, const char *text)
{
    json_t *row = json_object();
    json_object_set_new(row, "option", json_string(option));
    json_object_set_new(row, "planned_peak_bytes",
                        json_integer((json_int_t)found->facts.planned_peak_bytes));
    json_object_set_new(row, "text", json_string(text));
    json_array_append_new(x->remedies, row);
}

/* ---- what can be changed -------------------------------------------------------------------------- */

/* Each changes `s` as its option would, and adds the option's text to `line`; false: it is so already. */
static bool one_thread(cli_settings *s, char *line, size_t size)
{
    const bool changes = s->threads != 1;
    s->threads = 1;
    snprintf(line, size, "--threads 1");
    return changes;
}

static bool small_keys(cli_settings *s, char *line, size_t size)
{
    const bool changes = s->kv_type != 0;
    s->kv_type = 0;
    snprintf(line, size, "--kv-type f16");
    return changes;
}

static bool short_chunk(cli_settings *s, char *line, size_t size)
{
    const bool changes = s->chunk > 64;
    s->chunk = 64;
    snprintf(line, size, "--chunk 64");
    return changes;
}

static bool mapped_weights(cli_settings *s, char *line, size_t size)
{
    const bool changes = s->weights == 2;
    s->weights = 1;
    snprintf(line, size, "--weights mapped");
    return changes;
}

static bool any_plan(cli_settings *s, char *line, size_t size)
{
    const bool changes = s->planner != NULL;
    s->planner = NULL;
    snprintf(line, size, "without --planner");
    return changes;
}

typedef bool change(cli_settings *s, char *line, size_t size);
static const struct {
    change *make;
    const char *text;
} changes[] = {
    {any_plan,       "every way to plan"                      },
    {mapped_weights, "weights stay in the file"               },
    {small_keys,     "the cache takes half"                   },
    {short_chunk,    "the prompt goes in shorter steps"       },
    {one_thread,     "slower; one stack and one lane's scratch"},
};
enum { CHANGES = sizeof changes / sizeof changes[0], LINE = 160 };

/* The longest context that fits, with what `line` already says. */
static void try_context(const search *x, cli_settings other, const char *line)
{
    struct cli_misfit found;
    char option[LINE + 32];
    other.context = 0;
    if (!fits(x, other, &found) || found.context < 1)
        return;
    const int64_t context = found.context; /* planned again as it will be asked for */
    other.context = context;
    if (!fits(x, other, &found))
        return;
    snprintf(option, sizeof option, "%s%s-c %" PRId64, line, *line ? " " : "", context);
    add(x, option, &found, "the longest context that fits");
}

static void try_all(const search *x, const char *command)
{
    cli_settings together = *x->asked;
    char line[LINE] = "", option[64];
    struct cli_misfit found;
    int made = 0;
    for (int i = 0; i < CHANGES; i++) {
        cli_settings alone = *x->asked;
        if (!changes[i].make(&alone, option, sizeof option))
            continue;
        if (fits(x, alone, &found))
            add(x, option, &found, changes[i].text);
        changes[i].make(&together, option, sizeof option);
        const size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, "%s%s", n ? " " : "", option);
        made++;
    }
    const bool model = !strcmp(command, "generate");
    if (model)
        try_context(x, *x->asked, "");
    if (model && x->asked->kv_type != 0) {
        cli_settings small = *x->asked;
        small_keys(&small, option, sizeof option);
        try_context(x, small, option);
    }
    if (json_array_size(x->remedies) == 0 && made > 1 && fits(x, together, &found))
        add(x, line, &found, "all of them");
    if (json_array_size(x->remedies) == 0 && made > 0 && model)
        try_context(x, together, line);
}

/* ---- the page --------------------------------------------------------------------------------------- */

/* "needs at least 61.2 MiB (64172032 bytes), the limit is …": how many bytes; 0: another message. */
static uint64_t least_of(const char *message)
{
    static const char begin[] = "needs at least ";
    const char *bytes = strncmp(message, begin, strlen(begin)) ? NULL : strchr(message, '(');
    return bytes && strstr(message, "the limit is") ? strtoull(bytes + 1, NULL, 10) : 0;
}

static uint64_t limit_of(const cli_settings *s, const char *message)
{
    const char *limit = strstr(message, "the limit is ");
    return s->memory ? s->memory : (uint64_t)(strtod(limit + strlen("the limit is "), NULL) * 1048576.0);
}

static int misfit_page(search *x, const char *command, const char *refusal, uint64_t least)
{
    char option[64], unsaid[1024];
    cli_settings other = *x->asked;
    cli_plan_data picture = CLI_PLAN_DATA_INIT;
    struct cli_misfit found;
    x->remedies = json_array();
    try_all(x, command);
    other.memory = least;
    if (fits(x, other, &found)) {
        snprintf(option, sizeof option, "--memory %" PRIu64, least);
        add(x, option, &found, "as asked, with the least budget");
    }
    struct cli_misfit page = {
        .refusal = refusal, .limit = limit_of(x->asked, refusal), .remedies = x->remedies};
    other.misfit = &page;
    other.quiet = true;
    other.json = false;
    other.stats = other.trace = NULL;
    cli_hold_failures(unsaid, sizeof unsaid);
    const int status = x->whole(&other, &picture);
    cli_hold_failures(NULL, 0);
    cli_plan_data_free(&picture);
    json_decref(x->remedies);
    return status;
}

int cli_plan_or_misfit(const cli_settings *s, const char *command, cli_plan_whole *whole,
                       cli_plan_data *picture)
{
    char message[1024] = "";
    if (!s->html)
        return whole(s, picture);
    cli_hold_failures(message, sizeof message);
    const int status = whole(s, picture);
    cli_hold_failures(NULL, 0);
    const uint64_t least = status == CLI_FAILED ? least_of(message) : 0;
    search x = {.asked = s, .whole = whole};
    if (least)
        misfit_page(&x, command, message, least);
    if (status == CLI_DONE || !*message)
        return status;
    return status == CLI_USAGE ? cli_usage("%s", message) : cli_failed("%s", message);
}
