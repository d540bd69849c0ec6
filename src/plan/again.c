/* again.c - a graph in which some values are made a second time, right before a later user of theirs.
 *
 * A second making is a node like any other: a copy of the first one's array with an entry of its own.
 * Whoever comes later reads that, so it is a copy, too, and its own array is a twin of the copy. Thus
 * nothing that plans the graph knows of all this. Arrays that others hold are not written to. */
#include "plan/again.h"

#include <string.h>

/* ---- copies of arrays ---------------------------------------------------------------------------- */

enum { FIRST_CHUNK = 8 << 10, CHUNK = 32 << 10 }; /* bytes */

typedef struct np_array_chunk {
    struct np_array_chunk *next;
    size_t bytes, used;
} np_array_chunk;

static neap_array *copy_array(np_again_graph *to, const neap_array *a)
{
    const size_t align = _Alignof(neap_array);
    const size_t own = (np_array_bytes(a) + a->n_in * sizeof(neap_array *) + align - 1) / align * align;
    const size_t head = (sizeof(np_array_chunk) + align - 1) / align * align;
    np_array_chunk *c = to->copies;
    if (!c || c->bytes - c->used < own) {
        size_t bytes = c ? CHUNK : FIRST_CHUNK;
        bytes = head + own > bytes ? head + own : bytes;
        c = np_workspace_take(to->g.ctx, bytes);
        if (!c)
            return NULL;
        *c = (np_array_chunk){.next = to->copies, .bytes = bytes, .used = head};
        to->copies = c;
    }
    neap_array *copy = (neap_array *)(void *)((uint8_t *)c + c->used);
    c->used += own;
    memcpy(copy, a, np_array_bytes(a));
    copy->in = (neap_array **)(void *)((uint8_t *)copy + np_array_bytes(a));
    if (a->n_in)
        memcpy(copy->in, a->in, a->n_in * sizeof *copy->in);
    return copy;
}

/* ---- entries ------------------------------------------------------------------------------------- */

typedef struct maker {
    const np_graph *from;
    np_again_graph *to;
    uint32_t *now;    /* by entry of `from`: its entry */
    uint32_t *latest; /* its latest second making, or NP_NONE */
    uint32_t *view;   /* of a view: the latest one of a second making */
    uint32_t at;      /* the entry that is copied now */
} maker;

static bool add_entry(maker *m, neap_array *a, uint32_t origin, uint32_t canonical, uint32_t *out)
{
    np_again_graph *to = m->to;
    np_graph *g = &to->g;
    if (!np_workspace_grow(g->ctx, &g->entries, &g->capacity, g->n + 1, sizeof *g->entries) ||
        !np_workspace_grow(g->ctx, &to->origin, &to->origin_capacity, g->n + 1, sizeof *to->origin) ||
        !np_workspace_grow(g->ctx, &to->place, &to->place_capacity, g->n + 1, sizeof *to->place))
        return false;
    *out = (uint32_t)g->n++;
    g->entries[*out] = (np_entry){a, canonical == NP_NONE ? *out : canonical, NP_NONE, NP_NONE};
    to->origin[*out] = origin;
    to->place[*out] = m->at;
    return true;
}

/* Where what `in` looks at is made again, or NP_NONE. */
static uint32_t made_again(const maker *m, const neap_array *in)
{
    const neap_array *a = m->from->entries[np_canonical(m->from, in)].array;
    return m->latest[np_canonical(m->from, np_storage_const(a))];
}

/* Input `in` as it is seen from here on: a second making, or the same view of it. */
static bool see(maker *m, neap_array **in)
{
    const uint32_t e = np_canonical(m->from, *in), again = made_again(m, *in);
    const neap_array *a = m->from->entries[e].array;
    np_graph *g = &m->to->g;
    if (again == NP_NONE)
        return true;
    if (!a->base) {
        *in = g->entries[again].array;
        return true;
    }
    neap_array *made = g->entries[again].array;
    if (m->view[e] == NP_NONE || g->entries[m->view[e]].array->base != made) {
        neap_array *copy = copy_array(m->to, a);
        if (!copy || !add_entry(m, copy, e, NP_NONE, &m->view[e]))
            return false;
        copy->base = made;
    }
    *in = g->entries[m->view[e]].array;
    return true;
}

/* A copy of entry e of `from` with its inputs as they are seen from here on. */
static bool add_copy(maker *m, uint32_t e, uint32_t *out)
{
    neap_array *copy = copy_array(m->to, m->from->entries[e].array);
    if (!copy)
        return false;
    for (uint32_t i = 0; i < copy->n_in; i++)
        if (!see(m, &copy->in[i]))
            return false;
    return add_entry(m, copy, e, NP_NONE, out);
}

static bool add_own(maker *m, uint32_t e)
{
    const np_entry *own = &m->from->entries[e];
    bool other = false;
    uint32_t twin;
    if (own->canonical == e && np_graph_runs(own->array))
        for (uint32_t i = 0; i < own->array->n_in; i++)
            other |= made_again(m, own->array->in[i]) != NP_NONE;
    if (other) /* entries never look at their twin: it only finds the copy */
        return add_copy(m, e, &m->now[e]) && add_entry(m, own->array, e, m->now[e], &twin);
    return add_entry(m, own->array, e, own->canonical == e ? NP_NONE : m->now[own->canonical],
                     &m->now[e]);
}

static bool add_all(maker *m, const np_again_set *set)
{
    uint32_t k = 0, made;
    for (m->at = 0; m->at < m->from->n; m->at++) {
        for (; k < set->n && set->at[k].before == m->at; k++) {
            if (!add_copy(m, set->at[k].value, &made))
                return false;
            m->latest[set->at[k].value] = made;
        }
        if (!add_own(m, m->at))
            return false;
    }
    return np_graph_index(&m->to->g);
}

bool np_again_graph_make(const np_graph *from, const np_again_set *set, np_again_graph *out)
{
    const size_t n = from->n, bytes = 3 * n * sizeof(uint32_t);
    *out = (np_again_graph){.g = *from};
    out->g.entries = NULL;
    out->g.table = NULL;
    out->g.n = out->g.capacity = out->g.table_size = 0;
    maker m = {.from = from, .to = out, .now = np_workspace_take(from->ctx, bytes)};
    if (!m.now)
        return false;
    memset(m.now, 0xff, bytes);
    m.latest = m.now + n;
    m.view = m.latest + n;
    bool ok = add_all(&m, set);
    np_workspace_free(from->ctx, m.now, bytes);
    return ok;
}

void np_again_settle(const np_again_graph *a, np_builder *b)
{
    for (uint32_t i = 0; i < b->n_values; i++)
        b->value_entry[i] = a->origin[b->value_entry[i]];
    for (uint32_t i = 0; i < b->n_states; i++)
        b->state_entry[i] = a->origin[b->state_entry[i]];
}

void np_again_graph_free(np_again_graph *a)
{
    neap_context *ctx = a->g.ctx;
    if (!ctx)
        return;
    while (a->copies) {
        np_array_chunk *c = a->copies;
        a->copies = c->next;
        np_workspace_free(ctx, c, c->bytes);
    }
    np_workspace_free(ctx, a->origin, a->origin_capacity * sizeof *a->origin);
    np_workspace_free(ctx, a->place, a->place_capacity * sizeof *a->place);
    np_graph_free(&a->g);
    *a = (np_again_graph){0};
}

/* ---- sets ---------------------------------------------------------------------------------------- */

static bool comes_before(np_again a, np_again b)
{
    return a.before != b.before ? a.before < b.before : a.value < b.value;
}

bool np_again_add(np_again_set *set, np_again one)
{
    uint32_t k = 0;
    while (k < set->n && comes_before(set->at[k], one))
        k++;
    if (set->n == NP_MOST_AGAIN || (k < set->n && !comes_before(one, set->at[k])))
        return false;
    memmove(set->at + k + 1, set->at + k, (set->n - k) * sizeof one);
    set->at[k] = one;
    set->n++;
    return true;
}
