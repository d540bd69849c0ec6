/* main.c - the command `neap`: finds the command word and calls its file. A new command is a file
 * cmd_<name>.c and a row in commands.def. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/stats.h"

typedef struct command {
    const char *name, *text;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
#define COMMAND(name, text) {#name, text, cmd_##name},
#include "cli/commands.def"
#undef COMMAND
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *file)
{
    fputs("Usage: neap COMMAND [OPTION...]\n"
          "Runs tensor programs inside a byte budget and tells beforehand what they need.\n\n",
          file);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].text);
    fputs("\n`neap COMMAND --help` lists the options of a command; `neap --version` tells the "
          "version.\n"
          "Exit status: 0 done, 1 the work failed, 2 the command line is wrong, 130 interrupted.\n",
          file);
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
        print_help(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return cli_flush_output();
    }
    if (!strcmp(argv[1], "--version")) {
        printf("neap %s\n", NEAP_VERSION);
        return cli_flush_output();
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    return cli_usage("%s: no such command; `neap --help` lists them", argv[1]);
}
