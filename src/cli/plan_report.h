/* plan_report.h - how a plan is told, of a model's session and of a program's calls alike: the
 * bytes, what is alive at the peak and what would lower it, as lines for a reader, as the JSON object
 * of `plan`, as a page (plan_page.h) and as a trace (plan_trace.h). */
#ifndef CLI_PLAN_REPORT_H
#define CLI_PLAN_REPORT_H

#include <neap/plan.h>

#include "cli/options.h"
#include "cli/plan_data.h"

/* For a reader, values of the same op and size are one line: the 60 caches of 30 layers. */
typedef struct cli_alive_group {
    char name[64], op[48];
    neap_plan_alive first;
    int64_t count;
} cli_alive_group;

enum { CLI_ALIVE_GROUPS = 64 };

typedef struct cli_alive {
    json_t *list;
    cli_alive_group group[CLI_ALIVE_GROUPS];
    int count;
} cli_alive;

void cli_alive_clear(cli_alive *alive); /* before the first use: zeroed */
/* A visitor for neap_session_at_peak and neap_handle_plan; `user` is a cli_alive. */
bool cli_alive_add(void *user, const neap_plan_alive *value);

typedef struct cli_plan_facts {
    uint64_t planned_peak_bytes, least_bytes, mapped_bytes, memory_limit;
    uint64_t arena_bytes, largest_live_bytes;
    uint64_t by_category[NEAP_MEM_CATEGORIES];
    int64_t steps, peak_step;
    double plan_seconds;
    int threads;
} cli_plan_facts;

typedef struct cli_plan_report {
    const cli_settings *settings;
    const char *command, *title; /* "generate", and of what */
    cli_plan_facts facts;
    cli_alive *alive;
    const cli_plan_data *data;
} cli_plan_report;

/* What a file is called, without its folder. */
const char *cli_plan_title(const char *path);
/* Before the work: can --html and --trace be written? Reads --measured. */
int cli_plan_prepare(cli_plan_data *data, const cli_settings *settings);

/* The keys that every plan has; `full`: all that the page is made of. NULL: out of memory. */
json_t *cli_plan_json(const cli_plan_report *report, bool full);
/* Writes --html and --trace; `object`: as above, in full. */
int cli_plan_files(const cli_plan_report *report, const json_t *object);
/* Prints the text, or for --json the object with what is in `more` besides, which is taken over, and
 * writes --html and --trace. Returns the exit status. */
int cli_plan_tell(const cli_plan_report *report, json_t *more);

#endif
