# SPDX-License-Identifier: Apache-2.0
"""Models of few nodes whose values are huge."""
import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from parts import FLOAT, INT64, floats, ints, model, node, one_node, scalar, value


def pad_to(size: int, mode: str = "constant", shape=(4,)) -> ModelProto:
    rank = len(shape)
    return one_node("Pad", [ints("pads", *([0] * (2 * rank - 1)), size)], shape, mode=mode)


def resize_sizes(size: int, mode: str = "nearest", shape=(1, 1, 4), **how) -> ModelProto:
    start = list(shape[:-1])
    names = ["x", "", "", "sizes"]
    return model([node("Resize", names, ["y"], mode=mode, **how)], [value("x", list(shape))],
                 [value("y", [None] * len(shape))], [ints("sizes", *start, size)])


def resize_scale(scale: float, mode: str = "linear", **how) -> ModelProto:
    scales = numpy_helper.from_array(np.array([1, 1, scale], np.float32), "scales")
    return model([node("Resize", ["x", "", "scales"], ["y"], mode=mode, **how)], [value("x", [1, 1, 4])],
                 [value("y", [None] * 3)], [scales])


def upsample(scale: float) -> ModelProto:
    return one_node("Upsample", [numpy_helper.from_array(np.array([1, scale], np.float32), "scales")], (1, 4), 9,
                    mode="linear")


def expand_to(*shape: int) -> ModelProto:
    return one_node("Expand", [ints("shape", *shape)], (1,), out_rank=len(shape))


def constant_of_shape(*shape: int) -> ModelProto:
    nodes = [node("ConstantOfShape", ["shape"], ["c"]), node("Add", ["c", "x"], ["y"])]
    return model(nodes, [value("x", [1])], [value("y", [None] * len(shape))], [ints("shape", *shape)])


def range_to(limit: int, then: str = "Neg") -> ModelProto:
    nodes = [node("Range", ["zero", "limit", "one"], ["r"]), node(then, ["r"], ["n"]), node("Add", ["n", "x"], ["y"])]
    return model(nodes, [value("x", [1], INT64)], [value("y", [None], INT64)],
                 [scalar("zero", 0), scalar("limit", limit), scalar("one", 1)])


def tile(times: int) -> ModelProto:
    return one_node("Tile", [ints("repeats", times)])


def tiled_constant(times: int) -> ModelProto:
    nodes = [node("Tile", ["c", "repeats"], ["t"]), node("MatMul", ["x", "t"], ["y"])]
    return model(nodes, [value("x", [1, 64])], [value("y", [None, None])], [floats("c", 64, 64), ints("repeats", 1, times)])


def one_hot(depth: int) -> ModelProto:
    return one_node("OneHot", [scalar("depth", depth), numpy_helper.from_array(np.array([0, 1], np.float32), "values")],
                    (4,), dtype=INT64, out_type=FLOAT, out_rank=2)


def eye(size: int) -> ModelProto:
    nodes = [node("ConstantOfShape", ["shape"], ["c"]), node("EyeLike", ["c"], ["e"]), node("MatMul", ["x", "e"], ["y"])]
    return model(nodes, [value("x", [1, size])], [value("y", [None, None])], [ints("shape", size, size)])


def doubling_concats(count: int) -> ModelProto:
    """1.1 kB; of 28 the last constant has 4 GB."""
    nodes = [node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(count)]
    nodes.append(node("Add", ["x", f"c{count}"], ["y"]))
    return model(nodes, [value("x", [1])], [value("y", [None])], [floats("c0", 16)])


def doubling_weights(count: int) -> ModelProto:
    nodes = [node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=1) for i in range(count)]
    nodes.append(node("MatMul", ["x", f"c{count}"], ["y"]))
    return model(nodes, [value("x", [1, 16])], [value("y", [None, None])], [floats("c0", 16, 1)])


def outer_products(count: int) -> ModelProto:
    """Constants whose size is squared by each addition of a column and a row."""
    nodes = []
    for i in range(count):
        nodes += [node("Reshape", [f"c{i}", "column"], [f"l{i}"]), node("Reshape", [f"c{i}", "row"], [f"r{i}"]),
                  node("Add", [f"l{i}", f"r{i}"], [f"c{i + 1}"])]
    nodes += [node("Reshape", [f"c{count}", "matrix"], ["w"]), node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, [value("x", [1, 16])], [value("y", [None, None])],
                 [floats("c0", 16), ints("column", -1, 1), ints("row", 1, -1), ints("matrix", 16, -1)])


def conv_transpose(stride: int) -> ModelProto:
    return one_node("ConvTranspose", [floats("w", 1, 1, 3)], (1, 1, 4), strides=[stride])


def max_pool(kernel: int) -> ModelProto:
    return one_node("MaxPool", (), (1, 1, kernel), kernel_shape=[kernel], strides=[1])


def dft(size: int) -> ModelProto:
    return one_node("DFT", (), (1, size, 1), opset=17, axis=1)


def window(size: int) -> ModelProto:
    nodes = [node("HannWindow", ["size"], ["w"]), node("Add", ["w", "x"], ["y"])]
    return model(nodes, [value("x", [1])], [value("y", [None])], [scalar("size", size)])


def mel(bins: int) -> ModelProto:
    initializers = [scalar("bins", bins), scalar("dft", 1 << 30), scalar("rate", 16000),
                    numpy_helper.from_array(np.array(0.0, np.float32), "low"),
                    numpy_helper.from_array(np.array(8000.0, np.float32), "high")]
    nodes = [node("MelWeightMatrix", [each.name for each in initializers], ["w"]), node("Add", ["w", "x"], ["y"])]
    return model(nodes, [value("x", [1])], [value("y", [None, None])], initializers)


def gather_table(rows: int, columns: int) -> ModelProto:
    """An index table of constants that broadcast."""
    nodes = [node("Range", ["zero", "rows", "one"], ["r"]), node("Range", ["zero", "columns", "one"], ["c"]),
             node("Reshape", ["r", "column"], ["rr"]), node("Mul", ["rr", "columns"], ["rc"]),
             node("Add", ["rc", "c"], ["i"]), node("Gather", ["x", "i"], ["y"])]
    return model(nodes, [value("x", [rows * columns])], [value("y", [None, None])],
                 [scalar("zero", 0), scalar("one", 1), scalar("rows", rows), scalar("columns", columns),
                  ints("column", -1, 1)])


def sparse_constant(size: int) -> ModelProto:
    sparse = helper.make_sparse_tensor(helper.make_tensor("v", FLOAT, [1], [1.0]),
                                       helper.make_tensor("i", INT64, [1], [3]), [size])
    nodes = [node("Constant", [], ["c"], sparse_value=sparse), node("Add", ["c", "x"], ["y"])]
    return model(nodes, [value("x", [1])], [value("y", [None])])


def roi_grid(size: int) -> ModelProto:
    nodes = [node("AffineGrid", ["theta", "size"], ["y"], align_corners=1)]
    return model(nodes, [value("theta", [1, 2, 3])], [value("y", [None] * 4)], [ints("size", 1, 1, size, size)], 20)


def negative_dims() -> ModelProto:
    return one_node("Expand", [ints("shape", -4, -(1 << 40))], (1,), out_rank=2)


def large_rank(rank: int) -> ModelProto:
    return one_node("Reshape", [ints("shape", *([1] * rank), 4)], (4,), out_rank=rank + 1)


def declared_constant(size: int) -> ModelProto:
    """A tensor of few bytes that says it has many."""
    tensor = TensorProto()
    tensor.name, tensor.data_type = "c", FLOAT
    tensor.dims.append(size)
    tensor.raw_data = b"\0\0\0\0"
    return model([node("Add", ["x", "c"], ["y"])], [value("x", [1])], [value("y", [None])], [tensor])
