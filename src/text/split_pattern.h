/* split_pattern.h - expressions in Oniguruma's language, as tokenizer.json has them, for PCRE2.
 *
 * The two mostly agree. What means something else there is rewritten (\s is Unicode's White_Space,
 * \w and \h, a lower bound left out) or refused by name (sets in classes, intervals with a plus,
 * verbs): never taken for what it is not. */
#ifndef NP_SPLIT_PATTERN_H
#define NP_SPLIT_PATTERN_H

#include "base/context.h"
#include "base/reader.h"
#include "neap/tokenizer.h"

/* Appends to `out`. NEAP_EUNSUPPORTED, NEAP_ENOMEM. */
neap_status np_split_pattern(neap_context *ctx, np_bytes pattern, neap_text *out);

#endif
