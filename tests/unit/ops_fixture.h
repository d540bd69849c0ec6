/* ops_fixture.h - what the tests of ops share: numbers of every dtype independent of the library,
 * and checks of arrays in a context that is opened for each test. */
#ifndef OPS_FIXTURE_H
#define OPS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "cpu/kernels.h"
#include "neap/ops.h"
#include "neap/plan.h"

enum { MAX_ELEMENTS = 80000 };

/* ---- numbers, independent of the library -------------------------------------------------------
 */

static inline uint32_t float_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, 4);
    return u;
}

static inline float bits_float(uint32_t u)
{
    float v;
    memcpy(&v, &u, 4);
    return v;
}

static inline uint16_t to_bf16(float v)
{
    uint32_t u = float_bits(v);
    return isnan(v) ? 0x7fc0 : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* By scaling: the mantissa in units of the last place, rounded to even by nearbyint. */
static inline uint16_t to_f16(float v)
{
    uint16_t sign = (uint16_t)(float_bits(v) >> 16 & 0x8000);
    double a = fabs((double)v);
    if (isnan(v))
        return 0x7e00;
    if (a >= 65520)
        return sign | 0x7c00;
    int e;
    frexp(a, &e);
    int unit = e - 11 < -24 ? -24 : e - 11;
    double n = nearbyint(ldexp(a, -unit));
    if (n >= 2048) {
        n /= 2;
        unit++;
    }
    return sign | (uint16_t)(n < 1024 ? n : n - 1024 + (double)((unit + 25) << 10));
}

static inline float from_f16(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    float a = e == 31 ? (m ? NAN : INFINITY)
              : e     ? ldexpf((float)(m + 1024), e - 25)
                      : ldexpf((float)m, -24);
    return h & 0x8000 ? -a : a;
}

static inline double load(neap_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case NEAP_F32: return ((const float *)data)[i];
    case NEAP_F16: return from_f16(((const uint16_t *)data)[i]);
    case NEAP_BF16: return bits_float((uint32_t)((const uint16_t *)data)[i] << 16);
    case NEAP_I8: return ((const int8_t *)data)[i];
    case NEAP_I16: return ((const int16_t *)data)[i];
    case NEAP_I32: return ((const int32_t *)data)[i];
    case NEAP_U32: return ((const uint32_t *)data)[i];
    case NEAP_I64: return (double)((const int64_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
    }
}

static inline void store(neap_dtype dtype, void *data, int64_t i, double v)
{
    switch (dtype) {
    case NEAP_F32: ((float *)data)[i] = (float)v; break;
    case NEAP_F16: ((uint16_t *)data)[i] = to_f16((float)v); break;
    case NEAP_BF16: ((uint16_t *)data)[i] = to_bf16((float)v); break;
    case NEAP_I8: ((int8_t *)data)[i] = (int8_t)v; break;
    case NEAP_I16: ((int16_t *)data)[i] = (int16_t)v; break;
    case NEAP_I32: ((int32_t *)data)[i] = (int32_t)v; break;
    case NEAP_U32: ((uint32_t *)data)[i] = (uint32_t)v; break;
    case NEAP_I64: ((int64_t *)data)[i] = (int64_t)v; break;
    case NEAP_BOOL: ((uint8_t *)data)[i] = v != 0; break;
    default: ((uint8_t *)data)[i] = (uint8_t)v; break;
    }
}

static inline neap_context *open_context(const char *isa, int threads)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = threads;
    setenv("NEAP_ISA", isa, 1);
    assert_int_equal(neap_context_new(&o, &ctx), NEAP_OK);
    assert_string_equal(neap_context_isa(ctx), isa);
    return ctx;
}

/* ---- a context for each test -------------------------------------------------------------------
 */

static neap_context *ctx;

static inline int open_scope(void **state)
{
    ctx = open_context((*np_kernels_available())->isa, 2);
    (void)state;
    return neap_scope_push(ctx) == NEAP_OK ? 0 : -1;
}

static inline int close_scope(void **state)
{
    (void)state;
    neap_scope_pop(ctx);
    neap_context_free(ctx);
    return 0;
}

static inline neap_array *value(int rank, const int64_t *shape, const float *data)
{
    return neap_array_from(NEAP_F32, rank, shape, data);
}

static inline neap_array *vector(int64_t n, const float *data)
{
    return value(1, &n, data);
}

/* Values i * step + first. */
static inline neap_array *ramp(int rank, const int64_t *shape, double first, double step)
{
    int64_t n = np_size(rank, shape);
    return neap_reshape(neap_arange(first, first + step * ((double)n - 0.5), step, NEAP_F32), rank,
                        shape);
}

static inline void ready(neap_array *a)
{
    if (!a || neap_eval(a) != NEAP_OK)
        fail_msg("%s", neap_context_error(ctx));
}

static inline double at(neap_array *a, int64_t i)
{
    static _Alignas(8) uint8_t data[MAX_ELEMENTS * 8];
    if (!neap_array_is_value(a))
        ready(a);
    assert_int_equal(neap_array_read(a, data, neap_array_bytes(a)), NEAP_OK);
    return load(neap_array_dtype(a), data, i);
}

static inline void assert_all(neap_array *a, double want)
{
    ready(a);
    for (int64_t i = 0; i < neap_array_size(a); i++)
        assert_true(at(a, i) == want);
}

static inline void assert_floats(neap_array *a, int n, const float *want, double tolerance)
{
    ready(a);
    assert_int_equal(neap_array_size(a), n);
    for (int i = 0; i < n; i++)
        assert_float_equal(at(a, i), want[i], tolerance);
}

static inline void assert_refused(neap_array *a, neap_status status, const char *fragment)
{
    assert_null(a);
    if (neap_context_status(ctx) != status || !strstr(neap_context_error(ctx), fragment))
        fail_msg("%s: %s; expected %s: %s", neap_status_name(neap_context_status(ctx)),
                 neap_context_error(ctx), neap_status_name(status), fragment);
    neap_context_clear_error(ctx);
}

static inline void assert_same_bits(neap_array *a, neap_array *b)
{
    ready(a);
    ready(b);
    uint64_t n = neap_array_bytes(a);
    assert_int_equal(n, neap_array_bytes(b));
    void *x = malloc(n + 1), *y = malloc(n + 1);
    assert_int_equal(neap_array_read(a, x, n), NEAP_OK);
    assert_int_equal(neap_array_read(b, y, n), NEAP_OK);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

#endif
