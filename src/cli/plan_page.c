/* plan_page.c - see plan_page.h. */
#include "cli/plan_page.h"

#include <errno.h>
#include <string.h>

/* plan_page.html, made a string by the build. */
extern const char cli_plan_page_text[];

static const char mark[] = "@PLAN@"; /* where the object goes */

/* In JSON a '<' is inside a string: escaped there, no name can end the element that holds it. */
static int write_escaped(const char *text, size_t length, void *user)
{
    FILE *file = user;
    while (length > 0) {
        const char *less = memchr(text, '<', length);
        const size_t n = less ? (size_t)(less - text) : length;
        if (fwrite(text, 1, n, file) != n || (less && fputs("\\u003c", file) < 0))
            return -1;
        text += n + (less != NULL);
        length -= n + (less != NULL);
    }
    return 0;
}

static bool write_page(FILE *file, const json_t *object)
{
    const char *at = strstr(cli_plan_page_text, mark);
    const size_t before = (size_t)(at - cli_plan_page_text);
    return fwrite(cli_plan_page_text, 1, before, file) == before &&
           json_dump_callback(object, write_escaped, file,
                              JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 &&
           fputs(at + sizeof mark - 1, file) >= 0;
}

int cli_plan_page_write(const char *path, const json_t *object)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return cli_failed("--html %s: %s", path, strerror(errno));
    errno = 0;
    const bool written = write_page(file, object) && fflush(file) == 0;
    const int error = errno;
    const bool closed = fclose(file) == 0;
    if (written && closed)
        return CLI_DONE;
    return cli_failed("--html %s: %s", path, error ? strerror(error) : "not everything was written");
}
