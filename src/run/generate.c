/* generate.c - the loop: prompt in, tokens out, until an end token, a count or the context's end.
 * Nothing is allocated here: the session's text buffer has room for any token's bytes. */

#include "base/clock.h"
#include "base/versioned.h"
#include "run/session.h"

typedef struct np_loop {
    neap_session *s;
    const neap_generate_options *options;
    neap_generate_result *result;
    neap_sampler *sampler;
    neap_text_stream stream;
} np_loop;

static neap_status choose(const np_loop *l, int32_t *id)
{
    return neap_sampler_pick(l->sampler, neap_session_logits(l->s),
                             (uint64_t)l->result->generated_tokens, id);
}

/* Tells the caller; false: it wants to stop. */
static neap_status show(np_loop *l, int32_t id, bool *go_on)
{
    neap_session *s = l->s;
    s->text.length = 0;
    neap_status status = neap_text_stream_push(s->ctx, &l->stream, id, &s->text);
    *go_on = true;
    if (status == NEAP_OK && l->options->on_token)
        *go_on = l->options->on_token(l->options->user, id, s->text.data, s->text.length,
                                      neap_session_logits(s));
    return status;
}

/* Bytes of a character that never became whole. */
static neap_status flush(np_loop *l)
{
    neap_session *s = l->s;
    s->text.length = 0;
    neap_status status = neap_text_stream_finish(s->ctx, &l->stream, &s->text);
    if (status == NEAP_OK && s->text.length && l->options->on_token)
        l->options->on_token(l->options->user, -1, s->text.data, s->text.length, NULL);
    return status;
}

static neap_status run(np_loop *l)
{
    neap_session *s = l->s;
    neap_generate_result *r = l->result;
    const neap_tokenizer *t = s->model->tokenizer;
    for (;;) {
        int32_t id;
        bool go_on;
        neap_status status = choose(l, &id);
        if (status != NEAP_OK)
            return status;
        if (!l->options->ignore_eos && neap_tokenizer_is_end(t, id)) {
            r->finish = NEAP_FINISH_STOP;
            return NEAP_OK;
        }
        r->generated_tokens++;
        status = show(l, id, &go_on);
        if (status != NEAP_OK)
            return status;
        if (!go_on) {
            r->finish = NEAP_FINISH_CALLER;
            return NEAP_OK;
        }
        if (r->generated_tokens >= l->options->max_tokens || s->position >= s->context)
            return NEAP_OK;
        double t0 = np_seconds();
        status = neap_session_step(s, id);
        r->generation_seconds += np_seconds() - t0;
        r->decode_steps++;
        if (status != NEAP_OK)
            return status;
    }
}

neap_status neap_generate(neap_session *session, const int32_t *prompt, int64_t n,
                          const neap_generate_options *options, neap_generate_result *result)
{
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    neap_generate_result r = {.size = sizeof r, .prompt_tokens = n, .finish = NEAP_FINISH_LENGTH};
    neap_status status = np_take_options(session->ctx, "generate", options, &o, sizeof o);
    np_loop l = {.s = session,
                 .options = &o,
                 .result = &r,
                 .sampler = o.sampler ? o.sampler : session->greedy};
    neap_text_stream_init(&l.stream, session->model->tokenizer, 0);
    if (status == NEAP_OK)
        status = neap_session_start(session);
    double t0 = np_seconds();
    if (status == NEAP_OK)
        status = neap_session_prefill(session, prompt, n);
    r.prompt_seconds = np_seconds() - t0;
    if (status == NEAP_OK && o.max_tokens > 0)
        status = run(&l);
    if (status == NEAP_OK && r.finish != NEAP_FINISH_CALLER)
        status = flush(&l);
    np_tell(result, &r, sizeof r);
    return np_report(session->ctx, status);
}
