/* file_map.h - a file mapped read-only; its bytes count as `mapped`, not as `active`. */
#ifndef NP_FILE_MAP_H
#define NP_FILE_MAP_H

#include "base/context.h"

typedef struct np_file_map {
    neap_context *ctx;
    const uint8_t *data;
    uint64_t bytes;
} np_file_map;

/* NEAP_EIO names the path and the system's reason. An empty file maps to data = NULL, bytes = 0. */
neap_status np_file_map_open(neap_context *ctx, const char *path, np_file_map *out);
void np_file_map_close(np_file_map *map);

#endif
