/* random_draw.h - draws the random program of a seed: elementwise ops of several dtypes, views,
 * reductions, norms, products, joins, effects; chains, spelled-out softmaxes, sums of siblings, masks
 * of several.
 *
 * A drawn node is kept only if its builder takes it, so shape rules are the library's own; what a
 * test compares is plans of one program with each other. Numbers come from bits, not from libm. */
#ifndef RANDOM_DRAW_H
#define RANDOM_DRAW_H

#include "random_graph.h"

/* ---- numbers ------------------------------------------------------------------------------ */

static inline uint64_t random_bits(random_graph *g)
{
    uint64_t z = g->random += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline int rnd(random_graph *g, int n)
{
    return (int)(random_bits(g) >> 33) % n;
}

/* Floats of 1/8 to 4, of either sign; small integers; truths. */
static inline void fill_leaf(random_graph *g, neap_dtype dtype, void *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = random_bits(g);
        uint32_t exponent = (uint32_t)(r >> 40) % 5, sign = (uint32_t)(r >> 32) & 1;
        if (dtype == NEAP_F32)
            ((uint32_t *)out)[i] = sign << 31 | (124 + exponent) << 23 | (r & 0x7fffff);
        else if (dtype == NEAP_F16)
            ((uint16_t *)out)[i] = (uint16_t)(sign << 15 | (12 + exponent) << 10 | (r & 0x3ff));
        else if (dtype == NEAP_BF16)
            ((uint16_t *)out)[i] = (uint16_t)(sign << 15 | (124 + exponent) << 7 | (r & 0x7f));
        else if (dtype == NEAP_I32)
            ((int32_t *)out)[i] = (int32_t)(r % 19) - 9;
        else
            ((uint8_t *)out)[i] = r & 1;
    }
}

/* ---- drawing: nodes with what they need --------------------------------------------------- */

/* Takes the node if its builder does and its result is not too large; its index, or -1. */
static inline int add_node(random_graph *g, graph_node n)
{
    if (g->n == GRAPH_NODES)
        return -1;
    const build_target to = {g->drawn_state, g->param, g->rows}, now = {NULL, NULL, g->rows};
    neap_array *a = build_node(&n, g->drawn, &to);
    neap_array *b = g->rows && a ? build_node(&n, g->drawn_now, &now) : a;
    if (!b || neap_array_size(a) > g->most) {
        free(n.data);
        return -1;
    }
    n.rank = neap_array_rank(a);
    n.dtype = neap_array_dtype(a);
    memcpy(n.shape, neap_array_shape(a), (size_t)n.rank * sizeof *n.shape);
    memcpy(n.now, neap_array_shape(b), (size_t)n.rank * sizeof *n.now);
    g->drawn[g->n] = a;
    g->drawn_now[g->n] = b;
    for (int i = 0; i < n.n_in; i++)
        g->users[n.in[i]]++;
    g->node[g->n] = n;
    return g->n++;
}

static inline void fill_node(random_graph *g, graph_node *n)
{
    int64_t size = shape_size(n->rank, n->shape);
    n->data = malloc((size_t)size * 4 + 4);
    assert_non_null(n->data);
    fill_leaf(g, n->dtype, n->data, size);
}

static inline int add_leaf(random_graph *g, neap_dtype dtype, int rank, const int64_t *shape)
{
    graph_node n = {.kind = LEAF, .dtype = dtype, .rank = rank};
    if (rank)
        memcpy(n.shape, shape, (size_t)rank * sizeof *shape);
    fill_node(g, &n);
    return add_node(g, n);
}

static inline neap_dtype any_dtype(random_graph *g)
{
    static const neap_dtype often[12] = {NEAP_F32, NEAP_F32, NEAP_F32,  NEAP_F32,
                                         NEAP_F32, NEAP_F32, NEAP_F32,  NEAP_F16,
                                         NEAP_BF16, NEAP_I32, NEAP_BOOL, NEAP_U8};
    return often[rnd(g, 12)];
}

static inline int any_leaf(random_graph *g)
{
    const int64_t a = g->extent[0], b = g->extent[1], c = g->extent[2];
    const int64_t shapes[][3] = {{a, b}, {a, b}, {a, b}, {b}, {a, 1}, {0}, {1, b}, {c, a, b}};
    static const int ranks[] = {2, 2, 2, 1, 2, 0, 2, 3};
    int k = rnd(g, COUNT(ranks) - (g->rows > 0));
    return add_leaf(g, any_dtype(g), ranks[k], shapes[k]);
}

static inline bool can_be_used(const random_graph *g, int i)
{
    const graph_node *n = &g->node[i];
    bool whole = g->rows && n->kind == LEAF && n->rank && n->shape[0] == g->extent[0];
    return n->kind != WRITE && !whole; /* its first rows are used instead */
}

/* Any node: of the last ones, one without a user yet, a hub that many use, or whichever; rather a
 * large one than a small one. */
static inline int any_node(random_graph *g)
{
    int best = -1;
    for (int tries = 0; best < 0 || tries < (g->most > 4096 ? 4 : 2); tries++) {
        int k = rnd(g, 20), i = k < 8 ? g->n - 1 - rnd(g, g->n < 5 ? g->n : 5)
                                : k < 10 ? g->n / 3 : rnd(g, g->n);
        while (k >= 14 && g->users[i] && i + 1 < g->n)
            i++;
        if (can_be_used(g, i) &&
            (best < 0 || shape_size(g->node[i].rank, g->node[i].shape) >
                             shape_size(g->node[best].rank, g->node[best].shape)))
            best = i;
    }
    return best;
}

static inline bool same_shape(const graph_node *a, const graph_node *b)
{
    return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static inline bool broadcastable(const graph_node *a, const graph_node *b)
{
    for (int d = 1; d <= a->rank && d <= b->rank; d++) {
        int64_t x = a->shape[a->rank - d], y = b->shape[b->rank - d];
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return true;
}

/* A node that can be combined with x: as it is, or (same) of its very shape and dtype. */
static inline int partner(random_graph *g, int x, bool same)
{
    for (int tries = 0; tries < 12; tries++) {
        int y = any_node(g);
        if (same ? same_shape(&g->node[x], &g->node[y]) && g->node[x].dtype == g->node[y].dtype
                 : broadcastable(&g->node[x], &g->node[y]))
            return y;
    }
    return x;
}

static inline bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F16 || dtype == NEAP_BF16;
}

static inline int any_axis(random_graph *g, const graph_node *x)
{
    return x->rank ? rnd(g, x->rank) - (rnd(g, 2) ? x->rank : 0) : 0;
}

static inline graph_node node_of(node_kind kind, int x)
{
    return (graph_node){.kind = kind, .n_in = 1, .in = {x}};
}

/* ---- drawing: one kind each. -1: nothing came of it --------------------------------------- */

static inline int draw_reshape(random_graph *g, int x)
{
    graph_node n = node_of(RESHAPE, x);
    const graph_node *from = &g->node[x];
    int64_t size = shape_size(from->rank, from->shape);
    n.n_args = 1;
    if (rnd(g, 3) == 0) {
        n.width = 1;
        n.arg[0][0] = -1;
    } else if (rnd(g, 2) && from->rank >= 2) { /* the first two become one */
        n.width = from->rank - 1;
        for (int d = 0; d < n.width; d++)
            n.arg[0][d] = d ? from->shape[d + 1] : from->shape[0] * from->shape[1];
    } else { /* two factors */
        int64_t f = 1;
        for (int64_t k = 2; k <= 64 && k <= size; k++)
            if (size % k == 0 && rnd(g, 3) == 0)
                f = k;
        n.width = 2;
        n.arg[0][0] = size / f;
        n.arg[0][1] = f;
    }
    return add_node(g, n);
}

static inline int draw_transpose(random_graph *g, int x)
{
    graph_node n = node_of(TRANSPOSE, x);
    n.width = g->node[x].rank;
    n.n_args = 1;
    for (int d = 0; d < n.width; d++) {
        int k = rnd(g, d + 1);
        n.arg[0][d] = n.arg[0][k];
        n.arg[0][k] = d;
    }
    return add_node(g, n);
}

/* Of each axis all, a part, every second, or backwards; now and then nothing. */
static inline void draw_range(random_graph *g, const graph_node *x, graph_node *n)
{
    n->width = x->rank;
    n->n_args = 3;
    for (int d = 0; d < x->rank; d++) {
        int64_t extent = x->shape[d], low = rnd(g, (int)extent / 2 + 1);
        int how = x->now[d] != extent ? 0 : rnd(g, 6); /* set at run time: all */
        bool all = how <= 2, back = how == 5;
        n->arg[0][d] = all || back ? NEAP_END : low;
        n->arg[1][d] = all || back ? NEAP_END : low + 1 + rnd(g, (int)(extent - low) + 1);
        n->arg[2][d] = back ? -1 - rnd(g, 2) : how == 4 ? 2 : 1;
        if (how == 3 && rnd(g, 40) == 0)
            n->arg[1][d] = low;
    }
}

static inline int draw_slice(random_graph *g, int x)
{
    graph_node n = node_of(SLICE, x);
    draw_range(g, &g->node[x], &n);
    return add_node(g, n);
}

static inline int draw_broadcast(random_graph *g, int x)
{
    graph_node n = node_of(BROADCAST, x);
    const graph_node *from = &g->node[x];
    int more = from->rank < 3 ? rnd(g, 2) : 0;
    n.width = from->rank + more;
    n.n_args = 1;
    n.arg[0][0] = g->extent[2];
    for (int d = 0; d < from->rank; d++)
        n.arg[0][d + more] = from->shape[d] == 1 ? g->extent[rnd(g, 2)] : from->shape[d];
    return add_node(g, n);
}

static inline int draw_product(random_graph *g, int x)
{
    const graph_node *a = &g->node[x];
    if (!is_float(a->dtype) || a->rank == 0)
        return -1;
    const int64_t k = a->shape[a->rank - 1];
    int y = -1;
    for (int tries = 0; tries < 6 && y < 0 && rnd(g, 3); tries++) {
        int i = any_node(g);
        const graph_node *b = &g->node[i];
        if (is_float(b->dtype) && b->rank >= 2 && b->shape[b->rank - 2] == k &&
            b->shape[b->rank - 1] <= 256)
            y = i;
    }
    if (y < 0) {
        const int64_t columns = g->most > 100000 && rnd(g, 3) ? g->extent[1] : 1 + rnd(g, 20);
        const int64_t shape[3] = {a->rank == 3 ? a->shape[0] : 1, k, columns};
        bool batched = a->rank == 3 && rnd(g, 2) && !g->rows;
        y = add_leaf(g, rnd(g, 2) ? a->dtype : NEAP_F32, 2 + batched, shape + !batched);
    }
    if (y < 0)
        return -1;
    graph_node n = {.kind = MATMUL, .n_in = 2, .in = {x, y}};
    if (rnd(g, 3) == 0) {
        const int64_t *columns = &g->node[y].shape[g->node[y].rank - 1];
        int bias = add_leaf(g, NEAP_F32, rnd(g, 4) != 0, columns);
        if (bias < 0)
            return -1;
        n = (graph_node){.kind = ADDMM, .op = rnd(g, 2), .flags = (unsigned)rnd(g, 2), .n_in = 3,
                         .in = {bias, x, y}};
    }
    return add_node(g, n);
}

static inline int draw_join(random_graph *g, int x)
{
    graph_node n = {.kind = rnd(g, 3) ? CONCAT : STACK, .n_in = 2 + rnd(g, NODE_INPUTS - 1)};
    for (int i = 0; i < n.n_in; i++)
        n.in[i] = partner(g, x, true);
    n.axis = any_axis(g, &g->node[x]);
    return add_node(g, n);
}

static inline int draw_split(random_graph *g, int x)
{
    graph_node n = node_of(SPLIT, x);
    n.axis = any_axis(g, &g->node[x]);
    if (g->node[x].rank == 0)
        return -1;
    int64_t extent = g->node[x].shape[n.axis < 0 ? n.axis + g->node[x].rank : n.axis];
    int parts = extent % 3 == 0 ? 3 : 2;
    n.arg[0][0] = parts;
    n.n_args = n.width = 1;
    int first = -1;
    for (n.op = parts - 1; n.op >= 0; n.op--)
        first = add_node(g, n);
    return first;
}

static inline int draw_update(random_graph *g, int x)
{
    graph_node n = {.kind = UPDATE, .n_in = 2, .in = {x}};
    draw_range(g, &g->node[x], &n);
    graph_node part = n;
    part.kind = SLICE;
    part.n_in = 1;
    part.in[0] = partner(g, x, true);
    n.in[1] = rnd(g, 4) ? add_node(g, part) : add_leaf(g, g->node[x].dtype, 0, NULL);
    return n.in[1] < 0 ? -1 : add_node(g, n);
}

static inline int draw_take(random_graph *g, int x)
{
    const graph_node *from = &g->node[x];
    if (from->rank == 0)
        return -1;
    graph_node n = {.kind = TAKE, .n_in = 2, .in = {x}, .axis = rnd(g, from->rank)};
    int64_t extent = from->now[n.axis], shape[2] = {1 + rnd(g, 6), 1 + rnd(g, 3)};
    if (extent == 0)
        return -1;
    int rank = rnd(g, 3), i = n.in[1] = add_leaf(g, NEAP_I32, rank, shape);
    if (i < 0)
        return -1;
    int32_t *at = g->node[i].data;
    for (int64_t k = 0; k < shape_size(rank, shape); k++)
        at[k] = (int32_t)(rnd(g, (int)extent) - (rnd(g, 4) ? 0 : extent));
    return add_node(g, n);
}

static inline int draw_norm(random_graph *g, int x)
{
    const graph_node *from = &g->node[x];
    if (!is_float(from->dtype) || from->rank == 0)
        return -1;
    graph_node n = node_of(rnd(g, 2) ? RMS_NORM : LAYER_NORM, x);
    neap_dtype dtype = from->dtype;
    int64_t extent = from->shape[from->rank - 1];
    for (int k = rnd(g, n.kind == RMS_NORM ? 2 : 3); k > 0; k--)
        if ((n.in[n.n_in++] = add_leaf(g, dtype, 1, &extent)) < 0)
            return -1;
    return add_node(g, n);
}

static inline int draw_pad(random_graph *g, int x)
{
    graph_node n = node_of(PAD, x);
    n.width = g->node[x].rank;
    n.n_args = 2;
    for (int d = 0; d < n.width; d++) {
        n.arg[0][d] = rnd(g, 3);
        n.arg[1][d] = rnd(g, 2);
    }
    return g->rows ? -1 : add_node(g, n);
}

/* Makes something of the state's shape (or of its part) out of x, and writes it. */
static inline int draw_write(random_graph *g, int x)
{
    if (!g->n_states)
        return -1;
    graph_node n = {.kind = WRITE, .op = rnd(g, g->n_states), .n_in = 1};
    const graph_node *s = &g->state[n.op];
    draw_range(g, s, &n);
    int read = add_node(g, (graph_node){.kind = READ, .op = n.op});
    graph_node part = n;
    part.kind = SLICE;
    part.in[0] = read;
    int target = read < 0 ? -1 : add_node(g, part);
    if (target < 0)
        return -1;
    if (!same_shape(&g->node[target], &g->node[x])) {
        while (x >= 0 && g->node[x].rank > 0)
            x = add_node(g, (graph_node){.kind = REDUCE, .op = 2, .n_in = 1, .in = {x}});
        if (x < 0)
            return -1;
        graph_node sum = {.kind = BINARY, .n_in = 2, .in = {target, x}};
        x = rnd(g, 2) ? add_node(g, sum) : -1;
    }
    if (x < 0 || !same_shape(&g->node[target], &g->node[x]))
        return -1;
    n.in[0] = x;
    return add_node(g, n);
}

/* The same again: what a planner merges. */
static inline int draw_twin(random_graph *g, int x)
{
    node_kind kind = g->node[x].kind;
    return kind == LEAF || kind == LIMIT ? -1 : add_node(g, g->node[x]);
}

static inline int draw_elementwise(random_graph *g, int x)
{
    graph_node n = node_of(UNARY, x);
    int k = rnd(g, 10);
    if (k < 3) {
        n.op = rnd(g, COUNT(unary_calls));
    } else if (k < 8) {
        n.kind = BINARY;
        n.op = rnd(g, COUNT(binary_calls));
        n.in[n.n_in++] = partner(g, x, false);
        if (rnd(g, 2)) {
            n.in[0] = n.in[1];
            n.in[1] = x;
        }
    } else if (k < 9) {
        n.kind = WHERE;
        n.in[0] = partner(g, x, false);
        n.in[1] = x;
        n.in[2] = partner(g, x, false);
        n.n_in = 3;
        if (!broadcastable(&g->node[n.in[0]], &g->node[n.in[2]]))
            return -1;
    } else {
        n.kind = CAST;
        n.op = rnd(g, 20) ? (int)any_dtype(g) : NEAP_I64;
    }
    return add_node(g, n);
}

static inline int draw_along(random_graph *g, int x)
{
    static const node_kind kinds[] = {REDUCE, REDUCE, REDUCE, SOFTMAX, SOFTMAX, CUMSUM};
    if (g->node[x].rank == 0)
        return -1;
    graph_node n = node_of(kinds[rnd(g, COUNT(kinds))], x);
    n.axis = any_axis(g, &g->node[x]);
    n.flags = (unsigned)rnd(g, 2);
    n.op = n.kind == REDUCE ? rnd(g, rnd(g, 2) ? 5 : COUNT(reduce_calls)) : 0; /* 5: reductions */
    if (g->rows && n.kind == REDUCE && strcmp(reduce_names[n.op], "sum_two") == 0)
        return -1; /* one axis after the other then: docs/numerics.md */
    return add_node(g, n);
}

static inline int draw_other(random_graph *g, int x)
{
    const int rank = g->node[x].rank;
    graph_node n = node_of(COPY, x);
    switch (rnd(g, 5)) {
    case 0:
        n.kind = EXPAND;
        n.axis = rnd(g, rank + 1);
        break;
    case 1:
        n.kind = SQUEEZE;
        n.axis = any_axis(g, &g->node[x]);
        break;
    case 2:
        n = (graph_node){.kind = ARANGE, .op = rnd(g, 2), .n_args = 1, .width = 1,
                         .arg = {{g->extent[rnd(g, 2)]}}};
        break;
    case 3:
        if (g->n_states)
            n = (graph_node){.kind = READ, .op = rnd(g, g->n_states)};
        break;
    default:
        break;
    }
    return n.kind == SQUEEZE && rank == 0 ? -1 : add_node(g, n);
}

/* ---- drawing: what programs are made of --------------------------------------------------- */

static inline int row_of(const char *const *names, const char *name)
{
    int op = 0;
    while (strcmp(names[op], name) != 0)
        op++;
    return op;
}

static inline int map(random_graph *g, const char *name, int x)
{
    int op = row_of(unary_names, name);
    return x < 0 ? -1 : add_node(g, (graph_node){.kind = UNARY, .op = op, .n_in = 1, .in = {x}});
}

static inline int combine(random_graph *g, const char *name, int x, int y)
{
    int op = row_of(binary_names, name);
    if (x < 0 || y < 0)
        return -1;
    return add_node(g, (graph_node){.kind = BINARY, .op = op, .n_in = 2, .in = {x, y}});
}

static inline int reduce(random_graph *g, const char *name, int x, int axis, unsigned flags)
{
    int op = row_of(reduce_names, name);
    if (x < 0)
        return -1;
    return add_node(g, (graph_node){.kind = REDUCE, .op = op, .n_in = 1, .in = {x}, .axis = axis,
                                    .flags = flags});
}

static inline int softmax(random_graph *g, int x)
{
    if (x < 0)
        return -1;
    return add_node(g, (graph_node){.kind = SOFTMAX, .n_in = 1, .in = {x}, .axis = -1});
}

static inline int draw_chain(random_graph *g, int x)
{
    for (int k = 3 + rnd(g, 6); k > 0 && x >= 0; k--) {
        int y = rnd(g, 3) ? draw_elementwise(g, x) : combine(g, "add", x, partner(g, x, false));
        x = y < 0 ? x : y;
    }
    return x;
}

/* A softmax, and a norm, of small ops. */
static inline int draw_spelled(random_graph *g, int x)
{
    if (g->node[x].rank == 0 || !is_float(g->node[x].dtype))
        return -1;
    int axis = rnd(g, 3) ? g->node[x].rank - 1 : any_axis(g, &g->node[x]);
    if (rnd(g, 2)) {
        int e = map(g, "exp", combine(g, "sub", x, reduce(g, "max", x, axis, NEAP_KEEPDIMS)));
        return combine(g, "div", e, reduce(g, "sum", e, axis, NEAP_KEEPDIMS));
    }
    int d = combine(g, "sub", x, reduce(g, "mean", x, axis, NEAP_KEEPDIMS));
    int variance = reduce(g, "mean", map(g, "square", d), axis, NEAP_KEEPDIMS);
    return combine(g, "mul", d, map(g, "reciprocal", map(g, "sqrt", variance)));
}

/* A sum of siblings that all come from x: nothing but the sum need be kept. */
static inline int draw_siblings(random_graph *g, int x)
{
    int sum = -1, how = rnd(g, 3), w = -1;
    if (how == 2 && (w = draw_product(g, x)) < 0)
        return -1;
    int columns = w < 0 ? -1 : g->node[w].in[g->node[w].kind == ADDMM ? 2 : 1];
    for (int k = 2 + rnd(g, 5); k > 0; k--) {
        int y = draw_elementwise(g, x);
        if (y < 0 || !same_shape(&g->node[y], &g->node[x]))
            continue;
        if (how == 1 && g->node[x].rank)
            y = rnd(g, 2) ? softmax(g, y) : reduce(g, "sum", y, -1, 0);
        if (how == 2)
            y = add_node(g, (graph_node){.kind = MATMUL, .n_in = 2, .in = {y, columns}});
        if (sum < 0)
            sum = y;
        else if (y >= 0 && broadcastable(&g->node[sum], &g->node[y]))
            sum = combine(g, "add", sum, y);
    }
    return sum;
}

/* Scores of x's rows with each other, weighted rows; then the residual. */
static inline int draw_attention(random_graph *g, int x)
{
    const graph_node *n = &g->node[x];
    if (n->rank < 2 || !is_float(n->dtype) || n->shape[n->rank - 2] > 400)
        return -1;
    graph_node turn = {.kind = TRANSPOSE, .n_in = 1, .in = {x}, .n_args = 1, .width = n->rank};
    for (int d = 0; d < n->rank; d++)
        turn.arg[0][d] = d < n->rank - 2 ? d : 2 * n->rank - 3 - d;
    int k = add_node(g, turn);
    int scores = k < 0 ? -1 : add_node(g, (graph_node){.kind = MATMUL, .n_in = 2, .in = {x, k}});
    int p = rnd(g, 2) || scores < 0 ? softmax(g, scores) : draw_spelled(g, scores);
    if (p < 0)
        return -1;
    int y = add_node(g, (graph_node){.kind = MATMUL, .n_in = 2, .in = {p, x}});
    return combine(g, "add", x, y);
}

/* Layers of products, each of what is made of the one before. */
static inline int draw_layers(random_graph *g, int x)
{
    for (int k = 2 + rnd(g, 3); k > 0 && x >= 0; k--) {
        int y = draw_product(g, x);
        x = y < 0 || rnd(g, 2) ? y : draw_elementwise(g, y);
        x = x < 0 || rnd(g, 2) ? x : map(g, "gelu", x);
    }
    return x;
}

/* What a mask is made of: cheap ops, each read by the next one only. */
static inline int draw_mask(random_graph *g, int x)
{
    static const char *const names[] = {"greater_equal", "less", "add", "mul", "maximum", "equal"};
    int m = x;
    for (int k = 1 + rnd(g, 3); k > 0; k--) {
        int y = rnd(g, 6) ? combine(g, names[rnd(g, COUNT(names))], m, rnd(g, 2) ? x : partner(g, x, false))
                          : draw_elementwise(g, m);
        m = y >= 0 && same_shape(&g->node[y], &g->node[x]) ? y : m;
    }
    return m;
}

/* Something of several, all seen through one mask: what that is made of lacks the axis of the several, the
 * first one or the second. */
static inline int draw_masked(random_graph *g)
{
    int64_t shape[4] = {1, 1, 1, 1}, size = 0;
    const int64_t several = 2 + rnd(g, 3);
    int x = -1;
    for (int tries = 0; tries < 12; tries++) {
        int i = any_node(g);
        const int64_t n = shape_size(g->node[i].rank, g->node[i].shape);
        if (n > size && n <= g->most / several && g->node[i].rank && g->node[i].rank < 4) {
            size = n;
            x = i;
        }
    }
    if (x < 0)
        return -1;
    const int rank = g->node[x].rank, second = rank > 1 && rnd(g, 4) == 0;
    int m = draw_mask(g, x);
    shape[second] = several;
    const int apart = add_leaf(g, NEAP_F32, rank + 1, shape);
    if (second) {
        m = add_node(g, (graph_node){.kind = EXPAND, .n_in = 1, .in = {m}, .axis = 1});
        x = add_node(g, (graph_node){.kind = EXPAND, .n_in = 1, .in = {x}, .axis = 1});
    }
    int y = combine(g, rnd(g, 2) ? "mul" : "sub", x, apart);
    for (int k = rnd(g, 3); k > 0; k--)
        y = map(g, k == 1 ? "exp" : "abs", y);
    if (rnd(g, 2))
        y = combine(g, rnd(g, 2) ? "add" : "mul", y, m);
    else if (y >= 0 && m >= 0)
        y = add_node(g, (graph_node){.kind = WHERE, .n_in = 3, .in = {m, y, apart}});
    return y < 0 || rnd(g, 4) == 0 ? y : rnd(g, 2) ? softmax(g, y) : reduce(g, "sum", y, -1, 0);
}

/* Element k of each row. */
static inline int pick(random_graph *g, int x, int64_t k)
{
    const graph_node *n = &g->node[x];
    graph_node v = {.kind = SLICE, .n_in = 1, .in = {x}, .n_args = 3, .width = n->rank};
    for (int d = 0; d < n->rank; d++) {
        const bool last = d == n->rank - 1;
        v.arg[0][d] = last ? k : NEAP_END;
        v.arg[1][d] = last ? k + 1 : NEAP_END;
        v.arg[2][d] = 1;
    }
    return add_node(g, v);
}

/* Rows beside what is made of them: one of their elements, which later ones of the same row meet; sums of
 * rows, and of those again. */
static inline int draw_rows(random_graph *g)
{
    int64_t shape[3] = {1, rnd(g, 2) ? 1 : 2 + rnd(g, 20), 4 + rnd(g, rnd(g, 2) ? 1200 : 40)};
    shape[0] = g->most / (2 * shape[1] * shape[2]);
    int x = shape[0] > 1 && rnd(g, 4) ? add_leaf(g, NEAP_F32, 3, shape) : any_node(g);
    if (x < 0 || g->node[x].rank == 0 || !is_float(g->node[x].dtype))
        return -1;
    int t = combine(g, rnd(g, 2) ? "mul" : "add", x, partner(g, x, false));
    if (t < 0 || !same_shape(&g->node[t], &g->node[x]))
        return -1;
    int y = combine(g, "sub", t, pick(g, t, rnd(g, (int)g->node[t].shape[g->node[t].rank - 1])));
    for (int k = 1 + rnd(g, 2); k > 0 && y >= 0; k--) {
        int sum = reduce(g, rnd(g, 2) ? "sum" : "max", map(g, "square", y), -1, k == 1 ? 0 : NEAP_KEEPDIMS);
        y = k == 1 ? sum : combine(g, rnd(g, 2) ? "sub" : "maximum", y, sum);
    }
    if (y < 0 || g->node[y].rank == 0)
        return y;
    int twice = combine(g, "add", y, y), again = reduce(g, "sum", twice, -1, NEAP_KEEPDIMS);
    int d = combine(g, "sub", twice, again), u = combine(g, "mul", d, d);
    return combine(g, "add", combine(g, "sub", u, reduce(g, "sum", u, -1, NEAP_KEEPDIMS)), twice);
}

static inline int draw_motif(random_graph *g, int x)
{
    switch (rnd(g, g->most > 100000 ? 9 : 7)) {
    case 0:
    case 1:
        return draw_chain(g, x);
    case 2:
        return draw_spelled(g, x);
    case 3:
        return draw_siblings(g, x);
    case 4:
        return draw_attention(g, x);
    case 5:
        x = draw_product(g, x);
        return x < 0 ? -1 : draw_chain(g, x);
    default:
        return draw_layers(g, x);
    }
}

static inline int draw_node(random_graph *g)
{
    int x = any_node(g), k = rnd(g, g->most > 100000 ? 140 : 112);
    if (k >= 100)
        return draw_motif(g, x);
    if (k < 44)
        return draw_elementwise(g, x);
    if (k < 56)
        return draw_along(g, x);
    if (k < 61)
        return draw_norm(g, x);
    if (k < 67)
        return draw_product(g, x);
    if (k < 71)
        return g->rows ? -1 : draw_reshape(g, x);
    if (k < 75)
        return draw_transpose(g, x);
    if (k < 79)
        return draw_slice(g, x);
    if (k < 82)
        return g->rows ? -1 : draw_broadcast(g, x);
    if (k < 85)
        return draw_join(g, x);
    if (k < 88)
        return g->rows ? -1 : draw_split(g, x);
    if (k < 90)
        return draw_update(g, x);
    if (k < 92)
        return draw_take(g, x);
    if (k < 93)
        return draw_pad(g, x);
    if (k < 95)
        return draw_twin(g, x);
    return k < 97 ? draw_write(g, x) : draw_other(g, x);
}

/* ---- whole graphs ------------------------------------------------------------------------- */

/* Mostly a few elements; many with values that are worth a group of ops (8192 elements and more),
 * around the size of tiles; a few with many rows or long ones. The number of nodes. */
static inline int draw_extents(random_graph *g)
{
    static const int64_t tall[][2] = {{3000, 40}, {70, 1024}, {2049, 33}, {129, 320},
                                      {4097, 4},  {2, 8200},  {600, 64},  {257, 100},
                                      {200, 270}, {140, 300}, {300, 257}, {97, 288}};
    const int k = rnd(g, 100), size = rnd(g, 100);
    for (int d = 0; d < 3; d++)
        g->extent[d] = 1 + rnd(g, k < 45 ? 6 : 13);
    g->most = 4096;
    if (k >= 75) {
        g->extent[0] = 8 + rnd(g, 1 << (5 + rnd(g, 6)));
        g->extent[1] = 8192 / g->extent[0] + 1 + rnd(g, 12);
        g->most = 40000;
    }
    if (k >= 97) { /* products with columns for columns are run over blocks of rows */
        memcpy(g->extent, tall[rnd(g, COUNT(tall))], sizeof tall[0]);
        g->most = 300000;
    }
    if (k >= 75)
        g->extent[2] = 2;
    if (rnd(g, 7) == 0 && g->extent[0] > 2) /* of one row a product takes another way */
        g->rows = 2 + rnd(g, (int)g->extent[0] - 1);
    if (k >= 75)
        return 5 + rnd(g, 14);
    return size < 75 ? 5 + rnd(g, 20) : size < 97 ? 20 + rnd(g, 45) : 60 + rnd(g, 140);
}

static inline void draw_states(random_graph *g, neap_context *ctx)
{
    g->n_states = !g->rows && rnd(g, 4) == 0 ? 1 + rnd(g, GRAPH_STATES) : 0;
    for (int s = 0; s < g->n_states; s++) {
        graph_node *n = &g->state[s];
        *n = (graph_node){.dtype = any_dtype(g), .rank = 2, .shape = {g->extent[0], g->extent[1]},
                          .now = {g->extent[0], g->extent[1]}};
        if (rnd(g, 4))
            fill_node(g, n);
        assert_int_equal(
            neap_state_new(ctx, "state", n->dtype, n->rank, n->shape, &g->drawn_state[s]), NEAP_OK);
    }
}

static inline void draw_roots(random_graph *g)
{
    g->root[g->n_roots++] = any_node(g);
    for (int i = g->n - 1; i >= 0 && g->n_roots < 4; i--) /* what nothing else needs */
        if (g->users[i] == 0 && can_be_used(g, i) && rnd(g, 3))
            g->root[g->n_roots++] = i;
    for (int k = rnd(g, 3); k > 0; k--)
        g->root[g->n_roots++] = rnd(g, 6) ? rnd(g, g->n) : g->root[0];
    for (int s = 0; s < g->n_states; s++) { /* what all writes left */
        int i = add_node(g, (graph_node){.kind = READ, .op = s});
        if (i >= 0)
            g->root[g->n_roots++] = i;
    }
}

/* Draws the graph of a seed. Its arrays are built in a scope of ctx that is closed again. */
static inline void draw_graph(random_graph *g, uint64_t seed, neap_context *ctx)
{
    memset(g, 0, sizeof *g);
    g->seed = seed;
    g->random = seed * 0x5851F42D4C957F2Du;
    int want = draw_extents(g);
    draw_states(g, ctx);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    if (g->rows)
        assert_int_equal(neap_param_new(ctx, "rows", g->extent[0], &g->param), NEAP_OK);
    for (int k = 1 + rnd(g, 4); k > 0; k--) {
        int i = any_leaf(g);
        const graph_node *n = &g->node[i];
        if (g->rows && n->rank == 2 && n->shape[0] == g->extent[0])
            add_node(g, node_of(LIMIT, i));
    }
    if (g->rows) /* at least one with that extent, and one that can be drawn */
        add_node(g, node_of(LIMIT, add_leaf(g, NEAP_F32, 2, g->extent)));
    for (int tries = 0; g->n < want && tries < 40 * want; tries++) {
        draw_node(g);
        neap_context_clear_error(ctx);
    }
    for (int k = g->seed % 2 ? 0 : 2; k > 0; k--) {
        draw_masked(g);
        neap_context_clear_error(ctx);
        draw_rows(g);
        neap_context_clear_error(ctx);
    }
    draw_roots(g);
    neap_scope_pop(ctx);
    neap_param_free(g->param);
    g->param = NULL;
    for (int s = 0; s < g->n_states; s++)
        neap_state_free(g->drawn_state[s]);
}

#endif
