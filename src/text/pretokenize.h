/* pretokenize.h - the steps that cut a text into words, by the name that a GGUF file gives. */
#ifndef NP_PRETOKENIZE_H
#define NP_PRETOKENIZE_H

#include "text/steps.h"

enum { NP_PRETOKENIZER_PATTERNS = 8 };

typedef struct np_pretokenizer_kind {
    const char *names; /* separated by spaces, with a space at both ends */
    const char *patterns[NP_PRETOKENIZER_PATTERNS];
    bool ignore_merges; /* a word that is a token needs no merges to become it */
    bool add_bos;       /* when the file does not say */
} np_pretokenizer_kind;

/* An empty name is "default". NEAP_EUNSUPPORTED names an unknown one. */
neap_status np_pretokenizer_find(neap_context *ctx, np_bytes name,
                                 const np_pretokenizer_kind **out);
/* The cuts of a kind; returns how many. */
int np_pretokenizer_cuts(const np_pretokenizer_kind *kind, np_step out[NP_PRETOKENIZER_PATTERNS]);

#endif
