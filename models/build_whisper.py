#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write Whisper as ONNX, from a CTranslate2 checkpoint of any size or with small random weights: its encoder or its decoder.

  build_whisper.py --ct2 model.bin --side encoder --out encoder.onnx       sound to what the decoder reads
  build_whisper.py --ct2 model.bin --side decoder --out decoder.onnx       tokens to logits
  build_whisper.py --random --side decoder --out decoder.onnx              seeded, two layers, windows of one second

  --half: what goes from the encoder to the decoder is float16, which plans of --precision fp16 read as it is
"""
import argparse
from pathlib import Path

import onnx

from whisper_onnx import WhisperEncoder, config_of, decoder_model, random_weights

LARGE = 1 << 30


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ct2", type=Path, help="checkpoint")
    p.add_argument("--random", action="store_true", help="seeded random weights instead")
    p.add_argument("--side", choices=["encoder", "decoder"], required=True)
    p.add_argument("--half", action="store_true")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    if a.random == bool(a.ct2):
        p.error("give --ct2 FILE or --random")
    if a.random:
        weights, heads = random_weights()
    else:
        from ct2_file import Ct2File, whisper_weights
        weights, heads = whisper_weights(Ct2File(a.ct2))
    config = config_of(weights, heads)
    model = WhisperEncoder(config, weights, a.half).model() if a.side == "encoder" else decoder_model(config, weights, a.half)
    # A file of Protobuf holds two GiB: weights of more lie beside it.
    is_large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > LARGE
    data = a.out.with_name(a.out.name + ".data")
    data.unlink(missing_ok=True)  # else it would grow
    onnx.save(model, a.out, save_as_external_data=is_large, location=data.name)


if __name__ == "__main__":
    main()
