/* value_text.c - an output of a program as a line of text, see tensor_file.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/tensor_file.h"

enum { FEW = 8 };

static float from_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const float fraction = (float)(bits & 1023), sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf(fraction + 1024, exponent - 25) : ldexpf(fraction, -24));
}

static float from_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

double cli_element(const neap_value *t, int64_t i)
{
    const char *at = (const char *)t->data + i * neap_dtype_describe(t->dtype)->block_bytes;
    union {
        uint8_t u8;
        int8_t i8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        float f32;
    } x;
    memcpy(&x, at, (size_t)neap_dtype_describe(t->dtype)->block_bytes);
    switch (t->dtype) {
    case NEAP_F32:
        return (double)x.f32;
    case NEAP_F16:
        return (double)from_f16(x.u16);
    case NEAP_BF16:
        return (double)from_bf16(x.u16);
    case NEAP_I64:
        return (double)x.i64;
    case NEAP_I32:
        return x.i32;
    case NEAP_U32:
        return x.u32;
    case NEAP_I16:
        return x.i16;
    case NEAP_I8:
        return x.i8;
    case NEAP_U8:
        return x.u8;
    case NEAP_BOOL:
        return x.u8 != 0;
    default:
        return (double)NAN;
    }
}

int64_t cli_elements(const neap_value *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++)
        n *= t->shape[d];
    return n;
}

static void print_element(const neap_value *t, int64_t i)
{
    int64_t integer;
    if (t->dtype == NEAP_I64) {
        memcpy(&integer, (const int64_t *)t->data + i, sizeof integer);
        printf(" %" PRId64, integer);
    } else {
        printf(" %.9g", cli_element(t, i));
    }
}

static void print_range(const neap_value *t, int64_t n)
{
    double low = (double)INFINITY, high = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = cli_element(t, i);
        low = fmin(low, x);
        high = fmax(high, x);
        sum += x;
    }
    printf(" min %.6g, max %.6g, mean %.6g", low, high, sum / (double)n);
}

static void print_tensor(const neap_value *t)
{
    const char *dtype = neap_dtype_describe(t->dtype)->name;
    const int64_t n = cli_elements(t);
    printf("%s[", dtype ? dtype : "");
    for (int d = 0; d < t->rank; d++)
        printf("%s%" PRId64, d ? ", " : "", t->shape[d]);
    putchar(']');
    if (n > FEW)
        print_range(t, n);
    for (int64_t i = 0; n <= FEW && i < n; i++)
        print_element(t, i);
}

void cli_print_value(int number, const neap_value *v)
{
    printf("output %d: ", number);
    switch (v->kind) {
    case NEAP_VALUE_TENSOR:
        print_tensor(v);
        break;
    case NEAP_VALUE_INT:
        printf("int %" PRId64, v->integer);
        break;
    case NEAP_VALUE_BOOL:
        fputs(v->integer ? "bool true" : "bool false", stdout);
        break;
    case NEAP_VALUE_DOUBLE:
        printf("double %.17g", v->real);
        break;
    case NEAP_VALUE_STRING:
        fputs("string ", stdout);
        cli_print_clean(stdout, v->text, (size_t)v->bytes);
        break;
    default:
        fputs("none", stdout);
    }
    putchar('\n');
}
