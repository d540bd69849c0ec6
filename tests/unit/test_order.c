/* test_order.c - orders against the least peak over all orders, found here by trying them all, and
 * against recorded optima; placements against the most that is alive at once; both when memory runs
 * out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "neap/plan.h"
#include "plan/order.h"

enum { MOST = 256, MOST_EDGES = MOST * 4 };

static uint32_t random_state;

static uint32_t next(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static neap_context *new_context(int64_t fail_allocation)
{
    neap_context *ctx;
    neap_context_options options = NEAP_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    options.fail_allocation = fail_allocation;
    assert_int_equal(neap_context_new(&options, &ctx), NEAP_OK);
    return ctx;
}

/* ---- graphs with one value a node ---------------------------------------------------------------- */

typedef struct bare {
    uint32_t n, first[MOST + 1], dep[MOST_EDGES];
    uint64_t bytes[MOST];
    uint8_t flags[MOST];
    bool in_place;
} bare;

static neap_bare_graph graph_of(const bare *b)
{
    neap_bare_graph g = NEAP_BARE_GRAPH_INIT;
    g.n = b->n;
    g.bytes = b->bytes;
    g.flags = b->flags;
    g.dep_first = b->first;
    g.dep = b->dep;
    g.in_place = b->in_place;
    return g;
}

static void add(bare *b, uint64_t bytes, uint8_t flags, uint32_t n_deps, const uint32_t *deps)
{
    b->bytes[b->n] = bytes;
    b->flags[b->n] = flags;
    memcpy(b->dep + b->first[b->n], deps, n_deps * sizeof *deps);
    b->first[b->n + 1] = b->first[b->n] + n_deps;
    b->n++;
}

static bare random_graph(uint32_t n, bool in_place)
{
    bare b = {.in_place = in_place};
    const uint32_t sizes = 1 + next(12); /* few sizes: places can be taken over */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t deps[3], n_deps = 0;
        const bool input = next(8) == 0;
        for (uint32_t j = input || i == 0 ? 0 : next(4); j > 0; j--) {
            const uint32_t d = next(2) ? next(i) : i - 1 - next(i < 4 ? i : 4);
            bool known = false;
            for (uint32_t k = 0; k < n_deps; k++)
                known = known || deps[k] == d;
            if (!known)
                deps[n_deps++] = d;
        }
        const uint8_t flags = (uint8_t)((input ? NEAP_BARE_INPUT : 0) |
                                        (next(6) == 0 ? NEAP_BARE_OUTPUT : 0));
        add(&b, next(10) == 0 ? 0 : 1 + next(sizes), flags, n_deps, deps);
    }
    return b;
}

/* ---- the model once more, as plainly as it can be said -------------------------------------------- */

typedef struct simulation {
    const bare *b;
    bool done[MOST];
} simulation;

static bool ready(const simulation *s, uint32_t node)
{
    for (uint32_t j = s->b->first[node]; j < s->b->first[node + 1]; j++)
        if (!s->done[s->b->dep[j]])
            return false;
    return !s->done[node];
}

/* Does a node that has not run, other than `but`, depend on the value? */
static bool needed(const simulation *s, uint32_t value, uint32_t but)
{
    for (uint32_t i = 0; i < s->b->n; i++)
        for (uint32_t j = s->b->first[i]; j < s->b->first[i + 1]; j++)
            if (s->b->dep[j] == value && !s->done[i] && i != but)
                return true;
    return false;
}

/* Bytes alive while the node runs. */
static uint64_t alive(const simulation *s, uint32_t node)
{
    const bare *b = s->b;
    uint64_t sum = b->bytes[node];
    for (uint32_t i = 0; i < b->n; i++)
        if (s->done[i] && (b->flags[i] & NEAP_BARE_OUTPUT || needed(s, i, UINT32_MAX)))
            sum += b->bytes[i];
    for (uint32_t j = b->first[node]; b->in_place && j < b->first[node + 1]; j++) {
        const uint32_t d = b->dep[j];
        if (b->bytes[d] == b->bytes[node] && !(b->flags[d] & NEAP_BARE_OUTPUT) &&
            !needed(s, d, node))
            return sum - b->bytes[d];
    }
    return sum;
}

static simulation at_start(const bare *b)
{
    simulation s = {.b = b};
    for (uint32_t i = 0; i < b->n; i++)
        s.done[i] = b->flags[i] & NEAP_BARE_INPUT;
    return s;
}

static uint64_t alive_at_start(const bare *b)
{
    const simulation s = at_start(b);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (s.done[i] && (b->flags[i] & NEAP_BARE_OUTPUT || needed(&s, i, UINT32_MAX)))
            sum += b->bytes[i];
    return sum;
}

static uint64_t peak_of(const bare *b, const uint32_t *order)
{
    simulation s = at_start(b);
    uint64_t peak = alive_at_start(b);
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t node = order[i];
        if (b->flags[node] & NEAP_BARE_INPUT)
            continue;
        assert_true(ready(&s, node));
        const uint64_t now = alive(&s, node);
        peak = now > peak ? now : peak;
        s.done[node] = true;
    }
    for (uint32_t i = 0; i < b->n; i++)
        assert_true(s.done[i]);
    return peak;
}

/* The least peak over all orders; depth at most 9. */
static uint64_t least_peak(simulation *s, uint64_t peak, uint64_t best)
{
    bool any = false;
    for (uint32_t i = 0; i < s->b->n; i++) {
        if (!ready(s, i))
            continue;
        any = true;
        const uint64_t now = alive(s, i), high = now > peak ? now : peak;
        if (high >= best)
            continue;
        s->done[i] = true;
        best = least_peak(s, high, best);
        s->done[i] = false;
    }
    return any ? best : peak;
}

/* No two values lie in the same bytes while both are alive, but for one that takes a place. */
static void check_places(const bare *b, const uint32_t *order, const uint64_t *offsets,
                         uint64_t arena)
{
    uint32_t from[MOST], to[MOST], inputs = 0;
    for (uint32_t i = 0; i < b->n; i++)
        inputs += b->flags[i] & NEAP_BARE_INPUT;
    for (uint32_t i = 0; i < b->n; i++) { /* from: while it is made; to: the last use, inclusive */
        const uint32_t node = order[i], step = i < inputs ? 0 : i - inputs;
        from[node] = to[node] = step;
        if (b->flags[node] & NEAP_BARE_INPUT && !(b->flags[node] & NEAP_BARE_OUTPUT))
            from[node] = UINT32_MAX; /* until it is used */
        for (uint32_t j = b->first[node]; j < b->first[node + 1]; j++) {
            to[b->dep[j]] = step;
            from[b->dep[j]] = b->flags[b->dep[j]] & NEAP_BARE_INPUT ? 0 : from[b->dep[j]];
        }
    }
    for (uint32_t i = 0; i < b->n; i++)
        to[i] = b->flags[i] & NEAP_BARE_OUTPUT ? b->n : to[i];
    for (uint32_t i = 0; i < b->n; i++) {
        if (from[i] == UINT32_MAX || !b->bytes[i])
            continue;
        assert_true(offsets[i] + b->bytes[i] <= arena);
        for (uint32_t j = 0; j < b->n; j++) {
            if (i == j || from[j] == UINT32_MAX || !b->bytes[j] || from[j] > to[i] ||
                from[i] > to[j] || offsets[i] >= offsets[j] + b->bytes[j] ||
                offsets[j] >= offsets[i] + b->bytes[i])
                continue;
            const bool takes = b->in_place && offsets[i] == offsets[j] &&
                               b->bytes[i] == b->bytes[j] && (to[i] == from[j] || to[j] == from[i]);
            assert_true(takes);
        }
    }
}

static neap_bare_plan plan_of(neap_context *ctx, const bare *b)
{
    uint32_t order[MOST], program[MOST];
    uint64_t offsets[MOST];
    neap_bare_plan plan = NEAP_BARE_PLAN_INIT;
    const neap_bare_graph g = graph_of(b);
    for (uint32_t i = 0; i < b->n; i++)
        program[i] = i;
    assert_int_equal(neap_plan_bare(ctx, &g, order, offsets, &plan), NEAP_OK);
    assert_int_equal(plan.peak_bytes, peak_of(b, order));
    assert_int_equal(plan.program_order_bytes, peak_of(b, program));
    assert_true(plan.peak_bytes <= plan.program_order_bytes);
    assert_true(plan.arena_bytes >= plan.peak_bytes);
    check_places(b, order, offsets, plan.arena_bytes);
    return plan;
}

/* ---- tests ---------------------------------------------------------------------------------------- */

static void small_graphs_reach_the_least_peak(void **unused)
{
    (void)unused;
    neap_context *ctx = new_context(0);
    random_state = 7;
    for (int i = 0; i < 1500; i++) {
        const bare b = random_graph(1 + next(9), i % 2);
        simulation s = at_start(&b);
        const neap_bare_plan plan = plan_of(ctx, &b);
        assert_int_equal(plan.peak_bytes, least_peak(&s, alive_at_start(&b), plan.program_order_bytes + 1));
        assert_true(plan.exact);
    }
    neap_context_free(ctx);
}

static void larger_graphs_stay_under_program_order(void **unused)
{
    (void)unused;
    neap_context *ctx = new_context(0);
    random_state = 11;
    for (int i = 0; i < 60; i++) {
        const bare b = random_graph(10 + next(190), i % 2);
        const neap_bare_plan plan = plan_of(ctx, &b);
        assert_true(plan.arena_bytes <= plan.peak_bytes + plan.peak_bytes / 4);
    }
    neap_context_free(ctx);
}

/* Graphs of ../shared/cases/plan, whose optima come from an exhaustive search. */
static bare from_text(const char *text)
{
    bare b = {0};
    while (*text) { /* "bytes[i|o](deps) " */
        uint32_t deps[8], n = 0;
        char *end;
        uint8_t flags = 0;
        const uint64_t bytes = strtoull(text, &end, 10);
        for (; *end == 'i' || *end == 'o'; end++)
            flags |= *end == 'i' ? NEAP_BARE_INPUT : NEAP_BARE_OUTPUT;
        for (text = end + 1; *text != ')'; text = *end == ',' ? end + 1 : end)
            deps[n++] = (uint32_t)strtoul(text, &end, 10);
        add(&b, bytes, flags, n, deps);
        text += text[1] == ' ' ? 2 : 1;
    }
    return b;
}

static void recorded_optima_are_reached(void **unused)
{
    static const struct {
        const char *name, *graph;
        uint64_t optimum, in_place;
    } cases[] = {
        {"G1", "1i() 10(0) 2(1) 9(2) 1(3) 10(0) 3(5) 8(6) 1(7) 1o(4,8)", 14, 14},
        {"G2", "2i() 4(0) 4(0) 6(1) 1(3) 7(2) 2(5) 1(4,6) 5o(1,7)", 13, 13},
        {"G3",
         "1i() 4(0) 4(0) 4(0) 4(0) 4(0) 4(0) 4(0) 4(0) 4(1,2) 4(3,4) 4(5,6) 4(7,8) 4(9,10) 4(11,12) "
         "4o(13,14)",
         20, 17},
        {"G4", "16i() 16(0) 1(1) 16(0) 1(3) 16(0) 1(5) 16(0) 1(7) 16(0) 1(9) 16(0) 1(11) "
               "1o(2,4,6,8,10,12)",
         37, 0},
        {"G6", "8i() 8(0) 8(1) 8(2) 8(3) 8(4) 1(5,3) 8(5) 1(7,2) 8(7) 1(9,1) 8(9) 1(11,0) "
               "1o(6,8,10,12)",
         48, 41},
        {"A1", "2() 15(0) 12() 2() 1(1,3) 4(2) 8(5) 9(4) 1(6,7) 9o(8)", 18, 0},
        {"A2", "1() 4(0) 10o(0) 4(0) 2o(3,1) 4o(3) 2(3) 11(6,0) 1o(3,7)", 18, 0},
    };
    (void)unused;
    neap_context *ctx = new_context(0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bare b = from_text(cases[i].graph);
        assert_int_equal(plan_of(ctx, &b).peak_bytes, cases[i].optimum);
        b.in_place = true;
        const neap_bare_plan plan = plan_of(ctx, &b);
        if (cases[i].in_place)
            assert_int_equal(plan.peak_bytes, cases[i].in_place);
        assert_int_equal(plan.arena_bytes, plan.peak_bytes);
    }
    neap_context_free(ctx);
}

/* 400 equal layers, each with its own peak: what is found for one must be found for all. */
static void repeated_layers_are_all_ordered(void **unused)
{
    enum { LAYERS = 400, N = 1 + LAYERS * 7 };
    static uint64_t bytes[N], offsets[N];
    static uint8_t flags[N];
    static uint32_t first[N + 1], dep[LAYERS * 8], order[N];
    uint32_t n = 0, e = 0;
    (void)unused;
    bytes[n++] = 1;
    first[n] = 0;
    for (int l = 0; l < LAYERS; l++) {
        const uint32_t x = n - 1; /* three branches of 16 then 1; program order makes all 16 first */
        for (uint32_t k = 0; k < 3; k++) {
            bytes[n] = 16;
            dep[e++] = x;
            first[++n] = e;
        }
        for (uint32_t k = 0; k < 3; k++) {
            bytes[n] = 1;
            dep[e++] = x + 1 + k;
            first[++n] = e;
        }
        bytes[n] = 1;
        dep[e++] = n - 2;
        dep[e++] = n - 1;
        first[++n] = e;
    }
    flags[n - 1] = NEAP_BARE_OUTPUT;
    neap_bare_graph g = NEAP_BARE_GRAPH_INIT;
    g.n = n;
    g.bytes = bytes;
    g.flags = flags;
    g.dep_first = first;
    g.dep = dep;
    neap_context *ctx = new_context(0);
    neap_bare_plan plan = NEAP_BARE_PLAN_INIT;
    assert_int_equal(neap_plan_bare(ctx, &g, order, offsets, &plan), NEAP_OK);
    assert_int_equal(plan.program_order_bytes, 49); /* x and three of 16 */
    /* By hand: x, which the next branch reads, a branch's 16 and its 1. */
    assert_int_equal(plan.peak_bytes, 18);
    neap_context_free(ctx);
}

/* ---- what only plans of arrays have: several values a node, scratch, waits ------------------------- */

static void scratch_waits_and_several_values(void **unused)
{
    /* Node 0 makes values 1 and 2 from 0; nodes 1 and 2 turn each into a small one with scratch;
     * node 3 joins them. Node 2 must run before node 1. */
    static const uint64_t bytes[] = {8, 10, 20, 1, 1, 1}, scratch[] = {0, 5, 7, 0};
    static const uint32_t maker[] = {NP_NONE, 0, 0, 1, 2, 3};
    static const uint8_t kept[] = {0, 0, 0, 0, 0, 1};
    static const uint32_t use_first[] = {0, 1, 2, 3, 5}, use[] = {0, 1, 2, 3, 4};
    static const uint32_t wait_first[] = {0, 0, 0, 0, 0};
    static const uint32_t program[] = {0, 1, 2, 3}, other[] = {0, 2, 1, 3};
    (void)unused;
    neap_context *ctx = new_context(0);
    np_order_graph g = {.n_nodes = 4, .n_values = 6, .bytes = bytes, .maker = maker, .kept = kept,
                        .scratch = scratch, .use_first = use_first, .use = use,
                        .wait_first = wait_first, .wait = use};
    uint32_t order[4];
    np_order_result r = {.order = order};
    /* node 0: 8 + 30 = 38; then 30 + 1 + 5 = 36, 20 + 1 + 1 + 7 = 29, or 30 + 1 + 7 = 38, 17. */
    assert_int_equal(np_order_peak(ctx, &g, program), 38);
    assert_int_equal(np_order_peak(ctx, &g, other), 38);
    assert_int_equal(np_order_find(ctx, &g, &r), NEAP_OK);
    assert_true(r.exact && r.peak == 38 && r.program_peak == 38);
    /* Value 2 in the place of value 0 (as if of equal size): 18 + 20 = 38 - 20. */
    static const uint64_t equal[] = {20, 10, 20, 1, 1, 1};
    static const uint32_t over[] = {NP_NONE, NP_NONE, 0, NP_NONE, NP_NONE, NP_NONE};
    g.bytes = equal;
    assert_int_equal(np_order_peak(ctx, &g, program), 50);
    g.over = over;
    assert_int_equal(np_order_peak(ctx, &g, program), 36);
    /* The second branch first needs 38: program order is kept. */
    assert_int_equal(np_order_find(ctx, &g, &r), NEAP_OK);
    assert_true(r.exact && r.peak == 36);
    /* Node 2 waits for node 1, and comes later whatever it costs. */
    static const uint32_t later_first[] = {0, 0, 0, 1, 1}, later[] = {1};
    g.wait_first = later_first;
    g.wait = later;
    static const uint64_t costly[] = {0, 9, 7, 0};
    g.scratch = costly;
    assert_int_equal(np_order_find(ctx, &g, &r), NEAP_OK);
    assert_true(r.peak == 40 && r.exact && order[1] == 1 && order[2] == 2);
    g.wait = NULL;
    assert_int_equal(np_order_find(ctx, &g, &r), NEAP_OK);
    assert_true(r.peak == 38 && r.exact && order[1] == 2 && order[2] == 1);
    neap_context_free(ctx);
}

enum { NODES = 7, VALUES = 24 };

typedef struct general {
    uint32_t n_nodes, n_values, maker[VALUES], over[VALUES];
    uint64_t bytes[VALUES], scratch[NODES];
    uint8_t kept[VALUES];
    bool reads[NODES][VALUES], waits[NODES][NODES], any_over;
} general;

static general random_general(void)
{
    general r = {.n_nodes = 1 + next(NODES), .n_values = next(3), .any_over = next(3) == 0};
    for (uint32_t v = 0; v < r.n_values; v++)
        r.maker[v] = NP_NONE;
    for (uint32_t i = 0; i < r.n_nodes; i++) {
        r.scratch[i] = next(3) ? 0 : next(6);
        for (uint32_t v = 0; v < r.n_values; v++)
            r.reads[i][v] = next(5) < 2;
        for (uint32_t j = 0; j < i; j++)
            r.waits[i][j] = next(8) == 0;
        for (uint32_t k = next(4); k > 0; k--)
            r.maker[r.n_values++] = i;
    }
    for (uint32_t v = 0; v < r.n_values; v++) {
        r.bytes[v] = next(4);
        r.kept[v] = next(5) == 0;
        r.over[v] = NP_NONE;
    }
    for (uint32_t v = 0; v < r.n_values; v++) /* each place is one value's at most */
        for (uint32_t u = 0; u < v && r.maker[v] != NP_NONE; u++) {
            bool free = r.reads[r.maker[v]][u] && r.bytes[u] == r.bytes[v] && next(2);
            for (uint32_t w = 0; w < v; w++)
                free = free && r.over[w] != u;
            r.over[v] = free ? u : r.over[v];
        }
    return r;
}

static bool is_needed(const general *r, const bool *done, uint32_t value)
{
    bool needed = r->kept[value];
    for (uint32_t i = 0; i < r->n_nodes; i++)
        needed = needed || (!done[i] && r->reads[i][value]);
    return needed;
}

/* What is alive while the node runs, after `done`. */
static uint64_t held(const general *r, bool *done, uint32_t node)
{
    uint64_t sum = r->scratch[node];
    bool dies[VALUES], taken[VALUES] = {0};
    for (uint32_t v = 0; v < r->n_values; v++) {
        const bool before = is_needed(r, done, v);
        done[node] = true;
        dies[v] = r->reads[node][v] && !is_needed(r, done, v);
        done[node] = false;
        if ((r->maker[v] == NP_NONE || done[r->maker[v]]) && before)
            sum += r->bytes[v];
    }
    for (uint32_t v = 0; v < r->n_values; v++) {
        uint32_t place = NP_NONE;
        if (r->maker[v] != node)
            continue;
        if (!r->any_over && r->over[v] != NP_NONE && dies[r->over[v]])
            place = r->over[v];
        for (uint32_t u = 0; r->any_over && u < r->n_values; u++)
            if (dies[u] && !taken[u] && r->bytes[u] == r->bytes[v])
                place = u;
        if (place == NP_NONE)
            sum += r->bytes[v];
        else
            taken[place] = true;
    }
    return sum;
}

static uint64_t least_held(const general *r, bool *done, uint64_t peak, uint64_t best)
{
    bool any = false;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        bool may = !done[i];
        for (uint32_t v = 0; v < r->n_values; v++)
            may = may && !(r->reads[i][v] && r->maker[v] != NP_NONE && !done[r->maker[v]]);
        for (uint32_t j = 0; j < r->n_nodes; j++)
            may = may && !(r->waits[i][j] && !done[j]);
        any = any || may;
        const uint64_t now = may ? held(r, done, i) : 0, high = now > peak ? now : peak;
        if (!may || high >= best)
            continue;
        done[i] = true;
        best = least_held(r, done, high, best);
        done[i] = false;
    }
    return any ? best : peak;
}

static void graphs_of_every_kind_reach_the_least_peak(void **unused)
{
    (void)unused;
    neap_context *ctx = new_context(0);
    random_state = 31;
    for (int round = 0; round < 1500; round++) {
        const general r = random_general();
        uint32_t use_first[NODES + 1] = {0}, use[NODES * VALUES], order[NODES];
        uint32_t wait_first[NODES + 1] = {0}, wait[NODES * NODES], uses = 0, waits = 0;
        for (uint32_t i = 0; i < r.n_nodes; i++) {
            for (uint32_t v = 0; v < r.n_values; v++)
                if (r.reads[i][v])
                    use[uses++] = v;
            for (uint32_t j = 0; j < i; j++)
                if (r.waits[i][j])
                    wait[waits++] = j;
            use_first[i + 1] = uses;
            wait_first[i + 1] = waits;
        }
        const np_order_graph g = {.n_nodes = r.n_nodes, .n_values = r.n_values, .bytes = r.bytes,
                                  .maker = r.maker, .kept = r.kept, .scratch = r.scratch,
                                  .use_first = use_first, .use = use, .wait_first = wait_first,
                                  .wait = wait, .over = r.over, .any_over = r.any_over};
        np_order_result found = {.order = order};
        assert_int_equal(np_order_find(ctx, &g, &found), NEAP_OK);
        bool done[NODES] = {0};
        uint64_t start = 0, peak;
        for (uint32_t v = 0; v < r.n_values; v++)
            start += r.maker[v] == NP_NONE && is_needed(&r, done, v) ? r.bytes[v] : 0;
        peak = start;
        for (uint32_t i = 0; i < r.n_nodes; i++) {
            const uint64_t now = held(&r, done, order[i]);
            peak = now > peak ? now : peak;
            done[order[i]] = true;
        }
        assert_int_equal(found.peak, peak);
        memset(done, 0, sizeof done);
        assert_int_equal(found.peak, least_held(&r, done, start, found.program_peak + 1));
        assert_true(found.exact);
    }
    neap_context_free(ctx);
}

static void known_placements_are_solved(void **unused)
{
    /* ../shared/cases/plan/placement.json: every rule leaves a gap in the first. */
    static const uint32_t first1[] = {5, 1, 3, 1, 3, 1, 2}, end1[] = {10, 5, 8, 6, 8, 5, 3};
    static const uint64_t bytes1[] = {5, 1, 2, 2, 2, 3, 5};
    static const uint32_t first2[] = {0, 3, 0, 9, 0}, end2[] = {3, 9, 9, 21, 21};
    static const uint64_t bytes2[] = {4, 4, 4, 4, 4};
    uint64_t offsets[7], arena;
    (void)unused;
    neap_context *ctx = new_context(0);
    assert_int_equal(neap_place_blocks(ctx, 7, first1, end1, bytes1, offsets, &arena), NEAP_OK);
    assert_int_equal(arena, 11);
    assert_int_equal(neap_place_blocks(ctx, 5, first2, end2, bytes2, offsets, &arena), NEAP_OK);
    assert_int_equal(arena, 12);
    assert_int_equal(neap_place_blocks(ctx, 0, first1, end1, bytes1, offsets, &arena), NEAP_OK);
    assert_int_equal(arena, 0);
    neap_context_free(ctx);
}

static void random_blocks_are_placed_apart(void **unused)
{
    enum { N = 300 };
    uint32_t first[N], end[N];
    uint64_t bytes[N], offsets[N], arena;
    (void)unused;
    neap_context *ctx = new_context(0);
    random_state = 5;
    for (int round = 0; round < 60; round++) {
        const uint32_t n = 1 + next(round < 40 ? 40 : N);
        for (uint32_t i = 0; i < n; i++) {
            first[i] = next(100);
            end[i] = first[i] + 1 + next(1 + next(40));
            bytes[i] = next(20) == 0 ? 0 : 64 * (1 + next(1 + next(30)));
        }
        uint64_t most = 0;
        for (uint32_t t = 0; t < 140; t++) {
            uint64_t live = 0;
            for (uint32_t i = 0; i < n; i++)
                live += first[i] <= t && t < end[i] ? bytes[i] : 0;
            most = live > most ? live : most;
        }
        assert_int_equal(neap_place_blocks(ctx, n, first, end, bytes, offsets, &arena), NEAP_OK);
        assert_true(arena >= most && arena <= most + most / 10);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < i; j++)
                assert_true(first[i] >= end[j] || first[j] >= end[i] ||
                            offsets[i] + bytes[i] <= offsets[j] ||
                            offsets[j] + bytes[j] <= offsets[i]);
    }
    neap_context_free(ctx);
}

/* A search that may not take what it needs ends with what it has. */
static void little_workspace_is_enough(void **unused)
{
    (void)unused;
    random_state = 23;
    for (int i = 0; i < 40; i++) {
        const bare b = random_graph(10 + next(150), false);
        uint32_t maker[MOST], use[MOST_EDGES], use_first[MOST + 1], order[MOST];
        uint8_t kept[MOST];
        uint32_t nodes = 0;
        for (uint32_t v = 0; v < b.n; v++) {
            const bool input = b.flags[v] & NEAP_BARE_INPUT;
            kept[v] = b.flags[v] & NEAP_BARE_OUTPUT;
            maker[v] = input ? NP_NONE : nodes;
            use_first[nodes] = b.first[v];
            nodes += !input;
            use_first[nodes] = b.first[v + 1];
        }
        memcpy(use, b.dep, sizeof use);
        np_order_graph g = {.n_nodes = nodes, .n_values = b.n, .bytes = b.bytes, .maker = maker,
                            .kept = kept, .use_first = use_first, .use = use};
        neap_context *ctx = new_context(0);
        np_order_result whole = {.order = order}, little = whole;
        assert_int_equal(np_order_find(ctx, &g, &whole), NEAP_OK);
        g.workspace = 1 + next(200000);
        assert_int_equal(np_order_find(ctx, &g, &little), NEAP_OK);
        assert_int_equal(neap_context_status(ctx), NEAP_OK);
        assert_true(whole.peak <= little.peak && little.peak <= little.program_peak);
        assert_int_equal(np_order_peak(ctx, &g, order), little.peak);
        neap_context_free(ctx);
    }
}

/* Can blocks k to n - 1 all end at `limit` or below, wherever they lie? */
static bool fit_under(uint32_t n, const uint32_t *first, const uint32_t *end, const uint64_t *bytes,
                      uint64_t *at, uint32_t k, uint64_t limit)
{
    if (k == n)
        return true;
    for (at[k] = 0; at[k] + bytes[k] <= limit; at[k]++) {
        bool apart = true;
        for (uint32_t j = 0; j < k && apart; j++)
            apart = first[k] >= end[j] || first[j] >= end[k] || at[k] + bytes[k] <= at[j] ||
                    at[j] + bytes[j] <= at[k];
        if (apart && fit_under(n, first, end, bytes, at, k + 1, limit))
            return true;
    }
    return false;
}

static void few_blocks_have_the_least_arena(void **unused)
{
    (void)unused;
    neap_context *ctx = new_context(0);
    random_state = 17;
    for (int round = 0; round < 400; round++) {
        uint32_t first[7], end[7];
        uint64_t bytes[7], offsets[7], at[7], arena;
        const uint32_t n = 1 + next(7);
        for (uint32_t i = 0; i < n; i++) {
            first[i] = next(8);
            end[i] = first[i] + 1 + next(5);
            bytes[i] = 1 + next(5);
        }
        assert_int_equal(neap_place_blocks(ctx, n, first, end, bytes, offsets, &arena), NEAP_OK);
        assert_false(fit_under(n, first, end, bytes, at, 0, arena - 1));
    }
    neap_context_free(ctx);
}

/* ---- faults --------------------------------------------------------------------------------------- */

static void expect_fault(neap_context *ctx, const bare *b, const char *text)
{
    neap_bare_plan plan = NEAP_BARE_PLAN_INIT;
    const neap_bare_graph g = graph_of(b);
    assert_int_equal(neap_plan_bare(ctx, &g, NULL, NULL, &plan), NEAP_EINVAL);
    assert_string_equal(neap_context_error(ctx), text);
    assert_int_equal(neap_context_status(ctx), NEAP_OK);
}

static void faults_of_graphs_are_named(void **unused)
{
    (void)unused;
    neap_context *ctx = new_context(0);
    bare b = from_text("1() 2(0) 3(1)");
    b.dep[1] = 2;
    expect_fault(ctx, &b, "node 2: depends on node 2, which is not before it");
    b.dep[1] = UINT32_MAX;
    expect_fault(ctx, &b, "node 2: depends on node 4294967295, which is not before it");
    b = from_text("1() 2(0) 3(0,0)");
    expect_fault(ctx, &b, "node 2: depends on node 0 twice");
    b = from_text("1() 2i(0)");
    expect_fault(ctx, &b, "node 1: an input, but depends on node 0");
    b = from_text("1() 4611686018427387903(0)");
    expect_fault(ctx, &b,
                 "node 1: 4611686018427387903 bytes: the graph has 2^62 or more");
    b = (bare){0};
    assert_int_equal(plan_of(ctx, &b).peak_bytes, 0);
    b = from_text("5io() 7i()");
    const neap_bare_plan plan = plan_of(ctx, &b);
    assert_true(plan.steps == 0 && plan.exact);
    neap_context_free(ctx);
}

static void no_allocation_that_fails_leaks(void **unused)
{
    (void)unused;
    random_state = 3;
    const bare b = random_graph(60, true);
    const neap_bare_graph g = graph_of(&b);
    neap_status status = NEAP_ENOMEM;
    for (int64_t n = 1; status != NEAP_OK; n++) {
        neap_context *ctx = new_context(n + 1000000);
        assert_int_equal(neap_context_plan_options(ctx, NULL), NEAP_OK); /* its record stays */
        ctx->ledger.fail_countdown = n;
        neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
        neap_bare_plan plan = NEAP_BARE_PLAN_INIT;
        neap_context_memory(ctx, &before);
        status = neap_plan_bare(ctx, &g, NULL, NULL, &plan);
        assert_true(status == NEAP_OK || status == NEAP_ENOMEM);
        neap_context_memory(ctx, &after);
        assert_int_equal(before.active, after.active);
        neap_context_free(ctx);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_graphs_reach_the_least_peak),
        cmocka_unit_test(larger_graphs_stay_under_program_order),
        cmocka_unit_test(recorded_optima_are_reached),
        cmocka_unit_test(repeated_layers_are_all_ordered),
        cmocka_unit_test(scratch_waits_and_several_values),
        cmocka_unit_test(graphs_of_every_kind_reach_the_least_peak),
        cmocka_unit_test(known_placements_are_solved),
        cmocka_unit_test(random_blocks_are_placed_apart),
        cmocka_unit_test(few_blocks_have_the_least_arena),
        cmocka_unit_test(little_workspace_is_enough),
        cmocka_unit_test(faults_of_graphs_are_named),
        cmocka_unit_test(no_allocation_that_fails_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
