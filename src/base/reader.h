/* reader.h - untrusted bytes are read through here: every length is checked before it is used. */
#ifndef NP_READER_H
#define NP_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct np_reader {
    const uint8_t *start, *p, *end;
} np_reader;

typedef struct np_bytes { /* a run of bytes inside the file; not terminated */
    const uint8_t *p;
    uint64_t n;
} np_bytes;

static inline bool np_bytes_equal(np_bytes b, const char *text)
{
    return b.n == strlen(text) && (b.n == 0 || memcmp(b.p, text, b.n) == 0);
}

static inline np_reader np_reader_over(const void *data, uint64_t bytes)
{
    const uint8_t *p = data ? data : (const uint8_t *)""; /* of no bytes it may be NULL */
    return (np_reader){p, p, p + bytes};
}

static inline uint64_t np_reader_offset(const np_reader *r)
{
    return (uint64_t)(r->p - r->start);
}
static inline uint64_t np_reader_left(const np_reader *r)
{
    return (uint64_t)(r->end - r->p);
}

static inline bool np_read_bytes(np_reader *r, uint64_t n, np_bytes *out)
{
    if (n > np_reader_left(r))
        return false;
    out->p = r->p;
    out->n = n;
    r->p += n;
    return true;
}

static inline bool np_read_copy(np_reader *r, void *out, uint64_t n)
{
    np_bytes b;
    if (!np_read_bytes(r, n, &b))
        return false;
    memcpy(out, b.p, n);
    return true;
}

/* Little-endian scalars; the supported machines are little-endian. */
static inline bool np_read_u8(np_reader *r, uint8_t *v)
{
    return np_read_copy(r, v, 1);
}
static inline bool np_read_u16(np_reader *r, uint16_t *v)
{
    return np_read_copy(r, v, 2);
}
static inline bool np_read_u32(np_reader *r, uint32_t *v)
{
    return np_read_copy(r, v, 4);
}
static inline bool np_read_u64(np_reader *r, uint64_t *v)
{
    return np_read_copy(r, v, 8);
}

/* a * b, false when it does not fit. */
static inline bool np_mul_size(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool np_add_size(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
