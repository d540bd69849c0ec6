/* nodes_control.c - branches and loops. */
#include "program/walk.h"

/* A branch hangs on its condition, so that is pinned. What a dry walk cannot know it tries both ways. */
NP_BUILD(if)
{
    np_number cond;
    if (!np_get_number(w, n->cond, &cond))
        return false;
    np_pin(w, &cond);
    bool taken = cond.value != 0;
    if (cond.unknown) {
        w->met_unknown = true;
        taken = !w->guess;
    }
    return np_walk_chain(w, taken ? n->then_chain_idx : n->else_chain_idx);
}

NP_BUILD(scan)
{
    return np_walk_scan(w, n);
}
