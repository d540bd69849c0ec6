/* options.h - a command's options as one table of rows, which also makes its --help.
 *
 * A row says how an option is called, what its value is, where it goes and its range; popt splits
 * the command line, options.c checks the values, help.c prints the help. Every complaint names the
 * option, the value and what was expected. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { CLI_LIST_MAX = 32, CLI_OPTIONS_MAX = 48 };

typedef enum cli_kind {
    CLI_FLAG,   /* bool: set to true */
    CLI_TEXT,   /* char *: owned, freed by cli_settings_free */
    CLI_INT,    /* int64_t in [low, high] */
    CLI_REAL,   /* double in [low, high] */
    CLI_SIZE,   /* uint64_t: bytes, or K M G; 0: none */
    CLI_SEED,   /* uint64_t, decimal */
    CLI_CHOICE, /* int: which of the words in `value`, "a|b|c" */
    CLI_LIST,   /* cli_list: integers in [low, high] between commas */
    CLI_EVENTS  /* cli_events: may be given again; rows with one target keep their order there */
} cli_kind;

typedef struct cli_list {
    int count;
    int64_t value[CLI_LIST_MAX];
} cli_list;

typedef struct cli_event {
    const char *option; /* its name */
    char *text;         /* NULL if the option takes no value */
} cli_event;

typedef struct cli_events {
    int count, capacity;
    cli_event *at;
} cli_events;

typedef struct cli_option {
    const char *name; /* "chunk"; NULL ends the table */
    char letter;      /* 'c', or 0 */
    cli_kind kind;
    void *target;
    double low, high;
    const char *value; /* how the help calls the value; NULL: takes none */
    const char *help;
} cli_option;

/* What any command can be told; each command's table offers a part of it. */
typedef struct cli_settings {
    bool help, quiet, json, chat, raw, tokens, ignore_eos, tensors, verbose;
    bool timestamps, srt, no_fallback; /* of transcribe */
    char *model, *tokenizer, *prompt, *system, *chat_template, *ids, *logits, *stats;
    char *method, *data, *kv_cache, *language;
    char *html, *trace, *measured; /* of plan */
    char *planner;
    struct cli_misfit *misfit; /* of plan: it is made for another one, see plan_misfit.h */
    char *file; /* the argument of info, run and transcribe */
    uint64_t memory, seed;
    int64_t threads, context, new_tokens, chunk, top_k, repeat, repeat_call, repeat_last;
    double temperature, top_p, min_p, repeat_penalty;
    int weights, kv_type, speech_task; /* which word of their rows */
    cli_list prompt_sizes, token_counts;
    cli_events calls, options, shapes; /* of run: -i, -o and --call; --option; --shape */
    cli_events stops;                  /* of generate */
} cli_settings;
#define CLI_SETTINGS_INIT                                                             \
    {                                                                                 \
        .context = -1, .new_tokens = 128, .repeat = 5, .repeat_call = 1, .top_p = 1.0, \
        .repeat_penalty = 1.0, .repeat_last = 64                                      \
    }

void cli_settings_free(cli_settings *settings);
/* --memory none: the machine's own limit is not looked at either. */
bool cli_unlimited(void);

/* Rows that several commands have are in model_options.def, session_options.def,
 * plan_options.def, planner_options.def and common_options.def: included in a table, they fill the settings `s`. */

enum { CLI_PARSED = -1 };

static inline bool cli_takes_value(const cli_option *o)
{
    return o->kind != CLI_FLAG && o->value;
}

/* After this, cli_parse gives its table to `visit` instead of reading a command line, and returns
 * CLI_DONE: how help.c comes to the tables. NULL: as before. */
typedef void cli_table_visit(void *user, const char *command, const char *usage,
                             const cli_option *table);
void cli_options_visit(cli_table_visit *visit, void *user);

/* Reads the command line into the table's targets. argv[0] is the command; `usage` is its line of
 * help; `file` takes one argument that is no option (NULL: there is none). CLI_PARSED, or the exit
 * status: wrong, or the help was printed. */
int cli_parse(const cli_option *table, const cli_settings *settings, int argc, char **argv,
              const char *usage, char **file);

#endif
