/* scan.h - an op with a planned body: the body is planned once and run for each step.
 *
 * Carries are double-buffered: a step reads one buffer and writes the other. What a step adds to a
 * stack is written straight to its place there. The result is one array of bytes in which carries,
 * last values and stacks have places; np_scan_result looks at one of them. */
#ifndef NP_SCAN_H
#define NP_SCAN_H

#include "plan/plan.h"

/* A value that goes from step to step: input `input` before the first one, root `root` after each. */
typedef struct np_scan_carry {
    uint32_t input, root;
    uint64_t bytes, place;
} np_scan_carry;

/* A root's value after the last step. */
typedef struct np_scan_last {
    uint32_t root;
    uint64_t bytes, place;
} np_scan_last;

/* The body writes its element into this state, at the step parameter. */
typedef struct np_scan_stack {
    neap_state *state;
    uint64_t bytes, place;
} np_scan_stack;

typedef struct np_scan_body {
    neap_context *ctx;
    struct np_scan_body *next; /* its owner's list */
    neap_plan *plan;
    neap_param *step;
    int64_t steps;
    uint32_t n_leaves, n_carries, n_lasts, n_stacks;
    neap_array **leaves; /* an array of the body that stands for each input of the scan */
    np_scan_carry *carries;
    np_scan_last *lasts;
    np_scan_stack *stacks;
    uint32_t *output_of_root; /* in the plan; filled by np_scan_body_plan */
    uint32_t n_roots;
    uint64_t result_bytes, buffer_bytes;
} np_scan_body;

/* A body with room for these; its owner fills the tables and then plans it. */
neap_status np_scan_body_new(neap_context *ctx, int64_t steps, uint32_t n_leaves,
                             uint32_t n_carries, uint32_t n_lasts, uint32_t n_stacks,
                             np_scan_body **out);
/* An array of the body over bytes that come when the scan runs. Row-major. */
neap_array *np_scan_leaf(neap_dtype dtype, int rank, const int64_t *shape);
/* Roots: first those that carries and lasts name, then effects. Gives everything its place. */
neap_status np_scan_body_plan(np_scan_body *body, uint32_t n_roots, neap_array *const *roots);
/* The body must outlive what uses the node. Inputs are brought to row-major form. */
neap_array *np_scan_node(np_scan_body *body, neap_array *const *inputs);
neap_array *np_scan_result(neap_array *node, uint64_t place, neap_dtype dtype, int rank,
                           const int64_t *shape);
void np_scan_body_free(np_scan_body *body);

#endif
