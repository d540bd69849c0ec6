/* fuzz_model.c - any bytes as a GGUF model: looked at, opened and, if it is small, planned and run for two
 * tokens within 64 MiB: an error, or scores. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "neap/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_LAYERS = 4, MOST_WIDTH = 1024 };

static bool small(const neap_model *m)
{
    neap_model_info i = NEAP_MODEL_INFO_INIT;
    neap_model_describe(m, &i);
    for (int64_t t = 0; t < i.tensors; t++) {
        neap_tensor_info tensor = NEAP_TENSOR_INFO_INIT;
        neap_model_tensor(m, t, &tensor);
    }
    return i.layers <= MOST_LAYERS && i.hidden <= MOST_WIDTH && i.ffn <= MOST_WIDTH &&
           i.vocabulary > 1 && i.vocabulary <= MOST_WIDTH;
}

static void run(neap_model *m)
{
    const int32_t ids[2] = {0, 1};
    neap_session *s;
    neap_session_options o = NEAP_SESSION_OPTIONS_INIT;
    neap_generate_options g = NEAP_GENERATE_OPTIONS_INIT;
    neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
    o.context = 4;
    g.max_tokens = 2;
    if (neap_session_new(m, &o, &s) == NEAP_OK)
        neap_generate(s, ids, 2, &g, &r);
    neap_session_free(s);
}

/* Whether it was only looked at or opened, nothing may be left, and an error that was returned may not
 * keep the next call from its work. */
static void try(neap_context *ctx, const char *path,
                neap_status (*open)(neap_context *, const char *, neap_model **))
{
    neap_model *m = NULL;
    if (open(ctx, path, &m) == NEAP_OK && small(m))
        run(m);
    neap_model_free(m);
    neap_context_clear_error(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    char path[64];
    o.threads = 1;
    o.memory_limit = 64 << 20;
    const int file = memfd_create("model", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size || neap_context_new(&o, &ctx) != NEAP_OK)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    try(ctx, path, neap_model_open);
    try(ctx, path, neap_model_inspect);
    neap_context_free(ctx);
    close(file);
    return 0;
}
