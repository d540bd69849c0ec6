/* random.c - see random.h. */
#include "base/random.h"

static uint32_t rotate(uint32_t x, int r)
{
    return x << r | x >> (32 - r);
}

void np_threefry(np_random_key key, uint32_t c0, uint32_t c1, uint32_t out[2])
{
    static const uint8_t rotation[2][4] = {
        {13, 15, 26, 6 },
        {17, 29, 16, 24}
    };
    const uint32_t ks[3] = {key.k[0], key.k[1], 0x1BD11BDAu ^ key.k[0] ^ key.k[1]};
    uint32_t x0 = c0 + ks[0], x1 = c1 + ks[1];
    for (uint32_t i = 0; i < 5; i++) {
        for (int r = 0; r < 4; r++) {
            x0 += x1;
            x1 = rotate(x1, rotation[i & 1][r]) ^ x0;
        }
        x0 += ks[(i + 1) % 3];
        x1 += ks[(i + 2) % 3] + i + 1;
    }
    out[0] = x0;
    out[1] = x1;
}

uint32_t np_random_word(np_random_key key, uint64_t i, uint64_t n)
{
    uint64_t half = n / 2, odd = n % 2;
    uint32_t out[2];
    if (odd && i == half) { /* the middle word of an odd stream stands alone */
        np_threefry(key, (uint32_t)half, 0, out);
        return out[0];
    }
    if (i < half) {
        np_threefry(key, (uint32_t)i, (uint32_t)(i + half + odd), out);
        return out[0];
    }
    uint64_t j = i - half - odd;
    np_threefry(key, (uint32_t)j, (uint32_t)(j + half + odd), out);
    return out[1];
}

float np_random_uniform(uint32_t word)
{
    const float below_one = 0x1.fffffep-1f;
    float u = (float)word / 4294967295.0f;
    return u < below_one ? u : below_one;
}
