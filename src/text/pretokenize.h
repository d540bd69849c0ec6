/* pretokenize.h - cuts text into the words that BPE merges never cross.
 *
 * A pre-tokenizer is a name from the model file and a list of patterns. Each pattern cuts every
 * piece that the one before left: a match is a piece, what lies between matches is a piece. The
 * patterns are compiled by PCRE2, whose memory is on the ledger and whose work is limited. */
#ifndef NP_PRETOKENIZE_H
#define NP_PRETOKENIZE_H

#include "base/context.h"
#include "base/reader.h"

enum { NP_PRETOKENIZER_PATTERNS = 6 };

typedef struct np_pretokenizer_kind {
    const char *names; /* separated by spaces, with a space at both ends */
    const char *patterns[NP_PRETOKENIZER_PATTERNS];
    bool ignore_merges; /* a word that is a token needs no merges to become it */
    bool add_bos;       /* when the file does not say */
} np_pretokenizer_kind;

typedef struct np_pretokenizer np_pretokenizer;

/* An empty name is "default". NEAP_EUNSUPPORTED names an unknown one. */
neap_status np_pretokenizer_find(neap_context *ctx, np_bytes name,
                                 const np_pretokenizer_kind **out);
neap_status np_pretokenizer_new(neap_context *ctx, const np_pretokenizer_kind *kind,
                                np_pretokenizer **out);
void np_pretokenizer_free(np_pretokenizer *pretokenizer);

/* A walk over the words of a text. The text may hold any bytes: a run of bytes that are not UTF-8
 * is a word of its own. */
typedef struct np_words np_words;

neap_status np_words_new(neap_context *ctx, const np_pretokenizer *pretokenizer, np_words **out);
void np_words_free(np_words *words);
void np_words_start(np_words *words, np_bytes text);
/* The next word; n = 0 at the end. NEAP_ELIMIT, NEAP_ENOMEM. */
neap_status np_words_next(np_words *words, np_bytes *word);

#endif
