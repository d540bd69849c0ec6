/* scope.c - open scopes: lists of the arrays to release, and the thread's current context.
 *
 * The current context is the only thread-local in the library: ops need no context argument. */
#include "array/array.h"

enum { MAX_SCOPES = 64 };

typedef struct np_scopes {
    int depth;
    neap_array *first[MAX_SCOPES];      /* through `link` */
    neap_context *previous[MAX_SCOPES]; /* current context before the push */
} np_scopes;

static _Thread_local neap_context *current;

/* Contexts whose scopes were popped in another order than pushed may name one without a scope. */
neap_context *np_scope_context(void)
{
    const np_scopes *s = current ? current->slot[NP_SLOT_SCOPE] : NULL;
    return s && s->depth > 0 ? current : NULL;
}

static void free_scopes(neap_context *ctx, void *p)
{
    np_scopes *s = p;
    while (s->depth > 0)
        neap_scope_pop(ctx);
    np_free(ctx, NEAP_MEM_GRAPH, s, sizeof *s);
}

neap_status np_scope_push(neap_context *ctx)
{
    if (!ctx)
        return NEAP_ENOCONTEXT;
    np_scopes *s = ctx->slot[NP_SLOT_SCOPE];
    if (!s) {
        s = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *s);
        if (!s)
            return NEAP_ENOMEM;
        ctx->slot[NP_SLOT_SCOPE] = s;
        ctx->slot_free[NP_SLOT_SCOPE] = free_scopes;
    }
    if (s->depth == MAX_SCOPES)
        return np_fail(ctx, NEAP_ELIMIT, "scopes: %d are open, the limit", MAX_SCOPES);
    s->first[s->depth] = NULL;
    s->previous[s->depth++] = current;
    current = ctx;
    return NEAP_OK;
}

neap_status neap_scope_push(neap_context *ctx)
{
    return NP_CALL(ctx, true, np_scope_push(ctx));
}

void neap_scope_pop(neap_context *ctx)
{
    np_scopes *s = ctx ? ctx->slot[NP_SLOT_SCOPE] : NULL;
    if (!s || s->depth == 0)
        return;
    neap_array *a = s->first[--s->depth];
    current = s->previous[s->depth];
    while (a) {
        neap_array *next = a->link;
        a->link = NULL;
        neap_release(a);
        a = next;
    }
}

void np_scope_add(neap_context *ctx, neap_array *a)
{
    np_scopes *s = ctx->slot[NP_SLOT_SCOPE];
    a->link = s->first[s->depth - 1];
    s->first[s->depth - 1] = a;
}
