/* cmd_plan.h - what `neap plan` can be followed by. */
#ifndef CLI_CMD_PLAN_H
#define CLI_CMD_PLAN_H

/* "generate", ..., "--graph"; NULL after the last. */
const char *cli_plan_word(int i);

#endif
