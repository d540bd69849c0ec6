/* fuzz_wav_chunks.c - any bytes as a WAV file whose chunks are looked through. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/wav_chunks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char id[5];
    const int file = memfd_create("sound", MFD_CLOEXEC);
    if (file < 0)
        return 0;
    if (write(file, data, size) == (ssize_t)size)
        cli_wav_refused(file, id);
    close(file);
    return 0;
}
