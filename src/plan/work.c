/* work.c - a planner's workspace: whole pages, for a table, for one that grows, or for one user after
 * the other. */
#include <string.h>

#include "plan/plan.h"

void *np_workspace_take(neap_context *ctx, size_t bytes)
{
    return np_alloc_pages(ctx, NEAP_MEM_GRAPH, bytes);
}

void np_workspace_free(neap_context *ctx, void *p, size_t bytes)
{
    np_free_pages(ctx, NEAP_MEM_GRAPH, p, bytes);
}

bool np_workspace_resize(neap_context *ctx, void *table, size_t from, size_t to)
{
    void *old, *new = np_workspace_take(ctx, to);
    if (!new)
        return false;
    memcpy(&old, table, sizeof old);
    if (from)
        memcpy(new, old, from);
    np_workspace_free(ctx, old, from);
    memcpy(table, &new, sizeof new);
    return true;
}

/* Small tables double; large ones grow by half, as old and new are held together. */
static size_t grown(size_t bytes)
{
    enum { LARGE = 32 << 10 };
    return bytes + (bytes < LARGE ? bytes : bytes / 2);
}

bool np_workspace_grow(neap_context *ctx, void *table, size_t *capacity, size_t n, size_t size)
{
    if (n <= *capacity)
        return true;
    const size_t old = *capacity * size, least = grown(np_pages(old));
    if (n > SIZE_MAX / 8 / size) {
        np_fail(ctx, NEAP_ENOMEM, "%zu elements are more than can be addressed", n);
        return false;
    }
    const size_t bytes = np_pages(old && least > n * size ? least : n * size);
    if (!np_workspace_resize(ctx, table, old, bytes))
        return false;
    *capacity = bytes / size;
    return true;
}

void *np_work_take(np_work *w, size_t bytes)
{
    if (bytes <= w->bytes)
        return w->memory;
    const size_t least = w->memory ? grown(w->bytes) : 0;
    bytes = np_pages(least > bytes ? least : bytes);
    np_work_free(w);
    w->memory = np_workspace_take(w->ctx, bytes);
    w->bytes = w->memory ? bytes : 0;
    return w->memory;
}

void np_work_free(np_work *w)
{
    np_workspace_free(w->ctx, w->memory, w->bytes);
    w->memory = NULL;
    w->bytes = 0;
}
