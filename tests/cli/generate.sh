#!/usr/bin/env bash
# Text and ids of the tiny models against their float64 reference, and the same bits whatever the
# threads, the chunk, the weight layout or where the prompt comes from.
. tests/cli/common.sh
reference=tests/golden/tiny-llama.json

# A greedy token counts while the reference's two best logits are further apart than 0.5: activations are
# rounded to 8 bits for quantised weights. How far the logits may be off is measured by llama.cpp.
for file in tests/golden/tiny-llama-*.gguf; do
    name=$(basename "$file")
    logits=()
    for ((i = 0; i < $(checks count $reference "$name"); i++)); do
        checks prompt $reference "$name" $i >"$work/prompt"
        must 0 tokenize -m "$file" -p - <"$work/prompt"
        check "$name: ids" checks tokens $reference "$name" $i "$work/out"
        must 0 generate -m "$file" -p - -n "$(checks length $reference "$name" $i)" --ignore-eos --tokens \
            --logits "$work/$i.npy" <"$work/prompt"
        logits+=("$work/$i.npy")
        cp "$work/out" "$work/ids"
        check "$name: greedy" checks greedy $reference "$name" $i "$work/ids" 0.5
        check "$name: rows" checks chosen "$work/$i.npy" "$work/ids"
    done
    check "$name: logits" checks tiny_distance $reference "$name" "${logits[@]}"
done

# A prompt of 150 ids takes three chunks of 64.
must 0 tokenize -m $tiny -p 'The capital of France is'
checks ids_of "$work/out" 150 >"$work/ids150.json"
base=(generate -m $tiny --ids "$work/ids150.json" -n 20 --ignore-eos)
must 0 "${base[@]}" --logits "$work/base.npy" --stats "$work/stats.json" --threads 2
cp "$work/out" "$work/base.txt"
check "--stats" checks stats "$work/stats.json"
[ "$(field "$work/stats.json" prompt_tokens)" = 150 ] || fault "prompt_tokens"
[ "$(field "$work/stats.json" generated_tokens)" = 20 ] || fault "generated_tokens"
[ "$(field "$work/stats.json" finish_reason)" = length ] || fault "finish_reason"
[ "$(field "$work/stats.json" threads)" = 2 ] || fault "threads"
for options in '--threads 1' '--threads 3' '--chunk 64' '--chunk 128' '--chunk 512' '--weights mapped' \
    '--weights repacked' '-c 170' '-c 512' '-c 0' '--weights mapped --chunk 64 --threads 1'; do
    # shellcheck disable=SC2086
    must 0 "${base[@]}" --logits "$work/other.npy" $options
    same_files "text with $options" "$work/base.txt" "$work/out"
    same_files "logits with $options" "$work/base.npy" "$work/other.npy"
done
must 0 "${base[@]}" --kv-type f32 --stats "$work/stats.json"
check "--kv-type f32" checks stats "$work/stats.json"

# Where the prompt comes from; zero bytes are text too.
must 0 generate -m $tiny -p 'Hello there' -n 8 -q
cp "$work/out" "$work/text"
[ -s "$work/err" ] && fault "--quiet: $(cat "$work/err")"
printf 'Hello there' >"$work/prompt"
must 0 generate -m $tiny -p - -n 8 <"$work/prompt"
same_files "-p -" "$work/text" "$work/out"
must 0 tokenize -m $tiny -p 'Hello there'
cp "$work/out" "$work/ids.json"
must 0 generate -m $tiny --ids "$work/ids.json" -n 8
same_files "--ids" "$work/text" "$work/out"
printf 'a\0b\0' >"$work/prompt"
must 0 generate -m $tiny -p - -n 3 -q <"$work/prompt"
must 0 tokenize -m $tiny -p - <"$work/prompt"

# The end: of the context, of the count, at an end token, by Ctrl-C.
must 0 generate -m $tiny --ids "$work/ids150.json" -n 500 --ignore-eos -c 160 --tokens --stats "$work/stats.json"
n=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))))' "$work/out")
[ "$n" = 11 ] || fault "10 positions and the token after them: $n new tokens"
check "to the context's end" checks stats "$work/stats.json"
must 0 generate -m $tiny -p hi -n 1 --tokens --stats "$work/stats.json"
check "-n 1" checks stats "$work/stats.json"
# Under greedy choice the first reference continuation meets the end token (2) as its seventh.
must 0 generate -m $tiny -p 'The capital of France is' -n 50 --tokens --stats "$work/stats.json"
[ "$(cat "$work/out")" = '[27,21,118,189,106,46]' ] || fault "stop: $(cat "$work/out")"
[ "$(field "$work/stats.json" finish_reason)" = stop ] || fault "finish_reason at an end token"

# Sampling: a seed gives one text; the filters that leave one token give the greedy one.
must 0 generate -m $tiny -p 'Hello there' -n 8 --temp 1 --seed 7 --tokens --ignore-eos
cp "$work/out" "$work/seed7"
must 0 generate -m $tiny -p 'Hello there' -n 8 --temp 1 --seed 7 --tokens --ignore-eos --threads 1
same_files "seed 7" "$work/seed7" "$work/out"
must 0 generate -m $tiny -p 'Hello there' -n 8 --temp 1 --seed 8 --tokens --ignore-eos
cmp -s "$work/seed7" "$work/out" && fault "seeds 7 and 8 give the same"
for options in '--top-k 1' '--top-p 0' '--min-p 1'; do
    # shellcheck disable=SC2086
    must 0 generate -m $tiny -p 'Hello there' -n 8 --temp 1 $options
    same_files "$options" "$work/text" "$work/out"
done

# The order of options, long and joined forms.
must 0 generate --max-tokens=8 --prompt='Hello there' --model=$tiny -q
same_files "long forms" "$work/text" "$work/out"
must 0 generate -n8 "-pHello there" -m$tiny -q
same_files "joined forms" "$work/text" "$work/out"
finish
