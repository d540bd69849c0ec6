/* text_loop.h - prompt in, tokens out, until an end token, a count or the context's end: over
 * whatever takes tokens and leaves scores. Nothing is allocated while it runs. */
#ifndef NP_TEXT_LOOP_H
#define NP_TEXT_LOOP_H

#include "base/context.h"
#include "neap/model.h"

typedef struct np_text_source {
    neap_context *ctx;
    const neap_tokenizer *tokenizer; /* NULL: ids only */
    neap_text *text;                 /* has room for any token's bytes */
    neap_sampler *greedy;
    void *self;
    neap_status (*prefill)(void *self, const int32_t *ids, int64_t n);
    neap_status (*step)(void *self, int32_t id);
    const float *(*logits)(void *self);
    bool (*full)(void *self); /* no position is left */
    void (*explain)(void *self); /* no token can be chosen: puts the cause, if known, before the error; or NULL */
} np_text_source;

/* What neap_generate does; `result` as there. */
neap_status np_text_loop(const np_text_source *source, const int32_t *prompt, int64_t n,
                         const neap_generate_options *options, neap_generate_result *result);

#endif
