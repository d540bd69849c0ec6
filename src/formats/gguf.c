/* gguf.c - see gguf.h.
 *
 * The header is walked twice by the same two functions, one for a metadata entry, one for a tensor:
 * first only to check it and to know how much of it there really is, then to fill an index of
 * exactly that size. So a count or length that lies never leads to an allocation. */
#include "formats/gguf.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap_sort.h"
#include "base/interrupt.h"
#include "base/shown.h"

enum { DEFAULT_ALIGNMENT = 32, LEAST_ALIGNMENT = 8 };

typedef struct parse {
    neap_context *ctx;
    const char *name;
    np_reader r;
    uint32_t alignment;
    uint64_t data_start;
} parse;

/* ---- types -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t bytes; /* 0: not of a fixed size */
} value_types[NP_GGUF_TYPES] = {
    [NP_GGUF_U8] = {"u8", 1},
    [NP_GGUF_I8] = {"i8", 1},
    [NP_GGUF_U16] = {"u16", 2},
    [NP_GGUF_I16] = {"i16", 2},
    [NP_GGUF_U32] = {"u32", 4},
    [NP_GGUF_I32] = {"i32", 4},
    [NP_GGUF_F32] = {"f32", 4},
    [NP_GGUF_BOOL] = {"bool", 1},
    [NP_GGUF_STRING] = {"string", 0},
    [NP_GGUF_ARRAY] = {"array", 0},
    [NP_GGUF_U64] = {"u64", 8},
    [NP_GGUF_I64] = {"i64", 8},
    [NP_GGUF_F64] = {"f64", 8},
};

const char *np_gguf_type_name(np_gguf_type type)
{
    return (unsigned)type < NP_GGUF_TYPES ? value_types[type].name : "unknown";
}

/* Tensor types by their number in the file, with the elements and bytes of a block. Those without a
 * dtype are known by name; numbers that are not listed were withdrawn or are newer than this table. */
enum { NONE = NP_GGUF_NO_DTYPE };
static const struct {
    const char *name;
    int dtype, elements, bytes;
} tensor_types[] = {
    // clang-format off
    [0] = {"F32", NEAP_F32, 1, 4}, [1] = {"F16", NEAP_F16, 1, 2},
    [2] = {"Q4_0", NEAP_Q4_0, 32, 18}, [3] = {"Q4_1", NEAP_Q4_1, 32, 20},
    [6] = {"Q5_0", NEAP_Q5_0, 32, 22}, [7] = {"Q5_1", NEAP_Q5_1, 32, 24},
    [8] = {"Q8_0", NEAP_Q8_0, 32, 34}, [9] = {"Q8_1", NONE, 32, 36},
    [10] = {"Q2_K", NEAP_Q2_K, 256, 84}, [11] = {"Q3_K", NEAP_Q3_K, 256, 110},
    [12] = {"Q4_K", NEAP_Q4_K, 256, 144}, [13] = {"Q5_K", NEAP_Q5_K, 256, 176},
    [14] = {"Q6_K", NEAP_Q6_K, 256, 210}, [15] = {"Q8_K", NONE, 256, 292},
    [16] = {"IQ2_XXS", NONE, 256, 66}, [17] = {"IQ2_XS", NONE, 256, 74},
    [18] = {"IQ3_XXS", NONE, 256, 98}, [19] = {"IQ1_S", NONE, 256, 50},
    [20] = {"IQ4_NL", NONE, 32, 18}, [21] = {"IQ3_S", NONE, 256, 110},
    [22] = {"IQ2_S", NONE, 256, 82}, [23] = {"IQ4_XS", NONE, 256, 136},
    [24] = {"I8", NEAP_I8, 1, 1}, [25] = {"I16", NEAP_I16, 1, 2}, [26] = {"I32", NEAP_I32, 1, 4},
    [27] = {"I64", NEAP_I64, 1, 8}, [28] = {"F64", NONE, 1, 8}, [29] = {"IQ1_M", NONE, 256, 56},
    [30] = {"BF16", NEAP_BF16, 1, 2}, [34] = {"TQ1_0", NONE, 256, 54},
    [35] = {"TQ2_0", NONE, 256, 66}, [39] = {"MXFP4", NONE, 32, 17},
    [40] = {"NVFP4", NONE, 64, 36}, [41] = {"Q1_0", NONE, 128, 18},
    // clang-format on
};
enum { TENSOR_TYPES = sizeof tensor_types / sizeof *tensor_types };

const char *np_gguf_tensor_type(uint32_t type)
{
    return type < TENSOR_TYPES ? tensor_types[type].name : NULL;
}

/* ---- walking the header ------------------------------------------------------------------- */

/* What could not be read, where, and how long the file is. */
static neap_status beyond(parse *p, const char *what, uint64_t bytes)
{
    return np_fail(p->ctx, NEAP_EFORMAT,
                   "%s: %s: length beyond file: %" PRIu64 " bytes at offset %" PRIu64
                   ", the file has %" PRIu64,
                   p->name, what, bytes, np_reader_offset(&p->r),
                   (uint64_t)(p->r.end - p->r.start));
}

static neap_status take(parse *p, const char *what, uint64_t bytes, np_bytes *out)
{
    return np_read_bytes(&p->r, bytes, out) ? NEAP_OK : beyond(p, what, bytes);
}

static neap_status take_u32(parse *p, const char *what, uint32_t *out)
{
    return np_read_u32(&p->r, out) ? NEAP_OK : beyond(p, what, 4);
}

static neap_status take_u64(parse *p, const char *what, uint64_t *out)
{
    return np_read_u64(&p->r, out) ? NEAP_OK : beyond(p, what, 8);
}

static neap_status take_string(parse *p, const char *what, np_bytes *out)
{
    uint64_t n = 0;
    neap_status s = take_u64(p, what, &n);
    return s != NEAP_OK ? s : take(p, what, n, out);
}

/* The elements of an array; leaves the reader behind the last. */
static neap_status take_elements(parse *p, const char *what, np_gguf_value *v)
{
    const uint32_t size = value_types[v->type].bytes;
    if (size) {
        uint64_t bytes;
        if (!np_mul_size(v->count, size, &bytes))
            bytes = UINT64_MAX;
        return take(p, what, bytes, &v->data);
    }
    const uint8_t *start = p->r.p;
    for (uint64_t i = 0; i < v->count; i++) {
        if (i % 4096 == 4095 && np_check(p->ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        uint64_t n;
        np_bytes element;
        if (!np_read_u64(&p->r, &n)) {
            n = 8;
        } else if (np_read_bytes(&p->r, n, &element)) {
            continue;
        }
        char which[NP_SHOWN_NAME + 96];
        snprintf(which, sizeof which, "%s, element %" PRIu64 " of %" PRIu64, what, i, v->count);
        return beyond(p, which, n);
    }
    v->data = (np_bytes){start, (uint64_t)(p->r.p - start)};
    return NEAP_OK;
}

static neap_status check_value_type(parse *p, const char *what, uint32_t type)
{
    if (type < NP_GGUF_TYPES)
        return NEAP_OK;
    return np_fail(p->ctx, NEAP_EFORMAT,
                   "%s: %s: unknown value type %" PRIu32 " before offset %" PRIu64, p->name, what,
                   type, np_reader_offset(&p->r));
}

static neap_status take_array(parse *p, const char *what, np_gguf_value *v)
{
    uint32_t type;
    neap_status s = take_u32(p, what, &type);
    if (s == NEAP_OK)
        s = check_value_type(p, what, type);
    if (s != NEAP_OK)
        return s;
    if (type == NP_GGUF_ARRAY)
        return np_fail(p->ctx, NEAP_EUNSUPPORTED, "%s: %s: an array of arrays at offset %" PRIu64,
                       p->name, what, np_reader_offset(&p->r));
    v->type = (np_gguf_type)type;
    v->is_array = true;
    s = take_u64(p, what, &v->count);
    return s != NEAP_OK ? s : take_elements(p, what, v);
}

static neap_status take_value(parse *p, uint64_t index, np_gguf_value *v)
{
    char what[NP_SHOWN_NAME + 32];
    snprintf(what, sizeof what, "metadata entry %" PRIu64, index);
    const uint64_t offset = np_reader_offset(&p->r);
    neap_status s = take_string(p, what, &v->key);
    if (s != NEAP_OK)
        return s;
    if (v->key.n == 0)
        return np_fail(p->ctx, NEAP_EFORMAT, "%s: %s: empty key at offset %" PRIu64, p->name, what,
                       offset);
    snprintf(what, sizeof what, "key '%s'", np_show(v->key).text);
    uint32_t type;
    s = take_u32(p, what, &type);
    if (s == NEAP_OK)
        s = check_value_type(p, what, type);
    if (s != NEAP_OK)
        return s;
    if (type == NP_GGUF_ARRAY)
        return take_array(p, what, v);
    v->type = (np_gguf_type)type;
    v->is_array = false;
    v->count = 1;
    return type == NP_GGUF_STRING ? take_string(p, what, &v->data)
                                  : take(p, what, value_types[type].bytes, &v->data);
}

/* Shape and type are read: the tensor's size, in 64 bits with every overflow an error. Of a type that is
 * not listed it is not known, and 0. */
static neap_status measure_tensor(parse *p, const char *what, np_gguf_tensor *t)
{
    const bool listed = np_gguf_tensor_type(t->type) != NULL;
    const int64_t row = t->shape[t->n_dims - 1], block = listed ? tensor_types[t->type].elements : 1;
    t->dtype = listed ? (neap_dtype)tensor_types[t->type].dtype : (neap_dtype)NONE;
    if (row % block != 0)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s: %s: rows of %" PRId64 " elements are no multiple of %s's block of %" PRId64,
                       p->name, what, row, tensor_types[t->type].name, block);
    uint64_t n = (uint64_t)(row / block);
    bool fits = np_mul_size(n, listed ? (uint64_t)tensor_types[t->type].bytes : 0, &n);
    uint64_t elements = 1;
    for (int i = 0; i < t->n_dims; i++) {
        if (i < t->n_dims - 1)
            fits = fits && np_mul_size(n, (uint64_t)t->shape[i], &n);
        fits = fits && np_mul_size(elements, (uint64_t)t->shape[i], &elements);
    }
    if (!fits || n > INT64_MAX || elements > INT64_MAX)
        return np_fail(p->ctx, NEAP_EFORMAT, "%s: %s: its size overflows 64 bits", p->name, what);
    t->bytes = n;
    return NEAP_OK;
}

static neap_status take_dims(parse *p, const char *what, np_gguf_tensor *t)
{
    uint32_t n_dims;
    neap_status s = take_u32(p, what, &n_dims);
    if (s != NEAP_OK)
        return s;
    if (n_dims < 1 || n_dims > 4)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s: %s: %" PRIu32 " dimensions before offset %" PRIu64
                       ", there may be 1 to 4",
                       p->name, what, n_dims, np_reader_offset(&p->r));
    t->n_dims = (int)n_dims;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        uint64_t ne;
        if ((s = take_u64(p, what, &ne)) != NEAP_OK)
            return s;
        if (ne > INT64_MAX)
            return np_fail(p->ctx, NEAP_EFORMAT,
                           "%s: %s: a dimension of %" PRIu64 " before offset %" PRIu64, p->name,
                           what, ne, np_reader_offset(&p->r));
        t->shape[i] = (int64_t)ne;
    }
    return NEAP_OK;
}

/* One tensor's entry. `offset` is relative to the data section, whose place is not known yet. */
static neap_status take_tensor(parse *p, uint64_t index, np_gguf_tensor *t, uint64_t *offset)
{
    char what[NP_SHOWN_NAME + 32];
    snprintf(what, sizeof what, "tensor entry %" PRIu64, index);
    neap_status s = take_string(p, what, &t->name);
    if (s != NEAP_OK)
        return s;
    if (t->name.n == 0)
        return np_fail(p->ctx, NEAP_EFORMAT, "%s: %s: empty name before offset %" PRIu64, p->name,
                       what, np_reader_offset(&p->r));
    snprintf(what, sizeof what, "tensor '%s'", np_show(t->name).text);
    if ((s = take_dims(p, what, t)) != NEAP_OK || (s = take_u32(p, what, &t->type)) != NEAP_OK)
        return s;
    if ((s = measure_tensor(p, what, t)) != NEAP_OK || (s = take_u64(p, what, offset)) != NEAP_OK)
        return s;
    if (*offset % p->alignment != 0)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s: %s: offset %" PRIu64 " is no multiple of the alignment %" PRIu32,
                       p->name, what, *offset, p->alignment);
    return NEAP_OK;
}

/* Turns the offset into a pointer if all of the tensor's bytes are there. */
static neap_status place_tensor(parse *p, np_gguf_tensor *t, uint64_t offset)
{
    const uint64_t file = (uint64_t)(p->r.end - p->r.start);
    uint64_t begin, end;
    if (!np_add_size(p->data_start, offset, &begin) || !np_add_size(begin, t->bytes, &end) ||
        end > file)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s: tensor '%s': data beyond file: %" PRIu64 " bytes at offset %" PRIu64
                       " of the data that starts at %" PRIu64 ", the file has %" PRIu64,
                       p->name, np_show(t->name).text, t->bytes, offset, p->data_start, file);
    t->data = p->r.start + begin;
    return NEAP_OK;
}

/* ---- header ------------------------------------------------------------------------------- */

static neap_status take_head(parse *p, uint32_t *version, uint64_t *n_tensors, uint64_t *n_values)
{
    np_bytes magic;
    neap_status s;
    if ((s = take(p, "magic", 4, &magic)) != NEAP_OK)
        return s;
    if (memcmp(magic.p, "GGUF", 4) != 0)
        return np_fail(p->ctx, NEAP_EFORMAT, "%s: not a GGUF file: it starts with '%s'", p->name,
                       np_show(magic).text);
    if ((s = take_u32(p, "version", version)) != NEAP_OK)
        return s;
    if (*version == __builtin_bswap32(2) || *version == __builtin_bswap32(3))
        return np_fail(p->ctx, NEAP_EUNSUPPORTED,
                       "%s: a big-endian GGUF file (version field 0x%08" PRIx32 ")", p->name,
                       *version);
    if (*version != 2 && *version != 3)
        return np_fail(p->ctx, NEAP_EUNSUPPORTED,
                       "%s: GGUF version %" PRIu32 " is not supported, only 2 and 3 are", p->name,
                       *version);
    if ((s = take_u64(p, "tensor count", n_tensors)) != NEAP_OK ||
        (s = take_u64(p, "metadata count", n_values)) != NEAP_OK)
        return s;
    if (*n_tensors > UINT32_MAX || *n_values > UINT32_MAX)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s: %" PRIu64 " tensors and %" PRIu64
                       " metadata entries at offset 8, the limit is %" PRIu32 " each",
                       p->name, *n_tensors, *n_values, UINT32_MAX);
    return NEAP_OK;
}

static int64_t integer_of(np_gguf_type type, const uint8_t *p)
{
#define NP_GGUF_LOAD(ctype)                                                                        \
    do {                                                                                           \
        ctype v;                                                                                   \
        memcpy(&v, p, sizeof v);                                                                   \
        return (int64_t)v;                                                                         \
    } while (0)
    switch (type) {
    case NP_GGUF_U8:
    case NP_GGUF_BOOL: NP_GGUF_LOAD(uint8_t);
    case NP_GGUF_I8: NP_GGUF_LOAD(int8_t);
    case NP_GGUF_U16: NP_GGUF_LOAD(uint16_t);
    case NP_GGUF_I16: NP_GGUF_LOAD(int16_t);
    case NP_GGUF_U32: NP_GGUF_LOAD(uint32_t);
    case NP_GGUF_I32: NP_GGUF_LOAD(int32_t);
    case NP_GGUF_U64: NP_GGUF_LOAD(uint64_t);
    case NP_GGUF_I64: NP_GGUF_LOAD(int64_t);
    default: assert(!"not an integer type"); return 0;
    }
#undef NP_GGUF_LOAD
}

static bool is_integer(np_gguf_type type)
{
    return type <= NP_GGUF_I32 || type == NP_GGUF_U64 || type == NP_GGUF_I64;
}

static neap_status check_alignment(parse *p, const np_gguf_value *v)
{
    if (v->is_array || !is_integer(v->type))
        return np_fail(p->ctx, NEAP_EFORMAT, "%s: key 'general.alignment' is %s%s, wanted u32",
                       p->name, v->is_array ? "an array of " : "", np_gguf_type_name(v->type));
    const int64_t a = integer_of(v->type, v->data.p);
    if (a < LEAST_ALIGNMENT || a > UINT32_MAX || (a & (a - 1)) != 0)
        return np_fail(p->ctx, NEAP_EFORMAT,
                       "%s: key 'general.alignment' is %" PRId64
                       ", wanted a power of two of at least %d",
                       p->name, a, LEAST_ALIGNMENT);
    p->alignment = (uint32_t)a;
    return NEAP_OK;
}

/* Walks all entries: checks them and, where there are tables, fills those. */
static neap_status walk(parse *p, uint64_t n_values, uint64_t n_tensors, np_gguf_value *values,
                        np_gguf_tensor *tensors)
{
    neap_status s;
    for (uint64_t i = 0; i < n_values; i++) {
        np_gguf_value one, *v = values ? values + i : &one;
        if (i % 256 == 0 && np_check(p->ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        if ((s = take_value(p, i, v)) != NEAP_OK)
            return s;
        if (np_bytes_equal(v->key, "general.alignment") &&
            (s = check_alignment(p, v)) != NEAP_OK)
            return s;
    }
    for (uint64_t i = 0; i < n_tensors; i++) {
        np_gguf_tensor one, *t = tensors ? tensors + i : &one;
        uint64_t offset;
        if (i % 256 == 0 && np_check(p->ctx) != NEAP_OK)
            return NEAP_ECANCELLED;
        if ((s = take_tensor(p, i, t, &offset)) != NEAP_OK ||
            (tensors && (s = place_tensor(p, t, offset)) != NEAP_OK))
            return s;
    }
    return NEAP_OK;
}

/* ---- sorted indices ----------------------------------------------------------------------- */

static int compare_bytes(np_bytes a, np_bytes b)
{
    const size_t n = (size_t)(a.n < b.n ? a.n : b.n);
    const int c = memcmp(a.p, b.p, n);
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

typedef int (*compare)(const np_gguf *g, uint32_t a, uint32_t b);

static int by_key(const np_gguf *g, uint32_t a, uint32_t b)
{
    return compare_bytes(g->values[a].key, g->values[b].key);
}

static int by_name(const np_gguf *g, uint32_t a, uint32_t b)
{
    return compare_bytes(g->tensors[a].name, g->tensors[b].name);
}

static int by_place(const np_gguf *g, uint32_t a, uint32_t b)
{
    const uint8_t *p = g->tensors[a].data, *q = g->tensors[b].data;
    return (p > q) - (p < q);
}

typedef struct ordering {
    const np_gguf *g;
    compare compare;
} ordering;

static bool index_before(ordering o, const uint32_t *a, const uint32_t *b)
{
    return o.compare(o.g, *a, *b) < 0;
}

NP_HEAP_SORT(sort_index, uint32_t, ordering, index_before)

static void sort(const np_gguf *g, uint32_t *index, size_t n, compare order)
{
    for (size_t i = 0; i < n; i++)
        index[i] = (uint32_t)i;
    sort_index((ordering){g, order}, index, n);
}

static neap_status index_values(const np_gguf *g, uint32_t *index)
{
    sort(g, index, g->n_values, by_key);
    for (uint32_t i = 1; i < g->n_values; i++)
        if (by_key(g, index[i - 1], index[i]) == 0)
            return np_fail(g->ctx, NEAP_EFORMAT, "%s: key '%s' appears twice", g->name,
                           np_show(g->values[index[i]].key).text);
    return NEAP_OK;
}

/* The index serves twice: sorted by place to find overlaps, then by name for good. */
static neap_status index_tensors(const np_gguf *g, uint32_t *index)
{
    sort(g, index, g->n_tensors, by_place);
    const np_gguf_tensor *last = NULL; /* that is not empty: an empty one may lie anywhere */
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const np_gguf_tensor *t = g->tensors + index[i];
        if (t->bytes == 0)
            continue;
        if (last && (const uint8_t *)last->data + last->bytes > (const uint8_t *)t->data)
            return np_fail(g->ctx, NEAP_EFORMAT, "%s: tensors '%s' and '%s' overlap", g->name,
                           np_show(last->name).text, np_show(t->name).text);
        last = t;
    }
    sort(g, index, g->n_tensors, by_name);
    for (uint32_t i = 1; i < g->n_tensors; i++)
        if (by_name(g, index[i - 1], index[i]) == 0)
            return np_fail(g->ctx, NEAP_EFORMAT, "%s: tensor '%s' appears twice", g->name,
                           np_show(g->tensors[index[i]].name).text);
    return NEAP_OK;
}

/* ---- opening ------------------------------------------------------------------------------ */

/* One block holds the struct, both tables, both indices and the name. */
static np_gguf *allocate(parse *p, uint64_t n_values, uint64_t n_tensors)
{
    const size_t v = sizeof(np_gguf), t = v + (size_t)n_values * sizeof(np_gguf_value),
                 by_v = t + (size_t)n_tensors * sizeof(np_gguf_tensor),
                 by_t = by_v + (size_t)n_values * sizeof(uint32_t),
                 name = by_t + (size_t)n_tensors * sizeof(uint32_t),
                 total = name + strlen(p->name) + 1;
    char *block = np_alloc(p->ctx, NEAP_MEM_HOST, total);
    if (!block)
        return NULL;
    strcpy(block + name, p->name);
    np_gguf *g = (np_gguf *)(void *)block;
    *g = (np_gguf){
        .ctx = p->ctx,
        .name = block + name,
        .alignment = p->alignment,
        .file_bytes = (uint64_t)(p->r.end - p->r.start),
        .data_start = p->data_start,
        .n_values = (uint32_t)n_values,
        .n_tensors = (uint32_t)n_tensors,
        .values = (np_gguf_value *)(void *)(block + v),
        .tensors = (np_gguf_tensor *)(void *)(block + t),
        .values_by_key = (uint32_t *)(void *)(block + by_v),
        .tensors_by_name = (uint32_t *)(void *)(block + by_t),
        .allocated = total,
    };
    return g;
}

neap_status np_gguf_parse(neap_context *ctx, const void *data, uint64_t bytes, const char *name,
                          np_gguf **out)
{
    *out = NULL;
    if ((uintptr_t)data % LEAST_ALIGNMENT != 0)
        return np_fail(ctx, NEAP_EINVAL, "%s: its bytes are not aligned to %d", name,
                       LEAST_ALIGNMENT);
    parse p = {ctx, name, np_reader_over(data, bytes), DEFAULT_ALIGNMENT, 0};
    uint32_t version;
    uint64_t n_values, n_tensors;
    neap_status s = take_head(&p, &version, &n_tensors, &n_values);
    const np_reader entries = p.r;
    if (s != NEAP_OK || (s = walk(&p, n_values, n_tensors, NULL, NULL)) != NEAP_OK)
        return s;
    const uint64_t mask = p.alignment - 1;
    p.data_start = (np_reader_offset(&p.r) + mask) & ~mask;

    np_gguf *g = allocate(&p, n_values, n_tensors);
    if (!g)
        return NEAP_ENOMEM;
    g->version = version;
    p.r = entries;
    /* The tables are const to everyone but this function. */
    if ((s = walk(&p, n_values, n_tensors, (np_gguf_value *)(uintptr_t)g->values,
                  (np_gguf_tensor *)(uintptr_t)g->tensors)) != NEAP_OK ||
        (s = index_values(g, (uint32_t *)(uintptr_t)g->values_by_key)) != NEAP_OK ||
        (s = index_tensors(g, (uint32_t *)(uintptr_t)g->tensors_by_name)) != NEAP_OK) {
        np_gguf_free(g);
        return s;
    }
    *out = g;
    return NEAP_OK;
}

neap_status np_gguf_check_types(const np_gguf *g)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const np_gguf_tensor *t = g->tensors + i;
        const char *type = np_gguf_tensor_type(t->type);
        if (!type)
            return np_fail(g->ctx, NEAP_EFORMAT, "%s: tensor '%s': unknown type id %" PRIu32, g->name,
                           np_show(t->name).text, t->type);
        if ((int)t->dtype == NP_GGUF_NO_DTYPE)
            return np_fail(g->ctx, NEAP_EUNSUPPORTED,
                           "%s: tensor '%s': unsupported type %s (id %" PRIu32 ")", g->name,
                           np_show(t->name).text, type, t->type);
    }
    return NEAP_OK;
}

void np_gguf_free(np_gguf *g)
{
    if (g)
        np_free(g->ctx, NEAP_MEM_HOST, g, g->allocated);
}

/* ---- lookups ------------------------------------------------------------------------------ */

/* Both tables' entries begin with their name: the place of `text` in a table, -1 when absent. */
static int64_t find(const void *table, size_t stride, const uint32_t *sorted, uint32_t n,
                    const char *text)
{
    const np_bytes want = {(const uint8_t *)text, strlen(text)};
    for (uint32_t low = 0, high = n; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        np_bytes name;
        memcpy(&name, (const char *)table + sorted[middle] * stride, sizeof name);
        const int c = compare_bytes(want, name);
        if (c == 0)
            return sorted[middle];
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

_Static_assert(offsetof(np_gguf_value, key) == 0 && offsetof(np_gguf_tensor, name) == 0,
               "find() takes the name from the front of an entry");

const np_gguf_value *np_gguf_find(const np_gguf *g, const char *key)
{
    const int64_t i = find(g->values, sizeof *g->values, g->values_by_key, g->n_values, key);
    return i < 0 ? NULL : g->values + i;
}

const np_gguf_tensor *np_gguf_find_tensor(const np_gguf *g, const char *name)
{
    const int64_t i = find(g->tensors, sizeof *g->tensors, g->tensors_by_name, g->n_tensors, name);
    return i < 0 ? NULL : g->tensors + i;
}

static neap_status look_up(const np_gguf *g, const char *key, np_gguf_need need, const char *wanted,
                           const np_gguf_value **out)
{
    *out = np_gguf_find(g, key);
    if (*out || need == NP_GGUF_OPTIONAL)
        return NEAP_OK;
    return np_fail(g->ctx, NEAP_EFORMAT, "%s: key '%s' is missing (wanted: %s)", g->name, key,
                   wanted);
}

static neap_status wrong_type(const np_gguf *g, const np_gguf_value *v, const char *wanted)
{
    return np_fail(g->ctx, NEAP_EFORMAT, "%s: key '%s' is %s%s, wanted %s", g->name,
                   np_show(v->key).text, v->is_array ? "an array of " : "", np_gguf_type_name(v->type),
                   wanted);
}

neap_status np_gguf_u32(const np_gguf *g, const char *key, np_gguf_need need, uint32_t *out)
{
    const np_gguf_value *v;
    neap_status s = look_up(g, key, need, "an integer", &v);
    if (s != NEAP_OK || !v)
        return s;
    if (v->is_array || !is_integer(v->type))
        return wrong_type(g, v, "an integer");
    const int64_t n = integer_of(v->type, v->data.p);
    if (n < 0 || n > UINT32_MAX) {
        if (v->type == NP_GGUF_U64)
            return np_fail(g->ctx, NEAP_EFORMAT,
                           "%s: key '%s' is %" PRIu64 ", wanted 0 to %" PRIu32, g->name, key,
                           (uint64_t)n, UINT32_MAX);
        return np_fail(g->ctx, NEAP_EFORMAT, "%s: key '%s' is %" PRId64 ", wanted 0 to %" PRIu32,
                       g->name, key, n, UINT32_MAX);
    }
    *out = (uint32_t)n;
    return NEAP_OK;
}

static double float_of(np_gguf_type type, const uint8_t *p)
{
    float f;
    double d;
    if (type == NP_GGUF_F32) {
        memcpy(&f, p, sizeof f);
        return f;
    }
    assert(type == NP_GGUF_F64);
    memcpy(&d, p, sizeof d);
    return d;
}

neap_status np_gguf_f32(const np_gguf *g, const char *key, np_gguf_need need, float *out)
{
    const np_gguf_value *v;
    neap_status s = look_up(g, key, need, "f32", &v);
    if (s != NEAP_OK || !v)
        return s;
    if (v->is_array || (v->type != NP_GGUF_F32 && v->type != NP_GGUF_F64))
        return wrong_type(g, v, "f32 or f64");
    const double d = float_of(v->type, v->data.p);
    if (!(fabs(d) <= FLT_MAX)) /* a NaN fails too */
        return np_fail(g->ctx, NEAP_EFORMAT, "%s: key '%s' is %g, wanted a finite f32", g->name,
                       key, d);
    *out = (float)d;
    return NEAP_OK;
}

neap_status np_gguf_bool(const np_gguf *g, const char *key, np_gguf_need need, bool *out)
{
    const np_gguf_value *v;
    neap_status s = look_up(g, key, need, "bool", &v);
    if (s != NEAP_OK || !v)
        return s;
    if (v->is_array || v->type != NP_GGUF_BOOL)
        return wrong_type(g, v, "bool");
    *out = *v->data.p != 0;
    return NEAP_OK;
}

bool np_gguf_number(const np_gguf_value *v, double *out)
{
    if (v->is_array || (!is_integer(v->type) && v->type != NP_GGUF_BOOL && v->type != NP_GGUF_F32 &&
                        v->type != NP_GGUF_F64))
        return false;
    const bool real = v->type == NP_GGUF_F32 || v->type == NP_GGUF_F64;
    *out = real ? float_of(v->type, v->data.p) : (double)integer_of(v->type, v->data.p);
    return true;
}

neap_status np_gguf_string(const np_gguf *g, const char *key, np_gguf_need need, np_bytes *out)
{
    const np_gguf_value *v;
    neap_status s = look_up(g, key, need, "string", &v);
    if (s != NEAP_OK || !v)
        return s;
    if (v->is_array || v->type != NP_GGUF_STRING)
        return wrong_type(g, v, "string");
    *out = v->data;
    return NEAP_OK;
}

neap_status np_gguf_array(const np_gguf *g, const char *key, np_gguf_type type, np_gguf_need need,
                          const np_gguf_value **out)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "an array of %s", np_gguf_type_name(type));
    const np_gguf_value *v;
    neap_status s = look_up(g, key, need, wanted, &v);
    if (s != NEAP_OK || !v)
        return s;
    if (!v->is_array || v->type != type)
        return wrong_type(g, v, wanted);
    *out = v;
    return NEAP_OK;
}

int64_t np_gguf_element_i64(const np_gguf_value *array, uint64_t i)
{
    assert(i < array->count);
    return integer_of(array->type, array->data.p + i * value_types[array->type].bytes);
}

float np_gguf_element_f32(const np_gguf_value *array, uint64_t i)
{
    assert(i < array->count);
    return (float)float_of(array->type, array->data.p + i * value_types[array->type].bytes);
}

np_gguf_strings np_gguf_strings_of(const np_gguf_value *array)
{
    assert(array->is_array && array->type == NP_GGUF_STRING);
    return (np_gguf_strings){np_reader_over(array->data.p, array->data.n), array->count};
}

bool np_gguf_strings_next(np_gguf_strings *it, np_bytes *out)
{
    uint64_t n;
    if (it->left == 0)
        return false;
    it->left--;
    return np_read_u64(&it->reader, &n) && np_read_bytes(&it->reader, n, out);
}
