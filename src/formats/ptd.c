/* ptd.c - named data in a file of its own (ExecuTorch's flat_tensor.fbs, identifier "FT01").
 *
 * The flatbuffer starts at byte 0, a header is spliced in at byte 8: "FH01", u32 header_len, u64
 * flatbuffer_offset, u64 flatbuffer_size, u64 segment_base, u64 segment_data_size. FlatTensor: 0
 * version, 1 segments [DataSegment], 2 named_data [NamedData]. */
#include <inttypes.h>

#include "formats/named_data.h"

enum { HEADER = 8, LEAST_HEADER = 40 };

neap_status np_ptd_parse(np_blocks *blocks, np_bytes file, np_named_data *out)
{
    np_reader r = np_reader_over(file.p, file.n);
    np_bytes start, magic;
    uint32_t length = 0;
    uint64_t offset = 0, size = 0, base = 0, end = 0;
    if (!np_read_bytes(&r, HEADER, &start) || memcmp(start.p + 4, "FT01", 4) != 0)
        return np_fail(blocks->ctx, NEAP_EFORMAT,
                       "no named data: it does not say 'FT01' at byte 4");
    if (!np_read_bytes(&r, 4, &magic) || memcmp(magic.p, "FH01", 4) != 0 ||
        !np_read_u32(&r, &length) || length < LEAST_HEADER || !np_read_u64(&r, &offset) ||
        !np_read_u64(&r, &size) || !np_read_u64(&r, &base) || !np_add_size(offset, size, &end) ||
        end > file.n || base > file.n)
        return np_fail(blocks->ctx, NEAP_EFORMAT,
                       "named data: its header (%" PRIu32 " bytes) says %" PRIu64 " + %" PRIu64
                       " bytes and segments from %" PRIu64 ", the file has %" PRIu64,
                       length, offset, size, base, file.n);
    np_fb fb = np_fb_over((np_bytes){file.p, end});
    const np_fb_table root = np_fb_root(&fb);
    const uint32_t version = np_fb_u32(&fb, root, 0, 0);
    if (version != 0)
        return np_fail(blocks->ctx, NEAP_EUNSUPPORTED,
                       "named data of schema version %" PRIu32 ", known is 0", version);
    np_segments segments;
    const neap_status s = np_segments_read(blocks, &fb, root, 1, file, base, &segments);
    return s != NEAP_OK ? s : np_named_data_read(blocks, &fb, root, 2, &segments, out);
}
