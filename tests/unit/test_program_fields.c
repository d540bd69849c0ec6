/* test_program_fields.c - a field of a node whose value is unknown is refused by name: programs of
 * tests/golden/programs with one letter of a text changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/tensor_list.h"

typedef struct field_case {
    const char *program, *word, *other, *message;
} field_case;

static const field_case cases[] = {
    {"v_gelu_tanh", "tanh", "tanj", "approximation tanj"},
    {"v_pad_edge", "edge", "edgy", "edgy"},
    {"int4_quantized_linear_g64", "affine", "affinf", "mode affinf"},
    {"dequantize_g32", "affine", "offine", "mode offine"},
};

/* After the names of tensors: the last such word followed by a zero. */
static bool change(unsigned char *bytes, size_t n, const field_case *c)
{
    const size_t length = strlen(c->word) + 1;
    bool found = false;
    for (size_t i = 4; i + length <= n; i++) {
        uint32_t before;
        memcpy(&before, bytes + i - 4, 4);
        if (before == length - 1 && memcmp(bytes + i, c->word, length) == 0) {
            memcpy(bytes + i, c->other, length);
            found = true;
        }
    }
    return found;
}

static void refuse(const field_case *c)
{
    char path[600];
    size_t n = 0;
    tensor_list in;
    neap_value out[LIST_MAX] = {{0}};
    neap_context *ctx;
    neap_program *p;
    neap_handle *h = NULL;
    snprintf(path, sizeof path, "%s/golden/programs/%s/model.pte", NEAP_TEST_DIR, c->program);
    unsigned char *bytes = read_whole(path, &n);
    assert_non_null(bytes);
    assert_true(change(bytes, n, c));
    snprintf(path, sizeof path, "%s/golden/programs/%s/input.bin", NEAP_TEST_DIR, c->program);
    assert_true(list_read(path, &in));
    assert_int_equal(neap_context_new(NULL, &ctx), NEAP_OK);
    assert_int_equal(neap_program_open_memory(ctx, bytes, n, &p), NEAP_OK);
    neap_status status = neap_handle_open(p, 0, NULL, &h);
    const char *error = neap_context_error(ctx);
    if (status == NEAP_OK) {
        status = neap_handle_execute(h, in.count, in.value, neap_program_outputs(p, 0), out);
        error = neap_context_error(neap_handle_context(h));
    }
    assert_int_equal(status, NEAP_EUNSUPPORTED);
    assert_non_null(strstr(error, c->message));
    neap_handle_close(h);
    neap_program_close(p);
    neap_context_free(ctx);
    list_free(&in);
    free(bytes);
}

static void test_unknown_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unknown_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
