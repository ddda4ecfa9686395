# SPDX-License-Identifier: Apache-2.0
"""Llama-style checkpoints in GGUF: configuration, weights (also in their blocks) and tokenizer."""
from dataclasses import dataclass

import numpy as np

from llama_onnx import Blocks, Config

BLOCK = 32
ARCHITECTURES = ("llama", "qwen2")
# How Qwen2's tokenizer.json splits a text into words.
QWEN2_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
               r"\s+(?!\S)|\s+")
# GGUF's name of a linear layer's weights -> Hugging Face's, which the graph writer uses.
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def blocks_of(data, size):
    """uint8 [rows, blocks, size]."""
    return data.reshape(len(data), -1, size)


def half(data):
    """The first two bytes of each block as float32."""
    return np.ascontiguousarray(data[..., :2]).view(np.float16)[..., 0].astype(np.float32)


def halves(data):
    """Bytes of two numbers of 4 bits: all low ones of the last axis, then all high ones."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def as_rows(x):
    """[rows, all else]."""
    return x.reshape(len(x), -1)


def q4_1(data):
    """Blocks of 32: scale and minimum (float16), then bytes of which the low halves are the first 16 numbers."""
    data = blocks_of(data, 4 + BLOCK // 2)
    return Blocks(as_rows(halves(data[..., 4:])), half(data), half(data[..., 2:]))


def q8_0(data):
    """Blocks of 32: scale (float16), then int8 numbers."""
    data = blocks_of(data, 2 + BLOCK)
    return Blocks(as_rows(np.ascontiguousarray(data[..., 2:]).view(np.int8)), half(data), None)


def q5_0(data):
    """Blocks of 32: scale (float16), the fifth bits, then bytes of halves as in Q4_1; a number of 16 is zero."""
    data = blocks_of(data, 6 + BLOCK // 2)
    fifth = np.unpackbits(np.ascontiguousarray(data[..., 2:6]), axis=-1, bitorder="little")
    q = (halves(data[..., 6:]) | fifth << 4).astype(np.int8) - 16
    return Blocks(as_rows(q), half(data), None)


def q4_k(data):
    """Blocks of 256: scales of scales and of minima (float16), eight scales and minima of 6 bits in 12 bytes, then for each 64
    numbers 32 bytes of halves."""
    data = blocks_of(data, 144)
    a, b, c = (data[..., first:first + 4] for first in (4, 8, 12))
    scale = np.concatenate([a & 63, c & 15 | a >> 6 << 4], axis=-1)
    minimum = np.concatenate([b & 63, c >> 4 | b >> 6 << 4], axis=-1)
    q = halves(data[..., 16:].reshape(*data.shape[:2], 4, BLOCK)).reshape(*data.shape[:2], 8, BLOCK)
    q = np.where(scale[..., None] == 0, 0, q)  # which means the same
    return Blocks(as_rows(q), as_rows(half(data)[..., None] * scale), as_rows(-half(data[..., 2:])[..., None] * minimum))


def q6_k(data):
    """Blocks of 256: for each 128 numbers 64 bytes of their low 4 bits, for each 128 32 bytes of their high 2, an int8 scale of
    each 16 numbers, and the scale of the scales (float16); a number of 32 is zero."""
    data = blocks_of(data, 210)
    low = halves(data[..., :128].reshape(*data.shape[:2], 2, 64)).reshape(*data.shape[:2], 2, 4, BLOCK)
    high = data[..., 128:192].reshape(*data.shape[:2], 2, 1, BLOCK) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    scale = np.ascontiguousarray(data[..., 192:208]).view(np.int8)
    return Blocks(as_rows((low | high << 4).astype(np.int8) - 32), as_rows(half(data[..., 208:])[..., None] * scale), None)


READERS = {"Q4_1": q4_1, "Q8_0": q8_0, "Q5_0": q5_0, "Q4_K": q4_k, "Q6_K": q6_k}


def halves_apart(rows, heads):
    """The order that undoes GGUF's of the rows of queries and keys: it puts the two numbers that rotary embedding
    turns together side by side, Hugging Face's half a head apart."""
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(rows)


class Checkpoint:
    def __init__(self, path):
        from gguf import GGUFReader
        self.reader = GGUFReader(path)
        self.architecture = self.field("general.architecture")
        if self.architecture not in ARCHITECTURES:
            raise SystemExit(f"{path}: architecture '{self.architecture}'; known are {', '.join(ARCHITECTURES)}")
        of = lambda key: self.field(f"{self.architecture}.{key}")
        heads, width = of("attention.head_count"), of("embedding_length")
        turned = f"{self.architecture}.rope.dimension_count"
        if turned in self.reader.fields and self.field(turned) != width // heads:
            raise SystemExit(f"{path}: rotary embedding of a part of each head is not known")
        self.config = Config(
            layers=of("block_count"), hidden=width, heads=heads, kv_heads=of("attention.head_count_kv"),
            intermediate=of("feed_forward_length"), vocabulary=len(self.field("tokenizer.ggml.tokens")),
            positions=of("context_length"), theta=of("rope.freq_base"), epsilon=of("attention.layer_norm_rms_epsilon"))

    def field(self, key):
        if key not in self.reader.fields:
            raise SystemExit(f"the GGUF file has no '{key}'")
        return self.reader.fields[key].contents()

    def weights(self, keep_blocks=False, as_stored=False):
        """By Hugging Face's names: float32 arrays, and with `keep_blocks` Blocks where the file has them. Rows of
        queries and keys are in Hugging Face's order, or with `as_stored` in GGUF's."""
        from gguf import dequantize
        out = {}
        for tensor in self.reader.tensors:
            kind, shape = tensor.tensor_type.name, [int(n) for n in tensor.shape[::-1]]
            if kind in READERS and keep_blocks:
                value = READERS[kind](tensor.data)
            elif kind in READERS or kind in ("F32", "F16"):
                value = dequantize(tensor.data, tensor.tensor_type).reshape(shape)
            else:
                raise SystemExit(f"{tensor.name} is {kind}; known are F32, F16, {', '.join(READERS)}")
            parts = tensor.name.split(".")
            if parts[0] == "blk":
                name = f"model.layers.{parts[1]}.{LAYER[parts[2]]}.{parts[3]}"
                turned = {"attn_q": self.config.heads, "attn_k": self.config.kv_heads}.get(parts[2])
                if turned and self.architecture == "llama" and not as_stored:
                    value = value[halves_apart(shape[0], turned)]
            else:
                name = WHOLE[parts[0]] + ".weight"
            out[name] = value
        return out

    def tokenizer(self):
        """As Hugging Face's tokenizers.Tokenizer."""
        from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
        model, pre = self.field("tokenizer.ggml.model"), self.field("tokenizer.ggml.pre")
        if model != "gpt2" or pre not in ("smollm", "qwen2"):
            raise SystemExit(f"tokenizer '{model}' with '{pre}': only gpt2 with smollm or qwen2 is known")
        tokens = self.field("tokenizer.ggml.tokens")
        merges = [tuple(m.split(" ")) for m in self.field("tokenizer.ggml.merges")]
        result = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
        if pre == "smollm":
            words = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        else:
            result.normalizer = normalizers.NFC()
            words = [pre_tokenizers.Split(Regex(QWEN2_WORDS), "isolated"),
                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        result.pre_tokenizer = pre_tokenizers.Sequence(words)
        result.decoder = decoders.ByteLevel()
        control = 3
        kinds = self.field("tokenizer.ggml.token_type")
        result.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                   for t, kind in zip(tokens, kinds) if kind == control])
        return result

    def tokenizer_config(self):
        """What servers read of Hugging Face's tokenizer_config.json: the chat template and the tokens around texts."""
        tokens = self.field("tokenizer.ggml.tokens")
        config = {"chat_template": self.field("tokenizer.chat_template")}
        for name in ("bos", "eos"):
            if f"tokenizer.ggml.{name}_token_id" in self.reader.fields:
                config[name + "_token"] = tokens[self.field(f"tokenizer.ggml.{name}_token_id")]
        return config

    def chat(self):
        """The chat template around one prompt, which '{prompt}' stands for."""
        import jinja2
        return jinja2.Template(self.field("tokenizer.chat_template")).render(
            messages=[{"role": "user", "content": "{prompt}"}], add_generation_prompt=True)
