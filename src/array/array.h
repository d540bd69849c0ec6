/* array.h - the inside of arrays, states and parameters, and the op descriptor.
 *
 * Nodes point to a const np_op; nothing switches over ops. Views never run: reshape, transpose,
 * slice and broadcast only describe elements of their `base`, which is a value, a state read or a
 * node that does run. Level 2: knows no op, no plan, no kernel. */
#ifndef NP_ARRAY_H
#define NP_ARRAY_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/context.h"
#include "neap/array.h"

enum { NP_ATTR_BYTES = 96, NP_INLINE_INPUTS = 4 };

typedef struct np_op np_op;
struct np_chain_op; /* cpu/kernels.h */
struct np_row_op;   /* ops/row_op.h */

/* Bytes that values share. `data` of a borrowed buffer belongs to the caller. */
typedef struct np_buffer {
    atomic_int refs;
    np_category category;
    neap_context *ctx;
    void *data;
    uint64_t bytes;
    bool borrowed;
    bool paged; /* whole pages, taken by np_buffer_fill */
    void (*release)(void *user);
    void *user;
} np_buffer;

struct neap_param {
    neap_context *ctx;
    int64_t value, max;
    atomic_int refs;
    char name[32];
};

struct neap_state {
    atomic_int refs;
    neap_context *ctx;
    np_buffer *buffer; /* without bytes until first used */
    neap_dtype dtype;
    int rank;
    int64_t shape[NEAP_MAX_RANK];
    uint64_t written; /* writes recorded */
    uint64_t done;    /* writes run */
    neap_array *last; /* latest recorded write that has not run; retained */
    bool poisoned;
    char name[64];
};

struct neap_array {
    atomic_int refs;
    uint8_t dtype, rank;
    int8_t dynamic_dim; /* dimension whose extent at run time is extent->value; -1: none */
    bool packed;        /* quantised weights in the kernels' packed layout */
    bool done;          /* an effect that has run */
    uint8_t attr_bytes;
    uint8_t tail; /* words after the strides: none of a value's */
    uint32_t n_in;
    neap_context *ctx;
    const np_op *op;   /* NULL: a value, or a view (base set) */
    np_buffer *buffer; /* of a value that is no view */
    neap_array *base;  /* of a view; not a view itself */
    int64_t offset;    /* of a view: elements from the base's first */
    neap_param *shift; /* of a view: shift->value * shift_scale more elements; or NULL */
    int64_t shift_scale;
    neap_param *extent;
    neap_state *state; /* of a state read, or the state that an effect writes */
    neap_array *after; /* must have run before this node (effects in program order) */
    uint64_t sequence; /* program order within the process */
    neap_array *link;  /* next in the scope's list, or in a worklist while being released */
    char *name;
    neap_array **in; /* of a view: the nearest one it was made from that waits for something itself */
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
    /* Values end here: they are small, and in slabs of their own, which outlive a graph's nodes. */
    uint64_t version; /* a read: writes before it; a write: its own number, from 1 */
    uint8_t attr[];   /* the op's own, attr_bytes of them; then a few inputs */
};
_Static_assert(offsetof(struct neap_array, version) == 256, "a value fills a slot");

/* What it takes; of an array in slabs. */
static inline size_t np_array_bytes(const neap_array *a)
{
    return offsetof(neap_array, version) + a->tail * sizeof(uint64_t);
}

/* ---- what an op is -------------------------------------------------------------------------- */

/* An operand while a step runs: where its bytes are now and its extents in this run. */
typedef struct np_operand {
    uint8_t *data;
    uint8_t dtype, rank;
    bool packed;
    int64_t shape[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
} np_operand;

typedef struct np_call {
    neap_context *ctx; /* kernels, errors */
    np_pool *pool;     /* the lanes to share the work out to; NULL: the caller's alone */
    const np_op *op;
    const void *attr;
    uint32_t n_in;
    const np_operand *const *in;
    np_operand *out;
    void *scratch;
    /* Of a part of the result, by its dimensions: the index of the part's first element in the whole
     * result, and the whole's extents. NULL: `out` is the whole. */
    const int64_t *first, *whole;
    /* NP_OP_FINISHES: what is done to each block of the result when it is made, see np_gemm_args. */
    void (*finished)(void *arg, void *block, int64_t rows, int64_t columns);
    void *finished_arg;
    int64_t also;
} np_call;

/* Elements begin .. end of a dimension of a result are made of these of an input's:
 * begin * step - before to (end - 1) * step + after, those that there are. */
typedef struct np_window {
    int32_t step, before, after;
} np_window;

/* What np_op.part answers instead of a dimension. */
enum {
    NP_PART_WHOLE = -1, /* every part of the result needs the whole input */
    NP_PART_NONE = -2   /* the result cannot be made in parts of this dimension */
};

enum {
    NP_OP_EFFECT = 1,      /* writes a state; never merged or dropped */
    NP_OP_ELEMENTWISE = 2, /* element i of the output needs element i of each input */
    NP_OP_STATE_READ = 4,  /* storage is the state's; never runs */
    NP_OP_APPENDS = 8,     /* an effect that writes only beyond what was committed: cannot poison */
    NP_OP_CHEAP = 16,      /* hardly more than a load and a store: rather made again, also for each index of an
                              axis, than kept */
    NP_OP_FINISHES = 32    /* a run calls np_call.finished for each block of a result of adjacent rows */
};

struct np_op {
    const char *name;
    int arity; /* -1: any number */
    uint32_t flags;
    uint32_t overwrites; /* bit i: the output may take over the bytes of input i, of equal size */
    bool (*infer)(neap_array *out);           /* sets dtype, rank, shape; false after np_op_fail */
    size_t (*scratch)(const np_call *shapes); /* bytes at these shapes; pure; NULL: none */
    neap_status (*run)(const np_call *call);
    /* Elements begin .. end of dimension `dim` of the result are made alone: which dimension of the
     * input is cut alike, or NP_PART_*. The result's bits are the same however it is cut. NULL: never
     * in parts; NP_OP_ELEMENTWISE means `dim` for every input. Use np_op_part. */
    int (*part)(const np_call *shapes, int dim, uint32_t input);
    /* Where `part` says none: the dimension of the input that is cut, but with what lies about it (w), or
     * NP_PART_*. A call then has in `first` and `whole` where the result's part lies. NULL: NP_PART_NONE.
     * Use np_op_window. */
    int (*window)(const np_call *shapes, int dim, uint32_t input, np_window *w);
    double (*flops)(const np_call *shapes); /* NULL: one an element of the result */
    /* Fills in what runs this op over one tile, after other ops; false: not with these dtypes. */
    bool (*chain)(const np_call *shapes, struct np_chain_op *out);
    /* Fills in the kernel that runs this op on rows, the last dimension; false: not in this case. */
    bool (*row)(const np_call *shapes, struct np_row_op *out);
    /* Is the result its inputs one after the other? Then they may be made in it. NULL: no. */
    bool (*joins)(const neap_array *out);
    bool absorbs_extent; /* takes inputs whose extent is set at run time, gives a fixed one */
    const char *no_grad; /* why it has no gradient; vjps come with the gradients */
};

static inline int np_op_part(const np_call *shapes, int dim, uint32_t input)
{
    if (shapes->op->part)
        return shapes->op->part(shapes, dim, input);
    return shapes->op->flags & NP_OP_ELEMENTWISE ? dim : NP_PART_NONE;
}

/* As np_op_part; w: none (step 1, nothing about it), but where only a window will do. */
static inline int np_op_window(const np_call *shapes, int dim, uint32_t input, np_window *w)
{
    const int part = np_op_part(shapes, dim, input);
    *w = (np_window){.step = 1};
    return part == NP_PART_NONE && shapes->op->window ? shapes->op->window(shapes, dim, input, w) : part;
}

static inline bool np_is_window(const np_window *w)
{
    return w->step != 1 || w->before || w->after;
}

/* ---- building ------------------------------------------------------------------------------- */

/* The current context of the thread, or NULL (NEAP_ENOCONTEXT is then the thread's error). */
neap_context *np_scope_context(void);
/* As their neap_ namesakes, within a call: an error stays stored. */
neap_status np_scope_push(neap_context *ctx);
neap_status np_state_new(neap_context *ctx, const char *name, neap_dtype dtype, int rank,
                         const int64_t *shape, neap_state **out);
neap_status np_param_new(neap_context *ctx, const char *name, int64_t max, neap_param **out);
neap_status np_param_set(neap_param *p, int64_t value);
/* A blank value of the current scope, one reference (the scope's). NULL: error stored. */
neap_array *np_array_new(neap_context *ctx);
/* A node: NULL if an input is NULL or infer refuses. attr may be NULL; strides become row-major. */
neap_array *np_node(const np_op *op, uint32_t n_in, neap_array *const *in, const void *attr,
                    size_t attr_bytes);
/* A view of x's storage; offset counts from x's own first element. dtype, shift and what x waits
 * for are x's; no extent is set at run time: np_set_extent gives it one. */
neap_array *np_view(neap_array *x, int rank, const int64_t *shape, const int64_t *strides,
                    int64_t offset);
/* Gives dimension `dim` an extent that is read from `param` at run time; its shape is the capacity.
 */
void np_set_extent(neap_array *a, int dim, neap_param *param);
void np_scope_add(neap_context *ctx, neap_array *a);
/* Makes `node` the latest recorded write of `state`. */
void np_state_record(neap_state *state, neap_array *node);
/* Turns a node into the value that it has become; takes over the reference to `buffer`. */
void np_array_become_value(neap_array *a, np_buffer *buffer);
/* Drops the inputs of an effect that has run. */
void np_array_finish_effect(neap_array *a);

np_buffer *np_buffer_new(neap_context *ctx, np_category category, uint64_t bytes, bool zero);
/* A buffer without its bytes yet; fill takes whole pages of zeros. */
np_buffer *np_buffer_reserve(neap_context *ctx, np_category category, uint64_t bytes);
neap_status np_buffer_fill(np_buffer *b);
np_buffer *np_buffer_over(neap_context *ctx, void *data, uint64_t bytes,
                          void (*release)(void *user), void *user);
void np_buffer_release(np_buffer *b);

neap_status np_state_materialise(neap_state *state); /* takes its bytes */
void np_state_release(neap_state *state);
/* Takes back every recorded write that has not run; no node that knows of them may be left. */
void np_state_forget(neap_state *state);
void np_param_release(neap_param *param);

/* ---- shapes --------------------------------------------------------------------------------- */

enum { NP_SHAPE_TEXT = 200 };
const char *np_shape_text(const neap_array *a, char out[NP_SHAPE_TEXT]); /* "f32 [2, 3]" */

int64_t np_size(int rank, const int64_t *shape);
/* Elements and bytes of a shape; false if negative or over 2^62. Quantised rows in whole blocks. */
bool np_shape_bytes(neap_dtype dtype, int rank, const int64_t *shape, int64_t *elements,
                    uint64_t *bytes);
void np_row_major(int rank, const int64_t *shape, int64_t *strides);
bool np_is_row_major(int rank, const int64_t *shape, const int64_t *strides);
bool np_same_shape(const neap_array *a, const neap_array *b);
int64_t np_element_bytes(neap_dtype dtype); /* unquantised */
bool np_is_float(neap_dtype dtype);
bool np_is_quantised(neap_dtype dtype);
bool np_is_integer(neap_dtype dtype); /* signed or unsigned, not bool */

/* Stores a NEAP_ESHAPE/EDTYPE/… error that names the op and its inputs' shapes; returns false. */
bool np_op_fail(neap_array *out, neap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The storage at the end of a view: x itself or its base. */
static inline neap_array *np_storage(neap_array *x)
{
    return x->base ? x->base : x;
}
static inline const neap_array *np_storage_const(const neap_array *x)
{
    return x->base ? x->base : x;
}

#endif
