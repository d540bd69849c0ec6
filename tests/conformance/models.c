/* models.c - real and small models against references made by eager PyTorch: rms error over the rms
 * of the reference within the tolerance of the models' README, tokens exact.
 *
 *   models [FOLDER [THREADS [THRESHOLD]]]
 *
 * The decoder gets the reference's encoder states, so that its logits are compared alone; the whole
 * way from sound to text is tests/cli/transcribe.sh's. */
#include <math.h>
#include <time.h>

#include "places.h"
#include "tensor_list.h"

static int faults;

typedef struct model {
    neap_context *ctx;
    neap_program *program;
    neap_handle *handle;
} model;

static int threads = 1;
static int64_t threshold;

static bool open_model(const char *root, const char *file, model *m)
{
    char path[600];
    neap_context_options co = NEAP_CONTEXT_OPTIONS_INIT;
    neap_handle_options ho = NEAP_HANDLE_OPTIONS_INIT;
    neap_option option = {"eval_threshold_bytes", NEAP_OPTION_INT, threshold, NULL};
    memset(m, 0, sizeof *m);
    co.threads = threads;
    ho.options = &option;
    ho.n_options = threshold > 0;
    snprintf(path, sizeof path, "%s/%s", root, file);
    bool ok = neap_context_new(&co, &m->ctx) == NEAP_OK &&
              neap_program_open(m->ctx, path, &m->program) == NEAP_OK &&
              neap_handle_open(m->program, 0, &ho, &m->handle) == NEAP_OK;
    if (!ok) {
        printf("%s: %s\n", file, m->ctx ? neap_context_error(m->ctx) : "no context");
        faults++;
    }
    return ok;
}

static void close_model(model *m)
{
    neap_handle_close(m->handle);
    neap_program_close(m->program);
    neap_context_free(m->ctx);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double rms_ratio(const neap_value *want, const neap_value *have)
{
    double error = 0, size = 0;
    int64_t n = list_size(want);
    if (n != list_size(have))
        return INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double e = list_element(want, i), a = list_element(have, i);
        error += (e - a) * (e - a);
        size += e * e;
    }
    return sqrt(error / (size > 0 ? size : 1));
}

static void check(const char *what, double value, double limit)
{
    bool ok = value <= limit;
    printf("%-42s %.3g (limit %.3g)%s\n", what, value, limit, ok ? "" : "  FAILED");
    faults += !ok;
}

static bool run(model *m, int n_in, const neap_value *in, int n_out, neap_value *out)
{
    memset(out, 0, (size_t)n_out * sizeof *out);
    if (neap_handle_execute(m->handle, n_in, in, n_out, out) == NEAP_OK)
        return true;
    printf("execute: %s\n", neap_context_error(neap_handle_context(m->handle)));
    faults++;
    return false;
}

static bool list(const char *root, const char *file, tensor_list *l)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", root, file);
    if (list_read(path, l))
        return true;
    printf("%s: cannot be read\n", path);
    faults++;
    return false;
}

static void once(const char *root, const char *program, const char *in, const char *out,
                 double limit)
{
    model m;
    tensor_list x, y;
    neap_value result[8];
    if (!open_model(root, program, &m) || !list(root, in, &x) || !list(root, out, &y))
        return;
    double t0 = seconds();
    if (run(&m, x.count, x.value, y.count, result)) {
        double t1 = seconds();
        for (int i = 0; i < y.count; i++)
            check(program, rms_ratio(&y.value[i], &result[i]), limit);
        run(&m, x.count, x.value, y.count, result);
        neap_memory_info mem = NEAP_MEMORY_INFO_INIT;
        neap_handle_stats s = NEAP_HANDLE_STATS_INIT;
        neap_context_memory(m.ctx, &mem);
        neap_handle_tell(m.handle, &s);
        printf("    %.3f s first, %.3f s again, peak %.2f MiB, plan %.4f s, barriers %llu\n", t1 - t0,
               seconds() - t1, (double)mem.peak / 1048576, s.plan_seconds,
               (unsigned long long)s.barriers);
    }
    list_free(&x);
    list_free(&y);
    close_model(&m);
}

static int64_t argmax(const neap_value *v, int64_t row)
{
    int64_t n = v->shape[v->rank - 1], best = 0;
    for (int64_t i = 1; i < n; i++)
        if (list_element(v, row * n + i) > list_element(v, row * n + best))
            best = i;
    return best;
}

/* The value becomes its j-th row. */
static const neap_value *row_of(neap_value *v, int64_t j, int64_t vocab)
{
    uint64_t size = (uint64_t)neap_dtype_describe(v->dtype)->block_bytes;
    v->data = (const char *)v->data + (uint64_t)(j * vocab) * size;
    v->rank = 1;
    v->shape[0] = vocab;
    return v;
}

static neap_value ints(int rank, const int64_t *shape, const int64_t *data)
{
    neap_value v = {.kind = NEAP_VALUE_TENSOR, .dtype = NEAP_I64, .rank = rank, .data = data,
                    .bytes = 8};
    for (int d = 0; d < rank; d++) {
        v.shape[d] = shape[d];
        v.bytes *= (uint64_t)shape[d];
    }
    return v;
}

/* Prefill, then token after token: every step's logits and the tokens. */
static void language_model(const char *root, const char *folder, double limit)
{
    char path[300];
    model m;
    tensor_list in, first, steps, tokens;
    neap_value out[2], last;
    snprintf(path, sizeof path, "%s/model.pte", folder);
    bool ok = open_model(root, path, &m);
    snprintf(path, sizeof path, "%s/refs/prefill_inputs.bin", folder);
    ok = ok && list(root, path, &in);
    snprintf(path, sizeof path, "%s/refs/prefill_out.bin", folder);
    ok = ok && list(root, path, &first);
    snprintf(path, sizeof path, "%s/refs/greedy_step_logits.bin", folder);
    ok = ok && list(root, path, &steps);
    snprintf(path, sizeof path, "%s/refs/greedy_tokens.bin", folder);
    ok = ok && list(root, path, &tokens);
    if (!ok || !run(&m, in.count, in.value, 1, out))
        return;
    check(folder, rms_ratio(&first.value[0], &out[0]), limit);
    int64_t n = list_size(&tokens.value[0]), vocab = out[0].shape[out[0].rank - 1], wrong = 0;
    int64_t rows = list_size(&out[0]) / vocab, next = argmax(&out[0], rows - 1);
    int64_t position = in.value[1].shape[in.value[1].rank - 1];
    double worst = 0, t0 = seconds();
    for (int64_t j = 0; j < n; j++) {
        wrong += next != (int64_t)list_element(&tokens.value[0], j);
        int64_t token = (int64_t)list_element(&tokens.value[0], j), at = position + j;
        int64_t shape[2] = {1, 1};
        if (j >= list_size(&steps.value[0]) / vocab)
            break;
        neap_value x[2] = {ints(2, shape, &token), ints(in.value[1].rank, shape, &at)};
        if (!run(&m, 2, x, 1, out))
            break;
        last = steps.value[0];
        double r = rms_ratio(row_of(&last, j, vocab), &out[0]);
        worst = r > worst ? r : worst;
        next = argmax(&out[0], 0);
    }
    neap_handle_stats s = NEAP_HANDLE_STATS_INIT;
    neap_handle_tell(m.handle, &s);
    check("    worst step", worst, limit);
    check("    wrong tokens", (double)wrong, 0);
    printf("    %.1f ms a step, %llu plans of %.2f ms, %llu replays\n",
           (seconds() - t0) / (double)n * 1e3, (unsigned long long)s.plans,
           s.plan_seconds * 1e3 / (double)(s.plans ? s.plans : 1), (unsigned long long)s.plan_hits);
    close_model(&m);
}

static void whisper(const char *root)
{
    static neap_value cross[14];
    model c, d;
    tensor_list in, steps, tokens;
    neap_value step[14], logits;
    static const int64_t forced[] = {50258, 50259, 50359, 50363};
    if (!open_model(root, "whisper-base/cross_kv.pte", &c) ||
        !open_model(root, "whisper-base/decoder.pte", &d) ||
        !list(root, "whisper-base/refs/encoder_out.bin", &in) ||
        !list(root, "whisper-base/refs/greedy_step_logits.bin", &steps) ||
        !list(root, "whisper-base/refs/greedy_tokens.bin", &tokens) ||
        !run(&c, 1, in.value, 12, cross))
        return;
    int64_t n = list_size(&tokens.value[0]), wrong = 0, next = forced[0], one[2] = {1, 1};
    double worst = 0, t0 = seconds();
    for (int64_t j = 0; j < n; j++) {
        wrong += next != (int64_t)list_element(&tokens.value[0], j);
        step[0] = ints(2, one, &next);
        step[1] = ints(1, one, &j);
        memcpy(step + 2, cross, 12 * sizeof *step);
        if (!run(&d, 14, step, 1, &logits))
            return;
        int64_t vocab = logits.shape[logits.rank - 1];
        if (j < list_size(&steps.value[0]) / vocab) {
            neap_value want = steps.value[0];
            double r = rms_ratio(row_of(&want, j, vocab), &logits);
            worst = r > worst ? r : worst;
        }
        next = j + 1 < 4 ? forced[j + 1] : argmax(&logits, 0);
    }
    /* Not derived yet: the README of the programs gives these logits no limit. AVX-512 is held to the 2.5 %
     * of the encoder. 5 % for the others only leaves room for what was measured: 0.042 on AVX2, 0.032 on
     * base, 0.023 on AVX-512, of the same tokens. What is wanted is how far the bf16 reference itself is
     * from f32 (docs/progress.md). */
    const bool widest = !strcmp(neap_context_isa(d.ctx), "avx512");
    check("whisper-base: worst step's logits", worst, widest ? 0.025 : 0.05);
    check("    wrong tokens", (double)wrong, 0);
    neap_handle_stats s = NEAP_HANDLE_STATS_INIT;
    neap_handle_tell(d.handle, &s);
    printf("    decoder: %.2f ms a step, %llu plans of %.2f ms, %llu replays\n",
           (seconds() - t0) / (double)n * 1e3, (unsigned long long)s.plans,
           s.plan_seconds * 1e3 / (double)(s.plans ? s.plans : 1), (unsigned long long)s.plan_hits);
    close_model(&d);
    close_model(&c);
}

static void delta_rule(const char *root, const char *folder)
{
    char path[300];
    model m;
    neap_value out[2];
    snprintf(path, sizeof path, "%s/model.pte", folder);
    if (!open_model(root, path, &m))
        return;
    for (int call = 0; call < 2; call++) {
        tensor_list in, want;
        snprintf(path, sizeof path, "%s/refs/call%d_in.bin", folder, call);
        if (!list(root, path, &in))
            return;
        snprintf(path, sizeof path, "%s/refs/call%d_out.bin", folder, call);
        if (!list(root, path, &want) || !run(&m, in.count, in.value, want.count, out))
            return;
        check(path, rms_ratio(&want.value[0], &out[0]), 1e-5);
    }
    close_model(&m);
}

int main(int argc, char **argv)
{
    test_path root;
    if (argc > 1)
        snprintf(root.text, sizeof root.text, "%s", argv[1]);
    else if (!test_shared_path("models", &root))
        return 77;
    threads = argc > 2 ? atoi(argv[2]) : 2;
    threshold = argc > 3 ? atoll(argv[3]) : 0;
    char path[600];
    once(root.text, "whisper-base/encoder.pte", "whisper-base/refs/input_features.bin",
         "whisper-base/refs/encoder_out.bin", 0.025);
    once(root.text, "whisper-base-4w/encoder.pte", "whisper-base-4w/refs/input_features.bin",
         "whisper-base-4w/refs/encoder_out.bin", 0.025);
    whisper(root.text);
    language_model(root.text, "qwen35-scan-4w-bf16", 0.05);
    language_model(root.text, "gemma-sliding", 1e-5);
    delta_rule(root.text, "gdr-scan");
    delta_rule(root.text, "gdr-kernel");
    for (int n = 1; n <= 5; n += n == 1 ? 1 : 3) {
        char in[64], out[64];
        const char *folders[] = {"switchmlp", "switchmlp-4w"};
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/model.pte", folders[i]);
            snprintf(in, sizeof in, "%s/refs/in%d.bin", folders[i], n);
            snprintf(out, sizeof out, "%s/refs/out%d.bin", folders[i], n);
            once(root.text, path, in, out, 1e-5);
        }
    }
    printf("models: %d faults\n", faults);
    return faults > 0;
}
