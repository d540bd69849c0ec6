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
