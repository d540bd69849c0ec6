/* loop.c - see loop.h. */
#include "program/loop.h"

#include <string.h>

#include "program/handle.h"
#include "neap/ops.h"

/* ---- captures ------------------------------------------------------------------------------------- */

bool np_scan_varies(const np_walk *w, uint32_t vid)
{
    for (const np_scan_frame *f = w->frame; f; f = f->outer)
        if (w->numbers[vid].frame < f->depth && np_bit(&f->vids, vid))
            return true;
    return false;
}

static neap_array *add_capture(np_walk *w, np_scan_frame *f, int32_t tid, bool carried,
                               neap_array *outer, const int64_t *shape)
{
    for (size_t i = 0; i < f->n_captures; i++)
        if (f->captures[i].tid == tid && tid >= 0 && f->captures[i].outer == outer)
            return f->captures[i].leaf;
    if (!np_grow(w->ctx, NEAP_MEM_GRAPH, &f->captures, &f->capacity, f->n_captures + 1,
                 sizeof *f->captures))
        return NULL;
    if (outer->dynamic_dim >= 0) {
        np_node_fail(w, NEAP_EUNSUPPORTED, "a scan over an extent that is set at run time");
        return NULL;
    }
    neap_array *leaf = np_scan_leaf((neap_dtype)outer->dtype, outer->rank, shape);
    if (!leaf)
        return NULL;
    f->captures[f->n_captures++] =
        (np_capture){tid, carried, neap_retain(outer), neap_retain(leaf)};
    return leaf;
}

/* The frames from the slot's own inwards each get the array from the one around them. */
neap_array *np_scan_capture(np_walk *w, int32_t tid)
{
    np_tensor_slot *s = &w->tensors[tid];
    while (s->frame < w->frame->depth) {
        np_scan_frame *f = w->frame;
        while (f->depth > s->frame + 1)
            f = f->outer;
        bool carried = np_bit(&f->tids, (uint32_t)tid);
        if (carried || !neap_array_is_value(s->array)) {
            neap_array *leaf = add_capture(w, f, tid, carried, s->array, s->array->shape),
                       *old = s->array;
            if (!leaf)
                return NULL;
            s->array = neap_retain(leaf);
            neap_release(old);
        }
        s->frame = f->depth;
    }
    return s->array;
}

/* ---- the body's surroundings ------------------------------------------------------------------------- */

typedef struct surroundings {
    np_tensor_slot *tensors;
    np_number *numbers;
    uint64_t pending, calls;
    int depth;
} surroundings;

static bool save(np_walk *w, surroundings *s)
{
    size_t t = w->g->n_tensors * sizeof *s->tensors, v = w->g->n_values * sizeof *s->numbers;
    *s = (surroundings){.tensors = np_alloc(w->ctx, NEAP_MEM_GRAPH, t),
                        .numbers = np_alloc(w->ctx, NEAP_MEM_GRAPH, v),
                        .pending = w->pending,
                        .calls = w->calls,
                        .depth = w->depth};
    if (!s->tensors || !s->numbers) {
        np_free(w->ctx, NEAP_MEM_GRAPH, s->tensors, t);
        np_free(w->ctx, NEAP_MEM_GRAPH, s->numbers, v);
        return false;
    }
    memcpy(s->tensors, w->tensors, t);
    memcpy(s->numbers, w->numbers, v);
    for (uint32_t i = 0; i < w->g->n_tensors; i++)
        neap_retain(s->tensors[i].array);
    return true;
}

static void restore(np_walk *w, surroundings *s)
{
    size_t t = w->g->n_tensors * sizeof *s->tensors, v = w->g->n_values * sizeof *s->numbers;
    for (uint32_t i = 0; i < w->g->n_tensors; i++)
        neap_release(w->tensors[i].array);
    memcpy(w->tensors, s->tensors, t);
    memcpy(w->numbers, s->numbers, v);
    np_free(w->ctx, NEAP_MEM_GRAPH, s->tensors, t);
    np_free(w->ctx, NEAP_MEM_GRAPH, s->numbers, v);
}

static bool enter(np_walk *w, np_scan_frame *f, uint32_t chain)
{
    *f = (np_scan_frame){.outer = w->frame, .depth = np_frame_depth(w) + 1};
    if (!np_bits_make(w->ctx, w->g->n_tensors, &f->tids) ||
        !np_bits_make(w->ctx, w->g->n_values, &f->vids))
        return false;
    np_chain_tids(w->g, chain, true, &f->tids);
    np_chain_vids(w->g, chain, true, &f->vids);
    w->frame = f;
    return true;
}

static void leave(np_walk *w, np_scan_frame *f)
{
    w->frame = f->outer;
    for (size_t i = 0; i < f->n_captures; i++) {
        neap_release(f->captures[i].outer);
        neap_release(f->captures[i].leaf);
    }
    np_free(w->ctx, NEAP_MEM_GRAPH, f->captures, f->capacity * sizeof *f->captures);
    if (f->tids.at)
        np_bits_free(w->ctx, &f->tids);
    if (f->vids.at)
        np_bits_free(w->ctx, &f->vids);
}

/* ---- what of the body is wanted afterwards --------------------------------------------------------- */

typedef struct search {
    int32_t tid;
    bool read, written;
} search;

static void look_read(void *user, int32_t tid)
{
    search *s = user;
    s->read |= tid == s->tid;
}

static void look_written(void *user, int32_t tid)
{
    search *s = user;
    s->written |= tid == s->tid;
}

/* Is a tensor that the body leaves behind read before it is set anew? */
static bool read_later(const np_walk *w, int32_t tid, uint32_t chain, const np_instruction *scan)
{
    const np_chain *c = &w->g->chains[chain];
    search s = {.tid = tid};
    for (const np_instruction *n = scan + 1; n < c->nodes + c->n; n++) {
        uint32_t inner[2];
        np_node_tids(n, false, look_read, &s);
        np_node_tids(n, true, look_written, &s);
        if (np_node_chains(n, inner)) /* which of its instructions run is not known here */
            s.read = true;
        if (s.read || s.written)
            return s.read;
    }
    return chain != w->g->main_chain || (uint32_t)tid < np_first_temp(w->g);
}

/* ---- planning the body ------------------------------------------------------------------------------- */

typedef struct plan_of_scan {
    np_walk *w;
    const np_node_scan *n;
    uint32_t chain; /* in which the scan stands */
    const np_instruction *node;
    int64_t steps;
    np_scan_frame frame;
    np_scan_body *body;
    neap_param *step;
    int32_t *lasts; /* tensors */
    uint32_t n_lasts;
    neap_array **roots;
    uint32_t n_roots, roots_capacity;
} plan_of_scan;

/* The t-th slice along the axis, without it. */
static neap_array *slice_at(neap_array *x, int axis, neap_param *step, int64_t t)
{
    neap_array *one = step ? neap_narrow_at(x, axis, step, 0, 1) : neap_narrow(x, axis, t, t + 1);
    return neap_squeeze(one, axis);
}

static bool bind_slices(plan_of_scan *p)
{
    np_walk *w = p->w;
    for (uint32_t i = 0; i < p->n->originals.n; i++) {
        np_scan_frame *f = w->frame;
        w->frame = f->outer; /* the original is the surroundings' */
        neap_array *x = np_get(w, p->n->originals.at[i]);
        w->frame = f;
        int axis;
        if (!x || !np_node_axis(w, x, p->n->scan_axis, &axis))
            return false;
        int64_t shape[NEAP_MAX_RANK];
        memcpy(shape, x->shape, sizeof shape);
        shape[axis] = p->steps; /* 1 for none: the body is walked to learn its results' shapes */
        neap_array *leaf = add_capture(w, f, -1, false, x, shape);
        if (!leaf || !np_put(w, p->n->sliced.at[i], slice_at(leaf, axis, p->step, 0)))
            return false;
    }
    return true;
}

static bool same_form(const neap_array *a, const neap_array *b)
{
    return a->dtype == b->dtype && np_same_shape(a, b) && a->dynamic_dim < 0;
}

/* A body must leave a carry as it found it. */
static bool check_carries(plan_of_scan *p, uint32_t *count)
{
    np_walk *w = p->w;
    *count = 0;
    for (size_t i = 0; i < p->frame.n_captures; i++) {
        np_capture *c = &p->frame.captures[i];
        neap_array *now = c->carried ? w->tensors[c->tid].array : NULL;
        c->carried = now && now != c->leaf;
        if (c->carried && !same_form(now, c->leaf)) {
            w->wants_unroll = true;
            return np_node_fail(w, NEAP_EUNSUPPORTED, "tensor %d changes its shape or dtype from "
                                "step to step", c->tid);
        }
        *count += c->carried;
    }
    return true;
}

static bool is_carried(const plan_of_scan *p, int32_t tid)
{
    for (size_t i = 0; i < p->frame.n_captures; i++)
        if (p->frame.captures[i].carried && p->frame.captures[i].tid == tid)
            return true;
    return false;
}

static bool is_output(const np_node_scan *n, int32_t tid)
{
    for (uint32_t i = 0; i < n->outputs.n; i++)
        if (n->outputs.at[i] == tid)
            return true;
    return false;
}

static bool find_lasts(plan_of_scan *p)
{
    np_walk *w = p->w;
    p->lasts = np_alloc(w->ctx, NEAP_MEM_GRAPH, w->g->n_tensors * sizeof *p->lasts);
    if (!p->lasts)
        return false;
    for (uint32_t t = 0; t < w->g->n_tensors; t++) {
        int32_t tid = (int32_t)t;
        const np_tensor_slot *s = &w->tensors[t];
        if (np_bit(&p->frame.tids, t) && s->array && s->frame == p->frame.depth &&
            !is_carried(p, tid) && !is_output(p->n, tid) && read_later(w, tid, p->chain, p->node))
            p->lasts[p->n_lasts++] = tid;
    }
    return true;
}

static bool add_root(plan_of_scan *p, neap_array *a, uint32_t *index)
{
    size_t capacity = p->roots_capacity;
    if (!a || !np_grow(p->w->ctx, NEAP_MEM_GRAPH, &p->roots, &capacity, p->n_roots + 1,
                       sizeof *p->roots))
        return false;
    p->roots_capacity = (uint32_t)capacity;
    *index = p->n_roots;
    p->roots[p->n_roots++] = a;
    return true;
}

/* Outputs are written into a state of the stack's shape, at the step. */
static bool add_stack(plan_of_scan *p, uint32_t i)
{
    np_walk *w = p->w;
    neap_array *x = np_get(w, p->n->outputs.at[i]);
    int64_t axis = p->n->scan_axis, shape[NEAP_MAX_RANK];
    if (!x)
        return false;
    axis = axis < 0 ? axis + x->rank + 1 : axis;
    if (axis < 0 || axis > x->rank || x->rank == NEAP_MAX_RANK || x->dynamic_dim >= 0)
        return np_node_fail(w, NEAP_ESHAPE, "output %u of %d dimensions is stacked along axis %d", i,
                            x->rank, p->n->scan_axis);
    for (int d = 0, k = 0; k <= x->rank; k++)
        shape[k] = k == axis ? p->steps : x->shape[d++];
    np_scan_stack *s = &p->body->stacks[i];
    if (np_state_new(w->ctx, "stack", (neap_dtype)x->dtype, x->rank + 1, shape, &s->state) !=
        NEAP_OK)
        return false;
    s->bytes = neap_state_bytes(s->state);
    neap_array *target = slice_at(neap_state_read(s->state), (int)axis, p->step, 0);
    uint32_t root;
    return add_root(p, neap_state_write(target, x), &root);
}

static bool fill_body(plan_of_scan *p)
{
    np_walk *w = p->w;
    np_scan_body *b = p->body;
    uint32_t k = 0;
    b->step = p->step;
    p->step = NULL;
    for (uint32_t i = 0; i < b->n_leaves; i++) {
        np_capture *c = &p->frame.captures[i];
        b->leaves[i] = neap_retain(c->leaf);
        if (!c->carried)
            continue;
        np_scan_carry *carry = &b->carries[k++];
        carry->input = i;
        carry->bytes = neap_array_bytes(c->leaf);
        if (!add_root(p, w->tensors[c->tid].array, &carry->root))
            return false;
    }
    for (uint32_t i = 0; i < p->n_lasts; i++) {
        neap_array *a = np_get(w, p->lasts[i]);
        if (!add_root(p, a, &b->lasts[i].root))
            return false;
        b->lasts[i].bytes = neap_array_bytes(a);
    }
    p->step = b->step; /* the stacks' targets stand at it */
    bool ok = true;
    for (uint32_t i = 0; ok && i < b->n_stacks; i++)
        ok = add_stack(p, i);
    p->step = NULL;
    return ok && np_scan_body_plan(b, p->n_roots, p->roots) == NEAP_OK;
}

static bool walk_body(plan_of_scan *p)
{
    np_walk *w = p->w;
    uint32_t carries;
    uint64_t scale = w->scan_scale;
    if (np_param_new(w->ctx, "step", p->steps ? p->steps - 1 : 0, &p->step) != NEAP_OK ||
        !bind_slices(p))
        return false;
    if (__builtin_mul_overflow(scale, (uint64_t)p->steps, &w->scan_scale))
        w->scan_scale = UINT64_MAX;
    bool ok = np_walk_chain(w, p->n->body_chain_idx);
    for (uint32_t i = 0; ok && i < p->n->outputs.n; i++) /* one from outside becomes an input too */
        ok = np_get(w, p->n->outputs.at[i]) != NULL;
    w->scan_scale = scale;
    if (!ok || !check_carries(p, &carries) || !find_lasts(p) ||
        np_scan_body_new(w->ctx, p->steps, (uint32_t)p->frame.n_captures, carries, p->n_lasts,
                         p->n->outputs.n, &p->body) != NEAP_OK)
        return false;
    p->body->next = w->trace->bodies; /* lives as long as the plans that use it */
    w->trace->bodies = p->body;
    return fill_body(p);
}

/* ---- the scan as a node ------------------------------------------------------------------------------ */

/* Forms of what comes out, noted while the body's arrays are there. */
typedef struct result {
    int32_t tid;
    uint64_t place;
    neap_dtype dtype;
    int rank;
    int64_t shape[NEAP_MAX_RANK];
} result;

static result result_of(int32_t tid, uint64_t place, const neap_array *a)
{
    result r = {.tid = tid, .place = place, .dtype = (neap_dtype)a->dtype, .rank = a->rank};
    memcpy(r.shape, a->shape, sizeof r.shape);
    return r;
}

static uint32_t list_results(const plan_of_scan *p, result *out)
{
    const np_scan_body *b = p->body;
    uint32_t n = 0, k = 0;
    for (size_t i = 0; i < p->frame.n_captures; i++) {
        const np_capture *c = &p->frame.captures[i];
        if (c->carried)
            out[n++] = result_of(c->tid, b->carries[k++].place, c->leaf);
    }
    for (uint32_t i = 0; i < p->n_lasts; i++)
        out[n++] = result_of(p->lasts[i], b->lasts[i].place, p->w->tensors[p->lasts[i]].array);
    for (uint32_t i = 0; i < b->n_stacks; i++) {
        const neap_state *s = b->stacks[i].state;
        out[n] = (result){p->n->outputs.at[i], b->stacks[i].place, s->dtype, s->rank, {0}};
        memcpy(out[n++].shape, s->shape, sizeof s->shape);
    }
    return n;
}

static bool put_results(np_walk *w, neap_array *node, const result *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!np_put(w, r[i].tid, np_scan_result(node, r[i].place, r[i].dtype, r[i].rank, r[i].shape)))
            return false;
    return true;
}

static void charge_stacks(np_walk *w, const np_scan_body *b)
{
    if (w->h->options.threshold)
        for (uint32_t i = 0; i < b->n_stacks; i++)
            np_walk_charge(w, b->stacks[i].bytes);
}

/* After the body: back to the surroundings, with the scan's node in its place. */
static bool finish(plan_of_scan *p, surroundings *around)
{
    np_walk *w = p->w;
    np_scan_body *b = p->body;
    size_t most = b->n_carries + b->n_lasts + b->n_stacks + 1;
    result *results = np_alloc(w->ctx, NEAP_MEM_GRAPH, most * sizeof *results);
    neap_array **in = np_alloc(w->ctx, NEAP_MEM_GRAPH, (b->n_leaves + 1) * sizeof *in);
    bool ok = results && in;
    if (ok) {
        uint32_t n = list_results(p, results);
        for (uint32_t i = 0; i < b->n_leaves; i++)
            in[i] = p->frame.captures[i].outer;
        w->frame = p->frame.outer;
        restore(w, around);
        neap_array *node = np_scan_node(b, in);
        ok = node && put_results(w, node, results, n);
        charge_stacks(w, b);
    } else {
        w->frame = p->frame.outer;
        restore(w, around);
    }
    np_free(w->ctx, NEAP_MEM_GRAPH, results, most * sizeof *results);
    np_free(w->ctx, NEAP_MEM_GRAPH, in, (b->n_leaves + 1) * sizeof *in);
    return ok;
}

static bool scan_planned(np_walk *w, const np_node_scan *n, int64_t steps, bool empty)
{
    plan_of_scan p = {.w = w, .n = n, .chain = w->chain, .node = w->node, .steps = steps};
    surroundings around;
    if (!save(w, &around))
        return false;
    bool ok = enter(w, &p.frame, n->body_chain_idx) && walk_body(&p);
    if (ok && !empty) {
        ok = finish(&p, &around);
    } else {
        w->frame = p.frame.outer;
        w->depth = around.depth;
        w->pending = around.pending;
        w->calls = around.calls;
        restore(w, &around);
    }
    if (ok && empty) /* nothing ran: stacks without elements; carries are as they were */
        for (uint32_t i = 0; ok && i < p.body->n_stacks; i++) {
            const neap_state *s = p.body->stacks[i].state;
            int64_t shape[NEAP_MAX_RANK];
            memcpy(shape, s->shape, sizeof shape);
            int axis = n->scan_axis < 0 ? n->scan_axis + s->rank : n->scan_axis;
            shape[axis] = 0;
            ok = np_put(w, n->outputs.at[i], neap_full(s->rank, shape, 0, s->dtype));
        }
    neap_param_free(p.step);
    leave(w, &p.frame);
    np_free(w->ctx, NEAP_MEM_GRAPH, p.roots, p.roots_capacity * sizeof *p.roots);
    np_free(w->ctx, NEAP_MEM_GRAPH, p.lasts, p.lasts ? w->g->n_tensors * sizeof *p.lasts : 0);
    return ok;
}

/* ---- step by step ------------------------------------------------------------------------------------- */

static bool one_step(np_walk *w, const np_node_scan *n, int64_t t)
{
    for (uint32_t i = 0; i < n->originals.n; i++) {
        neap_array *x = np_get(w, n->originals.at[i]);
        int axis;
        if (!x || !np_node_axis(w, x, n->scan_axis, &axis) ||
            !np_put(w, n->sliced.at[i], slice_at(x, axis, NULL, t)))
            return false;
    }
    if (!np_walk_chain(w, n->body_chain_idx))
        return false;
    for (uint32_t i = 0; i < n->outputs.n; i++)
        if (!np_walk_hold(w, np_get(w, n->outputs.at[i])))
            return false;
    return np_walk_evaluate(w, NULL) && np_walk_sweep(w);
}

static bool scan_by_steps(np_walk *w, const np_node_scan *n, int64_t steps)
{
    size_t first = w->n_held;
    bool ok = true;
    for (int64_t t = 0; ok && t < steps; t++)
        ok = one_step(w, n, t);
    neap_array **parts =
        ok ? np_alloc(w->ctx, NEAP_MEM_GRAPH, ((size_t)steps + 1) * sizeof *parts) : NULL;
    ok = parts != NULL;
    for (uint32_t i = 0; ok && i < n->outputs.n; i++) {
        for (int64_t t = 0; t < steps; t++)
            parts[t] = w->held[first + (size_t)t * n->outputs.n + i];
        neap_array *stack = neap_stack((int)steps, parts, n->scan_axis);
        ok = np_put(w, n->outputs.at[i], stack);
        if (ok && w->h->options.threshold)
            np_walk_charge(w, neap_array_bytes(stack));
    }
    np_free(w->ctx, NEAP_MEM_GRAPH, parts, ((size_t)steps + 1) * sizeof *parts);
    while (w->n_held > first)
        neap_release(w->held[--w->n_held]);
    return ok;
}

bool np_walk_scan(np_walk *w, const np_node_scan *n)
{
    int64_t steps = 1;
    for (uint32_t i = 0; i < n->originals.n; i++) {
        const neap_array *x = np_get(w, n->originals.at[i]);
        int axis;
        if (!x || !np_node_axis(w, x, n->scan_axis, &axis))
            return false;
        if (x->dynamic_dim == axis)
            return np_node_fail(w, NEAP_EUNSUPPORTED, "a scan over an extent that is set at run time");
        if (i > 0 && x->shape[axis] != steps)
            return np_node_fail(w, NEAP_ESHAPE, "originals of %lld and %lld steps", (long long)steps,
                                (long long)x->shape[axis]);
        steps = x->shape[axis];
    }
    if (steps > INT32_MAX) /* of an original without elements: it costs no memory */
        return np_node_fail(w, NEAP_ELIMIT, "a scan of %lld steps, the limit is %d",
                            (long long)steps, INT32_MAX);
    if (scan_planned(w, n, steps ? steps : 1, steps == 0))
        return true;
    if (!w->wants_unroll || w->frame || steps == 0)
        return false;
    w->ctx->status = NEAP_OK; /* not planned at once: step by step */
    w->wants_unroll = false;
    return scan_by_steps(w, n, steps);
}
