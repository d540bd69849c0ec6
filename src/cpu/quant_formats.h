/* quant_formats.h - the quantised block types: one row a type, and scalar readers of a block.
 *
 * A block is 32 weights, or 256 as eight sub-blocks of 32. A weight is
 * scale * (code - offset) + min with an unsigned code; types have an offset or a minimum. A new type
 * with a known layout of codes and scales is one row here; the vector code reads the same rows. */
#ifndef NP_QUANT_FORMATS_H
#define NP_QUANT_FORMATS_H

#include "cpu/vec.h"
#include "neap/dtype.h"

typedef enum np_q_layout {
    NP_Q_SPLIT16, /* 16 bytes, low nibbles first; a fifth bit each in 4 bytes */
    NP_Q_BYTES,   /* 32 signed bytes; the code is the byte + 128 */
    NP_Q_NIBBLES, /* 32 bytes for two sub-blocks, low nibbles first; fifth: bit j of 32 bytes */
    NP_Q_SIX,     /* 64 bytes of nibbles for four sub-blocks; two bits each in 32 bytes */
    NP_Q_TWO      /* 32 bytes for four sub-blocks, two bits each; third: bit j of 32 bytes */
} np_q_layout;

typedef enum np_q_scaling {
    NP_Q_PLAIN, /* f16 d and, perhaps, f16 m */
    NP_Q_PAIRS, /* f16 d and dmin, eight pairs of 6-bit scale and minimum in 12 bytes */
    /* With a scale for every 16 weights: */
    NP_Q_HALVES,    /* f16 d, int8 scales */
    NP_Q_SIX_BITS,  /* f16 d, scales + 32 in 12 bytes: 16 low nibbles, then the high pairs of bits */
    NP_Q_HALF_PAIRS /* f16 d and dmin, bytes of 4-bit scale and minimum */
} np_q_scaling;

typedef struct np_qformat {
    int bytes, subs; /* of a block; sub-blocks of 32 weights in it */
    np_q_layout layout;
    np_q_scaling scaling;
    int bits, offset;
    int low_at, high_at;  /* where the low 4 (or 8) and the higher bits start; -1: none */
    int d_at, m_at, s_at; /* f16 scale, f16 minimum (right after it), integer scales; -1: none */
} np_qformat;

/* X(TYPE, bytes, subs, layout, scaling, bits, offset, low_at, high_at, d_at, m_at, s_at) */
#define NP_QUANT_FORMATS(X)                                                                        \
    X(Q4_0,  18, 1, SPLIT16, PLAIN,  4,   8,  2,  -1,   0, -1,  -1)                                \
    X(Q4_1,  20, 1, SPLIT16, PLAIN,  4,   0,  4,  -1,   0,  2,  -1)                                \
    X(Q5_0,  22, 1, SPLIT16, PLAIN,  5,  16,  6,   2,   0, -1,  -1)                                \
    X(Q5_1,  24, 1, SPLIT16, PLAIN,  5,   0,  8,   4,   0,  2,  -1)                                \
    X(Q8_0,  34, 1, BYTES,   PLAIN,  8, 128,  2,  -1,   0, -1,  -1)                                \
    X(Q4_K, 144, 8, NIBBLES, PAIRS,  4,   0, 16,  -1,   0,  2,   4)                                \
    X(Q5_K, 176, 8, NIBBLES, PAIRS,  5,   0, 48,  16,   0,  2,   4)                                \
    X(Q6_K, 210, 8, SIX,     HALVES, 6,  32,  0, 128, 208, -1, 192)                                \
    X(Q2_K,  84, 8, TWO, HALF_PAIRS, 2,   0, 16,  -1,  80, 82,   0)                                \
    X(Q3_K, 110, 8, TWO,   SIX_BITS, 3,   4, 32,   0, 108, -1,  96)

static const np_qformat np_qformats[NEAP_DTYPE_SPAN] = {
#define X(type, bytes, subs, layout, scaling, ...)                                                 \
    [NEAP_##type] = {bytes, subs, NP_Q_##layout, NP_Q_##scaling, __VA_ARGS__},
    NP_QUANT_FORMATS(X)
#undef X
};

/* Has it integer scales for the two halves of a sub-block? */
NP_INLINE bool np_q_halves(const np_qformat *f) { return f->scaling >= NP_Q_HALVES; }

NP_INLINE uint32_t np_q_u32(const uint8_t *p) { uint32_t u; memcpy(&u, p, sizeof u); return u; }
NP_INLINE uint16_t np_q_u16(const uint8_t *p) { uint16_t u; memcpy(&u, p, sizeof u); return u; }
NP_INLINE float np_q_f16(const uint8_t *p) { return np_f16_load(np_q_u16(p)); }

/* The 32 codes of sub-block j. */
NP_INLINE void np_q_codes(const np_qformat *f, const uint8_t *block, int j, uint8_t *out)
{
    const uint8_t *low = block + f->low_at, *high = block + (f->high_at < 0 ? 0 : f->high_at);
    switch (f->layout) {
    case NP_Q_SPLIT16: {
        for (int i = 0; i < 16; i++)
            out[i] = low[i] & 15, out[i + 16] = low[i] >> 4;
        uint32_t fifth = f->high_at < 0 ? 0 : np_q_u32(high);
        for (int i = 0; i < 32 && fifth; i++)
            out[i] |= (uint8_t)((fifth >> i & 1) << 4);
        break;
    }
    case NP_Q_BYTES:
        for (int i = 0; i < 32; i++)
            out[i] = low[i] ^ 0x80;
        break;
    case NP_Q_NIBBLES: {
        const int shift = 4 * (j & 1);
        low += 32 * (j / 2);
        for (int i = 0; i < 32; i++)
            out[i] = low[i] >> shift & 15;
        for (int i = 0; i < 32 && f->high_at >= 0; i++)
            out[i] |= (uint8_t)((high[i] >> j & 1) << 4);
        break;
    }
    case NP_Q_SIX: {
        const int shift = 4 * (j / 2 & 1), high_shift = 2 * (j & 3);
        low += 64 * (j / 4) + 32 * (j & 1);
        high += 32 * (j / 4);
        for (int i = 0; i < 32; i++)
            out[i] = (uint8_t)((low[i] >> shift & 15) | (high[i] >> high_shift & 3) << 4);
        break;
    }
    default: /* NP_Q_TWO */
        low += 32 * (j / 4);
        for (int i = 0; i < 32; i++)
            out[i] = low[i] >> 2 * (j & 3) & 3;
        for (int i = 0; i < 32 && f->high_at >= 0; i++)
            out[i] |= (uint8_t)((high[i] >> j & 1) << 2);
        break;
    }
}

typedef struct np_qscale {
    float scale, min;  /* min is added; 0 where the type has none */
    int half[2];       /* integer scales of the two halves; 1 where the type has none */
    float half_min[2]; /* instead of min where each half has its own */
} np_qscale;

NP_INLINE np_qscale np_q_scale(const np_qformat *f, const uint8_t *block, int j)
{
    np_qscale r = {np_q_f16(block + f->d_at), 0.0f, {1, 1}, {0.0f, 0.0f}};
    const uint8_t *s = block + (f->s_at < 0 ? 0 : f->s_at);
    if (f->scaling == NP_Q_PLAIN && f->m_at >= 0)
        r.min = np_q_f16(block + f->m_at);
    if (f->scaling == NP_Q_HALVES)
        for (int h = 0; h < 2; h++)
            r.half[h] = (int8_t)s[2 * j + h];
    if (f->scaling == NP_Q_SIX_BITS)
        for (int h = 0; h < 2; h++) {
            const int i = 2 * j + h;
            r.half[h] = ((s[i & 7] >> 4 * (i / 8) & 15) | (s[8 + (i & 3)] >> 2 * (i / 4) & 3) << 4) - 32;
        }
    if (f->scaling == NP_Q_HALF_PAIRS)
        for (int h = 0; h < 2; h++) {
            r.half[h] = s[2 * j + h] & 15;
            r.half_min[h] = -(np_q_f16(block + f->m_at) * (float)(s[2 * j + h] >> 4));
        }
    if (f->scaling == NP_Q_PAIRS) {
        int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        int min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
        r.scale *= (float)scale;
        r.min = -(np_q_f16(block + f->m_at) * (float)min);
    }
    return r;
}

/* d * sum(q) of half a sub-block of activations, from the -128 * sum(q) that they carry. */
NP_INLINE float np_q_half_sum(float d, int32_t c) { return d * ((float)c * -0x1p-7f); }

/* 32 codes to f32, with the roundings of the format's definition. */
NP_INLINE void np_q_dequant(const np_qformat *f, np_qscale s, const uint8_t *codes, float *out)
{
    for (int i = 0; i < 32; i++) {
        float scale = np_q_halves(f) ? s.scale * (float)s.half[i >> 4] : s.scale;
        float v = scale * (float)(codes[i] - f->offset);
        out[i] = f->m_at < 0 ? v : v + (np_q_halves(f) ? s.half_min[i >> 4] : s.min);
    }
}

#endif
