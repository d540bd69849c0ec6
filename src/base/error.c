/* error.c - the first error of a context. */
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/utf8.h"

/* A message is one line of printable UTF-8, whatever the file or the caller had in a name and wherever
 * that was cut. It does not become longer. */
static void make_one_line(char *text)
{
    char *to = text;
    for (size_t n = strlen(text); n > 0;) {
        size_t skip;
        const size_t run = np_printable_run((const uint8_t *)text, n, &skip);
        memmove(to, text, run);
        to += run;
        if (skip)
            *to++ = '?';
        text += run + skip;
        n -= run + skip;
    }
    *to = '\0';
}

neap_status np_fail(neap_context *ctx, neap_status status, const char *format, ...)
{
    if (!ctx || ctx->status != NEAP_OK)
        return status;
    va_list args;
    va_start(args, format);
    vsnprintf(ctx->error, sizeof ctx->error, format, args);
    va_end(args);
    make_one_line(ctx->error);
    ctx->status = status;
    return status;
}

/* ---- calls that return their status --------------------------------------------------------- */

bool np_call_begin(neap_context *ctx)
{
    if (!ctx)
        return false;
    if (ctx->calls++ > 0) {
        ctx->failed_before = ctx->failed_before << 1 | (ctx->status != NEAP_OK);
        return true;
    }
    if (ctx->status != NEAP_OK && ctx->built == NEAP_OK) {
        ctx->built = ctx->status;
        memcpy(ctx->built_error, ctx->error, sizeof ctx->error);
    }
    ctx->status = NEAP_OK;
    np_interrupt_enter(ctx);
    return true;
}

neap_status np_call_end(neap_context *ctx, neap_status status)
{
    if (status != NEAP_OK && ctx->status == NEAP_ECANCELLED)
        status = NEAP_ECANCELLED; /* whatever those made of it who failed for it */
    if (--ctx->calls > 0) {
        if (!(ctx->failed_before & 1))
            ctx->status = NEAP_OK;
        ctx->failed_before >>= 1;
        return status;
    }
    if (status == NEAP_ECANCELLED)
        np_interrupt_answer(ctx);
    ctx->status = ctx->built;
    if (ctx->built != NEAP_OK && status == NEAP_OK)
        memcpy(ctx->error, ctx->built_error, sizeof ctx->error);
    return status;
}

neap_status np_call_refuse(neap_context *ctx, const char *function, const char *needed)
{
    return np_fail(ctx, NEAP_EINVAL, "%s: an argument is NULL, needed: %s", function, needed);
}

neap_status np_take_built(neap_context *ctx)
{
    if (ctx->calls == 1 && ctx->built != NEAP_OK) {
        ctx->status = ctx->built;
        memcpy(ctx->error, ctx->built_error, sizeof ctx->error);
        ctx->built = NEAP_OK;
    }
    ctx->failed_before &= ~(uint64_t)1; /* it is reported by the call that asks */
    return ctx->status;
}

void np_fail_prefix(neap_context *ctx, const char *format, ...)
{
    if (!ctx || ctx->status == NEAP_OK)
        return;
    char text[sizeof ctx->error];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text - 3)
        return;
    make_one_line(text);
    if (!strncmp(ctx->error, text, (size_t)n) && !strncmp(ctx->error + n, ": ", 2))
        return; /* it is named already */
    const int room = (int)sizeof text - n - 3; /* the old text is cut at its end, if at all */
    snprintf(text + n, sizeof text - (size_t)n, ": %.*s", room, ctx->error);
    make_one_line(text);
    memcpy(ctx->error, text, sizeof text);
}

neap_status neap_context_status(const neap_context *ctx)
{
    return ctx ? ctx->status : NEAP_ENOCONTEXT;
}

const char *neap_context_error(const neap_context *ctx)
{
    if (!ctx)
        return neap_status_text(NEAP_ENOCONTEXT);
    return ctx->error[0] ? ctx->error : neap_status_text(NEAP_OK);
}

void neap_context_clear_error(neap_context *ctx)
{
    ctx->status = NEAP_OK;
    if (!ctx->calls) /* what building stored before a call is not the call's to clear */
        ctx->built = NEAP_OK;
    ctx->error[0] = 0;
}
