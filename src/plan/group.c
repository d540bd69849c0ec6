/* group.c - lays out a group's step: its operands and how they are cut, tiles, chains, scratch.
 *
 * An axis is a leading dimension that all members share, but for those that lack it: their tiles are the
 * same for all of its indices. A tile is `block` indices of the last axis used (and one of each before
 * it), so it is a run of adjacent elements of every value made here. */
#include <string.h>

#include "ops/op_table.h"
#include "plan/emit.h"
#include "plan/fuse.h"

enum {
    FLAT_TILE_BYTES = 32 << 10, /* of all that chains touch which take a tile as one row: the first cache */
    ROWS_TILE_BYTES = 64 << 10, /* which go through it row by row */
    TILE_BYTES = 48 << 10,      /* of other groups: the second */
    INNER_ELEMENTS = 4096,       /* a row longer than this is cut along one more axis, if it can be */
    LEAST_PRODUCT_ROWS = 64,     /* a product packs its weights again for each tile */
    FAR_BYTES = 8 << 20          /* results beyond this are not in a cache when they are read again */
};

typedef struct group_layout {
    np_builder *b;
    const np_fusion *fusion;
    uint32_t g, *task, n;
    np_group group;
    np_group_shape shape;
    uint32_t first_slot;
    np_block *tiles; /* by member: lives from making to the last reader inside, in members */
    uint64_t *at;    /* by member: its tile's offset */
    uint32_t *last_reader; /* by member: the last one that reads its result here */
    bool *in_register; /* by member: a chain hands its result on and never stores it */
    bool products;
} group_layout;

/* ---- members and slots ------------------------------------------------------------------------- */

static bool escapes(const group_layout *l, uint32_t task)
{
    const np_builder *b = l->b;
    bool used = false;
    if (b->direct[b->tasks[task].entry] != NP_NONE)
        return true;
    for (uint32_t k = b->out_first[task]; k < b->out_first[task + 1]; k++) {
        const np_edge *e = &b->edges[b->out[k]];
        used |= e->reads;
        if (e->reads && l->fusion->group[e->to] != l->g)
            return true;
    }
    return !used;
}

bool np_emit_slot(np_builder *b, uint32_t operand)
{
    if (!np_builder_grow(b, &b->slots, &b->slots_capacity, b->n_slots + 1,
                 sizeof *b->slots))
        return false;
    np_cut *s = &b->slots[b->n_slots++];
    *s = (np_cut){.operand = operand}; /* a result's is set later */
    s->in_tile = operand < b->n_operands && b->operands[operand].kind == NP_IN_TILE;
    memset(s->cut, -1, sizeof s->cut);
    return true;
}

/* The slots of the task's inputs; those made in the group are alive until this member. */
static bool add_input_slots(group_layout *l, uint32_t m)
{
    np_builder *b = l->b;
    const np_todo *t = &b->tasks[l->task[m]];
    uint32_t n, operand;
    neap_array *const *in = np_task_inputs(b, t, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (!np_emit_input(b, t, i, in[i], &operand) || !np_emit_slot(b, operand))
            return false;
        if (b->operands[operand].kind == NP_IN_TILE)
            l->last_reader[b->operands[operand].source] = m;
    }
    return true;
}

static bool add_result(group_layout *l, uint32_t m, uint32_t slot)
{
    np_builder *b = l->b;
    const np_todo *t = &b->tasks[l->task[m]];
    np_entry *entry = &b->g->entries[t->entry];
    uint32_t block = NP_NONE, operand;
    bool ok = np_joins(b, t) ? np_emit_part(b, t, &operand)
              : escapes(l, l->task[m])
                  ? np_emit_result(b, entry->array, b->direct[t->entry], &operand, &block)
                  : np_emit_operand(b, entry->array, NP_IN_TILE, m,
                                    neap_array_bytes(entry->array), &operand);
    if (!ok)
        return false;
    b->members[l->group.first_member + m].block = block;
    entry->operand = operand;
    b->slots[slot].operand = operand;
    b->slots[slot].in_tile = b->operands[operand].kind == NP_IN_TILE;
    return true;
}

bool np_emit_member(np_builder *b, neap_array *a)
{
    if (!np_builder_grow(b, &b->members, &b->members_capacity, b->n_members + 1,
                 sizeof *b->members) ||
        !np_builder_grow(b, &b->member_array, &b->member_array_capacity, b->n_members + 1, sizeof *b->member_array))
        return false;
    b->member_array[b->n_members] = a;
    b->members[b->n_members++] =
        (np_member){.op = a->op, .first_slot = b->n_slots, .n_in = (uint16_t)a->n_in, .block = NP_NONE,
                    .rows = NP_NONE};
    return true;
}

np_call np_member_call(const np_builder *b, uint32_t member, const np_operand **in)
{
    const np_member *m = &b->members[member];
    for (uint32_t i = 0; i < m->n_in; i++)
        in[i] = &b->operands[b->slots[m->first_slot + 1 + i].operand].operand;
    return (np_call){.ctx = b->ctx, .op = m->op, .attr = b->member_array[member]->attr, .n_in = m->n_in,
                     .in = in, .out = &b->operands[b->slots[m->first_slot].operand].operand};
}

bool np_emit_group_step(np_builder *b, const np_group *g, uint64_t scratch)
{
    const uint32_t last = g->first_member + g->n_members - 1;
    np_raw_step s = {.op = b->members[last].op, .array = b->member_array[last],
                     .first_input = b->n_inputs, .out = b->slots[b->members[last].first_slot].operand,
                     .block = NP_NONE, .scratch = NP_NONE, .group = b->n_groups};
    if (!np_builder_grow(b, &b->groups, &b->groups_capacity, b->n_groups + 1, sizeof *b->groups))
        return false;
    b->groups[b->n_groups++] = *g;
    return (scratch == 0 || np_emit_block(b, scratch, true, &s.scratch)) && np_emit_step(b, &s);
}

static bool add_member(group_layout *l, uint32_t m)
{
    np_builder *b = l->b;
    const np_todo *t = &b->tasks[l->task[m]];
    neap_array *a = b->g->entries[t->entry].array;
    uint32_t slot = b->n_slots;
    if (!np_emit_member(b, a))
        return false;
    l->tiles[m] = (np_block){.first = m, .owner = m};
    l->last_reader[m] = m;
    l->products |= a->op == &np_op_matmul || a->op == &np_op_addmm;
    return np_emit_slot(b, 0) && add_input_slots(l, m) && add_result(l, m, slot);
}

/* ---- axes and tiles ---------------------------------------------------------------------------- */

static np_operand *slot_operand(const group_layout *l, const np_cut *s)
{
    return &l->b->operands[s->operand].operand;
}

static int64_t elements(const np_operand *o)
{
    return np_size(o->rank, o->shape);
}

/* Elements of a result for one index of each of the first n axes. */
static int64_t inner(const group_layout *l, uint32_t m, int n)
{
    const np_builder *b = l->b;
    int64_t size = elements(slot_operand(l, &b->slots[b->members[l->group.first_member + m].first_slot]));
    for (int j = 0; j < n; j++)
        if (!(l->fusion->lacks[l->task[m]] >> j & 1))
            size /= l->shape.extent[j];
    return size;
}

/* Has every member the n-th axis? A tile is of several indices of the last one. */
static bool all_have(const group_layout *l, int n)
{
    bool all = true;
    for (uint32_t m = 0; m < l->n; m++)
        all &= !(l->fusion->lacks[l->task[m]] >> (n - 1) & 1);
    return all;
}

/* As few axes as make rows short and take in all extents that are set at run time. */
static void choose_axes(group_layout *l)
{
    int64_t longest = INT64_MAX;
    int n = 0;
    while (n < l->shape.n_axes && (longest > INNER_ELEMENTS || np_axes_set_later(&l->shape, n) ||
                                   !all_have(l, n))) {
        n++;
        longest = 0;
        for (uint32_t m = 0; m < l->n; m++)
            longest = inner(l, m, n) > longest ? inner(l, m, n) : longest;
    }
    l->group.n_axes = (uint8_t)n;
    for (uint32_t m = 0; m < l->n; m++)
        l->group.elements = inner(l, m, 0) > l->group.elements ? inner(l, m, 0) : l->group.elements;
}

static void cut_slots(group_layout *l)
{
    np_builder *b = l->b;
    np_task_call c;
    np_window w;
    for (uint32_t m = 0; m < l->n; m++) {
        const np_member *member = &b->members[l->group.first_member + m];
        np_task_call_init(&c, b, l->task[m]);
        for (int j = 0; j < l->group.n_axes; j++) {
            int d = np_task_axis(b, l->task[m], l->fusion->lacks[l->task[m]], j);
            b->slots[member->first_slot].cut[j] = (int8_t)d;
            for (uint32_t i = 0; i < member->n_in; i++)
                b->slots[member->first_slot + 1 + i].cut[j] =
                    (int8_t)(d < 0 ? -1 : np_op_window(&c.call, d, i, &w));
        }
    }
    const np_member *last = &b->members[l->group.first_member + l->n - 1];
    const np_cut *s = &b->slots[last->first_slot];
    l->group.extents_of = s->operand;
    memcpy(l->group.extent_dim, s->cut, sizeof s->cut);
}

/* Rows of member m's tile. */
static int64_t tile_rows(const group_layout *l, uint32_t m, int64_t block)
{
    const np_window w = np_member_window(l->b, &l->group, m);
    const int64_t rows = block + w.before + w.after, extent = l->shape.extent[l->group.n_axes - 1];
    return l->group.windows == NP_NONE || rows < extent ? rows : extent;
}

/* Do the tiles of two members begin and end at the same rows? */
static bool same_rows(const group_layout *l, uint32_t m, uint32_t n)
{
    const np_window a = np_member_window(l->b, &l->group, m), b = np_member_window(l->b, &l->group, n);
    return a.before == b.before && a.after == b.after;
}

/* May member m's tile take the place of one that it reads last? */
static void take_over_tile(group_layout *l, uint32_t m)
{
    const np_builder *b = l->b;
    const np_member *member = &b->members[l->group.first_member + m];
    const np_cut *s = &b->slots[member->first_slot];
    const np_operand *out = slot_operand(l, s);
    for (uint32_t i = 0; s[0].in_tile && i < member->n_in; i++) {
        const np_plan_operand *o = &b->operands[s[1 + i].operand];
        uint32_t uses = 0, from = o->source;
        if (!(member->op->overwrites >> i & 1) || !s[1 + i].in_tile)
            continue;
        uint32_t owner = l->tiles[from].owner;
        for (uint32_t k = 0; k < member->n_in; k++)
            uses += s[1 + k].in_tile && l->tiles[b->operands[s[1 + k].operand].source].owner == owner;
        if (uses != 1 || l->tiles[owner].last != m || o->offset != 0 ||
            l->tiles[owner].bytes != l->tiles[m].bytes || !same_rows(l, from, m) || o->operand.rank != out->rank ||
            np_element_bytes((neap_dtype)o->operand.dtype) !=
                np_element_bytes((neap_dtype)out->dtype) ||
            memcmp(o->operand.strides, out->strides, out->rank * sizeof out->strides[0]) != 0 ||
            memcmp(o->operand.shape, out->shape, out->rank * sizeof out->shape[0]) != 0)
            continue;
        l->tiles[m].owner = owner;
        l->tiles[owner].last = l->tiles[m].last;
        return;
    }
}

/* Tiles of one kind: as many elements of one size for an index of the axes. 0: no tile. */
static uint64_t kind_of_tile(const group_layout *l, uint32_t m)
{
    const np_cut *s = &l->b->slots[l->b->members[l->group.first_member + m].first_slot];
    const int64_t size = np_element_bytes((neap_dtype)slot_operand(l, s)->dtype);
    return l->tiles[m].bytes ? (uint64_t)inner(l, m, l->group.n_axes) << 4 | (uint64_t)size : 0;
}

/* Tiles of one kind after those of another, so that two that lie on each other do so element by
 * element: a chain has written part of one result while it still reads what another one was. */
static uint64_t place_by_kind(group_layout *l)
{
    uint64_t base = 0, last = 0;
    for (;;) {
        uint64_t kind = UINT64_MAX; /* the next one */
        for (uint32_t m = 0; m < l->n; m++)
            if (kind_of_tile(l, m) > last && kind_of_tile(l, m) < kind)
                kind = kind_of_tile(l, m);
        if (kind == UINT64_MAX)
            return base;
        for (uint32_t m = 0; m < l->n; m++)
            l->tiles[m].hosted = kind_of_tile(l, m) != kind;
        uint64_t bytes = np_place(&l->b->place_work, l->tiles, l->n);
        if (bytes == UINT64_MAX)
            return bytes;
        for (uint32_t m = 0; m < l->n; m++)
            if (kind_of_tile(l, m) == kind)
                l->at[m] = base + l->tiles[m].offset;
        base += bytes;
        last = kind;
    }
}

/* Offsets of the tiles for `block` indices; what they take. */
static uint64_t place_tiles(group_layout *l, int64_t block)
{
    const np_builder *b = l->b;
    for (uint32_t m = 0; m < l->n; m++) {
        const np_cut *s = &b->slots[b->members[l->group.first_member + m].first_slot];
        uint64_t bytes = (uint64_t)(inner(l, m, l->group.n_axes) * tile_rows(l, m, block) *
                                    np_element_bytes((neap_dtype)slot_operand(l, s)->dtype));
        l->tiles[m].bytes = s->in_tile && !l->in_register[m] ? (bytes + 63) & ~(uint64_t)63 : 0;
        l->at[m] = 0;
        l->tiles[m].owner = m;
        l->tiles[m].last = l->last_reader[m];
    }
    for (uint32_t m = 0; m < l->n; m++)
        take_over_tile(l, m);
    return place_by_kind(l);
}

static bool is_axis(const group_layout *l, const np_cut *s, int d)
{
    for (int j = 0; j < l->group.n_axes; j++)
        if (s->cut[j] == d)
            return true;
    return false;
}

/* Bytes that one index of the last axis moves through: tiles and what lies outside, each array once;
 * -1: no memory. */
static int64_t row_bytes(group_layout *l, uint64_t tiles)
{
    const np_builder *b = l->b;
    int64_t bytes = (int64_t)tiles;
    bool *seen = np_work_take(&l->b->step_work, b->n_operands);
    if (!seen)
        return -1;
    memset(seen, 0, b->n_operands);
    for (uint32_t k = l->first_slot; k < b->n_slots; k++) {
        const np_cut *s = &b->slots[k];
        if (s->in_tile || s->cut[l->group.n_axes - 1] < 0 || seen[s->operand])
            continue;
        seen[s->operand] = true;
        const np_operand *o = slot_operand(l, s);
        int64_t size = np_element_bytes((neap_dtype)o->dtype);
        for (int d = 0; d < o->rank; d++)
            if (o->strides[d] != 0 && !is_axis(l, s, d))
                size *= o->shape[d];
        bytes += size;
    }
    return bytes;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    x = x < high ? x : high;
    return x > low ? x : low;
}

/* The most rows of a block of at most so many bytes, or 1. UINT64_MAX in `tiles`: no memory. */
static int64_t rows_within(group_layout *l, int64_t bytes, int64_t most, uint64_t *tiles)
{
    int64_t low = 1, high = most + 1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        *tiles = place_tiles(l, middle);
        if (*tiles == UINT64_MAX)
            return 1;
        *(*tiles <= (uint64_t)bytes ? &low : &high) = middle;
    }
    return low - (low < most && low > 16 ? low % 16 : 0);
}

static bool choose_block(group_layout *l, int64_t tile_bytes)
{
    const int last = l->group.n_axes - 1;
    const int64_t extent = l->shape.extent[last];
    int64_t outer = 1, block;
    for (int j = 0; j < last; j++)
        outer *= l->shape.extent[j];
    if (l->shape.heavy) {
        uint64_t tiles = 0;
        block = clamp(l->fusion->block_rows, 1, extent);
        if (l->fusion->block_bytes)
            block = rows_within(l, l->fusion->block_bytes, block, &tiles);
        if (tiles == UINT64_MAX)
            return false;
    } else {
        uint64_t tiles = place_tiles(l, 1);
        if (tiles == UINT64_MAX)
            return false;
        int64_t lanes = np_pool_lanes(l->b->ctx->pool);
        const int64_t row = row_bytes(l, tiles);
        if (row < 0)
            return false;
        const int64_t room = tile_bytes / (row + 1);
        block = clamp(room, 1, extent * outer / (4 * lanes));
        if (l->products && block < LEAST_PRODUCT_ROWS)
            block = LEAST_PRODUCT_ROWS;
        block -= block % (block >= 64 ? 64 : block >= 16 ? 16 : block >= 2 ? 2 : 1);
        block = clamp(block, 1, extent);
    }
    l->group.block = block;
    l->group.tile_bytes = place_tiles(l, block);
    return l->group.tile_bytes != UINT64_MAX;
}

static void set_tiles(group_layout *l)
{
    np_builder *b = l->b;
    for (uint32_t k = l->first_slot; k < b->n_slots; k++) {
        np_cut *s = &b->slots[k];
        const np_plan_operand *o = &b->operands[s->operand];
        if (s->in_tile)
            s->tile_at = l->at[o->source] + (uint64_t)o->offset;
    }
}

/* ---- chains ------------------------------------------------------------------------------------ */

/* How an operand's elements lie for one index of the axes: adjacent, or one for all. */
typedef enum lie { ADJACENT, ONE, OTHERWISE } lie;

static lie how_it_lies(const group_layout *l, const np_cut *s, int64_t inner_elements)
{
    const np_operand *o = slot_operand(l, s);
    int64_t next = 1, count = 1;
    bool zero = true, dense = true;
    for (int d = o->rank - 1; d >= 0; d--) {
        if (is_axis(l, s, d) || o->shape[d] == 1)
            continue;
        zero &= o->strides[d] == 0;
        dense &= o->strides[d] == next;
        next *= o->shape[d];
        count *= o->shape[d];
    }
    if (count == inner_elements && dense)
        return ADJACENT;
    return zero ? ONE : OTHERWISE;
}

static int64_t row_stride(const group_layout *l, const np_cut *s)
{
    int d = s->cut[l->group.n_axes - 1];
    const np_operand *o = slot_operand(l, s);
    return d < 0 ? 0 : o->strides[d] * np_element_bytes((neap_dtype)o->dtype);
}

/* One place of a chain for a slot; false if it does not lie so that a chain can use it. A row of one
 * element is a column to elements, and one for all to the result of a reduction. */
static bool source_of(const group_layout *l, uint32_t slot, int64_t inner_elements, np_chain_source *out)
{
    const np_cut *s = &l->b->slots[slot];
    const np_operand *o = slot_operand(l, s);
    const int32_t size = (int32_t)np_element_bytes((neap_dtype)o->dtype);
    lie how = how_it_lies(l, s, inner_elements);
    *out = (np_chain_source){.slot = slot, .size = (uint8_t)size, .row = row_stride(l, s), .one = how == ONE};
    if (inner_elements == 1 && out->row == size) /* elements of a column that is adjacent */
        out->one = false;
    else if (inner_elements == 1 && out->row == 0)
        out->one = true;
    else if (inner_elements == 1)
        return false;
    return how != OTHERWISE;
}

/* Elements of a row where member m is in a chain: of its result, or of what it reduces to one. */
static int64_t chain_row(const group_layout *l, uint32_t m)
{
    const np_member *member = &l->b->members[l->group.first_member + m];
    if (member->op->flags & NP_OP_ELEMENTWISE || member->n_in == 0)
        return inner(l, m, l->group.n_axes);
    const np_operand *x = slot_operand(l, &l->b->slots[member->first_slot + 1]);
    return x->rank > 0 ? x->shape[x->rank - 1] : 1;
}

/* The place of member m's result (0) or input in a chain. */
static bool place_of(const group_layout *l, uint32_t m, uint32_t i, np_chain_source *out)
{
    const np_member *member = &l->b->members[l->group.first_member + m];
    if (i > 0 || member->op->flags & NP_OP_ELEMENTWISE)
        return source_of(l, member->first_slot + i, chain_row(l, m), out) && (i > 0 || !out->one || chain_row(l, m) == 1);
    const np_cut *s = &l->b->slots[member->first_slot];
    *out = (np_chain_source){.slot = member->first_slot, .size = sizeof(float),
                             .row = row_stride(l, s), .one = true};
    return inner(l, m, l->group.n_axes) == 1 && s->cut[l->group.n_axes - 1] >= 0;
}

/* Has an input an extent that is set at run time and is no axis? What a reduction absorbs may be one. */
static bool is_set_later(const group_layout *l, uint32_t m)
{
    const np_builder *b = l->b;
    const np_member *member = &b->members[l->group.first_member + m];
    const neap_array *a = b->member_array[l->group.first_member + m];
    for (uint32_t i = 0; i < a->n_in; i++)
        if (a->in[i]->dynamic_dim >= 0 &&
            !is_axis(l, &b->slots[member->first_slot + 1 + i], a->in[i]->dynamic_dim))
            return true;
    return false;
}

/* Can member m be part of a chain, and with what? */
static bool chainable(const group_layout *l, uint32_t m, np_chain_op *op)
{
    const np_builder *b = l->b;
    const np_member *member = &b->members[l->group.first_member + m];
    if (!member->op->chain || l->group.streamed || is_set_later(l, m))
        return false;
    const np_operand *at[NP_GROUP_INPUTS];
    const np_call call = np_member_call(b, l->group.first_member + m, at);
    *op = (np_chain_op){0};
    if (!member->op->chain(&call, op))
        return false;
    np_chain_source source;
    for (uint32_t i = 0; i <= member->n_in; i++)
        if (!place_of(l, m, i, &source))
            return false;
    return !np_chain_reduces(op) || (!source.one && member->n_in == 1);
}

/* The chain's place for a slot: one that is there, or a new one. */
static bool add_place(group_layout *l, np_member *head, uint32_t m, uint32_t operand, uint16_t *place)
{
    np_builder *b = l->b;
    np_chain_source s;
    place_of(l, m, operand, &s);
    for (uint32_t i = 0; i < head->n_places; i++) {
        const np_chain_source *p = &b->chain_places[head->first_place + i];
        const np_cut *x = &b->slots[p->slot], *y = &b->slots[s.slot];
        if (x->operand == y->operand && p->one == s.one && p->row == s.row &&
            !memcmp(x->cut, y->cut, sizeof x->cut)) {
            *place = (uint16_t)i;
            return true;
        }
    }
    if (!np_builder_grow(b, &b->chain_places, &b->chain_places_capacity, b->n_chain_places + 1, sizeof *b->chain_places))
        return false;
    b->chain_places[b->n_chain_places++] = s;
    *place = (uint16_t)head->n_places++;
    return true;
}

static bool read_inside(const group_layout *l, uint32_t task)
{
    const np_builder *b = l->b;
    for (uint32_t k = b->out_first[task]; k < b->out_first[task + 1]; k++)
        if (l->fusion->group[b->edges[b->out[k]].to] == l->g)
            return true;
    return false;
}

static bool add_chain_op(group_layout *l, uint32_t head_at, uint32_t m, np_chain_op op)
{
    np_builder *b = l->b;
    np_member *head = &b->members[l->group.first_member + head_at];
    const np_member *member = &b->members[l->group.first_member + m];
    if (!add_place(l, head, m, 0, &op.out))
        return false;
    for (uint32_t i = 0; i < member->n_in; i++)
        if (!add_place(l, head, m, i + 1, &op.in[i]))
            return false;
    const np_cut *s = &b->slots[member->first_slot];
    const np_plan_operand *o = &b->operands[s->operand];
    op.far = !s->in_tile && !np_chain_reduces(&op) && o->storage_bytes >= FAR_BYTES && !read_inside(l, l->task[m]);
    if (!np_builder_grow(b, &b->chain_ops, &b->chain_ops_capacity, b->n_chain_ops + 1,
                 sizeof *b->chain_ops))
        return false;
    b->chain_ops[b->n_chain_ops++] = op;
    head->n_chain++;
    return true;
}

/* A result that only the next op reads, once, never leaves the registers. */
static void mark_passed(group_layout *l, const np_member *head, uint32_t head_at)
{
    np_builder *b = l->b;
    for (uint32_t i = 0; i + 1 < head->n_chain; i++) {
        const np_cut *s = &b->slots[b->members[l->group.first_member + head_at + i].first_slot];
        np_chain_op *op = &b->chain_ops[head->first_op + i];
        const np_chain_op *next = op + 1;
        uint32_t task = l->task[head_at + i];
        const uint32_t n_in = b->members[l->group.first_member + head_at + i + 1].n_in;
        bool reads = false;
        for (uint32_t k = 0; k < n_in; k++)
            reads |= next->in[k] == op->out;
        op->passed = s->in_tile && reads && !np_chain_reduces(op) && b->out_first[task] + 1 == b->out_first[task + 1];
    }
}

/* A tile is one row where everything is adjacent from row to row, or one element for all, and no row is
 * reduced. */
static void flatten(group_layout *l, np_member *head, int64_t in)
{
    np_builder *b = l->b;
    head->flat = true;
    for (uint32_t i = 0; i < head->n_chain; i++)
        head->flat &= !np_chain_reduces(&b->chain_ops[head->first_op + i]);
    for (uint32_t i = 0; i < head->n_places; i++) {
        const np_chain_source *p = &b->chain_places[head->first_place + i];
        head->flat &= p->row == (p->one ? 0 : in * p->size);
    }
}

/* Has no member before the chain's head read or written what lies at the slot, and does no member of the
 * chain write it? */
static bool is_fresh(const group_layout *l, const np_cut *s, const np_member *head)
{
    const np_builder *b = l->b;
    if (s->in_tile || s->cut[l->group.n_axes - 1] < 0)
        return false;
    for (uint32_t k = l->first_slot; k < head->first_slot; k++)
        if (b->slots[k].operand == s->operand)
            return false;
    for (const np_member *m = head; m < head + head->n_chain; m++)
        if (b->slots[m->first_slot].operand == s->operand)
            return false;
    return true;
}

/* The kernel's own form of the chain; of places it wants to know only which serve a row with one and which
 * come from memory. What has a form there (not 0) is done in registers. */
static bool prepare(group_layout *l, const np_member *head, uint32_t at)
{
    np_builder *b = l->b;
    const size_t bytes = head->n_places * sizeof(np_chain_place);
    np_chain_place *places = np_work_take(&b->step_work, bytes);
    if (!places)
        return false;
    memset(places, 0, bytes);
    for (uint32_t i = 0; i < head->n_places; i++) {
        const np_chain_source *s = &b->chain_places[head->first_place + i];
        places[i].one = s->one;
        places[i].fresh = !s->one && is_fresh(l, &b->slots[s->slot], head);
    }
    b->ctx->kernels->chain->prepare(b->chain_ops + head->first_op, (int)head->n_chain, places);
    const np_chain_op *op = b->chain_ops + head->first_op;
    for (uint32_t i = 0; i < head->n_chain; i++) {
        l->group.far |= op[i].far;
        l->in_register[at + i] = op[i].passed && i + 1 < head->n_chain && op[i].form && op[i + 1].form;
    }
    return true;
}

/* What never leaves the registers needs no place of its own: one serves all, by which an op finds that its
 * input is there. */
static bool share_places(group_layout *l, np_member *head, uint32_t at)
{
    np_builder *b = l->b;
    np_chain_source *place = b->chain_places + head->first_place;
    np_chain_op *op = b->chain_ops + head->first_op;
    uint16_t *to = np_work_take(&b->step_work, head->n_places * sizeof *to);
    if (!to)
        return false;
    memset(to, 0, head->n_places * sizeof *to);
    for (uint32_t i = 0; i < head->n_chain; i++)
        to[op[i].out] |= l->in_register[at + i];
    uint16_t n = 0, shared = 0;
    for (uint32_t i = 0; i < head->n_places; i++) {
        const bool register_only = to[i];
        to[i] = register_only && shared ? shared - 1 : n;
        if (to[i] < n)
            continue;
        place[n++] = place[i];
        if (register_only)
            shared = n;
    }
    head->n_places = n;
    b->n_chain_places = head->first_place + n;
    for (uint32_t i = 0; i < head->n_chain; i++) {
        op[i].out = to[op[i].out];
        for (int k = 0; k < 3; k++)
            op[i].in[k] = to[op[i].in[k]];
    }
    return true;
}

/* Does member m read for a whole row one element of what a member of the chain before it makes element by
 * element? It may not be there yet: a run goes through all of its ops block by block. */
static bool reads_ahead(const group_layout *l, const np_member *head, uint32_t m)
{
    const np_builder *b = l->b;
    const np_member *member = &b->members[l->group.first_member + m];
    for (uint32_t i = 1; i <= member->n_in; i++) {
        np_chain_source s;
        if (!place_of(l, m, i, &s) || !s.one)
            continue;
        const np_plan_operand *read = &b->operands[b->slots[member->first_slot + i].operand];
        for (uint32_t k = 0; k < head->n_chain; k++) {
            const np_plan_operand *made = &b->operands[b->slots[head[k].first_slot].operand];
            if (made->kind == read->kind && made->source == read->source &&
                !np_chain_reduces(&b->chain_ops[head->first_op + k]))
                return true;
        }
    }
    return false;
}

/* What a chain reads as one for a row stays until all of its ops are done with the row: block by block they
 * would write over it. */
static void keep_ones(group_layout *l, uint32_t first, uint32_t end)
{
    const np_builder *b = l->b;
    const uint32_t until = end < l->n ? end : l->n - 1;
    np_chain_source place;
    for (uint32_t m = first; m < end; m++) {
        const np_member *member = &b->members[l->group.first_member + m];
        for (uint32_t i = 1; i <= member->n_in; i++) {
            const np_cut *s = &b->slots[member->first_slot + i];
            const uint32_t made = b->operands[s->operand].source;
            if (s->in_tile && place_of(l, m, i, &place) && place.one && l->last_reader[made] < until)
                l->last_reader[made] = until;
        }
    }
}

static bool find_chains(group_layout *l)
{
    np_builder *b = l->b;
    np_chain_op op;
    for (uint32_t m = 0, end; m < l->n; m = end) {
        np_member *head = &b->members[l->group.first_member + m];
        const int64_t in = chain_row(l, m);
        head->first_op = b->n_chain_ops;
        head->first_place = b->n_chain_places;
        for (end = m; end < l->n && chain_row(l, end) == in && chainable(l, end, &op) &&
                      !reads_ahead(l, head, end);
             end++)
            if (!add_chain_op(l, m, end, op))
                return false;
        mark_passed(l, head, m);
        flatten(l, head, in);
        head->row_n = in;
        keep_ones(l, m, end);
        if (head->n_chain && (!prepare(l, head, m) || !share_places(l, head, m)))
            return false;
        end += end == m;
    }
    return true;
}

/* ---- rows -------------------------------------------------------------------------------------- */

/* Members whose rows lie as their kernel wants them need no look at strides tile by tile. */
static bool find_row(group_layout *l, uint32_t m)
{
    np_builder *b = l->b;
    np_member *member = &b->members[l->group.first_member + m];
    const np_operand *at[NP_GROUP_INPUTS];
    if (!member->op->row || l->group.streamed || member->n_in == 0 || member->n_chain ||
        is_set_later(l, m))
        return true;
    const np_cut *out = &b->slots[member->first_slot], *x = out + 1;
    const np_call call = np_member_call(b, l->group.first_member + m, at);
    const int64_t n = at[0]->shape[at[0]->rank - 1], made = inner(l, m, l->group.n_axes);
    np_member_rows rows = {.n = n};
    if (!member->op->row(&call, &rows.op) || x->cut[l->group.n_axes - 1] < 0 ||
        how_it_lies(l, x, n) != ADJACENT || made != (rows.op.reduce ? 1 : n) ||
        how_it_lies(l, out, made) != ADJACENT)
        return true;
    rows.stride = row_stride(l, x) / np_element_bytes((neap_dtype)at[0]->dtype);
    rows.out_stride = row_stride(l, out) / np_element_bytes((neap_dtype)call.out->dtype);
    if (rows.op.reduce && rows.out_stride != 1)
        return true;
    if (!np_builder_grow(b, &b->rows, &b->rows_capacity, b->n_rows + 1, sizeof *b->rows))
        return false;
    member->rows = b->n_rows;
    b->rows[b->n_rows++] = rows;
    return true;
}

/* ---- scratch ----------------------------------------------------------------------------------- */

/* Of the rows that a slot sees of a block from `first` on. */
static int64_t slot_rows(const group_layout *l, uint32_t slot, int64_t first, int64_t block)
{
    if (l->group.windows == NP_NONE)
        return block;
    const np_cut *s = &l->b->slots[slot];
    int64_t begin;
    return np_slot_rows(np_window_of(l->b, &l->group, slot), first, block,
                        slot_operand(l, s)->shape[s->cut[l->group.n_axes - 1]], &begin);
}

static uint64_t member_scratch(const group_layout *l, const np_member *member, const void *attr, int64_t first,
                               int64_t block)
{
    const np_builder *b = l->b;
    np_operand part[1 + NP_GROUP_INPUTS];
    const np_operand *at[NP_GROUP_INPUTS];
    for (uint32_t i = 0; i <= member->n_in; i++) {
        const np_cut *s = &b->slots[member->first_slot + i];
        part[i] = *slot_operand(l, s);
        for (int j = 0; j < l->group.n_axes; j++)
            if (s->cut[j] >= 0)
                part[i].shape[s->cut[j]] =
                    j + 1 < l->group.n_axes ? 1 : slot_rows(l, member->first_slot + i, first, block);
        if (i)
            at[i - 1] = &part[i];
    }
    np_call call = {.ctx = b->ctx, .pool = l->group.streamed ? b->ctx->pool : NULL,
                    .op = member->op, .attr = attr, .n_in = member->n_in, .in = at, .out = &part[0]};
    return member->op->scratch(&call);
}

/* The most that a block's member takes: the first, the last, and with windows those between. */
static uint64_t most_scratch(const group_layout *l, const np_member *member, const void *attr)
{
    const int64_t extent = l->shape.extent[l->group.n_axes - 1], block = l->group.block;
    const int64_t step = l->group.windows == NP_NONE ? extent - extent % block : block;
    uint64_t most = 0;
    for (int64_t first = 0; first < extent; first += step ? step : block) {
        const int64_t left = extent - first;
        const uint64_t bytes = member_scratch(l, member, attr, first, left < block ? left : block);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void find_scratch(group_layout *l)
{
    np_builder *b = l->b;
    uint64_t work = 0, places = 0;
    for (uint32_t m = 0; m < l->n; m++) {
        const np_member *member = &b->members[l->group.first_member + m];
        const void *attr = b->member_array[l->group.first_member + m]->attr;
        places = member->n_chain && member->n_places > places ? member->n_places : places;
        const uint64_t bytes = member->op->scratch ? most_scratch(l, member, attr) : 0;
        work = bytes > work ? bytes : work;
    }
    l->group.work_bytes = (work + 63) & ~(uint64_t)63;
    l->group.lane_bytes = l->group.tile_bytes + l->group.work_bytes;
    if (places > NP_LANE_PLACES)
        l->group.lane_bytes += (places * sizeof(np_chain_place) + 63) & ~(uint64_t)63;
}

/* ---- all of it --------------------------------------------------------------------------------- */

static int64_t wanted_tile_bytes(const group_layout *l)
{
    const np_member *members = l->b->members + l->group.first_member;
    bool flat = false;
    uint32_t m = 0;
    for (; m < l->n && members[m].n_chain; m += members[m].n_chain)
        flat |= members[m].flat;
    return m < l->n ? TILE_BYTES : flat ? FLAT_TILE_BYTES : ROWS_TILE_BYTES;
}

static bool lay_out(group_layout *l)
{
    for (uint32_t m = 0; m < l->n; m++)
        if (!add_member(l, m))
            return false;
    choose_axes(l);
    cut_slots(l);
    if (!np_find_windows(l->b, &l->group, l->task) || !find_chains(l) || !choose_block(l, wanted_tile_bytes(l)))
        return false;
    set_tiles(l);
    for (uint32_t m = 0; m < l->n; m++)
        if (!find_row(l, m))
            return false;
    find_scratch(l);
    return true;
}

bool np_emit_group(np_builder *b, const np_fusion *fusion, uint32_t g)
{
    group_layout l = {.b = b, .fusion = fusion, .g = g,
                      .task = fusion->task + fusion->first[g],
                      .n = fusion->first[g + 1] - fusion->first[g], .first_slot = b->n_slots};
    l.shape = np_task_shape(b, l.task[l.n - 1], fusion->axes[g], fusion->heavy[g]); /* lacks none */
    l.group.first_member = b->n_members;
    l.group.n_members = l.n;
    l.group.streamed = l.shape.heavy;
    l.group.windows = NP_NONE;
    l.tiles = np_work_take(&b->tile_work, l.n * (sizeof *l.tiles + sizeof *l.at + sizeof *l.last_reader + 1));
    l.at = l.tiles ? (uint64_t *)(void *)(l.tiles + l.n) : NULL;
    l.last_reader = l.at ? (uint32_t *)(void *)(l.at + l.n) : NULL;
    l.in_register = l.at ? memset(l.last_reader + l.n, 0, l.n) : NULL;
    if (!l.tiles || !lay_out(&l))
        return false;
    const uint64_t lanes = l.group.streamed ? 1 : (uint64_t)np_pool_lanes(b->ctx->pool);
    return np_emit_group_step(b, &l.group, l.group.lane_bytes * lanes);
}
