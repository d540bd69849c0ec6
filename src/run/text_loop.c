/* text_loop.c - see text_loop.h. */
#include "run/text_loop.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/versioned.h"
#include "run/stop_text.h"
#include "text/sampler_context.h"

typedef struct np_loop {
    const np_text_source *s;
    const neap_generate_options *options;
    neap_generate_result *result;
    neap_sampler *sampler;
    neap_text_stream stream;
    np_stop_text stop;
} np_loop;

/* The sampler may be of another context than the one that is asked for the error. */
static neap_status choose(const np_loop *l, int32_t *id)
{
    neap_status status = neap_sampler_pick(l->sampler, l->s->logits(l->s->self),
                                           (uint64_t)l->result->generated_tokens, id);
    neap_context *own = np_sampler_context(l->sampler);
    if (status == NEAP_OK)
        return status;
    if (own != l->s->ctx)
        np_fail(l->s->ctx, status, "%s", own->error);
    else
        own->status = status; /* its text is there: this call goes on to tell it */
    if (l->s->explain)
        l->s->explain(l->s->self);
    return status;
}

/* A model may score more ids than its tokenizer has texts for. */
static bool has_text(const np_loop *l, int32_t id)
{
    return l->s->tokenizer && id < neap_tokenizer_size(l->s->tokenizer);
}

/* Tells the caller; false: it wants to stop. */
static neap_status show(np_loop *l, int32_t id, bool *go_on)
{
    const np_text_source *s = l->s;
    neap_status status = NEAP_OK;
    s->text->length = 0;
    if (has_text(l, id))
        status = neap_text_stream_push(s->ctx, &l->stream, id, s->text);
    if (status == NEAP_OK)
        status = np_stop_push(s->ctx, &l->stop, s->text, &l->result->stop);
    *go_on = true;
    if (status == NEAP_OK && l->options->on_token)
        *go_on = l->options->on_token(l->options->user, id, s->text->data, s->text->length,
                                      s->logits(s->self));
    return status;
}

/* Text that waited, and bytes of a character that never became whole. */
static neap_status flush(np_loop *l)
{
    const np_text_source *s = l->s;
    s->text->length = 0;
    if (!s->tokenizer)
        return NEAP_OK;
    neap_status status = neap_text_stream_finish(s->ctx, &l->stream, s->text);
    if (status == NEAP_OK)
        status = np_stop_finish(s->ctx, &l->stop, s->text);
    if (status == NEAP_OK && s->text->length && l->options->on_token)
        l->options->on_token(l->options->user, -1, s->text->data, s->text->length, NULL);
    return status;
}

static neap_status run(np_loop *l)
{
    const np_text_source *s = l->s;
    neap_generate_result *r = l->result;
    for (;;) {
        int32_t id;
        bool go_on;
        neap_status status = np_check(s->ctx);
        if (status == NEAP_OK)
            status = choose(l, &id);
        if (status != NEAP_OK)
            return status;
        if (!l->options->ignore_eos && has_text(l, id) && neap_tokenizer_is_end(s->tokenizer, id)) {
            r->finish = NEAP_FINISH_STOP;
            return NEAP_OK;
        }
        r->generated_tokens++;
        neap_sampler_accept(l->sampler, &id, 1);
        status = show(l, id, &go_on);
        if (status != NEAP_OK)
            return status;
        if (r->stop >= 0) {
            r->finish = NEAP_FINISH_STOP;
            return NEAP_OK;
        }
        if (!go_on) {
            r->finish = NEAP_FINISH_CALLER;
            return NEAP_OK;
        }
        if (r->generated_tokens >= l->options->max_tokens || s->full(s->self))
            return NEAP_OK;
        double t0 = np_seconds();
        status = s->step(s->self, id);
        r->generation_seconds += np_seconds() - t0;
        r->decode_steps++;
        if (status != NEAP_OK)
            return status;
    }
}

neap_status np_text_loop(const np_text_source *s, const int32_t *prompt, int64_t n,
                         const neap_generate_options *options, neap_generate_result *result)
{
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
    r.prompt_tokens = n;
    r.finish = NEAP_FINISH_LENGTH;
    neap_status status = np_take_options(s->ctx, "generate", options, &o, sizeof o);
    np_loop l = {
        .s = s, .options = &o, .result = &r, .sampler = o.sampler ? o.sampler : s->greedy};
    if (s->tokenizer)
        neap_text_stream_init(&l.stream, s->tokenizer, 0);
    l.stream.started = n > 0; /* the text goes on behind the prompt: no space is left out */
    if (status == NEAP_OK)
        status = np_stop_init(s->ctx, &l.stop, o.stop, o.n_stop);
    double t0 = np_seconds();
    if (status == NEAP_OK)
        status = s->prefill(s->self, prompt, n);
    r.prompt_seconds = np_seconds() - t0;
    if (status == NEAP_OK)
        neap_sampler_accept(l.sampler, prompt, n);
    if (status == NEAP_OK && o.max_tokens > 0)
        status = run(&l);
    if (status == NEAP_OK && r.finish != NEAP_FINISH_CALLER && r.stop < 0)
        status = flush(&l);
    np_tell(result, &r, sizeof r);
    return status;
}
