/* nodes_product.c - matrix products, convolutions, weights of packed codes. */
#include <string.h>

#include "program/walk.h"
#include "neap/ops.h"

/* Without a bias a plain product, whatever alpha and beta say. */
NP_BUILD(addmm)
{
    neap_array *a = np_get(w, n->mat1), *b = np_get(w, n->mat2);
    if (n->bias < 0)
        return np_put(w, n->out, neap_matmul(a, b));
    return np_put(w, n->out, neap_addmm(np_get(w, n->bias), a, b, n->alpha, n->beta));
}

/* ---- convolutions ----------------------------------------------------------------------------------- */

static bool convolve(np_walk *w, int32_t x, int32_t weight, int32_t out, neap_conv_options *o,
                     int32_t groups)
{
    neap_array *in = np_get(w, x);
    o->groups = groups;
    return np_put(w, out, neap_conv(in, np_get(w, weight), o));
}

#define FORM1(f, from) o.f[0] = n->from
#define FORM2(f, from) o.f[0] = n->from##_h, o.f[1] = n->from##_w
#define FORM3(f, from) o.f[0] = n->from##_d, o.f[1] = n->from##_h, o.f[2] = n->from##_w
#define CONV(node, dims, form)                                                                     \
    NP_BUILD(node)                                                                                 \
    {                                                                                              \
        neap_conv_options o = NEAP_CONV_OPTIONS_INIT;                                              \
        o.spatial = dims;                                                                          \
        form(stride, stride);                                                                      \
        form(padding, padding);                                                                    \
        form(dilation, dilation);                                                                  \
        return convolve(w, n->x, n->w, n->out, &o, n->groups);                                     \
    }
#define CONV_TRANSPOSE(node, dims, form)                                                           \
    NP_BUILD(node)                                                                                 \
    {                                                                                              \
        neap_conv_options o = NEAP_CONV_OPTIONS_INIT;                                              \
        o.spatial = dims;                                                                          \
        o.transposed = true;                                                                       \
        form(stride, stride);                                                                      \
        form(padding, padding);                                                                    \
        form(dilation, dilation);                                                                  \
        form(output_padding, output_padding);                                                      \
        return convolve(w, n->x, n->w, n->out, &o, n->groups);                                     \
    }

CONV(conv1d, 1, FORM1)
CONV(conv2d, 2, FORM2)
CONV(conv3d, 3, FORM3)
CONV_TRANSPOSE(conv_transpose1d, 1, FORM1)
CONV_TRANSPOSE(conv_transpose2d, 2, FORM2)
CONV_TRANSPOSE(conv_transpose3d, 3, FORM3)

/* ---- packed codes --------------------------------------------------------------------------------------- */

static bool find_mode(np_walk *w, const char *name, neap_quantised *q)
{
    static const struct {
        const char *name;
        enum neap_quant_mode mode;
    } modes[] = {
        {"affine", NEAP_QUANT_AFFINE},
        {"nvfp4",  NEAP_QUANT_NVFP4 },
        {"mxfp8",  NEAP_QUANT_MXFP8 },
        {"mxfp4",  NEAP_QUANT_MXFP4 },
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, name) == 0) {
            q->mode = modes[i].mode;
            return true;
        }
    }
    return np_node_fail(w, NEAP_EUNSUPPORTED, "mode %.40s, there are affine, nvfp4, mxfp8, mxfp4",
                        name);
}

static bool find_weights(np_walk *w, int32_t codes, int32_t scales, int32_t biases, int32_t bits,
                         int32_t group, const char *mode, neap_quantised *q)
{
    *q = (neap_quantised)NEAP_QUANTISED_INIT;
    q->w = np_get(w, codes);
    q->scales = np_get(w, scales);
    q->biases = np_get_optional(w, biases);
    q->bits = bits;
    q->group_size = group;
    return q->w && q->scales && (biases < 0 || q->biases) && find_mode(w, mode, q);
}

NP_BUILD(quantized_matmul)
{
    neap_quantised q;
    neap_array *x = np_get(w, n->x);
    return find_weights(w, n->w, n->scales, n->biases, n->bits, n->group_size, n->mode, &q) &&
           np_put(w, n->out, neap_quantized_matmul(x, &q, n->transpose));
}

NP_BUILD(dequantize)
{
    neap_quantised q;
    if (!find_weights(w, n->w, n->scales, n->biases, n->bits, n->group_size, n->mode, &q))
        return false;
    bool affine = q.mode == NEAP_QUANT_AFFINE;
    neap_dtype dtype = n->dtype.present ? n->dtype.value
                       : affine         ? neap_array_dtype(q.scales)
                                        : NEAP_BF16;
    if (n->global_scale < 0)
        return np_put(w, n->out, neap_dequantize(&q, dtype));
    neap_array *scale = neap_cast(np_get(w, n->global_scale), NEAP_F32);
    neap_array *whole = neap_mul(neap_dequantize(&q, NEAP_F32), scale);
    return np_put(w, n->out, neap_cast(whole, dtype));
}

NP_BUILD(gather_mm)
{
    neap_array *a = np_get(w, n->a), *b = np_get(w, n->b);
    neap_array *left = np_get_optional(w, n->lhs_indices);
    return np_put(w, n->out, neap_gather_mm(a, b, left, np_get_optional(w, n->rhs_indices)));
}

NP_BUILD(gather_qmm)
{
    neap_quantised q;
    neap_array *x = np_get(w, n->x), *left = np_get_optional(w, n->lhs_indices);
    neap_array *right = np_get_optional(w, n->rhs_indices);
    return find_weights(w, n->w, n->scales, n->biases, n->bits, n->group_size, n->mode, &q) &&
           np_put(w, n->out, neap_gather_qmm(x, &q, left, right, n->transpose));
}
