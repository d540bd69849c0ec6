/* jinja.h - runs the Jinja template of a chat: the part of the language that chat templates use.
 *
 * As Hugging Face's transformers runs them: trim_blocks and lstrip_blocks, break and continue,
 * {% generation %}, raise_exception, strftime_now, tojson without escapes for HTML; lists and dicts
 * cannot be changed. What is not there is refused by its name. The work, the memory and the depth
 * are bounded, whatever the template says. */
#ifndef NP_JINJA_H
#define NP_JINJA_H

#include "base/reader.h"
#include "neap/tokenizer.h"

typedef struct np_chat_input {
    const neap_chat_message *messages;
    size_t count;
    bool add_generation_prompt;
    const np_bytes *bos, *eos; /* the tokens' texts; NULL: undefined in the template */
} np_chat_input;

/* Appends what the template makes of the conversation; on an error `out` is as before. NEAP_EFORMAT:
 * the template is wrong, or uses a value as it cannot be; NEAP_EINVAL: it raises an exception;
 * NEAP_EUNSUPPORTED; NEAP_ELIMIT; NEAP_ENOMEM. Messages name the line. */
neap_status np_jinja_render(neap_context *ctx, np_bytes text, const np_chat_input *input, neap_text *out);

#endif
