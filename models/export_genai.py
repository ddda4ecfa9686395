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
import itertools
import logging
import os
import shutil
import tempfile
from pathlib import Path

from genai_rows import SIZES, VOCABULARY, rows

SEED = 1
PRECISIONS, PROVIDERS = ("fp32", "fp16", "bf16", "int4", "int8"), ("cpu", "cuda", "webgpu")


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
    kind = (hf.AutoModelForSpeechSeq2Seq if config.is_encoder_decoder else
            hf.AutoModelForImageTextToText if hasattr(config, "vision_config") else hf.AutoModelForCausalLM)
    model = kind.from_config(config).eval()
    vary(model)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def vary(model):
    """Norms that are all ones, or biases of zero, hide a mistake in them."""
    import torch
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn_like(weight) * 0.1)


@contextlib.contextmanager
def reshaped(row):
    """The builder's models with the modules that a row makes of them."""
    import torch
    from onnxruntime_genai.models.builder import Model
    load = Model.load_weights

    def loaded(self, path):
        model = load(self, path)
        if row.reshape:
            torch.manual_seed(SEED)
            row.reshape(model)
        return model
    Model.load_weights = loaded
    try:
        yield
    finally:
        Model.load_weights = load


def export(name, precision, provider, out, options=(), size="small"):
    """The folder of the exported model."""
    row = rows(size)[name]
    target = Path(out) / f"{name}_{precision}_{provider}"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as checkpoint, open(os.devnull, "w") as quiet:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), reshaped(row):
            save_checkpoint(row.config(), checkpoint)
            if row.extend:
                row.extend(Path(checkpoint))

            def adapt(config):
                config.architectures = [row.architecture] if row.architecture else config.architectures
                if hasattr(config, "text_config"):  # whose layers may differ in their sizes
                    config.allow_global_per_layer_attribute_access = config.text_config.allow_global_per_layer_attribute_access = True
                for key, value in row.more.items():
                    setattr(config, key, value)
            try:
                of_users().by_genai(Path(checkpoint), target, precision, name, provider, (*row.options, *options), adapt)
            except Exception:
                shutil.rmtree(target, ignore_errors=True)
                raise
    return target


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--only", nargs="+", default=[], metavar="NAME")
    p.add_argument("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS[:4])
    p.add_argument("--provider", nargs="+", default=PROVIDERS)
    p.add_argument("--new", action="store_true", help="only what is not there")
    p.add_argument("--size", choices=SIZES, default="small")
    p.add_argument("--option", nargs="*", default=[], metavar="NAME=VALUE", help="more options of the builder")
    a = p.parse_args()
    logging.disable(logging.INFO)
    for name, row in rows(a.size).items():
        for precision, provider in itertools.product(a.precision, a.provider):
            key = f"{precision}_{provider}"
            if (a.only and name not in a.only) or (row.only and key not in row.only):
                continue
            if a.new and (a.out / f"{name}_{key}").exists():
                continue
            try:
                print(export(name, precision, provider, a.out, a.option, a.size), flush=True)
            except Exception as e:  # noqa: BLE001: the builder refuses some pairs; the others are still wanted
                print(f"not {name} {precision} {provider}: {type(e).__name__}: {str(e)[:300]}", flush=True)


if __name__ == "__main__":
    main()
