# SPDX-License-Identifier: Apache-2.0
"""A BERT sentence encoder as ONNX, in the two spellings that exporters have written.

'current' is what exporters write today (opset 20: LayerNormalization, Gelu, scaled-dot-product
attention as MatMul, Where and Softmax); 'old' what they wrote for opset 13 (LayerNorm and erf-GELU
spelled out, the scores divided by sqrt(d), the mask from Equal, shapes computed with Shape, Gather
and Concat).  Mean pooling and L2 normalisation belong to the model.  Both compute the same function.
"""
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_writer import Writer


@dataclass
class Config:
    layers: int
    hidden: int
    heads: int
    intermediate: int
    epsilon: float = 1e-12

    @property
    def head_size(self):
        return self.hidden // self.heads


class Encoder:
    """Writes the graph of `config` with `weights` (names as in the BERT checkpoint)."""

    def __init__(self, config, weights, spelling):
        if spelling not in ("current", "old"):
            raise ValueError(f"spelling is 'current' or 'old', not '{spelling}'")
        self.c, self.weights, self.old = config, weights, spelling == "old"
        self.w = Writer(13 if self.old else 20)

    # ------------------------------------------------------------ pieces that differ
    def weight(self, name):
        return self.w.constant(name, self.weights[name].astype(np.float32))

    def layer_norm(self, x, prefix):
        w, scale, bias = self.w, self.weight(prefix + ".weight"), self.weight(prefix + ".bias")
        if not self.old:
            return w.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=self.c.epsilon)
        centred = w.op("Sub", x, w.op("ReduceMean", x, axes=[-1], keepdims=1))
        variance = w.op("ReduceMean", w.op("Pow", centred, w.scalar(2.0)), axes=[-1], keepdims=1)
        deviation = w.op("Sqrt", w.op("Add", variance, w.scalar(self.c.epsilon)))
        return w.op("Add", w.op("Mul", w.op("Div", centred, deviation), scale), bias)

    def gelu(self, x):
        w = self.w
        if not self.old:
            return w.op("Gelu", x, approximate="none")
        erf = w.op("Erf", w.op("Div", x, w.scalar(float(np.float32(np.sqrt(2.0))))))
        return w.op("Mul", w.op("Mul", x, w.op("Add", erf, w.scalar(1.0))), w.scalar(0.5))

    def dimension(self, x, axis):
        """One dimension of x, as an int64 vector of length one."""
        w = self.w
        if not self.old:
            return w.op("Shape", x, start=axis, end=axis + 1)
        one = w.op("Gather", w.op("Shape", x), w.scalar(axis, np.int64), axis=0)
        return w.op("Unsqueeze", one, w.ints(0))

    def split_heads(self, x, perm):
        w = self.w
        shape = w.op("Concat", self.dimension(x, 0), self.dimension(x, 1),
                     w.ints(self.c.heads), w.ints(self.c.head_size), axis=0)
        return w.op("Transpose", w.op("Reshape", x, shape), perm=perm)

    def linear(self, x, prefix):
        w, name = self.w, prefix + ".weight_transposed"
        if name not in w.names:
            w.constant(name, self.weights[prefix + ".weight"].T.astype(np.float32))
        product = w.op("MatMul", x, name)
        bias = self.weight(prefix + ".bias")
        return w.op("Add", bias, product) if self.old else w.op("Add", product, bias)

    def masked(self, scores, mask):
        """Scores with minus infinity where the mask is zero."""
        w = self.w
        if self.old:
            hidden = w.op("Expand", mask, w.op("Shape", scores))
            return w.op("Where", hidden, w.scalar(-np.inf), scores)
        return w.op("Where", mask, scores, w.scalar(-np.inf))

    def mask(self, attention_mask):
        w = self.w
        if self.old:
            hidden = w.op("Equal", attention_mask, w.scalar(0, np.int64))
            return w.op("Unsqueeze", w.op("Unsqueeze", hidden, w.ints(1)), w.ints(2))
        return w.op("Unsqueeze", w.op("Cast", attention_mask, to=TensorProto.BOOL), w.ints(1, 2))

    # ------------------------------------------------------------ the model
    def attention(self, x, mask, prefix):
        w, scale = self.w, float(np.float32(np.sqrt(self.c.head_size)))
        q = self.split_heads(self.linear(x, prefix + ".self.query"), [0, 2, 1, 3])
        k = self.split_heads(self.linear(x, prefix + ".self.key"), [0, 2, 3, 1])
        v = self.split_heads(self.linear(x, prefix + ".self.value"), [0, 2, 1, 3])
        if self.old:
            scores = w.op("Div", w.op("MatMul", q, k), w.scalar(scale))
        else:
            scores = w.op("MatMul", w.op("Mul", q, w.scalar(float(np.float32(1.0 / scale)))), k)
        probabilities = w.op("Softmax", self.masked(scores, mask), axis=-1)
        context = w.op("Transpose", w.op("MatMul", probabilities, v), perm=[0, 2, 1, 3])
        shape = w.op("Concat", self.dimension(context, 0), self.dimension(context, 1),
                     w.ints(self.c.hidden), axis=0)
        dense = self.linear(w.op("Reshape", context, shape), prefix + ".output.dense")
        return self.layer_norm(w.op("Add", dense, x), prefix + ".output.LayerNorm")

    def layer(self, x, mask, prefix):
        x = self.attention(x, mask, prefix + ".attention")
        h = self.gelu(self.linear(x, prefix + ".intermediate.dense"))
        h = self.linear(h, prefix + ".output.dense")
        return self.layer_norm(self.w.op("Add", h, x), prefix + ".output.LayerNorm")

    def embeddings(self):
        w, p = self.w, "embeddings."
        words = w.op("Gather", self.weight(p + "word_embeddings.weight"), "input_ids")
        types = w.op("Gather", self.weight(p + "token_type_embeddings.weight"), "token_type_ids")
        limit = self.weights[p + "position_embeddings.weight"].shape[0]
        ids = w.constant(p + "position_ids", np.arange(limit, dtype=np.int64)[None])
        positions = w.op("Slice", ids, w.ints(0), self.dimension("input_ids", 1), w.ints(1))
        positions = w.op("Gather", self.weight(p + "position_embeddings.weight"), positions)
        total = w.op("Add", w.op("Add", words, types), positions)
        return self.layer_norm(total, p + "LayerNorm")

    def pool(self, x):
        """The mean of the tokens that the mask keeps, scaled to length one."""
        w = self.w
        mask = w.op("Cast", w.op("Unsqueeze", "attention_mask", w.ints(2)), to=TensorProto.FLOAT)
        total = w.op("ReduceSum", w.op("Mul", x, mask), w.ints(1), keepdims=0)
        count = w.op("Clip", w.op("ReduceSum", mask, w.ints(1), keepdims=0), w.scalar(1e-9))
        mean = w.op("Div", total, count)
        if self.old:
            norm = w.op("ReduceL2", mean, axes=[1], keepdims=1)
        else:
            norm = w.op("ReduceL2", mean, w.ints(1), keepdims=1)
        self.w.nodes.append(helper.make_node(
            "Div", [mean, w.op("Clip", norm, w.scalar(1e-12))], ["sentence_embedding"], name="normalize/Div"))

    def model(self):
        w = self.w
        w.scope = "embeddings/"
        x = self.embeddings()
        w.scope = "mask/"
        mask = self.mask("attention_mask")
        for i in range(self.c.layers):
            w.scope = f"encoder/layer.{i}/"
            x = self.layer(x, mask, f"encoder.layer.{i}")
        w.scope = "pooling/"
        self.pool(x)
        ids = lambda name: helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"])
        graph = helper.make_graph(
            w.nodes, "sentence_encoder",
            [ids("input_ids"), ids("attention_mask"), ids("token_type_ids")],
            [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", self.c.hidden])],
            w.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", w.opset)],
                                  producer_name="sinter-models", ir_version=9 if not self.old else 7)
        onnx.checker.check_model(model)
        return model


def random_weights(config, vocabulary, positions, seed=0):
    """Seeded weights of a small model for tests, with the checkpoint's names and shapes."""
    rng = np.random.default_rng(seed)
    h, m = config.hidden, config.intermediate
    normal = lambda *shape: rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
    out = {"embeddings.word_embeddings.weight": normal(vocabulary, h),
           "embeddings.position_embeddings.weight": normal(positions, h),
           "embeddings.token_type_embeddings.weight": normal(2, h)}

    def norm(prefix):
        out[prefix + ".weight"] = rng.uniform(0.5, 1.5, h).astype(np.float32)
        out[prefix + ".bias"] = rng.normal(0, 0.1, h).astype(np.float32)

    def dense(prefix, o, i):
        out[prefix + ".weight"] = normal(o, i)
        out[prefix + ".bias"] = rng.normal(0, 0.1, o).astype(np.float32)

    norm("embeddings.LayerNorm")
    for i in range(config.layers):
        p = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            dense(f"{p}.attention.self.{part}", h, h)
        dense(p + ".attention.output.dense", h, h)
        norm(p + ".attention.output.LayerNorm")
        dense(p + ".intermediate.dense", m, h)
        dense(p + ".output.dense", h, m)
        norm(p + ".output.LayerNorm")
    return out
