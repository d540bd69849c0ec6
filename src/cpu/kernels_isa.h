/* kernels_isa.h - names that carry the instruction set a file is being built for (NP_ISA). */
#ifndef NP_KERNELS_ISA_H
#define NP_KERNELS_ISA_H

#include "cpu/kernels.h"

#define NP_CAT_(a, b) a##b
#define NP_CAT(a, b) NP_CAT_(a, b)
#define NP_STR_(a) #a
#define NP_STR(a) NP_STR_(a)

/* The table of a family for this instruction set, as the unit of that family defines it. */
#define NP_FAMILY_TABLE(family) NP_CAT(np_##family##_kernels_, NP_ISA)
#define NP_FAMILY(family) extern const np_##family##_kernels NP_FAMILY_TABLE(family);
#include "cpu/families.def"
#undef NP_FAMILY

#endif
