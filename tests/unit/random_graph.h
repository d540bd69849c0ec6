/* random_graph.h - a program as a list of nodes, which can be listed and built again and again: as
 * one graph, or node by node over values. random_draw.h draws them. */
#ifndef RANDOM_GRAPH_H
#define RANDOM_GRAPH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "neap/ops.h"
#include "neap/plan.h"

enum { GRAPH_NODES = 280, GRAPH_ROOTS = 8, GRAPH_STATES = 2, NODE_INPUTS = 4 };

/* LIMIT: the first rows, as many as the parameter says. READ: of state `op`. WRITE: of in[0] into a
 * slice of state `op`. ARANGE: as long as arg[0][0]. CAST: to dtype `op`. SPLIT: part `op` of
 * arg[0][0]. UNARY, BINARY, REDUCE: row `op` of a table. */
#define NODE_KINDS(X)                                                                          \
    X(LEAF, "leaf") X(LIMIT, "limit") X(READ, "read") X(WRITE, "write")                        \
    X(ARANGE, "arange") X(UNARY, "") X(BINARY, "") X(WHERE, "where") X(CAST, "cast")           \
    X(RESHAPE, "reshape") X(TRANSPOSE, "transpose") X(SLICE, "slice")                          \
    X(BROADCAST, "broadcast_to") X(EXPAND, "expand_dims") X(SQUEEZE, "squeeze")                \
    X(REDUCE, "") X(CUMSUM, "cumsum") X(SOFTMAX, "softmax") X(RMS_NORM, "rms_norm")            \
    X(LAYER_NORM, "layer_norm") X(MATMUL, "matmul") X(ADDMM, "addmm") X(CONCAT, "concat")      \
    X(STACK, "stack") X(SPLIT, "split") X(UPDATE, "slice_update") X(TAKE, "take")              \
    X(COPY, "contiguous") X(PAD, "pad")
#define KIND(kind, name)      kind,
#define KIND_NAME(kind, name) name,
typedef enum node_kind { NODE_KINDS(KIND) } node_kind;
static const char *const kind_names[] = {NODE_KINDS(KIND_NAME)};

typedef struct graph_node {
    node_kind kind;
    int op, axis, n_in, in[NODE_INPUTS];
    unsigned flags;
    int n_args; /* lists in `arg` that mean something, `width` numbers each */
    int width;
    int64_t arg[3][NEAP_MAX_RANK];
    int rank; /* of the result */
    int64_t shape[NEAP_MAX_RANK];
    int64_t now[NEAP_MAX_RANK]; /* the shape at run time */
    neap_dtype dtype;
    void *data; /* of a leaf */
} graph_node;

typedef struct random_graph {
    uint64_t seed, random;
    graph_node node[GRAPH_NODES];
    int n, n_roots, root[GRAPH_ROOTS], n_states;
    graph_node state[GRAPH_STATES]; /* shapes and first contents; data NULL: no bytes at first */
    int64_t extent[3], most;        /* usual extents; most elements of a node */
    int64_t rows;                   /* > 0: the extent that the parameter gives, of extent[0] */
    /* while it is drawn */
    int users[GRAPH_NODES];
    neap_array *drawn[GRAPH_NODES], *drawn_now[GRAPH_NODES]; /* at capacity; for `rows` */
    neap_state *drawn_state[GRAPH_STATES];
    neap_param *param;
} random_graph;

/* ---- building one node -------------------------------------------------------------------------
 */

#define UNARY_OPS(X)                                                                           \
    X(neg)                                                                                     \
    X(abs)                                                                                     \
    X(square) X(exp) X(tanh) X(sigmoid) X(relu) X(gelu) X(silu) X(floor) X(sqrt) X(reciprocal) \
        X(logical_not) X(isnan) X(sign) X(erf) X(cos) X(round)
#define BINARY_OPS(X)                                                                    \
    X(add)                                                                               \
    X(sub)                                                                               \
    X(mul) X(div) X(maximum) X(minimum) X(less) X(greater_equal) X(equal) X(logical_and) \
        X(logical_or) X(arctan2) X(logaddexp) X(remainder) X(add) X(mul)
#define REDUCE_OPS(X) X(sum) X(mean) X(max) X(min) X(argmax)
/* What else works along an axis. */
#define ALONG_OPS(X)                                                                         \
    X(variance) X(logsumexp) X(product) X(any) X(sum_two) X(sort) X(argsort) X(topk) X(flip) \
    X(roll) X(repeat) X(tril) X(triu) X(cumprod) X(cummax)

static inline neap_array *along_variance(neap_array *x, int axis, unsigned flags)
{
    return neap_var_axes(x, 1, &axis, 0, flags);
}

static inline neap_array *along_logsumexp(neap_array *x, int axis, unsigned flags)
{
    return neap_logsumexp_axes(x, 1, &axis, flags);
}

static inline neap_array *along_product(neap_array *x, int axis, unsigned flags)
{
    return neap_prod_axes(x, 1, &axis, flags);
}

static inline neap_array *along_any(neap_array *x, int axis, unsigned flags)
{
    return neap_any_axes(x, 1, &axis, flags);
}

/* Over this axis and the next, or over all. */
static inline neap_array *along_sum_two(neap_array *x, int axis, unsigned flags)
{
    const int axes[2] = {axis, axis + 1};
    return neap_sum_axes(x, neap_array_rank(x) > 1 && axis + 1 < 0 ? 2 : 0, axes, flags);
}

static inline neap_array *along_sort(neap_array *x, int axis, unsigned flags)
{
    (void)flags;
    return neap_sort(x, axis);
}

static inline neap_array *along_argsort(neap_array *x, int axis, unsigned flags)
{
    (void)flags;
    return neap_argsort(x, axis);
}

static inline neap_array *along_topk(neap_array *x, int axis, unsigned flags)
{
    return neap_topk(x, 1 + flags, axis);
}

static inline neap_array *along_flip(neap_array *x, int axis, unsigned flags)
{
    (void)flags;
    return neap_flip(x, 1, &axis);
}

static inline neap_array *along_roll(neap_array *x, int axis, unsigned flags)
{
    const int64_t shift = flags ? -2 : 1;
    return neap_roll(x, 1, &shift, &axis);
}

static inline neap_array *along_repeat(neap_array *x, int axis, unsigned flags)
{
    return neap_repeat(x, 2 + flags, axis);
}

static inline neap_array *along_tril(neap_array *x, int axis, unsigned flags)
{
    return neap_tril(x, axis + (int)flags);
}

static inline neap_array *along_triu(neap_array *x, int axis, unsigned flags)
{
    return neap_triu(x, axis + (int)flags);
}

static inline neap_array *along_cumprod(neap_array *x, int axis, unsigned flags)
{
    return neap_cumprod(x, axis, flags, false);
}

static inline neap_array *along_cummax(neap_array *x, int axis, unsigned flags)
{
    return neap_cummax(x, axis, flags, true);
}

#define NAME(op)      #op,
#define ALONG(op)     along_##op,
#define CALL(op)      neap_##op,
static const char *const unary_names[] = {UNARY_OPS(NAME)};
static neap_array *(*const unary_calls[])(neap_array *) = {UNARY_OPS(CALL)};
static const char *const binary_names[] = {BINARY_OPS(NAME)};
static neap_array *(*const binary_calls[])(neap_array *, neap_array *) = {BINARY_OPS(CALL)};
static const char *const reduce_names[] = {REDUCE_OPS(NAME) ALONG_OPS(NAME)};
static neap_array *(*const reduce_calls[])(neap_array *, int, unsigned) = {
    REDUCE_OPS(CALL) ALONG_OPS(ALONG)};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static inline neap_array *build_leaf(const graph_node *n)
{
    return neap_array_over(n->dtype, n->rank, n->shape, n->data, NULL, NULL);
}

static neap_status build_split_status; /* the first that failed: told, not stored */

static inline neap_array *build_split(const graph_node *n, neap_array *x)
{
    neap_array *parts[8] = {NULL};
    const neap_status status = neap_split(x, (int)n->arg[0][0], n->axis, parts);
    if (x && build_split_status == NEAP_OK)
        build_split_status = status;
    return status == NEAP_OK ? parts[n->op] : NULL;
}

static inline neap_array *build_view(const graph_node *n, neap_array *x)
{
    int axes[NEAP_MAX_RANK];
    switch (n->kind) {
    case RESHAPE:
        return neap_reshape(x, n->width, n->arg[0]);
    case TRANSPOSE:
        for (int d = 0; d < n->width; d++)
            axes[d] = (int)n->arg[0][d];
        return neap_transpose(x, axes);
    case SLICE:
        return neap_slice(x, n->arg[0], n->arg[1], n->arg[2]);
    case BROADCAST:
        return neap_broadcast_to(x, n->width, n->arg[0]);
    case EXPAND:
        return neap_expand_dims(x, n->axis);
    case SQUEEZE:
        return neap_squeeze(x, n->axis);
    default:
        return build_split(n, x);
    }
}

static inline neap_array *build_op(const graph_node *n, neap_array *const *in)
{
    switch (n->kind) {
    case ARANGE:
        return neap_arange(0, (double)n->arg[0][0], 1, n->op ? NEAP_F32 : NEAP_I32);
    case UNARY:
        return unary_calls[n->op](in[0]);
    case BINARY:
        return binary_calls[n->op](in[0], in[1]);
    case WHERE:
        return neap_where(in[0], in[1], in[2]);
    case CAST:
        return neap_cast(in[0], (neap_dtype)n->op);
    case REDUCE:
        return reduce_calls[n->op](in[0], n->axis, n->flags);
    case CUMSUM:
        return neap_cumsum(in[0], n->axis, n->flags & 1, true);
    case SOFTMAX:
        return neap_softmax(in[0], n->axis);
    case RMS_NORM:
        return neap_rms_norm(in[0], n->n_in > 1 ? in[1] : NULL, 1e-5f);
    case LAYER_NORM:
        return neap_layer_norm(in[0], n->n_in > 1 ? in[1] : NULL, n->n_in > 2 ? in[2] : NULL,
                               1e-5f);
    case MATMUL:
        return neap_matmul(in[0], in[1]);
    case ADDMM:
        return neap_addmm(in[0], in[1], in[2], n->op ? 1 : 0.5f, n->flags ? 1 : -0.25f);
    case CONCAT:
        return neap_concat(n->n_in, in, n->axis);
    case STACK:
        return neap_stack(n->n_in, in, n->axis);
    case UPDATE:
        return neap_slice_update(in[0], in[1], n->arg[0], n->arg[1], n->arg[2]);
    case TAKE:
        return neap_take(in[0], in[1], n->axis);
    case COPY:
        return neap_contiguous(in[0]);
    case PAD:
        return neap_pad(in[0], n->arg[0], n->arg[1], 0.5);
    default:
        return build_view(n, in[0]);
    }
}

/* How a program is built: over the parameter, or (param NULL) for just as many rows. */
typedef struct build_target {
    neap_state **states;
    neap_param *param;
    int64_t rows;
} build_target;

static inline neap_array *build_node(const graph_node *n, neap_array *const *before,
                                     const build_target *to)
{
    neap_array *in[NODE_INPUTS];
    for (int i = 0; i < n->n_in; i++)
        in[i] = before[n->in[i]];
    switch (n->kind) {
    case LEAF:
        return build_leaf(n);
    case LIMIT:
        return to->param ? neap_limit(in[0], 0, to->param) : neap_narrow(in[0], 0, 0, to->rows);
    case READ:
        return neap_state_read(to->states[n->op]);
    case WRITE:
        return neap_state_write(
            neap_slice(neap_state_read(to->states[n->op]), n->arg[0], n->arg[1], n->arg[2]), in[0]);
    default:
        return build_op(n, in);
    }
}

/* ---- listing -----------------------------------------------------------------------------------
 */

static inline void list_shape(const graph_node *n)
{
    fprintf(stderr, "%s [", neap_dtype_describe(n->dtype)->name);
    for (int d = 0; d < n->rank; d++)
        fprintf(stderr, d ? ", %lld" : "%lld", (long long)n->shape[d]);
    fprintf(stderr, "]");
}

static inline void list_node(const random_graph *g, int i)
{
    const graph_node *n = &g->node[i];
    fprintf(stderr, "%4d: ", i);
    list_shape(n);
    fprintf(stderr, " = %s(",
            n->kind == UNARY    ? unary_names[n->op]
            : n->kind == BINARY ? binary_names[n->op]
            : n->kind == REDUCE ? reduce_names[n->op]
                                : kind_names[n->kind]);
    for (int k = 0; k < n->n_in; k++)
        fprintf(stderr, k ? ", %d" : "%d", n->in[k]);
    fprintf(stderr, ")");
    for (int k = 0; k < n->n_args; k++)
        for (int d = 0; d < n->width; d++)
            if (n->arg[k][d] == NEAP_END)
                fprintf(stderr, "%send", d ? ", " : " ");
            else
                fprintf(stderr, d ? ", %lld" : " %lld", (long long)n->arg[k][d]);
    if (n->kind == READ || n->kind == WRITE)
        fprintf(stderr, " state %d", n->op);
    else if (n->kind > BINARY)
        fprintf(stderr, " axis %d, flags %u, op %d", n->axis, n->flags, n->op);
    fprintf(stderr, "\n");
}

static inline void list_graph(const random_graph *g)
{
    fprintf(stderr, "graph of seed %llu: %d nodes; roots", (unsigned long long)g->seed, g->n);
    for (int r = 0; r < g->n_roots; r++)
        fprintf(stderr, " %d", g->root[r]);
    if (g->rows)
        fprintf(stderr, "; %lld rows at run time", (long long)g->rows);
    fprintf(stderr, "\n");
    for (int s = 0; s < g->n_states; s++) {
        fprintf(stderr, "state %d: ", s);
        list_shape(&g->state[s]);
        fprintf(stderr, "%s\n", g->state[s].data ? "" : ", no bytes at first");
    }
    for (int i = 0; i < g->n; i++)
        list_node(g, i);
}

/* ---- the rest ----------------------------------------------------------------------------------
 */

static inline int64_t shape_size(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    return n;
}

static inline void free_graph(random_graph *g)
{
    for (int i = 0; i < g->n; i++)
        free(g->node[i].kind == LEAF ? g->node[i].data : NULL);
    for (int s = 0; s < g->n_states; s++)
        free(g->state[s].data);
}

/* New states with their first contents. */
static inline void make_states(const random_graph *g, neap_context *ctx, neap_state **states)
{
    for (int s = 0; s < g->n_states; s++) {
        const graph_node *n = &g->state[s];
        assert_int_equal(neap_state_new(ctx, "state", n->dtype, n->rank, n->shape, &states[s]),
                         NEAP_OK);
        if (n->data) {
            neap_state_write(neap_state_read(states[s]), build_leaf(n));
            assert_int_equal(neap_state_flush(states[s]), NEAP_OK);
        }
    }
}

#endif
