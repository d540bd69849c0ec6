/* stop_text.c - see stop_text.h. */
#include "run/stop_text.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer.h"

neap_status np_stop_init(neap_context *ctx, np_stop_text *s, const char *const *stop, int n)
{
    *s = (np_stop_text){.stop = stop, .n = n};
    if (n < 0 || (n > 0 && !stop))
        return np_fail(ctx, NEAP_EINVAL, "stop: %d texts at %p", n, (const void *)stop);
    for (int i = 0; i < n; i++) {
        const size_t length = stop[i] ? strlen(stop[i]) : 0;
        if (length == 0 || length > NEAP_STOP_MOST)
            return np_fail(ctx, NEAP_EINVAL, "stop text %d has %zu bytes, expected 1 to %d", i, length,
                           NEAP_STOP_MOST);
        for (size_t at = 0, k; at < length; at += k)
            if (np_utf8_next((const uint8_t *)stop[i] + at, length - at, &k) != NP_UTF8_CHAR)
                return np_fail(ctx, NEAP_EINVAL, "stop text %d is not UTF-8 at byte %zu", i, at);
    }
    return NEAP_OK;
}

static neap_status put_held(neap_context *ctx, np_stop_text *s, neap_text *text)
{
    if (s->size == 0)
        return NEAP_OK;
    const size_t length = text->length;
    if (!np_text_append(ctx, text, s->stop[s->held], s->size))
        return NEAP_ENOMEM;
    memmove(text->data + s->size, text->data, length);
    memcpy(text->data, s->stop[s->held], s->size);
    s->size = 0;
    return NEAP_OK;
}

/* The first of them in the text, of two at one place the earlier named: its place, or -1. */
static ptrdiff_t find(const np_stop_text *s, const neap_text *text, int *which)
{
    ptrdiff_t first = -1;
    *which = -1;
    for (int i = 0; i < s->n; i++) {
        const char *at = text->length
                             ? memmem(text->data, text->length, s->stop[i], strlen(s->stop[i]))
                             : NULL;
        if (at && (first < 0 || at - text->data < first)) {
            first = at - text->data;
            *which = i;
        }
    }
    return first;
}

/* The longest end of the text that one of them begins with. */
static void hold_back(np_stop_text *s, neap_text *text)
{
    for (int i = 0; i < s->n; i++) {
        size_t size = strlen(s->stop[i]) - 1;
        size = size < text->length ? size : text->length;
        for (; size > s->size; size--)
            if (!memcmp(text->data + text->length - size, s->stop[i], size)) {
                s->size = size;
                s->held = i;
            }
    }
    text->length -= s->size;
}

neap_status np_stop_push(neap_context *ctx, np_stop_text *s, neap_text *text, int *found)
{
    const neap_status status = put_held(ctx, s, text);
    *found = -1;
    if (status != NEAP_OK)
        return status;
    const ptrdiff_t at = find(s, text, found);
    if (at >= 0)
        text->length = (size_t)at;
    else
        hold_back(s, text);
    return NEAP_OK;
}

neap_status np_stop_finish(neap_context *ctx, np_stop_text *s, neap_text *text)
{
    return put_held(ctx, s, text);
}
