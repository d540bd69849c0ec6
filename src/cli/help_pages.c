/* help_pages.c - the manual page and bash's completions. Both are made of the option tables, so
 * neither can differ from what the command takes. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cmd_plan.h"
#include "cli/help.h"

/* Rows as a table has them: their strings are constants and outlive it. */
typedef struct kept_table {
    char command[32];
    cli_option rows[CLI_OPTIONS_MAX + 1];
} kept_table;

enum { KEPT_MAX = 16 };
typedef struct pages {
    FILE *file;
    int n_kept;
    kept_table kept[KEPT_MAX];
} pages;

static bool has_row(const cli_option *table, const cli_option *row)
{
    for (; table->name; table++)
        if (!strcmp(table->name, row->name) && !strcmp(table->help, row->help))
            return true;
    return false;
}

static const cli_option *kept_rows(const pages *p, const char *command)
{
    for (int i = 0; i < p->n_kept; i++)
        if (!strcmp(p->kept[i].command, command))
            return p->kept[i].rows;
    static const cli_option none[1];
    return none;
}

static void keep(pages *p, const char *command, const cli_option *table)
{
    if (p->n_kept == KEPT_MAX)
        return;
    kept_table *k = &p->kept[p->n_kept++];
    snprintf(k->command, sizeof k->command, "%s", command);
    for (int i = 0; table[i].name && i < CLI_OPTIONS_MAX; i++)
        k->rows[i] = table[i];
}

/* ---- the manual page: man(7) ------------------------------------------------------------------ */

/* Text of a line: what roff would take for a request or an escape is shielded. */
static void put_roff(FILE *file, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", file);
    for (; *text; text++)
        if (*text == '\\')
            fputs("\\e", file);
        else if (*text == '-')
            fputs("\\-", file);
        else
            fputc(*text, file);
}

static void put_option(FILE *file, const cli_option *o)
{
    fputs(".TP\n", file);
    if (o->letter)
        fprintf(file, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", file);
    put_roff(file, o->name);
    fputs("\\fR", file);
    if (cli_takes_value(o)) {
        fputs("=\\fI", file);
        put_roff(file, o->value);
        fputs("\\fR", file);
    }
    fputc('\n', file);
    put_roff(file, o->help);
    fputc('\n', file);
}

static bool is_common(const cli_option *o)
{
    cli_settings settings = CLI_SETTINGS_INIT, *s = &settings;
    const cli_option rows[] = {
#include "cli/common_options.def"
        {.name = NULL},
    };
    return has_row(rows, o);
}

static void manual_table(void *user, const char *command, const char *usage,
                         const cli_option *table)
{
    pages *p = user;
    const char *word = strncmp(command, "plan ", 5) ? NULL : command + 5;
    const cli_option *of_word = word ? kept_rows(p, word) : NULL;
    fputs(".SS neap ", p->file);
    put_roff(p->file, command);
    fputc(' ', p->file);
    put_roff(p->file, usage);
    fputc('\n', p->file);
    for (const cli_command *c = cli_commands; c->name; c++)
        if (!strcmp(c->name, command))
            fprintf(p->file, "%c%s.\n", toupper((unsigned char)*c->text), c->text + 1);
    if (of_word && of_word->name)
        fprintf(p->file, "What \\fBneap %s\\fR would need. Takes its options, and these:\n", word);
    for (const cli_option *o = table; o->name; o++)
        if (!is_common(o) && !(of_word && has_row(of_word, o)))
            put_option(p->file, o);
    keep(p, command, table);
}

int cli_print_manual(FILE *file)
{
    pages *p = calloc(1, sizeof *p);
    if (!p)
        return cli_failed("out of memory");
    p->file = file;
    fputs(".TH NEAP 1 \"\" \"neap " NEAP_VERSION "\" \"User Commands\"\n"
          ".SH NAME\nneap \\- tensor programs inside a byte budget\n"
          ".SH SYNOPSIS\n.B neap\n.I COMMAND\n.RI [ OPTION ...]\n"
          ".SH DESCRIPTION\n"
          "Runs language models, exported programs and speech recognition inside a budget of bytes\n"
          "that the user names, and tells beforehand what they need.\n"
          "Results go to standard output, progress and messages to standard error.\n",
          file);
    fputs(".SH COMMANDS\n", file);
    cli_each_table(manual_table, p);
    fputs(".SH OPTIONS OF EVERY COMMAND\n", file);
    for (const cli_option *o = kept_rows(p, "info"); o->name; o++)
        if (is_common(o))
            put_option(file, o);
    fputs(".SH EXIT STATUS\n"
          ".TP\n0\ndone\n.TP\n1\nthe work failed; the message says what, where and what would help\n"
          ".TP\n2\nthe command line is wrong\n.TP\n130\ninterrupted by Ctrl\\-C; what there was is kept\n"
          ".SH ENVIRONMENT\n"
          ".TP\nNEAP_ISA\nthe kernels that are used: base, avx2 or avx512 (default: the best that the\n"
          "processor has)\n",
          file);
    free(p);
    return cli_flush_output();
}

/* ---- completions -------------------------------------------------------------------------------- */

/* Names of the table's options, as words. */
static void put_words(FILE *file, const cli_option *table)
{
    for (const cli_option *o = table; o->name; o++) {
        fprintf(file, "%s--%s", o == table ? "" : " ", o->name);
        if (o->letter)
            fprintf(file, " -%c", o->letter);
    }
}

/* The case pattern of an option: "--model|-m". */
static void put_pattern(FILE *file, const cli_option *o)
{
    fprintf(file, "        --%s", o->name);
    if (o->letter)
        fprintf(file, "|-%c", o->letter);
}

/* What may stand after an option that takes a value; nothing for numbers and texts. */
static void put_values(FILE *file, const cli_option *o)
{
    if (!cli_takes_value(o))
        return;
    put_pattern(file, o);
    if (o->kind == CLI_CHOICE) {
        fputs(") words='", file);
        for (const char *c = o->value; *c; c++)
            fputc(*c == '|' ? ' ' : *c, file);
        fputs("' files= ;;\n", file);
    } else {
        const bool names_file = strstr(o->value, "FILE") || strstr(o->value, "DIR");
        fprintf(file, ") files=%s words= ;;\n", names_file ? "yes" : "");
    }
}

static void completion_table(void *user, const char *command, const char *usage,
                             const cli_option *table)
{
    FILE *file = user;
    const bool graph = strstr(command, "--graph") != NULL;
    (void)usage;
    fprintf(file, "    '%s')\n        words='", graph ? "plan --graph" : command);
    put_words(file, table);
    fputs("' files=yes\n        case $prev in\n", file);
    for (const cli_option *o = table; o->name; o++)
        put_values(file, o);
    fputs("        esac ;;\n", file);
}

int cli_print_completion(FILE *file)
{
    fputs("# Completions of neap for bash, written by `neap help --completion bash`.\n"
          "_neap()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local command=${COMP_WORDS[1]} words= files=\n"
          "    if [ \"$cur\" = = ]; then cur=; fi\n"
          "    if [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n        command=\n    fi\n"
          "    if [ \"$command\" = plan ]; then\n"
          "        [ \"$COMP_CWORD\" = 2 ] || command=\"plan ${COMP_WORDS[2]}\"\n    fi\n"
          "    case $command in\n    '') words='",
          file);
    for (const cli_command *c = cli_commands; c->name; c++)
        fprintf(file, "%s ", c->name);
    fputs("help --help --version' ;;\n    plan) words='", file);
    for (int i = 0; cli_plan_word(i); i++)
        fprintf(file, "%s ", cli_plan_word(i));
    fputs("--help' ;;\n    help) words='", file);
    for (const cli_command *c = cli_commands; c->name; c++)
        fprintf(file, "%s ", c->name);
    fputs("--man --completion' ;;\n", file);
    cli_each_table(completion_table, file);
    fputs("    esac\n"
          "    if [ -n \"$words\" ]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n    fi\n"
          "    if [ -n \"$files\" ] && [ \"${cur#-}\" = \"$cur\" ]; then\n"
          "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\")\n    fi\n"
          "}\n"
          "complete -o filenames -F _neap neap\n",
          file);
    return cli_flush_output();
}
