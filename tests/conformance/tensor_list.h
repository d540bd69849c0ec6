/* tensor_list.h - lists of tensors in files, as fixtures of programs have them: u32 count, then per
 * tensor u32 dtype, u32 rank, i32 extents, bytes. Codes: 0 f32, 1 f16, 2 i32, 3 i64, 4 bf16, 5 bool,
 * 6 u8. */
#ifndef TENSOR_LIST_H
#define TENSOR_LIST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <neap/neap.h>

enum { LIST_MAX = 64 };

typedef struct tensor_list {
    int count;
    neap_value value[LIST_MAX];
    void *bytes; /* the file */
} tensor_list;

static inline uint32_t list_u32(const unsigned char **p)
{
    uint32_t v;
    memcpy(&v, *p, sizeof v);
    *p += sizeof v;
    return v;
}

static inline void *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    void *bytes = aligned_alloc(64, (*size + 64) / 64 * 64 + 64);
    if (bytes && fread(bytes, 1, *size, f) != *size) {
        free(bytes);
        bytes = NULL;
    }
    fclose(f);
    return bytes;
}

/* Each tensor gets aligned memory of its own. */
static inline bool list_read(const char *path, tensor_list *out)
{
    static const neap_dtype dtypes[] = {NEAP_F32,  NEAP_F16,  NEAP_I32, NEAP_I64,
                                        NEAP_BF16, NEAP_BOOL, NEAP_U8};
    size_t size;
    memset(out, 0, sizeof *out);
    out->bytes = read_whole(path, &size);
    if (!out->bytes)
        return false;
    const unsigned char *p = out->bytes;
    out->count = (int)list_u32(&p);
    for (int i = 0; i < out->count && i < LIST_MAX; i++) {
        neap_value *v = &out->value[i];
        v->kind = NEAP_VALUE_TENSOR;
        v->dtype = dtypes[list_u32(&p)];
        v->rank = (int)list_u32(&p);
        v->bytes = (uint64_t)neap_dtype_describe(v->dtype)->block_bytes;
        for (int d = 0; d < v->rank; d++) {
            v->shape[d] = (int32_t)list_u32(&p);
            v->bytes *= (uint64_t)v->shape[d];
        }
        void *copy = aligned_alloc(64, (v->bytes + 63) / 64 * 64 + 64);
        memcpy(copy, p, v->bytes);
        v->data = copy;
        p += v->bytes;
    }
    return out->count <= LIST_MAX;
}

static inline void list_free(tensor_list *l)
{
    for (int i = 0; i < l->count; i++)
        free((void *)(uintptr_t)l->value[i].data);
    free(l->bytes);
    l->count = 0;
}

static inline double list_element(const neap_value *v, int64_t i)
{
    union {
        uint32_t u;
        float f;
    } x;
    const uint16_t *h = v->data;
    switch (v->dtype) {
    case NEAP_F32:
        return (double)((const float *)v->data)[i];
    case NEAP_BF16:
        x.u = (uint32_t)h[i] << 16;
        return (double)x.f;
    case NEAP_F16: {
        uint32_t s = (uint32_t)(h[i] >> 15) << 31, e = h[i] >> 10 & 31, m = h[i] & 1023;
        if (e == 0) {
            double d = (double)m / 16777216.0;
            return s ? -d : d;
        }
        x.u = s | (e == 31 ? 255u : e + 112) << 23 | m << 13;
        return (double)x.f;
    }
    case NEAP_I64:
        return (double)((const int64_t *)v->data)[i];
    case NEAP_I32:
        return (double)((const int32_t *)v->data)[i];
    case NEAP_U32:
        return (double)((const uint32_t *)v->data)[i];
    default:
        return (double)((const uint8_t *)v->data)[i];
    }
}

static inline int64_t list_size(const neap_value *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++)
        n *= v->shape[d];
    return n;
}

#endif
