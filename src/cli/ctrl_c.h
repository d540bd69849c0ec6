/* ctrl_c.h - Ctrl-C: the first one ends the call of the library that runs, and what there is so far is
 * kept; a second one ends the process at once. Commands that keep nothing leave the signal as it is. */
#ifndef CLI_CTRL_C_H
#define CLI_CTRL_C_H

#include <neap/base.h>

/* Calls in ctx and its children end with NEAP_ECANCELLED. NULL: none do any more. */
void cli_watch_interrupt(neap_context *ctx);
bool cli_interrupted(void);

#endif
