/* kernels_product.c - built once per instruction set: matrix products, convolutions and attention.
 * Each .inc file holds static kernels and, last, macros with its rows of the table. */
#include "cpu/flushed.h"
#include "cpu/kernels_isa.h"
#include "cpu/vec_math.h"

#include "cpu/gemm.inc"
#include "cpu/attention.inc"
#include "cpu/conv_depthwise.inc"

const np_product_kernels NP_FAMILY_TABLE(product) = {NP_GEMM_ROWS NP_DEPTHWISE_ROWS
                                                           NP_ATTENTION_ROWS};
