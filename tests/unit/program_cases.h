/* program_cases.h - tests/golden/pte/cases.txt (tools/make_pte_cases.py) in memory: per case a
 * program, a method and calls with what must come out of them. Include after cmocka.h. */
#ifndef TEST_PROGRAM_CASES_H
#define TEST_PROGRAM_CASES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <neap/neap.h>

#define PROGRAMS NEAP_TEST_DIR "/golden/pte/"
enum { MOST_CASES = 64, MOST_CALLS = 16, MOST_VALUES = 8 };

typedef struct case_call {
    int n_in, n_out;
    neap_value in[MOST_VALUES], out[MOST_VALUES]; /* data owned */
    bool reset;       /* before it */
    char status[16];  /* of a call that must be refused; else empty */
    char words[100];
} case_call;

typedef struct program_case {
    char name[64], method[32];
    int n_calls;
    case_call calls[MOST_CALLS];
} program_case;

static program_case cases[MOST_CASES];
static int n_cases;

static inline neap_dtype dtype_named(const char *name)
{
    for (int d = 0; d < 64; d++) {
        const char *other = neap_dtype_describe((neap_dtype)d)->name;
        if (other && !strcmp(other, name))
            return (neap_dtype)d;
    }
    fail_msg("no dtype %s", name);
    return NEAP_F32;
}

static inline void set_element(const neap_value *v, int64_t i, double x)
{
    void *data = (void *)(uintptr_t)v->data;
    switch (v->dtype) {
    case NEAP_F32: ((float *)data)[i] = (float)x; break;
    case NEAP_I32: ((int32_t *)data)[i] = (int32_t)x; break;
    case NEAP_I64: ((int64_t *)data)[i] = (int64_t)x; break;
    case NEAP_U8: ((uint8_t *)data)[i] = (uint8_t)x; break;
    default: fail_msg("no elements of dtype %s here", neap_dtype_describe(v->dtype)->name);
    }
}

static inline double value_element(const neap_value *v, int64_t i)
{
    switch (v->dtype) {
    case NEAP_F32: return (double)((const float *)v->data)[i];
    case NEAP_I32: return (double)((const int32_t *)v->data)[i];
    case NEAP_I64: return (double)((const int64_t *)v->data)[i];
    default: fail_msg("no elements of dtype %s here", neap_dtype_describe(v->dtype)->name);
    }
    return 0;
}

static inline int64_t value_size(const neap_value *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++)
        n *= v->shape[d];
    return n;
}

/* Memory of exactly the value's bytes, so that a sanitizer sees what runs over it. */
static inline void make_room(neap_value *v)
{
    v->bytes = (uint64_t)value_size(v) * (uint64_t)neap_dtype_describe(v->dtype)->block_bytes;
    v->data = calloc(1, v->bytes ? v->bytes : 1);
    assert_non_null(v->data);
}

/* "f32 [2 3] 1 2 3 4 5 6", "int [] 5" */
static inline neap_value read_value(char *text)
{
    neap_value v = {.kind = NEAP_VALUE_TENSOR};
    char dtype[8];
    assert_int_equal(sscanf(text, "%7s", dtype), 1);
    char *p = strchr(text, '[');
    assert_non_null(p);
    for (p++; *p != ']'; p += strspn(p, " "))
        v.shape[v.rank++] = strtoll(p, &p, 10);
    p++;
    if (!strcmp(dtype, "int")) {
        v.kind = NEAP_VALUE_INT;
        v.integer = strtoll(p, &p, 10);
        return v;
    }
    v.dtype = dtype_named(dtype);
    make_room(&v);
    for (int64_t i = 0; i < value_size(&v); i++)
        set_element(&v, i, strtod(p, &p));
    return v;
}

static inline void read_line(char *line, program_case *c)
{
    case_call *call = &c->calls[c->n_calls];
    assert_true(c->n_calls < MOST_CALLS);
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "in ", 3) && call->n_in < MOST_VALUES)
        call->in[call->n_in++] = read_value(line + 3);
    else if (!strncmp(line, "out ", 4) && call->n_out < MOST_VALUES)
        call->out[call->n_out++] = read_value(line + 4);
    else if (!strncmp(line, "fails ", 6))
        assert_int_equal(sscanf(line, "fails %15s %99[^\n]", call->status, call->words), 2);
    else if (!strcmp(line, "reset"))
        call->reset = true;
    else if (!strcmp(line, "call"))
        c->n_calls++;
    else
        fail_msg("cases.txt: %.60s", line);
}

static inline int read_cases(void **state)
{
    (void)state;
    FILE *f = fopen(PROGRAMS "cases.txt", "r");
    assert_non_null(f);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, f) > 0) {
        if (strncmp(line, "case ", 5)) {
            read_line(line, &cases[n_cases - 1]);
            continue;
        }
        assert_true(n_cases < MOST_CASES);
        program_case *c = &cases[n_cases++];
        assert_int_equal(sscanf(line, "case %63s %31s", c->name, c->method), 2);
    }
    free(line);
    fclose(f);
    return n_cases ? 0 : -1;
}

static inline int free_cases(void **state)
{
    (void)state;
    for (int c = 0; c < n_cases; c++)
        for (int k = 0; k < cases[c].n_calls; k++) {
            for (int i = 0; i < cases[c].calls[k].n_in; i++)
                free((void *)(uintptr_t)cases[c].calls[k].in[i].data);
            for (int i = 0; i < cases[c].calls[k].n_out; i++)
                free((void *)(uintptr_t)cases[c].calls[k].out[i].data);
        }
    n_cases = 0;
    return 0;
}

static inline const program_case *find_case(const char *name)
{
    for (int c = 0; c < n_cases; c++)
        if (!strcmp(cases[c].name, name))
            return &cases[c];
    fail_msg("no case %s", name);
    return NULL;
}

/* A program of the folder; with its .ptd, where it has one */
static inline neap_status open_program(neap_context *ctx, const char *name, neap_program **out)
{
    char path[400];
    snprintf(path, sizeof path, PROGRAMS "%s.pte", name);
    neap_status status = neap_program_open(ctx, path, out);
    if (status == NEAP_OK && !strcmp(name, "external")) {
        status = neap_program_attach(*out, PROGRAMS "external.ptd");
        if (status != NEAP_OK) {
            neap_program_close(*out);
            *out = NULL;
        }
    }
    return status;
}

/* NULL, or what is wrong with a result. */
static inline const char *difference(const neap_value *got, const neap_value *want)
{
    static char text[200];
    if (got->kind != want->kind)
        return "another kind";
    if (want->kind != NEAP_VALUE_TENSOR)
        return got->integer == want->integer ? NULL : "another integer";
    if (got->dtype != want->dtype || got->rank != want->rank ||
        memcmp(got->shape, want->shape, (size_t)want->rank * sizeof *want->shape))
        return "another dtype or shape";
    if (got->bytes != want->bytes)
        return "another number of bytes";
    for (int64_t i = 0; i < value_size(want); i++)
        if (value_element(got, i) != value_element(want, i)) {
            snprintf(text, sizeof text, "[%lld] is %g, expected %g", (long long)i,
                     value_element(got, i), value_element(want, i));
            return text;
        }
    return NULL;
}

/* Of any of its calls that is not refused: they agree. */
static inline int case_outputs(const program_case *c)
{
    for (int k = 0; k < c->n_calls; k++)
        if (!*c->calls[k].status)
            return c->calls[k].n_out;
    return 0;
}

static inline void run_call(neap_handle *h, const program_case *c, int k)
{
    const case_call *call = &c->calls[k];
    neap_value out[MOST_VALUES] = {{0}};
    neap_context *ctx = neap_handle_context(h);
    if (call->reset)
        assert_int_equal(neap_handle_reset(h), NEAP_OK);
    int n_out = case_outputs(c);
    neap_status status = neap_handle_execute(h, call->n_in, call->in, n_out, out);
    if (*call->status) {
        if (strcmp(neap_status_name(status) + 5, call->status) ||
            !strstr(neap_context_error(ctx), call->words))
            fail_msg("%s, call %d: %s \"%s\", expected %s \"%s\"", c->name, k + 1,
                     neap_status_name(status), neap_context_error(ctx), call->status, call->words);
        return;
    }
    if (status != NEAP_OK)
        fail_msg("%s, call %d: %s", c->name, k + 1, neap_context_error(ctx));
    for (int i = 0; i < call->n_out; i++) {
        const char *wrong = difference(&out[i], &call->out[i]);
        if (wrong)
            fail_msg("%s, call %d, output %d: %s", c->name, k + 1, i, wrong);
    }
}

static inline uint64_t active_bytes(const neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active;
}

#endif
