"""Small models that ask for much: a few kilobytes that mean gigabytes, minutes or endless depth.

Each function makes one model. Its row in MODELS says what is allowed to become of it: "compiles", "refused" (one clear
error), or "either".
"""
import random
from collections.abc import Callable

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPSET = 18


def value(name: str, shape, dtype: int = FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def ints(name: str, *numbers: int) -> TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def scalar(name: str, number: int) -> TensorProto:
    return numpy_helper.from_array(np.array(number, np.int64), name)


def floats(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.full(shape, 0.5, np.float32), name)


def node(op: str, inputs, outputs, **attributes) -> NodeProto:
    """As helper.make_node, at a tenth of its time where there are no attributes."""
    if attributes:
        return helper.make_node(op, inputs, outputs, **attributes)
    made = NodeProto()
    made.op_type = op
    made.input.extend(inputs)
    made.output.extend(outputs)
    return made


def model(nodes, inputs, outputs, initializers=(), opset: int = OPSET, functions=()) -> ModelProto:
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    opsets = [helper.make_opsetid("", opset)]
    if functions:
        opsets.append(helper.make_opsetid("local", 1))
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    made.ir_version = 8
    return made


def one_node(op: str, initializers=(), shape=(4,), opset: int = OPSET, dtype: int = FLOAT, out_type: int = 0,
             out_rank: int | None = None, **attributes) -> ModelProto:
    """`op` of input x and the initializers, in order."""
    names = ["x"] + [each.name for each in initializers]
    out = value("y", [None] * (len(shape) if out_rank is None else out_rank), out_type or dtype)
    return model([node(op, names, ["y"], **attributes)], [value("x", list(shape), dtype)], [out], initializers, opset)


# Sizes.

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


# Chains.

def chain(count: int, op: str = "Relu", shape=(4,)) -> ModelProto:
    nodes = [node(op, [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", list(shape))], [value(f"v{count}", list(shape))])


def chain_of_two(count: int, ops=("Tanh", "Sigmoid"), shape=(4,)) -> ModelProto:
    nodes = [node(ops[i % len(ops)], [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", list(shape))], [value(f"v{count}", list(shape))])


def chain_with_x(count: int, op: str = "Add") -> ModelProto:
    nodes = [node(op, [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4]), value("x", [4])], [value(f"v{count}", [4])])


def chain_with_constant(count: int, op: str = "Mul") -> ModelProto:
    nodes = [node(op, [f"v{i}", "c"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", [4])], [floats("c", 1)])


def chain_of_three(count: int, op: str = "Div") -> ModelProto:
    """v = op(v, w), w = op(w, u), u = op(u, v): three values that each step mixes."""
    names, nodes = ["x", "z", "u"], []
    for i in range(count):
        at = i % 3
        nodes.append(node(op, [names[at], names[(at + 1) % 3]], [f"v{i}"]))
        names[at] = f"v{i}"
    return model(nodes, [value(each, [4]) for each in ("x", "z", "u")], [value(each, [4]) for each in names])


def squares(count: int, op: str = "Mul") -> ModelProto:
    nodes = [node(op, [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", [4])])


def fibonacci(count: int, op: str = "Add") -> ModelProto:
    nodes = [node(op, [f"v{i}", f"v{i + 1}"], [f"v{i + 2}"]) for i in range(count)]
    return model(nodes, [value("v0", [4]), value("v1", [4])], [value(f"v{count + 1}", [4])])


def chain_of_products(count: int) -> ModelProto:
    nodes = [node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4, 4])], [value(f"v{count}", [4, 4])], [floats("w", 4, 4)])


def chain_of_softmaxes(count: int) -> ModelProto:
    nodes = [node("Softmax", [f"v{i}"], [f"v{i + 1}"], axis=-1) for i in range(count)]
    return model(nodes, [value("v0", [4, 4])], [value(f"v{count}", [4, 4])])


def chain_of_reductions(count: int) -> ModelProto:
    nodes = []
    for i in range(count):
        nodes += [node("ReduceMean", [f"v{i}"], [f"m{i}"], keepdims=1), node("Sub", [f"v{i}", f"m{i}"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [4, 4])], [value(f"v{count}", [4, 4])])


def chain_of_views(count: int) -> ModelProto:
    """Reshape and transpose in turns, which no two of cancel."""
    nodes = []
    for i in range(count):
        nodes += [node("Reshape", [f"v{i}", "a" if i % 2 else "b"], [f"r{i}"]),
                  node("Transpose", [f"r{i}"], [f"v{i + 1}"], perm=[1, 0])]
    return model(nodes, [value("v0", [6, 10])], [value(f"v{count}", None)], [ints("a", 6, 10), ints("b", 4, 15)])


def tower_of_views(count: int) -> ModelProto:
    """The same with arithmetic in between and dimensions without common factors."""
    nodes = []
    for i in range(count):
        nodes += [node("Reshape", [f"v{i}", f"s{i % 3}"], [f"r{i}"]),
                  node("Transpose", [f"r{i}"], [f"t{i}"], perm=[2, 0, 1]),
                  node("Add", [f"t{i}", f"t{i}" if i % 2 else "one"], [f"v{i + 1}"])]
    shapes = [ints("s0", 7, 60, 11), ints("s1", 10, 77, 6), ints("s2", 4, 21, 55)]
    return model(nodes, [value("v0", [60, 77])], [value(f"v{count}", None)], shapes + [floats("one", 1)])


def symbolic_views(count: int) -> ModelProto:
    """Windows of a picture of unknown size, as vision transformers cut them, joined again."""
    nodes = []
    for i in range(count):
        nodes += [node("Reshape", [f"v{i}", "cut"], [f"r{i}"]),
                  node("Transpose", [f"r{i}"], [f"t{i}"], perm=[0, 2, 1, 3]),
                  node("Reshape", [f"t{i}", "join"], [f"j{i}"]),
                  node("Add", [f"j{i}", f"v{i}"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", ["n", 12, 35])], [value(f"v{count}", None)],
                 [ints("cut", 0, 4, 3, 35), ints("join", 0, 12, 35)])


def chain_of_slices_and_concats(count: int) -> ModelProto:
    nodes = []
    for i in range(count):
        nodes += [node("Slice", [f"v{i}", "one", "end"], [f"a{i}"]), node("Slice", [f"v{i}", "zero", "one"], [f"b{i}"]),
                  node("Concat", [f"a{i}", f"b{i}"], [f"v{i + 1}"], axis=0)]
    return model(nodes, [value("v0", [8])], [value(f"v{count}", None)], [ints("zero", 0), ints("one", 1), ints("end", 8)])


def shuffled_channels(count: int) -> ModelProto:
    """ShuffleNet's units: split, work on one half, join, shuffle."""
    nodes = []
    for i in range(count):
        nodes += [node("Split", [f"v{i}"], [f"a{i}", f"b{i}"], axis=1, num_outputs=2),
                  node("Relu", [f"b{i}"], [f"c{i}"]), node("Concat", [f"a{i}", f"c{i}"], [f"d{i}"], axis=1),
                  node("Reshape", [f"d{i}", "apart"], [f"e{i}"]),
                  node("Transpose", [f"e{i}"], [f"f{i}"], perm=[0, 2, 1, 3, 4]),
                  node("Reshape", [f"f{i}", "together"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [1, 16, 4, 4])], [value(f"v{count}", None)],
                 [ints("apart", 1, 2, 8, 4, 4), ints("together", 1, 16, 4, 4)])


def shuffled_convolutions(count: int) -> ModelProto:
    nodes = []
    for i in range(count):
        nodes += [node("Split", [f"v{i}"], [f"a{i}", f"b{i}"], axis=1, num_outputs=2),
                  node("Conv", [f"b{i}", "w"], [f"k{i}"], pads=[1, 1, 1, 1]), node("Relu", [f"k{i}"], [f"c{i}"]),
                  node("Concat", [f"a{i}", f"c{i}"], [f"d{i}"], axis=1),
                  node("Reshape", [f"d{i}", "apart"], [f"e{i}"]),
                  node("Transpose", [f"e{i}"], [f"f{i}"], perm=[0, 2, 1, 3, 4]),
                  node("Reshape", [f"f{i}", "together"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [1, 16, 4, 4])], [value(f"v{count}", None)],
                 [ints("apart", 1, 2, 8, 4, 4), ints("together", 1, 16, 4, 4), floats("w", 8, 8, 3, 3)])


def chain_of_pads(count: int) -> ModelProto:
    nodes = [node("Pad", [f"v{i}", "pads"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", None)], [ints("pads", 1, 1)])


def chain_of_gathers(count: int) -> ModelProto:
    nodes = [node("Gather", [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4]), value("x", [4], INT64)], [value(f"v{count}", None)])


def chain_of_casts(count: int) -> ModelProto:
    nodes = [node("Cast", [f"v{i}"], [f"v{i + 1}"], to=INT64 if i % 2 == 0 else FLOAT) for i in range(count)]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", [4], FLOAT if count % 2 == 0 else INT64)])


def chain_of_shapes(count: int) -> ModelProto:
    """Sizes that are computed from sizes."""
    nodes = [node("Shape", ["x"], ["s0"])]
    nodes += [node("Add", [f"s{i}", "s0"], [f"s{i + 1}"]) for i in range(count)]
    nodes += [node("ConstantOfShape", [f"s{count}"], ["c"]), node("Add", ["c", "y"], ["z"])]
    return model(nodes, [value("x", ["n"]), value("y", [1])], [value("z", [None])])


def divided_sizes(count: int) -> ModelProto:
    nodes = [node("Shape", ["x"], ["s0"])]
    for i in range(count):
        nodes += [node("Add", [f"s{i}", "three"], [f"a{i}"]), node("Div", [f"a{i}", "two"], [f"d{i}"]),
                  node("Max", [f"d{i}", "one"], [f"m{i}"]), node("Add", [f"m{i}", "s0"], [f"s{i + 1}"])]
    nodes += [node("ConstantOfShape", [f"s{count}"], ["c"]), node("Add", ["c", "y"], ["z"])]
    return model(nodes, [value("x", ["n"]), value("y", [1])], [value("z", [None])],
                 [ints("one", 1), ints("two", 2), ints("three", 3)])


def chain_of_norms(count: int) -> ModelProto:
    """LayerNorms and GELUs as exporters spell them, each upon the last."""
    nodes = []
    for i in range(count):
        nodes += [node("ReduceMean", [f"v{i}"], [f"m{i}"], axes=[-1]), node("Sub", [f"v{i}", f"m{i}"], [f"d{i}"]),
                  node("Mul", [f"d{i}", f"d{i}"], [f"q{i}"]), node("ReduceMean", [f"q{i}"], [f"s{i}"], axes=[-1]),
                  node("Add", [f"s{i}", "eps"], [f"e{i}"]), node("Sqrt", [f"e{i}"], [f"r{i}"]),
                  node("Div", [f"d{i}", f"r{i}"], [f"n{i}"]), node("Mul", [f"n{i}", "scale"], [f"k{i}"]),
                  node("Add", [f"k{i}", "scale"], [f"l{i}"]), node("Add", [f"l{i}", f"v{i}"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [4, 16])], [value(f"v{count}", [4, 16])], [floats("eps", 1), floats("scale", 16)], 13)


def same_nodes(count: int) -> ModelProto:
    """Nodes that compute the same, which become one of as many origins."""
    nodes = [node("Relu", ["x"], [f"v{i}"]) for i in range(count)]
    nodes.append(node("Sum", [f"v{i}" for i in range(count)], ["y"]))
    return model(nodes, [value("x", [4])], [value("y", [4])])


def many_outputs(count: int) -> ModelProto:
    ops = ["Relu", "Neg", "Abs", "Exp"]
    nodes = [node(ops[i % 4], [f"v{i // 4}" if i >= 4 else "x"], [f"v{i}"]) for i in range(4, count)]
    nodes = [node("Relu", ["x"], ["v0"]), node("Neg", ["x"], ["v1"]), node("Abs", ["x"], ["v2"]),
             node("Exp", ["x"], ["v3"])] + nodes
    return model(nodes, [value("x", [4])], [value(f"v{i}", [4]) for i in range(count)])


def same_output(count: int) -> ModelProto:
    nodes = [node("Identity", ["x"], [f"v{i}"]) for i in range(count)]
    return model(nodes, [value("x", [4])], [value(f"v{i}", [4]) for i in range(count)])


def many_inputs(count: int, op: str = "Sum") -> ModelProto:
    how = {"axis": 0} if op == "Concat" else {}
    return model([node(op, [f"x{i}" for i in range(count)], ["y"], **how)], [value(f"x{i}", [4]) for i in range(count)],
                 [value("y", [None])])


def unused_inputs(count: int) -> ModelProto:
    return model([node("Relu", ["x0"], ["y"])], [value(f"x{i}", [4]) for i in range(count)], [value("y", [4])])


def pieces(count: int, then: str) -> ModelProto:
    names = [f"p{i}" for i in range(count)]
    nodes = [node("Split", ["x"], names, axis=0, num_outputs=count)]
    if then == "outputs":
        return model(nodes, [value("x", [count])], [value(name, [1]) for name in names])
    if then == "changed":
        nodes += [node("Relu" if i % 2 else "Exp", [name], [f"q{i}"]) for i, name in enumerate(names)]
        names = [f"q{i}" for i in range(count)]
    nodes.append(node("Sum", names, ["y"]) if then == "summed" else node("Concat", names, ["y"], axis=0))
    return model(nodes, [value("x", [count])], [value("y", [None])])


def symbols(count: int) -> ModelProto:
    """Every input has a dimension of its own."""
    return model([node("Concat", [f"x{i}" for i in range(count)], ["y"], axis=0)],
                 [value(f"x{i}", [f"n{i}"]) for i in range(count)], [value("y", [None])])


def symbols_apart(count: int) -> ModelProto:
    nodes = [node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(count)]
    return model(nodes, [value(f"x{i}", [f"n{i}"]) for i in range(count)],
                 [value(f"y{i}", [f"n{i}"]) for i in range(count)])


def rank_of_symbols(count: int) -> ModelProto:
    return one_node("Relu", (), [f"n{i}" for i in range(count)])


def product_of_symbols(count: int) -> ModelProto:
    return model([node("Reshape", ["x", "flat"], ["r"]), node("Exp", ["r"], ["y"])],
                 [value("x", [f"n{i}" for i in range(count)])], [value("y", [None])], [ints("flat", -1)])


def powers_of_sums(count: int) -> ModelProto:
    """(a + b)^2^count elements."""
    nodes = [node("Concat", ["x", "z"], ["v0"], axis=0)]
    for i in range(count):
        nodes += [node("Reshape", [f"v{i}", "column"], [f"l{i}"]), node("Reshape", [f"v{i}", "row"], [f"r{i}"]),
                  node("Mul", [f"l{i}", f"r{i}"], [f"m{i}"]), node("Reshape", [f"m{i}", "flat"], [f"v{i + 1}"])]
    return model(nodes, [value("x", ["a"]), value("z", ["b"])], [value(f"v{count}", [None])],
                 [ints("column", -1, 1), ints("row", 1, -1), ints("flat", -1)])


def random_graph(count: int, seed: int = 0) -> ModelProto:
    draw = random.Random(seed)
    names, nodes = ["x", "z"], []
    for i in range(count):
        a, b = draw.choice(names[-50:]), draw.choice(names[-50:])
        if draw.random() < 0.5:
            nodes.append(node(draw.choice(["Relu", "Tanh", "Neg", "Exp", "Sqrt"]), [a], [f"v{i}"]))
        else:
            nodes.append(node(draw.choice(["Add", "Mul", "Sub", "Max"]), [a, b], [f"v{i}"]))
        names.append(f"v{i}")
    return model(nodes, [value("x", [4, 4]), value("z", [4, 4])], [value(name, [4, 4]) for name in names[-8:]])


def random_mix(count: int, seed: int = 1) -> ModelProto:
    """Reductions, products and transposes among arithmetic."""
    draw = random.Random(seed)
    names, nodes = ["x", "z"], []
    for i in range(count):
        a, b = draw.choice(names[-20:]), draw.choice(names[-20:])
        kind = draw.randrange(6)
        if kind == 0:
            nodes.append(node("MatMul", [a, b], [f"v{i}"]))
        elif kind == 1:
            nodes.append(node("Transpose", [a], [f"v{i}"], perm=[1, 0]))
        elif kind == 2:
            nodes += [node("ReduceSum", [a, "axis"], [f"s{i}"]), node("Sub", [b, f"s{i}"], [f"v{i}"])]
        else:
            nodes.append(node(draw.choice(["Add", "Mul", "Sub", "Max"]), [a, b], [f"v{i}"]))
        names.append(f"v{i}")
    return model(nodes, [value("x", [4, 4]), value("z", [4, 4])], [value(name, [4, 4]) for name in names[-4:]],
                 [ints("axis", 1)])


def butterfly(width: int, depth: int) -> ModelProto:
    """Every value of a level is read twice by the next."""
    names = [f"x{i}" for i in range(width)]
    inputs, nodes = [value(name, [4]) for name in names], []
    for level in range(depth):
        step = 1 << (level % max(1, width.bit_length() - 1))
        after = []
        for i in range(width):
            after.append(f"v{level}_{i}")
            nodes.append(node("Add" if i & step else "Sub", [names[i], names[i ^ step]], [after[-1]]))
        names = after
    return model(nodes, inputs, [value(name, [4]) for name in names])


def unsorted_chain(count: int) -> ModelProto:
    made = chain(count)
    nodes = list(made.graph.node)[::-1]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


# Control flow, recurrent layers, functions.

def branch(nodes, outputs, initializers=()) -> GraphProto:
    return helper.make_graph(list(nodes), "b", [], list(outputs), list(initializers))


def nested_ifs(depth: int, both: bool = True) -> ModelProto:
    """Both branches of each condition hold the next: 2^depth copies."""

    def level(at: int) -> GraphProto:
        name = f"y{at}"
        if at == depth:
            return branch([node("Relu", ["x"], [name])], [value(name, [4])])
        then = level(at + 1)
        other = then if both else branch([node("Neg", ["x"], [f"y{at + 1}"])], [value(f"y{at + 1}", [4])])
        return branch([node("If", ["c"], [name], then_branch=then, else_branch=other)], [value(name, [4])])

    top = level(0)
    return model(list(top.node), [value("x", [4]), value("c", [], BOOL)], [value("y0", [4])])


def loop(trips: int, body_nodes: int = 1, nested: int = 0) -> ModelProto:
    def body(at: int) -> GraphProto:
        nodes = [node("Identity", [f"go{at}"], [f"on{at}"])]
        if at < nested:
            nodes.append(node("Loop", ["trips", "", f"v{at}"], [f"w{at}"], body=body(at + 1)))
        else:
            ops = ["Tanh", "Exp"]
            nodes += [node(ops[i % 2], [f"v{at}" if i == 0 else f"t{at}_{i}"],
                           [f"w{at}" if i + 1 == body_nodes else f"t{at}_{i + 1}"]) for i in range(body_nodes)]
        return helper.make_graph(nodes, f"body{at}", [value(f"i{at}", [], INT64), value(f"go{at}", [], BOOL),
                                                      value(f"v{at}", [4])],
                                 [value(f"on{at}", [], BOOL), value(f"w{at}", [4])])

    return model([node("Loop", ["trips", "", "x"], ["y"], body=body(0))], [value("x", [4])], [value("y", [4])],
                 [scalar("trips", trips)])


def scan(length: int, width: int = 1) -> ModelProto:
    nodes = [node("Add", ["s", "e"], ["t0"])]
    nodes += [node("Tanh" if i % 2 else "Sigmoid", [f"t{i}"], [f"t{i + 1}"]) for i in range(width)]
    nodes.append(node("Identity", [f"t{width}"], ["o"]))
    body = helper.make_graph(nodes, "body", [value("s", [4]), value("e", [4])],
                             [value(f"t{width}", [4]), value("o", [4])])
    return model([node("Scan", ["s0", "x"], ["last", "all"], body=body, num_scan_inputs=1)],
                 [value("s0", [4]), value("x", [length, 4])], [value("last", [4]), value("all", [length, 4])])


def recurrent(op: str, length: int, gates: int, direction: str = "forward") -> ModelProto:
    ways = 2 if direction == "bidirectional" else 1
    hidden, size = 8, 8
    return model([node(op, ["x", "w", "r"], ["y"], hidden_size=hidden, direction=direction)],
                 [value("x", [length, 1, size])], [value("y", [length, ways, 1, hidden])],
                 [floats("w", ways, gates * hidden, size), floats("r", ways, gates * hidden, hidden)], 14)


def stacked_recurrent(op: str, layers: int, length: int, gates: int) -> ModelProto:
    nodes, hidden = [], 8
    for i in range(layers):
        nodes += [node(op, [f"v{i}", "w", "r"], [f"y{i}"], hidden_size=hidden),
                  node("Squeeze", [f"y{i}", "one"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [length, 1, hidden])], [value(f"v{layers}", None)],
                 [floats("w", 1, gates * hidden, hidden), floats("r", 1, gates * hidden, hidden), ints("one", 1)], 14)


def functions(depth: int, calls: int = 2) -> ModelProto:
    made = []
    for i in range(depth):
        nodes, last = [], "a"
        for k in range(calls):
            out = f"t{k}"
            inner = helper.make_node(f"F{i + 1}", [last], [out], domain="local") if i + 1 < depth else node("Tanh", [last], [out])
            nodes.append(inner)
            last = out
        made.append(helper.make_function("local", f"F{i}", ["a"], [last], nodes,
                                         [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]))
    return model([helper.make_node("F0", ["x"], ["y"], domain="local")], [value("x", [4])], [value("y", [4])],
                 functions=made)


def einsum(letters: int) -> ModelProto:
    names = "abcdefghijklmnopqrstuvwxyz"[:letters]
    return one_node("Einsum", (), [2] * letters, equation=f"{names}->{names[::-1]}", out_rank=letters)


def einsum_of_many(count: int) -> ModelProto:
    equation = ",".join(["ij"] * count) + "->ij"
    return model([node("Einsum", [f"x{i}" for i in range(count)], ["y"], equation=equation)],
                 [value(f"x{i}", [4, 4]) for i in range(count)], [value("y", [4, 4])])


def suppression(boxes: int, most: int) -> ModelProto:
    nodes = [node("NonMaxSuppression", ["b", "s", "most"], ["y"])]
    return model(nodes, [value("b", [1, boxes, 4]), value("s", [1, 1, boxes])], [value("y", [None, 3], INT64)],
                 [ints("most", most)])


def long_names(count: int, length: int) -> ModelProto:
    made = chain(count)
    for i, each in enumerate(made.graph.node):
        each.name = f"{i}_" + "n" * length
    return made


def separable_sum(count: int) -> ModelProto:
    """Sums of many terms, of which each may be any of a pattern's."""
    nodes, names = [], []
    for i in range(count):
        nodes.append(node("Mul", [f"x{i % 4}", f"x{(i + 1) % 4}"] if i % 2 else [f"x{i % 4}", "c"], [f"t{i}"]))
        names.append(f"t{i}")
    while len(names) > 1:
        after = []
        for i in range(0, len(names) - 1, 2):
            after.append(f"u{len(nodes)}")
            nodes.append(node("Add", [names[i], names[i + 1]], [after[-1]]))
        names = after + names[len(names) - len(names) % 2:]
    return model(nodes, [value(f"x{i}", [4]) for i in range(4)], [value(names[0], [4])], [floats("c", 4)])


def unrolled_gelus(count: int) -> ModelProto:
    nodes = []
    for i in range(count):
        nodes += [node("Mul", [f"v{i}", "c"], [f"a{i}"]), node("Erf", [f"a{i}"], [f"b{i}"]),
                  node("Add", [f"b{i}", "c"], [f"d{i}"]), node("Mul", [f"v{i}", f"d{i}"], [f"e{i}"]),
                  node("Mul", [f"e{i}", "c"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", [4])], [floats("c", 1)])


Row = tuple[str, Callable[[], ModelProto]]

# What may become of each, and how it is made. One that is slow stands in SLOW, too.
MODELS: dict[str, Row] = {
    "pad_2_40": ("either", lambda: pad_to(1 << 40)),
    "pad_2_62": ("refused", lambda: pad_to(1 << 62)),
    "pad_edge_2_40": ("either", lambda: pad_to(1 << 40, "edge")),
    "pad_reflect_2_31": ("either", lambda: pad_to(1 << 31, "reflect")),
    "pad_wrap_1e9": ("either", lambda: pad_to(10**9, "wrap")),
    "resize_nearest_2_40": ("either", lambda: resize_sizes(1 << 40)),
    "resize_linear_2_40": ("either", lambda: resize_sizes(1 << 40, "linear")),
    "resize_cubic_2_31": ("either", lambda: resize_sizes(1 << 31, "cubic")),
    "resize_antialias_2_34": ("refused", lambda: resize_sizes(1 << 34, "linear", antialias=1)),
    "resize_antialias_5e4": ("refused", lambda: resize_sizes(50_000, "linear", (1, 1, 50_001), antialias=1)),
    "resize_crop_2_40": ("either", lambda: resize_sizes(1 << 40, "nearest", coordinate_transformation_mode="align_corners")),
    "resize_by_1e9": ("either", lambda: resize_scale(1e9)),
    "resize_by_1e9_nearest": ("either", lambda: resize_scale(1e9, "nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")),
    "upsample_by_1e9": ("either", lambda: upsample(1e9)),
    "expand_2_60": ("refused", lambda: expand_to(1 << 30, 1 << 30)),
    "expand_2_40": ("either", lambda: expand_to(1 << 40)),
    "constant_of_shape_2_40": ("either", lambda: constant_of_shape(1 << 40)),
    "constant_of_shape_2_47": ("either", lambda: constant_of_shape(1 << 47)),
    "range_1e12": ("either", lambda: range_to(10**12)),
    "range_of_range": ("either", lambda: range_to(1 << 33, "Abs")),
    "tile_2_45": ("either", lambda: tile(1 << 45)),
    "tiled_constant_2_24": ("either", lambda: tiled_constant(1 << 24)),
    "one_hot_2_40": ("either", lambda: one_hot(1 << 40)),
    "eye_1e5": ("either", lambda: eye(100_000)),
    "doubling_concats": ("either", lambda: doubling_concats(28)),
    "doubling_weights": ("either", lambda: doubling_weights(28)),
    "outer_products": ("either", lambda: outer_products(3)),
    "conv_transpose_1e9": ("either", lambda: conv_transpose(10**9)),
    "max_pool_1e9": ("either", lambda: max_pool(10**9)),
    "dft_2_20": ("either", lambda: dft(1 << 20)),
    "window_1e9": ("either", lambda: window(10**9)),
    "mel_1e9": ("either", lambda: mel(10**9)),
    "gather_table": ("either", lambda: gather_table(1 << 16, 1 << 15)),
    "sparse_2_40": ("refused", lambda: sparse_constant(1 << 40)),
    "affine_grid_1e6": ("either", lambda: roi_grid(10**6)),
    "negative_dims": ("refused", negative_dims),
    "rank_100": ("refused", lambda: large_rank(100)),
    "declared_constant": ("refused", lambda: declared_constant(1 << 40)),
    "chain_of_1e5": ("either", lambda: chain_of_two(100_000)),
    "chain_of_one_operator": ("either", lambda: chain(100_000, "Tanh")),
    "chain_of_relus": ("compiles", lambda: chain(20_000)),
    "chain_of_sums": ("either", lambda: chain_with_x(20_000)),
    "chain_of_scales": ("either", lambda: chain_with_constant(20_000)),
    "chain_of_differences": ("either", lambda: chain_with_x(20_000, "Sub")),
    "chain_of_three_div": ("either", lambda: chain_of_three(3_000)),
    "chain_of_three_sub": ("either", lambda: chain_of_three(3_000, "Sub")),
    "squares_200": ("compiles", lambda: squares(200)),
    "squares_2000": ("either", lambda: squares(2_000)),
    "doubles_2000": ("either", lambda: squares(2_000, "Add")),
    "fibonacci_add": ("either", lambda: fibonacci(2_000)),
    "fibonacci_mul": ("either", lambda: fibonacci(2_000, "Mul")),
    "chain_of_products": ("either", lambda: chain_of_products(5_000)),
    "chain_of_softmaxes": ("either", lambda: chain_of_softmaxes(3_000)),
    "chain_of_reductions": ("either", lambda: chain_of_reductions(3_000)),
    "chain_of_norms": ("compiles", lambda: chain_of_norms(300)),
    "unrolled_gelus": ("either", lambda: unrolled_gelus(2_000)),
    "chain_of_views": ("either", lambda: chain_of_views(3_000)),
    "tower_of_views": ("either", lambda: tower_of_views(300)),
    "symbolic_views": ("either", lambda: symbolic_views(500)),
    "chain_of_slices_and_concats": ("either", lambda: chain_of_slices_and_concats(400)),
    "shuffled_channels": ("compiles", lambda: shuffled_channels(60)),
    "shuffled_convolutions": ("compiles", lambda: shuffled_convolutions(60)),
    "chain_of_pads": ("either", lambda: chain_of_pads(3_000)),
    "chain_of_gathers": ("either", lambda: chain_of_gathers(3_000)),
    "chain_of_casts": ("either", lambda: chain_of_casts(20_000)),
    "chain_of_shapes": ("either", lambda: chain_of_shapes(10_000)),
    "divided_sizes": ("either", lambda: divided_sizes(1_000)),
    "same_nodes": ("compiles", lambda: same_nodes(50_000)),
    "many_outputs": ("either", lambda: many_outputs(20_000)),
    "same_output": ("either", lambda: same_output(100_000)),
    "many_inputs_summed": ("either", lambda: many_inputs(20_000)),
    "many_inputs_concatenated": ("either", lambda: many_inputs(20_000, "Concat")),
    "unused_inputs": ("either", lambda: unused_inputs(100_000)),
    "many_pieces_outputs": ("either", lambda: pieces(20_000, "outputs")),
    "many_pieces_summed": ("either", lambda: pieces(20_000, "summed")),
    "many_pieces_joined": ("either", lambda: pieces(20_000, "joined")),
    "many_pieces_changed": ("either", lambda: pieces(2_000, "changed")),
    "symbols_1e4": ("either", lambda: symbols(10_000)),
    "symbols_apart": ("either", lambda: symbols_apart(5_000)),
    "rank_of_1000_symbols": ("refused", lambda: rank_of_symbols(1_000)),
    "rank_of_32_symbols": ("compiles", lambda: rank_of_symbols(32)),
    "product_of_symbols": ("either", lambda: product_of_symbols(30)),
    "powers_of_sums": ("either", lambda: powers_of_sums(8)),
    "random_graph": ("either", lambda: random_graph(20_000)),
    "random_mix": ("either", lambda: random_mix(2_000)),
    "butterfly": ("either", lambda: butterfly(64, 60)),
    "unsorted_chain": ("either", lambda: unsorted_chain(20_000)),
    "nested_ifs": ("either", lambda: nested_ifs(16)),
    "deep_ifs": ("either", lambda: nested_ifs(20, False)),
    "loop_of_1024": ("either", lambda: loop(1024)),
    "loop_of_1e9": ("refused", lambda: loop(10**9)),
    "loops_in_loops": ("refused", lambda: loop(1000, nested=2)),
    "deep_loops": ("either", lambda: loop(1, nested=30)),
    "loop_of_long_body": ("either", lambda: loop(1000, 50)),
    "scan_of_1024": ("either", lambda: scan(1024)),
    "scan_of_long_body": ("either", lambda: scan(1024, 20)),
    "lstm_of_58": ("compiles", lambda: recurrent("LSTM", 58, 4)),
    "lstm_of_256": ("either", lambda: recurrent("LSTM", 256, 4)),
    "lstm_of_1024": ("either", lambda: recurrent("LSTM", 1024, 4)),
    "gru_of_1024": ("either", lambda: recurrent("GRU", 1024, 3)),
    "rnn_of_1024": ("either", lambda: recurrent("RNN", 1024, 1, "bidirectional")),
    "stacked_lstms": ("either", lambda: stacked_recurrent("LSTM", 8, 100, 4)),
    "functions_2_30": ("refused", lambda: functions(30)),
    "functions_deep": ("refused", lambda: functions(200, 1)),
    "einsum_26": ("either", lambda: einsum(26)),
    "einsum_of_many": ("either", lambda: einsum_of_many(200)),
    "suppression": ("either", lambda: suppression(1 << 16, 1 << 40)),
    "long_names": ("either", lambda: long_names(2_000, 5_000)),
    "separable_sum": ("either", lambda: separable_sum(2_000)),
}

# Those that take more than a second: nightly.
SLOW = {
    "chain_of_1e5", "chain_of_one_operator", "chain_of_scales", "chain_of_slices_and_concats", "lstm_of_1024",
    "lstm_of_256", "gru_of_1024", "stacked_lstms", "many_pieces_outputs", "many_pieces_summed", "many_pieces_joined",
    "same_nodes", "random_graph", "symbolic_views", "nested_ifs", "loop_of_long_body", "scan_of_long_body",
    "many_inputs_summed", "many_outputs", "unsorted_chain", "chain_of_relus", "chain_of_sums", "chain_of_differences",
    "chain_of_casts", "unrolled_gelus", "product_of_symbols", "butterfly", "chain_of_softmaxes", "rnn_of_1024",
}
