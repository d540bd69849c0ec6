"""Encoded weights for tools/make_op_goldens.py: made by MLX where it has the coding, else by packing
random codes; their values by the formulas in float64 (checked against MLX there).

A name is coding, bits, "g", group, type of scales: affine4g64bf16, nvfp4, mxfp8, mxfp4."""
import re

import mlx.core as mx
import numpy as np

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
TYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
FIXED = {"nvfp4": (4, 16), "mxfp8": (8, 32), "mxfp4": (4, 32)}


def parts(name):
    if name in FIXED:
        return name, *FIXED[name], None
    m = re.fullmatch(r"affine(\d)g(\d+)(f32|f16|bf16)", name)
    return "affine", int(m.group(1)), int(m.group(2)), m.group(3)


def e4m3(b):
    b = b.astype(np.int64)
    e, m = b >> 3 & 15, b & 7
    v = np.where(e == 0, m * 2.0**-9, (1 + m / 8) * 2.0 ** (e.astype(np.float64) - 7))
    v = np.where(b & 127 == 127, np.nan, v)
    return np.where(b & 128, -v, v)


def bf16_of(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def unpacked(words, bits):
    """Codes of rows that are one little-endian bit stream."""
    stream = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    codes = stream.reshape(*words.shape[:-1], -1, bits).astype(np.int64)
    return (codes << np.arange(bits)).sum(-1)


def packed(codes, bits):
    stream = (codes[..., None] >> np.arange(bits) & 1).astype(np.uint8)
    stream = stream.reshape(*codes.shape[:-1], -1)
    return np.packbits(stream, axis=-1, bitorder="little").view(np.uint32)


def raw(a):
    """MLX array -> NumPy; bf16 as its bits."""
    return np.array(a.view(mx.uint16) if a.dtype == mx.bfloat16 else a)


def encoded(name, shape):
    """(w, scales, biases or None) as raw NumPy arrays, and the values in float64."""
    mode, bits, group, kind = parts(name)
    rng = np.random.default_rng([bits, group, *shape])
    theirs = mode != "affine" and shape[-1] % 32 == 0 or mode == "affine" and group in (32, 64, 128)
    if theirs and mode == "affine":
        x = mx.array(rng.normal(0, 0.2, shape).astype(np.float32)).astype(TYPES[kind])
        arrays = mx.quantize(x, group_size=group, bits=bits, mode=mode, stream=mx.cpu)
    else:
        groups = (*shape[:-1], shape[-1] // group)
        codes = rng.integers(0, 1 << bits, shape)
        if mode == "mxfp8":
            codes[codes & 127 == 127] = 1
        arrays = [mx.array(packed(codes, bits))]
        if mode == "affine":
            arrays += [mx.array(rng.uniform(-0.1, 0.1, groups)).astype(TYPES[kind])
                       for _ in range(2)]
        else:  # e4m3 down to its subnormal numbers, or powers of two
            low, high = (0, 32) if mode == "nvfp4" else (118, 128)
            arrays.append(mx.array(rng.integers(low, high, groups).astype(np.uint8)))
    w, s = raw(arrays[0]), raw(arrays[1])
    b = raw(arrays[2]) if mode == "affine" else None
    number = bf16_of if kind == "bf16" else lambda v: v.astype(np.float64)
    wide = lambda v: np.repeat(v, group, axis=-1)
    codes = unpacked(w, bits)
    if mode == "affine":
        values = codes * wide(number(s)) + wide(number(b))
    elif mode == "mxfp8":
        values = e4m3(codes) * wide(2.0 ** (s.astype(np.float64) - 127))
    else:
        scale = e4m3(s) if mode == "nvfp4" else 2.0 ** (s.astype(np.float64) - 127)
        values = E2M1[codes] * wide(scale)
    if theirs:
        check = mx.dequantize(*arrays, group_size=group, bits=bits, mode=mode, stream=mx.cpu,
                              **({} if mode == "affine" else {"dtype": mx.float32}))
        tolerance = 2e-2 if kind in ("f16", "bf16") else 1e-6
        assert np.allclose(values, np.array(check.astype(mx.float32)), tolerance, tolerance), name
    return (w, s, b), values


def shape_of(p):
    lead = [int(t) for t in p["lead"].split(",")] if "lead" in p else []
    return tuple(lead + [int(p["n"]), int(p["k"])])


def key_of(p):
    return f"encoded/{p['e']}-" + "x".join(str(n) for n in shape_of(p))
