/* pte.h - an ExecuTorch program file: the container, without any delegate's contents.
 *
 * The file is mapped; what is listed here is copied and checked: every index points to something.
 * Constants stay in the map. Source of the layout: schema/program.fbs of ExecuTorch 1.5.1. */
#ifndef NP_PTE_H
#define NP_PTE_H

#include "base/context.h"
#include "base/file_map.h"
#include "base/reader.h"
#include "neap/array.h"

typedef enum np_pte_kind {
    NP_PTE_NULL = 1,
    NP_PTE_INT,
    NP_PTE_BOOL,
    NP_PTE_DOUBLE,
    NP_PTE_TENSOR,
    NP_PTE_STRING,
    NP_PTE_INT_LIST,    /* `list` holds value numbers of ints */
    NP_PTE_DOUBLE_LIST, /* ... the bits of doubles */
    NP_PTE_BOOL_LIST,   /* ... 0 or 1 */
    NP_PTE_TENSOR_LIST, /* `list` holds value numbers; -1 for an absent one */
    NP_PTE_OPTIONAL_TENSOR_LIST
} np_pte_kind;

typedef enum np_pte_dynamism { NP_PTE_STATIC, NP_PTE_UPPER_BOUND, NP_PTE_UNBOUNDED } np_pte_dynamism;

typedef struct np_pte_value {
    np_pte_kind kind;
    union {
        int64_t integer; /* and bool */
        double real;
        np_bytes string;
        struct {
            uint32_t n;
            const int64_t *at;
        } list;
        struct {
            neap_dtype dtype;
            int scalar_type; /* the file's code: dtype is meaningful if `known` */
            bool known;
            np_pte_dynamism dynamism;
            int rank;
            int64_t shape[NEAP_MAX_RANK]; /* upper bounds unless static */
            uint32_t data;  /* index in the constant segment of a constant of the plan; 0: none */
            np_bytes start; /* contents at load of a tensor that may change; p NULL: none */
            const char *external; /* name of its data outside the program; NULL: it is inside */
        } tensor;
    };
} np_pte_value;

typedef enum np_pte_instruction_kind {
    NP_PTE_KERNEL_CALL = 1,
    NP_PTE_DELEGATE_CALL,
    NP_PTE_MOVE,
    NP_PTE_JUMP_FALSE,
    NP_PTE_FREE
} np_pte_instruction_kind;

typedef struct np_pte_instruction {
    np_pte_instruction_kind kind;
    uint32_t index;      /* of the operator or delegate; MOVE: from; JUMP_FALSE: condition; FREE: value */
    uint32_t to;         /* MOVE: to; JUMP_FALSE: instruction of the same chain (may be its end) */
    uint32_t n_args;     /* calls */
    const int32_t *args; /* value numbers */
} np_pte_instruction;

typedef struct np_pte_operator {
    const char *name, *overload; /* "aten::copy_", "" */
} np_pte_operator;

typedef struct np_pte_delegate {
    const char *id; /* "MLXBackend" */
    np_bytes payload;
} np_pte_delegate;

typedef struct np_pte_chain {
    uint32_t n;
    const np_pte_instruction *instructions;
} np_pte_chain;

typedef struct np_pte_method {
    const char *name;
    uint32_t n_values, n_inputs, n_outputs, n_chains, n_operators, n_delegates;
    const np_pte_value *values;
    const uint32_t *inputs, *outputs; /* value numbers */
    const np_pte_chain *chains;
    const np_pte_operator *operators;
    const np_pte_delegate *delegates;
} np_pte_method;

typedef struct np_pte {
    neap_context *ctx;
    uint32_t version, n_methods;
    const np_pte_method *methods;
    struct np_pte_inside *inside; /* maps, named data, memory */
} np_pte;

/* NEAP_EIO, NEAP_EFORMAT (names the table, field and offset), NEAP_EUNSUPPORTED, NEAP_ENOMEM. */
neap_status np_pte_open(neap_context *ctx, const char *path, np_pte **out);
/* The same over bytes that stay the caller's and must outlive it. */
neap_status np_pte_open_memory(neap_context *ctx, const void *bytes, uint64_t size, np_pte **out);
/* Named data of a .ptd file beside it (flat_tensor.fbs, "FT01"); the program's own come first. */
neap_status np_pte_attach(np_pte *pte, const char *path);
neap_status np_pte_attach_memory(np_pte *pte, const void *bytes, uint64_t size);
void np_pte_close(np_pte *pte);

/* Bytes of a named constant, in the map; false if there is none of that name. */
bool np_pte_named_data(const np_pte *pte, const char *name, np_bytes *out);
/* Bytes of the index-th constant of the constant segment (or of the dead constant_buffer); at least
 * its own: they may run on to the end of the segment. */
bool np_pte_constant(const np_pte *pte, uint32_t index, np_bytes *out);

/* The dtype of an ExecuTorch ScalarType code; false if Neap has none such. */
bool np_pte_dtype(int scalar_type, neap_dtype *out);

#endif
