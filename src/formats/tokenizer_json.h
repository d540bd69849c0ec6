/* tokenizer_json.h - Hugging Face's tokenizer.json.
 *
 * The file is walked twice and never held: first everything but the merges (settings as a small
 * tree, the vocabulary as places in the file), then, with the tokens known, the merges one by one.
 * Level 3: it knows bytes, not paths. */
#ifndef NP_TOKENIZER_JSON_H
#define NP_TOKENIZER_JSON_H

#include "base/json.h"
#include "text/tokenizer.h"

/* `config`: what np_tokenizer_config read, or an empty tree. The text may go afterwards.
 * NEAP_EFORMAT, NEAP_EUNSUPPORTED, NEAP_ELIMIT, NEAP_ENOMEM; the caller puts the file's name in
 * front. */
neap_status np_tokenizer_json(neap_context *ctx, np_bytes text, const np_json_tree *config,
                              neap_tokenizer **out);
/* Which tokens begin and end texts, by the tokenizer_config.json beside it. `out`: zeroed but for
 * its ctx; freed by the caller, also on an error. */
neap_status np_tokenizer_config(np_bytes text, np_json_tree *out);

/* ---- inside --------------------------------------------------------------------------------- */

/* Cuts, normal form and the ids round a text, from the tree of a file without its vocabulary. NEAP_EUNSUPPORTED
 * names what is not known. `patterns` holds the cuts' expressions. */
neap_status np_tokenizer_json_rules(const np_json_tree *tree, neap_text *patterns,
                                    np_text_rules *out);

#endif
