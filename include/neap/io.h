/* neap/io.h - arrays in files.
 *
 * A .npy file is NumPy's: little-endian, C order, at most 8 dimensions, of every dtype that is not
 * quantised. bf16 is unknown to NumPy and stands there as its bits, '<u2'. */
#ifndef NEAP_IO_H
#define NEAP_IO_H

#include "dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NEAP_NPY_DIMS = 8 };

typedef struct neap_npy {
    neap_dtype dtype;
    int n_dims;                   /* 0: a single element */
    int64_t shape[NEAP_NPY_DIMS]; /* row-major, outermost first */
    const void *data;             /* not owned */
    uint64_t bytes;               /* of data; neap_npy_write takes them from the shape */
} neap_npy;

/* Writes a file, or replaces it as a whole: when this fails, what was at `path` is still there.
 * A path that is no regular file (a pipe, a device, a link) is written to in place.
 * NEAP_EIO names the path and the system's reason; NEAP_EDTYPE, NEAP_ESHAPE. */
NEAP_API neap_status neap_npy_write(neap_context *ctx, const char *path, const neap_npy *array);
/* The same for f32 [rows, columns]. */
NEAP_API neap_status neap_npy_write_f32(neap_context *ctx, const char *path, const float *data,
                                        int64_t rows, int64_t columns);

/* Reads the header of a whole file of `size` bytes in memory (format 1.0 or 2.0); out->data then
 * points into it, aligned if `file` is (to 8 bytes). `name` is for messages. Bytes behind the array
 * are let be. NEAP_EFORMAT: malformed or cut; NEAP_EUNSUPPORTED: sound, but big-endian, in Fortran
 * order, of a dtype that Neap does not have, or of too many dimensions. */
NEAP_API neap_status neap_npy_parse(neap_context *ctx, const void *file, uint64_t size,
                                    const char *name, neap_npy *out);

#ifdef __cplusplus
}
#endif
#endif
