/* parts_check.h - runs a node's op whole, then in parts cut along every dimension that its `part`
 * allows, and compares bits: parts that lie in the result and parts in tiles of their own, inputs
 * where they are and in tiles, on one lane and on two, with the scratch of the largest part. */
#ifndef PARTS_CHECK_H
#define PARTS_CHECK_H

#include "ops_fixture.h"

#include "base/threads.h"
#include "ops/op_table.h"

enum { MAX_OPERANDS = 8 };

typedef struct parts_call {
    const neap_array *node;
    np_call call;
    np_operand in[MAX_OPERANDS], out;
    const np_operand *at[MAX_OPERANDS];
    int dims[MAX_OPERANDS]
            [NEAP_MAX_RANK]; /* [input][dimension of the result]: what np_op_window says */
    np_window window[MAX_OPERANDS][NEAP_MAX_RANK];
    bool cut[NEAP_MAX_RANK]; /* the dimension can be cut */
    bool tile_out, tile_in;  /* parts are tiles of their own; so are inputs that are cut */
    uint8_t *result;
} parts_call;

static void *room(size_t bytes) /* of just so many bytes: the address sanitizer sees the next one */
{
    void *p;
    assert_int_equal(posix_memalign(&p, 64, bytes ? bytes : 1), 0);
    memset(p, 0xa5, bytes);
    return p;
}

/* Elements of a strided place to another. */
static void move_elements(uint8_t *to, const int64_t *to_strides, const uint8_t *from,
                          const int64_t *from_strides, int rank, const int64_t *shape, int64_t size)
{
    int64_t index[NEAP_MAX_RANK] = {0};
    for (int64_t n = np_size(rank, shape); n > 0; n--) {
        int64_t t = 0, f = 0;
        for (int d = 0; d < rank; d++) {
            t += index[d] * to_strides[d];
            f += index[d] * from_strides[d];
        }
        memcpy(to + t * size, from + f * size, (size_t)size);
        for (int d = rank - 1; d >= 0 && ++index[d] == shape[d]; d--)
            index[d] = 0;
    }
}

/* Makes o a row-major tile with the elements that it has; the caller frees its data. */
static void into_tile(np_operand *o, bool filled)
{
    int64_t strides[NEAP_MAX_RANK], size = np_element_bytes((neap_dtype)o->dtype);
    np_row_major(o->rank, o->shape, strides);
    uint8_t *tile = room((size_t)(np_size(o->rank, o->shape) * size));
    if (filled)
        move_elements(tile, strides, o->data, o->strides, o->rank, o->shape, size);
    o->data = tile;
    memcpy(o->strides, strides, sizeof strides);
}

static void narrow(np_operand *o, int d, int64_t begin, int64_t n)
{
    o->data += begin * o->strides[d] * np_element_bytes((neap_dtype)o->dtype);
    o->shape[d] = n;
}

/* The part that begins at `first` and has at most `block` elements along each dimension. */
static void narrow_all(const parts_call *p, const int64_t *first, const int64_t *block,
                       np_operand *out, np_operand *in)
{
    *out = p->out;
    memcpy(in, p->in, sizeof p->in);
    for (int d = 0; d < out->rank; d++) {
        int64_t left = p->out.shape[d] - first[d], n = left < block[d] ? left : block[d];
        if (!p->cut[d])
            continue;
        narrow(out, d, first[d], n);
        for (uint32_t i = 0; i < p->call.n_in; i++)
            if (p->dims[i][d] >= 0) {
                const np_window *w = &p->window[i][d];
                const int64_t whole = p->in[i].shape[p->dims[i][d]];
                int64_t begin = first[d] * w->step - w->before, end = (first[d] + n - 1) * w->step + w->after + 1;
                begin = begin < 0 ? 0 : begin > whole ? whole : begin;
                end = end < begin ? begin : end > whole ? whole : end;
                narrow(&in[i], p->dims[i][d], begin, end - begin);
            }
    }
}

static bool is_cut(const parts_call *p, uint32_t input)
{
    for (int d = 0; d < p->out.rank; d++)
        if (p->cut[d] && p->dims[input][d] >= 0)
            return true;
    return false;
}

static void run_part(const parts_call *p, np_pool *pool, const int64_t *first, const int64_t *block,
                     void *scratch)
{
    np_operand out, in[MAX_OPERANDS];
    np_call c = p->call;
    const np_operand *at[MAX_OPERANDS];
    narrow_all(p, first, block, &out, in);
    np_operand place = out;
    if (p->tile_out)
        into_tile(&out, false);
    for (uint32_t i = 0; i < c.n_in; i++) {
        if (p->tile_in && is_cut(p, i))
            into_tile(&in[i], true);
        at[i] = &in[i];
    }
    c.pool = pool;
    c.in = at;
    c.out = &out;
    c.scratch = scratch;
    c.first = first;
    c.whole = p->out.shape;
    if (c.op->run(&c) != NEAP_OK)
        fail_msg("%s: %s", c.op->name, neap_context_error(ctx));
    if (p->tile_out) {
        move_elements(place.data, place.strides, out.data, out.strides, out.rank, out.shape,
                      np_element_bytes((neap_dtype)out.dtype));
        free(out.data);
    }
    for (uint32_t i = 0; i < c.n_in; i++)
        if (p->tile_in && is_cut(p, i))
            free(in[i].data);
}

static size_t scratch_of(const parts_call *p, np_pool *pool, const int64_t *block)
{
    static const int64_t none[NEAP_MAX_RANK];
    np_operand out, in[MAX_OPERANDS];
    const np_operand *at[MAX_OPERANDS];
    np_call c = p->call;
    if (!c.op->scratch)
        return 0;
    narrow_all(p, none, block, &out, in);
    for (uint32_t i = 0; i < c.n_in; i++)
        at[i] = &in[i];
    c.pool = pool;
    c.in = at;
    c.out = &out;
    return c.op->scratch(&c);
}

static void expect_same(const parts_call *p, const uint8_t *want, const int64_t *block,
                        const np_pool *pool)
{
    int64_t size = np_element_bytes((neap_dtype)p->out.dtype);
    int64_t n = np_size(p->out.rank, p->out.shape);
    if (memcmp(p->result, want, (size_t)(n * size)) == 0)
        return;
    int64_t i = 0;
    while (memcmp(p->result + i * size, want + i * size, (size_t)size) == 0)
        i++;
    char text[NP_SHAPE_TEXT], input[NP_SHAPE_TEXT] = "";
    if (p->call.n_in > 0)
        np_shape_text(p->node->in[0], input);
    fail_msg("%s: element %lld of %s (first input %s) differs: cut by %lld, %lld, %lld, %lld; "
             "lanes %d, tiles %d %d, %s",
             p->call.op->name, (long long)i, np_shape_text(p->node, text), input,
             (long long)block[0], (long long)block[1], (long long)block[2], (long long)block[3],
             np_pool_lanes(pool), p->tile_out, p->tile_in, neap_context_isa(ctx));
}

/* All parts of at most `block` elements along each dimension, one after the other. */
static void run_cut(parts_call *p, const int64_t *block, const uint8_t *want)
{
    for (int way = 0; way < 4; way++) {
        np_pool *pool = way & 1 ? ctx->pool : NULL;
        p->tile_out = way >= 2;
        p->tile_in = way == 2;
        int64_t first[NEAP_MAX_RANK] = {0}, bytes = np_element_bytes((neap_dtype)p->out.dtype);
        size_t scratch_bytes = scratch_of(p, pool, block);
        void *scratch = room(scratch_bytes);
        memset(p->result, 0x5a, (size_t)(np_size(p->out.rank, p->out.shape) * bytes));
        for (int d = 0; d >= 0;) {
            run_part(p, pool, first, block, scratch);
            for (d = p->out.rank - 1; d >= 0; d--) {
                first[d] += block[d];
                if (first[d] < p->out.shape[d])
                    break;
                first[d] = 0;
            }
        }
        free(scratch);
        expect_same(p, want, block, pool);
    }
}

/* ---- from a node ----------------------------------------------------------------------------- */

static void take_input(np_operand *o, neap_array *x)
{
    neap_array *storage = np_storage(x);
    if (!neap_array_is_value(storage))
        ready(storage);
    *o = (np_operand){.dtype = x->dtype, .rank = x->rank, .packed = x->packed};
    memcpy(o->shape, x->shape, sizeof o->shape);
    memcpy(o->strides, x->strides, sizeof o->strides);
    o->data = storage->buffer->data;
    if (x->offset)
        o->data += x->offset * np_element_bytes((neap_dtype)x->dtype);
}

static bool ask_parts(parts_call *p)
{
    bool any = false;
    for (int d = 0; d < p->out.rank; d++) {
        uint32_t n = p->call.n_in > 0 ? p->call.n_in : 1; /* without inputs: it can, or it cannot */
        int none = 0;
        for (uint32_t i = 0; i < n; i++) {
            p->dims[i][d] = np_op_window(&p->call, d, i, &p->window[i][d]);
            none += p->dims[i][d] == NP_PART_NONE;
            if (p->dims[i][d] >= 0 && np_op_part(&p->call, d, i) >= 0) /* cut alike: of equal extent */
                assert_int_equal(p->in[i].shape[p->dims[i][d]], p->out.shape[d]);
        }
        assert_true(none == 0 || none == (int)n);
        p->cut[d] = none == 0;
        any |= p->cut[d];
    }
    return any;
}

/* How many ways of cutting were compared. */
static int check_parts(neap_array *node)
{
    parts_call p = {.node = node};
    int cuts = 0;
    p.call = (np_call){.ctx = ctx,
                       .pool = ctx->pool,
                       .op = node->op,
                       .attr = node->attr,
                       .n_in = node->n_in,
                       .in = p.at,
                       .out = &p.out};
    assert_true(node->n_in <= MAX_OPERANDS);
    for (uint32_t i = 0; i < node->n_in; i++) {
        take_input(&p.in[i], node->in[i]);
        p.at[i] = &p.in[i];
    }
    p.out = (np_operand){.dtype = node->dtype, .rank = node->rank};
    memcpy(p.out.shape, node->shape, sizeof p.out.shape);
    np_row_major(node->rank, node->shape, p.out.strides);
    int64_t n = np_size(node->rank, node->shape);
    if (n == 0 || !ask_parts(&p))
        return 0;
    size_t bytes = (size_t)(n * np_element_bytes((neap_dtype)node->dtype));
    uint8_t *want = room(bytes);
    p.out.data = want;
    if (node->op->flops)
        assert_true(isfinite(node->op->flops(&p.call)) && node->op->flops(&p.call) > 0);
    p.call.scratch = room(node->op->scratch ? node->op->scratch(&p.call) : 0);
    assert_int_equal(node->op->run(&p.call), NEAP_OK);
    free(p.call.scratch);
    p.out.data = p.result = room(bytes);
    /* One, three, the larger half; of long dimensions some of these would be very many parts. */
    for (int64_t size = 0; size < 3; size++) {
        int64_t block[NEAP_MAX_RANK] = {0}, all[NEAP_MAX_RANK] = {0};
        memcpy(block, p.out.shape, sizeof block);
        memcpy(all, p.out.shape, sizeof all);
        for (int d = 0; d < p.out.rank; d++) {
            int64_t some = size == 0 ? 1 : size == 1 ? 3 : p.out.shape[d] / 2 + 1;
            if (!p.cut[d] || some > p.out.shape[d] || p.out.shape[d] > 24 * some)
                continue;
            block[d] = all[d] = some;
            run_cut(&p, block, want);
            block[d] = p.out.shape[d];
            cuts++;
        }
        if (size == 2 || (size == 1 && n < 4096)) /* along all of them at once */
            run_cut(&p, all, want);
    }
    free(want);
    free(p.result);
    return cuts;
}

#endif
