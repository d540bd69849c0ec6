/* sampler_context.h - the context that a sampler was made in, whose error it sets. */
#ifndef NP_SAMPLER_CONTEXT_H
#define NP_SAMPLER_CONTEXT_H

#include "neap/sampler.h"

neap_context *np_sampler_context(const neap_sampler *sampler);

#endif
