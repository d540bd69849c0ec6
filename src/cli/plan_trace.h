/* plan_trace.h - the plans of a command as a Chrome trace, which Perfetto opens: a process a plan, its
 * steps on a track, the arena's live bytes as a counter, values from their first step to their last. */
#ifndef CLI_PLAN_TRACE_H
#define CLI_PLAN_TRACE_H

#include "cli/plan_data.h"

/* Times are predicted microseconds, or one a step where nothing is predicted. Returns the exit status.
 */
int cli_plan_trace_write(const char *path, const cli_plan_data *data);

#endif
