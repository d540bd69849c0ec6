/* radix_sort.h - sorts by the bytes of a number, lowest first, between two places of n items each:
 * stable, linear; bytes in which all items agree cost nothing.
 *
 *     NP_RADIX_SORT(sort_keys, np_entry, entry_key, 0, 8)
 *
 * defines sort_keys(items, spare, n), ascending by bytes 0 to 7 of uint64_t entry_key(const
 * np_entry *item); n < 2^32. Left early (np_stop), the items are any. */
#ifndef NP_RADIX_SORT_H
#define NP_RADIX_SORT_H

#include <stdint.h>
#include <string.h>

#include "base/interrupt.h"

enum { NP_RADIX_FEW = 32 }; /* fewer are sorted by insertion */

#define NP_RADIX_SORT(name, type, key_of, first, bytes)                                     \
    static void name##_few(type *items, int64_t n)                                          \
    {                                                                                       \
        for (int64_t i = 1; i < n; i++) {                                                   \
            const type moved = items[i];                                                    \
            const uint64_t key = key_of(&moved) >> 8 * (first);                             \
            int64_t to = i;                                                                 \
            for (; to > 0 && key < key_of(&items[to - 1]) >> 8 * (first); to--)             \
                items[to] = items[to - 1];                                                  \
            items[to] = moved;                                                              \
        }                                                                                   \
    }                                                                                       \
                                                                                            \
    /* Moves all items by one byte; at[] is how many have each value. */                    \
    static void name##_pass(const type *from, type *to, int64_t n, int shift, uint32_t *at) \
    {                                                                                       \
        uint32_t sum = 0;                                                                   \
        for (int b = 0; b < 256; b++) {                                                     \
            uint32_t count = at[b];                                                         \
            at[b] = sum;                                                                    \
            sum += count;                                                                   \
        }                                                                                   \
        NP_EACH_UNTIL_STOP(i, n)                                                            \
            to[at[key_of(&from[i]) >> shift & 255]++] = from[i];                            \
    }                                                                                       \
                                                                                            \
    static void name(type *items, type *spare, int64_t n)                                   \
    {                                                                                       \
        uint32_t count[bytes][256];                                                         \
        type *from = items, *to = spare;                                                    \
        if (n < NP_RADIX_FEW) {                                                             \
            name##_few(items, n);                                                           \
            return;                                                                         \
        }                                                                                   \
        memset(count, 0, sizeof count);                                                     \
        NP_EACH_UNTIL_STOP(i, n)                                                            \
            for (int b = 0; b < (bytes); b++)                                               \
                count[b][key_of(&items[i]) >> 8 * ((first) + b) & 255]++;                   \
        for (int b = 0; b < (bytes); b++) {                                                 \
            int shift = 8 * ((first) + b);                                                  \
            if (count[b][key_of(&from[0]) >> shift & 255] == n)                             \
                continue;                                                                   \
            if (np_stop())                                                                  \
                return;                                                                     \
            name##_pass(from, to, n, shift, count[b]);                                      \
            type *swap = from;                                                              \
            from = to;                                                                      \
            to = swap;                                                                      \
        }                                                                                   \
        if (from != items)                                                                  \
            memcpy(items, from, (size_t)n * sizeof *items);                                 \
    }

#endif
