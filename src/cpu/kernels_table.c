/* kernels_table.c - built once per instruction set: one table that points to the families'. */
#include "cpu/kernels_isa.h"

extern const np_kernels NP_CAT(np_kernels_, NP_ISA);
const np_kernels NP_CAT(np_kernels_, NP_ISA) = {
    .isa = NP_STR(NP_ISA),
#define NP_FAMILY(family) .family = &NP_FAMILY_TABLE(family),
#include "cpu/families.def"
#undef NP_FAMILY
};
