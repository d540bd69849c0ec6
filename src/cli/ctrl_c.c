/* ctrl_c.c - see ctrl_c.h. */
#include "cli/ctrl_c.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted;
static _Atomic(neap_context *) watched;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
    neap_context_interrupt(watched);
}

void cli_watch_interrupt(neap_context *ctx)
{
    watched = ctx;
    if (!ctx || interrupted)
        return;
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND | SA_RESTART};
    sigaction(SIGINT, &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}
