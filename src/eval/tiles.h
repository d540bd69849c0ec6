/* tiles.h - running a step that is a group of ops. */
#ifndef NP_TILES_H
#define NP_TILES_H

#include "plan/plan.h"

/* The plan's operands are bound; scratch is the step's. */
neap_status np_group_run(const neap_plan *p, const np_group *g, uint8_t *scratch);

#endif
