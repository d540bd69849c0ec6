/* test_depends.c - neap_depends in every spelling: what reads x, or a view of it, runs only after what it was
 * told to wait for, in no one step with that; gated twins stay apart; the bits are x's own.
 *
 * Each graph is made so that, without the gate, a better order exists in which the reader comes first: the
 * reader frees a large value, and what it waits for needs much room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/context.h"
#include "neap/ops.h"
#include "neap/plan.h"

enum { N = 128, BYTES = N * N * 4 };

static neap_context *open_context(unsigned without)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_plan_options plan = NEAP_PLAN_OPTIONS_INIT;
    o.threads = 1;
    plan.without = without;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_int_equal(neap_context_plan_options(ctx, &plan), NEAP_OK);
    assert_int_equal(neap_scope_push(ctx), NEAP_OK);
    return ctx;
}

static void close_context(neap_context *ctx)
{
    neap_scope_pop(ctx);
    neap_context_free(ctx);
}

static neap_array *matrix(float first)
{
    const int64_t shape[] = {N, N};
    neap_array *x = neap_array_zeros(NEAP_F32, 2, shape);
    float *p = neap_array_mutable(x);
    for (int i = 0; i < N * N; i++)
        p[i] = first + (float)(i % 97) / 128;
    return x;
}

static neap_array *total(neap_array *x)
{
    return neap_sum_all(x);
}

/* ---- spellings ----------------------------------------------------------------------------------- */

static neap_array *plain(neap_array *x) { return x; }

static neap_array *turned(neap_array *x) { return neap_transpose(x, NULL); }

static neap_array *cut(neap_array *x)
{
    return neap_slice(x, (const int64_t[]){1, 0}, (const int64_t[]){N, N}, NULL);
}

static neap_array *flat(neap_array *x) { return neap_reshape(x, 1, (const int64_t[]){-1}); }

static neap_array *twice_looked_at(neap_array *x) { return flat(neap_expand_dims(x, 0)); }

static neap_array *spread(neap_array *x)
{
    return neap_broadcast_to(neap_expand_dims(x, 0), 3, (const int64_t[]){2, N, N});
}

static neap_array *gated_before(neap_array *x) { return neap_depends(x, neap_scalar(NEAP_F32, 1)); }

static neap_array *gated_twice(neap_array *x)
{
    return neap_depends(turned(gated_before(x)), neap_cos(neap_scalar(NEAP_F32, 2)));
}

typedef neap_array *look(neap_array *x);

static look *const looks[] = {plain,  turned,          cut,          flat,
                              spread, twice_looked_at, gated_before, gated_twice};

enum { LOOKS = sizeof looks / sizeof *looks };

/* What there is to wait for. */
typedef enum kind { NODE, VIEW, VIEW_OF_VIEW, GATED, NESTED, WRITE, READ, VIEW_OF_READ, KINDS } kind;

static neap_array *write_of(neap_state *s, neap_array *x)
{
    neap_array *w = neap_state_write(neap_state_read(s), x);
    neap_array_set_name(w, "before");
    return w;
}

/* A small array that is made of a large one, in one of the spellings. */
static neap_array *before_of(kind k, neap_state *s)
{
    neap_array *large = neap_cumsum(neap_sin(matrix(1)), 1, false, true);
    neap_array *x = neap_sum(large, 1, 0), *y;
    if (k < WRITE) {
        neap_array_set_name(x, "before");
        switch (k) {
        case VIEW: return neap_expand_dims(x, 0);
        case VIEW_OF_VIEW: return neap_transpose(neap_expand_dims(x, 0), NULL);
        case GATED: return neap_depends(x, neap_scalar(NEAP_F32, 1));
        case NESTED:
            y = neap_depends(neap_array_zeros(NEAP_F32, 1, (const int64_t[]){3}), neap_expand_dims(x, 0));
            return neap_expand_dims(neap_depends(neap_cos(neap_scalar(NEAP_F32, 1)), y), 0);
        default: return x;
        }
    }
    neap_array *w = write_of(s, x);
    return k == WRITE ? w : k == READ ? neap_state_read(s) : neap_expand_dims(neap_state_read(s), 0);
}

/* What is gated: a node of its own, a value. */
static neap_array *source_of(int which)
{
    return which ? matrix(2) : neap_exp(matrix(2));
}

typedef struct steps {
    int64_t n, before, reader, readers;
    int64_t before_ops;
} steps;

static bool take_step(void *user, const neap_plan_step *s)
{
    steps *seen = user;
    if (!strcmp(s->name, "before"))
        seen->before = seen->n;
    if (!strcmp(s->name, "reader") && seen->readers++ == 0)
        seen->reader = seen->n;
    seen->n++;
    return true;
}

static steps steps_of(const neap_plan *p)
{
    steps seen = {.before = -1, .reader = -1};
    assert_int_equal(neap_plan_steps(p, take_step, &seen), NEAP_OK);
    return seen;
}

typedef struct graph_case {
    int source;
    look *first, *then; /* of x, then of the gated one */
    kind before;
    bool gate, effect;  /* effect: the reader writes a state */
} graph_case;

/* The reader frees `large`, which is made first: it is rather run before what it waits for. Returns its sum;
 * what is waited for is a root, too. */
static steps run(const graph_case *c, unsigned without, float *out)
{
    neap_context *ctx = open_context(without);
    neap_state *s, *t;
    neap_plan *p;
    assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 1, (const int64_t[]){N}, &s), NEAP_OK);
    assert_int_equal(neap_state_new(ctx, "t", NEAP_F32, 0, NULL, &t), NEAP_OK);
    neap_array *large = neap_cumsum(neap_tanh(matrix(3)), 0, false, true);
    neap_array *x = c->first(source_of(c->source)), *before = before_of(c->before, s);
    neap_array *seen = c->then(c->gate ? neap_depends(x, before) : x);
    neap_array *like = c->then(c->first(large)); /* of the same shape, and nothing else reads `large` */
    neap_array *product = neap_mul(seen, like), *y = total(product);
    neap_array_set_name(product, "reader");
    neap_array_set_name(y, "reader");
    neap_array *roots[] = {c->effect ? neap_state_write(neap_state_read(t), y) : y, before};
    if (c->effect)
        neap_array_set_name(roots[0], "reader");
    assert_non_null(roots[0]);
    assert_non_null(before);
    assert_int_equal(neap_plan_make(ctx, 2, roots, 0, NULL, &p), NEAP_OK);
    assert_int_equal(neap_plan_run(p, NULL), NEAP_OK);
    neap_array *result = c->effect ? neap_state_read(t) : NULL;
    if (result)
        assert_int_equal(neap_eval(result), NEAP_OK);
    *out = *(const float *)neap_array_data(result ? result : neap_plan_output(p, 0));
    const steps seen_steps = steps_of(p);
    neap_plan_free(p);
    neap_state_free(s);
    neap_state_free(t);
    close_context(ctx);
    return seen_steps;
}

static int64_t freed_first; /* ungated graphs whose reader comes first */

static void check(const graph_case *given)
{
    static const unsigned ways[] = {NEAP_PLAN_NO_FUSION, 0, NEAP_PLAN_NO_ORDER, NEAP_PLAN_LOW_MEMORY};
    graph_case gated = *given, open = *given;
    gated.gate = true;
    open.gate = false;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float with, without;
        const steps a = run(&gated, ways[i], &with), b = run(&open, ways[i], &without);
        assert_true(a.before >= 0 && a.reader > a.before);
        assert_memory_equal(&with, &without, sizeof with);
        freed_first += b.reader < b.before;
    }
}

static void test_every_spelling(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++)
        for (int k = 0; k < KINDS; k++)
            for (int i = 0; i < LOOKS; i++) {
                check(&(graph_case){.source = source, .first = looks[i], .then = plain, .before = (kind)k});
                check(&(graph_case){.source = source, .first = plain, .then = looks[i], .before = (kind)k,
                                    .effect = true});
            }
    assert_true(freed_first > 256); /* of 1,024: without the gates the order is another one */
}

/* ---- roots, values, nothing to wait for ------------------------------------------------------------ */

/* A gated value is none until what it waits for has run: evaluating it runs that. */
static void test_a_gated_value(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        neap_context *ctx = open_context(0);
        neap_state *s;
        assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 0, NULL, &s), NEAP_OK);
        neap_array *x = neap_array_from(NEAP_F32, 1, (const int64_t[]){2}, (const float[]){5, 7});
        neap_array *w = neap_state_write(neap_state_read(s), neap_scalar(NEAP_F32, 3));
        neap_array *v = neap_depends(how & 1 ? neap_expand_dims(x, 0) : x, w);
        v = how & 2 ? neap_expand_dims(v, 0) : v;
        assert_false(neap_array_is_value(v));
        assert_null(neap_array_data(v));
        assert_int_equal(neap_eval(v), NEAP_OK);
        assert_true(neap_array_is_value(v));
        float got[2];
        assert_int_equal(neap_array_read(v, got, sizeof got), NEAP_OK);
        assert_memory_equal(got, ((const float[]){5, 7}), sizeof got);
        neap_array *r = neap_state_read(s);
        neap_eval_stats stats = NEAP_EVAL_STATS_INIT;
        neap_context_eval_stats(ctx, &stats);
        assert_int_equal(stats.plans, 1);
        assert_int_equal(neap_eval(r), NEAP_OK);
        assert_true(*(const float *)neap_array_data(r) == 3);
        neap_state_free(s);
        close_context(ctx);
    }
}

/* Of what is there already nothing is waited for: a value, a view of one, a write that has run. */
static void test_nothing_to_wait_for(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0);
    neap_state *s;
    assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 0, NULL, &s), NEAP_OK);
    neap_array *x = matrix(0), *one = neap_scalar(NEAP_F32, 1);
    neap_array *w = neap_state_write(neap_state_read(s), one);
    neap_array *v = neap_depends(x, w);
    assert_int_equal(neap_eval(w), NEAP_OK);
    assert_true(neap_array_is_value(v));
    assert_true(neap_array_is_value(neap_depends(x, one)));
    assert_true(neap_array_is_value(neap_depends(turned(x), neap_expand_dims(one, 0))));
    neap_state_free(s);
    close_context(ctx);
}

/* ---- twins ----------------------------------------------------------------------------------------- */

static neap_plan_info describe(neap_context *ctx, int n, neap_array *const *roots)
{
    neap_plan *p;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    assert_int_equal(neap_plan_make(ctx, n, roots, 0, NULL, &p), NEAP_OK);
    neap_plan_describe(p, &info);
    neap_plan_free(p);
    return info;
}

/* A second making of what is made of q, k and v, each gated by what came of the first, stays one: through
 * views, and views of views. The ops merged are none. */
static void test_a_gated_recompute_stays(void **state)
{
    (void)state;
    for (int i = 0; i < LOOKS; i++) {
        neap_context *ctx = open_context(NEAP_PLAN_NO_FUSION);
        neap_array *in[3], *made[2][3], *ct = NULL;
        for (int k = 0; k < 3; k++)
            in[k] = looks[i](neap_abs(matrix((float)k)));
        for (int again = 0; again < 2; again++)
            for (int k = 0; k < 3; k++) {
                neap_array *x = again ? neap_depends(in[k], ct) : in[k];
                made[again][k] = total(neap_exp(k ? neap_expand_dims(x, 0) : x));
                ct = again || k < 2 ? ct : neap_add(neap_add(made[0][0], made[0][1]), made[0][2]);
            }
        neap_array *roots[] = {made[1][0], made[1][1], made[1][2], ct};
        assert_int_equal(describe(ctx, 4, roots).merged, 0);
        close_context(ctx);
    }
}

/* Twins that wait for the same are one; for different things, two. */
static void test_twins_by_what_they_wait_for(void **state)
{
    (void)state;
    for (int i = 0; i < LOOKS - 2; i++) /* the others wait for twins of their own */
        for (int which = 0; which < 3; which++) {
            neap_context *ctx = open_context(NEAP_PLAN_NO_FUSION);
            neap_array *x = neap_abs(matrix(1)), *a = neap_sin(matrix(2));
            neap_array *b = which == 0 ? a : which == 1 ? neap_sin(neap_depends(matrix(2), a)) : neap_cos(a);
            neap_array *r = total(neap_exp(looks[i](neap_depends(x, a))));
            neap_array *t = total(neap_exp(looks[i](neap_depends(x, b))));
            neap_array *roots[] = {r, t, b};
            const int64_t merged = describe(ctx, 3, roots).merged; /* exp, sum, a copy between them */
            assert_true(which == 0 ? merged >= 2 : merged == 0);
            close_context(ctx);
        }
}

/* Thousands of gates on one another, each read: edges stay few, the answer right. */
static void test_many_nested(void **state)
{
    (void)state;
    neap_context *ctx = open_context(0);
    neap_array *x = neap_array_from(NEAP_F32, 1, (const int64_t[]){1}, (const float[]){1});
    neap_array *sum = neap_scalar(NEAP_F32, 0), *v = x;
    for (int i = 0; i < 5000; i++) {
        v = neap_depends(v, neap_mul(x, neap_scalar(NEAP_F32, (float)i)));
        sum = neap_add(sum, neap_add(v, neap_scalar(NEAP_F32, (float)(i & 1))));
    }
    assert_int_equal(neap_eval(sum), NEAP_OK);
    assert_true(*(const float *)neap_array_data(sum) == 7500);
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    assert_true(m.peak < 64 << 20); /* an edge for each pair would take 150 MB */
    close_context(ctx);
}

/* ---- a state's old contents -------------------------------------------------------------------------- */

/* What a gated read saw is copied before the write that comes next, though what it waits for comes later
 * than that write and reads what it wrote. */
static void test_a_gated_read_of_old_contents(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        neap_context *ctx = open_context(0);
        neap_state *s;
        const int64_t n = 2;
        assert_int_equal(neap_state_new(ctx, "s", NEAP_F32, 1, &n, &s), NEAP_OK);
        neap_array *old = neap_state_read(s);
        neap_state_write(neap_state_read(s), neap_array_from(NEAP_F32, 1, &n, (const float[]){1, 2}));
        neap_array *before = neap_exp(neap_state_read(s));
        neap_array *gated = neap_depends(i & 1 ? neap_expand_dims(old, 0) : old, before);
        neap_array *y = i & 2 ? gated : neap_add(gated, neap_scalar(NEAP_F32, 4));
        neap_array *roots[] = {y, before};
        assert_int_equal(neap_eval_all(2, roots), NEAP_OK);
        const float *got = neap_array_data(y), want = i & 2 ? 0 : 4;
        assert_true(got[0] == want && got[1] == want);
        neap_state_free(s);
        close_context(ctx);
    }
}

/* ---- memory ---------------------------------------------------------------------------------------- */

static neap_status make_and_run(neap_context *ctx)
{
    neap_context_clear_error(ctx);
    neap_status status = neap_scope_push(ctx);
    if (status != NEAP_OK)
        return status;
    const int64_t n = 8;
    neap_array *x = neap_array_zeros(NEAP_F32, 1, &n), *b = neap_sin(x), *v = x;
    for (int i = 0; i < 40; i++)
        v = neap_depends(v, neap_add(b, neap_scalar(NEAP_F32, i)));
    neap_array *y = neap_exp(neap_expand_dims(neap_depends(neap_cos(x), neap_expand_dims(v, 0)), 0));
    status = y ? neap_eval(y) : neap_context_status(ctx);
    neap_scope_pop(ctx);
    return status;
}

/* The n-th allocation failing: an error, and then all is as before. */
static void test_failing_allocations(void **state)
{
    (void)state;
    for (int n = 1;; n++) {
        neap_context *ctx;
        neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        o.fail_allocation = n;
        if (neap_context_new(&o, &ctx) != NEAP_OK)
            continue;
        const neap_status status = make_and_run(ctx);
        assert_true(status == NEAP_OK || status == NEAP_ENOMEM);
        if (status == NEAP_ENOMEM)
            assert_int_equal(make_and_run(ctx), NEAP_OK);
        neap_context_free(ctx);
        if (status == NEAP_OK)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_spelling),
        cmocka_unit_test(test_a_gated_value),
        cmocka_unit_test(test_nothing_to_wait_for),
        cmocka_unit_test(test_a_gated_recompute_stays),
        cmocka_unit_test(test_twins_by_what_they_wait_for),
        cmocka_unit_test(test_many_nested),
        cmocka_unit_test(test_a_gated_read_of_old_contents),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
