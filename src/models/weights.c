/* weights.c - tensors of a file as arrays: mapped, or packed into the kernels' layout. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/interrupt.h"
#include "base/progress.h"
#include "cpu/kernels.h"
#include "models/model.h"

enum { NAME = 96 };

static const np_gguf_tensor *find(const neap_model *m, const char *format, va_list args,
                                  char name[NAME])
{
    vsnprintf(name, NAME, format, args);
    return np_gguf_find_tensor(m->gguf, name);
}

bool np_model_has(const neap_model *m, const char *format, ...)
{
    char name[NAME];
    va_list args;
    va_start(args, format);
    const np_gguf_tensor *t = find(m, format, args, name);
    va_end(args);
    return t != NULL;
}

static bool fits(const np_gguf_tensor *t, int rank, const int64_t *shape)
{
    return t->n_dims == rank && memcmp(t->shape, shape, (size_t)rank * sizeof *shape) == 0 &&
           (rank == 1 ? t->dtype == NEAP_F32 : np_is_float(t->dtype) || np_is_quantised(t->dtype));
}

/* What the tensor is and what is needed: a vector of f32; a matrix of floats, quantised or not. */
static neap_status refuse_shape(const neap_model *m, const np_gguf_tensor *t, const char *name,
                                int rank, const int64_t *shape)
{
    neap_array got = {.dtype = t->dtype, .rank = (uint8_t)t->n_dims},
               want = {.dtype = NEAP_F32, .rank = (uint8_t)rank};
    memcpy(got.shape, t->shape, (size_t)t->n_dims * sizeof t->shape[0]);
    memcpy(want.shape, shape, (size_t)rank * sizeof *shape);
    char a[NP_SHAPE_TEXT], b[NP_SHAPE_TEXT];
    np_shape_text(&got, a);
    np_shape_text(&want, b);
    return np_fail(m->ctx, NEAP_EFORMAT, "%s: tensor %s is %s, the model needs %s%s",
                   m->gguf->name, name, a, b + (rank == 1 ? 0 : strlen("f32 ")),
                   rank == 1 ? "" : " of floats or quantised");
}

static neap_status expect(neap_model *m, int rank, const int64_t *shape, const char *format,
                          va_list args)
{
    char name[NAME];
    const np_gguf_tensor *t = find(m, format, args, name);
    if (!t)
        return np_fail(m->ctx, NEAP_EFORMAT, "%s: tensor %s is missing", m->gguf->name, name);
    if (!fits(t, rank, shape))
        return refuse_shape(m, t, name, rank, shape);
    neap_array *w = neap_array_over(t->dtype, rank, shape, t->data, NULL, NULL);
    neap_array_set_name(w, name);
    m->weights[t - m->gguf->tensors] = neap_retain(w);
    return m->ctx->status;
}

neap_status np_model_expect(neap_model *m, int64_t rows, int64_t columns, const char *format, ...)
{
    const int64_t shape[2] = {rows, columns};
    va_list args;
    va_start(args, format);
    neap_status status = expect(m, columns ? 2 : 1, shape, format, args);
    va_end(args);
    return status;
}

neap_status np_model_expect_stack(neap_model *m, int64_t n, int64_t rows, int64_t columns,
                                  const char *format, ...)
{
    const int64_t shape[3] = {n, rows, columns};
    va_list args;
    va_start(args, format);
    neap_status status = expect(m, 3, shape, format, args);
    va_end(args);
    return status;
}

neap_array *np_model_weight(const neap_model *m, const char *format, ...)
{
    char name[NAME];
    va_list args;
    va_start(args, format);
    const np_gguf_tensor *t = find(m, format, args, name);
    va_end(args);
    return t ? m->weights[t - m->gguf->tensors] : NULL;
}

/* ---- the packed layout
 * ---------------------------------------------------------------------------- */

static uint64_t packed_bytes(const neap_model *m, const neap_array *w)
{
    if (!w || w->rank != 2 || !np_is_quantised((neap_dtype)w->dtype))
        return 0;
    if (w->dtype == NEAP_Q8_0 && m->leave_q8_0)
        return 0;
    return m->ctx->kernels->quant->qmm_pack_bytes((neap_dtype)w->dtype, w->shape[0], w->shape[1]);
}

/* Each weight starts on a cache line. */
static uint64_t room(uint64_t bytes)
{
    return (bytes + 63) & ~(uint64_t)63;
}

static uint64_t total_packed(const neap_model *m)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < m->gguf->n_tensors; i++)
        total += room(packed_bytes(m, m->weights[i]));
    return total;
}

uint64_t np_model_packed_bytes(const neap_model *m)
{
    uint64_t total = total_packed(m);
    return total ? np_pages(total) : 0;
}

/* Packing Q8_0 gains 2 % in generation and nothing for prompts: where most weights are Q8_0 it costs
 * more time at the start than thousands of tokens win back (docs/speed.md). */
static bool mostly_q8_0(const neap_model *m)
{
    uint64_t q8_0 = 0, all = 0;
    for (uint32_t i = 0; i < m->gguf->n_tensors; i++) {
        all += m->gguf->tensors[i].bytes;
        q8_0 += m->gguf->tensors[i].dtype == NEAP_Q8_0 ? m->gguf->tensors[i].bytes : 0;
    }
    return q8_0 > all / 2;
}

void np_model_set_packed(neap_model *m, bool packed, bool all)
{
    if (m->loaded || m->sessions)
        return; /* a second session uses the weights as they are */
    m->packed = packed;
    m->leave_q8_0 = !all && mostly_q8_0(m);
    for (uint32_t i = 0; i < m->gguf->n_tensors; i++)
        if (m->weights[i])
            m->weights[i]->packed = packed && packed_bytes(m, m->weights[i]) > 0;
}

/* The file's pages at once cost less than one by one; a request to stop need not wait for all of them. */
static void read_pages(const neap_model *m)
{
#ifdef MADV_POPULATE_READ
    const uint64_t most = 8 << 20;
    for (uint64_t at = 0, n; at < m->map.bytes && !np_stop(); at += n) {
        n = m->map.bytes - at < most ? m->map.bytes - at : most;
        madvise((void *)((uintptr_t)m->map.data + at), n, MADV_POPULATE_READ);
    }
#else
    (void)m;
#endif
}

static neap_status pack_all(neap_model *m, np_progress *progress)
{
    uint8_t *to = m->pack;
    neap_status status = np_check(m->ctx);
    for (uint32_t i = 0; status == NEAP_OK && i < m->gguf->n_tensors; i++) {
        neap_array *w = m->weights[i];
        uint64_t bytes = packed_bytes(m, w);
        if (!bytes)
            continue;
        m->ctx->kernels->quant->qmm_pack(to, w->buffer->data, (neap_dtype)w->dtype, w->shape[0],
                                  w->shape[1], m->ctx->pool);
        w->buffer->data = to;
        to += room(bytes);
        np_progress_at(progress, (uint64_t)(to - (uint8_t *)m->pack));
        status = np_check(m->ctx);
    }
    return status;
}

static void point_into_file(neap_model *m)
{
    for (uint32_t i = 0; i < m->gguf->n_tensors; i++)
        if (m->weights[i])
            m->weights[i]->buffer->data = (void *)(uintptr_t)m->gguf->tensors[i].data;
}

/* One block for all of them: neighbours share large pages. The arrays' buffers, which pointed into
 * the file, point into the block; the file's pages are not needed any more. */
neap_status np_model_load(neap_model *m)
{
    if (m->loaded || !m->packed) {
        m->loaded = true;
        return NEAP_OK;
    }
    m->pack_bytes = total_packed(m);
    m->pack = np_alloc_pages(m->ctx, NEAP_MEM_WEIGHTS, m->pack_bytes);
    if (!m->pack)
        return NEAP_ENOMEM;
    np_progress progress;
    np_progress_begin(&progress, m->ctx, "load", m->pack_bytes, false);
    const neap_context *before = np_work_begin(m->ctx);
    read_pages(m);
    const neap_status status = pack_all(m, &progress);
    np_work_end(before);
    np_progress_end(&progress, status);
    if (status != NEAP_OK) { /* as it was */
        point_into_file(m);
        np_free_pages(m->ctx, NEAP_MEM_WEIGHTS, m->pack, m->pack_bytes);
        m->pack = NULL;
        return status;
    }
    madvise((void *)(uintptr_t)m->map.data, m->map.bytes, MADV_DONTNEED);
    m->loaded = true;
    return NEAP_OK;
}
