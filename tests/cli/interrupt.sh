#!/usr/bin/env bash
# Ctrl-C ends the text where it is: what was made is kept, --stats is written, the status is 130.
. tests/cli/common.sh

# The command writes into a pipe that is nearly full, so it is under way and cannot be done when the
# signal comes. (Python starts it: a script's background processes ignore SIGINT.)
cat >"$work/run.py" <<'END'
import array, fcntl, json, os, signal, subprocess, sys, termios, time
command, stats = sys.argv[1:-1], sys.argv[-1]
FULL, FILLER = 4096, 4000
read_end, write_end = os.pipe()
assert fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, FULL) == FULL
os.write(write_end, b"." * FILLER)
process = subprocess.Popen(command, stdout=write_end, stderr=subprocess.PIPE)
os.close(write_end)
waiting = array.array("i", [0])
deadline = time.monotonic() + 300
while waiting[0] < FILLER + 20:
    assert process.poll() is None and time.monotonic() < deadline, "the command does not get there"
    time.sleep(0.01)
    fcntl.ioctl(read_end, termios.FIONREAD, waiting)
process.send_signal(signal.SIGINT)
text = b""
while part := os.read(read_end, 65536):
    text += part
message = process.communicate(timeout=300)[1]
assert process.returncode == 130, f"exit status {process.returncode}: {message}"
ids, s = json.loads(text[FILLER:]), json.load(open(stats))
assert s["finish_reason"] == "interrupted", s
assert s["generated_tokens"] == len(ids) < 480, (s["generated_tokens"], len(ids))
assert s["planned_peak_bytes"] == s["measured_peak_bytes"], s
END
check "Ctrl-C" python3 "$work/run.py" "$NEAP_BIN" generate -m $tiny -p hi -n 480 --ignore-eos --tokens \
    -c 512 --stats "$work/stats.json" "$work/stats.json"

# On a terminal: the bar, narrow ones, -q, what keeps nothing, programs.
check "Ctrl-C on a terminal" python3 tests/cli/ctrl_c.py "$NEAP_BIN" $tiny tests/golden/programs/cumsum_dim1_3x4 "$work"
finish
