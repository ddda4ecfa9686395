# SPDX-License-Identifier: Apache-2.0
"""Llama-style decoders as ONNX files, with random weights that layers share; and plans of one by several ways.

Models are written without PyTorch, by models/llama_onnx.py in float16. Layers share the weights of `distinct` of them
(about 400 MB, many times what the L2 holds, so that they come from memory as those of different layers would): a plan
has those alone, which keeps the file, the rounding and the plan small. The embedding and the last layer share theirs, too.

A way is how a plan is compiled: 'f16', 'int8' and 'fp8' weights alone (--weights), 'w8a8' fp8 products with a scale for
each token (--precision=fp8), 'cache8' and 'cachei8' caches of e4m3 and int8 (with a number behind it: that many keys in
a tile of attention, instead of the rule's); the last layer has the weights of the others.
"""
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
from onnx import TensorProto

from common import ROOT

sys.path.insert(0, str(ROOT / "models"))
from hybrid_onnx import TAPS, Hybrid, HybridDecoder, qwen  # noqa: E402
from llama_onnx import Config, Decoder  # noqa: E402

# With how many layers have weights of their own.
SIZES = {"1b": (Config(layers=16, hidden=2048, heads=32, kv_heads=8, intermediate=8192, vocabulary=128256,
                       positions=2048, theta=500000.0), 4),
         "8b": (Config(layers=32, hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocabulary=128256,
                       positions=2048, theta=500000.0), 1),
         # One layer of 8b, whose kernels `compile --tune` times for all: the file is good for 8b.
         "8b_layer": (Config(layers=1, hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocabulary=128256,
                             positions=2048, theta=500000.0), 1),
         # Three layers of Gated DeltaNet, one of attention, and so on; distinct ones are whole such rows.
         "qwen3.5_4b": (qwen(32), 4), "qwen3.5_4b_part": (qwen(8), 4),
         "tiny": (Config(layers=2, hidden=128, heads=4, kv_heads=2, intermediate=256, vocabulary=192, positions=2048), 1)}
W8A8 = ["--precision=fp8", "--activation-scales=token", "--max-error=1000", "--include=head/"]
WAYS = {"f16": [], "f16_cache8": ["--cache-precision=fp8"], "int8": ["--weights=int8"],
        "int4": ["--weights=int4:group=128"], "int4_g32": ["--weights=int4:group=32"],
        "nvfp4": ["--weights=nvfp4"], "mxfp4": ["--weights=mxfp4"],
        "int8_cache8": ["--weights=int8", "--cache-precision=fp8"],
        "int8_cachei8": ["--weights=int8", "--cache-precision=int8"],
        "fp8": ["--weights=fp8"], "fp8_cache8": ["--weights=fp8", "--cache-precision=fp8"],
        "w8a8_int8_cache8": ["--precision=int8", *W8A8[1:], "--cache-precision=fp8"],
        "w8a8_int8_cachei8": ["--precision=int8", *W8A8[1:], "--cache-precision=int8"],
        "w8a8": W8A8, "w8a8_cache8": [*W8A8, "--cache-precision=fp8"],
        "w8a8_fast": [*W8A8, "--fp8-accumulation=fast"],
        "w8a8_fast_cache8": [*W8A8, "--fp8-accumulation=fast", "--cache-precision=fp8"],
        "w8a8_block": [option.replace("=token", "=block") for option in W8A8],
        **{f"w8a8_cache8_{keys}": [*W8A8, "--cache-precision=fp8",
                                   f"--schedule=attention rows=1x16 key_groups=8 keys={keys} vector=16"]
           for keys in (32, 64, 128)}}
BLOCK = 16_777_213  # random numbers that are repeated: a prime, so that no two rows are equal


class SharedWeights:
    """Weights as places of one file, by the names of a checkpoint."""

    def __init__(self, config, distinct, path):
        self.path, self.places, self.distinct = path, {}, distinct
        c, self.bytes = config, 0
        q, kv = c.heads * c.head_size, c.kv_heads * c.head_size
        attention = {"q_proj": (c.hidden, q), "k_proj": (c.hidden, kv), "v_proj": (c.hidden, kv), "o_proj": (q, c.hidden)}
        mlp = {"gate_proj": (c.hidden, c.intermediate), "up_proj": (c.hidden, c.intermediate), "down_proj": (c.intermediate, c.hidden)}
        for i in range(distinct):
            mixer = attention
            if isinstance(c, Hybrid) and c.kinds[i] != "attention":
                mixer = {"in_mixed": (c.hidden, c.channels), "in_gate": (c.hidden, c.values), "in_a": (c.hidden, c.value_heads),
                         "in_b": (c.hidden, c.value_heads), "out": (c.values, c.hidden)}
            for name, shape in (mixer | mlp).items():
                self.add(f"{i}/{name}", shape)
        self.add("table", (c.vocabulary, c.hidden))
        self.vocabulary, self.hidden = c.vocabulary, c.hidden

    def add(self, key, shape):
        self.places[key] = self.bytes, shape
        self.bytes += -(-2 * shape[0] * shape[1] // 4096) * 4096

    def write(self):
        block = (np.random.default_rng(0).standard_normal(BLOCK, np.float32) * 0.02).astype(np.float16)
        with open(self.path, "wb") as file:
            for at in range(0, self.bytes // 2, BLOCK):
                block[:self.bytes // 2 - at].tofile(file)

    def __contains__(self, name):
        """Of a checkpoint's names: there are matrices alone, no biases, and the last is the table."""
        return False

    def tensor(self, name, key, shape=None):
        offset, own = self.places[key]
        proto = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=shape or own,
                            data_location=TensorProto.EXTERNAL)
        for what, value in (("location", self.path.name), ("offset", offset), ("length", 2 * own[0] * own[1])):
            proto.external_data.add(key=what, value=str(value))
        return proto


class SharedDecoder(Decoder):
    """A decoder whose matrices are SharedWeights, laid out as they are multiplied, and whose norms scale by one."""

    def external(self, name, key, shape=None):
        if name not in self.w.names:
            self.w.names.add(name)
            self.w.initializers.append(self.weights.tensor(name, key, shape))
        return name

    def vector(self, name):
        return self.w.constant("ones", np.ones(self.c.hidden, self.dtype))

    def linear(self, x, name, output=None):
        layer, kind = name.split(".")[2], name.split(".")[-2]
        key = f"{int(layer) % self.weights.distinct}/{kind}"
        return self.w.op("MatMul", x, self.external(key, key), output=output)

    def embedding(self, name):
        return self.w.op("Gather", self.external("table", "table"), "input_ids")

    def logits(self, x, output=None):
        shape = self.weights.hidden, self.weights.vocabulary
        return self.w.op("MatMul", x, self.external("head", "table", shape), output=output)


class SharedHybrid(SharedDecoder, HybridDecoder):
    """The same of layers with states, whose gates and taps are small random numbers."""

    def vector(self, name):
        c, kind = self.c, name.rsplit(".", 1)[-1]
        draw = np.random.default_rng(3)
        if name.endswith("mixer.conv.weight"):
            return self.w.constant("taps", draw.normal(0, 0.5, (c.channels, 1, TAPS)).astype(self.dtype))
        if name.endswith("mixer.norm.weight"):
            return self.w.constant("ones_of_values", np.ones(c.value_size, self.dtype))
        if kind in ("dt_bias", "decay_scale"):
            scale = -0.5 if kind == "decay_scale" else 0.5
            return self.w.constant(kind, (scale * draw.uniform(0.1, 1, c.value_heads)).astype(self.dtype))
        return super().vector(name)


def shared_weights(config, distinct, path):
    """Writes the file of weights."""
    weights = SharedWeights(config, distinct, path)
    weights.write()
    return weights


def write_decoder(path, config, weights, **how):
    """The ONNX file, beside that of its weights; `how` is llama_onnx.Decoder's."""
    kind = SharedHybrid if isinstance(config, Hybrid) else SharedDecoder
    onnx.save(kind(config, weights, dtype=np.float16, **how).model(), path)


def compile_ways(ways, compile_way, jobs):
    """What compile_way(way) gives, by way, and for those that fail the error's text; `jobs` compilers at a time."""
    made, failed = {}, {}
    with ThreadPoolExecutor(jobs) as pool:
        compiling = {way: pool.submit(compile_way, way) for way in ways}
        for way, future in compiling.items():
            try:
                made[way] = future.result()
            except (SystemExit, Exception) as error:  # pylint: disable=broad-except
                failed[way] = str(error)[-600:]
    return made, failed
