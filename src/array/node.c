/* node.c - making, retaining and releasing arrays. Releasing walks a worklist: a chain of a hundred
 * thousand nodes must not need a deep stack. */
#include <assert.h>
#include <string.h>

#include "array/array.h"

static atomic_uint_fast64_t sequence;

/* ---- buffers -------------------------------------------------------------------------------- */

np_buffer *np_buffer_new(neap_context *ctx, np_category category, uint64_t bytes, bool zero)
{
    np_buffer *b = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *b);
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->ctx = ctx;
    b->category = category;
    b->bytes = bytes;
    b->data = zero ? np_calloc(ctx, category, bytes) : np_alloc(ctx, category, bytes);
    if (!b->data) {
        np_free(ctx, NEAP_MEM_GRAPH, b, sizeof *b);
        return NULL;
    }
    return b;
}

np_buffer *np_buffer_reserve(neap_context *ctx, np_category category, uint64_t bytes)
{
    np_buffer *b = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *b);
    if (!b)
        return NULL;
    *b = (np_buffer){.refs = 1, .category = category, .ctx = ctx, .bytes = bytes, .paged = true};
    return b;
}

neap_status np_buffer_fill(np_buffer *b)
{
    if (!b->data)
        b->data = np_alloc_pages(b->ctx, b->category, b->bytes);
    return b->data ? NEAP_OK : NEAP_ENOMEM;
}

np_buffer *np_buffer_over(neap_context *ctx, void *data, uint64_t bytes,
                          void (*release)(void *user), void *user)
{
    np_buffer *b = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *b);
    if (!b)
        return NULL;
    *b = (np_buffer){.refs = 1,
                     .ctx = ctx,
                     .data = data,
                     .bytes = bytes,
                     .borrowed = true,
                     .release = release,
                     .user = user};
    return b;
}

void np_buffer_release(np_buffer *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (b->paged)
        np_free_pages(b->ctx, b->category, b->data, b->bytes);
    else if (!b->borrowed)
        np_free(b->ctx, b->category, b->data, b->bytes);
    if (b->release)
        b->release(b->user);
    np_free(b->ctx, NEAP_MEM_GRAPH, b, sizeof *b);
}

/* ---- making --------------------------------------------------------------------------------- */

static neap_array *new_array(neap_context *ctx, size_t tail)
{
    neap_array *a =
        np_calloc(ctx, NEAP_MEM_GRAPH, offsetof(neap_array, version) + tail * sizeof(uint64_t));
    if (!a)
        return NULL;
    atomic_init(&a->refs, 1);
    a->ctx = ctx;
    a->dynamic_dim = -1;
    a->tail = (uint8_t)tail;
    a->sequence = atomic_fetch_add_explicit(&sequence, 1, memory_order_relaxed);
    np_scope_add(ctx, a);
    return a;
}

neap_array *np_array_new(neap_context *ctx)
{
    return new_array(ctx, 0);
}

static size_t words(size_t bytes)
{
    return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

/* Inputs in the array itself, after the attributes. */
static neap_array **own_inputs(neap_array *a)
{
    return (neap_array **)(void *)(a->attr + words(a->attr_bytes) * sizeof(uint64_t));
}

/* A node or a view, with room for that many inputs if they are few. */
static neap_array *new_node(neap_context *ctx, size_t attr_bytes, uint32_t n_in)
{
    assert(attr_bytes <= NP_ATTR_BYTES);
    const size_t own = n_in > NP_INLINE_INPUTS ? 0 : n_in;
    neap_array *a = new_array(ctx, 1 + words(attr_bytes) + own);
    if (!a)
        return NULL;
    a->attr_bytes = (uint8_t)attr_bytes;
    a->in = own_inputs(a);
    return a;
}

static bool set_inputs(neap_array *a, uint32_t n, neap_array *const *in)
{
    if (n > NP_INLINE_INPUTS) {
        neap_array **many = np_alloc(a->ctx, NEAP_MEM_GRAPH, n * sizeof *a->in);
        if (!many)
            return false;
        a->in = many;
    }
    for (uint32_t i = 0; i < n; i++)
        a->in[i] = neap_retain(in[i]);
    a->n_in = n;
    return true;
}

neap_array *np_node(const np_op *op, uint32_t n_in, neap_array *const *in, const void *attr,
                    size_t attr_bytes)
{
    for (uint32_t i = 0; i < n_in; i++)
        if (!in[i])
            return NULL;
    neap_context *ctx = np_scope_context();
    if (!ctx || ctx->status != NEAP_OK)
        return NULL;
    neap_array *a = new_node(ctx, attr_bytes, n_in);
    if (!a)
        return NULL;
    a->op = op;
    if (attr)
        memcpy(a->attr, attr, attr_bytes);
    if (!set_inputs(a, n_in, in))
        return NULL;
    if (!op->infer(a)) {
        a->extent = NULL; /* not counted yet */
        return NULL;
    }
    if (a->extent)
        atomic_fetch_add(&a->extent->refs, 1);
    int64_t elements;
    uint64_t bytes;
    if (!np_shape_bytes(a->dtype, a->rank, a->shape, &elements, &bytes)) {
        np_op_fail(a, NEAP_ELIMIT, "the result has more than 2^62 elements");
        return NULL;
    }
    for (uint32_t i = 0; i < n_in; i++) {
        if (in[i]->dynamic_dim >= 0 && a->dynamic_dim < 0 && !(op->flags & NP_OP_EFFECT) &&
            !op->absorbs_extent) {
            np_op_fail(a, NEAP_EUNSUPPORTED, "input %u has an extent set at run time", i);
            return NULL;
        }
    }
    np_row_major(a->rank, a->shape, a->strides);
    return a;
}

void np_set_extent(neap_array *a, int dim, neap_param *param)
{
    if (param)
        atomic_fetch_add(&param->refs, 1);
    if (a->extent)
        np_param_release(a->extent);
    a->extent = param;
    a->dynamic_dim = (int8_t)(param ? dim : -1);
}

neap_array *np_view(neap_array *x, int rank, const int64_t *shape, const int64_t *strides,
                    int64_t offset)
{
    neap_context *ctx = x ? np_scope_context() : NULL;
    neap_array *a = ctx && ctx->status == NEAP_OK ? new_node(ctx, 0, 1) : NULL;
    if (!a)
        return NULL;
    a->base = neap_retain(np_storage(x));
    a->dtype = x->dtype;
    a->packed = x->packed;
    a->rank = (uint8_t)rank;
    if (rank) {
        memcpy(a->shape, shape, (size_t)rank * sizeof *shape);
        memcpy(a->strides, strides, (size_t)rank * sizeof *strides);
    }
    neap_array *gate = !x->base ? NULL : x->after ? x : x->n_in ? x->in[0] : NULL;
    if (gate) { /* what x waits for, this view waits for too */
        a->in[0] = neap_retain(gate);
        a->n_in = 1;
    }
    a->offset = x->offset + offset;
    a->shift_scale = x->shift_scale;
    a->shift = x->shift;
    if (a->shift)
        atomic_fetch_add(&a->shift->refs, 1);
    return a;
}

/* ---- releasing ------------------------------------------------------------------------------ */

neap_array *neap_retain(neap_array *a)
{
    if (a)
        atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

/* Drops one reference; the last one puts the array on the worklist. */
static void drop(neap_array *a, neap_array **worklist)
{
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1) {
        a->link = *worklist;
        *worklist = a;
    }
}

static void drop_inputs(neap_array *a, neap_array **worklist)
{
    for (uint32_t i = 0; i < a->n_in; i++)
        drop(a->in[i], worklist);
    if (a->n_in > NP_INLINE_INPUTS)
        np_free(a->ctx, NEAP_MEM_GRAPH, a->in, a->n_in * sizeof *a->in);
    a->in = NULL;
    a->n_in = 0;
    drop(a->base, worklist);
    a->base = NULL;
    drop(a->after, worklist);
    a->after = NULL;
}

static void drop_rest(neap_array *a)
{
    np_buffer_release(a->buffer);
    if (a->shift)
        np_param_release(a->shift);
    if (a->extent)
        np_param_release(a->extent);
    if (a->state)
        np_state_release(a->state);
    if (a->name)
        np_free_sized(a->ctx, NEAP_MEM_GRAPH, a->name);
    np_free(a->ctx, NEAP_MEM_GRAPH, a, np_array_bytes(a));
}

static void drain(neap_array *worklist)
{
    while (worklist) {
        neap_array *a = worklist;
        worklist = a->link;
        drop_inputs(a, &worklist);
        drop_rest(a);
    }
}

void neap_release(neap_array *a)
{
    neap_array *worklist = NULL;
    drop(a, &worklist);
    drain(worklist);
}

void np_array_become_value(neap_array *a, np_buffer *buffer)
{
    neap_array *worklist = NULL;
    a->op = NULL;
    a->buffer = buffer;
    drop_inputs(a, &worklist);
    drain(worklist);
    if (a->shift)
        np_param_release(a->shift);
    if (a->state)
        np_state_release(a->state);
    a->shift = NULL;
    a->state = NULL;
    a->offset = 0;
    np_row_major(a->rank, a->shape, a->strides);
}

void np_array_finish_effect(neap_array *a)
{
    neap_array *worklist = NULL;
    a->done = true;
    drop_inputs(a, &worklist);
    drain(worklist);
}

/* ---- values --------------------------------------------------------------------------------- */

static neap_array *value(neap_dtype dtype, int rank, const int64_t *shape, uint64_t *bytes)
{
    neap_context *ctx = np_scope_context();
    if (!ctx || ctx->status != NEAP_OK)
        return NULL;
    int64_t elements;
    if (rank < 0 || rank > NEAP_MAX_RANK) {
        np_fail(ctx, NEAP_ESHAPE, "rank %d, the limit is %d", rank, NEAP_MAX_RANK);
        return NULL;
    }
    if (!neap_dtype_describe(dtype)->name) {
        np_fail(ctx, NEAP_EDTYPE, "dtype %d is not known", (int)dtype);
        return NULL;
    }
    if (!np_shape_bytes(dtype, rank, shape, &elements, bytes)) {
        neap_array t = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
        if (rank)
            memcpy(t.shape, shape, (size_t)rank * sizeof *shape);
        char text[NP_SHAPE_TEXT];
        np_fail(
            ctx, NEAP_ESHAPE,
            "%s: extents must be 0 or more, at most 2^62 in all, quantised rows in whole blocks",
            np_shape_text(&t, text));
        return NULL;
    }
    neap_array *a = np_array_new(ctx);
    if (!a)
        return NULL;
    a->dtype = (uint8_t)dtype;
    a->rank = (uint8_t)rank;
    if (rank) /* a 0-d value may come without a shape */
        memcpy(a->shape, shape, (size_t)rank * sizeof *shape);
    np_row_major(rank, a->shape, a->strides);
    return a;
}

static neap_array *owned(neap_dtype dtype, int rank, const int64_t *shape, bool zero,
                         uint64_t *bytes)
{
    neap_array *a = value(dtype, rank, shape, bytes);
    if (!a)
        return NULL;
    a->buffer = np_buffer_new(a->ctx, NEAP_MEM_ACTIVATIONS, *bytes, zero);
    if (!a->buffer) {
        char text[NP_SHAPE_TEXT];
        neap_memory_info m = NEAP_MEMORY_INFO_INIT;
        neap_context_memory(a->ctx, &m);
        np_fail_prefix(a->ctx, "a value of %s beside %llu bytes of values, pending or kept",
                       np_shape_text(a, text),
                       (unsigned long long)m.active_by_category[NEAP_MEM_ACTIVATIONS]);
        return NULL;
    }
    return a;
}

neap_array *neap_array_from(neap_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    uint64_t bytes;
    neap_array *a = owned(dtype, rank, shape, false, &bytes);
    if (!a || !bytes)
        return a;
    if (!data) {
        np_fail(a->ctx, NEAP_EINVAL, "a value of %llu bytes from no data",
                (unsigned long long)bytes);
        return NULL;
    }
    memcpy(a->buffer->data, data, bytes);
    return a;
}

neap_array *neap_array_zeros(neap_dtype dtype, int rank, const int64_t *shape)
{
    uint64_t bytes;
    return owned(dtype, rank, shape, true, &bytes);
}

neap_array *neap_array_over(neap_dtype dtype, int rank, const int64_t *shape, const void *data,
                            void (*release)(void *user), void *user)
{
    uint64_t bytes;
    neap_array *a = value(dtype, rank, shape, &bytes);
    if (a)
        a->buffer = np_buffer_over(a->ctx, (void *)(uintptr_t)data, bytes, release, user);
    return a && a->buffer ? a : NULL;
}

neap_dtype neap_array_dtype(const neap_array *a)
{
    return a ? (neap_dtype)a->dtype : NEAP_BOOL;
}
int neap_array_rank(const neap_array *a)
{
    return a ? a->rank : 0;
}
const int64_t *neap_array_shape(const neap_array *a)
{
    return a ? a->shape : NULL;
}
const int64_t *neap_array_strides(const neap_array *a)
{
    return a ? a->strides : NULL;
}
int64_t neap_array_size(const neap_array *a)
{
    return a ? np_size(a->rank, a->shape) : 0;
}

uint64_t neap_array_bytes(const neap_array *a)
{
    int64_t elements;
    uint64_t bytes = 0;
    if (a)
        np_shape_bytes((neap_dtype)a->dtype, a->rank, a->shape, &elements, &bytes);
    return bytes;
}

/* Is it there for certain? A view that waits itself counts as not there. */
static bool has_come(const neap_array *a)
{
    const neap_array *s = np_storage_const(a);
    return (s->buffer || s->done) && (!a->base || (!a->after && !a->n_in));
}

bool neap_array_is_value(const neap_array *a)
{
    if (!a || !np_storage_const(a)->buffer || a->shift)
        return false;
    for (; a && a->base; a = a->n_in ? a->in[0] : NULL) /* of neap_depends: not before that has run */
        if (a->after && !has_come(a->after))
            return false;
    return true;
}

const void *neap_array_data(const neap_array *a)
{
    if (!neap_array_is_value(a))
        return NULL;
    const uint8_t *p = np_storage_const(a)->buffer->data;
    return !p || np_is_quantised((neap_dtype)a->dtype)
               ? p
               : p + a->offset * np_element_bytes((neap_dtype)a->dtype);
}

void *neap_array_mutable(neap_array *a)
{
    return (void *)(uintptr_t)neap_array_data(a);
}

void neap_array_set_name(neap_array *a, const char *name)
{
    if (!a || !name)
        return;
    size_t n = strlen(name) + 1;
    char *copy = np_alloc_sized(a->ctx, NEAP_MEM_GRAPH, n);
    if (!copy)
        return;
    memcpy(copy, name, n);
    if (a->name)
        np_free_sized(a->ctx, NEAP_MEM_GRAPH, a->name);
    a->name = copy;
}

static neap_status array_read(const neap_array *a, void *out, uint64_t bytes)
{
    if (!neap_array_is_value(a))
        return a ? np_fail(a->ctx, NEAP_EINVAL, "read: the array is not evaluated") : NEAP_EINVAL;
    if (bytes != neap_array_bytes(a))
        return np_fail(a->ctx, NEAP_EINVAL, "read: %llu bytes given, the array has %llu",
                       (unsigned long long)bytes, (unsigned long long)neap_array_bytes(a));
    const uint8_t *p = neap_array_data(a);
    if (bytes == 0)
        return NEAP_OK;
    if (np_is_row_major(a->rank, a->shape, a->strides)) {
        memcpy(out, p, bytes);
        return NEAP_OK;
    }
    int64_t size = np_element_bytes((neap_dtype)a->dtype), index[NEAP_MAX_RANK] = {0};
    for (uint8_t *o = out, *end = o + bytes; o < end; o += size) {
        int64_t at = 0;
        for (int d = 0; d < a->rank; d++)
            at += index[d] * a->strides[d];
        memcpy(o, p + at * size, (size_t)size);
        for (int d = a->rank - 1; d >= 0 && ++index[d] == a->shape[d]; d--)
            index[d] = 0;
    }
    return NEAP_OK;
}

neap_status neap_array_read(const neap_array *a, void *out, uint64_t bytes)
{
    return NP_CALL_ON(a, out || bytes == 0, array_read(a, out, bytes));
}
