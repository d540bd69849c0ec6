#!/usr/bin/env bash
# The graphs of bench_fusion: Neap beside PyTorch's compiler (inductor, its defaults), in turns on every
# graph of every round, and beside one pass per op; peaks against their limits.
#
#   bench/fusion.sh PYTHON [threads] [rounds] [case ..]       PYTHON: one that has torch
#
# The first run compiles for minutes; inductor keeps what it made in TORCHINDUCTOR_CACHE_DIR (default
# .peers/inductor). NEAP_BENCH names another program than build/release/bench/bench_fusion. Seconds are the
# least of all rounds, because other work on the machine only ever adds; the ratios of medians and of the
# least processor time, which other work disturbs less, stand beside them. PyTorch takes its results from
# the C library and gives them back at each call; a plan keeps its own.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?a python that has torch} threads=${2:-2} rounds=${3:-3}
shift $(($# < 3 ? $# : 3))
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(i-a i-b ii-a ii-b ii-c ii-c-1M a7 chain)
bench=${NEAP_BENCH:-build/release/bench/bench_fusion}
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$PWD/.peers/inductor}
environment=$(dirname "$python")/../env.sh
[ ! -f "$environment" ] || . "$environment"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
same_maths() { [ "$1" = ii-c-1M ] && echo ii-c || echo "$1"; }
"$python" bench/peer_fusion.py "$work" "$threads" inputs 2>"$work/log"
mapfile -t programs < <(for c in "${cases[@]}"; do same_maths "$c"; done | sort -u)
nice -n 19 "$python" bench/peer_fusion.py "$work" "$threads" compile "${programs[@]}" 2>>"$work/log" >&2

coproc PEER { exec "$python" bench/peer_fusion.py "$work" "$threads" serve 2>>"$work/log"; }
ask() { # COMMAND CASE [REPEATS]
    local answer
    echo "$@" >&"${PEER[1]}"
    read -r answer <&"${PEER[0]}" || { cat "$work/log" >&2; exit 1; }
    echo "$answer"
}
for ((round = 0; round < rounds; round++)); do
    for c in "${cases[@]}"; do
        peer=$(same_maths "$c")
        "$bench" -d "$work" -o -t "$threads" -r 3 "$c" | tail -n +2 | sed 's/^/ours /'
        echo "compiled $c $(ask compiled "$peer" 3)"
        if [ $round -eq 0 ]; then
            echo "eager $c $(ask eager "$peer" 1)"
            [ "$c" = "$peer" ] || [ ! -f "$work/$c.npy" ] || mv "$work/$c.npy" "$work/$peer.npy"
            [ ! -f "$work/$peer.npy" ] || echo "distance $c $(ask compare "$peer")"
        fi
    done
    echo "fusion.sh: round $((round + 1)) of $rounds" >&2
done >"$work/results"

python3 - "$work/results" "$threads" "$rounds" <<'END'
import statistics, sys

# peak of eager and compiled in MiB above the start, result included (measured once); the limits of
# Neap's peak, of its time over the compiled one's, of how many times as fast as one pass per op it is
CASES = {
    "i-a": ("1056", "16", 16.5, 1.5, 4),
    "i-b": ("48", "16", 16.5, 1.5, 4),
    "ii-a": ("33", "1", 1.5, 1.5, 4),
    "ii-b": ("1056", "1027", 17, 1.0, None),
    "ii-c": ("40", "256", 16.5, 1.0, None),
    "ii-c-1M": ("40", "256", 1, 1.0, None),
    "a7": ("", "", 4, 1.0, None),
    "chain": ("", "", None, None, 3),
}
COPY = 0.8
ours, compiled, eager, distance = {}, {}, {}, {}
for line in open(sys.argv[1]):
    who, case, *rest = line.split()
    if who == "ours":
        ours.setdefault(case, []).append(rest)
    elif who == "compiled":
        compiled.setdefault(case, []).append([float(x) for x in rest])
    elif who == "eager":
        eager[case] = float(rest[0])
    else:
        distance[case] = " ".join(rest)
print(f"{sys.argv[2]} threads, {sys.argv[3]} rounds; seconds: the least; ratio: Neap's over the compiled peer's;\n"
      "passes: how many times as fast as one pass per op; distance from the peer: the largest, and over the largest element")
print(f"{'case':8} {'Neap':>9} {'compiled':>9} {'eager':>9} {'ratio':>6} {'median':>6} {'cpu':>6} {'limit':>5} {'passes':>6} {'limit':>5} "
      f"{'peak MiB':>9} {'limit':>5} {'eager':>5} {'comp.':>5}  verdict; distance")
missed = 0
for case in compiled:
    eager_peak, compiled_peak, peak_limit, time_limit, passes_limit = CASES[case]
    theirs = min(t[0] for t in compiled[case])
    if ours[case][0][0] == "refused":
        print(f"{case:8} {'refused':>9} {theirs:9.5f} {eager[case]:9.5f}")
        missed += 1
        continue
    rows = [[float(x) if x[0].isdigit() else x for x in row[:13]] for row in ours[case]]
    least = min(r[1] for r in rows)
    ratio = least / theirs
    middle = statistics.median(r[0] for r in rows) / statistics.median(t[1] for t in compiled[case])
    processor = min(r[2] for r in rows) / min(t[2] for t in compiled[case])
    passes = statistics.median(r[4] for r in rows)
    peak = max(r[8] for r in rows)
    faults = []
    if time_limit is not None and ratio > time_limit:
        faults.append("time")
    if passes_limit is not None and passes < passes_limit:
        faults.append("passes")
    if peak_limit is not None and peak > peak_limit:
        faults.append("peak")
    if any(r[6] != r[7] for r in rows):
        faults.append("planned is not measured")
    if any(row[13] != "same" for row in ours[case]):
        faults.append("bits")
    copy = statistics.median(r[5] for r in rows) if rows[0][5] != "-" else None
    if copy is not None and copy < COPY:
        faults.append("copy")
    missed += bool(faults)
    text = ("missed: " + ", ".join(faults)) if faults else "met"
    if copy is not None:
        text += f"; {copy:.2f} of memcpy's bandwidth (limit {COPY})"
    shown = lambda x: "-" if x is None else f"{x:g}"
    print(f"{case:8} {least:9.5f} {theirs:9.5f} {eager[case]:9.5f} {ratio:6.2f} {middle:6.2f} {processor:6.2f} {shown(time_limit):>5} {passes:6.2f} "
          f"{shown(passes_limit):>5} {peak:9.3f} {shown(peak_limit):>5} {eager_peak:>5} {compiled_peak:>5}  {text}; {distance.get(case, '-')}")
print("all limits met" if missed == 0 else f"{missed} cases miss a limit")
END
