#!/usr/bin/env python3
"""Makes the tiny llama GGUF files of tests/golden/ and what a float64 forward pass says of them.

Usage: make_tiny_gguf.py --type Q8_0 [--tied] OUT.gguf     one file
       make_tiny_gguf.py --golden tests/golden             the checked-in files and tiny-llama.json

Random weights, fixed seeds, a complete byte-level BPE tokenizer of 300 tokens. Needs the PyPI package
`gguf`. The numbers come from llama_reference.py, which agrees with the recorded float logits of
SmolLM2-135M-Instruct to 1e-5.
"""
import argparse
import json
import pathlib
import re
from collections import Counter

import llama_gguf
import llama_reference

TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a tiny model<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCAB = 300
TEXT = """The tide comes in and the tide goes out. What is the height of the water at the lowest tide?
The user asks the assistant, the assistant answers. There are numbers and there are names in this text,
and some of them are there twice so that the pairs of letters in the words have counts to be sorted by."""
PROMPTS = [
    "The capital of France is",
    "<|im_start|>user\nWhat is a neap tide?<|im_end|>\n<|im_start|>assistant\n",
    "  1, 2, 34 tides\tand don't\n\n ask",
    "the tide " * 40,  # longer than a prefill chunk of 64
]
# file, type, tied output, seed
GOLDEN = [
    ("tiny-llama-q8_0.gguf", "Q8_0", False, 1),
    ("tiny-llama-q4_0.gguf", "Q4_0", False, 2),
    ("tiny-llama-q4_1.gguf", "Q4_1", True, 3),
    ("tiny-llama-f16.gguf", "F16", True, 4),
]
GREEDY = 24


def byte_alphabet():
    """GPT-2's printable stand-in for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(other)}}


ALPHABET = byte_alphabet()
# The `smollm` pre-tokenizer for ASCII text: digits one by one, then GPT-2's pattern.
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def words(text):
    for part in re.split(r"([0-9])", text):
        for word in WORDS.findall(part):
            yield [ALPHABET[b] for b in word.encode()]


def merged(word, pair):
    out = []
    for piece in word:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return out


def train_merges(n):
    all_words, merges = list(words(TEXT)), []
    for _ in range(n):
        counts = Counter(pair for w in all_words for pair in zip(w, w[1:]))
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(best)
        all_words = [merged(w, best) for w in all_words]
    return merges


def make_tokenizer():
    merges = train_merges(VOCAB - len(SPECIAL) - 256)
    tokens = SPECIAL + sorted(ALPHABET.values()) + [a + b for a, b in merges]
    assert len(tokens) == len(set(tokens)) == VOCAB
    types = [3] * len(SPECIAL) + [1] * (VOCAB - len(SPECIAL))  # control, normal
    return llama_gguf.Tokenizer(tokens, types, [" ".join(m) for m in merges], bos=1, eos=2,
                                unknown=0, padding=2, template=TEMPLATE)


def tokenize(t, text):
    ids = {token: i for i, token in enumerate(t.tokens)}
    rank = {tuple(m.split(" ")): i for i, m in enumerate(t.merges)}
    out = []
    for part in re.split("(" + "|".join(map(re.escape, SPECIAL)) + ")", text):
        if part in SPECIAL:
            out.append(ids[part])
            continue
        for word in words(part):
            while pairs := [p for p in zip(word, word[1:]) if p in rank]:
                word = merged(word, min(pairs, key=rank.get))
            out += [ids[piece] for piece in word]
    return out


def make(path, tensor_type, tied, seed):
    c = llama_gguf.Config("Tiny llama", hidden=64, layers=2, heads=4, kv_heads=2, ffn=128,
                          context=512, vocab=VOCAB, tied=tied)
    llama_gguf.write(path, c, make_tokenizer(), tensor_type, seed)


def golden(folder):
    tokenizer, models = make_tokenizer(), []
    for name, tensor_type, tied, seed in GOLDEN:
        make(folder / name, tensor_type, tied, seed)
        model, cases = llama_reference.Llama(folder / name), []
        int8 = llama_reference.Llama(folder / name, int8=True)
        for prompt in PROMPTS:
            tokens = tokenize(tokenizer, prompt)
            new, margins = model.greedy(tokens, GREEDY)
            cases.append({"prompt": prompt, "tokens": tokens,
                          "last_logits": [round(float(x), 6) for x in model.logits(tokens)],
                          "int8_logits": [round(float(x), 6) for x in int8.logits(tokens)],
                          "greedy": new, "margins": [round(m, 4) for m in margins]})
        models.append({"file": name, "cases": cases})
    note = ("made by tools/make_tiny_gguf.py: weights dequantised, float64 arithmetic; last_logits: "
            "after the prompt; greedy: the next tokens, end tokens ignored; margins: best minus "
            "second-best logit where greedy token j is chosen. For scale: llama.cpp 0.3.36 tokenizes "
            "the prompts alike and is at rms 0.04 to 0.32 from last_logits (quantised types: it "
            "rounds activations to 8 bits), 0.003 to 0.006 (f16)")
    lines = ",\n".join(json.dumps(m) for m in models)
    (folder / "tiny-llama.json").write_text(
        f'{{"note": {json.dumps(note)},\n"models": [\n{lines}\n]}}\n', encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("out", type=pathlib.Path, help="file, or with --golden the folder")
    p.add_argument("--type", default="Q8_0", help="F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0")
    p.add_argument("--tied", action="store_true", help="the output matrix is the embedding")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--golden", action="store_true")
    a = p.parse_args()
    golden(a.out) if a.golden else make(a.out, a.type, a.tied, a.seed)


if __name__ == "__main__":
    main()
