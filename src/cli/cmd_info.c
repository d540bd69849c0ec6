/* cmd_info.c - `neap info`: what a model file holds. Programs are told in info_program.c. */
#include <inttypes.h>
#include <string.h>

#include "cli/program_task.h"
#include "cli/task.h"

static int parse(cli_settings *s, int argc, char **argv)
{
    const cli_option table[] = {
        {"tensors", 0, CLI_FLAG, &s->tensors, 0, 0, NULL, "list every tensor"},
        {"json", 0, CLI_FLAG, &s->json, 0, 0, NULL, "one JSON object, with every tensor"},
#include "cli/common_options.def"
        {.name = NULL},
    };
    const int status = cli_parse(table, s, argc, argv, "FILE [OPTION...]", &s->file);
    if (status != CLI_PARSED)
        return status;
    return s->file ? CLI_PARSED : cli_usage("FILE is missing: a model or a program");
}

/* ---- tensors ------------------------------------------------------------------------------ */

/* Of each type: how many tensors, how many bytes. A file may name more types than there are; the last
 * place takes all that are left. */
typedef struct type_sums {
    struct {
        char name[16];
        int64_t tensors;
        uint64_t bytes;
    } of[48];
    int n;
} type_sums;

static void add_to_sums(type_sums *sums, const neap_tensor_info *t)
{
    enum { PLACES = sizeof sums->of / sizeof sums->of[0] };
    int i = 0;
    while (i < sums->n && i < PLACES - 1 && strcmp(sums->of[i].name, t->type) != 0)
        i++;
    if (i == sums->n) {
        snprintf(sums->of[i].name, sizeof sums->of[i].name, "%s", i < PLACES - 1 ? t->type : "other");
        sums->n++;
    }
    sums->of[i].tensors++;
    sums->of[i].bytes += t->bytes;
}

static type_sums sum_types(const cli_task *t)
{
    type_sums sums = {.n = 0};
    for (int64_t i = 0; i < t->info.tensors; i++) {
        neap_tensor_info tensor = NEAP_TENSOR_INFO_INIT;
        if (neap_model_tensor(t->model, i, &tensor) == NEAP_OK)
            add_to_sums(&sums, &tensor);
    }
    return sums;
}

static json_t *tensors_json(const cli_task *t)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < t->info.tensors; i++) {
        neap_tensor_info tensor = NEAP_TENSOR_INFO_INIT;
        if (neap_model_tensor(t->model, i, &tensor) != NEAP_OK)
            continue;
        json_t *object = json_object(), *shape = json_array();
        for (int d = 0; d < tensor.rank; d++)
            json_array_append_new(shape, json_integer(tensor.shape[d]));
        json_object_set_new(object, "name", cli_json_text(tensor.name, tensor.name_length));
        json_object_set_new(object, "dtype", json_string(tensor.type));
        json_object_set_new(object, "shape", shape);
        json_object_set_new(object, "bytes", json_integer((json_int_t)tensor.bytes));
        json_array_append_new(list, object);
    }
    return list;
}

static void print_tensors(const cli_task *t)
{
    for (int64_t i = 0; i < t->info.tensors; i++) {
        neap_tensor_info tensor = NEAP_TENSOR_INFO_INIT;
        if (neap_model_tensor(t->model, i, &tensor) != NEAP_OK)
            continue;
        printf("  %-6s %12" PRIu64 " bytes  ", tensor.type, tensor.bytes);
        cli_print_clean(stdout, tensor.name, tensor.name_length);
        printf(" [");
        for (int d = 0; d < tensor.rank; d++)
            printf("%s%" PRId64, d ? ", " : "", tensor.shape[d]);
        puts("]");
    }
}

/* ---- the whole ---------------------------------------------------------------------------- */

static json_t *types_json(const cli_task *t)
{
    const type_sums sums = sum_types(t);
    json_t *types = json_object();
    for (int i = 0; i < sums.n; i++) {
        json_t *object = json_object();
        json_object_set_new(object, "tensors", json_integer(sums.of[i].tensors));
        json_object_set_new(object, "bytes", json_integer((json_int_t)sums.of[i].bytes));
        json_object_set_new(types, sums.of[i].name, object);
    }
    return types;
}

static json_t *info_json(const cli_task *t)
{
    const neap_model_info *i = &t->info;
    size_t template_length;
    neap_model_chat_template(t->model, &template_length);
    json_t *object = json_object();
    json_object_set_new(object, "format", json_string("gguf"));
    json_object_set_new(object, "architecture",
                        cli_json_text(i->architecture, strlen(i->architecture)));
    json_object_set_new(object, "name", cli_json_text(i->name, strlen(i->name)));
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"context_length", i->context_length},
        {"layers", i->layers},
        {"hidden", i->hidden},
        {"ffn", i->ffn},
        {"heads", i->heads},
        {"kv_heads", i->kv_heads},
        {"head_dim", i->head_dim},
        {"vocabulary", i->vocabulary},
        {"parameters", (int64_t)i->parameters},
        {"tensor_bytes",   (int64_t)i->tensor_bytes},
        {"file_bytes", (int64_t)i->file_bytes},
    };
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
        json_object_set_new(object, numbers[n].key, json_integer(numbers[n].value));
    json_object_set_new(object, "rope_base", json_real((double)i->rope_base));
    json_object_set_new(object, "norm_eps", json_real((double)i->norm_eps));
    json_object_set_new(object, "tied_output", json_boolean(i->tied_output));
    json_object_set_new(object, "chat_template", json_boolean(template_length > 0));
    if (i->refusal[0])
        json_object_set_new(object, "refusal", cli_json_text(i->refusal, strlen(i->refusal)));
    json_object_set_new(object, "types", types_json(t));
    json_object_set_new(object, "tensors", tensors_json(t));
    return object;
}

static void print_info(const cli_task *t)
{
    const neap_model_info *i = &t->info;
    const type_sums sums = sum_types(t);
    size_t template_length;
    neap_model_chat_template(t->model, &template_length);
    printf("name          ");
    cli_print_clean(stdout, i->name, strlen(i->name));
    printf("\narchitecture  ");
    cli_print_clean(stdout, i->architecture, strlen(i->architecture));
    if (i->layers)
        printf(", %" PRId64 " layers, hidden %" PRId64 ", ffn %" PRId64, i->layers, i->hidden, i->ffn);
    putchar('\n');
    if (i->heads)
        printf("attention     %" PRId64 " heads over %" PRId64 " of dimension %" PRId64, i->heads,
               i->kv_heads, i->head_dim);
    if (i->heads && i->rope_base > 0)
        printf(", rope base %g", (double)i->rope_base);
    if (i->heads)
        putchar('\n');
    if (i->context_length)
        printf("context       %" PRId64 " positions\n", i->context_length);
    if (i->vocabulary)
        printf("vocabulary    %" PRId64 " tokens%s\n", i->vocabulary,
               template_length ? ", with a chat template" : "");
    printf("parameters    %" PRIu64 " in %" PRId64 " tensors, %s%s\n", i->parameters, i->tensors,
           cli_mib(i->tensor_bytes).text, i->tied_output ? ", output tied to the embedding" : "");
    for (int type = 0; type < sums.n; type++)
        printf("  %-6s %12" PRIu64 " bytes in %" PRId64 " tensors\n", sums.of[type].name,
               sums.of[type].bytes, sums.of[type].tensors);
    if (i->refusal[0]) {
        printf("does not run  ");
        cli_print_clean(stdout, i->refusal, strlen(i->refusal));
        putchar('\n');
    }
    if (t->settings->tensors) {
        puts("tensors");
        print_tensors(t);
    }
}

int cmd_info(int argc, char **argv)
{
    cli_settings settings = CLI_SETTINGS_INIT;
    int status = parse(&settings, argc, argv);
    if (status == CLI_PARSED && cli_is_program(settings.file)) {
        status = cli_info_program(&settings);
    } else if (status == CLI_PARSED) {
        cli_task task;
        status = cli_task_inspect(&task, &settings, settings.file);
        if (status == CLI_DONE)
            status = cli_task_within_budget(&task);
        if (status == CLI_DONE && settings.json)
            status = cli_json_print(stdout, "standard output", info_json(&task));
        else if (status == CLI_DONE) {
            print_info(&task);
            status = cli_flush_output();
        }
        status = cli_task_finish(&task, status);
    }
    cli_settings_free(&settings);
    return status;
}
