#!/usr/bin/env bash
# `neap run` and `neap info` on small programs (tests/golden/pte): inputs and outputs in files, calls,
# options, and what is refused. The expected values are those of tests/golden/pte/cases.txt.
. tests/cli/common.sh
pte=tests/golden/pte
w=$work

# shows FILE LINE…: the tensors in a file.
shows() {
    local file=$1
    shift
    tensors show "$file" >"$w/shown"
    printf '%s\n' "$@" >"$w/wanted"
    cmp -s "$w/shown" "$w/wanted" || fault "$file holds: $(cat "$w/shown")
    expected: $*"
}
# prints LINE…: standard output of the last run.
prints() {
    printf '%s\n' "$@" >"$w/wanted"
    cmp -s "$w/out" "$w/wanted" || fault "printed: $(cat "$w/out")
    expected: $*"
}

tensors make "$w/x.npy" f32 2,3 1 2 3 4 5 6
tensors make "$w/y.npy" i64 3 10 20 30
tensors make "$w/four.npy" f32 4 1 -1 2 -2
tensors make "$w/ones.npy" f32 4 1 1 2 2

# Files of both kinds, in and out.
add=(run $pte/two_inputs.pte -q)
must 0 "${add[@]}" -i "$w/x.npy" -i "$w/y.npy" -o "$w/z.npy" && shows "$w/z.npy" "f32 [2, 3] 11 22 33 14 25 36"
must 0 "${add[@]}" -i "$w/x.npy" -i "$w/y.npy" && prints "output 0: f32[2, 3] 11 22 33 14 25 36"
tensors list "$w/xy.bin" "$w/x.npy" "$w/y.npy" # y lies on no multiple of 8
must 0 "${add[@]}" -i "$w/xy.bin" -o "$w/z.bin" && shows "$w/z.bin" "f32 [2, 3] 11 22 33 14 25 36"
tensors list "$w/x.bin" "$w/x.npy"
must 0 "${add[@]}" -i "$w/x.bin" -i "$w/y.npy" -o "$w/z.bin" && shows "$w/z.bin" "f32 [2, 3] 11 22 33 14 25 36"

# Methods, constants beside the program, integers.
must 0 run $pte/two_methods.pte -q --method scale -i "$w/four.npy" && prints "output 0: f32[4] 1 -2 6 -8"
must 0 run $pte/two_methods.pte -q --method shift -i "$w/four.npy" && prints "output 0: f32[4] 2 3 11 14"
must 0 run $pte/external.pte -q --data $pte/external.ptd -i "$w/ones.npy" && prints "output 0: f32[4] 6 8 13 16"
must 1 run $pte/external.pte -q -i "$w/ones.npy"
tensors make "$w/five.npy" i32 - 5
tensors make "$w/two.npy" f32 1 2
must 0 run $pte/values.pte -q -i "$w/five.npy" -i "$w/two.npy" && prints "output 0: f32[7] 2 2 2 2 2 2 2" \
    "output 1: int 7" "output 2: int -4" "output 3: int 15" "output 4: int 1" "output 5: int 1"
must 0 run $pte/values.pte -q -i "$w/five.npy" -i "$w/two.npy" -o "$w/a.npy" -o "$w/b.npy" &&
    shows "$w/b.npy" "i64 [] 7" && prints "output 2: int -4" "output 3: int 15" "output 4: int 1" "output 5: int 1"

# Calls: buffers are kept; a call without -i takes those before; --calls repeats the last one.
tensors make "$w/pair.npy" f32 2,2 1 2 3 4
must 0 run $pte/state_view_add.pte -q -i "$w/pair.npy" --calls 3 && cp "$w/out" "$w/third"
must 0 run $pte/state_view_add.pte -q -i "$w/pair.npy" -o "$w/1.npy" --call -o "$w/2.npy" --call
same_files "three calls" "$w/out" "$w/third"
[ "$(tensors show "$w/1.npy")" != "$(tensors show "$w/2.npy")" ] || fault "the buffer is not kept"
must 0 run $pte/state_view_add.pte -q --call -i "$w/pair.npy" --call -i "$w/pair.npy" -o "$w/3.npy"
same_files "the second call" "$w/2.npy" "$w/3.npy"

# Statistics and the threshold.
tensors make "$w/flat.npy" f32 256 $(seq 256)
must 0 run $pte/th03_flat9.pte -q -i "$w/flat.npy" --option eval_threshold_bytes=2048 --stats "$w/s.json" -o "$w/t.npy"
check "--stats" checks run_stats "$w/s.json"
for pair in barriers:4 accounting_calls:9 pending_bytes:1024 executes:1; do
    [ "$(field "$w/s.json" ${pair%:*})" = "${pair#*:}" ] || fault "$pair is $(field "$w/s.json" ${pair%:*})"
done
must 0 run $pte/th03_flat9.pte -q -i "$w/flat.npy" --stats "$w/s.json" -o "$w/u.npy"
[ "$(field "$w/s.json" barriers)" = 0 ] || fault "barriers without a threshold"
same_files "the threshold changes nothing" "$w/t.npy" "$w/u.npy"

# Options of the handle.
option() { # VALUE WHAT THE ERROR SAYS
    must 1 run $pte/th03_flat9.pte -q -i "$w/flat.npy" --option "$1"
    grep -q "$2" "$w/err" || fault "--option $1: $(cat "$w/err")"
}
for value in -1 1e3 '' 12x 9223372036854775808 ' 1' +1 0x10 true; do
    option "eval_threshold_bytes=$value" "eval_threshold_bytes: .*$value.*0 to 2^63-1"
done
option clear_cache_interval=-1 'clear_cache_interval: -1.*0 or more'
option skip_mutable_buffer_init=1 'skip_mutable_buffer_init: .*true or false'
option cache_key= 'cache_key: '
option cache_key=x 'no cache is installed as "x"'
option nonsense=1 'nonsense: unknown'
must 0 run $pte/th03_flat9.pte -q -i "$w/flat.npy" --option eval_threshold_bytes=9223372036854775807 \
    --option clear_cache_interval=1 --option skip_mutable_buffer_init=false
refused 2 'neap: --option x: expected KEY=VALUE' run $pte/th03_flat9.pte --option x
refused 2 'neap: --option =1: expected KEY=VALUE' run $pte/th03_flat9.pte --option =1

# Operators that no row knows: all of them in one message, each marked by info.
PYTHONPATH=tools python3 -B - "$w/unknown.pte" <<'END'
import sys
from pte_writer import Program
p = Program()
m = p.method("forward")
x, y = m.tensor("f32", [4]), m.tensor("f32", [4])
m.inputs.append(x)
m.outputs.append(y)
for name, overload in (("mine::first", "out"), ("aten::abs", "out"), ("mine::second", ""), ("aten::abs", "nothing"),
                       ("mine::first", "out"), ("aten::an_operator_with_quite_a_long_name", "Tensor_Scalar_out"),
                       ("quantized_decomposed::one_more_of_a_long_name", "Tensor_out")):
    m.kernel(name, overload, [x, y, y])
p.write(sys.argv[1])
END
names='mine::first.out (unknown), mine::second (unknown), aten::abs.nothing (unknown), aten::an_operator_with_quite_a_long_name.Tensor_Scalar_out (unknown), quantized_decomposed::one_more_of_a_long_name.Tensor_out (unknown)'
refused 1 "neap: $w/unknown.pte: method forward: operators outside the delegates that do not run here: $names" run "$w/unknown.pte"
must 0 info "$w/unknown.pte"
[ "$(grep -c 'does not run: ' "$w/out")" = 5 ] || fault "info marks $(grep 'does not run' "$w/out")"
for name in mine::first.out mine::second aten::abs.nothing; do
    grep -qx "  does not run: $name (unknown)" "$w/out" || fault "info does not mark $name"
done

# What is refused: the command line is 2, files and values 1.
refused 2 'neap: PROGRAM.pte is missing' run
refused 2 "neap: -o $w/x.npy: the same file as -i" run $pte/two_inputs.pte -i "$w/x.npy" -i "$w/y.npy" -o "$w/x.npy"
refused 2 "neap: --kv-cache 1,2: expected CAPACITY,LAYERS,KV_HEADS,HEAD_DIM[,DTYPE], whole numbers and f32, f16 or bf16" \
    "${add[@]}" -i "$w/x.npy" -i "$w/y.npy" --kv-cache 1,2
refused 2 'neap: --calls 0: expected a whole number from 1 to 1073741824' "${add[@]}" --calls 0
refused 1 'neap: no method forward; there are scale, shift' run $pte/two_methods.pte
refused 1 'neap: /nonexistent: No such file or directory' run /nonexistent
refused 1 'neap: /nonexistent: No such file or directory' "${add[@]}" -i /nonexistent
refused 1 'neap: tests: not a regular file' "${add[@]}" -i tests
refused 1 'neap: 1 inputs, method forward takes 2' "${add[@]}" -i "$w/x.npy"
refused 1 'neap: 2 times -o, method forward has 1 outputs' "${add[@]}" -o "$w/1.npy" -o "$w/2.npy"
refused 1 'neap: input 0: dtype i64, expected f32' "${add[@]}" -i "$w/y.npy" -i "$w/y.npy"
tensors make "$w/wide.npy" f32 2,4 1 2 3 4 5 6 7 8
refused 1 'neap: input 0: dimension 1 has 4, expected 3' "${add[@]}" -i "$w/wide.npy" -i "$w/y.npy"
refused 1 'neap: input 0: 1 dimensions, expected 2' "${add[@]}" -i "$w/four.npy" -i "$w/y.npy"
must 1 "${add[@]}" -i "$w/x.npy" -i "$w/y.npy" -o /nonexistent/z.npy
grep -q '^neap: /nonexistent/z.npy: ' "$w/err" || fault "-o: $(cat "$w/err")"
: >"$w/empty.bin"
refused 1 "neap: $w/empty.bin: an empty file" "${add[@]}" -i "$w/empty.bin"
for n in $(seq 1 "$(($(stat -c %s "$w/xy.bin") - 1))"); do # cut at every byte
    head -c "$n" "$w/xy.bin" >"$w/cut.bin"
    run "${add[@]}" -i "$w/cut.bin"
    [ $status -eq 1 ] && [ "$(wc -l <"$w/err")" = 1 ] || fault "cut at $n: exit $status, $(cat "$w/err")"
done
{ cat "$w/xy.bin"; echo; } >"$w/cut.bin"
refused 1 "neap: $w/cut.bin: a .bin list: 1 bytes behind the last of 2 tensors" "${add[@]}" -i "$w/cut.bin"
for file in $pte/bad_*.pte; do
    must 1 run "$file" -q
    [ "$(wc -l <"$w/err")" = 1 ] && grep -Eq "^neap: ($file: |0 inputs)" "$w/err" || fault "$file: $(cat "$w/err")"
done

# What a program holds.
must 0 info $pte/two_methods.pte --json
python3 - "$w/out" <<'END' || fault "info --json"
import json, sys
i = json.load(open(sys.argv[1]))
assert i["format"] == "pte" and [m["name"] for m in i["methods"]] == ["scale", "shift"], i
m = i["methods"][1]
assert m["inputs"] == [{"kind": "tensor", "dtype": "f32", "shape": [4], "bounded": False}] == m["outputs"], m
assert m["node_types"] == {"AddNode": 1, "MultiplyNode": 1}, m
assert (m["delegates"], m["chains"], m["nodes"], m["constants"], m["buffers"]) == (1, 2, 2, 1, 0), m
assert i["options"]["eval_threshold_bytes"] == "int", i
END
must 0 info $pte/length_bound.pte
grep -qx '  input  0  f32\[8, 2\] at most' "$w/out" || fault "info: $(cat "$w/out")"
finish
