#!/usr/bin/env python3
"""Makes tests/golden/text/bpe.json: a small byte-level BPE vocabulary and what Hugging Face's
`tokenizers` makes of many odd texts with it, one group of cases for each pre-tokenizer.

    pip install tokenizers && python3 tools/make_text_goldens.py

The vocabulary is trained without cutting lines into words, so that its merges cross what a
pre-tokenizer keeps apart: a wrong cut shows in the ids."""

import json
import pathlib
import pydoc_data.topics
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "text"
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
AFTER = r"| ?[^\s\p{L}\p{N}]+%s|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|%s" + AFTER % r"[\r\n]*"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
FIRST = r"[^\r\n\p{L}\p{N}]?"
TEKKEN = f"{FIRST}{UPPER}*{LOWER}+|{FIRST}{UPPER}+{LOWER}*|\\p{{N}}" + AFTER % r"[\r\n/]*"
O200K = (
    f"{FIRST}{UPPER}*{LOWER}+{ENDINGS}?|{FIRST}{UPPER}+{LOWER}*{ENDINGS}?|\\p{{N}}{{1,3}}"
    + AFTER % r"[\r\n/]*"
)
QWEN35 = (
    ENDINGS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK3 = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def splits(*patterns):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns] + [byte_level]
    )


GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
KINDS = {  # name: (pre-tokenizer, ignore_merges)
    "smollm": (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2]),
        False,
    ),
    "gpt-2": (GPT2, False),
    "llama-bpe": (splits(CL100K % r"\p{N}{1,3}"), True),
    "dbrx": (splits(CL100K % r"\p{N}{1,3}"), False),
    "qwen2": (splits(CL100K % r"\p{N}"), False),
    "qwen35": (splits(QWEN35), False),
    "tekken": (splits(TEKKEN), True),
    "gpt-4o": (splits(O200K), False),
    "deepseek-v3": (splits(*DEEPSEEK3), False),
}
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im|>", "<|im|>>"]
USER_DEFINED = [
    "<tool>",
    "«ü €»",
]  # not all letters of the alphabet: HF would decode those as bytes
NO_MERGES = ["ĠzebraĠcrossing", "zebra", "Ġthing"]  # tokens that only ignore_merges reaches
WORLD = """Привет, как дела? Мир и война. 日本語のテキスト 한국어 문장 عربى नमस्ते ไทย naïve café Übergröße
🦙🚀👩‍👩‍👧‍👦🏳️‍🌈 don't I'll we've they're it's 12345 67 890 3.14 1,000,000 \t\ttabs\n\n\n  indent\n    more
"""
BITS = """the|The| quick|brown|123|4567 | 8|'s|'ll|'RE|don't|I'VE|'ſ|\n|\n\n|\r\n|\t|  |   |        |
Привет|мир|🦙|👩‍👩‍👧|é|naïve|日本語|한국어|عربى|...|!!|?!|==|->|<|x=1;|{}\n|\u00a0|\u3000|\u200b|\u180e|\u0085|
\u2028|\ufeff|\u0300|ß|Ⅻ|½|²|٣|ﬁ|e\u0301|म|नमस्ते|ไทย|𝔘𝔫|\x7f|\x01|\x00|𐍈|ǅ|ʰ|ª|々|A|ZZ|camelCase|HTTPServer|
_|__init__|/|//|\\|"|`|~|$5.00|1,000,000|3.14|%|#|@user|http://a.b/c?d=e&f|_a|-b|(c|"d|'e|'t'|''s|zebra|
 zebra crossing| thing|<|im|>|<|im_start|>|<|im_start|>user\n|<|im|>|<|im|>>|<|im|>>>|<tool>|«ü €»|<|endoftext|>""".split(
    "|"
)
BITS += ["<|im_start|>", "<|im_end|>", "<|im|>", "<|im|>>", "<|im|><|im|>", "<|im", "<|endoftext|>"]
# cases/files.md G1: tokens next to special ones
FIXED = [
    "",
    " ",
    "a",
    "<|im_start|>G",
    "<|im|>user",
    "a<|im|> b",
    "user<|im|>",
    " <|im|> ",
    "<|im|>\n<|im|>>",
    "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n",
    "<tool>x<tool>",
]


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1400,
        min_frequency=2,
        special_tokens=CONTROL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=16,
    )
    topics = pydoc_data.topics.topics
    lines = [
        line for name in sorted(topics)[:40] for line in topics[name].splitlines(keepends=True)
    ]
    tokenizer.train_from_iterator(lines + WORLD.splitlines(keepends=True) * 20, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocab = dict(model["vocab"])
    for text in NO_MERGES + USER_DEFINED:
        vocab.setdefault(text, len(vocab))
    return vocab, [tuple(m) for m in model["merges"]]


def make(vocab, merges, pre, ignore_merges):
    tokenizer = Tokenizer(models.BPE(dict(vocab), merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in CONTROL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in USER_DEFINED])
    assert tokenizer.get_vocab_size() == len(vocab)
    return tokenizer


def texts(rng):
    result = list(FIXED)
    for _ in range(80):
        result.append("".join(rng.choice(BITS) for _ in range(rng.randint(1, 20))))
    ranges = [
        (32, 126),
        (0x20, 0x24F),
        (0x370, 0x5FF),
        (0x900, 0xDFF),
        (0x1E00, 0x23FF),
        (0x3000, 0x30FF),
        (0x4E00, 0x9FFF),
        (0xAC00, 0xD7A3),
        (0x1F300, 0x1F64F),
    ]
    for _ in range(30):
        result.append(
            "".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 30)))
        )
    return result


def make_bpe():
    vocab, merges = train()
    tokens = [t for t, _ in sorted(vocab.items(), key=lambda item: item[1])]
    assert [vocab[t] for t in tokens] == list(range(len(tokens)))
    rng = random.Random(7)
    groups = []
    for name, (pre, ignore_merges) in KINDS.items():
        tokenizer = make(vocab, merges, pre, ignore_merges)
        cases = []
        for i, text in enumerate(texts(rng)):
            plain = i >= len(FIXED) and rng.random() < 0.2
            tokenizer.encode_special_tokens = plain
            cases.append({"text": text, "plain": plain, "ids": tokenizer.encode(text).ids})
        groups.append({"pre": name, "cases": cases})
    decode = []
    for _ in range(60):
        ids = [
            (
                rng.randrange(len(tokens))
                if rng.random() < 0.4
                else rng.randrange(len(CONTROL), 256 + len(CONTROL))
            )
            for _ in range(rng.randint(1, 16))
        ]
        decode.append(
            {
                "ids": ids,
                "text": tokenizer.decode(ids, skip_special_tokens=True),
                "all": tokenizer.decode(ids, skip_special_tokens=False),
            }
        )
    types = [3 if t in CONTROL else 4 if t in USER_DEFINED else 1 for t in tokens]
    data = {
        "made_by": "tools/make_text_goldens.py",
        "pre": "smollm",
        "bos": 1,
        "eos": 2,
        "unk": 0,
        "add_bos": 0,
        "tokens": tokens,
        "types": types,
        "merges": [f"{a} {b}" for a, b in merges],
        "groups": groups,
        "decode": decode,
    }
    (OUT / "bpe.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    make_bpe()
