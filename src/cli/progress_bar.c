/* progress_bar.c - see progress_bar.h. */
#include "cli/progress_bar.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

enum { WIDEST = 78, BAR_LEAST = 10 };
static const double PATIENCE = 0.5, INTERVAL = 0.1;

static struct {
    char what[16]; /* of the call that is told of */
    uint64_t done;
    double start, drawn;
} now;
static volatile sig_atomic_t shown; /* characters on the line */

void cli_progress_clear(void)
{
    static const char blank[] = "                                                                                ";
    const int n = shown;
    shown = 0;
    if (n > 0) { /* safe in a signal handler */
        char line[WIDEST + 2];
        line[0] = '\r';
        memcpy(line + 1, blank, (size_t)n);
        line[n + 1] = '\r';
        if (write(STDERR_FILENO, line, (size_t)n + 2) < 0)
            return;
    }
}

/* Nothing is kept: the line goes, and the signal does what it does. */
static void on_interrupt(int number)
{
    cli_progress_clear();
    raise(number); /* the handler is reset */
}

static int width(void)
{
    struct winsize size;
    const int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    return columns - 1 < WIDEST ? columns - 1 : WIDEST; /* the last column would wrap */
}

static const char *name_of(const char *what)
{
    static const struct {
        const char *what, *name;
    } names[] = {{"load", "loading"}, {"plan", "planning"}, {"prefill", "prompt"},
                 {"transcribe", "listening"}, {"run", "running"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(what, names[i].what))
            return names[i].name;
    return what;
}

/* "prompt [#######.......]  48 %", as much of it as fits; where the end is not known, how much is done. */
static int draw(char *line, int room, const neap_progress *p)
{
    const char *name = name_of(p->what);
    int n;
    if (!p->total && !strcmp(p->what, "transcribe"))
        n = snprintf(line, WIDEST + 1, "%s %" PRIu64 " s", name, p->done / 16000);
    else if (!p->total)
        n = snprintf(line, WIDEST + 1, "%s %" PRIu64, name, p->done);
    else {
        const double part = (double)p->done / (double)p->total;
        const int bar = room - (int)strlen(name) - 9;
        char cells[WIDEST + 1] = "";
        if (bar >= BAR_LEAST) {
            const int full = (int)(part * bar);
            memset(cells, '.', (size_t)bar);
            memset(cells, '#', (size_t)full);
            cells[bar] = '\0';
        }
        n = snprintf(line, WIDEST + 1, bar >= BAR_LEAST ? "%s [%s] %3d %%" : "%s%s %3d %%", name, cells,
                     (int)(100 * part));
    }
    return n < room ? n : room;
}

static void show(void *user, const neap_progress *p)
{
    (void)user;
    char line[WIDEST + 2] = "\r";
    const double time = cli_seconds();
    if (strcmp(now.what, p->what) || p->done < now.done)
        now.start = time;
    snprintf(now.what, sizeof now.what, "%s", p->what);
    now.done = p->done;
    const int room = width(), before = shown;
    if ((p->total && p->done >= p->total) || room < 1) {
        cli_progress_clear();
        return;
    }
    if (time - now.start < PATIENCE || time - now.drawn < INTERVAL)
        return;
    now.drawn = time;
    int n = draw(line + 1, room, p);
    const int written = n;
    for (; n < before && n < room; n++)
        line[1 + n] = ' ';
    shown = n > before ? n : before;
    if (write(STDERR_FILENO, line, (size_t)n + 1) < 0)
        return;
    shown = written > 0 ? n : 0;
}

void cli_progress_begin(neap_context *ctx, bool quiet)
{
    struct sigaction before, clear = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    if (quiet || !isatty(STDERR_FILENO))
        return;
    neap_context_set_progress(ctx, show, NULL);
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGINT, &clear, NULL);
}
