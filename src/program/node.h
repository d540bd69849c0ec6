/* node.h - an instruction as the loader leaves it: one struct a node type, made from nodes.def.
 *
 * Everything in it is checked at load: tensor and value numbers exist, chains exist and do not reach
 * themselves, ranks fit, dtypes are known. Nothing is trusted or looked up again later.
 *
 * Field kinds: TID a tensor number that is read, OUT one that is written; OPT_ may be absent (-1).
 * INT a literal or a value number; FLOAT, INDEX, VID_OR_TID likewise; an absent OPT_INT is 0. Lists
 * are counted; OPT_ lists, STRINGS and I8S may be absent (empty). Lists that go by dimension are no
 * longer than NEAP_MAX_RANK (pad_width: twice that); concatenate, stack, split and scan have one
 * tensor at least; a scan has as many sliced as originals; the lists of a metal_kernel fit together
 * and its output_dtypes are known. */
#ifndef NP_NODE_H
#define NP_NODE_H

#include "neap/dtype.h"

typedef struct np_int {
    bool is_vid;
    int32_t value; /* the literal, clamped to 32 bits, or the value's number */
} np_int;

typedef struct np_float {
    bool is_vid;
    uint32_t vid;
    double value;
} np_float;

typedef struct np_vid_or_tid {
    bool is_vid;
    uint32_t number;
} np_vid_or_tid;

typedef enum np_index_kind { NP_INDEX_LITERAL, NP_INDEX_VID, NP_INDEX_TID } np_index_kind;
typedef struct np_index {
    np_index_kind kind;
    int32_t value; /* the literal (clamped to 32 bits), or the number */
} np_index;

typedef struct np_opt_i32 {
    bool present;
    int32_t value;
} np_opt_i32;
typedef struct np_opt_f32 {
    bool present;
    float value;
} np_opt_f32;
typedef struct np_opt_dtype {
    bool present;
    neap_dtype value;
} np_opt_dtype;

typedef struct np_tids {
    uint32_t n;
    const int32_t *at;
} np_tids;
typedef struct np_ints {
    uint32_t n;
    const np_int *at;
} np_ints;
typedef struct np_i32s {
    uint32_t n;
    const int32_t *at;
} np_i32s;
typedef struct np_strings {
    uint32_t n;
    const char *const *at; /* terminated, copies of the program's own */
} np_strings;

/* Field kinds of nodes.def, with the C type of each. */
#define NP_FIELD_KINDS(K)                                                                          \
    K(TID, int32_t) K(OPT_TID, int32_t) K(OUT, int32_t) K(TIDS, np_tids) K(OUTS, np_tids)          \
    K(OUT_VID, uint32_t) K(OPT_VID, int32_t) K(INT, np_int) K(OPT_INT, np_int)                     \
    K(FLOAT, np_float) K(VID_OR_TID, np_vid_or_tid) K(INDEX, np_index) K(INTS, np_ints)            \
    K(I32, int32_t) K(OPT_I32, np_opt_i32) K(U64, uint64_t) K(F32, float) K(OPT_F32, np_opt_f32)   \
    K(BOOL, bool) K(DTYPE, neap_dtype) K(OPT_DTYPE, np_opt_dtype) K(CHAIN, uint32_t)               \
    K(STRING, const char *) K(OPT_STRING, const char *) K(STRINGS, np_strings) K(I32S, np_i32s)    \
    K(OPT_INTS, np_ints) K(OPT_I32S, np_i32s) K(I8S, np_i32s) /* bytes, widened */

typedef enum np_field_kind {
#define K(kind, type) NP_FIELD_##kind,
    NP_FIELD_KINDS(K)
#undef K
} np_field_kind;

typedef struct np_field {
    const char *name;
    np_field_kind kind;
    uint32_t offset; /* in the node's struct */
    double otherwise; /* a scalar, when the file leaves it out */
} np_field;

#define NODE_BEGIN(number, name, text) typedef struct np_node_##name {
#define NODE_END(name)                                                                             \
    char end_;                                                                                     \
    }                                                                                              \
    np_node_##name;
#define TID(f) int32_t f;
#define OPT_TID(f) int32_t f;
#define OUT(f) int32_t f;
#define TIDS(f) np_tids f;
#define OUTS(f) np_tids f;
#define OUT_VID(f) uint32_t f;
#define OPT_VID(f) int32_t f;
#define INT(f) np_int f;
#define OPT_INT(f) np_int f;
#define FLOAT(f) np_float f;
#define VID_OR_TID(f) np_vid_or_tid f;
#define INDEX(f) np_index f;
#define INTS(f) np_ints f;
#define I32(f, d) int32_t f;
#define OPT_I32(f) np_opt_i32 f;
#define U64(f) uint64_t f;
#define F32(f, d) float f;
#define OPT_F32(f) np_opt_f32 f;
#define BOOL(f, d) bool f;
#define DTYPE(f) neap_dtype f;
#define OPT_DTYPE(f) np_opt_dtype f;
#define CHAIN(f) uint32_t f;
#define STRING(f) const char *f;
#define OPT_STRING(f) const char *f;
#define STRINGS(f) np_strings f;
#define I32S(f) np_i32s f;
#define OPT_INTS(f) np_ints f;
#define OPT_I32S(f) np_i32s f;
#define I8S(f) np_i32s f;
#include "program/nodes.def"
#include "program/nodes_undef.h"

typedef struct np_node_type {
    const char *name; /* "AddmmNode" */
    uint32_t bytes;   /* of its struct */
    uint32_t n_fields;
    const np_field *fields;
} np_node_type;

/* The type numbers of the schema: NP_NODE_add = 13. */
typedef enum np_node_number {
    NP_NODE_NONE,
#define NODE_BEGIN(number, name, text) NP_NODE_##name = (number),
#define NODE_END(name)
#include "program/nodes_blank.h"
#include "program/nodes.def"
#include "program/nodes_undef.h"
    NP_NODE_COUNT
} np_node_number;

typedef struct np_instruction {
    np_node_number number;
    const void *fields; /* np_node_<name> */
} np_instruction;

/* NULL for a number that this version of the schema does not have. */
const np_node_type *np_node_type_of(uint32_t number);

#endif
