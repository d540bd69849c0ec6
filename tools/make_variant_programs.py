#!/usr/bin/env python3
"""Node variants that exported fixtures do not touch: one small program each, with what NumPy or MLX
says, as folders of tests/golden/programs (v_*). Needs numpy and mlx.
"""
import json
import struct
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pte_writer import Program  # noqa: E402

OUT = Path(__file__).resolve().parent.parent / "tests/golden/programs"
CODES = {"float32": (0, "f32"), "float16": (1, "f16"), "int32": (2, "i32"), "int64": (3, "i64"),
         "bool": (5, "bool"), "uint8": (6, "u8"), "uint32": (None, "u32")}
rng = np.random.default_rng(4)


def noise(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def tensor_list(path, arrays):
    with open(path, "wb") as f:
        f.write(struct.pack("<I", len(arrays)))
        for a in arrays:
            f.write(struct.pack("<II", CODES[a.dtype.name][0], a.ndim))
            f.write(struct.pack(f"<{a.ndim}i", *a.shape))
            f.write(np.ascontiguousarray(a).tobytes())


def save(name, inputs, outputs, build, constants=(), tol=1e-5, temps=0):
    """build(op, ins, outs, consts, graph) adds the nodes; outputs are the expected arrays."""
    p = Program()
    g = p.method("forward").graph()
    inputs = [np.asarray(a) for a in inputs]
    outputs = [np.asarray(a) for a in outputs]
    kind = lambda a: CODES[a.dtype.name][1]  # noqa: E731
    ins = [g.input(f"x{i}", kind(a), list(a.shape)) for i, a in enumerate(inputs)]
    consts = [g.constant(f"c{i}", kind(np.asarray(a)), list(np.asarray(a).shape), np.asarray(a))
              for i, a in enumerate(constants)]
    outs = [g.output(f"y{i}", kind(a), list(a.shape)) for i, a in enumerate(outputs)]
    build(g.main.op, ins, outs, consts, g)
    folder = OUT / f"v_{name}"
    folder.mkdir(parents=True, exist_ok=True)
    p.write(folder / "model.pte")
    tensor_list(folder / "input.bin", inputs)
    tensor_list(folder / "expected_output.bin", outputs)
    meta = {"rtol": tol, "atol": tol, "skip_comparison": False, "runner_args": []}
    (folder / "meta.json").write_text(json.dumps(meta) + "\n")


def one(name, node, inputs, expected, tol=1e-5, roles=("x",), constants=(), croles=(), **fields):
    """A program of one node: tensors by role, the rest as given."""
    def build(op, ins, outs, consts, _):
        op(node, **dict(zip(roles, ins)), **dict(zip(croles, consts)), out=outs[0], **fields)
    save(name, inputs, [expected], build, constants, tol)


def rope():
    x = noise(2, 3, 4, 8)
    at = lambda **k: np.array(mx.fast.rope(mx.array(x), 8, **k))  # noqa: E731
    off = np.array([5, 9], dtype=np.int32)
    one("rope_offset_per_batch", "rope", [x, off],
        at(traditional=False, base=10000.0, scale=1.0, offset=mx.array(off)), roles=("x", "offset"),
        dims=8, base=10000.0)
    one("rope_traditional_scaled", "rope", [x, np.array(7, dtype=np.int32)],
        at(traditional=True, base=10000.0, scale=0.5, offset=7), roles=("x", "offset"), dims=8,
        traditional=True, base=10000.0, scale=0.5)
    freqs = np.array([1.0, 3.0, 20.0, 300.0], dtype=np.float32)
    one("rope_traditional_freqs", "rope", [x, np.array(7, dtype=np.int32)],
        at(traditional=True, base=None, scale=1.0, offset=7, freqs=mx.array(freqs)),
        roles=("x", "offset"), constants=[freqs], croles=("freqs",), dims=8, traditional=True, base=0.0)


def attention():
    q, k, v = noise(2, 4, 3, 8), noise(2, 2, 5, 8), noise(2, 2, 5, 8)
    mask = rng.random((2, 1, 3, 5)) < 0.7
    mask[..., 0] = True
    def sdpa(m):
        return np.array(mx.fast.scaled_dot_product_attention(
            mx.array(q), mx.array(k), mx.array(v), scale=0.3, mask=m))
    one("sdpa_bool_mask_gqa", "sdpa", [q, k, v, mask], sdpa(mx.array(mask)),
        roles=("q", "k", "v", "mask"), scale=0.3)
    bias = noise(1, 4, 1, 5)
    one("sdpa_added_mask_broadcast", "sdpa", [q, k, v, bias], sdpa(mx.array(bias)),
        roles=("q", "k", "v", "mask"), scale=0.3)
    one("sdpa_causal_gqa", "sdpa", [q, k, v], sdpa("causal"), roles=("q", "k", "v"), scale=0.3,
        causal=True)
    x = noise(3, 4, 5)
    one("softmax_precise_axis0", "softmax", [x], np.array(mx.softmax(mx.array(x), 0)), axis=0,
        precise=True)


def shapes():
    x = noise(4, 6)
    one("pad_edge", "pad", [x], np.pad(x, ((1, 2), (0, 3)), "edge"), pad_width=[1, 2, 0, 3], mode="edge")
    one("as_strided_offset", "as_strided", [x],
        np.lib.stride_tricks.as_strided(x.ravel()[3:], (3, 2, 2), (24, 8, 4)), shape=[3, 2, 2],
        strides=[6, 2, 1], offset=3)
    one("slice_step2", "slice", [x], x[:, 1::2], axis=1, start=1, stop=2**31 - 1, step=2)
    one("slice_back2", "slice", [x], x[:, 4:0:-2], axis=-1, start=-2, stop=0, step=-2)
    one("slice_negative", "slice", [x], x[-3:-1], axis=0, start=-3, stop=-1, step=1)
    u = noise(4, 2)
    y = x.copy()
    y[:, 1:5:2] = u
    one("slice_update_step2", "slice_update", [x, u], y, roles=("dst", "update"), axis=1, start=-5,
        stop=5, step=2)
    one("roll_flat", "roll", [x], np.roll(x, -7), shift=[-7], axes=[])
    one("roll_two_axes", "roll", [x], np.roll(x, (1, -2), (0, 1)), shift=[1, -2], axes=[0, 1])
    one("tile_more_dims", "tile", [x], np.tile(x, (2, 1, 3)), reps=[2, 1, 3])
    one("repeat_last", "repeat", [x], np.repeat(x, 3, -1), repeats=3, axis=-1)
    save("stack_last", [x, x + 1], [np.stack([x, x + 1], -1)],
         lambda op, i, o, c, g: op("stack", tensors=i, out=o[0], axis=-1))
    save("split_sizes", [x], np.split(x, [1, 3], 1),
         lambda op, i, o, c, g: op("split", x=i[0], outs=o, sizes=[1, 2, 3], axis=1))
    save("split_chunks", [x], [x[:, :4], x[:, 4:]],
         lambda op, i, o, c, g: op("split", x=i[0], outs=o, sizes=[4], axis=-1))
    one("take_negative", "take", [x], x[:, -2], index=-2, axis=1)
    one("take_rows", "take", [x, np.array([[3, -1], [0, 2]])], x[[[3, -1], [0, 2]]],
        roles=("x", "index"), axis=0)
    one("tri_below", "tri", [x], np.tri(4, 5, -1, dtype=np.int32), roles=(), n=4, m=5, k=-1,
        scalar_type="i32")
    one("triu_3d", "triu", [noise_keep(2, 3, 4)], np.triu(KEPT, 1), k=1)
    one("flip_all", "flip", [x], x[::-1, ::-1], axes=[])
    i, j = np.array([[0, 3], [2, 1]]), np.array([[4], [1]])
    a = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
    want = np.stack([np.stack([a[p:p + 1, q:q + 1, 0:2] for p, q in zip(r, s)]) for r, s in
                     zip(i, np.broadcast_to(j, (2, 2)))])
    save("gather_two_axes", [a, i, j], [want],
         lambda op, n, o, c, g: op("gather", x=n[0], indices=[n[1], n[2]], out=o[0], axes=[0, 1],
                                   slice_sizes=[1, 1, 2]))


KEPT = None


def noise_keep(*shape):
    global KEPT
    KEPT = noise(*shape)
    return KEPT


def reductions():
    x = noise(3, 4, 5)
    one("var_two_axes", "var", [x], x.var((0, 2), ddof=2, keepdims=True), axes=[0, -1], keepdims=True,
        ddof=2)
    one("std_all", "std", [x], np.asarray(x.std(), dtype=np.float32), axes=[])
    lse = np.log(np.exp(x.astype(np.float64)).sum((1, 2))).astype(np.float32)
    one("log_sum_exp_two_axes", "log_sum_exp", [x], lse, axes=[1, 2])
    one("log_sum_exp_no_axes", "log_sum_exp", [x], x, axes=[])
    one("median_two_axes", "median", [x], np.median(x, (0, 1), keepdims=True).astype(np.float32),
        axes=[0, 1], keepdims=True)
    one("cumsum_back_exclusive", "cumsum", [x],
        np.array(mx.cumsum(mx.array(x), 1, reverse=True, inclusive=False)), axis=1, reverse=True,
        inclusive=False)
    n = rng.integers(-9, 9, (3, 4)).astype(np.int32)
    one("prod_ints", "prod", [n], n.prod(1, dtype=np.int32), axes=[1])
    one("argmin_keepdims", "argmin", [x], x.argmin(1, keepdims=True).astype(np.int64), axis=1,
        keepdims=True)
    b = n > 0
    one("all_two_axes", "all", [b], np.asarray(b.all()), axes=[0, 1])
    one("any_keepdims", "any", [b], b.any(0, keepdims=True), axes=[0], keepdims=True)
    row = noise(9)
    save("partition_negative", [row], [np.sort(row)[6:7]], lambda op, i, o, c, g: (
        op("partition", x=i[0], out=o[0], kth=-3, axis=0),
        op("slice", x=o[0], out=o[0], axis=0, start=6, stop=7, step=1)))
    one("layer_norm_bare", "layer_norm", [x], np.array(mx.fast.layer_norm(mx.array(x), None, None, 1e-3)),
        eps=1e-3)
    one("rms_norm_bare", "rms_norm", [x], np.array(mx.fast.rms_norm(mx.array(x), None, 1e-3)), eps=1e-3)


def arithmetic():
    x, y = noise(3, 5) * 4, noise(3, 5) * 3
    one("floor_divide_floats", "floor_divide", [x, y], np.floor(x / y), roles=("a", "b"))
    one("remainder_floats", "remainder", [x, y], np.mod(x, y), roles=("a", "b"), tol=1e-4)
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    one("remainder_ints", "remainder", [a, b], np.mod(a, b), roles=("a", "b"))
    one("power_ints", "power", [a.astype(np.int32), np.array([2, 3, 0, 1], dtype=np.int32)],
        np.array([49, -343, 1, -7], dtype=np.int32), roles=("a", "b"))
    one("round_decimals", "round", [x], np.round(x, 1), decimals=1, tol=1e-5)
    one("clip_high_only", "clip", [x], np.minimum(x, 0.5), constants=[np.float32(0.5)], croles=("a_max",))
    one("gelu_tanh", "gelu", [x], (0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))),
        approximate="tanh", tol=1e-5)
    one("divide_ints", "divide", [a, b], (a / b).astype(np.float32), roles=("a", "b"))
    one("add_u8_i32", "add", [np.array([250, 3], dtype=np.uint8), np.array([10, -5], dtype=np.int32)],
        np.array([260, -2], dtype=np.int32), roles=("a", "b"))
    one("where_promotes", "where", [x > 0, a[:1].repeat(5), y], np.where(x > 0, 7.0, y).astype(np.float32),
        roles=("condition", "x", "y"))

    def numbers(op, i, o, c, g):
        v, w, r = g.value(), g.value(), g.value()
        op("item_int", x=i[0], out=v)
        op("mod_int", a=v, b=5, out=w)
        op("floor_divide_int", a=v, b=4, out=r)
        op("full", out=o[0], shape=[2, w], v=r, scalar_type="f32")
        op("arange", out=o[1], start=w, stop=v, step=-2, scalar_type="i64")
    save("numbers_negative", [np.array([-7])], [np.full((2, 3), -2, np.float32), np.arange(3, -7, -2)],
         numbers)


def products():
    x, w = noise(3, 64), noise(16, 64)
    for bits, group in ((2, 32), (3, 64), (6, 32), (8, 64)):
        q, s, b = mx.quantize(mx.array(w), group_size=group, bits=bits)
        y = np.array(mx.quantized_matmul(mx.array(x), q, s, b, True, group, bits))
        one(f"qmm_{bits}_bits", "quantized_matmul", [x], y, tol=1e-4,
            constants=[np.array(q), np.array(s), np.array(b)], croles=("w", "scales", "biases"),
            bits=bits, group_size=group, mode="affine", transpose=True)
    wt = noise(64, 32)
    q, s, b = mx.quantize(mx.array(wt), group_size=32, bits=4)
    for rows in (1, 3):
        y = np.array(mx.quantized_matmul(mx.array(x[:rows]), q, s, b, False, 32, 4))
        one(f"qmm_not_transposed_{rows}", "quantized_matmul", [x[:rows]], y, tol=1e-4,
            constants=[np.array(q), np.array(s), np.array(b)], croles=("w", "scales", "biases"), bits=4,
            group_size=32, mode="affine", transpose=False)
    q, s, b = mx.quantize(mx.array(w), group_size=64, bits=8)
    one("dequantize_8_bits", "dequantize", [x], np.array(mx.dequantize(q, s, b, 64, 8)), roles=(),
        constants=[np.array(q), np.array(s), np.array(b)], croles=("w", "scales", "biases"), bits=8,
        group_size=64, mode="affine")
    q, s = mx.quantize(mx.array(w), mode="nvfp4")
    plain = np.array(mx.dequantize(q, s, mode="nvfp4", dtype=mx.float32))
    one("dequantize_global_scale", "dequantize", [x], plain * np.float32(0.37), roles=(),
        constants=[np.array(q), np.array(s), np.float32(0.37)], croles=("w", "scales", "global_scale"),
        bits=4, group_size=16, mode="nvfp4", dtype="f32")
    a, m = noise(4, 2, 5), noise(3, 5, 6)
    left, right = np.array([[3, 0], [1, 1]], dtype=np.int32), np.array([[2, 0], [1, 2]], dtype=np.int32)
    y = np.array(mx.gather_mm(mx.array(a), mx.array(m), mx.array(left), mx.array(right)))
    one("gather_mm_both", "gather_mm", [a, m, left, right], y,
        roles=("a", "b", "lhs_indices", "rhs_indices"))
    e = noise(3, 8, 64)
    q, s, b = mx.quantize(mx.array(e), group_size=32, bits=4)
    xe = noise(4, 1, 64)
    y = np.array(mx.gather_qmm(mx.array(xe), q, s, b, mx.array(left), mx.array(right), True, 32, 4))
    one("gather_qmm_both", "gather_qmm", [xe, left, right], y, tol=1e-4,
        roles=("x", "lhs_indices", "rhs_indices"), constants=[np.array(q), np.array(s), np.array(b)],
        croles=("w", "scales", "biases"), bits=4, group_size=32, mode="affine", transpose=True)
    c2 = noise(1, 7, 9, 4)
    k2 = noise(6, 3, 2, 2)
    y = np.array(mx.conv2d(mx.array(c2), mx.array(k2), (2, 1), (1, 0), (1, 2), 2))
    one("conv2d_uneven", "conv2d", [c2], y, constants=[k2], croles=("w",), stride_h=2, stride_w=1,
        padding_h=1, padding_w=0, dilation_h=1, dilation_w=2, groups=2)
    k3 = noise(5, 3, 3, 4)
    y = np.array(mx.conv_transpose2d(mx.array(c2), mx.array(k3), (2, 3), (1, 0), (2, 1),
                                     output_padding=(1, 2)))
    one("conv_transpose2d_uneven", "conv_transpose2d", [c2], y, constants=[k3], croles=("w",), stride_h=2,
        stride_w=3, padding_h=1, padding_w=0, dilation_h=2, dilation_w=1, output_padding_h=1,
        output_padding_w=2)
    one("addmm_vector", "addmm", [noise_keep(5), m[0]], KEPT @ m[0], roles=("mat1", "mat2"), alpha=3.0)


def main():
    for part in (rope, attention, shapes, reductions, arithmetic, products):
        part()
    print(len(list(OUT.glob("v_*"))), "programs")


main()
