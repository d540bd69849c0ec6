/* kernels_span.c - built once per instruction set: kernels on runs of elements.
 * Each .inc file holds static kernels and, last, macros with its rows of the table. */
#include "cpu/kernels_isa.h"

#include "cpu/elementwise.inc"

const np_span_kernels NP_FAMILY_TABLE(span) = {
#include "cpu/elementwise.def"
    .where = {[1] = np_where_8, [2] = np_where_16, [4] = np_where_32, [8] = np_where_64},
    NP_CAST_ROWS};
