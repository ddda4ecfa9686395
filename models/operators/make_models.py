#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The references of this folder's operators, and models that use them, with inputs.

  models/operators/make_models.py [--out FOLDER]

Writes the references beside the definitions, and operators.onnx (rotary, gate), deform.onnx and softmax.onnx with
their inputs.
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


class Nodes:
    """Nodes of a model, one call each."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def add(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def number(self, value, dtype=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values):
        return self.number(values, np.int64)


def deform_reference():
    """The four pixels around each sample are gathered from the list of all levels' pixels."""
    n = Nodes()
    sizes = n.add("Cast", "shapes", to=TensorProto.FLOAT)

    def of_level(value):  # [levels] to [levels, 1], beside [.., levels, points]
        return n.add("Unsqueeze", value, n.ints(1))

    def part(value, axis, i):
        return n.add("Gather", value, n.number(i, np.int64), axis=axis)

    height, width = (of_level(part(sizes, 1, i)) for i in (0, 1))
    start = of_level("starts")
    width_ints = n.add("Cast", width, to=TensorProto.INT64)
    column, row = (n.add("Sub", n.add("Mul", part("locations", 5, i), size), n.number(0.5))
                   for i, size in ((0, width), (1, height)))
    left, top = n.add("Floor", column), n.add("Floor", row)
    x, y = n.add("Sub", column, left), n.add("Sub", row, top)
    keys = n.add("Transpose", "value", perm=[0, 2, 1, 3])  # [images, heads, keys, channels]
    channels = n.add("Shape", "value", start=3)
    flat = n.add("Concat", n.add("Shape", keys, end=2), n.ints(-1, 1), axis=0)
    spread = n.add("Concat", n.ints(1, 1, 1), channels, axis=0)
    total = None
    for down in (0, 1):
        for right in (0, 1):
            r, c = n.add("Add", top, n.number(down)), n.add("Add", left, n.number(right))
            inside = None
            place = []
            for value, size in ((r, height), (c, width)):
                last = n.add("Sub", size, n.number(1))
                bounded = n.add("Max", n.add("Min", value, last), n.number(0))
                place.append(n.add("Cast", bounded, to=TensorProto.INT64))
                same = n.add("Equal", value, bounded)
                inside = same if inside is None else n.add("And", inside, same)
            index = n.add("Add", n.add("Add", n.add("Mul", place[0], width_ints), place[1]), start)
            index = n.add("Transpose", index, perm=[0, 2, 1, 3, 4])  # [images, heads, queries, levels, points]
            index = n.add("Expand", n.add("Reshape", index, flat), spread)
            share = n.add("Mul", y if down else n.add("Sub", n.number(1), y), x if right else n.add("Sub", n.number(1), x))
            share = n.add("Mul", n.add("Mul", share, n.add("Cast", inside, to=TensorProto.FLOAT)), "weights")
            share = n.add("Reshape", n.add("Transpose", share, perm=[0, 2, 1, 3, 4]), flat)
            term = n.add("Mul", n.add("GatherElements", keys, index, axis=2), share)
            total = term if total is None else n.add("Add", total, term)
    # [images, heads, queries * levels * points, channels]: samples of a query are added.
    split = n.add("Concat", n.add("Shape", keys, end=2), n.add("Shape", "locations", start=1, end=2), n.ints(-1), channels,
                  axis=0)
    summed = n.add("ReduceSum", n.add("Reshape", total, split), n.ints(3), keepdims=0)
    by_query = n.add("Transpose", summed, perm=[0, 2, 1, 3])
    n.nodes.append(helper.make_node("Reshape", [by_query, n.ints(0, 0, -1)], ["y"]))
    save(HERE / "deform_reference.onnx", n.nodes,
         [tensor("value", ["images", "keys", "heads", "channels"]), tensor("shapes", ["levels", 2], TensorProto.INT64),
          tensor("starts", ["levels"], TensorProto.INT64),
          tensor("locations", ["images", "queries", "heads", "levels", "points", 2]),
          tensor("weights", ["images", "queries", "heads", "levels", "points"])],
         [tensor("y", ["images", "queries", "all_channels"])], n.constants)


def deform_model(folder):
    """Weights of a softmax in front and a residual behind."""
    rng = np.random.default_rng(1)
    sizes = np.array([[12, 16], [6, 8], [3, 4]], np.int64)
    keys, heads, channels, levels, points = int(np.prod(sizes, axis=1).sum()), 2, 8, len(sizes), 4
    starts = np.concatenate([[0], np.cumsum(np.prod(sizes, axis=1))[:-1]]).astype(np.int64)
    shape = ["images", "queries", heads, levels * points]
    nodes = [helper.make_node("Softmax", ["logits"], ["shares"], axis=-1),
             helper.make_node("Reshape", ["shares", "split"], ["weights"]),
             helper.make_node("MSDeformAttn", ["value", "shapes", "starts", "locations", "weights"], ["sampled"],
                              domain="com.example"),
             helper.make_node("Add", ["sampled", "residual"], ["y"])]
    constants = [onnx.numpy_helper.from_array(sizes, "shapes"), onnx.numpy_helper.from_array(starts, "starts"),
                 ints("split", [0, 0, heads, levels, points])]
    images, queries = 2, 20
    save(folder / "deform.onnx", nodes,
         [tensor("value", ["images", keys, heads, channels]), tensor("logits", shape),
          tensor("locations", ["images", "queries", heads, levels, points, 2]),
          tensor("residual", ["images", "queries", heads * channels])],
         [tensor("y", ["images", "queries", heads * channels])], constants, ["com.example"])
    # Some points lie outside of their map.
    np.savez(folder / "deform.npz", value=rng.standard_normal((images, keys, heads, channels), np.float32),
             logits=rng.standard_normal((images, queries, heads, levels * points), np.float32),
             locations=rng.uniform(-0.2, 1.2, (images, queries, heads, levels, points, 2)).astype(np.float32),
             residual=rng.standard_normal((images, queries, heads * channels), np.float32))


def softmax_model(folder):
    rows = ["rows", "columns"]
    save(HERE / "softmax_reference.onnx", [helper.make_node("Softmax", ["x"], ["y"], axis=-1)], [tensor("x", rows)],
         [tensor("y", rows)], [])
    nodes = [helper.make_node("Mul", ["x", "scale"], ["scaled"]),
             helper.make_node("RowSoftmax", ["scaled"], ["shares"], domain="com.example"),
             helper.make_node("Sqrt", ["shares"], ["y"])]
    save(folder / "softmax.onnx", nodes, [tensor("x", ["rows", 781])], [tensor("y", ["rows", 781])],
         [helper.make_tensor("scale", TensorProto.FLOAT, [], [3.0])], ["com.example"])


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
    deform_reference()
    model(a.out)
    deform_model(a.out)
    softmax_model(a.out)


if __name__ == "__main__":
    main()
