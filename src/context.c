/* context.c - assembles a context: ledger, pool, kernels; takes it apart in the opposite order. */
#include "base/context.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "base/versioned.h"
#include "cpu/kernels.h"

enum { PLAN_CACHE_DEFAULT = 32 << 20 };

static neap_status context_new(neap_context *parent, const neap_context_options *given,
                               neap_context **out)
{
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    *out = NULL;
    neap_status status = np_take_options(parent, "context", given, &o, sizeof o);
    if (status != NEAP_OK)
        return status;
    if (o.fail_allocation < 0)
        return np_fail(parent, NEAP_EINVAL, "fail_allocation: %lld, expected 0 or more",
                       (long long)o.fail_allocation);
    if (o.threads < 0)
        return np_fail(parent, NEAP_EINVAL, "threads: %d, expected 0 or more", o.threads);
    /* The context's own bytes are on its ledger: a seed on the stack lends the ledger first. */
    neap_context seed = {.parent = parent};
    np_ledger_init(&seed.ledger, parent ? &parent->ledger : NULL, o.memory_limit);
    seed.ledger.fail_countdown = o.fail_allocation;
    neap_context *ctx = np_calloc(&seed, NEAP_MEM_HOST, sizeof *ctx);
    if (!ctx) {
        np_fail(parent, seed.status, "%s", seed.error);
        return seed.status;
    }
    *ctx = seed;
    pthread_mutex_init(&ctx->ledger.lock, NULL);
    ctx->plan_cache_bytes = o.plan_cache_bytes ? o.plan_cache_bytes : PLAN_CACHE_DEFAULT;
    np_interrupt_inherit(ctx);
    status = np_kernels_choose(ctx, &ctx->kernels);
    if (status == NEAP_OK)
        status = np_pool_new(ctx, o.threads, &ctx->pool);
    if (status != NEAP_OK) {
        np_fail(parent, status, "%s", ctx->error);
        neap_context_free(ctx);
        return status;
    }
    *out = ctx;
    return NEAP_OK;
}

neap_status neap_context_new(const neap_context_options *options, neap_context **out)
{
    return out ? context_new(NULL, options, out) : NEAP_EINVAL;
}

neap_status neap_context_new_child(neap_context *parent, const neap_context_options *options,
                                   neap_context **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(parent, out, context_new(parent, options, out));
}

void neap_context_free(neap_context *ctx)
{
    if (!ctx)
        return;
    for (int i = NP_SLOTS - 1; i >= 0; i--)
        if (ctx->slot_free[i])
            ctx->slot_free[i](ctx, ctx->slot[i]);
    np_pool_free(ctx->pool);
    neap_context seed = *ctx; /* the block of the context goes last, through a copy of its ledger */
    pthread_mutex_init(&seed.ledger.lock, NULL);
    np_free(&seed, NEAP_MEM_HOST, ctx, sizeof *ctx);
    np_ledger_destroy(&seed.ledger);
}

int neap_context_threads(const neap_context *ctx)
{
    return np_pool_lanes(ctx->pool);
}

const char *neap_context_isa(const neap_context *ctx)
{
    return ctx->kernels->isa;
}
