/* stop_text.h - texts that end a generation, looked for in what streams by.
 *
 * What may be the beginning of one is always the beginning of one of them: so nothing is copied, only
 * which and how much of it is kept. */
#ifndef NP_STOP_TEXT_H
#define NP_STOP_TEXT_H

#include "base/context.h"
#include "neap/model.h"

typedef struct np_stop_text {
    const char *const *stop;
    int n;
    int held;    /* the text that waits is the beginning of stop[held] ... */
    size_t size; /* ... and has so many bytes */
} np_stop_text;

/* NEAP_EINVAL names the text at fault. */
neap_status np_stop_init(neap_context *ctx, np_stop_text *s, const char *const *stop, int n);
/* `text` is what is new; afterwards what can be shown. Which of the texts appeared, or -1. May make
 * `text` longer by NEAP_STOP_MOST bytes. */
neap_status np_stop_push(neap_context *ctx, np_stop_text *s, neap_text *text, int *found);
/* Puts what waits before `text`: none of the texts will appear. */
neap_status np_stop_finish(neap_context *ctx, np_stop_text *s, neap_text *text);

#endif
