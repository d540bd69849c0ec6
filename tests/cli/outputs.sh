#!/usr/bin/env bash
# Where results go: no output is one of the inputs, a refused run leaves no file and spoils none,
# --stats - follows the text, sizes in every spelling, names of files that cannot steer a terminal.
. tests/cli/common.sh

# ---- an output that is an input ---------------------------------------------------------------
cp $tiny "$work/model.gguf" && cp $tiny "$work/kept.gguf"
printf 'Hello' >"$work/prompt"
ln -s model.gguf "$work/link.gguf"
ln "$work/model.gguf" "$work/hard.gguf"
unharmed() { same_files "$1: the model" "$work/model.gguf" "$work/kept.gguf"; }
over() { # LINE ARGUMENTS
    local line=$1
    shift
    must 2 "$@" <"$work/prompt"
    [ "$(cat "$work/err")" = "$line" ] || fault "neap $*: $(cat "$work/err")
    expected: $line"
    unharmed "neap $*"
}
over "neap: --stats $work/link.gguf: the same file as -m" generate -m "$work/model.gguf" -p a --stats "$work/link.gguf"
over "neap: --logits $work/hard.gguf: the same file as -m" generate -m "$work/model.gguf" -p a --logits "$work/hard.gguf"
over "neap: --html $work/model.gguf: the same file as -m" plan generate -m "$work/model.gguf" -p a --html "$work/model.gguf"
over "neap: --stats $work/prompt: the same file as standard input" generate -m "$work/model.gguf" -p - --stats "$work/prompt"
over "neap: --stats $work/prompt: the same file as standard input" tokenize -m "$work/model.gguf" -p - --stats "$work/prompt"
[ "$(cat "$work/prompt")" = Hello ] || fault "the prompt was written over"
over "neap: --logits $work/out: the same file as standard output" generate -m "$work/model.gguf" -p a --logits "$work/out"
mkdir "$work/speech"
for part in encoder.pte cross_kv.pte decoder.pte tokenizer.json; do cp $tiny "$work/speech/$part"; done
ln -s ../speech/decoder.pte "$work/speech/alias"
touch "$work/sound.wav"
for part in encoder.pte cross_kv.pte decoder.pte tokenizer.json alias; do
    over "neap: --stats $work/speech/$part: a file of the folder -m" transcribe -m "$work/speech" "$work/sound.wav" \
        --stats "$work/speech/$part"
    [ "$(stat -c %s "$work/speech/$part")" -gt 0 ] || fault "$part was written over"
done
over "neap: --html $work/speech/encoder.pte: a file of the folder -m" plan transcribe -m "$work/speech" \
    --html "$work/speech/encoder.pte"

# ---- what a refused run leaves -----------------------------------------------------------------
few=(-m $tiny -p 'Hello there' -n 4)
for output in --stats --logits; do
    must 1 generate "${few[@]}" --memory 1000 $output "$work/new.file"
    [ -e "$work/new.file" ] && fault "a refused run leaves $output behind"
    printf 'what was there' >"$work/old.file"
    must 1 generate "${few[@]}" --memory 1000 $output "$work/old.file"
    [ "$(cat "$work/old.file")" = 'what was there' ] || fault "a refused run spoils $output"
done
for output in --stats --trace; do
    must 1 plan generate -m "$work/nothing.gguf" -p a $output "$work/new.file"
    [ -e "$work/new.file" ] && fault "a refused plan leaves $output behind"
done
must 1 bench -m $tiny --pp 8 --tg 4 --repeat 1 --memory 1000 --stats "$work/new.file"
must 1 transcribe -m "$work/speech" "$work/sound.wav" --stats "$work/new.file"
must 1 tokenize -m "$work/nothing.gguf" -p a --stats "$work/new.file"
must 1 run tests/golden/pte/nothing.pte --stats "$work/new.file" -o "$work/new.file2"
[ -e "$work/new.file" ] || [ -e "$work/new.file2" ] && fault "a refused run leaves a file behind"
refused 1 "neap: --stats $work: Is a directory" generate "${few[@]}" --stats "$work"
refused 1 "neap: --stats $work/none/x: No such file or directory" generate "${few[@]}" --stats "$work/none/x"
refused 2 'neap: --logits -: expected a file; only --stats can go to standard output' generate "${few[@]}" --logits -
refused 2 'neap: --html -: expected a file; only --stats can go to standard output' plan generate "${few[@]}" --html -
refused 2 'neap: -o -: expected a file; only --stats can go to standard output' run x.pte -o -

# ---- --stats - ------------------------------------------------------------------------------------
must 0 generate "${few[@]}" -q && cp "$work/out" "$work/text"
must 0 generate "${few[@]}" -q --stats -
head -c -1 "$work/out" | head -n -1 >"$work/before"
{ cat "$work/text"; echo; } >"$work/wanted"
same_files "the text before --stats -" "$work/before" "$work/wanted"
tail -n 1 "$work/out" >"$work/stats.json"
check "--stats -" checks stats "$work/stats.json"
must 0 generate "${few[@]}" -q --json --stats -
[ "$(wc -l <"$work/out")" -eq 2 ] || fault "--json and --stats -: $(cat "$work/out")"
must 0 tokenize -m $tiny -p 'Hello there' --stats -
[ "$(wc -l <"$work/out")" -eq 2 ] || fault "tokenize --stats -: $(cat "$work/out")"
must 0 plan generate "${few[@]}" --json --stats -
[ "$(wc -l <"$work/out")" -eq 2 ] || fault "plan --json --stats -: $(cat "$work/out")"
[ -e ./- ] && fault "a file named - was written"

# ---- sizes ------------------------------------------------------------------------------------------
size() { # TEXT BYTES
    must 0 plan generate "${few[@]}" --json --memory "$1"
    [ "$(field "$work/out" memory_limit)" = "$2" ] || fault "--memory $1: $(field "$work/out" memory_limit), expected $2"
}
size 67108864 67108864
size 64M 67108864
size 64m 67108864
size 64MB 67108864
size 64MiB 67108864
size 64mib 67108864
size 65536K 67108864
size 65536KiB 67108864
size 1.5G 1610612736
size 1.5GiB 1610612736
size 0.0625GB 67108864
size 64.5M 67633152
size 1T 1099511627776
size 100000000.999999999999999999K 102400001023
for text in 0 0.0M -1 +1M ' 1M' 1.5 .5G 1.G 64Mi 64MiBs 64X 1e9 0x10 nan 8388608T 9223372036854775808 64M, ''; do
    must 2 plan generate "${few[@]}" --memory "$text"
    grep -q 'expected a size' "$work/err" || fault "--memory '$text': $(cat "$work/err")"
done

# ---- text of files on a terminal ----------------------------------------------------------------
# The name of this file has a C1 control, an override of direction and a byte that is no UTF-8.
hostile=tests/golden/names/c1_controls.gguf
printable() {
    python3 - "$1" "$2" <<'END' || fault "$1 prints what can steer a terminal"
import sys, unicodedata
text = open(sys.argv[2], "rb").read().decode("utf-8")
bad = [hex(ord(c)) for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]
assert not bad, bad
END
}
for command in "info $hostile" "info --tensors $hostile" "plan generate -m $hostile --ids $work/ids.json"; do
    echo '[1]' >"$work/ids.json"
    # shellcheck disable=SC2086
    run $command
    printable "$command" "$work/out"
    printable "$command" "$work/err"
done
must 0 info --json $hostile
python3 - "$work/out" <<'END' || fault "info --json: $(head -c 200 "$work/out")"
import json, sys
name = json.load(open(sys.argv[1], encoding="utf-8"))["name"]
assert name == "A\u009b31mB\ufffd32mC\u202eD\ufffd", ascii(name)
END
finish
