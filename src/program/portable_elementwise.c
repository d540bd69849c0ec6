/* portable_elementwise.c - operators that are elementwise but not one op. */
#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

BUILD(same)
{
    return np_portable_give(c, np_portable_tensor(c, 0));
}

/* x as the result is declared to be, if its shape is fixed. */
static neap_array *declared_shape(const np_portable_call *c, neap_array *x)
{
    const np_pte_value *v = np_portable_declared(c, 0);
    if (v->tensor.dynamism != NP_PTE_STATIC)
        return x;
    return neap_broadcast_to(x, v->tensor.rank, v->tensor.shape);
}

BUILD(copy)
{
    return np_portable_give(c, declared_shape(c, np_portable_tensor(c, 1)));
}

/* A copy, as it outlives what it is made from. */
BUILD(copy_into)
{
    neap_array *x = neap_cast(declared_shape(c, np_portable_tensor(c, 1)), np_portable_dtype(c, 0));
    return np_portable_give(c, np_copied(x));
}

/* ---- sums ------------------------------------------------------------------------------------------ */

static neap_array *scaled(np_portable_call *c, neap_array *x, int i)
{
    const double by = np_portable_real(c, i);
    return by == 1 ? x : neap_mul(x, np_portable_scalar(x, by));
}

BUILD(add)
{
    neap_array *a = np_portable_tensor(c, 0);
    return np_portable_give(c, neap_add(a, scaled(c, np_portable_tensor(c, 1), 2)));
}

BUILD(sub)
{
    neap_array *a = np_portable_tensor(c, 0);
    return np_portable_give(c, neap_sub(a, scaled(c, np_portable_tensor(c, 1), 2)));
}

BUILD(rsub)
{
    neap_array *b = np_portable_tensor(c, 1);
    return np_portable_give(c, neap_sub(b, scaled(c, np_portable_tensor(c, 0), 2)));
}

/* ---- products ---------------------------------------------------------------------------------------- */

/* a / b without its fraction; integers as in C, where b is not 0. */
static neap_array *truncated(neap_array *a, neap_array *b)
{
    neap_dtype dtype;
    if (!a || !b || !np_promote((neap_dtype)a->dtype, (neap_dtype)b->dtype, &dtype))
        return NULL;
    if (neap_dtype_describe(dtype)->class_ == NEAP_CLASS_FLOAT)
        return neap_trunc(neap_div(a, b));
    neap_array *q = neap_floor_divide(neap_abs(a), neap_abs(b));
    return neap_mul(neap_mul(q, neap_sign(a)), neap_sign(b));
}

BUILD(div_mode)
{
    neap_array *a = np_portable_tensor(c, 0), *b = np_portable_tensor(c, 1);
    if (!np_portable_has(c, 2))
        return np_portable_give(c, neap_div(a, b));
    if (np_portable_says(c, 2, "floor"))
        return np_portable_give(c, neap_floor_divide(a, b));
    if (np_portable_says(c, 2, "trunc"))
        return np_portable_give(c, truncated(a, b));
    return np_portable_fail(c, NEAP_EUNSUPPORTED, "a rounding mode that is neither floor nor trunc");
}

/* The remainder with a's sign: that of the absolute values is exact. */
BUILD(fmod)
{
    neap_array *a = np_portable_tensor(c, 0), *b = np_portable_tensor(c, 1), *zero;
    if (!a || !b)
        return false;
    neap_array *r = neap_remainder(neap_abs(a), neap_abs(b));
    zero = neap_scalar((neap_dtype)a->dtype, 0);
    return np_portable_give(c, neap_where(neap_less(a, zero), neap_neg(r), r));
}

/* self + value * (a op b) */
static bool with_product(np_portable_call *c, neap_array *(*op)(neap_array *a, neap_array *b))
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    neap_array *a = np_portable_wide(np_portable_tensor(c, 1));
    neap_array *p = op(a, np_portable_wide(np_portable_tensor(c, 2)));
    return np_portable_give(c, neap_add(x, scaled(c, p, 3)));
}

BUILD(addcmul)
{
    return with_product(c, neap_mul);
}

BUILD(addcdiv)
{
    return with_product(c, neap_div);
}

BUILD(lerp)
{
    neap_array *a = np_portable_wide(np_portable_tensor(c, 0));
    neap_array *b = np_portable_wide(np_portable_tensor(c, 1));
    neap_array *way = neap_mul(neap_sub(b, a), np_portable_wide(np_portable_tensor(c, 2)));
    return np_portable_give(c, neap_add(a, way));
}

/* ---- choices ------------------------------------------------------------------------------------------ */

static neap_array *bound(np_portable_call *c, neap_array *x, int i)
{
    if (!np_portable_has(c, i))
        return NULL;
    return c->row->arguments[i] == 'T' || c->row->arguments[i] == 't'
               ? np_portable_tensor(c, i)
               : np_portable_scalar(x, np_portable_real(c, i));
}

/* min(max(x, low), high) */
BUILD(clamp)
{
    neap_array *x = np_portable_tensor(c, 0);
    neap_array *low = bound(c, x, 1);
    return np_portable_give(c, neap_clip(x, low, bound(c, x, 2)));
}

BUILD(clamp_min)
{
    neap_array *x = np_portable_tensor(c, 0);
    return np_portable_give(c, neap_clip(x, bound(c, x, 1), NULL));
}

BUILD(clamp_max)
{
    neap_array *x = np_portable_tensor(c, 0);
    return np_portable_give(c, neap_clip(x, NULL, bound(c, x, 1)));
}

BUILD(where)
{
    neap_array *condition = np_portable_tensor(c, 0), *a = np_portable_tensor(c, 1);
    return np_portable_give(c, neap_where(condition, a, np_portable_tensor(c, 2)));
}

BUILD(masked_fill)
{
    neap_array *x = np_portable_tensor(c, 0), *mask = np_portable_tensor(c, 1);
    neap_array *value = neap_cast(np_portable_tensor(c, 2), neap_array_dtype(x));
    return np_portable_give(c, neap_where(mask, value, x));
}

BUILD(logical_xor)
{
    neap_array *a = neap_cast(np_portable_tensor(c, 0), NEAP_BOOL);
    return np_portable_give(c, neap_not_equal(a, neap_cast(np_portable_tensor(c, 1), NEAP_BOOL)));
}

BUILD(nan_to_num)
{
    neap_array *x = np_portable_tensor(c, 0);
    if (!x || !np_portable_is_float(x))
        return np_portable_give(c, x);
    const double most = x->dtype == NEAP_F16 ? 65504 : x->dtype == NEAP_BF16 ? 0x1.fep127 : 0x1.fffffep127;
    x = np_portable_wide(x);
    const double values[3] = {np_portable_has(c, 1) ? np_portable_real(c, 1) : 0,
                              np_portable_has(c, 2) ? np_portable_real(c, 2) : most,
                              np_portable_has(c, 3) ? np_portable_real(c, 3) : -most};
    neap_array *zero = np_portable_scalar(x, 0), *infinite = neap_isinf(x);
    neap_array *end = neap_where(neap_greater(x, zero), neap_scalar(NEAP_F32, values[1]),
                                 neap_scalar(NEAP_F32, values[2]));
    neap_array *r = neap_where(neap_isnan(x), neap_scalar(NEAP_F32, values[0]), x);
    return np_portable_give(c, neap_where(infinite, end, r));
}

/* ---- activations --------------------------------------------------------------------------------------- */

static neap_array *by(neap_array *x, double factor)
{
    return factor == 1 ? x : neap_mul(x, np_portable_scalar(x, factor));
}

static neap_array *positive(neap_array *x)
{
    return neap_greater(x, np_portable_scalar(x, 0));
}

/* x > 0 ? scale x : alpha scale (e^(input_scale x) - 1) */
static neap_array *elu(neap_array *x, double alpha, double scale, double input_scale)
{
    neap_array *below = by(neap_expm1(by(x, input_scale)), alpha * scale);
    return neap_where(positive(x), by(x, scale), below);
}

BUILD(elu)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    return np_portable_give(c, elu(x, np_portable_real(c, 1), np_portable_real(c, 2),
                                   np_portable_real(c, 3)));
}

BUILD(celu)
{
    const double alpha = np_portable_real(c, 1);
    return np_portable_give(c, elu(np_portable_wide(np_portable_tensor(c, 0)), alpha, 1, 1 / alpha));
}

BUILD(leaky_relu)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    return np_portable_give(c, neap_where(positive(x), x, by(x, np_portable_real(c, 1))));
}

BUILD(gelu)
{
    neap_array *x = np_portable_tensor(c, 0);
    if (np_portable_says(c, 1, "none"))
        return np_portable_give(c, neap_gelu(x));
    if (np_portable_says(c, 1, "tanh"))
        return np_portable_give(c, neap_gelu_tanh(x));
    return np_portable_fail(c, NEAP_EUNSUPPORTED, "an approximation that is neither none nor tanh");
}

BUILD(glu)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    int axis;
    if (!x || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    if (x->rank == 0 || x->shape[axis] % 2)
        return np_portable_fail(c, NEAP_ESHAPE, "a dimension that has no halves");
    const int64_t half = x->shape[axis] / 2;
    neap_array *gate = neap_sigmoid(neap_narrow(x, axis, half, 2 * half));
    return np_portable_give(c, neap_mul(neap_narrow(x, axis, 0, half), gate));
}

/* log(1 + e^x) without overflow */
static neap_array *softplus(neap_array *x)
{
    neap_array *small = neap_log1p(neap_exp(neap_neg(neap_abs(x))));
    return neap_add(neap_relu(x), small);
}

BUILD(softplus)
{
    const double beta = np_portable_real(c, 1), most = np_portable_real(c, 2);
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0)), *y = by(x, beta);
    neap_array *soft = by(softplus(y), 1 / beta);
    return np_portable_give(c, neap_where(neap_greater(y, np_portable_scalar(y, most)), x, soft));
}

BUILD(mish)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    return np_portable_give(c, neap_mul(x, neap_tanh(softplus(x))));
}

/* The second result is what the gradient keeps. */
BUILD(log_sigmoid)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    return np_portable_give(c, neap_neg(softplus(neap_neg(x))));
}

/* clip(x / 6 + 1 / 2, 0, 1) */
static neap_array *hard_sigmoid(neap_array *x)
{
    neap_array *six = np_portable_scalar(x, 6), *zero = np_portable_scalar(x, 0);
    return neap_div(neap_clip(neap_add(x, np_portable_scalar(x, 3)), zero, six), six);
}

BUILD(hardsigmoid)
{
    return np_portable_give(c, hard_sigmoid(np_portable_wide(np_portable_tensor(c, 0))));
}

BUILD(hardswish)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    return np_portable_give(c, neap_mul(x, hard_sigmoid(x)));
}

/* x where |x| > limit, else 0; softshrink moves it towards 0 by the limit, too. */
static bool shrink(np_portable_call *c, bool soft)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    neap_array *limit = np_portable_scalar(x, np_portable_real(c, 1));
    neap_array *y = soft ? neap_sub(x, neap_mul(neap_sign(x), limit)) : x;
    neap_array *inside = neap_less_equal(neap_abs(x), limit);
    return np_portable_give(c, neap_where(inside, np_portable_scalar(x, 0), y));
}

BUILD(hardshrink)
{
    return shrink(c, false);
}

BUILD(softshrink)
{
    return shrink(c, true);
}

BUILD(threshold)
{
    neap_array *x = np_portable_tensor(c, 0);
    neap_array *below = neap_less_equal(x, np_portable_scalar(x, np_portable_real(c, 1)));
    return np_portable_give(c, neap_where(below, np_portable_scalar(x, np_portable_real(c, 2)), x));
}

BUILD(logit)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0)), *one = np_portable_scalar(x, 1);
    if (np_portable_has(c, 1)) {
        const double eps = np_portable_real(c, 1);
        x = neap_clip(x, np_portable_scalar(x, eps), np_portable_scalar(x, 1 - eps));
    }
    return np_portable_give(c, neap_log(neap_div(x, neap_sub(one, x))));
}

BUILD(frac)
{
    neap_array *x = np_portable_tensor(c, 0);
    return np_portable_give(c, neap_sub(x, neap_trunc(x)));
}

BUILD(exp2)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    return np_portable_give(c, neap_pow(neap_scalar(NEAP_F32, 2), x));
}

BUILD(deg2rad)
{
    return np_portable_give(c, by(np_portable_wide(np_portable_tensor(c, 0)), 0x1.1df46a2529d39p-6));
}

/* ---- made from nothing ---------------------------------------------------------------------------------- */

static bool filled(np_portable_call *c, int shape_at, double value)
{
    int64_t shape[NEAP_MAX_RANK];
    int n;
    return np_portable_ints(c, shape_at, &n, shape) &&
           np_portable_give(c, neap_full(n, shape, value, np_portable_dtype(c, 0)));
}

static bool filled_like(np_portable_call *c, double value)
{
    const neap_array *x = np_portable_tensor(c, 0);
    return x && np_portable_give(c, neap_full(x->rank, x->shape, value, np_portable_dtype(c, 0)));
}

BUILD(zeros)
{
    return filled(c, 0, 0);
}

BUILD(ones)
{
    return filled(c, 0, 1);
}

BUILD(full)
{
    return filled(c, 0, np_portable_real(c, 1));
}

BUILD(new_full)
{
    return filled(c, 1, np_portable_real(c, 2));
}

BUILD(zeros_like)
{
    return filled_like(c, 0);
}

BUILD(ones_like)
{
    return filled_like(c, 1);
}

BUILD(full_like)
{
    return filled_like(c, np_portable_real(c, 1));
}

BUILD(fill)
{
    neap_array *x = np_portable_tensor(c, 0);
    return x && np_portable_give(c, neap_broadcast_to(np_portable_tensor(c, 1), x->rank, x->shape));
}

BUILD(scalar_tensor)
{
    return np_portable_give(c, np_portable_tensor(c, 0));
}

BUILD(arange)
{
    const bool from = c->row->arguments[1] != 0;
    const double start = from ? np_portable_real(c, 0) : 0, end = np_portable_real(c, from ? 1 : 0);
    const double step = from ? np_portable_real(c, 2) : 1;
    return np_portable_give(c, neap_arange(start, end, step, np_portable_dtype(c, 0)));
}
