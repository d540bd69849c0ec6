#!/usr/bin/env python3
"""A file has at most 900 lines, an example 100, a function fits a screen (60 lines), a file name is
unique in src/.

Lists of rows are exempt from the size of a file: *.def and *_table.inc. A function starts at a brace
in the first column, or at the end of a line that starts in the first column and closes a parameter
list; it ends at a brace in the first column. That is how the sources are written.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES, EXAMPLE_LINES, FUNCTION_LINES = 900, 100, 60
CODE = {".c", ".h", ".inc"}
FOLDERS = ("src", "include", "tests", "bench", "examples")
ONE_LINE_HEAD = re.compile(r"^[A-Za-z_].*\)\s*\{\s*(/\*.*)?$")


def functions(lines):
    """(first line, number of lines) of each function body, braces included."""
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{") or ONE_LINE_HEAD.match(line):
            start = number
        elif start is not None and line.startswith("}"):
            yield start, number - start + 1
            start = None


def check(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    most = EXAMPLE_LINES if (ROOT / "examples") in path.parents else FILE_LINES
    if path.suffix != ".def" and not path.name.endswith("_table.inc") and len(lines) > most:
        yield 1, f"{len(lines)} lines, at most {most}"
    if path.suffix in CODE:
        for start, length in functions(lines):
            if length > FUNCTION_LINES:
                yield start, f"a function of {length} lines, at most {FUNCTION_LINES}"


def main():
    faults = 0
    names = defaultdict(list)
    paths = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*"))
             if p.suffix in CODE | {".def"} and p.is_file()]
    for path in paths:
        relative = path.relative_to(ROOT)
        if relative.parts[0] == "src":
            names[path.name].append(str(relative))
        for number, text in check(path):
            print(f"{relative}:{number}: {text}")
            faults += 1
    for name, places in names.items():
        if len(places) > 1:
            print(f"{name}: the same file name in {', '.join(places)}")
            faults += 1
    print(f"check_sizes: {len(paths)} files, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
