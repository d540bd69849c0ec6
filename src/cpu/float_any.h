/* float_any.h - elements of a float dtype that is an argument: f32, f16, bf16 from and to f32. Inlined
 * where the dtype is a constant. For files built per instruction set. */
#ifndef NP_FLOAT_ANY_H
#define NP_FLOAT_ANY_H

#include "cpu/vec.h"
#include "neap/dtype.h"

NP_INLINE float np_float_load(neap_dtype dtype, const void *p, int64_t i)
{
    if (dtype == NEAP_F32)
        return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return dtype == NEAP_F16 ? np_f16_load(h) : np_bf16_load(h);
}

NP_INLINE vf np_float_load_vf(neap_dtype dtype, const void *p, int64_t i)
{
    if (dtype == NEAP_F32)
        return vf_load((const float *)p + i);
    const uint16_t *h = (const uint16_t *)p + i;
    return dtype == NEAP_F16 ? vf_load_f16(h) : vf_load_bf16(h);
}

NP_INLINE const void *np_float_at(neap_dtype dtype, const void *p, int64_t i)
{
    return (const char *)p + i * (dtype == NEAP_F32 ? 4 : 2);
}

NP_INLINE void *np_float_place(neap_dtype dtype, void *p, int64_t i)
{
    return (char *)p + i * (dtype == NEAP_F32 ? 4 : 2);
}

/* n adjacent f32 to adjacent elements of `dtype`, rounded once. */
__attribute__((unused)) static void np_float_store(neap_dtype dtype, void *p, const float *x,
                                                   int64_t n)
{
    int64_t i = 0;
    uint16_t *h = p;
    if (dtype == NEAP_F32) {
        memcpy(p, x, (size_t)n * sizeof *x);
    } else if (dtype == NEAP_F16) {
        for (; i + VF_N <= n; i += VF_N)
            vf_store_f16(h + i, vf_load(x + i));
        for (; i < n; i++)
            h[i] = np_f16_store(x[i]);
    } else {
        for (; i + VF_N <= n; i += VF_N)
            vf_store_bf16(h + i, vf_load(x + i));
        for (; i < n; i++)
            h[i] = np_bf16_store(x[i]);
    }
}

#endif
