/* ops_encoded.h - encoded weights of tests/ops_cases.def: e=<coding> n= k= [lead=]; made by
 * tools/encoded_reference.py, kept in tests/golden/ops.bin as bytes. */
#ifndef OPS_ENCODED_H
#define OPS_ENCODED_H

#include "ops_case_reader.h"

/* One array of the weights named by `params`: part "w", "scales" or "biases". */
static neap_array *encoded_part(const char *params, const char *part, neap_dtype dtype,
                                int64_t columns)
{
    char name[120];
    int64_t shape[NEAP_MAX_RANK];
    int rank = list(params, "lead", shape);
    shape[rank++] = whole(params, "n");
    shape[rank++] = whole(params, "k");
    const char *e = parameter(params, "e");
    int n = snprintf(name, sizeof name, "encoded/%.*s-", (int)strcspn(e, " "), e);
    for (int d = 0; d < rank; d++)
        n += snprintf(name + n, sizeof name - (size_t)n, d ? "x%d" : "%d", (int)shape[d]);
    snprintf(name + n, sizeof name - (size_t)n, "/%s", part);
    shape[rank - 1] = columns;
    return neap_array_from(dtype, rank, shape, find_golden(name).data);
}

static neap_quantised encoded_weights(const char *params)
{
    neap_quantised q = NEAP_QUANTISED_INIT;
    const char *e = parameter(params, "e");
    neap_dtype scales = NEAP_U8;
    q.mode = strncmp(e, "nvfp4", 5) == 0   ? NEAP_QUANT_NVFP4
             : strncmp(e, "mxfp8", 5) == 0 ? NEAP_QUANT_MXFP8
             : strncmp(e, "mxfp4", 5) == 0 ? NEAP_QUANT_MXFP4
                                           : NEAP_QUANT_AFFINE;
    q.bits = q.mode == NEAP_QUANT_MXFP8 ? 8 : 4;
    q.group_size = q.mode == NEAP_QUANT_NVFP4 ? 16 : 32;
    if (q.mode == NEAP_QUANT_AFFINE) {
        char *end;
        q.bits = e[6] - '0';
        q.group_size = (int)strtol(e + 8, &end, 10);
        scales = dtype_named(end, strcspn(end, " "));
    }
    const int64_t k = whole(params, "k");
    q.w = encoded_part(params, "w", NEAP_U32, k * q.bits / 32);
    q.scales = encoded_part(params, "scales", scales, k / q.group_size);
    if (q.mode == NEAP_QUANT_AFFINE)
        q.biases = encoded_part(params, "biases", scales, k / q.group_size);
    return q;
}

/* What an ERROR row makes wrong of them. */
static void spoil(const char *params, neap_quantised *q)
{
    q->bits = (int)number(params, "bits", q->bits);
    q->group_size = (int)number(params, "group", q->group_size);
    q->mode = (enum neap_quant_mode)number(params, "mode", q->mode);
    q->size = (size_t)number(params, "size", (double)q->size);
    if (parameter(params, "drop"))
        q->biases = NULL;
    if (parameter(params, "scale_type"))
        q->scales = neap_cast(q->scales, NEAP_F16);
    if (parameter(params, "w_type"))
        q->w = neap_cast(q->w, NEAP_I32);
    if (parameter(params, "fewer"))
        q->scales = neap_narrow(q->scales, -1, 1, NEAP_END);
}

/* Blocks as bytes, for ops that take a u8 array. */
static neap_array *block_bytes(const char *params)
{
    char name[40];
    const char *w = parameter(params, "w");
    snprintf(name, sizeof name, "weights/%.4s", w);
    golden g = find_golden(name);
    return neap_array_from(NEAP_U8, g.rank, g.shape, g.data);
}

static neap_dtype block_type(const char *params)
{
    return dtype_named(parameter(params, "w"), 4);
}

#endif
