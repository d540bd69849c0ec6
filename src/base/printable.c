/* printable.c - what of a file's text may be shown: Unicode 15.0's categories Cc, Cf, Co, Cs, Zl, Zp and
 * the noncharacters may not. */
#include "base/utf8.h"
#include "neap/base.h"

static const uint32_t hidden[][2] = {
    {0x00,    0x1F   },
    {0x7F,    0x9F   },
    {0xAD,    0xAD   }, /* soft hyphen */
    {0x600,   0x605  },
    {0x61C,   0x61C  }, /* Arabic letter mark */
    {0x6DD,   0x6DD  },
    {0x70F,   0x70F  },
    {0x890,   0x891  },
    {0x8E2,   0x8E2  },
    {0x180E,  0x180E },
    {0x200B,  0x200F }, /* of no width; directions */
    {0x2028,  0x202E }, /* separators of lines; directions */
    {0x2060,  0x206F }, /* invisible; isolates */
    {0xD800,  0xF8FF }, /* surrogates, private use */
    {0xFDD0,  0xFDEF }, /* noncharacters */
    {0xFEFF,  0xFEFF }, /* byte order mark */
    {0xFFF9,  0xFFFB },
    {0x110BD, 0x110BD},
    {0x110CD, 0x110CD},
    {0x13430, 0x1343F},
    {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A},
    {0xE0000, 0xE0FFF}, /* tags */
    {0xF0000, 0x10FFFF},
};

bool np_is_printable(uint32_t code)
{
    if ((code & 0xFFFE) == 0xFFFE)
        return false;
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0] && hidden[i][0] <= code; i++)
        if (code <= hidden[i][1])
            return (code >= 0xE0100 && code <= 0xE01EF); /* variation selectors are marks */
    return true;
}

size_t np_printable_run(const uint8_t *p, size_t n, size_t *length)
{
    size_t at = 0;
    while (at < n) {
        if (np_utf8_next(p + at, n - at, length) != NP_UTF8_CHAR ||
            !np_is_printable(np_utf8_decode(p + at, *length)))
            return at;
        at += *length;
    }
    *length = 0;
    return at;
}

size_t neap_text_printable(const char *text, size_t n, size_t *skip)
{
    size_t length;
    const size_t run = np_printable_run((const uint8_t *)text, n, &length);
    if (skip)
        *skip = length;
    return run;
}
