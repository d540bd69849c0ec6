# common.sh - what the tests of the command share. Each test is a bash script that runs in the source
# folder with NEAP_BIN set; it ends with 0, 1, or 77 if something that it needs is absent.
set -uo pipefail
: "${NEAP_BIN:?the command to test}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
faults=0
tiny=tests/golden/tiny-llama-q8_0.gguf

fault() {
    echo "FAULT: $*"
    faults=$((faults + 1))
}

# run ARGUMENTS: the command; its status in $status, what it printed in $work/out and $work/err.
run() {
    "$NEAP_BIN" "$@" >"$work/out" 2>"$work/err"
    status=$?
}

# must STATUS ARGUMENTS: runs and checks the exit status.
must() {
    local want=$1
    shift
    run "$@"
    if [ $status -ne "$want" ]; then
        fault "exit status $status, expected $want: neap $*"
        sed 's/^/    /' "$work/err"
        return 1
    fi
}

same_files() { # NAME A B
    cmp -s "$2" "$3" || fault "$1: $2 and $3 differ"
}

# check NAME COMMAND…: a fault unless the command succeeds.
check() {
    local name=$1
    shift
    "$@" || fault "$name"
}

checks() { python3 -B tests/cli/checks.py "$@"; }
tensors() { python3 -B tests/cli/tensors.py "$@"; }

# refused STATUS LINE ARGUMENTS: LINE is all of standard error.
refused() {
    local want=$1 line=$2
    shift 2
    must "$want" "$@" </dev/null
    [ "$(cat "$work/err")" = "$line" ] || fault "neap $*
    says:     $(cat "$work/err")
    expected: $line"
    [ -s "$work/out" ] && fault "neap $*: writes to standard output"
}

# A field of a JSON file.
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }

# Memory limits of the system and timing mean little with a sanitizer's shadow beside the program.
sanitized() { grep -q -e __asan_init -e __tsan_init "$NEAP_BIN"; }

need_model() {
    model=${NEAP_MODEL:-}
    [ -n "$model" ] || model=$(ls .models/*.gguf 2>/dev/null | head -1)
    if [ ! -r "$model" ]; then
        echo "skipped: no model in .models/ (make model); NEAP_MODEL names another place"
        exit 77
    fi
}

need_shared() {
    shared=${NEAP_SHARED:-../shared}
    if [ ! -r "$shared/$1" ]; then
        echo "skipped: no $shared/$1; NEAP_SHARED names another place"
        exit 77
    fi
}

finish() {
    echo "$(basename "$0"): $faults faults"
    [ $faults -eq 0 ]
}
