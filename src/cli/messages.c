/* messages.c - messages, sizes and JSON lines, see cli.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/ctrl_c.h"
#include "cli/progress_bar.h"

static struct {
    char *room;
    size_t size;
} held;

void cli_hold_failures(char *room, size_t size)
{
    held.room = room;
    held.size = size;
}

static void message(const char *format, va_list arguments)
{
    if (held.room) {
        if (!*held.room)
            vsnprintf(held.room, held.size, format, arguments);
        return;
    }
    cli_progress_clear();
    fflush(stdout); /* text that was made before the message stands before it */
    fputs("neap: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int cli_failed(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    message(format, arguments);
    va_end(arguments);
    return CLI_FAILED;
}

int cli_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    message(format, arguments);
    va_end(arguments);
    return CLI_USAGE;
}

int cli_context_failed(neap_context *ctx)
{
    const bool wanted = cli_interrupted(); /* that is what ended the call */
    cli_progress_clear();
    if (!wanted)
        cli_failed("%s", neap_context_error(ctx));
    neap_context_clear_error(ctx);
    return wanted ? CLI_INTERRUPTED : CLI_FAILED;
}

double cli_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

cli_size_text cli_mib(uint64_t bytes)
{
    cli_size_text out;
    snprintf(out.text, sizeof out.text, "%.1f MiB", (double)bytes / 1048576.0);
    return out;
}

json_t *cli_json_text(const char *bytes, size_t length)
{
    json_t *text = json_stringn(bytes, length);
    if (text)
        return text;
    char *plain = malloc(3 * length + 1), *to = plain; /* U+FFFD has three bytes */
    if (!plain)
        return NULL;
    while (length > 0) {
        size_t skip, run = neap_text_printable(bytes, length, &skip);
        json_t *hidden = skip ? json_stringn(bytes + run, skip) : NULL;
        if (hidden) /* valid, and escaped or harmless in JSON */
            run += skip;
        memcpy(to, bytes, run);
        to += run;
        if (skip && !hidden) {
            memcpy(to, "\xEF\xBF\xBD", 3);
            to += 3;
        }
        run += hidden ? 0 : skip;
        json_decref(hidden);
        bytes += run;
        length -= run;
    }
    text = json_stringn(plain, (size_t)(to - plain));
    free(plain);
    return text;
}

int cli_json_print(FILE *file, const char *name, json_t *object)
{
    if (!object)
        return cli_failed("%s: out of memory for the JSON text", name);
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
    const bool written =
        json_dumpf(object, file, flags) == 0 && fputc('\n', file) != EOF && fflush(file) == 0;
    const int error = errno;
    json_decref(object);
    return written ? CLI_DONE : cli_failed("%s: %s", name, strerror(error));
}

void cli_print_clean(FILE *file, const char *bytes, size_t length)
{
    while (length > 0) {
        size_t skip;
        const size_t run = neap_text_printable(bytes, length, &skip);
        fwrite(bytes, 1, run, file);
        if (skip)
            fputc('?', file);
        bytes += run + skip;
        length -= run + skip;
    }
}

int cli_flush_output(void)
{
    if (fflush(stdout) != 0)
        return cli_failed("standard output: %s", strerror(errno));
    return ferror(stdout) ? cli_failed("standard output: not everything was written") : CLI_DONE;
}
