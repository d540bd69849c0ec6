#!/usr/bin/env python3
"""Programs of operators outside delegates, each with what PyTorch makes of its inputs.

    make_portable_programs.py [NAME ...]    tests/golden/exports/NAME/{model.pte,input.bin,expected_output.bin}

A program is a list of calls; every tensor is an input, every result an output. What is expected comes from the functional
form of the operator. Needs torch (kept files: 2.13). Names that begin with portable16 have 16-bit floats."""
import struct
import sys
from pathlib import Path

import torch

from pte_writer import Program

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "golden" / "exports"
SAID_BY_RESULT = {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "generator"}
DTYPES = {torch.float32: ("f32", 0), torch.float16: ("f16", 1), torch.int32: ("i32", 2), torch.int64: ("i64", 3),
          torch.bfloat16: ("bf16", 4), torch.bool: ("bool", 5), torch.uint8: ("u8", 6)}


# ---- one call ------------------------------------------------------------------------------------------

def taken(schema):
    return [a for a in schema.arguments if not a.is_out and a.name not in SAID_BY_RESULT]


def functional(name, out):
    """The overload with the same arguments and no results among them."""
    wanted = [(a.name, str(a.type)) for a in taken(out)]
    for s in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        if not any(a.is_out for a in s.arguments) and [(a.name, str(a.type)) for a in taken(s)] == wanted:
            return getattr(getattr(torch.ops.aten, name), s.overload_name or "default")
    raise LookupError(name)


def schema_of(name, overload):
    for s in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        if s.overload_name == overload:
            return s
    raise LookupError(f"{name}.{overload}")


class Writer:
    def __init__(self):
        self.program = Program()
        self.method = self.program.method("forward")
        self.inputs, self.outputs, self.known = [], [], {}

    def tensor(self, t):
        return self.method.tensor(DTYPES[t.dtype][0], list(t.shape))

    def argument(self, v, kind):
        m = self.method
        if v is None:
            return m.none()
        if isinstance(v, torch.Tensor):
            if id(v) not in self.known:
                self.known[id(v)] = self.tensor(v)
                self.inputs.append(v)
                m.inputs.append(self.known[id(v)])
            return self.known[id(v)]
        if isinstance(v, bool):
            return m.boolean(v)
        if isinstance(v, str):
            return m.string(v)
        if isinstance(v, (list, tuple)):
            if "Tensor" in kind:
                return m.tensors([-1 if t is None else self.argument(t, "") for t in v], "Optional" in kind)
            return m.reals(v) if "float" in kind else m.ints(v)
        return m.real(float(v)) if isinstance(v, float) or "float" in kind else m.integer(v)

    def call(self, op, *given, **fixed):
        name, overload = op.split(".")
        out = schema_of(name, overload)
        left, op = list(given), functional(name, out)
        values = {a.name: fixed.pop(a.name) if a.name in fixed else left.pop(0) for a in taken(out)}
        assert not left
        named = {a.name for a in op._schema.arguments if a.kwarg_only}
        results = op(*(v for k, v in values.items() if k not in named),
                     **{k: v for k, v in values.items() if k in named}, **fixed)
        args = [self.method.none() if a.name in SAID_BY_RESULT else self.argument(values[a.name], str(a.type))
                for a in out.arguments if not a.is_out]
        listed = isinstance(results, list)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        made = [self.tensor(t) for t in results]
        last = self.method.tensors(made) if listed or len(made) > 1 else made[0]
        self.method.kernel(f"aten::{name}", overload, args + ([] if listed else made) + [last])
        return list(zip(made, results))

    def add(self, op, *given, keep=None, **fixed):
        made = self.call(op, *given, **fixed)
        for value, t in made[:keep]:
            self.method.outputs.append(value)
            self.outputs.append(t.contiguous())


def write_list(path, tensors):
    with open(path, "wb") as f:
        f.write(struct.pack("<I", len(tensors)))
        for t in tensors:
            f.write(struct.pack(f"<II{t.dim()}i", DTYPES[t.dtype][1], t.dim(), *t.shape))
            f.write(t.contiguous().flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b"")


# ---- programs ------------------------------------------------------------------------------------------

def rand(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def whole(high, *shape, low=0, dtype=torch.int64):
    return torch.randint(low, high, shape).to(dtype)


def unary(w, dtype=torch.float32):
    x, part = rand(3, 7, dtype=dtype), (torch.rand(3, 7) * 0.9 + 0.05).to(dtype)
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.5, -1.5, 2.5], dtype=dtype)
    for name in ("abs", "atan", "ceil", "cos", "erf", "exp", "expm1", "floor", "neg", "relu", "round", "sigmoid",
                 "sign", "sin", "sinh", "cosh", "asinh", "square", "tan", "tanh", "trunc", "hardswish", "hardsigmoid",
                 "silu", "mish", "exp2", "frac"):
        w.add(f"{name}.out", x)
    for name in ("acos", "asin", "atanh", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt"):
        w.add(f"{name}.out", part)
    w.add("acosh.out", (part + 1).to(dtype))
    w.add("isinf.out", odd)
    w.add("isnan.out", odd)
    w.add("logical_not.out", x > 0)
    w.add("bitwise_not.out", whole(9, 5))


def activations(w, dtype=torch.float32):
    x = (torch.randn(3, 10) * 2).to(dtype)
    w.add("celu.out", x, 0.7)
    w.add("elu.out", x, 0.7, 1, 1)
    w.add("elu.out", x, 1.67, 1.05, 0.9)
    w.add("gelu.out", x, "none")
    w.add("gelu.out", x, "tanh")
    w.add("glu.out", x, -1)
    w.add("hardshrink.out", x, 0.5)
    w.add("hardtanh.out", x, -0.5, 1.25)
    w.add("leaky_relu.out", x, 0.2)
    w.add("log_sigmoid_forward.output", x, keep=1)
    if dtype != torch.bfloat16:  # there PyTorch rounds the bounds first
        w.add("logit.out", x, 0.1)
    w.add("softplus.out", x, 1.5, 2)
    w.add("softshrink.out", x, 0.5)
    w.add("threshold.out", x, 0.1, -2.0)
    w.add("nan_to_num.out", torch.tensor([float("nan"), float("inf"), -float("inf"), 1]).to(dtype), 1.0, None, -3.0)


def binary(w, dtype=torch.float32):
    x, y, line = (rand(*s, dtype=dtype) for s in ((3, 5), (3, 5), (5,)))
    w.add("add.out", x, line, 2)
    w.add("add.Scalar_out", x, 1.5, 2)
    w.add("sub.out", x, line, 0.5)
    w.add("sub.Scalar_out", x, 1.5, 1)
    w.add("rsub.Scalar_out", x, 1.5, 2)
    for name in ("mul", "div", "maximum", "minimum", "atan2", "logaddexp"):
        w.add(f"{name}.out", x, y)
    for name in ("mul", "div", "fmod", "remainder"):
        w.add(f"{name}.Scalar_out", x, -0.7)
    for name in ("fmod", "remainder"):
        w.add(f"{name}.Tensor_out", x, y)
    for mode in (None, "floor", "trunc"):
        w.add("div.out_mode", x, y, mode)
        w.add("div.Scalar_mode_out", x, 0.3, mode)
    w.add("floor_divide.out", x, y)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        w.add(f"{name}.Tensor_out", x, y)
        w.add(f"{name}.Scalar_out", x, 0.25)
    w.add("pow.Scalar_out", 2.5, x)
    w.add("pow.Tensor_Scalar_out", x, 2)
    w.add("pow.Tensor_Tensor_out", x.abs(), y)
    w.add("addcmul.out", x, y, line, 0.5)
    w.add("addcdiv.out", x, y, line.abs() + 1, 0.5)
    w.add("lerp.Scalar_out", x, y, 0.3)
    w.add("lerp.Tensor_out", x, y, line)


def integers(w):
    for dtype in (torch.int64, torch.int32):
        x, y = whole(20, 3, 5, low=-20, dtype=dtype), whole(6, 3, 5, low=1, dtype=dtype)
        for mode in (None, "floor", "trunc"):
            w.add("div.out_mode", x, y, mode)
        w.add("fmod.Scalar_out", x, -3)
        w.add("remainder.Scalar_out", x, -3)
        w.add("fmod.Tensor_out", x, y)
        w.add("floor_divide.out", x, y)
        w.add("mul.Scalar_out", x, 2)
        w.add("mul.Scalar_out", x, 0.5)
        w.add("add.out", x, whole(9, 5), 3)
        w.add("pow.Tensor_Scalar_out", x, 3)
        w.add("clamp.out", x, -4, 5)
    x, y = whole(30, 4, 6), whole(5, 4, 6)
    for name in ("and", "or", "xor"):
        w.add(f"bitwise_{name}.Tensor_out", x, y)
        w.add(f"bitwise_{name}.Scalar_out", x, 6)
    for way in ("left", "right"):
        w.add(f"bitwise_{way}_shift.Tensor_out", x, y)
    for name in ("and", "or", "xor"):
        w.add(f"logical_{name}.out", x > 9, y > 2)


def choices(w, dtype=torch.float32):
    x, y, z = rand(3, 5, dtype=dtype), rand(3, 5, dtype=dtype), rand(5, dtype=dtype)
    w.add("clamp.out", x, -0.5, None)
    w.add("clamp.out", x, None, 0.25)
    w.add("clamp.out", x, 1.0, 0.0)
    w.add("clamp.Tensor_out", x, z, z + 1)
    w.add("clamp_min.out", x, 0.1)
    w.add("clamp_max.Tensor_out", x, z)
    w.add("where.self_out", x > 0, x, z)
    w.add("masked_fill.Scalar_out", x, y > 0, 2.5)
    w.add("masked_fill.Tensor_out", x, y[0] > 0, torch.tensor(-1.5).to(dtype))
    w.add("masked_scatter.out", x, y > 0, rand(15, dtype=dtype))


def made(w):
    x = rand(2, 3)
    w.add("zeros.out", [2, 3], dtype=torch.int64)
    w.add("ones.out", [3], dtype=torch.float16)
    w.add("full.out", [2, 2], 1.5, dtype=torch.float32)
    w.add("full_like.out", x, 2.5)
    w.add("zeros_like.out", x)
    w.add("ones_like.out", x)
    w.add("fill.Scalar_out", x, 3)
    w.add("fill.Tensor_out", x, torch.tensor(0.5))
    w.add("scalar_tensor.out", 4.5)
    w.add("arange.out", 5)
    w.add("arange.start_out", 1.0, 3.0, 0.25)
    w.add("arange.start_out", 9, 1, -3)
    w.add("_to_copy.out", x, dtype=torch.int64)
    w.add("_to_copy.out", x, dtype=torch.bool)
    w.add("clone.out", x)
    w.add("copy.out", x, rand(3))
    w.add("lift_fresh_copy.out", x)


def reductions(w, dtype=torch.float32):
    x, number = rand(3, 4, 5, dtype=dtype), rand(dtype=dtype)
    for name in ("sum.IntList_out", "mean.out"):
        w.add(name, x, [0, 2], False)
        w.add(name, x, [-1], True)
        w.add(name, x, None, False)
    w.add("sum.IntList_out", number, [], False)
    w.add("prod.int_out", x, 1, True)
    w.add("prod.out", x)
    for name in ("amax", "amin"):
        w.add(f"{name}.out", x, [1], False)
        w.add(f"{name}.out", x, [], False)
    for name in ("max", "min"):
        w.add(f"{name}.unary_out", x)
        w.add(f"{name}.dim_{name}", x, 1, False)
        w.add(f"{name}.dim_{name}", x, -1, True)
        w.add(f"arg{name}.out", x, 1, False)
        w.add(f"arg{name}.out", x, None, False)
    for name in ("any", "all"):
        w.add(f"{name}.out", x > 0, 1, False)
        w.add(f"{name}.all_out", x > -9)
        w.add(f"{name}.dims_out", x > 0, [0, 2], True)
    w.add("logsumexp.out", x, [1, 2], False)
    w.add("median.dim_values", x, 1, False)
    w.add("median.dim_values", x, -1, True)
    w.add("median.out", x)
    w.add("sum.IntList_out", x > 0, [1], False)
    w.add("sum.IntList_out", whole(9, 3, 4, dtype=torch.int32), [1], False)


def spreads(w, dtype=torch.float32):
    x, y = rand(3, 4, 5, dtype=dtype), rand(2, 6, 5)
    for name in ("var", "std"):
        w.add(f"{name}.out", x, [1], True, False)
        w.add(f"{name}.correction_out", x, [0, 2], correction=0, keepdim=True)
        w.add(f"{name}.correction_out", x + 1000, None, correction=1, keepdim=False)
    w.add("var_mean.correction_out", x, [1], correction=1, keepdim=False)
    for p in (1, 2, 0, 3, float("inf")):
        w.add("linalg_vector_norm.out", x, p, [1], False)
    for p in (1.0, 2.0, 0.0, 3.0, float("inf")):
        w.add("_cdist_forward.out", rand(2, 4, 5), y, p, None)


def along(w, dtype=torch.float32):
    x = rand(3, 8, dtype=dtype)
    equal = whole(4, 3, 9).to(dtype)
    w.add("cumsum.out", x, 1)
    w.add("cumprod.out", x, 0)
    w.add("cumsum.out", x > 0, 1)
    w.add("_softmax.out", x, -1, False)
    w.add("_softmax.out", x, 0, False)
    w.add("_log_softmax.out", x, 1, False)
    for down in (False, True):
        w.add("sort.values", x, 1, down)
        w.add("sort.values_stable", equal, stable=True, dim=1, descending=down)
        w.add("topk.values", x, 3, 1, down, True)
        w.add("argsort.stable_out", equal, stable=True, dim=0, descending=down)


def shapes(w, dtype=torch.float32):
    x, y = rand(3, 4, 6, dtype=dtype), rand(3, 1, 4, 1, dtype=dtype)
    w.add("permute_copy.out", x, [2, 0, 1])
    w.add("transpose_copy.int_out", x, 0, -1)
    w.add("t_copy.out", x[0].contiguous())
    w.add("view_copy.out", x, [4, -1])
    w.add("expand_copy.out", y, [2, 3, 5, -1, 2], implicit=False)
    w.add("unsqueeze_copy.out", x, -1)
    w.add("squeeze_copy.dim_out", y, 1)
    w.add("squeeze_copy.dims_out", y, [1, 2, 3])
    w.add("as_strided_copy.out", x, [3, 4], [2, 5], 1)
    w.add("unfold_copy.out", x, 2, 4, 2)
    w.add("diagonal_copy.out", x, 1, 0, 2)
    w.add("diagonal_copy.out", x, -1, 2, 1)
    w.add("slice_copy.Tensor_out", x, 2, -5, None, 2)
    w.add("slice_copy.Tensor_out", x, 1, None, 100, 1)
    w.add("slice_scatter.out", x, rand(3, 4, 3, dtype=dtype), 2, 0, 6, 2)
    w.add("narrow_copy.out", x, 1, 1, 2)
    w.add("select_copy.int_out", x, 1, -2)
    w.add("select_scatter.out", x, rand(3, 6, dtype=dtype), 1, 2)
    w.add("split_copy.Tensor_out", x, 4, 2)
    w.add("split_with_sizes_copy.out", x, [1, 3, 2], 2)
    w.add("unbind_copy.int_out", x, 0)
    w.add("cat.out", [x, rand(3, 2, 6, dtype=dtype), torch.empty(0, dtype=dtype)], 1)
    w.add("stack.out", [x, x], -1)
    w.add("repeat.out", x, [2, 1, 1, 3])
    w.add("flip.out", x, [0, 2])
    w.add("roll.out", x, [1, -2], [0, 2])
    w.add("roll.out", x, [5], [])
    w.add("tril.out", x, -1)
    w.add("triu.out", x, 1)
    w.add("pixel_shuffle.out", rand(2, 8, 2, 3, dtype=dtype), 2)
    w.add("pixel_unshuffle.out", rand(2, 4, 6, dtype=dtype), 2)
    w.add("channel_shuffle.out", rand(2, 6, 3, dtype=dtype), 3)


def pads(w):
    for x in (rand(2, 3, 4, 5), whole(9, 2, 3, 4, 5), rand(2, 3, 4, 5).half(), rand(2, 3, 4, 5) > 0):
        for pad in ([1, -1, 0, 2], [-1, -2], [0, 0, -1, -1], [-2, 3, 1, -1, 0, 1, -1, 0]):
            w.add("constant_pad_nd.out", x, pad, 1)
    x = rand(2, 3, 4, 5)
    w.add("reflection_pad1d.out", rand(2, 3, 5), [2, 1])
    w.add("reflection_pad2d.out", x, [2, 1, 0, 3])
    w.add("reflection_pad3d.out", x, [2, 1, 0, 3, 1, 1])
    w.add("replication_pad1d.out", rand(2, 3, 5), [2, 1])
    w.add("replication_pad2d.out", x, [2, 1, 0, 3])
    w.add("replication_pad3d.out", x, [2, -1, 0, 3, 1, 1])


def indices(w, dtype=torch.float32):
    x, y = rand(5, 6, 4, dtype=dtype), rand(4, 6, dtype=dtype)
    rows, columns = torch.tensor([0, 2, 4]), torch.tensor([1, 1, -1])
    w.add("index_select.out", x, 1, whole(6, 3))
    w.add("embedding.out", y, whole(4, 2, 3), -1, False, False)
    w.add("take.out", y, whole(24, 3, 2))
    w.add("gather.out", x, 1, whole(6, 4, 9, 3), sparse_grad=False)
    w.add("index.Tensor_out", x, [rows, None, columns])
    w.add("index.Tensor_out", x, [None, rows, columns])
    w.add("index.Tensor_out", x, [rows.reshape(3, 1), columns])
    w.add("index.Tensor_out", x, [None, whole(6, 2, 2)])
    for add in (False, True):
        w.add("index_put.out", x, [rows, columns], rand(3, 4, dtype=dtype), add)
        w.add("index_put.out", x, [None, rows], rand(5, 3, 4, dtype=dtype), add)
        w.add("index_put.out", x, [rows, None, columns], rand(3, 6, dtype=dtype), add)
    w.add("index_put.out", y, [torch.tensor([1, 1, 3])], rand(6, dtype=dtype), True)
    w.add("index_put.out", y, [y > 0.5], torch.tensor(0.25).to(dtype), False)
    w.add("index_add.out", y, 1, whole(6, 9), rand(4, 9, dtype=dtype), alpha=2)
    w.add("index_copy.out", y, 1, torch.tensor([4, 0, 2]), rand(4, 3, dtype=dtype))
    w.add("index_fill.int_Scalar_out", y, 1, torch.tensor([4, 0]), 3.5)


def scatters(w):
    y, many, few = rand(4, 6), whole(6, 3, 9), torch.stack([torch.randperm(6)[:3] for _ in range(3)])
    w.add("scatter.src_out", y, 1, few, rand(4, 5))
    w.add("scatter.value_out", y, 0, whole(4, 2, 6), 2.5)
    w.add("scatter.reduce_out", y, 1, many, rand(4, 9), reduce="add")
    w.add("scatter_add.out", y, 1, many, rand(4, 9))
    w.add("scatter_add.out", whole(9, 4, 6), 0, whole(4, 5, 6), whole(9, 5, 6))
    for reduce in ("sum", "mean"):
        for with_self in (True, False):
            w.add("scatter_reduce.two_out", y, 1, whole(6, 4, 9), rand(4, 9), reduce=reduce, include_self=with_self)
    weight, index, offsets = rand(10, 4), whole(10, 9), torch.tensor([0, 3, 3, 6])
    for mode, each in ((0, rand(9)), (0, None), (1, None)):
        w.add("_embedding_bag_forward_only.out", weight, index, offsets, False, mode, False, each, False, -1, keep=1)
    w.add("_embedding_bag_forward_only.out", weight, index, torch.tensor([0, 3, 9]), False, 1, False, None, True, 2, keep=1)
    for mode, each in ((0, rand(9)), (0, None), (1, None)):  # what nn.EmbeddingBag is exported to
        w.add("_embedding_bag.out", weight, index, offsets, False, mode, False, each, False, -1, keep=1)
    w.add("_embedding_bag.out", weight, index, torch.tensor([0, 3, 9]), False, 1, False, None, True, 2, keep=1)


def products(w, dtype=torch.float32):
    a, b, bias = rand(3, 5, dtype=dtype), rand(5, 4, dtype=dtype), rand(4, dtype=dtype)
    w.add("mm.out", a, b)
    w.add("addmm.out", bias, a, b, beta=0.5, alpha=2)
    w.add("addmm.out", bias, a, b, beta=0, alpha=2)
    w.add("bmm.out", rand(2, 3, 5, dtype=dtype), rand(2, 5, 4, dtype=dtype))
    w.add("baddbmm.out", rand(2, 3, 4, dtype=dtype), rand(2, 3, 5, dtype=dtype), rand(2, 5, 4, dtype=dtype), beta=0.5, alpha=2)
    w.add("linear.out", a, rand(4, 5, dtype=dtype), bias)
    x, pictures = rand(2, 6, 9, dtype=dtype), rand(2, 4, 7, 8, dtype=dtype)
    w.add("convolution.out", x, rand(4, 3, 3, dtype=dtype), bias, [2], [1], [2], False, [0], 2)
    w.add("convolution.out", x, rand(6, 2, 3, dtype=dtype), None, [2], [1], [1], True, [1], 2)
    w.add("convolution.out", pictures, rand(4, 4, 3, 2, dtype=dtype), bias, [1, 2], [1, 0], [1, 1], False, [0, 0], 1)
    w.add("convolution.out", pictures, rand(4, 1, 3, 3, dtype=dtype), bias, [1, 1], [2, 2], [2, 2], False, [0, 0], 4)
    w.add("convolution.out", pictures, rand(4, 2, 3, 2, dtype=dtype), bias, [2, 3], [1, 0], [1, 2], True, [1, 0], 2)
    w.add("convolution.out", rand(1, 2, 4, 5, 6, dtype=dtype), rand(4, 2, 3, 3, 3, dtype=dtype), bias, [1, 1, 2], [1, 1, 1],
          [1, 1, 1], False, [0, 0, 0], 1)


def norms(w, dtype=torch.float32):
    mean, var, weight, bias = rand(6), torch.rand(6) + 0.5, rand(6), rand(6)
    if dtype != torch.float32:
        weight, bias = weight.to(dtype), bias.to(dtype)
    for shape in ((4, 6), (2, 6, 5), (2, 6, 3, 4), (1, 6, 2, 3, 4)):
        x = rand(*shape, dtype=dtype)
        if dtype == torch.float32:
            w.add("_native_batch_norm_legit_no_training.out", x, weight, bias, mean, var, 0.1, 1e-5, keep=1)
        if len(shape) > 2:
            w.add("native_group_norm.out", x, weight, bias, shape[0], 6, x[0, 0].numel(), 3, 1e-5,
                  keep=None if dtype == torch.float32 else 1)
    if dtype == torch.float32:
        w.add("_native_batch_norm_legit_no_training.out", x, None, None, mean, var, 0.1, 1e-5, keep=1)
        w.add("_native_batch_norm_legit.out", x, weight, bias, mean, var, False, 0.1, 1e-5, keep=1)
        w.add("_native_batch_norm_legit.no_stats_out", x, weight, None, True, 0.1, 1e-5)
        w.add("_native_batch_norm_legit.no_stats_out", x + 500, None, None, True, 0.1, 1e-5)
    y = rand(3, 4, 5, dtype=dtype)
    w.add("native_layer_norm.out", y, [4, 5], rand(4, 5, dtype=dtype), rand(4, 5, dtype=dtype), 1e-5, keep=1)
    w.add("native_layer_norm.out", y, [5], None, None, 1e-5, keep=None if dtype == torch.float32 else 1)
    w.add("native_dropout.out", y, 0.5, False)


def pools(w, dtype=torch.float32):
    line, picture, block = rand(2, 3, 13, dtype=dtype), rand(2, 3, 9, 11, dtype=dtype), rand(1, 2, 6, 7, 8, dtype=dtype)
    for up in (False, True):
        for counted in (False, True):
            w.add("avg_pool1d.out", line, [4], [3], [1], up, counted)
            w.add("avg_pool2d.out", picture, [3, 2], [2, 3], [1, 0], up, counted, None)
            if dtype == torch.float32:
                w.add("avg_pool3d.out", block, [3], [2], [1], up, counted, None)
        w.add("avg_pool2d.out", picture, [3, 3], [], [1, 1], up, False, 5)
        w.add("max_pool2d_with_indices.out", picture, [3, 2], [2, 3], [1, 1], [1, 2], up)
        w.add("max_pool2d_with_indices.out", (picture * 2).round(), [3, 3], [], [1, 1], [1, 1], up)
        if dtype == torch.float32:
            w.add("max_pool3d_with_indices.out", block, [3], [2], [1], [1], up)
    w.add("avg_pool2d.out", picture[0].contiguous(), [2, 2], [2, 2], [0, 0], False, True, None)
    w.add("adaptive_avg_pool1d.out", line, [5])
    w.add("_adaptive_avg_pool2d.out", picture, [3, 4])
    w.add("_adaptive_avg_pool2d.out", picture, [12, 11])
    w.add("_adaptive_avg_pool3d.out", block, [3, 4, 5])
    w.add("adaptive_max_pool2d.out", picture, [4, 5])


def resizes(w):
    line, picture, block = rand(2, 3, 7), rand(2, 3, 5, 6), rand(1, 2, 3, 4, 5)
    for exact in ("upsample_nearest", "_upsample_nearest_exact"):
        w.add(f"{exact}1d.out", line, [11], None)
        w.add(f"{exact}2d.out", picture, [9, 4], None, None)
        w.add(f"{exact}2d.out", picture, [8, 13], 1.7, 2.3)
        w.add(f"{exact}3d.out", block, [5, 3, 9], None, None, None)
    w.add("upsample_nearest2d.vec_out", picture, None, [1.7, 2.3])
    for corners in (False, True):
        w.add("upsample_linear1d.out", line, [11], corners, None)
        w.add("upsample_bilinear2d.out", picture, [9, 4], corners, None, None)
        w.add("upsample_bilinear2d.vec_out", picture, None, corners, [1.7, 2.3])
        w.add("upsample_bilinear2d.vec_out", picture, [10, 9], corners, None)
        w.add("upsample_trilinear3d.out", block, [5, 3, 9], corners, None, None, None)
        w.add("upsample_bicubic2d.out", picture, [9, 4], corners, None, None)
        w.add("_upsample_bilinear2d_aa.out", picture, [3, 4], corners, None, None)
        w.add("_upsample_bilinear2d_aa.out", picture, [7, 4], corners, None, None)


def grids(w):
    picture, grid = rand(2, 3, 5, 6), rand(2, 4, 3, 2) * 1.3
    for mode in range(3):
        for padding in range(3):
            for corners in (False, True):
                w.add("grid_sampler_2d.out", picture, grid, mode, padding, corners)


HALF = {"unary": unary, "activations": activations, "binary": binary, "choices": choices, "reductions": reductions,
        "along": along, "shapes": shapes, "indices": indices, "products": products, "norms": norms, "pools": pools}
PROGRAMS = {f"portable_{f.__name__}": f for f in (unary, activations, binary, integers, choices, made, reductions, spreads, along,
                                                  shapes, pads, indices, scatters, products, norms, pools, resizes, grids)}
PROGRAMS.update({f"portable16_{n}": (lambda w, f=f: f(w, torch.float16)) for n, f in HALF.items()})
PROGRAMS["portable16_bfloat"] = lambda w: (activations(w, torch.bfloat16), norms(w, torch.bfloat16))


def main():
    for name in sys.argv[1:] or PROGRAMS:
        torch.manual_seed(1)
        w = Writer()
        PROGRAMS[name](w)
        folder = GOLDENS / name
        folder.mkdir(parents=True, exist_ok=True)
        w.program.write(folder / "model.pte")
        write_list(folder / "input.bin", w.inputs)
        write_list(folder / "expected_output.bin", w.outputs)


if __name__ == "__main__":
    main()
