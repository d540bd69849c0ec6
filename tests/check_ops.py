#!/usr/bin/env python3
"""Every op of src/ops/ops.def has a CASE row in tests/ops_cases.def, and no row names an unknown op."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def first_arguments(path, macro):
    text = COMMENT.sub("", path.read_text(encoding="utf-8"))
    return re.findall(rf"^\s*{macro}\(\s*(\w+)", text, re.MULTILINE)


def main():
    ops_def, cases_def = ROOT / "src/ops/ops.def", ROOT / "tests/ops_cases.def"
    for path in (ops_def, cases_def):
        if not path.is_file():
            print(f"check_ops: no {path.relative_to(ROOT)} yet")
            return 77
    ops, cases = first_arguments(ops_def, "NP_OP"), first_arguments(cases_def, "CASE")
    faults = [f"{op}: listed twice in ops.def" for op in sorted(set(ops)) if ops.count(op) > 1]
    faults += [f"{op}: no CASE row in tests/ops_cases.def" for op in ops if op not in cases]
    faults += [f"{op}: a CASE row, but no such op in ops.def" for op in sorted(set(cases) - set(ops))]
    print("\n".join(faults + [f"check_ops: {len(ops)} ops, {len(cases)} cases, {len(faults)} faults"]))
    return 1 if faults or not ops else 0


if __name__ == "__main__":
    sys.exit(main())
