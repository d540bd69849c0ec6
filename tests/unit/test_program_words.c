/* test_program_words.c - small programs with one 32-bit word changed, each word in turn: an error or
 * some result, within 64 MiB, and nothing is left behind. Runs under the sanitizers as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/program_cases.h"

enum { MOST_BYTES = 1 << 16, LIMIT = 64 << 20 };

static uint64_t read_program(const char *name, uint8_t *out)
{
    char path[400];
    snprintf(path, sizeof path, PROGRAMS "%s.pte", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, MOST_BYTES, f);
    fclose(f);
    assert_in_range(n, 100, MOST_BYTES - 1);
    return n;
}

/* The case's calls, whatever they are to the changed program. */
static void run_calls(neap_handle *h, const program_case *c, int n_out)
{
    neap_value out[MOST_VALUES] = {{0}};
    volatile uint8_t sink = 0;
    for (int k = 0; k < c->n_calls && k < 2; k++) {
        const case_call *call = &c->calls[k];
        neap_status status = neap_handle_execute(h, call->n_in, call->in, n_out, out);
        if (status != NEAP_OK) {
            assert_true(*neap_context_error(neap_handle_context(h)) != 0);
            continue;
        }
        for (int i = 0; i < n_out; i++) /* every byte is there */
            for (uint64_t b = 0; out[i].kind == NEAP_VALUE_TENSOR && b < out[i].bytes; b++)
                sink ^= ((const uint8_t *)out[i].data)[b];
    }
}

static void try_bytes(neap_context *ctx, const uint8_t *bytes, uint64_t n, const program_case *c)
{
    neap_program *p;
    neap_handle *h;
    if (neap_program_open_memory(ctx, bytes, n, &p) != NEAP_OK)
        return;
    int method = neap_program_find_method(p, c->method);
    neap_context_clear_error(ctx);
    if (method >= 0 && neap_handle_open(p, method, NULL, &h) == NEAP_OK) {
        int n_out = neap_program_outputs(p, method);
        if (n_out <= MOST_VALUES)
            run_calls(h, c, n_out);
        neap_handle_close(h);
    }
    neap_program_close(p);
}

static void sweep(const char *name)
{
    static uint8_t bytes[MOST_BYTES];
    static const uint32_t values[] = {0xFFFFFFFF, 0, 1};
    const program_case *c = find_case(name);
    uint64_t n = read_program(name, bytes);
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.memory_limit = LIMIT;
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    uint64_t before = active_bytes(ctx);
    for (uint64_t at = 0; at + 4 <= n; at += 4) {
        uint32_t kept;
        memcpy(&kept, bytes + at, 4);
        for (int v = 0; v < 3; v++) {
            memcpy(bytes + at, &values[v], 4);
            try_bytes(ctx, bytes, n, c);
            neap_context_clear_error(ctx);
            if (active_bytes(ctx) != before)
                fail_msg("%s: word %llu = %u: bytes are left behind", name,
                         (unsigned long long)at / 4, values[v]);
        }
        memcpy(bytes + at, &kept, 4);
    }
    neap_context_free(ctx);
}

static void test_words(void **state)
{
    (void)state;
    static const char *const names[] = {"decode",        "scan_carry_before", "two_delegates",
                                        "state_updates", "values",            "copy_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        sweep(names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
