/* gguf.h - an index over a GGUF file (versions 2 and 3, little-endian) that lies in memory.
 *
 * Opening checks every length, count and offset once; afterwards keys, strings, arrays and tensors
 * are read in place. Only the index is allocated (about 50 bytes a key, 80 a tensor); the bytes of
 * the file must outlive it. It knows nothing of architectures or tokenizers: it hands out values by
 * key, with errors that name the key, what was found and what was wanted. */
#ifndef NP_GGUF_H
#define NP_GGUF_H

#include "base/context.h"
#include "base/reader.h"
#include "neap/dtype.h"

typedef enum np_gguf_type { /* as numbered in the file */
    NP_GGUF_U8,
    NP_GGUF_I8,
    NP_GGUF_U16,
    NP_GGUF_I16,
    NP_GGUF_U32,
    NP_GGUF_I32,
    NP_GGUF_F32,
    NP_GGUF_BOOL,
    NP_GGUF_STRING,
    NP_GGUF_ARRAY,
    NP_GGUF_U64,
    NP_GGUF_I64,
    NP_GGUF_F64,
    NP_GGUF_TYPES
} np_gguf_type;

typedef struct np_gguf_value {
    np_bytes key;
    np_gguf_type type;    /* for an array: of its elements */
    bool is_array;        /* arrays of arrays are refused */
    uint64_t count;       /* elements; 1 for a scalar */
    np_bytes data;        /* the value's bytes, unaligned; for a string: its text */
} np_gguf_value;

typedef struct np_gguf_tensor {
    np_bytes name;
    uint32_t type;        /* as numbered in the file */
    neap_dtype dtype;     /* NP_GGUF_NO_DTYPE if there is none for it */
    int n_dims;           /* 1..4 */
    int64_t shape[4];     /* row-major, outermost first: the file's `ne` reversed */
    const void *data;     /* inside the file, aligned to the file's alignment */
    uint64_t bytes;       /* 0 if the type is not known by name */
} np_gguf_tensor;

enum { NP_GGUF_NO_DTYPE = NEAP_DTYPE_SPAN };

typedef struct np_gguf {
    neap_context *ctx;
    const char *name;     /* of the file, for messages */
    uint32_t version;
    uint32_t alignment;
    uint64_t file_bytes, data_start;
    uint32_t n_values, n_tensors;
    const np_gguf_value *values;     /* in file order */
    const np_gguf_tensor *tensors;   /* in file order */
    const uint32_t *values_by_key;   /* sorted, so a lookup is logarithmic for any input */
    const uint32_t *tensors_by_name;
    size_t allocated;
} np_gguf;

/* `data` is 8-byte aligned (a map, or an allocation) and must outlive the result. `name` is copied.
 * NEAP_EFORMAT: malformed or cut; NEAP_EUNSUPPORTED: sound, but a version or type that Neap has no
 * use for; NEAP_ENOMEM. Nothing is allocated before the whole header has been walked. */
neap_status np_gguf_parse(neap_context *ctx, const void *data, uint64_t bytes, const char *name,
                          np_gguf **out);
void np_gguf_free(np_gguf *g); /* may be NULL */
/* A tensor type of which there is no dtype: NEAP_EUNSUPPORTED, or NEAP_EFORMAT where it is not even known. */
neap_status np_gguf_check_types(const np_gguf *g);
/* "Q4_K"; NULL for a number that is not listed. */
const char *np_gguf_tensor_type(uint32_t type);

/* NULL when absent. */
const np_gguf_value *np_gguf_find(const np_gguf *g, const char *key);
const np_gguf_tensor *np_gguf_find_tensor(const np_gguf *g, const char *name);

/* An absent key is an error when REQUIRED; when OPTIONAL, `*out` keeps what it held. */
typedef enum np_gguf_need { NP_GGUF_REQUIRED, NP_GGUF_OPTIONAL } np_gguf_need;

/* Any integer type whose value fits [0, 2^32). */
neap_status np_gguf_u32(const np_gguf *g, const char *key, np_gguf_need need, uint32_t *out);
/* f32 or f64; must be finite as f32. */
neap_status np_gguf_f32(const np_gguf *g, const char *key, np_gguf_need need, float *out);
neap_status np_gguf_bool(const np_gguf *g, const char *key, np_gguf_need need, bool *out);
/* An integer, float or bool; false for anything else. */
bool np_gguf_number(const np_gguf_value *v, double *out);
neap_status np_gguf_string(const np_gguf *g, const char *key, np_gguf_need need, np_bytes *out);
/* An array of exactly `type`. Its elements: np_gguf_element_i64/_f32, or np_gguf_strings. */
neap_status np_gguf_array(const np_gguf *g, const char *key, np_gguf_type type, np_gguf_need need,
                          const np_gguf_value **out);

/* Element `i` (< count) of an array of integers (bool counts; u64 above 2^63 wraps) or floats. */
int64_t np_gguf_element_i64(const np_gguf_value *array, uint64_t i);
float np_gguf_element_f32(const np_gguf_value *array, uint64_t i);

/* Walks an array of strings; the lengths were checked when the file was opened.
 *     np_gguf_strings it = np_gguf_strings_of(array);
 *     for (np_bytes s; np_gguf_strings_next(&it, &s);) ... */
typedef struct np_gguf_strings {
    np_reader reader;
    uint64_t left;
} np_gguf_strings;
np_gguf_strings np_gguf_strings_of(const np_gguf_value *array);
bool np_gguf_strings_next(np_gguf_strings *it, np_bytes *out);

const char *np_gguf_type_name(np_gguf_type type); /* "u32" */

#endif
