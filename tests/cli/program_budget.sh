#!/usr/bin/env bash
# Programs within a limit: the least that `neap plan run` finds is accepted and a byte less is not; at
# budgets in between what is planned is what is measured, within the limit, with the same bits; a smaller
# budget never takes more. The planner's options change the least, not the bits.
. tests/cli/common.sh
w=$work

# at_budgets N ARGUMENTS: N budgets from the least to the peak without one.
at_budgets() {
    local n=$1 least peak memory used last=0 i
    shift
    must 0 plan run "$@" --threads 2 --json && cp "$w/out" "$w/plan.json"
    check "plan $*" checks plan "$w/plan.json" idle
    least=$(field "$w/plan.json" least_bytes)
    peak=$(field "$w/plan.json" planned_peak_bytes)
    [ "$least" -le "$peak" ] || fault "$*: least $least, peak $peak"
    must 0 run "$@" --threads 2 -q -o "$w/free.bin" --stats "$w/stats.json"
    [ "$(field "$w/stats.json" measured_peak_bytes)" = "$peak" ] ||
        fault "$*: $(field "$w/stats.json" measured_peak_bytes) measured, $peak planned"
    for ((i = 0; i < n; i++)); do
        memory=$((least + (peak - least) * i / (n - 1)))
        must 0 run "$@" --threads 2 -q -o "$w/fit.bin" --memory $memory --stats "$w/stats.json"
        used=$(field "$w/stats.json" measured_peak_bytes)
        same_files "$* within $memory" "$w/free.bin" "$w/fit.bin"
        [ "$used" = "$(field "$w/stats.json" planned_peak_bytes)" ] ||
            fault "$* within $memory: $used measured, $(field "$w/stats.json" planned_peak_bytes) planned"
        [ "$used" -le $memory ] || fault "$* within $memory: $used"
        [ "$used" -ge $last ] || fault "$* within $memory: $used, a smaller budget took $last"
        last=$used
        must 0 plan run "$@" --threads 2 --memory $memory --json
        [ "$(field "$w/out" planned_peak_bytes)" = "$used" ] || fault "$* within $memory: plan says otherwise"
        [ "$(field "$w/out" least_bytes)" = "$least" ] || fault "$* within $memory: another least"
    done
    must 1 run "$@" --threads 2 -q --memory $((least - 1))
    grep -Eqx "neap: needs at least [0-9]+\.[0-9] MiB \($least bytes\), the limit is [0-9]+\.[0-9] MiB: [a-z0-9., ]+" \
        "$w/err" || fault "$*: the refusal says: $(cat "$w/err")"
}

tensors make "$w/flat.npy" f32 256 $(seq 256)
tensors make "$w/rows.npy" f32 4,256 $(seq 1024)
tensors make "$w/two.npy" f32 2 1 2
at_budgets 3 tests/golden/pte/th01_flat8.pte -i "$w/flat.npy"
at_budgets 3 tests/golden/pte/th08_scan.pte -i "$w/rows.npy"
at_budgets 3 tests/golden/pte/state_updates.pte -i "$w/two.npy" --calls 3
at_budgets 3 tests/golden/pte/th15_init9.pte -i "$w/flat.npy"

planner="expected no-fusion, no-sideways, no-order, no-streaming, no-recompute, low-memory or max-fusion=N"
for list in no-x '' no-fusion, ,no-fusion max-fusion=0 max-fusion= max-fusion=1x 'no-fusion low-memory'; do
    refused 2 "neap: --planner $list: $planner with N from 1 to 2147483647, between commas" \
        plan run tests/golden/pte/th01_flat8.pte --planner "$list"
done
must 0 generate -m $tiny -p hi -n 2 -q --planner no-fusion,max-fusion=3

shared=${NEAP_SHARED:-../shared}
encoder=$shared/models/whisper-base/encoder.pte
if [ ! -r "$encoder" ]; then
    echo "no $shared/models; NEAP_SHARED names another place: the rest is skipped"
    finish
    exit
fi

# noise FILE SHAPE: bf16 in [-1, 1], a fixed pattern.
noise() {
    python3 -B - "$1" "$2" <<'END'
import math, struct, sys
sys.path.insert(0, "tests/cli")
import tensors
shape = [int(n) for n in sys.argv[2].split(",")]
data = b"".join(struct.pack("<f", math.sin(i * i % 9973))[2:] for i in range(math.prod(shape)))
tensors.write_npy(sys.argv[1], "bf16", shape, data)
END
}
noise "$w/features.npy" 1,80,3000
at_budgets 7 "$encoder" -i "$w/features.npy"
least=$(field "$w/plan.json" least_bytes)
echo "whisper-base encoder: least $least bytes"
[ "$least" -le $((8 << 20)) ] || fault "least $least bytes, 8 MiB are allowed"
noise "$w/hidden.npy" 1,1500,512
at_budgets 3 "$shared/models/whisper-base/cross_kv.pte" -i "$w/hidden.npy"

# With a feature less the least is no smaller.
for list in no-streaming no-fusion no-recompute no-sideways no-order max-fusion=1; do
    must 0 plan run "$encoder" -i "$w/features.npy" --threads 2 --json --planner $list
    [ "$(field "$w/out" least_bytes)" -ge "$least" ] || fault "--planner $list: $(field "$w/out" least_bytes) < $least"
done
must 0 run "$encoder" -i "$w/features.npy" --threads 2 -q -o "$w/other.bin" --planner low-memory,no-order
must 0 run "$encoder" -i "$w/features.npy" --threads 2 -q -o "$w/free.bin"
same_files "--planner low-memory" "$w/free.bin" "$w/other.bin"
finish
