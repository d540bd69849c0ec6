#!/usr/bin/env bash
# Whisper base's encoder: Neap (the exported program, bf16) beside PyTorch (eager, f32, random weights),
# one after the other in every round, least seconds of all rounds.
#
#   bench/programs.sh PYTHON ENCODER.pte [threads] [rounds]      PYTHON: one that has torch
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?a python that has torch} program=${2:?encoder.pte} threads=${3:-2} rounds=${4:-3}
bench=${NEAP_BENCH:-build/release/bench/bench_program}
ours=() theirs=()
for ((i = 0; i < rounds; i++)); do
    theirs+=("$("$python" bench/peer_whisper.py "$threads" 3)")
    table=$("$bench" "$program" "$threads" 3)
    ours+=("$(awk '/^as it is/ {print $4}' <<<"$table")")
done
least() { printf '%s\n' "$@" | sort -g | head -1; }
echo "$table"
awk -v a="$(least "${ours[@]}")" -v b="$(least "${theirs[@]}")" \
    'BEGIN {printf "Neap %.4f s, PyTorch %.4f s: %.2f times as fast\n", a, b, b / a}'
