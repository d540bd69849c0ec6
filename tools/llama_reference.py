#!/usr/bin/env python3
"""The llama forward pass in NumPy float64 over a GGUF file, written for clearness: the yardstick.

Usage: llama_reference.py MODEL.gguf REFERENCE.json LOGITS.npy
compares its last logits with recorded ones (row i of LOGITS belongs to case i of REFERENCE: {"cases":
[{"prompt", "tokens"}]}) and prints the distances. Needs the PyPI package `gguf`.
"""
import json
import sys

import gguf
import numpy as np


class Llama:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in reader.tensors}
        get = lambda key: reader.fields[key].contents()
        assert get("general.architecture") == "llama"
        self.layers = get("llama.block_count")
        self.heads = get("llama.attention.head_count")
        self.kv_heads = get("llama.attention.head_count_kv")
        self.rope_base = get("llama.rope.freq_base")
        self.eps = get("llama.attention.layer_norm_rms_epsilon")
        self.cache = {} if sum(t.n_elements for t in reader.tensors) < 1e6 else None

    def weight(self, name):
        """Dequantised to float64; kept only for small models."""
        if self.cache is not None and name in self.cache:
            return self.cache[name]
        t = self.tensors[name]
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64)
        if self.cache is not None:
            self.cache[name] = w
        return w

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weight(name)

    def rope(self, x):
        """x: [n, heads, d]. Pair i is (x[2i], x[2i+1]): the order in which GGUF stores q and k."""
        n, _, d = x.shape
        angle = np.arange(n)[:, None] * self.rope_base ** (-np.arange(0, d, 2) / d)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        even, odd = x[..., 0::2], x[..., 1::2]
        out = np.empty_like(x)
        out[..., 0::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out

    def attention(self, x, b):
        n = len(x)
        q = self.rope((x @ self.weight(b + "attn_q.weight").T).reshape(n, self.heads, -1))
        k = self.rope((x @ self.weight(b + "attn_k.weight").T).reshape(n, self.kv_heads, -1))
        v = (x @ self.weight(b + "attn_v.weight").T).reshape(n, self.kv_heads, -1)
        group = self.heads // self.kv_heads
        k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", p, v).reshape(n, -1)
        return out @ self.weight(b + "attn_output.weight").T

    def feed_forward(self, x, b):
        gate = x @ self.weight(b + "ffn_gate.weight").T
        up = x @ self.weight(b + "ffn_up.weight").T
        return (gate / (1 + np.exp(-gate)) * up) @ self.weight(b + "ffn_down.weight").T

    def logits(self, tokens):
        """The logits after the last of `tokens`."""
        x = self.weight("token_embd.weight")[tokens]
        for i in range(self.layers):
            b = f"blk.{i}."
            x = x + self.attention(self.norm(x, b + "attn_norm.weight"), b)
            x = x + self.feed_forward(self.norm(x, b + "ffn_norm.weight"), b)
        out = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        return self.norm(x[-1], "output_norm.weight") @ self.weight(out).T

    def greedy(self, tokens, n):
        """n tokens, and by how much each was ahead of the second best."""
        tokens, margins = list(tokens), []
        for _ in range(n):
            logits = self.logits(tokens)
            second, best = np.argsort(logits)[-2:]
            tokens.append(int(best))
            margins.append(float(logits[best] - logits[second]))
        return tokens[-n:], margins


def main():
    model = Llama(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    recorded = np.load(sys.argv[3])
    for case, want in zip(cases, recorded):
        error = model.logits(case["tokens"]) - want
        print(f"{case['prompt'][:32]!r:40} rms {np.sqrt((error ** 2).mean()):.3g} "
              f"max {np.abs(error).max():.3g} (logits rms {np.sqrt((want ** 2).mean()):.3g})")


if __name__ == "__main__":
    main()
