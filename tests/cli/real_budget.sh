#!/usr/bin/env bash
# The real model inside its budget (issue 3, item 4): 512 prompt tokens, 64 new ones, -c 2048; the same
# text and bits whatever the budget, threads, chunk and weight layout. Needs the model.
. tests/cli/common.sh
need_model
mib=1048576

must 0 tokenize -m "$model" -p 'It was the best of times, it was the worst of times, it was the age of wisdom, '
cp "$work/out" "$work/some.json"
prompt() { checks ids_of "$work/some.json" "$1" >"$work/$1.json"; }
for n in 100 511 512 513 1024; do prompt $n; done
base=(generate -m "$model" --ids "$work/512.json" --ignore-eos -q)

# planned OPTIONS: the plan goes to plan.json.
planned() {
    must 0 plan "${base[@]}" "$@" --json && cp "$work/out" "$work/plan.json"
    check "plan $*" checks plan "$work/plan.json"
}

planned -c 2048 -n 64 --threads 2
least=$(field "$work/plan.json" least_bytes)
echo "least_bytes $least, $((least / mib)) MiB; 64 MiB are allowed"
[ "$least" -le $((64 * mib)) ] || fault "least_bytes $least > 64 MiB"

# The whole run, free and under the least; one byte less is refused before the weights are read.
must 0 "${base[@]}" -c 2048 -n 64 --threads 2 --logits "$work/free.npy" --stats "$work/stats.json"
cp "$work/out" "$work/text"
check "stats" checks stats "$work/stats.json"
[ "$(field "$work/stats.json" planned_peak_bytes)" = "$(field "$work/plan.json" planned_peak_bytes)" ] ||
    fault "plan and generate tell different peaks"
limit=()
sanitized || limit=(prlimit --data=$((least + 16 * mib)))
"${limit[@]}" "$NEAP_BIN" "${base[@]}" -c 2048 -n 64 --threads 2 --memory "$least" --logits "$work/least.npy" \
    --stats "$work/stats.json" >"$work/out" 2>"$work/err" || fault "under the least: $(cat "$work/err")"
check "stats under the least" checks stats "$work/stats.json"
same_files "text under the least" "$work/text" "$work/out"
same_files "logits under the least" "$work/free.npy" "$work/least.npy"
must 1 "${base[@]}" -c 2048 -n 64 --threads 2 --memory $((least - 1)) &&
    grep -q "^neap: needs at least .* ($least bytes), the limit is " "$work/err" || fault "refusal: $(cat "$work/err")"

# The same text and bits.
for options in '--threads 1 --weights repacked' '--weights mapped --chunk 128' '--weights repacked --chunk 512'; do
    # shellcheck disable=SC2086
    must 0 "${base[@]}" -c 2048 -n 16 $options --logits "$work/other.npy"
    python3 - "$work/free.npy" "$work/other.npy" <<'END' || fault "logits with $options"
import sys
sys.path.insert(0, "tests/cli")
import checks
whole, part = (checks.npy(p) for p in sys.argv[1:])
assert len(part) == 16 and whole[:16] == part, "they differ"
END
done

# What more positions and more threads take.
kv=$(field "$work/plan.json" kv_bytes)
planned -c 8192 -n 64 --threads 2
grown=$(($(field "$work/plan.json" least_bytes) - least))
kv_grown=$(($(field "$work/plan.json" kv_bytes) - kv))
echo "-c 2048 to 8192: $grown bytes more, $kv_grown of them KV"
[ $grown -le $((kv_grown + 64 * 6144)) ] || fault "8192 positions take $grown more, the KV cache $kv_grown"
last=$least
for threads in 3 4; do
    planned -c 2048 -n 64 --threads $threads
    now=$(field "$work/plan.json" least_bytes)
    [ $((now - last)) -le $mib ] || fault "thread $threads takes $((now - last)) bytes"
    last=$now
done
planned -c 2048 -n 64 --threads 1
[ $((least - $(field "$work/plan.json" least_bytes))) -le $mib ] || fault "the second thread takes over 1 MiB"

# One prompt token more or less does not move the peak.
low= high=
for n in 511 512 513 1024; do
    must 0 generate -m "$model" --ids "$work/$n.json" -c 2048 -n 1 -q --threads 2 --stats "$work/stats.json"
    check "stats of $n" checks stats "$work/stats.json"
    peak=$(field "$work/stats.json" measured_peak_bytes)
    echo "prompt of $n: measured peak $peak"
    { [ -z "$low" ] || [ "$peak" -lt "$low" ]; } && low=$peak
    { [ -z "$high" ] || [ "$peak" -gt "$high" ]; } && high=$peak
done
[ $((high - low)) -le 65536 ] || fault "peaks of 511 to 1024 tokens differ by $((high - low)) bytes"

# f32 cache: twice the bytes; -c 0 takes what the budget allows.
planned -c 2048 -n 64 --threads 2 --kv-type f32
[ "$(field "$work/plan.json" kv_bytes)" = $((2 * kv)) ] || fault "--kv-type f32: $(field "$work/plan.json" kv_bytes)"
must 0 generate -m "$model" --ids "$work/100.json" -n 4 -q --kv-type f32 --stats "$work/stats.json"
check "stats of f32" checks stats "$work/stats.json"
planned -c 0 -n 64 --memory "$least"
context=$(field "$work/plan.json" context)
[ "$context" -ge 2048 ] && [ "$context" -le 2100 ] || fault "-c 0 under the least of 2048: $context"
planned -c 0 -n 64
[ "$(field "$work/plan.json" context)" = 8192 ] || fault "-c 0 without a budget"
finish
