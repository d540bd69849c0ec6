/* session.c - making, starting and running sessions. */
#include "run/session.h"

#include <string.h>

#include "base/progress.h"
#include "base/versioned.h"
#include "eval/run.h"
#include "neap/ops.h"

/* ---- plans ------------------------------------------------------------------------------------
 */

/* Plans `capacity` tokens whose last hidden vector goes to the state. */
static neap_status plan_forward(neap_session *s, neap_array *ids, neap_param *rows, neap_plan **out)
{
    neap_status status = np_scope_push(s->ctx);
    if (status != NEAP_OK)
        return status;
    np_forward f = {s->model, &s->cache, ids, rows, s->at, s->length};
    neap_array *last = s->model->arch->forward(&f);
    neap_array *write = neap_state_write(neap_state_read(s->hidden), last);
    neap_param *params[3] = {s->at, s->length, s->rows};
    status = s->ctx->status;
    if (status == NEAP_OK)
        status = np_plan_make(s->ctx, 1, &write, rows ? 3 : 2, params, out);
    neap_scope_pop(s->ctx);
    return status;
}

static neap_status plan_head(neap_session *s)
{
    neap_status status = np_scope_push(s->ctx);
    if (status != NEAP_OK)
        return status;
    neap_array *scores = s->model->arch->head(s->model, neap_state_read(s->hidden));
    status = s->ctx->status;
    if (status == NEAP_OK)
        status = np_plan_make(s->ctx, 1, &scores, 0, NULL, &s->head);
    neap_scope_pop(s->ctx);
    return status;
}

static neap_status make_ids(neap_session *s, int64_t n, neap_array **out)
{
    neap_status status = np_scope_push(s->ctx);
    if (status != NEAP_OK)
        return status;
    *out = neap_retain(neap_array_zeros(NEAP_I32, 1, &n));
    status = s->ctx->status;
    neap_scope_pop(s->ctx);
    return status;
}

neap_status np_session_plan_prefill(neap_session *s, int64_t chunk)
{
    neap_plan_free(s->prefill);
    neap_release(s->prefill_ids);
    neap_param_free(s->rows);
    s->prefill = NULL;
    s->prefill_ids = NULL;
    s->rows = NULL;
    neap_context_trim(s->ctx); /* what planning takes does not hang on what was planned before */
    const int64_t capacity = chunk < s->context ? chunk : s->context;
    neap_status status = make_ids(s, capacity, &s->prefill_ids);
    if (status == NEAP_OK)
        status = np_param_new(s->ctx, "rows", capacity, &s->rows);
    if (status == NEAP_OK)
        status = plan_forward(s, s->prefill_ids, s->rows, &s->prefill);
    s->chunk = chunk;
    neap_context_trim(s->ctx); /* what building took is given back before anything is compared */
    return status;
}

neap_status np_session_plan_rest(neap_session *s)
{
    const int64_t hidden[2] = {1, s->model->sizes.hidden};
    neap_context *ctx = s->ctx;
    neap_status status =
        np_kv_cache_new(ctx, &s->model->sizes, s->context, s->options.kv_type, &s->cache);
    if (status == NEAP_OK)
        status = np_state_new(ctx, "hidden", NEAP_F32, 2, hidden, &s->hidden);
    if (status == NEAP_OK)
        status = np_param_new(ctx, "position", s->context, &s->at);
    if (status == NEAP_OK)
        status = np_param_new(ctx, "length", s->context, &s->length);
    if (status == NEAP_OK)
        status = plan_head(s);
    if (status == NEAP_OK && s->options.decode)
        status = make_ids(s, 1, &s->decode_ids);
    if (status == NEAP_OK && s->options.decode)
        status = plan_forward(s, s->decode_ids, NULL, &s->decode);
    return status;
}

void np_session_drop_plans(neap_session *s)
{
    neap_plan_free(s->prefill);
    neap_plan_free(s->decode);
    neap_plan_free(s->head);
    neap_release(s->prefill_ids);
    neap_release(s->decode_ids);
    np_kv_cache_free(s->ctx, &s->cache);
    neap_state_free(s->hidden);
    neap_param_free(s->rows);
    neap_param_free(s->at);
    neap_param_free(s->length);
    s->prefill = s->decode = s->head = NULL;
    s->prefill_ids = s->decode_ids = NULL;
    s->hidden = NULL;
    s->rows = s->at = s->length = NULL;
    neap_context_trim(s->ctx);
}

/* ---- a session --------------------------------------------------------------------------------
 */

static neap_status check_options(neap_session *s)
{
    const neap_session_options *o = &s->options;
    const int64_t most = s->model->sizes.context_length;
    if (o->context < 0 || o->context > most)
        return np_fail(s->ctx, NEAP_EINVAL,
                       "context: %lld, the model allows 1 to %lld, or 0 for the most "
                       "that fits",
                       (long long)o->context, (long long)most);
    if (o->chunk < 0 || o->chunk % NP_CHUNK)
        return np_fail(s->ctx, NEAP_EINVAL, "chunk: %lld, expected a multiple of %d",
                       (long long)o->chunk, NP_CHUNK);
    if (o->prompt < 0)
        return np_fail(s->ctx, NEAP_EINVAL, "prompt: %lld, expected 0 or more",
                       (long long)o->prompt);
    if (o->kv_type != NEAP_F16 && o->kv_type != NEAP_F32)
        return np_fail(s->ctx, NEAP_EDTYPE, "KV cache: expected f16 or f32");
    if ((unsigned)o->weights > NEAP_WEIGHTS_REPACKED)
        return np_fail(s->ctx, NEAP_EINVAL, "weights: mode %d is not known", (int)o->weights);
    return NEAP_OK;
}

static neap_status session_new(neap_model *model, const neap_session_options *options,
                             neap_session **out)
{
    neap_context *ctx = model->ctx;
    *out = NULL;
    if (model->refusal[0])
        return np_fail(ctx, NEAP_EUNSUPPORTED, "%s: %s", model->gguf->name, model->refusal);
    neap_session *s = np_calloc(ctx, NEAP_MEM_HOST, sizeof *s);
    if (!s)
        return NEAP_ENOMEM;
    s->model = model;
    s->ctx = ctx;
    s->options = (neap_session_options)NEAP_SESSION_OPTIONS_INIT;
    neap_status status = np_take_options(ctx, "session", options, &s->options, sizeof s->options);
    if (status == NEAP_OK)
        status = check_options(s);
    if (status == NEAP_OK &&
        !np_grow(ctx, NEAP_MEM_HOST, &s->text.data, &s->text.capacity, NP_TEXT_ROOM, 1))
        status = NEAP_ENOMEM;
    if (status == NEAP_OK)
        status = neap_sampler_new(ctx, NULL, (int32_t)model->sizes.vocabulary, &s->greedy);
    if (status == NEAP_OK)
        status = np_session_choose(s);
    if (status != NEAP_OK) {
        neap_session_free(s);
        return status;
    }
    model->sessions++;
    s->counted = true;
    *out = s;
    return NEAP_OK;
}

neap_status neap_session_new(neap_model *model, const neap_session_options *options,
                             neap_session **out)
{
    if (out)
        *out = NULL;
    return NP_CALL_ON(model, out, session_new(model, options, out));
}

void neap_session_free(neap_session *s)
{
    if (!s)
        return;
    s->model->sessions -= s->counted;
    np_session_drop_plans(s);
    neap_sampler_free(s->greedy);
    np_free(s->ctx, NEAP_MEM_HOST, s->text.data, s->text.capacity);
    np_free(s->ctx, NEAP_MEM_HOST, s, sizeof *s);
}

static neap_status session_start(neap_session *s)
{
    if (s->started)
        return NEAP_OK;
    neap_status status = np_model_load(s->model);
    neap_plan *plans[3] = {s->prefill, s->decode, s->head};
    for (int i = 0; status == NEAP_OK && i < 3; i++)
        if (plans[i])
            status = np_plan_reserve(plans[i]);
    s->started = status == NEAP_OK;
    return status;
}

neap_status neap_session_start(neap_session *s)
{
    return NP_CALL_ON(s, true, session_start(s));
}

static neap_status check_ids(const neap_session *s, const int32_t *ids, int64_t n)
{
    if (n < 1 || !ids)
        return np_fail(s->ctx, NEAP_EINVAL, "prefill: %lld tokens, expected 1 or more",
                       (long long)n);
    if (!s->model->sizes.causal && n > s->chunk)
        return np_fail(s->ctx, NEAP_ELIMIT,
                       "prefill: %lld tokens, each of which sees all others: at most %lld at once "
                       "(option prompt)",
                       (long long)n, (long long)s->chunk);
    if (n > s->context - s->position)
        return np_fail(s->ctx, NEAP_ELIMIT,
                       "%lld tokens more do not fit: the context holds %lld of %lld", (long long)n,
                       (long long)s->position, (long long)s->context);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->model->sizes.vocabulary)
            return np_fail(s->ctx, NEAP_EINVAL, "token %lld is %d, the vocabulary has %lld",
                           (long long)i, ids[i], (long long)s->model->sizes.vocabulary);
    return NEAP_OK;
}

static neap_status session_prefill(neap_session *s, const int32_t *ids, int64_t n)
{
    neap_status status = check_ids(s, ids, n);
    if (status == NEAP_OK)
        status = neap_session_start(s);
    int64_t at = s->position;
    np_progress progress;
    np_progress_begin(&progress, s->ctx, "prefill", (uint64_t)n, false);
    s->scored &= status != NEAP_OK; /* what is refused leaves the scores */
    for (int64_t done = 0; status == NEAP_OK && done < n;) {
        const int64_t rows = n - done < s->chunk ? n - done : s->chunk;
        memcpy(neap_array_mutable(s->prefill_ids), ids + done, (size_t)rows * sizeof *ids);
        const int64_t values[3] = {at, at + rows, rows};
        status = neap_plan_run(s->prefill, values);
        at += rows;
        done += rows;
        np_progress_at(&progress, (uint64_t)done);
    }
    np_progress_end(&progress, status);
    if (status == NEAP_OK)
        status = neap_plan_run(s->head, NULL);
    if (status == NEAP_OK)
        s->position = at, s->scored = true;
    return status;
}

neap_status neap_session_prefill(neap_session *s, const int32_t *ids, int64_t n)
{
    return NP_CALL_ON(s, ids, session_prefill(s, ids, n));
}

static neap_status session_step(neap_session *s, int32_t id)
{
    if (!s->decode)
        return np_fail(s->ctx, NEAP_EINVAL, "step: the session was planned without decoding");
    neap_status status = check_ids(s, &id, 1);
    if (status == NEAP_OK)
        status = neap_session_start(s);
    if (status != NEAP_OK)
        return status;
    s->scored = false;
    memcpy(neap_array_mutable(s->decode_ids), &id, sizeof id);
    const int64_t values[2] = {s->position, s->position + 1};
    status = neap_plan_run(s->decode, values);
    if (status == NEAP_OK)
        status = neap_plan_run(s->head, NULL);
    if (status == NEAP_OK)
        s->position++, s->scored = true;
    return status;
}

neap_status neap_session_step(neap_session *s, int32_t id)
{
    return NP_CALL_ON(s, true, session_step(s, id));
}

const float *neap_session_logits(const neap_session *s)
{
    return s && s->scored ? neap_array_data(neap_plan_output(s->head, 0)) : NULL;
}

int64_t neap_session_position(const neap_session *s)
{
    return s->position;
}

static neap_status session_rewind(neap_session *s, int64_t position)
{
    if (position < 0 || position > s->position)
        return np_fail(s->ctx, NEAP_EINVAL, "rewind to %lld: the context holds %lld", (long long)position, (long long)s->position);
    s->scored &= position == s->position;
    s->position = position;
    return NEAP_OK;
}

neap_status neap_session_rewind(neap_session *s, int64_t position)
{
    return NP_CALL_ON(s, true, session_rewind(s, position));
}
