/* append.c - ids and text that grow on the ledger for callers outside the library. */
#include <string.h>

#include "text/tokenizer.h"

static neap_status ids_reserve(neap_context *ctx, neap_ids *ids, size_t count)
{
    return np_grow(ctx, NEAP_MEM_HOST, &ids->data, &ids->capacity, count, sizeof *ids->data)
               ? NEAP_OK
               : NEAP_ENOMEM;
}

neap_status neap_ids_reserve(neap_context *ctx, neap_ids *ids, size_t count)
{
    return NP_CALL(ctx, ids, ids_reserve(ctx, ids, count));
}

static neap_status ids_append(neap_context *ctx, neap_ids *ids, const int32_t *values, size_t count)
{
    if (count > SIZE_MAX / sizeof *values - ids->count ||
        !np_grow(ctx, NEAP_MEM_HOST, &ids->data, &ids->capacity, ids->count + count,
                 sizeof *ids->data))
        return NEAP_ENOMEM;
    if (count)
        memcpy(ids->data + ids->count, values, count * sizeof *values);
    ids->count += count;
    return NEAP_OK;
}

neap_status neap_ids_append(neap_context *ctx, neap_ids *ids, const int32_t *values, size_t count)
{
    return NP_CALL(ctx, ids && (values || count == 0), ids_append(ctx, ids, values, count));
}

static neap_status text_append(neap_context *ctx, neap_text *text, const void *bytes, size_t length)
{
    if (length > SIZE_MAX - text->length)
        return NEAP_ENOMEM;
    return np_text_append(ctx, text, bytes, length) ? NEAP_OK : NEAP_ENOMEM;
}

neap_status neap_text_append(neap_context *ctx, neap_text *text, const void *bytes, size_t length)
{
    return NP_CALL(ctx, text && (bytes || length == 0), text_append(ctx, text, bytes, length));
}
