/* penalty.h - the repetition penalty: scores as a sampler sees them, without a copy of the vocabulary.
 *
 * The last tokens lie in a ring. Before a token is picked their scores are worked out and sorted by id;
 * the scores are then read in order of ids, each from there or from the logits. */
#ifndef NP_PENALTY_H
#define NP_PENALTY_H

#include "neap/base.h"

enum { NP_PENALTY_MOST = 65536 };

typedef struct np_changed {
    int32_t id;
    float score;
} np_changed;

typedef struct np_penalty {
    float factor;
    int32_t capacity;  /* 0: none */
    uint64_t accepted; /* ever, since the last reset */
    int32_t *ring;     /* [capacity] */
    np_changed *changed;
} np_penalty;

/* Where a reader of scores stands. */
typedef struct np_scores {
    const float *logits;
    const np_changed *changed, *end;
    int32_t id; /* the next one */
} np_scores;

static inline float np_next_score(np_scores *s)
{
    const int32_t id = s->id++;
    return s->changed < s->end && s->changed->id == id ? s->changed++->score : s->logits[id];
}

neap_status np_penalty_init(neap_context *ctx, np_penalty *p, float factor, int32_t last);
void np_penalty_free(neap_context *ctx, np_penalty *p);
void np_penalty_accept(np_penalty *p, const int32_t *ids, int64_t n);
/* Good until the next call. */
np_scores np_penalty_apply(np_penalty *p, const float *logits, int32_t vocabulary);

#endif
