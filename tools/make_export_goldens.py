#!/usr/bin/env python3
"""Exports small PyTorch programs as users do, with what PyTorch makes of their inputs.

    make_export_goldens.py [NAME ...]    tests/golden/exports/NAME/{model.pte,input.bin,expected_output.bin}

A further call on the same program has input.callN.bin and expected_output.callN.bin, N from 2.
Needs torch, torchao and ExecuTorch's exporter (versions of the kept files: torch 2.13, executorch 1.5.1).
cond_*: which branch is taken depends on data, so what is measured may be less than what is planned."""
import os
import sys
from pathlib import Path

import torch
from executorch import exir
from executorch.backends.mlx import MLXPartitioner
from executorch.backends.mlx.passes import get_default_passes
from executorch.backends.mlx.test.test_utils import save_tensors_to_bin
from executorch.exir.capture._config import ExecutorchBackendConfig
from functorch.experimental.control_flow import map as torch_map
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "golden" / "exports"


class Module(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.run = forward

    def forward(self, *x):
        return self.run(self, *x)


def cond_nested(m, x):
    def inner(y):
        return torch.cond(y.sum() > 10, lambda z: z * 2, lambda z: m.a(z).relu(), (y,))

    return torch.cond(x.sum() > 0, inner, lambda y: m.b(y).tanh(), (x,))


def cond_outputs(m, x):
    def yes(y):
        return m.a(y), y.sum(1), y > 0

    def no(y):
        return y * 3, y.mean(1), y < 0

    a, b, c = torch.cond(x.sum() > 0, yes, no, (x,))
    return a + 1, b, c


def cond_integers(_, x, n):
    a, b = torch.cond((n > 2).all(), lambda y, k: (y * k, k + 1), lambda y, k: (y - k, k * 2), (x, n))
    return a, b


def cond_twice(m, x):
    y = torch.cond(x.sum() > 0, lambda y: m.a(y), lambda y: m.b(y), (x,))
    return torch.cond(y.sum() > 0, lambda y: y.exp(), lambda y: y.sigmoid(), (y,)) + x


def scan_two_carries(m, xs, h):
    def step(carry, x):
        a, b = carry
        a = torch.tanh(m.a(a) + x)
        b = b + a * x
        return (a, b), a * 2 + b

    (a, b), ys = scan(step, (h, torch.zeros_like(h)), xs)
    return a, b, ys


def scan_integers(_, xs, n):
    def step(carry, x):
        count, seen = carry
        count = count + (x > 0).sum(0)
        seen = seen | (x > 1).any(0)
        return (count, seen), count * 10

    (count, seen), ys = scan(step, (n, torch.zeros(5, dtype=torch.bool)), xs)
    return count, seen, ys


def scan_stacks(m, xs, h):
    def step(carry, x):
        h = torch.sigmoid(m.a(carry) + m.b(x))
        return h, (h + 0, h.sum(1))

    h, (a, b) = scan(step, h, xs)
    return h, a, b


def scan_cond(m, xs, h):
    def step(carry, x):
        y = torch.cond(x.sum() > 0, lambda c, v: m.a(c) + v, lambda c, v: c * 0.5 - v, (carry, x))
        return y, y * 1

    return scan(step, h, xs)


def cond_scan(m, xs, h):
    def looped(v, c):
        def step(carry, x):
            y = torch.tanh(carry + x)
            return y, y * 1

        return scan(step, c, v)[0]

    return torch.cond(xs.sum() > 0, looped, lambda v, c: c + v[0], (xs, h))


def map_rows(m, xs, h):
    return torch_map(lambda x, c: torch.tanh(m.a(x) * c), xs, h)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 16, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.gru(x)[0]


class Decoder(nn.Module):
    """Two layers with keys and values in buffers, products in 4 bits."""

    def __init__(self, width=64, heads=4, room=32, words=96):
        super().__init__()
        self.heads, self.room = heads, room
        self.embed, self.out = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(4))
        self.qkvo = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(8))
        self.ups = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.downs = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(2))
        for i in range(2):
            self.register_buffer(f"k{i}", torch.zeros(1, heads, room, width // heads))
            self.register_buffer(f"v{i}", torch.zeros(1, heads, room, width // heads))

    def attend(self, i, x, at, mask):
        q, k, v = (
            f(x).view(1, x.shape[1], self.heads, -1).transpose(1, 2) for f in self.qkvo[4 * i : 4 * i + 3]
        )
        keys, values = getattr(self, f"k{i}"), getattr(self, f"v{i}")
        keys.index_copy_(2, at, k)
        values.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return self.qkvo[4 * i + 3](y.transpose(1, 2).reshape(x.shape))

    def forward(self, ids, at):
        x, mask = self.embed(ids), torch.arange(self.room)[None, :] <= at[:, None]
        for i in range(2):
            x = x + self.attend(i, self.norms[2 * i](x), at, mask)
            x = x + self.downs[i](F.silu(self.ups[i](self.norms[2 * i + 1](x))))
        return self.out(x)


def decoder():
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import IntxWeightOnlyConfig, quantize_

    net = Decoder()
    quantize_(net, IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)))
    ids = torch.randint(0, 96, (1, 14))
    calls = [(ids[:, :11], torch.arange(11)), (ids[:, 11:12], torch.tensor([11])),
             (ids[:, 12:13], torch.tensor([12]))]
    length = torch.export.Dim("length", min=1, max=32)
    return net, calls, ({1: length}, {0: length})


def rows(*shape):
    return torch.randn(*shape) + 0.3


def way(positive, *shape):
    return torch.rand(*shape) * (1 if positive else -1)


def cases():
    xs, h = rows(6, 3, 8), rows(3, 8)
    yes, no = way(True, 3, 8), way(False, 3, 8)
    return {
        "cond_nested": (Module(cond_nested), [(yes * 0.1,), (yes,), (no,)]),
        "cond_outputs": (Module(cond_outputs), [(yes,), (no,)]),
        "cond_integers": (Module(cond_integers), [(yes, torch.tensor(5)), (yes, torch.tensor(1))]),
        "cond_twice": (Module(cond_twice), [(yes,), (no,)]),
        "scan_two_carries": (Module(scan_two_carries), [(xs, h), (xs * 2, h)]),
        "scan_integers": (Module(scan_integers), [(rows(7, 4, 5), torch.arange(5))]),
        "scan_stacks": (Module(scan_stacks), [(xs, h), (xs - 1, h * 2)]),
        "scan_cond": (Module(scan_cond), [(xs, h), (xs - 0.6, h)]),
        "cond_scan": (Module(cond_scan), [(xs.abs(), h), (-xs.abs(), h)]),
        "map_rows": (Module(map_rows), [(xs, h)]),
        "gru": (Gru(), [(rows(2, 9, 8),), (rows(2, 9, 8),)]),
        "decoder_4_bits": decoder,
    }


def write(name, net, calls, dynamic=None):
    net = net.eval().requires_grad_(False)
    start = {k: v.clone() for k, v in net.named_buffers()}
    with torch.no_grad():
        expected = [net(*c) for c in calls]
        for k, v in net.named_buffers():
            v.copy_(start[k])
        program = torch.export.export(net, calls[0], dynamic_shapes=dynamic, strict=False)
    edge = exir.to_edge_transform_and_lower(
        program,
        transform_passes=get_default_passes(),
        partitioner=[MLXPartitioner()],
        compile_config=exir.EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
    )
    made = edge.to_executorch(config=ExecutorchBackendConfig(extract_delegate_segments=True))
    folder = GOLDENS / name
    os.makedirs(folder, exist_ok=True)
    (folder / "model.pte").write_bytes(made.buffer)
    for i, (given, outputs) in enumerate(zip(calls, expected)):
        call = f".call{i + 1}" if i else ""
        leaves = [t.contiguous() for t in torch.utils._pytree.tree_leaves(outputs)]
        save_tensors_to_bin([x.contiguous() for x in given], f"{folder}/input{call}.bin")
        save_tensors_to_bin(leaves, f"{folder}/expected_output{call}.bin")


def main(names):
    torch.manual_seed(0)
    failed = 0
    for name, case in cases().items():
        if names and name not in names:
            continue
        try:
            torch.manual_seed(1)
            write(name, *(case() if callable(case) else case))
            print(f"{name}: written", flush=True)
        except Exception as error:  # one that cannot be exported does not keep the others
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
