/* kernels_chain.c - built once per instruction set: several ops over one tile. */
#include "cpu/kernels_isa.h"

#include "cpu/chain.inc"

const np_chain_kernels NP_FAMILY_TABLE(chain) = {
    .prepare = np_chain_prepare, .run = np_chain_run, .fence = np_chain_fence};
