/* kernels_table.c - built once per instruction set: gathers its static kernels into one table.
 * Each .inc file holds static kernels and, last, macros with its rows of the table. */
#include "cpu/kernels.h"
#include "cpu/vec.h"

#include "cpu/elementwise.inc"
#include "cpu/reduce.inc"
#include "cpu/rows.inc"
#include "cpu/rope.inc"
#include "cpu/gemm.inc"
#include "cpu/attention.inc"
#include "cpu/quant.inc"

#define NP_CAT_(a, b) a##b
#define NP_CAT(a, b) NP_CAT_(a, b)
#define NP_STR_(a) #a
#define NP_STR(a) NP_STR_(a)

extern const np_kernels NP_CAT(np_kernels_, NP_ISA);
const np_kernels NP_CAT(np_kernels_, NP_ISA) = {
    .isa = NP_STR(NP_ISA),
    NP_ELEMENTWISE_ROWS
    NP_REDUCE_ROWS
    NP_ROWS_ROWS
    NP_ROPE_ROWS
    NP_GEMM_ROWS
    NP_ATTENTION_ROWS
    NP_QUANT_ROWS
};
