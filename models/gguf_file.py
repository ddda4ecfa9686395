# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 in GGUF: configuration, weights in float32 and tokenizer."""
import numpy as np

from llama_onnx import Config

# GGUF's name of a linear layer's weights -> Hugging Face's, which the graph writer uses.
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def halves_apart(rows, heads):
    """The order that undoes GGUF's of the rows of queries and keys: it puts the two numbers that rotary embedding
    turns together side by side, Hugging Face's half a head apart."""
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(rows)


class Checkpoint:
    def __init__(self, path):
        from gguf import GGUFReader
        self.reader = GGUFReader(path)
        if (architecture := self.field("general.architecture")) != "llama":
            raise SystemExit(f"{path}: architecture '{architecture}', not llama")
        of = lambda key: self.field(f"llama.{key}")
        self.config = Config(
            layers=of("block_count"), hidden=of("embedding_length"), heads=of("attention.head_count"), kv_heads=of("attention.head_count_kv"),
            intermediate=of("feed_forward_length"), vocabulary=len(self.field("tokenizer.ggml.tokens")),
            positions=of("context_length"), theta=of("rope.freq_base"), epsilon=of("attention.layer_norm_rms_epsilon"))

    def field(self, key):
        if key not in self.reader.fields:
            raise SystemExit(f"the GGUF file has no '{key}'")
        return self.reader.fields[key].contents()

    def weights(self, as_stored=False):
        """Float32 arrays by Hugging Face's names. Rows of queries and keys are in Hugging Face's order, or with `as_stored` in
        GGUF's."""
        from gguf import dequantize
        out = {}
        for tensor in self.reader.tensors:
            value = dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in tensor.shape[::-1]])
            parts = tensor.name.split(".")
            if parts[0] != "blk":
                out[WHOLE[parts[0]] + ".weight"] = value
                continue
            turned = {"attn_q": self.config.heads, "attn_k": self.config.kv_heads}.get(parts[2])
            if turned and not as_stored:
                value = value[halves_apart(len(value), turned)]
            out[f"model.layers.{parts[1]}.{LAYER[parts[2]]}.{parts[3]}"] = value
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
        result.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                        pre_tokenizers.ByteLevel(add_prefix_space=False)])
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
