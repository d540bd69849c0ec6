#!/usr/bin/env python3
"""Makes tests/golden/vocabularies/: GGUF files that hold a vocabulary with scores (sentencepiece's BPE,
trained here) or tokens that end a text, and cases.json with what llama.cpp makes of them.

    pip install gguf sentencepiece llama-cpp-python && python3 tools/make_vocabulary_goldens.py
"""
import ctypes
import json
import pathlib
import pydoc_data.topics
import random
import tempfile

import gguf
import llama_cpp
import sentencepiece

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "vocabularies"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
TEXTS = ["", "a", " a", "  a  b ", " ", "hello world", "na\u00efve \u00e9lan", "\u65e5\u672c\u8a9e \u30c6", "\t\n x", "<s>",
         "</s>x", "a<s>b", "<|im_end|>", "x[tool] y", "\U0001f600 ok", "\u2581a b", "<0x41>", "0123456789", "<unk>",
         "a  <s2>  b", "<|file_sep|>", "the object's methods", "if x:\n    return None\n"]
NAMES = ["<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
         "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
         "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[",
         "<|fim_pad|>", "<PAD>", "[PAD]", "<|repo_name|>", "<reponame>", "<|fim_repo|>", "<|file_sep|>",
         "<|fim_prefix|>", "<|message|>", "<|plain|>", "<|start|>", "<|plamo:eos|>"]
SETS = [["<|end|>", "<|return|>", "<|call|>"], ["<|end|>", "<|calls|>", "<|flush|>"], ["<|end|>", "<|return|>"],
        ["</s>", "<|tool_response>"]]


def letters():
    n, out = 0, []
    for b in range(256):
        plain = 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b
        out.append(chr(b) if plain else chr(256 + n))
        n += not plain
    return out


def write(path, model, tokens, keys):
    w = gguf.GGUFWriter(path, "llama")
    w.add_vocab_size(len(tokens))
    w.add_context_length(64)
    w.add_embedding_length(8)
    w.add_block_count(1)
    w.add_feed_forward_length(8)
    w.add_head_count(1)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre("default")
    w.add_token_list([t for t, _, _ in tokens])
    w.add_token_scores([s for _, s, _ in tokens])
    w.add_token_types([k for _, _, k in tokens])
    if model == "gpt2":
        w.add_token_merges(["a b"])
    for name, value in keys.items():
        getattr(w, name)(value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    w.close()


def trained(folder):
    corpus = pathlib.Path(folder) / "corpus.txt"
    topics = pydoc_data.topics.topics
    corpus.write_text("".join(topics[k] for k in sorted(topics)[:25]) +
                      "\\n\u00e9lan na\u00efve \u65e5\u672c\u8a9e \u30c6\u30b9\u30c8\\n" * 40, encoding="utf-8")
    prefix = str(pathlib.Path(folder) / "spm")
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=prefix, vocab_size=520, model_type="bpe", byte_fallback=True,
        character_coverage=0.9995, normalization_rule_name="identity", remove_extra_whitespaces=False,
        minloglevel=2)
    sp = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
    kinds = [(sp.is_unknown, UNKNOWN), (sp.is_control, CONTROL), (sp.is_unused, UNUSED), (sp.is_byte, BYTE)]
    return [(sp.id_to_piece(i), sp.get_score(i), next((k for f, k in kinds if f(i)), NORMAL))
            for i in range(sp.vocab_size())]


class Vocabulary:
    """llama.cpp's, of a file."""

    def __init__(self, path):
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def encode(self, text, special=True):
        raw, room = text.encode(), 2 * len(text.encode()) + 16
        ids = (llama_cpp.llama_token * room)()
        n = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), ids, room, True, special)
        return list(ids[:n])

    def piece(self, token):
        buffer = ctypes.create_string_buffer(256)
        n = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, 256, 0, False)
        return buffer.raw[:n]

    def is_end(self, token):
        return llama_cpp.llama_vocab_is_eog(self.vocab, token)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    quiet = llama_cpp.llama_log_callback(lambda *a: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    rng, cases, ends = random.Random(7), [], []
    topics = list(pydoc_data.topics.topics.values())
    texts = TEXTS + [t[a:a + rng.randint(1, 80)] for t in topics[:30] for a in [rng.randrange(len(t))]]
    texts += ["".join(rng.choice("ab \u00e9\u65e5 \n<>s/0|\u2581\U0001f600") for _ in range(rng.randint(1, 20)))
              for _ in range(30)]
    with tempfile.TemporaryDirectory() as folder:
        pieces = trained(folder)
        files = {
            "plain": (pieces, {}),
            "no_prefix": (pieces, {"add_add_space_prefix": False, "add_add_bos_token": False}),
            "more": (pieces + [("<|im_end|>", 0.0, USER), ("[tool]", 0.0, USER), ("<s2>", 0.0, CONTROL),
                               ("  ", 0.0, USER), ("<|file_sep|>", 0.0, NORMAL)],
                     {"add_add_eos_token": True, "add_bos_token_id": 1, "add_eos_token_id": 2, "add_unk_token_id": 0})}
        for name, (tokens, keys) in files.items():
            write(OUT / f"{name}.gguf", "llama", tokens, keys)
            v = Vocabulary(OUT / f"{name}.gguf")
            rows = [{"text": t, "ids": v.encode(t), "plain": v.encode(t, False)} for t in texts]
            for row in rows:
                row["pieces"] = b"".join(v.piece(i) for i in row["ids"]).decode("utf-8", "replace")
            cases.append({"file": name, "rows": rows})
        base = [(c, 0.0, NORMAL) for c in letters()] + [("ab", 0.0, NORMAL)]
        for number, names in enumerate([[n] for n in NAMES] + SETS):
            for kind in (NORMAL, CONTROL, USER):
                path = pathlib.Path(folder) / f"{number}-{kind}.gguf"
                write(path, "gpt2", base + [(n, 0.0, kind) for n in names], {"add_eos_token_id": 1, "add_bos_token_id": 1})
                v = Vocabulary(path)
                first = len(base)
                ends.append({"names": names, "type": kind,
                             "ends": [v.is_end(first + i) for i in range(len(names))],
                             "shown": [v.piece(first + i) != b"" for i in range(len(names))],
                             "found": [v.encode("ab" + n)[-1] == first + i for i, n in enumerate(names)]})
    value = {"llama_cpp_python": llama_cpp.__version__, "cases": cases, "ends": ends}
    (OUT / "cases.json").write_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n",
                                    encoding="utf-8")


if __name__ == "__main__":
    main()
