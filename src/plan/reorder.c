/* reorder.c - the steps that a builder holds as a bare graph, ordered for the least alive at once. */
#include <string.h>

#include "plan/emit.h"
#include "plan/fuse.h"
#include "plan/order.h"

enum { SEARCH_BYTES = 256 << 10 };

typedef struct reordering {
    np_builder *b;
    const np_fusion *fusion;
    uint32_t n, *position; /* position: of a group in the fusion's order */
    uint32_t *value, n_values; /* by task: its value, or NP_NONE */
    np_order_graph graph;
    uint64_t *bytes, *scratch;
    uint32_t *maker, *over, *use_first, *use, *wait_first, *wait, *order, *seen;
    uint8_t *kept;
    void *memory;
    size_t memory_bytes;
} reordering;

static bool take_tables(reordering *r)
{
    const size_t t = r->b->n_tasks + 1, n = r->n + 2, e = r->b->n_edges + 1;
    r->memory_bytes = (t + n) * sizeof(uint64_t) + (4 * t + 5 * n + 2 * e) * sizeof(uint32_t) + t;
    uint8_t *p = r->memory = np_workspace_take(r->b->ctx, r->memory_bytes);
    if (!p)
        return false;
#define TAKE(field, count) (r->field = (void *)p, p += (count) * sizeof *r->field)
    TAKE(bytes, t);
    TAKE(scratch, n);
    TAKE(maker, t);
    TAKE(over, t);
    TAKE(value, t);
    TAKE(seen, t);
    TAKE(position, n);
    TAKE(order, n);
    TAKE(use_first, n);
    TAKE(wait_first, n);
    TAKE(use, e);
    TAKE(wait, e);
    TAKE(kept, t);
#undef TAKE
    return true;
}

/* Values that lie in the arena between steps; scratch. Node i is the step at position i. */
static void list_values(reordering *r)
{
    const np_builder *b = r->b;
    const np_fusion *f = r->fusion;
    memset(r->value, 0xff, b->n_tasks * sizeof *r->value);
    memset(r->seen, 0xff, b->n_tasks * sizeof *r->seen);
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t g = f->order[i];
        r->position[g] = i;
        if (b->steps[i].scratch != NP_NONE)
            r->scratch[i] = b->blocks[b->steps[i].scratch].bytes;
        for (uint32_t k = f->first[g]; k < f->first[g + 1]; k++) {
            const np_todo *t = &b->tasks[f->task[k]];
            const np_plan_operand *o =
                t->phase == NP_RUN ? &b->operands[b->g->entries[t->entry].operand]
                : t->root == NP_NONE ? &b->operands[b->copy_operand[t->entry]]
                                     : NULL;
            if (!o || o->kind != NP_IN_ARENA || o->storage_bytes == 0 || np_joins(b, t))
                continue;
            r->value[f->task[k]] = r->n_values;
            r->bytes[r->n_values] = b->blocks[o->source].bytes;
            r->maker[r->n_values] = i;
            r->over[r->n_values++] = NP_NONE;
        }
    }
}

/* What each step reads and waits for, each once. */
static void list_edges(reordering *r)
{
    const np_builder *b = r->b;
    const np_fusion *f = r->fusion;
    uint32_t uses = 0, waits = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t g = f->order[i];
        r->use_first[i] = uses;
        r->wait_first[i] = waits;
        for (uint32_t k = f->first[g]; k < f->first[g + 1]; k++)
            for (uint32_t j = b->in_first[f->task[k]]; j < b->in_first[f->task[k] + 1]; j++) {
                const np_edge *e = &b->edges[b->in[j]];
                if (f->group[e->from] == g)
                    continue;
                if (!e->reads || r->value[e->from] == NP_NONE)
                    r->wait[waits++] = r->position[f->group[e->from]];
                else if (r->seen[e->from] != i)
                    r->use[uses++] = r->value[e->from];
                if (e->reads)
                    r->seen[e->from] = i;
            }
    }
    r->use_first[r->n] = uses;
    r->wait_first[r->n] = waits;
}

/* A single op's result takes the place of an input, where it did so in the order at hand. */
static void list_places(reordering *r)
{
    const np_builder *b = r->b;
    for (uint32_t t = 0; t < b->n_tasks; t++) {
        uint32_t v = r->value[t];
        if (v == NP_NONE || b->tasks[t].phase != NP_RUN)
            continue;
        const np_block *own = &b->blocks[b->operands[b->g->entries[b->tasks[t].entry].operand].source];
        for (uint32_t j = b->in_first[t]; j < b->in_first[t + 1]; j++) {
            const np_edge *e = &b->edges[b->in[j]];
            uint32_t from = r->value[e->from];
            if (!e->reads || from == NP_NONE || b->tasks[e->from].phase != NP_RUN || r->kept[from])
                continue;
            const np_block *k =
                &b->blocks[b->operands[b->g->entries[b->tasks[e->from].entry].operand].source];
            if (k->owner != own->owner || k->bytes != own->bytes)
                continue;
            r->over[v] = from;
            r->kept[from] = true; /* named once; cleared below */
            break;
        }
    }
    memset(r->kept, 0, b->n_tasks);
}

bool np_reorder(np_builder *b, np_fusion *fusion, bool *changed)
{
    reordering r = {.b = b, .fusion = fusion, .n = fusion->n_groups};
    *changed = false;
    b->fusion = fusion;
    if (!take_tables(&r))
        return false;
    list_values(&r);
    list_edges(&r);
    list_places(&r);
    r.graph = (np_order_graph){.n_nodes = r.n, .n_values = r.n_values, .bytes = r.bytes,
                               .maker = r.maker, .kept = r.kept, .scratch = r.scratch,
                               .use_first = r.use_first, .use = r.use, .wait_first = r.wait_first,
                               .wait = r.wait, .over = r.over, .workspace = SEARCH_BYTES};
    np_order_result found = {.order = r.order};
    bool ok = np_order_find(b->ctx, &r.graph, &found) == NEAP_OK;
    if (ok && found.peak < found.program_peak) {
        for (uint32_t i = 0; i < r.n; i++)
            r.position[i] = fusion->order[r.order[i]];
        memcpy(fusion->order, r.position, r.n * sizeof *r.position);
        *changed = true;
    }
    b->fusion = NULL;
    np_workspace_free(b->ctx, r.memory, r.memory_bytes);
    return ok;
}
