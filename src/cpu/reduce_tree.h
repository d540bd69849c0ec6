/* reduce_tree.h - the tree of float reductions, which whoever reduces walks: reductions along an axis,
 * norms, chains that close with one.
 *
 * It is fixed by the index along the axis: blocks of NP_SUM_BLOCK elements; inside a block element k
 * goes to lane k mod NP_SUM_LANES, the lanes are folded by halves in f32; blocks are joined in order
 * in double. For files built per instruction set. */
#ifndef NP_REDUCE_TREE_H
#define NP_REDUCE_TREE_H

#include "cpu/vec_ops.h"

enum { NP_SUM_LANES = 32, NP_SUM_VECTORS = NP_SUM_LANES / VF_N, NP_SUM_BLOCK = 2048 };

NP_INLINE vf np_fold_vectors(vf *lanes, vf (*join)(vf, vf))
{
    for (int half = NP_SUM_VECTORS / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            lanes[j] = join(lanes[j], lanes[j + half]);
    return lanes[0];
}

/* The first n lanes, `rest` after them. */
NP_INLINE vf np_vf_first(vf a, int64_t n, float rest)
{
    static const float index[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vf_select(vf_lt(vf_load(index), vf_set1((float)n)), a, vf_set1(rest));
}

/* Of two NaNs the first one comes out, as in np_op_add. */
NP_INLINE float np_join_add(float a, float b) { return a != a ? a : a + b; }
NP_INLINE float np_join_mul(float a, float b) { return a != a ? a : a * b; }
NP_INLINE float np_join_max(float a, float b) { return a != a ? a : a > b ? a : b; }
NP_INLINE float np_join_min(float a, float b) { return a != a ? a : a < b ? a : b; }
NP_INLINE double np_total_add(double total, float block)
{
    return total != total ? total : total + (double)block;
}
NP_INLINE double np_total_mul(double total, float block)
{
    return total != total ? total : total * (double)block;
}
NP_INLINE double np_total_max(double total, float block)
{
    return (double)np_join_max((float)total, block);
}
NP_INLINE double np_total_min(double total, float block)
{
    return (double)np_join_min((float)total, block);
}

/* What makes a reduction: its neutral value and how vectors, lanes and blocks are joined. Known wherever
 * it is used, so that the calls are inlined. */
typedef struct np_reduction {
    float start;
    vf (*join)(vf, vf);
    float (*join1)(float, float);
    double (*total)(double, float);
} np_reduction;

static const np_reduction np_reduction_sum = {0.0f, np_op_add, np_join_add, np_total_add};
static const np_reduction np_reduction_prod = {1.0f, np_op_mul, np_join_mul, np_total_mul};
static const np_reduction np_reduction_max = {-INFINITY, np_op_maximum, np_join_max, np_total_max};
static const np_reduction np_reduction_min = {INFINITY, np_op_minimum, np_join_min, np_total_min};

/* One number of a block's lanes: halves joined with halves. */
NP_INLINE float np_fold(vf *lanes, np_reduction r)
{
    vf a = np_fold_vectors(lanes, r.join);
#if defined(__AVX512F__)
    a = r.join(a, _mm512_shuffle_f32x4(a, a, 0x4e));
    a = r.join(a, _mm512_shuffle_f32x4(a, a, 0xb1));
    a = r.join(a, _mm512_permute_ps(a, 0x4e));
    return _mm512_cvtss_f32(r.join(a, _mm512_permute_ps(a, 0xb1)));
#elif defined(__AVX2__)
    a = r.join(a, _mm256_permute2f128_ps(a, a, 1));
    a = r.join(a, _mm256_permute_ps(a, 0x4e));
    return _mm256_cvtss_f32(r.join(a, _mm256_permute_ps(a, 0xb1)));
#else
    float t[VF_N];
    vf_store(t, a);
    for (int half = VF_N / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] = r.join1(t[i], t[i + half]);
    return t[0];
#endif
}

#endif
