/* sampler.c - narrows the choices and draws one, in buffers made beforehand.
 *
 * The vocabulary is never sorted: top-k keeps a heap of k, top-p takes the largest from a heap
 * until their mass suffices. Sums are double, in a fixed order. */
#include "neap/sampler.h"

#include <math.h>

#include "base/context.h"
#include "base/random.h"
#include "base/versioned.h"
#include "text/penalty.h"
#include "text/sampler_context.h"

/* Below the largest logit: e^-10 is a chance of 1 to 22000. */
static const float LIKELY = -10;

typedef struct choice {
    float logit; /* minus the largest */
    int32_t id;
} choice;

struct neap_sampler {
    neap_context *ctx;
    neap_sampler_options options;
    int32_t vocabulary;
    size_t capacity; /* of choices */
    choice *choices;
    np_penalty penalty;
};

static neap_status check_options(neap_context *ctx, const neap_sampler_options *o,
                                 int32_t vocabulary)
{
    if (!(o->temperature >= 0) || isinf(o->temperature))
        return np_fail(ctx, NEAP_EINVAL,
                       "temperature: %g, expected 0 (greedy) or a positive number",
                       (double)o->temperature);
    if (o->top_k < 0)
        return np_fail(ctx, NEAP_EINVAL, "top_k: %d, expected 0 (all) or more", o->top_k);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return np_fail(ctx, NEAP_EINVAL, "top_p: %g, expected 0 to 1", (double)o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return np_fail(ctx, NEAP_EINVAL, "min_p: %g, expected 0 to 1", (double)o->min_p);
    if (!(o->repeat_penalty > 0) || isinf(o->repeat_penalty))
        return np_fail(ctx, NEAP_EINVAL, "repeat_penalty: %g, expected a number above 0 (1: none)",
                       (double)o->repeat_penalty);
    if (o->repeat_last < 0 || o->repeat_last > NP_PENALTY_MOST)
        return np_fail(ctx, NEAP_EINVAL, "repeat_last: %d, expected 0 to %d", o->repeat_last,
                       NP_PENALTY_MOST);
    if (vocabulary < 1)
        return np_fail(ctx, NEAP_EINVAL, "vocabulary: %d tokens, expected 1 or more", vocabulary);
    return NEAP_OK;
}

static neap_status sampler_new(neap_context *ctx, const neap_sampler_options *given,
                             int32_t vocabulary, neap_sampler **out)
{
    neap_sampler_options o = NEAP_SAMPLER_OPTIONS_INIT;
    *out = NULL;
    neap_status status = np_take_options(ctx, "sampler", given, &o, sizeof o);
    if (status == NEAP_OK)
        status = check_options(ctx, &o, vocabulary);
    if (status != NEAP_OK)
        return status;
    neap_sampler *s = np_calloc(ctx, NEAP_MEM_HOST, sizeof *s);
    if (!s)
        return NEAP_ENOMEM;
    s->ctx = ctx;
    s->options = o;
    s->vocabulary = vocabulary;
    if (o.temperature > 0)
        s->capacity = (size_t)(o.top_k && o.top_k < vocabulary ? o.top_k : vocabulary);
    if (s->capacity) {
        s->choices = np_alloc(ctx, NEAP_MEM_HOST, s->capacity * sizeof *s->choices);
        status = s->choices ? NEAP_OK : NEAP_ENOMEM;
    }
    if (status == NEAP_OK)
        status = np_penalty_init(ctx, &s->penalty, o.repeat_penalty, o.repeat_last);
    if (status != NEAP_OK) {
        neap_sampler_free(s);
        return status;
    }
    *out = s;
    return NEAP_OK;
}

neap_status neap_sampler_new(neap_context *ctx, const neap_sampler_options *given,
                             int32_t vocabulary, neap_sampler **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, out, sampler_new(ctx, given, vocabulary, out));
}

void neap_sampler_free(neap_sampler *s)
{
    if (!s)
        return;
    np_penalty_free(s->ctx, &s->penalty);
    np_free(s->ctx, NEAP_MEM_HOST, s->choices, s->capacity * sizeof *s->choices);
    np_free(s->ctx, NEAP_MEM_HOST, s, sizeof *s);
}

/* ---- heaps of choices ----------------------------------------------------------------------- */

static bool is_better(choice a, choice b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Puts c[i] in its place in a heap of n whose root is the best (or the worst) choice. */
static void sift(choice *c, size_t i, size_t n, bool best_first)
{
    choice moved = c[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && is_better(c[child + 1], c[child]) == best_first)
            child++;
        if (is_better(moved, c[child]) == best_first)
            break;
        c[i] = c[child];
        i = child;
    }
    c[i] = moved;
}

static void make_heap(choice *c, size_t n, bool best_first)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(c, i, n, best_first);
}

/* Takes the root to c[n - 1]; the heap is one shorter. */
static void take_root(choice *c, size_t n, bool best_first)
{
    choice root = c[0];
    c[0] = c[n - 1];
    c[n - 1] = root;
    sift(c, 0, n - 1, best_first);
}

/* ---- the steps: each leaves the choices it keeps at the front, and their number ------------- */

/* The k most probable, best first. */
static size_t keep_top_k(choice *c, size_t k, np_scores scores, int32_t n, float largest)
{
    for (size_t i = 0; i < k; i++)
        c[i] = (choice){np_next_score(&scores) - largest, (int32_t)i};
    make_heap(c, k, false);
    for (int32_t id = (int32_t)k; id < n; id++) {
        choice next = {np_next_score(&scores) - largest, id};
        if (next.logit > c[0].logit) {
            c[0] = next;
            sift(c, 0, k, false);
        }
    }
    for (size_t left = k; left > 1; left--)
        take_root(c, left, false);
    return k;
}

/* Moves the choices above the cut to the front; returns their number. */
static size_t move_likely(choice *c, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].logit > LIKELY)
            c[kept++] = c[i];
    return kept;
}

/* Where the likely choices have the mass, only they are put in a heap: it is the same result, as all
 * others come behind them. */
static size_t keep_top_p(choice *c, size_t n, float p, bool sorted)
{
    double total = 0, likely = 0, mass = 0;
    for (size_t i = 0; i < n; i++) {
        double weight = (double)expf(c[i].logit);
        total += weight;
        likely += c[i].logit > LIKELY ? weight : 0;
    }
    if (!sorted && likely >= p * total)
        n = move_likely(c, n);
    size_t kept = 0;
    if (sorted) {
        do
            mass += (double)expf(c[kept++].logit);
        while (kept < n && mass < p * total);
        return kept;
    }
    make_heap(c, n, true);
    do {
        mass += (double)expf(c[0].logit);
        take_root(c, n - kept++, true);
    } while (kept < n && mass < p * total);
    for (size_t i = 0; i < kept && i < n / 2; i++) { /* they are at the end, best last */
        choice swap = c[i];
        c[i] = c[n - 1 - i];
        c[n - 1 - i] = swap;
    }
    return kept;
}

static size_t keep_min_p(choice *c, size_t n, float p)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (expf(c[i].logit) >= p)
            c[kept++] = c[i];
    return kept;
}

/* [0, 1) with 53 bits. */
static double uniform(uint64_t seed, uint64_t step)
{
    uint32_t word[2];
    np_threefry(np_random_seed(seed), (uint32_t)step, (uint32_t)(step >> 32), word);
    return (double)((uint64_t)(word[0] >> 5) << 26 | word[1] >> 6) * 0x1p-53;
}

static int32_t draw(choice *c, size_t n, float temperature, double u)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        c[i].logit = expf(c[i].logit / temperature); /* a weight from here on */
        total += (double)c[i].logit;
    }
    int32_t last = c[0].id;
    for (size_t i = 0; i < n; i++) {
        if (c[i].logit == 0)
            continue;
        last = c[i].id;
        sum += (double)c[i].logit;
        if (sum > u * total)
            break;
    }
    return last;
}

static neap_status find_largest(neap_context *ctx, np_scores scores, int32_t n, int32_t *at,
                                float *out)
{
    float largest = -INFINITY;
    *at = -1;
    for (int32_t i = 0; i < n; i++) {
        const float score = np_next_score(&scores);
        if (isnan(score))
            return np_fail(ctx, NEAP_EINVAL, "the logit of token %d is NaN", i);
        if (score > largest) {
            largest = score;
            *at = i;
        }
    }
    *out = largest;
    if (*at < 0)
        return np_fail(ctx, NEAP_EINVAL, "all %d logits are -inf", n);
    if (isinf(largest))
        return np_fail(ctx, NEAP_EINVAL, "the logit of token %d is infinite", *at);
    return NEAP_OK;
}

void neap_sampler_accept(neap_sampler *s, const int32_t *ids, int64_t n)
{
    np_penalty_accept(&s->penalty, ids, n);
}

void neap_sampler_reset(neap_sampler *s)
{
    s->penalty.accepted = 0;
}

neap_context *np_sampler_context(const neap_sampler *s)
{
    return s->ctx;
}

static neap_status sampler_pick(neap_sampler *s, const float *logits, uint64_t step, int32_t *id)
{
    float largest = 0;
    np_scores scores = np_penalty_apply(&s->penalty, logits, s->vocabulary);
    neap_status status = find_largest(s->ctx, scores, s->vocabulary, id, &largest);
    if (status != NEAP_OK || s->options.temperature == 0)
        return status;
    choice *c = s->choices;
    size_t n = s->capacity;
    bool sorted = n < (size_t)s->vocabulary;
    if (sorted) {
        n = keep_top_k(c, n, scores, s->vocabulary, largest);
    } else {
        for (size_t i = 0; i < n; i++)
            c[i] = (choice){np_next_score(&scores) - largest, (int32_t)i};
    }
    if (s->options.top_p < 1)
        n = keep_top_p(c, n, s->options.top_p, sorted);
    if (s->options.min_p > 0)
        n = keep_min_p(c, n, s->options.min_p);
    *id = draw(c, n, s->options.temperature, uniform(s->options.seed, step));
    return NEAP_OK;
}

neap_status neap_sampler_pick(neap_sampler *s, const float *logits, uint64_t step, int32_t *id)
{
    return NP_CALL_ON(s, logits && id, sampler_pick(s, logits, step, id));
}
