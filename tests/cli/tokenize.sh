#!/usr/bin/env bash
# `neap tokenize` with a tokenizer.json, and with a GGUF file's vocabulary alone.
. tests/cli/common.sh
json=tests/golden/tokenizers/llama3.json

prints() { # WANT ARGUMENTS
    local want=$1
    shift
    must 0 tokenize "$@"
    [ "$(cat "$work/out")" = "$want" ] || fault "neap tokenize $*: $(cat "$work/out"), expected $want"
}

prints '[697,64,698]' -m $json -p 'a<|eot_id|>'
prints '[697,64,698]' --tokenizer $json -p 'a<|eot_id|>'
must 0 tokenize -m $tiny -p 'some text'
prints "$(cat "$work/out")" --tokenizer $tiny -p 'some text'
prints '[697]' -m $json -p '' --stats "$work/stats.json"
[ "$(field "$work/stats.json" mapped_bytes)" = 0 ] || fault "the file stays mapped"
must 0 tokenize -m $json --chat -p hi

must 1 tokenize --tokenizer "$work/absent.json" -p a
grep -q "absent.json: No such file" "$work/err" || fault "an absent file: $(cat "$work/err")"
head -c 700 $json >"$work/cut.json"
must 1 tokenize -m "$work/cut.json" -p a
grep -q "cut.json: line 1, byte 700: " "$work/err" || fault "a file that is cut: $(cat "$work/err")"
mkfifo "$work/pipe"
must 1 tokenize -m "$work/pipe" -p a
must 1 tokenize -m $json -p a --memory 100K
grep -q 'needs at least' "$work/err" || fault "a small budget: $(cat "$work/err")"
finish
