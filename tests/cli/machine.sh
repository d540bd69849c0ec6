#!/usr/bin/env bash
# Without --memory the machine's own limit is the budget: fixtures of machines are in tests/golden/machine.
. "$(dirname "$0")/common.sh"

machines=tests/golden/machine
words=(generate -m "$tiny" -p hi -n 4 --ignore-eos -t 1 -c 64)
[ "$("$NEAP_BIN" generate --help | grep -c -- '-t,')" -gt 0 ] || words=(generate -m "$tiny" -p hi -n 4 --ignore-eos --threads 1 -c 64)

NEAP_MACHINE_ROOT=$machines/large must 0 "${words[@]}" && cp "$work/out" "$work/large"
grep -q budget "$work/err" && fault "a large machine is named"
# a group of 1,000 bytes that is full: refused, and named
NEAP_MACHINE_ROOT=$machines/full must 1 "${words[@]}" && {
    head -n 1 "$work/err" | grep -q '^budget .*the limit of a control group' || fault "the first line does not say which limit"
    grep -q '^neap: .*the limit of a control group of this machine' "$work/err" || fault "the refusal does not say whose limit"
}
# --memory none lifts it; --memory SIZE is taken as it is
NEAP_MACHINE_ROOT=$machines/full must 0 "${words[@]}" --memory none && cmp -s "$work/out" "$work/large" || fault "other text without a limit"
NEAP_MACHINE_ROOT=$machines/full must 0 "${words[@]}" --memory 64M && cmp -s "$work/out" "$work/large" || fault "other text with --memory"
NEAP_MACHINE_ROOT=$machines/full must 1 "${words[@]}" -q && {
    [ "$(wc -l <"$work/err")" -eq 1 ] || fault "-q: more than the error"
}
must 2 "${words[@]}" --memory nothing
# programs likewise: the refusal names whose limit it is, and --memory's own is not said to be the machine's
program=(plan run tests/golden/programs/v_addmm_vector/model.pte --threads 1)
NEAP_MACHINE_ROOT=$machines/large must 0 "${program[@]}" && cp "$work/out" "$work/large"
NEAP_MACHINE_ROOT=$machines/full must 1 "${program[@]}" && {
    grep -q '^neap: .*the limit of a control group of this machine' "$work/err" || fault "a program's refusal does not say whose limit"
}
NEAP_MACHINE_ROOT=$machines/full must 0 "${program[@]}" --memory none
NEAP_MACHINE_ROOT=$machines/full must 1 "${program[@]}" --memory 1000 && grep -q 'of this machine' "$work/err" && fault "--memory is said to be the machine's"
exit $((faults > 0))
