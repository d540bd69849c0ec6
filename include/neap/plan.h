/* neap/plan.h - evaluation, and plans as objects.
 *
 * Evaluating means: take what the roots reach and the effects that are due, plan it, run the plan.
 */
#ifndef NEAP_PLAN_H
#define NEAP_PLAN_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives a value to each root; any other node stays a node. Plans are cached by structure.
 * With a NULL among the roots: returns the stored error and clears it. NEAP_ENOMEM names the least
 * bytes that would do; NEAP_ESTALE, NEAP_EPOISONED. */
NEAP_API neap_status neap_eval(neap_array *root);
NEAP_API neap_status neap_eval_all(int n, neap_array *const *roots);

/* ---- how plans are made ------------------------------------------------------------------------ */

/* What the planner leaves out. */
enum {
    NEAP_PLAN_NO_FUSION = 1,     /* each op a step of its own */
    NEAP_PLAN_NO_SIDEWAYS = 2,   /* ops that only read the same values are not fused */
    NEAP_PLAN_NO_ORDER = 4,      /* program order */
    NEAP_PLAN_NO_STREAMING = 8,  /* no runs of steps over blocks of rows */
    NEAP_PLAN_NO_RECOMPUTE = 16, /* cheap values are never made twice */
    NEAP_PLAN_LOW_MEMORY = 32,   /* the least peak, whatever the time */
    NEAP_PLAN_BEST_EFFORT = 64   /* over the budget: the least peak, not a refusal */
};

/* What the planner weighed, told while it plans. Strings live during the call. */
typedef enum neap_plan_event_kind {
    NEAP_PLAN_EVENT_FUSED,     /* a group of ops became one step */
    NEAP_PLAN_EVENT_NOT_FUSED, /* two ops that could be one step are not; `text` says why */
    NEAP_PLAN_EVENT_CANDIDATE, /* a whole plan: `text` says what it does, `chosen` if it was taken */
    NEAP_PLAN_EVENT_MADE       /* `plan` is made: what was told since the last one is about it */
} neap_plan_event_kind;

typedef struct neap_plan neap_plan;

typedef struct neap_plan_event {
    neap_plan_event_kind kind;
    const char *text;    /* "row streaming by 256 rows" */
    const char *a, *b;   /* names of the steps it is about, or "" */
    uint64_t peak_bytes; /* of a candidate: arena and results; else bytes by which the peak would rise */
    double seconds;      /* of a candidate: predicted from bytes moved and flops */
    bool chosen;
    const neap_plan *plan; /* of MADE */
} neap_plan_event;

typedef struct neap_plan_options {
    size_t size;
    unsigned without;     /* NEAP_PLAN_NO_* */
    int max_fusion_size;  /* most ops of one step, where what is used once counts with its user; 64 */
    uint64_t budget;      /* bytes for arena and results of each plan; 0: none for plan objects, what the
                             context's limit leaves for neap_eval */
    void (*explain)(void *user, const neap_plan_event *event); /* or NULL */
    void *user;
} neap_plan_options;
#define NEAP_PLAN_OPTIONS_INIT NEAP_INIT_WITH(neap_plan_options, NEAP_SET(max_fusion_size, 64))

/* For all plans that this context and its children make from now on; plans cached
 * before are not used under other options. NULL: the defaults. */
NEAP_API neap_status neap_context_plan_options(neap_context *ctx, const neap_plan_options *options);

/* ---- plans as objects -------------------------------------------------------------------------- */

typedef struct neap_plan_info {
    size_t size;
    uint64_t peak_bytes;    /* arena + output blocks: what running it needs beside what is held */
    uint64_t arena_bytes;   /* activations and scratch, placed */
    uint64_t scratch_bytes; /* the part of arena_bytes that scratch takes at the peak step */
    uint64_t largest_live_bytes; /* lower bound of arena_bytes for this order */
    uint64_t output_bytes;       /* the roots' own blocks */
    uint64_t state_bytes;        /* states that the plan touches and that have no bytes yet */
    uint64_t plan_bytes;         /* of the plan object itself (category graph) */
    int64_t steps, peak_step, merged, copies;
    double plan_seconds;
    int64_t fused_groups, row_streamed_steps, recomputed_steps;
    uint64_t least_bytes;     /* peak_bytes of the smallest plan found; 0: none was looked for, as without
                                 a budget, NEAP_PLAN_LOW_MEMORY or `explain` */
    double predicted_seconds; /* from bytes moved and flops: for comparing plans */
} neap_plan_info;
#define NEAP_PLAN_INFO_INIT NEAP_INIT(neap_plan_info)

/* Plans the roots and the pending effects that they reach, for running many times. Recorded writes
 * that it takes are no longer pending. Values that the graph uses are kept by reference and read at
 * each run: refill them through neap_array_mutable. Nothing of the arena is allocated yet. */
NEAP_API neap_status neap_plan_make(neap_context *ctx, int n_roots, neap_array *const *roots,
                                    int n_params, neap_param *const *params, neap_plan **out);
/* Runs it: values[i] becomes params[i]'s value; NULL if there are none. NEAP_EINVAL for a value out
 * of range, NEAP_EPOISONED, NEAP_ENOMEM as neap_eval, or what a step found; the plan can be run
 * again. */
NEAP_API neap_status neap_plan_run(neap_plan *plan, const int64_t *values);
/* The i-th root's value after a run; its bytes and, where a parameter sets an extent, its shape are
 * rewritten by the next one. Its strides are then those of the capacity. NULL: no such root. */
NEAP_API const neap_array *neap_plan_output(const neap_plan *plan, int i);
/* Takes what running needs (states, outputs, arena) now instead of at the first run. */
NEAP_API neap_status neap_plan_reserve(neap_plan *plan);
NEAP_API void neap_plan_describe(const neap_plan *plan, neap_plan_info *info);
NEAP_API void neap_plan_free(neap_plan *plan);

/* What is alive at the step where most of the arena is, and the results, which are for the whole run.
 * Strings live as long as the plan. */
typedef struct neap_plan_alive {
    const char *name, *op;
    uint64_t bytes;
    int rank;
    int64_t shape[NEAP_MAX_RANK];
    neap_dtype dtype;
} neap_plan_alive;
/* Calls visit for each; stops when it returns false. */
NEAP_API void neap_plan_at_peak(const neap_plan *plan,
                                bool (*visit)(void *user, const neap_plan_alive *alive),
                                void *user);

/* ---- looking at a plan ------------------------------------------------------------------------- */

typedef enum neap_plan_kind {
    NEAP_PLAN_ACTIVATION, /* in the arena */
    NEAP_PLAN_SCRATCH,    /* in the arena, for one step */
    NEAP_PLAN_HOSTED,     /* lies in a result's block until that is made */
    NEAP_PLAN_RESULT      /* a root's own block */
} neap_plan_kind;

typedef struct neap_plan_value {
    const char *name, *op;
    neap_plan_kind kind;
    uint64_t bytes, offset; /* in the arena, or in the result's block */
    int64_t first, last;    /* steps at which it is alive, inclusive */
    int rank;
    int64_t shape[NEAP_MAX_RANK];
    neap_dtype dtype;
    int result; /* of HOSTED and RESULT: whose block it is, counted from 0 as the roots that have one; else -1 */
} neap_plan_value;

typedef struct neap_plan_step {
    const char *name, *op;     /* of its last op */
    int64_t ops;               /* more than 1: fused */
    int64_t rows, block_rows;  /* made in blocks of rows, one after the other; 0: at once */
    uint64_t live_bytes;       /* of the arena while it runs */
    double predicted_seconds;
} neap_plan_step;

/* In order of first steps; in order of running. Strings live as long as the plan; visiting stops
 * when `visit` returns false. Activations and scratch that are alive at a step add up to its
 * live_bytes: of values that follow each other in one place, the last begun is alive. NEAP_ENOMEM. */
NEAP_API neap_status neap_plan_values(const neap_plan *plan,
                                      bool (*visit)(void *user, const neap_plan_value *value),
                                      void *user);
NEAP_API neap_status neap_plan_steps(const neap_plan *plan,
                                     bool (*visit)(void *user, const neap_plan_step *step),
                                     void *user);

/* How the plans of something larger are shown, in the order in which they run: `fullest` if more is
 * held while it runs than with any before it. False stops. */
typedef bool neap_plan_visit(void *user, const char *name, const neap_plan *plan, bool fullest);

/* ---- bare graphs ------------------------------------------------------------------------------- */

enum { NEAP_BARE_INPUT = 1, NEAP_BARE_OUTPUT = 2 };

/* Nodes with one value each, in program order: a node depends on earlier ones only. An input is
 * alive from the start to its last use and runs never; an output is alive to the end. While a node
 * runs, its value and those that it depends on are alive, and nothing is rounded. */
typedef struct neap_bare_graph {
    size_t size;
    uint32_t n;               /* nodes */
    const uint64_t *bytes;    /* [n]; less than 2^62 in all */
    const uint8_t *flags;     /* [n]: NEAP_BARE_*, or'ed */
    const uint32_t *dep_first; /* [n + 1]: node i depends on dep[dep_first[i]] to dep[dep_first[i + 1] - 1] */
    const uint32_t *dep;      /* each once a node */
    bool in_place;            /* a value may take the place of an equal-sized one that dies then */
} neap_bare_graph;
#define NEAP_BARE_GRAPH_INIT NEAP_INIT(neap_bare_graph)

typedef struct neap_bare_plan {
    size_t size;
    uint64_t peak_bytes;          /* the most that is alive at once */
    uint64_t program_order_bytes; /* the same in program order; never less */
    uint64_t arena_bytes;         /* with every value placed */
    uint32_t steps, peak_step;    /* nodes that run; which of them, in order, holds the peak */
    bool exact;                   /* no order has a lower peak */
    double seconds;
} neap_bare_plan;
#define NEAP_BARE_PLAN_INIT NEAP_INIT(neap_bare_plan)

/* Orders and places. `order`: [n], the nodes as they should run, inputs first; `offsets`: [n], of
 * values; either may be NULL. NEAP_EINVAL names the node at fault; NEAP_ENOMEM. */
NEAP_API neap_status neap_plan_bare(neap_context *ctx, const neap_bare_graph *graph,
                                    uint32_t *order, uint64_t *offsets, neap_bare_plan *plan);
/* Places n blocks of bytes[i], alive from step first[i] to before end[i], so that none overlap
 * while both are alive: offsets[i] and the bytes of all. NEAP_EINVAL, NEAP_ENOMEM. */
NEAP_API neap_status neap_place_blocks(neap_context *ctx, uint32_t n, const uint32_t *first,
                                       const uint32_t *end, const uint64_t *bytes,
                                       uint64_t *offsets, uint64_t *arena);

/* Counters of the context, of evaluations and plan objects alike: plans made, cache hits of evaluations (of
 * equal structure, whatever the parameters), steps and runs of all, seconds spent planning. */
typedef struct neap_eval_stats {
    size_t size;
    uint64_t plans, plan_cache_hits, steps, runs;
    double plan_seconds;
} neap_eval_stats;
#define NEAP_EVAL_STATS_INIT NEAP_INIT(neap_eval_stats)
NEAP_API void neap_context_eval_stats(const neap_context *ctx, neap_eval_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
