#!/usr/bin/env bash
# Surroundings that are out to harm: standard files that are closed, input without an end, files whose
# names and texts carry control characters.
. tests/cli/common.sh

# What is opened does not take the place of a closed standard file.
g=(generate -m $tiny -p hi -n 4 --ignore-eos)
must 0 "${g[@]}" -q --logits "$work/want.npy"
"$NEAP_BIN" "${g[@]}" --logits "$work/a.npy" --stats "$work/a.json" >&- 2>"$work/err"
[ $? -eq 1 ] && grep -qx 'neap: standard output: Bad file descriptor' "$work/err" ||
    fault "standard output closed: $(cat "$work/err")"
if [ -s "$work/a.npy" ]; then
    head -c 6 "$work/a.npy" | cmp -s - <(head -c 6 "$work/want.npy") || fault "text went into the logits"
fi
[ -s "$work/a.json" ] && fault "text went into the stats"
"$NEAP_BIN" "${g[@]}" --logits "$work/b.npy" >"$work/out" 2>&- <&- || fault "standard error closed"
same_files "standard error closed" "$work/want.npy" "$work/b.npy"
"$NEAP_BIN" generate -m $tiny -p - 2>"$work/err" <&-
[ $? -eq 1 ] && grep -qx 'neap: standard input: Bad file descriptor' "$work/err" ||
    fault "standard input closed: $(cat "$work/err")"

# A budget holds for a prompt too.
"$NEAP_BIN" generate -m $tiny -p - --memory 8M </dev/zero >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && grep -q '^neap: standard input: .* do not fit' "$work/err" && [ "$(wc -l <"$work/err")" = 1 ] ||
    fault "input without an end: $(cat "$work/err")"
printf 'hi' >"$work/short"
must 0 generate -m $tiny -p - --memory 2M -q <"$work/short"

# A message stays one line, whatever the file holds.
python3 - "$tiny" "$work/lines.gguf" <<'END'
import sys
data = open(sys.argv[1], "rb").read()
at = data.index(b"general.architecture") + len(b"general.architecture") + 4 + 8
assert data[at:at + 5] == b"llama"
open(sys.argv[2], "wb").write(data[:at] + b"l\n\x1b[m" + data[at + 5:])
END
must 0 info "$work/lines.gguf"
[ "$(grep -c '^does not run  architecture "l??\[m" is not known; known: llama$' "$work/out")" = 1 ] ||
    fault "control characters: $(cat "$work/out")"
must 1 generate -m "$work/lines.gguf" -p x
grep -qx "neap: $work/lines.gguf: architecture \"l??\[m\" is not known; known: llama" "$work/err" &&
    [ "$(wc -l <"$work/err")" = 1 ] || fault "control characters: $(cat "$work/err")"

# A number that would make every logit NaN is named when the model is opened.
python3 - "$tiny" "$work/eps.gguf" <<'END'
import struct, sys
data = open(sys.argv[1], "rb").read()
key = b"llama.attention.layer_norm_rms_epsilon"
at = data.index(key) + len(key) + 4
open(sys.argv[2], "wb").write(data[:at] + struct.pack("<f", -1) + data[at + 4:])
END
must 1 generate -m "$work/eps.gguf" -p hi
grep -qx "neap: $work/eps.gguf: llama.attention.layer_norm_rms_epsilon is -1, expected 0 or more" "$work/err" ||
    fault "negative epsilon: $(cat "$work/err")"

# An output is no input.
cp $tiny "$work/model.gguf"
echo '[1, 2]' >"$work/ids.json"
ln "$work/model.gguf" "$work/link"
clash() { # LINE ARGUMENTS
    local line=$1
    shift
    must 2 generate -m "$work/model.gguf" -n 2 "$@"
    [ "$(cat "$work/err")" = "neap: $line" ] || fault "$* says $(cat "$work/err")"
}
clash "--logits $work/model.gguf: the same file as -m" -p hi --logits "$work/model.gguf"
clash "--stats $work/link: the same file as -m" -p hi --stats "$work/link"
clash "--stats $work/ids.json: the same file as --ids" --ids "$work/ids.json" --stats "$work/ids.json"
clash "--stats $work/new: the same file as --logits" -p hi --logits "$work/new" --stats "$work/new"
same_files "outputs over inputs" $tiny "$work/model.gguf"

# A size beyond the model is refused before anything of that size is taken.
must 1 bench -m $tiny --pp 1073741824 --tg 1
grep -qx "neap: --pp 1073741824: the model's context has 512 positions" "$work/err" ||
    fault "a huge --pp: $(cat "$work/err")"
finish
