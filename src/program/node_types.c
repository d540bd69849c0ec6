/* node_types.c - see node.h: the tables of the node types, made from nodes.def. */
#include "program/node.h"

#include <stddef.h>

#define NODE_BEGIN(number, name, text_)          \
    static const np_node_type *type_##name(void) \
    {                                            \
        typedef np_node_##name self;             \
        static const char text[] = text_;        \
        static const np_field fields[] = {
#define NODE_END(name)                                                                        \
    {                                                                                         \
        NULL, NP_FIELD_TID, 0, 0                                                              \
    }                                                                                         \
    }                                                                                         \
    ;                                                                                         \
    static const np_node_type type = {text, sizeof(self), sizeof fields / sizeof *fields - 1, \
                                      fields};                                                \
    return &type;                                                                             \
    }
#define FIELD(kind, f, d) {#f, NP_FIELD_##kind, offsetof(self, f), (d)},
#define TID(f)            FIELD(TID, f, 0)
#define OPT_TID(f)        FIELD(OPT_TID, f, 0)
#define OUT(f)            FIELD(OUT, f, 0)
#define TIDS(f)           FIELD(TIDS, f, 0)
#define OUTS(f)           FIELD(OUTS, f, 0)
#define OUT_VID(f)        FIELD(OUT_VID, f, 0)
#define OPT_VID(f)        FIELD(OPT_VID, f, 0)
#define INT(f)            FIELD(INT, f, 0)
#define OPT_INT(f)        FIELD(OPT_INT, f, 0)
#define FLOAT(f)          FIELD(FLOAT, f, 0)
#define VID_OR_TID(f)     FIELD(VID_OR_TID, f, 0)
#define INDEX(f)          FIELD(INDEX, f, 0)
#define INTS(f)           FIELD(INTS, f, 0)
#define I32(f, d)         FIELD(I32, f, d)
#define OPT_I32(f)        FIELD(OPT_I32, f, 0)
#define U64(f)            FIELD(U64, f, 0)
#define F32(f, d)         FIELD(F32, f, (double)(d))
#define OPT_F32(f)        FIELD(OPT_F32, f, 0)
#define BOOL(f, d)        FIELD(BOOL, f, d)
#define DTYPE(f)          FIELD(DTYPE, f, 0)
#define OPT_DTYPE(f)      FIELD(OPT_DTYPE, f, 0)
#define CHAIN(f)          FIELD(CHAIN, f, 0)
#define STRING(f)         FIELD(STRING, f, 0)
#define OPT_STRING(f)     FIELD(OPT_STRING, f, 0)
#define STRINGS(f)        FIELD(STRINGS, f, 0)
#define I32S(f)           FIELD(I32S, f, 0)
#define OPT_INTS(f)       FIELD(OPT_INTS, f, 0)
#define OPT_I32S(f)       FIELD(OPT_I32S, f, 0)
#define I8S(f)            FIELD(I8S, f, 0)
#include "program/nodes.def"
#include "program/nodes_undef.h"

const np_node_type *np_node_type_of(uint32_t number)
{
    static const np_node_type *(*const types[NP_NODE_COUNT])(void) = {
#define NODE_BEGIN(number, name, text) [number] = type_##name,
#define NODE_END(name)
#include "program/nodes_blank.h"
#include "program/nodes.def"
#include "program/nodes_undef.h"
    };
    return number < NP_NODE_COUNT && types[number] ? types[number]() : NULL;
}
