/* kernels_chain.c - built once per instruction set: several ops over one tile. */
#include "cpu/kernels_isa.h"

#include "cpu/vec.h"

#include "cpu/chain.inc"

const np_chain_kernels NP_FAMILY_TABLE(chain) = {.run = np_chain_run};
