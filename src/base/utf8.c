/* utf8.c - UTF-8 one character at a time (the table 3-7 of the Unicode standard). */
#include "base/utf8.h"

np_utf8_state np_utf8_next(const uint8_t *p, size_t n, size_t *length)
{
    uint8_t lead = p[0], low = 0x80, high = 0xBF;
    *length = 1;
    if (lead < 0x80)
        return NP_UTF8_CHAR;
    if (lead < 0xC2 || lead > 0xF4)
        return NP_UTF8_INVALID;
    size_t need = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    while (*length < need) {
        if (*length == n)
            return NP_UTF8_PARTIAL;
        uint8_t byte = p[*length];
        if (byte < low || byte > high)
            return NP_UTF8_INVALID;
        low = 0x80;
        high = 0xBF;
        ++*length;
    }
    return NP_UTF8_CHAR;
}

uint32_t np_utf8_decode(const uint8_t *p, size_t length)
{
    if (length == 1)
        return p[0];
    uint32_t code = p[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (p[i] & 0x3F);
    return code;
}

size_t np_utf8_encode(uint32_t code, uint8_t out[4])
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (uint8_t)(lead[n] | code);
    return n;
}

bool np_is_white_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}
