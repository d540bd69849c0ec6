/* dtype.c - the table of element types, from dtypes.def. */
#include "neap/dtype.h"

static const neap_dtype_info table[NEAP_DTYPE_SPAN] = {
#define NEAP_DTYPE(name, value, text, class, elements, bytes) \
    [value] = {text, NEAP_CLASS_##class, elements, bytes},
#include "neap/dtypes.def"
#undef NEAP_DTYPE
};

const neap_dtype_info *neap_dtype_describe(neap_dtype dtype)
{
    static const neap_dtype_info none = {0};
    return (unsigned)dtype < NEAP_DTYPE_SPAN ? &table[dtype] : &none;
}
