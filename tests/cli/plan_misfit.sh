#!/usr/bin/env bash
# `plan … --html` of what does not fit: exit 1 and the refusal as ever, and a page with the plan that needs
# the least and options of which each one does fit.
. tests/cli/common.sh

# data KEY: of the page, as JSON; remedies: a line each.
data() {
    python3 - "$work/p.html" "$1" <<'END'
import json, re, sys
page = re.search(r'<script type="application/json" id="plan">(.*?)</script>', open(sys.argv[1]).read(), re.S)
o = json.loads(page.group(1))
if sys.argv[2] == "remedies":
    for r in o["remedies"]:
        print(r["option"])
else:
    print(json.dumps(o.get(sys.argv[2])))
END
}

# misfit LIMIT ARGUMENTS: a plan that does not fit LIMIT bytes.
misfit() {
    local limit=$1 option line
    shift
    rm -f "$work/p.html"
    must 1 plan "$@" --memory "$limit" && cp "$work/err" "$work/refusal"
    must 1 plan "$@" --memory "$limit" --html "$work/p.html" --stats "$work/none.json" --trace "$work/none.trace"
    same_files "the refusal of $*" "$work/err" "$work/refusal"
    [ -s "$work/out" ] && fault "a refused plan writes to standard output: $*"
    [ -e "$work/none.json" ] || [ -e "$work/none.trace" ] && fault "a refused plan leaves a file: $*"
    [ -s "$work/p.html" ] || { fault "no page of $*"; return; }
    [ "neap: $(data refusal | sed 's/^"//; s/"$//')" = "$(cat "$work/refusal")" ] || fault "refusal on the page of $*"
    [ "$(data memory_limit)" = "$limit" ] || fault "limit on the page of $*"
    [ "$(data planned_peak_bytes)" = "$(data least_bytes)" ] || fault "the page of $* does not show the least"
    data remedies >"$work/remedies"
    [ -s "$work/remedies" ] || fault "no option on the page of $*"
    while read -r line; do
        case $line in
        --memory*) must 0 plan "$@" $line ;;
        without*) ;;
        *) must 0 plan "$@" --memory "$limit" $line ;;
        esac
    done <"$work/remedies"
}
has() { grep -qx -- "$1" "$work/remedies" || fault "no $1 among: $(cat "$work/remedies")"; }

least() { must 0 plan "$@" --json; field "$work/out" least_bytes; }
say=(generate -m $tiny -p 'Hello there' -n 200 -c 512 --threads 2)
need=$(least "${say[@]}")
misfit $((need - 1)) "${say[@]}"
has "--memory $need"
grep -q '^-c ' "$work/remedies" || fault "no context among: $(cat "$work/remedies")"
has '--threads 1'
wide=$(least "${say[@]}" --kv-type f32)
misfit $((wide - 1)) "${say[@]}" --kv-type f32
has '--kv-type f16'
program=(run tests/golden/pte/th01_flat8.pte --threads 2)
misfit $(($(least "${program[@]}") - 1)) "${program[@]}"
misfit 100000 "${program[@]}"

# Nothing on the way is a page: wrong files, a limit that is met.
rm -f "$work/p.html"
must 1 plan generate -m "$work/nothing.gguf" -p a --html "$work/p.html"
[ -e "$work/p.html" ] && fault "a page of a file that is not there"
must 0 plan "${say[@]}" --memory "$need" --html "$work/p.html"
[ "$(data refusal)" = null ] || fault "a refusal on the page of what fits"
finish
