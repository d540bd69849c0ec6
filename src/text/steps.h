/* steps.h - what is done to a text before merges see it, as a list of steps: some change a text as
 * a whole, some cut it into parts. A normalizer is a list of the first kind, a pre-tokenizer one of
 * both. Patterns are compiled by PCRE2, whose memory is on the ledger and whose work is limited. */
#ifndef NP_STEPS_H
#define NP_STEPS_H

#include "base/context.h"
#include "base/reader.h"
#include "neap/tokenizer.h"

enum { NP_STEPS_LIMIT = 24 };

typedef enum np_step_kind {
    NP_STEP_CUT,        /* by matches of `pattern` */
    NP_STEP_RUNS,       /* into runs of `count` characters */
    NP_STEP_NFC,
    NP_STEP_NFD,
    NP_STEP_NFKC,
    NP_STEP_NFKD,
    NP_STEP_LOWERCASE,
    NP_STEP_STRIP,          /* white space at the ends that `left` and `right` say */
    NP_STEP_STRIP_MARKS,    /* no combining marks */
    NP_STEP_STRIP_NONSPACING,
    NP_STEP_REPLACE,        /* matches of `pattern` by `text` */
    NP_STEP_PREPEND,        /* `text` in front */
    NP_STEP_LEAD,           /* `text` in front unless it is there; `first`: where a whole text starts */
    NP_STEP_NMT,            /* no control characters; odd spaces are spaces */
    NP_STEP_CLEAN,          /* the same as BERT has it */
    NP_STEP_SPACE_CHINESE,  /* spaces round ideographs */
    NP_STEP_LETTERS         /* bytes become letters of the byte-level alphabet */
} np_step_kind;

/* What becomes of a cut's matches. */
typedef enum np_cut_keep {
    NP_CUT_ISOLATED,
    NP_CUT_REMOVED,
    NP_CUT_WITH_PREVIOUS,
    NP_CUT_WITH_NEXT,
    NP_CUT_CONTIGUOUS
} np_cut_keep;

typedef struct np_step {
    np_step_kind kind;
    np_cut_keep keep;
    bool literal; /* the pattern is a text, not an expression */
    bool invert;  /* gaps count as matches, and matches as gaps */
    bool left, right, first;
    uint32_t count;
    np_bytes pattern, text; /* read while the list is made; then kept there */
} np_step;

typedef struct np_steps np_steps;

/* NEAP_EUNSUPPORTED: PCRE2 refuses a pattern. NEAP_ENOMEM. */
neap_status np_steps_new(neap_context *ctx, const np_step *steps, int count, np_steps **out);
void np_steps_free(np_steps *steps);

/* A walk over the parts of a text. The text may hold any bytes: a run of bytes that are not UTF-8
 * is a part of its own, and no step sees it. */
typedef struct np_parts np_parts;

neap_status np_parts_new(neap_context *ctx, const np_steps *steps, np_parts **out);
void np_parts_free(np_parts *parts);
/* `first`: the whole text starts here. */
void np_parts_start(np_parts *parts, np_bytes text, bool first);
/* The next part; n = 0 at the end. It stays as it is until the next call.
 * NEAP_ELIMIT, NEAP_ENOMEM. */
neap_status np_parts_next(np_parts *parts, np_bytes *part, bool *first);

/* ---- inside --------------------------------------------------------------------------------- */

typedef struct np_matcher np_matcher; /* PCRE2's working memory */

/* Where a search over a text stands, as Oniguruma's loop does it: a match may be empty, but not
 * where the last one ended. */
typedef struct np_search {
    np_bytes text;
    uint64_t at, last_end;
    bool matched; /* last_end is a match's */
} np_search;

neap_status np_search_next(np_matcher *matcher, const np_steps *steps, int step, np_search *search,
                           uint64_t *from, uint64_t *to, bool *found);

/* Appends `text` as the step, one of those that do not cut, changes it. `first` says whether the
 * whole text still starts with it. */
neap_status np_step_apply(np_matcher *matcher, const np_steps *steps, int step, np_bytes text,
                          neap_text *out, bool *first);
const np_step *np_steps_at(const np_steps *steps, int step);
neap_context *np_matcher_context(const np_matcher *matcher);

#endif
