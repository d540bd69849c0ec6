/* encoded.h - encoded weights as the inputs of an op: what the checks of neap_quantised make of it,
 * and the kernels' view of one matrix while a step runs. */
#ifndef NP_ENCODED_H
#define NP_ENCODED_H

#include "ops/support.h"

/* Part of a node's attr. */
typedef struct np_encoded {
    int32_t coding, dtype, bits; /* np_coding; neap_dtype of blocks, or of affine scales */
    int32_t n_in;                /* operands: w, and perhaps scales and biases */
    int64_t group;
} np_encoded;

/* Checks q, and puts its arrays, each with adjacent elements in a row, into in[0 .. n_in). */
bool np_encoded_from(const char *op, const neap_quantised *q, np_encoded *e, neap_array *in[3]);
/* The same for GGUF blocks in a u8 array [.., row bytes]. */
bool np_encoded_blocks(const char *op, neap_array *w, neap_dtype type, np_encoded *e,
                       neap_array *in[3]);
/* Elements of a row of w whose last extent is `last`. */
int64_t np_encoded_columns(const np_encoded *e, int64_t last);
/* Matrix number `matrix` of w's leading dimensions; w[0 .. n_in) are the operands. */
np_decoded np_encoded_matrix(const np_encoded *e, const np_operand *const *w, int64_t matrix);
/* Element offset of number `at` of x's dimensions before `rank`. */
int64_t np_leading_offset(const np_operand *x, int rank, int64_t at);

#endif
