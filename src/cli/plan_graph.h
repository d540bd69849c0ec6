/* plan_graph.h - `neap plan --graph FILE.json`: a graph of sizes and edges is ordered and placed; a
 * file of placement problems is placed. */
#ifndef CLI_PLAN_GRAPH_H
#define CLI_PLAN_GRAPH_H

int cli_plan_graph(int argc, char **argv);

#endif
