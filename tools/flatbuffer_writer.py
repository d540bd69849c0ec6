"""Writes flatbuffers: the few things that test files need. Standard library only.

A value is a scalar (struct format, number), a Table, a Vector of scalars, text, bytes, or a list of
tables or texts. Children are written behind their parents, so every offset is positive.
"""
import struct
from collections import deque


class Table(dict):
    """Field number -> value; None: absent."""


class Vector:
    def __init__(self, kind, items):
        self.kind, self.items = kind, list(items)


class Flatbuffer:
    def __init__(self, root, head=bytes(4)):
        """`head` begins with the place of the root's offset."""
        self.out, self.waiting = bytearray(head), deque([(0, root)])
        while self.waiting:
            place, value = self.waiting.popleft()
            struct.pack_into("<I", self.out, place, self.put(value) - place)

    def align(self, to, shift=0):
        self.out.extend(bytes(-(len(self.out) + shift) % to))
        return len(self.out)

    def put(self, value):
        if isinstance(value, Table):
            return self.put_table(value)
        if isinstance(value, (str, bytes)):
            data = value.encode() if isinstance(value, str) else value
            at = self.align(16, 4)
            self.out.extend(struct.pack("<I", len(data)) + data + b"\0")
            return at
        scalars = isinstance(value, Vector)
        items, kind = (value.items, value.kind) if scalars else ([0] * len(value), "I")
        at = self.align(8, 4)
        self.out.extend(struct.pack(f"<I{len(items)}{kind}", len(items), *items))
        if not scalars:
            self.waiting.extend((at + 4 + 4 * i, v) for i, v in enumerate(value))
        return at

    def put_table(self, table):
        fields = {n: v for n, v in table.items() if v is not None}
        sizes = {n: struct.calcsize("<" + v[0]) if isinstance(v, tuple) else 4
                 for n, v in fields.items()}
        offsets, end = {}, 4
        for n in sorted(fields, key=lambda n: -sizes[n]):
            end += -end % sizes[n]
            offsets[n], end = end, end + sizes[n]
        entries = [offsets.get(n, 0) for n in range(max(fields, default=-1) + 1)]
        vtable = self.align(2)
        self.out.extend(struct.pack(f"<HH{len(entries)}H", 4 + 2 * len(entries), end, *entries))
        at = self.align(8)
        self.out.extend(struct.pack("<i", at - vtable) + bytes(end - 4))
        for n, v in fields.items():
            if isinstance(v, tuple):
                struct.pack_into("<" + v[0], self.out, at + offsets[n], v[1])
            else:
                self.waiting.append((at + offsets[n], v))
        return at
