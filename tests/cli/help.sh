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

`neap COMMAND --help` lists the options of a command; `neap --version` tells the version.
Exit status: 0 done, 1 the work failed, 2 the command line is wrong, 130 interrupted.
END
for word in --help -h help; do
    must 0 $word && same_files "neap $word" "$work/out" "$work/help"
    [ -s "$work/err" ] && fault "neap $word writes to standard error"
done
must 2 && same_files "neap alone" "$work/err" "$work/help"
[ -s "$work/out" ] && fault "neap alone writes to standard output"

must 0 --version
grep -Eqx 'neap [0-9]+\.[0-9]+\.[0-9]+' "$work/out" || fault "--version: $(cat "$work/out")"

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
must 0 plan --help
grep -qx 'Commands: generate run transcribe' "$work/out" || fault "plan --help"
finish
