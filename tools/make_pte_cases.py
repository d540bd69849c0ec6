#!/usr/bin/env python3
"""Small programs for tests -> tests/golden/pte: *.pte, bad.txt and cases.txt.

Sound ones: control flow, states, the fifteen cases of threshold semantics (th..; the numbers are
those of the issue). cases.txt says what comes out of them, computed here in plain Python:

    case NAME METHOD        a fresh handle
    in DTYPE [shape] ...    one a line, in the method's order; int: an integer
    out DTYPE [shape] ...   what the call must give
    call                    runs what was said since the last call
    reset                   the states become zero
    fails STATUS text       instead of outs: the call must be refused with these words

Malformed ones are called bad_*; bad.txt holds name, stage (load: by the reader; handle: when a
handle is made), status and words of the message.
"""
import struct
import sys
from pathlib import Path

from pte_writer import Dim, Program, Table, Tensor, Vector, int_or_vid

OUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "pte"
B = 256  # elements of one tensor of the threshold cases: 1024 bytes
CASES, BAD = [], []


def ramp(n, step=5):
    return [float(i * step % 13 - 6) for i in range(n)]


def scaled(k, x):
    return [k * v for v in x]


def single(*, name=None):
    p = Program()
    return p, p.method(name or "forward").graph()


def save(p, name, *calls, method="forward"):
    """A call: (inputs, outputs) of (dtype, shape, numbers), "reset", or (inputs, "STATUS text")."""
    p.write(OUT / f"{name}.pte")
    if calls:
        CASES.append(f"case {name} {method}")
    for call in calls:
        if call == "reset":
            CASES.append("reset")
            continue
        for word, tensors in zip(("in", "out"), call):
            if isinstance(tensors, str):
                CASES.append(f"fails {tensors}")
                continue
            for dtype, shape, numbers in tensors:
                text = " ".join(str(v) if isinstance(v, int) else format(v, "g") for v in numbers)
                CASES.append(f"{word} {dtype} [{' '.join(map(str, shape))}] {text}".rstrip())
        CASES.append("call")


def f32(shape, numbers):
    return ("f32", shape, numbers)


def adds(g, chain, n, first, x, last=None):
    """n times + x; the results in temporaries of their own, the last in `last`."""
    made = []
    for i in range(n):
        out = last if last is not None and i == n - 1 else g.temp()
        chain.op("add", a=first, b=x, out=out)
        made.append(out)
        first = out
    return made


# ---- threshold cases ------------------------------------------------------------------------------------

def flat(name, n):
    p, g = single()
    x, y = g.input("x", "f32", [B]), g.output("y", "f32", [B])
    adds(g, g.main, n, x, x, y)
    save(p, name, ([f32([B], ramp(B))], [f32([B], scaled(n + 1, ramp(B)))]))


def branch(name, before, then, other, after, taken):
    """taken: True, False or None (an integer input says)."""
    p, g = single()
    x = g.input("x", "f32", [B])
    cond = g.input_value("which") if taken is None else int(taken)
    y = g.output("y", "f32", [B])
    made = adds(g, g.main, before, x, x)
    start = made[-1] if made else x
    joined = g.temp() if after else y
    chains = [g.chain(), g.chain()]
    for chain, n in zip(chains, (then, other)):
        adds(g, chain, n, start, x, joined)
    g.main.op("if", cond=cond, then_chain_idx=chains[0], else_chain_idx=chains[1])
    adds(g, g.main, after, joined, x, y)
    calls = []
    for way in [taken] if taken is not None else [True, False]:
        inputs = [f32([B], ramp(B))] + ([("int", [], [int(way)])] if taken is None else [])
        times = 1 + before + (then if way else other) + after
        calls.append((inputs, [f32([B], scaled(times, ramp(B)))]))
    save(p, name, *calls)


def scan_flat():
    p, g = single()
    x, y = g.input("x", "f32", [4, B]), g.output("y", "f32", [4, B])
    s, o, t = g.temp(), g.temp(), g.temp()
    body = g.chain()
    adds(g, body, 2, s, s, o)
    g.main.op("scan", originals=[x], sliced=[s], outputs=[o], carry=[], body_chain_idx=body,
              scan_axis=0)
    g.main.op("add", a=o, b=o, out=t)
    g.main.op("add", a=t, b=o, out=y)
    save(p, "th08_scan", ([f32([4, B], ramp(4 * B))], [f32([4, B], scaled(9, ramp(4 * B)))]))


def scan_if():
    p, g = single()
    x, y = g.input("x", "f32", [4, B]), g.output("y", "f32", [4, B])
    s = g.temp()
    body, then, other = g.chain(), g.chain(), g.chain()
    adds(g, then, 2, s, s, y)
    other.op("neg", x=s, out=y)
    body.op("if", cond=1, then_chain_idx=then, else_chain_idx=other)
    g.main.op("scan", originals=[x], sliced=[s], outputs=[y], carry=[], body_chain_idx=body,
              scan_axis=0)
    save(p, "th10a_scan_if", ([f32([4, B], ramp(4 * B))], [f32([4, B], scaled(3, ramp(4 * B)))]))


def if_if():
    p, g = single()
    x, y = g.input("x", "f32", [B]), g.output("y", "f32", [B])
    t = g.temp()
    outer, inner, other = g.chain(), g.chain(), g.chain()
    adds(g, inner, 3, x, x, t)
    other.op("neg", x=x, out=t)
    outer.op("if", cond=1, then_chain_idx=inner, else_chain_idx=other)
    g.main.op("if", cond=1, then_chain_idx=outer, else_chain_idx=other)
    g.main.op("add", a=t, b=x, out=y)
    save(p, "th10b_if_if", ([f32([B], ramp(B))], [f32([B], scaled(5, ramp(B)))]))


def scan_used(name, steps, lengths):
    """Running sums: c += x[t]; out[t] = c + c. Then the last state and the outputs' sum over time."""
    p, g = single()
    x = g.input("x", "f32", [steps, B])
    y, total, last = (g.output("y", "f32", [steps, B]), g.output("total", "f32", [B]),
                      g.output("last", "f32", [B]))
    s, c = g.temp(), g.temp()
    body = g.chain()
    body.op("add", a=c, b=s, out=c)
    body.op("add", a=c, b=c, out=y)
    g.main.op("full", shape=[B], v=0.0, scalar_type="f32", out=c)
    g.main.op("scan", originals=[x], sliced=[s], outputs=[y], carry=[c], body_chain_idx=body,
              scan_axis=0)
    g.main.op("sum", x=y, axes=[0], out=total)
    g.main.op("id_copy", x=c, out=last)
    calls = []
    for n in lengths:
        data, state, rows, sums = ramp(n * B), [0.0] * B, [], [0.0] * B
        for t in range(n):
            state = [a + b for a, b in zip(state, data[t * B:])]
            rows += [2 * v for v in state]
            sums = [a + 2 * b for a, b in zip(sums, state)]
        calls.append(([f32([n, B], data)], [f32([n, B], rows), f32([B], sums), f32([B], state)]))
    save(p, name, *calls)


def wide():
    p, g = single()
    x = g.input("x", "f32", [10, B])
    data = ramp(10 * B)
    columns = [data[i::B] for i in range(B)]
    outs = []
    for op, f in (("sum", sum), ("max", max), ("min", min), ("sum", sum)):
        g.main.op(op, x=x, axes=[0], out=g.output(f"y{len(outs)}", "f32", [B]))
        outs.append(f32([B], [f(c) for c in columns]))
    save(p, "th12_wide", ([f32([10, B], data)], outs))


def const_mutable():
    """B is 64 bytes here: a constant and a buffer of 100 B each give B."""
    p, g = single()
    data = ramp(1600, 3)
    c, one = g.constant("c", "f32", [4, 400], data), g.constant("one", "f32", [1], [1])
    s = g.buffer("s", "f32", [400, 4])
    for i in range(4):
        g.main.op("addmm", mat1=c, mat2=s, out=g.output(f"y{i}", "f32", [4, 4]))
    g.main.op("add", a=s, b=one, out=s)
    rows = [sum(data[400 * i:400 * (i + 1)]) for i in range(4)]
    calls = [([], [f32([4, 4], [n * r for r in rows for _ in range(4)])] * 4) for n in range(3)]
    save(p, "th13_const_mutable", *calls, "reset", calls[0])


def update_at_barrier():
    """A buffer is written, something becomes pending, then a row is read that may not exist."""
    p, g = single()
    n, x = g.input_value("n"), g.input("x", "f32", [2, B])
    y, t = g.output("y", "f32", [1]), g.temp()
    s, one = g.buffer("s", "f32", [1]), g.constant("one", "f32", [1], [1])
    g.main.op("add", a=s, b=one, out=s)
    g.main.op("add", a=x, b=x, out=t)
    g.main.op("slice", x=t, axis=0, start=0, stop=2, out=t)
    g.main.op("take", x=t, index=n, axis=0, out=t)
    g.main.op("id_copy", x=s, out=y)
    save(p, "th13_update_at_barrier",
         *(([("int", [], [0]), f32([2, B], ramp(2 * B))], [f32([1], [k])]) for k in (1, 2)))


def item():
    """B is 4 bytes: a tensor of one element."""
    p, g = single()
    x, y = g.input("x", "i32", [1]), g.output("y", "i32", [1])
    v, r, t = g.value(), g.temp(), g.temp()
    made = adds(g, g.main, 2, x, x)
    then, other = g.chain(), g.chain()
    then.op("item_int", x=made[-1], out=v)
    then.op("full", shape=[1], v=v, scalar_type="i32", out=r)
    other.op("id_copy", x=x, out=r)
    g.main.op("if", cond=1, then_chain_idx=then, else_chain_idx=other)
    g.main.op("add", a=r, b=x, out=t)
    g.main.op("add", a=t, b=made[0], out=y)
    save(p, "th14_item", ([("i32", [1], [7])], [("i32", [1], [42])]))


def init9():
    p, g = single()
    c, k = g.constant("c", "f32", [B], ramp(B, 3)), g.constant("k", "f32", [], [0])
    x, y = g.input("x", "f32", [B]), g.output("y", "f32", [B])
    init = g.chain(init=True)
    adds(g, init, 9, c, c, k)
    g.main.op("add", a=x, b=k, out=y)
    want = [a + 10 * b for a, b in zip(ramp(B), ramp(B, 3))]
    save(p, "th15_init9", ([f32([B], ramp(B))], [f32([B], want)]))


def thresholds():
    flat("th01_flat8", 8)
    flat("th03_flat9", 9)
    branch("th06_only_if", 0, 6, 1, 0, True)
    branch("th07_if", 2, 6, 1, 2, None)
    branch("th07_then", 2, 6, 1, 2, True)
    branch("th07_else", 2, 6, 1, 2, False)
    scan_flat()
    scan_if()
    if_if()
    scan_used("th11_scan_used", 4, [4])
    scan_used("th11_scan_t0", Dim(4), [4, 1, 0, 2])
    wide()
    const_mutable()
    update_at_barrier()
    item()
    init9()


# ---- control flow -----------------------------------------------------------------------------------------

def nested():
    """Row by row: where row index is even, running sums along the row, else the row negated."""
    p, g = single()
    x, which = g.input("x", "f32", [4, 3, 2]), g.input("which", "i32", [4])
    y = g.output("y", "f32", [4, 3, 2])
    row, flag, c, s, o, v = g.temp(), g.temp(), g.temp(), g.temp(), g.temp(), g.value()
    outer, then, other, inner = g.chain(), g.chain(), g.chain(), g.chain()
    g.main.op("scan", originals=[x, which], sliced=[row, flag], outputs=[y], carry=[],
              body_chain_idx=outer, scan_axis=0)
    outer.op("item_int", x=flag, out=v)
    outer.op("if", cond=v, then_chain_idx=then, else_chain_idx=other)
    then.op("full", shape=[2], v=0.0, scalar_type="f32", out=c)
    then.op("scan", originals=[row], sliced=[s], outputs=[o], carry=[c], body_chain_idx=inner,
            scan_axis=0)
    then.op("id_copy", x=o, out=y)
    inner.op("add", a=c, b=s, out=c)
    inner.op("id_copy", x=c, out=o)
    other.op("neg", x=row, out=y)
    data, want = ramp(24), []
    for r in range(4):
        rows, state = [data[6 * r + 2 * t:6 * r + 2 * t + 2] for t in range(3)], [0.0, 0.0]
        for t in range(3):
            state = [a + b for a, b in zip(state, rows[t])]
            want += [-v for v in rows[t]] if r % 2 else state
    save(p, "nested_scan_if_scan",
         ([f32([4, 3, 2], data), ("i32", [4], [1, 0, 3, 0])], [f32([4, 3, 2], want)]))


def carry_before():
    """The body reads what the step before left, then rewrites it; two carries change places."""
    p, g = single()
    x = g.input("x", "f32", [5, 2])
    before, pair = g.output("before", "f32", [5, 2]), g.output("pair", "f32", [5, 2])
    s, c, a, b, t = (g.temp() for _ in range(5))
    body = g.chain()
    body.op("id_copy", x=c, out=before)
    body.op("add", a=c, b=s, out=c)
    body.op("add", a=a, b=b, out=t)
    body.op("id_copy", x=b, out=a)
    body.op("id_copy", x=t, out=b)
    body.op("id_copy", x=a, out=pair)
    for v, to in ((0.0, c), (0.0, a), (1.0, b)):
        g.main.op("full", shape=[2], v=v, scalar_type="f32", out=to)
    g.main.op("scan", originals=[x], sliced=[s], outputs=[before, pair], carry=[c, a, b],
              body_chain_idx=body, scan_axis=0)
    data, state, rows = ramp(10), [0.0, 0.0], []
    for t in range(5):
        rows += state
        state = [u + v for u, v in zip(state, data[2 * t:])]
    fibonacci = [v for v in (1, 1, 2, 3, 5) for _ in range(2)]
    save(p, "scan_carry_before",
         ([f32([5, 2], data)], [f32([5, 2], rows), f32([5, 2], fibonacci)]))


def scan_axis():
    """Along the last axis, with a state that outlives the call."""
    p, g = single()
    x, y = g.input("x", "f32", [2, Dim(6)]), g.output("y", "f32", [2, Dim(6)])
    c, s, o = g.buffer("c", "f32", [2]), g.temp(), g.temp()
    body = g.chain()
    body.op("add", a=c, b=s, out=c)
    body.op("id_copy", x=c, out=o)
    g.main.op("scan", originals=[x], sliced=[s], outputs=[o], carry=[c], body_chain_idx=body,
              scan_axis=-1)
    g.main.op("transpose", x=o, perm=[1, 0], out=o)
    g.main.op("transpose", x=o, perm=[1, 0], out=o)
    g.main.op("id_copy", x=o, out=y)
    save(p, "scan_last_axis",
         ([f32([2, 3], [1, 2, 3, 4, 5, 6])], [f32([2, 3], [1, 3, 6, 4, 9, 15])]),
         ([f32([2, 1], [1, 1])], [f32([2, 1], [7, 16])]),
         ([f32([2, 0], [])], [f32([2, 0], [])]), "reset",
         ([f32([2, 1], [1, 1])], [f32([2, 1], [1, 1])]))


def recycle():
    """out == in, a temporary of another shape and dtype later, an output written twice and read."""
    p, g = single()
    x, y = g.input("x", "f32", [4]), g.output("y", "f32", [4])
    t, u = g.temp(), g.temp()
    g.main.op("neg", x=x, out=t)
    g.main.op("neg", x=t, out=t)
    g.main.op("id_copy", x=t, out=u)
    g.main.op("neg", x=t, out=t)             # u keeps x
    g.main.op("add", a=t, b=u, out=y)        # 0
    g.main.op("less", a=x, b=y, out=t)       # bool now
    g.main.op("as_type", x=t, scalar_type="i64", out=t)
    g.main.op("sum", x=t, axes=[], out=t)    # of another shape
    g.main.op("add", a=y, b=t, out=y)        # reads the output and writes it
    g.main.op("neg", x=x, out=x)             # an input slot; the caller's tensor stays
    g.main.op("add", a=y, b=x, out=y)
    save(p, "recycle", ([f32([4], [1, -2, -3, 4])], [f32([4], [1, 4, 5, -2])]),
         ([f32([4], [1, 2, 3, 4])], [f32([4], [-1, -2, -3, -4])]))


# ---- states -------------------------------------------------------------------------------------------------

def view_of_view(name, accumulate):
    """s[:, 2:4] = x (or += x) through a view of a view; out = sum(s)."""
    p, g = single()
    x, y = g.input("x", "f32", [2, 2]), g.output("y", "f32", [])
    s, v, w = g.buffer("s", "f32", [2, 6]), g.temp(), g.temp()
    g.main.op("slice", x=s, axis=1, start=1, stop=5, out=v)
    g.main.op("slice", x=v, axis=1, start=1, stop=3, out=w)
    if accumulate:
        g.main.op("add", a=w, b=x, out=w)
    else:
        g.main.op("id_copy", x=x, out=w)
    g.main.op("slice_update", dst=v, update=w, axis=1, start=1, stop=3, out=v)
    g.main.op("slice_update", dst=s, update=v, axis=1, start=1, stop=5, out=s)
    g.main.op("sum", x=s, axes=[], out=y)
    g.main.op("id_copy", x=s, out=s)
    a, b = [1, 2, 3, 4], [10, 20, 30, 40]
    calls = [([f32([2, 2], d)], [f32([], [v])])
             for d, v in ((a, 10), (b, 110 if accumulate else 100), (a, 120 if accumulate else 10))]
    save(p, name, *calls, "reset", calls[0])


def updates():
    """Three fates of an update: it goes back, it is dropped, the old contents are read after it."""
    p, g = single()
    x = g.input("x", "f32", [2])
    outs = [g.output(n, "f32", [4]) for n in ("new", "old", "dropped", "kept")]
    a, b, t, u = g.buffer("a", "f32", [4]), g.buffer("b", "f32", [4]), g.temp(), g.temp()
    one = g.constant("one", "f32", [1], [1])
    g.main.op("slice_update", dst=a, update=x, axis=0, start=1, stop=3, out=t)
    g.main.op("id_copy", x=t, out=outs[0])
    g.main.op("multiply", a=a, b=one, out=outs[1])         # before it went back
    g.main.op("id_copy", x=t, out=a)
    g.main.op("slice_update", dst=b, update=x, axis=0, start=0, stop=2, out=u)
    g.main.op("multiply", a=u, b=one, out=outs[2])
    g.main.op("add", a=b, b=one, out=b)
    g.main.op("id_copy", x=b, out=outs[3])
    save(p, "state_updates",
         ([f32([2], [5, 6])], [f32([4], v) for v in ([0, 5, 6, 0], [0] * 4, [5, 6, 0, 0], [1] * 4)]),
         ([f32([2], [7, 8])],
          [f32([4], v) for v in ([0, 7, 8, 0], [0, 5, 6, 0], [7, 8, 1, 1], [2] * 4)]), "reset",
         ([f32([2], [5, 6])], [f32([4], v) for v in ([0, 5, 6, 0], [0] * 4, [5, 6, 0, 0], [1] * 4)]))


def in_place():
    """An update onto the buffer itself while a copy and a view of it are still wanted."""
    p, g = single()
    x = g.input("x", "f32", [2])
    y, z = g.output("y", "f32", [4]), g.output("z", "f32", [2])
    a, t, v = g.buffer("a", "f32", [4]), g.temp(), g.temp()
    g.main.op("id_copy", x=a, out=t)
    g.main.op("slice", x=a, axis=0, start=1, stop=3, out=v)
    g.main.op("slice_update", dst=a, update=x, axis=0, start=1, stop=3, out=a)
    g.main.op("subtract", a=a, b=t, out=y)
    g.main.op("id_copy", x=v, out=z)
    save(p, "state_in_place",
         ([f32([2], [5, 6])], [f32([4], [0, 5, 6, 0]), f32([2], [0, 0])]),
         ([f32([2], [7, 9])], [f32([4], [0, 2, 3, 0]), f32([2], [5, 6])]))


def into_another():
    """An update of one buffer that goes into another one: the first stays. The same chain twice, once
    for a result that goes back and once for one that is thrown away."""
    p, g = single()
    x = g.input("x", "f32", [2])
    outs = [g.output(n, "f32", [4]) for n in ("a", "b", "kept", "thrown")]
    a, b, c = (g.buffer(n, "f32", [4]) for n in "abc")
    t, u = g.temp(), g.temp()
    one = g.constant("one", "f32", [1], [1])
    g.main.op("slice_update", dst=a, update=x, axis=0, start=1, stop=3, out=t)
    g.main.op("id_copy", x=t, out=b)
    g.main.op("add", a=a, b=one, out=outs[0])
    g.main.op("add", a=b, b=one, out=outs[1])
    chain = g.chain()
    chain.op("slice_update", dst=c, update=x, axis=0, start=0, stop=2, out=u)
    g.main.op("if", cond=1, then_chain_idx=chain, else_chain_idx=chain)
    g.main.op("multiply", a=u, b=one, out=outs[3])
    g.main.op("add", a=c, b=one, out=c)
    g.main.op("if", cond=1, then_chain_idx=chain, else_chain_idx=chain)
    g.main.op("id_copy", x=u, out=c)
    g.main.op("multiply", a=c, b=one, out=outs[2])
    save(p, "state_into_another",
         ([f32([2], [5, 6])], [f32([4], v) for v in ([1] * 4, [1, 6, 7, 1], [5, 6, 1, 1], [5, 6, 0, 0])]),
         ([f32([2], [7, 8])], [f32([4], v) for v in ([1] * 4, [1, 8, 9, 1], [7, 8, 2, 2], [7, 8, 1, 1])]))


def invariant():
    """A scan whose outputs are the body's surroundings, and two carries that get one value."""
    p, g = single()
    x = g.input("x", "f32", [3, 2])
    y, z, e = g.output("y", "f32", [3, 2]), g.output("z", "f32", [2]), g.output("e", "f32", [2])
    s, c, d, k = (g.temp() for _ in range(4))
    g.main.op("sum", x=x, axes=[0], out=y)
    for to in (c, d):
        g.main.op("full", shape=[2], v=1.0, scalar_type="f32", out=to)
    body = g.chain()
    body.op("add", a=c, b=d, out=k)
    body.op("add", a=k, b=s, out=c)
    body.op("id_copy", x=c, out=d)
    g.main.op("scan", originals=[x], sliced=[s], outputs=[y], carry=[c, d], body_chain_idx=body, scan_axis=0)
    for of, to in ((c, z), (d, e)):
        g.main.op("id_copy", x=of, out=to)
    data, state = [1, 2, 3, 4, 5, 6], [1, 1]
    for i in range(3):
        state = [2 * v + w for v, w in zip(state, data[2 * i:])]
    save(p, "scan_invariant",
         ([f32([3, 2], data)], [f32([3, 2], [9, 12] * 3), f32([2], state), f32([2], state)]))


def flags():
    """Branches on tensors that are inputs: of bytes, and of i64."""
    p, g = single()
    x, flag, n = g.input("x", "f32", [2]), g.input("flag", "u8", [1]), g.input("n", "i64", [1])
    y, z = g.output("y", "f32", [2]), g.output("z", "f32", [2])
    for tensor, to in ((flag, y), (n, z)):
        v, then, other = g.value(), g.chain(), g.chain()
        g.main.op("item_int", x=tensor, out=v)
        then.op("add", a=x, b=x, out=to)
        other.op("neg", x=x, out=to)
        g.main.op("if", cond=v, then_chain_idx=then, else_chain_idx=other)
    twice, minus = f32([2], [2, 4]), f32([2], [-1, -2])
    save(p, "flags", *(([f32([2], [1, 2]), ("u8", [1], [a]), ("i64", [1], [b])],
                        [twice if a else minus, twice if b else minus])
                       for a, b in ((0, 0), (1, 0), (0, 1), (1, 1), (0, 0))))


def length_bound():
    """Keys at [pos, pos + T) of 8; T may be 1 to 8."""
    p, g = single()
    x, at = g.input("x", "f32", [Dim(8, 1), 2]), g.input("at", "i64", [1])
    y, n = g.output("y", "f32", [2]), g.output("last", "f32", [2])
    k = g.buffer("k", "f32", [8, 2])
    pos, length, end = g.value(), g.value(), g.value()
    g.main.op("item_int", x=at, out=pos)
    g.main.op("sym_size", a=x, dim=0, out=length)
    g.main.op("add_int", a=pos, b=length, out=end)
    g.main.op("slice_update", dst=k, update=x, axis=0, start=pos, stop=end, out=k)
    g.main.op("sum", x=k, axes=[0], out=y)
    g.main.op("take", x=k, index=7, axis=0, out=n)
    g.main.op("id_copy", x=k, out=k)
    row = [f32([8, 2], [1, 2] * 8), ("i64", [1], [0])]
    save(p, "length_bound",
         ([f32([7, 2], [1, 2] * 7), ("i64", [1], [0])], [f32([2], [7, 14]), f32([2], [0, 0])]),
         ([f32([1, 2], [3, 4]), ("i64", [1], [7])], [f32([2], [10, 18]), f32([2], [3, 4])]),
         (row, [f32([2], [8, 16]), f32([2], [1, 2])]),
         ([f32([9, 2], [1, 2] * 9), ("i64", [1], [0])], "EINVAL input 0: dimension 0 has 9, expected at most 8"))


def next_token(name, most, context):
    """Scores of 16 tokens after each of `most` (1: static) at their positions: token n calls for 5n + 3, which
    a position that 3 divides overrules with itself. tests/unit/test_decoder.c knows the rule."""
    p, g = single()
    n = Dim(most, 1) if most > 1 else 1
    table = g.constant("table", "f32", [16, 16], [8 * (c == (5 * r + 3) % 16) for r in range(16) for c in range(16)])
    places = g.constant("places", "f32", [24, 16],
                        [9 * (r % 3 == 0 and c == r % 16) for r in range(24) for c in range(16)])
    ids, at = g.input("ids", "i64", [1, n]), g.input("positions", "i64", [n])
    y = g.output("scores", "f32", [1, n, 16])
    a, b = g.temp(), g.temp()
    g.main.op("take", x=table, index=ids, axis=0, out=a)
    g.main.op("take", x=places, index=at, axis=0, out=b)
    g.main.op("add", a=a, b=b, out=y)
    m = p.method(context)
    m.outputs.append(m.integer(24))
    scores = [8 if c == 8 else 0 for c in range(16)]
    save(p, name, ([("i64", [1, 1], [1]), ("i64", [1], [1])], [f32([1, 1, 16], scores)]))


def attend():
    """Keys and values in the host's cache: one layer of two heads, four heads of queries. No case: the
    cache is the test's."""
    p, g = single()
    q = g.input("q", "f32", [1, 4, Dim(700, 1), 4])
    k, v = (g.input(n, "f32", [1, 2, Dim(700, 1), 4]) for n in "kv")
    at, y = g.input("at", "i64", [1]), g.output("y", "f32", [1, 4, Dim(700, 1), 4])
    g.main.op("update_and_attend", q=q, k=k, v=v, position=at, out=y, layer_id=0, scale=0.5)
    save(p, "attend")


def decode():
    """A token loop: x goes to row [at] of 64, then everything up to it is added."""
    p, g = single()
    x, at = g.input("x", "f32", [1, 2]), g.input("at", "i64", [1])
    y = g.output("y", "f32", [2])
    k, t = g.buffer("k", "f32", [64, 2]), g.temp()
    pos, end = g.value(), g.value()
    g.main.op("item_int", x=at, out=pos)
    g.main.op("add_int", a=pos, b=1, out=end)
    g.main.op("slice_update", dst=k, update=x, axis=0, start=pos, stop=end, out=k)
    g.main.op("slice", x=k, axis=0, start=0, stop=end, out=t)
    g.main.op("sum", x=t, axes=[0], out=y)
    row = ("f32", [1, 2], [1, 2])
    save(p, "decode", *(([row, ("i64", [1], [i])], [f32([2], [i + 1, 2 * i + 2])]) for i in range(3)),
         ([row, ("i64", [1], [64])], [f32([2], [3, 6])]),  # beyond the end: no row is written
         ([row, ("i64", [1], [-1])], [f32([2], [0, 0])]),  # -1 to 0: none is written nor read
         ([row, ("i64", [1], [-5])], [f32([2], [4, 8])]),  # row 59, then up to 60
         ([row, ("i64", [1], [1 << 31])], "EINVAL 2147483648 does not fit 32 bits"))


# ---- methods, delegates, inputs -------------------------------------------------------------------------------

def two_methods():
    """They share a constant; the second one's init chain rewrites its own copy of it."""
    p = Program()
    g = p.method("scale").graph()
    w = g.constant("w", "f32", [4], [1, 2, 3, 4])
    x, y = g.input("x", "f32", [4]), g.output("y", "f32", [4])
    g.main.op("multiply", a=x, b=w, out=y)
    g = p.method("shift").graph()
    w = g.constant("w", "f32", [4])
    x, y = g.input("x", "f32", [4]), g.output("y", "f32", [4])
    g.chain(init=True).op("multiply", a=w, b=w, out=w)
    g.main.op("add", a=x, b=w, out=y)
    x = [1, -1, 2, -2]
    save(p, "two_methods", ([f32([4], x)], [f32([4], [1, -2, 6, -8])]), method="scale")
    save(p, "two_methods", ([f32([4], x)], [f32([4], [2, 3, 11, 14])]), method="shift")


def two_delegates():
    """The second reads what the first wrote, and an input that the first does not see; order differs
    from the method's."""
    p = Program()
    m = p.method("forward")
    a, b = m.tensor("f32", [4]), m.tensor("f32", [4])
    m.inputs += [a, b]
    between = m.tensor("f32", [4])
    g = m.graph()
    x, y = g.input("x", "f32", [4], a), g.output("y", "f32", [4], between)
    g.main.op("neg", x=x, out=y)
    g = m.graph()
    q, r = g.input("b", "f32", [4], b), g.input("between", "f32", [4], between)
    g.main.op("subtract", a=q, b=r, out=g.output("z", "f32", [4]))
    save(p, "two_delegates", ([f32([4], [1, 2, 3, 4]), f32([4], [10, 20, 30, 40])],
                              [f32([4], [11, 22, 33, 44])]))


def temporary():
    """A result that is a temporary by its number; then operators with numbers for tensors."""
    p = Program()
    m = p.method("forward")
    first, half, more = (m.tensor("f32", [2]) for _ in range(3))
    g = m.graph()
    x, t = g.input("x", "f32", [2]), g.temp()
    g.output("y", "f32", [2], first)
    g.slots["output"][0] = t
    g.main.op("add", a=x, b=x, out=t)
    g.main.op("neg", x=t, out=t)
    m.kernel("aten::mul", "Scalar_out", [first, m.real(0.25), half])
    m.kernel("aten::add", "out", [half, first, m.real(1.5), more])
    m.outputs += [first, half, more]
    save(p, "result_is_temporary",
         ([f32([2], [1, 2])], [f32([2], [-2, -4]), f32([2], [-0.5, -1]), f32([2], [-3.5, -7])]))


def called_twice():
    """One delegate, called on its own result: the first result stays as it is."""
    p = Program()
    m = p.method("forward")
    after = m.tensor("f32", [4])
    g = m.graph()
    x, y, t = g.input("x", "f32", [4]), g.output("y", "f32", [4]), g.temp()
    g.main.op("flip", x=x, axes=[0], out=t)
    g.main.op("cumsum", x=t, axis=0, out=y)
    m.instructions.append((2, lambda: Table({0: ("i", 0), 1: Vector("i", [m.outputs[0], after])})))
    m.outputs.append(after)
    save(p, "called_twice", *[([f32([4], [1, 2, 3, 4])], [f32([4], [4, 7, 9, 10]), f32([4], [10, 19, 26, 30])])] * 2)


def copies():
    """aten::copy_ after the delegate: a value of the method that outlives the call."""
    p = Program()
    m = p.method("forward")
    kept = m.tensor("f32", [2])
    g = m.graph()
    x, old = g.input("x", "f32", [2]), g.input("old", "f32", [2], kept)
    y = g.output("y", "f32", [2])
    g.main.op("add", a=x, b=old, out=y)
    m.kernel("aten::copy_", "", [kept, m.outputs[0], m.boolean(False), kept])
    save(p, "copy_", ([f32([2], [1, 2])], [f32([2], [1, 2])]),
         ([f32([2], [1, 2])], [f32([2], [2, 4])]))


def hostile(name, shape, result, operator, arguments, words):
    """A call of an operator on the one input with numbers that no exporter writes."""
    p = Program()
    m = p.method("forward")
    x = m.tensor("f32", shape)
    m.inputs.append(x)
    out = m.tensor("f32", result)
    m.kernel(operator, "out", [x, *arguments(m), out])
    if not isinstance(words, str):
        m.outputs.append(out)
    count = 1
    for extent in shape:
        count *= extent
    given = f32(shape, [1] * count)
    save(p, f"hostile_{name}", ([given], words if isinstance(words, str) else [f32(result, words)]))


def hostile_numbers():
    huge, least = (1 << 63) - 1, -(1 << 63)
    hostile("shuffle", [4, 2, 2], [1, 4, 4], "aten::pixel_shuffle", lambda m: [m.integer(1 << 32)], "ESHAPE factor")
    hostile("unshuffle", [1, 2, 0], [1, 1, 0], "aten::pixel_unshuffle", lambda m: [m.integer(1 << 62)], "ESHAPE factor")
    hostile("unfold", [2, 3], [2, 1, 3], "aten::unfold_copy",
            lambda m: [m.integer(1), m.integer(3), m.integer(huge)], [1] * 6)
    hostile("diagonal", [2, 3], [0], "aten::diagonal_copy",
            lambda m: [m.integer(least), m.integer(0), m.integer(1)], [])
    hostile("pool_lists", [1, 2, 2, 2], [1, 1, 1, 1], "aten::avg_pool3d",
            lambda m: [m.ints([2, 2]), m.ints([]), m.ints([0]), m.boolean(False), m.boolean(True), m.none()],
            "ESHAPE 2 numbers for 3 dimensions")
    hostile("pool_padding", [1, 2, 2], [1, 1, 1], "aten::avg_pool2d",
            lambda m: [m.ints([2, 2]), m.ints([]), m.ints([huge]), m.boolean(False), m.boolean(True), m.none()],
            "EINVAL a window")
    for what, scale in ("small", 1e-300), ("large", 1e300):
        hostile(f"scale_{what}", [1, 1, 2], [1, 1, 2], "aten::upsample_nearest1d",
                lambda m: [m.ints([2]), m.real(scale)], "EINVAL a scale")


def values():
    """Integers in and out, with Python's rules for floor division and remainder."""
    p, g = single()
    n = g.input_value("n")
    x, y = g.input("x", "f32", [1]), g.output("y", "f32", [Dim(64)])
    made = [g.value() for _ in range(5)]
    for name, v, b in zip(("add_int", "subtract_int", "multiply_int", "floor_divide_int", "mod_int"),
                          made, (2, 9, 3, 4, 4)):
        g.main.op(name, a=n, b=b, out=v)
        g.output_value(v)
    g.main.op("broadcast_to", x=x, shape=[made[0]], out=y)
    calls = []
    for v in (5, -1):
        ints = [("int", [], [r]) for r in (v + 2, v - 9, v * 3, v // 4, v % 4)]
        calls.append(([("int", [], [v]), f32([1], [2])], [f32([v + 2], [2] * (v + 2))] + ints))
    calls.append(([("int", [], [1 << 30]), f32([1], [2])], "EINVAL does not fit 32 bits"))
    save(p, "values", *calls)


def two_inputs():
    p, g = single()
    a, b = g.input("first", "f32", [2, 3]), g.input("second", "i64", [3])
    g.main.op("add", a=a, b=b, out=g.output("y", "f32", [2, 3]))
    first, second = f32([2, 3], [1, 2, 3, 4, 5, 6]), ("i64", [3], [10, 20, 30])
    save(p, "two_inputs", ([first, second], [f32([2, 3], [11, 22, 33, 14, 25, 36])]),
         ([first], "EINVAL 1 inputs, method forward takes 2"),
         ([first, second, second], "EINVAL 3 inputs, method forward takes 2"),
         ([second, first], "EINVAL input 0: dtype i64, expected f32"),
         ([f32([2, 4], [0] * 8), second], "EINVAL input 0: dimension 1 has 4, expected 3"),
         ([f32([6], [0] * 6), second], "EINVAL input 0: 1 dimensions, expected 2"),
         ([first, ("i32", [3], [1, 2, 3])], "EINVAL input 1: dtype i32, expected i64"),
         ([first, ("int", [], [3])], "EINVAL input 1: an integer, expected a tensor"),
         ([first, second], [f32([2, 3], [11, 22, 33, 14, 25, 36])]))


def alignments():
    """Constants at any address: the file gives bytes, not elements."""
    p, g = single()
    x, y = g.input("x", "f32", [3]), g.output("y", "f32", [3])
    t = g.temp()
    pad = g.constant("a_pad", "u8", [3], [1, 2, 3], align=1)
    half = g.constant("b_half", "bf16", [3], [1, 2, 3], align=1)
    wide_ = g.constant("c_wide", "f32", [3], [0.5, 0.25, 0.125], align=2)
    g.main.op("multiply", a=x, b=half, out=t)
    g.main.op("add", a=t, b=wide_, out=t)
    g.main.op("add", a=t, b=pad, out=y)
    save(p, "constants_unaligned", ([f32([3], [1, 1, 1])], [f32([3], [2.5, 4.25, 6.125])]))


def external():
    """Its weights are in external.ptd."""
    p, g = single()
    w = g.constant("far/w", "f32", [4], [1, 2, 3, 4], external=True)
    k = g.constant("near/k", "f32", [4], [5, 6, 7, 8])
    x, y, t = g.input("x", "f32", [4]), g.output("y", "f32", [4]), g.temp()
    g.main.op("multiply", a=x, b=w, out=t)
    g.main.op("add", a=t, b=k, out=y)
    p.write_data(OUT / "external.ptd")
    save(p, "external", ([f32([4], [1, 1, 2, 2])], [f32([4], [6, 8, 13, 16])]))


def casts():
    """The method's output dtype is not the graph's; a constant, an input and a buffer as outputs."""
    p, g = single()
    x = g.input("x", "f32", [4])
    i, a = g.output("i", "u32", [], as_dtype="i64"), g.output("a", "f32", [4])
    b, c = g.output("b", "f32", [2]), g.output("c", "f32", [4])
    k, s, one = (g.constant("k", "f32", [2], [3, 4]), g.buffer("s", "f32", [4]),
                 g.constant("one", "f32", [1], [1]))
    g.main.op("argmax", x=x, axis=0, out=i)
    g.main.op("id_copy", x=x, out=a)
    g.main.op("id_copy", x=k, out=b)
    g.main.op("id_copy", x=s, out=c)
    g.main.op("add", a=s, b=one, out=s)
    x = [1, 9, 2, 3]
    save(p, "outputs_as_they_are",
         *(([f32([4], x)], [("i64", [], [1]), f32([4], x), f32([2], [3, 4]), f32([4], [n] * 4)])
           for n in range(2)))


def sound():
    nested()
    carry_before()
    scan_axis()
    recycle()
    view_of_view("state_view_assign", False)
    view_of_view("state_view_add", True)
    updates()
    in_place()
    into_another()
    invariant()
    flags()
    length_bound()
    next_token("next_token", 8, "get_max_seq_len")
    next_token("next_token_single", 1, "get_max_context_len")
    attend()
    decode()
    two_methods()
    two_delegates()
    called_twice()
    temporary()
    copies()
    hostile_numbers()
    values()
    two_inputs()
    alignments()
    external()
    casts()


# ---- malformed ------------------------------------------------------------------------------------------------

def bad(name, status, words, change, stage="load"):
    """A small sound program, with one thing changed."""
    p, g = single()
    g.x, g.y = g.input("x", "f32", [2, 2]), g.output("y", "f32", [2, 2])
    g.w, g.t = g.constant("w", "f32", [2], [1, 2]), g.temp()
    g.main.op("multiply", a=g.x, b=g.w, out=g.t)
    change(p, g)
    if g.main.nodes[-1][0] == 19:
        g.main.op("neg", x=g.t, out=g.y)
    p.write(OUT / f"bad_{name}.pte")
    BAD.append(f"bad_{name} {stage} {status} {words}")


def bad_chains():
    def cycle(p, g):
        c = g.chain()
        c.op("if", cond=1, then_chain_idx=c, else_chain_idx=c)

    def long_cycle(p, g):
        chains = [g.chain() for _ in range(3)]
        for i, c in enumerate(chains):
            c.op("noop")
            c.op("if", cond=0, then_chain_idx=chains[i], else_chain_idx=chains[(i + 1) % 3])

    def scan_main(p, g):
        g.main.op("scan", originals=[g.x], sliced=[g.t], outputs=[], carry=[], body_chain_idx=0)

    def deep(p, g):
        chains = [g.main] + [g.chain() for _ in range(65)]
        for a, b in zip(chains, chains[1:]):
            a.op("if", cond=1, then_chain_idx=b, else_chain_idx=chains[-1])

    def steps(p, g):
        chains = [g.main] + [g.chain() for _ in range(24)]
        for a, b in zip(chains, chains[1:]):
            a.op("if", cond=1, then_chain_idx=b, else_chain_idx=b)

    def body_writes(p, g):
        c, other = g.chain(), g.chain()
        other.op("neg", x=g.x, out=g.w)
        c.op("if", cond=1, then_chain_idx=other, else_chain_idx=other)
        g.main.op("if", cond=1, then_chain_idx=c, else_chain_idx=c)

    bad("chain_cycle", "EFORMAT", "leads back", cycle)
    bad("chain_cycle_long", "EFORMAT", "leads back", long_cycle)
    bad("chain_cycle_main", "EFORMAT", "leads back", scan_main)
    bad("chain_deep", "EUNSUPPORTED", "64", deep)
    bad("chain_steps", "EUNSUPPORTED", "1000000", steps)
    bad("chain_range", "EFORMAT", "chain 7, the program has 1",
        lambda p, g: g.main.op("if", cond=1, then_chain_idx=7, else_chain_idx=0))
    bad("chain_negative", "EFORMAT", "chain -1", lambda p, g: g.main.op(
        "scan", originals=[g.x], sliced=[g.t], outputs=[], carry=[], body_chain_idx=0xFFFFFFFF))
    bad("chain_main", "EFORMAT", "main is 1", lambda p, g: g.override.update({8: ("I", 1)}))
    bad("chain_init", "EFORMAT", "init is 5", lambda p, g: g.override.update({9: ("i", 5)}))
    bad("chain_none", "EFORMAT", "there are 0", lambda p, g: g.override.update({7: None}))
    bad("constant_written", "EFORMAT", "only the init chain",
        lambda p, g: g.main.op("neg", x=g.w, out=g.w))
    bad("constant_written_below", "EFORMAT", "only the init chain", body_writes)


def bad_nodes():
    def add(**fields):
        return lambda p, g: g.main.op("add", **{k: v(g) if callable(v) else v
                                                for k, v in fields.items()})

    def at(number):
        t = Tensor(None, None, 0)
        t.__class__ = type("Number", (Tensor,), {"tid": number})
        return t

    def constant_of(code):
        def change(p, g):
            meta = [Table({0: [Table({0: ("i", 2)})], 1: ("b", c)}) for c in (code, 6, 6)]
            g.override[14] = meta
        return change

    bad("node_137", "EUNSUPPORTED", "node type 137", lambda p, g: g.main.raw(137, Table()))
    bad("node_255", "EUNSUPPORTED", "node type 255", lambda p, g: g.main.raw(255, Table()))
    bad("node_no_table", "EFORMAT", "no table", lambda p, g: g.main.raw(13))
    bad("field_missing", "EFORMAT", "(AddNode), field 'b'", add(a=lambda g: g.x, out=lambda g: g.t))
    bad("tensor_range", "EFORMAT", "tensor 4, the program has 4",
        add(a=at(4), b=at(0), out=lambda g: g.t))
    bad("out_range", "EFORMAT", "field 'out': tensor 4294967295",
        add(a=at(0), b=at(0), out=at(0xFFFFFFFF)))
    bad("value_range", "EFORMAT", "value 0, the program has 0",
        lambda p, g: g.main.op("sym_size", a=g.x, dim=0, out=0))
    bad("list_empty", "EFORMAT", "empty list",
        lambda p, g: g.main.op("concatenate", tensors=[], axis=0, out=g.t))
    bad("list_range", "EFORMAT", "tensor 9",
        lambda p, g: g.main.op("stack", tensors=[at(9)], axis=0, out=g.t))
    bad("scan_counts", "EFORMAT", "'sliced': 2 entries for 1 originals", lambda p, g: g.main.op(
        "scan", originals=[g.x], sliced=[g.t, g.y], outputs=[], carry=[],
        body_chain_idx=g.chain()))
    bad("shape_rank", "EUNSUPPORTED", "9 entries", lambda p, g: g.main.op(
        "full", shape=[1] * 9, v=0.0, scalar_type="f32", out=g.t))
    bad("node_dtype", "EUNSUPPORTED", "scalar type 7",
        lambda p, g: g.main.op("as_type", x=g.x, scalar_type="f64", out=g.t))
    bad("index_kind", "EFORMAT", "kind 3", lambda p, g: g.main.raw(8, Table(
        {0: ("I", 1), 1: ("I", 3), 2: Table({3: ("B", 3)})})))
    bad("vid_missing", "EFORMAT", "required", lambda p, g: g.main.raw(14, Table(
        {0: Table({2: ("?", True)}), 1: int_or_vid(1), 2: ("I", 0)})))
    bad("meta_dtype", "EUNSUPPORTED", "tensor 0: there is no dtype for scalar type 7", constant_of(7))
    bad("meta_dtype_negative", "EUNSUPPORTED", "scalar type 255", constant_of(-1))


def bad_slots():
    def meta(index, table):
        def change(p, g):
            tables = [Table({0: [Table({0: ("i", 2)})], 1: ("b", 6)}) for _ in range(3)]
            tables[index] = table
            g.override[14] = tables
        return change

    def buffer_dynamic(p, g):
        g.buffer("s", "f32", [Dim(4)])

    def slot(field, *slots):
        return lambda p, g: g.override.update(
            {field: [Table({0: ("I", n), 1: ("b", kind)}) for n, kind in slots]})

    def dims(*values):
        return Table({0: [Table({0: ("i", v)}) for v in values], 1: ("b", 6)})

    bad("version_2", "EUNSUPPORTED", "schema version 2", lambda p, g: g.override.update({0: "2"}))
    bad("version_text", "EFORMAT", "is no number", lambda p, g: g.override.update({0: "one"}))
    bad("tensors_many", "EUNSUPPORTED", "1000000", lambda p, g: g.override.update({5: ("I", 1 << 30)}))
    bad("temps_many", "EFORMAT", "999000 temporaries",
        lambda p, g: g.override.update({5: ("I", 999000)}))
    bad("values_many", "EUNSUPPORTED", "1000000",
        lambda p, g: g.override.update({6: ("I", 0xFFFFFFFF)}))
    bad("meta_count", "EFORMAT", "'tensor_meta': 2 entries for 3",
        lambda p, g: g.override.update({14: [dims(2), dims(2)]}))
    bad("meta_no_shape", "EFORMAT", "tensor 1: has no shape", meta(1, Table({1: ("b", 6)})))
    bad("meta_rank", "EUNSUPPORTED", "rank 9", meta(1, dims(*[1] * 9)))
    bad("meta_order", "EUNSUPPORTED", "memory order", meta(0, Table(
        {0: [Table({0: ("i", 2)})] * 2, 1: ("b", 6), 2: Vector("B", [1, 0])})))
    bad("meta_negative", "EFORMAT", "dimension 0 is -5", meta(1, dims(-5)))
    bad("constant_dynamic", "EFORMAT", "constant 0: dimension 0 is -1", meta(0, dims(-1)))
    bad("constant_huge", "EFORMAT", "overflows", meta(0, dims(*[1 << 30] * 3)))
    bad("constant_size", "EFORMAT", "w", meta(0, dims(3)), stage="handle")
    bad("buffer_dynamic", "EFORMAT", "mutable buffer 3: dimension 0 is -1", buffer_dynamic)
    bad("input_of_constant", "EFORMAT", "'input_map': tensor 0", slot(10, (0, 0)))
    bad("input_float", "EUNSUPPORTED", "slot of type 2", slot(10, (0, 2)))
    bad("output_range", "EFORMAT", "'output_map': tensor 4", slot(11, (4, 0)))
    bad("output_value_range", "EFORMAT", "value 0, the graph has 0", slot(11, (0, 1)))
    bad("buffers_count", "EFORMAT", "'mutable_buffer_map'", slot(12, (1, 0)))
    bad("constant_no_name", "EFORMAT", "constant 0 has no name",
        lambda p, g: g.override.update({13: None}))
    bad("constant_two_names", "EFORMAT", "two names", lambda p, g: g.override.update(
        {13: [Table({0: n, 1: Table({0: ("I", 0)})}) for n in ("w", "v")]}))
    bad("constant_not_in_file", "EFORMAT", "nowhere", lambda p, g: g.override.update(
        {13: [Table({0: "nowhere", 1: Table({0: ("I", 0)})})]}), stage="handle")


def bad_files():
    def metal(p, g):
        g.main.op("metal_kernel", name="no_such_kernel", source="", inputs=[g.x], outputs=[g.t],
                  grid=[1, 1, 1], threadgroup=[1, 1, 1], output_shapes_flat=[2, 2],
                  output_shape_lengths=[2], output_dtypes=[6])

    def metal_counts(p, g):
        g.main.op("metal_kernel", name="vadd", source="", inputs=[g.x], outputs=[g.t],
                  grid=[1, 1, 1], threadgroup=[1, 1, 1], output_shapes_flat=[2],
                  output_shape_lengths=[2], output_dtypes=[6])

    def operator(p, g):
        g.method.kernel("aten::no_such_operator", "out", [0, 1])

    def plan(**fields):
        def change(p, g):
            numbers = {"inputs": 3, "outputs": 4, "chains": 5}
            table = g.method.table(1)
            table.update({numbers[k]: v for k, v in fields.items()})
            p.override[1] = [table]
        return change

    call = Table({2: [Table({0: ("B", 2), 1: Table({0: ("i", 1), 1: Vector("i", [0])})})]})
    args = Table({2: [Table({0: ("B", 2), 1: Table({0: ("i", 0), 1: Vector("i", [0, 9])})})]})
    jump = Table({2: [Table({0: ("B", 4), 1: Table({0: ("i", 0), 1: ("i", 2)})})]})
    kind = Table({2: [Table({0: ("B", 6), 1: Table()})]})
    bad("program_version", "EUNSUPPORTED", "schema version 1",
        lambda p, g: p.override.update({0: ("I", 1)}))
    bad("metal_unknown", "EUNSUPPORTED", "no_such_kernel", metal, stage="handle")
    bad("metal_counts", "EFORMAT", "'output_shapes_flat': 1 entries for 2", metal_counts)
    bad("operator_unknown", "EUNSUPPORTED", "aten::no_such_operator", operator, stage="handle")
    bad("plan_input", "EFORMAT", "value 2, there are 2", plan(inputs=Vector("i", [2])))
    bad("plan_output", "EFORMAT", "value -1", plan(outputs=Vector("i", [-1])))
    bad("plan_delegate", "EFORMAT", "delegate 1, there are 1", plan(chains=[call]))
    bad("plan_args", "EFORMAT", "value 9", plan(chains=[args]))
    bad("plan_jump", "EFORMAT", "instruction 2, there are 2", plan(chains=[jump]))
    bad("plan_kind", "EUNSUPPORTED", "kind 6", plan(chains=[kind]))
    bad("segment", "EFORMAT", "segment 0", lambda p, g: p.override.update(
        {4: [Table({0: ("Q", 0), 1: ("Q", 1 << 40)})]}))
    bad("name_twice", "EFORMAT", "'w' appears twice", lambda p, g: p.override.update(
        {7: [Table({0: "w", 1: ("I", 0)})] * 2}))
    bad("name_segment", "EFORMAT", "'w': segment 9", lambda p, g: p.override.update(
        {7: [Table({0: "w", 1: ("I", 9)})]}))
    body = (OUT / "th14_item.pte").read_bytes()
    for name, status, words, content in (
            ("empty", "EFORMAT", "0 bytes", b""),
            ("not_a_program", "EFORMAT", "no program", b"GGUF" * 20),
            ("identifier", "EUNSUPPORTED", "'ET13'", body[:4] + b"ET13" + body[8:]),
            ("header", "EFORMAT", "its header", body[:16] + struct.pack("<Q", 1 << 60) + body[24:]),
            ("root", "EFORMAT", "out of the buffer", b"\xff" * 4 + body[4:])):
        (OUT / f"bad_{name}.pte").write_bytes(content)
        BAD.append(f"bad_{name} load {status} {words}")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in list(OUT.glob("*.pte")) + list(OUT.glob("*.ptd")):
        old.unlink()
    thresholds()
    sound()
    bad_chains()
    bad_nodes()
    bad_slots()
    bad_files()
    (OUT / "cases.txt").write_text("\n".join(CASES) + "\n", encoding="utf-8")
    (OUT / "bad.txt").write_text("\n".join(BAD) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
