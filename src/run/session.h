/* session.h - the inside of a session: parameters, states and three plans.
 *
 *   prefill   up to `chunk` tokens into the cache; writes the last one's hidden vector to a state
 *   decode    one token, the same
 *   head      hidden vector to scores; shared by both, so prefill never computes scores it discards
 */
#ifndef NP_SESSION_H
#define NP_SESSION_H

#include "models/model.h"

enum { NP_CHUNK = 64, NP_CHUNK_DEFAULT = 512, NP_TEXT_ROOM = 8192 };

struct neap_session {
    neap_model *model;
    neap_context *ctx;
    neap_session_options options;
    int64_t context, chunk, position;
    np_kv_cache cache;
    neap_state *hidden;
    neap_param *rows, *at, *length;
    neap_array *prefill_ids, *decode_ids;
    neap_plan *prefill, *decode, *head;
    neap_text text; /* of the token being shown; room is taken before planning ends */
    neap_sampler *greedy;
    neap_session_info info;
    bool started;
    bool scored; /* the head's scores are those of `position` */
    bool counted; /* among the model's sessions */
};

/* Frees the prefill plan and its ids, and makes them for `chunk` rows. */
neap_status np_session_plan_prefill(neap_session *s, int64_t chunk);
/* The states, parameters, decode and head plans for s->context. */
neap_status np_session_plan_rest(neap_session *s);
void np_session_drop_plans(neap_session *s);

/* Chooses context, chunk and layout under the limit and fills s->info (budget.c). */
neap_status np_session_choose(neap_session *s);

#endif
