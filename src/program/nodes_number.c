/* nodes_number.c - integers: read from tensors and shapes, computed, and made into tensors. */
#include "ops/op_table.h"
#include "program/handle.h"
#include "program/loop.h"
#include "neap/ops.h"

/* ---- reading a tensor's element -------------------------------------------------------------------- */

static bool is_wide_integer(const neap_array *a)
{
    return a->dtype == NEAP_I64 || a->dtype == NEAP_I32;
}

/* Casts between integers change nothing that an int32 could hold. */
static const neap_array *behind_casts(const neap_array *x)
{
    while (x->op == &np_op_cast && is_wide_integer(x) && is_wide_integer(x->in[0]))
        x = x->in[0];
    return x;
}

static bool value_of(np_walk *w, const neap_array *x, int64_t *out)
{
    if (np_integer_at(neap_array_data(x), (neap_dtype)x->dtype, out))
        return true;
    return np_node_fail(w, NEAP_EDTYPE, "an integer is read from a tensor of %s",
                        neap_dtype_describe((neap_dtype)x->dtype)->name);
}

/* An element of an input may be another one at the next execution: it is noted where it was read. */
static bool note_read(np_walk *w, const neap_array *x, np_number *n)
{
    np_trace *t = w->trace;
    const neap_array *s = np_storage_const(x);
    for (uint32_t i = 0; i < w->g->n_input_slots; i++) {
        if (t->inputs[i] != s)
            continue;
        int64_t offset = x->offset * np_element_bytes((neap_dtype)x->dtype);
        for (uint32_t k = 0; k < t->n_reads; k++) {
            if (t->reads[k].input == i && t->reads[k].offset == offset && !t->reads[k].add) {
                n->read = (int32_t)k;
                return true;
            }
        }
        if (!np_grow(w->ctx, NEAP_MEM_GRAPH, &t->reads, &t->reads_capacity, t->n_reads + 1,
                     sizeof *t->reads))
            return false;
        t->reads[t->n_reads] = (np_read){.input = i,
                                         .offset = offset,
                                         .dtype = (neap_dtype)x->dtype,
                                         .value = n->value,
                                         .high = INT32_MAX};
        n->read = (int32_t)t->n_reads++;
        return true;
    }
    return true;
}

/* Of a tensor that is computed: by evaluating it, which cuts the walk. */
static bool evaluated(np_walk *w, neap_array *x)
{
    if (!np_walk_evaluate(w, x))
        return false;
    w->h->stats.internal_evaluations++;
    return true;
}

NP_BUILD(item_int)
{
    neap_array *x = np_get(w, n->x);
    if (!x || !np_node_fixed(w, x))
        return false;
    if (neap_array_size(x) != 1)
        return np_node_fail(w, NEAP_ESHAPE, "an integer is read from a tensor of %lld elements",
                            (long long)neap_array_size(x));
    const neap_array *from = behind_casts(x);
    bool inside = w->frame && neap_array_is_value(from) && !neap_array_data(from);
    if (!neap_array_is_value(from) || inside) { /* inside a body: it differs from step to step */
        if (!evaluated(w, x))
            return false;
        from = x;
    }
    np_number number = {.set = true, .frame = np_frame_depth(w), .read = -1};
    if (!neap_array_data(from))
        number.unknown = true; /* a dry walk */
    else if (!value_of(w, from, &number.value))
        return false;
    if (number.value < INT32_MIN || number.value > INT32_MAX)
        return np_node_fail(w, NEAP_EINVAL, "%lld does not fit 32 bits", (long long)number.value);
    if (!note_read(w, from, &number))
        return false;
    if (number.read >= 0 && w->frame)
        np_pin(w, &number);
    w->numbers[n->out] = number;
    return true;
}

NP_BUILD(sym_size)
{
    neap_array *x = np_get(w, n->a);
    int dim;
    if (!x || !np_node_axis(w, x, n->dim, &dim))
        return false;
    np_number number;
    if (x->dynamic_dim == dim && np_number_of_param(w, x->extent, &number)) {
        number.frame = np_frame_depth(w);
        w->numbers[n->out] = number;
        return true;
    }
    return np_put_number(w, n->out, x->shape[dim]);
}

/* ---- arithmetic ---------------------------------------------------------------------------------------- */

static bool put(np_walk *w, uint32_t vid, np_number n)
{
    if (n.value < INT32_MIN || n.value > INT32_MAX)
        return np_node_fail(w, NEAP_EINVAL, "value %u: %lld does not fit 32 bits", vid,
                            (long long)n.value);
    n.set = true;
    n.frame = np_frame_depth(w);
    w->numbers[vid] = n;
    return true;
}

/* A number that stays open moves by a fixed one; of two open ones both are pinned. */
static bool sum(np_walk *w, uint32_t vid, np_number a, np_number b, int sign)
{
    np_number r = {.unknown = a.unknown || b.unknown, .read = -1, .value = a.value + sign * b.value};
    if (a.read >= 0 && a.read == b.read && sign < 0) /* their distance is fixed */
        return put(w, vid, r);
    bool open = (a.read >= 0 && b.read < 0) || (a.read < 0 && b.read >= 0 && sign > 0);
    int64_t add = a.read >= 0 ? a.add + sign * b.value : b.add + a.value;
    if (open && add >= INT32_MIN && add <= INT32_MAX) {
        r.read = a.read >= 0 ? a.read : b.read;
        r.add = (int32_t)add;
        return put(w, vid, r);
    }
    np_pin(w, &a);
    np_pin(w, &b);
    return put(w, vid, r);
}

NP_BUILD(add_int)
{
    np_number a, b;
    return np_get_number(w, n->a, &a) && np_get_number(w, n->b, &b) && sum(w, n->out, a, b, 1);
}

NP_BUILD(subtract_int)
{
    np_number a, b;
    return np_get_number(w, n->a, &a) && np_get_number(w, n->b, &b) && sum(w, n->out, a, b, -1);
}

static int64_t times(int64_t a, int64_t b)
{
    return a * b;
}

/* Python's: towards minus infinity. */
static int64_t quotient(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t modulo(int64_t a, int64_t b)
{
    return a - quotient(a, b) * b;
}

static bool combine(np_walk *w, np_int x, np_int y, uint32_t vid, bool divides,
                    int64_t (*op)(int64_t, int64_t))
{
    np_number a, b;
    if (!np_get_number(w, x, &a) || !np_get_number(w, y, &b))
        return false;
    np_pin(w, &a);
    np_pin(w, &b);
    np_number r = {.unknown = a.unknown || b.unknown, .read = -1};
    if (divides && b.value == 0) {
        if (!b.unknown)
            return np_node_fail(w, NEAP_EINVAL, "division of %lld by 0", (long long)a.value);
        w->met_unknown = true;
        b.value = 1;
    }
    r.value = op(a.value, b.value);
    return put(w, vid, r);
}

NP_BUILD(multiply_int)
{
    return combine(w, n->a, n->b, n->out, false, times);
}

NP_BUILD(floor_divide_int)
{
    return combine(w, n->a, n->b, n->out, true, quotient);
}

NP_BUILD(mod_int)
{
    return combine(w, n->a, n->b, n->out, true, modulo);
}

/* ---- tensors from numbers ------------------------------------------------------------------------------- */

NP_BUILD(arange)
{
    neap_dtype dtype = n->scalar_type.present ? n->scalar_type.value : NEAP_I32;
    np_number start, stop;
    int64_t step;
    if (!np_get_number(w, n->start, &start) || !np_get_number(w, n->stop, &stop) ||
        !np_get_int(w, n->step, &step))
        return false;
    if (step == 0)
        return np_node_fail(w, NEAP_EINVAL, "a step of 0");
    if (start.read >= 0 && start.read == stop.read) { /* its length is fixed, its place is not */
        neap_array *from = neap_arange(0, (double)(stop.value - start.value), (double)step, dtype);
        return np_put(w, n->out, neap_add(from, np_number_array(w, &start, dtype)));
    }
    np_pin(w, &start);
    np_pin(w, &stop);
    return np_put(w, n->out,
                  neap_arange((double)start.value, (double)stop.value, (double)step, dtype));
}

static bool fill(np_walk *w, int32_t out, int rank, const int64_t *shape, const np_float *v,
                 neap_dtype dtype)
{
    if (!v->is_vid)
        return np_put(w, out, neap_full(rank, shape, v->value, dtype));
    np_number n;
    if (!np_get_vid(w, v->vid, &n))
        return false;
    if (n.read < 0 || dtype == NEAP_BOOL) {
        np_pin(w, &n);
        return np_put(w, out, neap_full(rank, shape, (double)n.value, dtype));
    }
    return np_put(w, out, neap_broadcast_to(np_number_array(w, &n, dtype), rank, shape));
}

NP_BUILD(full)
{
    int64_t shape[NEAP_MAX_RANK];
    return np_get_ints(w, &n->shape, shape, NEAP_MAX_RANK) &&
           fill(w, n->out, (int)n->shape.n, shape, &n->v, n->scalar_type);
}

NP_BUILD(full_like)
{
    neap_array *x = np_get(w, n->x);
    if (!x || !np_node_fixed(w, x))
        return false;
    neap_dtype dtype = n->scalar_type.present ? n->scalar_type.value : (neap_dtype)x->dtype;
    return fill(w, n->out, x->rank, x->shape, &n->v, dtype);
}

NP_BUILD(tri)
{
    int64_t rows, columns;
    return np_get_int(w, n->n, &rows) && np_get_int(w, n->m, &columns) &&
           np_put(w, n->out, neap_tri(rows, columns, n->k, n->scalar_type));
}
