/* kernels_decoded.c - built once per instruction set: products of floats with encoded weights.
 * Each .inc file holds static kernels and, last, macros with its rows of the table. */
#include "cpu/flushed.h"
#include "cpu/kernels_isa.h"
#include "cpu/float_any.h"
#include "cpu/quant_formats.h"

#if defined(__AVX2__)
#include "cpu/quant_simd.inc"
#endif
#include "cpu/decode.inc"

#include "cpu/decode_product.inc"

const np_decoded_kernels NP_FAMILY_TABLE(decoded) = {NP_DECODE_ROWS};
