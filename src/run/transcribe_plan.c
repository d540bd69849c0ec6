/* transcribe_plan.c - what a window will hold at its fullest, without running it.
 *
 * Under a limit it is walked through again, with smaller plans, until it fits.
 *
 * The parts are opened and planned in the order of a window; what is held at each of them is read
 * off the ledger, and the blocks that running adds are whole pages of known sizes. */
#include <string.h>

#include "base/versioned.h"
#include "program/handle.h"
#include "run/transcribe.h"

typedef struct moment {
    uint64_t total, by_category[NEAP_MEM_CATEGORIES];
} moment;

static void hold(moment *m, np_category c, uint64_t bytes)
{
    m->by_category[c] += bytes;
    m->total += bytes;
}

/* What the context holds now, idle bytes with the category that they served. */
static moment held_now(neap_context *ctx)
{
    moment m = {0};
    pthread_mutex_lock(&ctx->ledger.lock);
    for (int c = 0; c < NEAP_MEM_CATEGORIES; c++)
        hold(&m, (np_category)c, ctx->ledger.now.active[c] + ctx->ledger.now.idle[c]);
    pthread_mutex_unlock(&ctx->ledger.lock);
    return m;
}

/* Mutable buffers are taken at the first run. */
static uint64_t missing_buffers(const neap_transcriber *t, np_part part)
{
    neap_handle *h = t->parts[part].handle;
    const uint64_t all = neap_handle_session_bytes(h);
    const moment m = held_now(neap_handle_context(h));
    return all > m.by_category[NEAP_MEM_STATE] ? all - m.by_category[NEAP_MEM_STATE] : 0;
}

static neap_status note(neap_transcriber *t, np_part part)
{
    neap_execution_plan p = NEAP_EXECUTION_PLAN_INIT;
    const neap_status status = np_part_open(t, part, &p);
    if (status != NEAP_OK)
        return status;
    neap_transcriber_info *i = &t->info;
    i->plan_seconds += p.plan_seconds;
    moment m = held_now(t->ctx);
    const uint64_t arena = p.arena_bytes ? np_pages(p.arena_bytes) : 0;
    const uint64_t scratch = arena < p.scratch_bytes ? arena : p.scratch_bytes;
    hold(&m, NEAP_MEM_ACTIVATIONS, p.output_bytes + arena - scratch);
    hold(&m, NEAP_MEM_SCRATCH, scratch);
    hold(&m, NEAP_MEM_STATE, missing_buffers(t, part));
    t->parts[part].peak = m.total;
    t->parts[part].plan_bytes = p.plan_bytes;
    if (m.total <= i->planned_peak_bytes)
        return NEAP_OK;
    i->planned_peak_bytes = m.total;
    memcpy(i->planned_by_category, m.by_category, sizeof m.by_category);
    i->peak_program = np_part_files[part];
    i->arena_bytes = p.arena_bytes;
    i->largest_live_bytes = p.largest_live_bytes;
    i->steps = p.steps;
    i->peak_step = p.peak_step;
    t->peak_part = part;
    return NEAP_OK;
}

/* `blocks`: what lies beside the part, in whole pages. It is held, too, and not touched: so the peak of
 * planning is that of a run's. */
static neap_status open_and_note(neap_transcriber *t, np_part part, uint64_t blocks)
{
    void *held = np_alloc_pages(t->ctx, NEAP_MEM_HOST, blocks);
    if (!held)
        return NEAP_ENOMEM;
    np_ledger_recategorise(t->ctx, NEAP_MEM_HOST, NEAP_MEM_ACTIVATIONS, np_pages(blocks));
    const neap_status status = note(t, part);
    np_free_pages(t->ctx, NEAP_MEM_ACTIVATIONS, held, blocks);
    return status;
}

static uint64_t cross_pages(const neap_transcriber *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < t->n_cross; i++)
        bytes += np_pages(np_value_bytes(&t->cross[i]));
    return bytes;
}

/* Planning and reading the files hold bytes, too. */
static void cover_planning(neap_transcriber *t)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_transcriber_info *i = &t->info;
    neap_context_memory(t->ctx, &m);
    if (m.peak > i->planned_peak_bytes) {
        i->planned_peak_bytes = m.peak;
        memcpy(i->planned_by_category, m.peak_by_category, sizeof m.peak_by_category);
    }
    i->mapped_bytes = m.mapped;
}

/* Once through a window, with the budgets of the parts. */
static neap_status walk(neap_transcriber *t)
{
    t->info = (neap_transcriber_info)NEAP_TRANSCRIBER_INFO_INIT;
    const uint64_t features = np_pages(np_value_bytes(&t->features));
    const uint64_t hidden = np_pages(np_value_bytes(&t->hidden));
    t->position = t->position32 = t->positions - 1;
    neap_status status = open_and_note(t, NP_HEAR, features + hidden);
    np_part_close(t, NP_HEAR);
    if (status == NEAP_OK)
        status = open_and_note(t, NP_PREPARE, hidden);
    if (status == NEAP_OK)
        status = open_and_note(t, NP_SAY, cross_pages(t));
    np_part_close(t, NP_SAY);
    np_part_close(t, NP_PREPARE);
    if (status == NEAP_OK)
        cover_planning(t);
    return status;
}

typedef struct fitting {
    neap_transcriber *t;
    uint64_t limit, least;
    bool small[NP_PARTS]; /* parts with smaller plans than those that cost no time */
    np_part_program free[NP_PARTS], lowest[NP_PARTS]; /* as they were planned */
} fitting;

static neap_status try_part(void *user, int part, bool *fits)
{
    fitting *f = user;
    for (int i = 0; i < NP_PARTS; i++)
        if (f->small[i])
            f->t->parts[i].budget =
                np_fit_budget(f->lowest[i].plan_bytes, f->free[i].plan_bytes, part);
    const neap_status status = walk(f->t);
    *fits = status == NEAP_OK && f->t->info.planned_peak_bytes <= f->limit;
    return status;
}

/* Planning itself may take a little more with other plans: the least ones are known to fit. */
static bool has_room(const fitting *f)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(f->t->ctx, &m);
    return m.peak + 65536 <= f->limit;
}

/* The part that holds the peak gets its least plans, then the one that holds it then, until all fits
 * or nothing is gained. Small plans take more bytes to be planned, so no part gets them needlessly. */
static neap_status shrink(fitting *f, bool *fits)
{
    neap_transcriber *t = f->t;
    neap_status status = NEAP_OK;
    for (*fits = false; status == NEAP_OK && !*fits && !f->small[t->peak_part];) {
        f->small[t->peak_part] = true;
        t->parts[t->peak_part].budget = NP_FIT_LEAST;
        status = walk(t);
        if (status == NEAP_OK && t->info.planned_peak_bytes < f->least)
            f->least = t->info.planned_peak_bytes;
        *fits = status == NEAP_OK && t->info.planned_peak_bytes <= f->limit;
    }
    memcpy(f->lowest, t->parts, sizeof f->lowest);
    return status;
}

/* Of no limit: the least is to be found. */
static neap_status find_least(fitting *f)
{
    neap_transcriber *t = f->t;
    const neap_transcriber_info free = t->info;
    const np_part peak_part = t->peak_part;
    bool fits;
    f->limit = 0;
    const neap_status status = shrink(f, &fits);
    for (int i = 0; i < NP_PARTS; i++)
        t->parts[i].budget = 0;
    t->info = free;
    t->peak_part = peak_part;
    return status;
}

static neap_status fit(fitting *f)
{
    bool fits;
    const neap_status status = shrink(f, &fits);
    if (status != NEAP_OK)
        return status;
    if (!fits)
        return np_refuse_limit(f->t->ctx, f->least, f->limit, f->t->info.planned_by_category);
    return has_room(f) ? np_fit_search(try_part, f) : NEAP_OK;
}

neap_status np_transcriber_plan(neap_transcriber *t, uint64_t limit, bool want_least)
{
    fitting f = {.t = t, .limit = limit};
    neap_transcriber_info *i = &t->info;
    neap_status status = walk(t);
    f.least = i->planned_peak_bytes;
    memcpy(f.free, t->parts, sizeof f.free);
    if (status == NEAP_OK && i->planned_peak_bytes > limit)
        status = fit(&f);
    else if (status == NEAP_OK && want_least)
        status = find_least(&f);
    i->least_bytes = f.least;
    i->bins = (int)t->features.shape[1];
    i->vocabulary = t->tokens.vocabulary;
    i->positions = t->positions;
    i->languages = t->tokens.languages;
    return status;
}

/* ---- what is alive at the peak -------------------------------------------------------------- */

static bool show(const neap_value *v, const char *name, const char *op,
                 bool (*visit)(void *user, const neap_plan_alive *alive), void *user)
{
    neap_plan_alive a = {
        .name = name, .op = op, .bytes = np_value_bytes(v), .rank = v->rank, .dtype = v->dtype};
    memcpy(a.shape, v->shape, sizeof a.shape);
    return visit(user, &a);
}

/* The blocks that lie beside the program. */
static bool show_blocks(const neap_transcriber *t,
                        bool (*visit)(void *user, const neap_plan_alive *alive), void *user)
{
    const neap_value samples = {.dtype = NEAP_F32, .rank = 1, .shape = {NEAP_MEL_SAMPLES}};
    bool more = show(&samples, "window", "samples", visit, user);
    if (more && t->peak_part == NP_HEAR)
        more = show(&t->features, "features", "log_mel", visit, user);
    if (more && t->peak_part != NP_SAY)
        more = show(&t->hidden, "hidden", "encoder", visit, user);
    for (int i = 0; more && t->peak_part == NP_SAY && i < t->n_cross; i++)
        more = show(&t->cross[i], i % 2 ? "values" : "keys", "cross_kv", visit, user);
    return more;
}

static neap_status transcriber_at_peak(neap_transcriber *t,
                                     bool (*visit)(void *user, const neap_plan_alive *alive),
                                     void *user)
{
    neap_execution_plan p = NEAP_EXECUTION_PLAN_INIT;
    if (!show_blocks(t, visit, user))
        return NEAP_OK;
    neap_status status = np_part_open(t, t->peak_part, &p);
    if (status == NEAP_OK)
        status = np_part_plan(t, t->peak_part, &p, visit, user);
    np_part_close(t, t->peak_part);
    return status;
}

neap_status neap_transcriber_at_peak(neap_transcriber *t,
                                     bool (*visit)(void *user, const neap_plan_alive *alive),
                                     void *user)
{
    return NP_CALL_ON(t, visit, transcriber_at_peak(t, visit, user));
}

/* ---- the plans ------------------------------------------------------------------------------ */

typedef struct named_visit {
    neap_plan_visit *visit;
    void *user;
    const char *name;
    bool holds_peak, stopped;
} named_visit;

static bool show_plan(void *user, const char *name, const neap_plan *plan, bool fullest)
{
    named_visit *v = user;
    (void)name;
    v->stopped = !v->visit(v->user, v->name, plan, v->holds_peak && fullest);
    return !v->stopped;
}

static neap_status transcriber_visit_plans(neap_transcriber *t, neap_plan_visit *visit, void *user)
{
    neap_status status = NEAP_OK;
    named_visit v = {.visit = visit, .user = user};
    for (int part = 0; status == NEAP_OK && part < NP_PARTS && !v.stopped; part++) {
        neap_execution_plan p = NEAP_EXECUTION_PLAN_INIT;
        v.name = np_part_files[part];
        v.holds_peak = part == (int)t->peak_part;
        status = np_part_open(t, (np_part)part, &p);
        if (status == NEAP_OK)
            status = np_part_visit(t, (np_part)part, show_plan, &v);
        np_part_close(t, (np_part)part);
    }
    return status;
}

neap_status neap_transcriber_visit_plans(neap_transcriber *t, neap_plan_visit *visit, void *user)
{
    return NP_CALL_ON(t, visit, transcriber_visit_plans(t, visit, user));
}
