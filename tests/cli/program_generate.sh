#!/usr/bin/env bash
# `neap generate` and `neap plan generate` of programs: the tokens of the references, chunks, the
# context, the budget, and programs that no text can be made with.
. tests/cli/common.sh
pte=tests/golden/pte
w=$work

# Without references: what is refused.
printf '[1, 2, 3]' >"$w/ids.json"
refused 2 'neap: --tokenizer FILE is missing: a program has none of its own' \
    generate -m $pte/two_inputs.pte -p hi
refused 2 'neap: --tokenizer FILE is missing: without it only --tokens can be printed' \
    generate -m $pte/two_inputs.pte --ids "$w/ids.json"
refused 2 "neap: --tokenizer, --option and --data are for programs, $tiny is none" \
    generate -m $tiny -p hi --tokenizer x
g=(generate --ids "$w/ids.json" --tokens -m)
refused 1 'neap: method forward: its inputs are not ids [1, T] and positions [T], i32 or i64' \
    "${g[@]}" $pte/two_inputs.pte
refused 1 'neap: method forward takes 1 inputs, text needs two: ids [1, T] and positions [T]' \
    "${g[@]}" $pte/th01_flat8.pte
refused 1 'neap: no method forward; there are scale, shift' "${g[@]}" $pte/two_methods.pte
refused 2 'neap: --kv-type: what a program remembers has the type it was exported with' \
    "${g[@]}" $pte/two_inputs.pte --kv-type f32

# A program whose tokens follow a rule (tools/make_pte_cases.py): up to the context's 24 positions.
printf '[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]' >"$w/ids.json"
for name in next_token next_token_single; do
    g=(generate -m $pte/$name.pte --ids "$w/ids.json" --tokens --threads 2 -q)
    must 0 "${g[@]}" --stats "$w/stats.json" --logits "$w/logits.npy" && cp "$w/out" "$w/got.json"
    [ "$(cat "$w/out")" = '[9,0,3,12,15,14,15,14,9,2,13,4,5,12,15]' ] || fault "$name: $(cat "$w/out")"
    check "$name: stats" checks stats "$w/stats.json"
    check "$name: chosen from" checks chosen "$w/logits.npy" "$w/got.json"
    must 0 plan "${g[@]}" --json && cp "$w/out" "$w/plan.json"
    check "$name: plan" checks plan "$w/plan.json" idle
    least=$(field "$w/plan.json" least_bytes)
    must 0 "${g[@]}" --memory "$least" && same_files "$name: least" "$w/out" "$w/got.json"
    must 1 "${g[@]}" --memory $((least - 1))
done
must 0 plan generate -m $pte/next_token.pte --ids "$w/ids.json"
grep -q '^10 prompt tokens, context 24, steps of 8 tokens, ' "$w/out" || fault "plan: $(cat "$w/out")"
must 0 generate -m $pte/next_token.pte --ids "$w/ids.json" --tokens -q -n 2 --temp 2 --seed 5

shared=${NEAP_SHARED:-../shared}
if [ ! -r "$shared/models/qwen35-scan-4w-bf16/model.pte" ]; then
    echo "no $shared/models; NEAP_SHARED names another place: the rest is skipped"
    finish
    exit
fi

# reference NAME: its prompt to ids.json, its greedy tokens to want.json.
reference() {
    python3 - "$shared/models/$1/meta.json" "$w" <<'END'
import json, sys
meta = json.load(open(sys.argv[1]))
json.dump(meta["prompt_ids"], open(sys.argv[2] + "/ids.json", "w"))
json.dump(meta["greedy_tokens"], open(sys.argv[2] + "/want.json", "w"))
print(len(meta["greedy_tokens"]))
END
}
same_ids() { python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1])) != json.load(open(sys.argv[2])))' "$@"; }

for name in qwen35-scan-4w-bf16 gemma-sliding; do
    n=$(reference $name)
    g=(generate -m "$shared/models/$name/model.pte" --ids "$w/ids.json" --tokens --threads 2 -n "$n")
    must 0 "${g[@]}" --logits "$w/logits.npy" --stats "$w/stats.json" && cp "$w/out" "$w/got.json"
    check "$name: $(cat "$w/out")" same_ids "$w/got.json" "$w/want.json"
    check "$name: chosen from" checks chosen "$w/logits.npy" "$w/got.json"
    [ "$(field "$w/stats.json" generated_tokens)" = "$n" ] || fault "$name: generated_tokens"
    must 0 plan "${g[@]}" --json && cp "$w/out" "$w/plan.json"
    check "$name: plan" checks plan "$w/plan.json"
    least=$(field "$w/plan.json" least_bytes)
    must 0 "${g[@]}" --memory "$least" --stats "$w/stats.json" && same_files "$name: least" "$w/out" "$w/got.json"
    [ "$(field "$w/stats.json" measured_peak_bytes)" -le "$least" ] || fault "$name: over the limit"
    must 1 "${g[@]}" --memory $((least - 1))
    grep -Eq "^neap: needs at least [0-9.]+ MiB \($least bytes\), the limit is " "$w/err" ||
        fault "$name: the refusal says: $(cat "$w/err")"
    must 0 "${g[@]}" --threads 1 && same_files "$name: threads" "$w/out" "$w/got.json"
    must 0 "${g[@]}" --option eval_threshold_bytes=1 && same_files "$name: threshold" "$w/out" "$w/got.json"
done

# A dynamic T: planned is measured; the context ends the text; sampling is a function of the seed.
reference qwen35-scan-4w-bf16 >/dev/null
g=(generate -m "$shared/models/qwen35-scan-4w-bf16/model.pte" --ids "$w/ids.json" --tokens --threads 2)
must 0 "${g[@]}" -n 8 --stats "$w/stats.json" && check "planned is measured" checks stats "$w/stats.json"
must 0 "${g[@]}" -n 100 -c 10 --stats "$w/stats.json"
[ "$(field "$w/stats.json" generated_tokens)" = 4 ] || fault "-c 10 gives $(cat "$w/out")"
refused 1 'neap: the prompt has 7 tokens, the context has room for 7 positions and needs one more than the prompt: '\
'a larger -c (the model allows 64) or a shorter prompt would do' "${g[@]}" -c 7
refused 1 'neap: context: 65, the program allows 1 to 64' "${g[@]}" -c 65
must 0 "${g[@]}" -n 8 --temp 1 --seed 3 && cp "$w/out" "$w/one"
must 0 "${g[@]}" -n 8 --temp 1 --seed 3 && same_files "one seed" "$w/out" "$w/one"
must 0 "${g[@]}" -n 8 --temp 1 --seed 4 && cmp -s "$w/out" "$w/one" && fault "two seeds, one text"
printf '[256]' >"$w/ids.json"
refused 1 "neap: --ids $w/ids.json: member 0 is no token id (0 to 255)" "${g[@]}"

# Text, with a tokenizer that knows more ids than the program.
must 0 generate -m "$shared/models/qwen35-scan-4w-bf16/model.pte" -n 8 -p C -q \
    --tokenizer $tiny --stats "$w/stats.json"
[ -s "$w/out" ] || fault "no text"
check "text" checks stats "$w/stats.json"
finish
