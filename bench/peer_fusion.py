"""The cases of bench_fusion in PyTorch: eager, and compiled by inductor with its defaults.

peer_fusion.py DIR THREADS inputs          writes the inputs, x.npy .., into DIR
peer_fusion.py DIR THREADS compile [CASE]  fills inductor's cache (TORCHINDUCTOR_CACHE_DIR): minutes a case
peer_fusion.py DIR THREADS serve           answers lines of standard input:
    compiled CASE REPEATS, eager CASE REPEATS    the least and the median seconds, the least processor seconds
    compare CASE                                 the largest distance of DIR/CASE.npy, which is Neap's, from the
                                                 compiled result, and the same over the largest element
"""
import os
import statistics
import sys
import time

import numpy as np
import torch

N = 64


def chain(x, i):
    return torch.relu(x * (1 + i / 64) + (i / 128 - 0.25))


def total(ys):
    s = ys[0]
    for y in ys[1:]:
        s = s + y
    return s


def diamond_all(x):
    return total([chain(x, i) for i in range(N)])


def diamond_each(x):
    s = chain(x, 0)
    for i in range(1, N):
        s = s + chain(x, i)
    return s


def sibling_sums(x):
    return torch.stack([chain(x, i).sum(1) for i in range(N)])


def softmax_sum(x):
    return total([torch.softmax(x * (1 + i / 64), 1) for i in range(N)])


def matmul_sum(x, w):
    return total([chain(x, i) @ w for i in range(N)])


def row_sums(a, b, c):
    return (a @ c).sum(-1) + (b @ c).sum(-1)


def elementwise_8(z):
    return torch.square(torch.abs(torch.relu(z * 1.25 + 0.5) * 0.75 - 0.25)) + 0.125


# name as in bench_fusion: function, inputs, runs for each repeat
CASES = {
    "i-a": (diamond_all, "x", 1),
    "i-b": (diamond_each, "x", 1),
    "ii-a": (sibling_sums, "x", 1),
    "ii-b": (softmax_sum, "x", 1),
    "ii-c": (matmul_sum, "xw", 1),
    "a7": (row_sums, "abc", 50),
    "chain": (elementwise_8, "z", 5),
}
SHAPES = {"x": (4096, 1024), "w": (1024, 8), "a": (1024, 16), "b": (1024, 16), "c": (16, 1024), "z": (4096, 4096)}


def write_inputs(directory):
    random = np.random.default_rng(5)
    for name, shape in SHAPES.items():
        np.save(os.path.join(directory, name + ".npy"), random.standard_normal(shape, dtype=np.float32))


def timed(run, inputs, repeats):
    times, processor = [], []
    for _ in range(repeats):
        start, processor_start = time.perf_counter(), time.process_time()
        run(*inputs)
        times.append(time.perf_counter() - start)
        processor.append(time.process_time() - processor_start)
    return f"{min(times):.7f} {statistics.median(times):.7f} {min(processor):.7f}"


class Peer:
    def __init__(self, directory):
        self.directory = directory
        self.inputs = {}
        self.compiled = {}

    def inputs_of(self, case):
        for name in CASES[case][1]:
            if name not in self.inputs:
                self.inputs[name] = torch.from_numpy(np.load(os.path.join(self.directory, name + ".npy")))
        return [self.inputs[name] for name in CASES[case][1]]

    def program(self, case):
        """Compiled and warm: the first call makes it, the second is not timed either."""
        if case not in self.compiled:
            self.compiled[case] = torch.compile(CASES[case][0], dynamic=False)
            for _ in range(2):
                self.compiled[case](*self.inputs_of(case))
        return self.compiled[case]

    def compare(self, case):
        ours = np.load(os.path.join(self.directory, case + ".npy")).astype(np.float64)
        theirs = self.program(case)(*self.inputs_of(case)).numpy().astype(np.float64)
        if ours.shape != theirs.shape:
            return f"shapes {ours.shape} {theirs.shape}"
        distance = np.abs(ours - theirs)
        return f"{distance.max():.3g} {distance.max() / np.abs(theirs).max():.3g}"

    def answer(self, command, case, repeats=1):
        if command == "compare":
            return self.compare(case)
        run = CASES[case][0] if command == "eager" else self.program(case)
        return timed(run, self.inputs_of(case), int(repeats) * CASES[case][2])


def main():
    directory, threads, what = sys.argv[1:4]
    torch.set_num_threads(int(threads))
    if what == "inputs":
        write_inputs(directory)
        return
    peer = Peer(directory)
    with torch.inference_mode():
        if what == "compile":
            for case in sys.argv[4:] or CASES:
                start = time.perf_counter()
                peer.program(case)
                print(f"{case}: {time.perf_counter() - start:.0f} s", flush=True)
            return
        for line in sys.stdin:
            print(peer.answer(*line.split()), flush=True)


main()
