/* neap/decoder.h - text from programs: a loop that feeds tokens to a method and picks the next one
 * from the scores that it gives.
 *
 * The method takes ids [1, T] and their positions [T] or [1, T] (or, where T is dynamic, the first
 * position [1]), i32 or i64, and gives scores [1, T, V] or [1, V] in f32, f16 or bf16 first. T is
 * dynamic up to a bound, or 1. What it remembers lies in its mutable buffers, so a decoder counts
 * positions from 0 after the handle was opened or reset. */
#ifndef NEAP_DECODER_H
#define NEAP_DECODER_H

#include "model.h"
#include "program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_decoder neap_decoder;

typedef struct neap_decoder_info {
    size_t size;
    int64_t context, chunk; /* of a decoder; 0 of a method */
    int64_t vocabulary;
    int64_t longest_context; /* that the program's constant methods allow (get_max_context_len,
                                get_max_ctx_len, get_max_seq_len); 0: it does not say */
    int64_t longest_call;    /* tokens that the method takes at once */
} neap_decoder_info;
#define NEAP_DECODER_INFO_INIT NEAP_INIT(neap_decoder_info)
/* Is the method one that text can be made with? NEAP_EUNSUPPORTED names what it takes or gives
 * otherwise, in the program's context. */
NEAP_API neap_status neap_decoder_inspect(const neap_program *program, int method,
                                          neap_decoder_info *info);

typedef struct neap_decoder_options {
    size_t size;
    const neap_tokenizer *tokenizer; /* must outlive the decoder; NULL: ids only, none ends a text */
    int64_t context; /* positions; 0 = the longest */
    int64_t chunk;   /* prompt tokens a call; 0 = 512, or the most that the program takes */
} neap_decoder_options;
#define NEAP_DECODER_OPTIONS_INIT NEAP_INIT(neap_decoder_options)

/* Takes its buffers (host: one of f32 [V]) from the handle's context, which also has its errors.
 * `options` may be NULL. NEAP_EUNSUPPORTED names what the method takes or gives otherwise;
 * NEAP_EINVAL: a context or chunk beyond the program's, or no context known; NEAP_ENOMEM. It must be
 * freed before its handle. */
NEAP_API neap_status neap_decoder_new(neap_handle *handle, const neap_decoder_options *options,
                                      neap_decoder **out);
NEAP_API void neap_decoder_free(neap_decoder *decoder);

NEAP_API void neap_decoder_describe(const neap_decoder *decoder, neap_decoder_info *info);

/* What feeding `ids` at `position` will need: as neap_handle_plan. At most a chunk of them. */
NEAP_API neap_status neap_decoder_plan(neap_decoder *decoder, const int32_t *ids, int64_t n,
                                       int64_t position, neap_execution_plan *plan,
                                       bool (*visit)(void *user, const neap_plan_alive *alive),
                                       void *user);
NEAP_API neap_status neap_decoder_visit_plans(neap_decoder *decoder, const int32_t *ids, int64_t n,
                                              int64_t position, neap_plan_visit *visit, void *user);

/* Appends tokens, in chunks; the scores are of the token after the last. NEAP_ELIMIT names both
 * numbers if they do not fit; NEAP_EINVAL for an id outside the vocabulary. */
NEAP_API neap_status neap_decoder_feed(neap_decoder *decoder, const int32_t *ids, int64_t n);
/* f32 [vocabulary]; rewritten by the next call. */
NEAP_API const float *neap_decoder_logits(const neap_decoder *decoder);
NEAP_API int64_t neap_decoder_position(const neap_decoder *decoder); /* tokens so far */
/* The handle's buffers to zero, position 0. */
NEAP_API neap_status neap_decoder_reset(neap_decoder *decoder);

/* As neap_generate. */
NEAP_API neap_status neap_decoder_generate(neap_decoder *decoder, const int32_t *prompt, int64_t n,
                                           const neap_generate_options *options,
                                           neap_generate_result *result);

#ifdef __cplusplus
}
#endif
#endif
