/* shown.h - a name from a file, made fit for a message: printable, and no longer than a line. */
#ifndef NP_SHOWN_H
#define NP_SHOWN_H

#include <string.h>

#include "base/reader.h"
#include "base/utf8.h"

enum { NP_SHOWN_NAME = 72 };

typedef struct np_shown {
    char text[NP_SHOWN_NAME + 4];
} np_shown;

static inline np_shown np_show(np_bytes b)
{
    np_shown s;
    size_t used = 0, at = 0;
    while (at < b.n) {
        size_t skip, run = np_printable_run(b.p + at, (size_t)b.n - at, &skip);
        const bool cut = run + (skip > 0) > NP_SHOWN_NAME - used;
        if (cut)
            for (run = NP_SHOWN_NAME - used; run > 0 && (b.p[at + run] & 0xC0) == 0x80;)
                run--; /* not inside a character */
        memcpy(s.text + used, b.p + at, run);
        used += run;
        at += run + skip;
        if (cut) {
            memcpy(s.text + used, "...", 3);
            used += 3;
            break;
        }
        if (skip)
            s.text[used++] = '?';
    }
    s.text[used] = '\0';
    return s;
}

static inline np_shown np_show_text(const char *text)
{
    return np_show((np_bytes){(const uint8_t *)text, strlen(text)});
}

#endif
