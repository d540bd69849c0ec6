#!/usr/bin/env python3
"""What the shared library exports: neap_ names only, each one declared NEAP_API in a public header,
every declared one defined, and the list equal to tests/abi/symbols.txt.

check_abi.py [--nm NM] [--update] LIBRARY     --update writes the list (make abi-update)
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/abi/symbols.txt"


def exported(nm, library):
    out = subprocess.run([nm, "-D", "--defined-only", "--format=posix", library], check=True,
                         capture_output=True, text=True).stdout
    return sorted({line.split()[0].split("@")[0] for line in out.splitlines() if line.strip()})


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def declared():
    """Names declared with NEAP_API; a declaration made by a macro is not read, so it is not missed."""
    names, makers = set(), False
    for path in sorted((ROOT / "include/neap").glob("*.h")):
        text = without_comments(path.read_text(encoding="utf-8"))
        makers = makers or re.search(r"#define\s+\w+\([^)]*\)\s*(\\\n\s*)?NEAP_API", text) is not None
        text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.MULTILINE | re.DOTALL)
        names |= set(re.findall(r"NEAP_API\b[^;(]*?\b(\w+)\s*\(", text))
        names |= set(re.findall(r"NEAP_API\b[^;(]*?\b(\w+)\s*(?:\[[^;]*\])?;", text))
    return names, makers


def compare(names):
    public, makers = declared()
    for name in names:
        if not name.startswith("neap_"):
            yield f"{name}: exported, but not a neap_ name"
        elif name not in public and not makers:
            yield f"{name}: exported, but not declared NEAP_API in include/neap"
    for name in sorted(public - set(names)):
        yield f"{name}: declared NEAP_API, but the library has no such symbol"
    if LIST.is_file():
        known = LIST.read_text(encoding="utf-8").split()
        for name in sorted(set(known) - set(names)):
            yield f"{name}: gone; an old program would not start"
        for name in sorted(set(names) - set(known)):
            yield f"{name}: new; `make abi-update` adds it to tests/abi/symbols.txt"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("library")
    args = parser.parse_args()
    names = exported(args.nm, args.library)
    if args.update:
        LIST.parent.mkdir(exist_ok=True)
        LIST.write_text("".join(name + "\n" for name in names), encoding="utf-8")
    faults = list(compare(names))
    print("\n".join(faults + [f"check_abi: {len(names)} symbols, {len(faults)} faults"]))
    if not LIST.is_file():
        print("check_abi: no tests/abi/symbols.txt yet (make abi-update)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
