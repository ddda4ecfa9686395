#!/usr/bin/env python3
"""The references of this folder's operators, and a model that uses both, with inputs.

  models/operators/make_models.py [--out FOLDER]

Writes rotary_reference.onnx and gate_reference.onnx beside the definitions, and operators.onnx with operators.npz.
"""
import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

HERE = Path(__file__).parent


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def ints(name, values):
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def save(path, nodes, inputs, outputs, constants, domains=()):
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def rotary_reference():
    node = helper.make_node
    shape = ["batch", "heads", "tokens", "width"]
    nodes = [
        node("Slice", ["x", "zero", "end", "last", "two"], ["even"]),
        node("Slice", ["x", "one", "end", "last", "two"], ["odd"]),
        node("Mul", ["even", "cos"], ["ec"]), node("Mul", ["odd", "sin"], ["os"]), node("Sub", ["ec", "os"], ["a"]),
        node("Mul", ["even", "sin"], ["es"]), node("Mul", ["odd", "cos"], ["oc"]), node("Add", ["es", "oc"], ["b"]),
        node("Unsqueeze", ["a", "last"], ["a1"]), node("Unsqueeze", ["b", "last"], ["b1"]),
        node("Concat", ["a1", "b1"], ["pairs"], axis=-1), node("Shape", ["x"], ["shape"]),
        node("Reshape", ["pairs", "shape"], ["y"])]
    constants = [ints("zero", [0]), ints("one", [1]), ints("two", [2]), ints("last", [-1]), ints("end", [2**31])]
    save(HERE / "rotary_reference.onnx", nodes,
         [tensor("x", shape), tensor("cos", ["tokens", "half"]), tensor("sin", ["tokens", "half"])],
         [tensor("y", shape)], constants)


def gate_reference():
    nodes = [helper.make_node("TopK", ["logits", "two"], ["values", "experts"]),
             helper.make_node("Softmax", ["values"], ["weights"], axis=-1)]
    save(HERE / "gate_reference.onnx", nodes, [tensor("logits", ["tokens", "experts"])],
         [tensor("weights", ["tokens", 2]), tensor("experts", ["tokens", 2], TensorProto.INT64)], [ints("two", [2])])


def model(folder):
    rng = np.random.default_rng(0)
    angles = np.outer(np.arange(16), 10000.0 ** (-np.arange(0, 32, 2) / 32)).astype(np.float32)
    constants = [onnx.numpy_helper.from_array(np.cos(angles), "cos"), onnx.numpy_helper.from_array(np.sin(angles), "sin")]
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]),
             helper.make_node("InterleavedRotary", ["s", "cos", "sin"], ["r"], domain="com.example"),
             helper.make_node("Neg", ["r"], ["y"]),
             helper.make_node("TopTwoGate", ["logits"], ["weights", "experts"], domain="com.example")]
    save(folder / "operators.onnx", nodes, [tensor("x", ["batch", 4, 16, 32]), tensor("logits", ["rows", 64])],
         [tensor("y", ["batch", 4, 16, 32]), tensor("weights", ["rows", 2]),
          tensor("experts", ["rows", 2], TensorProto.INT64)], constants, ["com.example"])
    np.savez(folder / "operators.npz", x=rng.standard_normal((3, 4, 16, 32), np.float32),
             logits=rng.standard_normal((37, 64), np.float32))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=HERE, help="where operators.onnx and its inputs go")
    a = p.parse_args()
    rotary_reference()
    gate_reference()
    model(a.out)


if __name__ == "__main__":
    main()
