/* op_table.c - see op_table.h. */
#include "ops/op_table.h"

const np_op *const *np_op_table(void)
{
    static const np_op *const table[] = {
#define NP_OP(name) &np_op_##name,
#include "ops/ops.def"
#undef NP_OP
        NULL};
    return table;
}
