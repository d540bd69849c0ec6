/* named_data.c - see named_data.h. */
#include "formats/named_data.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/heap_sort.h"
#include "base/shown.h"

neap_status np_fb_status(neap_context *ctx, const np_fb *fb, const char *what)
{
    if (!fb->fault)
        return NEAP_OK;
    char field[32] = "";
    if (fb->field >= 0)
        snprintf(field, sizeof field, "field %d ", fb->field);
    return np_fail(ctx, NEAP_EFORMAT, "%s: %s%s, at byte %" PRIu64 " of %" PRIu64, what, field,
                   fb->fault, fb->at, fb->n);
}

neap_status np_segments_read(np_blocks *blocks, np_fb *fb, np_fb_table t, int field, np_bytes file,
                             uint64_t base, np_segments *out)
{
    const np_fb_vector v = np_fb_vector_of(fb, t, field, 4);
    np_bytes *at = np_blocks_array(blocks, v.n, sizeof *at);
    if (!at)
        return NEAP_ENOMEM;
    *out = (np_segments){v.n, at};
    for (uint32_t i = 0; i < v.n && !fb->fault; i++) {
        const np_fb_table s = np_fb_element_table(fb, v, i);
        const uint64_t offset = np_fb_u64(fb, s, 0, 0), size = np_fb_u64(fb, s, 1, 0);
        uint64_t start;
        if (!np_add_size(base, offset, &start) || start > file.n || size > file.n - start)
            return np_fail(blocks->ctx, NEAP_EFORMAT,
                           "segment %" PRIu32 ": %" PRIu64 " bytes at %" PRIu64 " + %" PRIu64
                           ", the file has %" PRIu64,
                           i, size, base, offset, file.n);
        at[i] = (np_bytes){file.p + start, size};
    }
    return np_fb_status(blocks->ctx, fb, "data segments");
}

static int compare_names(np_bytes a, np_bytes b)
{
    const size_t n = (size_t)(a.n < b.n ? a.n : b.n);
    const int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static bool name_before(const void *unused, const np_named *a, const np_named *b)
{
    (void)unused;
    return compare_names(a->name, b->name) < 0;
}

NP_HEAP_SORT(sort_names, np_named, const void *, name_before)

neap_status np_named_data_read(np_blocks *blocks, np_fb *fb, np_fb_table t, int field,
                               const np_segments *segments, np_named_data *out)
{
    const np_fb_vector v = np_fb_vector_of(fb, t, field, 4);
    np_named *at = np_blocks_array(blocks, v.n, sizeof *at);
    if (!at)
        return NEAP_ENOMEM;
    *out = (np_named_data){v.n, at};
    for (uint32_t i = 0; i < v.n && !fb->fault; i++) {
        const np_fb_table d = np_fb_element_table(fb, v, i);
        at[i].name = np_fb_string(fb, d, 0);
        const uint32_t segment = np_fb_u32(fb, d, 1, 0);
        if (fb->fault)
            break;
        if (!at[i].name.p)
            return np_fail(blocks->ctx, NEAP_EFORMAT, "named data %" PRIu32 ": has no name", i);
        if (segment >= segments->n)
            return np_fail(blocks->ctx, NEAP_EFORMAT,
                           "named data '%s': segment %" PRIu32 ", the file has %" PRIu32,
                           np_show(at[i].name).text, segment, segments->n);
        at[i].data = segments->at[segment];
    }
    if (fb->fault)
        return np_fb_status(blocks->ctx, fb, "named data");
    sort_names(NULL, at, v.n);
    for (uint32_t i = 1; i < v.n; i++)
        if (compare_names(at[i - 1].name, at[i].name) == 0)
            return np_fail(blocks->ctx, NEAP_EFORMAT, "named data '%s' appears twice",
                           np_show(at[i].name).text);
    return NEAP_OK;
}

bool np_named_data_find(const np_named_data *data, const char *name, np_bytes *out)
{
    const np_bytes want = {(const uint8_t *)name, strlen(name)};
    for (uint32_t low = 0, high = data->n; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        const int c = compare_names(want, data->at[middle].name);
        if (c == 0) {
            *out = data->at[middle].data;
            return true;
        }
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}
