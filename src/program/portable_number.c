/* portable_number.c - numbers of a method: the arithmetic of counters and sizes, and the stacks that
 * a loop fills an element a turn. All of it happens at once: loops of the method are decided by it. */
#include <math.h>
#include <string.h>

#include "array/array.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

/* ---- arithmetic --------------------------------------------------------------------------------- */

static bool give_int(np_portable_call *c, int64_t value)
{
    c->number =
        (np_method_value){.kind = NEAP_VALUE_INT, .at = {.is_value = true, .integer = value}};
    return true;
}

static bool give_bool(np_portable_call *c, bool value)
{
    c->number =
        (np_method_value){.kind = NEAP_VALUE_BOOL, .at = {.is_value = true, .integer = value}};
    return true;
}

static bool give_real(np_portable_call *c, double value)
{
    c->number =
        (np_method_value){.kind = NEAP_VALUE_DOUBLE, .at = {.is_value = true}, .real = value};
    return true;
}

/* A real that Python rounds to an integer. */
static bool give_whole(np_portable_call *c, double value)
{
    if (!(value >= -0x1p63 && value < 0x1p63))
        return np_portable_fail(c, NEAP_EINVAL, "%g is outside 64-bit integers", value);
    return give_int(c, (int64_t)value);
}

static bool is_real(const np_portable_call *c, int i)
{
    return c->h->values[c->in->args[i]].kind == NEAP_VALUE_DOUBLE;
}

static bool any_real(const np_portable_call *c)
{
    return is_real(c, 0) || is_real(c, 1);
}

static bool too_large(np_portable_call *c)
{
    return np_portable_fail(c, NEAP_EINVAL, "its result is outside 64-bit integers");
}

#define ARITHMETIC(name, op, overflows)                                                            \
    BUILD(name)                                                                                    \
    {                                                                                              \
        int64_t r;                                                                                 \
        if (any_real(c))                                                                           \
            return give_real(c, np_portable_real(c, 0) op np_portable_real(c, 1));                 \
        if (overflows(np_portable_int(c, 0), np_portable_int(c, 1), &r))                           \
            return too_large(c);                                                                   \
        return give_int(c, r);                                                                     \
    }
ARITHMETIC(number_add, +, __builtin_add_overflow)
ARITHMETIC(number_sub, -, __builtin_sub_overflow)
ARITHMETIC(number_mul, *, __builtin_mul_overflow)

#define COMPARISON(name, op)                                                                       \
    BUILD(name)                                                                                    \
    {                                                                                              \
        return give_bool(c, any_real(c)                                                            \
                                ? np_portable_real(c, 0) op np_portable_real(c, 1)                 \
                                : np_portable_int(c, 0) op np_portable_int(c, 1));                 \
    }
COMPARISON(number_eq, ==)
COMPARISON(number_ne, !=)
COMPARISON(number_lt, <)
COMPARISON(number_le, <=)
COMPARISON(number_gt, >)
COMPARISON(number_ge, >=)

BUILD(number_truediv)
{
    if (np_portable_real(c, 1) == 0)
        return np_portable_fail(c, NEAP_EINVAL, "division by 0");
    return give_real(c, np_portable_real(c, 0) / np_portable_real(c, 1));
}

/* As Python: the quotient is rounded down, the remainder has the divisor's sign. */
static bool divide(np_portable_call *c, int64_t *quotient, int64_t *remainder)
{
    const int64_t a = np_portable_int(c, 0), b = np_portable_int(c, 1);
    if (b == 0)
        return np_portable_fail(c, NEAP_EINVAL, "division by 0");
    if (b == -1 && a == INT64_MIN)
        return too_large(c);
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder && (*remainder < 0) != (b < 0)) {
        *quotient -= 1;
        *remainder += b;
    }
    return true;
}

BUILD(number_floordiv)
{
    int64_t q, r;
    if (any_real(c)) {
        if (np_portable_real(c, 1) == 0)
            return np_portable_fail(c, NEAP_EINVAL, "division by 0");
        return give_real(c, floor(np_portable_real(c, 0) / np_portable_real(c, 1)));
    }
    return divide(c, &q, &r) && give_int(c, q);
}

BUILD(number_mod)
{
    int64_t q, r;
    return divide(c, &q, &r) && give_int(c, r);
}

BUILD(number_max)
{
    if (any_real(c))
        return give_real(c, fmax(np_portable_real(c, 0), np_portable_real(c, 1)));
    const int64_t a = np_portable_int(c, 0), b = np_portable_int(c, 1);
    return give_int(c, a > b ? a : b);
}

BUILD(number_min)
{
    if (any_real(c))
        return give_real(c, fmin(np_portable_real(c, 0), np_portable_real(c, 1)));
    const int64_t a = np_portable_int(c, 0), b = np_portable_int(c, 1);
    return give_int(c, a < b ? a : b);
}

BUILD(number_neg)
{
    int64_t r;
    if (is_real(c, 0))
        return give_real(c, -np_portable_real(c, 0));
    return __builtin_sub_overflow((int64_t)0, np_portable_int(c, 0), &r) ? too_large(c)
                                                                       : give_int(c, r);
}

BUILD(number_real)
{
    return give_real(c, np_portable_real(c, 0));
}

BUILD(number_ceil)
{
    return give_whole(c, ceil(np_portable_real(c, 0)));
}

BUILD(number_floor)
{
    return give_whole(c, floor(np_portable_real(c, 0)));
}

BUILD(number_trunc)
{
    return give_whole(c, trunc(np_portable_real(c, 0)));
}

BUILD(number_round)
{
    return give_whole(c, nearbyint(np_portable_real(c, 0))); /* half to even, as Python */
}

/* ---- stacks ------------------------------------------------------------------------------------- */

/* The value's whole room: what it is declared to hold at most. */
static neap_array *new_stack(np_portable_call *c, int32_t value, np_dry_run *report)
{
    const np_pte_value *declared = &c->h->method->values[value];
    neap_value t;
    int64_t elements;
    uint64_t bytes;
    np_describe_value(declared, &t);
    if (!np_shape_bytes(t.dtype, t.rank, t.shape, &elements, &bytes)) {
        np_portable_fail(c, NEAP_ESHAPE, "value %d is too large", value);
        return NULL;
    }
    neap_array *a = np_array_new(c->h->ctx);
    np_buffer *b = a ? np_buffer_reserve(c->h->ctx, NEAP_MEM_ACTIVATIONS, bytes) : NULL;
    if (!b)
        return NULL;
    a->buffer = b;
    a->dtype = (uint8_t)t.dtype;
    a->rank = (uint8_t)t.rank;
    memcpy(a->shape, t.shape, sizeof a->shape);
    np_row_major(a->rank, a->shape, a->strides);
    if (report ? !np_dry_keep(report, c->h->ctx, b) : np_buffer_fill(b) != NEAP_OK)
        return NULL;
    return a;
}

/* The same memory with `n` elements along the first dimension. */
static neap_array *stack_of(np_portable_call *c, const neap_array *from, int64_t n)
{
    neap_array *a = np_array_new(c->h->ctx);
    if (!a)
        return NULL;
    atomic_fetch_add(&from->buffer->refs, 1);
    a->buffer = from->buffer;
    a->dtype = from->dtype;
    a->rank = from->rank;
    memcpy(a->shape, from->shape, sizeof a->shape);
    a->shape[0] = n;
    np_row_major(a->rank, a->shape, a->strides);
    return a;
}

static bool check_element(np_portable_call *c, const np_method_value *e, int64_t index)
{
    const np_pte_value *declared = &c->h->method->values[c->in->args[0]];
    neap_value t;
    np_describe_value(declared, &t);
    if (t.kind != NEAP_VALUE_TENSOR || !declared->tensor.known || t.rank != e->at.rank + 1 || t.dtype != e->at.dtype ||
        memcmp(t.shape + 1, e->at.shape, (size_t)e->at.rank * sizeof *t.shape) != 0)
        return np_portable_fail(c, NEAP_ESHAPE, "the element has another form than the stack's");
    if (index < 0 || index >= t.shape[0])
        return np_portable_fail(c, NEAP_EINVAL, "element %lld of a stack of at most %lld",
                                (long long)index, (long long)t.shape[0]);
    return true;
}

/* Whether a tensor is a stack that the value made: of its form, with room for what it is declared to hold. */
static bool is_stack(const np_portable_call *c, const np_method_value *v)
{
    neap_value t;
    int64_t elements;
    uint64_t bytes;
    np_describe_value(&c->h->method->values[c->in->args[0]], &t);
    return v->kind == NEAP_VALUE_TENSOR && v->array && v->array->buffer && v->array->buffer->paged &&
           np_shape_bytes(t.dtype, t.rank, t.shape, &elements, &bytes) &&
           v->array->buffer->bytes >= bytes && v->at.dtype == t.dtype && v->at.rank == t.rank &&
           memcmp(v->at.shape + 1, t.shape + 1, (size_t)(t.rank - 1) * sizeof *t.shape) == 0;
}

/* Element `index` of the first argument becomes the second; it has index + 1 elements then. The
 * first turn's is memory of its own; those that follow add to it. */
BUILD(copy_index)
{
    neap_handle *h = c->h;
    const int32_t to = c->in->args[0];
    const int64_t index = np_portable_int(c, 2);
    if (np_method_settle(h, c->report) != NEAP_OK)
        return false;
    const np_method_value *e = &h->values[c->in->args[1]];
    if (!check_element(c, e, index))
        return false;
    np_method_value *v = &h->values[to];
    const bool follows = index > 0 && is_stack(c, v) && v->at.shape[0] == index;
    if (index > 0 && !follows)
        return np_portable_fail(c, NEAP_EFORMAT, "element %lld comes before those in front of it",
                                (long long)index);
    neap_array *whole = follows ? v->array : new_stack(c, to, c->report);
    neap_array *a = whole ? stack_of(c, whole, index + 1) : NULL;
    if (!a)
        return false;
    int64_t elements;
    uint64_t bytes;
    np_shape_bytes(e->at.dtype, e->at.rank, e->at.shape, &elements, &bytes);
    if (!c->report && bytes)
        memcpy((uint8_t *)a->buffer->data + (uint64_t)index * bytes, e->at.data, bytes);
    np_method_value_set(v, a);
    return true;
}
