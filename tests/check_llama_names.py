#!/usr/bin/env python3
"""House rule: docs/formats.md lists the keys of src/models/llama_names.def, each under its rule."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
rows = dict(re.findall(r'NP_KEY\("([^"]+)",\s*(\w+)', (root / "src/models/llama_names.def").read_text()))
page = (root / "docs/formats.md").read_text()
section = page[page.index("### Architecture `llama`"):]
section = section[:section.index("\n## ")]
HEADS = {"APPLIED": "**Keys that are applied**", "HARMLESS": "**Keys that change nothing**",
         "ONLY": "**Keys that are refused unless they change nothing**", "REFUSED": "**Keys that are refused**"}
faults = 0
for rule, head in HEADS.items():
    text = section[section.index(head):].split("\n* ")[0]
    listed = {"llama." + name for name in re.findall(r"`([a-z0-9_.]+[a-z0-9_])`", text)}
    wanted = {name for name, r in rows.items() if r == rule and name.startswith("llama.")}
    for name in sorted(listed ^ wanted):
        faults += 1
        print(f"{name}: {rule} in {'the table' if name in wanted else 'docs/formats.md'} only")
for name in rows:
    if name.startswith("general.") and f"`{name}`" not in section:
        faults += 1
        print(f"{name}: not in docs/formats.md")
sys.exit(faults > 0)
