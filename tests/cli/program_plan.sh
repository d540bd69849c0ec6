#!/usr/bin/env bash
# `neap plan run`: it tells what `neap run` then takes; the least budget runs with the same bits and
# one byte less is refused.
. tests/cli/common.sh
pte=tests/golden/pte
w=$work

tensors make "$w/flat.npy" f32 256 $(seq 256)
tensors make "$w/rows.npy" f32 4,256 $(seq 1024)
tensors make "$w/x.npy" f32 2,3 1 2 3 4 5 6
tensors make "$w/y.npy" i64 3 10 20 30
tensors make "$w/pair.npy" f32 2,2 1 2 3 4
tensors make "$w/two.npy" f32 2 1 2

# one_case ARGUMENTS: plan, run, run with the least, refuse one byte less. --threads is fixed, as
# each thread has a stack.
one_case() {
    local least peak
    must 0 plan run "$@" --threads 2 --json && cp "$w/out" "$w/plan.json"
    check "plan $*" checks plan "$w/plan.json" idle
    least=$(field "$w/plan.json" least_bytes)
    peak=$(field "$w/plan.json" planned_peak_bytes)
    must 0 run "$@" --threads 2 -q -o "$w/free.bin" --stats "$w/stats.json"
    check "stats $*" checks run_stats "$w/stats.json"
    [ "$(field "$w/stats.json" planned_peak_bytes)" = "$peak" ] ||
        fault "$*: run plans $(field "$w/stats.json" planned_peak_bytes), plan said $peak"
    must 0 run "$@" --threads 2 -q -o "$w/least.bin" --memory "$least" --stats "$w/stats.json"
    check "stats under the least, $*" checks run_stats "$w/stats.json"
    same_files "under the least, $*" "$w/free.bin" "$w/least.bin"
    must 1 run "$@" --threads 2 -q --memory $((least - 1))
    grep -Eqx "neap: needs at least [0-9]+\.[0-9] MiB \($least bytes\), the limit is [0-9]+\.[0-9] MiB: [a-z0-9., ]+" \
        "$w/err" || fault "$*: the refusal says: $(cat "$w/err")"
    [ -s "$w/out" ] && fault "$*: a refused run prints"
    must 1 plan run "$@" --threads 2 --memory $((least - 1))
}
one_case $pte/th01_flat8.pte -i "$w/flat.npy"
one_case $pte/th03_flat9.pte -i "$w/flat.npy" --option eval_threshold_bytes=2048
one_case $pte/th08_scan.pte -i "$w/rows.npy"
one_case $pte/two_inputs.pte -i "$w/x.npy" -i "$w/y.npy"
one_case $pte/state_view_add.pte -i "$w/pair.npy" --call -i "$w/pair.npy"
one_case $pte/state_updates.pte -i "$w/two.npy" --calls 3
one_case $pte/th15_init9.pte -i "$w/flat.npy"
one_case $pte/copy_.pte -i "$w/two.npy"
one_case $pte/copy_.pte -i "$w/two.npy" --calls 3

# Shapes: of files, of --shape, else the largest.
must 0 plan run $pte/two_inputs.pte --json
check "plan without files" checks plan "$w/out"
must 0 plan run $pte/scan_last_axis.pte --shape 0=2,3 --json
check "plan --shape" checks plan "$w/out"
must 0 plan run $pte/scan_last_axis.pte
grep -Eq '^planned peak +[0-9.]+ MiB +[0-9]+ bytes$' "$w/out" || fault "plan: $(cat "$w/out")"
grep -Eq '^least budget +[0-9.]+ MiB +[0-9]+ bytes' "$w/out" || fault "plan: least budget"
refused 1 'neap: input 0: dimension 1 has 7, expected at most 6' plan run $pte/scan_last_axis.pte --shape 0=2,7
refused 2 'neap: --shape 1=2: the method has 1 inputs, counted from 0' \
    plan run $pte/scan_last_axis.pte --shape 1=2
for shape in 0 0: =3 0=a 0=1, 0=,1 x=1 -1=2 0=18446744073709551616; do
    refused 2 "neap: --shape $shape: expected INPUT=N,N... with whole numbers, at most 8" \
        plan run $pte/scan_last_axis.pte --shape "$shape"
done
must 0 plan run $pte/th01_flat8.pte -i "$w/flat.npy" -o /nonexistent/o.npy
finish
