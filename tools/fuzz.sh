#!/usr/bin/env bash
# Runs every fuzz target of build/fuzz for some seconds, as many at once as there are processors.
# fuzz.sh SECONDS. It starts from tests/fuzz/corpus; what it finds stays under build/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1

fuzz_one() {
    local what=$2 out=build/fuzz/found/$2 dictionary=()
    mkdir -p "$out/corpus" "$out/crashes"
    [ -f "tests/fuzz/$what.dict" ] && dictionary=("-dict=tests/fuzz/$what.dict")
    local kept=()
    [ -d "tests/fuzz/corpus/$what" ] && kept=("tests/fuzz/corpus/$what")
    if "build/fuzz/tests/fuzz/fuzz_$what" "-max_total_time=$1" -timeout=10 -rss_limit_mb=2048 \
        "-artifact_prefix=$out/crashes/" "${dictionary[@]}" "$out/corpus" "${kept[@]}" >"$out/log" 2>&1; then
        echo "fuzz_$what: $(grep -m1 '^Done' "$out/log" || echo done)"
    else
        tail -40 "$out/log"
        echo "fuzz_$what: FAILED, see $out"
        return 1
    fi
}
export -f fuzz_one

targets=()
for program in build/fuzz/tests/fuzz/fuzz_*; do
    [ -x "$program" ] && targets+=("${program##*/fuzz_}")
done
if [ ${#targets[@]} -eq 0 ]; then
    echo "fuzz: no targets"
    exit 0
fi
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'set -e; fuzz_one "$@"' fuzz_one "$seconds" {}
