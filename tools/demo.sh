#!/usr/bin/env bash
# Makes text with the real model inside a budget of 64 MiB: first what it will take, then the text,
# then the peak that was planned beside the one that was measured. demo.sh NEAP
set -euo pipefail
cd "$(dirname "$0")/.."

stats=$(mktemp)
trap 'rm -f "$stats"' EXIT
request=(generate -m .models/SmolLM2-135M-Instruct.Q4_1.gguf --memory 64M -c 2048 -n 64 --chat
    -p "Why does the tide have two highs a day? Answer in two sentences.")

show() {
    local word
    printf '$ neap'
    for word; do
        case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
}

show plan "${request[@]}"
"$1" plan "${request[@]}"
echo
show "${request[@]}"
"$1" "${request[@]}" --quiet --stats "$stats"
echo
python3 - "$stats" <<'END'
import json, sys
stats = json.load(open(sys.argv[1]))
print()
for name in ("memory_limit", "planned_peak_bytes", "measured_peak_bytes", "mapped_bytes"):
    print(f"{name:20} {stats[name]:12,d} bytes  {stats[name] / 2**20:7.1f} MiB")
print(f"{stats['generated_tokens']} tokens, {stats['generation_tokens_per_second']:.1f} tokens/s, "
      f"{stats['threads']} threads, {stats['isa']}")
END
