/* rope.c - rotary position embedding of x [.., T, D]; positions are shared out to the lanes. */
#include <string.h>

#include "ops/support.h"

static const int64_t MAX_OFFSET = (int64_t)1 << 61; /* two and 2^62 rows stay inside 64 bits */

typedef struct np_rope_attr {
    int64_t rotary, offset;
    neap_param *offset_param;
    float base, scale;
    int32_t interleaved, has_positions, has_freqs;
    int32_t leading_is_batch; /* of three dimensions, the first is the batch */
} np_rope_attr;

/* Strides of batch, head, position. */
static void rope_strides(const np_operand *x, bool leading_is_batch, int64_t strides[3])
{
    strides[0] = x->rank == 4 || (x->rank == 3 && leading_is_batch) ? x->strides[0] : 0;
    strides[1] = x->rank == 4                        ? x->strides[1]
                 : x->rank == 3 && !leading_is_batch ? x->strides[0]
                                                     : 0;
    strides[2] = x->strides[x->rank - 2];
}

typedef struct np_rope_job {
    np_rope_fn fn;
    np_rope_args args;
    int64_t size;
} np_rope_job;

static void rope_lane(void *arg, int lane, int lanes)
{
    const np_rope_job *job = arg;
    np_rope_args a = job->args;
    int64_t begin, end, *axis = a.positions > 1 ? &a.positions : &a.heads;
    np_share(*axis, 1, lane, lanes, &begin, &end);
    if (begin == end)
        return;
    *axis = end - begin;
    int d = axis == &a.positions ? 2 : 1;
    a.out = (uint8_t *)a.out + begin * a.out_strides[d] * job->size;
    a.x = (const uint8_t *)a.x + begin * a.x_strides[d] * job->size;
    if (d == 2) {
        a.offset += begin;
        a.at = a.at ? a.at + begin : NULL;
    }
    job->fn(&a);
}

static neap_status rope_run(const np_call *c)
{
    const np_rope_attr *attr = c->attr;
    const np_operand *x = c->in[0], *out = c->out;
    np_rope_job job = {.fn = c->ctx->kernels->row->rope[x->dtype], .size = np_element_bytes(x->dtype)};
    np_rope_args *a = &job.args;
    if (np_size(out->rank, out->shape) == 0)
        return NEAP_OK;
    *a = (np_rope_args){.out = out->data, .x = x->data, .batch = 1, .heads = 1,
                        .positions = out->shape[out->rank - 2], .dim = out->shape[out->rank - 1],
                        .rotary = attr->rotary, .interleaved = attr->interleaved,
                        .offset = attr->offset + np_part_first(c, out->rank - 2), .base = attr->base,
                        .scale = attr->scale};
    if (out->rank == 4 || (out->rank == 3 && attr->leading_is_batch))
        a->batch = out->shape[0];
    if (out->rank == 4)
        a->heads = out->shape[1];
    else if (out->rank == 3 && !attr->leading_is_batch)
        a->heads = out->shape[0];
    rope_strides(out, attr->leading_is_batch, a->out_strides);
    rope_strides(x, attr->leading_is_batch, a->x_strides);
    if (attr->offset_param)
        a->offset += attr->offset_param->value;
    if (attr->has_positions) {
        const np_operand *p = c->in[1];
        a->at = (const int32_t *)(const void *)p->data;
        a->at_batch_stride = p->rank == 2 && p->shape[0] > 1 ? p->strides[0] : 0;
    }
    if (attr->has_freqs)
        a->freqs = (const float *)(const void *)c->in[1 + attr->has_positions]->data;
    if (np_size(out->rank, out->shape) >= NP_PARALLEL_ELEMENTS / 4)
        np_pool_run(c->pool, rope_lane, &job);
    else
        rope_lane(&job, 0, 1);
    return NEAP_OK;
}

static int rope_part(const np_call *shapes, int dim, uint32_t input)
{
    const np_rope_attr *attr = shapes->attr;
    const int positions = shapes->out->rank - 2;
    if (dim > positions)
        return NP_PART_NONE;
    if (input == 0)
        return dim;
    if (input > 1 || !attr->has_positions) /* divisors */
        return NP_PART_WHOLE;
    const np_operand *p = shapes->in[1];
    if (dim == positions)
        return p->rank - 1;
    return dim == 0 && p->rank == 2 && p->shape[0] > 1 ? 0 : NP_PART_WHOLE;
}

/* Sine and cosine are shared by the heads. */
static double rope_flops(const np_call *shapes)
{
    return np_flops_result(shapes, 6);
}

const np_op np_op_rope = {.name = "rope", .arity = -1, .overwrites = 1, .infer = np_infer_same,
                          .run = rope_run, .part = rope_part, .flops = rope_flops};

/* ---- building ------------------------------------------------------------------------------- */

/* positions: integers [T] or [B, T] for x [B, .., T, D]. */
static bool positions_fit(neap_array *x, neap_array *p)
{
    int64_t rows = x->shape[x->rank - 2], batch = x->rank > 2 ? x->shape[0] : 1;
    bool shape = (p->rank == 1 || p->rank == 2) && p->shape[p->rank - 1] == rows &&
                 (p->rank == 1 || p->shape[0] == batch || p->shape[0] == 1);
    neap_array *in[2] = {x, p};
    if (!np_is_integer(p->dtype))
        np_refuse("rope", 2, in, NEAP_EDTYPE, "positions must be integers");
    else if (!shape)
        np_refuse("rope", 2, in, NEAP_ESHAPE, "positions must be [%lld] or [%lld, %lld]",
                  (long long)rows, (long long)batch, (long long)rows);
    else if (p->dynamic_dim >= 0 && p->extent != x->extent)
        np_refuse("rope", 2, in, NEAP_ESHAPE, "positions of another extent set at run time");
    else
        return true;
    return false;
}

static bool check(neap_array *x, const neap_rope_options *o)
{
    if (!np_plain_dtype("rope", x))
        return false;
    int64_t dim = x->rank ? x->shape[x->rank - 1] : 0;
    if (!np_is_float(x->dtype))
        np_refuse("rope", 1, &x, NEAP_EDTYPE, "for floats only");
    else if (x->rank < 2 || x->rank > 4)
        np_refuse("rope", 1, &x, NEAP_ESHAPE, "%d dimensions, expected 2 to 4", x->rank);
    else if (x->dynamic_dim == x->rank - 1)
        np_refuse("rope", 1, &x, NEAP_EUNSUPPORTED, "the last extent is set at run time");
    else if (o->rotary < 0 || o->rotary > dim || (o->rotary ? o->rotary : dim) % 2 != 0)
        np_refuse("rope", 1, &x, NEAP_ESHAPE, "%lld elements turn, expected an even number to %lld",
                  (long long)(o->rotary ? o->rotary : dim), (long long)dim);
    else if (o->offset < -MAX_OFFSET || o->offset > MAX_OFFSET ||
             (o->offset_param && o->offset_param->max > MAX_OFFSET))
        np_refuse("rope", 1, &x, NEAP_EINVAL, "offset %lld and %lld at run time, at most 2^61 each",
                  (long long)o->offset, (long long)(o->offset_param ? o->offset_param->max : 0));
    else if (o->positions && (o->offset || o->offset_param))
        np_refuse("rope", 1, &x, NEAP_EINVAL, "both positions and an offset");
    else
        return !o->positions || positions_fit(x, o->positions);
    return false;
}

neap_array *neap_rope(neap_array *x, const neap_rope_options *options)
{
    neap_rope_options o = NEAP_ROPE_OPTIONS_INIT;
    neap_array *in[3] = {x};
    uint32_t n = 1;
    if (!np_ready(1, &x) || !np_options("rope", options, &o, sizeof o) || !check(x, &o))
        return NULL;
    np_rope_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.rotary = o.rotary ? o.rotary : x->shape[x->rank - 1];
    attr.offset = o.offset;
    attr.offset_param = o.offset_param;
    attr.base = o.base;
    attr.scale = o.scale;
    attr.interleaved = o.interleaved;
    in[0] = np_adjacent(x);
    if (o.positions) {
        attr.has_positions = 1;
        attr.leading_is_batch = o.positions->rank == 2;
        in[n++] = np_adjacent(neap_cast(o.positions, NEAP_I32));
    }
    if (o.freqs) {
        if (o.freqs->rank != 1 || o.freqs->shape[0] != attr.rotary / 2 || o.freqs->dynamic_dim >= 0)
            return np_refuse("rope", 2, (neap_array *[]){x, o.freqs}, NEAP_ESHAPE,
                             "freqs must be [%lld]", (long long)attr.rotary / 2);
        attr.has_freqs = 1;
        in[n++] = np_adjacent(neap_cast(o.freqs, NEAP_F32));
    }
    return np_node(&np_op_rope, n, in, &attr, sizeof attr);
}
