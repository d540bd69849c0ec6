/* decoder.c - see neap/decoder.h. */
#include "neap/decoder.h"

#include <string.h>

#include "base/progress.h"
#include "base/versioned.h"
#include "cpu/kernels.h"
#include "program/handle.h"
#include "run/text_loop.h"

enum { CHUNK_DEFAULT = 512, TEXT_ROOM = 8192 };

/* What the method takes and gives. */
typedef struct np_decoder_form {
    neap_context *ctx; /* of errors */
    const neap_program *program;
    int method, n_outputs;
    neap_value inputs[2];
    bool start_only; /* the position of the first token stands for all */
    neap_decoder_info info;
} np_decoder_form;

struct neap_decoder {
    neap_handle *handle;
    neap_context *ctx;
    neap_decoder_options options;
    np_decoder_form form;
    int64_t *numbers; /* ids and positions of a call, [2 * chunk] */
    neap_value *outputs;
    float *logits;
    neap_text text;
    neap_sampler *greedy;
    int64_t position;
};

/* ---- what the method is ------------------------------------------------------------------- */

static const char *method_name(const np_decoder_form *f)
{
    return neap_program_method_name(f->program, f->method);
}

/* The value of a method that gives one integer; 0: there is none such. */
static int64_t constant(const neap_program *p, const char *const *names)
{
    for (; *names; names++)
        for (int m = 0; m < neap_program_methods(p); m++) {
            neap_value v;
            if (strcmp(neap_program_method_name(p, m), *names) == 0 &&
                neap_program_inputs(p, m) == 0 && neap_program_outputs(p, m) == 1 &&
                neap_program_output(p, m, 0, &v) == NEAP_OK && v.kind == NEAP_VALUE_INT &&
                v.integer > 0)
                return v.integer;
        }
    return 0;
}

/* i32 or i64 [1, T], or [T] if that will do. */
static bool is_row(const neap_value *v, bool flat)
{
    return v->kind == NEAP_VALUE_TENSOR && (v->dtype == NEAP_I32 || v->dtype == NEAP_I64) &&
           ((v->rank == 2 && v->shape[0] == 1) || (flat && v->rank == 1));
}

static int64_t length_of(const neap_value *v)
{
    return v->shape[v->rank - 1];
}

static neap_status read_inputs(np_decoder_form *f)
{
    const neap_program *p = f->program;
    const int n = neap_program_inputs(p, f->method);
    neap_value *ids = &f->inputs[0], *positions = &f->inputs[1];
    if (n != 2)
        return np_fail(f->ctx, NEAP_EUNSUPPORTED,
                       "method %s takes %d inputs, text needs two: ids [1, T] and positions [T]",
                       method_name(f), n);
    neap_program_input(p, f->method, 0, ids);
    neap_program_input(p, f->method, 1, positions);
    if (!is_row(ids, false) || !is_row(positions, true))
        return np_fail(f->ctx, NEAP_EUNSUPPORTED,
                       "method %s: its inputs are not ids [1, T] and positions [T], i32 or i64",
                       method_name(f));
    f->info.longest_call = length_of(ids);
    f->start_only = ids->bounded && !positions->bounded && length_of(positions) == 1;
    if (f->info.longest_call < 1 || (!ids->bounded && length_of(ids) != 1))
        return np_fail(f->ctx, NEAP_EUNSUPPORTED,
                       "method %s takes exactly %lld tokens a call: a text needs a program that "
                       "takes one, or any number up to a bound",
                       method_name(f), (long long)length_of(ids));
    if (!f->start_only && length_of(positions) != length_of(ids))
        return np_fail(f->ctx, NEAP_EUNSUPPORTED, "method %s takes %lld ids, but %lld positions",
                       method_name(f), (long long)length_of(ids), (long long)length_of(positions));
    return NEAP_OK;
}

static neap_status read_output(np_decoder_form *f)
{
    neap_value v = {.kind = NEAP_VALUE_NONE};
    f->n_outputs = neap_program_outputs(f->program, f->method);
    if (f->n_outputs > 0)
        neap_program_output(f->program, f->method, 0, &v);
    const bool scores = v.kind == NEAP_VALUE_TENSOR && (v.rank == 2 || v.rank == 3) &&
                        neap_dtype_describe(v.dtype)->class_ == NEAP_CLASS_FLOAT &&
                        v.shape[0] == 1 && length_of(&v) > 0 && length_of(&v) <= INT32_MAX;
    if (!scores)
        return np_fail(f->ctx, NEAP_EUNSUPPORTED,
                       "method %s: its first output is no scores [1, T, V] or [1, V]",
                       method_name(f));
    f->info.vocabulary = length_of(&v);
    return NEAP_OK;
}

static neap_status read_form(np_decoder_form *f)
{
    static const char *const contexts[] = {"get_max_context_len", "get_max_ctx_len",
                                           "get_max_seq_len", NULL};
    static const char *const chunks[] = {"get_max_prefill_chunk", "get_prefill_chunk_size", NULL};
    if (!method_name(f))
        return np_fail(f->ctx, NEAP_EINVAL, "no method %d, the program has %d", f->method,
                       neap_program_methods(f->program));
    neap_status status = read_inputs(f);
    if (status == NEAP_OK)
        status = read_output(f);
    if (status != NEAP_OK)
        return status;
    const int64_t chunk = constant(f->program, chunks);
    f->info.longest_context = constant(f->program, contexts);
    if (chunk && chunk < f->info.longest_call)
        f->info.longest_call = chunk;
    return NEAP_OK;
}

static neap_status decoder_inspect(const neap_program *program, int method, neap_decoder_info *info)
{
    np_decoder_form f = {.ctx = program->ctx, .program = program, .method = method};
    const neap_status status = read_form(&f);
    if (status == NEAP_OK)
        np_tell(info, &f.info, sizeof f.info);
    return status;
}

neap_status neap_decoder_inspect(const neap_program *program, int method, neap_decoder_info *info)
{
    return NP_CALL_ON(program, info, decoder_inspect(program, method, info));
}

static neap_status choose_sizes(neap_decoder *d)
{
    neap_decoder_info *i = &d->form.info;
    i->context = d->options.context ? d->options.context : i->longest_context;
    if (!i->context)
        return np_fail(d->ctx, NEAP_EINVAL, "context: the program does not say how many positions "
                                            "it has, so the number must be given");
    if (i->context < 1 || (i->longest_context && i->context > i->longest_context))
        return np_fail(d->ctx, NEAP_EINVAL, "context: %lld, the program allows 1 to %lld",
                       (long long)i->context,
                       (long long)(i->longest_context ? i->longest_context : INT64_MAX));
    if (d->options.chunk < 0)
        return np_fail(d->ctx, NEAP_EINVAL, "chunk: %lld, expected 0 or more",
                       (long long)d->options.chunk);
    i->chunk = d->options.chunk ? d->options.chunk : CHUNK_DEFAULT;
    i->chunk = i->chunk < i->longest_call ? i->chunk : i->longest_call;
    i->chunk = i->chunk < i->context ? i->chunk : i->context;
    return NEAP_OK;
}

/* ---- making ------------------------------------------------------------------------------- */

static neap_status take_buffers(neap_decoder *d)
{
    const neap_decoder_info *i = &d->form.info;
    d->numbers = np_calloc(d->ctx, NEAP_MEM_HOST, 2 * (size_t)i->chunk * sizeof *d->numbers);
    d->outputs = np_calloc(d->ctx, NEAP_MEM_HOST, (size_t)d->form.n_outputs * sizeof *d->outputs);
    d->logits = np_calloc(d->ctx, NEAP_MEM_HOST, (size_t)i->vocabulary * sizeof *d->logits);
    if (!d->numbers || !d->outputs || !d->logits ||
        !np_grow(d->ctx, NEAP_MEM_HOST, &d->text.data, &d->text.capacity, TEXT_ROOM, 1))
        return NEAP_ENOMEM;
    return neap_sampler_new(d->ctx, NULL, (int32_t)i->vocabulary, &d->greedy);
}

static neap_status decoder_new(neap_handle *handle, const neap_decoder_options *options,
                             neap_decoder **out)
{
    neap_context *ctx = handle->ctx;
    *out = NULL;
    neap_decoder *d = np_calloc(ctx, NEAP_MEM_HOST, sizeof *d);
    if (!d)
        return NEAP_ENOMEM;
    d->handle = handle;
    d->ctx = ctx;
    d->form = (np_decoder_form){.ctx = ctx,
                                .program = handle->program,
                                .method = (int)(handle->method - handle->program->pte->methods)};
    d->options = (neap_decoder_options)NEAP_DECODER_OPTIONS_INIT;
    neap_status status = np_take_options(ctx, "decoder", options, &d->options, sizeof d->options);
    if (status == NEAP_OK)
        status = read_form(&d->form);
    if (status == NEAP_OK)
        status = choose_sizes(d);
    if (status == NEAP_OK)
        status = take_buffers(d);
    if (status == NEAP_OK)
        *out = d;
    else
        neap_decoder_free(d);
    return status;
}

neap_status neap_decoder_new(neap_handle *handle, const neap_decoder_options *options,
                             neap_decoder **out)
{
    if (out)
        *out = NULL;
    return NP_CALL_ON(handle, out, decoder_new(handle, options, out));
}

void neap_decoder_free(neap_decoder *d)
{
    if (!d)
        return;
    neap_context *ctx = d->ctx;
    neap_sampler_free(d->greedy);
    np_free(ctx, NEAP_MEM_HOST, d->text.data, d->text.capacity);
    np_free(ctx, NEAP_MEM_HOST, d->logits, (size_t)d->form.info.vocabulary * sizeof *d->logits);
    np_free(ctx, NEAP_MEM_HOST, d->outputs, (size_t)d->form.n_outputs * sizeof *d->outputs);
    np_free(ctx, NEAP_MEM_HOST, d->numbers, 2 * (size_t)d->form.info.chunk * sizeof *d->numbers);
    np_free(ctx, NEAP_MEM_HOST, d, sizeof *d);
}

void neap_decoder_describe(const neap_decoder *d, neap_decoder_info *info)
{
    neap_decoder_info i = d->form.info;
    np_tell(info, &i, sizeof i);
}

/* ---- calls -------------------------------------------------------------------------------- */

/* ids, or numbers from `first` on, in the dtype of the input. */
static void fill(const neap_value *like, int64_t n, const int32_t *ids, int64_t first, void *to,
                 neap_value *out)
{
    *out = *like;
    out->shape[out->rank - 1] = n;
    out->data = to;
    out->bytes = (uint64_t)n * (like->dtype == NEAP_I64 ? 8 : 4);
    for (int64_t i = 0; i < n; i++) {
        const int64_t value = ids ? ids[i] : first + i;
        if (like->dtype == NEAP_I64)
            ((int64_t *)to)[i] = value;
        else
            ((int32_t *)to)[i] = (int32_t)value;
    }
}

static void set_inputs(neap_decoder *d, const int32_t *ids, int64_t n, int64_t position,
                       neap_value in[2])
{
    fill(&d->form.inputs[0], n, ids, 0, d->numbers, &in[0]);
    fill(&d->form.inputs[1], d->form.start_only ? 1 : n, NULL, position, d->numbers + d->form.info.chunk, &in[1]);
}

/* The last token's scores, as f32. */
static neap_status take_scores(neap_decoder *d)
{
    const neap_value *v = &d->outputs[0];
    const int64_t size = neap_dtype_describe(v->dtype)->block_bytes;
    const int64_t vocabulary = d->form.info.vocabulary;
    int64_t rows = 1;
    for (int i = 0; i < v->rank - 1; i++)
        rows *= v->shape[i];
    const bool scores = v->kind == NEAP_VALUE_TENSOR && v->rank > 0 && rows > 0 &&
                        length_of(v) == vocabulary &&
                        neap_dtype_describe(v->dtype)->class_ == NEAP_CLASS_FLOAT;
    if (!scores)
        return np_fail(d->ctx, NEAP_ESHAPE, "method %s gave no scores of %lld tokens",
                       method_name(&d->form), (long long)vocabulary);
    const char *last = (const char *)v->data + (rows - 1) * vocabulary * size;
    if (v->dtype == NEAP_F32)
        memcpy(d->logits, last, (size_t)vocabulary * sizeof *d->logits);
    else
        d->ctx->kernels->span->cast[v->dtype][NEAP_F32](d->logits, last, vocabulary);
    return NEAP_OK;
}

static neap_status check_ids(const neap_decoder *d, const int32_t *ids, int64_t n,
                             int64_t position)
{
    if (n < 1 || !ids)
        return np_fail(d->ctx, NEAP_EINVAL, "%lld tokens, expected 1 or more", (long long)n);
    if (position < 0 || n > d->form.info.context - position)
        return np_fail(d->ctx, NEAP_ELIMIT,
                       "%lld tokens more do not fit: the context holds %lld of %lld", (long long)n,
                       (long long)position, (long long)d->form.info.context);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= d->form.info.vocabulary)
            return np_fail(d->ctx, NEAP_EINVAL, "token %lld is %d, the vocabulary has %lld",
                           (long long)i, ids[i], (long long)d->form.info.vocabulary);
    return NEAP_OK;
}

/* The inputs of a planned call. */
static neap_status plan_inputs(neap_decoder *d, const int32_t *ids, int64_t n, int64_t position,
                               neap_value in[2])
{
    neap_status status = check_ids(d, ids, n, position);
    if (status == NEAP_OK && n > d->form.info.chunk)
        status = np_fail(d->ctx, NEAP_EINVAL, "%lld tokens, a call takes at most %lld",
                         (long long)n, (long long)d->form.info.chunk);
    if (status == NEAP_OK)
        set_inputs(d, ids, n, position, in);
    return status;
}

static neap_status decoder_plan(neap_decoder *d, const int32_t *ids, int64_t n, int64_t position,
                              neap_execution_plan *plan,
                              bool (*visit)(void *user, const neap_plan_alive *alive), void *user)
{
    neap_value in[2];
    const neap_status status = plan_inputs(d, ids, n, position, in);
    return status == NEAP_OK ? neap_handle_plan(d->handle, 2, in, plan, visit, user) : status;
}

neap_status neap_decoder_plan(neap_decoder *d, const int32_t *ids, int64_t n, int64_t position,
                              neap_execution_plan *plan,
                              bool (*visit)(void *user, const neap_plan_alive *alive), void *user)
{
    return NP_CALL_ON(d, ids && plan, decoder_plan(d, ids, n, position, plan, visit, user));
}

static neap_status decoder_visit_plans(neap_decoder *d, const int32_t *ids, int64_t n,
                                     int64_t position, neap_plan_visit *visit, void *user)
{
    neap_value in[2];
    const neap_status status = plan_inputs(d, ids, n, position, in);
    return status == NEAP_OK ? neap_handle_visit_plans(d->handle, 2, in, visit, user) : status;
}

neap_status neap_decoder_visit_plans(neap_decoder *d, const int32_t *ids, int64_t n,
                                     int64_t position, neap_plan_visit *visit, void *user)
{
    return NP_CALL_ON(d, ids && visit, decoder_visit_plans(d, ids, n, position, visit, user));
}

static neap_status decoder_feed(neap_decoder *d, const int32_t *ids, int64_t n)
{
    neap_status status = check_ids(d, ids, n, d->position);
    np_progress progress;
    np_progress_begin(&progress, d->ctx, "prefill", (uint64_t)n, n == 1);
    for (int64_t done = 0; status == NEAP_OK && done < n;) {
        const int64_t rows = n - done < d->form.info.chunk ? n - done : d->form.info.chunk;
        neap_value in[2];
        set_inputs(d, ids + done, rows, d->position, in);
        memset(d->outputs, 0, (size_t)d->form.n_outputs * sizeof *d->outputs);
        status = neap_handle_execute(d->handle, 2, in, d->form.n_outputs, d->outputs);
        if (status != NEAP_OK)
            break;
        d->position += rows;
        done += rows;
        np_progress_at(&progress, (uint64_t)done);
    }
    np_progress_end(&progress, status);
    if (status == NEAP_OK)
        status = take_scores(d);
    return status;
}

neap_status neap_decoder_feed(neap_decoder *d, const int32_t *ids, int64_t n)
{
    return NP_CALL_ON(d, ids, decoder_feed(d, ids, n));
}

const float *neap_decoder_logits(const neap_decoder *d)
{
    return d->logits;
}

int64_t neap_decoder_position(const neap_decoder *d)
{
    return d->position;
}

static neap_status decoder_reset(neap_decoder *d)
{
    d->position = 0;
    return neap_handle_reset(d->handle);
}

neap_status neap_decoder_reset(neap_decoder *d)
{
    return NP_CALL_ON(d, true, decoder_reset(d));
}

/* ---- text --------------------------------------------------------------------------------- */

static neap_status prefill(void *self, const int32_t *ids, int64_t n)
{
    return neap_decoder_feed(self, ids, n);
}

static neap_status step(void *self, int32_t id)
{
    return neap_decoder_feed(self, &id, 1);
}

static const float *logits(void *self)
{
    return neap_decoder_logits(self);
}

static bool full(void *self)
{
    const neap_decoder *d = self;
    return d->position >= d->form.info.context;
}

static neap_status decoder_generate(neap_decoder *d, const int32_t *prompt, int64_t n,
                                  const neap_generate_options *options,
                                  neap_generate_result *result)
{
    const np_text_source source = {.ctx = d->ctx,
                                   .tokenizer = d->options.tokenizer,
                                   .text = &d->text,
                                   .greedy = d->greedy,
                                   .self = d,
                                   .prefill = prefill,
                                   .step = step,
                                   .logits = logits,
                                   .full = full};
    return np_text_loop(&source, prompt, n, options, result);
}

neap_status neap_decoder_generate(neap_decoder *d, const int32_t *prompt, int64_t n,
                                  const neap_generate_options *options,
                                  neap_generate_result *result)
{
    return NP_CALL_ON(d, prompt, decoder_generate(d, prompt, n, options, result));
}
