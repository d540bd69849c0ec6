/* plan_data.c - see plan_data.h. */
#include "cli/plan_data.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the planner weighed ------------------------------------------------------------- */

static void story_free(cli_plan_story *s)
{
    json_decref(s->candidates);
    json_decref(s->fused);
    json_decref(s->rejected);
    *s = (cli_plan_story){.plan = NULL};
}

static json_t *text_of(const char *text)
{
    return cli_json_text(text ? text : "", text ? strlen(text) : 0);
}

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static bool append(json_t **array, json_t *object)
{
    if (!*array)
        *array = json_array();
    return json_array_append_new(*array, object) == 0;
}

static json_t *candidate(const neap_plan_event *e)
{
    json_t *object = json_object();
    json_object_set_new(object, "peak_bytes", integer(e->peak_bytes));
    json_object_set_new(object, "seconds", json_real(e->seconds));
    json_object_set_new(object, "text", text_of(e->text));
    json_object_set_new(object, "chosen", json_boolean(e->chosen));
    return object;
}

static json_t *fusion(const neap_plan_event *e, const char *text_key)
{
    json_t *object = json_object();
    json_object_set_new(object, "a", text_of(e->a));
    json_object_set_new(object, "b", text_of(e->b));
    json_object_set_new(object, text_key, text_of(e->text));
    json_object_set_new(object, "bytes", integer(e->peak_bytes));
    return object;
}

static bool grow(void **items, int n, int *capacity, size_t size)
{
    if (n < *capacity)
        return true;
    const int more = *capacity ? 2 * *capacity : 8;
    void *grown = realloc(*items, (size_t)more * size);
    if (!grown)
        return false;
    *items = grown;
    *capacity = more;
    return true;
}

/* The last story of a plan counts: another may have stood at its address. */
static bool close_story(cli_plan_data *d, const neap_plan *plan)
{
    int i = 0;
    while (i < d->n_stories && d->story[i].plan != plan)
        i++;
    if (i == d->n_stories) {
        if (!grow((void **)&d->story, i, &d->stories_capacity, sizeof *d->story))
            return false;
        d->story[d->n_stories++] = (cli_plan_story){.plan = NULL};
    }
    story_free(&d->story[i]);
    d->story[i] = d->open;
    d->story[i].plan = plan;
    d->open = (cli_plan_story){.plan = NULL};
    return true;
}

void cli_plan_data_event(void *user, const neap_plan_event *e)
{
    cli_plan_data *d = user;
    bool done = false;
    switch (e->kind) {
    case NEAP_PLAN_EVENT_CANDIDATE:
        done = append(&d->open.candidates, candidate(e));
        break;
    case NEAP_PLAN_EVENT_FUSED:
        done = append(&d->open.fused, fusion(e, "text"));
        break;
    case NEAP_PLAN_EVENT_NOT_FUSED:
        done = append(&d->open.rejected, fusion(e, "reason"));
        break;
    case NEAP_PLAN_EVENT_MADE:
        done = close_story(d, e->plan);
        break;
    }
    d->failed |= !done;
}

/* ---- parts -------------------------------------------------------------------------------- */

static json_t *shape_of(int rank, const int64_t *shape)
{
    json_t *array = json_array();
    for (int i = 0; i < rank; i++)
        json_array_append_new(array, json_integer(shape[i]));
    return array;
}

bool cli_part_step(void *user, const neap_plan_step *step)
{
    cli_plan_part *part = user;
    json_t *object = json_object();
    json_object_set_new(object, "name", text_of(step->name));
    json_object_set_new(object, "op", text_of(step->op));
    json_object_set_new(object, "ops", json_integer(step->ops));
    json_object_set_new(object, "rows", json_integer(step->rows));
    json_object_set_new(object, "block_rows", json_integer(step->block_rows));
    json_object_set_new(object, "seconds", json_real(step->predicted_seconds));
    return append(&part->steps, object) && append(&part->curve, integer(step->live_bytes));
}

bool cli_part_value(void *user, const neap_plan_value *v)
{
    static const char *const kinds[] = {"activation", "scratch", "hosted", "result"};
    cli_plan_part *part = user;
    json_t *object = json_object();
    json_object_set_new(object, "name", text_of(v->name));
    json_object_set_new(object, "op", text_of(v->op));
    json_object_set_new(object, "kind", json_string(kinds[v->kind]));
    json_object_set_new(object, "bytes", integer(v->bytes));
    json_object_set_new(object, "offset", integer(v->offset));
    json_object_set_new(object, "first", json_integer(v->first));
    json_object_set_new(object, "last", json_integer(v->last));
    json_object_set_new(object, "shape", shape_of(v->rank, v->shape));
    if (v->result >= 0)
        json_object_set_new(object, "result", json_integer(v->result));
    json_object_set_new(object, "dtype",
                        json_string(v->rank ? neap_dtype_describe(v->dtype)->name : ""));
    return append(&part->values, object);
}

cli_plan_part *cli_plan_data_part(cli_plan_data *d, const char *name, const neap_plan_info *info,
                                  bool fullest)
{
    if (!grow((void **)&d->part, d->n_parts, &d->parts_capacity, sizeof *d->part)) {
        d->failed = true;
        return NULL;
    }
    cli_plan_part *part = &d->part[d->n_parts];
    *part = (cli_plan_part){.info = *info,
                            .curve = json_array(),
                            .steps = json_array(),
                            .values = json_array(),
                            .story = d->open};
    snprintf(part->name, sizeof part->name, "%s", name);
    d->open = (cli_plan_story){.plan = NULL};
    if (fullest)
        d->fullest = d->n_parts;
    d->n_parts++;
    return part;
}

/* The story stays where it is too: the plan may be shown once more. */
static void take_story(const cli_plan_data *d, cli_plan_part *part, const neap_plan *plan)
{
    for (int i = 0; i < d->n_stories; i++) {
        const cli_plan_story *s = &d->story[i];
        if (s->plan != plan)
            continue;
        story_free(&part->story);
        part->story = (cli_plan_story){
            plan, json_incref(s->candidates), json_incref(s->fused), json_incref(s->rejected)};
    }
}

bool cli_plan_data_add(void *user, const char *name, const neap_plan *plan, bool fullest)
{
    cli_plan_data *d = user;
    neap_plan_info info = NEAP_PLAN_INFO_INIT;
    neap_plan_describe(plan, &info);
    cli_plan_part *part = cli_plan_data_part(d, name, &info, fullest);
    if (!part)
        return false;
    take_story(d, part, plan);
    if (neap_plan_steps(plan, cli_part_step, part) != NEAP_OK ||
        neap_plan_values(plan, cli_part_value, part) != NEAP_OK ||
        json_array_size(part->steps) != (size_t)info.steps)
        d->failed = true;
    return !d->failed;
}

const cli_plan_part *cli_plan_fullest(const cli_plan_data *d)
{
    return d->fullest < 0 ? NULL : &d->part[d->fullest];
}

void cli_plan_data_free(cli_plan_data *d)
{
    for (int i = 0; i < d->n_parts; i++) {
        json_decref(d->part[i].curve);
        json_decref(d->part[i].steps);
        json_decref(d->part[i].values);
        story_free(&d->part[i].story);
    }
    for (int i = 0; i < d->n_stories; i++)
        story_free(&d->story[i]);
    story_free(&d->open);
    json_decref(d->measured);
    free(d->part);
    free(d->story);
    *d = (cli_plan_data)CLI_PLAN_DATA_INIT;
}

/* ---- choices ------------------------------------------------------------------------------ */

static int64_t peak_of(const json_t *choice)
{
    return json_integer_value(json_object_get(choice, "peak_bytes"));
}

static double seconds_of(const json_t *choice)
{
    return json_number_value(json_object_get(choice, "seconds"));
}

/* Fastest first; of those as fast, the smallest. */
static int by_seconds(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    if (seconds_of(x) != seconds_of(y))
        return seconds_of(x) < seconds_of(y) ? -1 : 1;
    if (peak_of(x) != peak_of(y))
        return peak_of(x) < peak_of(y) ? -1 : 1;
    return json_is_true(json_object_get(y, "chosen")) - json_is_true(json_object_get(x, "chosen"));
}

static json_t *only_itself(const cli_plan_part *part)
{
    const neap_plan_event e = {.peak_bytes = part->info.peak_bytes,
                               .seconds = part->info.predicted_seconds,
                               .text = "as planned",
                               .chosen = true};
    json_t *array = json_array();
    json_array_append_new(array, candidate(&e));
    return array;
}

json_t *cli_part_choices(const cli_plan_part *part)
{
    const json_t *all = part->story.candidates;
    const size_t n = json_array_size(all);
    json_t **sorted = n ? malloc(n * sizeof *sorted) : NULL;
    if (!sorted)
        return only_itself(part);
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        sorted[i] = json_array_get(all, i);
    qsort(sorted, n, sizeof *sorted, by_seconds);
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const bool smaller = peak_of(sorted[i]) < least;
        if (smaller || json_is_true(json_object_get(sorted[i], "chosen")))
            json_array_append(array, sorted[i]);
        least = smaller ? peak_of(sorted[i]) : least;
    }
    free(sorted);
    return array;
}
