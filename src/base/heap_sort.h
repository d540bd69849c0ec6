/* heap_sort.h - sorts in place: no memory, no recursion, n log n whatever the input.
 *
 *     NP_HEAP_SORT(sort_entries, np_entry, const void *, entry_before)
 *
 * defines sort_entries(user, items, n) with bool entry_before(user, const np_entry *a, *b): does a
 * come before b? Equal items may change places. */
#ifndef NP_HEAP_SORT_H
#define NP_HEAP_SORT_H

#define NP_HEAP_SORT(name, type, user_type, before)                              \
    static void name##_sift(user_type user, type *items, size_t i, size_t n)     \
    {                                                                            \
        const type moved = items[i];                                             \
        for (size_t child; (child = 2 * i + 1) < n; i = child) {                 \
            if (child + 1 < n && before(user, &items[child], &items[child + 1])) \
                child++;                                                         \
            if (!before(user, &moved, &items[child]))                            \
                break;                                                           \
            items[i] = items[child];                                             \
        }                                                                        \
        items[i] = moved;                                                        \
    }                                                                            \
                                                                                 \
    static void name(user_type user, type *items, size_t n)                      \
    {                                                                            \
        for (size_t i = n / 2; i-- > 0;)                                         \
            name##_sift(user, items, i, n);                                      \
        for (size_t last = n; last-- > 1;) {                                     \
            const type top = items[0];                                           \
            items[0] = items[last];                                              \
            items[last] = top;                                                   \
            name##_sift(user, items, 0, last);                                   \
        }                                                                        \
    }

#endif
