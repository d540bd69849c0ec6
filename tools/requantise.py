#!/usr/bin/env python3
"""Converts a GGUF file to another quantisation with llama.cpp's own quantiser.

Usage: requantise.py IN.gguf OUT.gguf TYPE        TYPE: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K_M Q5_K_M Q6_K F16 …
A quantised input is allowed, it is dequantised first. Needs the PyPI package `llama-cpp-python`.
The result appears under its name only when it is whole.
"""
import os
import sys

import llama_cpp


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, target, name = sys.argv[1:]
    file_type = getattr(llama_cpp, "LLAMA_FTYPE_MOSTLY_" + name, None)
    if file_type is None:
        sys.exit(f"requantise: llama.cpp has no type {name}")
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = file_type
    params.allow_requantize = True
    params.nthread = len(os.sched_getaffinity(0))
    part = target + ".part"
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, None)
    if llama_cpp.llama_model_quantize(source.encode(), part.encode(), params) != 0:
        sys.exit(f"requantise: {source} could not be converted to {name}")
    os.replace(part, target)


if __name__ == "__main__":
    main()
