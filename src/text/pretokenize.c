/* pretokenize.c - the named pre-tokenizers, see pretokenizers.def. */
#include "text/pretokenize.h"

static const np_pretokenizer_kind kinds[] = {
#define NP_PRETOKENIZER(names_, ignore, bos, ...) \
    {.names = names_, .patterns = {__VA_ARGS__}, .ignore_merges = ignore, .add_bos = bos},
#include "text/pretokenizers.def"
#undef NP_PRETOKENIZER
};

static bool has_name(const char *names, np_bytes name)
{
    for (const char *p = names; (p = strchr(p, ' ')) != NULL; p++) {
        const char *end = strchr(p + 1, ' ');
        if (end && (uint64_t)(end - p - 1) == name.n && memcmp(p + 1, name.p, name.n) == 0)
            return true;
    }
    return false;
}

neap_status np_pretokenizer_find(neap_context *ctx, np_bytes name, const np_pretokenizer_kind **out)
{
    static const uint8_t fallback[] = "default";
    if (name.n == 0)
        name = (np_bytes){fallback, sizeof fallback - 1};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (has_name(kinds[i].names, name)) {
            *out = &kinds[i];
            return NEAP_OK;
        }
    }
    int shown = name.n < 64 ? (int)name.n : 64;
    return np_fail(ctx, NEAP_EUNSUPPORTED,
                   "pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not one of those known", shown,
                   (const char *)name.p);
}

int np_pretokenizer_cuts(const np_pretokenizer_kind *kind, np_step out[NP_PRETOKENIZER_PATTERNS])
{
    int n = 0;
    for (; n < NP_PRETOKENIZER_PATTERNS && kind->patterns[n]; n++) {
        const char *pattern = kind->patterns[n];
        out[n] = (np_step){.kind = NP_STEP_CUT, .pattern = {(const uint8_t *)pattern, strlen(pattern)}};
    }
    return n;
}
