/* bench_program.c - seconds and bytes of one method of a program, over thresholds and budgets.
 *
 *   bench_program PROGRAM.pte [threads] [repeats]
 *
 * Rows: as it is; at its least bytes; with eval_threshold_bytes of 512M, 64M, 16M. Each row runs in
 * turn, `repeats` times, so that a busy machine is as unfair to one as to the other; the least of a
 * row counts. Inputs are noise in [-1, 1), integers 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <neap/neap.h>

enum { MAX_INPUTS = 64, MAX_OUTPUTS = 64, ROWS = 5 };

typedef struct row {
    const char *name;
    int64_t threshold;
    bool least;
    neap_context *ctx;
    neap_program *program;
    neap_handle *handle;
    double seconds;
    uint64_t planned, peak, barriers;
} row;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(neap_value *v, uint32_t *state)
{
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++)
        n *= v->shape[d];
    v->bytes = (uint64_t)n * (uint64_t)neap_dtype_describe(v->dtype)->block_bytes;
    void *data = calloc(1, v->bytes + 64);
    for (int64_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        union {
            float f;
            uint32_t u;
        } x = {(float)(*state >> 8) / 8388608.0f - 1.0f};
        if (v->dtype == NEAP_F32)
            ((float *)data)[i] = x.f;
        else if (v->dtype == NEAP_BF16)
            ((uint16_t *)data)[i] = (uint16_t)(x.u >> 16);
    }
    v->data = data;
}

static int fail(const row *r)
{
    const neap_context *c = r->handle ? neap_handle_context(r->handle) : r->ctx;
    fprintf(stderr, "bench_program: %s: %s\n", r->name, c ? neap_context_error(c) : "no context");
    return 1;
}

static int open_row(row *r, const char *path, int threads, int n, const neap_value *in)
{
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    neap_handle_options ho = NEAP_HANDLE_OPTIONS_INIT;
    neap_option option = {"eval_threshold_bytes", NEAP_OPTION_INT, r->threshold, NULL};
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    co.threads = threads;
    ho.options = &option;
    ho.n_options = r->threshold > 0;
    if (neap_context_new(&co, &r->ctx) != NEAP_OK ||
        neap_program_open(r->ctx, path, &r->program) != NEAP_OK ||
        neap_handle_open(r->program, 0, &ho, &r->handle) != NEAP_OK ||
        neap_handle_plan(r->handle, n, in, &plan, NULL, NULL) != NEAP_OK)
        return fail(r);
    r->planned = plan.planned_peak_bytes;
    if (r->least && neap_context_set_limit(r->ctx, plan.least_bytes) != NEAP_OK)
        return fail(r);
    return 0;
}

static int run_row(row *r, int n, const neap_value *in, int n_out)
{
    neap_value out[MAX_OUTPUTS];
    memset(out, 0, sizeof out);
    double t0 = now();
    if (neap_handle_execute(r->handle, n, in, n_out, out) != NEAP_OK)
        return fail(r);
    double t = now() - t0;
    r->seconds = r->seconds == 0 || t < r->seconds ? t : r->seconds;
    return 0;
}

int main(int argc, char **argv)
{
    row rows[ROWS] = {{.name = "as it is"},
                      {.name = "least bytes", .least = true},
                      {.name = "threshold 512M", .threshold = 512 << 20},
                      {.name = "threshold 64M", .threshold = 64 << 20},
                      {.name = "threshold 16M", .threshold = 16 << 20}};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_program PROGRAM.pte [threads] [repeats]\n");
        return 0; /* part of `make bench`, which names no program */
    }
    int threads = argc > 2 ? atoi(argv[2]) : 0, repeats = argc > 3 ? atoi(argv[3]) : 5;
    neap_value in[MAX_INPUTS];
    uint32_t state = 1;
    int n = 0, n_out = 0;
    for (int i = 0; i < ROWS; i++) {
        if (i == 0) {
            row probe = {.name = "probe"};
            neap_context_new(NULL, &probe.ctx);
            if (neap_program_open(probe.ctx, argv[1], &probe.program) != NEAP_OK)
                return fail(&probe);
            n = neap_program_inputs(probe.program, 0);
            n_out = neap_program_outputs(probe.program, 0);
            for (int k = 0; k < n && k < MAX_INPUTS; k++) {
                neap_program_input(probe.program, 0, k, &in[k]);
                if (in[k].kind == NEAP_VALUE_TENSOR)
                    fill(&in[k], &state);
            }
            neap_program_close(probe.program);
            neap_context_free(probe.ctx);
        }
        if (open_row(&rows[i], argv[1], threads, n, in) != 0)
            return 1;
    }
    for (int k = 0; k < repeats; k++)
        for (int i = 0; i < ROWS; i++)
            if (run_row(&rows[i], n, in, n_out) != 0)
                return 1;
    printf("%-16s %10s %8s %12s %12s %9s\n", "", "seconds", "ratio", "planned MiB", "peak MiB",
           "barriers");
    for (int i = 0; i < ROWS; i++) {
        row *r = &rows[i];
        neap_memory_info m = NEAP_MEMORY_INFO_INIT;
        neap_handle_stats s = NEAP_HANDLE_STATS_INIT;
        neap_context_memory(r->ctx, &m);
        neap_handle_tell(r->handle, &s);
        printf("%-16s %10.4f %8.3f %12.2f %12.2f %9llu\n", r->name, r->seconds,
               r->seconds / rows[0].seconds, (double)r->planned / 1048576, (double)m.peak / 1048576,
               (unsigned long long)(s.barriers / s.executes));
        neap_handle_close(r->handle);
        neap_program_close(r->program);
        neap_context_free(r->ctx);
    }
    for (int k = 0; k < n; k++)
        free((void *)(uintptr_t)in[k].data);
    return 0;
}
