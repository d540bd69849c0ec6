#!/usr/bin/env python3
"""Makes tests/golden/kernels.bin: what span, row and rotary kernels must give, from NumPy.

Needs `pip install numpy ml_dtypes`. Everything is computed in float64 from operands that the dtype
holds exactly, and rounded once. Little-endian: "NKGT", count; per table: name (24 bytes, "op.dtype"),
count of elements (u32), bytes an element (u32), data. Operands are "x", "a" and "b"; rows have 2 rows
of ROW elements ("rows", "weight", "bias"); rope has inputs "turn" [positions][heads][dim]."""
import math
import struct
import sys

import ml_dtypes
import numpy as np

ROW = 77
POSITIONS = [0, 1, 6, 511, 4095, 100000]
ROPE = [("half", 64, False, 1e4, 1.0, False), ("pairs", 64, True, 1e4, 1.0, False),
        ("part", 20, False, 5e5, 0.25, False), ("freqs", 38, True, 1e4, 1.0, True)]
HEADS, DIM = 3, 64
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def rounded(value, name):
    """float64 to the dtype, once: by way of f32 rounded to odd where ml_dtypes would round twice."""
    value = np.asarray(value, np.float64)
    if name != "bf16":
        return value.astype(DTYPES[name])
    near = value.astype(np.float32)
    low = np.where(np.abs(near.astype(np.float64)) > np.abs(value), np.nextafter(near, np.float32(0)), near)
    inexact = np.isfinite(value) & np.isfinite(near) & (low.astype(np.float64) != value)
    odd = (low.view(np.uint32) | inexact).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(value) & np.isfinite(near), odd, near).astype(ml_dtypes.bfloat16)


def spread(f):
    return lambda x: np.array([f(float(v)) for v in x])


def gelu(v):
    if v == -math.inf:
        return -0.0  # the limit; the formula would be -inf * 0
    return v / 2 * math.erfc(-v / math.sqrt(2))


def logistic(v):  # of x and u, x sigmoid(u) without overflow
    e = math.exp(-abs(v)) if not math.isnan(v) else v
    return e / (1 + e) if v < 0 else 1 / (1 + e)


def times_logistic(x, u):
    return -0.0 if x == -math.inf else x * logistic(u)


def gelu_tanh(v):
    return times_logistic(v, 2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v * v * v))


UNARY = {
    "neg": np.negative, "abs": np.abs, "square": np.square, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "erf": spread(math.erf),
    "sigmoid": spread(logistic),
    "silu": spread(lambda v: times_logistic(v, v)), "gelu": spread(gelu), "gelu_tanh": spread(gelu_tanh),
    "relu": lambda x: np.maximum(x, 0), "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "sign": np.sign, "reciprocal": np.reciprocal,
    **{name: getattr(np, name) for name in (
        "expm1 log1p log2 log10 sin cos tan arcsin arccos arctan sinh cosh arcsinh arccosh arctanh".split())}}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
          "maximum": np.maximum, "minimum": np.minimum, "arctan2": np.arctan2, "logaddexp": np.logaddexp,
          "remainder": np.mod,
          "floor_divide": lambda a, b: np.floor((a / b).astype(np.float32).astype(np.float64))}
COMPARE = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
           "greater": np.greater, "greater_equal": np.greater_equal}


def operands(rng):
    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, 1e-40,
             -1e-40, 6e-8, -6e-8, 1e-5, 88.5, 89.0, -87.5, -100.0, -104.5, 11.0, -11.0, 65504.0, 3e38, -3e38]
    x = np.concatenate([edges, rng.uniform(-4, 4, 90), rng.uniform(-16, 16, 40), rng.uniform(0, 2, 30),
                        np.exp(rng.uniform(-80, 80, 30))])
    few = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -2.0, 0.5, 3.0]
    a = np.concatenate([np.repeat(few, len(few)), rng.uniform(-4, 4, 60), rng.uniform(0, 9, 40)])
    b = np.concatenate([np.tile(few, len(few)), rng.uniform(-4, 4, 100)])
    b[90:100] = a[90:100]
    return x, a, b


def rope(x, rotary, interleaved, base, scale, freqs):
    half = rotary // 2
    divisor = freqs[:half].astype(np.float64) if freqs is not None else base ** (np.arange(half) / half)
    angle = np.array(POSITIONS)[:, None, None] * scale / divisor
    c, s = np.cos(angle), np.sin(angle)
    out = x.copy()
    first, second = (slice(0, rotary, 2), slice(1, rotary, 2)) if interleaved else (slice(0, half), slice(half, rotary))
    out[..., first] = x[..., first] * c - x[..., second] * s
    out[..., second] = x[..., second] * c + x[..., first] * s
    return out


def rows(name, rng, table):
    def put(key, value):
        r = rounded(value, name)
        table(key, name, r)
        return r.astype(np.float64)

    x = put("rows", np.stack([rng.normal(3, 2, ROW), rng.uniform(-30, 30, ROW)]))
    w, b = put("weight", rng.uniform(0.5, 2, ROW)), put("bias", rng.normal(0, 1, ROW))
    e = np.exp(x - x.max(1, keepdims=True))
    put("softmax", e / e.sum(1, keepdims=True))
    put("rms_norm", x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w)
    centred = x - x.mean(1, keepdims=True)
    put("layer_norm", centred / np.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5) * w + b)
    turn = put("turn", rng.normal(0, 1, (len(POSITIONS), HEADS, DIM)))
    freqs = np.exp(rng.uniform(0, 9, DIM // 2)).astype(np.float32)
    if name == "f32":
        table("freqs", name, freqs)
        rows.freqs = freqs
    for key, rotary, interleaved, base, scale, custom in ROPE:
        put("rope_" + key, rope(turn, rotary, interleaved, base, scale, rows.freqs if custom else None))


def main(path):
    np.seterr(all="ignore")
    rng = np.random.default_rng(11)
    tables = []

    def table(key, name, values):
        values = np.ascontiguousarray(values)
        tables.append(struct.pack("<24sII", f"{key}.{name}".encode(), values.size, values.itemsize) + values.tobytes())

    for name in DTYPES:
        x, a, b = (rounded(v, name) for v in operands(rng))
        for key, value in (("x", x), ("a", a), ("b", b)):
            table(key, name, value)
        x, a, b = (v.astype(np.float64) for v in (x, a, b))
        for key, op in UNARY.items():
            table(key, name, rounded(op(x), name))
        for key, op in BINARY.items():
            table(key, name, rounded(op(a, b), name))
        for key, op in COMPARE.items():
            table(key, name, op(a, b).astype(np.uint8))
        rows(name, rng, table)
    with open(path, "wb") as f:
        f.write(b"NKGT" + struct.pack("<I", len(tables)) + b"".join(tables))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/kernels.bin")
