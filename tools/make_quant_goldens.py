#!/usr/bin/env python3
"""Makes tests/golden/quant.bin: what the quantised kernels must give, from gguf and NumPy.

Needs `pip install gguf numpy`. For each block type: random blocks, their dequantised values by the
gguf package, and the product with quantised activations, computed here with exact integers and
correctly rounded fma (long double), and once more with two roundings (instruction sets without fma).
Little-endian: "NQGT", count; per type: dtype, n, k, m (u32), then w, x f32[m][k],
dequantised f32[n][k] of the first two and the last row, y fused f32[m][n], y unfused f32[m][n]."""
import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as G
from gguf.quants import dequantize

# name, our dtype, bytes a block, elements a block, where the f16 scales stand
TYPES = [("Q4_0", 16, 18, 32, [0]), ("Q4_1", 17, 20, 32, [0, 2]), ("Q5_0", 18, 22, 32, [0]),
         ("Q5_1", 19, 24, 32, [0, 2]), ("Q8_0", 20, 34, 32, [0]), ("Q4_K", 21, 144, 256, [0, 2]),
         ("Q5_K", 22, 176, 256, [0, 2]), ("Q6_K", 23, 210, 256, [208]),
         ("Q2_K", 24, 84, 256, [80, 82]), ("Q3_K", 25, 110, 256, [108])]
N, K, M = 37, 512, 6
F = np.float32


def blocks(rng, size, count, scales):
    w = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in scales:
        d = rng.uniform(-0.02, 0.05, count).astype(np.float16)
        w[:, at:at + 2] = d.view(np.uint8).reshape(count, 2)
    return w


def codes_and_scales(name, w):
    """Integer weights [rows][k/32][32], f32 scale and min [rows][k/32], int halves [rows][k/32][2];
    where each half has a minimum of its own, min is [rows][k/32][2]."""
    rows = w.shape[0]
    b = w.reshape(rows, -1, dict((t[0], t[2]) for t in TYPES)[name]).astype(np.int64)

    def f16(at):
        return np.ascontiguousarray(b[:, :, at:at + 2].astype(np.uint8)).view(np.float16).astype(F)[:, :, 0]

    def split16(q, fifth=None):
        v = np.concatenate([q & 15, q >> 4], axis=-1)
        if fifth is not None:
            bits = (fifth[..., :, None] >> np.arange(8)) & 1
            v = v | bits.reshape(v.shape) << 4
        return v
    halves = None
    if name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        base = {"Q4_0": 2, "Q4_1": 4, "Q5_0": 6, "Q5_1": 8}[name]
        fifth = None if name[1] == "4" else b[:, :, base - 4:base]
        q = split16(b[:, :, base:], fifth)
        scale = f16(0)
        low = None if name.endswith("0") else f16(2)
        q = q - {"Q4_0": 8, "Q5_0": 16}.get(name, 0)
    elif name == "Q8_0":
        q, scale, low = ((b[:, :, 2:] + 128) % 256) - 128, f16(0), None
    elif name in ("Q4_K", "Q5_K"):
        s = b[:, :, 4:16]
        sc = np.concatenate([s[..., 0:4] & 63, (s[..., 8:12] & 15) | (s[..., 0:4] >> 6) << 4], -1)
        mn = np.concatenate([s[..., 4:8] & 63, (s[..., 8:12] >> 4) | (s[..., 4:8] >> 6) << 4], -1)
        low = -(f16(2)[..., None] * mn.astype(F))
        scale = f16(0)[..., None] * sc.astype(F)
        qs = b[:, :, 16 if name == "Q4_K" else 48:]
        q = np.stack([(qs[..., 32 * (j // 2):32 * (j // 2) + 32] >> 4 * (j & 1)) & 15 for j in range(8)], 2)
        if name == "Q5_K":
            q = q | np.stack([(b[:, :, 16:48] >> j & 1) << 4 for j in range(8)], 2)
    elif name in ("Q2_K", "Q3_K"):
        at = 16 if name == "Q2_K" else 32
        q = np.stack([b[:, :, at + 32 * (j // 4):][..., :32] >> 2 * (j & 3) & 3 for j in range(8)], 2)
        if name == "Q2_K":
            halves = (b[:, :, :16] & 15).reshape(rows, -1, 2)
            low = -(f16(82)[..., None] * (b[:, :, :16] >> 4).astype(F)).reshape(rows, -1, 2)
            scale = np.repeat(f16(80), 8, axis=1)
        else:
            q = (q | np.stack([(b[:, :, :32] >> j & 1) << 2 for j in range(8)], 2)) - 4
            s, i = b[:, :, 96:108], np.arange(16)
            halves = (s[..., i & 7] >> 4 * (i // 8) & 15) | (s[..., 8 + (i & 3)] >> 2 * (i // 4) & 3) << 4
            halves = halves.reshape(rows, -1, 2) - 32
            scale, low = np.repeat(f16(108), 8, axis=1), None
    else:
        ql, qh = b[:, :, :128], b[:, :, 128:192]
        q = np.stack([(ql[..., 64 * (j // 4) + 32 * (j & 1):][..., :32] >> 4 * (j // 2 & 1) & 15)
                      | (qh[..., 32 * (j // 4):][..., :32] >> 2 * (j & 3) & 3) << 4 for j in range(8)], 2) - 32
        halves = (((b[:, :, 192:208] + 128) % 256) - 128).reshape(rows, -1, 2)
        scale, low = np.repeat(f16(208), 8, axis=1), None
    q = q.reshape(rows, -1, 32)
    nb = q.shape[1]
    if low is not None:
        low = low.reshape((rows, nb, 2) if name == "Q2_K" else (rows, nb))
    return q, scale.reshape(rows, nb).astype(F), low, halves if halves is not None else np.ones((rows, nb, 2), np.int64)


def fma(a, b, c, fused):
    if not fused:
        return (a * b).astype(F) + c
    return (a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)).astype(F)


def product(q, scale, low, halves, x, fused):
    m, (n, nb, _) = x.shape[0], q.shape
    xb = x.reshape(m, nb, 32)
    top = np.abs(xb).max(-1)
    d = top / F(127)
    qa = np.rint(xb * (F(127) / top)[..., None]).astype(np.int64)
    s = d * qa.sum(-1).astype(F)
    y = np.zeros((m, n), F)
    for b in range(nb):
        parts = np.einsum("mhi,nhi->mnh", qa[:, b].reshape(m, 2, 16), q[:, b].reshape(n, 2, 16))
        dot = (parts * halves[None, :, b]).sum(-1)
        y = fma(scale[None, :, b] * d[:, b, None], dot.astype(F), y, fused)
        if low is not None and low.ndim == 3:
            for h in range(2):
                part = d[:, b] * qa[:, b, 16 * h:16 * h + 16].sum(-1).astype(F)
                y = fma(np.broadcast_to(low[None, :, b, h], y.shape), part[:, None], y, fused)
        elif low is not None:
            y = fma(np.broadcast_to(low[None, :, b], y.shape), s[:, b, None], y, fused)
    return y


def main(path):
    rng = np.random.default_rng(7)
    out = [b"NQGT", struct.pack("<I", len(TYPES))]
    for name, dtype, size, elements, scales in TYPES:
        w = blocks(rng, size, N * K // elements, scales).reshape(N, -1)
        x = (rng.standard_normal((M, K)) * np.exp(rng.uniform(-3, 3, (M, K // 32))).repeat(32, 1)).astype(F)
        real = dequantize(w, G[name]).astype(F)
        parts = codes_and_scales(name, w)
        fused, unfused = product(*parts, x, True), product(*parts, x, False)
        far = np.abs(fused - x.astype(np.float64) @ real.astype(np.float64).T).max() / np.abs(fused).max()
        assert far < 0.02, (name, far)  # the int8 activations' own error: the codes are read rightly
        out += [struct.pack("<4I", dtype, N, K, M), w.tobytes(), x.tobytes(),
                real[[0, 1, N - 1]].tobytes(), fused.tobytes(), unfused.tobytes()]
    with open(path, "wb") as f:
        f.write(b"".join(out))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/quant.bin")
