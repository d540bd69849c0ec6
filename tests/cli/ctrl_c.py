"""Ctrl-C and the bar, on a terminal of its own. Usage: ctrl_c.py NEAP MODEL PROGRAM WORK"""
import array, fcntl, json, os, pty, signal, struct, subprocess, sys, termios, time

neap, model, program, work = sys.argv[1:]
stats = os.path.join(work, "ctrl_c.json")
LIMIT = 100  # seconds in which anything must have happened


def make_long_model():
    """The tiny model with a context of 2^20 tokens: a prompt of 200,000 is not done when the bar comes."""
    data = bytearray(open(model, "rb").read())
    key = b"llama.context_length"
    at = data.index(key) + len(key) + 4
    data[at : at + 4] = struct.pack("<I", 1 << 20)
    path = os.path.join(work, "long.gguf")
    open(path, "wb").write(data)
    ids = os.path.join(work, "long.json")
    json.dump([i * 7 % 250 + 3 for i in range(200000)], open(ids, "w"))
    return ["-m", path, "--ids", ids, "-n", "4", "--threads", "1"]


class Terminal:
    """A command whose standard error (and what `also` names) is a terminal."""

    def __init__(self, arguments, columns=80, out=subprocess.PIPE):
        self.main, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.seen = b""

        def own_terminal():
            os.setsid()
            fcntl.ioctl(end, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = subprocess.Popen([neap] + arguments, stdin=end, stdout=out, stderr=end,
                                        preexec_fn=own_terminal)
        os.close(end)

    def read(self):
        try:
            part = os.read(self.main, 65536)
        except OSError:  # the other end is closed
            part = b""
        self.seen += part
        return part

    def wait_for(self, text):
        deadline = time.monotonic() + LIMIT
        while text not in self.seen:
            assert self.read() and time.monotonic() < deadline, f"no {text!r} in {self.seen!r}"

    def interrupt(self):
        os.write(self.main, b"\x03")

    def end(self):
        while self.read():
            pass
        out = self.process.communicate(timeout=LIMIT)[0]
        os.close(self.main)
        return self.process.returncode, out


def screen(seen):
    """What is left on the lines of a terminal."""
    lines = []
    for line in seen.replace(b"^C", b"").split(b"\n"):
        cells = []
        at = 0
        for c in line.decode():
            if c == "\r":
                at = 0
                continue
            cells[at : at + 1] = [c]
            at += 1
        lines.append("".join(cells).rstrip())
    return [line for line in lines if line]


def check_prompt(long):
    t = Terminal(["generate", *long, "--stats", stats])
    t.wait_for(b"prompt [")
    t.interrupt()
    code, out = t.end()
    s = json.load(open(stats))
    assert code == 130, (code, t.seen)
    assert s["finish_reason"] == "interrupted" and s["generated_tokens"] == 0, s
    assert out == b"", out
    assert all(line.startswith("neap: ") for line in screen(t.seen)), screen(t.seen)


def check_narrow(long):
    t = Terminal(["generate", *long], columns=20)
    t.wait_for(b" %")
    t.interrupt()
    code, _ = t.end()
    assert code == 130 and b"[" not in t.seen, (code, t.seen)
    bars = [p for p in t.seen.split(b"\r") if p.startswith(b"prompt")]
    assert bars and all(len(p.split(b"^")[0]) < 20 for p in bars), bars


def check_quiet(long):
    t = Terminal(["generate", *long, "-q"])
    time.sleep(1.5)  # three times as long as it takes a bar to come
    t.interrupt()
    code, _ = t.end()
    assert code == 130 and t.seen.replace(b"^C", b"") == b"", (code, t.seen)


def check_pipe(long):
    p = subprocess.Popen([neap, "generate", *long], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    first = p.stderr.readline()
    time.sleep(1)
    p.send_signal(signal.SIGINT)
    rest = p.communicate(timeout=LIMIT)[1]
    assert p.returncode == 130 and first.startswith(b"neap: planned peak"), (p.returncode, first)
    assert b"\r" not in rest, rest


def check_nothing_kept(long):
    """bench keeps nothing: the signal ends it, and the bar is gone."""
    t = Terminal(["bench", *long])
    t.wait_for(b"prompt [")
    t.interrupt()
    code, _ = t.end()
    assert code == -signal.SIGINT, (code, t.seen)
    assert not any("prompt" in line for line in screen(t.seen)), screen(t.seen)


def check_run():
    """A program run for ever: --stats is written."""
    p = subprocess.Popen([neap, "run", os.path.join(program, "model.pte"), "-i", os.path.join(program, "input.bin"),
                          "--calls", str(1 << 30), "--stats", stats],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    p.stderr.readline()
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=LIMIT)
    assert p.returncode == 130, p.returncode
    assert json.load(open(stats))["finish_reason"] == "interrupted"


def check_second():
    """Nobody takes the text: the first Ctrl-C waits for that, a second one ends the process."""
    full = 4096
    read_end, write_end = os.pipe()
    assert fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, full) == full
    os.write(write_end, b"." * (full - 40))
    p = subprocess.Popen([neap, "generate", "-m", model, "-p", "hi", "-n", "400", "--ignore-eos", "--tokens"],
                         stdout=write_end, stderr=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    os.close(write_end)
    waiting = array.array("i", [0])
    deadline = time.monotonic() + LIMIT
    asleep = 0  # a write that does not fit waits for room, whatever signals come
    while asleep < 20:
        assert p.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
        fcntl.ioctl(read_end, termios.FIONREAD, waiting)
        state = open(f"/proc/{p.pid}/stat").read().rsplit(")", 1)[1].split()[0]
        asleep = asleep + 1 if waiting[0] > full - 6 and state == "S" else 0
    p.send_signal(signal.SIGINT)
    while handled(p.pid):
        assert p.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    assert p.poll() is None
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=LIMIT)
    assert p.returncode == -signal.SIGINT, p.returncode


def handled(pid):
    """Does the process still catch SIGINT?"""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("SigCgt:"):
            return int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1


long = make_long_model()
check_prompt(long)
check_narrow(long)
check_quiet(long)
check_pipe(long)
check_nothing_kept(long)
check_run()
check_second()
