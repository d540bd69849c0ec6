/* planner.h - --planner: how a command's plans are made. */
#ifndef CLI_PLANNER_H
#define CLI_PLANNER_H

#include "cli/options.h"
#include "cli/plan_data.h"

/* For all plans that this context makes from now on: --planner, and if there is a `picture` (or NULL),
 * it is told what the planner weighs. Returns the exit status. */
int cli_planner_use(const cli_settings *settings, cli_plan_data *picture, neap_context *ctx);

#endif
