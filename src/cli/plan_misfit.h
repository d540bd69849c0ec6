/* plan_misfit.h - `plan … --html` of what does not fit: the page shows the plan that needs the least, and
 * the options that would make it fit. Each of them was planned: what is named does fit. */
#ifndef CLI_PLAN_MISFIT_H
#define CLI_PLAN_MISFIT_H

#include "cli/plan_report.h"

/* The whole of `plan COMMAND` with these settings, up to cli_plan_tell. */
typedef int cli_plan_whole(const cli_settings *settings, cli_plan_data *picture);

/* A plan that is made for a misfit: cli_plan_tell hands it over instead of telling it. */
struct cli_misfit {
    bool probing;         /* only whether it fits, and these: */
    cli_plan_facts facts; /* of what fits */
    int64_t context;      /* positions; 0: not said */
    const char *refusal;  /* not probing: what was asked needs, */
    uint64_t limit;       /* the limit that it was asked for, */
    json_t *remedies;     /* and what would fit: [{option, planned_peak_bytes, text}] */
};

/* `plan COMMAND`: tells the plan, or what was refused; for --html also as above. */
int cli_plan_or_misfit(const cli_settings *settings, const char *command, cli_plan_whole *whole,
                       cli_plan_data *picture);

#endif
