/* test_npy.c - .npy files: headers as NumPy writes them, the files NumPy wrote (in
 * fuzz/corpus/npy), malformed ones, and writing that leaves the old file alone when it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_map.h"
#include "neap/io.h"

#define CORPUS NEAP_TEST_DIR "/fuzz/corpus/npy/"

typedef struct fixture {
    neap_context *ctx;
    char folder[64], path[96];
} fixture;

static int set_up(void **state)
{
    static fixture f; /* of this program's one thread */
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    strcpy(f.folder, "/tmp/neap-npy-XXXXXX");
    if (neap_context_new(&o, &f.ctx) != NEAP_OK || !mkdtemp(f.folder))
        return -1;
    snprintf(f.path, sizeof f.path, "%s/a.npy", f.folder);
    *state = &f;
    return 0;
}

static int files_in(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    unlink(f->path);
    neap_context_free(f->ctx);
    return rmdir(f->folder);
}

static size_t read_file(const char *path, void *out, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = fread(out, 1, room, file);
    fclose(file);
    return n;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* Byte for byte what numpy.lib.format describes: 64-byte multiple, spaces, a newline, the data. */
static void test_bytes_of_a_file(void **state)
{
    fixture *f = *state;
    const float data[6] = {0, 1, -2.5f, 3, 4, 1e30f};
    assert_int_equal(neap_npy_write_f32(f->ctx, f->path, data, 2, 3), NEAP_OK);
    char got[256], want[128];
    assert_int_equal(read_file(f->path, got, sizeof got), 128 + sizeof data);
    memset(want, ' ', sizeof want);
    memcpy(want, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    memcpy(want + 10, text, sizeof text - 1);
    want[127] = '\n';
    assert_memory_equal(got, want, 128);
    assert_memory_equal(got + 128, data, sizeof data);
    char numpy[256]; /* NumPy's own file of the same array */
    assert_int_equal(read_file(CORPUS "f4-2x3.npy", numpy, sizeof numpy), 152);
    assert_memory_equal(got, numpy, 152);
}

static void test_round_trip(void **state)
{
    fixture *f = *state;
    static const neap_dtype types[] = {NEAP_BOOL, NEAP_U8,  NEAP_I8,  NEAP_I16,  NEAP_I32,
                                       NEAP_U32,  NEAP_I64, NEAP_F16, NEAP_BF16, NEAP_F32};
    static const struct { int n; int64_t shape[NEAP_NPY_DIMS]; uint64_t elements; } shapes[] = {
        {0, {0}, 1}, {1, {5}, 5}, {3, {2, 1, 3}, 6}, {2, {0, 7}, 0},
        {8, {1, 2, 1, 2, 1, 2, 1, 2}, 16}};
    uint8_t data[128];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            neap_npy a = {.dtype = types[t], .n_dims = shapes[s].n, .data = data}, b;
            memcpy(a.shape, shapes[s].shape, sizeof a.shape);
            assert_int_equal(neap_npy_write(f->ctx, f->path, &a), NEAP_OK);
            np_file_map map;
            assert_int_equal(np_file_map_open(f->ctx, f->path, &map), NEAP_OK);
            assert_int_equal(neap_npy_parse(f->ctx, map.data, map.bytes, "a", &b), NEAP_OK);
            assert_int_equal(b.dtype, types[t]);
            assert_int_equal(b.n_dims, shapes[s].n);
            assert_memory_equal(b.shape, a.shape, sizeof a.shape);
            assert_int_equal(b.bytes, shapes[s].elements *
                                          (uint64_t)neap_dtype_describe(types[t])->block_bytes);
            assert_int_equal(b.bytes, map.bytes - ((const uint8_t *)b.data - map.data));
            if (b.bytes)
                assert_memory_equal(b.data, data, b.bytes);
            np_file_map_close(&map);
        }
    assert_int_equal(files_in(f->folder), 1); /* nothing temporary is left */
}

static void test_write_refuses(void **state)
{
    fixture *f = *state;
    const float x = 1;
    const struct { neap_npy a; neap_status status; const char *fragment; } rows[] = {
        {{.dtype = NEAP_Q4_0, .n_dims = 1, .shape = {32}}, NEAP_EDTYPE, "cannot hold q4_0"},
        {{.dtype = (neap_dtype)15, .n_dims = 0}, NEAP_EDTYPE, "cannot hold this dtype"},
        {{.dtype = NEAP_F32, .n_dims = 9}, NEAP_ESHAPE, "9 dimensions, the limit is 8"},
        {{.dtype = NEAP_F32, .n_dims = 2, .shape = {3, -1}}, NEAP_ESHAPE, "dimension 1 is -1"},
        {{.dtype = NEAP_F32, .n_dims = 2, .shape = {INT64_MAX, 2}}, NEAP_ESHAPE, "overflows"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        neap_npy a = rows[i].a;
        a.data = &x;
        assert_int_equal(neap_npy_write(f->ctx, f->path, &a), rows[i].status);
        assert_non_null(strstr(neap_context_error(f->ctx), rows[i].fragment));
        assert_int_equal(strncmp(neap_context_error(f->ctx), f->path, strlen(f->path)), 0);
        neap_context_clear_error(f->ctx);
    }
    assert_int_equal(files_in(f->folder), 0);
    assert_int_equal(neap_npy_write_f32(f->ctx, "/nonexistent/a.npy", &x, 1, 1), NEAP_EIO);
    assert_string_equal(neap_context_error(f->ctx),
                        "/nonexistent/a.npy: cannot be written: No such file or directory");
    neap_context_clear_error(f->ctx);
    assert_int_equal(neap_npy_write_f32(f->ctx, f->folder, &x, 1, 1), NEAP_EIO); /* a folder */
    neap_context_clear_error(f->ctx);
}

/* A write that fails half way (file size limit) leaves the old file and nothing beside it. */
static void test_failed_write_keeps_the_old_file(void **state)
{
    fixture *f = *state;
    static float big[1024];
    const float old[2] = {1, 2};
    assert_int_equal(neap_npy_write_f32(f->ctx, f->path, old, 1, 2), NEAP_OK);
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 2048;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const neap_status s = neap_npy_write_f32(f->ctx, f->path, big, 1, 1024);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(s, NEAP_EIO);
    assert_non_null(strstr(neap_context_error(f->ctx), "cannot be written: File too large"));
    neap_context_clear_error(f->ctx);
    assert_int_equal(files_in(f->folder), 1);
    char got[256];
    assert_int_equal(read_file(f->path, got, sizeof got), 128 + sizeof old);
    assert_memory_equal(got + 128, old, sizeof old);
}

/* A link is written through, a device is not replaced. */
static void test_not_a_regular_file(void **state)
{
    fixture *f = *state;
    char link[96];
    const float x = 3;
    snprintf(link, sizeof link, "%s/link", f->folder);
    assert_int_equal(neap_npy_write_f32(f->ctx, f->path, &x, 0, 0), NEAP_OK);
    assert_int_equal(symlink("a.npy", link), 0);
    assert_int_equal(neap_npy_write_f32(f->ctx, link, &x, 1, 1), NEAP_OK);
    struct stat st;
    assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    assert_true(stat(f->path, &st) == 0 && st.st_size == 132);
    unlink(link);
    assert_int_equal(neap_npy_write_f32(f->ctx, "/dev/null", &x, 1, 1), NEAP_OK);
    assert_true(lstat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    assert_int_equal(neap_npy_write_f32(f->ctx, "/dev/full", &x, 1, 1), NEAP_EIO);
    neap_context_clear_error(f->ctx);
}

/* ---- reading ------------------------------------------------------------------------------ */

static const struct {
    const char *file;
    neap_status status;
    neap_dtype dtype;
    int n_dims;
    int64_t shape[3];
    uint64_t bytes;
    const char *data; /* or, of a refused file, a part of the message */
} numpy_files[] = {
    {"b1-2x2x1", NEAP_OK, NEAP_BOOL, 3, {2, 2, 1}, 4, "\1\0\0\1"},
    {"u1-4", NEAP_OK, NEAP_U8, 1, {4}, 4, "\x00\x01\xfe\xff"},
    {"i1-2", NEAP_OK, NEAP_I8, 1, {2}, 2, "\x80\x7f"},
    {"i2-1x2", NEAP_OK, NEAP_I16, 2, {1, 2}, 4, "\xd4\xfe\x2c\x01"},               /* -300, 300 */
    {"i4-2", NEAP_OK, NEAP_I32, 1, {2}, 8, "\x90\xee\xfe\xff\x70\x11\x01\x00"}, /* -70000, 70000 */
    {"i8-scalar", NEAP_OK, NEAP_I64, 0, {0}, 8, "\xfb\xff\xff\xff\xff\xff\xff\xff"},      /* -5 */
    {"f2-3", NEAP_OK, NEAP_F16, 1, {3}, 6, "\x00\x3c\x00\x40\x00\x38"},          /* 1, 2, 0.5 */
    {"u2-2", NEAP_OK, NEAP_BF16, 1, {2}, 4, "\x80\x3f\x00\xc0"},                      /* 1, -2 */
    {"u4-0x5", NEAP_OK, NEAP_U32, 2, {0, 5}, 0, ""},
    {"v2-i4-3", NEAP_OK, NEAP_I32, 1, {3}, 12, "\7\0\0\0\10\0\0\0\11\0\0\0"},
    {"v3-i4-3", NEAP_EUNSUPPORTED, 0, 0, {0}, 0, ".npy format 3.0 is not supported"},
    {"f8-2", NEAP_EUNSUPPORTED, 0, 0, {0}, 0, ".npy dtype '<f8' is not supported"},
    {"big-endian", NEAP_EUNSUPPORTED, 0, 0, {0}, 0, "'>f4' is not supported (big-endian)"},
    {"fortran-2x3", NEAP_EUNSUPPORTED, 0, 0, {0}, 0, "Fortran order"},
    {"records", NEAP_EUNSUPPORTED, 0, 0, {0}, 0, "a .npy file of records"},
    {"dims-9", NEAP_EUNSUPPORTED, 0, 0, {0}, 0, "more than 8 dimensions"},
};

static void test_files_of_numpy(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof numpy_files / sizeof *numpy_files; i++) {
        char path[256];
        snprintf(path, sizeof path, CORPUS "%s.npy", numpy_files[i].file);
        np_file_map map;
        assert_int_equal(np_file_map_open(f->ctx, path, &map), NEAP_OK);
        neap_npy a;
        assert_int_equal(neap_npy_parse(f->ctx, map.data, map.bytes, "f.npy", &a),
                         numpy_files[i].status);
        if (numpy_files[i].status == NEAP_OK) {
            assert_int_equal(a.dtype, numpy_files[i].dtype);
            assert_int_equal(a.n_dims, numpy_files[i].n_dims);
            assert_memory_equal(a.shape, numpy_files[i].shape, sizeof numpy_files[i].shape);
            assert_int_equal(a.bytes, numpy_files[i].bytes);
            assert_memory_equal(a.data, numpy_files[i].data, a.bytes);
        } else {
            assert_non_null(strstr(neap_context_error(f->ctx), numpy_files[i].data));
            assert_int_equal(strncmp(neap_context_error(f->ctx), "f.npy: ", 7), 0);
        }
        neap_context_clear_error(f->ctx);
        np_file_map_close(&map);
    }
}

/* A version 1.0 file of `text` and 24 bytes of data in a block of exactly its size. */
static neap_status parse_text(neap_context *ctx, const char *text, neap_npy *out)
{
    const size_t n = strlen(text), total = 10 + n + 24;
    uint8_t *file = calloc(1, total);
    assert_non_null(file);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (uint8_t)n;
    memcpy(file + 10, text, n);
    const neap_status s = neap_npy_parse(ctx, file, total, "f.npy", out);
    free(file);
    return s;
}

static void test_header_texts(void **state)
{
    fixture *f = *state;
#define KEYS "'descr': '|u1', 'fortran_order': False, "
    static const struct { const char *text; neap_status status; const char *fragment; } rows[] = {
        {"{" KEYS "'shape': (3,), }\n", NEAP_OK, ""},
        {"{" KEYS "'shape': (3,)}", NEAP_OK, ""},
        {"{\"shape\":(2,3,),'fortran_order':False,'descr':'|u1'}", NEAP_OK, ""},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (1, 9)}", NEAP_OK, ""}, /* same bytes */
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (0, 9, 9)}", NEAP_OK, ""},
        {"{" KEYS "'shape': (25,)}", NEAP_EFORMAT, "data beyond file: 25 bytes at offset 66"},
        {"{" KEYS "'shape': (3)}", NEAP_EFORMAT, "a comma in the shape"},
        {"{" KEYS "'shape': (3 4)}", NEAP_EFORMAT, "wanted a dimension"},
        {"{" KEYS "'shape': (-1,)}", NEAP_EFORMAT, "wanted a dimension"},
        {"{" KEYS "'shape': (,)}", NEAP_EFORMAT, "wanted a dimension"},
        {"{" KEYS "'shape': (9223372036854775808,)}", NEAP_EFORMAT, "below 2^63"},
        {"{" KEYS "'shape': (9223372036854775807, 3)}", NEAP_EFORMAT, "overflows"},
        {"{" KEYS "'shape': (3", NEAP_EFORMAT, "wanted a dimension"},
        {"{" KEYS "'shape': 3}", NEAP_EFORMAT, "wanted a shape"},
        {"{" KEYS "'shape': (3,)", NEAP_EFORMAT, "',' or '}'"},
        {"{" KEYS "'shape': (3,)} x", NEAP_EFORMAT, "wanted nothing more"},
        {"{" KEYS "'shape': (3,), 'shape': (3,)}", NEAP_EFORMAT, "each once"},
        {"{" KEYS "'extra': 1}", NEAP_EFORMAT, "each once"},
        {"{" KEYS "}", NEAP_EFORMAT, "wanted 'descr', 'fortran_order' and 'shape'"},
        {"{'descr: '|u1'}", NEAP_EFORMAT, "each once"},
        {"{'descr': 'u1", NEAP_EFORMAT, "wanted a dtype"},
        {"{'descr': 1}", NEAP_EFORMAT, "wanted a dtype"},
        {"{'descr': '|u1', 'fortran_order': 0}", NEAP_EFORMAT, "wanted True or False"},
        {"{'descr': '\x1b[31mred and long'}", NEAP_EUNSUPPORTED, "dtype '?[31mred and lo'"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': ()}", NEAP_EFORMAT, "not aligned to 4"},
        {"", NEAP_EFORMAT, "wanted '{'"},
        {"{", NEAP_EFORMAT, "wanted a key"},
        {"{}", NEAP_EFORMAT, "wanted 'descr'"},
    };
#undef KEYS
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        neap_npy a;
        const neap_status s = parse_text(f->ctx, rows[i].text, &a);
        if (s != rows[i].status || (s && !strstr(neap_context_error(f->ctx), rows[i].fragment)))
            fail_msg("%s: %s \"%s\"", rows[i].text, neap_status_name(s),
                     neap_context_error(f->ctx));
        neap_context_clear_error(f->ctx);
    }
}

static void test_cut_everywhere(void **state)
{
    fixture *f = *state;
    uint8_t whole[152];
    assert_int_equal(read_file(CORPUS "f4-2x3.npy", whole, sizeof whole), sizeof whole);
    for (size_t n = 0; n <= sizeof whole; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        assert_non_null(copy);
        memcpy(copy, whole, n);
        neap_npy a;
        assert_int_equal(neap_npy_parse(f->ctx, copy, n, "cut", &a),
                         n == sizeof whole ? NEAP_OK : NEAP_EFORMAT);
        neap_context_clear_error(f->ctx);
        free(copy);
    }
    neap_npy a;
    assert_int_equal(neap_npy_parse(f->ctx, "\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, "v2", &a),
                     NEAP_EFORMAT);
    assert_non_null(strstr(neap_context_error(f->ctx),
                           "length beyond file: 4294967295 bytes at offset 12, the file has 12"));
    neap_context_clear_error(f->ctx);
}

static void test_write_takes_nothing(void **state)
{
    fixture *f = *state;
    const float x = 1;
    neap_memory_info before = NEAP_MEMORY_INFO_INIT, after = NEAP_MEMORY_INFO_INIT;
    neap_context_trim(f->ctx);
    neap_context_memory(f->ctx, &before);
    assert_int_equal(neap_context_set_limit(f->ctx, before.active + before.cached), NEAP_OK);
    assert_int_equal(neap_npy_write_f32(f->ctx, f->path, &x, 1, 1), NEAP_OK);
    neap_context_memory(f->ctx, &after);
    assert_int_equal(after.peak, before.peak);
    char *path = test_malloc(8000);
    memset(path, 'x', 7999);
    path[7999] = '\0';
    assert_int_equal(neap_npy_write_f32(f->ctx, path, &x, 1, 1), NEAP_EIO);
    test_free(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_of_a_file),    TEST(test_round_trip),
        TEST(test_write_refuses),      TEST(test_failed_write_keeps_the_old_file),
        TEST(test_not_a_regular_file), TEST(test_files_of_numpy),
        TEST(test_header_texts),       TEST(test_cut_everywhere),
        TEST(test_write_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
