/* vec_ops.h - what families of kernels share: each elementwise op over vf, names per dtype, and the
 * last few elements of a run. For files built per instruction set. */
#ifndef NP_VEC_OPS_H
#define NP_VEC_OPS_H

#include "cpu/vec_math.h"

/* No iteration reads what another wrote: the output either is an input, or apart from it. */
#if defined(__clang__)
#define NP_IVDEP /* its own pragma warns of each loop that stays as it is */
#else
#define NP_IVDEP _Pragma("GCC ivdep")
#endif

#define NP_JOIN_(a, b) a##_##b
#define NP_JOIN(a, b) NP_JOIN_(a, b)
#define NP_FN(name) NP_JOIN(name, NP_TAG) /* name of this dtype: NP_TAG is set around a body file */

/* ---- ops over vf ----------------------------------------------------------------------- */

NP_INLINE vf np_op_neg(vf u) { return np_vf_neg(u); }
NP_INLINE vf np_op_abs(vf u) { return vf_abs(u); }
NP_INLINE vf np_op_square(vf u) { return vf_mul(u, u); }
NP_INLINE vf np_op_exp(vf u) { return np_vf_exp(u); }
NP_INLINE vf np_op_log(vf u) { return np_vf_log(u); }
NP_INLINE vf np_op_sqrt(vf u) { return vf_sqrt(u); }
NP_INLINE vf np_op_rsqrt(vf u) { return vf_div(vf_set1(1.0f), vf_sqrt(u)); }
NP_INLINE vf np_op_tanh(vf u) { return np_vf_tanh(u); }
NP_INLINE vf np_op_erf(vf u) { return np_vf_erf(u); }
NP_INLINE vf np_op_sigmoid(vf u) { return np_vf_sigmoid(u); }
NP_INLINE vf np_op_silu(vf u) { return np_vf_silu(u); }
NP_INLINE vf np_op_gelu(vf u) { return np_vf_gelu(u); }
NP_INLINE vf np_op_gelu_tanh(vf u) { return np_vf_gelu_tanh(u); }
NP_INLINE vf np_op_relu(vf u) { return vf_max(vf_zero(), u); } /* NaN stays */
NP_INLINE vf np_op_floor(vf u) { return vf_floor(u); }
NP_INLINE vf np_op_ceil(vf u) { return np_vf_neg(vf_floor(np_vf_neg(u))); }
NP_INLINE vf np_op_round(vf u) { return vf_round(u); }
NP_INLINE vf np_op_trunc(vf u) { return np_vf_with_sign(vf_floor(vf_abs(u)), u); }
NP_INLINE vf np_op_sign(vf u) /* 0 of -0; NaN stays */
{
    vf one = vf_set1(1.0f), r = vf_select(vf_lt(u, vf_zero()), vf_set1(-1.0f), vf_add(u, vf_zero()));
    return vf_select(vf_lt(vf_zero(), u), one, r);
}
NP_INLINE vf np_op_reciprocal(vf u) { return vf_div(vf_set1(1.0f), u); }
NP_INLINE vf np_op_floor_divide(vf u, vf v) { return vf_floor(vf_div(u, v)); }
NP_INLINE vf np_op_sub(vf u, vf v) { return vf_sub(u, v); }
NP_INLINE vf np_op_div(vf u, vf v) { return vf_div(u, v); }
NP_INLINE vf np_op_pow(vf u, vf v) { return np_vf_pow(u, v); }
NP_INLINE vf np_op_maximum(vf u, vf v) { return vf_select(vf_isnan(u), u, vf_max(u, v)); }
NP_INLINE vf np_op_minimum(vf u, vf v) { return vf_select(vf_isnan(u), u, vf_min(u, v)); }
NP_INLINE vm np_op_equal(vf u, vf v) { return vf_eq(u, v); }
NP_INLINE vm np_op_not_equal(vf u, vf v) { return vm_not(vf_eq(u, v)); }
NP_INLINE vm np_op_less(vf u, vf v) { return vf_lt(u, v); }
NP_INLINE vm np_op_less_equal(vf u, vf v) { return vf_le(u, v); }
NP_INLINE vm np_op_greater(vf u, vf v) { return vf_lt(v, u); }
NP_INLINE vm np_op_greater_equal(vf u, vf v) { return vf_le(v, u); }

/* Of two NaNs the first one comes out: compilers swap the operands of + and * as they like, here one way
 * and there another, and an element's bits would depend on its place. */
#if defined(__AVX__)
#define NP_IN_ORDER(name, plain, instruction)                                                     \
    NP_INLINE vf name(vf u, vf v)                                                                 \
    {                                                                                             \
        vf r;                                                                                     \
        __asm__("v" instruction " %2, %1, %0" : "=v"(r) : "v"(u), "vm"(v));                       \
        return r;                                                                                 \
    }
#elif defined(__SSE2__)
#define NP_IN_ORDER(name, plain, instruction)                                                     \
    NP_INLINE vf name(vf u, vf v)                                                                 \
    {                                                                                             \
        __asm__(instruction " %1, %0" : "+x"(u) : "x"(v));                                        \
        return u;                                                                                 \
    }
#else
#define NP_IN_ORDER(name, plain, instruction)                                                     \
    NP_INLINE vf name(vf u, vf v)                                                                 \
    {                                                                                             \
        return plain(u, v);                                                                       \
    }
#endif
NP_IN_ORDER(np_op_add, vf_add, "addps")
NP_IN_ORDER(np_op_mul, vf_mul, "mulps")

/* ---- the ends of runs ------------------------------------------------------------------ */

#define NP_T float
#define NP_TAG f32
#define NP_LOAD vf_load
#define NP_STORE vf_store
#include "cpu/part_float.inc"
#define NP_T uint16_t
#define NP_TAG f16
#define NP_LOAD vf_load_f16
#define NP_STORE vf_store_f16
#include "cpu/part_float.inc"
#define NP_T uint16_t
#define NP_TAG bf16
#define NP_LOAD vf_load_bf16
#define NP_STORE vf_store_bf16
#include "cpu/part_float.inc"

#endif
