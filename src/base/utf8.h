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

/* May it be shown as it is? Not what steers a terminal (controls, line and paragraph separators) and
 * not what hides or reorders what stands beside it (formats, private use, no characters). */
bool np_is_printable(uint32_t code);

/* Length of the longest part of `p`, from its beginning, whose characters are whole and printable;
 * *length: the bytes after it to be replaced as one, 0 at the end. */
size_t np_printable_run(const uint8_t *p, size_t n, size_t *length);

/* Writes a code point (valid, up to U+10FFFF); returns the number of bytes, 1 to 4. */
size_t np_utf8_encode(uint32_t code, uint8_t out[4]);

#endif
