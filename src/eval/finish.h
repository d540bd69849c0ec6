/* finish.h - runs a product's step with what is done to its result. See finish.c. */
#ifndef NP_FINISH_H
#define NP_FINISH_H

#include "plan/plan.h"

neap_status np_epilogue_run(const neap_plan *p, const np_group *g, uint8_t *scratch);

#endif
