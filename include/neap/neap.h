/* neap/neap.h - all of Neap: tensor programs that stay inside a byte budget.
 *
 *     neap_context *ctx;
 *     neap_context_new(NULL, &ctx);
 *     neap_scope_push(ctx);               // arrays from here on belong to this scope
 *
 *     const float v[4] = {1, 2, 3, 4};
 *     const int64_t n = 4;
 *     neap_array *x = neap_array_from(NEAP_F32, 1, &n, v);
 *     neap_array *y = neap_softmax(neap_mul(x, x), -1);   // builds a graph, computes nothing
 *
 *     float out[4];
 *     if (neap_eval(y) != NEAP_OK)        // plans it, runs it: the one check
 *         puts(neap_context_error(ctx));
 *     else
 *         neap_array_read(y, out, sizeof out);
 *
 *     neap_scope_pop(ctx);
 *     neap_context_free(ctx);
 */
#ifndef NEAP_NEAP_H
#define NEAP_NEAP_H

#include "array.h"
#include "audio.h"
#include "base.h"
#include "decoder.h"
#include "dtype.h"
#include "io.h"
#include "model.h"
#include "ops.h"
#include "plan.h"
#include "program.h"
#include "sampler.h"
#include "tokenizer.h"

#endif
