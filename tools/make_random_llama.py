#!/usr/bin/env python3
"""Makes a llama GGUF of random weights (F16), wide enough for the types whose blocks hold 256 elements.

Usage: make_random_llama.py TOKENIZER_FROM.gguf OUT.gguf
Hidden 1024, ffn 2816, 8 layers, 16 heads, 4 kv heads; the tokenizer comes from a real model's file.
Its text means nothing: it is for measuring speed. Needs the PyPI package `gguf`.
"""
import os
import sys

import gguf

import llama_gguf


def tokenizer_of(path):
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer." + key].contents()
    return llama_gguf.Tokenizer(
        tokens=get("ggml.tokens"), types=get("ggml.token_type"), merges=get("ggml.merges"),
        bos=get("ggml.bos_token_id"), eos=get("ggml.eos_token_id"),
        unknown=get("ggml.unknown_token_id"), padding=get("ggml.padding_token_id"),
        template=get("chat_template"), model=get("ggml.model"), pre=get("ggml.pre"))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = sys.argv[1:]
    tokenizer = tokenizer_of(source)
    config = llama_gguf.Config("Random llama 1024", hidden=1024, layers=8, heads=16, kv_heads=4,
                               ffn=2816, context=8192, vocab=len(tokenizer.tokens), tied=True)
    part = target + ".part"
    llama_gguf.write(part, config, tokenizer, "F16", seed=7)
    os.replace(part, target)


if __name__ == "__main__":
    main()
