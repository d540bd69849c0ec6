/* utf8.h - UTF-8 as Unicode defines it: no surrogates, no overlong forms, nothing over U+10FFFF. */
#ifndef NP_UTF8_H
#define NP_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a possible character at `p` (n >= 1 bytes left) stands. `*length` is the number of bytes of
 * the character, or of the maximal part of one that has been seen. */
typedef enum np_utf8_state {
    NP_UTF8_CHAR,    /* a whole character */
    NP_UTF8_PARTIAL, /* the bytes end inside a character */
    NP_UTF8_INVALID  /* the next byte cannot go on; *length bytes are to be replaced as one */
} np_utf8_state;

np_utf8_state np_utf8_next(const uint8_t *p, size_t n, size_t *length);

/* The code point of a whole character of `length` bytes. */
uint32_t np_utf8_decode(const uint8_t *p, size_t length);

/* Unicode's White_Space. */
bool np_is_white_space(uint32_t code);

/* Writes a code point (valid, up to U+10FFFF); returns the number of bytes, 1 to 4. */
size_t np_utf8_encode(uint32_t code, uint8_t out[4]);

#endif
