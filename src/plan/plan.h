/* plan.h - from a graph to steps with places in one arena. Pure: no kernel runs here, nothing of
 * the arena is allocated.
 *
 *   gather    every array that the roots reach, in program order        gather.c
 *   simplify  equal computations become one                             simplify.c
 *   tasks     what there is to do, what waits for what, hazards         tasks.c
 *   fuse      tasks that become one step                                fuse.c, fuse_order.c, group.c,
 *                                                                       group_windows.c, epilogue.c
 *   build     steps, operands, lifetimes                                build.c, take_over.c, join.c
 *   host      values that lie in a result's block until it is made      host.c
 *   place     lifetimes to offsets                                      place.c
 *   order     of steps, so that less is alive                           reorder.c, order.h
 *   again     cheap values made a second time, if memory is needed      recompute.c, again.c
 *   choose    whole plans of all that, one of which is packed           choose.c, cost.c, pack.c
 *   cache     plans by structure and options                            cache.c
 *
 * All of them work in workspace of their own: work.c. */
#ifndef NP_PLAN_H
#define NP_PLAN_H

#include "array/array.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "cpu/kernels.h"
#include "neap/plan.h"
#include "ops/row_op.h"

enum { NP_NONE = UINT32_MAX };

/* ---- workspace: work.c -------------------------------------------------------------------------
 *
 * Apart from slabs: among their slots workspace would decide, by its size, which of them the plan's own
 * blocks pin, and held bytes would depend on what was planned before. */

void *np_workspace_take(neap_context *ctx, size_t bytes); /* zeros; NULL: no memory */
void np_workspace_free(neap_context *ctx, void *p, size_t bytes); /* p may be NULL */
/* More bytes for a table, what is there is kept. `table`: the address of a pointer, NULL at first. */
bool np_workspace_resize(neap_context *ctx, void *table, size_t from, size_t to);
/* Room for n elements of `size` bytes, likewise; given back as workspace of capacity * size bytes. */
bool np_workspace_grow(neap_context *ctx, void *table, size_t *capacity, size_t n, size_t size);

typedef struct np_region np_region;
/* The context's, where small tables lie, empty while nothing is planned; NULL: no memory. cache.c */
np_region **np_plan_regions(neap_context *ctx);

/* Workspace that is kept for the next one who needs some: one user at a time. */
typedef struct np_work {
    neap_context *ctx;
    void *memory;
    size_t bytes;
} np_work;
/* At least that many bytes, of any content, until the next take; NULL: no memory. */
void *np_work_take(np_work *work, size_t bytes);
void np_work_free(np_work *work);

/* ---- the graph as gathered ------------------------------------------------------------------- */

typedef struct np_entry {
    neap_array *array;
    uint32_t canonical; /* the earlier entry that computes the same, or its own index */
    uint32_t operand;   /* in the plan; NP_NONE: not used */
    uint32_t step;      /* that makes it; NP_NONE */
} np_entry;

typedef struct np_graph {
    neap_context *ctx;
    np_entry *entries; /* values first as met, then the rest in program order */
    size_t n, capacity;
    uint32_t *table; /* array pointer -> index, open addressing */
    size_t table_size;
    neap_array *const *roots;
    int n_roots;
} np_graph;

neap_status np_graph_gather(neap_context *ctx, int n_roots, neap_array *const *roots, np_graph *g);
void np_graph_free(np_graph *g);
uint32_t np_graph_find(const np_graph *g, const neap_array *a);
static inline uint32_t np_canonical(const np_graph *g, const neap_array *a)
{
    return g->entries[np_graph_find(g, a)].canonical;
}
bool np_graph_runs(const neap_array *a); /* a node that becomes a step */
neap_status np_graph_simplify(np_graph *g, int64_t *merged);
bool np_graph_index(np_graph *g); /* the table anew, for the entries as they are */

/* ---- the plan ---------------------------------------------------------------------------------
 */

typedef enum np_place_kind {
    NP_IN_VALUE, /* the buffer of a value: source = index into values */
    NP_IN_STATE, /* source = index into states */
    NP_IN_ARENA, /* source = index into blocks */
    NP_IN_OUTPUT, /* source = index into outputs */
    NP_IN_TILE    /* of a group's step only: source = index of the member that makes it */
} np_place_kind;

typedef struct np_plan_operand {
    np_operand operand; /* data is set when the plan is bound */
    uint8_t kind;       /* np_place_kind */
    bool shifted;       /* a run moves it: see np_moving */
    uint32_t source;
    int64_t offset; /* bytes from the storage's first */
    uint64_t storage_bytes;
} np_plan_operand;

/* What parameters set of an operand, anew at each run. */
typedef struct np_moving {
    uint32_t operand;
    int8_t dim;         /* whose extent is extent->value, at most `capacity` */
    neap_param *extent; /* or NULL */
    int64_t capacity;
    neap_param *shift; /* or NULL: moves it by shift->value * shift_bytes */
    int64_t shift_bytes;
    uint8_t *base; /* of the storage */
} np_moving;

/* An output's extent that is set at run time. */
typedef struct np_output_extent {
    neap_param *param; /* NULL: none */
    int dim;
    int64_t capacity;
} np_output_extent;

/* Is the value only a part of its storage? Others write the rest. A part lies elsewhere than an array of
 * the storage's bytes does, element by element, even where both begin together. */
static inline bool np_is_part(const np_plan_operand *o)
{
    return (uint64_t)(np_size(o->operand.rank, o->operand.shape) *
                      np_element_bytes((neap_dtype)o->operand.dtype)) != o->storage_bytes;
}

/* ---- blocks ------------------------------------------------------------------------------------ */

typedef struct np_block {
    uint64_t bytes; /* rounded to 64 */
    uint64_t offset;
    uint32_t first, last; /* steps, inclusive */
    uint32_t owner;       /* the block whose place it shares (taken over), or itself */
    bool scratch;
    bool hosted; /* lies in a result's block, not in the arena */
} np_block;

/* ---- groups: steps of several ops that run tile by tile ------------------------------------------ */

enum {
    NP_AXES = 4,
    NP_GROUP_INPUTS = 8,
    NP_LANE_PLACES = 320, /* places of a chain that lie on a lane's stack; more need scratch */
    NP_EPILOGUE_PLACES = 40 /* of a product's epilogue, which has no scratch */
};

/* A group is cut along the leading dimensions that its members share, those of extent 1 not counted. */
typedef struct np_group_shape {
    int64_t extent[NP_AXES];
    neap_param *param[NP_AXES]; /* that set it at run time, or NULL */
    uint8_t n_axes;
    bool heavy; /* a member wants all lanes: blocks one after the other, not tiles side by side */
} np_group_shape;

/* An operand of a member. */
typedef struct np_cut {
    uint32_t operand;
    int8_t cut[NP_AXES]; /* dimension that follows the axis; -1: read whole */
    uint64_t in_tile : 1, tile_at : 63; /* bytes from a lane's first tile */
} np_cut;

/* Of a slot of a group whose members need more than their block: see np_window; `made`: the `before` of the
 * member in whose tile it lies. */
typedef struct np_slot_window {
    np_window w;
    int32_t made;
} np_slot_window;

/* Rows of `extent` that a slot sees of `count` from `first` on; the first of them. */
static inline int64_t np_slot_rows(const np_slot_window *s, int64_t first, int64_t count, int64_t extent,
                                   int64_t *begin)
{
    int64_t low = first * s->w.step - s->w.before, high = (first + count - 1) * s->w.step + s->w.after + 1;
    low = low < 0 ? 0 : low > extent ? extent : low;
    high = high < low ? low : high > extent ? extent : high;
    *begin = low;
    return high - low;
}

/* Where a chain's place is found: at a slot. */
typedef struct np_chain_source {
    int64_t row; /* bytes */
    uint32_t slot;
    uint8_t size;
    bool one;
} np_chain_source;

/* Rows of adjacent elements that an op's row kernel runs on. */
typedef struct np_member_rows {
    np_row_op op;
    int64_t n, stride, out_stride; /* in elements */
} np_member_rows;

typedef struct np_member {
    const np_op *op;
    const void *attr;
    const char *name;
    uint32_t first_slot; /* of the result, then the inputs */
    uint16_t n_in;
    bool flat;        /* the chain's tile is one row */
    uint32_t block;   /* of the result; NP_NONE: a tile, or a root's own bytes */
    uint32_t rows;    /* that it runs on; NP_NONE: in a chain, or its op's own run */
    uint32_t n_chain; /* members from here on that run as one chain; 0: none */
    uint32_t first_op, first_place, n_places;
    int64_t row_n; /* elements of a chain's row */
} np_member;

typedef struct np_group {
    uint32_t first_member, n_members;
    uint8_t n_axes;
    bool far;            /* a chain writes past the caches */
    bool streamed;       /* blocks one after the other, each by all lanes */
    bool epilogue;       /* a product, then a chain in place over each block that it makes; no axes */
    uint32_t extents_of; /* operand that tells the axes' extents in this run ... */
    int8_t extent_dim[NP_AXES]; /* ... by these dimensions */
    uint32_t windows;    /* of its slots, from that of its first member on; NP_NONE: none needs one */
    int64_t block;       /* indices of the last axis in one tile */
    int64_t elements;    /* of the largest member's result */
    uint64_t tile_bytes, work_bytes, lane_bytes; /* tiles, members' scratch, all of it with places */
} np_group;

typedef struct np_step {
    const np_op *op;
    const void *attr;
    const np_operand **in;
    np_operand *out;
    uint32_t n_in;
    uint32_t block;   /* NP_NONE: an effect or an output */
    uint32_t scratch; /* block, or NP_NONE */
    uint32_t group;   /* NP_NONE: one op */
    float seconds;    /* predicted */
    const char *name;
} np_step;

struct neap_plan {
    neap_context *ctx;
    size_t bytes; /* with every table below */
    np_step *steps;
    np_plan_operand *operands;
    np_block *blocks;
    np_group *groups;
    np_member *members;
    np_member_rows *rows;
    np_cut *slots;
    np_slot_window *windows;
    np_chain_op *chain_ops;
    np_chain_source *chain_places;
    uint32_t n_groups, n_members;
    uint32_t n_steps, n_operands, n_blocks, n_moving, n_values, n_states, n_outputs, n_params;
    np_moving *moving;
    neap_array **values; /* retained by plan objects; rebound by cached plans */
    neap_state **states;
    uint32_t *value_entry, *state_entry; /* entries of the graph where they were found */
    neap_param **params;                 /* of neap_plan_run */
    np_output_extent *output_extents;    /* of plan objects; NULL: no output has one */
    neap_array **outputs;                /* plan objects: arrays over their own blocks */
    np_buffer **buffers;                 /* theirs */
    uint64_t *output_bytes;
    uint32_t *output_root;  /* which root each output is */
    uint64_t *state_writes; /* writes that one run adds to each state */
    bool owns;              /* a plan object, not a cached plan */
    uint32_t users;         /* evaluations that hold it: it stays in the cache */
    bool bound;
    const void *arena_base; /* the arena that the operands are bound to */
    neap_plan_info info;
};

/* Plans a gathered graph. `object`: the plan keeps references to values and states. `wish`: a budget for
 * arena and results where the options have none; if nothing meets it, the plan is the least; 0: none. */
neap_status np_plan_build(np_graph *g, bool object, uint64_t wish, neap_plan **out);
void np_plan_destroy(neap_plan *p);

/* Offsets for blocks with lifetimes; returns the arena's bytes. Blocks that share another's place
 * are skipped. UINT64_MAX: no memory. */
uint64_t np_place(np_work *work, np_block *blocks, uint32_t n);

/* ---- the cache ---------------------------------------------------------------------------------
 */

enum { NP_KEY_PARAMS = 32 }; /* a graph with more of them is not cached */

typedef struct np_plan_key {
    uint8_t *bytes;
    size_t n, capacity;
    uint64_t hash;
    uint32_t *states; /* entries at which each state is met first */
    size_t n_states, state_capacity;
    neap_param *params[NP_KEY_PARAMS]; /* that move views or set extents, in order of first use */
    uint32_t n_params;
} np_plan_key;

/* Empty (n = 0) when the graph is not to be cached. */
neap_status np_plan_key_make(const np_graph *g, np_plan_key *key);
void np_plan_key_free(neap_context *ctx, np_plan_key *key);
/* The options of the context or of the nearest parent that has some. */
neap_plan_options np_plan_options_of(const neap_context *ctx);
/* Each plan that the context makes from now on takes that many bytes if there is such a plan, else the
 * least; 0: as its options say. */
neap_status np_plan_set_budget(neap_context *ctx, uint64_t bytes);
neap_plan *np_plan_cache_find(neap_context *ctx, const np_plan_key *key);
/* Takes the plan and the key over; false: the caller keeps both. */
bool np_plan_cache_add(neap_context *ctx, np_plan_key *key, neap_plan *p);
/* Lets go of cached plans that nobody runs, until at most `bytes` are held. */
void np_plan_cache_shrink(neap_context *ctx, uint64_t bytes);

#endif
