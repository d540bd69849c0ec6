/* delegate.h - one delegate of a loaded method: its graph, constants, mutable buffers and the plans
 * made for it so far. */
#ifndef NP_DELEGATE_H
#define NP_DELEGATE_H

#include "formats/pte.h"
#include "plan/plan.h"
#include "program/dry_run.h"
#include "program/graph.h"
#include "neap/program.h"

struct np_uses;

/* A tensor or integer that goes into or comes out of a delegate. */
typedef struct np_argument {
    bool is_value; /* an integer */
    int64_t integer;
    neap_dtype dtype;
    int rank;
    int64_t shape[NEAP_MAX_RANK];
    const void *data;  /* of an input; NULL when planning */
    neap_array *array; /* of a result: a value, retained by the delegate until its next run */
} np_argument;

/* An integer element of an input on which a plan does not depend but by a parameter, or by having
 * been the same. */
typedef struct np_read {
    neap_param *param; /* value + add */
    uint32_t input;
    int64_t offset; /* bytes */
    neap_dtype dtype;
    int32_t add;
    int64_t value;     /* the element, when the plan was made */
    int64_t low, high; /* range of value + add in which the plan is right */
    bool pinned;
} np_read;

/* The integer at p; false: elements of that dtype are not read as integers. */
bool np_integer_at(const void *p, neap_dtype dtype, int64_t *out);

/* What the i-th output slot gets: the value of a root, or an integer. */
typedef struct np_number_result {
    bool is_value;
    int32_t read; /* of an integer: -1, or reads[read] + value */
    int64_t value;
} np_number_result;

/* A plan with the circumstances under which it may be replayed. */
typedef struct np_trace {
    struct np_trace *next; /* most recently used first */
    neap_plan *plan;
    int session;
    uint32_t n_reads, n_draws;
    size_t reads_capacity, draws_capacity;
    np_read *reads;
    neap_array **inputs;   /* leaves over the caller's memory [input slots] */
    int64_t *integers;     /* integer inputs [input slots] */
    neap_array **draws;    /* keys of unseeded draws, in order; refilled at each run */
    struct np_scan_body *bodies;
    np_number_result *results; /* [output slots] */
    uint64_t calls, pending;
} np_trace;

typedef struct np_delegate {
    neap_handle *h;
    neap_context *ctx;
    np_mlx_graph *graph;
    struct np_uses *uses;
    neap_array **constants; /* [n_constants] */
    neap_state ***sessions; /* [session][n_buffers]; NULL: not made yet */
    size_t n_sessions, sessions_capacity;
    np_trace *traces;
    bool never_open; /* its walks are cut: integers need not stay open */
    neap_dtype *result_dtypes; /* [output slots], as the method declares them */
    np_argument *args;         /* [input slots] of the next run: a replay allocates nothing small */
    np_argument *results;      /* [output slots] of the last run */
} np_delegate;

neap_status np_delegate_open(neap_handle *h, const np_pte_delegate *from, np_delegate **out);
void np_delegate_close(np_delegate *d);
/* Runs the init chain, if there is one: it writes constants. */
neap_status np_delegate_init(np_delegate *d);
/* Runs main with these inputs (as many as the graph's input slots); fills d->results. */
neap_status np_delegate_run(np_delegate *d, const np_argument *in);
/* The same without running: adds to the report; results have no data. */
neap_status np_delegate_plan(np_delegate *d, const np_argument *in, np_dry_run *report);
/* The active session's buffers, made if they are not yet. */
neap_status np_delegate_buffers(np_delegate *d, neap_state ***out);
/* Lets go of the results, of which others may have references. */
void np_delegate_release_results(np_delegate *d);
/* And of their memory, which plans keep for the next run. */
neap_status np_delegate_let_go(np_delegate *d);
/* And of every plan. */
void np_delegate_forget(np_delegate *d);
/* Fills a buffer's zeros in, forgets what was recorded; of one session. */
void np_delegate_reset(np_delegate *d, int session);
void np_delegate_drop_session(np_delegate *d, int session);
void np_trace_free(np_delegate *d, np_trace *t);

#endif
