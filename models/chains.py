#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the memory-bound benchmark chains as ONNX, with dtype and sizes as asked.

  chains.py --out build/chains --dtype f32 --rows 1024 --cols 4096
  chains.py --out build/chains --dtype f16                     sizes of the GPU benchmark

chain_ln_relu_add: x + relu(LayerNorm(x)); chain_sin4: four sines; chain_softmax_mask:
softmax(x/8 + mask); chain_bias_gelu_rms: RMSNorm(gelu(x + bias) * gate). With --many, sum_many: the
means of that many tensors of different sizes, in one.
"""
import argparse
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16),
         "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}


class Chain:
    def __init__(self, dtype):
        self.proto, self.numpy = TYPES[dtype]
        self.nodes, self.initializers, self.inputs = [], [], []
        self.rng = np.random.default_rng(0)

    def input(self, name, shape):
        self.inputs.append(helper.make_tensor_value_info(name, self.proto, shape))
        return name

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, name, shape, mean=0.0, deviation=0.02):
        return self.constant(name, self.rng.normal(mean, deviation, shape).astype(self.numpy))

    def op(self, kind, *inputs, **attributes):
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name + "_out"], name=name, **attributes))
        return name + "_out"

    def model(self, outputs, shape, opset=20):
        """The model whose output, or whose outputs (a list), have this shape."""
        outputs = outputs if isinstance(outputs, list) else [outputs]
        infos = [helper.make_tensor_value_info(output, self.proto, shape) for output in outputs]
        graph = helper.make_graph(self.nodes, "chain", self.inputs, infos, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        onnx.checker.check_model(model)
        return model


def ln_relu_add(dtype, rows, cols):
    c = Chain(dtype)
    x = c.input("x", [rows, cols])
    norm = c.op("LayerNormalization", x, c.weight("scale", cols, 1.0), c.weight("bias", cols), axis=-1, epsilon=1e-5)
    return c.model(c.op("Add", x, c.op("Relu", norm)), [rows, cols])


def sin4(dtype, rows, cols):
    c = Chain(dtype)
    x = c.input("x", [rows, cols])
    for _ in range(4):
        x = c.op("Sin", x)
    return c.model(x, [rows, cols])


def softmax_mask(dtype, shape, mask_shape):
    c = Chain(dtype)
    x, mask = c.input("x", shape), c.input("mask", mask_shape)
    scaled = c.op("Mul", x, c.constant("factor", np.array(0.125, c.numpy)))
    return c.model(c.op("Softmax", c.op("Add", scaled, mask), axis=-1), shape)


def bias_gelu_rms(dtype, rows, cols):
    c = Chain(dtype)
    x, gate = c.input("x", [rows, cols]), c.input("gate", [rows, cols])
    y = c.op("Mul", c.op("Gelu", c.op("Add", x, c.weight("bias", cols))), gate)
    wide = c.op("Cast", y, to=TensorProto.FLOAT) if dtype != "f32" else y
    square = c.op("Pow", wide, c.constant("two", np.float32(2)))
    mean = c.op("ReduceMean", square, c.constant("axes", np.array([-1], np.int64)), keepdims=1)
    inverse = c.op("Reciprocal", c.op("Sqrt", c.op("Add", mean, c.constant("epsilon", np.float32(1e-6)))))
    if dtype != "f32":
        inverse = c.op("Cast", inverse, to=c.proto)
    return c.model(c.op("Mul", c.op("Mul", y, inverse), c.weight("scale", cols, 1.0)), [rows, cols])


def sum_many(dtype, count):
    c = Chain(dtype)
    sizes = np.random.default_rng(0).integers(256, 65536, count)
    axes, means = c.constant("axis", np.array([0], np.int64)), []
    for i, size in enumerate(sizes):
        wide = c.op("Cast", c.input(f"t{i}", [int(size)]), to=TensorProto.FLOAT)
        means.append(c.op("Unsqueeze", c.op("ReduceMean", wide, keepdims=0), axes))
    c.proto = TensorProto.FLOAT  # of the result
    return c.model(c.op("Concat", *means, axis=0), [count])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--dtype", choices=sorted(TYPES), default="f32")
    p.add_argument("--rows", type=int, default=8192)
    p.add_argument("--cols", type=int, default=4096)
    p.add_argument("--attention", action="store_true", help="the softmax over 16x12x512x512 instead of rows x cols")
    p.add_argument("--many", type=int, default=0, help="tensors of sum_many; 0 leaves it out")
    a = p.parse_args()
    folder = Path(a.out)
    folder.mkdir(parents=True, exist_ok=True)
    shapes = ([16, 12, 512, 512], [16, 1, 1, 512]) if a.attention else ([a.rows, a.cols], [1, a.cols])
    if a.many:
        onnx.save(sum_many(a.dtype, a.many), folder / f"sum_many_{a.many}.onnx")
    onnx.save(ln_relu_add(a.dtype, a.rows, a.cols), folder / "chain_ln_relu_add.onnx")
    onnx.save(sin4(a.dtype, a.rows, a.cols), folder / "chain_sin4.onnx")
    onnx.save(softmax_mask(a.dtype, *shapes), folder / "chain_softmax_mask.onnx")
    onnx.save(bias_gelu_rms(a.dtype, a.rows, a.cols), folder / "chain_bias_gelu_rms.onnx")


if __name__ == "__main__":
    main()
