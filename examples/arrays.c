/* arrays.c - a small graph: softmax(x w) by rows, its plan, and its values.
 *
 * Nothing is computed while a graph is built, and no call here needs its own check: a NULL passes
 * through, and neap_eval gives the first error. */
#include <neap/ops.h>
#include <neap/plan.h>
#include <stdio.h>

static int report(neap_context *ctx)
{
    fprintf(stderr, "arrays: %s\n", neap_context_error(ctx));
    return 1;
}

static void print_rows(const char *title, const neap_array *array)
{
    float values[16];
    if (neap_array_bytes(array) > sizeof values ||
        neap_array_read(array, values, neap_array_bytes(array)) != NEAP_OK)
        return;
    const int64_t *shape = neap_array_shape(array);
    printf("%s\n", title);
    for (int64_t row = 0; row < shape[0]; row++) {
        for (int64_t column = 0; column < shape[1]; column++)
            printf(" %8.5f", values[row * shape[1] + column]);
        printf("\n");
    }
}

static int run(neap_context *ctx)
{
    const int64_t x_shape[2] = {2, 3}, w_shape[2] = {3, 4};
    const float x_data[6] = {1, 2, 3, 4, 5, 6};
    const float w_data[12] = {0.1f, 0.2f, 0.3f, 0.4f, 0, 0, 0, 0, -0.1f, 0.1f, -0.1f, 0.1f};

    neap_array *x = neap_array_from(NEAP_F32, 2, x_shape, x_data);
    neap_array *w = neap_array_from(NEAP_F32, 2, w_shape, w_data);
    neap_array *scores = neap_matmul(x, w);
    neap_array *y = neap_softmax(scores, -1);
    neap_array *back = neap_transpose(y, NULL); /* a view: no bytes of its own */

    if (neap_eval(y) != NEAP_OK)
        return report(ctx);
    print_rows("softmax(x w):", y);
    print_rows("transposed, read through its strides:", back);

    neap_array *wrong = neap_add(y, neap_transpose(w, NULL)); /* [2, 4] + [4, 3] */
    if (neap_eval(wrong) != NEAP_OK) {
        printf("an error is a value: %s\n", neap_context_error(ctx));
        neap_context_clear_error(ctx);
    }
    return 0;
}

int main(void)
{
    neap_context_options options = NEAP_CONTEXT_OPTIONS_INIT;
    options.memory_limit = 4 << 20; /* a budget of 4 MiB for everything below */
    options.threads = 1;
    neap_context *ctx;
    neap_status status = neap_context_new(&options, &ctx);
    if (status != NEAP_OK) {
        fprintf(stderr, "arrays: %s\n", neap_status_text(status));
        return 1;
    }
    int result = 1;
    if (neap_scope_push(ctx) == NEAP_OK) {
        result = run(ctx);
        neap_scope_pop(ctx); /* every array of the scope goes */
    }
    neap_memory_info memory = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &memory);
    printf("peak %llu of %llu bytes\n", (unsigned long long)memory.peak,
           (unsigned long long)memory.limit);
    neap_context_free(ctx);
    return result;
}
