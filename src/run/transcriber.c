/* transcriber.c - opening a Whisper model: four files that have to fit each other. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audio/mel.h"
#include "base/reader.h"
#include "base/versioned.h"
#include "run/transcribe.h"

const char *const np_part_files[NP_PARTS] = {"encoder.pte", "cross_kv.pte", "decoder.pte"};

/* ---- parts ---------------------------------------------------------------------------------- */

neap_status np_part_failed(neap_transcriber *t, np_part part, neap_status status)
{
    neap_handle *h = t->parts[part].handle;
    const char *text = h ? neap_context_error(neap_handle_context(h)) : "";
    return np_fail(t->ctx, status, "%s: %s", np_part_files[part],
                   *text ? text : neap_status_text(status));
}

static const neap_value *inputs_of(const neap_transcriber *t, np_part part, int *n)
{
    const neap_value *inputs[NP_PARTS] = {&t->features, &t->hidden, t->decoder_inputs};
    *n = part == NP_SAY ? 2 + t->n_cross : 1;
    return inputs[part];
}

neap_status np_part_plan(neap_transcriber *t, np_part part, neap_execution_plan *plan,
                         bool (*visit)(void *user, const neap_plan_alive *alive), void *user)
{
    int n;
    const neap_value *in = inputs_of(t, part, &n);
    const neap_status status = neap_handle_plan(t->parts[part].handle, n, in, plan, visit, user);
    return status == NEAP_OK ? NEAP_OK : np_part_failed(t, part, status);
}

neap_status np_part_visit(neap_transcriber *t, np_part part, neap_plan_visit *visit, void *user)
{
    int n;
    const neap_value *in = inputs_of(t, part, &n);
    const neap_status status =
        neap_handle_visit_plans(t->parts[part].handle, n, in, visit, user);
    return status == NEAP_OK ? NEAP_OK : np_part_failed(t, part, status);
}

static neap_status open_handle(neap_transcriber *t, np_part part)
{
    np_part_program *p = &t->parts[part];
    neap_handle_options o = NEAP_HANDLE_OPTIONS_INIT;
    o.threads = t->threads;
    const neap_status status = neap_handle_open(p->program, p->method, &o, &p->handle);
    if (status == NEAP_OK)
        return NEAP_OK;
    p->handle = NULL;
    t->ctx->status = status; /* reported by who was called from outside */
    np_fail_prefix(t->ctx, "%s", np_part_files[part]);
    return status;
}

/* What the first plan took for a time is given back; what the second one takes a run takes too. */
neap_status np_part_open(neap_transcriber *t, np_part part, neap_execution_plan *plan)
{
    neap_status status = open_handle(t, part);
    if (status == NEAP_OK) {
        status = neap_handle_set_plan_budget(t->parts[part].handle, t->parts[part].budget);
        status = status == NEAP_OK ? NEAP_OK : np_part_failed(t, part, status);
    }
    if (status == NEAP_OK)
        status = np_part_plan(t, part, plan, NULL, NULL);
    if (status != NEAP_OK)
        return status;
    neap_context_trim(neap_handle_context(t->parts[part].handle));
    neap_context_trim(t->ctx);
    return np_part_plan(t, part, plan, NULL, NULL);
}

void np_part_close(neap_transcriber *t, np_part part)
{
    np_part_program *p = &t->parts[part];
    neap_handle_stats s = NEAP_HANDLE_STATS_INIT;
    if (!p->handle)
        return;
    neap_handle_tell(p->handle, &s);
    t->stats.barriers += s.barriers;
    t->stats.plans += s.plans;
    t->stats.plan_hits += s.plan_hits;
    t->stats.steps += s.steps;
    t->stats.plan_seconds += s.plan_seconds;
    neap_handle_close(p->handle);
    p->handle = NULL;
}

/* ---- files ---------------------------------------------------------------------------------- */

static neap_status path_of(neap_transcriber *t, const char *folder, const char *file, char *out,
                           size_t room)
{
    const int n = snprintf(out, room, "%s/%s", folder, file);
    if (n > 0 && (size_t)n < room)
        return NEAP_OK;
    return np_fail(t->ctx, NEAP_EINVAL, "a path of %zu bytes is too long", strlen(folder));
}

static neap_status open_program(neap_transcriber *t, const char *folder, np_part part)
{
    char path[4096];
    np_part_program *p = &t->parts[part];
    neap_status status = path_of(t, folder, np_part_files[part], path, sizeof path);
    if (status != NEAP_OK)
        return status;
    status = neap_program_open(t->ctx, path, &p->program);
    if (status != NEAP_OK) {
        p->program = NULL;
        t->ctx->status = status;
        return status;
    }
    p->method = neap_program_find_method(p->program, "forward");
    if (p->method >= 0)
        return NEAP_OK;
    neap_context_clear_error(t->ctx);
    return np_fail(t->ctx, NEAP_EUNSUPPORTED, "%s: no method forward", path);
}

static neap_status open_tokenizer(neap_transcriber *t, const char *folder, int32_t vocabulary)
{
    char path[4096];
    neap_status status = path_of(t, folder, "tokenizer.json", path, sizeof path);
    if (status != NEAP_OK)
        return status;
    status = neap_tokenizer_open(t->ctx, path, &t->tokenizer);
    if (status != NEAP_OK) {
        t->tokenizer = NULL;
        t->ctx->status = status;
        return status;
    }
    return np_whisper_find_tokens(t->ctx, t->tokenizer, vocabulary, &t->tokens);
}

/* ---- what the programs take and give -------------------------------------------------------- */

uint64_t np_value_bytes(const neap_value *v)
{
    uint64_t n = (uint64_t)neap_dtype_describe(v->dtype)->block_bytes;
    for (int i = 0; i < v->rank; i++)
        if (v->shape[i] < 0 || !np_mul_size(n, (uint64_t)v->shape[i], &n))
            return UINT64_MAX;
    return n;
}

static neap_status unlike(neap_transcriber *t, np_part part, const char *what)
{
    return np_fail(t->ctx, NEAP_EUNSUPPORTED, "%s: %s", np_part_files[part], what);
}

static bool is_float(const neap_value *v)
{
    return v->kind == NEAP_VALUE_TENSOR &&
           (v->dtype == NEAP_F32 || v->dtype == NEAP_F16 || v->dtype == NEAP_BF16);
}

static bool same_shape(const neap_value *a, const neap_value *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static bool read_port(const neap_transcriber *t, np_part part, bool output, int i, neap_value *out)
{
    const np_part_program *p = &t->parts[part];
    const neap_status status = output ? neap_program_output(p->program, p->method, i, out)
                                      : neap_program_input(p->program, p->method, i, out);
    return status == NEAP_OK;
}

static neap_status check_encoder(neap_transcriber *t)
{
    neap_value *f = &t->features, *h = &t->hidden, taken;
    if (!read_port(t, NP_HEAR, false, 0, f) || !is_float(f) || f->rank != 3 || f->shape[0] != 1 ||
        (f->shape[1] != 80 && f->shape[1] != 128) || f->shape[2] != NEAP_MEL_FRAMES)
        return unlike(t, NP_HEAR, "its input is not [1, 80 or 128, 3000] of floats");
    if (!read_port(t, NP_HEAR, true, 0, h) || !is_float(h) || h->rank < 1)
        return unlike(t, NP_HEAR, "its output is no tensor of floats");
    if (!read_port(t, NP_PREPARE, false, 0, &taken) || !same_shape(h, &taken))
        return unlike(t, NP_PREPARE, "its input is not what encoder.pte gives");
    return NEAP_OK;
}

static neap_status check_cross(neap_transcriber *t)
{
    const np_part_program *p = &t->parts[NP_PREPARE], *d = &t->parts[NP_SAY];
    t->n_cross = neap_program_outputs(p->program, p->method);
    if (t->n_cross < 2 || t->n_cross > NP_CROSS_MOST)
        return unlike(t, NP_PREPARE, "its outputs are not the keys and values of some layers");
    if (neap_program_inputs(d->program, d->method) != 2 + t->n_cross)
        return unlike(t, NP_SAY, "its inputs are not an id, a position and what cross_kv.pte gives");
    for (int i = 0; i < t->n_cross; i++) {
        neap_value *taken = &t->decoder_inputs[2 + i];
        if (!read_port(t, NP_PREPARE, true, i, &t->cross[i]) || !is_float(&t->cross[i]) ||
            t->cross[i].rank != 4 || !read_port(t, NP_SAY, false, 2 + i, taken) ||
            !same_shape(&t->cross[i], taken))
            return unlike(t, NP_SAY, "its keys and values are not what cross_kv.pte gives");
    }
    return NEAP_OK;
}

/* A tensor of one integer. */
static bool is_number(const neap_value *v)
{
    return v->kind == NEAP_VALUE_TENSOR && (v->dtype == NEAP_I64 || v->dtype == NEAP_I32) &&
           np_value_bytes(v) == (uint64_t)neap_dtype_describe(v->dtype)->block_bytes;
}

/* The buffers of the text's keys and values have the layout of those of the sound, another length:
 * [1, heads, positions, size of a head]. */
static neap_status find_positions(neap_transcriber *t)
{
    const np_part_program *d = &t->parts[NP_SAY];
    neap_method_info info = NEAP_METHOD_INFO_INIT;
    uint64_t cross_bytes = 0;
    const neap_status status = neap_program_method_info(d->program, d->method, &info);
    if (status != NEAP_OK)
        return status;
    for (int i = 0; i < t->n_cross; i++)
        if (!np_add_size(cross_bytes, np_value_bytes(&t->cross[i]), &cross_bytes))
            return unlike(t, NP_PREPARE, "its outputs are too large");
    const uint64_t frames = (uint64_t)t->cross[0].shape[2];
    const uint64_t position = frames ? cross_bytes / frames : 0;
    if (!position || info.buffer_bytes % position || info.buffer_bytes / position < 8 ||
        info.buffer_bytes / position > 1 << 20)
        return np_fail(t->ctx, NEAP_EUNSUPPORTED,
                       "%s: its %" PRId64 " buffers with %" PRIu64
                       " bytes are not the keys and values of a text",
                       np_part_files[NP_SAY], info.buffers, info.buffer_bytes);
    t->positions = (int32_t)(info.buffer_bytes / position);
    return NEAP_OK;
}

static neap_status check_decoder(neap_transcriber *t, int32_t *vocabulary)
{
    neap_value *in = t->decoder_inputs, scores;
    if (!read_port(t, NP_SAY, false, 0, &in[0]) || !read_port(t, NP_SAY, false, 1, &in[1]) ||
        !is_number(&in[0]) || !is_number(&in[1]))
        return unlike(t, NP_SAY, "its first inputs are not an id and a position");
    if (!read_port(t, NP_SAY, true, 0, &scores) || !is_float(&scores) || scores.rank < 1 ||
        scores.shape[scores.rank - 1] > INT32_MAX ||
        np_value_bytes(&scores) != (uint64_t)scores.shape[scores.rank - 1] *
                                       (uint64_t)neap_dtype_describe(scores.dtype)->block_bytes)
        return unlike(t, NP_SAY, "its output is not a row of scores");
    *vocabulary = (int32_t)scores.shape[scores.rank - 1];
    in[0].data = in[0].dtype == NEAP_I64 ? (const void *)&t->id : &t->id32;
    in[1].data = in[1].dtype == NEAP_I64 ? (const void *)&t->position : &t->position32;
    return find_positions(t);
}

/* ---- open ----------------------------------------------------------------------------------- */

static neap_status take_room(neap_transcriber *t)
{
    neap_context *ctx = t->ctx;
    t->samples =
        np_alloc_pages(ctx, NEAP_MEM_HOST, (uint64_t)NEAP_MEL_SAMPLES * sizeof *t->samples);
    t->scores =
        np_alloc_pages(ctx, NEAP_MEM_HOST, (uint64_t)t->tokens.vocabulary * sizeof *t->scores);
    if (!t->samples || !t->scores ||
        !np_grow(ctx, NEAP_MEM_HOST, &t->measured.data, &t->measured.capacity, NP_SPEECH_TEXT_ROOM,
                 1) ||
        !np_grow(ctx, NEAP_MEM_HOST, &t->heard.data, &t->heard.capacity, NP_SPEECH_TEXT_ROOM, 1))
        return NEAP_ENOMEM;
    return neap_mel_new(ctx, (int)t->features.shape[1], &t->mel);
}

static neap_status open_all(neap_transcriber *t, const char *folder, uint64_t limit,
                            bool want_least)
{
    int32_t vocabulary = 0;
    neap_status status = NEAP_OK;
    for (int part = 0; status == NEAP_OK && part < NP_PARTS; part++)
        status = open_program(t, folder, (np_part)part);
    if (status == NEAP_OK)
        status = check_encoder(t);
    if (status == NEAP_OK)
        status = check_cross(t);
    if (status == NEAP_OK)
        status = check_decoder(t, &vocabulary);
    if (status == NEAP_OK)
        status = open_tokenizer(t, folder, vocabulary);
    if (status == NEAP_OK)
        status = take_room(t);
    if (status == NEAP_OK)
        status = np_transcriber_plan(t, limit, want_least);
    return status;
}

static neap_status transcriber_open(neap_context *ctx, const char *folder,
                                  const neap_transcriber_options *options, neap_transcriber **out)
{
    neap_transcriber_options o = NEAP_TRANSCRIBER_OPTIONS_INIT;
    *out = NULL;
    if (np_take_options(ctx, "transcriber", options, &o, sizeof o) != NEAP_OK)
        return NEAP_EINVAL;
    neap_transcriber *t = np_calloc(ctx, NEAP_MEM_HOST, sizeof *t);
    if (!t)
        return NEAP_ENOMEM;
    t->ctx = ctx;
    t->threads = o.threads;
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    uint64_t limit = m.limit ? m.limit : UINT64_MAX;
    limit = o.memory && o.memory < limit ? o.memory : limit;
    neap_status status = open_all(t, folder, limit, o.find_least);
    if (status == NEAP_OK && o.memory)
        status = neap_context_set_limit(ctx, limit);
    if (status != NEAP_OK) {
        neap_transcriber_close(t);
        return status;
    }
    *out = t;
    return NEAP_OK;
}

neap_status neap_transcriber_open(neap_context *ctx, const char *folder,
                                  const neap_transcriber_options *options, neap_transcriber **out)
{
    if (out)
        *out = NULL;
    return NP_CALL(ctx, folder && out, transcriber_open(ctx, folder, options, out));
}

void neap_transcriber_close(neap_transcriber *t)
{
    if (!t)
        return;
    neap_context *ctx = t->ctx;
    for (int part = 0; part < NP_PARTS; part++) {
        np_part_close(t, (np_part)part);
        neap_program_close(t->parts[part].program);
    }
    neap_mel_free(t->mel);
    if (t->samples)
        np_free_pages(ctx, NEAP_MEM_HOST, t->samples,
                      (uint64_t)NEAP_MEL_SAMPLES * sizeof *t->samples);
    if (t->scores)
        np_free_pages(ctx, NEAP_MEM_HOST, t->scores,
                      (uint64_t)t->tokens.vocabulary * sizeof *t->scores);
    neap_text_free(ctx, &t->measured);
    neap_text_free(ctx, &t->heard);
    neap_tokenizer_free(t->tokenizer);
    np_free(ctx, NEAP_MEM_HOST, t, sizeof *t);
}

void neap_transcriber_describe(const neap_transcriber *t, neap_transcriber_info *info)
{
    neap_transcriber_info full = t->info;
    np_tell(info, &full, sizeof full);
}
