#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a Llama-style decoder as ONNX, from SmolLM2's GGUF file or with small random weights; its tokenizer; its chat template.

  build_llama.py --gguf model.gguf --out model.onnx                float32 weights
  build_llama.py --gguf model.gguf --form score --out score.onnx   what each token of a text costs; cached-score: by way of caches
  build_llama.py --gguf model.gguf --out tokenizer.json            its tokenizer: any name in .json
  build_llama.py --gguf model.gguf --out chat.txt                  its chat template: any name in .txt
  build_llama.py --random --out tiny.onnx                          seeded, two layers, with --blocks linear layers of 4 bits; with
                                                                   tiny.npz: inputs, and outputs by NumPy in float64
"""
import argparse
from pathlib import Path

import numpy as np
import onnx

from llama_numpy import Llama
from llama_onnx import Blocks, Config, Decoder, random_weights

LARGE = 1 << 30
TINY = Config(layers=2, hidden=32, heads=4, kv_heads=2, intermediate=64, vocabulary=96, positions=64)


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
    p.add_argument("--form", choices=["generate", "score", "cached-score"], default="generate")
    p.add_argument("--blocks", action="store_true", help="of random weights: in blocks of 4 bits")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    if a.random == bool(a.gguf):
        p.error("give --gguf FILE or --random")
    if a.random:
        config, weights = TINY, random_weights(TINY, a.blocks)
        if a.form == "generate":
            np.savez_compressed(a.out.with_suffix(".npz"), **example(config, weights))
    else:
        from gguf_file import Checkpoint
        checkpoint = Checkpoint(a.gguf)
        if a.out.suffix == ".json":
            return checkpoint.tokenizer().save(str(a.out))
        if a.out.suffix == ".txt":
            return a.out.write_text(checkpoint.chat())
        config, weights = checkpoint.config, checkpoint.weights()
    model = Decoder(config, weights, a.form).model()
    # A file of Protobuf holds two GiB: weights of more lie beside it.
    is_large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > LARGE
    data = a.out.with_name(a.out.name + ".data")
    data.unlink(missing_ok=True)  # else it would grow
    onnx.save(model, a.out, save_as_external_data=is_large, location=data.name)


if __name__ == "__main__":
    main()
