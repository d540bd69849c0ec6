/* named_kernels.c - what exported programs call by the name of a Metal kernel: 4-bit codes of a key
 * and value cache (tq_*) and steps of the gated delta rule. */
#include <string.h>

#include "ops/support.h"

/* ---- norms and codes of vectors ----------------------------------------------------------------- */

neap_array *neap_tq_norm(neap_array *x, neap_dtype dtype)
{
    if (!np_ready(1, &x) || !np_plain_dtype("tq_norm", x))
        return NULL;
    if (!np_is_float(dtype))
        return np_refuse("tq_norm", 1, &x, NEAP_EDTYPE, "the result must be a float type");
    neap_array *squares = neap_square(neap_cast(x, NEAP_F32));
    return neap_cast(neap_sqrt(neap_sum(squares, -1, NEAP_KEEPDIMS)), dtype);
}

enum { TQ_LEVELS = 16 };

typedef struct np_tq_job {
    const np_call *c;
    int64_t n; /* bytes of codes */
} np_tq_job;

/* Two codes a byte, the first in the high half. */
static void compress_lane(void *arg, int lane, int lanes)
{
    const np_tq_job *job = arg;
    const float *x = (const float *)(const void *)job->c->in[0]->data;
    const float *bound = (const float *)(const void *)job->c->in[1]->data;
    uint8_t *out = job->c->out->data;
    int64_t begin, end;
    np_share(job->n, 64, lane, lanes, &begin, &end);
    for (int64_t i = begin; i < end && !np_stop_at(i); i++) {
        int high = 0, low = 0;
        for (int b = 0; b < TQ_LEVELS - 1; b++) {
            high += x[2 * i] > bound[b];
            low += x[2 * i + 1] > bound[b];
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
}

static void expand_lane(void *arg, int lane, int lanes)
{
    const np_tq_job *job = arg;
    const uint8_t *codes = job->c->in[0]->data;
    const float *norms = (const float *)(const void *)job->c->in[1]->data;
    const float *levels = (const float *)(const void *)job->c->in[2]->data;
    float *out = (float *)(void *)job->c->out->data;
    const int64_t each = job->c->in[0]->shape[job->c->in[0]->rank - 1]; /* codes of a vector */
    int64_t begin, end;
    np_share(job->n, each, lane, lanes, &begin, &end);
    for (int64_t i = begin; i < end && !np_stop_at(i); i++) {
        const float norm = norms[i / each];
        out[2 * i] = levels[codes[i] >> 4] * norm;
        out[2 * i + 1] = levels[codes[i] & 15] * norm;
    }
}

static neap_status tq_run(const np_call *c, const np_operand *codes, np_task task)
{
    np_tq_job job = {c, np_size(codes->rank, codes->shape)};
    if (job.n >= NP_PARALLEL_ELEMENTS / 8)
        np_pool_run(c->pool, task, &job);
    else if (job.n > 0)
        task(&job, 0, 1);
    return NEAP_OK;
}

static bool tq4_compress_infer(neap_array *out)
{
    const neap_array *x = out->in[0], *bounds = out->in[1];
    if (bounds->rank != 1 || bounds->shape[0] != TQ_LEVELS - 1)
        return np_op_fail(out, NEAP_ESHAPE, "expected %d boundaries", TQ_LEVELS - 1);
    if (x->rank == 0 || x->shape[x->rank - 1] % 2 != 0)
        return np_op_fail(out, NEAP_ESHAPE, "expected an even number of values in a vector");
    np_infer_like(out, x);
    out->dtype = NEAP_U8;
    out->shape[out->rank - 1] /= 2;
    return true;
}

static neap_status tq4_compress_run(const np_call *c)
{
    return tq_run(c, c->out, compress_lane);
}

const np_op np_op_tq4_compress = {.name = "tq4_compress", .arity = 2, .infer = tq4_compress_infer,
                                  .run = tq4_compress_run, .no_grad = "integer result"};

/* Whole arrays are walked as one run of elements. */
static bool tq_static(const char *op, uint32_t n, neap_array *const *in)
{
    for (uint32_t i = 0; i < n; i++)
        if (in[i]->dynamic_dim >= 0) {
            np_refuse(op, n, in, NEAP_EUNSUPPORTED, "extent %s is set at run time",
                      in[i]->extent->name);
            return false;
        }
    return true;
}

neap_array *neap_tq4_compress(neap_array *values, neap_array *boundaries)
{
    neap_array *in[2] = {values, boundaries};
    if (!np_ready(2, in) || !tq_static("tq4_compress", 2, in))
        return NULL;
    if (!np_is_float(values->dtype) || !np_is_float(boundaries->dtype))
        return np_refuse("tq4_compress", 2, in, NEAP_EDTYPE, "for floats only");
    for (int i = 0; i < 2; i++)
        in[i] = np_dense(neap_cast(in[i], NEAP_F32));
    return np_node(&np_op_tq4_compress, 2, in, NULL, 0);
}

static bool tq_dequant_infer(neap_array *out)
{
    const neap_array *codes = out->in[0], *norms = out->in[1], *levels = out->in[2];
    if (levels->rank != 1 || levels->shape[0] != TQ_LEVELS)
        return np_op_fail(out, NEAP_ESHAPE, "expected %d centroids", TQ_LEVELS);
    if (codes->rank == 0 ||
        np_size(norms->rank, norms->shape) != np_size(codes->rank - 1, codes->shape))
        return np_op_fail(out, NEAP_ESHAPE, "expected a norm for every vector of codes");
    np_infer_like(out, codes);
    out->dtype = NEAP_F32;
    out->shape[out->rank - 1] *= 2;
    return true;
}

static neap_status tq_dequant_run(const np_call *c)
{
    return tq_run(c, c->in[0], expand_lane);
}

const np_op np_op_tq_dequant = {.name = "tq_dequant", .arity = 3, .infer = tq_dequant_infer,
                                .run = tq_dequant_run};

neap_array *neap_tq_dequant(neap_array *codes, neap_array *norms, neap_array *centroids,
                            neap_dtype dtype)
{
    neap_array *in[3] = {codes, norms, centroids};
    if (!np_ready(3, in) || !tq_static("tq_dequant", 3, in))
        return NULL;
    if (codes->dtype != NEAP_U8 || !np_is_float(norms->dtype) || !np_is_float(centroids->dtype) ||
        !np_is_float(dtype))
        return np_refuse("tq_dequant", 3, in, NEAP_EDTYPE,
                         "expected codes in u8, floats for the others and the result");
    in[0] = np_dense(codes);
    in[1] = np_dense(neap_cast(norms, NEAP_F32));
    in[2] = np_dense(neap_cast(centroids, NEAP_F32));
    return neap_cast(np_node(&np_op_tq_dequant, 3, in, NULL, 0), dtype);
}

/* ---- the gated delta rule ------------------------------------------------------------------------ */

/* q, k [B, T, Hk, Dk], v [B, T, Hv, Dv], g, beta [B, T, Hv], state [B, Hv, Dv, Dk]. */
enum { Q, K, V, G, BETA, STATE, DELTA_INPUTS };

typedef struct np_delta_job {
    const np_call *c;
    int64_t blocks; /* of rows of the state, for every batch and head */
} np_delta_job;

enum { DELTA_BLOCK = 8 };

static bool delta_infer(neap_array *out)
{
    const neap_array *q = out->in[Q], *k = out->in[K], *v = out->in[V], *g = out->in[G],
                     *beta = out->in[BETA], *s = out->in[STATE];
    bool ranks = q->rank == 4 && k->rank == 4 && v->rank == 4 && g->rank == 3 && beta->rank == 3 &&
                 s->rank == 4;
    if (!ranks || !np_same_shape(q, k) || !np_same_shape(g, beta) ||
        memcmp(q->shape, v->shape, 2 * sizeof q->shape[0]) != 0 ||
        memcmp(g->shape, v->shape, 3 * sizeof g->shape[0]) != 0 || s->shape[0] != v->shape[0] ||
        s->shape[1] != v->shape[2] || s->shape[2] != v->shape[3] || s->shape[3] != q->shape[3])
        return np_op_fail(out, NEAP_ESHAPE,
                          "expected q, k [B, T, Hk, Dk], v [B, T, Hv, Dv], g, beta [B, T, Hv] and a "
                          "state [B, Hv, Dv, Dk]");
    if (q->shape[2] == 0 ? v->shape[2] != 0 : v->shape[2] % q->shape[2] != 0)
        return np_op_fail(out, NEAP_ESHAPE, "%lld heads of v, %lld of k", (long long)v->shape[2],
                          (long long)q->shape[2]);
    out->dtype = NEAP_F32;
    out->rank = 1;
    out->shape[0] = np_size(4, v->shape) + np_size(4, s->shape);
    return true;
}

static void delta_lane(void *arg, int lane, int lanes)
{
    const np_delta_job *job = arg;
    const np_operand *const *in = job->c->in;
    const int64_t *v = in[V]->shape, *q = in[Q]->shape, steps = v[1], hv = v[2], dv = v[3],
                  hk = q[2], dk = q[3], each = (dv + DELTA_BLOCK - 1) / DELTA_BLOCK;
    const float *data[DELTA_INPUTS];
    float *y = (float *)(void *)job->c->out->data, *state = y + np_size(4, v);
    int64_t begin, end;
    for (int i = 0; i < DELTA_INPUTS; i++)
        data[i] = (const float *)(const void *)in[i]->data;
    np_share(job->blocks, 1, lane, lanes, &begin, &end);
    for (; begin < end; begin++) {
        const int64_t head = begin / each % hv, b = begin / each / hv, key = head / (hv / hk);
        const int64_t row = begin % each * DELTA_BLOCK;
        const int64_t last = row + DELTA_BLOCK < dv ? row + DELTA_BLOCK : dv;
        np_delta_args a = {.steps = steps, .dk = dk, .q = data[Q] + (b * steps * hk + key) * dk,
                           .k = data[K] + (b * steps * hk + key) * dk,
                           .v = data[V] + (b * steps * hv + head) * dv,
                           .g = data[G] + b * steps * hv + head,
                           .beta = data[BETA] + b * steps * hv + head,
                           .y = y + (b * steps * hv + head) * dv,
                           .q_step = hk * dk, .k_step = hk * dk, .v_step = hv * dv, .g_step = hv,
                           .beta_step = hv, .y_step = hv * dv,
                           .state = state + (b * hv + head) * dv * dk};
        memcpy(a.state + row * dk, data[STATE] + ((b * hv + head) * dv + row) * dk,
               (size_t)((last - row) * dk) * sizeof(float));
        job->c->ctx->kernels->recurrent->delta_steps(&a, row, last);
    }
}

static neap_status delta_run(const np_call *c)
{
    const int64_t *v = c->in[V]->shape;
    np_delta_job job = {c, v[0] * v[2] * ((v[3] + DELTA_BLOCK - 1) / DELTA_BLOCK)};
    if (np_size(4, c->in[STATE]->shape) * (v[1] + 1) >= NP_PARALLEL_ELEMENTS)
        np_pool_run(c->pool, delta_lane, &job);
    else
        delta_lane(&job, 0, 1);
    return NEAP_OK;
}

static double delta_flops(const np_call *shapes)
{
    const np_operand *state = shapes->in[STATE];
    return 7 * (double)shapes->in[V]->shape[1] * (double)np_size(4, state->shape);
}

const np_op np_op_gated_delta = {.name = "gated_delta", .arity = DELTA_INPUTS,
                                 .infer = delta_infer, .run = delta_run, .flops = delta_flops};

neap_status np_gated_delta_step(neap_array *q, neap_array *k, neap_array *v, neap_array *g,
                                neap_array *beta, neap_array *state, neap_array **out_y,
                                neap_array **out_state)
{
    neap_array *in[DELTA_INPUTS] = {q, k, v, g, beta, state};
    if (np_ready(DELTA_INPUTS, in) && tq_static("gated_delta", DELTA_INPUTS, in)) {
        for (int i = 0; i < DELTA_INPUTS; i++) {
            if (!np_is_float(in[i]->dtype)) {
                np_refuse("gated_delta", DELTA_INPUTS, in, NEAP_EDTYPE, "for floats only");
                return NEAP_EDTYPE;
            }
            in[i] = np_dense(neap_cast(in[i], NEAP_F32));
        }
        /* one result holds both: all of y, then the state */
        neap_array *both = np_node(&np_op_gated_delta, DELTA_INPUTS, in, NULL, 0);
        if (both) {
            const int64_t n = np_size(4, v->shape);
            neap_array *y = neap_narrow(both, 0, 0, n), *s = neap_narrow(both, 0, n, both->shape[0]);
            *out_y = neap_cast(neap_reshape(y, 4, v->shape), (neap_dtype)v->dtype);
            *out_state = neap_cast(neap_reshape(s, 4, state->shape), (neap_dtype)state->dtype);
        }
    }
    return *out_y && *out_state ? NEAP_OK : np_refused();
}

neap_status neap_gated_delta_step(neap_array *q, neap_array *k, neap_array *v, neap_array *g,
                                  neap_array *beta, neap_array *state, neap_array **out_y,
                                  neap_array **out_state)
{
    if (out_y)
        *out_y = NULL;
    if (out_state)
        *out_state = NULL;
    return NP_CALL(np_scope_context(), out_y && out_state,
                   np_gated_delta_step(q, k, v, g, beta, state, out_y, out_state));
}
