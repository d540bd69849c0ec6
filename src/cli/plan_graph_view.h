/* plan_graph_view.h - the plan of a bare graph as a part of a picture: its nodes as steps and values.
 */
#ifndef CLI_PLAN_GRAPH_VIEW_H
#define CLI_PLAN_GRAPH_VIEW_H

#include "cli/plan_data.h"

/* What stands for the op of a node with these NEAP_BARE_* flags. */
const char *cli_plan_graph_op(uint8_t flags);
/* `order` and `offsets` as neap_plan_bare gave them. False: out of memory. */
bool cli_plan_graph_view(cli_plan_data *data, const neap_bare_graph *graph, const uint32_t *order,
                         const uint64_t *offsets, const neap_bare_plan *plan);

#endif
