#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoders whose layers are attention, Gated DeltaNet or Mamba-2, as ONNX with com.microsoft's operators; random weights.

  hybrid_onnx.py --tiny   writes models/tiny/hybrid_decoder.onnx and mamba_decoder.onnx

Layers with states take past_conv_I [1, channels, taps - 1] and past_state_I [1, heads, key size, value size], and return them
as present_; attention has caches as in llama_onnx.
"""
import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from llama_onnx import Config, Decoder, random_weights

MS = "com.microsoft"
TAPS = 4


@dataclass
class Hybrid(Config):
    kinds: tuple = ()          # of each layer: "attention", "delta" or "mamba"
    key_heads: int = 2         # of Gated DeltaNet, and groups of Mamba-2
    value_heads: int = 4       # and heads of Mamba-2
    key_size: int = 8          # and Mamba-2's size of a state
    value_size: int = 8
    own_head_size: int = 0     # of attention; 0: hidden / heads

    @property
    def head_size(self):
        return self.own_head_size or self.hidden // self.heads

    @property
    def keys(self):
        return self.key_heads * self.key_size

    @property
    def values(self):
        return self.value_heads * self.value_size

    @property
    def channels(self):
        return 2 * self.keys + self.values


class HybridDecoder(Decoder):
    def positions(self):
        """As the base has them, with the capacity of the first layer that has a cache."""
        if "attention" not in self.c.kinds:
            return None, None
        first = self.c.kinds.index("attention")
        op = self.w.op
        self.w.op = lambda kind, *inputs, **more: op(kind, *[f"past_key_{first}" if i == "past_key_0" else i for i in inputs], **more)
        result = super().positions()
        self.w.op = op
        return result

    def attention(self, x, i):
        if self.c.kinds[i] == "attention":
            return super().attention(x, i)
        w, c, p = self.w, self.c, f"model.layers.{i}.mixer."
        mixed, gate, a = (self.linear(x, f"{p}in_{name}.weight") for name in ("mixed", "gate", "a"))
        turned = w.op("Transpose", mixed, perm=[0, 2, 1])
        conv, _ = self.two("CausalConvWithState", turned, self.vector(p + "conv.weight"), "", f"past_conv_{i}",
                           outputs=(None, f"present_conv_{i}"), activation="silu")
        sizes = w.ints(c.keys, c.keys, c.values)
        query, key, value = self.split(w.op("Transpose", conv, perm=[0, 2, 1]), sizes)
        bias, scale = self.vector(p + "dt_bias"), self.vector(p + "decay_scale")
        if c.kinds[i] == "delta":
            b = self.linear(x, p + "in_b.weight")
            decay, beta = self.two("LinearAttentionGate", a, bias, scale, b)
            query, key = self.unit(query), self.unit(key)
            rule, more = "gated_delta", [decay, beta]
        else:
            # Mamba-2: what is written is scaled by the step's length.
            decay = w.op("LinearAttentionGate", a, bias, scale, domain=MS)
            length = w.op("Softplus", w.op("Add", a, bias))
            value = self.by_head(value, length)
            rule, more = "gated", [decay]
        out, _ = self.two("LinearAttention", query, key, value, f"past_state_{i}", *more, outputs=(None, f"present_state_{i}"),
                          q_num_heads=c.key_heads, kv_num_heads=c.value_heads, update_rule=rule)
        out = w.op("GatedRMSNorm", out, self.vector(p + "norm.weight"), gate, epsilon=c.epsilon, domain=MS)
        return self.linear(out, p + "out.weight")

    def two(self, kind, *inputs, outputs=(None, None), **attributes):
        """A node of com.microsoft with two results."""
        w = self.w
        first = w.op(kind, *inputs, domain=MS, **attributes)
        second = outputs[1] or first + "_second"
        w.nodes[-1].output.append(second)
        return first, second

    def split(self, x, sizes):
        first = self.w.op("Split", x, sizes, axis=-1)
        self.w.nodes[-1].output.extend([first + "_1", first + "_2"])
        return first, first + "_1", first + "_2"

    def unit(self, x):
        """Heads of keys of unit length."""
        w, c = self.w, self.c
        heads = w.op("Reshape", x, w.ints(0, 0, c.key_heads, c.key_size))
        return w.op("Reshape", w.op("LpNormalization", heads, axis=-1, p=2), w.ints(0, 0, c.keys))

    def by_head(self, x, factor):
        w, c = self.w, self.c
        heads = w.op("Reshape", x, w.ints(0, 0, c.value_heads, c.value_size))
        return w.op("Reshape", w.op("Mul", heads, w.op("Unsqueeze", factor, w.ints(3))), w.ints(0, 0, c.values))

    def body(self):
        if "attention" not in self.c.kinds:
            self.rotary_tables = lambda: None
        super().body()

    def model(self):
        model, c = super().model(), self.c
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        value = helper.make_tensor_value_info
        is_cache = lambda name, i: c.kinds[i] == "attention" or not name.endswith(("key", "value"))
        of_layer = lambda v: v.name.rsplit("_", 1)
        for values, when in ((model.graph.input, "past"), (model.graph.output, "present")):
            kept = [v for v in values if not v.name.startswith(when + "_") or is_cache(of_layer(v)[0], int(of_layer(v)[1]))]
            if "attention" not in c.kinds:
                kept = [v for v in kept if v.name != "position"]
            del values[:]
            values.extend(kept)
            for i, layer in enumerate(c.kinds):
                if layer != "attention":
                    values.append(value(f"{when}_conv_{i}", kind, [1, c.channels, TAPS - 1]))
                    values.append(value(f"{when}_state_{i}", TensorProto.FLOAT, [1, c.value_heads, c.key_size, c.value_size]))
        if not any(each.domain == MS for each in model.opset_import):
            model.opset_import.append(helper.make_opsetid(MS, 1))
        return model


def hybrid_weights(c, seed=0):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
    out = random_weights(c, seed=seed)
    q = c.heads * c.head_size
    for i, kind in enumerate(c.kinds):
        p = f"model.layers.{i}."
        if kind == "attention":
            out[p + "self_attn.q_proj.weight"] = normal(q, c.hidden)
            out[p + "self_attn.o_proj.weight"] = normal(c.hidden, q)
            continue
        for name in [n for n in out if n.startswith(p + "self_attn.")]:
            del out[name]
        p += "mixer."
        shapes = {"in_mixed": (c.channels, c.hidden), "in_gate": (c.values, c.hidden), "in_a": (c.value_heads, c.hidden),
                  "in_b": (c.value_heads, c.hidden), "out": (c.hidden, c.values)}
        out.update({f"{p}{name}.weight": normal(*shape) for name, shape in shapes.items()})
        out[p + "conv.weight"] = rng.normal(0, 0.5, (c.channels, 1, TAPS)).astype(np.float32)
        out[p + "dt_bias"] = rng.normal(0, 0.5, c.value_heads).astype(np.float32)
        out[p + "decay_scale"] = -rng.uniform(0.1, 1, c.value_heads).astype(np.float32)
        out[p + "norm.weight"] = rng.uniform(0.5, 1.5, c.value_size).astype(np.float32)
    return out


def tiny(kinds):
    return Hybrid(layers=len(kinds), hidden=32, heads=4, kv_heads=2, intermediate=48, vocabulary=96, positions=256, kinds=kinds)


def qwen(layers):
    """Qwen3.5-4B's numbers, without its gate of attention and its partly rotated heads."""
    kinds = tuple("attention" if i % 4 == 3 else "delta" for i in range(layers))
    return Hybrid(layers=layers, hidden=2560, heads=16, kv_heads=4, intermediate=9216, vocabulary=248320, positions=4096, theta=1e7,
                  epsilon=1e-6, kinds=kinds, key_heads=16, value_heads=32, key_size=128, value_size=128, own_head_size=256)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    if a.tiny:
        folder = Path(__file__).parent / "tiny"
        for name, kinds in (("hybrid", ("delta", "attention", "mamba")), ("mamba", ("mamba", "mamba"))):
            c = tiny(kinds)
            onnx.save(HybridDecoder(c, hybrid_weights(c)).model(), folder / f"{name}_decoder.onnx")


if __name__ == "__main__":
    main()
