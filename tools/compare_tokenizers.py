#!/usr/bin/env python3
"""Draws tokenizer.json files over all their fields, tokenizes odd texts with Hugging Face's
`tokenizers` and with `neap tokenize`, and counts: equal, refused by Neap with its reason, different.

    pip install tokenizers
    tools/compare_tokenizers.py build/release/neap [--files N] [--seed S] [--texts N] [--keep FILE N]
    tools/compare_tokenizers.py --patterns tests/golden/tokenizers/patterns.json

A file that Hugging Face's library itself does not load, or whose texts it cannot encode, is drawn anew.
--keep writes N of the applied files with their answers: tests/golden/tokenizers/drawn.json. Exit code 1
if anything differs, or if less than 90 % of the files are applied. --patterns writes what every pattern
of the list below gives with every behavior, and what added tokens give behind normalizers.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import Tokenizer

MARK = "\u2581"
ALPHABET = list("abcdexyzAB019 ,.!|_-'#") + ["\n", "\t", MARK, "\u00e9", "\u00c9", "\u0301", "e\u0301",
            "\u00b2", "\u2460", "\u24b6", "\u2167", "\u65e5", "\u672c", "\u3042", "\u30ab", "\u0434", "\u0416",
            "\u00df", "\u0130", "\ufb01", "\u2003", "\u00a0", "\u200b", "\u200d", "\u0661", "\u00bd", "\U0001f600",
            "\u017f", "\u212a", "\u0307", "\ufffd", "\x01", "\x7f", "\u1100\u1161", "\uac01", "\u00ab", "\u3002", "\u20ac"]
WORDS = ["the", "ab", "abc", "x", "it's", "we'LL", "I'm", "1234567", "12", "Hello", "na\u00efve", "m\u00b2", "a_b",
         "x|y", "...", "!?", "late", "LATE", "<s>", "</s>", "<mask>", "[X]", "ab c", "\u65e5\u672c\u8a9e", "tool",
         "stra\u00dfe", "\u0130x", "a\u0301b", "x\u0323\u0307"]
REGEX = [r"\s+", r"\w+", r"\d", r"\d{1,3}", r"x*", r"(?=(\d{3})+(?!\d))", r"[^\s\w]+", r"\p{L}+", r"\p{N}",
         r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[,.!?]", r"a|b",
         r"\b", r"\B", r"(?<=a)", r"(?<!a)b", r"^", r"$", r"[A-Z]", r"(?=[A-Z])", r"\W+", r"\S+", r"\h+", r"[\w']+",
         r"[^\W]", r"[^\w]", r"[[:alpha:]]+", r"[[:punct:]]", r"[[:digit:][:space:]]", r"\p{Han}+",
         r"[\p{Han}\p{Hiragana}]+", r"\p{Punct}", r"\p{^L}", r"\P{L}+", r"a++", r"(?>a|ab)c?", r"(a)\1", r"\s?[^\s]+",
         r"\R", r".", r"(?m:.)", r"(?m).+", r"\N+", r"\A.", r".\z", r".\Z", r"a{,2}", r"a{2}", r"_|-", r"(?i)[a-c]+",
         r"(?i:the|AB)", r"\x61|\u0062", r"\|", r"[\-_]", r"()", r"", r"(?:a|b)*", r"(?=a)|(?=\s)", r"\p{Lu}\p{Ll}*",
         r"\p{M}", r"\p{S}|\p{Sc}", r"[\s\S]", r"\p{Alpha}+", r"\p{Cyrillic}+|\p{Greek}", r"\G.", r"\X", r"a{1,2}+",
         r"[a-c&&b-d]", r"(?x: a b )", r"[[:^alpha:]]", r"(?i)strasse", r"{", r"a{x", r"\d+(?=\D)", r"(?<x>a)b",
         r"(?:\r?\n)+", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\s*[\r\n]+", r"[\s\d]+", r"[[:word:]]", r"[[:upper:]]",
         r"[[:lower:]]", r"\p{Word}", r"\p{Any}", r"\p{Letter}", r"\p{Number}", r"a*?b", r"(?#x)a"]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def one_of(r, *values):
    return r.choice(values)


def pattern(r):
    if r.random() < 0.3:
        return {"String": one_of(r, " ", "a", "|", "ab", MARK, ".", "\u00e9", "1", "  ", "'")}
    return {"Regex": r.choice(REGEX)}


def bool_of(r):
    return r.random() < 0.5


def normalizer(r, depth=0):
    kind = one_of(r, "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Replace", "Replace",
                  "Prepend", "Nmt", "BertNormalizer", "ByteLevel", "Sequence", "Marks")
    if kind == "Sequence" and depth < 2:
        return {"type": kind, "normalizers": [normalizer(r, depth + 1) for _ in range(r.randint(0, 3))]}
    if kind == "Strip":
        return {"type": kind, "strip_left": bool_of(r), "strip_right": bool_of(r)}
    if kind == "Replace":
        return {"type": kind, "pattern": pattern(r), "content": one_of(r, MARK, "", "x", " ", "ab", "_\u00e9")}
    if kind == "Prepend":
        return {"type": kind, "prepend": one_of(r, MARK, " ", "ab", "x")}
    if kind == "BertNormalizer":
        return {"type": kind, "clean_text": bool_of(r), "handle_chinese_chars": bool_of(r),
                "strip_accents": one_of(r, None, True, False), "lowercase": bool_of(r)}
    if kind in ("Marks", "Sequence"):
        return {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    return {"type": kind}


def pre_tokenizer(r, depth=0):
    kind = one_of(r, "ByteLevel", "ByteLevel", "Split", "Split", "Split", "Digits", "Punctuation", "Whitespace",
                  "WhitespaceSplit", "Metaspace", "CharDelimiterSplit", "BertPreTokenizer", "Sequence", "Sequence",
                  "FixedLength")
    if r.random() < 0.01:
        kind = "UnicodeScripts"
    if kind == "Sequence":
        if depth == 2:
            kind = "Digits"
        else:
            return {"type": kind, "pretokenizers": [pre_tokenizer(r, depth + 1) for _ in range(r.randint(1, 3))]}
    if kind == "ByteLevel":
        return {"type": kind, "add_prefix_space": bool_of(r), "trim_offsets": bool_of(r), "use_regex": bool_of(r)}
    if kind == "Split":
        return {"type": kind, "pattern": pattern(r), "behavior": r.choice(BEHAVIORS), "invert": r.random() < 0.3}
    if kind == "Digits":
        return {"type": kind, "individual_digits": bool_of(r)}
    if kind == "Punctuation":
        return {"type": kind, "behavior": r.choice(BEHAVIORS)}
    if kind == "Metaspace":
        return {"type": kind, "replacement": one_of(r, MARK, MARK, "_"),
                "prepend_scheme": one_of(r, "always", "never", "first"), "split": bool_of(r)}
    if kind == "CharDelimiterSplit":
        return {"type": kind, "delimiter": one_of(r, "|", " ", "a", "\u65e5")}
    if kind == "FixedLength":
        return {"type": kind, "length": r.randint(1, 5)}
    return {"type": kind}


def letters():
    out, n = {}, 0
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b:
            out[b] = chr(b)
        else:
            out[b] = chr(256 + n)
            n += 1
    return out


LETTERS = letters()


def model(r, bytes_too):
    affix = r.random()
    prefix = "##" if affix < 0.06 else None
    suffix = "</w>" if 0.04 < affix < 0.12 else None
    base = [c for c in ALPHABET if len(c) == 1 and r.random() < 0.93]
    if bytes_too:
        base = [c for c in LETTERS.values() if r.random() < 0.98]
    pieces = list(dict.fromkeys(base))
    r.shuffle(pieces)
    if prefix:
        pieces += [prefix + p for p in pieces if r.random() < 0.9]
    if suffix:
        pieces += [p + suffix for p in pieces if r.random() < 0.9]
    vocab = list(dict.fromkeys(pieces))
    common = [p for p in vocab if p.replace(prefix or "\0", "").replace(suffix or "\0", "") in
              set("abcdexyzAB019 _" + MARK + "\u0120\u00c3")] or vocab
    merges = []
    for _ in range(r.randint(0, 60)):
        a, b = r.choice(common), r.choice(common)
        if prefix and len(b) < len(prefix):
            continue
        new = a + b[len(prefix or ""):]
        if new not in vocab:
            vocab.append(new)
        if r.random() < 0.5:
            common.append(new)
        merges.append([a, b])
    if r.random() < 0.05 and merges:
        merges.append(merges[0])
    for word in ("Hello", "the", "\u0120the", MARK + "ab", "123"):
        if r.random() < 0.3 and word not in vocab:
            vocab.append(word)
    unk = None
    if r.random() < 0.5:
        unk = "<unk>"
        vocab.append(unk)
    fallback = r.random() < 0.25
    if fallback:
        vocab += [f"<0x{b:02X}>" for b in range(256) if r.random() < 0.995]
    if r.random() < 0.2:
        vocab += [w for w in ("<s>", "</s>", "[X]") if w not in vocab]
    if r.random() < 0.3:
        r.shuffle(vocab)
    return {"type": "BPE", "dropout": 0.1 if r.random() < 0.01 else one_of(r, None, None, 0.0), "unk_token": unk,
            "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix, "fuse_unk": bool_of(r),
            "byte_fallback": fallback, "ignore_merges": r.random() < 0.3,
            "vocab": {p: i for i, p in enumerate(vocab)},
            "merges": merges if bool_of(r) or any(" " in a + b for a, b in merges) else
            [" ".join(m) for m in merges]}


def added_tokens(r, vocab):
    out, names = [], ["<s>", "</s>", "<mask>", "[X]", "late", "LATE", "ab c", "tool", MARK + MARK, "  ", "a", "ab",
                      "\u00e9", "x y", "12", "\u65e5\u672c", "<s>x", "it", " x", "\u0130x", "\u2163"]
    r.shuffle(names)
    next_id = len(vocab)
    for name in names[:r.choice([0, 0, 1, 2, 3, 6])]:
        if name in vocab:
            number = vocab[name]
        else:
            number, next_id = next_id, next_id + 1
        special = bool_of(r)
        out.append({"id": number, "content": name, "single_word": r.random() < 0.25, "lstrip": r.random() < 0.3,
                    "rstrip": r.random() < 0.3, "normalized": bool_of(r), "special": special})
    return sorted(out, key=lambda t: t["id"])


def post_processor(r, tokens):
    if not tokens or r.random() < 0.5:
        return one_of(r, None, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": bool_of(r),
                                "use_regex": True})
    a, b = r.choice(tokens), r.choice(tokens)
    kind = one_of(r, "TemplateProcessing", "RobertaProcessing", "BertProcessing", "Sequence")
    def template():
        return {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": a["content"], "type_id": 0}}] * r.randint(0, 2) +
                [{"Sequence": {"id": "A", "type_id": 0}}] +
                [{"SpecialToken": {"id": b["content"], "type_id": 0}}] * r.randint(0, 1),
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {t["content"]: {"id": t["content"], "ids": [t["id"]], "tokens": [t["content"]]}
                                   for t in (a, b)}}
    if kind == "TemplateProcessing":
        return template()
    if kind == "Sequence":
        return {"type": kind, "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, template()] +
            ([{"type": "BertProcessing", "sep": [b["content"], b["id"]], "cls": [a["content"], a["id"]]}]
             if bool_of(r) else [])}
    pair = {"type": kind, "sep": [b["content"], b["id"]], "cls": [a["content"], a["id"]]}
    if kind == "RobertaProcessing":
        pair |= {"trim_offsets": True, "add_prefix_space": bool_of(r)}
    return pair


def decoder(r):
    what = r.random()
    if what < 0.3:
        return None
    if what < 0.6:
        return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    if what < 0.8:
        return {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    if what < 0.98:
        return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    return one_of(r, {"type": "WordPiece", "prefix": "##", "cleanup": True},
                  {"type": "BPEDecoder", "suffix": "</w>"})


def draw(r):
    norm = normalizer(r) if r.random() < 0.6 else None
    pre = pre_tokenizer(r) if r.random() < 0.9 else None
    m = model(r, "ByteLevel" in json.dumps([norm, pre]))
    tokens = added_tokens(r, m["vocab"])
    cut = None
    if r.random() < 0.1:
        cut = {"direction": one_of(r, "Left", "Right"), "max_length": r.randint(5, 12),
               "strategy": one_of(r, "LongestFirst", "OnlyFirst"), "stride": 0}
    padding = None
    if r.random() < 0.1:
        padding = {"strategy": one_of(r, "BatchLongest", {"Fixed": 9}), "direction": one_of(r, "Left", "Right"),
                   "pad_to_multiple_of": one_of(r, None, 4), "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
    return {"version": "1.0", "truncation": cut, "padding": padding, "added_tokens": tokens, "normalizer": norm,
            "pre_tokenizer": pre, "post_processor": post_processor(r, tokens), "decoder": decoder(r), "model": m}


def texts(r, count):
    out = ["", " "]
    for _ in range(count):
        parts = [one_of(r, r.choice(WORDS), r.choice(ALPHABET), r.choice(ALPHABET), " ", "  ", "\n")
                 for _ in range(r.randint(1, 14))]
        out.append(one_of(r, "", " ").join(parts))
    return [line for line in out if line != "-"]  # which is standard input to the command


def answers(path, lines):
    """Hugging Face's ids, or None: it may abort as a whole, so it runs in a process of its own."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            t = Tokenizer.from_file(path)
            os.write(theirs, json.dumps([t.encode(line).ids for line in lines]).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def neap(command, path, text):
    done = subprocess.run([command, "tokenize", "--tokenizer", path, "-p", text], capture_output=True)
    if done.returncode == 0:
        return json.loads(done.stdout), None
    return None, done.stderr.decode("utf-8", "replace").strip().replace(path, "FILE")


KINDS = [  # of added tokens behind normalizers, of merges that name special tokens
    {"added_tokens": [dict(id=0, content="ab", normalized=True, rstrip=True)], "normalizer": {"type": "Lowercase"}},
    {"added_tokens": [dict(id=0, content="AB", normalized=True, lstrip=True)], "normalizer": {"type": "Lowercase"}},
    {"added_tokens": [dict(id=0, content="\u2163", normalized=True, single_word=True)], "normalizer": {"type": "NFKC"}},
    {"added_tokens": [dict(id=0, content="\u00e9", normalized=True, lstrip=True, rstrip=True)],
     "normalizer": {"type": "NFD"}},
    {"added_tokens": [dict(id=0, content="x y", normalized=True, rstrip=True)],
     "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": MARK}},
    {"added_tokens": [dict(id=0, content=MARK + MARK, normalized=True, rstrip=True, special=True)],
     "normalizer": {"type": "Replace", "pattern": {"Regex": "\\s"}, "content": MARK}},
    {"added_tokens": [dict(id=0, content="x", normalized=True, single_word=True)],
     "normalizer": {"type": "Prepend", "prepend": "a"}},
    {"added_tokens": [dict(id=0, content="a", special=True)], "merges": [["a", "b"], ["ab", "a"], ["x", "a"]]},
    {"added_tokens": [dict(id=0, content="ab", special=True)], "merges": [["a", "b"], ["ab", "c"]]},
    {"added_tokens": [dict(id=0, content="abc", special=True)], "merges": [["a", "b"], ["ab", "c"]],
     "ignore_merges": True},
    {"added_tokens": [dict(id=0, content="b", special=True, normalized=True)], "merges": [["b", "b"], ["bb", "x"]]},
]


def plain_file(pieces, rest):
    """A file over characters, with the pieces of `rest`'s merges and tokens."""
    merges = rest.get("merges", [])
    vocab = {p: i for i, p in enumerate(dict.fromkeys(pieces + [a + b for a, b in merges]))}
    tokens = []
    for t in rest.get("added_tokens", []):
        number = vocab.get(t["content"], len(vocab) + len(tokens))
        tokens.append(dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=False) | t |
                      {"id": number})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": rest.get("normalizer"), "pre_tokenizer": rest.get("pre_tokenizer"),
            "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": False,
                      "ignore_merges": rest.get("ignore_merges", False), "vocab": vocab, "merges": merges}}


def write_patterns(path):
    """One model in which any two neighbours merge: ids show where a text was cut."""
    pieces = ["<unk>"] + [c for c in ALPHABET if len(c) == 1] + list("2345678E{\r")
    lines = ["ab  cd\n E1234567", "m\u00b2 \u2460\u24b6\u2167x_y", "it's we'LL|x-", "\u65e5\u672c\u3042 \u30ab\u0434",
             "aaab.a\r\n\u2003", "a\u0301 \u00e9\u00df\u017f ABab{"]
    rows, two = [], [[a, b] for a in "abcdexyz01239 .,|AB'" for b in "abcdexyz01239 .,|AB'"]
    with tempfile.TemporaryDirectory() as folder:
        name = str(pathlib.Path(folder) / "tokenizer.json")
        for i, regex in enumerate(REGEX):
            for j in range(2):
                step = {"type": "Split", "pattern": {"Regex": regex}, "behavior": BEHAVIORS[(i + 2 * j) % 5],
                        "invert": (i + j) % 3 == 0}
                file = plain_file(pieces, {"merges": two, "pre_tokenizer": step})
                pathlib.Path(name).write_text(json.dumps(file), encoding="utf-8")
                ids = answers(name, lines)
                if ids is not None:
                    rows.append({"step": step, "ids": ids})
        kinds = []
        for rest in KINDS:
            file = plain_file(["<unk>"] + list("abcxyiIVA ") + [MARK, "\u00e9", "e", "\u0301"], rest)
            pathlib.Path(name).write_text(json.dumps(file), encoding="utf-8")
            texts_of = ["ab c", "x   y", "AB ab a b", "abc xa  aba", "  ab  ", "\u2163 IV xIV", "e\u0301 \u00e9", "bbxbb", "x x y",
                        MARK + MARK + " a"]
            kinds.append({"file": file, "texts": texts_of, "ids": answers(name, texts_of)})
    value = {"file": plain_file(pieces, {"merges": two}), "texts": lines, "rows": rows, "kinds": kinds}
    pathlib.Path(path).write_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n",
                                  encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("neap", nargs="?")
    p.add_argument("--patterns", metavar="FILE")
    p.add_argument("--files", type=int, default=2000)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--texts", type=int, default=8)
    p.add_argument("--show", type=int, default=10)
    p.add_argument("--keep", nargs=2, metavar=("FILE", "N"))
    a = p.parse_args()
    if a.patterns:
        write_patterns(a.patterns)
        return
    count, reasons, kept, unloaded = collections.Counter(), collections.Counter(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "tokenizer.json")
        number = a.seed * 1000000
        while sum(count.values()) < a.files:
            number += 1
            r = random.Random(number)
            file, lines = draw(r), texts(r, a.texts)
            pathlib.Path(path).write_text(json.dumps(file, ensure_ascii=bool_of(r)), encoding="utf-8")
            want = answers(path, lines)
            if want is None:
                unloaded += 1
                continue
            verdict = "equal"
            for line, ids in zip(lines, want):
                got, error = neap(a.neap, path, line)
                if error:
                    verdict = "refused"
                    reasons[" ".join(error.split()[1:])[:100]] += 1
                    break
                if got != ids:
                    verdict = "different"
                    if count[verdict] < a.show:
                        print(f"draw {number}: {line!r}: Neap {got}, Hugging Face {ids}")
                        shown = {k: v for k, v in file.items() if k != "model" and v}
                        print("  ", json.dumps(shown, ensure_ascii=False)[:900],
                              {k: v for k, v in file["model"].items() if k not in ("vocab", "merges")})
                    break
            count[verdict] += 1
            if verdict == "equal" and a.keep and len(kept) < int(a.keep[1]) and len(file["model"]["vocab"]) < 330:
                kept.append({"draw": number, "file": file, "texts": lines, "ids": want})
    total = sum(count.values())
    print(f"tokenizers {tokenizers.__version__}; {total} files of {a.texts + 2} texts: "
          f"{count['equal']} equal, {count['refused']} refused, {count['different']} different; "
          f"{unloaded} more that Hugging Face's library refuses itself")
    for reason, n in reasons.most_common():
        print(f"{n:5} {reason}")
    if a.keep:
        pathlib.Path(a.keep[0]).write_text(json.dumps(kept, separators=(",", ":"), ensure_ascii=False) + "\n",
                                           encoding="utf-8")
    sys.exit(count["different"] > 0 or count["equal"] < 0.9 * total)


if __name__ == "__main__":
    main()
