/* split_pattern.h - expressions in Oniguruma's language, as tokenizer.json has them, for PCRE2.
 *
 * The two mostly agree. What means something else there is rewritten (classes of characters, sets in
 * sets, borders of words, options inside a group, a lower bound left out) or refused by name
 * (intersections, intervals with a plus, verbs): never taken for what it is not. */
#ifndef NP_SPLIT_PATTERN_H
#define NP_SPLIT_PATTERN_H

#include "base/context.h"
#include "base/reader.h"
#include "neap/tokenizer.h"

/* Appends to `out`. NEAP_EUNSUPPORTED, NEAP_ENOMEM. */
neap_status np_split_pattern(neap_context *ctx, np_bytes pattern, neap_text *out);

/* ---- inside --------------------------------------------------------------------------------- */

enum { NP_SPLIT_SET = 128 };

/* A set of characters as members of a class; `others`: all that are not in it. Empty: that cannot
 * be said so, and it is the negation of the other one. */
typedef struct np_split_set {
    char set[NP_SPLIT_SET], others[NP_SPLIT_SET];
} np_split_set;

/* false: the name is not known. */
bool np_split_property(np_bytes name, bool posix, np_split_set *out);

#endif
