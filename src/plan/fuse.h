/* fuse.h - tasks to groups: workspace and entry points. See fuse.c, fuse_order.c. */
#ifndef NP_FUSE_H
#define NP_FUSE_H

#include "plan/builder.h"

/* A task as an op would be called; data pointers are NULL. */
typedef struct np_task_call {
    np_call call;
    np_operand out, in[NP_GROUP_INPUTS];
    const np_operand *at[NP_GROUP_INPUTS];
} np_task_call;

typedef struct np_fuser {
    np_builder *b;
    const neap_plan_options *options;
    /* by task; of groups at their representative */
    uint8_t *axes; /* that the members share; 0: stays alone */
    uint8_t *lacks; /* by task: see np_fusion */
    bool *heavy;
    bool streams, large, windows; /* see np_fuser_reset */
    uint32_t *parent, *next, *first, *last; /* next: members, from the representative on */
    uint32_t *count, *size;
    bool *within; /* counted with its user */
    bool *barred; /* stays alone */
    bool *windowed; /* of the last axis there are only parts with what lies about them */
    /* the timeline, by position in program order; by task: bytes and life of its value */
    int64_t *live, *change, peak;
    uint64_t *bytes;
    uint32_t *birth, *death; /* death NP_NONE: a tile's only */
    uint32_t *reach; /* by position: the last task of the groups that begin up to there */
    uint32_t low, high;
    /* walks */
    uint32_t *seen, *counted, *queue, *spare, stamp;
    uint32_t *reader; /* by entry: the last task that reads it */
    void *tables;
    size_t table_bytes;
} np_fuser;

bool np_fuser_start(np_fuser *f, np_builder *b, const neap_plan_options *options);
/* Each task a group of its own again. streams: also ops that run in blocks of rows over all lanes may be
 * merged, which costs time and saves memory; large: for the sake of large values only; windows: also those
 * whose rows need more than as many rows of what they read. */
void np_fuser_reset(np_fuser *f, bool streams, bool large, bool windows);
/* The group's tasks stay alone from the next reset on. */
void np_fuser_bar(np_fuser *f, const np_fusion *fusion, uint32_t group);
void np_fuser_allow_all(np_fuser *f); /* nothing is barred any more */
/* Merges; sideways: also what only reads the same values; repeats: also cheap values that lack axes of a
 * group, made again for each index. */
void np_fuse(np_fuser *f, bool sideways, bool repeats);
bool np_fuser_may_repeat(np_fuser *f); /* may there be such values? */
bool np_fuser_has_windows(const np_fuser *f); /* is there an op whose rows need a window? */
/* Products that are still alone, each with what can be done in place to its result: epilogue.c. */
void np_fuse_epilogues(np_fuser *f);
/* Task y to the group of x, before it, not by tiles; false: not possible, or not good. */
bool np_fuser_attach(np_fuser *f, uint32_t x, uint32_t y);
void np_fuser_free(np_fuser *f);
uint32_t np_fuser_group(np_fuser *f, uint32_t task); /* the representative of a task's group */
/* What the fuser has come to, in an order that runs. */
bool np_fusion_take(np_fuser *f, np_fusion *out);
bool np_fusion_copy(np_builder *b, const np_fusion *from, np_fusion *to);
void np_fusion_free(np_builder *b, np_fusion *fusion);
/* Puts the fusion's groups, whose steps the builder holds, into an order in which less is alive. */
bool np_reorder(np_builder *b, np_fusion *fusion, bool *changed);

/* Is an axis from `from` on set at run time? */
bool np_axes_set_later(const np_group_shape *s, int from);
/* The axes of a group with that many, told by one of its tasks. */
np_group_shape np_task_shape(const np_builder *b, uint32_t task, int n_axes, bool heavy);

/* Task as a call (at most NP_GROUP_INPUTS inputs); the dimension of its result that is axis j of its
 * group, -1: none is. */
void np_task_call_init(np_task_call *c, const np_builder *b, uint32_t task);
int np_task_axis(const np_builder *b, uint32_t task, uint8_t lacks, int axis);
/* Sets the leading dimensions along which the task can be cut; none: it stays alone. */
void np_fuser_find_axes(np_fuser *f, uint32_t task);
/* Does a tile of what `from` makes hold all that the same tile of `to` reads of it through input i?
 * What lacks an axis is the same for all of its indices. */
bool np_tile_serves(const np_fuser *f, uint32_t from, uint8_t lacks, uint32_t to, uint32_t i, int n_axes);

#endif
