#!/usr/bin/env python3
"""What `neap plan` writes to be looked at, checked with Python's own library only.

    page PAGE.html PLAN.json        the page's data is what --json --verbose said, and agrees with itself
    brief BRIEF.json PLAN.json      --json without --verbose says the same, less what is large
    trace TRACE.json PLAN.json      a Chrome trace of the same steps and bytes
    hostile_gguf IN OUT             the model's name is markup that ends a script
    hostile_pte IN OUT              names of constants are markup
"""
import json
import sys
from html.parser import HTMLParser

HOSTILE = "</script><img src=x onerror=alert(1)><!--"
LARGE = ["curve", "step_list", "values", "candidates", "fused", "rejected_fusions", "plans", "measured"]
IN_ARENA = ("activation", "scratch")


class Page(HTMLParser):
    """Scripts, and what the browser would fetch or run besides."""

    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.scripts, self.tags, self.kind = [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attrs = dict(attrs)
        for name in attrs:
            assert name not in ("src", "href", "data", "action") and not name.startswith("on"), (tag, attrs)
        if tag == "script":
            self.kind = attrs.get("type", "text/javascript")
            self.scripts.append([self.kind, ""])

    def handle_endtag(self, tag):
        if tag == "script":
            self.kind = None

    def handle_data(self, text):
        if self.kind:
            self.scripts[-1][1] += text


def load_line(path):
    text = open(path, encoding="utf-8").read()
    assert text.count("\n") == 1, f"{path}: more than a line"
    return json.loads(text)


def check_part(name, p, arena, largest):
    """Values and curve of one plan."""
    curve, values = p["curve"], p["values"]
    assert len(curve) == len(p["step_list"]), f"{name}: {len(curve)} steps, {len(p['step_list'])} named"
    change = [0] * (len(curve) + 1)
    first = 0
    for v in values:
        assert first <= v["first"] <= v["last"] < len(curve), (name, v)
        assert v["kind"] in (*IN_ARENA, "hosted", "result"), (name, v)
        assert v["bytes"] > 0 and all(isinstance(n, int) for n in v["shape"]), (name, v)
        first = v["first"]
        if v["kind"] in IN_ARENA:
            assert v["offset"] + v["bytes"] <= arena, (name, v)
            change[v["first"]] += v["bytes"]
            change[v["last"] + 1] -= v["bytes"]
    live = 0
    for step, bytes_ in enumerate(curve):
        live += change[step]
        assert live == bytes_, f"{name}, step {step}: {live} bytes of values, the curve has {bytes_}"
    if curve:
        assert max(curve) == largest and curve[p["peak_step"]] == largest, f"{name}: the peak"
    check_apart(name, [v for v in values if v["kind"] in IN_ARENA])


def check_apart(name, values):
    """In order of their first steps: nothing that is alive lies over a value that begins."""
    alive = []
    for v in values:
        alive = [w for w in alive if w["last"] >= v["first"]]
        for w in alive:
            assert w["offset"] + w["bytes"] <= v["offset"] or v["offset"] + v["bytes"] <= w["offset"], (name, v, w)
        alive.append(v)


def check_choices(p):
    choices = p["choices"]
    if p["curve"]:
        assert sum(c["chosen"] for c in choices) == 1, "choices: one is chosen"
    for a, b in zip(choices, choices[1:]):
        assert a["seconds"] <= b["seconds"], "choices: by time"
    for c in choices:
        assert sorted(c) == ["chosen", "peak_bytes", "seconds", "text"], c
        assert not p["candidates"] or c in p["candidates"], "a choice that is no candidate"
    for r in p["rejected_fusions"]:
        assert sorted(r) == ["a", "b", "bytes", "reason"] and r["reason"], r


def check_alive(p):
    """Alive at the peak are the plan's values, and perhaps what lies beside it."""
    alive = sorted((a["name"], a["op"], a["bytes"]) for a in p["alive_at_peak"])
    for v in p["values"]:
        if v["kind"] in IN_ARENA and v["first"] <= p["peak_step"] <= v["last"]:
            assert (v["name"], v["op"], v["bytes"]) in alive, ("not alive", v)
            alive.remove((v["name"], v["op"], v["bytes"]))


def check_plan(p):
    check_choices(p)
    holds = [part for part in p["plans"] if part["holds_peak"]]
    assert len(holds) == 1 and holds[0]["name"] == p["peak_plan"], "the plan that holds the peak"
    check_part(p["peak_plan"], p, p["arena_bytes"], p["largest_live_bytes"])
    for part in p["plans"]:
        if not part["holds_peak"]:
            check_part(part["name"], part, part["arena_bytes"], part["largest_live_bytes"])
    if p["curve"]:
        step = p["step_list"][p["peak_step"]]
        assert (step["name"], step["op"]) == (p["peak_step_name"], p["peak_step_op"]), "the peak's step"
        check_alive(p)


def page(path, plan_path):
    text = open(path, encoding="utf-8").read()
    plan = load_line(plan_path)
    parsed = Page()
    parsed.feed(text)
    kinds = [kind for kind, _ in parsed.scripts]
    assert kinds == ["application/json", "text/javascript"], kinds
    data = parsed.scripts[0][1]
    assert "<" not in data, "markup in the data"
    assert json.loads(data) == plan, "the page's data differ from --json"
    assert set(parsed.tags) & {"img", "link", "iframe", "object", "embed", "base"} == set(), parsed.tags
    assert "http:" not in text.replace(data, "") and "https:" not in text.replace(data, ""), "a reference"
    if plan.get("curve"):
        check_plan(plan)
    else:
        assert plan["steps"] == 0 or "plans" in plan, "steps without a curve"


def brief(brief_path, plan_path):
    short, plan = load_line(brief_path), load_line(plan_path)
    for p in (short, plan):
        del p["plan_seconds"]  # each planned for itself
    for key in LARGE:
        assert key not in short, key
        plan.pop(key, None)
    assert short == plan, "--json and --json --verbose differ"


def counters(events, process):
    return [e["args"]["bytes"] for e in events if e["ph"] == "C" and e["pid"] == process]


def check_process(events, process, part):
    steps = [e for e in events if e["ph"] == "X" and e["pid"] == process]
    assert [e["name"] for e in steps] == [s["name"] for s in part["step_list"]], "names of steps"
    for a, b in zip(steps, steps[1:]):
        assert abs(a["ts"] + a["dur"] - b["ts"]) < 1e-6 * max(1, b["ts"]) and a["dur"] > 0, (a, b)
    assert counters(events, process) == part["curve"] + [0], "counters"
    begin = [e for e in events if e["ph"] == "b" and e["pid"] == process]
    end = [e for e in events if e["ph"] == "e" and e["pid"] == process]
    assert [e["args"]["bytes"] for e in begin] == [v["bytes"] for v in part["values"]], "values"
    ids = {e["id"]: e["ts"] for e in begin}
    assert len(ids) == len(begin) == len(end), "ids"
    for e in end:
        assert ids.pop(e["id"]) < e["ts"], e


def trace(path, plan_path):
    events = json.load(open(path, encoding="utf-8"))["traceEvents"]
    plan = load_line(plan_path)
    parts = [plan if p["holds_peak"] else p for p in plan.get("plans", [])]
    times = [e["ts"] for e in events]
    assert times == sorted(times), "times go back"
    names = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert names == [p["name"] for p in plan.get("plans", [])], names
    for i, part in enumerate(parts):
        check_process(events, i + 1, part)


def hostile_gguf(source, target):
    """The name grows by a multiple of the alignment, so that the tensors stay where they have to."""
    data = open(source, "rb").read()
    at = data.index(b"general.name") + len(b"general.name") + 4
    length = int.from_bytes(data[at:at + 8], "little")
    new = HOSTILE.encode().ljust(length + 64, b"!")
    open(target, "wb").write(data[:at] + len(new).to_bytes(8, "little") + new + data[at + 8 + length:])


def hostile_pte(source, target):
    data = open(source, "rb").read()
    for old, new in ((b"table\0", b"<img>\0"), (b"places\0", b"</b>\"&\0")):
        assert old in data, old
        data = data.replace(old, new)
    open(target, "wb").write(data)


COMMANDS = {f.__name__: f for f in (page, brief, trace, hostile_gguf, hostile_pte)}

if __name__ == "__main__":
    try:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
    except AssertionError as e:
        sys.exit(f"    {' '.join(sys.argv[1:])}: {e}")
