/* tensor_file.c - see tensor_file.h. A list is: u32 count, then for each tensor u32 dtype, u32
 * dimensions, i32 extents, the elements; little-endian, row-major, no padding anywhere. */
#include "cli/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <neap/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIST_COUNT = 4096, SCALAR_FILE = 512 };

static const neap_dtype list_dtypes[] = {NEAP_F32,  NEAP_F16,  NEAP_I32, NEAP_I64,
                                         NEAP_BF16, NEAP_BOOL, NEAP_U8};
enum { LIST_DTYPES = sizeof list_dtypes / sizeof list_dtypes[0] };

/* ---- growing lists ------------------------------------------------------------------------ */

int cli_values_add(cli_values *v, const neap_value *value)
{
    if (v->count == v->capacity) {
        const int capacity = v->capacity ? 2 * v->capacity : 8;
        neap_value *at = realloc(v->at, (size_t)capacity * sizeof *at);
        if (!at)
            return cli_failed("out of memory");
        v->at = at;
        v->capacity = capacity;
    }
    v->at[v->count++] = *value;
    return CLI_DONE;
}

static int keep_mapping(cli_values *v, void *data, size_t bytes)
{
    if (v->n_mappings == v->mapping_capacity) {
        const int capacity = v->mapping_capacity ? 2 * v->mapping_capacity : 8;
        cli_mapping *at = realloc(v->mapping, (size_t)capacity * sizeof *at);
        if (!at)
            return cli_failed("out of memory");
        v->mapping = at;
        v->mapping_capacity = capacity;
    }
    v->mapping[v->n_mappings++] = (cli_mapping){data, bytes};
    return CLI_DONE;
}

void cli_values_free(cli_values *v)
{
    for (int i = 0; i < v->n_mappings; i++)
        munmap(v->mapping[i].data, v->mapping[i].bytes);
    free(v->mapping);
    free(v->at);
    *v = (cli_values){0};
}

/* ---- mapping ------------------------------------------------------------------------------ */

static int map_open_file(cli_values *v, int file, const char *path, cli_mapping *out)
{
    struct stat st;
    if (fstat(file, &st) != 0)
        return cli_failed("%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return cli_failed("%s: not a regular file", path);
    if (st.st_size == 0)
        return cli_failed("%s: an empty file", path);
    out->bytes = (size_t)st.st_size;
    out->data = mmap(NULL, out->bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (out->data == MAP_FAILED)
        return cli_failed("%s: %s", path, strerror(errno));
    const int status = keep_mapping(v, out->data, out->bytes);
    if (status != CLI_DONE)
        munmap(out->data, out->bytes);
    return status;
}

static int map_file(cli_values *v, const char *path, cli_mapping *out)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return cli_failed("%s: %s", path, strerror(errno));
    const int status = map_open_file(v, file, path, out);
    close(file);
    return status;
}

/* ---- .npy --------------------------------------------------------------------------------- */

/* A single f64, which the library has no dtype for: read as 8 bytes of integer. */
static bool take_double(neap_context *ctx, const cli_mapping *file, neap_value *out)
{
    uint64_t copy[SCALAR_FILE / 8];
    static const char wanted[] = "'<f8'";
    if (file->bytes > sizeof copy)
        return false;
    memcpy(copy, file->data, file->bytes);
    char *at = memmem(copy, file->bytes, wanted, sizeof wanted - 1);
    if (!at)
        return false;
    at[2] = 'i';
    neap_npy npy;
    if (neap_npy_parse(ctx, copy, file->bytes, "", &npy) != NEAP_OK || npy.n_dims != 0) {
        neap_context_clear_error(ctx);
        return false;
    }
    *out = (neap_value){.kind = NEAP_VALUE_DOUBLE};
    memcpy(&out->real, npy.data, sizeof out->real);
    return true;
}

static int read_npy(cli_values *v, neap_context *ctx, const char *path, const cli_mapping *file)
{
    neap_npy npy;
    neap_value value = {.kind = NEAP_VALUE_TENSOR};
    if (take_double(ctx, file, &value))
        return cli_values_add(v, &value);
    if (neap_npy_parse(ctx, file->data, file->bytes, path, &npy) != NEAP_OK)
        return cli_context_failed(ctx);
    value.dtype = npy.dtype;
    value.rank = npy.n_dims;
    memcpy(value.shape, npy.shape, sizeof value.shape);
    value.data = npy.data;
    value.bytes = npy.bytes;
    return cli_values_add(v, &value);
}

/* ---- lists -------------------------------------------------------------------------------- */

typedef struct list_reader {
    const char *path;
    const uint8_t *start, *at, *end;
} list_reader;

static int cut(const list_reader *r, uint32_t tensor, const char *wanted)
{
    return cli_failed("%s: a .bin list: tensor %" PRIu32 ": no %s at byte %zu", r->path, tensor,
                      wanted, (size_t)(r->at - r->start));
}

static bool take_u32(list_reader *r, uint32_t *out)
{
    if (r->end - r->at < 4)
        return false;
    memcpy(out, r->at, 4);
    r->at += 4;
    return true;
}

static bool take_shape(list_reader *r, neap_value *out)
{
    const uint64_t size = (uint64_t)neap_dtype_describe(out->dtype)->block_bytes;
    bool zero = false, fits = true;
    out->bytes = size;
    for (int d = 0; d < out->rank; d++) {
        uint32_t extent;
        if (!take_u32(r, &extent) || extent > INT32_MAX)
            return false;
        out->shape[d] = extent;
        zero = zero || extent == 0;
        fits = fits && !__builtin_mul_overflow(out->bytes, extent, &out->bytes);
    }
    out->bytes = zero ? 0 : out->bytes;
    return zero || (fits && out->bytes <= INT64_MAX);
}

static int take_tensor(list_reader *r, uint32_t number, neap_value *out)
{
    uint32_t dtype, rank;
    *out = (neap_value){.kind = NEAP_VALUE_TENSOR};
    if (!take_u32(r, &dtype) || dtype >= LIST_DTYPES)
        return cut(r, number, "dtype (0 to 6)");
    if (!take_u32(r, &rank) || rank > NEAP_MAX_RANK)
        return cut(r, number, "number of dimensions (0 to 8)");
    out->dtype = list_dtypes[dtype];
    out->rank = (int)rank;
    if (!take_shape(r, out))
        return cut(r, number, "shape");
    if ((uint64_t)(r->end - r->at) < out->bytes)
        return cli_failed("%s: a .bin list: tensor %" PRIu32 " has %" PRIu64 " bytes, %zu are left",
                          r->path, number, out->bytes, (size_t)(r->end - r->at));
    out->data = r->at;
    r->at += out->bytes;
    return CLI_DONE;
}

static int align(neap_context *ctx, neap_value *value)
{
    const uintptr_t size = (uintptr_t)neap_dtype_describe(value->dtype)->block_bytes;
    if ((uintptr_t)value->data % size == 0 || value->bytes == 0)
        return CLI_DONE;
    const neap_array *copy = neap_array_from(value->dtype, value->rank, value->shape, value->data);
    if (!copy)
        return cli_context_failed(ctx);
    value->data = neap_array_data(copy);
    return CLI_DONE;
}

static int read_list(cli_values *v, neap_context *ctx, const char *path, const cli_mapping *file)
{
    const uint8_t *data = file->data;
    list_reader r = {path, data, data, data + file->bytes};
    uint32_t count;
    if (!take_u32(&r, &count) || count > LIST_COUNT)
        return cli_failed("%s: neither a .npy file nor a .bin list of at most %d tensors", path,
                          LIST_COUNT);
    for (uint32_t i = 0; i < count; i++) {
        neap_value value;
        int status = take_tensor(&r, i, &value);
        if (status == CLI_DONE)
            status = align(ctx, &value);
        if (status == CLI_DONE)
            status = cli_values_add(v, &value);
        if (status != CLI_DONE)
            return status;
    }
    if (r.at != r.end)
        return cli_failed("%s: a .bin list: %zu bytes behind the last of %" PRIu32 " tensors", path,
                          (size_t)(r.end - r.at), count);
    return CLI_DONE;
}

int cli_values_read(cli_values *v, neap_context *ctx, const char *path)
{
    cli_mapping file;
    const int status = map_file(v, path, &file);
    if (status != CLI_DONE)
        return status;
    const size_t length = strlen(path);
    const bool named = length >= 4 && !strcmp(path + length - 4, ".npy");
    if (named || (file.bytes >= 6 && !memcmp(file.data, "\x93NUMPY", 6)))
        return read_npy(v, ctx, path, &file);
    return read_list(v, ctx, path, &file);
}

/* ---- scalars ------------------------------------------------------------------------------ */

static int64_t integer_of(const neap_value *v)
{
    int64_t wide;
    switch (v->dtype) {
    case NEAP_I64:
        memcpy(&wide, v->data, sizeof wide);
        return wide;
    default:
        return (int64_t)cli_element(v, 0);
    }
}

static void fit(neap_value *v, neap_value_kind kind)
{
    const bool number = neap_dtype_describe(v->dtype)->class_ == NEAP_CLASS_FLOAT;
    if (v->kind != NEAP_VALUE_TENSOR || v->rank != 0)
        return;
    if (kind == NEAP_VALUE_DOUBLE)
        *v = (neap_value){.kind = kind, .real = cli_element(v, 0)};
    else if ((kind == NEAP_VALUE_INT && !number) ||
             (kind == NEAP_VALUE_BOOL && v->dtype == NEAP_BOOL))
        *v = (neap_value){.kind = kind, .integer = integer_of(v)};
}

void cli_values_fit(cli_values *v, const neap_program *program, int method)
{
    const int inputs = neap_program_inputs(program, method);
    for (int i = 0; i < v->count && i < inputs; i++) {
        neap_value want;
        if (neap_program_input(program, method, i, &want) == NEAP_OK)
            fit(&v->at[i], want.kind);
    }
}

/* ---- writing ------------------------------------------------------------------------------ */

bool cli_is_list(const char *path)
{
    const size_t length = strlen(path);
    return length >= 4 && !strcmp(path + length - 4, ".bin");
}

/* An integer or bool as a tensor of one element, which lies in `room`. */
static int as_tensor(const char *path, const neap_value *value, int64_t *room, neap_value *out)
{
    *out = *value;
    if (value->kind == NEAP_VALUE_TENSOR)
        return CLI_DONE;
    if (value->kind != NEAP_VALUE_INT && value->kind != NEAP_VALUE_BOOL)
        return cli_failed("%s: the output is no tensor, integer or bool: it can only be printed",
                          path);
    *room = value->kind == NEAP_VALUE_BOOL ? value->integer != 0 : value->integer;
    *out = (neap_value){.kind = NEAP_VALUE_TENSOR,
                        .dtype = value->kind == NEAP_VALUE_BOOL ? NEAP_BOOL : NEAP_I64,
                        .data = room,
                        .bytes = value->kind == NEAP_VALUE_BOOL ? 1 : 8};
    return CLI_DONE;
}

int cli_write_npy(neap_context *ctx, const char *path, const neap_value *value)
{
    int64_t room;
    neap_value tensor;
    const int status = as_tensor(path, value, &room, &tensor);
    if (status != CLI_DONE)
        return status;
    neap_npy npy = {.dtype = tensor.dtype, .n_dims = tensor.rank, .data = tensor.data};
    memcpy(npy.shape, tensor.shape, sizeof npy.shape);
    return neap_npy_write(ctx, path, &npy) == NEAP_OK ? CLI_DONE : cli_context_failed(ctx);
}

static int write_tensor(FILE *file, const char *path, const neap_value *value)
{
    int64_t room;
    neap_value t;
    const int status = as_tensor(path, value, &room, &t);
    if (status != CLI_DONE)
        return status;
    uint32_t head[2 + NEAP_MAX_RANK] = {0, (uint32_t)t.rank};
    while (head[0] < LIST_DTYPES && list_dtypes[head[0]] != t.dtype)
        head[0]++;
    if (head[0] == LIST_DTYPES)
        return cli_failed("%s: a .bin list cannot hold %s", path,
                          neap_dtype_describe(t.dtype)->name);
    for (int d = 0; d < t.rank; d++) {
        if (t.shape[d] > INT32_MAX)
            return cli_failed("%s: a .bin list cannot hold an extent of %" PRId64, path,
                              t.shape[d]);
        head[2 + d] = (uint32_t)t.shape[d];
    }
    fwrite(head, sizeof *head, 2 + (size_t)t.rank, file);
    fwrite(t.data, 1, (size_t)t.bytes, file);
    return CLI_DONE;
}

int cli_write_list(const char *path, int count, const neap_value *values)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return cli_failed("%s: %s", path, strerror(errno));
    const uint32_t number = (uint32_t)count;
    int status = CLI_DONE;
    fwrite(&number, sizeof number, 1, file);
    for (int i = 0; status == CLI_DONE && i < count; i++)
        status = write_tensor(file, path, &values[i]);
    const bool failed = ferror(file) != 0;
    const int error = errno;
    if (fclose(file) != 0 && status == CLI_DONE)
        status = cli_failed("%s: %s", path, strerror(errno));
    else if (failed && status == CLI_DONE)
        status = cli_failed("%s: %s", path, strerror(error));
    return status;
}
