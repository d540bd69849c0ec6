/* help.c - see help.h: the help of the command and of its commands. */
#include "cli/help.h"

#include <ctype.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cmd_plan.h"

const cli_command cli_commands[] = {
#define COMMAND(name, text) {#name, text, cmd_##name},
#include "cli/commands.def"
#undef COMMAND
    {NULL, NULL, NULL},
};

void cli_help_commands(FILE *file)
{
    fputs("Usage: neap COMMAND [OPTION...]\n"
          "Runs tensor programs inside a byte budget and tells beforehand what they need.\n\n",
          file);
    for (const cli_command *c = cli_commands; c->name; c++)
        fprintf(file, "  %-10s %s\n", c->name, c->text);
    fputs("\n`neap help COMMAND` lists the options of a command; `neap --version` tells the version.\n"
          "`neap help --man` writes the manual page, `neap help --completion bash` completions.\n"
          "Exit status: 0 done, 1 the work failed, 2 the command line is wrong, 130 interrupted\n"
          "(a second Ctrl-C ends at once).\n",
          file);
}

/* ---- the help of one command ---------------------------------------------------------------- */

enum { COLUMNS = 80, TEXT_COLUMN = 24 };

/* Words of `text` from TEXT_COLUMN on; the cursor stands at `column` of the first line. */
static void print_wrapped(FILE *file, const char *text, int column)
{
    if (column > TEXT_COLUMN - 2) {
        fputc('\n', file);
        column = 0;
    }
    column += fprintf(file, "%*s", TEXT_COLUMN - column, "");
    for (bool first = true; *text; first = false) {
        const size_t word = strcspn(text, " ");
        if (!first && column + 1 + (int)word > COLUMNS - 1) {
            column = fprintf(file, "\n%*s", TEXT_COLUMN, "") - 1;
            first = true;
        }
        column += fprintf(file, "%s%.*s", first ? "" : " ", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    fputc('\n', file);
}

static void print_row(FILE *file, const cli_option *o)
{
    int column = o->letter ? fprintf(file, "  -%c, --%s", o->letter, o->name)
                           : fprintf(file, "      --%s", o->name);
    if (cli_takes_value(o))
        column += fprintf(file, "=%s", o->value);
    print_wrapped(file, o->help, column);
}

void cli_help_print(FILE *file, const char *command, const char *usage, const cli_option *table)
{
    fprintf(file, "Usage: neap %s %s\n", command, usage);
    for (const cli_command *c = cli_commands; c->name; c++)
        if (!strcmp(c->name, command))
            fprintf(file, "%c%s.\n", toupper((unsigned char)*c->text), c->text + 1);
    fputc('\n', file);
    for (const cli_option *o = table; o->name; o++)
        print_row(file, o);
}

/* ---- neap help -------------------------------------------------------------------------------- */

static int help_of(int argc, char **argv)
{
    char help[] = "--help", *line[4] = {argv[0], help, NULL, NULL};
    int n = 2;
    if (argc > 1) { /* plan generate */
        line[1] = argv[1];
        line[n++] = help;
    }
    for (const cli_command *c = cli_commands; c->name; c++)
        if (!strcmp(c->name, argv[0]))
            return c->run(n, line);
    return cli_usage("help %s: no such command; `neap --help` lists them", argv[0]);
}

int cli_help(int argc, char **argv)
{
    if (argc < 2) {
        cli_help_commands(stdout);
        return cli_flush_output();
    }
    if (!strcmp(argv[1], "--man") && argc == 2)
        return cli_print_manual(stdout);
    if (!strcmp(argv[1], "--completion") && argc == 3 && !strcmp(argv[2], "bash"))
        return cli_print_completion(stdout);
    if (argv[1][0] == '-')
        return cli_usage("help %s: expected COMMAND, --man or --completion bash", argv[1]);
    const bool plan = !strcmp(argv[1], "plan");
    if (argc > (plan ? 3 : 2))
        return cli_usage("help: unexpected argument %s", argv[plan ? 3 : 2]);
    return help_of(argc - 1, argv + 1);
}

/* ---- every table -------------------------------------------------------------------------------- */

void cli_each_table(cli_table_visit *visit, void *user)
{
    char plan[] = "plan", word[32];
    cli_options_visit(visit, user);
    for (const cli_command *c = cli_commands; c->name; c++)
        if (strcmp(c->name, plan) != 0) {
            snprintf(word, sizeof word, "%s", c->name);
            char *line[] = {word, NULL};
            c->run(1, line);
        }
    for (int i = 0; cli_plan_word(i); i++) {
        snprintf(word, sizeof word, "%s", cli_plan_word(i));
        char *line[] = {plan, word, NULL};
        cmd_plan(2, line);
    }
    cli_options_visit(NULL, NULL);
}
