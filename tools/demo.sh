#!/usr/bin/env bash
# Makes text with the real model inside a budget, then prints the peak that was planned before the
# start and the one that was measured. demo.sh NEAP
set -euo pipefail
cd "$(dirname "$0")/.."

model=.models/SmolLM2-135M-Instruct.Q4_1.gguf
stats=.models/stats.json
"$1" generate -m "$model" --memory 96M --chat -n 64 --stats "$stats" \
    -p "Why does the tide have two highs a day? Answer in two sentences."
echo
python3 - "$stats" <<'END'
import json, sys
stats = json.load(open(sys.argv[1]))
for name in ("memory_limit", "planned_peak_bytes", "measured_peak_bytes", "mapped_bytes"):
    print(f"{name:20} {stats[name]:12,d} bytes  {stats[name] / 2**20:7.1f} MiB")
print(f"{stats['generated_tokens']} tokens, {stats['generation_tokens_per_second']:.1f} tokens/s, "
      f"{stats['threads']} threads, {stats['isa']}")
END
