/* cpu_features.c - see cpu_features.h. */
#include "cpu/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

static uint64_t xgetbv0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool bit(unsigned word, int n)
{
    return word >> n & 1;
}

np_cpu_features np_cpu_features_read(void)
{
    np_cpu_features f = {0};
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) /* OSXSAVE */
        return f;
    bool fma = bit(c, 12), f16c = bit(c, 29);
    uint64_t saved = xgetbv0();
    bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return f;
    f.avx2 = bit(b, 5) && fma && f16c && ymm;
    f.avx512 = f.avx2 && zmm && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);
    f.avx512_vnni = f.avx512 && bit(c, 11);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        f.avx512_bf16 = f.avx512 && bit(a, 5);
        f.avx_vnni = f.avx2 && bit(a, 4);
    }
    return f;
}
#else
np_cpu_features np_cpu_features_read(void)
{
    return (np_cpu_features){0};
}
#endif
