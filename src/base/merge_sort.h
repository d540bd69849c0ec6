/* merge_sort.h - sorts between two places of n items each: stable, no recursion, n log n whatever
 * the input, n where it is in order already.
 *
 *     NP_MERGE_SORT(sort_keys, uint64_t, key_before)
 *
 * defines sort_keys(items, spare, n) with bool key_before(const uint64_t *a, *b): must a come
 * before b? */
#ifndef NP_MERGE_SORT_H
#define NP_MERGE_SORT_H

#include <string.h>

enum { NP_MERGE_RUN = 16 };

#define NP_MERGE_SORT(name, type, before)                                                        \
    static void name##_run(type *items, size_t n)                                                \
    {                                                                                            \
        for (size_t i = 1; i < n; i++) {                                                         \
            const type moved = items[i];                                                         \
            size_t to = i;                                                                       \
            for (; to > 0 && before(&moved, &items[to - 1]); to--)                               \
                items[to] = items[to - 1];                                                       \
            items[to] = moved;                                                                   \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    static void name##_merge(const type *from, size_t middle, size_t n, type *to)                \
    {                                                                                            \
        size_t a = 0, b = middle;                                                                \
        if (middle == n || !before(&from[middle], &from[middle - 1])) {                          \
            memcpy(to, from, n * sizeof *to); /* in order already */                             \
            return;                                                                              \
        }                                                                                        \
        while (a < middle && b < n) {                                                            \
            bool second = before(&from[b], &from[a]);                                            \
            *to++ = from[second ? b : a];                                                        \
            b += second;                                                                         \
            a += !second;                                                                        \
        }                                                                                        \
        memcpy(to, from + (a < middle ? a : b), (a < middle ? middle - a : n - b) * sizeof *to); \
    }                                                                                            \
                                                                                                 \
    static void name(type *items, type *spare, size_t n)                                         \
    {                                                                                            \
        type *from = items, *to = spare;                                                         \
        for (size_t i = 0; i < n; i += NP_MERGE_RUN)                                             \
            name##_run(items + i, n - i < NP_MERGE_RUN ? n - i : NP_MERGE_RUN);                  \
        for (size_t width = NP_MERGE_RUN; width < n; width *= 2) {                               \
            for (size_t i = 0; i < n; i += 2 * width) {                                          \
                size_t left = n - i, middle = left < width ? left : width;                       \
                name##_merge(from + i, middle, left < 2 * width ? left : 2 * width, to + i);     \
            }                                                                                    \
            type *swap = from;                                                                   \
            from = to;                                                                           \
            to = swap;                                                                           \
        }                                                                                        \
        if (from != items)                                                                       \
            memcpy(items, from, n * sizeof *items);                                              \
    }

#endif
