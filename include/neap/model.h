/* neap/model.h - language models from files, sessions that run them inside a budget, text.
 *
 *   neap_model_open      reads header and tokenizer; weights stay in the mapped file
 *   neap_session_new     plans everything for a context length; nothing large is taken yet;
 *                        neap_session_describe then tells the peak and the least budget
 *   neap_session_start   takes what was planned (KV cache, arena, repacked weights)
 *   neap_session_prefill, _step, _logits   token by token; or
 *   neap_generate        the whole loop with sampler, end tokens and streaming text
 */
#ifndef NEAP_MODEL_H
#define NEAP_MODEL_H

#include "base.h"
#include "dtype.h"
#include "plan.h"
#include "sampler.h"
#include "tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models -----------------------------------------------------------------------------------
 */

typedef struct neap_model neap_model;

/* Opens a GGUF file. NEAP_EIO, NEAP_EFORMAT (names file, key or tensor), NEAP_EUNSUPPORTED (an
 * architecture, tensor type or tokenizer that Neap does not know), NEAP_ENOMEM. */
NEAP_API neap_status neap_model_open(neap_context *ctx, const char *path, neap_model **out);
/* Opens any GGUF file, for neap_model_describe, _tensor, _tokenizer and _chat_template: any architecture,
 * any tensor type, a part of a split file. What neap_model_open would refuse is told in the info's
 * `refusal`, and by neap_session_new; the tokenizer may be NULL then. NEAP_EIO, NEAP_EFORMAT (not even
 * the header can be read), NEAP_ENOMEM. */
NEAP_API neap_status neap_model_inspect(neap_context *ctx, const char *path, neap_model **out);
/* Sessions of the model must be gone. */
NEAP_API void neap_model_free(neap_model *model);

typedef struct neap_model_info {
    size_t size;
    char architecture[32]; /* "llama" */
    char name[96];         /* the file's own; may be empty */
    int64_t context_length, layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary;
    uint64_t parameters, tensor_bytes, file_bytes;
    int64_t tensors;
    float rope_base, norm_eps;
    bool tied_output;  /* the output matrix is the token embedding */
    char refusal[320]; /* of an inspected file: why it cannot be run; "" if it can */
} neap_model_info;
#define NEAP_MODEL_INFO_INIT NEAP_INIT(neap_model_info)
NEAP_API void neap_model_describe(const neap_model *model, neap_model_info *info);

typedef struct neap_tensor_info {
    size_t size;
    const char *name; /* `name_length` bytes in the mapped file, not terminated */
    size_t name_length;
    neap_dtype dtype; /* NEAP_DTYPE_SPAN if the file's type has none here */
    int rank;
    int64_t shape[4]; /* row-major: outermost first */
    uint64_t bytes;   /* 0 if nothing is known of the type */
    char type[16];    /* "q4_k", "iq4_nl", or "type 99" */
} neap_tensor_info;
#define NEAP_TENSOR_INFO_INIT NEAP_INIT(neap_tensor_info)
NEAP_API neap_status neap_model_tensor(const neap_model *model, int64_t index,
                                       neap_tensor_info *info);

NEAP_API const neap_tokenizer *neap_model_tokenizer(const neap_model *model);
/* The file's chat template, not terminated; *length 0 and NULL if it has none. */
NEAP_API const char *neap_model_chat_template(const neap_model *model, size_t *length);

/* ---- sessions ---------------------------------------------------------------------------------
 */

typedef struct neap_session neap_session;

typedef enum neap_weights_mode {
    NEAP_WEIGHTS_AUTO,    /* repacked if that fits the limit, else mapped; same bits */
    NEAP_WEIGHTS_MAPPED,  /* used as they lie in the file: 0 bytes */
    NEAP_WEIGHTS_REPACKED /* copied into the kernels' layout: counted in weights */
} neap_weights_mode;

typedef struct neap_session_options {
    size_t size;
    int64_t context; /* positions of the KV cache; 0 = the most that the limit and model allow */
    int64_t chunk;   /* rows of a prefill step, a multiple of 64; 0 = 512 or the most that fits */
    int64_t prompt; /* longest prompt to come, if known (a chunk need not be longer); 0 = unknown */
    bool decode;    /* tokens will be generated after the first: plan that too */
    neap_dtype kv_type; /* NEAP_F16 or NEAP_F32 */
    neap_weights_mode weights;
    uint64_t memory; /* bytes: becomes the context's limit if the session fits; 0 = as it is */
} neap_session_options;
#define NEAP_SESSION_OPTIONS_INIT \
    NEAP_INIT_WITH(neap_session_options, NEAP_SET(decode, true), NEAP_SET(kv_type, NEAP_F16))

/* Plans. `options` may be NULL. A limit (of the context, or options->memory) that cannot hold the
 * session is NEAP_ENOMEM; the text names the least that would do and what takes it. Sessions of one
 * model share its weights: the first one's layout stays. NEAP_EINVAL, NEAP_EDTYPE: an option. */
NEAP_API neap_status neap_session_new(neap_model *model, const neap_session_options *options,
                                      neap_session **out);
NEAP_API void neap_session_free(neap_session *session);

typedef struct neap_session_info {
    size_t size;
    int64_t context, chunk;
    bool repacked;
    uint64_t planned_peak_bytes; /* of the whole context (ledger), if nothing stops early */
    uint64_t least_bytes;        /* smallest limit that these options would be accepted with */
    uint64_t mapped_bytes;
    uint64_t planned_by_category[NEAP_MEM_CATEGORIES]; /* at the peak; sums to it */
    uint64_t kv_bytes;
    neap_plan_info peak_plan; /* of the plan with the largest arena */
} neap_session_info;
#define NEAP_SESSION_INFO_INIT NEAP_INIT(neap_session_info)
NEAP_API void neap_session_describe(const neap_session *session, neap_session_info *info);
/* What is alive at the peak: states, then the values of the plan with the largest arena. */
NEAP_API void neap_session_at_peak(const neap_session *session,
                                   bool (*visit)(void *user, const neap_plan_alive *alive),
                                   void *user);
/* "prefill", "decode" and "head", those there are. */
NEAP_API void neap_session_visit_plans(const neap_session *session, neap_plan_visit *visit,
                                       void *user);

/* Takes the planned bytes and repacks weights if so decided. Called by the first prefill otherwise.
 */
NEAP_API neap_status neap_session_start(neap_session *session);

/* Appends tokens to the context, in chunks. NEAP_ELIMIT names both numbers if they do not fit;
 * NEAP_EINVAL for an id outside the vocabulary. After an error the context is as before. n >= 1. */
NEAP_API neap_status neap_session_prefill(neap_session *session, const int32_t *ids, int64_t n);
/* Appends one generated token (the decode step). */
NEAP_API neap_status neap_session_step(neap_session *session, int32_t id);
/* f32 [vocabulary]: the scores of the token after the last one appended. Rewritten by the next
 * call. NULL before the first prefill, after a rewind that forgot tokens and after a call that failed while it ran:
 * there are none for this position. */
NEAP_API const float *neap_session_logits(const neap_session *session);
NEAP_API int64_t neap_session_position(const neap_session *session); /* tokens in the context */
/* Forgets tokens from `position` on. NEAP_EINVAL if it is beyond the present one. */
NEAP_API neap_status neap_session_rewind(neap_session *session, int64_t position);

/* ---- generation -------------------------------------------------------------------------------
 */

typedef struct neap_generate_options {
    size_t size;
    int64_t max_tokens;
    bool ignore_eos;       /* go on after an end token */
    neap_sampler *sampler; /* NULL: greedy */
    /* Each new token as it is chosen, with the text that is complete now (may be empty; never half
     * a character) and the logits it was chosen from. After the last one perhaps once more, with id
     * -1 and no logits: text that waited, the bytes of a character that stayed unfinished. Returning
     * false stops. May be NULL. */
    bool (*on_token)(void *user, int32_t id, const char *text, size_t length, const float *logits);
    void *user;
    /* Texts that end the generation: UTF-8, 1 to NEAP_STOP_MOST bytes each. The first that appears in the new
     * text is not shown, nor what comes after it; text that may be the beginning of one waits until that is
     * known. The tokens that made it count. */
    const char *const *stop; /* [n_stop] */
    int n_stop;
} neap_generate_options;
enum { NEAP_STOP_MOST = 1024 };
#define NEAP_GENERATE_OPTIONS_INIT \
    NEAP_INIT_WITH(neap_generate_options, NEAP_SET(max_tokens, 128))

typedef enum neap_finish { NEAP_FINISH_LENGTH, NEAP_FINISH_STOP, NEAP_FINISH_CALLER } neap_finish;

typedef struct neap_generate_result {
    size_t size;
    int64_t prompt_tokens, generated_tokens; /* an end token is not counted and not shown */
    double prompt_seconds;                   /* prefill, to the first logits */
    double generation_seconds;               /* decode steps */
    int64_t decode_steps;
    neap_finish finish;
    int stop; /* which text of options.stop ended it; -1: none did */
} neap_generate_result;
#define NEAP_GENERATE_RESULT_INIT NEAP_INIT_WITH(neap_generate_result, NEAP_SET(stop, -1))

/* Prefills the prompt (1 or more ids) and generates up to max_tokens or to the end of the session's
 * context. Takes nothing beyond what the session planned. The sampler is told of the prompt and of each
 * token (neap_sampler_accept). `options` may be NULL. `result` (its size set by the caller; may be NULL)
 * is filled as far as it came, also on an error: that of prefill, step or sampler. Ended by length, by a
 * stop text or by the caller, the last token that was generated is not in the context: to go on, append it
 * first (neap_session_step, or as the first of the next prompt). Ended by an end token, all that were
 * generated are in it, the end token is not. */
NEAP_API neap_status neap_generate(neap_session *session, const int32_t *prompt, int64_t n,
                                   const neap_generate_options *options,
                                   neap_generate_result *result);

#ifdef __cplusplus
}
#endif
#endif
