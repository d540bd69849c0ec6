#!/usr/bin/env bash
# The page and the trace of `neap plan`: their data are what --json says, names from files can do no
# harm, and files that cannot be written are named.
. tests/cli/common.sh
pte=tests/golden/pte
w=$work

looks() { python3 -B tests/cli/plan_page.py "$@"; }

# one_case ARGUMENTS: page, trace and JSON of one plan.
one_case() {
    must 0 plan "$@" --threads 2 --json --verbose --html "$w/p.html" --trace "$w/p.trace" || return
    cp "$w/out" "$w/plan.json"
    check "plan $*" checks plan "$w/plan.json" idle
    check "page of $*" looks page "$w/p.html" "$w/plan.json"
    check "trace of $*" looks trace "$w/p.trace" "$w/plan.json"
    must 0 plan "$@" --threads 2 --json && cp "$w/out" "$w/brief.json"
    check "plan $*, brief" looks brief "$w/brief.json" "$w/plan.json"
}
one_case generate -m $tiny -p 'The capital of France is'
one_case generate -m $tiny -p hi -n 1
one_case run $pte/th01_flat8.pte
one_case run $pte/th08_scan.pte
one_case run $pte/two_inputs.pte --call --call
one_case run $pte/outputs_as_they_are.pte
one_case run $pte/th03_flat9.pte --option eval_threshold_bytes=2048 # several evaluations
one_case run $pte/next_token.pte
shared=${NEAP_SHARED:-../shared}
if [ -r "$shared/models/whisper-base/encoder.pte" ]; then
    one_case transcribe -m "$shared/models/whisper-base"
    [ "$(python3 -c "import json; print([p['name'] for p in json.load(open('$w/plan.json'))['plans']])")" = \
        "['encoder.pte', 'cross_kv.pte', 'decoder.pte']" ] || fault "plans of transcribe"
    # What would lower the peak, and at what cost; with --verbose, what was not fused, and why.
    one_case run "$shared/models/whisper-base/encoder.pte"
    must 0 plan run "$shared/models/whisper-base/encoder.pte" --verbose
    sed -n '/^What would lower it:$/,/^$/p' "$w/out" >"$w/lower"
    grep -Eq '^  [^:]+: -[0-9.]+ MiB, \+[0-9.]+ % time$' "$w/lower" || fault "lower: $(cat "$w/out")"
    [ "$(wc -l <"$w/lower")" -le 8 ] || fault "lower: $(cat "$w/lower")"
    sed -n '/^Not fused:$/,$p' "$w/out" | grep -Eq '^  [^ ]+ \+ [^ ]+: .+$' || fault "not fused: $(cat "$w/out")"
fi

# Bare graphs: inputs, one that nobody uses, a branch, an output; one value in place of another.
cat >"$w/graph.json" <<'END'
{"nodes": [{"id": 0, "bytes": 64, "input": true, "output": false, "deps": []},
 {"id": 1, "bytes": 100, "input": false, "output": false, "deps": [0]},
 {"id": 2, "bytes": 100, "input": false, "output": false, "deps": [1]},
 {"id": 3, "bytes": 0, "input": false, "output": false, "deps": [0]},
 {"id": 4, "bytes": 7, "input": true, "output": false, "deps": []},
 {"id": 5, "bytes": 30, "input": false, "output": true, "deps": [2, 3]}]}
END
graph() { # ARGUMENTS
    must 0 plan --graph "$@" --json --verbose --html "$w/p.html" --trace "$w/p.trace" || return
    cp "$w/out" "$w/plan.json"
    check "page of $*" looks page "$w/p.html" "$w/plan.json"
    check "trace of $*" looks trace "$w/p.trace" "$w/plan.json"
}
graph "$w/graph.json"
graph "$w/graph.json" --in-place
for name in A1 G2 volo_bw.pin; do
    [ -r "$shared/cases/plan/$name.json" ] && graph "$shared/cases/plan/$name.json" --in-place
done
refused 1 "neap: --html /nonexistent/x: No such file or directory" \
    plan --graph "$w/graph.json" --html /nonexistent/x

# Text: the step is named, with what makes it.
must 0 plan generate -m $tiny -p hi
grep -Eqx 'Step [0-9]+ of [0-9]+, .*, holds most of the arena; alive there:' "$w/out" || fault "text: $(cat "$w/out")"

# Names from files.
looks hostile_gguf $tiny "$w/evil.gguf"
one_case generate -m "$w/evil.gguf" -p hi
grep -q '</script><img' "$w/plan.json" || fault "the hostile name is lost"
looks hostile_pte $pte/next_token.pte "$w/<img src=x onerror=alert(1)>.pte"
one_case run "$w/<img src=x onerror=alert(1)>.pte"
grep -q '"<img>"' "$w/plan.json" || fault "the hostile constant is lost"

# What a run measured goes into the page.
must 0 generate -m $tiny -p hi -n 4 -q --threads 2 --stats "$w/stats.json"
one_case generate -m $tiny -p hi -n 4 --measured "$w/stats.json"
[ "$(python3 -c "import json; p = json.load(open('$w/plan.json')); print(p['measured']['measured_peak_bytes'] == p['planned_peak_bytes'])")" = True ] ||
    fault "measured is not what was planned"
echo '{"wall_seconds":1}' >"$w/no.json"
refused 1 "neap: --measured $w/no.json: no measured_peak_bytes; expected what --stats of a run wrote" \
    plan generate -m $tiny -p hi --measured "$w/no.json"
must 1 plan generate -m $tiny -p hi --measured "$w/none.json"
grep -q "none.json" "$w/err" || fault "--measured without a file: $(cat "$w/err")"

# Files that cannot be written.
for option in --html --trace; do
    for command in "generate -m $tiny -p hi" "run $pte/th01_flat8.pte"; do
        # shellcheck disable=SC2086
        refused 1 "neap: $option /nonexistent/x: No such file or directory" plan $command $option /nonexistent/x
        # shellcheck disable=SC2086
        refused 1 "neap: $option $w: Is a directory" plan $command $option "$w"
    done
    if [ -w /dev/full ]; then
        must 1 plan generate -m $tiny -p hi $option /dev/full --json
        grep -qx "neap: $option /dev/full: No space left on device" "$w/err" || fault "$option /dev/full: $(cat "$w/err")"
    fi
done
refused 2 "neap: --trace $w/same: the same file as --html" \
    plan generate -m $tiny -p hi --html "$w/same" --trace "$w/same"
cp $pte/th01_flat8.pte "$w/kept.pte"
refused 2 "neap: --html $w/kept.pte: the same file as PROGRAM" plan run "$w/kept.pte" --html "$w/kept.pte"
same_files "a program named as the page" $pte/th01_flat8.pte "$w/kept.pte"
finish
