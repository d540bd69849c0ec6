/* plan_page.h - the page of --html: one file that needs no other, with a plan's JSON object in it and
 * a script that draws it (plan_page.html, built into the command). */
#ifndef CLI_PLAN_PAGE_H
#define CLI_PLAN_PAGE_H

#include "cli/cli.h"

/* `object` as cli_plan_json makes it in full. Returns the exit status. */
int cli_plan_page_write(const char *path, const json_t *object);

#endif
