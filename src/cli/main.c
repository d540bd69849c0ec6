/* main.c - the command `neap`: finds the command word and calls its file. A new command is a file
 * cmd_<name>.c and a row in commands.def. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/help.h"
#include "cli/stats.h"

/* What it is, what it was built with, and which kernels this processor gets. */
static int print_version(void)
{
    neap_context *ctx;
    if (cli_context_new(1, &ctx) != CLI_DONE)
        return CLI_FAILED;
    printf("neap %s\nbuild: %s, %s\nkernels: %s; in use: %s\n", NEAP_VERSION, NEAP_BUILD,
           NEAP_COMPILER, NEAP_KERNEL_SETS, neap_context_isa(ctx));
    neap_context_free(ctx);
    return cli_flush_output();
}

/* A file that is opened must not become the standard output because that was closed: text would go into
 * it. What takes the place fails as a closed one does. */
static void fill_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    fill_standard_files();
    cli_stats_note_start();
    if (argc < 2) {
        cli_help_commands(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        cli_help_commands(stdout);
        return cli_flush_output();
    }
    if (!strcmp(argv[1], "help"))
        return cli_help(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--version"))
        return print_version();
    for (const cli_command *c = cli_commands; c->name; c++)
        if (!strcmp(argv[1], c->name))
            return c->run(argc - 1, argv + 1);
    return cli_usage("%s: no such command; `neap --help` lists them", argv[1]);
}
