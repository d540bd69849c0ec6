#!/usr/bin/env bash
# `neap plan --graph`: recorded optima, valid orders and places, and files that are no graphs.
. tests/cli/common.sh

small=tests/golden/plan # copies of the small ones of ../shared/cases/plan
shared=${NEAP_SHARED:-../shared}

plans() { # FILE: as the model says, with and without taking places
    local option
    for option in "" --in-place; do
        # shellcheck disable=SC2086
        must 0 plan --graph "$1" --json $option || continue
        check "$1 $option" python3 -B tests/cli/plan_graph.py "$1" "$work/out" $option
    done
}

for file in $small/[AG]*.json; do
    plans "$file"
done
if [ -r "$shared/cases/plan/scale.json" ]; then
    for file in "$shared"/cases/plan/{scale,volo_*}.json; do
        plans "$file"
    done
fi
python3 -B tools/make_flat_graph.py --nodes 1200 --reach 60 >"$work/flat.json"
must 0 plan --graph "$work/flat.json" --json
check "flat" python3 -B tests/cli/plan_graph.py "$work/flat.json" "$work/out"
grep -o '"order".*' "$work/out" >"$work/first"
must 0 plan --graph "$work/flat.json" --json
grep -o '"order".*' "$work/out" >"$work/second"
same_files "the same graph planned twice" "$work/first" "$work/second"

must 0 plan --json --graph $small/placement.json
check "placement" python3 - "$work/out" $small/placement.json <<'P'
import json, sys
printed, wanted = (json.load(open(path))["problems"] for path in sys.argv[1:])
for p, w in zip(printed, wanted, strict=True):
    assert p["name"] == w["name"] and p["arena_bytes"] == w["optimum"], (p, w)
P
must 0 plan --graph $small/placement.json
grep -qx 'P1: 7 blocks, arena 11 bytes' "$work/out" || fault "placement: $(cat "$work/out")"
must 0 plan --graph $small/G2.json
grep -q '^planned peak .* 13 bytes  no order has less$' "$work/out" || fault "G2: $(cat "$work/out")"

# ---- what is wrong with a file is told in one line -------------------------------------------------
wrong() { # TEXT MESSAGE
    printf '%s' "$1" >"$work/bad.json"
    refused 1 "neap: $work/bad.json: $2" plan --graph "$work/bad.json"
}
node() { # ID BYTES INPUT OUTPUT DEPS
    printf '{"id": %s, "bytes": %s, "input": %s, "output": %s, "deps": %s}' "$@"
}
zero=$(node 0 1 false false '[]')
graph() { printf '{"nodes": [%s]}' "$1"; }

refused 1 "neap: absent.json: No such file or directory" plan --graph absent.json
wrong '{"nodes": 3}' '"nodes" is 3, not a list'
wrong '{}' 'no "nodes" (and no "problems"): not a graph'
wrong '[]' 'no "nodes" (and no "problems"): not a graph'
wrong "$(graph 7)" 'node 0 is 7, not an object'
wrong "$(graph "$(node 1 1 false false '[]')")" 'node 0: "id" is 1, not its position'
wrong "$(graph "$(node 0 -1 false false '[]')")" 'node 0: "bytes" is -1, not a number of bytes'
wrong "$(graph "$(node 0 1.5 false false '[]')")" 'node 0: "bytes" is 1.5, not a number of bytes'
wrong "$(graph "$(node 0 '"1"' false false '[]')")" 'node 0: "bytes" is "1", not a number of bytes'
wrong "$(graph "$(node 0 1 0 false '[]')")" 'node 0: "input" is 0, not true or false'
wrong "$(graph '{"id": 0, "bytes": 1, "input": false, "deps": []}')" \
    'node 0: "output" is missing, not true or false'
wrong "$(graph '{"id": 0, "bytes": 1, "input": false, "output": false}')" \
    'node 0: "deps" is missing, not a list of ids'
later='not on the id of an earlier node'
wrong "$(graph "$zero, $(node 1 1 false false '[1]')")" "node 1: depends on 1, $later"
wrong "$(graph "$(node 0 1 false false '[1]'), $(node 1 1 false false '[0]')")" \
    "node 0: depends on 1, $later"
wrong "$(graph "$zero, $(node 1 1 false false '[-1]')")" "node 1: depends on -1, $later"
wrong "$(graph "$zero, $(node 1 1 false false '[null]')")" "node 1: depends on null, $later"
wrong "$(graph "$zero, $(node 1 1 false false '[0, 0]')")" 'node 1: depends on node 0 twice'
wrong "$(graph "$zero, $(node 1 1 true false '[0]')")" 'node 1: an input, but depends on node 0'
wrong "$(graph "$(node 0 4611686018427387904 false false '[]')")" \
    'node 0: 4611686018427387904 bytes: the graph has 2^62 or more'
wrong '{"problems": [{"blocks": [[0, 1]]}]}' \
    'problem 0: block 0 is [0,1], not [first step, one past the last step, bytes]'
wrong '{"problems": [{"blocks": [[3, 3, 8]]}]}' \
    'problem 0: block 0: alive from step 3 to before step 3'
wrong '{"problems": [{}]}' 'problem 0: "blocks" is missing, not a list'
for text in '' 'x' '{"nodes": [' '{"nodes": [{"id": 99999999999999999999}]}' '{"nodes":1,"nodes":2}'; do
    printf '%s' "$text" >"$work/bad.json"
    must 1 plan --graph "$work/bad.json"
    grep -q "^neap: $work/bad.json: line 1: " "$work/err" || fault "$text: $(cat "$work/err")"
done
python3 -c 'print("{\"nodes\":" + "[" * 100000)' >"$work/bad.json"
must 1 plan --graph "$work/bad.json"
must 1 plan --graph "$work"
must 2 plan --graph
must 2 plan --graph "$work/flat.json" generate

echo '{"nodes": []}' >"$work/none.json"
must 0 plan --graph "$work/none.json" --json
[ "$(field "$work/out" planned_peak_bytes)" = 0 ] || fault "no nodes: $(cat "$work/out")"
must 0 plan --graph "$work/none.json"
graph "$(node 0 5 true true '[]')" >"$work/input.json" # an input that is an output
must 0 plan --graph "$work/input.json" --json
[ "$(field "$work/out" planned_peak_bytes)" = 5 ] || fault "an input: $(cat "$work/out")"
finish
