/* kernel_fixture.h - what the tests of span and row kernels share: the tables of
 * tests/golden/kernels.bin (NumPy; tools/make_kernel_goldens.py), an independent rounding to each
 * float type, and distances in units of the last place. */
#ifndef KERNEL_FIXTURE_H
#define KERNEL_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu/kernels.h"

static uint8_t *golden_bytes;
static size_t golden_size;

typedef struct golden {
    const void *data; /* packed: copy before use */
    uint32_t count, bytes;
} golden;

static inline int golden_open(void **state)
{
    (void)state;
    FILE *f = fopen(NEAP_TEST_DIR "/golden/kernels.bin", "rb");
    if (!f)
        return -1;
    golden_bytes = malloc(1 << 20);
    golden_size = golden_bytes ? fread(golden_bytes, 1, 1 << 20, f) : 0;
    fclose(f);
    return golden_size > 8 && memcmp(golden_bytes, "NKGT", 4) == 0 ? 0 : -1;
}

static inline int golden_close(void **state)
{
    (void)state;
    free(golden_bytes);
    return 0;
}

static inline golden golden_find(const char *op, neap_dtype dtype)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", op, neap_dtype_describe(dtype)->name);
    for (size_t at = 8; at + 32 <= golden_size;) {
        golden g = {golden_bytes + at + 32, 0, 0};
        memcpy(&g.count, golden_bytes + at + 24, 4);
        memcpy(&g.bytes, golden_bytes + at + 28, 4);
        if (strncmp((const char *)golden_bytes + at, name, 24) == 0)
            return g;
        at += 32 + (size_t)g.count * g.bytes;
    }
    fail_msg("no golden %s", name);
    return (golden){NULL, 0, 0};
}

static inline size_t size_of(neap_dtype dtype)
{
    return (size_t)neap_dtype_describe(dtype)->block_bytes;
}

static const neap_dtype float_types[] __attribute__((unused)) = {NEAP_F32, NEAP_F16, NEAP_BF16};

/* One element as a number; int64 and every float are exact in long double. */
static inline long double element(neap_dtype dtype, const void *p, int64_t i)
{
    uint8_t t[8];
    memcpy(t, (const uint8_t *)p + (size_t)i * size_of(dtype), size_of(dtype));
    uint16_t h;
    uint32_t u;
    int32_t s;
    int64_t l;
    float f;
    memcpy(&h, t, 2), memcpy(&u, t, 4), memcpy(&s, t, 4), memcpy(&l, t, 8), memcpy(&f, t, 4);
    switch (dtype) {
    case NEAP_BOOL: return t[0] != 0;
    case NEAP_U8: return t[0];
    case NEAP_I8: return (int8_t)t[0];
    case NEAP_I16: return (int16_t)h;
    case NEAP_I32: return s;
    case NEAP_U32: return u;
    case NEAP_I64: return (long double)l;
    case NEAP_F32: return (long double)f;
    case NEAP_BF16:
        u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
        return (long double)f;
    default: /* f16 */
        if ((h & 0x7fff) > 0x7c00)
            return (long double)NAN;
        if ((h & 0x7c00) == 0x7c00)
            return (long double)(h & 0x8000 ? -INFINITY : INFINITY);
        f = h & 0x7c00 ? ldexpf((float)(1024 + (h & 1023)), (h >> 10 & 31) - 25)
                       : ldexpf((float)(h & 1023), -24);
        return (long double)(h & 0x8000 ? -f : f);
    }
}

/* To `digits` binary digits, exponents from `lowest` (of the first digit), nearest even. */
static inline long double round_digits(long double v, int digits, int lowest, long double largest)
{
    if (isnan(v) || isinf(v) || v == 0)
        return v;
    int e;
    frexpl(v, &e);
    e = (e - 1 < lowest ? lowest : e - 1) - (digits - 1);
    long double r = ldexpl(rintl(ldexpl(v, -e)), e);
    return fabsl(r) > largest ? copysignl((long double)INFINITY, v) : r;
}

static inline long double rounded(neap_dtype dtype, long double v)
{
    switch (dtype) {
    case NEAP_F32: return round_digits(v, 24, -126, 0x1.fffffep127L);
    case NEAP_F16: return round_digits(v, 11, -14, 65504.0L);
    case NEAP_BF16: return round_digits(v, 8, -126, 0x1.fep127L);
    default: return v;
    }
}

/* |got - want| in units of the last place of `want`; 0 for two NaN; huge if only one is special. */
static inline double units_off(neap_dtype dtype, long double got, long double want)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : 1e30;
    long double w = rounded(dtype, want);
    if (got == w)
        return 0;
    if (isinf(got) || isinf(w))
        return 1e30;
    int digits = dtype == NEAP_F32 ? 24 : dtype == NEAP_F16 ? 11 : 8;
    int lowest = dtype == NEAP_F16 ? -14 : -126, e = lowest + 1;
    if (want != 0)
        frexpl(want, &e);
    e = (e - 1 < lowest ? lowest : e - 1) - (digits - 1);
    return (double)ldexpl(fabsl(got - want), -e);
}

/* A fixed sequence of numbers. */
static inline uint32_t noise(uint64_t i)
{
    i = (i + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    i = (i ^ i >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(i >> 31);
}

#endif
