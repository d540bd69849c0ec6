/* portable_product.c - products and convolutions of operators outside delegates. */
#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

/* beta bias + alpha a b; of a beta of 0 the bias is not looked at. */
BUILD(addmm)
{
    neap_array *bias = np_portable_tensor(c, 0), *a = np_portable_tensor(c, 1);
    neap_array *b = np_portable_tensor(c, 2);
    const float beta = (float)np_portable_real(c, 3), alpha = (float)np_portable_real(c, 4);
    if (beta != 0)
        return np_portable_give(c, neap_addmm(bias, a, b, alpha, beta));
    neap_array *product = np_portable_wide(neap_matmul(a, b));
    return np_portable_give(
        c, alpha == 1 ? product : neap_mul(product, np_portable_scalar(product, (double)alpha)));
}

BUILD(linear)
{
    neap_array *x = np_portable_tensor(c, 0), *w = np_portable_tensor(c, 1);
    neap_array *product = neap_matmul(x, w ? neap_transpose(w, NULL) : NULL);
    if (!np_portable_has(c, 2))
        return np_portable_give(c, product);
    return np_portable_give(c, neap_add(np_portable_wide(product), np_portable_tensor(c, 2)));
}

/* ---- convolutions ------------------------------------------------------------------------------------ */

/* A list of one number serves for every dimension. */
static bool find_each(np_portable_call *c, int i, int spatial, int64_t *out)
{
    const int n = np_portable_count(c, i);
    if (n != 1 && n != spatial)
        return np_portable_fail(c, NEAP_ESHAPE, "argument %d: %d numbers for %d dimensions", i, n,
                                spatial);
    for (int d = 0; d < spatial; d++)
        out[d] = np_portable_int_at(c, i, n == 1 ? 0 : d);
    return true;
}

/* [N, C, ..] to [N, .., C], and back. */
static neap_array *channels(neap_array *x, bool last)
{
    int axes[NEAP_MAX_RANK];
    if (!x)
        return NULL;
    for (int d = 0; d < x->rank; d++)
        axes[d] = last ? (d == 0 ? 0 : d == x->rank - 1 ? 1 : d + 1) : (d == 0 ? 0 : d == 1 ? x->rank - 1 : d - 1);
    return neap_transpose(x, axes);
}

/* Of a transposed one [C, O / groups, ..] to [O, .., C / groups]. */
static neap_array *turned_weights(neap_array *w, int64_t groups)
{
    int64_t apart[NEAP_MAX_RANK], joined[NEAP_MAX_RANK];
    int axes[NEAP_MAX_RANK];
    const int r = w ? w->rank : 0;
    if (!w || w->shape[0] % groups || r + 1 > NEAP_MAX_RANK)
        return NULL;
    apart[0] = groups;
    apart[1] = w->shape[0] / groups;
    axes[0] = 0;
    axes[1] = 2;
    joined[0] = groups * w->shape[1];
    for (int d = 1; d < r; d++)
        apart[d + 1] = w->shape[d];
    for (int d = 2; d < r; d++) {
        axes[d] = d + 1;
        joined[d - 1] = w->shape[d];
    }
    axes[r] = 1;
    joined[r - 1] = apart[1];
    return neap_reshape(neap_transpose(neap_reshape(w, r + 1, apart), axes), r, joined);
}

static bool find_options(np_portable_call *c, int spatial, neap_conv_options *o)
{
    o->spatial = spatial;
    o->transposed = np_portable_int(c, 6) != 0;
    o->groups = np_portable_int(c, 8);
    if (o->groups < 1 || o->groups > INT32_MAX)
        return np_portable_fail(c, NEAP_EINVAL, "%lld groups", (long long)o->groups);
    return find_each(c, 3, spatial, o->stride) && find_each(c, 4, spatial, o->padding) &&
           find_each(c, 5, spatial, o->dilation) &&
           (!o->transposed || find_each(c, 7, spatial, o->output_padding));
}

BUILD(convolution)
{
    neap_array *x = np_portable_tensor(c, 0), *w = np_portable_tensor(c, 1);
    neap_conv_options o = NEAP_CONV_OPTIONS_INIT;
    if (!x || !w)
        return false;
    const int spatial = w->rank - 2;
    const bool single = x->rank == w->rank - 1;
    if (spatial < 1 || spatial > 3 || (x->rank != w->rank && !single))
        return np_portable_fail(c, NEAP_EUNSUPPORTED, "%d dimensions with weights of %d", x->rank,
                                w->rank);
    if (!find_options(c, spatial, &o))
        return false;
    if (o.transposed && w->shape[0] % o.groups)
        return np_portable_fail(c, NEAP_ESHAPE, "%lld groups of %lld channels", (long long)o.groups,
                                (long long)w->shape[0]);
    x = channels(single ? neap_expand_dims(x, 0) : x, true);
    w = o.transposed ? turned_weights(w, o.groups) : channels(w, true);
    neap_array *y = neap_conv(x, w, &o);
    if (np_portable_has(c, 2))
        y = neap_add(np_portable_wide(y), np_portable_tensor(c, 2));
    y = channels(y, false);
    return np_portable_give(c, single ? neap_squeeze(y, 0) : y);
}
