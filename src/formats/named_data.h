/* named_data.h - what .pte and .ptd files have in common: data segments behind a flatbuffer, and
 * names for them. Names and bytes stay in the file. */
#ifndef NP_NAMED_DATA_H
#define NP_NAMED_DATA_H

#include "base/blocks.h"
#include "formats/flatbuffer.h"

typedef struct np_segments {
    uint32_t n;
    const np_bytes *at;
} np_segments;

typedef struct np_named {
    np_bytes name, data;
} np_named;

typedef struct np_named_data {
    uint32_t n;
    np_named *at; /* by name, so a lookup is logarithmic for any input */
} np_named_data;

/* Reads a field [DataSegment]; `base` is where segments begin in `file`. */
neap_status np_segments_read(np_blocks *blocks, np_fb *fb, np_fb_table t, int field, np_bytes file,
                             uint64_t base, np_segments *out);
/* Reads a field [NamedData]. */
neap_status np_named_data_read(np_blocks *blocks, np_fb *fb, np_fb_table t, int field,
                               const np_segments *segments, np_named_data *out);
bool np_named_data_find(const np_named_data *data, const char *name, np_bytes *out);

/* The sticky fault of `fb`, if there is one, as NEAP_EFORMAT: "<what>: field 3 ... at byte 120". */
neap_status np_fb_status(neap_context *ctx, const np_fb *fb, const char *what);

/* A .ptd file that lies in memory. */
neap_status np_ptd_parse(np_blocks *blocks, np_bytes file, np_named_data *out);

#endif
