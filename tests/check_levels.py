#!/usr/bin/env python3
"""Who may include whom.

Every folder of src/ has a level; a file includes only folders of a lower level, or its own. Public
headers include public headers; the command and the server see public headers only. So there are
no cycles, and a lower part never knows of a higher one.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEVELS = {
    "base": 0, "cpu": 1, "text": 1, "audio": 1, "array": 2, "ops": 3, "formats": 3, "plan": 4,
    "dist": 4, "eval": 5, "grad": 6, "program": 7, "models": 7, "train": 8, "run": 9,
    "context.c": 10, "server": 11, "cli": 11,
}
PUBLIC_ONLY = {"server", "cli"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def check_public(path):
    for number, name in includes(path):
        if not (path.parent / name).is_file():
            yield number, f'"{name}" is not a public header beside this one'


def check_source(path, source):
    top = path.relative_to(source).parts[0]
    if top not in LEVELS:
        yield 1, f"src/{top} has no level: tests/check_levels.py lists the folders"
        return
    for number, name in includes(path):
        folder = name.split("/")[0]
        if folder == "neap":
            if not (ROOT / "include" / name).is_file():
                yield number, f'"{name}" does not exist in include/'
        elif "/" not in name or folder not in LEVELS:
            yield number, f'"{name}": an include names its folder, as in "base/ledger.h"'
        elif not (source / name).is_file():
            yield number, f'"{name}" does not exist in src/'
        elif folder == top:
            continue
        elif top in PUBLIC_ONLY:
            yield number, f'"{name}": {top}/ may include public headers only'
        elif LEVELS[folder] >= LEVELS[top]:
            yield number, (f'"{name}": {top} is level {LEVELS[top]} and may not include '
                           f"{folder}, level {LEVELS[folder]}")


def main():
    source, public = ROOT / "src", ROOT / "include" / "neap"
    faults = 0
    for folder, check in ((source, lambda p: check_source(p, source)), (public, check_public)):
        for path in sorted(folder.rglob("*")):
            if path.suffix not in {".c", ".h", ".inc", ".def"}:
                continue
            for number, text in check(path):
                print(f"{path.relative_to(ROOT)}:{number}: {text}")
                faults += 1
    print(f"check_levels: {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
