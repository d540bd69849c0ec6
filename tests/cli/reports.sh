#!/usr/bin/env bash
# The JSON objects of plan, bench and info, and their text.
. tests/cli/common.sh

must 0 plan generate -m $tiny -p hi --json
check "plan --json" checks plan "$work/out"
must 0 plan --json generate -m $tiny -p hi
check "plan --json generate" checks plan "$work/out"
must 0 plan generate -m $tiny -p hi
grep -Eq '^planned peak +[0-9.]+ MiB +[0-9]+ bytes$' "$work/out" || fault "plan: $(cat "$work/out")"
grep -Eq '^least budget +[0-9.]+ MiB +[0-9]+ bytes' "$work/out" || fault "plan: least budget"
grep -q 'layer 0 keys' "$work/out" || fault "plan: what is alive at the peak"

must 0 bench -m $tiny --pp 20 --tg 4 --repeat 3 --json
check "bench, one cell" checks bench "$work/out" 20,4
must 0 bench -m $tiny --pp 20,70 --tg 0,4 --repeat 1 --json
check "bench, a matrix" checks bench "$work/out" 20,0 20,4 70,0 70,4
must 0 bench -m $tiny --pp 20,70 --tg 4 --repeat 2
[ "$(wc -l <"$work/out")" = 3 ] || fault "bench: $(cat "$work/out")"
must 0 bench -m $tiny --pp 20 --tg 4 --repeat 1 --logits "$work/bench.npy" --json --stats "$work/stats.json"
check "bench --stats" checks stats "$work/stats.json"
must 1 bench -m $tiny --pp 500 --tg 500
grep -qx 'neap: 500 prompt tokens and 500 new ones do not fit the context of 512 positions' "$work/err" ||
    fault "bench beyond the context: $(cat "$work/err")"

# bench and generate choose from the same logits.
must 0 tokenize -m $tiny -p 'The capital of France is'
cp "$work/out" "$work/ids.json"
must 0 bench -m $tiny --ids "$work/ids.json" --tg 4 --repeat 1 --logits "$work/bench.npy" --json
check "bench --ids" checks bench "$work/out" 18,4
must 0 generate -m $tiny --ids "$work/ids.json" -n 4 --ignore-eos --logits "$work/generate.npy"
same_files "logits of bench and generate" "$work/bench.npy" "$work/generate.npy"

must 0 info $tiny --json
python3 - "$work/out" <<'END' || fault "info --json"
import json, sys
i = json.load(open(sys.argv[1]))
want = dict(format="gguf", architecture="llama", name="Tiny llama", context_length=512, layers=2, hidden=64,
            ffn=128, heads=4, kv_heads=2, head_dim=16, vocabulary=300, tied_output=False)
for key, value in want.items():
    assert i[key] == value, (key, i[key])
assert len(i["tensors"]) == 21 and sum(t["bytes"] for t in i["tensors"]) == i["tensor_bytes"]
assert {"name": "blk.0.attn_k.weight", "dtype": "q8_0", "shape": [32, 64], "bytes": 2176} in i["tensors"]
assert i["types"] == {"f32": {"tensors": 5, "bytes": 1280}, "q8_0": {"tensors": 16, "bytes": 119136}}
END
must 0 info $tiny --tensors
grep -q '^architecture  llama, 2 layers, hidden 64, ffn 128$' "$work/out" || fault "info: $(cat "$work/out")"
grep -q 'q8_0 .* blk.0.attn_k.weight \[32, 64\]$' "$work/out" || fault "info --tensors"
finish
