/* versioned.h - public structs whose first field is their size, so that an old program can call a
 * newer library: options are read as far as the caller's struct goes, what is told is written as
 * far. */
#ifndef NP_VERSIONED_H
#define NP_VERSIONED_H

#include <string.h>

#include "base/context.h"

/* Options over their defaults; `given` may be NULL. NEAP_EINVAL for a size of 0 or beyond ours. */
static inline neap_status np_take_options(neap_context *ctx, const char *what, const void *given,
                                          void *options, size_t size)
{
    size_t n;
    if (!given)
        return NEAP_OK;
    memcpy(&n, given, sizeof n);
    if (n < sizeof n || n > size)
        return np_fail(ctx, NEAP_EINVAL, "%s options: size %zu, expected at most %zu", what, n,
                       size);
    memcpy(options, given, n);
    return NEAP_OK;
}

/* `full` is ours, of `size` bytes; sets both sizes to what was written. `info` may be NULL. */
static inline void np_tell(void *info, void *full, size_t size)
{
    size_t n;
    if (!info)
        return;
    memcpy(&n, info, sizeof n);
    n = n < size ? n : size;
    if (n < sizeof n)
        return;
    memcpy(full, &n, sizeof n);
    memcpy(info, full, n);
}

#endif
