/* budget.c - which context, chunk and weight layout fit the limit, and what the peak will be.
 *
 * Every candidate is really planned: its graph, plan and trimmed slabs are on the ledger, so what
 * is held then plus what starting takes (whole pages, known sizes) is the peak of the run. The same
 * candidates are planned in the same order whatever the limit, so that `least_bytes` is exact. */
#include <stdio.h>
#include <string.h>

#include "base/versioned.h"
#include "eval/arena.h"
#include "plan/plan.h"
#include "run/session.h"

/* What starting takes beside what is held now, by category. */
typedef struct np_session_need {
    uint64_t by_category[NEAP_MEM_CATEGORIES];
    uint64_t total;
} np_session_need;

static void add_plan(const neap_plan *p, neap_plan_info *largest, np_session_need *need)
{
    if (!p)
        return;
    neap_plan_info i = NEAP_PLAN_INFO_INIT;
    neap_plan_describe(p, &i);
    need->by_category[NEAP_MEM_ACTIVATIONS] += i.output_bytes;
    if (i.arena_bytes > largest->arena_bytes)
        *largest = i;
}

static void add_state(const neap_state *s, np_session_need *need)
{
    if (s && !s->buffer->data)
        need->by_category[NEAP_MEM_STATE] += np_pages(neap_state_bytes(s));
}

static np_session_need needs(const neap_session *s, neap_plan_info *largest)
{
    np_session_need need = {0};
    *largest = (neap_plan_info){0};
    add_plan(s->prefill, largest, &need);
    add_plan(s->decode, largest, &need);
    add_plan(s->head, largest, &need);
    uint64_t arena = np_arena_growth(s->ctx, largest->arena_bytes);
    uint64_t scratch = arena < largest->scratch_bytes ? arena : largest->scratch_bytes;
    need.by_category[NEAP_MEM_ACTIVATIONS] += arena - scratch;
    need.by_category[NEAP_MEM_SCRATCH] += scratch;
    for (int64_t l = 0; l < s->cache.layers; l++) {
        add_state(s->cache.keys[l], &need);
        add_state(s->cache.values[l], &need);
    }
    add_state(s->hidden, &need);
    if (s->model->packed && !s->model->loaded)
        need.by_category[NEAP_MEM_WEIGHTS] += np_model_packed_bytes(s->model);
    for (int i = 0; i < NEAP_MEM_CATEGORIES; i++)
        need.total += need.by_category[i];
    return need;
}

/* ---- describing -------------------------------------------------------------------------------
 */

static void describe(neap_session *s)
{
    neap_session_info *i = &s->info;
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    np_session_need need = needs(s, &i->peak_plan);
    neap_context_memory(s->ctx, &m);
    uint64_t run = m.active + m.cached + need.total;
    i->context = s->context;
    i->chunk = s->chunk;
    i->repacked = s->model->packed;
    i->mapped_bytes = m.mapped;
    i->planned_peak_bytes = run > m.peak ? run : m.peak;
    i->kv_bytes = 0;
    for (int64_t l = 0; l < s->cache.layers; l++)
        i->kv_bytes += neap_state_bytes(s->cache.keys[l]) + neap_state_bytes(s->cache.values[l]);
    for (int c = 0; c < NEAP_MEM_CATEGORIES; c++)
        i->planned_by_category[c] =
            run > m.peak ? m.active_by_category[c] + need.by_category[c] : m.peak_by_category[c];
    if (run > m.peak)
        i->planned_by_category[NEAP_MEM_HOST] += m.cached; /* free slots of slabs */
}

/* The limit that the candidate planned now needs. */
static uint64_t total(const neap_session *s)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_plan_info largest;
    neap_context_memory(s->ctx, &m);
    uint64_t run = m.active + m.cached + needs(s, &largest).total;
    return run > m.peak ? run : m.peak;
}

static neap_status refuse(neap_session *s, uint64_t least, uint64_t limit)
{
    char parts[256] = "";
    size_t n = 0;
    describe(s);
    for (int c = 0; c < NEAP_MEM_CATEGORIES; c++)
        if (s->info.planned_by_category[c] && n < sizeof parts - 40)
            n += (size_t)snprintf(parts + n, sizeof parts - n, "%s%s %.1f", n ? ", " : "",
                                  neap_memory_category_name((neap_memory_category)c),
                                  (double)s->info.planned_by_category[c] / 1048576.0);
    return np_fail(
        s->ctx, NEAP_ENOMEM, "needs at least %.1f MiB (%llu bytes), the limit is %.1f MiB: %s",
        (double)least / 1048576.0, (unsigned long long)least, (double)limit / 1048576.0, parts);
}

/* ---- choosing ---------------------------------------------------------------------------------
 */

static int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* No chunk needs to be longer than the context or the longest prompt. Where tokens see later ones, none
 * may be shorter. */
static int64_t longest_chunk(const neap_session *s)
{
    int64_t chunk = s->options.chunk ? s->options.chunk : NP_CHUNK_DEFAULT;
    int64_t most = s->context;
    if (s->options.prompt && s->options.prompt < most)
        most = s->options.prompt;
    most = round_up(most, NP_CHUNK);
    return chunk < most && s->model->sizes.causal ? chunk : most;
}

static int64_t shortest_chunk(const neap_session *s)
{
    return s->options.chunk || !s->model->sizes.causal ? longest_chunk(s) : NP_CHUNK;
}

static neap_status plan_all(neap_session *s, int64_t context, int64_t chunk, bool packed)
{
    np_session_drop_plans(s);
    s->context = context;
    np_model_set_packed(s->model, packed, s->options.weights == NEAP_WEIGHTS_REPACKED);
    neap_status status = np_session_plan_rest(s);
    return status == NEAP_OK ? np_session_plan_prefill(s, chunk) : status;
}

/* The least that context, options and threads allow: mapped unless repacking was asked for. */
static neap_status plan_least(neap_session *s, int64_t context, uint64_t *least)
{
    s->context = context;
    neap_status status = plan_all(s, context, shortest_chunk(s),
                                  s->options.weights == NEAP_WEIGHTS_REPACKED);
    if (status == NEAP_OK)
        *least = total(s);
    return status;
}

static neap_status choose_context(neap_session *s, uint64_t limit, uint64_t *least)
{
    const int64_t most = s->model->sizes.context_length;
    int64_t low = s->options.prompt > 0 ? s->options.prompt : 1, high = most;
    if (s->options.context)
        return plan_least(s, s->options.context, least);
    low = low < most ? low : most;
    neap_status status = plan_least(s, most, least);
    if (status != NEAP_OK || *least <= limit)
        return status;
    while (status == NEAP_OK && high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        status = plan_least(s, middle, least);
        *(status == NEAP_OK && *least <= limit ? &low : &high) = middle;
    }
    return status == NEAP_OK ? plan_least(s, low, least) : status;
}

/* Planning takes bytes, too, and the longest chunk is always planned: the least that is accepted
 * covers it. */
static uint64_t planning_peak(const neap_session *s)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(s->ctx, &m);
    return m.peak;
}

/* With the weights mapped, the largest chunk; then repacked weights if that fits as well. */
static neap_status choose_chunk(neap_session *s, uint64_t limit, uint64_t *least)
{
    const int64_t shortest = s->chunk;
    neap_status status = NEAP_OK;
    int64_t chunk = longest_chunk(s);
    for (bool first = true; status == NEAP_OK && chunk > shortest; chunk -= NP_CHUNK, first = false) {
        status = np_session_plan_prefill(s, chunk);
        if (first && planning_peak(s) > *least)
            *least = planning_peak(s);
        if (status != NEAP_OK || *least > limit || total(s) <= limit)
            break;
    }
    if (status == NEAP_OK && *least > limit)
        return refuse(s, *least, limit);
    if (status == NEAP_OK && chunk <= shortest) /* just as it was when the least was found */
        status = plan_all(s, s->context, shortest, s->options.weights == NEAP_WEIGHTS_REPACKED);
    if (status != NEAP_OK || s->options.weights != NEAP_WEIGHTS_AUTO ||
        !np_model_packed_bytes(s->model))
        return status;
    status = plan_all(s, s->context, s->chunk, true);
    if (status == NEAP_OK && total(s) > limit)
        status = plan_all(s, s->context, s->chunk, false);
    return status;
}

static neap_status choose(neap_session *s, uint64_t limit)
{
    uint64_t least = 0;
    neap_status status = choose_context(s, limit, &least);
    if (status != NEAP_OK)
        return status;
    if (least > limit)
        return refuse(s, least, limit);
    status = choose_chunk(s, limit, &least);
    if (status != NEAP_OK)
        return status;
    describe(s);
    s->info.least_bytes = least;
    return status;
}

/* The limit binds the run, not the planning: a candidate that is too large is planned to be known.
 */
neap_status np_session_choose(neap_session *s)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(s->ctx, &m);
    uint64_t limit = m.limit ? m.limit : UINT64_MAX;
    if (s->options.memory && s->options.memory < limit)
        limit = s->options.memory;
    neap_status status = choose(s, limit);
    if (status == NEAP_OK && s->options.memory)
        status = neap_context_set_limit(s->ctx, limit);
    return status;
}

static bool visit_state(const neap_state *state, bool (*visit)(void *, const neap_plan_alive *),
                        void *user)
{
    neap_plan_alive a = {.name = state->name,
                         .op = "state",
                         .bytes = neap_state_bytes(state),
                         .rank = state->rank,
                         .dtype = state->dtype};
    memcpy(a.shape, state->shape, sizeof a.shape);
    return visit(user, &a);
}

/* They take turns in one arena. */
static const neap_plan *largest_plan(const neap_session *s)
{
    const neap_plan *plans[3] = {s->prefill, s->decode, s->head}, *largest = NULL;
    for (int i = 0; i < 3; i++)
        if (plans[i] && (!largest || plans[i]->info.arena_bytes > largest->info.arena_bytes))
            largest = plans[i];
    return largest;
}

void neap_session_at_peak(const neap_session *s,
                          bool (*visit)(void *user, const neap_plan_alive *alive), void *user)
{
    for (int64_t l = 0; l < s->cache.layers; l++)
        if (!visit_state(s->cache.keys[l], visit, user) ||
            !visit_state(s->cache.values[l], visit, user))
            return;
    const neap_plan *largest = largest_plan(s);
    if (largest)
        neap_plan_at_peak(largest, visit, user);
}

void neap_session_visit_plans(const neap_session *s, neap_plan_visit *visit, void *user)
{
    static const char *const names[3] = {"prefill", "decode", "head"};
    const neap_plan *plans[3] = {s->prefill, s->decode, s->head}, *largest = largest_plan(s);
    for (int i = 0; i < 3; i++)
        if (plans[i] && !visit(user, names[i], plans[i], plans[i] == largest))
            return;
}

void neap_session_describe(const neap_session *s, neap_session_info *info)
{
    neap_session_info i = s->info;
    np_tell(info, &i, sizeof i);
}
