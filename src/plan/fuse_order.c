/* fuse_order.c - the groups that the fuser has come to, each with its members in an order that keeps
 * few tiles alive, and the groups in an order that runs. */
#include <assert.h>
#include <string.h>

#include "plan/fuse.h"

static size_t table_bytes(uint32_t n_tasks)
{
    return ((size_t)n_tasks + 1) * (4 * sizeof(uint32_t) + 3);
}

static bool take_fusion(np_builder *b, np_fusion *o)
{
    const size_t t = b->n_tasks + 1;
    *o = (np_fusion){.n_tasks = b->n_tasks};
    o->group = np_workspace_take(b->ctx, table_bytes(o->n_tasks));
    if (!o->group)
        return false;
    o->first = o->group + t;
    o->task = o->first + t;
    o->order = o->task + t;
    o->axes = (uint8_t *)(o->order + t);
    o->heavy = (bool *)(o->axes + t);
    o->lacks = (uint8_t *)(o->heavy + t);
    return true;
}

bool np_fusion_copy(np_builder *b, const np_fusion *from, np_fusion *to)
{
    if (!take_fusion(b, to))
        return false;
    memcpy(to->group, from->group, table_bytes(from->n_tasks));
    to->n_groups = from->n_groups;
    to->block_rows = from->block_rows;
    to->block_bytes = from->block_bytes;
    return true;
}

void np_fusion_free(np_builder *b, np_fusion *o)
{
    np_workspace_free(b->ctx, o->group, table_bytes(o->n_tasks));
    *o = (np_fusion){0};
}

/* Does something outside the group read what task m makes, or wait for it? Or nothing at all? */
static bool escapes(np_fuser *f, uint32_t m, uint32_t group)
{
    if (f->b->direct[f->b->tasks[m].entry] != NP_NONE || f->b->out_first[m] == f->b->out_first[m + 1])
        return true;
    for (uint32_t k = f->b->out_first[m]; k < f->b->out_first[m + 1]; k++)
        if (np_fuser_group(f, f->b->edges[f->b->out[k]].to) != group)
            return true;
    return false;
}

/* Members that `root` needs, those first; each once. spare[]: the next edge of what is on the stack. */
static void visit_members(np_fuser *f, np_fusion *o, uint32_t root, uint32_t group, uint32_t *n)
{
    uint32_t depth = 0, *stack = f->queue;
    if (f->seen[root] == f->stamp)
        return;
    f->seen[root] = f->stamp;
    f->spare[root] = f->b->in_first[root];
    stack[depth++] = root;
    while (depth) {
        uint32_t m = stack[depth - 1];
        if (f->spare[m] == f->b->in_first[m + 1]) {
            o->task[(*n)++] = m;
            depth--;
            continue;
        }
        uint32_t from = f->b->edges[f->b->in[f->spare[m]++]].from;
        if (np_fuser_group(f, from) != group || f->seen[from] == f->stamp)
            continue;
        f->seen[from] = f->stamp;
        f->spare[from] = f->b->in_first[from];
        stack[depth++] = from;
    }
}

/* Members in depth first order from what leaves the group, in program order of that. */
static void list_members(np_fuser *f, np_fusion *o)
{
    uint32_t n = 0;
    f->stamp++;
    for (uint32_t t = 0; t < f->b->n_tasks; t++) {
        uint32_t g = np_fuser_group(f, t);
        if (f->first[g] != t)
            continue;
        o->first[o->n_groups] = n;
        o->axes[o->n_groups] = f->axes[g];
        o->heavy[o->n_groups] = f->heavy[g];
        for (uint32_t m = t; m <= f->last[g]; m++)
            if (np_fuser_group(f, m) == g && escapes(f, m, g))
                visit_members(f, o, m, g, &n);
        for (uint32_t k = o->first[o->n_groups]; k < n; k++)
            o->group[o->task[k]] = o->n_groups;
        o->n_groups++;
    }
    o->first[o->n_groups] = n;
}

/* Groups as early as they can run, at their last member's place in program order: a heap of those
 * that wait for nothing. */
static void sift_down(uint32_t *heap, uint32_t n, uint32_t i, const uint32_t *key)
{
    for (;;) {
        uint32_t c = 2 * i + 1;
        if (c >= n)
            return;
        c += c + 1 < n && key[heap[c + 1]] < key[heap[c]];
        if (key[heap[i]] <= key[heap[c]])
            return;
        uint32_t t = heap[i];
        heap[i] = heap[c];
        heap[c] = t;
        i = c;
    }
}

static void sift_up(uint32_t *heap, uint32_t i, const uint32_t *key)
{
    while (i && key[heap[(i - 1) / 2]] > key[heap[i]]) {
        uint32_t t = heap[i], p = (i - 1) / 2;
        heap[i] = heap[p];
        heap[p] = t;
        i = p;
    }
}

static void order_groups(np_fuser *f, np_fusion *o)
{
    uint32_t *key = f->spare, *waits = f->counted, *heap = f->seen, n = 0, done = 0;
    const uint32_t groups = o->n_groups;
    memset(waits, 0, f->b->n_tasks * sizeof *waits);
    for (uint32_t g = 0; g < groups; g++)
        key[g] = f->last[np_fuser_group(f, o->task[o->first[g]])];
    for (size_t k = 0; k < f->b->n_edges; k++)
        waits[o->group[f->b->edges[k].to]] +=
            o->group[f->b->edges[k].from] != o->group[f->b->edges[k].to];
    for (uint32_t g = 0; g < groups; g++)
        if (!waits[g]) {
            heap[n] = g;
            sift_up(heap, n++, key);
        }
    while (n) {
        uint32_t g = heap[0];
        heap[0] = heap[--n];
        sift_down(heap, n, 0, key);
        o->order[done++] = g;
        for (uint32_t i = o->first[g]; i < o->first[g + 1]; i++)
            for (uint32_t k = f->b->out_first[o->task[i]]; k < f->b->out_first[o->task[i] + 1]; k++) {
                uint32_t to = o->group[f->b->edges[f->b->out[k]].to];
                if (to == g || --waits[to])
                    continue;
                heap[n] = to;
                sift_up(heap, n++, key);
            }
    }
    assert(done == groups); /* groups wait for each other in no circle */
}

bool np_fusion_take(np_fuser *f, np_fusion *o)
{
    if (!take_fusion(f->b, o))
        return false;
    list_members(f, o);
    order_groups(f, o);
    memcpy(o->lacks, f->lacks, f->b->n_tasks);
    memset(f->seen, 0, f->b->n_tasks * sizeof *f->seen); /* the heap lay there */
    memset(f->counted, 0, f->b->n_tasks * sizeof *f->counted);
    return true;
}

void np_fuser_bar(np_fuser *f, const np_fusion *fusion, uint32_t group)
{
    for (uint32_t i = fusion->first[group]; i < fusion->first[group + 1]; i++)
        f->barred[fusion->task[i]] = true;
}

void np_fuser_allow_all(np_fuser *f)
{
    memset(f->barred, 0, f->b->n_tasks);
}
