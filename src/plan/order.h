/* order.h - in which order to run the nodes of a bare graph so that the least is alive at once.
 *
 * Knows no arrays and no ops: nodes read values, make values, and may have to wait for other nodes.
 * While a node runs, all of this is alive: values that it or a later node reads, values that are
 * kept, what it makes, its scratch. A value that dies at the node is freed after what the node makes
 * was allocated, unless a result takes its place. Program order is the order of indices; it must be
 * valid, and what is found is never worse.
 *
 *   candidates, the best one     order_find.c
 *   greedy orders                order_greedy.c
 *   search of windows            order_window.c   (of the whole graph if it is small) */
#ifndef NP_ORDER_H
#define NP_ORDER_H

#include "plan/plan.h"

typedef struct np_order_graph {
    uint32_t n_nodes, n_values;
    const uint64_t *bytes;                 /* by value; at most 2^62 in all, scratch included */
    const uint32_t *maker;                 /* by value: the node that makes it, or NP_NONE: an
                                              input, alive from the start to its last use */
    const uint8_t *kept;                   /* by value: alive until the end */
    const uint64_t *scratch;               /* by node: alive while it runs; NULL: none */
    const uint32_t *use_first, *use;       /* by node: the values it reads, each once */
    const uint32_t *wait_first, *wait;     /* by node: nodes that must have run; NULL: none */
    const uint32_t *over;                  /* by value: the value, read by its maker, of equal
                                              size, whose place it takes if that dies there;
                                              NP_NONE; NULL: none */
    bool any_over;                         /* any equal-sized value that dies at the maker */
    uint64_t enough;                       /* a peak below which no lower one is looked for */
    uint64_t workspace;                    /* the most bytes that a search takes; 0: no limit */
} np_order_graph;

typedef struct np_order_result {
    uint32_t *order; /* n_nodes, the caller's: nodes as they should run */
    uint64_t peak, program_peak;
    bool exact;        /* no order has a lower peak */
    const char *found; /* the candidate: "program", "eager", "window" … */
} np_order_result;

/* The peak of an order, a permutation that respects reads and waits. UINT64_MAX: no memory. */
uint64_t np_order_peak(neap_context *ctx, const np_order_graph *g, const uint32_t *order);
/* Takes workspace from ctx (category graph) and gives it back: about 100 bytes a node, and what the
 * search takes (up to a megabyte or so; for 20 nodes up to ten). NEAP_ENOMEM. */
neap_status np_order_find(neap_context *ctx, const np_order_graph *g, np_order_result *out);

#endif
