/* progress_bar.h - on a terminal, how far the library is with what takes more than half a second: one line of
 * standard error, which goes when it is done, when something else is said, and on Ctrl-C. */
#ifndef CLI_PROGRESS_BAR_H
#define CLI_PROGRESS_BAR_H

#include <neap/base.h>

/* Nothing with `quiet` or where standard error is no terminal. */
void cli_progress_begin(neap_context *ctx, bool quiet);
/* Takes the line away, if there is one; before anything else is written. */
void cli_progress_clear(void);

#endif
