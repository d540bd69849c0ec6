/* making.c - arrays from nothing: a scalar, arange, and full as a view of one element. */
#include <math.h>
#include <string.h>

#include "ops/support.h"

typedef struct np_arange_attr {
    double start, step;
    int64_t count;
    int32_t dtype;
    int32_t unused;
} np_arange_attr;

static bool arange_infer(neap_array *out)
{
    const np_arange_attr *attr = (const void *)out->attr;
    out->dtype = (uint8_t)attr->dtype;
    out->rank = 1;
    out->shape[0] = attr->count;
    return true;
}

enum { ARANGE_TILE = 256 };

/* start + i * step in double, then one conversion: through i64 for integers, f32 for floats. */
static neap_status arange_run(const np_call *c)
{
    const np_arange_attr *attr = c->attr;
    int64_t whole[ARANGE_TILE], size = np_element_bytes(attr->dtype);
    float parts[ARANGE_TILE];
    bool floats = np_is_float(attr->dtype);
    neap_dtype from = floats ? NEAP_F32 : NEAP_I64;
    int64_t count = c->out->shape[0], first = np_part_first(c, 0);
    for (int64_t i = 0; i < count && !np_stop_in_row(i); i += ARANGE_TILE) {
        int64_t n = count - i < ARANGE_TILE ? count - i : ARANGE_TILE, one = 1;
        for (int64_t j = 0; j < n; j++) {
            double v = attr->start + (double)(first + i + j) * attr->step;
            if (floats)
                parts[j] = (float)v;
            else
                whole[j] = (int64_t)v;
        }
        np_convert(c->ctx->kernels, c->pool, 1, &n, attr->dtype, c->out->data + i * size, &one, from,
                   floats ? (void *)parts : (void *)whole, &one);
    }
    return NEAP_OK;
}

/* Of no input; what counts is that it is not NP_PART_NONE. */
static int arange_part(const np_call *shapes, int dim, uint32_t input)
{
    (void)shapes;
    (void)dim;
    (void)input;
    return NP_PART_WHOLE;
}

const np_op np_op_arange = {.name = "arange",
                            .arity = 0,
                            .flags = NP_OP_CHEAP,
                            .infer = arange_infer,
                            .run = arange_run,
                            .part = arange_part,
                            .no_grad = "no input"};

neap_array *neap_arange(double start, double stop, double step, neap_dtype dtype)
{
    if (!np_ready(0, NULL))
        return NULL;
    double count = ceil((stop - start) / step);
    double last = start + (count > 1 ? count - 1 : 0) * step;
    if (!np_is_float(dtype) && !np_is_integer(dtype))
        return np_refuse("arange", 0, NULL, NEAP_EDTYPE, "of dtype %d", (int)dtype);
    if (step == 0 || !isfinite(start) || !isfinite(stop) || !isfinite(step) || !isfinite(count))
        return np_refuse("arange", 0, NULL, NEAP_EINVAL, "from %g to %g by %g", start, stop, step);
    if (count > 4503599627370496.0 || (!np_is_float(dtype) && (fabs(start) > 9007199254740992.0 ||
                                                               fabs(last) > 9007199254740992.0)))
        return np_refuse("arange", 0, NULL, NEAP_ELIMIT, "from %g to %g by %g: too many elements",
                         start, stop, step);
    np_arange_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.start = start;
    attr.step = step;
    attr.count = count > 0 ? (int64_t)count : 0;
    attr.dtype = dtype;
    return np_node(&np_op_arange, 0, NULL, &attr, sizeof attr);
}

/* ---- the value of a parameter ----------------------------------------------------------------- */

typedef struct np_param_scalar_attr {
    neap_param *param;
    int64_t add;
    int32_t dtype;
    int32_t unused;
} np_param_scalar_attr;

static bool param_scalar_infer(neap_array *out)
{
    out->dtype = (uint8_t)((const np_param_scalar_attr *)(const void *)out->attr)->dtype;
    out->rank = 0;
    return true;
}

static neap_status param_scalar_run(const np_call *c)
{
    const np_param_scalar_attr *attr = c->attr;
    const int64_t none[1] = {0}; /* extents and strides of no dimension */
    int64_t value = attr->param->value + attr->add;
    np_convert(c->ctx->kernels, c->pool, 0, none, attr->dtype, c->out->data, none, NEAP_I64, &value, none);
    return NEAP_OK;
}

const np_op np_op_param_scalar = {.name = "param_scalar",
                                  .arity = 0,
                                  .flags = NP_OP_CHEAP,
                                  .infer = param_scalar_infer,
                                  .run = param_scalar_run,
                                  .no_grad = "no input"};

neap_array *neap_param_scalar(neap_param *param, int64_t add, neap_dtype dtype)
{
    if (!param || !np_ready(0, NULL))
        return NULL;
    if (!np_is_float(dtype) && !np_is_integer(dtype))
        return np_refuse("param_scalar", 0, NULL, NEAP_EDTYPE, "of dtype %d", (int)dtype);
    np_param_scalar_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.param = param;
    attr.add = add;
    attr.dtype = dtype;
    return np_node(&np_op_param_scalar, 0, NULL, &attr, sizeof attr);
}

/* ---- constants --------------------------------------------------------------------------------- */

/* Through i64 for integers, so that they are exact; anything out of range saturates. */
neap_array *neap_scalar(neap_dtype dtype, double value)
{
    if (!np_ready(0, NULL))
        return NULL;
    if (!neap_dtype_describe(dtype)->name || np_is_quantised(dtype))
        return np_refuse("scalar", 0, NULL, NEAP_EDTYPE, "of dtype %d", (int)dtype);
    uint8_t bytes[8];
    float narrow = dtype == NEAP_BOOL ? value != 0 : (float)value;
    int64_t wide = 0, none[1] = {0};
    if (value >= -0x1p63 && value < 0x1p63)
        wide = (int64_t)value;
    else if (!isnan(value))
        wide = value > 0 ? INT64_MAX : INT64_MIN;
    if (np_is_integer(dtype) && dtype != NEAP_I64) { /* narrowing integers wraps: bound it first */
        int bits = 8 * (int)np_element_bytes(dtype);
        bool is_unsigned = neap_dtype_describe(dtype)->class_ == NEAP_CLASS_UINT;
        int64_t high = ((int64_t)1 << (is_unsigned ? bits : bits - 1)) - 1;
        int64_t low = is_unsigned ? 0 : -high - 1;
        wide = wide < low ? low : wide > high ? high : wide;
    }
    bool exact = np_is_integer(dtype);
    neap_dtype from = exact ? NEAP_I64 : NEAP_F32;
    np_convert(np_scope_context()->kernels, NULL, 0, none, dtype, bytes, none, from,
               exact ? (void *)&wide : (void *)&narrow, none);
    return neap_array_from(dtype, 0, none, bytes);
}

neap_array *neap_full(int rank, const int64_t *shape, double value, neap_dtype dtype)
{
    int64_t elements;
    uint64_t bytes;
    if (!np_ready(0, NULL))
        return NULL;
    if (!neap_dtype_describe(dtype)->name || np_is_quantised(dtype))
        return np_refuse("full", 0, NULL, NEAP_EDTYPE, "of dtype %d", (int)dtype);
    if (rank < 0 || rank > NEAP_MAX_RANK || (rank > 0 && !shape) ||
        !np_shape_bytes(dtype, rank, shape, &elements, &bytes)) {
        neap_array t = {.dtype = (uint8_t)dtype};
        for (; t.rank < rank && t.rank < NEAP_MAX_RANK && shape; t.rank++)
            t.shape[t.rank] = shape[t.rank];
        char text[NP_SHAPE_TEXT];
        return np_refuse("full", 0, NULL, NEAP_ESHAPE,
                         "%d dimensions, %s: at most %d, extents 0 or more, at most 2^62 in all",
                         rank, np_shape_text(&t, text), NEAP_MAX_RANK);
    }
    return neap_broadcast_to(neap_scalar(dtype, value), rank, shape);
}
