/* neap/dtype.h - element types. */
#ifndef NEAP_DTYPE_H
#define NEAP_DTYPE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum neap_dtype {
#define NEAP_DTYPE(name, value, text, class, elements, bytes) NEAP_##name = (value),
#include "dtypes.def"
#undef NEAP_DTYPE
} neap_dtype;

enum { NEAP_DTYPE_SPAN = 26 }; /* one past the largest value: size of tables by dtype */

typedef enum neap_dtype_class {
    NEAP_CLASS_BOOL,
    NEAP_CLASS_UINT,
    NEAP_CLASS_INT,
    NEAP_CLASS_FLOAT,
    NEAP_CLASS_QUANT
} neap_dtype_class;

typedef struct neap_dtype_info {
    const char *name; /* "f32"; NULL for a value that is no dtype */
    neap_dtype_class class_;
    int block_elements; /* 1 but for quantised types */
    int block_bytes;
} neap_dtype_info;

/* Never NULL; for an unknown value its name is NULL and its sizes are 0. */
NEAP_API const neap_dtype_info *neap_dtype_describe(neap_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
