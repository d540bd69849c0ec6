/* shown.h - a name from a file, made fit for a message: printable, and no longer than a line. */
#ifndef NP_SHOWN_H
#define NP_SHOWN_H

#include "base/reader.h"

enum { NP_SHOWN_NAME = 72 };

typedef struct np_shown {
    char text[NP_SHOWN_NAME + 4];
} np_shown;

static inline np_shown np_show(np_bytes b)
{
    np_shown s;
    const size_t n = b.n < NP_SHOWN_NAME ? (size_t)b.n : NP_SHOWN_NAME;
    for (size_t i = 0; i < n; i++)
        s.text[i] = b.p[i] >= 0x20 && b.p[i] < 0x7f ? (char)b.p[i] : '?';
    strcpy(s.text + n, b.n > n ? "..." : "");
    return s;
}

static inline np_shown np_show_text(const char *text)
{
    return np_show((np_bytes){(const uint8_t *)text, strlen(text)});
}

#endif
