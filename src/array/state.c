/* state.c - named mutable buffers with versions, and runtime parameters.
 *
 * A write is an effect node chained to the write before it; the state holds the latest one until it
 * has run. A read is a node whose storage is the state's buffer and which remembers how many writes
 * were recorded before it. */
#include <stdio.h>
#include <string.h>

#include "array/array.h"

static bool read_infer(neap_array *out)
{
    (void)out; /* set by neap_state_read */
    return true;
}

const np_op np_op_state_read = {.name = "state_read",
                                .arity = 0,
                                .flags = NP_OP_STATE_READ,
                                .infer = read_infer,
                                .no_grad = "a state is a constant"};

neap_status np_state_new(neap_context *ctx, const char *name, neap_dtype dtype, int rank,
                           const int64_t *shape, neap_state **out)
{
    int64_t elements;
    uint64_t bytes;
    *out = NULL;
    name = name ? name : "";
    if (rank < 0 || rank > NEAP_MAX_RANK || np_is_quantised(dtype) ||
        !np_shape_bytes(dtype, rank, shape, &elements, &bytes))
        return np_fail(ctx, NEAP_ESHAPE, "state %s: bad dtype or shape", name);
    neap_state *s = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *s);
    if (!s)
        return NEAP_ENOMEM;
    s->buffer = np_buffer_reserve(ctx, NEAP_MEM_STATE, bytes);
    if (!s->buffer) {
        np_free(ctx, NEAP_MEM_GRAPH, s, sizeof *s);
        return NEAP_ENOMEM;
    }
    atomic_init(&s->refs, 1);
    s->ctx = ctx;
    s->dtype = dtype;
    s->rank = rank;
    if (rank)
        memcpy(s->shape, shape, (size_t)rank * sizeof *shape);
    snprintf(s->name, sizeof s->name, "%s", name);
    *out = s;
    return NEAP_OK;
}

neap_status neap_state_new(neap_context *ctx, const char *name, neap_dtype dtype, int rank,
                           const int64_t *shape, neap_state **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, out && (shape || rank == 0), np_state_new(ctx, name, dtype, rank, shape, out));
}

uint64_t neap_state_bytes(const neap_state *s)
{
    int64_t elements;
    uint64_t bytes = 0;
    np_shape_bytes(s->dtype, s->rank, s->shape, &elements, &bytes);
    return bytes;
}

neap_status np_state_materialise(neap_state *s)
{
    if (np_buffer_fill(s->buffer) != NEAP_OK) {
        np_fail_prefix(s->ctx, "state %s", s->name);
        return s->ctx->status;
    }
    return NEAP_OK;
}

void np_state_release(neap_state *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    np_buffer_release(s->buffer);
    np_free(s->ctx, NEAP_MEM_GRAPH, s, sizeof *s);
}

static void forget_writes(neap_state *s)
{
    neap_array *last = s->last;
    s->last = NULL; /* the node holds a reference to the state, the state one to the node */
    neap_release(last);
}

void np_state_forget(neap_state *s)
{
    forget_writes(s);
    s->written = s->done;
}

void neap_state_free(neap_state *s)
{
    if (!s)
        return;
    forget_writes(s);
    np_state_release(s);
}

static neap_status state_reset(neap_state *s)
{
    forget_writes(s);
    s->poisoned = false;
    s->done = ++s->written; /* reads and writes recorded before are stale */
    if (s->buffer->data)
        memset(s->buffer->data, 0, s->buffer->bytes);
    return NEAP_OK;
}

neap_status neap_state_reset(neap_state *s)
{
    return NP_CALL_ON(s, true, state_reset(s));
}

neap_array *neap_state_read(neap_state *s)
{
    if (!s)
        return NULL;
    neap_array *a = np_node(&np_op_state_read, 0, NULL, NULL, 0);
    if (!a)
        return NULL;
    a->dtype = (uint8_t)s->dtype;
    a->rank = (uint8_t)s->rank;
    memcpy(a->shape, s->shape, sizeof a->shape);
    np_row_major(a->rank, a->shape, a->strides);
    atomic_fetch_add(&s->refs, 1);
    a->state = s;
    a->version = s->written;
    a->after = neap_retain(s->last);
    return a;
}

void np_state_record(neap_state *s, neap_array *node)
{
    atomic_fetch_add(&s->refs, 1);
    node->state = s;
    node->version = ++s->written;
    node->after = s->last; /* takes over the state's reference */
    s->last = neap_retain(node);
}

/* ---- runtime parameters ------------------------------------------------------------------- */

neap_status np_param_new(neap_context *ctx, const char *name, int64_t max, neap_param **out)
{
    *out = NULL;
    name = name ? name : "";
    if (max < 0)
        return np_fail(ctx, NEAP_EINVAL, "parameter %s: maximum %lld, expected 0 or more", name,
                       (long long)max);
    neap_param *p = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *p);
    if (!p)
        return NEAP_ENOMEM;
    atomic_init(&p->refs, 1);
    p->ctx = ctx;
    p->max = max;
    snprintf(p->name, sizeof p->name, "%s", name);
    *out = p;
    return NEAP_OK;
}

neap_status neap_param_new(neap_context *ctx, const char *name, int64_t max, neap_param **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, out, np_param_new(ctx, name, max, out));
}

void np_param_release(neap_param *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1)
        np_free(p->ctx, NEAP_MEM_GRAPH, p, sizeof *p);
}

void neap_param_free(neap_param *p)
{
    np_param_release(p);
}

neap_status np_param_set(neap_param *p, int64_t value)
{
    if (value < 0 || value > p->max)
        return np_fail(p->ctx, NEAP_EINVAL, "parameter %s: %lld, the range is 0 to %lld", p->name,
                       (long long)value, (long long)p->max);
    p->value = value;
    return NEAP_OK;
}

neap_status neap_param_set(neap_param *p, int64_t value)
{
    return NP_CALL_ON(p, true, np_param_set(p, value));
}

int64_t neap_param_value(const neap_param *p)
{
    return p->value;
}
