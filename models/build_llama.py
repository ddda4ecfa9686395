#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a Llama-style decoder as ONNX, from a GGUF file or with small random weights; its tokenizer; its chat template.

  build_llama.py --gguf model.gguf --out model.onnx                       float32 weights
  build_llama.py --gguf model.gguf --keep-blocks --out model_q4.onnx      weights as the file's blocks
  build_llama.py --gguf model.gguf --form score --out score.onnx          what each token of a text costs; cached-score:
                                                                          by way of caches
  build_llama.py --gguf model.gguf --out tokenizer.json                   its tokenizer: any name in .json
  build_llama.py --gguf model.gguf --out tokenizer_config.json            its chat template as servers read it: any name in
                                                                          _config.json
  build_llama.py --gguf model.gguf --out chat.txt                         its chat template: any name in .txt
  build_llama.py --random --out tiny.onnx                                 seeded, two layers; with tiny.npz: inputs,
                                                                          and outputs by NumPy in float64
  build_llama.py --random --size smollm2 --keep-blocks --out random.onnx  seeded, of SmolLM2's size
"""
import argparse
import json
from pathlib import Path

import numpy as np
import onnx

from llama_numpy import Llama
from llama_onnx import Blocks, Config, Decoder, random_weights

LARGE = 1 << 30
SIZES = {
    "tiny": Config(layers=2, hidden=32, heads=4, kv_heads=2, intermediate=64, vocabulary=96, positions=64),
    "smollm2": Config(layers=30, hidden=576, heads=9, kv_heads=3, intermediate=1536, vocabulary=49152, positions=8192,
                      theta=100000.0),
}


def example(config, weights, capacity=24, position=7, tokens=5):
    """Inputs of the form 'generate' and what it gives for them: `tokens` ids behind a cache of `position`."""
    rng = np.random.default_rng(1)
    values = {name: w.values() if isinstance(w, Blocks) else w for name, w in weights.items()}
    reference = Llama(config, values, capacity, dtype=np.float64)
    reference.run(rng.integers(0, config.vocabulary, position), 0)
    ids = rng.integers(0, config.vocabulary, tokens)
    caches = lambda prefix: {f"{prefix}_{kind}_{i}": cache[None].astype(np.float32)
                             for i, pair in enumerate(reference.caches) for kind, cache in zip(("key", "value"), pair)}
    inputs = {"input_ids": ids[None], "position": np.array([position]), **caches("past")}
    outputs = {"logits": reference.run(ids, position)[-1:].astype(np.float32)}
    return {**inputs, **{f"expected/{k}": v for k, v in {**outputs, **caches("present")}.items()}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gguf", help="checkpoint")
    p.add_argument("--random", action="store_true", help="seeded random weights instead")
    p.add_argument("--size", choices=SIZES, default="tiny", help="of a random model")
    p.add_argument("--form", choices=["generate", "score", "cached-score"], default="generate")
    p.add_argument("--keep-blocks", action="store_true", help="quantized weights stay so")
    p.add_argument("--blocks", choices=["dequantize", "nbits"], default="nbits", help="how they are spelled")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    if a.random == bool(a.gguf):
        p.error("give --gguf FILE or --random")
    if a.random:
        config = SIZES[a.size]
        weights = random_weights(config, a.keep_blocks)
        if a.form == "generate":
            np.savez_compressed(a.out.with_suffix(".npz"), **example(config, weights))
    else:
        from gguf_file import Checkpoint
        checkpoint = Checkpoint(a.gguf)
        if a.out.name.endswith("_config.json"):
            return a.out.write_text(json.dumps(checkpoint.tokenizer_config(), indent=2, ensure_ascii=False) + "\n")
        if a.out.suffix == ".json":
            return checkpoint.tokenizer().save(str(a.out))
        if a.out.suffix == ".txt":
            return a.out.write_text(checkpoint.chat())
        config, weights = checkpoint.config, checkpoint.weights(keep_blocks=a.keep_blocks)
    model = Decoder(config, weights, a.form, a.blocks).model()
    # A file of Protobuf holds two GiB: weights of more lie beside it.
    is_large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > LARGE
    data = a.out.with_name(a.out.name + ".data")
    data.unlink(missing_ok=True)  # else it would grow
    onnx.save(model, a.out, save_as_external_data=is_large, location=data.name)


if __name__ == "__main__":
    main()
