/* load.h - what the loader's two files share: where it is, and what it fills. */
#ifndef NP_PROGRAM_LOAD_H
#define NP_PROGRAM_LOAD_H

#include "base/blocks.h"
#include "formats/flatbuffer.h"
#include "program/graph.h"

typedef struct np_load {
    neap_context *ctx;
    np_fb *fb;
    np_blocks *blocks;
    np_mlx_graph *graph;
    uint32_t chain, instruction; /* being read */
    const np_node_type *type;    /* NULL: between nodes */
    const char *field;           /* NULL: none */
    uint32_t writes_constant;    /* in this chain: 1 + the first instruction that does; 0: none */
} np_load;

/* Stores an error that says where: "chain 0, instruction 3 (AddNode), field 'a': ...". */
neap_status np_load_fail(np_load *l, neap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The flatbuffer's sticky fault, if there is one, likewise. */
neap_status np_load_fault(np_load *l);

/* Reads one node of a known type: the table's fields into a new struct. */
neap_status np_read_node(np_load *l, np_fb_table t, uint32_t number, np_instruction *out);

#endif
