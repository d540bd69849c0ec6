/* kernels_recurrent.c - built once per instruction set: layers that carry a state from step to step.
 * Each .inc file holds static kernels and, last, macros with its rows of the table. */
#include "cpu/kernels_isa.h"
#include "cpu/vec_ops.h"

#include "cpu/gated_delta.inc"

const np_recurrent_kernels NP_FAMILY_TABLE(recurrent) = {NP_DELTA_ROWS};
