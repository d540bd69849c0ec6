/* vec_math.h - exp, log and their kin, tanh, erf, sigmoid, gelu, pow, sin and cos over vf; what is
 * made of these is in vec_trig.h.
 *
 * Written for accuracy of 1 to 3 ulp in f32 over the whole range, with the limits of libm at the
 * infinities, NaN kept and denormal results right. Polynomials are minimax fits (the largest error
 * of each is beside it, relative to the function). Each lane depends on its own value only.
 * Where the base set has no fma, its two roundings are covered by the tests' tolerances. */
#ifndef NP_VEC_MATH_H
#define NP_VEC_MATH_H

#include "cpu/vec.h"

/* c0 + x (c1 + x (c2 + ...)), from the highest coefficient. */
NP_INLINE vf np_vf_poly(vf x, const float *c, int n)
{
    vf r = vf_set1(c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        r = vf_fma(r, x, vf_set1(c[i]));
    return r;
}

NP_INLINE vf np_vf_neg(vf x) { return vi_as_float(vi_xor(vf_bits(x), vi_set1(INT32_MIN))); }

/* |magnitude| with the sign of `sign`; magnitude must not be negative. */
NP_INLINE vf np_vf_with_sign(vf magnitude, vf sign)
{
    return vi_as_float(vi_or(vf_bits(magnitude), vi_and(vf_bits(sign), vi_set1(INT32_MIN))));
}

/* x = n ln 2 + r, z = n + VF_WHOLE; e^r - 1 = r + tail. */
typedef struct np_exp_parts {
    vf z, r, tail;
} np_exp_parts;

NP_INLINE np_exp_parts np_vf_exp_parts(vf x)
{
    static const float c[] = {0x1.0p-1f, 0x1.555554p-3f, 0x1.55548ep-5f, /* 5e-11 */
                              0x1.111272p-7f, 0x1.6d8db2p-10f, 0x1.9f0810p-13f};
    vf z = vf_fma(x, vf_set1(0x1.715476p+0f), vf_set1(VF_WHOLE));
    vf n = vf_sub(z, vf_set1(VF_WHOLE)); /* x / ln 2, to the nearest whole number */
    vf r = vf_fnma(n, vf_set1(0.693359375f), x); /* exact: 10 bits times 8 */
    r = vf_fnma(n, vf_set1(-2.12194440e-4f), r);
    return (np_exp_parts){z, r, vf_mul(vf_mul(r, r), np_vf_poly(r, c, 6))};
}

/* Past the clamps the result is exactly 0 or inf; the constant comes first so that NaN stays. */
NP_INLINE vf np_vf_exp(vf x)
{
    /* Lanes of 0 skip the scaling: a result that underflows takes a hundred times as long. */
    vm none = vf_lt(x, vf_set1(-104.0f));
    np_exp_parts p = np_vf_exp_parts(vf_select(none, vf_zero(), vf_min(vf_set1(90.0f), x)));
    vf e = vf_ldexp(vf_add(vf_add(p.tail, p.r), vf_set1(1.0f)), p.z);
    return vf_select(none, vf_zero(), e);
}

/* e^x / 2 for x >= 0, which is finite where e^x is not yet. */
NP_INLINE vf np_vf_half_exp(vf x)
{
    np_exp_parts p = np_vf_exp_parts(vf_min(vf_set1(90.0f), x));
    vf below = vf_sub(p.z, vf_set1(1.0f));
    return vf_ldexp(vf_add(vf_add(p.tail, p.r), vf_set1(1.0f)), below);
}

/* 2^n ((e^r - 1) + (1 - 2^-n)): near 0 n is 0 and nothing cancels. */
NP_INLINE vf np_vf_expm1(vf x)
{
    vf one = vf_set1(1.0f);
    np_exp_parts p = np_vf_exp_parts(vf_max(vf_set1(-20.0f), vf_min(vf_set1(90.0f), x)));
    vf inverse = vf_ldexp(one, vf_sub(vf_set1(2.0f * VF_WHOLE), p.z));
    vf r = vf_ldexp(vf_add(vf_add(p.tail, p.r), vf_sub(one, inverse)), p.z);
    return vf_select(vf_eq(x, vf_zero()), x, r); /* -0 */
}

/* x = 2^n (1 + f), 1 + f in sqrt(1/2) .. sqrt(2); log(1 + f) = f - square / 2 + cubic. */
typedef struct np_log_parts {
    vf n, f, square, cubic;
} np_log_parts;

NP_INLINE np_log_parts np_vf_log_parts(vf x)
{
    static const float c[] = {0x1.555548p-2f, -0x1.000006p-2f, 0x1.99a4b6p-3f, /* 7e-10 */
                              -0x1.555c4ep-3f, 0x1.233768p-3f, -0x1.fc2206p-4f,
                              0x1.e6f072p-4f, -0x1.de3c24p-4f, 0x1.1457aap-4f};
    vm small = vf_lt(x, vf_set1(0x1p-126f)); /* denormals are lifted first */
    vf lifted = vf_select(small, vf_mul(x, vf_set1(0x1p23f)), x);
    vi offset = vi_add(vi_sub(vf_bits(lifted), vi_set1(0x3f3504f3)), vi_set1(0x40000000));
    vi exponent = vi_sub(vi_shr(offset, 23), vi_set1(128));
    vf n = vf_sub(vi_to_float(exponent), vf_select(small, vf_set1(23.0f), vf_zero()));
    vf m = vi_as_float(vi_sub(vf_bits(lifted), vi_shl(exponent, 23)));
    vf f = vf_sub(m, vf_set1(1.0f)), square = vf_mul(f, f);
    return (np_log_parts){n, f, square, vf_mul(vf_mul(square, f), np_vf_poly(f, c, 9))};
}

/* r, where a logarithm of x is finite: -inf at 0, NaN below, inf at inf. */
NP_INLINE vf np_vf_log_limits(vf x, vf r)
{
    r = vf_select(vf_eq(x, vf_set1(INFINITY)), x, r);
    r = vf_select(vf_eq(x, vf_zero()), vf_set1(-INFINITY), r);
    r = vf_select(vf_lt(x, vf_zero()), vf_set1(NAN), r);
    return vf_select(vf_isnan(x), x, r);
}

NP_INLINE vf np_vf_log(vf x)
{
    np_log_parts p = np_vf_log_parts(x);
    vf tail = vf_fma(p.n, vf_set1(-2.12194440e-4f), p.cubic);
    tail = vf_fnma(vf_set1(0.5f), p.square, tail);
    return np_vf_log_limits(x, vf_fma(p.n, vf_set1(0.693359375f), vf_add(p.f, tail)));
}

/* n stands apart, so that powers of two are exact. */
NP_INLINE vf np_vf_log2(vf x)
{
    vf scale = vf_set1(0x1.715476p+0f);
    np_log_parts p = np_vf_log_parts(x);
    vf tail = vf_fnma(vf_set1(0.5f), p.square, p.cubic);
    return np_vf_log_limits(x, vf_fma(p.f, scale, vf_fma(tail, scale, p.n)));
}

NP_INLINE vf np_vf_log10(vf x)
{
    vf scale = vf_set1(0x1.bcb7b2p-2f);
    np_log_parts p = np_vf_log_parts(x);
    vf tail = vf_fnma(vf_set1(0.5f), p.square, p.cubic);
    tail = vf_fma(tail, scale, vf_mul(p.n, vf_set1(0x1.3509f8p-18f))); /* log10(2), its low bits */
    return np_vf_log_limits(x, vf_fma(p.n, vf_set1(0x1.344p-2f), vf_fma(p.f, scale, tail)));
}

/* log(u), u = 1 + x rounded, and what the rounding took, over u. */
NP_INLINE vf np_vf_log1p(vf x)
{
    vf one = vf_set1(1.0f), u = vf_add(one, x);
    vf lost = vf_sub(x, vf_sub(u, one));
    vf r = vf_add(np_vf_log(u), vf_div(lost, u));
    r = vf_select(vf_lt(vf_abs(x), vf_set1(0x1p-25f)), x, r); /* -0 */
    vm whole = vf_le(vf_zero(), vf_mul(u, vf_zero())); /* neither inf nor NaN */
    r = vf_select(whole, r, u);
    return vf_select(vf_le(u, vf_zero()), np_vf_log_limits(u, u), r);
}

/* e^-|x| never overflows, so tiny results stay right. */
NP_INLINE vf np_vf_sigmoid(vf x)
{
    vf one = vf_set1(1.0f), e = np_vf_exp(np_vf_neg(vf_abs(x)));
    return vf_div(vf_select(vf_lt(x, vf_zero()), e, one), vf_add(one, e));
}

/* x sigmoid(u) for u of the sign of x; its limit -0 at -inf. */
NP_INLINE vf np_vf_times_sigmoid(vf x, vf u)
{
    vf e = np_vf_exp(np_vf_neg(vf_abs(u)));
    vf top = vf_select(vf_lt(u, vf_zero()), vf_mul(vf_max(vf_set1(-200.0f), x), e), x);
    return vf_div(top, vf_add(vf_set1(1.0f), e));
}

NP_INLINE vf np_vf_silu(vf x) { return np_vf_times_sigmoid(x, x); }

NP_INLINE vf np_vf_tanh(vf x)
{
    static const float c[] = {-0x1.555554p-2f, 0x1.111066p-3f, -0x1.b9ee90p-5f, /* 2e-10 */
                              0x1.638b58p-6f, -0x1.0bf4fap-7f, 0x1.18e1d6p-9f};
    vf one = vf_set1(1.0f), magnitude = vf_abs(x), square = vf_mul(x, x);
    vf near = vf_fma(vf_mul(magnitude, square), np_vf_poly(square, c, 6), magnitude);
    vf e = np_vf_exp(vf_add(magnitude, magnitude));
    vf far = vf_sub(one, vf_div(vf_set1(2.0f), vf_add(e, one)));
    return np_vf_with_sign(vf_select(vf_lt(magnitude, vf_set1(0.625f)), near, far), x);
}

/* erfc(z) e^(z z) for z >= 0, as t times a polynomial in t = 1 / (1 + 0.4 z). */
NP_INLINE vf np_vf_erfc_scaled(vf z)
{
    static const float c[] = {0x1.ce343ep-3f, 0x1.cdb4d6p-3f, 0x1.ae2164p-3f, /* 2e-9 */
                              0x1.42b612p-3f, 0x1.5f185cp-3f, -0x1.6808dep-5f, 0x1.4b1540p-3f,
                              -0x1.66b522p-4f, -0x1.4ca8fep-4f, 0x1.464850p-4f, -0x1.33082ep-6f};
    vf t = vf_div(vf_set1(1.0f), vf_fma(vf_set1(0.4f), z, vf_set1(1.0f)));
    return vf_mul(t, np_vf_poly(t, c, 11));
}

NP_INLINE vf np_vf_erf(vf x)
{
    static const float c[] = {0x1.20dd74p+0f, -0x1.81273ep-2f, 0x1.ce2d20p-4f, /* 1e-9 */
                              -0x1.b7fbb4p-6f, 0x1.5419f6p-8f, -0x1.a485ecp-11f, 0x1.4ae4d0p-14f};
    vf z = vf_abs(x), square = vf_mul(x, x);
    vf near = vf_mul(x, np_vf_poly(square, c, 7));
    vf far = vf_mul(np_vf_exp(np_vf_neg(square)), np_vf_erfc_scaled(z));
    far = np_vf_with_sign(vf_sub(vf_set1(1.0f), far), x);
    far = vf_select(vf_isnan(x), x, far); /* of two NaN factors either may come out: keep x itself */
    return vf_select(vf_lt(z, vf_set1(1.0f)), near, far);
}

/* x Phi(x), exact form: the lower tail of the normal distribution is computed as such, so large
 * negative x keep their relative accuracy. Its limit -0 at -inf. The tail is scaled by 2^64 until the
 * end, as operations on subnormal numbers take a hundred times as long; past 12 it is lost in x. */
NP_INLINE vf np_vf_gelu(vf x)
{
    vf near = vf_max(vf_set1(-16.0f), vf_min(vf_set1(12.0f), x));
    vf half = vf_set1(0.5f), square = vf_mul(near, near);
    vf lost = vf_fma(near, near, np_vf_neg(square)); /* what rounding took from the square */
    np_exp_parts p = np_vf_exp_parts(vf_max(vf_set1(-105.0f), vf_mul(np_vf_neg(square), half)));
    vf e = vf_ldexp(vf_add(vf_add(p.tail, p.r), vf_set1(1.0f)), vf_add(p.z, vf_set1(64.0f)));
    e = vf_fnma(vf_mul(e, half), lost, e);
    vf scaled = np_vf_erfc_scaled(vf_mul(vf_abs(near), vf_set1(0x1.6a09e6p-1f)));
    vf lower = vf_mul(vf_mul(vf_mul(near, half), vf_mul(e, scaled)), vf_set1(0x1p-64f));
    return vf_select(vf_lt(vf_zero(), x), vf_sub(x, lower), lower);
}

/* x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
NP_INLINE vf np_vf_gelu_tanh(vf x)
{
    vf cubic = vf_fma(vf_mul(vf_set1(0.044715f), vf_mul(x, x)), x, x);
    return np_vf_times_sigmoid(x, vf_mul(vf_set1(0x1.988454p+0f), cubic));
}

/* Lane by lane: libm's has the extended precision and the many special cases. */
NP_INLINE vf np_vf_pow(vf x, vf y)
{
    float a[VF_N], b[VF_N];
    vf_store(a, x);
    vf_store(b, y);
    for (int i = 0; i < VF_N; i++)
        a[i] = powf(a[i], b[i]);
    return vf_load(a);
}

/* sin and cos of x + quarters pi/2, |x| <= pi/4. */
NP_INLINE void np_vf_sincos_of(vf x, vf quarters, vf *sine, vf *cosine)
{
    static const float s[] = {-0x1.555556p-3f, 0x1.111108p-7f, -0x1.a00f94p-13f, /* 5e-12 */
                              0x1.6cd5ecp-19f};
    static const float c[] = {0x1.555556p-5f, -0x1.6c16b8p-10f, 0x1.a01118p-16f, /* 1e-13 */
                              -0x1.242908p-22f};
    vf z = vf_mul(x, x);
    vi q = vf_to_int(quarters);
    vf sin_x = vf_fma(vf_mul(x, z), np_vf_poly(z, s, 4), x);
    vf cos_x = vf_sub(vf_set1(1.0f), vf_mul(vf_set1(0.5f), z));
    cos_x = vf_fma(vf_mul(z, z), np_vf_poly(z, c, 4), cos_x);
    vm odd = vf_eq(vi_to_float(vi_and(q, vi_set1(1))), vf_set1(1.0f));
    vi sin_sign = vi_shl(vi_and(q, vi_set1(2)), 30);
    vi cos_sign = vi_shl(vi_and(vi_add(q, vi_set1(1)), vi_set1(2)), 30);
    *sine = vi_as_float(vi_xor(vf_bits(vf_select(odd, cos_x, sin_x)), sin_sign));
    *cosine = vi_as_float(vi_xor(vf_bits(vf_select(odd, sin_x, cos_x)), cos_sign));
}

/* x = reduced + n pi/2 in double; *quarters is n mod 4, -2 .. 2. */
NP_INLINE float np_reduce_angle(double x, float *quarters)
{
    double n = x * 0x1.45f306dc9c883p-1 + 0x1.8p52; /* rounds to a whole number */
    n -= 0x1.8p52;
    *quarters = (float)(n - 4.0 * ((n * 0.25 + 0x1.8p52) - 0x1.8p52));
    return (float)((x - n * 0x1.921fb54p+0) - n * 0x1.10b4611a62633p-30);
}

/* sin and cos of VF_N angles, reduced in double: right to float rounding up to 2^24, and within
 * 1e-6 up to 2^31. */
NP_INLINE void np_vf_sincos(const double *angle, vf *sine, vf *cosine)
{
    float reduced[VF_N], quarters[VF_N];
    for (int i = 0; i < VF_N; i++)
        reduced[i] = np_reduce_angle(angle[i], &quarters[i]);
    np_vf_sincos_of(vf_load(reduced), vf_load(quarters), sine, cosine);
}

#endif
