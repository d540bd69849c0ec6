/* uses.c - see uses.h. */
#include "program/uses.h"

#include <string.h>

/* ---- what a node names -------------------------------------------------------------------------- */

typedef struct visitor {
    bool written, vids;
    void (*tid)(void *user, int32_t tid);
    void (*vid)(void *user, uint32_t vid);
    void *user;
} visitor;

static void see_vid(const visitor *v, bool written, bool present, int64_t vid)
{
    if (v->vids && v->written == written && present && vid >= 0)
        v->vid(v->user, (uint32_t)vid);
}

static void see_tid(const visitor *v, bool written, bool present, int64_t tid)
{
    if (!v->vids && v->written == written && present && tid >= 0)
        v->tid(v->user, (int32_t)tid);
}

static void see_tids(const visitor *v, bool written, const np_tids *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        see_tid(v, written, true, t->at[i]);
}

static void see_field(const visitor *v, np_field_kind kind, const void *at)
{
    const np_int *number = at;
    const np_ints *numbers = at;
    const np_float *real = at;
    const np_vid_or_tid *either = at;
    const np_index *index = at;
    const uint32_t *vid = at;
    const int32_t *tid = at;
    switch (kind) {
    case NP_FIELD_TID:
    case NP_FIELD_OPT_TID:
    case NP_FIELD_OUT:
        see_tid(v, kind == NP_FIELD_OUT, true, *tid);
        break;
    case NP_FIELD_TIDS:
    case NP_FIELD_OUTS:
        see_tids(v, kind == NP_FIELD_OUTS, at);
        break;
    case NP_FIELD_OUT_VID:
        see_vid(v, true, true, *vid);
        break;
    case NP_FIELD_OPT_VID:
        see_vid(v, false, true, *tid);
        break;
    case NP_FIELD_INT:
    case NP_FIELD_OPT_INT:
        see_vid(v, false, number->is_vid, number->value);
        break;
    case NP_FIELD_INTS:
        for (uint32_t i = 0; i < numbers->n; i++)
            see_vid(v, false, numbers->at[i].is_vid, numbers->at[i].value);
        break;
    case NP_FIELD_FLOAT:
        see_vid(v, false, real->is_vid, real->vid);
        break;
    case NP_FIELD_VID_OR_TID:
        see_vid(v, false, either->is_vid, either->number);
        see_tid(v, false, !either->is_vid, either->number);
        break;
    case NP_FIELD_INDEX:
        see_vid(v, false, index->kind == NP_INDEX_VID, index->value);
        see_tid(v, false, index->kind == NP_INDEX_TID, index->value);
        break;
    default:
        break;
    }
}

static void see(const np_instruction *node, const visitor *v)
{
    const np_node_type *t = np_node_type_of(node->number);
    for (uint32_t f = 0; f < t->n_fields; f++)
        see_field(v, t->fields[f].kind, (const char *)node->fields + t->fields[f].offset);
}

void np_node_tids(const np_instruction *node, bool written, void (*visit)(void *user, int32_t tid),
                  void *user)
{
    see(node, &(visitor){.written = written, .tid = visit, .user = user});
}

void np_node_vids(const np_instruction *node, bool written, void (*visit)(void *user, uint32_t vid),
                  void *user)
{
    see(node, &(visitor){.written = written, .vids = true, .vid = visit, .user = user});
}

/* ---- sets --------------------------------------------------------------------------------------- */

bool np_bits_make(neap_context *ctx, uint32_t n, np_bits *out)
{
    out->n = n;
    out->at = np_calloc(ctx, NEAP_MEM_GRAPH, n / 8 + 1);
    return out->at != NULL;
}

void np_bits_free(neap_context *ctx, np_bits *b)
{
    np_free(ctx, NEAP_MEM_GRAPH, b->at, b->n / 8 + 1);
    b->at = NULL;
}

static void add_tid(void *user, int32_t tid)
{
    np_bit_set(user, (uint32_t)tid);
}

static void add_vid(void *user, uint32_t vid)
{
    np_bit_set(user, vid);
}

/* The loader has refused cycles, deep nesting and too many paths. */
static void collect(const np_mlx_graph *g, uint32_t chain, const visitor *v)
{
    const np_chain *c = &g->chains[chain];
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t inner[2];
        see(&c->nodes[i], v);
        for (uint32_t k = np_node_chains(&c->nodes[i], inner); k > 0; k--)
            collect(g, inner[k - 1], v);
    }
}

void np_chain_tids(const np_mlx_graph *g, uint32_t chain, bool written, np_bits *out)
{
    collect(g, chain, &(visitor){.written = written, .tid = add_tid, .user = out});
}

void np_chain_vids(const np_mlx_graph *g, uint32_t chain, bool written, np_bits *out)
{
    collect(g, chain, &(visitor){.written = written, .vids = true, .vid = add_vid, .user = out});
}

/* ---- updates in place ------------------------------------------------------------------------------ */

/* Walking backwards, target[t] is the buffer that tensor t's present value will end in. An update
 * whose result ends in a buffer may be done in it, if it also starts from it: the walk sees that.
 * A chain that is run from several places is gone through for each. */
typedef struct in_place {
    const np_mlx_graph *g;
    np_uses *u;
    uint32_t first_buffer, n_buffers;
} in_place;
enum { NOT_SEEN = -2, NO_BUFFER = -1 };

static void forget(void *user, int32_t tid)
{
    int32_t *target = user;
    target[tid] = NO_BUFFER;
}

static int32_t ends_in(const in_place *p, int32_t *target, int32_t out)
{
    bool buffer = (uint32_t)out - p->first_buffer < p->n_buffers;
    int32_t to = buffer ? out : target[out];
    target[out] = NO_BUFFER;
    return to;
}

static void follow_update(const in_place *p, int32_t *target, uint32_t chain, uint32_t i,
                          int32_t dst, int32_t out)
{
    int32_t to = ends_in(p, target, out), *known = &p->u->in_place[chain][i];
    *known = *known == NOT_SEEN || *known == to ? to : NO_BUFFER;
    if (to >= 0 && dst != to)
        target[dst] = to;
}

static bool follow_branches(const in_place *p, int32_t *target, const np_node_if *n);

static bool follow_chain(const in_place *p, int32_t *target, uint32_t chain)
{
    const np_chain *c = &p->g->chains[chain];
    for (uint32_t i = c->n; i-- > 0;) {
        const np_instruction *node = &c->nodes[i];
        if (node->number == NP_NODE_id_copy) {
            const np_node_id_copy *n = node->fields;
            int32_t to = ends_in(p, target, n->out);
            if (to >= 0 && n->x != to)
                target[n->x] = to;
        } else if (node->number == NP_NODE_slice_update) {
            const np_node_slice_update *n = node->fields;
            follow_update(p, target, chain, i, n->dst, n->out);
        } else if (node->number == NP_NODE_index_copy) {
            const np_node_index_copy *n = node->fields;
            follow_update(p, target, chain, i, n->dst, n->out);
        } else if (node->number == NP_NODE_if) {
            if (!follow_branches(p, target, node->fields))
                return false;
        } else {
            np_node_tids(node, true, forget, target);
            if (node->number == NP_NODE_scan) {
                visitor v = {.written = true, .tid = forget, .user = target};
                collect(p->g, ((const np_node_scan *)node->fields)->body_chain_idx, &v);
            }
        }
    }
    return true;
}

/* A value's end counts only if both branches agree on it. */
static bool follow_branches(const in_place *p, int32_t *target, const np_node_if *n)
{
    size_t bytes = p->g->n_tensors * sizeof *target;
    int32_t *other = np_alloc(p->g->ctx, NEAP_MEM_GRAPH, bytes);
    if (!other)
        return false;
    memcpy(other, target, bytes);
    bool ok = follow_chain(p, target, n->then_chain_idx) && follow_chain(p, other, n->else_chain_idx);
    for (uint32_t t = 0; t < p->g->n_tensors; t++)
        if (target[t] != other[t])
            target[t] = NO_BUFFER;
    np_free(p->g->ctx, NEAP_MEM_GRAPH, other, bytes);
    return ok;
}

static bool find_in_place(const np_mlx_graph *g, np_uses *u)
{
    in_place p = {g, u, np_first_buffer(g), g->n_buffers};
    u->in_place = np_calloc(g->ctx, NEAP_MEM_GRAPH, g->n_chains * sizeof *u->in_place);
    if (!u->in_place)
        return false;
    for (uint32_t c = 0; c < g->n_chains; c++) {
        u->in_place[c] = np_alloc(g->ctx, NEAP_MEM_GRAPH, g->chains[c].n * sizeof **u->in_place);
        if (!u->in_place[c])
            return false;
        for (uint32_t i = 0; i < g->chains[c].n; i++)
            u->in_place[c][i] = NOT_SEEN;
    }
    if (!g->n_buffers)
        return true;
    size_t bytes = g->n_tensors * sizeof(int32_t);
    int32_t *target = np_alloc(g->ctx, NEAP_MEM_GRAPH, bytes);
    if (!target)
        return false;
    memset(target, 0xff, bytes); /* NO_BUFFER */
    bool ok = follow_chain(&p, target, g->main_chain);
    np_free(g->ctx, NEAP_MEM_GRAPH, target, bytes);
    return ok;
}

/* ---- dead temporaries of main ----------------------------------------------------------------------- */

/* Tensors that other chains name are never dropped: which of them runs is not known here. Nor are
 * results, which may be temporaries. */
typedef struct drops {
    np_uses *u;
    np_bits *shared, *live;
    uint32_t first_temp;
    bool ok;
} drops;

static void drop_dead(void *user, int32_t tid)
{
    drops *d = user;
    uint32_t t = (uint32_t)tid;
    if (!d->ok || t < d->first_temp || np_bit(d->shared, t) || np_bit(d->live, t))
        return;
    np_bit_set(d->live, t);
    d->ok = np_grow(d->u->g->ctx, NEAP_MEM_GRAPH, &d->u->drops, &d->u->drops_capacity,
                    d->u->n_drops + 1, sizeof *d->u->drops);
    if (d->ok)
        d->u->drops[d->u->n_drops++] = tid;
}

static void end_life(void *user, int32_t tid)
{
    np_bits *live = user;
    live->at[(uint32_t)tid / 8] &= (uint8_t) ~(1 << ((uint32_t)tid % 8));
}

/* Backwards, so that those of an instruction come before those of the one before it. */
static bool find_drops(const np_mlx_graph *g, np_uses *u)
{
    const np_chain *main = &g->chains[g->main_chain];
    np_bits shared = {0}, live = {0};
    u->drop_start = np_alloc(g->ctx, NEAP_MEM_GRAPH, (main->n + 1) * sizeof *u->drop_start);
    drops d = {u, &shared, &live, np_first_temp(g), true};
    d.ok = u->drop_start && np_bits_make(g->ctx, g->n_tensors, &shared) &&
           np_bits_make(g->ctx, g->n_tensors, &live);
    for (uint32_t i = 0; d.ok && i < g->n_output_slots; i++)
        if (!g->output_slots[i].is_value)
            np_bit_set(&shared, g->output_slots[i].number);
    for (uint32_t c = 0; d.ok && c < g->n_chains; c++)
        for (uint32_t i = 0; c != g->main_chain && i < g->chains[c].n; i++) {
            np_node_tids(&g->chains[c].nodes[i], false, add_tid, &shared);
            np_node_tids(&g->chains[c].nodes[i], true, add_tid, &shared);
        }
    for (uint32_t i = main->n; d.ok && i-- > 0;) {
        u->drop_start[i + 1] = (uint32_t)u->n_drops;
        np_node_tids(&main->nodes[i], true, drop_dead, &d); /* a result that nobody reads */
        np_node_tids(&main->nodes[i], false, drop_dead, &d);
        np_node_tids(&main->nodes[i], true, end_life, &live);
        np_node_tids(&main->nodes[i], false, add_tid, &live);
    }
    if (d.ok)
        u->drop_start[0] = (uint32_t)u->n_drops;
    np_bits_free(g->ctx, &shared);
    np_bits_free(g->ctx, &live);
    return d.ok;
}

neap_status np_uses_make(const np_mlx_graph *g, np_uses **out)
{
    *out = NULL;
    np_uses *u = np_calloc(g->ctx, NEAP_MEM_GRAPH, sizeof *u);
    if (!u)
        return NEAP_ENOMEM;
    u->g = g;
    if (find_in_place(g, u) && find_drops(g, u)) {
        *out = u;
        return NEAP_OK;
    }
    np_uses_free(u);
    return g->ctx->status;
}

void np_uses_free(np_uses *u)
{
    if (!u)
        return;
    const np_mlx_graph *g = u->g;
    for (uint32_t c = 0; u->in_place && c < g->n_chains; c++)
        np_free(g->ctx, NEAP_MEM_GRAPH, u->in_place[c], g->chains[c].n * sizeof **u->in_place);
    np_free(g->ctx, NEAP_MEM_GRAPH, u->in_place, g->n_chains * sizeof *u->in_place);
    np_free(g->ctx, NEAP_MEM_GRAPH, u->drop_start,
            (g->chains[g->main_chain].n + 1) * sizeof *u->drop_start);
    np_free(g->ctx, NEAP_MEM_GRAPH, u->drops, u->drops_capacity * sizeof *u->drops);
    np_free(g->ctx, NEAP_MEM_GRAPH, u, sizeof *u);
}
