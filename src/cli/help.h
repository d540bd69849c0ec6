/* help.h - what is made of the option tables: `--help`, the manual page, completions for bash. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/options.h"

/* `--help` of a command, readable at 80 columns. `usage` follows the command in the first line. */
void cli_help_print(FILE *file, const char *command, const char *usage, const cli_option *table);

/* `neap help ...`: the list of commands, the help of one, `--man`, `--completion bash`. */
int cli_help(int argc, char **argv);

typedef int cli_command_run(int argc, char **argv);
typedef struct cli_command {
    const char *name, *text;
    cli_command_run *run;
} cli_command;
/* The commands of commands.def, in its order; a NULL name ends them. */
extern const cli_command cli_commands[];

/* What `neap --help` shows. */
void cli_help_commands(FILE *file);

/* help_pages.c: 0 or the exit status. Both are made of the tables of every command. */
int cli_print_manual(FILE *file);
int cli_print_completion(FILE *file);

/* Calls `visit` with the table of each command and of each that `plan` takes: "generate", ...,
 * "plan generate", ..., "plan --graph". What `visit` gets lives during the call. */
void cli_each_table(cli_table_visit *visit, void *user);

#endif
