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


def rounded(x):
    """x as a quantised product sees it: int8 by blocks of 32 with the scale max|x| / 127 in float32."""
    blocks = x.astype(np.float32).reshape(-1, 32)
    scale = np.abs(blocks).max(1, keepdims=True) / np.float32(127)
    q = np.rint(blocks / np.where(scale > 0, scale, 1))
    return (q * scale.astype(np.float64)).reshape(x.shape)


class Llama:
    """`int8`: activations are rounded before each product with a quantised weight."""

    def __init__(self, path, int8=False):
        self.int8 = int8
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

    def product(self, x, name):
        exact = self.tensors[name].tensor_type.name in ("F32", "F16", "BF16")
        return (x if exact or not self.int8 else rounded(x)) @ self.weight(name).T

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
        q = self.rope(self.product(x, b + "attn_q.weight").reshape(n, self.heads, -1))
        k = self.rope(self.product(x, b + "attn_k.weight").reshape(n, self.kv_heads, -1))
        v = self.product(x, b + "attn_v.weight").reshape(n, self.kv_heads, -1)
        group = self.heads // self.kv_heads
        k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", p, v).reshape(n, -1)
        return self.product(out, b + "attn_output.weight")

    def feed_forward(self, x, b):
        gate = self.product(x, b + "ffn_gate.weight")
        up = self.product(x, b + "ffn_up.weight")
        return self.product(gate / (1 + np.exp(-gate)) * up, b + "ffn_down.weight")

    def logits(self, tokens):
        """The logits after the last of `tokens`."""
        x = self.weight("token_embd.weight")[tokens]
        for i in range(self.layers):
            b = f"blk.{i}."
            x = x + self.attention(self.norm(x, b + "attn_norm.weight"), b)
            x = x + self.feed_forward(self.norm(x, b + "ffn_norm.weight"), b)
        out = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        return self.product(self.norm(x[-1:], "output_norm.weight"), out)[0]

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
