/* conformance.c - every fixture of a folder of programs: model.pte, input.bin, expected_output.bin,
 * meta.json (tolerances). Each runs four ways, which must give the same bits: as it is, with the
 * limit at its least bytes, with eval_threshold_bytes = 1, on two threads.
 *
 *   conformance [FOLDER [NAME-FRAGMENT]]
 *
 * Without a folder: the shared cases, where they are, and those that the repository carries, these
 * once for each kernel set of the machine.
 * Answers come from PyTorch (the fixtures); expected_output.mlx.bin, where there is one, from the
 * published algorithm of the random bits, and must be equal. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "places.h"
#include "tensor_list.h"

enum { MAX_CALLS = 80, WAYS = 4 };
static const char *const way_names[WAYS] = {"plain", "least memory", "threshold 1", "two threads"};

typedef struct fixture {
    char folder[512];
    double rtol, atol;
    bool skip;
    int n_calls;
    tensor_list in[MAX_CALLS], want[MAX_CALLS];
    bool exact[MAX_CALLS];
    neap_sequence_cache_options cache;
    bool has_cache;
} fixture;

typedef struct results {
    int count[MAX_CALLS];
    neap_value value[MAX_CALLS][LIST_MAX]; /* data owned */
    uint64_t planned, measured;
} results;

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

/* ---- fixtures ------------------------------------------------------------------------------ */

static void read_cache(fixture *f, const char *text)
{
    long long n[4];
    char dtype[32] = "";
    f->cache = (neap_sequence_cache_options)NEAP_SEQUENCE_CACHE_OPTIONS_INIT;
    if (sscanf(text, "%lld,%lld,%lld,%lld,%31s", &n[0], &n[1], &n[2], &n[3], dtype) < 4)
        return;
    f->cache.capacity = n[0];
    f->cache.layers = n[1];
    f->cache.kv_heads = n[2];
    f->cache.head_dim = n[3];
    /* an ExecuTorch ScalarType: its number or its name */
    f->cache.dtype = !strcmp(dtype, "5") || strstr(dtype, "alf")     ? NEAP_F16
                     : !strcmp(dtype, "15") || strstr(dtype, "loat16") ? NEAP_BF16
                                                                       : NEAP_F32;
    f->has_cache = true;
}

static bool read_meta(fixture *f)
{
    char path[600];
    snprintf(path, sizeof path, "%s/meta.json", f->folder);
    json_error_t error;
    json_t *meta = json_load_file(path, 0, &error);
    if (!meta)
        return fail("%s", error.text);
    f->rtol = json_number_value(json_object_get(meta, "rtol"));
    f->atol = json_number_value(json_object_get(meta, "atol"));
    f->skip = json_is_true(json_object_get(meta, "skip_comparison"));
    json_t *args = json_object_get(meta, "runner_args");
    for (size_t i = 0; i + 1 < json_array_size(args); i++)
        if (!strcmp(json_string_value(json_array_get(args, i)), "--kv-cache"))
            read_cache(f, json_string_value(json_array_get(args, i + 1)));
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *text = json_string_value(json_array_get(args, i));
        if (!strncmp(text, "--kv-cache=", 11))
            read_cache(f, text + 11);
    }
    json_decref(meta);
    return true;
}

static bool read_call(fixture *f, int call)
{
    char path[600];
    if (call == 0)
        snprintf(path, sizeof path, "%s/expected_output.mlx.bin", f->folder);
    f->exact[call] = call == 0 && list_read(path, &f->want[call]);
    if (!f->exact[call]) {
        if (call == 0)
            snprintf(path, sizeof path, "%s/expected_output.bin", f->folder);
        else
            snprintf(path, sizeof path, "%s/expected_output.call%d.bin", f->folder, call + 1);
        if (!list_read(path, &f->want[call]))
            return false;
    }
    if (call > 0)
        snprintf(path, sizeof path, "%s/input.call%d.bin", f->folder, call + 1);
    if (call > 0 && list_read(path, &f->in[call]))
        return true;
    snprintf(path, sizeof path, "%s/input.bin", f->folder);
    return list_read(path, &f->in[call]);
}

/* ---- running ------------------------------------------------------------------------------- */

static bool keep(results *r, int call, int n, const neap_value *out)
{
    r->count[call] = n;
    for (int i = 0; i < n; i++) {
        r->value[call][i] = out[i];
        if (out[i].kind != NEAP_VALUE_TENSOR)
            continue;
        void *copy = malloc(out[i].bytes + 1);
        memcpy(copy, out[i].data, out[i].bytes);
        r->value[call][i].data = copy;
    }
    return true;
}

static bool set_budget(fixture *f, neap_program *p, neap_handle *h, neap_context *ctx, results *r)
{
    neap_context *own = neap_handle_context(h);
    for (int c = 0; c < f->n_calls; c++) {
        neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
        if (neap_handle_plan(h, f->in[c].count, f->in[c].value, &plan, NULL, NULL) != NEAP_OK)
            return fail("plan: %s", neap_context_error(own));
        if (plan.least_bytes > r->planned)
            r->planned = plan.least_bytes;
    }
    (void)p;
    if (neap_context_set_limit(ctx, r->planned) != NEAP_OK)
        return fail("limit %llu: %s", (unsigned long long)r->planned, neap_context_error(ctx));
    return true;
}

static bool execute(fixture *f, neap_handle *h, results *r)
{
    neap_value out[LIST_MAX];
    for (int c = 0; c < f->n_calls; c++) {
        int n = f->want[c].count;
        memset(out, 0, sizeof out);
        if (neap_handle_execute(h, f->in[c].count, f->in[c].value, n, out) != NEAP_OK)
            return fail("call %d: %s", c + 1, neap_context_error(neap_handle_context(h)));
        keep(r, c, n, out);
    }
    return true;
}

static bool run_way(fixture *f, int way, results *r)
{
    char path[600];
    neap_context *ctx = NULL;
    neap_program *p = NULL;
    neap_handle *h = NULL;
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    neap_handle_options ho = NEAP_HANDLE_OPTIONS_INIT;
    neap_option options[2];
    co.threads = way == 3 ? 2 : 1;
    ho.seed = 7;
    ho.options = options;
    snprintf(path, sizeof path, "%s/model.pte", f->folder);
    bool ok = neap_context_new(&co, &ctx) == NEAP_OK;
    ok = ok && (neap_program_open(ctx, path, &p) == NEAP_OK || fail("%s", neap_context_error(ctx)));
    if (ok && f->has_cache) {
        ok = neap_program_install_cache(p, "kv", &f->cache) == NEAP_OK;
        options[ho.n_options++] =
            (neap_option){.key = "cache_key", .kind = NEAP_OPTION_STRING, .text = "kv"};
    }
    if (way == 2)
        options[ho.n_options++] =
            (neap_option){.key = "eval_threshold_bytes", .kind = NEAP_OPTION_INT, .integer = 1};
    int method = ok ? neap_program_find_method(p, "forward") : 0;
    ok = ok && (neap_handle_open(p, method < 0 ? 0 : method, &ho, &h) == NEAP_OK ||
                fail("%s", neap_context_error(ctx)));
    if (ok && way == 1)
        ok = set_budget(f, p, h, ctx, r);
    ok = ok && execute(f, h, r);
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    r->measured = m.peak;
    neap_handle_close(h);
    neap_program_close(p);
    neap_context_memory(ctx, &m);
    if (ok && m.active > 65536 + 600 * 1024) /* the context itself and its threads' stacks */
        ok = fail("%llu bytes are held after closing", (unsigned long long)m.active);
    neap_context_free(ctx);
    return ok;
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool same_shape(const neap_value *a, const neap_value *b)
{
    return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

/* As torch.allclose(expected, actual): the actual value scales rtol. */
static bool close_enough(const fixture *f, bool exact, double e, double a)
{
    if (exact || isinf(e) || isinf(a))
        return e == a;
    return fabs(e - a) <= f->atol + f->rtol * fabs(a);
}

static bool compare(const fixture *f, int call, const results *r)
{
    for (int i = 0; i < f->want[call].count; i++) {
        const neap_value *e = &f->want[call].value[i], *a = &r->value[call][i];
        if (a->kind != NEAP_VALUE_TENSOR || !same_shape(e, a)) {
            char text[200] = "";
            for (int d = 0; d < a->rank; d++)
                snprintf(text + strlen(text), sizeof text - strlen(text), " %lld",
                         (long long)a->shape[d]);
            return fail("call %d: output %d has another shape:%s", call + 1, i, text);
        }
        int64_t bad = 0, n = list_size(e), first = -1;
        bool exact = f->exact[call] || (e->dtype == NEAP_BOOL && a->dtype == NEAP_BOOL);
        for (int64_t k = 0; k < n; k++) {
            if (!close_enough(f, exact, list_element(e, k), list_element(a, k))) {
                first = first < 0 ? k : first;
                bad++;
            }
        }
        if (bad && !(f->skip && !f->exact[call]))
            return fail("call %d: output %d: %lld of %lld elements, [%lld] is %.9g, expected %.9g",
                        call + 1, i, (long long)bad, (long long)n, (long long)first,
                        list_element(a, first), list_element(e, first));
    }
    return true;
}

static bool same_bits(const fixture *f, const results *a, const results *b, int way)
{
    for (int c = 0; c < f->n_calls; c++)
        for (int i = 0; i < a->count[c]; i++) {
            const neap_value *x = &a->value[c][i], *y = &b->value[c][i];
            if (x->dtype != y->dtype || !same_shape(x, y) || memcmp(x->data, y->data, x->bytes))
                return fail("call %d: output %d differs: %s", c + 1, i, way_names[way]);
        }
    return true;
}

static void free_results(results *r)
{
    for (int c = 0; c < MAX_CALLS; c++)
        for (int i = 0; i < r->count[c]; i++)
            free((void *)(uintptr_t)r->value[c][i].data);
}

static bool check(const char *root, const char *name)
{
    static fixture f;
    static results way[WAYS];
    memset(&f, 0, sizeof f);
    memset(way, 0, sizeof way);
    snprintf(f.folder, sizeof f.folder, "%s/%s", root, name);
    if (!read_meta(&f))
        return false;
    while (f.n_calls < MAX_CALLS && read_call(&f, f.n_calls))
        f.n_calls++;
    bool ok = f.n_calls > 0 || fail("no expected output");
    for (int w = 0; ok && w < WAYS; w++) {
        ok = run_way(&f, w, &way[w]);
        if (!ok) {
            char text[900];
            snprintf(text, sizeof text, "%.899s", failure);
            fail("%s: %s", way_names[w], text);
        }
        for (int c = 0; ok && w == 0 && c < f.n_calls; c++)
            ok = compare(&f, c, &way[0]);
        ok = ok && (w == 0 || same_bits(&f, &way[0], &way[w], w));
    }
    if (ok && way[1].measured > way[1].planned)
        ok = fail("%llu bytes were held, %llu planned", (unsigned long long)way[1].measured,
                  (unsigned long long)way[1].planned);
    for (int w = 0; w < WAYS; w++)
        free_results(&way[w]);
    for (int c = 0; c < f.n_calls; c++) {
        list_free(&f.in[c]);
        list_free(&f.want[c]);
    }
    return ok;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* -1: there is no such folder. */
static int check_folder(const char *root, const char *fragment, const char *isa, int *run)
{
    struct dirent **names;
    int n = scandir(root, &names, NULL, by_name), bad = 0;
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (name[0] != '.' && (!fragment || strstr(name, fragment))) {
            ++*run;
            failure[0] = 0;
            if (!check(root, name)) {
                bad++;
                printf("%s%s%s: %s\n", isa, *isa ? ": " : "", name, failure);
            }
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return n < 0 ? -1 : bad;
}

static int check_carried(int *run)
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    int bad = 0;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        neap_context *ctx = NULL;
        setenv("NEAP_ISA", isas[i], 1);
        if (neap_context_new(NULL, &ctx) != NEAP_OK)
            continue; /* not one of this machine's */
        neap_context_free(ctx);
        int n = check_folder(NEAP_TEST_DIR "/golden/programs", NULL, isas[i], run);
        bad += n < 0 ? 1 : n;
    }
    return bad;
}

int main(int argc, char **argv)
{
    int run = 0, bad;
    test_path shared;
    if (argc > 1) {
        bad = check_folder(argv[1], argc > 2 ? argv[2] : NULL, "", &run);
        if (bad < 0) {
            fprintf(stderr, "conformance: no fixtures at %s\n", argv[1]);
            return 2;
        }
    } else {
        bad = 0;
        if (test_shared_path("cases/ops", &shared))
            bad = check_folder(shared.text, NULL, "", &run);
        bad += check_carried(&run);
    }
    printf("conformance: %d programs, %d failed\n", run, bad);
    return bad > 0 || run == 0;
}
