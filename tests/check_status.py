#!/usr/bin/env python3
"""Every public function that returns neap_status has a row in tests/unit/test_status_rule.c (an error, then a
success) and, if it takes a pointer, one in tests/null_rows.def; and goes through NP_CALL, or says here why not."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# It reads the stored error; it makes the context that an error would be in; it calls another one.
OTHERWISE = {"neap_context_status", "neap_context_new", "neap_eval"}


def without_comments(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def declared():
    for path in sorted((ROOT / "include/neap").glob("*.h")):
        yield from re.findall(r"NEAP_API\s+neap_status\s+(\w+)\s*\(([^;]*)\)\s*;", without_comments(path))


def bodies():
    found = {}
    for path in (ROOT / "src").rglob("*.c"):
        for name, body in re.findall(r"^neap_status (neap_\w+)\([^;{]*\)\n\{\n(.*?)^\}", without_comments(path),
                                     re.MULTILINE | re.DOTALL):
            found[name] = body
    return found


def faults():
    functions, made = dict(declared()), bodies()
    rows = set(re.findall(r"\bROW\((neap_\w+)", without_comments(ROOT / "tests/unit/test_status_rule.c")))
    nulls = set(re.findall(r"\bNUL\((neap_\w+)", without_comments(ROOT / "tests/null_rows.def")))
    for name, parameters in functions.items():
        if name == "neap_context_status":
            continue
        if name not in rows:
            yield f"{name}: no row in tests/unit/test_status_rule.c"
        if "*" in parameters and name not in nulls:
            yield f"{name}: no row in tests/null_rows.def"
        if name not in OTHERWISE and "NP_CALL" not in made.get(name, ""):
            yield f"{name}: does not go through NP_CALL (src/base/context.h)"
    for name in sorted((rows | nulls) - set(functions)):
        yield f"{name}: a row, but no such function"


if __name__ == "__main__":
    FOUND = list(faults())
    print("\n".join(FOUND + [f"check_status: {len(FOUND)} faults"]))
    sys.exit(1 if FOUND else 0)
