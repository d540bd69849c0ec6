#!/usr/bin/env python3
"""Tensors in files, for the tests of programs: .npy and .bin lists, with Python's own library only.

    make FILE.npy DTYPE SHAPE VALUE...      SHAPE as 2,3 or - for a single element
    list FILE.bin FILE.npy...               puts arrays into a list
    show FILE                               a line for each tensor: dtype, shape, values
    near GOT WANT LIMIT                     rms error over rms of what is wanted, of each tensor
"""
import array
import math
import struct
import sys

DESCR = {"f32": "<f4", "f16": "<f2", "i32": "<i4", "i64": "<i8", "bf16": "<u2", "bool": "|b1", "u8": "|u1",
         "f64": "<f8"}
CODES = ["f32", "f16", "i32", "i64", "bf16", "bool", "u8"]
LETTER = {"f32": "f", "f16": "e", "i32": "i", "i64": "q", "bf16": "H", "bool": "B", "u8": "B", "f64": "d"}


def size(dtype):
    return struct.calcsize(LETTER[dtype])


def pack(dtype, values):
    if dtype == "bf16":
        values = [struct.unpack("<I", struct.pack("<f", float(v)))[0] >> 16 for v in values]
    else:
        values = [float(v) if LETTER[dtype] in "fed" else int(v) for v in values]
    return struct.pack(f"<{len(values)}{LETTER[dtype]}", *values)


def unpack(dtype, data):
    values = array.array("H" if dtype == "bf16" else LETTER[dtype], data) if dtype != "f16" else \
        struct.unpack(f"<{len(data) // 2}e", data)
    if dtype == "bf16":
        return [struct.unpack("<f", struct.pack("<I", v << 16))[0] for v in values]
    return list(values)


def write_npy(path, dtype, shape, data):
    head = f"{{'descr': '{DESCR[dtype]}', 'fortran_order': False, 'shape': ({''.join(f'{n},' for n in shape)}), }}"
    head = head.ljust(117) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def read_npy(data):
    end = 10 + int.from_bytes(data[8:10], "little")
    head = eval(data[10:end])  # a Python literal by the format's definition
    dtype = next(name for name, descr in DESCR.items() if descr == head["descr"])
    return [(dtype, list(head["shape"]), data[end:])]


def read_list(data):
    count, at, tensors = struct.unpack_from("<I", data)[0], 4, []
    for _ in range(count):
        code, rank = struct.unpack_from("<II", data, at)
        shape = list(struct.unpack_from(f"<{rank}i", data, at + 8))
        at += 8 + 4 * rank
        n = math.prod(shape) * size(CODES[code])
        tensors.append((CODES[code], shape, data[at:at + n]))
        at += n
    assert at == len(data), f"{len(data) - at} bytes too many"
    return tensors


def read(path):
    data = open(path, "rb").read()
    return read_npy(data) if data[:6] == b"\x93NUMPY" else read_list(data)


def make(path, dtype, shape, *values):
    write_npy(path, dtype, [] if shape == "-" else [int(n) for n in shape.split(",")], pack(dtype, values))


def list_(path, *files):
    tensors = [t for f in files for t in read(f)]
    out = struct.pack("<I", len(tensors))
    for dtype, shape, data in tensors:
        out += struct.pack(f"<II{len(shape)}i", CODES.index(dtype), len(shape), *shape) + data
    open(path, "wb").write(out)


def show(path):
    for dtype, shape, data in read(path):
        print(dtype, shape, *(f"{v:g}" for v in unpack(dtype, data)))


def near(got, want, limit):
    got, want = read(got), read(want)
    assert len(got) == len(want), f"{len(got)} tensors, expected {len(want)}"
    for i, ((a_type, a_shape, a), (b_type, b_shape, b)) in enumerate(zip(got, want)):
        assert a_shape == b_shape, f"tensor {i}: shape {a_shape}, expected {b_shape}"
        a, b = unpack(a_type, a), unpack(b_type, b)
        error = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / (sum(y * y for y in b) or 1))
        print(f"tensor {i}: {error:.3g}")
        assert error <= float(limit), f"tensor {i}: {error} is more than {limit}"


if __name__ == "__main__":
    try:
        {"make": make, "list": list_, "show": show, "near": near}[sys.argv[1]](*sys.argv[2:])
    except AssertionError as error:
        sys.exit(f"  {error}")
