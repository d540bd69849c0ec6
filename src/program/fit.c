/* fit.c - a handle's plans within a limit.
 *
 * The limit is of all that is held, a planner's budget is of one plan. What lies between is what is
 * held beside the plan that is fullest; it hangs on the plans themselves. So the budget is searched
 * among parts of the way from the least plans to those that cost no time: the same parts whatever
 * the limit, so that a larger limit never leads to a smaller budget. */
#include <stdio.h>
#include <string.h>

#include "base/versioned.h"
#include "program/handle.h"

/* ---- the budget of each plan -------------------------------------------------------------------- */

static neap_status set_budget(neap_handle *h, uint64_t bytes)
{
    neap_status status = np_plan_set_budget(h->ctx, bytes);
    if (status != NEAP_OK)
        return status;
    h->plan_budget = bytes;
    for (uint32_t i = 0; i < h->method->n_delegates; i++)
        np_delegate_forget(h->delegates[i]);
    neap_context_trim(h->ctx);
    neap_context_trim(h->program->ctx);
    return NEAP_OK;
}

static neap_status handle_set_plan_budget(neap_handle *h, uint64_t bytes)
{
    h->budget_is_set = true;
    return set_budget(h, bytes);
}

neap_status neap_handle_set_plan_budget(neap_handle *h, uint64_t bytes)
{
    return NP_CALL_ON(h, true, handle_set_plan_budget(h, bytes));
}

/* ---- searching it ------------------------------------------------------------------------------- */

typedef struct fitting {
    neap_handle *h;
    neap_plan_all *all;
    void *user;
    uint64_t limit, least, most; /* the last two: of the fullest plan, the least and the free one */
    bool running; /* under the limit already: what was held before does not matter */
    neap_execution_plan plan; /* as planned last */
} fitting;

static uint64_t peak_of(const fitting *f, const neap_execution_plan *plan)
{
    return f->running ? plan->run_bytes : plan->planned_peak_bytes;
}

static neap_status plan_under(fitting *f, uint64_t budget)
{
    neap_status status = set_budget(f->h, budget);
    f->plan = (neap_execution_plan)NEAP_EXECUTION_PLAN_INIT;
    return status == NEAP_OK ? f->all(f->user, &f->plan) : status;
}

/* Planning takes bytes, too: with little room above what it took so far the least plans, which are
 * made, are kept. */
static bool has_room(const fitting *f, uint64_t limit)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(f->h->program->ctx, &m);
    const uint64_t room = m.peak / 16 + 65536;
    return f->running || (limit >= room && m.peak <= limit - room);
}

neap_status np_fit_search(np_fit_try *attempt, void *user)
{
    int good = 0, bad = NP_FIT_PARTS, part = 0;
    neap_status status = NEAP_OK;
    while (status == NEAP_OK && bad - good > 1) {
        bool fits = false;
        part = good + (bad - good) / 2;
        status = attempt(user, part, &fits);
        *(fits ? &good : &bad) = part;
    }
    bool fits;
    return status == NEAP_OK && part != good ? attempt(user, good, &fits) : status;
}

uint64_t np_fit_budget(uint64_t least, uint64_t most, int part)
{
    least = least < most ? least : 0;
    return part ? least + (most - least) / NP_FIT_PARTS * (uint64_t)part : NP_FIT_LEAST;
}

static neap_status try_part(void *user, int part, bool *fits)
{
    fitting *f = user;
    neap_status status = plan_under(f, np_fit_budget(f->least, f->most, part));
    *fits = status == NEAP_OK && peak_of(f, &f->plan) <= f->limit;
    if (!f->running || status != NEAP_ENOMEM || part == 0)
        return status;
    neap_context_clear_error(f->h->ctx); /* planning itself was too much */
    return NEAP_OK;
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

static neap_status fit(fitting *f, const neap_execution_plan *free, uint64_t *least)
{
    const uint64_t limit = f->limit;
    *least = peak_of(f, free);
    neap_status status = plan_under(f, NP_FIT_LEAST);
    if (status != NEAP_OK)
        return status;
    if (peak_of(f, &f->plan) < *least)
        *least = peak_of(f, &f->plan);
    if (!limit || peak_of(f, free) <= limit)
        return plan_under(f, 0);
    if (*least > limit)
        return f->running ? NEAP_OK
                          : np_refuse_limit(f->h->ctx, *least, limit, f->plan.by_category);
    f->least = f->plan.plan_bytes;
    f->most = free->plan_bytes;
    return has_room(f, limit) ? np_fit_search(try_part, f) : NEAP_OK;
}

static neap_status handle_fit(neap_handle *h, uint64_t limit, neap_plan_all *all, void *user,
                            neap_execution_plan *plan)
{
    neap_execution_plan free = NEAP_EXECUTION_PLAN_INIT;
    neap_status status = np_take_options(h->ctx, "execution plan", plan, &free, sizeof free);
    if (status != NEAP_OK)
        return status;
    uint64_t least = 0;
    fitting f = {.h = h, .all = all, .user = user, .limit = limit};
    h->budget_is_set = true;
    status = fit(&f, &free, &least);
    f.plan.least_bytes = least;
    f.plan.plan_budget = h->plan_budget;
    np_tell(plan, &f.plan, sizeof f.plan);
    return status;
}

neap_status neap_handle_fit(neap_handle *h, uint64_t limit, neap_plan_all *all, void *user,
                            neap_execution_plan *plan)
{
    return NP_CALL_ON(h, all && plan, handle_fit(h, limit, all, user, plan));
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
    first_call call = {h, n_inputs, inputs};
    fitting f = {.h = h, .all = plan_call, .user = &call, .limit = limit, .running = true};
    uint64_t least = 0;
    neap_status status = plan_under(&f, 0);
    const neap_execution_plan free = f.plan;
    if (status == NEAP_OK && free.run_bytes > limit)
        status = fit(&f, &free, &least);
    h->least = least > limit ? least : 0;
    if (status == NEAP_OK)
        h->fitted = smallest;
    return status;
}
