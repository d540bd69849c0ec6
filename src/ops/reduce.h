/* reduce.h - what reductions over several axes need of those over one. */
#ifndef NP_REDUCE_H
#define NP_REDUCE_H

#include "ops/support.h"

extern const np_op np_op_prod, np_op_logsumexp, np_op_var, np_op_std, np_op_mean;

/* A node of one of reduce.c's ops; ddof is for var and std. */
neap_array *np_reduce_axis(const np_op *op, neap_array *x, int axis, int64_t ddof, unsigned flags);

#endif
