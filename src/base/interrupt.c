/* interrupt.c - see interrupt.h. */
#include "base/interrupt.h"

_Thread_local const neap_context *np_working;

void neap_context_interrupt(neap_context *ctx)
{
    if (ctx)
        atomic_fetch_add_explicit(&ctx->asked, 1, memory_order_relaxed);
}

bool neap_context_withdraw_interrupt(neap_context *ctx)
{
    const bool waits = ctx && np_interrupted(ctx);
    if (waits)
        np_interrupt_answer(ctx);
    return waits;
}

neap_status np_check(neap_context *ctx)
{
    return np_interrupted(ctx) ? np_fail(ctx, NEAP_ECANCELLED, "interrupted") : NEAP_OK;
}

void np_interrupt_answer(neap_context *ctx)
{
    atomic_store_explicit(&ctx->answered, atomic_load_explicit(&ctx->asked, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&ctx->answered_above, np_asked_above(ctx), memory_order_relaxed);
}

static bool has_answered(const neap_context *ctx)
{
    return atomic_load_explicit(&ctx->asked, memory_order_relaxed) ==
           atomic_load_explicit(&ctx->answered, memory_order_relaxed);
}

void np_interrupt_enter(neap_context *ctx)
{
    for (const neap_context *c = ctx->parent; c; c = c->parent)
        if (!has_answered(c))
            return;
    if (ctx->parent)
        atomic_store_explicit(&ctx->answered_above, np_asked_above(ctx), memory_order_relaxed);
}

void np_interrupt_inherit(neap_context *child)
{
    const neap_context *p = child->parent;
    if (p)
        atomic_store_explicit(&child->answered_above,
                              atomic_load_explicit(&p->answered, memory_order_relaxed) +
                                  atomic_load_explicit(&p->answered_above, memory_order_relaxed),
                              memory_order_relaxed);
}
