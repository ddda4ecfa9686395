#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write models of many small kernels that do not depend on each other, as ONNX.

  parallel.py --out build/parallel --dtype f16

qk_rotary: RMSNorm of queries and of keys (slices of a packed projection), each with its scale, then
rotary positions; any sequence. updates_100: a step of momentum for 100 tensors of different sizes.
branches: two poolings, two activations and a LayerNorm of one small image.
"""
import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from chains import TYPES, Chain

HEADS, KEY_HEADS, WIDTH = 16, 8, 128


def constant(c, array):
    return c.constant(f"c{len(c.initializers)}", array)


def many_outputs(c, outputs):
    """The model of several outputs, each (name, shape)."""
    infos = [helper.make_tensor_value_info(name, c.proto, shape) for name, shape in outputs]
    graph = helper.make_graph(c.nodes, "parallel", c.inputs, infos, c.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def qk_rotary(dtype):
    c = Chain(dtype)
    total = (HEADS + 2 * KEY_HEADS) * WIDTH
    packed = c.input("qkv", [1, "seq", total])
    cosine, sine = (c.input(name, [1, "seq", 1, WIDTH]) for name in ("cos", "sin"))
    axis = constant(c, np.array([2], np.int64))
    last = constant(c, np.array([-1], np.int64))
    epsilon = constant(c, np.float32(1e-6))

    def one(first, heads, scale):
        x = c.op("Slice", packed, constant(c, np.array([first * WIDTH])),
                 constant(c, np.array([(first + heads) * WIDTH])), axis)
        x = c.op("Reshape", x, constant(c, np.array([1, -1, heads, WIDTH])))
        wide = c.op("Cast", x, to=TYPES["f32"][0])
        mean = c.op("ReduceMean", c.op("Mul", wide, wide), last, keepdims=1)
        inverse = c.op("Reciprocal", c.op("Sqrt", c.op("Add", mean, epsilon)))
        x = c.op("Mul", c.op("Cast", c.op("Mul", wide, inverse), to=c.proto), c.weight(scale, WIDTH, 1.0))
        half, axes = WIDTH // 2, constant(c, np.array([3]))
        low = c.op("Slice", x, constant(c, np.array([0])), constant(c, np.array([half])), axes)
        high = c.op("Slice", x, constant(c, np.array([half])), constant(c, np.array([WIDTH])), axes)
        turned = c.op("Concat", c.op("Neg", high), low, axis=-1)
        x = c.op("Add", c.op("Mul", x, cosine), c.op("Mul", turned, sine))
        return c.op("Transpose", x, perm=[0, 2, 1, 3]), [1, heads, "seq", WIDTH]

    return many_outputs(c, [one(0, HEADS, "q_scale"), one(HEADS, KEY_HEADS, "k_scale")])


def updates(dtype, count):
    c = Chain(dtype)
    sizes = np.random.default_rng(0).integers(256, 65536, count)
    rate, decay = constant(c, c.numpy(0.01)), constant(c, c.numpy(0.9))
    outputs = []
    for i, size in enumerate(int(size) for size in sizes):
        weight, moment, gradient = (c.input(f"{name}{i}", [size]) for name in "pmg")
        moment = c.op("Add", c.op("Mul", moment, decay), gradient)
        outputs += [(c.op("Sub", weight, c.op("Mul", moment, rate)), [size]), (moment, [size])]
    return many_outputs(c, outputs)


def branches(dtype):
    c = Chain(dtype)
    shape = [1, 64, 28, 28]
    x = c.input("x", shape)
    pool = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    flat = c.op("Reshape", x, constant(c, np.array([1, 64, 784])))
    norm = c.op("LayerNormalization", flat, c.weight("scale", 784, 1.0), c.weight("bias", 784), axis=-1)
    return many_outputs(c, [(c.op("Relu", c.op("AveragePool", x, count_include_pad=1, **pool)), shape),
                            (c.op("HardSwish", c.op("MaxPool", x, **pool)), shape),
                            (c.op("Sigmoid", x), shape), (c.op("Gelu", x), shape), (norm, [1, 64, 784])])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--dtype", choices=sorted(TYPES), default="f16")
    a = p.parse_args()
    folder = Path(a.out)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(qk_rotary(a.dtype), folder / "qk_rotary.onnx")
    onnx.save(updates(a.dtype, 100), folder / "updates_100.onnx")
    onnx.save(branches(a.dtype), folder / "branches.onnx")


if __name__ == "__main__":
    main()
