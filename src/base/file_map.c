/* file_map.c - see file_map.h. */
#include "base/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

neap_status np_file_map_open(neap_context *ctx, const char *path, np_file_map *out)
{
    *out = (np_file_map){0};
    /* Not blocking: a pipe without a writer is refused below, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return np_fail(ctx, NEAP_EIO, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return np_fail(ctx, NEAP_EIO, "%s: not a regular file", path);
    }
    void *p = NULL;
    if (st.st_size > 0) {
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            int error = errno;
            close(fd);
            return np_fail(ctx, NEAP_EIO, "%s: cannot be mapped: %s", path, strerror(error));
        }
    }
    close(fd);
    np_ledger_map(&ctx->ledger, st.st_size);
    *out = (np_file_map){ctx, p, (uint64_t)st.st_size};
    return NEAP_OK;
}

void np_file_map_close(np_file_map *map)
{
    if (!map->ctx)
        return;
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->bytes);
    np_ledger_map(&map->ctx->ledger, -(int64_t)map->bytes);
    *map = (np_file_map){0};
}
