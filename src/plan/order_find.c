/* order_find.c - candidates are tried, the best is kept and searched; see order.h. */
#include "plan/order.h"

#include <string.h>

#include "plan/order_work.h"

/* ---- the graph turned round ------------------------------------------------------------------ */

/* Hands out parts of one block; the first pass only counts. */
typedef struct cursor {
    uint8_t *base;
    size_t used;
} cursor;

static void *take(cursor *c, size_t n, size_t element)
{
    void *p = c->base ? c->base + c->used : NULL;
    c->used += (n * element + 15) & ~(size_t)15;
    return p;
}

static void lay_out(np_ordering *w, cursor *c)
{
    const np_order_graph *g = w->g;
    size_t n = g->n_nodes, v = g->n_values, uses = n ? g->use_first[n] : 0;
    size_t edges = uses + (g->wait && n ? g->wait_first[n] : 0);
    w->key = take(c, n, sizeof *w->key);
    w->made_first = take(c, n + 1, sizeof(uint32_t));
    w->made = take(c, v, sizeof(uint32_t));
    w->reader_first = take(c, v + 1, sizeof(uint32_t));
    w->reader = take(c, uses, sizeof(uint32_t));
    w->before_first = take(c, n + 1, sizeof(uint32_t));
    w->before = take(c, edges, sizeof(uint32_t));
    w->after_first = take(c, n + 1, sizeof(uint32_t));
    w->after = take(c, edges, sizeof(uint32_t));
    w->best = take(c, n, sizeof(uint32_t));
    w->trial = take(c, n, sizeof(uint32_t));
    w->left = take(c, v, sizeof(uint32_t));
    w->missing = take(c, n, sizeof(uint32_t));
    w->list = take(c, 2 * n, sizeof(uint32_t));
}

/* first[i + 1] counts of i become first[i] starts; filling moves them up, unshift moves them back. */
static void sum_up(uint32_t *first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        first[i + 1] += first[i];
}

static void unshift(uint32_t *first, uint32_t n)
{
    memmove(first + 1, first, n * sizeof *first);
    first[0] = 0;
}

static void fill_made(np_ordering *w)
{
    const np_order_graph *g = w->g;
    for (uint32_t v = 0; v < g->n_values; v++)
        if (g->maker[v] != NP_NONE)
            w->made_first[g->maker[v] + 1]++;
    sum_up(w->made_first, g->n_nodes);
    for (uint32_t v = 0; v < g->n_values; v++)
        if (g->maker[v] != NP_NONE)
            w->made[w->made_first[g->maker[v]]++] = v;
    unshift(w->made_first, g->n_nodes);
}

static void fill_readers(np_ordering *w)
{
    const np_order_graph *g = w->g;
    uint32_t n = g->n_nodes;
    for (uint32_t i = 0; n && i < g->use_first[n]; i++)
        w->reader_first[g->use[i] + 1]++;
    sum_up(w->reader_first, g->n_values);
    for (uint32_t node = 0; node < n; node++)
        for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
            w->reader[w->reader_first[g->use[i]]++] = node;
    unshift(w->reader_first, g->n_values);
}

static void fill_edges(np_ordering *w)
{
    const np_order_graph *g = w->g;
    uint32_t n = 0;
    for (uint32_t node = 0; node < g->n_nodes; node++) {
        w->before_first[node] = n;
        for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
            if (g->maker[g->use[i]] != NP_NONE)
                w->before[n++] = g->maker[g->use[i]];
        for (uint32_t i = g->wait ? g->wait_first[node] : 0;
             g->wait && i < g->wait_first[node + 1]; i++)
            w->before[n++] = g->wait[i];
    }
    w->before_first[g->n_nodes] = n;
    for (uint32_t i = 0; i < n; i++)
        w->after_first[w->before[i] + 1]++;
    sum_up(w->after_first, g->n_nodes);
    for (uint32_t node = 0; node < g->n_nodes; node++)
        for (uint32_t i = w->before_first[node]; i < w->before_first[node + 1]; i++)
            w->after[w->after_first[w->before[i]]++] = node;
    unshift(w->after_first, g->n_nodes);
}

bool np_ordering_make(np_ordering *w, neap_context *ctx, const np_order_graph *g)
{
    *w = (np_ordering){.ctx = ctx, .g = g};
    cursor c = {0};
    lay_out(w, &c);
    w->memory_bytes = c.used;
    w->memory = np_workspace_take(ctx, w->memory_bytes);
    if (!w->memory)
        return false;
    c = (cursor){w->memory, 0};
    lay_out(w, &c);
    fill_made(w);
    fill_readers(w);
    fill_edges(w);
    return true;
}

void np_ordering_free(np_ordering *w)
{
    np_workspace_free(w->ctx, w->memory, w->memory_bytes);
    w->memory = NULL;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool has_users(const np_ordering *w, uint32_t value)
{
    return w->g->kept[value] || w->reader_first[value] < w->reader_first[value + 1];
}

void np_order_start(np_ordering *w)
{
    const np_order_graph *g = w->g;
    w->live = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        w->left[v] = w->reader_first[v + 1] - w->reader_first[v];
        if (g->maker[v] == NP_NONE && has_users(w, v))
            w->live += g->bytes[v];
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        w->missing[i] = w->before_first[i + 1] - w->before_first[i];
    w->peak = w->live;
}

static bool dies(const np_ordering *w, uint32_t value)
{
    return w->left[value] == 1 && !w->g->kept[value];
}

/* Does made value number i of the node take the place of one that dies? */
static bool takes_over(const np_ordering *w, uint32_t node, uint32_t i)
{
    const np_order_graph *g = w->g;
    const uint32_t value = w->made[i];
    const uint64_t bytes = g->bytes[value];
    if (!g->any_over)
        return g->over && g->over[value] != NP_NONE && dies(w, g->over[value]);
    uint32_t earlier = 0, dying = 0; /* of equal size: each place is taken once */
    for (uint32_t j = w->made_first[node]; j < i; j++)
        earlier += g->bytes[w->made[j]] == bytes;
    for (uint32_t j = g->use_first[node]; j < g->use_first[node + 1]; j++)
        dying += g->bytes[g->use[j]] == bytes && dies(w, g->use[j]);
    return dying > earlier;
}

np_order_change np_order_weigh(const np_ordering *w, uint32_t node)
{
    const np_order_graph *g = w->g;
    np_order_change c = {np_order_scratch(g, node), 0};
    for (uint32_t i = w->made_first[node]; i < w->made_first[node + 1]; i++) {
        const uint32_t value = w->made[i];
        if (has_users(w, value))
            c.after += (int64_t)g->bytes[value];
        if (!((g->any_over || g->over) && takes_over(w, node, i)))
            c.while_running += g->bytes[value];
    }
    for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
        if (dies(w, g->use[i]))
            c.after -= (int64_t)g->bytes[g->use[i]];
    return c;
}

void np_order_run(np_ordering *w, uint32_t node)
{
    const np_order_graph *g = w->g;
    const np_order_change c = np_order_weigh(w, node);
    if (w->live + c.while_running > w->peak)
        w->peak = w->live + c.while_running;
    w->live += (uint64_t)c.after;
    for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++)
        w->left[g->use[i]]--;
}

static uint64_t peak_of(np_ordering *w, const uint32_t *order)
{
    np_order_start(w);
    for (uint32_t i = 0; i < w->g->n_nodes; i++)
        np_order_run(w, order ? order[i] : i);
    return w->peak;
}

uint64_t np_order_peak(neap_context *ctx, const np_order_graph *g, const uint32_t *order)
{
    np_ordering w;
    if (!np_ordering_make(&w, ctx, g))
        return UINT64_MAX;
    uint64_t peak = peak_of(&w, order);
    np_ordering_free(&w);
    return peak;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* No order can do with less: what the start, the end and each node must hold. A kept input is alive
 * all the time; `w` is at the start of a run. */
static uint64_t lower_bound(np_ordering *w)
{
    const np_order_graph *g = w->g;
    uint64_t always = 0, end = 0, most = w->live;
    for (uint32_t v = 0; v < g->n_values; v++) {
        end += g->kept[v] ? g->bytes[v] : 0;
        always += g->kept[v] && g->maker[v] == NP_NONE ? g->bytes[v] : 0;
    }
    most = end > most ? end : most;
    for (uint32_t node = 0; node < g->n_nodes; node++) {
        uint64_t sum = always + np_order_scratch(g, node), read = 0, made = 0;
        for (uint32_t i = g->use_first[node]; i < g->use_first[node + 1]; i++) {
            const uint32_t v = g->use[i];
            read += g->kept[v] && g->maker[v] == NP_NONE ? 0 : g->bytes[v];
        }
        for (uint32_t i = w->made_first[node]; i < w->made_first[node + 1]; i++)
            made += g->bytes[w->made[i]];
        /* A result that takes a place needs none; each place is one of those read. */
        sum += !(g->over || g->any_over) ? read + made : made > read ? made : read;
        most = sum > most ? sum : most;
    }
    return most;
}

static void keep_if_better(np_ordering *w, np_order_result *out, const char *name)
{
    uint64_t peak = peak_of(w, w->trial);
    if (peak >= w->best_peak)
        return;
    w->best_peak = peak;
    memcpy(w->best, w->trial, w->g->n_nodes * sizeof *w->best);
    out->found = name;
}

neap_status np_order_find(neap_context *ctx, const np_order_graph *g, np_order_result *out)
{
    const neap_status before = ctx->status;
    np_ordering w;
    if (!np_ordering_make(&w, ctx, g))
        return NEAP_ENOMEM;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        w.best[i] = i;
    w.best_peak = out->program_peak = peak_of(&w, w.best);
    np_order_start(&w);
    w.bound = lower_bound(&w);
    out->found = "program";
    out->exact = w.best_peak == w.bound;
    const uint64_t enough = w.bound > g->enough ? w.bound : g->enough;
    for (int i = 0; i < np_order_n_candidates && w.best_peak > enough && np_check(ctx) == NEAP_OK; i++) {
        np_order_candidates[i].find(&w);
        keep_if_better(&w, out, np_order_candidates[i].name);
    }
    if (w.best_peak > enough && !np_interrupted(ctx) && np_order_search(&w, &out->exact))
        out->found = "window";
    out->exact = out->exact || w.best_peak == w.bound;
    if (g->n_nodes)
        memcpy(out->order, w.best, g->n_nodes * sizeof *out->order);
    out->peak = w.best_peak;
    np_ordering_free(&w);
    if (np_check(ctx) != NEAP_OK)
        return NEAP_ECANCELLED;
    return before == NEAP_OK ? ctx->status : NEAP_OK; /* a search may have got no memory */
}
