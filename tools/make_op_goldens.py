#!/usr/bin/env python3
"""Expected results of tests/ops_cases.def -> tests/golden/ops.bin.

NumPy in float64 (integers in their own width); quantised weights by the gguf package, random
numbers by MLX. Run in a virtual environment with: numpy gguf 'mlx[cpu]'. Inputs are not stored:
they are a few integer operations of their index, the same here and in
tests/unit/ops_case_reader.h.

File: lines "name dtype rank extents.. offset bytes", an empty line, then the data.
"""
import math
import re
import sys
import warnings
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np

import encoded_reference

ROOT = Path(__file__).resolve().parent.parent
FLOATS = ("f32", "f16", "bf16")
NATIVE = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32,
          "u32": np.uint32, "i64": np.int64}
ERF = np.vectorize(math.erf, otypes=[np.float64])
END = -2**63


class A:
    """An array with its Neap dtype; floats are held as float64."""

    def __init__(self, v, dtype):
        self.v = np.asarray(v, dtype=np.float64 if dtype in FLOATS else NATIVE[dtype])
        self.dtype = dtype


# ---- inputs -------------------------------------------------------------------------------------


def bf16(v):
    u = np.asarray(v, np.float32).view(np.uint32).astype(np.uint64)
    r = ((u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(v), np.float64(np.nan), r.astype(np.float64))


def rounded(v, dtype):
    if dtype == "bf16":
        return bf16(v)
    return np.asarray(v).astype(np.float16 if dtype == "f16" else np.float32).astype(np.float64)


def hashed(n, seed):
    i = np.arange(n, dtype=np.uint64)
    u = (i * 2654435761 + (seed + 1) * 2246822519 + 374761393) & 0xFFFFFFFF
    u ^= u >> 15
    u = u * 2654435769 & 0xFFFFFFFF
    return u ^ (u >> 13)


def filled(n, k, fill, dtype):
    u = hashed(n, k)
    if fill.startswith("="):
        values = [float(x) for x in fill[1:].split(",")]
        v = np.array([values[i % len(values)] for i in range(n)], dtype=np.float64)
    elif fill == "Q":
        q = (u % 255).astype(np.int64) - 127
        block = np.arange(n) // 32
        q[np.arange(n) % 32 == 5] = 127
        v = q * 2.0 ** -(4 + block % 3)
    elif dtype == "bool":
        v = (u & 1).astype(np.float64)
    elif dtype in FLOATS:
        low, high = (float(x) for x in fill.split(",")) if fill else (-4.0, 4.0)
        v = low + (high - low) * ((u >> 24).astype(np.float64) / 256.0)
    else:
        default = (0, 200) if dtype[0] == "u" else (-90, 90)
        low, high = (int(x) for x in fill.split(",")) if fill else default
        if dtype[0] == "u" and low < 0:
            low, high = 0, high - low
        v = (low + (u % (high - low + 1)).astype(np.int64)).astype(np.float64)
    if dtype in FLOATS and dtype != "f32":
        v = rounded(v, dtype)
    if dtype in FLOATS or dtype == "bool":
        return A(v, dtype)
    return A(v.astype(np.int64).astype(NATIVE[dtype]), dtype)


def make_input(token, k, dtype):
    parts = token.split("|")
    m = re.fullmatch(r"(?:(\w+):)?([\dx]+|-)(?:\{(.*)\})?", parts[0])
    dtype = m.group(1) or dtype
    shape = [] if m.group(2) == "-" else [int(x) for x in m.group(2).split("x")]
    a = filled(int(np.prod(shape)), k, m.group(3) or "", dtype)
    v = a.v.reshape(shape)
    for op in parts[1:]:
        args = [int(x) for x in re.split("[:x]", op[1:])] if op[1:] else []
        if op[0] == "t":
            v = v.T
        elif op[0] == "r":
            v = np.flip(v, args[0])
        elif op[0] == "s":
            v = v[(slice(None),) * args[0] + (slice(None, None, args[1]),)]
        elif op[0] == "n":
            v = v[(slice(None),) * args[0] + (slice(args[1], args[2]),)]
        elif op[0] == "b":
            v = np.broadcast_to(v, args)
    return A(v, dtype)


# ---- dtypes -------------------------------------------------------------------------------------

BITS = {"u8": 8, "i8": 8, "i16": 16, "i32": 32, "u32": 32, "i64": 64}


def promote(a, b):
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if a in FLOATS and b in FLOATS:
        return "f32"
    if a in FLOATS or b in FLOATS:
        return a if a in FLOATS else b
    if a[0] == b[0]:
        return a if BITS[a] > BITS[b] else b
    u, s = (a, b) if a[0] == "u" else (b, a)
    return s if BITS[s] > BITS[u] else "i16" if u == "u8" else "i64"


def cast(a, dtype):
    v = a.v
    if dtype == a.dtype:
        return a
    if dtype in FLOATS:
        v = v.astype(np.float64)
        with np.errstate(over="ignore"):
            return A(rounded(v, dtype), dtype)
    if dtype == "bool":
        return A(v != 0, dtype)
    if a.dtype in FLOATS:
        info = np.iinfo(NATIVE[dtype])
        clean = np.clip(np.trunc(np.where(np.isnan(v), 0, v)), float(info.min), float(info.max))
        return A(np.array([min(int(x), info.max) for x in clean.ravel()], dtype=NATIVE[dtype])
                 .reshape(clean.shape), dtype)
    return A(v.astype(NATIVE[dtype]), dtype)


def common(xs, floats=False):
    d = "bool"
    for x in xs:
        d = promote(d, x.dtype)
    if floats and d not in FLOATS:
        d = "f32"
    return [cast(x, d).v for x in xs], d


# ---- the ops ------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY_FLOAT = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "erf": ERF, "sigmoid": sigmoid, "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x / 2 * (1 + ERF(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "reciprocal": np.reciprocal,
    **{name: getattr(np, name) for name in (
        "expm1 log1p log2 log10 sin cos tan arcsin arccos arctan sinh cosh arcsinh arccosh "
        "arctanh").split()}}
UNARY = {"neg": lambda x: -x, "abs": np.abs, "square": lambda x: x * x,
         "relu": lambda x: np.maximum(x, x * 0), "floor": np.floor, "ceil": np.ceil,
         "round": np.rint, "trunc": np.trunc, "bitwise_invert": np.invert,
         "sign": lambda x: x if x.dtype == bool else np.sign(x)}
BINARY = {"add": np.add, "sub": lambda a, b: a - b, "mul": np.multiply, "maximum": np.maximum,
          "minimum": np.minimum}
BINARY_FLOAT = {"div": lambda a, b: a / b, "arctan2": np.arctan2, "logaddexp": np.logaddexp}
BINARY_INTEGER = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
                  "bitwise_xor": np.bitwise_xor, "left_shift": np.left_shift,
                  "right_shift": np.right_shift}
TESTS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
COMPARE = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less,
           "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or}


def whole_binary(fn, a, b, d):
    """pow, floor_divide, remainder: NumPy's for floats; Python's integers for the others, 0 where
    it would raise, and their low bits."""
    if d in FLOATS:
        if fn == "floor_divide":
            return np.floor((a / b).astype(np.float32).astype(np.float64))
        return np.power(a, b) if fn == "pow" else np.mod(a, b)
    bits = BITS.get(d, 1)
    a, b = np.broadcast_arrays(a, b)

    def one(u, v):
        if fn == "pow":
            r = 0 if v < 0 else pow(u, v, 1 << bits)
        elif v == 0:
            r = 0
        else:
            r = u // v if fn == "floor_divide" else u % v
        r &= (1 << bits) - 1
        return r - (1 << bits) if d[0] == "i" and r >> (bits - 1) else r

    flat = [one(int(u), int(v)) for u, v in zip(a.ravel(), b.ravel())]
    return np.array(flat, dtype=NATIVE[d]).reshape(a.shape)


def round_decimals(a, p):
    """As it is defined: in float32, and back; integers change for negative decimals only."""
    d = int(p["d"])
    if a.dtype not in FLOATS and (d >= 0 or a.dtype == "bool"):
        return a
    up, down = np.float32(10.0 ** d), np.float32(10.0 ** -d)
    v = np.rint(a.v.astype(np.float32) * up) * down
    return cast(A(v.astype(np.float64), "f32"), a.dtype)


def elementwise(fn, x):
    if fn in UNARY_FLOAT:
        (v,), d = common(x, True)
        return A(UNARY_FLOAT[fn](v), d)
    if fn in ("floor", "ceil", "round", "trunc") and x[0].dtype not in FLOATS:
        return x[0]
    if fn in TESTS:
        return A(TESTS[fn](x[0].v), "bool")
    if fn in UNARY:
        return A(UNARY[fn](x[0].v), x[0].dtype)
    if fn in BINARY_FLOAT:
        v, d = common(x, True)
        return A(BINARY_FLOAT[fn](*v), d)
    if fn in ("pow", "floor_divide", "remainder"):
        (a, b), d = common(x)
        return A(whole_binary(fn, a, b, d), d)
    if fn in BINARY_INTEGER:
        v, d = common(x)
        if "shift" in fn and d == "bool":
            v, d = [u.astype(np.uint8) for u in v], "u8"
        return A(BINARY_INTEGER[fn](*v), d)
    if fn in BINARY:
        v, d = common(x)
        return A(BINARY[fn](*v), d)
    if fn in COMPARE:
        v, _ = common(x)
        return A(COMPARE[fn](*v), "bool")
    if fn in LOGIC:
        return A(LOGIC[fn](*(cast(a, "bool").v for a in x)), "bool")
    if fn == "logical_not":
        return A(~cast(x[0], "bool").v, "bool")
    if fn == "where":
        v, d = common(x[1:])
        return A(np.where(cast(x[0], "bool").v, *v), d)
    return None


def reduction(fn, x, p):
    a, axis, keep = x[0], int(p.get("axis", 0)), p.get("keep") == "1"
    if fn == "sum_all":
        return A(np.sum(a.v if a.dtype in FLOATS else a.v.astype(np.int64)),
                 a.dtype if a.dtype in FLOATS else "i64")
    if fn == "sum":
        v = a.v if a.dtype in FLOATS else a.v.astype(np.int64)
        return A(np.sum(v, axis=axis, keepdims=keep), a.dtype if a.dtype in FLOATS else "i64")
    if fn == "mean":
        f = a if a.dtype in FLOATS else cast(a, "f32")
        return A(np.mean(f.v, axis=axis, keepdims=keep), f.dtype)
    if fn in ("max", "min"):
        if a.v.size == 0:  # NumPy refuses an empty axis also where the result is empty
            return A(np.sum(a.v, axis=axis, keepdims=keep), a.dtype)
        return A(getattr(np, fn)(a.v, axis=axis, keepdims=keep), a.dtype)
    if fn in ("argmax", "argmin"):
        return A(getattr(np, fn)(a.v, axis=axis, keepdims=keep), "i32")
    if fn in ("argmax_all", "argmin_all"):
        return A(getattr(np, fn[:6])(a.v, keepdims=keep), "i32")
    if fn.endswith("_axes") and fn != "swap_axes":
        return over_axes(fn[:-5], a, tuple(ints(p, "axes")) or None, keep, int(p.get("ddof", 0)))
    return None


def over_axes(fn, a, axes, keep, ddof):
    """MLX's dtypes."""
    how = {"axis": axes, "keepdims": keep}
    if fn in ("any", "all"):
        return A(getattr(np, fn)(a.v != 0, **how), "bool")
    if fn in ("max", "min"):
        return A(getattr(np, fn)(a.v, **how), a.dtype)
    if fn in ("sum", "prod"):
        d = a.dtype if a.dtype in FLOATS or a.dtype == "i64" else "u32" if a.dtype[0] == "u" else "i32"
        v = a.v if a.dtype in FLOATS else a.v.astype(np.int64)
        with np.errstate(over="ignore"):
            r = np.asarray(getattr(np, fn)(v, **how))
        return A(r if a.dtype in FLOATS else r.astype(NATIVE[d]), d)
    f = a if a.dtype in FLOATS else cast(a, "f32")
    if fn == "logsumexp":
        if f.v.size == 0:
            return A(np.sum(f.v, **how) - np.inf, f.dtype)
        top = np.max(f.v, axis=axes, keepdims=True)
        safe = np.where(np.isinf(top), 0, top)
        r = np.log(np.sum(np.exp(f.v - safe), axis=axes, keepdims=True)) + safe
        return A(r if keep else np.squeeze(r, tuple(range(r.ndim)) if axes is None else axes), f.dtype)
    if fn == "mean":
        return A(np.mean(f.v, **how), f.dtype)
    return A(getattr(np, fn)(f.v, ddof=ddof, **how), f.dtype)


def rows(fn, x, p):
    a = x[0] if x[0].dtype in FLOATS else cast(x[0], "f32")
    if fn == "softmax":
        axis = int(p["axis"])
        if a.v.size == 0:
            return A(a.v, a.dtype)
        top = np.max(a.v, axis=axis, keepdims=True)
        e = np.exp(a.v - np.where(np.isinf(top), 0, top))
        s = e.sum(axis=axis, keepdims=True)
        return A(np.where(s == 0, 0, e / np.where(s == 0, 1, s)), a.dtype)
    eps, v, k = float(p["eps"]), a.v, 1
    if fn == "layer_norm":
        v = v - v.mean(-1, keepdims=True)
    v = v / np.sqrt((v * v).mean(-1, keepdims=True) + float(np.float32(eps)))
    for name in ("weight", "bias"):
        if p.get(name):
            w = cast(x[k], a.dtype).v
            v = v * w if name == "weight" else v + w
            k += 1
    return A(v, a.dtype)


def rope(x, p):
    v = x[0].v
    if p.get("heads_first"):
        v = v.swapaxes(-2, -3)
    rotary, k = int(p.get("rotary", v.shape[-1])), 1
    position = float(p.get("offset", 0)) + np.arange(v.shape[-2])
    if p.get("positions"):
        at = x[k].v.astype(np.float64)
        position = at if at.ndim == 1 else at.reshape(at.shape[0], *([1] * (v.ndim - 3)), -1)
        k += 1
    freqs = float(p.get("base", 10000)) ** (2 * np.arange(rotary // 2) / rotary)
    if p.get("freqs"):
        freqs = x[k].v
    angle = np.asarray(position)[..., None] * float(p.get("scale", 1)) / freqs
    c, s = np.cos(angle), np.sin(angle)
    out = v.copy()
    if p.get("interleaved"):
        a, b = v[..., 0:rotary:2], v[..., 1:rotary:2]
        out[..., 0:rotary:2], out[..., 1:rotary:2] = a * c - b * s, b * c + a * s
    else:
        h = rotary // 2
        a, b = v[..., :h], v[..., h:rotary]
        out[..., :h], out[..., h:rotary] = a * c - b * s, b * c + a * s
    return A(out, x[0].dtype)


def attention(x, p):
    q, k, v = (a.v.swapaxes(-1, -2) if p.get("swap") else a.v for a in x[:3])
    group, at = q.shape[-3] // k.shape[-3], 3
    k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    s = q @ k.swapaxes(-1, -2) * float(p.get("scale", 1 / math.sqrt(q.shape[-1])))
    i = np.arange(s.shape[-2])[:, None] + s.shape[-1] - s.shape[-2]
    j = np.arange(s.shape[-1])[None, :]
    if p.get("causal"):
        s = np.where(j <= i, s, -np.inf)
    if p.get("window"):
        s = np.where(j > i - int(p["window"]), s, -np.inf)
    if p.get("mask"):
        m = x[at]
        s = np.where(m.v, s, -np.inf) if m.dtype == "bool" else s + m.v
        at += 1
    sinks = x[at].v[:, None, None] if p.get("sinks") else np.full((1, 1, 1), -np.inf)
    top = np.maximum(s.max(-1, keepdims=True, initial=-np.inf), sinks)
    top = np.where(np.isinf(top), 0, top)
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True) + np.exp(sinks - top)
    out = (e / np.where(total == 0, 1, total)) @ v
    if p.get("first"):
        out = out.swapaxes(-2, -3)
        out = out.reshape(*out.shape[:-2], -1)
    return A(out, x[0].dtype)


def conv(x, p):
    """By the definition: every tap of every output, and for transposed ones the scatter."""
    v, w = x[0].v, x[1].v
    if p.get("first"):
        v, w = np.moveaxis(v, 1, -1), np.moveaxis(w, 1, -1)
    n = v.ndim - 2
    stride, dilation = ints(p, "stride") or [1] * n, ints(p, "dilation") or [1] * n
    padding, extra = ints(p, "padding") or [0] * n, ints(p, "output_padding") or [0] * n
    groups, kernel = int(p.get("groups", 1)), w.shape[1:-1]
    cg, og = w.shape[-1], w.shape[0] // groups
    transposed = bool(p.get("transposed"))
    sizes = zip(v.shape[1:-1], kernel, stride, padding, dilation, extra)
    if transposed:
        shape = [(i - 1) * s - 2 * q + d * (k - 1) + e + 1 for i, k, s, q, d, e in sizes]
        full = [o + 2 * q for o, q in zip(shape, padding)]
    else:
        shape = [(i + 2 * q - d * (k - 1) - 1) // s + 1 for i, k, s, q, d, _ in sizes]
        v = np.pad(v, [(0, 0)] + [(q, q) for q in padding] + [(0, 0)])
        full = shape
    out = np.zeros([v.shape[0], *full, w.shape[0]])
    for tap in np.ndindex(*kernel):
        span = v.shape[1:-1] if transposed else shape
        at = tuple(slice(t * d, t * d + (m - 1) * s + 1, s)
                   for t, d, m, s in zip(tap, dilation, span, stride))
        for g in range(groups):
            c, o = slice(g * cg, (g + 1) * cg), slice(g * og, (g + 1) * og)
            wt = w[(o, *tap)].T
            if transposed:
                out[(slice(None), *at, o)] += v[..., c] @ wt
            else:
                out[..., o] += v[(slice(None), *at, c)] @ wt
    if transposed:
        out = out[(slice(None), *(slice(q, q + m) for q, m in zip(padding, shape)))]
    return A(out, promote(x[0].dtype, x[1].dtype))


# ---- quantised weights --------------------------------------------------------------------------

W_ROWS, W_COLUMNS = 5, 256


def weights(name):
    """Random blocks with sane scales: bytes, and what they mean."""
    kind = getattr(gguf.GGMLQuantizationType, name.upper())
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(kind.value)
    n = W_ROWS * W_COLUMNS // block
    raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
    halves = {"q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q4_k": [0, 2],
              "q5_k": [0, 2], "q6_k": [208], "q2_k": [80, 82], "q3_k": [108]}[name]
    for at in halves:
        scale = rng.uniform(-0.05, 0.05, n).astype(np.float16)
        raw[:, at:at + 2] = scale.view(np.uint8).reshape(n, 2)
    raw = raw.reshape(W_ROWS, -1)
    return raw, gguf.quants.dequantize(raw, kind).astype(np.float64)


# ---- the rest -----------------------------------------------------------------------------------


def ints(p, key):
    return [END if t == "END" else int(t) for t in p.get(key, "").split(",") if t]


def region(p, rank):
    none = lambda v: None if v == END else v
    start, stop = ints(p, "start") or [END] * rank, ints(p, "stop") or [END] * rank
    step = ints(p, "step") or [1] * rank
    return tuple(slice(none(a), none(b), c) for a, b, c in zip(start, stop, step))


def shape_ops(fn, x, p):
    a = x[0] if x else None
    keep = lambda v: A(v, a.dtype)
    table = {
        "contiguous": lambda: keep(a.v), "depends": lambda: keep(a.v),
        "reshape": lambda: keep(a.v.reshape(ints(p, "shape"))),
        "transpose": lambda: keep(a.v.transpose(ints(p, "axes") or None)),
        "swap_axes": lambda: keep(a.v.swapaxes(int(p["a"]), int(p["b"]))),
        "broadcast_to": lambda: keep(np.broadcast_to(a.v, ints(p, "shape"))),
        "expand_dims": lambda: keep(np.expand_dims(a.v, int(p["axis"]))),
        "squeeze": lambda: keep(np.squeeze(a.v, int(p["axis"]))),
        "slice": lambda: keep(a.v[region(p, a.v.ndim)]),
        "narrow": lambda: keep(np.take(a.v, range(int(p["a"]), int(p["b"])), int(p["axis"]))),
        "split": lambda: keep(np.split(a.v, int(p["n"]), int(p["axis"]))[int(p["part"])]),
        "pad": lambda: keep(np.pad(a.v, list(zip(ints(p, "before"), ints(p, "after"))),
                                   constant_values=a.v.dtype.type(float(p["value"]))))}
    if fn in table:
        return table[fn]()
    if fn == "concat":
        v, d = common(x)
        return A(np.concatenate(v, int(p["axis"])), d)
    if fn == "slice_update":
        v = a.v.copy()
        v[region(p, v.ndim)] = cast(x[1], a.dtype).v
        return keep(v)
    if fn == "take":
        return keep(np.take(a.v, x[1].v.astype(np.int64), int(p["axis"])))
    return None


def ordering(fn, x, p):
    if fn not in ("sort", "argsort", "partition", "argpartition", "topk", "median"):
        return None
    a, axis = x[0], int(p.get("axis", 0))
    if fn == "median":
        a = a if a.dtype in FLOATS else cast(a, "f32")
        axes = tuple(ints(p, "axes")) or None
        if a.v.size == 0:
            return A(np.sum(a.v, axis=axes, keepdims=p.get("keep") == "1"), a.dtype)
        return A(np.median(a.v, axis=axes, keepdims=p.get("keep") == "1"), a.dtype)
    if fn in ("argsort", "argpartition"):
        return A(np.argsort(a.v, axis, kind="stable"), "u32")
    v = np.sort(a.v, axis, kind="stable")
    if fn == "topk":
        v = np.take(np.flip(v, axis), range(int(p["k"])), axis)
    return A(v, a.dtype)


def running(fn, x, p):
    ufunc = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum,
             "cummin": np.minimum}.get(fn)
    if not ufunc:
        return None
    a, axis = x[0], int(p["axis"])
    if a.dtype == "bool" and fn == "cumsum":
        a = cast(a, "i32")
    v = np.flip(a.v, axis) if p.get("reverse") else a.v
    if p.get("without"):
        low, high = ((-np.inf, np.inf) if a.dtype in FLOATS else (False, True) if a.dtype == "bool"
                     else (np.iinfo(a.v.dtype).min, np.iinfo(a.v.dtype).max))
        first = {"cumsum": 0, "cumprod": 1, "cummax": low, "cummin": high}[fn]
        edge = np.full_like(np.take(v, [0], axis), first)
        v = np.concatenate([edge, np.take(v, range(v.shape[axis] - 1), axis)], axis)
    v = ufunc.accumulate(v, axis, dtype=v.dtype)
    return A(np.flip(v, axis) if p.get("reverse") else v, a.dtype)


def threefry(key, c0, c1):
    """Threefry-2x32, 20 rounds, of two arrays of counters."""
    ks = [key[0], key[1], 0x1BD11BDA ^ key[0] ^ key[1]]
    x = [(c0 + ks[0]) & 0xFFFFFFFF, (c1 + ks[1]) & 0xFFFFFFFF]
    for i in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[i & 1]:
            x[0] = (x[0] + x[1]) & 0xFFFFFFFF
            x[1] = ((x[1] << r | x[1] >> (32 - r)) & 0xFFFFFFFF) ^ x[0]
        x = [(x[0] + ks[(i + 1) % 3]) & 0xFFFFFFFF, (x[1] + ks[(i + 2) % 3] + i + 1) & 0xFFFFFFFF]
    return x


def random_bits(p):
    """mlx.random.bits, which Python does not see: checked against uniform, which divides them."""
    shape, width, seed = ints(p, "shape"), int(p["width"]), int(p["seed"])
    size = int(np.prod(shape)) * width
    n = (size + 3) // 4
    half, odd = n // 2, n % 2
    i = np.arange(half, dtype=np.int64)
    key = [seed >> 32, seed & 0xFFFFFFFF]
    first, second = threefry(key, i, half + odd + i)
    middle = threefry(key, np.array([half]), np.array([0]))[0][:odd]
    words = np.concatenate([first, middle, second]).astype(np.uint32)
    if width == 4:
        u = mx.random.uniform(0, 1, (n,), key=mx.array(key, dtype=mx.uint32))
        assert np.allclose(np.array(u), words / 4294967295, atol=1e-6)
    dtype = {1: "u8", 2: "i16", 4: "u32"}[width]
    return A(words.view(np.uint8)[:size].view(NATIVE[dtype]).reshape(shape), dtype)


def indexing(fn, x, p, dtype):
    """Ops that lay out anew, index and order."""
    a = x[0] if x else None
    keep = lambda v: A(v, a.dtype)
    axes, axis = tuple(ints(p, "axes")), int(p.get("axis", 0))
    table = {
        "tile": lambda: keep(np.tile(a.v, ints(p, "reps"))),
        "repeat": lambda: keep(np.repeat(a.v, int(p["times"]), axis)),
        "roll": lambda: keep(np.roll(a.v, ints(p, "shifts"), axes)),
        "flip": lambda: keep(np.flip(a.v, axes)),
        "split_sizes": lambda: keep(
            np.split(a.v, np.cumsum(ints(p, "sizes"))[:-1], axis)[int(p["part"])]),
        "pad_edge": lambda: keep(
            np.pad(a.v, list(zip(ints(p, "before"), ints(p, "after"))), "edge")),
        "tril": lambda: keep(np.tril(a.v, int(p["k"]))),
        "triu": lambda: keep(np.triu(a.v, int(p["k"]))),
        "tri": lambda: cast(A(np.tri(int(p["n"]), int(p["m"]), int(p["k"])), "f32"), dtype)}
    if fn in table:
        return table[fn]()
    if fn == "stack":
        v, d = common(x)
        return A(np.stack(v, axis), d)
    if fn == "as_strided":
        v = np.ascontiguousarray(a.v).ravel()
        at = np.full(ints(p, "shape"), int(p["offset"]))
        for i, s in zip(np.indices(at.shape), ints(p, "strides")):
            at = at + i * s
        return keep(v[at])
    if fn == "take_along_axis":
        shapes = [list(b.v.shape) for b in x]
        for s in shapes:
            s[axis] = 1
        whole = list(np.broadcast_shapes(*shapes))
        v = [np.broadcast_to(b.v, [*whole[:axis % len(whole)], b.v.shape[axis],
                                   *whole[axis % len(whole) + 1:]]) for b in x]
        return keep(np.take_along_axis(v[0], v[1].astype(np.int64), axis))
    if fn == "gather":
        sizes = ints(p, "sizes")
        at = np.broadcast_arrays(*(b.v.astype(np.int64) for b in x[1:])) if axes else []
        lead = at[0].shape if axes else ()
        out = np.zeros((*lead, *sizes), a.v.dtype)
        for i in np.ndindex(*lead):
            start = [0] * a.v.ndim
            for k, b in zip(axes, at):
                start[k] = int(b[i]) % a.v.shape[k] if b[i] < 0 else int(b[i])
            out[i] = a.v[tuple(slice(s, s + n) for s, n in zip(start, sizes))]
        return keep(out)
    if fn == "scatter_add":
        at, new = np.broadcast_arrays(x[1].v.astype(np.int64), cast(x[2], a.dtype).v)
        whole = list(np.broadcast_shapes(*([*s[:axis % len(s)], 1, *s[axis % len(s) + 1:]]
                                           for s in (a.v.shape, at.shape))))
        fit = lambda v: np.broadcast_to(v, [*whole[:axis % len(whole)], v.shape[axis],
                                            *whole[axis % len(whole) + 1:]])
        v, at, new = fit(a.v).copy(), fit(at), fit(new)
        for i in np.ndindex(*at.shape):
            to = list(i)
            to[axis] = at[i]
            v[tuple(to)] = v[tuple(to)] + new[i]
        return keep(v)
    if fn == "index_copy":
        v = a.v.copy()
        rows_, new = np.moveaxis(v, axis, 0), cast(x[1], a.dtype).v
        new = np.moveaxis(np.broadcast_to(new, [*v.shape[:axis % v.ndim], x[2].v.size,
                                                *v.shape[axis % v.ndim + 1:]]), axis, 0)
        for i, to in enumerate(x[2].v.astype(np.int64)):
            rows_[to] = new[i]
        return keep(v)
    return None


def states(fn, x, p):
    to = p.get("to", x[0].dtype)
    if fn == "state_write":
        v = A(np.zeros(ints(p, "state")), to).v
        if "at" in p:
            axis, at = int(p["axis"]), int(p["at"])
            view = v[(slice(None),) * axis + (slice(at, at + x[0].v.shape[axis]),)]
        else:
            view = v[region(p, v.ndim)]
        (view.T if p.get("t") else view)[...] = cast(x[0], to).v
        return A(v, to)
    rows_ = x[0].v.swapaxes(0, 1) if p.get("swap") else x[0].v
    h, t, d = rows_.shape
    flat = np.zeros((h, 16 * int(p["groups"]), d))
    flat[:, int(p["at"]):int(p["at"]) + t] = cast(A(rows_, x[0].dtype), to).v
    return A(flat.reshape(h, -1, 16, d).swapaxes(2, 3), to)


def making(fn, x, p, dtype):
    if fn == "arange":
        return cast(A(np.arange(*(float(p[k]) for k in ("start", "stop", "step"))), "f32"), dtype)
    if fn == "param_scalar":
        return cast(A(np.array(float(p["at"]) + float(p["add"])), "f32"), dtype)
    if fn == "full":
        return cast(A(np.full(ints(p, "shape"), float(p["value"])), "f32"), dtype)
    key = mx.array([int(p["seed"]) >> 32, int(p["seed"]) & 0xFFFFFFFF], dtype=mx.uint32)
    if fn == "random_uniform":
        u = mx.random.uniform(float(p["low"]), float(p["high"]), ints(p, "shape"), key=key)
        return A(np.array(u), "f32")
    return A(np.array(mx.random.categorical(mx.array(x[0].v.astype(np.float32)), key=key)), "i32")


def encoded_ops(fn, x, p, dtype):
    if fn == "linear_decoded":
        return A(x[0].v @ weights(p["w"])[1].T, dtype)
    if fn == "embedding_decoded":
        return A(weights(p["w"])[1][x[0].v.astype(np.int64)], dtype)
    w = encoded_reference.encoded(p["e"], encoded_reference.shape_of(p))[1]
    if fn == "dequantize":
        return A(w, dtype)
    return A(x[0].v @ (w if p.get("along") else w.swapaxes(-1, -2)), x[0].dtype)


def gathered(fn, x, p):
    """mlx.core.gather_mm in float64."""
    a, at = x[0].v, 1
    if fn == "gather_qmm":
        b = encoded_reference.encoded(p["e"], encoded_reference.shape_of(p))[1]
        b, dtype = (b if p.get("along") else b.swapaxes(-1, -2)), x[0].dtype
    else:
        b, at, dtype = x[1].v, 2, promote(x[0].dtype, x[1].dtype)
    if not p.get("lhs") and not p.get("rhs"):
        return A(np.matmul(a, b), dtype)
    default = lambda v: np.arange(math.prod(v.shape[:-2])).reshape(v.shape[:-2])
    lhs = x[at].v.astype(np.int64) if p.get("lhs") else default(a)
    rhs = x[at + (1 if p.get("lhs") else 0)].v.astype(np.int64) if p.get("rhs") else default(b)
    lhs, rhs = np.broadcast_arrays(lhs, rhs)
    return A(np.matmul(a.reshape(-1, *a.shape[-2:])[lhs], b.reshape(-1, *b.shape[-2:])[rhs]), dtype)


def named_kernels(fn, x, p, dtype):
    v = [a.v for a in x]
    if fn == "tq_norm":
        return A(np.sqrt((v[0] ** 2).sum(-1, keepdims=True)), dtype)
    if fn == "tq4_compress":
        code = (v[0][..., None] > v[1]).sum(-1)
        return A((code[..., 0::2] << 4 | code[..., 1::2]).astype(np.uint8), "u8")
    if fn == "tq_dequant":
        code = np.stack([v[0] >> 4, v[0] & 15], -1).reshape(*v[0].shape[:-1], -1)
        return A(v[2][code] * v[1].reshape(*v[0].shape[:-1], 1), dtype)
    q, k, value, g, beta, s = v
    group = value.shape[2] // q.shape[2]
    q, k, s = np.repeat(q, group, 2), np.repeat(k, group, 2), s.copy()
    y = np.zeros_like(value)
    for t in range(value.shape[1]):
        s *= g[:, t, :, None, None]
        d = beta[:, t, :, None] * (value[:, t] - np.einsum("bhvk,bhk->bhv", s, k[:, t]))
        s += d[..., None] * k[:, t, :, None, :]
        y[:, t] = np.einsum("bhvk,bhk->bhv", s, q[:, t])
    return A(s, x[5].dtype) if p.get("state") else A(y, x[2].dtype)


def expected(fn, x, p, dtype):
    if fn in ("gather_mm", "gather_qmm"):
        return gathered(fn, x, p)
    if fn in ("tq_norm", "tq4_compress", "tq_dequant", "gated_delta"):
        return named_kernels(fn, x, p, dtype)
    if fn in ("quantized_matmul", "dequantize", "linear_decoded", "embedding_decoded"):
        return encoded_ops(fn, x, p, dtype)
    if fn in ("clip", "clip_low"):
        y = elementwise("maximum", x[:2])
        return elementwise("minimum", [y, x[2]]) if fn == "clip" else y
    if fn == "cast":
        return cast(x[0], p["to"])
    if fn == "round_decimals":
        return round_decimals(x[0], p)
    if fn in ("softmax", "rms_norm", "layer_norm"):
        return rows(fn, x, p)
    if fn == "rope":
        return rope(x, p)
    if fn == "attention":
        return attention(x, p)
    if fn == "conv":
        return conv(x, p)
    if fn == "matmul":
        return A(np.matmul(x[0].v, x[1].v), promote(x[0].dtype, x[1].dtype))
    if fn == "addmm":
        y = float(p.get("alpha", 1)) * np.matmul(x[0].v, x[1].v)
        return A(y + float(p.get("beta", 1)) * x[2].v, common(x)[1])
    if fn == "linear":
        return A(x[0].v @ x[1].v.T, promote(x[0].dtype, x[1].dtype))
    if fn == "linear_q":
        return A(x[0].v @ weights(p["w"])[1].T, x[0].dtype)
    if fn == "expert_linear":
        w, index = (weights(p["w"])[1][:, None], x[1].v) if "w" in p else (x[1].v, x[2].v)
        each = x[0].v if x[0].v.ndim == 3 else np.repeat(x[0].v[:, None], index.shape[1], axis=1)
        return A(np.einsum("tuk,tunk->tun", each, w[index.astype(np.int64)]), "f32")
    if fn == "take_q":
        return A(weights(p["w"])[1][x[0].v.astype(np.int64)], "f32")
    if fn in ("arange", "param_scalar", "full", "random_uniform", "random_categorical"):
        return making(fn, x, p, dtype)
    if fn in ("state_write", "key_cache_write"):
        return states(fn, x, p)
    if fn == "random_bits":
        return random_bits(p)
    y = indexing(fn, x, p, dtype)
    if y is not None:
        return y
    for family in (lambda f, y, _: elementwise(f, y), reduction, shape_ops, ordering, running):
        y = family(fn, x, p)
        if y is not None:
            return y
    sys.exit(f"no reference for {fn}")


# ---- reading the table, writing the file --------------------------------------------------------


def cases():
    text = (ROOT / "tests/ops_cases.def").read_text(encoding="utf-8")
    lists = dict(re.findall(r'#define (\w+) "([^"]*)"', text))
    string = r'(?:"([^"]*)"|(\w+))'
    pattern = r'^CASE\((\w+), (\w+), "([^"]*)", ' + string + r', "([^"]*)", "([^"]*)", [^)]*\)'
    for op, fn, label, quoted, named, inputs, params in re.findall(pattern, text, re.MULTILINE):
        p = dict(t.split("=", 1) for t in params.split())
        yield fn, label, (quoted or lists[named]).split(), inputs.split(), p


def all_parameters():
    """Of every row, also of those that end in an error."""
    text = (ROOT / "tests/ops_cases.def").read_text(encoding="utf-8")
    for params in re.findall(r'"([^"]*\be=[^"]*)"', text):
        yield dict(t.split("=", 1) for t in params.split())


def stored(a):
    if a.dtype not in FLOATS:
        return a.v.astype(NATIVE[a.dtype], order="C")
    v = a.v
    if a.dtype == "f16":  # what is over the largest half is infinite
        v = np.where(np.abs(v) >= 65520, np.copysign(np.inf, v), v)
    return v.astype(np.float32, order="C")


def main():
    index, data, offset = [], [], 0

    def add(name, dtype, v):
        nonlocal offset
        shape = " ".join(str(n) for n in (v.ndim, *v.shape))
        index.append(f"{name}\t{dtype} {shape} {offset} {v.nbytes}")
        data.append(v.tobytes())
        offset += v.nbytes

    for w in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k", "q2_k",
              "q3_k"):
        add(f"weights/{w}", "u8", weights(w)[0])
    named = {encoded_reference.key_of(p): p for p in all_parameters() if "e" in p}
    for key, p in named.items():
        arrays, _ = encoded_reference.encoded(p["e"], encoded_reference.shape_of(p))
        for part, v in zip(("w", "scales", "biases"), arrays):
            if v is not None:
                add(f"{key}/{part}", "u8", np.ascontiguousarray(v).view(np.uint8))
    count = 0
    warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing
    with np.errstate(all="ignore"):
        for fn, label, dtypes, inputs, p in cases():
            for dtype in dtypes:
                x = [make_input(t, k, dtype) for k, t in enumerate(inputs)]
                y = expected(fn, x, p, dtype)
                add(f"{fn}/{label}/{dtype}", y.dtype, stored(y))
                count += 1
    head = "\n".join(index) + "\n\n"
    blob = head.encode() + b"".join(data)
    (ROOT / "tests/golden/ops.bin").write_bytes(blob)
    print(f"{count} results, {len(blob)} bytes")


if __name__ == "__main__":
    main()
