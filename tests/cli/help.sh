#!/usr/bin/env bash
# Help, version, and where they go.
. tests/cli/common.sh

cat >"$work/help" <<'END'
Usage: neap COMMAND [OPTION...]
Runs tensor programs inside a byte budget and tells beforehand what they need.

  generate   text from a language model
  run        one method of a program, on tensors from files
  transcribe the text of a recording
  plan       what a command would need, without running it
  bench      prompt and generation speed, and memory
  tokenize   the token ids of a text
  info       what a model file holds

`neap help COMMAND` lists the options of a command; `neap --version` tells the version.
`neap help --man` writes the manual page, `neap help --completion bash` completions.
Exit status: 0 done, 1 the work failed, 2 the command line is wrong, 130 interrupted
(a second Ctrl-C ends at once).
END
for word in --help -h help; do
    must 0 $word && same_files "neap $word" "$work/out" "$work/help"
    [ -s "$work/err" ] && fault "neap $word writes to standard error"
done
must 2 && same_files "neap alone" "$work/err" "$work/help"
[ -s "$work/out" ] && fault "neap alone writes to standard output"

must 0 --version
grep -Eqx 'neap [0-9]+\.[0-9]+\.[0-9]+' "$work/out" || fault "--version: $(cat "$work/out")"
grep -Eqx 'build: .+, (gnu|clang) [0-9.]+' "$work/out" || fault "--version: no build in $(cat "$work/out")"
grep -Eqx 'kernels: base.*; in use: (base|avx2|avx512)' "$work/out" || fault "--version: $(cat "$work/out")"
NEAP_ISA=base must 0 --version
grep -q 'in use: base$' "$work/out" || fault "--version with NEAP_ISA=base: $(cat "$work/out")"

# Every option of the contract is in its command's help.
options() {
    local command=$1 option
    shift
    # shellcheck disable=SC2086
    must 0 $command --help
    head -1 "$work/out" | grep -q "^Usage: neap $command " || fault "$command --help: $(head -1 "$work/out")"
    [ -s "$work/err" ] && fault "$command --help writes to standard error"
    for option; do
        grep -Eq -- "(^|[ ,])$option([ =,]|\$)" "$work/out" || fault "$command --help: no $option"
    done
}
common="--memory --threads --stats --quiet --seed --help"
session="-m -p --ids --logits --weights --kv-type --ignore-eos -n -c --temp --top-k --top-p --min-p --chunk"
# shellcheck disable=SC2086
{
    options generate $common $session --planner --raw --chat --tokens
    look="--planner --json --html --trace --measured --verbose"
    options "plan generate" $common $session $look
    options bench $common $session --planner --pp --tg --repeat --json
    options tokenize $common -m -p --tokenizer --chat
    options info $common --json
    run="--planner -i -o --call --calls --method --option --kv-cache --data"
    options run $common $run
    hear="--planner -m --language --task --timestamps --srt --json --tokens --temp --no-fallback"
    options transcribe $common $hear
    options "plan transcribe" $common $hear $look
    options "plan run" $common $run $look --shape
    options "plan --graph FILE.json" --json --in-place --help
}

# The other way to ask, what it refuses, and lines that fit a terminal of 80 columns.
commands="generate run transcribe bench tokenize info"
for command in $commands "plan generate" "plan run" "plan transcribe"; do
    # shellcheck disable=SC2086
    { must 0 $command --help; cp "$work/out" "$work/help"; must 0 help $command; }
    same_files "help $command" "$work/out" "$work/help"
    long=$(grep -E '.{81}' "$work/help") && fault "$command --help has a long line: $long"
done
must 2 help nothing && grep -q 'nothing: no such command' "$work/err" || fault "help nothing"
must 2 help plan nothing
must 2 help generate run
must 2 help --man generate
must 2 help --completion
must 2 help --completion zsh

must 0 plan --help
grep -qx 'Commands: generate run transcribe' "$work/out" || fault "plan --help"
finish
