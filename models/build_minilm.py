#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the MiniLM-L6 sentence encoder (or a small random one) as ONNX.

  build_minilm.py --weights model.safetensors --config config.json --spelling current --out minilm.onnx
  build_minilm.py --random --layers 2 --hidden 64 --heads 4 --spelling old --out small.onnx
"""
import argparse
import json

import onnx

from bert_onnx import Config, Encoder, random_weights


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weights", help="safetensors checkpoint")
    p.add_argument("--config", help="the checkpoint's config.json")
    p.add_argument("--random", action="store_true", help="seeded random weights instead")
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--vocabulary", type=int, default=100)
    p.add_argument("--positions", type=int, default=64)
    p.add_argument("--spelling", choices=["current", "old"], default="current")
    p.add_argument("--out", required=True)
    a = p.parse_args()
    if a.random:
        config = Config(a.layers, a.hidden, a.heads, 4 * a.hidden)
        weights = random_weights(config, a.vocabulary, a.positions)
    elif a.weights and a.config:
        from safetensors.numpy import load_file
        c = json.load(open(a.config))
        config = Config(c["num_hidden_layers"], c["hidden_size"], c["num_attention_heads"],
                        c["intermediate_size"], c["layer_norm_eps"])
        weights = load_file(a.weights)
    else:
        p.error("give --weights and --config, or --random")
    onnx.save(Encoder(config, weights, a.spelling).model(), a.out)


if __name__ == "__main__":
    main()
