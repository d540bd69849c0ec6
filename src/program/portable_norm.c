/* portable_norm.c - normalisations of operators outside delegates. Statistics that nobody reads are never
 * made; where the file's own have no elements, they are not set. */
#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

static neap_array *small(double value)
{
    return neap_scalar(NEAP_F32, value);
}

/* [C] along dimension 1 of x. */
static neap_array *of_channels(neap_array *v, const neap_array *x)
{
    int64_t shape[NEAP_MAX_RANK];
    if (!v)
        return NULL;
    for (int d = 0; d < x->rank; d++)
        shape[d] = d == 1 ? x->shape[1] : 1;
    return neap_reshape(v, x->rank, shape);
}

static neap_array *affine(np_portable_call *c, neap_array *y, int weight, int bias)
{
    if (np_portable_has(c, weight))
        y = neap_mul(y, of_channels(np_portable_tensor(c, weight), y));
    if (y && np_portable_has(c, bias))
        y = neap_add(y, of_channels(np_portable_tensor(c, bias), y));
    return y;
}

/* ---- by channel -------------------------------------------------------------------------------------- */

static neap_array *batch_input(np_portable_call *c)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    if (x && x->rank < 2)
        return np_portable_fail(c, NEAP_ESHAPE, "%d dimensions, at least 2", x->rank), NULL;
    return x;
}

/* With statistics of the file: (x - mean) weight / sqrt(var + eps) + bias. */
static bool with_given(np_portable_call *c, double eps)
{
    neap_array *x = batch_input(c);
    if (!x)
        return false;
    neap_array *mean = np_portable_wide(np_portable_tensor(c, 3));
    neap_array *var = np_portable_wide(np_portable_tensor(c, 4));
    neap_array *scale = neap_reciprocal(neap_sqrt(neap_add(var, small(eps))));
    if (np_portable_has(c, 1))
        scale = neap_mul(scale, np_portable_wide(np_portable_tensor(c, 1)));
    neap_array *y = neap_mul(neap_sub(x, of_channels(mean, x)), of_channels(scale, x));
    if (y && np_portable_has(c, 2))
        y = neap_add(y, of_channels(np_portable_tensor(c, 2), x));
    return np_portable_give(c, y);
}

BUILD(batch_norm_given)
{
    return with_given(c, np_portable_real(c, 6));
}

BUILD(batch_norm)
{
    if (np_portable_int(c, 5))
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "training: it changes the running statistics");
    return with_given(c, np_portable_real(c, 7));
}

/* With statistics of x itself: result, mean, 1 / deviation. */
BUILD(batch_norm_own)
{
    neap_array *x = batch_input(c);
    int axes[NEAP_MAX_RANK], n = 0;
    if (!x)
        return false;
    for (int d = 0; d < x->rank; d++)
        if (d != 1)
            axes[n++] = d;
    neap_array *mean = neap_mean_axes(x, n, axes, NEAP_KEEPDIMS);
    neap_array *var = neap_var_axes(x, n, axes, 0, NEAP_KEEPDIMS);
    neap_array *scale = neap_reciprocal(neap_sqrt(neap_add(var, small(np_portable_real(c, 5)))));
    const int64_t flat = -1;
    c->results[1] = neap_reshape(mean, 1, &flat);
    c->results[2] = neap_reshape(scale, 1, &flat);
    return np_portable_give(c, affine(c, neap_mul(neap_sub(x, mean), scale), 1, 2)) &&
           c->results[1] && c->results[2];
}

/* ---- by row ------------------------------------------------------------------------------------------ */

/* Mean and 1 / deviation of each row of a matrix. */
static bool row_statistics(np_portable_call *c, neap_array *rows, double eps, int rank,
                           const int64_t *shape)
{
    const int last = rows ? rows->rank - 1 : 0;
    neap_array *mean = neap_mean_axes(rows, 1, &last, 0);
    neap_array *var = neap_var_axes(rows, 1, &last, 0, 0);
    c->results[1] = neap_reshape(mean, rank, shape);
    c->results[2] = neap_reshape(neap_reciprocal(neap_sqrt(neap_add(var, small(eps)))), rank, shape);
    return c->results[1] && c->results[2];
}

static neap_array *flat_weight(np_portable_call *c, int i, neap_dtype dtype)
{
    const int64_t flat = -1;
    return np_portable_has(c, i) ? neap_reshape(neap_cast(np_portable_tensor(c, i), dtype), 1, &flat)
                                 : NULL;
}

BUILD(layer_norm)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    const double eps = np_portable_real(c, 4);
    const int n = np_portable_count(c, 1);
    int64_t matrix[2] = {1, 1}, shape[NEAP_MAX_RANK];
    if (!x)
        return false;
    if (n < 1 || n > x->rank)
        return np_portable_fail(c, NEAP_ESHAPE, "the last %d of %d dimensions", n, x->rank);
    for (int d = 0; d < x->rank; d++) {
        const bool inside = d >= x->rank - n;
        shape[d] = inside ? 1 : x->shape[d];
        matrix[inside] *= x->shape[d];
        if (inside && np_portable_int_at(c, 1, d - (x->rank - n)) != x->shape[d])
            return np_portable_fail(c, NEAP_ESHAPE, "normalised_shape is not that of the input");
    }
    neap_array *weight = flat_weight(c, 2, NEAP_F32), *bias = flat_weight(c, 3, NEAP_F32);
    if ((np_portable_has(c, 2) && !weight) || (np_portable_has(c, 3) && !bias))
        return false;
    neap_array *rows = neap_reshape(x, 2, matrix);
    neap_array *y = neap_layer_norm(rows, weight, weight ? bias : NULL, (float)eps);
    if (bias && !weight)
        y = neap_add(y, bias);
    return row_statistics(c, rows, eps, x->rank, shape) &&
           np_portable_give(c, neap_reshape(y, x->rank, x->shape));
}

BUILD(group_norm)
{
    neap_array *x = np_portable_wide(np_portable_tensor(c, 0));
    const int64_t groups = np_portable_int(c, 6);
    const double eps = np_portable_real(c, 7);
    if (!x)
        return false;
    if (x->rank < 2 || groups < 1 || x->shape[1] % groups)
        return np_portable_fail(c, NEAP_ESHAPE, "%lld groups do not fit", (long long)groups);
    int64_t row = x->shape[1] / groups;
    for (int d = 2; d < x->rank; d++)
        row *= x->shape[d];
    const int64_t apart[3] = {x->shape[0], groups, row};
    neap_array *rows = neap_reshape(x, 3, apart);
    neap_array *y = neap_reshape(neap_layer_norm(rows, NULL, NULL, (float)eps), x->rank, x->shape);
    return row_statistics(c, rows, eps, 2, apart) && np_portable_give(c, affine(c, y, 1, 2));
}

/* Without training everything passes, and the mask is all true. */
BUILD(dropout)
{
    neap_array *x = np_portable_tensor(c, 0);
    if (np_portable_has(c, 2) ? np_portable_int(c, 2) != 0 : true)
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "training: it draws at random");
    c->results[1] = x ? neap_full(x->rank, x->shape, 1, NEAP_BOOL) : NULL;
    return np_portable_give(c, x) && c->results[1];
}
