/* start.c - what commands do before their work, see cli.h: files that must differ, a context. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

/* Devices and pipes may be named twice. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) != 0)
        return !strcmp(a, b);
    return S_ISREG(x.st_mode) && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int cli_check_files(const cli_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; files[i].output && j < i; j++)
            if (files[i].path && files[j].path && same_file(files[i].path, files[j].path))
                return cli_usage("%s %s: the same file as %s", files[i].option, files[i].path,
                                 files[j].option);
    return CLI_DONE;
}

int cli_context_new(int64_t threads, neap_context **out)
{
    neap_context_options options = NEAP_CONTEXT_OPTIONS_INIT;
    options.threads = (int)threads;
    const neap_status status = neap_context_new(&options, out);
    if (status == NEAP_OK)
        return CLI_DONE;
    *out = NULL; /* so there is none to ask for the text */
    const char *isa = getenv("NEAP_ISA");
    if (status == NEAP_EINVAL && isa)
        return cli_failed("NEAP_ISA=%s: not a kernel set that this machine runs (base, avx2, avx512)",
                          isa);
    return cli_failed("no context: %s", neap_status_text(status));
}

int cli_processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > 256 ? 256 : count;
}
