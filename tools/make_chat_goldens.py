#!/usr/bin/env python3
"""Makes tests/golden/text/chat.json: what Jinja, set up as transformers does, makes of conversations
with the templates of tests/golden/text/templates/ and with those of src/text/chat_templates.def, whose
text must be llama.cpp's, too.

    pip install jinja2 llama-cpp-python && python3 tools/make_chat_goldens.py"""

import ast
import ctypes
import json
import pathlib
import re

import llama_cpp
from compare_templates import by_jinja, conversations

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "golden" / "text"
BOS, EOS = "<|im_start|>", "<|im_end|>"  # of the vocabulary in bpe.json


def named():
    text = (ROOT / "src/text/chat_templates.def").read_text()
    for name, parts in re.findall(r'NP_CHAT_TEMPLATE\("([^"]+)",\n((?:    ".*"\)?\n)+)', text):
        yield name, "".join(ast.literal_eval(line.strip().rstrip(")")) for line in parts.splitlines())


def by_llama(name, messages, ask):
    array = (llama_cpp.llama_chat_message * len(messages))()
    for m, row in zip(messages, array):
        row.role, row.content = m["role"].encode(), m["content"].encode()
    room = ctypes.create_string_buffer(100000)
    n = llama_cpp.llama_chat_apply_template(name.encode(), array, len(messages), ask, room, len(room))
    assert n >= 0, name
    return room.raw[:n].decode()


def row(name, template, rows):
    cases = []
    for messages in rows:
        for ask in (True, False):
            text = by_jinja(template, messages, ask, BOS, EOS)
            case = {"messages": messages, "ask": ask}
            case["raises" if isinstance(text, Exception) else "text"] = (
                str(text) if isinstance(text, Exception) else text
            )
            cases.append(case)
    return {"name": name, "template": template, "cases": cases}


def main():
    rows = []
    for path in sorted((OUT / "templates").glob("*.jinja")):
        with open(path, encoding="utf-8", newline="") as file:
            rows.append(row(path.stem, file.read(), conversations()))
    hi = [[{"role": "user", "content": "Hi"}]]
    for path in sorted((OUT / "templates" / "broken").glob("*.jinja")):
        rows.append(row("broken/" + path.stem, path.read_text(), hi))
        assert all("raises" in c for c in rows[-1]["cases"]), path
    builtin = []
    for name, template in named():
        few = [c for c in conversations() if all(m["content"].isascii() for m in c)]
        builtin.append(row(name, template, few))
        for case in builtin[-1]["cases"]:
            llama = by_llama(name, case["messages"], case["ask"])
            assert case["text"] == llama, (name, case, llama)
    data = {"made_by": "tools/make_chat_goldens.py", "templates": rows, "named": builtin}
    (OUT / "chat.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")
    count = sum(len(r["cases"]) for r in rows + builtin)
    print(f"{len(rows)} templates, {len(builtin)} by name, {count} renderings; llama.cpp {llama_cpp.__version__}")


if __name__ == "__main__":
    main()
