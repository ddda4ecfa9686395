# SPDX-License-Identifier: Apache-2.0
"""Marian's translation models as two ONNX graphs (seq2seq_onnx.py): an encoder of texts, and a decoder.

The encoder: input_ids [1, source] to the keys and values of the decoder's cross-attention.
"""
import numpy as np
from onnx import TensorProto, helper

from seq2seq_onnx import Config, Decoder, Encoder, layers_of, random_layers

TABLE = "model.shared.weight"


def config_of(weights, heads):
    vocabulary, width = weights[TABLE].shape
    return Config(width=width, heads=heads, encoder_layers=layers_of(weights, "encoder"),
                  decoder_layers=layers_of(weights, "decoder"), vocabulary=vocabulary, pre_norm=False, activation="Silu",
                  scale_embeddings=True)


def sinusoids(positions, width):
    """float32 [positions, width]: sines, then cosines. Checkpoints do not have them."""
    angles = np.arange(positions)[:, None] / 10000 ** (2 * np.arange(width // 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


class MarianEncoder(Encoder):
    def model(self):
        w = self.w
        w.scope = "embedding/"
        count = w.op("Squeeze", w.op("Shape", "input_ids", start=1, end=2), w.ints(0))
        positions = w.op("Range", w.scalar(0, np.int64), count, w.scalar(1, np.int64))
        rows = w.op("Gather", self.vector("model.encoder.embed_positions.weight"), positions)
        self.crossed(self.layers(self.embedded(w.constant(TABLE, self.weights[TABLE]), rows)))
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "source"])
        return self.finished("encoder", [ids], self.crossing("source"))


def decoder_model(config, weights, half=False):
    return Decoder(config, weights, half).model(TABLE, "capacity", "source")


def with_positions(weights, positions):
    width = weights[TABLE].shape[1]
    sides = ("encoder", "decoder")
    return {**weights, **{f"model.{side}.embed_positions.weight": sinusoids(positions, width) for side in sides}}


def random_weights(seed=0, width=32, heads=4, layers=2, vocabulary=96, positions=64):
    """Seeded weights of a small model for tests, and its heads."""
    rng = np.random.default_rng(seed)
    config = Config(width, heads, layers, layers, vocabulary, False, "Silu", True)
    normal = lambda scale, *shape: rng.normal(0, scale, shape).astype(np.float32)
    out = {**random_layers(rng, config, 2 * width, "encoder"), **random_layers(rng, config, 2 * width, "decoder"),
           TABLE: normal(0.3 * width ** -0.5, vocabulary, width), "final_logits_bias": normal(0.05, 1, vocabulary)}
    return with_positions(out, positions), heads
