#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes that follow from data, one plan for all inputs, against ONNX Runtime.

NonZero, Compress, Unique, TopK and Slice and Range by inputs, gathers and scatters through masks, NonMaxSuppression,
and what models compute with such sizes. Options: see made_cases.py.
"""
import sys

import numpy as np
from onnx import TensorProto, helper

from made_cases import info, main, model

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def masks(*shapes, name="x", extra=lambda random, shape: {}):
    """Random numbers of which none, few, half or all are zero."""
    def feeds():
        random = np.random.default_rng(5)
        for shape in shapes:
            for part in (0, .03, .5, 1):
                x = random.standard_normal(shape).astype(np.float32)
                x[random.random(shape) < part] = 0
                yield {name: x} | extra(random, shape)
    return feeds


def non_zero():
    return model([node("NonZero", ["x"], ["places"])], [info("x", F, ["a", "b"])], [("places", I)]), \
        masks((3, 5), (1, 1), (40, 700))


def masked_select():
    """x[x > 0] * 2 as torch exports it, its mean, and the mask's rows of a table."""
    return model([node("Greater", ["x", "zero"], ["mask"]), node("NonZero", ["mask"], ["columns"]),
                  node("Transpose", ["columns"], ["rows"], perm=[1, 0]), node("GatherND", ["x", "rows"], ["chosen"]),
                  node("Mul", ["chosen", "two"], ["y"]), node("ReduceSum", ["y"], ["sum"], keepdims=0),
                  node("Size", ["y"], ["count"])],
                 [info("x", F, ["a", "b"])], [("y", F), ("sum", F), ("count", I)],
                 [("zero", np.float32(0)), ("two", np.float32(2))]), masks((3, 5), (64, 300))


def masked_assign():
    """x[mask] = f(x[mask]): gathered, changed by a matrix product, scattered back."""
    random = np.random.default_rng(1)
    return model([node("ReduceSum", ["x", "last"], ["total"], keepdims=0), node("Greater", ["total", "zero"], ["mask"]),
                  node("NonZero", ["mask"], ["columns"]), node("Squeeze", ["columns", "first"], ["rows"]),
                  node("Gather", ["x", "rows"], ["chosen"], axis=0), node("MatMul", ["chosen", "w"], ["h"]),
                  node("Relu", ["h"], ["r"]), node("Transpose", ["columns"], ["places"], perm=[1, 0]),
                  node("ScatterND", ["x", "places", "r"], ["y"])],
                 [info("x", F, ["a", 32])], [("y", F), ("r", F)],
                 [("zero", np.float32(0)), ("last", np.array([1])), ("first", np.array([0])),
                  ("w", random.standard_normal((32, 32)).astype(np.float32))]), masks((1, 32), (7, 32), (200, 32))


def compress(axis):
    attributes = {} if axis is None else {"axis": axis}
    size = 12 if axis is None else 4

    def feeds():
        random = np.random.default_rng(2)
        for part in (0, .3, .8, 1):
            yield {"x": random.standard_normal((3, 4)).astype(np.float32), "c": random.random(size) < part}

    return model([node("Compress", ["x", "c"], ["y"], **attributes)], [info("x", F, [3, 4]), info("c", B, [size])],
                 [("y", F)]), feeds


def top_k():
    """k is an input: no more than the dimension."""
    def feeds():
        random = np.random.default_rng(3)
        for k in (0, 1, 7, 50):
            yield {"x": random.standard_normal((6, 50)).astype(np.float32), "k": np.array([k])}

    return model([node("TopK", ["x", "k"], ["v", "i"]), node("Softmax", ["v"], ["p"], axis=-1)],
                 [info("x", F, ["rows", 50]), info("k", I, [1])], [("v", F), ("i", I), ("p", F)]), feeds


def slices():
    """Ends, begins and both from inputs, negative ones among them."""
    def feeds():
        random = np.random.default_rng(4)
        for begin, end in ((0, 5), (2, 100), (-3, 10), (5, 2), (0, -1), (-100, 100)):
            yield {"x": random.standard_normal((4, 10)).astype(np.float32), "b": np.array([begin]), "e": np.array([end])}

    return model([node("Slice", ["x", "b", "e", "one"], ["y"]), node("Slice", ["x", "zero", "e", "one"], ["z"]),
                  node("Slice", ["x", "b", "far", "one"], ["w"])],
                 [info("x", F, ["rows", 10]), info("b", I, [1]), info("e", I, [1])], [("y", F), ("z", F), ("w", F)],
                 [("one", np.array([1])), ("zero", np.array([0])), ("far", np.array([2**62]))]), feeds


def ranges():
    """Positions of as many frames as durations add up to: needs a bound."""
    def feeds():
        random = np.random.default_rng(6)
        for high in (1, 3, 9):
            yield {"d": random.integers(0, high + 1, (11,)).astype(np.float32)}

    return model([node("ReduceSum", ["d"], ["total"], keepdims=0), node("Cast", ["total"], ["frames"], to=I),
                  node("Range", ["zero", "frames", "one"], ["t"]), node("Cast", ["t"], ["f"], to=F),
                  node("CumSum", ["d", "zero"], ["ends"]), node("Unsqueeze", ["f", "second"], ["fs"]),
                  node("Less", ["fs", "ends"], ["before"]), node("Cast", ["before"], ["path"], to=F),
                  node("MatMul", ["path", "d2"], ["y"])],
                 [info("d", F, [11])], [("t", I), ("y", F)],
                 [("zero", np.int64(0)), ("one", np.int64(1)), ("second", np.array([1])),
                  ("d2", np.arange(33, dtype=np.float32).reshape(11, 3))]), feeds, ["--bound", "frames=120"]


def expanded():
    """Tensors of shapes that are computed from data: ConstantOfShape, Expand, Tile."""
    def feeds():
        for n in (0, 1, 6):
            yield {"n": np.array(n)}

    return model([node("Unsqueeze", ["n", "first"], ["n1"]), node("Concat", ["n1", "four"], ["shape"], axis=0),
                  node("ConstantOfShape", ["shape"], ["zeros"]), node("Expand", ["row", "shape"], ["rows"]),
                  node("Add", ["zeros", "rows"], ["y"]), node("Concat", ["y", "row"], ["z"], axis=0)],
                 [info("n", I, [])], [("y", F), ("z", F)],
                 [("first", np.array([0])), ("four", np.array([4])),
                  ("row", np.arange(4, dtype=np.float32).reshape(1, 4))]), feeds, ["--bound", "n=9"]


def boxes_of(random, batch, count):
    corner = random.uniform(0, 80, (batch, count, 2))
    return np.concatenate([corner, corner + random.uniform(-3, 40, (batch, count, 2))], 2).astype(np.float32)


def suppression(most, classes=3):
    """Boxes that NonMaxSuppression selects, gathered with their scores, as detectors export it."""
    def feeds():
        random = np.random.default_rng(8)
        for count in (1, 5, 90, 1200):
            for level in (0, .5, 2):
                yield {"boxes": boxes_of(random, 2, count), "level": np.array([level], np.float32),
                       "scores": random.uniform(0, 1, (2, classes, count)).astype(np.float32)}

    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "level"], ["selected"]),
             node("GatherND", ["scores", "selected"], ["s"]),
             node("Gather", ["selected", "ends"], ["pairs"], axis=1), node("GatherND", ["boxes", "pairs"], ["b"]),
             node("ReduceSum", ["b", "first"], ["sum"], keepdims=0)]
    return model(nodes, [info("boxes", F, [2, "n", 4]), info("scores", F, [2, classes, "n"]), info("level", F, [1])],
                 [("selected", I), ("s", F), ("b", F), ("sum", F)],
                 [("most", np.array([most])), ("iou", np.array([.4], np.float32)), ("ends", np.array([0, 2])),
                  ("first", np.array([0]))]), feeds


def twice():
    """Suppressed, selected by score, and suppressed again: sizes of sizes, as in two-stage detectors."""
    def feeds():
        random = np.random.default_rng(9)
        for count in (1, 40, 700):
            yield {"boxes": boxes_of(random, 1, count), "scores": random.uniform(0, 1, (1, 1, count)).astype(np.float32)}

    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "loose"], ["selected"]),
             node("Gather", ["selected", "two"], ["column"], axis=1), node("Squeeze", ["column", "last"], ["kept"]),
             node("Gather", ["boxes", "kept"], ["b"], axis=1), node("Gather", ["scores", "kept"], ["s"], axis=2),
             node("Sqrt", ["s"], ["s2"]), node("Greater", ["s2", "level"], ["mask"]), node("Reshape", ["mask", "flat"], ["m"]),
             node("NonZero", ["m"], ["places"]), node("Squeeze", ["places", "first"], ["p"]),
             node("Gather", ["b", "p"], ["b2"], axis=1), node("Gather", ["s2", "p"], ["s3"], axis=2),
             node("NonMaxSuppression", ["b2", "s3", "most", "tight"], ["again"]),
             node("Shape", ["s3"], ["all"]), node("Slice", ["all", "two", "three"], ["n2"]),
             node("Concat", ["n2", "k"], ["both"], axis=0), node("ReduceMin", ["both"], ["kk"], keepdims=1),
             node("TopK", ["s3", "kk"], ["v", "i"]), node("Shape", ["again"], ["shape"])]
    return model(nodes, [info("boxes", F, [1, "n", 4]), info("scores", F, [1, 1, "n"])],
                 [("again", I), ("b2", F), ("shape", I), ("v", F)],
                 [("most", np.array([50])), ("loose", np.array([.7], np.float32)), ("tight", np.array([.2], np.float32)),
                  ("two", np.array([2])), ("three", np.array([3])), ("last", np.array([1])), ("first", np.array([0])), ("k", np.array([9])),
                  ("level", np.float32(.6)), ("flat", np.array([-1]))]), feeds


def cases():
    yield "non_zero", non_zero()
    yield "masked_select", masked_select()
    yield "masked_assign", masked_assign()
    yield "compress_flat", compress(None)
    yield "compress_axis", compress(1)
    yield "top_k", top_k()
    yield "slices", slices()
    yield "ranges", ranges()
    yield "expanded", expanded()
    yield "suppression", suppression(2**62)
    yield "suppression_few", suppression(7)
    yield "suppressed_twice", twice()


if __name__ == "__main__":
    sys.exit(main(cases, __doc__))
