/* test_gguf.c - the GGUF reader: a sound file, every look-up, malformed and cut files, failing
 * allocations. Expected values of the tiny file were read with the PyPI package `gguf`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_map.h"
#include "formats/gguf.h"

#define GOLDEN NEAP_TEST_DIR "/golden/"
enum { MEBIBYTE = 1 << 20 };

static neap_context *new_context(int64_t fail_allocation)
{
    neap_context *ctx = NULL;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    o.fail_allocation = fail_allocation;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        return NULL;
    return ctx;
}

static uint64_t active(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.active;
}

static uint64_t peak(neap_context *ctx)
{
    neap_memory_info m = NEAP_MEMORY_INFO_INIT;
    neap_context_memory(ctx, &m);
    return m.peak;
}

static bool says(np_bytes b, const char *text)
{
    return b.n == strlen(text) && memcmp(b.p, text, b.n) == 0;
}

/* ---- a file built in memory --------------------------------------------------------------- */

typedef struct builder {
    _Alignas(64) uint8_t bytes[4096];
    size_t n;
} builder;

static void put(builder *b, const void *p, size_t n)
{
    assert_true(b->n + n <= sizeof b->bytes);
    memcpy(b->bytes + b->n, p, n);
    b->n += n;
}

static void put_u32(builder *b, uint32_t v) { put(b, &v, 4); }
static void put_u64(builder *b, uint64_t v) { put(b, &v, 8); }

static void put_string(builder *b, const char *s)
{
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

static void put_key(builder *b, const char *key, uint32_t type, const void *value, size_t n)
{
    put_string(b, key);
    put_u32(b, type);
    put(b, value, n);
}

static void put_array_key(builder *b, const char *key, uint32_t type, uint64_t count)
{
    put_string(b, key);
    put_u32(b, NP_GGUF_ARRAY);
    put_u32(b, type);
    put_u64(b, count);
}

static void put_tensor(builder *b, const char *name, int n_dims, const uint64_t *ne, uint32_t type,
                       uint64_t offset)
{
    put_string(b, name);
    put_u32(b, (uint32_t)n_dims);
    for (int i = 0; i < n_dims; i++)
        put_u64(b, ne[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

/* Every value type, an array of most, four tensors; alignment 64. */
static void build_all(builder *b)
{
    *b = (builder){0};
    put(b, "GGUF", 4);
    put_u32(b, 2);
    put_u64(b, 4);
    put_u64(b, 18);
    put_key(b, "u8", NP_GGUF_U8, &(uint8_t){250}, 1);
    put_key(b, "i8", NP_GGUF_I8, &(int8_t){-3}, 1);
    put_key(b, "u16", NP_GGUF_U16, &(uint16_t){65000}, 2);
    put_key(b, "i16", NP_GGUF_I16, &(int16_t){-300}, 2);
    put_key(b, "u32", NP_GGUF_U32, &(uint32_t){4000000000u}, 4);
    put_key(b, "i32", NP_GGUF_I32, &(int32_t){-70000}, 4);
    put_key(b, "f32", NP_GGUF_F32, &(float){1.5f}, 4);
    put_key(b, "bool", NP_GGUF_BOOL, &(uint8_t){1}, 1);
    put_string(b, "string");
    put_u32(b, NP_GGUF_STRING);
    put_string(b, "tide");
    put_key(b, "u64", NP_GGUF_U64, &(uint64_t){UINT64_MAX}, 8);
    put_key(b, "i64", NP_GGUF_I64, &(int64_t){7}, 8);
    put_key(b, "f64", NP_GGUF_F64, &(double){0.25}, 8);
    put_key(b, "huge", NP_GGUF_F64, &(double){1e300}, 8);
    put_array_key(b, "i32s", NP_GGUF_I32, 3);
    put(b, (int32_t[]){1, -2, 3}, 12);
    put_array_key(b, "f32s", NP_GGUF_F32, 2);
    put(b, (float[]){0.5f, -1.0f}, 8);
    put_array_key(b, "strings", NP_GGUF_STRING, 3);
    put_string(b, "a");
    put_string(b, "");
    put_string(b, "ccc");
    put_array_key(b, "none", NP_GGUF_STRING, 0);
    put_key(b, "general.alignment", NP_GGUF_U32, &(uint32_t){64}, 4);
    put_tensor(b, "scale", 1, (uint64_t[]){4}, 0, 64);
    put_tensor(b, "cube", 4, (uint64_t[]){32, 2, 3, 1}, 8, 128); /* Q8_0 [1, 3, 2, 32]: 204 bytes */
    put_tensor(b, "half", 2, (uint64_t[]){3, 5}, 30, 0);         /* BF16 [5, 3]: 30 bytes */
    put_tensor(b, "nothing", 2, (uint64_t[]){32, 0}, 2, 128);    /* Q4_0 [0, 32] */
    while (b->n % 64)
        put(b, "", 1);
    for (int i = 0; i < 128 + 204; i++)
        put(b, &(uint8_t){(uint8_t)i}, 1);
}

static void test_every_value_type(void **state)
{
    (void)state;
    builder b;
    build_all(&b);
    neap_context *ctx = new_context(0);
    np_gguf *g;
    assert_int_equal(np_gguf_parse(ctx, b.bytes, b.n, "all.gguf", &g), NEAP_OK);
    assert_int_equal(g->version, 2);
    assert_int_equal(g->alignment, 64);
    assert_int_equal(g->n_values, 18);
    assert_int_equal(g->n_tensors, 4);
    assert_int_equal(g->data_start, b.n - 332);

    uint32_t u = 0;
    static const struct { const char *key; uint32_t want; } integers[] = {
        {"u8", 250}, {"u16", 65000}, {"u32", 4000000000u}, {"i64", 7}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        assert_int_equal(np_gguf_u32(g, integers[i].key, NP_GGUF_REQUIRED, &u), NEAP_OK);
        assert_int_equal(u, integers[i].want);
    }
    float f = 0;
    assert_int_equal(np_gguf_f32(g, "f32", NP_GGUF_REQUIRED, &f), NEAP_OK);
    assert_true(f == 1.5f);
    assert_int_equal(np_gguf_f32(g, "f64", NP_GGUF_REQUIRED, &f), NEAP_OK);
    assert_true(f == 0.25f);
    bool t = false;
    assert_int_equal(np_gguf_bool(g, "bool", NP_GGUF_REQUIRED, &t), NEAP_OK);
    assert_true(t);
    np_bytes s;
    assert_int_equal(np_gguf_string(g, "string", NP_GGUF_REQUIRED, &s), NEAP_OK);
    assert_true(says(s, "tide"));

    const np_gguf_value *a;
    assert_int_equal(np_gguf_array(g, "i32s", NP_GGUF_I32, NP_GGUF_REQUIRED, &a), NEAP_OK);
    assert_int_equal(a->count, 3);
    assert_int_equal(np_gguf_element_i64(a, 1), -2);
    assert_int_equal(np_gguf_array(g, "f32s", NP_GGUF_F32, NP_GGUF_REQUIRED, &a), NEAP_OK);
    assert_true(np_gguf_element_f32(a, 1) == -1.0f);
    assert_int_equal(np_gguf_array(g, "strings", NP_GGUF_STRING, NP_GGUF_REQUIRED, &a), NEAP_OK);
    np_gguf_strings it = np_gguf_strings_of(a);
    assert_true(np_gguf_strings_next(&it, &s) && says(s, "a"));
    assert_true(np_gguf_strings_next(&it, &s) && says(s, ""));
    assert_true(np_gguf_strings_next(&it, &s) && says(s, "ccc"));
    assert_false(np_gguf_strings_next(&it, &s));
    assert_int_equal(np_gguf_array(g, "none", NP_GGUF_STRING, NP_GGUF_REQUIRED, &a), NEAP_OK);
    it = np_gguf_strings_of(a);
    assert_false(np_gguf_strings_next(&it, &s));
    np_gguf_free(g);
    neap_context_free(ctx);
}

static void test_tensors_in_memory(void **state)
{
    (void)state;
    builder b;
    build_all(&b);
    neap_context *ctx = new_context(0);
    np_gguf *g;
    assert_int_equal(np_gguf_parse(ctx, b.bytes, b.n, "all.gguf", &g), NEAP_OK);
    const uint8_t *data = b.bytes + b.n - 332;
    const np_gguf_tensor *t = np_gguf_find_tensor(g, "cube");
    assert_non_null(t);
    assert_int_equal(t->dtype, NEAP_Q8_0);
    assert_int_equal(t->n_dims, 4);
    const int64_t shape[4] = {1, 3, 2, 32};
    assert_memory_equal(t->shape, shape, sizeof shape);
    assert_int_equal(t->bytes, 204);
    assert_ptr_equal(t->data, data + 128);
    t = np_gguf_find_tensor(g, "half");
    assert_non_null(t);
    assert_int_equal(t->dtype, NEAP_BF16);
    assert_true(t->shape[0] == 5 && t->shape[1] == 3 && t->bytes == 30);
    t = np_gguf_find_tensor(g, "nothing");
    assert_non_null(t);
    assert_true(t->shape[0] == 0 && t->shape[1] == 32 && t->bytes == 0);
    assert_null(np_gguf_find_tensor(g, "cub"));
    assert_null(np_gguf_find_tensor(g, "cubes"));
    assert_null(np_gguf_find_tensor(g, ""));
    np_gguf_free(g);
    neap_context_free(ctx);
}

/* Wrong type, out of range, absent: the message names the key, what it is and what was wanted. */
static void test_lookup_errors(void **state)
{
    (void)state;
    builder b;
    build_all(&b);
    neap_context *ctx = new_context(0);
    np_gguf *g;
    assert_int_equal(np_gguf_parse(ctx, b.bytes, b.n, "all.gguf", &g), NEAP_OK);
    uint32_t u = 11;
    float f = 11;
    bool t = true;
    np_bytes s = {NULL, 11};
    const np_gguf_value *a = NULL;
#define REFUSED(call, fragment)                                                                    \
    do {                                                                                           \
        assert_int_equal(call, NEAP_EFORMAT);                                                      \
        assert_string_equal(neap_context_error(ctx), "all.gguf: " fragment);                       \
        neap_context_clear_error(ctx);                                                             \
    } while (0)
    REFUSED(np_gguf_u32(g, "i8", NP_GGUF_REQUIRED, &u), "key 'i8' is -3, wanted 0 to 4294967295");
    REFUSED(np_gguf_u32(g, "i32", NP_GGUF_OPTIONAL, &u),
            "key 'i32' is -70000, wanted 0 to 4294967295");
    REFUSED(np_gguf_u32(g, "u64", NP_GGUF_REQUIRED, &u),
            "key 'u64' is 18446744073709551615, wanted 0 to 4294967295");
    REFUSED(np_gguf_u32(g, "f32", NP_GGUF_REQUIRED, &u), "key 'f32' is f32, wanted an integer");
    REFUSED(np_gguf_u32(g, "bool", NP_GGUF_REQUIRED, &u), "key 'bool' is bool, wanted an integer");
    REFUSED(np_gguf_u32(g, "i32s", NP_GGUF_REQUIRED, &u),
            "key 'i32s' is an array of i32, wanted an integer");
    REFUSED(np_gguf_u32(g, "absent", NP_GGUF_REQUIRED, &u),
            "key 'absent' is missing (wanted: an integer)");
    REFUSED(np_gguf_f32(g, "u8", NP_GGUF_REQUIRED, &f), "key 'u8' is u8, wanted f32 or f64");
    REFUSED(np_gguf_f32(g, "huge", NP_GGUF_REQUIRED, &f),
            "key 'huge' is 1e+300, wanted a finite f32");
    REFUSED(np_gguf_bool(g, "u8", NP_GGUF_REQUIRED, &t), "key 'u8' is u8, wanted bool");
    REFUSED(np_gguf_string(g, "strings", NP_GGUF_REQUIRED, &s),
            "key 'strings' is an array of string, wanted string");
    REFUSED(np_gguf_array(g, "i32s", NP_GGUF_U32, NP_GGUF_REQUIRED, &a),
            "key 'i32s' is an array of i32, wanted an array of u32");
    REFUSED(np_gguf_array(g, "i32", NP_GGUF_I32, NP_GGUF_REQUIRED, &a),
            "key 'i32' is i32, wanted an array of i32");
    REFUSED(np_gguf_array(g, "absent", NP_GGUF_I32, NP_GGUF_REQUIRED, &a),
            "key 'absent' is missing (wanted: an array of i32)");
#undef REFUSED
    assert_int_equal(np_gguf_u32(g, "absent", NP_GGUF_OPTIONAL, &u), NEAP_OK);
    assert_int_equal(np_gguf_f32(g, "absent", NP_GGUF_OPTIONAL, &f), NEAP_OK);
    assert_int_equal(np_gguf_bool(g, "absent", NP_GGUF_OPTIONAL, &t), NEAP_OK);
    assert_int_equal(np_gguf_string(g, "absent", NP_GGUF_OPTIONAL, &s), NEAP_OK);
    assert_int_equal(np_gguf_array(g, "absent", NP_GGUF_I32, NP_GGUF_OPTIONAL, &a), NEAP_OK);
    assert_true(u == 11 && f == 11 && t && s.n == 11 && !a); /* as they were */
    np_gguf_free(g);
    neap_context_free(ctx);
}

/* ---- the tiny model ----------------------------------------------------------------------- */

static void test_tiny_model(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    np_file_map map;
    assert_int_equal(np_file_map_open(ctx, GOLDEN "tiny-llama-q8_0.gguf", &map), NEAP_OK);
    np_gguf *g;
    assert_int_equal(np_gguf_parse(ctx, map.data, map.bytes, "tiny", &g), NEAP_OK);
    assert_int_equal(g->version, 3);
    assert_int_equal(g->alignment, 32);
    assert_int_equal(g->data_start, 7424);
    assert_int_equal(g->n_values, 26);
    assert_int_equal(g->n_tensors, 21);

    np_bytes s;
    assert_int_equal(np_gguf_string(g, "general.architecture", NP_GGUF_REQUIRED, &s), NEAP_OK);
    assert_true(says(s, "llama"));
    uint32_t layers;
    assert_int_equal(np_gguf_u32(g, "llama.block_count", NP_GGUF_REQUIRED, &layers), NEAP_OK);
    assert_int_equal(layers, 2);
    float eps;
    static const char eps_key[] = "llama.attention.layer_norm_rms_epsilon";
    assert_int_equal(np_gguf_f32(g, eps_key, NP_GGUF_REQUIRED, &eps), NEAP_OK);
    assert_true(eps == 1e-5f);
    static const char tokens_key[] = "tokenizer.ggml.tokens";
    const np_gguf_value *tokens;
    assert_int_equal(np_gguf_array(g, tokens_key, NP_GGUF_STRING, NP_GGUF_REQUIRED, &tokens),
                     NEAP_OK);
    assert_int_equal(tokens->count, 300);
    np_gguf_strings it = np_gguf_strings_of(tokens);
    int n = 0;
    for (np_bytes token; np_gguf_strings_next(&it, &token); n++) {
        assert_true(n != 1 || says(token, "<|im_start|>"));
        assert_true(n != 299 || says(token, "\xc4\xa0wor"));
    }
    assert_int_equal(n, 300);

    const np_gguf_tensor *t = np_gguf_find_tensor(g, "blk.1.ffn_down.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, NEAP_Q8_0);
    assert_true(t->n_dims == 2 && t->shape[0] == 64 && t->shape[1] == 128 && t->bytes == 8704);
    assert_ptr_equal(t->data, map.data + 98496);
    t = np_gguf_find_tensor(g, "output_norm.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, NEAP_F32);
    const float *norm = t->data;
    assert_true(norm[0] == 1.1823371648788452f && norm[3] == 1.0467126369476318f);
    np_gguf_free(g);
    np_file_map_close(&map);
    neap_context_free(ctx);
}

/* ---- malformed files ---------------------------------------------------------------------- */

static const struct {
    const char *file;
    neap_status status;
    const char *fragment;
} bad[] = {
    {"empty", NEAP_EFORMAT, "magic: length beyond file: 4 bytes at offset 0, the file has 0"},
    {"cut-magic", NEAP_EFORMAT, "magic: length beyond file: 4 bytes at offset 0, the file has 3"},
    {"cut-head", NEAP_EFORMAT, "metadata count: length beyond file: 8 bytes at offset 16"},
    {"not-gguf", NEAP_EFORMAT, "not a GGUF file: it starts with 'GGML'"},
    {"version-1", NEAP_EUNSUPPORTED, "GGUF version 1 is not supported, only 2 and 3 are"},
    {"version-4", NEAP_EUNSUPPORTED, "GGUF version 4 is not supported"},
    {"big-endian", NEAP_EUNSUPPORTED, "a big-endian GGUF file"},
    {"tensor-count", NEAP_EFORMAT, "9223372036854775808 tensors"},
    {"tensor-count-2", NEAP_EFORMAT, "tensor entry 1: empty name"},
    {"key-count", NEAP_EFORMAT, "metadata entry 1: empty key at offset 41"},
    /* cases/files.md F1: 32 bytes that ask for 2^48 - 1 */
    {"key-length", NEAP_EFORMAT,
     "length beyond file: 281474976710655 bytes at offset 32, the file has 32"},
    {"key-empty", NEAP_EFORMAT, "metadata entry 0: empty key at offset 24"},
    {"key-twice", NEAP_EFORMAT, "key 'a' appears twice"},
    {"value-type", NEAP_EFORMAT, "key 'a': unknown value type 13"},
    {"value-cut", NEAP_EFORMAT, "key 'a': length beyond file: 4 bytes at offset 37"},
    {"string-length", NEAP_EFORMAT,
     "key 'a': length beyond file: 281474976710656 bytes at offset 45, the file has 64"},
    {"array-type", NEAP_EFORMAT, "key 'a': unknown value type 99"},
    {"array-nested", NEAP_EUNSUPPORTED, "key 'a': an array of arrays"},
    {"array-count", NEAP_EFORMAT, "key 'a': length beyond file: 4398046511104 bytes at offset 49"},
    {"array-overflow", NEAP_EFORMAT, "key 'a': length beyond file"},
    {"strings-count", NEAP_EFORMAT, "element 1 of 1099511627776: length beyond file: 8 bytes"},
    {"strings-length", NEAP_EFORMAT,
     "element 1 of 2: length beyond file: 1125899906842624 bytes at offset 66"},
    {"alignment-0", NEAP_EFORMAT, "'general.alignment' is 0, wanted a power of two"},
    {"alignment-4", NEAP_EFORMAT, "'general.alignment' is 4, wanted a power of two of at least 8"},
    {"alignment-48", NEAP_EFORMAT, "'general.alignment' is 48, wanted a power of two"},
    {"alignment-type", NEAP_EFORMAT, "'general.alignment' is string, wanted u32"},
    {"name-length", NEAP_EFORMAT,
     "tensor entry 0: length beyond file: 1099511627776 bytes at offset 32"},
    {"name-empty", NEAP_EFORMAT, "tensor entry 0: empty name"},
    /* cases/files.md F3 */
    {"offset", NEAP_EFORMAT, "tensor 't': data beyond file: 32 bytes at offset 1099511627776"},
    {"dims-0", NEAP_EFORMAT, "tensor 't': 0 dimensions"},
    {"dims-9", NEAP_EFORMAT, "tensor 't': 9 dimensions"},
    {"elements-32-bit", NEAP_EFORMAT, "tensor 't': data beyond file: 17179869184 bytes"},
    {"type-unknown", NEAP_EFORMAT, "tensor 't': unknown type id 200"},
    {"type-of-second", NEAP_EFORMAT, "tensor 'bad': unknown type id 200"},
    {"type-withdrawn", NEAP_EFORMAT, "tensor 't': unknown type id 4"},
    {"type-unsupported", NEAP_EUNSUPPORTED, "tensor 't': unsupported type Q8_K"},
    {"dimension", NEAP_EFORMAT, "tensor 't': a dimension of 9223372036854775808"},
    {"elements-overflow", NEAP_EFORMAT, "tensor 't': its size overflows 64 bits"},
    {"bytes-overflow", NEAP_EFORMAT, "tensor 't': its size overflows 64 bits"},
    {"row-block", NEAP_EFORMAT, "rows of 40 elements are no multiple of Q4_0's block of 32"},
    {"offset-overflow", NEAP_EFORMAT, "tensor 't': data beyond file"},
    {"offset-unaligned", NEAP_EFORMAT, "offset 16 is no multiple of the alignment 32"},
    {"data-cut", NEAP_EFORMAT,
     "tensor 'last': data beyond file: 32 bytes at offset 32 of the data that starts at 96, the "
     "file has 159"},
    {"data-missing", NEAP_EFORMAT, "tensor 'good': data beyond file"},
    {"tensor-twice", NEAP_EFORMAT, "tensor 'good' appears twice"},
    {"tensors-overlap", NEAP_EFORMAT, "tensors 'a' and 'b' overlap"},
};
enum { BAD = sizeof bad / sizeof *bad };

static void test_malformed_files(void **state)
{
    (void)state;
    for (int i = 0; i < BAD; i++) {
        char path[512];
        snprintf(path, sizeof path, GOLDEN "bad/%s.gguf", bad[i].file);
        neap_context *ctx = new_context(0);
        np_file_map map;
        assert_int_equal(np_file_map_open(ctx, path, &map), NEAP_OK);
        const uint64_t before = active(ctx);
        np_gguf *g = (np_gguf *)1;
        neap_status s = np_gguf_parse(ctx, map.data, map.bytes, "f.gguf", &g);
        if (s == NEAP_OK) { /* a type that nothing computes with is no fault of the file */
            s = np_gguf_check_types(g);
            np_gguf_free(g);
            g = NULL;
        }
        const char *text = neap_context_error(ctx);
        if (s != bad[i].status || !strstr(text, bad[i].fragment) || strncmp(text, "f.gguf: ", 8))
            fail_msg("%s: %s \"%s\", wanted %s \"%s\"", bad[i].file, neap_status_name(s), text,
                     neap_status_name(bad[i].status), bad[i].fragment);
        assert_null(g);
        assert_true(peak(ctx) - before < MEBIBYTE);
        assert_int_equal(active(ctx), before);
        np_file_map_close(&map);
        neap_context_free(ctx);
    }
}

/* Each file in the folder is in the table. */
static void test_table_is_complete(void **state)
{
    (void)state;
    DIR *dir = opendir(GOLDEN "bad");
    assert_non_null(dir);
    int files = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        const char *dot = strrchr(e->d_name, '.');
        files += dot && strcmp(dot, ".gguf") == 0;
    }
    closedir(dir);
    assert_int_equal(files, BAD);
}

/* Parses a copy that ends where the allocation ends, so that ASan sees the first byte beyond. */
static neap_status parse_copy(neap_context *ctx, const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    np_gguf *g;
    const neap_status s = np_gguf_parse(ctx, copy, n, "copy", &g);
    assert_true((s == NEAP_OK) == (g != NULL));
    assert_true((s == NEAP_OK) == (neap_context_status(ctx) == NEAP_OK));
    np_gguf_free(g);
    free(copy);
    neap_context_clear_error(ctx);
    return s;
}

static void test_cut_everywhere(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    builder b;
    build_all(&b);
    for (size_t n = 0; n < b.n; n++)
        assert_int_not_equal(parse_copy(ctx, b.bytes, n), NEAP_OK);
    assert_int_equal(parse_copy(ctx, b.bytes, b.n), NEAP_OK);

    np_file_map map;
    assert_int_equal(np_file_map_open(ctx, GOLDEN "tiny-llama-q8_0.gguf", &map), NEAP_OK);
    const size_t data_end = 107456 + 20400; /* of the last tensor; padding follows */
    for (size_t n = 0; n < data_end; n += 16)
        assert_int_not_equal(parse_copy(ctx, map.data, n), NEAP_OK);
    assert_int_equal(parse_copy(ctx, map.data, data_end), NEAP_OK);
    assert_true(peak(ctx) < MEBIBYTE);
    np_file_map_close(&map);
    neap_context_free(ctx);
}

/* Every four and every eight bytes of the header become extreme values: error or not, no harm. */
static void spoil(neap_context *ctx, const uint8_t *bytes, size_t n, size_t header, size_t step)
{
    static const uint64_t values[] = {0, 1, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, UINT64_MAX};
    uint8_t *copy = malloc(n);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    for (size_t at = 0; at + 8 <= header; at += step)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            for (size_t width = 4; width <= 8; width += 4) {
                memcpy(copy + at, &values[v], width);
                np_gguf *g;
                const neap_status s = np_gguf_parse(ctx, copy, n, "spoilt", &g);
                assert_true(s == NEAP_OK || s == NEAP_EFORMAT || s == NEAP_EUNSUPPORTED);
                np_gguf_free(g);
                neap_context_clear_error(ctx);
                memcpy(copy + at, bytes + at, width);
            }
    free(copy);
}

static void test_spoilt_fields(void **state)
{
    (void)state;
    neap_context *ctx = new_context(0);
    builder b;
    build_all(&b);
    spoil(ctx, b.bytes, b.n, b.n - 332, 1);
    np_file_map map;
    assert_int_equal(np_file_map_open(ctx, GOLDEN "tiny-llama-q8_0.gguf", &map), NEAP_OK);
    spoil(ctx, map.data, map.bytes, 1024, 1); /* the counts and the first keys */
    spoil(ctx, map.data, map.bytes, 7424, 13);
    assert_true(peak(ctx) < MEBIBYTE);
    np_file_map_close(&map);
    neap_context_free(ctx);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    builder b;
    build_all(&b);
    int failures = 0;
    for (int64_t n = 1;; n++) {
        neap_context *ctx = new_context(n);
        if (!ctx)
            continue; /* it was one of the context's own */
        const uint64_t before = active(ctx);
        np_gguf *g;
        const neap_status s = np_gguf_parse(ctx, b.bytes, b.n, "all.gguf", &g);
        assert_true(s == NEAP_OK || s == NEAP_ENOMEM);
        failures += s == NEAP_ENOMEM;
        np_gguf_free(g);
        assert_int_equal(active(ctx), before);
        neap_context_free(ctx);
        if (s == NEAP_OK)
            break;
    }
    assert_true(failures > 0);
}

/* Names from a file reach messages cut and without control characters. */
static void test_names_in_messages(void **state)
{
    (void)state;
    builder b = {0};
    char name[301];
    memset(name, 'x', 300);
    name[300] = 0;
    name[0] = '\033';
    put(&b, "GGUF", 4);
    put_u32(&b, 3);
    put_u64(&b, 1);
    put_u64(&b, 0);
    put_tensor(&b, name, 1, (uint64_t[]){8}, 0, 1 << 20);
    neap_context *ctx = new_context(0);
    np_gguf *g;
    assert_int_equal(np_gguf_parse(ctx, b.bytes, b.n, "n", &g), NEAP_EFORMAT);
    assert_non_null(strstr(neap_context_error(ctx), "n: tensor '?xxx"));
    assert_non_null(strstr(neap_context_error(ctx), "xxx...': data beyond file"));
    neap_context_clear_error(ctx);
    assert_int_equal(np_gguf_parse(ctx, b.bytes + 4, b.n - 4, "n", &g), NEAP_EINVAL);
    neap_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_value_type),    cmocka_unit_test(test_tensors_in_memory),
        cmocka_unit_test(test_lookup_errors),       cmocka_unit_test(test_tiny_model),
        cmocka_unit_test(test_malformed_files),     cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test(test_cut_everywhere),      cmocka_unit_test(test_spoilt_fields),
        cmocka_unit_test(test_failing_allocations), cmocka_unit_test(test_names_in_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
