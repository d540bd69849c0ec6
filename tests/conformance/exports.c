/* exports.c - programs that ExecuTorch's exporter wrote from ordinary PyTorch code, with what PyTorch
 * made of their inputs: tests/golden/exports (tools/make_export_goldens.py), and the shared cases
 * where they are.
 *
 *   exports [FOLDER [NAME-FRAGMENT]]
 *
 * Each runs with several thresholds and at its least bytes. Floats are within the tolerance, integers
 * equal; what is measured is what was planned (where a branch depends on data, which a plan does not
 * have: not more); the least memory gives the same bits.
 *
 * Tolerance, rms error over rms of PyTorch's: 2e-3, for programs of any dtype; 1e-5 for f32 programs
 * of convolutions, whose sums are long but of one precision. */
#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <unistd.h>

#include "places.h"
#include "tensor_list.h"

enum { MAX_CALLS = 4, WAYS = 5 };

typedef struct way {
    const char *name;
    int64_t threshold;
    bool least;
} way;

static const way ways[WAYS] = {{"plain", 0, false},
                               {"threshold 64 KiB", 65536, false},
                               {"threshold 1 MiB", 1048576, false},
                               {"threshold 1", 1, false},
                               {"least memory", 0, true}};

typedef struct fixture {
    char folder[512];
    const char *name;
    int n_calls;
    tensor_list in[MAX_CALLS], want[MAX_CALLS];
} fixture;

typedef struct outcome {
    uint64_t planned, measured;
    double worst;
    void *bytes[MAX_CALLS][LIST_MAX]; /* of each result, kept to be compared */
    uint64_t size[MAX_CALLS][LIST_MAX];
} outcome;

typedef struct machine {
    neap_context *ctx;
    neap_program *program;
    neap_handle *handle;
} machine;

static char failure[1024];

static bool fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(failure, sizeof failure, format, args);
    va_end(args);
    return false;
}

static double tolerance(const char *name)
{
    const bool exact = !strncmp(name, "slow_", 5) || !strncmp(name, "unet", 4) ||
                       !strncmp(name, "mobilenetv3", 11);
    if (!strncmp(name, "portable_", 9)) /* all f32; of x + 500 the last place is 3e-5 */
        return 1e-4;
    return exact ? 1e-5 : 2e-3;
}

static bool depends_on_data(const char *name)
{
    return strstr(name, "cond") != NULL;
}

/* The exporter loses the direction of an argsort: what its file says is not what PyTorch gave. */
static bool file_differs(const char *name, int output)
{
    return strcmp(name, "op_topk_sort") == 0 && output == 1;
}

/* ---- fixtures ------------------------------------------------------------------------------------ */

/* The files of call `from`, as call `call`. */
static bool read_call(fixture *f, int call, int from)
{
    char in[600], want[600], suffix[16] = "";
    if (from > 0)
        snprintf(suffix, sizeof suffix, ".call%d", from + 1);
    snprintf(in, sizeof in, "%s/input%s.bin", f->folder, suffix);
    snprintf(want, sizeof want, "%s/expected_output%s.bin", f->folder, suffix);
    return list_read(in, &f->in[call]) && list_read(want, &f->want[call]);
}

static bool read_fixture(const char *root, const char *name, fixture *f)
{
    *f = (fixture){.name = name};
    snprintf(f->folder, sizeof f->folder, "%s/%s", root, name);
    while (f->n_calls < MAX_CALLS && read_call(f, f->n_calls, f->n_calls))
        f->n_calls++;
    if (f->n_calls == 0)
        return fail("its tensors cannot be read");
    if (f->n_calls == 1 && read_call(f, 1, 0)) /* once more: nothing of the first call may remain */
        f->n_calls = 2;
    return true;
}

/* ---- running ------------------------------------------------------------------------------------- */

static bool open_machine(const fixture *f, const way *how, machine *m)
{
    char path[600];
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    neap_handle_options ho = NEAP_HANDLE_OPTIONS_INIT;
    neap_option option = {"eval_threshold_bytes", NEAP_OPTION_INT, how->threshold, NULL};
    memset(m, 0, sizeof *m);
    co.threads = 1;
    ho.options = &option;
    ho.n_options = how->threshold > 0;
    snprintf(path, sizeof path, "%s/model.pte", f->folder);
    if (neap_context_new(&co, &m->ctx) != NEAP_OK)
        return fail("no context");
    if (neap_program_open(m->ctx, path, &m->program) != NEAP_OK ||
        neap_handle_open(m->program, 0, &ho, &m->handle) != NEAP_OK)
        return fail("%s", neap_context_error(m->ctx));
    return true;
}

static void close_machine(machine *m)
{
    neap_handle_close(m->handle);
    neap_program_close(m->program);
    neap_context_free(m->ctx);
}

/* A call's plan does not count those made after it: all are planned until nothing changes. */
static bool plan_all(const fixture *f, machine *m, uint64_t *planned, uint64_t *least)
{
    uint64_t before = 1;
    for (int round = 0; round < 4 && *planned != before; round++) {
        before = *planned;
        *planned = *least = 0;
        for (int c = 0; c < f->n_calls; c++) {
            neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
            if (neap_handle_plan(m->handle, f->in[c].count, f->in[c].value, &plan, NULL, NULL) !=
                NEAP_OK)
                return fail("plan: %s", neap_context_error(neap_handle_context(m->handle)));
            *planned = plan.planned_peak_bytes > *planned ? plan.planned_peak_bytes : *planned;
            *least = plan.least_bytes > *least ? plan.least_bytes : *least;
        }
    }
    return true;
}

static double rms_ratio(const neap_value *want, const neap_value *have)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < list_size(want); i++) {
        const double e = list_element(want, i), a = list_element(have, i);
        error += (e - a) * (e - a);
        size += e * e;
    }
    return sqrt(error) / (size > 0 ? sqrt(size) : 1);
}

static bool is_float(neap_dtype t)
{
    return t == NEAP_F32 || t == NEAP_F16 || t == NEAP_BF16;
}

static bool same_shape(const neap_value *a, const neap_value *b)
{
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

static bool compare(const fixture *f, int call, const neap_value *have, outcome *o)
{
    for (int i = 0; i < f->want[call].count; i++) {
        const neap_value *want = &f->want[call].value[i];
        if (have[i].kind != NEAP_VALUE_TENSOR || !same_shape(want, &have[i]))
            return fail("call %d, output %d has another shape than PyTorch's", call + 1, i);
        const double ratio = rms_ratio(want, &have[i]);
        const double most = is_float(want->dtype) ? tolerance(f->name) : 0;
        if (!file_differs(f->name, i))
            o->worst = ratio > o->worst ? ratio : o->worst;
        if (!(ratio <= most) && !file_differs(f->name, i))
            return fail("call %d, output %d: error %.3g, at most %.3g", call + 1, i, ratio, most);
        o->size[call][i] = have[i].bytes;
        o->bytes[call][i] = malloc(have[i].bytes + 1);
        memcpy(o->bytes[call][i], have[i].data, have[i].bytes);
    }
    return true;
}

static bool execute_all(const fixture *f, machine *m, outcome *o)
{
    for (int c = 0; c < f->n_calls; c++) {
        neap_value out[LIST_MAX];
        memset(out, 0, sizeof out);
        if (neap_handle_execute(m->handle, f->in[c].count, f->in[c].value, f->want[c].count, out) !=
            NEAP_OK)
            return fail("call %d: %s", c + 1, neap_context_error(neap_handle_context(m->handle)));
        if (!compare(f, c, out, o))
            return false;
    }
    return true;
}

static bool find_least(const fixture *f, const way *how, uint64_t *least)
{
    machine m;
    uint64_t planned = 0;
    bool ok = open_machine(f, how, &m);
    ok = ok && (neap_handle_set_plan_budget(m.handle, 1) == NEAP_OK || fail("no budget"));
    ok = ok && plan_all(f, &m, &planned, least);
    close_machine(&m);
    return ok;
}

static bool run_way(const fixture *f, const way *how, outcome *o)
{
    machine m;
    uint64_t least = 0;
    if (how->least && !find_least(f, how, &least))
        return false;
    bool ok = open_machine(f, how, &m);
    if (ok && how->least && neap_context_set_limit(m.ctx, least) != NEAP_OK)
        ok = fail("limit %llu: %s", (unsigned long long)least, neap_context_error(m.ctx));
    if (ok && neap_handle_set_plan_budget(m.handle, how->least) != NEAP_OK)
        ok = fail("no budget");
    ok = ok && plan_all(f, &m, &o->planned, &least) && execute_all(f, &m, o);
    neap_memory_info info = NEAP_MEMORY_INFO_INIT;
    if (m.ctx)
        neap_context_memory(m.ctx, &info);
    o->measured = info.peak;
    close_machine(&m);
    if (ok && (depends_on_data(f->name) ? o->measured > o->planned : o->measured != o->planned))
        ok = fail("planned %llu bytes, measured %llu", (unsigned long long)o->planned,
                  (unsigned long long)o->measured);
    return ok;
}

static bool same_bits(const fixture *f, const outcome *a, const outcome *b)
{
    for (int c = 0; c < f->n_calls; c++)
        for (int i = 0; i < f->want[c].count; i++)
            if (a->size[c][i] != b->size[c][i] ||
                memcmp(a->bytes[c][i], b->bytes[c][i], a->size[c][i]))
                return fail("call %d, output %d differs from the plain run's", c + 1, i);
    return true;
}

static void free_outcome(outcome *o)
{
    for (int c = 0; c < MAX_CALLS; c++)
        for (int i = 0; i < LIST_MAX; i++)
            free(o->bytes[c][i]);
}

static bool check_fixture(const fixture *f)
{
    static outcome results[WAYS];
    bool ok = true;
    memset(results, 0, sizeof results);
    for (int w = 0; ok && w < WAYS; w++) {
        ok = run_way(f, &ways[w], &results[w]) && same_bits(f, &results[0], &results[w]);
        if (!ok)
            printf("FAILED %s, %s: %s\n", f->name, ways[w].name, failure);
    }
    if (ok)
        printf("%-20s error %.1e, %llu bytes\n", f->name, results[0].worst,
               (unsigned long long)results[0].measured);
    for (int w = 0; w < WAYS; w++)
        free_outcome(&results[w]);
    return ok;
}

/* ---- folders ------------------------------------------------------------------------------------- */

static int check_folder(const char *root, const char *fragment, int *faults)
{
    struct dirent **entries;
    const int n = scandir(root, &entries, NULL, alphasort);
    int done = 0;
    for (int i = 0; i < n; i++) {
        static fixture f;
        char model[1200];
        const char *name = entries[i]->d_name;
        snprintf(model, sizeof model, "%s/%s/model.pte", root, name);
        if (access(model, R_OK) == 0 && (!fragment || strstr(name, fragment))) {
            const bool read = read_fixture(root, name, &f);
            if (!read)
                printf("FAILED %s: %s\n", name, failure);
            *faults += !read || !check_fixture(&f);
            for (int c = 0; c < f.n_calls; c++) {
                list_free(&f.in[c]);
                list_free(&f.want[c]);
            }
            done++;
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return done;
}

int main(int argc, char **argv)
{
    int faults = 0, done = 0;
    test_path shared;
    const char *root = argc > 1 ? argv[1] : NEAP_TEST_DIR "/golden/exports";
    done = check_folder(root, argc > 2 ? argv[2] : NULL, &faults);
    if (argc == 1 && test_shared_path("cases/exports", &shared))
        done += check_folder(shared.text, NULL, &faults);
    printf("%d programs, %d failed\n", done, faults);
    return done == 0 || faults > 0;
}
