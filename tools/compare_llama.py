#!/usr/bin/env python3
"""Tiny llama files with drawn keys and tensors: Neap's scores against llama.cpp's, or Neap's refusal.

Usage: compare_llama.py NEAP [--files 300] [--seed 1] [--keep DIR] [--only WORD]

Needs the PyPI packages `gguf`, `numpy` and `llama-cpp-python`. Each file has random weights and draws
every optional tensor, key and type. Equal means: the same greedy tokens, up to where llama.cpp's two best
scores are closer than the tolerance, and scores within it. What Neap refuses is counted by its reason;
files that either of the two crashes on, or that differ, are kept and listed.

llama.cpp does not read llama's rope.scaling.yarn_* keys, which its converter writes: it is told them as
parameters. The tolerance is on the distance by the scores' root mean square: 2e-4 for f32 weights (both
sum in f32, in another order), 5e-3 for f16 and 3e-2 for bf16 (llama.cpp rounds activations to those types), 0.1 for
quantised types (both round activations to 8 bits). With rounded types a mixture takes all its experts: which
of two nearly equal ones is chosen would hang on the rounding.
"""
import argparse
import collections
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import gguf
import numpy as np

import make_tiny_gguf

NEW = 6
TOLERANCE = {"F32": 2e-4, "F16": 5e-3, "BF16": 3e-2}
QUANTISED = 0.1
TYPES = ["F32"] * 12 + ["F16", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]


# ---- drawing -------------------------------------------------------------------------------------

class Draw:
    """One file: `sizes`, `keys` as {name: (kind, value)}, `tensors` as {name: (array, type)}."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        r = self.r
        self.type = r.choice(TYPES)
        self.layers = r.choice([1, 2, 3])
        self.heads, self.kv = r.choice([(4, 2), (4, 4), (4, 1), (2, 2), (6, 2)])
        self.head = r.choice([16, 16, 16, 32, 8])
        self.hidden = r.choice([64, 96]) if r.random() < 0.3 else self.heads * self.head
        self.hidden = (self.hidden + 31) // 32 * 32
        self.ffn = r.choice([96, 128, 160])
        self.context = r.choice([64, 128, 256])
        self.vocab = make_tiny_gguf.VOCAB
        self.experts = r.choice([0, 0, 0, 4, 8])
        self.used = r.choice([1, 2, 3]) if self.experts else 0
        if self.type != "F32":  # a rounding must not send a token to another expert
            self.used = self.experts
        self.keys, self.tensors, self.notes = {}, {}, []
        self.yarn = {}
        self.draw_keys()
        self.draw_tensors()
        self.ids = [r.randrange(3, self.vocab) for _ in range(r.choice([1, 2, 7, 20, 40, self.context - 16]))]

    def maybe(self, chance):
        return self.r.random() < chance

    def key(self, name, kind, value, chance=1.0):
        if self.maybe(chance):
            self.keys[name] = (kind, value)
            return True
        return False

    def draw_keys(self):
        r, k = self.r, self.key
        k("llama.block_count", "uint32", self.layers)
        k("llama.context_length", "uint32", self.context)
        k("llama.embedding_length", "uint32", self.hidden)
        k("llama.feed_forward_length", "uint32", self.ffn)
        k("llama.attention.head_count", "uint32", self.heads)
        if not k("llama.attention.head_count_kv", "uint32", self.kv, 0.9):
            self.kv = self.heads
        k("llama.attention.layer_norm_rms_epsilon", "float32", r.choice([1e-5, 1e-6, 1e-2]))
        if self.head * self.heads != self.hidden or self.maybe(0.3):
            k("llama.attention.key_length", "uint32", self.head)
            k("llama.attention.value_length", "uint32", self.head)
        k("llama.rope.dimension_count", "uint32", self.head, 0.8)
        k("llama.rope.dimension_count", "uint32", self.head // 2, 0.03)
        k("llama.rope.freq_base", "float32", r.choice([1e4, 5e5, 100.0]), 0.8)
        k("llama.vocab_size", "uint32", self.vocab, 0.8)
        self.draw_scaling()
        if self.experts:
            k("llama.expert_count", "uint32", self.experts)
            k("llama.expert_used_count", "uint32", self.used)
        for name, kind, values, chance in OTHER_KEYS:
            k(name, kind, r.choice(values), chance)

    def draw_scaling(self):
        r, k, at = self.r, self.key, "llama.rope.scaling."
        kind = r.choice([None, None, "none", "linear", "yarn", "yarn", "yarn"])
        if self.maybe(0.02):
            kind = "longrope"
        if kind:
            k(at + "type", "string", kind)
        factor = r.choice([1.0, 2.0, 4.0, 8.5, 0.0, 0.5])
        if not k(at + "factor", "float32", factor, 0.9 if kind in ("linear", "yarn") else 0.2):
            factor = 1.0
            if k("llama.rope.scale_linear", "float32", r.choice([2.0, 4.0]), 0.15):
                factor = self.keys["llama.rope.scale_linear"][1]
        k(at + "original_context_length", "uint32", r.choice([16, 32, 64, 128]),
          0.8 if kind == "yarn" else 0.1)
        k(at + "attn_factor", "float32", r.choice([0.5, 1.0, 1.3]), 0.15)
        k(at + "finetuned", "bool", r.choice([True, False]), 0.2)
        chance = 0.25 if kind == "yarn" else 0.01
        for name, values in [("yarn_beta_fast", [16.0, 32.0, 4.0]), ("yarn_beta_slow", [1.0, 2.0]),
                             ("yarn_ext_factor", [1.0, 0.5, 0.0]), ("yarn_attn_factor", [0.8, 1.2])]:
            if k(at + name, "float32", r.choice(values), chance):
                self.yarn[name] = self.keys[at + name][1]
        self.factor = factor or 1.0

    def matrix(self, name, *shape, scale=1.0, kind=None):
        w = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(scale / math.sqrt(shape[-1]))
        self.tensors[name] = (w, kind or self.type)

    def vector(self, name, n, mean=0.0, spread=0.3):
        self.tensors[name] = ((mean + spread * self.rng.standard_normal(n)).astype(np.float32), "F32")

    def draw_tensors(self):
        q, kv = self.heads * self.head, self.kv * self.head
        self.matrix("token_embd.weight", self.vocab, self.hidden, scale=math.sqrt(self.hidden) / 2)
        qkv_bias, out_bias, mlp_bias = self.maybe(0.3), self.maybe(0.2), self.maybe(0.3)
        fused = self.maybe(0.15)
        for i in range(self.layers):
            b = f"blk.{i}."
            self.vector(b + "attn_norm.weight", self.hidden, 1, 0.1)
            self.vector(b + "ffn_norm.weight", self.hidden, 1, 0.1)
            if fused:
                self.matrix(b + "attn_qkv.weight", q + 2 * kv, self.hidden, scale=1.5)
            for part, rows in [("q", q), ("k", kv), ("v", kv)]:
                if not fused:
                    self.matrix(b + f"attn_{part}.weight", rows, self.hidden, scale=1.5)
                if qkv_bias:
                    self.vector(b + f"attn_{part}.bias", rows)
            if fused and self.maybe(0.3):
                self.vector(b + "attn_qkv.bias", q + 2 * kv)
                for part in "qkv":
                    self.tensors.pop(b + f"attn_{part}.bias", None)
            self.matrix(b + "attn_output.weight", self.hidden, q)
            if out_bias:
                self.vector(b + "attn_output.bias", self.hidden)
            self.draw_feed_forward(b, mlp_bias)
        self.vector("output_norm.weight", self.hidden, 1, 0.1)
        if self.maybe(0.6):
            self.matrix("output.weight", self.vocab, self.hidden, scale=3)
        if self.maybe(0.2):
            factors = 1 + 7 * self.rng.random(self.head // 2)
            self.tensors["rope_freqs.weight"] = (np.sort(factors).astype(np.float32), "F32")
        for name, shape, chance in OTHER_TENSORS:
            if self.maybe(chance):
                self.vector(name, *[getattr(self, s) if isinstance(s, str) else s for s in shape])

    def draw_feed_forward(self, b, bias):
        h, f, e = self.hidden, self.ffn, self.experts
        if e:
            self.matrix(b + "ffn_gate_inp.weight", e, h, scale=2, kind="F32")
            self.matrix(b + "ffn_gate_exps.weight", e, f, h)
            self.matrix(b + "ffn_up_exps.weight", e, f, h)
            self.matrix(b + "ffn_down_exps.weight", e, h, f)
            return
        self.matrix(b + "ffn_gate.weight", f, h)
        self.matrix(b + "ffn_up.weight", f, h)
        self.matrix(b + "ffn_down.weight", h, f)
        if bias:
            for name, n in [("gate", f), ("up", f), ("down", h)]:
                if self.maybe(0.8):
                    self.vector(b + f"ffn_{name}.bias", n)

    def write(self, path, peer=False):
        w = gguf.GGUFWriter(path, "llama")
        keys = dict(self.keys)
        if peer and "yarn_attn_factor" in self.yarn:  # which llama.cpp overwrites: by what it multiplies
            at, name = "llama.rope.scaling.", "yarn_attn_factor"
            by = keys.get(at + "attn_factor", (0, 1.0))[1] * self.yarn[name]
            blend = self.yarn.get("yarn_ext_factor", 1.0)
            own = 1 + 0.1 * math.log(self.factor) if self.factor > 1 and blend else 1
            keys[at + "attn_factor"] = ("float32", by / own)
        for name, (kind, value) in keys.items():
            getattr(w, "add_" + kind)(name, value)
        t = TOKENIZER
        w.add_tokenizer_model(t.model)
        w.add_tokenizer_pre(t.pre)
        w.add_token_list(t.tokens)
        w.add_token_types(t.types)
        w.add_token_merges(t.merges)
        w.add_eos_token_id(t.eos)
        for name, (data, kind) in self.tensors.items():
            q = gguf.GGMLQuantizationType[kind]
            if data.ndim < 2 or data.shape[-1] % 32:
                q = gguf.GGMLQuantizationType.F32
            w.add_tensor(name, gguf.quants.quantize(data, q), raw_dtype=q)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()


TOKENIZER = make_tiny_gguf.make_tokenizer()
RARE = 0.012
OTHER_KEYS = [
    ("llama.attention.causal", "bool", [True, False], 0.05),
    ("llama.attention.scale", "float32", [0.0, 0.1, 0.5], RARE),
    ("llama.attention.clamp_kqv", "float32", [0.0, 0.5], RARE),
    ("llama.attention.max_alibi_bias", "float32", [0.0, 8.0], RARE),
    ("llama.attention.sliding_window", "uint32", [8, 4096], RARE),
    ("llama.attention.layer_norm_epsilon", "float32", [1e-5], 0.05),
    ("llama.attn_logit_softcapping", "float32", [0.0, 5.0], RARE),
    ("llama.final_logit_softcapping", "float32", [0.0, 5.0], RARE),
    ("llama.logit_scale", "float32", [1.0, 0.25], RARE),
    ("llama.residual_scale", "float32", [1.0, 0.25], RARE),
    ("llama.embedding_scale", "float32", [1.0, 12.0], RARE),
    ("llama.use_parallel_residual", "bool", [True, False], RARE),
    ("llama.tensor_data_layout", "string", ["Meta AI original pth", "other"], RARE),
    ("llama.pooling_type", "uint32", [0, 1, 3], 0.05),
    ("llama.expert_group_count", "uint32", [0], RARE),
    ("llama.expert_gating_func", "uint32", [1, 2], RARE),
    ("llama.expert_weights_scale", "float32", [1.0, 2.5], RARE),
    ("llama.expert_weights_norm", "bool", [True, False], RARE),
    ("llama.expert_shared_count", "uint32", [0, 1], RARE),
    ("llama.expert_feed_forward_length", "uint32", [64], RARE),
    ("llama.rope.scaling.alpha", "float32", [0.0, 1000.0], RARE),
    ("llama.rope.freq_base_swa", "float32", [1e4], RARE),
    ("llama.nextn_predict_layers", "uint32", [0], RARE),
    ("llama.unheard_of", "uint32", [1], RARE),
    ("general.quantization_version", "uint32", [2], 0.5),
    ("general.type", "string", ["model", "model", "model", "adapter"], 0.05),
    ("general.license", "string", ["mit"], 0.3),
]
OTHER_TENSORS = [(name, shape, RARE) for name, shape in [
    ("output.bias", ["vocab"]), ("output_norm.bias", ["hidden"]), ("token_embd_norm.weight", ["hidden"]),
    ("blk.0.attn_norm.bias", ["hidden"]), ("blk.0.ffn_norm.bias", ["hidden"]),
    ("blk.0.attn_q_norm.weight", ["head"]), ("blk.0.attn_k_norm.weight", ["head"]),
    ("blk.0.attn_sinks.weight", ["heads"]), ("blk.0.attn_q.scale", [1]), ("blk.0.ffn_up.scale", [1]),
    ("blk.0.attn_q.input_scale", [1]), ("output.scale", [1]), ("rope_factors_long.weight", [8]),
    ("rope_factors_short.weight", [8]), ("blk.0.post_attention_norm.weight", ["hidden"]),
    ("blk.7.attn_norm.weight", ["hidden"]), ("blk.0.exp_probs_b.bias", [8]), ("something", [5])]]


# ---- the peer, in a process of its own: an assert ends it ----------------------------------------

PEER = r"""
import sys, json, numpy as np, llama_cpp
from llama_cpp import Llama
for line in sys.stdin:
    job = json.loads(line)
    try:
        extra = {k: v for k, v in job["yarn"].items() if k != "yarn_attn_factor"}
        m = Llama(job["file"], n_ctx=job["context"], n_batch=512, n_ubatch=512, n_threads=1, verbose=False,
                  type_k=0, type_v=0, logits_all=False, **extra)
        ids, rows, new = list(job["ids"]), [], []
        m.eval(ids)
        for _ in range(job["new"]):
            p = llama_cpp.llama_get_logits_ith(m.ctx, -1)
            row = np.ctypeslib.as_array(p, shape=(m.n_vocab(),)).copy()
            rows.append([float(x) for x in row])
            new.append(int(row.argmax()))
            m.eval([new[-1]])
        print(json.dumps({"new": new, "rows": rows}), flush=True)
        m.close()
    except Exception as e:
        print(json.dumps({"error": str(e)}), flush=True)
"""


class Peer:
    def __init__(self):
        self.process = None

    def run(self, job):
        if not self.process:
            self.process = subprocess.Popen([sys.executable, "-c", PEER], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.process.wait()
            self.process = None
            return {"error": "ended by an assert"}
        return json.loads(line)


# ---- comparing -----------------------------------------------------------------------------------

def neap(binary, draw, path, folder):
    ids, logits = folder / "ids.json", folder / "logits.npy"
    ids.write_text(json.dumps(draw.ids))
    run = subprocess.run([binary, "generate", "-m", str(path), "--ids", str(ids), "-n", str(NEW), "-q",
                          "--ignore-eos", "--kv-type", "f32", "--tokens", "--logits", str(logits)],
                         capture_output=True, text=True)
    if run.returncode:
        return {"error": run.stderr.strip(), "code": run.returncode}
    return {"new": json.loads(run.stdout), "rows": np.load(logits)}


def distance(draw, got, want):
    """The largest distance by the scores' rms, over the rows before the first different token."""
    worst, tolerance = 0.0, TOLERANCE.get(draw.type, QUANTISED)
    for i, row in enumerate(np.array(want["rows"])):
        rms = math.sqrt((row ** 2).mean())
        worst = max(worst, math.sqrt(((got["rows"][i] - row) ** 2).mean()) / rms)
        if got["new"][i] != want["new"][i]:
            best = np.sort(row)[-2:]
            return worst, (best[1] - best[0]) / rms < 4 * tolerance
    return worst, True


def reason(text):
    return text.split(": ", 2)[-1] if "key '" in text or "tensor " in text else text


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("neap")
    p.add_argument("--files", type=int, default=300)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", type=pathlib.Path, help="folder for files that differ")
    a = p.parse_args()
    peer, counts, refusals, worst = Peer(), collections.Counter(), collections.Counter(), {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for seed in range(a.seed, a.seed + a.files):
            draw = Draw(seed)
            path, other = folder / "f.gguf", folder / "peer.gguf"
            draw.write(path)
            draw.write(other, peer=True)
            got = neap(a.neap, draw, path, folder)
            want = peer.run({"file": str(other), "ids": draw.ids, "new": NEW, "context": draw.context,
                             "yarn": draw.yarn})
            verdict = judge(draw, got, want, refusals, worst)
            counts[verdict] += 1
            if verdict.startswith("BAD"):
                keys = {k: v for k, (_, v) in draw.keys.items()}
                print(seed, verdict, draw.type, got.get("error"), want.get("error"), keys,
                      [n for n in draw.tensors if n.startswith("blk.0.") or not n.startswith("blk.")])
                if a.keep:
                    a.keep.mkdir(exist_ok=True)
                    path.rename(a.keep / f"{seed}.gguf")
    for verdict, n in sorted(counts.items()):
        print(f"{n:5} {verdict}")
    for text, n in refusals.most_common():
        print(f"{n:5}   {text}")
    print("largest distances:", {k: f"{v:.2g}" for k, v in worst.items()})
    sys.exit(any(v.startswith("BAD") for v in counts))


def judge(draw, got, want, refusals, worst):
    if "error" in got:
        if got["code"] != 1 or not got["error"].startswith("neap: "):
            return "BAD: Neap ended otherwise than with a message"
        refusals[reason(got["error"])] += 1
        return "refused by both" if "error" in want else "refused by Neap only"
    if "error" in want:
        return "BAD: run by Neap, refused by llama.cpp"
    far, same = distance(draw, got, want)
    worst[draw.type] = max(worst.get(draw.type, 0), far)
    if far > TOLERANCE.get(draw.type, QUANTISED) or not same:
        return "BAD: different"
    return "equal"


if __name__ == "__main__":
    main()
