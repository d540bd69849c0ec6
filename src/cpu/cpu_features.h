/* cpu_features.h - what this processor and its system can run, read from CPUID and XGETBV. */
#ifndef NP_CPU_FEATURES_H
#define NP_CPU_FEATURES_H

#include <stdbool.h>

typedef struct np_cpu_features {
    bool avx2;      /* AVX2, FMA, F16C and the system saves ymm */
    bool avx512;    /* F, BW, DQ, VL and the system saves zmm */
    bool avx512_vnni, avx512_bf16, avx_vnni;
} np_cpu_features;

np_cpu_features np_cpu_features_read(void);

#endif
