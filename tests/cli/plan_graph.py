"""What `neap plan --graph FILE --json` printed, against the file and the model of memory.

    plan_graph.py FILE.json PRINTED.json [--in-place]

Simulates the order anew, looks for values that overlap, and compares with the optimum or the best
known peak that the file records.
"""
import json
import sys
from bisect import insort


def fault(text):
    sys.exit(f"FAULT: {sys.argv[1]}: {text}")


def simulate(nodes, order, in_place):
    """Peak, and the lifetime [first, last] of each value in steps; None: never alive."""
    users = [0] * len(nodes)
    for node in nodes:
        for d in node["deps"]:
            users[d] += 1
    alive = [i for i, n in enumerate(nodes) if n["input"] and (n["output"] or users[i])]
    life = [None] * len(nodes)
    for i in alive:
        life[i] = [0, 0]
    live = peak = sum(nodes[i]["bytes"] for i in alive)
    done = {i for i, n in enumerate(nodes) if n["input"]}
    steps = [i for i in order if not nodes[i]["input"]]
    taken = {}
    for step, i in enumerate(steps):
        node = nodes[i]
        if i in done or any(d not in done for d in node["deps"]):
            fault(f"node {i} runs twice or too early")
        done.add(i)
        life[i] = [step, step]
        dying = []
        for d in node["deps"]:
            life[d][1] = step
            users[d] -= 1
            if users[d] == 0 and not nodes[d]["output"]:
                dying.append(d)
        over = [d for d in dying if nodes[d]["bytes"] == node["bytes"]] if in_place else []
        if over:
            taken[i] = over
        peak = max(peak, live + (0 if over else node["bytes"]))
        live += node["bytes"] - sum(nodes[d]["bytes"] for d in dying)
        if users[i] == 0 and not node["output"]:
            live -= node["bytes"]
    if len(done) != len(nodes):
        fault("not all nodes run")
    for i, node in enumerate(nodes):
        if node["output"]:
            life[i][1] = len(steps)
    return peak, life, taken


def check_places(nodes, life, taken, offsets, arena):
    events = []
    for i, span in enumerate(life):
        if span and nodes[i]["bytes"]:
            if offsets[i] + nodes[i]["bytes"] > arena:
                fault(f"node {i} ends beyond the arena")
            events += [(span[0], 0, i), (span[1] + 1, -1, i)]
    events.sort()
    alive = []
    for _, kind, i in events:
        place = (offsets[i], offsets[i] + nodes[i]["bytes"], i)
        if kind:
            alive.remove(place)
            continue
        insort(alive, place)
        at = alive.index(place)
        for other in alive[max(0, at - 2):at] + alive[at + 1:at + 3]:
            j = other[2]
            apart = other[1] <= place[0] or place[1] <= other[0]
            if not apart and not (j in taken.get(i, ()) and offsets[i] == offsets[j]):
                fault(f"nodes {i} and {j} overlap")


def main():
    graph, printed = (json.load(open(path)) for path in sys.argv[1:3])
    in_place = "--in-place" in sys.argv
    nodes, order = graph["nodes"], printed["order"]
    peak, life, taken = simulate(nodes, order, in_place)
    program = simulate(nodes, range(len(nodes)), in_place)[0]
    arena = printed["arena_bytes"]
    check_places(nodes, life, taken, printed["offsets"], arena)
    if printed["planned_peak_bytes"] != peak or printed["largest_live_bytes"] != peak:
        fault(f"planned peak {printed['planned_peak_bytes']}, simulated {peak}")
    if printed["program_order_peak_bytes"] != program or peak > program:
        fault(f"program order {printed['program_order_peak_bytes']}, simulated {program}")
    # Random lifetimes have no known arena: 1.02 is promised for the recorded graphs only.
    most = 1.1 if graph["name"].startswith("flat") else 1.02
    if not peak <= arena <= most * peak:
        fault(f"an arena of {arena} for {peak}")
    held = sum(value["bytes"] for value in printed["alive_at_peak"])
    if held != peak:
        fault(f"alive at the peak: {held} of {peak}")
    optimum = graph.get("optimum_in_place" if in_place else "optimum")
    if optimum is not None and (peak != optimum or not printed["exact"]):
        fault(f"peak {peak}, optimum {optimum}")
    if "best_known_mib" in graph and not in_place and peak > 1.02 * graph["best_known_mib"] * 2**20:
        fault(f"peak {peak}, best known {graph['best_known_mib']} MiB")


if __name__ == "__main__":
    main()
