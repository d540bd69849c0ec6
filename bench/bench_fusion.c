/* bench_fusion.c - graphs that a compiler fuses well or badly: seconds and peak of the default
 * plan, beside one pass per op in the same run.
 *
 *   bench_fusion [-d DIR] [-o] [-b] [-t threads] [-r repeats] [case ..]
 *
 * -d reads the inputs (x.npy ..) that bench/peer_fusion.py writes, else they are noise; -o writes
 * the results there, case.npy; -b also compares the bits of plans made in other ways. Seconds are
 * medians; `least` and `cpu` (processor time) are the least of the default plan; each plan runs by
 * itself, warm, as its peers do. planned: arena and result. tensors: activations and scratch as the
 * ledger saw them at the peak, without constants; all: everything above the start, the graph and
 * the plan too. One pass per op takes and keeps its buffers as any plan does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <neap/neap.h>

#include "base/context.h"
#include "measure.h"

enum { SIBLINGS = 64, ALL_CASES = 8 };

typedef struct input {
    char name;
    int64_t rows, columns;
    float *data;
} input;

static input inputs[] = {
    {'x', 4096, 1024, NULL},
    {'w', 1024, 8,    NULL},
    {'a', 1024, 16,   NULL},
    {'b', 1024, 16,   NULL},
    {'c', 16,   1024, NULL},
    {'z', 4096, 4096, NULL}
};
enum { N_INPUTS = sizeof inputs / sizeof *inputs };

typedef struct setting {
    const char *dir; /* or NULL */
    bool write, bits;
    int threads, repeats;
} setting;

static int fail(const neap_context *ctx, const char *what)
{
    fprintf(stderr, "bench_fusion: %s: %s\n", what, neap_context_error(ctx));
    return 1;
}

/* ---- inputs ------------------------------------------------------------------------------------
 */

static void noise(input *in)
{
    uint32_t state = (uint32_t)in->name;
    for (int64_t i = 0; i < in->rows * in->columns; i++) {
        float sum = 0; /* of three uniform numbers: nearly normal */
        for (int k = 0; k < 3; k++) {
            state = state * 1664525u + 1013904223u;
            sum += (float)(state >> 8) / 8388608.0f - 1.0f;
        }
        in->data[i] = sum;
    }
}

static int read_input(neap_context *ctx, const char *dir, input *in)
{
    char path[4096];
    uint64_t want = (uint64_t)(in->rows * in->columns) * sizeof(float), size = want + 4096;
    snprintf(path, sizeof path, "%s/%c.npy", dir, in->name);
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    void *file = malloc(size);
    size_t n = file != NULL ? fread(file, 1, size, f) : 0;
    fclose(f);
    neap_npy npy;
    neap_status status = neap_npy_parse(ctx, file, n, path, &npy);
    bool fits = status == NEAP_OK && npy.dtype == NEAP_F32 && npy.n_dims == 2 &&
                npy.shape[0] == in->rows && npy.shape[1] == in->columns;
    if (fits)
        memcpy(in->data, npy.data, want);
    free(file);
    if (!fits)
        fprintf(stderr, "bench_fusion: %s: not f32 [%lld, %lld]\n", path, (long long)in->rows,
                (long long)in->columns);
    return !fits;
}

/* The array over an input, which is read or made at its first use. */
static neap_array *use(neap_context *ctx, const char *dir, char name)
{
    input *in = inputs;
    while (in->name != name)
        in++;
    if (in->data == NULL) {
        in->data = pages((size_t)(in->rows * in->columns) * sizeof(float));
        if (dir == NULL)
            noise(in);
        else if (read_input(ctx, dir, in) != 0)
            exit(1);
    }
    return neap_array_over(NEAP_F32, 2, (int64_t[]){in->rows, in->columns}, in->data, NULL, NULL);
}

/* ---- cases -------------------------------------------------------------------------------------
 */

static neap_array *scaled(neap_array *x, double by, double plus)
{
    return neap_add(neap_mul(x, neap_scalar(NEAP_F32, by)), neap_scalar(NEAP_F32, plus));
}

static neap_array *chain(neap_array *x, int i)
{
    return neap_relu(scaled(x, 1 + i / 64.0, i / 128.0 - 0.25));
}

static neap_array *total(neap_array *const *ys)
{
    neap_array *s = ys[0];
    for (int i = 1; i < SIBLINGS; i++)
        s = neap_add(s, ys[i]);
    return s;
}

static neap_array *diamond_all(neap_array *const *in)
{
    neap_array *ys[SIBLINGS];
    for (int i = 0; i < SIBLINGS; i++)
        ys[i] = chain(in[0], i);
    return total(ys);
}

static neap_array *diamond_each(neap_array *const *in)
{
    neap_array *s = chain(in[0], 0);
    for (int i = 1; i < SIBLINGS; i++)
        s = neap_add(s, chain(in[0], i));
    return s;
}

static neap_array *sibling_sums(neap_array *const *in)
{
    neap_array *ys[SIBLINGS];
    for (int i = 0; i < SIBLINGS; i++)
        ys[i] = neap_sum(chain(in[0], i), 1, 0);
    return neap_stack(SIBLINGS, ys, 0);
}

static neap_array *softmax_sum(neap_array *const *in)
{
    neap_array *ys[SIBLINGS];
    for (int i = 0; i < SIBLINGS; i++)
        ys[i] = neap_softmax(neap_mul(in[0], neap_scalar(NEAP_F32, 1 + i / 64.0)), 1);
    return total(ys);
}

static neap_array *matmul_sum(neap_array *const *in)
{
    neap_array *ys[SIBLINGS];
    for (int i = 0; i < SIBLINGS; i++)
        ys[i] = neap_matmul(chain(in[0], i), in[1]);
    return total(ys);
}

static neap_array *row_sums(neap_array *const *in)
{
    return neap_add(neap_sum(neap_matmul(in[0], in[2]), -1, 0),
                    neap_sum(neap_matmul(in[1], in[2]), -1, 0));
}

static neap_array *elementwise_8(neap_array *const *in)
{
    neap_array *y = scaled(neap_relu(scaled(in[0], 1.25, 0.5)), 0.75, -0.25);
    return neap_add(neap_square(neap_abs(y)), neap_scalar(NEAP_F32, 0.125));
}

typedef struct fusion_case {
    const char *name;
    neap_array *(*build)(neap_array *const *in);
    const char *in;
    uint64_t budget; /* 0: none */
    int turns;       /* for each repeat: more where a run is short */
    bool copy;       /* set beside memcpy of the input */
} fusion_case;

static const fusion_case cases[ALL_CASES] = {
    {"i-a",     diamond_all,   "x",   0,       1,  false},
    {"i-b",     diamond_each,  "x",   0,       1,  false},
    {"ii-a",    sibling_sums,  "x",   0,       1,  false},
    {"ii-b",    softmax_sum,   "x",   0,       1,  false},
    {"ii-c",    matmul_sum,    "xw",  0,       1,  false},
    {"ii-c-1M", matmul_sum,    "xw",  1 << 20, 1,  false},
    {"a7",      row_sums,      "abc", 0,       50, false},
    {"chain",   elementwise_8, "z",   0,       5,  true },
};

/* ---- plans -------------------------------------------------------------------------------------
 */

enum { ONE_PASS = NEAP_PLAN_NO_FUSION | NEAP_PLAN_NO_SIDEWAYS | NEAP_PLAN_NO_STREAMING };

typedef struct way {
    const char *name;
    unsigned without;
    int size;
} way;

static const way one_pass = {"one pass per op", ONE_PASS, 64};
static const way other_ways[] = {
    {"steps of 1 op",  0,                      1 },
    {"steps of 5 ops", 0,                      5 },
    {"not sideways",   NEAP_PLAN_NO_SIDEWAYS,  64},
    {"program order",  NEAP_PLAN_NO_ORDER,     64},
    {"not streamed",   NEAP_PLAN_NO_STREAMING, 64},
    {"nothing twice",  NEAP_PLAN_NO_RECOMPUTE, 64},
    {"low memory",     NEAP_PLAN_LOW_MEMORY,   64},
};
enum { OTHER_WAYS = sizeof other_ways / sizeof *other_ways };

/* A case planned in one way, in a context of its own, so that the peak is its own. */
typedef struct planned {
    neap_context *ctx;
    neap_plan *plan;
    neap_plan_info info;
    uint64_t start;     /* bytes held before the graph is built */
    uint64_t constants; /* of tensors that the graph holds */
} planned;

static void plan_free(planned *p)
{
    neap_plan_free(p->plan);
    neap_context_free(p->ctx);
    memset(p, 0, sizeof *p);
}

/* Stays without a plan, the reason on standard error, if the planner refuses. */
static neap_status plan_make(planned *p, const fusion_case *c, const setting *s, const way *w)
{
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    neap_plan_options po = NEAP_PLAN_OPTIONS_INIT;
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    memset(p, 0, sizeof *p);
    p->info = (neap_plan_info)NEAP_PLAN_INFO_INIT;
    co.threads = s->threads;
    if (w != NULL) {
        po.without = w->without;
        po.max_fusion_size = w->size;
    } else {
        po.budget = c->budget;
    }
    if (neap_context_new(&co, &p->ctx) != NEAP_OK || neap_scope_push(p->ctx) != NEAP_OK)
        exit(1);
    neap_array *in[3];
    for (int i = 0; c->in[i] != '\0'; i++)
        in[i] = use(p->ctx, s->dir, c->in[i]);
    neap_context_memory(p->ctx, &m);
    p->start = m.active + m.cached;
    neap_status status = neap_context_plan_options(p->ctx, &po);
    neap_array *root = c->build(in);
    neap_context_memory(p->ctx, &m);
    p->constants = m.active_by_category[NEAP_MEM_ACTIVATIONS];
    if (status == NEAP_OK)
        status = neap_plan_make(p->ctx, 1, &root, 0, NULL, &p->plan);
    neap_scope_pop(p->ctx);
    if (status != NEAP_OK)
        fail(p->ctx, c->name);
    else
        neap_plan_describe(p->plan, &p->info);
    return status;
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double plan_run(planned *p, const char *name)
{
    double start = seconds();
    if (neap_plan_run(p->plan, NULL) != NEAP_OK)
        exit(fail(p->ctx, name));
    return seconds() - start;
}

static bool same_bits(const planned *a, const planned *b)
{
    const neap_array *x = neap_plan_output(a->plan, 0), *y = neap_plan_output(b->plan, 0);
    return neap_array_bytes(x) == neap_array_bytes(y) &&
           memcmp(neap_array_data(x), neap_array_data(y), neap_array_bytes(x)) == 0;
}

/* ---- measuring ---------------------------------------------------------------------------------
 */

typedef struct copying {
    char *to;
    const char *from;
    int64_t bytes;
} copying;

static void copy_task(void *arg, int lane, int lanes)
{
    copying *c = arg;
    int64_t begin, end;
    np_share(c->bytes, 4096, lane, lanes, &begin, &end);
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static double copy_run(copying *c, np_pool *pool)
{
    double start = seconds();
    np_pool_run(pool, copy_task, c);
    return seconds() - start;
}

static double median(samples *s)
{
    qsort(s->t, (size_t)s->n, sizeof *s->t, by_time);
    return s->n > 0 ? s->t[s->n / 2] : 0;
}

static void check_bits(const fusion_case *c, const setting *s, const planned *fused)
{
    for (int i = 0; i < OTHER_WAYS; i++) {
        planned p;
        if (plan_make(&p, c, s, &other_ways[i]) == NEAP_OK) {
            double t = plan_run(&p, c->name);
            printf("    %-16s %10.5f s  planned %9.3f MiB  %4lld steps  %s\n", other_ways[i].name,
                   t, (double)p.info.peak_bytes / 1048576, (long long)p.info.steps,
                   same_bits(fused, &p) ? "same bits" : "DIFFERS");
        }
        plan_free(&p);
    }
}

static double checksum(const neap_array *result)
{
    const float *y = neap_array_data(result);
    double sum = 0;
    for (int64_t i = 0; i < neap_array_size(result); i++)
        sum += y[i];
    return sum;
}

static int write_result(const setting *s, const fusion_case *c, const planned *p)
{
    const neap_array *y = neap_plan_output(p->plan, 0);
    char path[4096];
    neap_npy npy = {NEAP_F32, neap_array_rank(y), {0}, neap_array_data(y), 0};
    memcpy(npy.shape, neap_array_shape(y), (size_t)npy.n_dims * sizeof *npy.shape);
    snprintf(path, sizeof path, "%s/%s.npy", s->dir != NULL ? s->dir : ".", c->name);
    return neap_npy_write(p->ctx, path, &npy) == NEAP_OK ? 0 : fail(p->ctx, path);
}

static void show(const fusion_case *c, const planned *p, const planned *unfused, samples t[4])
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(p->ctx, &m);
    double fused = median(&t[0]), passes = median(&t[1]), mib = 1048576;
    uint64_t tensors = m.peak_by_category[NEAP_MEM_ACTIVATIONS] +
                       m.peak_by_category[NEAP_MEM_SCRATCH] - p->constants;
    median(&t[3]);
    printf("%-8s %10.6f %10.6f %10.6f %10.6f %6.2f ", c->name, fused, t[0].t[0], t[3].t[0], passes,
           passes / fused);
    if (c->copy)
        printf("%6.2f ", median(&t[2]) / fused);
    else
        printf("%6s ", "-");
    printf("%9.3f %9.3f %9.3f %8.3f %9.3f %6lld %8.4f %5s %.9g\n", (double)p->info.peak_bytes / mib,
           (double)tensors / mib, (double)(m.peak - p->start) / mib,
           (double)p->info.scratch_bytes / mib, (double)p->info.least_bytes / mib,
           (long long)p->info.steps, p->info.plan_seconds, same_bits(p, unfused) ? "same" : "DIFF",
           checksum(neap_plan_output(p->plan, 0)));
    fflush(stdout);
}

static void keep(samples *s, int turn, double t)
{
    if (turn >= 0)
        sample(s, t);
}

static int measure(const fusion_case *c, const setting *s)
{
    static samples t[4]; /* default plan, one pass per op, memcpy, default plan's processor time */
    planned fused, unfused;
    copying copy = {0};
    if (plan_make(&fused, c, s, NULL) != NEAP_OK) {
        printf("%-8s refused\n", c->name);
        plan_free(&fused);
        return 0;
    }
    if (plan_make(&unfused, c, s, &one_pass) != NEAP_OK)
        return 1;
    for (int i = 0; i < 4; i++)
        t[i].n = 0;
    if (c->copy) {
        const input *z = &inputs[N_INPUTS - 1];
        copy.bytes = z->rows * z->columns * (int64_t)sizeof(float);
        copy.from = (const char *)z->data;
        copy.to = pages((size_t)copy.bytes);
    }
    int n = s->repeats * c->turns;
    for (int k = -1; k < n; k++) { /* the first only warms, here and below */
        double start = processor_seconds();
        keep(&t[0], k, plan_run(&fused, c->name));
        keep(&t[3], k, processor_seconds() - start);
    }
    for (int k = -1; k < n; k++)
        keep(&t[1], k, plan_run(&unfused, c->name));
    for (int k = -1; k < n && c->copy; k++)
        keep(&t[2], k, copy_run(&copy, fused.ctx->pool));
    show(c, &fused, &unfused, t);
    int status = s->write ? write_result(s, c, &fused) : 0;
    plan_free(&unfused);
    if (s->bits)
        check_bits(c, s, &fused);
    plan_free(&fused);
    if (copy.to != NULL)
        munmap(copy.to, (size_t)copy.bytes);
    return status;
}

static bool asked_for(const char *name, char *const *names)
{
    bool any = *names == NULL;
    for (; *names != NULL; names++)
        any = any || strcmp(*names, name) == 0;
    return any;
}

int main(int argc, char **argv)
{
    setting s = {.threads = 2, .repeats = 3};
    int option, status = 0;
    while ((option = getopt(argc, argv, "d:obt:r:")) != -1) {
        switch (option) {
        case 'd':
            s.dir = optarg;
            break;
        case 'o':
            s.write = true;
            break;
        case 'b':
            s.bits = true;
            break;
        case 't':
            s.threads = atoi(optarg);
            break;
        case 'r':
            s.repeats = atoi(optarg) > 0 ? atoi(optarg) : 1;
            break;
        default:
            fprintf(stderr, "usage: bench_fusion [-d DIR] [-o] [-b] [-t threads] [-r repeats] "
                            "[case ..]\n");
            return 2;
        }
    }
    printf("%-8s %10s %10s %10s %10s %6s %6s %9s %9s %9s %8s %9s %6s %8s %5s %s\n", "case",
           "seconds", "least", "cpu", "one-pass", "times", "copy", "planned", "tensors", "all",
           "scratch", "least-MiB", "steps", "planning", "bits", "sum");
    for (int i = 0; i < ALL_CASES && status == 0; i++)
        if (asked_for(cases[i].name, argv + optind))
            status = measure(&cases[i], &s);
    return status;
}
