#!/usr/bin/env bash
# The real model: ids, logits and greedy text of every prompt of the shared reference (issue 3, items 2
# and 3). Needs the model and models/smollm2 of the shared cases.
. tests/cli/common.sh
need_model
need_shared models/smollm2/reference.json
reference=$shared/models/smollm2/reference.json
logits=()
for ((i = 0; i < $(checks count "$reference" -); i++)); do
    checks prompt "$reference" - $i >"$work/prompt"
    must 0 tokenize -m "$model" -p - <"$work/prompt"
    cp "$work/out" "$work/ids.json"
    check "ids" checks tokens "$reference" - $i "$work/ids.json"
    must 0 generate -m "$model" --ids "$work/ids.json" -n "$(checks length "$reference" - $i)" --ignore-eos \
        --tokens --logits "$work/$i.npy" -q
    logits+=("$work/$i.npy")
    check "greedy" checks greedy "$reference" - $i "$work/out" 0.5
done
check "distance" checks real_distance "$reference" "$shared/models/smollm2/last_logits_f32.npy" "${logits[@]}"
finish
