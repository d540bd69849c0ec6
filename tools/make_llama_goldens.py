#!/usr/bin/env python3
"""What llama.cpp says of the tiny llama files that tests/cli/llama_files.json describes.

Usage: make_llama_goldens.py tests/cli/llama_files.json     rewrites its `greedy` and `scores`

Needs the PyPI package `llama-cpp-python`. Keys that llama.cpp reads as parameters only ("peer") are given
to it so. `scores`: every ninth of the last prompt token's; `greedy`: the tokens behind it.
"""
import json
import pathlib
import sys
import tempfile

import llama_cpp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "cli"))
import gguf_files

NEW, STEP = 8, 9


def ask(path, ids, extra):
    m = llama_cpp.Llama(str(path), n_ctx=64, n_batch=64, n_threads=1, verbose=False, type_k=0, type_v=0, **extra)
    m.eval(ids)
    scores, greedy = [], []
    for _ in range(NEW):
        row = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(m.ctx, -1), shape=(m.n_vocab(),)).copy()
        scores.append(row)
        greedy.append(int(row.argmax()))
        m.eval([greedy[-1]])
    m.close()
    margins = [float(np.diff(np.sort(row)[-2:])[0]) for row in scores]
    return greedy, [round(float(x), 5) for x in scores[0][::STEP]], min(margins)


def main():
    path = pathlib.Path(sys.argv[1])
    book = json.loads(path.read_text())
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "f.gguf"
        for case in book["cases"]:
            gguf_files.write(file, case["file"] | case.get("peer_file", {}))
            case["greedy"], case["scores"], margin = ask(file, book["ids"], case.get("peer", {}))
            print(case["name"], case["greedy"], f"least margin {margin:.3f}")
    book["peer"] = f"llama-cpp-python {llama_cpp.__version__}"
    head = {k: v for k, v in book.items() if k != "cases"}
    rows = ",\n".join(json.dumps(c) for c in book["cases"])
    path.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + rows + "\n]}\n")


if __name__ == "__main__":
    main()
