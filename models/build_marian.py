#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a Marian translation model as ONNX, from Hugging Face's checkpoint or with small random weights: its encoder or its
decoder.

  build_marian.py --checkpoint FOLDER --side encoder --out encoder.onnx    config.json and model.safetensors
  build_marian.py --random --side decoder --out decoder.onnx               seeded, two layers

  --half: what goes from the encoder to the decoder is float16, which plans of --precision fp16 read as it is
"""
import argparse
import json
from pathlib import Path

import numpy as np
import onnx

from marian_onnx import MarianEncoder, config_of, decoder_model, random_weights, with_positions

# What the graph is of; a checkpoint that says otherwise is refused.
WANTED = {"model_type": "marian", "activation_function": "swish", "scale_embedding": True,
          "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True}


def checkpoint(folder):
    from safetensors.numpy import load_file
    config = json.loads((folder / "config.json").read_text())
    for key, value in WANTED.items():
        if config.get(key, True) != value:
            raise SystemExit(f"{folder}: {key} is {config[key]}, not {value}")
    weights = {name: value.astype(np.float32) for name, value in load_file(folder / "model.safetensors").items()}
    heads = config["encoder_attention_heads"]
    if config["decoder_attention_heads"] != heads:
        raise SystemExit(f"{folder}: encoder and decoder have different numbers of heads")
    return with_positions(weights, config["max_position_embeddings"]), heads


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--checkpoint", type=Path, help="folder")
    p.add_argument("--random", action="store_true", help="seeded random weights instead")
    p.add_argument("--side", choices=["encoder", "decoder"], required=True)
    p.add_argument("--half", action="store_true")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    if a.random == bool(a.checkpoint):
        p.error("give --checkpoint FOLDER or --random")
    weights, heads = random_weights() if a.random else checkpoint(a.checkpoint)
    config = config_of(weights, heads)
    model = MarianEncoder(config, weights, a.half).model() if a.side == "encoder" else decoder_model(config, weights, a.half)
    onnx.save(model, a.out)


if __name__ == "__main__":
    main()
