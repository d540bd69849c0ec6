/* planner.c - see planner.h. */
#include "cli/planner.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned without;
} words[] = {
    {"no-fusion",    NEAP_PLAN_NO_FUSION   },
    {"no-sideways",  NEAP_PLAN_NO_SIDEWAYS },
    {"no-order",     NEAP_PLAN_NO_ORDER    },
    {"no-streaming", NEAP_PLAN_NO_STREAMING},
    {"no-recompute", NEAP_PLAN_NO_RECOMPUTE},
    {"low-memory",   NEAP_PLAN_LOW_MEMORY  },
};
enum { N_WORDS = sizeof words / sizeof words[0] };

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && !memcmp(text, word, n);
}

static bool read_size(const char *text, size_t n, int *out)
{
    static const char key[] = "max-fusion=";
    const size_t skip = sizeof key - 1;
    char *end;
    if (n <= skip || memcmp(text, key, skip) || text[skip] < '0' || text[skip] > '9')
        return false;
    errno = 0;
    const long value = strtol(text + skip, &end, 10);
    *out = (int)value;
    return end == text + n && errno == 0 && value >= 1 && value <= INT_MAX;
}

static bool read_one(const char *text, size_t n, neap_plan_options *out)
{
    for (size_t i = 0; i < N_WORDS; i++)
        if (is_word(text, n, words[i].name)) {
            out->without |= words[i].without;
            return true;
        }
    return read_size(text, n, &out->max_fusion_size);
}

static bool read_list(const char *text, neap_plan_options *out)
{
    for (;;) {
        const size_t n = strcspn(text, ",");
        if (!read_one(text, n, out))
            return false;
        if (text[n] == '\0')
            return true;
        text += n + 1;
    }
}

int cli_planner_use(const cli_settings *settings, cli_plan_data *picture, neap_context *ctx)
{
    neap_plan_options o = NEAP_PLAN_OPTIONS_INIT;
    if (!settings->planner && !picture)
        return CLI_DONE;
    if (settings->planner && !read_list(settings->planner, &o))
        return cli_usage("--planner %s: expected no-fusion, no-sideways, no-order, no-streaming, "
                         "no-recompute, low-memory or max-fusion=N with N from 1 to %d, between "
                         "commas",
                         settings->planner, INT_MAX);
    if (picture) {
        o.explain = cli_plan_data_event;
        o.user = picture;
    }
    return neap_context_plan_options(ctx, &o) == NEAP_OK ? CLI_DONE : cli_context_failed(ctx);
}
