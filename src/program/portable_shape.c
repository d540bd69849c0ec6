/* portable_shape.c - views of operators outside delegates. */
#include <string.h>

#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

BUILD(permute)
{
    neap_array *x = np_portable_tensor(c, 0);
    int n, axes[NEAP_MAX_RANK];
    if (!np_portable_axes(c, 1, x, &n, axes))
        return false;
    if (n != x->rank)
        return np_portable_fail(c, NEAP_ESHAPE, "%d axes for %d dimensions", n, x->rank);
    return np_portable_give(c, neap_transpose(x, axes));
}

BUILD(view)
{
    int64_t shape[NEAP_MAX_RANK];
    int n;
    return np_portable_ints(c, 1, &n, shape) &&
           np_portable_give(c, neap_reshape(np_portable_tensor(c, 0), n, shape));
}

BUILD(sym_size)
{
    neap_array *x = np_portable_tensor(c, 0);
    int axis;
    if (!x || !np_portable_axis(c, np_portable_int(c, 1), x->rank, &axis))
        return false;
    c->number = (np_method_value){.kind = NEAP_VALUE_INT,
                                  .at = {.is_value = true, .integer = x->shape[axis]}};
    return true;
}
