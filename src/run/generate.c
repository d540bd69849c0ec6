/* generate.c - the text loop over a model's session. */
#include "base/versioned.h"
#include "run/session.h"
#include "run/text_loop.h"

static neap_status prefill(void *self, const int32_t *ids, int64_t n)
{
    return neap_session_prefill(self, ids, n);
}

static neap_status step(void *self, int32_t id)
{
    return neap_session_step(self, id);
}

static const float *logits(void *self)
{
    return neap_session_logits(self);
}

static bool full(void *self)
{
    const neap_session *s = self;
    return s->position >= s->context;
}

neap_status neap_generate(neap_session *session, const int32_t *prompt, int64_t n,
                          const neap_generate_options *options, neap_generate_result *result)
{
    const np_text_source source = {.ctx = session->ctx,
                                   .tokenizer = session->model->tokenizer,
                                   .text = &session->text,
                                   .greedy = session->greedy,
                                   .self = session,
                                   .prefill = prefill,
                                   .step = step,
                                   .logits = logits,
                                   .full = full};
    neap_generate_result none = {.size = sizeof none, .prompt_tokens = n};
    neap_status status = neap_session_start(session);
    if (status == NEAP_OK)
        return np_text_loop(&source, prompt, n, options, result);
    np_tell(result, &none, sizeof none);
    return status;
}
