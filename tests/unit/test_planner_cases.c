/* test_planner_cases.c - faults that users of such software have met: a budget that does not hold,
 * pools that grow with every new shape, fusion that keeps what it need not, refusals that leave
 * memory behind, graphs that pile up. Numbers from NumPy (tools/make_planner_goldens.py).
 *
 * NEAP_FULL=1: the long chain at its full 1024 rows. */
#include <math.h>

#include "planner_golden.h"
#include "random_draw.h"

static const uint64_t MIB = 1 << 20;

static neap_context *open_context(uint64_t limit, int threads)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.memory_limit = limit;
    o.threads = threads;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    return ctx;
}

static void close_context(neap_context *ctx)
{
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

static neap_memory_info memory(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m;
}

static uint64_t held(neap_context *ctx)
{
    neap_memory_info m = memory(ctx);
    return m.active + m.cached;
}

/* As in tools/make_planner_goldens.py: multiples of 2^-24 in [-0.5, 0.5). */
static float number(uint32_t seed, int64_t i)
{
    uint32_t h = (uint32_t)i + seed * 0x9E3779B9u;
    h = (h ^ h >> 16) * 0x7FEB352Du;
    h = (h ^ h >> 15) * 0x846CA68Bu;
    h ^= h >> 16;
    return (float)(h >> 8) / 16777216.0f - 0.5f;
}

/* number * scale + add, exactly. */
static neap_array *numbers(uint32_t seed, int rank, const int64_t *shape, float scale, float add)
{
    neap_array *a = neap_array_zeros(NEAP_F32, rank, shape);
    assert_non_null(a);
    float *v = neap_array_mutable(a);
    for (int64_t i = 0; i < neap_array_size(a); i++)
        v[i] = number(seed, i) * scale + add;
    return a;
}

static neap_array *matrix(uint32_t seed, int64_t rows, int64_t columns)
{
    return numbers(seed, 2, (const int64_t[]){rows, columns}, 1, 0);
}

/* The places of make_planner_goldens.py among the first n elements. */
static void assert_golden(const neap_array *y, int64_t n, const double *want, double tolerance)
{
    const float *got = neap_array_data(y);
    assert_non_null(got);
    const int64_t step = n / PLACES;
    for (int64_t i = 0; i < PLACES; i++) {
        double v = (double)got[i * step + i * 7 % step];
        if (!(fabs(v - want[i]) <= tolerance))
            fail_msg("place %d: %.9g, expected %.9g within %g", (int)i, v, want[i], tolerance);
    }
}

/* ---- A1: a long chain, built before any of it runs ------------------------------------------- */

enum { CHAIN_ROWS = 16, CHAIN_STEPS = 500 };

typedef struct chain_run {
    uint64_t peak, held;
    float *values; /* the result */
} chain_run;

static chain_run run_chain(int64_t rows, int steps, uint64_t budget)
{
    neap_context *ctx = open_context(budget, 2);
    neap_array *y = matrix(1, rows, 1024);
    neap_array *w = numbers(2, 2, (const int64_t[]){1024, 1024}, 1, 1.0f / 64);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    for (int i = 0; i < steps; i++)
        y = neap_rms_norm(neap_relu(neap_matmul(y, w)), NULL, 1e-6f);
    neap_retain(y);
    if (neap_eval(y) != NEAP_OK)
        fail_msg("%d steps: %s", steps, neap_context_error(ctx));
    neap_scope_pop(ctx);
    chain_run r = {memory(ctx).peak, 0, malloc((size_t)rows * 4096)};
    assert_non_null(r.values);
    assert_int_equal(neap_array_read(y, r.values, (uint64_t)rows * 4096), NEAP_OK);
    if (rows >= CHAIN_ROWS && (steps == 5 || steps == CHAIN_STEPS)) {
        /* sums of 1024 products in f32, errors of earlier steps die away: NumPy in f32 is off by
         * 5e-6 */
        const double *want = steps == 5 ? golden_chain_5 : golden_chain_500;
        assert_golden(y, CHAIN_ROWS * 1024, want, 2e-5);
    }
    neap_context_trim(ctx); /* the arena, then the plan */
    neap_context_trim(ctx);
    r.held = held(ctx);
    neap_release(y);
    close_context(ctx);
    return r;
}

/* At 1024 rows one run is a tera-flop. With 16 all arrays but W are a 64th: of the budget's 24 MiB
 * W stays, and 3.5 for the rest, most of it nodes, the plan and the product's panels. */
static void test_long_chain(void **state)
{
    (void)state;
    const bool full = getenv("NEAP_FULL") != NULL;
    const int64_t rows = full ? 1024 : CHAIN_ROWS;
    const uint64_t budget = full ? 24 * MIB : 7 * MIB + MIB / 2;
    chain_run few = run_chain(rows, 5, budget), some = run_chain(rows, 50, budget);
    chain_run all = run_chain(rows, CHAIN_STEPS, budget),
              free_run = run_chain(rows, CHAIN_STEPS, 0);
    assert_true(all.peak <= budget && some.peak <= budget);
    assert_memory_equal(all.values, free_run.values, (size_t)rows * 4096);
    assert_true(all.held <= some.held + (64 << 10)); /* a slab */
    free(few.values);
    free(some.values);
    free(all.values);
    free(free_run.values);
}

/* ---- A4: every step of another length -------------------------------------------------------- */

enum { WIDTH = 64, LENGTHS = 200 };

typedef struct layer {
    neap_array *q, *k, *v, *up, *down;
} layer;

static neap_array *step_of(const layer *l, int64_t length)
{
    neap_array *x = matrix(9, length, WIDTH);
    neap_array *scores =
        neap_matmul(neap_matmul(x, l->q), neap_transpose(neap_matmul(x, l->k), NULL));
    x = neap_add(x, neap_matmul(neap_softmax(scores, 1), neap_matmul(x, l->v)));
    x = neap_add(x, neap_matmul(neap_gelu(neap_matmul(x, l->up)), l->down));
    return neap_sum_all(neap_square(x));
}

/* Held bytes after the step, without trimming. */
static uint64_t run_step(neap_context *ctx, const layer *l, int64_t length)
{
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    neap_array *loss = step_of(l, length);
    if (neap_eval(loss) != NEAP_OK)
        fail_msg("length %d: %s", (int)length, neap_context_error(ctx));
    assert_true(*(const float *)neap_array_data(loss) > 0);
    neap_scope_pop(ctx);
    return held(ctx);
}

static layer make_layer(void)
{
    return (layer){matrix(1, WIDTH, WIDTH), matrix(2, WIDTH, WIDTH), matrix(3, WIDTH, WIDTH),
                   matrix(4, WIDTH, 4 * WIDTH), matrix(5, 4 * WIDTH, WIDTH)};
}

static void test_changing_lengths(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 2);
    layer l = make_layer();
    const uint64_t longest = run_step(ctx, &l, LENGTHS);
    const uint64_t cap = memory(ctx).peak + memory(ctx).peak / 20;
    close_context(ctx);

    random_graph order = {.random = 4};
    int64_t length[LENGTHS];
    for (int i = 0; i < LENGTHS; i++) { /* each of 1 .. 200 once, in random order */
        int k = rnd(&order, i + 1);
        length[i] = length[k];
        length[k] = i + 1;
    }
    ctx = open_context(cap, 2);
    l = make_layer();
    uint64_t last = 0;
    for (int i = 0; i < LENGTHS; i++)
        last = run_step(ctx, &l, length[i]);
    assert_true(memory(ctx).peak <= cap);
    if (last > longest + longest / 20)
        fail_msg("%llu bytes held after %d lengths, %llu after the longest",
                 (unsigned long long)last, LENGTHS, (unsigned long long)longest);
    close_context(ctx);
}

/* ---- A7: two products, each only summed ------------------------------------------------------ */

static void test_two_row_sums(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 2);
    neap_array *a = matrix(1, 1024, 16), *b = matrix(2, 1024, 16), *w = matrix(3, 16, 1024);
    float *bits[2];
    for (int fused = 0; fused < 2; fused++) {
        neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
        neap_plan_info info = NEAP_PLAN_INFO_INIT;
        neap_plan *plan;
        o.without = fused ? 0 : NEAP_PLAN_NO_FUSION;
        assert_int_equal(neap_context_plan_options(ctx, &o), NEAP_OK);
        neap_array *y =
            neap_add(neap_sum(neap_matmul(a, w), -1, 0), neap_sum(neap_matmul(b, w), -1, 0));
        assert_int_equal(neap_plan_make(ctx, 1, &y, 0, NULL, &plan), NEAP_OK);
        assert_int_equal(neap_plan_run(plan, NULL), NEAP_OK);
        neap_plan_describe(plan, &info);
        /* 2048 sums of 16 products in f32 make up to 31: 7e-6 measured */
        assert_golden(neap_plan_output(plan, 0), 1024, golden_row_sums, 3e-5);
        bits[fused] = malloc(4096);
        assert_int_equal(neap_array_read(neap_plan_output(plan, 0), bits[fused], 4096), NEAP_OK);
        /* one product; unfused it is whole, and a row sum and panels lie beside it */
        if (info.arena_bytes > 4 * MIB + (fused ? 0 : 64 << 10))
            fail_msg("%llu bytes of arena", (unsigned long long)info.arena_bytes);
        neap_plan_free(plan);
    }
    assert_memory_equal(bits[0], bits[1], 4096);
    free(bits[0]);
    free(bits[1]);
    close_context(ctx);
}

/* ---- A8: never above what program order needs ------------------------------------------------ */

/* The same program in another order that its edges allow. */
static void shuffle(random_graph *g, uint64_t seed)
{
    static graph_node old[GRAPH_NODES];
    int place[GRAPH_NODES], waiting[GRAPH_NODES], n = 0;
    random_graph order = {.random = seed};
    memcpy(old, g->node, sizeof old);
    for (int i = 0; i < g->n; i++)
        place[i] = -1;
    while (n < g->n) {
        int ready = 0;
        for (int i = 0; i < g->n; i++) {
            bool is = place[i] < 0;
            for (int k = 0; k < old[i].n_in; k++)
                is = is && place[old[i].in[k]] >= 0;
            if (is)
                waiting[ready++] = i;
        }
        int i = waiting[rnd(&order, ready)];
        g->node[n] = old[i];
        for (int k = 0; k < old[i].n_in; k++)
            g->node[n].in[k] = place[old[i].in[k]];
        place[i] = n++;
    }
    for (int r = 0; r < g->n_roots; r++)
        g->root[r] = place[g->root[r]];
}

static uint64_t planned_peak(neap_context *ctx, const random_graph *g, unsigned without)
{
    static neap_array *a[GRAPH_NODES];
    neap_array *roots[GRAPH_ROOTS];
    neap_plan *plan;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    const build_target to = {NULL, NULL, 0};
    o.without = without;
    assert_int_equal(neap_context_plan_options(ctx, &o), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    for (int i = 0; i < g->n; i++)
        a[i] = build_node(&g->node[i], a, &to);
    for (int r = 0; r < g->n_roots; r++)
        roots[r] = a[g->root[r]];
    assert_int_equal(neap_plan_make(ctx, g->n_roots, roots, 0, NULL, &plan), NEAP_OK);
    neap_plan_describe(plan, &info);
    neap_plan_free(plan);
    neap_scope_pop(ctx);
    return info.peak_bytes;
}

static void test_three_orders(void **state)
{
    (void)state;
    const unsigned off = NEAP_PLAN_NO_FUSION | NEAP_PLAN_NO_SIDEWAYS | NEAP_PLAN_NO_ORDER |
                         NEAP_PLAN_NO_STREAMING | NEAP_PLAN_NO_RECOMPUTE;
    static random_graph g;
    neap_context *ctx = open_context(0, 1);
    for (int seen = 0, seed = 1; seen < 60; seed++) {
        draw_graph(&g, (uint64_t)seed + 1000000, ctx);
        const bool fits = g.n >= 40 && g.n <= 60 && g.n_states == 0 && g.rows == 0;
        for (int order = 0; fits && order < 3; order++) {
            uint64_t eager = planned_peak(ctx, &g, off), planned = planned_peak(ctx, &g, 0);
            if (planned > eager) {
                list_graph(&g);
                fail_msg("seed %d, order %d: %llu planned, %llu in program order", seed, order,
                         (unsigned long long)planned, (unsigned long long)eager);
            }
            shuffle(&g, (uint64_t)(seed * 3 + order));
        }
        seen += fits;
        free_graph(&g);
    }
    close_context(ctx);
}

/* ---- A10: refused, and none the worse for it --------------------------------------------------
 */

static void test_refused_arrays(void **state)
{
    (void)state;
    const int64_t n = 1 << 20;
    neap_context *ctx = open_context(64 * MIB, 2);
    float *first = NULL;
    uint64_t start = 0;
    for (int round = 0; round < 3; round++) {
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        int made = 0;
        while (neap_array_zeros(NEAP_F32, 1, &n))
            made++;
        assert_true(made == 15 || made == 14);
        assert_int_equal(neap_context_status(ctx), NEAP_ENOMEM);
        const char *text = neap_context_error(ctx);
        assert_non_null(strstr(text, "4194304 bytes")); /* asked for */
        assert_non_null(strstr(text, "held "));
        assert_non_null(strstr(text, "limit is 67108864"));
        neap_context_clear_error(ctx);
        neap_scope_pop(ctx);

        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        neap_array *y = neap_sum_all(neap_exp(numbers(1, 1, &n, 1, 0)));
        assert_int_equal(neap_eval(y), NEAP_OK);
        float sum = *(const float *)neap_array_data(y);
        if (!first)
            first = memcpy(malloc(sizeof sum), &sum, sizeof sum);
        assert_memory_equal(&sum, first, sizeof sum);
        neap_scope_pop(ctx);
        neap_context_trim(ctx);
        if (round == 0)
            start = held(ctx);
        assert_int_equal(held(ctx), start);
    }
    free(first);
    close_context(ctx);
}

/* An evaluation that does not fit, asked for again and again. */
static void test_refused_evaluations(void **state)
{
    (void)state;
    const int64_t n = 1 << 20;
    neap_context *ctx = open_context(13 * MIB, 2);
    uint64_t start = 0;
    for (int round = 0; round < 4; round++) {
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        neap_array *x = numbers(1, 1, &n, 1, 0);
        neap_array *parts[4] = {neap_exp(x), neap_neg(x), neap_square(x), neap_tanh(x)};
        assert_int_equal(neap_eval_all(4, parts), NEAP_ENOMEM);
        assert_non_null(strstr(neap_context_error(ctx), "limit is 13631488"));
        assert_int_equal(neap_context_status(ctx), NEAP_OK);
        assert_false(neap_array_is_value(parts[0]));
        assert_int_equal(neap_eval(parts[1]), NEAP_OK); /* one fits */
        assert_float_equal(((const float *)neap_array_data(parts[1]))[7], -number(1, 7), 0);
        neap_scope_pop(ctx);
        neap_context_trim(ctx);
        if (round == 0)
            start = held(ctx);
        assert_int_equal(held(ctx), start);
    }
    close_context(ctx);
}

/* ---- A11: a sum over batches that nobody evaluates until the end ------------------------------
 */

enum { BATCH = 262144, DISTINCT = 8 };

/* Batches lie in memory of the caller, as a file's do: what is counted is the graph's own. */
static uint64_t accumulate(int batches, const float *data, const double *want, double tolerance)
{
    const int64_t n = BATCH;
    neap_context *ctx = open_context(16 * MIB, 2);
    neap_array *acc = neap_retain(neap_array_zeros(NEAP_F32, 1, &n));
    for (int i = 0; i < batches; i++) {
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        neap_array *x = neap_array_over(NEAP_F32, 1, &n, data + i % DISTINCT * n, NULL, NULL);
        neap_array *next = neap_retain(neap_add(acc, neap_tanh(x)));
        assert_non_null(next);
        neap_release(acc);
        acc = next;
        neap_scope_pop(ctx);
    }
    if (neap_eval(acc) != NEAP_OK)
        fail_msg("%d batches: %s", batches, neap_context_error(ctx));
    assert_golden(acc, n, want, tolerance);
    neap_release(acc);
    uint64_t peak = memory(ctx).peak;
    close_context(ctx);
    return peak;
}

static void test_lazy_accumulation(void **state)
{
    (void)state;
    float *data = malloc(sizeof(float) * BATCH * DISTINCT);
    assert_non_null(data);
    for (int64_t i = 0; i < BATCH * DISTINCT; i++)
        data[i] = number(100 + (uint32_t)(i / BATCH), i % BATCH);
    /* each addition rounds by up to 2^-25 of a sum that grows to 10, to 200 */
    uint64_t few = accumulate(10, data, golden_accumulated_10, 10 * 10 / 33554432.0);
    uint64_t many = accumulate(1000, data, golden_accumulated_1000, 1000 * 200 / 33554432.0);
    assert_true(few <= 16 * MIB && many <= 16 * MIB);
    /* a batch is 1 MiB; its nodes, its steps and what planning them takes are below 8 KiB */
    if (many > few + 990 * 8 * 1024)
        fail_msg("peak of 10 batches %llu, of 1000 %llu", (unsigned long long)few,
                 (unsigned long long)many);
    free(data);
}

/* Batches of its own are what waits: the one that does not fit is refused, before it is taken, by
 * an error that names what is pending; the sum so far can be evaluated as soon as there is room. */
static void test_pending_batches(void **state)
{
    (void)state;
    const int64_t n = BATCH;
    neap_context *ctx = open_context(16 * MIB, 2);
    neap_array *acc = neap_retain(neap_array_zeros(NEAP_F32, 1, &n));
    int refused = 0;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(neap_scope_push(ctx), NEAP_OK);
        neap_array *x = neap_array_zeros(NEAP_F32, 1, &n);
        if (!x) {
            assert_int_equal(neap_context_status(ctx), NEAP_ENOMEM);
            assert_non_null(strstr(neap_context_error(ctx), "f32 [262144]"));
            assert_non_null(strstr(neap_context_error(ctx), "bytes of values, pending"));
            neap_context_clear_error(ctx);
            assert_int_equal(neap_context_set_limit(ctx, 20 * MIB), NEAP_OK);
            assert_int_equal(neap_eval(acc), NEAP_OK);
            assert_int_equal(neap_context_set_limit(ctx, 16 * MIB), NEAP_OK);
            refused++;
            x = neap_array_zeros(NEAP_F32, 1, &n);
            assert_non_null(x);
        }
        float *v = neap_array_mutable(x);
        for (int64_t k = 0; k < n; k++)
            v[k] = number(100 + (uint32_t)i % DISTINCT, k);
        neap_array *next = neap_retain(neap_add(acc, neap_tanh(x)));
        neap_release(acc);
        acc = next;
        neap_scope_pop(ctx);
    }
    assert_true(refused >= 2 && held(ctx) <= 16 * MIB);
    neap_release(acc);
    close_context(ctx);
}

/* ---- a transformer block, attention and all of ordinary ops ------------------------------------
 */

enum { TIME = 512, MODEL = 768, HEADS = 12, HEAD = MODEL / HEADS };

static neap_array *project(neap_array *x, uint32_t *seed, int64_t n)
{
    const int64_t k = neap_array_shape(x)[1], w[2] = {k, n};
    neap_array *weight = numbers((*seed)++, 2, w, 1.0f / 16, 0);
    return neap_add(neap_matmul(x, weight), numbers((*seed)++, 1, &n, 1.0f / 16, 0));
}

/* Part i of q, k and v: [TIME, 3, HEADS, HEAD] -> [HEADS, TIME, HEAD], or k turned over. */
static neap_array *heads_of(neap_array *qkv, int i, const int *axes)
{
    return neap_transpose(neap_squeeze(neap_narrow(qkv, 1, i, i + 1), 1), axes);
}

static neap_array *attend(neap_array *x, uint32_t *seed)
{
    const int64_t split[4] = {TIME, 3, HEADS, HEAD}, joined[2] = {TIME, MODEL},
                  column[2] = {TIME, 1};
    const int rows[3] = {1, 0, 2}, turned[3] = {1, 2, 0};
    neap_array *qkv = neap_reshape(project(x, seed, 3 * MODEL), 4, split);
    neap_array *scores = neap_matmul(heads_of(qkv, 0, rows), heads_of(qkv, 1, turned));
    neap_array *at = neap_arange(0, TIME, 1, NEAP_I32);
    neap_array *seen = neap_less_equal(at, neap_reshape(at, 2, column));
    scores = neap_where(seen, neap_mul(scores, neap_scalar(NEAP_F32, 0.125)),
                        neap_scalar(NEAP_F32, -INFINITY));
    neap_array *y = neap_matmul(neap_softmax(scores, -1), heads_of(qkv, 2, rows));
    y = neap_reshape(neap_contiguous(neap_transpose(y, rows)), 2, joined);
    return project(y, seed, MODEL);
}

static neap_array *transformer_block(void)
{
    uint32_t seed = 2;
    neap_array *x = numbers(1, 2, (const int64_t[]){TIME, MODEL}, 4, 0);
    x = neap_add(x, attend(neap_layer_norm(x, NULL, NULL, 1e-5f), &seed));
    neap_array *h = neap_gelu(project(neap_layer_norm(x, NULL, NULL, 1e-5f), &seed, 4 * MODEL));
    return neap_add(x, project(h, &seed, MODEL));
}

/* Bytes of values that have rows of TIME for TIME positions, and of the largest scratch. */
typedef struct squares {
    uint64_t whole, scratch;
} squares;

static bool note_square(void *user, const neap_plan_value *v)
{
    squares *s = user;
    if (v->kind == NEAP_PLAN_SCRATCH)
        s->scratch = v->bytes > s->scratch ? v->bytes : s->scratch;
    else if (v->rank >= 2 && v->shape[v->rank - 1] == TIME && v->shape[v->rank - 2] == TIME)
        s->whole += v->bytes;
    return true;
}

/* Scores of the heads, and the mask that they share, exist for some rows at a time only. */
static void test_transformer_block(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 2);
    neap_array *y = transformer_block();
    neap_plan *plan;
    if (neap_plan_make(ctx, 1, &y, 0, NULL, &plan) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    squares most = {0, 0};
    neap_plan_values(plan, note_square, &most);
    if (most.whole || most.scratch >= TIME * TIME * sizeof(float))
        fail_msg("%llu bytes of %d x %d, %llu of scratch", (unsigned long long)most.whole, TIME, TIME,
                 (unsigned long long)most.scratch);
    assert_int_equal(neap_plan_run(plan, NULL), NEAP_OK);
    /* results of up to 2, through sums of up to 3072 products in f32: 1e-6 measured */
    assert_golden(neap_plan_output(plan, 0), TIME * MODEL, golden_block, 5e-6);
    neap_plan_free(plan);
    close_context(ctx);
}

/* ---- groups that may not become one --------------------------------------------------------- */

/* From a task on to a later one, whose group begins before the first: found by the random programs.
 * `max(l, q)` with q in one group would wait for the group that waits for it. */
static void test_no_circle_of_groups(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    float *bits[2];
    for (int low = 0; low < 2; low++) {
        neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
        neap_plan *plan;
        o.without = low ? NEAP_PLAN_LOW_MEMORY : NEAP_PLAN_NO_FUSION;
        assert_int_equal(neap_context_plan_options(ctx, &o), NEAP_OK);
        neap_array *x = matrix(1, 3000, 40), *column = matrix(2, 3000, 1);
        neap_array *q = neap_prod_axes(column, 1, (const int[]){1}, NEAP_KEEPDIMS);
        neap_array *l = neap_logaddexp(x, x), *either = neap_logical_or(l, l);
        neap_array *sum = neap_add(either, l), *most = neap_maximum(l, q);
        neap_array *both = neap_logical_and(q, sum);
        neap_array *roots[3] = {most, neap_logical_or(q, either), both};
        assert_int_equal(neap_plan_make(ctx, 3, roots, 0, NULL, &plan), NEAP_OK);
        assert_int_equal(neap_plan_run(plan, NULL), NEAP_OK);
        bits[low] = malloc(480000);
        assert_int_equal(neap_array_read(neap_plan_output(plan, 0), bits[low], 480000), NEAP_OK);
        neap_plan_free(plan);
    }
    assert_memory_equal(bits[0], bits[1], 480000);
    free(bits[0]);
    free(bits[1]);
    close_context(ctx);
}

/* Half of an array of 16-bit floats, cast to 32 bits, has the bytes of the whole, but cannot lie there. */
static void test_half_is_not_the_whole(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 1);
    neap_array *x = neap_cast(matrix(1, 74, 228), NEAP_BF16);
    assert_int_equal(neap_eval(x), NEAP_OK);
    neap_array *y = neap_cast(neap_narrow(neap_maximum(x, x), 0, 0, 37), NEAP_F32);
    assert_int_equal(neap_eval(y), NEAP_OK);
    const uint16_t *bits = neap_array_data(x);
    const float *got = neap_array_data(y);
    for (int i = 0; i < 37 * 228; i++) {
        const uint32_t want = (uint32_t)bits[i] << 16;
        assert_memory_equal(&got[i], &want, sizeof want);
    }
    close_context(ctx);
}

/* Rows of eight, set at run time, in 16 and 32 bits: their tiles are both less than 64 bytes, and still do
 * not lie on each other. |-x| + f with whole numbers, which both types hold. */
static void test_tiles_of_short_rows(void **state)
{
    (void)state;
    enum { ROWS = 2325, COLUMNS = 8 };
    static float x[ROWS * COLUMNS], f[ROWS * COLUMNS];
    const int64_t shape[2] = {ROWS, COLUMNS}, columns = COLUMNS;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)(i % 37 - 18);
        f[i] = (float)(i % 11) + 0.5f;
    }
    neap_context *ctx = open_context(0, 1);
    neap_param *p;
    neap_plan *plan;
    assert_int_equal(neap_param_new(ctx, "columns", COLUMNS, &p), NEAP_OK);
    neap_array *a = neap_cast(neap_array_over(NEAP_F32, 2, shape, x, NULL, NULL), NEAP_F16);
    neap_array *b = neap_array_over(NEAP_F32, 2, shape, f, NULL, NULL);
    assert_int_equal(neap_eval(a), NEAP_OK);
    neap_array *y = neap_abs(neap_neg(neap_limit(a, 1, p)));
    y = neap_add(neap_cast(y, NEAP_F32), neap_limit(b, 1, p));
    assert_int_equal(neap_plan_make(ctx, 1, &y, 1, &p, &plan), NEAP_OK);
    assert_int_equal(neap_plan_run(plan, &columns), NEAP_OK);
    const float *got = neap_array_data(neap_plan_output(plan, 0));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(got[i] == fabsf(x[i]) + f[i]);
    neap_plan_free(plan);
    neap_param_free(p);
    close_context(ctx);
}

/* A value that only has to be there before another one is made in the same step as a result: it does not
 * lie in the result. cos 0 is 1, sin(tanh 0) is 0. */
static void test_begun_in_the_step_of_a_result(void **state)
{
    (void)state;
    const int64_t n = 16000;
    neap_context *ctx = open_context(0, 1);
    neap_plan *plan;
    neap_array *x = neap_array_zeros(NEAP_F32, 1, &n);
    neap_array *sum = neap_sum(neap_depends(neap_exp(x), neap_sin(neap_tanh(x))), 0, 0);
    neap_array *roots[2] = {sum, neap_cos(x)};
    assert_int_equal(neap_plan_make(ctx, 2, roots, 0, NULL, &plan), NEAP_OK);
    assert_int_equal(neap_plan_run(plan, NULL), NEAP_OK);
    const float *cosines = neap_array_data(neap_plan_output(plan, 1));
    for (int i = 0; i < n; i++)
        assert_true(cosines[i] == 1.0f);
    assert_true(*(const float *)neap_array_data(neap_plan_output(plan, 0)) == (float)n);
    neap_plan_free(plan);
    close_context(ctx);
}

/* What a part of a 16-bit result is made of has, in 32 bits, the bytes of the whole result, but cannot lie
 * in it until the part is made: element i of the part is not where element i of the other is. */
static void part_beside_what_it_reads(int place, bool fused)
{
    neap_context *ctx = open_context(0, 4);
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    o.without = fused ? 0 : NEAP_PLAN_NO_FUSION;
    assert_int_equal(neap_context_plan_options(ctx, &o), NEAP_OK);
    neap_array *x = matrix(1, 512, 512);
    neap_array *want = neap_cast(neap_square(neap_transpose(x, NULL)), NEAP_BF16);
    neap_retain(want);
    assert_int_equal(neap_eval(want), NEAP_OK);
    neap_array *big = neap_contiguous(neap_transpose(x, NULL));
    neap_array *part = neap_cast(neap_square(big), NEAP_BF16), *other = neap_cast(x, NEAP_BF16);
    neap_array *both[] = {place ? other : part, place ? part : other};
    neap_array *y = neap_concat(2, both, 0);
    assert_int_equal(neap_eval(y), NEAP_OK);
    const size_t n = 512 * 512;
    const uint16_t *got = neap_array_data(y);
    assert_memory_equal(got + (place ? n : 0), neap_array_data(want), n * sizeof *got);
    neap_release(want);
    close_context(ctx);
}

static void test_part_beside_what_it_reads(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        part_beside_what_it_reads(i & 1, i >> 1);
}

/* Without a budget in the options it is what the context's limit leaves: between the least peak and
 * the usual one, with room for the plan, the block still runs, and to the same numbers. */
static void test_limit_is_a_budget(void **state)
{
    (void)state;
    uint64_t peak[2];
    for (int low = 0; low < 2; low++) {
        neap_context *ctx = open_context(0, 2);
        neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
        neap_plan_info info = NEAP_PLAN_INFO_INIT;
        neap_plan *plan;
        o.without = low ? NEAP_PLAN_LOW_MEMORY : 0;
        assert_int_equal(neap_context_plan_options(ctx, &o), NEAP_OK);
        neap_array *y = transformer_block();
        assert_int_equal(neap_plan_make(ctx, 1, &y, 0, NULL, &plan), NEAP_OK);
        neap_plan_describe(plan, &info);
        peak[low] = info.peak_bytes;
        neap_plan_free(plan);
        close_context(ctx);
    }
    assert_true(peak[1] + MIB < peak[0]);
    neap_context *ctx = open_context(0, 2);
    neap_array *y = transformer_block();
    neap_context_trim(ctx);
    assert_int_equal(neap_context_set_limit(ctx, held(ctx) + peak[1] + MIB), NEAP_OK);
    if (neap_eval(y) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
    assert_golden(y, TIME * MODEL, golden_block, 5e-6);
    close_context(ctx);
}

/* A run that is refused, for its results or for its arena, leaves no more held than there was. */
static void test_refused_runs(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0, 2);
    neap_array *x = matrix(1, 512, 512);
    neap_array *y = neap_softmax(neap_matmul(x, neap_matmul(x, x)), 0);
    neap_plan *plan;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    assert_int_equal(neap_plan_make(ctx, 1, &y, 0, NULL, &plan), NEAP_OK);
    neap_plan_describe(plan, &info);
    assert_true(info.peak_bytes > info.output_bytes);
    neap_context_trim(ctx);
    const uint64_t before = held(ctx);
    const uint64_t rooms[] = {1000, info.output_bytes + 1000, info.peak_bytes - 1};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        assert_int_equal(neap_context_set_limit(ctx, before + rooms[i]), NEAP_OK);
        assert_int_equal(neap_plan_run(plan, NULL), NEAP_ENOMEM);
        neap_context_trim(ctx);
        assert_int_equal(held(ctx), before);
    }
    assert_int_equal(neap_context_set_limit(ctx, before + info.peak_bytes), NEAP_OK);
    assert_int_equal(neap_plan_run(plan, NULL), NEAP_OK);
    neap_plan_free(plan);
    close_context(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_runs),
        cmocka_unit_test(test_long_chain),        cmocka_unit_test(test_changing_lengths),
        cmocka_unit_test(test_two_row_sums),      cmocka_unit_test(test_three_orders),
        cmocka_unit_test(test_refused_arrays),    cmocka_unit_test(test_refused_evaluations),
        cmocka_unit_test(test_lazy_accumulation), cmocka_unit_test(test_pending_batches),
        cmocka_unit_test(test_transformer_block),
        cmocka_unit_test(test_no_circle_of_groups),
        cmocka_unit_test(test_half_is_not_the_whole),
        cmocka_unit_test(test_tiles_of_short_rows),
        cmocka_unit_test(test_begun_in_the_step_of_a_result),
        cmocka_unit_test(test_part_beside_what_it_reads),
        cmocka_unit_test(test_limit_is_a_budget)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
