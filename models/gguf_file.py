"""Llama-style checkpoints in GGUF: configuration, weights (also in their blocks) and tokenizer."""
from dataclasses import dataclass

import numpy as np

from llama_onnx import Blocks, Config

BLOCK = 32
# GGUF's name of a linear layer's weights -> Hugging Face's, which the graph writer uses.
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def half(data):
    """The first two bytes of each block as float32."""
    return np.ascontiguousarray(data[..., :2]).view(np.float16)[..., 0].astype(np.float32)


def q4_1(data, columns):
    """Blocks of 32: scale and minimum (float16), then bytes of which the low halves are the first 16 numbers."""
    data = data.reshape(len(data), columns // BLOCK, 4 + BLOCK // 2)
    low, high = data[..., 4:] & 15, data[..., 4:] >> 4
    q = np.concatenate([low, high], axis=-1).reshape(len(data), columns)
    return Blocks(q, half(data), half(data[..., 2:]))


def q8_0(data, columns):
    """Blocks of 32: scale (float16), then int8 numbers."""
    data = data.reshape(len(data), columns // BLOCK, 2 + BLOCK)
    q = np.ascontiguousarray(data[..., 2:]).view(np.int8).reshape(len(data), columns)
    return Blocks(q, half(data), None)


def halves_apart(rows, heads):
    """The order that undoes GGUF's of the rows of queries and keys: it puts the two numbers that rotary embedding
    turns together side by side, Hugging Face's half a head apart."""
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(rows)


class Checkpoint:
    def __init__(self, path):
        from gguf import GGUFReader
        self.reader = GGUFReader(path)
        architecture = self.field("general.architecture")
        if architecture != "llama":
            raise SystemExit(f"{path}: architecture '{architecture}'; only llama is known")
        of = lambda key: self.field("llama." + key)
        heads, width = of("attention.head_count"), of("embedding_length")
        if of("rope.dimension_count") != width // heads:
            raise SystemExit(f"{path}: rotary embedding of a part of each head is not known")
        self.config = Config(
            layers=of("block_count"), hidden=width, heads=heads, kv_heads=of("attention.head_count_kv"),
            intermediate=of("feed_forward_length"), vocabulary=of("vocab_size"), positions=of("context_length"),
            theta=of("rope.freq_base"), epsilon=of("attention.layer_norm_rms_epsilon"))

    def field(self, key):
        if key not in self.reader.fields:
            raise SystemExit(f"the GGUF file has no '{key}'")
        return self.reader.fields[key].contents()

    def weights(self, keep_blocks=False, as_stored=False):
        """By Hugging Face's names: float32 arrays, and with `keep_blocks` Blocks where the file has them. Rows of
        queries and keys are in Hugging Face's order, or with `as_stored` in GGUF's."""
        readers = {"Q4_1": q4_1, "Q8_0": q8_0}
        out = {}
        for tensor in self.reader.tensors:
            kind, shape = tensor.tensor_type.name, [int(n) for n in tensor.shape[::-1]]
            if kind in readers:
                value = readers[kind](tensor.data, shape[-1])
            elif kind in ("F32", "F16"):
                value = np.asarray(tensor.data, np.float32).reshape(shape)
            else:
                raise SystemExit(f"{tensor.name} is {kind}; known are F32, F16, {', '.join(readers)}")
            parts = tensor.name.split(".")
            if parts[0] == "blk":
                name = f"model.layers.{parts[1]}.{LAYER[parts[2]]}.weight"
                turned = {"attn_q": self.config.heads, "attn_k": self.config.kv_heads}.get(parts[2])
                if turned and not as_stored:
                    value = value[halves_apart(shape[0], turned)]
            else:
                name = WHOLE[parts[0]] + ".weight"
            out[name] = value.values() if isinstance(value, Blocks) and not keep_blocks else value
        return out

    def tokenizer(self):
        """As Hugging Face's tokenizers.Tokenizer."""
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
        model, pre = self.field("tokenizer.ggml.model"), self.field("tokenizer.ggml.pre")
        if (model, pre) != ("gpt2", "smollm"):
            raise SystemExit(f"tokenizer '{model}' with '{pre}': only gpt2 with smollm is known")
        tokens = self.field("tokenizer.ggml.tokens")
        merges = [tuple(m.split(" ")) for m in self.field("tokenizer.ggml.merges")]
        result = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
        result.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        result.decoder = decoders.ByteLevel()
        control = 3
        kinds = self.field("tokenizer.ggml.token_type")
        result.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                   for t, kind in zip(tokens, kinds) if kind == control])
        return result

    def chat(self):
        """The chat template around one prompt, which '{prompt}' stands for."""
        import jinja2
        return jinja2.Template(self.field("tokenizer.chat_template")).render(
            messages=[{"role": "user", "content": "{prompt}"}], add_generation_prompt=True)
