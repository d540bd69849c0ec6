/* gather.c - every array that the roots reach, each once, in program order.
 *
 * The list of entries is the queue of the walk itself: no recursion, no stack. Values may be shared
 * between contexts, so nothing is written into arrays; a hash table finds an array's entry. */
#include <string.h>

#include "base/heap_sort.h"
#include "ops/op_table.h"
#include "plan/plan.h"

enum { LEAST_TABLE = 1024 }; /* a page */

static size_t hash_pointer(const void *p)
{
    uint64_t x = (uint64_t)(uintptr_t)p >> 6;
    x *= 0x9E3779B97F4A7C15u;
    return (size_t)(x >> 20);
}

uint32_t np_graph_find(const np_graph *g, const neap_array *a)
{
    for (size_t i = hash_pointer(a) & (g->table_size - 1);; i = (i + 1) & (g->table_size - 1)) {
        uint32_t e = g->table[i];
        if (e == NP_NONE || g->entries[e].array == a)
            return e;
    }
}

static void insert(np_graph *g, uint32_t e)
{
    size_t i = hash_pointer(g->entries[e].array) & (g->table_size - 1);
    while (g->table[i] != NP_NONE)
        i = (i + 1) & (g->table_size - 1);
    g->table[i] = e;
}

static bool rebuild_table(np_graph *g, size_t size)
{
    uint32_t *t = np_workspace_take(g->ctx, size * sizeof *t);
    if (!t)
        return false;
    np_workspace_free(g->ctx, g->table, g->table_size * sizeof *t);
    g->table = t;
    g->table_size = size;
    memset(t, 0xff, size * sizeof *t);
    for (size_t i = 0; i < g->n; i++)
        insert(g, (uint32_t)i);
    return true;
}

bool np_graph_index(np_graph *g)
{
    size_t size = LEAST_TABLE;
    while (size < 2 * g->n)
        size *= 2;
    return rebuild_table(g, size);
}

static bool visit(np_graph *g, neap_array *a)
{
    if (!a || np_graph_find(g, a) != NP_NONE)
        return true;
    if (g->n == NP_NONE - 1 ||
        !np_workspace_grow(g->ctx, &g->entries, &g->capacity, g->n + 1, sizeof *g->entries))
        return false;
    if (2 * (g->n + 1) > g->table_size && !rebuild_table(g, 2 * g->table_size))
        return false;
    g->entries[g->n] = (np_entry){a, (uint32_t)g->n, NP_NONE, NP_NONE};
    insert(g, (uint32_t)g->n++);
    return true;
}

bool np_graph_runs(const neap_array *a)
{
    return a->op && !(a->op->flags & NP_OP_STATE_READ) && !a->done;
}

static bool check_read(const neap_array *a)
{
    const neap_state *s = a->state;
    if (s->poisoned) {
        np_fail(a->ctx, NEAP_EPOISONED,
                "state %s was left half-written by a failed evaluation: "
                "reset it or write it whole",
                s->name);
        return false;
    }
    if (a->version < s->done) {
        np_fail(a->ctx, NEAP_ESTALE, "a read of state %s after %llu writes is evaluated after %llu",
                s->name, (unsigned long long)a->version, (unsigned long long)s->done);
        return false;
    }
    return true;
}

/* A poisoned state may be written whole: its target is then no real read. */
static bool is_target(const neap_array *reader, uint32_t input)
{
    return (reader->op->flags & NP_OP_EFFECT) && input == 1;
}

/* A write that the state has forgotten (a reset) or passed must not run any more. */
static bool check_write(const neap_array *a)
{
    const neap_state *s = a->state;
    if (!np_graph_runs(a) || !(a->op->flags & NP_OP_EFFECT) || a->version > s->done)
        return true;
    np_fail(a->ctx, NEAP_ESTALE, "write %llu of state %s is evaluated after %llu or a reset",
            (unsigned long long)a->version, s->name, (unsigned long long)s->done);
    return false;
}

static bool visit_inputs(np_graph *g, neap_array *a)
{
    if (!check_write(a))
        return false;
    if (a->base && !visit(g, a->base))
        return false;
    if (a->after && !visit(g, a->after))
        return false;
    if (a->done)
        return true;
    for (uint32_t i = 0; i < a->n_in; i++) {
        const neap_array *s = np_storage(a->in[i]);
        if (a->op && s->op == &np_op_state_read && !is_target(a, i) && !check_read(s))
            return false;
        if (!visit(g, a->in[i]))
            return false;
    }
    return true;
}

/* ---- program order ------------------------------------------------------------------------------
 */

static uint64_t sort_key(const np_entry *e)
{
    const neap_array *a = e->array;
    bool is_value = a->buffer && !a->base;
    return is_value ? 0 : a->sequence + 1;
}

static bool entry_before(const void *user, const np_entry *a, const np_entry *b)
{
    (void)user;
    return sort_key(a) < sort_key(b);
}

NP_HEAP_SORT(sort_by_sequence, np_entry, const void *, entry_before)

/* Values keep the order in which the walk met them, or equal graphs would get different keys. */
static void sort_entries(np_graph *g)
{
    size_t values = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (sort_key(&g->entries[i]) == 0) {
            np_entry e = g->entries[i];
            g->entries[i] = g->entries[values];
            g->entries[values++] = e;
        }
    }
    sort_by_sequence(NULL, g->entries + values, g->n - values);
    for (size_t i = 0; i < g->n; i++)
        g->entries[i].canonical = (uint32_t)i;
}

neap_status np_graph_gather(neap_context *ctx, int n_roots, neap_array *const *roots, np_graph *g)
{
    *g = (np_graph){.ctx = ctx, .roots = roots, .n_roots = n_roots};
    bool ok = rebuild_table(g, LEAST_TABLE);
    for (int i = 0; ok && i < n_roots; i++) {
        const neap_array *s = np_storage(roots[i]);
        ok = (s->op != &np_op_state_read || check_read(s)) && visit(g, roots[i]);
    }
    for (size_t i = 0; ok && i < g->n; i++)
        ok = visit_inputs(g, g->entries[i].array);
    if (ok) {
        sort_entries(g);
        memset(g->table, 0xff, g->table_size * sizeof *g->table);
        for (size_t i = 0; i < g->n; i++)
            insert(g, (uint32_t)i);
        return NEAP_OK;
    }
    np_graph_free(g);
    return ctx->status;
}

void np_graph_free(np_graph *g)
{
    if (!g->ctx)
        return;
    np_workspace_free(g->ctx, g->entries, g->capacity * sizeof *g->entries);
    np_workspace_free(g->ctx, g->table, g->table_size * sizeof *g->table);
    *g = (np_graph){0};
}
