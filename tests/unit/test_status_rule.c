/* test_status_rule.c - the rule of errors (neap/base.h) over every public function that returns its status:
 * a call that fails leaves nothing for the next, an error of building waits for the call that runs what
 * was built, and NULL is refused. tests/check_status.py holds that each function has its rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "neap/neap.h"

static struct fixture {
    neap_context *ctx;
    neap_array *x, *y; /* f32 [4], values */
    neap_array *delta[6];
    neap_state *state;
    neap_param *param; /* 0 to 10 */
    neap_plan *plan;   /* of one parameter */
    neap_mel *mel;
    neap_model *model;
    neap_session *session;
    neap_sampler *sampler; /* of 4 tokens */
    neap_tokenizer *tokenizer;
    neap_program *program;
    neap_handle *handle;
    neap_decoder *decoder;
    neap_text_stream stream;
    int inner; /* a handle's session */
    char npy[64];
} f;

/* What calls write into; made anew before each. */
static neap_array *parts[4];
static neap_ids ids;
static neap_text text;
static neap_execution_plan planned;

static const int64_t four[1] = {4}, sizes_ok[2] = {1, 3}, sizes_bad[2] = {1, 1};
static const int32_t good_ids[2] = {1, 2}, bad_ids[1] = {9999};
static const float logits_ok[4] = {0, 1, 2, 0}, logits_bad[4] = {0, NAN, 0, 0};
static float samples[16], mel_out[80 * 3000];
static const uint32_t first[2] = {0, 1}, end_ok[2] = {1, 2}, end_bad[2] = {0, 0};
static const uint64_t block_bytes[2] = {8, 8};
static uint64_t offsets[2], arena;
static _Alignas(64) char junk[64] = "neither a program nor an array";
static const int64_t param_bad[1] = {11}, param_ok[1] = {7};
static const neap_npy npy_ok = {.dtype = NEAP_F32, .n_dims = 1, .shape = {4}, .data = samples};
static const neap_chat_message hi = {"user", "Hi", 2};
#define MODEL NEAP_TEST_DIR "/golden/tiny-llama-q8_0.gguf"
#define PROGRAM NEAP_TEST_DIR "/golden/pte/next_token.pte"

/* ---- calls that need more than an expression ------------------------------------------------ */

static neap_status make_context(neap_context *parent, int threads)
{
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_context *c;
    o.threads = threads;
    const neap_status status = parent ? neap_context_new_child(parent, &o, &c) : neap_context_new(&o, &c);
    neap_context_free(c);
    return status;
}

static neap_status push_and_pop(neap_context *ctx)
{
    const neap_status status = neap_scope_push(ctx);
    if (status == NEAP_OK)
        neap_scope_pop(ctx);
    return status;
}

static neap_status make_state(int rank)
{
    neap_state *s;
    const neap_status status = neap_state_new(f.ctx, "s", NEAP_F32, rank, four, &s);
    neap_state_free(s);
    return status;
}

static neap_status make_param(int64_t max)
{
    neap_param *p;
    const neap_status status = neap_param_new(f.ctx, "p", max, &p);
    neap_param_free(p);
    return status;
}

static neap_status make_plan(neap_array *root)
{
    neap_plan *p;
    const neap_status status = neap_plan_make(f.ctx, 1, &root, 0, NULL, &p);
    neap_plan_free(p);
    return status;
}

static neap_status make_mel(int bins)
{
    neap_mel *m;
    const neap_status status = neap_mel_new(f.ctx, bins, &m);
    neap_mel_free(m);
    return status;
}

static neap_status open_model(const char *path)
{
    neap_model *m;
    const neap_status status = neap_model_open(f.ctx, path, &m);
    neap_model_free(m);
    return status;
}

static neap_status inspect_model(const char *path)
{
    neap_model *m;
    const neap_status status = neap_model_inspect(f.ctx, path, &m);
    neap_model_free(m);
    return status;
}

static neap_status tell_tensor(int64_t index)
{
    neap_tensor_info info = NEAP_TENSOR_INFO_INIT;
    return neap_model_tensor(f.model, index, &info);
}

static neap_status make_session(int64_t context)
{
    neap_session_options o = NEAP_SESSION_OPTIONS_INIT;
    neap_session *s;
    o.context = context;
    const neap_status status = neap_session_new(f.model, &o, &s);
    neap_session_free(s);
    return status;
}

static neap_status start_session(void)
{
    return neap_session_start(f.session);
}

static neap_status generate(const int32_t *prompt)
{
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
    o.max_tokens = 2;
    neap_session_rewind(f.session, 0);
    return neap_generate(f.session, prompt, 1, &o, &r);
}

static neap_status make_sampler(float top_p)
{
    neap_sampler_options o = NEAP_SAMPLER_OPTIONS_INIT;
    neap_sampler *s;
    o.top_p = top_p;
    const neap_status status = neap_sampler_new(f.ctx, &o, 300, &s);
    neap_sampler_free(s);
    return status;
}

static neap_status pick(const float *logits)
{
    int32_t id;
    return neap_sampler_pick(f.sampler, logits, 0, &id);
}

static neap_status open_tokenizer(const char *path)
{
    neap_tokenizer *t;
    const neap_status status = neap_tokenizer_open(f.ctx, path, &t);
    neap_tokenizer_free(t);
    return status;
}

static neap_status plan_options(int fusion)
{
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    o.max_fusion_size = fusion;
    return neap_context_plan_options(f.ctx, &o);
}

static neap_status plan_bare(bool good)
{
    const uint64_t bytes = 4;
    const uint8_t flags = 0;
    const uint32_t dep_first[2] = {0, good ? 0 : 1}, dep[1] = {0};
    neap_bare_graph g = NEAP_BARE_GRAPH_INIT;
    neap_bare_plan p = NEAP_BARE_PLAN_INIT;
    g.n = 1, g.bytes = &bytes, g.flags = &flags, g.dep_first = dep_first, g.dep = dep;
    return neap_plan_bare(f.ctx, &g, NULL, NULL, &p);
}

static bool see_value(void *user, const neap_plan_value *value)
{
    return !user && value;
}

static bool see_step(void *user, const neap_plan_step *step)
{
    return !user && step;
}

static bool see_plan(void *user, const char *name, const neap_plan *plan, bool fullest)
{
    return !user && name && plan && (fullest || !fullest);
}

static bool see_count(void *user, const neap_program_count *count)
{
    return !user && count;
}

static bool see_alive(void *user, const neap_plan_alive *alive)
{
    return !user && alive;
}

static neap_status parse_npy(bool good)
{
    neap_npy out;
    FILE *file = fopen(f.npy, "rb");
    static _Alignas(64) char bytes[4096];
    const size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    return neap_npy_parse(f.ctx, good ? bytes : junk, good ? n : sizeof junk, "a file", &out);
}

static neap_status open_program(const char *path)
{
    neap_program *p;
    const neap_status status = neap_program_open(f.ctx, path, &p);
    neap_program_close(p);
    return status;
}

static neap_status open_program_bytes(bool good)
{
    FILE *file = fopen(PROGRAM, "rb");
    static _Alignas(64) char bytes[1 << 18];
    neap_program *p;
    assert_non_null(file);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    const neap_status status = neap_program_open_memory(f.ctx, good ? bytes : junk, good ? n : 16, &p);
    neap_program_close(p);
    return status;
}

static neap_status tell_method(int method)
{
    neap_method_info info = NEAP_METHOD_INFO_INIT;
    return neap_program_method_info(f.program, method, &info);
}

static neap_status tell_input(int i)
{
    neap_value v;
    return neap_program_input(f.program, 0, i, &v);
}

static neap_status tell_output(int i)
{
    neap_value v;
    return neap_program_output(f.program, 0, i, &v);
}

static neap_status install_cache(bool good)
{
    static int n;
    char key[16];
    neap_sequence_cache_options o = NEAP_SEQUENCE_CACHE_OPTIONS_INIT;
    o.capacity = o.layers = o.kv_heads = o.head_dim = 4;
    snprintf(key, sizeof key, "%.*s%d", good, "k", n++);
    return neap_program_install_cache(f.program, good ? key : "", &o);
}

static neap_status open_handle(int method)
{
    neap_handle *h;
    const neap_status status = neap_handle_open(f.program, method, NULL, &h);
    neap_handle_close(h);
    return status;
}

/* The program's inputs, all zero; one position. */
static int zeros(neap_value *in)
{
    static const int64_t nothing[64];
    const int n = neap_program_inputs(f.program, 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(neap_program_input(f.program, 0, i, &in[i]), NEAP_OK);
        for (int d = 0; d < in[i].rank; d++)
            in[i].shape[d] = in[i].bounded ? 1 : in[i].shape[d];
        int64_t size = in[i].dtype == NEAP_I64 ? 8 : 4;
        for (int d = 0; d < in[i].rank; d++)
            size *= in[i].shape[d];
        in[i].data = nothing;
        in[i].bytes = (uint64_t)size;
    }
    return n;
}

static neap_status execute(bool good)
{
    neap_value in[4], out[4] = {{0}};
    const int n = zeros(in);
    return neap_handle_execute(f.handle, good ? n : n - 1, in, neap_program_outputs(f.program, 0), out);
}

static neap_status plan_all(void *user, neap_execution_plan *plan)
{
    neap_value in[4];
    const int n = zeros(in);
    return neap_handle_plan(f.handle, user ? n - 1 : n, in, plan, NULL, NULL);
}

static neap_status fit(uint64_t limit)
{
    const neap_status status = plan_all(NULL, &planned);
    return status == NEAP_OK ? neap_handle_fit(f.handle, limit, plan_all, NULL, &planned) : status;
}

static neap_status visit_handle(bool good)
{
    neap_value in[4];
    const int n = zeros(in);
    return neap_handle_visit_plans(f.handle, good ? n : n - 1, in, see_plan, NULL);
}

static neap_status use_session(void)
{
    if (f.inner < 0)
        return neap_handle_session_new(f.handle, &f.inner);
    neap_status status = neap_handle_session_use(f.handle, f.inner);
    if (status == NEAP_OK)
        status = neap_handle_session_use(f.handle, 0);
    return status;
}

static neap_status free_session(void)
{
    int inner;
    const neap_status status = neap_handle_session_new(f.handle, &inner);
    return status == NEAP_OK ? neap_handle_session_free(f.handle, inner) : status;
}

static neap_status inspect(int method)
{
    neap_decoder_info info = NEAP_DECODER_INFO_INIT;
    return neap_decoder_inspect(f.program, method, &info);
}

static neap_status make_decoder(int64_t context)
{
    neap_decoder_options o = NEAP_DECODER_OPTIONS_INIT;
    neap_decoder *d;
    o.context = context;
    const neap_status status = neap_decoder_new(f.handle, &o, &d);
    neap_decoder_free(d);
    return status;
}

static neap_status decode(const int32_t *prompt)
{
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
    o.max_tokens = 2;
    neap_decoder_reset(f.decoder);
    return neap_decoder_generate(f.decoder, prompt, 1, &o, &r);
}

static neap_status feed(const int32_t *prompt)
{
    neap_decoder_reset(f.decoder);
    return neap_decoder_feed(f.decoder, prompt, 1);
}

static neap_status open_transcriber(const char *folder)
{
    neap_transcriber *t;
    return neap_transcriber_open(f.ctx, folder, NULL, &t);
}

static neap_status delta(bool good)
{
    neap_array *y, *s, **d = f.delta;
    return neap_gated_delta_step(d[0], d[1], good ? d[2] : f.x, d[3], d[4], d[5], &y, &s);
}

static neap_status rewind_session(int64_t position)
{
    return neap_session_rewind(f.session, position);
}

static neap_status prefill(const int32_t *prompt)
{
    neap_session_rewind(f.session, 0);
    return neap_session_prefill(f.session, prompt, 1);
}

/* ---- the rows: a call that fails, a call that succeeds -------------------------------------- */

#define NONE NEAP_OK /* there is none without a real model */
/* clang-format off */
#define ROWS(ROW)                                                                                  \
    ROW(neap_context_new, make_context(NULL, -1), make_context(NULL, 1))                           \
    ROW(neap_context_new_child, make_context(f.ctx, -1), make_context(f.ctx, 1))                   \
    ROW(neap_context_set_limit, neap_context_set_limit(f.ctx, 1), neap_context_set_limit(f.ctx, 0))  \
    ROW(neap_scope_push, push_and_pop(NULL), push_and_pop(f.ctx))                                  \
    ROW(neap_array_read, neap_array_read(f.x, samples, 5), neap_array_read(f.x, samples, 16))      \
    ROW(neap_state_new, make_state(99), make_state(1))                                             \
    ROW(neap_state_flush, neap_state_flush(NULL), neap_state_flush(f.state))                       \
    ROW(neap_state_reset, neap_state_reset(NULL), neap_state_reset(f.state))                       \
    ROW(neap_param_new, make_param(-1), make_param(3))                                             \
    ROW(neap_param_set, neap_param_set(f.param, 11), neap_param_set(f.param, 3))                   \
    ROW(neap_split, neap_split(f.x, 3, 0, parts), neap_split(f.x, 2, 0, parts))                    \
    ROW(neap_split_sizes, neap_split_sizes(f.x, 2, sizes_bad, 0, parts),                           \
        neap_split_sizes(f.x, 2, sizes_ok, 0, parts))                                              \
    ROW(neap_gated_delta_step, delta(false), delta(true))                                          \
    ROW(neap_eval, neap_eval(NULL), neap_eval(neap_add(f.x, f.x)))                                 \
    ROW(neap_eval_all, neap_eval_all(-1, parts), neap_eval_all(0, NULL))                           \
    ROW(neap_context_plan_options, plan_options(0), plan_options(64))                              \
    ROW(neap_plan_make, make_plan(NULL), make_plan(neap_add(f.x, f.x)))                            \
    ROW(neap_plan_run, neap_plan_run(f.plan, param_bad), neap_plan_run(f.plan, param_ok))          \
    ROW(neap_plan_reserve, neap_plan_reserve(NULL), neap_plan_reserve(f.plan))                     \
    ROW(neap_plan_values, neap_plan_values(f.plan, NULL, NULL), neap_plan_values(f.plan, see_value, NULL)) \
    ROW(neap_plan_steps, neap_plan_steps(f.plan, NULL, NULL), neap_plan_steps(f.plan, see_step, NULL)) \
    ROW(neap_plan_bare, plan_bare(false), plan_bare(true))                                         \
    ROW(neap_place_blocks, neap_place_blocks(f.ctx, 2, first, end_bad, block_bytes, offsets, &arena), \
        neap_place_blocks(f.ctx, 2, first, end_ok, block_bytes, offsets, &arena))                  \
    ROW(neap_npy_write, neap_npy_write(f.ctx, "/nonexistent/x.npy", &npy_ok),                      \
        neap_npy_write(f.ctx, f.npy, &npy_ok))                                                     \
    ROW(neap_npy_write_f32, neap_npy_write_f32(f.ctx, f.npy, samples, -1, 2),                      \
        neap_npy_write_f32(f.ctx, f.npy, samples, 2, 2))                                           \
    ROW(neap_npy_parse, parse_npy(false), parse_npy(true))                                         \
    ROW(neap_mel_new, make_mel(3), make_mel(80))                                                   \
    ROW(neap_mel_window, neap_mel_window(f.mel, samples, -1, mel_out),                             \
        neap_mel_window(f.mel, samples, 16, mel_out))                                              \
    ROW(neap_transcriber_open, open_transcriber("/nonexistent"), NONE)                             \
    ROW(neap_transcriber_at_peak, neap_transcriber_at_peak(NULL, see_alive, NULL), NONE)           \
    ROW(neap_transcriber_visit_plans, neap_transcriber_visit_plans(NULL, see_plan, NULL), NONE)    \
    ROW(neap_transcribe, neap_transcribe(NULL, NULL, NULL), NONE)                                  \
    ROW(neap_model_open, open_model("/nonexistent"), open_model(MODEL))                            \
    ROW(neap_model_inspect, inspect_model("/nonexistent"), inspect_model(MODEL))                   \
    ROW(neap_model_tensor, tell_tensor(-1), tell_tensor(0))                                        \
    ROW(neap_session_new, make_session(-1), make_session(64))                                      \
    ROW(neap_session_start, neap_session_start(NULL), start_session())                             \
    ROW(neap_session_prefill, prefill(bad_ids), prefill(good_ids))                                 \
    ROW(neap_session_step, neap_session_step(f.session, -1), neap_session_step(f.session, 3))      \
    ROW(neap_session_rewind, rewind_session(99), rewind_session(0))                                \
    ROW(neap_generate, generate(bad_ids), generate(good_ids))                                      \
    ROW(neap_sampler_new, make_sampler(7), make_sampler(1))                                        \
    ROW(neap_sampler_pick, pick(logits_bad), pick(logits_ok))                                      \
    ROW(neap_ids_reserve, neap_ids_reserve(f.ctx, &ids, SIZE_MAX / 8), neap_ids_reserve(f.ctx, &ids, 4)) \
    ROW(neap_ids_append, neap_ids_append(f.ctx, &ids, NULL, 1), neap_ids_append(f.ctx, &ids, good_ids, 2)) \
    ROW(neap_text_append, neap_text_append(f.ctx, &text, "a", SIZE_MAX / 2),                       \
        neap_text_append(f.ctx, &text, "a", 1))                                                    \
    ROW(neap_tokenizer_open, open_tokenizer("/nonexistent"), open_tokenizer(MODEL))                \
    ROW(neap_tokenizer_encode, neap_tokenizer_encode(f.ctx, f.tokenizer, "a", (size_t)2 << 30, 0, &ids), \
        neap_tokenizer_encode(f.ctx, f.tokenizer, "a", 1, 0, &ids))                                \
    ROW(neap_tokenizer_token_bytes, neap_tokenizer_token_bytes(f.ctx, f.tokenizer, -1, &text),     \
        neap_tokenizer_token_bytes(f.ctx, f.tokenizer, 5, &text))                                  \
    ROW(neap_tokenizer_decode, neap_tokenizer_decode(f.ctx, f.tokenizer, bad_ids, 1, 0, &text),    \
        neap_tokenizer_decode(f.ctx, f.tokenizer, good_ids, 2, 0, &text))                          \
    ROW(neap_text_stream_push, neap_text_stream_push(f.ctx, &f.stream, -1, &text),                 \
        neap_text_stream_push(f.ctx, &f.stream, 5, &text))                                         \
    ROW(neap_text_stream_finish, neap_text_stream_finish(f.ctx, NULL, &text),                      \
        neap_text_stream_finish(f.ctx, &f.stream, &text))                                          \
    ROW(neap_chat_render, neap_chat_render(f.ctx, f.tokenizer, NULL, 0, &hi, 0, true, &text),      \
        neap_chat_render(f.ctx, f.tokenizer, NULL, 0, &hi, 1, true, &text))                        \
    ROW(neap_program_open, open_program("/nonexistent"), open_program(PROGRAM))                    \
    ROW(neap_program_open_memory, open_program_bytes(false), open_program_bytes(true))             \
    ROW(neap_program_attach, neap_program_attach(f.program, "/nonexistent"), NONE)                 \
    ROW(neap_program_input, tell_input(99), tell_input(0))                                         \
    ROW(neap_program_output, tell_output(99), tell_output(0))                                      \
    ROW(neap_program_node_types, neap_program_node_types(f.program, 99, see_count, NULL),          \
        neap_program_node_types(f.program, 0, see_count, NULL))                                    \
    ROW(neap_program_method_info, tell_method(99), tell_method(0))                                 \
    ROW(neap_program_install_cache, install_cache(false), install_cache(true))                     \
    ROW(neap_handle_open, open_handle(99), open_handle(0))                                         \
    ROW(neap_handle_execute, execute(false), execute(true))                                        \
    ROW(neap_handle_reset, neap_handle_reset(NULL), neap_handle_reset(f.handle))                   \
    ROW(neap_handle_plan, plan_all(&f, &planned), plan_all(NULL, &planned))                        \
    ROW(neap_handle_set_plan_budget, neap_handle_set_plan_budget(NULL, 0),                         \
        neap_handle_set_plan_budget(f.handle, 0))                                                  \
    ROW(neap_handle_fit, fit(1), fit(0))                                                           \
    ROW(neap_handle_visit_plans, visit_handle(false), visit_handle(true))                          \
    ROW(neap_handle_session_new, neap_handle_session_new(f.handle, NULL), use_session())           \
    ROW(neap_handle_session_use, neap_handle_session_use(f.handle, 99), use_session())             \
    ROW(neap_handle_session_free, neap_handle_session_free(f.handle, 99), free_session())          \
    ROW(neap_decoder_inspect, inspect(99), inspect(0))                                             \
    ROW(neap_decoder_new, make_decoder(-1), make_decoder(0))                                       \
    ROW(neap_decoder_plan, neap_decoder_plan(f.decoder, bad_ids, 1, 0, &planned, NULL, NULL),      \
        neap_decoder_plan(f.decoder, good_ids, 1, 0, &planned, NULL, NULL))                        \
    ROW(neap_decoder_visit_plans, neap_decoder_visit_plans(f.decoder, bad_ids, 1, 0, see_plan, NULL), \
        neap_decoder_visit_plans(f.decoder, good_ids, 1, 0, see_plan, NULL))                       \
    ROW(neap_decoder_feed, feed(bad_ids), feed(good_ids))                                          \
    ROW(neap_decoder_reset, neap_decoder_reset(NULL), neap_decoder_reset(f.decoder))               \
    ROW(neap_decoder_generate, decode(bad_ids), decode(good_ids))
/* clang-format on */

/* Each row as two functions, so that a call is made when its row is reached. */
#define FUNCTIONS(name, bad, good)                \
    static neap_status name##_bad(void) { return bad; } \
    static neap_status name##_good(void) { return good; }
ROWS(FUNCTIONS)

typedef struct row {
    const char *name;
    neap_status (*bad)(void), (*good)(void);
} row;
#define ENTRY(name, bad, good) {#name, name##_bad, name##_good},
static const row rows[] = {ROWS(ENTRY)};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* The calls that run what was built report what building stored. */
static bool runs(const char *name)
{
    static const char *const names[] = {"neap_eval", "neap_eval_all", "neap_plan_make", "neap_state_flush"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void forget(void)
{
    neap_ids_free(f.ctx, &ids);
    neap_text_free(f.ctx, &text);
    planned = (neap_execution_plan)NEAP_EXECUTION_PLAN_INIT;
}

static void check_stored(const row *r, const char *when, neap_status want)
{
    const neap_context *both[2] = {f.ctx, neap_handle_context(f.handle)};
    for (int i = 0; i < 2; i++) {
        const neap_status status = neap_context_status(both[i]);
        if (status != (i ? NEAP_OK : want))
            fail_msg("%s, %s: %s is stored (%s)", r->name, when, neap_status_name(status),
                     neap_context_error(both[i]));
    }
}

static void test_a_status_ends_where_it_was_returned(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROWS; i++) {
        const row *r = &rows[i];
        if (r->bad() == NEAP_OK)
            fail_msg("%s: no error", r->name);
        check_stored(r, "after an error", NEAP_OK);
        const neap_status status = r->good();
        if (status != NEAP_OK)
            fail_msg("%s after an error: %s (%s)", r->name, neap_status_name(status),
                     neap_context_error(f.ctx));
        check_stored(r, "after a success", NEAP_OK);
        forget();
    }
}

/* Every function's error before every other function's success: the text of 6,000 pairs is not compared. */
static void test_no_call_hears_of_another(void **state)
{
    (void)state;
    static const int before[] = {9, 21, 32, 36, 40, 46, 54};
    for (size_t b = 0; b < sizeof before / sizeof before[0]; b++)
        for (int i = 0; i < N_ROWS; i++) {
            assert_int_not_equal(rows[before[b]].bad(), NEAP_OK);
            const neap_status status = rows[i].good();
            if (status != NEAP_OK)
                fail_msg("%s after the error of %s: %s (%s)", rows[i].name, rows[before[b]].name,
                         neap_status_name(status), neap_context_error(f.ctx));
            forget();
        }
}

static void build_badly(void)
{
    const int64_t five[1] = {5};
    assert_null(neap_add(f.x, neap_array_zeros(NEAP_F32, 1, five)));
    assert_int_equal(neap_context_status(f.ctx), NEAP_ESHAPE);
}

static void test_an_error_of_building_waits_for_the_run(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROWS; i++) {
        const row *r = &rows[i];
        neap_context_clear_error(f.ctx);
        build_badly();
        if (runs(r->name)) {
            if (strcmp(r->name, "neap_eval_all") && strcmp(r->name, "neap_state_flush"))
                assert_int_equal(r->bad(), NEAP_ESHAPE);
            else
                assert_int_equal(neap_eval(NULL), NEAP_ESHAPE);
            assert_non_null(strstr(neap_context_error(f.ctx), "add"));
            check_stored(r, "reported", NEAP_OK);
            assert_int_equal(r->good(), NEAP_OK);
            forget();
            continue;
        }
        assert_int_not_equal(r->bad(), NEAP_OK);
        check_stored(r, "after an error, one of building before", NEAP_ESHAPE);
        const neap_status status = r->good();
        if (status != NEAP_OK)
            fail_msg("%s with an error of building pending: %s (%s)", r->name, neap_status_name(status),
                     neap_context_error(f.ctx));
        check_stored(r, "after a success, one of building before", NEAP_ESHAPE);
        assert_int_equal(neap_param_set(f.param, 1), NEAP_OK);
        assert_non_null(strstr(neap_context_error(f.ctx), "add")); /* its text again */
        r->bad();
        assert_int_equal(neap_eval(NULL), NEAP_ESHAPE);
        assert_non_null(strstr(neap_context_error(f.ctx), "add"));
        check_stored(r, "reported", NEAP_OK);
        forget();
    }
}

static void test_a_failed_write_is_told_by_the_flush(void **state)
{
    (void)state;
    const int64_t five[1] = {5};
    assert_null(neap_state_write(neap_state_read(f.state), neap_array_zeros(NEAP_F32, 1, five)));
    assert_int_equal(neap_state_flush(f.state), NEAP_ESHAPE);
    assert_int_equal(neap_state_flush(f.state), NEAP_OK);
}

/* Inside a call, the caller's own calls leave nothing either. */
static bool fail_within(void *user, int32_t id, const char *said, size_t length, const float *logits)
{
    (void)said, (void)length, (void)logits;
    neap_text none = {0};
    if (neap_tokenizer_token_bytes(f.ctx, f.tokenizer, -1, &none) != NEAP_EINVAL)
        return false;
    *(int *)user += 1;
    return id >= 0;
}

static void test_a_call_back_that_fails(void **state)
{
    (void)state;
    int calls = 0;
    neap_generate_options o = NEAP_GENERATE_OPTIONS_INIT;
    neap_generate_result r = NEAP_GENERATE_RESULT_INIT;
    o.max_tokens = 4;
    o.ignore_eos = true;
    o.on_token = fail_within;
    o.user = &calls;
    assert_int_equal(neap_session_rewind(f.session, 0), NEAP_OK);
    assert_int_equal(neap_generate(f.session, good_ids, 2, &o, &r), NEAP_OK);
    assert_in_range(calls, 4, 5);
    assert_int_equal(neap_context_status(f.ctx), NEAP_OK);
}

/* ---- NULL ---------------------------------------------------------------------------------- */

static void *sink; /* what a call would make */
static neap_value value[1];
static neap_npy npy_out;
static int32_t id;
static size_t info[64];
static neap_bare_graph graph;
static neap_bare_plan bare;
static neap_sequence_cache_options cache;

static void expect_refusal(const char *call, neap_status status)
{
    if (status != NEAP_EINVAL && status != NEAP_ENOCONTEXT)
        fail_msg("%s: %s", call, neap_status_name(status));
    if (neap_context_status(f.ctx) != NEAP_OK)
        fail_msg("%s: left %s", call, neap_status_name(neap_context_status(f.ctx)));
    forget();
}

static void test_null_is_refused(void **state)
{
    (void)state;
    graph = (neap_bare_graph)NEAP_BARE_GRAPH_INIT;
    bare = (neap_bare_plan)NEAP_BARE_PLAN_INIT;
    cache = (neap_sequence_cache_options)NEAP_SEQUENCE_CACHE_OPTIONS_INIT;
#define NUL(name, ...) expect_refusal(#name "(" #__VA_ARGS__ ")", name(__VA_ARGS__));
#include "null_rows.def"
#undef NUL
    assert_null(sink);
}

static int make_fixture(void **state)
{
    (void)state;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    neap_session_options so = NEAP_SESSION_OPTIONS_INIT;
    o.threads = 1;
    so.context = 64;
    f.inner = -1;
    assert_int_equal(neap_context_new(&o, &f.ctx), NEAP_OK);
    assert_int_equal(neap_scope_push(f.ctx), NEAP_OK);
    f.x = neap_array_zeros(NEAP_F32, 1, four);
    f.y = neap_array_zeros(NEAP_F32, 1, four);
    const int64_t q[4] = {1, 1, 1, 4}, g[3] = {1, 1, 1}, s[4] = {1, 1, 4, 4};
    for (int i = 0; i < 6; i++)
        f.delta[i] = neap_array_zeros(NEAP_F32, i == 3 || i == 4 ? 3 : 4, i < 3 ? q : i < 5 ? g : s);
    assert_int_equal(neap_state_new(f.ctx, "s", NEAP_F32, 1, four, &f.state), NEAP_OK);
    assert_int_equal(neap_param_new(f.ctx, "p", 10, &f.param), NEAP_OK);
    neap_array *root = neap_add(f.x, f.x);
    assert_int_equal(neap_plan_make(f.ctx, 1, &root, 1, &f.param, &f.plan), NEAP_OK);
    assert_int_equal(neap_mel_new(f.ctx, 80, &f.mel), NEAP_OK);
    assert_int_equal(neap_model_open(f.ctx, MODEL, &f.model), NEAP_OK);
    assert_int_equal(neap_session_new(f.model, &so, &f.session), NEAP_OK);
    assert_int_equal(neap_sampler_new(f.ctx, NULL, 4, &f.sampler), NEAP_OK);
    assert_int_equal(neap_tokenizer_open(f.ctx, MODEL, &f.tokenizer), NEAP_OK);
    neap_text_stream_init(&f.stream, f.tokenizer, 0);
    assert_int_equal(neap_program_open(f.ctx, PROGRAM, &f.program), NEAP_OK);
    assert_int_equal(neap_handle_open(f.program, 0, NULL, &f.handle), NEAP_OK);
    assert_int_equal(neap_decoder_new(f.handle, NULL, &f.decoder), NEAP_OK);
    strcpy(f.npy, "/tmp/neap-status-XXXXXX");
    const int fd = mkstemp(f.npy);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(neap_npy_write(f.ctx, f.npy, &npy_ok), NEAP_OK);
    forget();
    return 0;
}

static int free_fixture(void **state)
{
    (void)state;
    unlink(f.npy);
    neap_decoder_free(f.decoder);
    neap_handle_close(f.handle);
    neap_program_close(f.program);
    neap_tokenizer_free(f.tokenizer);
    neap_sampler_free(f.sampler);
    neap_session_free(f.session);
    neap_model_free(f.model);
    neap_mel_free(f.mel);
    neap_plan_free(f.plan);
    neap_param_free(f.param);
    neap_state_free(f.state);
    neap_scope_pop(f.ctx);
    neap_context_free(f.ctx);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_fixture, free_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_status_ends_where_it_was_returned),
        TEST(test_no_call_hears_of_another),
        TEST(test_an_error_of_building_waits_for_the_run),
        TEST(test_a_failed_write_is_told_by_the_flush),
        TEST(test_a_call_back_that_fails),
        TEST(test_null_is_refused),
    };
    return cmocka_run_group_tests_name("status_rule", tests, NULL, NULL);
}
