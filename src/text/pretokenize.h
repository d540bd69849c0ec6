/* pretokenize.h - cuts text into the words that BPE merges never cross.
 *
 * A pre-tokenizer is a list of cuts: those of a name that a GGUF file gives, or a tokenizer.json's
 * own. Each cuts every piece that the one before left: a match is a piece, what lies between matches
 * is a piece, unless the cut says otherwise. Patterns are compiled by PCRE2, whose memory is on the
 * ledger and whose work is limited. */
#ifndef NP_PRETOKENIZE_H
#define NP_PRETOKENIZE_H

#include "base/context.h"
#include "base/reader.h"

enum { NP_PRETOKENIZER_PATTERNS = 8 };

typedef struct np_pretokenizer_kind {
    const char *names; /* separated by spaces, with a space at both ends */
    const char *patterns[NP_PRETOKENIZER_PATTERNS];
    bool ignore_merges; /* a word that is a token needs no merges to become it */
    bool add_bos;       /* when the file does not say */
} np_pretokenizer_kind;

typedef enum np_cut_keep {
    NP_CUT_BOTH,           /* matches and gaps, each a piece */
    NP_CUT_GAPS,           /* matches are dropped */
    NP_CUT_MATCHES,        /* gaps are dropped */
    NP_CUT_MATCH_WITH_GAP, /* a gap and the match behind it are one piece */
} np_cut_keep;

typedef struct np_cut {
    np_bytes pattern; /* for PCRE2; only read while the pre-tokenizer is made */
    np_cut_keep keep;
    bool literal; /* the pattern is a text, not an expression */
} np_cut;

typedef struct np_pretokenizer np_pretokenizer;

/* An empty name is "default". NEAP_EUNSUPPORTED names an unknown one. */
neap_status np_pretokenizer_find(neap_context *ctx, np_bytes name,
                                 const np_pretokenizer_kind **out);
/* The cuts of a kind; returns how many. */
int np_pretokenizer_cuts(const np_pretokenizer_kind *kind, np_cut out[NP_PRETOKENIZER_PATTERNS]);
/* NEAP_EUNSUPPORTED: PCRE2 refuses a pattern. */
neap_status np_pretokenizer_new(neap_context *ctx, const np_cut *cuts, int count,
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
