/* ops_case_reader.h - reads a row of tests/ops_cases.def into arrays, and its expected result from
 * tests/golden/ops.bin (tools/make_op_goldens.py has the same rules for inputs). */
#ifndef OPS_CASE_READER_H
#define OPS_CASE_READER_H

#include "ops_fixture.h"

enum { MAX_INPUTS = 6 };

static neap_dtype dtype_named(const char *name, size_t n)
{
    for (int d = 0; d < NEAP_DTYPE_SPAN; d++) {
        const char *text = neap_dtype_describe((neap_dtype)d)->name;
        if (text && strlen(text) == n && memcmp(text, name, n) == 0)
            return (neap_dtype)d;
    }
    return (neap_dtype)atoi(name);
}

/* ---- goldens ----------------------------------------------------------------------------------
 */

typedef struct golden {
    neap_dtype dtype;
    int rank;
    int64_t shape[NEAP_MAX_RANK];
    const uint8_t *data; /* floats of any kind as f32; may be unaligned */
    long bytes;
} golden;

static char *golden_text;
static const uint8_t *golden_data;

static int open_goldens(void **state)
{
    (void)state;
    FILE *f = fopen(NEAP_TEST_DIR "/golden/ops.bin", "rb");
    golden_text = malloc(1 << 23);
    if (!f || !golden_text)
        return -1;
    size_t n = fread(golden_text, 1, (1 << 23) - 1, f);
    fclose(f);
    golden_text[n] = 0;
    char *end = strstr(golden_text, "\n\n"); /* no text of the index has an empty line */
    if (!end)
        return -1;
    end[1] = 0;
    golden_data = (const uint8_t *)end + 2;
    return 0;
}

static int close_goldens(void **state)
{
    (void)state;
    free(golden_text);
    return 0;
}

static golden find_golden(const char *name)
{
    char key[200];
    golden g = {0};
    int n = snprintf(key, sizeof key, "\n%s\t", name);
    const char *at = strstr(golden_text, key);
    if (!at && strncmp(golden_text, key + 1, (size_t)n - 1) == 0)
        at = golden_text - 1;
    if (!at)
        fail_msg("no golden %s: run tools/make_op_goldens.py", name);
    char *p = (char *)(uintptr_t)at + n;
    size_t length = strcspn(p, " ");
    g.dtype = dtype_named(p, length);
    p += length;
    g.rank = (int)strtol(p, &p, 10);
    for (int d = 0; d < g.rank; d++)
        g.shape[d] = strtol(p, &p, 10);
    g.data = golden_data + strtol(p, &p, 10);
    g.bytes = strtol(p, &p, 10);
    return g;
}

/* ---- parameters: "axis=1 keep=1" ----------------------------------------------------------------
 */

static const char *parameter(const char *params, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = params; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL)
        if (strncmp(p, key, n) == 0 && p[n] == '=')
            return p + n + 1;
    return NULL;
}

static double number(const char *params, const char *key, double otherwise)
{
    const char *p = parameter(params, key);
    return p ? strtod(p, NULL) : otherwise;
}

static int whole(const char *params, const char *key)
{
    return (int)number(params, key, 0);
}

/* "1,END,-2"; how many. 0: none. */
static int list(const char *params, const char *key, int64_t *out)
{
    const char *p = parameter(params, key);
    int n = 0;
    while (p && *p && *p != ' ' && n < 10) {
        char *end = (char *)(uintptr_t)p + 3;
        out[n++] = strncmp(p, "END", 3) == 0 ? NEAP_END : strtoll(p, &end, 10);
        p = *end == ',' ? end + 1 : NULL;
    }
    return n;
}

/* ---- inputs -----------------------------------------------------------------------------------
 */

static uint32_t hashed(uint32_t i, uint32_t seed)
{
    uint32_t u = i * 2654435761u + (seed + 1) * 2246822519u + 374761393u;
    u ^= u >> 15;
    u *= 2654435769u;
    return u ^ u >> 13;
}

static double element(uint32_t i, uint32_t k, const char *fill, neap_dtype dtype)
{
    uint32_t u = hashed(i, k);
    double low = -4, high = 4;
    if (fill && *fill == 'Q') {
        int q = i % 32 == 5 ? 127 : (int)(u % 255) - 127;
        return ldexp(q, -(4 + (int)(i / 32 % 3)));
    }
    if (dtype == NEAP_BOOL)
        return u & 1;
    bool is_unsigned = dtype == NEAP_U8 || dtype == NEAP_U32;
    if (!np_is_float(dtype)) {
        low = is_unsigned ? 0 : -90;
        high = is_unsigned ? 200 : 90;
    }
    if (fill) {
        char *end;
        low = strtod(fill, &end);
        high = strtod(end + 1, NULL);
    }
    if (np_is_float(dtype))
        return low + (high - low) * ((double)(u >> 24) / 256.0);
    if (is_unsigned && low < 0) {
        high -= low;
        low = 0;
    }
    return low + u % (uint32_t)(high - low + 1);
}

static void fill_data(neap_dtype dtype, void *data, int64_t n, uint32_t k, const char *fill)
{
    double values[32];
    int count = 0;
    for (const char *p = fill && *fill == '=' ? fill + 1 : NULL; p && count < 32;) {
        char *end;
        values[count++] = strtod(p, &end);
        p = *end == ',' ? end + 1 : NULL;
    }
    for (int64_t i = 0; i < n; i++)
        store(dtype, data, i, count ? values[i % count] : element((uint32_t)i, k, fill, dtype));
}

static neap_array *apply_view(neap_array *x, char kind, const int64_t *n, int count)
{
    int64_t start[8], stop[8], step[8];
    for (int d = 0; d < 8; d++) {
        start[d] = stop[d] = NEAP_END;
        step[d] = 1;
    }
    switch (kind) {
    case 't': return neap_transpose(x, NULL);
    case 'b': return neap_broadcast_to(x, count, n);
    case 'r': step[n[0]] = -1; break;
    case 's': step[n[0]] = n[1]; break;
    default: start[n[0]] = n[1]; stop[n[0]] = n[2]; break;
    }
    return neap_slice(x, start, stop, step);
}

/* One input, "dtype:shape{fill}|view|view"; *text moves behind it. */
static neap_array *parse_input(const char **text, uint32_t k, neap_dtype dtype)
{
    static _Alignas(64) uint8_t data[MAX_ELEMENTS * 8];
    const char *p = *text, *colon = strpbrk(p, ": {|");
    int64_t shape[8], n[8];
    int rank = 0;
    if (colon && *colon == ':') {
        dtype = dtype_named(p, (size_t)(colon - p));
        p = colon + 1;
    }
    for (p += *p == '-'; *p >= '0' && *p <= '9'; p += *p == 'x') {
        char *end;
        shape[rank++] = strtol(p, &end, 10);
        p = end;
    }
    const char *fill = *p == '{' ? p + 1 : NULL;
    fill_data(dtype, data, np_size(rank, shape), k, fill);
    if (fill)
        p = strchr(p, '}') + 1;
    neap_array *x = neap_array_from(dtype, rank, shape, data);
    while (*p == '|') {
        char kind = p[1];
        int count = 0;
        for (p += 2; *p >= '0' && *p <= '9'; p += *p == 'x' || *p == ':') {
            char *end;
            n[count++] = strtol(p, &end, 10);
            p = end;
        }
        x = apply_view(x, kind, n, count);
    }
    *text = *p == ' ' ? p + 1 : p;
    return x;
}

static int parse_inputs(const char *text, neap_dtype dtype, neap_array **in)
{
    int n = 0;
    while (*text && n < MAX_INPUTS) {
        in[n] = parse_input(&text, (uint32_t)n, dtype);
        n++;
    }
    return n;
}

/* ---- comparing ---------------------------------------------------------------------------------
 */

/* One rounding of a 16-bit dtype, relative; its smallest step, absolute. */
static double unit_of(neap_dtype dtype)
{
    return dtype == NEAP_F16 ? 0x1p-11 : dtype == NEAP_BF16 ? 0x1p-8 : 0;
}

static void compare(const char *name, neap_array *got, const golden *want, double tolerance)
{
    static _Alignas(64) uint8_t data[MAX_ELEMENTS * 8];
    assert_non_null(got);
    neap_dtype dtype = neap_array_dtype(got);
    if (dtype != want->dtype || neap_array_rank(got) != want->rank ||
        memcmp(neap_array_shape(got), want->shape, (size_t)want->rank * 8) != 0) {
        char text[NP_SHAPE_TEXT];
        fail_msg("%s: %s is not the expected dtype and shape", name, np_shape_text(got, text));
    }
    assert_int_equal(neap_array_read(got, data, neap_array_bytes(got)), NEAP_OK);
    bool is_float = np_is_float(dtype);
    int64_t n = neap_array_size(got);
    double largest = 0;
    float w;
    for (int64_t i = 0; i < n && is_float; i++) {
        memcpy(&w, want->data + 4 * i, 4);
        largest = isfinite(w) && fabs((double)w) > largest ? fabs((double)w) : largest;
    }
    if (!is_float) {
        if (memcmp(data, want->data, (size_t)want->bytes) != 0)
            fail_msg("%s: integers differ", name);
        return;
    }
    double step = dtype == NEAP_F16 ? 0x1p-25 : 0;
    for (int64_t i = 0; i < n; i++) {
        double g = load(dtype, data, i);
        memcpy(&w, want->data + 4 * i, 4);
        double limit = tolerance * largest + unit_of(dtype) * fabs((double)w) * 1.001 + step;
        if (isnan(w) ? !isnan(g) : g != (double)w && !(fabs(g - (double)w) <= limit))
            fail_msg("%s: element %lld is %.9g, expected %.9g +- %.3g", name, (long long)i, g,
                     (double)w, limit);
    }
}

#endif
