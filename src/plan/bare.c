/* bare.c - the planner's order and placement for graphs that are sizes and edges only, such as
 * other compilers' graphs. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/versioned.h"
#include "plan/order.h"

static const uint64_t most_bytes = (uint64_t)1 << 62;

/* What np_order_find wants, and room for the answer; one block of memory. */
typedef struct bare {
    const neap_bare_graph *graph;
    void *memory;
    size_t memory_bytes;
    np_order_graph g;
    uint32_t *node_of; /* by value (a node of the bare graph): node that makes it, or NP_NONE */
    uint32_t *value_of; /* the other way round */
    uint8_t *kept;
    uint32_t *use_first, *use, *order;
    np_block *blocks;
    uint32_t *step; /* by value: where it is made */
} bare;

/* ---- the graph is checked ---------------------------------------------------------------------- */

static neap_status check_node(neap_context *ctx, const neap_bare_graph *graph, uint32_t i,
                              uint64_t *sum, uint32_t *met)
{
    const uint32_t first = graph->dep_first[i], end = graph->dep_first[i + 1];
    if (graph->bytes[i] >= most_bytes - *sum)
        return np_fail(ctx, NEAP_EINVAL,
                       "node %" PRIu32 ": %" PRIu64 " bytes: the graph has 2^62 or more", i,
                       graph->bytes[i]);
    *sum += graph->bytes[i];
    if (end < first)
        return np_fail(ctx, NEAP_EINVAL, "node %" PRIu32 ": its dependencies end before they begin",
                       i);
    if ((graph->flags[i] & NEAP_BARE_INPUT) && end > first)
        return np_fail(ctx, NEAP_EINVAL, "node %" PRIu32 ": an input, but depends on node %" PRIu32,
                       i, graph->dep[first]);
    for (uint32_t j = first; j < end; j++) {
        const uint32_t d = graph->dep[j];
        if (d >= i)
            return np_fail(ctx, NEAP_EINVAL,
                           "node %" PRIu32 ": depends on node %" PRIu32 ", which is not before it", i,
                           d);
        if (met[d] == i)
            return np_fail(ctx, NEAP_EINVAL, "node %" PRIu32 ": depends on node %" PRIu32 " twice",
                           i, d);
        met[d] = i;
    }
    return NEAP_OK;
}

static neap_status check(neap_context *ctx, const neap_bare_graph *graph)
{
    if (graph->n == NP_NONE)
        return np_fail(ctx, NEAP_EINVAL, "a graph of %" PRIu32 " nodes: too many", graph->n);
    if (graph->n && graph->dep_first[0] != 0)
        return np_fail(ctx, NEAP_EINVAL, "dep_first begins with %" PRIu32 ", not with 0",
                       graph->dep_first[0]);
    const size_t bytes = ((size_t)graph->n + 1) * sizeof(uint32_t);
    uint32_t *met = np_alloc(ctx, NEAP_MEM_GRAPH, bytes); /* by node: the last that depends on it */
    if (!met)
        return NEAP_ENOMEM;
    memset(met, 0xff, bytes);
    neap_status status = NEAP_OK;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < graph->n && status == NEAP_OK; i++)
        status = check_node(ctx, graph, i, &sum, met);
    np_free(ctx, NEAP_MEM_GRAPH, met, bytes);
    return status;
}

/* ---- as a graph to order ------------------------------------------------------------------------ */

static void *take(uint8_t *base, size_t *used, size_t n, size_t element)
{
    void *p = base ? base + *used : NULL;
    *used += (n * element + 15) & ~(size_t)15;
    return p;
}

static void lay_out(bare *b, uint8_t *base, size_t *used)
{
    const size_t n = b->graph->n;
    b->node_of = take(base, used, n, sizeof *b->node_of);
    b->value_of = take(base, used, n, sizeof *b->value_of);
    b->kept = take(base, used, n, sizeof *b->kept);
    b->use_first = take(base, used, n + 1, sizeof *b->use_first);
    b->order = take(base, used, n, sizeof *b->order);
    b->blocks = take(base, used, n, sizeof *b->blocks);
    b->step = take(base, used, n, sizeof *b->step);
}

static bool make(bare *b, neap_context *ctx)
{
    const neap_bare_graph *graph = b->graph;
    lay_out(b, NULL, &b->memory_bytes);
    b->memory = np_calloc(ctx, NEAP_MEM_GRAPH, b->memory_bytes);
    if (!b->memory)
        return false;
    size_t used = 0;
    lay_out(b, b->memory, &used);
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < graph->n; i++) {
        const bool input = graph->flags[i] & NEAP_BARE_INPUT;
        b->kept[i] = (graph->flags[i] & NEAP_BARE_OUTPUT) != 0;
        b->node_of[i] = input ? NP_NONE : nodes;
        if (input)
            continue;
        b->value_of[nodes] = i;
        b->use_first[nodes++] = graph->dep_first[i];
        b->use_first[nodes] = graph->dep_first[i + 1];
    }
    b->g = (np_order_graph){.n_nodes = nodes,
                            .n_values = graph->n,
                            .bytes = graph->bytes,
                            .maker = b->node_of,
                            .kept = b->kept,
                            .use_first = b->use_first,
                            .use = graph->dep,
                            .any_over = graph->in_place};
    return true;
}

/* ---- lifetimes and places ------------------------------------------------------------------------ */

/* A value of equal size that ends at the step and whose place nothing has taken; NP_NONE. */
static uint32_t place_to_take(const bare *b, uint32_t value, uint32_t step)
{
    const neap_bare_graph *graph = b->graph;
    for (uint32_t j = graph->dep_first[value]; j < graph->dep_first[value + 1]; j++) {
        const uint32_t d = graph->dep[j];
        if (graph->bytes[d] == graph->bytes[value] && !b->kept[d] && b->blocks[d].last == step)
            return d;
    }
    return NP_NONE;
}

static void set_lifetimes(bare *b)
{
    const neap_bare_graph *graph = b->graph;
    const uint32_t steps = b->g.n_nodes, end = steps ? steps - 1 : 0;
    for (uint32_t s = 0; s < steps; s++)
        b->step[b->value_of[b->order[s]]] = s;
    for (uint32_t i = 0; i < graph->n; i++)
        b->blocks[i] = (np_block){.bytes = graph->bytes[i],
                                  .first = b->step[i],
                                  .last = b->kept[i] ? end : b->step[i],
                                  .owner = i};
    for (uint32_t i = 0; i < graph->n; i++)
        if (graph->flags[i] & NEAP_BARE_INPUT)
            b->blocks[i].bytes = b->kept[i] ? graph->bytes[i] : 0; /* until a user is found */
    for (uint32_t s = 0; s < steps; s++) {
        const uint32_t value = b->value_of[b->order[s]];
        for (uint32_t j = graph->dep_first[value]; j < graph->dep_first[value + 1]; j++) {
            np_block *d = &b->blocks[graph->dep[j]];
            d->bytes = graph->bytes[graph->dep[j]];
            d->last = d->last < s ? s : d->last;
        }
    }
    for (uint32_t s = 0; graph->in_place && s < steps; s++) {
        const uint32_t value = b->value_of[b->order[s]], d = place_to_take(b, value, s);
        if (d != NP_NONE)
            b->blocks[value].owner = b->blocks[d].owner;
    }
    for (uint32_t i = 0; i < graph->n; i++) {
        np_block *owner = &b->blocks[b->blocks[i].owner];
        owner->last = owner->last < b->blocks[i].last ? b->blocks[i].last : owner->last;
    }
}

/* The first step at which `peak` bytes are alive. */
static bool find_peak_step(const bare *b, neap_context *ctx, neap_bare_plan *plan)
{
    const uint32_t steps = b->g.n_nodes;
    const size_t bytes = ((size_t)steps + 2) * sizeof(int64_t);
    int64_t *change = np_calloc(ctx, NEAP_MEM_GRAPH, bytes), live = 0;
    if (!change)
        return false;
    for (uint32_t i = 0; i < b->graph->n; i++) {
        const np_block *k = &b->blocks[i];
        if (k->owner == i) {
            change[k->first] += (int64_t)k->bytes;
            change[k->last + 1] -= (int64_t)k->bytes;
        }
    }
    plan->peak_step = 0;
    for (uint32_t s = 0; s < steps; s++) {
        live += change[s];
        if ((uint64_t)live == plan->peak_bytes) {
            plan->peak_step = s;
            break;
        }
    }
    np_free(ctx, NEAP_MEM_GRAPH, change, bytes);
    return true;
}

static void tell(const bare *b, uint32_t *order, uint64_t *offsets)
{
    uint32_t n = 0;
    for (uint32_t i = 0; order && i < b->graph->n; i++)
        if (b->node_of[i] == NP_NONE)
            order[n++] = i;
    for (uint32_t s = 0; order && s < b->g.n_nodes; s++)
        order[n++] = b->value_of[b->order[s]];
    for (uint32_t i = 0; offsets && i < b->graph->n; i++)
        offsets[i] = b->blocks[i].offset;
}

static neap_status plan_made(bare *b, neap_context *ctx, neap_bare_plan *plan)
{
    np_order_result found = {.order = b->order};
    neap_status status = np_order_find(ctx, &b->g, &found);
    if (status != NEAP_OK)
        return status;
    plan->peak_bytes = found.peak;
    plan->program_order_bytes = found.program_peak;
    plan->exact = found.exact;
    plan->steps = b->g.n_nodes;
    set_lifetimes(b);
    np_work work = {.ctx = ctx};
    plan->arena_bytes = np_place(&work, b->blocks, b->graph->n);
    np_work_free(&work);
    return plan->arena_bytes != UINT64_MAX && find_peak_step(b, ctx, plan) ? NEAP_OK : NEAP_ENOMEM;
}

static neap_status plan_bare(neap_context *ctx, const neap_bare_graph *graph, uint32_t *order,
                           uint64_t *offsets, neap_bare_plan *plan)
{
    const double start = np_seconds();
    neap_bare_graph own = NEAP_BARE_GRAPH_INIT;
    neap_bare_plan made = NEAP_BARE_PLAN_INIT;
    bare b = {.graph = &own};
    neap_status status = np_take_options(ctx, "bare graph", graph, &own, sizeof own);
    if (status == NEAP_OK)
        status = check(ctx, &own);
    if (status == NEAP_OK && !make(&b, ctx))
        status = NEAP_ENOMEM;
    if (status == NEAP_OK)
        status = plan_made(&b, ctx, &made);
    if (status == NEAP_OK) {
        tell(&b, order, offsets);
        made.seconds = np_seconds() - start;
        np_tell(plan, &made, sizeof made);
    }
    np_free(ctx, NEAP_MEM_GRAPH, b.memory, b.memory_bytes);
    return status;
}

neap_status neap_plan_bare(neap_context *ctx, const neap_bare_graph *graph, uint32_t *order,
                           uint64_t *offsets, neap_bare_plan *plan)
{
    return NP_CALL(ctx, graph && plan, plan_bare(ctx, graph, order, offsets, plan));
}

static neap_status place_blocks(neap_context *ctx, uint32_t n, const uint32_t *first,
                              const uint32_t *end, const uint64_t *bytes, uint64_t *offsets,
                              uint64_t *arena)
{
    const size_t size = ((size_t)n + 1) * sizeof(np_block);
    uint64_t sum = 0;
    np_block *blocks = np_alloc(ctx, NEAP_MEM_GRAPH, size);
    if (!blocks)
        return NEAP_ENOMEM;
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; i < n && status == NEAP_OK; i++) {
        if (end[i] <= first[i])
            status = np_fail(ctx, NEAP_EINVAL,
                             "block %" PRIu32 ": alive from step %" PRIu32 " to before step %" PRIu32,
                             i, first[i], end[i]);
        else if (bytes[i] >= most_bytes - sum)
            status = np_fail(ctx, NEAP_EINVAL,
                             "block %" PRIu32 ": %" PRIu64 " bytes: the blocks have 2^62 or more", i,
                             bytes[i]);
        else
            sum += bytes[i];
        blocks[i] =
            (np_block){.bytes = bytes[i], .first = first[i], .last = end[i] - 1, .owner = i};
    }
    np_work work = {.ctx = ctx};
    if (status == NEAP_OK && (*arena = np_place(&work, blocks, n)) == UINT64_MAX)
        status = NEAP_ENOMEM;
    np_work_free(&work);
    for (uint32_t i = 0; i < n && status == NEAP_OK; i++)
        offsets[i] = blocks[i].offset;
    np_free(ctx, NEAP_MEM_GRAPH, blocks, size);
    return status;
}

neap_status neap_place_blocks(neap_context *ctx, uint32_t n, const uint32_t *first,
                              const uint32_t *end, const uint64_t *bytes, uint64_t *offsets,
                              uint64_t *arena)
{
    return NP_CALL(ctx, arena && (n == 0 || (first && end && bytes && offsets)), place_blocks(ctx, n, first, end, bytes, offsets, arena));
}
