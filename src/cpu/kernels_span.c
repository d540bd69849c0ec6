/* kernels_span.c - built once per instruction set: kernels on runs of elements.
 * Each .inc file holds static kernels and, last, macros with its rows of the table. */
#include "cpu/kernels_isa.h"

#include "cpu/elementwise.inc"

const np_span_kernels NP_FAMILY_TABLE(span) = {NP_ELEMENTWISE_ROWS};
