/* progress.c - see progress.h. */
#include "base/progress.h"

#include "base/clock.h"

static const double INTERVAL = 0.02, PATIENCE = 0.05;

static _Thread_local bool telling; /* a call that tells runs on this thread */

void neap_context_set_progress(neap_context *ctx, neap_progress_fn *fn, void *user)
{
    if (!ctx)
        return;
    ctx->progress = fn;
    ctx->progress_user = user;
}

static void tell(np_progress *p)
{
    p->told = true;
    p->fn(p->user, &p->now);
}

void np_progress_begin(np_progress *p, neap_context *ctx, const char *what, uint64_t total, bool patient)
{
    const neap_context *c = ctx;
    while (c && !c->progress)
        c = c->parent;
    *p = (np_progress){.now = {sizeof(neap_progress), what, 0, total}};
    if (!c || telling)
        return;
    telling = true;
    p->fn = c->progress;
    p->user = c->progress_user;
    p->next = np_seconds() + (patient ? PATIENCE : INTERVAL);
    if (!patient)
        tell(p);
}

void np_progress_at(np_progress *p, uint64_t done)
{
    p->now.done = done;
    if (!p->fn)
        return;
    const double now = np_seconds();
    if (now < p->next)
        return;
    p->next = now + INTERVAL;
    tell(p);
}

void np_progress_end(np_progress *p, neap_status status)
{
    if (!p->fn)
        return;
    telling = false;
    if (status == NEAP_OK && p->told) {
        p->now.done = p->now.total = p->now.total ? p->now.total : p->now.done;
        tell(p);
    }
    p->fn = NULL;
}
