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
/* What the limit leaves for the plan's arena and results beside what is held and its states. */
uint64_t np_run_room(const neap_plan *p, neap_state *const *states);
/* The arena is the context's, or `arena` (of the plan's arena_bytes) for a plan inside a step. */
void np_run_bind(neap_plan *p, const np_binding *with);
void np_run_bind_at(neap_plan *p, const np_binding *with, uint8_t *arena);
/* Runs the steps. On failure every state that a step may have half-written is poisoned. */
neap_status np_run_steps(neap_plan *p, neap_state *const *states);
neap_status np_run_steps_at(neap_plan *p, neap_state *const *states, uint8_t *arena,
                            np_progress *progress); /* NULL: nothing is told */

/* neap_plan_make within a call: an error stays stored. */
neap_status np_plan_make(neap_context *ctx, int n_roots, neap_array *const *roots, int n_params,
                         neap_param *const *params, neap_plan **out);
neap_status np_plan_reserve(neap_plan *p);
/* neap_plan_run, for a program: slabs stay as they are, since they were counted. */
neap_status np_plan_run(neap_plan *p, const int64_t *values);
/* Results that somebody holds stay his: the next run writes into new ones. */
neap_status np_plan_renew(neap_plan *p);
/* Gives back the results' blocks of a plan object: another plan is to run. The next run takes them
 * again. */
void np_plan_let_go(neap_plan *p);

#endif
