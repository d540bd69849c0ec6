/* info_program.c - `neap info` of a program: its methods, what they take and give, what is in them,
 * the options that a handle can be given. */
#include <inttypes.h>
#include <string.h>

#include "cli/program_task.h"
#include "cli/task.h"
#include "cli/tensor_file.h"

static const char *const option_keys[] = {"eval_threshold_bytes", "clear_cache_interval",
                                          "skip_mutable_buffer_init", "cache_key"};
enum { OPTIONS = sizeof option_keys / sizeof option_keys[0] };

static const char *kind_text(neap_value_kind kind)
{
    static const char *const names[] = {"none", "tensor", "int", "bool", "double", "string"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "none";
}

static const char *option_text(const char *key)
{
    static const char *const names[] = {"int", "bool", "string"};
    neap_option_kind kind = NEAP_OPTION_STRING;
    neap_option_kind_of(key, &kind);
    return names[kind];
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *value_json(const neap_value *v, bool constant)
{
    json_t *object = json_object();
    json_object_set_new(object, "kind", json_string(kind_text(v->kind)));
    if (v->kind == NEAP_VALUE_TENSOR) {
        const char *dtype = neap_dtype_describe(v->dtype)->name;
        json_t *shape = json_array();
        for (int d = 0; d < v->rank; d++)
            json_array_append_new(shape, json_integer(v->shape[d]));
        json_object_set_new(object, "dtype", json_string(dtype ? dtype : ""));
        json_object_set_new(object, "shape", shape);
        json_object_set_new(object, "bounded", json_boolean(v->bounded));
    }
    if (!constant)
        return object;
    if (v->kind == NEAP_VALUE_INT)
        json_object_set_new(object, "value", json_integer(v->integer));
    else if (v->kind == NEAP_VALUE_BOOL)
        json_object_set_new(object, "value", json_boolean(v->integer));
    else if (v->kind == NEAP_VALUE_DOUBLE)
        json_object_set_new(object, "value", json_real(v->real));
    else if (v->kind == NEAP_VALUE_STRING)
        json_object_set_new(object, "value", cli_json_text(v->text, (size_t)v->bytes));
    return object;
}

typedef neap_status (*describe)(const neap_program *, int method, int i, neap_value *out);

static json_t *values_json(const cli_program *p, int method, int count, describe value,
                           bool constant)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        neap_value v;
        if (value(p->program, method, i, &v) == NEAP_OK)
            json_array_append_new(list, value_json(&v, constant));
    }
    return list;
}

typedef struct counts {
    json_t *types, *refused;
} counts;

static bool add_count(void *user, const neap_program_count *c)
{
    const counts *to = user;
    if (c->refusal)
        json_object_set_new(to->refused, c->name, json_string(c->refusal));
    return json_object_set_new(to->types, c->name, json_integer(c->count)) == 0;
}

static void add_numbers(json_t *object, const neap_method_info *i)
{
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"delegates",      i->delegates              },
        {"chains",         i->chains                 },
        {"nodes",          i->nodes                  },
        {"constants",      i->constants              },
        {"constant_bytes", (int64_t)i->constant_bytes},
        {"buffers",        i->buffers                },
        {"buffer_bytes",   (int64_t)i->buffer_bytes  },
    };
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
        json_object_set_new(object, numbers[n].key, json_integer(numbers[n].value));
}

/* NULL: the method cannot be read; the context has the error. */
static json_t *method_json(const cli_program *p, int method)
{
    const char *name = neap_program_method_name(p->program, method);
    const int inputs = neap_program_inputs(p->program, method);
    const int outputs = neap_program_outputs(p->program, method);
    neap_method_info info = NEAP_METHOD_INFO_INIT;
    if (neap_program_method_info(p->program, method, &info) != NEAP_OK)
        return NULL;
    json_t *object = json_object();
    counts c = {json_object(), json_object()};
    json_object_set_new(object, "name", cli_json_text(name, strlen(name)));
    json_object_set_new(object, "inputs",
                        values_json(p, method, inputs, neap_program_input, false));
    json_object_set_new(
        object, "outputs",
        values_json(p, method, outputs, neap_program_output, info.delegates == 0 && inputs == 0));
    add_numbers(object, &info);
    json_object_set_new(object, "node_types", c.types);
    json_object_set_new(object, "refused", c.refused);
    if (neap_program_node_types(p->program, method, add_count, &c) == NEAP_OK)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *program_json(const cli_program *p)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    json_t *object = json_object(), *methods = json_array(), *options = json_object();
    neap_context_memory(p->ctx, &m);
    json_object_set_new(object, "format", json_string("pte"));
    json_object_set_new(object, "mapped_bytes", json_integer((json_int_t)m.mapped));
    json_object_set_new(object, "methods", methods);
    json_object_set_new(object, "options", options);
    for (int i = 0; i < OPTIONS; i++)
        json_object_set_new(options, option_keys[i], json_string(option_text(option_keys[i])));
    for (int i = 0; i < neap_program_methods(p->program); i++) {
        json_t *method = method_json(p, i);
        if (!method) {
            json_decref(object);
            return NULL;
        }
        json_array_append_new(methods, method);
    }
    return object;
}

/* ---- text, from the same object ------------------------------------------------------------- */

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void print_text(const json_t *text)
{
    cli_print_clean(stdout, json_string_value(text), json_string_length(text));
}

static void print_value(const char *what, size_t i, const json_t *v)
{
    const json_t *shape = json_object_get(v, "shape"), *value = json_object_get(v, "value");
    printf("  %s %zu  ", what, i);
    print_text(json_object_get(v, shape ? "dtype" : "kind"));
    if (shape) {
        putchar('[');
        for (size_t d = 0; d < json_array_size(shape); d++)
            printf("%s%" JSON_INTEGER_FORMAT, d ? ", " : "",
                   json_integer_value(json_array_get(shape, d)));
        fputs(json_is_true(json_object_get(v, "bounded")) ? "] at most" : "]", stdout);
    }
    if (json_is_string(value)) {
        putchar(' ');
        print_text(value);
    } else if (value) {
        putchar(' ');
        json_dumpf(value, stdout, JSON_ENCODE_ANY);
    }
    putchar('\n');
}

static void print_types(json_t *types)
{
    const char *key;
    json_t *count;
    int printed = 0;
    json_object_foreach(types, key, count) {
        fputs(printed++ % 5 ? ", " : printed > 1 ? ",\n    " : "    ", stdout);
        cli_print_clean(stdout, key, strlen(key));
        printf(" %" JSON_INTEGER_FORMAT, json_integer_value(count));
    }
    if (printed)
        putchar('\n');
}

static void print_refused(json_t *refused)
{
    const char *key;
    json_t *why;
    json_object_foreach(refused, key, why) {
        fputs("  does not run: ", stdout);
        cli_print_clean(stdout, key, strlen(key));
        printf(" (%s)\n", json_string_value(why));
    }
}

static void print_method(const json_t *m)
{
    size_t i;
    const json_t *v;
    fputs("method ", stdout);
    print_text(json_object_get(m, "name"));
    putchar('\n');
    json_array_foreach(json_object_get(m, "inputs"), i, v)
        print_value("input ", i, v);
    json_array_foreach(json_object_get(m, "outputs"), i, v)
        print_value("output", i, v);
    if (number(m, "delegates") == 0 && json_object_size(json_object_get(m, "node_types")) == 0)
        return;
    printf("  %" JSON_INTEGER_FORMAT " delegates, %" JSON_INTEGER_FORMAT
           " chains, %" JSON_INTEGER_FORMAT " nodes\n",
           number(m, "delegates"), number(m, "chains"), number(m, "nodes"));
    printf("  %" JSON_INTEGER_FORMAT " constants, %s; %" JSON_INTEGER_FORMAT " buffers, %s\n",
           number(m, "constants"), cli_mib((uint64_t)number(m, "constant_bytes")).text,
           number(m, "buffers"), cli_mib((uint64_t)number(m, "buffer_bytes")).text);
    print_types(json_object_get(m, "node_types"));
    print_refused(json_object_get(m, "refused"));
}

static int print_program(json_t *object)
{
    size_t i;
    const json_t *method;
    json_array_foreach(json_object_get(object, "methods"), i, method)
        print_method(method);
    fputs("options ", stdout);
    for (i = 0; i < OPTIONS; i++)
        printf("%s%s (%s)", i ? ", " : "", option_keys[i], option_text(option_keys[i]));
    putchar('\n');
    json_decref(object);
    return cli_flush_output();
}

int cli_info_program(const cli_settings *settings)
{
    cli_program p;
    const cli_file files[] = {{"FILE", settings->file, false}, {"--stats", settings->stats, true}};
    int status = cli_check_files(files, 2);
    if (status != CLI_DONE)
        return status;
    status = cli_program_open(&p, settings, settings->file, NULL);
    json_t *object = status == CLI_DONE ? program_json(&p) : NULL;
    if (status == CLI_DONE && !object)
        status = cli_context_failed(p.ctx);
    if (status == CLI_DONE)
        status = cli_within_budget(p.ctx, settings->memory, "what tells of the program");
    if (status == CLI_DONE)
        status = settings->json ? cli_json_print(stdout, "standard output", object)
                                : print_program(object);
    else
        json_decref(object);
    return cli_program_finish(&p, status);
}
