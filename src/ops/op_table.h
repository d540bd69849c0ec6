/* op_table.h - the descriptors of all ops, and a list of them for tests and documentation. Nothing
 * in the library looks an op up: nodes point to their descriptor. */
#ifndef NP_OP_TABLE_H
#define NP_OP_TABLE_H

#include "array/array.h"

#define NP_OP(name) extern const np_op np_op_##name;
#include "ops/ops.def"
#undef NP_OP

/* The rows of ops.def in order, NULL-terminated. */
const np_op *const *np_op_table(void);

#endif
