/* llama.h - what opens a GGUF file of the llama architecture, and the table of what it may say. */
#ifndef NP_LLAMA_H
#define NP_LLAMA_H

#include "models/known.h"

extern const np_known np_llama_known;

/* Reads the sizes and takes every tensor that the graph needs. */
neap_status np_llama_open(struct neap_model *m);

#endif
