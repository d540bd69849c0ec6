/* fuzz_npy.c - any bytes as a .npy file: an error or an array whose every byte can be read. */
#include <stdlib.h>

#include "neap/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_context *ctx;
    neap_context_options o = NEAP_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    if (neap_context_new(&o, &ctx) != NEAP_OK)
        abort();
    neap_npy a;
    volatile uint64_t s = 0;
    if (neap_npy_parse(ctx, data, size, "fuzz", &a) == NEAP_OK)
        for (uint64_t i = 0; i < a.bytes; i++)
            s += ((const uint8_t *)a.data)[i];
    neap_context_free(ctx);
    return 0;
}
