"""Writes tiny llama files in GGUF from a description, with Python's own library alone.

A description is {"seed", "type": "f32" | "f16" | "q8_0" | "q4_0", "sizes": {...}, "keys": {name: value or
null}, "with": [...], "without": [...], "tensors": {name: shape}}: `keys` come on top of the usual ones
(null takes one away; a value is [kind, value] or a plain bool, int, float or string); `with` are words of
OPTIONS; `tensors` are further ones; "times" multiplies some, "types" gives some another number. Weights are drawn by a generator that is written out here, so that a
description stands for the same bytes everywhere.
"""
import array
import math
import struct

SIZES = {"hidden": 32, "layers": 2, "heads": 2, "kv": 1, "head": 16, "ffn": 64, "context": 64, "vocab": 272,
         "experts": 0, "used": 0}
KINDS = {"u8": (0, "<B"), "u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q"),
         "f64": (12, "<d")}
OPTIONS = "qkv_bias output_bias ffn_bias ffn_down_bias fused fused_bias own_output rope_freqs".split()


def draw(seed, n, scale):
    """n floats of about unit spread times scale: sums of four uniform 16-bit parts (Knuth's MMIX)."""
    x, out = seed * 2654435761 + 12345 & (1 << 64) - 1, array.array("f")
    for _ in range(n):
        x = x * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        total = (x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48)
        out.append((total / 65536 - 2) * 1.7 * scale)
    return out


def text(s):
    b = s.encode("utf-8") if isinstance(s, str) else s
    return struct.pack("<Q", len(b)) + b


def value(v):
    if isinstance(v, list) and len(v) == 2 and v[0] in KINDS:
        number, form = KINDS[v[0]]
        return struct.pack("<I", number) + struct.pack(form, v[1])
    if isinstance(v, bool):
        return value(["bool", v])
    if isinstance(v, int):
        return value(["u32", v])
    if isinstance(v, float):
        return value(["f32", v])
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    if isinstance(v[0], str):
        return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))
    return struct.pack("<IIQ", 9, 5, len(v)) + struct.pack(f"<{len(v)}i", *v)


def half(x):
    return struct.pack("<e", x)


def q8_0(block):
    d = max(map(abs, block)) / 127
    return half(d) + struct.pack("<32b", *(round(x / d) if d else 0 for x in block))


def q4_0(block):
    d = max(block, key=abs) / -8
    q = [min(15, int(x / d + 8.5)) if d else 8 for x in block]
    return half(d) + bytes(q[i] | q[i + 16] << 4 for i in range(16))


def encoded(kind, values):
    if kind == "f32":
        return 0, values.tobytes()
    if kind == "f16":
        return 1, struct.pack(f"<{len(values)}e", *values)
    block = {"q8_0": q8_0, "q4_0": q4_0}[kind]
    return {"q8_0": 8, "q4_0": 2}[kind], b"".join(
        block(values[i:i + 32]) for i in range(0, len(values), 32))


def vocabulary(n):
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [b for b in range(256) if b not in plain]
    letters = sorted([chr(b) for b in plain] + [chr(256 + i) for i in range(len(other))])
    merged = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st", "uv", "wx", "yz", "th", "he"]
    more = [f"<|{i}|>" for i in range(n)]
    return (["<|endoftext|>"] + letters + merged + more)[:n], [f"{m[0]} {m[1]}" for m in merged]


def usual_keys(s):
    tokens, merges = vocabulary(s["vocab"])
    keys = {"general.architecture": "llama", "llama.block_count": s["layers"], "llama.context_length": s["context"],
            "llama.embedding_length": s["hidden"], "llama.feed_forward_length": s["ffn"],
            "llama.attention.head_count": s["heads"], "llama.attention.head_count_kv": s["kv"],
            "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0,
            "llama.rope.dimension_count": s["head"], "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
            "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [3] + [1] * (len(tokens) - 1),
            "tokenizer.ggml.merges": merges, "tokenizer.ggml.eos_token_id": 0}
    if s["head"] * s["heads"] != s["hidden"]:
        keys |= {"llama.attention.key_length": s["head"], "llama.attention.value_length": s["head"]}
    if s["experts"]:
        keys |= {"llama.expert_count": s["experts"], "llama.expert_used_count": s["used"]}
    return keys


def usual_tensors(s, options):
    """{name: (shape, scale, mean)}; vectors stay f32."""
    h, q, kv, f, e = s["hidden"], s["heads"] * s["head"], s["kv"] * s["head"], s["ffn"], s["experts"]
    out = {"token_embd.weight": ([s["vocab"], h], 0.5, 0), "output_norm.weight": ([h], 0.1, 1)}
    if "own_output" in options:
        out["output.weight"] = ([s["vocab"], h], 0.5, 0)
    if "rope_freqs" in options:
        out["rope_freqs.weight"] = ([s["head"] // 2], 0.5, 3)
    for i in range(s["layers"]):
        t = {"attn_norm.weight": ([h], 0.1, 1), "ffn_norm.weight": ([h], 0.1, 1),
             "attn_output.weight": ([h, q], 0, 0)}
        if "fused" in options:
            t["attn_qkv.weight"] = ([q + 2 * kv, h], 0.4, 0)
        for name, n in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)]:
            if "fused" not in options:
                t[name + ".weight"] = ([n, h], 0.4, 0)
            if "qkv_bias" in options:
                t[name + ".bias"] = ([n], 0.5, 0)
        if "fused_bias" in options:
            t["attn_qkv.bias"] = ([q + 2 * kv], 0.5, 0)
        if "output_bias" in options:
            t["attn_output.bias"] = ([h], 0.5, 0)
        if e:
            t |= {"ffn_gate_inp.weight": ([e, h], 0.4, 0), "ffn_gate_exps.weight": ([e, f, h], 0, 0),
                  "ffn_up_exps.weight": ([e, f, h], 0, 0), "ffn_down_exps.weight": ([e, h, f], 0, 0)}
        else:
            t |= {"ffn_gate.weight": ([f, h], 0, 0), "ffn_up.weight": ([f, h], 0, 0),
                  "ffn_down.weight": ([h, f], 0, 0)}
            for name, n in [("gate", f), ("up", f), ("down", h)]:
                if "ffn_bias" in options or f"ffn_{name}_bias" in options:
                    t[f"ffn_{name}.bias"] = ([n], 0.5, 0)
        out |= {f"blk.{i}.{name}": v for name, v in t.items()}
    return out


def parts(d):
    """(keys, tensors) of a description: {name: value}, {name: (shape, type number, bytes)}."""
    s = SIZES | d.get("sizes", {})
    keys = {k: v for k, v in (usual_keys(s) | d.get("keys", {})).items() if v is not None}
    wanted = usual_tensors(s, d.get("with", []))
    wanted |= {name: (shape, 0.5, 0) for name, shape in d.get("tensors", {}).items()}
    tensors = {}
    for i, (name, (shape, scale, mean)) in enumerate(wanted.items()):
        if name in d.get("without", []):
            continue
        n = math.prod(shape)
        values = draw(d.get("seed", 1) * 1000 + i, n, scale or 1 / math.sqrt(shape[-1]))
        if name in d.get("times", {}):
            values = array.array("f", (x * d["times"][name] for x in values))
        if mean:
            values = array.array("f", (x + mean for x in values))
        matrix = len(shape) > 1 and shape[-1] % 32 == 0 and "gate_inp" not in name
        tensors[name] = (shape, *encoded(d.get("type", "f32") if matrix else "f32", values))
    return keys, tensors


def write(path, d):
    keys, tensors = parts(d)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, v in keys.items():
        head += text(name) + value(v)
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", d.get("types", {}).get(name, kind), len(data))
        data += raw + bytes(-len(raw) % 32)
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % 32) + data)
