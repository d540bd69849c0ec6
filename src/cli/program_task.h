/* program_task.h - what run, plan run and generate do with a program before they differ: a context,
 * the file, a handle with its options, the plan of what will be executed, the budget.
 *
 * The budget is decided when everything that will be executed is planned; until then there is no
 * limit. Nothing is put on the ledger between the plan and the end of the work. Functions print what
 * went wrong and return an exit status. */
#ifndef CLI_PROGRAM_TASK_H
#define CLI_PROGRAM_TASK_H

#include <neap/program.h>

#include "cli/options.h"
#include "cli/plan_report.h"
#include "cli/stats.h"

typedef struct cli_program {
    const cli_settings *settings;
    const char *path;
    neap_context *ctx; /* one thread; the handle's has the others */
    neap_program *program;
    int method;
    bool scope; /* is open: holds what inputs are copied to */
    neap_handle *handle;
    cli_plan_facts plan; /* of everything that will be executed */
    int64_t evaluations;
    int fullest_call; /* that holds the peak */
    uint64_t plan_bytes;  /* of its plan that does */
    uint64_t plan_budget; /* of each plan, as it was chosen; 0: none */
    cli_alive alive; /* at its peak */
    cli_stats stats;
    cli_plan_data *picture; /* of plan; NULL: the work is done */
} cli_program;

/* Does the file say that it is a program? False also if it cannot be read. */
bool cli_is_program(const char *path);

/* Context, an open scope, the file and --data. `picture`: of plan, or NULL. */
int cli_program_open(cli_program *p, const cli_settings *settings, const char *path,
                     cli_plan_data *picture);
/* --method or "forward". */
int cli_program_choose(cli_program *p);
/* The handle, with --option, --kv-cache, --threads and --seed. */
int cli_program_load(cli_program *p);

/* Plans the i-th of the executions that come. */
typedef neap_status (*cli_plan_call)(void *user, int i, neap_execution_plan *plan, cli_alive *alive);
/* Plans them all, with all plans held: p->plan. */
int cli_program_plan(cli_program *p, int calls, cli_plan_call plan, void *user);
/* Shows the plans of the i-th execution. */
typedef neap_status (*cli_show_call)(void *user, int i, neap_plan_visit *visit, void *visitor);
/* Tells what was planned, of the execution that holds the peak. Takes `more` over. */
int cli_program_tell(cli_program *p, const char *command, cli_show_call show, void *user,
                     json_t *more);
/* Finds the least budget of what is planned, if that is not over --memory. */
int cli_program_least(cli_program *p, int calls, cli_plan_call plan, void *user);
/* --memory is the limit from now on. What is planned over it is planned again to fit, or refused. */
int cli_program_limit(cli_program *p, int calls, cli_plan_call plan, void *user);

/* What `info` tells of a program: settings->file. */
int cli_info_program(const cli_settings *settings);
/* The way of `run` and `plan run`. */
int cli_run(bool plan, int argc, char **argv);

/* Frees all but the context, writes --stats if `status` is done or interrupted, frees the context.
 * Returns the status, or that of writing. */
int cli_program_finish(cli_program *p, int status);

#endif
