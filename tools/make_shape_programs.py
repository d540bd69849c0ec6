#!/usr/bin/env python3
"""Programs with the shapes of real models and random weights, for tests of memory and speed.

    make_shape_programs.py whisper OUT.pte --d 768 --heads 12 --layers 12 --dtype bf16
    make_shape_programs.py decoder OUT.pte --tokens 512 --dtype f32      (0: any number up to --slots)

whisper: the encoder as ExecuTorch exports it, instruction by instruction, temporaries reused.
decoder: SmolLM2's sizes by default; ids [1, T], positions [T] -> logits [1, T, vocabulary]; keys and
values in mutable buffers. Weights are written piece by piece: the file may be larger than memory.
"""
import argparse
import math
import random
import struct
from array import array

from pte_writer import NODE_TYPES, Dim, Program, Tensor, bytes_of

PERIOD = 65521  # a prime: rows of a matrix do not repeat
IN_PLACE = {"gelu", "silu", "add", "multiply", "neg"}
READS = ("TID", "OPT_TID", "TIDS", "VID_OR_TID", "INDEX")


class Recycler:
    """Temporaries of an instruction list, reused after their last reading as the exporter does."""
    def __init__(self, graph):
        self.graph, self.ops, self.count = graph, [], 0

    def op(self, name, **fields):
        """Without `out`: into a new temporary, which is returned."""
        if "out" not in fields:
            self.count += 1
            fields["out"] = Tensor(self.graph, "virtual", self.count - 1)
        self.ops.append((name, fields))
        return fields["out"]

    def finish(self):
        last, place, free = {}, {}, []
        for i, (_, fields) in enumerate(self.ops):
            for t in self.temps(fields.values()):
                last[t.index] = i
        for i, (name, fields) in enumerate(self.ops):
            reads = [t for k, kind in NODE_TYPES[name][1] if kind in READS and k in fields
                     for t in self.temps([fields[k]])]
            done = {t.index for t in reads if last[t.index] == i}
            fields = dict(fields)
            for k, _ in NODE_TYPES[name][1]:
                if k != "out" and isinstance(fields.get(k), Tensor):
                    fields[k] = self.real(fields[k], place)
            if name in IN_PLACE:
                free.extend(place[n] for n in sorted(done))
            if self.temps([fields["out"]]):
                n = fields["out"].index
                place[n] = free.pop() if free else self.graph.temp()
                fields["out"] = place[n]
                if last[n] == i:
                    free.append(place[n])
            if name not in IN_PLACE:
                free.extend(place[n] for n in sorted(done))
            self.graph.main.op(name, **fields)

    @staticmethod
    def temps(values):
        return [v for v in values if isinstance(v, Tensor) and v.kind == "virtual"]

    def real(self, t, place):
        return place[t.index] if t.kind == "virtual" else t


class Weights:
    def __init__(self, graph, dtype):
        self.graph, self.dtype, self.blocks = graph, dtype, {}

    def block(self, low, high):
        """Numbers of [low, high), twice over, so that a piece may begin anywhere in them."""
        if (low, high) not in self.blocks:
            r = random.Random(f"{low} {high}")
            numbers = array("f", (r.uniform(low, high) for _ in range(PERIOD)))
            data = numbers.tobytes() if self.dtype == "f32" else bytes_of(self.dtype, list(numbers))
            self.blocks[low, high] = data * 2
        return self.blocks[low, high]

    def add(self, name, shape, low, high):
        block, size = self.block(low, high), struct.calcsize("f") if self.dtype == "f32" else 2
        total = math.prod(shape) * size
        start = random.Random(name).randrange(PERIOD) * size

        def pieces():
            left = total
            while left:
                n = min(left, PERIOD * size)
                yield block[start:start + n]
                left -= n

        return self.graph.constant(name, self.dtype, shape, pieces)

    def matrix(self, name, shape):
        a = math.sqrt(3 / math.prod(shape[1:]))
        return self.add(name, shape, -a, a)

    def vector(self, name, n, around=0.0):
        return self.add(name, [n], around - 0.05, around + 0.05)


def linear(e, w, x, name, rows, columns, bias=False):
    """Weights [rows, columns]; declared in the order of their use."""
    weight = w.matrix(f"{name}.weight", [rows, columns])
    extra = {"bias": w.vector(f"{name}.bias", rows)} if bias else {}
    t = e.op("transpose", x=weight, perm=[1, 0])
    return e.op("addmm", mat1=x, mat2=t, alpha=1.0, beta=1.0, **extra)


def norm(e, w, x, name, d):
    y = e.op("layer_norm", x=x, weight=w.vector(f"{name}.weight", d, 1.0),
             bias=w.vector(f"{name}.bias", d), eps=1e-5)
    return e.op("id_copy", x=y)


def whisper(o, p):
    g = p.method("forward").graph()
    w, e = Weights(g, o.dtype), Recycler(g)
    d, n, frames = o.d, o.frames // 2, o.frames
    x = g.input("input_features", o.dtype, [1, o.mels, frames])
    out = g.output("out", o.dtype, [1, n, d])
    h = x
    for i, channels in ((1, o.mels), (2, d)):
        bias = w.vector(f"conv{i}.bias", d)
        t = e.op("transpose", x=h, perm=[0, 2, 1])
        t = e.op("conv1d", x=t, w=w.matrix(f"conv{i}.weight", [d, 3, channels]), stride=i, padding=1)
        b = e.op("reshape", x=bias, shape=[1, 1, -1])
        t = e.op("add", a=t, b=b)
        t = e.op("transpose", x=t, perm=[0, 2, 1])
        h = e.op("gelu", x=t, approximate="none")
    h = e.op("transpose", x=h, perm=[0, 2, 1])
    places = e.op("arange", start=0, stop=n, step=1, scalar_type="i64")
    h = e.op("add", a=h, b=e.op("take", x=w.matrix("positions", [n, d]), index=places, axis=0))
    for i in range(o.layers):
        a = norm(e, w, h, f"{i}.attention_norm", d)
        q = linear(e, w, a, f"{i}.q", d, d, True)
        scale = g.constant(f"{i}.scale", "f32", [], [(d // o.heads) ** -0.5])
        q = e.op("multiply", a=q, b=scale if o.dtype == "f32"
                 else e.op("as_type", x=scale, scalar_type=o.dtype))
        q = heads(e, q, [1, n, -1, d // o.heads])
        k = heads(e, linear(e, w, a, f"{i}.k", d, d), [1, -1, o.heads, d // o.heads])
        v = heads(e, linear(e, w, a, f"{i}.v", d, d, True), [1, -1, o.heads, d // o.heads])
        s = e.op("sdpa", q=q, k=k, v=v, scale=1.0, causal=False)
        s = e.op("reshape", x=e.op("transpose", x=s, perm=[0, 2, 1, 3]), shape=[1, n, -1])
        h = e.op("add", a=h, b=linear(e, w, s, f"{i}.o", d, d, True))
        a = norm(e, w, h, f"{i}.norm", d)
        a = e.op("gelu", x=linear(e, w, a, f"{i}.fc1", 4 * d, d, True), approximate="none")
        h = e.op("add", a=h, b=linear(e, w, a, f"{i}.fc2", d, 4 * d, True))
    y = e.op("layer_norm", x=h, weight=w.vector("norm.weight", d, 1.0),
             bias=w.vector("norm.bias", d), eps=1e-5)
    e.op("id_copy", x=y, out=out)
    e.finish()


def heads(e, x, shape):
    return e.op("transpose", x=e.op("reshape", x=x, shape=shape), perm=[0, 2, 1, 3])


def mask(e, at, end, n):
    """[1, 1, T, S]: true where a key is not later than the query."""
    rows = e.op("arange", start=at, stop=end, step=1, scalar_type="i64")
    columns = e.op("arange", start=0, stop=end, step=1, scalar_type="i64")
    rows = e.op("reshape", x=rows, shape=[1, 1, n, 1])
    return e.op("less_equal", a=columns, b=rows)


def decoder(o, p):
    g = p.method("forward").graph()
    w, e = Weights(g, o.dtype), Recycler(g)
    d, size = o.d, o.d // o.heads
    tokens = o.tokens or Dim(o.slots, 1)
    ids, positions = g.input("ids", "i64", [1, tokens]), g.input("positions", "i64", [tokens])
    logits = g.output("logits", o.dtype, [1, tokens, o.vocabulary])
    states = [[g.buffer(f"{i}.{name}_cache", o.dtype, [1, o.kv_heads, o.slots, size])
               for name in "kv"] for i in range(o.layers)]
    n, at, end = g.value(), g.value(), g.value()
    embedding = w.add("embedding", [o.vocabulary, d], -0.1, 0.1)
    e.op("sym_size", a=ids, dim=1, out=n)
    e.op("item_int", x=e.op("take", x=positions, index=0, axis=0), out=at)
    e.op("add_int", a=at, b=n, out=end)
    seen = {"mask": mask(e, at, end, n)} if o.mask else {"causal": True}
    h = e.op("take", x=embedding, index=ids, axis=0)
    for i in range(o.layers):
        a = e.op("rms_norm", x=h, weight=w.vector(f"{i}.attention_norm", d, 1.0), eps=1e-5)
        q, k, v = (heads(e, linear(e, w, a, f"{i}.{name}", c * size, d), [1, n, c, size])
                   for name, c in (("q", o.heads), ("k", o.kv_heads), ("v", o.kv_heads)))
        q, k = (e.op("rope", x=t, dims=size, offset=at, traditional=False, base=100000.0, scale=1.0)
                for t in (q, k))
        for state, new in zip(states[i], (k, v)):
            e.op("slice_update", dst=state, update=new, axis=2, start=at, stop=end, step=1, out=state)
        k, v = (e.op("slice", x=state, axis=2, start=0, stop=end, step=1) for state in states[i])
        s = e.op("sdpa", q=q, k=k, v=v, scale=size ** -0.5, **seen)
        s = e.op("reshape", x=e.op("transpose", x=s, perm=[0, 2, 1, 3]), shape=[1, n, -1])
        h = e.op("add", a=h, b=linear(e, w, s, f"{i}.o", d, d))
        a = e.op("rms_norm", x=h, weight=w.vector(f"{i}.norm", d, 1.0), eps=1e-5)
        gate = e.op("silu", x=linear(e, w, a, f"{i}.gate", o.ffn, d))
        a = e.op("multiply", a=gate, b=linear(e, w, a, f"{i}.up", o.ffn, d))
        h = e.op("add", a=h, b=linear(e, w, a, f"{i}.down", d, o.ffn))
    h = e.op("rms_norm", x=h, weight=w.vector("norm", d, 1.0), eps=1e-5)
    t = e.op("transpose", x=embedding, perm=[1, 0])
    e.op("addmm", mat1=h, mat2=t, alpha=1.0, beta=1.0, out=logits)
    for pair in states:
        for state in pair:
            e.op("id_copy", x=state, out=state)
    e.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, defaults in (("whisper", {"d": 768, "heads": 12, "layers": 12, "frames": 3000,
                                        "mels": 80}),
                           ("decoder", {"d": 576, "heads": 9, "kv_heads": 3, "layers": 30,
                                        "ffn": 1536, "vocabulary": 49152, "slots": 512,
                                        "tokens": 0})):
        sub = kinds.add_parser(kind)
        sub.add_argument("out")
        sub.add_argument("--dtype", choices=("f32", "bf16"), default="bf16")
        for name, value in defaults.items():
            sub.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
        if kind == "decoder":
            sub.add_argument("--mask", action="store_true", help="a mask in place of `causal`")
    o = parser.parse_args()
    p = Program()
    {"whisper": whisper, "decoder": decoder}[o.kind](o, p)
    p.write(o.out)


if __name__ == "__main__":
    main()
