/* vec.h - one vector type for every instruction set: vf (f32), vi (int32), vm (lane mask).
 *
 * Kernels are written once over these names and built again for each NP_ISA. Everything is static,
 * or AVX code would leak into the base build. vf_fma is fused on avx2 and avx512 and two roundings
 * on base: bits are promised within one instruction set only. */
#ifndef NP_VEC_H
#define NP_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

#define NP_INLINE static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__)

enum { VF_N = 16 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
NP_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
NP_INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
NP_INLINE vf vf_set1(float a) { return _mm512_set1_ps(a); }
NP_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
NP_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
NP_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
NP_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
NP_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a*b + c */
NP_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a*b */
NP_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); } /* b where either is NaN */
NP_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
NP_INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
NP_INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
NP_INLINE vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
NP_INLINE vf vf_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
NP_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
NP_INLINE vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
NP_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
NP_INLINE vm vf_isnan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
NP_INLINE vf vf_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); } /* m ? a : b */
NP_INLINE vi vf_to_int(vf a) { return _mm512_cvtps_epi32(a); } /* nearest even */
NP_INLINE vf vi_to_float(vi a) { return _mm512_cvtepi32_ps(a); }
NP_INLINE vi vf_bits(vf a) { return _mm512_castps_si512(a); }
NP_INLINE vf vi_as_float(vi a) { return _mm512_castsi512_ps(a); }
NP_INLINE vi vi_set1(int32_t a) { return _mm512_set1_epi32(a); }
NP_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
NP_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
NP_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
NP_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
NP_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
NP_INLINE vi vi_shl(vi a, int n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(n)); }
NP_INLINE vi vi_shr(vi a, int n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128(n)); }
NP_INLINE vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
NP_INLINE void vf_store_f16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }
NP_INLINE vf vf_load_bf16(const uint16_t *p) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16)); }
NP_INLINE void vf_store_u32_low16(uint16_t *p, vi a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a)); }
NP_INLINE vf vf_swap_pairs(vf a) { return _mm512_permute_ps(a, 0xb1); } /* 1 0 3 2 ... */
NP_INLINE int vm_any(vm m) { return m != 0; }
NP_INLINE vm vm_not(vm m) { return (vm)~m; }
NP_INLINE void vm_store_bool(uint8_t *p, vm m) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_maskz_set1_epi32(m, 1))); }

#elif defined(__AVX2__)

enum { VF_N = 8 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;
NP_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
NP_INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
NP_INLINE vf vf_set1(float a) { return _mm256_set1_ps(a); }
NP_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
NP_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
NP_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
NP_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
NP_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
NP_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
NP_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
NP_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
NP_INLINE vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
NP_INLINE vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
NP_INLINE vf vf_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
NP_INLINE vf vf_floor(vf a) { return _mm256_floor_ps(a); }
NP_INLINE vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
NP_INLINE vm vf_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
NP_INLINE vm vf_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
NP_INLINE vm vf_isnan(vf a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
NP_INLINE vf vf_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
NP_INLINE vi vf_to_int(vf a) { return _mm256_cvtps_epi32(a); }
NP_INLINE vf vi_to_float(vi a) { return _mm256_cvtepi32_ps(a); }
NP_INLINE vi vf_bits(vf a) { return _mm256_castps_si256(a); }
NP_INLINE vf vi_as_float(vi a) { return _mm256_castsi256_ps(a); }
NP_INLINE vi vi_set1(int32_t a) { return _mm256_set1_epi32(a); }
NP_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
NP_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
NP_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
NP_INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
NP_INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
NP_INLINE vi vi_shl(vi a, int n) { return _mm256_slli_epi32(a, n); }
NP_INLINE vi vi_shr(vi a, int n) { return _mm256_srli_epi32(a, n); }
NP_INLINE vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
NP_INLINE void vf_store_f16(uint16_t *p, vf a) { _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }
NP_INLINE vf vf_load_bf16(const uint16_t *p) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16)); }
NP_INLINE void vf_store_u32_low16(uint16_t *p, vi a)
{
    a = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
    a = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, a), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(a));
}
NP_INLINE vf vf_swap_pairs(vf a) { return _mm256_permute_ps(a, 0xb1); } /* 1 0 3 2 ... */
NP_INLINE int vm_any(vm m) { return _mm256_movemask_ps(m) != 0; }
NP_INLINE vm vm_not(vm m) { return _mm256_xor_ps(m, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }
NP_INLINE void vm_store_bool(uint8_t *p, vm m)
{
    __m256i a = _mm256_castps_si256(m);
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64((__m128i *)p, _mm_and_si128(_mm_packs_epi16(words, words), _mm_set1_epi8(1)));
}

#else /* base: any machine; gcc vectors, no intrinsics */

enum { VF_N = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef int32_t vm __attribute__((vector_size(16)));
typedef uint32_t np_vu __attribute__((vector_size(16)));
NP_INLINE vf vf_load(const float *p) { vf a; memcpy(&a, p, sizeof a); return a; }
NP_INLINE void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
NP_INLINE vf vf_set1(float a) { return (vf){a, a, a, a}; }
NP_INLINE vf vf_add(vf a, vf b) { return a + b; }
NP_INLINE vf vf_sub(vf a, vf b) { return a - b; }
NP_INLINE vf vf_mul(vf a, vf b) { return a * b; }
NP_INLINE vf vf_div(vf a, vf b) { return a / b; }
NP_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
NP_INLINE vf vf_fnma(vf a, vf b, vf c) { return c - a * b; }
NP_INLINE vm vf_lt(vf a, vf b) { return a < b; }
NP_INLINE vm vf_le(vf a, vf b) { return a <= b; }
NP_INLINE vm vf_eq(vf a, vf b) { return a == b; }
NP_INLINE vm vf_isnan(vf a) { return a != a; }
NP_INLINE vi vf_bits(vf a) { return (vi)a; }
NP_INLINE vf vi_as_float(vi a) { return (vf)a; }
NP_INLINE vi vi_set1(int32_t a) { return (vi){a, a, a, a}; }
NP_INLINE vf vf_select(vm m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
NP_INLINE vf vf_max(vf a, vf b) { return vf_select(a > b, a, b); }
NP_INLINE vf vf_min(vf a, vf b) { return vf_select(a < b, a, b); }
NP_INLINE vf vf_sqrt(vf a) { for (int i = 0; i < VF_N; i++) a[i] = sqrtf(a[i]); return a; }
NP_INLINE vf vf_abs(vf a) { return (vf)((vi)a & vi_set1(0x7fffffff)); }
NP_INLINE vf vf_round(vf a) /* adding 2^23 leaves no room for a fraction; the sign stays */
{
    vi sign = (vi)a & vi_set1(INT32_MIN);
    vf magnitude = vf_abs(a), whole = (magnitude + 0x1p23f) - 0x1p23f;
    return vf_select(magnitude < 0x1p23f, (vf)((vi)whole | sign), a);
}
NP_INLINE vf vf_floor(vf a)
{
    vf r = vf_round(a);
    return (vf)((vi)vf_select(r > a, r - 1.0f, r) | ((vi)a & vi_set1(INT32_MIN)));
}
NP_INLINE vi vf_to_int(vf a)
{
    vi r;
    for (int i = 0; i < VF_N; i++) /* as the hardware: out of range and NaN give INT32_MIN */
        r[i] = a[i] >= -2147483648.0f && a[i] < 2147483648.0f ? (int32_t)nearbyintf(a[i]) : INT32_MIN;
    return r;
}
NP_INLINE vf vi_to_float(vi a) { return (vf){(float)a[0], (float)a[1], (float)a[2], (float)a[3]}; }
NP_INLINE vi vi_add(vi a, vi b) { return (vi)((np_vu)a + (np_vu)b); }
NP_INLINE vi vi_sub(vi a, vi b) { return (vi)((np_vu)a - (np_vu)b); }
NP_INLINE vi vi_and(vi a, vi b) { return a & b; }
NP_INLINE vi vi_or(vi a, vi b) { return a | b; }
NP_INLINE vi vi_xor(vi a, vi b) { return a ^ b; }
NP_INLINE vi vi_shl(vi a, int n) { return (vi)((np_vu)a << n); }
NP_INLINE vi vi_shr(vi a, int n) { return (vi)((np_vu)a >> n); }
NP_INLINE void vf_store_u32_low16(uint16_t *p, vi a) { for (int i = 0; i < VF_N; i++) p[i] = (uint16_t)a[i]; }
NP_INLINE vf vf_swap_pairs(vf a) { return (vf){a[1], a[0], a[3], a[2]}; }
NP_INLINE int vm_any(vm m) { return (m[0] | m[1] | m[2] | m[3]) != 0; }
NP_INLINE vm vm_not(vm m) { return ~m; }
NP_INLINE void vm_store_bool(uint8_t *p, vm m) { for (int i = 0; i < VF_N; i++) p[i] = (uint8_t)(m[i] & 1); }

#endif

/* ---- scalar conversions, the same results as the vector ones ---------------------------------- */

NP_INLINE float np_from_bits(uint32_t u) { float f; memcpy(&f, &u, sizeof f); return f; }
NP_INLINE uint32_t np_to_bits(float f) { uint32_t u; memcpy(&u, &f, sizeof u); return u; }

NP_INLINE float np_bf16_load(uint16_t h) { return np_from_bits((uint32_t)h << 16); }
NP_INLINE uint16_t np_bf16_store(float f) /* nearest even; NaN stays NaN */
{
    uint32_t u = np_to_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#if defined(__F16C__)
NP_INLINE float np_f16_load(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
NP_INLINE uint16_t np_f16_store(float f) { return (uint16_t)_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(f), 0)); }
#else
NP_INLINE float np_f16_load(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31)
        return np_from_bits(sign | 0x7f800000u | m << 13 | (m ? 0x400000u : 0));
    if (e)
        return np_from_bits(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f; /* subnormal or zero, exact */
    return np_from_bits(sign | np_to_bits(f));
}
NP_INLINE uint16_t np_f16_store(float f) /* nearest even */
{
    uint32_t u = np_to_bits(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x47800000u) /* 65536 and up; 65520.. rounds up to it below */
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000u) { /* subnormal: adding 0.5 aligns the mantissa to 2^-24 */
        float t = np_from_bits(u) + 0.5f;
        return (uint16_t)(sign | (np_to_bits(t) - np_to_bits(0.5f)));
    }
    u += 0xfff + (u >> 13 & 1);
    return (uint16_t)(sign | (u - 0x38000000u) >> 13);
}
#endif

#if !defined(__AVX2__)
NP_INLINE vf vf_load_bf16(const uint16_t *p) { return (vf){np_bf16_load(p[0]), np_bf16_load(p[1]), np_bf16_load(p[2]), np_bf16_load(p[3])}; }
NP_INLINE vf vf_load_f16(const uint16_t *p)
{
    vi u = {p[0], p[1], p[2], p[3]}, m = u & 0x7fff;
    /* by whole numbers: as bits of f32 a subnormal would be one too, which products take for 0 */
    vi tiny = (vi)(vi_to_float(m) * 0x1p-24f), normal = (m << 13) + (112 << 23);
    vi finite = (vi)vf_select(m < 0x400, (vf)tiny, (vf)normal);
    vi special = m << 13 | 0x7f800000 | ((m > 0x7c00) & 0x400000);
    return (vf)((u & 0x8000) << 16 | (vi)vf_select(m >= 0x7c00, (vf)special, (vf)finite));
}
NP_INLINE void vf_store_f16(uint16_t *p, vf a) /* as np_f16_store, all cases at once */
{
    vi u = (vi)a, sign = vi_shr(u, 16) & 0x8000;
    u &= 0x7fffffff;
    vi tiny = (vi)((vf)u + 0.5f) - 0x3f000000;
    vi normal = vi_shr(u - 0x38000000 + 0xfff + (vi_shr(u, 13) & 1), 13);
    vi r = vi_and(u < 0x38800000, tiny) | vi_and(u >= 0x38800000, normal);
    r = vi_and(u < 0x47800000, r) | vi_and(u >= 0x47800000, vi_set1(0x7c00));
    vi quiet = (vi_shr(u, 13) & 0x3ff) | 0x7e00;
    r = vi_and(u <= 0x7f800000, r) | vi_and(u > 0x7f800000, quiet);
    vf_store_u32_low16(p, r | sign);
}
#endif

NP_INLINE vf vf_zero(void) { return vf_set1(0.0f); }

/* a * 2^n with one rounding, given z = n + VF_WHOLE: adding VF_WHOLE rounds to a whole number and
 * leaves it in the low bits. n in -252..254, |a| near 1. */
#define VF_WHOLE 12582912.0f /* 1.5 * 2^23 */
NP_INLINE vf vf_ldexp(vf a, vf z)
{
#if defined(__AVX512F__)
    return _mm512_scalef_ps(a, vf_sub(z, vf_set1(VF_WHOLE)));
#else /* in two steps: 2^n may be out of range */
    vi n = vi_shl(vf_bits(z), 23), half = vi_shl(vi_shr(vf_bits(z), 1), 23), one = vi_set1(127 << 23);
    a = vf_mul(a, vi_as_float(vi_add(half, one)));
    return vf_mul(a, vi_as_float(vi_add(vi_sub(n, half), one)));
#endif
}

NP_INLINE void vf_store_bf16(uint16_t *p, vf a) /* nearest even; NaN stays NaN */
{
    vi u = vf_bits(a);
    vi r = vi_shr(vi_add(vi_add(u, vi_set1(0x7fff)), vi_and(vi_shr(u, 16), vi_set1(1))), 16);
    vi q = vi_or(vi_shr(u, 16), vi_set1(0x40));
    vf_store_u32_low16(p, vf_bits(vf_select(vf_isnan(a), vi_as_float(q), vi_as_float(r))));
}

/* The sum and maximum of the lanes, as a tree fixed by lane index: halves are folded. */
NP_INLINE float vf_reduce_add(vf a)
{
#if defined(__AVX512F__)
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)));
#elif defined(__AVX2__)
    __m256 h = a;
#endif
#if defined(__AVX2__)
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
#else
    return (a[0] + a[2]) + (a[1] + a[3]);
#endif
}

NP_INLINE float vf_reduce_max(vf a)
{
    float t[VF_N];
    vf_store(t, a);
    for (int n = VF_N / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            t[i] = t[i] > t[i + n] ? t[i] : t[i + n];
    return t[0];
}

#endif
