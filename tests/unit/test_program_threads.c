/* test_program_threads.c - four handles of one program on four threads, and programs that each
 * thread opens itself: exact results in every run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>

#include "interrupt_moments.h"
#include "unit/program_cases.h"

enum { THREADS = 4, RUNS = 10 };

/* What a thread finds out; cmocka's checks are for the main thread. */
typedef struct worker {
    pthread_t thread;
    const program_case *c;
    neap_handle *handle;
    neap_context *ctx; /* the program is to be opened in it; or NULL */
    char wrong[200];
} worker;

static bool run_once(worker *w, neap_handle *h)
{
    for (int k = 0; k < w->c->n_calls; k++) {
        const case_call *call = &w->c->calls[k];
        neap_value out[MOST_VALUES] = {{0}};
        if (*call->status)
            continue;
        if (neap_handle_execute(h, call->n_in, call->in, call->n_out, out) != NEAP_OK) {
            snprintf(w->wrong, sizeof w->wrong, "call %d: %.150s", k + 1,
                     neap_context_error(neap_handle_context(h)));
            return false;
        }
        for (int i = 0; i < call->n_out; i++) {
            const neap_value *a = &out[i], *b = &call->out[i];
            bool same = a->kind == b->kind && a->bytes == b->bytes;
            for (int64_t e = 0; same && b->kind == NEAP_VALUE_TENSOR && e < value_size(b); e++)
                same = value_element(a, e) == value_element(b, e);
            if (!same) {
                snprintf(w->wrong, sizeof w->wrong, "call %d: output %d differs", k + 1, i);
                return false;
            }
        }
    }
    return neap_handle_reset(h) == NEAP_OK;
}

static void *work(void *user)
{
    worker *w = user;
    neap_program *p = NULL;
    neap_handle *h = w->handle;
    bool ok = true;
    if (!h)
        ok = open_program(w->ctx, w->c->name, &p) == NEAP_OK &&
             neap_handle_open(p, neap_program_find_method(p, w->c->method), NULL, &h) == NEAP_OK;
    if (!ok)
        snprintf(w->wrong, sizeof w->wrong, "%.180s", neap_context_error(w->ctx));
    for (int i = 0; ok && i < RUNS; i++)
        ok = run_once(w, h);
    if (!w->handle) {
        neap_handle_close(h);
        neap_program_close(p);
    }
    return NULL;
}

static void run_workers(worker *w)
{
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        if (*w[i].wrong)
            fail_msg("%s, thread %d: %s", w[i].c->name, i, w[i].wrong);
}

static neap_context *new_context(neap_context *parent, int threads)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = threads;
    neap_status status =
        parent ? neap_context_new_child(parent, &o, &ctx) : neap_context_new(&o, &ctx);
    assert_int_equal(status, NEAP_OK);
    return ctx;
}

/* Each handle with a pool of its own, each with another threshold. */
static void shared_program(const char *name, int threads)
{
    neap_context *ctx = new_context(NULL, threads);
    neap_program *p;
    worker w[THREADS] = {0};
    assert_int_equal(open_program(ctx, name, &p), NEAP_OK);
    for (int i = 0; i < THREADS; i++) {
        neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
        neap_option option = {"eval_threshold_bytes", NEAP_OPTION_INT, 1000LL * i, NULL};
        o.n_options = 1;
        o.options = &option;
        w[i].c = find_case(name);
        int method = neap_program_find_method(p, w[i].c->method);
        assert_int_equal(neap_handle_open(p, method, &o, &w[i].handle), NEAP_OK);
    }
    run_workers(w);
    for (int i = 0; i < THREADS; i++)
        neap_handle_close(w[i].handle);
    neap_program_close(p);
    neap_context_free(ctx);
}

static const char *const names[] = {"th01_flat8",  "decode", "th11_scan_t0", "nested_scan_if_scan",
                                    "two_methods", "copy_",  "th15_init9"};
enum { NAMES = sizeof names / sizeof *names };

static void test_handles_of_one_program(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++)
        shared_program(names[i], 1);
    shared_program("th08_scan", 2);
}

/* An execution that is interrupted, before its first step or somewhere within it: after a reset the
 * handle gives what it gives when it is never interrupted. */
static void test_interrupted(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int n = 0; n < NAMES; n++) {
        neap_context *ctx = new_context(NULL, 2);
        neap_program *p;
        worker w = {.c = find_case(names[n])};
        assert_int_equal(open_program(ctx, names[n], &p), NEAP_OK);
        assert_int_equal(
            neap_handle_open(p, neap_program_find_method(p, w.c->method), NULL, &w.handle),
            NEAP_OK);
        neap_context *own = neap_handle_context(w.handle);
        for (int k = 0; k < w.c->n_calls; k++) {
            const case_call *call = &w.c->calls[k];
            neap_value out[MOST_VALUES] = {{0}};
            if (*call->status)
                continue;
            neap_context_interrupt(k % 2 ? ctx : own);
            assert_int_equal(neap_handle_execute(w.handle, call->n_in, call->in, call->n_out, out),
                             NEAP_ECANCELLED);
            assert_non_null(strstr(neap_context_error(own), "interrupted"));
            neap_context_withdraw_interrupt(ctx); /* its parent's, who runs nothing */
            interrupter in;
            interrupter_start(&in, own, draw(&seed) * 1e-3);
            const neap_status status =
                neap_handle_execute(w.handle, call->n_in, call->in, call->n_out, out);
            interrupter_stop(&in);
            neap_context_withdraw_interrupt(own);
            assert_true(status == NEAP_OK || status == NEAP_ECANCELLED);
            assert_int_equal(neap_handle_reset(w.handle), NEAP_OK);
            if (!run_once(&w, w.handle))
                fail_msg("%s, interrupted in call %d: %s", names[n], k + 1, w.wrong);
        }
        neap_handle_close(w.handle);
        neap_program_close(p);
        neap_context_free(ctx);
    }
}

static void test_programs_of_each_thread(void **state)
{
    (void)state;
    neap_context *root = new_context(NULL, 1);
    for (int i = 0; i < NAMES; i++) {
        worker w[THREADS] = {0};
        for (int k = 0; k < THREADS; k++) {
            w[k].c = find_case(names[(i + k) % NAMES]);
            w[k].ctx = new_context(k % 2 ? root : NULL, 1);
        }
        run_workers(w);
        for (int k = 0; k < THREADS; k++)
            neap_context_free(w[k].ctx);
    }
    neap_context_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handles_of_one_program),
        cmocka_unit_test(test_programs_of_each_thread),
        cmocka_unit_test(test_interrupted),
    };
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
