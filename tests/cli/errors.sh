#!/usr/bin/env bash
# Wrong command lines and work that cannot be done: the exit status, one line that says what, where
# and what was expected, nothing on standard output.
. tests/cli/common.sh

g=(generate -m $tiny -p hi)
refused 2 'neap: foo: no such command; `neap --help` lists them' foo
refused 2 'neap: plan foo: no such command; `neap plan --help` lists them' plan foo
refused 2 'neap: -m FILE is missing: the model' generate -p hi
refused 2 'neap: -p TEXT or --ids FILE.json is missing: the prompt' generate -m $tiny
refused 2 'neap: -m: missing argument; `neap generate --help` lists the options' generate -m
refused 2 'neap: --bogus: unknown option; `neap generate --help` lists the options' "${g[@]}" --bogus
refused 2 'neap: extra: unexpected argument; `neap generate --help` lists the options' "${g[@]}" extra
refused 2 'neap: -p and --ids: one prompt is enough' "${g[@]}" --ids x.json
refused 2 'neap: --chat and --raw exclude each other' "${g[@]}" --chat --raw
refused 2 'neap: --system needs --chat' "${g[@]}" --system x
refused 2 'neap: FILE is missing: a model or a program' info
refused 2 'neap: -p TEXT is missing: the text' tokenize -m $tiny
refused 2 'neap: -m and --tokenizer exclude each other' tokenize -m $tiny --tokenizer $tiny -p a
refused 2 'neap: b: unexpected argument, only one file at a time' info a b

whole='expected a whole number from'
refused 2 "neap: -n 0: $whole 1 to 1073741824" "${g[@]}" -n 0
refused 2 "neap: -n -3: $whole 1 to 1073741824" "${g[@]}" -n -3
refused 2 "neap: -n 4x: $whole 1 to 1073741824" "${g[@]}" -n 4x
refused 2 "neap: -n 99999999999999999999: $whole 1 to 1073741824" "${g[@]}" -n 99999999999999999999
refused 2 "neap: -c -5: $whole 0 to 1073741824" "${g[@]}" -c -5
refused 2 "neap: --top-k -1: $whole 0 to 2147483647" "${g[@]}" --top-k -1
refused 2 "neap: --threads 0: $whole 1 to 256" "${g[@]}" --threads 0
refused 2 "neap: --seed -1: $whole 0 to 2^64 - 1" "${g[@]}" --seed -1
refused 2 'neap: --chunk 100: expected a multiple of 64' "${g[@]}" --chunk 100
refused 2 "neap: --chunk 0: $whole 64 to 1048576" "${g[@]}" --chunk 0
for value in nan inf -1 1e9 '' 0x; do
    refused 2 "neap: --temp $value: expected a number from 0 to 1000" "${g[@]}" --temp "$value"
done
refused 2 'neap: --top-p 1.5: expected a number from 0 to 1' "${g[@]}" --top-p 1.5
refused 2 'neap: --kv-type q4: expected one of f16|f32' "${g[@]}" --kv-type q4
refused 2 'neap: --weights f: expected one of auto|mapped|repacked' "${g[@]}" --weights f
size='expected a size of at least 1 byte and less than 2^63: bytes, or with K, M, G or T (of 1024), as in 300M, 300MiB or 1.5G, or none'
for value in 0 0M 12Q 99999999999G 9223372036854775808 -5 1.5 '' 12KBs ' 3'; do
    refused 2 "neap: --memory $value: $size" "${g[@]}" --memory "$value"
done
list='expected whole numbers from 1 to 1073741824 between commas, at most 32 of them'
for value in '' x 5,x 5, ,5 0 -1; do
    refused 2 "neap: --pp $value: $list" bench -m $tiny --pp "$value"
done
refused 2 'neap: --logits and --stats are files of one run: give one --pp and one --tg' \
    bench -m $tiny --pp 4,8 --logits x.npy

# Files.
refused 1 'neap: /nonexistent: No such file or directory' generate -m /nonexistent -p hi
refused 1 'neap: tests: not a regular file' generate -m tests -p hi
refused 1 'neap: tests: not a regular file' info tests
refused 1 'neap: --stats /nonexistent/x: No such file or directory' "${g[@]}" --stats /nonexistent/x
refused 1 'neap: --logits /nonexistent/x: No such file or directory' "${g[@]}" --logits /nonexistent/x
refused 1 'neap: --ids /nonexistent: No such file or directory' generate -m $tiny --ids /nonexistent
refused 1 'neap: --ids tests: Is a directory' generate -m $tiny --ids tests
for file in tests/golden/bad/*.gguf README.md; do
    must 1 generate -m "$file" -p hi
    [ "$(wc -l <"$work/err")" = 1 ] && grep -q "^neap: $file: " "$work/err" || fault "$file: $(cat "$work/err")"
done

# Ids.
bad_ids() {
    printf '%s' "$1" >"$work/ids.json"
    must 1 generate -m $tiny --ids "$work/ids.json"
    grep -q "^neap: --ids $work/ids.json: $2" "$work/err" || fault "ids $1: $(cat "$work/err")"
}
bad_ids '' 'line 1, column 0'
bad_ids '[1, 2' 'line 1, column'
bad_ids '{"ids": [1]}' 'expected one JSON array of token ids'
bad_ids '[1, 2.5]' 'member 1 is no token id (0 to 299)'
bad_ids '[1, "2"]' 'member 1 is no token id'
bad_ids '[300]' 'member 0 is no token id'
bad_ids '[-1]' 'member 0 is no token id'
bad_ids '[4294967297]' 'member 0 is no token id'
bad_ids '[99999999999999999999]' 'line 1, column'
printf '[]' >"$work/ids.json"
empty='neap: the prompt is empty, and the model begins a text with no token of its own'
refused 1 "$empty" generate -m $tiny --ids "$work/ids.json"
refused 1 "$empty" generate -m $tiny -p ''
refused 1 "$empty" generate -m $tiny -p -

# Context and template.
must 0 tokenize -m $tiny -p 'a prompt of some length'
n=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))))' "$work/out")
for c in 1 $((n - 1)) "$n"; do
    refused 1 "neap: the prompt has $n tokens, the context has room for $c positions and needs one more than \
the prompt: a larger -c (the model allows 512) or a shorter prompt would do" \
        generate -m $tiny -p 'a prompt of some length' -c "$c"
done
refused 1 'neap: context: 513, the model allows 1 to 512, or 0 for the most that fits' "${g[@]}" -c 513

# The environment.
runs=$(for set in base avx2 avx512; do NEAP_ISA=$set "$NEAP_BIN" --version >/dev/null 2>&1 && echo $set; done |
    paste -sd, | sed 's/,/, /g')
export NEAP_ISA=pdp11
refused 1 'neap: NEAP_ISA=pdp11: not a kernel set that this machine runs; it runs '"$runs" "${g[@]}"
unset NEAP_ISA

# An output that takes nothing.
if [ -w /dev/full ]; then
    "$NEAP_BIN" "${g[@]}" -n 4 -q >/dev/full 2>"$work/err"
    [ $? -eq 1 ] && grep -qx 'neap: standard output: No space left on device' "$work/err" ||
        fault "/dev/full: $(cat "$work/err")"
fi
"$NEAP_BIN" "${g[@]}" -n 4 -q --logits /dev/stdout 2>"$work/err" | cat >/dev/null
grep -q '^neap: --logits /dev/stdout: .*not a pipe' "$work/err" || fault "pipe: $(cat "$work/err")"
finish
