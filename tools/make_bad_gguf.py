#!/usr/bin/env python3
"""Makes the malformed GGUF files of tests/golden/bad/; tests/unit/test_gguf.c says what each must give.

Usage: make_bad_gguf.py tests/golden/bad        (Python's standard library only)

Each file is a sound one but for one fault, named by the file.
"""
import pathlib
import struct
import sys

U32, STRING, ARRAY = 4, 8, 9
F32, F16, Q4_0, Q8_K = 0, 1, 2, 15


def u32(x):
    return struct.pack("<I", x)


def u64(x):
    return struct.pack("<Q", x)


def string(s):
    return u64(len(s)) + s.encode()


def key(name, value_type, value):
    return string(name) + u32(value_type) + value


def tensor(name, ne, tensor_type=F32, offset=0):
    return string(name) + u32(len(ne)) + b"".join(map(u64, ne)) + u32(tensor_type) + u64(offset)


def array(element_type, count, elements):
    return u32(element_type) + u64(count) + elements


def file(keys=(), tensors=(), data=b"", version=3, n_tensors=None, n_keys=None, magic=b"GGUF"):
    head = magic + u32(version)
    head += u64(len(tensors) if n_tensors is None else n_tensors)
    head += u64(len(keys) if n_keys is None else n_keys)
    head += b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + data


GOOD = tensor("good", [8])
ROW = bytes(32)  # 8 floats
FILES = {
    # the head
    "empty": b"",
    "cut-magic": b"GGU",
    "cut-head": b"GGUF" + u32(3) + u64(0),
    "not-gguf": file(magic=b"GGML"),
    "version-1": file(version=1),
    "version-4": file(version=4),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "tensor-count": file([], [GOOD], ROW, n_tensors=1 << 63),
    "tensor-count-2": file([], [GOOD], ROW, n_tensors=2),
    "key-count": file([key("a", U32, u32(1))], n_keys=0xFFFFFFFF),
    # metadata
    "key-length": b"GGUF" + u32(3) + u64(0) + u64(1) + u64(0xFFFFFFFFFFFF),
    "key-empty": file([key("", U32, u32(1))]),
    "key-twice": file([key("a", U32, u32(1)), key("b", U32, u32(1)), key("a", U32, u32(2))]),
    "value-type": file([key("a", 13, u32(1))]),
    "value-cut": b"GGUF" + u32(3) + u64(0) + u64(1) + key("a", U32, b"\1"),
    "string-length": file([key("a", STRING, u64(1 << 48))]),
    "array-type": file([key("a", ARRAY, array(99, 0, b""))]),
    "array-nested": file([key("a", ARRAY, array(ARRAY, 1, array(U32, 1, u32(1))))]),
    "array-count": file([key("a", ARRAY, array(U32, 1 << 40, u32(1)))]),
    "array-overflow": file([key("a", ARRAY, array(U32, (1 << 62) + 1, u32(1)))]),
    "strings-count": file([key("a", ARRAY, array(STRING, 1 << 40, string("x")))]),
    "strings-length": file([key("a", ARRAY, array(STRING, 2, string("x") + u64(1 << 50)))]),
    "alignment-0": file([key("general.alignment", U32, u32(0))]),
    "alignment-4": file([key("general.alignment", U32, u32(4))]),
    "alignment-48": file([key("general.alignment", U32, u32(48))]),
    "alignment-type": file([key("general.alignment", STRING, string("32"))]),
    # tensors
    "name-length": file([], [u64(1 << 40)]),
    "name-empty": file([], [tensor("", [8])], ROW),
    "dims-0": file([], [tensor("t", [])], ROW),
    "dims-9": file([], [tensor("t", [1] * 9)], ROW),
    "dimension": file([], [tensor("t", [1 << 63])], ROW),
    "elements-32-bit": file([], [tensor("t", [1 << 16, 1 << 16])], ROW),
    "elements-overflow": file([], [tensor("t", [1 << 32, 1 << 32])], ROW),
    "bytes-overflow": file([], [tensor("t", [1 << 61, 2])], ROW),
    "type-unknown": file([], [tensor("t", [8], 200)], ROW),
    "type-withdrawn": file([], [tensor("t", [32], 4)], ROW),
    "type-unsupported": file([], [tensor("t", [256], Q8_K)], bytes(292)),
    "type-of-second": file([], [GOOD, tensor("bad", [8], 200, 32), tensor("last", [8], F32, 64)],
                           ROW * 3),
    "row-block": file([], [tensor("t", [40, 4], Q4_0)], bytes(90)),
    "offset": file([], [tensor("t", [8], F32, 1 << 40)], ROW),
    "offset-overflow": file([], [tensor("t", [8], F32, (1 << 64) - 32)], ROW),
    "offset-unaligned": file([], [tensor("t", [8], F32, 16)], ROW * 2),
    "data-cut": file([], [GOOD, tensor("last", [8], F32, 32)], ROW + ROW[1:]),
    "data-missing": file([], [GOOD]),
    "tensor-twice": file([], [GOOD, tensor("good", [8], F32, 32)], ROW * 2),
    "tensors-overlap": file([], [tensor("a", [16], F32, 0), tensor("b", [8], F16, 32)], ROW * 2),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (folder / (name + ".gguf")).write_bytes(content)


if __name__ == "__main__":
    main()
