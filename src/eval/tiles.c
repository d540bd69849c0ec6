/* tiles.c - runs a group's step: its members over one tile after the other.
 *
 * Tiles are shared out to the lanes, each with its own memory for what lives in a tile; a streamed
 * group takes its blocks one after the other and gives each member all lanes. Operands are narrowed
 * to the tile: pointers moved, extents cut, everything else as in the whole. */
#include "eval/tiles.h"

#include <stdatomic.h>

#include "base/interrupt.h"
#include "base/threads.h"

enum { LEAST_SHARED = 32768 }; /* elements from which on waking the lanes pays */

typedef struct group_run {
    const neap_plan *plan;
    const np_group *group;
    neap_context *ctx;
    uint8_t *scratch;
    int64_t extent[NP_AXES], blocks, n_tiles; /* blocks: of the last axis */
} group_run;

/* One lane's work: its memory and the tile it is at. */
typedef struct group_lane {
    const group_run *run;
    neap_context *ctx; /* its own error, or two lanes would write one */
    np_pool *pool;
    uint8_t *tiles, *work;
    np_chain_place *places;
    int64_t first[NP_AXES], count;
} group_lane;

/* ---- a tile's operands -------------------------------------------------------------------------- */

static uint8_t *sized_slot_data(const group_lane *l, const np_cut *s, int64_t size)
{
    const np_group *g = l->run->group;
    const np_operand *o = &l->run->plan->operands[s->operand].operand;
    if (s->in_tile)
        return l->tiles + s->tile_at;
    int64_t at = 0;
    for (int j = 0; j < g->n_axes; j++)
        if (s->cut[j] >= 0)
            at += l->first[j] * o->strides[s->cut[j]];
    return o->data + at * size;
}

static uint8_t *slot_data(const group_lane *l, const np_cut *s)
{
    const np_operand *o = &l->run->plan->operands[s->operand].operand;
    return sized_slot_data(l, s, np_element_bytes((neap_dtype)o->dtype));
}

/* The rows that a slot sees of the last axis, if members need some about their block. */
static void narrow_rows(const group_lane *l, const np_cut *s, np_operand *out)
{
    const np_group *g = l->run->group;
    const neap_plan *p = l->run->plan;
    const int d = s->cut[g->n_axes - 1];
    if (g->windows == NP_NONE || d < 0)
        return;
    const np_slot_window *w =
        &p->windows[g->windows + (uint32_t)(s - &p->slots[p->members[g->first_member].first_slot])];
    const int64_t at = l->first[g->n_axes - 1], whole = p->operands[s->operand].operand.shape[d];
    const int64_t made = at > w->made ? at - w->made : 0; /* where the tile begins */
    int64_t begin;
    out->shape[d] = np_slot_rows(w, at, l->count, whole, &begin);
    out->data += (begin - (s->in_tile ? made : at)) * out->strides[d] *
                 np_element_bytes((neap_dtype)out->dtype);
}

static void narrow(const group_lane *l, const np_cut *s, np_operand *out)
{
    const int n = l->run->group->n_axes;
    *out = l->run->plan->operands[s->operand].operand;
    out->data = slot_data(l, s);
    for (int j = 0; j < n; j++)
        if (s->cut[j] >= 0)
            out->shape[s->cut[j]] = j + 1 < n ? 1 : l->count;
    narrow_rows(l, s, out);
}

/* The first row of what a member makes in this block. */
static int64_t first_row(const group_lane *l, const np_cut *s)
{
    const np_group *g = l->run->group;
    const neap_plan *p = l->run->plan;
    const int64_t at = l->first[g->n_axes - 1];
    const int32_t before =
        p->windows[g->windows + (uint32_t)(s - &p->slots[p->members[g->first_member].first_slot])].w.before;
    return at > before ? at - before : 0;
}

/* ---- members ------------------------------------------------------------------------------------ */

static neap_status run_member(const group_lane *l, const np_member *m)
{
    const neap_plan *p = l->run->plan;
    const np_cut *s = &p->slots[m->first_slot];
    const np_operand *whole = &p->operands[s->operand].operand, *at[NP_GROUP_INPUTS];
    np_operand part[1 + NP_GROUP_INPUTS];
    int64_t first[NEAP_MAX_RANK] = {0};
    for (uint32_t i = 0; i <= m->n_in; i++) {
        narrow(l, &s[i], &part[i]);
        if (i)
            at[i - 1] = &part[i];
    }
    for (int j = 0; j < l->run->group->n_axes; j++)
        if (s->cut[j] >= 0)
            first[s->cut[j]] = l->first[j];
    if (l->run->group->windows != NP_NONE && s->cut[l->run->group->n_axes - 1] >= 0)
        first[s->cut[l->run->group->n_axes - 1]] = first_row(l, s);
    np_call call = {.ctx = l->ctx, .pool = l->pool, .op = m->op, .attr = m->attr, .n_in = m->n_in,
                    .in = at, .out = &part[0], .scratch = l->work, .first = first,
                    .whole = whole->shape};
    neap_status status = m->op->run(&call);
    if (status != NEAP_OK)
        np_fail_prefix(l->ctx, "%s", m->name);
    return status;
}

/* Rows that lie as the kernel wants them. */
static void run_rows(const group_lane *l, const np_member *m)
{
    const np_cut *s = &l->run->plan->slots[m->first_slot];
    const np_member_rows *r = &l->run->plan->rows[m->rows];
    if (r->op.reduce) {
        const np_reduce_args a = {.out = slot_data(l, &s[0]), .x = slot_data(l, &s[1]),
                                  .outer = l->count, .n = r->n, .inner = 1,
                                  .outer_stride = r->stride, .stride = 1};
        r->op.reduce(&a);
        return;
    }
    np_rows_args a = {.out = slot_data(l, &s[0]), .x = slot_data(l, &s[1]), .rows = l->count,
                      .n = r->n, .out_stride = r->out_stride, .x_stride = r->stride,
                      .eps = r->op.eps};
    if (r->op.weight)
        a.weight = slot_data(l, &s[2]);
    if (r->op.bias)
        a.bias = slot_data(l, &s[2 + r->op.weight]);
    r->op.rows(&a);
}

/* Places are found anew for each tile; what the whole group shares stays where it is. */
static void run_chain(const group_lane *l, const np_member *m)
{
    const neap_plan *p = l->run->plan;
    for (uint32_t i = 0; i < m->n_places; i++) {
        const np_chain_source *s = &p->chain_places[m->first_place + i];
        l->places[i] = (np_chain_place){sized_slot_data(l, &p->slots[s->slot], s->size), s->row, s->size,
                                        s->one, false};
    }
    l->ctx->kernels->chain->run(p->chain_ops + m->first_op, (int)m->n_chain, l->places,
                                m->flat ? 1 : l->count, m->flat ? m->row_n * l->count : m->row_n);
}

static neap_status run_tile(const group_lane *l)
{
    const np_group *g = l->run->group;
    const np_member *members = l->run->plan->members + g->first_member;
    for (uint32_t m = 0; m < g->n_members;) {
        neap_status status = NEAP_OK;
        if (members[m].n_chain) {
            run_chain(l, &members[m]);
            m += members[m].n_chain;
        } else if (members[m].rows != NP_NONE) {
            run_rows(l, &members[m++]);
        } else {
            status = run_member(l, &members[m++]);
        }
        if (status != NEAP_OK)
            return status;
    }
    return NEAP_OK;
}

/* ---- tiles -------------------------------------------------------------------------------------- */

static void seek(group_lane *l, int64_t tile)
{
    const group_run *r = l->run;
    const int last = r->group->n_axes - 1;
    l->first[last] = tile % r->blocks * r->group->block;
    int64_t left = r->extent[last] - l->first[last];
    l->count = left < r->group->block ? left : r->group->block;
    tile /= r->blocks;
    for (int j = last - 1; j >= 0; j--) {
        l->first[j] = tile % r->extent[j];
        tile /= r->extent[j];
    }
}

static neap_status run_tiles(group_lane *l, int64_t begin, int64_t end)
{
    const np_group *g = l->run->group;
    neap_status status = NEAP_OK;
    l->work = l->tiles ? l->tiles + g->tile_bytes : NULL;
    np_chain_place few[NP_LANE_PLACES];
    const bool many = g->lane_bytes > g->tile_bytes + g->work_bytes;
    l->places = many ? (np_chain_place *)(void *)(l->work + g->work_bytes) : few;
    for (; begin < end && status == NEAP_OK && !np_stop(); begin++) {
        seek(l, begin);
        status = run_tile(l);
    }
    if (g->far)
        l->ctx->kernels->chain->fence();
    return status;
}

typedef struct group_job {
    group_run run;
    atomic_bool failed; /* one lane tells its error, the first to come */
    neap_status status; /* that lane's */
} group_job;

static void group_task(void *arg, int lane, int lanes)
{
    group_job *job = arg;
    const group_run *r = &job->run;
    neap_context own = {.kernels = r->ctx->kernels};
    int64_t begin, end;
    np_share(r->n_tiles, 1, lane, lanes, &begin, &end);
    group_lane l = {.run = r, .ctx = &own};
    l.tiles = r->scratch ? r->scratch + (uint64_t)lane * r->group->lane_bytes : NULL;
    neap_status status = run_tiles(&l, begin, end);
    if (status != NEAP_OK && !atomic_exchange(&job->failed, true))
        job->status = np_fail(r->ctx, status, "%s", own.error);
}

/* The axes' extents in this run. */
static void set_extents(group_run *r)
{
    const np_group *g = r->group;
    const np_operand *o = &r->plan->operands[g->extents_of].operand;
    const int last = g->n_axes - 1;
    r->n_tiles = 1;
    for (int j = 0; j < last; j++) {
        r->extent[j] = o->shape[g->extent_dim[j]];
        r->n_tiles *= r->extent[j];
    }
    r->extent[last] = o->shape[g->extent_dim[last]];
    r->blocks = (r->extent[last] + g->block - 1) / g->block;
    r->n_tiles *= r->blocks;
}

neap_status np_group_run(const neap_plan *p, const np_group *g, uint8_t *scratch)
{
    group_job job = {.run = {.plan = p, .group = g, .ctx = p->ctx, .scratch = scratch}};
    set_extents(&job.run);
    if (g->streamed) {
        group_lane l = {.run = &job.run, .ctx = p->ctx, .pool = p->ctx->pool, .tiles = scratch};
        return run_tiles(&l, 0, job.run.n_tiles);
    }
    np_pool_run(g->elements >= LEAST_SHARED ? p->ctx->pool : NULL, group_task, &job);
    return job.status;
}
