#!/usr/bin/env bash
# Ctrl-C ends the text where it is: what was made is kept, --stats is written, the status is 130.
. tests/cli/common.sh

# The reader of the first ids sends the signal, so the run is sure to be under way.
mkfifo "$work/pipe"
# SIGINT is ignored in what a script starts in the background, so Python starts it.
cat >"$work/run.py" <<'END'
import json, signal, subprocess, sys
command, stats = sys.argv[1:-1], sys.argv[-1]
p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
text = p.stdout.read(20)
p.send_signal(signal.SIGINT)
rest, message = p.communicate(timeout=120)
ids = json.loads(text + rest)
assert p.returncode == 130, f"exit status {p.returncode}: {message}"
s = json.load(open(stats))
assert s["finish_reason"] == "interrupted", s
assert s["generated_tokens"] == len(ids) < 480, (s["generated_tokens"], len(ids))
assert s["planned_peak_bytes"] == s["measured_peak_bytes"], s
END
# A paused reader: the command's output pipe is small, so it cannot run to its end before the signal.
check "Ctrl-C" python3 "$work/run.py" "$NEAP_BIN" generate -m $tiny -p hi -n 480 --ignore-eos --tokens \
    -c 512 --stats "$work/stats.json" "$work/stats.json"
finish
