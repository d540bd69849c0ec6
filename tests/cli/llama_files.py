"""Every row of src/models/llama_names.def against files that gguf_files.py writes (see llama_files.sh).

What is applied has llama.cpp's scores (llama_files.json). A score may be off by 2e-5 of their root mean
square for f32 weights, where both programs sum floats in another order (the most that is seen: 3e-6), by
2e-3 for f16, where llama.cpp rounds activations to f16, and by 5e-2 for quantised types, where both round them to 8
bits, each in its own way.
"""
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import checks
import gguf_files

TOLERANCE = {"f32": 2e-5, "f16": 2e-3, "q8_0": 5e-2, "q4_0": 5e-2}
ROW = re.compile(r'NP_KEY\("([^"]+)",\s*(\w+),\s*(-?\d+), (-?\d+), "([^"]*)"\)')
TENSOR = re.compile(r'NP_TENSOR\("([^"]+)",\s*"([^"]*)"\)')
BOOLS = {"llama.use_parallel_residual", "llama.expert_weights_norm"}
folder = pathlib.Path(sys.argv[1])
book = json.loads(pathlib.Path("tests/cli/llama_files.json").read_text())
names = pathlib.Path("src/models/llama_names.def").read_text()
faults = 0


def fault(text):
    global faults
    faults += 1
    print("FAULT:", text)


def run(description, *options):
    """(status, ids, message) of a generation."""
    path, ids = folder / "f.gguf", folder / "ids.json"
    gguf_files.write(path, description)
    ids.write_text(json.dumps(book["ids"]))
    done = subprocess.run([os.environ["NEAP_BIN"], "generate", "-m", str(path), "--ids", str(ids), "-n", "8", "-q",
                           "--ignore-eos", "--kv-type", "f32", "--tokens", *options],
                          capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr.strip()


def applied(case):
    out = folder / "scores.npy"
    status, ids, message = run(case["file"], "--logits", str(out))
    if status:
        return fault(f"{case['name']}: {message}")
    got, want = checks.npy(out)[0][::9], case["scores"]
    rms = math.sqrt(sum(x * x for x in want) / len(want))
    far = max(abs(a - b) for a, b in zip(got, want)) / rms
    if far > TOLERANCE[case["file"].get("type", "f32")] + 1e-5 / rms:  # as they are rounded in the file
        fault(f"{case['name']}: a score is off by {far:.2g} of their root mean square")
    if ids != case["greedy"]:
        fault(f"{case['name']}: {ids}, llama.cpp has {case['greedy']}")


def refused(what, description, *words):
    status, _, message = run(description)
    if status != 1 or not message.startswith("neap: ") or any(w not in message for w in words):
        fault(f"{what}: status {status}, {message!r}, expected a refusal with {words}")


def same_as_plain(what, description, plain):
    status, ids, message = run(description)
    if ids != plain:
        fault(f"{what}: {message or ids}, expected what the plain file says, {plain}")


def keys(plain):
    rows = ROW.findall(names)
    if len(rows) != names.count("NP_KEY(\""):
        fault("llama_names.def: a row that this test cannot read")
    for name, rule, a, b, why in rows:
        if rule == "HARMLESS":
            same_as_plain(name, {"seed": 7, "keys": {name: 3}}, plain)
        elif rule == "REFUSED":
            refused(name, {"seed": 7, "keys": {name: 3}}, name, why)
        elif rule == "ONLY":
            for good in {a, b}:
                same_as_plain(f"{name} {good}", {"seed": 7, "keys": {name: bool(int(good)) if name in BOOLS else int(good)}}, plain)
            other = next(n for n in (0, 1, 3) if str(n) not in (a, b))
            refused(name, {"seed": 7, "keys": {name: bool(other) if name in BOOLS else other}}, name, why)
            if name not in BOOLS:
                refused(name, {"seed": 7, "keys": {name: "text"}}, name, why)


def tensors():
    rows = TENSOR.findall(names)
    if len(rows) != names.count("NP_TENSOR(\""):
        fault("llama_names.def: a row that this test cannot read")
    of_file = re.compile(r"(output|token|position|rope|cls)")
    for name, why in rows:
        full = name if of_file.match(name) else "blk.1." + name
        refused(full, {"seed": 7, "tensors": {full: [16]}}, full, why)


REFUSED = [
    ("more experts than there are", {"sizes": {"experts": 4, "used": 5}}, ["expert_used_count is 5, expected 1 to 4"]),
    ("no expert of four", {"sizes": {"experts": 4, "used": 0}}, ["expert_used_count is 0, expected 1 to 4"]),
    ("used experts of none", {"keys": {"llama.expert_used_count": 2}}, ["expert_used_count is 2, expected 0"]),
    ("experts of another width", {"sizes": {"experts": 4, "used": 2}, "keys": {"llama.feed_forward_length": 32}},
     ["ffn_gate_exps.weight is f32 [4, 64, 32], the model needs [4, 32, 32]"]),
    ("an expert for all", {"sizes": {"experts": 4, "used": 2}, "tensors": {"blk.0.ffn_up_shexp.weight": [64, 32]}},
     ["ffn_up_shexp", "every token"]),
    ("a feed-forward beside experts", {"sizes": {"experts": 4, "used": 2}, "tensors": {"blk.0.ffn_up.weight": [64, 32]}},
     ["blk.0.ffn_up.weight"]),
    ("an unknown key", {"keys": {"llama.unheard_of": 1}}, ["llama.unheard_of", "not known"]),
    ("an unknown array", {"keys": {"llama.unheard_of": ["a", "b"]}}, ["llama.unheard_of"]),
    ("an adapter's key", {"keys": {"adapter.type": "lora"}}, ["adapter.type"]),
    ("an adapter", {"keys": {"general.type": "adapter"}}, ["general.type", "adapter"]),
    ("a projector", {"keys": {"general.type": "mmproj"}}, ["general.type", "mmproj"]),
    ("an unknown tensor", {"tensors": {"something": [4]}}, ["something", "not known"]),
    ("a scale", {"tensors": {"blk.0.attn_q.scale": [1]}}, ["blk.0.attn_q.scale"]),
    ("an input's scale", {"tensors": {"blk.1.ffn_up.input_scale": [1]}}, ["blk.1.ffn_up.input_scale"]),
    ("blocks beyond block_count", {"keys": {"llama.block_count": 1}}, ["blk.1.", "beyond the 1 blocks"]),
    ("a block far beyond", {"tensors": {"blk.99999.attn_q.bias": [32]}}, ["blk.99999.attn_q.bias", "beyond"]),
    ("q beside qkv", {"with": ["fused"], "tensors": {"blk.0.attn_q.weight": [32, 32]}}, ["blk.0.attn_q.weight"]),
    ("both biases", {"with": ["fused", "fused_bias", "qkv_bias"]}, ["blk.0.attn_", ".bias"]),
    ("longrope", {"keys": {"llama.rope.scaling.type": "longrope"}}, ["longrope", "none, linear, yarn"]),
    ("dynamic", {"keys": {"llama.rope.scaling.type": "dynamic"}}, ["dynamic", "none, linear, yarn"]),
    ("yarn's key without yarn", {"keys": {"llama.rope.scaling.yarn_beta_fast": 16.0}}, ["yarn_beta_fast"]),
    ("half the head turns", {"keys": {"llama.rope.dimension_count": 8}}, ["dimension_count", "expected 16"]),
    ("a negative factor", {"keys": {"llama.rope.scaling.factor": -2.0}}, ["scaling.factor", "-2"]),
    ("a window", {"keys": {"llama.attention.sliding_window": 16}}, ["sliding_window", "16"]),
    ("another layout", {"keys": {"llama.tensor_data_layout": "rows"}}, ["tensor_data_layout", "rows"]),
    ("another width", {"keys": {"llama.embedding_length_out": 64}}, ["embedding_length_out"]),
    ("one part of three", {"keys": {"split.count": 3, "split.no": 1}},
     ["part 2 of 3 of a split file", "llama-gguf-split --merge"]),
    ("a part without metadata", {"keys": {"split.count": 2, "split.no": 1, "general.architecture": None}},
     ["part 2 of 2 of a split file"]),
    ("integers for weights", {"tensors": {"blk.0.attn_q.weight": [32, 32]}, "types": {"blk.0.attn_q.weight": 26}},
     ["blk.0.attn_q.weight is i32 [32, 32], the model needs [32, 32] of floats or quantised"]),
    ("a norm as f16", {"types": {"output_norm.weight": 1}},
     ["output_norm.weight is f16 [32], the model needs f32 [32]"]),
    ("integers for a norm", {"types": {"output_norm.weight": 26}},
     ["output_norm.weight is i32 [32], the model needs f32 [32]"]),
]


def info():
    """Any file can be looked at, whatever its architecture and types."""
    def look(what, description, refusal, **want):
        gguf_files.write(folder / "f.gguf", description)
        for options in [], ["--tensors"], ["--json"]:
            done = subprocess.run([os.environ["NEAP_BIN"], "info", str(folder / "f.gguf"), *options],
                                  capture_output=True, text=True)
            if done.returncode or done.stderr or refusal not in done.stdout:
                fault(f"info of {what}: {done.returncode} {done.stderr} {done.stdout[-300:]}")
                return
        got = json.loads(done.stdout)
        for key, value in want.items():
            if got.get(key) != value:
                fault(f"info of {what}: {key} is {got.get(key)}, expected {value}")
    other = {"general.architecture": "qwen2", "qwen2.block_count": 2, "qwen2.embedding_length": 32,
             "qwen2.attention.head_count": 2, "qwen2.context_length": 77}
    look("another architecture", {"keys": other}, "qwen2", architecture="qwen2", layers=2, hidden=32, heads=2,
         context_length=77, vocabulary=272)
    look("no architecture", {"keys": {"general.architecture": None}}, "general.architecture", architecture="")
    look("a part", {"keys": {"split.count": 4, "split.no": 2}}, "part 3 of 4", layers=2)
    look("an unread tensor", {"tensors": {"output.bias": [4]}}, "output.bias")
    for number, name, size in [(20, "iq4_nl", 576), (2, "q4_0", 576), (39, "mxfp4", 544), (9, "q8_1", 1152),
                               (99, "type 99", 0), (4, "type 4", 0)]:
        description = {"tensors": {"last": [32, 32]}, "types": {"last": number}}
        look(f"type {number}", description, "last")
        types = json.loads(subprocess.run([os.environ["NEAP_BIN"], "info", str(folder / "f.gguf"), "--json"],
                                          capture_output=True, text=True).stdout)["types"]
        if types.get(name) != {"tensors": 1, "bytes": size}:
            fault(f"info of type {number}: {types}")
    gguf_files.write(folder / "f.gguf", {"keys": other})
    done = subprocess.run([os.environ["NEAP_BIN"], "tokenize", "-m", str(folder / "f.gguf"), "-p", "abth"],
                          capture_output=True, text=True)
    if done.stdout.split() != ["[257,270]"]: # "ab", "th": the first and 14th of gguf_files.vocabulary's pairs
        fault(f"tokenize of another architecture: {done.stdout} {done.stderr}")


def overflow():
    """Keys beyond 65504 in a cache of f16 are named, with the way out; in f32 they are numbers."""
    for what in "attn_k", "attn_v":
        description = {"seed": 7, "with": ["qkv_bias"], "times": {f"blk.1.{what}.bias": 2e6}}
        status, _, message = run(description, "--kv-type", "f16")
        if status != 1 or "of layer 1 are beyond f16" not in message or "--kv-type f32" not in message:
            fault(f"{what} beyond f16: {status} {message}")
        status, ids, message = run(description)
        if status or len(ids) != 8:
            fault(f"{what} beyond f16, in f32: {message}")


def no_mask():
    """Without a causal mask a prompt is one step, whatever --chunk says, and its peak is planned."""
    description = {"seed": 7, "sizes": {"context": 256}, "keys": {"llama.attention.causal": False}}
    ids, stats, seen = folder / "ids.json", folder / "stats.json", []
    for options in [], ["--chunk", "64"], ["--chunk", "512", "-c", "256"], ["--threads", "3"]:
        gguf_files.write(folder / "f.gguf", description)
        ids.write_text(json.dumps(book["ids"] * 10))
        done = subprocess.run([os.environ["NEAP_BIN"], "generate", "-m", str(folder / "f.gguf"), "--ids", str(ids),
                               "-n", "8", "-q", "--ignore-eos", "--tokens", "--stats", str(stats), *options],
                              capture_output=True, text=True)
        if done.returncode:
            return fault(f"no mask, {options}: {done.stderr}")
        seen.append(done.stdout)
        s = json.loads(stats.read_text())
        if s["planned_peak_bytes"] != s["measured_peak_bytes"]:
            fault(f"no mask, {options}: planned {s['planned_peak_bytes']}, measured {s['measured_peak_bytes']}")
    if len(set(seen)) != 1:
        fault(f"no mask: {seen}")


def main():
    plain = next(c["greedy"] for c in book["cases"] if c["name"] == "plain")
    for case in book["cases"]:
        applied(case)
    keys(plain)
    tensors()
    for what, description, words in REFUSED:
        refused(what, {"seed": 7} | description, *words)
    info()
    overflow()
    no_mask()
    sys.exit(faults > 0)


main()
