/* start.c - what commands do before their work, see cli.h: files that must differ, a context. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"

/* Devices and pipes may be named twice. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) != 0)
        return !strcmp(a, b);
    return S_ISREG(x.st_mode) && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Is it one of those that a command reads from the folder? */
static bool in_folder(const char *path, const char *folder)
{
    static const char *const names[] = {"encoder.pte", "cross_kv.pte", "decoder.pte",
                                        "tokenizer.json"};
    char file[4096];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int n = snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        if (n > 0 && (size_t)n < sizeof file && same_file(file, path))
            return true;
    }
    return false;
}

/* Is the file what a standard stream was led from or to? */
static bool is_standard(const char *path, int stream)
{
    struct stat x, y;
    return fstat(stream, &x) == 0 && S_ISREG(x.st_mode) && stat(path, &y) == 0 &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int check_output(const cli_file *output, const cli_file *before, size_t count)
{
    const char *option = output->option, *path = output->path;
    if (!strcmp(path, "-"))
        return !strcmp(option, "--stats")
                   ? CLI_DONE
                   : cli_usage("%s -: expected a file; only --stats can go to standard output", option);
    for (size_t i = 0; i < count; i++)
        if (before[i].path && same_file(before[i].path, path))
            return cli_usage("%s %s: the same file as %s", option, path, before[i].option);
        else if (before[i].path && !before[i].output && in_folder(path, before[i].path))
            return cli_usage("%s %s: a file of the folder %s", option, path, before[i].option);
    if (is_standard(path, STDIN_FILENO))
        return cli_usage("%s %s: the same file as standard input", option, path);
    if (is_standard(path, STDOUT_FILENO))
        return cli_usage("%s %s: the same file as standard output", option, path);
    return CLI_DONE;
}

int cli_check_files(const cli_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (files[i].output && files[i].path) {
            const int status = check_output(&files[i], files, i);
            if (status != CLI_DONE)
                return status;
        }
    return CLI_DONE;
}

/* Names those that this machine does run, best last. */
static int refuse_isa(const char *isa)
{
    static const char *const sets[] = {"base", "avx2", "avx512"};
    char asked[64], runs[64] = "";
    snprintf(asked, sizeof asked, "%s", isa);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        neap_context *ctx;
        neap_context_options options = NEAP_CONTEXT_OPTIONS_INIT;
        options.threads = 1;
        if (setenv("NEAP_ISA", sets[i], 1) == 0 && neap_context_new(&options, &ctx) == NEAP_OK) {
            const size_t n = strlen(runs);
            snprintf(runs + n, sizeof runs - n, "%s%s", n ? ", " : "", sets[i]);
            neap_context_free(ctx);
        }
    }
    setenv("NEAP_ISA", asked, 1);
    return cli_failed("NEAP_ISA=%s: not a kernel set that this machine runs; it runs %s", asked, runs);
}

int cli_context_new(int64_t threads, neap_context **out)
{
    neap_context_options options = NEAP_CONTEXT_OPTIONS_INIT;
    options.threads = (int)threads;
    const neap_status status = neap_context_new(&options, out);
    if (status == NEAP_OK)
        return CLI_DONE;
    *out = NULL; /* so there is none to ask for the text */
    if (status == NEAP_EINVAL && getenv("NEAP_ISA"))
        return refuse_isa(getenv("NEAP_ISA"));
    return cli_failed("no context: %s", neap_status_text(status));
}

uint64_t cli_machine_budget(uint64_t planned, bool quiet, const char **whose)
{
    neap_machine_memory_info m = NEAP_MACHINE_MEMORY_INFO_INIT;
    neap_machine_memory(getenv("NEAP_MACHINE_ROOT"), &m); /* for tests */
    if (cli_unlimited() || m.budget == 0 || planned <= m.budget)
        return 0;
    *whose = neap_machine_limit_name(m.binding);
    if (!quiet)
        fprintf(stderr, "budget %s: %s of this machine, %s, leaves no more (--memory none lifts it)\n",
                cli_mib(m.budget).text, *whose, cli_mib(m.limit).text);
    return m.budget;
}

int cli_processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > 256 ? 256 : count;
}
