# SPDX-License-Identifier: Apache-2.0
"""A Llama-style decoder as ONNX (opset 24), in three forms. Queries, keys and values may have a bias, as Qwen2's.

'generate': input_ids [1, sequence] at the positions `position`, `position` + 1, .. of caches of `capacity` keys and
values for each layer; the logits of the last token, and the caches with the new keys and values in their places
(TensorScatter). Prefill (many tokens) and decoding (one) are the same graph.
'score': input_ids [1, sequence] without caches; for each token but the first what it costs, -log p(token | before).
'cached-score': the same, but with the caches of 'generate'.

Weights are named as in Hugging Face's checkpoints. Linear layers whose weights are Blocks become com.microsoft.MatMulNBits.
"""
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_writer import Writer

OPSET = 24


@dataclass
class Config:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    positions: int
    theta: float = 10000.0
    epsilon: float = 1e-5

    @property
    def head_size(self):
        return self.hidden // self.heads


@dataclass
class Blocks:
    """Weights [rows, columns] as q * scale + minimum, scale and minimum of each block along the columns.

    q: uint8 of 4 bits; scale and minimum: float32 [rows, blocks].
    """
    q: np.ndarray
    scale: np.ndarray
    minimum: np.ndarray

    @property
    def block(self):
        return self.q.shape[1] // self.scale.shape[1]

    @classmethod
    def of(cls, values, block=32):
        """The nearest of 16 evenly spaced numbers between each block's extremes, with float16 scales and minima."""
        parts = values.reshape(len(values), -1, block)
        half = lambda x: x.astype(np.float16).astype(np.float32)
        low = half(parts.min(-1))
        scale = half((parts.max(-1) - low) / 15)
        q = np.clip(np.rint((parts - low[..., None]) / np.where(scale == 0, 1, scale)[..., None]), 0, 15)
        return cls(np.where(scale[..., None] == 0, 0, q).astype(np.uint8).reshape(values.shape), scale, low)

    def values(self):
        spread = lambda x: np.repeat(x, self.block, axis=1)
        return self.q.astype(np.float32) * spread(self.scale) + spread(self.minimum)

    def packed(self):
        """Two numbers a byte, the first one in the low half."""
        return (self.q[:, 0::2] | self.q[:, 1::2] << 4).tobytes()

    def as_zero_points(self):
        """scale and zero with (q - zero) * scale for q * scale + minimum: float32, so rounded. A block of one value
        has no scale; its numbers are 0."""
        scale = np.where(self.scale == 0, self.minimum, self.scale).astype(np.float32)
        zero = np.divide(-self.minimum, scale, out=np.zeros_like(scale), where=scale != 0)
        return scale, zero


class Decoder:
    """`batch` sequences, which are all at one position; `dtype` of activations and of weights that are arrays."""

    def __init__(self, config, weights, form="generate", batch=1, dtype=np.float32):
        self.batch, self.dtype = batch, dtype
        self.c, self.weights, self.form = config, weights, form
        self.has_caches, self.scores = form != "score", form != "generate"
        self.w = Writer(OPSET)

    # ------------------------------------------------------------ weights
    def vector(self, name):
        return self.w.constant(name, self.weights[name])

    def linear(self, x, name, output=None):
        w, value = self.w, self.weights[name]
        if isinstance(value, np.ndarray):
            return w.op("MatMul", x, w.constant(name + "_transposed", value.T), output=output)
        rows, columns = value.q.shape
        scale, zero = value.as_zero_points()
        data = np.frombuffer(value.packed(), np.uint8).reshape(rows, -1, value.block // 2)
        return w.op("MatMulNBits", x, w.constant(name + "_q", data), w.constant(name + "_scale", scale),
                    w.constant(name + "_zero", zero), K=columns, N=rows, bits=4, block_size=value.block,
                    domain="com.microsoft", output=output)

    def biased(self, x, name):
        y = self.linear(x, name + ".weight")
        return self.w.op("Add", y, self.vector(name + ".bias")) if name + ".bias" in self.weights else y

    def embedding(self, name):
        """[batch, sequence, hidden] of input_ids. Leaves [vocabulary, hidden] in `table`, which the last layer shares if it
        has no weights of its own."""
        self.table = self.w.constant(name, self.weights[name])
        return self.w.op("Gather", self.table, "input_ids")

    # ------------------------------------------------------------ positions
    def positions(self):
        """int64 [batch, sequence], and for the forms with caches the mask [sequence, capacity]."""
        w = self.w
        count = w.op("Squeeze", w.op("Shape", "input_ids", start=1, end=2), w.ints(0))
        zero, one = w.scalar(0, np.int64), w.scalar(1, np.int64)
        positions = w.op("Range", zero, count, one)
        if not self.has_caches:
            return self.of_batch(w.op("Unsqueeze", positions, w.ints(0))), None
        positions = w.op("Add", positions, "position")
        capacity = w.op("Squeeze", w.op("Shape", "past_key_0", start=2, end=3), w.ints(0))
        mask = w.op("LessOrEqual", w.op("Range", zero, capacity, one), w.op("Unsqueeze", positions, w.ints(1)))
        return self.of_batch(w.op("Unsqueeze", positions, w.ints(0))), mask

    def of_batch(self, x):
        """[1, ..] of int64 for each sequence."""
        return x if self.batch == 1 else self.w.op("Expand", x, self.w.ints(self.batch, 1))

    def rotary_tables(self):
        """Cosines and sines of every position, computed in float64."""
        half = self.c.head_size // 2
        angles = np.arange(self.c.positions)[:, None] / self.c.theta ** (np.arange(half) / half)
        return (self.w.constant("cosines", np.cos(angles).astype(self.dtype)),
                self.w.constant("sines", np.sin(angles).astype(self.dtype)))

    # ------------------------------------------------------------ the model
    def norm(self, x, name):
        return self.w.op("RMSNormalization", x, self.vector(name + ".weight"), axis=-1, epsilon=self.c.epsilon)

    def heads(self, x, count):
        w = self.w
        return w.op("Transpose", w.op("Reshape", x, w.ints(self.batch, -1, count, self.c.head_size)), perm=[0, 2, 1, 3])

    def attention(self, x, i):
        w, c, p = self.w, self.c, f"model.layers.{i}.self_attn."
        turn = lambda y: w.op("RotaryEmbedding", y, *self.tables, self.at)
        q = turn(self.heads(self.biased(x, p + "q_proj"), c.heads))
        k = turn(self.heads(self.biased(x, p + "k_proj"), c.kv_heads))
        v = self.heads(self.biased(x, p + "v_proj"), c.kv_heads)
        if not self.has_caches:
            y = w.op("Attention", q, k, v, is_causal=1)
        else:
            k = w.op("TensorScatter", f"past_key_{i}", k, self.place, axis=2, output=f"present_key_{i}")
            v = w.op("TensorScatter", f"past_value_{i}", v, self.place, axis=2, output=f"present_value_{i}")
            y = w.op("Attention", q, k, v, self.mask)
        y = w.op("Reshape", w.op("Transpose", y, perm=[0, 2, 1, 3]), w.ints(self.batch, -1, c.heads * c.head_size))
        return self.linear(y, p + "o_proj.weight")

    def mlp(self, x, i):
        w, p = self.w, f"model.layers.{i}.mlp."
        gate = self.linear(x, p + "gate_proj.weight")
        gate = w.op("Mul", gate, w.op("Sigmoid", gate))
        return self.linear(w.op("Mul", gate, self.linear(x, p + "up_proj.weight")), p + "down_proj.weight")

    def logits(self, x, output=None):
        if "lm_head.weight" in self.weights:
            return self.linear(x, "lm_head.weight", output)
        return self.w.op("MatMul", x, self.w.op("Transpose", self.table, perm=[1, 0]), output=output)

    def body(self):
        w = self.w
        w.scope = "positions/"
        self.tables = self.rotary_tables()
        self.at, self.mask = self.positions()
        self.place = "position"
        if self.has_caches and self.batch > 1:
            self.place = w.op("Expand", "position", w.ints(self.batch))
        w.scope = "embedding/"
        x = self.embedding("model.embed_tokens.weight")
        for i in range(self.c.layers):
            w.scope, p = f"layer.{i}/", f"model.layers.{i}."
            x = w.op("Add", x, self.attention(self.norm(x, p + "input_layernorm"), i))
            x = w.op("Add", x, self.mlp(self.norm(x, p + "post_attention_layernorm"), i))
        w.scope = "head/"
        if not self.scores:
            x = w.op("Gather", x, w.scalar(-1, np.int64), axis=1)
            self.logits(self.norm(x, "model.norm"), output="logits")
            return
        ids = w.op("Unsqueeze", w.op("Slice", "input_ids", w.ints(1), w.ints(1 << 31), w.ints(1)), w.ints(2))
        x = w.op("Slice", x, w.ints(0), w.ints(-1), w.ints(1))
        log_p = w.op("LogSoftmax", self.logits(self.norm(x, "model.norm")), axis=-1)
        w.op("Neg", w.op("Squeeze", w.op("GatherElements", log_p, ids, axis=2), w.ints(2)), output="cost")

    def model(self):
        self.body()
        value, c = helper.make_tensor_value_info, self.c
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        inputs = [value("input_ids", TensorProto.INT64, [self.batch, "sequence"])]
        outputs = [value("cost", kind, [self.batch, "sequence - 1"]) if self.scores else
                   value("logits", kind, [self.batch, c.vocabulary])]
        if self.has_caches:
            cache = [self.batch, c.kv_heads, "capacity", c.head_size]
            names = [f"{which}_{i}" for i in range(c.layers) for which in ("key", "value")]
            inputs.append(value("position", TensorProto.INT64, [1]))
            inputs += [value("past_" + n, kind, cache) for n in names]
            outputs += [value("present_" + n, kind, cache) for n in names]
        graph = helper.make_graph(self.w.nodes, "decoder", inputs, outputs, self.w.initializers)
        domains = [helper.make_opsetid("", OPSET)]
        if any(node.domain == "com.microsoft" for node in self.w.nodes):
            domains.append(helper.make_opsetid("com.microsoft", 1))
        return helper.make_model(graph, opset_imports=domains, producer_name="sinter-models", ir_version=11)


def random_weights(c, blocks=False, seed=0):
    """Seeded weights of a small model for tests, with a checkpoint's names and shapes; with `blocks` those of
    linear layers as Blocks."""
    rng = np.random.default_rng(seed)
    plain = lambda *shape: rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
    normal = (lambda *shape: Blocks.of(plain(*shape))) if blocks else plain
    scale = lambda: rng.uniform(0.5, 1.5, c.hidden).astype(np.float32)
    out = {"model.embed_tokens.weight": rng.normal(0, 1, (c.vocabulary, c.hidden)).astype(np.float32),
           "model.norm.weight": scale(), "lm_head.weight": normal(c.vocabulary, c.hidden)}
    for i in range(c.layers):
        p, kv = f"model.layers.{i}.", c.kv_heads * c.head_size
        shapes = {"self_attn.q_proj": (c.hidden, c.hidden), "self_attn.k_proj": (kv, c.hidden),
                  "self_attn.v_proj": (kv, c.hidden), "self_attn.o_proj": (c.hidden, c.hidden),
                  "mlp.gate_proj": (c.intermediate, c.hidden), "mlp.up_proj": (c.intermediate, c.hidden),
                  "mlp.down_proj": (c.hidden, c.intermediate)}
        out.update({f"{p}{name}.weight": normal(*shape) for name, shape in shapes.items()})
        out.update({f"{p}{name}.weight": scale() for name in ("input_layernorm", "post_attention_layernorm")})
    return out
