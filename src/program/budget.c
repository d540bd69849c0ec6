/* budget.c - a handle's plans within a limit.
 *
 * The limit is of all that is held, a planner's budget is of one plan. What lies between is what is
 * held beside the plan that is fullest; it hangs on the plans themselves. So the budget is searched
 * among parts of the way from the least plans to those that cost no time: the same parts whatever
 * the limit, so that a larger limit never leads to a smaller budget. */
#include <stdio.h>
#include <string.h>

#include "base/versioned.h"
#include "program/handle.h"

enum { PARTS = 64, LEAST = 1 }; /* no plan fits into a byte, so all are the least there are */

/* ---- the budget of each plan -------------------------------------------------------------------- */

static neap_status set_budget(neap_handle *h, uint64_t bytes)
{
    if (bytes == h->plan_budget)
        return NEAP_OK;
    if (!h->plan_budget)
        h->planner = np_plan_options_of(h->ctx);
    neap_plan_options o = h->planner;
    if (bytes) {
        o.budget = o.budget && o.budget < bytes ? o.budget : bytes;
        o.without |= NEAP_PLAN_BEST_EFFORT;
    }
    neap_status status = neap_context_plan_options(h->ctx, &o);
    if (status != NEAP_OK)
        return status;
    h->plan_budget = bytes;
    for (uint32_t i = 0; i < h->method->n_delegates; i++)
        np_delegate_forget(h->delegates[i]);
    neap_context_trim(h->ctx);
    neap_context_trim(h->program->ctx);
    return NEAP_OK;
}

neap_status neap_handle_set_plan_budget(neap_handle *h, uint64_t bytes)
{
    h->budget_is_set = true;
    return np_report(h->ctx, set_budget(h, bytes));
}

/* ---- searching it ------------------------------------------------------------------------------- */

typedef struct fitting {
    neap_handle *h;
    neap_plan_all *all;
    void *user;
    neap_execution_plan plan; /* as planned last */
} fitting;

static neap_status plan_under(fitting *f, uint64_t budget)
{
    neap_status status = set_budget(f->h, budget);
    f->plan = (neap_execution_plan)NEAP_EXECUTION_PLAN_INIT;
    return status == NEAP_OK ? f->all(f->user, &f->plan) : status;
}

/* Planning takes bytes, too: with little room above what it took so far the least plans, which are
 * made, are kept. */
static bool has_room(const neap_handle *h, uint64_t limit)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(h->program->ctx, &m);
    const uint64_t room = m.peak / 16 + 65536;
    return limit >= room && m.peak <= limit - room;
}

/* The least plans are made and fit; plans of `most` bytes do not. */
static neap_status search(fitting *f, uint64_t limit, uint64_t most)
{
    const uint64_t least = f->plan.plan_bytes < most ? f->plan.plan_bytes : 0;
    uint64_t good = 0, bad = PARTS, now = 0;
    neap_status status = NEAP_OK;
    while (status == NEAP_OK && bad - good > 1) {
        now = good + (bad - good) / 2;
        status = plan_under(f, least + (most - least) / PARTS * now);
        *(f->plan.planned_peak_bytes <= limit ? &good : &bad) = now;
    }
    if (status == NEAP_OK && now != good)
        status = plan_under(f, good ? least + (most - least) / PARTS * good : LEAST);
    return status;
}

neap_status np_refuse_limit(neap_context *ctx, uint64_t least, uint64_t limit,
                            const uint64_t by_category[NEAP_MEM_CATEGORIES])
{
    char parts[256] = "";
    size_t n = 0;
    for (int c = 0; c < NEAP_MEM_CATEGORIES; c++)
        if (by_category[c] && n < sizeof parts - 40)
            n += (size_t)snprintf(parts + n, sizeof parts - n, "%s%s %.1f", n ? ", " : "",
                                  neap_memory_category_name((neap_memory_category)c),
                                  (double)by_category[c] / 1048576.0);
    return np_fail(ctx, NEAP_ENOMEM,
                   "needs at least %.1f MiB (%llu bytes), the limit is %.1f MiB: %s",
                   (double)least / 1048576.0, (unsigned long long)least,
                   (double)limit / 1048576.0, parts);
}

static neap_status fit(fitting *f, uint64_t limit, const neap_execution_plan *free,
                       uint64_t *least)
{
    *least = free->planned_peak_bytes;
    neap_status status = plan_under(f, LEAST);
    if (status != NEAP_OK)
        return status;
    if (f->plan.planned_peak_bytes < *least)
        *least = f->plan.planned_peak_bytes;
    if (!limit || free->planned_peak_bytes <= limit)
        return plan_under(f, 0);
    if (*least > limit)
        return np_refuse_limit(f->h->ctx, *least, limit, f->plan.by_category);
    return has_room(f->h, limit) ? search(f, limit, free->plan_bytes) : NEAP_OK;
}

neap_status neap_handle_fit(neap_handle *h, uint64_t limit, neap_plan_all *all, void *user,
                            neap_execution_plan *plan)
{
    neap_execution_plan free = NEAP_EXECUTION_PLAN_INIT;
    neap_status status = np_take_options(h->ctx, "execution plan", plan, &free, sizeof free);
    if (status != NEAP_OK)
        return np_report(h->ctx, status);
    uint64_t least = 0;
    fitting f = {.h = h, .all = all, .user = user};
    h->budget_is_set = true;
    status = fit(&f, limit, &free, &least);
    f.plan.least_bytes = least;
    np_tell(plan, &f.plan, sizeof f.plan);
    return np_report(h->ctx, status);
}

/* ---- at the first execution under a limit -------------------------------------------------------- */

/* What the program's context may hold, as all limits have it, and the smallest of these. */
static uint64_t find_limit(const neap_handle *h, uint64_t *smallest)
{
    const uint64_t held = np_ledger_held(&h->program->ctx->ledger);
    uint64_t room = UINT64_MAX;
    *smallest = UINT64_MAX;
    for (neap_context *c = h->ctx; c; c = c->parent) {
        const uint64_t limit = c->ledger.limit, taken = np_ledger_held(&c->ledger);
        if (limit == UINT64_MAX)
            continue;
        *smallest = limit < *smallest ? limit : *smallest;
        const uint64_t left = limit > taken ? limit - taken : 0;
        room = left < room ? left : room;
    }
    return room == UINT64_MAX ? UINT64_MAX : held + room;
}

typedef struct first_call {
    neap_handle *h;
    int n;
    const neap_value *inputs;
} first_call;

static neap_status plan_call(void *user, neap_execution_plan *plan)
{
    const first_call *c = user;
    return neap_handle_plan(c->h, c->n, c->inputs, plan, NULL, NULL);
}

neap_status np_handle_fit_first(neap_handle *h, int n_inputs, const neap_value *inputs)
{
    uint64_t smallest;
    const uint64_t limit = find_limit(h, &smallest);
    if (limit == UINT64_MAX || h->budget_is_set || smallest == h->fitted)
        return NEAP_OK;
    fitting f = {.h = h, .all = plan_call, .user = &(first_call){h, n_inputs, inputs}};
    neap_status status = plan_under(&f, 0);
    const neap_execution_plan free = f.plan;
    uint64_t least;
    if (status == NEAP_OK && free.planned_peak_bytes > limit)
        status = fit(&f, limit, &free, &least);
    if (status == NEAP_OK)
        h->fitted = smallest;
    return status;
}
