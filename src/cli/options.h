/* options.h - a command's options as one table of rows, which also makes its --help.
 *
 * A row says how an option is called, what its value is, where it goes and its range; popt splits
 * the command line and prints the help, options.c checks the values. Every complaint names the
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
    CLI_SIZE,   /* uint64_t: bytes, or K M G */
    CLI_SEED,   /* uint64_t, decimal */
    CLI_CHOICE, /* int: which of the words in `value`, "a|b|c" */
    CLI_LIST    /* cli_list: integers in [low, high] between commas */
} cli_kind;

typedef struct cli_list {
    int count;
    int64_t value[CLI_LIST_MAX];
} cli_list;

typedef struct cli_option {
    const char *name; /* "chunk"; NULL ends the table */
    char letter;      /* 'c', or 0 */
    cli_kind kind;
    void *target;
    double low, high;
    const char *value; /* how the help calls the value */
    const char *help;
} cli_option;

/* What any command can be told; each command's table offers a part of it. */
typedef struct cli_settings {
    bool help, quiet, json, chat, raw, tokens, ignore_eos, tensors;
    char *model, *prompt, *system, *ids, *logits, *stats;
    char *file; /* the argument of info */
    uint64_t memory, seed;
    int64_t threads, context, new_tokens, chunk, top_k, repeat;
    double temperature, top_p, min_p;
    int weights, kv_type; /* which word of their rows */
    cli_list prompt_sizes, token_counts;
} cli_settings;
#define CLI_SETTINGS_INIT                                                                          \
    {.context = -1, .new_tokens = 128, .repeat = 5, .top_p = 1.0}

void cli_settings_free(cli_settings *settings);

/* Rows that several commands have. */
// clang-format off
#define CLI_MODEL_ROWS(s)                                                                           \
    {"model", 'm', CLI_TEXT, &(s)->model, 0, 0, "FILE", "the model: a GGUF file"},                  \
    {"prompt", 'p', CLI_TEXT, &(s)->prompt, 0, 0, "TEXT", "the prompt; - reads standard input"}
#define CLI_SESSION_ROWS(s)                                                                         \
    {"ids", 0, CLI_TEXT, &(s)->ids, 0, 0, "FILE.json", "the prompt as a JSON array of token ids"},  \
    {"context", 'c', CLI_INT, &(s)->context, 0, 1 << 30, "N", "positions of the context; 0 = as "   \
     "many as the budget and the model allow (default: prompt + new tokens, up to 256s)"},          \
    {"chunk", 0, CLI_INT, &(s)->chunk, 64, 1 << 20, "N", "prompt tokens a step, a multiple of 64 "  \
     "(default: 512, or the most that fits the budget)"},                                           \
    {"kv-type", 0, CLI_CHOICE, &(s)->kv_type, 0, 0, "f16|f32", "type of the KV cache"},             \
    {"weights", 0, CLI_CHOICE, &(s)->weights, 0, 0, "auto|mapped|repacked", "use weights as they "  \
     "lie in the file, or repack them for speed; the same bits (default: what fits)"},              \
    {"temp", 0, CLI_REAL, &(s)->temperature, 0, 1000, "T", "temperature; 0 = the likeliest token "  \
     "(default)"},                                                                                  \
    {"top-k", 0, CLI_INT, &(s)->top_k, 0, INT32_MAX, "K", "sample from the K likeliest; 0 = all"},  \
    {"top-p", 0, CLI_REAL, &(s)->top_p, 0, 1, "P", "from the likeliest that make up P (1 = all)"},  \
    {"min-p", 0, CLI_REAL, &(s)->min_p, 0, 1, "P", "from those of at least P times the best"},      \
    {"logits", 0, CLI_TEXT, &(s)->logits, 0, 0, "FILE.npy", "write what each new token was chosen " \
     "from: f32 [new tokens, vocabulary]"},                                                         \
    {"ignore-eos", 0, CLI_FLAG, &(s)->ignore_eos, 0, 0, NULL, "go on after an end token"}
#define CLI_COMMON_ROWS(s)                                                                          \
    {"memory", 0, CLI_SIZE, &(s)->memory, 0, 0, "SIZE", "the budget: bytes, or K M G (default: "    \
     "none, only counted)"},                                                                        \
    {"threads", 0, CLI_INT, &(s)->threads, 1, 256, "N", "default: every processor"},                \
    {"seed", 0, CLI_SEED, &(s)->seed, 0, 0, "N", "of the sampler (default: 0)"},                    \
    {"stats", 0, CLI_TEXT, &(s)->stats, 0, 0, "FILE.json", "write what the run took"},              \
    {"quiet", 'q', CLI_FLAG, &(s)->quiet, 0, 0, NULL, "errors only on standard error"},             \
    {"help", 'h', CLI_FLAG, &(s)->help, 0, 0, NULL, "this list"}
// clang-format on

enum { CLI_PARSED = -1 };

/* Reads the command line into the table's targets. argv[0] is the command; `usage` is its line of
 * help; `file` takes one argument that is no option (NULL: there is none). CLI_PARSED, or the exit
 * status: wrong, or the help was printed. */
int cli_parse(const cli_option *table, const cli_settings *settings, int argc, char **argv,
              const char *usage, char **file);

/* The table of generate; with `plan` also that of `plan generate`. Checks what belongs together. */
int cli_parse_generate(cli_settings *settings, bool plan, int argc, char **argv);

#endif
