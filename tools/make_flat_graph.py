#!/usr/bin/env python3
"""Writes a random graph for `neap plan --graph`: no layers, no repetition.

    tools/make_flat_graph.py [--nodes N] [--reach R] [--seed S] > flat.json

Each node reads one to three of the R nodes before it; sizes are spread over three orders of
magnitude; what nobody reads is an output.
"""
import argparse
import json
import random


def graph(nodes, reach, seed):
    draw = random.Random(seed)
    made = []
    for i in range(nodes):
        source = i == 0 or draw.random() < 0.02
        near = range(max(0, i - reach), i)
        deps = [] if source else draw.sample(near, min(len(near), draw.randint(1, 3)))
        made.append({"id": i, "bytes": int(1024 * 10 ** draw.uniform(0, 3)), "input": source,
                     "output": False, "deps": deps})
    read = {d for node in made for d in node["deps"]}
    for node in made:
        node["output"] = node["id"] not in read and not node["input"]
    return {"name": f"flat-{nodes}-{reach}-{seed}", "nodes": made}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=9900)
    parser.add_argument("--reach", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(json.dumps(graph(options.nodes, options.reach, options.seed)))


if __name__ == "__main__":
    main()
