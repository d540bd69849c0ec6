/* shape.c - sizes, strides, texts of shapes. All index math is 64-bit and checked. */
#include <stdio.h>
#include <string.h>

#include "array/array.h"

static const int64_t MAX_ELEMENTS = (int64_t)1 << 62;

int64_t np_size(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    return n;
}

bool np_shape_bytes(neap_dtype dtype, int rank, const int64_t *shape, int64_t *elements,
                    uint64_t *bytes)
{
    const neap_dtype_info *info = neap_dtype_describe(dtype);
    int64_t n = 1;
    bool empty = false;
    if (!info->name || rank < 0 || rank > NEAP_MAX_RANK)
        return false;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return false;
        if (shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(n, shape[i], &n) || n > MAX_ELEMENTS)
            return false;
    }
    if (info->class_ == NEAP_CLASS_QUANT &&
        (rank == 0 || shape[rank - 1] % info->block_elements != 0))
        return false;
    uint64_t b;
    if (__builtin_mul_overflow((uint64_t)n / (uint64_t)info->block_elements,
                               (uint64_t)info->block_bytes, &b) ||
        b > INT64_MAX) /* of an empty array too: offsets in bytes along its dimensions stay exact */
        return false;
    *elements = empty ? 0 : n;
    *bytes = empty ? 0 : b;
    return true;
}

void np_row_major(int rank, const int64_t *shape, int64_t *strides)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= shape[i] ? shape[i] : 1;
    }
}

bool np_is_row_major(int rank, const int64_t *shape, const int64_t *strides)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        if (shape[i] == 0)
            return true;
        if (shape[i] != 1 && strides[i] != step)
            return false;
        step *= shape[i];
    }
    return true;
}

bool np_same_shape(const neap_array *a, const neap_array *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

int64_t np_element_bytes(neap_dtype dtype)
{
    return neap_dtype_describe(dtype)->block_bytes;
}

bool np_is_float(neap_dtype dtype)
{
    return neap_dtype_describe(dtype)->class_ == NEAP_CLASS_FLOAT;
}

bool np_is_quantised(neap_dtype dtype)
{
    return neap_dtype_describe(dtype)->class_ == NEAP_CLASS_QUANT;
}

bool np_is_integer(neap_dtype dtype)
{
    neap_dtype_class c = neap_dtype_describe(dtype)->class_;
    return c == NEAP_CLASS_INT || c == NEAP_CLASS_UINT;
}

const char *np_shape_text(const neap_array *a, char out[NP_SHAPE_TEXT])
{
    const char *name = neap_dtype_describe(a->dtype)->name;
    size_t n = name ? (size_t)snprintf(out, NP_SHAPE_TEXT, "%s [", name)
                    : (size_t)snprintf(out, NP_SHAPE_TEXT, "dtype %d [", a->dtype);
    for (int i = 0; i < a->rank && n < NP_SHAPE_TEXT - 24; i++)
        n += (size_t)snprintf(out + n, NP_SHAPE_TEXT - n, "%s%lld", i ? ", " : "",
                              (long long)a->shape[i]);
    snprintf(out + n, NP_SHAPE_TEXT - n, "]");
    return out;
}

bool np_op_fail(neap_array *out, neap_status status, const char *format, ...)
{
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char inputs[400] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < out->n_in && i < 4; i++) {
        char shape[NP_SHAPE_TEXT];
        int w = snprintf(inputs + n, sizeof inputs - n, "%s%s", i ? ", " : "",
                         np_shape_text(out->in[i], shape));
        if (w < 0 || (size_t)w >= sizeof inputs - n)
            break;
        n += (size_t)w;
    }
    np_fail(out->ctx, status, "%s(%s): %s", out->op->name, inputs, text);
    return false;
}
