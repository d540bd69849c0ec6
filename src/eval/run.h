/* run.h - running plans: the context's arena, binding operands to memory, the loop over steps. */
#ifndef NP_RUN_H
#define NP_RUN_H

#include "plan/plan.h"

/* What an evaluation hands a plan: buffers in the order of the plan's tables. */
typedef struct np_binding {
    neap_array *const *values;
    neap_state *const *states;
    np_buffer *const *outputs;
} np_binding;

/* Takes states' bytes and the arena; NEAP_ENOMEM names the least that would do. */
neap_status np_run_reserve(neap_plan *p, neap_state *const *states);
void np_run_bind(neap_plan *p, const np_binding *with);
/* Runs the steps. On failure every state that a step may have half-written is poisoned. */
neap_status np_run_steps(neap_plan *p, neap_state *const *states);

#endif
