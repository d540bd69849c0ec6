/* normalize.h - Unicode's normal forms, by utf8proc, with the memory on the ledger. */
#ifndef NP_NORMALIZE_H
#define NP_NORMALIZE_H

#include "base/context.h"
#include "base/reader.h"
#include "neap/tokenizer.h"

typedef enum np_normal_form {
    NP_FORM_NONE,
    NP_FORM_NFC,
    NP_FORM_NFD,
    NP_FORM_NFKC,
    NP_FORM_NFKD
} np_normal_form;

/* Appends `text` in the form; runs of bytes that are not UTF-8 as they are. NEAP_ENOMEM. */
neap_status np_normalize(neap_context *ctx, np_normal_form form, np_bytes text, neap_text *out);

#endif
