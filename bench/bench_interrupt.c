/* bench_interrupt.c - how long a call goes on after it was interrupted: the worst of 50 moments of each kind,
 * by the clock. On an idle machine each is to be at most 100 ms.
 *
 *     bench_interrupt [MODEL.gguf [FOLDER-OF-WHISPER]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "neap/neap.h"
#include "../tests/interrupt_moments.h"

enum { MOMENTS = 50, PROMPT = 6000 };
static const double LIMIT = 0.1;
static int late;

static void must(neap_status status, const neap_context *ctx)
{
    if (status == NEAP_OK)
        return;
    fprintf(stderr, "%s\n", ctx ? neap_context_error(ctx) : neap_status_text(status));
    exit(1);
}

static neap_context *new_context(void)
{
    neap_context *ctx;
    must(neap_context_new(NULL, &ctx), NULL);
    return ctx;
}

typedef neap_status (*call)(void *user);

static void measure(const char *name, neap_context *ctx, call run, void *user)
{
    uint64_t seed = 1;
    double worst = 0, sum = 0;
    int hit = 0, tried = 0;
    const double start = seconds_of(CLOCK_MONOTONIC), cpu = processor_seconds();
    must(run(user), ctx);
    const double whole = seconds_of(CLOCK_MONOTONIC) - start, whole_cpu = processor_seconds() - cpu;
    for (; hit < MOMENTS && tried < 4 * MOMENTS; tried++) {
        interrupter in;
        interrupter_start(&in, ctx, draw(&seed) * whole_cpu * 0.98);
        const neap_status status = run(user);
        const double end = seconds_of(CLOCK_MONOTONIC);
        interrupter_stop(&in);
        const double took = end - in.asked_wall;
        neap_context_withdraw_interrupt(ctx);
        if (status == NEAP_OK)
            continue;
        if (status != NEAP_ECANCELLED)
            must(status, ctx);
        hit++;
        sum += took;
        worst = took > worst ? took : worst;
    }
    printf("%-34s %9.1f ms %6d moments  mean %6.2f ms  worst %6.2f ms%s\n", name, whole * 1e3, hit,
           hit ? sum / hit * 1e3 : 0, worst * 1e3, worst > LIMIT ? "  LATE" : "");
    fflush(stdout);
    late += worst > LIMIT;
}

/* ---- plans ----------------------------------------------------------------------------------------- */

static neap_status run_plan(void *user)
{
    return neap_plan_run(user, NULL);
}

static neap_array *value(int rank, const int64_t *shape, uint64_t seed)
{
    neap_array *x = neap_random_uniform(neap_random_key(seed), rank, shape, -1, 1);
    must(neap_eval(x), NULL);
    return x;
}

static neap_array *product(void)
{
    const int64_t shape[2] = {4096, 4096};
    return neap_matmul(value(2, shape, 1), value(2, shape, 2));
}

static neap_array *vectors(void)
{
    const int64_t w[2] = {16384, 16384}, x[2] = {1, 16384};
    return neap_matmul(value(2, x, 1), value(2, w, 2));
}

static neap_array *convolution(void)
{
    const int64_t image[4] = {8, 112, 112, 64}, weights[4] = {128, 3, 3, 64};
    neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
    o.spatial = 2;
    return neap_conv(value(4, image, 1), value(4, weights, 2), &o);
}

static neap_array *depthwise(void)
{
    const int64_t image[4] = {8, 224, 224, 64}, weights[4] = {64, 5, 5, 1};
    neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
    o.spatial = 2;
    o.groups = 64;
    return neap_conv(value(4, image, 1), value(4, weights, 2), &o);
}

static neap_array *attention(void)
{
    const int64_t shape[4] = {1, 8, 8192, 64};
    neap_attention_options o = NEAP_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    return neap_attention(value(4, shape, 1), value(4, shape, 2), value(4, shape, 3), &o);
}

static const int64_t huge = 60000000;

static neap_array *sort(void)
{
    return neap_sort(value(1, &huge, 1), 0);
}

static neap_array *elementwise(void)
{
    return neap_tanh(neap_exp(value(1, &huge, 1)));
}

static neap_array *row_softmax(void)
{
    const int64_t shape[2] = {1, huge};
    return neap_softmax(value(2, shape, 1), -1);
}

static neap_array *total(void)
{
    return neap_sum(neap_cast(value(1, &huge, 1), NEAP_I32), 0, 0);
}

static neap_array *running(void)
{
    return neap_cumsum(value(1, &huge, 1), 0, false, true);
}

static neap_array *transposed(void)
{
    const int64_t shape[2] = {6000, 10000};
    return neap_contiguous(neap_transpose(value(2, shape, 1), NULL));
}

static neap_array *drawn(void)
{
    return neap_random_uniform(neap_random_key(3), 1, &huge, 0, 1);
}

static void measure_plan(const char *name, neap_array *(*build)(void))
{
    neap_context *ctx = new_context();
    neap_plan *plan;
    must(neap_scope_push(ctx), ctx);
    neap_array *root = build();
    must(neap_plan_make(ctx, 1, &root, 0, NULL, &plan), ctx);
    neap_scope_pop(ctx);
    measure(name, ctx, run_plan, plan);
    neap_plan_free(plan);
    neap_context_free(ctx);
}

/* ---- planning -------------------------------------------------------------------------------------- */

enum { NODES = 100000 };

typedef struct graph {
    neap_context *ctx;
    neap_array *root;
    neap_bare_graph bare;
    bool low;
} graph;

static neap_status plan_graph(void *user)
{
    graph *g = user;
    neap_plan *plan;
    const neap_status status = neap_plan_make(g->ctx, 1, &g->root, 0, NULL, &plan);
    if (status == NEAP_OK)
        neap_plan_free(plan);
    return status;
}

static neap_status plan_bare(void *user)
{
    graph *g = user;
    neap_bare_plan plan = NEAP_BARE_PLAN_INIT;
    return neap_plan_bare(g->ctx, &g->bare, NULL, NULL, &plan);
}

static void measure_planning(bool low)
{
    const int64_t shape[2] = {64, 64};
    graph g = {.ctx = new_context()};
    if (low) {
        neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
        o.without = NEAP_PLAN_LOW_MEMORY;
        must(neap_context_plan_options(g.ctx, &o), g.ctx);
    }
    must(neap_scope_push(g.ctx), g.ctx);
    neap_array *x = neap_random_uniform(neap_random_key(1), 2, shape, 0, 1), *old = x;
    for (int i = 0; i < NODES / 5; i++) {
        neap_array *y = neap_silu(neap_matmul(x, old));
        if (i % 7 == 0)
            old = x;
        x = neap_add(x, neap_mul(y, neap_tanh(x)));
    }
    g.root = neap_retain(x);
    neap_scope_pop(g.ctx);
    measure(low ? "plan of 100,000 nodes, least memory" : "plan of 100,000 nodes", g.ctx, plan_graph, &g);
    neap_release(g.root);
    neap_context_free(g.ctx);
}

static void measure_bare(void)
{
    static uint32_t first[NODES + 1], dep[2 * NODES];
    static uint64_t bytes[NODES];
    static uint8_t flags[NODES];
    uint64_t seed = 11;
    uint32_t n = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        first[i] = n;
        bytes[i] = 64 + (uint64_t)(draw(&seed) * 1000) * 64;
        flags[i] = i == 0 ? NEAP_BARE_INPUT : i + 1 == NODES ? NEAP_BARE_OUTPUT : 0;
        const uint32_t near = i < 100 ? i : 100;
        for (int d = 0; near && d < 2; d++) {
            const uint32_t from = i - 1 - (uint32_t)(draw(&seed) * near);
            if (d == 0 || from != dep[n - 1])
                dep[n++] = from;
        }
    }
    first[NODES] = n;
    graph g = {.ctx = new_context(), .bare = {sizeof g.bare, NODES, bytes, flags, first, dep, true}};
    measure("plan of 100,000 sizes and edges", g.ctx, plan_bare, &g);
    neap_context_free(g.ctx);
}

/* ---- a language model ------------------------------------------------------------------------------ */

typedef struct model {
    neap_context *ctx;
    const char *path;
    neap_model *model;
    neap_session *session;
} model;

static neap_status open_model(model *m)
{
    neap_session_options o = NEAP_SESSION_OPTIONS_INIT;
    o.context = 6400;
    neap_status status = neap_model_open(m->ctx, m->path, &m->model);
    if (status == NEAP_OK)
        status = neap_session_new(m->model, &o, &m->session);
    return status == NEAP_OK ? neap_session_start(m->session) : status;
}

static void close_model(model *m)
{
    neap_session_free(m->session);
    neap_model_free(m->model);
    m->session = NULL;
    m->model = NULL;
    neap_context_trim(m->ctx);
}

static neap_status load(void *user)
{
    model *m = user;
    m->model = NULL;
    m->session = NULL;
    const neap_status status = open_model(m);
    close_model(m);
    return status;
}

static neap_status prefill(void *user)
{
    static int32_t ids[PROMPT];
    model *m = user;
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 100 + i * 31 % 40000;
    const neap_status status = neap_session_rewind(m->session, 0);
    return status == NEAP_OK ? neap_session_prefill(m->session, ids, PROMPT) : status;
}

static neap_status decode(void *user)
{
    static const int32_t ids[4] = {1, 2, 3, 4};
    model *m = user;
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
    o.max_tokens = 64;
    o.ignore_eos = true;
    const neap_status status = neap_session_rewind(m->session, 0);
    return status == NEAP_OK ? neap_generate(m->session, ids, 4, &o, &r) : status;
}

static void measure_model(const char *path)
{
    model m = {.ctx = new_context(), .path = path};
    measure("load", m.ctx, load, &m);
    must(open_model(&m), m.ctx);
    measure("64 tokens", m.ctx, decode, &m);
    measure("prompt of 6,000 tokens", m.ctx, prefill, &m);
    close_model(&m);
    neap_context_free(m.ctx);
}

/* ---- speech ---------------------------------------------------------------------------------------- */

typedef struct speech {
    neap_context *ctx;
    neap_transcriber *transcriber;
    const char *folder;
    int64_t at;
} speech;

/* Tones that come and go. */
static int64_t read_sound(void *user, float *samples, int64_t count)
{
    speech *s = user;
    const int64_t all = 31 * NEAP_AUDIO_RATE, n = count < all - s->at ? count : all - s->at;
    uint64_t seed = (uint64_t)s->at + 1;
    for (int64_t i = 0; i < n; i++, s->at++)
        samples[i] = 0.3f * (float)((s->at / 4000 % 3 + 1) * (s->at % 80) % 97) / 97.0f +
                     0.05f * (float)draw(&seed);
    return n;
}

static neap_status transcribe(void *user)
{
    speech *s = user;
    neap_transcribe_options o = NEAP_TRANSCRIBE_OPTIONS_INIT;
    s->at = 0;
    o.language = "en";
    o.fallback = false;
    o.read = read_sound;
    o.user = s;
    return neap_transcribe(s->transcriber, &o, NULL);
}

static neap_status open_speech(void *user)
{
    speech *s = user;
    const neap_status status = neap_transcriber_open(s->ctx, s->folder, NULL, &s->transcriber);
    if (status == NEAP_OK)
        neap_transcriber_close(s->transcriber);
    return status;
}

static void measure_speech(const char *folder)
{
    speech s = {.ctx = new_context(), .folder = folder};
    measure("opening a transcriber", s.ctx, open_speech, &s);
    must(neap_transcriber_open(s.ctx, folder, NULL, &s.transcriber), s.ctx);
    measure("transcription of 31 s", s.ctx, transcribe, &s);
    neap_transcriber_close(s.transcriber);
    neap_context_free(s.ctx);
}

int main(int argc, char **argv)
{
    measure_plan("product of 4096 x 4096 x 4096", product);
    measure_plan("row times 16384 x 16384", vectors);
    measure_plan("convolution", convolution);
    measure_plan("depthwise convolution", depthwise);
    measure_plan("attention, 8192 positions", attention);
    measure_plan("sort of 60 million", sort);
    measure_plan("elementwise, 60 million", elementwise);
    measure_plan("softmax of a row of 60 million", row_softmax);
    measure_plan("sum of 60 million integers", total);
    measure_plan("running sum of 60 million", running);
    measure_plan("transposing copy, 60 million", transposed);
    measure_plan("60 million random numbers", drawn);
    measure_bare();
    measure_planning(false);
    measure_planning(true);
    if (argc > 1)
        measure_model(argv[1]);
    if (argc > 2)
        measure_speech(argv[2]);
    return late > 0;
}
