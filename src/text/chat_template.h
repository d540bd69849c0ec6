/* chat_template.h - which of the known conversation formats a template is.
 *
 * A template is a Jinja program. It is not run: it is brought to a canonical form (white space,
 * quotes, a.b for a['b'], comments, and how output is cut into pieces do not count) and looked up
 * by the fingerprint of that. Two templates with one canonical form mean the same; any other is
 * unknown. */
#ifndef NP_CHAT_TEMPLATE_H
#define NP_CHAT_TEMPLATE_H

#include "neap/tokenizer.h"

/* One turn is before_role ROLE after_role CONTENT after_content. */
typedef struct np_chat_style {
    const char *name;
    bool bos;                   /* starts with the BOS token's text */
    bool trim;                  /* white space round the contents goes */
    bool always_generate;       /* the generation prompt is there, asked for or not */
    const char *default_system; /* the system turn if the conversation has none; NULL: none */
    const char *system_prefix; /* put before the first system message, then always there; or NULL */
    const char *before_role, *after_role, *after_content;
    const char *generation; /* the generation prompt */
} np_chat_style;

/* The fingerprint of a template's canonical form. */
uint64_t np_chat_fingerprint(const char *text, size_t length);

/* NULL: not known. */
const np_chat_style *np_chat_style_of(uint64_t fingerprint);
const np_chat_style *np_chat_style_named(const char *name);

/* neap_chat_render with the style chosen. */
neap_status np_chat_render_style(neap_context *ctx, const neap_tokenizer *tokenizer,
                                 const np_chat_style *style, const neap_chat_message *messages,
                                 size_t count, bool add_generation_prompt, neap_text *out);

#endif
