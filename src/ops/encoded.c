/* encoded.c - see encoded.h. */
#include "ops/encoded.h"

#include <string.h>

static const struct {
    const char *name;
    np_coding coding;
    int bits, group; /* 0: as given */
} modes[] = {
    [NEAP_QUANT_AFFINE] = {"affine", NP_CODING_AFFINE, 0, 0},
    [NEAP_QUANT_NVFP4] = {"nvfp4", NP_CODING_NVFP4, 4, 16},
    [NEAP_QUANT_MXFP8] = {"mxfp8", NP_CODING_MXFP8, 8, 32},
    [NEAP_QUANT_MXFP4] = {"mxfp4", NP_CODING_MXFP4, 4, 32},
};

static bool check_mode(const char *op, const neap_quantised *q)
{
    if ((unsigned)q->mode >= sizeof modes / sizeof modes[0]) {
        np_refuse(op, 1, &q->w, NEAP_EINVAL, "mode %d of quantisation is not known", (int)q->mode);
        return false;
    }
    const int bits = modes[q->mode].bits, group = modes[q->mode].group;
    const char *name = modes[q->mode].name;
    if (bits ? q->bits != bits : q->bits < 2 || q->bits > 8 || q->bits == 7) {
        np_refuse(op, 1, &q->w, NEAP_EINVAL, "%s codes of %d bits, expected %s", name, q->bits,
                  bits == 4 ? "4" : bits == 8 ? "8" : "2, 3, 4, 5, 6 or 8");
        return false;
    }
    if (group ? q->group_size != group : q->group_size < 16 || q->group_size % 16 != 0) {
        np_refuse(op, 1, &q->w, NEAP_EINVAL, "%s groups of %d, expected %s", name, q->group_size,
                  group == 16 ? "16" : group == 32 ? "32" : "a multiple of 16");
        return false;
    }
    if ((q->mode == NEAP_QUANT_AFFINE) != (q->biases != NULL)) {
        np_refuse(op, 1, &q->w, NEAP_EINVAL, "%s weights %s biases", name,
                  q->biases ? "have no" : "need");
        return false;
    }
    return true;
}

/* scales (and biases): a number for each group of w's elements. */
static bool check_shapes(const char *op, const neap_quantised *q, const np_encoded *e)
{
    neap_array *in[3] = {q->w, q->scales, q->biases};
    const neap_array *w = q->w, *s = q->scales, *b = q->biases;
    const int last = w->rank - 1;
    if (w->dtype != NEAP_U32 ||
        (q->mode == NEAP_QUANT_AFFINE ? !np_is_float(s->dtype) : s->dtype != NEAP_U8)) {
        np_refuse(op, 3, in, NEAP_EDTYPE, "expected codes in u32 and scales in %s",
                  q->mode == NEAP_QUANT_AFFINE ? "a float type" : "u8");
        return false;
    }
    if (b && b->dtype != s->dtype) {
        np_refuse(op, 3, in, NEAP_EDTYPE, "scales and biases differ in type");
        return false;
    }
    bool fits = w->rank >= 1 && s->rank == w->rank && w->shape[last] * 32 % q->bits == 0 &&
                np_encoded_columns(e, w->shape[last]) % q->group_size == 0 &&
                np_encoded_columns(e, w->shape[last]) / q->group_size == s->shape[last] &&
                memcmp(w->shape, s->shape, (size_t)last * sizeof w->shape[0]) == 0;
    if (!fits || (b && !np_same_shape(s, b))) {
        np_refuse(op, 3, in, NEAP_ESHAPE,
                  "codes of %d bits in groups of %d: codes, scales and biases do not belong together",
                  q->bits, q->group_size);
        return false;
    }
    return true;
}

static bool check_static(const char *op, uint32_t n, neap_array *const *in)
{
    for (uint32_t i = 0; i < n; i++)
        if (in[i]->dynamic_dim >= 0) {
            np_refuse(op, n, in, NEAP_EUNSUPPORTED, "extent %s of the weights is set at run time",
                      in[i]->extent->name);
            return false;
        }
    return true;
}

bool np_encoded_from(const char *op, const neap_quantised *given, np_encoded *e, neap_array *in[3])
{
    neap_quantised q = NEAP_QUANTISED_INIT;
    if (!given) {
        np_refuse(op, 0, NULL, NEAP_EINVAL, "no weights");
        return false;
    }
    if (!np_options(op, given, &q, sizeof q))
        return false;
    neap_array *all[3] = {q.w, q.scales, q.biases};
    if (!np_ready(q.biases ? 3 : 2, all) || !check_mode(op, &q))
        return false;
    *e = (np_encoded){.coding = (int32_t)modes[q.mode].coding, .dtype = q.scales->dtype,
                      .bits = q.bits, .n_in = q.biases ? 3 : 2, .group = q.group_size};
    if (!check_shapes(op, &q, e) || !check_static(op, (uint32_t)e->n_in, all))
        return false;
    for (int i = 0; i < e->n_in; i++)
        in[i] = np_adjacent(all[i]);
    /* one distance from row to row serves both */
    const int row = q.w->rank - 2;
    if (q.biases && in[1] && in[2] && row >= 0 && in[1]->strides[row] != in[2]->strides[row]) {
        in[1] = np_copied(in[1]);
        in[2] = np_copied(in[2]);
    }
    return np_ready((uint32_t)e->n_in, in);
}

bool np_encoded_blocks(const char *op, neap_array *w, neap_dtype type, np_encoded *e,
                       neap_array *in[3])
{
    if (!np_ready(1, &w) || !check_static(op, 1, &w))
        return false;
    const neap_dtype_info *info = neap_dtype_describe(type);
    if (!np_is_quantised(type)) {
        np_refuse(op, 1, &w, NEAP_EDTYPE, "dtype %d is no type of blocks", (int)type);
        return false;
    }
    if (w->dtype != NEAP_U8 || w->rank != 2 || w->shape[1] % info->block_bytes != 0) {
        np_refuse(op, 1, &w, NEAP_ESHAPE, "expected %s weights as u8 [N, blocks of %d bytes]",
                  info->name, info->block_bytes);
        return false;
    }
    *e = (np_encoded){.coding = NP_CODING_BLOCKS, .dtype = (int32_t)type, .n_in = 1};
    in[0] = np_adjacent(w);
    return np_ready(1, in);
}

int64_t np_encoded_columns(const np_encoded *e, int64_t last)
{
    if (e->coding == NP_CODING_BLOCKS) {
        const neap_dtype_info *info = neap_dtype_describe((neap_dtype)e->dtype);
        return last / info->block_bytes * info->block_elements;
    }
    return last * 32 / e->bits;
}

int64_t np_leading_offset(const np_operand *x, int rank, int64_t at)
{
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0 && at > 0; d--) {
        offset += at % x->shape[d] * x->strides[d];
        at /= x->shape[d];
    }
    return offset;
}

np_decoded np_encoded_matrix(const np_encoded *e, const np_operand *const *w, int64_t matrix)
{
    const int lead = w[0]->rank - 2;
    const void *at[3] = {NULL, NULL, NULL};
    int64_t row[3] = {0, 0, 0};
    for (int i = 0; i < e->n_in; i++) {
        int64_t size = np_element_bytes((neap_dtype)w[i]->dtype);
        at[i] = w[i]->data + np_leading_offset(w[i], lead, matrix) * size;
        row[i] = lead < 0 ? 0 : w[i]->strides[lead] * (i == 0 ? size : 1);
    }
    return (np_decoded){.coding = (np_coding)e->coding, .dtype = (neap_dtype)e->dtype,
                        .bits = e->bits, .group = e->group, .w = at[0], .scales = at[1],
                        .biases = at[2], .row = row[0], .scale_row = row[1]};
}
