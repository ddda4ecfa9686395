#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny decoders as ONNX Runtime GenAI's model builder exports them: seeded random weights, no download.

  export_genai.py --out FOLDER                            every model in its usual precisions
  export_genai.py --out FOLDER --only llama qwen3 --precision int4 --provider cuda

Each lies in FOLDER/NAME_PRECISION_PROVIDER as the builder writes it: model.onnx, its data, tokenizer.json and
genai_config.json. Needs the packages of requirements-genai.txt.
"""
import argparse
import contextlib
import importlib.util
import logging
import os
import shutil
import tempfile
from pathlib import Path

SEED = 1
VOCABULARY = 320  # 256 bytes, what the tokenizer merges, and what begins and ends a text

# Sizes that differ, so that a mistaken one shows; the builder's blocks need multiples of 32.
SIZES = {"small": dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                       num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                       initializer_range=0.2, bos_token_id=0, eos_token_id=1, pad_token_id=1),
         # For the repository: no tokenizer's vocabulary fits.
         "tiny": dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                      num_key_value_heads=1, max_position_embeddings=32, initializer_range=0.2, bos_token_id=0,
                      eos_token_id=1, pad_token_id=1)}
WINDOW = 8  # of local attention: less than the texts that the checks run
SHORT = 11  # tokens of texts that have angles of their own: some of them
OPTIONS = {"qwen3_5": ("exclude_embeds=false",)}
# The builder writes graphs for these that have no caches, and name outputs that nothing makes.
BROKEN = {("fp32", "cuda")}


def configurations(size="small"):
    import transformers as hf
    sizes, positions = SIZES[size], SIZES[size]["max_position_embeddings"]
    # Layers of both kinds, where a model has them.
    mixed = {**sizes, "num_hidden_layers": 2}
    # Half of each head is turned, which takes 8 angles at least.
    wide = {**sizes, "hidden_size": 32 * sizes["num_attention_heads"]}
    return {
        "llama": lambda: hf.LlamaConfig(**sizes),
        "qwen2": lambda: hf.Qwen2Config(**sizes),
        "qwen3": lambda: hf.Qwen3Config(**sizes, head_dim=32),
        "mistral": lambda: hf.MistralConfig(**sizes, sliding_window=WINDOW),
        "gemma2": lambda: hf.Gemma2Config(**mixed, head_dim=16, tie_word_embeddings=False, query_pre_attn_scalar=16, sliding_window=WINDOW,
                                          attn_logit_softcapping=5.0, final_logit_softcapping=3.0),
        "gemma3": lambda: hf.Gemma3TextConfig(**mixed, head_dim=16, tie_word_embeddings=False, query_pre_attn_scalar=16, sliding_window=WINDOW,
                                              layer_types=["sliding_attention", "full_attention"]),
        "phi3": lambda: hf.Phi3Config(**sizes, original_max_position_embeddings=positions, sliding_window=None),
        "gemma": lambda: hf.GemmaConfig(**sizes, head_dim=16, tie_word_embeddings=False),
        "granite": lambda: hf.GraniteConfig(**sizes, attention_multiplier=0.3, residual_multiplier=0.5,
                                            embedding_multiplier=3.0, logits_scaling=2.0),
        "olmo": lambda: hf.OlmoConfig(**sizes),
        "ernie": lambda: hf.Ernie4_5Config(**sizes),
        "nemotron": lambda: hf.NemotronConfig(**wide),
        "phi": lambda: hf.PhiConfig(**wide, partial_rotary_factor=0.5),
        # The one text decoder with a mixture of experts that the builder takes; in int4 it wants the published MXFP4.
        "gpt_oss": lambda: hf.GptOssConfig(**mixed, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW,
                                           layer_types=["sliding_attention", "full_attention"]),
        # Layers with states beside those with caches.
        "lfm2": lambda: hf.Lfm2Config(**mixed, conv_L_cache=3, layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False),
        # Of images and texts; the builder writes the decoder.
        "qwen3_5": lambda: hf.Qwen3_5Config(
            text_config=hf.Qwen3_5TextConfig(**mixed, head_dim=32, linear_conv_kernel_dim=4, linear_key_head_dim=16,
                                             linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
                                             layer_types=["linear_attention", "full_attention"]).to_dict(),
            vision_config=dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=sizes["hidden_size"])),
        # Angles for short texts and for long ones.
        "phi3long": lambda: hf.Phi3Config(
            **sizes, original_max_position_embeddings=SHORT, sliding_window=None,
            rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8,
                             "long_factor": [2.0 + i for i in range(8)]}),
    }


def tokenizer():
    """Byte-level pairs of a few words, as `sinter generate` reads them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    pairs.train_from_iterator(
        ["the quick brown fox jumps over the lazy dog while the other dogs sleep in the sun"] * 2,
        trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return PreTrainedTokenizerFast(tokenizer_object=pairs, bos_token="<s>", eos_token="</s>", pad_token="</s>")


def of_users():
    """pysinter/export.py, without the extension of its package."""
    spec = importlib.util.spec_from_file_location("export", Path(__file__).resolve().parents[1] / "tools/python/pysinter/export.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def save_checkpoint(config, folder):
    import torch
    import transformers as hf
    torch.manual_seed(SEED)
    of_images = hasattr(config, "vision_config")
    model = (hf.AutoModelForImageTextToText if of_images else hf.AutoModelForCausalLM).from_config(config).eval()
    with torch.no_grad():
        # Norms that are all ones, or biases of zero, hide a mistake in them.
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def flatten_positions(path):
    """The builder gives RotaryEmbedding positions of time, height and width, which ONNX Runtime refuses; those of texts are the same."""
    import onnx
    model = onnx.load(path, load_external_data=False)
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name == "position_ids" and len(dims) == 3:
            del dims[0]
            onnx.save(model, path)


def export(name, precision, provider, out, options=(), size="small"):
    """The folder of the exported model."""
    target = Path(out) / f"{name}_{precision}_{provider}"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as checkpoint, open(os.devnull, "w") as quiet:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            save_checkpoint(configurations(size)[name](), checkpoint)
            of_users().by_genai(Path(checkpoint), target, precision, name, provider, (*OPTIONS.get(name, ()), *options))
            flatten_positions(target / "model.onnx")
    return target


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--only", nargs="+", choices=configurations(), default=list(configurations()), metavar="NAME")
    p.add_argument("--precision", nargs="+", choices=["fp32", "fp16", "bf16", "int4", "int8"],
                   default=["fp32", "fp16", "int4"])
    p.add_argument("--provider", nargs="+", default=["cpu", "cuda", "webgpu"])
    p.add_argument("--size", choices=SIZES, default="small")
    p.add_argument("--option", nargs="*", default=[], metavar="NAME=VALUE", help="more options of the builder")
    a = p.parse_args()
    logging.disable(logging.INFO)
    for name in a.only:
        for precision in a.precision:
            for provider in a.provider:
                if (precision, provider) in BROKEN:
                    continue
                try:
                    print(export(name, precision, provider, a.out, a.option, a.size))
                except Exception as e:  # noqa: BLE001: the builder refuses some pairs; the others are still wanted
                    print(f"not {name} {precision} {provider}: {type(e).__name__}: {str(e)[:300]}")


if __name__ == "__main__":
    main()
