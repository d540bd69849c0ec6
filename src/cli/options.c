/* options.c - see options.h. */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/help.h"

static void free_events(cli_events *e)
{
    for (int i = 0; i < e->count; i++)
        free(e->at[i].text);
    free(e->at);
}

void cli_settings_free(cli_settings *s)
{
    char *texts[] = {s->model, s->tokenizer, s->prompt, s->system, s->chat_template, s->ids, s->logits,
                     s->stats, s->method,    s->data,   s->file,   s->kv_cache,
                     s->language, s->html, s->trace, s->measured, s->planner};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    free_events(&s->calls);
    free_events(&s->options);
    free_events(&s->shapes);
    free_events(&s->stops);
}

/* ---- values ------------------------------------------------------------------------------- */

/* Decimal digits with a sign perhaps, and nothing else: strtoll alone takes spaces and a plus. */
static bool read_integer(const char *text, const char **end, int64_t *out)
{
    const char *digits = text + (*text == '-');
    if (*digits < '0' || *digits > '9')
        return false;
    char *stop;
    errno = 0;
    *out = strtoll(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

static bool read_unsigned(const char *text, const char **end, uint64_t *out)
{
    if (*text < '0' || *text > '9')
        return false;
    char *stop;
    errno = 0;
    *out = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

/* Where the digits after a point end, and how many units of 10^-places they are. */
static const char *read_fraction(const char *text, uint64_t *digits, uint64_t *one)
{
    *digits = 0;
    *one = 1;
    for (; *text >= '0' && *text <= '9'; text++)
        if (*one < UINT64_C(1000000000000)) { /* later digits are less than a byte of any size */
            *digits = 10 * *digits + (uint64_t)(*text - '0');
            *one *= 10;
        }
    return text;
}

/* K, KB, KiB and so on, in any case; every one is of 1024. */
static bool read_unit(const char *text, int *shift)
{
    static const char units[] = "KMGT";
    const char *unit = strchr(units, toupper((unsigned char)*text));
    if (!*text || !unit)
        return false;
    *shift = 10 * ((int)(unit - units) + 1);
    text++;
    return !*text || !strcasecmp(text, "B") || !strcasecmp(text, "iB");
}

static bool read_size(const char *text, uint64_t *out)
{
    const char *end;
    uint64_t bytes, digits = 0, one = 1;
    if (!read_unsigned(text, &end, &bytes))
        return false;
    const bool fraction = *end == '.' && end[1] >= '0' && end[1] <= '9';
    if (fraction)
        end = read_fraction(end + 1, &digits, &one);
    int shift = 0;
    if ((fraction || *end) && !read_unit(end, &shift))
        return false;
    if (bytes > (uint64_t)INT64_MAX >> shift)
        return false;
    bytes = (bytes << shift) + (uint64_t)(((unsigned __int128)digits << shift) / one);
    if (bytes == 0 || bytes > INT64_MAX)
        return false;
    *out = bytes;
    return true;
}

static bool read_choice(const char *text, const char *words, int *out)
{
    const size_t length = strlen(text);
    for (int i = 0;; i++) {
        const size_t n = strcspn(words, "|");
        if (n == length && n > 0 && !memcmp(words, text, n)) {
            *out = i;
            return true;
        }
        if (words[n] == '\0')
            return false;
        words += n + 1;
    }
}

static bool read_list(const char *text, double low, double high, cli_list *out)
{
    out->count = 0;
    for (;;) {
        int64_t value;
        if (out->count == CLI_LIST_MAX || !read_integer(text, &text, &value) ||
            (double)value < low || (double)value > high)
            return false;
        out->value[out->count++] = value;
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

static bool read_real(const char *text, double *out)
{
    char *stop;
    *out = strtod(text, &stop); /* too large is infinite, too small is 0 or nearly */
    return stop != text && *stop == '\0' && isfinite(*out);
}

/* ---- one option --------------------------------------------------------------------------- */

static const char *option_title(const cli_option *o, char title[64])
{
    if (o->letter)
        snprintf(title, 64, "-%c", o->letter);
    else
        snprintf(title, 64, "--%s", o->name);
    return title;
}

static int expected(const cli_option *o, const char *text)
{
    char title[64];
    option_title(o, title);
    switch (o->kind) {
    case CLI_SIZE:
        return cli_usage("%s %s: expected a size of at least 1 byte and less than 2^63: bytes, or "
                         "with K, M, G or T (of 1024), as in 300M, 300MiB or 1.5G, or none",
                         title, text);
    case CLI_CHOICE:
        return cli_usage("%s %s: expected one of %s", title, text, o->value);
    case CLI_SEED:
        return cli_usage("%s %s: expected a whole number from 0 to 2^64 - 1", title, text);
    case CLI_REAL:
        return cli_usage("%s %s: expected a number from %g to %g", title, text, o->low, o->high);
    case CLI_LIST:
        return cli_usage(
            "%s %s: expected whole numbers from %.0f to %.0f between commas, at most %d "
            "of them",
            title, text, o->low, o->high, CLI_LIST_MAX);
    default:
        return cli_usage("%s %s: expected a whole number from %.0f to %.0f", title, text, o->low,
                         o->high);
    }
}

static bool unlimited; /* --memory none; one command a process */

bool cli_unlimited(void)
{
    return unlimited;
}

static bool take_value(const cli_option *o, const char *text)
{
    const char *end;
    int64_t integer;
    double real;
    switch (o->kind) {
    case CLI_INT:
        if (!read_integer(text, &end, &integer) || *end != '\0' || (double)integer < o->low ||
            (double)integer > o->high)
            return false;
        *(int64_t *)o->target = integer;
        return true;
    case CLI_REAL:
        if (!read_real(text, &real) || real < o->low || real > o->high)
            return false;
        *(double *)o->target = real;
        return true;
    case CLI_SEED:
        return read_unsigned(text, &end, o->target) && *end == '\0';
    case CLI_SIZE:
        unlimited = strcmp(text, "none") == 0;
        if (unlimited)
            *(uint64_t *)o->target = 0;
        return unlimited || read_size(text, o->target);
    case CLI_CHOICE:
        return read_choice(text, o->value, o->target);
    case CLI_LIST:
        return read_list(text, o->low, o->high, o->target);
    default:
        return false;
    }
}

/* Takes the text over. */
static int take_event(const cli_option *o, char *text)
{
    cli_events *e = o->target;
    if (e->count == e->capacity) {
        const int capacity = e->capacity ? 2 * e->capacity : 8;
        cli_event *at = realloc(e->at, (size_t)capacity * sizeof *at);
        if (!at) {
            free(text);
            return cli_failed("out of memory");
        }
        e->at = at;
        e->capacity = capacity;
    }
    e->at[e->count++] = (cli_event){o->name, text};
    return CLI_PARSED;
}

/* `text` is owned by the caller's popt and becomes ours. */
static int take_option(const cli_option *o, char *text)
{
    if (o->kind == CLI_FLAG) {
        *(bool *)o->target = true;
        free(text);
        return CLI_PARSED;
    }
    if (!text && cli_takes_value(o))
        return cli_failed("out of memory");
    if (o->kind == CLI_EVENTS)
        return take_event(o, text);
    if (o->kind == CLI_TEXT) {
        char **target = o->target;
        free(*target);
        *target = text;
        return CLI_PARSED;
    }
    const int status = take_value(o, text) ? CLI_PARSED : expected(o, text);
    free(text);
    return status;
}

/* ---- the command line --------------------------------------------------------------------- */

static int take_arguments(poptContext popt, const char *command, char **file)
{
    const char *argument;
    while ((argument = poptGetArg(popt))) {
        if (!file)
            return cli_usage("%s: unexpected argument; `neap %s --help` lists the options",
                             argument, command);
        if (*file)
            return cli_usage("%s: unexpected argument, only one file at a time", argument);
        if (!(*file = strdup(argument)))
            return cli_failed("out of memory");
    }
    return CLI_PARSED;
}

static int take_all(poptContext popt, const cli_option *table, const char *command)
{
    int value;
    while ((value = poptGetNextOpt(popt)) > 0) {
        const int status = take_option(&table[value - 1], poptGetOptArg(popt));
        if (status != CLI_PARSED)
            return status;
    }
    if (value == -1)
        return CLI_PARSED;
    return cli_usage("%s: %s; `neap %s --help` lists the options",
                     poptBadOption(popt, POPT_BADOPTION_NOALIAS), poptStrerror(value), command);
}

static struct {
    cli_table_visit *visit;
    void *user;
} visitor;

void cli_options_visit(cli_table_visit *visit, void *user)
{
    visitor.visit = visit;
    visitor.user = user;
}

int cli_parse(const cli_option *table, const cli_settings *settings, int argc, char **argv,
              const char *usage, char **file)
{
    if (visitor.visit) {
        visitor.visit(visitor.user, argv[0], usage, table);
        return CLI_DONE;
    }
    struct poptOption rows[CLI_OPTIONS_MAX + 1] = {0};
    for (int i = 0; table[i].name && i < CLI_OPTIONS_MAX; i++)
        rows[i] = (struct poptOption){table[i].name,
                                      table[i].letter,
                                      cli_takes_value(&table[i]) ? POPT_ARG_STRING : POPT_ARG_NONE,
                                      NULL,
                                      i + 1,
                                      table[i].help,
                                      table[i].value};
    poptContext popt = poptGetContext(NULL, argc, (const char **)argv, rows, 0);
    int status = popt ? CLI_PARSED : cli_failed("out of memory");
    if (popt) {
        status = take_all(popt, table, argv[0]);
        if (status == CLI_PARSED && settings->help) {
            cli_help_print(stdout, argv[0], usage, table);
            status = cli_flush_output();
        }
        if (status == CLI_PARSED)
            status = take_arguments(popt, argv[0], file);
        poptFreeContext(popt);
    }
    return status;
}
