/* neap/sampler.h - picks the next token from logits.
 *
 * First comes the repetition penalty (Keskar et al. 2019, CTRL): the logit of each token among the last
 * `repeat_last` that were accepted is divided by `repeat_penalty` if it is above 0, else multiplied by it.
 * With temperature 0 it is the first of the largest logits. Otherwise the choices are narrowed in
 * this order, each step on the probabilities (softmax of the logits) that the one before left,
 * renormalised; the most probable token always stays:
 *   1. top-k: the k most probable; of equals the lower id.
 *   2. top-p: the fewest of the most probable that together reach p.
 *   3. min-p: those at least min-p times as probable as the most probable.
 *   4. temperature: probabilities to the power 1 / temperature; then one is drawn.
 * The draw is a pure function of seed, step and the accepted tokens that are penalised, so a run can be
 * repeated from any step. */
#ifndef NEAP_SAMPLER_H
#define NEAP_SAMPLER_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_sampler_options {
    size_t size;       /* sizeof(neap_sampler_options) */
    float temperature; /* 0 = greedy; else above 0 */
    int top_k;         /* 0 = all */
    float top_p;       /* 0 to 1; 1 = all */
    float min_p;       /* 0 to 1; 0 = all */
    uint64_t seed;
    float repeat_penalty; /* above 0; 1 = none */
    int repeat_last;      /* how many of the last tokens are penalised, 0 (none) to 65536 */
} neap_sampler_options;
#define NEAP_SAMPLER_OPTIONS_INIT                                                          \
    NEAP_INIT_WITH(neap_sampler_options, NEAP_SET(top_p, 1.0f), NEAP_SET(repeat_penalty, 1.0f), \
                   NEAP_SET(repeat_last, 64))

typedef struct neap_sampler neap_sampler;

/* For logits of `vocabulary` tokens (1 or more). `options` may be NULL: greedy. Allocates all it
 * will need (host): 8 bytes for each of min(top_k, vocabulary) tokens, none if greedy; 12 for each of
 * repeat_last, none without a penalty. NEAP_EINVAL names the option, its value and its range;
 * NEAP_ENOMEM. */
NEAP_API neap_status neap_sampler_new(neap_context *ctx, const neap_sampler_options *options,
                                      int32_t vocabulary, neap_sampler **out);
NEAP_API void neap_sampler_free(neap_sampler *sampler);

/* Tokens that now stand before the next one: those of the prompt, then each that was picked. neap_generate
 * does it by itself. Ids outside the vocabulary are penalised by nothing. */
NEAP_API void neap_sampler_accept(neap_sampler *sampler, const int32_t *ids, int64_t n);
/* Forgets them. */
NEAP_API void neap_sampler_reset(neap_sampler *sampler);

/* Picks from `logits` [vocabulary] for position `step` of the run. -inf is a token that cannot be.
 * NEAP_EINVAL: a NaN, an infinite logit, or none above -inf. */
NEAP_API neap_status neap_sampler_pick(neap_sampler *sampler, const float *logits, uint64_t step,
                                       int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
