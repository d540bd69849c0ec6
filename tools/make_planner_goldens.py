#!/usr/bin/env python3
"""Makes tests/unit/planner_golden.h: what the programs of test_planner_cases.c must give, from NumPy.

Needs `pip install numpy`. Everything is computed in float64 from operands that f32 holds exactly: the
hash below, which the tests compute too."""
import math
import sys

import numpy as np

PLACES = 16  # results that are compared, spread over the whole


def numbers(seed, *shape):
    """Multiples of 2^-24 in [-0.5, 0.5)."""
    h = np.arange(math.prod(shape), dtype=np.uint32) + np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    h = (h ^ h >> 16) * np.uint32(0x7FEB352D)
    h = (h ^ h >> 15) * np.uint32(0x846CA68B)
    h ^= h >> 16
    return ((h >> 8).astype(np.float64) / 2**24 - 0.5).reshape(shape)


def rms_norm(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def layer_norm(x):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return x / 2 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


def chain(rows, steps):
    """y = rmsnorm(relu(y W)), again and again: cases/planner.md A1. The mean of W is above 0, or what f32
    rounds would grow from step to step."""
    y, w = numbers(1, rows, 1024), numbers(2, 1024, 1024) + 1 / 64
    for _ in range(steps):
        y = rms_norm(np.maximum(y @ w, 0))
    return y


def row_sums():
    """(a c).sum(-1) + (b c).sum(-1): A7."""
    a, b, c = numbers(1, 1024, 16), numbers(2, 1024, 16), numbers(3, 16, 1024)
    return (a @ c).sum(-1) + (b @ c).sum(-1)


def accumulated(batches):
    """The sum of tanh(batch) over batches: A11."""
    return sum(np.tanh(numbers(100 + i % 8, 262144)) for i in range(batches))


def block(t, d, heads):
    """A transformer block's forward pass, weights a sixteenth of the numbers."""
    x = numbers(1, t, d) * 4
    seed = iter(range(2, 20))

    def linear(v, n):
        w = numbers(next(seed), v.shape[1], n) / 16
        return v @ w + numbers(next(seed), n) / 16

    h = linear(layer_norm(x), 3 * d).reshape(t, 3, heads, d // heads)
    q, k, v = (h[:, i].transpose(1, 0, 2) for i in range(3))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(d // heads)
    scores = np.where(np.tril(np.ones((t, t), bool)), scores, -np.inf)
    y = x + linear((softmax(scores) @ v).transpose(1, 0, 2).reshape(t, d), d)
    return y + linear(gelu(linear(layer_norm(y), 4 * d)), d)


def main():
    out = [__doc__.split("\n")[0].replace("Makes tests/unit/planner_golden.h: w", "/* planner_golden.h - w")
           + "\n *\n * Made by tools/make_planner_goldens.py: result[i * (n / PLACES) + i * 7] for i in 0 .. PLACES. */",
           "#ifndef PLANNER_GOLDEN_H\n#define PLANNER_GOLDEN_H\n", f"enum {{ PLACES = {PLACES} }};\n"]
    for name, y in [("chain_5", chain(16, 5)), ("chain_500", chain(16, 500)), ("row_sums", row_sums()),
                    ("accumulated_10", accumulated(10)), ("accumulated_1000", accumulated(1000)),
                    ("block", block(512, 768, 12))]:
        flat = y.reshape(-1)
        step = flat.size // PLACES
        picked = [flat[i * step + i * 7 % step] for i in range(PLACES)]
        lines = [", ".join(f"{v:.9g}" for v in picked[i:i + 4]) for i in range(0, PLACES, 4)]
        out.append(f"static const double golden_{name}[PLACES] = {{\n    " + ",\n    ".join(lines) + "};")
    out.append("\n#endif\n")
    with open(sys.argv[1] if len(sys.argv) > 1 else "tests/unit/planner_golden.h", "w", encoding="utf-8") as f:
        f.write("\n".join(out))


if __name__ == "__main__":
    main()
