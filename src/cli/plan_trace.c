/* plan_trace.c - see plan_trace.h. */
#include "cli/plan_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct trace {
    FILE *file;
    bool first, ok;
    double now;  /* microseconds: plans follow each other */
    int process; /* from 1 */
} trace;

/* Takes the event over. */
static void put(trace *t, json_t *event)
{
    json_object_set_new(event, "pid", json_integer(t->process));
    t->ok = t->ok && fputs(t->first ? "\n" : ",\n", t->file) >= 0 &&
            json_dumpf(event, t->file, JSON_COMPACT | JSON_REAL_PRECISION(15)) == 0;
    t->first = false;
    json_decref(event);
}

static json_t *event(const char *phase, const char *name, double at)
{
    json_t *object = json_object();
    json_object_set_new(object, "ph", json_string(phase));
    json_object_set_new(object, "name", json_string(name));
    json_object_set_new(object, "ts", json_real(at));
    return object;
}

static void put_name(trace *t, const char *name)
{
    json_t *e = event("M", "process_name", t->now), *args = json_object();
    json_object_set_new(args, "name", cli_json_text(name, strlen(name)));
    json_object_set_new(e, "args", args);
    put(t, e);
}

static void put_counter(trace *t, json_int_t bytes)
{
    json_t *e = event("C", "live bytes", t->now), *args = json_object();
    json_object_set_new(args, "bytes", json_integer(bytes));
    json_object_set_new(e, "args", args);
    put(t, e);
}

static void put_step(trace *t, const json_t *step, double length)
{
    json_t *e = event("X", json_string_value(json_object_get(step, "name")), t->now);
    json_object_set_new(e, "dur", json_real(length));
    json_object_set_new(e, "tid", json_integer(1));
    json_object_set_new(e, "cat", json_string("step"));
    json_t *args = json_object();
    json_object_set(args, "op", json_object_get(step, "op"));
    json_object_set(args, "ops", json_object_get(step, "ops"));
    json_object_set_new(e, "args", args);
    put(t, e);
}

/* The beginning ("b") or end ("e") of a value. */
static void put_value(trace *t, const json_t *value, size_t i, const char *phase)
{
    char id[48];
    json_t *e = event(phase, json_string_value(json_object_get(value, "name")), t->now);
    snprintf(id, sizeof id, "%d.%zu", t->process, i);
    json_object_set_new(e, "id", json_string(id));
    json_object_set_new(e, "cat", json_string("value"));
    json_object_set_new(e, "tid", json_integer(1));
    if (*phase == 'b') {
        json_t *args = json_object();
        static const char *const keys[] = {"op", "kind", "bytes", "offset", "shape", "dtype"};
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            json_object_set(args, keys[k], json_object_get(value, keys[k]));
        json_object_set_new(e, "args", args);
    }
    put(t, e);
}

typedef struct ending {
    json_int_t last;
    size_t value;
} ending;

static int by_last(const void *a, const void *b)
{
    const ending *x = a, *y = b;
    if (x->last != y->last)
        return x->last < y->last ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static double length_of(const json_t *step, bool predicted)
{
    const double us = 1e6 * json_number_value(json_object_get(step, "seconds"));
    return predicted ? us > 0.001 ? us : 0.001 : 1;
}

/* Values come in order of their first steps, `ends` in that of their last. */
static void put_steps(trace *t, const cli_plan_part *part, const ending *ends)
{
    const size_t n = json_array_size(part->values), steps = json_array_size(part->steps);
    size_t begun = 0, ended = 0;
    bool predicted = false;
    for (size_t i = 0; i < steps; i++)
        predicted |= length_of(json_array_get(part->steps, i), true) > 0.001;
    for (size_t i = 0; i < steps; i++) {
        const json_t *step = json_array_get(part->steps, i), *value;
        const double length = length_of(step, predicted);
        for (; ended < n && ends[ended].last < (json_int_t)i; ended++)
            put_value(t, json_array_get(part->values, ends[ended].value), ends[ended].value, "e");
        put_counter(t, json_integer_value(json_array_get(part->curve, i)));
        for (; (value = json_array_get(part->values, begun)) &&
               json_integer_value(json_object_get(value, "first")) <= (json_int_t)i;
             begun++)
            put_value(t, value, begun, "b");
        put_step(t, step, length);
        t->now += length;
    }
    for (; ended < n; ended++)
        put_value(t, json_array_get(part->values, ends[ended].value), ends[ended].value, "e");
    put_counter(t, 0);
}

static void put_part(trace *t, const cli_plan_part *part)
{
    const size_t n = json_array_size(part->values);
    ending *ends = malloc((n + 1) * sizeof *ends);
    if (!ends) {
        t->ok = false;
        return;
    }
    for (size_t i = 0; i < n; i++)
        ends[i] = (ending){
            json_integer_value(json_object_get(json_array_get(part->values, i), "last")), i};
    qsort(ends, n, sizeof *ends, by_last);
    t->process++;
    put_name(t, part->name);
    put_steps(t, part, ends);
    free(ends);
}

int cli_plan_trace_write(const char *path, const cli_plan_data *d)
{
    trace t = {.file = fopen(path, "w"), .first = true};
    if (!t.file)
        return cli_failed("--trace %s: %s", path, strerror(errno));
    errno = 0;
    t.ok = fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", t.file) >= 0;
    for (int i = 0; i < d->n_parts; i++)
        put_part(&t, &d->part[i]);
    t.ok = t.ok && fputs("\n]}\n", t.file) >= 0 && fflush(t.file) == 0;
    const int error = errno;
    const bool closed = fclose(t.file) == 0;
    if (t.ok && closed)
        return CLI_DONE;
    return cli_failed("--trace %s: %s", path, error ? strerror(error) : "not everything was written");
}
