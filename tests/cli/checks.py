#!/usr/bin/env python3
"""What the tests of the command compare: ids, logits, the keys of JSON objects.

Reads .npy itself (f32, C order), so that the tests need nothing but Python's own library. Each check
is a function here and a word of the command line; it prints what is wrong and exits with 1.
"""
import array
import json
import math
import sys

STATS = """planned_peak_bytes measured_peak_bytes mapped_bytes peak_by_category held_bytes_at_end
memory_limit process_peak_rss_bytes process_start_rss_bytes wall_seconds barriers plans plan_cache_hits
plan_seconds steps threads isa""".split()
GENERATED = """prompt_tokens generated_tokens prompt_seconds generation_seconds
prompt_tokens_per_second finish_reason""".split()
PLAN = """planned_peak_bytes least_bytes mapped_bytes peak_by_category peak_step alive_at_peak arena_bytes
largest_live_bytes steps recomputed_steps row_streamed_steps fused_groups plan_seconds""".split()
CATEGORIES = "weights state activations scratch graph communication host".split()
TEXTS = {"isa", "finish_reason"}
OBJECTS = {"peak_by_category", "alive_at_peak"}


def npy(path):
    """Rows of an f32 matrix."""
    data = open(path, "rb").read()
    assert data[:8] == b"\x93NUMPY\x01\x00", f"{path}: no .npy file"
    end = 10 + int.from_bytes(data[8:10], "little")
    head = eval(data[10:end])  # a Python literal by the format's definition
    assert head["descr"] == "<f4" and not head["fortran_order"], f"{path}: {head}"
    rows, columns = head["shape"]
    values = array.array("f")
    values.frombytes(data[end:])
    assert len(values) == rows * columns, f"{path}: {len(values)} values, shape {head['shape']}"
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def load_line(path):
    """A JSON object that stands on one line."""
    text = open(path, encoding="utf-8").read()
    assert text.endswith("\n") and text.count("\n") == 1, f"{path}: not one line"
    return json.loads(text)


def check_keys(what, value, keys):
    for key in keys:
        assert key in value, f"{what}: no {key}"
        kind = str if key in TEXTS else (dict, list) if key in OBJECTS else (int, float)
        assert isinstance(value[key], kind), f"{what}: {key} is {value[key]!r}"


def check_categories(what, categories, total):
    assert sorted(categories) == sorted(CATEGORIES), f"{what}: {sorted(categories)}"
    assert sum(categories.values()) == total, f"{what}: {categories} sums to " \
        f"{sum(categories.values())}, the peak is {total}"


def check_stats(what, s):
    check_keys(what, s, STATS)
    check_categories(what, s["peak_by_category"], s["measured_peak_bytes"])
    assert s["planned_peak_bytes"] == s["measured_peak_bytes"], \
        f"{what}: planned {s['planned_peak_bytes']}, measured {s['measured_peak_bytes']}"
    assert s["held_bytes_at_end"] <= s["measured_peak_bytes"], f"{what}: held at the end"
    assert s["process_peak_rss_bytes"] >= s["process_start_rss_bytes"] > 0, f"{what}: resident bytes"
    assert not s["memory_limit"] or s["measured_peak_bytes"] <= s["memory_limit"], f"{what}: over the limit"


def stats(path):
    s = load_line(path)
    check_stats(path, s)
    check_keys(path, s, GENERATED)
    assert s["finish_reason"] in ("stop", "length", "interrupted"), s["finish_reason"]


def plan(path, idle=None):
    """`idle`: the peak may lie outside of the plan, where nothing is alive."""
    p = load_line(path)
    check_keys(path, p, PLAN)
    check_categories(path, p["peak_by_category"], p["planned_peak_bytes"])
    assert p["least_bytes"] <= p["planned_peak_bytes"], "the least is over the peak"
    assert p["largest_live_bytes"] <= p["arena_bytes"], "arena"
    assert 0 <= p["peak_step"] < p["steps"], "peak_step"
    assert p["alive_at_peak"] or idle, "nothing is alive at the peak"
    for alive in p["alive_at_peak"]:
        assert sorted(alive) == ["bytes", "dtype", "name", "op", "shape"], alive


def run_stats(path):
    check_stats(path, load_line(path))


def bench(path, *cells):
    b = load_line(path)
    rows = b["rows"] if len(cells) > 1 else [b]
    assert [f"{r['pp']},{r['tg']}" for r in rows] == list(cells), [(r["pp"], r["tg"]) for r in rows]
    for r in rows:
        check_stats(path, r)
        check_keys(path, r, GENERATED + (["generation_tokens_per_second"] if r["tg"] else []))


def equal_until(name, got, want, margins, least):
    """Equal up to the first place where the reference's two best are closer than `least`."""
    for j, (a, b, margin) in enumerate(zip(got, want, margins)):
        if margin < least:
            return j
        assert a == b, f"{name}: token {j} is {a}, the reference has {b} (margin {margin})"
    assert len(got) == len(want), f"{name}: {len(got)} tokens, the reference has {len(want)}"
    return len(want)


def distance(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / len(b))


def case_of(reference, model, i):
    r = json.load(open(reference, encoding="utf-8"))
    cases = next(m for m in r["models"] if m["file"] == model)["cases"] if model != "-" else r["cases"]
    return cases[int(i)]


def count(reference, model):
    r = json.load(open(reference, encoding="utf-8"))
    print(len(next(m for m in r["models"] if m["file"] == model)["cases"] if model != "-" else r["cases"]))


def prompt(reference, model, i):
    sys.stdout.buffer.write(case_of(reference, model, i)["prompt"].encode())


def length(reference, model, i):
    print(len(case_of(reference, model, i)["greedy"]))


def tokens(reference, model, i, path):
    got, want = json.load(open(path)), case_of(reference, model, i)["tokens"]
    assert got == want, f"case {i}: {got}, expected {want}"


def greedy(reference, model, i, path, least):
    case = case_of(reference, model, i)
    n = equal_until(f"case {i}", json.load(open(path)), case["greedy"], case["margins"], float(least))
    print(f"case {i}: {n} of {len(case['greedy'])} tokens compared")


# What llama.cpp (llama-cpp-python 0.3.36) gets for the tiny models' prompts: rms distance from the float64
# reference over the reference's rms. Like Neap it rounds activations to 8 bits for quantised weights.
TINY_LLAMA_CPP = {
    "tiny-llama-q8_0.gguf": (0.0191, 0.0314, 0.0290, 0.0297),
    "tiny-llama-q4_0.gguf": (0.0260, 0.0409, 0.0244, 0.0158),
    "tiny-llama-q4_1.gguf": (0.0828, 0.0318, 0.0258, 0.0191),
    "tiny-llama-f16.gguf": (0.0010, 0.0010, 0.0012, 0.0008),
}


def tiny_distance(reference, model, *paths):
    """Row 0 of each file: mean distance at most 1.1 x llama.cpp's, none over 1.1 x its worst."""
    off = []
    for i, path in enumerate(paths):
        want = case_of(reference, model, i)["last_logits"]
        off.append(distance(npy(path)[0], want) / math.sqrt(sum(x * x for x in want) / len(want)))
    peer = TINY_LLAMA_CPP[model]
    print(f"{model}: distance", *(f"{o:.4f} ({p:.4f})" for o, p in zip(off, peer)))
    assert len(off) == len(peer), "one file a case"
    assert sum(off) <= 1.1 * sum(peer) and max(off) <= 1.1 * max(peer), "further off than llama.cpp"


def chosen(path, ids):
    """Greedy: token j is the first of the largest of row j."""
    rows, ids = npy(path), json.load(open(ids))
    assert len(rows) == len(ids), f"{len(rows)} rows, {len(ids)} tokens"
    for j, (row, token) in enumerate(zip(rows, ids)):
        best = max(range(len(row)), key=lambda n: (row[n], -n))
        assert best == token, f"token {j} is {token}, row {j} says {best}"


def real_distance(reference, logits, *paths):
    """Issue 3, item 3: mean rms distance at most 1.1 x llama.cpp's, none over 1.1 x its worst."""
    cases, want = json.load(open(reference))["cases"], npy(logits)
    got = [distance(npy(p)[0], w) for p, w in zip(paths, want)]
    peer = [c["llama_cpp_rms"] for c in cases]
    print("rms distance from the reference, llama.cpp's in brackets:",
          ", ".join(f"{g:.3f} ({p:.3f})" for g, p in zip(got, peer)))
    assert len(got) == len(cases), "one file a case"
    mean, mean_peer = sum(got) / len(got), sum(peer) / len(peer)
    print(f"mean {mean:.4f}, llama.cpp {mean_peer:.4f}")
    assert mean <= 1.1 * mean_peer, f"mean {mean:.4f} > 1.1 x {mean_peer:.4f}"
    assert max(got) <= 1.1 * 0.416, f"worst {max(got):.3f} > 1.1 x 0.416"


def ids(reference, many):
    """`many` ids made from the reference's prompts, over and over."""
    source = [t for c in json.load(open(reference))["cases"] for t in c["tokens"]]
    print(json.dumps([source[i % len(source)] for i in range(int(many))]))


def ids_of(source, many):
    """`many` ids: those of a JSON array, over and over."""
    source = json.load(open(source))
    print(json.dumps([source[i % len(source)] for i in range(int(many))]))


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](*sys.argv[2:])
    except AssertionError as error:
        sys.exit(f"  {error}")
