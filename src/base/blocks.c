/* blocks.c - see blocks.h. */
#include "base/blocks.h"

#include <string.h>

struct np_block {
    np_block *before;
    size_t size, used;
    _Alignas(16) uint8_t bytes[];
};

enum { LEAST_BLOCK = 2048, MOST_BLOCK = 64 << 10 };

/* Each block is as large as all before it together, so few are taken and little is left over. */
static np_block *add_block(np_blocks *b, uint64_t bytes)
{
    uint64_t size = b->bytes < LEAST_BLOCK ? LEAST_BLOCK : b->bytes;
    if (size > MOST_BLOCK)
        size = MOST_BLOCK;
    size -= sizeof(np_block);
    if (bytes > size)
        size = bytes;
    if (size > SIZE_MAX / 2) {
        np_fail(b->ctx, NEAP_ENOMEM, "%llu bytes asked at once", (unsigned long long)bytes);
        return NULL;
    }
    np_block *n = np_alloc(b->ctx, NEAP_MEM_HOST, sizeof *n + (size_t)size);
    if (!n)
        return NULL;
    *n = (np_block){.before = b->last, .size = (size_t)size};
    b->bytes += sizeof *n + size;
    b->last = n;
    return n;
}

void *np_blocks_take(np_blocks *b, uint64_t bytes)
{
    if (bytes > UINT64_MAX - 15)
        bytes = UINT64_MAX - 15;
    bytes = bytes ? (bytes + 15) & ~(uint64_t)15 : 16;
    np_block *last = b->last;
    if ((!last || last->size - last->used < bytes) && !(last = add_block(b, bytes)))
        return NULL;
    void *p = last->bytes + last->used;
    last->used += (size_t)bytes;
    return memset(p, 0, (size_t)bytes);
}

void *np_blocks_array(np_blocks *b, uint64_t n, size_t element)
{
    uint64_t bytes;
    return np_blocks_take(b, np_mul_size(n, element, &bytes) ? bytes : UINT64_MAX);
}

const char *np_blocks_string(np_blocks *b, np_bytes text)
{
    char *copy = np_blocks_take(b, text.n + 1);
    if (copy && text.n)
        memcpy(copy, text.p, (size_t)text.n);
    return copy;
}

void np_blocks_free(np_blocks *b)
{
    for (np_block *block = b->last, *before; block; block = before) {
        before = block->before;
        np_free(b->ctx, NEAP_MEM_HOST, block, sizeof *block + block->size);
    }
    b->last = NULL;
    b->bytes = 0;
}
