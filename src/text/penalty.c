/* penalty.c - see penalty.h. */
#include "text/penalty.h"

#include "base/context.h"
#include "base/heap_sort.h"

neap_status np_penalty_init(neap_context *ctx, np_penalty *p, float factor, int32_t last)
{
    *p = (np_penalty){.factor = factor};
    if (factor == 1 || last == 0)
        return NEAP_OK;
    p->capacity = last;
    p->ring = np_alloc(ctx, NEAP_MEM_HOST, (size_t)last * sizeof *p->ring);
    p->changed = np_alloc(ctx, NEAP_MEM_HOST, (size_t)last * sizeof *p->changed);
    if (p->ring && p->changed)
        return NEAP_OK;
    np_penalty_free(ctx, p);
    return NEAP_ENOMEM;
}

void np_penalty_free(neap_context *ctx, np_penalty *p)
{
    np_free(ctx, NEAP_MEM_HOST, p->ring, (size_t)p->capacity * sizeof *p->ring);
    np_free(ctx, NEAP_MEM_HOST, p->changed, (size_t)p->capacity * sizeof *p->changed);
    *p = (np_penalty){.factor = 1};
}

void np_penalty_accept(np_penalty *p, const int32_t *ids, int64_t n)
{
    if (p->capacity == 0)
        return;
    for (int64_t i = n > p->capacity ? n - p->capacity : 0; i < n; i++)
        p->ring[p->accepted++ % (uint64_t)p->capacity] = ids[i];
}

static bool id_before(const void *none, const np_changed *a, const np_changed *b)
{
    (void)none;
    return a->id < b->id;
}
NP_HEAP_SORT(sort_by_id, np_changed, const void *, id_before)

np_scores np_penalty_apply(np_penalty *p, const float *logits, int32_t vocabulary)
{
    const uint64_t held = p->accepted < (uint64_t)p->capacity ? p->accepted : (uint64_t)p->capacity;
    size_t n = 0, kept = 0;
    for (uint64_t i = 0; i < held; i++) {
        const int32_t id = p->ring[i];
        if (id < 0 || id >= vocabulary)
            continue;
        const float score = logits[id];
        p->changed[n++] = (np_changed){id, score > 0 ? score / p->factor : score * p->factor};
    }
    sort_by_id(NULL, p->changed, n);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || p->changed[i].id != p->changed[kept - 1].id)
            p->changed[kept++] = p->changed[i];
    return (np_scores){logits, p->changed, p->changed ? p->changed + kept : NULL, 0};
}
