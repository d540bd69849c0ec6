/* row_op.h - ops that run on rows of adjacent elements, for those who have prepared such rows: a tile
 * of many short calls has no time for the strides and ranks that an op's own run looks at. */
#ifndef NP_ROW_OP_H
#define NP_ROW_OP_H

#include "cpu/kernels.h"

/* One of the two kernels, and what it is called with beside the rows. */
typedef struct np_row_op {
    np_reduce_fn reduce; /* a row to one element */
    np_rows_fn rows;     /* a row to a row; weight and bias are the next inputs, those there are */
    float eps;
    bool weight, bias;
} np_row_op;

#endif
