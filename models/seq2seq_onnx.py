# SPDX-License-Identifier: Apache-2.0
"""Encoders and decoders of Whisper and of Marian as ONNX (opset 24): a graph each, so that the encoder runs once.

The encoder's outputs are what the decoder reads of it: `cross_key_I` and `cross_value_I` [1, heads, positions, head size]
of each decoder layer, computed once. The decoder: input_ids [1, sequence] at the positions `position`, `position` + 1, .. of
caches `past_key_I`, `past_value_I` [1, heads, capacity, head size]; the logits of the last token, and the caches with the new
keys and values in their places. Weights are named as in Hugging Face's checkpoints. With `half` what goes from the encoder to
the decoder is float16.
"""
import math
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from onnx_writer import Writer

OPSET = 24


@dataclass
class Config:
    width: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    vocabulary: int
    pre_norm: bool            # norms stand in front of what they are of, and one behind the last layer
    activation: str           # an operator of ONNX, or "Silu"
    scale_embeddings: bool = False
    epsilon: float = 1e-5

    @property
    def head_size(self):
        return self.width // self.heads


def layers_of(weights, side):
    return 1 + max(int(name.split(".")[3]) for name in weights if name.startswith(f"model.{side}.layers."))


class Graph:
    """What both sides are made of."""

    def __init__(self, config, weights, half):
        self.c, self.weights, self.half = config, weights, half
        self.w = Writer(OPSET)

    def vector(self, name):
        return self.w.constant(name, self.weights[name])

    def linear(self, x, name):
        y = self.w.op("MatMul", x, self.w.constant(name + ".transposed", self.weights[name + ".weight"].T))
        bias = self.weights.get(name + ".bias")
        return y if bias is None or not bias.any() else self.w.op("Add", y, self.vector(name + ".bias"))

    def norm(self, x, name):
        return self.w.op("LayerNormalization", x, self.vector(name + ".weight"), self.vector(name + ".bias"), axis=-1,
                         epsilon=self.c.epsilon)

    def activation(self, x):
        w = self.w
        return w.op("Mul", x, w.op("Sigmoid", x)) if self.c.activation == "Silu" else w.op(self.c.activation, x)

    def heads(self, x):
        w = self.w
        return w.op("Transpose", w.op("Reshape", x, w.ints(1, -1, self.c.heads, self.c.head_size)), perm=[0, 2, 1, 3])

    def joined(self, x):
        w = self.w
        return w.op("Reshape", w.op("Transpose", x, perm=[0, 2, 1, 3]), w.ints(1, -1, self.c.width))

    def block(self, x, norm, f):
        """x + f(x), with the norm in front of f or behind the sum."""
        if self.c.pre_norm:
            return self.w.op("Add", x, f(self.norm(x, norm)))
        return self.norm(self.w.op("Add", x, f(x)), norm)

    def feed_forward(self, x, name):
        return self.block(x, name + ".final_layer_norm",
                          lambda y: self.linear(self.activation(self.linear(y, name + ".fc1")), name + ".fc2"))

    def last_norm(self, x, side):
        return self.norm(x, f"model.{side}.layer_norm") if self.c.pre_norm else x

    def embedded(self, table, positions):
        """Rows of `table` for input_ids, and those of `positions`."""
        w = self.w
        x = w.op("Gather", table, "input_ids")
        if self.c.scale_embeddings:
            x = w.op("Mul", x, w.scalar(math.sqrt(self.c.width)))
        return w.op("Add", x, positions)

    def crossing(self, positions):
        """Inputs of the decoder, which are outputs of the encoder."""
        kind = TensorProto.FLOAT16 if self.half else TensorProto.FLOAT
        shape = [1, self.c.heads, positions, self.c.head_size]
        return [helper.make_tensor_value_info(f"cross_{which}_{i}", kind, shape)
                for i in range(self.c.decoder_layers) for which in ("key", "value")]

    def finished(self, name, inputs, outputs):
        graph = helper.make_graph(self.w.nodes, name, inputs, outputs, self.w.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="sinter-models",
                                 ir_version=11)


class Encoder(Graph):
    def layers(self, x):
        for i in range(self.c.encoder_layers):
            self.w.scope, p = f"encoder.{i}/", f"model.encoder.layers.{i}"
            a = p + ".self_attn."
            x = self.block(x, p + ".self_attn_layer_norm", lambda y: self.linear(self.joined(self.w.op(
                "Attention", *(self.heads(self.linear(y, a + n + "_proj")) for n in "qkv"))), a + "out_proj"))
            x = self.feed_forward(x, p)
        return self.last_norm(x, "encoder")

    def crossed(self, x):
        """The keys and values of each decoder layer."""
        self.w.scope = "cross/"
        for i in range(self.c.decoder_layers):
            for which, letter in (("key", "k"), ("value", "v")):
                y = self.heads(self.linear(x, f"model.decoder.layers.{i}.encoder_attn.{letter}_proj"))
                kind = TensorProto.FLOAT16 if self.half else TensorProto.FLOAT
                self.w.op("Cast", y, to=kind, output=f"cross_{which}_{i}")


class Decoder(Graph):
    """`table`: the name of the embeddings' weights, which the logits are made with, too."""

    def positions(self):
        """int64 [sequence], and the mask [sequence, capacity]."""
        w = self.w
        count = w.op("Squeeze", w.op("Shape", "input_ids", start=1, end=2), w.ints(0))
        zero, one = w.scalar(0, np.int64), w.scalar(1, np.int64)
        positions = w.op("Add", w.op("Range", zero, count, one), "position")
        capacity = w.op("Squeeze", w.op("Shape", "past_key_0", start=2, end=3), w.ints(0))
        return positions, w.op("LessOrEqual", w.op("Range", zero, capacity, one), w.op("Unsqueeze", positions, w.ints(1)))

    def self_attention(self, x, i, mask):
        w, p = self.w, f"model.decoder.layers.{i}.self_attn."
        q, k, v = (self.heads(self.linear(x, p + n + "_proj")) for n in "qkv")
        k = w.op("TensorScatter", f"past_key_{i}", k, "position", axis=2, output=f"present_key_{i}")
        v = w.op("TensorScatter", f"past_value_{i}", v, "position", axis=2, output=f"present_value_{i}")
        return self.linear(self.joined(w.op("Attention", q, k, v, mask)), p + "out_proj")

    def cross_attention(self, x, i):
        w, p = self.w, f"model.decoder.layers.{i}.encoder_attn."
        wide = lambda name: w.op("Cast", name, to=TensorProto.FLOAT) if self.half else name
        q = self.heads(self.linear(x, p + "q_proj"))
        y = w.op("Attention", q, wide(f"cross_key_{i}"), wide(f"cross_value_{i}"))
        return self.linear(self.joined(y), p + "out_proj")

    def model(self, table, capacity, crossed_positions):
        w, c = self.w, self.c
        w.scope = "embedding/"
        positions, mask = self.positions()
        rows = w.constant(table, self.weights[table])
        x = self.embedded(rows, w.op("Gather", self.vector("model.decoder.embed_positions.weight"), positions))
        for i in range(c.decoder_layers):
            w.scope, p = f"decoder.{i}/", f"model.decoder.layers.{i}"
            x = self.block(x, p + ".self_attn_layer_norm", lambda y: self.self_attention(y, i, mask))
            x = self.block(x, p + ".encoder_attn_layer_norm", lambda y: self.cross_attention(y, i))
            x = self.feed_forward(x, p)
        w.scope = "head/"
        x = self.last_norm(w.op("Gather", x, w.scalar(-1, np.int64), axis=1), "decoder")
        turned, bias = w.op("Transpose", rows, perm=[1, 0]), self.weights.get("final_logits_bias")
        has_bias = bias is not None and bias.any()
        y = w.op("MatMul", x, turned, output=None if has_bias else "logits")
        if has_bias:
            w.op("Add", y, self.vector("final_logits_bias"), output="logits")
        value = helper.make_tensor_value_info
        cache = [1, c.heads, capacity, c.head_size]
        names = [f"{which}_{i}" for i in range(c.decoder_layers) for which in ("key", "value")]
        inputs = [value("input_ids", TensorProto.INT64, [1, "sequence"]), value("position", TensorProto.INT64, [1]),
                  *self.crossing(crossed_positions), *(value("past_" + n, TensorProto.FLOAT, cache) for n in names)]
        outputs = [value("logits", TensorProto.FLOAT, [1, c.vocabulary]),
                   *(value("present_" + n, TensorProto.FLOAT, cache) for n in names)]
        return self.finished("decoder", inputs, outputs)


def random_layers(rng, config, feed_forward, side):
    """Seeded weights of the layers of a side, by a checkpoint's names."""
    c, out = config, {}
    normal = lambda *shape: rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)

    def norm(name):
        out[name + ".weight"] = rng.uniform(0.5, 1.5, c.width).astype(np.float32)
        out[name + ".bias"] = rng.normal(0, 0.1, c.width).astype(np.float32)

    def linear(name, rows, columns, bias=True):
        out[name + ".weight"] = normal(rows, columns)
        if bias:
            out[name + ".bias"] = rng.normal(0, 0.1, rows).astype(np.float32)

    for i in range(c.encoder_layers if side == "encoder" else c.decoder_layers):
        p = f"model.{side}.layers.{i}."
        for name in ("self_attn",) if side == "encoder" else ("self_attn", "encoder_attn"):
            for part in ("q", "k", "v", "out"):
                linear(f"{p}{name}.{part}_proj", c.width, c.width, bias=part != "k" or not c.pre_norm)
            norm(f"{p}{name}_layer_norm")
        linear(p + "fc1", feed_forward, c.width)
        linear(p + "fc2", c.width, feed_forward)
        norm(p + "final_layer_norm")
    if c.pre_norm:
        norm(f"model.{side}.layer_norm")
    return out
