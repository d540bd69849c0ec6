#!/usr/bin/env python3
"""What a budget costs: a prefill of 512 tokens, or a program's method, at its least bytes, at three
quarters of the way from there to the peak without a budget, and at budgets in between.

    bench/budget.py [--neap build/release/neap] [--threads 2] [--rounds 3] [--budgets 20] FILE [OPTION ..]

FILE is a GGUF model (weights as mapped) or a .pte program; the options go to `neap generate` or `neap run`
(--chunk 512 asks for one step however small the budget). Inputs of programs are noise. The three times are
taken in turns, the least of all rounds counts: of a clock, and of the processors, which a busy machine
disturbs less. Exits with 1 if a limit is missed that does not depend on time.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

ACTIVATIONS, AT_LEAST, AT_THREE_QUARTERS = 0.3, 1.25, 1.05  # limits, as shares of the unbounded plan's
CALLS = 3  # of a program's method in one process
NUMPY_TYPES = {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "|i1", "u8": "|u1",
               "u16": "<u2", "u32": "<u4", "u64": "<u8", "bool": "|b1"}


def write_noise(path, dtype, shape):
    """A .npy file: noise in [-1, 1) where the type is a float, else zeros."""
    count = 1
    for extent in shape:
        count *= extent
    noise = random.Random(count)
    if dtype == "f32":
        data = b"".join(struct.pack("<f", noise.uniform(-1, 1)) for _ in range(count))
    elif dtype == "bf16":
        data = b"".join(struct.pack("<f", noise.uniform(-1, 1))[2:] for _ in range(count))
    elif dtype == "f16":
        data = b"".join(struct.pack("<e", noise.uniform(-1, 1)) for _ in range(count))
    else:
        data = bytes(count * int(NUMPY_TYPES[dtype][2:]))
    shape_text = "(" + "".join(f"{extent}," for extent in shape) + ")"
    header = f"{{'descr': '{NUMPY_TYPES[dtype]}', 'fortran_order': False, 'shape': {shape_text}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


class Subject:
    """One command of neap, run under any budget."""

    def __init__(self, options, work):
        self.neap, self.work = options.neap, work
        self.output, self.stats = os.path.join(work, "output"), os.path.join(work, "stats.json")
        self.prefill = not options.file.endswith(".pte")
        if self.prefill:
            self.output += ".npy"
            ids = os.path.join(work, "ids.json")
            with open(ids, "w") as file:  # ordinary tokens of any vocabulary, by no pattern
                json.dump([20 + (31 * i * i + 7 * i) % 900 for i in range(512)], file)
            self.command = ["generate", "-m", options.file, "--ids", ids, "-n", "1", "--ignore-eos", "--weights", "mapped"]
            self.writes = ["--logits", self.output]
        else:
            self.output += ".bin"
            self.command = ["run", options.file]
            self.writes = ["--calls", str(CALLS), "-o", self.output]
            for i, tensor in enumerate(self.inputs(options.file)):
                path = os.path.join(work, f"input{i}.npy")
                write_noise(path, tensor["dtype"], tensor["shape"])
                self.command += ["-i", path]
        self.command += ["--threads", str(options.threads)] + options.rest

    def inputs(self, program):
        info = json.loads(subprocess.run([self.neap, "info", program, "--json"], check=True, capture_output=True).stdout)
        return [i for i in info["methods"][0]["inputs"] if i["kind"] == "tensor"]

    def plan(self):
        done = subprocess.run([self.neap, "plan"] + self.command + ["--json"], check=True, capture_output=True)
        return json.loads(done.stdout)

    def run(self, memory=None):
        """Statistics with `seconds`, `processor_seconds` and `bits`; or the message of a refusal."""
        budget = [] if memory is None else ["--memory", str(memory)]
        arguments = [self.neap] + self.command + self.writes + budget + ["-q", "--stats", self.stats]
        before = os.times()
        done = subprocess.run(arguments, capture_output=True)
        after = os.times()
        if done.returncode != 0:
            return done.stderr.decode().strip()
        with open(self.stats) as file:
            stats = json.load(file)
        with open(self.output, "rb") as file:
            stats["bits"] = file.read()
        stats["seconds"] = stats["prompt_seconds"] if self.prefill else stats["wall_seconds"] / CALLS
        stats["processor_seconds"] = (after.children_user - before.children_user + after.children_system -
                                      before.children_system) / (1 if self.prefill else CALLS)
        return stats


def tensors(stats):
    return stats["peak_by_category"]["activations"] + stats["peak_by_category"]["scratch"]


def times(subject, budgets, rounds):
    """By name: the last run, with the least seconds of all."""
    best = {}
    for _ in range(rounds):
        for name, memory in budgets.items():
            run = subject.run(memory)
            if isinstance(run, str):
                sys.exit(f"budget.py: {name}: {run}")
            for key in ("seconds", "processor_seconds"):
                run[key] = min(run[key], best.get(name, run)[key])
            best[name] = run
    return best


def sweep(subject, least, unbounded, n, bits):
    """The faults of n budgets from the least to the unbounded peak."""
    faults, last = [], 0
    print(f"{'budget MiB':>11} {'planned':>9} {'measured':>9} {'tensors':>9} {'seconds':>9}  bits")
    for i in range(n):
        memory = least + (unbounded - least) * i // max(1, n - 1)
        run = subject.run(memory)
        if isinstance(run, str):
            faults.append(f"{memory} bytes refused: {run}")
            continue
        same, measured = run["bits"] == bits, run["measured_peak_bytes"]
        print(f"{memory / 2**20:11.3f} {run['planned_peak_bytes'] / 2**20:9.3f} {measured / 2**20:9.3f} "
              f"{tensors(run) / 2**20:9.3f} {run['seconds']:9.4f}  {'same' if same else 'DIFFERENT'}", flush=True)
        if not same:
            faults.append(f"{memory} bytes: other bits")
        if measured > memory:
            faults.append(f"{memory} bytes: {measured} used")
        if measured != run["planned_peak_bytes"]:
            faults.append(f"{memory} bytes: planned {run['planned_peak_bytes']}, measured {measured}")
        if measured < last:
            faults.append(f"{memory} bytes: {measured} used, a smaller budget took {last}")
        last = max(last, measured)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neap", default="build/release/neap")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budgets", type=int, default=20)
    parser.add_argument("file")
    options, options.rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as work:
        subject = Subject(options, work)
        plan = subject.plan()
        least, unbounded = plan["least_bytes"], plan["planned_peak_bytes"]
        quarters = least + (unbounded - least) * 3 // 4
        runs = times(subject, {"unbounded": None, "least": least, "3/4": quarters}, options.rounds)
        free = runs["unbounded"]
        print(f"{os.path.basename(options.file)} {' '.join(options.rest)}: {options.threads} threads, least of {options.rounds} rounds")
        print(f"{'':9} {'peak MiB':>9} {'tensors':>9} {'share':>6} {'seconds':>9} {'times':>6} {'cpu s':>9} {'times':>6}")
        for name, run in runs.items():
            print(f"{name:9} {run['measured_peak_bytes'] / 2**20:9.3f} {tensors(run) / 2**20:9.3f} {tensors(run) / tensors(free):6.3f} "
                  f"{run['seconds']:9.4f} {run['seconds'] / free['seconds']:6.3f} {run['processor_seconds']:9.3f} "
                  f"{run['processor_seconds'] / free['processor_seconds']:6.3f}")
        faults = sweep(subject, least, unbounded, options.budgets, free["bits"])
        refusal = subject.run(least - 1)
        if not isinstance(refusal, str) or str(least) not in refusal:
            faults.append("one byte less than the least is not refused with the least in the message")
    share = tensors(runs["least"]) / tensors(free)
    wanted = [(f"activations and scratch at the least: {share:.3f}", share, ACTIVATIONS)]
    for name, limit in (("least", AT_LEAST), ("3/4", AT_THREE_QUARTERS)):
        for key in ("seconds", "processor_seconds"):
            ratio = runs[name][key] / free[key]
            wanted.append((f"{key.replace('_', ' ')} at {name}: {ratio:.3f}", ratio, limit))
    for text, value, limit in wanted:
        print(f"{text}, limit {limit}: {'met' if value <= limit else 'MISSED'}")
    for fault in faults:
        print(f"FAULT {fault}")
    sys.exit(1 if faults else 0)


main()
