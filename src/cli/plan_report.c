/* plan_report.c - see plan_report.h. */
#include "cli/plan_report.h"

#include <inttypes.h>
#include <string.h>

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

/* ---- the whole ---------------------------------------------------------------------------- */

json_t *cli_plan_json(const cli_plan_facts *f, const cli_alive *alive)
{
    json_t *object = json_object();
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"planned_peak_bytes", (int64_t)f->planned_peak_bytes},
        {"least_bytes",        (int64_t)f->least_bytes       },
        {"mapped_bytes",       (int64_t)f->mapped_bytes      },
        {"memory_limit",       (int64_t)f->memory_limit      },
        {"peak_step",          f->peak_step                  },
        {"arena_bytes",        (int64_t)f->arena_bytes       },
        {"largest_live_bytes", (int64_t)f->largest_live_bytes},
        {"steps",              f->steps                      },
        {"recomputed_steps",   0                             }, /* no such steps are planned yet */
        {"row_streamed_steps", 0                             },
        {"fused_groups",       0                             },
        {"threads",            f->threads                    },
    };
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
        json_object_set_new(object, numbers[n].key, json_integer(numbers[n].value));
    json_object_set_new(object, "peak_by_category", cli_categories_json(f->by_category));
    json_object_set_new(object, "alive_at_peak",
                        alive->list ? json_incref(alive->list) : json_array());
    json_object_set_new(object, "plan_seconds", json_real(f->plan_seconds));
    return object;
}

static void print_bytes(const char *what, uint64_t bytes, const char *note)
{
    printf("%-15s %12s  %12" PRIu64 " bytes%s\n", what, cli_mib(bytes).text, bytes, note);
}

void cli_plan_print(const cli_plan_facts *f, cli_alive *alive)
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
    if (f->steps == 0)
        return;
    printf("\nStep %" PRId64 " of %" PRId64 " holds the most; alive there:\n", f->peak_step,
           f->steps);
    print_alive(alive);
}
