/* fuzz_program.c - any bytes as a program, its method forward (else its first) executed twice on zeros
 * of the declared shapes, within 64 MiB: an error or results whose every byte can be read. Programs
 * of large tensors are left out: they only cost time. */
#include <stdlib.h>
#include <string.h>

#include "program/handle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_VALUES = 32, MOST_INPUT = 1 << 20, MOST_ELEMENTS = 1000000 };

static volatile uint8_t sink;

static bool small_tensor(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        if (shape[d] > MOST_ELEMENTS || (n *= shape[d] > 0 ? shape[d] : 1) > MOST_ELEMENTS)
            return false;
    return true;
}

static bool small_program(const neap_handle *h)
{
    for (uint32_t d = 0; d < h->method->n_delegates; d++) {
        const np_mlx_graph *g = h->delegates[d]->graph;
        for (uint32_t t = 0; t < np_first_temp(g); t++)
            if (!small_tensor(g->meta[t].rank, g->meta[t].shape))
                return false;
    }
    return true;
}

/* false: an input is too large. */
static bool zero_inputs(const neap_program *p, int method, int n, neap_value *in, uint8_t *zeros)
{
    for (int i = 0; i < n; i++) {
        if (neap_program_input(p, method, i, &in[i]) != NEAP_OK ||
            (in[i].kind == NEAP_VALUE_TENSOR && !small_tensor(in[i].rank, in[i].shape)))
            return false;
        in[i].data = in[i].kind == NEAP_VALUE_TENSOR ? zeros : NULL;
        in[i].bytes = 0;
    }
    return true;
}

static void execute(neap_program *p, int method, neap_handle *h)
{
    int n_in = neap_program_inputs(p, method), n_out = neap_program_outputs(p, method);
    neap_value in[MOST_VALUES] = {{0}}, out[MOST_VALUES] = {{0}};
    uint8_t *zeros = calloc(1, 8 * MOST_INPUT);
    if (!zeros)
        abort();
    if (n_in <= MOST_VALUES && n_out <= MOST_VALUES && small_program(h) &&
        zero_inputs(p, method, n_in, in, zeros)) {
        neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
        neap_handle_plan(h, n_in, in, &plan, NULL, NULL);
        for (int round = 0; round < 2; round++) {
            memset(out, 0, sizeof out);
            if (neap_handle_execute(h, n_in, in, n_out, out) != NEAP_OK)
                continue;
            for (int i = 0; i < n_out; i++)
                for (uint64_t b = 0; out[i].kind == NEAP_VALUE_TENSOR && b < out[i].bytes; b++)
                    sink ^= ((const uint8_t *)out[i].data)[b];
        }
    }
    free(zeros);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_context *ctx;
    neap_program *p;
    neap_handle *h;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = 64 << 20;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        abort();
    if (neap_program_open_memory(ctx, data, size, &p) == NEAP_OK) {
        int method = neap_program_find_method(p, "forward");
        neap_context_clear_error(ctx);
        method = method < 0 ? 0 : method;
        if (neap_program_methods(p) > 0 && neap_handle_open(p, method, NULL, &h) == NEAP_OK) {
            execute(p, method, h);
            neap_handle_close(h);
        }
        neap_program_close(p);
    }
    neap_context_free(ctx);
    return 0;
}
