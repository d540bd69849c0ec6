/* normalize.c - see normalize.h. */
#include "text/normalize.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/tokenizer.h"

/* How many bytes from the start are in every form already and cannot join what follows: ASCII, but
 * for the last character. */
static uint64_t plain_run(np_bytes text)
{
    uint64_t n = 0;
    while (n < text.n && text.p[n] < 0x80)
        n++;
    return n == text.n || n == 0 ? n : n - 1;
}

static uint64_t valid_run(np_bytes text)
{
    uint64_t n = 0;
    size_t length;
    while (n < text.n && np_utf8_next(text.p + n, text.n - n, &length) == NP_UTF8_CHAR)
        n += length;
    return n;
}

static utf8proc_option_t options_of(np_normal_form form)
{
    utf8proc_option_t o = UTF8PROC_STABLE;
    o |= form == NP_FORM_NFC || form == NP_FORM_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    return o | (form == NP_FORM_NFKC || form == NP_FORM_NFKD ? UTF8PROC_COMPAT : 0);
}

/* utf8proc works on 4 bytes a character and makes them UTF-8 in place, with a NUL behind. */
static neap_status append_form(neap_context *ctx, np_normal_form form, np_bytes text,
                               neap_text *out)
{
    utf8proc_option_t options = options_of(form);
    utf8proc_ssize_t n = utf8proc_decompose(text.p, (utf8proc_ssize_t)text.n, NULL, 0, options);
    if (n < 0)
        return np_fail(ctx, NEAP_ELIMIT, "a text of %llu bytes cannot be normalised: %s",
                       (unsigned long long)text.n, utf8proc_errmsg(n));
    size_t bytes = ((size_t)n + 1) * sizeof(utf8proc_int32_t);
    utf8proc_int32_t *codes = np_alloc(ctx, NEAP_MEM_HOST, bytes);
    if (!codes)
        return NEAP_ENOMEM;
    n = utf8proc_decompose(text.p, (utf8proc_ssize_t)text.n, codes, n, options);
    n = n < 0 ? n : utf8proc_reencode(codes, n, options);
    bool fits = n < 0 || np_text_append(ctx, out, codes, (size_t)n);
    np_free(ctx, NEAP_MEM_HOST, codes, bytes);
    if (n < 0)
        return np_fail(ctx, NEAP_ELIMIT, "a text cannot be normalised: %s", utf8proc_errmsg(n));
    return fits ? NEAP_OK : NEAP_ENOMEM;
}

neap_status np_normalize(neap_context *ctx, np_normal_form form, np_bytes text, neap_text *out)
{
    while (text.n) {
        uint64_t n = plain_run(text);
        bool plain = n > 0 || form == NP_FORM_NONE;
        if (form == NP_FORM_NONE)
            n = text.n;
        else if (n == 0)
            n = valid_run(text);
        size_t length = 1;
        if (n == 0) {
            np_utf8_next(text.p, text.n, &length);
            n = length;
            plain = true;
        }
        if (plain ? !np_text_append(ctx, out, text.p, n)
                  : append_form(ctx, form, (np_bytes){text.p, n}, out) != NEAP_OK)
            return neap_context_status(ctx);
        text.p += n;
        text.n -= n;
    }
    return NEAP_OK;
}
