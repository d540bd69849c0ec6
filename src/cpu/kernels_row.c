/* kernels_row.c - built once per instruction set: reductions, norms and rotary embedding.
 * Each .inc file holds static kernels and, last, macros with its rows of the table. */
#include "cpu/kernels_isa.h"
#include "cpu/vec_ops.h"

#include "cpu/reduce.inc"
#include "cpu/rows.inc"
#include "cpu/moments.inc"
#include "cpu/rope.inc"

const np_row_kernels NP_FAMILY_TABLE(row) = {NP_REDUCE_ROWS NP_MOMENTS_ROWS NP_ROWS_ROWS NP_ROPE_ROWS};
