"""Writes llama-architecture GGUF files with random weights; needs the PyPI package `gguf`.

Names of tensors and metadata keys are those of llama.cpp. Rows of q and k are in the order that file
format wants (rotary pairs are neighbours); with random weights that only matters to whoever reads.
"""
import dataclasses

import gguf
import numpy as np


@dataclasses.dataclass
class Config:
    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    context: int
    vocab: int
    rope_base: float = 10000.0
    eps: float = 1e-5
    tied: bool = False

    @property
    def head_dim(self):
        return self.hidden // self.heads


@dataclasses.dataclass
class Tokenizer:
    tokens: list
    types: list
    merges: list
    bos: int
    eos: int
    unknown: int
    padding: int
    template: str
    model: str = "gpt2"
    pre: str = "smollm"


def shapes(c):
    """(name, rows, columns) of every matrix, (name, None, n) of every norm, in llama.cpp's order."""
    kv = c.kv_heads * c.head_dim
    yield "token_embd.weight", c.vocab, c.hidden
    for i in range(c.layers):
        b = f"blk.{i}."
        yield b + "attn_norm.weight", None, c.hidden
        yield b + "attn_q.weight", c.hidden, c.hidden
        yield b + "attn_k.weight", kv, c.hidden
        yield b + "attn_v.weight", kv, c.hidden
        yield b + "attn_output.weight", c.hidden, c.hidden
        yield b + "ffn_norm.weight", None, c.hidden
        yield b + "ffn_gate.weight", c.ffn, c.hidden
        yield b + "ffn_up.weight", c.ffn, c.hidden
        yield b + "ffn_down.weight", c.hidden, c.ffn
    yield "output_norm.weight", None, c.hidden
    if not c.tied:
        yield "output.weight", c.vocab, c.hidden


def random_tensor(rng, rows, columns, name):
    if rows is None:
        return (1 + 0.1 * rng.standard_normal(columns)).astype(np.float32)
    # Queries and keys are larger, so that attention is not flat; the output is, so that the best
    # token stands out from the second best.
    scale = {"attn_q": 2.0, "attn_k": 2.0, "output": 3.0}.get(name.split(".")[-2], 1.0)
    if name == "token_embd.weight":
        return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.5)
    w = rng.standard_normal((rows, columns), dtype=np.float32)
    return w * np.float32(scale / np.sqrt(columns))


def write(path, c, t, tensor_type, seed):
    """tensor_type: a name of gguf.GGMLQuantizationType, used for every matrix; norms stay F32."""
    qtype = gguf.GGMLQuantizationType[tensor_type]
    w = gguf.GGUFWriter(path, "llama")
    w.add_name(c.name)
    w.add_block_count(c.layers)
    w.add_context_length(c.context)
    w.add_embedding_length(c.hidden)
    w.add_feed_forward_length(c.ffn)
    w.add_head_count(c.heads)
    w.add_head_count_kv(c.kv_heads)
    w.add_rope_freq_base(c.rope_base)
    w.add_layer_norm_rms_eps(c.eps)
    file_type = "ALL_F32" if tensor_type == "F32" else "MOSTLY_" + tensor_type
    w.add_file_type(int(gguf.LlamaFileType[file_type]))
    w.add_vocab_size(c.vocab)
    w.add_rope_dimension_count(c.head_dim)
    w.add_add_space_prefix(False)
    w.add_add_bos_token(False)
    w.add_tokenizer_model(t.model)
    w.add_tokenizer_pre(t.pre)
    w.add_token_list(t.tokens)
    w.add_token_types(t.types)
    w.add_token_merges(t.merges)
    w.add_bos_token_id(t.bos)
    w.add_eos_token_id(t.eos)
    w.add_unk_token_id(t.unknown)
    w.add_pad_token_id(t.padding)
    w.add_chat_template(t.template)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    rng = np.random.default_rng(seed)
    for name, rows, columns in shapes(c):
        x = random_tensor(rng, rows, columns, name)
        if rows is None or tensor_type == "F32":
            w.add_tensor(name, x)
        elif tensor_type == "F16":
            w.add_tensor(name, x.astype(np.float16))
        else:
            w.add_tensor(name, gguf.quants.quantize(x, qtype), raw_dtype=qtype)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
