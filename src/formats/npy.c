/* npy.c - .npy files, see neap/io.h. The header is a Python dictionary as text:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * Reading takes these three keys in any order, each once, and any spaces between. Writing goes by
 * descriptor, as stdio's buffers would not be on the ledger. */
#include "neap/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "base/reader.h"

enum { ALIGN = 64, MAGIC = 8, LENGTH = 2, LEAST_ALIGNMENT = 8, HEADER = 320 };
_Static_assert(NEAP_NPY_DIMS * 21 + 80 + ALIGN <= HEADER, "a header always fits");

static const char *const descriptions[NEAP_DTYPE_SPAN] = {
    [NEAP_BOOL] = "|b1", [NEAP_U8] = "|u1",  [NEAP_I8] = "|i1",  [NEAP_I16] = "<i2",
    [NEAP_I32] = "<i4",  [NEAP_U32] = "<u4", [NEAP_I64] = "<i8", [NEAP_F16] = "<f2",
    [NEAP_BF16] = "<u2", [NEAP_F32] = "<f4",
};

/* Elements times their size, in 64 bits. */
static bool measure(const neap_npy *a, uint64_t *bytes)
{
    uint64_t n = (uint64_t)neap_dtype_describe(a->dtype)->block_bytes;
    bool zero = false, fits = true;
    for (int i = 0; i < a->n_dims; i++) {
        zero = zero || a->shape[i] == 0;
        fits = fits && np_mul_size(n, (uint64_t)a->shape[i], &n);
    }
    *bytes = zero ? 0 : n;
    return zero || (fits && n <= INT64_MAX);
}

/* ---- writing ------------------------------------------------------------------------------ */

static neap_status check(neap_context *ctx, const char *path, const neap_npy *array,
                         uint64_t *data_bytes)
{
    if ((unsigned)array->dtype >= NEAP_DTYPE_SPAN || !descriptions[array->dtype]) {
        const char *name = neap_dtype_describe(array->dtype)->name;
        return np_fail(ctx, NEAP_EDTYPE, "%s: a .npy file cannot hold %s", path,
                       name ? name : "this dtype");
    }
    if (array->n_dims < 0 || array->n_dims > NEAP_NPY_DIMS)
        return np_fail(ctx, NEAP_ESHAPE, "%s: %d dimensions, the limit is %d", path, array->n_dims,
                       NEAP_NPY_DIMS);
    for (int i = 0; i < array->n_dims; i++)
        if (array->shape[i] < 0)
            return np_fail(ctx, NEAP_ESHAPE, "%s: dimension %d is %" PRId64, path, i,
                           array->shape[i]);
    if (!measure(array, data_bytes))
        return np_fail(ctx, NEAP_ESHAPE, "%s: the array's size overflows 64 bits", path);
    return NEAP_OK;
}

/* Everything before the data: a multiple of 64 bytes. */
static size_t make_header(const neap_npy *array, char header[HEADER])
{
    char *text = header + MAGIC + LENGTH;
    const size_t room = HEADER - MAGIC - LENGTH;
    size_t n = (size_t)snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                                descriptions[array->dtype]);
    for (int i = 0; i < array->n_dims; i++) /* (), (3,), (3, 4) */
        n += (size_t)snprintf(text + n, room - n, "%s%" PRId64 "%s", i ? " " : "", array->shape[i],
                              i + 1 < array->n_dims || i == 0 ? "," : "");
    n += (size_t)snprintf(text + n, room - n, "), }");
    const size_t total = (MAGIC + LENGTH + n + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(text + n, ' ', total - MAGIC - LENGTH - n);
    header[total - 1] = '\n';
    const uint16_t length = (uint16_t)(total - MAGIC - LENGTH);
    memcpy(header, "\x93NUMPY\x01\x00", MAGIC);
    memcpy(header + MAGIC, &length, LENGTH);
    return total;
}

static bool write_all(int fd, const void *data, uint64_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        const size_t part = bytes < 1 << 30 ? (size_t)bytes : 1 << 30;
        const ssize_t n = write(fd, p, part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        p += n;
        bytes -= (uint64_t)n;
    }
    return true;
}

typedef struct content {
    const void *header, *data;
    uint64_t header_bytes, data_bytes;
} content;

/* Opens, writes, closes; on failure errno says why and a file made here is gone again. */
static bool write_file(const char *path, int flags, const content *c)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (fd < 0)
        return false;
    const bool written = write_all(fd, c->header, c->header_bytes) &&
                         write_all(fd, c->data, c->data_bytes);
    int error = written ? 0 : errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error != 0 && (flags & O_EXCL))
        unlink(path);
    errno = error;
    return error == 0;
}

/* Beside the old file first, then in its place. Nothing is taken from the ledger: results are written
 * when the planned peak is held. */
static bool replace_file(const char *path, const content *c)
{
    char temporary[PATH_MAX + 40];
    bool written = false;
    if (strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (int i = 0; i < 100 && !written; i++) {
        snprintf(temporary, sizeof temporary, "%s.%d-%d.tmp", path, (int)getpid(), i);
        written = write_file(temporary, O_CREAT | O_EXCL, c);
        if (!written && errno != EEXIST)
            return false;
    }
    if (!written || rename(temporary, path) == 0)
        return written;
    const int error = errno;
    unlink(temporary);
    errno = error;
    return false;
}

static neap_status npy_write(neap_context *ctx, const char *path, const neap_npy *array)
{
    char header[HEADER];
    content c = {.header = header, .data = array->data};
    if (!path)
        return np_fail(ctx, NEAP_EINVAL, "npy: no path");
    neap_status s = check(ctx, path, array, &c.data_bytes);
    if (s != NEAP_OK)
        return s;
    c.header_bytes = make_header(array, header);
    struct stat st;
    bool written;
    int error;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        written = write_file(path, O_TRUNC, &c);
        error = errno;
    } else {
        written = replace_file(path, &c);
        error = errno;
    }
    if (!written)
        return np_fail(ctx, NEAP_EIO, "%s: cannot be written: %s", path, strerror(error));
    return NEAP_OK;
}

neap_status neap_npy_write(neap_context *ctx, const char *path, const neap_npy *array)
{
    return NP_CALL(ctx, path && array && array->data, npy_write(ctx, path, array));
}

static neap_status npy_write_f32(neap_context *ctx, const char *path, const float *data, int64_t rows,
                               int64_t columns)
{
    const neap_npy array = {
        .dtype = NEAP_F32, .n_dims = 2, .shape = {rows, columns}, .data = data};
    return neap_npy_write(ctx, path, &array);
}

neap_status neap_npy_write_f32(neap_context *ctx, const char *path, const float *data, int64_t rows,
                               int64_t columns)
{
    return NP_CALL(ctx, path && data, npy_write_f32(ctx, path, data, rows, columns));
}

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct parse {
    neap_context *ctx;
    const char *name;
    np_reader file, text; /* text: the dictionary, a part of the file */
    bool fortran;
} parse;

static neap_status malformed(parse *p, const char *wanted)
{
    return np_fail(p->ctx, NEAP_EFORMAT, "%s: .npy header: wanted %s at offset %" PRIu64, p->name,
                   wanted, (uint64_t)(p->text.p - p->file.start));
}

static void skip_spaces(np_reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t'))
        r->p++;
}

/* The next character but spaces, if it is `c`. */
static bool take_char(np_reader *r, char c)
{
    skip_spaces(r);
    if (r->p == r->end || *r->p != (uint8_t)c)
        return false;
    r->p++;
    return true;
}

static bool take_word(np_reader *r, const char *word)
{
    const size_t n = strlen(word);
    skip_spaces(r);
    if (np_reader_left(r) < n || memcmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

/* 'text' without escapes. */
static bool take_quoted(np_reader *r, np_bytes *out)
{
    skip_spaces(r);
    if (r->p == r->end || (*r->p != '\'' && *r->p != '"'))
        return false;
    const uint8_t quote = *r->p++;
    const uint8_t *start = r->p;
    while (r->p < r->end && *r->p != quote && *r->p != '\\')
        r->p++;
    if (r->p == r->end || *r->p != quote)
        return false;
    *out = (np_bytes){start, (uint64_t)(r->p - start)};
    r->p++;
    return true;
}

static bool take_number(np_reader *r, int64_t *out)
{
    skip_spaces(r);
    const uint8_t *start = r->p;
    int64_t v = 0;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *r->p - '0', &v))
            return false;
    *out = v;
    return r->p > start;
}

static neap_status take_description(parse *p, neap_npy *out)
{
    np_bytes d;
    skip_spaces(&p->text);
    if (p->text.p < p->text.end && *p->text.p == '[')
        return np_fail(p->ctx, NEAP_EUNSUPPORTED, "%s: a .npy file of records", p->name);
    if (!take_quoted(&p->text, &d))
        return malformed(p, "a dtype");
    for (int i = 0; i < NEAP_DTYPE_SPAN; i++)
        if (descriptions[i] && d.n == 3 && memcmp(d.p, descriptions[i], 3) == 0) {
            out->dtype = (neap_dtype)i;
            return NEAP_OK;
        }
    char shown[16] = "";
    for (size_t i = 0; i < d.n && i < sizeof shown - 1; i++)
        shown[i] = d.p[i] >= 0x20 && d.p[i] < 0x7f ? (char)d.p[i] : '?';
    return np_fail(p->ctx, NEAP_EUNSUPPORTED, "%s: .npy dtype '%s' is not supported%s", p->name,
                   shown, shown[0] == '>' ? " (big-endian)" : "");
}

static neap_status take_shape(parse *p, neap_npy *out)
{
    if (!take_char(&p->text, '('))
        return malformed(p, "a shape");
    out->n_dims = 0;
    bool comma = true; /* one number needs a comma behind it, as Python's (3) is no tuple */
    while (!take_char(&p->text, ')')) {
        int64_t n;
        if (!comma || !take_number(&p->text, &n))
            return malformed(p, "a dimension below 2^63");
        if (out->n_dims == NEAP_NPY_DIMS)
            return np_fail(p->ctx, NEAP_EUNSUPPORTED, "%s: more than %d dimensions", p->name,
                           NEAP_NPY_DIMS);
        out->shape[out->n_dims++] = n;
        comma = take_char(&p->text, ',');
    }
    return out->n_dims == 1 && !comma ? malformed(p, "a comma in the shape") : NEAP_OK;
}

static neap_status take_dictionary(parse *p, neap_npy *out)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned seen = 0;
    if (!take_char(&p->text, '{'))
        return malformed(p, "'{'");
    while (!take_char(&p->text, '}')) {
        np_bytes key;
        int k = 0;
        if (!take_quoted(&p->text, &key))
            return malformed(p, "a key");
        while (k < 3 && (key.n != strlen(keys[k]) || memcmp(key.p, keys[k], key.n) != 0))
            k++;
        if (k == 3 || (seen & 1u << k) || !take_char(&p->text, ':'))
            return malformed(p, "'descr', 'fortran_order' and 'shape', each once,");
        seen |= 1u << k;
        neap_status s = NEAP_OK;
        if (k == 0)
            s = take_description(p, out);
        else if (k == 2)
            s = take_shape(p, out);
        else if (!(p->fortran = take_word(&p->text, "True")) && !take_word(&p->text, "False"))
            s = malformed(p, "True or False");
        if (s != NEAP_OK)
            return s;
        if (!take_char(&p->text, ',')) {
            if (!take_char(&p->text, '}'))
                return malformed(p, "',' or '}'");
            break;
        }
    }
    skip_spaces(&p->text);
    if (p->text.p != p->text.end)
        return malformed(p, "nothing more");
    return seen == 7 ? NEAP_OK : malformed(p, "'descr', 'fortran_order' and 'shape'");
}

/* Takes the bytes before the dictionary and sets p->text to it. */
static neap_status take_preamble(parse *p)
{
    np_bytes magic, text;
    uint8_t major, minor;
    if (!np_read_bytes(&p->file, 6, &magic) || memcmp(magic.p, "\x93NUMPY", 6) != 0 ||
        !np_read_u8(&p->file, &major) || !np_read_u8(&p->file, &minor))
        return np_fail(p->ctx, NEAP_EFORMAT, "%s: not a .npy file", p->name);
    if ((major != 1 && major != 2) || minor != 0)
        return np_fail(p->ctx, NEAP_EUNSUPPORTED,
                       "%s: .npy format %u.%u is not supported, only 1.0 and 2.0 are", p->name,
                       (unsigned)major, (unsigned)minor);
    uint16_t short_length = 0;
    uint32_t length = 0;
    const bool read = major == 1 ? np_read_u16(&p->file, &short_length)
                                 : np_read_u32(&p->file, &length);
    length = major == 1 ? short_length : length;
    if (!read || !np_read_bytes(&p->file, length, &text))
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s: .npy header: length beyond file: %" PRIu32 " bytes at offset %" PRIu64
                       ", the file has %" PRIu64,
                       p->name, length, np_reader_offset(&p->file),
                       (uint64_t)(p->file.end - p->file.start));
    p->text = np_reader_over(text.p, text.n);
    return NEAP_OK;
}

/* With at most one dimension above 1, or no elements, both orders are the same bytes. */
static bool order_matters(const neap_npy *a)
{
    int wide = 0;
    for (int i = 0; i < a->n_dims; i++) {
        if (a->shape[i] == 0)
            return false;
        wide += a->shape[i] > 1;
    }
    return wide > 1;
}

static neap_status npy_parse(neap_context *ctx, const void *file, uint64_t size, const char *name,
                           neap_npy *out)
{
    *out = (neap_npy){0};
    if ((uintptr_t)file % LEAST_ALIGNMENT != 0)
        return np_fail(ctx, NEAP_EINVAL, "%s: its bytes are not aligned to %d", name,
                       LEAST_ALIGNMENT);
    parse p = {.ctx = ctx, .name = name, .file = np_reader_over(file, size)};
    neap_npy a = {0};
    neap_status s = take_preamble(&p);
    if (s != NEAP_OK || (s = take_dictionary(&p, &a)) != NEAP_OK)
        return s;
    if (p.fortran && order_matters(&a))
        return np_fail(ctx, NEAP_EUNSUPPORTED,
                       "%s: the array is in Fortran order; save numpy.ascontiguousarray of it",
                       name);
    if (!measure(&a, &a.bytes))
        return np_fail(ctx, NEAP_EFORMAT, "%s: the array's size overflows 64 bits", name);
    const uint64_t offset = np_reader_offset(&p.file);
    np_bytes data;
    if (!np_read_bytes(&p.file, a.bytes, &data))
        return np_fail(ctx, NEAP_EFORMAT,
                       "%s: data beyond file: %" PRIu64 " bytes at offset %" PRIu64
                       ", the file has %" PRIu64,
                       name, a.bytes, offset, size);
    if (offset % (uint64_t)neap_dtype_describe(a.dtype)->block_bytes != 0)
        return np_fail(ctx, NEAP_EFORMAT, "%s: data at offset %" PRIu64 " is not aligned to %d",
                       name, offset, neap_dtype_describe(a.dtype)->block_bytes);
    a.data = data.p;
    *out = a;
    return NEAP_OK;
}

neap_status neap_npy_parse(neap_context *ctx, const void *file, uint64_t size, const char *name,
                           neap_npy *out)
{
    return NP_CALL(ctx, file && name && out, npy_parse(ctx, file, size, name, out));
}
