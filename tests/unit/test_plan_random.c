/* test_plan_random.c - what every plan must keep, on random programs: the bits of node-by-node
 * evaluation, the planned peak when it runs, never above program order without fusion nor above
 * another candidate, falling as features are switched on, within any budget that can be met.
 *
 * NEAP_RANDOM_GRAPHS: how many; NEAP_RANDOM_SEED: only that one, listed. */
#include <sys/wait.h>
#include <unistd.h>

#include "random_draw.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { GRAPHS = 600, FAILING = 3 };
#else
enum { GRAPHS = 20000, FAILING = 25 };
#endif

enum {
    ALL_OFF = NEAP_PLAN_NO_FUSION | NEAP_PLAN_NO_SIDEWAYS | NEAP_PLAN_NO_ORDER |
              NEAP_PLAN_NO_STREAMING | NEAP_PLAN_NO_RECOMPUTE
};

typedef struct case_data {
    random_graph graph;
    uint8_t *want[GRAPH_ROOTS]; /* bytes of the roots, row-major */
    int64_t shape[GRAPH_ROOTS][NEAP_MAX_RANK];
    int rank[GRAPH_ROOTS];
    size_t element[GRAPH_ROOTS];
} case_data;

static case_data c;
static const char *doing = "";

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            list_graph(&c.graph);                                                         \
            fail_msg("seed %llu, %s, line %d: %s\nagain: NEAP_RANDOM_SEED=%llu",          \
                     (unsigned long long)c.graph.seed, doing, __LINE__, #condition,       \
                     (unsigned long long)c.graph.seed);                                   \
        }                                                                                 \
    } while (0)

static uint64_t held(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_trim(ctx);
    neap_context_memory(ctx, &m);
    return m.active + m.cached;
}

static neap_context *open_context(int threads)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = threads;
    o.plan_cache_bytes = 1 << 20; /* the latest few hundred single nodes */
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    return ctx;
}

/* ---- node by node ------------------------------------------------------------------------- */

static void evaluate_apart(neap_context *ctx)
{
    const random_graph *g = &c.graph;
    static neap_array *a[GRAPH_NODES];
    neap_state *states[GRAPH_STATES];
    const build_target to = {states, NULL, g->rows};
    doing = "node by node";
    CHECK(neap_scope_push(ctx) == NEAP_OK);
    make_states(g, ctx, states);
    for (int i = 0; i < g->n; i++) {
        a[i] = build_node(&g->node[i], a, &to);
        CHECK(neap_eval(a[i]) == NEAP_OK);
    }
    for (int r = 0; r < g->n_roots; r++) {
        const neap_array *x = a[g->root[r]];
        c.want[r] = NULL;
        if (g->node[g->root[r]].kind == WRITE)
            continue;
        size_t bytes = neap_array_bytes(x);
        c.want[r] = malloc(bytes + 1);
        assert_non_null(c.want[r]);
        CHECK(neap_array_read(x, c.want[r], bytes) == NEAP_OK);
        c.rank[r] = neap_array_rank(x);
        memcpy(c.shape[r], neap_array_shape(x), (size_t)c.rank[r] * sizeof(int64_t));
        c.element[r] = (size_t)neap_dtype_describe(neap_array_dtype(x))->block_bytes;
    }
    for (int s = 0; s < g->n_states; s++)
        neap_state_free(states[s]);
    neap_scope_pop(ctx);
}

static void tell_difference(int r, int64_t i, const uint8_t *got, const uint8_t *want)
{
    fprintf(stderr, "root %d (node %d), element %lld: 0x", r, c.graph.root[r], (long long)i);
    for (size_t k = c.element[r]; k-- > 0;)
        fprintf(stderr, "%02x", got[k]);
    fprintf(stderr, ", node by node 0x");
    for (size_t k = c.element[r]; k-- > 0;)
        fprintf(stderr, "%02x", want[k]);
    fprintf(stderr, "\n");
}

/* The result has the shape of the run, and the wanted elements. */
static bool same_bits(int r, const neap_array *got)
{
    const int64_t n = shape_size(c.rank[r], c.shape[r]);
    const size_t element = c.element[r], bytes = (size_t)n * element;
    bool same = neap_array_rank(got) == c.rank[r] &&
                !memcmp(neap_array_shape(got), c.shape[r], (size_t)c.rank[r] * sizeof(int64_t));
    if (!same) {
        fprintf(stderr, "root %d (node %d) has another shape\n", r, c.graph.root[r]);
        return false;
    }
    uint8_t *read = malloc(bytes + 1);
    assert_non_null(read);
    CHECK(neap_array_read(got, read, bytes) == NEAP_OK);
    for (int64_t i = 0; same && i < n; i++) {
        const uint8_t *a = read + (size_t)i * element, *b = c.want[r] + (size_t)i * element;
        same = !memcmp(a, b, element);
        if (!same)
            tell_difference(r, i, a, b);
    }
    free(read);
    return same;
}

/* ---- one plan ----------------------------------------------------------------------------- */

/* What the planner told: the smallest candidate, and how many were chosen. */
typedef struct told {
    uint64_t least;
    int candidates, chosen;
} told;

static bool making; /* a plan object, not a free-form evaluation */

static void listen(void *user, const neap_plan_event *event)
{
    told *t = user;
    if (event->kind != NEAP_PLAN_EVENT_CANDIDATE || !making)
        return;
    t->candidates++;
    t->chosen += event->chosen;
    if (event->peak_bytes < t->least)
        t->least = event->peak_bytes;
}

/* Inside a limit of what is held and planned, the plan runs; afterwards just that is held. */
static void run_measured(neap_context *ctx, neap_plan *plan, const neap_plan_info *info)
{
    const random_graph *g = &c.graph;
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    const int64_t rows = g->rows;
    uint64_t planned = held(ctx) + info->peak_bytes + info->state_bytes;
    CHECK(neap_context_set_limit(ctx, planned) == NEAP_OK);
    if (neap_plan_run(plan, g->rows ? &rows : NULL) != NEAP_OK) {
        fprintf(stderr, "%s\n", neap_context_error(ctx));
        CHECK(!"the plan runs");
    }
    neap_context_memory(ctx, &m);
    CHECK(m.active + m.cached == planned);
    CHECK(neap_context_set_limit(ctx, 0) == NEAP_OK);
    for (int r = 0; r < g->n_roots; r++) {
        const neap_array *y = neap_plan_output(plan, r);
        CHECK(!c.want[r] || (y && same_bits(r, y)));
    }
    if (g->n_states == 0) { /* again, and nothing more is held */
        CHECK(neap_plan_run(plan, g->rows ? &rows : NULL) == NEAP_OK);
        neap_context_memory(ctx, &m);
        CHECK(m.active + m.cached == planned);
        for (int r = 0; r < g->n_roots; r++)
            CHECK(same_bits(r, neap_plan_output(plan, r)));
    }
}

typedef struct built {
    neap_array *a[GRAPH_NODES], *roots[GRAPH_ROOTS];
    neap_state *states[GRAPH_STATES];
    neap_param *param;
} built;

static void build_together(neap_context *ctx, built *b)
{
    const random_graph *g = &c.graph;
    b->param = NULL;
    CHECK(neap_scope_push(ctx) == NEAP_OK);
    make_states(g, ctx, b->states);
    if (g->rows)
        CHECK(neap_param_new(ctx, "rows", g->extent[0], &b->param) == NEAP_OK);
    const build_target to = {b->states, b->param, g->rows};
    for (int i = 0; i < g->n; i++) {
        b->a[i] = build_node(&g->node[i], b->a, &to);
        CHECK(b->a[i] != NULL);
    }
    for (int r = 0; r < g->n_roots; r++)
        b->roots[r] = b->a[g->root[r]];
}

static void let_go(neap_context *ctx, built *b)
{
    for (int s = 0; s < c.graph.n_states; s++)
        neap_state_free(b->states[s]);
    neap_scope_pop(ctx);
    neap_param_free(b->param);
}

/* Plans the graph and, if wanted, runs it. The status is of planning. */
static neap_status plan_it(neap_context *ctx, const neap_plan_options *o, bool run,
                           neap_plan_info *info)
{
    static built b;
    neap_plan *plan;
    CHECK(neap_context_plan_options(ctx, o) == NEAP_OK);
    build_together(ctx, &b);
    making = true;
    neap_status status = neap_plan_make(ctx, c.graph.n_roots, b.roots, b.param != NULL, &b.param,
                                        &plan);
    making = false;
    if (status == NEAP_OK) {
        neap_plan_describe(plan, info);
        CHECK(info->arena_bytes >= info->largest_live_bytes);
        CHECK(info->least_bytes <= info->peak_bytes);
        if (run)
            run_measured(ctx, plan, info);
        neap_plan_free(plan);
    }
    let_go(ctx, &b);
    return status;
}

/* ---- checks ------------------------------------------------------------------------------- */

static void check_peaks(neap_context *ctx, neap_plan_info *info, neap_plan_info *low)
{
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    neap_plan_info plain = NEAP_PLAN_INFO_INIT;
    told t = {UINT64_MAX, 0, 0};
    doing = "default plan";
    CHECK(plan_it(ctx, &o, true, info) == NEAP_OK);
    doing = "program order, nothing fused";
    o.without = ALL_OFF;
    CHECK(plan_it(ctx, &o, c.graph.seed / 2 % 8 == 4, &plain) == NEAP_OK);
    CHECK(plain.fused_groups == 0 && plain.row_streamed_steps == 0 && plain.recomputed_steps == 0);
    CHECK(info->peak_bytes <= plain.peak_bytes);
    doing = "low memory";
    o.without = NEAP_PLAN_LOW_MEMORY;
    o.explain = listen;
    o.user = &t;
    CHECK(plan_it(ctx, &o, c.graph.seed / 2 % 2, low) == NEAP_OK);
    CHECK(low->peak_bytes <= info->peak_bytes);
    CHECK(low->peak_bytes <= t.least);
    CHECK(t.candidates == 0 || t.chosen == 1);
    CHECK(low->least_bytes == 0 || low->peak_bytes == low->least_bytes);
}

/* Features switched on one after the other never raise the least peak. */
static void check_features(neap_context *ctx)
{
    static const unsigned features[] = {NEAP_PLAN_NO_FUSION, NEAP_PLAN_NO_SIDEWAYS,
                                        NEAP_PLAN_NO_ORDER, NEAP_PLAN_NO_STREAMING,
                                        NEAP_PLAN_NO_RECOMPUTE};
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    uint64_t peak = UINT64_MAX, least = UINT64_MAX;
    doing = "features one by one";
    o.without = ALL_OFF | NEAP_PLAN_LOW_MEMORY;
    for (int k = 0; k <= COUNT(features); k++) {
        neap_plan_info info = NEAP_PLAN_INFO_INIT;
        CHECK(plan_it(ctx, &o, c.graph.seed / 16 % 5 == (unsigned)k % 5, &info) == NEAP_OK);
        CHECK(info.peak_bytes <= peak && info.least_bytes <= least);
        peak = info.peak_bytes;
        least = info.least_bytes;
        o.without &= k < COUNT(features) ? ~features[k] : ~0u;
    }
}

/* Budgets from the least to the default peak: kept, with the same bits, and more is never less. */
static void check_budgets(neap_context *ctx, const neap_plan_info *whole, uint64_t least)
{
    const uint64_t span = whole->peak_bytes - least;
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    char text[32];
    uint64_t peak = 0;
    if (least == 0) /* of a plan that takes nothing */
        return;
    doing = "budgets";
    for (unsigned k = 0; k <= 4; k++) {
        neap_plan_info info = NEAP_PLAN_INFO_INIT;
        o.budget = least + span * k / 4;
        CHECK(plan_it(ctx, &o, true, &info) == NEAP_OK);
        CHECK(info.peak_bytes <= o.budget && info.peak_bytes >= peak);
        CHECK(info.least_bytes == least);
        peak = info.peak_bytes;
    }
    o.budget = least - 1;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    CHECK(plan_it(ctx, &o, false, &info) == NEAP_ENOMEM);
    snprintf(text, sizeof text, "%llu", (unsigned long long)least);
    CHECK(strstr(neap_context_error(ctx), text) != NULL);
    neap_context_clear_error(ctx);
    o.without = NEAP_PLAN_BEST_EFFORT;
    CHECK(plan_it(ctx, &o, true, &info) == NEAP_OK && info.peak_bytes == least);
}

static void check_settings(neap_context *one, neap_context *two)
{
    static const int sizes[] = {1, 2, 64};
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    for (int k = 0; k < COUNT(sizes); k++) {
        neap_plan_info info = NEAP_PLAN_INFO_INIT;
        o.max_fusion_size = sizes[k];
        doing = k ? k == 1 ? "groups of 2, threads" : "groups of 64, threads" : "groups of 1";
        CHECK(plan_it(k ? two : one, &o, true, &info) == NEAP_OK);
    }
}

/* Free-form evaluation, the second time by a plan of the cache. */
static void check_eval(neap_context *ctx)
{
    static built b;
    doing = "eval_all";
    CHECK(neap_context_plan_options(ctx, NULL) == NEAP_OK);
    for (int round = 0; round < 2; round++) {
        build_together(ctx, &b);
        if (b.param)
            CHECK(neap_param_set(b.param, c.graph.rows) == NEAP_OK);
        CHECK(neap_eval_all(c.graph.n_roots, b.roots) == NEAP_OK);
        for (int r = 0; r < c.graph.n_roots; r++) {
            size_t bytes = c.want[r] ? neap_array_bytes(b.roots[r]) : 0;
            uint8_t *got = malloc(bytes + 1);
            assert_non_null(got);
            if (c.want[r] && !c.graph.rows) {
                CHECK(neap_array_read(b.roots[r], got, bytes) == NEAP_OK);
                CHECK(!memcmp(got, c.want[r], bytes));
            }
            free(got);
        }
        let_go(ctx, &b);
    }
}

/* Of the checks that plan many times each graph has at most one; options make a context forget its
 * plans, so single nodes have theirs. */
static void check_graph(uint64_t seed, neap_context *one, neap_context *two, neap_context *nodes)
{
    neap_plan_info info = NEAP_PLAN_INFO_INIT, low = NEAP_PLAN_INFO_INIT;
    doing = "drawing";
    draw_graph(&c.graph, seed, one);
    if (getenv("NEAP_RANDOM_SEED"))
        list_graph(&c.graph);
    evaluate_apart(nodes);
    check_peaks(one, &info, &low);
    switch (seed / 2 % 8) {
    case 0:
        check_features(one);
        break;
    case 1:
        check_budgets(one, &info, low.least_bytes);
        break;
    case 2:
        check_settings(one, two);
        break;
    case 3:
        check_eval(one);
        break;
    default:
        break;
    }
    for (int r = 0; r < c.graph.n_roots; r++)
        free(c.want[r]);
    free_graph(&c.graph);
}

static uint64_t share, shares = 1; /* this process checks every shares-th graph */

static void test_random_graphs(void **state)
{
    (void)state;
    const char *only = getenv("NEAP_RANDOM_SEED"), *count = getenv("NEAP_RANDOM_GRAPHS");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    uint64_t n = only ? 1 : count ? strtoull(count, NULL, 10) : GRAPHS;
    neap_context *one = open_context(1), *two = open_context(2), *nodes = open_context(1);
    neap_plan_options plain = NEAP_PLAN_OPTIONS_INIT;
    plain.without = ALL_OFF; /* of one node there is nothing to choose */
    assert_int_equal(neap_context_plan_options(nodes, &plain), NEAP_OK);
    const uint64_t before = held(one);
    for (uint64_t seed = first + share; seed < first + n; seed += shares)
        check_graph(seed, one, two, nodes);
    /* the engine, made at the first plan, lies in a slab of its own */
    assert_true(held(one) <= before + (256 << 10));
    neap_context_free(one);
    neap_context_free(two);
    neap_context_free(nodes);
}

/* ---- allocations that fail ------------------------------------------------------------------- */

/* Builds, plans and runs in a scope of its own. */
static neap_status try_graph(neap_context *ctx)
{
    const random_graph *g = &c.graph;
    static neap_array *a[GRAPH_NODES];
    neap_array *roots[GRAPH_ROOTS];
    neap_plan *plan = NULL;
    const build_target to = {NULL, NULL, 0};
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    o.without = g->seed / 2 % 2 ? NEAP_PLAN_LOW_MEMORY : 0;
    neap_context_clear_error(ctx);
    neap_status status = neap_context_plan_options(ctx, &o);
    if (status != NEAP_OK || (status = neap_scope_push(ctx)) != NEAP_OK)
        return status;
    build_split_status = NEAP_OK;
    for (int i = 0; i < g->n; i++)
        a[i] = build_node(&g->node[i], a, &to);
    for (int r = 0; r < g->n_roots; r++)
        roots[r] = a[g->root[r]];
    status = neap_context_status(ctx) ? neap_context_status(ctx) : build_split_status;
    if (status == NEAP_OK)
        status = neap_plan_make(ctx, g->n_roots, roots, 0, NULL, &plan);
    if (status == NEAP_OK)
        status = neap_plan_run(plan, NULL);
    for (int r = 0; status == NEAP_OK && r < g->n_roots; r++)
        CHECK(same_bits(r, neap_plan_output(plan, r)));
    neap_plan_free(plan);
    neap_scope_pop(ctx);
    return status;
}

/* Whichever allocation fails: that is told, nothing is left behind, and the next try succeeds. */
static void check_failures(void)
{
    uint64_t clean = 0;
    for (int64_t n = 0;; n += n ? 1 + rnd(&c.graph, 12) : 1) {
        neap_context *ctx;
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        o.fail_allocation = n; /* 0: none */
        if (neap_context_new(&o, &ctx) != NEAP_OK)
            continue;
        neap_status status = try_graph(ctx);
        CHECK(status == NEAP_OK || status == NEAP_ENOMEM);
        if (status != NEAP_OK)
            CHECK(try_graph(ctx) == NEAP_OK);
        clean = n ? clean : held(ctx);
        CHECK(held(ctx) <= clean);
        neap_context_free(ctx);
        if (n && status == NEAP_OK)
            return;
    }
}

static void test_failing_allocations(void **state)
{
    (void)state;
    neap_context *nodes = open_context(1);
    int left = getenv("NEAP_RANDOM_SEED") ? 0 : FAILING;
    for (uint64_t seed = 3000000 + share; left > 0; seed += shares) {
        draw_graph(&c.graph, seed, nodes);
        if (c.graph.n_states == 0 && c.graph.rows == 0) {
            evaluate_apart(nodes);
            doing = "failing allocations";
            check_failures();
            for (int r = 0; r < c.graph.n_roots; r++)
                free(c.want[r]);
            left--;
        }
        free_graph(&c.graph);
    }
    neap_context_free(nodes);
}

/* Two processes, each with half of the graphs. */
int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs),
                                       cmocka_unit_test(test_failing_allocations)};
    if (getenv("NEAP_RANDOM_SEED"))
        return cmocka_run_group_tests(tests, NULL, NULL);
    shares = 2;
    pid_t other = fork();
    share = other == 0;
    int failed = cmocka_run_group_tests(tests, NULL, NULL), status = 0;
    if (other == 0)
        return failed;
    if (other < 0 || waitpid(other, &status, 0) != other || status != 0)
        failed++;
    return failed;
}
