/* cli.h - what the files of the command share: exit statuses, messages, small formatting.
 *
 * The command is a client of the library like any other: it includes public headers only. Results
 * go to standard output, everything else to standard error. */
#ifndef CLI_H
#define CLI_H

#include <jansson.h>
#include <stdio.h>

#include <neap/base.h>

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

#define COMMAND(name, text) int cmd_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

/* "neap: " and the text, a line of standard error. Each returns the status it is named for. */
int cli_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* From now on the first message goes to `room` instead of standard error; NULL: there again. */
void cli_hold_failures(char *room, size_t size);
/* The context's stored error, as cli_failed; clears it. After Ctrl-C it is the end that was asked for:
 * nothing is said, and the status is CLI_INTERRUPTED. */
int cli_context_failed(neap_context *ctx);

double cli_seconds(void); /* of a clock that only goes forward */

typedef struct cli_size_text {
    char text[32];
} cli_size_text;
/* "61.2 MiB". */
cli_size_text cli_mib(uint64_t bytes);

/* A JSON string; bytes (of a file, perhaps) that are not UTF-8 become U+FFFD. NULL: out of memory. */
json_t *cli_json_text(const char *bytes, size_t length);
/* One line. Takes the object over; NULL is out of memory. Returns the exit status. */
int cli_json_print(FILE *file, const char *name, json_t *object);
/* Prints bytes of a file: printable UTF-8 as it is, '?' for the rest, so nothing steers a terminal. */
void cli_print_clean(FILE *file, const char *bytes, size_t length);
/* Did everything printed so far reach standard output? Returns the exit status. */
int cli_flush_output(void);

typedef struct cli_file {
    const char *option, *path; /* path NULL: not given */
    bool output;
} cli_file;
/* Is no output one of the files before it? It would be written over, and mapped pages with it. */
int cli_check_files(const cli_file *files, size_t count);
/* A context without a limit; `threads` 0: every processor. */
int cli_context_new(int64_t threads, neap_context **out);
/* Without --memory: what the machine leaves, if `planned` bytes are more than that; a line of standard error
 * says which limit it is (also in `whose`). 0: there is room, or --memory none. */
uint64_t cli_machine_budget(uint64_t planned, bool quiet, const char **whose);
int cli_processors(void); /* that this process may use */

#endif
