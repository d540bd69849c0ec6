/* vec_trig.h - circular and hyperbolic functions and their inverses over vf, and the two-operand
 * functions that need more than arithmetic: arctan2, logaddexp, remainder.
 *
 * As vec_math.h: within 2 to 4 ulp over the whole range, NumPy's values at the infinities, at -0
 * and outside the domain (NaN). sin, cos and tan keep that for every finite angle. */
#ifndef NP_VEC_TRIG_H
#define NP_VEC_TRIG_H

#include "cpu/vec_math.h"

/* ---- sin, cos, tan --------------------------------------------------------------------- */

/* np_reduce_angle for finite |x| >= 2^24. Of 2/pi's bits, those that make multiples of 4 turns of
 * pi/2 are left out and the next 96 kept: the product then fits 64 bits, of which the first two are
 * the quarter and 62 the fraction. */
NP_INLINE float np_reduce_far_angle(float x, float *quarters)
{
    static const uint32_t two_over_pi[] = {0,           0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                           0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
    uint32_t bits = np_to_bits(x), exponent = (bits >> 23 & 255) - 120; /* 31 .. 134 */
    uint64_t m = (bits & 0x7fffff) | 0x800000;
    const uint32_t *w = two_over_pi + exponent / 32;
    int shift = (int)(exponent % 32);
    uint32_t window[3];
    for (int i = 0; i < 3; i++)
        window[i] = (uint32_t)(((uint64_t)w[i] << 32 | w[i + 1]) >> (32 - shift));
    uint64_t r = (m * window[0] << 32) + m * window[1] + (m * window[2] >> 32);
    uint64_t quarter = (r + (1ull << 61)) >> 62;
    double angle = (double)(int64_t)(r - (quarter << 62)) * 0x1.921fb54442d18p-62;
    *quarters = x < 0 ? -(float)quarter : (float)quarter;
    return (float)(x < 0 ? -angle : angle);
}

/* sin and cos of x: -0 stays, NaN at the infinities. */
NP_INLINE void np_vf_sincos_any(vf x, vf *sine, vf *cosine)
{
    float at[VF_N], reduced[VF_N], quarters[VF_N];
    vf_store(at, x);
    for (int i = 0; i < VF_N; i++)
        reduced[i] = np_reduce_angle((double)at[i], &quarters[i]);
    vm far = vf_le(vf_set1(0x1p24f), vf_abs(x));
    for (int i = 0; vm_any(far) && i < VF_N; i++)
        if (fabsf(at[i]) >= 0x1p24f && fabsf(at[i]) < INFINITY)
            reduced[i] = np_reduce_far_angle(at[i], &quarters[i]);
    np_vf_sincos_of(vf_load(reduced), vf_load(quarters), sine, cosine);
    *sine = vf_select(vf_eq(x, vf_zero()), x, *sine);
}

NP_INLINE vf np_vf_sin(vf x)
{
    vf s, c;
    np_vf_sincos_any(x, &s, &c);
    return s;
}

NP_INLINE vf np_vf_cos(vf x)
{
    vf s, c;
    np_vf_sincos_any(x, &s, &c);
    return c;
}

NP_INLINE vf np_vf_tan(vf x)
{
    vf s, c;
    np_vf_sincos_any(x, &s, &c);
    return vf_div(s, c);
}

/* ---- their inverses -------------------------------------------------------------------- */

#define NP_HALF_PI 0x1.921fb6p+0f
#define NP_HALF_PI_LOW -0x1.777a5cp-25f

/* scale pi/2 - r, pi/2 to twice the digits of a float. */
NP_INLINE vf np_vf_from_half_pi(float scale, vf r)
{
    return vf_sub(vf_set1(scale * NP_HALF_PI), vf_sub(r, vf_set1(scale * NP_HALF_PI_LOW)));
}

/* x + x z P(z): an odd function near 0, z = x x. */
NP_INLINE vf np_vf_odd(vf x, vf z, const float *c, int n)
{
    return vf_fma(vf_mul(x, z), np_vf_poly(z, c, n), x);
}

/* arcsin |x| where |x| <= 1/2; beyond it, with *far set, half of arccos |x| by
 * arccos a = 2 arcsin sqrt((1 - a) / 2). */
NP_INLINE vf np_vf_arcsin_part(vf magnitude, vm *far)
{
    static const float c[] = {0x1.55554cp-3f, 0x1.3338acp-4f, 0x1.6ca744p-5f, /* 3e-10 */
                              0x1.04d452p-5f, 0x1.d4fb38p-7f, 0x1.34db12p-5f};
    vf half = vf_set1(0.5f);
    *far = vf_lt(half, magnitude);
    vf z = vf_select(*far, vf_mul(vf_sub(vf_set1(1.0f), magnitude), half),
                     vf_mul(magnitude, magnitude));
    return np_vf_odd(vf_select(*far, vf_sqrt(z), magnitude), z, c, 6);
}

NP_INLINE vf np_vf_arcsin(vf x)
{
    vm far;
    vf r = np_vf_arcsin_part(vf_abs(x), &far);
    return np_vf_with_sign(vf_select(far, np_vf_from_half_pi(1.0f, vf_add(r, r)), r), x);
}

NP_INLINE vf np_vf_arccos(vf x)
{
    vm far;
    vf r = np_vf_arcsin_part(vf_abs(x), &far), twice = vf_add(r, r);
    vf left = np_vf_from_half_pi(2.0f, twice);
    vf near = np_vf_from_half_pi(1.0f, np_vf_with_sign(r, x));
    return vf_select(far, vf_select(vf_lt(x, vf_zero()), left, twice), near);
}

/* 0 <= t <= 1. */
NP_INLINE vf np_vf_arctan_part(vf t)
{
    static const float c[] = {-0x1.555552p-2f, 0x1.99981cp-3f, -0x1.247620p-3f, /* 5e-10 */
                              0x1.c51170p-4f, -0x1.6953bcp-4f, 0x1.150a00p-4f, -0x1.7080bap-5f,
                              0x1.753040p-6f, -0x1.e6a0ecp-8f, 0x1.29687ep-10f};
    return np_vf_odd(t, vf_mul(t, t), c, 10);
}

NP_INLINE vf np_vf_arctan(vf x)
{
    vf one = vf_set1(1.0f), magnitude = vf_abs(x);
    vf r = np_vf_arctan_part(vf_div(vf_min(one, magnitude), vf_max(one, magnitude)));
    r = vf_select(vf_lt(one, magnitude), np_vf_from_half_pi(1.0f, r), r);
    return np_vf_with_sign(r, x);
}

/* The angle of (x, y): of |y| and |x| the smaller over the larger, then the right octant. */
NP_INLINE vf np_vf_arctan2(vf y, vf x)
{
    vf one = vf_set1(1.0f), ay = vf_abs(y), ax = vf_abs(x), larger = vf_max(ay, ax);
    vf t = vf_div(vf_min(ay, ax), larger);
    t = vf_select(vf_eq(ay, ax), one, t); /* two infinities */
    t = vf_select(vf_eq(larger, vf_zero()), vf_zero(), t);
    vf r = np_vf_arctan_part(t);
    r = vf_select(vf_lt(ax, ay), np_vf_from_half_pi(1.0f, r), r);
    vm left = vf_lt(np_vf_with_sign(one, x), vf_zero()); /* -0 too */
    r = np_vf_with_sign(vf_select(left, np_vf_from_half_pi(2.0f, r), r), y);
    r = vf_select(vf_isnan(x), x, r);
    return vf_select(vf_isnan(y), y, r);
}

/* ---- hyperbolic ------------------------------------------------------------------------ */

NP_INLINE vf np_vf_sinh(vf x)
{
    static const float c[] = {0x1.555556p-3f, 0x1.1110e0p-7f, 0x1.a022bcp-13f, /* 3e-10 */
                              0x1.756c1ep-19f};
    vf magnitude = vf_abs(x), h = np_vf_half_exp(magnitude);
    vf far = np_vf_with_sign(vf_sub(h, vf_div(vf_set1(0.25f), h)), x);
    return vf_select(vf_lt(magnitude, vf_set1(1.0f)), np_vf_odd(x, vf_mul(x, x), c, 4), far);
}

NP_INLINE vf np_vf_cosh(vf x)
{
    vf h = np_vf_half_exp(vf_abs(x));
    return vf_add(h, vf_div(vf_set1(0.25f), h));
}

/* log(a + sqrt(a a + 1)); where a a would overflow, log(2 a). */
NP_INLINE vf np_vf_arcsinh(vf x)
{
    static const float c[] = {-0x1.555554p-3f, 0x1.33323ap-4f, -0x1.6d7ebcp-5f, /* 6e-11 */
                              0x1.ec11ecp-6f, -0x1.487e10p-6f, 0x1.2f5250p-7f};
    vf one = vf_set1(1.0f), a = vf_abs(x), square = vf_mul(a, a);
    vm huge = vf_lt(vf_set1(0x1p30f), a);
    vf t = vf_add(a, vf_div(square, vf_add(one, vf_sqrt(vf_add(one, square)))));
    vf r = np_vf_log1p(vf_select(huge, a, t));
    r = vf_add(r, vf_select(huge, vf_set1(0x1.62e430p-1f), vf_zero()));
    return np_vf_with_sign(vf_select(vf_lt(a, vf_set1(0.5f)), np_vf_odd(a, square, c, 6), r), x);
}

/* log(x + sqrt(x x - 1)), by t = x - 1, which is exact where it counts. */
NP_INLINE vf np_vf_arccosh(vf x)
{
    vf one = vf_set1(1.0f), t = vf_sub(x, one);
    vm huge = vf_lt(vf_set1(0x1p30f), x);
    vf u = vf_add(t, vf_sqrt(vf_fma(t, t, vf_add(t, t))));
    vf r = np_vf_log1p(vf_select(huge, x, u));
    r = vf_add(r, vf_select(huge, vf_set1(0x1.62e430p-1f), vf_zero()));
    return vf_select(vf_lt(x, one), vf_set1(NAN), r);
}

/* log((1 + a) / (1 - a)) / 2; 1 - a is exact from 1/2 on. */
NP_INLINE vf np_vf_arctanh(vf x)
{
    static const float c[] = {0x1.555540p-2f, 0x1.99a676p-3f, 0x1.234d9ap-3f, /* 1e-9 */
                              0x1.e3ffcap-4f, 0x1.a6be30p-5f, 0x1.693922p-3f};
    vf a = vf_abs(x), ratio = vf_div(vf_add(a, a), vf_sub(vf_set1(1.0f), a));
    vf r = np_vf_with_sign(vf_mul(vf_set1(0.5f), np_vf_log1p(ratio)), x);
    return vf_select(vf_lt(a, vf_set1(0.5f)), np_vf_odd(x, vf_mul(x, x), c, 6), r);
}

/* ---- two operands ---------------------------------------------------------------------- */

/* log(e^a + e^b); equal infinities have no difference. */
NP_INLINE vf np_vf_logaddexp(vf a, vf b)
{
    vf larger = vf_select(vf_isnan(a), a, vf_max(a, b));
    vf r = np_vf_log1p(np_vf_exp(np_vf_neg(vf_abs(vf_sub(a, b)))));
    return vf_add(larger, vf_select(vf_eq(a, b), vf_set1(0x1.62e430p-1f), r));
}

/* a mod b with the sign of b, as NumPy's: what fmod leaves, exactly, and b more where the signs
 * differ. In double the whole quotient and a - q b are exact below 2^29; libm does the rest. */
NP_INLINE vf np_vf_remainder(vf a, vf b)
{
    float u[VF_N], v[VF_N], r[VF_N];
    vf_store(u, a);
    vf_store(v, b);
    for (int i = 0; i < VF_N; i++) {
        double x = (double)u[i], y = (double)v[i], q = x / y;
        q = q > -0x1p29 && q < 0x1p29 ? q : 0.0;
        r[i] = (float)(x - (double)(int32_t)q * y);
    }
    vm near = vf_lt(vf_abs(a), vf_mul(vf_abs(b), vf_set1(0x1p29f)));
    vf mod = vf_select(near, vf_load(r), vf_set1(NAN));
    mod = vf_select(vf_lt(vf_abs(b), vf_set1(INFINITY)), mod, vf_set1(NAN));
    if (vm_any(vf_isnan(mod))) {
        vf_store(r, mod);
        for (int i = 0; i < VF_N; i++)
            r[i] = r[i] == r[i] ? r[i] : fmodf(u[i], v[i]);
        mod = vf_load(r);
    }
    vm zero = vf_eq(mod, vf_zero());
    vf opposite = vi_as_float(vi_xor(vf_bits(mod), vf_bits(b))); /* its sign */
    vm differ = vf_lt(np_vf_with_sign(vf_set1(1.0f), opposite), vf_zero());
    mod = vf_select(differ, vf_add(mod, b), mod);
    return vf_select(zero, np_vf_with_sign(vf_zero(), b), mod);
}

#endif
