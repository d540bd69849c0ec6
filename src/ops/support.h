/* support.h - what the ops share: refusing with a text, axes, dtype promotion, broadcasting, and
 * the two drivers that walk strided operands, spans (through a kernel) and copies (of bytes).
 *
 * The drivers choose how the work is cut by shape and strides; element bits never depend on it. */
#ifndef NP_SUPPORT_H
#define NP_SUPPORT_H

#include "array/array.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels.h"
#include "ops/op_table.h"
#include "neap/ops.h"

/* Elements from which on a step is worth waking the other lanes. */
enum { NP_PARALLEL_ELEMENTS = 32768 };

/* ---- building ------------------------------------------------------------------------------- */

/* Stores an error that names the op and its inputs' shapes; returns NULL. For use before there is a
 * node; np_op_fail is for infer. Inputs may be NULL pointers when n is 0. */
neap_array *np_refuse(const char *op, uint32_t n, neap_array *const *in, neap_status status,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
/* What a building call that returns its status gives back after a refusal, or where an input's error was
 * stored before. */
neap_status np_refused(void);
/* Is every input there, and a value (not an effect), and the current context without an error? */
bool np_attached(uint32_t n, neap_array *const *in);
/* And can it be read? A view of a state that a parameter may move past its end is only a target. */
bool np_ready(uint32_t n, neap_array *const *in);
bool np_hangs_over(const neap_array *x);
/* -rank .. rank-1 to 0 .. rank-1. */
bool np_axis(const char *op, neap_array *x, int axis, int *out);
/* Options of an older, smaller size start at the default. */
bool np_options(const char *op, const void *given, void *options, size_t size);
bool np_plain_dtype(const char *op, neap_array *x); /* refuses quantised weights */
/* The dtype that holds both; false for quantised ones. */
bool np_promote(neap_dtype a, neap_dtype b, neap_dtype *out);
/* The dtype of all inputs; refuses quantised ones. */
bool np_promote_all(const char *op, uint32_t n, neap_array *const *in, neap_dtype *out);

/* A shape, one dimension of which may have its extent set at run time. */
typedef struct np_extents {
    int rank, dynamic_dim; /* -1: none */
    neap_param *extent;
    int64_t shape[NEAP_MAX_RANK];
} np_extents;

np_extents np_extents_of(const neap_array *x);
/* The shape that all inputs broadcast to. */
bool np_broadcast(const char *op, uint32_t n, neap_array *const *in, np_extents *out);
/* x as a view of these extents, which it must broadcast to; x itself where they are its own. */
neap_array *np_broadcast_view(const char *op, neap_array *x, const np_extents *to);
/* np_view that carries x's extent over to dimension `dynamic_dim` (-1: it is not in the view). */
neap_array *np_view_carry(neap_array *x, int rank, const int64_t *shape, const int64_t *strides,
                          int64_t offset, int dynamic_dim);
/* For infer: shape and extent of an input; dtype is the caller's to set. */
void np_infer_like(neap_array *out, const neap_array *x);
/* The infer rule of ops whose result has the first input's shape, extent and dtype. */
bool np_infer_same(neap_array *out);
/* x if the elements of its last dimension are adjacent, else a copy. */
neap_array *np_adjacent(neap_array *x);
/* x if it is row-major, else a copy. */
neap_array *np_dense(neap_array *x);
/* x without what negative widths cut off; what is left to add at each side. NULL: more than there is. */
neap_array *np_cropped(const char *op, neap_array *x, const int64_t *before, const int64_t *after,
                       int64_t *add_before, int64_t *add_after);
/* A copy, whatever x's strides are. */
neap_array *np_copied(neap_array *x);

/* Of a product: the last of *lead leading dimensions of a and the result are moved into m as far as
 * they can be walked as rows. */
void np_fold_rows(np_gemm_args *g, int *lead, const np_operand *a, const np_operand *out);

/* start:stop:step of every axis, resolved: shape[d] elements from first[d] by step[d]. */
typedef struct np_region {
    int64_t shape[NEAP_MAX_RANK], first[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
} np_region;
bool np_slice_region(const char *op, neap_array *x, const int64_t *start, const int64_t *stop,
                     const int64_t *step, np_region *out);

/* ---- parts ---------------------------------------------------------------------------------- */

/* np_op.part where every dimension of every input is cut as the result's. */
int np_part_every(const np_call *shapes, int dim, uint32_t input);
/* The index in the whole result of the call's first element along `dim`. */
static inline int64_t np_part_first(const np_call *c, int dim)
{
    return c->first ? c->first[dim] : 0;
}
/* The number in the whole result of element `number`, in row-major order, of dimensions dim ..
 * dim + rank of this part of it. */
int64_t np_part_number(const np_call *c, int dim, int rank, int64_t number);
/* np_op.flops: so many for each element of the result or of the first input. */
double np_flops_result(const np_call *shapes, double each);
double np_flops_input(const np_call *shapes, double each);

/* ---- spans ---------------------------------------------------------------------------------- */

enum { NP_MAX_OPERANDS = 4 }; /* the result and three inputs */

/* at[0] is the result; step[i] of an input: 1 = adjacent, 0 = one element for all. */
typedef void (*np_span_fn)(const void *user, void *const *at, const int *step, int64_t n);

typedef struct np_span_operand {
    void *data;
    const int64_t *strides; /* in elements */
    int64_t size;           /* of an element, in bytes */
} np_span_operand;

typedef struct np_spans {
    np_pool *pool;
    int rank;
    const int64_t *shape;
    int n; /* operands, the result first */
    np_span_operand operand[NP_MAX_OPERANDS];
    bool repeat; /* the kernel wants adjacent elements also where one serves all */
    np_span_fn fn;
    const void *user;
} np_spans;

/* Calls fn over spans that cover every element. The result may lie on an input of equal strides. */
void np_spans_run(const np_spans *spans);
/* The same over a call's result and inputs; loops over the result's shape. */
void np_spans_call(const np_call *c, bool repeat, np_span_fn fn, const void *user);
/* Converts (or copies, when the dtypes agree) `shape` elements between strided places. */
void np_convert(const np_kernels *kernels, np_pool *pool, int rank, const int64_t *shape, neap_dtype to_dtype, void *to,
                const int64_t *to_strides, neap_dtype from_dtype, const void *from,
                const int64_t *from_strides);

/* ---- copies --------------------------------------------------------------------------------- */

/* A strided copy, prepared once for any number of places. Strides in bytes. */
typedef struct np_copy {
    int rank;
    int64_t size; /* of an element */
    int64_t shape[NEAP_MAX_RANK], to[NEAP_MAX_RANK], from[NEAP_MAX_RANK];
    bool empty, planes; /* planes: the last two dimensions are walked in square blocks */
} np_copy;

/* Strides in elements. */
np_copy np_copy_make(int64_t size, int rank, const int64_t *shape, const int64_t *to_strides,
                     const int64_t *from_strides);
/* On the calling lane. */
void np_copy_one(const np_copy *copy, void *to, const void *from);
/* Over the pool's lanes when it is large. */
void np_copy_all(const np_copy *copy, np_pool *pool, void *to, const void *from);

/* ---- indices --------------------------------------------------------------------------------- */

/* The integer `offset` elements from an operand's first. */
static inline int64_t np_load_index(const np_operand *indices, int64_t offset)
{
    const void *p = indices->data;
    switch (indices->dtype) {
    case NEAP_U8: return ((const uint8_t *)p)[offset];
    case NEAP_I8: return ((const int8_t *)p)[offset];
    case NEAP_I16: return ((const int16_t *)p)[offset];
    case NEAP_I32: return ((const int32_t *)p)[offset];
    case NEAP_U32: return ((const uint32_t *)p)[offset];
    default: return ((const int64_t *)p)[offset];
    }
}

/* ---- groups of dimensions ------------------------------------------------------------------- */

/* Drops dimensions of extent 1 and merges neighbours that lie one after the other in every one of
 * the `n` operands (strides[operand][dimension], rewritten). Returns the new rank, 0 for one
 * element. */
int np_collapse(int rank, int64_t *shape, int n, int64_t (*strides)[NEAP_MAX_RANK]);
/* Steps an index of `rank` dimensions to the next one in row-major order and moves the offsets of n
 * operands along; after the last one it is at the first again. */
void np_index_next(int rank, const int64_t *shape, int64_t *index, int n, int64_t *offsets,
                   int64_t (*strides)[NEAP_MAX_RANK]);
/* Sets index and offsets to the `at`-th one. */
void np_index_seek(int rank, const int64_t *shape, int64_t at, int64_t *index, int n,
                   int64_t *offsets, int64_t (*strides)[NEAP_MAX_RANK]);

/* neap_gated_delta_step within a call: an error stays stored. */
neap_status np_gated_delta_step(neap_array *q, neap_array *k, neap_array *v, neap_array *g,
                                neap_array *beta, neap_array *state, neap_array **out_y,
                                neap_array **out_state);

#endif
