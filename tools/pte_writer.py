"""Writes ExecuTorch program files (.pte) with MLX delegates, for tests. Standard library only.

    p = Program()
    m = p.method("forward")
    g = m.graph()                                  # a delegate; its call is added to the method
    x, y = g.input("x", "f32", [Dim(8), 4]), g.output("y", "f32", [Dim(8), 4])
    w, t = g.constant("w", "f32", [4], [1, 2, 3, 4]), g.temp()
    g.main.op("multiply", a=x, b=w, out=t)         # names and fields of src/program/nodes.def
    g.main.op("neg", x=t, out=y)
    p.write("test.pte")

The node table is read from nodes.def, so there is one list. Fields that are not given are left out of
the file. Whatever a test of refusals needs goes through `override` (field number -> value) of a
graph or the program.
"""
import re
import struct
from pathlib import Path

from flatbuffer_writer import Flatbuffer, Table, Vector

NODES_DEF = Path(__file__).resolve().parent.parent / "src" / "program" / "nodes.def"
SCALAR_TYPES = {"u8": (0, 1, "B"), "i8": (1, 1, "b"), "i16": (2, 2, "h"), "i32": (3, 4, "i"),
                "i64": (4, 8, "q"), "f16": (5, 2, "e"), "f32": (6, 4, "f"), "f64": (7, 8, "d"),
                "bool": (11, 1, "?"), "bf16": (15, 2, None), "u32": (28, 4, "I")}


def bytes_of(dtype, data):
    """Bytes of a tensor: from bytes, numbers, or anything that has tobytes()."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if hasattr(data, "tobytes"):
        return data.tobytes()
    if dtype == "bf16":
        bits = (struct.unpack("<I", struct.pack("<f", v))[0] for v in data)
        return b"".join(struct.pack("<H", (b + 0x7FFF + (b >> 16 & 1)) >> 16) for b in bits)
    return struct.pack(f"<{len(data)}{SCALAR_TYPES[dtype][2]}", *data)


def size_of(dtype, shape):
    n = SCALAR_TYPES[dtype][1]
    for extent in shape:
        n *= extent
    return n


# ---- nodes ------------------------------------------------------------------------------------------

def read_node_types():
    text = re.sub(r"/\*.*?\*/", "", NODES_DEF.read_text(encoding="utf-8"), flags=re.S)
    types = {}
    for m in re.finditer(r'NODE_BEGIN\((\d+), (\w+), "(\w+)"\)(.*?)NODE_END', text, re.S):
        fields = re.findall(r"(\w+)\((\w+)", m[4])
        types[m[2]] = types[m[3]] = (int(m[1]), [(name, kind) for kind, name in fields])
    return types


NODE_TYPES = read_node_types()


class Tensor:
    def __init__(self, graph, kind, index):
        self.graph, self.kind, self.index = graph, kind, index

    @property
    def tid(self):
        return self.graph.first(self.kind) + self.index


class Value:
    def __init__(self, vid):
        self.vid = vid


class Dim:
    """A dimension that is set at run time."""
    def __init__(self, most, least=0):
        self.most, self.least = most, least


def number_of(v):
    return v.tid if isinstance(v, Tensor) else v.vid if isinstance(v, Value) else v


def int_or_vid(v):
    if isinstance(v, Value):
        return Table({1: ("I", v.vid), 2: ("?", True)})
    return Table({0: ("q", v)})


def index_table(v):
    if isinstance(v, Tensor):
        return Table({2: ("I", v.tid), 3: ("B", 2)})
    if isinstance(v, Value):
        return Table({1: ("I", v.vid), 3: ("B", 1)})
    return Table({0: ("q", v)})


def vid_or_tid(v):
    if isinstance(v, Value):
        return Table({0: ("I", v.vid), 2: ("?", True)})
    return Table({1: ("I", v.tid)})


def encode_field(kind, v):
    if kind in ("TID", "OPT_TID", "OUT", "OUT_VID", "OPT_VID"):
        return ("I", number_of(v))
    if kind in ("TIDS", "OUTS"):
        return Vector("I", map(number_of, v))
    if kind in ("INT", "OPT_INT"):
        return int_or_vid(v)
    if kind in ("INTS", "OPT_INTS"):
        return [int_or_vid(e) for e in v]
    if kind == "FLOAT":
        return int_or_vid(v) if isinstance(v, Value) else Table({0: ("d", v)})
    if kind == "VID_OR_TID":
        return vid_or_tid(v)
    if kind == "INDEX":
        return index_table(v)
    if kind in ("I32S", "OPT_I32S", "I8S"):
        return Vector("b" if kind == "I8S" else "i", v)
    if kind in ("DTYPE", "OPT_DTYPE"):
        return ("b", SCALAR_TYPES[v][0] if isinstance(v, str) else v)
    if kind == "CHAIN":
        return ("I", v.index if isinstance(v, Chain) else v)
    if kind in ("STRING", "OPT_STRING"):
        return v
    if kind == "STRINGS":
        return list(v)
    return ({"I32": "i", "OPT_I32": "i", "U64": "Q", "F32": "f", "OPT_F32": "f", "BOOL": "?"}[kind], v)


class Chain:
    def __init__(self, index):
        self.index, self.nodes = index, []

    def op(self, type_name, **fields):
        number, known = NODE_TYPES[type_name]
        unknown = set(fields) - {name for name, _ in known}
        if unknown:
            raise KeyError(f"{type_name} has no field {', '.join(sorted(unknown))}")
        self.nodes.append((number, known, fields))

    def raw(self, number, table=None):
        """An instruction of any number; without a table, a null one."""
        self.nodes.append((number, None, table))

    def table(self):
        instructions = []
        for number, known, fields in self.nodes:
            node = fields if known is None else Table(
                {i: encode_field(kind, fields[name]) for i, (name, kind) in enumerate(known)
                 if fields.get(name) is not None})
            instructions.append(Table({0: ("B", number), 1: node}))
        return Table({0: instructions})


# ---- a delegate's graph -----------------------------------------------------------------------------

KINDS = ("constant", "input", "output", "buffer", "temp")


class Graph:
    def __init__(self, method):
        self.method, self.counts, self.n_values = method, dict.fromkeys(KINDS, 0), 0
        self.meta = {kind: [] for kind in KINDS}
        self.names, self.slots, self.override = [], {"input": [], "output": []}, {}
        self.args = {"input": [], "output": []}  # value numbers of the method
        self.chains, self.init = [], None
        self.main = self.chain()

    def first(self, kind):
        return sum(self.counts[k] for k in KINDS[:KINDS.index(kind)])

    def chain(self, init=False):
        chain = Chain(len(self.chains))
        self.chains.append(chain)
        if init:
            self.init = chain.index
        return chain

    def value(self):
        self.n_values += 1
        return Value(self.n_values - 1)

    def tensor(self, kind, name, dtype, shape):
        t = Tensor(self, kind, self.counts[kind])
        self.counts[kind] += 1
        self.meta[kind].append((dtype, shape))
        self.names.append((name, t))
        return t

    def temp(self):
        self.counts["temp"] += 1
        return Tensor(self, "temp", self.counts["temp"] - 1)

    def constant(self, name, dtype, shape, data=None, **options):
        """Without data: of that name already in the program. Options: see Program.data."""
        if data is not None:
            self.method.program.data(name, dtype, shape, data, **options)
        return self.tensor("constant", name, dtype, shape)

    def buffer(self, name, dtype, shape):
        return self.tensor("buffer", name, dtype, shape)

    def input(self, name, dtype, shape, value=None):
        """`value`: of the method, for what another part of it wrote; else an input of the method."""
        return self.port("input", name, dtype, shape, value, self.method.inputs)

    def output(self, name, dtype, shape, value=None, as_dtype=None):
        return self.port("output", name, dtype, shape, value, self.method.outputs, as_dtype)

    def port(self, kind, name, dtype, shape, value, of_method, as_dtype=None):
        t = self.tensor(kind, name, dtype, shape)
        if value is None:
            value = self.method.tensor(as_dtype or dtype, shape)
            of_method.append(value)
        self.slots[kind].append(t)
        self.args[kind].append(value)
        return t

    def input_value(self, name):
        """An integer input."""
        v = self.value()
        self.names.append((name, v))
        self.slots["input"].append(v)
        self.args["input"].append(self.method.integer(0))
        self.method.inputs.append(self.args["input"][-1])
        return v

    def output_value(self, value):
        """An integer output: of a value that the graph computes."""
        self.slots["output"].append(value)
        self.args["output"].append(self.method.integer(0))
        self.method.outputs.append(self.args["output"][-1])

    def payload(self):
        def slot(v):
            return Table({0: ("I", number_of(v)), 1: ("b", 1) if isinstance(v, Value) else None})

        def meta(dtype, shape):
            dims = [Table({1: ("i", d.least), 2: ("i", d.most)}) if isinstance(d, Dim)
                    else Table({0: ("i", d)}) for d in shape]
            return Table({0: dims, 1: ("b", SCALAR_TYPES[dtype][0]),
                          2: Vector("B", range(len(shape)))})

        buffers = [Tensor(self, "buffer", i) for i in range(self.counts["buffer"])]
        root = Table({0: "1", **{1 + i: ("I", self.counts[k]) for i, k in enumerate(KINDS)},
                      6: ("I", self.n_values), 7: [c.table() for c in self.chains],
                      9: None if self.init is None else ("i", self.init),
                      10: [slot(v) for v in self.slots["input"]],
                      11: [slot(v) for v in self.slots["output"]], 12: [slot(t) for t in buffers],
                      13: [Table({0: name, 1: slot(v)}) for name, v in self.names],
                      14: [meta(*m) for kind in KINDS for m in self.meta[kind]]})
        root.update(self.override)
        body = bytes(Flatbuffer(root).out)
        body += bytes(-len(body) % 16 + 8)  # the header's 24 bytes come before it
        return struct.pack("<I4sQQ", 0, b"MLX0", 24 + len(body), 0) + body


# ---- the container ------------------------------------------------------------------------------------

class Method:
    def __init__(self, program, name):
        self.program, self.name = program, name
        self.values, self.inputs, self.outputs = [], [], []
        self.operators, self.delegates, self.instructions = [], [], []

    def add(self, kind, table):
        self.values.append(Table({0: ("B", kind), 1: table}))
        return len(self.values) - 1

    def tensor(self, dtype, shape):
        dynamic = any(isinstance(d, Dim) for d in shape)
        sizes = [d.most if isinstance(d, Dim) else d for d in shape]
        return self.add(5, Table({0: ("b", SCALAR_TYPES[dtype][0]), 2: Vector("i", sizes),
                                  3: Vector("B", range(len(sizes))), 6: Table({0: ("I", 1)}),
                                  8: ("b", 1) if dynamic else None}))

    def integer(self, v):
        return self.add(2, Table({0: ("q", v)}))

    def real(self, v):
        return self.add(4, Table({0: ("d", v)}))

    def boolean(self, v):
        return self.add(3, Table({0: ("?", v)}))

    def none(self):
        return self.add(1, Table({}))

    def string(self, v):
        return self.add(6, Table({0: v}))

    def ints(self, numbers):
        return self.add(7, Table({0: Vector("q", [self.integer(v) for v in numbers])}))

    def reals(self, numbers):
        return self.add(8, Table({0: Vector("d", numbers)}))

    def tensors(self, values, optional=False):
        """A list of tensors by their value numbers; -1 is an absent one."""
        return self.add(11 if optional else 10, Table({0: Vector("i", values)}))

    def graph(self):
        g = Graph(self)
        self.delegates.append(g)
        index = len(self.delegates) - 1
        self.instructions.append((2, lambda: Table(
            {0: ("i", index), 1: Vector("i", g.args["input"] + g.args["output"])})))
        return g

    def kernel(self, name, overload, args):
        """A portable operator; `args` are value numbers."""
        if (name, overload) not in self.operators:
            self.operators.append((name, overload))
        table = Table({0: ("i", self.operators.index((name, overload))), 1: Vector("i", args)})
        self.instructions.append((1, lambda: table))

    def table(self, first_segment):
        delegates = [Table({0: "MLXBackend", 1: Table({0: ("b", 1), 1: ("I", first_segment + i)})})
                     for i in range(len(self.delegates))]
        chain = Table({2: [Table({0: ("B", kind), 1: make()}) for kind, make in self.instructions]})
        return Table({0: self.name, 2: self.values, 3: Vector("i", self.inputs),
                      4: Vector("i", self.outputs), 5: [chain], 7: delegates, 8: Vector("q", [0, 0]),
                      6: [Table({0: n, 1: o}) for n, o in self.operators]})


class Program:
    def __init__(self):
        self.methods, self.constants, self.override = [], {}, {}

    def method(self, name):
        self.methods.append(Method(self, name))
        return self.methods[-1]

    def data(self, name, dtype, shape, data, align=128, external=False):
        """Named data: bytes, numbers, an array, or a function that yields pieces of bytes (for what
        should not be held in memory). External: goes to write_data's file, not to write's."""
        if callable(data):
            self.constants[name] = (size_of(dtype, shape), data, align, external)
        else:
            content = bytes_of(dtype, data)
            self.constants[name] = (len(content), lambda: [content], align, external)

    def place(self, payloads, external):
        """Segments (bytes, pieces, align, name), each with its offset, and where all of it ends."""
        parts = [(len(b), lambda b=b: [b], 128, None) for b in payloads]
        parts += [(n, pieces, align, name)
                  for name, (n, pieces, align, ext) in self.constants.items() if ext == external]
        placed, end = [], 0
        for part in parts:
            end += -end % part[2]
            placed.append((end, part))
            end += part[0]
        return placed, end

    def tables(self, placed):
        segments = [Table({0: ("Q", at), 1: ("Q", part[0])}) for at, part in placed]
        named = [Table({0: part[3], 1: ("I", i)}) for i, (_, part) in enumerate(placed) if part[3]]
        return segments, named

    def write(self, path):
        payloads = [g.payload() for m in self.methods for g in m.delegates]
        placed, end = self.place([b""] + payloads, False)
        segments, named = self.tables(placed)
        plans, first = [], 1
        for m in self.methods:
            plans.append(m.table(first))
            first += len(m.delegates)
        root = Table({1: plans, 4: segments, 5: Table({1: Vector("Q", [])}), 7: named})
        root.update(self.override)
        body = Flatbuffer(root, bytes(4) + b"ET12" + bytes(32)).out
        base = len(body) + -len(body) % 128
        struct.pack_into("<4sIQQQ", body, 8, b"eh00", 32, len(body), base, end)
        self.put_file(path, body, base, placed)

    def write_data(self, path):
        """A .ptd file of what is external."""
        placed, end = self.place([], True)
        segments, named = self.tables(placed)
        body = Flatbuffer(Table({1: segments, 2: named}), bytes(4) + b"FT01" + bytes(40)).out
        base = len(body) + -len(body) % 128
        struct.pack_into("<4sIQQQQ", body, 8, b"FH01", 40, 48, len(body) - 48, base, end)
        self.put_file(path, body, base, placed)

    @staticmethod
    def put_file(path, body, base, placed):
        with open(path, "wb") as f:
            f.write(body)
            for at, part in placed:
                f.write(bytes(base + at - f.tell()))
                for piece in part[1]():
                    f.write(piece)
