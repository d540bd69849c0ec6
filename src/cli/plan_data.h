/* plan_data.h - what the picture of a peak is made of: steps, values and what the planner weighed, of
 * every plan of a command, as JSON arrays that outlive the plans.
 *
 * A part is one plan: `prefill`, `encoder.pte`, a bare graph. Whoever has a plan that is no
 * neap_plan fills a part by cli_part_step and cli_part_value, and tells events of its own. */
#ifndef CLI_PLAN_DATA_H
#define CLI_PLAN_DATA_H

#include <neap/plan.h>

#include "cli/cli.h"

/* What was told while one plan was made. */
typedef struct cli_plan_story {
    const neap_plan *plan; /* may be freed since: only compared */
    json_t *candidates;    /* [{peak_bytes, seconds, text, chosen}] */
    json_t *fused;         /* [{text, a, b, bytes}] */
    json_t *rejected;      /* [{a, b, reason, bytes}] */
} cli_plan_story;

typedef struct cli_plan_part {
    char name[64];
    neap_plan_info info;
    json_t *curve;  /* live bytes of the arena, by step */
    json_t *steps;  /* [{name, op, ops, rows, block_rows, seconds}] */
    json_t *values; /* [{name, op, kind, bytes, offset, first, last, shape, dtype, result}] */
    cli_plan_story story;
} cli_plan_part;

typedef struct cli_plan_data {
    cli_plan_part *part;
    int n_parts, parts_capacity;
    int fullest; /* of the parts: the one that holds the peak; -1: none */
    cli_plan_story *story;
    int n_stories, stories_capacity;
    cli_plan_story open; /* of the plan that is being made */
    json_t *measured;    /* of --measured, or NULL */
    bool failed;         /* out of memory */
} cli_plan_data;
#define CLI_PLAN_DATA_INIT \
    {                      \
        .fullest = -1      \
    }

void cli_plan_data_free(cli_plan_data *data);

/* For neap_plan_options.explain; `user` is a cli_plan_data. */
void cli_plan_data_event(void *user, const neap_plan_event *event);

/* A neap_plan_visit: adds a part with everything in it; `user` is a cli_plan_data. */
bool cli_plan_data_add(void *user, const char *name, const neap_plan *plan, bool fullest);

/* The same by hand. NULL: out of memory. The part is valid until the next one is added; events told
 * since the last part, or MADE, are its story. */
cli_plan_part *cli_plan_data_part(cli_plan_data *data, const char *name,
                                  const neap_plan_info *info, bool fullest);
/* Visitors of neap_plan_steps and neap_plan_values; `user` is the part. */
bool cli_part_step(void *user, const neap_plan_step *step);
bool cli_part_value(void *user, const neap_plan_value *value);

/* The part that holds the peak, or NULL. */
const cli_plan_part *cli_plan_fullest(const cli_plan_data *data);
/* Of the candidates those that some budget chooses, each smaller than those before it and slower, and
 * the one that was chosen. Without candidates, the plan itself. A new array of references. */
json_t *cli_part_choices(const cli_plan_part *part);

#endif
