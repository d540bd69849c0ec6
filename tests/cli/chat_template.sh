#!/usr/bin/env bash
# Chat templates: the file's own, of a model and of a tokenizer's file; one by name; one of the user's. What
# a template makes is the ids of the same text written out.
. tests/cli/common.sh
json=tests/golden/tokenizers/llama3.json

gguf() { # FILE KEYS-AS-JSON
    python3 -B -c 'import json, sys; sys.path.insert(0, "tests/cli"); import gguf_files
gguf_files.write(sys.argv[1], {"seed": 1, "keys": json.loads(sys.argv[2])})' "$1" "$2"
}

# makes TEXT ARGUMENTS: tokenize ARGUMENTS gives the ids of TEXT, told by --raw with the same file.
makes() {
    local want=$1
    shift
    must 0 tokenize "$@"
    cp "$work/out" "$work/chat"
    must 0 tokenize "$1" "$2" -p "$want"
    same_files "neap tokenize $*" "$work/chat" "$work/out"
}

# The file's own: N28 and its kin. The vocabulary begins no text with a token of its own.
own='{% for m in messages %}[{{ m.role | upper }}] {{ m.content | trim }} {% endfor %}{% if add_generation_prompt %}[ASK]{% endif %}'
gguf "$work/own.gguf" "{\"tokenizer.chat_template\": \"$own\", \"tokenizer.chat_template.short\": \"<{{ messages[-1].content }}>\", \"tokenizer.ggml.add_bos_token\": false}"
gguf "$work/none.gguf" '{"tokenizer.chat_template": null, "tokenizer.ggml.add_bos_token": false}'
gguf "$work/number.gguf" '{"tokenizer.chat_template": 3}'
gguf "$work/wrong.gguf" '{"tokenizer.chat_template": "a\n{{ messages | nope }}"}'
gguf "$work/refuses.gguf" "{\"tokenizer.chat_template\": \"{{ raise_exception('Not like this') }}\"}"
for how in -m --tokenizer; do
    makes '[USER] hi [ASK]' $how "$work/own.gguf" --chat -p ' hi '
    makes '[SYSTEM] be [USER] hi [ASK]' $how "$work/own.gguf" --chat --system be -p hi
    makes '<hi>' $how "$work/own.gguf" --chat --chat-template short -p hi
    refused 1 'neap: the file has no chat template and no ChatML tokens; name one (--chat-template), or write the prompt with its tags yourself (--raw)' \
        tokenize $how "$work/none.gguf" --chat -p hi
    must 1 tokenize $how "$work/number.gguf" --chat -p hi
    grep -q 'tokenizer.chat_template: ' "$work/err" || fault "a template that is a number: $(cat "$work/err")"
    refused 1 'neap: chat template, line 2: there is no filter or test "nope"' tokenize $how "$work/wrong.gguf" --chat -p hi
    refused 1 'neap: chat template, line 1: Not like this' tokenize $how "$work/refuses.gguf" --chat -p hi
    must 0 tokenize $how "$work/wrong.gguf" -p hi
done

makes $'<|im_start|>system\nYou are a tiny model<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n' \
    -m $tiny --chat -p hi
must 0 generate -m $tiny --ids "$work/chat" -n 8 --tokens -q
cp "$work/out" "$work/tokens"
must 0 generate -m $tiny --chat -p hi -n 8 --tokens -q
same_files "generate --chat" "$work/tokens" "$work/out"

# By name, and the user's own.
makes $'<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n' -m "$work/own.gguf" --chat --chat-template chatml -p hi
makes $'<start_of_turn>user\nbe\n\nhi<end_of_turn>\n<start_of_turn>model\n' -m "$work/none.gguf" --chat --chat-template gemma \
    --system be -p ' hi'
printf '{%%- for m in messages %%}\n  {{- "(" + m.content + ")" }}\n{%%- endfor %%}\n' >"$work/mine.jinja"
makes '(be)(hi)' -m "$work/own.gguf" --chat --chat-template "$work/mine.jinja" --system be -p hi
makes '(hi)' --tokenizer "$work/none.gguf" --chat --chat-template "$work/mine.jinja" -p hi
makes '(hi)' -m $tiny --chat --chat-template "$work/mine.jinja" -p hi
: >"$work/empty.jinja"
must 1 tokenize -m "$work/own.gguf" --chat --chat-template "$work/empty.jinja" -p hi
must 1 tokenize -m "$work/own.gguf" --chat --chat-template "$work" -p hi
must 1 tokenize -m "$work/own.gguf" --chat --chat-template chatlm -p hi
grep -q 'chatlm: no such file, and no template is called that; there are: .*chatml.*llama3' "$work/err" ||
    fault "a name that there is not: $(cat "$work/err")"
for command in "tokenize -m $tiny" "generate -m $tiny" "plan generate -m $tiny"; do
    refused 2 'neap: --chat-template needs --chat' $command --chat-template chatml -p hi
done

# BOS: by the file's rule for a known template, by the template itself for the file's or the user's.
cp $json "$work/tokenizer.json"
must 0 tokenize -m $json -p ''
[ "$(cat "$work/out")" = '[697]' ] || fault "llama3.json begins texts with 697"
must 0 tokenize -m $json --chat --chat-template llama3 -p a
cp "$work/out" "$work/named"
text=$'<|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n'
must 0 tokenize -m $json -p "$text"
same_files "llama3 by name" "$work/named" "$work/out"
printf '{{ bos_token }}a' >"$work/bos.jinja"
must 0 tokenize -m $json --chat --chat-template "$work/bos.jinja" -p x
[ "$(cat "$work/out")" = '[697,64]' ] || fault "one BOS: $(cat "$work/out")"

# Beside a tokenizer.json: tokenizer_config.json, and chat_template.jinja before it.
echo '{"bos_token": "<|begin_of_text|>", "chat_template": "{{ bos_token }}b"}' >"$work/tokenizer_config.json"
must 0 tokenize -m "$work/tokenizer.json" --chat -p x
[ "$(cat "$work/out")" = '[697,65]' ] || fault "tokenizer_config.json: $(cat "$work/out")"
echo '{"chat_template": [{"name": "default", "template": "c"}, {"name": "rag", "template": "d"}]}' >"$work/tokenizer_config.json"
must 0 tokenize --tokenizer "$work/tokenizer.json" --chat -p x
[ "$(cat "$work/out")" = '[66]' ] || fault "the default of several: $(cat "$work/out")"
must 0 tokenize --tokenizer "$work/tokenizer.json" --chat --chat-template rag -p x
[ "$(cat "$work/out")" = '[67]' ] || fault "one of several: $(cat "$work/out")"
printf 'a{{ eos_token is defined }}' >"$work/chat_template.jinja"
must 0 tokenize -m "$work/tokenizer.json" --chat -p x
must 0 tokenize -m "$work/tokenizer.json" --chat -p y
echo '{"chat_template": 3}' >"$work/tokenizer_config.json"
must 1 tokenize -m "$work/tokenizer.json" --chat -p x
grep -q 'chat_template: expected a string or an array' "$work/err" || fault "a number: $(cat "$work/err")"

# Rendering is on the ledger, and given back: the plan's peak is the run's.
must 0 plan generate -m $tiny --chat --chat-template "$work/mine.jinja" -p hi -n 4 --json
cp "$work/out" "$work/plan.json"
must 0 generate -m $tiny --chat --chat-template "$work/mine.jinja" -p hi -n 4 --ignore-eos -q --memory 8M \
    --stats "$work/stats.json"
[ "$(field "$work/plan.json" planned_peak_bytes)" = "$(field "$work/stats.json" measured_peak_bytes)" ] ||
    fault "planned $(field "$work/plan.json" planned_peak_bytes), measured $(field "$work/stats.json" measured_peak_bytes)"
least=$(field "$work/plan.json" least_bytes)
must 0 generate -m $tiny --chat --chat-template "$work/mine.jinja" -p hi -n 4 --ignore-eos -q --memory "$least"
finish
