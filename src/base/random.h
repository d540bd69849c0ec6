/* random.h - the counter-based generator Threefry-2x32, 20 rounds (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011): a pure function of key and counter. */
#ifndef NP_RANDOM_H
#define NP_RANDOM_H

#include <stdint.h>

typedef struct np_random_key {
    uint32_t k[2];
} np_random_key;

/* Two words for one counter. */
void np_threefry(np_random_key key, uint32_t c0, uint32_t c1, uint32_t out[2]);

/* The key of a seed: high word, low word. */
static inline np_random_key np_random_seed(uint64_t seed)
{
    return (np_random_key){
        {(uint32_t)(seed >> 32), (uint32_t)seed}
    };
}

/* Word `i` of a stream of `n` words: the first half of the words are first outputs, the second half
 * second outputs; an odd n ends its first half one later (the order that MLX and JAX use). */
uint32_t np_random_word(np_random_key key, uint64_t i, uint64_t n);

/* [0, 1): word / 2^32 - 1 as f32, never 1. */
float np_random_uniform(uint32_t word);

#endif
