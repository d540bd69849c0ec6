#!/usr/bin/env bash
# The budget, on the tiny model: what is planned is what is measured; the least budget runs with the
# same text and one byte less is refused.
. tests/cli/common.sh

must 0 tokenize -m $tiny -p 'The capital of France is'
checks ids_of "$work/out" 300 >"$work/ids.json"
base=(generate -m $tiny --ids "$work/ids.json" -n 12 --ignore-eos --threads 2)

# one_case OPTIONS: plan, run with the least, refuse one byte less.
one_case() {
    must 0 plan "${base[@]}" "$@" --json
    cp "$work/out" "$work/plan.json"
    check "plan $*" checks plan "$work/plan.json"
    local least peak
    least=$(field "$work/plan.json" least_bytes)
    peak=$(field "$work/plan.json" planned_peak_bytes)
    must 0 "${base[@]}" "$@" --stats "$work/stats.json" --logits "$work/free.npy"
    check "stats $*" checks stats "$work/stats.json"
    [ "$(field "$work/stats.json" planned_peak_bytes)" = "$peak" ] ||
        fault "$*: generate plans $(field "$work/stats.json" planned_peak_bytes), plan said $peak"
    must 0 "${base[@]}" "$@" --memory "$least" --stats "$work/stats.json" --logits "$work/least.npy"
    check "stats under the least, $*" checks stats "$work/stats.json"
    same_files "logits under the least, $*" "$work/free.npy" "$work/least.npy"
    must 1 "${base[@]}" "$@" --memory $((least - 1))
    grep -Eqx "neap: needs at least [0-9]+\.[0-9] MiB \($least bytes\), the limit is [0-9]+\.[0-9] MiB: [a-z0-9., ]+" \
        "$work/err" || fault "$*: the refusal says: $(cat "$work/err")"
    [ -s "$work/out" ] && fault "$*: a refused run prints text"
    must 1 plan "${base[@]}" "$@" --memory $((least - 1)) # plan refuses as generate does
    if ! sanitized; then
        prlimit --data=$((least + 16 * 1048576)) "$NEAP_BIN" "${base[@]}" "$@" --memory "$least" -q \
            >"$work/out" 2>"$work/err" || fault "$*: under prlimit: $(cat "$work/err")"
    fi
}
one_case
one_case -c 512
one_case --chunk 128
one_case --kv-type f32 --threads 1
one_case -n 1
one_case --weights mapped
one_case --temp 0.7 --seed 3

# The smallest limits, and one that is in no one's way.
for memory in 1 1K 100K; do
    must 1 "${base[@]}" --memory $memory
    grep -q '^neap: needs at least ' "$work/err" || fault "--memory $memory: $(cat "$work/err")"
done
must 0 "${base[@]}" --memory 8G

# bench has the same limits.
must 1 bench -m $tiny --pp 100 --tg 4 --memory 100K --json
grep -q '^neap: needs at least ' "$work/err" || fault "bench: $(cat "$work/err")"

# -c 0 takes what the model allows if there is room.
must 0 plan generate -m $tiny -p hi -c 0 --json
[ "$(field "$work/out" context)" = 512 ] || fault "-c 0: $(field "$work/out" context)"
finish
