/* plan_report.c - see plan_report.h. */
#include "cli/plan_report.h"

#include <inttypes.h>
#include <string.h>

#include "cli/plan_misfit.h"
#include "cli/plan_page.h"
#include "cli/plan_trace.h"
#include "cli/stats.h"

/* ---- what is alive at the peak ------------------------------------------------------------ */

void cli_alive_clear(cli_alive *alive)
{
    json_decref(alive->list);
    alive->list = NULL;
    alive->count = 0;
}

static bool add_to_list(cli_alive *all, const neap_plan_alive *alive)
{
    const char *name = alive->name ? alive->name : "", *op = alive->op ? alive->op : "";
    const char *dtype = neap_dtype_describe(alive->dtype)->name;
    json_t *object = json_object(), *shape = json_array();
    for (int i = 0; i < alive->rank; i++)
        json_array_append_new(shape, json_integer(alive->shape[i]));
    json_object_set_new(object, "name", cli_json_text(name, strlen(name)));
    json_object_set_new(object, "bytes", json_integer((json_int_t)alive->bytes));
    json_object_set_new(object, "op", json_string(op));
    json_object_set_new(object, "shape", shape);
    json_object_set_new(object, "dtype", json_string(dtype ? dtype : ""));
    if (!all->list)
        all->list = json_array();
    return json_array_append_new(all->list, object) == 0;
}

static uint64_t group_bytes(const cli_alive_group *g)
{
    return (uint64_t)g->count * g->first.bytes;
}

static void add_to_group(cli_alive *all, const neap_plan_alive *alive)
{
    const char *op = alive->op ? alive->op : "";
    int i = 0;
    while (i < all->count && (all->group[i].first.bytes != alive->bytes ||
                              strncmp(all->group[i].op, op, sizeof all->group[i].op - 1) != 0))
        i++;
    if (i == CLI_ALIVE_GROUPS)
        return;
    cli_alive_group *g = &all->group[i];
    if (i == all->count) {
        *g = (cli_alive_group){.first = *alive};
        snprintf(g->op, sizeof g->op, "%s", op);
        snprintf(g->name, sizeof g->name, "%s", alive->name ? alive->name : "");
        all->count++;
    }
    g->count++;
}

bool cli_alive_add(void *user, const neap_plan_alive *value)
{
    add_to_group(user, value);
    return add_to_list(user, value);
}

static void print_group(const cli_alive_group *g)
{
    const char *dtype = neap_dtype_describe(g->first.dtype)->name;
    printf("  %10s  ", cli_mib(group_bytes(g)).text);
    if (g->count > 1)
        printf("%" PRId64 " x %s: ", g->count, g->op);
    cli_print_clean(stdout, g->name, strlen(g->name));
    if (g->count == 1 && strcmp(g->name, g->op) != 0)
        printf(" (%s)", g->op);
    if (g->first.rank > 0)
        printf("  %s[", dtype ? dtype : "");
    for (int i = 0; i < g->first.rank; i++)
        printf("%s%" PRId64, i ? ", " : "", g->first.shape[i]);
    puts(g->first.rank > 0 ? "]" : "");
}

/* Largest first. */
static void print_alive(cli_alive *all)
{
    for (int n = 0; n < all->count; n++) {
        int largest = n;
        for (int i = n + 1; i < all->count; i++)
            if (group_bytes(&all->group[i]) > group_bytes(&all->group[largest]))
                largest = i;
        const cli_alive_group g = all->group[largest];
        memmove(&all->group[n + 1], &all->group[n], (size_t)(largest - n) * sizeof g);
        all->group[n] = g;
        print_group(&g);
    }
}

const char *cli_plan_title(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void set_integer(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *array_or_empty(json_t *array)
{
    return array ? json_incref(array) : json_array();
}

/* In full unless it is the one whose arrays stand in the object itself. */
static json_t *part_json(const cli_plan_part *part, bool fullest)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", cli_json_text(part->name, strlen(part->name)));
    json_object_set_new(object, "holds_peak", json_boolean(fullest));
    set_integer(object, "steps", (uint64_t)part->info.steps);
    set_integer(object, "peak_step", (uint64_t)part->info.peak_step);
    set_integer(object, "arena_bytes", part->info.arena_bytes);
    set_integer(object, "largest_live_bytes", part->info.largest_live_bytes);
    if (!fullest) {
        json_object_set(object, "curve", part->curve);
        json_object_set(object, "step_list", part->steps);
        json_object_set(object, "values", part->values);
    }
    return object;
}

/* Plans beside the one that holds the peak are told in full up to a number: a program may have one
 * for every few of its instructions. */
static json_t *parts_json(const cli_plan_data *d)
{
    enum { MOST = 16 };
    json_t *array = json_array();
    for (int i = 0; i < d->n_parts; i++)
        if (i < MOST || i == d->fullest)
            json_array_append_new(array, part_json(&d->part[i], i == d->fullest));
    return array;
}

static const char *step_text(const cli_plan_part *part, const char *key)
{
    const json_t *step = json_array_get(part->steps, (size_t)part->info.peak_step);
    const char *text = json_string_value(json_object_get(step, key));
    return text ? text : "";
}

static void add_part(json_t *object, const cli_plan_part *part)
{
    const neap_plan_info *i = &part->info;
    set_integer(object, "recomputed_steps", (uint64_t)i->recomputed_steps);
    set_integer(object, "row_streamed_steps", (uint64_t)i->row_streamed_steps);
    set_integer(object, "fused_groups", (uint64_t)i->fused_groups);
    set_integer(object, "plan_peak_bytes", i->peak_bytes);
    json_object_set_new(object, "predicted_seconds", json_real(i->predicted_seconds));
    json_object_set_new(object, "peak_plan", cli_json_text(part->name, strlen(part->name)));
    json_object_set_new(object, "peak_step_name", json_string(step_text(part, "name")));
    json_object_set_new(object, "peak_step_op", json_string(step_text(part, "op")));
    json_object_set_new(object, "choices", cli_part_choices(part));
}

static void add_all(json_t *object, const cli_plan_report *r, const cli_plan_part *part)
{
    json_object_set(object, "curve", part->curve);
    json_object_set(object, "step_list", part->steps);
    json_object_set(object, "values", part->values);
    json_object_set_new(object, "candidates", array_or_empty(part->story.candidates));
    json_object_set_new(object, "fused", array_or_empty(part->story.fused));
    json_object_set_new(object, "rejected_fusions", array_or_empty(part->story.rejected));
    json_object_set_new(object, "plans", parts_json(r->data));
    if (r->data->measured)
        json_object_set(object, "measured", r->data->measured);
}

/* Where nothing is planned the keys are there all the same. */
static const cli_plan_part no_part;

json_t *cli_plan_json(const cli_plan_report *r, bool full)
{
    const cli_plan_facts *f = &r->facts;
    const cli_plan_part *part = cli_plan_fullest(r->data);
    json_t *object = json_object();
    json_object_set_new(object, "command", json_string(r->command));
    json_object_set_new(object, "title", cli_json_text(r->title, strlen(r->title)));
    set_integer(object, "planned_peak_bytes", f->planned_peak_bytes);
    set_integer(object, "least_bytes", f->least_bytes);
    set_integer(object, "mapped_bytes", f->mapped_bytes);
    set_integer(object, "memory_limit", f->memory_limit);
    set_integer(object, "peak_step", (uint64_t)f->peak_step);
    set_integer(object, "arena_bytes", f->arena_bytes);
    set_integer(object, "largest_live_bytes", f->largest_live_bytes);
    set_integer(object, "steps", (uint64_t)f->steps);
    set_integer(object, "threads", (uint64_t)f->threads);
    json_object_set_new(object, "peak_by_category", cli_categories_json(f->by_category));
    json_object_set_new(object, "alive_at_peak", array_or_empty(r->alive->list));
    json_object_set_new(object, "plan_seconds", json_real(f->plan_seconds));
    add_part(object, part ? part : &no_part);
    if (full && part)
        add_all(object, r, part);
    return object;
}

/* ---- text --------------------------------------------------------------------------------- */

static void print_bytes(const char *what, uint64_t bytes, const char *note)
{
    printf("%-15s %12s  %12" PRIu64 " bytes%s\n", what, cli_mib(bytes).text, bytes, note);
}

static void print_text(const char *text)
{
    cli_print_clean(stdout, text, strlen(text));
}

static void print_facts(const cli_plan_facts *f)
{
    print_bytes("planned peak", f->planned_peak_bytes, "");
    for (int c = 0; c < NEAP_MEM_CATEGORIES; c++)
        if (f->by_category[c]) {
            char name[32];
            snprintf(name, sizeof name, "  %s", neap_memory_category_name((neap_memory_category)c));
            print_bytes(name, f->by_category[c], "");
        }
    print_bytes("least budget", f->least_bytes, "  the smallest --memory");
    print_bytes("mapped", f->mapped_bytes, "  of the file; not counted, the system can drop it");
    if (f->memory_limit)
        print_bytes("limit", f->memory_limit, "  --memory");
}

/* "Step 41 of 300, blk.3.ffn_up (matmul) of prefill, holds most of the arena; alive there:" */
static void print_peak_step(const cli_plan_facts *f, const cli_plan_part *part)
{
    const int64_t steps = part ? part->info.steps : f->steps;
    printf("\nStep %" PRId64 " of %" PRId64, f->peak_step, steps);
    if (part && *step_text(part, "name")) {
        const char *name = step_text(part, "name"), *op = step_text(part, "op");
        fputs(", ", stdout);
        print_text(name);
        if (strcmp(name, op) != 0)
            printf(" (%s)", op);
        fputs(" of ", stdout);
        print_text(part->name);
        fputs(",", stdout);
    }
    puts(" holds most of the arena; alive there:");
}

static int64_t peak_of(const json_t *choice)
{
    return json_integer_value(json_object_get(choice, "peak_bytes"));
}

static double seconds_of(const json_t *choice)
{
    return json_number_value(json_object_get(choice, "seconds"));
}

static void print_choice(const json_t *choice, const json_t *chosen)
{
    fputs("  ", stdout);
    print_text(json_string_value(json_object_get(choice, "text")));
    printf(": -%s", cli_mib((uint64_t)(peak_of(chosen) - peak_of(choice))).text);
    if (seconds_of(chosen) > 0)
        printf(", %+.1f %% time", 100 * (seconds_of(choice) / seconds_of(chosen) - 1));
    putchar('\n');
}

/* Choices come by rising cost; of many some are left out evenly, never the last, the smallest. */
static void print_lower(const cli_plan_part *part)
{
    enum { LINES = 6 };
    json_t *choices = cli_part_choices(part);
    const size_t n = json_array_size(choices);
    size_t begin = 0;
    while (begin < n && !json_is_true(json_object_get(json_array_get(choices, begin), "chosen")))
        begin++;
    const json_t *chosen = json_array_get(choices, begin);
    const size_t left = begin < n ? n - begin - 1 : 0, lines = left < LINES ? left : LINES;
    if (lines)
        puts("\nWhat would lower it:");
    for (size_t i = 1; i <= lines; i++)
        print_choice(json_array_get(choices, begin + i * left / lines), chosen);
    json_decref(choices);
}

/* "layer_norm + addmm: the peak would rise (+1.5 MiB)" */
static json_t *fusion_line(const json_t *row, const char *key)
{
    const char *a = json_string_value(json_object_get(row, "a"));
    const char *b = json_string_value(json_object_get(row, "b"));
    const uint64_t bytes = (uint64_t)json_integer_value(json_object_get(row, "bytes"));
    return json_sprintf("%s%s%s%s%s%s%s%s", a, *a && *b ? " + " : "", b, *a || *b ? ": " : "",
                        json_string_value(json_object_get(row, key)), bytes ? " (+" : "",
                        bytes ? cli_mib(bytes).text : "", bytes ? ")" : "");
}

/* Equal lines are told once, with how many there are. */
static void print_fusions(json_t *list, const char *title, const char *key)
{
    size_t i;
    json_t *row, *lines = json_object();
    const char *text;
    json_array_foreach(list, i, row)
    {
        json_t *line = fusion_line(row, key);
        const char *known = json_string_value(line);
        if (known)
            json_object_set_new(
                lines, known, json_integer(1 + json_integer_value(json_object_get(lines, known))));
        json_decref(line);
    }
    if (json_object_size(lines))
        printf("\n%s:\n", title);
    json_object_foreach(lines, text, row)
    {
        fputs("  ", stdout);
        print_text(text);
        if (json_integer_value(row) > 1)
            printf(" (%" PRId64 " times)", (int64_t)json_integer_value(row));
        putchar('\n');
    }
    json_decref(lines);
}

static void print_report(const cli_plan_report *r)
{
    const cli_plan_part *part = cli_plan_fullest(r->data);
    print_facts(&r->facts);
    if (r->facts.steps == 0)
        return;
    print_peak_step(&r->facts, part);
    print_alive(r->alive);
    if (!part)
        return;
    print_lower(part);
    if (!r->settings->verbose)
        return;
    print_fusions(part->story.fused, "Fused", "text");
    print_fusions(part->story.rejected, "Not fused", "reason");
}

/* ---- the whole ---------------------------------------------------------------------------- */

static json_t *read_measured(const char *path)
{
    json_error_t error;
    json_t *stats = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!stats) {
        cli_failed("--measured %s: %s", path, error.text);
        return NULL;
    }
    if (json_is_integer(json_object_get(stats, "measured_peak_bytes")))
        return stats;
    cli_failed("--measured %s: no measured_peak_bytes; expected what --stats of a run wrote", path);
    json_decref(stats);
    return NULL;
}

int cli_plan_prepare(cli_plan_data *data, const cli_settings *s)
{
    const cli_file files[] = {{"-m", s->model, false},   {"FILE", s->file, false},
                              {"--tokenizer", s->tokenizer, false}, {"--ids", s->ids, false},
                              {"--data", s->data, false}, {"--measured", s->measured, false},
                              {"--stats", s->stats, true}, {"--html", s->html, true},
                              {"--trace", s->trace, true}};
    const int status = cli_check_files(files, sizeof files / sizeof files[0]);
    if (status != CLI_DONE)
        return status;
    if (s->measured && !(data->measured = read_measured(s->measured)))
        return CLI_FAILED;
    if (s->html && cli_check_writable("--html", s->html) != CLI_DONE)
        return CLI_FAILED;
    return s->trace ? cli_check_writable("--trace", s->trace) : CLI_DONE;
}

/* For a reader of --json alone what is large is left out. */
static int print_json(const cli_plan_report *r, json_t *object)
{
    static const char *const large[] = {"curve", "step_list", "values", "candidates",
                                        "fused", "rejected_fusions", "plans", "measured"};
    for (size_t i = 0; !r->settings->verbose && i < sizeof large / sizeof large[0]; i++)
        json_object_del(object, large[i]);
    return cli_json_print(stdout, "standard output", object);
}

int cli_plan_files(const cli_plan_report *r, const json_t *object)
{
    const cli_settings *s = r->settings;
    const int status = s->html ? cli_plan_page_write(s->html, object) : CLI_DONE;
    return status == CLI_DONE && s->trace ? cli_plan_trace_write(s->trace, r->data) : status;
}

/* What a misfit asked for: whether it fits, or the page alone. */
static int tell_misfit(const cli_plan_report *r, json_t *more, struct cli_misfit *m)
{
    m->facts = r->facts;
    m->context = json_integer_value(json_object_get(more, "context"));
    json_t *object = m->probing ? NULL : cli_plan_json(r, true);
    int status = CLI_DONE;
    if (object) {
        json_object_update(object, more);
        json_object_set_new(object, "memory_limit", json_integer((json_int_t)m->limit));
        json_object_set_new(object, "refusal", cli_json_text(m->refusal, strlen(m->refusal)));
        json_object_set(object, "remedies", m->remedies);
        status = cli_plan_files(r, object);
    }
    json_decref(object);
    json_decref(more);
    return status;
}

int cli_plan_tell(const cli_plan_report *r, json_t *more)
{
    const cli_settings *s = r->settings;
    if (s->misfit)
        return tell_misfit(r, more, s->misfit);
    json_t *object = cli_plan_json(r, s->html || s->verbose);
    int status = CLI_DONE;
    if (more && json_object_update(object, more) != 0)
        status = cli_failed("out of memory");
    json_decref(more);
    if (status == CLI_DONE)
        status = cli_plan_files(r, object);
    if (status == CLI_DONE && s->json)
        return print_json(r, object);
    json_decref(object);
    if (status != CLI_DONE)
        return status;
    print_report(r);
    return cli_flush_output();
}
