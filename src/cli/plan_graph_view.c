/* plan_graph_view.c - see plan_graph_view.h. */
#include "cli/plan_graph_view.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NEVER = -1 };

typedef struct graph_view {
    const neap_bare_graph *graph;
    const uint32_t *order;
    const uint64_t *offsets;
    uint32_t steps, inputs;
    int64_t *first, *last; /* by node: steps at which its value is alive; NEVER */
    uint64_t *live;        /* by step */
} graph_view;

/* An input is there from the start; one that nobody uses and that is no output takes nothing. */
static void find_lifetimes(graph_view *v)
{
    const neap_bare_graph *g = v->graph;
    for (uint32_t i = 0; i < g->n; i++) {
        const uint32_t node = v->order[i];
        const int64_t step = (int64_t)i - v->inputs;
        const bool output = g->flags[node] & NEAP_BARE_OUTPUT;
        v->first[node] = step < 0 ? 0 : step;
        v->last[node] = output ? (int64_t)v->steps - 1 : step < 0 ? NEVER : step;
        for (uint32_t j = g->dep_first[node]; j < g->dep_first[node + 1]; j++)
            if (v->last[g->dep[j]] < step)
                v->last[g->dep[j]] = step;
    }
}

/* In place: what dies where a value is made, in the same place, is alive until the step before. */
static void end_taken_over(graph_view *v)
{
    const neap_bare_graph *g = v->graph;
    for (uint32_t i = v->inputs; g->in_place && i < g->n; i++) {
        const uint32_t node = v->order[i];
        const int64_t step = (int64_t)i - v->inputs;
        for (uint32_t j = g->dep_first[node]; j < g->dep_first[node + 1]; j++) {
            const uint32_t from = g->dep[j];
            if (v->last[from] == step && !(g->flags[from] & NEAP_BARE_OUTPUT) &&
                v->offsets[from] == v->offsets[node] && g->bytes[from] == g->bytes[node]) {
                v->last[from] = step - 1;
                break;
            }
        }
    }
}

static void count_live(graph_view *v)
{
    const neap_bare_graph *g = v->graph;
    for (uint32_t i = 0; i < g->n; i++)
        if (v->last[i] >= v->first[i]) {
            v->live[v->first[i]] += g->bytes[i];
            v->live[v->last[i] + 1] -= g->bytes[i];
        }
    for (uint32_t s = 1; s < v->steps; s++)
        v->live[s] += v->live[s - 1];
}

const char *cli_plan_graph_op(uint8_t flags)
{
    return flags & NEAP_BARE_INPUT ? "input" : flags & NEAP_BARE_OUTPUT ? "output" : "node";
}

static bool add_value(const graph_view *v, uint32_t node, cli_plan_part *part)
{
    char name[32];
    const neap_bare_graph *g = v->graph;
    const neap_plan_value value = {.name = name,
                                   .op = cli_plan_graph_op(g->flags[node]),
                                   .kind = NEAP_PLAN_ACTIVATION,
                                   .bytes = g->bytes[node],
                                   .offset = v->offsets[node],
                                   .first = v->first[node],
                                   .last = v->last[node]};
    snprintf(name, sizeof name, "node %" PRIu32, node);
    return value.last < value.first || !value.bytes || cli_part_value(part, &value);
}

static bool add_step(const graph_view *v, uint32_t step, cli_plan_part *part)
{
    char name[32];
    const uint32_t node = v->order[v->inputs + step];
    const neap_plan_step s = {.name = name,
                              .op = cli_plan_graph_op(v->graph->flags[node]),
                              .ops = 1,
                              .live_bytes = v->live[step]};
    snprintf(name, sizeof name, "node %" PRIu32, node);
    return cli_part_step(part, &s);
}

static bool add_all(graph_view *v, cli_plan_part *part)
{
    bool ok = true;
    find_lifetimes(v);
    end_taken_over(v);
    count_live(v);
    for (uint32_t s = 0; ok && s < v->steps; s++)
        ok = add_step(v, s, part);
    for (uint32_t i = 0; ok && v->steps && i < v->graph->n; i++)
        ok = add_value(v, v->order[i], part);
    return ok;
}

bool cli_plan_graph_view(cli_plan_data *data, const neap_bare_graph *graph, const uint32_t *order,
                         const uint64_t *offsets, const neap_bare_plan *plan)
{
    const neap_plan_info info = {.size = sizeof info,
                                 .peak_bytes = plan->peak_bytes,
                                 .arena_bytes = plan->arena_bytes,
                                 .largest_live_bytes = plan->peak_bytes,
                                 .steps = plan->steps,
                                 .peak_step = plan->peak_step,
                                 .plan_seconds = plan->seconds};
    graph_view v = {.graph = graph,
                    .order = order,
                    .offsets = offsets,
                    .steps = plan->steps,
                    .inputs = graph->n - plan->steps,
                    .first = calloc((size_t)graph->n + 1, sizeof *v.first),
                    .last = calloc((size_t)graph->n + 1, sizeof *v.last),
                    .live = calloc((size_t)plan->steps + 1, sizeof *v.live)};
    cli_plan_part *part = cli_plan_data_part(data, "graph", &info, true);
    const bool ok = part && v.first && v.last && v.live && add_all(&v, part);
    free(v.first);
    free(v.last);
    free(v.live);
    return ok;
}
