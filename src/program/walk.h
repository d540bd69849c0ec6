/* walk.h - walking a delegate's chains: each instruction builds graph nodes into its slots.
 *
 * A walk runs nothing by itself. It ends with one plan for the whole, or it is cut: where a shape or
 * a branch needs a number that only computing gives, and where the threshold says so, what is alive
 * is evaluated and the walk goes on from values. Integers read from an input stay open as runtime
 * parameters as long as no shape depends on them, so that a decoding loop replays one plan. */
#ifndef NP_WALK_H
#define NP_WALK_H

#include "neap/ops.h"
#include "program/delegate.h"

/* An integer slot: value, and where it comes from if it is not fixed: reads[read] + add. */
typedef struct np_number {
    bool set;
    bool unknown;  /* of a dry walk: only computing would tell; value is a guess */
    int32_t frame; /* of a scan body, as of tensors */
    int32_t read;  /* -1: the same at every execution with these shapes */
    int32_t add;
    int64_t value;
} np_number;

/* A tensor slot. `frame` is the scan body in which it was set, 0 outside. */
typedef struct np_tensor_slot {
    neap_array *array; /* retained; NULL: unset */
    int32_t frame;
} np_tensor_slot;

struct np_scan_frame;

typedef struct np_walk {
    np_delegate *d;
    neap_handle *h;
    neap_context *ctx;
    const np_mlx_graph *g;
    np_tensor_slot *tensors;
    np_number *numbers;
    np_trace *trace;     /* what a replay would need; not used once the walk was cut */
    struct np_scan_frame *frame;
    int depth;     /* of nested chains */
    int64_t walked; /* instructions so far */
    bool scoped;   /* its scope is open */
    bool init;     /* the init chain: constants may be written */
    bool symbolic; /* integers read from inputs stay open */
    bool dry;      /* planning: nothing runs, evaluated values have no bytes */
    bool cut;          /* something was evaluated: there is no one plan to replay */
    bool met_unknown;  /* something hung on an unknown number: what was built is a guess */
    bool guess;        /* of two: such a branch takes the first chain, or (true) the second */
    bool wants_pinned; /* it must be cut, so integers must not stay open */
    bool wants_unroll; /* a scan's body cannot be planned once for all steps */
    neap_array **held; /* evaluated with what is alive: a scan's results so far */
    size_t n_held, held_capacity;
    /* The threshold's counter. */
    uint64_t pending, calls, barriers;
    uint64_t scan_scale; /* iterations that one walked body stands for */
    np_dry_run *report;  /* of a dry walk */
    const np_instruction *node; /* being built, for errors */
    uint32_t chain;
} np_walk;

/* ---- for builders: all return false, or NULL, after storing an error ----------------------------- */

/* A tensor slot's array. */
neap_array *np_get(np_walk *w, int32_t tid);
/* NULL for an absent optional one, without an error: check with `tid >= 0 && !array`. */
neap_array *np_get_optional(np_walk *w, int32_t tid);
/* Sets a slot; a NULL array returns false. */
bool np_put(np_walk *w, int32_t tid, neap_array *array);
bool np_put_number(np_walk *w, uint32_t vid, int64_t value); /* NEAP_EINVAL outside int32 */

/* A number that decides a shape or a branch: one that was read from an input is pinned. */
bool np_get_int(np_walk *w, np_int i, int64_t *out);
bool np_get_ints(np_walk *w, const np_ints *list, int64_t *out, int most);
/* A number that may stay open. */
bool np_get_number(np_walk *w, np_int i, np_number *out);
bool np_get_vid(np_walk *w, uint32_t vid, np_number *out);
void np_pin(np_walk *w, np_number *n);
/* The parameter of read + add; promises low <= value <= high, or no replay. */
neap_param *np_open_param(np_walk *w, const np_number *n, int64_t low, int64_t high);
/* The number that stands for an extent set at run time. */
bool np_number_of_param(np_walk *w, const neap_param *param, np_number *out);
/* A 0-d array of a number. */
neap_array *np_number_array(np_walk *w, const np_number *n, neap_dtype dtype);

/* Stores an error that names the node; returns false. */
bool np_node_fail(np_walk *w, neap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* False, with an error, if x has an extent that is set at run time. */
bool np_node_fixed(np_walk *w, const neap_array *x);
/* Resolves an axis of x. */
bool np_node_axis(np_walk *w, const neap_array *x, int64_t axis, int *out);

/* ---- for control flow -------------------------------------------------------------------------- */

bool np_walk_chain(np_walk *w, uint32_t chain);
/* Evaluates what is alive, and `also` (may be NULL), which becomes a value. */
bool np_walk_evaluate(np_walk *w, neap_array *also);
/* Keeps an array, to be evaluated with what is alive; NULL returns false. */
bool np_walk_hold(np_walk *w, neap_array *a);
/* Lets go of every array that no slot holds; for callers that hold none themselves. */
bool np_walk_sweep(np_walk *w);
bool np_walk_scan(np_walk *w, const np_node_scan *n);
/* Adds a tensor's bytes to the threshold's counter. */
void np_walk_charge(np_walk *w, uint64_t bytes);
/* The state that a whole buffer's array is the newest reading of; NULL: none. */
neap_state *np_newest_state(const neap_array *a);

/* NEAP_EUNSUPPORTED names a kernel of the program that Neap does not have. */
neap_status np_kernels_check(neap_context *ctx, const np_mlx_graph *g);

/* One builder a node type. */
#define NODE_BEGIN(number, name, text) bool np_build_##name(np_walk *w, const void *fields);
#define NODE_END(name)
#include "program/nodes_blank.h"
#include "program/nodes.def"
#include "program/nodes_undef.h"

/* Attention of [B, H, T, D], see nodes_model.c. */
neap_array *np_attention_by_heads(neap_array *q, neap_array *k, neap_array *v,
                                  neap_attention_options *o);

#define NP_BUILD(name)                                                                             \
    static bool build_##name(np_walk *w, const np_node_##name *n);                                 \
    bool np_build_##name(np_walk *w, const void *fields)                                           \
    {                                                                                              \
        return build_##name(w, fields);                                                            \
    }                                                                                              \
    static bool build_##name(np_walk *w, const np_node_##name *n)

#endif
