/* npy_rows.c - see npy_rows.h. */
#include "cli/npy_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { HEADER = 128, PREAMBLE = 10 };

static bool write_all(cli_npy_rows *out, const void *data, size_t bytes, off_t at)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = pwrite(out->file, p, bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            out->error = n < 0 ? errno : ENOSPC;
            return false;
        }
        p += n;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool write_header(cli_npy_rows *out)
{
    char header[HEADER];
    const uint16_t length = HEADER - PREAMBLE;
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(length & 255);
    header[9] = (char)(length >> 8);
    const int n =
        snprintf(header + PREAMBLE, length,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ", %" PRId64 "), }",
                 out->rows, out->columns);
    header[PREAMBLE + n] = ' ';
    header[HEADER - 1] = '\n';
    return write_all(out, header, sizeof header, 0);
}

static int failed(const cli_npy_rows *out)
{
    if (out->error == ESPIPE)
        return cli_failed(
            "--logits %s: the number of rows is known at the end only, so it has to be a "
            "file and not a pipe",
            out->path);
    return cli_failed("--logits %s: %s", out->path, strerror(out->error));
}

int cli_npy_rows_open(cli_npy_rows *out, const char *path, int64_t columns)
{
    *out = (cli_npy_rows){.path = path, .columns = columns};
    out->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out->file < 0)
        out->error = errno;
    else
        write_header(out);
    return out->error ? failed(out) : CLI_DONE;
}

bool cli_npy_rows_add(cli_npy_rows *out, const float *row)
{
    const size_t bytes = (size_t)out->columns * sizeof *row;
    if (out->error || !write_all(out, row, bytes, HEADER + (off_t)out->rows * (off_t)bytes))
        return false;
    out->rows++;
    return true;
}

int cli_npy_rows_close(cli_npy_rows *out)
{
    if (out->file < 0)
        return CLI_DONE;
    if (!out->error)
        write_header(out);
    if (close(out->file) != 0 && !out->error)
        out->error = errno;
    out->file = -1;
    return out->error ? failed(out) : CLI_DONE;
}
