/* scan.c - see scan.h. */
#include "eval/scan.h"

#include <string.h>

#include "eval/run.h"
#include "neap/ops.h"

/* ---- making ------------------------------------------------------------------------------------- */

neap_status np_scan_body_new(neap_context *ctx, int64_t steps, uint32_t n_leaves,
                             uint32_t n_carries, uint32_t n_lasts, uint32_t n_stacks,
                             np_scan_body **out)
{
    *out = NULL;
    np_scan_body *b = np_calloc(ctx, NEAP_MEM_GRAPH, sizeof *b);
    if (!b)
        return NEAP_ENOMEM;
    *b = (np_scan_body){.ctx = ctx,
                        .steps = steps,
                        .n_leaves = n_leaves,
                        .n_carries = n_carries,
                        .n_lasts = n_lasts,
                        .n_stacks = n_stacks};
    b->leaves = np_calloc(ctx, NEAP_MEM_GRAPH, n_leaves * sizeof *b->leaves);
    b->carries = np_calloc(ctx, NEAP_MEM_GRAPH, n_carries * sizeof *b->carries);
    b->lasts = np_calloc(ctx, NEAP_MEM_GRAPH, n_lasts * sizeof *b->lasts);
    b->stacks = np_calloc(ctx, NEAP_MEM_GRAPH, n_stacks * sizeof *b->stacks);
    if (!b->leaves || !b->carries || !b->lasts || !b->stacks) {
        np_scan_body_free(b);
        return NEAP_ENOMEM;
    }
    *out = b;
    return NEAP_OK;
}

void np_scan_body_free(np_scan_body *b)
{
    if (!b)
        return;
    neap_context *c = b->ctx;
    neap_plan_free(b->plan);
    for (uint32_t i = 0; b->stacks && i < b->n_stacks; i++)
        neap_state_free(b->stacks[i].state);
    for (uint32_t i = 0; b->leaves && i < b->n_leaves; i++)
        neap_release(b->leaves[i]);
    neap_param_free(b->step);
    np_free(c, NEAP_MEM_GRAPH, b->leaves, b->n_leaves * sizeof *b->leaves);
    np_free(c, NEAP_MEM_GRAPH, b->carries, b->n_carries * sizeof *b->carries);
    np_free(c, NEAP_MEM_GRAPH, b->lasts, b->n_lasts * sizeof *b->lasts);
    np_free(c, NEAP_MEM_GRAPH, b->stacks, b->n_stacks * sizeof *b->stacks);
    np_free(c, NEAP_MEM_GRAPH, b->output_of_root, b->n_roots * sizeof *b->output_of_root);
    np_free(c, NEAP_MEM_GRAPH, b, sizeof *b);
}

neap_array *np_scan_leaf(neap_dtype dtype, int rank, const int64_t *shape)
{
    return neap_array_over(dtype, rank, shape, NULL, NULL, NULL);
}

/* From now on the buffer looks at memory that a run gives it. */
static void borrow(np_buffer *b)
{
    b->paged = false;
    b->borrowed = true;
    b->data = NULL;
}

/* Sizes of arrays are below 2^63; so their sum is kept, too. */
static bool place(uint64_t *end, uint64_t bytes, uint64_t *at)
{
    *at = *end;
    *end += (bytes + 63) & ~(uint64_t)63;
    return *end <= INT64_MAX;
}

static neap_status find_places(np_scan_body *b)
{
    bool ok = true;
    uint64_t twin;
    for (uint32_t i = 0; ok && i < b->n_carries; i++)
        ok = place(&b->result_bytes, b->carries[i].bytes, &b->carries[i].place) &&
             place(&b->buffer_bytes, b->carries[i].bytes, &twin);
    for (uint32_t i = 0; ok && i < b->n_lasts; i++)
        ok = place(&b->result_bytes, b->lasts[i].bytes, &b->lasts[i].place);
    for (uint32_t i = 0; ok && i < b->n_stacks; i++)
        ok = place(&b->result_bytes, b->stacks[i].bytes, &b->stacks[i].place);
    return ok ? NEAP_OK
              : np_fail(b->ctx, NEAP_ESHAPE, "a scan's results are larger than 2^63 - 1 bytes");
}

neap_status np_scan_body_plan(np_scan_body *b, uint32_t n_roots, neap_array *const *roots)
{
    neap_status status = np_plan_make(b->ctx, (int)n_roots, roots, 0, NULL, &b->plan);
    if (status != NEAP_OK)
        return status;
    b->output_of_root = np_alloc(b->ctx, NEAP_MEM_GRAPH, n_roots * sizeof *b->output_of_root);
    if (!b->output_of_root)
        return NEAP_ENOMEM;
    b->n_roots = n_roots;
    memset(b->output_of_root, 0xff, n_roots * sizeof *b->output_of_root);
    for (uint32_t i = 0; i < b->plan->n_outputs; i++) {
        b->output_of_root[b->plan->output_root[i]] = i;
        borrow(b->plan->buffers[i]);
    }
    for (uint32_t i = 0; i < b->n_stacks; i++)
        borrow(b->stacks[i].state->buffer);
    return find_places(b);
}

/* ---- running ------------------------------------------------------------------------------------ */

typedef struct scan_attr {
    np_scan_body *body;
} scan_attr;

static bool scan_infer(neap_array *out)
{
    const scan_attr *a = (const void *)out->attr;
    out->dtype = NEAP_U8;
    out->rank = 1;
    out->shape[0] = (int64_t)a->body->result_bytes;
    return true;
}

static size_t scan_scratch(const np_call *shapes)
{
    const np_scan_body *b = ((const scan_attr *)shapes->attr)->body;
    uint64_t arena = (b->plan->info.arena_bytes + 63) & ~(uint64_t)63;
    return arena + b->buffer_bytes;
}

/* Step t of T writes each carry into the result if T - 1 - t is even, else into the other buffer, so
 * that the last one ends in the result. */
static void point_carries(np_scan_body *b, uint8_t *result, uint8_t *other, int64_t t)
{
    bool into_result = (b->steps - 1 - t) % 2 == 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < b->n_carries; i++) {
        const np_scan_carry *c = &b->carries[i];
        uint8_t *mine = result + c->place, *twin = other + at;
        at += (c->bytes + 63) & ~(uint64_t)63;
        b->plan->buffers[b->output_of_root[c->root]]->data = into_result ? mine : twin;
        if (t > 0)
            b->leaves[c->input]->buffer->data = into_result ? twin : mine;
    }
}

static neap_status scan_run(const np_call *c)
{
    np_scan_body *b = ((const scan_attr *)c->attr)->body;
    neap_plan *p = b->plan;
    uint8_t *arena = c->scratch, *result = c->out->data;
    uint8_t *other = arena + ((p->info.arena_bytes + 63) & ~(uint64_t)63);
    for (uint32_t i = 0; i < b->n_leaves; i++)
        b->leaves[i]->buffer->data = c->in[i]->data;
    for (uint32_t i = 0; i < b->n_stacks; i++)
        b->stacks[i].state->buffer->data = result + b->stacks[i].place;
    for (uint32_t i = 0; i < b->n_lasts; i++)
        p->buffers[b->output_of_root[b->lasts[i].root]]->data = result + b->lasts[i].place;
    neap_status status = NEAP_OK;
    for (int64_t t = 0; status == NEAP_OK && t < b->steps; t++) {
        point_carries(b, result, other, t);
        np_binding with = {p->values, p->states, p->buffers};
        np_run_bind_at(p, &with, arena);
        b->step->value = t;
        status = np_run_steps_at(p, p->states, arena, NULL);
        if (status != NEAP_OK)
            np_fail_prefix(c->ctx, "step %lld of %lld", (long long)t, (long long)b->steps);
    }
    return status;
}

static const np_op np_op_scan = {.name = "scan",
                                 .arity = -1,
                                 .infer = scan_infer,
                                 .scratch = scan_scratch,
                                 .run = scan_run,
                                 .no_grad = "the derived scan comes with the gradients"};

neap_array *np_scan_node(np_scan_body *b, neap_array *const *inputs)
{
    scan_attr attr = {b};
    size_t bytes = (b->n_leaves + 1) * sizeof(neap_array *);
    neap_array **in = np_calloc(b->ctx, NEAP_MEM_GRAPH, bytes);
    if (!in)
        return NULL;
    for (uint32_t i = 0; i < b->n_leaves; i++)
        in[i] = neap_contiguous(inputs[i]);
    neap_array *node = np_node(&np_op_scan, b->n_leaves, in, &attr, sizeof attr);
    np_free(b->ctx, NEAP_MEM_GRAPH, in, bytes);
    return node;
}

neap_array *np_scan_result(neap_array *node, uint64_t at, neap_dtype dtype, int rank,
                           const int64_t *shape)
{
    int64_t strides[NEAP_MAX_RANK];
    np_row_major(rank, shape, strides);
    neap_array *a = np_view(node, rank, shape, strides, 0);
    if (!a)
        return NULL;
    a->dtype = (uint8_t)dtype; /* bytes looked at as what was put there; offsets are in elements */
    a->offset = (int64_t)(at / (uint64_t)np_element_bytes(dtype));
    return a;
}
