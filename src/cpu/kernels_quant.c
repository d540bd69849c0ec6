/* kernels_quant.c - built once per instruction set: products with GGUF blocks.
 * Each .inc file holds static kernels and, last, macros with its rows of the table. */
#include "cpu/kernels_isa.h"
#include "cpu/vec.h"

#include "cpu/quant.inc"

const np_quant_kernels NP_FAMILY_TABLE(quant) = {NP_QUANT_ROWS};
