/* walk.c - slots, numbers, the loop over a chain and the threshold's counter. See walk.h. */
#include "program/walk.h"

#include "base/interrupt.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops/op_table.h"
#include "program/handle.h"
#include "program/loop.h"
#include "program/uses.h"
#include "neap/ops.h"

/* ---- errors --------------------------------------------------------------------------------------- */

bool np_node_fail(np_walk *w, neap_status status, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    np_fail(w->ctx, status, "%s", text);
    return false;
}

bool np_node_fixed(np_walk *w, const neap_array *x)
{
    return x->dynamic_dim < 0 || np_node_fail(w, NEAP_EUNSUPPORTED, "an extent set at run time");
}

bool np_node_axis(np_walk *w, const neap_array *x, int64_t axis, int *out)
{
    if (axis < -(int64_t)x->rank || axis >= x->rank)
        return np_node_fail(w, NEAP_ESHAPE, "axis %lld, the tensor has %d dimensions",
                            (long long)axis, x->rank);
    *out = (int)(axis < 0 ? axis + x->rank : axis);
    return true;
}

/* ---- tensors -------------------------------------------------------------------------------------- */

static const char *kind_of(const np_walk *w, uint32_t tid)
{
    const np_mlx_graph *g = w->g;
    return tid < np_first_input(g)    ? "constant"
           : tid < np_first_output(g) ? "input"
           : tid < np_first_buffer(g) ? "output"
           : tid < np_first_temp(g)   ? "buffer"
                                      : "temporary";
}

neap_array *np_get(np_walk *w, int32_t tid)
{
    np_tensor_slot *s = &w->tensors[tid];
    if (w->ctx->status != NEAP_OK)
        return NULL;
    if (!s->array) {
        np_node_fail(w, NEAP_EFORMAT, "tensor %d (%s) is read before it is set", tid,
                     kind_of(w, (uint32_t)tid));
        return NULL;
    }
    return np_frame_depth(w) == s->frame ? s->array : np_scan_capture(w, tid);
}

neap_array *np_get_optional(np_walk *w, int32_t tid)
{
    return tid < 0 ? NULL : np_get(w, tid);
}

static void set_slot(np_walk *w, int32_t tid, neap_array *array)
{
    np_tensor_slot *s = &w->tensors[tid];
    neap_array *old = s->array;
    s->array = neap_retain(array);
    s->frame = np_frame_depth(w);
    neap_release(old);
}

neap_state *np_newest_state(const neap_array *a)
{
    if (!a->op || !(a->op->flags & NP_OP_STATE_READ) || a->version != a->state->written)
        return NULL;
    return a->state;
}

/* A mutable buffer: unless the array is the buffer's own contents already, it is written whole. */
static bool put_buffer(np_walk *w, int32_t tid, neap_array *array)
{
    neap_state **buffers;
    if (np_delegate_buffers(w->d, &buffers) != NEAP_OK)
        return false;
    neap_state *s = buffers[(uint32_t)tid - np_first_buffer(w->g)];
    if (np_newest_state(array) != s) {
        if (array->rank != s->rank || memcmp(array->shape, s->shape, (size_t)s->rank * 8))
            return np_node_fail(w, NEAP_ESHAPE, "buffer %s gets another shape than its own", s->name);
        if (!neap_state_write(neap_state_read(s), array))
            return false;
        array = neap_state_read(s);
        if (!array)
            return false;
    }
    set_slot(w, tid, array);
    return true;
}

/* A result that is a view is copied where it is made and not at the end, where what it looks at would
 * have to be kept until then. Not if a threshold cuts the walk: it says what is evaluated when. */
static bool is_result(const np_walk *w, uint32_t t)
{
    return t >= np_first_output(w->g) && t < np_first_buffer(w->g) && !w->frame && !w->cut &&
           !w->h->options.threshold;
}

bool np_put(np_walk *w, int32_t tid, neap_array *array)
{
    if (!array)
        return false;
    uint32_t t = (uint32_t)tid;
    if (t >= np_first_buffer(w->g) && t < np_first_temp(w->g) && !w->frame)
        return put_buffer(w, tid, array);
    if (is_result(w, t) && array->dynamic_dim < 0)
        array = neap_contiguous(array);
    if (!array)
        return false;
    set_slot(w, tid, array);
    return true;
}

/* ---- numbers -------------------------------------------------------------------------------------- */

bool np_put_number(np_walk *w, uint32_t vid, int64_t value)
{
    if (value < INT32_MIN || value > INT32_MAX)
        return np_node_fail(w, NEAP_EINVAL, "value %u: %lld does not fit 32 bits", vid,
                            (long long)value);
    w->numbers[vid] =
        (np_number){.set = true, .frame = np_frame_depth(w), .read = -1, .value = value};
    return true;
}

bool np_get_vid(np_walk *w, uint32_t vid, np_number *out)
{
    *out = w->numbers[vid];
    if (!out->set)
        return np_node_fail(w, NEAP_EFORMAT, "value %u is read before it is set", vid);
    if (!w->symbolic) /* what was read has to be the same at a replay */
        np_pin(w, out);
    if (!np_scan_varies(w, vid))
        return true;
    w->wants_unroll = true; /* a counter that goes from step to step */
    return np_node_fail(w, NEAP_EUNSUPPORTED, "value %u changes from step to step", vid);
}

bool np_get_number(np_walk *w, np_int i, np_number *out)
{
    if (i.is_vid)
        return np_get_vid(w, (uint32_t)i.value, out);
    *out = (np_number){.set = true, .read = -1, .value = i.value};
    return true;
}

void np_pin(np_walk *w, np_number *n)
{
    if (n->read >= 0)
        w->trace->reads[n->read].pinned = true;
    n->read = -1;
    n->add = 0;
}

bool np_get_int(np_walk *w, np_int i, int64_t *out)
{
    np_number n;
    if (!np_get_number(w, i, &n))
        return false;
    np_pin(w, &n);
    *out = n.value;
    return true;
}

bool np_get_ints(np_walk *w, const np_ints *list, int64_t *out, int most)
{
    if (list->n > (uint32_t)most)
        return np_node_fail(w, NEAP_ESHAPE, "%u numbers, the limit is %d", list->n, most);
    for (uint32_t i = 0; i < list->n; i++)
        if (!np_get_int(w, list->at[i], &out[i]))
            return false;
    return true;
}

neap_param *np_open_param(np_walk *w, const np_number *n, int64_t low, int64_t high)
{
    np_trace *t = w->trace;
    np_read from = t->reads[n->read];
    from.add += n->add;
    np_read *r = NULL;
    for (uint32_t i = 0; i < t->n_reads && !r; i++) {
        np_read *k = &t->reads[i];
        if (k->input == from.input && k->offset == from.offset && k->add == from.add)
            r = k;
    }
    if (!r) {
        if (!np_grow(w->ctx, NEAP_MEM_GRAPH, &t->reads, &t->reads_capacity, t->n_reads + 1,
                     sizeof *t->reads))
            return NULL;
        r = &t->reads[t->n_reads];
        *r = from;
        r->param = NULL;
        r->low = 0;
        r->high = INT32_MAX;
        r->pinned = false;
        t->n_reads++;
    }
    if (!r->param && np_param_new(w->ctx, "value", INT32_MAX, &r->param) != NEAP_OK)
        return NULL;
    r->low = low > r->low ? low : r->low;
    r->high = high < r->high ? high : r->high;
    if (r->param->max > r->high) /* a limit asks what it can be at most */
        r->param->max = r->high;
    r->param->value = r->value + r->add;
    return r->param;
}

bool np_number_of_param(np_walk *w, const neap_param *param, np_number *out)
{
    for (uint32_t i = 0; i < w->trace->n_reads; i++) {
        const np_read *r = &w->trace->reads[i];
        if (r->param == param) {
            *out = (np_number){.set = true, .read = (int32_t)i, .value = r->value + r->add};
            return true;
        }
    }
    return false;
}

neap_array *np_number_array(np_walk *w, const np_number *n, neap_dtype dtype)
{
    if (n->read < 0)
        return neap_scalar(dtype, (double)n->value);
    neap_param *p = np_open_param(w, n, INT32_MIN, INT32_MAX);
    return p ? neap_param_scalar(p, 0, dtype) : NULL;
}

/* ---- the threshold -------------------------------------------------------------------------------- */

void np_walk_charge(np_walk *w, uint64_t bytes)
{
    uint64_t scaled;
    if (__builtin_mul_overflow(bytes, w->scan_scale, &scaled) ||
        __builtin_add_overflow(w->pending, scaled, &w->pending))
        w->pending = UINT64_MAX;
}

typedef struct largest {
    const np_walk *w;
    uint64_t bytes;
} largest;

/* Constants and mutable buffers live longer than an execution: they are not pending. */
static void see_tensor(void *user, int32_t tid)
{
    largest *l = user;
    uint32_t t = (uint32_t)tid;
    const neap_array *a = l->w->tensors[tid].array;
    bool pending = t >= np_first_input(l->w->g) &&
                   (t < np_first_buffer(l->w->g) || t >= np_first_temp(l->w->g));
    uint64_t bytes = a && pending ? neap_array_bytes(a) : 0;
    if (bytes > l->bytes)
        l->bytes = bytes;
}

/* Operands are looked at before the node may rebind their slots. */
static bool account(np_walk *w, const np_instruction *node, uint64_t *bytes, bool written)
{
    if (!w->h->options.threshold || node->number == NP_NODE_if || node->number == NP_NODE_scan)
        return false;
    largest l = {w, *bytes};
    np_node_tids(node, written, see_tensor, &l);
    *bytes = l.bytes;
    return true;
}

static bool barrier(np_walk *w)
{
    if (w->depth != 1 || !w->h->options.threshold || w->pending < w->h->options.threshold)
        return true;
    w->barriers++;
    w->pending = 0;
    return np_walk_evaluate(w, NULL) && np_walk_sweep(w);
}

/* ---- chains --------------------------------------------------------------------------------------- */

static bool (*const builders[NP_NODE_COUNT])(np_walk *, const void *) = {
#define NODE_BEGIN(number, name, text) [number] = np_build_##name,
#define NODE_END(name)
#include "program/nodes_blank.h"
#include "program/nodes.def"
#include "program/nodes_undef.h"
};

static void drop_dead(np_walk *w, uint32_t chain, uint32_t i)
{
    const np_uses *u = w->d->uses;
    if (w->frame || w->init || chain != w->g->main_chain || w->depth != 1)
        return;
    for (uint32_t k = u->drop_start[i + 1]; k < u->drop_start[i]; k++)
        set_slot(w, u->drops[k], NULL);
}

static bool walk_node(np_walk *w, uint32_t chain, uint32_t i)
{
    const np_instruction *node = &w->g->chains[chain].nodes[i];
    uint64_t bytes = 0;
    if (w->walked++ == NP_MOST_WALKED)
        return np_node_fail(w, NEAP_ELIMIT, "more than %d instructions in one run", NP_MOST_WALKED);
    bool charged = account(w, node, &bytes, false);
    w->node = node;
    w->chain = chain;
    if (!builders[node->number](w, node->fields))
        return false;
    if (charged) {
        account(w, node, &bytes, true);
        w->calls += w->scan_scale;
        np_walk_charge(w, bytes);
    }
    drop_dead(w, chain, i);
    return barrier(w);
}

bool np_walk_chain(np_walk *w, uint32_t chain)
{
    bool ok = true;
    w->depth++;
    for (uint32_t i = 0; ok && i < w->g->chains[chain].n; i++) {
        ok = np_check(w->ctx) == NEAP_OK && walk_node(w, chain, i);
        if (!ok) {
            if (w->ctx->status == NEAP_OK)
                np_fail(w->ctx, NEAP_EINVAL, "refused");
            np_fail_prefix(w->ctx, "chain %u, instruction %u (%s)", chain, i,
                           np_node_type_of(w->g->chains[chain].nodes[i].number)->name);
        }
    }
    w->depth--;
    return ok;
}
