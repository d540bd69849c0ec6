/* order_work.h - what the files of order share: the graph turned round (who reads a value, who
 * waits for a node), and a run of it node by node that knows what is alive. */
#ifndef NP_ORDER_WORK_H
#define NP_ORDER_WORK_H

#include "plan/order.h"

typedef struct np_ordering {
    neap_context *ctx;
    const np_order_graph *g;
    void *memory;
    size_t memory_bytes;
    uint32_t *made_first, *made;     /* by node: values it makes */
    uint32_t *reader_first, *reader; /* by value: nodes that read it, ascending */
    uint32_t *before_first, *before; /* by node: nodes that must have run; one may be there twice */
    uint32_t *after_first, *after;   /* by node: nodes that it is before, as often */
    uint32_t *best, *trial;          /* orders */
    uint64_t best_peak, bound;       /* no order can have less than `bound` */
    /* the run */
    uint32_t *left;    /* by value: readers that have not run */
    uint32_t *missing; /* by node: entries of `before` that have not run */
    uint64_t live, peak;
    uint64_t *key; /* by node, for a candidate's own use */
    uint32_t *list; /* two words by node, likewise */
} np_ordering;

bool np_ordering_make(np_ordering *w, neap_context *ctx, const np_order_graph *g);
void np_ordering_free(np_ordering *w);

static inline uint64_t np_order_scratch(const np_order_graph *g, uint32_t node)
{
    return g->scratch ? g->scratch[node] : 0;
}

/* What running the node now does to the bytes alive. */
typedef struct np_order_change {
    uint64_t while_running; /* more, while it runs */
    int64_t after;          /* more or less, afterwards */
} np_order_change;

void np_order_start(np_ordering *w);
np_order_change np_order_weigh(const np_ordering *w, uint32_t node);
void np_order_run(np_ordering *w, uint32_t node); /* weighs, counts, frees */

/* Greedy orders: each fills w->trial. false: no memory. */
typedef struct np_order_candidate {
    const char *name;
    void (*find)(np_ordering *w);
} np_order_candidate;
extern const np_order_candidate np_order_candidates[];
extern const int np_order_n_candidates;

/* Searches windows of w->best for a lower peak and keeps what is found: true if there is something.
 * `exact`: the whole graph was searched. */
bool np_order_search(np_ordering *w, bool *exact);

#endif
