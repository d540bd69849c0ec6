"""Seconds of a Whisper encoder in PyTorch, eager: the least of some forward passes.

peer_whisper.py THREADS REPEATS [d heads layers] [dtype]     random weights, [1, 80, 3000] in
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.v, self.o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.k = nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x):
        h = self.ln1(x)
        a = F.scaled_dot_product_attention(self.split(self.q(h)), self.split(self.k(h)),
                                           self.split(self.v(h)))
        x = x + self.o(a.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Encoder(nn.Module):
    def __init__(self, d, heads, layers):
        super().__init__()
        self.conv1 = nn.Conv1d(80, d, 3, padding=1)
        self.conv2 = nn.Conv1d(d, d, 3, stride=2, padding=1)
        self.positions = nn.Parameter(torch.randn(1500, d) * 0.02)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(d)

    def forward(self, x):
        x = F.gelu(self.conv2(F.gelu(self.conv1(x))))
        x = x.transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.ln(x)


def main():
    threads, repeats = int(sys.argv[1]), int(sys.argv[2])
    d, heads, layers = (int(a) for a in (sys.argv[3:6] or (512, 8, 6)))
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Encoder(d, heads, layers).eval()
    x = torch.randn(1, 80, 3000)
    best = None
    with torch.inference_mode():
        model(x)
        for _ in range(repeats):
            start = time.perf_counter()
            model(x)
            seconds = time.perf_counter() - start
            best = seconds if best is None else min(best, seconds)
    print(f"{best:.4f}")


main()
