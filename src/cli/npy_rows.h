/* npy_rows.h - an f32 matrix as a .npy file, written row by row as the rows come.
 *
 * The number of rows is known at the end only, so the header is written twice; no row is kept. */
#ifndef CLI_NPY_ROWS_H
#define CLI_NPY_ROWS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cli_npy_rows {
    const char *path; /* not owned */
    int file;         /* -1: closed */
    int64_t columns, rows;
    int error; /* errno of the first failure */
} cli_npy_rows;
#define CLI_NPY_ROWS_INIT \
    {                     \
        .file = -1        \
    }

/* Each prints what went wrong and returns an exit status, but for _row, which notes it. */
int cli_npy_rows_open(cli_npy_rows *out, const char *path, int64_t columns);
bool cli_npy_rows_add(cli_npy_rows *out, const float *row);
int cli_npy_rows_close(cli_npy_rows *out); /* may be closed already */

#endif
