/* interrupt.h - Ctrl-C: the first one ends the text where it is whole, a second one the process. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

void cli_watch_interrupt(void);
bool cli_interrupted(void);

#endif
