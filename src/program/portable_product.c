/* portable_product.c - products of operators outside delegates. */
#include "ops/support.h"
#include "program/portable.h"

#define BUILD(name) bool np_portable_##name(np_portable_call *c)

BUILD(addmm)
{
    neap_array *bias = np_portable_tensor(c, 0), *a = np_portable_tensor(c, 1);
    return np_portable_give(c, neap_addmm(bias, a, np_portable_tensor(c, 2),
                                          (float)np_portable_real(c, 4),
                                          (float)np_portable_real(c, 3)));
}
