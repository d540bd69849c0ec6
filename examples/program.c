/* program.c - one method of an ExecuTorch program inside exactly what it needs: program FILE.pte
 *
 * Inputs are zeros of the declared shapes (upper bounds). The plan tells the peak before anything
 * runs; the run then has that as its limit and measures the same. */
#include <neap/program.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64 };

static neap_status zeros(neap_program *program, int n, neap_value *in)
{
    for (int i = 0; i < n; i++) {
        neap_status status = neap_program_input(program, 0, i, &in[i]);
        if (status != NEAP_OK || in[i].kind != NEAP_VALUE_TENSOR)
            return status;
        in[i].bytes = (uint64_t)neap_dtype_describe(in[i].dtype)->block_bytes;
        for (int d = 0; d < in[i].rank; d++)
            in[i].bytes *= (uint64_t)in[i].shape[d];
        if (!(in[i].data = calloc(1, in[i].bytes + 1)))
            return NEAP_ENOMEM;
    }
    return NEAP_OK;
}

static neap_status run(neap_context *ctx, neap_program *program, neap_handle *handle)
{
    neap_value in[MOST] = {{0}}, out[MOST] = {{0}};
    int n_in = neap_program_inputs(program, 0), n_out = neap_program_outputs(program, 0);
    neap_execution_plan plan = NEAP_EXECUTION_PLAN_INIT;
    neap_memory_info memory = NEAP_MEMORY_INFO_INIT;
    if (n_in > MOST || n_out > MOST)
        return NEAP_ELIMIT;
    neap_status status = zeros(program, n_in, in);
    if (status == NEAP_OK)
        status = neap_handle_plan(handle, n_in, in, &plan, NULL, NULL);
    if (status == NEAP_OK)
        status = neap_context_set_limit(ctx, plan.least_bytes);
    if (status == NEAP_OK)
        status = neap_handle_execute(handle, n_in, in, n_out, out);
    if (status == NEAP_OK) {
        neap_context_memory(ctx, &memory);
        printf("planned %llu bytes, measured %llu, %lld steps\n",
               (unsigned long long)plan.planned_peak_bytes, (unsigned long long)memory.peak,
               (long long)plan.steps);
    } else {
        fprintf(stderr, "%s\n", neap_context_error(neap_handle_context(handle)));
    }
    for (int i = 0; i < n_in; i++)
        free((void *)in[i].data);
    return status;
}

int main(int argc, char **argv)
{
    neap_context *ctx;
    neap_program *program = NULL;
    neap_handle *handle = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: program FILE.pte\n");
        return 2;
    }
    if (neap_context_new(NULL, &ctx) != NEAP_OK)
        return 1;
    neap_status status = neap_program_open(ctx, argv[1], &program);
    if (status == NEAP_OK)
        status = neap_handle_open(program, 0, NULL, &handle);
    if (status != NEAP_OK)
        fprintf(stderr, "%s\n", neap_context_error(ctx));
    else
        status = run(ctx, program, handle);
    neap_handle_close(handle);
    neap_program_close(program);
    neap_context_free(ctx);
    return status == NEAP_OK ? 0 : 1;
}
