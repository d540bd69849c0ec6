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

/* An infinity or NaN among f16 values. */
static bool beyond_f16(const neap_state *state)
{
    const uint64_t n = neap_state_bytes(state) / sizeof(uint16_t);
    const uint16_t *v = state->buffer->data;
    for (uint64_t i = 0; v && i < n; i++)
        if ((v[i] & 0x7c00) == 0x7c00)
            return true;
    return false;
}

/* Scores that are no numbers most often come from keys or values that f16 cannot hold. */
static void explain(void *self)
{
    const neap_session *s = self;
    for (int64_t l = 0; s->options.kv_type == NEAP_F16 && l < s->cache.layers; l++) {
        const bool keys = beyond_f16(s->cache.keys[l]);
        if (!keys && !beyond_f16(s->cache.values[l]))
            continue;
        np_fail_prefix(s->ctx,
                       "%s of layer %lld are beyond f16, as which the KV cache holds them; "
                       "use --kv-type f32 (kv_type)",
                       keys ? "keys" : "values", (long long)l);
        return;
    }
}

static neap_status make_text(neap_session *session, const int32_t *prompt, int64_t n,
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
                                   .full = full,
                                   .explain = explain};
    neap_generate_result none = {.size = sizeof none, .prompt_tokens = n};
    neap_status status = neap_session_start(session);
    if (status == NEAP_OK)
        return np_text_loop(&source, prompt, n, options, result);
    np_tell(result, &none, sizeof none);
    return status;
}

neap_status neap_generate(neap_session *session, const int32_t *prompt, int64_t n,
                          const neap_generate_options *options, neap_generate_result *result)
{
    return NP_CALL_ON(session, prompt, make_text(session, prompt, n, options, result));
}
