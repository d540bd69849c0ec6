/* dispatch.c - chooses a kernel table once, at context creation. */
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu_features.h"
#include "cpu/kernels.h"

extern const np_kernels np_kernels_base;
#if defined(__x86_64__) && !defined(NP_BASE_KERNELS_ONLY)
extern const np_kernels np_kernels_avx2, np_kernels_avx512;
#endif

const np_kernels *const *np_kernels_available(void)
{
#if defined(__x86_64__) && !defined(NP_BASE_KERNELS_ONLY)
    static const np_kernels *const all[] = {&np_kernels_avx512, &np_kernels_avx2, &np_kernels_base,
                                            NULL};
    np_cpu_features f = np_cpu_features_read();
    return f.avx512_vnni ? all : f.avx2 ? all + 1 : all + 2;
#else
    static const np_kernels *const all[] = {&np_kernels_base, NULL};
    return all;
#endif
}

neap_status np_kernels_choose(neap_context *ctx, const np_kernels **out)
{
    const np_kernels *const *all = np_kernels_available();
    const char *wanted = getenv("NEAP_ISA");
    *out = all[0];
    if (!wanted || !*wanted)
        return NEAP_OK;
    for (; *all; all++) {
        if (strcmp((*all)->isa, wanted) == 0) {
            *out = *all;
            return NEAP_OK;
        }
    }
    return np_fail(ctx, NEAP_EINVAL, "NEAP_ISA=%s: this machine runs base%s%s", wanted,
                   np_cpu_features_read().avx2 ? ", avx2" : "",
                   np_cpu_features_read().avx512_vnni ? ", avx512" : "");
}
