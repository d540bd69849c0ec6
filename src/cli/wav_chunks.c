/* wav_chunks.c - see wav_chunks.h. RIFF as "Multimedia Programming Interface and Data Specifications 1.0"
 * (IBM, Microsoft 1991) has it, RF64 as EBU Tech 3306. */
#include "cli/wav_chunks.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

typedef enum chunk_use { APPLIED, HARMLESS, REFUSED } chunk_use;

static const struct {
    char id[5];
    chunk_use use;
    const char *reason;
} known[] = {
#define WAV_CHUNK(id, use, reason) {id, use, reason},
#include "cli/wav_chunks.def"
#undef WAV_CHUNK
};

enum { CHUNKS_MOST = 4096 };

static uint32_t number(const unsigned char *p, bool big)
{
    return big ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
               : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static const char *refusal_of(const char *id)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!memcmp(known[i].id, id, 4))
            return known[i].use == REFUSED ? known[i].reason : NULL;
    return NULL;
}

const char *cli_wav_refused(int file, char id[5])
{
    unsigned char head[12];
    if (pread(file, head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head + 8, "WAVE", 4) != 0)
        return NULL;
    const bool big = !memcmp(head, "RIFX", 4);
    if (!big && memcmp(head, "RIFF", 4) != 0 && memcmp(head, "RF64", 4) != 0)
        return NULL;
    off_t at = sizeof head;
    bool heard = false;
    for (int i = 0; i < CHUNKS_MOST; i++) {
        if (pread(file, head, 8, at) != 8)
            return NULL;
        memcpy(id, head, 4);
        id[4] = '\0';
        const uint32_t size = number(head + 4, big);
        const bool data = !memcmp(id, "data", 4);
        if (data && heard)
            return "only the first of several would be heard";
        const char *why = refusal_of(id);
        if (why)
            return why;
        if (data && (size == 0 || size >= 0xFFFFFF00u))
            return NULL; /* left open by a stream, or told in ds64: it goes to the end */
        heard |= data;
        at += 8 + (off_t)size + (size & 1);
    }
    return "4096 chunks are the most that are looked through";
}
