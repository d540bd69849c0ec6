#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/: small tokenizer.json files of several kinds, and <name>.cases.json
with what Hugging Face's `tokenizers` makes of many odd texts; the same for Whisper's file, which is
among the shared models.

    pip install tokenizers jinja2 && python3 tools/make_tokenizer_goldens.py [WHISPER/tokenizer.json]
"""
import json
import pathlib
import pydoc_data.topics
import random
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

from make_text_goldens import BITS, CL100K, FIXED, WORLD, train

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tokenizers"
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MORE = [
    "<mask>", "a <mask> b", "  <mask>  <mask>\n x", "<left> <right> x", "x \u3000<left>\u3000y",
    "<right>\u00a0\u2003 y", "late word", "LATE<mask>late", "e\u0301e\u0301 late e\u0301",
    "\u1100\u1161\u11a8 \uac01", "\u212b \u00c5 A\u030a", "q\u0307\u0323", "it's we'LL I'M",
    "<|0.00|> hello<|2.40|>", "<|startoftranscript|><|en|><|transcribe|><|notimestamps|> So",
    "<|endoftext|>", " <|endoftext|> ", "tab\tand\vfeed\fx", "12 3456 7890123", "\u0661\u0662\u0663",
    "x\u0345\u0301", "\U0001d160", "\ufb01 \ufdfa", "a" * 300, " " * 70 + "x", "\n" * 33,
    "the the the the " * 20, "a,b.c;d|e|f", "one|two||three|", "|", "||", "|x",
]


def small():
    vocab, merges = train()
    keep = [m for m in merges if vocab[m[0] + m[1]] < 700]
    pieces = sorted((p for p in vocab if vocab[p] < 700 and not p.startswith("<|")), key=vocab.get)
    return {p: i for i, p in enumerate(pieces)}, keep


def add(tokenizer, special, plain=()):
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) if isinstance(t, str) else t for t in special])
    tokenizer.add_tokens(list(plain))


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern, behavior, invert)


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)


def digits(vocab, merges):
    """As SmolLM2: digits, then GPT-2's expression; the control tokens come first."""
    ids = {t: i for i, t in enumerate(CONTROL)} | {p: i + 3 for p, i in vocab.items()}
    t = Tokenizer(models.BPE(ids, merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2])
    add(t, CONTROL)
    return t


def llama3(vocab, merges):
    """As Llama 3: ignore_merges, a template with BOS."""
    ids = dict(vocab) | {"ĠzebraĠcrossing": len(vocab), "zebra": len(vocab) + 1}
    t = Tokenizer(models.BPE(ids, merges, ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([split(Regex(CL100K % r"\p{N}{1,3}")), BYTES])
    add(t, ["<|begin_of_text|>", "<|eot_id|>"] + CONTROL)
    bos = ("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[bos])])
    return t


def roberta(vocab, merges):
    """A space first, tokens that take white space with them, tokens in normalised text."""
    t = Tokenizer(models.BPE(dict(vocab), merges))
    t.normalizer = normalizers.Sequence([normalizers.NFC()])
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    add(t, ["<s>", "</s>", AddedToken("<mask>", special=True, normalized=False, lstrip=True),
            AddedToken("<left>", special=True, normalized=False, lstrip=True),
            AddedToken("<right>", special=True, normalized=False, rstrip=True)] + CONTROL,
        [AddedToken("late", normalized=True), AddedToken("late wo", normalized=True),
         AddedToken("\u00e9 late", normalized=True, rstrip=True, lstrip=True)])
    t.post_processor = processors.RobertaProcessing(
        ("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def qwen(vocab, merges):
    """As Qwen: NFC, Qwen's expression; ids out of order and with holes."""
    rng = random.Random(5)
    ids = list(range(len(vocab) + 40))
    rng.shuffle(ids)
    t = Tokenizer(models.BPE(dict(zip(vocab, sorted(ids[:len(vocab)], key=lambda i: i * 7 % 701))),
                             merges))
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([split(Regex(CL100K % r"\p{N}")), BYTES])
    return t


def cuts(vocab, merges):
    """Other cuts: literal texts, removed matches and gaps, merged with what is before; unknown bytes."""
    gone = {"z", "q", "Ã"}
    vocab = {p: i for p, i in vocab.items() if not any(c in p for c in gone)}
    vocab = {p: i for i, p in enumerate(vocab)} | {"<unk>": len(vocab)}
    t = Tokenizer(models.BPE(vocab, [m for m in merges if m[0] + m[1] in vocab], unk_token="<unk>",
                             fuse_unk=True))
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        split("|", "merged_with_previous"), split(Regex(r"[;,]+"), "removed"),
        split(Regex(r"[ \t]?\w+|\H\S*| "), "removed", True),
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(), BYTES])
    add(t, ["<mask>"])
    return t


def characters(normalizer, pre_tokenizer, decoder):
    """Over characters, bytes as the last resort, as Llama 2 and Gemma have it."""
    topics = pydoc_data.topics.topics
    words = (WORLD + "".join(topics[name] for name in sorted(topics)[:12])).replace(" ", "\u2581")
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    trained.train_from_iterator([words], trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=list("\u2581\u00e9\u65e5\u0430\u0435")))
    model = json.loads(trained.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += [p for p in model["vocab"] if p not in pieces]
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [tuple(m) for m in model["merges"]],
                             unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer:
        t.normalizer = normalizer
    if pre_tokenizer:
        t.pre_tokenizer = pre_tokenizer
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                   decoders.Fuse()] + decoder)
    add(t, ["<unk>", "<s>", "</s>", AddedToken("<mask>", special=True, normalized=False, lstrip=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def llama2(vocab, merges):
    return characters(
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None,
        [decoders.Strip(" ", 1, 0)])


def gemma(vocab, merges):
    return characters(normalizers.Replace(" ", "\u2581"), split(" ", "merged_with_previous"), [])


def mistral(vocab, merges):
    """Metaspace; no bytes, so unknown characters."""
    t = characters(None, pre_tokenizers.Metaspace("\u2581", prepend_scheme="first", split=False),
                   [decoders.Strip(" ", 1, 0)])
    t.model.byte_fallback = False
    return t


def metaspace(vocab, merges):
    t = characters(None, pre_tokenizers.Metaspace("\u2581", prepend_scheme="always", split=True), [])
    t.decoder = decoders.Sequence([decoders.Metaspace("\u2581", prepend_scheme="always")])
    t.model.byte_fallback = False
    t.model.fuse_unk = False
    return t


def texts(seed, count):
    rng = random.Random(seed)
    result = FIXED + MORE
    for _ in range(count):
        result.append("".join(rng.choice(BITS + MORE[:14]) for _ in range(rng.randint(1, 12))))
    for low, high in [(32, 126), (0x20, 0x24F), (0x2B0, 0x5FF), (0x900, 0xDFF), (0x1E00, 0x23FF),
                      (0x3000, 0x30FF), (0xAC00, 0xD7A3), (0x1F300, 0x1F9FF)]:
        for _ in range(count // 12):
            result.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 16))))
    return result


def cases(tokenizer, seed, count):
    rows = []
    for i, text in enumerate(texts(seed, count)):
        plain = i % 5 == 4
        tokenizer.encode_special_tokens = plain
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        row = {"text": text, "ids": ids, "decoded": tokenizer.decode(ids)}
        if any(tokenizer.decode([i]) == "" for i in ids):
            row["all"] = tokenizer.decode(ids, skip_special_tokens=False)
        rows.append(row | ({"plain": True} if plain else {}))
    tokenizer.encode_special_tokens = False
    return {"round": tokenizer.encode("").ids, "cases": rows}


def write(path, value, **how):
    path.write_text(json.dumps(value, separators=(",", ":"), **how) + "\n", encoding="utf-8")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    vocab, merges = small()
    for seed, make in enumerate(
            [digits, llama3, roberta, qwen, cuts, llama2, gemma, mistral, metaspace]):
        tokenizer = make(vocab, merges)
        if tokenizer.decoder is None:
            tokenizer.decoder = decoders.ByteLevel()
        file = json.loads(tokenizer.to_str())
        if make is not qwen:  # it keeps merges as pairs
            file["model"]["merges"] = [" ".join(m) for m in file["model"]["merges"]]
        path = OUT / f"{make.__name__}.json"
        write(path, file, ensure_ascii=make is digits)
        write(OUT / f"{make.__name__}.cases.json", cases(Tokenizer.from_file(str(path)), seed, 80),
              ensure_ascii=False)
    if len(sys.argv) > 1:
        write(OUT / "whisper.cases.json", cases(Tokenizer.from_file(sys.argv[1]), 9, 250),
              ensure_ascii=False)


if __name__ == "__main__":
    main()
