#!/usr/bin/env bash
# The manual page and bash's completions have every option of every --help, and no other.
. tests/cli/common.sh

must 0 help --man && cp "$work/out" "$work/neap.1"
must 0 help --completion bash && cp "$work/out" "$work/completion"
[ "$(head -c 4 "$work/neap.1")" = .TH\  ] || fault "the manual page begins with: $(head -1 "$work/neap.1")"
bash -n "$work/completion" || fault "completions: not a script"
if command -v man >/dev/null; then
    warnings=$(MANWIDTH=80 man --warnings -l "$work/neap.1" 2>&1 >/dev/null) && [ -z "$warnings" ] ||
        fault "the manual page: $warnings"
fi

# "  -m, --model=FILE": one long name a line.
long_options() { sed -n 's/^  \(-., \|    \)--\([a-z-]*\).*/--\2/p' "$1" | sort; }
# The manual page's options of one section, and of the section for all commands.
manual_options() {
    tr -d '\\' <"$work/neap.1" |
        awk -v section=".SS neap $1 " '/^\.S/ {on = index($0 " ", section) == 1 || /^\.SH OPTIONS OF EVERY/} on' |
        sed -n 's/^\(fB-.fR, \)\?fB--\([a-z-]*\)fR.*/--\2/p'
}
# What is offered after the words, the last one unfinished.
complete_words() {
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _neap; printf "%s\n" "${COMPREPLY[@]}"' \
        - "$work/completion" "$@" | sed '/^$/d' | sort
}

for command in generate run transcribe bench tokenize info "plan generate" "plan run" "plan transcribe"; do
    # shellcheck disable=SC2086
    must 0 $command --help
    long_options "$work/out" >"$work/wanted"
    [ -s "$work/wanted" ] || fault "$command --help: no options"
    { manual_options "$command"; [ "${command#plan }" = "$command" ] || manual_options "${command#plan }"; } |
        sort -u >"$work/found"
    same_files "options of $command in the manual page" "$work/found" "$work/wanted"
    # shellcheck disable=SC2086
    complete_words neap $command -- | grep -v '^-.$' >"$work/found"
    same_files "options of $command in the completions" "$work/found" "$work/wanted"
done

offered() { # offered "WORDS" WORD...: what bash offers after the words
    local wanted=$1
    shift
    [ "$(complete_words "$@" | tr '\n' ' ')" = "$wanted " ] || fault "completing $*: $(complete_words "$@" | tr '\n' ' ')"
}
offered "generate" neap gen
offered "--kv-type" neap generate --kv
offered "f16 f32" neap generate --kv-type ""
offered "f16 f32" neap generate --kv-type =
offered "f32" neap plan generate --kv-type = f3
offered "mapped" neap bench --weights m
offered "--graph" neap plan --g
offered "--in-place" neap plan --graph g.json --in
offered "tokenize transcribe" neap help t
mkdir "$work/files" && touch "$work/files/a.pte" "$work/files/b.npy"
offered "$work/files/a.pte $work/files/b.npy" neap run "$work/files/"
offered "$work/files/b.npy" neap run "$work/files/a.pte" -i "$work/files/b"
finish
